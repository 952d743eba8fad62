//! Results of polls: samples and events.

use crate::server::ServerId;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

/// A time in Unix milliseconds, or a length of time in milliseconds.
pub type Millis = i64;

/// Returns the time of the system clock, in Unix milliseconds.
pub fn unix_millis() -> Millis {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    millis(time.unwrap_or_default())
}

/// Returns a length of time in milliseconds, at most 35,000 years, so that sums do not overflow.
pub(crate) fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis()).map_or(1 << 50, |millis| millis.min(1 << 50))
}

/// Stored result of a poll. 56 bytes. JSON has the names of exports and of the API, without the server
/// and without the time that the sample stands for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The polled server.
    #[serde(skip)]
    pub server: ServerId,
    /// When the poll was due, in Unix milliseconds. No two samples of a server have the same time.
    #[serde(rename = "at_ms")]
    pub at: Millis,
    /// Whether the server replied.
    pub is_answered: bool,
    /// Players online; `None` if the server did not report it.
    #[serde(rename = "players_online")]
    pub players: Option<u32>,
    /// Maximum number of players; `None` if the server did not report it.
    #[serde(rename = "players_max")]
    pub max: Option<u32>,
    /// Shortest time between a request and its reply, in microseconds; `None` without a reply.
    #[serde(rename = "latency_ms", default, with = "micros_as_ms")]
    pub latency: Option<u32>,
    /// Datagrams sent, including retries.
    #[serde(rename = "datagrams_sent")]
    pub sent: u16,
    /// Datagrams sent again after a timeout.
    #[serde(rename = "datagrams_resent")]
    pub resent: u16,
    /// Time that the sample stands for, in milliseconds (see [`uptime`](crate::uptime)); 0 if an
    /// earlier version took it.
    #[serde(skip)]
    pub observed_ms: u32,
}

/// Returns a latency with three significant digits, as the history stores it.
pub fn rounded_latency(micros: u32) -> u32 {
    let digits = micros.checked_ilog10().unwrap_or(0);
    let unit = 10_u64.pow(digits.saturating_sub(2));
    let rounded = (u64::from(micros) + unit / 2) / unit * unit;
    u32::try_from(rounded).unwrap_or_else(|_| micros - micros % unit as u32)
}

/// Why a poll failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PollError {
    /// Keyword of [`hailer::Error`]: `silence`, `port-closed`, …
    pub kind: String,
    /// The reason as a sentence.
    pub message: String,
}

impl From<&hailer::Error> for PollError {
    fn from(error: &hailer::Error) -> Self {
        Self {
            kind: error.kind().to_string(),
            message: error.to_string(),
        }
    }
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

    /// Returns the value before and after the change; `None` for other kinds.
    pub fn change(&self) -> Option<&ValueChange> {
        match self {
            Self::Version(change)
            | Self::Map(change)
            | Self::Motd(change)
            | Self::Address(change)
            | Self::Protocol(change) => Some(change),
            Self::Up | Self::Down { .. } | Self::Flapping | Self::Steady => None,
        }
    }
}

/// Microseconds, written as milliseconds with a fraction.
pub(crate) mod micros_as_ms {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<T, S>(micros: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Copy + Into<i64>,
        S: Serializer,
    {
        micros
            .map(|micros| micros.into() as f64 / 1e3)
            .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: TryFrom<i64>,
        D: Deserializer<'de>,
    {
        let Some(ms) = Option::<f64>::deserialize(deserializer)? else {
            return Ok(None);
        };
        // Out of range saturates, and then fails unless the type is `i64`.
        let micros = T::try_from((ms * 1e3).round() as i64);
        micros
            .map(Some)
            .map_err(|_| Error::custom("latency out of range"))
    }
}
