//! Measures the cost of 100,000 servers. Run: `cargo test --release -p hailer-monitor --test
//! history speed -- --ignored --nocapture`.

use super::*;
use hailer_monitor::history::{Batch, Level, Retention};
use hailer_monitor::state::StateTable;
use std::time::Instant;

const SERVERS: i64 = 100_000;
const MINUTES: Millis = 12;

#[test]
#[ignore = "a measurement"]
fn sqlite_writes_100k_samples_per_minute() {
    let folder = Folder::new("speed");
    runtime().block_on(measure(&folder.url(), || size(&folder)));
}

#[test]
#[ignore = "a measurement"]
fn postgres_writes_100k_samples_per_minute() {
    let Some(server) = postgres::Server::start("speed") else {
        return;
    };
    runtime().block_on(measure(&server.url(), || 0));
}

async fn measure(url: &str, size: impl Fn() -> u64) {
    let history = History::open(url).await.unwrap();
    let start = 1_760_000_400_000;
    let mut writing = 0.0;
    let mut tidying = 0.0;
    let mut longest = 0.0_f64;
    let before = size();
    for minute in 0..MINUTES {
        let cpu = cpu_seconds();
        for batch in 0..20 {
            // As in a running monitor, the samples are spread over the minute.
            let samples = (0..SERVERS / 20).map(|number| {
                let order = batch * SERVERS / 20 + number;
                let server = ServerId(order * 7_919 % SERVERS + 1);
                let at = start + minute * MINUTE + order * MINUTE / SERVERS;
                sample(server, at, (server.0 * 31 + minute) as u32 % 60)
            });
            history
                .write(&Batch {
                    samples: samples.collect(),
                    ..Batch::default()
                })
                .await
                .unwrap();
        }
        writing += cpu_seconds() - cpu;
        let cpu = cpu_seconds();
        let time = Instant::now();
        history
            .tidy(start + (minute + 1) * MINUTE, &Retention::default())
            .await
            .unwrap();
        tidying += cpu_seconds() - cpu;
        longest = longest.max(time.elapsed().as_secs_f64());
    }
    println!(
        "writing: {:.3} s of CPU a minute; tidying: {:.3} s of CPU a minute, at most {longest:.2} s",
        writing / MINUTES as f64,
        tidying / MINUTES as f64,
    );
    for (level, hours) in [
        (Level::Raw, 1),
        (Level::FiveMinutes, 24),
        (Level::Hour, 24 * 30),
    ] {
        let time = Instant::now();
        let series = history
            .series(ServerId(77), start - hours * HOUR, start + HOUR, level)
            .await
            .unwrap();
        println!(
            "{level:?}: {} points in {:.1} ms",
            series.len(),
            time.elapsed().as_secs_f64() * 1e3
        );
    }
    let time = Instant::now();
    let state = StateTable::default();
    history
        .load_day(&state, start + MINUTES * MINUTE)
        .await
        .unwrap();
    println!(
        "a day of half hours in {:.1} ms; {} MiB resident",
        time.elapsed().as_secs_f64() * 1e3,
        resident_mib()
    );
    // Closing moves the WAL into the database file.
    history.close().await;
    println!(
        "{:.1} bytes a sample with its roll-ups",
        (size() - before) as f64 / (SERVERS * MINUTES) as f64
    );
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.split_whitespace()
        .next()
        .unwrap()
        .parse::<u64>()
        .unwrap()
        / 1024
}

fn size(folder: &Folder) -> u64 {
    let files = std::fs::read_dir(folder.path()).unwrap().flatten();
    files
        .filter(|file| file.file_name().to_string_lossy().ends_with(".db"))
        .map(|file| file.metadata().unwrap().len())
        .sum()
}
