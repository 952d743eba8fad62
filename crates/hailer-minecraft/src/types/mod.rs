//! The types of fields: how each lies on the wire, in each build (spec/minecraft-12w.md#4).
//!
//! The table of packets says *which* fields there are; a type says what its bytes look like. What changed its layout from
//! one build to another asks for the [`Build`] here, so that the table need not know.

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

/// A type that a field can have.
pub trait Wire:
    Sized + Default + Clone + PartialEq + fmt::Debug + fmt::Display + serde::Serialize
{
    /// Minimum length of a value in any build, in bytes. Lists use it to reject impossible counts.
    const MIN: usize;

    /// Reads a value. Too few bytes are [`ErrorKind::Short`](hailer_proto::wire::ErrorKind::Short) with the number
    /// missing for sure, which is how a stream knows to wait for more.
    fn read(reader: &mut Reader<'_, '_>, build: Build, field: &'static str) -> Result<Self, Error>;

    /// Appends the value. Never fails: what could not be written cannot be built.
    fn write(&self, out: &mut Vec<u8>, build: Build);

    /// A random value that reads back as it was written in this build.
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
