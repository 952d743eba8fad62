//! The responder: one reply, encoded once (spec/starmade.md#7).
//!
//! Limits: texts have at most 200 bytes.

use super::message::{self, INFO_VERSION, REQUEST, Reply};
use crate::model::{Status, Text, Value, without_controls};
use crate::one_request::stream::{Server, is_complete};
use crate::wire::{Error, cut};
use alloc::vec::Vec;

/// Longest text in bytes.
const MAX_TEXT: usize = 200;

/// Prepared reply of one server.
#[derive(Debug)]
pub struct StarMadeServer {
    reply: Vec<u8>,
}

impl StarMadeServer {
    /// Encodes the reply for this status.
    pub fn new(status: &Status) -> Self {
        let line = |text: &Option<Text>| {
            let text = text.as_ref().map(Text::plain).unwrap_or_default();
            without_controls(&text)
        };
        let name = line(&status.name);
        let description = line(&status.motd);
        let version = without_controls(status.version.as_deref().unwrap_or_default());
        let start = match status.extra("start") {
            Some(Value::Int(start)) => *start,
            _ => 0,
        };
        let count = |number: i64| number.clamp(0, i32::MAX.into());
        let info = Reply {
            info_version: INFO_VERSION,
            version: cut(&version, MAX_TEXT).into(),
            name: cut(&name, MAX_TEXT).as_bytes(),
            description: cut(&description, MAX_TEXT).as_bytes(),
            start,
            players: count(status.players.count()),
            max: count(status.players.max.unwrap_or(0)),
        };
        let mut reply = Vec::new();
        // Responders read no clock. Clients measure nothing with the time.
        message::write_reply(&info, start, &mut reply);
        Self { reply }
    }
}

impl Server for StarMadeServer {
    fn reply(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let is_complete = is_complete(bytes, REQUEST)?;
        if is_complete {
            out.extend_from_slice(&self.reply);
        }
        Ok(is_complete)
    }
}
