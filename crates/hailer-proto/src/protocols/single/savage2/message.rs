//! Bytes ⇄ messages. The only file that knows the layout (spec/savage2.md#2 and #3).

use super::deviation::TRAILING_BYTES;
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader};

/// The request.
pub const REQUEST: &[u8] = b"\x01";
/// Bytes of unknown meaning at the start of a reply.
const UNKNOWN: usize = 12;

/// A reply, borrowed from its datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Name of the server.
    pub name: &'a [u8],
    /// Number of players online.
    pub online: u8,
    /// Maximum number of players.
    pub max: u8,
    /// Time of the match, as text.
    pub time: &'a [u8],
    /// Name of the map.
    pub map: &'a [u8],
    /// Name of the next map.
    pub next_map: &'a [u8],
    /// Location of the server.
    pub location: &'a [u8],
    /// Players that a match needs.
    pub min_players: u8,
    /// Game type, as the server names it.
    pub mode: &'a [u8],
    /// Version of the game.
    pub version: &'a [u8],
    /// Lowest level of players.
    pub min_level: u8,
}

impl<'a> Reply<'a> {
    /// Parses a reply.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated, with its offset, and a reply without name, map, version
    /// and maximum.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        r.raw(UNKNOWN, "header")?;
        let reply = Self {
            name: r.text_to_nul("name")?,
            online: r.u8("players")?,
            max: r.u8("max players")?,
            time: r.text_to_nul("time")?,
            map: r.text_to_nul("map")?,
            next_map: r.text_to_nul("next map")?,
            location: r.text_to_nul("location")?,
            min_players: r.u8("min players")?,
            mode: r.text_to_nul("game type")?,
            version: r.text_to_nul("version")?,
            min_level: r.u8("min level")?,
        };
        // Other services reply with zeros.
        let texts = [reply.name, reply.map, reply.version];
        if reply.max == 0 && texts.iter().all(|text| text.is_empty()) {
            return Err(Error::bad(
                "name",
                UNKNOWN,
                "a name, map, version or maximum",
            ));
        }
        r.trailing(&TRAILING_BYTES);
        Ok(reply)
    }
}

/// Parses one datagram to collect its notes. Replies have no mark, so their direction must be known.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let explained = |message, direction, error| Some(Explanation::guess(message, direction, error));
    match direction {
        Some(Direction::Reply) => {
            let error = Reply::read(bytes, notes).err();
            explained("status", Direction::Reply, error)
        }
        _ if bytes == REQUEST => {
            let error = Reader::new(bytes, notes).constant(REQUEST, "request").err();
            explained("status request", Direction::Request, error)
        }
        _ => None,
    }
}
