//! The client of protocols with one request and one reply.

use crate::model::{Players, Status};
use crate::protocol::{Ask, Depth, Exchange, Input, Step};
use crate::wire::{Error, Notes};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// A kind of server with one request, or several forms of it, and one reply.
pub trait Single: Send {
    /// Returns the forms of the request, at least one. After each timeout, the next one is sent.
    fn requests(&self) -> Vec<Vec<u8>>;

    /// Reads a datagram. `None`: it is stray, late or forged.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read, with its offset.
    fn read(&self, bytes: &[u8], notes: &mut Notes) -> Option<Result<Status, Error>>;
}

/// Client side of one query.
#[derive(Debug)]
pub struct SingleExchange<S> {
    single: S,
    depth: Depth,
    has_players: bool,
    timeouts: usize,
}

impl<S: Single> SingleExchange<S> {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask, single: S) -> Self {
        Self {
            single,
            depth: ask.depth,
            has_players: ask.has_players && ask.depth == Depth::Full,
            timeouts: 0,
        }
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        let requests = self.single.requests();
        let form = self.timeouts % requests.len().max(1);
        out.extend(requests.into_iter().nth(form).unwrap_or_default());
        Step::Send
    }

    fn receive(&self, bytes: &[u8]) -> Step {
        let mut notes = Notes::default();
        let mut status = match self.single.read(bytes, &mut notes) {
            None => return Step::Wait,
            Some(Err(error)) => return Step::Bad(error.into()),
            Some(Ok(_)) if self.depth == Depth::Ping => Box::default(),
            Some(Ok(status)) => Box::new(status),
        };
        if !self.has_players {
            status.players = without_list(&status.players);
        }
        status.deviations = notes.met().collect();
        Step::Done(status)
    }
}

/// Returns the counts of players only.
pub fn without_list(players: &Players) -> Players {
    Players {
        online: players.online,
        max: players.max,
        bots: players.bots,
        ..Players::default()
    }
}

impl<S: Single> Exchange for SingleExchange<S> {
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
