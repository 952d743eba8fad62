//! The responder: status replies, encoded once (spec/quake1.md#9).
//!
//! Limits: the variables have at most 800 bytes, names of players 31, and replies `max-reply` bytes
//! (default 1,400). Lines that do not fit are left out from the end; the variable `listed` has the
//! number of those that are sent.

use super::message::{self, Game, Request, SPECTATOR_SCORE, bit};
use crate::model::{Codes, Player, Rule, Status, Value};
use crate::protocol::{Doc, OptionError, Options, Responder, Verdict};
use crate::protocols::quake::infostring::{InfostringWriter, wire_name};
use crate::protocols::quake::players::{Facts, UNKNOWN_PING_MS, extra, fitting, flag, number};
use crate::token::Epoch;
use crate::wire::Notes;
use crate::wire::charset;
use alloc::string::String;
use alloc::{format, vec::Vec};
use core::net::SocketAddr;

/// Longest reply in bytes. The least is enough for all variables. By default: no IP fragments on
/// usual paths.
pub type MaxReply = crate::protocol::MaxReply<1_000, 1_400>;
/// Longest infostring in bytes.
const MAX_INFO: usize = 800;
/// Longest name, skin and team of a player in bytes.
const MAX_NAME: usize = 31;
/// Header, command, the longest counts with their keys, line feed and NUL.
const FRAME_BYTES: usize = 5 + 1 + 14 + 13 + 1 + 1;

pub(super) static OPTIONS: &[Doc] = &[
    Doc::new(
        "max-reply",
        "Longest reply in bytes, 1000 to 65507, default 1400; players that do not fit are left out; amplification \
               grows with it",
    ),
    Doc::new(
        "game",
        "\"quakeworld\" or \"hexenworld\": the header of requests and replies; default \"quakeworld\"",
    ),
];

/// Options of the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quake1Config {
    /// Longest reply in bytes, 1,000 to 65,507.
    pub max_reply: MaxReply,
    /// The header of requests and replies.
    pub game: Game,
}

impl Quake1Config {
    /// Reads the documented options.
    ///
    /// # Errors
    ///
    /// Names the first option that is unknown, of the wrong type or out of range.
    pub fn read(options: &Options) -> Result<Self, OptionError> {
        options.check(OPTIONS)?;
        let game = options.word("game", &["quakeworld", "hexenworld"])?;
        Ok(Self {
            max_reply: MaxReply::read(options)?,
            game: match game {
                Some("hexenworld") => Game::HexenWorld,
                _ => Game::QuakeWorld,
            },
        })
    }
}

/// Responder of one server.
#[derive(Debug)]
pub struct Quake1Responder {
    game: Game,
    /// Variables and lines with teams and kinds.
    complete: Vec<u8>,
    /// Variables and lines as in old servers, without spectators.
    old: Vec<u8>,
    /// Variables of a short reply.
    tiny: Vec<u8>,
}

impl Quake1Responder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, config: &Quake1Config) -> Self {
        let status = &*status.with_codes(Codes::None);
        let max_reply = config.max_reply.bytes();
        let facts = Facts::new(status, charset::encode);
        let encode =
            |text: &Option<compact_str::CompactString>| text.as_deref().map(charset::encode);
        let rules = status.rules.iter().map(|rule| Rule {
            key: charset::encode(&rule.key).into(),
            value: charset::encode(&rule.value).into(),
        });
        let rules: Vec<Rule> = rules.collect();
        let reply = |is_complete: bool| {
            let mut out = InfostringWriter::new(MAX_INFO);
            out.pair("hostname", &facts.name)
                .option("map", encode(&status.map).as_deref())
                .option("maxclients", facts.max.as_deref())
                .option("needpass", facts.password)
                .option("*gamedir", encode(&status.game).as_deref())
                .option("mode", encode(&status.mode).as_deref())
                .option("*version", encode(&status.version).as_deref())
                .reserve("clients")
                .reserve("listed")
                .rules(&rules);
            let mut reply = guard(out.finish());
            let lines = lines(status, is_complete, max_reply - FRAME_BYTES - reply.len());
            let (counts, lines) = facts.list(lines, false);
            reply.extend([&counts, "\n", &lines].concat().bytes());
            reply.push(0);
            reply
        };
        let mut tiny = facts.tiny();
        tiny.extend(b"\n\0");
        Self {
            game: config.game,
            complete: reply(true),
            old: reply(false),
            tiny,
        }
    }
}

impl Quake1Responder {
    /// Returns a request of the own game.
    fn read(&self, bytes: &[u8]) -> Option<Request> {
        let request = Request::read(bytes, &mut Notes::discarding());
        request.filter(|request| request.game == self.game)
    }
}

/// Returns an infostring with at least one pair, because replies are recognized by its backslash.
fn guard(info: Vec<u8>) -> Vec<u8> {
    if info.is_empty() {
        b"\\hostname\\_".to_vec()
    } else {
        info
    }
}

impl Responder for Quake1Responder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        let Some(request) = self.read(bytes) else {
            return Verdict::Pass;
        };
        message::write_start(request.game, out);
        let is_complete = request.bits & (bit::TEAMS | bit::SPECTATORS | bit::BOTS) != 0;
        out.extend_from_slice(if is_complete {
            &self.complete
        } else {
            &self.old
        });
        Verdict::Reply { is_verified: false }
    }

    /// Returns name and counts (spec/quake1.md#9).
    fn short_reply(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(request) = self.read(request) else {
            return false;
        };
        message::write_start(request.game, out);
        out.extend_from_slice(&self.tiny);
        true
    }
}

/// Returns the player lines that fit.
fn lines(status: &Status, is_complete: bool, room: usize) -> Vec<String> {
    let list = &status.players.list;
    let has_kinds = list.iter().any(|player| flag(player, "bot").is_some());
    let shown = list.iter().enumerate();
    let shown = shown.filter(|(_, player)| is_complete || !is_spectator(player));
    let lines = shown.map(|(place, player)| line(place, player, is_complete, has_kinds));
    fitting(lines, room)
}

fn is_spectator(player: &Player) -> bool {
    flag(player, "spectator") == Some(true)
}

/// Encodes a text between quotes.
fn quoted(text: &str) -> String {
    let player = Player::named(crate::model::Text::unformatted(text));
    format!("\"{}\"", charset::encode(&wire_name(&player, MAX_NAME)))
}

/// Encodes a player line.
fn line(place: usize, player: &Player, is_complete: bool, has_kinds: bool) -> String {
    let id = number(player, "id").unwrap_or(place as i64 + 1);
    let minutes = player.time_s.map_or(0, |seconds| (seconds / 60.0) as i64);
    let ping = player.latency_ms.unwrap_or(UNKNOWN_PING_MS);
    let name = charset::encode(&wire_name(player, MAX_NAME));
    let (score, ping, prefix) = if is_spectator(player) {
        (
            SPECTATOR_SCORE,
            ping.saturating_abs().saturating_neg(),
            "\\s\\",
        )
    } else {
        (player.score.unwrap_or(0), ping, "")
    };
    // A score that marks spectators is not sent for players.
    let score = if is_spectator(player) {
        score
    } else {
        score.max(SPECTATOR_SCORE + 1)
    };
    let skin = match extra(player, "skin") {
        Some(Value::Str(skin)) => quoted(skin),
        _ => quoted(""),
    };
    let [top, bottom] = ["top-color", "bottom-color"].map(|key| number(player, key).unwrap_or(0));
    let mut line =
        format!("{id} {score} {minutes} {ping} \"{prefix}{name}\" {skin} {top} {bottom}");
    if is_complete {
        line.push(' ');
        line.push_str(&quoted(player.team.as_deref().unwrap_or_default()));
        match flag(player, "bot") {
            Some(true) => line.push_str(" \"b\""),
            _ if has_kinds => line.push_str(" \"h\""),
            _ => {}
        }
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::super::message::Reply;
    use super::*;
    use crate::model::{Extra, Text};
    use crate::protocols::quake::players::MAX_COUNT;
    use alloc::vec;

    fn answer(status: &Status, request: &[u8]) -> (Verdict, Vec<u8>) {
        answer_of("quakeworld", status, request)
    }

    fn answer_of(game: &str, status: &Status, request: &[u8]) -> (Verdict, Vec<u8>) {
        let config = Quake1Config::read(&Options::default().with("game", game)).unwrap();
        let responder = Quake1Responder::new(status, &config);
        let mut out = Vec::new();
        let from = "192.0.2.7:50000".parse().unwrap();
        (responder.answer(from, Epoch(1), request, &mut out), out)
    }

    fn status() -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("T\u{E9}st")),
            map: Some("dm3".into()),
            game: Some("qw".into()),
            mode: Some("ffa".into()),
            version: Some("MVDSV 1.0".into()),
            has_password: Some(false),
            rules: vec![Rule {
                key: "fraglimit".into(),
                value: "50".into(),
            }],
            ..Status::default()
        };
        let player = |name: &str, extra| Player {
            score: Some(5),
            time_s: Some(425.0),
            latency_ms: Some(38),
            team: Some("red".into()),
            extra,
            ..Player::named(Text::unformatted(name))
        };
        let skin = vec![
            Extra::new("id", 12),
            Extra::new("skin", "base"),
            Extra::new("top-color", 4),
        ];
        status.players.max = Some(8);
        status.players.set_list(vec![
            player("A\"l", skin),
            player(
                "Bo",
                vec![Extra::new("spectator", true), Extra::new("bot", true)],
            ),
        ]);
        status
    }

    #[test]
    fn requests_with_and_without_bits() {
        let info = "\\hostname\\T_st\\map\\dm3\\maxclients\\8";
        let rest = "\\needpass\\0\\*gamedir\\qw\\mode\\ffa\\*version\\MVDSV 1.0\\fraglimit\\50\n";
        let al = "12 5 7 38 \"Al\" \"base\" 4 0";
        let bo = "2 -9999 7 -38 \"\\s\\Bo\" \"\" 0 0";
        let complete = format!("n{info}{rest}{al} \"red\" \"h\"\n{bo} \"red\" \"b\"\n\0");
        let old = format!(
            "n{info}{}\\clients\\2\\listed\\1\n{al}\n\0",
            rest.trim_end()
        );
        let verdict = Verdict::Reply { is_verified: false };
        for (request, header, body) in [
            (
                &b"\xFF\xFF\xFF\xFFstatus 23\n"[..],
                Game::QuakeWorld,
                &complete,
            ),
            (b"\xFF\xFF\xFF\xFFstatus\n", Game::QuakeWorld, &old),
            (
                b"\xFF\xFF\xFF\xFF\xFFstatus 151\n",
                Game::HexenWorld,
                &complete,
            ),
            (b"\xFF\xFF\xFF\xFF\xFFstatus\0", Game::HexenWorld, &old),
        ] {
            let expected = [header.header(), body.as_bytes()].concat();
            let (own, other) = match header {
                Game::QuakeWorld => ("quakeworld", "hexenworld"),
                Game::HexenWorld => ("hexenworld", "quakeworld"),
            };
            assert_eq!(answer_of(own, &status(), request), (verdict, expected));
            assert_eq!(
                answer_of(other, &status(), request),
                (Verdict::Pass, vec![])
            );
        }
        for other in [
            complete.as_bytes(),
            b"\xFF\xFF\xFF\xFFn\\a\\b\n\0",
            b"status",
            b"\xFF\xFF\xFF\xFFping\n",
        ] {
            assert_eq!(answer(&status(), other), (Verdict::Pass, vec![]));
        }
        let (_, empty) = answer(&Status::default(), b"\xFF\xFF\xFF\xFFstatus 23\n");
        assert_eq!(
            Reply::read(&empty, &mut Notes::default())
                .unwrap()
                .players
                .len(),
            0
        );
    }

    #[test]
    fn lists_that_do_not_fit_are_counted() {
        let mut status = status();
        let long = Player::named(Text::unformatted("x".repeat(100)));
        status.players.set_list(vec![long; 100]);
        let (_, reply) = answer(&status, b"\xFF\xFF\xFF\xFFstatus 23\n");
        assert!(reply.len() <= MaxReply::DEFAULT);
        let mut notes = Notes::default();
        let reply = Reply::read(&reply, &mut notes).unwrap();
        assert_eq!(
            (notes.met().count(), reply.info.number("clients")),
            (0, Some(100))
        );
        assert_eq!(
            reply.info.number("listed"),
            Some(reply.players.len() as i64)
        );
        assert_eq!(reply.players.len(), 24);
        status.players.online = Some(1);
        let (_, reply) = answer(&status, b"\xFF\xFF\xFF\xFFstatus 23\n");
        let reply = Reply::read(&reply, &mut notes).unwrap();
        assert_eq!(
            (reply.info.number("listed"), reply.players.len()),
            (Some(0), 0)
        );
    }

    #[test]
    fn short_replies_are_at_most_three_times_the_request() {
        let mut status = status();
        status.name = Some(Text::unformatted("x".repeat(300)));
        status.players.online = Some(i64::MAX);
        status.players.max = Some(i64::MAX);
        for (game, request) in [
            ("quakeworld", &b"\xFF\xFF\xFF\xFFstatus"[..]),
            ("hexenworld", b"\xFF\xFF\xFF\xFF\xFFstatus 23\n"),
        ] {
            let options = Options::default().with("game", game);
            let config = Quake1Config::read(&options).unwrap();
            let responder = Quake1Responder::new(&status, &config);
            let mut out = Vec::new();
            assert!(responder.short_reply(request, &mut out));
            assert!(out.len() + 28 <= 3 * (request.len() + 28), "{}", out.len());
            let reply = Reply::read(&out, &mut Notes::default()).unwrap();
            assert_eq!(reply.info.number("clients"), Some(MAX_COUNT));
        }
        let config = Quake1Config::read(&Options::default()).unwrap();
        let responder = Quake1Responder::new(&status, &config);
        assert!(!responder.short_reply(b"\xFF\xFF\xFF\xFFn\\a\\b", &mut Vec::new()));
    }
}
