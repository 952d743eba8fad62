//! Loaded columns of blocks by coordinates.

use crate::chunk::{Block, Column};
use hailer_proto::wire::{Error, ErrorKind};
use std::collections::BTreeMap;

/// Recommended limit for [`World::new`]. Vanilla's longest view distance, 15, is 961 columns of at
/// most 200 kB.
pub const MAX_COLUMNS: usize = 1024;

/// Column coordinates are within ± this, so that sums of block coordinates fit into 32 bits.
/// Vanilla's world ends at 1,875,000.
const REACH: i32 = 1 << 26;

/// Columns by coordinates. Their number is limited, since a hostile server may send any number.
///
/// Column coordinates are block coordinates / 16, rounded down.
#[derive(Clone, Debug)]
pub struct World {
    // Ordered, so that maps of the same columns are identical.
    columns: BTreeMap<(i32, i32), Column>,
    limit: usize,
    refused: u64,
}

impl World {
    /// Creates a world for at most `limit` columns.
    pub fn new(limit: usize) -> Self {
        Self {
            columns: BTreeMap::new(),
            limit,
            refused: 0,
        }
    }

    /// Adds or replaces a column.
    ///
    /// # Errors
    /// There are too many columns, or the coordinates are 2²⁶ or more. The column is dropped and
    /// counted.
    pub fn insert(&mut self, x: i32, z: i32, column: Column) -> Result<(), Error> {
        let error = if ![x, z].iter().all(|n| (-REACH..REACH).contains(n)) {
            Error::bad("column coordinates", 0, "less than 2^26 in size")
        } else if self.columns.len() >= self.limit && !self.is_loaded(x, z) {
            Error {
                field: "columns",
                at: 0,
                kind: ErrorKind::Limit { limit: self.limit },
            }
        } else {
            self.columns.insert((x, z), column);
            return Ok(());
        };
        self.refused = self.refused.saturating_add(1);
        Err(error)
    }

    /// Removes and returns a column.
    pub fn remove(&mut self, x: i32, z: i32) -> Option<Column> {
        self.columns.remove(&(x, z))
    }

    /// Removes all columns and returns them as a world with the same limit.
    pub fn take(&mut self) -> Self {
        let empty = Self::new(self.limit);
        std::mem::replace(self, empty)
    }

    /// Returns a column.
    pub fn column(&self, x: i32, z: i32) -> Option<&Column> {
        self.columns.get(&(x, z))
    }

    /// Returns a column for changes.
    pub fn column_mut(&mut self, x: i32, z: i32) -> Option<&mut Column> {
        self.columns.get_mut(&(x, z))
    }

    /// Returns whether a column is loaded.
    pub fn is_loaded(&self, x: i32, z: i32) -> bool {
        self.columns.contains_key(&(x, z))
    }

    /// Returns all columns with their coordinates, from west to east.
    pub fn columns(&self) -> impl Iterator<Item = (i32, i32, &Column)> {
        self.columns.iter().map(|(&(x, z), column)| (x, z, column))
    }

    /// Returns the number of columns.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Returns whether no column is loaded.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Returns how many columns were dropped.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the block at block coordinates, or `None` if its column is not loaded. Below and
    /// above the world is air.
    pub fn block(&self, x: i32, y: i32, z: i32) -> Option<Block> {
        let column = self.column(x >> 4, z >> 4)?;
        Some(u8::try_from(y).map_or(Block::AIR, |y| column.block(local(x), y, local(z))))
    }

    /// Sets the block at block coordinates. Returns `false` if the column is not loaded, or outside
    /// the height of the world.
    pub fn set_block(&mut self, x: i32, y: i32, z: i32, block: Block) -> bool {
        match (self.column_mut(x >> 4, z >> 4), u8::try_from(y)) {
            (Some(column), Ok(y)) => {
                column.set_block(local(x), y, local(z), block);
                true
            }
            _ => false,
        }
    }
}

/// Returns the coordinate inside the column, for negative coordinates too.
pub(crate) fn local(coordinate: i32) -> u8 {
    (coordinate & 15) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const STONE: Block = Block::new(1);

    #[test]
    fn negative_coordinates_round_down() {
        let mut world = World::new(MAX_COLUMNS);
        world.insert(-1, -2, Column::default()).unwrap();
        assert!(world.set_block(-1, 0, -17, STONE));
        assert!(world.set_block(-16, 255, -32, STONE));
        let column = world.column(-1, -2).unwrap();
        assert_eq!(
            (column.block(15, 0, 15), column.block(0, 255, 0)),
            (STONE, STONE)
        );
        assert_eq!(world.block(-1, 0, -17), Some(STONE));
        assert_eq!(
            (
                world.block(0, 0, -17),
                world.block(-17, 0, -17),
                world.block(-1, 0, -16)
            ),
            (None, None, None)
        );
    }

    #[test]
    fn nothing_outside_of_the_world() {
        let mut world = World::new(1);
        assert_eq!(
            (world.block(0, 0, 0), world.set_block(0, 0, 0, STONE)),
            (None, false)
        );
        world.insert(0, 0, Column::default()).unwrap();
        for y in [-1, 256, i32::MIN, i32::MAX] {
            assert_eq!(
                (world.block(0, y, 0), world.set_block(0, y, 0, STONE)),
                (Some(Block::AIR), false)
            );
        }
        assert_eq!(world.block(i32::MIN, 0, i32::MAX), None);
    }

    #[test]
    fn columns_are_bounded() {
        let mut world = World::new(2);
        for x in 0..10 {
            assert_eq!(world.insert(x, 0, Column::default()).is_ok(), x < 2);
        }
        assert!(
            world.insert(1, 0, Column::default()).is_ok(),
            "one that is there may be replaced"
        );
        assert_eq!((world.len(), world.refused()), (2, 8));
        assert!(world.remove(0, 0).is_some() && world.remove(0, 0).is_none());
        assert!(!world.is_loaded(0, 0) && world.is_loaded(1, 0));
        for (x, z) in [(i32::MIN, 0), (0, i32::MAX), (REACH, 0), (0, -REACH - 1)] {
            assert_eq!(
                world.insert(x, z, Column::default()).unwrap_err().field,
                "column coordinates"
            );
        }
        assert!(world.insert(-REACH, REACH - 1, Column::default()).is_ok());
        assert_eq!(
            world.columns().map(|(x, z, _)| (x, z)).collect::<Vec<_>>(),
            [(-REACH, REACH - 1), (1, 0)]
        );
        let taken = world.take();
        assert!(!taken.is_empty());
        assert!(world.is_empty());
    }
}
