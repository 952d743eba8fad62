//! Bytes ⇄ messages. The only file that knows the layout (spec/netquake.md#2 to #4).

use super::deviation::{TRAILING_BYTES, WRONG_LENGTH};
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader, counted};
use alloc::vec::Vec;

/// Starts every message outside of a game.
const CONTROL: &[u8] = &[0x80, 0];
/// Control bytes, length and operation, in bytes.
const HEADER: usize = 5;

/// Operations: a reply has the highest bit.
mod operation {
    pub(super) const SERVER_REQUEST: u8 = 0x02;
    pub(super) const PLAYER_REQUEST: u8 = 0x03;
    pub(super) const RULE_REQUEST: u8 = 0x04;
    pub(super) const SERVER: u8 = 0x83;
    pub(super) const PLAYER: u8 = 0x84;
    pub(super) const RULE: u8 = 0x85;
}

/// The game, which a request for the server names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Game {
    /// Quake.
    Quake,
    /// Hexen II.
    Hexen2,
}

impl Game {
    /// Returns the name and the version of the protocol.
    fn fields(self) -> (&'static [u8], u8) {
        match self {
            Self::Quake => (b"QUAKE\0", 3),
            Self::Hexen2 => (b"HEXENII\0", 4),
        }
    }
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Requests name, map and counts.
    Server(Game),
    /// Requests the player with this number.
    Player(u8),
    /// Requests the rule after the one with this name; the first one if the name is empty.
    Rule(&'a [u8]),
}

impl Request<'_> {
    /// Appends the request to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(CONTROL);
        out.extend([0; 2]);
        match self {
            Self::Server(game) => {
                let (name, version) = game.fields();
                out.push(operation::SERVER_REQUEST);
                out.extend(name);
                out.push(version);
            }
            Self::Player(index) => out.extend([operation::PLAYER_REQUEST, index]),
            Self::Rule(previous) => {
                out.push(operation::RULE_REQUEST);
                out.extend(previous);
                out.push(0);
            }
        }
        let length = ((out.len() - start) as u16).to_be_bytes();
        if let Some(field) = out.get_mut(start + 2..start + 4) {
            field.copy_from_slice(&length);
        }
    }
}

/// A reply, borrowed from its datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Name, map and counts.
    Server(Server<'a>),
    /// A player.
    Player(Player<'a>),
    /// Name and value of a rule; `None` after the last one.
    Rule(Option<(&'a [u8], &'a [u8])>),
}

/// Name, map and counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server<'a> {
    /// Address of the server, as it sees itself.
    pub address: &'a [u8],
    /// Name of the server.
    pub name: &'a [u8],
    /// Name of the map.
    pub map: &'a [u8],
    /// Number of players online.
    pub online: u8,
    /// Maximum number of players.
    pub max: u8,
    /// Version of the protocol.
    pub version: u8,
}

/// A player.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Player<'a> {
    /// Number of the player.
    pub index: u8,
    /// Name in Quake's character set.
    pub name: &'a [u8],
    /// Colors: trousers in the low four bits, shirt in the next four.
    pub colors: i32,
    /// Score of the player.
    pub frags: i32,
    /// Seconds since the player joined.
    pub seconds: i32,
    /// Address, or a word such as `private` or `botclient`.
    pub address: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Returns whether bytes start like a reply.
    pub fn is_reply(bytes: &[u8]) -> bool {
        let operation = bytes.get(HEADER - 1);
        let is_known = matches!(
            operation,
            Some(&(operation::SERVER | operation::PLAYER | operation::RULE))
        );
        bytes.starts_with(CONTROL) && is_known
    }

    /// Parses a reply.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or of another protocol, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        let reply = match header(&mut r)? {
            operation::SERVER => Self::Server(Server {
                address: r.text_to_nul("address")?,
                name: r.text_to_nul("name")?,
                map: r.text_to_nul("map")?,
                online: r.u8("players")?,
                max: r.u8("max players")?,
                version: r.u8("version")?,
            }),
            operation::PLAYER => Self::Player(Player {
                index: r.u8("number")?,
                name: r.text_to_nul("name")?,
                colors: r.i32_le("colors")?,
                frags: r.i32_le("frags")?,
                seconds: r.i32_le("seconds")?,
                address: read_address(&mut r)?,
            }),
            operation::RULE if r.remaining() == 0 => Self::Rule(None),
            operation::RULE => {
                let name = r.text_to_nul("rule")?;
                Self::Rule(Some((name, r.text_to_nul("value")?)))
            }
            _ => return Err(Error::bad("operation", HEADER - 1, "83, 84 or 85")),
        };
        r.trailing(&TRAILING_BYTES);
        Ok(reply)
    }
}

/// Reads the address of a player, and notes only its length: it is personal.
fn read_address<'a>(r: &mut Reader<'a, '_>) -> Result<&'a [u8], Error> {
    let length = crate::wire::first_nul(r.rest()).unwrap_or(r.remaining());
    let at = r.at();
    let address = r.take(length, "address")?;
    let [_] = r.array("address")?;
    r.note(at, "address", || counted(length, "byte") + ", not shown");
    r.notes().secret();
    Ok(address)
}

/// Reads the header and returns the operation.
fn header(r: &mut Reader<'_, '_>) -> Result<u8, Error> {
    r.constant(CONTROL, "control")?;
    let at = r.at();
    let length = r.u16_be("length")?;
    if usize::from(length) != r.whole().len() {
        r.notes().deviation(&WRONG_LENGTH, at);
    }
    r.u8("operation")
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    if !bytes.starts_with(CONTROL) {
        return None;
    }
    let (message, found) = match *bytes.get(HEADER - 1)? {
        operation::SERVER_REQUEST => ("server request", Direction::Request),
        operation::PLAYER_REQUEST => ("player request", Direction::Request),
        operation::RULE_REQUEST => ("rule request", Direction::Request),
        operation::SERVER => ("server", Direction::Reply),
        operation::PLAYER => ("player", Direction::Reply),
        operation::RULE => ("rule", Direction::Reply),
        _ => return None,
    };
    if direction.is_some_and(|direction| direction != found) {
        return None;
    }
    let error = match found {
        Direction::Reply => Reply::read(bytes, notes).err(),
        Direction::Request => explain_request(bytes, notes).err(),
    };
    Some(Explanation::guess(message, found, error))
}

fn explain_request(bytes: &[u8], notes: &mut Notes) -> Result<(), Error> {
    let mut r = Reader::new(bytes, notes);
    match header(&mut r)? {
        operation::SERVER_REQUEST => {
            r.text_to_nul("game")?;
            r.u8("version")?;
        }
        operation::PLAYER_REQUEST => {
            r.u8("number")?;
        }
        _ => {
            r.text_to_nul("previous rule")?;
        }
    }
    r.trailing(&TRAILING_BYTES);
    Ok(())
}
