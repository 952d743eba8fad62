//! Map of the world from above, north up: a [`MapImage`] with one pixel per block, or text for a
//! terminal.

use crate::block::{self, BlockKind};
use crate::chunk::{Block, Column};
use crate::world::{World, local};

/// Maximum side of an image, in pixels. At this size an image takes 64 MiB.
pub const MAX_SIDE: u32 = 4096;

/// Area of the world, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Area {
    /// Western edge of the picture, in blocks.
    pub x: i32,
    /// Northern edge of the picture, in blocks.
    pub z: i32,
    /// Blocks from west to east.
    pub width: u32,
    /// Blocks from north to south.
    pub height: u32,
}

impl Area {
    /// Returns the area of all loaded columns. If they are farther apart than [`MAX_SIDE`], the
    /// area is centered on their median, so that one distant column does not move the map away from
    /// the others.
    pub fn of(world: &World) -> Self {
        let (x, width) = extent(world.columns().map(|(x, _, _)| x).collect());
        let (z, height) = extent(world.columns().map(|(_, z, _)| z).collect());
        Self {
            x,
            z,
            width,
            height,
        }
    }

    /// Returns the area of this size around a block.
    pub fn around((x, z): (i32, i32), width: u32, height: u32) -> Self {
        Self {
            x: x.saturating_sub_unsigned(width / 2),
            z: z.saturating_sub_unsigned(height / 2),
            width,
            height,
        }
    }
}

/// Returns the first block and the number of blocks of these columns along one axis.
fn extent(mut columns: Vec<i32>) -> (i32, u32) {
    columns.sort_unstable();
    let (Some(&first), Some(&last), Some(&median)) = (
        columns.first(),
        columns.last(),
        columns.get(columns.len() / 2),
    ) else {
        return (0, 0);
    };
    let most = (MAX_SIDE / 16) as i32;
    if last - first < most {
        (first * 16, (last - first + 1).unsigned_abs() * 16)
    } else {
        ((median - most / 2) * 16, MAX_SIDE)
    }
}

/// Use of brightness to show heights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapStyle {
    /// As on a map item: lighter than a lower block to the north, darker than a higher one. Deep
    /// water is darker.
    #[default]
    Paper,
    /// No shading: the plain colors of the blocks.
    Flat,
}

/// Image with rows from north to south, each from west to east.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapImage {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Red, green, blue, alpha of each pixel. All four are 0 if the column is not loaded or no
    /// block is visible.
    pub rgba: Vec<u8>,
    /// Block coordinates of the first pixel: x, z.
    pub origin: (i32, i32),
}

impl MapImage {
    /// Returns the color of a pixel; `None` if no block is visible there.
    pub fn pixel(&self, x: u32, y: u32) -> Option<[u8; 3]> {
        let x = x as usize;
        let y = y as usize;
        let width = self.width as usize;
        match self
            .rgba
            .as_chunks()
            .0
            .get(y * width..)?
            .get(..width)?
            .get(x)
        {
            Some(&[red, green, blue, 255]) => Some([red, green, blue]),
            _ => None,
        }
    }
}

/// Draws an area with one pixel per block, cut to [`MAX_SIDE`] on each side. A pixel shows the
/// highest visible block.
pub fn render(world: &World, area: Area, style: MapStyle) -> MapImage {
    let width = area.width.min(MAX_SIDE);
    let height = area.height.min(MAX_SIDE);
    let mut rgba = Vec::with_capacity(width as usize * height as usize * 4);
    let mut north = row(world, area.x, area.z.checked_sub(1), width);
    for dz in 0..height {
        let here = row(world, area.x, area.z.checked_add_unsigned(dz), width);
        for (here, north) in here.iter().zip(&north) {
            rgba.extend(here.as_ref().map_or([0; 4], |here| {
                let [red, green, blue] = here.color(north.as_ref(), style);
                [red, green, blue, 255]
            }));
        }
        north = here;
    }
    MapImage {
        width,
        height,
        rgba,
        origin: (area.x, area.z),
    }
}

/// Visible surface of one position.
struct Surface {
    y: u8,
    block: Block,
    /// Depth of the water in blocks, including this one.
    depth: u8,
}

impl Surface {
    fn at(column: &Column, x: u8, z: u8) -> Option<Self> {
        let (y, block) = column.top(x, z, |block| block::info(block.id).is_visible())?;
        let is_water = |y: &u8| block::info(column.block(x, *y, z).id).kind == BlockKind::Water;
        let depth = (0..=y).rev().take_while(is_water).count();
        Some(Self {
            y,
            block,
            depth: u8::try_from(depth).unwrap_or(u8::MAX),
        })
    }

    fn kind(&self) -> BlockKind {
        block::info(self.block.id).kind
    }

    fn color(&self, north: Option<&Self>, style: MapStyle) -> [u8; 3] {
        // Shades of vanilla's maps: 180, 220 and 255. An unknown northern neighbor counts as
        // equally high.
        let shade = match (style, north) {
            (MapStyle::Flat, _) => 255,
            (MapStyle::Paper, _) if self.depth > 0 => {
                (255 - 12 * u16::from(self.depth.min(11))).into()
            }
            (MapStyle::Paper, Some(north)) if north.y < self.y => 255,
            (MapStyle::Paper, Some(north)) if north.y > self.y => 180,
            (MapStyle::Paper, _) => 220_u32,
        };
        block::info(self.block.id)
            .color(self.block.metadata)
            .map(|part| (u32::from(part) * shade / 255) as u8)
    }
}

/// Returns the surfaces of one row of blocks; `z` is `None` outside the range of coordinates.
fn row(world: &World, x: i32, z: Option<i32>, width: u32) -> Vec<Option<Surface>> {
    let mut column = None;
    let mut column_x = None;
    let place = |dx| {
        let x = x.checked_add_unsigned(dx)?;
        let z = z?;
        if column_x != Some(x >> 4) {
            column_x = Some(x >> 4);
            column = world.column(x >> 4, z >> 4);
        }
        Surface::at(column?, local(x), local(z))
    };
    (0..width).map(place).collect()
}

/// Options of a text map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AsciiView {
    /// Block coordinates of the middle: x, z.
    pub center: (i32, i32),
    /// Width in characters.
    pub width: u16,
    /// Height in lines.
    pub height: u16,
    /// Blocks per character from west to east. Lines are twice as high as characters are wide, so a
    /// character covers twice as many from north to south.
    pub scale: u16,
    /// Whether to use 24-bit ANSI colors, with two pixels per character. Otherwise the map uses
    /// the characters of the [`legend`].
    pub has_color: bool,
}

/// Draws a text map. Each line ends in a line break. Columns that are not loaded are blank. Each
/// side is cut to [`MAX_SIDE`] blocks.
pub fn ascii(world: &World, view: &AsciiView) -> String {
    let scale = u32::from(view.scale.max(1)).min(MAX_SIDE / 2);
    let width = u32::from(view.width).min(MAX_SIDE / scale);
    let height = u32::from(view.height).min(MAX_SIDE / scale / 2);
    let area = Area::around(view.center, width * scale, height * scale * 2);
    if view.has_color {
        half_blocks(&render(world, area, MapStyle::Paper), scale)
    } else {
        glyphs(world, area, scale)
    }
}

/// Returns the legend of a map without colors: `~ water, ! lava, . sand, …`.
pub fn legend() -> String {
    let shown = BlockKind::ALL
        .into_iter()
        .filter(|kind| *kind != BlockKind::Clear);
    shown
        .map(|kind| kind.glyph())
        .map(|(glyph, name)| format!("{glyph} {name}"))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Draws each character as the most frequent kind of its blocks.
fn glyphs(world: &World, area: Area, scale: u32) -> String {
    let mut out = String::new();
    for line in 0..area.height / scale / 2 {
        let top = line * scale * 2;
        let rows = (top..top + scale * 2)
            .map(|dz| row(world, area.x, area.z.checked_add_unsigned(dz), area.width));
        let rows: Vec<_> = rows.collect();
        for left in (0..area.width as usize).step_by(scale as usize) {
            let cell = rows
                .iter()
                .flat_map(|row| row.iter().skip(left).take(scale as usize));
            let mut kinds: Vec<_> = cell
                .map(|surface| surface.as_ref().map_or(BlockKind::Clear, Surface::kind))
                .collect();
            kinds.sort_unstable();
            let most = kinds
                .chunk_by(|a, b| a == b)
                .max_by_key(|run| run.len())
                .and_then(<[_]>::first);
            out.push(most.map_or(' ', |kind| kind.glyph().0));
        }
        out.push('\n');
    }
    out
}

/// Draws each character as an upper and a lower pixel, with the mean colors of their blocks.
fn half_blocks(image: &MapImage, scale: u32) -> String {
    const RESET: &str = "\x1b[0m";
    let mut out = String::new();
    for top in (0..image.height).step_by(scale as usize * 2) {
        let mut last = String::from(RESET);
        for left in (0..image.width).step_by(scale as usize) {
            let color = |[red, green, blue]: [u8; 3]| format!("2;{red};{green};{blue}");
            let (sequence, c) = match (
                mean(image, left, top, scale),
                mean(image, left, top + scale, scale),
            ) {
                (Some(upper), Some(lower)) => (
                    format!("\x1b[38;{};48;{}m", color(upper), color(lower)),
                    '▀',
                ),
                (Some(upper), None) => (format!("\x1b[0;38;{}m", color(upper)), '▀'),
                (None, Some(lower)) => (format!("\x1b[0;38;{}m", color(lower)), '▄'),
                (None, None) => (RESET.into(), ' '),
            };
            if sequence != last {
                out.push_str(&sequence);
                last = sequence;
            }
            out.push(c);
        }
        if last != RESET {
            out.push_str(RESET);
        }
        out.push('\n');
    }
    out
}

/// Returns the mean color of a square of pixels, if at least half of them are visible.
fn mean(image: &MapImage, left: u32, top: u32, side: u32) -> Option<[u8; 3]> {
    let places = (top..top + side).flat_map(|y| (left..left + side).map(move |x| (x, y)));
    let mut sums = [0; 3];
    let mut seen = 0;
    for part in places.filter_map(|(x, y)| image.pixel(x, y)) {
        seen += 1;
        for (sum, part) in sums.iter_mut().zip(part) {
            *sum += u32::from(part);
        }
    }
    (seen * 2 >= side * side).then(|| sums.map(|sum| (sum / seen.max(1)) as u8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::MAX_COLUMNS;

    const fn of(id: u16, metadata: u8) -> Block {
        Block { id, metadata }
    }

    /// Returns a column of stone at height 10, with some blocks in its north-western corner.
    fn world() -> World {
        let mut world = World::new(MAX_COLUMNS);
        world.insert(-1, 2, Column::default()).unwrap();
        let west = -16;
        let north = 32;
        for i in 0..256 {
            world.set_block(west + i / 16, 10, north + i % 16, of(1, 0));
        }
        world.set_block(west + 1, 11, north + 1, of(35, 14));
        world.set_block(west + 1, 12, north + 1, of(20, 0));
        for y in 8..=10 {
            world.set_block(west + 2, y, north, of(9, 0));
        }
        world.set_block(west + 3, 200, north, of(300, 0));
        world.set_block(west + 4, 11, north, of(50, 5));
        world
    }

    fn shaded(color: [u8; 3], shade: u32) -> Option<[u8; 3]> {
        Some(color.map(|part| (u32::from(part) * shade / 255) as u8))
    }

    #[test]
    fn pixels_are_the_highest_blocks_shaded_by_the_north() {
        let world = world();
        let image = render(&world, Area::of(&world), MapStyle::Paper);
        assert_eq!(
            (image.width, image.height, image.origin),
            (16, 16, (-16, 32))
        );
        assert_eq!(image.rgba.len(), 16 * 16 * 4);
        let stone = block::info(1).color(0);
        assert_eq!(
            image.pixel(0, 0),
            shaded(stone, 220),
            "no column in the north"
        );
        assert_eq!(image.pixel(0, 1), shaded(stone, 220), "level");
        assert_eq!(
            image.pixel(1, 1),
            shaded([0x96, 0x34, 0x30], 255),
            "wool, higher than its north, under glass"
        );
        assert_eq!(
            image.pixel(1, 2),
            shaded(stone, 180),
            "lower than its north"
        );
        assert_eq!(
            image.pixel(2, 0),
            shaded(block::info(9).color(0), 255 - 36),
            "three deep"
        );
        assert_eq!(image.pixel(3, 0), shaded([0xFF, 0, 0xFF], 220), "unknown");
        assert_eq!(
            image.pixel(4, 0),
            shaded(stone, 220),
            "a torch is not shown"
        );
        let flat = render(&world, Area::of(&world), MapStyle::Flat);
        assert_eq!(
            (flat.pixel(1, 2), flat.pixel(2, 0)),
            (Some(stone), Some(block::info(9).color(0)))
        );
        assert_eq!((image.pixel(16, 0), image.pixel(0, 16)), (None, None));
    }

    #[test]
    fn heights_are_compared_across_columns_and_edges() {
        let mut world = world();
        world.insert(-1, 1, Column::default()).unwrap();
        world.set_block(-16, 50, 31, of(1, 0));
        let stone = block::info(1).color(0);
        let area = Area {
            x: -17,
            z: 32,
            width: 3,
            height: 1,
        };
        let image = render(&world, area, MapStyle::Paper);
        assert_eq!(image.pixel(0, 0), None, "not loaded");
        assert_eq!(image.rgba[..4], [0; 4]);
        assert_eq!(
            image.pixel(1, 0),
            shaded(stone, 180),
            "columns outside of the picture cast shade"
        );
        assert_eq!(image.pixel(2, 0), shaded(stone, 220));
    }

    #[test]
    fn areas_are_bounded() {
        let empty = World::new(1);
        assert!(
            render(&empty, Area::of(&empty), MapStyle::Paper)
                .rgba
                .is_empty()
        );
        let mut world = world();
        world.insert(-2, 2, Column::default()).unwrap();
        assert_eq!(
            Area::of(&world),
            Area {
                x: -32,
                z: 32,
                width: 32,
                height: 16
            }
        );
        world
            .insert((1 << 26) - 1, -(1 << 26), Column::default())
            .unwrap();
        let area = Area::of(&world);
        assert_eq!((area.width, area.height), (MAX_SIDE, MAX_SIDE));
        let place = |x, z| {
            render(&world, area, MapStyle::Flat).pixel((x - area.x) as u32, (z - area.z) as u32)
        };
        assert!(place(-16, 32).is_some(), "the far one is left out");
        let edge = Area {
            x: i32::MAX - 1,
            z: i32::MIN,
            width: u32::MAX,
            height: 2,
        };
        let image = render(&world, edge, MapStyle::Paper);
        assert_eq!((image.width, image.height), (MAX_SIDE, 2));
        assert!(image.rgba.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_map_in_characters() {
        let mut world = world();
        for i in 0..24 {
            world.set_block(-16 + i % 4, 20, 40 + i / 4, of(12, 0));
        }
        let view = AsciiView {
            center: (-8, 40),
            width: 6,
            height: 4,
            scale: 4,
            has_color: false,
        };
        assert_eq!(
            ascii(&world, &view),
            "      \n ^^^^ \n .^^^ \n      \n",
            "most of a cell decides"
        );
        let empty = ascii(
            &World::new(1),
            &AsciiView {
                width: u16::MAX,
                height: u16::MAX,
                scale: u16::MAX,
                ..view
            },
        );
        assert_eq!(empty, "  \n", "two characters of 2048 blocks");
        assert_eq!(
            ascii(
                &world,
                &AsciiView {
                    width: 0,
                    height: 0,
                    scale: 0,
                    ..view
                }
            ),
            ""
        );
    }

    #[test]
    fn a_map_in_colors() {
        let mut world = World::new(1);
        world.insert(0, 0, Column::default()).unwrap();
        for (x, z, id) in [(0, 1, 1), (1, 1, 1), (2, 1, 1), (2, 2, 12), (3, 2, 12)] {
            world.set_block(x, 0, z, of(id, 0));
        }
        let view = AsciiView {
            center: (2, 2),
            width: 5,
            height: 1,
            scale: 1,
            has_color: true,
        };
        let stone = "2;107;107;107";
        let sand = "2;188;182;138";
        let expected =
            format!("\x1b[0;38;{stone}m▀▀\x1b[38;{stone};48;{sand}m▀\x1b[0;38;{sand}m▄\x1b[0m \n");
        assert_eq!(ascii(&world, &view), expected);
    }

    #[test]
    fn the_legend_names_every_character() {
        let legend = legend();
        assert!(
            legend.starts_with("~ water, ! lava, . sand, \" grass"),
            "{legend}"
        );
        assert_eq!(legend.split(", ").count(), BlockKind::ALL.len() - 1);
    }
}
