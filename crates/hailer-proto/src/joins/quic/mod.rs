//! QUIC: a Retry, and an Initial that returns its token (spec/joins.md#3).
//!
//! In: datagrams of clients. Out: a Retry, the join with the name of the server, the close of a
//! connection.
//!
//! May import: `crate::joins`, `crate::protocol`, `crate::token`, `crate::wire`.

mod cipher;
mod hello;

use self::cipher::{Ghash, PacketKeys, TAG_LENGTH};
use super::{JoinDetector, JoinFamily, JoinVerdict, Tokens, bytes_at};
use crate::protocol::{Amplification, JoinAttempt};
use crate::token::{Epoch, Keys};
use alloc::sync::Arc;
use alloc::vec::Vec;
use compact_str::CompactString;
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
/// Longest reason of a close in bytes.
const MAX_REASON: usize = 200;
/// Frame that closes a connection, its error (refused), and the type of the frame at fault (none).
const CLOSE: [u8; 3] = [0x1C, 0x02, 0x00];
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

/// Differences between versions of QUIC.
struct Version {
    number: u32,
    initial: u8,
    retry: u8,
    /// AES-128 of 16 zero bytes, with the key of the version: the factor of GHASH.
    factor: u128,
    /// AES-128 of the nonce of the version and the number 1, which masks the tag.
    mask: u128,
    /// Start of the keys of Initial packets, and of their labels.
    salt: [u8; 20],
    prefix: &'static [u8],
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
        salt: *b"\x38\x76\x2C\xF7\xF5\x59\x34\xB3\x4D\x17\x9A\xE6\xA4\xC8\x0C\xAD\xCC\xBB\x7F\x0A",
        prefix: b"quic",
    },
    Version {
        number: 0x6B33_43CF,
        initial: 0x10,
        retry: 0x00,
        factor: 0x65F6_BEE1_0D70_0EDA_919C_5C69_78E4_7A5D,
        mask: 0x4E90_1396_E3A9_359F_4535_B65E_5AD6_AE51,
        salt: *b"\x0D\xED\xE3\xDE\xF7\x00\xA6\xDB\x81\x93\x81\xBE\x6E\x26\x9D\xCB\xF9\xBD\x2E\xD9",
        prefix: b"quicv2",
    },
];

/// Start of an Initial.
struct Initial<'a> {
    version: &'static Version,
    to: &'a [u8],
    from: &'a [u8],
    token: &'a [u8],
    /// Bytes after the token: the length of the rest of the packet, its number and its text.
    rest: &'a [u8],
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
            let (token, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            Some(Self {
                version,
                to,
                from,
                token,
                rest,
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
                JoinVerdict::Join(JoinAttempt {
                    host: server_name(&initial, bytes).unwrap_or_default(),
                    ..JoinAttempt::default()
                })
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

    /// A connection that followed our Retry never reaches the game, so it is closed with the reason. The
    /// next one does.
    fn dismiss(&self, join: &[u8], reason: &str, _may_wait: bool, out: &mut Vec<u8>) -> bool {
        let Some(Ok(initial)) = Initial::read(join) else {
            return false;
        };
        write_close(&initial, crate::wire::cut(reason, MAX_REASON), out);
        true
    }
}

/// Appends an Initial that closes the connection.
fn write_close(initial: &Initial<'_>, reason: &str, out: &mut Vec<u8>) {
    let version = initial.version;
    let keys = PacketKeys::new(&version.salt, initial.to, b"server in", version.prefix);
    let start = out.len();
    // The packet number has one byte.
    out.push(LONG_HEADER | version.initial);
    out.extend(version.number.to_be_bytes());
    out.push(initial.from.len() as u8);
    out.extend(initial.from);
    out.push(initial.to.len() as u8);
    out.extend(initial.to);
    // No token.
    out.push(0);
    let two_bytes = |number: usize| (number as u16 | 0x4000).to_be_bytes();
    let length = CLOSE.len() + 2 + reason.len();
    out.extend(two_bytes(1 + length + TAG_LENGTH));
    let number_at = out.len();
    out.push(0);
    let text_at = out.len();
    out.extend(CLOSE);
    out.extend(two_bytes(reason.len()));
    out.extend(reason.as_bytes());
    if let Some(text) = out.get_mut(text_at..) {
        keys.apply(0, text);
    }
    let header = out.get(start..text_at).unwrap_or_default();
    let text = out.get(text_at..).unwrap_or_default();
    let tag = keys.tag(0, header, text);
    out.extend(tag);
    let sample = bytes_at(out, number_at + 4).unwrap_or_default();
    let [first, number, ..] = keys.mask(sample);
    for (at, mask) in [(start, first & 0x0F), (number_at, number)] {
        if let Some(byte) = out.get_mut(at) {
            *byte ^= mask;
        }
    }
}

/// Returns the name of the server that a client connects to, if its Initial shows it.
fn server_name(initial: &Initial<'_>, bytes: &[u8]) -> Option<CompactString> {
    let version = initial.version;
    let keys = PacketKeys::new(&version.salt, initial.to, b"client in", version.prefix);
    let (length, rest) = variable_number(initial.rest)?;
    let number_at = bytes.len() - rest.len();
    let body = rest.get(..usize::try_from(length).ok()?)?;
    let [mask, masks @ ..] = keys.mask(bytes_at(body, 4)?);
    let first = bytes.first()? ^ mask & 0x0F;
    let number_length = usize::from(first & 0x03) + 1;
    let (number, text) = body.split_at_checked(number_length)?;
    let number: Vec<u8> = number
        .iter()
        .zip(masks)
        .map(|(byte, mask)| byte ^ mask)
        .collect();
    let mut header = bytes.get(..number_at)?.to_vec();
    *header.first_mut()? = first;
    header.extend(&number);
    let number = number
        .iter()
        .fold(0, |all, byte| all << 8 | u32::from(*byte));
    let (text, tag) = text.split_at_checked(text.len().checked_sub(TAG_LENGTH)?)?;
    if keys.tag(number, &header, text) != tag {
        return None;
    }
    let mut text = text.to_vec();
    keys.apply(number, &mut text);
    hello::server_name(&text)
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
/// connection id and the Retry as additional data. It protects against damage only, since the key
/// is public; so constant time is not needed.
fn integrity_tag(version: &Version, first_id: &[u8], retry: &[u8]) -> u128 {
    let length = [first_id.len() as u8];
    let mut hash = Ghash::new(version.factor);
    hash.update(length.iter().chain(first_id).chain(retry));
    hash.finish(1 + first_id.len() + retry.len(), 0) ^ version.mask
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
