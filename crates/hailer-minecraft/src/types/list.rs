//! Lists with a count prefix.

use super::Wire;
use super::bytes::count32;
use crate::build::Build;
use crate::sample::SampleRng;
use hailer_proto::wire::{Error, ErrorKind, Reader};
use serde::Serialize;
use std::fmt;

/// Fails early, with the minimum number of missing bytes, if `count` values cannot have arrived
/// yet. A stream then does not parse the list again for each value, and a false count does not
/// allocate memory.
pub(super) fn announced(
    reader: &Reader<'_, '_>,
    count: usize,
    min: usize,
    field: &'static str,
) -> Result<(), Error> {
    match (count * min).checked_sub(reader.remaining()) {
        Some(need @ 1..) => Err(Error {
            field,
            at: reader.at(),
            kind: ErrorKind::Short { need },
        }),
        _ => Ok(()),
    }
}

pub(super) fn read_all<T: Wire>(
    reader: &mut Reader<'_, '_>,
    build: Build,
    count: usize,
    field: &'static str,
) -> Result<Vec<T>, Error> {
    announced(reader, count, T::MIN, field)?;
    // A cut value lacks its rest and all later values. A list that arrives byte by byte is parsed
    // again only after much more of it has arrived.
    let behind = |read: usize| (count - read - 1) * T::MIN;
    let cut = |error: Error, read: usize| match error.kind {
        ErrorKind::Short { need } => Error {
            kind: ErrorKind::Short {
                need: need + behind(read),
            },
            ..error
        },
        _ => error,
    };
    (0..count)
        .map(|read| T::read(reader, build, field).map_err(|error| cut(error, read)))
        .collect()
}

pub(super) fn show<T: fmt::Display>(values: &[T], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const SHOWN: usize = 8;
    f.write_str("[")?;
    for (i, value) in values.iter().take(SHOWN).enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        write!(f, "{comma}{value}")?;
    }
    match values.len().saturating_sub(SHOWN) {
        0 => f.write_str("]"),
        more => write!(f, ", … {more} more]"),
    }
}

macro_rules! lists {
    ($( $(#[$doc:meta])* $name:ident $count:ident )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize)]
        #[serde(transparent)]
        pub struct $name<T>(Vec<T>);

        impl<T> $name<T> {
            /// Creates the list. Values that exceed the count are cut off.
            pub fn new(mut values: Vec<T>) -> Self {
                values.truncate($count::MAX as usize);
                Self(values)
            }
        }

        impl<T> std::ops::Deref for $name<T> {
            type Target = [T];

            fn deref(&self) -> &[T] {
                &self.0
            }
        }

        impl<T: fmt::Display> fmt::Display for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                show(self, f)
            }
        }

        impl<T: Wire> Wire for $name<T> {
            const MIN: usize = <$count as Wire>::MIN;

            fn read(reader: &mut Reader<'_, '_>, build: Build, field: &'static str) -> Result<Self, Error> {
                let at = reader.at();
                let count = $count::read(reader, build, field)?;
                let count = usize::try_from(count).map_err(|_| Error::bad(field, at, "a count, not below 0"))?;
                read_all(reader, build, count, field).map(Self)
            }

            fn write(&self, out: &mut Vec<u8>, build: Build) {
                (self.len() as $count).write(out, build);
                self.iter().for_each(|value| value.write(out, build));
            }

            fn sample(dice: &mut SampleRng, build: Build) -> Self {
                Self((0..dice.below(12)).map(|_| T::sample(dice, build)).collect())
            }
        }
    )* };
}

lists! {
    /// List with a signed count of one byte: at most 127 values.
    List8 i8
    /// List with a signed count of two bytes.
    List16 i16
    /// List with a signed count of four bytes.
    List32 i32
}

/// Block removed by an explosion, relative to its center.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "coordinates")]
pub struct BlockOffset {
    pub x: i8,
    pub y: i8,
    pub z: i8,
}

impl fmt::Display for BlockOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {}, {})", self.x, self.y, self.z)
    }
}

impl Wire for BlockOffset {
    const MIN: usize = 3;

    fn read(reader: &mut Reader<'_, '_>, _: Build, _: &'static str) -> Result<Self, Error> {
        Ok(Self {
            x: reader.i8("dx")?,
            y: reader.i8("dy")?,
            z: reader.i8("dz")?,
        })
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        [self.x, self.y, self.z]
            .iter()
            .for_each(|value| value.write(out, build));
    }

    fn sample(dice: &mut SampleRng, build: Build) -> Self {
        let mut value = || i8::sample(dice, build);
        Self {
            x: value(),
            y: value(),
            z: value(),
        }
    }
}

/// Blocks of one column that changed together (spec/minecraft-12w.md#5, packet 0x34).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockRecords {
    /// Number of records sent by the server. The game sends 64 or more without records if it sends
    /// the column instead.
    count: u16,
    records: Vec<BlockRecord>,
}

/// Changed block, four bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BlockRecord {
    /// Position from west to east in the column, 0 to 15.
    pub x: u8,
    /// Height of the block.
    pub y: u8,
    /// Position from north to south in the column, 0 to 15.
    pub z: u8,
    /// Block id, 12 bits.
    pub id: u16,
    /// Block metadata, 4 bits.
    pub metadata: u8,
}

impl BlockRecords {
    /// Creates the value. Records above 65,535 are cut off.
    pub fn new(mut records: Vec<BlockRecord>) -> Self {
        records.truncate(usize::from(u16::MAX));
        Self {
            count: records.len() as u16,
            records,
        }
    }
}

impl std::ops::Deref for BlockRecords {
    type Target = [BlockRecord];

    fn deref(&self) -> &[BlockRecord] {
        &self.records
    }
}

impl fmt::Display for BlockRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "({}, {}, {}) {}:{}",
            self.x, self.y, self.z, self.id, self.metadata
        )
    }
}

impl fmt::Display for BlockRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self, f)
    }
}

impl Wire for BlockRecord {
    const MIN: usize = 4;

    fn read(reader: &mut Reader<'_, '_>, _: Build, field: &'static str) -> Result<Self, Error> {
        let place = reader.u16_be("place")?;
        let block = reader.u16_be(field)?;
        let x = (place >> 12) as u8;
        let y = place as u8;
        let z = (place >> 8 & 15) as u8;
        Ok(Self {
            x,
            y,
            z,
            id: block >> 4,
            metadata: (block & 15) as u8,
        })
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        (u16::from(self.x & 15) << 12 | u16::from(self.z & 15) << 8 | u16::from(self.y))
            .write(out, build);
        (self.id << 4 | u16::from(self.metadata & 15)).write(out, build);
    }

    fn sample(dice: &mut SampleRng, _: Build) -> Self {
        let mut below = |n| dice.below(n);
        let x = below(16) as u8;
        let y = below(256) as u8;
        let z = below(16) as u8;
        Self {
            x,
            y,
            z,
            id: below(4096) as u16,
            metadata: below(16) as u8,
        }
    }
}

impl Wire for BlockRecords {
    const MIN: usize = 6;

    fn read(reader: &mut Reader<'_, '_>, build: Build, field: &'static str) -> Result<Self, Error> {
        let count = reader.u16_be("count")?;
        let at = reader.at();
        let size = count32(reader, "size")?;
        if size != 0 && size != usize::from(count) * BlockRecord::MIN {
            return Err(Error::bad("size", at, "four bytes for each record, or 0"));
        }
        Ok(Self {
            count,
            records: read_all(reader, build, size / BlockRecord::MIN, field)?,
        })
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        self.count.write(out, build);
        ((self.len() * BlockRecord::MIN) as i32).write(out, build);
        self.iter().for_each(|record| record.write(out, build));
    }

    fn sample(dice: &mut SampleRng, build: Build) -> Self {
        match dice.below(4) {
            0 => Self {
                count: 64 + dice.below(1000) as u16,
                records: Vec::new(),
            },
            _ => Self::new(
                (0..dice.below(12))
                    .map(|_| BlockRecord::sample(dice, build))
                    .collect(),
            ),
        }
    }
}
