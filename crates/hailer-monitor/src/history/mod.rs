//! What was, in SQL: SQLite without any set-up, or PostgreSQL by its URL.
//!
//! ```text
//!   Batch ─► Writer ─► sample ─────► rollup: 5 minutes ─► an hour ─► a day      tidy, every minute
//!            memory,   event, state                                             each level is kept for its time
//!            if need   session
//! ```
//!
//! Samples are a log. What is written is written for good when [`History::write`] returns, and may be written again: what is
//! there already is left alone. So whoever is not sure writes again, and an import is a write like any other.
//!
//! A roll-up is worked out from the level below, and put in place of the old one if it counted more: so it may be worked out as
//! often as one likes, late samples count, and what was deleted below takes nothing away above.

mod export;
mod insert;
mod lines;
mod open;
mod queue;
mod read;
mod record;
mod servers;
mod status;
mod tidy;

pub use crate::server::NewServer;
pub use export::{ExportSelection, ImportCounts};
pub(crate) use insert::player_key;
pub use lines::{Format, RecordWriter, Records, read};
pub(crate) use queue::is_of_data;
pub use queue::{HistoryWriter, WriterHealth, WriterLimits};
pub use record::{
    Column, ExportedEvent, ExportedRollup, ExportedSample, ExportedServer, ExportedSession, Kind,
    Record, Table,
};

use crate::poll::PollResult;
use crate::sample::{Event, Millis, Sample};
use crate::server::ServerId;
pub(crate) use insert::{Insert, Values, run};
use open::Dialect;
use serde::{Deserialize, Serialize};
use sqlx::AnyPool;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;
use tokio::sync::Mutex;

/// A history. Cheap to clone.
#[derive(Clone, Debug)]
pub struct History {
    pub(crate) pool: AnyPool,
    pub(crate) dialect: Dialect,
    /// Whose turn it is to write, in SQLite.
    writing: Arc<Mutex<()>>,
    /// The last server whose sessions were looked through for old ones.
    turn: Arc<AtomicI64>,
}

/// What is written at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Looks at servers.
    pub samples: Vec<Sample>,
    /// What changed.
    pub events: Vec<Event>,
    /// Players who came, stay or left.
    pub sessions: Vec<PlayerSession>,
}

impl Batch {
    /// Adds the sample and the events of a poll.
    pub fn add(&mut self, result: PollResult) {
        let PollResult { sample, events, .. } = result;
        let (server, at) = (sample.server, sample.at);
        self.samples.push(sample);
        let events = events.into_iter().map(|kind| Event { server, at, kind });
        self.events.extend(events);
    }
}

/// A player on a server, from when to when. One who is still there is written again and again, with a later end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayerSession {
    /// Where.
    pub server: ServerId,
    /// Who: a name, or what stands for it.
    pub player: String,
    /// First seen.
    pub first: Millis,
    /// Last seen.
    pub last: Millis,
}

/// What was new of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Samples that were not there yet.
    pub samples: u64,
    /// Events that were not there yet.
    pub events: u64,
    /// Sessions that are new, or last longer than was known.
    pub sessions: u64,
}

/// How finely time is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// Each sample by itself.
    Raw,
    /// Five minutes.
    FiveMinutes,
    /// An hour.
    Hour,
    /// A day, in UTC.
    Day,
}

impl Level {
    /// Length of its buckets in milliseconds; 1 for samples.
    pub fn length(self) -> Millis {
        match self {
            Self::Raw => 1,
            Self::FiveMinutes => 5 * 60_000,
            Self::Hour => 60 * 60_000,
            Self::Day => 24 * 60 * 60_000,
        }
    }

    /// The start of the bucket of a time.
    pub fn floor(self, at: Millis) -> Millis {
        at.div_euclid(self.length()).saturating_mul(self.length())
    }

    /// Its number in the tables.
    fn number(self) -> i64 {
        self as i64
    }
}

/// How long what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Samples.
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

/// A bucket of one server, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Where it starts; of a sample, when it was.
    pub at: Millis,
    /// Samples.
    pub asked: u32,
    /// Of those, answered.
    pub answered: u32,
    /// Players on average, of the answers that told it; of all servers: the sum of their averages.
    pub players: Option<f64>,
    /// The most players; of all servers: the most on average in any five minutes.
    pub players_max: Option<u32>,
    /// The most that fit.
    pub max: Option<u32>,
    /// Latency on average, in microseconds.
    pub latency: Option<u32>,
    /// The longest latency, in microseconds.
    pub latency_max: Option<u32>,
    /// Datagrams sent.
    pub sent: u32,
    /// Of those, sent again because nothing came.
    pub resent: u32,
}

impl History {
    /// Whether others may write to it at the same time: it is in PostgreSQL.
    pub fn is_shared(&self) -> bool {
        self.dialect == Dialect::Postgres
    }
}

/// Why the history cannot do what it should.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HistoryError {
    /// No database is meant by this.
    #[error(
        "no database is called {0:?}: write sqlite:PATH, sqlite::memory: or postgres://USER@HOST/NAME"
    )]
    Url(String),
    /// The folder of a database cannot be made.
    #[error("cannot make the folder {} of the history: {source}", folder.display())]
    Folder {
        /// Which.
        folder: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It cannot be opened.
    #[error("cannot open the history {place}: {source}")]
    Open {
        /// The path, or the host and the name of the database.
        place: String,
        /// Why.
        source: sqlx::Error,
    },
    /// The file is not a database, or it is damaged.
    #[error("{0} is not a valid SQLite database: restore it from a backup, or name another file")]
    Corrupt(String),
    /// Its tables cannot be made or brought up to date.
    #[error("cannot bring the tables of the history {place} up to date: {source}")]
    Migrate {
        /// See above.
        place: String,
        /// Why.
        source: sqlx::migrate::MigrateError,
    },
    /// A newer program has changed its tables.
    #[error("the history {0} was written by a newer hailer: run that one, or another history")]
    Newer(String),
    /// There is a server of this name.
    #[error("there is a server called {0:?} already: choose another name")]
    Taken(String),
    /// There is no server of this number.
    #[error("there is no server with the number {}", .0.0)]
    Absent(ServerId),
    /// Somebody else wrote this into the database, or a newer hailer.
    #[error("the history holds what cannot be understood: {0}")]
    Stored(String),
    /// What is imported is not what was exported.
    #[error("line {line}: {message}")]
    Import {
        /// Which, from 1.
        line: u64,
        /// Why.
        message: String,
    },
    /// There is no key for the names of players.
    #[error("the system gives no random bytes for a key: {0}")]
    Random(String),
    /// The database refuses, or is not there.
    #[error("the history fails: {0}")]
    Sql(#[from] sqlx::Error),
}
