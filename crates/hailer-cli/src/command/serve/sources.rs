//! Sources and networks of `hailer serve`: tasks that publish on the boards.
//!
//! ```text
//!   file, poll, push ─► TimedStatus ─► Policy ─┬──────────────────────────► boards
//!   fixed status ──────────────────────────────┴─► Network ─► its view ───► boards
//!                                                             (mode "aggregate")
//! ```
//!
//! A reload restarts the sources, which begin with their last status. Networks stay connected: a
//! reload with the same `network` writes nothing to Redis, and a new member takes over the view if
//! `network` changed.

use crate::config::network::{Health, Mode, Network, NetworkConfig};
use crate::config::{ExternalSource, ServerConfig, SourceOrigin, StatusSource, at_port};
use crate::log::limiter;
use crate::observe::snapshot::{self, State};
use anyhow::Context;
use futures_util::future::join_all;
use governor::DefaultDirectRateLimiter;
use hailer::Status;
use hailer::proto::wire::counted;
use hailer::respond::Board;
use hailer::respond::source::file::File;
use hailer::respond::source::push::{Place, Push, PushTarget};
use hailer::respond::source::{
    Policy, ProblemLog, Published, SourceEvent, Stale, TimedStatus, keep, statuses,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;
use tracing::{info, warn};

/// Time between health checks of a network.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time between log lines about an unreachable network.
const NETWORK_LINE_INTERVAL: Duration = Duration::from_secs(60);
/// Timeout for leaving a network.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of log lines of all sources, per second and in a burst. Each source has its own
/// limit, but thousands may fail together.
const LINES_PER_SECOND: NonZeroU32 = NonZeroU32::new(1).unwrap();
const LINE_BURST: NonZeroU32 = NonZeroU32::new(5).unwrap();

/// Running sources and networks. Dropping it stops the sources; their listeners close shortly
/// afterwards.
#[derive(Default)]
pub(super) struct Sources {
    tasks: JoinSet<()>,
    watched: Vec<Watched>,
    members: Vec<RunningMember>,
    /// The last status of each source, by its identity.
    last: BTreeMap<String, Receiver<Option<TimedStatus>>>,
    log: Arc<SourceLog>,
}

/// A server whose status is boards.
pub(super) struct Server {
    /// Number of the server, from 1.
    number: usize,
    source: Source,
    network: Option<NetworkConfig>,
    boards: Arc<ServerBoards>,
}

enum Source {
    /// A simulated server, whose status `simulate` publishes.
    Demo,
    /// A game that sleeps while it has no players: its door publishes the status.
    Door,
    Fixed(Arc<Status>),
    External(Box<ExternalSource>),
}

impl Server {
    pub(super) fn new(number: usize, config: &ServerConfig, boards: ServerBoards) -> Self {
        let source = match &config.source {
            _ if config.door.is_some() => Source::Door,
            StatusSource::Fixed(status) => Source::Fixed(Arc::new((**status).clone())),
            StatusSource::External(source) => Source::External(source.clone()),
            StatusSource::Demo(_) => Source::Demo,
        };
        let network = config.network.as_deref().map(|network| {
            let mut network = network.clone();
            boards.fill_in_address(&mut network);
            network
        });
        let boards = Arc::new(boards);
        Self {
            number,
            source,
            network,
            boards,
        }
    }
}

/// The boards of one server.
pub(super) struct ServerBoards {
    boards: Vec<(SocketAddr, Board)>,
    /// Whether the source requires silence, which overrides the network.
    is_silent: AtomicBool,
}

impl ServerBoards {
    pub(super) fn new(boards: Vec<(SocketAddr, Board)>) -> Self {
        let is_silent = AtomicBool::new(false);
        Self { boards, is_silent }
    }

    fn publish(&self, status: &Status) {
        for (address, board) in &self.boards {
            // Invalid options would have failed at the start.
            let _ = board.publish(&at_port(status.clone(), address.port()));
        }
    }

    fn silence(&self) {
        for (_, board) in &self.boards {
            board.silence();
        }
    }

    /// Sets the address that the network shows, by default the first listening address of the
    /// server.
    fn fill_in_address(&self, network: &mut NetworkConfig) {
        let Some((address, _)) = self.boards.first() else {
            return;
        };
        if network.port == 0 {
            network.port = address.port();
        }
        if network.host.is_none() && !address.ip().is_unspecified() {
            network.host = Some(address.ip().to_string());
        }
    }
}

/// A member of a network; `None` after it has left.
type SharedNetwork = Arc<Mutex<Option<Network>>>;

struct RunningMember {
    config: NetworkConfig,
    network: SharedNetwork,
}

impl RunningMember {
    /// Returns whether both configurations describe the same server of the same network.
    fn is_same_server(&self, config: &NetworkConfig) -> bool {
        let own = &self.config;
        own.redis.to_string() == config.redis.to_string()
            && own.prefix == config.prefix
            && own.network_id == config.network_id
            && own.server_id == config.server_id
    }
}

/// State of a source or a network.
pub(super) struct Watched {
    /// Number of the server, from 1.
    server: usize,
    /// `fixed`, `demo`, `door`, `file`, `poll`, `push` or `network`.
    kind: &'static str,
    state: WatchedState,
    last_error: LastError,
}

enum WatchedState {
    Fixed,
    Source {
        policy: Policy,
        last: Receiver<Option<TimedStatus>>,
    },
    Network(SharedNetwork),
}

/// The last error, until the next success.
type LastError = Arc<Mutex<Option<String>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watched {
    /// Returns the state for a snapshot.
    /// `names` are the names of the servers.
    pub(super) fn source(&self, names: &[String]) -> snapshot::Source {
        let (age, state) = match &self.state {
            WatchedState::Fixed => (Some(Duration::ZERO), State::Fresh),
            WatchedState::Source { policy, last } => {
                let age = last.borrow().as_ref().map(|status| status.since.elapsed());
                (age, state(age, policy))
            }
            WatchedState::Network(network) => {
                let health = lock(network)
                    .as_ref()
                    .map(Network::health)
                    .unwrap_or_default();
                let state = if health.is_connected {
                    State::Fresh
                } else {
                    State::Stale
                };
                (health.age, state)
            }
        };
        snapshot::Source {
            name: names.get(self.server - 1).cloned().unwrap_or_default(),
            kind: self.kind.into(),
            age_s: age.map(|age| age.as_secs_f64()),
            state,
            last_error: lock(&self.last_error).clone(),
        }
    }
}

fn state(age: Option<Duration>, policy: &Policy) -> State {
    let is_stale = age
        .zip(policy.stale_after)
        .is_some_and(|(age, limit)| age >= limit);
    match (age, &policy.stale) {
        (None, _) => State::Never,
        (Some(_), Stale::Silent) if is_stale => State::Silent,
        (Some(_), _) if is_stale => State::Stale,
        (Some(_), _) => State::Fresh,
    }
}

/// The log shared by all sources.
struct SourceLog {
    limiter: DefaultDirectRateLimiter,
    suppressed: AtomicU64,
}

impl Default for SourceLog {
    fn default() -> Self {
        let limiter = limiter(LINES_PER_SECOND, LINE_BURST);
        let suppressed = AtomicU64::new(0);
        Self {
            limiter,
            suppressed,
        }
    }
}

impl SourceLog {
    /// Stores the error for snapshots, and logs the line if the rate limit allows it.
    fn record(&self, event: SourceEvent, last_error: &LastError) {
        if let SourceEvent::Failed(line) | SourceEvent::Recovered(Some(line)) = &event {
            let is_error = matches!(event, SourceEvent::Failed(_));
            match self.limiter.check() {
                Ok(()) if is_error => warn!("source: {line}"),
                Ok(()) => info!("source: {line}"),
                Err(_) => drop(self.suppressed.fetch_add(1, Ordering::Relaxed)),
            }
        }
        *lock(last_error) = match event {
            SourceEvent::Failed(line) | SourceEvent::Suppressed(line) => Some(line),
            SourceEvent::Recovered(_) => None,
        };
    }
}

impl Sources {
    /// Returns the last status of a source.
    pub(super) fn last(&self, origin: &SourceOrigin) -> Option<TimedStatus> {
        self.last.get(&origin.identity())?.borrow().clone()
    }

    /// Returns the view of a connected network, if its members reply for the whole network.
    pub(super) fn network_status(&self, config: &NetworkConfig) -> Option<Status> {
        let member = self
            .members
            .iter()
            .find(|member| member.is_same_server(config))?;
        let network = lock(&member.network);
        let network = network
            .as_ref()
            .filter(|_| config.mode == Mode::Aggregate)?;
        network
            .health()
            .has_network
            .then(|| (*network.status()).clone())
    }

    /// Stops the sources and waits until their addresses are free. Networks stay connected.
    pub(super) async fn stop(&mut self) {
        self.tasks.shutdown().await;
    }

    /// Leaves all networks, within at most [`LEAVE_TIMEOUT`].
    pub(super) async fn leave_networks(&mut self) {
        join_all(self.members.drain(..).map(|member| leave(member.network))).await;
    }

    /// Logs the number of suppressed lines, if there are any.
    pub(super) fn report_suppressed(&self) {
        let suppressed = self.log.suppressed.swap(0, Ordering::Relaxed);
        if suppressed > 0 {
            warn!(
                "source: suppressed {}; `hailer serve status` shows the last error of each source",
                counted(suppressed, "more line")
            );
        }
    }

    /// Returns the sources and networks of each server, in their order.
    pub(super) fn watched(&mut self) -> Vec<Watched> {
        std::mem::take(&mut self.watched)
    }

    /// Returns the member for a configuration: the existing one, or a new one that takes over its
    /// view.
    fn join(&mut self, config: NetworkConfig, old: &mut Self) -> anyhow::Result<SharedNetwork> {
        let same = old
            .members
            .iter()
            .position(|member| member.is_same_server(&config));
        let same = same.map(|at| old.members.remove(at));
        let network = match same {
            Some(member) if member.config == config => member.network,
            Some(member) => {
                // Do not leave: that would remove the entry of the new member.
                let earlier = lock(&member.network).take();
                let network = Network::start_after(config.clone(), earlier.as_ref())?;
                Arc::new(Mutex::new(Some(network)))
            }
            None => Arc::new(Mutex::new(Some(Network::start(config.clone())?))),
        };
        self.members.push(RunningMember {
            config,
            network: network.clone(),
        });
        Ok(network)
    }
}

async fn leave(network: SharedNetwork) {
    let network = lock(&network).take();
    if let Some(network) = network {
        // Redis may be permanently unreachable.
        let _ = tokio::time::timeout(LEAVE_TIMEOUT, network.stop()).await;
    }
}

/// Starts sources and networks; must be called within a runtime. Servers with the same push address
/// share a listener. Returns the running sources and the errors of the others. Takes over the
/// networks of `old` that are still configured, and leaves the others in the background.
pub(super) async fn start(
    servers: Vec<Server>,
    old: &mut Sources,
) -> (Sources, Vec<anyhow::Error>) {
    let mut sources = Sources {
        log: old.log.clone(),
        ..Sources::default()
    };
    let mut problems = Vec::new();
    let mut pushed: BTreeMap<Place, (bool, Vec<PushTarget>)> = BTreeMap::new();
    for Server {
        number,
        source,
        network,
        boards,
    } in servers
    {
        let network = match network.map(|config| sources.join(config, old)).transpose() {
            Ok(network) => network,
            Err(error) => {
                problems.push(error);
                None
            }
        };
        let mode = network
            .is_some()
            .then(|| sources.members.last().map(|member| member.config.mode));
        let is_aggregate = mode.flatten() == Some(Mode::Aggregate);
        let publish = publisher(boards.clone(), network.clone(), is_aggregate);
        match source {
            Source::Demo => sources.watch_fixed(number, "demo"),
            Source::Door => sources.watch_fixed(number, "door"),
            Source::Fixed(status) => {
                let mut publish = publish;
                publish(Published::Status(status));
                sources.watch_fixed(number, "fixed");
            }
            Source::External(source) => sources.start(number, *source, publish, old, &mut pushed),
        }
        if let Some(network) = network {
            let last_error = LastError::default();
            sources.watched.push(Watched {
                server: number,
                kind: "network",
                state: WatchedState::Network(network.clone()),
                last_error: last_error.clone(),
            });
            if is_aggregate {
                sources.tasks.spawn(follow(network.clone(), boards));
            }
            sources
                .tasks
                .spawn(watch_health(network, sources.log.clone(), last_error));
        }
    }
    for (place, (insecure, targets)) in pushed {
        let push = Push::bind(&place, insecure, targets)
            .await
            .and_then(|push| Ok((push.place()?, push)));
        match push.with_context(|| format!("cannot listen on {place} for pushed statuses")) {
            Ok((place, push)) => {
                info!("accepting statuses on {place}");
                sources.tasks.spawn(push.run());
            }
            Err(error) => problems.push(error),
        }
    }
    for member in old.members.drain(..) {
        tokio::spawn(leave(member.network));
    }
    (sources, problems)
}

impl Sources {
    fn watch_fixed(&mut self, server: usize, kind: &'static str) {
        let state = WatchedState::Fixed;
        let last_error = LastError::default();
        self.watched.push(Watched {
            server,
            kind,
            state,
            last_error,
        });
    }

    fn start(
        &mut self,
        number: usize,
        source: ExternalSource,
        publish: Publish,
        old: &Self,
        pushed: &mut BTreeMap<Place, (bool, Vec<PushTarget>)>,
    ) {
        let (sender, last) = statuses();
        sender.send_replace(old.last(&source.origin));
        self.last.insert(source.origin.identity(), last.clone());
        let last_error = LastError::default();
        let kind = match &source.origin {
            SourceOrigin::File(_) => "file",
            SourceOrigin::Poll(_) => "poll",
            SourceOrigin::Push(_) => "push",
        };
        self.watched.push(Watched {
            server: number,
            kind,
            state: WatchedState::Source {
                policy: source.policy.clone(),
                last: last.clone(),
            },
            last_error: last_error.clone(),
        });
        self.tasks.spawn(keep(source.policy, last, publish));
        let log = self.log.clone();
        let record = move |event| log.record(event, &last_error);
        match source.origin {
            SourceOrigin::File(path) => {
                self.tasks.spawn(File::new(path).run(sender, record));
            }
            SourceOrigin::Poll(poll) => {
                self.tasks.spawn(poll.run(sender, record));
            }
            SourceOrigin::Push(push) => {
                let (insecure, targets) = pushed.entry(push.place).or_default();
                *insecure |= push.insecure;
                targets.push(PushTarget::new(push.name, &push.token, sender));
            }
        }
    }
}

/// Receives the decisions of a source's policy.
type Publish = Box<dyn FnMut(Published) + Send>;

/// Returns a function that publishes on the boards and in the network.
fn publisher(
    boards: Arc<ServerBoards>,
    network: Option<SharedNetwork>,
    is_aggregate: bool,
) -> Publish {
    let mut has_noted = false;
    Box::new(move |decision| match decision {
        Published::Status(status) => {
            boards.is_silent.store(false, Ordering::Relaxed);
            let network = network.as_ref().map(|network| lock(network));
            let Some(network) = network.as_ref().and_then(|network| network.as_ref()) else {
                return boards.publish(&status);
            };
            let unshared = network.set_status(&status);
            if unshared > 0 && !has_noted {
                has_noted = true;
                let players = counted(unshared, "player");
                info!("network: {players} without a UUID, not shown by other servers");
            }
            if is_aggregate {
                boards.publish(&network.status())
            } else {
                boards.publish(&status)
            }
        }
        Published::Silence => {
            boards.is_silent.store(true, Ordering::Relaxed);
            boards.silence();
            if let Some(network) = &network
                && let Some(network) = lock(network).as_ref()
            {
                // The players of this server are unknown now.
                network.set_players(&[]);
            }
        }
    })
}

/// Publishes the view of a network whenever it changes.
async fn follow(network: SharedNetwork, boards: Arc<ServerBoards>) {
    let Some(mut updates) = lock(&network).as_ref().map(Network::updates) else {
        return;
    };
    while updates.changed().await.is_ok() {
        let status = updates.borrow_and_update().clone();
        if !boards.is_silent.load(Ordering::Relaxed) {
            boards.publish(&status);
        }
    }
}

/// Logs when Redis becomes unreachable and reachable again, at most once per
/// [`NETWORK_LINE_INTERVAL`].
async fn watch_health(network: SharedNetwork, log: Arc<SourceLog>, last_error: LastError) {
    let mut problems = ProblemLog::new(NETWORK_LINE_INTERVAL, 1);
    let mut errors = 0;
    loop {
        let Some(health) = lock(&network).as_ref().map(Network::health) else {
            return;
        };
        let Health {
            is_connected,
            last_error: error,
            errors: count,
            ..
        } = health;
        if is_connected {
            if let Some(event) = problems.recovered("network: connected again".into()) {
                log.record(event, &last_error);
            }
        } else if let Some(error) = error.filter(|_| count != errors) {
            errors = count;
            log.record(
                problems.event(format!("network: {error}"), Instant::now()),
                &last_error,
            );
        }
        tokio::time::sleep(HEALTH_INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_limited_for_all_sources_together() {
        let log = SourceLog::default();
        let last_error = LastError::default();
        for i in 0..100 {
            log.record(SourceEvent::Failed(format!("failure {i}")), &last_error);
        }
        let suppressed = log.suppressed.load(Ordering::Relaxed);
        assert!((90..=95).contains(&suppressed), "{suppressed}");
        assert_eq!(lock(&last_error).as_deref(), Some("failure 99"));
        log.record(SourceEvent::Recovered(None), &last_error);
        assert_eq!(*lock(&last_error), None);
    }
}
