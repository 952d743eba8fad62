//! The responder: one reply, encoded once (spec/satisfactory.md#7).
//!
//! Limits: the name has at most 100 bytes, in short replies 60.

use super::client::STATES;
use super::message::{self, FLAG_MODDED, Request, SHORTEST_REPLY};
use crate::model::{Codes, Status, Value, without_controls};
use crate::protocol::{Responder, Verdict};
use crate::token::Epoch;
use crate::wire::{Notes, cut};
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Longest name in bytes.
const MAX_NAME: usize = 100;
/// Longest name of a short reply in bytes: with headers, it is at most 3 times as long as the
/// request.
const TINY_NAME: usize = 60;
/// Longest reply in bytes.
pub(super) const MAX_REPLY: usize = SHORTEST_REPLY + MAX_NAME;
/// State of a server whose status has none: playing.
const PLAYING: u8 = 3;

/// Responder of one server.
#[derive(Debug)]
pub struct SatisfactoryResponder {
    body: Vec<u8>,
    tiny_body: Vec<u8>,
}

impl SatisfactoryResponder {
    /// Creates a responder for this status.
    pub fn new(status: &Status) -> Self {
        let status = &*status.with_codes(Codes::None);
        let names = status.name.iter().chain(&status.motd);
        let mut names = names.map(|name| without_controls(&name.plain()));
        let name = names.find(|name| !name.trim().is_empty());
        let name = name.unwrap_or_default();
        let build = status
            .version
            .as_deref()
            .and_then(|build| build.parse().ok());
        let state = match status.extra("state") {
            Some(Value::Str(name)) => STATES.iter().position(|state| state == name),
            Some(Value::Int(state)) => usize::try_from(*state).ok(),
            _ => None,
        };
        let state = state.and_then(|state| u8::try_from(state).ok());
        let is_modded = status.extra("modded") == Some(&Value::Bool(true));
        let flags = match status.extra("flags") {
            Some(Value::Int(flags)) => *flags as u64,
            _ if is_modded => FLAG_MODDED,
            _ => 0,
        };
        let body = |limit: usize| {
            let state = state.unwrap_or(PLAYING);
            message::body(state, build.unwrap_or(0), flags, cut(&name, limit))
        };
        Self {
            body: body(MAX_NAME),
            tiny_body: body(TINY_NAME),
        }
    }
}

impl Responder for SatisfactoryResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if !Request::is_request(bytes) {
            return Verdict::Pass;
        }
        match Request::read(bytes, &mut Notes::discarding()) {
            Err(_) => Verdict::Drop("malformed"),
            Ok(request) => {
                message::write_reply(request.cookie, &self.body, out);
                Verdict::Reply { is_verified: false }
            }
        }
    }

    /// Returns the reply with a shorter name (spec/satisfactory.md#7).
    fn short_reply(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        match Request::read(request, &mut Notes::discarding()) {
            Ok(request) if !request.is_legacy => {
                message::write_reply(request.cookie, &self.tiny_body, out);
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::REQUEST;
    use super::*;
    use crate::model::{Extra, Text};

    #[test]
    fn replies_are_bounded() {
        let mut status = Status {
            name: Some(Text::unformatted("\u{4E2D}".repeat(100))),
            version: Some("416835".into()),
            ..Status::default()
        };
        status.extra.push(Extra::new("state", "idle"));
        status.extra.push(Extra::new("modded", true));
        let responder = SatisfactoryResponder::new(&status);
        let request = b"\xD5\xF6\0\x01hailer07\x01";
        let from = "192.0.2.7:50000".parse().unwrap();
        let mut out = Vec::new();
        let verdict = responder.answer(from, Epoch(1), request, &mut out);
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        let start = b"\xD5\xF6\x01\x01hailer07\x01\x43\x5C\x06\0\x01\0\0\0\0\0\0\0\0\x63\0";
        assert!(out.starts_with(start), "{out:02x?}");
        assert!(out.len() <= MAX_REPLY);
        let mut short = Vec::new();
        assert!(responder.short_reply(request, &mut short));
        assert!(short.len() + 28 <= 3 * (REQUEST + 28), "{}", short.len());
        for (other, verdict) in [
            (&out[..], Verdict::Pass),
            (&request[..12], Verdict::Drop("malformed")),
            (b"\0\0hailer07", Verdict::Pass),
            (b"", Verdict::Pass),
        ] {
            assert_eq!(
                responder.answer(from, Epoch(1), other, &mut Vec::new()),
                verdict
            );
        }
    }
}
