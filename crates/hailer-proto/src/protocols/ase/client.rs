//! The client: one letter, one reply (spec/ase.md#5).

use super::deviation::{MISSING_PLAYERS, ODD_NUMBER};
use super::message::{self, Kind, LISTED, Reply};
use crate::model::{Address, Extra, Player, Rule, Status, Text};
use crate::protocol::{Ask, Depth, Exchange, Input, Step};
use crate::wire::{Notes, by_content, filled, whole_number};
use alloc::boxed::Box;
use alloc::vec::Vec;
use compact_str::CompactString;

/// Queries one All-Seeing Eye server.
#[derive(Debug)]
pub struct AseExchange {
    depth: Depth,
    has_players: bool,
    /// Requests sent, without a reply, after the first.
    retries: usize,
}

impl AseExchange {
    /// Creates an exchange that has not sent anything yet. Requests have no id.
    pub fn new(ask: &Ask) -> Self {
        Self {
            depth: ask.depth,
            has_players: ask.has_players && ask.depth == Depth::Full,
            retries: 0,
        }
    }

    /// Returns the kind to request. Full replies of crowded servers are fragmented, and many
    /// networks drop fragments, so every second request is a short one.
    fn kind(&self) -> Kind {
        if self.retries.is_multiple_of(2) {
            Kind::Full
        } else {
            Kind::Short
        }
    }

    fn send(&self, out: &mut Vec<u8>) -> Step {
        out.push(self.kind().request());
        Step::Send
    }

    fn receive(&self, bytes: &[u8]) -> Step {
        let Some(kind) = Kind::of_reply(bytes) else {
            return Step::Wait;
        };
        // A late reply to the earlier kind is as good.
        if kind == Kind::Counts || kind == Kind::Short && self.retries == 0 {
            return Step::Bad(message::wrong_kind().into());
        }
        let mut notes = Notes::default();
        let reply = match message::parse(bytes, &mut notes) {
            Ok(reply) => reply,
            Err(error) => return Step::Bad(error.into()),
        };
        let mut status = match self.depth {
            Depth::Ping => Box::<Status>::default(),
            _ => status(&reply, kind, self.has_players, &mut notes),
        };
        if kind == Kind::Short {
            status.add_unanswered("full");
        }
        status.deviations = notes.met().collect();
        Step::Done(status)
    }
}

impl Exchange for AseExchange {
    fn handle(&mut self, input: Input<'_>, out: &mut Vec<u8>) -> Step {
        match input {
            Input::Start => self.send(out),
            Input::Timeout => {
                self.retries += 1;
                self.send(out)
            }
            Input::Datagram(bytes) => self.receive(bytes),
            _ => Step::Wait,
        }
    }

    fn stage(&self) -> usize {
        self.retries.min(1)
    }
}

fn string(bytes: &[u8]) -> CompactString {
    by_content(bytes).0.into()
}

fn integer<T: TryFrom<i64>>(text: &[u8]) -> Option<T> {
    whole_number(text)?.try_into().ok()
}

/// Converts a reply to a status (spec/ase.md#5).
fn status(reply: &Reply<'_>, kind: Kind, has_players: bool, notes: &mut Notes) -> Box<Status> {
    let (map, counts) = message::map_parts(reply.map);
    let mut status = Box::new(Status {
        name: (!reply.name.is_empty()).then(|| Text::by_content(reply.name)),
        game: filled(reply.game),
        mode: filled(reply.mode),
        map: filled(map),
        version: filled(reply.version),
        has_password: match reply.password.trim_ascii() {
            b"0" => Some(false),
            b"1" => Some(true),
            _ => None,
        },
        ..Status::default()
    });
    status.players.online = reply.online;
    status.players.max = reply.max;
    if let (Some((online, max)), true) = (counts, kind != Kind::Full) {
        status.players.online = Some(online);
        status.players.max = Some(max);
    }
    if let Some(port) = reply.port {
        let number = integer(port);
        if number.is_none() {
            notes.deviation(&ODD_NUMBER, 0);
        }
        // Servers that do not know their port send 0.
        status.address = number.filter(|port| *port != 0).map(|port| Address {
            host: None,
            port: Some(port),
        });
    }
    let rule = |&(key, value): &(&[u8], &[u8])| Rule {
        key: string(key),
        value: string(value),
    };
    let is_listed = |(key, _): &&(&[u8], &[u8])| *key == LISTED.as_bytes();
    let own = reply.rules.iter().filter(|pair| !is_listed(pair));
    status.rules = own.map(rule).collect();
    if !has_players {
        return status;
    }
    let listed = reply.rules.iter().find(is_listed);
    let listed = listed.and_then(|(_, value)| integer(value));
    let count = reply.players.len() as i64;
    let expected: Option<i64> = listed.or(status.players.online);
    if expected.is_some_and(|expected| count < expected) {
        notes.deviation(&MISSING_PLAYERS, 0);
    }
    // Short replies leave names empty that do not fit. In full replies, a player may have no name
    // yet.
    let named = reply.players.iter().filter(|player| {
        let is_known = kind == Kind::Full && !(player.score.is_empty() && player.ping.is_empty());
        is_known || !player.name.is_empty()
    });
    let is_withheld = count == 0 && status.players.online != Some(0);
    if !is_withheld {
        status.players.set_list(named.map(player).collect());
    }
    status
}

fn player(sent: &message::Player<'_>) -> Player {
    let mut player = Player::named(Text::by_content(sent.name));
    player.score = integer(sent.score);
    player.latency_ms = integer(sent.ping);
    player.team = filled(sent.team);
    let is_text = |text: &[u8]| !text.is_empty();
    let odd_score = player.score.is_none() && is_text(sent.score);
    for (key, text, is_kept) in [
        ("score-text", sent.score, odd_score),
        ("skin", sent.skin, is_text(sent.skin)),
        ("time", sent.time, is_text(sent.time)),
    ] {
        if is_kept {
            player.extra.push(Extra::new(key, string(text)));
        }
    }
    player
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Roster;

    #[test]
    fn a_port_of_zero_is_none() {
        let address = |port| {
            let reply = Reply {
                port: Some(port),
                ..Reply::default()
            };
            let mut notes = Notes::default();
            let status = status(&reply, Kind::Full, true, &mut notes);
            (
                status.address.and_then(|address| address.port),
                notes.met().count(),
            )
        };
        assert_eq!(address(b"0"), (None, 0));
        assert_eq!(address(b"22003"), (Some(22_003), 0));
        assert_eq!(address(b""), (None, 1));
    }

    #[test]
    fn a_list_without_players_is_absent_unless_the_server_is_empty() {
        for (online, names, roster) in [
            (0, 0, Roster::Whole),
            (2, 0, Roster::Absent),
            (2, 1, Roster::Partial),
            (1, 1, Roster::Whole),
        ] {
            let reply = Reply {
                online: Some(online),
                players: alloc::vec![
                    message::Player {
                        name: b"Al",
                        ..message::Player::default()
                    };
                    names
                ],
                ..Reply::default()
            };
            let status = status(&reply, Kind::Full, true, &mut Notes::default());
            assert_eq!(status.players.roster, roster, "{online} {names}");
        }
    }
}
