//! Simulated history of one year: imported roll-ups, and samples, events and sessions written as by
//! a monitor.

use super::server::{DAY, HOUR, MINUTE, MINUTES, SimulatedServer};
use hailer_monitor::history::{
    Batch, ExportedRollup, History, HistoryError, Level, PlayerSession, Record,
};
use hailer_monitor::sample::{Event, EventKind, Millis, Sample, ValueChange};
use hailer_monitor::server::{Server, ServerId};

/// Number of days with daily roll-ups.
const DAILY_DAYS: i64 = 366;
/// Number of days with hourly roll-ups.
const HOURLY_DAYS: i64 = 31;
/// Time span with single samples.
const RAW_MS: Millis = 25 * HOUR;
/// Number of days with player sessions.
const SESSION_DAYS: i64 = 4;
/// Step between the players, and between the minutes, that daily roll-ups are computed from.
const DAILY_STEP: u32 = 8;
/// Number of samples per batch.
const SAMPLES_PER_BATCH: usize = 20_000;
/// Time without replies after which a server counts as down.
const DOWN_AFTER_MS: Millis = MINUTE;

/// Writes the history of these servers until `now`. Imports roll-ups of all levels, since computing
/// them from samples would take several seconds.
pub(super) async fn write(
    history: &History,
    simulated: &[SimulatedServer],
    servers: &[Server],
    now: Millis,
) -> Result<(), HistoryError> {
    let all: Vec<(&SimulatedServer, ServerId)> = simulated
        .iter()
        .zip(servers.iter().map(|server| server.id))
        .collect();
    let raw = (now - RAW_MS).div_euclid(HOUR) * HOUR;
    history
        .import(rollups(simulated, raw, now).map(|record| Ok((0, record))))
        .await?;
    let mut batch = Batch::default();
    for (server, id) in &all {
        samples(server, *id, raw, now, &mut batch.samples);
        if batch.samples.len() >= SAMPLES_PER_BATCH {
            history.write(&std::mem::take(&mut batch)).await?;
        }
    }
    for (server, id) in &all {
        events(server, *id, now, &mut batch.events);
        sessions(server, *id, now, &mut batch.sessions);
    }
    history.write(&batch).await.map(drop)
}

/// Returns roll-ups, oldest first: daily for a year, hourly for a month, and five-minute ones where
/// there are samples.
fn rollups(
    simulated: &[SimulatedServer],
    raw: Millis,
    now: Millis,
) -> impl Iterator<Item = Record> {
    let today = now.div_euclid(DAY);
    let levels = [
        (Level::Day, (today - DAILY_DAYS) * DAY),
        (Level::Hour, (today - HOURLY_DAYS) * DAY),
        (Level::FiveMinutes, raw),
    ];
    levels.into_iter().flat_map(move |(level, from)| {
        let (thinly, each) = if level == Level::Day {
            (DAILY_STEP, DAILY_STEP as usize)
        } else {
            (1, 1)
        };
        let length = (level.length() / MINUTE) as usize;
        (from.div_euclid(DAY)..=today).flat_map(move |day| {
            let minutes: Vec<_> = simulated
                .iter()
                .map(|server| server.minutes(day, thinly))
                .collect();
            let mut records = Vec::new();
            for first in (0..MINUTES).step_by(length) {
                let at = day * DAY + first as Millis * MINUTE;
                if at < from || at >= now {
                    continue;
                }
                // The current bucket is incomplete.
                let last = (first + length).min(((now - day * DAY) / MINUTE) as usize + 1);
                let simulated = simulated.iter().zip(&minutes);
                records.extend(simulated.filter_map(|(server, all)| {
                    rollup(server, level, at, &all[first..last], each)
                }));
            }
            records
        })
    })
}

/// Returns one bucket from the player counts of its minutes. Only every `each`th minute is used.
fn rollup(
    server: &SimulatedServer,
    level: Level,
    start: Millis,
    minutes: &[u32],
    each: usize,
) -> Option<Record> {
    let mut sum = ExportedRollup {
        server: server.name.into(),
        level,
        at: start,
        polls: 0,
        answered: 0,
        with_players: 0,
        players: Some(0),
        players_max: Some(0),
        max: Some(server.max),
        with_latency: 0,
        latency: Some(0),
        latency_max: Some(0),
        sent: 0,
        resent: 0,
        observed_ms: None,
        up_ms: None,
    };
    for (minute, players) in minutes.iter().enumerate().step_by(each) {
        let at = start + minute as Millis * MINUTE;
        if at < server.opened() {
            continue;
        }
        let weight = each as i64;
        sum.polls += each as u32;
        sum.sent += 2 * weight;
        if !server.is_up(at) {
            sum.sent += weight;
            sum.resent += 2 * weight;
            continue;
        }
        sum.resent += weight * i64::from(server.loses(server.random(at as u64, 60)));
        let latency = server.latency(at);
        sum.answered += each as u32;
        sum.players = sum.players.map(|sum| sum + weight * i64::from(*players));
        sum.players_max = sum.players_max.max(Some(*players));
        sum.latency = sum.latency.map(|sum| sum + weight * i64::from(latency));
        sum.latency_max = sum.latency_max.max(Some(latency));
    }
    sum.with_players = sum.answered;
    sum.with_latency = sum.answered;
    if sum.answered == 0 {
        sum.players = None;
        sum.players_max = None;
        sum.max = None;
        sum.latency = None;
        sum.latency_max = None;
    }
    (sum.polls > 0).then_some(Record::Rollup(sum))
}

/// Adds one sample per minute.
fn samples(
    server: &SimulatedServer,
    id: ServerId,
    from: Millis,
    now: Millis,
    samples: &mut Vec<Sample>,
) {
    let phase = (server.random(0, 61) % 60_000) as Millis;
    for day in from.div_euclid(DAY)..=now.div_euclid(DAY) {
        let minutes = server.minutes(day, 1);
        for (minute, players) in (0..MINUTES as Millis).zip(minutes) {
            let at = day * DAY + minute * MINUTE + phase;
            if at < from || at >= now {
                continue;
            }
            let is_up = server.is_up(at);
            let resent = u16::from(server.loses(server.random(at as u64, 60)));
            samples.push(Sample {
                observed_ms: MINUTE as u32,
                server: id,
                at,
                is_answered: is_up,
                players: is_up.then_some(players),
                max: is_up.then_some(server.max),
                latency: is_up.then(|| server.latency(at)),
                sent: if is_up { 2 + resent } else { 3 },
                resent: if is_up { resent } else { 2 },
            });
        }
    }
}

/// Adds the events of the year.
fn events(server: &SimulatedServer, id: ServerId, now: Millis, events: &mut Vec<Event>) {
    let today = now.div_euclid(DAY);
    let mut add = |at, kind| {
        events.push(Event {
            server: id,
            at,
            kind,
        })
    };
    let silence = || EventKind::Down {
        reason: "silence".into(),
    };
    add(
        server.opened().max((today - DAILY_DAYS) * DAY),
        EventKind::Up,
    );
    let mut version = server.version((today - DAILY_DAYS) * DAY);
    for day in today - DAILY_DAYS..=today {
        if let Some((from, to)) = server.outage(day) {
            add(from + DOWN_AFTER_MS, silence());
            add(to, EventKind::Up);
        }
        let at = (day * DAY + 9 * HOUR).min(now);
        let next = server.version(at);
        if next != version && at > server.opened() {
            add(
                at,
                EventKind::Version(ValueChange {
                    from: version,
                    to: next.clone(),
                }),
            );
        }
        version = next;
    }
    if let Some(since) = server.down_since() {
        add(since + DOWN_AFTER_MS, silence());
    }
}

/// Adds the sessions of the last days.
fn sessions(
    server: &SimulatedServer,
    id: ServerId,
    now: Millis,
    sessions: &mut Vec<PlayerSession>,
) {
    // The monitor records no sessions of samples either.
    if !server.lists_all_players() {
        return;
    }
    let today = now.div_euclid(DAY);
    for day in today - SESSION_DAYS..=today + 1 {
        for (member, from, to) in server.sessions(day).filter(|(_, from, _)| *from < now) {
            // An outage ends all sessions.
            let last = to.min(now);
            if server.is_up(from) && server.is_up(last - 1) {
                sessions.push(PlayerSession {
                    server: id,
                    player: server.name_of(member),
                    first: from,
                    last,
                });
            }
        }
    }
}
