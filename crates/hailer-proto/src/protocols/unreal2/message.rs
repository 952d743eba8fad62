//! Bytes ⇄ messages. The only file that knows the layout (spec/unreal2.md#2 to #4).

use super::deviation::*;
use crate::protocol::{Direction, Explanation};
use crate::wire::codepage::CodePage;
use crate::wire::{Error, Notes, Reader};
use alloc::string::{String, ToString};
use alloc::{format, vec::Vec};
use compact_str::CompactString;

/// Length of a request in bytes, and of what precedes the body of a reply.
pub const HEADER: usize = 5;
/// Version in requests. All servers accept it.
pub const REQUEST_VERSION: u32 = 0x79;
/// Version in replies of Unreal Tournament 2004 and Killing Floor.
pub const REPLY_VERSION: u32 = 0x80;
/// Lowest and highest version of a game.
const VERSIONS: core::ops::RangeInclusive<u8> = 0x77..=0x80;
/// Longest text in characters, with its NUL.
const MAX_TEXT: usize = 1_024;
/// Most rules in a datagram.
const MAX_RULES: usize = 1_024;
/// Starts a color code, before red, green and blue.
const ESCAPE: char = '\u{1B}';
/// Most players in a datagram.
const MAX_PLAYERS: usize = 1_024;

/// Subject of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Name and counts.
    Info,
    /// Rules and mutators.
    Rules,
    /// Players.
    Players,
    /// Rules and players, as two kinds of datagrams. Only in requests.
    Both,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Info, Self::Rules, Self::Players, Self::Both];

    fn of_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte)).copied()
    }

    /// Returns the names of request and reply.
    fn names(self) -> [&'static str; 2] {
        match self {
            Self::Info => ["info request", "info reply"],
            Self::Rules => ["rules request", "rules reply"],
            Self::Players => ["players request", "players reply"],
            Self::Both => ["rules and players request", "reply"],
        }
    }

    /// Returns the kind of a message, if the bytes start like one.
    fn of_message(bytes: &[u8]) -> Option<Self> {
        let (start, _) = bytes.split_first_chunk::<HEADER>()?;
        match start {
            [version, 0, 0, 0, kind] if VERSIONS.contains(version) => Self::of_byte(*kind),
            _ => None,
        }
    }

    /// Returns what a request is about, if the bytes are one.
    pub fn of_request(bytes: &[u8]) -> Option<Self> {
        Self::of_message(bytes).filter(|_| bytes.len() == HEADER)
    }

    /// Returns what a reply is about, if the bytes start like one.
    pub fn of_reply(bytes: &[u8]) -> Option<Self> {
        Self::of_message(bytes).filter(|kind| *kind != Self::Both)
    }
}

/// Appends a request.
pub fn write_request(kind: Kind, out: &mut Vec<u8>) {
    write_start(REQUEST_VERSION, kind, out);
}

/// Appends the start of a message, up to the body of a reply.
pub fn write_start(version: u32, kind: Kind, out: &mut Vec<u8>) {
    out.extend(version.to_le_bytes());
    out.push(match kind {
        Kind::Info => 0,
        Kind::Rules => 1,
        Kind::Players => 2,
        Kind::Both => 3,
    });
}

/// A text: Windows-1252, or UTF-16 with the least significant byte first. Without its NUL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireText<'a> {
    /// Windows-1252.
    Narrow(&'a [u8]),
    /// UTF-16.
    Wide(&'a [u8]),
}

impl Default for WireText<'_> {
    fn default() -> Self {
        Self::Narrow(&[])
    }
}

impl WireText<'_> {
    /// Decodes the text.
    pub fn decode(self) -> CompactString {
        match self {
            Self::Narrow(bytes) => CodePage::Western.decode(bytes),
            Self::Wide(bytes) => {
                let text = utf16(bytes);
                narrowed(&text).unwrap_or(text)
            }
        }
    }
}

fn utf16(bytes: &[u8]) -> CompactString {
    let (units, _) = bytes.as_chunks();
    let units = units.iter().map(|unit| u16::from_le_bytes(*unit));
    let chars = char::decode_utf16(units);
    chars
        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// Returns the text whose UTF-8 bytes a server has widened to one character each, between the
/// color codes. `None`: the characters are those of the text (spec/unreal2.md#3).
fn narrowed(text: &str) -> Option<CompactString> {
    if text.is_ascii() {
        return None;
    }
    let mut out = CompactString::default();
    let mut is_found = false;
    let mut bytes = Vec::new();
    let mut chars = text.chars();
    loop {
        let next = chars.next();
        if let Some(c) = next.filter(|c| *c != ESCAPE) {
            let byte = CodePage::Western.byte(c);
            bytes.push(byte.or_else(|| u8::try_from(c).ok())?);
            continue;
        }
        out.push_str(core::str::from_utf8(&bytes).ok()?);
        is_found |= !bytes.is_ascii();
        bytes.clear();
        let Some(escape) = next else {
            return is_found.then_some(out);
        };
        out.push(escape);
        out.extend(chars.by_ref().take(3));
    }
}

/// Reply of an Unreal 2 server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Name and counts.
    Info(Info<'a>),
    /// Keys and values.
    Rules(Vec<(WireText<'a>, WireText<'a>)>),
    /// Players.
    Players(Vec<Player<'a>>),
}

/// Name and counts. Fields at the end may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info<'a> {
    /// Number of the server, usually 0.
    pub id: u32,
    /// Address, usually empty.
    pub address: WireText<'a>,
    /// Port of the game.
    pub game_port: u32,
    /// Port of queries, usually 0.
    pub query_port: u32,
    /// Name with its color codes.
    pub name: WireText<'a>,
    /// Name of the current map.
    pub map: WireText<'a>,
    /// Class of the game.
    pub class: WireText<'a>,
    /// Number of players online.
    pub players: u32,
    /// Maximum number of players.
    pub max: u32,
    /// Wave and last wave (Killing Floor).
    pub waves: Option<[u32; 2]>,
    /// Flags of the message.
    pub flags: Option<u32>,
    /// Level of skill or difficulty.
    pub skill: Option<WireText<'a>>,
}

/// An entry of the list of players.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Player<'a> {
    /// Number of the player; 0 in a row of the scoreboard.
    pub id: u32,
    /// Name of the player.
    pub name: WireText<'a>,
    /// Round trip in milliseconds; 0 for bots.
    pub ping: u32,
    /// Score of the player.
    pub score: i32,
    /// Team bits or number of the statistics.
    pub statistics: u32,
}

impl<'a> Reply<'a> {
    /// Parses a reply of an Unreal 2 server.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated, too long or of another protocol, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        r.u32_le("version")?;
        let at = r.at();
        let kind = Kind::of_byte(r.u8("kind")?).filter(|kind| *kind != Kind::Both);
        let kind = kind.ok_or(Error::bad("kind", at, "0, 1 or 2"))?;
        if kind != Kind::Info && r.remaining() == 0 {
            let at = r.at();
            r.notes().deviation(&EMPTY_REPLY, at);
        }
        match kind {
            Kind::Info => info(&mut r).map(Self::Info),
            Kind::Rules | Kind::Both => {
                list(&mut r, ("rules", "rule"), MAX_RULES, rule).map(Self::Rules)
            }
            Kind::Players => {
                list(&mut r, ("players", "player"), MAX_PLAYERS, player).map(Self::Players)
            }
        }
    }
}

fn info<'a>(r: &mut Reader<'a, '_>) -> Result<Info<'a>, Error> {
    let mut info = Info {
        id: r.u32_le("server id")?,
        address: text(r, "address")?,
        game_port: r.u32_le("game port")?,
        query_port: r.u32_le("query port")?,
        name: text(r, "name")?,
        map: text(r, "map")?,
        class: text(r, "game class")?,
        players: r.u32_le("players")?,
        max: r.u32_le("max players")?,
        ..Info::default()
    };
    // Fields after the counts are optional: a truncated one is left out.
    let at = r.at();
    if tail(r, &mut info).is_err() {
        r.notes().deviation(&SHORT_INFO, at);
    }
    Ok(info)
}

/// Reads the fields after the counts.
fn tail<'a>(r: &mut Reader<'a, '_>, info: &mut Info<'a>) -> Result<(), Error> {
    let has_waves = info.class.decode().starts_with("KF");
    if has_waves && has_more(r) {
        info.waves = Some([r.u32_le("wave")?, r.u32_le("last wave")?]);
    }
    if has_more(r) {
        r.u32_le("ping")?;
    }
    if has_more(r) {
        info.flags = Some(r.u32_le("flags")?);
    }
    if has_more(r) {
        info.skill = Some(text(r, "skill")?);
    }
    if has_more(r) {
        r.raw(2, "end")?;
    }
    r.trailing(&TRAILING_BYTES);
    Ok(())
}

/// Returns whether there is a further field. Servers of older games end after any field.
fn has_more(r: &mut Reader<'_, '_>) -> bool {
    let at = r.at();
    if r.remaining() == 0 {
        r.notes().deviation(&SHORT_INFO, at);
    }
    r.remaining() > 0
}

/// Reads entries up to the end.
fn list<'a, 'n, T>(
    r: &mut Reader<'a, 'n>,
    (name, field): (&'static str, &'static str),
    max: usize,
    mut entry: impl FnMut(&mut Reader<'a, 'n>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut entries = Vec::new();
    while r.remaining() > 0 {
        let at = r.at();
        limit(field, entries.len(), max, at)?;
        r.notes().group(name, entries.len());
        entries.push(entry(r)?);
    }
    r.notes().ungroup();
    Ok(entries)
}

fn rule<'a>(r: &mut Reader<'a, '_>) -> Result<(WireText<'a>, WireText<'a>), Error> {
    Ok((text(r, "key")?, text(r, "value")?))
}

fn player<'a>(r: &mut Reader<'a, '_>) -> Result<Player<'a>, Error> {
    Ok(Player {
        id: r.u32_le("id")?,
        name: text(r, "name")?,
        ping: r.u32_le("ping")?,
        score: r.i32_le("score")?,
        statistics: r.u32_le("statistics id")?,
    })
}

fn limit(field: &'static str, count: usize, limit: usize, at: usize) -> Result<(), Error> {
    if count < limit {
        Ok(())
    } else {
        Err(Error::limit(field, at, limit))
    }
}

/// Reads a text after its length, a compact index: positive for bytes of Windows-1252, negative for
/// units of UTF-16 (spec/unreal2.md#3).
fn text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<WireText<'a>, Error> {
    let start = r.at();
    let length = index(r, field)?;
    let count = length.unsigned_abs() as usize;
    limit(field, count, MAX_TEXT + 1, start)?;
    let is_wide = length < 0;
    let width = if is_wide { 2 } else { 1 };
    let bytes = r.take(width * count, field)?;
    let (body, end) = bytes
        .split_at_checked(bytes.len().saturating_sub(width))
        .unwrap_or_default();
    let has_nul = end.iter().all(|byte| *byte == 0);
    let body = if has_nul { body } else { bytes };
    let text = if is_wide {
        WireText::Wide(body)
    } else {
        WireText::Narrow(body)
    };
    r.note(start, field, || format!("{:?}", text.decode()));
    if is_wide && narrowed(&utf16(body)).is_some() {
        r.notes().deviation(&WIDENED_UTF8, start);
    }
    if !has_nul {
        r.notes().deviation(&MISSING_NUL, start);
    }
    Ok(text)
}

/// Reads a compact index.
///
/// # Errors
///
/// Fails if the datagram ends too early, or the number does not fit into 32 bits.
pub fn index(r: &mut Reader<'_, '_>, field: &'static str) -> Result<i32, Error> {
    let at = r.at();
    let [first] = r.array(field)?;
    let mut value = u64::from(first & 0x3F);
    let mut has_more = first & 0x40 != 0;
    for shift in [6, 13, 20, 27] {
        if !has_more {
            break;
        }
        let [next] = r.array(field)?;
        // The fifth byte has all its bits for the value.
        let is_last = shift == 27;
        let bits = if is_last { next } else { next & 0x7F };
        value |= u64::from(bits) << shift;
        has_more = !is_last && next & 0x80 != 0;
    }
    let value = i32::try_from(value).map_err(|_| Error::bad(field, at, "a length below 2^31"))?;
    Ok(if first & 0x80 != 0 { -value } else { value })
}

/// Appends a compact index.
pub fn write_index(value: i32, out: &mut Vec<u8>) {
    let sign = if value < 0 { 0x80 } else { 0 };
    let mut rest = value.unsigned_abs();
    let low = (rest & 0x3F) as u8;
    rest >>= 6;
    out.push(low | sign | if rest > 0 { 0x40 } else { 0 });
    for place in 1..5 {
        if rest == 0 {
            break;
        }
        let bits = if place == 4 { 0xFF } else { 0x7F };
        let low = (rest & bits) as u8;
        rest >>= 7;
        let more = if place < 4 && rest > 0 { 0x80 } else { 0 };
        out.push(low | more);
    }
}

/// Appends a text: in Windows-1252 if it has all characters, else in UTF-16.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    if text.is_empty() {
        out.push(0);
        return;
    }
    let narrow: Option<Vec<u8>> = text.chars().map(|c| CodePage::Western.byte(c)).collect();
    match narrow {
        Some(narrow) => {
            write_index(narrow.len() as i32 + 1, out);
            out.extend(narrow);
            out.push(0);
        }
        None => {
            let units: Vec<u16> = text.encode_utf16().collect();
            write_index(-(units.len() as i32 + 1), out);
            out.extend(units.into_iter().flat_map(u16::to_le_bytes));
            out.extend([0; 2]);
        }
    }
}

/// Parses one datagram to collect its notes. A reply without entries looks like a request; without
/// a known direction, it is one.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let request = Kind::of_request(bytes).filter(|_| direction != Some(Direction::Reply));
    if let Some(kind) = request {
        let [message, _] = kind.names();
        let mut r = Reader::new(bytes, notes);
        let version = r.u32_le("version");
        let error = version.and_then(|_| {
            let at = r.at();
            let kind = r.array::<1>("kind")?;
            r.note(at, "kind", || kind.map(|kind| kind.to_string()).concat());
            Ok(())
        });
        return Some(Explanation::guess(message, Direction::Request, error.err()));
    }
    let kind = Kind::of_reply(bytes).filter(|_| direction != Some(Direction::Request))?;
    let [_, message] = kind.names();
    Some(Explanation::guess(
        message,
        Direction::Reply,
        Reply::read(bytes, notes).err(),
    ))
}

/// Returns a text without control characters, except those of whole color codes, of at most
/// `limit` characters.
pub fn clean(text: &str, limit: usize) -> String {
    let mut out = String::new();
    let mut room = limit;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == ESCAPE {
            let code: String = chars.by_ref().take(3).collect();
            let length = code.chars().count();
            let is_code = length == 3 && !code.contains(['\0', '\u{1B}']);
            if is_code && room > length {
                out.push(c);
                out.push_str(&code);
                room -= length + 1;
            }
            continue;
        }
        if crate::model::is_control(c) {
            continue;
        }
        if room == 0 {
            break;
        }
        out.push(c);
        room -= 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn information_ends_only_after_its_counts() {
        let bytes = b"\x80\0\0\0\0\0\0\0\0\0\x61\x1E\0\0\0\0\0\0\x05Test\0\x0ADM-Rankin\0\
            \x0CxDeathMatch\0\x02\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\x022\0\0\0";
        let is_read = |end: &usize| Reply::read(&bytes[..*end], &mut Notes::default()).is_ok();
        let ends: Vec<usize> = (0..=bytes.len()).filter(is_read).collect();
        // A field that is cut is left out, with a deviation.
        let counts = bytes.len() - 13;
        assert_eq!(ends, Vec::from_iter(counts..=bytes.len()));
        let killing_floor = b"\x80\0\0\0\0\0\0\0\0\0\x61\x1E\0\0\0\0\0\0\x05Test\0\x0ADM-Rankin\0\
            \x0BKFGameType\0\x02\0\0\0\x10\0\0\0\x03\0\0";
        for end in [killing_floor.len() - 3, killing_floor.len()] {
            let mut notes = Notes::default();
            let reply = Reply::read(&killing_floor[..end], &mut notes);
            let Ok(Reply::Info(info)) = reply else {
                panic!("{reply:?}")
            };
            assert_eq!((info.players, info.max, info.waves), (2, 16, None));
            let met: Vec<&str> = notes.met().map(|deviation| deviation.name).collect();
            assert_eq!(met, ["short-info"]);
        }
    }

    #[test]
    fn indexes_both_ways() {
        let mut out = Vec::new();
        let values = [5, 63, 64, 193, -16, -69];
        values
            .into_iter()
            .for_each(|value| write_index(value, &mut out));
        assert_eq!(out, [0x05, 0x3F, 0x40, 0x01, 0x41, 0x03, 0x90, 0xC5, 0x01]);
        let far = [0, i32::MAX, -i32::MAX, 1 << 20, -(1 << 27)];
        for value in values.into_iter().chain(far) {
            let mut out = Vec::new();
            write_index(value, &mut out);
            let mut notes = Notes::default();
            let mut r = Reader::new(&out, &mut notes);
            assert_eq!((index(&mut r, "x"), r.remaining()), (Ok(value), 0));
            for end in 0..out.len() {
                let mut notes = Notes::default();
                assert!(index(&mut Reader::new(&out[..end], &mut notes), "x").is_err());
            }
        }
        let mut notes = Notes::default();
        // The fifth byte has no sign for more bytes.
        let high = [0x40, 0x80, 0x80, 0x80, 0x80];
        assert!(index(&mut Reader::new(&high, &mut Notes::default()), "x").is_err());
        let long = [0x7F, 0xFF, 0xFF, 0xFF, 0xFF];
        let error = index(&mut Reader::new(&long, &mut notes), "x").unwrap_err();
        assert_eq!(
            error.to_string(),
            "x at offset 0: expected a length below 2^31"
        );
    }

    #[test]
    fn texts_both_ways() {
        for (value, bytes) in [
            ("", &b"\0"[..]),
            ("Test", b"\x05Test\0"),
            ("\u{20AC}\u{E9}", b"\x03\x80\xE9\0"),
            ("\u{2620}Al", b"\x84\x20\x26A\0l\0\0\0"),
            ("\u{1F600}", b"\x83\x3D\xD8\0\xDE\0\0"),
        ] {
            let mut out = Vec::new();
            write_text(value, &mut out);
            assert_eq!(out, bytes, "{value:?}");
            let mut notes = Notes::default();
            let read = text(&mut Reader::new(&out, &mut notes), "x").unwrap();
            assert_eq!((&*read.decode(), notes.met().count()), (value, 0));
        }
        let mut notes = Notes::default();
        let read = text(&mut Reader::new(b"\x02Al", &mut notes), "x").unwrap();
        assert_eq!((&*read.decode(), notes.met().count()), ("Al", 1));
        // The UTF-8 bytes of a star, as characters of Windows-1252 and of ISO-8859-1, after a color.
        for star in [b"\xE2\0\xDC\x02\x20\x20", b"\xE2\0\x98\0\x86\0"] {
            let start = b"\x89\x1B\0\xFF\0\x80\0\x40\0A\0";
            let bytes = [&start[..], star, b"\0\0"].concat();
            let mut notes = Notes::default();
            let read = text(&mut Reader::new(&bytes, &mut notes), "x").unwrap();
            assert_eq!(read.decode(), "\u{1B}\u{FF}\u{80}\u{40}A\u{2606}");
            assert_eq!(notes.met().collect::<Vec<_>>(), [&WIDENED_UTF8]);
        }
        let long = [0x41, 0x7F, 0];
        assert!(text(&mut Reader::new(&long, &mut Notes::default()), "x").is_err());
    }

    #[test]
    fn only_classes_of_killing_floor_have_waves() {
        let waves = |class: &str| {
            let mut bytes = Vec::new();
            write_start(REPLY_VERSION, Kind::Info, &mut bytes);
            bytes.extend([0; 13]);
            write_text("Test", &mut bytes);
            write_text("Farm", &mut bytes);
            write_text(class, &mut bytes);
            for number in [2_u32, 6, 3, 7] {
                bytes.extend(number.to_le_bytes());
            }
            match Reply::read(&bytes, &mut Notes::default()) {
                Ok(Reply::Info(info)) => info.waves,
                reply => panic!("{reply:?}"),
            }
        };
        assert_eq!(waves("KFGameType"), Some([3, 7]));
        assert_eq!(waves("KingOfTheHill"), None);
    }

    #[test]
    fn texts_are_cleaned_between_codes() {
        assert_eq!(clean("a\n\u{1B}\u{1}@@b\u{1}", 9), "a\u{1B}\u{1}@@b");
        assert_eq!(clean("ab\u{1B}@@@c", 5), "abc");
        assert_eq!(clean("a\u{1B}@", 9), "a");
        assert_eq!(clean("abc", 2), "ab");
    }
}
