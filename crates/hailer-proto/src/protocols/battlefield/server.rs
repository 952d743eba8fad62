//! The responder: the commands that need no login (spec/battlefield.md#8).
//!
//! Limits: 8 commands of a connection, texts of 200 bytes, 256 players that fit a packet.

use super::message::{self, FROM_SERVER, MAX_BYTES, Packet, REPLY};
use crate::model::{Codes, Player, Status, Text, Value, without_controls};
use crate::protocol::{Connection, ConnectionStep, Received, Responder, Verdict};
use crate::token::Epoch;
use crate::wire::{Error, Notes, Reader, cut};
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Largest number of commands of a connection.
const MAX_COMMANDS: u8 = 8;
/// Longest text in bytes.
const MAX_TEXT: usize = 200;
/// Bytes that a word adds to its text.
const WORD_BYTES: usize = 5;
/// Game and build of a status without them.
const GAME: &str = "BF3";
const BUILD: &str = "1149977";
/// Largest number of listed players, which clients accept.
const MAX_PLAYERS: usize = 256;
/// Largest number of scores.
const MAX_TEAMS: usize = 4;

/// Responder of one server.
#[derive(Debug)]
pub struct BattlefieldResponder(Arc<Replies>);

/// Words of the replies.
#[derive(Debug)]
struct Replies {
    info: Vec<String>,
    version: Vec<String>,
    players: Vec<String>,
}

impl BattlefieldResponder {
    /// Creates a responder for this status.
    pub fn new(status: &Status) -> Self {
        let status = &*status.with_codes(Codes::None);
        let version = [
            "OK".into(),
            line(status.game.as_deref().unwrap_or(GAME)),
            line(status.version.as_deref().unwrap_or(BUILD)),
        ];
        Self(Arc::new(Replies {
            info: info(status),
            version: version.into(),
            players: players(status),
        }))
    }
}

/// Returns the start of a text without control characters.
fn line(text: &str) -> String {
    cut(&without_controls(text), MAX_TEXT).into()
}

fn info(status: &Status) -> Vec<String> {
    let names = status.name.iter().chain(&status.motd);
    let mut names = names.map(|name| line(&name.plain()));
    let name = names.find(|name| !name.trim().is_empty());
    let boolean = |value: bool| String::from(if value { "true" } else { "false" });
    let extra = |key: &str| match status.extra(key) {
        Some(Value::Int(number)) => number.to_string(),
        Some(Value::Float(number)) => number.to_string(),
        Some(Value::Bool(value)) => boolean(*value),
        Some(Value::Str(text)) => line(text),
        _ => String::new(),
    };
    let or_zero = |text: String| if text.is_empty() { "0".into() } else { text };
    let or_false = |text: String| {
        if text.is_empty() {
            boolean(false)
        } else {
            text
        }
    };
    let count = |number: i64| number.to_string();
    let scores: Vec<String> = match status.extra("scores") {
        Some(Value::List(scores)) => {
            let scores = scores.iter().take(MAX_TEAMS);
            scores.map(ToString::to_string).collect()
        }
        _ => Vec::new(),
    };
    let mut words = Vec::from([
        String::from("OK"),
        name.unwrap_or_default(),
        count(status.players.count()),
        count(status.players.max.unwrap_or(0)),
        line(status.mode.as_deref().unwrap_or_default()),
        line(status.map.as_deref().unwrap_or_default()),
        or_zero(extra("rounds-played")),
        or_zero(extra("rounds")),
        scores.len().to_string(),
    ]);
    words.extend(scores);
    let address = status.address.as_ref();
    let host = address.and_then(|address| address.host.as_deref());
    let port = address.and_then(|address| address.port);
    let address = match port {
        Some(port) => alloc::format!("{}:{port}", line(host.unwrap_or_default())),
        None => String::new(),
    };
    words.extend([
        or_zero(extra("target-score")),
        extra("online-state"),
        or_false(extra("ranked")),
        boolean(status.has_anti_cheat.unwrap_or(false)),
        boolean(status.has_password.unwrap_or(false)),
        or_zero(extra("uptime")),
        or_zero(extra("round-time")),
    ]);
    if status.extra("mod").is_some() {
        words.extend([extra("mod"), extra("map-pack")]);
    }
    words.extend([
        address,
        extra("punkbuster-version"),
        or_false(extra("join-queue")),
        extra("region"),
        extra("ping-site"),
        extra("country"),
        or_false(extra("matchmaking")),
    ]);
    if status.extra("backend-players").is_some() {
        words.extend([extra("backend-players"), extra("backend-state")]);
    }
    words
}

fn players(status: &Status) -> Vec<String> {
    let list = &status.players.list;
    let mut columns = Vec::from([
        "name", "guid", "teamId", "squadId", "kills", "deaths", "score", "rank",
    ]);
    if list.iter().any(|player| player.latency_ms.is_some()) {
        columns.push("ping");
    }
    let mut bytes = message::HEADER_BYTES + 200;
    let mut rows: Vec<Vec<String>> = Vec::new();
    for player in list.iter().take(MAX_PLAYERS) {
        let row: Vec<String> = columns.iter().map(|column| cell(player, column)).collect();
        bytes += row
            .iter()
            .map(|cell| cell.len() + WORD_BYTES)
            .sum::<usize>();
        if bytes > MAX_BYTES {
            break;
        }
        rows.push(row);
    }
    let mut words = Vec::from(["OK".into(), columns.len().to_string()]);
    words.extend(columns.iter().map(ToString::to_string));
    words.push(rows.len().to_string());
    words.extend(rows.into_iter().flatten());
    words
}

fn cell(player: &Player, column: &str) -> String {
    let extra = |key: &str| {
        let extra = player.extra.iter().find(|extra| extra.key == key);
        match extra.map(|extra| &extra.value) {
            Some(Value::Int(number)) => number.to_string(),
            _ => "0".into(),
        }
    };
    match column {
        "name" => line(&Text::plain(&player.name)),
        "teamId" => line(player.team.as_deref().unwrap_or("0")),
        "squadId" => extra("squad"),
        "score" => player.score.unwrap_or(0).to_string(),
        "ping" => player.latency_ms.unwrap_or(0).to_string(),
        // A client without a login gets no ids.
        "guid" => String::new(),
        _ => extra(column),
    }
}

impl Responder for BattlefieldResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, _: &[u8], _: &mut Vec<u8>) -> Verdict {
        Verdict::Pass
    }

    fn connection(&self, _: SocketAddr) -> Option<Box<dyn Connection>> {
        Some(Box::new(BattlefieldConnection {
            replies: Arc::clone(&self.0),
            commands: 0,
        }))
    }
}

#[derive(Debug)]
struct BattlefieldConnection {
    replies: Arc<Replies>,
    /// Commands so far.
    commands: u8,
}

impl BattlefieldConnection {
    /// Handles one packet. Returns whether it ends the connection.
    fn handle(&mut self, packet: &Packet<'_>, out: &mut Vec<u8>) -> bool {
        if packet.header & (FROM_SERVER | REPLY) != 0 {
            return false;
        }
        self.commands += 1;
        let replies = &*self.replies;
        let header = packet.header | REPLY;
        let whole = |words: &[String], out: &mut Vec<u8>| {
            let words = words.iter().map(String::as_bytes);
            message::write_packet(header, words, out);
        };
        let word: &[u8] = match packet.words[..] {
            [b"serverInfo"] => {
                whole(&replies.info, out);
                return false;
            }
            [b"version"] => {
                whole(&replies.version, out);
                return false;
            }
            [b"listPlayers", b"all"] => {
                whole(&replies.players, out);
                return false;
            }
            [b"serverInfo" | b"version" | b"listPlayers", ..] => b"InvalidArguments",
            [b"login.plainText" | b"login.hashed", ..] => b"PasswordNotSet",
            [b"logout"] | [b"quit"] => b"OK",
            _ => b"UnknownCommand",
        };
        message::write_packet(header, [word], out);
        packet.words == [b"quit"]
    }
}

impl Connection for BattlefieldConnection {
    fn receive(&mut self, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Received {
        let mut consumed = 0;
        let step = loop {
            let rest = bytes.get(consumed..).unwrap_or_default();
            let packet = match message::packet_length(rest) {
                Ok(Some(size)) => rest.get(..size),
                Ok(None) => None,
                Err(_) if self.commands == 0 && consumed == 0 => break ConnectionStep::Pass,
                Err(error) => break ConnectionStep::Bad(error),
            };
            let Some(packet) = packet else {
                break ConnectionStep::Wait;
            };
            let mut notes = Notes::discarding();
            match Packet::read(&mut Reader::new(packet, &mut notes)) {
                Err(_) if self.commands == 0 && consumed == 0 => break ConnectionStep::Pass,
                Err(error) => break ConnectionStep::Bad(error),
                Ok(read) => {
                    consumed += packet.len();
                    if self.handle(&read, out) {
                        break ConnectionStep::Close;
                    }
                }
            }
            if self.commands >= MAX_COMMANDS {
                break ConnectionStep::Bad(Error::limit("commands", consumed, MAX_COMMANDS.into()));
            }
        };
        Received { consumed, step }
    }

    /// Passes an incomplete packet on: a shorter request of another protocol may start in the same
    /// way.
    fn pause(&mut self, _: &[u8], _: &mut Vec<u8>) -> Received {
        let step = if self.commands == 0 {
            ConnectionStep::Pass
        } else {
            ConnectionStep::Wait
        };
        Received { consumed: 0, step }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_at_most_256_players() {
        let mut status = Status::default();
        let player = Player::named(Text::unformatted("A"));
        status.players.set_list(alloc::vec![player; 300]);
        let words = players(&status);
        // The result, 8 columns with their number, the number of players, and 8 cells for each.
        assert_eq!(words[10], "256");
        assert_eq!(words.len(), 11 + 256 * 8);
    }
}
