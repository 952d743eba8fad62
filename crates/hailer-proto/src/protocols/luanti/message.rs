//! Bytes ⇄ messages. The only file that knows the layout (spec/luanti.md#2 and #3).

use super::deviation::TRAILING_BYTES;
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader};
use alloc::vec::Vec;

/// Starts every datagram.
const MAGIC: &[u8; 4] = b"\x4F\x45\x74\x03";
/// Number of the server as a peer.
const SERVER: u16 = 1;
/// Kinds of messages.
mod kind {
    pub(super) const CONTROL: u8 = 0;
    pub(super) const ORIGINAL: u8 = 1;
    pub(super) const RELIABLE: u8 = 3;
}
/// Control message: the receiver's number as a peer.
const SET_PEER: u8 = 1;
/// Control message: the connection ends.
const DISCONNECT: u8 = 3;

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// An empty message of a new peer.
    Probe,
    /// Ends the connection of the peer with this number.
    Disconnect(u16),
}

impl Request {
    /// Appends the request to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend(MAGIC);
        match self {
            Self::Probe => out.extend([0, 0, 0, kind::ORIGINAL]),
            Self::Disconnect(peer) => {
                out.extend(peer.to_be_bytes());
                out.extend([0, kind::CONTROL, DISCONNECT]);
            }
        }
    }

    fn name(bytes: &[u8]) -> Option<&'static str> {
        match bytes.strip_prefix(MAGIC)? {
            [0, 0, _, kind::ORIGINAL] => Some("probe"),
            [_, _, _, kind::CONTROL, DISCONNECT] => Some("disconnect"),
            _ => None,
        }
    }
}

/// Returns whether bytes are the server's reply to a probe.
pub fn is_reply(bytes: &[u8]) -> bool {
    let server = SERVER.to_be_bytes();
    let rest = bytes.strip_prefix(MAGIC);
    let rest = rest.and_then(|rest| rest.strip_prefix(&server));
    rest.is_some_and(|rest| rest.get(1) == Some(&kind::RELIABLE))
}

/// Parses the reply to a probe. Returns the client's number as a peer.
///
/// # Errors
///
/// Names the field that is truncated or of another protocol, with its offset.
pub fn read_reply(bytes: &[u8], notes: &mut Notes) -> Result<u16, Error> {
    let mut r = Reader::new(bytes, notes);
    r.constant(MAGIC, "protocol")?;
    let at = r.at();
    if r.u16_be("sender")? != SERVER {
        return Err(Error::bad("sender", at, "1, the server"));
    }
    r.u8("channel")?;
    r.constant(&[kind::RELIABLE], "reliable")?;
    r.u16_be("sequence number")?;
    r.constant(&[kind::CONTROL, SET_PEER], "set peer")?;
    let peer = r.u16_be("peer")?;
    r.trailing(&TRAILING_BYTES);
    Ok(peer)
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let explained =
        |message, direction, error| Some(Explanation::certain(message, direction, error));
    if is_reply(bytes) && direction != Some(Direction::Request) {
        let error = read_reply(bytes, notes).err();
        return explained("set peer", Direction::Reply, error);
    }
    if direction == Some(Direction::Reply) {
        return None;
    }
    let message = Request::name(bytes)?;
    let error = read_request(bytes, notes).err();
    explained(message, Direction::Request, error)
}

fn read_request(bytes: &[u8], notes: &mut Notes) -> Result<(), Error> {
    let mut r = Reader::new(bytes, notes);
    r.constant(MAGIC, "protocol")?;
    r.u16_be("sender")?;
    r.u8("channel")?;
    r.u8("kind")?;
    if r.remaining() > 0 {
        r.u8("control")?;
    }
    r.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reliable_messages_of_the_server_are_replies() {
        let reply = b"\x4F\x45\x74\x03\0\x01\0\x03\xFF\xDC\0\x01\0\x2A";
        assert!(is_reply(reply));
        assert_eq!(read_reply(reply, &mut Notes::default()), Ok(42));
        // Another kind of message, and another sender.
        for (at, byte) in [(7, kind::CONTROL), (5, 2), (3, 4)] {
            let mut other = *reply;
            other[at] = byte;
            assert!(!is_reply(&other), "{at}");
        }
    }

    #[test]
    fn requests_have_their_lengths() {
        for (request, length) in [(Request::Probe, 8), (Request::Disconnect(0x2A), 9)] {
            let mut out = Vec::new();
            request.write(&mut out);
            assert_eq!(out.len(), length);
            assert!(Request::name(&out).is_some());
        }
    }
}
