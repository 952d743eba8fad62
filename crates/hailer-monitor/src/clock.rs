//! The clock of a node, and its comparison with the clocks of Redis and PostgreSQL.

use crate::sample::{Millis, unix_millis};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Largest difference to a reference without a warning, in milliseconds.
pub const MAX_DIFFERENCE_MS: Millis = 2_000;

/// Clock that dates the samples of a process: the system clock, plus an offset that tests set.
/// Clones share the offset.
#[derive(Clone, Debug, Default)]
pub struct WallClock(Arc<AtomicI64>);

impl WallClock {
    /// Returns the Unix time in milliseconds.
    pub fn now(&self) -> Millis {
        unix_millis() + self.0.load(Ordering::Relaxed)
    }

    /// Sets the offset to the system clock, in milliseconds.
    pub fn set_offset(&self, offset: Millis) {
        self.0.store(offset, Ordering::Relaxed);
    }
}

/// A clock that the clock of a node is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The server of Redis.
    Redis,
    /// The server of PostgreSQL.
    Postgres,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Redis => "Redis",
            Self::Postgres => "PostgreSQL",
        })
    }
}

/// How much the clock of a node differs from its references. Sans-IO.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClockCheck {
    /// Differences in milliseconds, positive if the node is ahead. `None` before the first
    /// comparison.
    redis: Option<Millis>,
    postgres: Option<Millis>,
}

impl ClockCheck {
    /// Records what a reference replied: `time` by its clock, to a request that the node sent at
    /// `sent` and whose reply it received at `received`. The delay of the network counts for no
    /// difference. Returns whether the difference has changed by more than [`MAX_DIFFERENCE_MS`].
    pub fn record(&mut self, of: Reference, time: Millis, sent: Millis, received: Millis) -> bool {
        let difference = if time < sent {
            sent - time
        } else {
            (received - time).min(0)
        };
        let known = match of {
            Reference::Redis => &mut self.redis,
            Reference::Postgres => &mut self.postgres,
        };
        let before = known.replace(difference).unwrap_or(0);
        (difference - before).abs() > MAX_DIFFERENCE_MS
    }

    /// Returns the sentence for a clock that differs by more than [`MAX_DIFFERENCE_MS`].
    pub fn warning(&self) -> Option<String> {
        let mut parts = Vec::new();
        for (of, difference) in self.known() {
            if difference.abs() > MAX_DIFFERENCE_MS {
                let side = if difference > 0 { "ahead of" } else { "behind" };
                let seconds = difference.abs() as f64 / 1e3;
                parts.push(format!("{seconds:.1} s {side} that of {of}"));
            }
        }
        (!parts.is_empty()).then(|| format!("the clock of this node is {}", parts.join(", ")))
    }

    /// Returns whether the clock differs from every known reference by more than half an interval,
    /// so that the node must not date samples. One reference alone may be the wrong one.
    pub fn is_wrong(&self, interval: Millis) -> bool {
        let limit = (interval / 2).max(MAX_DIFFERENCE_MS);
        let least = self.known().map(|(_, difference)| difference.abs()).min();
        least.is_some_and(|least| least > limit)
    }

    fn known(&self) -> impl Iterator<Item = (Reference, Millis)> {
        let redis = self.redis.map(|known| (Reference::Redis, known));
        let postgres = self.postgres.map(|known| (Reference::Postgres, known));
        redis.into_iter().chain(postgres)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_replies_are_no_difference() {
        let mut check = ClockCheck::default();
        assert!(!check.is_wrong(60_000), "nothing is known yet");
        // The reply took 20 s; the reference read its clock at any time in between.
        for time in [100_000, 110_000, 120_000] {
            check.record(Reference::Redis, time, 100_000, 120_000);
            assert_eq!(check.warning(), None, "{time}");
        }
    }

    #[test]
    fn warns_above_2_s_and_stops_above_half_an_interval() {
        let mut check = ClockCheck::default();
        let mut both = |ahead: Millis| {
            check.record(Reference::Redis, 1_000_000 - ahead, 1_000_000, 1_000_004);
            check.record(Reference::Postgres, 1_000_000 - ahead, 1_000_000, 1_000_004);
            (check.warning(), check.is_wrong(60_000))
        };
        assert_eq!(both(2_000), (None, false));
        let (warning, is_wrong) = both(30_000);
        assert_eq!(
            warning.as_deref(),
            Some(
                "the clock of this node is 30.0 s ahead of that of Redis, 30.0 s ahead of that of PostgreSQL"
            )
        );
        assert!(!is_wrong);
        assert!(both(30_001).1);
        let (warning, is_wrong) = both(-86_400_000);
        assert!(warning.unwrap().contains("86400.0 s behind"), "a day");
        assert!(is_wrong);
        assert_eq!(both(0), (None, false), "the clock was set right");
    }

    #[test]
    fn one_wrong_reference_stops_no_node() {
        let mut check = ClockCheck::default();
        check.record(Reference::Redis, 0, 86_400_000, 86_400_001);
        assert!(check.is_wrong(60_000), "the only reference so far");
        check.record(Reference::Postgres, 86_400_000, 86_400_000, 86_400_001);
        assert!(check.warning().is_some() && !check.is_wrong(60_000));
    }
}
