//! The responder: one reply for each letter, encoded once (spec/samp.md#9).
//!
//! Limits: replies have `max-reply` bytes (default 1,400), lists 100 players, names of players 24
//! bytes, the name of the server 63, and other texts of the information 39.

use super::message::{Game, HEADER, Kind, Request, VERSION};
use crate::model::{Codes, Player, Status, Value, without_controls};
use crate::protocol::{Doc, OptionError, Options, Responder, Verdict};
use crate::token::Epoch;
use crate::wire::Notes;
use crate::wire::codepage::encode;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::{SocketAddr, SocketAddrV4};

/// Longest reply in bytes. By default: no IP fragments on usual paths.
pub type MaxReply = crate::protocol::MaxReply<576, 1_400>;
/// Longest name of the server in bytes.
const MAX_NAME: usize = 63;
/// Longest game mode and language in bytes.
const MAX_TEXT: usize = 39;
/// Longest texts of a short reply in bytes: with headers, it is at most 3 times as long as the
/// request. The texts are name, game mode and language.
const TINY_TEXTS: [usize; 3] = [20, 8, 8];
/// Longest name of a player in bytes.
const MAX_PLAYER_NAME: usize = 24;
/// Longest key or value of a rule in bytes.
const MAX_RULE: usize = 255;
/// Most rules.
const MAX_RULES: usize = 512;
/// Largest number of players in a list.
const MAX_LISTED: usize = 100;
/// Longest link to Discord, and other links, in bytes.
const MAX_LINKS: [(&str, usize); 4] = [
    ("discord", 50),
    ("light-banner", 160),
    ("dark-banner", 160),
    ("logo", 160),
];

pub(super) static OPTIONS: &[Doc] = &[
    Doc::new(
        "game",
        "\"samp\" (default, also for open.mp) or \"vcmp\": the start of requests and replies",
    ),
    Doc::new(
        "max-reply",
        "Longest reply in bytes, 576 to 65507, default 1400; longer player lists are not sent; amplification grows \
               with it",
    ),
    Doc::new(
        "address",
        "IPv4 address and port of the server, as clients know them; without it, pings get no reply",
    ),
];

/// Options of the responder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampConfig {
    /// Game that defines the layout.
    pub game: Game,
    /// Longest reply in bytes, 576 to 65,507.
    pub max_reply: MaxReply,
    /// Address that a ping must have.
    pub address: Option<SocketAddrV4>,
}

impl SampConfig {
    /// Reads the documented options.
    ///
    /// # Errors
    ///
    /// Names the first option that is unknown, of the wrong type or out of range.
    pub fn read(options: &Options) -> Result<Self, OptionError> {
        options.check(OPTIONS)?;
        let invalid = || {
            let problem = "must be an IPv4 address with a port, such as 192.0.2.7:7777";
            OptionError::new("address", problem)
        };
        let address = match options.value("address") {
            None => None,
            Some(Value::Str(text)) => Some(text.parse().map_err(|_| invalid())?),
            Some(_) => return Err(invalid()),
        };
        Ok(Self {
            game: match options.word("game", &["samp", "vcmp"])? {
                Some("vcmp") => Game::ViceCity,
                _ => Game::SanAndreas,
            },
            max_reply: MaxReply::read(options)?,
            address,
        })
    }
}

/// Responder of one server. Bodies are stored without the 11 bytes before them.
#[derive(Debug)]
pub struct SampResponder {
    game: Game,
    /// Address that a ping must have.
    address: Option<[u8; 6]>,
    info: Vec<u8>,
    tiny_info: Vec<u8>,
    rules: Vec<u8>,
    /// `None` if the list is too long, or not known.
    players: Option<Vec<u8>>,
    details: Option<Vec<u8>>,
    /// Why there is no list.
    no_list: &'static str,
    links: Vec<u8>,
}

impl SampResponder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, config: &SampConfig) -> Self {
        let status = &*status.with_codes(Codes::None);
        let room = config.max_reply.bytes() - HEADER;
        let game = config.game;
        let list = |has_details| list(status, game, has_details, room);
        let links = MAX_LINKS.iter().flat_map(|(key, limit)| {
            let link = match status.extra(key) {
                Some(Value::Str(link)) => encode(&without_controls(link), usize::MAX),
                _ => Vec::new(),
            };
            // A shortened link leads nowhere.
            long(if link.len() <= *limit { &link } else { &[] })
        });
        Self {
            game,
            address: config.address.map(|address| {
                let ([a, b, c, d], [low, high]) =
                    (address.ip().octets(), address.port().to_le_bytes());
                [a, b, c, d, low, high]
            }),
            info: info(status, game, [MAX_NAME, MAX_TEXT, MAX_TEXT]),
            tiny_info: info(status, game, TINY_TEXTS),
            rules: rules(status, room),
            players: list(false),
            details: list(true),
            no_list: if status.players.has_list() {
                "too many players"
            } else {
                "no list"
            },
            links: links.collect(),
        }
    }

    fn write(&self, request: &Request<'_>, body: &[u8], out: &mut Vec<u8>) -> Verdict {
        out.extend_from_slice(self.game.reply_magic());
        out.extend_from_slice(&request.address);
        out.push(request.kind.byte());
        out.extend_from_slice(body);
        Verdict::Reply { is_verified: false }
    }
}

impl Responder for SampResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if Request::game_of(bytes) != Some(self.game) {
            return Verdict::Pass;
        }
        let Ok(request) = Request::read(bytes, &mut Notes::discarding()) else {
            return Verdict::Drop("malformed");
        };
        let has_lists_only = self.game == Game::ViceCity;
        let body = match request.kind {
            Kind::Info => Some(&self.info),
            Kind::Players => self.players.as_ref(),
            Kind::Ping if self.address == Some(request.address) => {
                return self.write(&request, request.rest, out);
            }
            Kind::Ping => return Verdict::Drop("ping of another address"),
            Kind::Console => return Verdict::Drop("console"),
            _ if has_lists_only => return Verdict::Drop("unsupported"),
            Kind::Rules => Some(&self.rules),
            Kind::Details => self.details.as_ref(),
            Kind::Links => Some(&self.links),
        };
        match body {
            Some(body) => self.write(&request, body, out),
            None => Verdict::Drop(self.no_list),
        }
    }

    /// Returns the information with shorter texts (spec/samp.md#9).
    fn short_reply(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        match Request::read(request, &mut Notes::discarding()) {
            Ok(request) if request.kind == Kind::Info => {
                self.write(&request, &self.tiny_info, out);
                true
            }
            _ => false,
        }
    }
}

fn info(status: &Status, game: Game, limits: [usize; 3]) -> Vec<u8> {
    let names = status.name.iter().chain(&status.motd);
    let mut names = names.map(|name| without_controls(&name.plain()));
    let name = names.find(|name| !name.trim().is_empty());
    let mode = without_controls(status.mode.as_deref().unwrap_or_default());
    let language = match status.extra("language") {
        Some(Value::Str(language)) => without_controls(language),
        _ => String::new(),
    };
    let count = |count: i64| count.clamp(0, u16::MAX.into()) as u16;
    let online = count(status.players.count());
    let mut out = Vec::new();
    if game == Game::ViceCity {
        let version = without_controls(status.version.as_deref().unwrap_or_default());
        let mut version = encode(&version, VERSION);
        version.resize(VERSION, 0);
        out.extend(version);
    }
    out.push(u8::from(status.has_password == Some(true)));
    out.extend(online.to_le_bytes());
    out.extend(status.players.max.map_or(online, count).to_le_bytes());
    let texts = [name.unwrap_or_default(), mode, language];
    for (text, limit) in texts.iter().zip(limits) {
        out.extend(long(&encode(text, limit)));
    }
    out
}

/// Returns version and map, and the rules that fit.
fn rules(status: &Status, room: usize) -> Vec<u8> {
    let own = status.rules.iter().map(|rule| (&*rule.key, &*rule.value));
    let members = [
        ("mapname", status.map.as_deref()),
        ("version", status.version.as_deref()),
    ];
    let has = |key: &str| status.rules.iter().any(|rule| rule.key == key);
    let members = members.into_iter().filter(|(key, _)| !has(key));
    let members = members.filter_map(|(key, value)| Some((key, value?)));
    let mut count: u16 = 0;
    let mut out = Vec::from([0; 2]);
    for (key, value) in members.chain(own) {
        let pair = [short(key, MAX_RULE), short(value, MAX_RULE)].concat();
        if out.len() + pair.len() > room || usize::from(count) == MAX_RULES {
            break;
        }
        out.extend(pair);
        count += 1;
    }
    let filled = out.iter_mut().zip(count.to_le_bytes());
    for (to, from) in filled {
        *to = from;
    }
    out
}

/// Returns the list of players, or `None` if it is too long or not known.
fn list(status: &Status, game: Game, has_details: bool, room: usize) -> Option<Vec<u8>> {
    let list = &status.players.list;
    if list.len() > MAX_LISTED || !status.players.has_list() {
        return None;
    }
    let mut out: Vec<u8> = (list.len() as u16).to_le_bytes().into();
    for (place, player) in list.iter().enumerate() {
        if has_details {
            out.push(id(player).unwrap_or(place as u8));
        }
        out.extend(short(&player.name.plain(), MAX_PLAYER_NAME));
        if has_details || game == Game::SanAndreas {
            let score = player.score.unwrap_or(0);
            let score = score.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
            out.extend(score.to_le_bytes());
        }
        if has_details {
            out.extend(player.latency_ms.unwrap_or(0).max(0).to_le_bytes());
        }
    }
    Some(out).filter(|out| out.len() <= room)
}

fn id(player: &Player) -> Option<u8> {
    let extra = player.extra.iter().find(|extra| extra.key == "id")?;
    match extra.value {
        Value::Int(id) => u8::try_from(id).ok(),
        _ => None,
    }
}

/// Encodes a text with a length of one byte.
fn short(text: &str, limit: usize) -> Vec<u8> {
    let bytes = encode(&without_controls(text), limit);
    [&[bytes.len() as u8][..], &bytes].concat()
}

/// Adds a length of four bytes.
fn long(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::super::message::{Body, Reply};
    use super::*;
    use crate::model::{Extra, Rule, Text};
    use alloc::string::ToString;
    use alloc::vec;

    const START: &[u8] = b"SAMP\xC0\0\x02\x07\x61\x1E";

    fn status() -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Te\nst")),
            mode: Some("Freeroam".into()),
            map: Some("San Andreas".into()),
            extra: vec![Extra::new("language", "English")],
            rules: vec![Rule {
                key: "lagcomp".into(),
                value: "On".into(),
            }],
            ..Status::default()
        };
        let player = |name: &str, score, ping| Player {
            score: Some(score),
            latency_ms: ping,
            ..Player::named(Text::unformatted(name))
        };
        status.players.max = Some(50);
        status
            .players
            .set_list(vec![player("Al", 15, Some(42)), player("Bo", -3, None)]);
        status
    }

    fn answer(responder: &SampResponder, rest: &[u8]) -> (Verdict, Vec<u8>) {
        let request = [START, rest].concat();
        let mut out = Vec::new();
        let from = "192.0.2.7:50000".parse().unwrap();
        (responder.answer(from, Epoch(1), &request, &mut out), out)
    }

    #[test]
    fn each_letter_has_a_reply() {
        let responder = SampResponder::new(&status(), &SampConfig::default());
        for (letter, body) in [
            (
                b"i",
                &b"\0\x02\0\x32\0\x04\0\0\0Test\x08\0\0\0Freeroam\x07\0\0\0English"[..],
            ),
            (b"r", b"\x02\0\x07mapname\x0BSan Andreas\x07lagcomp\x02On"),
            (b"c", b"\x02\0\x02Al\x0F\0\0\0\x02Bo\xFD\xFF\xFF\xFF"),
            (
                b"d",
                b"\x02\0\0\x02Al\x0F\0\0\0\x2A\0\0\0\x01\x02Bo\xFD\xFF\xFF\xFF\0\0\0\0",
            ),
            (b"o", &[0; 16]),
        ] {
            let expected = [START, letter, body].concat();
            let verdict = Verdict::Reply { is_verified: false };
            assert_eq!(answer(&responder, letter), (verdict, expected));
        }
        for (rest, verdict) in [
            (&b"p1234"[..], Verdict::Drop("ping of another address")),
            (b"x\x02\0pw", Verdict::Drop("console")),
            (b"ix", Verdict::Drop("malformed")),
            (b"q", Verdict::Drop("malformed")),
            (b"p123", Verdict::Drop("malformed")),
            (b"", Verdict::Pass),
        ] {
            assert_eq!(answer(&responder, rest), (verdict, vec![]));
        }
    }

    #[test]
    fn pings_need_the_own_address() {
        let read = |address: &str| SampConfig::read(&Options::default().with("address", address));
        let responder = SampResponder::new(&status(), &read("192.0.2.7:7777").unwrap());
        let (verdict, reply) = answer(&responder, b"p1234");
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        assert_eq!(reply, [START, b"p1234"].concat());
        let other = SampResponder::new(&status(), &read("192.0.2.7:7778").unwrap());
        assert!(answer(&other, b"p1234").1.is_empty());
        let error = read("example.org:7777").unwrap_err().to_string();
        assert!(error.contains("IPv4 address with a port"), "{error}");
    }

    #[test]
    fn long_lists_are_not_sent() {
        let mut status = status();
        let long = Player::named(Text::unformatted("\u{E9}".repeat(100)));
        let try_one = |status: &Status, letter: &[u8], max_reply: i64| {
            let options = Options::default().with("max-reply", max_reply);
            let responder = SampResponder::new(status, &SampConfig::read(&options).unwrap());
            let (verdict, reply) = answer(&responder, letter);
            assert!(reply.len() <= max_reply as usize, "{}", reply.len());
            (verdict != Verdict::Drop("too many players")).then(|| {
                let Ok(reply) = Reply::read(&reply, &mut Notes::default()) else {
                    panic!("{reply:?}")
                };
                match reply.body {
                    Body::Players(list) => list.len(),
                    Body::Rules(rules) => rules.len(),
                    body => panic!("{body:?}"),
                }
            })
        };
        status.players.set_list(vec![long.clone(); 41]);
        assert_eq!(try_one(&status, b"c", 1_400), Some(41));
        assert_eq!(try_one(&status, b"d", 1_400), None);
        status.players.set_list(vec![long.clone(); 100]);
        assert_eq!(try_one(&status, b"c", 1_400), None);
        assert_eq!(try_one(&status, b"c", 60_000), Some(100));
        status.players.set_list(vec![long; 101]);
        assert_eq!(try_one(&status, b"c", 60_000), None);
        status.rules = (0..1_000).map(|_| status.rules[0].clone()).collect();
        assert_eq!(try_one(&status, b"r", 1_400), Some(125));
        assert_eq!(try_one(&status, b"r", 60_000), Some(512));
    }

    #[test]
    fn short_replies_are_at_most_three_times_the_request() {
        let mut status = status();
        status.name = Some(Text::unformatted("\u{4E2D}".repeat(100)));
        status.mode = Some("\u{4E2D}".repeat(100).into());
        status.version = status.mode.clone();
        for game in ["samp", "vcmp"] {
            let options = Options::default().with("game", game);
            let responder = SampResponder::new(&status, &SampConfig::read(&options).unwrap());
            let mut request = [START, b"i"].concat();
            if game == "vcmp" {
                request.splice(..4, *b"VCMP");
            }
            let mut out = Vec::new();
            assert!(responder.short_reply(&request, &mut out));
            assert!(out.len() + 28 <= 3 * (request.len() + 28), "{}", out.len());
            assert!(Reply::read(&out, &mut Notes::default()).is_ok());
            request.pop();
            request.push(b'r');
            assert!(!responder.short_reply(&request, &mut Vec::new()));
        }
    }
}
