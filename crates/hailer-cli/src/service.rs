//! Helpers for commands that run until they are stopped.

use hailer::respond::Reason;
use std::time::Duration;
use tokio::signal::{self, unix::SignalKind};

/// Waits for Ctrl-C, SIGTERM or the end of `--for`.
pub(crate) async fn stopped(time: Option<Duration>) {
    match time {
        Some(time) => {
            let _ = tokio::time::timeout(time, interrupted()).await;
        }
        None => interrupted().await,
    }
}

/// Waits for Ctrl-C or SIGTERM.
pub(crate) async fn interrupted() {
    let Ok(mut terminate) = signal::unix::signal(SignalKind::terminate()) else {
        let _ = signal::ctrl_c().await;
        return;
    };
    tokio::select! {
        _ = signal::ctrl_c() => {}
        _ = terminate.recv() => {}
    }
}

/// Returns the description of a drop reason, to follow the number of datagrams.
pub(crate) fn reason_text(reason: &'static str) -> &'static str {
    Reason::find(reason).map_or(reason, |known| known.words)
}
