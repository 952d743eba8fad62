//! Output of `hailer join`: one line per event, and a summary.

use super::table::{self, Fit};
use super::{json, line};
use crate::args::Join;
use hailer::minecraft::game::client::{ClientEvent, GameState, Position, TrafficCount};
use hailer::minecraft::game::{Build, PacketDirection};
use hailer::minecraft::{JoinError, JoinSession};
use hailer::proto::model::printable;
use hailer::proto::wire::counted;
use serde::Serialize;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

/// Maximum number of players in the summary.
const MAX_SEEN: usize = 1000;

/// How a session ended.
pub(crate) enum End {
    /// The user or the time limit ended it.
    Left,
    /// The server or an error ended it.
    Failed(JoinError),
}

/// Prints events, and collects what the summary needs.
pub(crate) struct EventPrinter {
    out: RefCell<crate::print::Stdout>,
    is_json: bool,
    target: String,
    name: String,
    build: Build,
    seen: BTreeSet<String>,
    first_column: Option<Duration>,
    surrounded: Option<Duration>,
    ended: Duration,
}

#[derive(Serialize)]
struct PacketLine<'a> {
    schema: &'static str,
    at_s: f64,
    #[serde(flatten)]
    event: &'a ClientEvent,
}

#[derive(Serialize)]
struct GameSummary<'a> {
    schema: &'static str,
    target: &'a str,
    address: Option<String>,
    name: &'a str,
    build: &'static str,
    joined_at_s: Option<f64>,
    is_encrypted: bool,
    end: &'static str,
    message: Option<String>,
    try_builds: Vec<&'static str>,
    duration_s: f64,
    first_column_at_s: Option<f64>,
    surrounded_at_s: Option<f64>,
    columns: usize,
    columns_received: u64,
    columns_unloaded: u64,
    entities: usize,
    position: Option<[f64; 3]>,
    health: Option<i16>,
    food: Option<i16>,
    players: Vec<&'a str>,
    bytes_received: u64,
    bytes_sent: u64,
    packets: Vec<PacketGroup>,
    warnings: &'a [String],
    warning_count: u64,
}

/// Packets of one name and direction.
#[derive(Serialize)]
struct PacketGroup {
    name: &'static str,
    direction: &'static str,
    packets: u64,
    bytes: u64,
}

impl EventPrinter {
    pub(crate) fn new(args: &Join) -> Self {
        Self {
            out: RefCell::new(crate::print::stdout()),
            is_json: args.json,
            target: args.target.clone(),
            name: args.name.clone(),
            build: args.build,
            seen: BTreeSet::new(),
            first_column: None,
            surrounded: None,
            ended: Duration::ZERO,
        }
    }

    /// Prints an event that happened `at` after the connection was established.
    pub(crate) fn event(&mut self, at: Duration, event: &ClientEvent) -> anyhow::Result<()> {
        match event {
            ClientEvent::PlayerListed { name, .. } | ClientEvent::PlayerAppeared { name, .. }
                if *name != self.name && self.seen.len() < MAX_SEEN =>
            {
                self.seen.insert(name.clone());
            }
            ClientEvent::FirstColumn => self.first_column = Some(at),
            ClientEvent::Surrounded { .. } => self.surrounded = self.surrounded.or(Some(at)),
            _ => {}
        }
        let out = self.out.get_mut();
        if self.is_json {
            writeln!(
                out,
                "{}",
                json::line(&PacketLine {
                    schema: "hailer/join/2",
                    at_s: seconds(at),
                    event
                })?
            )?;
        } else {
            writeln!(
                out,
                "\x1b[2m{:>8.2} s\x1b[0m  {}",
                at.as_secs_f64(),
                in_words(event)
            )?;
        }
        Ok(out.flush()?)
    }

    /// Records the duration of the session.
    pub(crate) fn ended(&mut self, at: Duration) {
        self.ended = at;
    }

    /// Prints the summary.
    pub(crate) fn summary(&self, session: Option<&JoinSession>, end: &End) -> anyhow::Result<()> {
        let mut out = self.out.borrow_mut();
        match session {
            _ if self.is_json => {
                writeln!(out, "{}", json::line(&self.for_programs(session, end))?)?
            }
            Some(session) if session.joined().is_some() => self.for_people(&mut *out, session)?,
            _ => {}
        }
        Ok(out.flush()?)
    }

    fn for_programs<'a>(&'a self, session: Option<&'a JoinSession>, end: &End) -> GameSummary<'a> {
        let client = session.map(JoinSession::client);
        let game = client.map(|client| client.game());
        let me = game
            .map(|game| &game.player)
            .filter(|_| session.is_some_and(|session| session.joined().is_some()));
        let total = |direction| client.map_or(0, |client| client.traffic().total(direction).bytes);
        let error = if let End::Failed(error) = end {
            Some(error)
        } else {
            None
        };
        GameSummary {
            schema: "hailer/join-summary/2",
            target: &self.target,
            address: session.map(|session| session.address().to_string()),
            name: &self.name,
            build: self.build.name(),
            joined_at_s: session.and_then(JoinSession::joined).map(seconds),
            is_encrypted: client.is_some_and(|client| client.is_encrypted()),
            end: error.map_or("left", JoinError::kind),
            message: error.map(|error| printable(&error.to_string())),
            try_builds: error.map_or(Vec::new(), |error| {
                error
                    .try_builds()
                    .iter()
                    .map(|build| build.name())
                    .collect()
            }),
            duration_s: seconds(self.ended),
            first_column_at_s: self.first_column.map(seconds),
            surrounded_at_s: self.surrounded.map(seconds),
            columns: game.map_or(0, |game| game.world().len()),
            columns_received: game.map_or(0, GameState::columns_received),
            columns_unloaded: game.map_or(0, GameState::columns_unloaded),
            entities: game.map_or(0, |game| game.entities.len()),
            position: me.and_then(|me| me.position).map(|position| position.feet),
            health: me.map(|me| me.health),
            food: me.map(|me| me.food),
            players: self.seen.iter().map(String::as_str).collect(),
            bytes_received: total(PacketDirection::ToClient),
            bytes_sent: total(PacketDirection::ToServer),
            packets: session.map_or(Vec::new(), packets),
            warnings: game.map_or(&[], |game| &game.warnings),
            warning_count: game.map_or(0, |game| game.warned),
        }
    }

    fn for_people(&self, out: &mut impl Write, session: &JoinSession) -> std::io::Result<()> {
        let client = session.client();
        let game = session.client().game();
        let at = |time: Option<Duration>| {
            time.map_or("never".into(), |at| {
                format!("after {:.2} s", at.as_secs_f64())
            })
        };
        let cipher = if client.is_encrypted() {
            "encrypted"
        } else {
            "not encrypted"
        };
        writeln!(
            out,
            "\n--- {} ---\n{:.1} s as {}, {} ({}), {cipher}",
            self.target,
            self.ended.as_secs_f64(),
            self.name,
            self.build,
            self.build.protocol(),
        )?;
        writeln!(
            out,
            "{} loaded, {} received, {} unloaded; the first {}, all around {}",
            counted(game.world().len() as u64, "column"),
            game.columns_received(),
            game.columns_unloaded(),
            at(self.first_column),
            at(self.surrounded),
        )?;
        let names: Vec<&str> = self.seen.iter().map(String::as_str).collect();
        let others = if names.is_empty() {
            "nobody else".into()
        } else {
            line(&names.join(", "), 400)
        };
        writeln!(
            out,
            "{others} seen; {} in view",
            counted(game.entities.len() as u64, "thing")
        )?;
        if let Some(Position {
            feet: [x, y, z],
            is_on_ground: on_ground,
            ..
        }) = game.player.position
        {
            writeln!(
                out,
                "at {}{}, health {}, food {}",
                place(x, y, z),
                if on_ground { " on the ground" } else { "" },
                game.player.health,
                game.player.food
            )?;
        }
        let total = |direction| client.traffic().total(direction);
        let both = |count: TrafficCount| {
            format!(
                "{}, {}",
                counted(count.packets, "packet"),
                counted(count.bytes, "byte")
            )
        };
        writeln!(
            out,
            "received {}, sent {}\n",
            both(total(PacketDirection::ToClient)),
            both(total(PacketDirection::ToServer))
        )?;
        let header = [
            ("packet", Fit::Whole),
            ("direction", Fit::Whole),
            ("packets", Fit::Number),
            ("bytes", Fit::Number),
        ];
        let rows: Vec<Vec<String>> = packets(session)
            .into_iter()
            .map(|row| {
                vec![
                    row.name.into(),
                    row.direction.into(),
                    row.packets.to_string(),
                    row.bytes.to_string(),
                ]
            })
            .collect();
        table::print(out, &header, &rows)?;
        if game.warned > 0 {
            writeln!(out, "\n\x1b[33m{}\x1b[0m", counted(game.warned, "warning"))?;
            for warning in &game.warnings {
                writeln!(out, "  {}", line(warning, 300))?;
            }
        }
        Ok(())
    }
}

/// Returns the counts by packet name, most frequent first.
fn packets(session: &JoinSession) -> Vec<PacketGroup> {
    let ways = [
        (PacketDirection::ToClient, "to-client"),
        (PacketDirection::ToServer, "to-server"),
    ];
    let mut rows: Vec<PacketGroup> = ways
        .into_iter()
        .flat_map(|(direction, text)| {
            session
                .client()
                .traffic()
                .by_name(direction)
                .iter()
                .map(move |row| (text, row))
        })
        .map(|(direction, (name, count))| PacketGroup {
            name,
            direction,
            packets: count.packets,
            bytes: count.bytes,
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse((row.packets, row.bytes)));
    rows
}

/// Returns a duration in seconds, rounded to milliseconds.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e3).round() / 1e3
}

/// Formats coordinates in blocks. Numbers outside of every world have an exponent, since `1e300`
/// has 301 digits.
fn place(x: f64, y: f64, z: f64) -> String {
    let [x, y, z] = [x, y, z].map(|at| {
        if at.abs() < 1e8 {
            format!("{at:.1}")
        } else {
            format!("{at:.3e}")
        }
    });
    format!("{x} {y} {z}")
}

/// Describes an event in one line.
fn in_words(event: &ClientEvent) -> String {
    let name = |name: &str| line(name, 40);
    match event {
        ClientEvent::SessionCheck { .. } => "the server checks accounts".into(),
        ClientEvent::Joined {
            entity,
            mode,
            is_hardcore,
            dimension,
            difficulty,
            max_players,
        } => {
            let hardcore = if *is_hardcore { ", hardcore" } else { "" };
            let difficulty = match difficulty {
                0 => "peaceful",
                1 => "easy",
                2 => "normal",
                3 => "hard",
                _ => "of unknown difficulty",
            };
            let dimension = world(*dimension);
            format!(
                "\x1b[1mjoined\x1b[0m {dimension}: {mode}{hardcore}, {difficulty}; room for {max_players}, entity {entity}"
            )
        }
        ClientEvent::Chat { text } => text.ansi().replace('\n', " "),
        ClientEvent::PlayerListed { name: player, ping } => {
            format!("\x1b[32m+ {}\x1b[0m ({ping} ms)", name(player))
        }
        ClientEvent::PlayerUnlisted { name: player } => {
            format!("\x1b[31m- {}\x1b[0m", name(player))
        }
        ClientEvent::PlayerAppeared {
            name: player,
            x,
            y,
            z,
            ..
        } => {
            format!(
                "\x1b[36m{}\x1b[0m came into view at {}",
                name(player),
                place(*x, *y, *z)
            )
        }
        ClientEvent::PlayerVanished { name: player, .. } => {
            format!("\x1b[36m{}\x1b[0m went out of view", name(player))
        }
        ClientEvent::Placed { x, y, z } => format!("placed at {}", place(*x, *y, *z)),
        ClientEvent::Landed { x, y, z, fall } => {
            format!(
                "landed at {} after a fall of {fall:.1} blocks",
                place(*x, *y, *z)
            )
        }
        ClientEvent::Arrived { x, y, z } => format!("arrived at {}", place(*x, *y, *z)),
        ClientEvent::Blocked { x, y, z } => {
            format!("stopped at {}: something is in the way", place(*x, *y, *z))
        }
        ClientEvent::Health { health, food } => format!("health {health}, food {food}"),
        ClientEvent::Died => "\x1b[1;31mdied\x1b[0m".into(),
        ClientEvent::Respawned { dimension, mode } => {
            format!("respawned in {}, {mode}", world(*dimension))
        }
        ClientEvent::ModeChanged { mode } => format!("game mode {mode}"),
        ClientEvent::Weather { is_raining: true } => "rain began".into(),
        ClientEvent::Weather { is_raining: false } => "rain ended".into(),
        ClientEvent::FirstColumn => "received the first column of blocks".into(),
        ClientEvent::Surrounded { columns } => {
            format!(
                "all columns nearby are loaded: {}",
                counted(*columns as u64, "column")
            )
        }
        ClientEvent::Warning { text } => format!("\x1b[33mwarning:\x1b[0m {}", line(text, 300)),
    }
}

fn world(dimension: i32) -> String {
    match dimension {
        -1 => "the Nether".into(),
        0 => "the overworld".into(),
        1 => "the End".into(),
        other => format!("dimension {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_coordinates_are_short() {
        assert_eq!(place(1.25, -0.5, 3e7), "1.2 -0.5 30000000.0");
        assert_eq!(place(1e300, -1e8, f64::NAN), "1.000e300 -1.000e8 NaN");
    }
}
