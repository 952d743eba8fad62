//! Wire formats of columns. [`chunk`](crate::chunk) decodes their content.

use super::bytes::count32;
use super::list::{announced, read_all, show};
use super::{Wire, Zlib};
use crate::build::Build;
use crate::chunk::{ColumnMeta, SectionMasks};
use crate::sample::SampleRng;
use hailer_proto::wire::{Error, Reader};
use serde::Serialize;
use std::fmt;

/// Several columns compressed together, followed by their metadata (spec/minecraft-12w.md#7).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ColumnBulk {
    columns: Vec<ColumnMeta>,
    data: Zlib,
}

impl ColumnBulk {
    /// Creates the value. Columns above 32,767 are cut off.
    pub fn new(mut columns: Vec<ColumnMeta>, zlib: Vec<u8>) -> Self {
        columns.truncate(i16::MAX as usize);
        Self {
            columns,
            data: Zlib {
                unused: 0,
                bytes: zlib,
            },
        }
    }

    /// Returns the columns, in the order of their data.
    pub fn columns(&self) -> &[ColumnMeta] {
        &self.columns
    }

    /// Returns the compressed data.
    pub fn zlib(&self) -> &[u8] {
        &self.data.bytes
    }
}

impl fmt::Display for ColumnBulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(&self.columns, f)?;
        write!(f, " in {}", self.data)
    }
}

impl Wire for SectionMasks {
    const MIN: usize = 4;

    fn read(reader: &mut Reader<'_, '_>, _: Build, _: &'static str) -> Result<Self, Error> {
        Ok(Self {
            primary: reader.u16_be("primary")?,
            add: reader.u16_be("add")?,
        })
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        self.primary.write(out, build);
        self.add.write(out, build);
    }

    fn sample(dice: &mut SampleRng, build: Build) -> Self {
        Self {
            primary: u16::sample(dice, build),
            add: u16::sample(dice, build),
        }
    }
}

impl Wire for ColumnMeta {
    const MIN: usize = 12;

    fn read(reader: &mut Reader<'_, '_>, build: Build, field: &'static str) -> Result<Self, Error> {
        let x = reader.i32_be("x")?;
        let z = reader.i32_be("z")?;
        Ok(Self {
            x,
            z,
            masks: SectionMasks::read(reader, build, field)?,
        })
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        self.x.write(out, build);
        self.z.write(out, build);
        self.masks.write(out, build);
    }

    fn sample(dice: &mut SampleRng, build: Build) -> Self {
        let x = i32::sample(dice, build);
        let z = i32::sample(dice, build);
        Self {
            x,
            z,
            masks: SectionMasks::sample(dice, build),
        }
    }
}

impl Wire for ColumnBulk {
    const MIN: usize = 6;

    fn read(reader: &mut Reader<'_, '_>, build: Build, field: &'static str) -> Result<Self, Error> {
        let at = reader.at();
        let count = reader.i16_be("count")?;
        let count = usize::try_from(count)
            .map_err(|_| Error::bad("count", at, "a count of columns, not below 0"))?;
        let size = count32(reader, "size")?;
        // Requires both parts together, so that a stream does not restart reading for the second.
        announced(reader, size + count * ColumnMeta::MIN, 1, field)?;
        let bytes = reader.raw(size, "data")?.to_vec();
        Ok(Self {
            columns: read_all(reader, build, count, field)?,
            data: Zlib { unused: 0, bytes },
        })
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        (self.columns.len() as i16).write(out, build);
        (self.data.bytes.len() as i32).write(out, build);
        out.extend_from_slice(&self.data.bytes);
        for column in &self.columns {
            column.write(out, build);
        }
    }

    fn sample(dice: &mut SampleRng, build: Build) -> Self {
        let columns = (0..dice.below(6))
            .map(|_| ColumnMeta::sample(dice, build))
            .collect();
        let size = dice.below(60);
        Self::new(columns, dice.bytes(size))
    }
}
