//! Reactions to errors of `accept`.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Delay after the system refused to accept a connection.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
/// Least time between two log lines about connections that cannot be accepted, in seconds.
const ACCEPT_LOG_INTERVAL: u64 = 60;

/// Returns how long to wait after the system refused to accept a connection, and logs the error, at
/// most once in 60 s for the whole process. An error of that connection alone needs neither. The
/// others, such as too many open files, pass; the connections wait until then.
pub fn accept_failed(error: &io::Error) -> Duration {
    /// Second in which the next line may be logged, since the first error.
    static NEXT_LINE: AtomicU64 = AtomicU64::new(0);
    static FIRST: OnceLock<std::time::Instant> = OnceLock::new();
    let is_of_one_connection = matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    );
    if is_of_one_connection {
        return Duration::ZERO;
    }
    let first = FIRST.get_or_init(std::time::Instant::now);
    let now = first.elapsed().as_secs();
    let is_due = |next: u64| (next <= now).then_some(now + ACCEPT_LOG_INTERVAL);
    if NEXT_LINE
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_due)
        .is_ok()
    {
        tracing::warn!("connections wait, because none can be accepted: {error}");
    }
    ACCEPT_RETRY_DELAY
}
