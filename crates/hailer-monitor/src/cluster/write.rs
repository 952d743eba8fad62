//! Writes results to PostgreSQL. Each entry is read by one process of the group, and acknowledged
//! after the commit.
//!
//! An entry may be written twice, if its reader dies before it acknowledges. The history ignores
//! rows that it has. At most 20,000 samples are written in one transaction, and nothing more is
//! read before it is committed.
//!
//! In: entries in streams of Redis. Out: rows of PostgreSQL.
//!
//! May import: `crate::cluster`, `crate::cluster::entry`, `crate::cluster::keys`, `crate::history`,
//! `crate::sample`, `hailer`.

use super::Shared;
use super::entry::ResultsEntry;
use super::keys::PARTS;
use crate::history::{Batch, HistoryError, WriteCounts};
use crate::sample::{Millis, millis};
use futures_util::future::{join_all, try_join_all};
use hailer::proto::wire::counted;
use hailer::support::link::RedisConnection;
use redis::{RedisResult, Value, cmd, pipe};
use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep, timeout};

const CONSUMER_GROUP: &str = "history";
/// Entries of one part read in one request.
const ENTRIES_PER_READ: usize = 100;
/// Approximate limit of samples in one transaction.
const SAMPLES_PER_TRANSACTION: usize = 20_000;
/// Delay before the streams are read again after they were empty.
const EMPTY_READ_DELAY: Duration = Duration::from_millis(250);
/// Timeout of a transaction.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(60);
/// First delay between write attempts. It doubles each time.
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
/// Longest delay between write attempts.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// Longest interval of claiming entries of dead processes and deleting written entries.
const MAX_TIDY_INTERVAL: Duration = Duration::from_secs(5);
/// How long written entries stay for mirrors, in milliseconds.
const WRITTEN_ENTRY_MS: Millis = 30_000;

/// Shortest wait of results that is reported, in milliseconds.
const MIN_RESULT_WAIT_MS: Millis = 10_000;

/// Id and fields of an entry, as Redis returns them.
type Raw = (String, Option<Vec<Vec<u8>>>);
type ResultRead = Option<Vec<(String, Vec<Raw>)>>;

pub(super) async fn run(shared: Arc<Shared>) {
    super::converse(shared, "write", async |shared, link| {
        live(shared, link).await
    })
    .await;
}

async fn live(shared: &Shared, link: &mut RedisConnection) -> RedisResult<()> {
    for part in 0..PARTS {
        let mut create = cmd("XGROUP");
        create
            .arg("CREATE")
            .arg(shared.keys.results(part))
            .arg(CONSUMER_GROUP)
            .arg(0)
            .arg("MKSTREAM");
        match create.query_async::<Value>(link).await {
            Err(error) if error.code() != Some("BUSYGROUP") => return Err(error),
            _ => {}
        }
    }
    // First the entries that this process had read before the connection broke.
    let mut again = true;
    let mut tidy_at = Instant::now();
    let mut is_late = false;
    loop {
        let mut taken = TakenEntries::default();
        if tidy_at <= Instant::now() {
            tidy_at = Instant::now() + MAX_TIDY_INTERVAL.min(shared.config.lease / 4);
            is_late = tidy(shared, link, &mut taken).await?;
        }
        let reads = (0..PARTS).map(|part| {
            let mut link = link.clone();
            let mut read = cmd("XREADGROUP");
            read.arg("GROUP")
                .arg(CONSUMER_GROUP)
                .arg(&shared.me)
                .arg("COUNT")
                .arg(ENTRIES_PER_READ);
            read.arg("STREAMS")
                .arg(shared.keys.results(part))
                .arg(if again { "0" } else { ">" });
            async move { read.query_async::<ResultRead>(&mut link).await }
        });
        let mut is_all = true;
        for (part, read) in join_all(reads).await.into_iter().enumerate() {
            for (_, entries) in read?.into_iter().flatten() {
                is_all &= entries.len() < ENTRIES_PER_READ;
                for entry in entries {
                    taken.add(part, entry);
                }
            }
        }
        again &= !is_all;
        if taken.ids.is_empty() {
            if !is_late {
                shared.set_error("write", None);
            }
            if is_all {
                sleep(EMPTY_READ_DELAY).await;
            }
            continue;
        }
        let batch = std::mem::take(&mut taken.batch);
        write(shared, batch, link, &taken.ids).await;
        let acknowledge = taken.ids.iter().map(|(part, ids)| {
            let mut link = link.clone();
            let mut ack = cmd("XACK");
            ack.arg(shared.keys.results(*part))
                .arg(CONSUMER_GROUP)
                .arg(ids);
            async move { ack.query_async::<Value>(&mut link).await }
        });
        try_join_all(acknowledge).await?;
        if is_all && !is_late {
            shared.set_error("write", None);
        }
        if is_all {
            sleep(EMPTY_READ_DELAY).await;
        }
    }
}

/// Renews the claim to entries of which a part was written. Other processes take over entries without
/// progress for a lease: their reader is dead, frozen or cut off.
async fn renew_claims(
    shared: &Shared,
    link: &RedisConnection,
    taken: &HashMap<usize, Vec<String>>,
) {
    let claims = taken.iter().map(|(part, ids)| {
        let mut link = link.clone();
        let mut claim = cmd("XCLAIM");
        claim
            .arg(shared.keys.results(*part))
            .arg(CONSUMER_GROUP)
            .arg(&shared.me)
            .arg(0)
            .arg(ids)
            .arg("JUSTID");
        async move { claim.query_async::<Value>(&mut link).await }
    });
    // If Redis is away, other processes cannot claim either; acknowledging reports it.
    let _ = join_all(claims).await;
}

/// Entries that were read, as one batch.
#[derive(Default)]
struct TakenEntries {
    ids: HashMap<usize, Vec<String>>,
    batch: Batch,
}

impl TakenEntries {
    /// Invalid entries are acknowledged too, or they would come back forever.
    fn add(&mut self, part: usize, (id, fields): Raw) {
        self.ids.entry(part).or_default().push(id);
        let json = fields.as_deref().and_then(|fields| field(fields, b"e"));
        if let Some(entry) = json.and_then(ResultsEntry::read) {
            let batch = entry.batch();
            self.batch.samples.extend(batch.samples);
            self.batch.events.extend(batch.events);
            self.batch.sessions.extend(batch.sessions);
        }
    }
}

/// Returns the value of a field of an entry.
pub(super) fn field<'a>(fields: &'a [Vec<u8>], name: &[u8]) -> Option<&'a [u8]> {
    fields
        .chunks_exact(2)
        .find(|pair| pair[0] == name)
        .map(|pair| &*pair[1])
}

/// Writes a batch, with retries until it succeeds. Meanwhile further entries wait in Redis, whose
/// streams are limited.
async fn write(
    shared: &Shared,
    mut batch: Batch,
    link: &RedisConnection,
    taken: &HashMap<usize, Vec<String>>,
) {
    // Sort the rows, so that two concurrent writers lock them in the same order.
    batch
        .samples
        .sort_unstable_by_key(|sample| (sample.at, sample.server));
    let mut pause = MIN_RETRY_DELAY;
    let mut samples = batch.samples.as_slice();
    let mut rest = Some((
        std::mem::take(&mut batch.events),
        std::mem::take(&mut batch.sessions),
    ));
    while !samples.is_empty() || rest.is_some() {
        let (now, later) = samples.split_at(samples.len().min(SAMPLES_PER_TRANSACTION));
        let (events, sessions) = rest.clone().unwrap_or_default();
        let part = Batch {
            samples: now.to_vec(),
            events,
            sessions,
        };
        let trouble = match write_part(shared, &part).await {
            Ok(Ok(_)) => {
                samples = later;
                rest = None;
                pause = MIN_RETRY_DELAY;
                if !samples.is_empty() {
                    renew_claims(shared, link, taken).await;
                }
                continue;
            }
            // The database refuses this data. Another program may have written it to Redis: drop
            // it.
            Ok(Err(error)) if crate::history::is_of_data(&error) => {
                shared
                    .dropped
                    .fetch_add(now.len() as u64, std::sync::atomic::Ordering::Relaxed);
                samples = later;
                rest = None;
                error.to_string()
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!(
                "the history fails: no answer within {} s",
                TRANSACTION_TIMEOUT.as_secs()
            ),
        };
        let trouble = shared.with_lock_holder(trouble).await;
        shared.set_error("write", Some(trouble));
        sleep(pause).await;
        pause = (pause * 2).min(MAX_RETRY_DELAY);
    }
}

/// Writes a part within [`TRANSACTION_TIMEOUT`]. `/healthz` reports it when it takes long.
async fn write_part(
    shared: &Shared,
    part: &Batch,
) -> Result<Result<WriteCounts, HistoryError>, Elapsed> {
    let mut writing = pin!(shared.history.write(part));
    let wait = Duration::from_millis(max_result_wait(shared) as u64);
    if let Ok(written) = timeout(wait, &mut writing).await {
        return Ok(written);
    }
    let rows = counted(part.samples.len(), "sample");
    let trouble = format!("PostgreSQL has not replied for {wait:?} to a write of {rows}");
    let trouble = shared.with_lock_holder(trouble).await;
    shared.set_error("write", Some(trouble));
    timeout(TRANSACTION_TIMEOUT.saturating_sub(wait), writing).await
}

/// Claims entries of dead processes, and deletes written ones. Returns whether results have waited
/// for too long.
async fn tidy(
    shared: &Shared,
    link: &mut RedisConnection,
    taken: &mut TakenEntries,
) -> RedisResult<bool> {
    let now = shared.redis_now();
    let mut oldest = Millis::MAX;
    for part in 0..PARTS {
        let key = shared.keys.results(part);
        let mut claim = cmd("XAUTOCLAIM");
        claim
            .arg(&key)
            .arg(CONSUMER_GROUP)
            .arg(&shared.me)
            .arg(shared.config.lease.as_millis() as u64)
            .arg("0-0")
            .arg("COUNT")
            .arg(ENTRIES_PER_READ);
        let (_, claimed, _): (String, Vec<Raw>, Vec<String>) = claim.query_async(link).await?;
        for entry in claimed {
            taken.add(part, entry);
        }

        let mut pipeline = pipe();
        pipeline
            .cmd("XPENDING")
            .arg(&key)
            .arg(CONSUMER_GROUP)
            .cmd("XINFO")
            .arg("GROUPS")
            .arg(&key);
        pipeline
            .cmd("XINFO")
            .arg("CONSUMERS")
            .arg(&key)
            .arg(CONSUMER_GROUP);
        type StreamState = (
            (u64, Option<String>, Value, Value),
            Vec<HashMap<String, Value>>,
            Vec<HashMap<String, Value>>,
        );
        let ((_, pending, ..), groups, consumers): StreamState = pipeline.query_async(link).await?;
        let Some(group) = groups
            .iter()
            .find(|group| text(group, "name").as_deref() == Some(CONSUMER_GROUP))
        else {
            continue;
        };
        let delivered = text(group, "last-delivered-id").unwrap_or_default();
        let is_behind = number(group, "lag").is_none_or(|lag| lag > 0);
        if pending.is_some() || is_behind {
            oldest = oldest.min(time(pending.as_ref().unwrap_or(&delivered)).max(1));
        }
        let keep = time(pending.as_ref().unwrap_or(&delivered)).min(now - WRITTEN_ENTRY_MS);
        if keep > 0 {
            cmd("XTRIM")
                .arg(&key)
                .arg("MINID")
                .arg("~")
                .arg(keep)
                .query_async::<Value>(link)
                .await?;
        }
        // Each start of a process creates a new consumer.
        for consumer in &consumers {
            let is_dead = number(consumer, "idle").is_some_and(|idle| idle > 600_000);
            if let (Some(name), true, Some(0)) =
                (text(consumer, "name"), is_dead, number(consumer, "pending"))
            {
                cmd("XGROUP")
                    .arg("DELCONSUMER")
                    .arg(&key)
                    .arg(CONSUMER_GROUP)
                    .arg(name)
                    .query_async::<Value>(link)
                    .await?;
            }
        }
    }
    // A group that was never read starts at 0.
    let is_late = oldest > 1 && oldest < now - max_result_wait(shared);
    if is_late {
        let seconds = (now - oldest) / 1_000;
        let trouble = format!("results wait in Redis for {seconds} s: PostgreSQL does not keep up");
        let trouble = shared.with_lock_holder(trouble).await;
        shared.set_error("write", Some(trouble));
    }
    Ok(is_late)
}

/// Returns the wait of results above which it is reported, in milliseconds: other processes have
/// taken over by then.
fn max_result_wait(shared: &Shared) -> Millis {
    (2 * millis(shared.config.lease)).max(MIN_RESULT_WAIT_MS)
}

impl Shared {
    /// Adds the transaction that others may wait for to an error.
    pub(super) async fn with_lock_holder(&self, trouble: String) -> String {
        match self.history.lock_holder().await {
            Some(holder) => format!("{trouble}; {holder}"),
            None => trouble,
        }
    }
}

fn text(map: &HashMap<String, Value>, key: &str) -> Option<String> {
    redis::from_redis_value_ref(map.get(key)?).ok()
}

fn number(map: &HashMap<String, Value>, key: &str) -> Option<i64> {
    redis::from_redis_value_ref(map.get(key)?).ok()
}

/// Returns the time in the id of an entry, in Unix milliseconds.
pub(super) fn time(id: &str) -> Millis {
    id.split('-')
        .next()
        .and_then(|time| time.parse().ok())
        .unwrap_or(0)
}
