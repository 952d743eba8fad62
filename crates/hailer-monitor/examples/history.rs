//! Measures the history with simulated servers: bytes, CPU time, and how long reading takes.
//! `cargo run --release -p hailer-monitor --example history -- URL SERVERS HOURS`, with an empty database.
//! The figures are in `docs/scale.md`.

use hailer_monitor::history::{
    Batch, ExportedRollup, History, Level, NewServer, Record, Retention,
};
use hailer_monitor::sample::{Millis, Sample};
use hailer_monitor::server::{Origin, ServerId};
use simulated::SimulatedServer;
use sqlx::Row;
use std::time::{Duration, Instant};

#[path = "../tests/history/simulated.rs"]
mod simulated;

type Failure = Box<dyn std::error::Error>;

const MINUTE: Millis = 60_000;
const HOUR: Millis = 60 * MINUTE;
const DAY: Millis = 24 * HOUR;
const START: Millis = 1_795_219_200_000;
/// Samples of one write: those that 10,000 servers have in a second.
const BATCH: usize = 167;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, servers, hours] = &arguments[..] else {
        return Err("history URL SERVERS HOURS".into());
    };
    let (servers, hours): (i64, Millis) = (servers.parse()?, hours.parse()?);
    let history = History::open(url).await?;
    let pool = sqlx::AnyPool::connect(url).await?;
    let new: Vec<NewServer> = (0..servers).map(server).collect();
    history.add_all(&new).await?;
    let mut simulated: Vec<_> = (1..=servers)
        .map(|id| SimulatedServer::new(ServerId(id)))
        .collect();

    let before = Usage::now(url, &pool).await?;
    let mut longest = Duration::ZERO;
    let mut tidying = Duration::ZERO;
    let mut cpu = 0.0;
    for minute in 0..hours * 60 {
        let start = START + minute * MINUTE;
        let sample = |(nth, server): (usize, &mut SimulatedServer)| {
            let phase = nth as Millis * MINUTE / servers;
            server.sample(start + phase, MINUTE as u32)
        };
        let of_simulation = cpu_seconds();
        let samples: Vec<Sample> = simulated.iter_mut().enumerate().map(sample).collect();
        cpu -= cpu_seconds() - of_simulation;
        for samples in samples.chunks(BATCH.max(samples.len() / 60)) {
            let batch = Batch {
                samples: samples.to_vec(),
                ..Batch::default()
            };
            history.write(&batch).await?;
        }
        let tidied = Instant::now();
        let tidy = async { history.tidy(start + MINUTE, &Retention::default()).await };
        // A writer that tries all the time while the roll-ups run.
        let mut writes = Batch::default();
        let writer = async {
            loop {
                let waits = Instant::now();
                writes.samples = samples[..1].to_vec();
                if history.write(&writes).await.is_err() {
                    return;
                }
                longest = longest.max(waits.elapsed());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            result = tidy => result?,
            () = writer => {}
        }
        tidying += tidied.elapsed();
    }
    let after = Usage::now(url, &pool).await?;
    let count = (servers * hours * 60) as f64;
    println!("{servers} servers, {hours} hours, {count} samples");
    println!(
        "  size: {:.2} bytes per sample",
        (after.size - before.size) / count
    );
    println!(
        "  written: {:.1} bytes per sample",
        (after.written - before.written) / count
    );
    println!(
        "  CPU of this process: {:.2} µs per sample",
        (after.cpu - before.cpu + cpu) / count * 1e6
    );
    println!(
        "  roll-ups: {:.0} samples per second",
        count / tidying.as_secs_f64()
    );
    println!(
        "  longest write during a roll-up: {:.0} ms",
        longest.as_secs_f64() * 1e3
    );

    let some: Vec<i64> = (0..50.min(servers))
        .map(|nth| 1 + nth * servers / 50.min(servers))
        .collect();
    let end = START + hours * HOUR;
    add_years(&history, &some, end).await?;
    read(&history, &some, end).await?;
    read(&history, &some, end).await
}

fn server(nth: i64) -> NewServer {
    NewServer {
        name: format!("server-{nth}"),
        target: format!("ugp://server-{nth}.example.com"),
        group: String::new(),
        labels: Default::default(),
        interval: None,
        origin: Origin::Api,
    }
}

/// Adds roll-ups of a year before the samples to some servers.
async fn add_years(history: &History, some: &[i64], end: Millis) -> Result<(), Failure> {
    let mut records = Vec::new();
    for (level, length) in [(Level::Hour, HOUR), (Level::Day, DAY)] {
        for at in (START - 365 * DAY..START).step_by(length as usize) {
            for id in some {
                let polls = (length / MINUTE) as u32;
                let noise = (at / HOUR * 7_919 + id * 31) % 1_000;
                records.push(Record::Rollup(ExportedRollup {
                    server: format!("server-{}", id - 1),
                    level,
                    at,
                    polls,
                    answered: polls,
                    with_players: polls,
                    players: Some(i64::from(polls) * 20 + noise),
                    players_max: Some(40),
                    max: Some(64),
                    with_latency: polls,
                    latency: Some(i64::from(polls) * 25_000 + noise * 100),
                    latency_max: Some(40_000 + noise as u32 * 10),
                    sent: polls.into(),
                    resent: 0,
                    observed_ms: Some(length),
                    up_ms: Some(length),
                }));
            }
        }
    }
    history
        .import(records.into_iter().map(|record| Ok((0, record))))
        .await?;
    history.tidy(end + MINUTE, &Retention::default()).await?;
    Ok(())
}

async fn read(history: &History, some: &[i64], end: Millis) -> Result<(), Failure> {
    for (what, level, length, count) in [
        ("24 h of one server, samples", Level::Raw, DAY, 1),
        ("24 h of one server, 5 minutes", Level::FiveMinutes, DAY, 1),
        ("a year of one server, days", Level::Day, 365 * DAY, 1),
        ("a year of one server, hours", Level::Hour, 365 * DAY, 1),
        ("30 days of 50 servers, hours", Level::Hour, 30 * DAY, 50),
    ] {
        let mut times = Vec::new();
        let mut points = 0;
        for first in some {
            let started = Instant::now();
            let servers = if count == 1 {
                std::slice::from_ref(first)
            } else {
                some
            };
            for id in servers {
                points = history
                    .series(ServerId(*id), end - length, end, level)
                    .await?
                    .len();
            }
            times.push(started.elapsed());
        }
        times.sort();
        println!(
            "  {what}: {:.1} ms in the middle, {:.1} at most ({points} points)",
            times[times.len() / 2].as_secs_f64() * 1e3,
            times[times.len() - 1].as_secs_f64() * 1e3
        );
    }
    Ok(())
}

/// Returns the CPU time of this process, in seconds.
fn cpu_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten();
    let nanoseconds = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e9
}

struct Usage {
    size: f64,
    written: f64,
    cpu: f64,
}

impl Usage {
    async fn now(url: &str, pool: &sqlx::AnyPool) -> Result<Self, Failure> {
        let ask = async |query: &'static str| -> Result<f64, Failure> {
            Ok(sqlx::query(query)
                .fetch_one(pool)
                .await?
                .try_get::<i64, _>(0)? as f64)
        };
        let (size, written) = if url.starts_with("postgres") {
            let size =
                "SELECT CAST(pg_total_relation_size('recent') + pg_total_relation_size('block')
                          + pg_total_relation_size('edge') AS BIGINT)";
            let wal = "SELECT CAST(pg_current_wal_lsn() - '0/0'::pg_lsn AS BIGINT)";
            (ask(size).await?, ask(wal).await?)
        } else {
            let pages = ask("SELECT page_count FROM pragma_page_count()").await?;
            let size = ask("SELECT page_size FROM pragma_page_size()").await?;
            let io = std::fs::read_to_string("/proc/self/io")?;
            let written = io.lines().find_map(|line| line.strip_prefix("wchar: "));
            (pages * size, written.unwrap_or("0").parse()?)
        };
        Ok(Self {
            size,
            written,
            cpu: cpu_seconds(),
        })
    }
}
