//! What is known of the other servers, from full reads and events; no I/O, and time is an argument (spec/onequery.md#12.6).

use super::event::Event;
use super::record::{Member, Record};
use super::wildcard::matches;
use hailer_proto::{Extra, Player, Roster, Status};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// A UUID in network order.
pub(super) type Uuid = [u8; 16];

/// The network as a program sees it: a snapshot, cheap to take.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct View {
    /// The servers, this one first if it takes part, the others by id.
    pub servers: Vec<Arc<Server>>,
    /// Time since the last sign of life of Redis; nothing if there has been none.
    pub age: Option<Duration>,
}

impl View {
    /// The servers whose id a pattern covers: `*` is any run of characters, `?` any one, case does not matter.
    pub fn matching(&self, pattern: &str) -> impl Iterator<Item = &Server> {
        self.servers
            .iter()
            .map(|server| &**server)
            .filter(move |server| matches(pattern, &server.id))
    }

    /// How many players are on, each counted once.
    pub fn count(&self) -> usize {
        self.servers
            .iter()
            .flat_map(|server| server.players.keys())
            .collect::<HashSet<_>>()
            .len()
    }

    /// The server on which a player is.
    pub fn find(&self, uuid: &[u8; 16]) -> Option<&Server> {
        self.servers
            .iter()
            .map(|server| &**server)
            .find(|server| server.players.contains_key(uuid))
    }
}

/// One server of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Server {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The address under which players reach it, if it says so.
    pub host: Option<String>,
    /// Port of the game.
    pub port: u16,
    /// The most players that fit.
    pub max_players: i64,
    /// Who is on, by UUID.
    pub players: BTreeMap<[u8; 16], Member>,
}

/// The other servers of the network. A player is on one of them at most.
#[derive(Debug)]
pub(super) struct Known {
    servers: HashMap<Arc<str>, Entry>,
    /// Where each player is.
    places: HashMap<Uuid, Arc<str>>,
    bounds: Bounds,
    /// Until then nobody is missed: Redis was away, or has lost its data, and the others get the time to come back.
    patient_until: i64,
    /// What did not fit.
    pub(super) refused: u64,
}

/// How long ago the hash of a server was written, in milliseconds, by two clocks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Age {
    /// By the clock of Redis, if that can be told.
    pub(super) by_redis: Option<i64>,
    /// By the clock of the server, which may be wrong.
    pub(super) by_itself: Option<i64>,
}

/// What is kept, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) servers: usize,
    pub(super) players: usize,
    /// Milliseconds.
    pub(super) stale: i64,
}

#[derive(Debug)]
struct Entry {
    server: Arc<Server>,
    /// The last heartbeat, by the clock of that server.
    heartbeat: Option<i64>,
    /// When it gave a sign of life, by ours.
    alive: i64,
    /// The count that it gave when its players were read; another one now means that they need to be read again.
    said: Option<i64>,
    /// Silent for too long: kept, to see it return, but without players and not shown.
    stale: bool,
}

impl Known {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            servers: HashMap::new(),
            places: HashMap::new(),
            bounds,
            patient_until: i64::MIN,
            refused: 0,
        }
    }

    /// Ids of all servers kept, the silent ones too.
    pub(super) fn ids(&self) -> impl Iterator<Item = &Arc<str>> {
        self.servers.keys()
    }

    /// Servers shown.
    pub(super) fn shown(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.servers
            .values()
            .filter(|entry| !entry.stale)
            .map(|entry| &entry.server)
    }

    /// Players of all servers shown.
    pub(super) fn players(&self) -> usize {
        self.places.len()
    }

    /// Redis was away for so long, or has lost its data, which is as bad as any time: who vanishes or is silent in the near
    /// future is believed to return.
    pub(super) fn be_patient(&mut self, now: i64, away: Option<i64>) {
        let time = away.unwrap_or(i64::MAX).min(self.bounds.stale);
        self.patient_until = self.patient_until.max(now + time);
    }

    /// Forgets a server: this member itself.
    pub(super) fn remove(&mut self, id: &str) {
        self.forget(id);
    }

    /// What is known is too old to be of use.
    pub(super) fn clear(&mut self) {
        self.servers.clear();
        self.places.clear();
    }

    /// What the hash of a server says, and how old that is. Returns whether its players need to be read again.
    pub(super) fn record(&mut self, id: &str, record: Record, age: Age, now: i64) -> bool {
        let by_redis = now - age.by_redis.unwrap_or(0).max(0);
        let Some(entry) = self.servers.get_mut(id) else {
            if self.servers.len() >= self.bounds.servers {
                self.refused += 1;
                return false;
            }
            // Its clock is all that there is to go by, and Redis' if that says that it is older.
            let alive = by_redis.min(now.saturating_sub(age.by_itself.unwrap_or(0)));
            let stale = alive < now - self.bounds.stale;
            let mut entry = Entry {
                server: Arc::default(),
                heartbeat: record.heartbeat,
                alive,
                said: None,
                stale,
            };
            entry.describe(id, record);
            self.servers.insert(id.into(), entry);
            return !stale;
        };
        // A heartbeat that changes is a sign of life, however wrong the clock is that it was read from. One that is no number
        // never changes.
        if entry.heartbeat != record.heartbeat {
            entry.heartbeat = record.heartbeat;
            entry.alive = entry.alive.max(by_redis);
        }
        let returns = entry.stale && entry.alive + self.bounds.stale >= now;
        entry.stale &= !returns;
        let news = returns || !entry.stale && entry.said != record.count;
        entry.describe(id, record);
        news
    }

    /// The players of a server, all of them but those who are just coming, and the count that its hash gave.
    pub(super) fn list(
        &mut self,
        id: &str,
        players: HashMap<Uuid, Member>,
        said: Option<i64>,
        is_coming: impl Fn(&Uuid) -> bool,
    ) {
        let Some((id, entry)) = self.servers.get_key_value(id) else {
            return;
        };
        if entry.stale {
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
            // In two lists: the later one to join is where the player is.
            let elsewhere = self.places.get(&uuid).filter(|place| **place != id);
            let there =
                elsewhere.and_then(|place| self.servers.get(place)?.server.players.get(&uuid));
            if there.is_none_or(|there| there.joined < member.joined) {
                self.put(&id, uuid, member);
            }
        }
        if let Some(entry) = self.servers.get_mut(&id) {
            entry.said = said;
        }
    }

    /// A server has no hash. Returns whether that is the end of it; if not, it is believed to return.
    pub(super) fn missing(&mut self, id: &str, now: i64) -> bool {
        let is_gone = now >= self.patient_until;
        if is_gone {
            self.forget(id);
        }
        is_gone
    }

    /// What an event says, and at which time of day. Returns the id of a server that needs to be read, since too little is
    /// known of it.
    pub(super) fn apply(&mut self, event: Event, time: i64) -> Option<String> {
        match event {
            Event::Online { server, .. } => Some(server),
            Event::Offline { server } => {
                self.forget(&server);
                None
            }
            Event::Join {
                uuid, server, name, ..
            } => {
                let id = match self.servers.get_key_value(&*server) {
                    Some((id, entry)) if !entry.stale => id.clone(),
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

    /// A player is here, and so not on any other server.
    pub(super) fn claim(&mut self, uuid: &Uuid) -> bool {
        self.places
            .get(uuid)
            .cloned()
            .is_some_and(|place| self.take(&place, uuid))
    }

    /// Leaves out servers that have been silent for too long.
    pub(super) fn prune(&mut self, now: i64) {
        if now < self.patient_until {
            return;
        }
        let limit = now - self.bounds.stale;
        let silent = self
            .servers
            .iter()
            .filter(|(_, entry)| !entry.stale && entry.alive < limit);
        let silent: Vec<_> = silent.map(|(id, _)| id.clone()).collect();
        for id in &silent {
            self.empty(id);
            if let Some(entry) = self.servers.get_mut(id) {
                entry.stale = true;
            }
        }
    }

    fn forget(&mut self, id: &str) {
        self.empty(id);
        self.servers.remove(id);
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
            // An event has no time of its own: the one that was read is better.
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

impl Entry {
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

/// The status of a network: players and counts of all, the rest of this server. Whoever is listed twice counts once, and
/// the count is that of the list.
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

/// Says whether a status is that of a network.
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

    fn known() -> Known {
        Known::new(BOUNDS)
    }

    impl Known {
        /// What a hash says, as if all clocks but its own were one.
        fn hears(&mut self, id: &str, record: Record, written: i64, now: i64) -> bool {
            let by_itself = record.heartbeat.map(|heartbeat| now - heartbeat);
            self.record(
                id,
                record,
                Age {
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

    /// Players by the servers' lists and by the places, which must agree.
    fn count(known: &Known) -> usize {
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
        assert!(known.hears("a", record(0), 0, 0));
        assert!(known.hears("b", record(0), 0, 0));
        known.apply(join(1, "a"), 1);
        known.apply(join(2, "a"), 1);
        known.apply(join(1, "b"), 2);
        known.apply(leave(1, "a"), 3);
        assert_eq!(count(&known), 2, "who is on b has not left a");
        known.apply(leave(1, "b"), 3);
        known.apply(Event::Offline { server: "a".into() }, 4);
        assert_eq!((count(&known), known.shown().count()), (0, 1));
    }

    #[test]
    fn lists_replace_and_the_later_join_wins() {
        let mut known = known();
        known.hears("a", record(0), 0, 0);
        known.hears("b", record(0), 0, 0);
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
        let on = |known: &Known, id: &str| {
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
        assert!(!known.hears("a", record(1), 0, 1));
        assert!(
            known.hears(
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
    fn the_silent_are_left_out_until_their_heartbeat_moves() {
        let mut known = known();
        known.hears("a", record(1_000), 0, 1_000);
        known.list("a", [([1; 16], member(0))].into(), Some(0), |_| false);
        known.prune(46_000);
        assert_eq!(count(&known), 1);
        assert!(
            !known.hears("a", record(1_000), 45_000, 46_000),
            "the same heartbeat is no sign of life"
        );
        known.prune(46_001);
        assert_eq!((count(&known), known.shown().count()), (0, 0));
        assert!(
            known.hears("a", record(50_000), 0, 50_000),
            "back, and to be read"
        );
        assert_eq!(known.shown().count(), 1);
    }

    #[test]
    fn wrong_clocks_do_no_harm() {
        let mut known = known();
        // An hour late: not believed at first sight, but the next heartbeat proves it alive.
        assert!(!known.hears("late", record(0), 0, 3_600_000));
        assert_eq!(known.shown().count(), 0);
        assert!(known.hears("late", record(15_000), 0, 3_615_000));
        // An hour early, and dead for 46 seconds by the clock of Redis.
        known.hears("early", record(7_200_000), 46_000, 3_615_000);
        assert_eq!(known.shown().count(), 1);
    }

    #[test]
    fn what_redis_lost_gets_time_to_return() {
        let mut known = known();
        known.hears("a", record(0), 0, 0);
        known.apply(join(1, "a"), 0);
        known.be_patient(1_000, None);
        assert!(!known.missing("a", 2_000));
        assert_eq!(count(&known), 1);
        assert!(known.missing("a", 46_000));
        assert_eq!(count(&known), 0);
    }

    /// While Redis was away nobody could give a sign of life.
    #[test]
    fn nobody_is_missed_as_soon_as_redis_is_back() {
        let mut known = known();
        known.hears("a", record(0), 0, 0);
        known.apply(join(1, "a"), 0);
        known.be_patient(60_000, Some(60_000));
        known.hears("a", record(0), 60_000, 60_000);
        known.prune(60_000);
        assert_eq!(count(&known), 1);
        known.prune(105_000);
        assert_eq!(count(&known), 0);
    }

    /// As the reference makes by taking a player off the count of a server that has expired: no heartbeat, and no end.
    #[test]
    fn a_hash_of_a_count_alone_is_no_sign_of_life() {
        let mut known = known();
        let alone = || Record {
            heartbeat: None,
            ..record(0)
        };
        for now in [0, 15_000, 30_000, 45_000] {
            known.record("a", alone(), Age::default(), now);
            known.prune(now);
            assert_eq!(known.shown().count(), 1);
        }
        known.record("a", alone(), Age::default(), 60_000);
        known.prune(60_000);
        assert_eq!(known.shown().count(), 0);
    }

    #[test]
    fn no_more_than_fits_is_kept() {
        let mut known = known();
        for id in ["a", "b", "c", "d"] {
            known.hears(id, record(0), 0, 0);
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
        known.hears(
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
        // One who is here as well as there.
        let (uuid, own) = ([2; 16], member(0));
        let status = aggregate(&local, [(&uuid, &own)], known.shown());
        assert_eq!(
            (status.players.online, status.players.list.len()),
            (Some(2), 2)
        );
        assert_eq!(status.players.max, Some(i64::MAX));
        assert_eq!(status.name, local.name);
    }

    proptest! {
        /// Whatever happens in whatever order: each player in one place, each place known, and within the bounds.
        #[test]
        fn players_are_in_one_place(steps in prop::collection::vec((0u8..7, 0u8..8, 0usize..5), 0..80)) {
            let mut known = known();
            let mut now = 0;
            for (what, uuid, server) in steps {
                let id = ["a", "b", "c", "d", "e"][server];
                now += 5_000;
                match what {
                    0 => drop(known.hears(id, record(now), 0, now)),
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
