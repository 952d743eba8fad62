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
    use hailer_testkit::week::{assert_limit, stretches};

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

    #[test]
    fn players_get_the_rate_at_every_point_of_a_week() {
        for per_second in [1, 40, 65_536] {
            let rate = Rate {
                per_second,
                burst: per_second * 2,
            };
            let second = Duration::from_secs(1);
            let taken = |interval: Duration| -> Vec<(usize, usize, Duration)> {
                let mut bucket = Bucket::default();
                let stretches = stretches(interval, 60_000).into_iter();
                let taken = stretches.map(|times| {
                    let taken = times.iter().filter(|now| bucket.take(1.0, rate, **now));
                    (taken.count(), times.len(), interval * times.len() as u32)
                });
                taken.collect()
            };
            for (taken, wanted, _) in taken(second.mul_f64(1.01) / per_second) {
                assert_eq!(taken, wanted);
            }
            for (taken, _, time) in taken(second.mul_f64(0.3) / per_second) {
                assert_limit(taken as f64, per_second.into(), rate.burst.into(), time);
            }
        }
    }
}
