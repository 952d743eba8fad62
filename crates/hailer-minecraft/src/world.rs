//! The columns a client has been told of, by coordinates.

use crate::chunk::{Block, Column};
use hailer_proto::wire::{Error, ErrorKind};
use std::collections::BTreeMap;

/// A good limit for [`World::new`]: the largest view distance of vanilla, 15, is 961 columns. A full column takes 200 kB.
pub const MAX_COLUMNS: usize = 1024;

/// Columns are within ± this. It is half of what block coordinates of 32 bits can name, so that their sums do not
/// overflow; vanilla's world ends at 1 875 000.
const REACH: i32 = 1 << 26;

/// Columns by coordinates, at most a given number: a hostile server cannot fill the memory.
///
/// Column coordinates are block coordinates / 16, rounded down.
#[derive(Clone, Debug)]
pub struct World {
    // Ordered, so that what is made of it is the same every time.
    columns: BTreeMap<(i32, i32), Column>,
    limit: usize,
    refused: u64,
}

impl World {
    /// A world without columns, that never has more than `limit`.
    pub fn new(limit: usize) -> Self {
        Self {
            columns: BTreeMap::new(),
            limit,
            refused: 0,
        }
    }

    /// Puts a column in, in the place of what was there. Refused, and counted, if there are too many already or if it is
    /// out of this world.
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

    /// Takes a column out, as an unload does.
    pub fn remove(&mut self, x: i32, z: i32) -> Option<Column> {
        self.columns.remove(&(x, z))
    }

    /// Takes all columns out, as a change of dimension does.
    pub fn clear(&mut self) {
        self.columns.clear();
    }

    /// A column.
    pub fn column(&self, x: i32, z: i32) -> Option<&Column> {
        self.columns.get(&(x, z))
    }

    /// A column, to be changed.
    pub fn column_mut(&mut self, x: i32, z: i32) -> Option<&mut Column> {
        self.columns.get_mut(&(x, z))
    }

    /// Whether a column is there.
    pub fn is_loaded(&self, x: i32, z: i32) -> bool {
        self.columns.contains_key(&(x, z))
    }

    /// All columns with their coordinates, from west to east.
    pub fn columns(&self) -> impl Iterator<Item = (i32, i32, &Column)> {
        self.columns.iter().map(|(&(x, z), column)| (x, z, column))
    }

    /// How many columns are there.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether no column is there.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// How many columns were refused.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// The block at block coordinates, if its column is there. Below and above the world is air.
    pub fn block(&self, x: i32, y: i32, z: i32) -> Option<Block> {
        let column = self.column(x >> 4, z >> 4)?;
        Some(u8::try_from(y).map_or(Block::AIR, |y| column.block(local(x), y, local(z))))
    }

    /// Puts a block at block coordinates. `false` if there is no such place: no column, or below or above the world.
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

/// The coordinate inside of the column: right for negative ones too, as `>> 4` is for the column's.
pub(crate) fn local(coordinate: i32) -> u8 {
    (coordinate & 15) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const STONE: Block = Block { id: 1, metadata: 0 };

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
    fn outside_there_is_nothing() {
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
        world.clear();
        assert!(world.is_empty());
    }
}
