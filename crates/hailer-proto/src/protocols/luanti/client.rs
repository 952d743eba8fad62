//! The client: a probe, and a disconnect after its reply (spec/luanti.md#5).

use super::message::{Request, is_reply, read_reply};
use crate::model::{Extra, Status};
use crate::protocol::{Ask, Depth, Exchange, Input, Step};
use crate::wire::Notes;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Game that every server has, as no reply names it.
const GAME: &str = "Luanti";

/// Client side of one query.
#[derive(Debug)]
pub struct LuantiExchange {
    depth: Depth,
    /// The result, once the server has replied.
    status: Option<Box<Status>>,
}

impl LuantiExchange {
    /// Creates an exchange that has not sent anything yet. Probes have no id.
    pub fn new(ask: &Ask) -> Self {
        Self {
            depth: ask.depth,
            status: None,
        }
    }

    fn send(out: &mut Vec<u8>) -> Step {
        Request::Probe.write(out);
        Step::Send
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        if !is_reply(bytes) {
            return Step::Wait;
        }
        let mut notes = Notes::default();
        let peer = match read_reply(bytes, &mut notes) {
            Ok(peer) => peer,
            Err(error) => return Step::Bad(error.into()),
        };
        let mut status = Box::<Status>::default();
        if self.depth != Depth::Ping {
            status.game = Some(GAME.into());
            status.extra.push(Extra::new("details", false));
        }
        status.deviations = notes.met().collect();
        self.status = Some(status);
        // The server otherwise keeps the half-open connection for 7.5 s.
        Request::Disconnect(peer).write(out);
        Step::SendMore
    }

    /// Ends if the server has replied.
    fn finish(&mut self) -> Step {
        self.status.take().map_or(Step::Wait, Step::Done)
    }
}

impl Exchange for LuantiExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => Self::send(out),
            Input::Timeout if self.status.is_none() => Self::send(out),
            Input::Datagram(bytes) if self.status.is_none() => self.receive(bytes, out),
            _ => self.finish(),
        }
    }

    fn stage(&self) -> usize {
        usize::from(self.status.is_some())
    }
}
