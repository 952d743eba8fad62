//! Infostrings and player lines: the text formats that the Quake family shares
//! (spec/quake3.md#3, spec/quake3.md#5).
//!
//! ```text
//!   \hostname\Test\mapname\q3dm17        pairs of keys and values
//!   12 48 "Al"                           words, of which some have quotes
//! ```
//!
//! Limits: 512 pairs and 1,024 lines of a reply. Decoding never fails: the encoding is UTF-8, or
//! else Windows-1252, for each text.

use crate::model::{Player, Rule, is_control};
use crate::wire::codepage::utf8_or_western;
use crate::wire::{Deviation, Error, Notes, Utf8, cut, first_of, whole_number};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use compact_str::CompactString;
use core::ops::Range;
use memchr::memchr_iter;

/// Most pairs of an infostring.
pub const MAX_PAIRS: usize = 512;
/// Room for the pairs of most replies.
const USUAL_PAIRS: usize = 24;
/// Lists of pairs whose keys have the same [`bucket`].
const BUCKETS: usize = 32;
/// Room for the lines of most replies.
const USUAL_LINES: usize = 9;
/// Most lines of a reply.
pub const MAX_LINES: usize = 1_024;
/// Longest key or value that is written, in bytes.
pub const MAX_WRITTEN: usize = 128;

/// A pair of an infostring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair<'a> {
    key: &'a [u8],
    value: &'a [u8],
    /// Place of the next pair in the same bucket plus 1. 0: none.
    next: u16,
    is_taken: bool,
}

impl Pair<'_> {
    fn is_named(&self, key: &str) -> bool {
        // Most servers use the usual case, which is faster to compare.
        self.key == key.as_bytes() || self.key.eq_ignore_ascii_case(key.as_bytes())
    }
}

/// The deviations that a protocol records about its texts, and their decoding.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// A key has no value.
    pub no_value: &'static Deviation,
    /// A key occurs twice.
    pub duplicate: &'static Deviation,
    /// A reply has an empty line.
    pub empty_line: &'static Deviation,
    /// The last line has no line feed. `None` if it needs none.
    pub no_line_feed: Option<&'static Deviation>,
    /// A second infostring follows the players. `None` if such a line is a player.
    pub variables_after_players: Option<&'static Deviation>,
    /// Decodes a key or value.
    pub decode: fn(&[u8]) -> CompactString,
}

/// A parsed infostring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Infostring<'a> {
    pairs: Vec<Pair<'a>>,
    /// Place of the first pair of each bucket plus 1. 0: none.
    buckets: [u16; BUCKETS],
    /// The bytes, checked together: most texts need no further check.
    utf8: Utf8<'a>,
}

impl<'a> Infostring<'a> {
    /// Parses an infostring at offset `at` of the datagram. Of keys that occur twice, the first
    /// value is kept.
    ///
    /// # Errors
    ///
    /// Fails if it does not start with a backslash, or has more than 512 pairs.
    pub fn read(
        bytes: &'a [u8],
        at: usize,
        notes: &mut Notes,
        dialect: &Dialect,
    ) -> Result<Self, Error> {
        Self::read_open(bytes, at, &[], notes, dialect)
    }

    /// Parses an infostring with backslashes in these [values](open_values).
    ///
    /// # Errors
    ///
    /// As [`Infostring::read`].
    pub fn read_open(
        bytes: &'a [u8],
        at: usize,
        open: &[Range<usize>],
        notes: &mut Notes,
        dialect: &Dialect,
    ) -> Result<Self, Error> {
        let mut info = Self {
            pairs: Vec::with_capacity(USUAL_PAIRS),
            buckets: [0; BUCKETS],
            utf8: Utf8::start_of(bytes),
        };
        info.add(bytes, at, open, notes, dialect)?;
        Ok(info)
    }

    /// Parses a further infostring of the same datagram.
    ///
    /// # Errors
    ///
    /// As [`Infostring::read`].
    pub fn extend(
        &mut self,
        bytes: &'a [u8],
        at: usize,
        notes: &mut Notes,
        dialect: &Dialect,
    ) -> Result<(), Error> {
        self.add(bytes, at, &[], notes, dialect)
    }

    fn add(
        &mut self,
        bytes: &'a [u8],
        at: usize,
        open: &[Range<usize>],
        notes: &mut Notes,
        dialect: &Dialect,
    ) -> Result<(), Error> {
        let pieces = pieces_except(bytes, b'\\', open);
        let mut pieces = pieces.map(|(range, piece)| (at + range.start, piece));
        if pieces.next().is_some_and(|(_, piece)| !piece.is_empty()) {
            return Err(Error::bad(
                "infostring",
                at,
                "a backslash before the first key",
            ));
        }
        while let Some((key_at, key)) = pieces.next() {
            let end = key_at + key.len();
            let Some((value_at, value)) = pieces.next() else {
                // A separator at the end has no key after it.
                notes.field(key_at..end, "key", || {
                    format!("{:?}", (dialect.decode)(key))
                });
                notes.deviation(dialect.no_value, key_at);
                break;
            };
            notes.field(key_at..end, "key", || {
                format!("{:?}", (dialect.decode)(key))
            });
            notes.field(value_at..value_at + value.len(), "value", || {
                format!("{:?}", (dialect.decode)(value))
            });
            let mut last = None;
            let same = self.of_bucket(key);
            let is_known = same
                .inspect(|(place, _)| last = Some(*place))
                .any(|(_, pair)| pair.key == key);
            if is_known {
                notes.deviation(dialect.duplicate, key_at);
                continue;
            }
            if self.pairs.len() == MAX_PAIRS {
                return Err(Error::limit("key", key_at, MAX_PAIRS));
            }
            self.pairs.push(Pair {
                key,
                value,
                next: 0,
                is_taken: false,
            });
            let end = self.pairs.len() as u16;
            let next = match last {
                Some(last) => self.pairs.get_mut(last).map(|pair| &mut pair.next),
                None => self.buckets.get_mut(bucket(key)),
            };
            if let Some(next) = next {
                *next = end;
            }
        }
        Ok(())
    }

    /// Returns the pairs in the bucket of a key, in order, with their places.
    fn of_bucket(&self, key: &[u8]) -> impl Iterator<Item = (usize, &Pair<'a>)> {
        let mut next = self.buckets.get(bucket(key)).copied().unwrap_or(0);
        core::iter::from_fn(move || {
            let place = usize::from(next).checked_sub(1)?;
            let pair = self.pairs.get(place)?;
            next = pair.next;
            Some((place, pair))
        })
    }

    /// Returns the value of a key, without taking it. As in the engines, the case of keys does not
    /// matter.
    pub fn find(&self, key: &str) -> Option<&'a [u8]> {
        let mut same = self.of_bucket(key.as_bytes());
        same.find_map(|(_, pair)| pair.is_named(key).then_some(pair.value))
    }

    /// Returns the value of a key as text, without taking it.
    pub fn text(&self, key: &str) -> Option<Cow<'a, str>> {
        let value = self.find(key)?;
        let checked = self.utf8.find(value);
        Some(checked.map_or_else(|| utf8_or_western(value).0, Cow::Borrowed))
    }

    /// Returns the value of a key as a number, without taking it.
    pub fn number(&self, key: &str) -> Option<i64> {
        whole_number(self.find(key)?)
    }

    /// Takes the first of these keys that has a value of any length, so that it is no rule.
    pub fn take(&mut self, keys: &[&str]) -> Option<&'a [u8]> {
        self.take_if(keys, |_| true)
    }

    /// Takes the first of these keys whose value is not empty, as text.
    pub fn take_text(&mut self, keys: &[&str]) -> Option<CompactString> {
        self.take_filled(keys).map(|value| self.decode(value))
    }

    /// Takes the first of these keys whose value is not empty.
    pub fn take_filled(&mut self, keys: &[&str]) -> Option<&'a [u8]> {
        self.take_if(keys, |value| !value.is_empty())
    }

    /// Takes the first of these keys whose value is a number.
    pub fn take_number(&mut self, keys: &[&str]) -> Option<i64> {
        whole_number(self.take_if(keys, |value| whole_number(value).is_some())?)
    }

    fn take_if(&mut self, keys: &[&str], accepts: impl Fn(&[u8]) -> bool) -> Option<&'a [u8]> {
        let place = |key: &&str| {
            let mut same = self.of_bucket(key.as_bytes());
            let is_it = |pair: &Pair<'_>| pair.is_named(key) && accepts(pair.value);
            same.find_map(|(place, pair)| is_it(pair).then_some(place))
        };
        let place = keys.iter().find_map(place)?;
        let pair = self.pairs.get_mut(place)?;
        pair.is_taken = true;
        Some(pair.value)
    }

    /// Decodes a key or value like [`decode`].
    pub fn decode(&self, bytes: &[u8]) -> CompactString {
        match self.utf8.find(bytes) {
            Some(text) => text.into(),
            None => decode(bytes),
        }
    }

    /// Returns the pairs that were not taken, in order.
    pub fn rules(&self, decode: impl Fn(&[u8]) -> CompactString) -> Vec<Rule> {
        let mut rules = Vec::with_capacity(self.pairs.len());
        let rest = self.pairs.iter().filter(|pair| !pair.is_taken);
        rules.extend(rest.map(|pair| Rule {
            key: decode(pair.key),
            value: decode(pair.value),
        }));
        rules
    }
}

/// Returns a number for a key, by its length and its first and last byte. The case of letters does
/// not matter.
#[inline]
fn bucket(key: &[u8]) -> usize {
    let ends = [key.first(), key.last()].map(|end| end.map_or(0, |end| usize::from(end | 0x20)));
    let [first, last] = ends;
    (first ^ last << 1 ^ key.len() << 2) % BUCKETS
}

/// Decodes a text: UTF-8 if it is valid, else Windows-1252.
pub fn decode(bytes: &[u8]) -> CompactString {
    CompactString::new(utf8_or_western(bytes).0)
}

/// Returns the places of the values of all keys but the last, for servers that do not escape
/// backslashes and send these keys one after the other. Empty if a key is missing.
pub fn open_values(bytes: &[u8], keys: &[&str]) -> Vec<Range<usize>> {
    let mut start = None;
    let mut values = Vec::new();
    for key in keys {
        let separated = format!("\\{key}\\");
        let from = start.unwrap_or(0);
        let rest = bytes.get(from..).unwrap_or_default();
        let Some(place) = memchr::memmem::find(rest, separated.as_bytes()) else {
            return Vec::new();
        };
        if start.is_some() {
            values.push(from..from + place);
        }
        start = Some(from + place + separated.len());
    }
    values
}

/// Parses an infostring and the lines of players after it, at offset `at`. `read` returns `None` for
/// a line of another kind. Lines of NULs are no players.
///
/// # Errors
///
/// As [`Infostring::read`], and if there are more than 1,024 players.
pub fn read_lines<'a, L>(
    bytes: &'a [u8],
    at: usize,
    notes: &mut Notes,
    dialect: &Dialect,
    read: impl Fn(&'a [u8], usize, &mut Notes) -> Option<L>,
) -> Result<(Infostring<'a>, Vec<L>), Error> {
    let note = |deviation: Option<_>, at, notes: &mut Notes| {
        if let Some(deviation) = deviation {
            notes.deviation(deviation, at);
        }
    };
    let mut lines = pieces(bytes, b'\n').map(|(range, line)| (at + range.start, line));
    let (info_at, first) = lines.next().unwrap_or((at, b""));
    let mut info = Infostring::read(first, info_at, notes, dialect)?;
    let mut players = Vec::with_capacity(USUAL_LINES);
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        note(dialect.no_line_feed, at + bytes.len(), notes);
    }
    while let Some((at, line)) = lines.next() {
        let is_last = lines.peek().is_none();
        if line.iter().all(|byte| *byte == 0) {
            note((!is_last).then_some(dialect.empty_line), at, notes);
            continue;
        }
        if is_last {
            note(dialect.no_line_feed, at + line.len(), notes);
        }
        if let Some(deviation) = dialect
            .variables_after_players
            .filter(|_| line.starts_with(b"\\"))
        {
            notes.deviation(deviation, at);
            info.extend(line, at, notes, dialect)?;
            continue;
        }
        notes.group("players", players.len());
        if let Some(player) = read(line, at, notes) {
            if players.len() == MAX_LINES {
                return Err(Error::limit("player", at, MAX_LINES));
            }
            players.push(player);
        }
        notes.ungroup();
    }
    Ok((info, players))
}

/// Returns the pieces between separators, with their ranges.
fn pieces(bytes: &[u8], separator: u8) -> impl Iterator<Item = (Range<usize>, &[u8])> {
    pieces_except(bytes, separator, &[])
}

/// Returns the pieces between separators outside of the ranges `open`.
fn pieces_except<'a>(
    bytes: &'a [u8],
    separator: u8,
    open: &[Range<usize>],
) -> impl Iterator<Item = (Range<usize>, &'a [u8])> {
    let mut next = Some(0);
    core::iter::from_fn(move || {
        let start = next?;
        let mut from = start;
        next = loop {
            let rest = bytes.get(from..).unwrap_or_default();
            let Some(length) = first_of(separator, rest) else {
                break None;
            };
            from += length + 1;
            if !open.iter().any(|range| range.contains(&(from - 1))) {
                break Some(from);
            }
        };
        let end = next.map_or(bytes.len(), |next| next - 1);
        Some((start..end, bytes.get(start..end).unwrap_or_default()))
    })
}

/// A word of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// The word without quotes.
    pub bytes: &'a [u8],
    /// Offset in the datagram.
    pub at: usize,
    /// Whether the word has quotes.
    pub is_quoted: bool,
}

impl Word<'_> {
    /// Returns the word as a number.
    pub fn number(self) -> Option<i64> {
        whole_number(self.bytes)
    }

    /// Notes the word as a field.
    pub fn note(self, name: &'static str, notes: &mut Notes) {
        self.note_as(decode, name, notes);
    }

    /// Notes the word, which `decode` turns into text.
    pub fn note_as(
        self,
        decode: fn(&[u8]) -> CompactString,
        name: &'static str,
        notes: &mut Notes,
    ) {
        notes.field(self.at..self.at + self.bytes.len(), name, || {
            format!("{:?}", decode(self.bytes))
        });
    }
}

/// Splits a line at offset `at` into words. A word with quotes ends at a quote before a space or
/// the end of the line, so that a name can contain quotes.
pub fn words(line: &[u8], at: usize) -> impl Iterator<Item = Word<'_>> {
    let mut start = 0;
    core::iter::from_fn(move || {
        let rest = line.get(start..)?;
        start += rest.iter().position(|byte| *byte != b' ')?;
        let rest = line.get(start..)?;
        let (is_quoted, body) = match rest.strip_prefix(b"\"") {
            Some(body) => (true, body),
            None => (false, rest),
        };
        let end = if is_quoted {
            let ends = |place: &usize| matches!(body.get(place + 1), None | Some(b' '));
            memchr_iter(b'"', body).find(ends)
        } else {
            body.iter().position(|byte| *byte == b' ')
        };
        let length = end.unwrap_or(body.len());
        let word = Word {
            bytes: body.get(..length)?,
            at: at + start + usize::from(is_quoted),
            is_quoted,
        };
        start += length + if is_quoted { 2 } else { 0 };
        Some(word)
    })
}

/// Writes an infostring of limited length.
#[derive(Debug)]
pub struct InfostringWriter {
    bytes: Vec<u8>,
    keys: Vec<String>,
    limit: usize,
}

impl InfostringWriter {
    /// Creates a writer that drops pairs beyond `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            keys: Vec::new(),
            limit,
        }
    }

    /// Appends a pair, unless the key is there already, one of both is empty, or the limit would be
    /// exceeded.
    pub fn pair(&mut self, key: &str, value: &str) -> &mut Self {
        self.reserve(key);
        let key = clean(key);
        let value = clean(value);
        let key = cut(&key, MAX_WRITTEN);
        let value = cut(&value, MAX_WRITTEN);
        let is_known = self.keys.iter().filter(|known| **known == key).count() > 1;
        let length = 2 + key.len() + value.len();
        if key.is_empty() || value.is_empty() || is_known || self.bytes.len() + length > self.limit
        {
            return self;
        }
        self.bytes.extend(format!("\\{key}\\{value}").bytes());
        self
    }

    /// Appends a pair if there is a value.
    pub fn option(&mut self, key: &str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.pair(key, value),
            None => self,
        }
    }

    /// Keeps a key from being written later.
    pub fn reserve(&mut self, key: &str) -> &mut Self {
        self.keys.push(cut(&clean(key), MAX_WRITTEN).into());
        self
    }

    /// Appends rules, except those with keys that were written or reserved before.
    pub fn rules(&mut self, rules: &[Rule]) -> &mut Self {
        for rule in rules.iter().take(MAX_PAIRS) {
            self.pair(&rule.key, &rule.value);
        }
        self
    }

    /// Returns the infostring.
    pub fn finish(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.bytes)
    }
}

/// Returns a text without the characters that infostrings cannot hold, and without spaces at its
/// ends.
fn clean(text: &str) -> String {
    let kept = |c: &char| !matches!(c, '\\' | '"' | ';') && !is_control(*c);
    let text: String = text.chars().filter(kept).collect();
    text.trim().into()
}

/// Returns a player's name without the characters that player lines cannot hold, of at most `limit`
/// bytes.
pub fn wire_name(player: &Player, limit: usize) -> String {
    let name = player.name.raw();
    let kept = |c: &char| !matches!(c, '\\' | '"') && !is_control(*c);
    let name: String = name.chars().filter(kept).collect();
    cut(&name, limit).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Text;
    use crate::wire::ErrorKind;
    use alloc::vec;

    static NO_VALUE: Deviation = Deviation {
        name: "no-value",
        help: "a test",
    };
    static DUPLICATE: Deviation = Deviation {
        name: "duplicate",
        help: "a test",
    };

    const DIALECT: &Dialect = &Dialect {
        no_value: &NO_VALUE,
        duplicate: &DUPLICATE,
        empty_line: &NO_VALUE,
        no_line_feed: None,
        variables_after_players: None,
        decode,
    };

    fn read(bytes: &[u8]) -> (Result<Vec<Rule>, Error>, Vec<&'static str>) {
        let mut notes = Notes::explaining();
        let info = Infostring::read(bytes, 5, &mut notes, DIALECT);
        assert!(notes.fields().iter().all(|field| field.range.start >= 5));
        let rules = info.map(|info| info.rules(decode));
        (rules, notes.met().map(|met| met.name).collect())
    }

    fn rules(pairs: &[(&str, &str)]) -> Vec<Rule> {
        let rule = |(key, value): &(&str, &str)| Rule {
            key: (*key).into(),
            value: (*value).into(),
        };
        pairs.iter().map(rule).collect()
    }

    #[test]
    fn pairs_in_order() {
        let good = |bytes: &[u8], pairs: &[(&str, &str)]| {
            assert_eq!(read(bytes), (Ok(rules(pairs)), vec![]), "{bytes:?}");
        };
        good(b"", &[]);
        good(b"\\a\\1\\b\\\\\\c", &[("a", "1"), ("b", ""), ("", "c")]);
        good(b"\\caf\xE9\\\xC3\xA9", &[("caf\u{E9}", "\u{E9}")]);
        good(
            b"\\\x93a\x94\\\x80\x81",
            &[("\u{201C}a\u{201D}", "\u{20AC}\u{81}")],
        );
        assert_eq!(
            read(b"\\a\\1\\b"),
            (Ok(rules(&[("a", "1")])), vec!["no-value"])
        );
        assert_eq!(
            read(b"\\a\\1\\a\\2"),
            (Ok(rules(&[("a", "1")])), vec!["duplicate"])
        );
        assert_eq!(read(b"a\\1").0.unwrap_err().at, 5);
        let many = |count: usize| -> Vec<u8> {
            (0..count)
                .flat_map(|i| format!("\\{i}\\x").into_bytes())
                .collect()
        };
        assert_eq!(read(&many(MAX_PAIRS)).0.unwrap().len(), MAX_PAIRS);
        assert!(matches!(
            read(&many(MAX_PAIRS + 1)).0.unwrap_err().kind,
            ErrorKind::Limit { limit: MAX_PAIRS }
        ));
    }

    #[test]
    fn keys_are_taken_in_order_of_preference() {
        let bytes = b"\\b\\\\a\\x\\n\\7\\m\\-2";
        let mut info = Infostring::read(bytes, 0, &mut Notes::default(), DIALECT).unwrap();
        assert_eq!(
            info.take_text(&["b", "a"]).as_deref(),
            Some("x"),
            "b is empty"
        );
        assert_eq!(
            info.take_number(&["a", "m", "n"]),
            Some(-2),
            "a is no number"
        );
        assert_eq!((info.number("n"), info.number("zz")), (Some(7), None));
        assert_eq!(info.find("n"), Some(&b"7"[..]));
        assert_eq!(info.take(&["c", "b"]), Some(&b""[..]));
        assert_eq!(info.rules(decode), rules(&[("n", "7")]));
    }

    #[test]
    fn words_of_a_line() {
        let split = |line: &'static str| -> Vec<(&'static str, usize, bool)> {
            words(line.as_bytes(), 10)
                .map(|word| {
                    (
                        core::str::from_utf8(word.bytes).unwrap(),
                        word.at,
                        word.is_quoted,
                    )
                })
                .collect()
        };
        assert_eq!(split(""), []);
        assert_eq!(split("  "), []);
        assert_eq!(
            split("1 -2  \"a b\" \"\" x"),
            [
                ("1", 10, false),
                ("-2", 12, false),
                ("a b", 17, true),
                ("", 23, true),
                ("x", 25, false)
            ]
        );
        assert_eq!(split("\"a\"b\""), [("a\"b", 11, true)], "quotes in a name");
        assert_eq!(split("\"open"), [("open", 11, true)]);
        assert_eq!(split("\""), [("", 11, true)]);
    }

    #[test]
    fn writing_keeps_the_format_intact() {
        let mut writer = InfostringWriter::new(40);
        writer
            .pair("a", "1;\\\"2\n")
            .pair("a", "again")
            .pair("empty", "")
            .option("none", None)
            .reserve("later")
            .pair("later", "x")
            .rules(&rules(&[
                ("b\\", " v "),
                ("a", "rule"),
                ("long", &"x".repeat(50)),
                ("c", "3"),
            ]));
        assert_eq!(writer.finish(), b"\\a\\12\\b\\v\\c\\3");
        let player = Player::named(Text::unformatted("a\"b\\\n\u{E9}\u{E9}"));
        assert_eq!(wire_name(&player, 5), "ab\u{E9}");
    }
}
