//! Roll-ups compared with sums computed by the test, and how long each level is kept.

use super::*;
use hailer_monitor::history::{Batch, Level, Point, Retention};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use std::time::Duration;

const LEVELS: [Level; 3] = [Level::FiveMinutes, Level::Hour, Level::Day];

/// A sample of one of three servers, and the delay in milliseconds before it is written.
type Late = (usize, Millis, Option<u32>, Option<u32>, bool, u16, Millis);

fn samples() -> impl Strategy<Value = Vec<Late>> {
    let at = prop_oneof![0..2 * HOUR, 0..3 * DAY];
    let delay = prop_oneof![8 => Just(2_000), 1 => 0..20 * MINUTE, 1 => 0..2 * DAY];
    let players = proptest::option::of(prop_oneof![0..50_u32, Just(u32::MAX)]);
    let one = (
        0..3_usize,
        at,
        players,
        // The history stores three significant digits.
        proptest::option::of(
            (1..1_000_u32, 0..4_u32).prop_map(|(digits, zeros)| digits * 10_u32.pow(zeros)),
        ),
        any::<bool>(),
        0..9_u16,
        delay,
    );
    proptest::collection::vec(one, 0..120)
}

#[test]
fn sqlite_rolls_up() {
    let runtime = runtime();
    TestRunner::new(Config {
        cases: 12,
        failure_persistence: None,
        ..Config::default()
    })
    .run(&(samples(), 0..3 * DAY), |(samples, stop)| {
        runtime.block_on(async {
            rolls_up(
                &History::open("sqlite::memory:").await.unwrap(),
                &samples,
                stop,
            )
            .await;
        });
        Ok(())
    })
    .unwrap();
}

#[test]
fn postgres_rolls_up() {
    let Some(server) = postgres::Server::start("rollups") else {
        return;
    };
    let runtime = runtime();
    let case = std::cell::Cell::new(0);
    TestRunner::new(Config {
        cases: 2,
        failure_persistence: None,
        ..Config::default()
    })
    .run(&(samples(), 0..3 * DAY), |(samples, stop)| {
        case.set(case.get() + 1);
        let url = server.database(&format!("case{}", case.get()));
        runtime.block_on(async {
            let history = History::open(&url).await.unwrap();
            rolls_up(&history, &samples, stop).await;
            history.close().await;
        });
        Ok(())
    })
    .unwrap();
}

/// Writes the samples in order of time, some of them late. The monitor pauses for half a day at
/// `stop`.
async fn write(history: &History, samples: Vec<Sample>) {
    let batch = Batch {
        samples,
        ..Batch::default()
    };
    history.write(&batch).await.unwrap();
}

async fn rolls_up(history: &History, samples: &[Late], stop: Millis) {
    let mut servers = Vec::new();
    for name in ["a", "b", "c"] {
        servers.push(add(history, name).await.id);
    }
    let mut all: BTreeMap<(ServerId, Millis), (Millis, Sample)> = BTreeMap::new();
    for &(server, at, players, latency, is_answered, sent, delay) in samples {
        let server = servers[server];
        let sample = Sample {
            observed_ms: 1_000 + sent as u32,
            server,
            at,
            is_answered,
            players,
            max: players,
            latency,
            sent,
            resent: sent / 2,
        };
        all.entry((server, at)).or_insert((at + delay, sample));
    }
    let mut waiting: Vec<(Millis, Sample)> = all.values().copied().collect();
    let mut now = 0;
    while now < 6 * DAY {
        now += if (stop..stop + DAY / 2).contains(&now) {
            DAY / 2
        } else {
            97 * MINUTE
        };
        let due = |&mut (due, _): &mut (Millis, Sample)| due <= now;
        let due = waiting.extract_if(.., due).map(|(_, sample)| sample);
        write(history, due.collect()).await;
        history.tidy(now, &Retention::default()).await.unwrap();
    }
    assert!(waiting.is_empty());
    for level in LEVELS {
        let mut sums = BTreeMap::new();
        for &server in &servers {
            let expected = rolled_up(
                all.values()
                    .map(|(_, sample)| sample)
                    .filter(|sample| sample.server == server),
                level,
            );
            assert_eq!(
                history
                    .series(server, Millis::MIN, Millis::MAX, level)
                    .await
                    .unwrap(),
                expected
            );
            for point in expected {
                let (polls, players): &mut (u32, f64) = sums.entry(point.at).or_default();
                *polls += point.polls;
                *players += point.players.unwrap_or_default();
            }
        }
        let totals = history.totals(0, Millis::MAX, level).await.unwrap();
        assert_eq!(totals.len(), sums.len());
        for total in totals {
            let (polls, players) = sums[&total.at];
            assert_eq!(total.polls, polls);
            if level == Level::FiveMinutes {
                assert!(
                    (total.players.unwrap_or_default() - players).abs() <= 0.006,
                    "{total:?}, not {players}"
                );
            }
        }
    }
}

fn rolled_up<'a>(samples: impl Iterator<Item = &'a Sample>, level: Level) -> Vec<Point> {
    let mut buckets: BTreeMap<Millis, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        buckets
            .entry(sample.at / level.length() * level.length())
            .or_default()
            .push(sample);
    }
    let point = |(at, samples): (Millis, Vec<&Sample>)| {
        let up: Vec<&Sample> = samples
            .iter()
            .copied()
            .filter(|sample| sample.is_answered)
            .collect();
        let observed = |samples: &[&Sample]| {
            let lengths = samples.iter().map(|sample| i64::from(sample.observed_ms));
            lengths.sum::<i64>()
        };
        let players: Vec<u32> = samples.iter().filter_map(|sample| sample.players).collect();
        let latencies: Vec<u32> = samples.iter().filter_map(|sample| sample.latency).collect();
        let mean = |values: &[u32]| {
            let sum = values.iter().copied().map(u64::from).sum::<u64>();
            (!values.is_empty()).then(|| sum as f64 / values.len() as f64)
        };
        Point {
            at,
            polls: samples.len() as u32,
            answered: samples.iter().filter(|sample| sample.is_answered).count() as u32,
            players: mean(&players),
            players_max: players.iter().copied().max(),
            max: players.iter().copied().max(),
            latency: mean(&latencies).map(|mean| mean as u32),
            latency_max: latencies.iter().copied().max(),
            sent: samples.iter().map(|sample| u32::from(sample.sent)).sum(),
            resent: samples.iter().map(|sample| u32::from(sample.resent)).sum(),
            observed_ms: Some(observed(&samples)),
            up_ms: Some(observed(&up)),
        }
    };
    buckets.into_iter().map(point).collect()
}

#[test]
fn sqlite_applies_retention() {
    runtime().block_on(async {
        deletes_expired(&History::open("sqlite::memory:").await.unwrap()).await
    });
}

#[test]
fn postgres_applies_retention() {
    let Some(server) = postgres::Server::start("retention") else {
        return;
    };
    runtime()
        .block_on(async { deletes_expired(&History::open(&server.url()).await.unwrap()).await });
}

async fn deletes_expired(history: &History) {
    const DAYS: Millis = 5;
    // Too many servers to delete in one step.
    let new: Vec<_> = (0..200)
        .map(|number| new(&format!("server-{number}")))
        .collect();
    let servers: Vec<ServerId> = history
        .add_all(&new)
        .await
        .unwrap()
        .iter()
        .map(|server| server.id)
        .collect();
    let of_hour = |hour: Millis| {
        servers
            .iter()
            .map(move |&server| sample(server, hour * HOUR, 10))
    };
    let samples = (0..DAYS * 24).flat_map(of_hour).collect();
    write(history, samples).await;
    let now = DAYS * DAY;
    let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
    let keep = Retention {
        raw: Duration::from_secs(3_600),
        five_minutes: days(1),
        hour: days(2),
        day: days(3),
    };
    history.tidy(now, &keep).await.unwrap();
    let first = async |level| {
        let series = history
            .series(servers[3], 0, Millis::MAX, level)
            .await
            .unwrap();
        assert_eq!(
            history
                .totals(0, Millis::MAX, level)
                .await
                .unwrap()
                .first()
                .map(|point| point.at),
            Some(series[0].at)
        );
        series[0]
    };
    assert_eq!(first(Level::Raw).await.at, now - HOUR);
    assert_eq!(first(Level::FiveMinutes).await.at, now - DAY);
    assert_eq!(first(Level::Hour).await.at, now - 2 * DAY);
    assert_eq!(first(Level::Day).await.at, now - 3 * DAY);

    // Late samples do not change buckets whose samples are already deleted; all others count.
    let late = |at| Sample {
        is_answered: false,
        ..sample(servers[3], at + 1, 1_000)
    };
    let samples = vec![late(now - 2 * HOUR), late(now - 2 * DAY), late(now - HOUR)];
    write(history, samples).await;
    history.tidy(now + 10 * MINUTE, &keep).await.unwrap();
    let at = async |at, level: Level| {
        let series = history
            .series(servers[3], at, at + level.length(), level)
            .await
            .unwrap();
        (series[0].polls, series[0].answered, series[0].players_max)
    };
    assert_eq!(
        at(now - 2 * HOUR, Level::FiveMinutes).await,
        (1, 1, Some(10))
    );
    assert_eq!(at(now - 2 * DAY, Level::Hour).await, (1, 1, Some(10)));
    assert_eq!(
        at(now - HOUR, Level::FiveMinutes).await,
        (2, 1, Some(1_000))
    );
    assert_eq!(at(now - HOUR, Level::Hour).await, (2, 1, Some(1_000)));
    assert_eq!(at(now - DAY, Level::Day).await, (25, 24, Some(1_000)));

    // A server that was removed long ago is deleted completely.
    history.remove(servers[0]).await.unwrap();
    let far = 1 << 50;
    history.tidy(far, &keep).await.unwrap();
    history.tidy(far, &keep).await.unwrap();
    assert_eq!(
        history
            .series(servers[3], 0, Millis::MAX, Level::Day)
            .await
            .unwrap(),
        []
    );
    assert_eq!(
        history.totals(0, Millis::MAX, Level::Day).await.unwrap(),
        []
    );
    assert_eq!(history.servers().await.unwrap().len(), 199);
    assert!(
        add(history, "server-0").await.id > servers[199],
        "its number is not given again"
    );
}
