//! The last snapshots, and the rates between them.

use crate::observe::snapshot::{Counts, Listener, Snapshot};
use std::collections::VecDeque;

/// Maximum number of rates. N rates need N + 1 snapshots.
pub(super) const MAX_RATES: usize = 60;

/// The last snapshots of one process, oldest first.
#[derive(Default)]
pub(super) struct History(VecDeque<Snapshot>);

impl History {
    /// Adds a snapshot. A snapshot of another process starts a new history, and the id of the old
    /// process is returned.
    pub(super) fn push(&mut self, snapshot: Snapshot) -> Option<u32> {
        let last = self.0.back();
        let other = last.filter(|last| {
            (last.pid, last.started_at_ms) != (snapshot.pid, snapshot.started_at_ms)
                || last.uptime_s > snapshot.uptime_s
        });
        let before = other.map(|last| last.pid);
        if before.is_some() {
            self.0.clear();
        }
        if self.0.len() > MAX_RATES {
            self.0.pop_front();
        }
        self.0.push_back(snapshot);
        before
    }

    /// Returns the newest snapshot.
    pub(super) fn last(&self) -> Option<&Snapshot> {
        self.0.back()
    }

    /// Returns the counts of a listener, or of all.
    pub(super) fn counts(&self, listener: Option<&str>) -> Counts {
        let mut all = Counts::default();
        if let Some(last) = self.last() {
            for one in chosen(last, listener) {
                all.add(&one.counts);
            }
        }
        all
    }

    /// Returns the growth of a counter per second between snapshots, oldest first, at most
    /// [`MAX_RATES`] values. A new listener starts without a rate, and removing one does not lower the
    /// others.
    pub(super) fn rates(
        &self,
        listener: Option<&str>,
        counter: impl Fn(&Counts) -> u64,
    ) -> Vec<f64> {
        let sum = |frame: &Snapshot| {
            chosen(frame, listener)
                .map(|one| counter(&one.counts))
                .sum::<u64>()
        };
        let values: Vec<_> = self
            .0
            .iter()
            .map(|frame| (frame.uptime_s, sum(frame)))
            .collect();
        let pairs = values.windows(2).filter(|pair| pair[1].0 > pair[0].0);
        pairs
            .map(|pair| pair[1].1.saturating_sub(pair[0].1) as f64 / (pair[1].0 - pair[0].0))
            .collect()
    }
}

fn chosen<'a>(
    snapshot: &'a Snapshot,
    listener: Option<&'a str>,
) -> impl Iterator<Item = &'a Listener> {
    snapshot
        .listeners
        .iter()
        .filter(move |one| listener.is_none_or(|address| one.address == address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(uptime_s: f64, counts: &[(&str, u64)]) -> Snapshot {
        let listener = |&(address, received): &(&str, u64)| Listener {
            address: address.into(),
            counts: Counts {
                received,
                ..Counts::default()
            },
            ..Listener::default()
        };
        Snapshot {
            pid: 1,
            uptime_s,
            listeners: counts.iter().map(listener).collect(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn rates_are_differences_over_time() {
        let mut history = History::default();
        let received = |counts: &Counts| counts.received;
        assert!(history.rates(None, received).is_empty());
        for snapshot in [
            at(10.0, &[("a", 5), ("b", 100)]),
            at(11.0, &[("a", 7), ("b", 100)]),
            at(13.0, &[("a", 7), ("b", 150)]),
            at(13.0, &[("a", 7), ("b", 150)]),
            at(14.0, &[("b", 151)]),
        ] {
            assert_eq!(history.push(snapshot), None);
        }
        assert_eq!(history.rates(None, received), [2.0, 25.0, 0.0]);
        assert_eq!(history.rates(Some("b"), received), [0.0, 25.0, 1.0]);
        assert_eq!(history.rates(Some("a"), received), [2.0, 0.0, 0.0]);
        assert_eq!(history.counts(None).received, 151);
    }

    #[test]
    fn another_process_begins_anew_and_memory_is_bounded() {
        let mut history = History::default();
        for i in 0..200 {
            assert_eq!(
                history.push(at(f64::from(i), &[("a", 10 * i as u64)])),
                None
            );
        }
        assert_eq!(
            history.rates(None, |counts| counts.received),
            [10.0; MAX_RATES]
        );
        assert_eq!(
            history.push(at(0.5, &[("a", 3)])),
            Some(1),
            "its clock went back"
        );
        assert!(history.rates(None, |counts| counts.received).is_empty());
        assert_eq!(
            history.push(Snapshot {
                pid: 2,
                ..at(9.0, &[])
            }),
            Some(1)
        );
    }
}
