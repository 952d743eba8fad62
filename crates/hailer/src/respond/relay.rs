//! Forwards datagrams that no protocol claims to the game server, and its replies back.
//!
//! ```text
//!   source ──► Relay::forward ──────────────────► the session's socket ──► game server
//!   source ◄── RateLimiter ◄── Relay::receive ◄── the session's socket ◄── game server
//! ```
//!
//! Each source address and port has a session with a separate socket, so that the game server can
//! distinguish players. Sources can be forged. A session is therefore *unverified* until its source
//! sends again after a reply.
//!
//! | limit | value |
//! | --- | --- |
//! | replies to an unverified session | the budget for unverified sources; half of the total until the source retries |
//! | replies to a verified session | the budget for verified sources |
//! | sessions of one relay | [`PoolConfig::relay_sessions`](super::PoolConfig::relay_sessions) |
//! | sessions of one network (/24 or /56) | 1/16 of that, but at least 64 |
//! | age of an unverified session | 5 s, or 100 ms when another source needs its place |
//! | silence of a verified session | [`PoolConfig::relay_idle`](super::PoolConfig::relay_idle), or 10 s when another source needs its place |
//! | length of a datagram | 4,096 bytes |
//!
//! When the relay is full, a new source replaces the oldest unverified session. A flood of forged
//! sources would replace the sessions of players before they can send again, and use up the budget
//! for their replies. But a random forged source sends once, and a player retries. So a source that
//! retries, even after its session was refused or replaced, gets a session that new sources do not
//! replace, and half of the budget for all unverified sources is kept for such sessions.

use super::Counts;
use super::budget::{RateLimiter, Trust};
use super::reason::{RELAY_BUDGET, RELAY_FAILED, RELAY_FULL};
use crate::prefix::network;
use hailer_udp::Outbox;
use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Maximum length of a datagram in bytes. Longer ones travel in fragments, and no game sends them.
const MAX_DATAGRAM_BYTES: usize = 4_096;
/// Maximum number of datagrams of one session received in a row.
const MAX_RECEIVED: usize = 64;
/// Maximum age of an unverified session.
const UNVERIFIED_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for a new source to send again before another new source may replace its session.
const MIN_AGE: Duration = Duration::from_millis(100);
/// Maximum idle time of a verified source while other sources are refused.
const CROWDED_IDLE: Duration = Duration::from_secs(10);
/// Maximum share of the sessions for one network, as a divisor.
const NETWORK_SHARE: usize = 16;
/// Minimum number of sessions that one network may always have.
const MIN_NETWORK_SESSIONS: usize = 64;

/// Sessions with one game server.
pub(super) struct Relay {
    server: SocketAddr,
    capacity: usize,
    idle: Duration,
    registry: Registry,
    /// Slots of the sessions, by source.
    slots: HashMap<SocketAddr, usize>,
    /// Slots of the sessions, by network.
    networks: HashMap<u128, Vec<usize>>,
    sessions: Vec<Option<RelaySession>>,
    free: Vec<usize>,
    /// Unverified sessions of sources that have not retried, oldest first. Other entries are
    /// skipped.
    fresh: VecDeque<Ticket>,
    /// Unverified sessions of sources that have retried, oldest first. Other entries are skipped.
    retrying: VecDeque<Ticket>,
    /// Sources that were refused or replaced. Allocated when the relay is full for the first time.
    turned_away: Option<RecentSet>,
    /// Sources were refused since the last call of [`Relay::expire`].
    is_crowded: bool,
    /// Number of the next session.
    serial: u64,
    /// The token of a session is its slot plus 1, times `tokens.0`, plus `tokens.1`.
    tokens: (usize, usize),
    buffer: Vec<u8>,
}

/// A session in one of the queues. The serial number distinguishes it from a later session in the
/// same slot.
#[derive(Clone, Copy)]
struct Ticket {
    slot: usize,
    serial: u64,
}

struct RelaySession {
    source: SocketAddr,
    /// The local address that the source sent to, if the listener has several.
    local: Option<IpAddr>,
    socket: UdpSocket,
    serial: u64,
    opened: Instant,
    /// When the source last sent. For an unverified session: when it was opened or the last reply
    /// was sent.
    active: Instant,
    /// Bytes received from the source since the last reply.
    unanswered_bytes: usize,
    /// Whether the source sent again before it got a reply, in this session or before it.
    has_retried: bool,
    state: RelayState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RelayState {
    /// No reply has been sent.
    New,
    /// A reply has been sent.
    Replied,
    /// The source has sent again after a reply.
    Verified,
}

impl Relay {
    /// Returns a relay without sessions.
    pub(super) fn new(
        server: SocketAddr,
        capacity: usize,
        idle: Duration,
        registry: &Registry,
    ) -> io::Result<Self> {
        Ok(Self {
            server,
            capacity,
            idle,
            registry: registry.try_clone()?,
            slots: HashMap::new(),
            networks: HashMap::new(),
            sessions: Vec::new(),
            free: Vec::new(),
            fresh: VecDeque::new(),
            retrying: VecDeque::new(),
            turned_away: None,
            is_crowded: false,
            serial: 0,
            tokens: (1, 0),
            buffer: vec![0; MAX_DATAGRAM_BYTES],
        })
    }

    pub(super) fn server(&self) -> SocketAddr {
        self.server
    }

    /// Sets new limits. Sessions above them stay open until they are idle.
    pub(super) fn set_limits(&mut self, capacity: usize, idle: Duration) {
        self.capacity = capacity;
        self.idle = idle;
    }

    /// Returns the number of open sessions.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Sets the tokens of the sessions' events to `number × step + offset`, with numbers from 1 on.
    pub(super) fn set_tokens(&mut self, step: usize, offset: usize) {
        if self.tokens == (step, offset) {
            return;
        }
        self.tokens = (step, offset);
        for slot in 0..self.sessions.len() {
            let token = self.token(slot);
            if let Some(Some(session)) = self.sessions.get_mut(slot) {
                // On failure the session gets no more events, and expires.
                let _ = self
                    .registry
                    .reregister(&mut session.socket, token, Interest::READABLE);
            }
        }
    }

    fn token(&self, slot: usize) -> Token {
        let (step, offset) = self.tokens;
        Token((slot + 1) * step + offset)
    }

    /// Forwards a datagram from `source` to the game server.
    pub(super) fn forward(
        &mut self,
        source: SocketAddr,
        local: Option<IpAddr>,
        bytes: &[u8],
        now: Instant,
        counts: &mut Counts,
    ) {
        let before = self.serial;
        let slot = match self.slots.get(&source) {
            Some(slot) => *slot,
            None => {
                let Some(has_retried) = self.make_room(source, now) else {
                    return counts.drop(RELAY_FULL.name);
                };
                match self.open(source, local, has_retried, now) {
                    Ok(slot) => slot,
                    Err(_) => return counts.drop(RELAY_FAILED.name),
                }
            }
        };
        let Some(session) = self.sessions.get_mut(slot).and_then(Option::as_mut) else {
            return;
        };
        match session.state {
            RelayState::New if session.serial <= before && !session.has_retried => {
                session.has_retried = true;
                let serial = session.serial;
                self.retrying.push_back(Ticket { slot, serial });
            }
            RelayState::New => {}
            RelayState::Replied | RelayState::Verified => {
                session.state = RelayState::Verified;
                session.active = now;
            }
        }
        session.unanswered_bytes = session.unanswered_bytes.saturating_add(bytes.len());
        match session.socket.send(bytes) {
            Ok(_) => counts.relayed += 1,
            // The game server's queue is full, or nothing listens on its port.
            Err(_) => counts.drop(RELAY_FAILED.name),
        }
    }

    /// Replaces a session for a new source, if necessary. `None`: the source is refused. Otherwise
    /// returns whether the source's session was refused or replaced before.
    fn make_room(&mut self, source: SocketAddr, now: Instant) -> Option<bool> {
        let hash = self.slots.hasher().hash_one(source);
        let has_retried = self
            .turned_away
            .as_ref()
            .is_some_and(|set| set.contains(hash));
        let in_network = self.networks.get(&network(source.ip().to_canonical()));
        let max_in_network = (self.capacity / NETWORK_SHARE).max(MIN_NETWORK_SESSIONS);
        let replaced = match in_network {
            Some(slots) if slots.len() >= max_in_network => Some(
                self.oldest_of(slots)
                    .filter(|&slot| self.may_replace(slot, has_retried, now)),
            ),
            _ if self.slots.len() >= self.capacity => Some(self.oldest(has_retried, now)),
            _ => None,
        };
        match replaced {
            None => Some(has_retried),
            Some(Some(slot)) => {
                if let Some(session) = self.close(slot) {
                    let hash = self.slots.hasher().hash_one(session.source);
                    self.turn_away(hash, now);
                }
                Some(has_retried)
            }
            Some(None) => {
                self.is_crowded = true;
                self.turn_away(hash, now);
                None
            }
        }
    }

    fn turn_away(&mut self, hash: u64, now: Instant) {
        self.turned_away
            .get_or_insert_with(|| RecentSet::new(now))
            .insert(hash, now);
    }

    /// Returns the oldest unverified session in these slots.
    fn oldest_of(&self, slots: &[usize]) -> Option<usize> {
        let unverified = slots.iter().filter_map(|&slot| {
            let session = self.sessions.get(slot)?.as_ref()?;
            (session.state != RelayState::Verified).then_some((session.opened, slot))
        });
        unverified.min().map(|(_, slot)| slot)
    }

    fn may_replace(&self, slot: usize, has_retried: bool, now: Instant) -> bool {
        let session = self.sessions.get(slot).and_then(Option::as_ref);
        let age = session.map(|session| now.saturating_duration_since(session.opened));
        has_retried || age.is_some_and(|age| age >= MIN_AGE)
    }

    /// Returns the session that a new source may replace. Sessions of sources that have retried are
    /// replaced only by such sources, and only if they take up half of the relay or there are no
    /// others.
    fn oldest(&mut self, has_retried: bool, now: Instant) -> Option<usize> {
        let fresh = self.first_of(false);
        if !has_retried {
            return fresh.filter(|&slot| self.may_replace(slot, false, now));
        }
        let first_retrying = self.first_of(true);
        if self.retrying.len() * 2 >= self.capacity {
            first_retrying.or(fresh)
        } else {
            fresh.or(first_retrying)
        }
    }

    /// Returns the oldest session of a queue. Removes outdated tickets before it.
    fn first_of(&mut self, has_retried: bool) -> Option<usize> {
        let queue = if has_retried {
            &mut self.retrying
        } else {
            &mut self.fresh
        };
        while let Some(ticket) = queue.front() {
            if is_current(&self.sessions, ticket, has_retried) {
                return Some(ticket.slot);
            }
            queue.pop_front();
        }
        None
    }

    fn open(
        &mut self,
        source: SocketAddr,
        local: Option<IpAddr>,
        has_retried: bool,
        now: Instant,
    ) -> io::Result<usize> {
        let any: IpAddr = if self.server.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            Ipv6Addr::UNSPECIFIED.into()
        };
        let mut socket = UdpSocket::bind((any, 0).into())?;
        socket.connect(self.server)?;
        let slot = self.free.last().copied().unwrap_or(self.sessions.len());
        let token = self.token(slot);
        self.registry
            .register(&mut socket, token, Interest::READABLE)?;
        self.serial += 1;
        let session = Some(RelaySession {
            source,
            local,
            socket,
            serial: self.serial,
            opened: now,
            active: now,
            unanswered_bytes: 0,
            has_retried,
            state: RelayState::New,
        });
        if self.free.pop().is_some() {
            self.sessions[slot] = session;
        } else {
            self.sessions.push(session);
        }
        self.slots.insert(source, slot);
        self.networks
            .entry(network(source.ip().to_canonical()))
            .or_default()
            .push(slot);
        let queue = if has_retried {
            &mut self.retrying
        } else {
            &mut self.fresh
        };
        queue.push_back(Ticket {
            slot,
            serial: self.serial,
        });
        Ok(slot)
    }

    fn close(&mut self, slot: usize) -> Option<RelaySession> {
        let mut session = self.sessions.get_mut(slot)?.take()?;
        // On failure the system removes the socket when it is closed.
        let _ = self.registry.deregister(&mut session.socket);
        self.slots.remove(&session.source);
        let prefix = network(session.source.ip().to_canonical());
        if let Some(slots) = self.networks.get_mut(&prefix) {
            slots.retain(|other| *other != slot);
            if slots.is_empty() {
                self.networks.remove(&prefix);
            }
        }
        self.free.push(slot);
        Some(session)
    }

    /// Receives what the game server sent in a session and passes it on within the budget.
    /// `number`: the session, counted from 1 as in [`Relay::set_tokens`]. `since` is `now` by the
    /// limiter's clock.
    pub(super) fn receive(
        &mut self,
        number: usize,
        (now, since): (Instant, Duration),
        limiter: &mut RateLimiter,
        counts: &mut Counts,
        out: &mut Outbox,
    ) {
        let Some(slot) = number.checked_sub(1) else {
            return;
        };
        let token = self.token(slot);
        let Some(Some(session)) = self.sessions.get_mut(slot) else {
            return;
        };
        for _ in 0..MAX_RECEIVED {
            let length = match session.socket.recv(&mut self.buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Nothing listens on the game server's port at the moment.
                Err(_) => continue,
            };
            let trust = match session.state {
                RelayState::Verified => Trust::Verified,
                _ if session.has_retried => Trust::Unverified,
                _ => Trust::New,
            };
            let to = session.source.ip();
            let request_bytes = session.unanswered_bytes;
            if !limiter.try_spend_more(to, request_bytes, length, trust, since) {
                counts.drop(RELAY_BUDGET.name);
                continue;
            }
            session.unanswered_bytes = 0;
            if trust != Trust::Verified {
                session.state = RelayState::Replied;
                session.active = now;
            }
            out.push(session.source, session.local, |out| {
                out.extend_from_slice(&self.buffer[..length]);
            });
            counts.relayed_back += 1;
        }
        // There may be more, and each event is reported only once, so request another.
        let _ = self
            .registry
            .reregister(&mut session.socket, token, Interest::READABLE);
    }

    /// Closes sessions that are idle or were never verified.
    pub(super) fn expire(&mut self, now: Instant) {
        let idle = if self.is_crowded {
            CROWDED_IDLE.min(self.idle)
        } else {
            self.idle
        };
        self.is_crowded = false;
        for slot in 0..self.sessions.len() {
            let Some(Some(session)) = self.sessions.get(slot) else {
                continue;
            };
            let limit = match session.state {
                RelayState::Verified => idle,
                RelayState::New | RelayState::Replied => UNVERIFIED_TIMEOUT.min(self.idle),
            };
            if now.saturating_duration_since(session.active) >= limit {
                self.close(slot);
            }
        }
        let sessions = &self.sessions;
        self.fresh
            .retain(|ticket| is_current(sessions, ticket, false));
        self.retrying
            .retain(|ticket| is_current(sessions, ticket, true));
    }
}

/// Returns whether a ticket's session is open, unverified, and still belongs to the queue.
fn is_current(sessions: &[Option<RelaySession>], ticket: &Ticket, has_retried: bool) -> bool {
    let session = sessions.get(ticket.slot).and_then(Option::as_ref);
    session.is_some_and(|session| {
        session.serial == ticket.serial
            && session.state != RelayState::Verified
            && session.has_retried == has_retried
    })
}

impl Drop for Relay {
    fn drop(&mut self) {
        for session in self.sessions.iter_mut().flatten() {
            let _ = self.registry.deregister(&mut session.socket);
        }
    }
}

/// Set of recently inserted hashes: a pair of Bloom filters in 1 MiB.
///
/// A hash stays for at least 5 s or 262,144 further hashes, whichever comes first, and at most
/// twice as long. At this number, 0.5 % of other hashes are taken for members.
struct RecentSet {
    /// The current filter and the previous one.
    filters: [Vec<u64>; 2],
    inserted: usize,
    started: Instant,
}

impl RecentSet {
    const BITS: u32 = 22;
    const MAX_HASHES: usize = 1 << 18;
    const MAX_AGE: Duration = Duration::from_secs(5);

    fn new(now: Instant) -> Self {
        let filter = || vec![0; 1 << (Self::BITS - 6)];
        Self {
            filters: [filter(), filter()],
            inserted: 0,
            started: now,
        }
    }

    /// Returns the words and bits of a hash: two halves of the hash, and two mixtures of them.
    fn bits(hash: u64) -> [(usize, u64); 4] {
        let a = hash as u32;
        let b = (hash >> 32) as u32;
        [0, 1, 2, 3].map(|i| {
            let at = a.wrapping_add(b.wrapping_mul(i)) >> (32 - Self::BITS);
            ((at >> 6) as usize, 1 << (at & 63))
        })
    }

    fn contains(&self, hash: u64) -> bool {
        let bits = Self::bits(hash);
        let has = |filter: &Vec<u64>| bits.iter().all(|(word, bit)| filter[*word] & bit != 0);
        self.filters.iter().any(has)
    }

    fn insert(&mut self, hash: u64, now: Instant) {
        let age = now.saturating_duration_since(self.started);
        if self.inserted >= Self::MAX_HASHES || age >= Self::MAX_AGE {
            self.filters.swap(0, 1);
            self.filters[0].fill(0);
            self.inserted = 0;
            self.started = now;
        }
        for (word, bit) in Self::bits(hash) {
            self.filters[0][word] |= bit;
        }
        self.inserted += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::respond::Budget;
    use mio::Poll;

    /// A relay to a game server on loopback, with simulated time.
    struct Scene {
        game: std::net::UdpSocket,
        relay: Relay,
        limiter: RateLimiter,
        counts: Counts,
        out: Outbox,
        start: Instant,
        _poll: Poll,
    }

    const IDLE: Duration = Duration::from_secs(60);

    fn at(ms: u64) -> Duration {
        Duration::from_secs(100) + Duration::from_millis(ms)
    }

    fn source(number: u32) -> SocketAddr {
        // Each source is in a different network.
        ((0x0B00_0007 + number * 256).to_be_bytes(), 4_000).into()
    }

    impl Scene {
        fn new(capacity: usize) -> Self {
            let game = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
            game.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let poll = Poll::new().unwrap();
            let server = game.local_addr().unwrap();
            Self {
                relay: Relay::new(server, capacity, IDLE, poll.registry()).unwrap(),
                game,
                limiter: RateLimiter::new(Budget::default(), 1),
                counts: Counts::default(),
                out: Outbox::new(),
                start: Instant::now(),
                _poll: poll,
            }
        }

        /// Forwards 20 bytes from a source. Returns the address that the game server sees, if they
        /// arrived there.
        fn forward(&mut self, from: SocketAddr, ms: u64) -> Option<SocketAddr> {
            let before = self.counts.relayed;
            self.relay
                .forward(from, None, &[7; 20], self.start + at(ms), &mut self.counts);
            (self.counts.relayed > before).then(|| self.game.recv_from(&mut [0; 64]).unwrap().1)
        }

        /// The game server replies to a source with 1,200 bytes. Returns whether they were passed
        /// on.
        fn reply(&mut self, to: SocketAddr, seen: SocketAddr, ms: u64) -> bool {
            self.game.send_to(&[9; 1_200], seen).unwrap();
            let number = self.relay.slots[&to] + 1;
            let before = (self.counts.relayed_back, self.counts.dropped.clone());
            for _ in 0..1_000 {
                let Self {
                    relay,
                    limiter,
                    counts,
                    out,
                    start,
                    ..
                } = self;
                relay.receive(number, (*start + at(ms), at(ms)), limiter, counts, out);
                if (self.counts.relayed_back, &self.counts.dropped) != (before.0, &before.1) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            self.out.clear();
            self.counts.relayed_back > before.0
        }

        fn verify(&mut self, from: SocketAddr, ms: u64) -> SocketAddr {
            let seen = self.forward(from, ms).unwrap();
            assert!(self.reply(from, seen, ms));
            assert_eq!(self.forward(from, ms), Some(seen));
            seen
        }
    }

    #[test]
    fn charges_replies_to_the_unverified_budget_until_the_source_sends_again() {
        let mut scene = Scene::new(4);
        let seen = scene.forward(source(1), 0).unwrap();
        let sent = (0..100).filter(|_| scene.reply(source(1), seen, 0)).count();
        assert_eq!(
            sent,
            (32 << 10) / 1_200,
            "the burst of an unverified source"
        );
        assert_eq!(scene.counts.dropped["relay budget"], 100 - sent as u64);
        // Now it sends again, and has the budget of a verified source.
        assert_eq!(scene.forward(source(1), 1), Some(seen));
        let sent = (0..100).filter(|_| scene.reply(source(1), seen, 1)).count();
        assert_eq!(sent, 100);
    }

    #[test]
    fn forged_sources_share_half_of_the_budget_and_retries_have_the_other_half() {
        let mut scene = Scene::new(200);
        scene.limiter.change(Budget {
            unverified_total: 64 << 10,
            ..Budget::default()
        });
        let mut send_and_reply = |number: u32| {
            let seen = scene.forward(source(number), 0).unwrap();
            scene.reply(source(number), seen, 0)
        };
        let forged = (0..100).filter(|number| send_and_reply(*number)).count();
        assert_eq!(forged, (32 << 10) / 1_200);
        let refused = 50;
        assert!(!send_and_reply(200), "the first try of a player");
        assert!(send_and_reply(200), "the second try of a player");
        let retries = (refused..100)
            .filter(|number| send_and_reply(*number))
            .count();
        assert_eq!(forged + 1 + retries, (64 << 10) / 1_200);
    }

    #[test]
    fn forged_sources_never_replace_verified_sessions() {
        let mut scene = Scene::new(8);
        let players: Vec<_> = (0..4)
            .map(|i| (source(i), scene.verify(source(i), 0)))
            .collect();
        for number in 100..1_100 {
            // The players leave 4 sessions, so each forged source has one for 120 ms.
            let ms = u64::from(number) * 30;
            assert!(scene.forward(source(number), ms).is_some(), "{number}");
            if number % 10 == 0 {
                for (player, seen) in &players {
                    assert_eq!(scene.forward(*player, ms), Some(*seen));
                }
                scene.relay.expire(scene.start + at(ms));
            }
        }
        assert_eq!(scene.relay.len(), 8);
        assert_eq!(scene.counts.dropped.get("relay full"), None);
    }

    #[test]
    fn a_source_that_tries_again_gets_a_session_in_any_flood() {
        let mut scene = Scene::new(64);
        let mut forged = 10_000;
        let mut ms = 0;
        // 20 forged sources in each millisecond.
        let mut flood = |scene: &mut Scene, until: u64| {
            while ms < until {
                ms += 1;
                for _ in 0..20 {
                    forged += 1;
                    scene.forward(source(forged), ms);
                }
            }
        };
        flood(&mut scene, 500);
        for number in 0..40 {
            let now = 500 + u64::from(number) * 20;
            flood(&mut scene, now);
            let player = source(number);
            let seen = scene
                .forward(player, now)
                .or_else(|| scene.forward(player, now));
            let seen = seen.expect("the second try");
            flood(&mut scene, now + 10);
            assert!(
                scene.relay.slots.contains_key(&player),
                "its session is still open"
            );
            assert_eq!(scene.forward(player, now + 10), Some(seen));
        }
        assert!(scene.relay.len() <= 64);
        assert!(scene.relay.fresh.len() + scene.relay.retrying.len() <= 128);
    }

    #[test]
    fn one_network_has_a_share_of_the_sessions() {
        let mut scene = Scene::new(2_048);
        let port = |port: u16| SocketAddr::from(([192, 0, 2, 7], port));
        for number in 1..=128 {
            assert!(scene.forward(port(number), 0).is_some());
        }
        assert_eq!(
            scene.forward(port(200), 50),
            None,
            "the others are too young to be replaced"
        );
        assert!(scene.forward(port(200), 51).is_some(), "it tried again");
        assert!(
            scene.forward(port(201), 150).is_some(),
            "the others are old enough"
        );
        assert_eq!(scene.relay.len(), 128);
        assert!(
            scene.forward(source(1), 150).is_some(),
            "another network has room"
        );
    }

    #[test]
    fn a_full_relay_closes_verified_sessions_after_10_s_of_silence() {
        let mut scene = Scene::new(2);
        let seen = scene.verify(source(1), 0);
        scene.verify(source(2), 0);
        scene.relay.expire(scene.start + at(30_000));
        assert_eq!(scene.relay.len(), 2);
        assert_eq!(scene.forward(source(1), 31_000), Some(seen));
        assert_eq!(scene.forward(source(3), 31_000), None);
        scene.relay.expire(scene.start + at(31_001));
        assert_eq!(scene.relay.len(), 1);
        assert!(scene.forward(source(3), 31_002).is_some());
        assert_eq!(
            scene.forward(source(1), 31_003),
            Some(seen),
            "the one in use stays"
        );
    }

    #[test]
    fn remembers_recent_hashes() {
        let start = Instant::now();
        let hasher = std::hash::RandomState::new();
        let mut set = RecentSet::new(start);
        let hash = |number: u32| hasher.hash_one(number);
        for number in 0..100_000 {
            set.insert(hash(number), start);
        }
        assert!((0..100_000).all(|number| set.contains(hash(number))));
        let false_members = (100_000..200_000)
            .filter(|number| set.contains(hash(*number)))
            .count();
        assert!(false_members < 100, "{false_members}");
        set.insert(hash(1), start + RecentSet::MAX_AGE);
        assert!(set.contains(hash(99_999)));
        set.insert(hash(1), start + RecentSet::MAX_AGE * 2);
        assert!(!set.contains(hash(99_999)));
    }
}
