//! Current state of the world: generated terrain plus changes by players.

use super::block::emission;
use super::config::{Limits, WorldKind};
use super::light::{Neighborhood, Tops, top, tops};
use super::pack::{Packer, Piece};
use super::terrain::{At, Terrain, block_of};
use crate::chunk::{Block, Column};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Position of a block inside a column: x, z, y.
pub(super) type BlockPosition = (u8, u8, u8);

/// Blocks by column and position.
pub(super) type Blocks = BTreeMap<At, BTreeMap<BlockPosition, Block>>;

struct LoadedColumn {
    column: Column,
    tops: Box<Tops>,
    is_lit: bool,
    /// Number of the last use.
    used: u64,
}

/// World of the game server: terrain and changes.
pub(super) struct World {
    terrain: Terrain,
    columns: HashMap<At, LoadedColumn>,
    packed: HashMap<At, (Arc<Piece>, u64)>,
    edits: Blocks,
    edit_count: usize,
    /// Changes since the last [`World::changes`].
    changed: Blocks,
    packer: Packer,
    uses: u64,
    limits: (usize, usize, usize),
    pub(super) spawn: (i32, i32, i32),
}

impl World {
    pub(super) fn new(kind: WorldKind, seed: u64, limits: &Limits) -> Self {
        let terrain = Terrain { kind, seed };
        // Search squares around the origin until a dry place is found.
        let ring = |r: i32| (-r..=r).flat_map(move |i| [(i, -r), (i, r), (-r, i), (r, i)]);
        let places = (0..200).flat_map(ring).map(|(x, z)| (x * 8, z * 8));
        let (x, z) = places
            .into_iter()
            .find(|&(x, z)| terrain.is_clear(x, z))
            .unwrap_or_default();
        let spawn = (x, i32::from(terrain.ground(x, z)) + 1, z);
        Self {
            terrain,
            columns: HashMap::new(),
            packed: HashMap::new(),
            edits: Blocks::new(),
            edit_count: 0,
            changed: Blocks::new(),
            packer: Packer::default(),
            uses: 0,
            limits: (limits.columns, limits.packed, limits.edits),
            spawn,
        }
    }

    pub(super) fn kind(&self) -> WorldKind {
        self.terrain.kind
    }

    /// Returns the column, generated if necessary.
    fn loaded(&mut self, at: At) -> &mut LoadedColumn {
        self.uses += 1;
        let uses = self.uses;
        let terrain = self.terrain;
        let edits = &self.edits;
        let loaded = self.columns.entry(at).or_insert_with(|| {
            let mut column = terrain.column(at);
            for (&(x, z, y), &block) in edits.get(&at).into_iter().flatten() {
                column.set_block(x, y, z, block);
            }
            let tops = tops(&column);
            LoadedColumn {
                column,
                tops,
                is_lit: false,
                used: uses,
            }
        });
        loaded.used = uses;
        loaded
    }

    /// Returns the column with up-to-date light.
    pub(super) fn lit(&mut self, at @ (cx, cz): At) -> &Column {
        let around = |i: i32| (cx.wrapping_add(i % 3 - 1), cz.wrapping_add(i / 3 - 1));
        if !self.loaded(at).is_lit {
            for i in 0..9 {
                self.loaded(around(i));
            }
            let air = Column::default();
            let flat = [0; 256];
            let near = |i| self.columns.get(&around(i));
            let all = [0, 1, 2, 3, 4, 5, 6, 7, 8];
            let columns = all.map(|i| near(i).map_or(&air, |loaded| &loaded.column));
            let tops = all.map(|i| near(i).map_or(&flat, |loaded| &*loaded.tops));
            let lamps = all
                .iter()
                .flat_map(|&i| self.lamps(around(i), (i % 3 * 16, i / 3 * 16)))
                .collect();
            let lights = Neighborhood {
                columns,
                tops,
                lamps,
            }
            .light();
            let loaded = self.loaded(at);
            lights.write(&mut loaded.column);
            loaded.is_lit = true;
        }
        &self.loaded(at).column
    }

    /// Returns the blocks of a column that give light, shifted by (`dx`, `dz`). Only changed blocks
    /// do; the terrain has none.
    fn lamps(
        &self,
        at: At,
        (dx, dz): (i32, i32),
    ) -> impl Iterator<Item = super::light::LightPosition> {
        let edits = self.edits.get(&at).into_iter().flatten();
        let lamps = edits.filter(|(_, block)| emission(block.id) > 0);
        lamps.map(move |(&(x, z, y), _)| (dx + i32::from(x), i32::from(y), dz + i32::from(z)))
    }

    /// Returns the block at a position; air above and below the world.
    pub(super) fn block(&mut self, (x, y, z): (i32, i32, i32)) -> Block {
        let Ok(y) = u8::try_from(y) else {
            return Block::AIR;
        };
        self.loaded((x >> 4, z >> 4))
            .column
            .block(x as u8, y, z as u8)
    }

    /// Sets a block. Returns `false` if there are too many changes, or if the position is outside
    /// the world.
    pub(super) fn set_block(&mut self, (x, y, z): (i32, i32, i32), block: Block) -> bool {
        let Ok(y) = u8::try_from(y) else { return false };
        let at @ (cx, cz) = (x >> 4, z >> 4);
        let place = (x as u8 & 15, z as u8 & 15, y);
        let known = self
            .edits
            .get(&at)
            .is_some_and(|edits| edits.contains_key(&place));
        if !known && self.edit_count >= self.limits.2 {
            return false;
        }
        self.edit_count += usize::from(!known);
        self.edits.entry(at).or_default().insert(place, block);
        self.changed.entry(at).or_default().insert(place, block);
        let loaded = self.loaded(at);
        loaded.column.set_block(place.0, y, place.1, block);
        if let Some(slot) = loaded.tops.get_mut(usize::from(place.1 << 4 | place.0)) {
            *slot = top(&loaded.column, place.0, place.1);
        }
        for near in (0..9).map(|i| (cx.wrapping_add(i % 3 - 1), cz.wrapping_add(i / 3 - 1))) {
            self.packed.remove(&near);
            if let Some(loaded) = self.columns.get_mut(&near) {
                loaded.is_lit = false;
            }
        }
        true
    }

    /// Returns the changes since the last call.
    pub(super) fn changes(&mut self) -> Blocks {
        std::mem::take(&mut self.changed)
    }

    /// Returns whether the column is cached in compressed form.
    pub(super) fn is_packed(&self, at: At) -> bool {
        self.packed.contains_key(&at)
    }

    /// Returns a complete column, compressed.
    pub(super) fn piece(&mut self, at: At) -> Arc<Piece> {
        self.uses += 1;
        if let Some((piece, used)) = self.packed.get_mut(&at) {
            *used = self.uses;
            return Arc::clone(piece);
        }
        let mut bytes = Vec::new();
        let masks = self.lit(at).encode(0xFFFF, true, &mut bytes);
        let piece = Arc::new(self.packer.pack(masks, &bytes));
        self.packed.insert(at, (Arc::clone(&piece), self.uses));
        piece
    }

    /// Returns some sections of a column, compressed, without biomes.
    pub(super) fn sections(&mut self, at: At, wanted: u16) -> Piece {
        let mut bytes = Vec::new();
        let masks = self.lit(at).encode(wanted, false, &mut bytes);
        self.packer.pack(masks, &bytes)
    }

    /// Returns the height of the ground below a position, for falling items.
    pub(super) fn floor(&mut self, (x, y, z): (i32, i32, i32)) -> Option<i32> {
        (0..y.clamp(0, 256))
            .rev()
            .find(|&y| super::block::is_solid(self.block((x, y, z)).id))
            .map(|y| y + 1)
    }

    /// Evicts the least recently used columns above the limits.
    pub(super) fn evict(&mut self) {
        let oldest = |mut uses: Vec<u64>, limit: usize| {
            // Evict a quarter more than necessary, so that this runs rarely.
            let place = uses
                .len()
                .saturating_sub(limit - limit / 4)
                .min(uses.len().saturating_sub(1));
            (uses.len() > limit).then(|| *uses.select_nth_unstable(place).1)
        };
        if let Some(oldest) = oldest(
            self.columns.values().map(|loaded| loaded.used).collect(),
            self.limits.0,
        ) {
            self.columns.retain(|_, loaded| loaded.used >= oldest);
        }
        if let Some(oldest) = oldest(
            self.packed.values().map(|(_, used)| *used).collect(),
            self.limits.1,
        ) {
            self.packed.retain(|_, (_, used)| *used >= oldest);
        }
    }
}

/// Returns block coordinates of a position in a column.
pub(super) fn spot((cx, cz): At, (x, z, y): BlockPosition) -> (i32, u8, i32) {
    (block_of(cx, x), y, block_of(cz, z))
}
