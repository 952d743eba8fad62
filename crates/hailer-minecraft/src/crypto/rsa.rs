//! RSA with PKCS#1 v1.5 padding, for the shared secret and the verify token.
//! `spec/minecraft-12w.md#6`
//!
//! Encryption handles no secret except the plain bytes, and must accept any key that a server
//! sends. Decryption can be attacked: if replies or timing reveal whether the padding was valid, an
//! attacker can recover the secret of a recorded login with many attempts. [`KeyPair::decrypt`]
//! therefore does not report bad padding. It returns unpredictable bytes instead, selected without
//! a branch, and the login fails later, as with a wrong secret.

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams, FixedMontyForm, FixedMontyParams};
use crypto_bigint::rand_core::{TryCryptoRng, TryRng};
use crypto_bigint::{BoxedUint, NonZero, Odd, U512, U1024};
use crypto_primes::hazmat::{SetBits, SmallFactorsSieveFactory};
use crypto_primes::{Flavor, is_prime, sieve_and_find};
use pkcs1::RsaPublicKeyRef;
use pkcs1::der::Decode;
use pkcs1::der::asn1::AnyRef;
use sha1::{Digest, Sha1};
use spki::SubjectPublicKeyInfoRef;
use std::convert::Infallible;
use std::fmt;
use subtle::{ConditionallySelectable, ConstantTimeEq};

/// Exponent of generated keys. `spec/minecraft-12w.md#6`
const EXPONENT: u32 = 65537;
/// Size of generated keys, in bytes. `spec/minecraft-12w.md#6`
const KEY_BYTES: usize = 128;
/// DER bytes before the modulus: `rsaEncryption`, and the lengths of all following fields.
const DER_BEFORE: [u8; 29] = [
    0x30, 0x81, 0x9f, 0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01,
    0x05, 0x00, 0x03, 0x81, 0x8d, 0x00, 0x30, 0x81, 0x89, 0x02, 0x81, 0x81, 0x00,
];
/// DER bytes after the modulus: the exponent.
const DER_AFTER: [u8; 5] = [0x02, 0x03, 0x01, 0x00, 0x01];
/// Bytes that the padding takes: 00 02, eight random bytes, 00.
const PADDING_BYTES: usize = 11;

/// Error for an invalid public key, or for text that cannot be encrypted with it.
/// `spec/minecraft-12w.md#6`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// The key is not a SubjectPublicKeyInfo in DER.
    Der,
    /// The key is for another algorithm.
    Algorithm,
    /// The modulus has this many bits, outside 512 to 8192.
    Size(usize),
    /// The modulus is even.
    Modulus,
    /// The exponent is even, 1, or longer than 32 bits.
    Exponent,
    /// The plain text is too long for the key.
    TooLong {
        /// Length of the plain text, in bytes.
        len: usize,
        /// Maximum length for this key, in bytes.
        max: usize,
    },
    /// The random source repeats itself.
    Random,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Der => f.write_str("public key is not a SubjectPublicKeyInfo in DER"),
            Self::Algorithm => f.write_str("public key is not one of RSA"),
            Self::Size(bits) => write!(f, "RSA modulus of {bits} bits, need 512 to 8192"),
            Self::Modulus => f.write_str("RSA modulus is even"),
            Self::Exponent => f.write_str("RSA exponent is not an odd number from 3 to 32 bits"),
            Self::TooLong { len, max } => {
                write!(f, "{len} bytes to encrypt, the RSA key takes {max}")
            }
            Self::Random => f.write_str("random source repeats itself"),
        }
    }
}

impl std::error::Error for KeyError {}

/// Encrypts for the owner of a key, given as SubjectPublicKeyInfo. `spec/minecraft-12w.md#6`
///
/// The result is as long as the key's modulus: 128 bytes for the 1024 bits of vanilla servers. The
/// time depends on the public key, not on `plain`.
///
/// # Errors
///
/// The key is invalid, or `plain` is too long for it.
pub fn encrypt(
    public_der: &[u8],
    plain: &[u8],
    random: &mut impl FnMut(&mut [u8]),
) -> Result<Vec<u8>, KeyError> {
    let (modulus, exponent) = public_numbers(public_der)?;
    let size = modulus.len();
    let max = size.saturating_sub(PADDING_BYTES);
    if plain.len() > max {
        return Err(KeyError::TooLong {
            len: plain.len(),
            max,
        });
    }
    let mut filler = vec![0; size - plain.len() - 3];
    fill_without_zeros(&mut filler, random)?;
    let padded = [&[0, 2], filler.as_slice(), &[0], plain].concat();

    raise(&padded, exponent, modulus)
}

/// RSA key pair of a server, 1024 bits. `spec/minecraft-12w.md#6`
pub struct KeyPair {
    modulus: FixedMontyParams<{ U1024::LIMBS }>,
    exponent: U1024,
    public_der: Vec<u8>,
    seed: [u8; 32],
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyPair(secret)")
    }
}

impl KeyPair {
    /// Generates a key pair. `spec/minecraft-12w.md#6`
    ///
    /// Takes a few milliseconds. Vanilla servers generate one at startup.
    ///
    /// # Errors
    ///
    /// [`KeyError::Random`] if the random source does not lead to two primes.
    pub fn generate(random: &mut impl FnMut(&mut [u8])) -> Result<Self, KeyError> {
        let mut seed = [0; 32];
        random(&mut seed);
        // One prime in 30,000 does not work with the exponent. Repeated failures mean a broken
        // source.
        for _ in 0..8 {
            let p = prime(random)?;
            let q = prime(random)?;
            if let Some(pair) = Self::from_primes(&p, &q, seed) {
                return Ok(pair);
            }
        }
        Err(KeyError::Random)
    }

    /// Returns the public key as SubjectPublicKeyInfo, 162 bytes. `spec/minecraft-12w.md#6`
    pub fn public_der(&self) -> &[u8] {
        &self.public_der
    }

    /// Decrypts a field from a client that should contain `expected_len` bytes.
    /// `spec/minecraft-12w.md#6`
    ///
    /// A field that was encrypted with another key or has another length yields unpredictable
    /// bytes. They are the same each time for the same field, and take the same time to compute.
    /// Reject such a login only when the token or the stream turns out to be wrong, and always with
    /// the same message.
    ///
    /// Returns `None` only for reasons that are visible on the wire: the field is not 128 bytes
    /// long, it is not below the modulus, or `expected_len` is too large.
    pub fn decrypt(&self, cipher: &[u8], expected_len: usize) -> Option<Vec<u8>> {
        if cipher.len() != KEY_BYTES {
            return None;
        }
        let number = U1024::from_be_slice(cipher);
        if number >= *self.modulus.modulus().as_ref() {
            return None;
        }
        let refused = self.derive::<KEY_BYTES>(b'R', cipher);
        let padded = self.power(&number, cipher).to_be_bytes();

        let (head, message) = padded
            .as_ref()
            .split_at_checked(KEY_BYTES.checked_sub(expected_len)?)?;
        let [zero, two, filler @ .., end] = head else {
            return None;
        };
        if filler.len() < PADDING_BYTES - 3 {
            return None;
        }
        let mut good = zero.ct_eq(&0) & two.ct_eq(&2) & end.ct_eq(&0);
        for byte in filler {
            good &= !byte.ct_eq(&0);
        }
        Some(
            refused
                .iter()
                .zip(message)
                .map(|(no, yes)| u8::conditional_select(no, yes, good))
                .collect(),
        )
    }

    /// Raises a number to the power of the secret exponent.
    ///
    /// A blinding factor hides the number from the exponentiation, in case its time depends on it.
    /// The factor is derived, because there is no random source here. It is as secret as the key.
    fn power(&self, number: &U1024, cipher: &[u8]) -> U1024 {
        let form = |number: &U1024| FixedMontyForm::new(number, &self.modulus);
        let mut factor = self.derive::<KEY_BYTES>(b'B', cipher);
        // Keeps it below the modulus, whose highest bit is set.
        if let Some(highest) = factor.first_mut() {
            *highest = 0;
        }
        let factor = form(&U1024::from_be_slice(&factor));
        // A factor without an inverse would share a factor with the modulus.
        let inverse = factor
            .invert()
            .unwrap_or(FixedMontyForm::one(&self.modulus));
        let hidden = form(number).mul(&factor.pow_vartime(&U1024::from_u32(EXPONENT)));
        hidden.pow(&self.exponent).mul(&inverse).retrieve()
    }

    /// Derives bytes from a field that only the owner of the key can compute.
    fn derive<const N: usize>(&self, purpose: u8, cipher: &[u8]) -> [u8; N] {
        let mut derived = [0; N];
        for (index, part) in (0..=u8::MAX).zip(derived.chunks_mut(20)) {
            let digest = Sha1::new()
                .chain_update(self.seed)
                .chain_update([purpose, index])
                .chain_update(cipher)
                .finalize();
            for (to, from) in part.iter_mut().zip(digest) {
                *to = from;
            }
        }
        derived
    }

    /// Returns `None` if the primes are equal, do not work with the exponent, or their product is
    /// shorter than 1024 bits.
    fn from_primes(p: &U512, q: &U512, seed: [u8; 32]) -> Option<Self> {
        let modulus: U1024 = p.concatenating_mul(q);
        let below = |prime: &U512| prime.wrapping_sub(&U512::ONE);
        let totient: U1024 = below(p).concatenating_mul(&below(q));
        let totient = NonZero::new(totient).into_option()?;
        let exponent = U1024::from_u32(EXPONENT)
            .invert_mod(&totient)
            .into_option()?;
        if p == q || modulus.bits() != U1024::BITS {
            return None;
        }
        let public_der = [&DER_BEFORE, modulus.to_be_bytes().as_ref(), &DER_AFTER].concat();
        let modulus = FixedMontyParams::new_vartime(Odd::new(modulus).into_option()?);
        Some(Self {
            modulus,
            exponent,
            public_der,
            seed,
        })
    }
}

/// Returns the modulus without leading zeros, and the exponent.
fn public_numbers(der: &[u8]) -> Result<(&[u8], u32), KeyError> {
    let info = SubjectPublicKeyInfoRef::from_der(der).map_err(|_| KeyError::Der)?;
    if info.algorithm.oid != pkcs1::ALGORITHM_OID
        || info.algorithm.parameters.is_some_and(|p| p != AnyRef::NULL)
    {
        return Err(KeyError::Algorithm);
    }
    let key = info.subject_public_key.as_bytes().ok_or(KeyError::Der)?;
    let key = RsaPublicKeyRef::from_der(key).map_err(|_| KeyError::Der)?;

    let modulus = key.modulus.as_bytes();
    let bits = modulus.len() * 8
        - modulus
            .first()
            .map_or(0, |first| first.leading_zeros() as usize);
    if !(512..=8192).contains(&bits) {
        return Err(KeyError::Size(bits));
    }
    if modulus.last().is_none_or(|last| last % 2 == 0) {
        return Err(KeyError::Modulus);
    }
    let exponent = key.public_exponent.as_bytes();
    if exponent.len() > 4 {
        return Err(KeyError::Exponent);
    }
    let exponent = exponent
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte));
    if exponent < 3 || exponent % 2 == 0 {
        return Err(KeyError::Exponent);
    }
    Ok((modulus, exponent))
}

/// Raises a field as long as the modulus to the power of the exponent.
fn raise(field: &[u8], exponent: u32, modulus: &[u8]) -> Result<Vec<u8>, KeyError> {
    let size = modulus.len();
    let number = |bytes: &[u8]| {
        BoxedUint::from_be_slice(bytes, (size * 8) as u32).map_err(|_| KeyError::Modulus)
    };
    let modulus = Odd::new(number(modulus)?)
        .into_option()
        .ok_or(KeyError::Modulus)?;
    let base = BoxedMontyForm::new(number(field)?, &BoxedMontyParams::new_vartime(modulus));
    let power = base.pow_bounded_exp(
        &BoxedUint::from(exponent),
        u32::BITS - exponent.leading_zeros(),
    );
    // Numbers consist of whole words; a field may be shorter.
    let bytes = power.retrieve().to_be_bytes();
    let field = bytes
        .len()
        .checked_sub(size)
        .and_then(|spare| bytes.get(spare..));
    field.map(<[u8]>::to_vec).ok_or(KeyError::Modulus)
}

fn fill_without_zeros(
    bytes: &mut [u8],
    random: &mut impl FnMut(&mut [u8]),
) -> Result<(), KeyError> {
    random(bytes);
    for byte in bytes {
        // A working source returns 32 zeros in a row with a probability of 2^-256.
        for _ in 0..32 {
            if *byte == 0 {
                random(std::slice::from_mut(byte));
            }
        }
        if *byte == 0 {
            return Err(KeyError::Random);
        }
    }
    Ok(())
}

/// Returns a prime whose two highest bits are set, so that the product of two has all 1024 bits.
fn prime(random: &mut impl FnMut(&mut [u8])) -> Result<U512, KeyError> {
    let sieve = SmallFactorsSieveFactory::new(Flavor::Any, U512::BITS, SetBits::TwoMsb);
    let sieve = sieve.map_err(|_| KeyError::Random)?;
    match sieve_and_find(&mut Source(random), sieve, |_, candidate| {
        is_prime(Flavor::Any, candidate)
    }) {
        Ok(Some(prime)) => Ok(prime),
        _ => Err(KeyError::Random),
    }
}

/// Adapts the caller's random bytes to the traits of `crypto-primes`.
struct Source<'a, F>(&'a mut F);

impl<F: FnMut(&mut [u8])> TryRng for Source<'_, F> {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let mut bytes = [0; 4];
        (self.0)(&mut bytes);
        Ok(u32::from_le_bytes(bytes))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let mut bytes = [0; 8];
        (self.0)(&mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        (self.0)(bytes);
        Ok(())
    }
}

impl<F: FnMut(&mut [u8])> TryCryptoRng for Source<'_, F> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::testing::{hex, random};

    // Generated by `openssl genpkey`, OpenSSL 3.0.19: 1024 bits with exponent 65537, and with
    // exponent 17 as sent by MCServer.
    const P: &str = "df295dfce896466c4101c729d201970923f18026fbaf491bf05f13463f236297\
                     9d49d1926b4475052d721a15fc7bd491fa15fd64abfc16e336555c453969404d";
    const Q: &str = "d6ba85a2b3f124edad5d79916a2ab56216c5b7c44d10f1a2a242c3dd7f911192\
                     6f08a49acc6f93aa13b9e225e1b277d232e0afddb2a1e3290a3f0aed11cd860b";
    const PUBLIC: &str = "30819f300d06092a864886f70d010101050003818d0030818902818100bb2f2d1e070c9dc93e0993218a61b675\
                          aa9f5adcd27740357ac9bc741de09dfe2ebc9d8573a9a5d5cdceed21710233dfa4c249b84a384ecf6e68e4\
                          0368126d6e00b07e66ad9da6f886f0e7abe6e2af261c09319353f4adbd970101c3f7126ce1ab0357e2bda1\
                          e487617e15fba17fedb1cc1069304e9308c2981cb2dd29d7114f0203010001";
    const PUBLIC_17: &str = "30819d300d06092a864886f70d010101050003818b0030818702818100ee8097f6e72549e6e4ecafa408768\
                             89840dc092acc7ba41bba937cfa641688d7eef578e7cf0d8d1eca9b083bc5593d7146c1c59f6eb9ee3bcc87\
                             b1d166436546bcc65c9383265845776e79c13bed2df38c47688f1c575d3dc373fd8e7cf955cfb9b60946bab\
                             fd99623008211e7d16834335994f3ec2aacffdaa00a1c3dfcc8d3020111";

    fn pair() -> KeyPair {
        let prime = |text: &str| U512::from_be_slice(&hex(text));
        KeyPair::from_primes(&prime(P), &prime(Q), [7; 32]).unwrap()
    }

    #[test]
    fn openssl_reads_what_we_write() {
        assert_eq!(pair().public_der(), hex(PUBLIC));
        // `openssl pkeyutl -decrypt` returned these 16 bytes.
        let field = encrypt(&hex(PUBLIC_17), b"sixteen  secrets", &mut random(17)).unwrap();
        let expected = "63e24c6ecdea6db1a3b9bf0c95b04728c8ab2e0ef58da23053a85e3a09130b9a1c5a9eaa4fbddf30eea8bf\
                        08887cc4e74ec42138456c84d6fe589e2652e3c078512fc159565dde3d6ab5f85d2e815c60a2fc4eb07f59\
                        3e96c8668a58d706d8e2db318e5d50ecf7ce60bc1f82a52d5f1507106109cae255f1775e321c9afd930b";
        assert_eq!(field, hex(expected));
    }

    #[test]
    fn we_read_what_openssl_writes() {
        // Output of `openssl pkeyutl -encrypt`.
        let secret = "71ec24a49f249b642b026c780dc6b9f0fbade0e20c97abfd8cc9e30d0273e34906cc6fd6d19958a9e5897809be04b810\
                      f6bab33f270c17065c3330b8f241132c6b61d7efa1f4a157f51ac6d34bbafede9afd3a5136ab470ea33f197008791d12\
                      b7dff7c57423495855a93d9b9e9758d1e3860c5b165230db787824bec3be42fe";
        let token = "067f74ff8dde35b1ed4f52854ebbf30a455a08fbe6f23b45280bfcdea8cbd1ac9768ff5a3e998053eff93490be5e263e\
                     45239b19b3a7ef4dd269610cb79afe11de6772dcd229dab403acc669406b0921cd7cc60943e1f11ae7417c8432f6e29e\
                     ae731bda2c3c8f1d9c73e4bffbe46be0a4bea8c1878c8645a68b862aea26c5ff";
        assert_eq!(
            pair().decrypt(&hex(secret), 16).unwrap(),
            b"sixteen  secrets"
        );
        assert_eq!(pair().decrypt(&hex(token), 4).unwrap(), [1, 2, 3, 4]);
        assert_ne!(pair().decrypt(&hex(token), 16).unwrap()[12..], [1, 2, 3, 4]);
    }

    #[test]
    fn new_keys_decrypt_what_is_encrypted_for_them() {
        let mut random = random(3);
        for _ in 0..3 {
            let pair = KeyPair::generate(&mut random).unwrap();
            assert_eq!(pair.public_der().len(), 162);
            for len in [0, 1, 4, 16, 32, 116, 117] {
                let mut plain = vec![0; len];
                random(&mut plain);
                let field = encrypt(pair.public_der(), &plain, &mut random).unwrap();
                assert_eq!(field.len(), 128);
                assert_eq!(pair.decrypt(&field, len).unwrap(), plain);
            }
            let error = encrypt(pair.public_der(), &[1; 118], &mut random).unwrap_err();
            assert_eq!(error, KeyError::TooLong { len: 118, max: 117 });
        }
    }

    #[test]
    fn bad_padding_gives_unpredictable_bytes() {
        let pair = pair();
        let other = KeyPair {
            seed: [8; 32],
            ..self::pair()
        };
        let der = hex(PUBLIC);
        let secret = [b's'; 16];
        let (modulus, exponent) = public_numbers(&der).unwrap();
        let mut good = vec![0xaa; 128];
        good[..2].copy_from_slice(&[0, 2]);
        good[111] = 0;
        good[112..].copy_from_slice(&secret);
        let field = |padded: &[u8]| raise(padded, exponent, modulus).unwrap();
        assert_eq!(pair.decrypt(&field(&good), 16).unwrap(), secret);

        let mut seen = Vec::new();
        for (at, value) in [
            (0, 1),
            (1, 1),
            (1, 0),
            (1, 3),
            (2, 0),
            (9, 0),
            (10, 0),
            (60, 0),
            (110, 0),
            (111, 1),
            (111, 255),
        ] {
            let mut padded = good.clone();
            padded[at] = value;
            let field = field(&padded);
            let answer = pair.decrypt(&field, 16).unwrap();
            assert_eq!(answer.len(), 16);
            assert_eq!(
                answer,
                pair.decrypt(&field, 16).unwrap(),
                "the same field again"
            );
            assert_ne!(
                answer,
                other.decrypt(&field, 16).unwrap(),
                "the same field, another seed"
            );
            assert_ne!(answer, secret);
            assert!(!seen.contains(&answer));
            seen.push(answer);
        }
        // Valid padding, but a different length.
        for len in (0..=117).filter(|len| *len != 16) {
            assert_eq!(pair.decrypt(&field(&good), len).unwrap().len(), len);
            assert!(
                len < 2 || !pair.decrypt(&field(&good), len).unwrap().ends_with(b"ss"),
                "{len}"
            );
        }
    }

    #[test]
    fn a_changed_field_gives_another_secret() {
        let pair = pair();
        let field = encrypt(pair.public_der(), &[9; 16], &mut random(4)).unwrap();
        for at in 0..128 {
            let mut changed = field.clone();
            changed[at] ^= 1;
            assert!(
                pair.decrypt(&changed, 16)
                    .is_none_or(|answer| answer.len() == 16 && answer != [9; 16]),
                "byte {at}"
            );
        }
    }

    #[test]
    fn fields_that_cannot_be_right_are_refused() {
        let pair = pair();
        for len in (0..300).filter(|len| *len != 128) {
            assert_eq!(pair.decrypt(&vec![1; len], 16), None);
        }
        let modulus = &hex(PUBLIC)[29..157];
        assert_eq!(pair.decrypt(modulus, 16), None);
        assert_eq!(pair.decrypt(&[0xff; 128], 16), None);
        assert_eq!(pair.decrypt(&[1; 128], 118), None);
        assert_eq!(pair.decrypt(&[1; 128], usize::MAX), None);
        // Numbers below the modulus that are special cases of the arithmetic.
        for number in [0, 1, 2] {
            let mut field = [0; 128];
            field[127] = number;
            assert_eq!(pair.decrypt(&field, 16).unwrap().len(), 16);
        }
    }

    fn der(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
        let wrap = |tag: u8, parts: &[&[u8]]| {
            let body = parts.concat();
            [
                &[tag, 0x82],
                (body.len() as u16).to_be_bytes().as_slice(),
                &body,
            ]
            .concat()
        };
        // DER requires short lengths in the short form, so this only handles values above 255
        // bytes.
        let small = [&[2, exponent.len() as u8], exponent].concat();
        let key = wrap(0x30, &[&wrap(2, &[&[0], modulus]), &small]);
        wrap(0x30, &[&DER_BEFORE[3..18], &wrap(3, &[&[0], &key])])
    }

    #[test]
    fn keys_that_are_refused() {
        let with = |modulus: &[u8], exponent: &[u8]| {
            encrypt(&der(modulus, exponent), &[1; 16], &mut random(5))
        };
        assert_eq!(with(&[0xff; 256], &[3]).unwrap().len(), 256);
        assert_eq!(
            with(&[0xff; 1024], &[0, 0xff, 0xff, 0xff, 0xff])
                .unwrap()
                .len(),
            1024
        );
        assert_eq!(with(&[0xff; 1025], &[3]), Err(KeyError::Size(8200)));
        assert_eq!(with(&[0xfe; 256], &[3]), Err(KeyError::Modulus));
        assert_eq!(with(&[0xff; 256], &[1]), Err(KeyError::Exponent));
        assert_eq!(with(&[0xff; 256], &[0]), Err(KeyError::Exponent));
        assert_eq!(with(&[0xff; 256], &[4]), Err(KeyError::Exponent));
        assert_eq!(
            with(&[0xff; 256], &[1, 0, 0, 0, 1]),
            Err(KeyError::Exponent)
        );
        assert_eq!(with(&[0xff; 256], &[0x7f; 100]), Err(KeyError::Exponent));
        assert_eq!(
            with(&[0xff; 256], &[0xff]),
            Err(KeyError::Der),
            "a negative exponent"
        );

        // 504 bits and 0 bits, with lengths in the short form.
        let short = |number: &[u8]| {
            let key = [
                &[0x30, number.len() as u8 + 5, 2, number.len() as u8],
                number,
                &[2, 1, 3],
            ]
            .concat();
            let text = [&[3, key.len() as u8 + 1, 0], key.as_slice()].concat();
            let body = [&DER_BEFORE[3..18], text.as_slice()].concat();
            [&[0x30, body.len() as u8], body.as_slice()].concat()
        };
        assert_eq!(
            encrypt(&short(&[0x7f; 63]), &[1], &mut random(5)),
            Err(KeyError::Size(503))
        );
        assert_eq!(
            encrypt(&short(&[0]), &[1], &mut random(5)),
            Err(KeyError::Size(0))
        );

        let mut other = hex(PUBLIC);
        other[15] = 4;
        assert_eq!(
            encrypt(&other, &[1; 16], &mut random(5)),
            Err(KeyError::Algorithm)
        );
    }

    #[test]
    fn truncated_changed_and_random_der() {
        let whole = hex(PUBLIC_17);
        let mut random = random(6);
        let mut zeros = |bytes: &mut [u8]| bytes.fill(0);
        for len in 0..whole.len() {
            assert_eq!(
                encrypt(&whole[..len], &[1; 16], &mut random),
                Err(KeyError::Der),
                "{len} bytes"
            );
        }
        assert_eq!(
            encrypt(&[whole.as_slice(), &[0]].concat(), &[1; 16], &mut random),
            Err(KeyError::Der)
        );
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut changed = whole.clone();
                changed[at] = value;
                let _ = encrypt(&changed, &[1; 16], &mut random);
            }
        }
        for _ in 0..3000 {
            let mut bytes = [0; 200];
            random(&mut bytes);
            let _ = encrypt(&bytes, &[1; 16], &mut random);
            // A sequence, so that the parser descends into it.
            bytes[..3].copy_from_slice(&[0x30, 0x81, 197]);
            bytes[3..18].copy_from_slice(&DER_BEFORE[3..18]);
            let _ = encrypt(&bytes, &[1; 16], &mut random);
        }
        assert_eq!(encrypt(&whole, &[1; 16], &mut zeros), Err(KeyError::Random));
        assert_eq!(KeyPair::generate(&mut zeros).unwrap_err(), KeyError::Random);
    }

    #[test]
    fn errors_name_the_cause() {
        assert_eq!(
            format!("{}", KeyError::Size(8200)),
            "RSA modulus of 8200 bits, need 512 to 8192"
        );
        assert_eq!(format!("{:?}", pair()), "KeyPair(secret)");
    }
}
