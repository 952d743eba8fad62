//! Source and GoldSrc: a challenge, and a connect that returns it (spec/joins.md#4).

use super::{JoinDetector, JoinFamily, JoinVerdict, Tokens, bytes_at, player_name};
use crate::protocol::{Amplification, JoinAttempt};
use crate::token::Epoch;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Starts datagrams outside of connections.
const HEADER: [u8; 4] = [0xFF; 4];
const GET_CHALLENGE: u8 = b'q';
const CHALLENGE: u8 = b'A';
const CONNECT: u8 = b'k';
const REJECT: u8 = b'9';
/// Follows the type of a challenge.
const MAGIC_VERSION: u32 = 0x5A4F_4933;
/// Authentication by a hash, which needs no Steam at this step.
const HASHED_KEY: u32 = 2;
/// Last field of a challenge.
const PADDING: &[u8] = b"000000\0";
/// Length of a challenge of Source in bytes.
const CHALLENGE_LENGTH: usize = 5 + 4 * 4 + PADDING.len();
/// Shortest request for a challenge that gets a reply: those of the game have 20 bytes.
const MIN_REQUEST: usize = 16;
/// Offsets in a connect.
const PROTOCOL_AT: usize = 5;
const CHALLENGE_AT: usize = 13;
const CLIENT_CHALLENGE_AT: usize = 17;
const NAME_AT: usize = 21;
/// Requests of GoldSrc.
const GOLDSRC_GET_CHALLENGE: &[u8] = b"getchallenge steam";
const GOLDSRC_CONNECT: &[u8] = b"connect ";
/// Starts a challenge of GoldSrc; number and way of authentication follow.
const GOLDSRC_CHALLENGE: &[u8] = b"A00000000 ";
/// Longest rejection text in bytes.
const MAX_REASON: usize = 200;
/// Challenges are positive in 32 bits, because GoldSrc parses them as signed numbers.
const MASK: u32 = 0x7FFF_FFFF;
const PURPOSE: u8 = b's';

pub(super) static FAMILY: JoinFamily = JoinFamily {
    id: "source",
    title: "Source and GoldSrc",
    protocols: &["a2s"],
    amplification: Amplification {
        request: MIN_REQUEST,
        reply: CHALLENGE_LENGTH,
    },
    detector: |keys| {
        Arc::new(Detector {
            tokens: Tokens::new(keys, PURPOSE),
        })
    },
};

struct Detector {
    tokens: Tokens,
}

impl JoinDetector for Detector {
    fn detect(
        &self,
        from: SocketAddr,
        epoch: Epoch,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> JoinVerdict {
        let Some(body) = bytes.strip_prefix(&HEADER) else {
            return JoinVerdict::Pass;
        };
        match body.first() {
            Some(&GET_CHALLENGE) => self.challenge(from, epoch, bytes, out),
            Some(&CONNECT) => self.connect(from, epoch, bytes),
            _ if body.starts_with(GOLDSRC_GET_CHALLENGE) => {
                let challenge = self.tokens.mint(from, epoch) as u32 & MASK;
                out.extend(HEADER);
                out.extend(GOLDSRC_CHALLENGE);
                write_decimal(challenge, out);
                out.extend(b" 2\n\0");
                JoinVerdict::Challenge
            }
            _ if body.starts_with(GOLDSRC_CONNECT) => self.connect_goldsrc(from, epoch, body),
            _ => JoinVerdict::Pass,
        }
    }

    /// A client that may wait asks again every few seconds, for about half a minute.
    fn dismiss(&self, join: &[u8], reason: &str, may_wait: bool, out: &mut Vec<u8>) -> bool {
        if may_wait {
            return false;
        }
        out.extend(HEADER);
        out.push(REJECT);
        if join.get(4) == Some(&CONNECT) {
            out.extend(bytes_at::<4>(join, CLIENT_CHALLENGE_AT).unwrap_or_default());
        }
        let reason = crate::wire::cut(reason, MAX_REASON);
        out.extend(reason.bytes().filter(|byte| *byte != 0));
        out.push(0);
        true
    }
}

impl Detector {
    fn challenge(
        &self,
        from: SocketAddr,
        epoch: Epoch,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> JoinVerdict {
        let Some(client) = bytes_at::<4>(bytes, 5).filter(|_| bytes.len() >= MIN_REQUEST) else {
            return JoinVerdict::Drop("too short");
        };
        let challenge = self.tokens.mint(from, epoch) as u32 & MASK;
        out.extend(HEADER);
        out.push(CHALLENGE);
        out.extend(MAGIC_VERSION.to_le_bytes());
        out.extend(challenge.to_le_bytes());
        out.extend(client);
        out.extend(HASHED_KEY.to_le_bytes());
        out.extend(PADDING);
        JoinVerdict::Challenge
    }

    fn connect(&self, from: SocketAddr, epoch: Epoch, bytes: &[u8]) -> JoinVerdict {
        let number = |at| bytes_at(bytes, at).map(u32::from_le_bytes);
        let (Some(protocol), Some(challenge)) = (number(PROTOCOL_AT), number(CHALLENGE_AT)) else {
            return JoinVerdict::Drop("malformed");
        };
        let Some(name) = bytes.get(NAME_AT..) else {
            return JoinVerdict::Drop("malformed");
        };
        if !self.tokens.is_low(from, epoch, challenge, MASK) {
            return JoinVerdict::Drop("token");
        }
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        JoinVerdict::Join(JoinAttempt {
            name: player_name(name),
            protocol: protocol as i32,
            ..JoinAttempt::default()
        })
    }

    /// Reads `connect PROTOCOL CHALLENGE "…" "…\name\NAME…"`.
    fn connect_goldsrc(&self, from: SocketAddr, epoch: Epoch, body: &[u8]) -> JoinVerdict {
        let mut words = body.split(|byte| *byte == b' ').skip(1);
        let mut number = || decimal(words.next()?);
        let (Some(protocol), Some(challenge)) = (number(), number()) else {
            return JoinVerdict::Drop("malformed");
        };
        if !self.tokens.is_low(from, epoch, challenge, MASK) {
            return JoinVerdict::Drop("token");
        }
        const KEY: &[u8] = b"\\name\\";
        let at = body.windows(KEY.len()).position(|window| window == KEY);
        let name = at
            .and_then(|at| body.get(at + KEY.len()..))
            .unwrap_or_default();
        let is_end = |byte: &u8| matches!(byte, b'\\' | b'"' | b'\n' | 0);
        JoinVerdict::Join(JoinAttempt {
            name: player_name(name.split(is_end).next().unwrap_or_default()),
            protocol: protocol as i32,
            ..JoinAttempt::default()
        })
    }
}

/// Returns a decimal number without a sign.
fn decimal(digits: &[u8]) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let text = core::str::from_utf8(digits).ok().filter(|_| is_number)?;
    text.parse().ok()
}

/// Appends a number in decimal digits.
fn write_decimal(number: u32, out: &mut Vec<u8>) {
    let mut divisor = 1_000_000_000;
    while divisor > 1 && number < divisor {
        divisor /= 10;
    }
    while divisor > 0 {
        out.push(b'0' + (number / divisor % 10) as u8);
        divisor /= 10;
    }
}
