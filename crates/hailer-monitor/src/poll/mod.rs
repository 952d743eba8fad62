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

pub mod listed;
mod plan;

use self::listed::ListedPolicies;
use self::plan::{GamePlan, PlannedProbe};
use crate::lock::lock;
use crate::sample::millis;

use crate::clock::WallClock;
use crate::health::{Health, HealthRules};
use crate::sample::{Event, EventKind, Millis, PollError, Sample, ValueChange};
use crate::schedule::{DueSample, PollClock, Schedule};
use crate::server::{Origin, Server, ServerId, polled_target};
use crate::state::{LastStatus, StateTable, Update};
use crate::uptime::observed_ms;
use compact_str::CompactString;
use hailer::client::{Answers, Transcript};
use hailer::proto::model::Roster;
use hailer::proto::{Ask, Protocol, Transport};
use hailer::support::report::AnswerLine;
use hailer::sweep::{self, Next, Probe, ProbeResult, ProbeSource, Progress, Sink, TcpClose};
use hailer::{Answer, Client, ClientConfig, Error, Target};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Limit of probes over HTTP at a time.
const MAX_OPEN_HTTP: usize = 256;
/// Limit of connections to servers of stream protocols at a time.
const MAX_OPEN_STREAMS: usize = 16_384;
/// Files that connections to servers leave for web clients, the history and others.
const RESERVED_FILES: usize = 1_024;
/// Limit of batches that wait for the history, which has a larger queue itself.
const MAX_QUEUED_BATCHES: usize = 64;
/// Servers added to the table under one lock.
const SERVERS_PER_LOCK: usize = 1_000;
/// Limit of DNS lookups at a time.
const MAX_LOOKUPS: usize = 32;
/// Time after the deadline of a probe over HTTP until its task is dropped.
const DEADLINE_GRACE: Duration = Duration::from_millis(500);
/// How long a DNS result is reused. Failed lookups, and names of silent servers, are refreshed
/// every polling interval.
const LOOKUP_LIFETIME: Duration = Duration::from_secs(300);
/// Limit for the JSON of an answer, and for the datagrams of a reply, in bytes.
const MAX_ANSWER_BYTES: usize = 16 << 10;
/// Limit for the answers of all servers together, in bytes: about 8,000 servers. Later answers are
/// shown without details.
const MAX_TOTAL_ANSWER_BYTES: u64 = 16 << 20;
/// Changes of version, map and MOTD that are reported in a burst, per server. Another one is
/// allowed every 15 minutes, because some servers change their MOTD with each reply.
const CHANGE_BURST: f32 = 6.0;
const CHANGE_REFILL_MS: f32 = 15.0 * 60_000.0;
/// Answers in a row in another protocol after which the change is reported.
const ANSWERS_UNTIL_CHANGE: u8 = 3;
/// Limit of player names kept from one answer.
const MAX_PLAYERS: usize = 1_024;

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
        sweep.rate_limits.packets_per_second = 20_000.0;
        // The schedule spreads the polls evenly, so a network gets as many as its servers need. A
        // lower limit per network would starve some of them: one host may have hundreds of servers.
        sweep.rate_limits.per_prefix = f64::INFINITY;
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

/// Limit for reports of changes of version, map, MOTD or address of one server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ChangeLimit {
    /// Recent changes that count against the limit.
    pub recent: f32,
    /// When `recent` was last updated, in Unix milliseconds.
    pub at: Millis,
}

impl ChangeLimit {
    /// Returns the limit without a time in the future, until which it would not refill.
    fn not_after(mut self, now: Millis) -> Self {
        self.at = self.at.min(now);
        self
    }

    /// Returns whether another change may be reported now, and counts it.
    fn take(&mut self, at: Millis) -> bool {
        let refilled = (at - self.at).max(0) as f32 / CHANGE_REFILL_MS;
        let changes = (self.recent - refilled).max(0.0);
        if changes > CHANGE_BURST - 1.0 {
            return false;
        }
        self.recent = changes + 1.0;
        self.at = at;
        true
    }
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

struct PollShared {
    config: PollConfig,
    table: Mutex<PollTable>,
    live: Arc<StateTable>,
    counts: Counts,
    /// Weak, so that the channel closes when the thread ends.
    results: mpsc::WeakSender<Vec<PollResult>>,
    is_over: AtomicBool,
    lookups: tokio::sync::Notify,
}

/// All polled servers, with the state that pages do not show.
struct PollTable {
    schedule: Schedule,
    watched: HashMap<ServerId, PolledServer>,
    listed: ListedPolicies,
    wall: WallClock,
    started: Instant,
    clock: PollClock,
}

struct PolledServer {
    /// The same as in `StateTable`. The target is parsed again in the rare cases that need more
    /// than its address.
    server: Arc<Server>,
    is_name: bool,
    protocol: &'static dyn Protocol,
    address: Result<SocketAddr, Arc<str>>,
    looked_up: Option<Instant>,
    /// Protocols and ports, if the target names a game.
    game: Option<Box<GamePlan>>,
    health: Health,
    /// Whether a poll of this server is under way.
    is_asked: bool,
    /// Probes of the poll under way, if it has several.
    poll: Option<Box<OpenPoll>>,
    last_status: Option<Arc<LastStatus>>,
    /// When this process last took a sample, in Unix milliseconds.
    last_at: Option<Millis>,
    spoken: SpokenProtocol,
    changes: ChangeLimit,
}

/// Protocol in which a server answers. A game is polled in several, and one of them can fail now and
/// then, so another one is a change only after some answers in a row.
#[derive(Clone, Copy, Debug, Default)]
struct SpokenProtocol {
    known: Option<&'static str>,
    /// Answers in a row in another one.
    others: u8,
}

impl SpokenProtocol {
    /// Records the protocol of an answer. Returns a change.
    fn record(&mut self, protocol: Option<&'static str>) -> Option<ValueChange> {
        let (Some(known), Some(new)) = (self.known, protocol) else {
            self.known = self.known.or(protocol);
            return None;
        };
        if known == new {
            self.others = 0;
            return None;
        }
        self.others += 1;
        if self.others < ANSWERS_UNTIL_CHANGE {
            return None;
        }
        (self.known, self.others) = (Some(new), 0);
        Some(ValueChange {
            from: Some(known.into()),
            to: Some(new.into()),
        })
    }
}

/// A poll of several probes.
struct OpenPoll {
    /// Time of the sample.
    at: Millis,
    /// Number of probes without a result.
    open: usize,
    /// Place of each probe in the plan, and its result.
    results: Vec<(u8, Result<Answer, Error>)>,
}

impl PolledServer {
    /// Creates an entry for a server that was not polled yet.
    fn new(
        server: Arc<Server>,
        target: &Target,
        protocol: &'static dyn Protocol,
        health: Health,
        changes: ChangeLimit,
        listed: &ListedPolicies,
    ) -> Self {
        let candidates = target.candidates().unwrap_or_default();
        let address = match candidates.first() {
            Some(address) => listed.allowed(&server, &[*address]).map(|_| *address),
            None => Err("its name was not looked up yet".into()),
        };
        Self {
            server,
            // The address of a remote service has a name too.
            is_name: target.candidates().is_none(),
            protocol,
            address,
            looked_up: None,
            game: GamePlan::of(target),
            health,
            is_asked: false,
            poll: None,
            last_status: None,
            last_at: None,
            spoken: SpokenProtocol::default(),
            changes,
        }
    }
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
        let lookups = tokio::spawn(look_up(shared.clone()));
        let http = HttpProbes::new(&shared.config);
        let thread = {
            let shared = shared.clone();
            std::thread::Builder::new()
                .name("poll".into())
                .spawn(move || {
                    let open: Arc<Mutex<OpenProbes>> = Arc::default();
                    let http_results = http.results.clone();
                    let mut source = DueProbes {
                        shared: shared.clone(),
                        open: open.clone(),
                        http,
                        max_streams: sweep::max_connections()
                            .saturating_sub(RESERVED_FILES)
                            .clamp(1, MAX_OPEN_STREAMS),
                        next: VecDeque::new(),
                        index: 0,
                    };
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

impl PollTable {
    /// Returns the time of the schedule, in Unix milliseconds.
    fn now(&mut self) -> Millis {
        let (now, was_disturbed) = self.clock.now(self.wall.now(), self.started.elapsed());
        if was_disturbed {
            self.schedule.restart(now);
            for polled in self.watched.values_mut() {
                polled.health = polled.health.not_after(now);
                polled.changes = polled.changes.not_after(now);
            }
        }
        now
    }

    /// Returns the next server whose sample is due.
    fn next(&mut self, counts: &Counts) -> Option<DueSample> {
        let now = self.now();
        loop {
            let due = self.schedule.next(now)?;
            let skipped = counts.skipped.load(Ordering::Relaxed);
            counts
                .missed
                .store(self.schedule.missed() + skipped, Ordering::Relaxed);
            match self.watched.get_mut(&due.server) {
                // The previous poll has no result yet: it started late, or its timeout is longer
                // than the interval.
                Some(watched) if watched.is_asked => self.schedule.postpone(due, now),
                Some(watched) => {
                    watched.is_asked = true;
                    return Some(due);
                }
                None => {}
            }
        }
    }
}

/// Source of targets of the sweep: the due samples.
struct DueProbes {
    shared: Arc<PollShared>,
    open: Arc<Mutex<OpenProbes>>,
    http: HttpProbes,
    /// Limit of connections at a time.
    max_streams: usize,
    /// Further probes of the last poll.
    next: VecDeque<Probe>,
    index: u64,
}

/// Probes under way, by index.
#[derive(Default)]
struct OpenProbes {
    probes: HashMap<u64, OpenProbe>,
    /// How many of them use a connection.
    streams: usize,
    /// How many of them use HTTP.
    http: usize,
}

/// Results of probes over HTTP that the sink has not taken yet, by index.
type HttpResults = Arc<Mutex<Vec<(u64, Result<Answer, Error>)>>>;

/// Starts the probes over HTTP.
struct HttpProbes {
    client: Arc<Client>,
    runtime: tokio::runtime::Handle,
    results: HttpResults,
}

impl HttpProbes {
    /// Creates an instance inside a tokio runtime, which runs the probes.
    fn new(poll: &PollConfig) -> Self {
        let mut config = ClientConfig::default();
        config.ask.clone_from(&poll.sweep.ask);
        config.limits = poll.sweep.limits;
        config.is_strict = poll.sweep.is_strict;
        config.has_datagrams = poll.sweep.has_replies;
        config.source = poll.sweep.source;
        config.name_server = poll.name_server;
        Self {
            client: Arc::new(Client::new(config)),
            runtime: tokio::runtime::Handle::current(),
            results: Arc::default(),
        }
    }

    fn start(
        &self,
        index: u64,
        target: Target,
        protocol: &'static dyn Protocol,
        address: SocketAddr,
    ) {
        let client = self.client.clone();
        let results = self.results.clone();
        self.runtime.spawn(async move {
            let limit = client.config().limits.deadline + DEADLINE_GRACE;
            let query = client.query_at(&target, protocol, address);
            let result = tokio::time::timeout(limit, query).await;
            let result = result.unwrap_or_else(|_| {
                let transcript = Transcript {
                    sent: 1,
                    ..Transcript::new(protocol.info(), address)
                };
                Err(Error::Silence {
                    transcript: transcript.into(),
                    after: limit,
                })
            });
            let mut results = lock(&results);
            results.push((index, result));
        });
    }
}

/// A probe under way.
struct OpenProbe {
    due: DueSample,
    /// Place in the plan of the server.
    place: u8,
    transport: Transport,
}

impl OpenProbes {
    fn insert(&mut self, index: u64, probe: OpenProbe) {
        self.streams += usize::from(probe.transport == Transport::Stream);
        self.http += usize::from(probe.transport == Transport::Http);
        self.probes.insert(index, probe);
    }

    fn remove(&mut self, index: u64) -> Option<OpenProbe> {
        let probe = self.probes.remove(&index)?;
        self.streams -= usize::from(probe.transport == Transport::Stream);
        self.http -= usize::from(probe.transport == Transport::Http);
        Some(probe)
    }
}

impl DueProbes {
    /// Starts a poll, whose probes of the sweep are added to `next`. Returns `false` if there are too
    /// many connections.
    fn start(&mut self, due: DueSample, polled: &mut PolledServer, address: SocketAddr) -> bool {
        let probes = match &polled.game {
            Some(plan) => plan.probes(),
            None => vec![PlannedProbe {
                protocol: polled.protocol,
                port: None,
                game: None,
            }],
        };
        let count = |wanted: Transport| {
            let transports = probes.iter().map(|probe| probe.protocol.info().transport);
            transports.filter(|transport| *transport == wanted).count()
        };
        let has_room = {
            let open = open(&self.open);
            count(Transport::Stream) + open.streams <= self.max_streams
                && count(Transport::Http) + open.http <= MAX_OPEN_HTTP
        };
        if !has_room {
            return false;
        }
        polled.poll = polled.game.as_ref().map(|_| {
            Box::new(OpenPoll {
                at: due.at,
                open: probes.len(),
                results: Vec::new(),
            })
        });
        for (place, probe) in (0..).zip(probes) {
            let transport = probe.protocol.info().transport;
            let has_name = transport == Transport::Stream && polled.is_name;
            let index = self.add(due, place, transport);
            let address = SocketAddr::new(address.ip(), probe.port.unwrap_or(address.port()));
            if transport == Transport::Http {
                // The target was parsed when the server was added.
                if let Ok(target) = polled.server.target() {
                    self.http.start(index, target, probe.protocol, address);
                }
                continue;
            }
            let probe = Probe {
                index,
                address,
                protocol: probe.protocol,
                game: probe.game,
                // Servers behind a proxy are found by their name.
                name: has_name.then(|| polled.server.target.as_str().into()),
            };
            self.next.push_back(probe);
        }
        true
    }

    /// Adds a probe and returns its index.
    fn add(&mut self, due: DueSample, place: u8, transport: Transport) -> u64 {
        let index = self.index;
        self.index += 1;
        let probe = OpenProbe {
            due,
            place,
            transport,
        };
        open(&self.open).insert(index, probe);
        index
    }
}

fn open(probes: &Mutex<OpenProbes>) -> MutexGuard<'_, OpenProbes> {
    lock(probes)
}

impl ProbeSource for DueProbes {
    fn next(&mut self) -> Next {
        let shared = self.shared.clone();
        let mut list = shared.table();
        loop {
            if let Some(probe) = self.next.pop_front() {
                return Next::Probe(probe);
            }
            let Some(due) = list.next(&shared.counts) else {
                return Next::Pending;
            };
            let Some(polled) = list.watched.get_mut(&due.server) else {
                continue;
            };
            let address = match &polled.address {
                Ok(address) => *address,
                Err(cause) => {
                    let error = not_found(polled, cause);
                    let index = self.add(due, 0, Transport::Datagram);
                    return Next::Failed {
                        index,
                        target: polled.server.target.as_str().into(),
                        error,
                    };
                }
            };
            if !self.start(due, polled, address) {
                // Connections to other servers take all files: skip this sample.
                polled.is_asked = false;
                shared.counts.skipped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn retry_after(&self) -> Duration {
        let mut table = self.shared.table();
        let now = table.now();
        let due = table.schedule.next_due();
        let wait = due.map_or(1_000, |due| due - now).clamp(1, 1_000);
        Duration::from_millis(wait as u64)
    }

    fn total(&self) -> Option<u64> {
        None
    }
}

fn not_found(watched: &PolledServer, cause: &str) -> Error {
    let name = watched.server.target().map_or_else(
        |_| watched.server.target.clone(),
        |target| target.host.to_string(),
    );
    Error::Lookup {
        name,
        cause: cause.into(),
    }
}

/// Collects results until the next progress report of the sweep, then passes them on.
struct ResultSink {
    shared: Arc<PollShared>,
    /// `None` after the poller has ended.
    sender: Option<mpsc::Sender<Vec<PollResult>>>,
    open: Arc<Mutex<OpenProbes>>,
    http: HttpResults,
    results: Vec<PollResult>,
}

impl Sink for ResultSink {
    fn record(&mut self, end: ProbeResult) {
        let probe = open(&self.open).remove(end.index);
        if let Some(probe) = probe {
            self.record_probe(&probe, end.result);
        }
    }

    fn report_progress(&mut self, _: &Progress<'_>) {
        self.take_http_results();
        self.pass_on();
    }

    fn is_stopped(&self) -> bool {
        self.shared.is_over.load(Ordering::Relaxed)
    }
}

impl ResultSink {
    fn new(shared: Arc<PollShared>, open: Arc<Mutex<OpenProbes>>, http: HttpResults) -> Self {
        Self {
            sender: shared.results.upgrade(),
            shared,
            open,
            http,
            results: Vec::new(),
        }
    }

    fn take_http_results(&mut self) {
        let ended = {
            let mut ended = lock(&self.http);
            std::mem::take(&mut *ended)
        };
        for (index, result) in ended {
            let probe = open(&self.open).remove(index);
            if let Some(probe) = probe {
                self.record_probe(&probe, result);
            }
        }
    }

    /// Records the result of a probe, and that of the poll if it was the last one.
    fn record_probe(&mut self, probe: &OpenProbe, result: Result<Answer, Error>) {
        let shared = self.shared.clone();
        let mut table = shared.table();
        let Some(polled) = table.watched.get_mut(&probe.due.server) else {
            return;
        };
        let result = match &mut polled.poll {
            None => Some(result),
            Some(poll) if poll.at == probe.due.at => {
                poll.results.push((probe.place, result));
                poll.open = poll.open.saturating_sub(1);
                (poll.open == 0).then(|| polled.combine(&shared.config.sweep.ask))
            }
            // The server has another target by now.
            Some(_) => None,
        };
        if let Some(result) = result {
            self.record_poll(probe.due, polled, result);
        }
    }

    fn record_poll(
        &mut self,
        due: DueSample,
        polled: &mut PolledServer,
        result: Result<Answer, Error>,
    ) {
        let at = due.at;
        let counts = &self.shared.counts;
        polled.is_asked = false;
        let before = polled.last_status.clone();
        let (sample, status, error) = match result {
            Ok(answer) => {
                let sample = answered(due, &answer);
                let target = &polled.server.target;
                let mut answer = answer;
                let icon = answer.status.icon.take();
                let icon = icon.and_then(|icon| self.shared.live.icons().insert(icon));
                let mut status = last_status(target, answer, at, before.as_deref(), counts);
                status.icon = icon;
                (sample, Some(Arc::new(status)), None)
            }
            Err(error) => {
                let why = PollError::from(&error);
                (unanswered(due, &error), None, Some(Arc::new(why)))
            }
        };
        let mut sample = sample;
        let interval = self.shared.config.interval_of(&polled.server);
        sample.observed_ms = observed_ms(polled.last_at.replace(at), at, interval);
        let rules = &self.shared.config.rules;
        let reason = || error.as_ref().map(|error| error.kind.clone());
        let interval = self.shared.config.interval_of(&polled.server);
        let changes = polled
            .health
            .sample(rules, interval, at, sample.is_answered, || {
                reason().unwrap_or_default()
            });
        let server = due.server;
        let mut events: Vec<Event> = Vec::new();
        for (at, kind) in changes.into_iter().flatten() {
            events.push(Event { server, at, kind });
        }
        let found = polled.find_changes(at, status.as_ref()).into_iter();
        events.extend(found.map(|kind| Event { server, at, kind }));
        let state = ServerState {
            health: polled.health.kept(rules),
            last_status: polled.last_status.clone(),
            changes: polled.changes,
        };
        counts.samples.fetch_add(1, Ordering::Relaxed);
        let now = self.shared.config.clock.now();
        counts.last.store(now as u64, Ordering::Relaxed);
        self.results.push(PollResult {
            sample,
            error,
            status,
            events,
            state,
        });
    }

    /// Updates the state table and sends the results to the history or the cluster.
    fn pass_on(&mut self) {
        if self.results.is_empty() {
            return;
        }
        let results = std::mem::take(&mut self.results);
        let mut update = Update::default();
        let mut latest: HashMap<ServerId, &PollResult> = HashMap::with_capacity(results.len());
        for result in &results {
            let server = result.sample.server;
            latest.insert(server, result);
            update.servers.push(server);
            update.events.extend(result.events.iter().cloned());
        }
        let now = self.shared.config.clock.now();
        self.shared.live.change(update, |row| {
            let Some(result) = latest.get(&row.server.id) else {
                return;
            };
            let sample = result.sample;
            row.set_health(&result.state.health);
            row.day.add_sample(&sample, now);
            row.last_sample = Some(sample);
            row.error.clone_from(&result.error);
            // Keep the status of before a restart until the server answers.
            if let Some(status) = &result.state.last_status {
                row.last_status = Some(status.clone());
            }
        });
        let count = results.len() as u64;
        let sent = self.sender.as_ref().map(|sender| sender.try_send(results));
        if !matches!(sent, Some(Ok(()))) {
            self.shared
                .counts
                .dropped
                .fetch_add(count, Ordering::Relaxed);
        }
    }
}

impl PolledServer {
    /// Returns the result of a poll of several probes, and updates the plan of the next ones.
    fn combine(&mut self, ask: &Ask) -> Result<Answer, Error> {
        let mut results = self
            .poll
            .take()
            .map(|poll| poll.results)
            .unwrap_or_default();
        results.sort_by_key(|(place, _)| *place);
        let results: Vec<_> = results.into_iter().map(|(_, result)| result).collect();
        if let Some(plan) = &mut self.game {
            plan.record(&results);
        }
        let target = self.server.target().map_err(Error::Target)?;
        Answers::combine(&target, results, ask).map(Answers::into_best)
    }

    /// Returns the changes since the last answer that may be reported, and keeps the status of this
    /// one, if there is one.
    fn find_changes(&mut self, at: Millis, status: Option<&Arc<LastStatus>>) -> Vec<EventKind> {
        // A poll that was under way when the clock was set back has counted its changes in the
        // future.
        self.changes = self.changes.not_after(at);
        let Some(status) = status else {
            return Vec::new();
        };
        let protocol = self.spoken.record(status.protocol);
        let mut found: Vec<_> = protocol.map(EventKind::Protocol).into_iter().collect();
        if let Some(before) = self.last_status.replace(status.clone()) {
            found.extend(differences(&before, status));
        }
        found.retain(|_| self.changes.take(at));
        found
    }

    /// Sets the address after a lookup. `found`: at least one address, at one or several ports.
    fn set_addresses(&mut self, found: &[SocketAddr], listed: &ListedPolicies) {
        let found = match listed.allowed(&self.server, found) {
            Ok(found) => found,
            Err(fault) => {
                self.address = Err(fault);
                return;
            }
        };
        let mut hosts: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
        hosts.dedup();
        let old = self.address.as_ref().ok();
        let old = old.and_then(|old| hosts.iter().position(|host| *host == old.ip()));
        let place = match old {
            // Keep the current address while the server replies: the order of the addresses of a
            // name has no meaning.
            Some(place) if !self.health.is_silent() => place,
            // Try the next address: this machine may have no IPv6, or one of several hosts may be
            // down.
            Some(place) => (place + 1) % hosts.len(),
            None => 0,
        };
        let Some(host) = hosts.get(place) else {
            self.address = Err("no address".into());
            return;
        };
        let address = found.iter().copied().find(|found| found.ip() == *host);
        let address = address.ok_or_else(|| "no address".into());
        if address != self.address
            && let Some(plan) = &mut self.game
        {
            plan.forget_ports();
        }
        self.address = address;
    }
}

fn answered(due: DueSample, answer: &Answer) -> Sample {
    let players = &answer.status.players;
    // A server may report any number. Numbers that no player count can have are dropped.
    let count = |count: i64| u32::try_from(count).ok();
    let has_players = players.online.is_some() || !players.list.is_empty();
    Sample {
        observed_ms: 0,
        server: due.server,
        at: due.at,
        is_answered: true,
        players: if has_players {
            count(players.count())
        } else {
            None
        },
        max: players.max.and_then(count),
        latency: Some(u32::try_from(answer.latency.as_micros()).unwrap_or(u32::MAX)),
        sent: saturate(answer.transcript.sent),
        // Each reply belongs to one datagram, but lists need more than one reply. So the count may
        // be too low, and is never too high.
        resent: saturate(
            answer
                .transcript
                .sent
                .saturating_sub(answer.transcript.received),
        ),
    }
}

fn unanswered(due: DueSample, error: &Error) -> Sample {
    let sent = error.transcript().map_or(0, |transcript| transcript.sent);
    Sample {
        observed_ms: 0,
        server: due.server,
        at: due.at,
        is_answered: false,
        players: None,
        max: None,
        latency: None,
        sent: saturate(sent),
        resent: saturate(sent.saturating_sub(1)),
    }
}

fn saturate(count: u32) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

fn last_status(
    typed: &str,
    answer: Answer,
    at: Millis,
    before: Option<&LastStatus>,
    counts: &Counts,
) -> LastStatus {
    let mut json = Vec::new();
    AnswerLine::answered(typed, &answer).write(&mut json);
    let Answer {
        transcript, status, ..
    } = answer;
    let replies: usize = transcript
        .datagrams
        .iter()
        .map(|datagram| datagram.bytes.len())
        .sum();
    // The total counts each row once: the bytes of the previous answer are given back first.
    let old = before.map_or(0, LastStatus::long_bytes) as u64;
    let kept = counts.kept.fetch_sub(old, Ordering::Relaxed) - old;
    let mut new_status = LastStatus {
        at,
        address: Some(transcript.address),
        protocol: Some(transcript.protocol.id),
        title: status.title().map(Into::into),
        has_password: status.has_password,
        has_anti_cheat: status.has_anti_cheat,
        bots: status
            .players
            .bots
            .and_then(|bots| u32::try_from(bots).ok()),
        game: status.game,
        version: status.version,
        map: status.map,
        max: status.players.max.and_then(|max| u32::try_from(max).ok()),
        players: status
            .players
            .list
            .iter()
            .take(MAX_PLAYERS)
            .map(|player| player.name.plain().into())
            .collect(),
        is_whole: status.players.roster == Roster::Whole
            && status.players.list.len() <= MAX_PLAYERS,
        is_sample: status.players.roster == Roster::Sample,
        motd: status.motd,
        icon: None,
        answer: Box::default(),
        replies: Vec::new(),
    };
    if json.len() <= MAX_ANSWER_BYTES && kept + json.len() as u64 <= MAX_TOTAL_ANSWER_BYTES {
        new_status.answer = json.into();
    }
    if replies <= MAX_ANSWER_BYTES
        && kept + (new_status.long_bytes() + replies) as u64 <= MAX_TOTAL_ANSWER_BYTES
    {
        new_status.replies = transcript
            .datagrams
            .into_iter()
            .map(|datagram| datagram.bytes.into())
            .collect();
    }
    counts
        .kept
        .fetch_add(new_status.long_bytes() as u64, Ordering::Relaxed);
    new_status
}

/// Returns the changes from one status to the next. A value that a reply leaves out is no change:
/// short replies omit some. Answers in different protocols describe a server in different words, so
/// they are not compared.
fn differences(before: &LastStatus, now: &LastStatus) -> Vec<EventKind> {
    if let (Some(old), Some(new)) = (before.protocol, now.protocol)
        && old != new
    {
        return Vec::new();
    }
    let differ = |from: &Option<CompactString>, to: &Option<CompactString>| {
        let is_other = to.is_some() && from.is_some() && from != to;
        let text = |text: &Option<CompactString>| text.as_deref().map(str::to_owned);
        is_other.then(|| ValueChange {
            from: text(from),
            to: text(to),
        })
    };
    let plain = |new_status: &LastStatus| new_status.motd.as_ref().map(|motd| motd.plain().into());
    let address =
        |new_status: &LastStatus| new_status.address.map(|address| address.to_string().into());
    let all = [
        differ(&before.version, &now.version).map(EventKind::Version),
        differ(&before.map, &now.map).map(EventKind::Map),
        differ(&plain(before), &plain(now)).map(EventKind::Motd),
        differ(&address(before), &address(now)).map(EventKind::Address),
    ];
    all.into_iter().flatten().collect()
}

/// Resolves host names, and refreshes the results because addresses may change.
async fn look_up(shared: Arc<PollShared>) {
    let mut config = hailer::ClientConfig::default();
    config.name_server = shared.config.name_server;
    let client = Arc::new(Client::new(config));
    let places = Arc::new(tokio::sync::Semaphore::new(MAX_LOOKUPS));
    loop {
        let again = |watched: &PolledServer| match watched.address {
            Ok(_) if !watched.health.is_silent() => LOOKUP_LIFETIME,
            // The server may be silent because its address has changed.
            _ => shared.config.interval.min(LOOKUP_LIFETIME),
        };
        let mut wanted = Vec::new();
        for (id, watched) in &mut shared.table().watched {
            let is_due = watched
                .looked_up
                .is_none_or(|at| at.elapsed() >= again(watched));
            if watched.is_name && is_due {
                watched.looked_up = Some(Instant::now());
                wanted.extend(watched.server.target().map(|target| (*id, target)));
            }
        }
        for (id, target) in wanted {
            let Ok(place) = places.clone().acquire_owned().await else {
                return;
            };
            let client = client.clone();
            let shared = shared.clone();
            tokio::spawn(async move {
                let found = client.candidates(&target).await;
                let list = &mut *shared.table();
                if let Some(watched) = list.watched.get_mut(&id) {
                    match found {
                        Ok(found) => watched.set_addresses(&found, &list.listed),
                        // A failing DNS server does not remove known addresses.
                        Err(Error::NameNotFound { .. }) => {
                            watched.address = Err("there is no such name".into());
                        }
                        Err(error) if watched.address.is_err() => {
                            watched.address = Err(error.to_string().into());
                        }
                        Err(_) => {}
                    }
                }
                drop(place);
            });
        }
        tokio::select! {
            () = shared.lookups.notified() => {}
            () = tokio::time::sleep(Duration::from_secs(5)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_protocol_is_a_change_after_three_answers() {
        let mut spoken = SpokenProtocol::default();
        let mut record = |protocol| {
            let change = spoken.record(Some(protocol))?;
            Some((change.from?, change.to?))
        };
        let (query, status) = ("minecraft-query", "minecraft-status");
        for protocol in [query, status, status, query, status, status] {
            assert_eq!(record(protocol), None, "one of them fails now and then");
        }
        assert_eq!(record(status), Some((query.into(), status.into())));
        assert_eq!(record(status), None);
        assert_eq!(spoken.record(None), None);
    }

    /// The clock is set back by a day while a poll is under way whose result still has the old time.
    #[test]
    fn changes_are_reported_after_the_clock_was_set_back() {
        const MINUTE: Millis = 60_000;
        const DAY: Millis = 24 * 60 * MINUTE;
        let server = Server {
            id: ServerId(1),
            name: "a".into(),
            target: "ugp://192.0.2.7".into(),
            group: String::new(),
            labels: Default::default(),
            interval: None,
            origin: Origin::Configuration,
        };
        let target = server.target().unwrap();
        let protocol = hailer::support::catalog::protocol("ugp").unwrap();
        let listed = ListedPolicies::default();
        let (health, changes) = (Health::default(), ChangeLimit::default());
        let mut polled = PolledServer::new(
            Arc::new(server),
            &target,
            protocol,
            health,
            changes,
            &listed,
        );
        let mut report = |at: Millis| {
            let status = LastStatus {
                version: Some(at.to_string().into()),
                ..LastStatus::default()
            };
            polled.find_changes(at, Some(&Arc::new(status))).len()
        };
        let burst: usize = (0..15).map(|minute| report(DAY + minute * MINUTE)).sum();
        assert_eq!(burst, 6);
        let later: usize = (0..120).map(|minute| report(minute * MINUTE)).sum();
        assert!((7..=8).contains(&later), "one every 15 minutes: {later}");
    }
}
