//! The history in SQL: SQLite without any setup, or PostgreSQL by its URL.
//!
//! ```text
//!   Batch ─► HistoryWriter ─► sample ────► rollup: 5 minutes ─► an hour ─► a day     tidy, every
//!            memory if the    event, state                                           minute; each
//!            database fails   session                                level has its own retention
//! ```
//!
//! Samples are a log. Rows are committed when [`History::write`] returns, and may be written again:
//! existing rows stay as they are. So a caller that is not sure writes again, and an import is an
//! ordinary write.
//!
//! A roll-up is computed from the level below, and replaces one with fewer samples. So it can be
//! computed again at any time, late samples count, and rows deleted below change nothing above.

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
    /// Held by the one writer that SQLite allows.
    writing: Arc<Mutex<()>>,
    /// The last server whose sessions were looked through for old ones.
    turn: Arc<AtomicI64>,
}

/// Rows that are written in one transaction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Looks at servers.
    pub samples: Vec<Sample>,
    /// Events.
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

/// A session of a player on a server. An open session is stored again and again with a later end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayerSession {
    /// The server.
    pub server: ServerId,
    /// The name of the player, or its digest.
    pub player: String,
    /// First seen.
    pub first: Millis,
    /// Last seen.
    pub last: Millis,
}

/// Counts of the rows that a batch has added.
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

/// How long the history keeps its rows.
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
    /// Samples with a reply.
    pub answered: u32,
    /// Players on average, of the answers that told it; of all servers: the sum of their averages.
    pub players: Option<f64>,
    /// Maximum of players; for all servers, the maximum of the five-minute means.
    pub players_max: Option<u32>,
    /// The most that fit.
    pub max: Option<u32>,
    /// Latency on average, in microseconds.
    pub latency: Option<u32>,
    /// The longest latency, in microseconds.
    pub latency_max: Option<u32>,
    /// Datagrams sent.
    pub sent: u32,
    /// Datagrams sent again because no reply came.
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
        /// The folder.
        folder: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// It cannot be opened.
    #[error("cannot open the history {place}: {source}")]
    Open {
        /// The path, or the host and the name of the database.
        place: String,
        /// The cause.
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
        /// The cause.
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
    /// Invalid data, written by another program or a newer version.
    #[error("the history holds what cannot be understood: {0}")]
    Stored(String),
    /// A record of an import is invalid.
    #[error("line {line}: {message}")]
    Import {
        /// Which, from 1.
        line: u64,
        /// The cause.
        message: String,
    },
    /// There is no key for the names of players.
    #[error("the system gives no random bytes for a key: {0}")]
    Random(String),
    /// The database refuses, or is not there.
    #[error("the history fails: {0}")]
    Sql(#[from] sqlx::Error),
}
