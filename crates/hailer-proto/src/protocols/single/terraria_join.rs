//! Terraria: whether a server is up, and whether it requires a password. TCP, on the port of the
//! game.
//!
//! ```text
//!   client                            server
//!     01 "Terraria0"   ─►
//!                      ◄─  02 wrong version, full or banned; 37 password; 03 slot
//! ```
//!
//! The client joins with a version that no release has, so that the server rejects it. The server
//! then closes.
//!
//! Limits: packets of 1 KiB, 4 levels of texts in texts.

use crate::model::{Extra, Status};
use crate::one_request::{Mark, Message, OneStream, frame_of};
use crate::protocol::{Doc, Fault, Info};
use crate::wire::{Error, Reader, by_content, deviations};
use alloc::format;

deviations! {
    SLOT_GIVEN "slot-given" "the server accepts the version that no release has, and gives the client a slot";
}

/// The protocol.
pub static PROTOCOL: OneStream = OneStream {
    info: &Info {
        id: "terraria-join",
        title: "Terraria (up or down)",
        port: 7777,
        place: 16,
        fields: &[Doc::new(
            "refusal",
            "Why the server rejects the join: `wrong-version`, `full`, `banned`, or its own text",
        )],
        deviations: ALL,
        has_responder: true,
        ..Info::CONNECTED
    },
    // Only the text of a request identifies the protocol. Short replies look like many others.
    messages: &[
        Message::request(
            "join",
            Mark::Is(|bytes| is_request(bytes) == Ok(true)),
            read_request,
        )
        .certain(),
        Message::reply("rejected", Mark::Is(|bytes| is_whole(bytes, REJECTED))),
        Message::reply("rejected", Mark::Known(|bytes| has_type(bytes, REJECTED))),
        Message::reply("slot", Mark::Is(|bytes| is_whole(bytes, SLOT))),
        Message::reply("slot", Mark::Known(|bytes| has_type(bytes, SLOT))),
        Message::reply("password", Mark::Is(|bytes| is_whole(bytes, PASSWORD))),
        Message::reply("password", Mark::Known(|bytes| has_type(bytes, PASSWORD))),
    ],
    request: Some(REQUEST),
    is_request: Some(is_request),
    frame: |bytes| Ok(frame_of(bytes.len(), packet_length(bytes)?.unwrap_or(3))),
    read,
    // The reply to a client with a wrong version: the responder rejects every client.
    reply: Some(|_| {
        let length = WRONG_VERSION.len() as u8;
        let start = [length + 6, 0, REJECTED, MODE_KEY, length];
        [&start[..], WRONG_VERSION, &[0]].concat()
    }),
    sample: |_| Status {
        extra: [Extra::new("refusal", "wrong-version")].into(),
        ..Status::default()
    },
    ..OneStream::PLAIN
};

/// The request: a packet of type 1 with the text `Terraria0`, a version that no release has.
const REQUEST: &[u8] = b"\x0D\0\x01\x09Terraria0";
/// Start of the text of any version.
const GAME: &[u8] = b"Terraria";
/// Shortest and longest request that the responder reads, in bytes.
const MIN_REQUEST_BYTES: usize = 4 + GAME.len();
const MAX_REQUEST_BYTES: usize = 64;
/// Longest packet in bytes.
const MAX_BYTES: usize = 1 << 10;
/// Largest depth of texts in texts.
const MAX_DEPTH: u8 = 4;
/// Key of the text about a wrong version.
const WRONG_VERSION: &[u8] = b"LegacyMultiplayer.4";
/// Types of packets.
const JOIN: u8 = 1;
const REJECTED: u8 = 2;
const SLOT: u8 = 3;
const PASSWORD: u8 = 37;
/// Mode of a text that is a key.
const MODE_KEY: u8 = 2;

/// Keys of texts and their meanings. Other texts are reported as sent.
const REFUSALS: [(&[u8], &str); 3] = [
    (WRONG_VERSION, "wrong-version"),
    (b"CLI.ServerIsFull", "full"),
    (b"LegacyMultiplayer.3", "banned"),
];

/// Returns the length of the packet that starts the bytes. `None` if the length is incomplete.
fn packet_length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(length) = bytes.first_chunk() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_le_bytes(*length));
    if length < 3 {
        return Err(Error::bad("packet length", 0, "3 or more"));
    }
    if length > MAX_BYTES {
        return Err(Error::limit("packet length", 0, MAX_BYTES));
    }
    Ok(Some(length))
}

fn has_type(bytes: &[u8], kind: u8) -> bool {
    let has_length = packet_length(bytes).is_ok_and(|length| length.is_some());
    has_length && bytes.get(2) == Some(&kind)
}

fn is_whole(bytes: &[u8], kind: u8) -> bool {
    packet_length(bytes) == Ok(Some(bytes.len())) && has_type(bytes, kind)
}

/// Reads a reply (spec/terraria-join.md#3 and #4).
fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    let length = packet_length(r.whole())?;
    r.u16_le("packet length")?;
    let at = r.at();
    match r.u8("packet type")? {
        REJECTED => {
            let (mode, text) = read_text(r, 0)?;
            let is_known = |(key, _): &&(&[u8], &str)| mode == MODE_KEY && *key == text;
            let refusal = match REFUSALS.iter().find(is_known) {
                Some((_, refusal)) => Extra::new("refusal", *refusal),
                None => Extra::new("refusal", &*by_content(text).0),
            };
            status.extra.push(refusal);
        }
        SLOT => {
            r.notes().deviation(&SLOT_GIVEN, at);
            r.u8("slot")?;
            // Newer servers add a flag.
            let rest = r.remaining();
            r.raw(rest, "flags")?;
            status.has_password = Some(false);
        }
        PASSWORD => status.has_password = Some(true),
        _ => return Err(Error::bad("packet type", at, "2, 3 or 37").into()),
    }
    r.end()?;
    if length == Some(r.whole().len()) {
        Ok(())
    } else {
        Err(Error::bad("packet length", 0, "that of the bytes").into())
    }
}

/// Reads a text with its mode, and the texts inside of it.
fn read_text<'a>(r: &mut Reader<'a, '_>, depth: u8) -> Result<(u8, &'a [u8]), Error> {
    let at = r.at();
    if depth > MAX_DEPTH {
        return Err(Error::limit("texts in texts", at, MAX_DEPTH.into()));
    }
    let mode = r.u8("mode")?;
    if mode > MODE_KEY {
        return Err(Error::bad("mode", at, "0 to 2"));
    }
    let at = r.at();
    let length = r.varint("text")?;
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(MAX_BYTES);
    let text = r.take(length, "text")?;
    r.note(at, "text", || format!("{:?}", by_content(text).0));
    if mode > 0 {
        for _ in 0..r.u8("number of texts")? {
            read_text(r, depth + 1)?;
        }
    }
    Ok((mode, text))
}

/// Returns whether the bytes start with a complete request of any version.
fn is_request(bytes: &[u8]) -> Result<bool, Error> {
    let Some(length) = packet_length(bytes)? else {
        return Ok(false);
    };
    if !(MIN_REQUEST_BYTES..=MAX_REQUEST_BYTES).contains(&length) {
        return Err(Error::bad("packet length", 0, "that of a request"));
    }
    let start = bytes.get(2..).unwrap_or_default();
    let text = [&[JOIN, (length - 4) as u8], GAME].concat();
    let same = start.iter().zip(&text).take_while(|(a, b)| a == b).count();
    if same < start.len().min(text.len()) {
        return Err(Error::bad("join", 2 + same, "the version of Terraria"));
    }
    Ok(bytes.len() >= length)
}

fn read_request(r: &mut Reader<'_, '_>) -> Result<(), Error> {
    r.u16_le("packet length")?;
    r.u8("packet type")?;
    let at = r.at();
    let [length] = r.array("version")?;
    let version = r.take(length.into(), "version")?;
    r.note(at, "version", || format!("{:?}", by_content(version).0));
    r.end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{ErrorKind, Notes};
    use alloc::vec::Vec;

    fn status_of(packet: &[u8]) -> Result<Status, Fault> {
        let mut status = Status::default();
        let mut notes = Notes::default();
        read(&mut Reader::new(packet, &mut notes), &mut status).map(|()| status)
    }

    #[test]
    fn requests_of_any_version_are_recognized() {
        assert_eq!(is_request(REQUEST), Ok(true));
        let newer = b"\x0F\0\x01\x0BTerraria279";
        assert_eq!(is_request(newer), Ok(true));
        for end in 0..REQUEST.len() {
            assert_eq!(is_request(&REQUEST[..end]), Ok(false), "{end}");
        }
        for wrong in [
            &b"\x0D\0\x02\x09Terraria0"[..],
            b"\x0D\0\x01\x08Terraria0",
            b"\x0D\0\x01\x09Starbound",
            b"\xFF\0\x01",
            b"\x02\0",
        ] {
            assert!(is_request(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn texts_have_a_limited_depth() {
        let mut packet = Vec::from([0, 0, REJECTED]);
        for _ in 0..10 {
            packet.extend([1, 1, b'x', 1]);
        }
        packet[0] = packet.len() as u8;
        let Err(Fault::Malformed(error)) = status_of(&packet) else {
            panic!("the reply is invalid");
        };
        assert_eq!(error.kind, ErrorKind::Limit { limit: 4 });
    }

    #[test]
    fn only_keys_are_translated() {
        for (mode, refusal) in [(2, "full"), (0, "CLI.ServerIsFull")] {
            let text = b"CLI.ServerIsFull";
            let mut packet = Vec::from([0, 0, 2, mode, text.len() as u8]);
            packet.extend(text);
            packet.extend((mode > 0).then_some(0));
            packet[0] = packet.len() as u8;
            let status = status_of(&packet).unwrap();
            assert_eq!(status.extra("refusal"), Some(&refusal.into()));
        }
    }
}
