//! Savage 2: one request, one reply. UDP.
//!
//! ```text
//!   client        server
//!     01       ─►
//!              ◄─  12 bytes, name, counts, time, map, …
//! ```
//!
//! Nothing verifies the client's address, so Hailer has no responder (spec/savage2.md#6).

use crate::model::{Carets, Status, Text};
use crate::one_request::{Mark, Message, OneDatagram};
use crate::protocol::{Doc, Fault, Info};
use crate::wire::{Error, Reader, by_content, deviations, filled};

deviations! {
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the reply";
}

/// The protocol.
pub static PROTOCOL: OneDatagram = OneDatagram {
    info: &Info {
        id: "savage2",
        title: "Savage 2",
        port: 11_235,
        declares_charset: false,
        fields: &[
            Doc::new("time", "Time of the match, as sent"),
            Doc::new("next-map", "Next map"),
            Doc::new("location", "Location of the server"),
            Doc::new("min-players", "Players that a match needs"),
            Doc::new("min-level", "Lowest level of players"),
        ],
        deviations: ALL,
        ..Info::DATAGRAM
    },
    messages: &[
        Message::reply("status", Mark::NONE),
        Message::constant("status request", "request", b"\x01"),
    ],
    read,
    ..OneDatagram::PLAIN
};

/// Bytes of unknown meaning at the start of a reply.
const UNKNOWN: usize = 12;

/// Reads a reply (spec/savage2.md#3 and #5).
fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    r.raw(UNKNOWN, "header")?;
    let (name, is_latin1) = by_content(r.text_to_nul("name")?);
    let name = Text::carets(name, Carets::Savage).from_single_byte(is_latin1);
    status.name = Some(name).filter(|name| !name.raw().is_empty());
    status.players.online = Some(r.u8("players")?.into());
    let max = r.u8("max players")?;
    status.players.max = Some(max.into());
    status.add_extra("time", filled(r.text_to_nul("time")?));
    status.map = filled(r.text_to_nul("map")?);
    status.add_extra("next-map", filled(r.text_to_nul("next map")?));
    status.add_extra("location", filled(r.text_to_nul("location")?));
    status.add_extra("min-players", Some(i64::from(r.u8("min players")?)));
    status.mode = filled(r.text_to_nul("game type")?);
    status.version = filled(r.text_to_nul("version")?);
    status.add_extra("min-level", Some(i64::from(r.u8("min level")?)));
    // Other services reply with zeros.
    if max == 0 && (&status.name, &status.map, &status.version) == (&None, &None, &None) {
        let expected = "a name, map, version or maximum";
        return Err(Error::bad("name", UNKNOWN, expected).into());
    }
    r.trailing(&TRAILING_BYTES);
    Ok(())
}
