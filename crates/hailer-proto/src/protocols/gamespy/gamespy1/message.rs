//! Bytes ⇄ messages (spec/gamespy1.md#2 and #3).

use super::deviation::*;
use crate::protocol::{DatagramContext, Direction, Explanation};
use crate::protocols::gamespy::deviation::TRUNCATED_REPLY;
use crate::protocols::gamespy::{
    MAX_ROW, Reply, is_any, is_member_key, is_name_field, write_decimal,
};
use crate::wire::{Error, Notes, by_content, decimal};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// First byte of every message, and separator of keys and values.
pub const SEPARATOR: u8 = b'\\';
/// Servers read at most this many bytes of a request.
pub const MAX_REQUEST: usize = 255;
/// Largest accepted number of parts of a reply.
pub const MAX_PARTS: u16 = 64;
/// Largest accepted number of pairs in one datagram.
const MAX_PAIRS: usize = 4_096;

/// Bits of the groups of keys. A server sends them in this order.
pub mod group {
    /// Game and version.
    pub const BASIC: u8 = 1;
    /// Name, map, counts.
    pub const INFO: u8 = 2;
    /// Group of the rules.
    pub const RULES: u8 = 4;
    /// Players and teams.
    pub const PLAYERS: u8 = 8;
    /// All groups.
    pub const ALL: u8 = BASIC | INFO | RULES | PLAYERS;
}

const COMMANDS: &[(&[u8], u8)] = &[
    (b"basic", group::BASIC),
    (b"info", group::INFO),
    (b"rules", group::RULES),
    (b"players", group::PLAYERS),
    (b"status", group::ALL),
];
const ECHO: &[u8] = b"echo";
/// Keys that almost all servers send and that never appear as a value.
const FREQUENT_KEYS: [&[u8]; 7] = [
    b"hostname",
    b"hostport",
    b"mapname",
    b"gametype",
    b"numplayers",
    b"maxplayers",
    b"gamever",
];
const FINAL: &[u8] = b"final";
const QUERY_ID: &[u8] = b"queryid";

/// A request, borrowed from its datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request<'a> {
    /// Requested [groups](group).
    pub groups: u8,
    /// Text to echo.
    pub echo: Option<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// Reads a request: words between backslashes, of which the first is a command. Unknown words
    /// after it are ignored, because some games add commands.
    ///
    /// # Errors
    ///
    /// Names the field that cannot be read, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut words = Words::new(bytes, "command")?;
        let mut request = Self::default();
        while let Some(range) = words.next() {
            let word = words.get(&range);
            let groups = command(word).filter(|_| words.is_closed(&range));
            let is_echo = word == ECHO && words.is_closed(&range);
            match groups {
                Some(groups) => request.groups |= groups,
                None if is_echo => {}
                None if range.start > 1 => {
                    note(notes, &range, "text", word);
                    continue;
                }
                None if command(word).is_some() || word == ECHO => {
                    return Err(Error::short("command", range.end, 1));
                }
                None => {
                    return Err(Error::bad(
                        "command",
                        range.start,
                        "basic, info, rules, players, status or echo",
                    ));
                }
            }
            note(notes, &range, "command", word);
            if is_echo {
                let text = words.next();
                request.echo = text.as_ref().map(|text| words.get(text));
                if let Some(text) = text {
                    note(notes, &text, "text", words.get(&text));
                }
            }
        }
        Ok(request)
    }
}

fn command(word: &[u8]) -> Option<u8> {
    COMMANDS
        .iter()
        .find(|(name, _)| *name == word)
        .map(|(_, groups)| *groups)
}

/// Returns whether a datagram has the first bytes of a message. Replies of some servers lack the
/// first backslash, but have a query id or an end mark.
pub fn is_message(bytes: &[u8]) -> bool {
    bytes.first() == Some(&SEPARATOR) || lacks_separator(bytes)
}

/// Returns whether a datagram starts with a backslash and a word of letters, digits and underscores,
/// as all requests do. Encrypted datagrams of games start with any byte.
pub fn starts_with_a_word(bytes: &[u8]) -> bool {
    let mut words = bytes.split(|&byte| byte == SEPARATOR);
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    words.next() == Some(&[]) && words.next().is_some_and(|word| word.iter().all(is_of_word))
}

fn lacks_separator(bytes: &[u8]) -> bool {
    let mut words = bytes.split(|&byte| byte == SEPARATOR);
    let starts = words
        .next()
        .is_some_and(|key| key.first().is_some_and(u8::is_ascii_alphabetic));
    starts && words.any(|word| word == FINAL || word == QUERY_ID)
}

/// Returns whether a datagram is a reply: only replies have a query id or an end mark.
pub fn is_reply(bytes: &[u8]) -> bool {
    if lacks_separator(bytes) {
        return true;
    }
    let mut words = match Words::new(bytes, "reply") {
        Ok(words) => words,
        Err(_) => return false,
    };
    let mut first = true;
    while let Some(range) = words.next() {
        let word = words.get(&range);
        let is_command = command(word).is_some() || word == ECHO;
        if word == QUERY_ID || word == FINAL || first && !is_command {
            return true;
        }
        first = false;
    }
    false
}

/// The words between backslashes. The first byte of a request is a backslash.
#[derive(Clone, Copy)]
struct Words<'a> {
    bytes: &'a [u8],
    /// Offset of the next word; `None` after the last.
    next: Option<usize>,
}

impl<'a> Words<'a> {
    fn new(bytes: &'a [u8], field: &'static str) -> Result<Self, Error> {
        match bytes.first() {
            Some(&SEPARATOR) => Ok(Self {
                bytes,
                next: Some(1),
            }),
            Some(_) => Err(Error::bad(field, 0, "a backslash")),
            None => Err(Error::short(field, 0, 1)),
        }
    }

    fn next(&mut self) -> Option<Range<usize>> {
        let start = self.next?;
        let rest = self.bytes.get(start..)?;
        let length = memchr::memchr(SEPARATOR, rest);
        self.next = length.map(|length| start + length + 1);
        Some(start..start + length.unwrap_or(rest.len()))
    }

    /// Returns the word after the next one, and the one after that, without moving.
    fn peek(&self) -> [Option<&'a [u8]>; 2] {
        let mut ahead = *self;
        [(); 2].map(|()| ahead.next().map(|range| ahead.get(&range)))
    }

    fn get(&self, range: &Range<usize>) -> &'a [u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }

    /// Returns whether a backslash follows the word.
    fn is_closed(&self, range: &Range<usize>) -> bool {
        range.end < self.bytes.len()
    }
}

fn note(notes: &mut Notes, range: &Range<usize>, field: &'static str, word: &[u8]) {
    notes.field(range.clone(), field, || display(word));
}

fn display(bytes: &[u8]) -> String {
    format!("{:?}", by_content(bytes).0)
}

/// Number of the request that a part answers, and number of the part from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueryId {
    /// Number that the server counts up with each request.
    pub query: u32,
    /// Number of the part.
    pub part: u16,
}

/// One datagram of a reply, borrowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part<'a> {
    /// Keys and values in the order sent, without query id and end mark.
    pub pairs: Vec<(&'a [u8], &'a [u8])>,
    /// Query id, if the server sends one.
    pub id: Option<QueryId>,
    /// Whether the part has the end mark.
    pub is_final: bool,
    /// Whether the end mark has the form of servers that put it into every part.
    pub is_ambiguous: bool,
}

/// Reads one datagram of a reply.
///
/// # Errors
///
/// Names the field that cannot be read, with its offset.
pub fn parse_part<'a>(bytes: &'a [u8], notes: &mut Notes) -> Result<Part<'a>, Error> {
    let is_trailing = |byte: &u8| matches!(byte, 0 | b'\r' | b'\n');
    let end = bytes.iter().rposition(|byte| !is_trailing(byte));
    let text = bytes
        .get(..end.map_or(0, |end| end + 1))
        .unwrap_or_default();
    let mut words = if lacks_separator(text) {
        notes.deviation(&NO_SEPARATOR, 0);
        Words {
            bytes: text,
            next: Some(0),
        }
    } else {
        Words::new(text, "reply")?
    };
    let mut part = Part::default();
    let mut has_id = false;
    while let Some(key) = words.next() {
        match words.get(&key) {
            QUERY_ID => {
                let value = value_of(&mut words, &key)?;
                let word = words.get(&value);
                part.id = query_id(word, value.start)?;
                note(notes, &value, "query id", word);
                if part.id.is_none() {
                    notes.deviation(&QUERY_ID_WITHOUT_PART, value.start);
                }
                has_id = true;
            }
            FINAL => read_final(&mut words, &key, (&mut part, has_id), notes)?,
            // A backslash closes some replies.
            b"" if !words.is_closed(&key) => {}
            _ => read_pair(&mut words, key, &mut part, notes)?,
        }
    }
    notes.ungroup();
    if text.len() < bytes.len() {
        let rest = bytes.get(text.len()..).unwrap_or_default();
        notes.field(text.len()..bytes.len(), "trailing bytes", || display(rest));
        notes.deviation(&TRAILING_BYTES, text.len());
    }
    if !has_id {
        notes.deviation(&NO_QUERY_ID, bytes.len());
    }
    Ok(part)
}

fn value_of(words: &mut Words<'_>, key: &Range<usize>) -> Result<Range<usize>, Error> {
    words.next().ok_or(Error::short("value", key.end, 1))
}

/// Reads the rest of an end mark (spec/gamespy1.md#3.2).
fn read_final(
    words: &mut Words<'_>,
    key: &Range<usize>,
    (part, has_id): (&mut Part<'_>, bool),
    notes: &mut Notes,
) -> Result<(), Error> {
    notes.ungroup();
    note(notes, key, "end mark", words.get(key));
    part.is_final = true;
    if has_id {
        notes.deviation(&FINAL_AFTER_QUERY_ID, key.start);
    }
    match words.peek() {
        // Descent 3: the end mark has no value, and each part has one.
        [Some(next), _] if next == QUERY_ID => {
            part.is_ambiguous = true;
            notes.deviation(&FINAL_EVERYWHERE, key.start);
        }
        [None, _] => notes.deviation(&UNCLOSED_FINAL, key.end),
        [Some(b""), _] => drop(words.next()),
        _ => return Err(Error::bad("end mark", key.end + 1, "no value")),
    }
    Ok(())
}

fn read_pair<'a>(
    words: &mut Words<'a>,
    key: Range<usize>,
    part: &mut Part<'a>,
    notes: &mut Notes,
) -> Result<(), Error> {
    if part.pairs.len() == MAX_PAIRS {
        return Err(Error::limit("pair.key", key.start, MAX_PAIRS));
    }
    let name = words.get(&key);
    if is_lone(words.peek()) {
        // The rest of a value with a backslash, or a key without a value.
        notes.ungroup();
        note(notes, &key, "lone word", name);
        notes.deviation(&LONE_WORD, key.start);
        return Ok(());
    }
    if !words.is_closed(&key) && !part.pairs.is_empty() {
        notes.ungroup();
        note(notes, &key, "rest", name);
        notes.deviation(&TRUNCATED_REPLY, key.start);
        return Ok(());
    }
    notes.group("pair", part.pairs.len());
    note(notes, &key, "key", name);
    let mut value = value_of(words, &key)?;
    while continues(name, words.peek()) {
        notes.deviation(&BACKSLASH_IN_VALUE, value.end);
        value.end = words.next().map_or(value.end, |more| more.end);
    }
    note(notes, &value, "value", words.get(&value));
    part.pairs.push((name, words.get(&value)));
    notes.ungroup();
    Ok(())
}

/// Returns whether a word has no value, because the next ones are the query id or the end mark.
fn is_lone([next, after]: [Option<&[u8]>; 2]) -> bool {
    match next {
        Some(QUERY_ID) => after.is_some_and(|id| matches!(query_id(id, 0), Ok(Some(_)))),
        Some(FINAL) => matches!(after, None | Some(b"" | QUERY_ID)),
        _ => false,
    }
}

/// Returns whether the next word belongs to the value before it, because a backslash is part of the
/// value (spec/gamespy1.md#3.4).
fn continues(key: &[u8], [next, after]: [Option<&[u8]>; 2]) -> bool {
    let is_key = |word: &[u8]| {
        word == FINAL || word == QUERY_ID || is_member_key(word) || index(word).is_some()
    };
    let Some(next) = next.filter(|next| !is_key(next)) else {
        return false;
    };
    match index(key) {
        // The fields of a player follow each other.
        Some(Index {
            field,
            is_team: false,
            ..
        // A name can end in a backslash.
        }) if is_name_field(field) => !next.is_empty() || after.is_some_and(is_key),
        // Rules that are unknown here can follow, and their values can look like keys with a number.
        None => after.is_some_and(|after| {
            let is_end = after == FINAL || after == QUERY_ID;
            is_any(after, &FREQUENT_KEYS) || is_end && key.eq_ignore_ascii_case(b"hostname")
        }),
        _ => false,
    }
}

/// Parses a query id. Returns `None` if it has no part number.
fn query_id(value: &[u8], at: usize) -> Result<Option<QueryId>, Error> {
    let error = Error::bad("query id", at, "two numbers with a dot, the second from 1");
    let unsigned =
        |digits: &[u8]| decimal(digits).filter(|_| digits.first().is_some_and(u8::is_ascii_digit));
    let Some(dot) = value.iter().position(|&byte| byte == b'.') else {
        return unsigned(value).map(|_| None).ok_or(error);
    };
    let (query, part) = value.split_at(dot);
    let query = unsigned(query).and_then(|query| u32::try_from(query).ok());
    let part = unsigned(part.get(1..).unwrap_or_default());
    let (Some(query), Some(part)) = (query, part) else {
        return Err(error);
    };
    match u16::try_from(part) {
        Ok(0) => Err(error),
        Ok(part) if part <= MAX_PARTS => Ok(Some(QueryId { query, part })),
        _ => Err(Error::limit("query id", at, MAX_PARTS.into())),
    }
}

/// A key with the number of a row: `frags_3` or `score_t1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Index<'a> {
    field: &'a [u8],
    row: u32,
    /// Whether the row is a team.
    is_team: bool,
}

/// Splits a key at its last underscore, if only digits follow, or a `t` and digits.
fn index(key: &[u8]) -> Option<Index<'_>> {
    let at = key.iter().rposition(|&byte| byte == b'_')?;
    let (field, end) = key.split_at(at);
    let end = end.get(1..)?;
    let digits = end.strip_prefix(b"t").unwrap_or(end);
    let row = decimal(digits).filter(|_| digits.first().is_some_and(u8::is_ascii_digit))?;
    let is_team = digits.len() < end.len() || field.eq_ignore_ascii_case(b"teamname");
    Some(Index {
        field,
        row: u32::try_from(row).ok().filter(|row| *row <= MAX_ROW)?,
        is_team,
    })
}

/// A key and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

/// Joins the parts of a reply, and sorts the keys of players and teams into rows.
pub fn join<'a>(parts: impl IntoIterator<Item = Part<'a>>) -> Reply<'a> {
    let mut reply = Reply {
        has_slots: true,
        ..Reply::default()
    };
    let mut indexed: Vec<(Pair<'_>, Index<'a>)> = Vec::new();
    let mut named = BTreeSet::new();
    for (key, value) in parts.into_iter().flat_map(|part| part.pairs) {
        let Some(index) = index(key) else {
            reply.pairs.push((key, value));
            continue;
        };
        if !index.is_team && is_name_field(index.field) {
            named.insert(index.row);
            reply.has_stale_players |= index.field.eq_ignore_ascii_case(b"playername");
        }
        indexed.push(((key, value), index));
    }
    for (pair, index) in indexed {
        // Some rules end like a key of a row.
        match (index.is_team, named.contains(&index.row)) {
            (true, _) => Reply::set(&mut reply.teams, index.row, index.field, pair.1),
            (false, true) => Reply::set(&mut reply.players, index.row, index.field, pair.1),
            (false, false) => reply.pairs.push(pair),
        }
    }
    reply
}

/// Appends end mark and query id of a reply of one part, in the order of the vendor's kit.
pub fn write_end(query: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\final\\\\queryid\\");
    write_decimal(query.into(), out);
    out.extend_from_slice(b".1");
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    seen: DatagramContext<'_>,
    notes: &mut Notes,
) -> Option<Explanation> {
    if !is_message(bytes) {
        return None;
    }
    let is_reply = match seen.direction() {
        Some(direction) => direction == Direction::Reply,
        None => is_reply(bytes),
    };
    let error = if is_reply {
        parse_part(bytes, notes).err()
    } else {
        Request::read(bytes, notes).err()
    };
    Some(Explanation::certain(
        if is_reply { "reply" } else { "request" },
        if is_reply {
            Direction::Reply
        } else {
            Direction::Request
        },
        error,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_numbers_up_to_a_limit() {
        let row = |key: &'static [u8]| index(key).map(|index| (index.field, index.row));
        assert_eq!(row(b"frags_1023"), Some((&b"frags"[..], MAX_ROW)));
        assert_eq!(row(b"frags_1024"), None);
        assert_eq!(row(b"frags_-1"), None);
    }

    #[test]
    fn names_can_end_in_a_backslash() {
        let name = |bytes: &'static [u8]| {
            let part = parse_part(bytes, &mut Notes::default()).unwrap();
            let reply = join([part]);
            let fields = reply.players.get(&0).cloned().unwrap_or_default();
            (fields.first().map(|field| field.value), fields.len())
        };
        let inside = name(b"\\player_0\\a\\b\\frags_0\\1\\final\\");
        assert_eq!(inside, (Some(&b"a\\b"[..]), 2));
        let at_the_end = name(b"\\player_0\\a\\\\frags_0\\1\\final\\");
        assert_eq!(at_the_end, (Some(&b"a\\"[..]), 2));
    }
}
