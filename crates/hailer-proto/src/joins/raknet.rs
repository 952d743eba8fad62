//! RakNet: a cookie in Open Connection Reply 1, and a second request that returns it
//! (spec/joins.md#2).

use super::{JoinDetector, JoinFamily, JoinVerdict, Tokens, bytes_at};
use crate::protocol::{Amplification, JoinAttempt};
use crate::protocols::minecraft_bedrock::message::MAGIC;
use crate::token::{Epoch, Keys};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

const REQUEST_1: u8 = 0x05;
const REPLY_1: u8 = 0x06;
const REQUEST_2: u8 = 0x07;
/// Length of a reply 1 with a cookie, in bytes.
const REPLY_LENGTH: usize = 32;
/// Shortest request 1 that gets a reply: clients fill theirs up to hundreds of bytes.
const MIN_REQUEST: usize = REPLY_LENGTH;
/// Headers of IPv4 and UDP, which RakNet counts as part of a datagram.
const HEADERS: usize = 28;
/// Longest datagram that is offered to clients, with headers.
const MAX_MTU: usize = 1_492;
/// Offset of the cookie in a request 2.
const COOKIE: usize = 17;
/// Offset of the server's address in a request 2 with a cookie.
const ADDRESS: usize = 22;
const PURPOSE: u8 = b'r';
/// Purpose of the server's number.
const GUID_PURPOSE: u8 = b'i';

pub(super) static FAMILY: JoinFamily = JoinFamily {
    id: "raknet",
    title: "RakNet",
    protocols: &["minecraft-bedrock"],
    amplification: Amplification {
        request: MIN_REQUEST,
        reply: REPLY_LENGTH,
    },
    detector: |keys| Arc::new(Detector::new(keys)),
};

struct Detector {
    tokens: Tokens,
    /// Number of the server, the same for all clients.
    guid: u64,
}

impl Detector {
    fn new(keys: &Keys) -> Self {
        let nobody = SocketAddr::from(([0; 4], 0));
        Self {
            tokens: Tokens::new(keys, PURPOSE),
            guid: keys.mint(GUID_PURPOSE, nobody, Epoch(0)) as u64 >> 1,
        }
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
        if bytes_at(bytes, 1) != Some(MAGIC) {
            return JoinVerdict::Pass;
        }
        match bytes.first() {
            Some(&REQUEST_1) if bytes.len() < MIN_REQUEST => JoinVerdict::Drop("too short"),
            Some(&REQUEST_1) => {
                let mtu = (bytes.len() + HEADERS).min(MAX_MTU) as u16;
                out.push(REPLY_1);
                out.extend(MAGIC);
                out.extend(self.guid.to_be_bytes());
                // The server has "security": a cookie follows.
                out.push(1);
                out.extend((self.tokens.mint(from, epoch) as u32).to_be_bytes());
                out.extend(mtu.to_be_bytes());
                JoinVerdict::Challenge
            }
            Some(&REQUEST_2) => match request_2(bytes) {
                None => JoinVerdict::Drop("malformed"),
                Some((cookie, _)) if !self.tokens.is_low(from, epoch, cookie, u32::MAX) => {
                    JoinVerdict::Drop("token")
                }
                Some((_, port)) => JoinVerdict::Join(JoinAttempt {
                    port,
                    ..JoinAttempt::default()
                }),
            },
            _ => JoinVerdict::Pass,
        }
    }
}

/// Returns the cookie of a request 2, and the port that the client connects to.
fn request_2(bytes: &[u8]) -> Option<(u32, u16)> {
    let cookie = u32::from_be_bytes(bytes_at(bytes, COOKIE)?);
    // Length of the address with its family, and offset of its port.
    let (length, port) = match bytes.get(ADDRESS)? {
        4 => (7, 5),
        6 => (29, 3),
        _ => return None,
    };
    // Then follow the length of datagrams and the number of the client.
    bytes.get(ADDRESS + length + 2 + 7)?;
    let port = u16::from_be_bytes(bytes_at(bytes, ADDRESS + port)?);
    Some((cookie, port))
}
