//! The responder: rejects every client (spec/terraria-join.md#7).

use super::message;
use crate::model::Status;
use crate::one_request::stream::Server;
use crate::wire::Error;
use alloc::vec::Vec;

/// Reply of any server.
#[derive(Debug)]
pub struct TerrariaServer;

impl TerrariaServer {
    /// Returns the reply for any status: it has no field of a status.
    pub fn new(_: &Status) -> Self {
        Self
    }
}

impl Server for TerrariaServer {
    fn reply(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let is_complete = message::is_complete_request(bytes)?;
        if is_complete {
            message::write_wrong_version(out);
        }
        Ok(is_complete)
    }
}
