//! The client: one request, in the older form after a timeout (spec/satisfactory.md#4).

use super::message::{FLAG_MODDED, Reply, Request};
use crate::model::{Extra, Status, Text, Value};
use crate::one_request::datagram::Single;
use crate::protocol::{Ask, Cookie};
use crate::wire::{Error, Notes};
use alloc::string::ToString;
use alloc::{format, vec::Vec};

/// Default port of queries before 1.0.
const LEGACY_PORT: u16 = 15_777;
/// Names of the states.
pub(super) const STATES: [&str; 4] = ["offline", "idle", "loading", "playing"];
/// Names of the parts of a state.
const PARTS: [&str; 4] = ["server-state", "options", "advanced-settings", "saves"];

/// Queries one Satisfactory server.
#[derive(Debug)]
pub struct SatisfactoryClient {
    cookie: [u8; 8],
    /// Whether the first request has the older form.
    is_legacy: bool,
}

impl SatisfactoryClient {
    /// Creates a client that has not sent anything yet.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        Self {
            cookie: cookie.derive(0).to_le_bytes(),
            is_legacy: ask.to.port == LEGACY_PORT,
        }
    }
}

impl Single for SatisfactoryClient {
    fn requests(&self) -> Vec<Vec<u8>> {
        let request = |is_legacy| {
            let mut out = Vec::new();
            let cookie = self.cookie;
            Request { is_legacy, cookie }.write(&mut out);
            out
        };
        [self.is_legacy, !self.is_legacy].map(request).into()
    }

    fn read(&self, bytes: &[u8], notes: &mut Notes) -> Option<Result<Status, Error>> {
        if !Reply::is_reply(bytes) {
            return None;
        }
        match Reply::read(bytes, notes) {
            Ok(reply) if reply.cookie != self.cookie => None,
            reply => Some(reply.map(|reply| status(&reply))),
        }
    }
}

/// Converts a reply to a status (spec/satisfactory.md#6).
fn status(reply: &Reply<'_>) -> Status {
    let mut status = Status {
        name: (!reply.name.is_empty()).then(|| Text::by_content(reply.name)),
        version: (reply.build != 0).then(|| reply.build.to_string().into()),
        ..Status::default()
    };
    let state = STATES.get(usize::from(reply.state));
    let state = match state {
        Some(state) => Value::from(*state),
        None => Value::Int(reply.state.into()),
    };
    let mut add = |key, value| status.extra.push(Extra { key, value });
    add("state", state);
    if reply.beacon_port.is_none() {
        add("modded", Value::Bool(reply.flags & FLAG_MODDED != 0));
    }
    if reply.flags & !FLAG_MODDED != 0 {
        add("flags", Value::Int(reply.flags as i64));
    }
    if let Some(port) = reply.beacon_port {
        add("beacon-port", Value::Int(port.into()));
    }
    if !reply.parts.is_empty() {
        let parts = reply.parts.iter().map(|(id, version)| {
            let name = PARTS.get(usize::from(*id));
            let name = name.map_or_else(|| format!("part-{id}").into(), |name| (*name).into());
            (name, Value::Int((*version).into()))
        });
        add("parts", Value::Table(parts.collect()));
    }
    status
}
