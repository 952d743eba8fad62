//! Blocks of 1.3: names, colors on a map, and whether they stop bodies. Ids are those of the wire
//! (spec/minecraft-12w.md#5); names and colors are our own. Servers of later versions that accept
//! clients of 1.3 send their own ids too, so blocks up to 1.7 have a color.

use BlockKind::{
    Built, Clear, Earth, Grass, Lava, Leaves, Plant, Sand, Snow, Stone, Unknown, Water, Wood,
};

/// One kind of block.
#[derive(Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Block id on the wire.
    pub id: u16,
    /// Name in kebab case.
    pub name: &'static str,
    /// Appearance on a map.
    pub kind: BlockKind,
    /// Whether it stops bodies, so that players can stand on it.
    pub is_solid: bool,
    /// Color 0xRRGGBB for each metadata value. Their number is a power of two, so the low bits of
    /// the metadata select one.
    colors: &'static [u32],
}

/// Appearance of a block on a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BlockKind {
    /// Not visible from above: air, glass, torches, small plants.
    Clear,
    /// Water.
    Water,
    /// Lava and fire.
    Lava,
    /// Sand and sandstone.
    Sand,
    /// Grass.
    Grass,
    /// Cactus, pumpkins and other large plants.
    Plant,
    /// Leaves.
    Leaves,
    /// Snow and ice.
    Snow,
    /// Dirt, gravel, clay.
    Earth,
    /// Stone and ores.
    Stone,
    /// Trunks, planks, fences.
    Wood,
    /// Crafted blocks.
    Built,
    /// An id that no game up to 1.7 has.
    Unknown,
}

impl BlockKind {
    /// All kinds.
    pub const ALL: [Self; 13] = [
        Clear, Water, Lava, Sand, Grass, Plant, Leaves, Snow, Earth, Stone, Wood, Built, Unknown,
    ];

    /// Returns the character on a map without colors, and the name in its legend.
    pub const fn glyph(self) -> (char, &'static str) {
        match self {
            Clear => (' ', "nothing"),
            Water => ('~', "water"),
            Lava => ('!', "lava"),
            Sand => ('.', "sand"),
            Grass => ('"', "grass"),
            Plant => ('%', "plant"),
            Leaves => ('&', "leaves"),
            Snow => ('*', "snow"),
            Earth => (':', "earth"),
            Stone => ('^', "stone"),
            Wood => ('=', "wood"),
            Built => ('#', "built"),
            Unknown => ('?', "unknown"),
        }
    }
}

/// Replacement for every id that is not in the table: solid and magenta.
pub static UNKNOWN: BlockInfo = block(u16::MAX, "unknown", Unknown, SOLID, &[0xFF00FF]);

/// Returns the block of an id, if a game up to 1.7 has it.
pub fn find(id: u16) -> Option<&'static BlockInfo> {
    BLOCKS
        .get(usize::from(id))
        .or_else(|| LATER.iter().find(|block| block.id == id))
}

/// Returns the block of an id, or [`UNKNOWN`].
pub fn info(id: u16) -> &'static BlockInfo {
    find(id).unwrap_or(&UNKNOWN)
}

impl BlockInfo {
    /// Returns the color on a map: red, green, blue.
    pub fn color(&self, metadata: u8) -> [u8; 3] {
        let i = usize::from(metadata) % self.colors.len().max(1);
        let [_, red, green, blue] = self
            .colors
            .get(i)
            .copied()
            .unwrap_or_default()
            .to_be_bytes();
        [red, green, blue]
    }

    /// Returns whether a map shows it instead of the blocks below.
    pub fn is_visible(&self) -> bool {
        self.kind != Clear
    }
}

const SOLID: bool = true;
const OPEN: bool = false;

const fn block(
    id: u16,
    name: &'static str,
    kind: BlockKind,
    is_solid: bool,
    colors: &'static [u32],
) -> BlockInfo {
    BlockInfo {
        id,
        name,
        kind,
        is_solid,
        colors,
    }
}

/// Oak, spruce, birch, jungle.
const PLANKS: &[u32] = &[0x9C7F4E, 0x67502F, 0xC3B37B, 0x9A6E4D];
/// Oak, spruce, birch, jungle. The upper bits are the orientation of the trunk.
const WOOD: &[u32] = &[0x665132, 0x3A2812, 0xCFCEC9, 0x57451B];
/// Oak, spruce, birch, jungle. The upper bits are the state of decay.
const LEAVES: &[u32] = &[0x3C7A1E, 0x3F5F3F, 0x6F9148, 0x2F7D13];
/// White, orange, magenta, light blue, yellow, lime, pink, gray, light gray, cyan, purple, blue,
/// brown, green, red, black.
const WOOL: &[u32] = &[
    0xDDDDDD, 0xDB7D3E, 0xB350BC, 0x6B8AC9, 0xB1A627, 0x41AE38, 0xD08499, 0x404040, 0x9AA1A1,
    0x2E6E89, 0x7E3DB5, 0x2E388D, 0x4F321F, 0x35461B, 0x963430, 0x191616,
];
/// Stone, sandstone, wood, cobblestone, brick, stone brick; bit 8 is the upper half.
const SLABS: &[u32] = &[
    0xA6A6A6, 0xD9D09C, 0x9C7F4E, 0x767676, 0x926356, 0x797979, 0xA6A6A6, 0xA6A6A6,
];
/// Blocks with a silverfish: stone, cobblestone, stone brick.
const EGGS: &[u32] = &[0x7D7D7D, 0x767676, 0x797979, 0x7D7D7D];

/// Blocks up to 1.3, by id.
static BLOCKS: [BlockInfo; 137] = [
    block(0, "air", Clear, OPEN, &[0x000000]),
    block(1, "stone", Stone, SOLID, &[0x7D7D7D]),
    block(2, "grass", Grass, SOLID, &[0x6A9A3C]),
    block(3, "dirt", Earth, SOLID, &[0x866043]),
    block(4, "cobblestone", Stone, SOLID, &[0x767676]),
    block(5, "planks", Wood, SOLID, PLANKS),
    block(6, "sapling", Clear, OPEN, &[0x47661F]),
    block(7, "bedrock", Stone, SOLID, &[0x545454]),
    block(8, "flowing-water", Water, OPEN, &[0x3A5FCD]),
    block(9, "water", Water, OPEN, &[0x3A5FCD]),
    block(10, "flowing-lava", Lava, OPEN, &[0xD75B12]),
    block(11, "lava", Lava, OPEN, &[0xD75B12]),
    block(12, "sand", Sand, SOLID, &[0xDBD3A0]),
    block(13, "gravel", Earth, SOLID, &[0x857F7E]),
    block(14, "gold-ore", Stone, SOLID, &[0x908B7C]),
    block(15, "iron-ore", Stone, SOLID, &[0x88827E]),
    block(16, "coal-ore", Stone, SOLID, &[0x737373]),
    block(17, "wood", Wood, SOLID, WOOD),
    block(18, "leaves", Leaves, SOLID, LEAVES),
    block(19, "sponge", Built, SOLID, &[0xB6B639]),
    block(20, "glass", Clear, SOLID, &[0xDFEFF2]),
    block(21, "lapis-ore", Stone, SOLID, &[0x667085]),
    block(22, "lapis-block", Built, SOLID, &[0x1E43A0]),
    block(23, "dispenser", Built, SOLID, &[0x6B6B6B]),
    block(24, "sandstone", Sand, SOLID, &[0xD9D09C]),
    block(25, "note-block", Built, SOLID, &[0x6B4633]),
    block(26, "bed", Built, SOLID, &[0x8F1717]),
    block(27, "powered-rail", Clear, OPEN, &[0xA08040]),
    block(28, "detector-rail", Clear, OPEN, &[0x806A5A]),
    block(29, "sticky-piston", Built, SOLID, &[0x8A8F62]),
    block(30, "cobweb", Clear, OPEN, &[0xDCDCDC]),
    block(31, "tall-grass", Clear, OPEN, &[0x5F8F35]),
    block(32, "dead-bush", Clear, OPEN, &[0x7B4F19]),
    block(33, "piston", Built, SOLID, &[0x99825B]),
    block(34, "piston-head", Built, SOLID, &[0x99825B]),
    block(35, "wool", Built, SOLID, WOOL),
    block(36, "moving-piston", Clear, SOLID, &[0x99825B]),
    block(37, "dandelion", Clear, OPEN, &[0xF1F902]),
    block(38, "rose", Clear, OPEN, &[0xF7070F]),
    block(39, "brown-mushroom", Clear, OPEN, &[0x916D55]),
    block(40, "red-mushroom", Clear, OPEN, &[0xE21212]),
    block(41, "gold-block", Built, SOLID, &[0xF9EC4E]),
    block(42, "iron-block", Built, SOLID, &[0xDBDBDB]),
    block(43, "double-slab", Built, SOLID, SLABS),
    block(44, "slab", Built, SOLID, SLABS),
    block(45, "bricks", Built, SOLID, &[0x926356]),
    block(46, "tnt", Built, SOLID, &[0xC0432B]),
    block(47, "bookshelf", Wood, SOLID, &[0x9C7F4E]),
    block(48, "mossy-cobblestone", Stone, SOLID, &[0x677967]),
    block(49, "obsidian", Stone, SOLID, &[0x14121E]),
    block(50, "torch", Clear, OPEN, &[0xFFD800]),
    block(51, "fire", Lava, OPEN, &[0xD48C36]),
    block(52, "spawner", Built, SOLID, &[0x1A2730]),
    block(53, "oak-stairs", Wood, SOLID, &[0x9C7F4E]),
    block(54, "chest", Built, SOLID, &[0xA2722A]),
    block(55, "redstone-wire", Clear, OPEN, &[0xB00000]),
    block(56, "diamond-ore", Stone, SOLID, &[0x818C8F]),
    block(57, "diamond-block", Built, SOLID, &[0x61DBD5]),
    block(58, "crafting-table", Built, SOLID, &[0x6B4732]),
    block(59, "wheat", Clear, OPEN, &[0xA5B534]),
    block(60, "farmland", Earth, SOLID, &[0x4C280D]),
    block(61, "furnace", Built, SOLID, &[0x606060]),
    block(62, "burning-furnace", Built, SOLID, &[0x707060]),
    block(63, "sign-post", Clear, OPEN, &[0x9C7F4E]),
    block(64, "wooden-door", Clear, SOLID, &[0x9C7F4E]),
    block(65, "ladder", Clear, OPEN, &[0x7A5F34]),
    block(66, "rail", Clear, OPEN, &[0x7B6B4F]),
    block(67, "cobblestone-stairs", Stone, SOLID, &[0x767676]),
    block(68, "wall-sign", Clear, OPEN, &[0x9C7F4E]),
    block(69, "lever", Clear, OPEN, &[0x6A5A41]),
    block(70, "stone-pressure-plate", Clear, OPEN, &[0x7D7D7D]),
    block(71, "iron-door", Clear, SOLID, &[0xB8B8B8]),
    block(72, "wooden-pressure-plate", Clear, OPEN, &[0x9C7F4E]),
    block(73, "redstone-ore", Stone, SOLID, &[0x856B6B]),
    block(74, "glowing-redstone-ore", Stone, SOLID, &[0x956B6B]),
    block(75, "unlit-redstone-torch", Clear, OPEN, &[0x5D3E26]),
    block(76, "redstone-torch", Clear, OPEN, &[0xAC461F]),
    block(77, "stone-button", Clear, OPEN, &[0x7D7D7D]),
    block(78, "snow", Snow, OPEN, &[0xF4FAFA]),
    block(79, "ice", Snow, SOLID, &[0x9FBEF5]),
    block(80, "snow-block", Snow, SOLID, &[0xF0FBFB]),
    block(81, "cactus", Plant, SOLID, &[0x0D6318]),
    block(82, "clay", Earth, SOLID, &[0x9FA4B1]),
    block(83, "sugar-cane", Plant, OPEN, &[0x94C065]),
    block(84, "jukebox", Built, SOLID, &[0x6B4937]),
    block(85, "fence", Wood, SOLID, &[0x8A6F42]),
    block(86, "pumpkin", Plant, SOLID, &[0xC07615]),
    block(87, "netherrack", Stone, SOLID, &[0x6F3735]),
    block(88, "soul-sand", Sand, SOLID, &[0x544033]),
    block(89, "glowstone", Built, SOLID, &[0xD9B56B]),
    block(90, "portal", Clear, OPEN, &[0x570CBD]),
    block(91, "jack-o-lantern", Plant, SOLID, &[0xD08A20]),
    block(92, "cake", Built, SOLID, &[0xE5CDCE]),
    block(93, "unlit-repeater", Clear, SOLID, &[0x979393]),
    block(94, "repeater", Clear, SOLID, &[0xA09393]),
    block(95, "locked-chest", Built, SOLID, &[0xA2722A]),
    block(96, "trapdoor", Wood, SOLID, &[0x7E5D2D]),
    block(97, "monster-egg", Stone, SOLID, EGGS),
    block(98, "stone-bricks", Stone, SOLID, &[0x797979]),
    block(99, "brown-mushroom-block", Plant, SOLID, &[0x8D6A53]),
    block(100, "red-mushroom-block", Plant, SOLID, &[0xB62523]),
    block(101, "iron-bars", Clear, SOLID, &[0x6D6C6A]),
    block(102, "glass-pane", Clear, SOLID, &[0xDFEFF2]),
    block(103, "melon", Plant, SOLID, &[0x8D9124]),
    block(104, "pumpkin-stem", Clear, OPEN, &[0x6F9F3A]),
    block(105, "melon-stem", Clear, OPEN, &[0x6F9F3A]),
    block(106, "vines", Clear, OPEN, &[0x2F6B16]),
    block(107, "fence-gate", Wood, SOLID, &[0x8A6F42]),
    block(108, "brick-stairs", Built, SOLID, &[0x926356]),
    block(109, "stone-brick-stairs", Stone, SOLID, &[0x797979]),
    block(110, "mycelium", Earth, SOLID, &[0x6F6369]),
    block(111, "lily-pad", Plant, SOLID, &[0x1D6A2A]),
    block(112, "nether-bricks", Built, SOLID, &[0x2C161A]),
    block(113, "nether-brick-fence", Built, SOLID, &[0x2C161A]),
    block(114, "nether-brick-stairs", Built, SOLID, &[0x2C161A]),
    block(115, "nether-wart", Clear, OPEN, &[0x7A1418]),
    block(116, "enchantment-table", Built, SOLID, &[0x67403A]),
    block(117, "brewing-stand", Clear, SOLID, &[0x7C6751]),
    block(118, "cauldron", Built, SOLID, &[0x373737]),
    block(119, "end-portal", Clear, OPEN, &[0x101018]),
    block(120, "end-portal-frame", Built, SOLID, &[0x597560]),
    block(121, "end-stone", Stone, SOLID, &[0xDDDFA5]),
    block(122, "dragon-egg", Built, SOLID, &[0x0C090F]),
    block(123, "redstone-lamp", Built, SOLID, &[0x462B1A]),
    block(124, "lit-redstone-lamp", Built, SOLID, &[0x775937]),
    block(125, "double-wooden-slab", Wood, SOLID, PLANKS),
    block(126, "wooden-slab", Wood, SOLID, PLANKS),
    block(127, "cocoa", Clear, SOLID, &[0x8F5A25]),
    block(128, "sandstone-stairs", Sand, SOLID, &[0xD9D09C]),
    block(129, "emerald-ore", Stone, SOLID, &[0x6D8074]),
    block(130, "ender-chest", Built, SOLID, &[0x2B3B3E]),
    block(131, "tripwire-hook", Clear, OPEN, &[0x877B6A]),
    block(132, "tripwire", Clear, OPEN, &[0x818181]),
    block(133, "emerald-block", Built, SOLID, &[0x51D975]),
    block(134, "spruce-stairs", Wood, SOLID, &[0x67502F]),
    block(135, "birch-stairs", Wood, SOLID, &[0xC3B37B]),
    block(136, "jungle-stairs", Wood, SOLID, &[0x9A6E4D]),
];

/// Blocks of 1.4 to 1.7, by id.
static LATER: &[BlockInfo] = &[
    block(137, "command-block", Built, SOLID, &[0xB4886D]),
    block(138, "beacon", Built, SOLID, &[0x74DDD7]),
    block(139, "cobblestone-wall", Stone, SOLID, &[0x767676]),
    block(140, "flower-pot", Clear, SOLID, &[0x764134]),
    block(141, "carrots", Clear, OPEN, &[0x3E8E2B]),
    block(142, "potatoes", Clear, OPEN, &[0x4C9A3A]),
    block(143, "wooden-button", Clear, OPEN, &[0x9C7F4E]),
    block(144, "head", Clear, SOLID, &[0x6F6F6F]),
    block(145, "anvil", Built, SOLID, &[0x404040]),
    block(146, "trapped-chest", Built, SOLID, &[0xA2722A]),
    block(147, "golden-pressure-plate", Clear, OPEN, &[0xF9EC4E]),
    block(148, "iron-pressure-plate", Clear, OPEN, &[0xDBDBDB]),
    block(149, "unlit-comparator", Clear, SOLID, &[0x979393]),
    block(150, "comparator", Clear, SOLID, &[0xA09393]),
    block(151, "daylight-sensor", Built, SOLID, &[0x82745E]),
    block(152, "redstone-block", Built, SOLID, &[0xAB1B09]),
    block(153, "quartz-ore", Stone, SOLID, &[0x7D544F]),
    block(154, "hopper", Built, SOLID, &[0x3A3A3A]),
    block(155, "quartz-block", Built, SOLID, &[0xECE9E2]),
    block(156, "quartz-stairs", Built, SOLID, &[0xECE9E2]),
    block(157, "activator-rail", Clear, OPEN, &[0x684B3E]),
    block(158, "dropper", Built, SOLID, &[0x606060]),
    block(159, "stained-clay", Built, SOLID, WOOL),
    block(160, "stained-glass-pane", Clear, SOLID, WOOL),
    block(161, "acacia-leaves", Leaves, SOLID, &[0x3E7A1E]),
    block(162, "acacia-log", Wood, SOLID, &[0x696359]),
    block(163, "acacia-stairs", Wood, SOLID, &[0xA95B33]),
    block(164, "dark-oak-stairs", Wood, SOLID, &[0x3D2813]),
    block(165, "slime-block", Built, SOLID, &[0x78C865]),
    block(170, "hay-bale", Plant, SOLID, &[0xA68B0C]),
    block(171, "carpet", Built, OPEN, WOOL),
    block(172, "hardened-clay", Built, SOLID, &[0x965C42]),
    block(173, "coal-block", Built, SOLID, &[0x121212]),
    block(174, "packed-ice", Snow, SOLID, &[0x8DB4FA]),
    block(175, "tall-plant", Clear, OPEN, &[0x4F8A35]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_place_in_the_table_is_the_id() {
        for (id, block) in BLOCKS.iter().enumerate() {
            assert_eq!(usize::from(block.id), id);
            assert_eq!(find(block.id), Some(block));
            assert!(block.colors.len().is_power_of_two());
        }
        assert!(
            LATER.is_sorted_by_key(|block| block.id)
                && LATER.iter().all(|block| find(block.id) == Some(block))
        );
        assert_eq!(find(137).map(|block| block.name), Some("command-block"));
        assert_eq!(
            (find(169), find(u16::MAX), info(4095)),
            (None, None, &UNKNOWN)
        );
    }

    #[test]
    fn names_are_kebab_case_and_unique() {
        let names: HashSet<_> = BLOCKS.iter().chain(LATER).map(|block| block.name).collect();
        assert_eq!(names.len(), BLOCKS.len() + LATER.len());
        assert!(
            names
                .iter()
                .all(|name| name.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
        );
    }

    #[test]
    fn glyphs_are_unique() {
        let glyphs: HashSet<_> = BlockKind::ALL.iter().map(|kind| kind.glyph().0).collect();
        assert_eq!(glyphs.len(), BlockKind::ALL.len());
    }

    #[test]
    fn metadata_chooses_the_color() {
        assert_eq!(info(35).color(0), [0xDD; 3]);
        assert_eq!(info(35).color(15), [0x19, 0x16, 0x16]);
        assert_eq!(
            info(17).color(4 | 2),
            info(17).color(2),
            "a birch that lies"
        );
        assert_eq!(info(1).color(9), info(1).color(0));
        assert_eq!(info(200).color(0), [0xFF, 0, 0xFF]);
    }

    #[test]
    fn a_player_stands_on_some() {
        for (id, solid, visible) in [
            (0, false, false),
            (1, true, true),
            (9, false, true),
            (20, true, false),
            (50, false, false),
            (78, false, true),
        ] {
            assert_eq!(
                (info(id).is_solid, info(id).is_visible()),
                (solid, visible),
                "{id}"
            );
        }
    }
}
