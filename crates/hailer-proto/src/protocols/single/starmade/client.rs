//! The client: one request (spec/starmade.md#4).

use super::message::{self, INFO_VERSION, REQUEST, Reply};
use crate::model::{Extra, Status, Text};
use crate::one_request::stream::{Format, frame_of};
use crate::protocol::{Fault, Frame};
use crate::wire::{Error, Notes, by_content};
use alloc::{boxed::Box, vec::Vec};

/// Bytes of the length at the start of a reply.
const LENGTH_BYTES: usize = 4;

/// Format of request and reply.
#[derive(Debug)]
pub struct StarMadeFormat;

impl Format for StarMadeFormat {
    const CLOSED: &'static str = "it closes the connection without a reply";

    fn write_request(out: &mut Vec<u8>) {
        out.extend_from_slice(REQUEST);
    }

    fn frame(bytes: &[u8]) -> Result<Frame, Error> {
        let length = message::reply_length(bytes)?;
        Ok(frame_of(bytes.len(), length.unwrap_or(LENGTH_BYTES)))
    }

    fn read(bytes: &[u8], notes: &mut Notes) -> Result<Box<Status>, Fault> {
        Ok(status(&Reply::read(bytes, notes)?))
    }
}

/// Converts a reply to a status (spec/starmade.md#6).
fn status(reply: &Reply<'_>) -> Box<Status> {
    let text = |bytes: &[u8]| {
        let (text, is_latin1) = by_content(bytes);
        (!bytes.is_empty()).then(|| Text::unformatted(text).from_single_byte(is_latin1))
    };
    let mut status = Box::<Status>::default();
    status.name = text(reply.name);
    status.motd = text(reply.description);
    status.version = Some(reply.version.clone()).filter(|version| !version.is_empty());
    status.players.online = Some(reply.players);
    status.players.max = Some(reply.max);
    status.extra.push(Extra::new("start", reply.start));
    if reply.info_version != INFO_VERSION {
        let version = Extra::new("info-version", reply.info_version);
        status.extra.push(version);
    }
    status
}
