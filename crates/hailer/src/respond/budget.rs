//! How much may be sent to whom: the part of a responder's safety that needs memory.
//!
//! A forged source address makes a server send to somebody who asked for nothing. Replies to askers that proved nothing
//! are therefore paid from two purses, the source's and everybody's; past them, silence. Sources live in a table of
//! fixed size, since they cannot be trusted to be few.

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
    /// To all sources that proved nothing, per second; the burst is one second's worth.
    pub unproven_total: u32,
    /// To one source that proved its address, per second; the burst is four seconds' worth.
    pub proven_per_source: u32,
    /// Whether loopback sources are limited too. They cannot be forged from outside, so they are not.
    pub limit_loopback: bool,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            unproven_per_source: 8 << 10,
            unproven_total: 1 << 20,
            proven_per_source: 1 << 20,
            limit_loopback: false,
        }
    }
}

const BURST_SECONDS: u64 = 4;
/// Sources remembered. 8,192 of 40 bytes each; a source looks for its place in a row of four.
const ROWS: usize = 2_048;
const ROW: usize = 4;

/// What is left of a budget.
pub struct Purse {
    budget: Budget,
    seed: u64,
    total: Bucket,
    rows: Box<[[Source; ROW]]>,
}

#[derive(Clone, Copy, Default)]
struct Source {
    /// Network prefix; 0 is nobody.
    prefix: u128,
    unproven: Bucket,
    proven: Bucket,
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
        Self { budget, seed, total: Bucket::default(), rows: vec![[Source::default(); ROW]; ROWS].into() }
    }

    /// Pays for a reply of `length` bytes, or refuses.
    pub fn spend(&mut self, to: IpAddr, length: usize, proven: bool, since: Duration) -> bool {
        if to.to_canonical().is_loopback() && !self.budget.limit_loopback {
            return true;
        }
        let now = since.as_millis() as u64;
        let Budget { unproven_per_source, unproven_total, proven_per_source, .. } = self.budget;
        let source = self.source(to);
        if proven {
            return source.proven.spend(length, proven_per_source, BURST_SECONDS, now);
        }
        source.unproven.spend(length, unproven_per_source, BURST_SECONDS, now)
            && self.total.spend(length, unproven_total, 1, now)
    }

    /// The place of a source; the one unused for longest makes room.
    fn source(&mut self, to: IpAddr) -> &mut Source {
        let prefix = prefix(to);
        let mut hasher = SipHasher13::new_with_keys(self.seed, 0);
        hasher.write_u128(prefix);
        let row = &mut self.rows[hasher.finish() as usize % ROWS];
        let place = row.iter().position(|source| source.prefix == prefix).unwrap_or_else(|| {
            let oldest = (0..ROW).min_by_key(|&i| row[i].unproven.at.max(row[i].proven.at)).unwrap_or(0);
            row[oldest] = Source { prefix, ..Source::default() };
            oldest
        });
        &mut row[place]
    }
}

/// One IPv4 address, or one IPv6 network of 64 bits: what one subscriber commands.
fn prefix(ip: IpAddr) -> u128 {
    match ip.to_canonical() {
        IpAddr::V4(ip) => 1 << 127 | u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits() >> 64 | 1 << 126,
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
        (0..1_000_000).take_while(|_| purse.spend(to, length, proven, since)).count() * length
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
            sent += if purse.spend(source, 1_000, false, SECOND) { 1_000 } else { 0 };
        }
        assert!(sent <= 1 << 20, "{sent}");
        assert!(sent > 1_000_000, "{sent}");
    }

    #[test]
    fn loopback_is_free_unless_told_otherwise() {
        let mut purse = Purse::new(Budget { limit_loopback: true, ..Budget::default() }, 1);
        assert_eq!(spend_all(&mut purse, ip("127.0.0.1"), 1024, false, SECOND), 32 << 10);
        let mut purse = Purse::new(Budget::default(), 1);
        assert!((0..100_000).all(|_| purse.spend(ip("127.0.0.1"), 1024, false, SECOND)));
    }
}
