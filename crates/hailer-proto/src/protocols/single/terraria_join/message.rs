//! Bytes ⇄ messages. The only file that knows the layout (spec/terraria-join.md#2 and #3).
//!
//! Limits: packets of 1 KiB, 4 levels of texts in texts.

use super::deviation::SLOT_GIVEN;
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader, by_content};
use alloc::format;
use alloc::vec::Vec;

/// The request: a packet of type 1 with the text `Terraria0`, a version that no release has.
pub const REQUEST: &[u8] = b"\x0D\0\x01\x09Terraria0";
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
pub const WRONG_VERSION: &[u8] = b"LegacyMultiplayer.4";
/// Types of packets.
const JOIN: u8 = 1;
const REJECTED: u8 = 2;
const SLOT: u8 = 3;
const PASSWORD: u8 = 37;
/// Mode of a text that is a key.
const MODE_KEY: u8 = 2;

/// Returns the length of the packet that starts the bytes. `None` if the length is incomplete.
///
/// # Errors
///
/// The length is that of no packet, or above the limit.
pub fn packet_length(bytes: &[u8]) -> Result<Option<usize>, Error> {
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

/// A reply to the attempt to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// The server rejects the client, with this text.
    Rejected {
        /// Whether the text is a key instead of words.
        is_key: bool,
        /// The text.
        text: &'a [u8],
    },
    /// The server accepts the client.
    Slot,
    /// The server requires a password.
    Password,
}

impl<'a> Reply<'a> {
    /// Parses a reply.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or invalid, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let length = packet_length(bytes)?;
        let mut r = Reader::new(bytes, notes);
        r.u16_le("packet length")?;
        let at = r.at();
        let reply = match r.u8("packet type")? {
            REJECTED => {
                let (mode, text) = read_text(&mut r, 0)?;
                let is_key = mode == MODE_KEY;
                Self::Rejected { is_key, text }
            }
            SLOT => {
                r.notes().deviation(&SLOT_GIVEN, at);
                r.u8("slot")?;
                // Newer servers add a flag.
                let rest = r.remaining();
                r.raw(rest, "flags")?;
                Self::Slot
            }
            PASSWORD => Self::Password,
            _ => return Err(Error::bad("packet type", at, "2, 3 or 37")),
        };
        r.end()?;
        match length.unwrap_or(0).checked_sub(bytes.len()) {
            Some(0) => Ok(reply),
            _ => Err(Error::bad("packet length", 0, "that of the bytes")),
        }
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
///
/// # Errors
///
/// The bytes are no request.
pub fn is_complete_request(bytes: &[u8]) -> Result<bool, Error> {
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

/// Appends the reply to a client with a wrong version.
pub fn write_wrong_version(out: &mut Vec<u8>) {
    out.extend([(WRONG_VERSION.len() + 6) as u8, 0, REJECTED, MODE_KEY]);
    out.push(WRONG_VERSION.len() as u8);
    out.extend(WRONG_VERSION);
    out.push(0);
}

/// Parses one message to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let length = packet_length(bytes).ok().flatten()?;
    let is_reply = matches!(bytes.get(2), Some(&(REJECTED | SLOT | PASSWORD)));
    let found = match is_complete_request(bytes) {
        Ok(true) => Direction::Request,
        _ if is_reply => Direction::Reply,
        _ => return None,
    };
    if direction.is_some_and(|direction| direction != found) {
        return None;
    }
    // Only the text of a request identifies the protocol. Short replies look like many others.
    if direction.is_none() && found == Direction::Reply && length != bytes.len() {
        return None;
    }
    let (message, error) = match found {
        Direction::Request => ("join", read_request(bytes, notes).err()),
        Direction::Reply => {
            let reply = Reply::read(bytes, notes);
            let message = match bytes.get(2) {
                Some(&REJECTED) => "rejected",
                Some(&SLOT) => "slot",
                _ => "password",
            };
            (message, reply.err())
        }
    };
    Some(Explanation {
        message,
        direction: found,
        is_certain: found == Direction::Request,
        error,
    })
}

fn read_request(bytes: &[u8], notes: &mut Notes) -> Result<(), Error> {
    let mut r = Reader::new(bytes, notes);
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
    use crate::wire::ErrorKind;

    #[test]
    fn requests_of_any_version_are_recognized() {
        assert_eq!(is_complete_request(REQUEST), Ok(true));
        let newer = b"\x0F\0\x01\x0BTerraria279";
        assert_eq!(is_complete_request(newer), Ok(true));
        for end in 0..REQUEST.len() {
            assert_eq!(is_complete_request(&REQUEST[..end]), Ok(false), "{end}");
        }
        for wrong in [
            &b"\x0D\0\x02\x09Terraria0"[..],
            b"\x0D\0\x01\x08Terraria0",
            b"\x0D\0\x01\x09Starbound",
            b"\xFF\0\x01",
            b"\x02\0",
        ] {
            assert!(is_complete_request(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn texts_have_a_limited_depth() {
        let mut packet = Vec::from([0, 0, REJECTED]);
        for _ in 0..10 {
            packet.extend([1, 1, b'x', 1]);
        }
        packet[0] = packet.len() as u8;
        let error = Reply::read(&packet, &mut Notes::default()).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Limit { limit: 4 });
    }
}
