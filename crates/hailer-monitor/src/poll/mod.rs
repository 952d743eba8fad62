//! The poller: queries each server when its sample is due.
//!
//! ```text
//!   PollTable ─► DueProbes ─► sweep ─► ResultSink ─► StateTable, PollResult
//! ```
//!
//! All protocols over UDP and TCP share one sweep that runs until the poller ends: datagrams and
//! connections have the same pacing, window, retries and limits. Probes over HTTP are separate tasks,
//! at most 256 at a time. A poll consists of one probe, or of several if the
//! target names a game: see `plan`.
//!
//! Limits: at most 16,384 connections are open, and fewer if the limit of open files leaves less
//! than 1,024 files for other purposes; a sample that would need another connection is skipped and
//! counted as missed. 64 batches of results wait for the history or the cluster; the next are
//! dropped and counted. Answers are kept up to 16 KiB each and 16 MiB in total. Names of the first
//! 1,024 players of a reply are kept.
//!
//! May import: `crate::clock`, `crate::health`, `crate::lock`, `crate::sample`, `crate::schedule`,
//! `crate::server`, `crate::state`, `crate::uptime`, `hailer`.

mod changes;
pub mod listed;
mod lookup;
mod plan;
mod probes;
mod results;
mod table;

pub use self::changes::ChangeLimit;

use self::changes::SpokenProtocol;
use self::listed::ListedPolicies;
use self::probes::{DueProbes, HttpProbes};
use self::results::ResultSink;
use self::table::{PollTable, PolledServer};
use crate::clock::WallClock;
use crate::health::{Health, HealthRules};
use crate::lock::lock;
use crate::sample::{Event, Millis, PollError, Sample, millis};
use crate::schedule::{PollClock, Schedule};
use crate::server::{Origin, Server, ServerId, polled_target};
use crate::state::{LastStatus, StateTable, Update};
use hailer::Target;
use hailer::proto::Protocol;
use hailer::sweep::{self, TcpClose};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Limit of batches that wait for the history, which has a larger queue itself.
const MAX_QUEUED_BATCHES: usize = 64;
/// Servers added to the table under one lock.
const SERVERS_PER_LOCK: usize = 1_000;

/// Configuration of the poller.
#[derive(Clone, Debug)]
pub struct PollConfig {
    /// Interval of servers without an interval, see [`Server::interval`].
    pub interval: Duration,
    /// When a server counts as down.
    pub rules: HealthRules,
    /// Timeouts, retries, rate and options of the queries.
    pub sweep: sweep::SweepConfig,
    /// DNS server; `None` for those of the system.
    pub name_server: Option<SocketAddr>,
    /// Clock that dates the samples.
    pub clock: WallClock,
    /// Policy for the addresses of servers that masters list.
    pub listed: ListedPolicies,
}

impl Default for PollConfig {
    fn default() -> Self {
        let mut sweep = sweep::SweepConfig::default();
        sweep.rate_limits.rate = 20_000.0;
        // The schedule spreads the polls evenly, so a network gets as many as its servers need. A
        // lower limit per network would starve some of them: one host may have hundreds of servers.
        sweep.rate_limits.per_network = f64::INFINITY;
        sweep.has_replies = true;
        // The same servers are polled at every interval, and many log resets. The rate of a monitor
        // is too low for the reuse of sockets to matter.
        sweep.tcp_close = TcpClose::Fin;
        Self {
            interval: Duration::from_secs(60),
            rules: HealthRules::default(),
            sweep,
            name_server: None,
            clock: WallClock::default(),
            listed: ListedPolicies::default(),
        }
    }
}

impl PollConfig {
    /// Returns the polling interval of a server, in milliseconds.
    fn interval_of(&self, server: &Server) -> Millis {
        millis(server.interval.unwrap_or(self.interval))
    }
}

/// Counts of the poller since its start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Number of samples since the start.
    pub samples: AtomicU64,
    /// Samples that were skipped because their time had passed.
    pub missed: AtomicU64,
    /// Samples that were dropped because the queue of the history was full.
    pub dropped: AtomicU64,
    /// Samples that were skipped because too many connections were open. Part of `missed`.
    skipped: AtomicU64,
    /// When a sample was last taken, in Unix milliseconds. Shows whether the monitor still polls.
    pub last: AtomicU64,
    kept: AtomicU64,
}

/// Result of one poll, as every consumer gets it: the state table, the history, the sessions and
/// the cluster. Nothing is looked up again by its time.
#[derive(Clone, Debug)]
pub struct PollResult {
    /// The sample, with its server and time.
    pub sample: Sample,
    /// Why the poll failed; `None` if the server replied.
    pub error: Option<Arc<PollError>>,
    /// The status of this reply with its players; `None` without a reply.
    pub status: Option<Arc<LastStatus>>,
    /// Changes since the previous poll. An outage begins with the first missed reply, so its event can
    /// be older than the sample.
    pub events: Vec<Event>,
    /// State of the server after this poll.
    pub state: ServerState,
}

/// State handed to the node that takes over polling a server.
#[derive(Clone, Debug, Default)]
pub struct ServerState {
    /// Whether the server is up, and how steadily.
    pub health: Health,
    /// The last status, from which changes are found.
    pub last_status: Option<Arc<LastStatus>>,
    /// Limit for reports of changes.
    pub changes: ChangeLimit,
}

impl ServerState {
    /// Returns the state without times in the future, by which limits would last too long. They
    /// come from another node, or from before the clock was set back.
    fn not_after(mut self, now: Millis) -> Self {
        self.health = self.health.not_after(now);
        self.changes = self.changes.not_after(now);
        self
    }
}

/// A server that another node has polled until now.
#[derive(Clone, Debug)]
pub struct Handover {
    /// Server to poll.
    pub server: Server,
    /// Its state at the other node.
    pub known: ServerState,
    /// If a sample was due after this time, in Unix milliseconds, and not taken, the latest one is
    /// taken now. `None`: none is.
    pub after: Option<Millis>,
}

/// The poller. Dropping it stops it.
pub struct Poller {
    shared: Arc<PollShared>,
    thread: Option<std::thread::JoinHandle<io::Result<()>>>,
    lookups: tokio::task::JoinHandle<()>,
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Poller").finish_non_exhaustive()
    }
}

struct PollShared {
    config: PollConfig,
    table: Mutex<PollTable>,
    live: Arc<StateTable>,
    counts: Counts,
    /// Channel of the results. Weak, so that it closes when the thread ends.
    results: mpsc::WeakSender<Vec<PollResult>>,
    is_over: AtomicBool,
    lookups: tokio::sync::Notify,
}

impl Poller {
    /// Starts polling. Results are sent to the returned channel. Must be called inside a tokio
    /// runtime.
    ///
    /// # Errors
    /// The system provides no thread.
    pub fn start(
        config: PollConfig,
        live: Arc<StateTable>,
    ) -> io::Result<(Self, mpsc::Receiver<Vec<PollResult>>)> {
        let (results, receiver) = mpsc::channel(MAX_QUEUED_BATCHES);
        let table = PollTable {
            schedule: Schedule::default(),
            watched: HashMap::new(),
            clock: PollClock::new(config.clock.now(), Duration::ZERO),
            started: Instant::now(),
            wall: config.clock.clone(),
            listed: config.listed.clone(),
        };
        let shared = Arc::new(PollShared {
            config,
            table: Mutex::new(table),
            live,
            counts: Counts::default(),
            results: results.downgrade(),
            is_over: AtomicBool::new(false),
            lookups: tokio::sync::Notify::new(),
        });
        let lookups = tokio::spawn(lookup::run(shared.clone()));
        let http = HttpProbes::new(&shared.config);
        let thread = {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name("poll".into())
                .spawn(move || {
                    let http_results = http.results.clone();
                    let mut source = DueProbes::new(shared.clone(), http);
                    let open = source.open.clone();
                    let mut sink = ResultSink::new(shared.clone(), open, http_results);
                    drop(results);
                    sweep::run(&shared.config.sweep, &mut source, &mut sink).map(drop)
                })?
        };
        Ok((
            Self {
                shared,
                thread: Some(thread),
                lookups,
            },
            receiver,
        ))
    }

    /// Starts to poll a server, or replaces its description. Also adds it to the state table.
    /// `known`: its state as the history has last stored it.
    ///
    /// # Errors
    /// If its target is invalid or has no protocol.
    pub fn watch(&self, server: Server, known: Option<Health>) -> Result<(), String> {
        self.watch_all([(server, known)])
            .pop()
            .map_or(Ok(()), |(_, problem)| Err(problem))
    }

    /// Starts to poll many servers. Returns the servers whose targets are invalid, and the errors.
    pub fn watch_all(
        &self,
        servers: impl IntoIterator<Item = (Server, Option<Health>)>,
    ) -> Vec<(Server, String)> {
        let mut servers = servers.into_iter().peekable();
        let mut refused = Vec::new();
        while servers.peek().is_some() {
            let mut read = Vec::new();
            for (server, known) in servers.by_ref().take(SERVERS_PER_LOCK) {
                match polled_target(&server.target) {
                    Ok((target, protocol)) => read.push((server, target, protocol, known)),
                    Err(problem) => refused.push((server, problem)),
                }
            }
            self.put(read);
        }
        self.shared.lookups.notify_one();
        refused
    }

    /// Adds servers whose targets were parsed.
    fn put(&self, servers: Vec<ParsedServer>) {
        let mut states: HashMap<ServerId, Health> = HashMap::new();
        let mut update = Update {
            has_list_changed: true,
            ..Update::default()
        };
        let mut list = self.shared.table();
        let now = list.now();
        let servers: Vec<_> = servers
            .into_iter()
            .map(|(server, target, protocol, known)| (Arc::new(server), target, protocol, known))
            .collect();
        for (server, target, protocol, known) in &servers {
            list.schedule
                .set(server.id, self.shared.config.interval_of(server), now);
            update.servers.push(server.id);
            let old = list.watched.get_mut(&server.id);
            if let Some(old) = old.filter(|old| old.server.target == server.target) {
                old.server = server.clone();
                continue;
            }
            let health = known.unwrap_or_default();
            states.insert(server.id, health);
            let changes = ChangeLimit::default();
            let watched = PolledServer::new(
                server.clone(),
                target,
                *protocol,
                health,
                changes,
                &list.listed,
            );
            list.watched.insert(server.id, watched);
        }
        drop(list);
        for (server, ..) in servers {
            self.shared.live.set(server);
        }
        self.shared.live.change(update, |row| {
            if let Some(health) = states.get(&row.server.id) {
                row.set_health(health);
            }
        });
    }

    /// Stops polling a server and removes it from the state table.
    pub fn forget(&self, id: ServerId) {
        let mut list = self.shared.table();
        list.schedule.remove(id);
        list.watched.remove(&id);
        drop(list);
        self.shared.live.remove(id);
        self.shared.live.announce(vec![id]);
    }

    /// Takes over servers that another node has polled until now. Servers that are polled here
    /// already only get their new description. Returns the servers whose targets are invalid.
    pub fn resume(&self, servers: Vec<Handover>) -> Vec<ServerId> {
        let mut wrong = Vec::new();
        let mut update = Update {
            has_list_changed: true,
            ..Update::default()
        };
        let mut states = HashMap::new();
        let mut list = self.shared.table();
        let now = list.now();
        for Handover {
            server,
            known,
            after,
        } in servers
        {
            let server = Arc::new(server);
            self.shared.live.set(server.clone());
            let Ok((target, protocol)) = polled_target(&server.target) else {
                wrong.push(server.id);
                continue;
            };
            let interval = self.shared.config.interval_of(&server);
            if list
                .watched
                .get(&server.id)
                .is_some_and(|old| old.server.target == server.target)
            {
                list.schedule.set(server.id, interval, now);
                continue;
            }
            match after {
                Some(after) => list.schedule.resume(server.id, interval, now, after),
                None => list.schedule.set(server.id, interval, now),
            }
            let ServerState {
                health,
                last_status,
                changes,
            } = known.not_after(now);
            states.insert(server.id, (health, last_status.clone()));
            update.servers.push(server.id);
            let known = last_status.as_ref().and_then(|last| last.protocol);
            let watched = PolledServer {
                last_status,
                spoken: SpokenProtocol { known, others: 0 },
                ..PolledServer::new(server, &target, protocol, health, changes, &list.listed)
            };
            list.watched.insert(watched.server.id, watched);
        }
        drop(list);
        self.shared.live.change(update, |row| {
            let Some((health, last_status)) = states.remove(&row.server.id) else {
                return;
            };
            row.set_health(&health);
            row.last_status = row.last_status.take().or(last_status);
        });
        self.shared.lookups.notify_one();
        wrong
    }

    /// Replaces the policies for servers that masters list, and applies them immediately.
    pub fn set_policies(&self, listed: ListedPolicies) {
        let mut list = self.shared.table();
        if list.listed == listed {
            return;
        }
        for polled in list.watched.values_mut() {
            if polled.server.origin != Origin::Master {
                continue;
            }
            polled.looked_up = None;
            let candidates = polled.server.target().ok().and_then(|t| t.candidates());
            if let Some(address) = candidates.as_ref().and_then(|all| all.first()) {
                let allowed = listed.allowed(&polled.server, &[*address]);
                polled.address = allowed.map(|_| *address);
            }
        }
        list.listed = listed;
        drop(list);
        self.shared.lookups.notify_one();
    }

    /// Starts no further polls of these servers. Polls under way still count.
    pub fn pause(&self, servers: &[ServerId]) {
        let mut list = self.shared.table();
        for id in servers {
            list.schedule.remove(*id);
        }
    }

    /// Returns whether a poll of one of these servers is under way.
    pub fn is_polling(&self, servers: &[ServerId]) -> bool {
        let list = self.shared.table();
        servers
            .iter()
            .any(|id| list.watched.get(id).is_some_and(|watched| watched.is_asked))
    }

    /// Stops polling these servers because another node does. They stay in the state table.
    pub fn leave(&self, servers: &[ServerId]) {
        let mut list = self.shared.table();
        for id in servers {
            list.schedule.remove(*id);
            list.watched.remove(id);
        }
    }

    /// Returns all servers that this node polls.
    pub fn asked(&self) -> Vec<ServerId> {
        self.shared.table().watched.keys().copied().collect()
    }

    /// Starts no further polls. The last results are passed on within a moment.
    pub fn end(&self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }

    /// Returns the counts since the start.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }
}

/// A server, its parsed target, and its last stored state.
type ParsedServer = (Server, Target, &'static dyn Protocol, Option<Health>);

impl Drop for Poller {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.lookups.abort();
        if let Some(thread) = self.thread.take() {
            // The thread checks ten times per second whether to end. Its result is not needed.
            let _ = thread.join();
        }
    }
}

impl PollShared {
    fn table(&self) -> MutexGuard<'_, PollTable> {
        lock(&self.table)
    }
}
