//! Reply limits and challenge tokens through a simulated week.

use super::engine::budget::Budget;
use super::io::service::EpochClock;
use super::{RateLimiter, is_free};
use hailer_proto::protocol::Direction;
use hailer_proto::testing::memory;
use hailer_proto::{Ask, Cookie, Keys, Options, Transport, Verdict, registry};
use hailer_testkit::week::{WEEK, assert_limit, stretches};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

fn config() -> Config {
    Config {
        cases: 48,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..Config::default()
    }
}

/// Clients of one network that send the same request at the same steady rate.
#[derive(Clone, Copy, Debug)]
struct Clients {
    count: u8,
    request_bytes: usize,
    reply_bytes: usize,
    is_verified: bool,
    is_ipv6: bool,
}

/// A documented limit: replies per second to all clients together, and the burst.
#[derive(Clone, Copy, Debug)]
struct Limit {
    rate: f64,
    burst: f64,
}

impl Clients {
    fn any() -> impl Strategy<Value = Self> {
        let bytes = (7usize..300, 16usize..1_400);
        (1u8..60, bytes, any::<bool>(), any::<bool>()).prop_map(
            |(count, (request_bytes, reply_bytes), is_verified, is_ipv6)| Self {
                count,
                request_bytes,
                reply_bytes,
                is_verified,
                is_ipv6,
            },
        )
    }

    fn addresses(self) -> impl Iterator<Item = IpAddr> + Clone {
        (0..self.count).map(move |nth| {
            if self.is_ipv6 {
                // A /56 has 256 sources, each a /64.
                IpAddr::from([0x2001, 0xDB8, 0, u16::from(nth), 0, 0, 0, 7])
            } else {
                IpAddr::from([192, 0, 2, nth])
            }
        })
    }

    /// Returns the strictest limit of the table in [`Budget`].
    fn limit(self) -> Limit {
        let budget = Budget::default();
        let bytes = |rate: u32| f64::from(rate) / self.reply_bytes as f64;
        let count = f64::from(self.count);
        let mut limits = Vec::new();
        let mut add = |rate: f64, burst_seconds: f64| {
            limits.push(Limit {
                rate,
                burst: rate * burst_seconds,
            });
        };
        if self.is_verified {
            add(count * bytes(budget.verified_per_source), 4.0);
            add(count * f64::from(budget.verified_packets), 4.0);
        } else {
            add(count * bytes(budget.unverified_per_source), 4.0);
            add(count * f64::from(budget.unverified_packets), 4.0);
            add(bytes(budget.unverified_per_network), 4.0);
            add(budget.unverified_network_packets.into(), 4.0);
            if !is_free(self.request_bytes, self.reply_bytes) {
                add(bytes(budget.unverified_total), 1.0);
                add(budget.unverified_total_packets.into(), 1.0);
            }
        }
        let strictest = limits.into_iter().min_by(|a, b| a.rate.total_cmp(&b.rate));
        strictest.unwrap()
    }

    /// Returns the time between two requests of one client, if all clients together send `share`
    /// of the limit.
    fn interval(self, share: f64) -> Duration {
        Duration::from_secs_f64(f64::from(self.count) / self.limit().rate / share)
    }

    fn is_answered(self, limiter: &mut RateLimiter, client: IpAddr, since: Duration) -> bool {
        let Self {
            request_bytes,
            reply_bytes,
            is_verified,
            ..
        } = self;
        limiter.try_spend(client, request_bytes, reply_bytes, is_verified, since)
    }

    /// Asserts that every request of the week is answered.
    fn assert_always_answered(self, interval: Duration, events: u32) {
        let mut limiter = RateLimiter::new(Budget::default(), 1);
        let rounds = events / u32::from(self.count);
        for since in stretches(interval, rounds).into_iter().flatten() {
            for client in self.addresses() {
                // Others of the network send datagrams that no protocol claims.
                limiter.record_unanswered(client, 10, since);
                assert!(
                    self.is_answered(&mut limiter, client, since),
                    "{client} got no reply after {since:?}, one request every {interval:?}"
                );
            }
        }
    }
}

/// Such clients used up the budget of their network for good.
#[test]
fn steady_clients_of_quake_3_and_of_a_status_site_are_always_answered() {
    let client = Clients {
        count: 1,
        request_bytes: 14,
        reply_bytes: 400,
        is_verified: false,
        is_ipv6: false,
    };
    client.assert_always_answered(Duration::from_secs(10), u32::MAX);
    client.assert_always_answered(Duration::from_secs(1) / 18, 90_000);
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn clients_below_the_limits_are_always_answered(
        clients in Clients::any(),
        share in prop_oneof![0.9..0.99, (-14.0..0f64).prop_map(|power| 2f64.powf(power) * 0.99)],
    ) {
        clients.assert_always_answered(clients.interval(share), 20_000);
    }

    #[test]
    fn clients_above_a_limit_get_the_limit(clients in Clients::any(), share in 1.05..20.0f64) {
        let interval = clients.interval(share);
        let mut limiter = RateLimiter::new(Budget::default(), 1);
        let rounds = 30_000 / u32::from(clients.count);
        for stretch in stretches(interval, rounds) {
            let mut sent = 0;
            for &since in &stretch {
                sent += clients
                    .addresses()
                    .filter(|&client| clients.is_answered(&mut limiter, client, since))
                    .count();
            }
            let Limit { rate, burst } = clients.limit();
            assert_limit(sent as f64, rate, burst, interval * stretch.len() as u32);
        }
    }

    #[test]
    fn a_network_is_answered_again_after_each_flood(
        clients in Clients::any(),
        starts in proptest::collection::vec(0..WEEK.as_millis() as u64, 1..20),
    ) {
        let mut starts: Vec<_> = starts.into_iter().map(Duration::from_millis).collect();
        starts.sort();
        let mut limiter = RateLimiter::new(Budget::default(), 1);
        let mut now = Duration::ZERO;
        for start in starts {
            now = now.max(start);
            for nth in 0..2_000 {
                let forged = clients.addresses().nth(nth % usize::from(clients.count)).unwrap();
                clients.is_answered(&mut limiter, forged, now);
                limiter.record_unanswered(forged, 60, now);
                now += Duration::from_millis(1);
            }
            // The burst of four seconds.
            now += Duration::from_secs(4);
            for client in clients.addresses() {
                prop_assert!(clients.is_answered(&mut limiter, client, now), "{client} at {now:?}");
            }
        }
    }

    /// The tables have a fixed size, and an evicted client is answered.
    #[test]
    fn a_week_of_new_networks_takes_no_more_memory(seed in any::<u64>(), interval_ms in 1u64..60_000) {
        let mut limiter = RateLimiter::new(Budget::default(), seed);
        let client = IpAddr::from([192, 0, 2, 7]);
        let mut last = Duration::MAX;
        for (nth, since) in stretches(Duration::from_millis(interval_ms), 30_000)
            .into_iter()
            .flatten()
            .enumerate()
        {
            let other = (nth as u32).wrapping_mul(0x9E37_79B1).wrapping_add(seed as u32);
            let other = IpAddr::V4(Ipv4Addr::from_bits(other));
            match nth % 3 {
                0 => limiter.record_unanswered(other, 60, since),
                _ => drop(limiter.try_spend(other, 40, 60, false, since)),
            }
            if last == Duration::MAX || since.saturating_sub(last) >= Duration::from_secs(1) {
                last = since;
                prop_assert!(limiter.try_spend(client, 40, 60, false, since));
            }
        }
        let remaining = limiter.remaining(WEEK);
        prop_assert!(remaining.tracked_networks <= remaining.max_networks);
        prop_assert!(limiter.entries() == 2 * remaining.max_networks as usize);
    }

    /// Each protocol accepts its tokens for its documented time, whenever they were sent, and not
    /// after it. The clock of the system is read once, so it may be set back.
    #[test]
    fn tokens_are_valid_for_their_time(
        start in 0..WEEK.as_millis() as u64,
        age_ms in 0u64..200_000,
        suspend_s in prop_oneof![Just(0), 0u64..90_000],
    ) {
        let clock = EpochClock::start();
        let start = Duration::from_millis(start);
        let age = Duration::from_millis(age_ms) + Duration::from_secs(suspend_s);
        let from: SocketAddr = "192.0.2.7:50000".parse().unwrap();
        let mut with_tokens = Vec::new();
        for protocol in registry::responders() {
            let info = protocol.info();
            if info.transport != Transport::Datagram {
                continue;
            }
            let keys = Keys::new([7; 16]);
            // Without the versions that have no tokens.
            let options = match info.id {
                "teeworlds" => Options::default().with("versions", "0.7"),
                _ => Options::default(),
            };
            let responder = protocol.responder(&protocol.sample(1), &keys, &options).unwrap();
            let is_verified = |request: &[u8], since: Duration| {
                let verdict = responder.answer(from, clock.moment(since).epoch, request, &mut Vec::new());
                verdict == Verdict::Reply { is_verified: true }
            };
            let mut requests = Vec::new();
            let mut server = memory::Server::new(&*responder, from, clock.moment(start).epoch);
            let mut exchange = protocol.exchange(&Ask::default(), Cookie(1));
            memory::run(&mut *exchange, &mut server, |direction, bytes| {
                if direction == Direction::Request {
                    requests.push(bytes.clone());
                }
            });
            for request in requests.iter().filter(|request| is_verified(request, start)) {
                if with_tokens.last() != Some(&info.id) {
                    with_tokens.push(info.id);
                }
                let least = TOKEN_SECONDS.iter().find(|(id, _)| *id == info.id).map(|(_, least)| *least);
                let least = Duration::from_secs(least.expect(info.id));
                let is_valid = is_verified(request, start + age);
                if age <= least {
                    prop_assert!(is_valid, "{}: refused after {age:?}", info.id);
                }
                if age >= least + Duration::from_secs(30) {
                    prop_assert!(!is_valid, "{}: valid after {age:?}", info.id);
                }
            }
        }
        prop_assert!(with_tokens.len() == TOKEN_SECONDS.len(), "{with_tokens:?}");
    }
}

/// Least time that a token is valid, in seconds; the most is 30 s longer.
const TOKEN_SECONDS: &[(&str, u64)] = &[
    ("minecraft-query", 30),
    ("onequery", 90),
    ("a2s", 60),
    ("gamespy3", 30),
    ("teeworlds", 30),
    ("veloren", 60),
];
