//! Bytes ⇄ messages. The only file that knows the layout (spec/armagetron.md#2 to #4).

use super::deviation::{NO_SENDER, SHORT_INFO};
use crate::protocol::{Direction, Explanation};
use crate::wire::codepage;
use crate::wire::{Error, Notes, Reader};
use alloc::{format, vec::Vec};

/// Length of a request in bytes.
const REQUEST: usize = 8;
/// Descriptor, number and length of a message, in bytes.
const HEADER: usize = 6;

/// The four kinds of messages, by their descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reply with port and address.
    Small,
    /// Reply with everything.
    Big,
    /// Request for the small reply.
    SmallRequest,
    /// Request for the big reply.
    BigRequest,
}

impl Kind {
    const ALL: [(Self, u16); 4] = [
        (Self::Small, 50),
        (Self::Big, 51),
        (Self::SmallRequest, 52),
        (Self::BigRequest, 53),
    ];

    fn descriptor(self) -> u16 {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|(kind, _)| *kind == self);
        found.map_or(0, |(_, descriptor)| descriptor)
    }

    /// Returns the kind of a message.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let descriptor = match bytes {
            [high, low, ..] => u16::from_be_bytes([*high, *low]),
            _ => return None,
        };
        let mut all = Self::ALL.into_iter();
        let (kind, _) = all.find(|(_, known)| *known == descriptor)?;
        let is_request = matches!(kind, Self::SmallRequest | Self::BigRequest);
        (!is_request || bytes.len() == REQUEST).then_some(kind)
    }
}

/// Appends a request: no units, and 0 for an unknown sender.
pub fn write_request(kind: Kind, out: &mut Vec<u8>) {
    out.extend(kind.descriptor().to_be_bytes());
    out.extend([0; REQUEST - 2]);
}

/// The big reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Port of the game.
    pub port: u32,
    /// Address in the configuration of the server, often empty.
    pub address: Vec<u8>,
    /// Name of the server.
    pub name: Vec<u8>,
    /// Number of players online.
    pub online: u32,
    /// Lowest version of the network protocol.
    pub min_version: u32,
    /// Highest version of the network protocol.
    pub max_version: u32,
    /// Release of the server.
    pub release: Vec<u8>,
    /// Maximum number of players.
    pub max: Option<u32>,
    /// Names of the players, each followed by a line feed.
    pub players: Option<Vec<u8>>,
    /// Description of the settings.
    pub options: Vec<u8>,
    /// Address of the website.
    pub url: Vec<u8>,
    /// Account of each player, or an empty line.
    pub accounts: Vec<u8>,
}

impl Info {
    /// Parses the big reply.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or of another protocol, with its offset.
    pub fn read(bytes: &[u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = body(bytes, notes)?;
        let mut info = Self {
            port: number(&mut r, "port")?,
            address: text(&mut r, "address")?,
            name: text(&mut r, "name")?,
            online: number(&mut r, "players")?,
            min_version: number(&mut r, "lowest version")?,
            max_version: number(&mut r, "highest version")?,
            release: text(&mut r, "release")?,
            ..Self::default()
        };
        let at = r.at();
        if r.remaining() > 0 {
            info.max = Some(number(&mut r, "max players")?);
        }
        if r.remaining() > 0 {
            info.players = Some(text(&mut r, "players")?);
        }
        for (field, to) in [
            ("options", &mut info.options),
            ("website", &mut info.url),
            ("accounts", &mut info.accounts),
        ] {
            if r.remaining() == 0 {
                r.notes().deviation(&SHORT_INFO, at);
                break;
            }
            *to = text(&mut r, field)?;
        }
        // Later versions append a digest of the settings.
        let length = r.remaining();
        if length > 0 {
            r.raw(length, "further fields")?;
        }
        Ok(info)
    }
}

/// Parses the small reply to collect its notes: port, address, and fields without use.
///
/// # Errors
///
/// Names the field that is truncated, with its offset.
pub fn read_small(bytes: &[u8], notes: &mut Notes) -> Result<(), Error> {
    let mut r = body(bytes, notes)?;
    number(&mut r, "port")?;
    text(&mut r, "address")?;
    let length = r.remaining();
    r.raw(length, "further fields")?;
    Ok(())
}

/// Reads the header and returns a reader of the units.
fn body<'a, 'n>(bytes: &'a [u8], notes: &'n mut Notes) -> Result<Reader<'a, 'n>, Error> {
    let mut r = Reader::new(bytes, notes);
    r.u16_be("descriptor")?;
    r.u16_be("number")?;
    let units = r.u16_be("units")?;
    let end = HEADER + 2 * usize::from(units);
    let Some(message) = bytes.get(..end) else {
        r.take(end - HEADER, "units")?;
        return Err(Error::bad(
            "units",
            HEADER,
            "a count of units within the datagram",
        ));
    };
    if bytes.len() < end + 2 {
        notes.deviation(&NO_SENDER, end);
    }
    let mut r = Reader::new(message, notes);
    r.take(HEADER, "header")?;
    Ok(r)
}

/// Reads a number: two units, the low one first.
fn number(r: &mut Reader<'_, '_>, field: &'static str) -> Result<u32, Error> {
    let at = r.at();
    let [low, more, high, top] = r.array(field)?;
    let number = u32::from_be_bytes([high, top, low, more]);
    r.note(at, field, || format!("{number}"));
    Ok(number)
}

/// Reads a text: its length with the final NUL, then units of two characters. The first character
/// is the low byte and is signed, so that it borrows from the high byte (spec/armagetron.md#3).
fn text(r: &mut Reader<'_, '_>, field: &'static str) -> Result<Vec<u8>, Error> {
    let at = r.at();
    let length = usize::from(u16::from_be_bytes(r.array(field)?));
    let bytes = r.take(length.next_multiple_of(2), field)?;
    let mut text = Vec::with_capacity(bytes.len());
    let (units, _) = bytes.as_chunks();
    for [high, low] in units {
        let borrowed = u8::from(*low >= 0x80);
        text.extend([*low, high.wrapping_add(borrowed)]);
    }
    text.truncate(length);
    let end = text.iter().position(|byte| *byte == 0);
    text.truncate(end.unwrap_or(length));
    r.note(at, field, || format!("{:?}", codepage::decode(&text)));
    Ok(text)
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let kind = Kind::of(bytes)?;
    let (message, found) = match kind {
        Kind::Small => ("small info", Direction::Reply),
        Kind::Big => ("big info", Direction::Reply),
        Kind::SmallRequest => ("small info request", Direction::Request),
        Kind::BigRequest => ("big info request", Direction::Request),
    };
    if direction.is_some_and(|direction| direction != found) {
        return None;
    }
    let error = match kind {
        Kind::Small => read_small(bytes, notes).err(),
        Kind::Big => Info::read(bytes, notes).err(),
        Kind::SmallRequest | Kind::BigRequest => read_request(bytes, notes).err(),
    };
    Some(Explanation::guess(message, found, error))
}

fn read_request(bytes: &[u8], notes: &mut Notes) -> Result<(), Error> {
    let mut r = Reader::new(bytes, notes);
    for field in ["descriptor", "number", "units", "sender"] {
        r.u16_be(field)?;
    }
    r.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_borrow_from_each_other() {
        let mut notes = Notes::default();
        let mut r = Reader::new(b"\0\x04\xA8\xC3\0\x21", &mut notes);
        assert_eq!(text(&mut r, "text").unwrap(), "\u{E9}!".as_bytes());
        let mut r = Reader::new(b"\xFF\xFF\0\0", &mut notes);
        assert!(text(&mut r, "text").is_err());
    }
}
