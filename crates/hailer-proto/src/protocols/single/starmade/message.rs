//! Bytes ⇄ messages. The only file that knows the layout (spec/starmade.md#2 and #3).
//!
//! Limits: replies of 16 KiB, 64 values.

use super::deviation::{MORE_VALUES, VERSION_FLOAT};
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader, by_content};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;
use compact_str::CompactString;

/// The request.
pub const REQUEST: &[u8] = &[0, 0, 0, 9, 0x2A, 0xFF, 0xFF, 1, 0x6F, 0, 0, 0, 0];
/// Start of a command and of its reply: magic, no id, command, kind.
const COMMAND: &[u8] = &[0x2A, 0xFF, 0xFF, 1, 0x6F];
/// Bytes of a reply before the command: length and time.
const HEADER_BYTES: usize = 12;
/// Longest reply in bytes, without its header.
const MAX_BYTES: usize = 16 << 10;
/// Largest number of values.
const MAX_VALUES: usize = 64;
/// Number of known values.
const VALUES: usize = 7;
/// Version of the layout.
pub const INFO_VERSION: i64 = 2;

/// A value with its type.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Value<'a> {
    Int(i64),
    Float(f32),
    Text(&'a [u8]),
    Bytes,
}

impl Value<'_> {
    fn int(self, field: &'static str, at: usize) -> Result<i64, Error> {
        match self {
            Self::Int(number) => Ok(number),
            _ => Err(Error::bad(field, at, "a whole number")),
        }
    }
}

/// A reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Version of the layout.
    pub info_version: i64,
    /// Version of the server.
    pub version: CompactString,
    /// Name of the server.
    pub name: &'a [u8],
    /// Description of the server.
    pub description: &'a [u8],
    /// Start of the server in Unix milliseconds.
    pub start: i64,
    /// Number of players online.
    pub players: i64,
    /// Maximum number of players.
    pub max: i64,
}

/// Returns the length of a reply with its header. `None` if the bytes end before.
///
/// # Errors
///
/// The length is too small or above the limit.
pub fn reply_length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(length) = bytes.first_chunk() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length) as usize;
    if length < COMMAND.len() + 4 {
        return Err(Error::bad("length", 0, "9 or more"));
    }
    if length > MAX_BYTES {
        return Err(Error::limit("length", 0, MAX_BYTES));
    }
    Ok(Some(length + HEADER_BYTES))
}

impl<'a> Reply<'a> {
    /// Parses a reply.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or invalid, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let length = reply_length(bytes)?;
        let mut r = Reader::new(bytes, notes);
        r.i32_be("length")?;
        r.i64_be("time")?;
        r.constant(COMMAND, "command")?;
        let at = r.at();
        let count = usize::try_from(r.i32_be("number of values")?).unwrap_or(usize::MAX);
        if count < VALUES {
            return Err(Error::bad("number of values", at, "7 or more"));
        }
        if count > MAX_VALUES {
            return Err(Error::limit("number of values", at, MAX_VALUES));
        }
        let mut reply = Self::default();
        let at = r.at();
        reply.info_version = read_value(&mut r, "info version")?.int("info version", at)?;
        let at = r.at();
        reply.version = match read_value(&mut r, "version")? {
            Value::Text(text) => by_content(text).0.into(),
            Value::Float(number) => {
                r.notes().deviation(&VERSION_FLOAT, at);
                number.to_string().into()
            }
            Value::Int(number) => number.to_string().into(),
            Value::Bytes => return Err(Error::bad("version", at, "a text or a number")),
        };
        reply.name = read_text(&mut r, "name")?;
        reply.description = read_text(&mut r, "description")?;
        for (field, to) in [
            ("start", &mut reply.start),
            ("players", &mut reply.players),
            ("maximum", &mut reply.max),
        ] {
            let at = r.at();
            *to = read_value(&mut r, field)?.int(field, at)?;
        }
        let at = r.at();
        for _ in VALUES..count {
            read_value(&mut r, "value")?;
        }
        if count > VALUES {
            r.notes().deviation(&MORE_VALUES, at);
        }
        r.end()?;
        if length != Some(bytes.len()) {
            return Err(Error::bad("length", 0, "that of the values"));
        }
        Ok(reply)
    }
}

fn read_text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    let at = r.at();
    match read_value(r, field)? {
        Value::Text(text) => Ok(text),
        _ => Err(Error::bad(field, at, "a text")),
    }
}

fn read_value<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<Value<'a>, Error> {
    let at = r.at();
    let kind = r.array::<1>(field)?;
    let value = match kind {
        [1] => Value::Int(i32::from_be_bytes(r.array(field)?).into()),
        [2] => Value::Int(i64::from_be_bytes(r.array(field)?)),
        [3] => Value::Float(f32::from_be_bytes(r.array(field)?)),
        [4] => {
            let length = u16::from_be_bytes(r.array(field)?);
            Value::Text(r.take(length.into(), field)?)
        }
        [5] => Value::Int((r.array(field)? != [0]).into()),
        [6] => Value::Int(i8::from_be_bytes(r.array(field)?).into()),
        [7] => Value::Int(i16::from_be_bytes(r.array(field)?).into()),
        [8] => {
            let length = u32::from_be_bytes(r.array(field)?);
            r.take(length as usize, field)?;
            Value::Bytes
        }
        _ => return Err(Error::bad(field, at, "a type from 1 to 8")),
    };
    r.note(at, field, || match value {
        Value::Int(number) => number.to_string(),
        Value::Float(number) => number.to_string(),
        Value::Text(text) => format!("{:?}", by_content(text).0),
        Value::Bytes => "bytes".into(),
    });
    Ok(value)
}

/// Appends a reply of version 2 with a time in Unix milliseconds.
pub fn write_reply(reply: &Reply<'_>, time: i64, out: &mut Vec<u8>) {
    let mut values = Vec::from(COMMAND);
    values.extend((VALUES as u32).to_be_bytes());
    values.extend([6, reply.info_version as u8]);
    for text in [reply.version.as_bytes(), reply.name, reply.description] {
        values.push(4);
        values.extend((text.len() as u16).to_be_bytes());
        values.extend(text);
    }
    values.push(2);
    values.extend(reply.start.to_be_bytes());
    for number in [reply.players, reply.max] {
        values.push(1);
        values.extend((number as i32).to_be_bytes());
    }
    out.extend((values.len() as u32).to_be_bytes());
    out.extend(time.to_be_bytes());
    out.extend(values);
}

/// Parses one message to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let is_reply = bytes.get(HEADER_BYTES..HEADER_BYTES + COMMAND.len()) == Some(COMMAND);
    let found = match bytes {
        _ if bytes.starts_with(REQUEST) => Direction::Request,
        _ if is_reply => Direction::Reply,
        _ => return None,
    };
    if direction.is_some_and(|direction| direction != found) {
        return None;
    }
    let (message, error) = match found {
        Direction::Request => {
            let mut r = Reader::new(bytes, notes);
            let read = r.constant(REQUEST, "request").and_then(|()| r.end());
            ("request", read.err())
        }
        Direction::Reply => ("reply", Reply::read(bytes, notes).err()),
    };
    Some(Explanation::certain(message, found, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_types() {
        for (bytes, value) in [
            (&b"\x01\xFF\xFF\xFF\xFE"[..], Value::Int(-2)),
            (b"\x02\0\0\0\x01\0\0\0\0", Value::Int(1 << 32)),
            (b"\x03\x3F\x80\0\0", Value::Float(1.0)),
            (b"\x04\0\x01a", Value::Text(b"a")),
            (b"\x05\x07", Value::Int(1)),
            (b"\x06\xFF", Value::Int(-1)),
            (b"\x07\xFF\xFE", Value::Int(-2)),
            (b"\x08\0\0\0\x01a", Value::Bytes),
        ] {
            let mut notes = Notes::default();
            let mut r = Reader::new(bytes, &mut notes);
            assert_eq!(read_value(&mut r, "value"), Ok(value));
            assert!(r.end().is_ok());
        }
        let mut notes = Notes::default();
        assert!(read_value(&mut Reader::new(b"\x09\0", &mut notes), "value").is_err());
    }

    #[test]
    fn replies_both_ways() {
        let reply = Reply {
            info_version: INFO_VERSION,
            version: "0.203.175".into(),
            name: b"Test",
            description: b"A server",
            start: 1_424_912_312_704,
            players: 3,
            max: 32,
        };
        let mut out = Vec::new();
        write_reply(&reply, 1_424_962_317_824, &mut out);
        assert_eq!(reply_length(&out), Ok(Some(out.len())));
        assert_eq!(Reply::read(&out, &mut Notes::default()), Ok(reply));
        for end in 0..out.len() {
            assert!(Reply::read(&out[..end], &mut Notes::default()).is_err());
        }
    }
}
