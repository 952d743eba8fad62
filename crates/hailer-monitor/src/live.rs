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
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use tokio::sync::broadcast;

/// Places of the sparkline: half an hour each, a day in all.
pub const SPARKS: usize = 48;
/// Length of a place, in milliseconds.
pub const SPARK: Millis = 30 * 60_000;
/// Who listens and falls further behind than this loses updates, and is told so.
const UPDATES: usize = 256;

/// How things stand with one server.
#[derive(Clone, Debug)]
pub struct Row {
    /// What is watched.
    pub server: Arc<Server>,
    /// Whether it is up.
    pub state: State,
    /// Whether it goes up and down so often that this is not told.
    pub is_flapping: bool,
    /// Since when it is in this state.
    pub since: Millis,
    /// The last sample.
    pub last: Option<Sample>,
    /// Why the last sample has no answer: the word and the sentence of [`hailer::Error`].
    pub error: Option<Arc<(String, String)>>,
    /// What it last said of itself; kept while it is down.
    pub said: Option<Arc<Said>>,
    /// Players and answers of the last day.
    pub day: Day,
}

/// What a server said of itself. Its texts are short, and there are a hundred thousand of each: those up to 24 bytes are not
/// allocated.
#[derive(Clone, Debug, Default)]
pub struct Said {
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
    /// The whole answer, as `schema/answer-v1.json` has it, in JSON; empty if there was no room to keep it.
    pub answer: Box<[u8]>,
    /// The datagrams of the reply as they came; empty if there was no room to keep them.
    pub replies: Vec<Box<[u8]>>,
}

/// The last day, half an hour for each place, in a ring.
#[derive(Clone, Debug)]
pub struct Day {
    /// The number of the newest half hour since 1970.
    newest: i64,
    places: [Place; SPARKS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Place {
    /// Players, summed up.
    players: u32,
    answered: u16,
    asked: u16,
}

impl Default for Day {
    fn default() -> Self {
        Self { newest: 0, places: [Place::default(); SPARKS] }
    }
}

impl Day {
    /// Adds samples: `players` is their sum.
    pub fn add(&mut self, at: Millis, asked: u16, answered: u16, players: u32) {
        let number = at.div_euclid(SPARK);
        if number <= self.newest - SPARKS as i64 {
            return;
        }
        for passed in (self.newest + 1).max(number - SPARKS as i64 + 1)..=number {
            self.places[passed.rem_euclid(SPARKS as i64) as usize] = Place::default();
        }
        self.newest = self.newest.max(number);
        let place = &mut self.places[number.rem_euclid(SPARKS as i64) as usize];
        place.players = place.players.saturating_add(players);
        place.asked = place.asked.saturating_add(asked);
        place.answered = place.answered.saturating_add(answered);
    }

    /// Players on average in each half hour up to now, the oldest first; `None`: nobody answered.
    pub fn players(&self, now: Millis) -> [Option<f32>; SPARKS] {
        self.walk(now).map(|place| (place.answered > 0).then(|| place.players as f32 / f32::from(place.answered)))
    }

    /// The share of samples of each half hour that were answered, the oldest first; `None`: none was taken.
    pub fn answered(&self, now: Millis) -> [Option<f32>; SPARKS] {
        self.walk(now).map(|place| (place.asked > 0).then(|| f32::from(place.answered) / f32::from(place.asked)))
    }

    /// The share of samples of the last day that were answered; `None`: none was taken.
    pub fn uptime(&self, now: Millis) -> Option<f32> {
        let all = self.walk(now);
        let sum = |of: fn(&Place) -> u16| all.iter().map(|place| u32::from(of(place))).sum::<u32>();
        let asked = sum(|place| place.asked);
        (asked > 0).then(|| sum(|place| place.answered) as f32 / asked as f32)
    }

    fn walk(&self, now: Millis) -> [Place; SPARKS] {
        let last = now.div_euclid(SPARK);
        std::array::from_fn(|place| {
            let number = last - (SPARKS - 1 - place) as i64;
            let is_kept = number <= self.newest && number > self.newest - SPARKS as i64;
            if is_kept { self.places[number.rem_euclid(SPARKS as i64) as usize] } else { Place::default() }
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
    pub is_other_list: bool,
}

/// How things stand.
#[derive(Debug)]
pub struct Live {
    rows: RwLock<Rows>,
    /// Which list of servers it is: another one whenever one comes, goes, or is described anew.
    list: AtomicU64,
    index: Index,
    updates: broadcast::Sender<Arc<Update>>,
}

#[derive(Debug, Default)]
struct Rows {
    /// Boxed: a table of rows themselves would take up to twice their room while it grows.
    by_id: HashMap<ServerId, Box<Row>>,
    by_name: HashMap<String, ServerId>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            rows: RwLock::default(),
            list: AtomicU64::new(0),
            index: Index::default(),
            updates: broadcast::Sender::new(UPDATES),
        }
    }
}

impl Live {
    /// Adds a server, or puts another description in place of the old one; what is known of it stays if the target does.
    pub fn set(&self, server: Server) {
        let server = Arc::new(server);
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        let rows = &mut *rows;
        let old = rows.by_id.remove(&server.id);
        if let Some(old) = &old {
            rows.by_name.remove(&old.server.name);
        }
        rows.by_name.insert(server.name.clone(), server.id);
        let row = match old.filter(|old| old.server.target == server.target) {
            Some(mut old) => {
                old.server = server.clone();
                old
            }
            None => Box::new(Row::new(server.clone())),
        };
        rows.by_id.insert(server.id, row);
        self.list.fetch_add(1, Ordering::Relaxed);
    }

    /// Forgets a server.
    pub fn remove(&self, id: ServerId) {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(row) = rows.by_id.remove(&id) {
            rows.by_name.remove(&row.server.name);
        }
        self.list.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes rows under one lock, and tells those who listen. `change` gets each row that is still there.
    pub fn change(&self, update: Update, mut change: impl FnMut(&mut Row)) {
        {
            let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
            for id in &update.servers {
                if let Some(row) = rows.by_id.get_mut(id) {
                    change(row);
                }
            }
        }
        // Nobody listens: that is no error.
        let _ = self.updates.send(Arc::new(update));
    }

    /// Adds samples of before to the last days of rows: server, time, asked, answered, sum of players.
    pub fn remember(&self, samples: &[(ServerId, Millis, u16, u16, u32)]) {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        for (id, at, asked, answered, players) in samples {
            if let Some(row) = rows.by_id.get_mut(id) {
                row.day.add(*at, *asked, *answered, *players);
            }
        }
    }

    /// How many servers there are.
    pub fn len(&self) -> usize {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).by_id.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of one row.
    pub fn row(&self, id: ServerId) -> Option<Row> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner).by_id.get(&id).map(|row| Row::clone(row))
    }

    /// A copy of the row of this name.
    pub fn named(&self, name: &str) -> Option<Row> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        rows.by_name.get(name).and_then(|id| rows.by_id.get(id)).map(|row| Row::clone(row))
    }

    /// What `pick` makes of the rows, in no order, under the lock: keep it short, and copy little.
    pub fn pick<T>(&self, mut pick: impl FnMut(&Row) -> Option<T>) -> Vec<T> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        rows.by_id.values().filter_map(|row| pick(row)).collect()
    }

    /// The same of these rows, in their order; those that are gone are left out. `pick` also gets which of them it is.
    pub fn pick_of<T>(&self, ids: &[ServerId], mut pick: impl FnMut(usize, &Row) -> Option<T>) -> Vec<T> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        ids.iter().enumerate().filter_map(|(nth, id)| pick(nth, rows.by_id.get(id)?)).collect()
    }

    /// The number of the list of servers as it is now.
    pub(crate) fn list(&self) -> u64 {
        self.list.load(Ordering::Relaxed)
    }

    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// Hears of changes from now on.
    pub fn listen(&self) -> broadcast::Receiver<Arc<Update>> {
        self.updates.subscribe()
    }
}

impl Row {
    fn new(server: Arc<Server>) -> Self {
        Self {
            server,
            state: State::Unknown,
            is_flapping: false,
            since: 0,
            last: None,
            error: None,
            said: None,
            day: Day::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_goes_round() {
        let mut day = Day::default();
        let now = 1_000 * SPARK;
        day.add(now, 2, 1, 8);
        day.add(now - SPARK, 1, 0, 0);
        day.add(now - 47 * SPARK, 1, 1, 3);
        day.add(now - 48 * SPARK, 100, 100, 100);
        let players = day.players(now);
        assert_eq!((players[0], players[46], players[47]), (Some(3.0), None, Some(8.0)));
        assert_eq!(day.uptime(now), Some(0.5));
        let answered = day.answered(now);
        assert_eq!((answered[0], answered[1], answered[46], answered[47]), (Some(1.0), None, Some(0.0), Some(0.5)));
        assert_eq!(day.players(now + 47 * SPARK)[0], Some(8.0), "time goes on without samples");
        assert_eq!(day.uptime(now + 48 * SPARK), None);
        day.add(now + 100 * SPARK, 1, 1, 5);
        assert_eq!(day.uptime(now + 100 * SPARK), Some(1.0), "a long pause leaves nothing behind");
    }
}
