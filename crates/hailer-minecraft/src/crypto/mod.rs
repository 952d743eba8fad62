//! Ciphers, RSA and session hash of the login. `spec/minecraft-12w.md#6`
//!
//! ```text
//!  server  KeyPair::generate ─► public_der ─► FD        FC ─► KeyPair::decrypt ─► same_token, secret ─► Cipher
//!  client  FD ─► random secret ─► encrypt, encrypt ─► FC      session_hash(id, secret, key) ─► joinserver
//! ```
//!
//! This module has no random source. The caller passes a function that fills a slice with random
//! bytes. It must be cryptographically secure: predictable bytes reveal the whole session.
//!
//! The protection was weak from the start: RC4, RSA with 1024 bits, one secret as key and IV, no
//! authentication of the stream. It is implemented because the servers require it.
//!
//! May import: `crate::build`, `hailer_proto`.

mod cfb8;
mod cipher;
mod rsa;
mod session;

pub use cipher::{BadSecret, Cipher, CipherKind};
pub use rsa::{KeyError, KeyPair, encrypt};
pub use session::{same_token, session_hash};

#[cfg(test)]
pub(crate) mod testing {
    /// Decodes hex digits.
    pub(crate) fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text
            .chars()
            .filter_map(|char| char.to_digit(16))
            .map(|digit| digit as u8)
            .collect();
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect()
    }

    /// Returns a reproducible random source (xorshift64*).
    pub(super) fn random(seed: u64) -> impl FnMut(&mut [u8]) {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move |bytes| {
            for byte in bytes {
                state ^= state >> 12;
                state ^= state << 25;
                state ^= state >> 27;
                *byte = (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 56) as u8;
            }
        }
    }
}
