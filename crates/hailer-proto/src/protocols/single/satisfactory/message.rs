//! Bytes ⇄ messages. The only file that knows the layout (spec/satisfactory.md#2 and #3).

use super::deviation::TRAILING_BYTES;
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader, by_content};
use alloc::{format, vec::Vec};

/// Starts every message since 1.0.
const MAGIC: [u8; 2] = [0xD5, 0xF6];
/// Type and version of a request.
const POLL: [u8; 2] = [0, 1];
/// Type and version of a reply.
const STATE: [u8; 2] = [1, 1];
/// Ends every message since 1.0.
const END: u8 = 1;
/// Length of a request in bytes.
pub const REQUEST: usize = 13;
/// Length of a reply without name and parts, in bytes.
pub const SHORTEST_REPLY: usize = 29;
/// Starts a request before 1.0.
const LEGACY_POLL: [u8; 2] = [0, 0];
/// Starts a reply before 1.0.
const LEGACY_STATE: [u8; 2] = [1, 0];
/// Lengths of request and reply before 1.0, in bytes.
const LEGACY_LENGTHS: [usize; 2] = [10, 17];
/// Flag of a server with mods.
pub const FLAG_MODDED: u64 = 1;

/// Request of a Satisfactory client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Whether it has the form from before 1.0.
    pub is_legacy: bool,
    /// Bytes that the server returns.
    pub cookie: [u8; 8],
}

impl Request {
    /// Appends the request to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        if self.is_legacy {
            out.extend(LEGACY_POLL);
            out.extend(self.cookie);
        } else {
            out.extend(MAGIC);
            out.extend(POLL);
            out.extend(self.cookie);
            out.push(END);
        }
    }

    /// Returns whether bytes start like a request since 1.0.
    pub fn is_request(bytes: &[u8]) -> bool {
        let rest = bytes.strip_prefix(&MAGIC);
        rest.is_some_and(|rest| rest.first() == Some(&0))
    }

    fn is_legacy(bytes: &[u8]) -> bool {
        let [length, _] = LEGACY_LENGTHS;
        bytes.len() == length && bytes.starts_with(&LEGACY_POLL)
    }

    /// Parses a request of a Satisfactory client.
    ///
    /// # Errors
    ///
    /// Names the field that is missing or of another protocol, with its offset.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Result<Self, Error> {
        let is_legacy = Self::is_legacy(bytes);
        let mut r = Reader::new(bytes, notes);
        if is_legacy {
            r.constant(&LEGACY_POLL, "type")?;
        } else {
            r.constant(&MAGIC, "magic")?;
            r.constant(&POLL, "type and version")?;
        }
        let cookie = cookie(&mut r)?;
        if !is_legacy {
            r.constant(&[END], "end")?;
        }
        r.end()?;
        Ok(Self { is_legacy, cookie })
    }
}

/// Reply of a Satisfactory server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Returned bytes.
    pub cookie: [u8; 8],
    /// State of the server: 1 idle, 2 loading, 3 playing.
    pub state: u8,
    /// Number of the build.
    pub build: u32,
    /// Flags of the message.
    pub flags: u64,
    /// Parts of the state with the number of their last change.
    pub parts: Vec<(u8, u16)>,
    /// Name of the server.
    pub name: &'a [u8],
    /// Port of the beacon, before 1.0.
    pub beacon_port: Option<u16>,
}

impl<'a> Reply<'a> {
    /// Returns whether bytes start like a reply.
    pub fn is_reply(bytes: &[u8]) -> bool {
        let rest = bytes.strip_prefix(&MAGIC);
        rest.is_some_and(|rest| rest.first() == Some(&1)) || Self::is_legacy(bytes)
    }

    fn is_legacy(bytes: &[u8]) -> bool {
        let [_, length] = LEGACY_LENGTHS;
        bytes.len() == length && bytes.starts_with(&LEGACY_STATE)
    }

    /// Parses a reply of a Satisfactory server.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or of another protocol, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let is_legacy = Self::is_legacy(bytes);
        let mut r = Reader::new(bytes, notes);
        if is_legacy {
            r.constant(&LEGACY_STATE, "type")?;
            return Ok(Self {
                cookie: cookie(&mut r)?,
                state: r.u8("state")?,
                build: r.u32_le("build")?,
                beacon_port: Some(r.u16_le("beacon port")?),
                ..Self::default()
            });
        }
        r.constant(&MAGIC, "magic")?;
        r.constant(&STATE, "type and version")?;
        let mut reply = Self {
            cookie: cookie(&mut r)?,
            state: r.u8("state")?,
            build: r.u32_le("build")?,
            flags: r.u64_le("flags")?,
            ..Self::default()
        };
        let count = r.u8("number of parts")?;
        for index in 0..usize::from(count) {
            r.notes().group("parts", index);
            reply.parts.push((r.u8("id")?, r.u16_le("version")?));
        }
        r.notes().ungroup();
        let length = r.u16_le("length of the name")?;
        let at = r.at();
        reply.name = r.take(length.into(), "name")?;
        let name = reply.name;
        r.note(at, "name", || format!("{:?}", by_content(name).0));
        r.constant(&[END], "end")?;
        r.trailing(&TRAILING_BYTES);
        Ok(reply)
    }
}

fn cookie(r: &mut Reader<'_, '_>) -> Result<[u8; 8], Error> {
    let at = r.at();
    let cookie = r.array("cookie")?;
    r.note(at, "cookie", || crate::wire::hexadecimal(&cookie));
    Ok(cookie)
}

/// Appends a reply without parts.
pub fn write_reply(cookie: [u8; 8], body: &[u8], out: &mut Vec<u8>) {
    out.extend(MAGIC);
    out.extend(STATE);
    out.extend(cookie);
    out.extend(body);
}

/// Returns what follows the cookie of a reply without parts.
pub fn body(state: u8, build: u32, flags: u64, name: &str) -> Vec<u8> {
    let mut out = Vec::from([state]);
    out.extend(build.to_le_bytes());
    out.extend(flags.to_le_bytes());
    out.push(0);
    out.extend((name.len() as u16).to_le_bytes());
    out.extend(name.bytes());
    out.push(END);
    out
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let is_legacy = Request::is_legacy(bytes) || Reply::is_legacy(bytes);
    let found = if Request::is_request(bytes) || Request::is_legacy(bytes) {
        Direction::Request
    } else if Reply::is_reply(bytes) {
        Direction::Reply
    } else {
        return None;
    };
    if direction.is_some_and(|direction| direction != found) {
        return None;
    }
    let (message, error) = match found {
        Direction::Request => (
            if is_legacy { "legacy poll" } else { "poll" },
            Request::read(bytes, notes).err(),
        ),
        Direction::Reply => (
            if is_legacy { "legacy state" } else { "state" },
            Reply::read(bytes, notes).err(),
        ),
    };
    Some(Explanation {
        message,
        direction: found,
        is_certain: !is_legacy,
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_both_ways() {
        for is_legacy in [false, true] {
            let request = Request {
                is_legacy,
                cookie: *b"hailer07",
            };
            let mut out = Vec::new();
            request.write(&mut out);
            assert_eq!(Request::read(&out, &mut Notes::default()), Ok(request));
            for end in 0..out.len() {
                assert!(Request::read(&out[..end], &mut Notes::default()).is_err());
            }
        }
    }

    #[test]
    fn replies_both_ways() {
        let mut out = Vec::new();
        write_reply(*b"hailer07", &body(3, 416_835, 1, "Test"), &mut out);
        assert_eq!(out.len(), SHORTEST_REPLY + 4);
        let read = Reply::read(&out, &mut Notes::default()).unwrap();
        assert_eq!(
            (read.state, read.build, read.flags),
            (3, 416_835, FLAG_MODDED)
        );
        assert_eq!((read.name, read.parts.len()), (&b"Test"[..], 0));
        for end in 0..out.len() {
            assert!(Reply::read(&out[..end], &mut Notes::default()).is_err());
        }
    }
}
