//! The client: one request; after two timeouts, in the other form (spec/doom3.md#7).

use super::deviation::*;
use super::message::{CHALLENGE, Game, Player as Entry, Reply, Request};
use crate::model::{Carets, Extra, Player, Rule, Status, Text, Value};
use crate::protocol::{Ask, Cookie, Depth, Fault};
use crate::protocols::quake::infostring::decode;
use crate::wire::{Notes, Reader, whole_number};
use alloc::{format, vec::Vec};
use compact_str::CompactString;

/// Returned by Quake Wars in place of the second challenge of a request that has none.
const NO_CHALLENGE: [u8; CHALLENGE] = [0xFF; CHALLENGE];
/// Major number of the versions of Doom 3.
const DOOM3_MAJOR: u32 = 1;
/// Major number of the versions of Quake 4.
const QUAKE4_MAJOR: u32 = 2;
/// Default port of Enemy Territory: Quake Wars.
const QUAKE_WARS_PORT: u16 = 27_733;

/// Returns the requests. The third is in the other form.
pub(super) fn requests(ask: &Ask, cookie: Cookie) -> Vec<Vec<u8>> {
    let challenge = challenge(cookie);
    let is_extended = ask.to.port == QUAKE_WARS_PORT && ask.depth == Depth::Full;
    let request = |is_extended| {
        let mut out = Vec::new();
        let challenge = &challenge;
        Request {
            is_extended,
            challenge,
        }
        .write(&mut out);
        out
    };
    [is_extended, is_extended, !is_extended].map(request).into()
}

/// Returns the challenge of a query. It has letters, so that no part of it looks like a version.
fn challenge(cookie: Cookie) -> [u8; 2 * CHALLENGE] {
    cookie.derive(0).to_le_bytes().map(|byte| b'a' + byte % 26)
}

/// Returns whether a reply has the challenge of the request, or the first half of it.
pub(super) fn is_answer(request: &[u8], reply: &[u8], notes: &mut Notes) -> bool {
    let sent = Request::read(request, &mut Notes::discarding());
    let sent = sent.map_or(&b""[..], |request| request.challenge);
    let Some(returned) = Reply::challenge_of(reply) else {
        return false;
    };
    let (first, second) = returned.split_at(CHALLENGE.min(returned.len()));
    if second == NO_CHALLENGE && sent.starts_with(first) {
        notes.deviation(&HALF_CHALLENGE, 0);
        return true;
    }
    sent.starts_with(returned)
}

/// Reads a reply.
pub(super) fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    let reply = Reply::read(r.whole(), r.notes())?;
    *status = convert(&reply, r.notes());
    Ok(())
}

/// Keys of the members of a status, by preference.
const NAME: &[&str] = &["si_name"];
const MAP: &[&str] = &["si_map"];
const MAX: &[&str] = &["si_maxPlayers"];
const MODE: &[&str] = &["si_gameType"];
const GAME: &[&str] = &["gamename"];
const VERSION: &[&str] = &["si_version"];
const PASSWORD: &[&str] = &["si_usePass", "si_needPass"];

/// Converts a reply to a status (spec/doom3.md#8).
fn convert(reply: &Reply<'_>, notes: &mut Notes) -> Status {
    let mut taken = Vec::new();
    let mut take_bytes = |keys: &[&'static str]| {
        let mut filled = keys.iter().filter_map(|key| {
            let value = reply.value(key)?;
            (!value.is_empty()).then_some((*key, value))
        });
        let (key, value) = filled.next()?;
        taken.push(key);
        Some(value)
    };
    let carets = match reply.game {
        Game::Quake4 => Carets::Quake4,
        Game::Doom3 | Game::QuakeWars => Carets::Visible,
    };
    let map = |map: CompactString| match reply.game {
        Game::QuakeWars => {
            let name = map.strip_prefix("maps/").unwrap_or(&map);
            name.strip_suffix(".entities").unwrap_or(name).into()
        }
        Game::Doom3 | Game::Quake4 => map,
    };
    let name = take_bytes(NAME);
    let mut take = |keys| take_bytes(keys).map(decode);
    let mut status = Status {
        name: name.map(|name| Text::western_carets(name, carets)),
        map: take(MAP).map(map),
        mode: take(MODE),
        game: take(GAME),
        version: take(VERSION),
        has_password: take(PASSWORD).map(|value| value != "0"),
        ..Status::default()
    };
    for key in MAX.iter().chain(&["clients", "listed"]) {
        let value = reply.value(key).and_then(whole_number);
        taken.extend(value.map(|_| *key));
        if *key == "si_maxPlayers" {
            status.players.max = value;
        }
    }
    let rest = reply.pairs.iter();
    let is_taken = |key: &[u8]| {
        let mut taken = taken.iter();
        taken.any(|taken| taken.as_bytes().eq_ignore_ascii_case(key))
    };
    let rest = rest.filter(|(key, _)| !is_taken(key));
    status.rules = rest
        .map(|(key, value)| Rule {
            key: decode(key),
            value: decode(value),
        })
        .collect();
    status.extra = extras(reply);

    let Some(entries) = &reply.players else {
        status.players.online = reply.value("clients").and_then(whole_number);
        return status;
    };
    let count = entries.len() as i64;
    let clients = reply.value("clients").and_then(whole_number);
    let listed = reply.value("listed").and_then(whole_number);
    let online = clients.unwrap_or(count).max(count);
    if listed.or(clients).is_some_and(|expected| count < expected) {
        notes.deviation(&MISSING_PLAYERS, 0);
    }
    status.players.online = Some(online);
    if count == online {
        let mut bots = entries.iter().map(|entry| is_bot(entry, reply));
        status.players.bots = bots.try_fold(0, |count, is_bot| Some(count + i64::from(is_bot?)));
    }
    let is_withheld = listed == Some(0) && count == 0 && online > 0;
    if !is_withheld {
        let players = entries.iter().map(|entry| player(entry, reply, carets));
        status.players.set_list(players.collect());
    }
    status
}

fn extras(reply: &Reply<'_>) -> Vec<Extra> {
    let version = format!("{}.{}", reply.version >> 16, reply.version & 0xFFFF);
    let mut extra = Vec::from([Extra::new("protocol-version", version)]);
    let number = |key, number: Option<u32>| number.map(|number| Extra::new(key, i64::from(number)));
    extra.extend(reply.is_ranked.map(|ranked| Extra::new("ranked", ranked)));
    // All bits are set if the match has no limit.
    let time_left = reply.time_left_ms.filter(|time| *time != u32::MAX);
    extra.extend(number("time-left-ms", time_left));
    extra.extend(number("state", reply.state.map(u32::from)));
    let [viewers, max_viewers] = reply.viewers.map_or([None; 2], |viewers| viewers.map(Some));
    extra.extend(number("viewers", viewers));
    extra.extend(number("max-viewers", max_viewers));
    extra
}

/// Returns whether a player is a bot, from the flag of Quake Wars or the ping of Doom 3 and Quake 4
/// (spec/doom3.md#4). `None` if the game reveals nothing.
fn is_bot(entry: &Entry<'_>, reply: &Reply<'_>) -> Option<bool> {
    let major = reply.version >> 16;
    let is_known = reply.game != Game::QuakeWars && matches!(major, DOOM3_MAJOR | QUAKE4_MAJOR);
    entry.is_bot.or_else(|| is_known.then_some(entry.ping == 0))
}

fn player(entry: &Entry<'_>, reply: &Reply<'_>, carets: Carets) -> Player {
    let mut player = Player::named(Text::western_carets(entry.name, carets));
    player.latency_ms = Some(i32::from(entry.ping));
    let mut add = |extra: Option<Extra>| player.extra.extend(extra);
    add(Some(Extra::new("id", i64::from(entry.id))));
    add(entry.rate.map(|rate| Extra::new("rate", i64::from(rate))));
    add((!entry.clan.is_empty()).then(|| Extra::new("clan", decode(entry.clan))));
    add(is_bot(entry, reply).map(|is_bot| Extra::new("bot", is_bot)));
    if let Some(statistics) = entry.statistics {
        let experience = Value::Float(f64::from(statistics.experience));
        add(Some(Extra::new("experience", experience)));
        add(Some(Extra::new("kills", i64::from(statistics.kills))));
        add(Some(Extra::new("deaths", i64::from(statistics.deaths))));
        player.team = (!statistics.team.is_empty()).then(|| decode(statistics.team));
    }
    player
}

#[cfg(test)]
mod tests {
    use super::super::{Doom3Config, Doom3Responder, PROTOCOL};
    use super::*;
    use crate::protocol::Destination;
    use crate::{Epoch, Input, Options, Protocol, Responder, Step};
    use alloc::vec;

    fn trip(status: &Status, config: &Doom3Config) -> Step {
        let responder = Doom3Responder::new(status, config);
        let mut exchange = PROTOCOL.exchange(&Ask::default(), Cookie(4));
        let mut request = Vec::new();
        let mut reply = Vec::new();
        exchange.handle(Input::Start, &mut request);
        let from = "192.0.2.7:50000".parse().unwrap();
        responder.answer(from, Epoch(1), &request, &mut reply);
        exchange.handle(Input::Datagram(&reply), &mut Vec::new())
    }

    #[test]
    fn replies_with_another_challenge_are_dropped() {
        let options = Options::default().with("game", "quake-wars");
        let config = Doom3Config::read(&options).unwrap();
        let responder = Doom3Responder::new(&Status::default(), &config);
        let mut exchange = PROTOCOL.exchange(&Ask::default(), Cookie(4));
        let mut request = Vec::new();
        let mut reply = Vec::new();
        exchange.handle(Input::Start, &mut request);
        let from = "192.0.2.7:50000".parse().unwrap();
        responder.answer(from, Epoch(1), &request, &mut reply);
        // After the header and the command.
        let start = 2 + b"infoResponse\0".len();
        assert_eq!(reply[start..start + 8], challenge(Cookie(4)));
        let mut met = |first: u8, second: [u8; 4]| {
            let mut edited = reply.clone();
            edited[start] = first;
            edited[start + 4..start + 8].copy_from_slice(&second);
            match exchange.handle(Input::Datagram(&edited), &mut Vec::new()) {
                Step::Done(status) => Some(
                    status
                        .deviations
                        .iter()
                        .map(|met| met.name)
                        .collect::<Vec<_>>(),
                ),
                step => {
                    assert_eq!(step, Step::Wait);
                    None
                }
            }
        };
        let first = reply[start];
        let second: [u8; 4] = reply[start + 4..start + 8].try_into().unwrap();
        assert_eq!(met(first, second), Some(vec![]));
        assert_eq!(met(first, NO_CHALLENGE), Some(vec!["half-challenge"]));
        assert_eq!(met(first, [0xFF, 0xFF, 0xFF, 0xFE]), None);
        assert_eq!(met(first ^ 1, second), None);
        assert_eq!(met(first ^ 1, NO_CHALLENGE), None);
    }

    #[test]
    fn each_game_can_be_served() {
        let mut samples = (0..).map(|seed| PROTOCOL.sample(seed));
        let with_bots = |sample: &Status| sample.players.bots > Some(0);
        let sample = samples.find(with_bots).unwrap();
        for (game, version) in [
            ("doom3", "1.41"),
            ("quake4", "2.85"),
            ("quake-wars", "10.21"),
        ] {
            let config = Doom3Config::read(&Options::default().with("game", game)).unwrap();
            let Step::Done(status) = trip(&sample, &config) else {
                panic!("{game}")
            };
            assert_eq!(status.extra("protocol-version"), Some(&version.into()));
            assert_eq!(
                status.players.list.len(),
                sample.players.list.len(),
                "{game}"
            );
            assert_eq!(status.deviations.len(), 0, "{game}");
            assert_eq!(status.map, sample.map, "{game}");
            assert_eq!(status.players.bots, sample.players.bots, "{game}");
        }
    }

    #[test]
    fn a_match_without_a_limit_has_no_time_left() {
        let left = |milliseconds: u32| {
            let reply = Reply {
                time_left_ms: Some(milliseconds),
                ..Reply::default()
            };
            extras(&reply)
                .into_iter()
                .any(|extra| extra.key == "time-left-ms")
        };
        assert_eq!((left(0), left(u32::MAX)), (true, false));
    }

    #[test]
    fn requests_take_turns_and_replies_are_matched() {
        let mut exchange = PROTOCOL.exchange(&Ask::default(), Cookie(4));
        let mut send = |input| {
            let mut out = Vec::new();
            assert_eq!(exchange.handle(input, &mut out), Step::Send);
            out
        };
        let first = send(Input::Start);
        assert!(first.starts_with(b"\xFF\xFFgetInfo\0"));
        assert_eq!(send(Input::Timeout), first);
        assert!(send(Input::Timeout).starts_with(b"\xFF\xFFgetInfoEx\0"));
        assert_eq!(send(Input::Timeout), first);
        let challenge = challenge(Cookie(4));
        let reply = |challenge: &[u8]| {
            let rest = b"\x29\0\x01\0si_name\0T\0\0\0\x20\x07\0\0\0";
            [b"\xFF\xFFinfoResponse\0", challenge, rest].concat()
        };
        let mut receive = |bytes: &[u8]| exchange.handle(Input::Datagram(bytes), &mut Vec::new());
        assert_eq!(receive(&reply(b"HAIL")), Step::Wait);
        assert_eq!(receive(b"\xFF\xFFservers\0"), Step::Wait);
        assert!(matches!(receive(&reply(&challenge[..4])), Step::Done(_)));
        let ask = Ask {
            to: Destination {
                port: QUAKE_WARS_PORT,
                ..Destination::default()
            },
            ..Ask::default()
        };
        let mut out = Vec::new();
        PROTOCOL
            .exchange(&ask, Cookie(4))
            .handle(Input::Start, &mut out);
        assert!(out.starts_with(b"\xFF\xFFgetInfoEx\0"));
    }
}
