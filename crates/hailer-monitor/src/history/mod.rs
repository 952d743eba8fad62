//! The history in SQL: SQLite without any setup, or PostgreSQL by its URL.
//!
//! ```text
//!   Batch ─► HistoryWriter ─► recent ────► block: samples ─► 5 minutes ─► an hour ─► a day
//!            memory if the    event, state        tidy, every minute; each level has its own
//!            database fails   session             retention
//! ```
//!
//! Samples are a log. Rows are committed when [`History::write`] returns. Writing them again
//! changes nothing, so a caller that is not sure retries, and an import is an ordinary write.
//! Samples of the last minutes are in compressed rows of one write each, all others in blocks, one of
//! 16 servers and an hour. Latencies have three significant digits.
//!
//! A roll-up is computed from the level below, and replaces one with fewer samples. So it can be
//! computed again at any time, late samples count, and rows deleted below change nothing above.
//!
//! May import: `crate::health`, `crate::icon`, `crate::poll`, `crate::sample`, `crate::server`,
//! `crate::state`, `crate::uptime`, `hailer`.

mod blocks;
mod codec;
mod connection;
mod export;
mod gaps;
mod insert;
mod legacy;
mod open;
mod queue;
mod read;
mod record;
mod record_lines;
mod servers;
mod status;
mod tidy;

pub use crate::server::NewServer;
pub use export::{ExportSelection, ImportCounts};
pub use gaps::Gap;
pub(crate) use gaps::page_start;
pub(crate) use insert::player_key;
#[cfg(feature = "cluster")]
pub(crate) use queue::is_of_data;
pub use queue::{HistoryWriter, WriterHealth, WriterLimits};
pub use record::{
    Column, ExportedEvent, ExportedRollup, ExportedSample, ExportedServer, ExportedSession, Kind,
    Record, Table,
};
pub use record_lines::{Format, RecordWriter, Records, read};

use crate::poll::PollResult;
use crate::sample::{Event, Millis, Sample, micros_as_ms};
use crate::server::ServerId;
pub(crate) use insert::{Insert, Values, run};
use open::Dialect;
use serde::{Deserialize, Serialize};
use sqlx::AnyPool;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::time::Duration;
use tokio::sync::Mutex;

/// Handle of a history. Cheap to clone.
#[derive(Clone, Debug)]
pub struct History {
    pub(crate) pool: AnyPool,
    pub(crate) dialect: Dialect,
    /// Lock for writers: SQLite allows one at a time.
    writing: Arc<Mutex<()>>,
    /// The last server whose old sessions were deleted.
    turn: Arc<AtomicI64>,
    /// Whether tables of earlier versions have rows.
    has_legacy: Arc<AtomicBool>,
    /// How long a transaction in PostgreSQL may wait for its next statement, in milliseconds.
    max_idle: Arc<AtomicI64>,
}

/// Rows that are written in one transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Samples to write.
    pub samples: Vec<Sample>,
    /// Events to write.
    pub events: Vec<Event>,
    /// Sessions of players, open or ended.
    pub sessions: Vec<PlayerSession>,
}

impl Batch {
    /// Adds the sample and the events of a poll.
    pub fn add(&mut self, result: PollResult) {
        let PollResult { sample, events, .. } = result;
        self.samples.push(sample);
        self.events.extend(events);
    }
}

/// A session of a player on a server. An open session is stored repeatedly with a later end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayerSession {
    /// Server of the session.
    pub server: ServerId,
    /// The name of the player, or its digest.
    pub player: String,
    /// When the player was first seen, in Unix milliseconds.
    pub first: Millis,
    /// When the player was last seen, in Unix milliseconds.
    pub last: Millis,
}

/// Counts of the rows that a batch has added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Number of samples written. One that the history has already counts too, and changes nothing.
    pub samples: u64,
    /// Number of events added.
    pub events: u64,
    /// Sessions added or extended.
    pub sessions: u64,
}

/// Resolution of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// One value per sample.
    Raw,
    /// One summary per five minutes.
    FiveMinutes,
    /// One summary per hour.
    Hour,
    /// A day, in UTC.
    Day,
}

impl Level {
    /// Returns the length of a bucket in milliseconds; 1 for samples.
    pub fn length(self) -> Millis {
        match self {
            Self::Raw => 1,
            Self::FiveMinutes => 5 * 60_000,
            Self::Hour => 60 * 60_000,
            Self::Day => 24 * 60 * 60_000,
        }
    }

    /// Returns the start of the bucket of a time.
    pub fn floor(self, at: Millis) -> Millis {
        at.div_euclid(self.length()).saturating_mul(self.length())
    }

    /// Returns the level that roll-ups of this level are computed from.
    fn below(self) -> Self {
        match self {
            Self::Raw | Self::FiveMinutes => Self::Raw,
            Self::Hour => Self::FiveMinutes,
            Self::Day => Self::Hour,
        }
    }

    /// Returns the number of this level in the tables.
    fn number(self) -> i64 {
        self as i64
    }
}

/// How long rows are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long single samples are kept.
    pub raw: Duration,
    /// Buckets of five minutes.
    pub five_minutes: Duration,
    /// Buckets of an hour, and sessions of players.
    pub hour: Duration,
    /// Buckets of a day, and events.
    pub day: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
        Self {
            raw: days(7),
            five_minutes: days(60),
            hour: days(2 * 365),
            day: days(10 * 365),
        }
    }
}

/// A bucket of one server, or of all servers. JSON has the names of the API, without the times with
/// samples and with replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Start of the bucket, or time of the sample, in Unix milliseconds.
    #[serde(rename = "at_ms")]
    pub at: Millis,
    /// Number of samples.
    pub polls: u32,
    /// Samples with a reply.
    pub answered: u32,
    /// Mean number of players over replies that report it; for all servers, the sum of their means.
    #[serde(rename = "players_mean")]
    pub players: Option<f64>,
    /// Maximum of players; for all servers, the maximum of the five-minute means.
    #[serde(rename = "players_peak")]
    pub players_max: Option<u32>,
    /// Maximum number of players that the server allows.
    #[serde(rename = "players_max")]
    pub max: Option<u32>,
    /// Mean latency, in microseconds.
    #[serde(rename = "latency_mean_ms", default, with = "micros_as_ms")]
    pub latency: Option<u32>,
    /// Longest latency, in microseconds.
    #[serde(rename = "latency_max_ms", default, with = "micros_as_ms")]
    pub latency_max: Option<u32>,
    /// Number of datagrams sent.
    #[serde(rename = "datagrams_sent")]
    pub sent: u32,
    /// Datagrams sent again after a timeout.
    #[serde(rename = "datagrams_resent")]
    pub resent: u32,
    /// Time that the samples stand for, in milliseconds. `None`: an earlier version took them.
    #[serde(skip)]
    pub observed_ms: Option<i64>,
    /// Part of this time in which the server replied.
    #[serde(skip)]
    pub up_ms: Option<i64>,
}

impl History {
    /// Returns whether other processes may write to the history: it is in PostgreSQL.
    pub fn is_shared(&self) -> bool {
        self.dialect == Dialect::Postgres
    }
}

/// An error of the history.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// The URL is invalid.
    #[error(
        "no database is called {0:?}: write sqlite:PATH, sqlite::memory: or postgres://USER@HOST/NAME"
    )]
    Url(String),
    /// The URL names a kind of database that this build does not support.
    #[error(
        "this build does not support {0}: build it with the feature `postgres`, or name a file for SQLite"
    )]
    Unsupported(&'static str),
    /// The folder of the database cannot be created.
    #[error("cannot make the folder {} of the history: {source}", folder.display())]
    Folder {
        /// Folder of the database file.
        folder: PathBuf,
        /// Error of the file system.
        source: std::io::Error,
    },
    /// The database cannot be opened.
    #[error("cannot open the history {place}: {source}")]
    Open {
        /// The path, or the host and the name of the database.
        place: String,
        /// Error of the database.
        source: sqlx::Error,
    },
    /// The file is not a database, or it is damaged.
    #[error("{0} is not a valid SQLite database: restore it from a backup, or name another file")]
    Corrupt(String),
    /// The tables cannot be created or updated.
    #[error("cannot bring the tables of the history {place} up to date: {source}")]
    Migrate {
        /// The path, or the host and the name of the database.
        place: String,
        /// Error of the migration.
        source: sqlx::migrate::MigrateError,
    },
    /// A newer version has changed the tables.
    #[error("the history {0} was written by a newer hailer: run that one, or another history")]
    Newer(String),
    /// Another server has this name.
    #[error("there is a server called {0:?} already: choose another name")]
    Taken(String),
    /// No server has this number.
    #[error("there is no server with the number {}", .0.0)]
    Absent(ServerId),
    /// Invalid data, written by another program or a newer version.
    #[error("the history holds what cannot be understood: {0}")]
    Stored(String),
    /// A record of an import is invalid.
    #[error("line {line}: {message}")]
    Import {
        /// Line number, from 1.
        line: u64,
        /// Description of the invalid data.
        message: String,
    },
    /// The key for names of players cannot be created.
    #[error("the system gives no random bytes for a key: {0}")]
    Random(String),
    /// The database refuses a statement or cannot be reached.
    #[error("the history fails: {}", reason(.0))]
    Sql(#[from] sqlx::Error),
}

/// Returns the text of an error of the database. That of the pool is about its own connections.
fn reason(error: &sqlx::Error) -> String {
    match error {
        sqlx::Error::PoolTimedOut => "no connection to the database within 5 s".into(),
        error => error.to_string(),
    }
}
