//! Token bucket for rate limits.

use super::config::Rate;
use std::time::Duration;

/// Tokens in use; they drain at the configured rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bucket {
    spent: f64,
    at: Duration,
}

impl Bucket {
    /// Takes `amount` if the rate allows it. Returns whether it does.
    pub(super) fn take(&mut self, amount: f64, rate: Rate, now: Duration) -> bool {
        let earned = now.saturating_sub(self.at).as_secs_f64() * f64::from(rate.per_second);
        self.at = self.at.max(now);
        self.spent = (self.spent - earned).max(0.0);
        let fits = self.spent + amount <= f64::from(rate.burst);
        if fits {
            self.spent += amount;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_the_rate() {
        let rate = Rate {
            per_second: 2,
            burst: 3,
        };
        let mut bucket = Bucket::default();
        let mut had = |ms| {
            (0..10)
                .filter(|_| bucket.take(1.0, rate, Duration::from_millis(ms)))
                .count()
        };
        assert_eq!(
            [had(0), had(499), had(500), had(1000), had(900), had(60_000)],
            [3, 0, 1, 1, 0, 3]
        );
    }
}
