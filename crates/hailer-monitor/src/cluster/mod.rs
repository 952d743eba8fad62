//! A cluster: nodes share the polling. When one fails, the others take over its servers.
//!
//! ```text
//!   API of a node ─► PostgreSQL ─► fill ─► targets ─┐              Redis: current work
//!                    watchlist                      │
//!   worker:  control ─► heartbeat ◄─► leases ───────┤─► Poller ─► push ─► results, state, said
//!   writer:  write ◄────────────────────────────────┼──────────────────────┤ consumer group
//!            ─► PostgreSQL: history                 │                      │
//!   pages:   mirror ─► StateTable ─► page, API ◄────┴──────────────────────┘ read by all
//!   leader:  lead ─► alerts, roll-ups, refilling Redis
//! ```
//!
//! PostgreSQL has the watchlist and the history and decides. Redis holds the current work. It may be
//! emptied at any time; it is filled again from PostgreSQL and from the state of the workers. A
//! paused or emptied Redis can cost one sample per server.
//!
//! - **Chunks** of 8 or 256 server numbers are leased (`lease`, sans-IO). A heartbeat renews the leases of
//!   a worker, and the same script hands out free chunks up to its share: the chunks divided by the
//!   live workers. A worker stops polling by its own clock before a lease ends, so a worker that is
//!   cut off is silent before the next begins.
//! - **Exactly once**: the time of a sample follows from the number and the interval of the server
//!   ([`schedule`](crate::schedule)), on any node. The node that takes over makes up for the last
//!   sample that may be missing. Two nodes that poll the same sample make the same key, and the
//!   history ignores the second. So entries may be written twice; they are acknowledged after the
//!   commit.
//! - **Hand-over**: the state of a server (missed replies, flapping, last status) is in Redis. It is
//!   written with the results, but only when it changes. Sessions continue from PostgreSQL.
//! - **One leader**, by a lease of the same script, sends the alerts and makes the roll-ups. The next
//!   leader continues from the database.
//!
//! Limits: Redis holds at most `backlog` samples that PostgreSQL has not taken; then the oldest are
//! dropped, and `/healthz` reports since when they wait. Limits of one node are in the modules
//! `push`, `write` and `mirror`.
//!
//! May import: `crate::alert`, `crate::clock`, `crate::error`, `crate::health`, `crate::history`,
//! `crate::lock`, `crate::monitor_health`, `crate::node`, `crate::poll`, `crate::reconcile`,
//! `crate::sample`, `crate::server`, `crate::sessions`, `crate::state`, `crate::watchlist`,
//! `hailer`.

mod compare;
mod control;
mod entry;
mod fill;
mod keys;
mod lead;
mod lease;
mod mirror;
mod push;
mod scripts;
mod write;

pub use lease::{AcquiredChunk, Chunk, Heartbeat, HeartbeatResult, LeaseChanges, Leases};

use crate::clock::{ClockCheck, Reference, WallClock};
use crate::error::MonitorError;
use crate::history::{History, HistoryError, NewServer, WriterHealth};
use crate::lock::lock;
use crate::monitor_health::{ClockHealth, HistoryHealth};
use crate::node::{LeaderAlerts, Node, NodeHealth, NodeStart};
use crate::poll::Poller;
use crate::sample::{Millis, millis};
use crate::server::{Server, ServerId, polled_target};
use crate::state::StateTable;
use crate::watchlist::{Watchlist, WatchlistError, store_all};
use futures_util::future::BoxFuture;
use hailer::proto::wire::hexadecimal;
use hailer::support::link::{RedisConfig, RedisConnection};
use keys::Keys;
use redis::RedisResult;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;

/// Start of each error of a connection to Redis, see [`RedisConfig::describe`].
const REDIS_ERROR: &str = "Redis at ";
/// Delay between connection attempts.
const RECONNECT_DELAY: Duration = Duration::from_millis(500);
/// How long [`Member::stop`] waits for the last results.
const STOP_TIMEOUT: Duration = Duration::from_secs(3);

/// Configuration of a node.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClusterConfig {
    /// Connection to Redis.
    pub redis: RedisConfig,
    /// Name of the cluster: prefix of all keys.
    pub name: String,
    /// How long a worker keeps a chunk without a heartbeat. Should be longer than a pause of the
    /// network and shorter than the intervals. A worker sends three heartbeats in this time.
    pub lease: Duration,
    /// Roles of this node.
    pub roles: Roles,
    /// Limit of samples that wait in Redis while PostgreSQL is unavailable, about 100 bytes each.
    /// Beyond that, the oldest are dropped.
    pub backlog: u64,
}

/// Roles of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roles {
    /// Whether this node polls servers.
    pub can_poll: bool,
    /// Whether this node writes results to PostgreSQL.
    pub can_write: bool,
    /// Whether this node mirrors the state of all servers, for its pages and to be the leader.
    pub can_serve: bool,
}

impl Default for Roles {
    fn default() -> Self {
        Self {
            can_poll: true,
            can_write: true,
            can_serve: true,
        }
    }
}

impl ClusterConfig {
    /// Creates the defaults for this Redis and this interval.
    pub fn new(redis: RedisConfig, interval: Duration) -> Self {
        let lease = (interval / 4).clamp(SHORTEST_LEASE, Duration::from_secs(15));
        Self {
            redis,
            name: "hailer".into(),
            lease,
            roles: Roles::default(),
            backlog: 10_000_000,
        }
    }
}

/// Minimum length of a lease.
pub const SHORTEST_LEASE: Duration = Duration::from_millis(1_500);

/// Checks the name of a cluster.
///
/// # Errors
///
/// If the name is invalid: which names are allowed.
pub fn check_name(name: &str) -> Result<(), String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match name.len() {
        1..=64 if name.chars().all(is_good) => Ok(()),
        _ => Err("1 to 64 letters, digits, `.`, `_` and `-`".into()),
    }
}

/// State that all tasks of the node share.
struct Shared {
    config: ClusterConfig,
    keys: Keys,
    /// Id of this node, different after each start.
    me: String,
    history: History,
    live: Arc<StateTable>,
    poll: Arc<Poller>,
    /// Interval of servers without an interval.
    interval: Duration,
    started: Instant,
    clock: WallClock,
    clock_check: Mutex<ClockCheck>,
    /// The difference to the clock of Redis has changed.
    clock_step: Notify,
    leases: Mutex<Leases>,
    /// Chunks to be written to Redis again.
    dirty: Mutex<BTreeSet<Chunk>>,
    /// Whether all chunks must be written again.
    must_fill: AtomicBool,
    fill: Notify,
    /// Value of `changed` at the last heartbeat.
    changed: AtomicU64,
    news: Notify,
    leads: watch::Sender<bool>,
    to_push: mpsc::Sender<push::PushCommand>,
    /// Time of Redis at the start of this node, in Unix milliseconds.
    redis_start: AtomicI64,
    /// Current error of each failing task.
    errors: Mutex<BTreeMap<&'static str, String>>,
    /// Samples dropped because a limit was reached.
    dropped: AtomicU64,
    /// Samples that wait in memory for Redis.
    kept: AtomicU64,
    /// When the last sample of another node arrived, in Unix milliseconds.
    last: AtomicI64,
    /// The newest server that was read from PostgreSQL.
    newest: AtomicI64,
    /// Rows of servers that the mirror has not seen in Redis yet.
    added: Mutex<BTreeSet<ServerId>>,
}

impl Shared {
    /// Returns the time since the start in milliseconds, by a monotonic clock.
    fn now(&self) -> Millis {
        millis(self.started.elapsed())
    }

    /// Returns the Unix time in milliseconds, by the clock of Redis. It does not depend on the wall
    /// clock of this node.
    fn redis_now(&self) -> Millis {
        self.redis_start.load(Ordering::Relaxed) + self.now()
    }

    /// Returns the clock of Redis minus the clock of this node, in milliseconds.
    fn ahead(&self) -> Millis {
        self.redis_now() - self.clock.now()
    }

    fn leases(&self) -> MutexGuard<'_, Leases> {
        lock(&self.leases)
    }

    fn heartbeat(&self) -> Duration {
        self.config.lease / 3
    }

    fn set_error(&self, task: &'static str, what: Option<String>) {
        let mut errors = lock(&self.errors);
        match what {
            Some(what) => drop(errors.insert(task, what)),
            None => drop(errors.remove(task)),
        }
    }

    /// Connects to Redis. Retries until it succeeds.
    async fn connect(&self, task: &'static str) -> RedisConnection {
        loop {
            match self.config.redis.connect().await {
                Ok(link) => return link,
                Err(error) => self.set_error(task, Some(error)),
            }
            tokio::time::sleep(RECONNECT_DELAY).await;
        }
    }

    /// Stops polling these chunks and drops the state of their servers.
    async fn stop(&self, chunks: Vec<Chunk>, servers: &[ServerId]) {
        if chunks.is_empty() {
            return;
        }
        self.poll.leave(servers);
        let _ = self.to_push.send(push::PushCommand::Forget(chunks)).await;
    }

    /// Sets the row of a server that was added. If the server is removed before the mirror has seen it
    /// in Redis, the mirror removes the row.
    fn add_row(&self, server: Server) {
        let id = server.id;
        self.live.set(server);
        if self.config.roles.can_serve {
            self.added().insert(id);
        }
        self.live.announce(vec![id]);
    }

    fn added(&self) -> MutexGuard<'_, BTreeSet<ServerId>> {
        lock(&self.added)
    }

    fn touch(&self, server: ServerId) {
        lock(&self.dirty).insert(Chunk::of(server));
        self.fill.notify_one();
    }
}

/// Runs `work` with a connection, and connects again after an error.
async fn converse<W>(shared: Arc<Shared>, task: &'static str, mut work: W)
where
    W: AsyncFnMut(&Shared, &mut RedisConnection) -> RedisResult<()>,
{
    loop {
        let mut link = shared.connect(task).await;
        if let Err(error) = work(&shared, &mut link).await {
            shared.set_error(task, Some(shared.config.redis.describe(&error)));
        }
        tokio::time::sleep(RECONNECT_DELAY).await;
    }
}

/// A node of the cluster. Dropping it acts like a crash; [`stop`](Self::stop) gives its chunks
/// back.
pub(crate) struct Member {
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    control: JoinHandle<()>,
    tasks: Vec<JoinHandle<()>>,
    alerts: LeaderAlerts,
}

impl Member {
    /// Joins the cluster. Redis may be unavailable at the start.
    pub(crate) async fn start(
        config: ClusterConfig,
        start: NodeStart,
    ) -> Result<Self, MonitorError> {
        let NodeStart {
            history,
            state: live,
            poller: poll,
            results,
            clock,
            interval,
            privacy,
            retention,
            alerts: alert_config,
        } = start;
        if !history.is_shared() {
            return Err(MonitorError::NotShared);
        }
        // A frozen node holds no lock for longer than a lease.
        history.set_max_idle(config.lease / 2);
        let (to_push, orders) = mpsc::channel(1_024);
        let mut random = [0; 8];
        getrandom::fill(&mut random)
            .map_err(|error| MonitorError::Poll(std::io::Error::other(error)))?;
        let roles = config.roles;
        let shared = Arc::new(Shared {
            keys: Keys::new(&config.name),
            me: hexadecimal(&random),
            leases: Mutex::new(Leases::new(millis(config.lease.max(SHORTEST_LEASE)))),
            config,
            history,
            live,
            poll,
            interval,
            started: Instant::now(),
            redis_start: AtomicI64::new(clock.now()),
            clock,
            clock_check: Mutex::default(),
            clock_step: Notify::new(),
            dirty: Mutex::default(),
            must_fill: AtomicBool::new(false),
            fill: Notify::new(),
            changed: AtomicU64::new(0),
            news: Notify::new(),
            leads: watch::Sender::new(false),
            to_push,
            errors: Mutex::default(),
            dropped: AtomicU64::new(0),
            kept: AtomicU64::new(0),
            last: AtomicI64::new(0),
            newest: AtomicI64::new(0),
            added: Mutex::default(),
        });
        shared.compare_with_postgres().await;
        let mirror = if roles.can_serve {
            Some(mirror::Mirror::load(&shared).await?)
        } else {
            None
        };
        let alerts = LeaderAlerts::default();
        let (stop, stopped) = watch::channel(false);
        let control = tokio::spawn(control::run(shared.clone(), stopped));
        let mut tasks = vec![
            tokio::spawn(control::watch_over(shared.clone())),
            tokio::spawn(compare::run(shared.clone())),
            tokio::spawn(push::run(shared.clone(), orders, results, privacy)),
            tokio::spawn(fill::run(shared.clone())),
        ];
        if let Some(mirror) = mirror {
            tasks.push(tokio::spawn(mirror.run(shared.clone())));
            tasks.push(tokio::spawn(crate::reconcile::run(
                shared.history.clone(),
                shared.live.clone(),
                shared.clock.clone(),
            )));
            let lead = lead::run(shared.clone(), retention, alert_config, alerts.clone());
            tasks.push(tokio::spawn(lead));
        }
        if roles.can_write {
            tasks.push(tokio::spawn(write::run(shared.clone())));
        }
        Ok(Self {
            shared,
            stop,
            control,
            tasks,
            alerts,
        })
    }
}

impl Shared {
    fn health(&self) -> NodeHealth {
        let errors = lock(&self.errors);
        let last = self.last.load(Ordering::Relaxed);
        NodeHealth {
            history: HistoryHealth {
                kept: self.kept.load(Ordering::Relaxed),
                dropped: self.dropped.load(Ordering::Relaxed),
                ..history_health(&errors)
            },
            clock: Some(self.clock_health()),
            last_remote_sample: (last > 0).then_some(last),
        }
    }
}

/// Returns which of Redis and PostgreSQL fail, by the errors of the tasks.
fn history_health(errors: &BTreeMap<&'static str, String>) -> HistoryHealth {
    // Several tasks report the same error when Redis is away.
    let all: BTreeSet<&str> = errors.values().map(String::as_str).collect();
    let (redis, others): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|error| error.starts_with(REDIS_ERROR));
    let redis_error = redis.first().map(|error| (*error).to_owned());
    let is_database_failing = !others.is_empty();
    let all = others
        .into_iter()
        .chain(redis)
        .collect::<Vec<_>>()
        .join("; ");
    HistoryHealth {
        is_failing: !all.is_empty(),
        message: Some(all).filter(|all| !all.is_empty()),
        redis: redis_error,
        is_database_failing,
        ..HistoryHealth::default()
    }
}

impl Node for Member {
    fn watchlist(&self) -> Arc<dyn Watchlist> {
        Arc::new(ClusterWatchlist(self.shared.clone()))
    }

    fn alerts(&self) -> &LeaderAlerts {
        &self.alerts
    }

    fn health(&self) -> Box<dyn Fn() -> NodeHealth + Send + Sync> {
        let shared = self.shared.clone();
        Box::new(move || shared.health())
    }

    fn is_shared(&self) -> bool {
        true
    }

    /// Returns the leases and sends what is left to Redis, within [`STOP_TIMEOUT`].
    fn stop(mut self: Box<Self>) -> BoxFuture<'static, WriterHealth> {
        Box::pin(async move {
            let _ = self.stop.send(true);
            let _ = tokio::time::timeout(STOP_TIMEOUT, &mut self.control).await;
            self.shared.poll.end();
            let history = self.shared.health().history;
            self.shared.history.close().await;
            WriterHealth {
                is_failing: history.is_failing,
                message: history.message,
                kept: history.kept,
                dropped: history.dropped,
                ..WriterHealth::default()
            }
        })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.control.abort();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// The watchlist of the cluster. A change goes to PostgreSQL first, then to the state table of this
/// node. Other nodes find a new server in PostgreSQL immediately, and show other changes within a second.
struct ClusterWatchlist(Arc<Shared>);

impl ClusterWatchlist {
    fn show(&self, id: ServerId) {
        self.0.live.announce(vec![id]);
        self.0.touch(id);
    }
}

impl Watchlist for ClusterWatchlist {
    fn add_all(
        &self,
        new: Vec<NewServer>,
    ) -> BoxFuture<'_, Result<(), (Option<String>, WatchlistError)>> {
        Box::pin(async move {
            for server in store_all(&self.0.history, &new).await? {
                let id = server.id;
                self.0.add_row(server);
                self.0.touch(id);
            }
            Ok(())
        })
    }

    fn add(&self, new: NewServer) -> BoxFuture<'_, Result<Server, WatchlistError>> {
        Box::pin(async move {
            polled_target(&new.target).map_err(WatchlistError::Invalid)?;
            let server = self.0.history.add(&new).await?;
            self.0.add_row(server.clone());
            self.0.touch(server.id);
            Ok(server)
        })
    }

    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<Server>> {
        // After an error, the server stays missing on this node.
        Box::pin(async move { self.0.history.server_named(name).await.ok().flatten() })
    }

    fn catch_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            let after = self.0.newest.load(Ordering::Relaxed);
            let added = self
                .0
                .history
                .servers_of(ServerId(after + 1), ServerId(Millis::MAX));
            // On an error, the list is as the mirror has it.
            for server in added.await.unwrap_or_default() {
                let id = server.id;
                if self.0.live.row(id).is_none() {
                    self.0.add_row(server);
                }
                self.0.newest.fetch_max(id.0, Ordering::Relaxed);
            }
        })
    }

    fn change(&self, server: Server) -> BoxFuture<'_, Result<(), WatchlistError>> {
        Box::pin(async move {
            server
                .target()
                .map_err(|error| WatchlistError::Invalid(error.to_string()))?;
            match self.0.history.change(&server).await {
                Err(HistoryError::Absent(_)) => return Err(WatchlistError::Gone),
                done => done?,
            }
            let id = server.id;
            self.0.live.set(server);
            self.show(id);
            Ok(())
        })
    }

    fn remove(&self, id: ServerId) -> BoxFuture<'_, Result<bool, WatchlistError>> {
        Box::pin(async move {
            let was_there = self.0.history.remove(id).await?;
            self.0.live.remove(id);
            self.show(id);
            Ok(was_there)
        })
    }
}

/// Servers by their chunks.
type ByChunk<T> = HashMap<Chunk, T>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_of_redis_and_of_the_history_are_separate() {
        let redis = RedisConfig::new("redis://127.0.0.1:1").unwrap();
        let error = redis::RedisError::from((redis::ErrorKind::Io, "connection refused"));
        let refused = redis.describe(&error);
        let database = HistoryError::Sql(sqlx::Error::PoolTimedOut).to_string();
        assert_eq!(history_health(&BTreeMap::new()), HistoryHealth::default());
        // Several tasks report the same outage.
        let away = history_health(&BTreeMap::from([
            ("fill", refused.clone()),
            ("mirror", refused.clone()),
        ]));
        assert_eq!(
            (away.redis.as_ref(), &away.message),
            (Some(&refused), &away.redis)
        );
        assert!(away.is_failing && !away.is_database_failing);
        let both = history_health(&BTreeMap::from([
            ("fill", database.clone()),
            ("mirror", refused.clone()),
        ]));
        assert_eq!(both.redis.as_ref(), Some(&refused));
        assert!(both.is_database_failing);
        assert_eq!(both.message, Some(format!("{database}; {refused}")));
        let one = history_health(&BTreeMap::from([("fill", database)]));
        assert!(one.redis.is_none() && one.is_database_failing);
    }
}
