//! Detects joins of games whose handshake is unknown: sources that keep sending (spec/joins.md#6).
//!
//! | limit | value |
//! | --- | --- |
//! | sources | 1,024; further ones are ignored until others stop sending |
//! | sources of one network (/24 or /56) | 64 |

use crate::prefix::network;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Datagrams of a join.
const MIN_DATAGRAMS: u32 = 5;
/// Shortest time between the first and the last of them.
const MIN_DURATION: Duration = Duration::from_secs(3);
/// Longest pause of a source that joins.
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// How often sources that stopped are removed, if the table is full.
const CLEANING_INTERVAL: Duration = Duration::from_secs(1);
const MAX_SOURCES: usize = 1_024;
const MAX_NETWORK_SOURCES: u32 = 64;

/// Sources that send datagrams of no protocol.
#[derive(Default)]
pub(crate) struct TrafficTable {
    sources: HashMap<SocketAddr, Traffic>,
    networks: HashMap<u128, u32>,
    cleaned: Option<Instant>,
}

struct Traffic {
    first: Instant,
    last: Instant,
    datagrams: u32,
}

impl TrafficTable {
    /// Records a datagram. Returns whether the source joins with it.
    pub(crate) fn record(&mut self, source: SocketAddr, now: Instant) -> bool {
        let Some(traffic) = self.sources.get_mut(&source) else {
            self.insert(source, now);
            return false;
        };
        if now.saturating_duration_since(traffic.last) > MAX_PAUSE {
            traffic.first = now;
            traffic.datagrams = 0;
        }
        traffic.last = now;
        traffic.datagrams = traffic.datagrams.saturating_add(1);
        traffic.datagrams >= MIN_DATAGRAMS
            && now.saturating_duration_since(traffic.first) >= MIN_DURATION
    }

    fn insert(&mut self, source: SocketAddr, now: Instant) {
        let prefix = network(source.ip().to_canonical());
        let is_full = |table: &Self| {
            table.sources.len() >= MAX_SOURCES
                || table.networks.get(&prefix).copied().unwrap_or(0) >= MAX_NETWORK_SOURCES
        };
        if is_full(self) {
            self.clean(now);
        }
        if is_full(self) {
            return;
        }
        *self.networks.entry(prefix).or_default() += 1;
        let traffic = Traffic {
            first: now,
            last: now,
            datagrams: 1,
        };
        self.sources.insert(source, traffic);
    }

    /// Removes sources that stopped, at most once per second.
    fn clean(&mut self, now: Instant) {
        let age = |at| now.saturating_duration_since(at);
        if self.cleaned.is_some_and(|at| age(at) < CLEANING_INTERVAL) {
            return;
        }
        self.cleaned = Some(now);
        self.sources
            .retain(|_, traffic| age(traffic.last) <= MAX_PAUSE);
        self.networks.clear();
        for source in self.sources.keys() {
            let prefix = network(source.ip().to_canonical());
            *self.networks.entry(prefix).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_testkit::week::WEEK;

    fn source(network: u32, port: u16) -> SocketAddr {
        let [_, a, b, c] = network.to_be_bytes();
        SocketAddr::from(([10 + a, b, c, 7], port))
    }

    /// Records datagrams at these times in milliseconds. Returns whether each is a join.
    fn joins(times: &[u64]) -> Vec<bool> {
        let mut table = TrafficTable::default();
        let start = Instant::now();
        let times = times.iter();
        times
            .map(|at| table.record(source(0, 1), start + Duration::from_millis(*at)))
            .collect()
    }

    #[test]
    fn only_a_source_that_keeps_sending_joins() {
        assert_eq!(
            joins(&[0, 1_000, 2_000, 2_500, 3_000, 4_000]),
            [false, false, false, false, true, true]
        );
        assert_eq!(joins(&[0, 1, 2, 3, 4, 5, 6]), [false; 7], "a burst");
        assert_eq!(joins(&[0, 1_000, 2_000, 3_000]), [false; 4], "a scanner");
        assert_eq!(
            joins(&[0, 5_001, 10_002, 15_003, 20_004, 25_005]),
            [false; 6],
            "pauses"
        );
    }

    #[test]
    fn joins_arrive_for_a_simulated_week_of_scans() {
        let mut table = TrafficTable::default();
        let start = Instant::now();
        let mut joined = 0;
        let mut scanned = 0;
        // Each hour, one player sends every 500 ms for 10 s, among 3,000 sources that send twice.
        for hour in 0..WEEK.as_secs() as u32 / 3_600 {
            let hour_start = start + Duration::from_secs(3_600) * hour;
            let mut has_joined = false;
            for step in 0..20_u32 {
                let now = hour_start + Duration::from_millis(500) * step;
                for scan in 0..150 {
                    let scanner = source(hour * 4_000 + step * 150 + scan, 9);
                    let is_join = table.record(scanner, now) | table.record(scanner, now);
                    scanned += usize::from(is_join);
                }
                has_joined |= table.record(source(0xAA_AAAA, 5), now);
                assert!(table.sources.len() <= MAX_SOURCES);
                assert!(table.networks.len() <= MAX_SOURCES);
            }
            joined += u32::from(has_joined);
        }
        assert_eq!((joined, scanned), (168, 0));
    }

    #[test]
    fn one_network_leaves_room_for_others() {
        let mut table = TrafficTable::default();
        let start = Instant::now();
        let mut has_joined = false;
        for step in 0..8_u64 {
            let now = start + Duration::from_millis(500 * step);
            for port in 1..2_000 {
                table.record(source(1, port), now);
            }
            has_joined |= table.record(source(2, 1), now);
            assert!(table.sources.len() <= 65);
        }
        assert!(has_joined);
    }
}
