//! Columns of blocks, and their wire format in packets 0x33 and 0x38 (spec/minecraft-12w.md#7).
//!
//! A column is 16 × 256 × 16 blocks in 16 sections. On the wire it is one zlib stream. [`Inflater`]
//! decompresses it up to a limit; [`Column::apply`] and [`bulk`] parse the result. Offsets in their
//! errors count from the first inflated byte.
//!
//! Limits: a column inflates to at most [`MAX_COLUMN`] bytes, a 0x38 to at most 64 MiB
//! ([`MAX_BULK`]).

use flate2::{Compression, Decompress, FlushDecompress, Status, read::ZlibEncoder};
use hailer_proto::wire::{Error, ErrorKind, Notes, Reader};
use serde::Serialize;
use std::fmt;
use std::io::Read;
use std::ops::Range;

/// Blocks per section, one byte each.
const BLOCKS: usize = 4096;
/// Bytes of a section's nibble array: half a byte per block.
const NIBBLES: usize = BLOCKS / 2;
/// Biomes per column, one byte each.
const BIOMES: usize = 256;
/// Bytes that every section has: ids, metadata, block light, sky light (spec/minecraft-12w.md#7).
const SECTION: usize = BLOCKS + 3 * NIBBLES;

/// The largest inflated column: 16 sections with add arrays, and biomes (spec/minecraft-12w.md#7).
pub const MAX_COLUMN: usize = 16 * (SECTION + NIBBLES) + BIOMES;

/// Maximum of [`bulk_limit`]. The server may announce any number of columns; this is 340 full ones,
/// where vanilla sends 5.
pub const MAX_BULK: usize = 64 << 20;

/// Block: type and metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Block {
    /// Block id, 12 bits. 0 is air.
    pub id: u16,
    /// Variant or state of the block, 4 bits.
    pub metadata: u8,
}

impl Block {
    /// Block of air: an empty position.
    pub const AIR: Self = Self::new(0);

    /// Returns the block with this id and without metadata.
    pub const fn new(id: u16) -> Self {
        Self { id, metadata: 0 }
    }
}

/// Sections present in a buffer. Bit 0 is the lowest section (spec/minecraft-12w.md#7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct SectionMasks {
    /// Sections with ids, metadata and light.
    pub primary: u16,
    /// Sections with an add array, which holds the high four bits of each id.
    pub add: u16,
}

impl fmt::Display for SectionMasks {
    /// Writes the sections in hexadecimal (000f for the four lowest), followed by the add arrays if
    /// there are any.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}", self.primary)?;
        if self.add == 0 {
            Ok(())
        } else {
            write!(f, "+{:04x}", self.add)
        }
    }
}

/// Metadata of one column in a 0x38; it follows the data (spec/minecraft-12w.md#5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct ColumnMeta {
    /// Column coordinate: block x / 16, rounded down.
    pub x: i32,
    /// Column coordinate: block z / 16, rounded down.
    pub z: i32,
    /// Sections of the column that are present.
    pub masks: SectionMasks,
}

impl fmt::Display for ColumnMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {}) {}", self.x, self.z, self.masks)
    }
}

/// Returns the size of an inflated column with these masks, in bytes. Biomes are included only with
/// `ground_up` (spec/minecraft-12w.md#7).
pub fn size(masks: SectionMasks, ground_up: bool) -> usize {
    SECTION * ones(masks.primary) + NIBBLES * ones(masks.add) + if ground_up { BIOMES } else { 0 }
}

/// Returns whether a 0x33 with these flags unloads its column. Its body is meaningless and may be
/// empty. An empty body is not a zlib stream, so do not inflate it (spec/minecraft-12w.md#7).
pub fn is_unload(masks: SectionMasks, ground_up: bool) -> bool {
    ground_up && masks.primary == 0
}

/// Returns the inflated size of a 0x38 with these masks, in bytes, at most [`MAX_BULK`].
pub fn bulk_limit(metas: &[ColumnMeta]) -> usize {
    metas
        .iter()
        .fold(0, |sum: usize, meta| {
            sum.saturating_add(size(meta.masks, true))
        })
        .min(MAX_BULK)
}

/// Parses the columns of an inflated 0x38 (spec/minecraft-12w.md#7).
///
/// Some servers set the add mask but send no add arrays, so the length decides. If it fits with add
/// arrays, they are read; if it fits without them, the add mask is ignored.
///
/// # Errors
///
/// The length fits neither way, or a column is invalid.
pub fn bulk(metas: &[ColumnMeta], inflated: &[u8]) -> Result<Vec<(i32, i32, Column)>, Error> {
    let least: usize = metas
        .iter()
        .map(|meta| {
            size(
                SectionMasks {
                    add: 0,
                    ..meta.masks
                },
                true,
            )
        })
        .sum();
    let most = metas
        .iter()
        .map(|meta| NIBBLES * ones(meta.masks.add))
        .sum::<usize>()
        + least;
    let at = inflated.len();
    let with_add = at == most;
    if at < least {
        return Err(Error {
            field: "columns",
            at,
            kind: ErrorKind::Short { need: least - at },
        });
    } else if at > most {
        return Err(Error {
            field: "columns",
            at: most,
            kind: ErrorKind::Leftover { count: at - most },
        });
    } else if !with_add && at != least {
        return Err(Error::bad(
            "columns",
            at,
            "all the add arrays of the masks, or none",
        ));
    }

    let mut columns = Vec::with_capacity(metas.len());
    let mut rest = inflated;
    for &ColumnMeta { x, z, mut masks } in metas {
        if !with_add {
            masks.add = 0;
        }
        let (slice, after) = rest
            .split_at_checked(size(masks, true))
            .unwrap_or((rest, &[]));
        rest = after;
        let mut column = Column::default();
        column.apply(masks, true, slice)?;
        columns.push((x, z, column));
    }
    Ok(columns)
}

/// Encodes columns for a 0x38. Returns their metadata, and the data to be compressed
/// (spec/minecraft-12w.md#7).
pub fn encode_bulk(columns: &[(i32, i32, &Column)]) -> (Vec<ColumnMeta>, Vec<u8>) {
    let mut data = Vec::new();
    let metas = columns.iter().map(|&(x, z, column)| ColumnMeta {
        x,
        z,
        masks: column.encode(0xFFFF, true, &mut data),
    });
    (metas.collect(), data)
}

/// Appends `bytes` as a zlib stream with the default level, as vanilla does
/// (spec/minecraft-12w.md#7).
pub fn deflate(bytes: &[u8], out: &mut Vec<u8>) {
    // Compressing a slice into a vector cannot fail.
    let _ = ZlibEncoder::new(bytes, Compression::default()).read_to_end(out);
}

/// Zlib decompressor with a size limit. Reuse it: its state and its buffer are expensive to create.
#[derive(Debug)]
pub struct Inflater {
    state: Decompress,
    /// Not truncated after a stream, so that the next one need not clear it.
    buffer: Vec<u8>,
}

/// A buffer above this size is freed before the next stream.
const MAX_KEPT: usize = 4 << 20;

impl Default for Inflater {
    fn default() -> Self {
        Self {
            state: Decompress::new(true),
            buffer: Vec::new(),
        }
    }
}

impl Inflater {
    /// Decompresses the zlib stream in `bytes` to at most `limit` bytes: [`size`], [`bulk_limit`]
    /// or [`MAX_COLUMN`]. This grows the buffer to at most `limit` + 1 bytes.
    ///
    /// Returns the decompressed bytes and the number of bytes after the stream, so that the caller
    /// can report them. As in vanilla, they are ignored. No known server sends any.
    ///
    /// # Errors
    ///
    /// The stream is invalid, incomplete or longer than `limit`. The offset counts in `bytes`. as
    /// in vanilla; their number is returned, so that a caller can name them. No known server sends
    /// any.
    pub fn inflate(&mut self, bytes: &[u8], limit: usize) -> Result<(&[u8], usize), Error> {
        /// Size of the first allocation. A column fits in it.
        const FIRST_ALLOCATION_BYTES: usize = 256 << 10;
        const FIELD: &str = "compressed data";

        self.state.reset(true);
        if self.buffer.len() > MAX_KEPT {
            self.buffer = Vec::new();
        }
        // One byte more than the limit, to detect longer data.
        let most = limit.saturating_add(1);
        let mut written = 0;
        loop {
            if written == self.buffer.len().min(most) {
                let room = (most - written).min(written.max(FIRST_ALLOCATION_BYTES));
                self.buffer.reserve_exact(room);
                self.buffer.resize(written + room, 0);
            }
            let end = self.buffer.len().min(most);
            let rest = bytes.get(self.read()..).unwrap_or_default();
            let space = self.buffer.get_mut(written..end).unwrap_or_default();
            let status = self.state.decompress(rest, space, FlushDecompress::Finish);
            written = usize::try_from(self.state.total_out()).unwrap_or(usize::MAX);
            let at = self.read();
            match status {
                _ if written > limit => {
                    return Err(Error {
                        field: FIELD,
                        at,
                        kind: ErrorKind::Limit { limit },
                    });
                }
                Ok(Status::StreamEnd) => {
                    return Ok((
                        self.buffer.get(..written).unwrap_or_default(),
                        bytes.len().saturating_sub(at),
                    ));
                }
                // There is free space and the stream has not ended, so input is missing.
                Ok(_) if written < end => {
                    return Err(Error {
                        field: FIELD,
                        at,
                        kind: ErrorKind::Short { need: 1 },
                    });
                }
                Ok(_) => {}
                Err(_) => return Err(Error::bad(FIELD, at, "a zlib stream")),
            }
        }
    }

    fn read(&self) -> usize {
        usize::try_from(self.state.total_in()).unwrap_or(usize::MAX)
    }
}

/// Column of blocks: 16 sections from the bottom up, and a biome for each of its 16 × 16 positions.
///
/// Coordinates are relative to the column. Only the low four bits of `x` and `z` count, so world
/// coordinates can be passed unchanged. An absent section is air in full sky light.
#[derive(Clone, PartialEq, Eq)]
pub struct Column {
    sections: [Option<Section>; 16],
    biomes: [u8; BIOMES],
}

/// Default biome: plains, as in the unload of spec/minecraft-12w.md#9.
const PLAINS: u8 = 1;

impl Default for Column {
    fn default() -> Self {
        Self {
            sections: Default::default(),
            biomes: [PLAINS; BIOMES],
        }
    }
}

impl fmt::Debug for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Column {{ sections: {:016b}, .. }}", self.sections())
    }
}

impl Column {
    /// Parses an inflated 0x33 into this column (spec/minecraft-12w.md#7). With `ground_up` it
    /// replaces the whole column: sections outside the mask become air. Without, those sections and
    /// the biomes stay unchanged.
    ///
    /// # Errors
    ///
    /// The length does not match the masks. The column stays unchanged.
    pub fn apply(
        &mut self,
        masks: SectionMasks,
        ground_up: bool,
        inflated: &[u8],
    ) -> Result<(), Error> {
        let SectionMasks { primary, add } = masks;
        let mut notes = Notes::discarding();
        let mut reader = Reader::new(inflated, &mut notes);
        let ids = reader
            .take(BLOCKS * ones(primary), "block ids")?
            .as_chunks::<BLOCKS>()
            .0;
        let metadata = reader
            .take(NIBBLES * ones(primary), "metadata")?
            .as_chunks::<NIBBLES>()
            .0;
        let block_light = reader
            .take(NIBBLES * ones(primary), "block light")?
            .as_chunks::<NIBBLES>()
            .0;
        let sky_light = reader
            .take(NIBBLES * ones(primary), "sky light")?
            .as_chunks::<NIBBLES>()
            .0;
        let adds = reader
            .take(NIBBLES * ones(add), "add")?
            .as_chunks::<NIBBLES>()
            .0;
        let biomes = if ground_up {
            Some(reader.array("biomes")?)
        } else {
            None
        };
        reader.end()?;

        let mut planes = ids.iter().zip(metadata).zip(block_light).zip(sky_light);
        let mut adds = adds.iter();
        for (i, slot) in self.sections.iter_mut().enumerate() {
            if primary >> i & 1 == 1
                && let Some((((ids, metadata), block_light), sky_light)) = planes.next()
            {
                let section = slot.get_or_insert_with(Section::empty);
                section.add = None;
                section.bytes.clear();
                section.bytes.extend_from_slice(ids);
                section.bytes.extend_from_slice(metadata);
                section.bytes.extend_from_slice(block_light);
                section.bytes.extend_from_slice(sky_light);
            } else if ground_up {
                *slot = None;
            }
            if add >> i & 1 == 1
                && let Some(add) = adds.next()
                && let Some(section) = slot
            {
                section.add = (*add != [0; NIBBLES]).then(|| Box::new(*add));
            }
        }
        if let Some(biomes) = biomes {
            self.biomes = biomes;
        }
        Ok(())
    }

    /// Appends the sections of `wanted` in the format of a 0x33, to be compressed, and returns
    /// their masks (spec/minecraft-12w.md#7). With `ground_up`, absent sections are left out and
    /// biomes follow. Without, absent sections are written as air, because the client would
    /// otherwise keep its old ones.
    ///
    /// Add arrays are written for sections with an id above 255.
    pub fn encode(&self, wanted: u16, ground_up: bool, out: &mut Vec<u8>) -> SectionMasks {
        let mut masks = SectionMasks {
            primary: if ground_up {
                wanted & self.sections()
            } else {
                wanted
            },
            add: 0,
        };
        out.reserve(size(masks, ground_up));
        let air = Section::default();
        let written = || {
            let places = self
                .sections
                .iter()
                .enumerate()
                .filter(|(i, _)| masks.primary >> i & 1 == 1);
            places.map(|(i, section)| (i, section.as_ref().unwrap_or(&air)))
        };
        for plane in [IDS, METADATA, BLOCK_LIGHT, SKY_LIGHT] {
            written().for_each(|(_, section)| {
                out.extend_from_slice(section.bytes.get(plane.clone()).unwrap_or_default());
            });
        }
        let mut adds = 0;
        for (i, section) in written() {
            if let Some(add) = section.add.as_deref().filter(|add| **add != [0; NIBBLES]) {
                adds |= 1 << i;
                out.extend_from_slice(add);
            }
        }
        masks.add = adds;
        if ground_up {
            out.extend_from_slice(&self.biomes);
        }
        masks
    }

    /// Returns the sections that are present; bit 0 is the lowest. The others are air.
    pub fn sections(&self) -> u16 {
        self.sections
            .iter()
            .rev()
            .fold(0, |mask, section| mask << 1 | u16::from(section.is_some()))
    }

    /// Returns the block at a position.
    pub fn block(&self, x: u8, y: u8, z: u8) -> Block {
        self.section(y)
            .map_or(Block::AIR, |section| section.block(index(x, y, z)))
    }

    /// Sets a block. Only the low 12 bits of its id and the low four bits of its metadata are used.
    pub fn set_block(&mut self, x: u8, y: u8, z: u8, block: Block) {
        if let Some(section) = self.section_mut(y, block != Block::AIR) {
            section.set_block(index(x, y, z), block);
        }
    }

    /// Returns the block light at a position, 0 to 15.
    pub fn block_light(&self, x: u8, y: u8, z: u8) -> u8 {
        self.section(y)
            .map_or(0, |section| section.nibble(BLOCK_LIGHT, index(x, y, z)))
    }

    /// Sets the block light at a position, 0 to 15.
    pub fn set_block_light(&mut self, x: u8, y: u8, z: u8, light: u8) {
        if let Some(section) = self.section_mut(y, light != 0) {
            section.set_nibble(BLOCK_LIGHT, index(x, y, z), light);
        }
    }

    /// Returns the sky light at a position, 0 to 15.
    pub fn sky_light(&self, x: u8, y: u8, z: u8) -> u8 {
        self.section(y)
            .map_or(FULL, |section| section.nibble(SKY_LIGHT, index(x, y, z)))
    }

    /// Sets the sky light at a position, 0 to 15.
    pub fn set_sky_light(&mut self, x: u8, y: u8, z: u8, light: u8) {
        if let Some(section) = self.section_mut(y, light != FULL) {
            section.set_nibble(SKY_LIGHT, index(x, y, z), light);
        }
    }

    /// Returns the biome at a position.
    pub fn biome(&self, x: u8, z: u8) -> u8 {
        self.biomes.get(index(x, 0, z)).copied().unwrap_or(PLAINS)
    }

    /// Sets the biome at a position.
    pub fn set_biome(&mut self, x: u8, z: u8, biome: u8) {
        if let Some(slot) = self.biomes.get_mut(index(x, 0, z)) {
            *slot = biome;
        }
    }

    /// Returns the height of the highest block that is not air.
    pub fn highest(&self, x: u8, z: u8) -> Option<u8> {
        self.top(x, z, |_| true).map(|(y, _)| y)
    }

    /// Returns the highest block that is not air and matches `wanted`, with its height.
    pub fn top(&self, x: u8, z: u8, wanted: impl Fn(Block) -> bool) -> Option<(u8, Block)> {
        (0u8..16)
            .zip(&self.sections)
            .rev()
            .find_map(|(i, section)| {
                let section = section.as_ref()?;
                let blocks = (0u8..16)
                    .rev()
                    .map(|y| (i << 4 | y, section.block(index(x, y, z))));
                blocks
                    .filter(|(_, block)| block.id != 0)
                    .find(|(_, block)| wanted(*block))
            })
    }

    fn section(&self, y: u8) -> Option<&Section> {
        self.sections.get(usize::from(y >> 4))?.as_ref()
    }

    /// Returns the section at a height. Creates an absent one if `needed`. It is not needed if the
    /// value is that of an absent section.
    fn section_mut(&mut self, y: u8, needed: bool) -> Option<&mut Section> {
        let slot = self.sections.get_mut(usize::from(y >> 4))?;
        if needed {
            slot.get_or_insert_default();
        }
        slot.as_mut()
    }
}

/// Sky light of air with no block above.
const FULL: u8 = 15;

/// Sixteen layers. The arrays are contiguous, in wire order.
#[derive(Clone, PartialEq, Eq)]
struct Section {
    /// Always [`SECTION`] bytes long.
    bytes: Vec<u8>,
    add: Option<Box<[u8; NIBBLES]>>,
}

/// Ranges of the arrays in a section.
const IDS: Range<usize> = 0..BLOCKS;
const METADATA: Range<usize> = IDS.end..IDS.end + NIBBLES;
const BLOCK_LIGHT: Range<usize> = METADATA.end..METADATA.end + NIBBLES;
const SKY_LIGHT: Range<usize> = BLOCK_LIGHT.end..SECTION;

impl Default for Section {
    fn default() -> Self {
        let mut bytes = vec![0; SECTION];
        bytes
            .get_mut(SKY_LIGHT)
            .unwrap_or_default()
            .fill(FULL << 4 | FULL);
        Self { bytes, add: None }
    }
}

impl Section {
    /// Creates a section to be filled immediately.
    fn empty() -> Self {
        Self {
            bytes: Vec::with_capacity(SECTION),
            add: None,
        }
    }

    fn block(&self, i: usize) -> Block {
        let low = self.bytes.get(i).copied().unwrap_or_default();
        let high = self.add.as_ref().map_or(0, |add| half(add.get(i >> 1), i));
        Block {
            id: u16::from_be_bytes([high, low]),
            metadata: self.nibble(METADATA, i),
        }
    }

    fn set_block(&mut self, i: usize, block: Block) {
        let [high, low] = block.id.to_be_bytes();
        if let Some(slot) = self.bytes.get_mut(i) {
            *slot = low;
        }
        if self.add.is_some() || high & 15 != 0 {
            set_half(
                self.add
                    .get_or_insert_with(|| Box::new([0; NIBBLES]))
                    .get_mut(i >> 1),
                i,
                high,
            );
        }
        self.set_nibble(METADATA, i, block.metadata);
    }

    fn nibble(&self, plane: Range<usize>, i: usize) -> u8 {
        half(self.bytes.get(plane.start + (i >> 1)), i)
    }

    fn set_nibble(&mut self, plane: Range<usize>, i: usize, value: u8) {
        set_half(self.bytes.get_mut(plane.start + (i >> 1)), i, value);
    }
}

/// Returns the half byte of block `i`. Even x is in the low half (spec/minecraft-12w.md#7).
fn half(byte: Option<&u8>, i: usize) -> u8 {
    let byte = byte.copied().unwrap_or_default();
    if i & 1 == 0 { byte & 15 } else { byte >> 4 }
}

fn set_half(byte: Option<&mut u8>, i: usize, value: u8) {
    if let Some(byte) = byte {
        *byte = if i & 1 == 0 {
            *byte & 0xF0 | value & 15
        } else {
            *byte & 15 | value << 4
        };
    }
}

/// Returns the index of a block in its section, or with `y` 0 that of a biome in its column
/// (spec/minecraft-12w.md#7).
fn index(x: u8, y: u8, z: u8) -> usize {
    usize::from(y & 15) << 8 | usize::from(z & 15) << 4 | usize::from(x & 15)
}

fn ones(mask: u16) -> usize {
    mask.count_ones() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Body of the unload in spec/minecraft-12w.md#9.
    const UNLOAD: [u8; 12] = [
        0x78, 0x9C, 0x63, 0x64, 0x1C, 0xD9, 0x00, 0x00, 0x81, 0x80, 0x01, 0x01,
    ];

    /// Fills with reproducible noise (xorshift).
    fn noise(mut seed: u64, bytes: &mut [u8]) {
        for byte in bytes {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            *byte = seed as u8;
        }
    }

    /// Returns a column of noise in wire format.
    fn buffer(masks: SectionMasks, ground_up: bool, seed: u64) -> Vec<u8> {
        let mut bytes = vec![0; size(masks, ground_up)];
        noise(seed | 1, &mut bytes);
        bytes
    }

    fn inflate(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
        Inflater::default()
            .inflate(bytes, limit)
            .map(|(inflated, _)| inflated.to_vec())
    }

    #[test]
    fn sizes_are_those_of_the_page() {
        assert_eq!(MAX_COLUMN, 196_864);
        assert_eq!(
            size(
                SectionMasks {
                    primary: 0xFFFF,
                    add: 0xFFFF
                },
                true
            ),
            MAX_COLUMN
        );
        assert_eq!(
            size(
                SectionMasks {
                    primary: 0x8001,
                    add: 0x0001
                },
                false
            ),
            22_528
        );
        assert_eq!(size(SectionMasks::default(), false), 0);
    }

    #[test]
    fn the_unload_is_256_times_plains() {
        let inflated = inflate(&UNLOAD, BIOMES).unwrap();
        assert_eq!(inflated, [1; 256]);
        let masks = SectionMasks::default();
        assert!(is_unload(masks, true) && !is_unload(masks, false));
        assert!(!is_unload(SectionMasks { primary: 1, add: 0 }, true));
        let mut column = Column::default();
        column.set_block(1, 2, 3, Block::new(1));
        column.apply(masks, true, &inflated).unwrap();
        assert_eq!(column, Column::default());
    }

    #[test]
    fn deflated_bytes_inflate() {
        for bytes in [
            &[][..],
            &[1; 256],
            &buffer(SectionMasks { primary: 3, add: 1 }, true, 7),
        ] {
            let mut out = b"before".to_vec();
            deflate(bytes, &mut out);
            assert_eq!(
                inflate(out.strip_prefix(b"before").unwrap(), bytes.len()).unwrap(),
                bytes
            );
        }
    }

    #[test]
    fn places_follow_y_z_x_with_even_x_in_the_low_nibble() {
        let masks = SectionMasks {
            primary: 0b100,
            add: 0b100,
        };
        let mut bytes = vec![0; size(masks, true)];
        let x = 5;
        let y = 2 * 16 + 3;
        let z = 9;
        let i = 3 << 8 | 9 << 4 | 5;
        bytes[i] = 0x34;
        bytes[4096 + i / 2] = 0x7A;
        bytes[4096 + 2048 + i / 2] = 0x60;
        bytes[4096 + 2 * 2048 + i / 2] = 0x50;
        bytes[4096 + 3 * 2048 + i / 2] = 0x20;
        bytes[4096 + 4 * 2048 + (9 << 4 | 5)] = 42;
        let mut column = Column::default();
        column.apply(masks, true, &bytes).unwrap();
        assert_eq!(
            column.block(x, y, z),
            Block {
                id: 0x234,
                metadata: 7
            }
        );
        assert_eq!(
            column.block(x - 1, y, z),
            Block {
                id: 0,
                metadata: 10
            }
        );
        assert_eq!(
            (
                column.block_light(x, y, z),
                column.sky_light(x, y, z),
                column.biome(x, z)
            ),
            (6, 5, 42)
        );
        assert_eq!(
            (
                column.sections(),
                column.highest(x, z),
                column.highest(x, 0)
            ),
            (0b100, Some(35), None)
        );
        assert_eq!(
            (column.sky_light(0, 0, 0), column.block_light(0, 0, 0)),
            (15, 0)
        );
    }

    #[test]
    fn set_values_are_read_back() {
        let mut column = Column::default();
        column.set_block(0, 200, 0, Block::AIR);
        column.set_block_light(0, 200, 0, 0);
        column.set_sky_light(0, 200, 0, 15);
        assert_eq!(column.sections(), 0, "nothing new was said");
        column.set_block(
            15,
            255,
            15,
            Block {
                id: 0xFFF,
                metadata: 15,
            },
        );
        column.set_block(14, 255, 15, Block { id: 7, metadata: 1 });
        column.set_block_light(15, 255, 15, 9);
        column.set_sky_light(15, 0, 15, 0);
        column.set_biome(3, 4, 5);
        assert_eq!(
            column.block(15, 255, 15),
            Block {
                id: 0xFFF,
                metadata: 15
            }
        );
        assert_eq!(column.block(14, 255, 15), Block { id: 7, metadata: 1 });
        assert_eq!(
            (
                column.block_light(15, 255, 15),
                column.block_light(14, 255, 15)
            ),
            (9, 0)
        );
        assert_eq!(
            (column.sky_light(15, 0, 15), column.sky_light(14, 0, 15)),
            (0, 15)
        );
        assert_eq!((column.biome(3, 4), column.biome(4, 3)), (5, 1));
        assert_eq!(column.sections(), 0x8001);
        assert_eq!(column.top(15, 15, |block| block.id == 1), None);
    }

    #[test]
    fn masks_of_all_shapes_go_round() {
        let whole = buffer(
            SectionMasks {
                primary: 0xFFFF,
                add: 0xFFFF,
            },
            true,
            3,
        );
        let mut out = Vec::new();
        for primary in (0..=0xFFFF).step_by(7) {
            let masks = SectionMasks {
                primary,
                add: primary & primary.rotate_left(5),
            };
            for ground_up in [false, true] {
                let bytes = &whole[..size(masks, ground_up)];
                let mut column = Column::default();
                column.apply(masks, ground_up, bytes).unwrap();
                out.clear();
                assert_eq!(column.encode(primary, ground_up, &mut out), masks);
                assert!(out == bytes, "{masks:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn columns_go_round(primary: u16, add: u16, ground_up: bool, seed: u64) {
            let masks = SectionMasks { primary, add: add & primary };
            let bytes = buffer(masks, ground_up, seed);
            let mut column = Column::default();
            let mut out = Vec::new();
            column.apply(masks, ground_up, &bytes).unwrap();
            prop_assert_eq!(column.encode(primary, ground_up, &mut out), masks);
            prop_assert!(out == bytes);
        }

        #[test]
        fn an_update_keeps_the_other_sections(primary: u16, add: u16, seed: u64) {
            let full = SectionMasks { primary: 0xFFFF, add: 0x0FF0 };
            let mut column = Column::default();
            column.apply(full, true, &buffer(full, true, seed)).unwrap();
            let before = column.clone();
            let masks = SectionMasks { primary, add: add & primary };
            column.apply(masks, false, &buffer(masks, false, seed ^ 99)).unwrap();
            prop_assert_eq!(column.biomes, before.biomes);
            for i in 0..16 {
                prop_assert_eq!(column.sections[i] == before.sections[i], primary >> i & 1 == 0, "section {}", i);
            }
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>, primary: u16, add: u16, ground_up: bool) {
            let masks = SectionMasks { primary, add };
            let _ = inflate(&bytes, MAX_COLUMN);
            let _ = Column::default().apply(masks, ground_up, &bytes);
            let _ = bulk(&[ColumnMeta { x: 0, z: 0, masks }], &bytes);
        }
    }

    #[test]
    fn absent_sections_are_air_or_left_out() {
        let mut column = Column::default();
        let mut out = Vec::new();
        column.set_block(0, 16, 0, Block::new(1));
        assert_eq!(
            column.encode(0b111, true, &mut out),
            SectionMasks {
                primary: 0b010,
                add: 0
            }
        );
        out.clear();
        assert_eq!(
            column.encode(0b101, false, &mut out),
            SectionMasks {
                primary: 0b101,
                add: 0
            }
        );
        let mut other = Column::default();
        other.set_block(0, 0, 0, Block { id: 5, metadata: 5 });
        other.set_sky_light(0, 0, 0, 3);
        other
            .apply(
                SectionMasks {
                    primary: 0b101,
                    add: 0,
                },
                false,
                &out,
            )
            .unwrap();
        assert_eq!(
            (other.block(0, 0, 0), other.sky_light(0, 0, 0)),
            (Block::AIR, 15)
        );
    }

    #[test]
    fn an_add_array_that_became_zero_is_not_sent() {
        let mut column = Column::default();
        let mut out = Vec::new();
        column.set_block(0, 0, 0, Block::new(256));
        column.set_block(0, 0, 0, Block::new(1));
        assert_eq!(
            column.encode(1, false, &mut out),
            SectionMasks { primary: 1, add: 0 }
        );
    }

    #[test]
    fn every_other_length_names_its_field_and_changes_nothing() {
        let masks = SectionMasks {
            primary: 0b11,
            add: 0b10,
        };
        let whole = buffer(masks, true, 5);
        let mut column = Column::default();
        for n in 0..whole.len() {
            let error = column.apply(masks, true, &whole[..n]).unwrap_err();
            let (field, at) = match n {
                0..8192 => ("block ids", 0),
                8192..12_288 => ("metadata", 8192),
                12_288..16_384 => ("block light", 12_288),
                16_384..20_480 => ("sky light", 16_384),
                20_480..22_528 => ("add", 20_480),
                _ => ("biomes", 22_528),
            };
            assert_eq!((error.field, error.at), (field, at), "{n}");
            assert!(matches!(error.kind, ErrorKind::Short { need } if need > 0));
        }
        assert_eq!(column, Column::default());
        let longer = [&whole[..], &[0]].concat();
        assert_eq!(
            column.apply(masks, true, &longer).unwrap_err().kind,
            ErrorKind::Leftover { count: 1 }
        );
        assert_eq!(column, Column::default());
    }

    fn metas(masks: &[(u16, u16)]) -> Vec<ColumnMeta> {
        let meta = |(i, &(primary, add))| ColumnMeta {
            x: i as i32,
            z: -1,
            masks: SectionMasks { primary, add },
        };
        masks.iter().enumerate().map(meta).collect()
    }

    #[test]
    fn the_bulk_of_the_page_is_236_800_bytes() {
        let metas = metas(&[(0x000F, 0), (0x8001, 0), (0, 0), (0xFFFF, 0), (0x0002, 0)]);
        assert_eq!(bulk_limit(&metas), 236_800);
        let mut bytes = vec![0; 236_800];
        noise(11, &mut bytes);
        let columns = bulk(&metas, &bytes).unwrap();
        assert_eq!(
            columns
                .iter()
                .map(|(_, _, column)| column.sections())
                .collect::<Vec<_>>(),
            [0x000F, 0x8001, 0, 0xFFFF, 0x0002]
        );
        let columns: Vec<_> = columns
            .iter()
            .map(|(x, z, column)| (*x, *z, column))
            .collect();
        assert_eq!(encode_bulk(&columns), (metas, bytes));
    }

    #[test]
    fn the_length_of_a_bulk_decides_about_add_arrays() {
        let metas = metas(&[(0b11, 0b01), (0b100, 0b100)]);
        let least = 3 * 10_240 + 512;
        let most = 3 * 10_240 + 2 * 2048 + 512;
        let bytes = vec![0x11; most];
        for n in 0..most + 2 {
            match bulk(&metas, bytes.get(..n).unwrap_or(&vec![0x11; n])) {
                Ok(columns) => {
                    let id = if n == most { 0x111 } else { 0x11 };
                    assert!(n == least || n == most, "{n}");
                    assert_eq!(
                        (
                            columns[0].2.block(0, 0, 0).id,
                            columns[1].2.block(0, 32, 0).id
                        ),
                        (id, id)
                    );
                    assert_eq!(columns[1].2.biome(0, 0), 0x11);
                }
                Err(error) => {
                    assert_eq!((error.field, n == least || n == most), ("columns", false));
                }
            }
        }
        assert_eq!(bulk(&[], &[]), Ok(vec![]));
        assert_eq!(bulk_limit(&vec![metas[0]; 32_767]), MAX_BULK);
    }

    #[test]
    fn broken_and_truncated_streams_are_refused() {
        let mut bytes = Vec::new();
        deflate(
            &buffer(SectionMasks { primary: 1, add: 0 }, true, 1)[..600],
            &mut bytes,
        );
        for n in 0..bytes.len() {
            let error = inflate(&bytes[..n], 600).unwrap_err();
            assert_eq!(
                (error.field, error.kind),
                ("compressed data", ErrorKind::Short { need: 1 }),
                "{n}"
            );
        }
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        assert_eq!(
            inflate(&bytes, 600).unwrap_err().kind,
            ErrorKind::Bad("a zlib stream")
        );
        // Requires a preset dictionary, which does not exist.
        assert!(inflate(&[0x78, 0xBB, 0, 0, 0, 1, 0, 0], 600).is_err());
    }

    #[test]
    fn bytes_after_the_stream_are_counted() {
        let mut inflater = Inflater::default();
        assert_eq!(inflater.inflate(&UNLOAD, 256), Ok((&[1; 256][..], 0)));
        assert_eq!(
            inflater.inflate(&[&UNLOAD[..], b"abc"].concat(), 256),
            Ok((&[1; 256][..], 3))
        );
    }

    #[test]
    fn bombs_stop_at_the_limit() {
        let mut bomb = Vec::new();
        deflate(&vec![0; 64 << 20], &mut bomb);
        for limit in [0, 1, 255, MAX_COLUMN, 1 << 20] {
            let mut inflater = Inflater::default();
            assert_eq!(
                inflater.inflate(&bomb, limit).unwrap_err().kind,
                ErrorKind::Limit { limit }
            );
            assert!(
                inflater.buffer.capacity() <= limit + 8,
                "{limit}: {}",
                inflater.buffer.capacity()
            );
        }
        let mut inflater = Inflater::default();
        assert_eq!(
            inflater
                .inflate(&bomb, 64 << 20)
                .map(|(inflated, _)| inflated.len()),
            Ok(64 << 20)
        );
        assert_eq!(
            inflater.inflate(&UNLOAD, 255).unwrap_err().kind,
            ErrorKind::Limit { limit: 255 }
        );
        assert_eq!(
            inflater.inflate(&UNLOAD, 256),
            Ok((&[1; 256][..], 0)),
            "an error does not spoil the next stream"
        );
        assert!(
            inflater.buffer.capacity() <= 257,
            "the large buffer is freed"
        );
    }
}
