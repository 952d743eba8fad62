//! Scaled numbers, and numbers whose width depends on the build (spec/minecraft-12w.md#4).

use super::Wire;
use crate::build::Build;
use crate::sample::SampleRng;
use hailer_proto::wire::{Error, Reader};
use serde::{Serialize, Serializer};
use std::fmt;

/// Numbers stored in wire format, displayed and constructed in their unit. `step` is a power of two
/// or the unit's divisor, so each wire value has a distinct value in the unit.
macro_rules! scaled {
    ($( $(#[$doc:meta])* $name:ident($wire:ident) / $step:literal )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $wire);

        impl $name {
            /// Converts from the unit. Values out of range become the nearest possible one.
            pub fn from_unit(value: f64) -> Self {
                Self((value * $step).floor() as $wire)
            }

            /// Converts to the unit.
            pub fn to_unit(self) -> f64 {
                f64::from(self.0) / $step
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.to_unit())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_f64(self.to_unit())
            }
        }

        impl Wire for $name {
            const MIN: usize = <$wire as Wire>::MIN;

            #[inline]
            fn read(reader: &mut Reader<'_, '_>, build: Build, field: &'static str) -> Result<Self, Error> {
                $wire::read(reader, build, field).map(Self)
            }

            #[inline]
            fn write(&self, out: &mut Vec<u8>, build: Build) {
                self.0.write(out, build);
            }

            fn sample(dice: &mut SampleRng, build: Build) -> Self {
                Self($wire::sample(dice, build))
            }
        }
    )* };
}

scaled! {
    /// Position in 32nds of a block.
    Absolute(i32) / 32.0
    /// Movement in 32nds of a block: the difference of two [`Absolute`]s.
    Delta(i8) / 32.0
    /// Position of a sound, in eighths of a block.
    Eighths(i32) / 8.0
    /// Speed in 8000ths of a block per tick. Real servers send at most 3.9 blocks per tick and
    /// axis.
    Velocity(i16) / 8000.0
    /// Speed of a thrown item, in 128ths of a block per tick.
    ItemVelocity(i8) / 128.0
}

/// Angle in 256ths of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Angle(pub i8);

impl Angle {
    /// Converts from degrees, with any number of turns. Truncates towards zero, as the game does.
    pub fn from_degrees(degrees: f32) -> Self {
        // Convert through i32, whose low byte wraps. Direct conversion to i8 would saturate.
        Self((degrees * 256.0 / 360.0) as i32 as i8)
    }

    /// Converts to degrees, -180 to 178.59375.
    pub fn to_degrees(self) -> f32 {
        f32::from(self.0) * 360.0 / 256.0
    }
}

impl fmt::Display for Angle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}°", self.to_degrees())
    }
}

impl Serialize for Angle {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f32(self.to_degrees())
    }
}

impl Wire for Angle {
    const MIN: usize = 1;

    #[inline]
    fn read(reader: &mut Reader<'_, '_>, _: Build, field: &'static str) -> Result<Self, Error> {
        reader.i8(field).map(Self)
    }

    #[inline]
    fn write(&self, out: &mut Vec<u8>, build: Build) {
        self.0.write(out, build);
    }

    fn sample(dice: &mut SampleRng, build: Build) -> Self {
        Self(i8::sample(dice, build))
    }
}

/// Integers whose width depends on the build.
macro_rules! widths {
    ($( $(#[$doc:meta])* $name:ident($value:ident): $old:ident, $new:ident from $build:ident )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub struct $name(pub $value);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl Wire for $name {
            const MIN: usize = 1;

            #[inline]
            fn read(reader: &mut Reader<'_, '_>, build: Build, field: &'static str) -> Result<Self, Error> {
                Ok(Self(if build < Build::$build {
                    $value::from($old::read(reader, build, field)?)
                } else {
                    $value::from($new::read(reader, build, field)?)
                }))
            }

            /// Values that do not fit the narrower form are truncated, as in the game.
            #[inline]
            fn write(&self, out: &mut Vec<u8>, build: Build) {
                if build < Build::$build {
                    (self.0 as $old).write(out, build)
                } else {
                    (self.0 as $new).write(out, build)
                }
            }

            fn sample(dice: &mut SampleRng, build: Build) -> Self {
                if build < Build::$build {
                    Self($value::from($old::sample(dice, build)))
                } else {
                    Self($value::from($new::sample(dice, build)))
                }
            }
        }
    )* };
}

widths! {
    /// Four bytes up to 12w17a, one byte since.
    Shrunk(i32): i32, i8 from W18a
    /// Block id: one byte up to 12w27a, two bytes since.
    BlockType(i16): u8, i16 from W30a
}

/// Abilities of a player: four boolean bytes up to 12w17a, bits of one byte since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Abilities(pub i8);

impl Abilities {
    /// The player takes no damage.
    pub const INVULNERABLE: i8 = 1;
    /// The player is flying.
    pub const FLYING: i8 = 2;
    /// The player may fly.
    pub const CAN_FLY: i8 = 4;
    /// The player breaks blocks instantly (creative mode).
    pub const INSTANT_BUILD: i8 = 8;

    /// Returns whether a bit is set.
    pub const fn has(self, bit: i8) -> bool {
        self.0 & bit != 0
    }

    const OLD: [i8; 4] = [
        Self::INVULNERABLE,
        Self::FLYING,
        Self::CAN_FLY,
        Self::INSTANT_BUILD,
    ];
}

impl fmt::Display for Abilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = ["invulnerable", "flying", "can-fly", "instant-build"];
        let mut set = Self::OLD
            .into_iter()
            .zip(names)
            .filter(|(bit, _)| self.has(*bit))
            .map(|(_, name)| name);
        f.write_str(set.next().unwrap_or("none"))?;
        set.try_for_each(|name| write!(f, "+{name}"))
    }
}

impl Wire for Abilities {
    const MIN: usize = 1;

    fn read(reader: &mut Reader<'_, '_>, build: Build, field: &'static str) -> Result<Self, Error> {
        if build >= Build::W18a {
            return reader.i8(field).map(Self);
        }
        let mut flags = 0;
        for bit in Self::OLD {
            if bool::read(reader, build, field)? {
                flags |= bit;
            }
        }
        Ok(Self(flags))
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        if build >= Build::W18a {
            return self.0.write(out, build);
        }
        for bit in Self::OLD {
            self.has(bit).write(out, build);
        }
    }

    fn sample(dice: &mut SampleRng, build: Build) -> Self {
        let bits = i8::sample(dice, build);
        Self(if build >= Build::W18a {
            bits
        } else {
            bits & 15
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_the_game() {
        assert_eq!(Absolute::from_unit(-0.1), Absolute(-4));
        assert_eq!(Absolute(33).to_unit(), 1.03125);
        assert_eq!(Angle::from_degrees(90.0), Angle(64));
        assert_eq!(Angle::from_degrees(-90.0), Angle(-64));
        assert_eq!(Angle::from_degrees(270.0), Angle(-64), "a byte wraps");
        assert_eq!(Angle::from_degrees(720.0 + 1.0), Angle(0));
        assert_eq!(Velocity::from_unit(100.0), Velocity(i16::MAX));
        assert_eq!(Eighths(12).to_string(), "1.5");
        assert_eq!(Abilities(5).to_string(), "invulnerable+can-fly");
    }
}
