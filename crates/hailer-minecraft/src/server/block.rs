//! Properties of blocks and items that the server needs: light, placing, drops.

use crate::build::Build;
use crate::chunk::Block;

/// Blocks that let all light pass and are not full cubes.
const CLEAR: &[u16] = &[
    0, 6, 20, 26, 27, 28, 29, 31, 32, 33, 34, 36, 37, 38, 39, 40, 50, 51, 52, 54, 55, 59, 63, 64,
    65, 66, 68, 69, 70, 71, 72, 75, 76, 77, 78, 81, 83, 85, 90, 92, 93, 94, 96, 101, 102, 104, 105,
    106, 107, 111, 113, 115, 116, 117, 118, 119, 120, 122, 127, 130, 131, 132,
];

/// Blocks that a placed block replaces.
const REPLACEABLE: &[u16] = &[0, 8, 9, 10, 11, 31, 32, 51, 78, 106];

/// Blocks that break instantly.
const BRITTLE: &[u16] = &[
    6, 31, 32, 37, 38, 39, 40, 46, 50, 51, 55, 59, 75, 76, 83, 93, 94, 95, 104, 105, 111, 115, 131,
    132,
];

/// Blocks that cannot be placed: parts of other blocks, and those that crash clients.
const UNPLACEABLE: &[u16] = &[0, 34, 36, 90, 119];

/// Returns how much light a block absorbs, 0 to 15.
pub(super) fn opacity(id: u16) -> u8 {
    match id {
        18 | 30 => 1,
        8 | 9 | 79 => 3,
        id if CLEAR.contains(&id) => 0,
        _ => 15,
    }
}

/// Returns how much light a block emits, 0 to 15.
pub(super) fn emission(id: u16) -> u8 {
    match id {
        10 | 11 | 51 | 89 | 91 | 119 | 124 => 15,
        50 => 14,
        62 => 13,
        90 => 11,
        74 | 94 => 9,
        76 | 116 | 130 => 7,
        39 | 117 | 120 | 122 => 1,
        _ => 0,
    }
}

/// Returns whether a block stops bodies.
pub(super) fn is_solid(id: u16) -> bool {
    crate::block::info(id).is_solid
}

/// Returns whether a placed block replaces this one.
pub(super) fn is_replaceable(id: u16) -> bool {
    REPLACEABLE.contains(&id)
}

/// Returns whether a block breaks instantly.
pub(super) fn is_brittle(id: u16) -> bool {
    BRITTLE.contains(&id)
}

/// Returns the highest block and item id of a build. Clients crash at higher ones.
fn highest(build: Build) -> (i16, i16) {
    const SINCE: &[(Build, (i16, i16))] = &[
        (Build::V1_2_4, (124, 385)),
        (Build::W17a, (126, 387)),
        (Build::W19a, (127, 387)),
        (Build::W21a, (130, 388)),
        (Build::W22a, (133, 388)),
        (Build::W25a, (136, 388)),
    ];
    SINCE
        .iter()
        .rfind(|(since, _)| *since <= build)
        .map_or((124, 385), |(_, highest)| *highest)
}

/// Returns whether a build knows an item or block.
pub(super) fn is_item(id: i16, build: Build) -> bool {
    let (block, item) = highest(build);
    (1..=block).contains(&id) || (256..=item).contains(&id) || (2256..=2266).contains(&id)
}

/// Returns the block that an item becomes when placed.
pub(super) fn placed(item: i16, damage: i16, face: u8, build: Build) -> Option<Block> {
    let id = u16::try_from(item)
        .ok()
        .filter(|_| item < 256 && is_item(item, build))?;
    if UNPLACEABLE.contains(&id) {
        return None;
    }
    let metadata = match (id, face) {
        // Torches stand on the ground or hang on the side of a block.
        (50 | 75 | 76, 0) => return None,
        (50 | 75 | 76, 1) => 5,
        (50 | 75 | 76, face) => 6 - face,
        _ => (damage & 15) as u8,
    };
    Some(Block { id, metadata })
}

/// Returns the item and damage that a dug block drops.
pub(super) fn drop(block: Block) -> Option<(i16, i16)> {
    let kept = i16::from(block.metadata);
    Some(match block.id {
        1 => (4, 0),
        2 | 60 => (3, 0),
        // Variants of planks, logs, wool and the like.
        5 | 6 | 17 | 24 | 35 | 44 | 98 => (
            i16::try_from(block.id).ok()?,
            kept & if block.id == 17 { 3 } else { 15 },
        ),
        0 | 7..=11 | 18 | 20 | 31 | 32 | 51 | 52 | 59 | 78 | 79 | 90 | 92 | 102 | 106 | 119 => {
            return None;
        }
        16 => (263, 0),
        56 => (264, 0),
        62 => (61, 0),
        73 | 74 => (331, 0),
        id if id < 256 => (i16::try_from(id).ok()?, 0),
        _ => return None,
    })
}

/// Returns the maximum stack size of an item.
pub(super) fn stack(id: i16) -> i8 {
    match id {
        256..=259
        | 261
        | 267..=279
        | 282..=286
        | 290..=294
        | 298..=317
        | 324..=330
        | 333
        | 335
        | 342..=343
        | 346 => 1,
        347..=349 | 354..=355 | 358..=359 | 373 | 386 | 387 | 2256.. => 1,
        323 | 332 | 344 | 368 => 16,
        _ => 64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torches_hang_on_the_face_that_was_clicked() {
        let metadata = |face| placed(50, 0, face, Build::LATEST).map(|block| block.metadata);
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(metadata),
            [None, Some(5), Some(4), Some(3), Some(2), Some(1)]
        );
        assert_eq!(
            placed(136, 0, 1, Build::V1_2_5),
            None,
            "1.2.5 does not know jungle stairs"
        );
        assert_eq!(
            placed(35, 14, 1, Build::V1_2_5),
            Some(Block {
                id: 35,
                metadata: 14
            })
        );
    }
}
