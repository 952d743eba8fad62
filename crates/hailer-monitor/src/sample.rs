//! Results of polls: samples and events.

use crate::server::ServerId;
use serde::{Deserialize, Serialize};
use std::time::SystemTime;

/// A time in Unix milliseconds, or a length of time in milliseconds.
pub type Millis = i64;

/// Returns the time of the system clock, in Unix milliseconds.
pub fn unix_millis() -> Millis {
    let time = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    time.as_millis() as Millis
}

/// Stored result of a poll. 56 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The polled server.
    pub server: ServerId,
    /// When the poll was due, in Unix milliseconds. No two samples of a server have the same time.
    pub at: Millis,
    /// Whether the server replied.
    pub is_answered: bool,
    /// Players online; `None` if the server did not report it.
    pub players: Option<u32>,
    /// Maximum number of players; `None` if the server did not report it.
    pub max: Option<u32>,
    /// Shortest time between a request and its reply, in microseconds; `None` without a reply.
    pub latency: Option<u32>,
    /// Datagrams sent, including retries.
    pub sent: u16,
    /// Datagrams sent again after a timeout.
    pub resent: u16,
    /// Time that the sample stands for, in milliseconds (see [`uptime`](crate::uptime)); 0 if an
    /// earlier version took it.
    #[serde(default)]
    pub observed_ms: u32,
}

/// A recorded change of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Server that was polled.
    pub server: ServerId,
    /// When it happened, in Unix milliseconds: for an outage, the time of the first missed reply, else of
    /// the sample that shows it.
    pub at: Millis,
    /// Kind of the event, with its details.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Kind of an event, with its details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum EventKind {
    /// The server replied, after it was down or for the first time.
    Up,
    /// The server stopped replying.
    Down {
        /// Keyword of the error: `silence`, `port-closed`, …
        reason: String,
    },
    /// The server goes up and down often. Until it is steady, only states that last are reported.
    Flapping,
    /// The server no longer flaps.
    Steady,
    /// The version changed.
    Version(ValueChange),
    /// The map changed.
    Map(ValueChange),
    /// The MOTD changed, apart from its formatting.
    Motd(ValueChange),
    /// The name of the server resolves to a different address.
    Address(ValueChange),
    /// The server answers in a different protocol.
    Protocol(ValueChange),
}

/// A value before and after a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueChange {
    /// The old value; `None` if the server reported none.
    pub from: Option<String>,
    /// The new value; `None` if the server reports none.
    pub to: Option<String>,
}

impl EventKind {
    /// Returns the keyword of this kind in the history, the API and alert rules.
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
            Self::Protocol(_) => "protocol",
        }
    }
}
