//! Starsiege: Tribes, and Starsiege: one request, one reply. UDP.
//!
//! ```text
//!   client             server
//!     "b" number    ─►
//!                   ◄─  "c" number "b" game, version, name, …, teams, players
//!     "r" number    ─►                                                           Starsiege
//!                   ◄─  "s" number "r" game, version, name, …, players
//! ```
//!
//! Little-endian. The client's address is not verified, so Hailer has no responder
//! (spec/tribes1.md#8).

use crate::model::{Extra, Player, Rule, Status, Text, Value};
use crate::one_request::{Mark, Message, OneDatagram};
use crate::protocol::{Doc, Fault, Info};
use crate::wire::{Error, Reader, codepage, deviations};
use alloc::string::{String, ToString};
use alloc::{vec, vec::Vec};
use compact_str::CompactString;

deviations! {
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the reply";
    CUT_LISTS "cut-lists" "the lists of teams or players end early; whole entries are kept";
}

/// The protocol.
pub static PROTOCOL: OneDatagram = OneDatagram {
    info: &Info {
        id: "tribes1",
        title: "Starsiege: Tribes",
        port: 28_001,
        declares_charset: false,
        fields: &[
            Doc::new("dedicated", "Whether it is a dedicated server"),
            Doc::new("cpu-mhz", "Speed of the server's processor in MHz"),
            Doc::new("mods", "Mods"),
            Doc::new("teams", "Teams with their columns"),
        ],
        player_fields: &[
            Doc::new("loss", "Packet loss in percent"),
            Doc::new("columns", "Further columns of the list of players"),
        ],
        deviations: ALL,
        ..Info::DATAGRAM
    },
    messages: &[
        Message::request(
            "status request",
            Mark::Is(|bytes| matches!(bytes, [b'b' | b'r', _, _])),
            |r| {
                r.u8("request")?;
                r.u16_le("number").map(|_| ())
            },
        ),
        Message::reply("status", Mark::Is(is_reply)),
    ],
    // The game whose default port it is comes first.
    requests: Some(|ask, cookie| {
        let [low, high] = (cookie.derive(0) as u16).to_le_bytes();
        let request = |game| vec![game, low, high];
        match ask.to.port {
            STARSIEGE_PORT => [b'r', b'b'].map(request).into(),
            _ => [b'b', b'r'].map(request).into(),
        }
    }),
    is_answer: |request, reply, _| request.get(1..3) == reply.get(1..3),
    read,
    ..OneDatagram::PLAIN
};

/// Default port of Starsiege.
const STARSIEGE_PORT: u16 = 29_001;
/// Name that starts the replies of the later version of Starsiege.
const STARSIEGE: &[u8] = b"Starsiege";
/// Teams of Starsiege by number.
const TEAMS: [(u8, &str); 4] = [(1, "yellow"), (2, "blue"), (4, "red"), (8, "purple")];
/// Milliseconds of one unit of a player's latency.
const PING_UNIT_MS: i32 = 4;

fn is_reply(bytes: &[u8]) -> bool {
    matches!(bytes, [b'c', _, _, b'b', ..] | [b's', _, _, b'r', ..])
}

/// Reads a reply (spec/tribes1.md#3, #4 and #7).
fn read(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Fault> {
    if !is_reply(r.whole()) {
        let expected = "`c` or `s`, and the request's letter";
        return Err(Error::bad("reply", 0, expected).into());
    }
    r.u8("reply")?;
    r.u16_le("number")?;
    r.u8("request")?;
    let game = r.counted_text("game")?;
    status.game = codepage::filled(game);
    status.version = codepage::filled(r.counted_text("version")?);
    status.name = Text::filled_windows(r.counted_text("name")?);
    if game == STARSIEGE {
        Ok(read_starsiege(r, status)?)
    } else {
        Ok(read_tribes(r, status)?)
    }
}

/// Reads the fields of Tribes after the name.
fn read_tribes(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Error> {
    status.add_extra("dedicated", Some(r.u8("dedicated")? != 0));
    status.has_password = Some(r.u8("password")? != 0);
    let players = r.u8("players")?;
    status.players.online = Some(players.into());
    status.players.max = Some(r.u8("max players")?.into());
    status.add_extra("cpu-mhz", Some(i64::from(r.u16_le("cpu")?)));
    status.add_extra("mods", codepage::filled(r.counted_text("mods")?));
    status.mode = codepage::filled(r.counted_text("mission type")?);
    status.map = codepage::filled(r.counted_text("map")?);
    status.motd = Text::filled_windows(r.counted_text("motd")?);
    let teams = r.u8("teams")?;
    let team_columns = r.counted_text("team columns")?;
    let player_columns = r.counted_text("player columns")?;
    let at = r.at();
    let mut lists = Lists::default();
    if read_lists(r, teams, players, &mut lists).is_err() {
        r.notes().deviation(&CUT_LISTS, at);
    } else {
        r.trailing(&TRAILING_BYTES);
    }
    r.notes().ungroup();
    let columns = column_names(team_columns);
    let teams = lists
        .teams
        .iter()
        .map(|team| describe_team(*team, &columns));
    let teams: Vec<Value> = teams.collect();
    status.add_extra("teams", (!teams.is_empty()).then_some(Value::List(teams)));
    let columns = column_names(player_columns);
    let players = lists.players.iter();
    let players = players.map(|player| describe_player(player, &columns, &lists.teams));
    status.players.set_list(players.collect());
    Ok(())
}

/// Name and values of a team, separated by tabs.
type Team<'a> = (&'a [u8], &'a [u8]);

/// The lists of Tribes, as far as they are there.
#[derive(Default)]
struct Lists<'a> {
    teams: Vec<Team<'a>>,
    players: Vec<WirePlayer<'a>>,
}

/// A player of Tribes.
#[derive(Default)]
struct WirePlayer<'a> {
    ping_ms: i32,
    /// Packet loss in percent.
    loss: u8,
    /// Number of the team.
    team: u8,
    name: &'a [u8],
    /// Values of the columns, separated by tabs.
    values: &'a [u8],
}

fn read_lists<'a>(
    r: &mut Reader<'a, '_>,
    teams: u8,
    players: u8,
    lists: &mut Lists<'a>,
) -> Result<(), Error> {
    for index in 0..teams.into() {
        r.notes().group("teams", index);
        let name = r.counted_text("name")?;
        lists.teams.push((name, r.counted_text("values")?));
    }
    for index in 0..players.into() {
        r.notes().group("players", index);
        let mut player = WirePlayer {
            ping_ms: i32::from(r.u8("ping")?) * PING_UNIT_MS,
            loss: r.u8("loss")?,
            team: r.u8("team")?,
            ..WirePlayer::default()
        };
        player.name = r.counted_text("name")?;
        player.values = r.counted_text("values")?;
        lists.players.push(player);
    }
    Ok(())
}

fn describe_team((name, values): Team<'_>, columns: &[String]) -> Value {
    let name = codepage::decode(name);
    let mut team = vec![("name".into(), Value::Str(name.clone()))];
    for (column, value) in columns.iter().zip(cells(values)) {
        let value = if value == "%t" { name.clone() } else { value };
        if !is_name(column) {
            team.push((column.to_string().into(), Value::Str(value)));
        }
    }
    Value::Table(team)
}

fn describe_player(sent: &WirePlayer<'_>, columns: &[String], teams: &[Team<'_>]) -> Player {
    let mut player = Player::named(Text::windows(sent.name));
    player.latency_ms = Some(sent.ping_ms);
    let team = teams.get(usize::from(sent.team));
    player.team = team.map(|(name, _)| codepage::decode(name));
    player.extra.push(Extra::new("loss", i64::from(sent.loss)));
    let mut others = Vec::new();
    for (column, value) in columns.iter().zip(cells(sent.values)) {
        // Placeholders stand for fields that the player has anyway.
        let is_placeholder = value.starts_with('%') && value.len() == 2;
        if is_placeholder || is_name(column) {
            continue;
        }
        match column.as_str() {
            "team" if player.team.is_some() => {}
            "score" if value.parse::<i64>().is_ok() => player.score = value.parse().ok(),
            _ => others.push((column.to_string().into(), Value::Str(value))),
        }
    }
    if !others.is_empty() {
        player
            .extra
            .push(Extra::new("columns", Value::Table(others)));
    }
    player
}

/// Reads the fields of Starsiege after the name.
fn read_starsiege(r: &mut Reader<'_, '_>, status: &mut Status) -> Result<(), Error> {
    status.has_password = Some(r.u8("password")? != 0);
    status.add_extra("dedicated", Some(r.u8("dedicated")? != 0));
    for name in ["drop-in-progress", "game-in-progress"] {
        add_setting(name, r.u8(name)?.into(), status);
    }
    status.players.online = Some(r.u32_le("players")?.into());
    status.players.max = Some(r.u32_le("max players")?.into());
    add_setting("team-play", r.u8("team-play")?.into(), status);
    status.map = codepage::filled(r.counted_text("map")?);
    status.add_extra("cpu-mhz", Some(i64::from(r.u16_le("cpu")?)));
    for name in ["factory-vehicles", "allow-tecmix"] {
        add_setting(name, r.u8(name)?.into(), status);
    }
    for name in [
        "spawn-limit",
        "frag-limit",
        "time-limit",
        "tech-limit",
        "combat-limit",
        "mass-limit",
    ] {
        add_setting(name, r.u32_le(name)?, status);
    }
    let count = r.u32_le("players sent")?;
    let mut players = Vec::new();
    while r.remaining() > 0 {
        let at = r.at();
        r.notes().group("players", players.len());
        let (Ok(name), Ok(team)) = (r.counted_text("name"), r.u8("team")) else {
            r.notes().deviation(&CUT_LISTS, at);
            break;
        };
        let mut player = Player::named(Text::windows(name));
        let known = TEAMS.iter().find(|(number, _)| *number == team);
        player.team = known.map(|(_, name)| (*name).into());
        players.push(player);
    }
    r.notes().ungroup();
    if (players.len() as u64) < count.into() {
        let end = r.at();
        r.notes().deviation(&CUT_LISTS, end);
    }
    status.players.set_list(players);
    Ok(())
}

fn add_setting(key: &'static str, value: u32, status: &mut Status) {
    status.rules.push(Rule {
        key: key.into(),
        value: value.to_string().into(),
    });
}

/// Returns the names of columns. A character that sets the alignment precedes each but the first.
fn column_names(text: &[u8]) -> Vec<String> {
    let text = codepage::decode(text);
    let mut names = Vec::new();
    for (place, part) in text.split('\t').enumerate() {
        let mut name = part.chars();
        if place > 0 {
            name.next();
        }
        names.push(name.as_str().trim().to_lowercase());
    }
    names
}

/// Returns the values of columns.
fn cells(text: &[u8]) -> Vec<CompactString> {
    let text = codepage::decode(text);
    text.split('\t').map(|cell| cell.trim().into()).collect()
}

fn is_name(column: &str) -> bool {
    matches!(column, "name" | "team name" | "player name" | "")
}
