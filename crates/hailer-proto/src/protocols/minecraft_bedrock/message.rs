//! Bytes ⇄ messages. The only file that knows offsets (spec/minecraft-bedrock.md#2 to #4).

use super::deviation::*;
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader, utf8_or_latin1};
use alloc::{borrow::Cow, format, string::String, vec::Vec};
use core::ops::Range;

/// Marks messages outside of a session.
pub const MAGIC: [u8; 16] = *b"\x00\xFF\xFF\x00\xFE\xFE\xFE\xFE\xFD\xFD\xFD\xFD\x12\x34\x56\x78";
/// Length of a complete ping in bytes.
pub const PING_LENGTH: usize = 33;
/// Length of the shortest ping that has a magic, in bytes.
pub const SHORT_PING: usize = 25;
/// Length of a pong without its text and the length of that, in bytes.
pub const PONG_HEADER: usize = 33;
/// Number of fields that current servers send.
pub const FIELDS: usize = 12;

const PING: u8 = 0x01;
const PING_IF_OPEN: u8 = 0x02;
const PONG: u8 = 0x1C;
/// Offset of the magic in a ping.
const PING_MAGIC: usize = 9;
/// Offset of the magic in a pong.
const PONG_MAGIC: usize = 17;
/// More fields than this are read as one.
const MAX_FIELDS: usize = 64;
/// Most digits of a number.
const MAX_DIGITS: usize = 20;

/// Request of a Bedrock client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping {
    /// Any number; the server returns it.
    pub time: u64,
    /// Whether the server replies only if it has free slots.
    pub is_for_open: bool,
    /// Any number that identifies the client; absent in short pings.
    pub guid: Option<u64>,
}

impl Ping {
    /// Appends the request to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.push(if self.is_for_open { PING_IF_OPEN } else { PING });
        out.extend(self.time.to_be_bytes());
        out.extend(MAGIC);
        out.extend(self.guid.iter().flat_map(|guid| guid.to_be_bytes()));
    }

    /// Parses a request of a Bedrock client.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or wrong, with its offset.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        let id = r.u8("id")?;
        if !matches!(id, PING | PING_IF_OPEN) {
            return Err(Error::bad("id", 0, "01 or 02 (ping)"));
        }
        let time = number(r.raw(8, "time")?);
        let at = r.at();
        if r.raw(MAGIC.len(), "magic")? != MAGIC {
            return Err(Error::bad("magic", at, "the magic of RakNet"));
        }
        let guid = match r.remaining() {
            0 => None,
            _ => Some(number(r.raw(8, "client guid")?)),
        };
        Ok(Self {
            time,
            is_for_open: id == PING_IF_OPEN,
            guid,
        })
    }
}

/// Reply of a Bedrock server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pong<'a> {
    /// The number of the request.
    pub time: u64,
    /// Number of the server.
    pub guid: u64,
    /// The advertisement; `None` if the pong has no text.
    pub text: Option<Advertisement<'a>>,
}

/// The text of a pong by field. Texts are as received, without escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertisement<'a> {
    /// `MCPE`, or `MCEE` for Education Edition.
    pub edition: Option<Cow<'a, str>>,
    /// First line of the message of the day.
    pub name: Cow<'a, str>,
    /// Whether the text was received as ISO-8859-1.
    pub is_latin1: bool,
    /// Number of the game's protocol.
    pub protocol: Option<i64>,
    /// Text that the server sends in place of that number; empty if there is none.
    pub odd_protocol: Option<Cow<'a, str>>,
    /// Version of the game.
    pub version: Option<Cow<'a, str>>,
    /// Number of players online.
    pub online: Option<i64>,
    /// Maximum number of players.
    pub max: Option<i64>,
    /// Number of the server as text.
    pub guid: Option<Cow<'a, str>>,
    /// Second line of the message of the day, or name of the world.
    pub level: Option<Cow<'a, str>>,
    /// Game mode of the server.
    pub mode: Option<Cow<'a, str>>,
    /// Further fields, from the tenth on: a number of disputed meaning, the ports for IPv4 and
    /// IPv6, and fields of later versions.
    pub rest: Vec<Cow<'a, str>>,
}

impl<'a> Pong<'a> {
    /// Returns whether the bytes start like a pong: its id, and the magic at its place.
    pub fn is_pong(bytes: &[u8]) -> bool {
        bytes.first() == Some(&PONG) && has_magic(bytes, PONG_MAGIC)
    }

    /// Parses a reply of a Bedrock server.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or wrong, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        if r.u8("id")? != PONG {
            return Err(Error::bad("id", 0, "1C (pong)"));
        }
        let time = number(r.raw(8, "time")?);
        let guid = number(r.raw(8, "server guid")?);
        let at = r.at();
        if r.raw(MAGIC.len(), "magic")? != MAGIC {
            return Err(Error::bad("magic", at, "the magic of RakNet"));
        }
        let at = r.at();
        // A lone byte of the length says as little as none.
        if r.remaining() < 2 {
            r.notes().deviation(&NO_TEXT, at);
            r.raw(r.remaining(), "text length")?;
            return Ok(Self {
                time,
                guid,
                text: None,
            });
        }
        let length = usize::from(r.u16_be("text length")?);
        let at = r.at();
        if length > r.remaining() {
            r.notes().deviation(&CUT_TEXT, bytes.len());
        } else if length == 0 {
            r.notes().deviation(&EMPTY_TEXT, at);
        }
        let text = r.take(length.min(r.remaining()), "text")?;
        let text = (!text.is_empty()).then(|| Advertisement::read(text, at, guid, r.notes()));
        r.trailing(&TRAILING_BYTES);
        Ok(Self { time, guid, text })
    }
}

impl<'a> Advertisement<'a> {
    /// Parses the text at offset `at`. Any text can be parsed.
    fn read(bytes: &'a [u8], at: usize, guid: u64, notes: &mut Notes) -> Self {
        if core::str::from_utf8(bytes).is_err() {
            notes.deviation(&LATIN_1_TEXT, at);
        }
        let mut fields = Fields { bytes, at, notes };
        let whole = 0..bytes.len();
        let mut parts = split(bytes, true);
        let mut name_end = fields.name_end(&parts);
        if name_end.is_none() {
            let unescaped = split(bytes, false);
            name_end = fields.name_end(&unescaped);
            if name_end.is_some() {
                let name_at = unescaped.get(1).map_or(0, |name| name.start);
                fields.notes.deviation(&FINAL_BACKSLASH, at + name_at);
                parts = unescaped;
            }
        }
        // Some servers leave the number of the protocol out, but not the field.
        let name_end = name_end.or_else(|| {
            let edition = parts.first().map(|edition| fields.bytes(edition));
            let has_edition = edition.is_some_and(|edition| EDITIONS.contains(&edition));
            Some(2).filter(|end| has_edition && fields.has_counts(&parts, *end))
        });
        let Some(name_end) = name_end else {
            fields.notes.deviation(&UNKNOWN_LAYOUT, at);
            return Self {
                name: fields.text("name", Some(&whole)).unwrap_or_default(),
                is_latin1: utf8_or_latin1(bytes).2,
                ..Self::default()
            };
        };
        let edition = fields.text("edition", parts.first());
        let name = parts.get(1).zip(parts.get(name_end - 1));
        let name = name.map(|(first, last)| first.start..last.end);
        let name_at = at + name.as_ref().map_or(0, |name| name.start);
        if name_end > 2 {
            fields.notes.deviation(&SEPARATOR_IN_NAME, name_at);
        }
        let is_latin1 = name
            .as_ref()
            .is_some_and(|name| utf8_or_latin1(fields.bytes(name)).2);
        let name = fields.text("name", name.as_ref()).unwrap_or_default();
        let mut parts = parts.get(name_end..).unwrap_or_default().iter();
        let protocol_part = parts.next();
        let protocol = fields.count("protocol", protocol_part);
        let odd_protocol = match protocol {
            Some(_) => None,
            None => fields.text("protocol", protocol_part),
        };
        if let (Some(part), Some(_)) = (protocol_part, &odd_protocol) {
            fields.notes.deviation(&ODD_PROTOCOL, at + part.start);
        }
        let version = parts.next();
        if let Some(empty) = version.filter(|version| version.is_empty()) {
            fields.notes.deviation(&EMPTY_VERSION, at + empty.start);
        }
        let version = fields.text("version", version);
        let [online, max] = ["online", "max"].map(|name| {
            let part = parts.next();
            if let Some(empty) = part.filter(|part| part.is_empty()) {
                fields.notes.deviation(&NO_COUNT, at + empty.start);
            }
            fields.count(name, part)
        });
        let text_guid = fields.guid(parts.next(), guid);
        let level = parts.next().cloned();
        let level = level.map(|level| level.start..fields.level_end(&level, &mut parts));
        let level = fields.text("level name", level.as_ref());
        let mode = fields.mode(parts.next());
        let names = ["number", "port", "IPv6 port"].into_iter();
        let names = names.chain(core::iter::repeat("further field"));
        let rest: Vec<_> = names
            .zip(parts)
            .map(|(name, part)| fields.further(name, part))
            .collect();
        // Edition, name and the four fields with numbers are always present here. A name with
        // separators counts as one field.
        let optional = [&text_guid, &level, &mode].into_iter().flatten().count();
        let count = 6 + optional + rest.len();
        if count < FIELDS {
            fields.notes.deviation(&FEWER_FIELDS, at + bytes.len());
        } else if count > FIELDS {
            fields.notes.deviation(&EXTRA_FIELDS, at + bytes.len());
        }
        if bytes.last() != Some(&b';') {
            fields
                .notes
                .deviation(&NO_FINAL_SEPARATOR, at + bytes.len());
        }
        Self {
            edition,
            name,
            is_latin1,
            protocol,
            odd_protocol,
            version,
            online,
            max,
            guid: text_guid,
            level,
            mode,
            rest,
        }
    }
}

/// The fields of a text, with their offsets for the notes.
struct Fields<'a, 'n> {
    bytes: &'a [u8],
    /// Offset of the text in the datagram.
    at: usize,
    notes: &'n mut Notes,
}

impl<'a> Fields<'a, '_> {
    fn bytes(&self, part: &Range<usize>) -> &'a [u8] {
        self.bytes.get(part.clone()).unwrap_or_default()
    }

    fn number(&self, part: &Range<usize>) -> Option<i64> {
        let text = core::str::from_utf8(self.bytes(part)).ok()?;
        if text.len() > MAX_DIGITS {
            return None;
        }
        // 20 digits fit here; counts and protocols above the range of the status become its end.
        let number = text.parse::<i128>().ok()?;
        Some(number.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    /// Returns the index of the first field after the name: the number of the protocol. A name with
    /// separators has several parts.
    fn name_end(&self, parts: &[Range<usize>]) -> Option<usize> {
        (2..parts.len()).find(|end| self.has_numbers(parts, *end, &[0, 2, 3]))
    }

    /// Returns whether the parts at these offsets from `start` are numbers.
    fn has_numbers(&self, parts: &[Range<usize>], start: usize, offsets: &[usize]) -> bool {
        offsets.iter().all(|offset| {
            parts
                .get(start + offset)
                .is_some_and(|part| self.number(part).is_some())
        })
    }

    /// Returns whether the fields are at their places although the protocol is no number or a count
    /// is empty: each count is a number or empty, and at least one of the three is a number.
    fn has_counts(&self, parts: &[Range<usize>], start: usize) -> bool {
        let is_number = |offset| self.has_numbers(parts, start, &[offset]);
        let is_empty = |offset: usize| {
            let part = parts.get(start + offset);
            part.is_some_and(Range::is_empty)
        };
        [2, 3]
            .into_iter()
            .all(|offset| is_number(offset) || is_empty(offset))
            && [0, 2, 3].into_iter().any(is_number)
    }

    /// Returns where the second line ends. With separators in it, it ends before the game mode. The
    /// parts of the line are taken from `parts`.
    fn level_end(
        &mut self,
        level: &Range<usize>,
        parts: &mut core::slice::Iter<'_, Range<usize>>,
    ) -> usize {
        let rest = parts.as_slice();
        let is_mode = |part: &Range<usize>| {
            let bytes = self.bytes(part);
            MODES.iter().any(|mode| mode.as_bytes() == bytes)
        };
        let Some(last) = rest
            .iter()
            .position(is_mode)
            .and_then(|mode| mode.checked_sub(1))
        else {
            return level.end;
        };
        self.notes
            .deviation(&SEPARATOR_IN_LEVEL, self.at + level.start);
        parts.nth(last).map_or(level.end, |part| part.end)
    }

    fn note(&mut self, part: &Range<usize>, field: &'static str, value: impl FnOnce() -> String) {
        let range = self.at + part.start..self.at + part.end;
        self.notes.field(range, field, value);
    }

    fn count(&mut self, field: &'static str, part: Option<&Range<usize>>) -> Option<i64> {
        let number = self.number(part?)?;
        self.note(part?, field, || format!("{number}"));
        Some(number)
    }

    /// Returns a field without escapes.
    fn text(&mut self, field: &'static str, part: Option<&Range<usize>>) -> Option<Cow<'a, str>> {
        let part = part?;
        let (mut text, ..) = utf8_or_latin1(self.bytes(part));
        if text.contains("\\;") {
            self.notes
                .deviation(&ESCAPED_SEPARATOR, self.at + part.start);
            text = text.replace("\\;", ";").into();
        }
        self.note(part, field, || format!("{text:?}"));
        Some(text)
    }

    fn guid(&mut self, part: Option<&Range<usize>>, guid: u64) -> Option<Cow<'a, str>> {
        let part = part?;
        let text = self.text("guid", Some(part))?;
        let at = self.at + part.start;
        match (text.parse::<u64>(), text.parse::<i64>()) {
            (Ok(number), _) if number == guid => {}
            (_, Ok(number)) if number < 0 && number as u64 == guid => {
                self.notes.deviation(&NEGATIVE_GUID, at);
            }
            (Err(_), Err(_)) => self.notes.deviation(&GUID_NOT_A_NUMBER, at),
            _ => self.notes.deviation(&OTHER_GUID, at),
        }
        Some(text)
    }

    fn mode(&mut self, part: Option<&Range<usize>>) -> Option<Cow<'a, str>> {
        let part = part?;
        let mode = self.text("mode", Some(part))?;
        if !MODES.contains(&&*mode) {
            self.notes.deviation(&ODD_MODE, self.at + part.start);
        }
        Some(mode)
    }

    fn further(&mut self, field: &'static str, part: &Range<usize>) -> Cow<'a, str> {
        let is_port = self
            .number(part)
            .is_some_and(|port| (1..=65_535).contains(&port));
        if field.ends_with("port") && !is_port {
            self.notes.deviation(&ODD_PORT, self.at + part.start);
        }
        self.text(field, Some(part)).unwrap_or_default()
    }
}

/// Editions of the game.
const EDITIONS: [&[u8]; 2] = [b"MCPE", b"MCEE"];

/// Game modes as servers spell them.
pub const MODES: &[&str] = &["Survival", "Creative", "Adventure", "Spectator"];

/// Splits a text at the separators, or at those without an escape. A separator at the end adds no
/// field.
fn split(bytes: &[u8], has_escapes: bool) -> Vec<Range<usize>> {
    let mut parts = Vec::with_capacity(FIELDS);
    let mut start = 0;
    for at in memchr::memchr_iter(b';', bytes) {
        let is_escaped = has_escapes && at > start && bytes.get(at - 1) == Some(&b'\\');
        if !is_escaped && parts.len() + 1 < MAX_FIELDS {
            parts.push(start..at);
            start = at + 1;
        }
    }
    if start < bytes.len() {
        parts.push(start..bytes.len());
    }
    parts
}

/// Reads 8 bytes, most significant first.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn has_magic(bytes: &[u8], at: usize) -> bool {
    bytes
        .get(at..)
        .is_some_and(|bytes| bytes.starts_with(&MAGIC))
}

/// Returns whether the bytes start like a ping: its id, and the magic at its place.
pub fn is_ping(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(&(PING | PING_IF_OPEN))) && has_magic(bytes, PING_MAGIC)
}

/// Appends the part of a pong before the length of the text.
pub fn write_pong_header(time: u64, guid: u64, out: &mut Vec<u8>) {
    out.push(PONG);
    out.extend(time.to_be_bytes());
    out.extend(guid.to_be_bytes());
    out.extend(MAGIC);
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let found = match bytes.first()? {
        _ if is_ping(bytes) => Direction::Request,
        _ if Pong::is_pong(bytes) => Direction::Reply,
        _ => return None,
    };
    if direction.is_some_and(|direction| direction != found) {
        return None;
    }
    let (message, error) = match found {
        Direction::Request => ("ping", Ping::read(bytes, notes).err()),
        Direction::Reply => ("pong", Pong::read(bytes, notes).err()),
    };
    Some(Explanation::certain(message, found, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Advertisement<'_>, Vec<&'static str>) {
        let mut notes = Notes::explaining();
        let advertisement = Advertisement::read(text.as_bytes(), 35, 7, &mut notes);
        (advertisement, notes.met().map(|met| met.name).collect())
    }

    #[test]
    fn pings_both_ways() {
        for (ping, length) in [
            (
                Ping {
                    time: 1 << 56,
                    is_for_open: false,
                    guid: Some(2),
                },
                PING_LENGTH,
            ),
            (
                Ping {
                    time: 2,
                    is_for_open: true,
                    guid: None,
                },
                SHORT_PING,
            ),
        ] {
            let mut bytes = Vec::new();
            ping.write(&mut bytes);
            assert_eq!(bytes.len(), length);
            assert_eq!(Ping::read(&bytes, &mut Notes::default()), Ok(ping));
            for end in (0..length).filter(|end| *end != SHORT_PING) {
                assert!(
                    Ping::read(&bytes[..end], &mut Notes::default()).is_err(),
                    "{end}"
                );
            }
        }
        assert!(Ping::read(&[0x1C; 33], &mut Notes::default()).is_err());
        assert!(Ping::read(&[0x01; 33], &mut Notes::default()).is_err());
    }

    #[test]
    fn the_number_of_fields_counts_the_name_once() {
        for (text, fields, deviations) in [
            ("MCPE;N;1;v;0;9;7;L;Survival;1;19132;19133;", 3, &[][..]),
            (
                "MCPE;N;1;v;0;9;7;L;Survival;1;19132;19133;0;",
                4,
                &["extra-fields"],
            ),
            ("MCPE;N;1;v;0;9;7;L;Survival;1;19132;", 2, &["fewer-fields"]),
            ("MCPE;N;1;v;0;9;7;L;Survival;", 0, &["fewer-fields"]),
            ("MCPE;N;1;v;0;9;7;", 0, &["fewer-fields"]),
            ("MCPE;N;1;v;0;9", 0, &["fewer-fields", "no-final-separator"]),
            (
                "MCPE;a;b;c;1;v;0;9;7;L;Survival;1;19132;19133;",
                3,
                &["separator-in-name"],
            ),
        ] {
            let (advertisement, met) = read(text);
            assert_eq!(advertisement.rest.len(), fields, "{text}");
            assert_eq!(met, deviations, "{text}");
            assert_eq!(
                (advertisement.online, advertisement.max),
                (Some(0), Some(9))
            );
            assert_eq!(advertisement.protocol, Some(1), "{text}");
        }
    }

    #[test]
    fn names_with_separators() {
        for (text, name) in [
            (r"MCPE;a\;b;1;v;0;9;7;L;Survival;1;1;1;", "a;b"),
            ("MCPE;EU; X;Y;557;1.19.40;1;5;", "EU; X;Y"),
            ("MCPE;;1;v;0;9;", ""),
            // A name that ends in numbers cannot be distinguished from fields.
            ("MCPE;x;1;v;2;3;4;v;5;6;", "x"),
            ("MCPE;x;-1;v;+2;3;", "x"),
        ] {
            assert_eq!(read(text).0.name, name, "{text}");
        }
        for text in [
            "",
            "x",
            ";;;;;;",
            "MCPE;N;1;v;0",
            "XCPE;N;one;v;0;9;",
            "MCPE;a;b;one;v;0;9;",
            "MCPE;N;1;v;0;many;",
            "1;2;3;4",
        ] {
            let (advertisement, met) = read(text);
            assert_eq!(
                (&*advertisement.name, met.contains(&"unknown-layout")),
                (text, true)
            );
            assert_eq!(advertisement.online, None);
        }
    }

    #[test]
    fn the_number_of_the_protocol_may_be_missing() {
        for (text, protocol) in [
            ("MCPE;N;;v;3;9;7;L;Survival;1;1;1;", ""),
            ("MCEE;N;one;v;3;9;7;L;Survival;1;1;1;", "one"),
        ] {
            let (found, met) = read(text);
            assert_eq!(met, ["odd-protocol"], "{text}");
            assert_eq!(
                (found.protocol, found.odd_protocol.as_deref()),
                (None, Some(protocol))
            );
            assert_eq!((&*found.name, found.version.as_deref()), ("N", Some("v")));
            assert_eq!((found.online, found.max), (Some(3), Some(9)));
        }
    }

    #[test]
    fn counts_may_be_empty() {
        for (text, counts) in [
            ("MCPE;N;1;v;;9;7;L;Survival;1;1;1;", (None, Some(9))),
            ("MCPE;N;1;v;3;;7;L;Survival;1;1;1;", (Some(3), None)),
            ("MCPE;N;1;v;;;7;L;Survival;1;1;1;", (None, None)),
        ] {
            let (found, met) = read(text);
            let is_no_count = met.iter().all(|met| *met == "no-count");
            assert!(is_no_count && !met.is_empty(), "{text}: {met:?}");
            assert_eq!((&*found.name, found.version.as_deref()), ("N", Some("v")));
            assert_eq!((found.online, found.max), counts);
        }
        for text in ["MCPE;N;;v;;;7;L;Survival;1;1;1;", "MCPE;N;1;v;x;;7;L;"] {
            assert_eq!(read(text).1[0], "unknown-layout", "{text}");
        }
    }

    #[test]
    fn a_second_line_with_separators_ends_before_the_mode() {
        let level = |rest: &str| {
            let text = format!("MCPE;N;1;v;0;9;7;{rest}");
            let (found, met) = read(&text);
            let texts = [found.level, found.mode];
            let texts = texts.map(|text| text.map(String::from).unwrap_or_default());
            let is_met = met.contains(&"separator-in-level");
            (texts.join("|"), found.rest.len(), is_met)
        };
        let expected = |texts: &str, fields, is_met| (String::from(texts), fields, is_met);
        assert_eq!(level("L;Survival;1;2;3;"), expected("L|Survival", 3, false));
        assert_eq!(
            level("L; 2;east;Creative;1;2;3;"),
            expected("L; 2;east|Creative", 3, true)
        );
        assert_eq!(level("L;;Survival;"), expected("L;|Survival", 0, true));
        // Nothing shows where the line ends.
        assert_eq!(level("L;x;y;"), expected("L|x", 1, false));
        assert_eq!(level("L;Default;1;2;3;"), expected("L|Default", 3, false));
        assert_eq!(
            level("L;Survival;Creative;"),
            expected("L|Survival", 1, false)
        );
    }

    #[test]
    fn texts_cut_inside_a_character_stay_utf_8() {
        let read = |name: &[u8]| {
            let text = [b"MCPE;", name, b";1;v;0;9;7;L;Survival;1;1;1;"].concat();
            let mut notes = Notes::default();
            let found = Advertisement::read(&text, 35, 7, &mut notes);
            let met: Vec<_> = notes.met().map(|met| met.name).collect();
            (String::from(found.name), found.is_latin1, met.len())
        };
        let whole = "\u{A7}aH\u{E4}fen Nord, 24 hours a day";
        let cut = [whole.as_bytes(), b"\xE2\x98"].concat();
        assert_eq!(read(&cut), (whole.into(), false, 1));
        assert_eq!(
            read(b"\xA7aH\xE4fen Nord, 24 hours a day"),
            (whole.into(), true, 1)
        );
    }

    #[test]
    fn fields_above_the_limit_are_one() {
        for (more, count) in [(59, 54), (60, 55), (61, 55), (100, 55)] {
            let text = format!("MCPE;N;1;v;0;9;7{}", ";x".repeat(more - 3));
            let fields = read(&text).0.rest;
            assert_eq!(fields.len(), count, "{more}");
        }
    }

    #[test]
    fn numbers_have_at_most_20_digits() {
        let online = |digits: &str| read(&format!("MCPE;N;1;v;{digits};9;")).0.online;
        assert_eq!(online("99999999999999999999"), Some(i64::MAX));
        assert_eq!(online("-9999999999999999999"), Some(i64::MIN));
        assert_eq!(online("00000000000000000012"), Some(12));
        assert_eq!(online("000000000000000000012"), None);
    }

    #[test]
    fn ids_are_compared_with_the_header() {
        let met = |guid: &str, header: u64| {
            let text = format!("MCPE;N;1;v;0;9;{guid};L;Survival;1;1;1;");
            let mut notes = Notes::default();
            Advertisement::read(text.as_bytes(), 35, header, &mut notes);
            notes.met().map(|met| met.name).next()
        };
        assert_eq!(met("7", 7), None);
        assert_eq!(met("18446744073709551615", u64::MAX), None);
        assert_eq!(met("-1", u64::MAX), Some("negative-guid"));
        assert_eq!(met("-2", u64::MAX), Some("other-guid"));
        assert_eq!(met("8", 7), Some("other-guid"));
        assert_eq!(met("", 7), Some("guid-not-a-number"));
        assert_eq!(met("0000-7", 7), Some("guid-not-a-number"));
    }

    #[test]
    fn ports_and_modes_outside_of_the_game_are_named() {
        let met = |rest: &str| {
            let text = format!("MCPE;N;1;v;0;9;7;L;{rest};");
            let mut notes = Notes::default();
            Advertisement::read(text.as_bytes(), 35, 7, &mut notes);
            notes.met().map(|met| met.name).collect::<Vec<_>>()
        };
        assert_eq!(met("Creative;1;1;65535"), [""; 0]);
        assert_eq!(met("Creative;1;0;65535"), ["odd-port"]);
        assert_eq!(met("Creative;1;19132;65536"), ["odd-port"]);
        assert_eq!(met("Creative;x;19132;"), ["odd-port"]);
        assert_eq!(met("0;1;1;1"), ["odd-mode"]);
    }
}
