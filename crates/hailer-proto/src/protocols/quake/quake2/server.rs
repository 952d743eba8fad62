//! The responder: status and info, encoded once (spec/quake2.md#9).
//!
//! Limits: the variables have at most 900 bytes, names of players 32, and replies `max-reply` bytes
//! (default 1,400). Lines that do not fit are left out from the end; the variable `listed` has the
//! number of those that are sent.

use super::message::{OUT_OF_BAND, Request};
use crate::model::{Codes, Status, Value, is_control, without_controls};
use crate::protocol::{Responder, Verdict};
use crate::protocols::quake::infostring::{InfostringWriter, wire_name};
use crate::protocols::quake::players::{Facts, UNKNOWN_PING_MS, fitting};
use crate::token::Epoch;
use crate::wire::{Notes, cut};
use alloc::string::{String, ToString};
use alloc::{format, vec::Vec};
use core::net::SocketAddr;

/// Longest reply in bytes. The least is enough for all variables. By default: no IP fragments on
/// usual paths.
pub type MaxReply = crate::protocol::MaxReply<1_000, 1_400>;
/// Longest infostring in bytes.
const MAX_INFO: usize = 900;
/// Longest name of a player in bytes. The game accepts 15; its successors more.
const MAX_NAME: usize = 32;
/// Longest name and map in an info reply, in bytes.
const MAX_FIELD: usize = 32;
/// Longest counts with their keys, and a line feed.
const FRAME_BYTES: usize = 14 + 14 + 1;

/// Responder of one server: a reply to each request.
#[derive(Debug)]
pub struct Quake2Responder {
    info: Vec<u8>,
    status: Vec<u8>,
    tiny_status: Vec<u8>,
}

impl Quake2Responder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, max_reply: MaxReply) -> Self {
        let status = &*status.with_codes(Codes::None);
        let facts = Facts::new(status, |text| text.into());
        let protocol = match status.extra("protocol") {
            Some(Value::Int(protocol)) => Some(protocol.to_string()),
            _ => None,
        };

        let mut out = InfostringWriter::new(MAX_INFO);
        out.pair("hostname", &facts.name)
            .option("mapname", status.map.as_deref())
            .option("maxclients", facts.max.as_deref())
            .option("needpass", facts.password)
            .option("protocol", protocol.as_deref())
            .option("gamename", status.game.as_deref())
            .option("version", status.version.as_deref())
            .reserve("clients")
            .reserve("listed")
            .rules(&status.rules);
        let mut full = start("print\n");
        let variables = out.finish();
        // Without variables, clients would take the reply for a text.
        let has_counts = variables.is_empty();
        full.extend(variables);
        let lines = lines(status, max_reply.bytes() - FRAME_BYTES - full.len());
        let (counts, lines) = facts.list(lines, has_counts);
        full.extend([&counts, "\n", &lines].concat().bytes());
        let mut tiny = start("print\n");
        tiny.extend(facts.tiny());
        tiny.push(b'\n');

        let map = word(status.map.as_deref().unwrap_or_default());
        let line = format!(
            "{:>16} {:>8} {:>2}/{:>2}\n",
            cut(&without_controls(&facts.name), MAX_FIELD),
            if map.is_empty() {
                "?"
            } else {
                cut(&map, MAX_FIELD)
            },
            facts.clients,
            facts.max.as_deref().unwrap_or("0"),
        );
        let mut info = start("info\n");
        info.extend(line.bytes());
        Self {
            info,
            status: full,
            tiny_status: tiny,
        }
    }
}

impl Responder for Quake2Responder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        match Request::read(bytes, &mut Notes::discarding()) {
            None => return Verdict::Pass,
            Some(Request::Ping) => {
                out.extend_from_slice(&OUT_OF_BAND);
                out.extend_from_slice(b"ack");
            }
            Some(Request::Info(_)) => out.extend_from_slice(&self.info),
            Some(Request::Status) => out.extend_from_slice(&self.status),
        }
        Verdict::Reply { is_verified: false }
    }

    /// Returns a status without players and rules (spec/quake2.md#9).
    fn short_reply(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        let is_status = Request::read(request, &mut Notes::discarding()) == Some(Request::Status);
        if is_status {
            out.extend_from_slice(&self.tiny_status);
        }
        is_status
    }
}

fn start(command: &str) -> Vec<u8> {
    [&OUT_OF_BAND, command.as_bytes()].concat()
}

/// Returns a text without spaces and control characters.
fn word(text: &str) -> String {
    text.chars()
        .filter(|c| !is_control(*c) && *c != ' ')
        .collect()
}

/// Returns the player lines that fit.
fn lines(status: &Status, room: usize) -> Vec<String> {
    let lines = status.players.list.iter().map(|player| {
        let score = player.score.unwrap_or(0);
        let ping = player.latency_ms.unwrap_or(UNKNOWN_PING_MS);
        format!("{score} {ping} \"{}\"\n", wire_name(player, MAX_NAME))
    });
    fitting(lines, room)
}

#[cfg(test)]
mod tests {
    use super::super::message::Reply;
    use super::*;
    use crate::model::{Extra, Player, Rule, Text};
    use crate::protocols::quake::players::MAX_COUNT;
    use alloc::vec;

    const FROM: &str = "192.0.2.7:50000";

    fn answer(status: &Status, request: &str) -> (Verdict, Vec<u8>) {
        let responder = Quake2Responder::new(status, MaxReply::default());
        let mut out = Vec::new();
        let from = FROM.parse().unwrap();
        (
            responder.answer(from, Epoch(1), &start(request), &mut out),
            out,
        )
    }

    fn status() -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Te\"st")),
            map: Some("q2dm1".into()),
            game: Some("baseq2".into()),
            version: Some("3.20".into()),
            has_password: Some(true),
            extra: vec![Extra::new("protocol", 34)],
            rules: vec![Rule {
                key: "fraglimit".into(),
                value: "30".into(),
            }],
            ..Status::default()
        };
        status.players.max = Some(8);
        status.players.set_list(vec![Player {
            score: Some(-1),
            latency_ms: Some(40),
            ..Player::named(Text::unformatted("A\"l"))
        }]);
        status
    }

    #[test]
    fn each_request_has_its_reply() {
        let reply = |request: &str, body: &str| {
            let expected = (Verdict::Reply { is_verified: false }, start(body));
            assert_eq!(answer(&status(), request), expected, "{request}");
        };
        reply("ping\n", "ack");
        reply("info 34\n", "info\n           Te\"st    q2dm1  1/ 8\n");
        reply(
            "status\n",
            "print\n\\hostname\\Test\\mapname\\q2dm1\\maxclients\\8\\needpass\\1\\protocol\\34\
             \\gamename\\baseq2\\version\\3.20\\fraglimit\\30\n-1 40 \"Al\"\n",
        );
        for other in [
            "status x\n",
            "ack",
            "print\n",
            "info\n x 1/2",
            "getinfo",
            "",
            "rcon",
        ] {
            assert_eq!(answer(&status(), other), (Verdict::Pass, vec![]), "{other}");
        }
        let empty = answer(&Status::default(), "info 34").1;
        assert!(Reply::read(&empty, &mut Notes::default()).is_ok());
    }

    #[test]
    fn lists_that_do_not_fit_are_counted() {
        let mut status = status();
        let long = Player::named(Text::unformatted("\u{E9}".repeat(100)));
        status.players.set_list(vec![long; 100]);
        let (_, reply) = answer(&status, "status");
        assert!(reply.len() <= MaxReply::DEFAULT);
        let mut notes = Notes::default();
        let Ok(Reply::Status(info, players)) = Reply::read(&reply, &mut notes) else {
            panic!()
        };
        assert_eq!(
            (notes.met().count(), info.number("clients")),
            (0, Some(100))
        );
        assert_eq!(info.number("listed"), Some(players.len() as i64));
        assert_eq!(players.len(), 32);
        status.players.online = Some(1);
        let (_, reply) = answer(&status, "status");
        let Ok(Reply::Status(info, players)) = Reply::read(&reply, &mut notes) else {
            panic!()
        };
        assert_eq!((info.number("listed"), players.len()), (Some(0), 0));
    }

    #[test]
    fn short_replies_are_at_most_three_times_the_request() {
        let mut status = status();
        status.name = Some(Text::unformatted("\u{4E2D}".repeat(100)));
        status.players.online = Some(i64::MAX);
        status.players.max = Some(i64::MAX);
        let responder = Quake2Responder::new(&status, MaxReply::default());
        let mut out = Vec::new();
        assert!(responder.short_reply(&start("status"), &mut out));
        assert!(out.len() + 28 <= 3 * (10 + 28), "{}", out.len());
        let reply = Reply::read(&out, &mut Notes::default()).unwrap();
        assert!(
            matches!(reply, Reply::Status(info, _) if info.number("clients") == Some(MAX_COUNT))
        );
        for other in ["ping", "info 34", "status x", "x"] {
            assert!(!responder.short_reply(&start(other), &mut out), "{other}");
        }
    }
}
