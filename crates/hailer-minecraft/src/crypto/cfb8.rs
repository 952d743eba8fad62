//! AES-128 in CFB mode with 8-bit feedback: one AES block is encrypted per byte,
//! `spec/minecraft-12w.md#6`.
//!
//! The input of each block is the last 16 bytes of ciphertext. Encryption produces them one by one,
//! so each block waits for the previous one. Decryption already has all of them and processes
//! blocks in parallel. The crate `cfb8` handles one block at a time in both directions. Tests
//! compare the results with it; `spec/minecraft-12w.md#9` has a test vector.

use aes::cipher::array::typenum::Unsigned;
use aes::cipher::consts::U16;
use aes::cipher::{
    BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, InvalidLength,
    KeyInit, ParBlocks,
};
use aes::{Aes128Enc, Block};

/// Shorter input is faster one by one: clearing the blocks of a batch takes as long as two bytes.
const BATCH_FROM: usize = 3;

/// Cipher for one direction of the stream. `spec/minecraft-12w.md#6`
pub(super) struct Cfb8 {
    aes: Aes128Enc,
    past: ShiftRegister,
}

/// Last 16 bytes of ciphertext, the oldest in the lowest byte.
#[derive(Clone, Copy)]
struct ShiftRegister(u128);

impl ShiftRegister {
    fn block(self) -> Block {
        self.0.to_le_bytes().into()
    }

    fn push(&mut self, cipher: u8) {
        self.0 = self.0 >> 8 | u128::from(cipher) << 120;
    }
}

impl Cfb8 {
    /// Uses the secret as the key and as the initial ciphertext. `spec/minecraft-12w.md#6`
    pub(super) fn new(secret: &[u8]) -> Result<Self, InvalidLength> {
        let iv = secret.try_into().map_err(|_| InvalidLength)?;
        Ok(Self {
            aes: Aes128Enc::new_from_slice(secret)?,
            past: ShiftRegister(u128::from_le_bytes(iv)),
        })
    }

    /// Encrypts the next bytes of the stream.
    #[inline]
    pub(super) fn encrypt(&mut self, bytes: &mut [u8]) {
        if let [byte] = bytes {
            *byte ^= self.key();
            return self.past.push(*byte);
        }
        self.aes.encrypt_with_backend(OneByOne::<false> {
            past: &mut self.past,
            bytes,
        });
    }

    /// Decrypts the next bytes of the stream.
    #[inline]
    pub(super) fn decrypt(&mut self, bytes: &mut [u8]) {
        if let [byte] = bytes {
            let key = self.key();
            self.past.push(*byte);
            *byte ^= key;
            return;
        }
        if bytes.len() < BATCH_FROM {
            self.aes.encrypt_with_backend(OneByOne::<true> {
                past: &mut self.past,
                bytes,
            });
        } else {
            self.aes.encrypt_with_backend(Batches {
                past: &mut self.past,
                bytes,
            });
        }
    }
}

impl Cfb8 {
    /// Returns the key stream byte for the next byte.
    #[inline]
    fn key(&self) -> u8 {
        let mut block = self.past.block();
        self.aes.encrypt_block(&mut block);
        let [key, ..] = block.0;
        key
    }
}

/// Processes one byte at a time. Running inside a closure keeps AES in registers.
struct OneByOne<'a, const DECRYPT: bool> {
    past: &'a mut ShiftRegister,
    bytes: &'a mut [u8],
}

impl<const DECRYPT: bool> BlockSizeUser for OneByOne<'_, DECRYPT> {
    type BlockSize = U16;
}

impl<const DECRYPT: bool> BlockCipherEncClosure for OneByOne<'_, DECRYPT> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let mut past = *self.past;
        for byte in self.bytes {
            let mut block = past.block();
            backend.encrypt_block((&mut block).into());
            let [key, ..] = block.0;
            let read = *byte;
            *byte ^= key;
            past.push(if DECRYPT { read } else { *byte });
        }
        *self.past = past;
    }
}

/// Decrypts many bytes with AES blocks in parallel.
struct Batches<'a> {
    past: &'a mut ShiftRegister,
    bytes: &'a mut [u8],
}

impl BlockSizeUser for Batches<'_> {
    type BlockSize = U16;
}

impl BlockCipherEncClosure for Batches<'_> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
        let mut past = *self.past;
        for piece in self.bytes.chunks_mut(B::ParBlocksSize::USIZE) {
            let mut batch = ParBlocks::<B>::default();
            for (block, cipher) in batch.iter_mut().zip(piece.iter()) {
                *block = past.block();
                past.push(*cipher);
            }
            match batch.get_mut(..piece.len()) {
                Some(part) if piece.len() < B::ParBlocksSize::USIZE => {
                    backend.encrypt_tail_blocks(part.into());
                }
                _ => backend.encrypt_par_blocks((&mut batch).into()),
            }
            for (byte, block) in piece.iter_mut().zip(&batch) {
                let [key, ..] = block.0;
                *byte ^= key;
            }
        }
        *self.past = past;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::cipher::KeyIvInit;

    #[test]
    fn bytes_are_those_of_the_crate_cfb8() {
        let secret: [u8; 16] = std::array::from_fn(|i| (i * 29 + 5) as u8);
        for len in (0..130).chain([1000, 4099]) {
            let plain: Vec<u8> = (0..len).map(|i| (i * i % 251) as u8).collect();
            let mut theirs = plain.clone();
            cfb8::Encryptor::<Aes128Enc>::new(&secret.into(), &secret.into()).encrypt(&mut theirs);

            let mut ours = plain.clone();
            Cfb8::new(&secret).unwrap().encrypt(&mut ours);
            assert_eq!(ours, theirs, "{len} bytes encrypted");
            Cfb8::new(&secret).unwrap().decrypt(&mut ours);
            assert_eq!(ours, plain, "{len} bytes decrypted");
        }
    }
}
