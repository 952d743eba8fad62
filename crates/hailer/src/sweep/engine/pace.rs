//! Rate limits of a sweep: averages over all servers and for each network, as a function of time.
//!
//! A burst is at most 64 datagrams or 10 ms of the rate, and 8 datagrams to one network. Networks
//! share 65,536 buckets by hash: a collision makes a network too slow, never too fast.

use crate::sweep::RateLimits;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// IPv4 and UDP headers, in bytes. They count against the limit in bits.
const IPV4_HEADERS: usize = 28;
const IPV6_HEADERS: usize = 48;
/// Largest burst, in datagrams. Datagrams are sent in batches anyway, and queues in the network
/// have room for as many.
const BURST: f64 = 64.0;
/// Largest burst in seconds of the rate, for high rates: covers moments in which this process did
/// not run.
const BURST_SECONDS: f64 = 0.01;
/// Number of buckets for networks. Networks that share one are queried more slowly, never faster.
const PLACES: usize = 1 << 16;
/// Largest burst to one network, in datagrams.
const PREFIX_BURST: u64 = 8;

/// Both rate limits. Clones share them, so that the threads of a sweep together keep them.
#[derive(Clone, Debug)]
pub(crate) struct SharedLimits {
    throttle: Arc<Mutex<Throttle>>,
    prefixes: Arc<Mutex<PrefixLimiter>>,
    /// Whether there is a limit for all servers together. Without one, nothing is locked.
    has_rate: bool,
    has_prefix_rate: bool,
}

impl SharedLimits {
    /// Creates full limits. The seed is that of [`PrefixLimiter::new`].
    pub(crate) fn new(limits: &RateLimits, seed: u64) -> Self {
        Self {
            throttle: Arc::new(Mutex::new(Throttle::new(limits))),
            prefixes: Arc::new(Mutex::new(PrefixLimiter::new(limits.per_network, seed))),
            has_rate: limits.rate.is_finite() || limits.bandwidth.is_finite(),
            has_prefix_rate: limits.per_network.is_finite(),
        }
    }

    /// See [`Throttle::is_ready`].
    pub(crate) fn is_ready(&self, now: Duration) -> bool {
        !self.has_rate || lock(&self.throttle).is_ready(now)
    }

    /// See [`Throttle::spend`].
    pub(crate) fn spend(&self, to: IpAddr, length: usize) {
        if self.has_rate {
            lock(&self.throttle).spend(to, length);
        }
    }

    /// See [`Throttle::ready_in`].
    pub(crate) fn ready_in(&self, now: Duration) -> Duration {
        if self.has_rate {
            lock(&self.throttle).ready_in(now)
        } else {
            Duration::ZERO
        }
    }

    /// See [`PrefixLimiter::book`].
    pub(crate) fn book(&self, to: IpAddr, now: Duration) -> Duration {
        if self.has_prefix_rate {
            lock(&self.prefixes).book(to, now)
        } else {
            now
        }
    }

    /// See [`PrefixLimiter::turn`].
    pub(crate) fn turn(&self, to: IpAddr, now: Duration) -> Option<Duration> {
        if self.has_prefix_rate {
            lock(&self.prefixes).turn(to, now)
        } else {
            None
        }
    }

    /// See [`PrefixLimiter::owe`].
    pub(crate) fn owe(&self, to: IpAddr, now: Duration) {
        if self.has_prefix_rate {
            lock(&self.prefixes).owe(to, now);
        }
    }
}

/// Locks a limit. A thread that panics leaves it usable.
fn lock<T>(limit: &Mutex<T>) -> MutexGuard<'_, T> {
    limit.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Rate limit over all servers. First datagrams wait until it [is ready](Throttle::is_ready). All
/// others are sent immediately and charged afterwards, because a server waits for them.
#[derive(Debug)]
pub struct Throttle {
    packets: PrefixBucket,
    bits: PrefixBucket,
}

impl Throttle {
    /// Creates a throttle with full buckets.
    pub fn new(pace: &RateLimits) -> Self {
        let rate = pace.rate;
        let burst = (rate * BURST_SECONDS).max(BURST.min(rate)).max(1.0);
        let mut packets = PrefixBucket::new(rate, burst);
        // With room for a single datagram, a probe that starts late would lose the refill since
        // then.
        packets.burst = burst.max(2.0);
        let bits = pace.bandwidth;
        let bits_burst = (bits * BURST_SECONDS).max(BURST * 8.0 * 64.0);
        Self {
            packets,
            bits: PrefixBucket::new(bits, bits_burst),
        }
    }

    /// Returns whether a probe may start.
    pub fn is_ready(&mut self, now: Duration) -> bool {
        self.packets.refill(now) >= 1.0 && self.bits.refill(now) > 0.0
    }

    /// Charges a datagram with `length` bytes of payload.
    pub fn spend(&mut self, to: IpAddr, length: usize) {
        let headers = if to.is_ipv4() {
            IPV4_HEADERS
        } else {
            IPV6_HEADERS
        };
        self.packets.balance -= 1.0;
        self.bits.balance -= ((headers + length) * 8) as f64;
    }

    /// Returns the time until it is ready if nothing is sent before.
    pub fn ready_in(&mut self, now: Duration) -> Duration {
        let packets = (1.0 - self.packets.refill(now)) / self.packets.rate;
        let bits = (1.0 - self.bits.refill(now)) / self.bits.rate;
        Duration::try_from_secs_f64(packets.max(bits).max(0.0)).unwrap_or(Duration::MAX)
    }
}

/// A token bucket that may be overdrawn.
#[derive(Debug)]
struct PrefixBucket {
    rate: f64,
    burst: f64,
    balance: f64,
    at: Duration,
}

impl PrefixBucket {
    fn new(rate: f64, burst: f64) -> Self {
        Self {
            rate,
            burst,
            balance: burst,
            at: Duration::ZERO,
        }
    }

    fn refill(&mut self, now: Duration) -> f64 {
        if self.rate.is_infinite() {
            self.balance = f64::MAX;
        } else if now > self.at {
            self.balance =
                (self.balance + (now - self.at).as_secs_f64() * self.rate).min(self.burst);
            self.at = now;
        }
        self.balance
    }
}

/// Rate limit for each network. First datagrams are booked ahead. Other datagrams to a busy network
/// are sent immediately and counted as extra; the next booked probe takes the place of one and books
/// again. Time without bookings pays for extra datagrams too.
#[derive(Debug)]
pub struct PrefixLimiter {
    /// Time when each bucket is free of bookings, in nanoseconds.
    busy_until: Box<[u64]>,
    extra: Box<[u16]>,
    /// Time for each datagram, in nanoseconds. Zero: no limit.
    each: u64,
    seed: u64,
}

impl PrefixLimiter {
    /// Creates a limiter without bookings. The seed prevents others from choosing which networks
    /// share a bucket.
    pub fn new(per_network: f64, seed: u64) -> Self {
        // Rates below one datagram in 11 days count as that rate.
        let each = (1e9 / per_network.max(1e-6)).ceil() as u64;
        let places = if each > 0 { PLACES } else { 0 };
        Self {
            busy_until: vec![0; places].into(),
            extra: vec![0; places].into(),
            each,
            seed,
        }
    }

    /// Books one datagram to the network of an address. Returns the earliest time to send it,
    /// not before `now`.
    pub fn book(&mut self, to: IpAddr, now: Duration) -> Duration {
        if self.each == 0 {
            return now;
        }
        self.book_place(place(to, self.seed), now)
    }

    fn book_place(&mut self, place: usize, now: Duration) -> Duration {
        let nanos = nanos(now);
        let busy_until = &mut self.busy_until[place];
        if let Some(idle) = nanos.checked_sub(*busy_until) {
            let paid = u16::try_from(idle / self.each).unwrap_or(u16::MAX);
            self.extra[place] = self.extra[place].saturating_sub(paid);
            *busy_until = nanos;
        }
        *busy_until = busy_until.saturating_add(self.each);
        Duration::from_nanos(busy_until.saturating_sub(self.burst()).max(nanos))
    }

    /// Returns the time that a burst takes up, in nanoseconds.
    fn burst(&self) -> u64 {
        self.each.saturating_mul(PREFIX_BURST)
    }

    /// Called when a booked time has come. If an extra datagram was sent to the network, this
    /// booking counts for it: books again and returns the next booked time.
    pub fn turn(&mut self, to: IpAddr, now: Duration) -> Option<Duration> {
        if self.each == 0 {
            return None;
        }
        let place = place(to, self.seed);
        let extra = self.extra[place].checked_sub(1)?;
        self.extra[place] = extra;
        Some(self.book_place(place, now))
    }

    /// Records that a datagram was sent without a booking.
    pub fn owe(&mut self, to: IpAddr, now: Duration) {
        if self.each == 0 {
            return;
        }
        let place = place(to, self.seed);
        if self.busy_until[place] > nanos(now).saturating_add(self.burst()) {
            self.extra[place] = self.extra[place].saturating_add(1);
        } else {
            self.book_place(place, now);
        }
    }
}

/// Returns a time in nanoseconds, which is enough for 584 years.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the bucket of the network of an address: IPv4 /24, IPv6 /48.
fn place(ip: IpAddr, seed: u64) -> usize {
    let prefix = match ip {
        IpAddr::V4(ip) => u64::from(ip.to_bits() >> 8),
        IpAddr::V6(ip) => (ip.to_bits() >> 80) as u64 | 1 << 63,
    };
    hailer_proto::Cookie(seed).derive(prefix) as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_testkit::week::{WEEK, assert_limit, stretches};
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    fn ip(bits: u32) -> IpAddr {
        IpAddr::V4(bits.into())
    }

    proptest! {
        /// At any time, no more was sent than the rate and one burst allow, apart from datagrams
        /// that cannot wait.
        #[test]
        fn never_faster_than_set(rate in prop_oneof![0.1..2.0f64, 1.0..200_000.0f64], checks in proptest::collection::vec((0u64..5_000, 0usize..200, 0usize..9), 1..200)) {
            let mut throttle = Throttle::new(&RateLimits { rate, ..RateLimits::default() });
            let mut now = Duration::ZERO;
            let mut paced = 0.0;
            let mut unpaced = 0.0;
            for (micros, wanted, replies) in checks {
                now += Duration::from_micros(micros);
                for _ in 0..replies {
                    throttle.spend(ip(1), 10);
                    unpaced += 1.0;
                }
                for _ in 0..wanted {
                    if !throttle.is_ready(now) {
                        break;
                    }
                    throttle.spend(ip(1), 10);
                    paced += 1.0;
                }
                let burst = (rate * BURST_SECONDS).max(BURST.min(rate)).max(1.0);
                prop_assert!(paced == 0.0 || paced <= rate * now.as_secs_f64() + burst + 1e-6);
                let allowed = rate * now.as_secs_f64() + burst + unpaced;
                prop_assert!(paced + unpaced <= allowed + 1e-6);
            }
        }

        /// Datagrams to one network are spaced apart in any order of bookings.
        #[test]
        fn a_network_is_spared(per_network in 0.5..1_000.0f64, books in proptest::collection::vec((0u64..100_000, 0u32..256), 1..300)) {
            let mut prefixes = PrefixLimiter::new(per_network, 1);
            let mut now = Duration::ZERO;
            let mut times: Vec<f64> = Vec::new();
            for (micros, host) in books {
                now += Duration::from_micros(micros);
                let at = prefixes.book(ip(0x7F01_0200 + host), now);
                prop_assert!(at >= now);
                times.push(at.as_secs_f64());
            }
            for (i, first) in times.iter().enumerate() {
                for (j, last) in times.iter().enumerate().skip(i) {
                    let count = (j - i + 1) as f64;
                    prop_assert!(count <= (last - first) * per_network + PREFIX_BURST as f64 + 1.0 + 1e-3 * count);
                }
            }
        }
    }

    /// Sends first datagrams at a steady rate through a week. Returns for each stretch how many
    /// were wanted and how many were sent, and its length.
    fn week(limits: &RateLimits, length: usize, interval: Duration) -> Vec<(u32, u32, Duration)> {
        let mut throttle = Throttle::new(limits);
        let stretch = |times: Vec<Duration>| {
            let mut sent = 0;
            for &now in &times {
                if throttle.is_ready(now) {
                    throttle.spend(ip(1), length);
                    sent += 1;
                }
            }
            (times.len() as u32, sent, interval * times.len() as u32)
        };
        stretches(interval, 10_000)
            .into_iter()
            .map(stretch)
            .collect()
    }

    /// Limits in datagrams or bits per second, the length of a datagram, and the resulting limit in
    /// datagrams per second.
    fn any_limits() -> impl Strategy<Value = (RateLimits, usize, f64)> {
        let rate = (-10.0..20.0f64).prop_map(|power| 2f64.powf(power));
        (rate, 20usize..1_000, any::<bool>()).prop_map(|(rate, length, is_in_bits)| {
            let bits = ((IPV4_HEADERS + length) * 8) as f64;
            let mut limits = RateLimits {
                rate: f64::INFINITY,
                bandwidth: f64::INFINITY,
                ..RateLimits::default()
            };
            if is_in_bits {
                limits.bandwidth = rate * bits;
            } else {
                limits.rate = rate;
            }
            (limits, length, rate)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48,
            rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_sweep_below_the_rate_never_waits_in_a_week((limits, length, rate) in any_limits(), share in 0.01..0.99f64) {
            let interval = Duration::from_secs_f64(1.0 / rate / share);
            for (wanted, sent, _) in week(&limits, length, interval) {
                prop_assert_eq!(wanted, sent);
            }
        }

        #[test]
        fn a_sweep_above_the_rate_gets_the_rate_for_a_week((limits, length, rate) in any_limits(), share in 1.05..20.0f64) {
            let interval = Duration::from_secs_f64(1.0 / rate / share);
            let throttle = Throttle::new(&limits);
            // The bits may be overdrawn by one datagram.
            let bits = ((IPV4_HEADERS + length) * 8) as f64;
            let burst = throttle.packets.burst.min(throttle.bits.burst / bits + 1.0);
            for (_, sent, time) in week(&limits, length, interval) {
                assert_limit(sent.into(), rate, burst, time);
            }
        }

        #[test]
        fn probes_of_a_network_below_its_rate_never_wait_in_a_week(
            per_network in (-6.0..20.0f64).prop_map(|power| 2f64.powf(power)),
            share in 0.01..0.99f64,
            owed in 0u32..4,
        ) {
            // A probe takes one booked datagram, and some that cannot wait.
            let interval = Duration::from_secs_f64(f64::from(owed + 1) / per_network / share);
            let mut prefixes = PrefixLimiter::new(per_network, 1);
            for now in stretches(interval, 10_000).into_iter().flatten() {
                let at = prefixes.book(ip(1), now);
                prop_assert_eq!((at, prefixes.turn(ip(1), at)), (now, None), "every {:?}", interval);
                (0..owed).for_each(|_| prefixes.owe(ip(1), now));
            }
        }

        #[test]
        fn probes_of_a_network_above_its_rate_get_the_rate_for_a_week(
            per_network in (-6.0..20.0f64).prop_map(|power| 2f64.powf(power)),
            waiting in 1usize..40,
            owed in 0u32..4,
            starts in proptest::collection::vec(0..WEEK.as_secs(), 1..4),
        ) {
            let mut prefixes = PrefixLimiter::new(per_network, 1);
            let mut now = Duration::ZERO;
            let mut starts: Vec<_> = starts.into_iter().map(Duration::from_secs).collect();
            starts.sort();
            for start in starts {
                now = now.max(start);
                let began = now;
                let mut sent = 0;
                let mut booked: Vec<Duration> = (0..waiting).map(|_| prefixes.book(ip(1), now)).collect();
                while sent < 4_000 {
                    let (first, at) = booked.iter().copied().enumerate().min_by_key(|(_, at)| *at).unwrap();
                    now = now.max(at);
                    booked[first] = match prefixes.turn(ip(1), now) {
                        Some(later) => later,
                        None => {
                            sent += 1 + owed;
                            (0..owed).for_each(|_| prefixes.owe(ip(1), now));
                            prefixes.book(ip(1), now)
                        }
                    };
                }
                // Datagrams that cannot wait are paid for by the bookings that follow them.
                let burst = f64::from(owed) * waiting as f64 + PREFIX_BURST as f64 + 1.0;
                assert_limit(sent.into(), per_network, burst, now - began);
                // Time without bookings pays for the rest.
                now += Duration::from_secs_f64((burst + f64::from(owed) * 4.0 + waiting as f64) / per_network);
                prop_assert_eq!(prefixes.book(ip(1), now), now);
                prop_assert_eq!(prefixes.turn(ip(1), now), None);
                now += Duration::from_secs_f64((PREFIX_BURST + 1) as f64 / per_network);
            }
        }
    }

    #[test]
    fn the_rate_is_reached_and_bits_count_too() {
        let sent = |pace: RateLimits| {
            let mut throttle = Throttle::new(&pace);
            let mut sent = 0u32;
            for millis in 0..2_000 {
                while throttle.is_ready(Duration::from_millis(millis)) {
                    throttle.spend(ip(1), 22);
                    sent += 1;
                }
            }
            f64::from(sent) / 2.0
        };
        for rate in [0.7, 3.0, 100.0, 7_777.0, 150_000.0] {
            let reached = sent(RateLimits {
                rate,
                ..RateLimits::default()
            });
            assert!(
                (0.99..1.6).contains(&(reached / rate)),
                "{reached} for {rate}"
            );
        }
        let reached = sent(RateLimits {
            rate: f64::INFINITY,
            bandwidth: 400_000.0,
            ..RateLimits::default()
        });
        assert!(
            (0.95..1.1).contains(&(reached / 1_000.0)),
            "50 bytes each: {reached}"
        );
    }

    #[test]
    fn when_it_will_be_ready_it_is() {
        for rate in [0.3, 10.0] {
            ready(rate);
        }
    }

    fn ready(rate: f64) {
        let mut throttle = Throttle::new(&RateLimits {
            rate,
            ..RateLimits::default()
        });
        let mut now = Duration::ZERO;
        for _ in 0..100 {
            while throttle.is_ready(now) {
                throttle.spend(ip(1), 1);
            }
            let wait = throttle.ready_in(now);
            assert!(wait > Duration::ZERO && wait.as_secs_f64() <= 1.01 / rate);
            now += wait + Duration::from_nanos(10);
            assert!(throttle.is_ready(now));
        }
    }

    #[test]
    fn does_not_wait_without_a_limit() {
        let mut prefixes = PrefixLimiter::new(f64::INFINITY, 1);
        assert!((0..10_000).all(|_| prefixes.book(ip(1), Duration::ZERO) == Duration::ZERO));
    }
}
