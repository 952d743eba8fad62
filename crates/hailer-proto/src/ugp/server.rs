//! The server: the reference server's bytes within a cap, since an asker proves nothing (spec/ugp.md#11).

use super::message::{self, ListFlags, QueryFlags, Request, TEXT_MAX};
use super::table::{self, player, section, server};
use crate::model::{Player, Status, Text, Value};
use crate::protocol::{Doc, OptionError, Options, Responder, Verdict};
use crate::token::Epoch;
use crate::wire::{Notes, cut};
use alloc::{format, string::String, vec::Vec};
use compact_str::CompactString;
use core::net::SocketAddr;

/// The longest answer unless the operator wants more: the smallest buffer of a public client, and no fragments.
pub(super) const DEFAULT_REPLY: usize = 1_024;
/// Room for four cut texts.
const MIN_REPLY: usize = 64;
/// The most that UDP carries over IPv4.
const MAX_REPLY: usize = 65_507;
/// A longer datagram is no request, whatever it starts with.
const MAX_REQUEST: usize = 64;
/// What the longest server section and an empty rule section take beside the four texts: the server flags, two counts,
/// and the number of rules.
const BESIDE_TEXTS: usize = 4;
/// Fields of the server section that are given: all but the extra server flags, whose layout is disputed.
const FIELDS: u8 =
    server::GAME | server::NAME | server::MODE | server::MAP | server::ONLINE | server::MAX;
/// Fields of a player that are given: those of the reference server. The others are personal data.
const LISTED: u8 = player::ID | player::NAME;
/// Fields of the server section in a short reply.
const SHORT_FIELDS: u8 = server::NAME | server::ONLINE | server::MAX;
/// Longest name in a short reply, in bytes: with headers, the reply is at most 3 times the shortest request that asks
/// for the server section.
const MAX_SHORT_NAME: usize = 64;

pub(super) static OPTIONS: &[Doc] = &[
    Doc {
        key: "max-reply",
        help: "The longest answer in bytes, 64 to 65507, by default 1024; past it the player list is left out as a \
               whole, then rules from the last; amplification grows with it",
    },
    Doc {
        key: "game",
        help: "The game as a number from 0 to 255 or a name such as \"gta:iii\" or \"mafia:one\"; by default what the \
               status says, else 255 (unknown)",
    },
];

/// UgpConfig of the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UgpConfig {
    /// The longest answer, bytes.
    pub max_reply: usize,
    /// Number of the game; without one the status decides.
    pub game: Option<u8>,
}

impl Default for UgpConfig {
    fn default() -> Self {
        Self {
            max_reply: DEFAULT_REPLY,
            game: None,
        }
    }
}

impl UgpConfig {
    /// Reads the documented options.
    pub fn read(options: &Options) -> Result<Self, OptionError> {
        options.check(OPTIONS)?;
        let max_reply = options.int(
            "max-reply",
            DEFAULT_REPLY as i64,
            MIN_REPLY as i64..=MAX_REPLY as i64,
        )?;
        let game = match options.value("game") {
            None => None,
            Some(game) => Some(game_id(game).ok_or_else(|| {
                let names: Vec<&str> = table::GAMES.iter().map(|(_, name)| *name).collect();
                let problem = format!(
                    "must be a number from 0 to 255 or one of \"{}\"",
                    names.join("\", \"")
                );
                OptionError {
                    key: "game".into(),
                    problem: problem.into(),
                }
            })?),
        };
        Ok(Self {
            max_reply: max_reply as usize,
            game,
        })
    }
}

fn game_id(game: &Value) -> Option<u8> {
    match game {
        Value::Int(id) => u8::try_from(*id).ok(),
        Value::Str(name) => table::game_id(name),
        _ => None,
    }
}

/// Answers for one server. Every field and section is built once; answering copies those asked for.
#[derive(Debug)]
pub struct UgpResponder {
    game: u8,
    max_reply: usize,
    /// Fields of the server section by their flag, in the order of the answer.
    server: [(u8, Vec<u8>); 6],
    /// The name field of short replies.
    short_name: Vec<u8>,
    /// The player section for each choice of `LISTED`, if there is one.
    players: Option<[Vec<u8>; 1 + LISTED as usize]>,
    rules: Rules,
}

/// The rule section without its count.
#[derive(Debug, Default)]
struct Rules {
    bytes: Vec<u8>,
    /// Where each rule ends.
    ends: Vec<usize>,
}

impl UgpResponder {
    /// A responder for this status.
    pub fn new(status: &Status, config: &UgpConfig) -> Self {
        let max_reply = config.max_reply.clamp(MIN_REPLY, MAX_REPLY);
        let list = &status.players.list;
        let online = byte(status.players.count());
        let game = config
            .game
            .or_else(|| status.extra("game-id").and_then(game_id));
        Self {
            game: game
                .or_else(|| table::game_id(status.game.as_deref()?))
                .unwrap_or(table::GAME_UNKNOWN),
            max_reply,
            server: server_fields(status, online, max_reply),
            short_name: string(&status.title().unwrap_or_default(), MAX_SHORT_NAME),
            // Clients exist that read as many players as the count says. So a list that has more or fewer, because it
            // is a sample, is left out: the count is the better truth.
            players: (byte(list.len() as i64) == online)
                .then(|| core::array::from_fn(|fields| player_section(list, online, fields as u8))),
            rules: Rules::new(status),
        }
    }

    /// Appends the answer to a query: what is asked for, can be given, and fits (spec/ugp.md#11.3).
    fn write(&self, asked: &QueryFlags, out: &mut Vec<u8>) {
        let fields = asked.server.map(|asked| asked & FIELDS);
        let server = || {
            self.server
                .iter()
                .filter(|(flag, _)| fields.unwrap_or(0) & flag != 0)
                .map(|(_, field)| field)
        };
        let head = message::REPLY_HEADER
            + usize::from(fields.is_some())
            + server().map(Vec::len).sum::<usize>();
        let room = self.max_reply.saturating_sub(head);

        let players = match (asked.list, &self.players) {
            (Some(ListFlags::Players { fields, .. }), Some(sections)) => {
                sections.get(usize::from(fields & LISTED))
            }
            _ => None,
        };
        // The list goes before the first rule does, so beside it the rules are whole.
        let all_rules = asked.rules.map_or(0, |_| 1 + self.rules.bytes.len());
        let players = players.filter(|players| players.len() + all_rules <= room);
        let rules = asked.rules.map(|_| self.rules.fitting(room));

        let flag = |present: bool, flag: u8| if present { flag } else { 0 };
        let sections = flag(fields.is_some(), section::SERVER)
            | flag(players.is_some(), section::PLAYERS)
            | flag(rules.is_some(), section::RULES);
        message::write_reply_header(self.game, sections, out);
        out.extend(fields);
        server().for_each(|field| out.extend_from_slice(field));
        out.extend_from_slice(players.map_or(&[], Vec::as_slice));
        if let Some((count, rules)) = rules {
            out.push(count);
            out.extend_from_slice(rules);
        }
    }
}

impl Responder for UgpResponder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if !bytes.starts_with(&message::CLAIM) {
            return Verdict::Pass;
        }
        if bytes.len() > MAX_REQUEST {
            return Verdict::Drop("oversized");
        }
        // Answers are malformed requests, so two servers cannot be made to answer each other.
        match Request::read(bytes, &mut Notes::discarding()) {
            Err(_) => return Verdict::Drop("malformed"),
            Ok(Request::Ping) => message::write_ping_reply(out),
            Ok(Request::Query(asked)) => self.write(&asked, out),
        }
        Verdict::Reply { verified: false }
    }

    /// Name and player counts, if the request asks for them (spec/ugp.md#11.3).
    fn short_reply(&self, request: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(Request::Query(QueryFlags {
            server: Some(asked),
            ..
        })) = Request::read(request, &mut Notes::discarding())
        else {
            return false;
        };
        let fields = asked & SHORT_FIELDS;
        message::write_reply_header(self.game, section::SERVER, out);
        out.push(fields);
        for (flag, field) in &self.server {
            if fields & flag != 0 {
                let is_name = *flag == server::NAME;
                out.extend_from_slice(if is_name { &self.short_name } else { field });
            }
        }
        true
    }
}

/// Counts are bytes on the wire; what is past them stays at the end that it is past.
fn byte(count: i64) -> u8 {
    count.clamp(0, i64::from(u8::MAX)) as u8
}

/// Text as it may travel: no control character, in one line.
fn line(text: &str) -> String {
    Text::unformatted(text).plain().replace('\n', " ")
}

/// A string field.
fn string(text: &str, limit: usize) -> Vec<u8> {
    let mut out = Vec::new();
    message::write_text(cut(&line(text), limit), &mut out);
    out
}

/// spec/ugp.md#6.1. Each text gets a quarter of the room, so that the section fits whatever else must go.
fn server_fields(status: &Status, online: u8, max_reply: usize) -> [(u8, Vec<u8>); 6] {
    let limit = ((max_reply - message::REPLY_HEADER - BESIDE_TEXTS) / 4 - 2).min(TEXT_MAX);
    let or_empty =
        |text: &Option<CompactString>| string(text.as_deref().unwrap_or_default(), limit);
    [
        (server::GAME, or_empty(&status.game)),
        (
            server::NAME,
            string(&status.title().unwrap_or_default(), limit),
        ),
        (server::MODE, or_empty(&status.mode)),
        (server::MAP, or_empty(&status.map)),
        (server::ONLINE, [online].into()),
        (server::MAX, [byte(status.players.max.unwrap_or(0))].into()),
    ]
}

/// spec/ugp.md#6.2. A player without a known id gets the place in the list.
fn player_section(list: &[Player], count: u8, fields: u8) -> Vec<u8> {
    let mut out = alloc::vec![count];
    if count > 0 {
        out.push(fields);
    }
    for (place, player) in (0..count).zip(list) {
        if fields & player::ID != 0 {
            let id = player
                .extra
                .iter()
                .find(|extra| extra.key == "id")
                .and_then(|extra| match extra.value {
                    Value::Int(id) => u8::try_from(id).ok(),
                    _ => None,
                });
            out.push(id.unwrap_or(place));
        }
        if fields & player::NAME != 0 {
            message::write_text(&line(&player.name.plain()), &mut out);
        }
    }
    out
}

impl Rules {
    /// spec/ugp.md#6.4
    fn new(status: &Status) -> Self {
        let mut rules = Self::default();
        for rule in status.rules.iter().take(usize::from(u8::MAX)) {
            message::write_text(&line(&rule.key), &mut rules.bytes);
            message::write_text(&line(&rule.value), &mut rules.bytes);
            rules.ends.push(rules.bytes.len());
        }
        rules
    }

    /// As many whole rules as fit behind their count.
    fn fitting(&self, room: usize) -> (u8, &[u8]) {
        let count = self.ends.partition_point(|&end| end < room);
        let end = count
            .checked_sub(1)
            .and_then(|last| self.ends.get(last))
            .map_or(0, |end| *end);
        (count as u8, self.bytes.get(..end).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{QueryReply, Reply};
    use super::*;
    use crate::{Extra, Rule};
    use alloc::string::ToString;

    fn status(players: usize, rules: usize) -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Test")),
            mode: Some("DM".into()),
            game: Some("gta:iii".into()),
            ..Status::default()
        };
        status.players.online = Some(players as i64);
        status.players.max = Some(32);
        let player = |i| Player::named(Text::unformatted(format!("player {i}")));
        status.players.set_list((0..players).map(player).collect());
        status.rules = (0..rules)
            .map(|i| Rule {
                key: format!("rule {i}").into(),
                value: "v".repeat(30).into(),
            })
            .collect();
        status
    }

    fn hear(responder: &UgpResponder, bytes: &[u8]) -> (Verdict, Vec<u8>) {
        let mut out = Vec::new();
        let verdict = responder.answer(
            "192.0.2.7:50000".parse().unwrap(),
            Epoch(0),
            bytes,
            &mut out,
        );
        assert_eq!(matches!(verdict, Verdict::Reply { .. }), !out.is_empty());
        (verdict, out)
    }

    fn query(responder: &UgpResponder, flags: &[u8]) -> Vec<u8> {
        let request = [b"\xFF\xFFUGP\0\x01\x01", flags].concat();
        let (verdict, out) = hear(responder, &request);
        assert_eq!(verdict, Verdict::Reply { verified: false });
        out
    }

    /// The bytes are leaked: an answer borrows from them.
    fn given(bytes: &[u8]) -> QueryReply<'static> {
        let mut notes = Notes::default();
        match Reply::read(bytes.to_vec().leak(), &mut notes) {
            Ok(Reply::Query(given)) if notes.met().count() == 0 => given,
            other => panic!("{other:?} {notes:?}"),
        }
    }

    #[test]
    fn worked_answers() {
        let mut status = status(0, 0);
        status.players.online = None;
        let player = |name| Player::named(Text::unformatted(name));
        status.players.set_list([player("Al"), player("Bo")].into());
        status.rules = [Rule {
            key: "Owner".into(),
            value: "Me".into(),
        }]
        .into();
        let responder = UgpResponder::new(&status, &UgpConfig::default());
        assert_eq!(
            query(&responder, b"\x09\x6C\x07"),
            b"\xFF\xFFUGP\0\x01\x81\x01\x09\x6C\x05Test\0\x03DM\0\x02\x20\x01\x06Owner\0\x03Me\0"
        );
        assert_eq!(
            query(&responder, b"\x03\x6C\x7F\x3D"),
            b"\xFF\xFFUGP\0\x01\x81\x01\x03\x6C\x05Test\0\x03DM\0\x02\x20\x02\x03\0\x03Al\0\x01\x03Bo\0"
        );
        assert_eq!(query(&responder, b"\0"), b"\xFF\xFFUGP\0\x01\x81\x01\0");
        assert_eq!(
            hear(&responder, b"\xFF\xFFUGP\0\x01\0").1,
            b"\xFF\xFFUGP\0\x01\x80"
        );
        // Players by name only, by id only, and by nothing that we give.
        assert_eq!(
            &query(&responder, b"\x02\x02")[9..],
            b"\x02\x02\x02\x03Al\0\x03Bo\0"
        );
        assert_eq!(&query(&responder, b"\x02\x01")[9..], b"\x02\x02\x01\0\x01");
        assert_eq!(&query(&responder, b"\x02\x3C")[9..], b"\x02\x02\0");
    }

    #[test]
    fn what_is_disputed_is_never_given() {
        let mut status = status(2, 1);
        status.version = Some("1.0".into());
        status.extra.push(Extra::new("password", true));
        let responder = UgpResponder::new(&status, &UgpConfig::default());
        for flags in 0..=u8::MAX {
            for fields in 0..=u8::MAX {
                let asked = [&[flags], &[fields; 5][..]].concat();
                let answer = query(&responder, &asked);
                let given = given(&answer);
                assert_eq!(given.sections & !(flags & 0x0B), 0);
                assert_eq!(given.server.is_some(), flags & section::SERVER != 0);
                if given.server.is_some() {
                    assert_eq!(answer[10], fields & FIELDS);
                }
            }
        }
    }

    #[test]
    fn only_requests_are_answered() {
        let responder = UgpResponder::new(&status(3, 3), &UgpConfig::default());
        let answer = query(&responder, b"\x03\x7D\x7F\x3D");
        assert_eq!(hear(&responder, &answer).0, Verdict::Drop("oversized"));
        assert_eq!(
            hear(&responder, &answer[..60]).0,
            Verdict::Drop("malformed"),
            "two servers never talk"
        );
        let pong = hear(&responder, b"\xFF\xFFUGP\0\x01\0").1;
        assert_eq!(hear(&responder, &pong).0, Verdict::Drop("malformed"));

        let mut request = b"\xFF\xFFUGP\0\x01\x01\x0B\x7D\x7F\x3D\x07".to_vec();
        let full = request.len();
        request.resize(100, 0xAA);
        for length in 0..=request.len() {
            let expected = match length {
                0 | 1 => Verdict::Pass,
                _ if length < full => Verdict::Drop("malformed"),
                _ if length <= MAX_REQUEST => Verdict::Reply { verified: false },
                _ => Verdict::Drop("oversized"),
            };
            assert_eq!(hear(&responder, &request[..length]).0, expected, "{length}");
        }
        for other in [
            &b"\xFE\xFD\x09\x01\x02\x03\x04"[..],
            b"\xFFx",
            b"game traffic",
        ] {
            assert_eq!(hear(&responder, other).0, Verdict::Pass);
        }
        assert_eq!(
            hear(&responder, b"\xFF\xFF\xFF\xFFTSource").0,
            Verdict::Drop("malformed")
        );
        assert_eq!(
            hear(&responder, b"\xFF\xFFUGP\0\x02\0").0,
            Verdict::Drop("malformed")
        );
    }

    #[test]
    fn past_the_cap_the_list_goes_first_and_whole_then_rules_from_the_end() {
        let everything = b"\x0B\x7D\x03\x07";
        let free = UgpConfig {
            max_reply: MAX_REPLY,
            ..UgpConfig::default()
        };
        let status = status(20, 20);
        let length = query(&UgpResponder::new(&status, &free), everything).len();
        let at = |max_reply| {
            let responder = UgpResponder::new(
                &status,
                &UgpConfig {
                    max_reply,
                    ..UgpConfig::default()
                },
            );
            let answer = query(&responder, everything);
            assert!(answer.len() <= max_reply, "{} > {max_reply}", answer.len());
            let given = given(&answer);
            (
                given.players.map_or(0, |list| list.len()),
                given.rules.unwrap().len(),
            )
        };
        assert_eq!(at(length), (20, 20));
        assert_eq!(at(length - 1), (0, 20));
        let mut rules = 20;
        for max_reply in (MIN_REPLY..length).rev() {
            let (players, now) = at(max_reply);
            assert_eq!(players, 0);
            assert!(now == rules || now + 1 == rules, "one rule at a time");
            rules = now;
        }
        assert_eq!(rules, 0);
    }

    #[test]
    fn short_replies_have_name_and_counts_and_at_most_3_times_the_request() {
        let mut status = status(3, 3);
        let responder = UgpResponder::new(&status, &UgpConfig::default());
        let short = |responder: &UgpResponder, request: &[u8]| {
            let mut out = Vec::new();
            responder.short_reply(request, &mut out).then_some(out)
        };
        let request = b"\xFF\xFFUGP\0\x01\x01\x0B\x7D\x7F\x3D\x07";
        assert_eq!(
            short(&responder, request).unwrap(),
            b"\xFF\xFFUGP\0\x01\x81\x01\x01\x64\x05Test\0\x03\x20"
        );
        status.name = Some(Text::unformatted("\u{E9}".repeat(1000)));
        let responder = UgpResponder::new(&status, &UgpConfig::default());
        for flags in 0..=u8::MAX {
            for fields in 0..=u8::MAX {
                for length in 10..=14 {
                    let mut request = [b"\xFF\xFFUGP\0\x01\x01", &[flags, fields][..]].concat();
                    request.resize(length, fields);
                    let Some(reply) = short(&responder, &request) else {
                        assert!(flags & section::SERVER == 0 || length < 14);
                        continue;
                    };
                    assert!(
                        reply.len() + 28 <= (request.len() + 28) * 3,
                        "{}",
                        reply.len()
                    );
                    given(&reply);
                }
            }
        }
        assert_eq!(short(&responder, b"\xFF\xFFUGP\0\x01\0"), None, "a ping");
        assert_eq!(
            short(&responder, b"\xFF\xFFUGP\0\x01\x01\x08\x07"),
            None,
            "rules only"
        );
        assert_eq!(short(&responder, b"game traffic"), None);
    }

    #[test]
    fn no_request_draws_more_than_the_cap() {
        let mut status = status(300, 300);
        let long = "\u{E9}".repeat(1000);
        status.name = Some(Text::unformatted(long.clone()));
        (status.game, status.mode, status.map) = (
            Some(long.clone().into()),
            Some(long.clone().into()),
            Some(long.into()),
        );
        for max_reply in [MIN_REPLY, 100, DEFAULT_REPLY, 1400, 20_000, MAX_REPLY] {
            let responder = UgpResponder::new(
                &status,
                &UgpConfig {
                    max_reply,
                    ..UgpConfig::default()
                },
            );
            for flags in 0..=0x0F {
                let answer = query(&responder, &[flags, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
                assert!(answer.len() <= max_reply, "{} > {max_reply}", answer.len());
                let given = given(&answer);
                assert_eq!(given.server.is_some(), flags & section::SERVER != 0);
                assert_eq!(given.rules.is_some(), flags & section::RULES != 0);
                let counted = given.server.and_then(|server| server.online);
                assert!(counted.is_none_or(|online| online == 255));
                assert!(given.players.is_none_or(|list| list.len() == 255));
            }
        }
        let figure = super::super::INFO.amplification;
        assert_eq!(
            (figure.request, figure.reply),
            (10, UgpConfig::default().max_reply)
        );
    }

    #[test]
    fn a_list_that_is_not_all_players_is_left_out() {
        let mut status = status(3, 0);
        for (online, listed) in [
            (Some(3), true),
            (None, true),
            (Some(50), false),
            (Some(2), false),
            (Some(-1), false),
        ] {
            status.players.online = online;
            let given = given(&query(
                &UgpResponder::new(&status, &UgpConfig::default()),
                b"\x03\x20\x03",
            ));
            let count = online.unwrap_or(3).max(0) as u8;
            assert_eq!(given.server.unwrap().online, Some(count));
            assert_eq!(given.players.map(|list| list.len()), listed.then_some(3));
        }
        status.players = crate::Players::default();
        let responder = UgpResponder::new(&status, &UgpConfig::default());
        assert_eq!(&query(&responder, b"\x03\x20\x03")[9..], b"\x03\x20\0\0");
    }

    #[test]
    fn text_travels_in_one_line_and_cut_between_characters() {
        let mut status = status(0, 0);
        status.name = None;
        status.motd = Some(Text::legacy("\n\u{A7}aHel\0lo\x1b\nworld"));
        status.mode = Some("a\r\nb\0".into());
        status.rules = [Rule {
            key: "k\0".into(),
            value: "\u{E9}".repeat(200).into(),
        }]
        .into();
        status.players.online = None;
        let mut player = Player::named(Text::unformatted("A\tl\0"));
        player.extra = [Extra::new("id", 200)].into();
        status.players.list = [
            player,
            Player::named(Text::unformatted("")),
            Player::default(),
        ]
        .into();
        let given = given(&query(
            &UgpResponder::new(&status, &UgpConfig::default()),
            b"\x0B\x0D\x03\x07",
        ));
        let server = given.server.unwrap();
        assert_eq!(server.name.unwrap().text().raw(), "Hello");
        assert_eq!(server.mode.unwrap().text().raw(), "a b");
        assert_eq!(
            given.rules.unwrap(),
            [Rule {
                key: "k".into(),
                value: "\u{E9}".repeat(127).into()
            }]
        );
        let players = given.players.unwrap();
        let shown: Vec<_> = players
            .iter()
            .map(|player| (player.extra[0].value.to_string(), player.name.raw()))
            .collect();
        assert_eq!(
            shown,
            [("200".into(), "Al"), ("1".into(), ""), ("2".into(), "")]
        );
    }

    #[test]
    fn options_are_checked() {
        let read = |options: Options| UgpConfig::read(&options).map_err(|error| error.to_string());
        let none = Options::default;
        assert_eq!(read(none()), Ok(UgpConfig::default()));
        assert_eq!(
            read(none().with("max-reply", 64)).map(|config| config.max_reply),
            Ok(64)
        );
        assert!(
            read(none().with("max-reply", 63))
                .unwrap_err()
                .contains("64 to 65507")
        );
        assert_eq!(
            read(none().with("game", "mafia:one")).map(|config| config.game),
            Ok(Some(10))
        );
        assert_eq!(
            read(none().with("game", 99)).map(|config| config.game),
            Ok(Some(99))
        );
        assert!(
            read(none().with("game", 256))
                .unwrap_err()
                .contains("0 to 255")
        );
        assert!(
            read(none().with("game", "doom"))
                .unwrap_err()
                .contains("\"gta:iii\", \"gta:vc\"")
        );
        assert!(
            read(none().with("challenge", true))
                .unwrap_err()
                .contains("known are max-reply")
        );
    }

    #[test]
    fn the_game_is_the_options_the_status_or_unknown() {
        let game = |status: &Status, game| {
            let responder = UgpResponder::new(
                status,
                &UgpConfig {
                    game,
                    ..UgpConfig::default()
                },
            );
            given(&query(&responder, b"\0")).game
        };
        let mut status = Status::default();
        assert_eq!(game(&status, None), 255);
        status.game = Some("Grand Theft Auto: Connected".into());
        assert_eq!(game(&status, None), 255);
        status.game = Some("gta:sa".into());
        assert_eq!(game(&status, None), 3);
        status.extra.push(Extra::new("game-id", 6));
        assert_eq!(game(&status, None), 6);
        assert_eq!(game(&status, Some(99)), 99);
    }
}
