//! Bytes ⇄ lines. The only file that knows their form (spec/teamspeak2.md#2 and #3).
//!
//! Limits: lines of 8 KiB.

use crate::protocol::{Direction, Explanation, Frame};
use crate::protocols::teamspeak::command_lines;
use crate::wire::{Error, Notes, Reader, by_content};
use alloc::format;
use memchr::memchr;

/// First line of a connection.
pub const GREETING: &[u8] = b"[TS]";
/// Line that ends a successful reply.
pub const OK: &[u8] = b"OK";
/// Start of the line that ends a failed reply.
pub const ERROR: &[u8] = b"ERROR";
/// First words of requests.
pub const COMMANDS: [&[u8]; 5] = [b"sel", b"si", b"pl", b"quit", b"cl"];
/// Starts of data lines.
const DATA_STARTS: [&[u8]; 2] = [b"server_", b"p_id"];
/// Longest line in bytes.
const MAX_LINE: usize = 8 << 10;

/// Returns where the first line ends.
///
/// # Errors
///
/// The line is too long.
pub fn frame(bytes: &[u8]) -> Result<Frame, Error> {
    let end = memchr(b'\n', bytes);
    if end.unwrap_or(bytes.len()) > MAX_LINE {
        return Err(Error::limit("line", 0, MAX_LINE));
    }
    Ok(match end {
        Some(end) => Frame::Complete(end + 1),
        None => Frame::Incomplete {
            total: bytes.len() + 1,
        },
    })
}

/// Returns the error of a line without its end.
pub fn unfinished(line: &[u8]) -> Error {
    Error::short("end of the line", line.len(), 1)
}

/// Returns a line without its end.
pub fn trim(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Removes the quotes around a text.
pub fn unquote(text: &[u8]) -> &[u8] {
    let inner = text.strip_prefix(b"\"");
    inner
        .and_then(|inner| inner.strip_suffix(b"\""))
        .unwrap_or(text)
}

/// Parses the lines of one message to collect their notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let first = bytes.split(|byte| *byte == b'\n').next();
    let first = trim(first.unwrap_or_default());
    let word = first.split(|byte| *byte == b' ').next().unwrap_or_default();
    let (message, found) = if first == GREETING {
        ("greeting", Direction::Reply)
    } else if first == OK || first.starts_with(ERROR) {
        ("outcome", Direction::Reply)
    } else if DATA_STARTS.iter().any(|start| first.starts_with(start)) {
        ("data", Direction::Reply)
    } else if COMMANDS.contains(&word) {
        ("commands", Direction::Request)
    } else {
        return None;
    };
    if direction.is_some_and(|direction| direction != found) {
        return None;
    }
    let error = command_lines::explain(bytes, notes, explain_line);
    Some(Explanation {
        message,
        direction: found,
        is_certain: first == GREETING,
        error,
    })
}

fn explain_line(r: &mut Reader<'_, '_>) -> Result<(), Error> {
    let at = r.at();
    let length = match frame(r.rest())? {
        Frame::Complete(length) => length,
        Frame::Incomplete { .. } => r.remaining(),
    };
    let line = trim(r.take(length, "line")?);
    r.note(at, "line", || format!("{:?}", by_content(line).0));
    Ok(())
}
