//! Records of an export.

use super::Level;
use crate::sample::{EventKind, Millis, Sample, micros_as_ms};
use crate::server::Origin;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A kind of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Servers, removed ones included.
    Servers,
    /// Table of all samples.
    Samples,
    /// Roll-ups.
    Rollups,
    /// Table of all events.
    Events,
    /// Sessions of players.
    Sessions,
}

impl std::str::FromStr for Table {
    type Err = String;

    /// Parses the name of a table.
    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|table| table.word() == word)
            .ok_or_else(|| format!("there is {}", Self::ALL.map(Self::word).join(", ")))
    }
}

/// A record of an export. In memory, times are in Unix milliseconds and latencies in microseconds; in
/// exports, the unit is part of the name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// Record of a server.
    Server(ExportedServer),
    /// Record of a sample.
    Sample(ExportedSample),
    /// A roll-up.
    Rollup(ExportedRollup),
    /// Record of an event.
    Event(ExportedEvent),
    /// A session of a player.
    Session(ExportedSession),
}

/// A server, with all fields of [`Server`](crate::server::Server).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ExportedServer {
    pub server: String,
    pub target: String,
    #[serde(default)]
    pub group: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    pub interval_ms: Option<i64>,
    pub origin: Origin,
    /// When the server was removed; `None` while it is on the watchlist.
    #[serde(rename = "removed_at_ms")]
    pub removed_at: Option<Millis>,
}

/// Exported sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ExportedSample {
    pub server: String,
    /// The sample. The number of its server and the time it stands for are not part of it.
    #[serde(flatten)]
    pub sample: Sample,
    /// Time that the sample stands for, in milliseconds.
    #[serde(default)]
    pub observed_ms: Option<u32>,
}

/// A bucket of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ExportedRollup {
    pub server: String,
    pub level: Level,
    /// Start of the bucket.
    #[serde(rename = "at_ms")]
    pub at: Millis,
    pub polls: u32,
    pub answered: u32,
    /// Replies with a number of players.
    pub with_players: u32,
    /// Sum of the players in these replies.
    #[serde(rename = "players_sum")]
    pub players: Option<i64>,
    #[serde(rename = "players_peak")]
    pub players_max: Option<u32>,
    /// Maximum number of players.
    #[serde(rename = "players_max")]
    pub max: Option<u32>,
    /// Replies with a latency.
    pub with_latency: u32,
    /// Sum of these latencies.
    #[serde(rename = "latency_sum_ms", default, with = "micros_as_ms")]
    pub latency: Option<i64>,
    #[serde(rename = "latency_max_ms", default, with = "micros_as_ms")]
    pub latency_max: Option<u32>,
    #[serde(rename = "datagrams_sent")]
    pub sent: i64,
    #[serde(rename = "datagrams_resent")]
    pub resent: i64,
    /// Time that the samples stand for, in milliseconds.
    #[serde(default)]
    pub observed_ms: Option<i64>,
    /// Part of this time in which the server replied.
    #[serde(default)]
    pub up_ms: Option<i64>,
}

/// Exported event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ExportedEvent {
    pub server: String,
    #[serde(rename = "at_ms")]
    pub at: Millis,
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Exported session of a player.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ExportedSession {
    pub server: String,
    pub player: String,
    #[serde(rename = "first_seen_ms")]
    pub first: Millis,
    #[serde(rename = "last_seen_ms")]
    pub last: Millis,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name of the column and of the JSON member.
    pub name: &'static str,
    /// Type of the values.
    pub kind: Kind,
    /// Whether values may be absent: `null` in JSON, an empty cell in CSV.
    pub is_optional: bool,
}

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text; some comes from servers.
    Text,
    /// 64-bit integers.
    Int,
    /// Numbers with a fraction.
    Number,
    /// Times in Unix milliseconds.
    Time,
    /// True or false.
    Flag,
    /// JSON, written as text in CSV.
    Json,
}

const fn column(name: &'static str, kind: Kind) -> Column {
    Column {
        name,
        kind,
        is_optional: false,
    }
}

const fn optional(name: &'static str, kind: Kind) -> Column {
    Column {
        name,
        kind,
        is_optional: true,
    }
}

impl Table {
    /// All tables, in the order that an import needs.
    pub const ALL: [Self; 5] = [
        Self::Servers,
        Self::Samples,
        Self::Rollups,
        Self::Events,
        Self::Sessions,
    ];

    /// Returns the name of the table, for file names and arguments.
    pub fn word(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Samples => "samples",
            Self::Rollups => "rollups",
            Self::Events => "events",
            Self::Sessions => "sessions",
        }
    }

    /// Returns the value of `record` for one record in JSON.
    pub fn record(self) -> &'static str {
        &self.word()[..self.word().len() - 1]
    }

    /// Returns the columns of its records, for CSV and Parquet.
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Servers => SERVERS,
            Self::Samples => SAMPLES,
            Self::Rollups => ROLLUPS,
            Self::Events => EVENTS,
            Self::Sessions => SESSIONS,
        }
    }
}

impl Record {
    /// Returns the table of the record.
    pub fn table(&self) -> Table {
        match self {
            Self::Server(_) => Table::Servers,
            Self::Sample(_) => Table::Samples,
            Self::Rollup(_) => Table::Rollups,
            Self::Event(_) => Table::Events,
            Self::Session(_) => Table::Sessions,
        }
    }
}

const SERVERS: &[Column] = &[
    column("server", Kind::Text),
    column("target", Kind::Text),
    column("group", Kind::Text),
    column("labels", Kind::Json),
    optional("interval_ms", Kind::Int),
    column("origin", Kind::Text),
    optional("removed_at_ms", Kind::Time),
];
const SAMPLES: &[Column] = &[
    column("server", Kind::Text),
    column("at_ms", Kind::Time),
    column("is_answered", Kind::Flag),
    optional("players_online", Kind::Int),
    optional("players_max", Kind::Int),
    optional("latency_ms", Kind::Number),
    column("datagrams_sent", Kind::Int),
    column("datagrams_resent", Kind::Int),
    optional("observed_ms", Kind::Int),
];
const ROLLUPS: &[Column] = &[
    column("server", Kind::Text),
    column("level", Kind::Text),
    column("at_ms", Kind::Time),
    column("polls", Kind::Int),
    column("answered", Kind::Int),
    column("with_players", Kind::Int),
    optional("players_sum", Kind::Int),
    optional("players_peak", Kind::Int),
    optional("players_max", Kind::Int),
    column("with_latency", Kind::Int),
    optional("latency_sum_ms", Kind::Number),
    optional("latency_max_ms", Kind::Number),
    column("datagrams_sent", Kind::Int),
    column("datagrams_resent", Kind::Int),
    optional("observed_ms", Kind::Int),
    optional("up_ms", Kind::Int),
];
const EVENTS: &[Column] = &[
    column("server", Kind::Text),
    column("at_ms", Kind::Time),
    column("kind", Kind::Text),
    optional("reason", Kind::Text),
    optional("from", Kind::Text),
    optional("to", Kind::Text),
];
const SESSIONS: &[Column] = &[
    column("server", Kind::Text),
    column("player", Kind::Text),
    column("first_seen_ms", Kind::Time),
    column("last_seen_ms", Kind::Time),
];
