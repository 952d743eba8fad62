//! Current state of all servers, one row each, in memory. Pages, API, metrics and alerts read it.
//!
//! The poller writes it. A reader copies what it needs under the lock; large parts are behind an
//! `Arc`.
//!
//! In: results of polls. Out: rows and totals.
//!
//! May import: `crate::cached`, `crate::health`, `crate::icon`, `crate::sample`, `crate::server`,
//! `crate::uptime`, `hailer`.

mod endpoints;
pub(crate) mod find;
pub(crate) mod index;
mod row;
pub(crate) mod totals;

pub use self::row::{DAY_BUCKET_MS, DAY_BUCKETS, Day, HalfHour, LastStatus, ServerRow};

use self::endpoints::{Endpoint, Endpoints};
use self::index::Index;
use self::totals::Totals;
use crate::cached::Cached;
use crate::icon::Icons;
use crate::sample::{Event, Millis};
use crate::server::{Server, ServerId};
use hailer::client::Host;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use tokio::sync::broadcast;

/// Rows visited under one lock.
const ROWS_PER_LOCK: usize = 1_024;
/// Updates that a slow subscriber may have pending. Beyond that it loses updates, and is notified
/// of the loss.
const MAX_PENDING_UPDATES: usize = 256;

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

impl Update {
    /// Returns an update of these rows, without events.
    pub fn of(servers: impl IntoIterator<Item = ServerId>) -> Self {
        Self {
            servers: servers.into_iter().collect(),
            ..Self::default()
        }
    }
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
    endpoints: Endpoints,
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
        let known = self.by_id.get(&server.id).copied();
        let old = known.and_then(|place| self.places[place as usize].as_deref_mut());
        if let Some(row) = old {
            self.by_name.remove(&row.server.name);
            self.by_name.insert(server.name.clone(), server.id);
            if row.server.target == server.target {
                row.server = server;
            } else {
                self.endpoints.remove(row);
                *row = ServerRow::new(server);
                self.endpoints.insert(row);
            }
            return;
        }
        self.by_name.insert(server.name.clone(), server.id);
        let place = self.free.pop().unwrap_or(self.places.len() as u32);
        self.by_id.insert(server.id, place);
        let row = Box::new(ServerRow::new(server));
        self.endpoints.insert(&row);
        match self.places.get_mut(place as usize) {
            Some(free) => *free = Some(row),
            None => self.places.push(Some(row)),
        }
    }

    /// Changes a row. Its endpoints follow the address that has replied last.
    fn change(&mut self, id: ServerId, change: impl FnOnce(&mut ServerRow)) -> Option<&ServerRow> {
        let place = *self.by_id.get(&id)? as usize;
        let row = self.places.get_mut(place)?.as_deref_mut()?;
        let address = |row: &ServerRow| row.last_status.as_ref().and_then(|last| last.address);
        let old = row.last_status.clone();
        change(row);
        if old.as_ref().and_then(|last| last.address) != address(row) {
            let new = std::mem::replace(&mut row.last_status, old);
            self.endpoints.remove(row);
            row.last_status = new;
            self.endpoints.insert(row);
        }
        Some(row)
    }

    fn remove(&mut self, id: ServerId) {
        let Some(place) = self.by_id.remove(&id) else {
            return;
        };
        if let Some(row) = self.places[place as usize].take() {
            self.by_name.remove(&row.server.name);
            self.endpoints.remove(&row);
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
        let mut newest = None;
        {
            let mut rows = self.write();
            for id in &update.servers {
                if let Some(row) = rows.change(*id, &mut change) {
                    newest = newest.max(row.last_sample.map(|last| last.at));
                }
            }
        }
        // An outage is older than the sample that confirms it, and a page must see it nevertheless.
        let newest = newest.max(update.events.iter().map(|event| event.at).max());
        if let (Some(newest), false) = (newest, update.events.is_empty()) {
            self.happened.fetch_max(newest, Ordering::Relaxed);
        }
        // Without subscribers, sending fails. That is no error.
        let _ = self.updates.send(Arc::new(update));
    }

    /// Notifies the subscribers that these servers were added, removed or described differently.
    pub(crate) fn announce(&self, servers: Vec<ServerId>) {
        let update = Update {
            has_list_changed: true,
            ..Update::of(servers)
        };
        self.change(update, |_| {});
    }

    /// Returns when the newest event since the start was found, in Unix milliseconds.
    pub fn happened(&self) -> Option<Millis> {
        Some(self.happened.load(Ordering::Relaxed)).filter(|at| *at > 0)
    }

    /// Adds half-hour buckets from the history to the rows of their servers.
    pub fn add_half_hours(&self, half_hours: &[HalfHour]) {
        let mut rows = self.write();
        for half_hour in half_hours {
            if let Some(row) = rows.get_mut(half_hour.server) {
                row.day.add_half_hour(half_hour);
            }
        }
    }

    /// Replaces the half-hour bucket of `start` in all rows by that of the history.
    pub fn replace_half_hour(&self, start: Millis, half_hours: &[HalfHour]) {
        let by_server: HashMap<ServerId, &HalfHour> = half_hours
            .iter()
            .map(|half_hour| (half_hour.server, half_hour))
            .collect();
        let mut from = 0;
        loop {
            let mut rows = self.write();
            let some = rows.places.get_mut(from..).unwrap_or_default();
            let count = some.len().min(ROWS_PER_LOCK);
            for row in some[..count].iter_mut().flatten() {
                let half_hour = by_server.get(&row.server.id).copied();
                row.day.replace(start, half_hour);
            }
            if count < ROWS_PER_LOCK {
                return;
            }
            from += ROWS_PER_LOCK;
        }
    }

    /// Returns the shortest polling interval of the servers; `None` without servers. `usual`: the interval
    /// of servers without their own.
    pub(crate) fn shortest_interval(&self, usual: Duration) -> Option<Duration> {
        let mut shortest = None;
        self.pick(|row| -> Option<()> {
            let this = row.server.interval.unwrap_or(usual);
            shortest = Some(shortest.map_or(this, |shortest: Duration| shortest.min(this)));
            None
        });
        shortest
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

    /// Returns the name of a server other than `own` that is polled at this host and query port, or at
    /// one of its addresses.
    pub(crate) fn same_place(
        &self,
        own: Option<ServerId>,
        host: &Host,
        addresses: &[SocketAddr],
        port: u16,
    ) -> Option<String> {
        let rows = self.read();
        let of_address = addresses.iter().flat_map(|address| {
            let target = Endpoint::Target(Host::Address(address.ip()), address.port());
            [target, Endpoint::Reached(*address)]
        });
        let others = [Endpoint::Target(host.clone(), port)]
            .into_iter()
            .chain(of_address)
            .flat_map(|endpoint| rows.endpoints.at(&endpoint).iter().copied())
            .filter(|id| Some(*id) != own);
        others
            .min()
            .and_then(|id| Some(rows.get(id)?.server.name.clone()))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use crate::server::{NewServer, Origin};

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
        live.change(Update::of(vec![ServerId(7), ServerId(8)]), |row| {
            row.since = 1
        });
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

    fn sample(at: Millis, is_answered: bool, players: u32) -> Sample {
        Sample {
            observed_ms: 0,
            server: ServerId(1),
            at,
            is_answered,
            players: Some(players),
            max: None,
            latency: None,
            sent: 1,
            resent: 0,
        }
    }

    fn add_sample(day: &mut Day, at: Millis, is_answered: bool, players: u32) {
        day.add_sample(&sample(at, is_answered, players), at);
    }

    #[test]
    fn a_wrong_clock_holds_no_later_sample_back() {
        let now = 1_000 * DAY_BUCKET_MS;
        let hour = 2 * DAY_BUCKET_MS;
        let mut day = Day::default();
        add_sample(&mut day, now - hour, true, 1);
        // Another node is a day ahead: its samples are not of the last day.
        day.add_sample(&sample(now + 48 * DAY_BUCKET_MS, false, 0), now);
        assert_eq!(day.uptime(now), Some(1.0));
        // The clock of this process is a day ahead for some samples, and set right again.
        for minute in 0..10 {
            let at = now + 48 * DAY_BUCKET_MS + minute * 60_000;
            add_sample(&mut day, at, false, 0);
        }
        for minute in 0..10 {
            add_sample(&mut day, now + minute * 60_000, true, 5);
        }
        assert_eq!(day.uptime(now + 600_000), Some(1.0));
        assert_eq!(day.players(now + 600_000)[47], Some(5.0));
        // An hour back.
        add_sample(&mut day, now - hour, false, 0);
        let uptimes = day.uptimes(now);
        assert!(
            uptimes[45].is_some() && uptimes[47].is_none(),
            "{uptimes:?}"
        );
    }

    #[test]
    fn the_protocol_is_that_of_the_last_answer() {
        let server = Server {
            id: ServerId(1),
            name: "a".into(),
            target: "minecraft://127.0.0.1".into(),
            group: String::new(),
            labels: Default::default(),
            interval: None,
            origin: crate::server::Origin::Configuration,
        };
        let mut row = ServerRow::new(Arc::new(server));
        assert_eq!(row.protocol(), "minecraft-status");
        let protocol = Some("minecraft-query");
        row.last_status = Some(Arc::new(LastStatus {
            protocol,
            ..LastStatus::default()
        }));
        assert_eq!(row.protocol(), "minecraft-query");
    }

    #[test]
    fn servers_are_found_by_their_place() {
        let live = StateTable::default();
        let server = |id, name: &str, target: &str| {
            let new = NewServer::new(name, target, Origin::Api);
            new.with_id(ServerId(id))
        };
        live.set(server(1, "name", "ugp://play.example.com:7"));
        live.set(server(2, "address", "ugp://192.0.2.2:7"));
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let reply = |id: i64, from: &str| {
            let from = address(from);
            live.change(Update::of([ServerId(id)]), |row| {
                row.last_status = Some(Arc::new(LastStatus {
                    address: Some(from),
                    ..LastStatus::default()
                }));
            });
        };
        let named = |own: Option<i64>, target: &str, addresses: &[&str]| {
            let (host, port) = crate::server::place(target).unwrap();
            let addresses: Vec<_> = addresses.iter().map(|text| address(text)).collect();
            live.same_place(own.map(ServerId), &host, &addresses, port)
        };
        let same = |target: &str| named(None, target, &[]);
        assert_eq!(same("ugp://play.example.com:7").as_deref(), Some("name"));
        assert_eq!(named(Some(1), "ugp://play.example.com:7", &[]), None);
        assert_eq!(same("ugp://play.example.com:8"), None);
        assert_eq!(same("ugp://192.0.2.2:7").as_deref(), Some("address"));
        let other = |addresses: &[&str]| named(None, "ugp://other.example.com:7", addresses);
        assert_eq!(
            other(&["192.0.2.9:7", "192.0.2.2:7"]).as_deref(),
            Some("address")
        );
        // The address of a name is that of its last reply.
        assert_eq!(other(&["192.0.2.1:7"]), None);
        reply(1, "192.0.2.1:7");
        assert_eq!(other(&["192.0.2.1:7"]).as_deref(), Some("name"));
        reply(1, "192.0.2.3:7");
        assert_eq!(other(&["192.0.2.1:7"]), None);
        assert_eq!(other(&["192.0.2.3:7"]).as_deref(), Some("name"));
        // A server with an address in its target is only there.
        reply(2, "192.0.2.4:7");
        assert_eq!(other(&["192.0.2.4:7"]), None);
        live.set(server(1, "renamed", "ugp://play.example.com:7"));
        assert_eq!(other(&["192.0.2.3:7"]).as_deref(), Some("renamed"));
        live.set(server(1, "moved", "ugp://new.example.com:7"));
        assert_eq!(other(&["192.0.2.3:7"]), None);
        live.remove(ServerId(2));
        assert_eq!(same("ugp://192.0.2.2:7"), None);
        assert_eq!(live.read().endpoints.len(), 1, "nothing is left behind");
    }

    /// Databases and nodes of earlier versions have statuses in this form.
    #[test]
    fn stored_statuses_keep_their_form() {
        let json = r#"{"at":5,"address":"192.0.2.1:7","protocol":"a2s","title":"T","motd":["§aM",true],"game":"G","version":"1","map":"w","max":9,"has_password":true,"has_anti_cheat":false,"bots":2,"icon":"000102030405060708090a0b0c0d0e0f"}"#;
        let mut status: LastStatus = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&status).unwrap(), json);
        assert_eq!(status.motd, Some(hailer::proto::Text::legacy("§aM")));
        status.motd = Some(hailer::proto::Text::unformatted("§aM"));
        status.players = ["Alice".into()].into();
        status.answer = (*b"{}").into();
        let unformatted = json.replace("true],", "false],");
        let stored = serde_json::to_string(&status).unwrap();
        assert_eq!(stored, unformatted, "without players and answer");
        let other: LastStatus = serde_json::from_str(r#"{"at":5,"protocol":"new"}"#).unwrap();
        assert_eq!((other.at, other.protocol), (5, None));
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
        add_sample(&mut day, now + 100 * DAY_BUCKET_MS, true, 5);
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
        add_sample(&mut day, start, true, 4);
        for minute in 1..=10 {
            add_sample(&mut day, start + minute * 60_000, true, 4);
        }
        for poll in 1..=300 {
            add_sample(&mut day, start + 600_000 + poll * 2_000, false, 0);
        }
        let uptime = day.uptime(start).unwrap();
        assert!((uptime - 0.5).abs() < 0.001, "{uptime}");
        assert_eq!(day.players(start)[47], Some(4.0));
    }
}
