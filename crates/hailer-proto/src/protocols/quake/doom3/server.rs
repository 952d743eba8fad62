//! The responder: one reply, encoded once (spec/doom3.md#9).
//!
//! Limits: the dictionary has at most 700 bytes, names of players 32, and replies `max-reply`
//! bytes (default 1,400) with at most 32 players. The variable `listed` has the number of those that are sent, if it is not that
//! of the players online.

use super::message::{self, END, Game, MAX_PLAYERS, Request};
use crate::model::{Carets, Codes, Player, Status, Value, without_controls};
use crate::protocol::{Doc, OptionError, Options, Responder, Verdict};
use crate::protocols::quake::infostring::{MAX_WRITTEN, wire_name};
use crate::protocols::quake::players::{MAX_COUNT, UNKNOWN_PING_MS, extra, fitting, flag, number};
use crate::token::Epoch;
use crate::wire::{Notes, cut};
use alloc::string::{String, ToString};
use alloc::{format, vec::Vec};
use core::net::SocketAddr;

/// Longest reply in bytes. The least is enough for the dictionary. By default: no IP fragments on
/// usual paths.
pub type MaxReply = crate::protocol::MaxReply<1_000, 1_400>;
/// Longest dictionary in bytes.
const MAX_DICTIONARY: usize = 700;
/// Longest dictionary of a short reply in bytes: with headers, the reply to the shortest request of
/// Quake Wars is at most 3 times as long.
const MAX_TINY_DICTIONARY: usize = 48;
/// Longest name in a short reply, in bytes.
const MAX_TINY_NAME: usize = 12;
/// Longest name of a player in bytes.
const MAX_NAME: usize = 32;
/// Longest start and tail of a reply with the counts, in bytes.
const FRAME_BYTES: usize = 100;
/// Game of Quake Wars without a mod.
const QUAKE_WARS_GAME: &str = "baseETQW-1";
/// Rate of players if the status has none, as the games have it by default.
const DEFAULT_RATE: u32 = 16_000;

pub(super) static OPTIONS: &[Doc] = &[
    Doc::new(
        "game",
        "\"doom3\" (default), \"quake4\" or \"quake-wars\": the form of the reply",
    ),
    Doc::new(
        "max-reply",
        "Longest reply in bytes, 1000 to 65507, default 1400; players that do not fit are left out; amplification grows with it",
    ),
];

/// Options of the responder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Doom3Config {
    /// The form of the reply.
    pub game: Game,
    /// Longest reply in bytes, 1,000 to 65,507.
    pub max_reply: MaxReply,
}

impl Doom3Config {
    /// Reads the documented options.
    ///
    /// # Errors
    ///
    /// Names the first option that is unknown, of the wrong type or out of range.
    pub fn read(options: &Options) -> Result<Self, OptionError> {
        options.check(OPTIONS)?;
        let game = match options.word("game", &["doom3", "quake4", "quake-wars"])? {
            Some("quake4") => Game::Quake4,
            Some("quake-wars") => Game::QuakeWars,
            _ => Game::Doom3,
        };
        Ok(Self {
            game,
            max_reply: MaxReply::read(options)?,
        })
    }
}

/// Responder of one server.
#[derive(Debug)]
pub struct Doom3Responder {
    game: Game,
    version: u32,
    /// Dictionary, players and tail.
    body: Vec<u8>,
    /// The same with a short name and without players.
    tiny_body: Vec<u8>,
    /// Statistics for extended requests of Quake Wars: an empty list.
    statistics: &'static [u8],
}

impl Doom3Responder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, config: &Doom3Config) -> Self {
        let status = &*status.with_codes(codes(config.game));
        let game = config.game;
        let version = match game {
            Game::Doom3 => 1 << 16 | 41,
            Game::Quake4 => 2 << 16 | 85,
            Game::QuakeWars => 10 << 16 | 21,
        };
        let clients = status.players.count().clamp(0, MAX_COUNT);
        let names = status.name.iter().chain(&status.motd);
        let mut names = names.map(|name| without_controls(name.raw()));
        let name = names
            .find(|name| !name.trim().is_empty())
            .unwrap_or_default();
        let max = status
            .players
            .max
            .map(|max| max.clamp(0, MAX_COUNT).to_string());

        let mut dictionary = Dictionary::new(MAX_DICTIONARY);
        dictionary.pair("si_name", &name);
        dictionary.option("si_map", map(status, game).as_deref());
        dictionary.option("si_maxPlayers", max.as_deref());
        dictionary.option("si_gameType", status.mode.as_deref());
        // Clients take the layout of Quake Wars from the name of the game.
        let default = (game == Game::QuakeWars).then_some(QUAKE_WARS_GAME);
        dictionary.option("gamename", status.game.as_deref().or(default));
        dictionary.option("si_version", status.version.as_deref());
        let password = status.has_password.map(|has| if has { "1" } else { "0" });
        let key = match game {
            Game::QuakeWars => "si_needPass",
            Game::Doom3 | Game::Quake4 => "si_usePass",
        };
        dictionary.option(key, password);
        for rule in &status.rules {
            dictionary.pair(&rule.key, &rule.value);
        }
        let mut body = dictionary.bytes;
        let max_reply = config.max_reply.bytes();
        let players = players(status, game, max_reply - FRAME_BYTES - body.len());
        // More players than counted would be a contradiction.
        let listed = Some(players.len() as i64).filter(|listed| *listed <= clients);
        let listed = listed.unwrap_or(0);
        if listed != clients {
            body.extend(format!("clients\0{clients}\0listed\0{listed}\0").bytes());
        }
        body.extend(b"\0\0");
        body.extend(players.into_iter().take(listed as usize).flatten());
        write_tail(game, &mut body);

        let mut tiny = Dictionary::new(MAX_TINY_DICTIONARY);
        tiny.pair("clients", &clients.to_string());
        tiny.pair("listed", "0");
        tiny.pair("si_name", cut(&name, MAX_TINY_NAME));
        let mut tiny_body = tiny.bytes;
        tiny_body.extend(b"\0\0");
        write_tail(game, &mut tiny_body);
        Self {
            game,
            version,
            body,
            tiny_body,
            statistics: match game {
                Game::QuakeWars => &[END],
                Game::Doom3 | Game::Quake4 => &[],
            },
        }
    }

    fn write(&self, request: Request<'_>, body: &[u8], out: &mut Vec<u8>) {
        let statistics = if request.is_extended {
            self.statistics
        } else {
            &[]
        };
        let size = body.len() + statistics.len();
        message::write_start(request, self.game, self.version, size, out);
        out.extend_from_slice(body);
        out.extend_from_slice(statistics);
    }
}

impl Responder for Doom3Responder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if !Request::is_request(bytes) {
            return Verdict::Pass;
        }
        match Request::read(bytes, &mut Notes::discarding()) {
            Err(_) => Verdict::Drop("malformed"),
            Ok(request) => {
                self.write(request, &self.body, out);
                Verdict::Reply { is_verified: false }
            }
        }
    }

    /// Returns name and counts without players (spec/doom3.md#9).
    fn short_reply(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(request) = Request::read(request, &mut Notes::discarding()) else {
            return false;
        };
        self.write(request, &self.tiny_body, out);
        true
    }
}

/// Returns the color codes of a game (spec/doom3.md#5).
pub(super) fn codes(game: Game) -> Codes {
    Codes::Carets(match game {
        Game::Quake4 => Carets::Quake4,
        Game::Doom3 | Game::QuakeWars => Carets::Visible,
    })
}

/// Writes a dictionary of limited length, without its end.
struct Dictionary {
    bytes: Vec<u8>,
    keys: Vec<String>,
    limit: usize,
}

impl Dictionary {
    fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            // Clients read these as counts, not as rules.
            keys: ["clients", "listed"].map(String::from).to_vec(),
            limit,
        }
    }

    /// Appends a pair, unless the key is there already, one of both is empty, or the limit would be
    /// exceeded.
    fn pair(&mut self, key: &str, value: &str) {
        let key = without_controls(key);
        let value = without_controls(value);
        let key = cut(&key, MAX_WRITTEN);
        let value = cut(&value, MAX_WRITTEN);
        let is_count = self.limit == MAX_TINY_DICTIONARY;
        let is_known = !is_count && self.keys.iter().any(|known| known == key);
        let length = key.len() + value.len() + 2;
        // Clients take a server without a name for a silent one.
        let is_absent = key.is_empty() || value.is_empty() && key != "si_name";
        if is_absent || is_known || self.bytes.len() + length > self.limit {
            return;
        }
        self.bytes.extend(format!("{key}\0{value}\0").bytes());
        self.keys.push(key.into());
    }

    fn option(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.pair(key, value);
        }
    }
}

/// Returns the map in the form of the game.
fn map(status: &Status, game: Game) -> Option<String> {
    let map = without_controls(status.map.as_deref()?);
    Some(match game {
        Game::QuakeWars => format!("maps/{map}.entities"),
        Game::Doom3 | Game::Quake4 => map,
    })
}

/// Returns the players that fit, each with the number of its place.
fn players(status: &Status, game: Game, room: usize) -> Vec<Vec<u8>> {
    let list = status.players.list.iter().take(MAX_PLAYERS).enumerate();
    fitting(
        list.map(|(place, player)| encode(place as u8, player, game)),
        room,
    )
}

fn encode(id: u8, player: &Player, game: Game) -> Vec<u8> {
    let text = |text: &str| {
        let text = without_controls(text);
        [cut(&text, MAX_NAME).as_bytes(), b"\0"].concat()
    };
    let clan = match extra(player, "clan") {
        Some(Value::Str(clan)) => text(clan),
        _ => text(""),
    };
    let rate = number(player, "rate").and_then(|rate| u32::try_from(rate).ok());
    let rate = rate.unwrap_or(DEFAULT_RATE);
    let is_bot = flag(player, "bot");
    let latency = player.latency_ms.unwrap_or(UNKNOWN_PING_MS);
    // Doom 3 and Quake 4 have no flag: clients take a ping of 0 for a bot.
    let ping = match is_bot {
        Some(true) if game != Game::QuakeWars => 0,
        Some(false) => latency.max(UNKNOWN_PING_MS),
        _ => latency,
    };
    let ping = ping.clamp(0, i32::from(u16::MAX)) as u16;
    let mut out = Vec::from([id]);
    out.extend(ping.to_le_bytes());
    if game != Game::QuakeWars {
        out.extend(rate.to_le_bytes());
    }
    out.extend(text(&wire_name(player, MAX_NAME)));
    match game {
        Game::Doom3 => {}
        Game::Quake4 => out.extend(clan),
        Game::QuakeWars => {
            out.push(0);
            out.extend(clan);
            out.push(u8::from(is_bot == Some(true)));
        }
    }
    out
}

/// Appends the fields after the players. A status has no counterpart for some of them: all bits of
/// the operating systems are set, and the match has no time limit.
fn write_tail(game: Game, out: &mut Vec<u8>) {
    out.push(END);
    out.extend([0xFF; 4]);
    match game {
        Game::Doom3 => {}
        Game::Quake4 => out.extend([0, 0, 0, 0, 1]),
        Game::QuakeWars => out.extend([0, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Reply;
    use super::*;
    use crate::model::{Extra, Rule, Text};
    use alloc::vec;

    const PLAIN: &[u8] = b"\xFF\xFFgetInfo\0HAILxyzw";
    const EXTENDED: &[u8] = b"\xFF\xFFgetInfoEx\0TASKHAIL";

    fn responder(status: &Status, game: &str) -> Doom3Responder {
        let config = Doom3Config::read(&Options::default().with("game", game)).unwrap();
        Doom3Responder::new(status, &config)
    }

    fn answer(responder: &Doom3Responder, request: &[u8]) -> (Verdict, Vec<u8>) {
        let mut out = Vec::new();
        let from = "192.0.2.7:50000".parse().unwrap();
        (responder.answer(from, Epoch(1), request, &mut out), out)
    }

    fn status() -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("^1Test\n")),
            map: Some("game/mp/d3dm1".into()),
            rules: vec![Rule {
                key: "net_serverDedicated".into(),
                value: "1".into(),
            }],
            ..Status::default()
        };
        let player = Player {
            latency_ms: Some(50),
            extra: vec![Extra::new("rate", 25_000), Extra::new("clan", "cl")],
            ..Player::named(Text::unformatted("Al"))
        };
        status.players.max = Some(4);
        status.players.set_list(vec![player]);
        status
    }

    /// qstat waits for it.
    #[test]
    fn a_server_without_a_name_has_an_empty_one() {
        let status = Status {
            name: Some(Text::unformatted("")),
            ..status()
        };
        let (_, reply) = answer(&responder(&status, "doom3"), PLAIN);
        let pairs = b"\0si_name\0\0si_map\0game/mp/d3dm1\0";
        assert!(
            reply.windows(pairs.len()).any(|part| part == pairs),
            "{reply:?}"
        );
        let mut notes = Notes::default();
        let read = Reply::read(&reply, &mut notes).unwrap();
        assert_eq!(read.players.map(|list| list.len()), Some(1));
        assert_eq!(notes.met().count(), 0);
    }

    #[test]
    fn replies_have_the_form_of_the_game() {
        let dictionary = b"si_name\0^1Test\0si_map\0game/mp/d3dm1\0si_maxPlayers\x004\0net_serverDedicated\x001\0\0\0";
        let verdict = Verdict::Reply { is_verified: false };
        let reply = |start: &[u8], rest: &[u8]| (verdict, [start, dictionary, rest].concat());
        assert_eq!(
            answer(&responder(&status(), "doom3"), PLAIN),
            reply(
                b"\xFF\xFFinfoResponse\0HAIL\x29\0\x01\0",
                b"\0\x32\0\xA8\x61\0\0Al\0\x20\xFF\xFF\xFF\xFF"
            )
        );
        assert_eq!(
            answer(&responder(&status(), "quake4"), EXTENDED),
            reply(
                b"\xFF\xFFinfoResponse\0TASK\x55\0\x02\0",
                b"\0\x32\0\xA8\x61\0\0Al\0cl\0\x20\xFF\xFF\xFF\xFF\0\0\0\0\x01"
            )
        );
        let (_, wars) = answer(&responder(&status(), "quake-wars"), EXTENDED);
        let mut notes = Notes::default();
        let read = Reply::read(&wars, &mut notes).unwrap();
        assert_eq!(
            (read.challenge, read.value("si_map")),
            (&b"TASKHAIL"[..], Some(&b"maps/game/mp/d3dm1.entities"[..]))
        );
        assert_eq!(
            (read.players.map(|list| list.len()), notes.met().count()),
            (Some(1), 0)
        );
        let (_, short) = answer(&responder(&status(), "quake-wars"), &PLAIN[..14]);
        let read = Reply::read(&short, &mut notes).unwrap();
        assert_eq!(
            (read.challenge, notes.met().count()),
            (&b"HAIL\xFF\xFF\xFF\xFF"[..], 0)
        );
        let (_, short) = answer(&responder(&status(), "quake-wars"), &EXTENDED[..15]);
        let read = Reply::read(&short, &mut notes).unwrap();
        assert_eq!(
            (read.challenge, notes.met().count()),
            (&b"TAS\xFF\xFF\xFF\xFF\xFF"[..], 0)
        );
    }

    #[test]
    fn only_requests_are_answered() {
        let responder = responder(&status(), "doom3");
        let (_, reply) = answer(&responder, PLAIN);
        for other in [
            &reply[..],
            b"",
            b"\xFF\xFF",
            b"\xFF\xFFUGP\0\x01\0",
            b"\xFF\xFFgetServers\0",
        ] {
            assert_eq!(answer(&responder, other), (Verdict::Pass, vec![]));
        }
        for short in [&PLAIN[..10], &PLAIN[..13], &EXTENDED[..14]] {
            assert_eq!(
                answer(&responder, short),
                (Verdict::Drop("malformed"), vec![])
            );
        }
    }

    #[test]
    fn long_lists_are_counted() {
        let mut status = status();
        let long = Player::named(Text::unformatted("\u{E9}".repeat(100)));
        status.players.set_list(vec![long; 100]);
        status.rules = (0..400)
            .map(|i| Rule {
                key: i.to_string().into(),
                value: "x".repeat(i).into(),
            })
            .collect();
        for game in ["doom3", "quake4", "quake-wars"] {
            let (_, reply) = answer(&responder(&status, game), PLAIN);
            assert!(reply.len() <= MaxReply::DEFAULT, "{}", reply.len());
            let mut notes = Notes::default();
            let reply = Reply::read(&reply, &mut notes).unwrap();
            let listed = reply.players.as_ref().unwrap().len();
            assert!((12..=MAX_PLAYERS).contains(&listed), "{listed}");
            assert_eq!(reply.value("clients"), Some(&b"100"[..]));
            assert_eq!(reply.value("listed"), Some(listed.to_string().as_bytes()));
            assert_eq!(notes.met().count(), 0);
        }
        for (max_reply, least, most) in [(1_000, 2, 12), (65_507, MAX_PLAYERS, MAX_PLAYERS)] {
            let config = Doom3Config {
                game: Game::Doom3,
                max_reply: MaxReply::new(max_reply),
            };
            let (_, reply) = answer(&Doom3Responder::new(&status, &config), PLAIN);
            assert!(reply.len() <= max_reply, "{}", reply.len());
            let reply = Reply::read(&reply, &mut Notes::default()).unwrap();
            let listed = reply.players.unwrap().len();
            assert!((least..=most).contains(&listed), "{listed}");
        }
        status.players.online = Some(2);
        let (_, reply) = answer(&responder(&status, "doom3"), PLAIN);
        let reply = Reply::read(&reply, &mut Notes::default()).unwrap();
        assert_eq!(
            (reply.value("listed"), reply.players.unwrap().len()),
            (Some(&b"0"[..]), 0)
        );
    }

    #[test]
    fn short_replies_are_at_most_three_times_the_request() {
        let mut status = status();
        status.name = Some(Text::unformatted("\u{4E2D}".repeat(100)));
        status.players.online = Some(i64::MAX);
        for game in ["doom3", "quake4", "quake-wars"] {
            for request in [PLAIN, &PLAIN[..14], EXTENDED, &EXTENDED[..15]] {
                let mut out = Vec::new();
                assert!(responder(&status, game).short_reply(request, &mut out));
                assert!(
                    out.len() + 28 <= 3 * (request.len() + 28),
                    "{} {game}",
                    out.len()
                );
                let mut notes = Notes::default();
                let reply = Reply::read(&out, &mut notes).unwrap();
                assert_eq!(
                    (reply.value("clients"), notes.met().count()),
                    (Some(&b"99999"[..]), 0)
                );
            }
        }
        assert!(!responder(&status, "doom3").short_reply(b"\xFF\xFFgetInfo\0", &mut Vec::new()));
    }

    #[test]
    fn options_are_checked() {
        let read =
            |options: Options| Doom3Config::read(&options).map_err(|error| error.to_string());
        let none = Options::default;
        assert_eq!(read(none()), Ok(Doom3Config::default()));
        assert!(
            read(none().with("game", "prey"))
                .unwrap_err()
                .contains("\"quake-wars\"")
        );
    }
}
