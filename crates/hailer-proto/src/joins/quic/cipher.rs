//! AES-128-GCM and HKDF for Initial packets and Retries (RFC 9001, sections 5.2 and 5.8).
//!
//! All keys here are public: they follow from constants of the version and the connection id in the
//! packet. They protect against damage and old middleboxes only. So nothing here takes constant time,
//! and a crate with assembly for it would only cost dependencies.

use sha2::{Digest, Sha256};

/// Length of the block that HMAC-SHA-256 pads its key to.
const HMAC_BLOCK: usize = 64;
/// Length of the tag of GCM.
pub(super) const TAG_LENGTH: usize = 16;

/// AES-128, only to encrypt.
pub(super) struct Aes([[u8; 16]; 11]);

/// The substitution of AES: the inverse in its field, then an affine map.
const SUBSTITUTION: [u8; 256] = substitution();

#[allow(clippy::indexing_slicing, reason = "evaluated by the compiler")]
const fn substitution() -> [u8; 256] {
    let mut table = [0; 256];
    // `power` runs through all numbers but 0, and `inverse` through their inverses.
    let mut power: u8 = 1;
    let mut inverse: u8 = 1;
    loop {
        // Times 3.
        power = power ^ double(power);
        // Divided by 3.
        inverse ^= inverse << 1;
        inverse ^= inverse << 2;
        inverse ^= inverse << 4;
        if inverse & 0x80 != 0 {
            inverse ^= 0x09;
        }
        let mixed = inverse
            ^ inverse.rotate_left(1)
            ^ inverse.rotate_left(2)
            ^ inverse.rotate_left(3)
            ^ inverse.rotate_left(4);
        table[power as usize] = mixed ^ 0x63;
        if power == 1 {
            break;
        }
    }
    table[0] = 0x63;
    table
}

/// Doubles a number in the field of AES.
const fn double(number: u8) -> u8 {
    let over = if number & 0x80 != 0 { 0x1B } else { 0 };
    number << 1 ^ over
}

fn substitute(byte: u8) -> u8 {
    SUBSTITUTION
        .get(usize::from(byte))
        .copied()
        .unwrap_or_default()
}

impl Aes {
    pub(super) fn new(key: [u8; 16]) -> Self {
        let mut keys = [key; 11];
        let mut last = key;
        let mut round = 1;
        for next in keys.iter_mut().skip(1) {
            let [.., a, b, c, d] = last;
            let mut word = [b, c, d, a].map(substitute);
            word[0] ^= round;
            round = double(round);
            for (column, old) in next.chunks_exact_mut(4).zip(last.chunks_exact(4)) {
                for ((byte, old), new) in column.iter_mut().zip(old).zip(&mut word) {
                    *new ^= old;
                    *byte = *new;
                }
            }
            last = *next;
        }
        Self(keys)
    }

    pub(super) fn encrypt(&self, block: [u8; 16]) -> [u8; 16] {
        let [first, middle @ .., last] = &self.0;
        let add = |mut state: [u8; 16], key: &[u8; 16]| {
            state
                .iter_mut()
                .zip(key)
                .for_each(|(byte, key)| *byte ^= key);
            state
        };
        // Byte i of a row moves i columns to the left.
        const ROWS: [usize; 16] = [0, 5, 10, 15, 4, 9, 14, 3, 8, 13, 2, 7, 12, 1, 6, 11];
        let shift = |state: [u8; 16]| {
            ROWS.map(|place| substitute(state.get(place).copied().unwrap_or_default()))
        };
        let mut state = add(block, first);
        for key in middle {
            state = shift(state);
            for column in state.chunks_exact_mut(4) {
                if let [a, b, c, d] = column {
                    let all = *a ^ *b ^ *c ^ *d;
                    let start = *a;
                    *a ^= all ^ double(*a ^ *b);
                    *b ^= all ^ double(*b ^ *c);
                    *c ^= all ^ double(*c ^ *d);
                    *d ^= all ^ double(*d ^ start);
                }
            }
            state = add(state, key);
        }
        add(shift(state), last)
    }
}

/// The hash of GCM.
pub(super) struct Ghash {
    factor: u128,
    hash: u128,
}

impl Ghash {
    pub(super) fn new(factor: u128) -> Self {
        Self { factor, hash: 0 }
    }

    /// Adds data, with zeros up to a whole block.
    pub(super) fn update<'a>(&mut self, data: impl Iterator<Item = &'a u8>) {
        let mut block = 0;
        let mut filled = 0;
        for byte in data {
            block |= u128::from(*byte) << (120 - 8 * filled);
            filled += 1;
            if filled == 16 {
                self.hash = multiply(self.hash ^ block, self.factor);
                (block, filled) = (0, 0);
            }
        }
        if filled > 0 {
            self.hash = multiply(self.hash ^ block, self.factor);
        }
    }

    /// Returns the hash with the lengths of additional data and text, in bytes.
    pub(super) fn finish(self, data: usize, text: usize) -> u128 {
        let lengths = ((8 * data as u128) << 64) | (8 * text as u128);
        multiply(self.hash ^ lengths, self.factor)
    }
}

/// Multiplies in the field of GCM, in which the first bit has the lowest exponent.
fn multiply(number: u128, factor: u128) -> u128 {
    let mut product = 0;
    let mut power = factor;
    for bit in (0..128).rev() {
        if number >> bit & 1 == 1 {
            product ^= power;
        }
        let is_over = power & 1 == 1;
        power >>= 1;
        if is_over {
            power ^= 0xE1 << 120;
        }
    }
    product
}

/// Keys of one direction of Initial packets.
pub(super) struct PacketKeys {
    aes: Aes,
    nonce: [u8; 12],
    header: Aes,
}

impl PacketKeys {
    /// Derives the keys. `side`: `client in` or `server in`. `prefix`: of the labels of the version.
    pub(super) fn new(salt: &[u8; 20], id: &[u8], side: &[u8], prefix: &[u8]) -> Self {
        let initial = hmac(salt, core::iter::once(id));
        let secret = expand::<32>(&initial, &[side]);
        Self {
            aes: Aes::new(expand(&secret, &[prefix, b" key"])),
            nonce: expand(&secret, &[prefix, b" iv"]),
            header: Aes::new(expand(&secret, &[prefix, b" hp"])),
        }
    }

    /// Returns the mask of a header for a sample of its packet.
    pub(super) fn mask(&self, sample: [u8; 16]) -> [u8; 16] {
        self.header.encrypt(sample)
    }

    /// Encrypts or decrypts the text of a packet in place.
    pub(super) fn apply(&self, number: u32, text: &mut [u8]) {
        for (block, part) in (2_u32..).zip(text.chunks_mut(16)) {
            let stream = self.aes.encrypt(self.counter(number, block));
            part.iter_mut()
                .zip(stream)
                .for_each(|(byte, key)| *byte ^= key);
        }
    }

    /// Returns the tag of an encrypted text.
    pub(super) fn tag(&self, number: u32, header: &[u8], text: &[u8]) -> [u8; TAG_LENGTH] {
        let mut hash = Ghash::new(u128::from_be_bytes(self.aes.encrypt([0; 16])));
        hash.update(header.iter());
        hash.update(text.iter());
        let mask = u128::from_be_bytes(self.aes.encrypt(self.counter(number, 1)));
        (hash.finish(header.len(), text.len()) ^ mask).to_be_bytes()
    }

    /// Returns a counter block: the nonce of a packet, and the number of a block.
    fn counter(&self, number: u32, block: u32) -> [u8; 16] {
        let mut counter = [0; 16];
        let end = number.to_be_bytes().into_iter().chain(block.to_be_bytes());
        let padded = [0; 8].into_iter().chain(end);
        let nonce = self.nonce.into_iter().chain([0; 4]);
        let bytes = counter.iter_mut().zip(nonce.zip(padded));
        bytes.for_each(|(byte, (nonce, number))| *byte = nonce ^ number);
        counter
    }
}

fn hmac<'a>(key: &[u8], mut parts: impl Iterator<Item = &'a [u8]>) -> [u8; 32] {
    let padded = |pad: u8| {
        let mut block = [pad; HMAC_BLOCK];
        block
            .iter_mut()
            .zip(key)
            .for_each(|(byte, key)| *byte ^= key);
        Sha256::new().chain_update(block)
    };
    let inner = parts.by_ref().fold(padded(0x36), Digest::chain_update);
    padded(0x5C)
        .chain_update(inner.finalize())
        .finalize()
        .into()
}

/// Returns a secret of `N` bytes, at most 32, for a label in parts (RFC 8446, section 7.1).
fn expand<const N: usize>(secret: &[u8], label: &[&[u8]]) -> [u8; N] {
    let length = b"tls13 ".len() + label.iter().map(|part| part.len()).sum::<usize>();
    let start = [0, N as u8, length as u8];
    // The label, no context, and the number of the first block.
    let parts = [&start[..], b"tls13 "]
        .into_iter()
        .chain(label.iter().copied());
    let hash = hmac(secret, parts.chain([&[0, 1][..]]));
    let mut out = [0; N];
    out.iter_mut()
        .zip(hash)
        .for_each(|(byte, hash)| *byte = hash);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 197, appendix B and C.1.
    #[test]
    fn aes_encrypts_as_its_standard() {
        let aes = Aes::new(0x2B7E_1516_28AE_D2A6_ABF7_1588_09CF_4F3C_u128.to_be_bytes());
        let text = 0x3243_F6A8_885A_308D_3131_98A2_E037_0734_u128.to_be_bytes();
        let expected = 0x3925_841D_02DC_09FB_DC11_8597_196A_0B32_u128;
        assert_eq!(u128::from_be_bytes(aes.encrypt(text)), expected);
        let aes = Aes::new(0x0001_0203_0405_0607_0809_0A0B_0C0D_0E0F_u128.to_be_bytes());
        let text = 0x0011_2233_4455_6677_8899_AABB_CCDD_EEFF_u128.to_be_bytes();
        let expected = 0x69C4_E0D8_6A7B_0430_D8CD_B780_70B4_C55A_u128;
        assert_eq!(u128::from_be_bytes(aes.encrypt(text)), expected);
    }

    /// RFC 9001, A.1.
    #[test]
    fn keys_are_those_of_the_standard() {
        let salt = 0x3876_2CF7_F559_34B3_4D17_9AE6_A4C8_0CAD_u128.to_be_bytes();
        let mut whole = [0; 20];
        let end = 0xCCBB_7F0A_u32.to_be_bytes();
        let bytes = salt.into_iter().chain(end);
        whole
            .iter_mut()
            .zip(bytes)
            .for_each(|(byte, salt)| *byte = salt);
        let id = 0x8394_C8F0_3E51_5708_u64.to_be_bytes();
        let secret = expand::<32>(&hmac(&whole, core::iter::once(&id[..])), &[b"server in"]);
        assert_eq!(secret[..4], [0x3C, 0x19, 0x98, 0x28]);
        let keys = PacketKeys::new(&whole, &id, b"server in", b"quic");
        let key = Aes::new(0xCF3A_5331_653C_364C_88F0_F379_B606_7E37_u128.to_be_bytes());
        assert_eq!(keys.aes.encrypt([1; 16]), key.encrypt([1; 16]));
        let nonce = [
            0x0A, 0xC1, 0x49, 0x3C, 0xA1, 0x90, 0x58, 0x53, 0xB0, 0xBB, 0xA0, 0x3E,
        ];
        assert_eq!(keys.nonce, nonce);
        let header = Aes::new(0xC206_B8D9_B9F0_F376_4443_0B49_0EEA_A314_u128.to_be_bytes());
        assert_eq!(keys.mask([1; 16]), header.encrypt([1; 16]));
        // The sample of A.3, and its mask.
        let sample = 0x2CD0_991C_D25B_0AAC_406A_5816_B639_4100_u128.to_be_bytes();
        assert_eq!(keys.mask(sample)[..5], [0x2E, 0xC0, 0xD8, 0x35, 0x6A]);
    }
}
