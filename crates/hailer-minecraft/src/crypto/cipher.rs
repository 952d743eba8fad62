//! Stream ciphers of the login. `spec/minecraft-12w.md#2` lists which build uses which one.
//!
//! Both directions start with the same shared secret. Each has its own state, which is never reset.

use super::cfb8::Cfb8;
use crate::build::Build;
use aes::cipher::{InvalidLength, KeyInit, KeyIvInit, StreamCipher};
use hc_256::Hc256;
use rc4::Rc4;
use std::fmt;

/// Stream cipher of the login. `spec/minecraft-12w.md#6`
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CipherKind {
    /// RC4 with a key of 16 bytes: 12w17a and 12w18a.
    Rc4,
    /// HC-256 with a key of 32 bytes, for 12w19a. The IV is the first half of the key, repeated.
    Hc256,
    /// AES-128 in CFB mode with 8-bit feedback, for 12w21a and later. The key is also the IV.
    Aes128Cfb8,
}

impl CipherKind {
    /// Returns the cipher of a build; `None` up to 12w16a. `spec/minecraft-12w.md#6`
    pub fn of(build: Build) -> Option<Self> {
        match build.dialect() {
            Build::V1_2_4 | Build::W16a => None,
            Build::W17a | Build::W18a => Some(Self::Rc4),
            Build::W19a => Some(Self::Hc256),
            _ => Some(Self::Aes128Cfb8),
        }
    }

    /// Returns the length of the shared secret, in bytes. `spec/minecraft-12w.md#6`
    pub const fn secret_len(self) -> usize {
        match self {
            Self::Rc4 | Self::Aes128Cfb8 => 16,
            Self::Hc256 => 32,
        }
    }
}

/// Error for a shared secret of the wrong length. `spec/minecraft-12w.md#6`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSecret {
    /// Cipher that was requested.
    pub kind: CipherKind,
    /// Length of the secret, in bytes.
    pub len: usize,
}

impl fmt::Display for BadSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} needs a shared secret of {} bytes, not {}",
            self.kind,
            self.kind.secret_len(),
            self.len
        )
    }
}

impl std::error::Error for BadSecret {}

/// Cipher for one direction of an encrypted stream. `spec/minecraft-12w.md#6`
///
/// Input may be split anywhere; the result is the same.
pub struct Cipher(State);

enum State {
    Rc4(Rc4),
    // Boxed: its tables take 8 KiB, which would otherwise be the size of every cipher.
    Hc256(Box<Hc256>),
    Encrypt(Cfb8),
    Decrypt(Cfb8),
}

impl fmt::Debug for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cipher(secret)")
    }
}

impl Cipher {
    /// Creates the cipher for sent bytes. `spec/minecraft-12w.md#6`
    ///
    /// # Errors
    ///
    /// The secret is not [`CipherKind::secret_len`] bytes long.
    pub fn encryptor(kind: CipherKind, secret: &[u8]) -> Result<Self, BadSecret> {
        Self::new(kind, secret, State::Encrypt)
    }

    /// Creates the cipher for received bytes. `spec/minecraft-12w.md#6`
    ///
    /// # Errors
    ///
    /// The secret is not [`CipherKind::secret_len`] bytes long.
    pub fn decryptor(kind: CipherKind, secret: &[u8]) -> Result<Self, BadSecret> {
        Self::new(kind, secret, State::Decrypt)
    }

    /// Encrypts or decrypts the next bytes of the stream in place. `spec/minecraft-12w.md#6`
    #[inline]
    pub fn apply(&mut self, bytes: &mut [u8]) {
        match &mut self.0 {
            State::Rc4(rc4) => rc4.apply_keystream(bytes),
            State::Hc256(hc256) => hc256.apply_keystream(bytes),
            State::Encrypt(aes) => aes.encrypt(bytes),
            State::Decrypt(aes) => aes.decrypt(bytes),
        }
    }

    fn new(
        kind: CipherKind,
        secret: &[u8],
        direction: fn(Cfb8) -> State,
    ) -> Result<Self, BadSecret> {
        let bad = BadSecret {
            kind,
            len: secret.len(),
        };
        // RC4 itself accepts keys of any length.
        if secret.len() != kind.secret_len() {
            return Err(bad);
        }
        let state = match kind {
            CipherKind::Rc4 => Rc4::new_from_slice(secret).map(State::Rc4),
            CipherKind::Hc256 => hc256(secret).map(|hc256| State::Hc256(Box::new(hc256))),
            CipherKind::Aes128Cfb8 => Cfb8::new(secret).map(direction),
        };
        state.map(Self).map_err(|InvalidLength| bad)
    }
}

fn hc256(secret: &[u8]) -> Result<Hc256, InvalidLength> {
    let half: [u8; 16] = *secret.first_chunk().ok_or(InvalidLength)?;
    Hc256::new_from_slices(secret, [half; 2].as_flattened())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::testing::{hex, random};

    const KINDS: [CipherKind; 3] = [CipherKind::Rc4, CipherKind::Hc256, CipherKind::Aes128Cfb8];

    fn counted(len: usize) -> Vec<u8> {
        (0..=255).cycle().take(len).collect()
    }

    #[test]
    fn vectors_of_the_spec_page() {
        let mut zeros = [0; 16];
        Cipher::encryptor(CipherKind::Rc4, &counted(16))
            .unwrap()
            .apply(&mut zeros);
        assert_eq!(zeros, *hex("E99C40F947E219CC06DB97C60EDD2A4F"));

        let mut statuses = [0; 16];
        statuses[0] = 0xcd;
        Cipher::encryptor(CipherKind::Aes128Cfb8, &counted(16))
            .unwrap()
            .apply(&mut statuses);
        assert_eq!(statuses, *hex("C7FF975F8F2BCC49077BED44F1EFC10A"));
    }

    // Verified vectors of the eSTREAM portfolio, taken from the tests of Bouncy Castle, Crypto++
    // and `hc-256`.
    #[test]
    fn vectors_of_hc_256() {
        let long = |half: &str| hex(&half.repeat(2));
        for (key, iv, expected) in [
            (
                long("00000000000000000000000000000000"),
                long("00000000000000000000000000000000"),
                "5B078985D8F6F30D42C5C02FA6B6795153F06534801F89F24E74248B720B4818\
                 CD9227ECEBCF4DBF8DBF6977E4AE14FAE8504C7BC8A9F3EA6C0106F5327E6981",
            ),
            (
                long("09090909090909090909090909090909"),
                long("00000000000000000000000000000000"),
                "F5C2926651AEED9AF1A9C2F04C03D0812145B56AEA46EB283A25A4C9E3D8BEB4\
                 821B418F06F2B9DCDF1A85AB8C02CD1462E1BBCAEC9AB0E99AA6AFF918BA627C",
            ),
            (
                hex("0053A6F94C9FF24598EB3E91E4378ADD3083D6297CCF2275C81B6EC11467BA0D"),
                hex("0D74DB42A91077DE45AC137AE148AF167DE44BB21980E74EB51C83EA51B81F86"),
                "23D9E70A45EB0127884D66D9F6F23C01D1F88AFD629270127247256C1FFF91E9\
                 1A797BD98ADD23AE15BEE6EEA3CEFDBFA3ED6D22D9C4F459DB10C40CDF4F4DFF",
            ),
        ] {
            let mut stream = vec![0; 64];
            Hc256::new_from_slices(&key, &iv)
                .unwrap()
                .apply_keystream(&mut stream);
            assert_eq!(stream, hex(expected));
        }

        // Key and IV as in the login. The only published vector with such a pair has a secret of
        // zeros.
        let mut stream = vec![0; 16];
        Cipher::encryptor(CipherKind::Hc256, &[0; 32])
            .unwrap()
            .apply(&mut stream);
        assert_eq!(stream, hex("5B078985D8F6F30D42C5C02FA6B67951"));
        let mut ours = vec![0; 40];
        let mut theirs = vec![0; 40];
        Cipher::encryptor(CipherKind::Hc256, &counted(32))
            .unwrap()
            .apply(&mut ours);
        Hc256::new_from_slices(&counted(32), &counted(16).repeat(2))
            .unwrap()
            .apply_keystream(&mut theirs);
        assert_eq!(ours, theirs);
    }

    #[test]
    fn how_the_bytes_are_cut_changes_nothing() {
        let mut random = random(1);
        for kind in KINDS {
            let secret = counted(kind.secret_len());
            for make in [Cipher::encryptor, Cipher::decryptor] {
                let plain = counted(3000);
                let mut whole = plain.clone();
                make(kind, &secret).unwrap().apply(&mut whole);
                for widest in [1, 2, 3, 7, 40, 500] {
                    let mut cipher = make(kind, &secret).unwrap();
                    let mut cut = plain.clone();
                    let mut rest = cut.as_mut_slice();
                    while !rest.is_empty() {
                        let mut dice = [0; 2];
                        random(&mut dice);
                        let len = usize::from(u16::from_le_bytes(dice)) % (widest + 1);
                        let (piece, after) = rest.split_at_mut(len.min(rest.len()));
                        cipher.apply(piece);
                        rest = after;
                    }
                    assert!(cut == whole, "{kind:?} in pieces of up to {widest}");
                }
            }
        }
    }

    #[test]
    fn each_direction_undoes_the_other() {
        for kind in KINDS {
            let secret = counted(kind.secret_len());
            let mut bytes = counted(777);
            Cipher::encryptor(kind, &secret).unwrap().apply(&mut bytes);
            assert_ne!(bytes, counted(777));
            Cipher::decryptor(kind, &secret).unwrap().apply(&mut bytes);
            assert_eq!(bytes, counted(777), "{kind:?}");
        }
    }

    #[test]
    fn a_secret_of_another_length_is_refused() {
        for kind in KINDS {
            for len in (0..70).filter(|len| *len != kind.secret_len()) {
                assert_eq!(
                    Cipher::encryptor(kind, &counted(len)).unwrap_err(),
                    BadSecret { kind, len }
                );
                assert_eq!(
                    Cipher::decryptor(kind, &counted(len)).unwrap_err(),
                    BadSecret { kind, len }
                );
            }
        }
        let error = Cipher::encryptor(CipherKind::Hc256, &[0; 16]).unwrap_err();
        assert_eq!(
            format!("{error}"),
            "Hc256 needs a shared secret of 32 bytes, not 16"
        );
    }
}
