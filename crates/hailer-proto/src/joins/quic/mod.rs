//! QUIC: a Retry, and an Initial that returns its token (spec/joins.md#3).

use super::{JoinDetector, JoinFamily, JoinVerdict, Tokens, bytes_at};
use crate::protocol::{Amplification, JoinAttempt};
use crate::token::{Epoch, Keys};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use subtle::ConstantTimeEq;

/// Bits of the first byte that a long header has.
const LONG_HEADER: u8 = 0xC0;
/// Bits of the type of a long header.
const TYPE: u8 = 0x30;
/// Shortest datagram with an Initial, in bytes (RFC 9000, section 14.1).
const MIN_INITIAL: usize = 1_200;
/// Longest connection id, and the shortest that a client chooses for the server (RFC 9000, sections
/// 17.2 and 7.2).
const MAX_ID: usize = 20;
const MIN_FIRST_ID: usize = 8;
/// Starts our tokens. Others are of the game, from an earlier connection.
const TOKEN_MARK: [u8; 8] = *b"hailer\0\x01";
const TOKEN_LENGTH: usize = TOKEN_MARK.len() + 16;
/// Length of our connection ids.
const ID_LENGTH: usize = 8;
/// Length of the integrity tag of a Retry.
const TAG_LENGTH: usize = 16;
/// Longest Retry in bytes.
const MAX_RETRY: usize = 1 + 4 + 1 + MAX_ID + 1 + ID_LENGTH + TOKEN_LENGTH + TAG_LENGTH;
const PURPOSE: u8 = b'q';
/// Purpose of connection ids.
const ID_PURPOSE: u8 = b'c';

pub(super) static FAMILY: JoinFamily = JoinFamily {
    id: "quic",
    title: "QUIC",
    protocols: &["onequery"],
    amplification: Amplification {
        request: MIN_INITIAL,
        reply: MAX_RETRY,
    },
    detector: |keys| Arc::new(Detector::new(keys)),
};

/// What differs between versions of QUIC.
struct Version {
    number: u32,
    initial: u8,
    retry: u8,
    /// AES-128 of 16 zero bytes, with the key of the version: the factor of GHASH.
    factor: u128,
    /// AES-128 of the nonce of the version and the number 1, which masks the tag.
    mask: u128,
}

/// Versions 1 (RFC 9001, section 5.8) and 2 (RFC 9369, section 3.3.3). Key and nonce of the tag are
/// public constants, so what AES-GCM derives from them is constant too.
static VERSIONS: [Version; 2] = [
    Version {
        number: 1,
        initial: 0x00,
        retry: 0x30,
        factor: 0x7295_6A45_4FFA_FF54_85A1_3A12_44D0_1D47,
        mask: 0x555E_4B74_9355_6EEA_AF75_D35B_D7FB_A5D8,
    },
    Version {
        number: 0x6B33_43CF,
        initial: 0x10,
        retry: 0x00,
        factor: 0x65F6_BEE1_0D70_0EDA_919C_5C69_78E4_7A5D,
        mask: 0x4E90_1396_E3A9_359F_4535_B65E_5AD6_AE51,
    },
];

/// Start of an Initial.
struct Initial<'a> {
    version: &'static Version,
    to: &'a [u8],
    from: &'a [u8],
    token: &'a [u8],
}

impl<'a> Initial<'a> {
    /// Parses the start of an Initial. `None`: another packet, or a version that is not known.
    fn read(bytes: &'a [u8]) -> Option<Result<Self, &'static str>> {
        let first = *bytes.first()?;
        let number = u32::from_be_bytes(bytes_at(bytes, 1)?);
        let version = VERSIONS.iter().find(|version| version.number == number)?;
        if first & LONG_HEADER != LONG_HEADER || first & TYPE != version.initial {
            return None;
        }
        if bytes.len() < MIN_INITIAL {
            return Some(Err("too short"));
        }
        let fields = || {
            let (to, rest) = id(bytes.get(5..)?)?;
            let (from, rest) = id(rest)?;
            let (length, rest) = variable_number(rest)?;
            let token = rest.get(..usize::try_from(length).ok()?)?;
            Some(Self {
                version,
                to,
                from,
                token,
            })
        };
        Some(fields().ok_or("malformed"))
    }
}

/// Splits off a connection id.
fn id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&length, rest) = bytes.split_first()?;
    let length = usize::from(length);
    rest.split_at_checked(length).filter(|_| length <= MAX_ID)
}

/// Splits off a number of 1, 2, 4 or 8 bytes (RFC 9000, section 16).
fn variable_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let (number, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    let all = number.iter().skip(1);
    let number = all.fold(u64::from(first & 0x3F), |all, byte| {
        all << 8 | u64::from(*byte)
    });
    Some((number, rest))
}

struct Detector {
    tokens: Tokens,
    ids: Tokens,
}

impl Detector {
    fn new(keys: &Keys) -> Self {
        Self {
            tokens: Tokens::new(keys, PURPOSE),
            ids: Tokens::new(keys, ID_PURPOSE),
        }
    }

    /// Returns whether the client has returned token and connection id of a Retry.
    fn is_accepted(&self, from: SocketAddr, epoch: Epoch, token: &[u8], id: &[u8]) -> bool {
        let tokens = self.tokens.accepted(from, epoch);
        let ids = self.ids.accepted(from, epoch);
        tokens.zip(ids).any(|(own_token, own_id)| {
            let own_id = (own_id as u64).to_be_bytes();
            bool::from(own_token.to_be_bytes().ct_eq(token) & own_id.ct_eq(id))
        })
    }
}

impl JoinDetector for Detector {
    fn detect(
        &self,
        from: SocketAddr,
        epoch: Epoch,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> JoinVerdict {
        let initial = match Initial::read(bytes) {
            None => return JoinVerdict::Pass,
            Some(Err(reason)) => return JoinVerdict::Drop(reason),
            Some(Ok(initial)) => initial,
        };
        if let Some(token) = initial.token.strip_prefix(&TOKEN_MARK) {
            return if self.is_accepted(from, epoch, token, initial.to) {
                JoinVerdict::Join(JoinAttempt::default())
            } else {
                JoinVerdict::Drop("token")
            };
        }
        if initial.to.len() < MIN_FIRST_ID {
            return JoinVerdict::Drop("malformed");
        }
        let id = (self.ids.mint(from, epoch) as u64).to_be_bytes();
        let token = self.tokens.mint(from, epoch).to_be_bytes();
        write_retry(&initial, id, token, out);
        JoinVerdict::Challenge
    }
}

/// Appends a Retry.
fn write_retry(initial: &Initial<'_>, id: [u8; ID_LENGTH], token: [u8; 16], out: &mut Vec<u8>) {
    let start = out.len();
    out.push(LONG_HEADER | initial.version.retry);
    out.extend(initial.version.number.to_be_bytes());
    out.push(initial.from.len() as u8);
    out.extend(initial.from);
    out.push(ID_LENGTH as u8);
    out.extend(id);
    out.extend(TOKEN_MARK);
    out.extend(token);
    let retry = out.get(start..).unwrap_or_default();
    let tag = integrity_tag(initial.version, initial.to, retry);
    out.extend(tag.to_be_bytes());
}

/// Returns the tag of a Retry without its tag: AES-128-GCM of nothing, with the client's first
/// connection id and the Retry as additional data. It protects against damage only, since everybody
/// knows the key; so constant time is not needed.
fn integrity_tag(version: &Version, first_id: &[u8], retry: &[u8]) -> u128 {
    let length = [first_id.len() as u8];
    let data = length.iter().chain(first_id).chain(retry);
    let bits = 8 * (1 + first_id.len() + retry.len()) as u128;
    let mut hash = 0;
    let mut block = 0;
    let mut filled = 0;
    for byte in data {
        block |= u128::from(*byte) << (120 - 8 * filled);
        filled += 1;
        if filled == 16 {
            hash = multiply(hash ^ block, version.factor);
            (block, filled) = (0, 0);
        }
    }
    if filled > 0 {
        hash = multiply(hash ^ block, version.factor);
    }
    // The lengths of the additional data and of the text, in bits.
    multiply(hash ^ bits << 64, version.factor) ^ version.mask
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Example of RFC 9001, A.4 and RFC 9369, A.4: the same connection in both versions.
    #[test]
    fn tags_are_those_of_the_standards() {
        let first_id = 0x8394_C8F0_3E51_5708_u64.to_be_bytes();
        let id = b"\x00\x08\xF0\x67\xA5\x50\x2A\x42\x62\xB5token";
        for (version, first, tag) in [
            (
                &VERSIONS[0],
                0xFF,
                0x04A2_65BA_2EFF_4D82_9058_FB3F_0F24_96BA,
            ),
            (
                &VERSIONS[1],
                0xCF,
                0xC864_6CE8_BFE3_3952_D955_5436_65DC_C7B6,
            ),
        ] {
            let start = [&[first][..], &version.number.to_be_bytes()].concat();
            let retry = [&start[..], id].concat();
            assert_eq!(integrity_tag(version, &first_id, &retry), tag);
            assert_ne!(integrity_tag(version, &first_id[1..], &retry), tag);
        }
    }

    #[test]
    fn numbers_have_four_lengths() {
        for (bytes, number) in [
            (&[0x25][..], 37),
            (&[0x40, 0x25], 37),
            (&[0x7B, 0xBD], 15_293),
            (&[0x9D, 0x7F, 0x3E, 0x7D], 494_878_333),
            (
                &[0xC2, 0x19, 0x7C, 0x5E, 0xFF, 0x14, 0xE8, 0x8C],
                151_288_809_941_952_652,
            ),
        ] {
            assert_eq!(variable_number(bytes), Some((number, &[][..])));
            assert_eq!(variable_number(&bytes[..bytes.len() - 1]), None);
        }
    }
}
