//! Bytes ⇄ messages. The only file that knows the layout (spec/mumble.md#2 and #3).

use super::deviation::{MISSING_BANDWIDTH, MISSING_MAXIMUM};
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader};
use alloc::string::ToString;
use alloc::{format, vec::Vec};

/// Length of a request of the old form in bytes.
pub const OLD_REQUEST: usize = 12;
/// Length of a reply of the old form in bytes.
pub const OLD_REPLY: usize = 24;
/// Starts a request of the old form.
const OLD_START: [u8; 4] = [0; 4];
/// Type of a message of the new form.
const PING: u8 = 1;
/// Longest message of the new form in bytes: the buffer of the server.
const MAX_NEW: usize = 1_024;
/// Largest patch of a version in the old form. Larger ones are sent as this one.
pub const MAX_PATCH: u16 = 255;

/// Number of the major, minor and patch version.
pub type Version = [u16; 3];

/// Request of a Mumble client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// All versions.
    Old {
        /// Bytes that the server returns.
        tag: [u8; 8],
    },
    /// Since 1.5.
    New {
        /// Number that the server returns.
        timestamp: u64,
    },
}

impl Request {
    /// Appends the request to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        match self {
            Self::Old { tag } => {
                out.extend(OLD_START);
                out.extend(tag);
            }
            Self::New { timestamp } => {
                out.push(PING);
                write_field(Field::Timestamp, timestamp, out);
                write_field(Field::IsRequest, 1, out);
            }
        }
    }

    /// Parses a request of a Mumble client.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are not a request of either form.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        if bytes.first() == Some(&PING) {
            let fields = Fields::read(&mut r)?;
            let is_request = fields.is_request.is_some_and(|value| value != 0);
            return if is_request && fields.version.is_none() {
                Ok(Self::New {
                    timestamp: fields.timestamp.unwrap_or(0),
                })
            } else {
                Err(Error::bad("fields", 1, "field 2 and no field 3"))
            };
        }
        r.constant(&OLD_START, "start")?;
        let at = r.at();
        let tag = r.array("tag")?;
        r.note(at, "tag", || crate::wire::hexadecimal(&tag));
        r.end()?;
        Ok(Self::Old { tag })
    }
}

/// Reply of a Mumble server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Returned bytes of the old form.
    pub tag: Option<[u8; 8]>,
    /// Returned number of the new form.
    pub timestamp: Option<u64>,
    /// Version. The old form has no patch above 255.
    pub version: Option<Version>,
    /// Users connected.
    pub users: u32,
    /// Maximum number of users.
    pub max: Option<u32>,
    /// Bits per second that each user may send.
    pub bandwidth: Option<u32>,
}

impl Reply {
    /// Returns whether bytes have the shape of a reply.
    pub fn is_reply(bytes: &[u8]) -> bool {
        let fields = Fields::read(&mut Reader::new(bytes, &mut Notes::discarding()));
        let is_new = bytes.first() == Some(&PING) && fields.is_ok_and(|f| f.version.is_some());
        is_new || bytes.len() == OLD_REPLY && bytes.first() == Some(&0)
    }

    /// Parses a reply of a Mumble server.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated, too long or of another protocol, with its offset.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        if bytes.first() != Some(&PING) {
            return read_old(&mut r);
        }
        let fields = Fields::read(&mut r)?;
        let at = r.at();
        for (field, deviation) in [
            (fields.max, &MISSING_MAXIMUM),
            (fields.bandwidth, &MISSING_BANDWIDTH),
        ] {
            if field.is_none() {
                r.notes().deviation(deviation, at);
            }
        }
        let number =
            |value: Option<u64>| value.map(|value| u32::try_from(value).unwrap_or(u32::MAX));
        Ok(Self {
            tag: None,
            timestamp: fields.timestamp,
            version: fields
                .version
                .map(|version| [48, 32, 16].map(|shift| (version >> shift) as u16)),
            // A number of 0 is left out.
            users: number(fields.users).unwrap_or(0),
            max: number(fields.max),
            bandwidth: number(fields.bandwidth),
        })
    }

    /// Appends the reply in the form of the request.
    pub fn write(&self, request: Request, out: &mut Vec<u8>) {
        let [major, minor, patch] = self.version.unwrap_or_default();
        let max = self.max.unwrap_or(0);
        let bandwidth = self.bandwidth.unwrap_or(0);
        match request {
            Request::Old { tag } => {
                let patch = patch.min(MAX_PATCH) as u8;
                out.extend(major.to_be_bytes());
                out.extend([minor as u8, patch]);
                out.extend(tag);
                let numbers = [self.users, max, bandwidth];
                out.extend(numbers.into_iter().flat_map(u32::to_be_bytes));
            }
            Request::New { timestamp } => {
                let parts = [major, minor, patch].map(u64::from);
                let [major, minor, patch] = parts;
                out.push(PING);
                for (field, value) in [
                    (Field::Timestamp, timestamp),
                    (Field::Version, major << 48 | minor << 32 | patch << 16),
                    (Field::Users, self.users.into()),
                    (Field::Max, max.into()),
                    (Field::Bandwidth, bandwidth.into()),
                ] {
                    // Maximum and bandwidth are written even if they are 0, so that they are known.
                    if value != 0 || matches!(field, Field::Max | Field::Bandwidth) {
                        write_field(field, value, out);
                    }
                }
            }
        }
    }
}

fn read_old(r: &mut Reader<'_, '_>) -> Result<Reply, Error> {
    let major = r.u16_be("major version")?;
    let minor = r.u8("minor version")?;
    let patch = r.u8("patch version")?;
    let at = r.at();
    let tag = r.array("tag")?;
    r.note(at, "tag", || crate::wire::hexadecimal(&tag));
    let mut number = |field: &'static str| -> Result<u32, Error> {
        let at = r.at();
        let number = u32::from_be_bytes(r.array(field)?);
        r.note(at, field, || number.to_string());
        Ok(number)
    };
    let reply = Reply {
        tag: Some(tag),
        timestamp: None,
        version: Some([major, minor.into(), patch.into()]),
        users: number("users")?,
        max: Some(number("max users")?),
        bandwidth: Some(number("bandwidth")?),
    };
    r.end()?;
    Ok(reply)
}

/// Fields of the new form by number.
#[derive(Clone, Copy)]
enum Field {
    Timestamp = 1,
    IsRequest = 2,
    Version = 3,
    Users = 4,
    Max = 5,
    Bandwidth = 6,
}

fn write_field(field: Field, mut value: u64, out: &mut Vec<u8>) {
    out.push((field as u8) << 3);
    while value > 0x7F {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Values of the new form, which is a message of Protocol Buffers.
#[derive(Clone, Copy, Debug, Default)]
struct Fields {
    timestamp: Option<u64>,
    is_request: Option<u64>,
    version: Option<u64>,
    users: Option<u64>,
    max: Option<u64>,
    bandwidth: Option<u64>,
}

impl Fields {
    fn read(r: &mut Reader<'_, '_>) -> Result<Self, Error> {
        if r.remaining() > MAX_NEW {
            return Err(Error::limit("message", 0, MAX_NEW));
        }
        r.constant(&[PING], "type")?;
        let mut fields = Self::default();
        while r.remaining() > 0 {
            let at = r.at();
            let key = r.varint("key")?;
            let number = key >> 3;
            let wire = key & 7;
            let mut unknown = None;
            let (slot, name) = match number {
                0 => return Err(Error::bad("key", at, "a field from 1")),
                1 => (&mut fields.timestamp, "timestamp"),
                2 => (&mut fields.is_request, "request"),
                3 => (&mut fields.version, "version"),
                4 => (&mut fields.users, "users"),
                5 => (&mut fields.max, "max users"),
                6 => (&mut fields.bandwidth, "bandwidth"),
                _ => (&mut unknown, "unknown field"),
            };
            match (wire, number) {
                (0, _) => {
                    let value = r.varint(name)?;
                    r.note(at, name, || match name {
                        "version" => {
                            let part = |shift: u32| (value >> shift) as u16;
                            format!("{}.{}.{}", part(48), part(32), part(16))
                        }
                        _ => value.to_string(),
                    });
                    *slot = Some(value);
                }
                (1, 7..) => drop(r.raw(8, name)?),
                (5, 7..) => drop(r.raw(4, name)?),
                (2, 7..) => {
                    let length = r.varint(name)?;
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    r.raw(length.min(MAX_NEW), name)?;
                }
                _ => return Err(Error::bad("key", at, "a field of a known type")),
            }
        }
        Ok(fields)
    }
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let is_new = bytes.first() == Some(&PING);
    let is_old = bytes.len() == OLD_REQUEST && bytes.starts_with(&OLD_START);
    let is_new_request = is_new && Request::read(bytes, &mut Notes::discarding()).is_ok();
    let found = match direction {
        Some(Direction::Request) if is_old || is_new_request => Direction::Request,
        Some(Direction::Reply) if Reply::is_reply(bytes) => Direction::Reply,
        None if is_old || is_new_request => Direction::Request,
        None if Reply::is_reply(bytes) => Direction::Reply,
        _ => return None,
    };
    let (message, error) = match found {
        Direction::Request => (
            if is_new { "new request" } else { "old request" },
            Request::read(bytes, notes).err(),
        ),
        Direction::Reply => (
            if is_new { "new reply" } else { "old reply" },
            Reply::read(bytes, notes).err(),
        ),
    };
    Some(Explanation::guess(message, found, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_both_ways() {
        for (request, bytes) in [
            (Request::Old { tag: *b"hailer07" }, &b"\0\0\0\0hailer07"[..]),
            (
                Request::New {
                    timestamp: 0x48_414C,
                },
                b"\x01\x08\xCC\x82\xA1\x02\x10\x01",
            ),
        ] {
            let mut out = Vec::new();
            request.write(&mut out);
            assert_eq!(out, bytes);
            assert_eq!(Request::read(bytes, &mut Notes::default()), Ok(request));
            for end in 0..bytes.len() {
                assert!(Request::read(&bytes[..end], &mut Notes::default()).is_err());
            }
        }
    }

    #[test]
    fn replies_both_ways() {
        let reply = Reply {
            version: Some([1, 5, 634]),
            users: 2,
            max: Some(100),
            bandwidth: Some(558_000),
            ..Reply::default()
        };
        for (request, bytes) in [
            (
                Request::Old { tag: *b"hailer07" },
                &b"\0\x01\x05\xFFhailer07\0\0\0\x02\0\0\0\x64\0\x08\x83\xB0"[..],
            ),
            (
                Request::New {
                    timestamp: 0x48_414C,
                },
                b"\x01\x08\xCC\x82\xA1\x02\x18\x80\x80\xE8\x93\xD0\x80\x40\x20\x02\x28\x64\x30\xB0\x87\x22",
            ),
        ] {
            let mut out = Vec::new();
            reply.write(request, &mut out);
            assert_eq!(out, bytes);
            assert!(Reply::is_reply(&out));
            assert!(Request::read(&out, &mut Notes::default()).is_err());
            let read = Reply::read(&out, &mut Notes::default()).unwrap();
            assert_eq!((read.users, read.max, read.bandwidth), (2, Some(100), Some(558_000)));
            let longer = [bytes, b"\x0F"].concat();
            assert!(Reply::read(&longer, &mut Notes::default()).is_err());
        }
    }

    #[test]
    fn unknown_fields_are_skipped_by_type() {
        let read = |rest: &[u8]| {
            let bytes = [&b"\x01\x10\x01"[..], rest].concat();
            Request::read(&bytes, &mut Notes::default())
        };
        let request = Ok(Request::New { timestamp: 0 });
        for rest in [
            &b"\x38\x01"[..],
            b"\x39abcdefgh",
            b"\x3Dabcd",
            b"\x3A\x02xy",
        ] {
            assert_eq!(read(rest), request);
        }
        for rest in [
            &b"\x3A\x05xy"[..],
            b"\x3B",
            b"\x22\x01x",
            b"\x00\x01",
            b"\x38\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01",
        ] {
            assert!(read(rest).is_err(), "{rest:02x?}");
        }
    }
}
