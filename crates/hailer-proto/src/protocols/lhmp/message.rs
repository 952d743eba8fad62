//! Bytes ⇄ messages. The only file that knows the layout (spec/lhmp.md#2 and #3).

use super::deviation::{CUT_PLAYERS, SHORT_DETAILS, TRAILING_BYTES};
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader};
use alloc::vec::Vec;

/// Starts every message.
const MAGIC: &[u8] = b"LHMP";

/// The two kinds of messages. A request has the same first bytes as its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Name, map, counts.
    Details,
    /// List of players.
    Players,
}

impl Kind {
    /// Returns the first bytes of a message. A request has no others.
    pub fn magic(self) -> &'static [u8] {
        match self {
            Self::Details => b"LHMPo",
            Self::Players => b"LHMPp",
        }
    }

    /// Returns the kind of a message and what follows the magic.
    fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let mut kinds = [Self::Details, Self::Players].into_iter();
        kinds.find_map(|kind| Some((kind, bytes.strip_prefix(kind.magic())?)))
    }

    /// Returns the kind of a reply; `None` for other messages.
    pub fn of_reply(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = Self::split(bytes)?;
        (!rest.is_empty()).then_some(kind)
    }
}

/// The reply with details, borrowed from its datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details<'a> {
    /// Version of the protocol, often empty.
    pub version: &'a [u8],
    /// Whether players need a password.
    pub has_password: bool,
    /// Number of players online.
    pub online: u16,
    /// Maximum number of players.
    pub max: u16,
    /// Name of the server.
    pub name: &'a [u8],
    /// Game mode, as the server names it.
    pub mode: &'a [u8],
    /// Address of the website.
    pub website: &'a [u8],
    /// Name of the map.
    pub map: &'a [u8],
}

impl<'a> Details<'a> {
    /// Parses a reply.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or of another protocol, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        r.constant(Kind::Details.magic(), "magic")?;
        let mut details = Self {
            version: r.text_to_nul("protocol")?,
            has_password: password(&mut r)?,
            online: r.u16_le("players")?,
            max: r.u16_le("max players")?,
            name: r.counted_text("name")?,
            ..Self::default()
        };
        let at = r.at();
        if details.read_further(&mut r).is_err() {
            r.notes().deviation(&SHORT_DETAILS, at);
        } else {
            r.trailing(&TRAILING_BYTES);
        }
        Ok(details)
    }

    /// Reads what follows the name.
    fn read_further(&mut self, r: &mut Reader<'a, '_>) -> Result<(), Error> {
        self.mode = r.counted_text("mode")?;
        self.website = r.counted_text("website")?;
        self.map = r.counted_text("map")?;
        Ok(())
    }
}

/// Reads whether players need a password: a text that is empty or `0` if they do not.
fn password(r: &mut Reader<'_, '_>) -> Result<bool, Error> {
    let text = r.text_to_nul("password")?;
    Ok(!matches!(text, b"" | b"0"))
}

/// Parses the reply with players: number and name of each.
///
/// # Errors
///
/// Names the field that is truncated or of another protocol, with its offset.
pub fn read_players<'a>(bytes: &'a [u8], notes: &mut Notes) -> Result<Vec<(u16, &'a [u8])>, Error> {
    let mut r = Reader::new(bytes, notes);
    r.constant(Kind::Players.magic(), "magic")?;
    // The list ends before its count, or after it, or within an entry.
    let count = match r.u16_le("players") {
        Ok(count) => count.into(),
        Err(_) => usize::MAX,
    };
    let mut players = Vec::new();
    while r.remaining() > 0 {
        let at = r.at();
        r.notes().group("players", players.len());
        match read_player(&mut r) {
            Ok(Some(player)) => players.push(player),
            // Free places have the number 0 and no name.
            Ok(None) => {}
            Err(_) => {
                r.notes().deviation(&CUT_PLAYERS, at);
                break;
            }
        }
    }
    r.notes().ungroup();
    if players.len() < count {
        let end = r.at();
        r.notes().deviation(&CUT_PLAYERS, end);
    }
    Ok(players)
}

fn read_player<'a>(r: &mut Reader<'a, '_>) -> Result<Option<(u16, &'a [u8])>, Error> {
    let number = r.u16_le("number")?;
    if number == 0 {
        return Ok(None);
    }
    Ok(Some((number, r.counted_text("name")?)))
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    if !bytes.starts_with(MAGIC) {
        return None;
    }
    let (kind, rest) = Kind::split(bytes)?;
    let is_request = rest.is_empty();
    let found = if is_request {
        Direction::Request
    } else {
        Direction::Reply
    };
    if direction.is_some_and(|direction| direction != found) {
        return None;
    }
    let (message, error) = match (is_request, kind) {
        (true, Kind::Details) => {
            let error = Reader::new(bytes, notes).constant(kind.magic(), "magic");
            ("details request", error.err())
        }
        (true, Kind::Players) => {
            let error = Reader::new(bytes, notes).constant(kind.magic(), "magic");
            ("players request", error.err())
        }
        (false, Kind::Details) => ("details", Details::read(bytes, notes).err()),
        (false, Kind::Players) => ("players", read_players(bytes, notes).err()),
    };
    Some(Explanation::certain(message, found, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_shorter_than_their_count_are_named() {
        for (count, is_cut) in [(1, false), (2, true)] {
            let bytes = [b"LHMPp", &[count, 0, 7, 0, 5][..], b"Alice\0\0"].concat();
            let mut notes = Notes::default();
            let players = read_players(&bytes, &mut notes).unwrap();
            assert_eq!(players, [(7, &b"Alice"[..])]);
            assert_eq!(notes.met().count(), usize::from(is_cut));
        }
    }

    #[test]
    fn a_password_is_a_text_other_than_0() {
        for (text, expected) in [("", false), ("0", false), ("1", true), ("secret", true)] {
            let bytes = [b"LHMPo\0", text.as_bytes(), b"\0\x02\0\x32\0\0\0\0\0"].concat();
            let details = Details::read(&bytes, &mut Notes::default()).unwrap();
            assert_eq!(details.has_password, expected, "{text}");
            assert_eq!((details.online, details.max), (2, 50));
        }
    }
}
