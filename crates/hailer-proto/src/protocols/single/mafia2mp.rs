//! Mafia II Multiplayer and Mafia II Online: one request, one reply. UDP.
//!
//! ```text
//!   client         server
//!     "M2MP"    ─►
//!               ◄─  "M2MP" name, counts, mode, password, players
//! ```
//!
//! Request and reply start with the same bytes, and the client's address is not verified, so Hailer has
//! no responder (spec/mafia2mp.md#6).

use crate::model::{Player, Status, Text};
use crate::one_request::{Mark, Message, OneDatagram};
use crate::protocol::{Fault, Info};
use crate::wire::{Error, Reader, codepage, deviations};
use alloc::{format, vec::Vec};

deviations! {
    ODD_NUMBER "odd-number" "a text that should be a number is none; the field is left out";
    CUT_PLAYERS "cut-players" "the list of players ends early; whole entries are kept";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the list of players";
}

/// The protocol.
pub static PROTOCOL: OneDatagram = OneDatagram {
    info: &Info {
        id: "mafia2mp",
        title: "Mafia II Multiplayer",
        port: 27_017,
        declares_charset: false,
        deviations: ALL,
        ..Info::DATAGRAM
    },
    messages: &[
        Message::constant("status request", "magic", MULTIPLAYER).certain(),
        Message::constant("status request", "magic", ONLINE).certain(),
        Message::reply("status", Mark::Start(MULTIPLAYER)).certain(),
        Message::reply("status", Mark::Start(ONLINE)).certain(),
    ],
    // The mod whose default port it is comes first.
    requests: Some(|ask, _| match ask.to.port {
        ONLINE_PORT => [ONLINE.into(), MULTIPLAYER.into()].into(),
        _ => [MULTIPLAYER.into(), ONLINE.into()].into(),
    }),
    read,
    ..OneDatagram::PLAIN
};

/// First bytes of all messages of each mod. A request has no others.
const MULTIPLAYER: &[u8] = b"M2MP";
const ONLINE: &[u8] = b"M2Online";
/// Default query port of Mafia II Online.
const ONLINE_PORT: u16 = 27_016;

/// Reads a reply (spec/mafia2mp.md#3 and #5).
fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    let is_online = r.whole().starts_with(ONLINE);
    r.constant(if is_online { ONLINE } else { MULTIPLAYER }, "magic")?;
    status.name = Text::filled_windows(text(r, "name")?);
    status.players.online = number(r, "players")?;
    status.players.max = number(r, "max players")?;
    status.mode = codepage::filled(text(r, "mode")?);
    status.has_password = Some(r.u8("password")? != 0);
    let mut players = Vec::new();
    let mut is_cut = false;
    while r.remaining() > 0 {
        let at = r.at();
        r.notes().group("players", players.len());
        match read_player(r, is_online) {
            Ok(Some(player)) => players.push(player),
            // An empty name ends the list.
            Ok(None) => break,
            Err(_) => {
                r.notes().deviation(&CUT_PLAYERS, at);
                is_cut = true;
                break;
            }
        }
    }
    r.notes().ungroup();
    let listed = players.len() as i64;
    let online = status.players.online;
    status.players.set_list(players);
    if !is_cut {
        if online.is_some_and(|online| listed < online) {
            let end = r.at();
            r.notes().deviation(&CUT_PLAYERS, end);
        }
        r.trailing(&TRAILING_BYTES);
    }
    Ok(())
}

/// Reads a player, whose latency only Mafia II Online has.
fn read_player(r: &mut Reader<'_, '_>, is_online: bool) -> Result<Option<Player>, Error> {
    let name = text(r, "name")?;
    if name.is_empty() {
        return Ok(None);
    }
    let mut player = Player::named(Text::windows(name));
    if is_online {
        let ping = number(r, "ping")?;
        player.latency_ms = ping.and_then(|ping| i32::try_from(ping).ok());
    }
    Ok(Some(player))
}

/// Reads a text after its length byte, which counts itself.
fn text<'a>(r: &mut Reader<'a, '_>, field: &'static str) -> Result<&'a [u8], Error> {
    let at = r.at();
    let [length] = r.array(field)?;
    let Some(length) = length.checked_sub(1) else {
        let expected = "a length from 1, which counts itself";
        return Err(Error::bad(field, at, expected));
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
