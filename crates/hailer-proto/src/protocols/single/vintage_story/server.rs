//! The responder: one reply, encoded once (spec/vintage-story.md#7).
//!
//! Limits: texts have at most 1,000 bytes.

use super::message::{self, REQUEST, ServerStatus};
use crate::model::{Codes, Status, Text, is_control};
use crate::one_request::stream::{Server, is_complete};
use crate::wire::{Error, cut};
use alloc::string::String;
use alloc::vec::Vec;

/// Longest text in bytes.
const MAX_TEXT: usize = 1_000;

/// Prepared reply of one server.
#[derive(Debug)]
pub struct VintageStoryServer {
    reply: Vec<u8>,
}

impl VintageStoryServer {
    /// Encodes the reply for this status.
    pub fn new(status: &Status) -> Self {
        let status = &*status.with_codes(Codes::None);
        let plain = |text: Option<&Text>| line(&text.map(Text::plain).unwrap_or_default());
        let name = plain(status.name.as_ref());
        let motd = plain(status.motd.as_ref());
        let mode = line(status.mode.as_deref().unwrap_or_default());
        let version = line(status.version.as_deref().unwrap_or_default());
        let count = |number: i64| number.clamp(0, i32::MAX.into()) as u64;
        let info = ServerStatus {
            name: cut(&name, MAX_TEXT).as_bytes(),
            motd: cut(&motd, MAX_TEXT).as_bytes(),
            players: count(status.players.count()),
            max: count(status.players.max.unwrap_or(0)),
            mode: cut(&mode, MAX_TEXT).as_bytes(),
            password: status.has_password.unwrap_or(false).into(),
            version: cut(&version, MAX_TEXT).as_bytes(),
        };
        let mut reply = Vec::new();
        message::write_status(&info, &mut reply);
        Self { reply }
    }
}

/// Returns a text without control characters except line breaks.
fn line(text: &str) -> String {
    text.chars()
        .filter(|c| *c == '\n' || !is_control(*c))
        .collect()
}

impl Server for VintageStoryServer {
    fn reply(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<bool, Error> {
        let is_complete = is_complete(bytes, REQUEST)?;
        if is_complete {
            out.extend_from_slice(&self.reply);
        }
        Ok(is_complete)
    }
}
