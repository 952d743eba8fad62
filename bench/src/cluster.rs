//! A cluster: the cost per sample of each role, of Redis and of PostgreSQL. The figures of
//! `docs/scale.md` come from here.
//!
//! In: a farm, Redis and PostgreSQL. Out: CPU and bytes per sample.
//!
//! May import: `crate::history`, `crate::host`, `crate::monitor`, `crate::report`, `hailer`,
//! `hailer_monitor`, `hailer_testkit`.

use crate::history::sample;
use crate::host;
use crate::monitor::{Folder, Process};
use crate::report::heading;
use anyhow::{Context, ensure};
use hailer::proto::registry;
use hailer::respond::farm::{Farm, FarmConfig};
use hailer_monitor::history::{Batch, History, Level, NewServer, Retention};
use hailer_monitor::sample::{Millis, unix_millis};
use hailer_monitor::server::{Origin, ServerId};
use hailer_testkit::redis::Raw;
use hailer_testkit::{postgres, redis};
use sqlx::Row;
use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(12);
/// Duration of the measurement, after each server has a sample.
const DURATION: Duration = Duration::from_secs(24);
/// The samples that measure the writer are from 2023.
const KEEP: Duration = Duration::from_secs(10 * 365 * 86_400);
const ROLES: [&str; 3] = ["poll", "write", "page"];
/// Size of the batches that measure the writer, and their number.
const BATCH: i64 = 20_000;
const BATCHES: i64 = 20;
/// Exchanges whose size is averaged.
const EXCHANGES: u8 = 200;

/// Starts Redis, PostgreSQL and a monitor for each role, with `targets` simulated servers.
pub(crate) fn cluster(hailer: &Path, targets: u32) -> anyhow::Result<()> {
    heading(&format!(
        "a cluster: {targets} servers every {} s, one process for each role",
        INTERVAL.as_secs()
    ));
    let Some(postgres) = postgres::Server::start("bench-cluster") else {
        return Ok(());
    };
    if !redis::is_installed() {
        return Ok(());
    }
    let redis = redis::Server::start();
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(hailer, targets, &postgres.url(), &redis))
}

/// Starts a monitor for each role.
fn start_nodes(
    hailer: &Path,
    folder: &Folder,
    database: &str,
    redis: &str,
) -> anyhow::Result<Vec<(&'static str, Process)>> {
    let mut nodes = Vec::new();
    for role in ROLES {
        let config = folder.0.join(format!("{role}.toml"));
        let text = format!(
            "[monitor]\nlisten = \"127.0.0.1:0\"\nhistory = \"{database}\"\ninterval = \"{}s\"\n\
             [cluster]\nurl = \"{}\"\nname = \"bench\"\nroles = [\"{role}\"]\n",
            INTERVAL.as_secs(),
            redis
        );
        std::fs::write(&config, text)?;
        let mut command = Command::new(hailer);
        command.args(["monitor", "--config"]).arg(config);
        let node = Process::start(&mut command)
            .with_context(|| format!("{}: build it, or name it", hailer.display()))?;
        nodes.push((role, node));
    }
    Ok(nodes)
}

async fn measure(
    hailer: &Path,
    targets: u32,
    database: &str,
    redis: &redis::Server,
) -> anyhow::Result<()> {
    let port = farm()?;
    let received = reply_bytes(port)?;
    println!(
        "  an exchange: 22 bytes sent, {received:.0} received, payload of UDP, two datagrams each way"
    );
    let history = History::open(database).await?;
    let servers: Vec<NewServer> = (1..=targets).map(|number| server(number, port)).collect();
    history.add_all(&servers).await?;
    let pool = sqlx::AnyPool::connect(database).await?;
    let mut raw = redis.raw();

    let folder = Folder::new()?;
    let nodes = start_nodes(hailer, &folder, database, &redis.url())?;
    let deadline = Instant::now() + Duration::from_secs(60);
    while samples(&history).await? < targets.into() {
        ensure!(
            Instant::now() < deadline,
            "some servers have no sample after 60 s"
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Leave out the cost of the start, where all states and all statuses are written.
    tokio::time::sleep(INTERVAL).await;

    let cpu = |node: &Process| host::cpu_of(node.id()).context("CPU time of a node");
    let size = "SELECT pg_total_relation_size('recent') + pg_total_relation_size('block') + pg_total_relation_size('event')";
    let wal = "SELECT CAST(pg_current_wal_lsn() - '0/0'::pg_lsn AS BIGINT)";
    let mut before = Vec::new();
    for (_, node) in &nodes {
        before.push(cpu(node)?);
    }
    let redis_before = info(&mut raw);
    let rows = samples(&history).await?;
    let bytes = count(&pool, size).await?;
    let log = count(&pool, wal).await?;
    let started = Instant::now();
    tokio::time::sleep(DURATION).await;
    let seconds = started.elapsed().as_secs_f64();
    let redis_after = info(&mut raw);
    let rows = (samples(&history).await? - rows) as f64;
    let bytes = (count(&pool, size).await? - bytes) as f64;
    let log = (count(&pool, wal).await? - log) as f64;
    ensure!(rows > 0.0, "no samples within {seconds:.0} s");
    println!(
        "  {:.0} samples per second for {seconds:.0} s",
        rows / seconds
    );
    for ((role, node), before) in nodes.iter().zip(before) {
        println!(
            "  role {role}: {:.1} µs of CPU per sample, {} MiB resident",
            (cpu(node)? - before) / rows * 1e6,
            host::resident(node.id()).context("memory of a node")? / 1_024
        );
    }
    let grown = |key: &str| match (redis_before.get(key), redis_after.get(key)) {
        (Some(before), Some(after)) => (after - before) / rows,
        _ => f64::NAN,
    };
    println!(
        "  Redis, per sample: {:.2} µs of CPU, {:.0} bytes in, {:.0} bytes out, {:.3} commands",
        (grown("used_cpu_user") + grown("used_cpu_sys")) * 1e6,
        grown("total_net_input_bytes"),
        grown("total_net_output_bytes"),
        grown("total_commands_processed"),
    );
    println!(
        "  PostgreSQL, per sample: {:.0} bytes in tables and indexes, {:.0} bytes of WAL",
        bytes / rows,
        log / rows
    );
    report_memory(&mut raw, targets);
    drop(nodes);
    measure_writer(&history, &pool).await
}

/// Returns the number of samples.
async fn samples(history: &History) -> anyhow::Result<i64> {
    let minutes = history.totals(0, Millis::MAX, Level::Raw).await?;
    Ok(minutes.iter().map(|minute| i64::from(minute.polls)).sum())
}

fn report_memory(raw: &mut redis::Raw, targets: u32) {
    let [targets_bytes, state_bytes, result_bytes] =
        ["targets:*", "state:*", "results"].map(|keys| memory(raw, &format!("{{bench:*}}:{keys}")));
    let entries: f64 = (0..8)
        .map(|part| raw.run::<f64>(&format!("XLEN {{bench:{part}}}:results")))
        .sum();
    println!(
        "  Redis, memory per server: {:.0} bytes for the target, {:.0} for the state; {:.0} per entry of results ({entries})",
        targets_bytes / f64::from(targets),
        state_bytes / f64::from(targets),
        result_bytes / entries,
    );
}

/// Measures one writer without polls, and the roll-ups of its samples.
async fn measure_writer(history: &History, pool: &sqlx::AnyPool) -> anyhow::Result<()> {
    let started = Instant::now();
    for batch in 0..BATCHES {
        let samples = (0..BATCH).map(|number| {
            let at = 1_700_000_000_000 + batch * 300_000 + number * 15;
            sample(ServerId(1_000_000 + number), at, number as u32 % 60)
        });
        history
            .write(&Batch {
                samples: samples.collect(),
                ..Batch::default()
            })
            .await?;
    }
    println!(
        "  one writer alone: {:.0} rows per second",
        (BATCHES * BATCH) as f64 / started.elapsed().as_secs_f64()
    );
    let all = samples(history).await? as f64;
    let started = Instant::now();
    let keep = Retention {
        raw: KEEP,
        five_minutes: KEEP,
        ..Retention::default()
    };
    history.tidy(unix_millis() + 600_000, &keep).await?;
    println!(
        "  roll-ups to all levels: {:.0} samples per second",
        all / started.elapsed().as_secs_f64()
    );
    let size = "SELECT pg_total_relation_size('block')";
    println!(
        "  PostgreSQL, per sample: {:.2} bytes in blocks, with roll-ups",
        count(pool, size).await? as f64 / all
    );
    Ok(())
}

/// Starts simulated servers on loopback, which run until the process ends. Returns their port.
fn farm() -> anyhow::Result<u16> {
    let mut config = FarmConfig::new(Ipv4Addr::new(127, 0, 0, 0), 8);
    let protocol = registry::find("minecraft-query").context("Minecraft Query")?;
    config.ports = vec![(protocol, 0)];
    config.variants = 64;
    let farm = Farm::new(config)?;
    let bound = farm.bind()?;
    let port = bound.first().context("a socket of the farm")?.port();
    std::thread::spawn(move || farm.run(&bound, &AtomicBool::new(false)));
    Ok(port)
}

fn server(number: u32, port: u16) -> NewServer {
    // Each server is in a separate network, because polls of one network are rate-limited.
    let address = Ipv4Addr::from(0x7F10_0001 + (number << 8));
    NewServer {
        name: format!("server-{number}"),
        target: format!("minecraft-query://{address}:{port}"),
        group: String::new(),
        labels: BTreeMap::new(),
        interval: None,
        origin: Origin::Api,
    }
}

/// Returns the reply bytes of one exchange, averaged over several servers.
fn reply_bytes(port: u16) -> anyhow::Result<f64> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut bytes = 0;
    let mut reply = [0; 65_536];
    for host in 1..=EXCHANGES {
        let to = (Ipv4Addr::new(127, 3, 0, host), port);
        socket.send_to(b"\xFE\xFD\x09\0\0\0\x01", to)?;
        let length = socket.recv(&mut reply)?;
        let token = reply.get(5..length - 1).context("a challenge token")?;
        let token: i32 = std::str::from_utf8(token)?.parse()?;
        let header = b"\xFE\xFD\0\0\0\0\x01".as_slice();
        let request = [header, &token.to_be_bytes(), &[0; 4]].concat();
        socket.send_to(&request, to)?;
        bytes += length + socket.recv(&mut reply)?;
    }
    Ok(bytes as f64 / f64::from(EXCHANGES))
}

async fn count(pool: &sqlx::AnyPool, query: &'static str) -> anyhow::Result<i64> {
    Ok(sqlx::query(query).fetch_one(pool).await?.try_get(0)?)
}

/// Returns the numbers that Redis reports about itself.
fn info(raw: &mut Raw) -> HashMap<String, f64> {
    let text: String = raw.run("INFO everything");
    text.lines()
        .filter_map(|line| line.trim().split_once(':'))
        .filter_map(|(key, value)| Some((key.into(), value.parse().ok()?)))
        .collect()
}

/// Returns the memory of all keys that match a pattern, in bytes.
fn memory(raw: &mut Raw, pattern: &str) -> f64 {
    let keys: Vec<String> = raw.run(&format!("KEYS {pattern}"));
    keys.iter()
        .map(|key| raw.run::<f64>(&format!("MEMORY USAGE {key} SAMPLES 0")))
        .sum()
}
