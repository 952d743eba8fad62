//! Several nodes share the polling through a real Redis and a real PostgreSQL, which the test
//! starts. The test then stops nodes and databases.

#![allow(missing_docs, unreachable_pub, dead_code)]

mod changes;
mod clock;
mod frozen;
mod monitor;

use futures_util::TryStreamExt;
use hailer::proto::registry;
use hailer::respond::farm::{Farm, FarmConfig};
use hailer_monitor::history::{ExportSelection, History, NewServer, Record, Table};
use hailer_monitor::sample::Millis;
use hailer_monitor::server::Origin;
pub use hailer_testkit::folder::Folder;
use hailer_testkit::redis::Raw;
use hailer_testkit::{postgres, redis as redis_server};
use monitor::{INTERVAL, Process};
use sqlx::Row;
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

const SERVERS: u32 = 2_000;
/// 128 small chunks, and four large ones.
const CHUNKS: usize = 132;

/// Starts simulated servers on loopback, which run until the process ends. Returns their port.
pub fn farm() -> u16 {
    static NEVER: AtomicBool = AtomicBool::new(false);
    farm_until(&NEVER)
}

/// Starts simulated servers that run until `is_over`.
pub fn farm_until(is_over: &'static AtomicBool) -> u16 {
    let mut config = FarmConfig::new([127, 0, 0, 0].into(), 8);
    config.ports = vec![(registry::find("minecraft-query").unwrap(), 0)];
    config.variants = 64;
    let farm: &'static Farm = Box::leak(Box::new(Farm::new(config).unwrap()));
    let bound = farm.bind().unwrap();
    let port = bound[0].port();
    std::thread::spawn(move || farm.run(&bound, is_over));
    port
}

pub fn server(number: u32, port: u16) -> NewServer {
    // Each server is in a separate network, because polls of one network are rate-limited.
    let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 16, 0, 1)) + (number << 8));
    let group = String::new();
    let labels = BTreeMap::new();
    let interval = None;
    let target = format!("minecraft-query://{address}:{port}");
    NewServer {
        name: format!("server-{number}"),
        target,
        group,
        labels,
        interval,
        origin: Origin::Api,
    }
}

/// Returns the number of chunks of each worker.
fn owners(raw: &mut Raw) -> HashMap<String, usize> {
    let owners: HashMap<i64, String> = raw.attempt("HGETALL {test}:2:owners").unwrap_or_default();
    let mut counts = HashMap::new();
    owners
        .into_values()
        .for_each(|owner| *counts.entry(owner).or_default() += 1);
    counts
}

/// Waits until a condition is true. Prints and returns how long that took.
async fn until(what: &str, within: Duration, mut so: impl AsyncFnMut() -> bool) -> Duration {
    let started = Instant::now();
    while !so().await {
        assert!(started.elapsed() < within, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("{what}: after {:.1} s", started.elapsed().as_secs_f32());
    started.elapsed()
}

/// The database of a test.
struct Database {
    pool: sqlx::AnyPool,
    history: History,
}

impl std::ops::Deref for Database {
    type Target = sqlx::AnyPool;

    fn deref(&self) -> &sqlx::AnyPool {
        &self.pool
    }
}

/// Returns the times of all samples, by server.
async fn samples(database: &Database) -> HashMap<i64, Vec<Millis>> {
    let mut ids: HashMap<String, i64> = HashMap::new();
    let servers = sqlx::query("SELECT name, id FROM server");
    for row in servers.fetch_all(&database.pool).await.unwrap() {
        ids.insert(row.get(0), row.get(1));
    }
    let selection = ExportSelection {
        tables: vec![Table::Samples],
        ..ExportSelection::default()
    };
    let records: Vec<Record> = database
        .history
        .export(selection)
        .try_collect()
        .await
        .unwrap();
    let mut samples: HashMap<i64, Vec<Millis>> = HashMap::new();
    for record in records {
        if let Record::Sample(record) = record {
            let times = samples.entry(ids[&record.server]).or_default();
            times.push(record.sample.at);
        }
    }
    samples
}

/// Starts the databases and simulated servers of a test, and stores `count` of these servers.
/// Returns the databases, a connection and the port of the servers; `None` if this machine lacks a
/// database.
async fn databases(
    name: &str,
    count: u32,
    farm: impl FnOnce() -> u16,
) -> Option<(postgres::Server, redis_server::Server, Database, u16)> {
    let postgres = postgres::Server::start(name)?;
    if !redis_server::is_installed() || !cfg!(target_os = "linux") {
        return None;
    }
    let redis = redis_server::Server::start();
    let port = farm();
    let history = History::open(&postgres.url()).await.unwrap();
    let all: Vec<NewServer> = (1..=count).map(|number| server(number, port)).collect();
    history.add_all(&all).await.unwrap();
    let pool = sqlx::AnyPool::connect(&postgres.url()).await.unwrap();
    Some((postgres, redis, Database { pool, history }, port))
}

async fn count(pool: &sqlx::AnyPool, query: &'static str) -> i64 {
    sqlx::query(query).fetch_one(pool).await.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_lose_no_server_and_store_each_sample_once() {
    let databases = databases("cluster", SERVERS, farm).await;
    let Some((mut postgres, mut redis, pool, port)) = databases else {
        return;
    };
    let mut raw = redis.raw();
    let begun = hailer_monitor::sample::unix_millis();
    let start = || Process::start(&redis.url(), &postgres.url());
    let mut one = start();
    let two = start();
    let few = Duration::from_secs(12);
    until("each server has a sample", few, async || {
        samples(&pool).await.len() == SERVERS as usize
    })
    .await;

    let three = start();
    let is_shared = |raw: &mut Raw, workers: usize| {
        let owners = owners(raw);
        let least = CHUNKS / workers;
        let most = CHUNKS.div_ceil(workers);
        owners.len() == workers
            && owners
                .values()
                .all(|chunks| (least..=most).contains(chunks))
    };
    let took = until("a third worker has its share", few, async || {
        is_shared(&mut raw, 3)
    })
    .await;
    assert!(took < 2 * INTERVAL, "{took:?}");

    // Any node accepts a change, and all nodes receive it.
    let added = one.api(
        "POST",
        "servers",
        Some(&format!(
            r#"{{"name":"late","target":"minecraft-query://127.9.9.9:{port}"}}"#
        )),
    );
    assert!(added.contains(r#""name":"late""#), "{added}");
    until(
        "a server that one adds is shown as up by another",
        few,
        async || {
            two.api("GET", "servers/late", None)
                .contains(r#""state":"up""#)
        },
    )
    .await;
    // A node that is killed below must not take the only copy of an event with it.
    let pool = sqlx::AnyPool::connect(&postgres.url()).await.unwrap();
    until("every event is stored", few, async || {
        count(&pool, "SELECT COUNT(*) FROM event").await == i64::from(SERVERS) + 1
    })
    .await;
    pool.close().await;
    let shown = two.api("GET", "servers/server-77", None);
    assert!(
        shown.contains(r#""state":"up""#) && shown.contains(r#""version""#),
        "{shown}"
    );
    assert!(
        three
            .api("GET", "health", None)
            .contains(r#""status":"ok""#)
    );

    let leads = |raw: &mut Raw| {
        raw.attempt::<String>("HGET {test}:2:leader who")
            .unwrap_or_default()
    };
    let led = leads(&mut raw);
    one.kill();
    let took = until("a dead worker's chunks are taken", few, async || {
        is_shared(&mut raw, 2)
    })
    .await;
    assert!(took < 2 * INTERVAL, "{took:?}");
    until("somebody alive leads", few, async || {
        owners(&mut raw).contains_key(&leads(&mut raw))
    })
    .await;
    println!("it led before: {}", leads(&mut raw) == led);
    tokio::time::sleep(2 * INTERVAL).await;

    println!("Redis loses all it has");
    redis.kill();
    redis.run();
    raw = redis.raw();
    until("Redis knows all again", few, async || {
        is_shared(&mut raw, 2)
    })
    .await;
    tokio::time::sleep(2 * INTERVAL).await;

    println!("one worker is cut off");
    three.signal("-STOP");
    let owner = until("its chunks are taken", few, async || {
        owners(&mut raw).values().any(|chunks| *chunks == CHUNKS)
    })
    .await;
    assert!(owner < 2 * INTERVAL, "{owner:?}");
    tokio::time::sleep(INTERVAL).await;
    three.signal("-CONT");
    until("it has its share again", few, async || {
        is_shared(&mut raw, 2)
    })
    .await;

    println!("PostgreSQL is away");
    postgres.stop();
    tokio::time::sleep(INTERVAL).await;
    postgres.run();
    tokio::time::sleep(2 * INTERVAL).await;
    let gone = two.api("DELETE", "servers/late", None);
    until(
        "a server that one removes is not shown by another",
        few,
        async || three.api("GET", "servers/late", None).contains("404"),
    )
    .await;
    assert_eq!(gone, "");
    let ended = hailer_monitor::sample::unix_millis();
    drop((two, three));

    let pool = sqlx::AnyPool::connect(&postgres.url()).await.unwrap();
    let history = History::open(&postgres.url()).await.unwrap();
    let pool = Database { pool, history };
    let samples = samples(&pool).await;
    let interval = INTERVAL.as_millis() as Millis;
    let mut missed = 0;
    for (server, times) in samples
        .iter()
        .filter(|(server, _)| **server <= i64::from(SERVERS))
    {
        for pair in times.windows(2) {
            let pause = pair[1] - pair[0];
            assert!(
                pause > 0 && pause % interval == 0,
                "server {server}: a sample outside of the grid: {times:?}"
            );
            assert!(
                pause <= 2 * interval,
                "server {server} was not asked for {pause} ms: {times:?}"
            );
            missed += pause / interval - 1;
        }
        let first = times[0] - begun;
        let last = ended - times.last().unwrap();
        assert!(
            first < 3 * interval && last < 3 * interval,
            "server {server}: {first} ms, {last} ms"
        );
    }
    assert_eq!(samples.len(), SERVERS as usize + 1);
    let taken: usize = samples.values().map(Vec::len).sum();
    println!("{taken} samples, {missed} intervals without one");
    // If a writer is killed after it read samples, another one writes them, but only after 100 s.
    assert!(missed < taken as i64 / 50, "{missed} of {taken}");
    // No server was ever down, whichever node polled it.
    assert_eq!(
        count(&pool, "SELECT COUNT(*) FROM event WHERE kind <> 'up'").await,
        0
    );
    assert_eq!(
        count(&pool, "SELECT COUNT(*) FROM event").await,
        i64::from(SERVERS) + 1
    );
}
