//! Current state of all servers, one row each, in memory. Pages, API, metrics and alerts read it.
//!
//! The poller writes it. A reader copies what it needs under the lock; large parts are behind an
//! `Arc`.

pub(crate) mod find;
pub(crate) mod index;
pub(crate) mod totals;

use self::index::Index;
use self::totals::Totals;
use crate::cached::Cached;
use crate::health::{Health, State};
use crate::icon::{IconId, Icons};
use crate::sample::{Event, Millis, Sample};
use crate::server::{Server, ServerId};
use crate::uptime::{Uptime, sample_length_ms};
use compact_str::CompactString;
use hailer::{Status, Text};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::broadcast;

/// Number of buckets of the sparkline: one day in half hours.
pub const DAY_BUCKETS: usize = 48;
/// Length of a bucket, in milliseconds.
pub const DAY_BUCKET_MS: Millis = 30 * 60_000;
/// Rows visited under one lock.
const ROWS_PER_LOCK: usize = 1_024;
/// Updates that a slow subscriber may have pending. Beyond that it loses updates, and is notified
/// of the loss.
const MAX_PENDING_UPDATES: usize = 256;

/// Current state of one server.
#[derive(Clone, Debug)]
pub struct ServerRow {
    /// Server of this row.
    pub server: Arc<Server>,
    /// Whether the server is up.
    pub state: State,
    /// Whether the server is flapping: its ups and downs are not reported.
    pub is_flapping: bool,
    /// When the server entered this state, in Unix milliseconds.
    pub since: Millis,
    /// The last sample.
    pub last_sample: Option<Sample>,
    /// Error of the last sample: keyword and sentence of [`hailer::Error`].
    pub error: Option<Arc<(String, String)>>,
    /// The last status; kept while the server is down.
    pub last_status: Option<Arc<LastStatus>>,
    /// Players and uptime of the last day.
    pub day: Day,
}

/// The last status of a server. Short texts, up to 24 bytes, are stored inline: there may be
/// 100,000 of each.
#[derive(Clone, Debug, Default)]
pub struct LastStatus {
    /// When the poll was due, in Unix milliseconds.
    pub at: Millis,
    /// Address that replied.
    pub address: Option<SocketAddr>,
    /// Id of the protocol of the answer; of several, the main one.
    pub protocol: Option<&'static str>,
    /// Name of the server, or else the first line of its MOTD; unfiltered.
    pub title: Option<CompactString>,
    /// MOTD with formatting.
    pub motd: Option<Text>,
    /// Game, as the server reports it.
    pub game: Option<CompactString>,
    /// Version of game or server.
    pub version: Option<CompactString>,
    /// Name of the map or world.
    pub map: Option<CompactString>,
    /// Maximum number of players.
    pub max: Option<u32>,
    /// Whether players need a password to join.
    pub has_password: Option<bool>,
    /// Whether the server uses anti-cheat software.
    pub has_anti_cheat: Option<bool>,
    /// Number of bots, which the number of players may include or not.
    pub bots: Option<u32>,
    /// Icon, in [`StateTable::icons`] or the history.
    pub icon: Option<IconId>,
    /// Names of the players online, without formatting.
    pub players: Box<[CompactString]>,
    /// Whether `players` lists all players who are online.
    pub is_whole: bool,
    /// Whether `players` is a sample that the server chose. It may contain texts that are no names.
    pub is_sample: bool,
    /// The answer as JSON without the icon, see `schema/answer-v2.json`; empty if it exceeded a limit.
    pub answer: Box<[u8]>,
    /// The datagrams of the reply; empty if they exceeded a limit.
    pub replies: Vec<Box<[u8]>>,
}

/// State of the last day: 48 buckets of half an hour in a ring.
#[derive(Clone, Debug)]
pub struct Day {
    /// Number of the newest bucket, counted from 1970.
    newest: i64,
    /// When the newest sample was taken, 0 before the first.
    last_sample: Millis,
    buckets: [DayBucket; DAY_BUCKETS],
}

/// Half an hour. Times are in tenths of a second, which keeps a bucket at 8 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct DayBucket {
    /// Players, times the tenths of a second with a reply.
    players: f32,
    up: u16,
    observed: u16,
}

/// Half an hour of one server, as the history stores it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HalfHour {
    /// Server of the half hour.
    pub server: ServerId,
    /// When it starts, in Unix milliseconds.
    pub start: Millis,
    /// Time with samples, in milliseconds.
    pub observed_ms: Millis,
    /// Time with replies, in milliseconds.
    pub up_ms: Millis,
    /// Mean number of players, 0 without replies.
    pub players: f32,
}

impl Default for Day {
    fn default() -> Self {
        Self {
            newest: 0,
            last_sample: 0,
            buckets: [DayBucket::default(); DAY_BUCKETS],
        }
    }
}

impl Day {
    /// Adds a sample. It counts for the time since the previous sample (see [`sample_length_ms`]).
    pub fn add_sample(&mut self, at: Millis, answered: bool, players: u32) {
        let previous = Some(self.last_sample).filter(|previous| *previous > 0);
        let length = sample_length_ms(previous, at);
        self.last_sample = self.last_sample.max(at);
        self.add(
            at,
            length,
            if answered { length } else { 0 },
            players as f32,
        );
    }

    /// Adds `observed_ms` milliseconds to the bucket of `at`, of which the server was up for
    /// `up_ms`, with `players` players in the mean. Times before the last day are ignored.
    pub fn add(&mut self, at: Millis, observed_ms: Millis, up_ms: Millis, players: f32) {
        let number = at.div_euclid(DAY_BUCKET_MS);
        if number <= self.newest - DAY_BUCKETS as i64 {
            return;
        }
        for passed in (self.newest + 1).max(number - DAY_BUCKETS as i64 + 1)..=number {
            self.buckets[passed.rem_euclid(DAY_BUCKETS as i64) as usize] = DayBucket::default();
        }
        self.newest = self.newest.max(number);
        let tenths = |millis: Millis| u16::try_from(millis.max(0) / 100).unwrap_or(u16::MAX);
        let up = tenths(up_ms.min(observed_ms));
        let bucket = &mut self.buckets[number.rem_euclid(DAY_BUCKETS as i64) as usize];
        bucket.players += players * f32::from(up);
        bucket.up = bucket.up.saturating_add(up);
        bucket.observed = bucket.observed.saturating_add(tenths(observed_ms));
    }

    /// Returns the mean number of players of each half hour up to `now`, the oldest first; `None`
    /// without replies.
    pub fn players(&self, now: Millis) -> [Option<f32>; DAY_BUCKETS] {
        self.buckets(now)
            .map(|bucket| (bucket.up > 0).then(|| bucket.players / f32::from(bucket.up)))
    }

    /// Returns the uptime of each half hour up to `now`, the oldest first; `None` without samples.
    pub fn uptimes(&self, now: Millis) -> [Option<f32>; DAY_BUCKETS] {
        self.buckets(now).map(|bucket| {
            let share = bucket.uptime().share()?;
            Some(share as f32)
        })
    }

    /// Returns the uptime of the last day, from 0 to 1; `None` without samples.
    pub fn uptime(&self, now: Millis) -> Option<f32> {
        let mut all = Uptime::default();
        for bucket in self.buckets(now) {
            all.merge(bucket.uptime());
        }
        all.share().map(|share| share as f32)
    }

    fn buckets(&self, now: Millis) -> [DayBucket; DAY_BUCKETS] {
        let last = now.div_euclid(DAY_BUCKET_MS);
        std::array::from_fn(|nth| {
            let number = last - (DAY_BUCKETS - 1 - nth) as i64;
            let is_kept = number <= self.newest && number > self.newest - DAY_BUCKETS as i64;
            if is_kept {
                self.buckets[number.rem_euclid(DAY_BUCKETS as i64) as usize]
            } else {
                DayBucket::default()
            }
        })
    }
}

impl DayBucket {
    fn uptime(self) -> Uptime {
        let mut uptime = Uptime::default();
        let observed = u64::from(self.observed);
        uptime.add(Millis::from(self.observed), observed, self.up.into());
        uptime
    }
}

/// A change of the state table, for live updates.
#[derive(Clone, Debug, Default)]
pub struct Update {
    /// The changed rows.
    pub servers: Vec<ServerId>,
    /// The new events.
    pub events: Vec<Event>,
    /// Whether servers were added, removed or described differently.
    pub has_list_changed: bool,
}

/// State of all servers.
#[derive(Debug)]
pub struct StateTable {
    rows: RwLock<Rows>,
    /// Version of the list of servers: changes when a server is added, removed or described
    /// differently.
    list: AtomicU64,
    index: Index,
    icons: Icons,
    totals: Cached<Totals>,
    updates: broadcast::Sender<Arc<Update>>,
    /// Time of the newest event, in Unix milliseconds.
    happened: AtomicI64,
}

/// Rows at fixed positions, so that an iteration can release the lock between blocks, and rows that
/// were added together lie together. Boxed, because growing a vector of rows would double their
/// memory.
#[derive(Debug, Default)]
struct Rows {
    places: Vec<Option<Box<ServerRow>>>,
    free: Vec<u32>,
    by_id: HashMap<ServerId, u32>,
    by_name: HashMap<String, ServerId>,
}

impl Rows {
    fn get(&self, id: ServerId) -> Option<&ServerRow> {
        self.places.get(*self.by_id.get(&id)? as usize)?.as_deref()
    }

    fn get_mut(&mut self, id: ServerId) -> Option<&mut ServerRow> {
        self.places
            .get_mut(*self.by_id.get(&id)? as usize)?
            .as_deref_mut()
    }

    fn set(&mut self, server: Arc<Server>) {
        if let Some(name) = self.get(server.id).map(|old| old.server.name.clone()) {
            self.by_name.remove(&name);
        }
        self.by_name.insert(server.name.clone(), server.id);
        match self.get_mut(server.id) {
            Some(row) if row.server.target == server.target => row.server = server,
            Some(row) => *row = ServerRow::new(server),
            None => {
                let place = self.free.pop().unwrap_or(self.places.len() as u32);
                self.by_id.insert(server.id, place);
                let row = Some(Box::new(ServerRow::new(server)));
                match self.places.get_mut(place as usize) {
                    Some(free) => *free = row,
                    None => self.places.push(row),
                }
            }
        }
    }

    fn remove(&mut self, id: ServerId) {
        let Some(place) = self.by_id.remove(&id) else {
            return;
        };
        if let Some(row) = self.places[place as usize].take() {
            self.by_name.remove(&row.server.name);
        }
        self.free.push(place);
    }
}

impl LastStatus {
    /// Returns how complete the list of players is: `whole`, `partial`, `sample` or `absent`.
    pub fn roster(&self) -> &'static str {
        match (&*self.players, self.is_sample, self.is_whole) {
            (_, true, _) => "sample",
            (_, _, true) => "whole",
            ([], ..) => "absent",
            _ => "partial",
        }
    }

    /// Decodes the whole status. `None` if the answer was too long to be kept, or if a node of
    /// another version wrote it in a way that this version cannot read.
    pub fn status(&self) -> Option<Status> {
        hailer::source::json::status(&self.answer).ok()
    }
}

impl Default for StateTable {
    fn default() -> Self {
        Self {
            rows: RwLock::default(),
            list: AtomicU64::new(0),
            happened: AtomicI64::new(0),
            index: Index::default(),
            icons: Icons::default(),
            totals: Cached::default(),
            updates: broadcast::Sender::new(MAX_PENDING_UPDATES),
        }
    }
}

impl StateTable {
    /// Returns the icons of the servers.
    pub fn icons(&self) -> &Icons {
        &self.icons
    }

    /// Adds a server, or replaces its description. The state is kept if the target is the same.
    pub fn set(&self, server: impl Into<Arc<Server>>) {
        self.write().set(server.into());
        self.list.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a server.
    pub fn remove(&self, id: ServerId) {
        self.write().remove(id);
        self.list.fetch_add(1, Ordering::Relaxed);
    }

    /// Calls `change` for each row of the update that exists, under one lock, then notifies the
    /// subscribers.
    pub fn change(&self, update: Update, mut change: impl FnMut(&mut ServerRow)) {
        {
            let mut rows = self.write();
            for id in &update.servers {
                if let Some(row) = rows.get_mut(*id) {
                    change(row);
                }
            }
        }
        if let Some(last) = update.events.iter().map(|event| event.at).max() {
            self.happened.fetch_max(last, Ordering::Relaxed);
        }
        // Without subscribers, sending fails. That is no error.
        let _ = self.updates.send(Arc::new(update));
    }

    /// Returns the time of the newest event since the start, in Unix milliseconds.
    pub fn happened(&self) -> Option<Millis> {
        Some(self.happened.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// Adds half hours from the history to the rows of their servers.
    pub fn add_half_hours(&self, half_hours: &[HalfHour]) {
        let mut rows = self.write();
        for half_hour in half_hours {
            if let Some(row) = rows.get_mut(half_hour.server) {
                let HalfHour {
                    start,
                    observed_ms,
                    up_ms,
                    players,
                    ..
                } = *half_hour;
                row.day.add(start, observed_ms, up_ms, players);
            }
        }
    }

    /// Returns the number of servers.
    pub fn len(&self) -> usize {
        self.read().by_id.len()
    }

    /// Returns whether there are no servers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a copy of a row.
    pub fn row(&self, id: ServerId) -> Option<ServerRow> {
        self.read().get(id).cloned()
    }

    /// Returns a copy of the row with this name.
    pub fn named(&self, name: &str) -> Option<ServerRow> {
        let rows = self.read();
        rows.by_name.get(name).and_then(|id| rows.get(*id)).cloned()
    }

    /// Collects the results of `pick` for all rows, in no order. `pick` runs under the lock and
    /// should be short. The lock is released every 1,024 rows.
    pub fn pick<T>(&self, mut pick: impl FnMut(&ServerRow) -> Option<T>) -> Vec<T> {
        let mut all = Vec::new();
        let mut from = 0;
        loop {
            let rows = self.read();
            let some = rows.places.get(from..).unwrap_or_default();
            let some = &some[..some.len().min(ROWS_PER_LOCK)];
            all.extend(some.iter().flatten().filter_map(|row| pick(row)));
            if some.len() < ROWS_PER_LOCK {
                return all;
            }
            from += ROWS_PER_LOCK;
        }
    }

    /// Collects the results of `pick` for some rows, in the given order. Rows that do not exist are
    /// skipped. `pick` also gets the position in `ids`.
    pub fn pick_of<T>(
        &self,
        ids: &[ServerId],
        mut pick: impl FnMut(usize, &ServerRow) -> Option<T>,
    ) -> Vec<T> {
        let mut all = Vec::new();
        for (chunk, ids) in ids.chunks(ROWS_PER_LOCK).enumerate() {
            let rows = self.read();
            let each = ids.iter().enumerate();
            all.extend(
                each.filter_map(|(nth, id)| pick(chunk * ROWS_PER_LOCK + nth, rows.get(*id)?)),
            );
        }
        all
    }

    /// Returns the version of the list of servers.
    pub(crate) fn list(&self) -> u64 {
        self.list.load(Ordering::Relaxed)
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    fn read(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Rows> {
        self.rows.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to changes from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Update>> {
        self.updates.subscribe()
    }
}

impl ServerRow {
    /// Copies the health of the server into its row.
    pub(crate) fn set_health(&mut self, health: &Health) {
        self.state = health.state;
        self.since = health.since;
        self.is_flapping = health.is_flapping;
    }

    fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            state: State::Unknown,
            is_flapping: false,
            since: 0,
            last_sample: None,
            error: None,
            last_status: None,
            day: Day::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_their_places() {
        let live = StateTable::default();
        let server = |id: i64, name: String, target: &str| Server {
            id: ServerId(id),
            name,
            target: target.into(),
            group: String::new(),
            labels: Default::default(),
            interval: None,
            origin: crate::server::Origin::Configuration,
        };
        let count = 2 * ROWS_PER_LOCK as i64 + 1;
        (0..count).for_each(|id| live.set(server(id, format!("s{id}"), "ugp://127.0.0.1")));
        (0..10).for_each(|id| live.remove(ServerId(id * 100)));
        (0..5).for_each(|id| live.set(server(count + id, format!("new{id}"), "ugp://127.0.0.1")));
        live.change(
            Update {
                servers: vec![ServerId(7), ServerId(8)],
                ..Update::default()
            },
            |row| row.since = 1,
        );
        live.set(server(7, "seven".into(), "ugp://127.0.0.1"));
        live.set(server(8, "eight".into(), "ugp://127.0.0.2"));
        let all = live.pick(|row| Some(row.server.id));
        assert_eq!(
            (all.len(), live.len()),
            (count as usize - 5, count as usize - 5)
        );
        assert_eq!(
            all.iter().collect::<std::collections::HashSet<_>>().len(),
            all.len()
        );
        assert!(
            live.named("s7").is_none()
                && live.row(ServerId(100)).is_none()
                && live.named("new4").is_some()
        );
        let since = |name| live.named(name).unwrap().since;
        assert_eq!(
            (since("seven"), since("eight")),
            (1, 0),
            "a new target starts without state"
        );
        let picked = live.pick_of(&[ServerId(8), ServerId(100), ServerId(7)], |nth, row| {
            Some((nth, row.server.id.0))
        });
        assert_eq!(picked, [(0, 8), (2, 7)]);
    }

    #[test]
    fn day_is_a_ring_of_48_buckets() {
        let mut day = Day::default();
        let now = 1_000 * DAY_BUCKET_MS;
        let minute = 60_000;
        day.add(now, 2 * minute, minute, 8.0);
        day.add(now - DAY_BUCKET_MS, minute, 0, 0.0);
        day.add(now - 47 * DAY_BUCKET_MS, minute, minute, 3.0);
        day.add(now - 48 * DAY_BUCKET_MS, 100 * minute, 100 * minute, 100.0);
        let players = day.players(now);
        assert_eq!(
            (players[0], players[46], players[47]),
            (Some(3.0), None, Some(8.0))
        );
        assert_eq!(day.uptime(now), Some(0.5));
        let uptimes = day.uptimes(now);
        assert_eq!(
            (uptimes[0], uptimes[1], uptimes[46], uptimes[47]),
            (Some(1.0), None, Some(0.0), Some(0.5))
        );
        assert_eq!(
            day.players(now + 47 * DAY_BUCKET_MS)[0],
            Some(8.0),
            "time passes without samples"
        );
        assert_eq!(day.uptime(now + 48 * DAY_BUCKET_MS), None);
        day.add_sample(now + 100 * DAY_BUCKET_MS, true, 5);
        assert_eq!(
            day.uptime(now + 100 * DAY_BUCKET_MS),
            Some(1.0),
            "a long pause leaves no buckets behind"
        );
    }

    #[test]
    fn a_changed_interval_does_not_distort_the_uptime() {
        let mut day = Day::default();
        let start = 1_000 * DAY_BUCKET_MS;
        // 10 minutes up, polled every 60 s; then 10 minutes down, polled every 2 s.
        day.add_sample(start, true, 4);
        for minute in 1..=10 {
            day.add_sample(start + minute * 60_000, true, 4);
        }
        for poll in 1..=300 {
            day.add_sample(start + 600_000 + poll * 2_000, false, 0);
        }
        let uptime = day.uptime(start).unwrap();
        assert!((uptime - 0.5).abs() < 0.001, "{uptime}");
        assert_eq!(day.players(start)[47], Some(4.0));
    }
}
