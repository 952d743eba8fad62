//! Items (spec/minecraft-12w.md#4.1).

use super::{NbtData, Wire};
use crate::build::Build;
use crate::sample::SampleRng;
use hailer_proto::wire::{Error, Reader};
use serde::Serialize;
use std::fmt;

/// Item slot; empty if the id is negative.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Slot {
    /// Id of the item or block; -1 for none.
    pub id: i16,
    /// Number of items.
    pub count: i8,
    /// Wear of a tool, or variant of a block.
    pub damage: i16,
    /// NBT for enchantments, pages and the like. Before 12w24a only certain items can have it.
    pub tag: NbtData,
}

impl Slot {
    /// Slot without an item.
    pub const EMPTY: Self = Self {
        id: -1,
        count: 0,
        damage: 0,
        tag: NbtData::NONE,
    };

    /// Creates a slot with `count` items and no NBT.
    pub const fn of(id: i16, count: i8, damage: i16) -> Self {
        Self {
            id,
            count,
            damage,
            tag: NbtData::NONE,
        }
    }

    /// Returns whether the slot is empty.
    pub const fn is_empty(&self) -> bool {
        self.id < 0
    }
}

impl Default for Slot {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Returns whether NBT follows an item: always since 12w24a, before that for the items in
/// spec/minecraft-12w.md#4.3.
fn has_tag(build: Build, id: i16) -> bool {
    let tool = matches!(id, 0x100..=0x103 | 0x105 | 0x10B..=0x117 | 0x11B..=0x11E | 0x122..=0x126 | 0x15A | 0x167);
    let armour = matches!(id, 0x12A..=0x13D);
    let book = matches!(id, 0x182 | 0x183);
    match build.dialect() {
        Build::V1_2_4 | Build::W16a => tool || armour,
        Build::W17a => tool || armour || book,
        Build::W18a => armour || book,
        before if before < Build::W24a => tool || armour || book,
        _ => true,
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            count,
            damage,
            tag,
        } = self;
        if self.is_empty() {
            return f.write_str("empty");
        }
        write!(f, "{count}x{id}:{damage}")?;
        if tag.gzip().is_some() {
            write!(f, " {tag}")
        } else {
            Ok(())
        }
    }
}

impl Wire for Slot {
    const MIN: usize = 2;

    fn read(reader: &mut Reader<'_, '_>, build: Build, field: &'static str) -> Result<Self, Error> {
        let id = reader.i16_be(field)?;
        if id < 0 {
            return Ok(Self { id, ..Self::EMPTY });
        }
        let count = reader.i8("count")?;
        let damage = reader.i16_be("damage")?;
        let tag = if has_tag(build, id) {
            NbtData::read(reader, build, "tag")?
        } else {
            NbtData::NONE
        };
        Ok(Self {
            id,
            count,
            damage,
            tag,
        })
    }

    fn write(&self, out: &mut Vec<u8>, build: Build) {
        self.id.write(out, build);
        if self.is_empty() {
            return;
        }
        self.count.write(out, build);
        self.damage.write(out, build);
        if has_tag(build, self.id) {
            self.tag.write(out, build);
        }
    }

    fn sample(dice: &mut SampleRng, build: Build) -> Self {
        let id = if dice.below(4) == 0 {
            -1
        } else {
            dice.below(0x190) as i16
        };
        if id < 0 {
            return Self::EMPTY;
        }
        let tag = if has_tag(build, id) && dice.below(3) == 0 {
            NbtData::sample(dice, build)
        } else {
            NbtData::NONE
        };
        Self {
            id,
            count: dice.below(65) as i8,
            damage: dice.bits() as i16,
            tag,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_items_have_tags_as_the_page_lists() {
        let count = |build| (0..=i16::MAX).filter(|&id| has_tag(build, id)).count();
        let counts = [
            Build::V1_2_5,
            Build::W16a,
            Build::W17a,
            Build::W18a,
            Build::W19a,
            Build::W23b,
        ]
        .map(count);
        assert_eq!(counts, [49, 49, 51, 22, 51, 51]);
        assert_eq!(count(Build::W24a), 32_768);
    }
}
