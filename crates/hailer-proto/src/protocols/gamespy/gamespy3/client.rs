//! The client: handshake, then query, whose reply has up to 8 parts (spec/gamespy3.md#5).

use super::message::{self, Form, Jc2Player, MAX_PARTS, Parser, Part, UT3_NAMES};
use crate::model::{Extra, Player, Roster, Status, Text, Value};
use crate::protocol::{Ask, Cookie, Depth, Exchange, Fault, Input, Step};
use crate::protocols::gamespy::deviation::TRUNCATED_REPLY;
use crate::protocols::gamespy::qr2::{SessionId, TYPE_CHALLENGE, TYPE_QUERY};
use crate::wire::{ErrorKind, Notes, by_content};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Number of handshakes without a reply after which the query is sent without a token.
const HANDSHAKE_TRIES: u8 = 2;
/// Limit of the bytes of all kept parts.
const MAX_BYTES: usize = 65_536;

/// The only map of Just Cause 2 Multiplayer, whose servers do not send it.
const JC2_MAP: &str = "Panau";

/// Queries one GameSpy 3 server.
#[derive(Debug)]
pub struct GameSpy3Exchange {
    session: SessionId,
    depth: Depth,
    has_players: bool,
    state: State,
    /// Handshakes that timed out.
    silent_handshakes: u8,
    /// Queries that timed out.
    silent_queries: u8,
    parts: [Option<Vec<u8>>; MAX_PARTS],
    /// Whether the reply is split.
    is_split: bool,
    /// Number of the last part.
    last: Option<usize>,
    notes: Notes,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Handshake,
    Query { token: i32, form: Form },
}

impl GameSpy3Exchange {
    /// Creates an exchange that has not sent anything yet.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        Self {
            session: SessionId::safe(cookie.derive(0)),
            depth: ask.depth,
            has_players: ask.has_players && ask.depth == Depth::Full,
            state: State::Handshake,
            silent_handshakes: 0,
            silent_queries: 0,
            parts: Default::default(),
            is_split: false,
            last: None,
            notes: Notes::default(),
        }
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        match self.state {
            State::Handshake => message::write_handshake(self.session, out),
            State::Query { token, form } => {
                message::write_query(self.session, token, form, out);
            }
        }
        Step::Send
    }

    /// Just Cause 2 Multiplayer replies to its own form only, so every second query has it.
    fn query(&mut self, token: i32, out: &mut Vec<u8>) -> Step {
        let form = if self.silent_queries.is_multiple_of(2) {
            Form::Split
        } else {
            Form::Jc2
        };
        self.state = State::Query { token, form };
        self.send(out)
    }

    /// Repeats a request. A server may accept a token only once, so a query without a reply needs
    /// a new one.
    fn repeat(&mut self, out: &mut Vec<u8>) -> Step {
        match self.state {
            State::Handshake => {
                self.silent_handshakes = self.silent_handshakes.saturating_add(1);
                if self.silent_handshakes.is_multiple_of(HANDSHAKE_TRIES) {
                    return self.query(0, out);
                }
            }
            State::Query { .. } => {
                self.silent_queries = self.silent_queries.saturating_add(1);
                self.state = State::Handshake;
            }
        }
        self.send(out)
    }

    fn receive_challenge(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Step {
        let State::Handshake = self.state else {
            return Step::Wait;
        };
        let mut notes = Notes::default();
        match message::parse_challenge(bytes, &mut notes) {
            Err(error) => Step::Bad(error.into()),
            Ok(_) if self.depth == Depth::Ping => Step::Done(Box::new(Status {
                deviations: notes.met().collect(),
                ..Status::default()
            })),
            Ok(token) => {
                self.notes = notes;
                self.query(token, out)
            }
        }
    }

    fn receive_part(&mut self, bytes: &[u8]) -> Step {
        let part = match message::parse_part(bytes) {
            Ok(part) => part,
            // The kit sends no further parts, and its client ignores them.
            Err(error) if matches!(error.kind, ErrorKind::Limit { .. }) => return Step::Wait,
            Err(error) => return Step::Bad(error.into()),
        };
        let (number, is_last) = match part {
            Part::Split(number, is_last) => (usize::from(number), is_last),
            Part::Unsplit if self.is_split => return Step::Wait,
            Part::Unsplit => (0, true),
        };
        // Just Cause 2 Multiplayer never marks its only part as the last one.
        let mut parser = Parser::default();
        if let Err(error) = parser.part(bytes, &mut Notes::default()) {
            return Step::Bad(error.into());
        }
        let is_last = is_last || parser.jc2.is_some();
        let kept: usize = self.parts.iter().flatten().map(Vec::len).sum();
        let Some(place) = self.parts.get_mut(number) else {
            return Step::Wait;
        };
        if kept + bytes.len() > MAX_BYTES {
            return Step::Bad(Fault::Misbehaved("its reply has more than 65,536 bytes"));
        }
        // A part of a repeated query replaces the earlier one, so that all parts belong to one reply.
        *place = Some(bytes.into());
        self.is_split = part != Part::Unsplit;
        if is_last {
            self.last = Some(number);
            self.parts
                .iter_mut()
                .skip(number + 1)
                .for_each(|part| *part = None);
        }
        // Nothing follows the eighth part, even if it is not marked as the last one.
        let last = self.last.unwrap_or(MAX_PARTS - 1);
        if self.parts.iter().take(last + 1).all(Option::is_some) {
            self.finish()
        } else {
            Step::Progress
        }
    }

    /// Returns the status of the parts up to the first missing one.
    fn finish(&self) -> Step {
        let mut notes = self.notes.clone();
        let mut parser = Parser::default();
        let parts = self.parts.iter().map_while(Option::as_deref);
        let mut count = 0;
        for part in parts {
            if let Err(error) = parser.part(part, &mut notes) {
                return Step::Bad(error.into());
            }
            count += 1;
        }
        if count == 0 {
            return Step::Wait;
        }
        let is_truncated = self.last.is_none() && count == MAX_PARTS;
        if is_truncated {
            notes.deviation(&TRUNCATED_REPLY, 0);
        }
        let is_complete = self.last.is_some_and(|last| count > last);
        // The missing rest may be in a part that did not arrive.
        let is_lost = !is_complete && !is_truncated;
        let (reply, jc2) = if is_lost {
            parser.finish(&mut Notes::discarding())
        } else {
            parser.finish(&mut notes)
        };
        let mut status = reply.status(self.has_players, &mut notes);
        if jc2.is_some() && status.map.is_none() {
            status.map = Some(JC2_MAP.into());
        }
        if let (Some(players), true) = (jc2, self.has_players) {
            status
                .players
                .set_list(players.iter().map(jc2_player).collect());
        }
        // Without its count, a list that may lack parts is not whole.
        let is_counted = is_complete || status.players.max.is_some();
        if !is_counted && status.players.roster == Roster::Whole {
            status.players.roster = Roster::Partial;
        }
        add_ut3_names(&mut status);
        if is_lost {
            status.add_unanswered("parts");
        }
        status.deviations = notes.met().collect();
        Step::Done(status)
    }
}

fn jc2_player(player: &Jc2Player<'_>) -> Player {
    let mut converted = Player::named(Text::by_content(player.name));
    converted.latency_ms = Some(player.ping.into());
    let steam_id = by_content(player.steam_id).0;
    converted.extra.push(Extra::new(
        "fields",
        Value::Table(alloc::vec![("steamid".into(), Value::Str(steam_id.into()))]),
    ));
    converted
}

/// Adds the meanings of numbered keys, whose rules keep their names.
fn add_ut3_names(status: &mut Status) {
    // Other games may have short keys like `s0`.
    if !status
        .rules
        .iter()
        .any(|rule| crate::protocols::gamespy::qr2::is_number_key(rule.key.as_bytes()))
    {
        return;
    }
    let mut settings = Vec::new();
    for (number, name) in UT3_NAMES {
        let Some(rule) = status.rules.iter().find(|rule| rule.key == number) else {
            continue;
        };
        // Lists have the separator 1C.
        let value = rule.value.trim_matches('\u{1C}').replace('\u{1C}', ", ");
        if name == "bots" {
            status.players.bots = value.parse().ok();
        }
        if !value.is_empty() {
            settings.push((name.into(), Value::from(value)));
        }
    }
    if !settings.is_empty() {
        status
            .extra
            .push(Extra::new("settings", Value::Table(settings)));
    }
}

impl Exchange for GameSpy3Exchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        let bytes = match input {
            Input::Start => return self.send(out),
            Input::Timeout => return self.repeat(out),
            Input::GiveUp => return self.finish(),
            Input::Datagram(bytes) => bytes,
            _ => return Step::Wait,
        };
        match message::reply_header(bytes) {
            Some((TYPE_CHALLENGE, session)) if session == self.session => {
                self.receive_challenge(bytes, out)
            }
            Some((TYPE_QUERY, session)) if session == self.session => self.receive_part(bytes),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        match self.state {
            State::Handshake => 0,
            State::Query { .. } => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_after_the_last_one_belong_to_an_earlier_reply() {
        let mut exchange = GameSpy3Exchange::new(&Ask::default(), Cookie(4));
        let session = exchange.session.0;
        let mut receive = |kind: u8, rest: &[u8]| {
            let bytes = [&[kind], &session[..], rest].concat();
            exchange.handle(Input::Datagram(&bytes), &mut Vec::new())
        };
        let part = |number: u8, sections: &[u8]| [b"splitnum\0", &[number][..], sections].concat();
        assert_eq!(receive(TYPE_CHALLENGE, b"7\0"), Step::Send);
        let stale = part(2, b"\x01player_\0\x07Cy\0\0\0\x02\0");
        assert_eq!(receive(TYPE_QUERY, &stale), Step::Progress);
        let last = part(0x81, b"\x01player_\0\x01Bo\0\0\0\x02\0");
        assert_eq!(receive(TYPE_QUERY, &last), Step::Progress);
        let first = part(
            0,
            b"\0hostname\0Keep\0numplayers\x002\0\0\x01player_\0\0Al\0",
        );
        let Step::Done(status) = receive(TYPE_QUERY, &first) else {
            panic!("no status")
        };
        let names: Vec<_> = status
            .players
            .list
            .iter()
            .map(|player| player.name.plain())
            .collect();
        assert_eq!(names, ["Al", "Bo"]);
        assert!(status.deviations.is_empty(), "{:?}", status.deviations);
    }
}
