//! The history: what samples of a fleet, polled once a minute, cost to write, to summarize and to
//! read.
//!
//! In: samples of a simulated fleet. Out: time and size of the database.
//!
//! May import: `crate::host`, `crate::report`, `hailer_monitor`, `hailer_testkit`.

use crate::host;
use crate::report::heading;
use anyhow::Context;
use hailer_monitor::history::{Batch, History, Level, Retention};
use hailer_monitor::sample::{Millis, Sample};
use hailer_monitor::server::ServerId;
use hailer_monitor::state::StateTable;
use hailer_testkit::folder::Folder;
use hailer_testkit::postgres;
use std::time::Instant;

const MINUTE: Millis = 60_000;
const HOUR: Millis = 60 * MINUTE;
/// Minutes of samples that are written.
const MINUTES: Millis = 12;
/// Batches per minute. As in a running monitor, the samples are spread over the minute.
const BATCHES: i64 = 20;
/// Time of the first sample in Unix milliseconds.
const START: Millis = 1_760_000_400_000;

/// Measures SQLite, and PostgreSQL if it is installed.
pub(crate) fn history(targets: u32) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    heading(&format!("history of {targets} servers in SQLite"));
    let folder = Folder::new("bench");
    runtime.block_on(measure(&folder.url(), targets.into()))?;
    let samples = i64::from(targets) / BATCHES * BATCHES * MINUTES;
    println!(
        "  {:.1} bytes per sample, with its roll-ups",
        size(&folder)? as f64 / samples as f64
    );
    heading(&format!("history of {targets} servers in PostgreSQL"));
    match postgres::Server::start("bench-history") {
        Some(server) => runtime.block_on(measure(&server.url(), targets.into())),
        None => Ok(()),
    }
}

async fn measure(url: &str, servers: i64) -> anyhow::Result<()> {
    let history = History::open(url).await?;
    let of_batch = servers / BATCHES;
    let cpu = || host::cpu_of(std::process::id()).context("the CPU time of this process");
    let mut writing = 0.0;
    let mut summarizing = 0.0;
    let mut longest = 0.0_f64;
    for minute in 0..MINUTES {
        let before = cpu()?;
        for batch in 0..BATCHES {
            let samples = (0..of_batch).map(|number| {
                let order = batch * of_batch + number;
                let server = ServerId(order * 7_919 % servers + 1);
                let at = START + minute * MINUTE + order * MINUTE / servers;
                sample(server, at, (server.0 * 31 + minute) as u32 % 60)
            });
            history
                .write(&Batch {
                    samples: samples.collect(),
                    ..Batch::default()
                })
                .await?;
        }
        writing += cpu()? - before;
        let before = cpu()?;
        let started = Instant::now();
        history
            .tidy(START + (minute + 1) * MINUTE, &Retention::default())
            .await?;
        summarizing += cpu()? - before;
        longest = longest.max(started.elapsed().as_secs_f64());
    }
    println!(
        "  CPU of this process per minute of samples: {:.3} s to write, {:.3} s to summarize and delete; longest pause {longest:.2} s",
        writing / MINUTES as f64,
        summarizing / MINUTES as f64,
    );
    for (level, hours) in [
        (Level::Raw, 1),
        (Level::FiveMinutes, 24),
        (Level::Hour, 24 * 30),
    ] {
        let started = Instant::now();
        let from = START - hours * HOUR;
        let series = history
            .series(ServerId(77), from, START + HOUR, level)
            .await?;
        println!(
            "  {level:?}: {} points of one server in {:.1} ms",
            series.len(),
            started.elapsed().as_secs_f64() * 1e3
        );
    }
    let started = Instant::now();
    let state = StateTable::default();
    history.load_day(&state, START + MINUTES * MINUTE).await?;
    println!(
        "  the last day of all servers in {:.1} ms; peak memory {} MiB",
        started.elapsed().as_secs_f64() * 1e3,
        host::peak(std::process::id()).context("the memory of this process")? / 1_024
    );
    // Closing moves the write-ahead log of SQLite into the database file.
    history.close().await;
    Ok(())
}

/// Returns a sample with an answer.
pub(crate) fn sample(server: ServerId, at: Millis, players: u32) -> Sample {
    Sample {
        server,
        at,
        is_answered: true,
        players: Some(players),
        max: Some(100),
        latency: Some(20_000 + players),
        sent: 2,
        resent: 0,
        observed_ms: 60_000,
    }
}

/// Returns the size of the databases in a folder, in bytes.
fn size(folder: &Folder) -> anyhow::Result<u64> {
    let mut size = 0;
    for file in std::fs::read_dir(folder.path())? {
        let file = file?;
        if file.path().extension().is_some_and(|end| end == "db") {
            size += file.metadata()?.len();
        }
    }
    Ok(size)
}
