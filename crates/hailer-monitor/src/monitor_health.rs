//! Health of the monitor itself, for `/healthz`, metrics, pages and the log.

use crate::sample::Millis;

/// Counts and state of a running monitor. Counts start with the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MonitorHealth {
    /// When the monitor started, in Unix milliseconds.
    pub started: Millis,
    /// Number of samples since the start.
    pub samples: u64,
    /// Samples that were not taken because their time had passed.
    pub missed: u64,
    /// Samples that never reached the history because a queue or the memory limit was full.
    pub dropped: u64,
    /// When the last sample was taken, in Unix milliseconds. `None` before the first.
    pub last: Option<Millis>,
    /// Health of the way to the history.
    pub history: HistoryHealth,
    /// The clock of this node of a cluster; `None` for a monitor that runs alone.
    pub clock: Option<ClockHealth>,
    /// Notifications that wait for delivery.
    pub alerts_waiting: u64,
    /// Number of notifications delivered since the start.
    pub alerts_delivered: u64,
    /// Failed delivery attempts.
    pub alerts_failed: u64,
}

/// How well the clock of a node agrees with those of Redis and PostgreSQL.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClockHealth {
    /// The difference, if it is too large.
    pub problem: Option<String>,
    /// Whether the node does not poll because of it.
    pub stops_polling: bool,
}

/// Health of the way from the poller to the history: the database, and in a cluster also Redis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryHealth {
    /// Whether results cannot be stored now.
    pub is_failing: bool,
    /// Since when, in Unix milliseconds. `None` if it works, or in a cluster.
    pub since: Option<Millis>,
    /// The reason for the failure.
    pub message: Option<String>,
    /// Why Redis cannot be used, in a cluster. Part of `message`.
    pub redis: Option<String>,
    /// Whether anything else than Redis fails.
    pub is_database_failing: bool,
    /// Samples kept in the memory of this process until they can be stored.
    pub kept: u64,
    /// Samples that were dropped because the memory limit was reached.
    pub dropped: u64,
}
