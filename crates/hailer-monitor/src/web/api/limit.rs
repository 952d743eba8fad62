//! Rate limit per client address. Memory is bounded: addresses share 4,096 slots by a keyed hash. A
//! collision can slow a client down, but never exceeds the limit.

use super::{Api, Problem};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Extensions, HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use governor::clock::{Clock, DefaultClock};
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Number of slots; each takes about 60 bytes.
const SLOTS: usize = 4_096;

/// Rate limit of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Sustained rate, in requests per second; 0 counts as 1.
    pub per_second: u32,
    /// Maximum burst, in requests; 0 counts as 1.
    pub burst: u32,
}

pub(super) struct Limits {
    reads: LimitTable,
    writes: LimitTable,
}

struct LimitTable<C: Clock = DefaultClock> {
    slots: Box<[Slot<C>]>,
    clock: C,
    hash: RandomState,
}

type Slot<C> = RateLimiter<NotKeyed, InMemoryState, C, NoOpMiddleware<<C as Clock>::Instant>>;

impl Limits {
    pub(super) fn new(reads: Rate, writes: Rate) -> Self {
        Self {
            reads: LimitTable::new(reads, DefaultClock::default()),
            writes: LimitTable::new(writes, DefaultClock::default()),
        }
    }
}

impl<C: Clock + Clone> LimitTable<C> {
    fn new(rate: Rate, clock: C) -> Self {
        let number = |number: u32| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(number(rate.per_second)).allow_burst(number(rate.burst));
        let slot = |_| RateLimiter::direct_with_clock(quota, clock.clone());
        Self {
            slots: (0..SLOTS).map(slot).collect(),
            clock,
            hash: RandomState::new(),
        }
    }

    /// Counts a request; if it is over the limit, returns how long to wait.
    fn take(&self, address: IpAddr) -> Result<(), Duration> {
        let slot = &self.slots[self.hash.hash_one(network(address)) as usize % SLOTS];
        slot.check()
            .map_err(|not_until| not_until.wait_time_from(self.clock.now()))
    }
}

/// Returns the unit that is limited: an IPv4 address or an IPv6 /64 network.
pub(in crate::web) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// Applies the rate limit.
pub(super) async fn enforce(State(api): State<Api>, request: Request, next: Next) -> Response {
    match api.admit(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl Api {
    /// Counts a request of a client, and rejects it if it is over the limit.
    pub(in crate::web) fn admit(&self, request: &Request) -> Result<(), Problem> {
        let limits = &self.0.limits;
        let is_read = matches!(
            *request.method(),
            Method::GET | Method::HEAD | Method::OPTIONS
        );
        let table = if is_read {
            &limits.reads
        } else {
            &limits.writes
        };
        let who = client_ip(
            request.extensions(),
            request.headers(),
            self.config().is_behind_proxy,
        );
        table.take(who).map_err(|wait| {
            self.0.rejected.rate.fetch_add(1, Ordering::Relaxed);
            Problem::too_many(wait.as_secs() + 1)
        })
    }
}

/// Returns the client address of a request. Without connection information, all clients are the
/// same.
pub(in crate::web) fn client_ip(
    known: &Extensions,
    headers: &HeaderMap,
    is_behind_proxy: bool,
) -> IpAddr {
    let peer = known
        .get::<ConnectInfo<SocketAddr>>()
        .map(|ConnectInfo(peer)| peer.ip());
    client(peer, headers, is_behind_proxy)
}

/// Returns the peer, or the last address that our own proxy added. The client may have forged the
/// ones before.
fn client(peer: Option<IpAddr>, headers: &HeaderMap, is_behind_proxy: bool) -> IpAddr {
    let peer = peer.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
    if !is_behind_proxy || !peer.to_canonical().is_loopback() {
        return peer;
    }
    let forwarded = headers
        .get_all("x-forwarded-for")
        .iter()
        .next_back()
        .and_then(|value| value.to_str().ok());
    let last = forwarded
        .and_then(|list| list.rsplit(',').next())
        .map(str::trim);
    last.and_then(|last| last.parse().ok()).unwrap_or(peer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use governor::clock::FakeRelativeClock;
    use proptest::prelude::*;

    #[test]
    fn allows_a_burst_then_limits_the_rate() {
        let rate = Rate {
            per_second: 1,
            burst: 3,
        };
        let table = LimitTable::new(rate, DefaultClock::default());
        let [one, same]: [IpAddr; 2] =
            ["2001:db8::1", "2001:db8::2:3"].map(|text| text.parse().unwrap());
        assert!((0..3).all(|_| table.take(one).is_ok()));
        let wait = table.take(same).unwrap_err();
        assert!(
            wait > Duration::ZERO && wait <= Duration::from_secs(1),
            "{wait:?}"
        );
        // The slot may be shared by other addresses of the test.
        let others =
            (1..=50).filter(|last| table.take(Ipv4Addr::new(192, 0, 2, *last).into()).is_ok());
        assert!(others.count() >= 49, "somebody else");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 6, failure_persistence: None, ..ProptestConfig::default() })]

        /// For a week, a client below the limit is served every time, and one above it gets the limit.
        #[test]
        fn a_week_at_a_steady_rate_gets_the_limit(share in 10..400_u64, suspended_hours in 0..48_u64, at_day in 0..7_u64) {
            const WEEK: Duration = Duration::from_secs(7 * 86_400);
            let rate = Rate { per_second: 2, burst: 5 };
            let clock = FakeRelativeClock::default();
            let table = LimitTable::new(rate, clock.clone());
            let client: IpAddr = Ipv4Addr::new(192, 0, 2, 1).into();
            // One request in each `gap`: `share` percent of the limit.
            let gap = Duration::from_millis(50_000 / share);
            let (mut ran, mut sent, mut served) = (Duration::ZERO, 0_u64, 0_u64);
            let mut suspend = Some(Duration::from_secs(suspended_hours * 3_600));
            while ran < WEEK {
                sent += 1;
                match table.take(client) {
                    Ok(()) => served += 1,
                    Err(wait) => prop_assert!(wait <= Duration::from_millis(500), "{wait:?}"),
                }
                clock.advance(gap);
                ran += gap;
                if ran.as_secs() >= at_day * 86_400 {
                    clock.advance(suspend.take().unwrap_or_default());
                }
            }
            let limit = WEEK.as_secs() * u64::from(rate.per_second);
            if gap >= Duration::from_millis(500) {
                prop_assert_eq!(served, sent, "below the limit");
            } else {
                // A burst at the start and after a suspend.
                let range = limit * 99 / 100..=limit + 2 * u64::from(rate.burst);
                prop_assert!(range.contains(&served), "{served} of {limit}");
            }
        }
    }

    #[test]
    fn clients_cannot_choose_the_counted_address() {
        let [loopback, far]: [IpAddr; 2] =
            ["127.0.0.1", "192.0.2.9"].map(|text| text.parse().unwrap());
        let mut headers = HeaderMap::new();
        headers.append(
            "x-forwarded-for",
            "198.51.100.1, 203.0.113.5".parse().unwrap(),
        );
        let proxy: IpAddr = "203.0.113.5".parse().unwrap();
        assert_eq!(client(Some(loopback), &headers, true), proxy);
        assert_eq!(client(Some(loopback), &headers, false), loopback);
        assert_eq!(
            client(Some(far), &headers, true),
            far,
            "X-Forwarded-For counts only from loopback"
        );
        headers.append("x-forwarded-for", "rubbish".parse().unwrap());
        assert_eq!(client(Some(loopback), &headers, true), loopback);
    }
}
