//! JSON types of the API, shared by the server and by clients such as `hailer watch`.
//!
//! All members are always present in responses; unknown values are null. Instants are Unix
//! milliseconds. `openapi.json` describes every member.

use crate::health::State;
use crate::sample::Millis;
use crate::server::Origin;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// One page of the list of servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Servers {
    /// Servers of this page.
    pub servers: Vec<Server>,
    /// Number of servers on all pages.
    pub count: usize,
    /// Cursor of the next page; `None`: this is the last page.
    pub next: Option<String>,
}

/// A monitored server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Server {
    /// Id; never reused.
    pub id: i64,
    /// Unique name of the server.
    pub name: String,
    /// Address with protocol, as configured.
    pub target: String,
    /// Id of the protocol.
    pub protocol: String,
    /// Group; empty: none.
    pub group: String,
    /// Configured labels of the server.
    pub labels: BTreeMap<String, String>,
    /// Polling interval, in seconds; `None`: the default of the monitor.
    pub interval_s: Option<f64>,
    /// Where the server was defined.
    pub origin: Origin,
    /// Whether the server is up or down.
    pub state: State,
    /// Whether the server alternates between up and down.
    pub is_flapping: bool,
    /// When the state began, in Unix milliseconds.
    pub since_ms: Option<Millis>,
    /// Share of the last 24 hours in which the server was up, from 0 to 1.
    pub uptime_share: Option<f64>,
    /// Last sample, with or without an answer.
    pub last_sample: Option<Sample>,
    /// Why the last poll failed; `None` if it did not.
    pub error: Option<PollError>,
    /// Last status; kept while the server is down.
    pub last_status: Option<Status>,
}

/// A server with all details. `A`: type of the answer, by default its JSON text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerDetails<A = Box<RawValue>> {
    /// The members of a list entry.
    #[serde(flatten)]
    pub server: Server,
    /// Names of players online; empty if the monitor does not publish them.
    pub players: Vec<String>,
    /// Players in the last 24 hours.
    pub day: Day,
    /// Last answer, if it is stored and published.
    pub last_answer: Option<A>,
}

/// Stored result of one poll.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Scheduled time of the poll, in Unix milliseconds.
    pub at_ms: Millis,
    /// Whether the server answered.
    pub is_answered: bool,
    /// Number of players online.
    pub players_online: Option<u32>,
    /// Maximum number of players.
    pub players_max: Option<u32>,
    /// Shortest time between a request and its reply, in milliseconds.
    pub latency_ms: Option<f64>,
    /// Number of datagrams sent.
    pub datagrams_sent: u16,
    /// Datagrams sent again after a timeout.
    pub datagrams_resent: u16,
}

/// Why a poll failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PollError {
    /// Keyword of [`hailer::Error`].
    pub kind: String,
    /// The reason as a sentence.
    pub message: String,
}

/// Last status that a server reported, without formatting. Untrusted texts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Time of the answer, in Unix milliseconds.
    pub at_ms: Millis,
    /// Address that answered.
    pub address: Option<SocketAddr>,
    /// Name of the server, else the first readable line of its MOTD.
    pub title: Option<String>,
    /// MOTD; may have several lines.
    pub motd: Option<String>,
    /// Name of the game.
    pub game: Option<String>,
    /// Version of game or server.
    pub version: Option<String>,
    /// Name of the map or world.
    pub map: Option<String>,
    /// Maximum number of players.
    pub players_max: Option<u32>,
    /// Whether players need a password to join.
    #[serde(default)]
    pub has_password: Option<bool>,
    /// Whether the server uses anti-cheat software.
    #[serde(default)]
    pub has_anti_cheat: Option<bool>,
    /// Number of bots, which the number of players may include or not.
    #[serde(default)]
    pub bots: Option<u32>,
    /// How complete the list of players is: `whole`, `partial`, `sample` or `absent`.
    #[serde(default)]
    pub roster: String,
    /// Path of the icon on this site, a PNG file.
    #[serde(default)]
    pub icon: Option<String>,
}

/// Players in the last 24 hours.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Day {
    /// Start of the first value, in Unix milliseconds.
    pub from_ms: Millis,
    /// Time per value, in milliseconds.
    pub step_ms: Millis,
    /// Mean number of players, the oldest first; `None`: no answer.
    pub players: Vec<Option<f64>>,
}

/// One page of events, the newest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Events {
    /// Events of this page.
    pub events: Vec<Event>,
    /// Gaps that began in the time of this page.
    #[serde(default)]
    pub gaps: Vec<Gap>,
    /// `before` of the next page; `None`: this is the last page.
    pub next: Option<Millis>,
}

/// An event of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Id of the server.
    pub server_id: i64,
    /// Name of the server; `None`: it was removed.
    pub server: Option<String>,
    /// Time, in Unix milliseconds.
    pub at_ms: Millis,
    /// Keyword of the kind. A newer monitor may have further kinds.
    pub kind: String,
    /// For `down`: keyword of the reason.
    pub reason: Option<String>,
    /// For a change: the value before.
    pub from: Option<String>,
    /// For a change: the value after.
    pub to: Option<String>,
}

/// A time in which the monitor did not run. Servers may have changed in it without an event.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Gap {
    /// Time of the last sample before it, in Unix milliseconds.
    pub from_ms: Millis,
    /// Time of the first sample after it, in Unix milliseconds.
    pub to_ms: Millis,
}

/// Time series of one server, or of all.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    /// Start, in Unix milliseconds.
    pub from_ms: Millis,
    /// End, in Unix milliseconds.
    pub to_ms: Millis,
    /// `raw`, `5min`, `hour` or `day`.
    pub level: String,
    /// Time between two points, in milliseconds.
    pub step_ms: Millis,
    /// Points, the oldest first.
    pub points: Vec<Point>,
}

/// Summary of one period.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Start of the period, in Unix milliseconds.
    pub at_ms: Millis,
    /// Number of polls.
    pub polls: u32,
    /// Number of answered polls.
    pub answered: u32,
    /// Mean number of players.
    pub players_mean: Option<f64>,
    /// Maximum number of players.
    pub players_peak: Option<u32>,
    /// Maximum number of players.
    pub players_max: Option<u32>,
    /// Mean latency, in milliseconds.
    pub latency_mean_ms: Option<f64>,
    /// Maximum latency, in milliseconds.
    pub latency_max_ms: Option<f64>,
    /// Number of datagrams sent.
    pub datagrams_sent: u32,
    /// Datagrams sent again after a timeout.
    pub datagrams_resent: u32,
}

/// One page of sessions, the latest start first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sessions {
    /// Sessions of this page.
    pub sessions: Vec<Session>,
    /// `before` of the next page; `None`: this is the last page.
    pub next: Option<Millis>,
}

/// A session of a player.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    /// Name of the player, or its pseudonym. Untrusted text.
    pub player: String,
    /// When the player was first seen, in Unix milliseconds.
    pub first_seen_ms: Millis,
    /// When the player was last seen, in Unix milliseconds.
    pub last_seen_ms: Millis,
    /// Duration, in seconds.
    pub duration_s: f64,
}

/// An error response, as in RFC 9457.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ProblemDetails {
    /// `urn:hailer:problem:` and a keyword.
    pub r#type: String,
    /// Title of the error.
    pub title: String,
    /// HTTP status code.
    pub status: u16,
    /// The error and its fix as a sentence.
    pub detail: String,
}
