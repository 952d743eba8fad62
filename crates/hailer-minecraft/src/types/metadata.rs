//! Entity metadata (spec/minecraft-12w.md#4.5).

use super::{Wire, WireString};
use crate::build::Build;
use crate::sample::SampleRng;
use hailer_proto::wire::{Error, ErrorKind, Reader};
use serde::Serialize;
use std::fmt;

/// End of the list. It equals type 3 with index 31, so that pair cannot be sent.
const END: u8 = 127;
/// More than all pairs of type and index. Real entities have at most seven entries.
const MAX_ENTRIES: usize = 256;

/// Visible properties of an entity, in the order of the packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Metadata(Vec<MetadataEntry>);

/// Entry of the metadata.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MetadataEntry {
    index: u8,
    value: MetadataValue,
}

/// Value of an entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the types of the wire")]
pub enum MetadataValue {
    Byte(i8),
    Short(i16),
    Int(i32),
    Float(f32),
    WireString(WireString<64>),
    Item { id: i16, count: i8, damage: i16 },
    Position { x: i32, y: i32, z: i32 },
}

impl Metadata {
    /// Adds a value. Indices are 0 to 31; a float at index 31 cannot be sent. Invalid entries are
    /// left out.
    #[must_use]
    pub fn with(mut self, index: u8, value: MetadataValue) -> Self {
        if index < 32 && key(index, &value) != END && self.0.len() < MAX_ENTRIES {
            self.0.push(MetadataEntry { index, value });
        }
        self
    }

    /// Returns the last value of an index.
    pub fn get(&self, index: u8) -> Option<&MetadataValue> {
        self.0
            .iter()
            .rfind(|entry| entry.index == index)
            .map(|entry| &entry.value)
    }

    /// Returns all values with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (u8, &MetadataValue)> {
        self.0.iter().map(|entry| (entry.index, &entry.value))
    }
}

fn key(index: u8, value: &MetadataValue) -> u8 {
    let kind = match value {
        MetadataValue::Byte(_) => 0,
        MetadataValue::Short(_) => 1,
        MetadataValue::Int(_) => 2,
        MetadataValue::Float(_) => 3,
        MetadataValue::WireString(_) => 4,
        MetadataValue::Item { .. } => 5,
        MetadataValue::Position { .. } => 6,
    };
    kind << 5 | index
}

impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, MetadataEntry { index, value }) in self.0.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{index}: {value}")?;
        }
        f.write_str("}")
    }
}

impl fmt::Display for MetadataValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte(value) => value.fmt(f),
            Self::Short(value) => value.fmt(f),
            Self::Int(value) => value.fmt(f),
            Self::Float(value) => value.fmt(f),
            Self::WireString(value) => write!(f, "{value:?}"),
            Self::Item { id, count, damage } => write!(f, "{count}x{id}:{damage}"),
            Self::Position { x, y, z } => write!(f, "({x}, {y}, {z})"),
        }
    }
}

impl Wire for Metadata {
    const MIN: usize = 1;

    fn read(reader: &mut Reader<'_, '_>, build: Build, field: &'static str) -> Result<Self, Error> {
        let mut entries = Vec::new();
        loop {
            let at = reader.at();
            let key = reader.u8(field)?;
            if key == END {
                return Ok(Self(entries));
            }
            if entries.len() == MAX_ENTRIES {
                return Err(Error {
                    field,
                    at,
                    kind: ErrorKind::Limit { limit: MAX_ENTRIES },
                });
            }
            let value = match key >> 5 {
                0 => MetadataValue::Byte(reader.i8("byte")?),
                1 => MetadataValue::Short(reader.i16_be("short")?),
                2 => MetadataValue::Int(reader.i32_be("int")?),
                3 => MetadataValue::Float(reader.f32_be("float")?),
                4 => MetadataValue::WireString(WireString::read(reader, build, "text")?),
                5 => MetadataValue::Item {
                    id: reader.i16_be("item")?,
                    count: reader.i8("count")?,
                    damage: reader.i16_be("damage")?,
                },
                6 => MetadataValue::Position {
                    x: reader.i32_be("x")?,
                    y: reader.i32_be("y")?,
                    z: reader.i32_be("z")?,
                },
                _ => return Err(Error::bad(field, at, "a type of value from 0 to 6")),
            };
            entries.push(MetadataEntry {
                index: key & 31,
                value,
            });
        }
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        for MetadataEntry { index, value } in &self.0 {
            out.push(key(*index, value));
            match value {
                MetadataValue::Byte(value) => value.write(out, build),
                MetadataValue::Short(value) => value.write(out, build),
                MetadataValue::Int(value) => value.write(out, build),
                MetadataValue::Float(value) => value.write(out, build),
                MetadataValue::WireString(value) => value.write(out, build),
                MetadataValue::Item { id, count, damage } => {
                    id.write(out, build);
                    count.write(out, build);
                    damage.write(out, build);
                }
                MetadataValue::Position { x, y, z } => [x, y, z]
                    .into_iter()
                    .for_each(|value| value.write(out, build)),
            }
        }
        out.push(END);
    }

    fn sample(dice: &mut SampleRng, build: Build) -> Self {
        let mut metadata = Self::default();
        for _ in 0..dice.below(6) {
            let value = match dice.below(7) {
                0 => MetadataValue::Byte(i8::sample(dice, build)),
                1 => MetadataValue::Short(i16::sample(dice, build)),
                2 => MetadataValue::Int(i32::sample(dice, build)),
                3 => MetadataValue::Float(f32::sample(dice, build)),
                4 => MetadataValue::WireString(WireString::sample(dice, build)),
                5 => {
                    let id = i16::sample(dice, build);
                    let damage = i16::sample(dice, build);
                    MetadataValue::Item {
                        id,
                        count: i8::sample(dice, build),
                        damage,
                    }
                }
                _ => {
                    let mut coordinate = || i32::sample(dice, build);
                    MetadataValue::Position {
                        x: coordinate(),
                        y: coordinate(),
                        z: coordinate(),
                    }
                }
            };
            metadata = metadata.with(dice.below(32) as u8, value);
        }
        metadata
    }
}
