//! Servers as JSON. All members are always present; unknown values are null.

use crate::sample::{EventKind, Millis, Sample};
use crate::state::{LastStatus, ServerRow};
use crate::web::find::protocol;
use crate::{health, state};
use serde::Serialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

/// A server in a list.
#[derive(Serialize)]
pub(super) struct Shown {
    id: i64,
    name: String,
    target: String,
    protocol: String,
    group: String,
    labels: BTreeMap<String, String>,
    interval_s: Option<f64>,
    origin: crate::server::Origin,
    state: health::State,
    is_flapping: bool,
    since: Option<Millis>,
    uptime: Option<f64>,
    last: Option<SampleJson>,
    error: Option<ErrorJson>,
    said: Option<LastAnswer>,
}

/// A server with details.
#[derive(Serialize)]
pub(super) struct ServerDetails {
    #[serde(flatten)]
    shown: Shown,
    players: Vec<String>,
    day: Day,
    answer: Option<Box<RawValue>>,
}

/// The last sample.
#[derive(Serialize)]
pub(super) struct SampleJson {
    at: Millis,
    answered: bool,
    players: Option<u32>,
    max: Option<u32>,
    latency_ms: Option<f64>,
    sent: u16,
    resent: u16,
}

#[derive(Serialize)]
struct ErrorJson {
    kind: String,
    message: String,
}

#[derive(Serialize)]
struct LastAnswer {
    at: Millis,
    address: Option<SocketAddr>,
    title: Option<String>,
    motd: Option<String>,
    game: Option<String>,
    version: Option<String>,
    map: Option<String>,
}

/// Players in the last 24 hours, in half hours.
#[derive(Serialize)]
struct Day {
    from: Millis,
    step: Millis,
    players: Vec<Option<f64>>,
}

/// An event.
#[derive(Serialize)]
pub(super) struct EventJson {
    server_id: i64,
    server: Option<String>,
    at: Millis,
    kind: &'static str,
    reason: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

impl Shown {
    pub(super) fn new(row: &ServerRow, now: Millis) -> Self {
        let server = &*row.server;
        Self {
            id: server.id.0,
            name: server.name.clone(),
            target: server.target.clone(),
            protocol: protocol(server).to_owned(),
            group: server.group.clone(),
            labels: server.labels.clone(),
            interval_s: server.interval.map(|interval| interval.as_secs_f64()),
            origin: server.origin,
            state: row.state,
            is_flapping: row.is_flapping,
            since: (row.since > 0).then_some(row.since),
            uptime: row.day.uptime(now).map(|share| round(share, 1e4)),
            last: row.last_sample.map(SampleJson::from),
            error: row.error.as_deref().map(|(kind, message)| ErrorJson {
                kind: kind.clone(),
                message: message.clone(),
            }),
            said: row.last_status.as_deref().map(LastAnswer::from),
        }
    }
}

impl ServerDetails {
    /// `shows_players`: whether names of players are included.
    pub(super) fn new(row: &ServerRow, now: Millis, shows_players: bool) -> Self {
        let said = row.last_status.as_deref().filter(|_| shows_players);
        let first = now.div_euclid(state::DAY_BUCKET_MS) - (state::DAY_BUCKETS as Millis - 1);
        Self {
            shown: Shown::new(row, now),
            players: said
                .map(|said| said.players.iter().map(ToString::to_string).collect())
                .unwrap_or_default(),
            day: Day {
                from: first * state::DAY_BUCKET_MS,
                step: state::DAY_BUCKET_MS,
                players: row
                    .day
                    .players(now)
                    .map(|mean| mean.map(|mean| round(mean, 1e2)))
                    .into(),
            },
            answer: said.and_then(answer),
        }
    }
}

/// Returns the last answer as JSON.
pub(super) fn answer(said: &LastStatus) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(&said.answer).ok()?;
    RawValue::from_string(text.trim_end().to_owned()).ok()
}

/// Converts a number of seconds.
pub(super) fn interval(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds)
        .ok()
        .map(|time| Duration::from_millis(time.as_millis() as u64))
}

/// Converts microseconds to milliseconds, with up to three decimals.
pub(super) fn milliseconds(micros: u32) -> f64 {
    f64::from(micros) / 1e3
}

fn round(number: f32, parts: f64) -> f64 {
    (f64::from(number) * parts).round() / parts
}

impl From<Sample> for SampleJson {
    fn from(sample: Sample) -> Self {
        let Sample {
            server: _,
            at,
            answered,
            players,
            max,
            latency,
            sent,
            resent,
        } = sample;
        Self {
            at,
            answered,
            players,
            max,
            latency_ms: latency.map(milliseconds),
            sent,
            resent,
        }
    }
}

impl From<&LastStatus> for LastAnswer {
    fn from(said: &LastStatus) -> Self {
        Self {
            at: said.at,
            address: said.address,
            title: said.title.clone().map(Into::into),
            motd: said.motd.as_ref().map(|motd| motd.plain()),
            game: said.game.clone().map(Into::into),
            version: said.version.clone().map(Into::into),
            map: said.map.clone().map(Into::into),
        }
    }
}

impl EventJson {
    pub(super) fn new(event: crate::sample::Event, name: Option<String>) -> Self {
        let kind = event.kind.word();
        let (mut reason, mut from, mut to) = (None, None, None);
        match event.kind {
            EventKind::Down { reason: word } => reason = Some(word),
            EventKind::Version(difference)
            | EventKind::Map(difference)
            | EventKind::Motd(difference)
            | EventKind::Address(difference) => (from, to) = (difference.from, difference.to),
            EventKind::Up | EventKind::Flapping | EventKind::Steady => {}
        }
        Self {
            server_id: event.server.0,
            server: name,
            at: event.at,
            kind,
            reason,
            from,
            to,
        }
    }
}
