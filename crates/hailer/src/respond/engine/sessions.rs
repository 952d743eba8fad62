//! Sessions of a relay, without their sockets: limits of their number and of the replies to each.

use super::budget::{FREE_RATIO, RateLimiter, Trust, datagram_bytes};
use super::echo::{EchoMemory, SharedWindows, Ticket, start, windows};
use crate::prefix::network;
use crate::respond::reason::{RELAY_BUDGET, RELAY_RATIO};
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// Maximum age of an unverified session.
const UNVERIFIED_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for a new source to send again before another new source may replace its session.
const MIN_AGE: Duration = Duration::from_millis(100);
/// Maximum idle time of an established session while other sources are refused.
const CROWDED_IDLE: Duration = Duration::from_secs(10);
/// Maximum share of the sessions for one network, as a divisor.
const NETWORK_SHARE: usize = 16;
/// Minimum number of sessions that one network may always have.
const MIN_NETWORK_SESSIONS: usize = 64;
/// Interval of the attempts of one network at a short echo, and their burst.
/// Beyond that only a long echo verifies.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(1_000 / 32);
const ATTEMPT_BURST: u32 = 128;

/// How the sources of a relay are verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayVerification {
    /// By an echo: the source sends bytes that it can know only from a reply to it. Until then it
    /// receives at most three times the bytes that it sent, within the budget for unverified sources.
    #[default]
    Echo,
    /// Not at all: every source always receives at most three times the bytes that it sent, within the
    /// budget for verified sources.
    Ratio,
    /// Every source counts as verified. For networks in which no address can be forged.
    Off,
}

/// Limits of [`Sessions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RelayLimits {
    pub(crate) sessions: usize,
    pub(crate) idle: Duration,
    pub(crate) verification: RelayVerification,
}

/// Sessions by source. `S` is the socket of a session.
pub(crate) struct Sessions<S> {
    limits: RelayLimits,
    /// Slots of the sessions, by source.
    slots: HashMap<SocketAddr, usize>,
    networks: HashMap<u128, Network>,
    sessions: Vec<Option<Session<S>>>,
    free: Vec<usize>,
    /// Unprotected sessions of sources that have not sent again, oldest first. Other entries are
    /// skipped.
    fresh: VecDeque<Ticket>,
    /// Unprotected sessions of sources that have sent again, oldest first. Other entries are
    /// skipped.
    retrying: VecDeque<Ticket>,
    /// Sources that were refused or replaced. Allocated when the relay is full for the first time.
    turned_away: Option<RecentSet>,
    /// Whether sources were refused since the last call of [`Sessions::expire`].
    is_crowded: bool,
    /// Serial number of the last session.
    serial: u32,
    shared: SharedWindows,
    /// Secret odd number.
    factor: u64,
}

/// Sessions of one network.
struct Network {
    slots: Vec<usize>,
    /// When all attempts at an echo will be free again.
    attempts_until: Instant,
}

pub(crate) struct Session<S> {
    pub(crate) source: SocketAddr,
    /// The local address that the source sent to, if the listener has several.
    pub(crate) local: Option<IpAddr>,
    pub(crate) socket: S,
    serial: u32,
    opened: Instant,
    /// When the source last sent. For a session that is not established: when it was opened or the
    /// last reply was sent.
    active: Instant,
    /// Bytes that may be sent to the source until it is verified, headers included.
    credit: u64,
    /// Whether the source sent again, in this session or before it.
    has_retried: bool,
    state: SessionState,
    standing: Standing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SessionState {
    /// No reply has been sent.
    New,
    /// A reply has been sent.
    Replied,
    /// The source has sent again after a reply.
    Established,
}

enum Standing {
    /// The source may verify itself by an echo.
    Unverified(Box<EchoMemory>),
    /// With the first window of the echo. `None`: without verification.
    Verified(Option<u32>),
    /// The ratio applies to the whole session.
    Ratio,
    /// The bytes that verified the source were sent to other sources as well.
    Refuted,
}

impl<S> Session<S> {
    /// Returns whether other sources can never replace the session.
    fn is_protected(&self) -> bool {
        let is_trusted = matches!(self.standing, Standing::Verified(_) | Standing::Ratio);
        self.state == SessionState::Established && is_trusted
    }

    /// Returns whether the source has sent again after a reply.
    pub(crate) fn is_established(&self) -> bool {
        self.state == SessionState::Established
    }

    fn has_ratio(&self) -> bool {
        !matches!(self.standing, Standing::Verified(_))
    }

    fn trust(&self) -> Trust {
        match self.standing {
            Standing::Unverified(_) | Standing::Refuted => Trust::Proportional,
            Standing::Verified(_) | Standing::Ratio => Trust::Verified,
        }
    }
}

impl<S> Sessions<S> {
    pub(crate) fn new(limits: RelayLimits) -> Self {
        let slots = HashMap::new();
        let factor = slots.hasher().hash_one("factor") | 1;
        Self {
            limits,
            slots,
            networks: HashMap::new(),
            sessions: Vec::new(),
            free: Vec::new(),
            fresh: VecDeque::new(),
            retrying: VecDeque::new(),
            turned_away: None,
            is_crowded: false,
            serial: 0,
            shared: SharedWindows::new(factor),
            factor,
        }
    }

    /// Sets new limits. Sessions above them stay open until they are idle, and open sessions keep
    /// their kind of verification.
    pub(crate) fn set_limits(&mut self, limits: RelayLimits) {
        self.limits = limits;
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn find(&self, source: SocketAddr) -> Option<usize> {
        self.slots.get(&source).copied()
    }

    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut Session<S>> {
        self.sessions.get_mut(slot)?.as_mut()
    }

    /// Returns all open sessions with their slots.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut Session<S>)> {
        let slots = self.sessions.iter_mut().enumerate();
        slots.filter_map(|(slot, session)| Some((slot, session.as_mut()?)))
    }

    /// Returns the slot of the next session.
    pub(crate) fn next_slot(&self) -> usize {
        self.free.last().copied().unwrap_or(self.sessions.len())
    }

    /// Replaces a session for a new source, if necessary. `None`: the source is refused. Otherwise
    /// returns whether the source's session was refused or replaced before.
    pub(crate) fn make_room(&mut self, source: SocketAddr, now: Instant) -> Option<bool> {
        let hash = self.slots.hasher().hash_one(source);
        let has_retried = self
            .turned_away
            .as_ref()
            .is_some_and(|set| set.contains(hash));
        let in_network = self.networks.get(&network(source.ip().to_canonical()));
        let capacity = self.limits.sessions;
        let max_in_network = (capacity / NETWORK_SHARE).max(MIN_NETWORK_SESSIONS);
        let replaced = match in_network {
            Some(network) if network.slots.len() >= max_in_network => Some(
                self.oldest_of(&network.slots)
                    .filter(|&slot| self.may_replace(slot, has_retried, now)),
            ),
            _ if self.slots.len() >= capacity => Some(self.oldest(has_retried, now)),
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

    /// Returns the oldest unprotected session in these slots.
    fn oldest_of(&self, slots: &[usize]) -> Option<usize> {
        let unprotected = slots.iter().filter_map(|&slot| {
            let session = self.sessions.get(slot)?.as_ref()?;
            (!session.is_protected()).then_some((session.opened, slot))
        });
        unprotected.min().map(|(_, slot)| slot)
    }

    fn may_replace(&self, slot: usize, has_retried: bool, now: Instant) -> bool {
        let session = self.sessions.get(slot).and_then(Option::as_ref);
        let age = session.map(|session| now.saturating_duration_since(session.opened));
        has_retried || age.is_some_and(|age| age >= MIN_AGE)
    }

    /// Returns the session that a new source may replace. Sessions of sources that have sent again are
    /// replaced only by such sources, and only if they take up half of the relay or there are no
    /// others.
    fn oldest(&mut self, has_retried: bool, now: Instant) -> Option<usize> {
        let fresh = self.first_of(false);
        if !has_retried {
            return fresh.filter(|&slot| self.may_replace(slot, false, now));
        }
        let first_retrying = self.first_of(true);
        if self.retrying.len() * 2 >= self.limits.sessions {
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
                return Some(ticket.slot as usize);
            }
            queue.pop_front();
        }
        None
    }

    /// Adds a session in the [next slot](Self::next_slot).
    pub(crate) fn insert(
        &mut self,
        source: SocketAddr,
        local: Option<IpAddr>,
        socket: S,
        has_retried: bool,
        now: Instant,
    ) {
        let slot = self.next_slot();
        self.serial = self.serial.wrapping_add(1).max(1);
        let session = Some(Session {
            source,
            local,
            socket,
            serial: self.serial,
            opened: now,
            active: now,
            credit: 0,
            has_retried,
            state: SessionState::New,
            standing: match self.limits.verification {
                RelayVerification::Echo => Standing::Unverified(Box::new(EchoMemory::new())),
                RelayVerification::Ratio => Standing::Ratio,
                RelayVerification::Off => Standing::Verified(None),
            },
        });
        if self.free.pop().is_some() {
            self.sessions[slot] = session;
        } else {
            self.sessions.push(session);
        }
        self.slots.insert(source, slot);
        let network = self.networks.entry(network(source.ip().to_canonical()));
        let network = network.or_insert_with(|| Network {
            slots: Vec::new(),
            attempts_until: now,
        });
        network.slots.push(slot);
        let ticket = Ticket {
            slot: slot as u32,
            serial: self.serial,
        };
        self.queue(has_retried).push_back(ticket);
    }

    fn queue(&mut self, has_retried: bool) -> &mut VecDeque<Ticket> {
        if has_retried {
            &mut self.retrying
        } else {
            &mut self.fresh
        }
    }

    fn close(&mut self, slot: usize) -> Option<Session<S>> {
        let session = self.sessions.get_mut(slot)?.take()?;
        self.slots.remove(&session.source);
        let prefix = network(session.source.ip().to_canonical());
        if let Some(network) = self.networks.get_mut(&prefix) {
            network.slots.retain(|other| *other != slot);
            if network.slots.is_empty() {
                self.networks.remove(&prefix);
            }
        }
        self.free.push(slot);
        Some(session)
    }

    /// Records a datagram from the source of a session. `is_new`: it opened the session.
    pub(crate) fn record_request(&mut self, slot: usize, bytes: &[u8], is_new: bool, now: Instant) {
        let Some(Some(session)) = self.sessions.get_mut(slot) else {
            return;
        };
        if session.state != SessionState::New {
            session.state = SessionState::Established;
            session.active = now;
        }
        if !is_new && !session.has_retried {
            session.has_retried = true;
            self.retrying.push_back(Ticket {
                slot: slot as u32,
                serial: session.serial,
            });
        }
        if session.has_ratio() {
            let bytes = datagram_bytes(session.source.ip(), bytes.len()) * FREE_RATIO;
            session.credit = session.credit.saturating_add(bytes as u64);
        }
        let Standing::Unverified(memory) = &mut session.standing else {
            return;
        };
        if memory.may_examine() {
            let prefix = network(session.source.ip().to_canonical());
            let network = self.networks.get_mut(&prefix);
            let is_long = network.is_none_or(|network| !network.take_attempt(now));
            if let Some(echo) = memory.find_echo(bytes, &self.shared, is_long) {
                session.standing = Standing::Verified(Some(echo));
                return;
            }
        }
        memory.record_request(bytes, self.factor);
    }

    /// Charges a reply of the game server, and records it. An error is the reason to drop it.
    /// `since` is `now` by the limiter's clock.
    pub(crate) fn charge_reply(
        &mut self,
        slot: usize,
        reply: &[u8],
        (now, since): (Instant, Duration),
        limiter: &mut RateLimiter,
    ) -> Result<(), &'static str> {
        let reflected = self.record_windows(slot, reply);
        let Some(Some(session)) = self.sessions.get_mut(slot) else {
            return Err(RELAY_BUDGET.name);
        };
        let to = session.source.ip();
        let cost = datagram_bytes(to, reply.len()) as u64;
        if session.has_ratio() && session.credit < cost {
            return Err(RELAY_RATIO.name);
        }
        if !limiter.charge::<false>(to, 0, reply.len(), session.trust(), since) {
            return Err(RELAY_BUDGET.name);
        }
        if session.has_ratio() {
            session.credit -= cost;
        }
        if session.state != SessionState::Established {
            session.state = SessionState::Replied;
            session.active = now;
        }
        if let Standing::Unverified(memory) = &mut session.standing {
            memory.record_reply(reply, reflected);
        }
        Ok(())
    }

    /// Records the windows of a reply to an unverified source. Replies that are then dropped count
    /// too: the game server would send their constants to other sources. Returns one bit for each window
    /// that the source sent itself.
    fn record_windows(&mut self, slot: usize, reply: &[u8]) -> u128 {
        let Some(Some(session)) = self.sessions.get(slot) else {
            return 0;
        };
        let Standing::Unverified(memory) = &session.standing else {
            return 0;
        };
        let ticket = Ticket {
            slot: slot as u32,
            serial: session.serial,
        };
        let reflected = memory.reflected(reply, self.factor);
        for (at, window) in windows(start(reply)).enumerate() {
            if reflected >> at & 1 == 0
                && let Some(first) = self.shared.record(window, ticket)
            {
                self.refute(first, window);
            }
        }
        reflected
    }

    /// Ends the verification of a session, if it is by this window.
    fn refute(&mut self, ticket: Ticket, window: u32) {
        let session = self.sessions.get_mut(ticket.slot as usize);
        let Some(session) = session.and_then(Option::as_mut) else {
            return;
        };
        let is_by_it = matches!(session.standing, Standing::Verified(Some(echo)) if echo == window);
        if session.serial == ticket.serial && is_by_it {
            session.standing = Standing::Refuted;
            session.has_retried = true;
            self.retrying.push_back(ticket);
        }
    }

    /// Closes sessions that are idle or were never verified.
    pub(crate) fn expire(&mut self, now: Instant) {
        let idle = if self.is_crowded {
            CROWDED_IDLE.min(self.limits.idle)
        } else {
            self.limits.idle
        };
        self.is_crowded = false;
        for slot in 0..self.sessions.len() {
            let Some(Some(session)) = self.sessions.get(slot) else {
                continue;
            };
            let limit = match session.state {
                SessionState::Established => idle,
                SessionState::New | SessionState::Replied => {
                    UNVERIFIED_TIMEOUT.min(self.limits.idle)
                }
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

impl Network {
    /// Returns whether one more attempt at a short echo is free.
    fn take_attempt(&mut self, now: Instant) -> bool {
        let until = self.attempts_until.max(now) + ATTEMPT_INTERVAL;
        let is_free = until.saturating_duration_since(now) <= ATTEMPT_INTERVAL * ATTEMPT_BURST;
        if is_free {
            self.attempts_until = until;
        }
        is_free
    }
}

/// Returns whether a ticket's session is open, unprotected, and still belongs to the queue.
fn is_current<S>(sessions: &[Option<Session<S>>], ticket: &Ticket, has_retried: bool) -> bool {
    let session = sessions.get(ticket.slot as usize).and_then(Option::as_ref);
    session.is_some_and(|session| {
        session.serial == ticket.serial
            && !session.is_protected()
            && session.has_retried == has_retried
    })
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
    use hailer_testkit::week::WEEK;
    use proptest::prelude::*;

    /// A relay without sockets, in simulated time.
    struct Scene {
        sessions: Sessions<()>,
        limiter: RateLimiter,
        start: Instant,
        /// Bytes to each source with headers, and from it.
        flow: HashMap<SocketAddr, (u64, u64)>,
        dropped: HashMap<&'static str, u64>,
    }

    const IDLE: Duration = Duration::from_secs(60);
    const SECOND: u64 = 1_000;
    const STRETCH: u64 = 10;
    const FULL: &str = "relay full";

    fn source(number: u32) -> SocketAddr {
        // Each source is in a different network.
        ((0x0B00_0007 + number * 256).to_be_bytes(), 4_000).into()
    }

    /// Returns bytes that no other seed has.
    fn random<const N: usize>(seed: u64) -> [u8; N] {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        [(); N].map(|()| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(99);
            (state >> 56) as u8
        })
    }

    /// A challenge of the game server, for one session.
    fn challenge(seed: u64) -> Vec<u8> {
        [
            b"\xFF\xFF\xFF\xFFA",
            &random::<4>(seed)[..],
            b"\0\0\0\0\0\0",
        ]
        .concat()
    }

    fn echo(seed: u64) -> Vec<u8> {
        [b"\xFF\xFF\xFF\xFFconnect", &random::<4>(seed)[..]].concat()
    }

    impl Scene {
        fn new(capacity: usize, verification: RelayVerification) -> Self {
            let limits = RelayLimits {
                sessions: capacity,
                idle: IDLE,
                verification,
            };
            let mut scene = Self {
                sessions: Sessions::new(limits),
                limiter: RateLimiter::new(Budget::default(), 1),
                start: Instant::now(),
                flow: HashMap::new(),
                dropped: HashMap::new(),
            };
            // Two sources that were there before, so that the constants are known.
            for other in [60_000, 60_001] {
                scene.forward(source(other), b"getchallenge", 0);
                scene.reply(source(other), &challenge(other.into()), 0);
            }
            scene.expire(10 * SECOND);
            scene
        }

        /// Forwards a datagram as the relay does. Returns the session's slot and serial number.
        fn forward(&mut self, from: SocketAddr, bytes: &[u8], ms: u64) -> Option<(usize, u32)> {
            let now = self.start + Duration::from_millis(ms);
            let found = self.sessions.find(from);
            let slot = match found {
                Some(slot) => slot,
                None => {
                    let Some(has_retried) = self.sessions.make_room(from, now) else {
                        *self.dropped.entry(FULL).or_default() += 1;
                        return None;
                    };
                    let slot = self.sessions.next_slot();
                    self.sessions.insert(from, None, (), has_retried, now);
                    slot
                }
            };
            self.sessions
                .record_request(slot, bytes, found.is_none(), now);
            self.flow.entry(from).or_default().1 += bytes.len() as u64 + 28;
            self.sessions
                .get_mut(slot)
                .map(|session| (slot, session.serial))
        }

        /// Returns whether a reply of the game server is passed on.
        fn reply(&mut self, to: SocketAddr, bytes: &[u8], ms: u64) -> bool {
            let since = Duration::from_millis(ms);
            let slot = self.sessions.find(to).expect("a session");
            let now = (self.start + since, since);
            match self
                .sessions
                .charge_reply(slot, bytes, now, &mut self.limiter)
            {
                Ok(()) => {
                    self.flow.entry(to).or_default().0 += bytes.len() as u64 + 28;
                    true
                }
                Err(reason) => {
                    *self.dropped.entry(reason).or_default() += 1;
                    false
                }
            }
        }

        fn expire(&mut self, ms: u64) {
            self.sessions.expire(self.start + Duration::from_millis(ms));
        }

        fn is_verified(&mut self, source: SocketAddr) -> bool {
            let slot = self.sessions.find(source).expect("a session");
            !self.sessions.get_mut(slot).unwrap().has_ratio()
        }

        /// Joins like a client of Source. Returns whether it got the challenge and is verified.
        fn join(&mut self, player: SocketAddr, seed: u64, ms: u64) -> bool {
            let is_in = self
                .forward(player, b"\xFF\xFF\xFF\xFFgetchallenge", ms)
                .is_some()
                && self.reply(player, &challenge(seed), ms);
            is_in
                && self.forward(player, &echo(seed), ms + 20).is_some()
                && self.is_verified(player)
        }

        /// A byte of a challenge may by chance be one that others got at this place, so that the
        /// first try does not count.
        fn join_within_two_tries(&mut self, player: SocketAddr, seed: u64, ms: u64) -> bool {
            self.join(player, seed, ms) || self.join(player, seed + 500_000, ms)
        }

        fn check_bounds(&self) {
            let sessions = &self.sessions;
            let capacity = sessions.limits.sessions;
            assert!(sessions.len() <= capacity && sessions.sessions.len() <= capacity);
            assert!(sessions.networks.len() <= capacity);
            assert!(sessions.fresh.len() + sessions.retrying.len() <= 3 * capacity);
        }
    }

    /// The flood of the issue: many datagrams of one forged source, and large replies.
    #[test]
    fn a_source_that_keeps_sending_gets_three_times_its_bytes() {
        for (rate, victims) in [(800, 1), (20_000, 1), (800, 20)] {
            for has_other_bytes in [false, true] {
                let mut scene = Scene::new(1_024, RelayVerification::Echo);
                for number in 0..rate * 2 {
                    let ms = 20 * SECOND + u64::from(number) * 1_000 / u64::from(rate);
                    let victim = source(number % victims);
                    let mut bytes = [7; 20];
                    if has_other_bytes {
                        bytes = random(number.into());
                    }
                    scene.forward(victim, &bytes, ms);
                    scene.reply(victim, &[9; 1_200], ms);
                    scene.reply(victim, &challenge(number.into()), ms);
                }
                for number in 0..victims {
                    let (to, from) = scene.flow[&source(number)];
                    assert!(
                        to > 0 && to <= 3 * from,
                        "{rate} {victims}: {to} for {from}"
                    );
                    assert!(!scene.is_verified(source(number)));
                }
            }
        }
    }

    #[test]
    fn an_echo_ends_the_ratio() {
        let mut scene = Scene::new(4, RelayVerification::Echo);
        assert!(scene.join(source(1), 1, 20 * SECOND));
        let passed = (0..100).filter(|_| scene.reply(source(1), &[9; 1_200], 21 * SECOND));
        assert_eq!(passed.count(), 100);
    }

    #[test]
    fn only_the_ratio_counts_without_echoes() {
        let mut scene = Scene::new(4, RelayVerification::Ratio);
        assert!(!scene.join(source(1), 1, 20 * SECOND));
        let before = scene.flow[&source(1)];
        let mut passed = 0;
        for _ in 0..1_000 {
            scene.forward(source(1), &[5; 72], 21 * SECOND);
            passed += u64::from(scene.reply(source(1), &[9; 272], 21 * SECOND));
        }
        assert_eq!(
            passed, 1_000,
            "300 bytes for 100, beyond the budget of unverified sources"
        );
        assert!(3 * before.1 - before.0 < 3 * 128);
        assert!(!scene.reply(source(1), &[9; 272], 22 * SECOND));
        let mut scene = Scene::new(4, RelayVerification::Off);
        scene.forward(source(1), b"hello", 20 * SECOND);
        assert!((0..100).all(|_| scene.reply(source(1), &[9; 1_200], 20 * SECOND)));
    }

    #[test]
    fn headers_of_ipv6_count() {
        let mut scene = Scene::new(4, RelayVerification::Echo);
        let source: SocketAddr = "[2001:db8::7]:4000".parse().unwrap();
        scene.forward(source, &[5; 52], SECOND);
        assert!(scene.reply(source, &[9; 3 * 100 - 48], SECOND));
        assert!(!scene.reply(source, b"", SECOND));
    }

    #[test]
    fn a_constant_that_verified_the_first_source_is_found_out() {
        let mut scene = Scene::new(8, RelayVerification::Echo);
        let constant = b"a greeting that every source gets";
        let attack = |scene: &mut Scene, victim: SocketAddr| {
            scene.forward(victim, b"hello, hello", SECOND);
            scene.reply(victim, constant, SECOND);
            scene.forward(victim, b"a greeting", SECOND);
            scene.is_verified(victim)
        };
        assert!(attack(&mut scene, source(1)), "nothing to compare with");
        assert!(!attack(&mut scene, source(2)));
        assert!(
            scene.is_verified(source(1)),
            "an accident is still possible"
        );
        assert!(!attack(&mut scene, source(3)));
        assert!(!scene.is_verified(source(1)));
        assert!(!attack(&mut scene, source(1)), "for the whole session");
    }

    #[test]
    fn attempts_of_one_network_are_limited_and_a_long_echo_always_counts() {
        let mut scene = Scene::new(4_096, RelayVerification::Echo);
        let port = |port: u16| SocketAddr::from(([192, 0, 2, 7], port));
        let join =
            |scene: &mut Scene, number: u16, ms: u64| scene.join(port(number), number.into(), ms);
        let joined = (1..=200).filter(|number| join(&mut scene, *number, 20 * SECOND));
        assert_eq!(joined.count(), ATTEMPT_BURST as usize);
        assert!(join(&mut scene, 201, 20 * SECOND + 40));
        assert!(!join(&mut scene, 202, 20 * SECOND + 40));
        assert!(scene.join(source(1), 999, 20 * SECOND), "another network");
        let id: [u8; 8] = random(7_777);
        scene.forward(port(203), b"hello, hello", 20 * SECOND);
        scene.reply(port(203), &[&[1, 2, 3], &id[..]].concat(), 20 * SECOND);
        scene.forward(port(203), &id, 20 * SECOND);
        assert!(scene.is_verified(port(203)));
    }

    #[test]
    fn forged_sources_never_replace_verified_sessions() {
        let mut scene = Scene::new(8, RelayVerification::Echo);
        let players: Vec<_> = (0..4).map(source).collect();
        for (seed, player) in (0..).zip(&players) {
            assert!(scene.join(*player, seed, 20 * SECOND));
        }
        for number in 100..1_100 {
            // The players leave 4 sessions, so each forged source has one for 120 ms.
            let ms = 20 * SECOND + u64::from(number) * 30;
            let mut forward = || scene.forward(source(number), &[7; 20], ms).is_some();
            assert!(forward() || forward(), "{number}");
            // It sends again after a reply, as a player of a game without echoes does.
            scene.reply(source(number), &[9; 20], ms);
            if number % 3 == 0 {
                scene.forward(source(number), &[7; 20], ms);
            }
            if number % 10 == 0 {
                for player in &players {
                    assert!(scene.forward(*player, &[7; 20], ms).is_some());
                    assert!(scene.is_verified(*player));
                }
                scene.expire(ms);
            }
        }
        assert_eq!(scene.sessions.len(), 8);
    }

    #[test]
    fn a_source_that_tries_again_gets_a_session_in_any_flood() {
        let mut scene = Scene::new(64, RelayVerification::Echo);
        let mut forged = 10_000;
        let mut ms = 20 * SECOND;
        // 20 forged sources in each millisecond.
        let mut flood = |scene: &mut Scene, until: u64| {
            while ms < until {
                ms += 1;
                for _ in 0..20 {
                    forged += 1;
                    scene.forward(source(forged), &[7; 20], ms);
                }
            }
        };
        flood(&mut scene, 20 * SECOND + 500);
        for number in 0..40 {
            let now = 20 * SECOND + 500 + u64::from(number) * 20;
            flood(&mut scene, now);
            let player = source(number);
            let session = scene
                .forward(player, &[7; 20], now)
                .or_else(|| scene.forward(player, &[7; 20], now));
            let session = session.expect("the second try");
            flood(&mut scene, now + 10);
            assert_eq!(scene.forward(player, &[7; 20], now + 10), Some(session));
        }
        scene.check_bounds();
    }

    #[test]
    fn one_network_has_a_share_of_the_sessions() {
        let mut scene = Scene::new(2_048, RelayVerification::Echo);
        let port = |port: u16| SocketAddr::from(([192, 0, 2, 7], port));
        let mut open =
            |from: SocketAddr, ms: u64| scene.forward(from, &[7; 20], 20 * SECOND + ms).is_some();
        assert!((1..=128).all(|number| open(port(number), 0)));
        assert!(
            !open(port(200), 50),
            "the others are too young to be replaced"
        );
        assert!(open(port(200), 51), "it tried again");
        assert!(open(port(201), 150), "the others are old enough");
        assert!(open(source(1), 150), "another network has room");
        assert_eq!(scene.sessions.len(), 129);
    }

    #[test]
    fn a_full_relay_closes_established_sessions_after_10_s_of_silence() {
        let mut scene = Scene::new(2, RelayVerification::Echo);
        let at = |s: u64| (20 + s) * SECOND;
        assert!(scene.join(source(1), 1, at(0)) && scene.join(source(2), 2, at(0)));
        let first = scene.forward(source(1), b"play", at(0));
        scene.expire(at(30));
        assert_eq!(scene.sessions.len(), 2);
        assert_eq!(scene.forward(source(1), b"play", at(31)), first);
        assert_eq!(scene.forward(source(3), b"hello", at(31)), None);
        scene.expire(at(31) + 1);
        assert_eq!(scene.sessions.len(), 1);
        assert!(scene.forward(source(3), b"hello", at(31) + 2).is_some());
        assert_eq!(
            scene.forward(source(1), b"play", at(31) + 3),
            first,
            "the one in use stays"
        );
    }

    /// A stretch of 10 s of a week: players join, a verified and an unverified one play, forged sources
    /// flood.
    fn stretch(scene: &mut Scene, begin: u64, seed: u64, rate: u64) {
        let [player, honest, greedy, slow] = [1, 2, 3, 4].map(source);
        if scene.sessions.find(player).is_none() {
            assert!(
                scene.join_within_two_tries(player, seed, begin),
                "at {begin}"
            );
        }
        scene.flow.clear();
        let before = scene.dropped.clone();
        let mut sent = 0;
        let mut forged = 0;
        for ms in (0..STRETCH * SECOND).step_by(5) {
            let now = begin + ms;
            // Below the limit of verified sources: 800 kB/s.
            if ms % 10 == 0 {
                scene.forward(player, b"play", now);
                (0..8).for_each(|_| assert!(scene.reply(player, &[9; 1_000], now), "at {now}"));
            }
            // Below the ratio and the budget of unverified sources: 4 kB/s, without an echo.
            if ms % 100 == 0 {
                assert!(scene.forward(honest, &[5; 120], now).is_some());
                assert!(
                    scene.reply(honest, &[6; 400], now),
                    "at {now}: {:?}",
                    scene.dropped
                );
            }
            // Above both: 960 bytes for each 48.
            if ms * rate / SECOND > sent {
                sent = ms * rate / SECOND;
                scene.forward(greedy, &[7; 20], now);
                scene.reply(greedy, &[9; 932], now);
            }
            // Above the ratio only.
            if ms % 1_000 == 0 {
                scene.forward(slow, &[7; 172], now);
                for _ in 0..10 {
                    scene.reply(slow, &[9; 172], now);
                }
            }
            if ms % 40 == 0 {
                forged += 1;
                scene.forward(source(1_000 + forged), &random::<20>(seed + now), now);
            }
            if ms % SECOND == 0 {
                scene.expire(now);
                scene.check_bounds();
            }
        }
        let (to, from) = scene.flow[&greedy];
        assert!(to <= 3 * from + 3 * 48 * 2, "{to} for {from}");
        // Payload: the rate, at most with the burst.
        let payload = to / 960 * 932;
        let expected = (3 * from).min((8 << 10) * STRETCH * 960 / 932) * 932 / 960;
        assert!(
            payload + 932 >= expected * 99 / 100,
            "{payload} of {expected} at {begin}"
        );
        assert!(
            payload <= ((8 << 10) * (STRETCH + 4)) * 101 / 100,
            "{payload} at {begin}"
        );
        let (to, from) = scene.flow[&slow];
        assert!(
            (3 * from * 99 / 100..=3 * from).contains(&to),
            "{to} for {from}"
        );
        assert_eq!(before.get(FULL), scene.dropped.get(FULL));
        for number in 0..5 {
            let seed = seed + 1 + u64::from(number);
            let player = source(100 + number);
            let joined = scene.join_within_two_tries(player, seed, begin + STRETCH * SECOND);
            assert!(joined, "player {number} at {begin}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn keeps_its_limits_for_a_simulated_week(
            mut moments in prop::collection::vec(100..WEEK.as_secs(), 3),
            suspend in 0..WEEK.as_secs(),
            rate in 5..200_u64,
        ) {
            moments.sort_unstable();
            let mut scene = Scene::new(256, RelayVerification::Echo);
            let steady = source(50_000);
            let mut s = 20;
            let mut next = moments.into_iter().peekable();
            let mut suspend = Some(suspend);
            while s < WEEK.as_secs() {
                // A client that talks all week, 75 bytes for 25 in each minute.
                prop_assert!(scene.forward(steady, &[3; 72], s * SECOND).is_some());
                prop_assert!(scene.reply(steady, &[3; 272], s * SECOND), "at {s} s");
                scene.expire(s * SECOND);
                if next.peek().is_some_and(|moment| *moment <= s) {
                    next.next();
                    stretch(&mut scene, s * SECOND, s * 1_000, rate);
                    s += STRETCH + 1;
                }
                if suspend.is_some_and(|at| at <= s) {
                    suspend = None;
                    s += 10 * 3_600;
                }
                s += 30;
            }
            scene.check_bounds();
        }
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
