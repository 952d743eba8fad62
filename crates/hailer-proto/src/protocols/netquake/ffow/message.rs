//! Bytes ⇄ messages. The only file that knows the layout (spec/ffow.md#2 to #4).

use super::deviation::{CUT_LIST, SHORT_INFO, TRAILING_BYTES};
use crate::protocol::{Direction, Explanation};
use crate::wire::{Error, Notes, Reader};
use alloc::vec::Vec;

/// Starts every message.
const HEADER: &[u8] = &[0xFF; 4];
/// The request for info, after the header.
const INFO_REQUEST: &[u8] = b"FLSQ";

/// Message types, the fifth byte.
mod kind {
    pub(super) const CHALLENGE_REQUEST: u8 = b'W';
    pub(super) const PLAYERS_REQUEST: u8 = b'U';
    pub(super) const RULES_REQUEST: u8 = b'V';
    pub(super) const CHALLENGE: u8 = b'A';
    pub(super) const INFO: u8 = b'I';
    pub(super) const PLAYERS: u8 = b'D';
    pub(super) const RULES: u8 = b'E';
}

/// Four bytes of the server that requests for lists must contain.
pub type Challenge = [u8; 4];

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Requests name, map and counts.
    Info,
    /// Requests a challenge.
    Challenge,
    /// Requests the list of players.
    Players(Challenge),
    /// Requests the rules.
    Rules(Challenge),
}

impl Request {
    /// Appends the request to `out`.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend(HEADER);
        match self {
            Self::Info => out.extend(INFO_REQUEST),
            Self::Challenge => out.push(kind::CHALLENGE_REQUEST),
            Self::Players(challenge) => {
                out.push(kind::PLAYERS_REQUEST);
                out.extend(challenge);
            }
            Self::Rules(challenge) => {
                out.push(kind::RULES_REQUEST);
                out.extend(challenge);
            }
        }
    }
}

/// A reply, borrowed from its datagram.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply<'a> {
    /// Name, map and counts.
    Info(Info<'a>),
    /// A challenge.
    Challenge(Challenge),
    /// Players.
    Players(Vec<Player<'a>>),
    /// Names and values of the rules.
    Rules(Vec<(&'a [u8], &'a [u8])>),
}

/// Name, map and counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info<'a> {
    /// Version of the protocol.
    pub protocol: u8,
    /// Name of the server.
    pub name: &'a [u8],
    /// Name of the map.
    pub map: &'a [u8],
    /// Folder of the mod.
    pub mods: &'a [u8],
    /// Game mode, as the server names it.
    pub mode: &'a [u8],
    /// Name of the game.
    pub game: &'a [u8],
    /// Version of the game.
    pub version: &'a [u8],
    /// Port of the game.
    pub port: u16,
    /// Number of players online.
    pub online: u8,
    /// Maximum number of players.
    pub max: u8,
    /// Fields after the counts.
    pub further: InfoDetails,
}

/// Fields of an info reply after the counts. `None` if the reply ends before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InfoDetails {
    /// Type of the server: a letter.
    pub server_type: Option<u8>,
    /// Operating system: a letter.
    pub system: Option<u8>,
    /// Whether players need a password.
    pub has_password: Option<bool>,
    /// Whether the server uses anti-cheat software.
    pub has_anti_cheat: Option<bool>,
    /// Average frames per second.
    pub fps: Option<u8>,
    /// Number of the current round.
    pub round: Option<u8>,
    /// Number of rounds.
    pub rounds: Option<u8>,
    /// Rest of the round in seconds.
    pub time_left_s: Option<u16>,
}

/// A player.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Player<'a> {
    /// Name of the player.
    pub name: &'a [u8],
    /// Score of the player.
    pub score: i32,
    /// Seconds since the player joined.
    pub seconds: f32,
}

impl<'a> Reply<'a> {
    /// Returns whether bytes start like a reply.
    pub fn is_reply(bytes: &[u8]) -> bool {
        let rest = bytes.strip_prefix(HEADER);
        let kind = rest.and_then(|rest| rest.first());
        kind.is_some_and(|kind| {
            matches!(
                *kind,
                kind::CHALLENGE | kind::INFO | kind::PLAYERS | kind::RULES
            )
        })
    }

    /// Parses a reply.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or of another protocol, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        r.constant(HEADER, "header")?;
        let at = r.at();
        let reply = match r.u8("type")? {
            kind::CHALLENGE => {
                let at = r.at();
                let challenge = r.array("challenge")?;
                r.note(at, "challenge", || crate::wire::hexadecimal(&challenge));
                Self::Challenge(challenge)
            }
            kind::INFO => Self::Info(read_info(&mut r)?),
            kind::PLAYERS => Self::Players(read_players(&mut r)?),
            kind::RULES => Self::Rules(read_rules(&mut r)?),
            _ => return Err(Error::bad("type", at, "41, 44, 45 or 49")),
        };
        r.trailing(&TRAILING_BYTES);
        Ok(reply)
    }
}

fn read_info<'a>(r: &mut Reader<'a, '_>) -> Result<Info<'a>, Error> {
    let mut info = Info {
        protocol: r.u8("protocol")?,
        name: r.text_to_nul("name")?,
        map: r.text_to_nul("map")?,
        mods: r.text_to_nul("mod")?,
        mode: r.text_to_nul("mode")?,
        game: r.text_to_nul("game")?,
        version: r.text_to_nul("version")?,
        port: r.u16_be("port")?,
        online: r.u8("players")?,
        max: r.u8("max players")?,
        further: InfoDetails::default(),
    };
    if info.further.read(r).is_err() {
        let at = r.at();
        r.notes().deviation(&SHORT_INFO, at);
        // Half of the last field.
        r.skip_rest();
    }
    Ok(info)
}

impl InfoDetails {
    fn read(&mut self, r: &mut Reader<'_, '_>) -> Result<(), Error> {
        self.server_type = Some(r.u8("server type")?);
        self.system = Some(r.u8("system")?);
        self.has_password = Some(r.u8("password")? != 0);
        self.has_anti_cheat = Some(r.u8("anti-cheat")? != 0);
        self.fps = Some(r.u8("frames per second")?);
        self.round = Some(r.u8("round")?);
        self.rounds = Some(r.u8("rounds")?);
        self.time_left_s = Some(r.u16_be("time left")?);
        Ok(())
    }
}

fn read_players<'a>(r: &mut Reader<'a, '_>) -> Result<Vec<Player<'a>>, Error> {
    let count = r.u8("count")?;
    let mut players = Vec::new();
    for index in 0..count.into() {
        r.notes().group("players", index);
        let at = r.at();
        match read_player(r) {
            Ok(player) => players.push(player),
            Err(_) => {
                cut_list(r, at);
                break;
            }
        }
    }
    r.notes().ungroup();
    Ok(players)
}

/// Takes the rest of a list whose entry at this offset is cut.
fn cut_list(r: &mut Reader<'_, '_>, at: usize) {
    r.notes().deviation(&CUT_LIST, at);
    r.skip_rest();
}

fn read_player<'a>(r: &mut Reader<'a, '_>) -> Result<Player<'a>, Error> {
    r.u8("number")?;
    Ok(Player {
        name: r.text_to_nul("name")?,
        score: r.i32_be("score")?,
        seconds: r.f32_be("seconds")?,
    })
}

/// A key and its value.
type Pair<'a> = (&'a [u8], &'a [u8]);

fn read_rules<'a>(r: &mut Reader<'a, '_>) -> Result<Vec<Pair<'a>>, Error> {
    let count = r.u16_be("count")?;
    let mut rules = Vec::new();
    for index in 0..count.into() {
        r.notes().group("rules", index);
        let at = r.at();
        match (r.text_to_nul("name"), r.text_to_nul("value")) {
            (Ok(name), Ok(value)) => rules.push((name, value)),
            _ => {
                cut_list(r, at);
                break;
            }
        }
    }
    r.notes().ungroup();
    Ok(rules)
}

/// Parses one datagram to collect its notes. Only the request for info differs from A2S, so that
/// the direction or the layout of other messages must be known.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let rest = bytes.strip_prefix(HEADER)?;
    let (message, found) = match *rest.first()? {
        _ if rest == INFO_REQUEST => ("info request", Direction::Request),
        kind::CHALLENGE_REQUEST if rest.len() == 1 => ("challenge request", Direction::Request),
        kind::PLAYERS_REQUEST if rest.len() == 5 => ("players request", Direction::Request),
        kind::RULES_REQUEST if rest.len() == 5 => ("rules request", Direction::Request),
        kind::CHALLENGE => ("challenge", Direction::Reply),
        kind::INFO => ("info", Direction::Reply),
        kind::PLAYERS => ("players", Direction::Reply),
        kind::RULES => ("rules", Direction::Reply),
        _ => return None,
    };
    if direction.is_some_and(|direction| direction != found) {
        return None;
    }
    let error = match found {
        Direction::Reply => Reply::read(bytes, notes).err(),
        Direction::Request => explain_request(bytes, notes).err(),
    };
    Some(Explanation {
        message,
        direction: found,
        is_certain: rest == INFO_REQUEST,
        error,
    })
}

fn explain_request(bytes: &[u8], notes: &mut Notes) -> Result<(), Error> {
    let mut r = Reader::new(bytes, notes);
    r.constant(HEADER, "header")?;
    if r.rest() == INFO_REQUEST {
        return r.constant(INFO_REQUEST, "request");
    }
    r.u8("type")?;
    let length = r.remaining();
    if length > 0 {
        r.raw(length, "challenge")?;
    }
    Ok(())
}
