//! State of all servers at this node: from PostgreSQL at the start, then from the streams in Redis.
//!
//! A mirror that was disconnected for longer than entries stay in the streams is complete again
//! after one interval. Long parts of answers take at most 128 MiB.
//!
//! In: rows of PostgreSQL, streams of Redis. Out: rows of the state table.
//!
//! May import: `crate::cluster`, `crate::cluster::entry`, `crate::cluster::keys`,
//! `crate::cluster::lease`, `crate::cluster::push`, `crate::cluster::write`, `crate::health`,
//! `crate::history`, `crate::sample`, `crate::server`, `crate::state`, `hailer`.

use super::entry::{ResultsEntry, SampleRecord, StatusEntry, read_server};
use super::keys::PARTS;
use super::lease::Chunk;
use super::push::{PushCommand, REQUEST_FIELD, RESEND_FIELD};
use super::write::{field, time};
use super::{ByChunk, Shared};
use crate::health::FLAPPING_CHANGES;
use crate::history::HistoryError;
use crate::sample::Millis;
use crate::server::ServerId;
use crate::state::{LastStatus, StateTable, Update};
use futures_util::future::join_all;
use hailer::support::link::RedisConnection;
use redis::{RedisResult, cmd};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Delay before the streams are read again after they were empty.
const EMPTY_READ_DELAY: Duration = Duration::from_millis(250);
/// Entries read in one request.
const ENTRIES_PER_READ: usize = 64;
/// Limit for the long parts of answers, in bytes.
const MAX_ANSWER_BYTES: usize = 128 << 20;

pub(super) struct Mirror {
    /// Version and servers of each chunk when it was last read.
    known: ByChunk<(u64, Vec<ServerId>)>,
    changed: u64,
    /// Position in each stream: results, then statuses. Empty: start at the first entry.
    cursors: Vec<String>,
    /// Whether all entries have been read once.
    has_read_all: bool,
    /// Bytes of the long parts of answers, by server.
    kept: HashMap<ServerId, usize>,
    all_kept: usize,
}

type StatusRead = Option<Vec<(String, Vec<(String, Vec<Vec<u8>>)>)>>;

impl Mirror {
    /// Loads all servers and states from the history.
    pub(super) async fn load(shared: &Shared) -> Result<Self, HistoryError> {
        let mut known = ByChunk::<(u64, Vec<ServerId>)>::default();
        for server in shared.history.servers().await? {
            known
                .entry(Chunk::of(server.id))
                .or_default()
                .1
                .push(server.id);
            shared.newest.fetch_max(server.id.0, Ordering::Relaxed);
            shared.live.set(server);
        }
        let states: HashMap<_, _> = shared
            .history
            .last_states()
            .await?
            .into_iter()
            .map(|(id, state, since)| (id, (state, since)))
            .collect();
        let update = Update {
            servers: states.keys().copied().collect(),
            has_list_changed: true,
            ..Update::default()
        };
        shared.live.change(update, |row| {
            if let Some((state, since)) = states.get(&row.server.id) {
                row.state = *state;
                row.since = *since;
            }
        });
        shared
            .history
            .load_day(&shared.live, shared.clock.now())
            .await?;
        Ok(Self {
            known,
            changed: 0,
            cursors: vec![String::new(); 2 * PARTS],
            has_read_all: false,
            kept: HashMap::new(),
            all_kept: 0,
        })
    }

    pub(super) async fn run(mut self, shared: Arc<Shared>) {
        loop {
            let mut link = shared.connect("mirror").await;
            if let Err(error) = self.live(&shared, &mut link).await {
                shared.set_error("mirror", Some(shared.config.redis.describe(&error)));
            }
            sleep(super::RECONNECT_DELAY).await;
        }
    }

    async fn live(&mut self, shared: &Shared, link: &mut RedisConnection) -> RedisResult<()> {
        self.refresh(shared, link).await?;
        // The streams have only the newest statuses: ask the other nodes for all.
        for part in 0..PARTS {
            cmd("XADD")
                .arg(shared.keys.statuses(part))
                .arg("*")
                .arg(("by", &shared.me))
                .arg((REQUEST_FIELD, "1"))
                .exec_async(link)
                .await?;
        }
        loop {
            // Not the number of the last heartbeat: changes are visible within a second.
            if self.changed != changes(shared, link).await? {
                self.refresh(shared, link).await?;
            }
            self.check_added(shared).await;
            let is_all = self.read(shared, link).await?;
            shared.set_error("mirror", None);
            if is_all {
                let _ = timeout(EMPTY_READ_DELAY, shared.news.notified()).await;
            }
        }
    }

    /// Applies changes of the watchlist.
    async fn refresh(&mut self, shared: &Shared, link: &mut RedisConnection) -> RedisResult<()> {
        let changed = changes(shared, link).await?;
        let versions: Vec<(i64, u64)> = cmd("HGETALL")
            .arg(shared.keys.control("versions"))
            .query_async(link)
            .await?;
        let mut shown = Vec::new();
        for (chunk, version) in versions {
            let chunk = Chunk(chunk);
            if self
                .known
                .get(&chunk)
                .is_some_and(|(known, _)| *known == version)
            {
                continue;
            }
            let targets: HashMap<String, Vec<u8>> = cmd("HGETALL")
                .arg(shared.keys.targets(chunk))
                .query_async(link)
                .await?;
            // Redis was just emptied and will be filled.
            if targets.is_empty() {
                continue;
            }
            let mut ids = Vec::new();
            for (field, json) in &targets {
                let Some(server) = field.parse().ok().and_then(|id| read_server(id, json)) else {
                    continue;
                };
                ids.push(server.id);
                if shared
                    .live
                    .row(server.id)
                    .is_none_or(|row| *row.server != server)
                {
                    shown.push(server.id);
                    shared.live.set(server);
                }
            }
            let (_, before) = self
                .known
                .insert(chunk, (version, ids.clone()))
                .unwrap_or_default();
            for gone in before.into_iter().filter(|id| !ids.contains(id)) {
                shared.live.remove(gone);
                shown.push(gone);
            }
        }
        if !shown.is_empty() {
            shared.live.announce(shown);
        }
        self.changed = changed;
        Ok(())
    }

    /// Removes servers that this node has added, but that another one has removed before they were in
    /// Redis.
    async fn check_added(&self, shared: &Shared) {
        let is_known = |id: &ServerId| {
            let chunk = self.known.get(&Chunk::of(*id));
            chunk.is_some_and(|(_, ids)| ids.contains(id))
        };
        let added: Vec<ServerId> = {
            let mut added = shared.added();
            added.retain(|id| !is_known(id));
            added.iter().copied().collect()
        };
        let (Some(first), Some(last)) = (added.first(), added.last()) else {
            return;
        };
        let Ok(left) = shared
            .history
            .servers_of(*first, ServerId(last.0 + 1))
            .await
        else {
            return;
        };
        let left: HashSet<ServerId> = left.into_iter().map(|server| server.id).collect();
        let gone: Vec<ServerId> = added.into_iter().filter(|id| !left.contains(id)).collect();
        for id in &gone {
            shared.live.remove(*id);
            shared.added().remove(id);
        }
        if !gone.is_empty() {
            shared.live.announce(gone);
        }
    }

    /// Returns whether all entries have been read.
    async fn read(&mut self, shared: &Shared, link: &RedisConnection) -> RedisResult<bool> {
        let reads = self.cursors.iter().enumerate().map(|(stream, cursor)| {
            let key = if stream < PARTS {
                shared.keys.results(stream)
            } else {
                shared.keys.statuses(stream - PARTS)
            };
            // From the first entry: statuses from before the start are still useful, and the history
            // may not have the newest samples yet.
            let from = match cursor.as_str() {
                "" => "0".to_owned(),
                cursor => cursor.to_owned(),
            };
            let mut link = link.clone();
            async move {
                let mut read = cmd("XREAD");
                read.arg("COUNT")
                    .arg(ENTRIES_PER_READ)
                    .arg("STREAMS")
                    .arg(key)
                    .arg(from);
                let read: StatusRead = read.query_async(&mut link).await?;
                let entries: Vec<_> = read
                    .into_iter()
                    .flatten()
                    .flat_map(|(_, entries)| entries)
                    .collect();
                Ok((entries.last().map(|(id, _)| id.clone()), entries))
            }
        });
        let mut is_all = true;
        let done: Vec<RedisResult<_>> = join_all(reads).await;
        for (stream, done) in done.into_iter().enumerate() {
            let (cursor, entries) = done?;
            is_all &= entries.len() < ENTRIES_PER_READ;
            if let Some(cursor) = cursor {
                self.cursors[stream] = cursor;
            }
            for (id, fields) in &entries {
                if stream < PARTS {
                    show_results(shared, id, fields, self.has_read_all);
                } else {
                    self.show_statuses(shared, stream - PARTS, fields);
                }
            }
        }
        self.has_read_all |= is_all;
        Ok(is_all)
    }

    fn show_statuses(&mut self, shared: &Shared, part: usize, fields: &[Vec<u8>]) {
        if field(fields, b"by") == Some(shared.me.as_bytes()) {
            return;
        }
        if field(fields, REQUEST_FIELD.as_bytes()).is_some() {
            if self.has_read_all {
                // If the queue is full, the node that asks gets each status with the next change.
                let _ = shared.to_push.try_send(PushCommand::SendStatuses(part));
            }
            return;
        }
        let (Some(json), Some(mut bytes)) = (field(fields, b"e"), field(fields, b"b")) else {
            return;
        };
        let Ok(list) = serde_json::from_slice::<Vec<StatusEntry>>(json) else {
            return;
        };
        let mut latest = HashMap::new();
        for status_entry in list {
            let Some((server, mut one)) = status_entry.status(&mut bytes) else {
                return;
            };
            let long = one.long_bytes();
            self.all_kept -= self.kept.remove(&server).unwrap_or(0);
            if self.all_kept + long <= MAX_ANSWER_BYTES {
                self.all_kept += long;
                self.kept.insert(server, long);
            } else {
                one = LastStatus {
                    answer: Box::default(),
                    replies: Vec::new(),
                    ..one
                };
            }
            latest.insert(server, Arc::new(one));
        }
        let update = Update::of(latest.keys().copied());
        shared.live.change(update, |row| {
            row.last_status = latest.remove(&row.server.id).or(row.last_status.take());
        });
    }
}

/// Returns the number of changes of the watchlist so far.
async fn changes(shared: &Shared, link: &mut RedisConnection) -> RedisResult<u64> {
    let changed: Option<u64> = cmd("GET")
        .arg(shared.keys.control("changed"))
        .query_async(link)
        .await?;
    Ok(changed.unwrap_or(0))
}

/// Applies an entry of results.
fn show_results(shared: &Shared, id: &str, fields: &[Vec<u8>], has_read_all: bool) {
    if field(fields, RESEND_FIELD.as_bytes()).is_some() {
        return;
    }
    let Some(entry) = field(fields, b"e").and_then(ResultsEntry::read) else {
        return;
    };
    let is_own = entry.by == shared.me;
    if !is_own && !entry.rows.is_empty() {
        shared.last.store(shared.clock.now(), Ordering::Relaxed);
    }
    let taken = entry.taken.unwrap_or_else(|| time(id));
    let kind = match (is_own, has_read_all) {
        (true, _) => EntryKind::Own,
        (false, true) => EntryKind::Other,
        (false, false) => EntryKind::BeforeStart,
    };
    apply(&shared.live, entry, taken, kind, shared.redis_now());
}

/// Where an entry comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryKind {
    /// This node, whose poller has applied the results.
    Own,
    /// Another node.
    Other,
    /// Another node, from before this node has read all entries for the first time. The history may
    /// have had the samples when the day was loaded.
    BeforeStart,
}

/// Applies results that were taken at `taken`, by the clock of Redis. The newest sample is the one
/// that was taken last: a node whose clock was ahead has written samples with times in the future.
fn apply(live: &StateTable, entry: ResultsEntry, taken: Millis, kind: EntryKind, now: Millis) {
    let is_own = kind == EntryKind::Own;
    let is_catching_up = kind == EntryKind::BeforeStart;
    let ResultsEntry {
        rows,
        errors,
        events,
        flapping,
        ..
    } = entry;
    let mut flapping: HashMap<ServerId, Vec<Millis>> = flapping.into_iter().collect();
    let rows: HashMap<ServerId, SampleRecord> = rows
        .into_iter()
        .map(|row| (row.sample.server, row))
        .collect();
    let update = Update {
        servers: rows.keys().copied().collect(),
        events: if is_own { Vec::new() } else { events },
        ..Update::default()
    };
    live.change(update, |row| {
        let Some(new) = rows.get(&row.server.id) else {
            return;
        };
        // A node that was cut off sends its last results late.
        if taken < row.taken {
            return;
        }
        row.taken = taken;
        // The poller has applied the results of this node.
        if is_own {
            return;
        }
        let sample = new.sample;
        row.state = new.state;
        row.is_flapping = new.is_flapping;
        row.is_settled = new.is_settled;
        row.changes = flapping.remove(&row.server.id).unwrap_or_default();
        row.changes.truncate(FLAPPING_CHANGES);
        row.since = new.since;
        // The day has the samples of the history from the start.
        let is_loaded = is_catching_up && sample.at <= row.day.last_sample();
        if !is_loaded {
            row.day.add_sample(&sample, now);
        }
        row.error = new.error().and_then(|place| errors.get(place)).cloned();
        row.last_sample = Some(sample);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::{Health, State};
    use crate::sample::Sample;
    use crate::server::Server;

    const NOW: Millis = 1_795_284_000_000;
    const MINUTE: Millis = 60_000;

    fn entry(at: Millis, is_answered: bool) -> ResultsEntry {
        let sample = Sample {
            observed_ms: 0,
            server: ServerId(1),
            at,
            is_answered,
            players: None,
            max: None,
            latency: None,
            sent: 1,
            resent: 0,
        };
        let state = if is_answered { State::Up } else { State::Down };
        let row = SampleRecord::new(sample, &Health::known(state, at), None);
        ResultsEntry {
            rows: vec![row],
            ..ResultsEntry::default()
        }
    }

    fn table() -> StateTable {
        let live = StateTable::default();
        live.set(Server::of_test(1));
        live
    }

    #[test]
    fn times_in_the_future_hold_no_state_back() {
        for ahead in [10 * MINUTE, 24 * 60 * MINUTE] {
            let live = table();
            let state = || {
                let row = live.row(ServerId(1)).unwrap();
                (row.state, row.since, row.last_sample.unwrap().at)
            };
            // A node whose clock is ahead polls, and then another one takes over.
            apply(&live, entry(NOW + ahead, true), NOW, EntryKind::Other, NOW);
            assert_eq!(state(), (State::Up, NOW + ahead, NOW + ahead), "as it is");
            let next = NOW + MINUTE;
            apply(&live, entry(next, false), next, EntryKind::Other, next);
            assert_eq!(state(), (State::Down, next, next));
        }
    }

    #[test]
    fn late_entries_of_a_node_that_was_cut_off_change_nothing() {
        let live = table();
        apply(&live, entry(NOW, false), NOW + 100, EntryKind::Other, NOW);
        // Its sample was taken before, and arrives later; also if its clock is ahead.
        for at in [NOW - MINUTE, NOW + MINUTE] {
            apply(&live, entry(at, true), NOW - MINUTE, EntryKind::Other, NOW);
            let row = live.row(ServerId(1)).unwrap();
            assert_eq!((row.state, row.last_sample.unwrap().at), (State::Down, NOW));
        }
        // Samples of this node count before those that others took earlier.
        apply(
            &live,
            entry(NOW, true),
            NOW + 3 * MINUTE,
            EntryKind::Own,
            NOW,
        );
        apply(
            &live,
            entry(NOW, true),
            NOW + 2 * MINUTE,
            EntryKind::Other,
            NOW,
        );
        assert_eq!(live.row(ServerId(1)).unwrap().state, State::Down);
    }

    #[test]
    fn entries_from_before_the_start_count_once() {
        let live = table();
        let loaded = crate::state::HalfHour {
            server: ServerId(1),
            start: NOW - MINUTE,
            last_sample: NOW - MINUTE,
            observed_ms: MINUTE,
            up_ms: MINUTE,
            players: 0.0,
        };
        live.add_half_hours(&[loaded]);
        // The history has the first two; the third waits in Redis.
        for at in [NOW - 2 * MINUTE, NOW - MINUTE, NOW] {
            let mut entry = entry(at, false);
            entry.rows[0].sample.observed_ms = MINUTE as u32;
            apply(&live, entry, at, EntryKind::BeforeStart, NOW);
        }
        let uptime = live.row(ServerId(1)).unwrap().day.uptime(NOW);
        assert_eq!(uptime, Some(0.5));
    }
}
