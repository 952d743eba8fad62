//! Stands for `game.rs` in a build without the feature `game`. Recordings are errors, and TCP
//! segments of captures are skipped.

use super::capture::Segment;
use crate::args::Decode;
use crate::exit::{usage, without};
use std::io::{Read, Write};
use std::marker::PhantomData;

/// Game sessions, which this build cannot decode.
pub(super) struct Game<'a> {
    pub(super) is_sound: bool,
    pub(super) sessions: u64,
    args: PhantomData<&'a Decode>,
}

/// Returns whether a file with these first bytes is a recorded session.
pub(super) fn is_recording(start: &[u8]) -> bool {
    start.starts_with(b"# hailer session")
}

impl<'a> Game<'a> {
    pub(super) fn new(_: &'a Decode) -> anyhow::Result<Self> {
        Ok(Self {
            is_sound: true,
            sessions: 0,
            args: PhantomData,
        })
    }

    pub(super) fn streams(&mut self, _: &mut impl Write) -> Option<anyhow::Result<()>> {
        None
    }

    pub(super) fn has_build(&self) -> bool {
        false
    }

    pub(super) fn recording(
        &mut self,
        _: &mut impl Write,
        name: &str,
        _: impl Read,
    ) -> anyhow::Result<()> {
        usage!("{name}: {}", without("game"))
    }

    pub(super) fn segment(&mut self, _: &mut impl Write, _: &Segment) -> anyhow::Result<()> {
        Ok(())
    }

    pub(super) fn finish_all(&mut self, _: &mut impl Write) -> anyhow::Result<()> {
        Ok(())
    }

    pub(super) fn conclude(&mut self, _: &mut impl Write) -> anyhow::Result<()> {
        Ok(())
    }
}
