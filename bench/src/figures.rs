//! Results of a run, which a client prints and the comparison reads.

use serde::{Deserialize, Serialize};

/// Results of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Queries answered completely.
    pub(crate) completed: u64,
    /// Time from the first datagram to the last result, in seconds.
    pub(crate) wall: f64,
    /// User and system time of all threads in this time, in seconds.
    pub(crate) cpu: f64,
    /// Peak resident memory of the process in KiB.
    pub(crate) peak: u64,
    /// Queries started per second, until the last one was started.
    pub(crate) begun: f64,
    /// The same without the first fifth of the queries.
    pub(crate) begun_later: f64,
    /// Datagrams sent again.
    pub(crate) resent: u64,
    /// Datagrams that the client's receive queue had no room for.
    pub(crate) overflows: u64,
    /// Further details.
    pub(crate) note: String,
}
