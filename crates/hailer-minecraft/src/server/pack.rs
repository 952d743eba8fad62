//! Compressed columns, shared by all players and builds.
//!
//! 0x33 carries one column and 0x38 several in one zlib stream (spec/minecraft-12w.md#7). A piece
//! is one column as raw deflate that ends at a byte boundary without ending the stream. Pieces can
//! therefore be concatenated: a header, the pieces, an empty last block and a checksum make a valid
//! stream. The checksum is combined from those of the pieces.

use crate::chunk::SectionMasks;
use flate2::{Compress, Compression, FlushCompress};

/// Column that is compressed for sending.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) masks: SectionMasks,
    deflated: Box<[u8]>,
    sum: Adler,
}

/// Compressor. Reuse it: its state is expensive to create.
#[derive(Debug)]
pub(super) struct Packer {
    compress: Compress,
    out: Vec<u8>,
}

impl Default for Packer {
    fn default() -> Self {
        Self {
            compress: Compress::new(Compression::default(), false),
            out: Vec::new(),
        }
    }
}

impl Packer {
    /// Compresses the bytes of one column.
    pub(super) fn pack(&mut self, masks: SectionMasks, bytes: &[u8]) -> Piece {
        self.compress.reset();
        self.out.clear();
        loop {
            self.out.reserve(4096);
            let read = usize::try_from(self.compress.total_in()).unwrap_or(usize::MAX);
            let rest = bytes.get(read..).unwrap_or_default();
            // In-memory compression cannot fail. Free space in the buffer shows that everything is
            // flushed.
            let done = self
                .compress
                .compress_vec(rest, &mut self.out, FlushCompress::Sync)
                .is_err();
            if done || self.out.len() < self.out.capacity() {
                break;
            }
        }
        Piece {
            masks,
            deflated: self.out.as_slice().into(),
            sum: Adler::of(bytes),
        }
    }
}

/// Returns a zlib stream of several pieces.
pub(super) fn join<'a>(pieces: impl IntoIterator<Item = &'a Piece>) -> Vec<u8> {
    let mut out = vec![0x78, 0x9C];
    let mut sum = Adler::of(&[]);
    for piece in pieces {
        out.extend_from_slice(&piece.deflated);
        sum = sum.then(piece.sum);
    }
    // Empty last block.
    out.extend_from_slice(&[0x03, 0x00]);
    out.extend_from_slice(&(sum.b << 16 | sum.a).to_be_bytes());
    out
}

/// Adler-32 (RFC 1950) with the length, which is needed to combine checksums.
#[derive(Clone, Copy, Debug)]
struct Adler {
    a: u32,
    b: u32,
    len: u32,
}

impl Adler {
    const MOD: u32 = 65_521;

    fn of(bytes: &[u8]) -> Self {
        let mut a = 1_u32;
        let mut b = 0_u32;
        // Maximum number of bytes before b could overflow.
        for run in bytes.chunks(5552) {
            for byte in run {
                a += u32::from(*byte);
                b += a;
            }
            a %= Self::MOD;
            b %= Self::MOD;
        }
        Self {
            a,
            b,
            len: (bytes.len() % Self::MOD as usize) as u32,
        }
    }

    /// Returns the checksum of both inputs in sequence.
    fn then(self, next: Self) -> Self {
        let wide = |value: u32| u64::from(value);
        let modulus = wide(Self::MOD);
        let a = (wide(self.a) + wide(next.a) + modulus - 1) % modulus;
        let b =
            (wide(self.b) + wide(next.b) + wide(next.len) * (wide(self.a) + modulus - 1)) % modulus;
        Self {
            a: a as u32,
            b: b as u32,
            len: (self.len + next.len) % Self::MOD,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chunk::Inflater;
    use crate::sample::SampleRng;

    #[test]
    fn pieces_side_by_side_are_one_stream() {
        let mut dice = SampleRng::new(1);
        let mut packer = Packer::default();
        for count in 0..6 {
            let parts: Vec<Vec<u8>> = (0..count)
                .map(|_| {
                    let len = [0, 1, 256, 10_496, 200_000][dice.below(5)];
                    (0..len)
                        .map(|i| if i % 7 == 0 { dice.bits() as u8 } else { 255 })
                        .collect()
                })
                .collect();
            let pieces: Vec<Piece> = parts
                .iter()
                .map(|part| packer.pack(SectionMasks::default(), part))
                .collect();
            let mut inflater = Inflater::default();
            let (out, left) = inflater.inflate(&join(&pieces), 2_000_000).unwrap();
            assert_eq!((left, out == parts.concat()), (0, true), "{count}");
        }
    }
}
