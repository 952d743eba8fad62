//! The known state of the other servers, from full reads and events. No I/O, and time is an
//! argument (spec/onequery.md#12.6).

use super::event::Event;
use super::record::{Member, Record};
use super::wildcard::matches;
use hailer_proto::{Extra, Player, Roster, Status};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// A UUID in network order.
pub(super) type Uuid = [u8; 16];

/// Snapshot of the network, cheap to create.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct View {
    /// Servers: this one first if it is a member, the others by id.
    pub servers: Vec<Arc<Server>>,
    /// Time since the last reply of Redis; `None` without any.
    pub age: Option<Duration>,
}

impl View {
    /// Returns the servers whose id matches a pattern: `*` is any text, `?` any character, case is
    /// ignored.
    pub fn matching(&self, pattern: &str) -> impl Iterator<Item = &Server> {
        self.servers
            .iter()
            .map(|server| &**server)
            .filter(move |server| matches(pattern, &server.id))
    }

    /// Returns the number of players, each counted once.
    pub fn count(&self) -> usize {
        self.servers
            .iter()
            .flat_map(|server| server.players.keys())
            .collect::<HashSet<_>>()
            .len()
    }

    /// Returns the server of a player.
    pub fn find(&self, uuid: &[u8; 16]) -> Option<&Server> {
        self.servers
            .iter()
            .map(|server| &**server)
            .find(|server| server.players.contains_key(uuid))
    }
}

/// A server of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Server {
    /// Id of the server.
    pub id: String,
    /// Name of the server.
    pub name: String,
    /// Address for players, if published.
    pub host: Option<String>,
    /// Port for players.
    pub port: u16,
    /// Maximum number of players.
    pub max_players: i64,
    /// Players by UUID.
    pub players: BTreeMap<[u8; 16], Member>,
}

/// Other servers of the network. A player is on at most one of them.
#[derive(Debug)]
pub(super) struct NetworkView {
    servers: HashMap<Arc<str>, ViewEntry>,
    /// The server of each player.
    places: HashMap<Uuid, Arc<str>>,
    bounds: Bounds,
    /// Time until which no server is removed, because Redis was not available or has lost its data,
    /// and the others need time to return.
    expected_until: i64,
    /// Number of servers and players beyond the limits.
    pub(super) refused: u64,
}

/// Age of the hash of a server in milliseconds, by two clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HashAge {
    /// By the clock of Redis, if known.
    pub(super) by_redis: Option<i64>,
    /// By the clock of the server, which may be wrong.
    pub(super) by_itself: Option<i64>,
}

/// Limits of the view.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) servers: usize,
    pub(super) players: usize,
    /// Milliseconds without heartbeat after which a server is left out.
    pub(super) stale: i64,
}

#[derive(Debug)]
struct ViewEntry {
    server: Arc<Server>,
    /// Last heartbeat, by the clock of that server.
    heartbeat: Option<i64>,
    /// Time at which the heartbeat last changed, by the local clock.
    alive: i64,
    /// Count when the players were read. If it changes, they must be read again.
    read_count: Option<i64>,
    /// Whether there was no heartbeat for too long. Such a server is kept without players and not
    /// shown.
    is_stale: bool,
}

impl NetworkView {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            servers: HashMap::new(),
            places: HashMap::new(),
            bounds,
            expected_until: i64::MIN,
            refused: 0,
        }
    }

    /// Returns the ids of all servers, including stale ones.
    pub(super) fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.servers.keys()
    }

    /// Returns the servers shown.
    pub(super) fn shown(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.servers
            .values()
            .filter(|entry| !entry.is_stale)
            .map(|entry| &entry.server)
    }

    /// Returns the number of players on all servers shown.
    pub(super) fn players(&self) -> usize {
        self.places.len()
    }

    /// Records that Redis was not available for the time `away`, or has lost its data (`None`).
    /// Servers that are missing soon afterwards are expected to return.
    pub(super) fn expect_returns(&mut self, now: i64, away: Option<i64>) {
        let time = away.unwrap_or(i64::MAX).min(self.bounds.stale);
        self.expected_until = self.expected_until.max(now + time);
    }

    /// Removes a server and its players.
    pub(super) fn remove(&mut self, id: &str) {
        self.empty(id);
        self.servers.remove(id);
    }

    /// Removes everything, because the view is too old.
    pub(super) fn clear(&mut self) {
        self.servers.clear();
        self.places.clear();
    }

    /// Applies the hash of a server and its age. Returns whether its players must be read again.
    pub(super) fn record(&mut self, id: &str, record: Record, age: HashAge, now: i64) -> bool {
        let by_redis = now - age.by_redis.unwrap_or(0).max(0);
        let Some(entry) = self.servers.get_mut(id) else {
            if self.servers.len() >= self.bounds.servers {
                self.refused += 1;
                return false;
            }
            // At first only the server's own clock is known. The clock of Redis is used if it makes
            // the hash older.
            let alive = by_redis.min(now.saturating_sub(age.by_itself.unwrap_or(0)));
            let is_stale = alive < now - self.bounds.stale;
            let mut entry = ViewEntry {
                server: Arc::default(),
                heartbeat: record.heartbeat,
                alive,
                read_count: None,
                is_stale,
            };
            entry.describe(id, record);
            self.servers.insert(id.into(), entry);
            return !is_stale;
        };
        // A heartbeat that changes proves the server alive, even with a wrong clock. One that is
        // not a number never changes.
        if entry.heartbeat != record.heartbeat {
            entry.heartbeat = record.heartbeat;
            entry.alive = entry.alive.max(by_redis);
        }
        let returns = entry.is_stale && entry.alive + self.bounds.stale >= now;
        entry.is_stale &= !returns;
        let news = returns || !entry.is_stale && entry.read_count != record.count;
        entry.describe(id, record);
        news
    }

    /// Applies all players of a server, except those whose join is in progress, and the count of
    /// its hash.
    pub(super) fn list(
        &mut self,
        id: &str,
        players: HashMap<Uuid, Member>,
        read_count: Option<i64>,
        is_coming: impl Fn(&Uuid) -> bool,
    ) {
        let Some((id, entry)) = self.servers.get_key_value(id) else {
            return;
        };
        if entry.is_stale {
            return;
        }
        let id = id.clone();
        let gone = entry
            .server
            .players
            .keys()
            .filter(|uuid| !players.contains_key(*uuid) && !is_coming(uuid));
        let gone: Vec<_> = gone.copied().collect();
        for uuid in gone {
            self.take(&id, &uuid);
        }
        for (uuid, member) in players {
            // In two lists: the later join counts.
            let elsewhere = self.places.get(&uuid).filter(|place| **place != id);
            let there =
                elsewhere.and_then(|place| self.servers.get(place)?.server.players.get(&uuid));
            if there.is_none_or(|there| there.joined < member.joined) {
                self.put(&id, uuid, member);
            }
        }
        if let Some(entry) = self.servers.get_mut(&id) {
            entry.read_count = read_count;
        }
    }

    /// Records that a server has no hash. Returns whether it is removed; otherwise it is expected
    /// to return.
    pub(super) fn missing(&mut self, id: &str, now: i64) -> bool {
        let is_gone = now >= self.expected_until;
        if is_gone {
            self.remove(id);
        }
        is_gone
    }

    /// Applies an event at a time in milliseconds since 1970. Returns the id of a server that must
    /// be read.
    pub(super) fn apply(&mut self, event: Event, time: i64) -> Option<String> {
        match event {
            Event::Online { server, .. } => Some(server),
            Event::Offline { server } => {
                self.remove(&server);
                None
            }
            Event::Join {
                uuid, server, name, ..
            } => {
                let id = match self.servers.get_key_value(&*server) {
                    Some((id, entry)) if !entry.is_stale => id.clone(),
                    _ => return Some(server),
                };
                self.put(&id, uuid, Member { name, joined: time });
                None
            }
            Event::Leave { uuid, server } => {
                self.take(&server, &uuid);
                None
            }
        }
    }

    /// Removes a player who joined this member from any other server. Returns whether there was one.
    pub(super) fn claim(&mut self, uuid: &Uuid) -> bool {
        self.places
            .get(uuid)
            .cloned()
            .is_some_and(|place| self.take(&place, uuid))
    }

    /// Leaves out servers without heartbeat for too long.
    pub(super) fn prune(&mut self, now: i64) {
        if now < self.expected_until {
            return;
        }
        let limit = now - self.bounds.stale;
        let silent = self
            .servers
            .iter()
            .filter(|(_, entry)| !entry.is_stale && entry.alive < limit);
        let silent: Vec<_> = silent.map(|(id, _)| id.clone()).collect();
        for id in &silent {
            self.empty(id);
            if let Some(entry) = self.servers.get_mut(id) {
                entry.is_stale = true;
            }
        }
    }

    fn empty(&mut self, id: &str) {
        if let Some(entry) = self.servers.get_mut(id) {
            for uuid in std::mem::take(&mut Arc::make_mut(&mut entry.server).players).keys() {
                self.places.remove(uuid);
            }
        }
    }

    fn put(&mut self, id: &Arc<str>, uuid: Uuid, mut member: Member) {
        match self.places.get(&uuid).cloned() {
            Some(place) if place != *id => {
                self.take(&place, &uuid);
            }
            None if self.places.len() >= self.bounds.players => {
                self.refused += 1;
                return;
            }
            _ => {}
        }
        if let Some(entry) = self.servers.get_mut(id) {
            let players = &mut Arc::make_mut(&mut entry.server).players;
            // An event has no time; the time that was read is better.
            if let Some(old) = players.get(&uuid) {
                member.joined = member.joined.min(old.joined);
            }
            players.insert(uuid, member);
            self.places.insert(uuid, id.clone());
        }
    }

    fn take(&mut self, id: &str, uuid: &Uuid) -> bool {
        let is_there = self.places.get(uuid).is_some_and(|place| **place == *id);
        if is_there {
            self.places.remove(uuid);
            if let Some(entry) = self.servers.get_mut(id) {
                Arc::make_mut(&mut entry.server).players.remove(uuid);
            }
        }
        is_there
    }
}

impl ViewEntry {
    fn describe(&mut self, id: &str, record: Record) {
        let Record {
            name,
            host,
            port,
            max,
            ..
        } = record;
        let old = &*self.server;
        if (&*old.id, &old.name, &old.host, old.port, old.max_players)
            != (id, &name, &host, port, max)
        {
            let server = Arc::make_mut(&mut self.server);
            *server = Server {
                id: id.into(),
                name,
                host,
                port,
                max_players: max,
                players: std::mem::take(&mut server.players),
            };
        }
    }
}

/// Returns the status of a network: the players and counts of all servers, and everything else of
/// this one. Each player counts once, and the count is that of the list.
pub(super) fn aggregate<'a>(
    local: &Status,
    roster: impl IntoIterator<Item = (&'a Uuid, &'a Member)>,
    others: impl IntoIterator<Item = &'a Arc<Server>>,
) -> Status {
    let mut status = Status {
        players: Default::default(),
        ..local.clone()
    };
    let mut max = local.players.max;
    let mut members: HashMap<_, _> = roster.into_iter().collect();
    for server in others {
        max = Some(max.unwrap_or(0).saturating_add(server.max_players));
        for (uuid, member) in &server.players {
            members.entry(uuid).or_insert(member);
        }
    }
    let mut members: Vec<_> = members.into_iter().collect();
    members.sort_unstable_by_key(|(uuid, _)| **uuid);
    status.players.online = Some(members.len() as i64);
    status.players.max = max;
    status.players.roster = Roster::Whole;
    let player = |(uuid, member): (&Uuid, &Member)| Player {
        uuid: Some(*uuid),
        ..Player::named(member.name.clone())
    };
    status.players.list = members.into_iter().map(player).collect();
    status
}

/// Sets whether a status is that of a network.
pub(super) fn mark(status: &mut Status, network: bool) {
    status.extra.retain(|extra| extra.key != "network");
    status.extra.push(Extra::new("network", network));
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::Text;
    use proptest::prelude::*;

    const BOUNDS: Bounds = Bounds {
        servers: 3,
        players: 5,
        stale: 45_000,
    };

    fn record(heartbeat: i64) -> Record {
        Record {
            name: "Name".into(),
            host: None,
            port: 5520,
            max: 10,
            count: Some(0),
            heartbeat: Some(heartbeat),
        }
    }

    fn known() -> NetworkView {
        NetworkView::new(BOUNDS)
    }

    impl NetworkView {
        /// Applies a hash as if all clocks were equal.
        fn apply_hash(&mut self, id: &str, record: Record, written: i64, now: i64) -> bool {
            let by_itself = record.heartbeat.map(|heartbeat| now - heartbeat);
            self.record(
                id,
                record,
                HashAge {
                    by_redis: Some(written),
                    by_itself,
                },
                now,
            )
        }
    }

    fn member(joined: i64) -> Member {
        Member {
            name: Text::unformatted("A"),
            joined,
        }
    }

    fn join(uuid: u8, server: &str) -> Event {
        let name = Text::unformatted("A");
        Event::Join {
            uuid: [uuid; 16],
            server: server.into(),
            name,
            server_name: "Name".into(),
        }
    }

    fn leave(uuid: u8, server: &str) -> Event {
        Event::Leave {
            uuid: [uuid; 16],
            server: server.into(),
        }
    }

    /// Counts players by lists and by servers, which must agree.
    fn count(known: &NetworkView) -> usize {
        let listed: usize = known.shown().map(|server| server.players.len()).sum();
        assert_eq!(listed, known.players());
        for server in known.shown() {
            assert!(
                server
                    .players
                    .keys()
                    .all(|uuid| *known.places[uuid] == *server.id)
            );
        }
        listed
    }

    #[test]
    fn events_move_players() {
        let mut known = known();
        assert_eq!(
            known.apply(join(1, "a"), 0),
            Some("a".into()),
            "not known: it needs to be read"
        );
        assert!(known.apply_hash("a", record(0), 0, 0));
        assert!(known.apply_hash("b", record(0), 0, 0));
        known.apply(join(1, "a"), 1);
        known.apply(join(2, "a"), 1);
        known.apply(join(1, "b"), 2);
        known.apply(leave(1, "a"), 3);
        assert_eq!(count(&known), 2, "a player on b has not left a");
        known.apply(leave(1, "b"), 3);
        known.apply(Event::Offline { server: "a".into() }, 4);
        assert_eq!((count(&known), known.shown().count()), (0, 1));
    }

    #[test]
    fn lists_replace_and_the_later_join_wins() {
        let mut known = known();
        known.apply_hash("a", record(0), 0, 0);
        known.apply_hash("b", record(0), 0, 0);
        known.list(
            "a",
            [([1; 16], member(10)), ([2; 16], member(10))].into(),
            Some(2),
            |_| false,
        );
        known.list(
            "b",
            [([1; 16], member(5)), ([2; 16], member(20))].into(),
            Some(2),
            |_| false,
        );
        let on = |known: &NetworkView, id: &str| {
            known.servers[id]
                .server
                .players
                .keys()
                .map(|uuid| uuid[0])
                .collect::<Vec<_>>()
        };
        assert_eq!((on(&known, "a"), on(&known, "b")), (vec![1], vec![2]));
        known.list("a", HashMap::new(), Some(0), |_| false);
        assert_eq!(count(&known), 1);
        assert!(!known.apply_hash("a", record(1), 0, 1));
        assert!(
            known.apply_hash(
                "a",
                Record {
                    count: Some(1),
                    ..record(2)
                },
                0,
                2
            ),
            "another count: read the list"
        );
    }

    #[test]
    fn stale_servers_return_with_their_next_heartbeat() {
        let mut known = known();
        known.apply_hash("a", record(1_000), 0, 1_000);
        known.list("a", [([1; 16], member(0))].into(), Some(0), |_| false);
        known.prune(46_000);
        assert_eq!(count(&known), 1);
        assert!(
            !known.apply_hash("a", record(1_000), 45_000, 46_000),
            "the same heartbeat is no sign of life"
        );
        known.prune(46_001);
        assert_eq!((count(&known), known.shown().count()), (0, 0));
        assert!(
            known.apply_hash("a", record(50_000), 0, 50_000),
            "back, and to be read"
        );
        assert_eq!(known.shown().count(), 1);
    }

    #[test]
    fn tolerates_wrong_clocks() {
        let mut known = known();
        // An hour late: ignored at first, but the next heartbeat proves it alive.
        assert!(!known.apply_hash("late", record(0), 0, 3_600_000));
        assert_eq!(known.shown().count(), 0);
        assert!(known.apply_hash("late", record(15_000), 0, 3_615_000));
        // An hour early, and without heartbeat for 46 s by the clock of Redis.
        known.apply_hash("early", record(7_200_000), 46_000, 3_615_000);
        assert_eq!(known.shown().count(), 1);
    }

    #[test]
    fn servers_lost_by_redis_get_time_to_return() {
        let mut known = known();
        known.apply_hash("a", record(0), 0, 0);
        known.apply(join(1, "a"), 0);
        known.expect_returns(1_000, None);
        assert!(!known.missing("a", 2_000));
        assert_eq!(count(&known), 1);
        assert!(known.missing("a", 46_000));
        assert_eq!(count(&known), 0);
    }

    /// Servers cannot send heartbeats while Redis is not available.
    #[test]
    fn no_server_is_removed_as_soon_as_redis_is_back() {
        let mut known = known();
        known.apply_hash("a", record(0), 0, 0);
        known.apply(join(1, "a"), 0);
        known.expect_returns(60_000, Some(60_000));
        known.apply_hash("a", record(0), 60_000, 60_000);
        known.prune(60_000);
        assert_eq!(count(&known), 1);
        known.prune(105_000);
        assert_eq!(count(&known), 0);
    }

    /// The reference creates this by removing a player from the count of an expired server: no
    /// heartbeat, and no expiry.
    #[test]
    fn a_count_alone_is_no_heartbeat() {
        let mut known = known();
        let alone = || Record {
            heartbeat: None,
            ..record(0)
        };
        for now in [0, 15_000, 30_000, 45_000] {
            known.record("a", alone(), HashAge::default(), now);
            known.prune(now);
            assert_eq!(known.shown().count(), 1);
        }
        known.record("a", alone(), HashAge::default(), 60_000);
        known.prune(60_000);
        assert_eq!(known.shown().count(), 0);
    }

    #[test]
    fn limits_servers_and_players() {
        let mut known = known();
        for id in ["a", "b", "c", "d"] {
            known.apply_hash(id, record(0), 0, 0);
        }
        (0..9).for_each(|i| drop(known.apply(join(i, "a"), 0)));
        assert_eq!(
            (known.shown().count(), count(&known), known.refused),
            (3, 5, 5)
        );
    }

    #[test]
    fn counts_agree_with_the_list() {
        let mut known = known();
        known.apply_hash(
            "a",
            Record {
                count: Some(77),
                ..record(0)
            },
            0,
            0,
        );
        known.apply(join(1, "a"), 0);
        known.apply(join(2, "a"), 0);
        let mut local = Status {
            name: Some(Text::unformatted("Here")),
            ..Status::default()
        };
        local.players.max = Some(i64::MAX);
        // A player on this server and on another one.
        let uuid = [2; 16];
        let own = member(0);
        let status = aggregate(&local, [(&uuid, &own)], known.shown());
        assert_eq!(
            (status.players.online, status.players.list.len()),
            (Some(2), 2)
        );
        assert_eq!(status.players.max, Some(i64::MAX));
        assert_eq!(status.name, local.name);
    }

    proptest! {
        /// In any order of events each player is on one server and within the limits.
        #[test]
        fn players_are_in_one_place(steps in prop::collection::vec((0u8..7, 0u8..8, 0usize..5), 0..80)) {
            let mut known = known();
            let mut now = 0;
            for (what, uuid, server) in steps {
                let id = ["a", "b", "c", "d", "e"][server];
                now += 5_000;
                match what {
                    0 => drop(known.apply_hash(id, record(now), 0, now)),
                    1 => drop(known.apply(leave(uuid, id), now)),
                    2 => drop(known.apply(Event::Offline { server: id.into() }, now)),
                    3 => known.prune(now),
                    4 => known.list(id, (0..uuid).map(|i| ([i; 16], member(i64::from(i)))).collect(), None, |_| false),
                    _ => drop(known.apply(join(uuid, id), now)),
                }
                prop_assert!(count(&known) <= BOUNDS.players && known.servers.len() <= BOUNDS.servers);
            }
        }
    }
}
