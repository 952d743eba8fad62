//! Data of an object (spec/minecraft-12w.md#5.1, packet 0x17).

use super::{Velocity, Wire};
use crate::build::Build;
use crate::sample::SampleRng;
use hailer_proto::wire::{Error, Reader};
use serde::Serialize;
use std::fmt;

/// Number whose meaning depends on the kind of object: the shooter's entity, the falling block, or
/// the potion. A velocity follows only if it is above 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ObjectData {
    /// Data of the object, which depends on its type.
    pub value: i32,
    /// Speed along x, y and z. Not sent if `value` is 0 or below.
    pub velocity: [Velocity; 3],
}

impl fmt::Display for ObjectData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.velocity;
        write!(f, "{}", self.value)?;
        if self.value > 0 {
            write!(f, " moving ({x}, {y}, {z})")
        } else {
            Ok(())
        }
    }
}

impl Wire for ObjectData {
    const MIN: usize = 4;

    fn read(reader: &mut Reader<'_, '_>, build: Build, field: &'static str) -> Result<Self, Error> {
        let value = reader.i32_be(field)?;
        let mut velocity = [Velocity(0); 3];
        if value > 0 {
            for (speed, name) in velocity.iter_mut().zip(["vx", "vy", "vz"]) {
                *speed = Velocity::read(reader, build, name)?;
            }
        }
        Ok(Self { value, velocity })
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        self.value.write(out, build);
        if self.value > 0 {
            for speed in &self.velocity {
                speed.write(out, build);
            }
        }
    }

    fn sample(dice: &mut SampleRng, build: Build) -> Self {
        let value = [0, -1, dice.bits() as i32]
            .get(dice.below(3))
            .copied()
            .unwrap_or_default();
        let mut speed = || {
            if value > 0 {
                Velocity::sample(dice, build)
            } else {
                Velocity(0)
            }
        };
        Self {
            value,
            velocity: [speed(), speed(), speed()],
        }
    }
}
