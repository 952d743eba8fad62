//! Sends results to Redis, once per second: one entry for each part, with at most 1,000 samples.
//!
//! While Redis is away, at most 500,000 samples are kept; beyond that the oldest are dropped and
//! counted. Statuses are only for pages and are not kept. In Redis, 256 entries of statuses with at
//! most 512 KiB each stay for each of 8 parts.
//!
//! In: results of the poller. Out: entries in streams of Redis.
//!
//! May import: `crate::cluster`, `crate::cluster::entry`, `crate::cluster::keys`,
//! `crate::cluster::lease`, `crate::history`, `crate::poll`, `crate::sample`, `crate::server`,
//! `crate::sessions`, `crate::state`, `hailer`.

use super::entry::{ResultsEntry, SampleRecord, StateRecord, StatusEntry, is_same_status};
use super::keys::{PARTS, part};
use super::lease::Chunk;
use super::{ByChunk, Shared};
use crate::history::PlayerSession;
use crate::poll::{PollResult, ServerState};
use crate::sample::{Millis, PollError};
use crate::server::ServerId;
use crate::sessions::{Privacy, SessionTracker};
use crate::state::LastStatus;
use hailer::support::link::RedisConnection;
use redis::{Pipeline, RedisResult, Value, pipe};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Interval of sending; shorter if leases are short.
const SEND_INTERVAL: Duration = Duration::from_secs(1);
/// Limit of samples in one entry.
const ROWS_PER_ENTRY: usize = 1_000;
/// Entries per request: more than one interval produces, so that a backlog shrinks.
const ENTRIES_PER_REQUEST: usize = 256;
/// Limit of samples kept while Redis is unavailable.
const MAX_KEPT_SAMPLES: usize = 500_000;
/// Statuses that are sent again with one request.
const STATUSES_PER_REQUEST: usize = 2_000;
/// Limit of entries of each part of the stream of statuses.
const MAX_STATUS_ENTRIES: usize = 256;
/// Limit of one entry in the stream of statuses, in bytes.
const MAX_STATUS_ENTRY_BYTES: usize = 512 << 10;
/// An unchanged status is sent again after this time for pages that have started since, in
/// milliseconds.
const STATUS_RESEND_MS: Millis = 10 * 60_000;
/// Sent entries are kept this long in case Redis loses them: longer than the history takes to write
/// them.
const RESEND_WINDOW: Duration = Duration::from_secs(3);
/// Delay before the next connection attempt.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Field of an entry that is sent again. Only the history uses it; pages and alerts have already
/// had it.
pub(super) const RESEND_FIELD: &str = "again";
/// Field of an entry by which a node that has just started asks for all statuses of a part.
pub(super) const REQUEST_FIELD: &str = "want";

/// Commands for this task.
pub(super) enum PushCommand {
    /// This node has a new chunk; these are the state records of its servers.
    Begin(Chunk, HashMap<ServerId, StateRecord>),
    /// Open sessions from the history.
    Sessions(Vec<PlayerSession>),
    /// Send everything of these chunks, then signal.
    Flush(Vec<Chunk>, oneshot::Sender<()>),
    /// This node has lost these chunks.
    Forget(Vec<Chunk>),
    /// Redis was emptied: send everything again.
    Rewrite,
    /// Send all statuses of a part again, for a node that has just started.
    SendStatuses(usize),
}

/// The data of a server that Redis has.
#[derive(Default)]
struct LastPushed {
    /// Time of the last sample, in Unix milliseconds.
    at: Millis,
    /// Digest of the state record that Redis has; 0 if it has none.
    digest: u64,
    /// State after the last poll.
    state: ServerState,
    /// The last status that was sent, and when, by the clock of this process.
    status: Option<(Arc<LastStatus>, Millis)>,
}

/// An entry to be sent.
struct StreamEntry {
    part: usize,
    json: Vec<u8>,
    /// Number of samples.
    rows: usize,
    /// Whether the entry was sent before; Redis may have lost it.
    is_resend: bool,
}

/// State record of a server, to be written.
type PendingState = (Chunk, ServerId, StateRecord);
/// Statuses of one part, and their long parts, concatenated.
type Statuses = (Vec<StatusEntry>, Vec<u8>);

struct Pusher {
    shared: Arc<Shared>,
    sessions: SessionTracker,
    noted: ByChunk<HashMap<ServerId, LastPushed>>,
    gathered: Vec<PollResult>,
    /// When the first of these results arrived, by the clock of Redis.
    gathered_since: Option<Millis>,
    gathered_sessions: Vec<PlayerSession>,
    /// Servers whose statuses are sent again, some with each request.
    wanted_statuses: BTreeSet<ServerId>,
    /// Entries that were not sent yet.
    kept: VecDeque<StreamEntry>,
    /// Entries that were just sent, and when.
    fresh: VecDeque<(Instant, StreamEntry)>,
    kept_rows: usize,
    link: Option<RedisConnection>,
    not_before: Instant,
}

pub(super) async fn run(
    shared: Arc<Shared>,
    mut orders: mpsc::Receiver<PushCommand>,
    mut results: mpsc::Receiver<Vec<PollResult>>,
    privacy: Privacy,
) {
    let every = SEND_INTERVAL.min(shared.heartbeat() / 2);
    let mut push = Pusher {
        shared,
        sessions: SessionTracker::new(privacy),
        noted: ByChunk::default(),
        gathered: Vec::new(),
        gathered_since: None,
        gathered_sessions: Vec::new(),
        wanted_statuses: BTreeSet::new(),
        kept: VecDeque::new(),
        fresh: VecDeque::new(),
        kept_rows: 0,
        link: None,
        not_before: Instant::now(),
    };
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            order = orders.recv() => match order {
                None => return,
                Some(PushCommand::Begin(chunk, memories)) => push.begin(chunk, memories),
                Some(PushCommand::Sessions(sessions)) => push.sessions.resume(sessions),
                Some(PushCommand::Rewrite) => push.rewrite(),
                Some(PushCommand::SendStatuses(part)) => push.send_statuses(part),
                Some(PushCommand::Forget(chunks)) => push.forget(&chunks),
                Some(PushCommand::Flush(chunks, done_sender)) => {
                    while let Ok(some) = results.try_recv() {
                        push.record(some);
                    }
                    push.send(&chunks).await;
                    let _ = done_sender.send(());
                }
            },
            // Before the results, which may always be waiting.
            _ = ticks.tick() => push.send(&[]).await,
            Some(some) = results.recv() => {
                push.record(some);
                if push.gathered.len() >= ROWS_PER_ENTRY * PARTS {
                    push.send(&[]).await;
                }
            }
        }
    }
}

impl Pusher {
    fn begin(&mut self, chunk: Chunk, memories: HashMap<ServerId, StateRecord>) {
        let noted = memories.into_iter().map(|(server, memory)| {
            // A record without a sample comes from the database: Redis does not have it.
            let digest = if memory.at == 0 { 0 } else { memory.digest() };
            let pushed = LastPushed {
                at: memory.at,
                digest,
                state: memory.known(),
                status: None,
            };
            (server, pushed)
        });
        self.noted.insert(chunk, noted.collect());
    }

    /// Queues everything that Redis may have lost. The history ignores rows that it has already.
    fn rewrite(&mut self) {
        for noted in self.noted.values_mut().flat_map(HashMap::values_mut) {
            noted.digest = 0;
        }
        for (_, entry) in self.fresh.drain(..).rev() {
            self.kept_rows += entry.rows;
            self.kept.push_front(StreamEntry {
                is_resend: true,
                ..entry
            });
        }
    }

    /// Queues the statuses of a part. Nodes that start together ask once each, and get them once.
    fn send_statuses(&mut self, of: usize) {
        let chunks = self.noted.iter().filter(|(chunk, _)| part(**chunk) == of);
        for server in chunks.flat_map(|(_, servers)| servers.keys()) {
            self.wanted_statuses.insert(*server);
        }
    }

    fn forget(&mut self, chunks: &[Chunk]) {
        for chunk in chunks {
            for server in self
                .noted
                .remove(chunk)
                .into_iter()
                .flat_map(HashMap::into_keys)
            {
                // The next owner continues these sessions from the history.
                self.gathered_sessions.extend(self.sessions.close(server));
            }
        }
    }

    /// Records results of this node. Results of chunks whose lease has ended are dropped: the next
    /// owner polls these servers.
    fn record(&mut self, mut results: Vec<PollResult>) {
        {
            let leases = self.shared.leases();
            let now = self.shared.now();
            results.retain(|result| leases.holds(Chunk::of(result.sample.server), now));
        }
        if !results.is_empty() {
            let now = self.shared.redis_now();
            self.gathered_since.get_or_insert(now);
        }
        for result in results {
            let sample = result.sample;
            self.gathered_sessions.extend(self.sessions.record(&result));
            let chunk = self.noted.entry(Chunk::of(sample.server)).or_default();
            let pushed = chunk.entry(sample.server).or_default();
            pushed.at = sample.at;
            pushed.state = result.state.clone();
            self.gathered.push(result);
        }
    }

    /// Sends what was gathered, and all state records of the `given` chunks.
    async fn send(&mut self, given: &[Chunk]) {
        let (memories, statuses) = self.entries(given);
        self.drop_excess();
        self.publish_kept();
        let is_stale = |(sent, _): &(Instant, _)| sent.elapsed() > RESEND_WINDOW;
        self.fresh.drain(..self.fresh.partition_point(is_stale));
        if self.not_before > Instant::now() {
            return;
        }
        let entries = self.kept.len().min(ENTRIES_PER_REQUEST);
        let mut pipes: BTreeMap<usize, Pipeline> = BTreeMap::new();
        self.add_results(entries, &mut pipes);
        self.add_memories(&memories, &mut pipes);
        self.add_statuses(statuses, &mut pipes);
        if pipes.is_empty() {
            return;
        }
        if let Err(trouble) = self.carry(pipes.into_values().collect()).await {
            self.shared.set_error("push", Some(trouble));
            self.link = None;
            self.not_before = Instant::now() + RECONNECT_DELAY;
            return;
        }
        self.shared.set_error("push", None);
        let now = Instant::now();
        for entry in self.kept.drain(..entries) {
            self.kept_rows -= entry.rows;
            self.fresh.push_back((now, entry));
        }
        for (chunk, server, memory) in memories {
            let noted = self.noted.get_mut(&chunk);
            if let Some(noted) = noted.and_then(|noted| noted.get_mut(&server)) {
                noted.digest = memory.digest();
            }
        }
        self.publish_kept();
    }

    /// Drops the oldest entries above [`MAX_KEPT_SAMPLES`].
    fn drop_excess(&mut self) {
        while self.kept_rows > MAX_KEPT_SAMPLES {
            let Some(StreamEntry { rows, .. }) = self.kept.pop_front() else {
                break;
            };
            self.kept_rows -= rows;
            self.shared
                .dropped
                .fetch_add(rows as u64, Ordering::Relaxed);
        }
    }

    fn publish_kept(&self) {
        let kept = self.kept_rows as u64;
        self.shared.kept.store(kept, Ordering::Relaxed);
    }

    /// Adds the first entries that were not sent yet.
    fn add_results(&self, entries: usize, pipes: &mut BTreeMap<usize, Pipeline>) {
        for entry in self.kept.range(..entries) {
            // Limit of the stream: the number of entries of this size that hold `backlog` samples.
            let backlog = self.shared.config.backlog / PARTS as u64;
            let most = (backlog / entry.rows.max(1) as u64).max(64);
            let pipe = pipes.entry(entry.part).or_insert_with(pipe);
            let add = pipe
                .cmd("XADD")
                .arg(self.shared.keys.results(entry.part))
                .arg(("MAXLEN", "~", most, "*"))
                .arg(("e", &entry.json));
            if entry.is_resend {
                add.arg((RESEND_FIELD, "1"));
            }
            add.ignore();
        }
    }

    fn add_memories(&self, memories: &[PendingState], pipes: &mut BTreeMap<usize, Pipeline>) {
        for (chunk, server, memory) in memories {
            let pipe = pipes.entry(part(*chunk)).or_insert_with(pipe);
            let json = serde_json::to_vec(memory).unwrap_or_default();
            pipe.cmd("HSET")
                .arg(self.shared.keys.state(*chunk))
                .arg(server.0)
                .arg(json)
                .ignore();
        }
    }

    fn add_statuses(
        &self,
        statuses: BTreeMap<usize, Statuses>,
        pipes: &mut BTreeMap<usize, Pipeline>,
    ) {
        for (part, (list, bytes)) in statuses {
            let json = serde_json::to_vec(&list).unwrap_or_default();
            let pipe = pipes.entry(part).or_insert_with(pipe);
            pipe.cmd("XADD")
                .arg(self.shared.keys.statuses(part))
                .arg(("MAXLEN", "~", MAX_STATUS_ENTRIES, "*"))
                .arg(("by", &self.shared.me))
                .arg(("e", json))
                .arg(("b", bytes))
                .ignore();
        }
    }

    async fn carry(&mut self, pipes: Vec<Pipeline>) -> Result<(), String> {
        let redis = &self.shared.config.redis;
        if self.link.is_none() {
            self.link = Some(redis.connect().await?);
        }
        let Some(link) = &self.link else {
            return Ok(());
        };
        // Requests of one part run in order, the parts in parallel.
        let all = pipes.into_iter().map(|pipe| {
            let mut link = link.clone();
            async move {
                let done: RedisResult<Value> = pipe.query_async(&mut link).await;
                done
            }
        });
        let done = futures_util::future::join_all(all).await;
        done.into_iter()
            .collect::<RedisResult<Vec<_>>>()
            .map(drop)
            .map_err(|error| redis.describe(&error))
    }

    /// Turns the gathered results into entries. Returns the state records and statuses that have
    /// changed since they were last sent, and all state records of the `given` chunks.
    fn entries(&mut self, given: &[Chunk]) -> (Vec<PendingState>, BTreeMap<usize, Statuses>) {
        let part_of = |server: ServerId| part(Chunk::of(server));
        let taken = self.gathered_since.take();
        let mut servers = BTreeSet::new();
        let mut parts: BTreeMap<usize, (Vec<PollResult>, Vec<PlayerSession>)> = BTreeMap::new();
        for result in std::mem::take(&mut self.gathered) {
            let server = result.sample.server;
            servers.insert(server);
            parts.entry(part_of(server)).or_default().0.push(result);
        }
        for session in std::mem::take(&mut self.gathered_sessions) {
            let part = parts.entry(part_of(session.server)).or_default();
            part.1.push(session);
        }
        for (part, (results, mut sessions)) in parts {
            let mut results = results.as_slice();
            // At least one entry, even if there are only sessions.
            loop {
                let (now, later) = results.split_at(results.len().min(ROWS_PER_ENTRY));
                results = later;
                self.add_entry(part, taken, now, std::mem::take(&mut sessions));
                if results.is_empty() {
                    break;
                }
            }
        }
        for _ in 0..STATUSES_PER_REQUEST {
            let Some(server) = self.wanted_statuses.pop_first() else {
                break;
            };
            let chunk = self.noted.get_mut(&Chunk::of(server));
            if let Some(pushed) = chunk.and_then(|chunk| chunk.get_mut(&server)) {
                pushed.status = None;
                servers.insert(server);
            }
        }
        for chunk in given {
            servers.extend(self.noted.get(chunk).into_iter().flat_map(HashMap::keys));
        }
        let mut records = Vec::new();
        let mut statuses: BTreeMap<usize, Statuses> = BTreeMap::new();
        let now = self.shared.now();
        for server in servers {
            let chunk = Chunk::of(server);
            let pushed = self.noted.get_mut(&chunk);
            let Some(pushed) = pushed.and_then(|pushed| pushed.get_mut(&server)) else {
                continue;
            };
            let record = StateRecord::new(pushed.at, &pushed.state);
            if record.digest() != pushed.digest || given.contains(&chunk) {
                records.push((chunk, server, record));
            }
            let Some(status) = pushed
                .state
                .last_status
                .clone()
                .filter(|status| !status.answer.is_empty() || !status.players.is_empty())
            else {
                continue;
            };
            let is_sent = pushed.status.as_ref().is_some_and(|(sent, at)| {
                is_same_status(sent, &status) && now - at < STATUS_RESEND_MS
            });
            let (list, bytes) = statuses.entry(part(chunk)).or_default();
            if !is_sent && bytes.len() < MAX_STATUS_ENTRY_BYTES {
                list.push(StatusEntry::new(server, &status, bytes));
                pushed.status = Some((status, now));
            } else if !is_sent {
                self.wanted_statuses.insert(server);
            }
        }
        statuses.retain(|_, (list, _)| !list.is_empty());
        (records, statuses)
    }

    /// Adds an entry with these results to the queue.
    fn add_entry(
        &mut self,
        part: usize,
        taken: Option<Millis>,
        results: &[PollResult],
        sessions: Vec<PlayerSession>,
    ) {
        let mut rows = Vec::with_capacity(results.len());
        let mut observed = Vec::with_capacity(results.len());
        let mut errors: Vec<Arc<PollError>> = Vec::new();
        let mut events = Vec::new();
        let mut flapping = Vec::new();
        for result in results {
            let error = result.error.as_ref().map(|error| {
                let known = errors.iter().position(|known| known == error);
                known.unwrap_or_else(|| {
                    errors.push(error.clone());
                    errors.len() - 1
                }) as u16
            });
            observed.push(result.sample.observed_ms);
            rows.push(SampleRecord::new(
                result.sample,
                &result.state.health,
                error,
            ));
            events.extend(result.events.iter().cloned());
            let changes = result.state.health.flapping_changes();
            if !changes.is_empty() {
                flapping.push((result.sample.server, changes.to_vec()));
            }
        }
        let entry = ResultsEntry {
            by: self.shared.me.clone(),
            taken,
            rows,
            observed,
            errors,
            events,
            flapping,
            sessions,
        };
        self.kept_rows += results.len();
        self.kept.push_back(StreamEntry {
            part,
            json: serde_json::to_vec(&entry).unwrap_or_default(),
            rows: results.len(),
            is_resend: false,
        });
    }
}
