//! What was, in SQL: SQLite without any set-up, or PostgreSQL by its URL.

use crate::sample::{Event, Millis, Sample};
use crate::server::{Origin, ServerId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A server that is to be watched.
#[derive(Clone, Debug, PartialEq)]
pub struct NewServer {
    /// What people call it, unique.
    pub name: String,
    /// Whom to ask, with a protocol.
    pub target: String,
    /// For lists and filters; empty: none.
    pub group: String,
    /// For filters and alerts.
    pub labels: BTreeMap<String, String>,
    /// How often it is asked; `None`: as often as all.
    pub interval: Option<Duration>,
    /// Who wants it watched.
    pub origin: Origin,
}

/// What is written at once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Looks at servers.
    pub samples: Vec<Sample>,
    /// What changed.
    pub events: Vec<Event>,
    /// Players who came, stay or left.
    pub sessions: Vec<Session>,
}

/// A player on a server, from when to when. One who is still there is written again and again, with a later end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Where.
    pub server: ServerId,
    /// Who: a name, or what stands for it.
    pub player: String,
    /// First seen.
    pub first: Millis,
    /// Last seen.
    pub last: Millis,
}
