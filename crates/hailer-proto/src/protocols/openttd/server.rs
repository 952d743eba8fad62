//! The responder: one reply, encoded once (spec/openttd.md#7).

use super::client::REQUEST;
use super::kind;
use crate::model::Status;
use crate::one_request::stream::{Server, is_complete};
use crate::protocols::openttd::info;
use crate::wire::Error;
use alloc::vec::Vec;

/// Prepared reply of one server.
#[derive(Debug)]
pub struct OpenTtdServer {
    reply: Vec<u8>,
}

impl OpenTtdServer {
    /// Encodes the reply for this status.
    pub fn new(status: &Status) -> Self {
        let mut reply = Vec::new();
        info::write_packet(kind::INFO, &info::encode(status), &mut reply);
        Self { reply }
    }
}

impl Server for OpenTtdServer {
    fn reply(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let is_complete = is_complete(bytes, REQUEST)?;
        if is_complete {
            out.extend_from_slice(&self.reply);
        }
        Ok(is_complete)
    }
}
