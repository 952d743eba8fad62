//! How much may be sent to whom: the part of a responder's safety that needs memory.
//!
//! A forged source address makes a server send to somebody who asked for nothing. Replies to askers that proved nothing
//! are therefore paid from three purses: the source's, its network's and everybody's; past them, silence. Sources and
//! networks live in tables of fixed size, since they cannot be trusted to be few.

use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::IpAddr;
use std::time::Duration;

/// Limits in bytes of UDP payload. A second's worth refills in a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budget {
    /// To one source that proved nothing, per second; the burst is four seconds' worth. 8 KiB lets a monitor read a
    /// full UGP server four times a second, and makes a reflector of no use to anybody.
    pub unverified_per_source: u32,
    /// Datagrams to one source that proved nothing, per second; the burst is four seconds' worth.
    pub unverified_packets: u32,
    /// To one network (IPv4 /24, IPv6 /56) whose sources proved nothing, per second; the burst is four seconds' worth.
    pub unverified_per_network: u32,
    /// The same in datagrams.
    pub unverified_network_packets: u32,
    /// To all sources that proved nothing, per second, in replies of more than [`FREE_RATIO`] times their request; the burst
    /// is one second's worth.
    pub unverified_total: u32,
    /// The same in datagrams.
    pub unverified_total_packets: u32,
    /// To one source that proved its address, per second; the burst is four seconds' worth.
    pub verified_per_source: u32,
    /// The same in datagrams.
    pub verified_packets: u32,
    /// Whether loopback sources are limited too. They cannot be forged from outside, so they are not.
    pub limit_loopback: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            unverified_per_source: 8 << 10,
            unverified_packets: 128,
            unverified_per_network: 64 << 10,
            unverified_network_packets: 1_024,
            unverified_total: 1 << 20,
            unverified_total_packets: 10_000,
            verified_per_source: 1 << 20,
            verified_packets: 20_000,
            limit_loopback: false,
        }
    }
}

impl Budget {
    /// The share of one of so many workers, if all that comes from one network goes to one of them.
    #[must_use]
    pub fn share(mut self, workers: usize) -> Self {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX).max(1);
        (self.unverified_total, self.unverified_total_packets) = (
            self.unverified_total / workers,
            self.unverified_total_packets.div_ceil(workers),
        );
        self
    }
}

/// The growth from request to reply that is taken for harmless: what QUIC allows (RFC 9000, section 8.1).
pub const FREE_RATIO: usize = 3;
const BURST_SECONDS: u64 = 4;
/// Sources and networks remembered: 8,192 of each, of 80 and 64 bytes; one looks for its place in a row of four.
const TABLE_ROWS: usize = 2_048;
const ROW_ENTRIES: usize = 4;
/// Whoever is unused for so long has nothing left to flow back, milliseconds.
const IDLE_MS: u64 = BURST_SECONDS * 1_000;
/// The networks that ask most are found among those remembered.
const MAX_TOP_TALKERS: usize = 20;

/// What is left of a budget.
pub struct RateLimiter {
    budget: Budget,
    seed: u64,
    total: Bucket,
    total_packets: Bucket,
    sources: Box<[[Source; ROW_ENTRIES]]>,
    networks: Box<[[Network; ROW_ENTRIES]]>,
}

#[derive(Clone, Copy, Default)]
struct Source {
    /// Network prefix; 0 is nobody.
    prefix: u128,
    unverified: Bucket,
    packets: Bucket,
    verified: Bucket,
    verified_packets: Bucket,
}

#[derive(Clone, Copy, Default)]
struct Network {
    prefix: u128,
    unverified: Bucket,
    packets: Bucket,
    flow: Flow,
}

/// What came from a network and went there since it was last told, whatever became of it, loopback included.
#[derive(Clone, Copy, Default)]
struct Flow {
    requests: u32,
    request_bytes: u32,
    replies: u32,
    reply_bytes: u32,
}

impl Flow {
    fn record_request(&mut self, length: usize) {
        self.requests = self.requests.saturating_add(1);
        self.request_bytes = self.request_bytes.saturating_add(length as u32);
    }
}

/// How much of a limiter is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemainingBudget {
    /// Bytes for all sources that proved nothing.
    pub bytes: u64,
    /// What flows back in a second, and the most that is ever left.
    pub bytes_per_second: u64,
    /// Networks remembered.
    pub tracked_networks: u64,
    /// Networks that there is room for.
    pub max_networks: u64,
}

/// A network that asks, and what passed in a second, of late. Sources of datagrams can be forged.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TopTalker {
    /// Its first address.
    pub network: IpAddr,
    /// Leading bits that its addresses share.
    pub bits: u8,
    /// Datagrams from there, answered or not.
    pub requests_per_s: f64,
    /// Bytes of their payload.
    pub request_bytes_per_s: f64,
    /// Replies.
    pub replies_per_s: f64,
    /// Bytes of their payload.
    pub reply_bytes_per_s: f64,
}

impl TopTalker {
    /// The most of several lists, who asks most first.
    pub(super) fn merged(all: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut merged: Vec<Self> = Vec::new();
        for one in all {
            match merged.iter_mut().find(|other| other.network == one.network) {
                Some(other) => {
                    other.requests_per_s += one.requests_per_s;
                    other.request_bytes_per_s += one.request_bytes_per_s;
                    other.replies_per_s += one.replies_per_s;
                    other.reply_bytes_per_s += one.reply_bytes_per_s;
                }
                None => merged.push(one),
            }
        }
        merged.sort_by(|a, b| b.requests_per_s.total_cmp(&a.requests_per_s));
        merged.truncate(MAX_TOP_TALKERS);
        merged
    }
}

/// Thousandths of bytes spent and not yet flown back, and when that was true, in milliseconds.
#[derive(Clone, Copy, Default)]
struct Bucket {
    spent: u64,
    at: u64,
}

impl Bucket {
    /// Lets what was spent flow back with time, then spends if the burst allows it.
    fn spend(&mut self, length: usize, rate: u32, burst_seconds: u64, now: u64) -> bool {
        let rate = u64::from(rate);
        let earned = now.saturating_sub(self.at).saturating_mul(rate);
        self.spent = self.spent.saturating_sub(earned);
        self.at = self.at.max(now);
        let spent = self.spent + length as u64 * 1_000;
        let fits = spent <= rate * burst_seconds * 1_000;
        if fits {
            self.spent = spent;
        }
        fits
    }
}

impl RateLimiter {
    /// A full limiter. The seed keeps outsiders from choosing who shares a row with whom.
    pub fn new(budget: Budget, seed: u64) -> Self {
        let (sources, networks) = (
            vec![Default::default(); TABLE_ROWS].into(),
            vec![Default::default(); TABLE_ROWS].into(),
        );
        Self {
            budget,
            seed,
            total: Bucket::default(),
            total_packets: Bucket::default(),
            sources,
            networks,
        }
    }

    /// Another budget from now on. What was spent is still spent.
    pub fn change(&mut self, budget: Budget) {
        self.budget = budget;
    }

    /// Pays for a reply of `length` bytes to a request of `asked`, or refuses. What is no more than [`FREE_RATIO`] times the
    /// request is not paid by everybody: a flood of requests from forged sources must not keep all others from being
    /// answered, and whoever sends it gains nothing by our replies.
    pub fn try_spend(
        &mut self,
        to: IpAddr,
        asked: usize,
        length: usize,
        verified: bool,
        since: Duration,
    ) -> bool {
        let to = to.to_canonical();
        let Budget {
            unverified_per_source,
            unverified_packets,
            unverified_per_network,
            unverified_network_packets,
            ..
        } = self.budget;
        let Budget {
            unverified_total,
            unverified_total_packets,
            verified_per_source,
            verified_packets,
            ..
        } = self.budget;
        let now = since.as_millis() as u64;
        let network = place(&mut self.networks, network(to), self.seed);
        let is_free = to.is_loopback() && !self.budget.limit_loopback;
        let is_paid = is_free || {
            let source = place(&mut self.sources, source(to), self.seed);
            if verified {
                source
                    .verified_packets
                    .spend(1, verified_packets, BURST_SECONDS, now)
                    && source
                        .verified
                        .spend(length, verified_per_source, BURST_SECONDS, now)
            } else {
                source
                    .packets
                    .spend(1, unverified_packets, BURST_SECONDS, now)
                    && source
                        .unverified
                        .spend(length, unverified_per_source, BURST_SECONDS, now)
                    && network
                        .packets
                        .spend(1, unverified_network_packets, BURST_SECONDS, now)
                    && network
                        .unverified
                        .spend(length, unverified_per_network, BURST_SECONDS, now)
                    && (length <= asked * FREE_RATIO
                        || self
                            .total_packets
                            .spend(1, unverified_total_packets, 1, now)
                            && self.total.spend(length, unverified_total, 1, now))
            }
        };
        network.flow.record_request(asked);
        if is_paid {
            network.flow.replies = network.flow.replies.saturating_add(1);
            network.flow.reply_bytes = network.flow.reply_bytes.saturating_add(length as u32);
        }
        // The one unused for longest makes room, so it must be known when a network was used.
        network.unverified.at = network.unverified.at.max(now);
        is_paid
    }

    /// Takes note of a datagram of so many bytes that nobody thinks of answering. It makes nobody forget what a network
    /// was sent: where there is no room, there is no note.
    pub fn record_unanswered(&mut self, from: IpAddr, length: usize, since: Duration) {
        let (prefix, now) = (network(from.to_canonical()), since.as_millis() as u64);
        let (row, found) = row(&mut self.networks, prefix, self.seed);
        let at = found.unwrap_or_else(|| oldest(row));
        if found.is_none() {
            if row[at].prefix != 0 && row[at].used_at() + IDLE_MS > now {
                return;
            }
            row[at] = Network::new(prefix);
        }
        row[at].flow.record_request(length);
        row[at].unverified.at = row[at].unverified.at.max(now);
    }

    /// How much is left.
    pub fn remaining(&self, since: Duration) -> RemainingBudget {
        let (rate, now) = (
            u64::from(self.budget.unverified_total),
            since.as_millis() as u64,
        );
        let flown = now.saturating_sub(self.total.at).saturating_mul(rate);
        let spent = self.total.spent.saturating_sub(flown).div_ceil(1_000);
        RemainingBudget {
            bytes: rate.saturating_sub(spent),
            bytes_per_second: rate,
            tracked_networks: self
                .networks
                .iter()
                .flatten()
                .filter(|network| network.prefix != 0)
                .count() as u64,
            max_networks: (TABLE_ROWS * ROW_ENTRIES) as u64,
        }
    }

    /// The networks that asked most since this was last called, so long ago; who asked most first, in place of what
    /// `top` held.
    pub(super) fn top(&mut self, ago: Duration, top: &mut Vec<TopTalker>) {
        top.clear();
        let rate = |count: u32| f64::from(count) / ago.as_secs_f64().max(1e-3);
        for network in self
            .networks
            .iter_mut()
            .flatten()
            .filter(|network| network.flow.requests > 0)
        {
            let flow = std::mem::take(&mut network.flow);
            let requests_per_s = rate(flow.requests);
            let least = top
                .last()
                .filter(|_| top.len() == MAX_TOP_TALKERS)
                .map_or(0.0, |least| least.requests_per_s);
            if requests_per_s > least {
                top.truncate(MAX_TOP_TALKERS - 1);
                let (address, bits) = address(network.prefix);
                let at =
                    top.partition_point(|other: &TopTalker| other.requests_per_s >= requests_per_s);
                let [request_bytes_per_s, replies_per_s, reply_bytes_per_s] =
                    [flow.request_bytes, flow.replies, flow.reply_bytes].map(rate);
                top.insert(
                    at,
                    TopTalker {
                        network: address,
                        bits,
                        requests_per_s,
                        request_bytes_per_s,
                        replies_per_s,
                        reply_bytes_per_s,
                    },
                );
            }
        }
    }
}

/// What has a place in a table.
trait Placed: Copy + Default {
    fn prefix(&self) -> u128;
    fn used_at(&self) -> u64;
    fn new(prefix: u128) -> Self;
}

impl Placed for Source {
    fn prefix(&self) -> u128 {
        self.prefix
    }

    fn used_at(&self) -> u64 {
        // Packets are always paid first: bytes are not, where there are too many.
        self.packets.at.max(self.verified_packets.at)
    }

    fn new(prefix: u128) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }
}

impl Placed for Network {
    fn prefix(&self) -> u128 {
        self.prefix
    }

    fn used_at(&self) -> u64 {
        self.unverified.at
    }

    fn new(prefix: u128) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }
}

/// The place of a prefix; the one unused for longest makes room.
fn place<T: Placed>(rows: &mut [[T; ROW_ENTRIES]], prefix: u128, seed: u64) -> &mut T {
    let (row, found) = row(rows, prefix, seed);
    let at = found.unwrap_or_else(|| {
        let oldest = oldest(row);
        row[oldest] = T::new(prefix);
        oldest
    });
    &mut row[at]
}

/// The row that a prefix belongs to, and its place there if it has one.
fn row<T: Placed>(
    rows: &mut [[T; ROW_ENTRIES]],
    prefix: u128,
    seed: u64,
) -> (&mut [T; ROW_ENTRIES], Option<usize>) {
    let mut hasher = SipHasher13::new_with_keys(seed, 0);
    hasher.write_u128(prefix);
    let row = &mut rows[hasher.finish() as usize % TABLE_ROWS];
    let found = row.iter().position(|placed| placed.prefix() == prefix);
    (row, found)
}

fn oldest<T: Placed>(row: &[T; ROW_ENTRIES]) -> usize {
    (0..ROW_ENTRIES)
        .min_by_key(|&i| row[i].used_at())
        .unwrap_or(0)
}

/// Marks prefixes of IPv4 and of IPv6, so that none is 0.
const V4: u128 = 1 << 127;
const V6: u128 = 1 << 126;

/// One IPv4 address, or one IPv6 network of 64 bits: what one subscriber commands.
fn source(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => V4 | u128::from(ip.to_bits()),
        IpAddr::V6(ip) => V6 | ip.to_bits() >> 64,
    }
}

/// The network of a source, as it is routed: 24 bits of IPv4, 56 of IPv6.
fn network(ip: IpAddr) -> u128 {
    match ip {
        IpAddr::V4(ip) => V4 | u128::from(ip.to_bits() >> 8),
        IpAddr::V6(ip) => V6 | ip.to_bits() >> 72,
    }
}

fn address(network: u128) -> (IpAddr, u8) {
    match network & V4 {
        0 => (IpAddr::V6(((network & !V6) << 72).into()), 56),
        _ => (IpAddr::V4(((network as u32) << 8).into()), 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn spend_all(
        limiter: &mut RateLimiter,
        to: IpAddr,
        length: usize,
        verified: bool,
        since: Duration,
    ) -> usize {
        (0..1_000_000)
            .take_while(|_| limiter.try_spend(to, 1, length, verified, since))
            .count()
            * length
    }

    #[test]
    fn a_source_gets_its_burst_and_then_its_rate() {
        let mut limiter = RateLimiter::new(Budget::default(), 1);
        let source = ip("192.0.2.7");
        assert_eq!(spend_all(&mut limiter, source, 64, false, SECOND), 32 << 10);
        assert_eq!(
            spend_all(&mut limiter, source, 64, false, SECOND * 2),
            8 << 10
        );
        assert_eq!(
            spend_all(&mut limiter, source, 64, true, SECOND * 2),
            4 << 20,
            "proving the address helps"
        );
        assert_eq!(
            spend_all(&mut limiter, source, 64, false, SECOND * 1000),
            32 << 10,
            "no more than the burst"
        );
    }

    #[test]
    fn one_network_is_one_source() {
        let mut limiter = RateLimiter::new(Budget::default(), 1);
        assert!(spend_all(&mut limiter, ip("2001:db8::1"), 64, false, SECOND) > 0);
        assert_eq!(
            spend_all(&mut limiter, ip("2001:db8::2"), 64, false, SECOND),
            0
        );
        assert!(spend_all(&mut limiter, ip("2001:db8:0:1::1"), 64, false, SECOND) > 0);
        assert!(spend_all(&mut limiter, ip("192.0.2.1"), 64, false, SECOND) > 0);
        assert_eq!(
            spend_all(&mut limiter, ip("::ffff:192.0.2.1"), 64, false, SECOND),
            0
        );
    }

    #[test]
    fn forged_sources_together_get_no_more_than_the_total() {
        let mut limiter = RateLimiter::new(Budget::default(), 1);
        let mut sent = 0;
        for i in 0..200_000u32 {
            let source = IpAddr::V4((0x0A00_0000 + i).into());
            sent += if limiter.try_spend(source, 1, 1_000, false, SECOND) {
                1_000
            } else {
                0
            };
        }
        assert!(sent <= 1 << 20, "{sent}");
        assert!(sent > 1_000_000, "{sent}");
    }

    #[test]
    fn a_flood_of_small_requests_starves_nobody() {
        let mut limiter = RateLimiter::new(Budget::default(), 1);
        let all = (0..200_000u32).all(|i| {
            limiter.try_spend(
                IpAddr::V4((0x0A00_0000 + i * 256).into()),
                7,
                16,
                false,
                SECOND,
            )
        });
        assert!(
            all,
            "each is a network of its own, and gets hardly more than it sent"
        );
    }

    #[test]
    fn networks_and_packets_are_limited_too() {
        let mut limiter = RateLimiter::new(Budget::default(), 1);
        let hosts = (0..=255).map(|i| IpAddr::from([192, 0, 2, i]));
        let sent: usize = hosts
            .map(|host| spend_all(&mut limiter, host, 64, false, SECOND))
            .sum();
        assert_eq!(sent, 256 << 10, "eight sources' worth");
        assert_eq!(
            spend_all(&mut limiter, ip("198.51.100.1"), 1, false, SECOND),
            512,
            "packets of four seconds"
        );
        let hosts = (2..=255).map(|i| IpAddr::from([198, 51, 100, i]));
        let sent: usize = hosts
            .map(|host| spend_all(&mut limiter, host, 1, false, SECOND))
            .sum();
        assert_eq!(512 + sent, 4_096, "and of a network eight sources' worth");
    }

    #[test]
    fn who_asks_most_is_known_answered_or_not() {
        let mut limiter = RateLimiter::new(Budget::default(), 1);
        let mut top = Vec::new();
        let (flood, monitor) = (ip("192.0.2.7"), ip("2001:db8:0:ab::1"));
        (0..100).for_each(|_| limiter.record_unanswered(flood, 10, SECOND));
        for _ in 0..30 {
            assert!(limiter.try_spend(monitor, 7, 16, true, SECOND));
        }
        limiter.top(SECOND * 2, &mut top);
        let seen = |top: &[TopTalker]| -> Vec<_> {
            top.iter()
                .map(|top| {
                    (
                        top.network,
                        top.bits,
                        top.requests_per_s,
                        top.request_bytes_per_s,
                        top.replies_per_s,
                        top.reply_bytes_per_s,
                    )
                })
                .collect()
        };
        let expected = [
            (ip("192.0.2.0"), 24, 50.0, 500.0, 0.0, 0.0),
            (ip("2001:db8::"), 56, 15.0, 105.0, 15.0, 240.0),
        ];
        assert_eq!(seen(&top), expected);
        limiter.top(SECOND, &mut top);
        assert_eq!(seen(&top), [], "of late");
        // A flood that nobody answers makes nobody forget what a network was sent.
        let victim = ip("198.51.100.1");
        assert!(spend_all(&mut limiter, victim, 64, false, SECOND) > 0);
        (0..100_000u32).for_each(|i| {
            limiter.record_unanswered(IpAddr::V4((0x0A00_0000 + i * 256).into()), 10, SECOND * 2);
        });
        let there = limiter
            .networks
            .iter()
            .flatten()
            .any(|network| network.prefix == super::network(victim));
        assert!(there);
        assert!(
            limiter.remaining(SECOND).tracked_networks <= limiter.remaining(SECOND).max_networks
        );
    }

    #[test]
    fn tables_have_their_size_and_the_oldest_goes() {
        let mut limiter = RateLimiter::new(Budget::default(), 1);
        let (greedy, old) = (ip("192.0.2.7"), ip("198.51.100.1"));
        spend_all(&mut limiter, old, 1, false, Duration::from_millis(1));
        // Who only wastes datagrams and never bytes is in use as well.
        let mut sent = 0;
        for i in 0..40_000u32 {
            let now = SECOND + Duration::from_millis(u64::from(i) / 100);
            limiter.try_spend(IpAddr::V4((0x0A00_0000 + i * 256).into()), 1, 1, false, now);
            sent += usize::from(limiter.try_spend(greedy, 1, 1, false, now));
        }
        assert!(
            (512..=512 + 52).contains(&sent),
            "a burst and what flows back in 0.4 s, never forgotten: {sent}"
        );
        let known = |ip| {
            limiter
                .sources
                .iter()
                .flatten()
                .any(|placed| placed.prefix == source(ip))
        };
        assert_eq!((known(greedy), known(old)), (true, false));
        assert_eq!(limiter.sources.len() * ROW_ENTRIES, 8_192);
    }

    #[test]
    fn another_budget_holds_at_once() {
        let mut limiter = RateLimiter::new(Budget::default(), 1);
        let source = ip("192.0.2.7");
        assert_eq!(
            spend_all(&mut limiter, source, 256, false, SECOND),
            32 << 10
        );
        let mut budget = Budget {
            unverified_per_source: 16 << 10,
            unverified_total: 100 << 10,
            ..Budget::default()
        };
        limiter.change(budget);
        assert_eq!(
            spend_all(&mut limiter, source, 256, false, SECOND),
            32 << 10,
            "what was spent is still spent"
        );
        assert_eq!(limiter.remaining(SECOND).bytes_per_second, 100 << 10);
        budget.unverified_per_source = 1 << 10;
        limiter.change(budget);
        assert_eq!(spend_all(&mut limiter, source, 256, false, SECOND), 0);
    }

    #[test]
    fn loopback_is_free_unless_told_otherwise() {
        let mut limiter = RateLimiter::new(
            Budget {
                limit_loopback: true,
                ..Budget::default()
            },
            1,
        );
        assert_eq!(
            spend_all(&mut limiter, ip("127.0.0.1"), 1024, false, SECOND),
            32 << 10
        );
        let mut limiter = RateLimiter::new(Budget::default(), 1);
        assert!((0..100_000).all(|_| limiter.try_spend(ip("127.0.0.1"), 1, 1024, false, SECOND)));
    }

    #[test]
    fn a_protocol_that_proves_nothing_is_capped() {
        use crate::respond::{Board, Service};
        use hailer_proto::model::{Rule, Status};
        let rule = |i: u32| Rule {
            key: format!("rule {i}").into(),
            value: "v".repeat(30).into(),
        };
        let status = Status {
            rules: (0..60).map(rule).collect(),
            ..Status::default()
        };
        let board = Board::new(&[&hailer_proto::ugp::Ugp], &status).unwrap();
        let mut service = Service::new(board, Budget::default());
        let mut ask = |from: u32, since: Duration| {
            let from = (std::net::Ipv4Addr::from(from), 50_000).into();
            service
                .answer_at(from, b"\xFF\xFFUGP\0\x01\x01\x0B\x7D\x7F\x3D\x07", since)
                .map_or(0, <[u8]>::len)
        };
        let one = ask(0x0101_0101, SECOND);
        assert!((900..=1_024).contains(&one), "{one}");
        // One source: four seconds' worth, then one each second, then silence.
        let sent: usize = one + (0..1_000).map(|_| ask(0x0101_0101, SECOND)).sum::<usize>();
        assert!(sent <= 32 << 10 && sent > 31 << 10, "{sent}");
        let sent: usize = (0..1_000).map(|_| ask(0x0101_0101, SECOND * 2)).sum();
        assert!(
            sent <= (8 << 10) + 1_024,
            "{sent}, with what was left of the burst"
        );
        // All of them together, each with a network of its own.
        let sent: usize = (0..50_000)
            .map(|i| ask(0x0A00_0000 + i * 256, SECOND * 100))
            .sum();
        assert!(sent <= 1 << 20 && sent > 1 << 19, "{sent}");
        assert_eq!(
            ask(0x0101_0101, SECOND * 100),
            0,
            "past it there is silence, for everybody"
        );
    }
}
