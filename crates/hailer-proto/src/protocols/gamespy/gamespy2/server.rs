//! The responder: one datagram of at most `max-reply` bytes, default 1,400 (spec/gamespy2.md#6).

use super::message::{MAX_REQUEST, Request};
use crate::model::Status;
use crate::protocol::{Responder, Verdict};
use crate::protocols::gamespy::qr2::{self, MAX_ECHO, Selector, SessionId, TYPE_ECHO_REPLY};
use crate::protocols::gamespy::{Dialect, Outgoing, Row};
use crate::token::Epoch;
use crate::wire::{Notes, Writer};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Limit of the fields of a table.
const MAX_COLUMNS: usize = 16;
/// Longest reply in bytes. By default: no IP fragments on usual paths.
pub type MaxReply = crate::protocol::MaxReply<576, 1_400>;
/// Bytes of a reply besides its pairs, with empty tables.
const FRAME_BYTES: usize = qr2::REPLY_HEADER + 1 + 2 * EMPTY_TABLE.len();
/// A table without rows and fields.
const EMPTY_TABLE: &[u8] = &[0, 0, 0];
/// Bytes of IP and UDP headers, for the length of short replies.
const HEADERS: usize = 28;

const DIALECT: Dialect = Dialect {
    ends: &['\0'],
    score: "score",
    has_slots: false,
    needs_members: true,
    is_reserved: |_| false,
};

/// Responder for one server. Keys and tables are encoded once.
#[derive(Debug)]
pub struct GameSpy2Responder {
    max_reply: usize,
    /// Pairs, each with two NULs, without the empty key at the end.
    pairs: Vec<u8>,
    /// End of each pair in `pairs`.
    pair_ends: Vec<usize>,
    /// Number of pairs before the rules.
    known_pairs: usize,
    players: Table,
    teams: Table,
    /// Pairs of short replies, without the name.
    short: Vec<u8>,
    short_name: Vec<u8>,
}

/// A player or team table.
#[derive(Debug, Default)]
struct Table {
    /// Field names and the empty name.
    fields: Vec<u8>,
    rows: Vec<u8>,
    /// End of each row in `rows`.
    ends: Vec<usize>,
}

/// Without the defaults of members that a player lacks.
const SHORT_DIALECT: Dialect = Dialect {
    needs_members: false,
    ..DIALECT
};

impl GameSpy2Responder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, max_reply: MaxReply) -> Self {
        let responder = Self::with(&Outgoing::new(status, &DIALECT), max_reply);
        let tables = responder.players.length() + responder.teams.length();
        if responder.pairs.len() + tables <= responder.max_reply - FRAME_BYTES {
            return responder;
        }
        // More players fit without the defaults.
        Self::with(&Outgoing::new(status, &SHORT_DIALECT), max_reply)
    }

    fn with(outgoing: &Outgoing, max_reply: MaxReply) -> Self {
        let max_reply = max_reply.bytes();
        let mut pairs = Vec::new();
        let mut pair_ends = Vec::new();
        for pair in outgoing.pairs() {
            write_pair(pair, outgoing, &mut pairs);
            if pairs.len() > max_reply - FRAME_BYTES {
                break;
            }
            pair_ends.push(pairs.len());
        }
        let find = |key: &str| outgoing.info.iter().find(|(own, _)| own == key);
        let mut short = Vec::new();
        for pair in ["numplayers", "maxplayers"].into_iter().filter_map(find) {
            write_pair(pair, outgoing, &mut short);
        }
        let mut short_name = Vec::new();
        if let Some((_, name)) = find("hostname") {
            outgoing.text(name, &mut short_name);
        }
        Self {
            max_reply,
            players: Table::new(&outgoing.players, "_", outgoing),
            teams: Table::new(&outgoing.teams, "_t", outgoing),
            pairs,
            pair_ends,
            known_pairs: outgoing.basic.len() + outgoing.info.len(),
            short,
            short_name,
        }
    }

    fn write(
        &self,
        session: SessionId,
        [server, players, teams]: [Selector<'_>; 3],
        out: &mut Vec<u8>,
    ) {
        let end = out.len() + self.max_reply;
        qr2::write_reply_header(session, out);
        if server == Selector::All {
            let reserved = match players {
                Selector::All => self.players.length().min(self.max_reply / 2),
                _ => 0,
            };
            out.extend_from_slice(self.pairs(reserved));
            out.push(0);
        }
        if players == Selector::All {
            let room = if teams == Selector::All {
                EMPTY_TABLE.len()
            } else {
                0
            };
            self.players.write(end - room, out);
        }
        if teams == Selector::All {
            self.teams.write(end, out);
        }
    }

    /// Returns the pairs. Rules leave `reserved` bytes to the players.
    fn pairs(&self, reserved: usize) -> &[u8] {
        let room = self.max_reply - FRAME_BYTES;
        let fits = |room| {
            self.pair_ends
                .iter()
                .take_while(|end| **end <= room)
                .count()
        };
        let count = fits(room - reserved).max(self.known_pairs.min(self.pair_ends.len()));
        let end = self.pair_ends.get(..count).and_then(<[_]>::last);
        let pairs = self.pairs.get(..end.copied().unwrap_or_default());
        pairs.unwrap_or_default()
    }
}

impl Table {
    fn new(rows: &[Row], suffix: &str, outgoing: &Outgoing) -> Self {
        let columns = Row::columns(rows, MAX_COLUMNS);
        let mut table = Self::default();
        for column in &columns {
            outgoing.text(column, &mut table.fields);
            outgoing.text(suffix, &mut table.fields);
            table.fields.push(0);
        }
        table.fields.push(0);
        for row in rows {
            for column in &columns {
                outgoing.text(row.value(column), &mut table.rows);
                table.rows.push(0);
            }
            table.ends.push(table.rows.len());
        }
        table
    }

    fn length(&self) -> usize {
        2 + self.fields.len() + self.rows.len()
    }

    /// Appends the table with as many rows as fit before `end`.
    fn write(&self, end: usize, out: &mut Vec<u8>) {
        let start = out.len() + 2 + self.fields.len();
        let room = end.saturating_sub(start);
        let count = self.ends.iter().take_while(|end| **end <= room).count();
        if count == 0 {
            out.extend_from_slice(EMPTY_TABLE);
            return;
        }
        out.extend_from_slice(&(count as u16).to_be_bytes());
        out.extend_from_slice(&self.fields);
        let length = self.ends.get(count - 1).copied().unwrap_or_default();
        out.extend_from_slice(self.rows.get(..length).unwrap_or_default());
    }
}

fn write_pair((key, value): &(String, String), outgoing: &Outgoing, out: &mut Vec<u8>) {
    for text in [key, value] {
        outgoing.text(text, out);
        out.push(0);
    }
}

impl Responder for GameSpy2Responder {
    fn answer(&self, _: SocketAddr, _: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        let kind = bytes.get(2);
        if !bytes.starts_with(&qr2::MAGIC)
            || kind.is_none_or(|kind| ![qr2::TYPE_QUERY, qr2::TYPE_ECHO].contains(kind))
        {
            return Verdict::Pass;
        }
        if bytes.len() > MAX_REQUEST {
            return Verdict::Drop("oversized");
        }
        match Request::read(bytes, &mut Notes::discarding()) {
            Err(_) => return Verdict::Drop("malformed"),
            Ok(Request::Echo { session, text }) => {
                let text = text.get(..MAX_ECHO).unwrap_or(text);
                Writer(out)
                    .u8(TYPE_ECHO_REPLY)
                    .bytes(&session.0)
                    .bytes(text);
            }
            Ok(Request::Query {
                session,
                server,
                players,
                teams,
            }) => {
                let selectors = [server, players, teams];
                // No known client sends numbers of keys, and only the request tells what the values
                // of the reply mean.
                if selectors.iter().any(|selector| !selector.is_simple()) {
                    return Verdict::Drop("unsupported");
                }
                if !selectors.contains(&Selector::All) {
                    return Verdict::Drop("empty");
                }
                self.write(session, selectors, out);
            }
        }
        Verdict::Reply { is_verified: false }
    }

    /// Returns the player counts and as much of the name as fits, with empty tables.
    fn short_reply(&self, bytes: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(Request::Query {
            session,
            server: Selector::All,
            players,
            teams,
        }) = Request::read(bytes, &mut Notes::discarding())
        else {
            return false;
        };
        let tables = [players, teams]
            .into_iter()
            .filter(|table| *table == Selector::All);
        let tables = EMPTY_TABLE.len() * tables.count();
        let limit = 3 * (bytes.len() + HEADERS) - HEADERS;
        let start = out.len();
        qr2::write_reply_header(session, out);
        out.extend_from_slice(&self.short);
        out.extend_from_slice(b"hostname\0");
        let used = out.len() - start + 2 + tables;
        let room = limit.saturating_sub(used).min(self.short_name.len());
        out.extend_from_slice(self.short_name.get(..room).unwrap_or_default());
        out.extend_from_slice(&[0, 0]);
        out.extend(core::iter::repeat_n(0, tables));
        let fits = out.len() - start <= limit;
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
    use crate::protocols::gamespy::Reply;
    use crate::protocols::gamespy::gamespy2::message::{Sections, parse_reply};
    use alloc::format;

    fn status(players: usize) -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Harbour Keep")),
            ..Status::default()
        };
        let player = |i: usize| Player {
            score: Some(i as i64),
            team: Some(["Red", "Blue"][i % 2].into()),
            ..Player::named(Text::unformatted(format!("player {i}")))
        };
        status.players.set_list((0..players).map(player).collect());
        status
    }

    fn new(status: &Status) -> GameSpy2Responder {
        GameSpy2Responder::new(status, MaxReply::default())
    }

    fn answer(responder: &GameSpy2Responder, body: &[u8]) -> (Verdict, Vec<u8>) {
        let request = [b"\xFE\xFD\0HAIL".as_slice(), body].concat();
        let from = "192.0.2.7:50000".parse().unwrap();
        let mut out = Vec::new();
        (responder.answer(from, Epoch(1), &request, &mut out), out)
    }

    #[test]
    fn sections_are_sent_as_requested() {
        let responder = new(&status(2));
        let pairs =
            b"gamever\0\0hostname\0Harbour Keep\0mapname\0\0gametype\0\0numplayers\x002\0password\x000\0\0";
        let players =
            b"\0\x02player_\0score_\0ping_\0team_\0\0player 0\x000\x000\x000\0player 1\x001\x000\x001\0";
        let teams = b"\0\x02team_t\0score_t\0\0Red\x000\0Blue\x000\0";
        for (body, expected) in [
            (b"\xFF\0\0".as_slice(), pairs.to_vec()),
            (b"\0\xFF\0", players.to_vec()),
            (b"\0\0\xFF", teams.to_vec()),
            (b"\xFF\xFF\xFF", [pairs.as_slice(), players, teams].concat()),
            (
                b"\xFF\xFF\xFF\x01",
                [pairs.as_slice(), players, teams].concat(),
            ),
        ] {
            let (verdict, reply) = answer(&responder, body);
            assert_eq!(verdict, Verdict::Reply { is_verified: false });
            assert_eq!(reply, [b"\0HAIL".as_slice(), &expected].concat());
        }
        assert_eq!(answer(&responder, b"\0\0\0").0, Verdict::Drop("empty"));
        assert_eq!(
            answer(&responder, b"\x01\x01\0\0").0,
            Verdict::Drop("unsupported")
        );
        assert_eq!(answer(&responder, b"\xFF\0").0, Verdict::Drop("malformed"));
        assert_eq!(answer(&responder, &[0; 250]).0, Verdict::Drop("oversized"));
    }

    #[test]
    fn an_echo_has_at_most_32_bytes() {
        let responder = new(&status(0));
        let mut out = Vec::new();
        let from = "192.0.2.7:50000".parse().unwrap();
        let request = [b"\xFE\xFD\x02HAIL".as_slice(), &[b'x'; 40]].concat();
        responder.answer(from, Epoch(1), &request, &mut out);
        assert_eq!(out, [b"\x05HAIL".as_slice(), &[b'x'; 32]].concat());
        for other in [b"\xFE\xFD\x09HAIL".as_slice(), b"\xFE\xFD", b"\0HAIL"] {
            assert_eq!(
                responder.answer(from, Epoch(1), other, &mut out),
                Verdict::Pass
            );
        }
    }

    #[test]
    fn the_count_is_that_of_the_rows_that_fit() {
        let responder = new(&status(300));
        let (_, bytes) = answer(&responder, b"\xFF\xFF\xFF");
        assert!(
            (MaxReply::DEFAULT - 30..=MaxReply::DEFAULT).contains(&bytes.len()),
            "{}",
            bytes.len()
        );
        let mut reply = Reply::default();
        let mut notes = Notes::default();
        let all = Sections {
            has_server: true,
            has_players: true,
            has_teams: true,
        };
        parse_reply(&bytes, all, &mut reply, &mut notes).unwrap();
        assert_eq!(notes.met().count(), 0);
        assert!(reply.players.len() > 50);
        let limit = MaxReply::new(10_000);
        let responder = GameSpy2Responder::new(&status(300), limit);
        let (_, bytes) = answer(&responder, b"\xFF\xFF\xFF");
        let mut reply = Reply::default();
        parse_reply(&bytes, all, &mut reply, &mut notes).unwrap();
        assert_eq!((reply.players.len(), reply.teams.len()), (300, 2));
        assert_eq!(notes.met().count(), 0);
    }

    #[test]
    fn rules_leave_room_for_players() {
        let all = Sections {
            has_server: true,
            has_players: true,
            has_teams: true,
        };
        let read = |players, body, sections| {
            let mut status = status(players);
            status.rules = (0..200)
                .map(|i| crate::model::Rule {
                    key: format!("rule{i}").into(),
                    value: "value".into(),
                })
                .collect();
            let (_, bytes) = answer(&new(&status), body);
            assert!((MaxReply::DEFAULT - 50..=MaxReply::DEFAULT).contains(&bytes.len()));
            let mut reply = Reply::default();
            parse_reply(&bytes, sections, &mut reply, &mut Notes::default()).unwrap();
            (reply.pairs.len(), reply.players.len())
        };
        let (pairs, players) = read(3, b"\xFF\xFF\xFF", all);
        assert!(pairs > 80 && players == 3, "{pairs} {players}");
        // Many players have at most half of the reply.
        let (pairs, players) = read(300, b"\xFF\xFF\xFF", all);
        assert!(pairs > 40 && players > 25, "{pairs} {players}");
        // Alone, rules have all of it.
        let (pairs, _) = read(3, b"\xFF\0\0", Sections::INFO);
        assert!(pairs > 90, "{pairs}");
    }

    /// rust gamedig refuses the reply otherwise.
    #[test]
    fn players_have_scores_pings_and_teams_and_teams_have_scores() {
        let mut status = status(2);
        status.players.list[1].team = None;
        let (_, reply) = answer(&new(&status), b"\0\xFF\xFF");
        let players =
            b"\0\x02player_\0score_\0ping_\0team_\0\0player 0\x000\x000\x000\0player 1\x001\x000\x00255\0";
        let teams = b"\0\x01team_t\0score_t\0\0Red\x000\0";
        assert_eq!(reply, [b"\0HAIL".as_slice(), players, teams].concat());
    }

    #[test]
    fn short_replies_have_the_counts_and_empty_tables() {
        let mut status = status(3);
        status.name = Some(Text::unformatted("n".repeat(200)));
        let responder = new(&status);
        for (body, sections) in [
            (b"\xFF\0\0", Sections::INFO),
            (
                b"\xFF\xFF\xFF",
                Sections {
                    has_server: true,
                    has_players: true,
                    has_teams: true,
                },
            ),
        ] {
            let request = [b"\xFE\xFD\0HAIL".as_slice(), body].concat();
            let mut out = Vec::new();
            assert!(responder.short_reply(&request, &mut out));
            assert_eq!(out.len(), 3 * (request.len() + 28) - 28);
            let mut reply = Reply::default();
            let mut notes = Notes::default();
            parse_reply(&out, sections, &mut reply, &mut notes).unwrap();
            assert_eq!(notes.met().count(), 0);
            assert_eq!(reply.pairs[0], (&b"numplayers"[..], &b"3"[..]));
            assert!(reply.pairs[1].1.starts_with(b"nnnn"));
        }
        let lists = b"\xFE\xFD\0HAIL\0\xFF\xFF";
        assert!(!responder.short_reply(lists, &mut Vec::new()));
    }
}
