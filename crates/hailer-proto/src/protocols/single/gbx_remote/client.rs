//! The client: sends nothing and reads the greeting (spec/gbx-remote.md#3).

use super::message::{self, LENGTH_BYTES};
use crate::model::{Extra, Status};
use crate::one_request::stream::{Format, frame_of};
use crate::protocol::{Fault, Frame};
use crate::wire::{Error, Notes};
use alloc::{boxed::Box, vec::Vec};

/// Format of the greeting.
#[derive(Debug)]
pub struct GbxRemoteFormat;

impl Format for GbxRemoteFormat {
    const CLOSED: &'static str = "it closes the connection without a greeting";

    fn write_request(_: &mut Vec<u8>) {}

    fn frame(bytes: &[u8]) -> Result<Frame, Error> {
        let length = message::greeting_length(bytes)?;
        Ok(frame_of(bytes.len(), length.unwrap_or(LENGTH_BYTES)))
    }

    fn read(bytes: &[u8], notes: &mut Notes) -> Result<Box<Status>, Fault> {
        let version = message::read(bytes, notes)?;
        let mut status = Box::<Status>::default();
        status.extra.push(Extra::new("details", false));
        status
            .extra
            .push(Extra::new("remote-version", i64::from(version)));
        Ok(status)
    }
}
