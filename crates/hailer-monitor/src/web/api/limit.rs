//! How often one address may ask. Memory is bounded: addresses share places by a secret hash, so that some may be slowed down by
//! others, and none is ever faster than it should be.

use super::{Api, Problem};
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Extensions, HeaderMap, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Places for addresses; each has some 60 bytes.
const PLACES: usize = 4_096;

/// Requests of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// In the long run; 0 is 1.
    pub per_second: u32,
    /// At once, after a pause; 0 is 1.
    pub burst: u32,
}

pub(super) struct Limits {
    reads: Table,
    writes: Table,
}

struct Table {
    places: Box<[DefaultDirectRateLimiter]>,
    clock: DefaultClock,
    hash: RandomState,
}

impl Limits {
    pub(super) fn new(reads: Rate, writes: Rate) -> Self {
        Self {
            reads: Table::new(reads),
            writes: Table::new(writes),
        }
    }
}

impl Table {
    fn new(rate: Rate) -> Self {
        let number = |number: u32| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        let quota = Quota::per_second(number(rate.per_second)).allow_burst(number(rate.burst));
        let places = (0..PLACES).map(|_| RateLimiter::direct(quota)).collect();
        Self {
            places,
            clock: DefaultClock::default(),
            hash: RandomState::new(),
        }
    }

    /// Lets one request through, or says after how long.
    fn take(&self, address: IpAddr) -> Result<(), Duration> {
        let place = &self.places[self.hash.hash_one(network(address)) as usize % PLACES];
        place
            .check()
            .map_err(|not_until| not_until.wait_time_from(self.clock.now()))
    }
}

/// Who has one IPv6 address has as many as a network of 64 bits holds.
pub(in crate::web) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

/// Lets a request through, or not.
pub(super) async fn enforce(State(api): State<Api>, request: Request, next: Next) -> Response {
    match api.admit(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl Api {
    /// Whether its address may ask this now.
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
        let who = visitor(
            request.extensions(),
            request.headers(),
            self.settings().is_behind_proxy,
        );
        table.take(who).map_err(|wait| {
            self.0.refused.rate.fetch_add(1, Ordering::Relaxed);
            Problem::too_many(wait.as_secs() + 1)
        })
    }
}

/// Who asks; all are one where the listener does not tell.
pub(in crate::web) fn visitor(
    known: &Extensions,
    headers: &HeaderMap,
    is_behind_proxy: bool,
) -> IpAddr {
    let peer = known
        .get::<ConnectInfo<SocketAddr>>()
        .map(|ConnectInfo(peer)| peer.ip());
    client(peer, headers, is_behind_proxy)
}

/// Who asks: the peer, or whom our own proxy names last. What came before that, the client may have written itself.
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

    #[test]
    fn a_burst_and_then_a_wait() {
        let table = Table::new(Rate {
            per_second: 1,
            burst: 3,
        });
        let [one, same]: [IpAddr; 2] =
            ["2001:db8::1", "2001:db8::2:3"].map(|text| text.parse().unwrap());
        assert!((0..3).all(|_| table.take(one).is_ok()));
        let wait = table.take(same).unwrap_err();
        assert!(
            wait > Duration::ZERO && wait <= Duration::from_secs(1),
            "{wait:?}"
        );
        // One of them may share its place with those.
        let others =
            (1..=50).filter(|last| table.take(Ipv4Addr::new(192, 0, 2, *last).into()).is_ok());
        assert!(others.count() >= 49, "somebody else");
    }

    #[test]
    fn nobody_chooses_the_address_that_counts() {
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
            "only our own proxy is believed"
        );
        headers.append("x-forwarded-for", "rubbish".parse().unwrap());
        assert_eq!(client(Some(loopback), &headers, true), loopback);
    }
}
