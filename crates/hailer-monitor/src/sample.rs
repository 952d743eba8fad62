//! Results of a poll: the sample, and what has changed since the last one.

use crate::server::ServerId;
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// Milliseconds since 1970, UTC.
pub type Millis = i64;

/// Returns the time of the system's clock, in Unix milliseconds.
pub fn unix_millis() -> Millis {
    let time = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    time.as_millis() as Millis
}

/// The stored result of a poll. 48 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The polled server.
    pub server: ServerId,
    /// When it was due: one server never has two samples of the same time.
    pub at: Millis,
    /// Whether it answered.
    pub answered: bool,
    /// Players on, if it said so.
    pub players: Option<u32>,
    /// The most that fit.
    pub max: Option<u32>,
    /// The shortest time between a request and its reply, in microseconds.
    pub latency: Option<u32>,
    /// Datagrams sent, resent ones included.
    pub sent: u16,
    /// Datagrams sent again because no reply came.
    pub resent: u16,
}

/// Something that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The server.
    pub server: ServerId,
    /// When it was seen.
    pub at: Millis,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// What happened, with its details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EventKind {
    /// It answers, after it did not, or for the first time.
    Up,
    /// The server does not reply any more.
    Down {
        /// `silence`, `port-closed`, …
        reason: String,
    },
    /// The server went up and down so often that changes are not reported until it is steady.
    Flapping,
    /// It is steady again.
    Steady,
    /// The version that it tells.
    Version(Difference),
    /// The map.
    Map(Difference),
    /// The MOTD, formatting left out.
    Motd(Difference),
    /// Its name now means other addresses.
    Address(Difference),
}

/// A value before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// `None`: it said nothing of it.
    pub from: Option<String>,
    /// The new value; `None` if the server reports none.
    pub to: Option<String>,
}

impl EventKind {
    /// Its word in the history, the API and rules of alerts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down { .. } => "down",
            Self::Flapping => "flapping",
            Self::Steady => "steady",
            Self::Version(_) => "version",
            Self::Map(_) => "map",
            Self::Motd(_) => "motd",
            Self::Address(_) => "address",
        }
    }
}
