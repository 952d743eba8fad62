//! Bytes ⇄ the greeting (spec/gbx-remote.md#2).

use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader};

/// Bytes of the length.
pub const LENGTH_BYTES: usize = 4;
/// Start of the text.
const NAME: &[u8] = b"GBXRemote ";
/// Longest accepted text in bytes.
const MAX_TEXT: usize = 64;

/// Returns the length of the greeting with its length bytes; `None` if these are incomplete.
///
/// # Errors
///
/// The text is too long for a greeting.
pub fn greeting_length(bytes: &[u8]) -> Result<Option<usize>, Error> {
    let Some(length) = bytes.first_chunk() else {
        return Ok(None);
    };
    let length = u32::from_le_bytes(*length) as usize;
    if length > MAX_TEXT {
        return Err(Error::limit("length", 0, MAX_TEXT));
    }
    Ok(Some(LENGTH_BYTES + length))
}

/// Reads a greeting. Returns the version of the remote control.
///
/// # Errors
///
/// Names the field that is truncated or of another protocol, with its offset.
pub fn read(bytes: &[u8], notes: &mut Notes) -> Result<u32, Error> {
    greeting_length(bytes)?;
    let mut r = Reader::new(bytes, notes);
    let length = r.u32_le("length")? as usize;
    r.constant(NAME, "name")?;
    let at = r.at();
    let digits = r.raw(length.saturating_sub(NAME.len()), "version")?;
    let version = core::str::from_utf8(digits).ok();
    let version = version.and_then(|digits| digits.parse().ok());
    r.end()?;
    version.ok_or(Error::bad("version", at, "decimal digits"))
}

/// Parses a message to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let text = bytes.get(LENGTH_BYTES..)?;
    if direction == Some(Direction::Request) || !text.starts_with(NAME) {
        return None;
    }
    let error = read(bytes, notes).err();
    Some(Explanation::certain("greeting", Direction::Reply, error))
}
