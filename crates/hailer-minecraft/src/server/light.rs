//! Light of a column, computed from its own blocks and those of the eight columns around it. Light
//! reaches 15 blocks, so more distant columns do not matter.
//!
//! Above the highest block that absorbs light, sky light is 15. Below, it comes straight down,
//! reduced by each block's opacity, or from the side, reduced by one per block. Block light spreads
//! like sky light from the side.

use super::block::{emission, opacity};
use crate::chunk::Column;
use std::collections::VecDeque;

/// Width of the three by three columns, in blocks.
const SIDE: i32 = 48;

/// Height above the highest block that absorbs light, for each position of a column. Index: z × 16
/// + x.
pub(super) type Tops = [u16; 256];

/// Nine columns, row by row, their heights, and the light sources in them. The light is computed
/// for the column in the middle.
pub(super) struct Neighborhood<'a> {
    pub(super) columns: [&'a Column; 9],
    pub(super) tops: [&'a Tops; 9],
    pub(super) lamps: Vec<LightPosition>,
}

/// Position in the nine columns: x, y, z.
pub(super) type LightPosition = (i32, i32, i32);

/// Returns the height at one position.
pub(super) fn top(column: &Column, x: u8, z: u8) -> u16 {
    column
        .top(x, z, |block| opacity(block.id) > 0)
        .map_or(0, |(y, _)| u16::from(y) + 1)
}

/// Returns all heights of a column.
pub(super) fn tops(column: &Column) -> Box<Tops> {
    let mut tops = Box::new([0; 256]);
    for (slot, i) in tops.iter_mut().zip(0..=255_u8) {
        *slot = top(column, i & 15, i >> 4);
    }
    tops
}

/// Returns the index of the column at a position.
fn nth(x: i32, z: i32) -> usize {
    usize::try_from((z >> 4) * 3 + (x >> 4)).unwrap_or(usize::MAX)
}

impl Neighborhood<'_> {
    fn id(&self, (x, y, z): LightPosition) -> u16 {
        self.columns.get(nth(x, z)).map_or(0, |column| {
            column.block(x as u8 & 15, y as u8, z as u8 & 15).id
        })
    }

    fn top(&self, x: i32, z: i32) -> i32 {
        let tops = self.tops.get(nth(x, z));
        tops.and_then(|tops| tops.get(((z & 15) << 4 | x & 15) as usize))
            .map_or(0, |top| i32::from(*top))
    }

    /// Returns the sky light and the block light of the middle column.
    pub(super) fn light(&self) -> Lights {
        let highest = self
            .tops
            .iter()
            .copied()
            .flatten()
            .max()
            .map_or(0, |top| i32::from(*top));
        let mut sky = Flood::new(highest);
        for (z, x) in (0..SIDE).flat_map(|z| (0..SIDE).map(move |x| (z, x))) {
            // Light that comes straight down.
            let mut level = 15_u8;
            for y in (0..self.top(x, z)).rev() {
                level = level.saturating_sub(opacity(self.id((x, y, z))));
                if level == 0 {
                    break;
                }
                sky.raise((x, y, z), level);
            }
            // Light from adjacent positions that have open sky.
            let neighbor = [(x - 1, z), (x + 1, z), (x, z - 1), (x, z + 1)];
            let inside = |(x, z): &(i32, i32)| (0..SIDE).contains(x) && (0..SIDE).contains(z);
            let open = neighbor
                .into_iter()
                .filter(inside)
                .map(|(x, z)| self.top(x, z))
                .min()
                .unwrap_or(highest);
            for y in open..self.top(x, z) {
                sky.raise(
                    (x, y, z),
                    15_u8.saturating_sub(opacity(self.id((x, y, z))).max(1)),
                );
            }
        }
        sky.spread(self, |(x, y, z)| y >= self.top(x, z));

        let mut lamps = Flood::new(256);
        for place in &self.lamps {
            lamps.raise(*place, emission(self.id(*place)));
        }
        if !lamps.queue.is_empty() {
            lamps.spread(self, |_| false);
        }
        let tops = *self.tops.get(4).copied().unwrap_or(&[0; 256]);
        Lights { sky, lamps, tops }
    }
}

/// Computed light of a column.
pub(super) struct Lights {
    sky: Flood,
    lamps: Flood,
    tops: Tops,
}

impl Lights {
    /// Writes the light into its column.
    pub(super) fn write(&self, column: &mut Column) {
        let sections = column.sections();
        let highest = self.tops.iter().copied().max().unwrap_or(0);
        for y in (0..=255_u8).filter(|y| sections >> (y >> 4) & 1 == 1 || u16::from(*y) < highest) {
            for (z, x) in (0..16_u8).flat_map(|z| (0..16).map(move |x| (z, x))) {
                let place @ (_, py, _) = (i32::from(x) + 16, i32::from(y), i32::from(z) + 16);
                let top = self
                    .tops
                    .get(usize::from(z << 4 | x))
                    .map_or(0, |top| i32::from(*top));
                column.set_sky_light(x, y, z, if py >= top { 15 } else { self.sky.at(place) });
                column.set_block_light(x, y, z, self.lamps.at(place));
            }
        }
    }
}

/// Light levels, and the queue of positions to spread from.
struct Flood {
    levels: Vec<u8>,
    queue: VecDeque<LightPosition>,
    height: i32,
}

impl Flood {
    fn new(height: i32) -> Self {
        Self {
            levels: Vec::new(),
            queue: VecDeque::new(),
            height,
        }
    }

    fn index(&self, (x, y, z): LightPosition) -> Option<usize> {
        let inside =
            (0..SIDE).contains(&x) && (0..self.height).contains(&y) && (0..SIDE).contains(&z);
        inside.then(|| ((y * SIDE + z) * SIDE + x) as usize)
    }

    fn at(&self, place: LightPosition) -> u8 {
        self.index(place)
            .and_then(|i| self.levels.get(i).copied())
            .unwrap_or(0)
    }

    fn raise(&mut self, place: LightPosition, level: u8) {
        let Some(i) = self.index(place) else { return };
        if self.levels.is_empty() {
            self.levels.resize((SIDE * SIDE * self.height) as usize, 0);
        }
        if let Some(slot) = self.levels.get_mut(i).filter(|slot| **slot < level) {
            *slot = level;
            self.queue.push_back(place);
        }
    }

    /// Spreads the levels, except into positions that are `full` already.
    fn spread(&mut self, around: &Neighborhood<'_>, full: impl Fn(LightPosition) -> bool) {
        while let Some(place @ (x, y, z)) = self.queue.pop_front() {
            let level = self.at(place);
            if level < 2 {
                continue;
            }
            let neighbor = [
                (x - 1, y, z),
                (x + 1, y, z),
                (x, y - 1, z),
                (x, y + 1, z),
                (x, y, z - 1),
                (x, y, z + 1),
            ];
            for next in neighbor {
                if self.index(next).is_some() && self.at(next) + 1 < level && !full(next) {
                    self.raise(next, level.saturating_sub(opacity(around.id(next)).max(1)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Block;

    fn lit(mut middle: Column, other: &Column) -> Column {
        let columns = [
            other, other, other, other, &middle, other, other, other, other,
        ];
        let all = columns.map(tops);
        let mut lamps = Vec::new();
        for (y, z, x) in
            (0..32).flat_map(|y| (0..48).flat_map(move |z| (0..48).map(move |x| (y, z, x))))
        {
            if emission(columns[nth(x, z)].block(x as u8, y as u8, z as u8).id) > 0 {
                lamps.push((x, y, z));
            }
        }
        let lights = Neighborhood {
            columns,
            tops: [0, 1, 2, 3, 4, 5, 6, 7, 8].map(|i| &*all[i]),
            lamps,
        }
        .light();
        lights.write(&mut middle);
        middle
    }

    fn ground() -> Column {
        let mut column = Column::default();
        for (x, y, z) in
            (0..16).flat_map(|x| (0..10).flat_map(move |y| (0..16).map(move |z| (x, y, z))))
        {
            column.set_block(x, y, z, Block::new(1));
        }
        column
    }

    #[test]
    fn a_roof_is_dark_towards_its_middle_and_a_lamp_helps() {
        let mut column = ground();
        for (x, z) in (0..16).flat_map(|x| (0..16).map(move |z| (x, z))) {
            column.set_block(x, 12, z, Block::new(1));
        }
        let dark = lit(column.clone(), &ground());
        assert_eq!([0, 1, 7].map(|x| dark.sky_light(x, 10, 7)), [14, 13, 7]);
        assert_eq!(
            (
                dark.sky_light(7, 13, 7),
                dark.sky_light(7, 12, 7),
                dark.sky_light(7, 3, 7)
            ),
            (15, 0, 0)
        );
        column.set_block(
            7,
            10,
            7,
            Block {
                id: 50,
                metadata: 5,
            },
        );
        let lamp = lit(column, &ground());
        assert_eq!([7, 8, 15].map(|x| lamp.block_light(x, 10, 7)), [14, 13, 6]);
        assert_eq!(lamp.block_light(7, 13, 7), 0, "not through the roof");
    }

    #[test]
    fn a_shaft_lets_light_down_and_water_takes_it() {
        let mut column = ground();
        for y in 2..10 {
            column.set_block(5, y, 5, Block::AIR);
        }
        column.set_block(6, 2, 5, Block::AIR);
        let shaft = lit(column.clone(), &ground());
        assert_eq!(
            (shaft.sky_light(5, 2, 5), shaft.sky_light(6, 2, 5)),
            (15, 14)
        );
        for y in 8..10 {
            column.set_block(5, y, 5, Block::new(9));
        }
        let wet = lit(column, &ground());
        assert_eq!([9, 8, 7, 2].map(|y| wet.sky_light(5, y, 5)), [12, 9, 9, 9]);
    }

    #[test]
    fn light_enters_from_adjacent_columns() {
        let mut other = ground();
        other.set_block(0, 10, 5, Block::new(89));
        assert_eq!(lit(ground(), &other).block_light(15, 10, 5), 14);
    }
}
