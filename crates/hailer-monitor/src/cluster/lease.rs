//! Leases of a worker, from one heartbeat to the next. Sans-IO.
//!
//! A heartbeat is one script in Redis (`scripts.rs`), which alone decides: it renews leases,
//! reports lost ones and hands out free chunks, up to the share of the worker. This module decides
//! what to do with the reply, by the clock of this node. A lease counts from *before* the request
//! was sent, so it ends here before it ends in Redis, and a worker that is cut off stops polling
//! before another begins.

use crate::sample::Millis;
use crate::server::ServerId;
use std::collections::{BTreeMap, BTreeSet};

/// Chunks of the first server numbers are small, so that the nodes of a cluster with few servers share
/// them evenly. Their numbers differ only in these low bits.
const SMALL_CHUNK_BITS: u32 = 3;
/// The first server number in a large chunk.
const FIRST_LARGE: i64 = 1_024;
const LARGE_CHUNK_BITS: u32 = 8;
/// Number of small chunks.
const SMALL_CHUNKS: i64 = FIRST_LARGE >> SMALL_CHUNK_BITS;
/// Heartbeats within one lease.
const HEARTBEATS_PER_LEASE: Millis = 3;
/// The last part of a lease, divided by this, is not used, because clocks differ in speed.
const MARGIN_DIVISOR: Millis = 10;
/// Longest wait for the last results of a chunk that is given back, in milliseconds; at most one
/// heartbeat.
const MAX_DRAIN_MS: Millis = 1_000;
/// After a longer gap, missed samples are not made up for, in milliseconds.
const MAX_CATCH_UP_MS: Millis = 120_000;

/// A chunk of server numbers that are leased together: 8 of the numbers below 1,024, 256 of the
/// others. The order of chunks is the order of their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chunk(pub i64);

impl Chunk {
    /// Returns the chunk of a server.
    pub fn of(server: ServerId) -> Self {
        Self(if server.0 < FIRST_LARGE {
            server.0 >> SMALL_CHUNK_BITS
        } else {
            SMALL_CHUNKS + ((server.0 - FIRST_LARGE) >> LARGE_CHUNK_BITS)
        })
    }

    /// Returns the first number of the chunk.
    pub fn first(self) -> ServerId {
        ServerId(if self.0 < SMALL_CHUNKS {
            self.0 << SMALL_CHUNK_BITS
        } else {
            FIRST_LARGE + ((self.0 - SMALL_CHUNKS) << LARGE_CHUNK_BITS)
        })
    }

    /// Returns the first number after the chunk.
    pub fn end(self) -> ServerId {
        Self(self.0 + 1).first()
    }
}

/// Chunks in the request of a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Chunks that this worker gives back.
    pub given: Vec<Chunk>,
    /// Chunks that this worker holds.
    pub held: Vec<Chunk>,
}

/// Result of a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatResult {
    /// Time by the clock of Redis, in Unix milliseconds.
    pub now: Millis,
    /// Number of chunks that this worker should have.
    pub share: usize,
    /// Chunks of the request whose lease this worker has lost.
    pub lost: Vec<Chunk>,
    /// Versions of the held chunks.
    pub versions: Vec<(Chunk, u64)>,
    /// Chunks that this worker has leased with this heartbeat.
    pub taken: Vec<AcquiredChunk>,
}

/// A chunk that this worker has leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcquiredChunk {
    /// Chunk of servers that is leased.
    pub chunk: Chunk,
    /// Version of its list of servers; grows with each change.
    pub version: u64,
    /// When its last owner renewed it or gave it back; `None` if it had no owner.
    pub since: Option<Millis>,
}

/// Changes that follow from a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaseChanges {
    /// Chunks to stop polling immediately.
    pub stop: Vec<Chunk>,
    /// Chunks to start no more polls in. Call [`gave`](Leases::gave) when the last results have
    /// arrived.
    pub drain: Vec<Chunk>,
    /// Chunks to read again, because their servers have changed.
    pub read: Vec<Chunk>,
    /// Chunks to read and to start polling. Samples due after this time are made up for; `None`:
    /// start with the next one.
    pub begin: Vec<(Chunk, Option<Millis>)>,
}

/// The chunks of one worker.
#[derive(Debug)]
pub struct Leases {
    /// Length of a lease, in milliseconds.
    life: Millis,
    held: BTreeMap<Chunk, HeldLease>,
    given: BTreeSet<Chunk>,
}

#[derive(Clone, Copy, Debug)]
struct HeldLease {
    version: u64,
    /// End of the lease by the clock of this node, in milliseconds.
    until: Millis,
    /// When draining started.
    draining: Option<Millis>,
}

impl Leases {
    /// Creates an empty set. `life` is the length of a lease without a heartbeat, in milliseconds.
    pub fn new(life: Millis) -> Self {
        Self {
            life,
            held: BTreeMap::new(),
            given: BTreeSet::new(),
        }
    }

    /// Returns the interval of heartbeats, in milliseconds.
    pub fn every(&self) -> Millis {
        (self.life / HEARTBEATS_PER_LEASE).max(1)
    }

    /// Returns the chunks for the next heartbeat.
    pub fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            given: self.given.iter().copied().collect(),
            held: self.held.keys().copied().collect(),
        }
    }

    /// Applies the result of a heartbeat that was sent at `asked`, by the clock of this node.
    pub fn answer(&mut self, sent_at: Millis, answer: &HeartbeatResult) -> LeaseChanges {
        let mut orders = LeaseChanges::default();
        let until = sent_at + self.life - self.life / MARGIN_DIVISOR;
        for &(chunk, version) in &answer.versions {
            let Some(held) = self.held.get_mut(&chunk) else {
                continue;
            };
            held.until = held.until.max(until);
            if version > held.version && held.draining.is_none() {
                held.version = version;
                orders.read.push(chunk);
            }
        }
        for chunk in &answer.lost {
            if self.held.remove(chunk).is_some() {
                orders.stop.push(*chunk);
            }
        }
        for &AcquiredChunk {
            chunk,
            version,
            since,
        } in &answer.taken
        {
            self.held.insert(
                chunk,
                HeldLease {
                    version,
                    until,
                    draining: None,
                },
            );
            orders.begin.push((
                chunk,
                since.filter(|since| answer.now - since < MAX_CATCH_UP_MS),
            ));
        }
        let stays = self
            .held
            .values()
            .filter(|held| held.draining.is_none())
            .count();
        let excess = stays.saturating_sub(answer.share);
        for (chunk, held) in self
            .held
            .iter_mut()
            .rev()
            .filter(|(_, held)| held.draining.is_none())
            .take(excess)
        {
            held.draining = Some(sent_at);
            orders.drain.push(*chunk);
        }
        orders
    }

    /// Returns the chunks that are being given back, and until when to wait for their last results.
    pub fn draining(&self) -> impl Iterator<Item = (Chunk, Millis)> {
        let wait = self.every().min(MAX_DRAIN_MS);
        self.held
            .iter()
            .filter_map(move |(chunk, held)| Some((*chunk, held.draining? + wait)))
    }

    /// Marks a drained chunk: it is given back with the next heartbeat.
    pub fn gave(&mut self, chunk: Chunk) {
        if self.held.remove(&chunk).is_some() {
            self.given.insert(chunk);
        }
    }

    /// Returns whether a chunk is ready to be given back.
    pub fn is_giving(&self) -> bool {
        !self.given.is_empty()
    }

    /// Removes chunks that were given back with this heartbeat. Call it before
    /// [`answer`](Self::answer).
    pub fn given(&mut self, heartbeat: &Heartbeat) {
        for chunk in &heartbeat.given {
            self.given.remove(chunk);
        }
    }

    /// Removes and returns the leases that have ended by the clock of this node, because Redis does
    /// not reply.
    pub fn expire(&mut self, now: Millis) -> Vec<Chunk> {
        let ended: Vec<Chunk> = self
            .held
            .iter()
            .filter(|(_, held)| held.until <= now)
            .map(|(chunk, _)| *chunk)
            .collect();
        for chunk in &ended {
            self.held.remove(chunk);
        }
        ended
    }

    /// Whether this worker holds a chunk at this time.
    pub fn holds(&self, chunk: Chunk, now: Millis) -> bool {
        self.held.get(&chunk).is_some_and(|held| held.until > now)
    }

    /// Returns the held chunks.
    pub fn held(&self) -> impl Iterator<Item = Chunk> {
        self.held.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn every_server_is_in_one_chunk() {
        let mut before = Chunk::of(ServerId(0));
        for number in 0..20_000 {
            let chunk = Chunk::of(ServerId(number));
            assert!(chunk.first().0 <= number && number < chunk.end().0);
            assert!(chunk == before || chunk.0 == before.0 + 1, "{number}");
            before = chunk;
        }
        assert_eq!(Chunk::of(ServerId(60)).0, 7, "eight chunks of 60 servers");
        let length = |chunk: Chunk| chunk.end().0 - chunk.first().0;
        assert_eq!((length(Chunk(127)), length(Chunk(128))), (8, 256));
    }

    const LIFE: Millis = 15_000;
    const CHUNKS: i64 = 37;

    /// A model of the script in `scripts.rs`.
    #[derive(Default)]
    struct Redis {
        leases: BTreeMap<Chunk, Millis>,
        owners: BTreeMap<Chunk, usize>,
        workers: BTreeMap<usize, Millis>,
    }

    impl Redis {
        fn heartbeat(&mut self, now: Millis, me: usize, heartbeat: &Heartbeat) -> HeartbeatResult {
            self.workers.insert(me, now + LIFE);
            self.workers.retain(|_, until| *until > now);
            for chunk in &heartbeat.given {
                if self.owners.get(chunk) == Some(&me) {
                    self.owners.remove(chunk);
                    self.leases.insert(*chunk, now);
                }
            }
            let mut answer = HeartbeatResult {
                now,
                ..HeartbeatResult::default()
            };
            for &chunk in &heartbeat.held {
                if self.owners.get(&chunk).is_none_or(|owner| *owner == me) {
                    self.owners.insert(chunk, me);
                    self.leases.insert(chunk, now + LIFE);
                    answer.versions.push((chunk, 1));
                } else {
                    answer.lost.push(chunk);
                }
            }
            let all = self.leases.len();
            let alive = self.workers.len();
            let rank = self.workers.range(..me).count();
            answer.share = all / alive + usize::from(rank < all % alive);
            let want = answer.share.saturating_sub(answer.versions.len());
            let mut free: Vec<(Millis, Chunk)> = self
                .leases
                .iter()
                .map(|(chunk, until)| (*until, *chunk))
                .collect();
            free.retain(|(until, _)| *until <= now);
            free.sort_unstable();
            for (until, chunk) in free.into_iter().take(want) {
                let owner = self.owners.insert(chunk, me);
                self.leases.insert(chunk, now + LIFE);
                let since = (until > 0).then(|| if owner.is_some() { until - LIFE } else { until });
                answer.taken.push(AcquiredChunk {
                    chunk,
                    version: 1,
                    since,
                });
            }
            answer
        }
    }

    struct Worker {
        leases: Leases,
        next: Millis,
        is_cut_off: bool,
        /// A reply on its way: when it arrives, and when the heartbeat was sent.
        coming: Option<(Millis, Millis, Heartbeat, HeartbeatResult)>,
    }

    impl Worker {
        fn new(now: Millis) -> Self {
            Self {
                leases: Leases::new(LIFE),
                next: now,
                is_cut_off: false,
                coming: None,
            }
        }

        /// Chunks that this worker polls.
        fn asks(&self, now: Millis) -> Vec<Chunk> {
            let asks = |chunk: &Chunk| {
                self.leases.holds(*chunk, now) && self.leases.held[chunk].draining.is_none()
            };
            self.leases.held().filter(asks).collect()
        }
    }

    /// Runs all workers for some time, in steps of 100 ms. Each reply takes `delay`.
    fn go(
        redis: &mut Redis,
        workers: &mut BTreeMap<usize, Worker>,
        now: &mut Millis,
        time: Millis,
        delay: Millis,
    ) {
        let end = *now + time;
        while *now < end {
            *now += 100;
            for (id, worker) in workers.iter_mut() {
                worker.leases.expire(*now);
                if worker.coming.as_ref().is_some_and(|(at, ..)| at <= now) {
                    let (_, sent_at, heartbeat, answer) = worker.coming.take().unwrap();
                    worker.leases.given(&heartbeat);
                    worker.leases.answer(sent_at, &answer);
                }
                let drained: Vec<Chunk> = worker
                    .leases
                    .draining()
                    .filter(|(_, end)| end <= now)
                    .map(|(chunk, _)| chunk)
                    .collect();
                drained
                    .into_iter()
                    .for_each(|chunk| worker.leases.gave(chunk));
                if worker.coming.is_none() && (worker.next <= *now || worker.leases.is_giving()) {
                    worker.next = *now + worker.leases.every();
                    if !worker.is_cut_off {
                        let heartbeat = worker.leases.heartbeat();
                        let answer = redis.heartbeat(*now, *id, &heartbeat);
                        worker.coming = Some((*now + delay, *now, heartbeat, answer));
                    }
                }
            }
            let mut sent_at: Vec<Chunk> = workers
                .values()
                .flat_map(|worker| worker.asks(*now))
                .collect();
            let all = sent_at.len();
            sent_at.sort_unstable();
            sent_at.dedup();
            assert_eq!(sent_at.len(), all, "a chunk is asked by two at {now}");
        }
    }

    fn shares(workers: &BTreeMap<usize, Worker>, now: Millis) -> Vec<usize> {
        let mut shares: Vec<usize> = workers
            .values()
            .filter(|worker| !worker.is_cut_off)
            .map(|worker| worker.asks(now).len())
            .collect();
        shares.sort_unstable();
        shares
    }

    fn cluster(count: usize) -> (Redis, BTreeMap<usize, Worker>, Millis) {
        let mut redis = Redis::default();
        redis
            .leases
            .extend((0..CHUNKS).map(|chunk| (Chunk(chunk), 0)));
        let mut workers = BTreeMap::new();
        let mut now = 1_000_000;
        for id in 0..count {
            workers.insert(id, Worker::new(now + id as Millis * 700));
        }
        go(&mut redis, &mut workers, &mut now, 3 * LIFE, 200);
        (redis, workers, now)
    }

    #[test]
    fn a_new_worker_has_its_share_within_two_beats() {
        let (mut redis, mut workers, mut now) = cluster(2);
        assert_eq!(shares(&workers, now), [18, 19]);
        workers.insert(2, Worker::new(now));
        go(
            &mut redis,
            &mut workers,
            &mut now,
            2 * LIFE / HEARTBEATS_PER_LEASE + MAX_DRAIN_MS + 500,
            200,
        );
        assert_eq!(shares(&workers, now), [12, 12, 13]);
    }

    #[test]
    fn a_dead_workers_chunks_are_taken_after_its_lease() {
        let (mut redis, mut workers, mut now) = cluster(3);
        workers.remove(&1);
        go(
            &mut redis,
            &mut workers,
            &mut now,
            LIFE + 2 * LIFE / HEARTBEATS_PER_LEASE,
            200,
        );
        assert_eq!(shares(&workers, now), [18, 19]);
    }

    #[test]
    fn a_worker_that_is_cut_off_stops_polling_and_returns() {
        let (mut redis, mut workers, mut now) = cluster(3);
        workers.get_mut(&1).unwrap().is_cut_off = true;
        go(&mut redis, &mut workers, &mut now, LIFE, 200);
        assert_eq!(workers[&1].asks(now), [], "before another worker begins");
        go(&mut redis, &mut workers, &mut now, LIFE, 200);
        assert_eq!(shares(&workers, now), [18, 19]);
        workers.get_mut(&1).unwrap().is_cut_off = false;
        go(&mut redis, &mut workers, &mut now, LIFE, 200);
        assert_eq!(shares(&workers, now), [12, 12, 13]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        /// Two workers never poll the same chunk. In a quiet cluster, each chunk has one worker.
        #[test]
        fn each_chunk_has_one_worker(
            steps in prop::collection::vec((0_u8..5, 0_usize..6, 100_i64..20_000, 0_i64..3_000), 1..30),
        ) {
            let (mut redis, mut workers, mut now) = cluster(2);
            for (what, who, time, delay) in steps {
                match what {
                    0 => {
                        workers.entry(who).or_insert_with(|| Worker::new(now));
                    }
                    1 if workers.len() > 1 => drop(workers.remove(&who)),
                    2 => workers.values_mut().for_each(|worker| worker.is_cut_off = !worker.is_cut_off),
                    3 => workers.get_mut(&who).into_iter().for_each(|worker| worker.is_cut_off = !worker.is_cut_off),
                    _ => {}
                }
                go(&mut redis, &mut workers, &mut now, time, delay / 100 * 100);
            }
            workers.values_mut().for_each(|worker| worker.is_cut_off = false);
            go(&mut redis, &mut workers, &mut now, 4 * LIFE, 100);
            let shares = shares(&workers, now);
            prop_assert_eq!(shares.iter().sum::<usize>(), CHUNKS as usize);
            prop_assert!(shares.last().unwrap() - shares[0] <= 1, "{:?}", shares);
        }
    }
}
