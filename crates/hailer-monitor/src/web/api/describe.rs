//! Conversion of the monitor's state to the JSON types of the API.

use super::types::{Day, Event, PollError, Sample, Server, ServerDetails, Status};
use crate::sample::{EventKind, Millis};
use crate::state::{DAY_BUCKET_MS, DAY_BUCKETS, LastStatus, ServerRow};
use serde_json::value::RawValue;
use std::time::Duration;

/// Converts a row to an entry of a list.
pub(super) fn server(row: &ServerRow, now: Millis) -> Server {
    let server = &*row.server;
    Server {
        id: server.id.0,
        name: server.name.clone(),
        target: server.target.clone(),
        protocol: row.protocol().to_owned(),
        group: server.group.clone(),
        labels: server.labels.clone(),
        interval_s: server.interval.map(|interval| interval.as_secs_f64()),
        origin: server.origin,
        state: row.state,
        is_flapping: row.is_flapping,
        since_ms: (row.since > 0).then_some(row.since),
        uptime_share: row.day.uptime(now).map(|share| round(share, 1e4)),
        last_sample: row.last_sample.map(sample),
        error: row.error.as_deref().map(|(kind, message)| PollError {
            kind: kind.clone(),
            message: message.clone(),
        }),
        last_status: row.last_status.as_deref().map(status),
    }
}

/// Converts a row with all details. `has_player_names`: whether names of players are included.
pub(super) fn details(row: &ServerRow, now: Millis, has_player_names: bool) -> ServerDetails {
    let status = row.last_status.as_deref().filter(|_| has_player_names);
    let first = now.div_euclid(DAY_BUCKET_MS) - (DAY_BUCKETS as Millis - 1);
    let mean = |mean: Option<f32>| mean.map(|mean| round(mean, 1e2));
    ServerDetails {
        server: server(row, now),
        players: status
            .map(|status| status.players.iter().map(ToString::to_string).collect())
            .unwrap_or_default(),
        day: Day {
            from_ms: first * DAY_BUCKET_MS,
            step_ms: DAY_BUCKET_MS,
            players: row.day.players(now).into_iter().map(mean).collect(),
        },
        last_answer: status.and_then(answer),
    }
}

/// Converts an event. `name`: name of its server, if it still exists.
pub(super) fn event(event: crate::sample::Event, name: Option<String>) -> Event {
    let mut json = Event {
        server_id: event.server.0,
        server: name,
        at_ms: event.at,
        kind: event.kind.word().into(),
        reason: None,
        from: None,
        to: None,
    };
    match event.kind {
        EventKind::Down { reason } => json.reason = Some(reason),
        EventKind::Version(difference)
        | EventKind::Map(difference)
        | EventKind::Motd(difference)
        | EventKind::Address(difference)
        | EventKind::Protocol(difference) => {
            json.from = difference.from;
            json.to = difference.to;
        }
        EventKind::Up | EventKind::Flapping | EventKind::Steady => {}
    }
    json
}

/// Returns the last answer as JSON.
fn answer(status: &LastStatus) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(&status.answer).ok()?;
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

fn sample(sample: crate::sample::Sample) -> Sample {
    Sample {
        at_ms: sample.at,
        is_answered: sample.is_answered,
        players_online: sample.players,
        players_max: sample.max,
        latency_ms: sample.latency.map(milliseconds),
        datagrams_sent: sample.sent,
        datagrams_resent: sample.resent,
    }
}

fn status(status: &LastStatus) -> Status {
    Status {
        at_ms: status.at,
        address: status.address,
        title: status.title.clone().map(Into::into),
        motd: status.motd.as_ref().map(|motd| motd.plain()),
        game: status.game.clone().map(Into::into),
        version: status.version.clone().map(Into::into),
        map: status.map.clone().map(Into::into),
        players_max: status.max,
        has_password: status.has_password,
        has_anti_cheat: status.has_anti_cheat,
        bots: status.bots,
        roster: status.roster().into(),
        icon: status.icon.map(|icon| icon.path()),
    }
}
