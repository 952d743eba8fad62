//! Bytes ⇄ lines. The only file that knows their form (spec/teamspeak2.md#2 and #3).
//!
//! Limits: lines of 8 KiB.

use crate::protocol::{Direction, Explanation, Frame};
use crate::protocols::teamspeak::command_lines::{self, take_line, trim};
use crate::wire::{Error, Notes};

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
    command_lines::frame(bytes, MAX_LINE)
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
    let found = Explanation {
        message,
        direction: found,
        is_certain: first == GREETING,
        error: None,
    };
    command_lines::explain(bytes, direction, found, notes, |r| {
        take_line(r, frame).map(drop)
    })
}
