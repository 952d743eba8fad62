//! StarMade: the query of servers. TCP, on the port of the game.
//!
//! ```text
//!   client                                        server
//!     00 00 00 09 2A FF FF 01 6F 00 00 00 00  ─►
//!                       ◄─  length time 2A FF FF 01 6F values
//! ```
//!
//! Big-endian. The server replies to one request and closes.
//!
//! Limits: replies of 16 KiB, 64 values. Texts of the responder have at most 200 bytes.

use crate::model::{Codes, Extra, Status, Text, Value, without_controls};
use crate::one_request::{Mark, Message, OneStream, frame_of};
use crate::protocol::{Doc, Fault, Info};
use crate::sample;
use crate::wire::{Error, Reader, by_content, cut, deviations};
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

deviations! {
    VERSION_FLOAT "version-float" "the version is a number instead of a text, as in old builds";
    MORE_VALUES "more-values" "more than the seven known values; the others are dropped";
}

/// The protocol.
pub static PROTOCOL: OneStream = OneStream {
    info: &Info {
        id: "starmade",
        title: "StarMade",
        port: 4242,
        fields: &[
            Doc::new("start", "When the server started, in Unix milliseconds"),
            Doc::new(
                "info-version",
                "Version of the reply's layout, if it is not 2",
            ),
        ],
        deviations: ALL,
        has_responder: true,
        ..Info::CONNECTED
    },
    messages: &[
        Message::constant("request", "request", REQUEST)
            .by_start()
            .certain(),
        Message::reply("reply", Mark::At(HEADER_BYTES, COMMAND)).certain(),
    ],
    frame: |bytes| Ok(frame_of(bytes.len(), reply_length(bytes)?.unwrap_or(4))),
    read,
    reply: Some(reply),
    sample: sample_status,
    ..OneStream::PLAIN
};

/// The request.
pub const REQUEST: &[u8] = &[0, 0, 0, 9, 0x2A, 0xFF, 0xFF, 1, 0x6F, 0, 0, 0, 0];
/// Start of a command and of its reply: magic, no id, command, kind.
const COMMAND: &[u8] = &[0x2A, 0xFF, 0xFF, 1, 0x6F];
/// Bytes of a reply before the command: length and time.
const HEADER_BYTES: usize = 12;
/// Longest reply in bytes, without its header.
const MAX_BYTES: usize = 16 << 10;
/// Longest text in bytes that the responder sends.
const MAX_TEXT: usize = 200;
/// Largest number of values.
const MAX_VALUES: usize = 64;
/// Number of known values.
const VALUES: usize = 7;
/// Version of the layout.
const INFO_VERSION: i64 = 2;

/// Returns the length of a reply with its header. `None` if the bytes end before.
fn reply_length(bytes: &[u8]) -> Result<Option<usize>, Error> {
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

/// Reads a reply (spec/starmade.md#3 and #6).
fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    let length = reply_length(r.whole())?;
    r.i32_be("length")?;
    r.i64_be("time")?;
    r.constant(COMMAND, "command")?;
    let at = r.at();
    let count = usize::try_from(r.i32_be("number of values")?).unwrap_or(usize::MAX);
    if count < VALUES {
        return Err(Error::bad("number of values", at, "7 or more").into());
    }
    if count > MAX_VALUES {
        return Err(Error::limit("number of values", at, MAX_VALUES).into());
    }
    let info_version = read_int(r, "info version")?;
    let at = r.at();
    let version = match read_value(r, "version")? {
        Wire::Text(text) => by_content(text).0.into_owned(),
        Wire::Float(number) => {
            r.notes().deviation(&VERSION_FLOAT, at);
            number.to_string()
        }
        Wire::Int(number) => number.to_string(),
        Wire::Bytes => return Err(Error::bad("version", at, "a text or a number").into()),
    };
    status.version = (!version.is_empty()).then(|| version.into());
    status.name = read_text(r, "name")?;
    status.motd = read_text(r, "description")?;
    status.add_extra("start", Some(read_int(r, "start")?));
    let other = Some(info_version).filter(|version| *version != INFO_VERSION);
    status.add_extra("info-version", other);
    status.players.online = Some(read_int(r, "players")?);
    status.players.max = Some(read_int(r, "maximum")?);
    let at = r.at();
    for _ in VALUES..count {
        read_value(r, "value")?;
    }
    if count > VALUES {
        r.notes().deviation(&MORE_VALUES, at);
    }
    r.end()?;
    if length != Some(r.whole().len()) {
        return Err(Error::bad("length", 0, "that of the values").into());
    }
    Ok(())
}

/// A value with its type.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wire<'a> {
    Int(i64),
    Float(f32),
    Text(&'a [u8]),
    Bytes,
}

fn read_int(r: &mut Reader<'_, '_>, field: &'static str) -> Result<i64, Error> {
    let at = r.at();
    match read_value(r, field)? {
        Wire::Int(number) => Ok(number),
        _ => Err(Error::bad(field, at, "a whole number")),
    }
}

fn read_text(r: &mut Reader<'_, '_>, field: &'static str) -> Result<Option<Text>, Error> {
    let at = r.at();
    match read_value(r, field)? {
        Wire::Text(text) => Ok((!text.is_empty()).then(|| Text::by_content(text))),
        _ => Err(Error::bad(field, at, "a text")),
    }
}

fn read_value<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<Wire<'a>, Error> {
    let at = r.at();
    let kind = r.array::<1>(field)?;
    let value = match kind {
        [1] => Wire::Int(i32::from_be_bytes(r.array(field)?).into()),
        [2] => Wire::Int(i64::from_be_bytes(r.array(field)?)),
        [3] => Wire::Float(f32::from_be_bytes(r.array(field)?)),
        [4] => {
            let length = u16::from_be_bytes(r.array(field)?);
            Wire::Text(r.take(length.into(), field)?)
        }
        [5] => Wire::Int((r.array(field)? != [0]).into()),
        [6] => Wire::Int(i8::from_be_bytes(r.array(field)?).into()),
        [7] => Wire::Int(i16::from_be_bytes(r.array(field)?).into()),
        [8] => {
            let length = u32::from_be_bytes(r.array(field)?);
            r.take(length as usize, field)?;
            Wire::Bytes
        }
        _ => return Err(Error::bad(field, at, "a type from 1 to 8")),
    };
    r.note(at, field, || match value {
        Wire::Int(number) => number.to_string(),
        Wire::Float(number) => number.to_string(),
        Wire::Text(text) => format!("{:?}", by_content(text).0),
        Wire::Bytes => "bytes".into(),
    });
    Ok(value)
}

/// Encodes the reply for a status, of version 2 (spec/starmade.md#7).
fn reply(status: &Status) -> Vec<u8> {
    let status = &*status.with_codes(Codes::None);
    let line = |text: &Option<Text>| {
        let text = text.as_ref().map(Text::plain).unwrap_or_default();
        without_controls(&text)
    };
    let start = match status.extra("start") {
        Some(Value::Int(start)) => *start,
        _ => 0,
    };
    let mut values = Vec::from(COMMAND);
    values.extend((VALUES as u32).to_be_bytes());
    values.extend([6, INFO_VERSION as u8]);
    let version = without_controls(status.version.as_deref().unwrap_or_default());
    for text in [version, line(&status.name), line(&status.motd)] {
        let text = cut(&text, MAX_TEXT);
        values.push(4);
        values.extend((text.len() as u16).to_be_bytes());
        values.extend(text.bytes());
    }
    values.push(2);
    values.extend(start.to_be_bytes());
    for number in [status.players.count(), status.players.max.unwrap_or(0)] {
        values.push(1);
        values.extend((number.clamp(0, i32::MAX.into()) as i32).to_be_bytes());
    }
    let mut out = Vec::from((values.len() as u32).to_be_bytes());
    // Responders read no clock. Clients measure nothing with the time.
    out.extend(start.to_be_bytes());
    out.extend(values);
    out
}

fn sample_status(seed: u64) -> Status {
    let mut server = sample::Server::new(seed);
    let random = &mut server.random;
    let motd = random.text(&["a server of friends", "caf\u{E9}", "\u{2605} season 7"]);
    let mut status = Status {
        name: Some(Text::unformatted(server.name)),
        motd: Some(Text::unformatted(motd)),
        version: Some("0.203.175".into()),
        ..Status::default()
    };
    status.players.online = Some(server.players.len() as i64);
    status.players.max = Some(64);
    let start = 1_420_000_000_000 + random.below(1 << 38) as i64;
    status.extra.push(Extra::new("start", start));
    status
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Notes;

    #[test]
    fn values_have_types() {
        for (bytes, value) in [
            (&b"\x01\xFF\xFF\xFF\xFE"[..], Wire::Int(-2)),
            (b"\x02\0\0\0\x01\0\0\0\0", Wire::Int(1 << 32)),
            (b"\x03\x3F\x80\0\0", Wire::Float(1.0)),
            (b"\x04\0\x01a", Wire::Text(b"a")),
            (b"\x05\x07", Wire::Int(1)),
            (b"\x06\xFF", Wire::Int(-1)),
            (b"\x07\xFF\xFE", Wire::Int(-2)),
            (b"\x08\0\0\0\x01a", Wire::Bytes),
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
        let status = sample_status(3);
        let out = reply(&status);
        assert_eq!(reply_length(&out), Ok(Some(out.len())));
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
