//! Vintage Story: the query of servers. TCP, on the port of the game.
//!
//! ```text
//!   client                            server
//!     length, packet 15: query   ─►
//!                                ◄─  length, packet 28: status
//! ```
//!
//! Length big-endian, packets in Protobuf. Servers without a mod reply with packet 9 instead, which
//! only shows that they are up.
//!
//! Limits: packets of 8 KiB. Texts of the responder have at most 1,000 bytes.

use crate::model::{Codes, Extra, Status, Text, is_control};
use crate::one_request::{Mark, Message, OneStream, frame_of};
use crate::protocol::{Doc, Fault, Info};
use crate::sample;
use crate::wire::{Error, Notes, Reader, by_content, cut, filled};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The protocol.
pub static PROTOCOL: OneStream = OneStream {
    info: &Info {
        id: "vintage-story",
        title: "Vintage Story",
        port: 42420,
        fields: &[
            Doc::new("details", "False if the server is up but sends no status"),
            Doc::new(
                "reason",
                "Why the server sends no status, if it has another reason than most",
            ),
        ],
        has_responder: true,
        ..Info::CONNECTED
    },
    messages: &[
        Message::constant("query", "query", REQUEST).certain(),
        Message::reply(
            "disconnect",
            Mark::Is(|bytes| is_reply(bytes) && bytes.get(LENGTH_BYTES + 2) == Some(&9)),
        ),
        Message::reply("status", Mark::Is(is_reply)),
    ],
    frame: |bytes| {
        let length = packet_length(bytes)?.unwrap_or(LENGTH_BYTES);
        Ok(frame_of(bytes.len(), length))
    },
    read,
    reply: Some(reply),
    sample: sample_status,
    ..OneStream::PLAIN
};

/// The request: packet 15 with an empty query.
const REQUEST: &[u8] = &[0, 0, 0, 4, 0x08, 15, 0x52, 0];
/// Bytes of the length.
const LENGTH_BYTES: usize = 4;
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
const NO_STATUS: &[u8] = b"Query complete";
/// Longest text of the responder in bytes.
const MAX_TEXT: usize = 1_000;

/// Returns the length of the packet that starts the bytes, with its length. `None` if the length is
/// incomplete.
fn packet_length(bytes: &[u8]) -> Result<Option<usize>, Error> {
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

fn is_reply(bytes: &[u8]) -> bool {
    let has_id = bytes.get(LENGTH_BYTES..LENGTH_BYTES + 2) == Some(&[0xD0, 0x05]);
    has_id && packet_length(bytes).is_ok()
}

/// Reads a packet of the server (spec/vintage-story.md#3 and #6).
fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    let length = packet_length(r.whole())?;
    r.i32_be("length")?;
    let mut id = 0;
    let mut reason: &[u8] = &[];
    *status = empty();
    while r.remaining() > 0 {
        let (number, field) = read_field(r, |number| match number {
            ID_FIELD => "packet",
            DISCONNECT_FIELD => "disconnect",
            STATUS => "status",
            _ => "unknown field",
        })?;
        match (number, field) {
            (ID_FIELD, Field::Number(number)) => id = number,
            (DISCONNECT_FIELD, Field::Bytes(inner)) => reason = read_reason(r, inner)?,
            (STATUS, Field::Bytes(inner)) => read_status(r, inner, status)?,
            _ => {}
        }
    }
    if length != Some(r.whole().len()) {
        return Err(Error::bad("length", 0, "that of the bytes").into());
    }
    match id {
        STATUS => {}
        DISCONNECT => {
            *status = Status::default();
            status.extra.push(Extra::new("details", false));
            let reason = Some(reason).filter(|reason| *reason != NO_STATUS);
            status.add_extra(
                "reason",
                reason.map(|reason| by_content(reason).0.into_owned()),
            );
        }
        _ => return Err(Error::bad("packet", LENGTH_BYTES, "9 or 28").into()),
    }
    Ok(())
}

/// Returns the status of a packet without fields: numbers that are 0 are left out.
fn empty() -> Status {
    let mut status = Status {
        has_password: Some(false),
        ..Status::default()
    };
    status.players.online = Some(0);
    status.players.max = Some(0);
    status
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

fn read_status<'a>(
    r: &mut Reader<'a, '_>,
    inner: &'a [u8],
    status: &mut Status,
) -> Result<(), Error> {
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
    let text = |bytes: &[u8]| (!bytes.is_empty()).then(|| Text::by_content(bytes));
    let count = |number: u64| Some(i64::try_from(number).unwrap_or(i64::MAX));
    *status = empty();
    read_inner(r, inner, name, |number, field| match (number, field) {
        (1, Field::Bytes(bytes)) => status.name = text(bytes),
        (2, Field::Bytes(bytes)) => status.motd = text(bytes),
        (3, Field::Number(number)) => status.players.online = count(number),
        (4, Field::Number(number)) => status.players.max = count(number),
        (5, Field::Bytes(bytes)) => status.mode = filled(bytes),
        (6, Field::Number(number)) => status.has_password = Some(number != 0),
        (7, Field::Bytes(bytes)) => status.version = filled(bytes),
        _ => {}
    })
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

/// Encodes the reply for a status (spec/vintage-story.md#7).
fn reply(status: &Status) -> Vec<u8> {
    let status = &*status.with_codes(Codes::None);
    let plain = |text: &Option<Text>| text.as_ref().map(Text::plain).unwrap_or_default();
    let count = |number: i64| number.clamp(0, i32::MAX.into()) as u64;
    let mut inner = Vec::new();
    let text = |field, text: &str, out: &mut Vec<u8>| {
        let text = line(text);
        let text = cut(&text, MAX_TEXT);
        if !text.is_empty() {
            write_bytes(field, text.as_bytes(), out);
        }
    };
    let number = |field: u64, number: u64, out: &mut Vec<u8>| {
        if number != 0 {
            write_varint(field << 3, out);
            write_varint(number, out);
        }
    };
    text(1, &plain(&status.name), &mut inner);
    text(2, &plain(&status.motd), &mut inner);
    number(3, count(status.players.count()), &mut inner);
    number(4, count(status.players.max.unwrap_or(0)), &mut inner);
    text(5, status.mode.as_deref().unwrap_or_default(), &mut inner);
    number(6, status.has_password.unwrap_or(false).into(), &mut inner);
    text(7, status.version.as_deref().unwrap_or_default(), &mut inner);
    let mut packet = Vec::new();
    write_varint(ID_FIELD << 3, &mut packet);
    write_varint(STATUS, &mut packet);
    write_bytes(STATUS, &inner, &mut packet);
    let mut out = Vec::from((packet.len() as u32).to_be_bytes());
    out.extend(packet);
    out
}

/// Returns a text without control characters except line breaks.
fn line(text: &str) -> String {
    text.chars()
        .filter(|c| *c == '\n' || !is_control(*c))
        .collect()
}

fn sample_status(seed: u64) -> Status {
    let mut server = sample::Server::new(seed);
    let random = &mut server.random;
    let motd = random.text(&["Welcome", "caf\u{E9}", "\u{2605} season 7"]);
    let mut status = Status {
        name: Some(Text::unformatted(server.name)),
        motd: Some(Text::unformatted(motd)),
        mode: Some(random.text(&["survival", "creative"]).into()),
        version: Some(random.text(&["1.22.7", "1.21.0"]).into()),
        has_password: Some(random.below(8) == 0),
        ..Status::default()
    };
    status.players.online = Some(server.players.len() as i64);
    status.players.max = Some(64);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_both_ways() {
        let mut status = Status {
            name: Some(Text::unformatted("Test")),
            version: Some("1.22.7".into()),
            ..empty()
        };
        status.has_password = Some(true);
        status.players.online = Some(300);
        status.players.max = Some(400);
        let out = reply(&status);
        let read = |bytes: &[u8]| {
            let mut found = Status::default();
            let mut notes = Notes::default();
            read(&mut Reader::new(bytes, &mut notes), &mut found).map(|()| found)
        };
        assert_eq!(read(&out), Ok(status));
        for end in 0..out.len() {
            assert!(read(&out[..end]).is_err());
        }
    }
}
