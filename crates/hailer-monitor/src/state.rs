//! How things stand now: one row for each server, in memory, read by page, API, metrics and alerts.
//!
//! `poll` writes, many read. A reader copies what it needs under the lock and lets go; what is long (last answers) is behind a
//! pointer.

pub(crate) mod find;
pub(crate) mod index;
pub(crate) mod totals;

use self::index::Index;
use self::totals::Totals;
use crate::cached::Cached;
use crate::health::{Health, State};
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

/// Places of the sparkline: half an hour each, a day in all.
pub const DAY_BUCKETS: usize = 48;
/// Length of a place, in milliseconds.
pub const DAY_BUCKET_MS: Millis = 30 * 60_000;
/// Rows that are looked at under one lock.
const ROWS_PER_LOCK: usize = 1_024;
/// Who listens and falls further behind than this loses updates, and is told so.
const MAX_PENDING_UPDATES: usize = 256;

/// How things stand with one server.
#[derive(Clone, Debug)]
pub struct ServerRow {
    /// What is watched.
    pub server: Arc<Server>,
    /// Whether it is up.
    pub state: State,
    /// Whether it goes up and down so often that this is not told.
    pub is_flapping: bool,
    /// Since when it is in this state.
    pub since: Millis,
    /// The last sample.
    pub last_sample: Option<Sample>,
    /// Why the last sample has no answer: the word and the sentence of [`hailer::Error`].
    pub error: Option<Arc<(String, String)>>,
    /// What it last said of itself; kept while it is down.
    pub last_status: Option<Arc<LastStatus>>,
    /// Players and answers of the last day.
    pub day: Day,
}

/// What a server said of itself. Its texts are short, and there are a hundred thousand of each: those up to 24 bytes are not
/// allocated.
#[derive(Clone, Debug, Default)]
pub struct LastStatus {
    /// When.
    pub at: Millis,
    /// Where it answered.
    pub address: Option<SocketAddr>,
    /// Its name, else the first line of its MOTD: as it came, hostile.
    pub title: Option<CompactString>,
    /// Its MOTD with its colours.
    pub motd: Option<Text>,
    /// Game, as the server calls it.
    pub game: Option<CompactString>,
    /// Version of game or server.
    pub version: Option<CompactString>,
    /// Map or world.
    pub map: Option<CompactString>,
    /// Player limit.
    pub max: Option<u32>,
    /// Names of those on, formatting left out.
    pub players: Box<[CompactString]>,
    /// Whether these are all who are on.
    pub is_whole: bool,
    /// The whole answer, as `schema/answer-v2.json` has it, in JSON; empty if there was no room to keep it.
    pub answer: Box<[u8]>,
    /// The datagrams of the reply as they came; empty if there was no room to keep them.
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
    /// The server.
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
    /// Adds a sample. It stands for the time since the sample before it (see
    /// [`sample_length_ms`]).
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

/// What changed, for those who show it as it happens.
#[derive(Clone, Debug, Default)]
pub struct Update {
    /// Rows that are not as they were.
    pub servers: Vec<ServerId>,
    /// What happened.
    pub events: Vec<Event>,
    /// Servers came or went: lists are to be made anew.
    pub list_changed: bool,
}

/// How things stand.
#[derive(Debug)]
pub struct StateTable {
    rows: RwLock<Rows>,
    /// Which list of servers it is: another one whenever one comes, goes, or is described anew.
    list: AtomicU64,
    index: Index,
    totals: Cached<Totals>,
    updates: broadcast::Sender<Arc<Update>>,
    /// When the last thing happened that was told.
    happened: AtomicI64,
}

/// Rows in places that they keep, so that whoever goes over all of them may let go of the lock in between, and finds side by side
/// what came at the same time. Boxed: rows themselves would take twice their room while there are more and more of them.
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
            totals: Cached::default(),
            updates: broadcast::Sender::new(MAX_PENDING_UPDATES),
        }
    }
}

impl StateTable {
    /// Adds a server, or puts another description in place of the old one; what is known of it stays if the target does.
    pub fn set(&self, server: impl Into<Arc<Server>>) {
        self.write().set(server.into());
        self.list.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets a server.
    pub fn remove(&self, id: ServerId) {
        self.write().remove(id);
        self.list.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes rows under one lock, and tells those who listen. `change` gets each row that is still there.
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
        // Nobody listens: that is no error.
        let _ = self.updates.send(Arc::new(update));
    }

    /// When the last thing happened that anybody was told since this began.
    pub fn happened(&self) -> Option<Millis> {
        Some(self.happened.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// Adds half hours from the history to the days of their rows.
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

    /// How many servers there are.
    pub fn len(&self) -> usize {
        self.read().by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of one row.
    pub fn row(&self, id: ServerId) -> Option<ServerRow> {
        self.read().get(id).cloned()
    }

    /// A copy of the row of this name.
    pub fn named(&self, name: &str) -> Option<ServerRow> {
        let rows = self.read();
        rows.by_name.get(name).and_then(|id| rows.get(*id)).cloned()
    }

    /// What `pick` makes of the rows, in no order, under the lock: keep it short, and copy little. Of many rows the lock is let go in
    /// between, so that nobody waits for long.
    pub fn pick<T>(&self, mut pick: impl FnMut(&ServerRow) -> Option<T>) -> Vec<T> {
        let (mut all, mut from) = (Vec::new(), 0);
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

    /// The same of these rows, in their order; those that are gone are left out. `pick` also gets which of them it is.
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

    /// The number of the list of servers as it is now.
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

    /// Hears of changes from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Update>> {
        self.updates.subscribe()
    }
}

impl ServerRow {
    /// Takes over what the health of the server shows in its row.
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
            origin: crate::server::Origin::Plan,
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
            "of another target nothing is known"
        );
        let picked = live.pick_of(&[ServerId(8), ServerId(100), ServerId(7)], |nth, row| {
            Some((nth, row.server.id.0))
        });
        assert_eq!(picked, [(0, 8), (2, 7)]);
    }

    #[test]
    fn a_day_is_a_ring_of_half_hours() {
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
