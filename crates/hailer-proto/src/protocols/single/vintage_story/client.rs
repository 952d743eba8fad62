//! The client: one request (spec/vintage-story.md#4).

use super::message::{self, LENGTH_BYTES, NO_STATUS, REQUEST, Reply, ServerStatus};
use crate::model::{Extra, Status, Text};
use crate::one_request::stream::{Format, frame_of};
use crate::protocol::{Fault, Frame};
use crate::wire::{Error, Notes, by_content, filled};
use alloc::{boxed::Box, vec::Vec};

/// Format of request and reply.
#[derive(Debug)]
pub struct VintageStoryFormat;

impl Format for VintageStoryFormat {
    const CLOSED: &'static str = "it closes the connection without a reply";

    fn write_request(out: &mut Vec<u8>) {
        out.extend_from_slice(REQUEST);
    }

    fn frame(bytes: &[u8]) -> Result<Frame, Error> {
        let length = message::packet_length(bytes)?;
        Ok(frame_of(bytes.len(), length.unwrap_or(LENGTH_BYTES)))
    }

    fn read(bytes: &[u8], notes: &mut Notes) -> Result<Box<Status>, Fault> {
        match Reply::read(bytes, notes)? {
            Reply::Status(reply) => Ok(status(&reply)),
            Reply::Disconnect(reason) => {
                let mut status = Box::<Status>::default();
                status.extra.push(Extra::new("details", false));
                if reason != NO_STATUS {
                    let reason = Extra::new("reason", &*by_content(reason).0);
                    status.extra.push(reason);
                }
                Ok(status)
            }
        }
    }
}

/// Converts a reply to a status (spec/vintage-story.md#6).
fn status(reply: &ServerStatus<'_>) -> Box<Status> {
    let text = |bytes: &[u8]| {
        let (text, is_latin1) = by_content(bytes);
        (!bytes.is_empty()).then(|| Text::unformatted(text).from_single_byte(is_latin1))
    };
    let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let mut status = Box::<Status>::default();
    status.name = text(reply.name);
    status.motd = text(reply.motd);
    status.mode = filled(reply.mode);
    status.version = filled(reply.version);
    status.has_password = Some(reply.password != 0);
    status.players.online = Some(count(reply.players));
    status.players.max = Some(count(reply.max));
    status
}
