//! When a program that waits for a condition queries again, and when it ends.

use std::time::Duration;

/// Waits until a condition has been true for a time. Takes the time since the start as an argument.
///
/// A condition counts as true from one query to the next if it is true in both, and if the second
/// starts at most three times [`Wait::every`] after the end of the first: a longer gap, as of a
/// suspended machine, was not observed.
#[derive(Clone, Debug)]
pub struct Wait {
    /// Time between two queries.
    every: Duration,
    /// How long the condition must be true.
    hold: Duration,
    /// Longest time to wait; `None`: no limit.
    limit: Option<Duration>,
    /// When the condition became true.
    true_since: Option<Duration>,
    /// End of the last query.
    last: Option<Duration>,
}

/// Next step of a program that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The condition has been true for long enough.
    Met,
    /// Query again at this time since the start.
    QueryAt(Duration),
    /// The time is over.
    GivenUp,
}

impl Wait {
    /// Returns the state before the first query. `every` is the time between two queries, at least
    /// 1 ms; the condition must be true for `hold`; after `limit`, the program gives up.
    pub fn new(every: Duration, hold: Duration, limit: Option<Duration>) -> Self {
        Self {
            every: every.max(Duration::from_millis(1)),
            hold,
            limit,
            true_since: None,
            last: None,
        }
    }

    /// Returns the time between two queries.
    pub fn every(&self) -> Duration {
        self.every
    }

    /// Returns the time after which the program gives up, since the start.
    pub fn limit(&self) -> Option<Duration> {
        self.limit
    }

    /// Records whether the condition is true by a query that started at `started` and ended at `now`;
    /// `None` is unknown.
    pub fn record(&mut self, is_true: Option<bool>, started: Duration, now: Duration) -> Step {
        let gap = self.last.map(|last| started.saturating_sub(last));
        let is_gap = gap.is_some_and(|gap| gap > self.every.saturating_mul(3));
        self.last = Some(now);
        match is_true {
            Some(true) if is_gap => self.true_since = Some(now),
            Some(true) => self.true_since = self.true_since.or(Some(now)),
            Some(false) | None => self.true_since = None,
        }
        let met_at = self.true_since.map(|since| since.saturating_add(self.hold));
        if met_at.is_some_and(|at| at <= now) {
            return Step::Met;
        }
        let next = now.saturating_add(self.every);
        let next = met_at.map_or(next, |at| at.min(next));
        match self.limit {
            Some(limit) if now >= limit || next > limit => self.end(now, limit, next),
            _ => Step::QueryAt(next),
        }
    }

    /// Returns the step before the limit: a last query at the limit, or the end.
    fn end(&self, now: Duration, limit: Duration, next: Duration) -> Step {
        let least = self.every / 2;
        let has_time = now < limit && limit.saturating_sub(now) >= least;
        if has_time && next > limit {
            Step::QueryAt(limit)
        } else {
            Step::GivenUp
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_testkit::week::{WEEK, stretches};

    const SECOND: Duration = Duration::from_secs(1);

    /// Runs a wait. A query takes 50 ms. Returns how it ended, when, and the number of queries.
    fn run(mut wait: Wait, is_true: impl Fn(Duration) -> Option<bool>) -> (Step, Duration, u32) {
        let mut at = Duration::ZERO;
        for queries in 1.. {
            let end = at + Duration::from_millis(50);
            match wait.record(is_true(at), at, end) {
                Step::QueryAt(next) => {
                    assert!(next > end, "{next:?} after {end:?}");
                    at = next;
                }
                step => return (step, end, queries),
            }
        }
        unreachable!("the loop has no end");
    }

    #[test]
    fn ends_when_the_condition_has_been_true_for_the_time() {
        let empty_from = |from: u32| move |at: Duration| Some(at >= from * SECOND);
        let (step, at, _) = run(Wait::new(10 * SECOND, Duration::ZERO, None), empty_from(95));
        assert_eq!(step, Step::Met);
        assert!(at >= 95 * SECOND && at < 106 * SECOND, "{at:?}");
        let (step, at, _) = run(Wait::new(10 * SECOND, 25 * SECOND, None), empty_from(95));
        assert_eq!(step, Step::Met);
        assert!(at >= 120 * SECOND && at < 132 * SECOND, "{at:?}");
        // True in the first query, without a time.
        assert_eq!(
            run(
                Wait::new(SECOND, Duration::ZERO, Some(Duration::ZERO)),
                |_| Some(true)
            )
            .2,
            1
        );
    }

    #[test]
    fn slow_queries_are_no_gap() {
        // A silent server takes 4 s for each query.
        let mut wait = Wait::new(SECOND, 20 * SECOND, None);
        let mut at = Duration::ZERO;
        let mut queries = 0;
        let end = loop {
            let end = at + 4 * SECOND;
            queries += 1;
            match wait.record(Some(true), at, end) {
                Step::QueryAt(next) => at = next,
                step => break (step, end),
            }
        };
        assert_eq!(end.0, Step::Met);
        assert!(end.1 < 32 * SECOND && queries <= 7, "{end:?} {queries}");
    }

    #[test]
    fn unknown_and_false_begin_the_time_again() {
        for interruption in [None, Some(false)] {
            let is_true = |at: Duration| {
                if (50 * SECOND..60 * SECOND).contains(&at) {
                    interruption
                } else {
                    Some(true)
                }
            };
            let (step, at, _) = run(Wait::new(5 * SECOND, 60 * SECOND, None), is_true);
            assert_eq!(step, Step::Met);
            assert!(at >= 120 * SECOND && at < 130 * SECOND, "{at:?}");
        }
    }

    #[test]
    fn gives_up_at_the_limit() {
        for every in [1_u32, 7, 10, 3_000] {
            let limit = 3_600 * SECOND;
            let (step, at, queries) = run(Wait::new(every * SECOND, SECOND, Some(limit)), |_| None);
            assert_eq!(step, Step::GivenUp);
            assert!(at <= limit + SECOND, "{at:?}");
            assert!(at + every * SECOND >= limit, "{at:?}");
            let most = limit.as_secs() / u64::from(every) + 2;
            assert!(u64::from(queries) <= most, "{queries} queries");
        }
        // A time that cannot pass before the limit.
        let long = Wait::new(SECOND, 20 * SECOND, Some(10 * SECOND));
        assert_eq!(run(long, |_| Some(true)).0, Step::GivenUp);
    }

    #[test]
    fn a_week_of_queries_has_one_every_interval_and_a_suspension_is_not_observed() {
        let every = 10 * SECOND;
        // Never true: one query every interval for a whole week.
        let (step, at, queries) = run(Wait::new(every, Duration::ZERO, Some(WEEK)), |_| {
            Some(false)
        });
        assert_eq!(step, Step::GivenUp);
        assert!(at >= WEEK - every && at <= WEEK + SECOND, "{at:?}");
        let expected = WEEK.as_secs_f64() / 10.05;
        assert!(
            (f64::from(queries) - expected).abs() < expected / 100.0,
            "{queries}"
        );

        // True all the time, but the machine is suspended twice. The week is not observed, only its
        // last stretch counts.
        let parts = stretches(every, 3_000);
        assert_eq!(parts.len(), 3);
        let mut wait = Wait::new(every, 9_000 * SECOND, None);
        let mut met = Vec::new();
        for part in &parts {
            let start = part[0];
            for now in part {
                if wait.record(Some(true), *now, *now) == Step::Met {
                    met.push((start, *now));
                    break;
                }
            }
        }
        for (start, at) in &met {
            assert!(*at - *start >= 9_000 * SECOND, "{start:?} {at:?}");
        }
        assert_eq!(met.len(), parts.len(), "{met:?}");
    }
}
