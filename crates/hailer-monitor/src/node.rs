//! Interface between a monitor and its node: a single process, or a member of a cluster.

use crate::alert::{self, Alerts};
use crate::clock::WallClock;
use crate::history::{History, Retention, WriterHealth};
use crate::lock::lock;
use crate::monitor_health::{ClockHealth, HistoryHealth};
use crate::poll::{PollResult, Poller};
use crate::sample::Millis;
use crate::sessions::Privacy;
use crate::state::StateTable;
use crate::watchlist::Watchlist;
use futures_util::future::BoxFuture;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::mpsc;

/// One process of a monitor. It takes the results of the poller to the history, and runs the alerts.
pub(crate) trait Node: Send + Sync {
    /// Returns the watchlist of the whole monitor.
    fn watchlist(&self) -> Arc<dyn Watchlist>;

    /// Returns where the alerts are while this process sends them.
    fn alerts(&self) -> &LeaderAlerts;

    /// Returns a function that reports the current health.
    fn health(&self) -> Box<dyn Fn() -> NodeHealth + Send + Sync>;

    /// Whether other processes share the watchlist.
    fn is_shared(&self) -> bool;

    /// Stops polling and stores what is left. Returns what could not be stored.
    fn stop(self: Box<Self>) -> BoxFuture<'static, WriterHealth>;
}

/// Parts that a node needs to start.
pub(crate) struct NodeStart {
    pub(crate) history: History,
    pub(crate) state: Arc<StateTable>,
    pub(crate) poller: Arc<Poller>,
    pub(crate) results: mpsc::Receiver<Vec<PollResult>>,
    pub(crate) clock: WallClock,
    /// Interval of servers without an interval.
    pub(crate) interval: Duration,
    pub(crate) privacy: Privacy,
    pub(crate) retention: Retention,
    pub(crate) alerts: alert::CheckedConfig,
}

/// Health of a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeHealth {
    pub(crate) history: HistoryHealth,
    /// The clock of this node of a cluster; `None` for a monitor that runs alone.
    pub(crate) clock: Option<ClockHealth>,
    /// When another node last took a sample, in Unix milliseconds.
    pub(crate) last_remote_sample: Option<Millis>,
}

/// The alerts of this process while it leads; empty while another node does.
#[derive(Clone, Default)]
pub(crate) struct LeaderAlerts(Arc<Mutex<Option<Arc<Alerts>>>>);

impl LeaderAlerts {
    pub(crate) fn get(&self) -> Option<Arc<Alerts>> {
        self.lock().clone()
    }

    pub(crate) fn set(&self, alerts: Option<Arc<Alerts>>) {
        *self.lock() = alerts;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Alerts>>> {
        lock(&self.0)
    }
}
