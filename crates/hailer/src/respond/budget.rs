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
    pub unproven_per_source: u32,
    /// Datagrams to one source that proved nothing, per second; the burst is four seconds' worth.
    pub unproven_packets: u32,
    /// To one network (IPv4 /24, IPv6 /56) whose sources proved nothing, per second; the burst is four seconds' worth.
    pub unproven_per_network: u32,
    /// To all sources that proved nothing, per second, in replies of more than [`HARMLESS`] times their request; the burst
    /// is one second's worth.
    pub unproven_total: u32,
    /// The same in datagrams.
    pub unproven_total_packets: u32,
    /// To one source that proved its address, per second; the burst is four seconds' worth.
    pub proven_per_source: u32,
    /// The same in datagrams.
    pub proven_packets: u32,
    /// Whether loopback sources are limited too. They cannot be forged from outside, so they are not.
    pub limit_loopback: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            unproven_per_source: 8 << 10,
            unproven_packets: 128,
            unproven_per_network: 64 << 10,
            unproven_total: 1 << 20,
            unproven_total_packets: 10_000,
            proven_per_source: 1 << 20,
            proven_packets: 20_000,
            limit_loopback: false,
        }
    }
}

impl Budget {
    /// The share of one of so many workers, if all that comes from one network goes to one of them.
    #[must_use]
    pub fn share(mut self, workers: usize) -> Self {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX).max(1);
        (self.unproven_total, self.unproven_total_packets) =
            (self.unproven_total / workers, self.unproven_total_packets.div_ceil(workers));
        self
    }
}

/// The growth from request to reply that is taken for harmless: what QUIC allows (RFC 9000, section 8.1).
pub const HARMLESS: usize = 3;
const BURST_SECONDS: u64 = 4;
/// Sources and networks remembered: 8,192 of each, of 96 and 48 bytes; one looks for its place in a row of four.
const ROWS: usize = 2_048;
const ROW: usize = 4;
/// The networks that were sent most are found among those remembered.
const MOST_TOP: usize = 20;

/// What is left of a budget.
pub struct Purse {
    budget: Budget,
    seed: u64,
    total: Bucket,
    total_packets: Bucket,
    sources: Box<[[Source; ROW]]>,
    networks: Box<[[Network; ROW]]>,
}

#[derive(Clone, Copy, Default)]
struct Source {
    /// Network prefix; 0 is nobody.
    prefix: u128,
    unproven: Bucket,
    packets: Bucket,
    proven: Bucket,
    proven_packets: Bucket,
}

#[derive(Clone, Copy, Default)]
struct Network {
    prefix: u128,
    unproven: Bucket,
    /// What was sent there since it is remembered, proven or not, loopback included.
    sent: u64,
    bytes: u64,
}

/// How much of a purse is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Bytes for all sources that proved nothing.
    pub bytes: u64,
    /// What flows back in a second, and the most that is ever left.
    pub bytes_per_second: u64,
    /// Networks remembered.
    pub networks: u64,
    /// Networks that there is room for.
    pub places: u64,
}

/// What was sent to a network since it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Top {
    /// Its first address.
    pub network: IpAddr,
    /// Leading bits that its addresses share.
    pub bits: u8,
    /// Replies.
    pub packets: u64,
    /// Bytes of payload.
    pub bytes: u64,
}

impl Top {
    /// The most of several lists, the greatest first.
    pub(super) fn merged(all: impl Iterator<Item = Self>) -> Vec<Self> {
        let mut merged: Vec<Self> = Vec::new();
        for one in all {
            match merged.iter_mut().find(|other| other.network == one.network) {
                Some(other) => (other.packets, other.bytes) = (other.packets + one.packets, other.bytes + one.bytes),
                None => merged.push(one),
            }
        }
        merged.sort_by_key(|top| std::cmp::Reverse((top.bytes, top.packets)));
        merged.truncate(MOST_TOP);
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

impl Purse {
    /// A full purse. The seed keeps outsiders from choosing who shares a row with whom.
    pub fn new(budget: Budget, seed: u64) -> Self {
        let (sources, networks) = (vec![Default::default(); ROWS].into(), vec![Default::default(); ROWS].into());
        Self { budget, seed, total: Bucket::default(), total_packets: Bucket::default(), sources, networks }
    }

    /// Pays for a reply of `length` bytes to a request of `asked`, or refuses. What is no more than [`HARMLESS`] times the
    /// request is not paid by everybody: a flood of requests from forged sources must not keep all others from being
    /// answered, and whoever sends it gains nothing by our replies.
    pub fn spend(&mut self, to: IpAddr, asked: usize, length: usize, proven: bool, since: Duration) -> bool {
        let to = to.to_canonical();
        let Budget { unproven_per_source, unproven_packets, unproven_per_network, .. } = self.budget;
        let Budget { unproven_total, unproven_total_packets, proven_per_source, proven_packets, .. } = self.budget;
        let now = since.as_millis() as u64;
        let network = place(&mut self.networks, network(to), self.seed);
        let is_free = to.is_loopback() && !self.budget.limit_loopback;
        let is_paid = is_free || {
            let source = place(&mut self.sources, source(to), self.seed);
            if proven {
                source.proven_packets.spend(1, proven_packets, BURST_SECONDS, now)
                    && source.proven.spend(length, proven_per_source, BURST_SECONDS, now)
            } else {
                source.packets.spend(1, unproven_packets, BURST_SECONDS, now)
                    && source.unproven.spend(length, unproven_per_source, BURST_SECONDS, now)
                    && network.unproven.spend(length, unproven_per_network, BURST_SECONDS, now)
                    && (length <= asked * HARMLESS
                        || self.total_packets.spend(1, unproven_total_packets, 1, now)
                            && self.total.spend(length, unproven_total, 1, now))
            }
        };
        if is_paid {
            (network.sent, network.bytes) = (network.sent + 1, network.bytes + length as u64);
        }
        // The one unused for longest makes room, so it must be known when a network was used.
        network.unproven.at = network.unproven.at.max(now);
        is_paid
    }

    /// How much is left.
    pub fn left(&self, since: Duration) -> Left {
        let (rate, now) = (u64::from(self.budget.unproven_total), since.as_millis() as u64);
        let flown = now.saturating_sub(self.total.at).saturating_mul(rate);
        let spent = self.total.spent.saturating_sub(flown).div_ceil(1_000);
        Left {
            bytes: rate.saturating_sub(spent),
            bytes_per_second: rate,
            networks: self.networks.iter().flatten().filter(|network| network.prefix != 0).count() as u64,
            places: (ROWS * ROW) as u64,
        }
    }

    /// The networks that were sent most, the greatest first, in place of what `top` held.
    pub(super) fn top(&self, top: &mut Vec<Top>) {
        top.clear();
        for network in self.networks.iter().flatten().filter(|network| network.sent > 0) {
            let least = top.last().filter(|_| top.len() == MOST_TOP).map_or(0, |least| least.bytes);
            if network.bytes > least {
                top.truncate(MOST_TOP - 1);
                let (address, bits) = address(network.prefix);
                let at = top.partition_point(|other: &Top| other.bytes >= network.bytes);
                top.insert(at, Top { network: address, bits, packets: network.sent, bytes: network.bytes });
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
        self.unproven.at.max(self.proven.at)
    }

    fn new(prefix: u128) -> Self {
        Self { prefix, ..Self::default() }
    }
}

impl Placed for Network {
    fn prefix(&self) -> u128 {
        self.prefix
    }

    fn used_at(&self) -> u64 {
        self.unproven.at
    }

    fn new(prefix: u128) -> Self {
        Self { prefix, ..Self::default() }
    }
}

/// The place of a prefix; the one unused for longest makes room.
fn place<T: Placed>(rows: &mut [[T; ROW]], prefix: u128, seed: u64) -> &mut T {
    let mut hasher = SipHasher13::new_with_keys(seed, 0);
    hasher.write_u128(prefix);
    let row = &mut rows[hasher.finish() as usize % ROWS];
    let place = row.iter().position(|placed| placed.prefix() == prefix).unwrap_or_else(|| {
        let oldest = (0..ROW).min_by_key(|&i| row[i].used_at()).unwrap_or(0);
        row[oldest] = T::new(prefix);
        oldest
    });
    &mut row[place]
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

    fn spend_all(purse: &mut Purse, to: IpAddr, length: usize, proven: bool, since: Duration) -> usize {
        (0..1_000_000).take_while(|_| purse.spend(to, 1, length, proven, since)).count() * length
    }

    #[test]
    fn a_source_gets_its_burst_and_then_its_rate() {
        let mut purse = Purse::new(Budget::default(), 1);
        let source = ip("192.0.2.7");
        assert_eq!(spend_all(&mut purse, source, 64, false, SECOND), 32 << 10);
        assert_eq!(spend_all(&mut purse, source, 64, false, SECOND * 2), 8 << 10);
        assert_eq!(spend_all(&mut purse, source, 64, true, SECOND * 2), 4 << 20, "proving the address helps");
        assert_eq!(spend_all(&mut purse, source, 64, false, SECOND * 1000), 32 << 10, "no more than the burst");
    }

    #[test]
    fn one_network_is_one_source() {
        let mut purse = Purse::new(Budget::default(), 1);
        assert!(spend_all(&mut purse, ip("2001:db8::1"), 64, false, SECOND) > 0);
        assert_eq!(spend_all(&mut purse, ip("2001:db8::2"), 64, false, SECOND), 0);
        assert!(spend_all(&mut purse, ip("2001:db8:0:1::1"), 64, false, SECOND) > 0);
        assert!(spend_all(&mut purse, ip("192.0.2.1"), 64, false, SECOND) > 0);
        assert_eq!(spend_all(&mut purse, ip("::ffff:192.0.2.1"), 64, false, SECOND), 0);
    }

    #[test]
    fn forged_sources_together_get_no_more_than_the_total() {
        let mut purse = Purse::new(Budget::default(), 1);
        let mut sent = 0;
        for i in 0..200_000u32 {
            let source = IpAddr::V4((0x0A00_0000 + i).into());
            sent += if purse.spend(source, 1, 1_000, false, SECOND) { 1_000 } else { 0 };
        }
        assert!(sent <= 1 << 20, "{sent}");
        assert!(sent > 1_000_000, "{sent}");
    }

    #[test]
    fn a_flood_of_small_requests_starves_nobody() {
        let mut purse = Purse::new(Budget::default(), 1);
        let all =
            (0..200_000u32).all(|i| purse.spend(IpAddr::V4((0x0A00_0000 + i * 256).into()), 7, 16, false, SECOND));
        assert!(all, "each is a network of its own, and gets hardly more than it sent");
    }

    #[test]
    fn networks_and_packets_are_limited_too() {
        let mut purse = Purse::new(Budget::default(), 1);
        let hosts = (0..=255).map(|i| IpAddr::from([192, 0, 2, i]));
        let sent: usize = hosts.map(|host| spend_all(&mut purse, host, 64, false, SECOND)).sum();
        assert_eq!(sent, 256 << 10, "eight sources' worth");
        assert_eq!(spend_all(&mut purse, ip("198.51.100.1"), 1, false, SECOND), 512, "packets of four seconds");
        let mut top = Vec::new();
        purse.top(&mut top);
        assert_eq!(
            top.iter().map(|top| (top.network, top.bits, top.bytes)).collect::<Vec<_>>(),
            [(ip("192.0.2.0"), 24, 256 << 10), (ip("198.51.100.0"), 24, 512)]
        );
    }

    #[test]
    fn loopback_is_free_unless_told_otherwise() {
        let mut purse = Purse::new(Budget { limit_loopback: true, ..Budget::default() }, 1);
        assert_eq!(spend_all(&mut purse, ip("127.0.0.1"), 1024, false, SECOND), 32 << 10);
        let mut purse = Purse::new(Budget::default(), 1);
        assert!((0..100_000).all(|_| purse.spend(ip("127.0.0.1"), 1, 1024, false, SECOND)));
    }
}
