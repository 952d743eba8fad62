//! Bytes ⇄ messages. The only file that knows the layout (spec/veloren.md#2 to #4).

use super::deviation::TRAILING_BYTES;
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader, hexadecimal};
use alloc::{format, vec::Vec};

/// Shortest request that servers accept, in bytes.
pub const MIN_REQUEST: usize = 256;
/// Longest request that servers accept, in bytes.
const MAX_REQUEST: usize = 309;
/// Length of an init reply in bytes.
pub const INIT_REPLY: usize = 14;
/// Offset of the end of a request that Hailer sends.
const PADDED: usize = 256;
/// Starts a request: version 0.
const VERSION: [u8; 2] = [0; 2];
/// Ends every request.
const END: &[u8] = b"veloren";
/// Starts an init reply.
const INIT: [u8; 4] = [0, 0, 0, 2];
/// Starts the information.
const INFORMATION: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];

/// The subject of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A token.
    Init,
    /// The information on the server.
    Information,
}

/// Request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Token of the server, or 0.
    pub token: u64,
    /// The subject.
    pub kind: Kind,
}

impl Request {
    /// Appends the request to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(VERSION);
        out.extend(self.token.to_be_bytes());
        let kind: u32 = match self.kind {
            Kind::Init => 1,
            Kind::Information => 2,
        };
        out.extend(kind.to_be_bytes());
        out.resize(start + PADDED, 0);
        out.extend(END);
    }

    /// Returns whether bytes have the length and the end of a request.
    pub fn is_request(bytes: &[u8]) -> bool {
        (MIN_REQUEST..=MAX_REQUEST).contains(&bytes.len()) && bytes.ends_with(END)
    }

    /// Parses a request.
    ///
    /// # Errors
    ///
    /// Names the field that is missing, unknown or of another version, with its offset.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        r.constant(&VERSION, "version")?;
        let token = token(&mut r)?;
        let at = r.at();
        let kind = match r.i32_be("kind")? {
            1 => Kind::Init,
            2 => Kind::Information,
            _ => return Err(Error::bad("kind", at, "1 or 2")),
        };
        let at = r.at();
        let padding = r.take(r.remaining().saturating_sub(END.len()), "padding")?;
        r.note(at, "padding", || format!("{} bytes", padding.len()));
        r.constant(END, "end")?;
        Ok(Self { token, kind })
    }
}

/// Reply of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A token for the next request.
    Init {
        /// The token.
        token: u64,
    },
    /// The information on the server.
    Information(Information),
}

/// Information on a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Information {
    /// Start of the hash of the game's commit.
    pub hash: [u8; 4],
    /// Time of the commit in Unix seconds.
    pub commit_time: i64,
    /// Number of players online.
    pub online: u16,
    /// Maximum number of players.
    pub max: u16,
    /// Battle mode: 1 PvP, 2 PvE, 3 each player chooses.
    pub battle_mode: u8,
}

impl Information {
    /// Appends the reply to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend(INFORMATION);
        out.extend(self.hash);
        out.extend(self.commit_time.to_be_bytes());
        out.extend(self.online.to_be_bytes());
        out.extend(self.max.to_be_bytes());
        out.push(self.battle_mode);
    }
}

/// Appends an init reply to `out`.
pub fn write_init(token: u64, out: &mut Vec<u8>) {
    out.extend(INIT);
    out.extend(token.to_be_bytes());
    out.extend(VERSION);
}

impl Reply {
    /// Returns whether bytes start like a complete reply.
    fn is_reply(bytes: &[u8]) -> bool {
        bytes.len() >= INIT_REPLY && (bytes.starts_with(&INIT) || bytes.starts_with(&INFORMATION))
    }

    /// Parses a reply.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or unknown, with its offset.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        let reply = if bytes.starts_with(&INIT) {
            r.constant(&INIT, "kind")?;
            let token = token(&mut r)?;
            r.u16_be("newest version")?;
            Self::Init { token }
        } else {
            r.constant(&INFORMATION, "kind")?;
            Self::Information(Information {
                hash: hash(&mut r)?,
                commit_time: r.i64_be("commit time")?,
                online: r.u16_be("players")?,
                max: r.u16_be("max players")?,
                battle_mode: r.u8("battle mode")?,
            })
        };
        r.trailing(&TRAILING_BYTES);
        Ok(reply)
    }
}

fn token(r: &mut Reader<'_, '_>) -> Result<u64, Error> {
    let at = r.at();
    let token = r.array("token")?;
    r.note(at, "token", || hexadecimal(&token));
    Ok(u64::from_be_bytes(token))
}

fn hash(r: &mut Reader<'_, '_>) -> Result<[u8; 4], Error> {
    let at = r.at();
    let hash = r.array("commit")?;
    r.note(at, "commit", || hexadecimal(&hash));
    Ok(hash)
}

/// Parses one datagram to collect its notes. Replies have no mark: without a known direction, their
/// first bytes decide.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    match direction {
        None | Some(Direction::Request) if Request::is_request(bytes) => {
            let request = Request::read(bytes, notes);
            let message = match request.map(|request| request.kind) {
                Ok(Kind::Init) => "init request",
                Ok(Kind::Information) => "information request",
                Err(_) => "request",
            };
            let error = request.err();
            Some(Explanation::certain(message, Direction::Request, error))
        }
        Some(Direction::Request) => None,
        None if !Reply::is_reply(bytes) => None,
        _ => {
            let message = if bytes.starts_with(&INIT) {
                "init reply"
            } else {
                "information"
            };
            let error = Reply::read(bytes, notes).err();
            Some(Explanation::guess(message, Direction::Reply, error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_both_ways() {
        for kind in [Kind::Init, Kind::Information] {
            let request = Request { token: 7, kind };
            let mut out = Vec::new();
            request.write(&mut out);
            assert_eq!(out.len(), 263);
            assert!(Request::is_request(&out));
            assert_eq!(Request::read(&out, &mut Notes::default()), Ok(request));
        }
        let information = Information {
            hash: [1, 2, 3, 4],
            commit_time: -1,
            online: 2,
            max: 65_535,
            battle_mode: 3,
        };
        let mut out = Vec::new();
        information.write(&mut out);
        let read = Reply::read(&out, &mut Notes::default());
        assert_eq!(read, Ok(Reply::Information(information)));
        for end in 0..out.len() {
            assert!(Reply::read(&out[..end], &mut Notes::default()).is_err());
        }
    }

    #[test]
    fn other_datagrams_are_no_requests() {
        let mut request = Vec::new();
        let kind = Kind::Init;
        Request { token: 0, kind }.write(&mut request);
        let end = [0; 47];
        for (bytes, is_request) in [
            (request[7..].to_vec(), true),
            (request[8..].to_vec(), false),
            ([&end[1..], &request].concat(), true),
            ([&end[..], &request].concat(), false),
            ([&request[..], b"\0"].concat(), false),
        ] {
            let length = bytes.len();
            assert_eq!(Request::is_request(&bytes), is_request, "{length} bytes");
        }
    }
}
