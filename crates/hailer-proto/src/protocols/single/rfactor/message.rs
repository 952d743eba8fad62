//! Bytes ⇄ messages. The only file that knows the layout (spec/rfactor.md#2 and #3).

use super::deviation::{NO_VEHICLES, TRAILING_BYTES};
use crate::protocol::{Direction, Explanation};
use crate::wire::codepage;
use crate::wire::{Error, Notes, Reader, first_nul};
use alloc::format;

/// The request.
pub const REQUEST: &[u8] = b"rF_S";
/// Length of a reply up to the list of vehicles, in bytes.
pub const FIXED: usize = 224;
/// Special flag: players need a password.
const PASSWORD: u8 = 2;
/// Special flag: a race cast.
const RACE_CAST: u8 = 4;
/// Special flag: setups of vehicles are fixed.
const FIXED_SETUPS: u8 = 16;
/// Units of one lap.
const LAP: u16 = 16;

/// A reply, borrowed from its datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Version of the game, as a number.
    pub version: u16,
    /// Port of the game.
    pub game_port: u16,
    /// Name of the game, with the mod.
    pub game: &'a [u8],
    /// Name of the server.
    pub name: &'a [u8],
    /// Name of the map.
    pub map: &'a [u8],
    /// Message of the day.
    pub motd: &'a [u8],
    /// Driving aids, one bit each.
    pub aids: u16,
    /// Number of players online.
    pub online: u8,
    /// Maximum number of players.
    pub max: u8,
    /// Number of bots, if the server reports it.
    pub bots: u8,
    /// Special flags.
    special: u8,
    /// Damage of cars, in percent of the usual.
    pub damage: u8,
    /// Time of the session, as sent.
    pub time: u16,
    /// Laps, in units.
    laps: u16,
    /// Vehicles, if the reply has them.
    pub vehicles: &'a [u8],
}

impl<'a> Reply<'a> {
    /// Returns whether players need a password.
    pub fn has_password(&self) -> bool {
        self.special & PASSWORD != 0
    }

    /// Returns whether the server runs a race cast.
    pub fn has_race_cast(&self) -> bool {
        self.special & RACE_CAST != 0
    }

    /// Returns whether setups of vehicles are fixed.
    pub fn has_fixed_setups(&self) -> bool {
        self.special & FIXED_SETUPS != 0
    }

    /// Returns the number of laps.
    pub fn laps(&self) -> f64 {
        f64::from(self.laps) / f64::from(LAP)
    }

    /// Parses a reply.
    ///
    /// # Errors
    ///
    /// Names the field that is truncated, with its offset, or a product that is no text.
    pub fn read(bytes: &'a [u8], notes: &mut Notes) -> Result<Self, Error> {
        let mut r = Reader::new(bytes, notes);
        let product = fixed_text(&mut r, 8, "product")?;
        if !product.iter().all(|byte| (b' '..=b'~').contains(byte)) {
            return Err(Error::bad("product", 0, "a text in ASCII"));
        }
        r.u8("full update")?;
        r.u16_le("region")?;
        r.raw(4, "address")?;
        r.u16_le("size")?;
        let mut reply = Self {
            version: r.u16_le("version")?,
            ..Self::default()
        };
        r.u16_le("race cast version")?;
        reply.game_port = r.u16_le("game port")?;
        r.u16_le("query port")?;
        let texts = r.at();
        reply.game = fixed_text(&mut r, 20, "game")?;
        reply.name = fixed_text(&mut r, 28, "name")?;
        reply.map = fixed_text(&mut r, 32, "map")?;
        reply.motd = fixed_text(&mut r, 96, "motd")?;
        // Nothing else tells a reply from text, such as that of the character generator, or zeros.
        let lengths = [reply.game, reply.name, reply.map, reply.motd].map(<[u8]>::len);
        if lengths == [20, 28, 32, 96] || lengths == [0; 4] {
            return Err(Error::bad("texts", texts, "texts that end with a NUL"));
        }
        reply.aids = r.u16_le("aids")?;
        r.u16_le("ping")?;
        r.u8("flags")?;
        r.u8("rate")?;
        reply.online = r.u8("players")?;
        reply.max = r.u8("max players")?;
        reply.bots = r.u8("bots")?;
        reply.special = r.u8("special flags")?;
        reply.damage = r.u8("damage")?;
        r.u16_le("rules")?;
        r.raw(3, "credits")?;
        reply.time = r.u16_le("time")?;
        reply.laps = r.u16_le("laps")?;
        r.raw(3, "unknown")?;
        let at = r.at();
        match r.text_to_nul("vehicles") {
            Ok(vehicles) => {
                reply.vehicles = vehicles;
                r.trailing(&TRAILING_BYTES);
            }
            Err(_) => r.notes().deviation(&NO_VEHICLES, at),
        }
        Ok(reply)
    }
}

/// Reads a text in a field of fixed length. It ends at the first NUL.
fn fixed_text<'a>(
    r: &mut Reader<'a, '_>,
    length: usize,
    field: &'static str,
) -> Result<&'a [u8], Error> {
    let at = r.at();
    let bytes = r.take(length, field)?;
    let end = first_nul(bytes).unwrap_or(length);
    let text = bytes.get(..end).unwrap_or_default();
    r.note(at, field, || format!("{:?}", codepage::decode(text)));
    Ok(text)
}

/// Parses one datagram to collect its notes. Replies have no mark, so their direction must be known.
pub(super) fn explain(
    bytes: &[u8],
    direction: Option<Direction>,
    notes: &mut Notes,
) -> Option<Explanation> {
    let explained = |message, direction, is_certain, error| {
        Some(Explanation {
            message,
            direction,
            is_certain,
            error,
        })
    };
    match direction {
        Some(Direction::Reply) => {
            let error = Reply::read(bytes, notes).err();
            explained("status", Direction::Reply, false, error)
        }
        _ if bytes == REQUEST => {
            let error = Reader::new(bytes, notes).constant(REQUEST, "request").err();
            explained("status request", Direction::Request, true, error)
        }
        _ => None,
    }
}
