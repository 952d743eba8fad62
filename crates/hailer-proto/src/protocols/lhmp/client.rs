//! The client: details, then the list of players (spec/lhmp.md#5).

use super::message::{Details, Kind, read_players};
use crate::model::{Extra, Player, Status, Text};
use crate::protocol::{Ask, Depth, Exchange, Input, Step};
use crate::wire::Notes;
use crate::wire::codepage;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Requests for players without a reply, after which the exchange ends without them.
const TRIES: u8 = 3;

/// Client side of one query.
#[derive(Debug)]
pub struct LhmpExchange {
    depth: Depth,
    has_players: bool,
    /// Status without players, while they are requested.
    status: Option<Box<Status>>,
    /// Timeouts in this state.
    silent: u8,
}

impl LhmpExchange {
    /// Creates an exchange that has not sent anything yet. Requests have no id.
    pub fn new(ask: &Ask) -> Self {
        Self {
            depth: ask.depth,
            has_players: ask.has_players && ask.depth == Depth::Full,
            status: None,
            silent: 0,
        }
    }

    fn kind(&self) -> Kind {
        if self.status.is_some() {
            Kind::Players
        } else {
            Kind::Details
        }
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        out.extend(self.kind().magic());
        Step::Send
    }

    fn timeout(&mut self, out: &mut Vec<u8>) -> Step {
        self.silent = self.silent.saturating_add(1);
        if self.status.is_some() && self.silent >= TRIES {
            return self.finish_without_players();
        }
        self.send(out)
    }

    fn finish_without_players(&mut self) -> Step {
        match self.status.take() {
            Some(mut status) => {
                status.add_unanswered("players");
                Step::Done(status)
            }
            None => Step::Wait,
        }
    }

    fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        if Kind::of_reply(bytes) != Some(self.kind()) {
            return Step::Wait;
        }
        match self.status.take() {
            Some(status) => self.receive_players(status, bytes),
            None => self.receive_details(bytes, out),
        }
    }

    fn receive_details(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let mut notes = Notes::default();
        let details = match Details::read(bytes, &mut notes) {
            Ok(details) => details,
            Err(error) => return Step::Bad(error.into()),
        };
        let mut status = match self.depth {
            Depth::Ping => Box::default(),
            Depth::Basic | Depth::Full => status(&details),
        };
        status.deviations = notes.met().collect();
        if !self.has_players {
            return Step::Done(status);
        }
        self.status = Some(status);
        self.silent = 0;
        self.send(out)
    }

    fn receive_players(&mut self, mut status: Box<Status>, bytes: &[u8]) -> Step {
        let mut notes = Notes::default();
        let list = match read_players(bytes, &mut notes) {
            Ok(list) => list,
            Err(error) => {
                self.status = Some(status);
                return Step::Bad(error.into());
            }
        };
        let mut players = Vec::new();
        for (number, name) in list {
            let mut player = Player::named(Text::windows(name));
            player.extra.push(Extra::new("id", i64::from(number)));
            players.push(player);
        }
        status.players.set_list(players);
        status.add_deviations(notes.met());
        Step::Done(status)
    }
}

impl Exchange for LhmpExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send(out),
            Input::Timeout => self.timeout(out),
            Input::Datagram(bytes) => self.receive(bytes, out),
            Input::GiveUp => self.finish_without_players(),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        usize::from(self.status.is_some())
    }
}

/// Converts the details to a status (spec/lhmp.md#5).
fn status(details: &Details<'_>) -> Box<Status> {
    let mut status = Box::new(Status {
        name: Text::filled_windows(details.name),
        mode: codepage::filled(details.mode),
        map: codepage::filled(details.map),
        version: codepage::filled(details.version),
        has_password: Some(details.has_password),
        ..Status::default()
    });
    status.players.online = Some(details.online.into());
    status.players.max = Some(details.max.into());
    if let Some(website) = codepage::filled(details.website) {
        status.extra.push(Extra::new("website", website));
    }
    status
}
