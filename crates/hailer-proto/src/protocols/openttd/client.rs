//! The client: one request (spec/openttd.md#4).

use super::kind;
use crate::model::{Extra, Status};
use crate::one_request::stream::{Format, frame_of};
use crate::protocol::{Fault, Frame};
use crate::protocols::openttd::info::{self, GameInfo};
use crate::wire::{Error, Notes, Reader};
use alloc::{boxed::Box, vec::Vec};

/// The request: a packet without a body.
pub(super) const REQUEST: &[u8] = &[3, 0, kind::REQUEST];

/// Format of request and reply.
#[derive(Debug)]
pub struct OpenTtdFormat;

impl Format for OpenTtdFormat {
    const CLOSED: &'static str = "it closes the connection without a reply";

    fn write_request(out: &mut Vec<u8>) {
        out.extend_from_slice(REQUEST);
    }

    fn frame(bytes: &[u8]) -> Result<Frame, Error> {
        let length = info::packet_length(bytes)?;
        Ok(frame_of(bytes.len(), length.unwrap_or(3)))
    }

    fn read(bytes: &[u8], notes: &mut Notes) -> Result<Box<Status>, Fault> {
        let mut r = Reader::new(bytes, notes);
        let refusal = match info::read_header(&mut r)? {
            kind::INFO => return Ok(GameInfo::read(&mut r)?.status()),
            kind::FULL => "full",
            kind::BANNED => "banned",
            _ => return Err(Error::bad("packet type", 2, "0, 1 or 6").into()),
        };
        let mut status = Box::<Status>::default();
        status.extra.push(Extra::new("refusal", refusal));
        Ok(status)
    }
}
