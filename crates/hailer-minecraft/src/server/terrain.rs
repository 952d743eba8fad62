//! Generated terrain: a pure function of seed and position.

use super::config::WorldKind;
use crate::chunk::{Block, Column};

/// Column coordinates.
pub(super) type At = (i32, i32);

const STONE: u16 = 1;
const GRASS: u16 = 2;
const DIRT: u16 = 3;
const BEDROCK: u16 = 7;
const WATER: u16 = 9;
const SAND: u16 = 12;
const GRAVEL: u16 = 13;
const LOG: u16 = 17;
const LEAVES: u16 = 18;
const TALL_GRASS: Block = Block {
    id: 31,
    metadata: 1,
};
const DANDELION: u16 = 37;
const ROSE: u16 = 38;

/// Height of the highest block of the flat world.
const FLAT: u8 = 7;
/// Height of the highest water block.
const SEA: u8 = 62;
/// Side of a square, in blocks, with at most one tree.
const GROVE: i32 = 6;

mod biome {
    pub(super) const OCEAN: u8 = 0;
    pub(super) const PLAINS: u8 = 1;
    pub(super) const HILLS: u8 = 3;
    pub(super) const FOREST: u8 = 4;
    pub(super) const BEACH: u8 = 16;
}

/// Terrain generator.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terrain {
    pub(super) kind: WorldKind,
    pub(super) seed: u64,
}

struct Tree {
    x: i32,
    z: i32,
    ground: u8,
    trunk: u8,
}

impl Terrain {
    /// Returns a complete column without light.
    pub(super) fn column(self, (cx, cz): At) -> Column {
        let mut column = Column::default();
        for (x, z) in (0..16).flat_map(|x| (0..16).map(move |z| (x, z))) {
            match self.kind {
                WorldKind::Flat => flat(&mut column, x, z),
                WorldKind::Hilly => {
                    self.hills(&mut column, (x, z), (block_of(cx, x), block_of(cz, z)));
                }
            }
        }
        if self.kind == WorldKind::Hilly {
            self.plant(&mut column, (cx, cz));
        }
        column
    }

    /// Returns the height of the ground, without plants.
    pub(super) fn ground(self, x: i32, z: i32) -> u8 {
        match self.kind {
            WorldKind::Flat => FLAT,
            WorldKind::Hilly => self.height(x, z),
        }
    }

    /// Returns whether a player can spawn at a position: on land, without a tree nearby.
    pub(super) fn is_clear(self, x: i32, z: i32) -> bool {
        self.kind == WorldKind::Flat
            || self.height(x, z) > SEA + 1
                && !self
                    .trees((x - 3, z - 3), (x + 3, z + 3))
                    .any(|tree| (tree.x - x).abs().max((tree.z - z).abs()) <= 3)
    }

    fn height(self, x: i32, z: i32) -> u8 {
        let mut height = 66.0;
        for (layer, (wave, high)) in [(160, 30.0), (64, 14.0), (24, 6.0), (9, 2.0)]
            .into_iter()
            .enumerate()
        {
            height += (self.noise(layer as u64, x, z, wave) - 0.5) * high;
        }
        (height as i32).clamp(20, 120) as u8
    }

    fn forest(self, x: i32, z: i32) -> bool {
        self.noise(9, x, z, 96) > 0.5
    }

    fn hills(self, column: &mut Column, (x, z): (u8, u8), (bx, bz): (i32, i32)) {
        let height = self.height(bx, bz);
        let shore = height <= SEA + 1 && height + 3 > SEA;
        for y in 0..=height.max(SEA) {
            let id = match y {
                0 => BEDROCK,
                y if y > height => WATER,
                y if y + 4 <= height => STONE,
                _ if shore => SAND,
                _ if height < SEA - 8 => GRAVEL,
                y if y == height && height > SEA => GRASS,
                _ => DIRT,
            };
            column.set_block(x, y, z, Block::new(id));
        }
        let grows = height > SEA + 1;
        let kind = match height {
            _ if height + 4 < SEA => biome::OCEAN,
            _ if shore => biome::BEACH,
            84.. => biome::HILLS,
            _ if self.forest(bx, bz) => biome::FOREST,
            _ => biome::PLAINS,
        };
        column.set_biome(x, z, kind);
        if grows {
            let plant = match self.hash(20, bx, bz) % 256 {
                0..=2 => Block::new(DANDELION),
                3..=4 => Block::new(ROSE),
                5..=24 => TALL_GRASS,
                _ => return,
            };
            column.set_block(x, height + 1, z, plant);
        }
    }

    /// Returns the trees in a square of blocks.
    fn trees(self, from: (i32, i32), to: (i32, i32)) -> impl Iterator<Item = Tree> {
        let groves = |from: i32, to: i32| from.div_euclid(GROVE)..=to.div_euclid(GROVE);
        let all =
            groves(from.0, to.0).flat_map(move |gx| groves(from.1, to.1).map(move |gz| (gx, gz)));
        all.filter_map(move |(gx, gz)| {
            let dice = self.hash(30, gx, gz);
            let inner = |shift: u32| ((dice >> shift) % GROVE as u64) as i32;
            let x = gx * GROVE + inner(0);
            let z = gz * GROVE + inner(8);
            let ground = self.height(x, z);
            let stands = (dice >> 16) % 100 < if self.forest(x, z) { 60 } else { 5 };
            let trunk = 4 + ((dice >> 32) % 3) as u8;
            (stands && ground > SEA + 1).then_some(Tree {
                x,
                z,
                ground,
                trunk,
            })
        })
    }

    /// Adds the trees to a column, including leaves of trees in adjacent columns. The order does
    /// not matter: leaves replace only air, and trunks replace leaves.
    fn plant(self, column: &mut Column, (cx, cz): At) {
        let x0 = block_of(cx, 0);
        let z0 = block_of(cz, 0);
        let mut put = |x: i32, y: u8, z: i32, block: Block| {
            if let (Ok(x @ 0..16), Ok(z @ 0..16)) = (u8::try_from(x - x0), u8::try_from(z - z0)) {
                let there = column.block(x, y, z).id;
                if block.id == LOG || !super::block::is_solid(there) {
                    column.set_block(x, y, z, block);
                }
            }
        };
        for Tree {
            x,
            z,
            ground,
            trunk,
        } in self.trees((x0 - 2, z0 - 2), (x0 + 17, z0 + 17))
        {
            let top = ground + trunk;
            for y in top - 2..=top + 1 {
                let wide = if y >= top { 1 } else { 2_i32 };
                for (dx, dz) in (-wide..=wide).flat_map(|dx| (-wide..=wide).map(move |dz| (dx, dz)))
                {
                    let corner = dx.abs() == wide && dz.abs() == wide;
                    let bare = corner
                        && (y == top + 1 || self.hash(40 + u64::from(y), x + dx, z + dz) & 1 == 0);
                    if !bare {
                        put(x + dx, y, z + dz, Block::new(LEAVES));
                    }
                }
            }
            for y in ground + 1..=top {
                put(x, y, z, Block::new(LOG));
            }
            put(x, ground, z, Block::new(DIRT));
        }
    }

    /// Returns smooth noise from 0 to 1 with corners every `wave` blocks.
    fn noise(self, layer: u64, x: i32, z: i32, wave: i32) -> f64 {
        let corner = |x, z| (self.hash(layer, x, z) >> 11) as f64 / (1_u64 << 53) as f64;
        let cx = x.div_euclid(wave);
        let cz = z.div_euclid(wave);
        let ease = |at: i32| {
            let t = f64::from(at.rem_euclid(wave)) / f64::from(wave);
            t * t * (3.0 - 2.0 * t)
        };
        let tx = ease(x);
        let tz = ease(z);
        let mix = |a: f64, b: f64, t: f64| a + (b - a) * t;
        let north = mix(corner(cx, cz), corner(cx.wrapping_add(1), cz), tx);
        let south = mix(
            corner(cx, cz.wrapping_add(1)),
            corner(cx.wrapping_add(1), cz.wrapping_add(1)),
            tx,
        );
        mix(north, south, tz)
    }

    /// Returns 64 bits for a position (SplitMix64).
    fn hash(self, layer: u64, x: i32, z: i32) -> u64 {
        let place = u64::from(x.cast_unsigned()) << 32 | u64::from(z.cast_unsigned());
        let step = |state: u64| {
            let mut z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            z ^ z >> 31
        };
        step(step(self.seed ^ layer.wrapping_mul(0xD6E8_FEB8_6659_FD93)) ^ place)
    }
}

/// Returns the block coordinate of a position in a column.
pub(super) fn block_of(column: i32, inner: u8) -> i32 {
    column.wrapping_mul(16).wrapping_add(i32::from(inner))
}

fn flat(column: &mut Column, x: u8, z: u8) {
    for y in 0..=FLAT {
        let id = match y {
            0 => BEDROCK,
            1..=3 => STONE,
            FLAT => GRASS,
            _ => DIRT,
        };
        column.set_block(x, y, z, Block::new(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hills_have_every_block_type() {
        let terrain = Terrain {
            kind: WorldKind::Hilly,
            seed: 1,
        };
        let mut counts = [0_u32; 256];
        let mut low = 255;
        let mut high = 0;
        for at in (-12..12).flat_map(|x| (-12..12).map(move |z| (x * 3, z * 3))) {
            let column = terrain.column(at);
            for (x, z) in (0..16).flat_map(|x| (0..16).map(move |z| (x, z))) {
                let ground = terrain.ground(block_of(at.0, x), block_of(at.1, z));
                low = ground.min(low);
                high = ground.max(high);
                for y in 0..128 {
                    counts[usize::from(column.block(x, y, z).id)] += 1;
                }
            }
        }
        for id in [
            STONE, GRASS, DIRT, BEDROCK, WATER, SAND, LOG, LEAVES, 31, DANDELION, ROSE,
        ] {
            assert!(
                counts[usize::from(id)] > 100,
                "{id}: {}",
                counts[usize::from(id)]
            );
        }
        assert!(low < SEA && high > 78, "{low} to {high}");
        assert!(terrain.column((5, -7)) == terrain.column((5, -7)));
    }

    #[test]
    fn trees_cross_column_borders() {
        let terrain = Terrain {
            kind: WorldKind::Hilly,
            seed: 1,
        };
        let mut seen = 0;
        for tree in terrain.trees((-400, -400), (400, 400)) {
            let at = (tree.x.div_euclid(16), tree.z.div_euclid(16));
            let x = tree.x.rem_euclid(16);
            let z = tree.z.rem_euclid(16);
            assert_eq!(
                terrain
                    .column(at)
                    .block(x as u8, tree.ground + 1, z as u8)
                    .id,
                LOG
            );
            if x == 15 {
                seen += 1;
                let neighbor = terrain.column((at.0 + 1, at.1));
                assert_ne!(
                    neighbor.block(0, tree.ground + tree.trunk - 1, z as u8).id,
                    0
                );
            }
            if seen > 20 {
                return;
            }
        }
        assert!(seen > 0);
    }
}
