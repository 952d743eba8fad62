//! The responder: the reply of servers since 12.0, which refers to TCP. A reply with information
//! would have up to 130 times the length of its request (spec/openttd-udp.md#5).

use super::{EMPTY_REPLY, REQUEST};
use crate::protocol::{Responder, Verdict};
use crate::token::Epoch;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Responder of any server.
#[derive(Debug)]
pub struct OpenTtdUdpResponder;

impl Responder for OpenTtdUdpResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if bytes != REQUEST {
            return Verdict::Pass;
        }
        out.extend(EMPTY_REPLY);
        Verdict::Reply { is_verified: false }
    }
}
