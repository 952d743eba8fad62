//! Copies the watchlist from PostgreSQL into Redis: changed chunks, and all chunks after Redis was
//! emptied.
//!
//! The version of a chunk is read first, then the database, and the chunk is written only if its
//! version is still the same. So the last writer has also read last, and two nodes that fill at the
//! same time do not undo each other. Filling can be repeated at any time.
//!
//! In: changed chunks, rows of servers. Out: chunks in Redis.
//!
//! May import: `crate::cluster`, `crate::cluster::entry`, `crate::cluster::keys`,
//! `crate::cluster::lease`, `crate::cluster::scripts`, `crate::history`, `crate::lock`,
//! `crate::sample`, `crate::server`, `hailer`.

use super::entry::{digest, write_server};
use super::keys::{PARTS, part};
use super::lease::Chunk;
use super::{Shared, scripts};
use crate::history::HistoryError;
use crate::lock::lock;
use crate::sample::{Millis, millis};
use crate::server::{Server, ServerId};
use hailer::support::link::RedisConnection;
use redis::{RedisError, Script, Value, cmd, pipe};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Chunks that are compared together: up to 16,384 server numbers.
const CHUNKS_PER_CHECK: i64 = 64;
/// Interval at which the leader checks all chunks, in case a change was lost.
const CHECK_INTERVAL: Duration = Duration::from_secs(300);
/// Tries to write a chunk that others write at the same time.
const MAX_WRITE_TRIES: usize = 5;

static FILL: LazyLock<Script> = LazyLock::new(|| Script::new(scripts::FILL));
static ANNOUNCE: LazyLock<Script> = LazyLock::new(|| Script::new(scripts::ANNOUNCE));

/// Why filling failed. It is tried again.
enum FillError {
    Redis(RedisError),
    History(HistoryError),
}

impl From<RedisError> for FillError {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

impl From<HistoryError> for FillError {
    fn from(error: HistoryError) -> Self {
        Self::History(error)
    }
}

pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        let mut link = shared.connect("fill").await;
        shared.set_error("fill", None);
        loop {
            if timeout(CHECK_INTERVAL, shared.fill.notified())
                .await
                .is_err()
                && *shared.leads.borrow()
            {
                shared.must_fill.store(true, Ordering::Relaxed);
            }
            // Wait, so that many servers added one after the other are written together.
            sleep(shared.heartbeat().min(Duration::from_millis(50))).await;
            let failure = match fill(&shared, &mut link).await {
                Ok(()) => {
                    shared.set_error("fill", None);
                    continue;
                }
                Err(failure) => failure,
            };
            shared.fill.notify_one();
            match failure {
                FillError::Redis(error) => {
                    shared.set_error("fill", Some(shared.config.redis.describe(&error)));
                    sleep(super::RECONNECT_DELAY).await;
                    break;
                }
                FillError::History(error) => shared.set_error("fill", Some(error.to_string())),
            }
            sleep(super::RECONNECT_DELAY).await;
        }
    }
}

async fn fill(shared: &Shared, link: &mut RedisConnection) -> Result<(), FillError> {
    if shared.must_fill.load(Ordering::Relaxed) {
        let last = Chunk::of(shared.history.last_server().await?);
        let mut first = 0;
        while first <= last.0 {
            let chunks = (first..(first + CHUNKS_PER_CHECK).min(last.0 + 1))
                .map(Chunk)
                .collect();
            // Nodes that hold one of these chunks have until then to renew it.
            write(shared, link, chunks, millis(shared.config.lease)).await?;
            first += CHUNKS_PER_CHECK;
        }
        let now = shared.redis_now();
        cmd("SET")
            .arg(shared.keys.control("filled"))
            .arg(format!("{}-{now}", shared.me))
            .exec_async(link)
            .await?;
        shared.must_fill.store(false, Ordering::Relaxed);
    }
    loop {
        let some: BTreeSet<Chunk> = {
            let dirty = lock(&shared.dirty);
            // Take neighboring chunks together.
            let Some(&first) = dirty.first() else {
                return Ok(());
            };
            dirty
                .range(first..Chunk(first.0 + CHUNKS_PER_CHECK))
                .copied()
                .collect()
        };
        take(shared, &some);
        if let Err(failure) = write(shared, link, some.clone(), 0).await {
            lock(&shared.dirty).extend(some);
            return Err(failure);
        }
    }
}

fn take(shared: &Shared, some: &BTreeSet<Chunk>) {
    // Clear the marks before the database is read: later changes set them again.
    lock(&shared.dirty).retain(|chunk| !some.contains(chunk));
}

/// Writes the chunks that differ from the database, and announces all of them.
async fn write(
    shared: &Shared,
    link: &mut RedisConnection,
    chunks: BTreeSet<Chunk>,
    wait: Millis,
) -> Result<(), FillError> {
    let mut left = chunks;
    for _ in 0..MAX_WRITE_TRIES {
        let (Some(first), Some(last)) = (left.first().copied(), left.last().copied()) else {
            return Ok(());
        };
        let mut known: BTreeMap<Chunk, (String, String)> = BTreeMap::new();
        for wanted in 0..PARTS {
            let of_part: Vec<Chunk> = left
                .iter()
                .copied()
                .filter(|chunk| part(*chunk) == wanted)
                .collect();
            if of_part.is_empty() {
                continue;
            }
            let mut pipeline = pipe();
            for chunk in &of_part {
                pipeline
                    .cmd("HMGET")
                    .arg(shared.keys.targets(*chunk))
                    .arg("v")
                    .arg("d");
            }
            let found: Vec<(Option<String>, Option<String>)> = pipeline.query_async(link).await?;
            let found = found
                .into_iter()
                .map(|(v, d)| (v.unwrap_or_default(), d.unwrap_or_default()));
            known.extend(of_part.into_iter().zip(found));
        }
        let mut servers: BTreeMap<Chunk, Vec<Server>> = BTreeMap::new();
        for server in shared
            .history
            .servers_of(first.first(), ServerId(last.end().0))
            .await?
        {
            servers
                .entry(Chunk::of(server.id))
                .or_default()
                .push(server);
        }
        let mut announce = ANNOUNCE.prepare_invoke();
        for word in ["leases", "owners", "versions", "changed"] {
            announce.key(shared.keys.control(word));
        }
        announce.arg(wait);
        let mut later = BTreeSet::new();
        for (chunk, (version, known_digest)) in known {
            let servers = servers.remove(&chunk).unwrap_or_default();
            let fields: Vec<(i64, String)> = servers
                .iter()
                .map(|server| (server.id.0, write_server(server)))
                .collect();
            let digest = format!(
                "{:016x}",
                digest(&serde_json::to_vec(&fields).unwrap_or_default())
            );
            let mut version = version;
            if version.is_empty() && fields.is_empty() {
                continue;
            }
            if version.is_empty() || digest != known_digest {
                let mut fill = FILL.key(shared.keys.targets(chunk));
                fill.arg(&version).arg(digest);
                for (id, json) in &fields {
                    fill.arg(id).arg(json);
                }
                version = fill.invoke_async(link).await?;
                if version.is_empty() {
                    later.insert(chunk);
                    continue;
                }
                forget(shared, link, chunk, &servers).await?;
            }
            announce.arg(chunk.0).arg(version).arg(servers.len());
        }
        let _: Value = announce.invoke_async(link).await?;
        left = later;
    }
    // Another node keeps writing these chunks; try again later.
    lock(&shared.dirty).extend(left);
    Ok(())
}

/// Deletes the state of removed servers.
async fn forget(
    shared: &Shared,
    link: &mut RedisConnection,
    chunk: Chunk,
    servers: &[Server],
) -> Result<(), FillError> {
    let key = shared.keys.state(chunk);
    let known: Vec<i64> = cmd("HKEYS").arg(&key).query_async(link).await?;
    let gone: Vec<i64> = known
        .into_iter()
        .filter(|id| !servers.iter().any(|server| server.id.0 == *id))
        .collect();
    if !gone.is_empty() {
        let _: Value = cmd("HDEL").arg(&key).arg(gone).query_async(link).await?;
    }
    Ok(())
}
