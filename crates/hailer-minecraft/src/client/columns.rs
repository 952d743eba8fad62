//! Applies the packets that carry blocks to a [`World`] (spec/minecraft-12w.md#7).

use crate::build::Build;
use crate::chunk::{self, Block, Column, Inflater};
use crate::table::{BlockChange, ChunkData, Explosion, MapChunkBulk, MultiBlockChange, PreChunk};
use crate::world::World;
use hailer_proto::wire::counted;
use std::fmt;

/// Loaded columns and their decoder.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) world: World,
    /// Number of complete columns decoded.
    pub(super) decoded: u64,
    /// Number of columns unloaded by the server.
    pub(super) unloaded: u64,
    build: Build,
    /// Whether the limit is 0: nothing is decompressed then.
    is_ignored: bool,
    inflater: Inflater,
}

impl Columns {
    pub(super) fn new(build: Build, limit: usize) -> Self {
        Self {
            world: World::new(limit),
            decoded: 0,
            unloaded: 0,
            build,
            is_ignored: limit == 0,
            inflater: Inflater::default(),
        }
    }

    /// Removes and returns all columns.
    pub(super) fn take_world(&mut self) -> World {
        self.world.take()
    }

    pub(super) fn build(&self) -> Build {
        self.build
    }

    /// Applies 0x32. Only unloading matters: a loaded column follows in a 0x33.
    pub(super) fn announce(&mut self, packet: &PreChunk) {
        if !packet.load {
            self.unload(packet.x, packet.z);
        }
    }

    fn unload(&mut self, x: i32, z: i32) {
        self.unloaded += u64::from(self.world.remove(x, z).is_some());
    }

    /// Applies 0x33.
    ///
    /// # Errors
    /// The data is invalid, or the column does not fit; the text describes the problem.
    pub(super) fn chunk(&mut self, packet: &ChunkData) -> Result<(), String> {
        let ChunkData {
            x,
            z,
            ground_up,
            masks,
            ref data,
        } = *packet;
        if self.is_ignored {
            return Ok(());
        }
        // Until 12w17a this means a column of air, and 0x32 unloads (spec/minecraft-12w.md#2).
        if chunk::is_unload(masks, ground_up) && self.build >= Build::W18a {
            self.unload(x, z);
            return Ok(());
        }
        let wrong = |error: &dyn fmt::Display| format!("column ({x}, {z}) is invalid: {error}");
        let inflated = self
            .inflater
            .inflate(&data.bytes, chunk::size(masks, ground_up));
        let (inflated, rest) = inflated.map_err(|error| wrong(&error))?;
        match self.world.column_mut(x, z) {
            Some(column) => column
                .apply(masks, ground_up, inflated)
                .map_err(|error| wrong(&error))?,
            None if ground_up => {
                let mut column = Column::default();
                column
                    .apply(masks, ground_up, inflated)
                    .map_err(|error| wrong(&error))?;
                self.world
                    .insert(x, z, column)
                    .map_err(|error| wrong(&error))?;
            }
            None => {
                return Err(format!(
                    "sections of the column ({x}, {z}), which is not loaded"
                ));
            }
        }
        self.decoded += u64::from(ground_up);
        leftover(rest, &format_args!("the column ({x}, {z})"))
    }

    /// Applies 0x38.
    ///
    /// # Errors
    /// As for [`chunk`](Self::chunk).
    pub(super) fn bulk(&mut self, packet: &MapChunkBulk) -> Result<(), String> {
        if self.is_ignored {
            return Ok(());
        }
        let metas = packet.columns.columns();
        let wrong = |error: &dyn fmt::Display| {
            format!(
                "invalid data of {}: {error}",
                counted(metas.len(), "column")
            )
        };
        let inflated = self
            .inflater
            .inflate(packet.columns.zlib(), chunk::bulk_limit(metas));
        let (inflated, rest) = inflated.map_err(|error| wrong(&error))?;
        let columns = chunk::bulk(metas, inflated).map_err(|error| wrong(&error))?;
        for (x, z, column) in columns {
            self.world
                .insert(x, z, column)
                .map_err(|error| format!("column ({x}, {z}) is dropped: {error}"))?;
            self.decoded += 1;
        }
        leftover(rest, &counted(metas.len(), "column"))
    }

    pub(super) fn blocks(&mut self, packet: &MultiBlockChange) {
        if let Some(column) = self.world.column_mut(packet.x, packet.z) {
            for record in packet.records.iter() {
                column.set_block(
                    record.x,
                    record.y,
                    record.z,
                    Block {
                        id: record.id,
                        metadata: record.metadata,
                    },
                );
            }
        }
    }

    pub(super) fn block(&mut self, packet: &BlockChange) {
        let block = Block {
            id: packet.block.0.cast_unsigned() & 0xFFF,
            metadata: packet.metadata & 15,
        };
        self.world
            .set_block(packet.x, packet.y.into(), packet.z, block);
    }

    /// Applies 0x3C. Offsets count from the center, rounded towards zero.
    pub(super) fn explosion(&mut self, packet: &Explosion) {
        let [x, y, z] = [packet.x, packet.y, packet.z].map(|center| center as i32);
        for offset in packet.blocks.iter() {
            let [x, y, z] = [(x, offset.x), (y, offset.y), (z, offset.z)]
                .map(|(at, by)| at.saturating_add(by.into()));
            self.world.set_block(x, y, z, Block::AIR);
        }
    }

    /// Returns whether all columns up to `radius` columns around block coordinates are loaded.
    pub(super) fn surround(&self, x: f64, z: f64, radius: i32) -> bool {
        let [x, z] = [x, z].map(|at| (at / 16.0).floor() as i32);
        let near = |at: i32| at.saturating_sub(radius)..=at.saturating_add(radius);
        near(x).all(|x| near(z).all(|z| self.world.is_loaded(x, z)))
    }
}

fn leftover(bytes: usize, of: &dyn fmt::Display) -> Result<(), String> {
    if bytes == 0 {
        Ok(())
    } else {
        Err(format!("{} after {of}", counted(bytes, "surplus byte")))
    }
}
