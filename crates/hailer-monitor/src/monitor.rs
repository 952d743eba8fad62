//! A whole monitor: watchlist, poller, history and alerts.

use crate::alert::{self, Alerts};
#[cfg(feature = "cluster")]
use crate::cluster::{self, ClusterConfig};
pub use crate::error::MonitorError;
use crate::history::{History, Retention, WriterHealth};
use crate::local::Local;
use crate::monitor_health::MonitorHealth;
use crate::node::{Node, NodeStart};
use crate::poll::listed::ListedPolicies;
use crate::poll::{PollConfig, Poller};
use crate::sample::Millis;
use crate::server::{NewServer, Origin, Server};
use crate::sessions::Privacy;
use crate::state::StateTable;
use crate::test_alert::TestAlerts;
use crate::watchlist::{Watchlist, WatchlistError};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Number of configured servers inserted in one transaction.
const SERVERS_PER_INSERT: usize = 20_000;
/// Retries when another process inserts the same configured servers first.
const MAX_INSERT_RETRIES: usize = 20;

/// Configuration of a monitor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MonitorConfig {
    /// When and how servers are polled.
    pub poll: PollConfig,
    /// Retention of the history.
    pub keep: Retention,
    /// How names of players are stored.
    pub privacy: Privacy,
    /// Alert rules and receivers.
    pub alerts: alert::CheckedConfig,
    /// The cluster to join; `None` for a monitor that runs alone.
    #[cfg(feature = "cluster")]
    pub cluster: Option<ClusterConfig>,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        Self {
            poll: PollConfig::default(),
            keep: Retention::default(),
            privacy: Privacy::Names,
            alerts: alert::CheckedConfig::default(),
            #[cfg(feature = "cluster")]
            cluster: None,
        }
    }
}

/// A running monitor. Dropping it stops it immediately; [`stop`](Self::stop) first stores pending
/// results.
pub struct Monitor {
    live: Arc<StateTable>,
    history: History,
    poller: Arc<Poller>,
    alerts: Arc<alert::CheckedConfig>,
    started: Millis,
    watchlist: Arc<dyn Watchlist>,
    node: Box<dyn Node>,
}

impl fmt::Debug for Monitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Monitor")
            .field("started", &self.started)
            .finish_non_exhaustive()
    }
}

impl Monitor {
    /// Starts to poll the servers of the history. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// If the history cannot be read, the poller cannot start, or a cluster was configured without
    /// a shared history.
    pub async fn start(history: History, config: MonitorConfig) -> Result<Self, MonitorError> {
        let live = Arc::new(StateTable::default());
        let clock = config.poll.clock.clone();
        let started = clock.now();
        let interval = config.poll.interval;
        let (poller, results) = Poller::start(config.poll, live.clone())?;
        let poller = Arc::new(poller);
        let alerts = Arc::new(config.alerts.clone());
        let start = NodeStart {
            history: history.clone(),
            state: live.clone(),
            poller: poller.clone(),
            results,
            clock,
            interval,
            privacy: config.privacy,
            retention: config.keep,
            alerts: config.alerts,
        };
        #[cfg(feature = "cluster")]
        let node: Box<dyn Node> = match config.cluster {
            Some(cluster) => Box::new(cluster::Member::start(cluster, start).await?),
            None => Box::new(Local::start(start).await?),
        };
        #[cfg(not(feature = "cluster"))]
        let node: Box<dyn Node> = Box::new(Local::start(start).await?);
        Ok(Self {
            live,
            history,
            poller,
            alerts,
            started,
            watchlist: node.watchlist(),
            node,
        })
    }

    /// Returns the current state of all servers.
    pub fn live(&self) -> &Arc<StateTable> {
        &self.live
    }

    /// Returns the history.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Returns the watchlist.
    pub fn watchlist(&self) -> &Arc<dyn Watchlist> {
        &self.watchlist
    }

    /// Returns the running alerts; `None` while another node of the cluster sends them.
    pub fn alerts(&self) -> Option<Arc<Alerts>> {
        self.node.alerts().get()
    }

    /// Returns a sender of test notifications.
    pub fn tests(&self) -> TestAlerts {
        TestAlerts::new(self.alerts.clone())
    }

    /// Returns a function that reports the current health of the monitor.
    pub fn health_reader(&self) -> impl Fn() -> MonitorHealth + Send + Sync + 'static {
        let poller = self.poller.clone();
        let alerts = self.node.alerts().clone();
        let started = self.started;
        let health = self.node.health();
        move || {
            let node = health();
            let alerts = alerts.get().map(|alerts| alerts.health());
            let alerts = alerts.unwrap_or_default();
            let counts = poller.counts();
            let last = counts.last.load(Ordering::Relaxed) as Millis;
            let last = last.max(node.last_remote_sample.unwrap_or(0));
            let waiting = alerts.waiting.values().map(|(count, _)| *count as u64);
            MonitorHealth {
                started,
                samples: counts.samples.load(Ordering::Relaxed),
                missed: counts.missed.load(Ordering::Relaxed),
                dropped: counts.dropped.load(Ordering::Relaxed) + node.history.dropped,
                last: (last > 0).then_some(last),
                history: node.history,
                clock: node.clock,
                alerts_waiting: waiting.sum(),
                alerts_delivered: alerts.delivered,
                alerts_failed: alerts.failed,
            }
        }
    }

    /// Replaces the policies for the addresses of servers that masters list.
    pub fn set_policies(&self, listed: ListedPolicies) {
        self.poller.set_policies(listed);
    }

    /// Replaces the set of servers that the configuration or master servers list. In a cluster, a process without configured servers
    /// changes nothing.
    ///
    /// # Errors
    /// If the history fails, or a server is invalid.
    pub async fn follow(&self, configured: Vec<NewServer>) -> Result<(), MonitorError> {
        if !self.node.is_shared() {
            return self.follow_once(configured).await;
        }
        if configured.is_empty() {
            return Ok(());
        }
        for _ in 0..MAX_INSERT_RETRIES {
            match self.follow_once(configured.clone()).await {
                // Another process has inserted a server of the same configuration.
                Err(MonitorError::Server {
                    problem: WatchlistError::Taken(_),
                    ..
                }) => {}
                done => return done,
            }
        }
        self.follow_once(configured).await
    }

    /// Gives servers of the configuration new names: new and former name of each. They keep their
    /// history. Names that no server has are ignored: it has its new name already.
    ///
    /// # Errors
    /// If the history fails, or a new name is taken.
    pub async fn rename(&self, names: &[(String, String)]) -> Result<(), MonitorError> {
        if names.is_empty() {
            return Ok(());
        }
        let servers = self.history.servers().await?;
        let named = |name: &String| servers.iter().find(|server| server.name == *name);
        for (new, former) in names {
            let (Some(server), None) = (named(former), named(new)) else {
                continue;
            };
            let renamed = Server {
                name: new.clone(),
                ..server.clone()
            };
            let name = new.clone();
            let changed = self.watchlist.change(renamed).await;
            changed.map_err(|problem| MonitorError::Server { name, problem })?;
        }
        Ok(())
    }

    async fn follow_once(&self, configured: Vec<NewServer>) -> Result<(), MonitorError> {
        let mut known: HashMap<String, Server> = HashMap::new();
        for server in self.history.servers().await? {
            known.insert(server.name.clone(), server);
        }
        let mut added = Vec::new();
        let mut changed = Vec::new();
        for new in configured {
            match known.remove(&new.name) {
                None => added.push(new),
                Some(old) => {
                    let server = new.with_id(old.id);
                    if server != old {
                        changed.push(server);
                    }
                }
            }
        }
        let failed = |name: String| move |problem| MonitorError::Server { name, problem };
        for old in known.into_values().filter(|old| old.origin != Origin::Api) {
            let removed = self.watchlist.remove(old.id).await;
            removed.map_err(failed(old.name))?;
        }
        for server in changed {
            let name = server.name.clone();
            let changed = self.watchlist.change(server).await;
            changed.map_err(failed(name))?;
        }
        let mut added = added.into_iter().peekable();
        while let Some(first) = added.peek() {
            let first = first.name.clone();
            let some = added.by_ref().take(SERVERS_PER_INSERT).collect();
            if let Err((name, problem)) = self.watchlist.add_all(some).await {
                return Err(failed(name.unwrap_or(first))(problem));
            }
        }
        Ok(())
    }

    /// Stops the monitor and stores what is left. Returns what could not be stored: it is lost.
    pub async fn stop(self) -> WriterHealth {
        self.node.stop().await
    }
}
