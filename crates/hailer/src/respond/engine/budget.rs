//! Rate limits for replies.
//!
//! A forged source address directs replies at a victim, so replies to unverified addresses have a
//! budget. A reply is charged to three budgets: that of its source, that of the source's network,
//! and that of all unverified sources. It is sent only if it fits all three.
//!
//! | limit | value |
//! | --- | --- |
//! | rates and bursts | [`Budget`] |
//! | replies exempt from the budget for all | up to [`FREE_RATIO`] times the request, headers included |
//! | tracked sources and networks | 8,192 each, in tables of fixed size; least recently used entries are evicted |
//! | networks in [`TopTalker`] lists | 20 |

use super::bucket::SpentBucket;
use crate::prefix::{network, network_address, source};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

/// Limits for replies, in bytes of UDP payload and in datagrams. A rate of N per second refills N
/// each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Budget {
    /// Bytes per second to one unverified source (IPv4 address, IPv6 /64). The burst is 4 seconds'
    /// worth. The default, 8 KiB, lets a monitor read a full UGP server 4 times a second.
    pub unverified_per_source: u32,
    /// Datagrams per second to one unverified source. The burst is 4 seconds' worth.
    pub unverified_packets: u32,
    /// Bytes per second to the unverified sources of one network (IPv4 /24, IPv6 /56). The burst is
    /// 4 seconds' worth.
    pub unverified_per_network: u32,
    /// Datagrams per second to the unverified sources of one network. The burst is 4 seconds'
    /// worth.
    pub unverified_network_packets: u32,
    /// Bytes per second to all unverified sources together, in replies of more than [`FREE_RATIO`]
    /// times their request. The burst is 1 second's worth.
    pub unverified_total: u32,
    /// Datagrams per second to all unverified sources together, counted like
    /// [`unverified_total`](Self::unverified_total). The burst is 1 second's worth.
    pub unverified_total_packets: u32,
    /// Bytes per second to one source that verified its address, as all clients over TCP do. The
    /// burst is 4 seconds' worth.
    pub verified_per_source: u32,
    /// Datagrams, and replies over TCP, per second to one source that verified its address. The burst
    /// is 4 seconds' worth.
    pub verified_packets: u32,
    /// Whether loopback sources are limited too. By default they are not: they cannot be forged
    /// from outside.
    pub is_loopback_limited: bool,
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
            is_loopback_limited: false,
        }
    }
}

impl Budget {
    /// Returns the share of one of `workers` workers, if each network is always served by the same
    /// worker.
    #[must_use]
    pub fn share(mut self, workers: usize) -> Self {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX).max(1);
        self.unverified_total /= workers;
        self.unverified_total_packets = self.unverified_total_packets.div_ceil(workers);
        self
    }
}

/// Largest ratio of reply to request, both with their headers, that is exempt from the budget for
/// all unverified sources. It is the ratio that QUIC allows (RFC 9000, section 8.1).
///
/// Challenges are within it. Without the exemption, a flood of requests from forged sources would
/// use up the budget, and no other source would get a challenge.
pub const FREE_RATIO: usize = 3;
/// Bytes of the IPv4 and UDP headers of a datagram.
pub const HEADER_BYTES: usize = 28;

/// Returns whether a reply is small enough, compared to its request, to be exempt from the budget
/// for all unverified sources. Both lengths are bytes of UDP payload.
pub fn is_free(request_bytes: usize, reply_bytes: usize) -> bool {
    reply_bytes + HEADER_BYTES <= (request_bytes + HEADER_BYTES) * FREE_RATIO
}

/// Returns the bytes of a datagram with its IP and UDP headers.
pub(crate) fn datagram_bytes(ip: IpAddr, payload: usize) -> usize {
    let headers = if ip.to_canonical().is_ipv4() {
        HEADER_BYTES
    } else {
        HEADER_BYTES + 20
    };
    payload + headers
}

const BURST_SECONDS: u64 = 4;
const TOTAL_BURST_SECONDS: u64 = 1;
/// Rows of the tables of sources and networks. An entry of a source takes 80 bytes, one of a
/// network 64.
const TABLE_ROWS: usize = 2_048;
const _: () = assert!(TABLE_ROWS.is_power_of_two());
const ROW_ENTRIES: usize = 4;
/// Odd number whose multiples have bits at all places, even those of small seeds.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
/// After this many milliseconds without use, every bucket of an entry is full again.
const IDLE_MS: u64 = BURST_SECONDS * 1_000;
const MAX_TOP_TALKERS: usize = 20;

/// How far a source is trusted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// It did not verify its address.
    Unverified,
    /// It did not verify its address, and the caller sends at most [`FREE_RATIO`] times what it sent.
    Proportional,
    /// It proved that it receives what is sent to its address.
    Verified,
}

impl Trust {
    pub(crate) fn of(is_verified: bool) -> Self {
        if is_verified {
            Self::Verified
        } else {
            Self::Unverified
        }
    }
}

/// Enforces a [`Budget`]. One for each thread or socket.
pub struct RateLimiter {
    budget: Budget,
    /// Secret odd number.
    factor: u64,
    total: SpentBucket,
    total_packets: SpentBucket,
    sources: Box<[[Source; ROW_ENTRIES]]>,
    networks: Box<[[NetworkSpending; ROW_ENTRIES]]>,
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter")
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Default)]
struct Source {
    /// Network prefix; 0 marks an empty entry.
    prefix: u128,
    unverified: SpentBucket,
    packets: SpentBucket,
    verified: SpentBucket,
    verified_packets: SpentBucket,
}

#[derive(Clone, Copy, Default)]
struct NetworkSpending {
    /// Network prefix; 0 marks an empty entry.
    prefix: u128,
    unverified: SpentBucket,
    packets: SpentBucket,
    flow: Flow,
}

/// Traffic of a network since the last report, including loopback and unanswered requests.
#[derive(Clone, Copy, Default)]
struct Flow {
    requests: u32,
    request_bytes: u32,
    replies: u32,
    reply_bytes: u32,
}

impl Flow {
    fn record_request(&mut self, bytes: usize) {
        self.requests = self.requests.saturating_add(1);
        self.request_bytes = self.request_bytes.saturating_add(bytes as u32);
    }
}

/// Remaining budget for unverified sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemainingBudget {
    /// Bytes left for all unverified sources together.
    pub bytes: u64,
    /// Bytes refilled each second; also the largest value of `bytes`.
    pub bytes_per_second: u64,
    /// Tracked networks.
    pub tracked_networks: u64,
    /// Capacity for tracked networks.
    pub max_networks: u64,
}

/// A network and its recent traffic. Source addresses of datagrams can be forged.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct TopTalker {
    /// First address of the network.
    pub network: IpAddr,
    /// Length of the network prefix in bits: 24 for IPv4, 56 for IPv6.
    pub bits: u8,
    /// Datagrams received per second, answered or not.
    pub requests_per_s: f64,
    /// Bytes of UDP payload received per second.
    pub request_bytes_per_s: f64,
    /// Replies sent per second.
    pub replies_per_s: f64,
    /// Bytes of UDP payload sent per second.
    pub reply_bytes_per_s: f64,
}

impl TopTalker {
    /// Merges several lists. Returns the networks with the most requests, in descending order.
    pub(crate) fn merged(all: impl Iterator<Item = Self>) -> Vec<Self> {
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

impl RateLimiter {
    /// Returns a limiter with full budgets. `seed` is random: it keeps outsiders from choosing
    /// which sources share a row of the tables.
    pub fn new(budget: Budget, seed: u64) -> Self {
        Self {
            budget,
            factor: seed.wrapping_mul(SPREAD) | 1,
            total: SpentBucket::default(),
            total_packets: SpentBucket::default(),
            sources: vec![Default::default(); TABLE_ROWS].into(),
            networks: vec![Default::default(); TABLE_ROWS].into(),
        }
    }

    /// Replaces the budget. Bytes spent of the old one stay spent.
    pub fn change(&mut self, budget: Budget) {
        self.budget = budget;
    }

    /// Charges a reply of `reply_bytes` to a request of `request_bytes`. Returns whether it may be
    /// sent; otherwise no budget is charged. `verified`: the source proved that it receives what is
    /// sent to its address. `since`: time since the start of the limiter.
    pub fn try_spend(
        &mut self,
        to: IpAddr,
        request_bytes: usize,
        reply_bytes: usize,
        verified: bool,
        since: Duration,
    ) -> bool {
        self.charge::<true>(to, request_bytes, reply_bytes, Trust::of(verified), since)
    }

    /// Charges a reply, like [`RateLimiter::try_spend`]. `RECORDS_REQUEST`: whether the request is
    /// recorded too, which must happen once.
    pub(crate) fn charge<const RECORDS_REQUEST: bool>(
        &mut self,
        to: IpAddr,
        request_bytes: usize,
        reply_bytes: usize,
        trust: Trust,
        since: Duration,
    ) -> bool {
        let to = to.to_canonical();
        let now = since.as_millis() as u64;
        let budget = self.budget;
        let network = entry(&mut self.networks, network(to), self.factor);
        // Eviction needs the time of the last use.
        network
            .unverified
            .refill(budget.unverified_per_network, now);
        if RECORDS_REQUEST {
            network.flow.record_request(request_bytes);
        }
        if !to.is_loopback() || budget.is_loopback_limited {
            let source = entry(&mut self.sources, source(to), self.factor);
            // Every bucket is refilled before any is charged, so that a refused reply costs
            // nothing.
            let burst = BURST_SECONDS;
            if trust == Trust::Verified {
                let fits = source
                    .verified_packets
                    .has_room(1, budget.verified_packets, burst, now)
                    && source.verified.has_room(
                        reply_bytes,
                        budget.verified_per_source,
                        burst,
                        now,
                    );
                if !fits {
                    return false;
                }
                source.verified_packets.take(1);
                source.verified.take(reply_bytes);
            } else {
                let is_free = trust == Trust::Proportional || is_free(request_bytes, reply_bytes);
                let total_burst = TOTAL_BURST_SECONDS;
                let fits = source
                    .packets
                    .has_room(1, budget.unverified_packets, burst, now)
                    && source.unverified.has_room(
                        reply_bytes,
                        budget.unverified_per_source,
                        burst,
                        now,
                    )
                    && network
                        .packets
                        .has_room(1, budget.unverified_network_packets, burst, now)
                    && network.unverified.has_room(
                        reply_bytes,
                        budget.unverified_per_network,
                        burst,
                        now,
                    )
                    && (is_free
                        || self.total_packets.has_room(
                            1,
                            budget.unverified_total_packets,
                            total_burst,
                            now,
                        ) && self.total.has_room(
                            reply_bytes,
                            budget.unverified_total,
                            total_burst,
                            now,
                        ));
                if !fits {
                    return false;
                }
                source.packets.take(1);
                source.unverified.take(reply_bytes);
                network.packets.take(1);
                network.unverified.take(reply_bytes);
                if !is_free {
                    self.total_packets.take(1);
                    self.total.take(reply_bytes);
                }
            }
        }
        network.flow.replies = network.flow.replies.saturating_add(1);
        network.flow.reply_bytes = network.flow.reply_bytes.saturating_add(reply_bytes as u32);
        true
    }

    /// Records a request of `request_bytes` that gets no reply. It evicts no network that was used
    /// in the last 4 s: if there is no room, the request is not recorded.
    pub fn record_unanswered(&mut self, from: IpAddr, request_bytes: usize, since: Duration) {
        let prefix = network(from.to_canonical());
        let now = since.as_millis() as u64;
        let (row, found) = row(&mut self.networks, prefix, self.factor);
        let at = found.unwrap_or_else(|| oldest(row));
        if found.is_none() {
            if row[at].prefix != 0 && row[at].used_at() + IDLE_MS > now {
                return;
            }
            row[at] = NetworkSpending::new(prefix);
        }
        row[at].flow.record_request(request_bytes);
        row[at]
            .unverified
            .refill(self.budget.unverified_per_network, now);
    }

    /// Returns the remaining budget for unverified sources.
    pub fn remaining(&self, since: Duration) -> RemainingBudget {
        let rate = self.budget.unverified_total;
        let spent = self.total.spent_at(rate, since.as_millis() as u64);
        let rate = u64::from(rate);
        let spent = spent.div_ceil(1_000);
        let networks = self.networks.iter().flatten();
        RemainingBudget {
            bytes: rate.saturating_sub(spent),
            bytes_per_second: rate,
            tracked_networks: networks.filter(|network| network.prefix != 0).count() as u64,
            max_networks: (TABLE_ROWS * ROW_ENTRIES) as u64,
        }
    }

    /// Returns the capacity of the tables, in entries.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> usize {
        (self.sources.len() + self.networks.len()) * ROW_ENTRIES
    }

    /// Replaces `top` with the networks that sent the most requests since the last call, in
    /// descending order. `elapsed`: the time since the last call.
    pub(crate) fn top(&mut self, elapsed: Duration, top: &mut Vec<TopTalker>) {
        top.clear();
        let rate = |count: u32| f64::from(count) / elapsed.as_secs_f64().max(1e-3);
        for network in self.networks.iter_mut().flatten() {
            if network.flow.requests == 0 {
                continue;
            }
            let flow = std::mem::take(&mut network.flow);
            let requests_per_s = rate(flow.requests);
            if top.len() == MAX_TOP_TALKERS {
                if top
                    .last()
                    .is_some_and(|last| last.requests_per_s >= requests_per_s)
                {
                    continue;
                }
                top.pop();
            }
            let (address, bits) = network_address(network.prefix);
            let at = top.partition_point(|other| other.requests_per_s >= requests_per_s);
            let talker = TopTalker {
                network: address,
                bits,
                requests_per_s,
                request_bytes_per_s: rate(flow.request_bytes),
                replies_per_s: rate(flow.replies),
                reply_bytes_per_s: rate(flow.reply_bytes),
            };
            top.insert(at, talker);
        }
    }
}

/// An entry of a table.
trait TableEntry: Copy + Default {
    fn prefix(&self) -> u128;
    /// Returns the time of the last use, in milliseconds.
    fn used_at(&self) -> u64;
    fn new(prefix: u128) -> Self;
}

impl TableEntry for Source {
    fn prefix(&self) -> u128 {
        self.prefix
    }

    fn used_at(&self) -> u64 {
        // Packets are checked before bytes, so their buckets have the time of the last use.
        self.packets
            .refilled_at()
            .max(self.verified_packets.refilled_at())
    }

    fn new(prefix: u128) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }
}

impl TableEntry for NetworkSpending {
    fn prefix(&self) -> u128 {
        self.prefix
    }

    fn used_at(&self) -> u64 {
        self.unverified.refilled_at()
    }

    fn new(prefix: u128) -> Self {
        Self {
            prefix,
            ..Self::default()
        }
    }
}

/// Returns the entry of a prefix. A new one replaces the least recently used entry of its row.
fn entry<T: TableEntry>(rows: &mut [[T; ROW_ENTRIES]], prefix: u128, factor: u64) -> &mut T {
    let (row, found) = row(rows, prefix, factor);
    let at = found.unwrap_or_else(|| {
        let oldest = oldest(row);
        row[oldest] = T::new(prefix);
        oldest
    });
    &mut row[at]
}

/// Returns the row that a prefix belongs to, and the position of its entry there, if any.
fn row<T: TableEntry>(
    rows: &mut [[T; ROW_ENTRIES]],
    prefix: u128,
    factor: u64,
) -> (&mut [T; ROW_ENTRIES], Option<usize>) {
    // Multiply-shift hashing. The factor is secret, so even prefixes that an attacker chooses share a
    // row with a probability of at most 2 in `TABLE_ROWS`.
    let hash = (prefix as u64).wrapping_mul(factor) >> (u64::BITS - TABLE_ROWS.ilog2());
    let row = &mut rows[hash as usize];
    let found = row.iter().position(|entry| entry.prefix() == prefix);
    (row, found)
}

fn oldest<T: TableEntry>(row: &[T; ROW_ENTRIES]) -> usize {
    (0..ROW_ENTRIES)
        .min_by_key(|&i| row[i].used_at())
        .unwrap_or(0)
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
    fn limits_a_source_to_its_burst_and_then_its_rate() {
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
            "verified sources have a separate budget"
        );
        assert_eq!(
            spend_all(&mut limiter, source, 64, false, SECOND * 1000),
            32 << 10,
            "at most the burst"
        );
    }

    #[test]
    fn counts_an_ipv6_64_and_a_mapped_ipv4_address_as_one_source() {
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
    fn limits_all_unverified_sources_together() {
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
    fn exempts_challenges_from_the_total() {
        // Requests and challenges of Minecraft Query and OneQuery, and the short reply of UGP.
        for (request, reply) in [(7, 16), (9, 48), (10, 79)] {
            let mut limiter = RateLimiter::new(Budget::default(), 1);
            for i in 0..200_000u32 {
                let source = IpAddr::V4((0x0A00_0000 + i * 256).into());
                assert!(
                    limiter.try_spend(source, request, reply, false, SECOND),
                    "{request} {i}"
                );
            }
        }
        assert!(
            !is_free(10, 87),
            "the longest exempt reply to 10 bytes has 86"
        );
    }

    #[test]
    fn charges_nothing_for_a_refused_reply() {
        let budget = Budget {
            unverified_total: 1_000,
            ..Budget::default()
        };
        let mut limiter = RateLimiter::new(budget, 1);
        assert!(limiter.try_spend(ip("192.0.2.1"), 1, 1_000, false, SECOND));
        let source = ip("198.51.100.1");
        for _ in 0..1_000 {
            assert!(
                !limiter.try_spend(source, 1, 1_000, false, SECOND),
                "the total is used up"
            );
        }
        assert!(
            limiter.try_spend(source, 100, 100, false, SECOND),
            "the source has its budget"
        );
    }

    #[test]
    fn limits_networks_and_packets() {
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
    fn lists_the_networks_with_most_requests() {
        let mut limiter = RateLimiter::new(Budget::default(), 1);
        let mut top = Vec::new();
        let flood = ip("192.0.2.7");
        let monitor = ip("2001:db8:0:ab::1");
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
        assert_eq!(seen(&top), [], "since the last call");
        // A flood of unanswered requests evicts no network in use.
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
    fn evicts_the_least_recently_used_source() {
        let mut limiter = RateLimiter::new(Budget::default(), 1);
        let greedy = ip("192.0.2.7");
        let old = ip("198.51.100.1");
        spend_all(&mut limiter, old, 1, false, Duration::from_millis(1));
        // A source that uses up its packets and not its bytes is in use as well.
        let mut sent = 0;
        for i in 0..40_000u32 {
            let now = SECOND + Duration::from_millis(u64::from(i) / 100);
            limiter.try_spend(IpAddr::V4((0x0A00_0000 + i * 256).into()), 1, 1, false, now);
            sent += usize::from(limiter.try_spend(greedy, 1, 1, false, now));
        }
        assert!(
            (512..=512 + 52).contains(&sent),
            "a burst and the refill of 0.4 s, never evicted: {sent}"
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
    fn applies_a_new_budget_immediately() {
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
            "spent bytes stay spent"
        );
        assert_eq!(limiter.remaining(SECOND).bytes_per_second, 100 << 10);
        budget.unverified_per_source = 1 << 10;
        limiter.change(budget);
        assert_eq!(spend_all(&mut limiter, source, 256, false, SECOND), 0);
    }

    #[test]
    fn exempts_loopback_by_default() {
        let mut limiter = RateLimiter::new(
            Budget {
                is_loopback_limited: true,
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
    fn caps_a_protocol_without_challenges_and_then_sends_short_replies() {
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
        let board = Board::new(&[&hailer_proto::ugp::PROTOCOL], &status).unwrap();
        let mut service = Service::new(board, Budget::default());
        const REQUEST: &[u8] = b"\xFF\xFFUGP\0\x01\x01\x0B\x7D\x7F\x3D\x07";
        let mut ask = |from: u32, since: Duration| {
            let from = (std::net::Ipv4Addr::from(from), 50_000).into();
            service
                .answer_at(from, REQUEST, since)
                .map(<[u8]>::len)
                .sum()
        };
        let one = ask(0x0101_0101, SECOND);
        assert!((900..=1_024).contains(&one), "{one}");
        // One source: 4 seconds' worth of its budget, then 1 for each second.
        let sent: usize = one + (0..1_000).map(|_| ask(0x0101_0101, SECOND)).sum::<usize>();
        assert!(sent <= 32 << 10 && sent > 31 << 10, "{sent}");
        let sent: usize = (0..1_000).map(|_| ask(0x0101_0101, SECOND * 2)).sum();
        assert!(
            sent <= (8 << 10) + 1_024,
            "{sent}, with the rest of the burst"
        );
        // Many sources in different networks: full replies up to the total, then short ones.
        let replies: Vec<usize> = (0..50_000)
            .map(|i| ask(0x0A00_0000 + i * 256, SECOND * 100))
            .collect();
        let full: usize = replies.iter().filter(|length| **length >= 900).sum();
        assert!(full <= 1 << 20 && full > 1 << 19, "{full}");
        assert!(
            replies
                .iter()
                .all(|length| *length >= 900 || is_free(REQUEST.len(), *length))
        );
        assert!(
            replies.iter().all(|length| *length > 0),
            "every source got a reply"
        );
        assert!(
            is_free(REQUEST.len(), ask(0x0101_0101, SECOND * 100)),
            "the total is used up"
        );
    }
}
