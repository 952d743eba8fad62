//! The responder: info and status, encoded once (spec/quake3.md#10).
//!
//! Limits: the variables have at most 900 bytes, names of players 32, and replies `max-reply` bytes
//! (default 1,400). Lines that do not fit are left out from the end; the variable `listed` has the
//! number of those that are sent.

use super::client::carets;
use super::message::{self, Kind, Request};
use crate::model::{Codes, Status, Value};
use crate::protocol::{Doc, OptionError, Options, Responder, Verdict};
use crate::protocols::quake::infostring::{InfostringWriter, wire_name};
use crate::protocols::quake::players::{Facts, MAX_COUNT, UNKNOWN_PING_MS, fitting};
use crate::token::Epoch;
use crate::wire::{Notes, cut};
use alloc::string::{String, ToString};
use alloc::{format, vec::Vec};
use core::net::SocketAddr;

/// Longest reply in bytes. The least is enough for all variables. By default: no IP fragments on
/// usual paths.
pub type MaxReply = crate::protocol::MaxReply<1_100, 1_400>;
/// Longest infostring in bytes. Games accept 1,024.
const MAX_INFO: usize = 900;
/// Longest infostring of an info reply in bytes, so that its factor is not above that of a status.
const MAX_SHORT_INFO: usize = 600;
/// Longest name of a player in bytes. Games accept 35.
const MAX_NAME: usize = 32;
/// Longest infostrings of short replies in bytes, without their challenges: with headers, a reply is
/// at most 3 times as long as the shortest request.
const MAX_TINY_INFO: usize = 66;
const MAX_TINY_STATUS: usize = 69;
/// Longest name in a short reply, in bytes.
const MAX_TINY_NAME: usize = 20;
/// Start of a status reply, longest counts and challenge with their keys, and a line feed.
const FRAME_BYTES: usize = 19 + 14 + 14 + 11 + message::MAX_CHALLENGE + 1;

pub(super) static OPTIONS: &[Doc] = &[
    Doc {
        key: "max-reply",
        help: "Longest reply in bytes, 1100 to 65507, default 1400; players that do not fit are left out; amplification \
               grows with it",
    },
    Doc {
        key: "protocol",
        help: "Number of the game's protocol, by default that of the status; master servers and games require it",
    },
];

/// Options of the responder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Quake3Config {
    /// Longest reply in bytes, 1,100 to 65,507.
    pub max_reply: MaxReply,
    /// Number of the game's protocol; `None` takes it from the status.
    pub protocol: Option<u32>,
}

impl Quake3Config {
    /// Reads the documented options.
    ///
    /// # Errors
    ///
    /// Names the first option that is unknown, of the wrong type or out of range.
    pub fn read(options: &Options) -> Result<Self, OptionError> {
        options.check(OPTIONS)?;
        let protocol = match options.value("protocol") {
            None => None,
            Some(_) => Some(options.int("protocol", 0, 0..=i64::from(u32::MAX))? as u32),
        };
        Ok(Self {
            max_reply: MaxReply::read(options)?,
            protocol,
        })
    }
}

/// Responder of one server.
#[derive(Debug)]
pub struct Quake3Responder {
    /// Infostring of an info reply, without challenge.
    info: Vec<u8>,
    /// Infostring of a short info reply.
    tiny_info: Vec<u8>,
    /// Infostring of a short status reply.
    tiny_status: Vec<u8>,
    /// Infostring of a status reply.
    status: Vec<u8>,
    /// Player lines.
    players: Vec<u8>,
}

impl Quake3Responder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, config: &Quake3Config) -> Self {
        let status = &*status.with_codes(codes(status));
        let max_reply = config.max_reply.bytes();
        let variables = Variables::new(status, config);
        let mut info = variables.status();
        let lines = lines(status, max_reply - FRAME_BYTES - info.len());
        let (counts, players) = variables.facts.list(lines, false);
        info.extend(counts.bytes());
        Self {
            info: variables.info(),
            tiny_info: variables.tiny_info(),
            tiny_status: variables.tiny_status(),
            status: info,
            players: players.into_bytes(),
        }
    }
}

impl Responder for Quake3Responder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if Request::kind_of(bytes).is_none() {
            return Verdict::Pass;
        }
        let Ok(request) = Request::read(bytes, &mut Notes::discarding()) else {
            return Verdict::Drop("malformed");
        };
        message::write_start(request.kind, out);
        match request.kind {
            Kind::Info => {
                out.extend_from_slice(&self.info);
                write_challenge(request.challenge, out);
            }
            Kind::Status => {
                out.extend_from_slice(&self.status);
                write_challenge(request.challenge, out);
                out.push(b'\n');
                out.extend_from_slice(&self.players);
            }
        }
        Verdict::Reply { is_verified: false }
    }

    /// Returns a reply of the requested kind with a short name and the counts, without players
    /// (spec/quake3.md#10).
    fn short_reply(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(request) = Request::read(request, &mut Notes::discarding()) else {
            return false;
        };
        message::write_start(request.kind, out);
        out.extend_from_slice(match request.kind {
            Kind::Info => &self.tiny_info,
            Kind::Status => &self.tiny_status,
        });
        write_challenge(request.challenge, out);
        if request.kind == Kind::Status {
            out.push(b'\n');
        }
        true
    }
}

/// Returns the color codes that clients take the game of the reply for.
pub(super) fn codes(status: &Status) -> Codes {
    let rule = |key: &str| status.rules.iter().find(|rule| rule.key == key);
    Codes::Carets(carets(|key| {
        let value = match key {
            "version" => status.version.as_deref(),
            "gamename" => status.game.as_deref(),
            key => rule(key).map(|rule| rule.value.as_str()),
        };
        value.map(str::as_bytes)
    }))
}

/// Appends the challenge as the last pair, so that a truncated reply lacks it.
fn write_challenge(challenge: &[u8], out: &mut Vec<u8>) {
    if !challenge.is_empty() {
        out.extend_from_slice(b"\\challenge\\");
        out.extend_from_slice(challenge);
    }
}

/// The variables that the protocol knows.
struct Variables<'a> {
    status: &'a Status,
    facts: Facts,
    clients: String,
    bots: Option<String>,
    protocol: Option<String>,
}

impl<'a> Variables<'a> {
    fn new(status: &'a Status, config: &Quake3Config) -> Self {
        let protocol = match status.extra("protocol") {
            Some(Value::Int(protocol)) => Some(*protocol),
            _ => None,
        };
        let protocol = config.protocol.map(i64::from).or(protocol);
        let facts = Facts::new(status, |text| text.into());
        let bots = status.players.bots;
        Self {
            clients: facts.clients.to_string(),
            bots: bots.map(|bots| bots.clamp(0, MAX_COUNT).to_string()),
            protocol: protocol.map(|protocol| protocol.to_string()),
            facts,
            status,
        }
    }

    /// Appends the variables that both replies have, the most important first. Only info replies have
    /// the number of clients.
    fn write(&self, name: &str, mode: &str, is_info: bool, out: &mut InfostringWriter) {
        let status = self.status;
        out.pair(name, &self.facts.name)
            .option("mapname", status.map.as_deref())
            .option("sv_maxclients", self.facts.max.as_deref())
            .option("clients", is_info.then_some(&self.clients))
            .option("bots", self.bots.as_deref())
            .option("g_needpass", self.facts.password)
            .option("protocol", self.protocol.as_deref())
            .option(mode, status.mode.as_deref())
            .option("gamename", status.game.as_deref())
            .option("version", status.version.as_deref());
    }

    fn info(&self) -> Vec<u8> {
        let mut out = InfostringWriter::new(MAX_SHORT_INFO);
        self.write("hostname", "gametype", true, &mut out);
        // With FiveM's HTTP, clients compare it with that of the variables.
        let iv = self.status.rules.iter().find(|rule| rule.key == "iv");
        out.option("iv", iv.map(|rule| rule.value.as_str()));
        out.finish()
    }

    fn tiny_info(&self) -> Vec<u8> {
        let mut out = InfostringWriter::new(MAX_TINY_INFO);
        out.option("sv_maxclients", self.facts.max.as_deref())
            .pair("clients", &self.clients)
            .pair("hostname", cut(&self.facts.name, MAX_TINY_NAME));
        out.finish()
    }

    fn tiny_status(&self) -> Vec<u8> {
        // At least 13 bytes are left for the name.
        const KEYS: usize = "\\sv_maxclients\\\\clients\\\\listed\\0\\sv_hostname\\".len();
        let counts = self.facts.max.as_ref().map_or(0, String::len) + self.clients.len();
        let room = MAX_TINY_STATUS - KEYS - counts;
        let mut out = InfostringWriter::new(MAX_TINY_STATUS);
        out.option("sv_maxclients", self.facts.max.as_deref())
            .pair("clients", &self.clients)
            .pair("listed", "0")
            .pair(
                "sv_hostname",
                cut(&self.facts.name, room.min(MAX_TINY_NAME)),
            )
            .option("mapname", self.status.map.as_deref());
        out.finish()
    }

    fn status(&self) -> Vec<u8> {
        let mut out = InfostringWriter::new(MAX_INFO);
        out.reserve("challenge");
        self.write("sv_hostname", "g_gametype", false, &mut out);
        // Clients read these as counts, not as rules.
        out.reserve("clients").reserve("listed").reserve("bots");
        out.rules(&self.status.rules);
        out.finish()
    }
}

/// Returns the player lines that fit.
fn lines(status: &Status, room: usize) -> Vec<String> {
    let list = &status.players.list;
    let team = |team: &str| team.parse::<u16>().ok();
    let teams: Option<Vec<u16>> = list
        .iter()
        .map(|player| team(player.team.as_deref()?))
        .collect();
    let lines = list.iter().enumerate().map(|(place, player)| {
        let score = player.score.unwrap_or(0);
        let ping = player.latency_ms.unwrap_or(UNKNOWN_PING_MS);
        let team = teams.as_ref().and_then(|teams| teams.get(place));
        let team = team.map(|team| format!(" {team}")).unwrap_or_default();
        let name = wire_name(player, MAX_NAME);
        format!("{score} {ping}{team} \"{name}\"\n")
    });
    fitting(lines, room)
}

#[cfg(test)]
mod tests {
    use super::super::message::Reply;
    use super::*;
    use crate::model::{Extra, Player, Rule, Text};
    use alloc::vec;

    const FROM: &str = "192.0.2.7:50000";

    fn answer(responder: &Quake3Responder, request: &[u8]) -> (Verdict, String) {
        let mut out = Vec::new();
        let verdict = responder.answer(FROM.parse().unwrap(), Epoch(1), request, &mut out);
        (verdict, String::from_utf8_lossy(&out).into_owned())
    }

    fn request(text: &str) -> Vec<u8> {
        [&message::OUT_OF_BAND, text.as_bytes()].concat()
    }

    fn status() -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("^1Te;st\n")),
            map: Some("q3dm17".into()),
            game: Some("baseq3".into()),
            mode: Some("0".into()),
            version: Some("ioq3 1.36".into()),
            has_password: Some(false),
            extra: vec![Extra::new("protocol", 71)],
            rules: vec![
                Rule {
                    key: "timelimit".into(),
                    value: "20".into(),
                },
                Rule {
                    key: "mapname".into(),
                    value: "other".into(),
                },
                Rule {
                    key: "challenge".into(),
                    value: "x".into(),
                },
            ],
            ..Status::default()
        };
        let player = |name: &str, score, team: &str| Player {
            score: Some(score),
            latency_ms: Some(48),
            team: Some(team.into()),
            ..Player::named(Text::unformatted(name))
        };
        status.players.max = Some(8);
        status.players.bots = Some(1);
        status
            .players
            .set_list(vec![player("^4A\"l", 3, "1"), player("Bo", -666, "0")]);
        status
    }

    #[test]
    fn both_requests_are_answered() {
        let responder = Quake3Responder::new(&status(), &Quake3Config::default());
        let (verdict, reply) = answer(&responder, &request("getinfo abc"));
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        assert_eq!(
            &reply.as_bytes()[12..],
            &request(
                "infoResponse\n\\hostname\\^1Test\\mapname\\q3dm17\\sv_maxclients\\8\\clients\\2\\bots\\1\
                 \\g_needpass\\0\\protocol\\71\\gametype\\0\\gamename\\baseq3\\version\\ioq3 1.36\\challenge\\abc"
            )[4..]
        );
        let (_, reply) = answer(&responder, &request("GetStatus"));
        assert_eq!(
            &reply.as_bytes()[12..],
            &request(
                "statusResponse\n\\sv_hostname\\^1Test\\mapname\\q3dm17\\sv_maxclients\\8\\bots\\1\
                 \\g_needpass\\0\\protocol\\71\\g_gametype\\0\\gamename\\baseq3\\version\\ioq3 1.36\\timelimit\\20\n\
                 3 48 1 \"^4Al\"\n-666 48 0 \"Bo\"\n"
            )[4..]
        );
    }

    #[test]
    fn info_replies_have_the_version_of_the_variables() {
        let mut status = status();
        status.rules.push(Rule {
            key: "iv".into(),
            value: "-17".into(),
        });
        let responder = Quake3Responder::new(&status, &Quake3Config::default());
        let (_, reply) = answer(&responder, &request("getinfo abc"));
        assert!(reply.contains("\\iv\\-17\\challenge\\abc"), "{reply}");
    }

    #[test]
    fn other_datagrams_are_passed_on_or_dropped() {
        let responder = Quake3Responder::new(&status(), &Quake3Config::default());
        for other in [
            "getchallenge",
            "statusResponse\n\\a\\b",
            "infoResponse\n",
            "print\n",
            "",
            "rcon x status",
        ] {
            assert_eq!(
                answer(&responder, &request(other)).0,
                Verdict::Pass,
                "{other}"
            );
        }
        for bad in [
            "getinfo a;b",
            "getstatus \u{E9}",
            &format!("getinfo {}", "x".repeat(129)),
        ] {
            assert_eq!(
                answer(&responder, &request(bad)).0,
                Verdict::Drop("malformed"),
                "{bad}"
            );
        }
    }

    #[test]
    fn lists_are_complete_or_counted() {
        let read = |status: &Status, config: &Quake3Config| {
            let responder = Quake3Responder::new(status, config);
            let mut out = Vec::new();
            let challenge = "x".repeat(message::MAX_CHALLENGE);
            let request = request(&format!("getstatus {challenge}"));
            responder.answer(FROM.parse().unwrap(), Epoch(1), &request, &mut out);
            assert!(out.len() <= config.max_reply.bytes(), "{}", out.len());
            let mut notes = Notes::default();
            let reply = Reply::read(&out, &mut notes).unwrap();
            assert_eq!(notes.met().next(), None);
            let number = |key| reply.info.number(key);
            (number("clients"), number("listed"), reply.players.len())
        };
        let default = Quake3Config::default();
        let mut status = status();
        assert_eq!(read(&status, &default), (None, None, 2));
        status.players.online = Some(50);
        assert_eq!(read(&status, &default), (Some(50), Some(2), 2));
        status.players.online = Some(1);
        assert_eq!(read(&status, &default), (Some(1), Some(0), 0));
        status.players.online = Some(-4);
        assert_eq!(read(&status, &default), (None, None, 0));
        let long = Player::named(Text::unformatted("\u{E9}".repeat(100)));
        status.players.online = None;
        status.players.set_list(vec![long; 2_000]);
        status.rules = (0..900)
            .map(|i| Rule {
                key: i.to_string().into(),
                value: "x".repeat(i).into(),
            })
            .collect();
        let (clients, listed, lines) = read(&status, &default);
        assert_eq!((clients, listed), (Some(2_000), Some(lines as i64)));
        assert!((7..=9).contains(&lines), "{lines}");
        let max_reply = MaxReply::new(MaxReply::LARGEST);
        let (_, listed, lines) = read(
            &status,
            &Quake3Config {
                max_reply,
                ..default
            },
        );
        assert_eq!((listed, lines), (Some(1_024), 1_024));
    }

    #[test]
    fn short_replies_are_at_most_three_times_the_request() {
        let mut status = status();
        status.name = Some(Text::unformatted("\u{4E2D}".repeat(100)));
        status.players.online = Some(i64::MAX);
        status.players.max = Some(i64::MAX);
        let responder = Quake3Responder::new(&status, &Quake3Config::default());
        let long = "x".repeat(message::MAX_CHALLENGE);
        for text in [
            "getinfo",
            "getstatus",
            "getinfo a",
            "getstatus abcdefgh",
            &format!("getinfo {long}"),
        ] {
            let request = request(text);
            let mut out = Vec::new();
            assert!(responder.short_reply(&request, &mut out));
            assert!(
                out.len() + 28 <= 3 * (request.len() + 28),
                "{} for {text}",
                out.len()
            );
            let reply = Reply::read(&out, &mut Notes::default()).unwrap();
            let is_status = text.to_lowercase().starts_with("getstatus");
            let kind = if is_status { Kind::Status } else { Kind::Info };
            assert_eq!(reply.kind, kind, "{text}");
            assert_eq!(reply.info.number("clients"), Some(MAX_COUNT));
            assert_eq!(reply.info.number("sv_maxclients"), Some(MAX_COUNT));
            let name = if is_status { "sv_hostname" } else { "hostname" };
            let name = reply.info.text(name);
            assert!(name.is_some_and(|name| !name.is_empty()), "{text}");
        }
        assert!(!responder.short_reply(&request("getchallenge"), &mut Vec::new()));
    }

    #[test]
    fn options_are_checked() {
        let read =
            |options: Options| Quake3Config::read(&options).map_err(|error| error.to_string());
        let none = Options::default;
        assert_eq!(read(none()), Ok(Quake3Config::default()));
        let config = read(none().with("protocol", 68)).unwrap();
        assert_eq!(config.protocol, Some(68));
        assert!(
            read(none().with("protocol", "x"))
                .unwrap_err()
                .contains("whole number")
        );
        let replies = Quake3Responder::new(&status(), &config);
        assert!(
            answer(&replies, &request("getinfo"))
                .1
                .contains("\\protocol\\68\\")
        );
    }
}
