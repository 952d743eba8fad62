//! ENet: a verified connect. The acknowledgement returns two of our numbers (spec/joins.md#5).

use super::{JoinDetector, JoinFamily, JoinVerdict, Tokens, bytes_at};
use crate::protocol::{Amplification, JoinAttempt};
use crate::token::Epoch;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Bits of the first number of a datagram.
const HAS_TIME: u16 = 0x8000;
const IS_COMPRESSED: u16 = 0x4000;
const SESSION: u16 = 0x3000;
const PEER: u16 = 0x0FFF;
const SESSION_SHIFT: u32 = 12;
/// Peer of a connect.
const NO_PEER: u16 = 0x0FFF;
/// Commands with their flags: 80 requests an acknowledgement, 40 has no sequence number.
const ACKNOWLEDGE: u8 = 0x01;
const CONNECT: u8 = 0x82;
const VERIFY_CONNECT: u8 = 0x83;
const DISCONNECT: u8 = 0x44;
/// Channel of commands that belong to no channel.
const NO_CHANNEL: u8 = 0xFF;
/// Length of the header with a time, in bytes.
const HEADER: usize = 4;
/// Length of an acknowledgement in bytes.
const ACKNOWLEDGE_LENGTH: usize = 8;
/// Length of a connect in bytes.
const CONNECT_LENGTH: usize = 48;
/// Length of a datagram with a verify-connect.
const REPLY_LENGTH: usize = HEADER + 44;
/// Acknowledgements of one datagram that are read.
const MAX_ACKNOWLEDGEMENTS: usize = 8;
/// Session that clients of a challenge get.
const OUR_SESSION: u8 = 1;
const PURPOSE: u8 = b'e';

pub(super) static FAMILY: JoinFamily = JoinFamily {
    id: "enet",
    title: "ENet",
    protocols: &["ugp"],
    amplification: Amplification {
        request: HEADER + CONNECT_LENGTH,
        reply: REPLY_LENGTH,
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
        let Some(first) = bytes_at(bytes, 0).map(u16::from_be_bytes) else {
            return JoinVerdict::Pass;
        };
        if first & IS_COMPRESSED != 0 {
            return JoinVerdict::Pass;
        }
        if first & PEER != NO_PEER {
            return self.acknowledgement(from, epoch, first, bytes);
        }
        let is_connect = first & HAS_TIME != 0
            && bytes.len() == HEADER + CONNECT_LENGTH
            && bytes.get(HEADER..HEADER + 2) == Some(&[CONNECT, NO_CHANNEL]);
        if !is_connect {
            return JoinVerdict::Pass;
        }
        match self.verify_connect(from, epoch, bytes, out) {
            Some(()) => JoinVerdict::Challenge,
            None => JoinVerdict::Drop("malformed"),
        }
    }

    /// A client that acknowledged our challenge counts itself as connected, so it gets a disconnect
    /// command. Its next connect reaches the game.
    fn dismiss(&self, join: &[u8], _: &str, _may_wait: bool, out: &mut Vec<u8>) -> bool {
        let Some(first) = bytes_at(join, 0).map(u16::from_be_bytes) else {
            return false;
        };
        // The client's own number is the one that it knows us by.
        let peer = first & PEER | u16::from(OUR_SESSION) << SESSION_SHIFT;
        out.extend(peer.to_be_bytes());
        out.extend([DISCONNECT, NO_CHANNEL, 0, 0]);
        out.extend([0; 4]);
        true
    }
}

impl Detector {
    /// Appends the reply to a connect. `None`: the connect is invalid.
    fn verify_connect(
        &self,
        from: SocketAddr,
        epoch: Epoch,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Option<()> {
        let body = bytes.get(HEADER..)?;
        let peer = u16::from_be_bytes(bytes_at(body, 4)?);
        let limits: [u8; 32] = bytes_at(body, 8)?;
        let connect_id: [u8; 4] = bytes_at(body, 40)?;
        if peer >= NO_PEER {
            return None;
        }
        let token = self.tokens.mint(from, epoch) as u32;
        let (sequence, time) = ((token >> 16) as u16, token as u16);
        out.extend((peer | HAS_TIME).to_be_bytes());
        out.extend(time.to_be_bytes());
        out.extend([VERIFY_CONNECT, NO_CHANNEL]);
        out.extend(sequence.to_be_bytes());
        // The client sends its own number back, which `dismiss` needs.
        out.extend(peer.to_be_bytes());
        out.extend([OUR_SESSION; 2]);
        out.extend(limits);
        out.extend(connect_id);
        Some(())
    }

    /// Reads the first commands of a datagram: ENet sends acknowledgements before all others.
    fn acknowledgement(
        &self,
        from: SocketAddr,
        epoch: Epoch,
        first: u16,
        bytes: &[u8],
    ) -> JoinVerdict {
        let header = if first & HAS_TIME != 0 { HEADER } else { 2 };
        if (first & SESSION) >> SESSION_SHIFT != u16::from(OUR_SESSION) {
            return JoinVerdict::Pass;
        }
        let commands = bytes.get(header..).unwrap_or_default();
        let mut is_acknowledgement = false;
        for command in commands
            .chunks_exact(ACKNOWLEDGE_LENGTH)
            .take(MAX_ACKNOWLEDGEMENTS)
            .take_while(|command| command.starts_with(&[ACKNOWLEDGE, NO_CHANNEL]))
        {
            is_acknowledgement = true;
            let returned = bytes_at(command, 4).map(u32::from_be_bytes);
            if returned.is_some_and(|token| self.tokens.is_low(from, epoch, token, u32::MAX)) {
                return JoinVerdict::Join(JoinAttempt::default());
            }
        }
        if is_acknowledgement {
            JoinVerdict::Drop("token")
        } else {
            JoinVerdict::Pass
        }
    }
}
