//! Bytes ⇄ messages. The only file that knows the layout (spec/vintage-story.md#2 and #3).
//!
//! Limits: packets of 8 KiB.

use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader, by_content};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

/// The request: packet 15 with an empty query.
pub const REQUEST: &[u8] = &[0, 0, 0, 4, 0x08, 15, 0x52, 0];
/// Bytes of the length.
pub const LENGTH_BYTES: usize = 4;
/// Longest packet in bytes.
const MAX_BYTES: usize = 8 << 10;
/// Bit of the length of a compressed packet.
const COMPRESSED: u32 = 1 << 31;
/// Field with the number of a packet of the server.
const ID_FIELD: u64 = 90;
/// Number of the packet that ends the connection, and field with its reason.
const DISCONNECT: u64 = 9;
const DISCONNECT_FIELD: u64 = 8;
/// Number of the packet with the status, which is also its field.
const STATUS: u64 = 28;
/// Reason of servers that have no status.
pub const NO_STATUS: &[u8] = b"Query complete";

/// Returns the length of the packet that starts the bytes, with its length. `None` if the length is
/// incomplete.
///
/// # Errors
///
/// The packet is compressed or above the limit.
pub fn packet_length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(length) = bytes.first_chunk() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*length);
    if length & COMPRESSED != 0 {
        return Err(Error::bad("length", 0, "a packet without compression"));
    }
    let length = length as usize;
    if length > MAX_BYTES {
        return Err(Error::limit("length", 0, MAX_BYTES));
    }
    Ok(Some(length + LENGTH_BYTES))
}

/// Status of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerStatus<'a> {
    /// Name of the server.
    pub name: &'a [u8],
    /// Message of the day.
    pub motd: &'a [u8],
    /// Number of players online.
    pub players: u64,
    /// Maximum number of players.
    pub max: u64,
    /// Game mode, as the server names it.
    pub mode: &'a [u8],
    /// Whether players need a password, as a number.
    pub password: u64,
    /// Version of the server.
    pub version: &'a [u8],
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The server ends the connection, with this reason.
    Disconnect(&'a [u8]),
    /// The server sends its status.
    Status(ServerStatus<'a>),
}

/// A field of a Protobuf message.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Other,
}

/// Reads a field with its number.
fn read_field<'a>(
    r: &mut Reader<'a, '_>,
    name: fn(u64) -> &'static str,
) -> Result<(u64, Field<'a>), Error> {
    let at = r.at();
    let key = r.varint("key")?;
    let number = key >> 3;
    let name = name(number);
    let field = match key & 7 {
        0 => {
            let value = r.varint(name)?;
            r.note(at, name, || value.to_string());
            Field::Number(value)
        }
        2 => {
            let length = usize::try_from(r.varint(name)?).unwrap_or(usize::MAX);
            Field::Bytes(r.take(length.min(MAX_BYTES), name)?)
        }
        1 => {
            r.raw(8, name)?;
            Field::Other
        }
        5 => {
            r.raw(4, name)?;
            Field::Other
        }
        _ => return Err(Error::bad("key", at, "a field of a known type")),
    };
    Ok((number, field))
}

impl<'a> Reply<'a> {
    /// Parses a packet of the server.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or invalid, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let length = packet_length(bytes)?;
        let mut r = Reader::new(bytes, notes);
        r.i32_be("length")?;
        let mut id = 0;
        let mut reason: &[u8] = &[];
        let mut status = ServerStatus::default();
        while r.remaining() > 0 {
            let (number, field) = read_field(&mut r, |number| match number {
                ID_FIELD => "packet",
                DISCONNECT_FIELD => "disconnect",
                STATUS => "status",
                _ => "unknown field",
            })?;
            match (number, field) {
                (ID_FIELD, Field::Number(number)) => id = number,
                (DISCONNECT_FIELD, Field::Bytes(inner)) => reason = read_reason(&mut r, inner)?,
                (STATUS, Field::Bytes(inner)) => status = ServerStatus::read(&mut r, inner)?,
                _ => {}
            }
        }
        if length != Some(bytes.len()) {
            return Err(Error::bad("length", 0, "that of the bytes"));
        }
        match id {
            DISCONNECT => Ok(Self::Disconnect(reason)),
            STATUS => Ok(Self::Status(status)),
            _ => Err(Error::bad("packet", LENGTH_BYTES, "9 or 28")),
        }
    }
}

/// Reads fields of a message inside of the message of `r`, which has just read it.
fn read_inner<'a>(
    r: &mut Reader<'a, '_>,
    inner: &'a [u8],
    name: fn(u64) -> &'static str,
    mut keep: impl FnMut(u64, Field<'a>),
) -> Result<(), Error> {
    let start = r.at() - inner.len();
    let mut notes = Notes::discarding();
    let mut inner_reader = Reader::new(inner, &mut notes);
    while inner_reader.remaining() > 0 {
        let at = inner_reader.at();
        let (number, field) = read_field(&mut inner_reader, name).map_err(|error| Error {
            at: error.at + start,
            ..error
        })?;
        let range = start + at..start + inner_reader.at();
        r.notes().field(range, name(number), || match field {
            Field::Number(number) => number.to_string(),
            Field::Bytes(bytes) => format!("{:?}", by_content(bytes).0),
            Field::Other => "number".into(),
        });
        keep(number, field);
    }
    Ok(())
}

fn read_reason<'a>(r: &mut Reader<'a, '_>, inner: &'a [u8]) -> Result<&'a [u8], Error> {
    let mut reason: &[u8] = &[];
    let name = |number| match number {
        1 => "reason",
        _ => "unknown field",
    };
    read_inner(r, inner, name, |number, field| {
        if let (1, Field::Bytes(text)) = (number, field) {
            reason = text;
        }
    })?;
    Ok(reason)
}

impl<'a> ServerStatus<'a> {
    fn read(r: &mut Reader<'a, '_>, inner: &'a [u8]) -> Result<Self, Error> {
        let mut status = Self::default();
        let name = |number| match number {
            1 => "name",
            2 => "motd",
            3 => "players",
            4 => "maximum",
            5 => "mode",
            6 => "password",
            7 => "version",
            _ => "unknown field",
        };
        read_inner(r, inner, name, |number, field| match (number, field) {
            (1, Field::Bytes(text)) => status.name = text,
            (2, Field::Bytes(text)) => status.motd = text,
            (3, Field::Number(number)) => status.players = number,
            (4, Field::Number(number)) => status.max = number,
            (5, Field::Bytes(text)) => status.mode = text,
            (6, Field::Number(number)) => status.password = number,
            (7, Field::Bytes(text)) => status.version = text,
            _ => {}
        })?;
        Ok(status)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let texts = [
            (1, self.name),
            (2, self.motd),
            (5, self.mode),
            (7, self.version),
        ];
        let numbers = [(3, self.players), (4, self.max), (6, self.password)];
        for number in 1..=7 {
            let text = texts.iter().find(|(field, _)| *field == number);
            if let Some((_, text)) = text.filter(|(_, text)| !text.is_empty()) {
                write_bytes(number, text, out);
            }
            let value = numbers.iter().find(|(field, _)| *field == number);
            if let Some((_, value)) = value.filter(|(_, value)| *value != 0) {
                write_varint(number << 3, out);
                write_varint(*value, out);
            }
        }
    }
}

fn write_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn write_bytes(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    write_varint(field << 3 | 2, out);
    write_varint(bytes.len() as u64, out);
    out.extend(bytes);
}

/// Appends a packet with a status.
pub fn write_status(status: &ServerStatus<'_>, out: &mut Vec<u8>) {
    let mut inner = Vec::new();
    status.write(&mut inner);
    let mut packet = Vec::new();
    write_varint(ID_FIELD << 3, &mut packet);
    write_varint(STATUS, &mut packet);
    write_bytes(STATUS, &inner, &mut packet);
    out.extend((packet.len() as u32).to_be_bytes());
    out.extend(packet);
}

/// Parses one message to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let is_request = bytes == REQUEST;
    let has_id = bytes.get(LENGTH_BYTES..LENGTH_BYTES + 2) == Some(&[0xD0, 0x05]);
    let found = if is_request {
        Direction::Request
    } else if has_id && packet_length(bytes).is_ok() {
        Direction::Reply
    } else {
        return None;
    };
    if direction.is_some_and(|direction| direction != found) {
        return None;
    }
    let (message, error) = match found {
        Direction::Request => {
            let mut r = Reader::new(bytes, notes);
            ("query", r.constant(REQUEST, "query").err())
        }
        Direction::Reply => {
            let message = match bytes.get(LENGTH_BYTES + 2) {
                Some(9) => "disconnect",
                _ => "status",
            };
            (message, Reply::read(bytes, notes).err())
        }
    };
    Some(Explanation {
        message,
        direction: found,
        is_certain: is_request,
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_both_ways() {
        let status = ServerStatus {
            name: b"Test",
            players: 300,
            max: 400,
            password: 1,
            version: b"1.22.7",
            ..ServerStatus::default()
        };
        let mut out = Vec::new();
        write_status(&status, &mut out);
        let read = Reply::read(&out, &mut Notes::default());
        assert_eq!(read, Ok(Reply::Status(status)));
        for end in 0..out.len() {
            assert!(Reply::read(&out[..end], &mut Notes::default()).is_err());
        }
    }
}
