//! The client: one request, in the older form after a timeout (spec/satisfactory.md#4).

use super::message::{FLAG_MODDED, Reply, Request};
use crate::model::{Extra, Status, Text, Value};
use crate::protocol::{Ask, Cookie, Depth, Exchange, Input, Step};
use crate::wire::{Notes, by_content};
use alloc::borrow::Cow;
use alloc::string::ToString;
use alloc::{boxed::Box, format, vec::Vec};

/// Default port of queries before 1.0.
const LEGACY_PORT: u16 = 15_777;
/// Names of the states.
pub(super) const STATES: [&str; 4] = ["offline", "idle", "loading", "playing"];
/// Names of the parts of a state.
const PARTS: [&str; 4] = ["server-state", "options", "advanced-settings", "saves"];

/// Queries one server.
#[derive(Debug)]
pub struct SatisfactoryExchange {
    depth: Depth,
    cookie: [u8; 8],
    /// Whether the first request has the older form.
    is_legacy: bool,
    timeouts: u32,
}

impl SatisfactoryExchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        Self {
            depth: ask.depth,
            cookie: cookie.derive(0).to_le_bytes(),
            is_legacy: ask.port == LEGACY_PORT,
            timeouts: 0,
        }
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        let is_other = self.timeouts % 2 == 1;
        Request {
            is_legacy: self.is_legacy != is_other,
            cookie: self.cookie,
        }
        .write(out);
        Step::Send
    }

    fn receive(&self, bytes: &[u8]) -> Step {
        if !Reply::is_reply(bytes) {
            return Step::Wait;
        }
        let mut notes = Notes::default();
        let reply = match Reply::read(bytes, &mut notes) {
            Ok(reply) => reply,
            Err(error) => return Step::Bad(error.into()),
        };
        if reply.cookie != self.cookie {
            return Step::Wait;
        }
        let mut status = match self.depth {
            Depth::Ping => Box::default(),
            Depth::Basic | Depth::Full => status(&reply),
        };
        status.deviations = notes.met().collect();
        Step::Done(status)
    }
}

impl Exchange for SatisfactoryExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send(out),
            Input::Timeout => {
                self.timeouts = self.timeouts.wrapping_add(1);
                self.send(out)
            }
            Input::Datagram(bytes) => self.receive(bytes),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        0
    }
}

/// Converts a reply to a status (spec/satisfactory.md#6).
fn status(reply: &Reply<'_>) -> Box<Status> {
    let mut status = Box::<Status>::default();
    let (name, latin1) = by_content(reply.name);
    let name = Text::unformatted(name).from_latin1(latin1);
    status.name = (!reply.name.is_empty()).then_some(name);
    status.version = (reply.build != 0).then(|| reply.build.to_string().into());
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
            let name =
                name.map_or_else(|| format!("part-{id}").into(), |name| Cow::Borrowed(*name));
            (name, Value::Int((*version).into()))
        });
        add("parts", Value::Table(parts.collect()));
    }
    status
}

#[cfg(test)]
mod tests {
    use super::super::{Satisfactory, SatisfactoryResponder};
    use super::*;
    use crate::{Epoch, Protocol, Responder};

    #[test]
    fn samples_come_back_equal() {
        for seed in 0..500 {
            let sample = Satisfactory.sample(seed);
            let responder = SatisfactoryResponder::new(&sample);
            let mut exchange = SatisfactoryExchange::new(&Ask::default(), Cookie(seed));
            let (mut request, mut reply) = (Vec::new(), Vec::new());
            exchange.handle(Input::Start, &mut request);
            let from = "192.0.2.7:50000".parse().unwrap();
            responder.answer(from, Epoch(1), &request, &mut reply);
            let step = exchange.handle(Input::Datagram(&reply), &mut Vec::new());
            assert_eq!(step, Step::Done(Box::new(sample)));
        }
    }
}
