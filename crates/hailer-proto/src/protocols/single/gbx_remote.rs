//! GBXRemote, the remote control of TrackMania and ShootMania: whether a server is up. TCP.
//!
//! ```text
//!   client                            server
//!                      ◄─  length, "GBXRemote 2"
//! ```
//!
//! The server sends its greeting first. All calls that describe the server require a login.

use crate::model::{Extra, Status};
use crate::one_request::{Mark, Message, OneStream, frame_of};
use crate::protocol::{Doc, Fault, Info};
use crate::wire::{Error, Reader};

/// The protocol.
pub static PROTOCOL: OneStream = OneStream {
    info: &Info {
        id: "gbx-remote",
        title: "GBXRemote (up or down)",
        port: 5000,
        fields: &[
            Doc::new("details", "False: the server is up but sends no status"),
            Doc::new("remote-version", "Version of the remote control: 1 or 2"),
        ],
        ..Info::CONNECTED
    },
    messages: &[Message::reply("greeting", Mark::At(LENGTH_BYTES, NAME)).certain()],
    frame: |bytes| {
        let length = greeting_length(bytes)?.unwrap_or(LENGTH_BYTES);
        Ok(frame_of(bytes.len(), length))
    },
    read,
    closed: "it closes the connection without a greeting",
    sample: |_| Status {
        extra: [
            Extra::new("details", false),
            Extra::new("remote-version", 2_i64),
        ]
        .into(),
        ..Status::default()
    },
    ..OneStream::PLAIN
};

/// Bytes of the length.
const LENGTH_BYTES: usize = 4;
/// Start of the text.
const NAME: &[u8] = b"GBXRemote ";
/// Longest accepted text in bytes.
const MAX_TEXT: usize = 64;

/// Returns the length of the greeting with its length bytes; `None` if these are incomplete.
fn greeting_length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(length) = bytes.first_chunk() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length > MAX_TEXT {
        return Err(Error::limit("length", 0, MAX_TEXT));
    }
    Ok(Some(LENGTH_BYTES + length))
}

/// Reads a greeting (spec/gbx-remote.md#2 and #3).
fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    greeting_length(r.whole())?;
    let length = r.u32_le("length")? as usize;
    r.constant(NAME, "name")?;
    let at = r.at();
    let digits = r.raw(length.saturating_sub(NAME.len()), "version")?;
    let version = core::str::from_utf8(digits).ok();
    let version = version.and_then(|digits| digits.parse::<u32>().ok());
    r.end()?;
    let version = version.ok_or(Error::bad("version", at, "decimal digits"))?;
    status.extra.push(Extra::new("details", false));
    let version = Extra::new("remote-version", i64::from(version));
    status.extra.push(version);
    Ok(())
}
