//! Collision boxes: the parts of a block that stop a body.
//!
//! The boxes are those of the 1.3 game, in which most blocks are full cubes. Approximations:
//! corners of stairs are straight stairs, extended pistons and anvils are full cubes, and so is
//! every block whose id is unknown.

use crate::block::info;
use crate::chunk::Block;

/// An axis-aligned box in world coordinates, in blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CollisionBox {
    /// West, bottom and north side: x, y, z.
    pub min: [f64; 3],
    /// East, top and south side: x, y, z.
    pub max: [f64; 3],
}

/// Appends the collision boxes of the block at `at` (x, y, z) to `out`: at most five of them.
///
/// `block_at` returns the block at any coordinates. Fences, panes and doors depend on their
/// neighbors.
pub fn collision_boxes(
    at: [i32; 3],
    block_at: &impl Fn([i32; 3]) -> Block,
    out: &mut Vec<CollisionBox>,
) {
    let Block { id, metadata } = block_at(at);
    let mut boxes = BlockBoxes { at, out };
    match id {
        26 => boxes.push_height(9.0),
        44 | 126 => {
            let bottom = if metadata & 8 == 0 { 0.0 } else { 8.0 };
            boxes.push([0.0, bottom, 0.0], [16.0, bottom + 8.0, 16.0]);
        }
        53 | 67 | 108 | 109 | 114 | 128 | 134..=136 | 156 | 163 | 164 => {
            boxes.push_stairs(metadata)
        }
        54 | 130 | 146 => boxes.push([1.0, 0.0, 1.0], [15.0, 14.0, 15.0]),
        64 | 71 => boxes.push_wall(door_side(at, block_at), 3.0),
        65 => match metadata {
            2 => boxes.push_wall(Side::South, 2.0),
            3 => boxes.push_wall(Side::North, 2.0),
            4 => boxes.push_wall(Side::East, 2.0),
            5 => boxes.push_wall(Side::West, 2.0),
            _ => {}
        },
        // Thin layers of snow stop nothing.
        78 if metadata & 7 < 3 => {}
        78 => boxes.push_height(8.0),
        81 => boxes.push([1.0, 0.0, 1.0], [15.0, 15.0, 15.0]),
        85 | 113 | 139 => {
            let joins = |other: u16| other == id || other == 107 || is_full_cube(other);
            boxes.push_cross(block_at, joins, [6.0, 10.0], 24.0);
        }
        88 => boxes.push_height(14.0),
        92 => {
            let eaten = 2.0 * f64::from(metadata.min(6));
            boxes.push([1.0 + eaten, 0.0, 1.0], [15.0, 7.0, 15.0]);
        }
        93 | 94 | 149 | 150 => boxes.push_height(2.0),
        96 => boxes.push_trapdoor(metadata),
        101 | 102 | 160 => {
            let joins = |other: u16| matches!(other, 20 | 101 | 102 | 160) || is_full_cube(other);
            boxes.push_cross(block_at, joins, [7.0, 9.0], 16.0);
        }
        // Bit 4: open.
        107 if metadata & 4 != 0 => {}
        107 if metadata & 1 == 0 => boxes.push([0.0, 0.0, 6.0], [16.0, 24.0, 10.0]),
        107 => boxes.push([6.0, 0.0, 0.0], [10.0, 24.0, 16.0]),
        111 => boxes.push_height(0.25),
        116 => boxes.push_height(12.0),
        117 => {
            boxes.push_height(2.0);
            boxes.push([7.0, 0.0, 7.0], [9.0, 14.0, 9.0]);
        }
        118 => {
            boxes.push_height(5.0);
            for side in Side::ALL {
                boxes.push_wall(side, 2.0);
            }
        }
        120 => boxes.push_height(13.0),
        122 => boxes.push([1.0, 0.0, 1.0], [15.0, 16.0, 15.0]),
        127 => boxes.push_cocoa(metadata),
        140 => boxes.push([5.0, 0.0, 5.0], [11.0, 6.0, 11.0]),
        144 => boxes.push([4.0, 0.0, 4.0], [12.0, 8.0, 12.0]),
        151 => boxes.push_height(6.0),
        _ if info(id).is_solid => boxes.push_height(16.0),
        _ => {}
    }
}

/// The boxes of the block at `at`. Bounds are in sixteenths of a block.
struct BlockBoxes<'a> {
    at: [i32; 3],
    out: &'a mut Vec<CollisionBox>,
}

impl BlockBoxes<'_> {
    fn push(&mut self, min: [f64; 3], max: [f64; 3]) {
        let [x, y, z] = self.at.map(f64::from);
        let place = |[x1, y1, z1]: [f64; 3]| [x + x1 / 16.0, y + y1 / 16.0, z + z1 / 16.0];
        self.out.push(CollisionBox {
            min: place(min),
            max: place(max),
        });
    }

    fn push_height(&mut self, height: f64) {
        self.push([0.0; 3], [16.0, height, 16.0]);
    }

    /// Adds a wall along one side.
    fn push_wall(&mut self, side: Side, thickness: f64) {
        let mut min = [0.0; 3];
        let mut max = [16.0; 3];
        match side {
            Side::West => max[0] = thickness,
            Side::East => min[0] = 16.0 - thickness,
            Side::North => max[2] = thickness,
            Side::South => min[2] = 16.0 - thickness,
        }
        self.push(min, max);
    }

    /// Adds a slab, and a step on the side of bits 1 and 2. Bit 4: upside down.
    fn push_stairs(&mut self, metadata: u8) {
        let is_upside_down = metadata & 4 != 0;
        let slab = if is_upside_down { 8.0 } else { 0.0 };
        let step = 8.0 - slab;
        self.push([0.0, slab, 0.0], [16.0, slab + 8.0, 16.0]);
        let (west, east, north, south) = match metadata & 3 {
            0 => (8.0, 16.0, 0.0, 16.0),
            1 => (0.0, 8.0, 0.0, 16.0),
            2 => (0.0, 16.0, 8.0, 16.0),
            _ => (0.0, 16.0, 0.0, 8.0),
        };
        self.push([west, step, north], [east, step + 8.0, south]);
    }

    /// Adds a trapdoor. Bits 1 and 2: side. Bit 4: open. Bit 8: in the upper half.
    fn push_trapdoor(&mut self, metadata: u8) {
        let is_open = metadata & 4 != 0;
        let is_upper = metadata & 8 != 0;
        if is_open {
            let side = match metadata & 3 {
                0 => Side::South,
                1 => Side::North,
                2 => Side::East,
                _ => Side::West,
            };
            self.push_wall(side, 3.0);
        } else if is_upper {
            self.push([0.0, 13.0, 0.0], [16.0; 3]);
        } else {
            self.push_height(3.0);
        }
    }

    /// Adds a cocoa pod. Bits 1 and 2: side of its tree. Bits 4 and 8: age.
    fn push_cocoa(&mut self, metadata: u8) {
        let age = f64::from(metadata >> 2 & 3);
        let size = 4.0 + 2.0 * age;
        let near = 8.0 - size / 2.0;
        let far = 8.0 + size / 2.0;
        let bottom = 7.0 - 2.0 * age;
        let top = 12.0;
        match metadata & 3 {
            0 => self.push([near, bottom, 15.0 - size], [far, top, 15.0]),
            1 => self.push([1.0, bottom, near], [1.0 + size, top, far]),
            2 => self.push([near, bottom, 1.0], [far, top, 1.0 + size]),
            _ => self.push([15.0 - size, bottom, near], [15.0, top, far]),
        }
    }

    /// Adds a fence, a wall or a pane: a post, and an arm towards each neighbor that it joins.
    fn push_cross(
        &mut self,
        block_at: &impl Fn([i32; 3]) -> Block,
        joins: impl Fn(u16) -> bool,
        [low, high]: [f64; 2],
        height: f64,
    ) {
        self.push([low, 0.0, low], [high, height, high]);
        for side in Side::ALL {
            if !joins(block_at(side.neighbor(self.at)).id) {
                continue;
            }
            let mut min = [low, 0.0, low];
            let mut max = [high, height, high];
            match side {
                Side::West => min[0] = 0.0,
                Side::East => max[0] = 16.0,
                Side::North => min[2] = 0.0,
                Side::South => max[2] = 16.0,
            }
            self.push(min, max);
        }
    }
}

/// A side of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    West,
    East,
    North,
    South,
}

impl Side {
    const ALL: [Self; 4] = [Self::West, Self::East, Self::North, Self::South];

    /// Coordinates of the neighbor on this side.
    fn neighbor(self, [x, y, z]: [i32; 3]) -> [i32; 3] {
        match self {
            Self::West => [x.wrapping_sub(1), y, z],
            Self::East => [x.wrapping_add(1), y, z],
            Self::North => [x, y, z.wrapping_sub(1)],
            Self::South => [x, y, z.wrapping_add(1)],
        }
    }
}

/// Returns whether fences and panes join a block of this id.
fn is_full_cube(id: u16) -> bool {
    let is_partial = matches!(
        id,
        26 | 44 | 53 | 54 | 64 | 65 | 67 | 71 | 78 | 81 | 85 | 88 | 92 | 93 | 94 | 96 | 101 | 102
            | 107..=109 | 111 | 113 | 114 | 116..=118 | 120 | 122 | 126..=128 | 130 | 134..=136
            | 139 | 140 | 144 | 146 | 149..=151 | 156 | 160 | 163 | 164
    );
    info(id).is_solid && !is_partial
}

/// Returns the side of its block on which a door stands. The lower half has the direction (bits 1
/// and 2)
/// and the open bit (4), the upper half the hinge (bit 1).
fn door_side(at: [i32; 3], block_at: &impl Fn([i32; 3]) -> Block) -> Side {
    let [x, y, z] = at;
    let metadata = block_at(at).metadata;
    let (lower, upper) = if metadata & 8 == 0 {
        (metadata, block_at([x, y.saturating_add(1), z]).metadata)
    } else {
        (block_at([x, y.saturating_sub(1), z]).metadata, metadata)
    };
    let is_open = lower & 4 != 0;
    let is_mirrored = upper & 1 != 0;
    match (lower & 3, is_open, is_mirrored) {
        (0, false, _) | (1, true, true) | (3, true, false) => Side::West,
        (1, false, _) | (0, true, false) | (2, true, true) => Side::North,
        (2, false, _) | (1, true, false) | (3, true, true) => Side::East,
        _ => Side::South,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Boxes of one block among air.
    fn boxes(id: u16, metadata: u8) -> Vec<CollisionBox> {
        let block_at = |at: [i32; 3]| {
            if at == [0; 3] {
                Block { id, metadata }
            } else {
                Block::AIR
            }
        };
        let mut out = Vec::new();
        collision_boxes([0; 3], &block_at, &mut out);
        out
    }

    fn top(id: u16, metadata: u8) -> Option<f64> {
        boxes(id, metadata)
            .iter()
            .map(|shape| shape.max[1])
            .reduce(f64::max)
    }

    #[test]
    fn heights_are_those_of_the_game() {
        for (id, metadata, height) in [
            (1, 0, Some(1.0)),
            (0, 0, None),
            (9, 0, None),
            (37, 0, None),
            (44, 0, Some(0.5)),
            (44, 8, Some(1.0)),
            (53, 0, Some(1.0)),
            (78, 2, None),
            (78, 3, Some(0.5)),
            (85, 0, Some(1.5)),
            (88, 0, Some(0.875)),
            (107, 4, None),
            (111, 0, Some(0.015625)),
            (4000, 0, Some(1.0)),
        ] {
            assert_eq!(top(id, metadata), height, "block {id}:{metadata}");
        }
    }

    #[test]
    fn every_block_stays_near_its_place() {
        for id in 0..4096 {
            for metadata in 0..16 {
                let boxes = boxes(id, metadata);
                assert!(boxes.len() <= 5, "block {id}:{metadata}");
                for CollisionBox { min, max } in boxes {
                    for axis in 0..3 {
                        let limit = if axis == 1 { 1.5 } else { 1.0 };
                        assert!(
                            0.0 <= min[axis] && min[axis] <= max[axis] && max[axis] <= limit,
                            "block {id}:{metadata}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn fences_join_their_neighbors() {
        let block_at = |[x, _, z]: [i32; 3]| Block {
            id: match (x, z) {
                (0, 0) | (1, 0) => 85,
                (0, 1) => 1,
                (-1, 0) => 102,
                _ => 0,
            },
            metadata: 0,
        };
        let mut out = Vec::new();
        collision_boxes([0; 3], &block_at, &mut out);
        let reaches = |side: usize, edge: f64| {
            out.iter()
                .any(|shape| shape.max[side] == edge || shape.min[side] == edge)
        };
        assert!(reaches(0, 1.0), "east: a fence");
        assert!(reaches(2, 1.0), "south: stone");
        assert!(!reaches(0, 0.0), "west: a pane");
        assert!(!reaches(2, 0.0), "north: air");
    }

    #[test]
    fn both_halves_of_a_door_stand_on_one_side() {
        for lower in 0..8_u8 {
            for upper in [8, 9] {
                let block_at = |[_, y, _]: [i32; 3]| Block {
                    id: 64,
                    metadata: if y == 0 { lower } else { upper },
                };
                let side = door_side([0; 3], &block_at);
                assert_eq!(side, door_side([0, 1, 0], &block_at));
                let closed = |metadata: u8| {
                    let block_at = |[_, y, _]: [i32; 3]| Block {
                        id: 64,
                        metadata: if y == 0 { metadata } else { upper },
                    };
                    door_side([0; 3], &block_at)
                };
                assert_eq!(side == closed(lower & 3), lower & 4 == 0);
            }
        }
    }
}
