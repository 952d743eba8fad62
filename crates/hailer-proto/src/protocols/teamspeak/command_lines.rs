//! Servers that reply to lines of commands, as those of TeamSpeak.

use crate::protocol::{ConnectionStep, Received};
use crate::wire::{Error, Notes, Reader};
use memchr::memchr;

/// Returns whether bytes start like one of these commands.
pub(crate) fn starts_like(commands: &[&[u8]], bytes: &[u8]) -> bool {
    let word = bytes.split(|byte| byte.is_ascii_whitespace()).next();
    let word = word.unwrap_or_default();
    let is_whole = word.len() < bytes.len();
    let is_like =
        |command: &&[u8]| command.starts_with(word) && (!is_whole || command.len() == word.len());
    !word.is_empty() && commands.iter().any(is_like)
}

/// Passes each complete line, without white space around it, to `run` with its offset. `run` returns
/// the step that ends the connection, or `None`. A line of more than `max_line` bytes is an error.
pub(crate) fn receive(
    bytes: &[u8],
    max_line: usize,
    mut run: impl FnMut(&[u8], usize) -> Option<ConnectionStep>,
) -> Received {
    let mut consumed = 0;
    let step = loop {
        let rest = bytes.get(consumed..).unwrap_or_default();
        let end = memchr(b'\n', rest);
        if end.unwrap_or(rest.len()) > max_line {
            break ConnectionStep::Bad(Error::limit("line", consumed, max_line));
        }
        let Some(end) = end else {
            break ConnectionStep::Wait;
        };
        let command = rest.get(..end).unwrap_or_default().trim_ascii();
        let at = consumed;
        consumed += end + 1;
        if let Some(step) = run(command, at) {
            break step;
        }
    };
    Received { consumed, step }
}

/// Collects the notes of each line. Returns the first error.
pub(crate) fn explain(
    bytes: &[u8],
    notes: &mut Notes,
    mut explain_line: impl FnMut(&mut Reader<'_, '_>) -> Result<(), Error>,
) -> Option<Error> {
    let mut r = Reader::new(bytes, notes);
    let mut error = None;
    let mut index = 0;
    while r.remaining() > 0 && error.is_none() {
        r.notes().group("lines", index);
        index += 1;
        error = explain_line(&mut r).err();
    }
    r.notes().ungroup();
    error
}
