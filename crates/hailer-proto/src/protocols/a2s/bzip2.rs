//! A decoder of bzip2 data for compressed split replies, and CRC-32 (spec/a2s.md#7.3).
//!
//! The expected length, at most 256 KiB, limits memory and time, regardless of the lengths in the
//! data. The checksums inside of bzip2 are skipped, because the message has its own CRC-32.

use crate::wire::Error;
pub(super) use crate::wire::crc32;
use alloc::vec::Vec;

/// Field name in errors.
const FIELD: &str = "compressed data";
/// Start of a block.
const BLOCK: u64 = 0x3141_5926_5359;
/// End of the data.
const END: u64 = 0x1772_4538_5090;
/// Longest Huffman code in bits.
const MAX_CODE_BITS: usize = 20;
/// Most symbols: 256 bytes except one that has no symbol, two run lengths, and the end.
const MAX_SYMBOLS: usize = 258;
/// Symbols that share one Huffman table.
const GROUP_SYMBOLS: usize = 50;
/// Equal bytes before a repeat count.
const RUN_BYTES: u32 = 4;

/// A rules reply with one rule, as compressed by the original program. Fuzzing starts from it.
pub const SAMPLE: &[u8] = b"\x42\x5A\x68\x39\x31\x41\x59\x26\x53\x59\xFB\x02\x37\x1C\x00\x00\
    \x07\xE5\x80\xE0\x00\x40\x00\x02\x00\x00\x08\x01\x00\x00\x00\xA0\
    \x00\x22\x32\x33\x50\x86\x00\xDB\x28\x63\x4C\x4F\xC5\xDC\x91\x4E\
    \x14\x24\x3E\xC0\x8D\xC7\x00";

/// Decompresses at most `limit` bytes.
///
/// # Errors
///
/// Fails if the data is invalid or longer than `limit` when decompressed.
pub(super) fn decompress(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Error> {
    let mut bits = Bits {
        bytes,
        at: 0,
        buffer: 0,
        count: 0,
    };
    if bits.take(24)? != 0x42_5A68 {
        return bits.fail("the bytes BZh");
    }
    let level = bits.take(8)?;
    if !(u64::from(b'1')..=u64::from(b'9')).contains(&level) {
        return bits.fail("a block size from 1 to 9");
    }
    let level = (level - u64::from(b'0')) as usize;
    // A repeat count follows four equal bytes, so blocks are at most 5/4 as long as their output.
    let block_limit = (level * 100_000).min(limit + limit / 4 + 1);
    let mut out = Vec::new();
    loop {
        match bits.take(48)? {
            BLOCK => {
                let block = read_block(&mut bits, block_limit)?;
                if !expand(&block, limit, &mut out) {
                    return bits.fail("data of the announced length");
                }
            }
            END => return Ok(out),
            _ => return bits.fail("the mark of a block or of the end"),
        }
    }
}

/// Bits, the highest of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    /// Offset of the next byte.
    at: usize,
    buffer: u64,
    /// Bits left in `buffer`.
    count: u32,
}

impl Bits<'_> {
    /// Takes at most 48 bits.
    fn take(&mut self, n: u32) -> Result<u64, Error> {
        while self.count < n {
            let Some(&byte) = self.bytes.get(self.at) else {
                return self.fail("more data");
            };
            self.buffer = self.buffer << 8 | u64::from(byte);
            self.count += 8;
            self.at += 1;
        }
        self.count -= n;
        Ok(self.buffer >> self.count & ((1 << n) - 1))
    }

    fn bit(&mut self) -> Result<bool, Error> {
        Ok(self.take(1)? == 1)
    }

    fn fail<T>(&self, expected: &'static str) -> Result<T, Error> {
        Err(Error::bad(FIELD, self.at, expected))
    }
}

/// A block after the Burrows-Wheeler transform, and the place of its first byte.
struct Block {
    bytes: Vec<u8>,
    origin: usize,
}

fn read_block(bits: &mut Bits<'_>, limit: usize) -> Result<Block, Error> {
    bits.take(32)?;
    if bits.bit()? {
        return bits.fail("a block without randomization");
    }
    let origin = bits.take(24)? as usize;
    let (mut recent, used) = read_used(bits)?;
    let symbols = used + 2;
    let tables = bits.take(3)? as usize;
    if !(2..=6).contains(&tables) {
        return bits.fail("2 to 6 tables");
    }
    let selectors = read_selectors(bits, tables)?;
    let mut codes = [const { Code::EMPTY }; 6];
    for code in codes.iter_mut().take(tables) {
        *code = Code::read(bits, symbols)?;
    }
    let mut bytes = Vec::new();
    // Length of the current run, and the weight of its next digit.
    let mut run = 0;
    let mut weight = 1;
    for selector in selectors {
        let Some(code) = codes.get(usize::from(selector)) else {
            return bits.fail("the number of a table");
        };
        for _ in 0..GROUP_SYMBOLS {
            let symbol = code.next(bits)?;
            if symbol <= 1 {
                // Runs count in digits 1 and 2 of base 2.
                run += weight << symbol;
                weight <<= 1;
                if bytes.len() + run > limit {
                    return bits.fail("a block of the announced length");
                }
                continue;
            }
            let &[front, ..] = &recent;
            bytes.resize(bytes.len() + run, front);
            run = 0;
            weight = 1;
            if symbol == symbols - 1 {
                if origin >= bytes.len() {
                    return bits.fail("an origin inside of the block");
                }
                return Ok(Block { bytes, origin });
            }
            if bytes.len() >= limit {
                return bits.fail("a block of the announced length");
            }
            // The byte moves to the front.
            let Some(moved) = recent.get_mut(..symbol) else {
                return bits.fail("a byte in use");
            };
            moved.rotate_right(1);
            bytes.extend(moved.first());
        }
    }
    bits.fail("the end of the block")
}

/// Reads which bytes the block uses. Returns them in order, and their number.
fn read_used(bits: &mut Bits<'_>) -> Result<([u8; 256], usize), Error> {
    let mut recent = [0; 256];
    let ranges = bits.take(16)?;
    let mut used = 0;
    for high in 0..16u8 {
        if ranges >> (15 - high) & 1 == 0 {
            continue;
        }
        let present = bits.take(16)?;
        for low in (0..16u8).filter(|low| present >> (15 - low) & 1 == 1) {
            if let Some(place) = recent.get_mut(used) {
                *place = high << 4 | low;
                used += 1;
            }
        }
    }
    match used {
        0 => bits.fail("a byte in use"),
        _ => Ok((recent, used)),
    }
}

fn read_selectors(bits: &mut Bits<'_>, tables: usize) -> Result<Vec<u8>, Error> {
    let count = bits.take(15)?;
    let mut order = [0, 1, 2, 3, 4, 5];
    let mut selectors = Vec::new();
    for _ in 0..count {
        let mut place = 0;
        while bits.bit()? {
            place += 1;
            if place >= tables {
                return bits.fail("the number of a table");
            }
        }
        if let Some(moved) = order.get_mut(..=place) {
            moved.rotate_right(1);
            selectors.extend(moved.first());
        }
    }
    Ok(selectors)
}

/// A canonical Huffman code.
struct Code {
    /// Number of codes of each length.
    counts: [u16; MAX_CODE_BITS + 1],
    /// Symbols in the order of their codes.
    symbols: [u16; MAX_SYMBOLS],
}

impl Code {
    const EMPTY: Self = Self {
        counts: [0; MAX_CODE_BITS + 1],
        symbols: [0; MAX_SYMBOLS],
    };

    fn read(bits: &mut Bits<'_>, symbols: usize) -> Result<Self, Error> {
        let mut lengths = [0; MAX_SYMBOLS];
        let mut length = bits.take(5)? as usize;
        for place in lengths.iter_mut().take(symbols) {
            loop {
                if !(1..=MAX_CODE_BITS).contains(&length) {
                    return bits.fail("a code of 1 to 20 bits");
                }
                if !bits.bit()? {
                    break;
                }
                if bits.bit()? {
                    length -= 1;
                } else {
                    length += 1;
                }
            }
            *place = length;
        }
        let mut code = Self::EMPTY;
        let lengths = lengths.iter().take(symbols);
        let mut places = code.symbols.iter_mut();
        for (wanted, count) in code.counts.iter_mut().enumerate().skip(1) {
            let same = lengths.clone().enumerate().filter(|(_, l)| **l == wanted);
            for (symbol, _) in same {
                if let Some(place) = places.next() {
                    *place = symbol as u16;
                    *count += 1;
                }
            }
        }
        Ok(code)
    }

    fn next(&self, bits: &mut Bits<'_>) -> Result<usize, Error> {
        // First code of this length, and the place of its symbol.
        let mut first = 0;
        let mut place = 0;
        let mut code = 0;
        for &count in self.counts.iter().skip(1) {
            let count = usize::from(count);
            code |= usize::from(bits.bit()?);
            if code < first + count {
                let symbol = self.symbols.get(place + code - first);
                return Ok(symbol.copied().unwrap_or_default().into());
            }
            place += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        bits.fail("a known code")
    }
}

/// Inverts the transform and expands repeat counts. Returns `false` if the output exceeds `limit`.
fn expand(block: &Block, limit: usize, out: &mut Vec<u8>) -> bool {
    let mut starts = [0u32; 256];
    for byte in &block.bytes {
        if let Some(count) = starts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let mut sum = 0;
    for start in &mut starts {
        let count = *start;
        *start = sum;
        sum += count;
    }
    let mut next = alloc::vec![0u32; block.bytes.len()];
    for (place, byte) in block.bytes.iter().enumerate() {
        if let Some(start) = starts.get_mut(usize::from(*byte)) {
            if let Some(target) = next.get_mut(*start as usize) {
                *target = place as u32;
            }
            *start += 1;
        }
    }
    let mut place = block.origin;
    let mut last = None;
    let mut run = 0;
    for _ in 0..block.bytes.len() {
        place = next.get(place).map_or(0, |place| *place as usize);
        let byte = block.bytes.get(place).copied().unwrap_or_default();
        if run == RUN_BYTES {
            out.resize(out.len() + usize::from(byte), last.unwrap_or_default());
            last = None;
            run = 0;
        } else {
            run = if last == Some(byte) { run + 1 } else { 1 };
            last = Some(byte);
            out.push(byte);
        }
        if out.len() > limit {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::vec;

    /// 250,000 times the letter a.
    const BOMB: &[u8] = b"\x42\x5A\x68\x39\x31\x41\x59\x26\x53\x59\xCE\xA6\x0C\x4F\x00\x01\
        \xEC\x01\x00\xE0\x00\x00\x08\x20\x00\x30\xCC\x05\x29\xA7\x18\x92\
        \xAD\x82\x4A\xBC\x5D\xC9\x14\xE1\x42\x43\x3A\x98\x31\x3C";
    /// `runs()`
    const RUNS: &[u8] = b"\x42\x5A\x68\x39\x31\x41\x59\x26\x53\x59\x87\x58\xA4\x1D\x00\x00\
        \x2F\xFF\xFF\xC8\x91\x22\x44\x89\x02\x04\x08\x38\x20\x40\x81\x02\
        \x04\x08\x10\x20\x40\x81\x02\x04\x08\x10\x20\x40\x81\x02\x04\x08\
        \x10\x20\x48\x20\x00\x75\x10\xA6\x8D\x00\x34\x00\x06\x8D\x1A\x69\
        \xA6\x20\xD2\x9F\xEA\xA8\xD3\x13\x04\xF4\x9A\x69\x80\x40\x19\x19\
        \xC9\x39\x39\x08\x42\x01\x24\xB5\x81\xE9\x5D\xCE\xAB\x2F\xCB\xC7\
        \xBC\xFF\xD1\xD6\x76\x49\x27\x33\x34\xF5\xBD\x55\x9A\x97\x63\xF3\
        \xD2\x54\xB6\x39\x12\x88\x00\x07\x02\x22\x64\x3D\xDA\x4B\xE2\xBD\
        \x5F\xCC\x6B\x9A\xE3\x00\x80\x01\xE7\x21\x08\x40\x00\x00\x00\x00\
        \x18\x42\xD8\x5D\xC9\x14\xE1\x42\x42\x1D\x62\x90\x74";
    /// `texts()`
    const TEXTS: &[u8] = b"\x42\x5A\x68\x39\x31\x41\x59\x26\x53\x59\xFD\xA0\x86\xA1\x00\x00\
        \x9C\x4B\x80\x40\x00\x7F\xE0\x00\x00\x82\x04\x12\x00\x30\x00\xAA\
        \xB1\x15\x3F\xC8\x9A\x6C\x94\x40\x8A\x9F\x87\xAA\x63\x52\x20\x36\
        \xA4\x32\x0D\x00\x30\x1A\x61\xC3\x6C\xBE\xA4\x6D\x24\x97\x0A\x8B\
        \x0B\x86\x00\x28\xE5\x65\x44\xC4\x99\x78\x96\xA9\xA0\x3A\x21\xBB\
        \x97\xB1\x91\xB5\x6E\x8B\x64\xE4\x72\x7E\x0A\xA6\xCE\xA0\xDA\x8C\
        \x93\x50\x2D\xCF\x2F\xB5\x79\x66\x29\xCE\xCE\xD6\xB3\xDC\x04\xEA\
        \xCE\x1C\x31\x65\xE7\xC5\x7B\xD8\x6A\x26\x60\xDE\x6C\x60\xC8\xBC\
        \x67\x4F\x18\x18\x2E\x46\xBA\x62\xA4\xE6\x3D\x53\x62\x97\xAC\x34\
        \x4E\xAF\x31\x86\x9B\xE1\xDA\x6B\x47\xDA\x03\x88\x0F\x20\x32\x80\
        \xF2\x03\xE2\xEE\x48\xA7\x0A\x12\x1F\xB4\x10\xD4\x20";

    /// Runs of three letters, up to 294 bytes long.
    fn runs() -> Vec<u8> {
        (0..43u8)
            .flat_map(|i| vec![b'A' + i % 3; 7 * usize::from(i)])
            .collect()
    }

    fn texts() -> Vec<u8> {
        (0..30u32)
            .flat_map(|i| format!("rule_{}\0{}\0", i * 7_919 % 1_000, i * i).into_bytes())
            .collect()
    }

    #[test]
    fn data_of_the_original_program() {
        let rule = decompress(SAMPLE, 1_000).unwrap();
        assert_eq!(
            rule,
            [
                b"\xFF\xFF\xFF\xFFE\x01\x00k\x00".as_slice(),
                &[b'v'; 20],
                b"\0"
            ]
            .concat()
        );
        assert_eq!(decompress(BOMB, 1 << 18).unwrap(), vec![b'a'; 250_000]);
        assert_eq!(decompress(RUNS, 1 << 18).unwrap(), runs());
        assert_eq!(decompress(TEXTS, 1 << 18).unwrap(), texts());
        assert_eq!(decompress(TEXTS, texts().len()).unwrap(), texts());
    }

    /// 60,000 times "ab": a block of more than 100,000 bytes.
    const LONG_BLOCK: &[u8] = b"\x42\x5A\x68\x39\x31\x41\x59\x26\x53\x59\xB2\x4C\x68\x7E\x00\x75\
        \x2F\x81\x00\x30\x00\x20\x00\x30\x80\x29\x18\x14\x49\x58\x14\x49\
        \x5C\x5D\xC9\x14\xE1\x42\x42\xC9\x31\xA1\xF8";

    #[test]
    fn blocks_are_as_long_as_their_level_allows() {
        assert_eq!(
            decompress(LONG_BLOCK, 120_000).unwrap(),
            b"ab".repeat(60_000)
        );
        // Level 1 allows 100,000 bytes.
        let mut low = LONG_BLOCK.to_vec();
        low[3] = b'1';
        assert!(decompress(&low, 120_000).is_err());
    }

    #[test]
    fn output_is_limited() {
        for (data, length) in [
            (BOMB, 250_000),
            (RUNS, runs().len()),
            (TEXTS, texts().len()),
        ] {
            for limit in [0, 1, 100, length - 1] {
                assert!(decompress(data, limit).is_err(), "{limit} of {length}");
            }
        }
    }

    #[test]
    fn broken_data_is_an_error() {
        for data in [SAMPLE, RUNS, TEXTS] {
            let whole = decompress(data, 1 << 18).unwrap();
            for end in 0..data.len() - 10 {
                assert!(decompress(&data[..end], 1 << 18).is_err(), "cut to {end}");
            }
            for place in 0..data.len() {
                for bit in 0..8 {
                    let mut changed = data.to_vec();
                    changed[place] ^= 1 << bit;
                    // Some bits change nothing, like those of inner checksums.
                    let Ok(other) = decompress(&changed, 1 << 18) else {
                        continue;
                    };
                    assert!(other == whole || crc32(&other) != crc32(&whole));
                }
            }
        }
    }

    #[test]
    fn checksums() {
        assert_eq!(crc32(b""), 0);
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(&decompress(SAMPLE, 100).unwrap()), 0x7A03_DA1F);
    }
}
