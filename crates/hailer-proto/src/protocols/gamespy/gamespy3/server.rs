//! The responder: challenge tokens, and replies of up to 8 parts (spec/gamespy3.md#8).

use super::message::{self, MAX_PARTS, Request};
use crate::model::Status;
use crate::protocol::{Doc, OptionError, Options, Responder, Verdict};
use crate::protocols::gamespy::qr2::{
    self, Challenges, LAST_PART, MAGIC, MAX_REPLY, REPLY_HEADER, SPLITNUM, TYPE_CHALLENGE,
    TYPE_QUERY,
};
use crate::protocols::gamespy::{Dialect, Outgoing, Row};
use crate::token::{BIND_PORT, Epoch, Keys};
use crate::wire::Notes;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Makes tokens differ from those of other protocols with the same keys.
const PURPOSE: u8 = b'G';
/// Limit of the fields of a table.
const MAX_COLUMNS: usize = 16;
/// Limit of the rows of a table: the number of a row is one byte.
const MAX_ROWS: usize = 255;
/// Length of a query for GameSpy 2, which has no parts and no token.
const UNSPLIT_QUERY_LENGTH: usize = 10;
/// Limit of the parts with server keys, so that there is room for players and teams.
const MAX_PAIR_PARTS: usize = 4;
/// Bytes that end a list and a section.
const END_ROOM: usize = 2;

pub(super) static OPTIONS: &[Doc] = &[
    BIND_PORT,
    Doc::new(
        "challenge",
        "Whether queries need a challenge token (default true). Some clients send none, such as qstat with -gs3; \
           false serves them, with amplification up to ×1018",
    ),
];

/// Configuration of the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GameSpy3Config {
    /// Whether a challenge token is valid only for the port that requested it, not just for the
    /// address.
    pub is_port_bound: bool,
    /// Whether queries need a challenge token.
    pub needs_token: bool,
}

impl Default for GameSpy3Config {
    fn default() -> Self {
        Self {
            is_port_bound: false,
            needs_token: true,
        }
    }
}

impl GameSpy3Config {
    /// Reads the documented options.
    ///
    /// # Errors
    ///
    /// Names the first option that is unknown, of the wrong type or out of range.
    pub fn read(options: &Options) -> Result<Self, OptionError> {
        options.check(OPTIONS)?;
        Ok(Self {
            is_port_bound: options.bool("bind-port", false)?,
            needs_token: options.bool("challenge", true)?,
        })
    }
}

const DIALECT: Dialect = Dialect {
    ends: &['\0'],
    score: "score",
    has_slots: false,
    needs_members: false,
    is_reserved: |key| qr2::is_number_key(key.as_bytes()),
};

/// Responder for one server. Each part is encoded once; answering copies it and writes the session
/// id.
#[derive(Debug)]
pub struct GameSpy3Responder {
    challenges: Challenges,
    needs_token: bool,
    /// Parts without type and session id.
    parts: Vec<Vec<u8>>,
}

impl GameSpy3Responder {
    /// Creates a responder for this status.
    pub fn new(status: &Status, keys: &Keys, config: &GameSpy3Config) -> Self {
        let mut outgoing = Outgoing::new(status, &DIALECT);
        let groups = [&mut outgoing.basic, &mut outgoing.info, &mut outgoing.rules];
        for (_, value) in groups.into_iter().flatten() {
            // Readers would take such values for keys.
            if qr2::is_number_key(value.as_bytes()) {
                value.push(' ');
            }
            if message::is_map_blob(value.as_bytes()) {
                *value = value.replace('=', " ");
            }
        }
        let mut parts = Parts::default();
        parts.add(&[0], &[], MAX_PAIR_PARTS);
        // Like the kit, a part repeats the last entry of the part before it.
        let mut start = alloc::vec![0];
        for (key, value) in outgoing.pairs() {
            let mut pair = Vec::new();
            for text in [key, value] {
                outgoing.text(text, &mut pair);
                pair.push(0);
            }
            if !parts.add(&pair, &start, MAX_PAIR_PARTS) {
                break;
            }
            start.truncate(1);
            start.extend(pair);
        }
        parts.end();
        parts.table(
            1,
            &outgoing.players,
            ["player", "_"],
            MAX_PARTS - 1,
            &outgoing,
        );
        parts.table(2, &outgoing.teams, ["team", "_t"], MAX_PARTS, &outgoing);
        Self {
            challenges: Challenges {
                keys: keys.clone(),
                purpose: PURPOSE,
                is_port_bound: config.is_port_bound,
            },
            needs_token: config.needs_token,
            parts: parts.finish(),
        }
    }

    fn write(&self, session: qr2::SessionId, part: usize, out: &mut Vec<u8>) -> bool {
        let Some(part) = self.parts.get(part) else {
            return false;
        };
        qr2::write_reply_header(session, out);
        out.extend_from_slice(part);
        true
    }
}

/// Sections divided into parts. Every cut is after an entry (spec/gamespy3.md#8).
#[derive(Debug, Default)]
struct Parts {
    /// Complete datagrams of the reply.
    full: Vec<Vec<u8>>,
    current: Vec<u8>,
}

impl Parts {
    /// Appends an entry. If it does not fit, a new part begins with `start` and the entry. Returns
    /// `false` if there would be more than `limit` parts.
    fn add(&mut self, entry: &[u8], start: &[u8], limit: usize) -> bool {
        const ROOM: usize = MAX_REPLY - REPLY_HEADER - SPLITNUM.len() - 1 - END_ROOM;
        if self.current.len() + entry.len() > ROOM {
            if self.full.len() + 1 >= limit {
                return false;
            }
            self.full.push(core::mem::take(&mut self.current));
            self.current.extend_from_slice(start);
        }
        self.current.extend_from_slice(entry);
        true
    }

    /// Appends the end of a list or a section, for which there is always room.
    fn end(&mut self) {
        self.current.push(0);
    }

    fn table(
        &mut self,
        kind: u8,
        rows: &[Row],
        [name, suffix]: [&str; 2],
        limit: usize,
        outgoing: &Outgoing,
    ) {
        let rows = rows.get(..MAX_ROWS).unwrap_or(rows);
        let mut columns = Row::columns(rows, MAX_COLUMNS);
        if columns.is_empty() {
            columns.push(name);
        }
        let mut has_room = self.add(&[kind], &[], limit);
        for column in columns {
            let mut field = Vec::new();
            outgoing.text(column, &mut field);
            outgoing.text(suffix, &mut field);
            field.extend_from_slice(&[0, 0]);
            has_room = has_room && self.add(&field, &[kind], limit);
            if !has_room {
                break;
            }
            // Clients drop the last value of a part, or expect it again in the next one.
            let mut start = [&[kind][..], &field].concat();
            for (number, row) in rows.iter().enumerate() {
                // An empty value would end the list.
                let value = row.value(column);
                let mut entry = Vec::new();
                outgoing.text(if value.is_empty() { " " } else { value }, &mut entry);
                entry.push(0);
                if !self.add(&entry, &start, limit) {
                    has_room = false;
                    break;
                }
                start.truncate(field.len());
                start.push(number as u8);
                start.extend(entry);
            }
            self.end();
        }
        self.end();
    }

    fn finish(mut self) -> Vec<Vec<u8>> {
        self.full.push(self.current);
        let last = self.full.len() - 1;
        let parts = self.full.into_iter().enumerate();
        parts
            .map(|(number, part)| {
                let mark = if number == last { LAST_PART } else { 0 };
                [SPLITNUM.as_slice(), &[number as u8 | mark], &part].concat()
            })
            .collect()
    }
}

impl Responder for GameSpy3Responder {
    fn answer(&self, from: SocketAddr, epoch: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Verdict {
        let kind = bytes.get(2);
        let is_unsplit = kind == Some(&TYPE_QUERY) && bytes.len() == UNSPLIT_QUERY_LENGTH;
        if !bytes.starts_with(&MAGIC) || is_unsplit {
            return Verdict::Pass;
        }
        if kind.is_none_or(|kind| ![TYPE_QUERY, TYPE_CHALLENGE].contains(kind)) {
            return Verdict::Pass;
        }
        match Request::read(bytes, &mut Notes::discarding()) {
            Err(_) => Verdict::Drop("malformed"),
            Ok(Request::Handshake { session }) => {
                qr2::write_challenge(session, self.challenges.token(from, epoch), out);
                Verdict::Reply { is_verified: false }
            }
            Ok(Request::Query {
                session,
                token: Some(token),
            }) if self.challenges.accepts(token, from, epoch) => {
                self.write(session, 0, out);
                Verdict::Reply { is_verified: true }
            }
            Ok(Request::Query {
                session,
                token: None,
            }) if !self.needs_token => {
                self.write(session, 0, out);
                Verdict::Reply { is_verified: false }
            }
            Ok(Request::Query { .. }) => Verdict::Drop("token"),
        }
    }

    fn continuation(
        &self,
        bytes: &[u8],
        is_verified: bool,
        index: usize,
        out: &mut Vec<u8>,
    ) -> bool {
        match Request::read(bytes, &mut Notes::discarding()) {
            Ok(Request::Query { session, .. }) if is_verified || !self.needs_token => {
                self.write(session, index, out)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Player, Rule, Text};
    use crate::protocols::gamespy::gamespy3::message::Parser;
    use alloc::format;
    use alloc::string::String;

    fn status(players: usize, rules: usize) -> Status {
        let mut status = Status {
            name: Some(Text::unformatted("Harbour Keep")),
            ..Status::default()
        };
        let player = |i: usize| Player {
            score: (!i.is_multiple_of(3)).then_some(i as i64),
            team: Some(["Red", "Blue"][i % 2].into()),
            ..Player::named(Text::unformatted(format!("player {i}")))
        };
        status.players.set_list((0..players).map(player).collect());
        status.rules = (0..rules)
            .map(|i| Rule {
                key: format!("rule{i}").into(),
                value: "v".repeat(100).into(),
            })
            .collect();
        status
    }

    /// Returns the parts of a reply to a verified client.
    fn parts(status: &Status) -> Vec<Vec<u8>> {
        let keys = Keys::new([7; 16]);
        let responder = GameSpy3Responder::new(status, &keys, &GameSpy3Config::default());
        let from: SocketAddr = "192.0.2.7:50000".parse().unwrap();
        let token = responder.challenges.token(from, Epoch(1));
        let mut request = Vec::new();
        let session = qr2::SessionId(*b"HAIL");
        message::write_query(session, token, message::Form::Split, &mut request);
        let mut parts = alloc::vec![Vec::new()];
        let verdict = responder.answer(from, Epoch(1), &request, &mut parts[0]);
        assert_eq!(verdict, Verdict::Reply { is_verified: true });
        loop {
            let mut part = Vec::new();
            if !responder.continuation(&request, true, parts.len(), &mut part) {
                assert!(part.is_empty());
                return parts;
            }
            parts.push(part);
        }
    }

    #[test]
    fn parts_join_without_deviations() {
        for (players, rules, names) in [
            (0, 0, 0),
            (3, 2, 3),
            (64, 20, 64),
            (250, 30, 250),
            (400, 200, 255),
        ] {
            let parts = parts(&status(players, rules));
            assert!(parts.len() <= MAX_PARTS);
            assert!(parts.iter().all(|part| part.len() <= MAX_REPLY));
            let mut parser = Parser::default();
            let mut notes = Notes::default();
            for (number, part) in parts.iter().enumerate() {
                let is_last = number + 1 == parts.len();
                let expected = message::Part::Split(number as u8, is_last);
                assert_eq!(message::parse_part(part), Ok(expected));
                parser.part(part, &mut notes).unwrap();
            }
            let (reply, _) = parser.finish(&mut notes);
            let met: Vec<_> = notes.met().map(|met| met.name).collect();
            assert!(met.is_empty(), "{met:?}");
            assert_eq!(reply.players.len(), names);
            assert_eq!(reply.teams.len(), names.min(2));
            let kept = reply
                .pairs
                .iter()
                .filter(|(key, _)| key.starts_with(b"rule"))
                .count();
            match rules {
                200 => assert!((40..60).contains(&kept), "{kept}"),
                _ => assert_eq!(kept, rules),
            }
        }
    }

    #[test]
    fn a_part_repeats_the_last_entry_of_the_part_before() {
        let header = REPLY_HEADER + SPLITNUM.len() + 1;
        let mut repeated = [0; 2];
        for (players, rules) in [(250, 0), (240, 0), (0, 30)] {
            for pair in parts(&status(players, rules)).windows(2) {
                let kind = pair[1][header];
                // Server values follow their key, rows follow field and number.
                let mut next = pair[1][header + 1..].split(|byte| *byte == 0);
                let name = next.next().unwrap();
                let value = match (kind, next.next().unwrap()) {
                    (0, value) => value,
                    // A field that begins with the part repeats nothing.
                    (_, []) => continue,
                    (_, row) => &row[1..],
                };
                assert!(!name.is_empty());
                let end = [value, b"\0"].concat();
                assert!(pair[0].ends_with(&end), "{name:?} {value:?}");
                repeated[usize::from(kind)] += 1;
            }
        }
        assert!(repeated.iter().all(|count| *count > 1), "{repeated:?}");
    }

    #[test]
    fn the_smallest_reply_is_that_of_the_kit() {
        let expected = b"\0HAILsplitnum\0\x80\0gamever\0\0hostname\0Harbour Keep\0mapname\0\0gametype\0\0numplayers\x000\0password\x000\0\0\
            \x01player_\0\0\0\0\x02team_t\0\0\0\0";
        let parts = parts(&status(0, 0));
        assert_eq!(
            String::from_utf8_lossy(&parts[0]),
            String::from_utf8_lossy(expected)
        );
    }

    #[test]
    fn values_like_keys_are_changed() {
        let mut status = status(0, 0);
        status.rules = [
            ("x", "p1073741825"),
            ("p1073741825", "y"),
            ("z", "a,p1073741825=b"),
        ]
        .map(|(key, value)| Rule {
            key: key.into(),
            value: value.into(),
        })
        .into();
        status.map = Some("Owner=1,p1073741825=b".into());
        let mut parser = Parser::default();
        let mut notes = Notes::default();
        let parts = parts(&status);
        parser.part(&parts[0], &mut notes).unwrap();
        assert_eq!(notes.met().count(), 0);
        let (reply, _) = parser.finish(&mut notes);
        assert!(reply.pairs.contains(&(b"x", b"p1073741825 ")));
        assert!(
            reply
                .pairs
                .contains(&(b"mapname", b"Owner 1,p1073741825 b"))
        );
        assert!(!reply.pairs.iter().any(|(key, _)| key.starts_with(b"p1")));
    }

    #[test]
    fn queries_without_a_token_are_served_on_request() {
        let keys = Keys::new([7; 16]);
        let config = GameSpy3Config {
            needs_token: false,
            ..GameSpy3Config::default()
        };
        let responder = GameSpy3Responder::new(&status(400, 200), &keys, &config);
        let from = "192.0.2.7:50000".parse().unwrap();
        let request = b"\xFE\xFD\0HAIL\xFF\xFF\xFF\x01";
        let mut parts = alloc::vec![Vec::new()];
        let verdict = responder.answer(from, Epoch(1), request, &mut parts[0]);
        assert_eq!(verdict, Verdict::Reply { is_verified: false });
        let mut part = Vec::new();
        while responder.continuation(request, false, parts.len(), &mut part) {
            parts.push(core::mem::take(&mut part));
        }
        assert!(parts.len() <= MAX_PARTS);
        assert!(parts.iter().map(Vec::len).sum::<usize>() <= 1_018 * request.len());
        let wrong = b"\xFE\xFD\0HAIL\0\0\0\x01\xFF\xFF\xFF\x01";
        assert_eq!(
            responder.answer(from, Epoch(1), wrong, &mut Vec::new()),
            Verdict::Drop("token")
        );
    }

    #[test]
    fn requests_of_other_dialects_are_passed_on() {
        let keys = Keys::new([7; 16]);
        let responder = GameSpy3Responder::new(&status(0, 0), &keys, &GameSpy3Config::default());
        let from = "192.0.2.7:50000".parse().unwrap();
        for (request, expected) in [
            (b"\xFE\xFD\0HAIL\xFF\0\0".as_slice(), Verdict::Pass),
            (b"\xFE\xFD\x02HAIL", Verdict::Pass),
            (b"\xFE\xFD", Verdict::Pass),
            (b"\\status\\", Verdict::Pass),
            (b"\xFE\xFD\0HAIL\xFF\xFF\xFF\x01", Verdict::Drop("token")),
            (
                b"\xFE\xFD\0HAIL\0\0\0\x01\xFF\xFF\xFF\x01",
                Verdict::Drop("token"),
            ),
            (b"\xFE\xFD\0HAI", Verdict::Drop("malformed")),
        ] {
            assert_eq!(
                responder.answer(from, Epoch(1), request, &mut Vec::new()),
                expected
            );
        }
    }
}
