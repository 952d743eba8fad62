//! Bytes ⇄ messages (spec/beammp.md#2 and #3).

use super::deviation::NO_LENGTH;
use crate::protocol::{Direction, Explanation, Frame};
use crate::wire::json::{Item, Json, Kind};
use crate::wire::{Error, ErrorKind, Notes, Reader};
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use compact_str::CompactString;

/// Request for the information.
pub const INFORMATION: u8 = b'I';
/// Request for a sign of life, and its reply.
pub const PING: u8 = b'P';
/// Longest information in bytes.
const MAX_BYTES: usize = 256 << 10;
/// Bytes of a length.
const LENGTH_BYTES: usize = 4;
const START: u8 = b'{';

/// Information of a server: texts by key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Information {
    entries: Vec<(CompactString, CompactString)>,
}

impl Information {
    /// Parses the information with its length.
    ///
    /// # Errors
    ///
    /// Names the part that is truncated, too long or no JSON, with its offset.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        let start = if is_bare(bytes) {
            r.notes().deviation(&NO_LENGTH, 0);
            0
        } else {
            let length = length(bytes)?;
            r.i32_le("length")?;
            r.take(length, "information")?;
            r.end()?;
            LENGTH_BYTES
        };
        let json = Json::parse(bytes, start..bytes.len(), "information")?;
        let root = json.root();
        if root.kind() != Kind::Object {
            return Err(Error::bad("information", root.at(), "an object"));
        }
        let mut entries = Vec::new();
        for (key, value) in root.entries() {
            let (Some(key), Some(text)) = (key.text(), value.scalar()) else {
                continue;
            };
            notes.field(value.range(), "member", || shown(&key, value));
            entries.push((key.into(), text.into()));
        }
        Ok(Self { entries })
    }

    /// Returns a text that is not empty.
    pub fn text(&self, key: &str) -> Option<&str> {
        let entry = self.entries.iter().find(|(known, _)| known == key);
        entry
            .map(|(_, value)| value.as_str())
            .filter(|text| !text.is_empty())
    }

    /// Returns a number.
    pub fn number(&self, key: &str) -> Option<i64> {
        self.text(key)?.trim().parse().ok()
    }

    /// Returns a boolean.
    pub fn boolean(&self, key: &str) -> Option<bool> {
        match self.text(key)? {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }
    }

    /// Returns all members, in order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

fn shown(key: &str, value: Item<'_, '_>) -> String {
    let text = value.scalar().unwrap_or(Cow::Borrowed("null"));
    format!("{key}: {}", crate::wire::cut(&text, 80))
}

/// Returns whether bytes start with JSON instead of a length. A length of 123 starts with the same
/// byte, and three zeros follow.
fn is_bare(bytes: &[u8]) -> bool {
    bytes.first() == Some(&START) && bytes.get(1..LENGTH_BYTES) != Some(&[0; 3])
}

/// Returns the length at the start.
fn length(bytes: &[u8]) -> Result<usize, Error> {
    let mut notes = Notes::discarding();
    let length = Reader::new(bytes, &mut notes).i32_le("length")?;
    let bad = Error::bad("length", 0, "the length of the information");
    let length = usize::try_from(length).map_err(|_| bad)?;
    if length > MAX_BYTES {
        return Err(Error::limit("length", 0, MAX_BYTES));
    }
    Ok(length)
}

/// Returns where the information ends. Without a length it ends with the object, as far as the
/// bytes show.
///
/// # Errors
///
/// The length is negative or too large.
pub fn end(bytes: &[u8]) -> Result<Frame, Error> {
    let more = Frame::Incomplete {
        total: bytes.len() + 1,
    };
    if bytes.len() < LENGTH_BYTES {
        let total = LENGTH_BYTES;
        return Ok(Frame::Incomplete { total });
    }
    if is_bare(bytes) {
        if bytes.len() > MAX_BYTES {
            return Err(Error::limit("information", 0, MAX_BYTES));
        }
        let parsed = Json::parse(bytes, 0..bytes.len(), "information");
        return Ok(match parsed.err() {
            None => Frame::Complete(bytes.len()),
            Some(error) if matches!(error.kind, ErrorKind::Leftover { .. }) => {
                Frame::Complete(error.at)
            }
            Some(_) => more,
        });
    }
    let total = LENGTH_BYTES + length(bytes)?;
    Ok(if total > bytes.len() {
        Frame::Incomplete { total }
    } else {
        Frame::Complete(total)
    })
}

/// Parses one message to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let reply = |message, error| Explanation::guess(message, Direction::Reply, error);
    match (bytes, direction) {
        (&[INFORMATION | PING], None | Some(Direction::Request)) => {
            notes.field(0..1, "request", || "1 byte".into());
            Some(Explanation::guess(
                if bytes == [PING] {
                    "ping"
                } else {
                    "request for the information"
                },
                Direction::Request,
                None,
            ))
        }
        (&[PING], Some(Direction::Reply)) => Some(reply("pong", None)),
        (_, None | Some(Direction::Reply)) => {
            let body = bytes.get(LENGTH_BYTES..).unwrap_or_default();
            let has_key = |bytes: &[u8]| bytes.starts_with(b"{\"");
            let is_information = has_key(body) && !is_bare(bytes)
                || has_key(bytes) && memchr::memmem::find(bytes, b"\"modstotal\"").is_some();
            if !is_information {
                return None;
            }
            let error = Information::read(bytes, notes).err();
            Some(reply("information", error))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans_are_words_or_digits() {
        let object = br#"{"a":"true","b":"1","c":"false","d":"0","e":"yes","f":""}"#;
        let information = Information::read(object, &mut Notes::default()).unwrap();
        let found = ["a", "b", "c", "d", "e", "f"].map(|key| information.boolean(key));
        let expected = [Some(true), Some(true), Some(false), Some(false), None, None];
        assert_eq!(found, expected);
    }

    #[test]
    fn both_forms_end_with_the_object() {
        let object = br#"{"name":"x","a":{"b":"}"}}"#;
        let framed = [&(object.len() as i32).to_le_bytes()[..], object].concat();
        for bytes in [&object[..], &framed] {
            assert_eq!(end(bytes), Ok(Frame::Complete(bytes.len())));
            for cut in 0..bytes.len() {
                match end(&bytes[..cut]) {
                    Ok(Frame::Incomplete { total }) => assert!(total > cut && total <= bytes.len()),
                    other => panic!("{other:?} after {cut}"),
                }
            }
        }
        assert!(end(b"\xFF\xFF\xFF\xFF").is_err());
        assert!(end(b"\0\0\0\x7F").is_err());
        let long = [&b"{\x00\x00\x00"[..], &[b' '; 122], b"{"].concat();
        assert_eq!(
            end(&long),
            Ok(Frame::Complete(long.len())),
            "123 is a length"
        );
    }
}
