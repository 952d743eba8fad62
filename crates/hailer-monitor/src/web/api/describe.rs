//! Conversion of the monitor's state to the JSON types of the API.

use super::types::{Day, Event, Server, ServerDetails, Status};
use crate::sample::{EventKind, Millis};
use crate::state::{DAY_BUCKET_MS, DAY_BUCKETS, LastStatus, ServerRow};
use compact_str::CompactString;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::time::Duration;

/// Returns a row as an entry of a list.
pub(super) fn server(row: &ServerRow, now: Millis) -> Server<'_> {
    let server = &*row.server;
    Server {
        id: server.id,
        name: (&server.name).into(),
        target: (&server.target).into(),
        protocol: row.protocol().into(),
        group: (&server.group).into(),
        labels: Cow::Borrowed(&server.labels),
        interval_s: server.interval.map(|interval| interval.as_secs_f64()),
        origin: server.origin,
        state: row.state,
        is_flapping: row.is_flapping,
        since_ms: (row.since > 0).then_some(row.since),
        uptime_share: row.day.uptime(now).map(|share| round(share, 1e4)),
        last_sample: row.last_sample,
        error: row.error.as_deref().map(Cow::Borrowed),
        last_status: row.last_status.as_deref().map(status),
    }
}

/// Returns a row with all details. `has_player_names`: whether names of players are included.
pub(super) fn details(row: &ServerRow, now: Millis, has_player_names: bool) -> ServerDetails<'_> {
    let status = row.last_status.as_deref().filter(|_| has_player_names);
    let first = now.div_euclid(DAY_BUCKET_MS) - (DAY_BUCKETS as Millis - 1);
    let mean = |mean: Option<f32>| mean.map(|mean| round(mean, 1e2));
    let players = status.map_or(&[][..], |status| &status.players);
    ServerDetails {
        server: server(row, now),
        players: players.iter().map(|name| name.as_str().into()).collect(),
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
    if let Some(change) = event.kind.change() {
        json.from.clone_from(&change.from);
        json.to.clone_from(&change.to);
    } else if let EventKind::Down { reason } = event.kind {
        json.reason = Some(reason);
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

fn round(number: f32, parts: f64) -> f64 {
    (f64::from(number) * parts).round() / parts
}

fn status(status: &LastStatus) -> Status<'_> {
    fn text(text: &Option<CompactString>) -> Option<Cow<'_, str>> {
        text.as_deref().map(Cow::Borrowed)
    }
    Status {
        at_ms: status.at,
        address: status.address,
        title: text(&status.title),
        motd: status.motd.as_ref().map(|motd| motd.plain().into()),
        game: text(&status.game),
        version: text(&status.version),
        map: text(&status.map),
        players_max: status.max,
        has_password: status.has_password,
        has_anti_cheat: status.has_anti_cheat,
        bots: status.bots,
        roster: status.roster().into(),
        icon: status.icon.map(|icon| icon.path()),
    }
}
