//! Bytes ⇄ messages. The only file that knows the layout (spec/teamspeak-voice.md#2).

use super::deviation::TRAILING_BYTES;
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader, Writer};
use alloc::vec::Vec;

/// Starts every message, with the number of the packet.
const MAGIC: &[u8] = b"TS3INIT1\0\x65";
/// Marks an unencrypted packet of the handshake.
const KIND: u8 = 0x88;
/// Length of a request in bytes.
pub const REQUEST_BYTES: usize = 34;
/// Length of a reply in bytes.
pub const REPLY_BYTES: usize = 32;
/// Steps of the handshake.
const STEP_START: u8 = 0;
const STEP_COOKIE: u8 = 1;
const STEP_RESTART: u8 = 0x7F;
/// Build of a client of 2016, in seconds since 2013. Servers accept older clients.
const CLIENT_BUILD: i32 = 0x063B_ECE9;
/// A time, which servers do not compare with theirs.
const TIME: i32 = 0x6AB1_3B80;

/// Appends a request with random bytes.
pub fn write_request(random: [u8; 4], out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    // Number of the client, 0 before the handshake.
    out.extend([0, 0, KIND]);
    let mut w = Writer(out);
    w.i32_be(CLIENT_BUILD).u8(STEP_START).i32_be(TIME);
    w.bytes(&random).bytes(&[0; 8]);
}

/// Appends the reply to a request with these random bytes.
pub fn write_reply(mut random: [u8; 4], cookie: [u8; 16], out: &mut Vec<u8>) {
    random.reverse();
    out.extend_from_slice(MAGIC);
    out.extend([KIND, STEP_COOKIE]);
    out.extend(cookie);
    out.extend(random);
}

/// Returns whether bytes start like a request.
pub fn is_request(bytes: &[u8]) -> bool {
    let rest = bytes.strip_prefix(MAGIC);
    rest.is_some_and(|rest| matches!(rest, [_, _, KIND, ..]) && bytes.len() >= REQUEST_BYTES)
}

/// Returns whether bytes start like a reply.
pub fn is_reply(bytes: &[u8]) -> bool {
    let rest = bytes.strip_prefix(MAGIC);
    rest.is_some_and(|rest| matches!(rest, [KIND, STEP_COOKIE | STEP_RESTART, ..]))
}

/// Parses a request. Returns its random bytes.
///
/// # Errors
///
/// Names the field that is truncated or invalid, with its offset.
pub fn read_request(bytes: &[u8], notes: &mut Notes) -> Result<[u8; 4], Error> {
    let mut r = Reader::new(bytes, notes);
    r.constant(MAGIC, "magic")?;
    r.u16_be("client")?;
    r.constant(&[KIND], "kind")?;
    r.i32_be("client build")?;
    r.constant(&[STEP_START], "step")?;
    r.i32_be("time")?;
    let at = r.at();
    let random = r.array("random bytes")?;
    r.note(at, "random bytes", || crate::wire::hexadecimal(&random));
    r.raw(8, "zeros")?;
    r.end()?;
    Ok(random)
}

/// A reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The next step, with the random bytes of the request in their order.
    Cookie([u8; 4]),
    /// The handshake starts again.
    Restart,
}

/// Parses a reply.
///
/// # Errors
///
/// Names the field that is truncated or invalid, with its offset.
pub fn read_reply(bytes: &[u8], notes: &mut Notes) -> Result<Reply, Error> {
    let mut r = Reader::new(bytes, notes);
    r.constant(MAGIC, "magic")?;
    r.constant(&[KIND], "kind")?;
    if r.u8("step")? == STEP_RESTART {
        return Ok(Reply::Restart);
    }
    r.raw(16, "cookie")?;
    let at = r.at();
    let mut random: [u8; 4] = r.array("random bytes")?;
    r.note(at, "random bytes", || crate::wire::hexadecimal(&random));
    r.trailing(&TRAILING_BYTES);
    random.reverse();
    Ok(Reply::Cookie(random))
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let rest = bytes.strip_prefix(MAGIC)?;
    let found = match rest {
        [KIND, ..] => Direction::Reply,
        _ => Direction::Request,
    };
    if direction.is_some_and(|direction| direction != found) {
        return None;
    }
    let (message, error) = match found {
        Direction::Request => ("step 0", read_request(bytes, notes).err()),
        Direction::Reply if rest.get(1) == Some(&STEP_RESTART) => {
            ("restart", read_reply(bytes, notes).err())
        }
        Direction::Reply => ("step 1", read_reply(bytes, notes).err()),
    };
    Some(Explanation::certain(message, found, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_both_ways() {
        let mut request = Vec::new();
        write_request([1, 2, 3, 4], &mut request);
        assert_eq!(request.len(), REQUEST_BYTES);
        assert!(is_request(&request) && !is_reply(&request));
        let mut notes = Notes::default();
        assert_eq!(read_request(&request, &mut notes), Ok([1, 2, 3, 4]));
        let mut reply = Vec::new();
        write_reply([1, 2, 3, 4], [9; 16], &mut reply);
        assert_eq!(reply.len(), REPLY_BYTES);
        assert!(is_reply(&reply) && !is_request(&reply));
        let read = read_reply(&reply, &mut notes);
        assert_eq!(read, Ok(Reply::Cookie([1, 2, 3, 4])));
        for end in 0..request.len() {
            assert!(read_request(&request[..end], &mut notes).is_err());
        }
        for end in 0..reply.len() {
            assert!(read_reply(&reply[..end], &mut notes).is_err());
        }
    }
}
