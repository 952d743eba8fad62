//! Probe source for a list that is known in full, in random order and from any position.
//!
//! At most 1,024 names are looked up ahead of their probes.

use super::collector::{Digest, Item, Targets};
use super::lookups::Lookups;
use super::order::{Order, Shard};
use crate::sweep::engine::services::TargetKind;
use crate::sweep::{Exclusions, Next, Position, ProbeSource};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// Most names to take from the list in one call of `next`.
const NAMES_AT_ONCE: usize = 64;
/// Most targets to fetch together. They are far apart in memory, and fetching several at a time
/// lets the cache misses overlap.
const BATCH: usize = 16;

/// Configuration of a probe source.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SourceConfig {
    /// Seed of the target order. To continue a sweep, use the same seed.
    pub seed: u64,
    /// Share of the targets to query.
    pub shard: Shard,
    /// Name server for lookups, or `None` for the resolver of the system.
    pub name_server: Option<SocketAddr>,
    /// Largest number of concurrent lookups, from 1 to 1,024.
    pub lookups: usize,
}

impl Default for SourceConfig {
    fn default() -> Self {
        Self {
            seed: 0,
            shard: Shard::default(),
            name_server: None,
            lookups: 64,
        }
    }
}

/// Source of probes from a list that is known in full.
///
/// The index of a probe is its place in the order. Names are looked up at most 1,024 ahead and
/// queried as soon as they have an address, so a slow lookup delays no other probe. If a name has
/// several addresses, the first is queried. Two names with the same address are two probes, except
/// those of master servers.
pub struct ListSource {
    targets: Targets,
    exclusions: Arc<Exclusions>,
    order: Order,
    walk: SourceConfig,
    /// Places before `next` that an earlier sweep left unfinished.
    again: VecDeque<u64>,
    next: u64,
    /// Prefetched targets of `next` and the following places, last first.
    batch: Vec<Fetched>,
    lookups: Lookups,
    /// Addresses of names of master servers, and the name that came first.
    listed: HashMap<SocketAddr, Arc<str>>,
}

impl fmt::Debug for ListSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListSource")
            .field("targets", &self.targets.len())
            .finish_non_exhaustive()
    }
}

/// A target, or the index of a name.
enum Fetched {
    Address(SocketAddr, TargetKind),
    Name(u64),
}

impl ListSource {
    /// Creates a source of all targets in the share. The exclusions apply to the addresses of
    /// names.
    pub fn new(targets: Targets, exclusions: Arc<Exclusions>, walk: SourceConfig) -> Self {
        Self {
            order: Order::new(targets.len(), walk.seed),
            again: VecDeque::new(),
            next: walk.shard.first_from(0),
            batch: Vec::with_capacity(BATCH),
            lookups: Lookups::new(walk.name_server, walk.lookups, exclusions.clone()),
            targets,
            exclusions,
            walk,
            listed: HashMap::new(),
        }
    }

    /// Returns the index of a probe whose name is from a master server if its address is that of
    /// another target.
    fn repeated(&mut self, next: &Next) -> Option<u64> {
        let Next::Probe(probe) = next else {
            return None;
        };
        let index = self.order.at(probe.index)?;
        let Some(Item::Name(name)) = self.targets.item(index) else {
            return None;
        };
        if !name.is_listed() {
            return None;
        }
        let first = self.listed.entry(probe.address);
        let first = first.or_insert_with(|| name.host().clone());
        let is_known = first != name.host() || self.targets.has_address(probe.address);
        is_known.then_some(probe.index)
    }

    /// Continues an earlier sweep with the same [`digest`](Self::digest): first its unfinished
    /// probes, then the rest. Call it before the first probe.
    pub fn resume(&mut self, position: &Position) {
        let is_ours = |place: &u64| {
            *place < position.next && *place < self.targets.len() && self.walk.shard.holds(*place)
        };
        let mut again: Vec<u64> = position
            .unfinished
            .iter()
            .copied()
            .filter(is_ours)
            .collect();
        again.sort_unstable();
        again.dedup();
        self.again = again.into();
        self.batch.clear();
        self.next = self.walk.shard.first_from(position.next);
    }

    /// Returns the targets.
    pub fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Returns a digest of everything that maps indices to probes: targets, exclusions, seed and
    /// share. Slow for millions of targets.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest::new("list");
        self.walk.digest(&mut digest, &self.exclusions);
        self.targets.digest(&mut digest);
        digest.end()
    }

    /// Returns the next place and its target.
    fn step(&mut self) -> Option<(u64, Fetched)> {
        if let Some(place) = self.again.pop_front() {
            return Some((place, self.fetch(self.order.at(place)?)?));
        }
        if self.batch.is_empty() {
            let mut indices = [0; BATCH];
            let mut count = 0;
            let mut place = self.next;
            while count < BATCH
                && let Some(index) = self.order.at(place)
            {
                indices[count] = index;
                count += 1;
                place = self.walk.shard.after(place);
            }
            // No element depends on the one before, so the processor overlaps the loads.
            let mut batch = std::mem::take(&mut self.batch);
            batch.extend(
                indices[..count]
                    .iter()
                    .rev()
                    .filter_map(|index| self.fetch(*index)),
            );
            self.batch = batch;
        }
        let fetched = self.batch.pop()?;
        let place = self.next;
        self.next = self.walk.shard.after(place);
        Some((place, fetched))
    }

    fn fetch(&self, index: u64) -> Option<Fetched> {
        Some(match self.targets.item(index)? {
            Item::Address(address, kind) => Fetched::Address(address, kind),
            Item::Name(_) => Fetched::Name(index),
        })
    }
}

impl SourceConfig {
    pub(crate) fn digest(&self, digest: &mut Digest, exclusions: &Exclusions) {
        [self.seed, self.shard.number(), self.shard.of()]
            .iter()
            .for_each(|number| digest.number(*number));
        digest.number(exclusions.spans().len() as u64);
        exclusions
            .spans()
            .iter()
            .for_each(|span| digest.span(*span));
    }
}

impl ProbeSource for ListSource {
    fn next(&mut self) -> Next {
        if let Some(next) = self.lookups.next() {
            return match self.repeated(&next) {
                Some(index) => Next::Repeat {
                    index,
                    is_failed: false,
                },
                None => next,
            };
        }
        for _ in 0..NAMES_AT_ONCE {
            if self.lookups.is_full() {
                return Next::Pending;
            }
            let Some((index, fetched)) = self.step() else {
                return if self.lookups.is_empty() {
                    Next::Done
                } else {
                    Next::Pending
                };
            };
            match fetched {
                Fetched::Address(address, kind) => return Next::address(index, address, kind),
                Fetched::Name(at) => {
                    if let Some(Item::Name(name)) = self.targets.item(at) {
                        self.lookups.ask(index, name.clone());
                    }
                }
            }
        }
        Next::Pending
    }

    fn total(&self) -> Option<u64> {
        Some(self.walk.shard.count(self.targets.len()))
    }

    fn position(&self) -> Position {
        let mut unfinished: Vec<u64> = self
            .again
            .iter()
            .copied()
            .chain(self.lookups.indices())
            .collect();
        unfinished.sort_unstable();
        Position {
            next: self.next,
            unfinished,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::Collector;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn targets(lines: &[&str]) -> Targets {
        let mut collector = Collector::new(&[]).unwrap();
        lines.iter().for_each(|line| collector.add(line).unwrap());
        collector.finish(&Exclusions::default()).unwrap()
    }

    fn list(lines: &[&str], seed: u64, shard: Shard) -> ListSource {
        ListSource::new(
            targets(lines),
            Arc::default(),
            SourceConfig {
                seed,
                shard,
                ..SourceConfig::default()
            },
        )
    }

    /// Returns the next probes, at most `most`, by index.
    fn take(list: &mut ListSource, most: usize) -> Vec<(u64, (SocketAddr, &'static str))> {
        let mut taken = Vec::new();
        while taken.len() < most {
            match list.next() {
                Next::Probe(probe) => {
                    taken.push((probe.index, (probe.address, probe.protocol.info().id)));
                }
                Next::Done => break,
                _ => panic!("no names are looked up"),
            }
        }
        taken
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Each probe finishes exactly once, however often the sweep is interrupted.
        #[test]
        fn nothing_is_lost_or_doubled_by_a_cut(
            seed: u64,
            (number, of) in (1_u64..5).prop_flat_map(|of| (1..=of, Just(of))),
            cuts in prop::collection::vec((0_usize..200, any::<u64>()), 0..5),
        ) {
            let lines = ["192.0.2.0/26", "ugp://198.51.100.7:1", "2001:db8::/126", "192.0.2.9"];
            let shard = Shard::new(number, of).unwrap();
            let mut position = Position::default();
            let mut finished = BTreeMap::new();
            for (cut, ends) in cuts.into_iter().chain([(usize::MAX, u64::MAX)]) {
                let mut list = list(&lines, seed, shard);
                position.unfinished.sort_unstable();
                list.resume(&position);
                prop_assert_eq!(list.position().unfinished, &*position.unfinished);
                let given = take(&mut list, cut);
                position = list.position();
                for (index, whom) in given {
                    prop_assert!(index < position.next && !position.unfinished.contains(&index) && shard.holds(index));
                    match ends >> (index % 64) & 1 {
                        1 => prop_assert!(finished.insert(index, whom).is_none(), "{} twice", index),
                        _ => position.unfinished.push(index),
                    }
                }
            }
            let mut whole = list(&lines, seed, shard);
            prop_assert_eq!(Some(finished.len() as u64), whole.total());
            prop_assert_eq!(finished, take(&mut whole, usize::MAX).into_iter().collect::<BTreeMap<_, _>>());
        }
    }

    #[test]
    fn digest_differs_between_lists() {
        let one = Shard::default();
        let digest = |lines: &[&str], seed, shard| list(lines, seed, shard).digest();
        let first = digest(&["192.0.2.1", "ugp://host", "192.0.2.0/29:1"], 7, one);
        assert_eq!(
            first,
            digest(
                &["192.0.2.0/29:1", "192.0.2.1", "192.0.2.1", "ugp://host"],
                7,
                one
            )
        );
        for (lines, seed, shard) in [
            (["192.0.2.2", "ugp://host", "192.0.2.0/29:1"], 7, one),
            (["192.0.2.1", "ugp://other", "192.0.2.0/29:1"], 7, one),
            (["192.0.2.1", "ugp://host:1", "192.0.2.0/29:1"], 7, one),
            (["192.0.2.1", "ugp://host", "192.0.2.0/28:1"], 7, one),
            (["192.0.2.1", "ugp://host", "192.0.2.0/29:1"], 8, one),
            (
                ["192.0.2.1", "ugp://host", "192.0.2.0/29:1"],
                7,
                Shard::new(1, 2).unwrap(),
            ),
        ] {
            assert_ne!(
                first,
                digest(&lines, seed, shard),
                "{lines:?}, {seed}, {shard}"
            );
        }
        let mut exclusions = Exclusions::default();
        exclusions.add("203.0.113.0/24").unwrap();
        let walk = SourceConfig {
            seed: 7,
            ..SourceConfig::default()
        };
        let lines = ["192.0.2.1", "ugp://host", "192.0.2.0/29:1"];
        assert_ne!(
            first,
            ListSource::new(targets(&lines), exclusions.into(), walk).digest()
        );
        // Checkpoints depend on this value. Change it only together with the order.
        assert_eq!(first, 11_653_188_560_571_589_721);
    }
}
