//! Helpers for commands that run until they are stopped.

pub(crate) use crate::system::interrupted;
use hailer::respond::Reason;
use std::time::Duration;

/// Waits for Ctrl-C, SIGTERM or the end of `--for`.
pub(crate) async fn stopped(time: Option<Duration>) {
    match time {
        Some(time) => {
            let _ = tokio::time::timeout(time, interrupted()).await;
        }
        None => interrupted().await,
    }
}

/// Returns the description of a drop reason, to follow the number of datagrams.
pub(crate) fn reason_text(reason: &'static str) -> &'static str {
    Reason::find(reason).map_or(reason, |known| known.words)
}
