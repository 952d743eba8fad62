//! Bytes ⇄ messages. The only file that knows the layout (spec/cs2d.md#2 to #4).

use super::deviation::{SHORT_STATUS, TRAILING_BYTES};
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader};
use alloc::vec::Vec;

/// The request for both messages.
pub const REQUEST: &[u8] = b"\x01\0\xFB\x01\xF5\x03\xFB\x05";
/// Starts each message of a datagram.
const QUERY: u8 = 0xFB;
/// Message with name, map and counts.
const SERVER: u8 = 1;
/// Message with the list of players.
const PLAYERS: u8 = 5;

/// Flags of a server.
pub mod flag {
    /// Players need a password.
    pub const PASSWORD: u8 = 0x01;
    /// Players need an account.
    pub const REGISTERED_ONLY: u8 = 0x02;
    /// Fog of war.
    pub const FOG_OF_WAR: u8 = 0x04;
    /// Friendly fire.
    pub const FRIENDLY_FIRE: u8 = 0x08;
    /// A byte with the game mode follows.
    pub const MODE: u8 = 0x20;
    /// Scripts in Lua.
    pub const LUA: u8 = 0x40;
    /// Forced light.
    pub const FORCED_LIGHT: u8 = 0x80;
}

/// The message with name, map and counts, borrowed from its datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server<'a> {
    /// The [flags](flag).
    pub flags: u8,
    /// Name of the server.
    pub name: &'a [u8],
    /// Name of the map.
    pub map: &'a [u8],
    /// Players online, with bots.
    pub online: u8,
    /// Maximum number of players.
    pub max: u8,
    /// Game mode; 0 if the server leaves it out. `None` if the message ends before it.
    pub mode: Option<u8>,
    /// Number of bots. `None` as for the mode.
    pub bots: Option<u8>,
    /// Further flags: recoil, damage outside of the screen, downloads. `None` as for the mode.
    pub further_flags: Option<u8>,
}

/// A player.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Player<'a> {
    /// Number of the player.
    pub id: u8,
    /// Name of the player.
    pub name: &'a [u8],
    /// Team: 0 spectator, 1 terrorist, 2 counter-terrorist.
    pub team: u8,
    /// Score of the player.
    pub score: i32,
    /// Deaths of the player.
    pub deaths: i32,
}

/// The messages of one datagram, in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Name, map and counts.
    pub server: Option<Server<'a>>,
    /// List of players.
    pub players: Option<Vec<Player<'a>>>,
}

impl<'a> Reply<'a> {
    /// Returns whether bytes start like a reply.
    pub fn is_reply(bytes: &[u8]) -> bool {
        bytes != REQUEST && matches!(bytes, [_, _, QUERY, SERVER | PLAYERS, _, ..])
    }

    /// Parses a reply.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or of another protocol, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        r.u16_le("counter")?;
        let mut reply = Self::default();
        while let [QUERY, kind @ (SERVER | PLAYERS), ..] = r.rest() {
            r.raw(2, "message")?;
            match *kind {
                SERVER => {
                    let at = r.at();
                    let server = read_server(&mut r)?;
                    // Bytes of another service that repeats the start of the request.
                    if server.name.is_empty() && server.map.is_empty() {
                        return Err(Error::bad("name", at + 1, "a name or a map"));
                    }
                    reply.server = Some(server);
                }
                _ => reply.players = Some(read_players(&mut r)?),
            }
        }
        r.trailing(&TRAILING_BYTES);
        Ok(reply)
    }
}

fn read_server<'a>(r: &mut Reader<'a, '_>) -> Result<Server<'a>, Error> {
    let flags = r.u8("flags")?;
    let mut server = Server {
        flags,
        name: r.counted_text("name")?,
        map: r.counted_text("map")?,
        online: r.u8("players")?,
        max: r.u8("max players")?,
        ..Server::default()
    };
    if read_further(r, &mut server).is_err() {
        let at = r.at();
        r.notes().deviation(&SHORT_STATUS, at);
    }
    Ok(server)
}

/// Reads what follows the counts.
fn read_further<'a>(r: &mut Reader<'a, '_>, server: &mut Server<'a>) -> Result<(), Error> {
    server.mode = Some(match server.flags & flag::MODE {
        0 => 0,
        _ => r.u8("mode")?,
    });
    server.bots = Some(r.u8("bots")?);
    server.further_flags = Some(r.u8("further flags")?);
    Ok(())
}

fn read_players<'a>(r: &mut Reader<'a, '_>) -> Result<Vec<Player<'a>>, Error> {
    let count = r.u8("players")?;
    let mut players = Vec::new();
    for index in 0..count.into() {
        r.notes().group("players", index);
        players.push(Player {
            id: r.u8("id")?,
            name: r.counted_text("name")?,
            team: r.u8("team")?,
            score: r.i32_le("score")?,
            deaths: r.i32_le("deaths")?,
        });
    }
    r.notes().ungroup();
    Ok(players)
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let explained =
        |message, direction, error| Some(Explanation::certain(message, direction, error));
    if bytes == REQUEST && direction != Some(Direction::Reply) {
        let error = Reader::new(bytes, notes).constant(REQUEST, "request").err();
        return explained("status request", Direction::Request, error);
    }
    // Replies to other requests have another counter, but no known server sends them unasked.
    if Reply::is_reply(bytes) && direction != Some(Direction::Request) {
        let message = match bytes.get(3) {
            Some(&SERVER) => "status",
            _ => "players",
        };
        let error = Reply::read(bytes, notes).err();
        return explained(message, Direction::Reply, error);
    }
    None
}
