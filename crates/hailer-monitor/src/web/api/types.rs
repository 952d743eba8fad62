//! JSON types of the API, shared by the server and by clients such as `hailer watch`.
//!
//! All members are always present in responses; unknown values are null. Instants are Unix
//! milliseconds. `openapi.json` describes every member.

use crate::health::State;
use crate::history::{Gap, Point};
use crate::sample::{Millis, PollError, Sample};
use crate::server::{Origin, ServerId};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// One page of the list of servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Servers<'a> {
    /// Servers of this page.
    pub servers: Vec<Server<'a>>,
    /// Number of servers on all pages.
    pub count: usize,
    /// Cursor of the next page; `None`: this is the last page.
    pub next: Option<String>,
}

/// A monitored server. The monitor borrows the texts from its row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Server<'a> {
    /// Id; never reused.
    pub id: ServerId,
    /// Unique name of the server.
    pub name: Cow<'a, str>,
    /// Address with protocol, as configured.
    pub target: Cow<'a, str>,
    /// Id of the protocol.
    pub protocol: Cow<'a, str>,
    /// Group; empty: none.
    pub group: Cow<'a, str>,
    /// Configured labels of the server.
    pub labels: Cow<'a, BTreeMap<String, String>>,
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
    pub error: Option<Cow<'a, PollError>>,
    /// Last status; kept while the server is down.
    pub last_status: Option<Status<'a>>,
}

/// A server with all details. `A`: type of the answer, by default its JSON text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerDetails<'a, A = Box<RawValue>> {
    /// The members of a list entry.
    #[serde(flatten)]
    pub server: Server<'a>,
    /// Names of players online; empty if the monitor does not publish them.
    pub players: Vec<Cow<'a, str>>,
    /// Players in the last 24 hours.
    pub day: Day,
    /// Last answer, if it is stored and published.
    pub last_answer: Option<A>,
}

/// Last status that a server reported, without formatting. Untrusted texts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status<'a> {
    /// Time of the answer, in Unix milliseconds.
    pub at_ms: Millis,
    /// Address that answered.
    pub address: Option<SocketAddr>,
    /// Name of the server, else the first readable line of its MOTD.
    pub title: Option<Cow<'a, str>>,
    /// MOTD; may have several lines.
    pub motd: Option<Cow<'a, str>>,
    /// Name of the game.
    pub game: Option<Cow<'a, str>>,
    /// Version of game or server.
    pub version: Option<Cow<'a, str>>,
    /// Name of the map or world.
    pub map: Option<Cow<'a, str>>,
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
    pub roster: Cow<'a, str>,
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
