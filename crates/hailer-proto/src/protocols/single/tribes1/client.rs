//! The client: one request; after each timeout, that of the other game (spec/tribes1.md#6).

use super::message::{Game, Player as WirePlayer, Reply, Request, Starsiege, Tribes};
use crate::model::{Extra, Player, Rule, Status, Text, Value};
use crate::one_request::datagram::Single;
use crate::protocol::{Ask, Cookie};
use crate::wire::codepage;
use crate::wire::{Error, Notes};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use compact_str::CompactString;

/// Default port of Starsiege.
const STARSIEGE_PORT: u16 = 29_001;
/// Teams of Starsiege by number.
const TEAMS: [(u8, &str); 4] = [(1, "yellow"), (2, "blue"), (4, "red"), (8, "purple")];

/// Client side of one query.
#[derive(Debug)]
pub struct Tribes1Client {
    number: u16,
    games: [Game; 2],
}

impl Tribes1Client {
    /// Creates a client that requests Starsiege first on its default port.
    pub fn new(ask: &Ask, cookie: Cookie) -> Self {
        Self {
            number: cookie.derive(0) as u16,
            games: match ask.to.port {
                STARSIEGE_PORT => [Game::Starsiege, Game::Tribes],
                _ => [Game::Tribes, Game::Starsiege],
            },
        }
    }
}

impl Single for Tribes1Client {
    fn requests(&self) -> Vec<Vec<u8>> {
        let number = self.number;
        let mut requests = Vec::new();
        for game in self.games {
            let mut request = Vec::new();
            Request { game, number }.write(&mut request);
            requests.push(request);
        }
        requests
    }

    fn read(&self, bytes: &[u8], notes: &mut Notes) -> Option<Result<Status, Error>> {
        if !Reply::is_reply(bytes) {
            return None;
        }
        match Reply::read(bytes, notes) {
            Err(error) => Some(Err(error)),
            Ok(reply) if reply.number != self.number => None,
            Ok(reply) => Some(Ok(status(&reply))),
        }
    }
}

/// Converts a reply to a status (spec/tribes1.md#7).
fn status(reply: &Reply<'_>) -> Status {
    let mut status = Status {
        name: Text::filled_windows(reply.name),
        game: codepage::filled(reply.game),
        map: codepage::filled(reply.map),
        version: codepage::filled(reply.version),
        has_password: Some(reply.has_password),
        ..Status::default()
    };
    status.players.online = Some(reply.online.into());
    status.players.max = Some(reply.max.into());
    let mut add = |key, value| status.extra.push(Extra { key, value });
    add("dedicated", Value::Bool(reply.is_dedicated));
    add("cpu-mhz", Value::Int(reply.cpu_mhz.into()));
    if let Some(tribes) = &reply.tribes {
        describe_tribes(tribes, &mut status);
    }
    if let Some(starsiege) = &reply.starsiege {
        describe_starsiege(starsiege, &mut status);
    }
    status
}

fn describe_tribes(tribes: &Tribes<'_>, status: &mut Status) {
    status.mode = codepage::filled(tribes.mode);
    status.motd = Text::filled_windows(tribes.motd);
    if let Some(mods) = codepage::filled(tribes.mods) {
        status.extra.push(Extra::new("mods", mods));
    }
    let columns = column_names(tribes.team_columns);
    let mut teams = Vec::new();
    for (name, values) in &tribes.teams {
        let name = codepage::decode(name);
        let mut team = alloc::vec![("name".into(), Value::Str(name.clone()))];
        for (column, value) in columns.iter().zip(cells(values)) {
            let value = if value == "%t" { name.clone() } else { value };
            if is_name(column) {
                continue;
            }
            team.push((column.to_string().into(), Value::Str(value)));
        }
        teams.push(Value::Table(team));
    }
    if !teams.is_empty() {
        status.extra.push(Extra {
            key: "teams",
            value: Value::List(teams),
        });
    }
    let columns = column_names(tribes.player_columns);
    let mut players = Vec::new();
    for player in &tribes.players {
        players.push(describe_player(player, &columns, &tribes.teams));
    }
    status.players.set_list(players);
}

fn describe_player(sent: &WirePlayer<'_>, columns: &[String], teams: &[(&[u8], &[u8])]) -> Player {
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
        player.extra.push(Extra {
            key: "columns",
            value: Value::Table(others),
        });
    }
    player
}

fn describe_starsiege(starsiege: &Starsiege<'_>, status: &mut Status) {
    for (key, value) in &starsiege.settings {
        status.rules.push(Rule {
            key: (*key).into(),
            value: value.to_string().into(),
        });
    }
    let mut players = Vec::new();
    for (name, team) in &starsiege.players {
        let mut player = Player::named(Text::windows(name));
        let known = TEAMS.iter().find(|(number, _)| number == team);
        player.team = known.map(|(_, name)| (*name).into());
        players.push(player);
    }
    status.players.set_list(players);
}

/// Returns the names of columns. A character that sets the alignment precedes each but the first.
fn column_names(text: &[u8]) -> Vec<String> {
    let text = codepage::decode(text);
    let mut names = Vec::new();
    for (place, part) in text.split('\t').enumerate() {
        let name = if place == 0 {
            part
        } else {
            part.get(part.ceil_char_boundary(1)..).unwrap_or_default()
        };
        names.push(name.trim().to_lowercase());
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
