//! Uptime: the share of the observed time in which a server replied.
//!
//! All pages, API operations and alerts use this module. Uptime is weighted by time: otherwise, the
//! uptime of a server polled every minute, and later every two seconds, would depend mostly on its
//! last hours. A sample counts for the time since the previous sample, at most [`MAX_SAMPLE_MS`]. A
//! bucket of the history counts for its length. Time without samples is ignored.

use crate::sample::Millis;

/// Longest time that one sample counts for, in milliseconds.
pub const MAX_SAMPLE_MS: Millis = 5 * 60_000;
/// Time that the first sample of a server counts for, in milliseconds.
const FIRST_SAMPLE_MS: Millis = 1_000;

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

/// Returns how long the sample taken at `at` stands for, in milliseconds. `previous` is the time of
/// the sample before it.
pub fn sample_length_ms(previous: Option<Millis>, at: Millis) -> Millis {
    match previous {
        Some(previous) if at > previous => (at - previous).min(MAX_SAMPLE_MS),
        _ => FIRST_SAMPLE_MS,
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
        assert_eq!(sample_length_ms(None, 5_000), FIRST_SAMPLE_MS);
        assert_eq!(sample_length_ms(Some(3_000), 5_000), 2_000);
        assert_eq!(sample_length_ms(Some(5_000), 5_000), FIRST_SAMPLE_MS);
        assert_eq!(sample_length_ms(Some(0), 3_600_000), MAX_SAMPLE_MS);
    }
}
