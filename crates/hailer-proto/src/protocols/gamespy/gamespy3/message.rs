//! Bytes ⇄ messages (spec/gamespy3.md#2 to #6).

use super::deviation::*;
use crate::protocol::{DatagramContext, Direction, Explanation};
use crate::protocols::gamespy::Reply;
use crate::protocols::gamespy::qr2::{
    self, LAST_PART, MAGIC, SPLITNUM, SessionId, Split, TYPE_CHALLENGE, TYPE_QUERY, Trailer,
    unsplit_pairs, unsplit_table,
};
use crate::wire::{Error, Notes, Reader, Writer, by_content, decimal, first_nul};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Length of Hailer's handshake requests; longer ones are accepted too.
pub const HANDSHAKE_LENGTH: usize = 7;
/// Length of a query without a challenge token.
pub const OPEN_QUERY_LENGTH: usize = 11;
/// Longest handshake reply that Hailer sends: ten digits, because its tokens are positive.
pub const CHALLENGE_MAX: usize = 16;
/// Largest number of parts of a reply.
pub const MAX_PARTS: usize = 8;
/// Longest token that is accepted: ten digits and a sign.
const MAX_TOKEN: usize = 11;

/// The form of a query, given by its last byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The client can join parts.
    Split,
    /// The form that Just Cause 2 Multiplayer requires.
    Jc2,
}

/// Request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Requests a challenge token.
    Handshake {
        /// Session id to be echoed.
        session: SessionId,
    },
    /// Requests the status of a GameSpy 3 server.
    Query {
        /// Session id to be echoed.
        session: SessionId,
        /// Challenge token; `None` if the server has sent none, or 0.
        token: Option<i32>,
    },
}

impl Request {
    /// Reads a request of a GameSpy 3 client.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read, with its offset.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        r.constant(&MAGIC, "magic")?;
        let kind = r.u8("type")?;
        let session = SessionId::read(&mut r)?;
        let request = match kind {
            TYPE_CHALLENGE => Self::Handshake { session },
            TYPE_QUERY => {
                let is_open = bytes.len() <= OPEN_QUERY_LENGTH;
                let token = if is_open {
                    None
                } else {
                    Some(r.i32_be("token")?)
                };
                r.raw(3, "keys")?;
                r.u8("flags")?;
                Self::Query { session, token }
            }
            _ => return Err(Error::bad("type", 2, "9 (handshake) or 0 (query)")),
        };
        let padding = r.remaining();
        if padding > 0 {
            r.raw(padding, "padding")?;
        }
        Ok(request)
    }
}

/// Appends a request for a challenge token.
pub fn write_handshake(session: SessionId, out: &mut Vec<u8>) {
    Writer(out)
        .bytes(&MAGIC)
        .u8(TYPE_CHALLENGE)
        .bytes(&session.0);
}

/// Appends a query. A token of 0 means that there is none (spec/gamespy3.md#3).
pub fn write_query(session: SessionId, token: i32, form: Form, out: &mut Vec<u8>) {
    let mut w = Writer(out);
    w.bytes(&MAGIC).u8(TYPE_QUERY).bytes(&session.0);
    if token != 0 {
        w.i32_be(token);
    }
    let flags = match form {
        Form::Split => 1,
        Form::Jc2 => 2,
    };
    w.bytes(&[0xFF, 0xFF, 0xFF, flags]);
}

/// Returns type and session id of a reply.
pub fn reply_header(bytes: &[u8]) -> Option<(u8, SessionId)> {
    match bytes {
        [kind, a, b, c, d, ..] => Some((*kind, SessionId([*a, *b, *c, *d]))),
        _ => None,
    }
}

/// Reads a handshake reply. Returns 0 if the server requires no token.
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub fn parse_challenge(bytes: &[u8], notes: &mut Notes) -> Result<i32, Error> {
    let mut r = Reader::new(bytes, notes);
    if r.u8("type")? != TYPE_CHALLENGE {
        return Err(Error::bad("type", 0, "9 (handshake)"));
    }
    SessionId::read(&mut r)?;
    let at = r.at();
    let rest = r.rest();
    if rest.is_empty() {
        r.notes().deviation(&CHALLENGE_ZERO, at);
        return Ok(0);
    }
    let end = first_nul(rest).unwrap_or(rest.len()).min(MAX_TOKEN + 1);
    let digits = r.take(end, "token")?;
    // A few servers send numbers above 2^31. The same 32 bits are sent back.
    let number = decimal(digits.trim_ascii())
        .filter(|n| (i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(n))
        .ok_or(Error::bad("token", at, "decimal digits and a NUL"))?;
    r.note(at, "token", || format!("{number}"));
    match r.remaining() {
        0 => r.notes().deviation(&MISSING_NUL, at + end),
        _ => drop(r.take(1, "token")?),
    }
    r.trailing(&TRAILING_BYTES);
    if number == 0 {
        r.notes().deviation(&CHALLENGE_ZERO, at);
    }
    Ok(number as i32)
}

/// A part of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The part with this number. `true`: it is the last one.
    Split(u8, bool),
    /// A reply without parts.
    Unsplit,
}

/// Reads the start of a reply to a query, up to the sections.
fn part(r: &mut Reader<'_, '_>) -> Result<Part, Error> {
    if r.u8("type")? != TYPE_QUERY {
        return Err(Error::bad("type", 0, "0 (query)"));
    }
    SessionId::read(r)?;
    if !r.rest().starts_with(SPLITNUM) {
        return match r.remaining() {
            0 => Err(Error::short("splitnum", r.at(), SPLITNUM.len())),
            _ => Ok(Part::Unsplit),
        };
    }
    r.constant(SPLITNUM, "splitnum")?;
    let at = r.at();
    let number = r.u8("part")?;
    let is_last = number & LAST_PART != 0;
    let number = number & !LAST_PART;
    if usize::from(number) >= MAX_PARTS {
        return Err(Error::limit("part", at, MAX_PARTS));
    }
    Ok(Part::Split(number, is_last))
}

/// Reads the number of a part.
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub fn parse_part(bytes: &[u8]) -> Result<Part, Error> {
    part(&mut Reader::new(bytes, &mut Notes::discarding()))
}

/// A player of Just Cause 2 Multiplayer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jc2Player<'a> {
    /// Name of the player, in UTF-8.
    pub name: &'a [u8],
    /// Steam id as text.
    pub steam_id: &'a [u8],
    /// Latency of the player, in milliseconds.
    pub ping: u16,
}

/// Parser of all parts of a reply, in order.
#[derive(Debug, Default)]
pub struct Parser<'a> {
    split: Split<'a>,
    /// Players in the layout of Just Cause 2 Multiplayer.
    pub jc2: Option<Vec<Jc2Player<'a>>>,
    is_unsplit: bool,
    /// Whether an unsplit reply lacks a table.
    lacks_table: bool,
}

impl<'a> Parser<'a> {
    /// Reads a part.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read, with its offset.
    pub fn part(&mut self, bytes: &'a [u8], notes: &mut Notes) -> Result<(), Error> {
        let mut r = Reader::new(bytes, notes);
        match part(&mut r)? {
            Part::Unsplit => {
                self.is_unsplit = true;
                let at = r.at();
                r.notes().deviation(&UNSPLIT_REPLY, at);
                let reply = &mut self.split.reply;
                unsplit_pairs(&mut r, reply)?;
                self.lacks_table = false;
                for is_teams in [false, true] {
                    // A single byte is no table.
                    self.lacks_table |= r.remaining() < 2;
                    if r.remaining() > 1 {
                        unsplit_table(&mut r, reply, is_teams, &COUNT_MISSING)?;
                    }
                }
                r.trailing(&TRAILING_BYTES);
            }
            Part::Split(_, is_last) => {
                let trailer = self.split.part(&mut r, is_last)?;
                // A single byte is no list.
                let is_list = !self.split.has_tables() && r.remaining() > 1;
                match trailer {
                    Trailer::Other if is_list => self.jc2 = Some(jc2_players(&mut r)?),
                    Trailer::Other => r.trailing(&TRAILING_BYTES),
                    Trailer::Nothing => {}
                }
            }
        }
        for (is_met, deviation) in [
            (self.split.has_empty_values, &EMPTY_VALUES),
            (self.split.has_missing_values, &MISSING_VALUE),
        ] {
            if is_met {
                r.notes().deviation(deviation, qr2::REPLY_HEADER);
            }
        }
        self.rename(r.notes());
        Ok(())
    }

    /// Replaces the numbered keys of Unreal Tournament 3 that set a member of the status
    /// (spec/gamespy3.md#6.1).
    fn rename(&mut self, notes: &mut Notes) {
        let pairs = &mut self.split.reply.pairs;
        let blob = pairs
            .iter()
            .position(|(key, value)| *key == b"mapname" && is_map_blob(value));
        if let Some(blob) = blob {
            notes.deviation(&UT3_MAP_BLOB, qr2::REPLY_HEADER);
            let (_, value) = pairs.remove(blob);
            for entry in value.split(|&byte| byte == b',') {
                let equals = entry.iter().position(|&byte| byte == b'=');
                if let Some((key, value)) = equals.map(|at| entry.split_at(at)) {
                    pairs.push((key, value.get(1..).unwrap_or_default()));
                }
            }
        }
        if !pairs.iter().any(|(key, _)| qr2::is_number_key(key)) {
            return;
        }
        notes.deviation(&UT3_NUMBERS, qr2::REPLY_HEADER);
        for (number, name) in UT3_MEMBERS {
            if pairs.iter().any(|(key, _)| *key == name) {
                continue;
            }
            for (key, _) in pairs.iter_mut().filter(|(key, _)| *key == number) {
                *key = name;
            }
        }
    }

    /// Returns the reply, after its last part.
    pub fn finish(self, notes: &mut Notes) -> (Reply<'a>, Option<Vec<Jc2Player<'a>>>) {
        if self.lacks_table {
            notes.deviation(&MISSING_SECTION, 0);
        }
        if !self.is_unsplit && self.jc2.is_none() {
            self.split.finish(&MISSING_SECTION, notes);
        }
        (self.split.reply, self.jc2)
    }
}

/// Numbered keys of Unreal Tournament 3 that stand for usual keys.
const UT3_MEMBERS: [(&[u8], &[u8]); 3] = [
    (b"p1073741825", b"mapname"),
    (b"p1073741826", b"gametype"),
    (b"s7", b"password"),
];

/// Returns whether a map holds the map and other numbered keys, as `OwningPlayerId=1,p1073741825=X`.
pub(super) fn is_map_blob(map: &[u8]) -> bool {
    let key = b"p1073741825=";
    map.starts_with(b"OwningPlayerId=") || map.windows(key.len()).any(|window| window == key)
}

/// Meanings of the other numbered keys of Unreal Tournament 3.
pub const UT3_NAMES: [(&str, &str); 11] = [
    ("p1073741827", "description"),
    ("p1073741828", "custom-mutators"),
    ("p268435703", "bots"),
    ("p268435704", "goal-score"),
    ("p268435705", "time-limit"),
    ("p268435717", "mutators"),
    ("s0", "bot-skill"),
    ("s6", "pure"),
    ("s8", "versus-bots"),
    ("s10", "force-respawn"),
    ("s32779", "mode"),
];

/// Reads the players of Just Cause 2 Multiplayer (spec/gamespy3.md#6.2).
fn jc2_players<'a>(r: &mut Reader<'a, '_>) -> Result<Vec<Jc2Player<'a>>, Error> {
    let at = r.at();
    r.notes().deviation(&JC2_LIST, at);
    let count = usize::from(r.u16_be("players")?);
    let mut players = Vec::new();
    while r.remaining() > 0 && players.len() < count {
        r.notes().group("player", players.len());
        let Some(player) = jc2_player(r) else {
            break;
        };
        players.push(player);
    }
    r.notes().ungroup();
    if players.len() < count {
        let at = r.at();
        let rest = r.remaining();
        if rest > 0 {
            r.raw(rest, "rest")?;
        }
        r.notes()
            .deviation(&crate::protocols::gamespy::deviation::TRUNCATED_REPLY, at);
    }
    r.trailing(&TRAILING_BYTES);
    Ok(players)
}

/// Reads a player; `None`, without moving, if the datagram ends within it.
fn jc2_player<'a>(r: &mut Reader<'a, '_>) -> Option<Jc2Player<'a>> {
    let rest = r.rest();
    let name_end = first_nul(rest)?;
    let id_end = name_end + 1 + first_nul(rest.get(name_end + 1..)?)?;
    let ping = rest.get(id_end + 1..id_end + 3)?;
    let player = Jc2Player {
        name: rest.get(..name_end)?,
        steam_id: rest.get(name_end + 1..id_end)?,
        ping: u16::from_be_bytes(ping.try_into().ok()?),
    };
    for (length, field, text) in [
        (name_end + 1, "name", player.name),
        (id_end - name_end, "steam id", player.steam_id),
    ] {
        let at = r.at();
        r.take(length, field).ok()?;
        r.note(at, field, || display(text));
    }
    r.u16_be("ping").ok()?;
    Some(player)
}

fn display(bytes: &[u8]) -> String {
    format!("{:?}", by_content(bytes).0)
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    seen: DatagramContext<'_>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let explained = |message, direction, error| Some(Explanation::guess(message, direction, error));
    if seen.direction() != Some(Direction::Reply) && bytes.starts_with(&MAGIC) {
        let message = match bytes.get(2) {
            Some(&TYPE_CHALLENGE) => "handshake request",
            _ => "query",
        };
        let error = Request::read(bytes, notes).err();
        return explained(message, Direction::Request, error);
    }
    if seen.direction() == Some(Direction::Request) {
        return None;
    }
    match *bytes.first()? {
        TYPE_CHALLENGE => {
            let error = parse_challenge(bytes, notes).err();
            explained("handshake reply", Direction::Reply, error)
        }
        TYPE_QUERY => {
            let error = Parser::default().part(bytes, notes).err();
            let message = match parse_part(bytes) {
                Ok(Part::Split(..)) => "part of a reply",
                _ => "reply",
            };
            explained(message, Direction::Reply, error)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(number: u8, sections: &[u8]) -> Vec<u8> {
        [b"\0HAILsplitnum\0", &[number][..], sections].concat()
    }

    /// Returns whether the second of two parts continues the first one.
    fn continues(first: &[u8], second: &[u8]) -> bool {
        let first = part(0, first);
        let second = part(0x81, second);
        let mut parser = Parser::default();
        let mut notes = Notes::default();
        parser.part(&first, &mut notes).unwrap();
        parser.part(&second, &mut notes).unwrap();
        notes.met().all(|met| met.name != "part-gap")
    }

    #[test]
    fn a_part_continues_the_one_before() {
        let list = b"\x01player_\0\x03Arla\0Bel\0".as_slice();
        for (second, fits) in [
            (b"\x01player_\0\x04Belo\0\0\0".as_slice(), true),
            (b"\x01player_\0\x05Coro\0\0\0", true),
            (b"\x01player_\0\x04Coro\0\0\0", false),
            (b"\x01player_\0\x06Coro\0\0\0", false),
            (b"\x01score_\0\x00\x31\0\0\0", false),
            (b"\x02team_t\0\x00Red\0\0\0", false),
            (b"\x00hostname\0Keep\0\0", false),
        ] {
            assert_eq!(continues(list, second), fits, "{second:?}");
        }
        let ended = b"\x01player_\0\0Arla\0\0".as_slice();
        for (second, fits) in [
            (b"\x01score_\0\x00\x31\0\0\0".as_slice(), true),
            (b"\x01player_\0\x01Belo\0\0\0", true),
            (b"\x01score_\0\x01\x31\0\0\0", false),
            (b"\x02team_t\0\x00Red\0\0\0", false),
        ] {
            assert_eq!(continues(ended, second), fits, "{second:?}");
        }
        let pairs = b"\0hostname\0Keep\0nump\0".as_slice();
        for (second, fits) in [
            (b"\0numplayers\x000\0\0".as_slice(), true),
            (b"\0maxplayers\x000\0\0", false),
            (b"\x01player_\0\0Arla\0\0\0", false),
        ] {
            assert_eq!(continues(pairs, second), fits, "{second:?}");
        }
        let closed = b"\0hostname\0Keep\0\0".as_slice();
        assert!(continues(closed, b"\x01player_\0\0Arla\0\0\0"));
        assert!(!continues(closed, b"\x01player_\0\x01Arla\0\0\0"));
        assert!(!continues(closed, b"\0mapname\0mill\0\0"));
        assert!(!continues(b"\0", b"\0mapname\0mill\0\0"));
    }

    #[test]
    fn a_repeated_entry_replaces_the_earlier_one() {
        let first = part(0, b"\0hostname\0Keep\0mapname\0mi\0");
        let second = part(1, b"\0mapname\0mill\0\0\x01player_\0\0Arla\0Be\0");
        let third = part(0x82, b"\x01player_\0\x01Belo\0\0\0\x02\0");
        let mut parser = Parser::default();
        let mut notes = Notes::default();
        for part in [&first, &second, &third] {
            parser.part(part, &mut notes).unwrap();
        }
        let (reply, jc2) = parser.finish(&mut notes);
        assert_eq!(notes.met().count(), 0);
        assert_eq!(jc2, None);
        assert_eq!(
            reply.pairs,
            [(&b"hostname"[..], &b"Keep"[..]), (b"mapname", b"mill")]
        );
        let names: Vec<_> = reply
            .players
            .values()
            .flatten()
            .map(|field| field.value)
            .collect();
        assert_eq!(names, [b"Arla", b"Belo"]);
    }

    #[test]
    fn tokens_have_32_bits() {
        let token = |text: &str| {
            let bytes = [b"\x09HAIL", text.as_bytes(), b"\0"].concat();
            parse_challenge(&bytes, &mut Notes::default()).ok()
        };
        assert_eq!(token("-2147483648"), Some(i32::MIN));
        assert_eq!(token("4294967295"), Some(-1));
        assert_eq!(token("4294967296"), None);
        assert_eq!(token("-2147483649"), None);
    }

    #[test]
    fn a_map_has_precedence_over_its_number() {
        let bytes = part(
            0x80,
            b"\0mapname\0mill\0p1073741825\0DM-Mill\0s7\x001\0\0\x01\0\x02\0",
        );
        let mut parser = Parser::default();
        parser.part(&bytes, &mut Notes::default()).unwrap();
        let (reply, _) = parser.finish(&mut Notes::default());
        let pairs: [(&[u8], &[u8]); 3] = [
            (b"mapname", b"mill"),
            (b"p1073741825", b"DM-Mill"),
            (b"password", b"1"),
        ];
        assert_eq!(reply.pairs, pairs);
    }
}
