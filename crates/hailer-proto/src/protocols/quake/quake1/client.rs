//! The client: one request; after two timeouts, with the header of the other game
//! (spec/quake1.md#7).

use super::deviation::*;
use super::message::{Game, Line, Reply, Request, bit};
use crate::model::{Extra, Player, Status, Text};
use crate::protocol::{Ask, Cookie, Depth, Fault};
use crate::protocols::quake::players::Counts;
use crate::wire::charset;
use crate::wire::{Notes, Reader, hexadecimal};
use alloc::vec::Vec;

/// Everything except flags of accounts.
const BITS: i64 = bit::INFO | bit::PLAYERS | bit::SPECTATORS | bit::TEAMS | bit::BOTS;
/// Default port of HexenWorld.
const HEXENWORLD_PORT: u16 = 26_950;
/// Seconds of a minute.
const MINUTE_S: i64 = 60;

/// Returns the requests. The third is for the other game.
pub(super) fn requests(ask: &Ask, _: Cookie) -> Vec<Vec<u8>> {
    // Without the bit for players, old servers send them anyway.
    let bits = match ask.depth {
        Depth::Full => BITS,
        Depth::Ping | Depth::Basic => BITS & !bit::TEAMS,
    };
    let (game, other) = match ask.to.port {
        HEXENWORLD_PORT => (Game::HexenWorld, Game::QuakeWorld),
        _ => (Game::QuakeWorld, Game::HexenWorld),
    };
    let request = |game| {
        let mut out = Vec::new();
        Request { game, bits }.write(&mut out);
        out
    };
    [game, game, other].map(request).into()
}

/// Reads a reply.
pub(super) fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    let reply = Reply::read(r.whole(), r.notes())?;
    *status = convert(reply, r.notes());
    Ok(())
}

/// Converts a reply to a status (spec/quake1.md#8).
fn convert(reply: Reply<'_>, notes: &mut Notes) -> Status {
    let Reply {
        game,
        mut info,
        players,
    } = reply;
    let mut text = |keys: &[&str]| info.take_filled(keys).map(charset::decode);
    let mut status = Status {
        name: text(&["hostname"]).map(Text::unformatted),
        map: text(&["map"]),
        game: text(&["*gamedir"]),
        mode: text(&["mode"]),
        version: text(&["*version", "version"]),
        has_password: text(&["needpass"]).map(|value| value != "0"),
        ..Status::default()
    };
    status.players.max = info.take_number(&["maxclients"]);
    if game == Game::HexenWorld {
        status.extra.push(Extra::new("hexenworld", true));
    }
    let counts = Counts::take(&mut info, players.len(), &MISSING_PLAYERS, notes);
    status.players.online = Some(counts.online);
    let kinds = players.iter().filter_map(|player| player.is_bot);
    if kinds.clone().count() > 0 {
        status.players.bots = Some(kinds.filter(|is_bot| *is_bot).count() as i64);
    }
    status.rules = info.rules(charset::decode);
    if !counts.is_withheld {
        status
            .players
            .set_list(players.into_iter().map(player).collect());
    }
    status
}

fn player(line: Line<'_>) -> Player {
    let mut player = Player::named(Text::unformatted(charset::decode(line.name)));
    player.score = line.score;
    player.time_s = line
        .minutes
        .map(|minutes| minutes.saturating_mul(MINUTE_S) as f32);
    let ping = line.ping.map(i64::saturating_abs);
    player.latency_ms = ping.and_then(|ping| i32::try_from(ping).ok());
    player.team = line
        .team
        .filter(|team| !team.is_empty())
        .map(charset::decode);
    let mut add = |extra: Option<Extra>| player.extra.extend(extra);
    let number = |key, number: Option<i64>| number.map(|number| Extra::new(key, number));
    let text =
        |key, bytes: &[u8]| (!bytes.is_empty()).then(|| Extra::new(key, charset::decode(bytes)));
    add(number("id", line.id));
    let coded = (!charset::is_plain(line.name)).then(|| hexadecimal(line.name));
    add(coded.map(|name| Extra::new("name-bytes", name)));
    add(text("skin", line.skin));
    let [top, bottom] = line.colors;
    add(number("top-color", top));
    add(number("bottom-color", bottom));
    add(text("flag", line.flag.unwrap_or_default()));
    add(line.is_bot.map(|is_bot| Extra::new("bot", is_bot)));
    add(line.is_spectator.then(|| Extra::new("spectator", true)));
    player
}

#[cfg(test)]
mod tests {
    use super::super::PROTOCOL;
    use super::*;
    use crate::protocol::Destination;
    use crate::{Input, Protocol, Step};

    #[test]
    fn headers_of_both_games_take_turns() {
        let mut exchange = PROTOCOL.exchange(&Ask::default(), Cookie(4));
        let mut send = |input| {
            let mut out = Vec::new();
            assert_eq!(exchange.handle(input, &mut out), Step::Send);
            assert_eq!(exchange.stage(), 0);
            out
        };
        assert_eq!(send(Input::Start), b"\xFF\xFF\xFF\xFFstatus 151\n");
        assert_eq!(send(Input::Timeout), b"\xFF\xFF\xFF\xFFstatus 151\n");
        assert_eq!(send(Input::Timeout), b"\xFF\xFF\xFF\xFF\xFFstatus 151\n");
        assert_eq!(send(Input::Timeout), b"\xFF\xFF\xFF\xFFstatus 151\n");
        assert_eq!(exchange.handle(Input::GiveUp, &mut Vec::new()), Step::Wait);
        let ask = Ask {
            to: Destination {
                port: HEXENWORLD_PORT,
                ..Destination::default()
            },
            ..Ask::default()
        };
        let mut out = Vec::new();
        PROTOCOL
            .exchange(&ask, Cookie(4))
            .handle(Input::Start, &mut out);
        assert_eq!(out, b"\xFF\xFF\xFF\xFF\xFFstatus 151\n");
        // A late reply of either game counts.
        let reply = b"\xFF\xFF\xFF\xFF\xFFn\\hostname\\H\n\0";
        let step = exchange.handle(Input::Datagram(reply), &mut Vec::new());
        assert!(matches!(step, Step::Done(status) if status.extra("hexenworld").is_some()));
    }
}
