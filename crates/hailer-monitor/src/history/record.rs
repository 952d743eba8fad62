//! Records: what an export consists of.

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
    /// Looks at them.
    Samples,
    /// Sums of them.
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

/// Something that was kept. Times are in milliseconds since 1970, latencies in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "kebab-case")]
pub enum Record {
    /// A server.
    Server(ExportedServer),
    /// A look at one.
    Sample(ExportedSample),
    /// The sum of a bucket.
    Rollup(ExportedRollup),
    /// A change.
    Event(ExportedEvent),
    /// A player on a server.
    Session(ExportedSession),
}

/// A server, with all that [`Server`](crate::server::Server) has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ExportedServer {
    pub server: String,
    pub target: String,
    #[serde(default)]
    pub group: String,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// In milliseconds.
    pub interval: Option<i64>,
    pub origin: Origin,
    /// When it was removed; `None`: it is watched.
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

/// The sum of a bucket of one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ExportedRollup {
    pub server: String,
    pub level: Level,
    /// The start of the bucket.
    pub at: Millis,
    pub asked: u32,
    pub answered: u32,
    /// Replies with a number of players; `players` is their sum.
    pub told: u32,
    /// Sum of the values of these replies.
    pub players: Option<i64>,
    pub players_max: Option<u32>,
    pub max: Option<u32>,
    /// Answers with a latency, and the sum of these.
    pub timed: u32,
    /// Sum of the values of these replies.
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

/// A member of the records of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// As in JSON.
    pub name: &'static str,
    /// Type of its values.
    pub kind: Kind,
    /// It may be absent: `null` in JSON, an empty cell in CSV.
    pub is_optional: bool,
}

/// Type of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Texts; some come from servers.
    Text,
    /// Whole numbers of 64 bits.
    Int,
    /// Times in milliseconds since 1970.
    Time,
    /// True or false.
    Flag,
    /// JSON; in CSV as text.
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
    /// All of them, in the order in which an import needs them.
    pub const ALL: [Self; 5] = [
        Self::Servers,
        Self::Samples,
        Self::Rollups,
        Self::Events,
        Self::Sessions,
    ];

    /// Its word, for names of files and arguments.
    pub fn word(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Samples => "samples",
            Self::Rollups => "rollups",
            Self::Events => "events",
            Self::Sessions => "sessions",
        }
    }

    /// The word of one record, as `record` has it in JSON.
    pub fn record(self) -> &'static str {
        &self.word()[..self.word().len() - 1]
    }

    /// Returns the columns of its records: the one list for CSV and Parquet.
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
    /// Which table it is of.
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
