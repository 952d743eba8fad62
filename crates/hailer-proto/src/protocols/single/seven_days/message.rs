//! Bytes ⇄ messages. The only file that knows the layout (spec/seven-days.md#2).
//!
//! Limits: bodies of 40,000 bytes.

use super::deviation::{BINARY_LENGTH, INVALID_UTF8, NO_TYPE, SHORT_BODY};
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader, by_content};
use alloc::format;
use alloc::vec::Vec;
use memchr::memchr;

/// Bytes of the length in digits, with CR LF.
pub const HEADER_BYTES: usize = 7;
/// Bytes of the length of old builds.
const OLD_HEADER_BYTES: usize = 2;
/// Start of the body of old builds.
const OLD_START: &[u8] = b"GameType:";
/// Longest body in bytes.
const MAX_BYTES: usize = 40_000;
/// Value of `GameType`.
pub const GAME_TYPE: &[u8] = b"7DTD";

/// Returns the lengths of header and body. `None` if the header is incomplete.
///
/// # Errors
///
/// The bytes are no header, or the length is above the limit.
pub fn lengths(bytes: &[u8]) -> Result<Option<[usize; 2]>, Error> {
    let is_digits = match bytes.first() {
        None => return Ok(None),
        Some(byte) => byte.is_ascii_digit(),
    };
    let lengths = if is_digits {
        let mut length = 0;
        for (at, byte) in bytes.iter().take(5).enumerate() {
            if !byte.is_ascii_digit() {
                return Err(Error::bad("length", at, "five digits"));
            }
            length = length * 10 + usize::from(byte - b'0');
        }
        let end = bytes.get(5..).unwrap_or_default();
        let end = end.get(..2).unwrap_or(end);
        if !b"\r\n".starts_with(end) {
            return Err(Error::bad("end of the length", 5, "CR LF"));
        }
        if bytes.len() < HEADER_BYTES {
            return Ok(None);
        }
        [HEADER_BYTES, length]
    } else {
        let Some(length) = bytes.first_chunk() else {
            return Ok(None);
        };
        [OLD_HEADER_BYTES, u16::from_be_bytes(*length).into()]
    };
    if lengths[1] > MAX_BYTES {
        return Err(Error::limit("length", 0, MAX_BYTES));
    }
    // Other services start with letters too.
    let start = bytes.get(OLD_HEADER_BYTES..).unwrap_or_default();
    let start = start.get(..OLD_START.len()).unwrap_or(start);
    if !is_digits && !OLD_START.starts_with(start) {
        return Err(Error::bad("key", OLD_HEADER_BYTES, "GameType"));
    }
    Ok(Some(lengths))
}

/// A key and its value.
pub type Pair<'a> = (&'a [u8], &'a [u8]);

/// Parses the keys and values of a message. No pairs mean that the server sends no information.
///
/// # Errors
///
/// Names the field that is truncated or invalid, with its offset.
pub fn read<'a>(bytes: &'a [u8], notes: &mut Notes) -> Result<Vec<Pair<'a>>, Error> {
    let Some([header, length]) = lengths(bytes)? else {
        return Err(Error::short(
            "length",
            0,
            HEADER_BYTES.saturating_sub(bytes.len()),
        ));
    };
    let mut r = Reader::new(bytes, notes);
    r.take(header, "length")?;
    r.note(0, "length", || format!("{length}"));
    if header == OLD_HEADER_BYTES {
        r.notes().deviation(&BINARY_LENGTH, 0);
    }
    if length == 0 {
        r.end()?;
        return Ok(Vec::new());
    }
    if r.remaining() > length {
        return Err(Error::bad("length", 0, "that of the lines"));
    }
    let is_short = r.remaining() < length;
    let mut pairs: Vec<(&[u8], &[u8])> = Vec::new();
    let mut has_type = false;
    // Start of the last value, which the next line may continue.
    let mut value_start = header;
    while r.remaining() > 0 {
        let at = r.at();
        let end = memchr(b'\n', r.rest());
        let line = r.take(end.unwrap_or(r.remaining()), "line")?;
        r.take(end.is_some().into(), "line")?;
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(colon) = memchr(b':', line) else {
            if line.is_empty() {
                continue;
            }
            // A line without a colon continues the value before it. Other services greet with
            // text that has no pair.
            let Some((_, value)) = pairs.last_mut() else {
                return Err(Error::bad("key", at, "a key and a colon"));
            };
            let whole = bytes.get(value_start..at + line.len()).unwrap_or_default();
            *value = whole.strip_suffix(b";").unwrap_or(whole);
            continue;
        };
        let (key, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default();
        let value = value.strip_suffix(b";").unwrap_or(value);
        value_start = at + colon + 1;
        has_type |= key == b"GameType";
        if core::str::from_utf8(value).is_err() {
            r.notes().deviation(&INVALID_UTF8, value_start);
        }
        r.note(at, "pair", || {
            format!("{:?} = {:?}", by_content(key).0, by_content(value).0)
        });
        pairs.push((key, value));
    }
    if !has_type {
        r.notes().deviation(&NO_TYPE, header);
    }
    if is_short {
        let at = r.at();
        r.notes().deviation(&SHORT_BODY, at);
    }
    Ok(pairs)
}

/// Appends a message with these lines.
pub fn write(body: &[u8], out: &mut Vec<u8>) {
    out.extend(format!("{:05}\r\n", body.len()).bytes());
    out.extend(body);
}

/// Parses one message to collect its notes. There are no requests.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let [header, _] = lengths(bytes).ok().flatten()?;
    if direction == Some(Direction::Request) {
        return None;
    }
    let body = bytes.get(header..).unwrap_or_default();
    // Without digits, anything could be a length.
    if direction.is_none() && header == OLD_HEADER_BYTES && !body.starts_with(OLD_START) {
        return None;
    }
    Some(Explanation {
        message: "information",
        direction: Direction::Reply,
        is_certain: body.starts_with(b"GameType:7DTD;"),
        error: read(bytes, notes).err(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_have_colons_and_semicolons() {
        let body = b"GameType:7DTD;\r\nServerDescription:a: b; c\r\nmore;;\r\nX:1\r\n\r\n";
        let mut message = Vec::new();
        write(body, &mut message);
        let pairs = read(&message, &mut Notes::default()).unwrap();
        assert_eq!(
            pairs,
            [
                (&b"GameType"[..], &b"7DTD"[..]),
                (b"ServerDescription", b"a: b; c\r\nmore;"),
                (b"X", b"1"),
            ]
        );
        let mut notes = Notes::default();
        assert!(read(b"00000\r\n", &mut notes).unwrap().is_empty());
        assert_eq!(notes.met().count(), 0);
        for wrong in [
            &b"0012x"[..],
            b"00012\n",
            b"99999\r\n",
            b"\xFF\xFF",
            b"\0\x10\0",
        ] {
            assert!(lengths(wrong).is_err(), "{wrong:?}");
        }
    }
}
