//! The responder: one datagram of at most `max-reply` bytes, default 1,400 (spec/ase.md#7).

use super::message::{Kind, LISTED, VERSION_REQUEST, flag, write_text};
use crate::model::{Codes, Player, Status, Text, Value};
use crate::protocol::{Responder, Verdict};
use crate::token::Epoch;
use crate::wire::cut;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Longest reply in bytes. The least is enough for all information. By default: no IP fragments on
/// usual paths.
pub type MaxReply = crate::protocol::MaxReply<1_000, 1_400>;
/// Longest short reply, in bytes, as of MTA.
const MAX_SHORT: usize = 1_350;
/// Longest text of a responder, in bytes, so that the header always fits.
const MAX_TEXT: usize = 120;

/// Longest rule with the number of listed players, in bytes.
const MAX_LISTED_PAIR: usize = 16;
/// Longest name and game of a short reply in bytes: with headers, it is at most 3 times as long as
/// the request.
const TINY_NAME: usize = 12;
/// See [`TINY_NAME`].
const TINY_GAME: usize = 8;
/// Longest version that is sent alone, in bytes.
const MAX_VERSION: usize = 16;
/// Largest count that is sent.
const MAX_COUNT: i64 = 99_999;

/// Responder for one server. Each kind of reply is encoded once.
#[derive(Debug)]
pub struct AseResponder {
    full: Vec<u8>,
    /// Full reply with a short name and no players.
    tiny: Vec<u8>,
    short: Vec<u8>,
    counts: Vec<u8>,
    /// Version alone; empty if it could be taken for a request.
    version: String,
}

impl AseResponder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, max_reply: MaxReply) -> Self {
        let status = &*status.with_codes(Codes::None);
        let max_reply = max_reply.bytes();
        Self {
            full: full(status, max_reply),
            tiny: tiny(status),
            short: short(status, max_reply.min(MAX_SHORT)),
            counts: counts(status),
            version: version(status),
        }
    }
}

/// Returns a text in one line of at most `limit` bytes, without control characters.
fn line(text: &str, limit: usize) -> String {
    let plain = Text::unformatted(text).plain().replace('\n', " ");
    String::from(cut(&plain, limit))
}

fn name(status: &Status) -> String {
    match &status.name {
        Some(name) => line(name.raw(), MAX_TEXT),
        None => line(&status.title().unwrap_or_default(), MAX_TEXT),
    }
}

fn option(text: Option<&str>) -> String {
    line(text.unwrap_or_default(), MAX_TEXT)
}

/// Returns the version if it begins with a digit: a letter could be the request of another reply.
fn version(status: &Status) -> String {
    let mut version = line(status.version.as_deref().unwrap_or_default(), MAX_VERSION);
    if !version.starts_with(|c: char| c.is_ascii_digit()) {
        version.clear();
    }
    version
}

fn port(status: &Status) -> String {
    let port = status.address.as_ref().and_then(|address| address.port);
    port.map(|port| port.to_string())
        .unwrap_or_else(|| "0".into())
}

fn byte(count: i64) -> u8 {
    count.clamp(0, 255) as u8
}

/// Returns the map with the counts, which have one byte elsewhere.
fn map_with_counts(status: &Status) -> String {
    let online = online(status);
    let max = status.players.max.map_or(0, count);
    format!("{}\0{online}/{max}", option(status.map.as_deref()))
}

/// Appends what precedes the rules of a full reply. Texts have at most `limit` bytes.
fn write_head(status: &Status, texts: [&str; 5], out: &mut Vec<u8>) {
    let [game, name, mode, map, version] = texts;
    let password = if status.has_password == Some(true) {
        "1"
    } else {
        "0"
    };
    let max = status.players.max.map_or(0, count);
    out.extend_from_slice(Kind::Full.magic());
    for text in [
        game,
        &port(status),
        name,
        mode,
        map,
        version,
        password,
        &online(status).to_string(),
        &max.to_string(),
    ] {
        write_text(text, out);
    }
}

fn count(count: i64) -> i64 {
    count.clamp(0, MAX_COUNT)
}

fn online(status: &Status) -> i64 {
    count(status.players.count())
}

fn write_pair(key: &str, value: &str, out: &mut Vec<u8>) {
    write_text(key, out);
    write_text(value, out);
}

fn full(status: &Status, max_reply: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let texts = [
        option(status.game.as_deref()),
        name(status),
        option(status.mode.as_deref()),
        option(status.map.as_deref()),
        option(status.version.as_deref()),
    ];
    write_head(status, texts.each_ref().map(String::as_str), &mut out);
    let room = max_reply - MAX_LISTED_PAIR - 1;
    // So that there is room for players.
    let max_rules = max_reply / 2;
    let mut rules = Vec::new();
    for rule in &status.rules {
        let key = line(&rule.key, MAX_TEXT);
        let mut pair = Vec::new();
        write_pair(&key, &line(&rule.value, MAX_TEXT), &mut pair);
        if key.is_empty() || key == LISTED {
            continue;
        }
        if rules.len() + pair.len() > max_rules || out.len() + rules.len() + pair.len() > room {
            break;
        }
        rules.extend(pair);
    }
    let room = room - out.len() - rules.len();
    let (listed, players) = players(status, room);
    if listed != online(status) {
        write_pair(LISTED, &listed.to_string(), &mut out);
    }
    out.extend(rules);
    write_text("", &mut out);
    out.extend(players);
    out
}

/// Returns a full reply with a short name and the counts.
fn tiny(status: &Status) -> Vec<u8> {
    let mut out = Vec::new();
    let name = name(status);
    let game = option(status.game.as_deref());
    let texts = [cut(&game, TINY_GAME), cut(&name, TINY_NAME), "", "", ""];
    write_head(status, texts, &mut out);
    if online(status) != 0 {
        write_pair(LISTED, "0", &mut out);
    }
    write_text("", &mut out);
    out
}

/// Returns the number of players that fit, and their bytes.
fn players(status: &Status, room: usize) -> (i64, Vec<u8>) {
    let mut listed = 0;
    let mut out = Vec::new();
    for player in &status.players.list {
        let start = out.len();
        write_player(player, &mut out);
        if out.len() > room {
            out.truncate(start);
            break;
        }
        listed += i64::from(out.len() > start);
    }
    if listed > online(status) {
        // More players than counted would be a contradiction.
        (0, Vec::new())
    } else {
        (listed, out)
    }
}

fn write_player(player: &Player, out: &mut Vec<u8>) {
    let name = line(player.name.raw(), MAX_TEXT);
    if name.is_empty() {
        return;
    }
    let extra = |key: &str| {
        let extra = player.extra.iter().find(|extra| extra.key == key);
        extra.map(|extra| match &extra.value {
            Value::Str(text) => line(text, MAX_TEXT),
            _ => String::new(),
        })
    };
    let score = player.score.map(|score| score.to_string());
    out.push(flag::NAME | flag::TEAM | flag::SKIN | flag::SCORE | flag::PING | flag::TIME);
    for text in [
        name,
        option(player.team.as_deref()),
        extra("skin").unwrap_or_default(),
        score.or_else(|| extra("score-text")).unwrap_or_default(),
        player
            .latency_ms
            .map(|ping| ping.to_string())
            .unwrap_or_default(),
        extra("time").unwrap_or_default(),
    ] {
        write_text(&text, out);
    }
}

fn short(status: &Status, max_reply: usize) -> Vec<u8> {
    let mut out = Kind::Short.magic().to_vec();
    for text in [
        option(status.game.as_deref()),
        port(status),
        name(status),
        option(status.mode.as_deref()),
        map_with_counts(status),
        option(status.version.as_deref()),
    ] {
        write_text(&text, &mut out);
    }
    let password = u8::from(status.has_password == Some(true));
    let counted = byte(status.players.count());
    out.extend([password, 0, counted, byte(status.players.max.unwrap_or(0))]);
    let list = status.players.list.iter();
    let names = list.map(|player| line(player.name.raw(), MAX_TEXT));
    let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    let unlisted = (online(status) as usize).saturating_sub(names.len());
    // Names that do not fit are sent empty, as by MTA, so that their number is that of the players.
    let mut left = names.len() + unlisted;
    let unlisted = core::iter::repeat_n("", unlisted);
    for name in names.iter().map(String::as_str).chain(unlisted) {
        left -= 1;
        let has_room = out.len() + 1 + name.len() + left <= max_reply;
        if out.len() == max_reply {
            break;
        }
        write_text(if has_room { name } else { "" }, &mut out);
    }
    out
}

fn counts(status: &Status) -> Vec<u8> {
    let mut out = Kind::Counts.magic().to_vec();
    for text in [
        option(status.game.as_deref()),
        name(status),
        option(status.mode.as_deref()),
        map_with_counts(status),
        option(status.version.as_deref()),
    ] {
        write_text(&text, &mut out);
    }
    let password = u8::from(status.has_password == Some(true));
    let online = byte(status.players.count());
    out.extend([password, online, byte(status.players.max.unwrap_or(0))]);
    out
}

impl Responder for AseResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        // Only the first byte counts in MTA. Requests of other protocols begin with letters too, so
        // longer ones are passed on.
        let &[byte] = bytes else {
            return Verdict::Pass;
        };
        match Kind::of_request(byte) {
            Some(Kind::Full) => out.extend_from_slice(&self.full),
            Some(Kind::Short) => out.extend_from_slice(&self.short),
            Some(Kind::Counts) => out.extend_from_slice(&self.counts),
            None if byte == VERSION_REQUEST && !self.version.is_empty() => {
                out.extend_from_slice(self.version.as_bytes());
            }
            None => return Verdict::Pass,
        }
        Verdict::Reply { is_verified: false }
    }

    /// Returns a full reply with name and counts (spec/ase.md#7).
    fn short_reply(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        let is_full = matches!(request, [byte] if Kind::of_request(*byte) == Some(Kind::Full));
        if is_full {
            out.extend_from_slice(&self.tiny);
        }
        is_full
    }
}

#[cfg(test)]
mod tests {
    use super::super::message;
    use super::*;
    use crate::wire::Notes;
    use alloc::vec;

    fn answer(status: &Status, request: &[u8]) -> (Verdict, Vec<u8>) {
        let mut out = Vec::new();
        let from = "192.0.2.7:50000".parse().unwrap();
        let responder = AseResponder::new(status, MaxReply::default());
        (responder.answer(from, Epoch(1), request, &mut out), out)
    }

    fn status() -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Te\nst")),
            game: Some("mta".into()),
            mode: Some("Race".into()),
            map: Some("None".into()),
            version: Some("1.6".into()),
            ..Status::default()
        };
        let player = Player {
            score: Some(15),
            latency_ms: Some(42),
            ..Player::named(Text::unformatted("Al"))
        };
        status.players.max = Some(32);
        status.players.set_list(vec![player]);
        status
    }

    #[test]
    fn each_letter_has_a_reply() {
        let verdict = Verdict::Reply { is_verified: false };
        let full = b"EYE1\x04mta\x020\x06Te st\x05Race\x05None\x041.6\x020\x021\x0332\x01\x3F\x03Al\x01\x01\x0315\x0342\x01";
        assert_eq!(answer(&status(), b"s"), (verdict, full.to_vec()));
        let short = b"EYE2\x04mta\x020\x06Te st\x05Race\x0ANone\x001/32\x041.6\0\0\x01\x20\x03Al";
        assert_eq!(answer(&status(), b"r"), (verdict, short.to_vec()));
        assert_eq!(answer(&status(), b"b"), (verdict, short.to_vec()));
        let counts = b"EYE3\x04mta\x06Te st\x05Race\x0ANone\x001/32\x041.6\0\x01\x20";
        assert_eq!(answer(&status(), b"x"), (verdict, counts.to_vec()));
        assert_eq!(answer(&status(), b"v"), (verdict, b"1.6".to_vec()));
        let lettered = Status {
            version: Some("s".into()),
            ..status()
        };
        assert_eq!(answer(&lettered, b"v"), (Verdict::Pass, vec![]));
        for other in [&b""[..], b"q", b"ss", b"EYE1"] {
            assert_eq!(answer(&status(), other), (Verdict::Pass, vec![]));
        }
    }

    #[test]
    fn long_lists_are_counted() {
        let mut status = status();
        let long = Player::named(Text::unformatted("\u{E9}".repeat(100)));
        status.players.set_list(vec![long; 100]);
        let (_, reply) = answer(&status, b"s");
        assert!(reply.len() <= MaxReply::DEFAULT);
        let mut notes = Notes::default();
        let reply = message::parse(&reply, &mut notes).unwrap();
        let listed = reply.players.len();
        assert!((8..=12).contains(&listed), "{listed}");
        assert_eq!(reply.rules[0].1, listed.to_string().as_bytes());
        assert_eq!((reply.online, notes.met().count()), (Some(100), 0));
        let (_, reply) = answer(&status, b"r");
        assert!(reply.len() <= MAX_SHORT);
        let read = |max_reply: i64, request: &[u8]| {
            let limit = MaxReply::new(max_reply as usize);
            let from = "192.0.2.7:50000".parse().unwrap();
            let mut out = Vec::new();
            AseResponder::new(&status, limit).answer(from, Epoch(1), request, &mut out);
            assert!(out.len() as i64 <= max_reply, "{}", out.len());
            message::parse(&out, &mut Notes::default())
                .unwrap()
                .players
                .len()
        };
        assert_eq!(read(65_507, b"s"), 100);
        assert!(read(1_000, b"s") < listed);
        assert!(read(1_000, b"r") > 0);
    }

    #[test]
    fn players_fill_a_reply_to_the_last_byte() {
        let status_of = |length: usize| {
            let mut status = status();
            let mut names = vec!["A".repeat(100); 12];
            names.push("A".repeat(length));
            let named = |name: String| Player::named(Text::unformatted(name));
            let players = names.into_iter().map(named).collect();
            status.players.set_list(players);
            status
        };
        let (_, reply) = answer(&status_of(1), b"s");
        // Room for the rule with the number of listed players stays free.
        let exact = 1 + (MaxReply::DEFAULT - MAX_LISTED_PAIR) - reply.len();
        for (length, listed) in [(exact, 13), (exact + 1, 12)] {
            let (_, reply) = answer(&status_of(length), b"s");
            let reply = message::parse(&reply, &mut Notes::default()).unwrap();
            assert_eq!(reply.players.len(), listed);
        }
    }

    #[test]
    fn long_rules_leave_room_for_players() {
        let mut status = status();
        let player = Player::named(Text::unformatted("Alice"));
        status.players.set_list(vec![player; 40]);
        let rules = (0..60).map(|at| crate::model::Rule {
            key: alloc::format!("rule{at}").into(),
            value: "v".repeat(20).into(),
        });
        status.rules = rules.collect();
        let (_, reply) = answer(&status, b"s");
        let mut notes = Notes::default();
        let reply = message::parse(&reply, &mut notes).unwrap();
        assert_eq!((reply.players.len(), reply.rules.len()), (40, 25));
        assert_eq!(notes.met().count(), 0);
    }

    #[test]
    fn short_replies_are_at_most_three_times_the_request() {
        let mut status = status();
        status.name = Some(Text::unformatted("\u{4E2D}".repeat(100)));
        status.game = Some("\u{4E2D}".repeat(100).into());
        status.players.online = Some(i64::MAX);
        status.players.max = Some(i64::MAX);
        status.address = Some(crate::model::Address {
            host: None,
            port: Some(65_535),
        });
        let responder = AseResponder::new(&status, MaxReply::default());
        let mut out = Vec::new();
        assert!(responder.short_reply(b"s", &mut out));
        assert!(out.len() + 28 <= 3 * (1 + 28), "{}", out.len());
        let reply = message::parse(&out, &mut Notes::default()).unwrap();
        assert_eq!(reply.online, Some(MAX_COUNT));
        assert!(!responder.short_reply(b"r", &mut Vec::new()));
    }
}
