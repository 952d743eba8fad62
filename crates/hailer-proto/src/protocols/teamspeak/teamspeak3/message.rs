//! Bytes ⇄ lines. The only file that knows their form (spec/teamspeak3.md#2).
//!
//! Limits: lines of 1 MiB, 4,096 items of a line, 256 values of an item.

use super::{BAD_ESCAPE, INVALID_UTF8, ODD_NUMBER, OTHER_GREETING};
use crate::protocol::{Direction, Explanation, Frame};
use crate::protocols::teamspeak::command_lines::{self, take_line};
use crate::wire::{Error, Notes, Reader, by_content};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use memchr::memchr;

/// First line of a connection.
pub const GREETING: &[u8] = b"TS3";
/// Start of the second line.
pub const WELCOME: &[u8] = b"Welcome";
/// Longest greeting with another name, in bytes.
const MAX_GREETING: usize = 32;
/// End of a line of the server.
pub const END: &[u8] = b"\n\r";
/// Longest line in bytes.
const MAX_LINE: usize = 1 << 20;
/// Largest number of items of a line.
const MAX_ITEMS: usize = 4_096;
/// Largest number of values of an item.
const MAX_VALUES: usize = 256;
/// Start of a line that ends a reply.
const ERROR: &[u8] = b"error ";
/// Commands that a responder knows. Their first words identify a request.
pub const COMMANDS: [&[u8]; 8] = [
    b"use",
    b"serverinfo",
    b"clientlist",
    b"quit",
    b"version",
    b"help",
    b"login",
    b"channellist",
];
/// Starts of data lines.
const DATA_STARTS: [&[u8]; 3] = [b"virtualserver_", b"clid=", b"version="];
/// Escaped characters and what follows the backslash.
const ESCAPES: [(char, char); 11] = [
    ('\\', '\\'),
    ('/', '/'),
    (' ', 's'),
    ('|', 'p'),
    ('\u{7}', 'a'),
    ('\u{8}', 'b'),
    ('\u{C}', 'f'),
    ('\n', 'n'),
    ('\r', 'r'),
    ('\t', 't'),
    ('\u{B}', 'v'),
];

/// Returns where the first line ends.
///
/// # Errors
///
/// The line is too long.
pub fn frame(bytes: &[u8]) -> Result<Frame, Error> {
    let frame = command_lines::frame(bytes, MAX_LINE)?;
    let Frame::Complete(end) = frame else {
        return Ok(frame);
    };
    // The line feed comes first, and the carriage return belongs to this line.
    Ok(match bytes.get(end) {
        Some(b'\r') => Frame::Complete(end + 1),
        Some(_) => frame,
        None => Frame::Incomplete { total: end + 1 },
    })
}

/// Returns whether a line can be the greeting of a server with another name.
pub fn is_name(line: &[u8]) -> bool {
    let is_printable = |byte: &u8| matches!(byte, b' '..=b'~');
    (1..=MAX_GREETING).contains(&line.len()) && line.iter().all(is_printable)
}

/// Values of an item by key.
pub type Item<'a> = Vec<(&'a [u8], Cow<'a, [u8]>)>;

/// Parses the items of a line. `start`: offset of the line, for notes.
///
/// # Errors
///
/// The line has too many items or values.
pub fn items<'a>(line: &'a [u8], start: usize, notes: &mut Notes) -> Result<Vec<Item<'a>>, Error> {
    let limit = |field, limit| Error::limit(field, start, limit);
    let mut items = Vec::new();
    for item in line.split(|byte| *byte == b'|') {
        if items.len() >= MAX_ITEMS {
            return Err(limit("items", MAX_ITEMS));
        }
        let mut values = Item::new();
        for pair in item.split(|byte| *byte == b' ') {
            if pair.is_empty() {
                continue;
            }
            if values.len() >= MAX_VALUES {
                return Err(limit("values", MAX_VALUES));
            }
            let end = memchr(b'=', pair).unwrap_or(pair.len());
            let (key, value) = pair.split_at(end);
            let value = unescape(value.get(1..).unwrap_or_default(), start, notes)?;
            values.push((key, value));
        }
        items.push(values);
    }
    Ok(items)
}

/// Replaces escapes, in one pass from left to right.
///
/// # Errors
///
/// The value ends after a backslash.
fn unescape<'a>(value: &'a [u8], start: usize, notes: &mut Notes) -> Result<Cow<'a, [u8]>, Error> {
    if core::str::from_utf8(value).is_err() {
        notes.deviation(&INVALID_UTF8, start);
    }
    if memchr(b'\\', value).is_none() {
        return Ok(Cow::Borrowed(value));
    }
    let mut out = Vec::with_capacity(value.len());
    let mut bytes = value.iter().copied();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(next) = bytes.next() else {
            return Err(Error::bad("value", start, "a character after a backslash"));
        };
        let mut escapes = ESCAPES.iter();
        match escapes.find(|(_, escape)| *escape == char::from(next)) {
            Some((c, _)) => out.push(*c as u8),
            None => {
                notes.deviation(&BAD_ESCAPE, start);
                out.extend([byte, next]);
            }
        }
    }
    Ok(Cow::Owned(out))
}

/// Appends a value with escapes.
pub fn escape(value: &str, out: &mut Vec<u8>) {
    for c in value.chars() {
        match ESCAPES.iter().find(|(plain, _)| *plain == c) {
            Some((_, escape)) => out.extend([b'\\', *escape as u8]),
            None => out.extend(c.encode_utf8(&mut [0; 4]).bytes()),
        }
    }
}

/// Returns a value of an item.
pub fn value<'a>(item: &'a Item<'_>, key: &str) -> Option<&'a [u8]> {
    let found = item.iter().find(|(own, _)| *own == key.as_bytes());
    found.map(|(_, value)| &**value)
}

/// Returns a value of an item as a text that is not empty.
pub fn text<'a>(item: &'a Item<'_>, key: &str) -> Option<Cow<'a, str>> {
    let value = value(item, key).filter(|value| !value.is_empty());
    value.map(|value| by_content(value).0)
}

/// Returns a value of an item as a number.
pub fn number(item: &Item<'_>, key: &str, notes: &mut Notes) -> Option<i64> {
    let text = text(item, key)?;
    let number = text.parse().ok();
    if number.is_none() {
        notes.deviation(&ODD_NUMBER, 0);
    }
    number
}

/// Line that ends a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Number of the error; 0 means success.
    pub id: i64,
    /// Text of the error, with its additions.
    pub message: String,
}

impl Outcome {
    /// Parses a line that ends a reply. `None` if it is another line.
    ///
    /// # Errors
    ///
    /// The line has no number, or too many values.
    pub fn read(line: &[u8], notes: &mut Notes) -> Result<Option<Self>, Error> {
        let Some(rest) = line.strip_prefix(ERROR) else {
            return Ok(None);
        };
        let items = items(rest, ERROR.len(), notes)?;
        let item = items.into_iter().next().unwrap_or_default();
        let Some(id) = number(&item, "id", &mut Notes::discarding()) else {
            return Err(Error::bad("error id", ERROR.len(), "a number"));
        };
        let mut message = text(&item, "msg").unwrap_or_default().into_owned();
        if let Some(more) = text(&item, "extra_msg") {
            message = format!("{message}: {more}");
        }
        Ok(Some(Self { id, message }))
    }
}

/// Parses the lines of one message to collect their notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let word = bytes
        .split(|byte| byte.is_ascii_whitespace())
        .next()
        .unwrap_or_default();
    let is_command = COMMANDS.contains(&word);
    let mut lines = bytes
        .split(|byte| *byte == b'\n')
        .map(|line| line.trim_ascii());
    let other_greeting = lines.next().is_some_and(is_name)
        && lines.next().is_some_and(|line| line.starts_with(WELCOME));
    let is_greeting = word == GREETING || other_greeting;
    let is_outcome = bytes.starts_with(ERROR);
    let is_data = DATA_STARTS.iter().any(|start| bytes.starts_with(start));
    let (message, found) = if is_greeting {
        ("greeting", Direction::Reply)
    } else if is_outcome {
        ("outcome", Direction::Reply)
    } else if is_data {
        ("data", Direction::Reply)
    } else if is_command {
        ("commands", Direction::Request)
    } else {
        return None;
    };
    if other_greeting && word != GREETING && direction != Some(Direction::Request) {
        notes.deviation(&OTHER_GREETING, 0);
    }
    let found = Explanation {
        message,
        direction: found,
        is_certain: is_greeting || is_outcome,
        error: None,
    };
    command_lines::explain(bytes, direction, found, notes, |r| {
        explain_line(r, found.direction)
    })
}

fn explain_line(r: &mut Reader<'_, '_>, direction: Direction) -> Result<(), Error> {
    let at = r.at();
    let line = take_line(r, frame)?;
    let has_welcome = r.rest().trim_ascii_start().starts_with(WELCOME);
    let is_words = at == 0 && (line == GREETING || has_welcome) || line.starts_with(WELCOME);
    if direction == Direction::Reply && !is_words && Outcome::read(line, r.notes())?.is_none() {
        items(line, at, r.notes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn escapes_are_replaced_in_one_pass() {
        for (escaped, plain) in [
            (r"a\\sb", r"a\sb"),
            (r"a\sb", "a b"),
            (r"\p\p", "||"),
            (r"\/\n\t", "/\n\t"),
            ("plain", "plain"),
        ] {
            let mut notes = Notes::default();
            let back = unescape(escaped.as_bytes(), 0, &mut notes).unwrap();
            assert_eq!(&*back, plain.as_bytes());
            assert_eq!(notes.met().count(), 0);
            let mut out = Vec::new();
            escape(plain, &mut out);
            assert_eq!(out, escaped.as_bytes());
        }
        let mut notes = Notes::default();
        assert_eq!(&*unescape(br"a\x", 0, &mut notes).unwrap(), br"a\x");
        let met: Vec<_> = notes.met().map(|met| met.name).collect();
        assert_eq!(met, ["bad-escape"]);
        let error = unescape(br"a\", 7, &mut notes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "value at offset 7: expected a character after a backslash"
        );
    }

    #[test]
    fn lines_end_with_line_feed_and_carriage_return() {
        let frame = |bytes: &[u8]| frame(bytes);
        assert_eq!(frame(b"TS3\n\rmore"), Ok(Frame::Complete(5)));
        assert_eq!(frame(b"TS3\nmore"), Ok(Frame::Complete(4)));
        assert_eq!(frame(b"TS3\n"), Ok(Frame::Incomplete { total: 5 }));
        assert_eq!(frame(b"TS3"), Ok(Frame::Incomplete { total: 4 }));
        assert_eq!(command_lines::trim(b"TS3\n\r"), b"TS3");
        assert_eq!(command_lines::trim(b"TS3\r\n"), b"TS3");
        assert!(frame(&[b'x'; MAX_LINE + 1]).is_err());
    }
}
