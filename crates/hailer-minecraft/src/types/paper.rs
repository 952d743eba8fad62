//! Content of a map item (spec/minecraft-12w.md#5.1, packet 0x83).

use super::bytes::hex_text;
use super::{List8, Wire};
use crate::build::Build;
use crate::sample::SampleRng;
use hailer_proto::wire::{Error, Reader, counted};
use serde::Serialize;
use std::fmt;

/// Bytes with an unsigned length prefix of one byte. The first byte selects the variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MapData {
    /// Colors of a piece of one pixel column, from north to south.
    Colors {
        /// Column of the pixels, from the left, 0 to 127.
        column: u8,
        /// Row of the first pixel, from the top, 0 to 127.
        row: u8,
        /// Colors of the game, including their shade.
        colors: Vec<u8>,
    },
    /// All icons; they replace the previous ones.
    Icons(Vec<MapIcon>),
    /// Any other bytes, unchanged.
    Other(#[serde(serialize_with = "hex_text")] Vec<u8>),
}

/// Marker on a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MapIcon {
    /// Kind of icon, 4 bits.
    pub icon: u8,
    /// Direction in 16ths of a turn.
    pub rotation: u8,
    /// Half pixels east of the middle.
    pub x: i8,
    /// Half pixels south of the middle.
    pub y: i8,
}

impl Default for MapData {
    fn default() -> Self {
        Self::Other(Vec::new())
    }
}

impl MapData {
    fn of(bytes: &[u8]) -> Self {
        match *bytes {
            [0, column, row, ref colors @ ..] => Self::Colors {
                column,
                row,
                colors: colors.to_vec(),
            },
            [1, ref icons @ ..] if icons.len() % 3 == 0 => {
                let (icons, _) = icons.as_chunks();
                let icon = |&[kind, x, y]: &[u8; 3]| MapIcon {
                    icon: kind & 15,
                    rotation: kind >> 4,
                    x: x.cast_signed(),
                    y: y.cast_signed(),
                };
                Self::Icons(icons.iter().map(icon).collect())
            }
            _ => Self::Other(bytes.to_vec()),
        }
    }

    /// Returns the wire format, cut to the maximum length.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = match self {
            Self::Colors {
                column,
                row,
                colors,
            } => [&[0, *column, *row], colors.as_slice()].concat(),
            Self::Icons(icons) => {
                let icon = |icon: &MapIcon| {
                    [
                        icon.rotation << 4 | icon.icon & 15,
                        icon.x.cast_unsigned(),
                        icon.y.cast_unsigned(),
                    ]
                };
                std::iter::once(1)
                    .chain(icons.iter().take(84).flat_map(icon))
                    .collect()
            }
            Self::Other(bytes) => bytes.clone(),
        };
        bytes.truncate(255);
        bytes
    }
}

impl fmt::Display for MapIcon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at ({}, {}) turned {}",
            self.icon, self.x, self.y, self.rotation
        )
    }
}

impl fmt::Display for MapData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Colors {
                column,
                row,
                colors,
            } => {
                write!(
                    f,
                    "{} colors of column {column} from row {row}",
                    colors.len()
                )
            }
            Self::Icons(icons) => write!(f, "icons {}", List8::new(icons.clone())),
            Self::Other(bytes) => f.write_str(&counted(bytes.len(), "byte")),
        }
    }
}

impl Wire for MapData {
    const MIN: usize = 1;

    fn read(reader: &mut Reader<'_, '_>, _: Build, field: &'static str) -> Result<Self, Error> {
        let count = reader.u8("count")?;
        reader.raw(count.into(), field).map(Self::of)
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        let bytes = self.bytes();
        (bytes.len() as u8).write(out, build);
        out.extend_from_slice(&bytes);
    }

    fn sample(dice: &mut SampleRng, _: Build) -> Self {
        let count = dice.below(40);
        let mut bytes = dice.bytes(count);
        if let Some(kind) = bytes.first_mut() {
            *kind = dice.below(3) as u8;
        }
        Self::of(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_colors_or_icons() {
        let colors = MapData::of(&[0, 5, 6, 34, 35]);
        assert_eq!(colors.to_string(), "2 colors of column 5 from row 6");
        let icons = MapData::of(&[1, 0x80, 10, 0xF6, 0x04, 0, 0]);
        assert_eq!(
            icons.to_string(),
            "icons [0 at (10, -10) turned 8, 4 at (0, 0) turned 0]"
        );
        for bytes in [
            &[][..],
            &[0],
            &[0, 1],
            &[0, 1, 2],
            &[1],
            &[1, 2],
            &[1, 2, 3, 4],
            &[2, 3],
        ] {
            assert_eq!(MapData::of(bytes).bytes(), bytes);
        }
    }
}
