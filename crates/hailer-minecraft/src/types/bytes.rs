//! Byte arrays with a length prefix.

use super::Wire;
use crate::build::Build;
use crate::sample::SampleRng;
use hailer_proto::wire::{Error, Reader, counted, hexadecimal};
use serde::{Serialize, Serializer};
use std::fmt;

/// Displays short arrays in hexadecimal, and only the length of longer ones.
fn show(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if bytes.len() > 32 {
        return write!(f, "{} bytes", bytes.len());
    }
    write!(f, "[{}]", hexadecimal(bytes))
}

/// Serializes all bytes in hexadecimal.
pub(super) fn hex_text<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&hexadecimal(bytes))
}

/// Bytes with a signed length prefix of two bytes: at most 32,766, because the game does not read
/// longer plugin messages (spec/minecraft-12w.md#5.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytes16(Vec<u8>);

impl Bytes16 {
    /// Creates the value. Bytes above the limit are cut off.
    pub fn new(mut bytes: Vec<u8>) -> Self {
        bytes.truncate(32_766);
        Self(bytes)
    }
}

impl std::ops::Deref for Bytes16 {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for Bytes16 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(self, f)
    }
}

impl Serialize for Bytes16 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        hex_text(self, serializer)
    }
}

impl Wire for Bytes16 {
    const MIN: usize = <i16 as Wire>::MIN;

    fn read(reader: &mut Reader<'_, '_>, build: Build, field: &'static str) -> Result<Self, Error> {
        let at = reader.at();
        let count = i16::read(reader, build, field)?;
        let count = usize::try_from(count)
            .map_err(|_| Error::bad(field, at, "a count of bytes, not below 0"))?;
        Ok(Self(reader.raw(count, field)?.to_vec()))
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        (self.len() as i16).write(out, build);
        out.extend_from_slice(self);
    }

    fn sample(dice: &mut SampleRng, _: Build) -> Self {
        let count = dice.below(40);
        Self(dice.bytes(count))
    }
}

/// NBT compressed with gzip, with a signed length prefix of two bytes; a negative length means
/// none. The bytes are kept unchanged, because compressors differ. [`nbt`](crate::nbt) decodes
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NbtData(Option<Box<[u8]>>);

impl NbtData {
    /// Item without a tag.
    pub const NONE: Self = Self(None);

    /// Creates the value. `NONE` if there are no bytes, or too many for the prefix.
    pub fn new(gzip: &[u8]) -> Self {
        Self((1..=32_767).contains(&gzip.len()).then(|| gzip.into()))
    }

    /// Returns the compressed bytes, if there are any.
    pub fn gzip(&self) -> Option<&[u8]> {
        self.0.as_deref()
    }
}

impl fmt::Display for NbtData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gzip() {
            None => f.write_str("none"),
            Some(gzip) => match crate::nbt::decode(gzip) {
                Ok(nbt) => write!(f, "{nbt}"),
                Err(error) => write!(f, "NBT that cannot be read ({error})"),
            },
        }
    }
}

impl Serialize for NbtData {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.gzip() {
            None => serializer.serialize_none(),
            Some(gzip) => hex_text(gzip, serializer),
        }
    }
}

impl Wire for NbtData {
    const MIN: usize = 2;

    fn read(reader: &mut Reader<'_, '_>, _: Build, field: &'static str) -> Result<Self, Error> {
        let count = reader.i16_be(field)?;
        // The game does not send 0. One known server uses it for "none"
        // (spec/minecraft-12w.md#4.1).
        match usize::try_from(count) {
            Ok(count @ 1..) => Ok(Self(Some(reader.raw(count, field)?.into()))),
            _ => Ok(Self(None)),
        }
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        match self.gzip() {
            None => (-1_i16).write(out, build),
            Some(gzip) => {
                (gzip.len() as u16).write(out, build);
                out.extend_from_slice(gzip);
            }
        }
    }

    fn sample(dice: &mut SampleRng, _: Build) -> Self {
        let count = dice.below(60);
        Self::new(&dice.bytes(count))
    }
}

/// Data compressed with zlib, with a length prefix of four bytes. [`chunk`](crate::chunk)
/// decompresses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zlib {
    /// Four unused bytes between length and data, up to 12w26a.
    pub unused: i32,
    /// Compressed bytes of the columns.
    pub bytes: Vec<u8>,
}

impl fmt::Display for Zlib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&counted(self.bytes.len(), "byte"))
    }
}

impl Serialize for Zlib {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        hex_text(&self.bytes, serializer)
    }
}

impl Wire for Zlib {
    const MIN: usize = 4;

    fn read(reader: &mut Reader<'_, '_>, build: Build, field: &'static str) -> Result<Self, Error> {
        let count = count32(reader, field)?;
        let unused = if build < Build::W27a {
            reader.i32_be("unused")?
        } else {
            0
        };
        Ok(Self {
            unused,
            bytes: reader.raw(count, field)?.to_vec(),
        })
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        (self.bytes.len() as i32).write(out, build);
        if build < Build::W27a {
            self.unused.write(out, build);
        }
        out.extend_from_slice(&self.bytes);
    }

    fn sample(dice: &mut SampleRng, build: Build) -> Self {
        let count = dice.below(60);
        Self {
            unused: if build < Build::W27a {
                dice.bits() as i32
            } else {
                0
            },
            bytes: dice.bytes(count),
        }
    }
}

/// Reads a signed length of four bytes that must not be negative.
pub(super) fn count32(reader: &mut Reader<'_, '_>, field: &'static str) -> Result<usize, Error> {
    let at = reader.at();
    usize::try_from(reader.i32_be(field)?)
        .map_err(|_| Error::bad(field, at, "a count, not below 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_bytes_to_the_limit_of_readers() {
        assert_eq!(Bytes16::new(vec![0; 40_000]).len(), 32_766);
    }
}
