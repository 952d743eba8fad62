//! Bytes ⇄ messages. The only file that knows the layout (spec/mafia2mp.md#2 and #3).

use super::deviation::{CUT_PLAYERS, ODD_NUMBER, TRAILING_BYTES};
use crate::protocol::{Direction, Explanation};
use crate::wire::codepage;
use crate::wire::{Error, Notes, Reader};
use alloc::{format, vec::Vec};

/// The multiplayer mod, which shows in the magic. Requests and replies have the same magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mod {
    /// Mafia II Multiplayer.
    Multiplayer,
    /// Mafia II Online.
    Online,
}

impl Mod {
    const ALL: [Self; 2] = [Self::Multiplayer, Self::Online];

    /// Returns the first bytes of all messages. A request has no others.
    pub fn magic(self) -> &'static [u8] {
        match self {
            Self::Multiplayer => b"M2MP",
            Self::Online => b"M2Online",
        }
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let mut mods = Self::ALL.into_iter();
        mods.find(|each| bytes.starts_with(each.magic()))
    }
}

/// A reply, borrowed from its datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Name of the server.
    pub name: &'a [u8],
    /// Number of players online.
    pub online: Option<i64>,
    /// Maximum number of players.
    pub max: Option<i64>,
    /// Game mode, as the server names it.
    pub mode: &'a [u8],
    /// Whether players need a password.
    pub has_password: bool,
    /// Name of each player, and latency if the server sends it.
    pub players: Vec<(&'a [u8], Option<i64>)>,
}

impl<'a> Reply<'a> {
    /// Returns whether bytes start like a reply.
    pub fn is_reply(bytes: &[u8]) -> bool {
        Mod::of(bytes).is_some_and(|each| bytes.len() > each.magic().len())
    }

    /// Parses a reply.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated or of another protocol, with its offset.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let kind = Mod::of(bytes).unwrap_or(Mod::Multiplayer);
        let mut r = Reader::new(bytes, notes);
        r.constant(kind.magic(), "magic")?;
        let mut reply = Self {
            name: text(&mut r, "name")?,
            online: number(&mut r, "players")?,
            max: number(&mut r, "max players")?,
            mode: text(&mut r, "mode")?,
            has_password: r.u8("password")? != 0,
            ..Self::default()
        };
        while r.remaining() > 0 {
            let at = r.at();
            r.notes().group("players", reply.players.len());
            match player(&mut r, kind) {
                // An empty name ends the list.
                Ok((b"", _)) => break,
                Ok(player) => reply.players.push(player),
                Err(_) => {
                    r.notes().deviation(&CUT_PLAYERS, at);
                    r.notes().ungroup();
                    return Ok(reply);
                }
            }
        }
        r.notes().ungroup();
        let listed = reply.players.len() as i64;
        if reply.online.is_some_and(|online| listed < online) {
            let end = r.at();
            r.notes().deviation(&CUT_PLAYERS, end);
        }
        r.trailing(&TRAILING_BYTES);
        Ok(reply)
    }
}

fn player<'a>(r: &mut Reader<'a, '_>, kind: Mod) -> Result<(&'a [u8], Option<i64>), Error> {
    let name = text(r, "name")?;
    if name.is_empty() || kind == Mod::Multiplayer {
        return Ok((name, None));
    }
    Ok((name, number(r, "ping")?))
}

/// Reads a text after its length byte, which counts itself.
fn text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    let at = r.at();
    let [length] = r.array(field)?;
    let Some(length) = length.checked_sub(1) else {
        return Err(Error::bad(
            field,
            at,
            "a length from 1, which counts itself",
        ));
    };
    let text = r.take(length.into(), field)?;
    r.note(at, field, || format!("{:?}", codepage::decode(text)));
    Ok(text)
}

/// Reads a number as text.
fn number(r: &mut Reader<'_, '_>, field: &'static str) -> Result<Option<i64>, Error> {
    let at = r.at();
    let text = text(r, field)?;
    let number = core::str::from_utf8(text).ok();
    let number = number.and_then(|text| text.trim().parse().ok());
    if number.is_none() {
        r.notes().deviation(&ODD_NUMBER, at);
    }
    Ok(number)
}

/// Parses one datagram to collect its notes.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let kind = Mod::of(bytes)?;
    let (message, found, error) = if Reply::is_reply(bytes) {
        let error = Reply::read(bytes, notes).err();
        ("status", Direction::Reply, error)
    } else {
        let error = Reader::new(bytes, notes).constant(kind.magic(), "magic");
        ("status request", Direction::Request, error.err())
    };
    let is_possible = direction.is_none_or(|direction| direction == found);
    is_possible.then_some(Explanation::certain(message, found, error))
}
