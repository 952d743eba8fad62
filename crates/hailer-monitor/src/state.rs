//! How things stand now: one row for each server, in memory, read by page, API, metrics and alerts.
//!
//! `poll` writes, many read. A reader copies what it needs under the lock and lets go; what is long (last answers) is behind a
//! pointer.

use crate::health::State;
use crate::sample::{Event, Millis, Sample};
use crate::server::{Server, ServerId};
use crate::web::index::Index;
use compact_str::CompactString;
use hailer::Text;
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
    /// Names of those on, formatting left out.
    pub players: Box<[CompactString]>,
    /// Whether these are all who are on.
    pub is_whole: bool,
    /// The whole answer, as `schema/answer-v2.json` has it, in JSON; empty if there was no room to keep it.
    pub answer: Box<[u8]>,
    /// The datagrams of the reply as they came; empty if there was no room to keep them.
    pub replies: Vec<Box<[u8]>>,
}

/// The last day, half an hour for each place, in a ring.
#[derive(Clone, Debug)]
pub struct Day {
    /// The number of the newest half hour since 1970.
    newest: i64,
    places: [DayBucket; DAY_BUCKETS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct DayBucket {
    /// Players, summed up.
    players: u32,
    answered: u16,
    asked: u16,
}

impl Default for Day {
    fn default() -> Self {
        Self {
            newest: 0,
            places: [DayBucket::default(); DAY_BUCKETS],
        }
    }
}

impl Day {
    /// Adds samples: `players` is their sum.
    pub fn add(&mut self, at: Millis, asked: u16, answered: u16, players: u32) {
        let number = at.div_euclid(DAY_BUCKET_MS);
        if number <= self.newest - DAY_BUCKETS as i64 {
            return;
        }
        for passed in (self.newest + 1).max(number - DAY_BUCKETS as i64 + 1)..=number {
            self.places[passed.rem_euclid(DAY_BUCKETS as i64) as usize] = DayBucket::default();
        }
        self.newest = self.newest.max(number);
        let place = &mut self.places[number.rem_euclid(DAY_BUCKETS as i64) as usize];
        place.players = place.players.saturating_add(players);
        place.asked = place.asked.saturating_add(asked);
        place.answered = place.answered.saturating_add(answered);
    }

    /// Players on average in each half hour up to now, the oldest first; `None`: nobody answered.
    pub fn players(&self, now: Millis) -> [Option<f32>; DAY_BUCKETS] {
        self.walk(now).map(|place| {
            (place.answered > 0).then(|| place.players as f32 / f32::from(place.answered))
        })
    }

    /// The share of samples of each half hour that were answered, the oldest first; `None`: none was taken.
    pub fn answered(&self, now: Millis) -> [Option<f32>; DAY_BUCKETS] {
        self.walk(now).map(|place| {
            (place.asked > 0).then(|| f32::from(place.answered) / f32::from(place.asked))
        })
    }

    /// The share of samples of the last day that were answered; `None`: none was taken.
    pub fn uptime(&self, now: Millis) -> Option<f32> {
        let all = self.walk(now);
        let sum =
            |of: fn(&DayBucket) -> u16| all.iter().map(|place| u32::from(of(place))).sum::<u32>();
        let asked = sum(|place| place.asked);
        (asked > 0).then(|| sum(|place| place.answered) as f32 / asked as f32)
    }

    fn walk(&self, now: Millis) -> [DayBucket; DAY_BUCKETS] {
        let last = now.div_euclid(DAY_BUCKET_MS);
        std::array::from_fn(|place| {
            let number = last - (DAY_BUCKETS - 1 - place) as i64;
            let is_kept = number <= self.newest && number > self.newest - DAY_BUCKETS as i64;
            if is_kept {
                self.places[number.rem_euclid(DAY_BUCKETS as i64) as usize]
            } else {
                DayBucket::default()
            }
        })
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

impl Default for StateTable {
    fn default() -> Self {
        Self {
            rows: RwLock::default(),
            list: AtomicU64::new(0),
            happened: AtomicI64::new(0),
            index: Index::default(),
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

    /// Adds samples of before to the last days of rows: server, time, asked, answered, sum of players.
    pub fn remember(&self, samples: &[(ServerId, Millis, u16, u16, u32)]) {
        let mut rows = self.write();
        for (id, at, asked, answered, players) in samples {
            if let Some(row) = rows.get_mut(*id) {
                row.day.add(*at, *asked, *answered, *players);
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
    fn a_day_goes_round() {
        let mut day = Day::default();
        let now = 1_000 * DAY_BUCKET_MS;
        day.add(now, 2, 1, 8);
        day.add(now - DAY_BUCKET_MS, 1, 0, 0);
        day.add(now - 47 * DAY_BUCKET_MS, 1, 1, 3);
        day.add(now - 48 * DAY_BUCKET_MS, 100, 100, 100);
        let players = day.players(now);
        assert_eq!(
            (players[0], players[46], players[47]),
            (Some(3.0), None, Some(8.0))
        );
        assert_eq!(day.uptime(now), Some(0.5));
        let answered = day.answered(now);
        assert_eq!(
            (answered[0], answered[1], answered[46], answered[47]),
            (Some(1.0), None, Some(0.0), Some(0.5))
        );
        assert_eq!(
            day.players(now + 47 * DAY_BUCKET_MS)[0],
            Some(8.0),
            "time goes on without samples"
        );
        assert_eq!(day.uptime(now + 48 * DAY_BUCKET_MS), None);
        day.add(now + 100 * DAY_BUCKET_MS, 1, 1, 5);
        assert_eq!(
            day.uptime(now + 100 * DAY_BUCKET_MS),
            Some(1.0),
            "a long pause leaves nothing behind"
        );
    }
}
