//! Records of an export.

use super::Level;
use crate::sample::{EventKind, Millis};
use crate::server::Origin;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A kind of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// Servers, removed ones included.
    Servers,
    /// Samples.
    Samples,
    /// Roll-ups.
    Rollups,
    /// Events.
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

/// A record of an export. Times are in Unix milliseconds, latencies in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// A server.
    Server(ExportedServer),
    /// A sample.
    Sample(ExportedSample),
    /// A roll-up.
    Rollup(ExportedRollup),
    /// An event.
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
    /// Interval in milliseconds.
    pub interval: Option<i64>,
    pub origin: Origin,
    /// When the server was removed; `None` while it is on the watchlist.
    pub removed: Option<Millis>,
}

/// A sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ExportedSample {
    pub server: String,
    pub at: Millis,
    pub answered: bool,
    pub players: Option<u32>,
    pub max: Option<u32>,
    pub latency: Option<u32>,
    pub sent: u16,
    pub resent: u16,
}

/// A bucket of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ExportedRollup {
    pub server: String,
    pub level: Level,
    /// Start of the bucket.
    pub at: Millis,
    pub asked: u32,
    pub answered: u32,
    /// Replies with a number of players.
    pub told: u32,
    /// Sum of the players in these replies.
    pub players: Option<i64>,
    pub players_max: Option<u32>,
    pub max: Option<u32>,
    /// Replies with a latency.
    pub timed: u32,
    /// Sum of these latencies.
    pub latency: Option<i64>,
    pub latency_max: Option<u32>,
    pub sent: i64,
    pub resent: i64,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ExportedEvent {
    pub server: String,
    pub at: Millis,
    #[serde(flatten)]
    pub kind: EventKind,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ExportedSession {
    pub server: String,
    pub player: String,
    pub first: Millis,
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
    optional("interval", Kind::Int),
    column("origin", Kind::Text),
    optional("removed", Kind::Time),
];
const SAMPLES: &[Column] = &[
    column("server", Kind::Text),
    column("at", Kind::Time),
    column("answered", Kind::Flag),
    optional("players", Kind::Int),
    optional("max", Kind::Int),
    optional("latency", Kind::Int),
    column("sent", Kind::Int),
    column("resent", Kind::Int),
];
const ROLLUPS: &[Column] = &[
    column("server", Kind::Text),
    column("level", Kind::Text),
    column("at", Kind::Time),
    column("asked", Kind::Int),
    column("answered", Kind::Int),
    column("told", Kind::Int),
    optional("players", Kind::Int),
    optional("players_max", Kind::Int),
    optional("max", Kind::Int),
    column("timed", Kind::Int),
    optional("latency", Kind::Int),
    optional("latency_max", Kind::Int),
    column("sent", Kind::Int),
    column("resent", Kind::Int),
];
const EVENTS: &[Column] = &[
    column("server", Kind::Text),
    column("at", Kind::Time),
    column("kind", Kind::Text),
    optional("reason", Kind::Text),
    optional("from", Kind::Text),
    optional("to", Kind::Text),
];
const SESSIONS: &[Column] = &[
    column("server", Kind::Text),
    column("player", Kind::Text),
    column("first", Kind::Time),
    column("last", Kind::Time),
];
