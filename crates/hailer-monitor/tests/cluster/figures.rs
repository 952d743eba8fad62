//! Measures the figures of docs/scale.md. Run: `cargo test --release -p hailer-monitor --test
//! cluster figures -- --ignored --nocapture`.

use super::*;
use crate::monitor::{FIGURES, Process};
use hailer_monitor::history::{Batch, Retention};
use hailer_monitor::sample::Sample;
use hailer_monitor::server::ServerId;
use std::net::UdpSocket;

const FLEET: u32 = 40_000;
const TIME: Duration = Duration::from_secs(24);
/// The data written at the end of the test is from 2023.
const KEEP: Duration = Duration::from_secs(10 * 365 * 86_400);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn figures() {
    let Some(postgres) = postgres::Server::start("figures") else {
        return;
    };
    let redis = redis_server::Server::start();
    let port = farm();
    let (asked, told) = exchange(port);
    println!(
        "an exchange: {asked:.0} bytes asked, {told:.0} bytes told, payload of UDP, two datagrams each way"
    );
    let history = History::open(&postgres.url()).await.unwrap();
    let all: Vec<NewServer> = (1..=FLEET).map(|number| server(number, port)).collect();
    history.add_all(&all).await.unwrap();
    let pool = sqlx::AnyPool::connect(&postgres.url()).await.unwrap();
    let mut raw = redis.raw();
    let start = |roles: &str| Process::start_as(&redis.url(), &postgres.url(), roles, FIGURES);
    let processes = [
        ("poll", start("poll")),
        ("write", start("write")),
        ("page", start("page")),
    ];
    until(
        "each server has a sample",
        Duration::from_secs(60),
        async || {
            count(&pool, "SELECT COUNT(DISTINCT server) FROM sample").await == i64::from(FLEET)
        },
    )
    .await;
    // Leave out the cost of the start, where all states and all statuses are written.
    tokio::time::sleep(FIGURES).await;

    let cpu = |id: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .unwrap()
            .1
            .split_whitespace()
            .collect();
        (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
    };
    let size = "SELECT pg_total_relation_size('sample') + pg_total_relation_size('event')";
    let wal = "SELECT CAST(pg_current_wal_lsn() - '0/0'::pg_lsn AS BIGINT)";
    let before: Vec<f64> = processes
        .iter()
        .map(|(_, process)| cpu(process.id()))
        .collect();
    let redis_before = info(&mut raw);
    let rows = count(&pool, "SELECT COUNT(*) FROM sample").await;
    let bytes = count(&pool, size).await;
    let log = count(&pool, wal).await;
    let started = Instant::now();
    tokio::time::sleep(TIME).await;
    let seconds = started.elapsed().as_secs_f64();
    let redis_after = info(&mut raw);
    let rows = (count(&pool, "SELECT COUNT(*) FROM sample").await - rows) as f64;
    let bytes = (count(&pool, size).await - bytes) as f64;
    let log = (count(&pool, wal).await - log) as f64;
    println!(
        "{:.0} samples a second for {seconds:.0} s, {FLEET} servers each {FIGURES:?}",
        rows / seconds
    );
    for ((role, process), before) in processes.iter().zip(before) {
        println!(
            "{role}: {:.1} us of CPU a sample, {} MiB resident",
            (cpu(process.id()) - before) / rows * 1e6,
            resident(process.id())
        );
    }
    let grown = |key: &str| (redis_after[key] - redis_before[key]) / rows;
    println!(
        "Redis: {:.2} us of CPU a sample, {:.0} bytes in and {:.0} bytes out a sample, {:.3} commands a sample ({:.0}/s)",
        (grown("used_cpu_user") + grown("used_cpu_sys")) * 1e6,
        grown("total_net_input_bytes"),
        grown("total_net_output_bytes"),
        grown("total_commands_processed"),
        grown("total_commands_processed") * rows / seconds,
    );
    println!(
        "PostgreSQL: {:.0} bytes a sample in tables and indexes, {:.0} bytes of WAL",
        bytes / rows,
        log / rows
    );

    let mut sum = |pattern: &str| {
        let keys: Vec<String> = raw.run(&format!("KEYS {pattern}"));
        keys.iter()
            .map(|key| raw.run::<f64>(&format!("MEMORY USAGE {key} SAMPLES 0")))
            .sum::<f64>()
    };
    let targets = sum("{test:*}:targets:*");
    let states = sum("{test:*}:state:*");
    let results = sum("{test:*}:results");
    let said = sum("{test:*}:said");
    let entries: f64 = (0..8)
        .map(|part| raw.run::<f64>(&format!("XLEN {{test:{part}}}:results")))
        .sum();
    println!(
        "Redis holds {:.0} bytes a server of targets and {:.0} of state; {entries} entries of results take {:.0} bytes each; said: {:.1} MiB",
        targets / f64::from(FLEET),
        states / f64::from(FLEET),
        results / entries,
        said / 1048576.0
    );
    drop(processes);

    let started = Instant::now();
    let batches = 20;
    let of = 20_000;
    for batch in 0..batches {
        let samples = (0..of).map(|number| Sample {
            server: ServerId(1_000_000 + number),
            at: 1_700_000_000_000 + batch * 300_000 + number * 15,
            answered: true,
            players: Some(number as u32 % 60),
            max: Some(100),
            latency: Some(20_000),
            sent: 2,
            resent: 0,
        });
        history
            .write(&Batch {
                samples: samples.collect(),
                ..Batch::default()
            })
            .await
            .unwrap();
    }
    println!(
        "one writer alone: {:.0} rows a second",
        (batches * of) as f64 / started.elapsed().as_secs_f64()
    );
    let all = count(&pool, "SELECT COUNT(*) FROM sample").await as f64;
    let started = Instant::now();
    history
        .tidy(
            hailer_monitor::sample::unix_millis() + 600_000,
            &Retention {
                raw: KEEP,
                five_minutes: KEEP,
                ..Retention::default()
            },
        )
        .await
        .unwrap();
    println!(
        "rolled up to all levels: {:.0} samples a second",
        all / started.elapsed().as_secs_f64()
    );
    let rollups =
        "SELECT CAST(pg_total_relation_size('rollup') / (SELECT COUNT(*) FROM rollup) AS BIGINT)";
    println!(
        "PostgreSQL: {} bytes a roll-up",
        count(&pool, rollups).await
    );
}

fn info(raw: &mut Raw) -> HashMap<String, f64> {
    let text: String = raw.run("INFO everything");
    text.lines()
        .filter_map(|line| line.trim().split_once(':'))
        .filter_map(|(key, value)| Some((key.into(), value.parse().ok()?)))
        .collect()
}

fn resident(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.split_whitespace()
        .next()
        .unwrap()
        .parse::<u64>()
        .unwrap()
        / 1024
}

/// Returns the request and reply bytes of one exchange, averaged over all kinds of servers.
fn exchange(port: u16) -> (f64, f64) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let mut all = 0;
    let count = 200;
    for host in 1..=count {
        let to = (Ipv4Addr::new(127, 3, 0, host), port);
        let mut reply = [0; 65_536];
        socket.send_to(b"\xFE\xFD\x09\0\0\0\x01", to).unwrap();
        let challenge = socket.recv(&mut reply).unwrap();
        let token = String::from_utf8_lossy(&reply[5..challenge - 1])
            .parse::<i32>()
            .unwrap();
        let ask = [
            b"\xFE\xFD\0\0\0\0\x01".as_slice(),
            &token.to_be_bytes(),
            &[0; 4],
        ]
        .concat();
        socket.send_to(&ask, to).unwrap();
        all += challenge + socket.recv(&mut reply).unwrap();
    }
    (22.0, all as f64 / f64::from(count))
}
