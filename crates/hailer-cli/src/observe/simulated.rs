//! Snapshots of a simulated responder, as a pure function of time: for tests and for `hailer top`.

use super::snapshot::{Budget, Counts, Listener, Prefix, Relay, Snapshot, Source, State};

/// Returns the snapshot `seconds` after the start.
pub(crate) fn snapshot(seconds: f64) -> Snapshot {
    let listener = |i: u64, address: &str, protocols: &[&str]| {
        let mut counts = Counts::default();
        for (j, protocol) in protocols.iter().enumerate() {
            // UGP does not verify addresses.
            let kinds: &[&str] = if *protocol == "ugp" {
                &["unverified"]
            } else {
                &["answer", "unverified"]
            };
            for (k, kind) in kinds.iter().enumerate() {
                let pace = 400.0 / (1 + i * 7 + j as u64 * 3 + k as u64) as f64;
                counts.reply(protocol, kind, grown(pace, i + k as u64, seconds));
            }
            let asked = counts.of(protocol) + grown(9.0 / (i + 1) as f64, 5, seconds);
            counts.requests.insert((*protocol).into(), asked);
        }
        let replies: u64 = protocols.iter().map(|protocol| counts.of(protocol)).sum();
        counts.unverified = protocols
            .iter()
            .map(|protocol| counts.answers[*protocol]["unverified"])
            .sum();
        counts.answered = replies - counts.unverified;
        for (reason, pace) in [
            ("token", 9.0),
            ("budget", 55.0),
            ("no query", 2.0),
            ("malformed", 0.4),
        ] {
            counts.drop(reason, grown(pace / (i + 1) as f64, i + 5, seconds));
        }
        counts.relayed = if i == 0 { grown(31.0, 3, seconds) } else { 0 };
        counts.relayed_back = counts.relayed * 3;
        counts.lost = grown(0.1, i, seconds);
        counts.received = replies + counts.all_dropped() + counts.relayed;
        counts.received_bytes = counts.received * 19;
        counts.sent_bytes = replies * 312;
        Listener {
            address: address.into(),
            protocols: protocols.iter().map(|id| (*id).into()).collect(),
            counts,
        }
    };
    let wave = (seconds / 9.0).sin();
    let per_second = 1 << 20;
    Snapshot {
        pid: 4711,
        started_at_ms: 1_795_000_000_000,
        uptime_s: seconds,
        workers: 2,
        listeners: vec![
            listener(0, "0.0.0.0:25565", &["minecraft-query", "onequery"]),
            listener(
                1,
                "[2001:db8:1234:5678::25:565]:25565",
                &["minecraft-query"],
            ),
            listener(2, "0.0.0.0:22000", &["ugp"]),
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
        sources: vec![
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
        ],
        top: (0..12_u32)
            .map(|i| Prefix {
                prefix: match i {
                    3 => "2001:db8:1234:5600::/56".into(),
                    i => format!("203.0.{}.0/24", 113 + i),
                },
                packets_per_s: (900.0 + 300.0 * wave) / f64::from(1 + i),
                bytes_per_s: (17_100.0 + 5_700.0 * wave) / f64::from(1 + i),
                // The first network sends a flood.
                replies_per_s: if i == 0 {
                    3.0
                } else {
                    500.0 / f64::from(1 + i)
                },
                reply_bytes_per_s: if i == 0 {
                    48.0
                } else {
                    250_000.0 / f64::from(1 + i)
                },
            })
            .collect(),
        ..Snapshot::default()
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
