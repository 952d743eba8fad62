//! Types of packet fields and their wire formats in each build (spec/minecraft-12w.md#4).
//!
//! The packet table lists the fields of each packet; a type defines their bytes. Types whose layout
//! differs between builds check the [`Build`] themselves, so the table need not.
//!
//! In: bytes of a packet and its build. Out: values, and the reverse.
//!
//! May import: `crate::build`, `crate::chunk`, `crate::nbt`, `crate::sample`, `hailer_proto`.

mod bytes;
mod columns;
mod list;
mod metadata;
mod number;
mod object;
mod paper;
mod slot;
mod text;

pub use bytes::{Bytes16, NbtData, Zlib};
pub use columns::ColumnBulk;
pub use list::{BlockOffset, BlockRecord, BlockRecords, List8, List16, List32};
pub use metadata::{Metadata, MetadataEntry, MetadataValue};
pub use number::{
    Abilities, Absolute, Angle, BlockType, Delta, Eighths, ItemVelocity, Shrunk, Velocity,
};
pub use object::ObjectData;
pub use paper::{MapData, MapIcon};
pub use slot::Slot;
pub use text::{WireString, is_legal_in_chat};

use crate::build::Build;
use crate::sample::SampleRng;
use hailer_proto::wire::{Error, Reader};
use std::fmt;

/// Type of a packet field.
pub trait Wire:
    Sized + Default + Clone + PartialEq + fmt::Debug + fmt::Display + serde::Serialize
{
    /// Minimum length of a value in any build, in bytes. Lists use it to reject impossible counts.
    const MIN: usize;

    /// Reads a value.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Short`](hailer_proto::wire::ErrorKind::Short) with the minimum number of
    /// missing bytes if the value is incomplete. A stream then waits for more. Otherwise the value
    /// is invalid.
    fn read(reader: &mut Reader<'_, '_>, build: Build, field: &'static str) -> Result<Self, Error>;

    /// Appends the value. Cannot fail: values that cannot be written cannot be constructed.
    fn write(&self, out: &mut Vec<u8>, build: Build);

    /// Returns a random value that can be written and read back in this build.
    fn sample(dice: &mut SampleRng, build: Build) -> Self;
}

macro_rules! numbers {
    ($( $ty:ident $read:ident $size:literal )*) => { $(
        impl Wire for $ty {
            const MIN: usize = $size;

            #[inline]
            fn read(reader: &mut Reader<'_, '_>, _: Build, field: &'static str) -> Result<Self, Error> {
                reader.$read(field)
            }

            #[inline]
            fn write(&self, out: &mut Vec<u8>, _: Build) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn sample(dice: &mut SampleRng, _: Build) -> Self {
                dice.bits() as Self
            }
        }
    )* };
}

numbers! {
    i8 i8 1
    u8 u8 1
    i16 i16_be 2
    u16 u16_be 2
    i32 i32_be 4
    i64 i64_be 8
    f32 f32_be 4
    f64 f64_be 8
}

impl Wire for bool {
    const MIN: usize = 1;

    #[inline]
    fn read(reader: &mut Reader<'_, '_>, _: Build, field: &'static str) -> Result<Self, Error> {
        Ok(reader.u8(field)? != 0)
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>, _: Build) {
        out.push(u8::from(*self));
    }

    fn sample(dice: &mut SampleRng, _: Build) -> Self {
        dice.below(2) == 1
    }
}
