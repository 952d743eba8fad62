//! The responder: one datagram for each kind, encoded once (spec/unreal2.md#8).
//!
//! Limits: replies have `max-reply` bytes (default 1,400). Rules and players that do not fit are
//! left out from the end. The name of the server has 128 characters, names of players 32, and other
//! texts 64.

use super::message::{self, HEADER, Kind, REPLY_VERSION, clean, write_text};
use super::{LISTED_PLAYERS, RULE_COUNT};
use crate::model::{Codes, Player, Status, Text, Value};
use crate::protocol::{Responder, Verdict};
use crate::token::Epoch;
use crate::wire::codepage::CodePage;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Longest reply in bytes. The least is enough for all information. By default: no IP fragments on
/// usual paths.
pub type MaxReply = crate::protocol::MaxReply<1_100, 1_400>;
/// Longest name of the server in characters.
const MAX_NAME: usize = 128;
/// Longest other text in characters.
const MAX_TEXT: usize = 64;
/// Longest name of a player in characters.
const MAX_PLAYER_NAME: usize = 32;
/// Longest rule in characters, for key and value each.
const MAX_RULE: usize = 128;
/// Longest name, map and class of a short reply in bytes: with headers, it is at most 3 times as
/// long as the request.
const TINY_TEXTS: [usize; 3] = [10, 6, 4];
/// Largest count that is sent.
const MAX_COUNT: i64 = 99_999;
/// Ping of players whose latency is unknown, in milliseconds: 0 marks bots.
const UNKNOWN_PING: i32 = 1;
/// Most entries that clients read.
const MAX_ENTRIES: usize = 1_000;

/// Responder of one server. Replies are stored as a whole.
#[derive(Debug)]
pub struct Unreal2Responder {
    info: Vec<u8>,
    tiny_info: Vec<u8>,
    rules: Vec<u8>,
    /// `None` if there are no players: a reply without any would look like a request.
    players: Option<Vec<u8>>,
}

impl Unreal2Responder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, max_reply: MaxReply) -> Self {
        let status = &*status.with_codes(Codes::Unreal);
        let max_reply = max_reply.bytes();
        let clients = status.players.count().clamp(0, MAX_COUNT);
        let (listed, players) = players(status, clients, max_reply);
        Self {
            info: info(status, clients, false),
            tiny_info: info(status, clients, true),
            rules: rules(status, clients, listed, max_reply),
            players: (listed > 0).then_some(players),
        }
    }
}

impl Responder for Unreal2Responder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        let Some(kind) = Kind::of_request(bytes) else {
            return Verdict::Pass;
        };
        let reply = match kind {
            Kind::Info => Some(&self.info),
            Kind::Rules => Some(&self.rules),
            Kind::Players => self.players.as_ref(),
            Kind::Both => self.players.as_ref().or(Some(&self.rules)),
        };
        match reply {
            Some(reply) => {
                out.extend_from_slice(reply);
                Verdict::Reply { is_verified: false }
            }
            None => Verdict::Drop("no players"),
        }
    }

    /// Returns the information with shorter texts (spec/unreal2.md#8).
    fn short_reply(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        let is_info = Kind::of_request(request) == Some(Kind::Info);
        if is_info {
            out.extend_from_slice(&self.tiny_info);
        }
        is_info
    }
}

fn start(kind: Kind) -> Vec<u8> {
    let mut out = Vec::new();
    message::write_start(REPLY_VERSION, kind, &mut out);
    out
}

fn info(status: &Status, clients: i64, is_short: bool) -> Vec<u8> {
    let names = status.name.iter().chain(&status.motd);
    let mut names = names.map(|name| clean(name.raw(), MAX_NAME));
    let name = names.find(|name| !name.trim().is_empty());
    let name = name.unwrap_or_default();
    let text = |text: &Option<compact_str::CompactString>| {
        clean(text.as_deref().unwrap_or_default(), MAX_TEXT)
    };
    let map = text(&status.map);
    let class = text(&status.mode);
    let number = |key: &str| match status.extra(key) {
        Some(Value::Int(number)) => u32::try_from(*number).ok(),
        _ => None,
    };
    let address = status.address.as_ref();
    let host = address.and_then(|address| address.host.as_deref());
    let port = address.and_then(|address| address.port).unwrap_or(0);
    let max = status.players.max.unwrap_or(clients).clamp(0, MAX_COUNT);

    let mut out = start(Kind::Info);
    out.extend(number("server-id").unwrap_or(0).to_le_bytes());
    if is_short {
        out.push(0)
    } else {
        write_text(&clean(host.unwrap_or_default(), MAX_TEXT), &mut out)
    }
    out.extend(u32::from(port).to_le_bytes());
    out.extend([0; 4]);
    let texts = [&name, &map, &class];
    for (text, limit) in texts.into_iter().zip(TINY_TEXTS) {
        if is_short {
            write_text(&narrow(text, limit), &mut out)
        } else {
            write_text(text, &mut out)
        }
    }
    out.extend((clients as u32).to_le_bytes());
    out.extend((max as u32).to_le_bytes());
    // Clients read waves by the class, so a short one must not look like Killing Floor.
    let has_waves = if is_short {
        narrow(&class, 2).starts_with("KF")
    } else {
        class.starts_with("KF")
    };
    if has_waves {
        for key in ["wave", "last-wave"] {
            out.extend(number(key).unwrap_or(0).to_le_bytes());
        }
    }
    // The ping.
    out.extend([0; 4]);
    out.extend(number("flags").unwrap_or(0).to_le_bytes());
    let skill = match status.extra("skill") {
        Some(Value::Str(skill)) if !is_short => clean(skill, MAX_TEXT),
        _ => String::new(),
    };
    write_text(&skill, &mut out);
    out.extend([0; 2]);
    out
}

/// Returns the start of a text in one byte for each character, without colors.
fn narrow(text: &str, limit: usize) -> String {
    let plain = Text::unreal(text).plain();
    let replaced = plain.chars().map(|c| match CodePage::Western.byte(c) {
        Some(_) => c,
        None => '?',
    });
    replaced.take(limit).collect()
}

/// Returns the reply with the rules that fit, and their number before them.
fn rules(status: &Status, clients: i64, listed: usize, max_reply: usize) -> Vec<u8> {
    let has = |key: &str| {
        let mut rules = status.rules.iter();
        rules.any(|rule| rule.key.eq_ignore_ascii_case(key))
    };
    let boolean = |value: Option<bool>| value.map(|value| if value { "True" } else { "False" });
    let members = [
        ("ServerVersion", status.version.as_deref()),
        ("GamePassword", boolean(status.has_password)),
        ("IsVacSecured", boolean(status.has_anti_cheat)),
    ];
    let members = members.into_iter().filter(|(key, _)| !has(key));
    let members = members.filter_map(|(key, value)| Some((key, value?)));
    let own = status.rules.iter().map(|rule| (&*rule.key, &*rule.value));
    let own = own.filter(|(key, _)| *key != RULE_COUNT && *key != LISTED_PLAYERS);
    let pair = |key: &str, value: &str| {
        let mut pair = Vec::new();
        write_text(&clean(key, MAX_RULE), &mut pair);
        write_text(&clean(value, MAX_RULE), &mut pair);
        pair
    };
    let mut count = 1;
    let mut body = Vec::new();
    if listed as i64 != clients {
        body.extend(pair(LISTED_PLAYERS, &listed.to_string()));
        count += 1;
    }
    let room = max_reply - HEADER - pair(RULE_COUNT, "1000").len();
    // First, since what does not fit is left out from the end.
    for (key, value) in members.chain(own) {
        let pair = pair(key, value);
        if body.len() + pair.len() > room || count == MAX_ENTRIES {
            break;
        }
        body.extend(pair);
        count += 1;
    }
    let mut out = start(Kind::Rules);
    out.extend(pair(RULE_COUNT, &count.to_string()));
    out.extend(body);
    out
}

/// Returns the number of players that fit, and the reply with them.
fn players(status: &Status, clients: i64, max_reply: usize) -> (usize, Vec<u8>) {
    let list = &status.players.list;
    let mut out = start(Kind::Players);
    // More players than counted would be a contradiction.
    if list.len() as i64 > clients {
        return (0, out);
    }
    let mut ids: Vec<u32> = Vec::new();
    for (place, player) in (1_u32..).zip(list).take(MAX_ENTRIES) {
        let id = id(player).filter(|id| !ids.contains(id)).unwrap_or(place);
        // Numbers identify players, and 0 is none of them.
        if ids.contains(&id) {
            break;
        }
        let mut entry = Vec::from(id.to_le_bytes());
        write_text(&clean(player.name.raw(), MAX_PLAYER_NAME), &mut entry);
        let ping = player.latency_ms.unwrap_or(UNKNOWN_PING).max(0);
        entry.extend(ping.to_le_bytes());
        let score = player.score.unwrap_or(0);
        let score = score.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        entry.extend(score.to_le_bytes());
        let team: u32 = match player.team.as_deref() {
            Some("red") => 0x2000_0000,
            Some("blue") => 0x4000_0000,
            _ => 0,
        };
        entry.extend(team.to_le_bytes());
        if out.len() + entry.len() > max_reply {
            break;
        }
        out.extend(entry);
        ids.push(id);
    }
    (ids.len(), out)
}

/// Returns the number of a player, if it is one of a player.
fn id(player: &Player) -> Option<u32> {
    let extra = player.extra.iter().find(|extra| extra.key == "id")?;
    match extra.value {
        Value::Int(id) => u32::try_from(id).ok().filter(|id| *id != 0),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Reply;
    use super::*;
    use crate::model::{Extra, Rule};
    use crate::wire::Notes;
    use alloc::vec;

    fn status() -> Status {
        let mut status = Status {
            name: Some(Text::unreal("\u{1B}\u{F8}@@Te\nst")),
            map: Some("DM-Rankin".into()),
            mode: Some("xDeathMatch".into()),
            has_password: Some(false),
            extra: vec![Extra::new("skill", "2")],
            rules: vec![Rule {
                key: "Mutator".into(),
                value: "MutUTComp".into(),
            }],
            ..Status::default()
        };
        let player = Player {
            score: Some(9),
            latency_ms: Some(52),
            team: Some("red".into()),
            extra: vec![Extra::new("id", 17)],
            ..Player::named(Text::unformatted("Al"))
        };
        status.players.max = Some(16);
        status.players.set_list(vec![player]);
        status
    }

    fn answer(status: &Status, kind: Kind) -> (Verdict, Vec<u8>) {
        let responder = Unreal2Responder::new(status, MaxReply::default());
        let mut request = Vec::new();
        let mut out = Vec::new();
        message::write_request(kind, &mut request);
        let from = "192.0.2.7:50000".parse().unwrap();
        (responder.answer(from, Epoch(1), &request, &mut out), out)
    }

    #[test]
    fn each_kind_has_a_reply() {
        let verdict = Verdict::Reply { is_verified: false };
        let info = b"\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09\x1B\xF8@@Test\0\x0ADM-Rankin\0\x0CxDeathMatch\0\x01\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\x022\0\0\0";
        assert_eq!(answer(&status(), Kind::Info), (verdict, info.to_vec()));
        let rules = b"\x80\0\0\0\x01\x0BRule count\0\x023\0\x0DGamePassword\0\x06False\0\x08Mutator\0\x0AMutUTComp\0";
        assert_eq!(answer(&status(), Kind::Rules), (verdict, rules.to_vec()));
        let players = b"\x80\0\0\0\x02\x11\0\0\0\x03Al\0\x34\0\0\0\x09\0\0\0\0\0\0\x20";
        assert_eq!(
            answer(&status(), Kind::Players),
            (verdict, players.to_vec())
        );
        assert_eq!(answer(&status(), Kind::Both), (verdict, players.to_vec()));
        let empty = Status::default();
        assert_eq!(
            answer(&empty, Kind::Players),
            (Verdict::Drop("no players"), vec![])
        );
    }

    #[test]
    fn long_lists_are_counted() {
        let mut status = status();
        let long = Player::named(Text::unformatted("\u{4E2D}".repeat(100)));
        status.players.set_list(vec![long; 100]);
        status.rules = vec![status.rules[0].clone(); 500];
        let (_, players) = answer(&status, Kind::Players);
        let (_, rules) = answer(&status, Kind::Rules);
        assert!(players.len() <= 1_400 && rules.len() <= 1_400);
        let read = |bytes| Reply::read(bytes, &mut Notes::default()).unwrap();
        let (Reply::Players(players), Reply::Rules(rules)) = (read(&players), read(&rules)) else {
            panic!("other kinds")
        };
        let (_, count) = rules[0];
        assert_eq!(count.decode(), rules.len().to_string());
        let (key, listed) = rules[1];
        assert_eq!(key.decode(), LISTED_PLAYERS);
        assert_eq!(listed.decode(), players.len().to_string());
        assert!(players.len() >= 15, "{}", players.len());
    }

    #[test]
    fn short_replies_are_at_most_three_times_the_request() {
        let mut status = status();
        for class in ["\u{4E2D}", "KFGameTypeOfALongName"] {
            status.name = Some(Text::unformatted("\u{4E2D}".repeat(100)));
            status.map = Some("\u{4E2D}".repeat(100).into());
            status.mode = Some(class.into());
            let responder = Unreal2Responder::new(&status, MaxReply::default());
            let mut out = Vec::new();
            assert!(responder.short_reply(b"\x79\0\0\0\0", &mut out));
            assert!(out.len() + 28 <= 3 * (5 + 28), "{}", out.len());
            let mut notes = Notes::default();
            assert!(Reply::read(&out, &mut notes).is_ok());
            assert_eq!(notes.met().count(), 0);
            assert!(!responder.short_reply(b"\x79\0\0\0\x01", &mut Vec::new()));
        }
    }
}
