//! Snapshots of a simulated responder, as a pure function of time: for tests and for `hailer top`.

use crate::observe::snapshot::{
    Budget, Counts, Door, Listener, Prefix, Relay, Snapshot, Source, State,
};
use hailer::door::State as DoorState;

/// Returns the snapshot `seconds` after the start.
pub(crate) fn snapshot(seconds: f64) -> Snapshot {
    let wave = (seconds / 9.0).sin();
    let per_second = 1 << 20;
    Snapshot {
        pid: 4711,
        started_at_ms: 1_795_000_000_000,
        uptime_s: seconds,
        workers: 2,
        listeners: vec![
            listener(
                0,
                "0.0.0.0:25565",
                &["minecraft-query", "onequery"],
                seconds,
            ),
            listener(
                1,
                "[2001:db8:1234:5678::25:565]:25565",
                &["minecraft-query"],
                seconds,
            ),
            listener(2, "0.0.0.0:22000", &["ugp"], seconds),
        ],
        budget: Budget {
            left_bytes: (per_second as f64 * (0.55 + 0.44 * wave)) as u64,
            bytes_per_s: per_second,
            networks: (4096.0 + 4000.0 * wave) as u64,
            networks_max: 8192,
        },
        relay: Relay {
            sessions: (40.0 + 20.0 * wave) as u64,
            sessions_max: 4096,
        },
        sources: sources(seconds),
        doors: doors(seconds),
        top: (0..12).map(|number| prefix(number, wave)).collect(),
        ..Snapshot::default()
    }
}

/// Returns the listener with this number, from 0. The first one has a relay.
fn listener(number: u64, address: &str, protocols: &[&str], seconds: f64) -> Listener {
    let share = (number + 1) as f64;
    let mut counts = Counts::default();
    for (i, protocol) in protocols.iter().enumerate() {
        // UGP does not verify addresses.
        let kinds: &[&str] = if *protocol == "ugp" {
            &["unverified"]
        } else {
            &["answer", "unverified"]
        };
        for (j, kind) in kinds.iter().enumerate() {
            let pace = 400.0 / (1 + number * 7 + i as u64 * 3 + j as u64) as f64;
            counts.reply(protocol, kind, grown(pace, number + j as u64, seconds));
        }
        let requests = counts.of(protocol) + grown(9.0 / share, 5, seconds);
        counts.requests.insert((*protocol).into(), requests);
        counts.unverified += counts.answers[*protocol]["unverified"];
    }
    let replies: u64 = protocols.iter().map(|protocol| counts.of(protocol)).sum();
    counts.answered = replies - counts.unverified;
    for (reason, pace) in [
        ("token", 9.0),
        ("budget", 55.0),
        ("no query", 2.0),
        ("malformed", 0.4),
    ] {
        counts.drop(reason, grown(pace / share, number + 5, seconds));
    }
    if number == 0 {
        counts.relayed = grown(31.0, 3, seconds);
    }
    counts.relayed_back = counts.relayed * 3;
    counts.lost = grown(0.1, number, seconds);
    counts.received = replies + counts.all_dropped() + counts.relayed;
    counts.received_bytes = counts.received * 19;
    counts.sent_bytes = replies * 312;
    Listener {
        address: address.into(),
        protocols: protocols.iter().map(|id| (*id).into()).collect(),
        counts,
    }
}

/// Returns a source in each state.
fn sources(seconds: f64) -> Vec<Source> {
    vec![
        source("lobby", "file", Some(seconds % 3.0), State::Fresh, None),
        source(
            "survival",
            "poll",
            Some(4.0 + seconds % 60.0),
            State::Stale,
            Some("no answer in 3.0 s"),
        ),
        source(
            "a network with quite a long name",
            "redis",
            Some(7200.0 + seconds),
            State::Silent,
            Some("Redis at 127.0.0.1:6379: connection refused"),
        ),
        source("creative", "push", None, State::Never, None),
    ]
}

/// Returns a sleeping game, a running one, and one that failed.
fn doors(seconds: f64) -> Vec<Door> {
    let door = |name: &str, state| Door {
        name: name.into(),
        state,
        since_s: 90.0 + seconds,
        ..Door::default()
    };
    vec![
        Door {
            starts: 12,
            idle_stops: 12,
            refused_joins: 3,
            last_start_s: Some(42.5),
            asleep_s: 250_000.0 + seconds,
            ..door("survival", DoorState::Asleep)
        },
        Door {
            woken_by: Some("\"Alice\" at 192.0.2.7".into()),
            starts: 3,
            idle_stops: 2,
            visits: 2,
            players: Some(2),
            last_start_s: Some(9.0),
            asleep_s: 40_000.0,
            ..door("creative", DoorState::Running)
        },
        Door {
            woken_by: Some("the operator".into()),
            starts: 1,
            failed_starts: 1,
            held_joins: 5,
            last_error: Some("no answer in 5min".into()),
            ..door("modded", DoorState::Failed)
        },
    ]
}

/// Returns the source network with this number, from 0. The first one sends a flood.
fn prefix(number: u32, wave: f64) -> Prefix {
    let share = f64::from(1 + number);
    let is_flood = number == 0;
    Prefix {
        prefix: match number {
            3 => "2001:db8:1234:5600::/56".into(),
            number => format!("203.0.{}.0/24", 113 + number),
        },
        packets_per_s: (900.0 + 300.0 * wave) / share,
        bytes_per_s: (17_100.0 + 5_700.0 * wave) / share,
        replies_per_s: if is_flood { 3.0 } else { 500.0 / share },
        reply_bytes_per_s: if is_flood { 48.0 } else { 250_000.0 / share },
    }
}

/// Returns a counter that grows at a varying rate.
fn grown(pace: f64, phase: u64, seconds: f64) -> u64 {
    let slow = 10.0 + phase as f64;
    (pace * (seconds + slow * 0.9 * (seconds / slow).sin())) as u64
}

fn source(
    name: &str,
    kind: &str,
    age_s: Option<f64>,
    state: State,
    last_error: Option<&str>,
) -> Source {
    Source {
        name: name.into(),
        kind: kind.into(),
        age_s,
        state,
        last_error: last_error.map(Into::into),
    }
}
