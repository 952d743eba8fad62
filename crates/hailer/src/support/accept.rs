//! Reactions to errors of `accept`.
//!
//! In: errors, the time. Out: pauses, log lines.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Delay after the system refused to accept a connection.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Least time between two log lines about connections that cannot be accepted, in seconds.
const ACCEPT_LOG_INTERVAL: u64 = 60;

/// Limits the log lines about connections that cannot be accepted.
struct AcceptLog {
    /// When the first error occurred.
    first: OnceLock<Instant>,
    /// Second in which the next line may be logged, since the first error.
    next_line: AtomicU64,
}

impl AcceptLog {
    const fn new() -> Self {
        Self {
            first: OnceLock::new(),
            next_line: AtomicU64::new(0),
        }
    }

    /// Returns whether a line may be logged at `now`, and records it.
    fn take_line(&self, now: Instant) -> bool {
        let first = *self.first.get_or_init(|| now);
        let now = now.saturating_duration_since(first).as_secs();
        let is_due = |next: u64| (next <= now).then_some(now + ACCEPT_LOG_INTERVAL);
        self.next_line
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due)
            .is_ok()
    }
}

/// Returns how long to wait after the system refused to accept a connection, and logs the error, at
/// most once in 60 s for the whole process. An error of that connection alone needs neither. The
/// others, such as too many open files, pass; the connections wait until then.
pub(crate) fn accept_failed(error: &io::Error, now: Instant) -> Duration {
    static LOG: AcceptLog = AcceptLog::new();
    let is_of_one_connection = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    );
    if is_of_one_connection {
        return Duration::ZERO;
    }
    if LOG.take_line(now) {
        tracing::warn!("connections wait, because none can be accepted: {error}");
    }
    ACCEPT_RETRY_DELAY
}

/// Waits as long as `accept_failed` returns, by the clock of the runtime.
pub async fn wait_after(error: &io::Error) {
    let now = tokio::time::Instant::now().into_std();
    tokio::time::sleep(accept_failed(error, now)).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_testkit::week::{assert_limit, stretches};

    #[test]
    fn logs_once_a_minute_for_a_week() {
        let log = AcceptLog::new();
        let start = Instant::now();
        let mut last = None;
        for stretch in stretches(ACCEPT_RETRY_DELAY, 300_000) {
            let mut lines = 0;
            for &at in &stretch {
                if log.take_line(start + at) {
                    let gap = last.map(|last| at - last);
                    assert!(
                        gap.is_none_or(|gap| gap > Duration::from_secs(59)),
                        "{gap:?}"
                    );
                    last = Some(at);
                    lines += 1;
                }
            }
            let [first, .., end] = stretch[..] else {
                panic!("a stretch has several errors")
            };
            assert_limit(f64::from(lines), 1.0 / 60.0, 1.0, end - first);
        }
        assert!(last.is_some_and(|last| last > Duration::from_secs(6 * 24 * 3_600)));
    }

    /// The first error after a quiet day is logged immediately, also if the clock stood still.
    #[test]
    fn logs_the_first_error_immediately() {
        let log = AcceptLog::new();
        let start = Instant::now();
        assert!(log.take_line(start) && !log.take_line(start));
        let later = start + Duration::from_secs(24 * 3_600);
        assert!(log.take_line(later) && !log.take_line(later));
        assert!(!log.take_line(start), "an earlier time is no new minute");
    }

    #[test]
    fn errors_of_one_connection_need_no_pause() {
        let pause = |kind: io::ErrorKind| accept_failed(&kind.into(), Instant::now());
        assert_eq!(pause(io::ErrorKind::ConnectionAborted), Duration::ZERO);
        assert_eq!(pause(io::ErrorKind::Other), ACCEPT_RETRY_DELAY);
    }
}
