//! Uptime: the share of the observed time in which a server replied.
//!
//! All pages, API operations and alerts use this module. Uptime is weighted by time: otherwise, the
//! uptime of a server polled every minute, and later every two seconds, would depend mostly on its
//! last hours. A sample stands for the time since the previous sample. The first sample, and a sample
//! after a time in which the monitor did not run, stands for one interval. The history stores this
//! length with the sample, and the sums with each bucket, so a restart changes no figure. Time
//! without samples is ignored.

use crate::sample::Millis;

/// A longer time without samples is a gap in which the monitor did not run, unless the interval is
/// longer, in milliseconds.
pub const MAX_SAMPLE_MS: Millis = 5 * 60_000;
/// Time that a sample of unknown length counts for, in milliseconds.
const UNKNOWN_SAMPLE_MS: Millis = 1_000;

/// Observed time, and how much of it the server was up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Uptime {
    observed_ms: f64,
    up_ms: f64,
}

impl Uptime {
    /// Adds `length_ms` milliseconds in which `answered` of `polls` polls got a reply. Adds nothing
    /// if there were no polls.
    pub fn add(&mut self, length_ms: Millis, polls: u64, answered: u64) {
        if polls == 0 || length_ms <= 0 {
            return;
        }
        self.observed_ms += length_ms as f64;
        self.up_ms += length_ms as f64 * (answered.min(polls) as f64 / polls as f64);
    }

    /// Adds `observed_ms` milliseconds, of which the server was up for `up_ms`.
    pub fn add_times(&mut self, observed_ms: Millis, up_ms: Millis) {
        let observed_ms = observed_ms.max(0);
        self.observed_ms += observed_ms as f64;
        self.up_ms += up_ms.clamp(0, observed_ms) as f64;
    }

    /// Adds the times of another span.
    pub fn merge(&mut self, other: Self) {
        self.observed_ms += other.observed_ms;
        self.up_ms += other.up_ms;
    }

    /// Returns the share from 0 to 1, `None` if nothing was observed.
    pub fn share(self) -> Option<f64> {
        (self.observed_ms > 0.0).then(|| (self.up_ms / self.observed_ms).clamp(0.0, 1.0))
    }
}

/// Returns how long a sample stands for, in milliseconds. `previous` is the time of the sample that
/// the same process has taken before it.
pub fn observed_ms(previous: Option<Millis>, at: Millis, interval: Millis) -> u32 {
    let since = previous
        .map(|previous| at - previous)
        .filter(|since| (1..=MAX_SAMPLE_MS.max(interval)).contains(since));
    u32::try_from(since.unwrap_or(interval)).unwrap_or(u32::MAX)
}

/// Returns how long a sample of the history stands for, in milliseconds. `previous` is the time of
/// the sample before it, by which the length of samples of earlier versions is guessed.
pub fn sample_length_ms(sample_ms: Option<i64>, previous: Option<Millis>, at: Millis) -> Millis {
    match (sample_ms, previous) {
        (Some(length), _) if length > 0 => length,
        (_, Some(previous)) if at > previous => (at - previous).min(MAX_SAMPLE_MS),
        _ => UNKNOWN_SAMPLE_MS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_by_time_and_not_by_samples() {
        let mut uptime = Uptime::default();
        assert_eq!(uptime.share(), None);
        // An hour up, polled once a minute; then an hour down, polled every 2 s.
        uptime.add(3_600_000, 60, 60);
        uptime.add(3_600_000, 1_800, 0);
        assert_eq!(uptime.share(), Some(0.5));
        uptime.add(3_600_000, 0, 0);
        assert_eq!(uptime.share(), Some(0.5), "time without polls");
        let mut both = uptime;
        both.merge(uptime);
        assert_eq!(both.share(), Some(0.5));
        let mut excess = Uptime::default();
        excess.add(1_000, 1, 9);
        assert_eq!(excess.share(), Some(1.0));
    }

    #[test]
    fn a_sample_stands_for_the_time_since_the_previous_one() {
        assert_eq!(observed_ms(None, 5_000, 2_000), 2_000, "the first one");
        assert_eq!(observed_ms(Some(3_000), 5_000, 2_000), 2_000);
        let late = observed_ms(Some(3_000), 9_000, 2_000);
        assert_eq!(late, 6_000, "polls of a silent server take longer");
        let gap = observed_ms(Some(0), 3_600_000, 60_000);
        assert_eq!(gap, 60_000, "the monitor was suspended");
        assert_eq!(observed_ms(Some(0), 3_600_000, 3_600_000), 3_600_000);
        let back = observed_ms(Some(3_600_000), 0, 60_000);
        assert_eq!(back, 60_000, "the clock was set back");
        assert_eq!(sample_length_ms(Some(7), Some(3_000), 5_000), 7);
        assert_eq!(sample_length_ms(None, Some(3_000), 5_000), 2_000);
        assert_eq!(sample_length_ms(None, Some(0), 3_600_000), MAX_SAMPLE_MS);
        assert_eq!(sample_length_ms(None, None, 5_000), UNKNOWN_SAMPLE_MS);
    }
}
