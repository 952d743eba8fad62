//! The responder: replies in the order of the vendor's kit (spec/gamespy1.md#5).

use super::message::{self, MAX_REQUEST, Request, group};
use crate::model::Status;
use crate::protocol::{Responder, Verdict};
use crate::protocols::gamespy::{Dialect, Outgoing, Row, has_index};
use crate::token::Epoch;
use crate::wire::Notes;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Longest reply in bytes. By default: no IP fragments on usual paths.
pub type MaxReply = crate::protocol::MaxReply<576, 1_400>;
/// Room for end mark and query id: `\final\\queryid\9999.1`.
const END_ROOM: usize = 23;
/// Bytes of IP and UDP headers, for the length of short replies.
const HEADERS: usize = 28;

/// Responder for one server. All pairs are encoded once; a reply copies those of the requested
/// groups.
#[derive(Debug)]
pub struct GameSpy1Responder {
    /// Longest reply without its end, in bytes.
    room: usize,
    /// Query id. Replies to repeated requests are equal, so they need no other id.
    query: u32,
    /// Encoded pairs. A player's or team's pairs are one entry, which is never split.
    bytes: Vec<u8>,
    /// Group and end in `bytes` of each entry.
    entries: Vec<(u8, usize)>,
    /// Bytes that rules leave to players and teams in a reply with both.
    reserved: usize,
    /// Start of short replies: the counts.
    short: Vec<u8>,
    /// Name in short replies.
    short_name: Vec<u8>,
}

const DIALECT: Dialect = Dialect {
    ends: &['\\', '\0'],
    score: "frags",
    has_slots: true,
    needs_members: true,
    is_reserved: |key| matches!(key, "final" | "queryid" | "echo") || has_index(key),
};

/// Without the defaults of members that a player lacks.
const SHORT_DIALECT: Dialect = Dialect {
    needs_members: false,
    ..DIALECT
};

impl GameSpy1Responder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, max_reply: MaxReply) -> Self {
        let responder = Self::with(&Outgoing::new(status, &DIALECT), max_reply);
        if responder.bytes.len() <= responder.room {
            return responder;
        }
        // More players fit without the defaults.
        Self::with(&Outgoing::new(status, &SHORT_DIALECT), max_reply)
    }

    fn with(outgoing: &Outgoing, max_reply: MaxReply) -> Self {
        let mut responder = Self {
            room: max_reply.bytes() - END_ROOM,
            query: 0,
            bytes: Vec::new(),
            entries: Vec::new(),
            reserved: 0,
            short: Vec::new(),
            short_name: Vec::new(),
        };
        for (group, pairs) in [
            (group::BASIC, &outgoing.basic),
            (group::INFO, &outgoing.info),
            (group::RULES, &outgoing.rules),
        ] {
            for pair in pairs {
                responder.add(group, core::iter::once(pair), outgoing);
            }
        }
        let end_of_rules = responder.bytes.len();
        let players = outgoing.players.iter().map(|row| keys(row, "", "player"));
        let teams = outgoing.teams.iter().map(|row| keys(row, "t", "teamname"));
        for row in players.chain(teams) {
            responder.add(group::PLAYERS, row.iter(), outgoing);
        }
        responder.reserved = (responder.bytes.len() - end_of_rules).min(responder.room / 2);
        let value = |key: &str| outgoing.info.iter().find(|(own, _)| own == key);
        for (key, value) in ["numplayers", "maxplayers"].into_iter().filter_map(value) {
            write_pair(key, value, outgoing, &mut responder.short);
        }
        if let Some((_, name)) = value("hostname") {
            outgoing.text(name, &mut responder.short_name);
        }
        responder.query = checksum(&responder.bytes);
        responder
    }

    fn add<'a>(
        &mut self,
        group: u8,
        pairs: impl Iterator<Item = &'a (String, String)>,
        outgoing: &Outgoing,
    ) {
        let start = self.bytes.len();
        for (key, value) in pairs {
            write_pair(key, value, outgoing, &mut self.bytes);
        }
        // An entry that fits no datagram is left out.
        if self.bytes.len() - start > self.room {
            self.bytes.truncate(start);
        } else {
            self.entries.push((group, self.bytes.len()));
        }
    }

    /// Appends the reply: the entries of these groups, until one does not fit. Rules that do not fit
    /// before the players are left out.
    fn write(&self, groups: u8, out: &mut Vec<u8>) {
        let end_of_pairs = out.len() + self.room;
        let has_players = groups & group::PLAYERS != 0;
        let mut end_of_rules = end_of_pairs - if has_players { self.reserved } else { 0 };
        let mut start = 0;
        for &(group, end) in &self.entries {
            let entry = self.bytes.get(start..end).unwrap_or_default();
            start = end;
            if group & groups == 0 {
                continue;
            }
            let end = out.len() + entry.len();
            if group == group::RULES && end > end_of_rules {
                // No later one either.
                end_of_rules = 0;
                continue;
            }
            if end > end_of_pairs {
                break;
            }
            out.extend_from_slice(entry);
        }
        message::write_end(self.query, out);
    }
}

/// Returns the keys of a row with its number, and the values.
fn keys(row: &Row, prefix: &str, name: &str) -> Vec<(String, String)> {
    let fields = row.fields.iter().enumerate();
    fields
        .map(|(i, (field, value))| {
            let key = match i {
                // The name comes first.
                0 => format!("{name}_{}", row.number),
                _ => format!("{field}_{prefix}{}", row.number),
            };
            (key, value.clone())
        })
        .collect()
}

fn write_pair(key: &str, value: &str, outgoing: &Outgoing, out: &mut Vec<u8>) {
    out.push(message::SEPARATOR);
    outgoing.text(key, out);
    out.push(message::SEPARATOR);
    outgoing.text(value, out);
}

/// Returns a number below 10,000 that changes with the status (FNV-1a).
fn checksum(bytes: &[u8]) -> u32 {
    let hash = bytes.iter().fold(0x811C_9DC5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    hash % 10_000
}

fn request(bytes: &[u8]) -> Result<Request<'_>, &'static str> {
    if bytes.len() > MAX_REQUEST {
        return Err("oversized");
    }
    // Two servers must not be made to answer each other.
    if message::is_reply(bytes) {
        return Err("reply");
    }
    Request::read(bytes, &mut Notes::discarding()).map_err(|_| "malformed")
}

impl Responder for GameSpy1Responder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        if !message::starts_with_a_word(bytes) {
            return Verdict::Pass;
        }
        match request(bytes) {
            Err(reason) => return Verdict::Drop(reason),
            Ok(Request { groups: 0, echo }) => {
                out.extend_from_slice(b"\\echo\\");
                out.extend_from_slice(echo.unwrap_or_default());
                message::write_end(self.query, out);
            }
            Ok(Request { groups, .. }) => self.write(groups, out),
        }
        Verdict::Reply { is_verified: false }
    }

    /// Returns the player counts, and as much of the name as fits.
    fn short_reply(&self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        let is_info = request(bytes).is_ok_and(|request| request.groups & group::INFO != 0);
        let limit = 3 * (bytes.len() + HEADERS) - HEADERS;
        let start = out.len();
        if is_info {
            out.extend_from_slice(&self.short);
            out.extend_from_slice(b"\\hostname\\");
            let used = out.len() - start + END_ROOM;
            let room = limit.saturating_sub(used).min(self.short_name.len());
            out.extend_from_slice(self.short_name.get(..room).unwrap_or_default());
            message::write_end(self.query, out);
        }
        let fits = is_info && out.len() - start <= limit;
        if !fits {
            out.truncate(start);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Player, Text};

    fn status(players: usize) -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Harbour Keep")),
            ..Status::default()
        };
        status.players.max = Some(64);
        status.players.set_list(
            (0..players)
                .map(|i| Player::named(Text::unformatted(format!("player {i}"))))
                .collect(),
        );
        status
    }

    fn new(status: &Status) -> GameSpy1Responder {
        GameSpy1Responder::new(status, MaxReply::default())
    }

    fn answer(responder: &GameSpy1Responder, request: &[u8]) -> (Verdict, String) {
        let from = "192.0.2.7:50000".parse().unwrap();
        let mut out = Vec::new();
        let verdict = responder.answer(from, Epoch(1), request, &mut out);
        (verdict, String::from_utf8(out).unwrap())
    }

    /// Encrypted datagrams of a game on the same port start with any byte.
    #[test]
    fn bytes_after_a_backslash_belong_to_the_game() {
        let responder = new(&status(1));
        for bytes in [&b"\\\xB3\x51\x0D\x95\xF1\xD2\x33"[..], b"\\status\x00\\"] {
            assert_eq!(answer(&responder, bytes).0, Verdict::Pass, "{bytes:?}");
        }
        assert_ne!(answer(&responder, b"\\unknown\\").0, Verdict::Pass);
    }

    #[test]
    fn groups_are_sent_in_the_order_of_the_kit() {
        let mut status = status(1);
        status.game = Some("ut".into());
        status.rules = alloc::vec![crate::model::Rule {
            key: "timelimit".into(),
            value: "20".into()
        }];
        let responder = new(&status);
        let (verdict, reply) = answer(&responder, b"\\status\\");
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        let id = format!("\\queryid\\{}.1", responder.query);
        assert_eq!(
            reply,
            String::from(
                "\\gamename\\ut\\gamever\\\\hostname\\Harbour Keep\\mapname\\\\gametype\\\\numplayers\\1\\maxplayers\\64\
                 \\password\\0\\timelimit\\20\\player_0\\player 0\\frags_0\\0\\ping_0\\0\\team_0\\255\\final\\"
            ) + &id
        );
        let (_, reply) = answer(&responder, b"\\rules\\\\basic\\");
        assert_eq!(
            reply,
            String::from("\\gamename\\ut\\gamever\\\\timelimit\\20\\final\\") + &id
        );
        let (_, reply) = answer(&responder, b"\\echo\\mill");
        assert_eq!(reply, String::from("\\echo\\mill\\final\\") + &id);
        for (request, reason) in [
            (reply.as_bytes(), "reply"),
            (b"\\unknown\\", "reply"),
            (b"\\status", "malformed"),
            (
                &[b"\\status\\".as_slice(), &[b'x'; 300]].concat(),
                "oversized",
            ),
        ] {
            assert_eq!(answer(&responder, request).0, Verdict::Drop(reason));
        }
        assert_eq!(answer(&responder, b"status").0, Verdict::Pass);
    }

    #[test]
    fn players_that_do_not_fit_are_left_out_whole() {
        let responder = new(&status(200));
        let (_, reply) = answer(&responder, b"\\status\\");
        assert!(reply.len() <= MaxReply::DEFAULT, "{}", reply.len());
        assert!(reply.len() > MaxReply::DEFAULT - 50, "{}", reply.len());
        assert!(reply.contains("\\numplayers\\200\\"));
        let part = message::parse_part(reply.as_bytes(), &mut Notes::default()).unwrap();
        assert!(part.is_final);
        let names = part
            .pairs
            .iter()
            .filter(|(key, _)| key.starts_with(b"player_"));
        assert!(names.count() > 35);
        let limit = MaxReply::new(10_000);
        let (_, reply) = answer(&GameSpy1Responder::new(&status(200), limit), b"\\status\\");
        assert!(reply.contains("\\player_199\\"), "{}", reply.len());
    }

    #[test]
    fn rules_leave_room_for_players() {
        let mut status = status(3);
        status.rules = (0..200)
            .map(|i| crate::model::Rule {
                key: format!("rule{i}").into(),
                value: "value".into(),
            })
            .collect();
        let count = |reply: &str, key: &str| reply.matches(key).count();
        let (_, reply) = answer(&new(&status), b"\\status\\");
        assert!(reply.len() > MaxReply::DEFAULT - 50, "{}", reply.len());
        assert_eq!(count(&reply, "\\player_"), 3);
        assert!(count(&reply, "\\rule") > 60);
        // Many players have at most half of the reply.
        status.players = self::status(200).players;
        let (_, reply) = answer(&new(&status), b"\\status\\");
        assert!((MaxReply::DEFAULT - 50..=MaxReply::DEFAULT).contains(&reply.len()));
        assert!(count(&reply, "\\rule") > 30, "{reply}");
        assert!(count(&reply, "\\player_") > 10, "{reply}");
        // Alone, rules have all of it.
        let (_, rules) = answer(&new(&status), b"\\rules\\");
        assert!(count(&rules, "\\rule") > 80, "{rules}");
    }

    /// rust gamedig refuses the reply otherwise. If not all fit, more do without the defaults.
    #[test]
    fn players_have_scores_and_pings() {
        let (_, reply) = answer(&new(&status(30)), b"\\players\\");
        assert!(
            reply.contains("\\player_29\\player 29\\team_29\\"),
            "{reply}"
        );
        let mut status = status(2);
        status.players.list[1].score = Some(-3);
        status.players.list[1].latency_ms = Some(40);
        let (_, reply) = answer(&new(&status), b"\\players\\");
        let expected = "\\player_0\\player 0\\frags_0\\0\\ping_0\\0\\team_0\\255\
            \\player_1\\player 1\\frags_1\\-3\\ping_1\\40\\team_1\\255\\final\\";
        assert!(reply.starts_with(expected), "{reply}");
    }

    #[test]
    fn short_replies_have_the_counts() {
        let mut status = status(3);
        status.name = Some(Text::unformatted("n".repeat(200)));
        let responder = new(&status);
        for request in [
            b"\\status\\".as_slice(),
            b"\\info\\",
            b"\\basic\\\\info\\",
            b"\\status\\xserverquery",
        ] {
            let mut out = alloc::vec![7];
            assert!(responder.short_reply(request, &mut out), "{request:?}");
            let reply = &out[1..];
            assert!(
                reply.len() + 28 <= 3 * (request.len() + 28),
                "{}",
                reply.len()
            );
            let part = message::parse_part(reply, &mut Notes::default()).unwrap();
            assert!(part.is_final);
            assert_eq!(part.pairs[0], (&b"numplayers"[..], &b"3"[..]));
            assert_eq!(part.pairs[2].0, b"hostname");
        }
        for request in [b"\\rules\\".as_slice(), b"\\echo\\x", b"\\final\\"] {
            assert!(!responder.short_reply(request, &mut Vec::new()));
        }
    }

    #[test]
    fn text_cannot_break_framing() {
        let mut status = status(0);
        status.name = Some(Text::unformatted("a\\numplayers\\9\0b"));
        status.rules = [
            ("final", "1"),
            ("queryid", "1.1"),
            ("echo", ""),
            ("frags_3", "1"),
            ("score_t1", "2"),
            ("NumPlayers", "3"),
            ("", "x"),
            ("a\\b", "c"),
            ("a b", "d"),
        ]
        .map(|(key, value)| crate::model::Rule {
            key: key.into(),
            value: value.into(),
        })
        .into();
        let (_, reply) = answer(&new(&status), b"\\status\\");
        let part = message::parse_part(reply.as_bytes(), &mut Notes::default()).unwrap();
        assert_eq!(part.pairs[1].1, b"a numplayers 9 b");
        assert_eq!(part.pairs.last(), Some(&(&b"a b"[..], &b"c"[..])));
        assert_eq!(part.pairs.len(), 8, "{reply}");
    }
}
