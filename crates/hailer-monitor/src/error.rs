//! Errors of a monitor as a whole.

use crate::history::HistoryError;
use crate::watchlist::WatchlistError;
use std::io;

/// Why a monitor cannot start, or cannot follow its configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// The history failed.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A cluster was configured with a history that other processes cannot write to.
    #[error(
        "a cluster needs a history in PostgreSQL; write history = \"postgres://USER@HOST/DATABASE\" into [monitor], or give \
         --history postgres://…"
    )]
    NotShared,
    /// The poller could not start: no thread or socket.
    #[error("cannot poll: {0}")]
    Poll(#[from] io::Error),
    /// A configured server cannot be added.
    #[error("server {name}: {problem}")]
    Server {
        /// Name of the server.
        name: String,
        /// Why it cannot be added.
        problem: WatchlistError,
    },
}
