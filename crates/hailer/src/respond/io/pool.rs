//! A pool of worker threads that answer from boards. `hailer serve` runs on it.
//!
//! ```text
//!   datagrams ──► the kernel, by network of the sender ──► one socket for each worker
//!                                                            │ in batches
//!                                                          Worker ── reply ──► the socket that received the request
//!                                                            └── unclaimed ──► Relay ──► game server
//!   connections ──► one socket for each address ──► one thread for all
//! ```
//!
//! For a datagram, a worker takes no lock and does not allocate. It reads the clock once for each
//! batch. The status is behind an atomic pointer, the [`Board`]. [`ResponderPool::reload`] replaces
//! the list of listeners; listeners whose address stays keep their sockets, so that no datagram is
//! lost. A listener has sockets for the transports of its protocols, on the same port.
//!
//! | limit | value |
//! | --- | --- |
//! | receive and send queue of a socket | 4 MiB each |
//! | replies waiting for room in the send queue | 256; then a worker stops receiving |
//! | age of counters | 200 ms |
//! | batches that are still answered when a listener ends | 256 |
//! | listeners of a worker | 65,536 |
//! | connections | [`PoolConfig::connections`] |
//!
//! May import: `crate::door`, `crate::respond`, `crate::respond::engine`,
//! `crate::respond::io::connections`, `crate::respond::io::doorway`, `crate::respond::io::passage`,
//! `crate::respond::io::service`, `crate::support`, `hailer_proto`, `hailer_udp`.

use super::connections::{Route, StreamLimits, StreamSocket, StreamThread};
use super::doorway::Doorway;
use super::passage::PassageLimits;
use super::service::{EpochClock, answer_batch};
use crate::door::Entrance;
use crate::respond::engine::sessions::{RelayLimits, RelayVerification};
use crate::respond::{Board, Budget, Counts, MAX_REQUEST, RateLimiter, RemainingBudget, TopTalker};
use crate::support::listen::ConnectionLimits;
use crate::support::readiness::WatchedSocket;
use arc_swap::ArcSwap;
use hailer_proto::Transport;
use hailer_udp::{BATCH, Inbox, Outbox, Socket, SocketConfig};
use mio::{Events, Poll, Registry, Token, Waker};
use std::fmt;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Requested size of the receive queue in bytes, for requests that arrive while a worker is busy.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Requested size of the send queue in bytes.
const SEND_BUFFER: usize = 4 << 20;
/// Replies waiting for room in the send queue. At this number a worker stops receiving.
const MAX_UNSENT_REPLIES: usize = 4 * BATCH;
/// Pause after the system had no room for a reply.
const SEND_RETRY_DELAY: Duration = Duration::from_micros(500);
/// How often a worker publishes its counters.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// Shortest time that rates are computed over.
const RATE_WINDOW: Duration = Duration::from_secs(1);
/// Longest wait of a worker for events.
const MAX_WAIT: Duration = Duration::from_millis(200);
/// Largest number of batches answered on a socket before it is closed: more than its queue holds,
/// and finite in a flood.
const MAX_DRAIN_BATCHES: usize = 256;
/// Attempts to find a port number that is free for both transports.
const PORT_ATTEMPTS: u32 = 16;

/// A listening address, its responders and its optional relay.
#[derive(Clone, Debug)]
pub struct ListenerConfig {
    /// Address to listen on. Port 0 selects any free port, the same for both transports. Several
    /// listeners with the same address and another port share its socket for connections, by the
    /// [hosts](crate::respond::StreamConfig::hosts) of their boards.
    pub address: SocketAddr,
    /// Responders of the listener.
    pub board: Board,
    /// Way to the game server that receives the datagrams that no protocol claims, while it runs. If the
    /// board has a [door](Board::set_entrance), that decides when the game runs. `None`: the address
    /// of the door, or without a door such datagrams are dropped.
    pub relay: Option<Entrance>,
    /// Sockets that are bound to the address already, for example by a service manager. Each is
    /// served by one worker, since two workers would track the same networks; further workers do
    /// not serve this listener, and further sockets are not used. Several sockets must have been
    /// bound with `SO_REUSEPORT`.
    pub inherited: Option<Arc<[UdpSocket]>>,
}

/// Configuration of a [`ResponderPool`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolConfig {
    /// Number of threads. 0 selects one per core. Systems other than Unix have one thread, since
    /// sockets cannot share an address there.
    pub workers: usize,
    /// Rate limits for replies.
    pub budget: Budget,
    /// Maximum number of relay sessions per listener and worker. Each is an open socket.
    pub relay_sessions: usize,
    /// Idle time of the source after which a relay session is closed.
    pub relay_idle: Duration,
    /// How sources are verified that a relay sends replies to. A change applies to new sessions.
    pub relay_verification: RelayVerification,
    /// Limits of the connections of all listeners together.
    pub connections: ConnectionLimits,
    /// Limits of the connections that are passed on to games.
    pub passages: PassageLimits,
    /// Whether to use the portable implementation even on Unix, for tests and comparisons. A change
    /// has no effect on a running pool.
    pub is_portable: bool,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            workers: 0,
            budget: Budget::default(),
            relay_sessions: 1_024,
            relay_idle: Duration::from_secs(60),
            relay_verification: RelayVerification::default(),
            connections: ConnectionLimits {
                total: 1_024,
                lifetime: Some(Duration::from_secs(30)),
                ..ConnectionLimits::default()
            },
            passages: PassageLimits::default(),
            is_portable: false,
        }
    }
}

impl PoolConfig {
    fn relay_limits(&self) -> RelayLimits {
        RelayLimits {
            sessions: self.relay_sessions,
            idle: self.relay_idle,
            verification: self.relay_verification,
        }
    }

    fn stream_limits(&self) -> StreamLimits {
        StreamLimits {
            queries: self.connections,
            passages: self.passages,
            budget: self.budget,
        }
    }

    /// Returns the number of threads on this machine.
    pub fn threads(&self) -> usize {
        match self.workers {
            _ if self.is_portable || cfg!(not(unix)) => 1,
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        }
    }
}

/// Running worker threads. Dropping the pool stops them.
pub struct ResponderPool {
    shared: Arc<PoolState>,
    workers: Vec<JoinHandle<()>>,
    /// Thread of the connections, which starts with the first listener that has a stream protocol.
    streams: Mutex<Option<StreamThread>>,
}

impl fmt::Debug for ResponderPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponderPool")
            .field("addresses", &self.addresses())
            .finish_non_exhaustive()
    }
}

struct PoolState {
    list: ArcSwap<Vec<Arc<BoundListener>>>,
    config: ArcSwap<PoolConfig>,
    stop: AtomicBool,
    is_portable: bool,
    wakers: Vec<Waker>,
    /// Last report of each worker.
    reports: Vec<Mutex<WorkerReport>>,
}

/// Report of a worker on all its listeners together.
#[derive(Default)]
struct WorkerReport {
    budget: RemainingBudget,
    top: Vec<TopTalker>,
}

/// A listener with its sockets.
struct BoundListener {
    configured: SocketAddr,
    local: SocketAddr,
    board: Board,
    relay: Option<Entrance>,
    /// One socket per worker. Inherited sockets: one for each of the first workers. None without
    /// datagram protocols.
    sockets: Arc<[Socket]>,
    /// The socket for connections, if there are stream protocols, and the listener's part of it.
    stream: Option<(Arc<StreamSocket>, Arc<Route>)>,
    /// Counters of each worker, as last published.
    counts: Arc<[Mutex<Counts>]>,
}

/// Counters of one listener.
#[derive(Clone, Debug)]
pub struct ListenerCounts {
    /// Listening address with its port.
    pub address: SocketAddr,
    /// Sum over all workers.
    pub counts: Counts,
}

/// Error of an address that cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} over {transport}: {cause}")]
pub struct ListenError {
    /// Address that failed.
    pub address: SocketAddr,
    /// Transport that failed.
    pub transport: Transport,
    /// Error of the system.
    pub cause: io::Error,
}

impl ResponderPool {
    /// Binds all listeners and starts the workers.
    ///
    /// # Errors
    /// If an address cannot be listened on, or the system refuses threads or event queues.
    pub fn start(listeners: Vec<ListenerConfig>, config: &PoolConfig) -> Result<Self, ListenError> {
        let count = config.threads();
        let list = bind(listeners, count, config.is_portable, &[])?;
        let first = list.first().map_or(([0; 4], 0).into(), |bound| bound.local);
        let no_poll = |cause| ListenError {
            address: first,
            transport: Transport::Datagram,
            cause,
        };
        let polls = (0..count)
            .map(|_| Poll::new())
            .collect::<io::Result<Vec<_>>>()
            .map_err(no_poll)?;
        let wakers = polls
            .iter()
            .map(|poll| Waker::new(poll.registry(), WAKER))
            .collect::<io::Result<Vec<_>>>();
        let wakers = wakers.map_err(no_poll)?;
        let shared = Arc::new(PoolState {
            list: ArcSwap::from_pointee(list),
            config: ArcSwap::from_pointee(config.clone()),
            stop: AtomicBool::new(false),
            is_portable: config.is_portable,
            wakers,
            reports: (0..count).map(|_| Mutex::default()).collect(),
        });
        let start = |(index, poll)| {
            let worker = PoolWorker::new(index, poll, shared.clone());
            std::thread::Builder::new()
                .name(format!("answer-{index}"))
                .spawn(move || worker.run())
        };
        let workers: io::Result<Vec<_>> = polls.into_iter().enumerate().map(start).collect();
        match workers {
            Ok(workers) => {
                let pool = Self {
                    shared,
                    workers,
                    streams: Mutex::default(),
                };
                pool.update_streams()?;
                Ok(pool)
            }
            Err(cause) => {
                shared.stop.store(true, Ordering::Relaxed);
                Err(no_poll(cause))
            }
        }
    }

    /// Passes the sockets for connections to their thread, and starts it for the first one.
    fn update_streams(&self) -> Result<(), ListenError> {
        let list = self.shared.list.load();
        // Listeners with the same address have the same socket.
        let mut streams: Vec<Arc<StreamSocket>> = Vec::new();
        for (socket, _) in list.iter().filter_map(|bound| bound.stream.as_ref()) {
            if !streams.iter().any(|known| Arc::ptr_eq(known, socket)) {
                streams.push(socket.clone());
            }
        }
        for socket in &streams {
            let parts = list.iter().filter_map(|bound| {
                let (own, route) = bound.stream.as_ref()?;
                route.set_board(bound.board.clone());
                Arc::ptr_eq(own, socket).then(|| route.clone())
            });
            socket.set_routes(parts.collect());
        }
        let mut thread = self.lock_streams();
        match &*thread {
            Some(thread) => thread.set_sockets(streams),
            None if streams.is_empty() => {}
            None => {
                let config = self.shared.config.load();
                let address = list.first().map_or(([0; 4], 0).into(), |bound| bound.local);
                let started = StreamThread::start(streams, config.stream_limits());
                *thread = Some(started.map_err(|cause| ListenError {
                    address,
                    transport: Transport::Stream,
                    cause,
                })?);
            }
        }
        Ok(())
    }

    fn lock_streams(&self) -> std::sync::MutexGuard<'_, Option<StreamThread>> {
        // A panicked writer leaves complete data.
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the listeners. Those whose address stays keep their sockets, so that no datagram is
    /// lost.
    ///
    /// # Errors
    /// If a new address cannot be listened on. Then nothing changes.
    pub fn reload(&self, listeners: Vec<ListenerConfig>) -> Result<(), ListenError> {
        let old = self.shared.list.load();
        let list = bind(listeners, self.workers.len(), self.shared.is_portable, &old)?;
        self.shared.list.store(Arc::new(list));
        self.wake();
        self.update_streams()
    }

    /// Replaces the configuration, except for the number of workers. Bytes spent of the old budget
    /// stay spent.
    pub fn configure(&self, config: &PoolConfig) {
        self.shared.config.store(Arc::new(config.clone()));
        self.wake();
        if let Some(streams) = &*self.lock_streams() {
            streams.set_limits(config.stream_limits());
        }
    }

    /// Returns the current configuration. [`PoolConfig::workers`] is as configured;
    /// [`ResponderPool::workers`] has the real number.
    pub fn config(&self) -> Arc<PoolConfig> {
        self.shared.config.load_full()
    }

    /// Returns the addresses with their ports, in the order of the listeners.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.shared
            .list
            .load()
            .iter()
            .map(|bound| bound.local)
            .collect()
    }

    /// Returns the number of threads.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Returns the counters of each listener, at most 200 ms old.
    pub fn counts(&self) -> Vec<ListenerCounts> {
        self.shared
            .list
            .load()
            .iter()
            .map(|bound| bound.total())
            .collect()
    }

    /// Returns the remaining budget for unverified sources, at most 200 ms old.
    pub fn remaining_budget(&self) -> RemainingBudget {
        let each = self
            .shared
            .reports
            .iter()
            .map(|report| report.lock().unwrap_or_else(PoisonError::into_inner).budget);
        each.fold(RemainingBudget::default(), |all, one| RemainingBudget {
            bytes: all.bytes + one.bytes,
            bytes_per_second: all.bytes_per_second + one.bytes_per_second,
            tracked_networks: all.tracked_networks + one.tracked_networks,
            max_networks: all.max_networks + one.max_networks,
        })
    }

    /// Returns the networks with the most requests at all listeners together, in descending order.
    pub fn top_talkers(&self) -> Vec<TopTalker> {
        let each = self.shared.reports.iter();
        TopTalker::merged(each.flat_map(|report| {
            report
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .top
                .clone()
        }))
    }

    /// Answers the datagrams and connections that wait in the sockets, stops, and returns the
    /// counters. Open connections have 500 ms.
    pub fn stop(mut self) -> Vec<ListenerCounts> {
        self.join();
        self.counts()
    }

    fn join(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.wake();
        drop(self.lock_streams().take());
        for worker in self.workers.drain(..) {
            // A worker that panicked has printed its message.
            let _ = worker.join();
        }
    }

    fn wake(&self) {
        for waker in &self.shared.wakers {
            // On failure, the worker wakes up by itself after `MAX_WAIT`.
            let _ = waker.wake();
        }
    }
}

impl Drop for ResponderPool {
    fn drop(&mut self) {
        self.join();
    }
}

impl BoundListener {
    fn total(&self) -> ListenerCounts {
        let lock = |counts: &Mutex<Counts>| {
            counts
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        };
        let mut counts = Counts::default();
        for other in self.counts.iter() {
            counts.add(&lock(other));
        }
        if let Some((_, route)) = &self.stream {
            counts.add(&route.counts());
        }
        counts.overflows = self.sockets.iter().map(Socket::overflows).sum();
        ListenerCounts {
            address: self.local,
            counts,
        }
    }
}

/// Binds the listeners that are not bound yet.
fn bind(
    listeners: Vec<ListenerConfig>,
    workers: usize,
    is_portable: bool,
    old: &[Arc<BoundListener>],
) -> Result<Vec<Arc<BoundListener>>, ListenError> {
    let mut list: Vec<Arc<BoundListener>> = Vec::with_capacity(listeners.len());
    for ListenerConfig {
        address,
        board,
        relay,
        inherited,
    } in listeners
    {
        // Each old listener is kept once. One with the same hosts keeps its counters.
        let is_kept = |bound: &&Arc<BoundListener>| {
            let is_same = |new: &Arc<BoundListener>| Arc::ptr_eq(&new.counts, &bound.counts);
            bound.configured == address && !list.iter().any(is_same)
        };
        let has_same_hosts = |bound: &&Arc<BoundListener>| {
            bound.board.stream_config().hosts == board.stream_config().hosts
        };
        let mut old_ones = old.iter().filter(is_kept);
        let kept = old_ones.clone().find(has_same_hosts).or(old_ones.next());
        // Those with a shared address may have its sockets.
        let is_neighbor =
            |bound: &&&Arc<BoundListener>| bound.configured == address && address.port() != 0;
        let new_neighbors: Vec<_> = list.iter().filter(|bound| is_neighbor(&bound)).collect();
        let old_neighbors: Vec<_> = old.iter().filter(|bound| is_neighbor(&bound)).collect();
        let has_streams = board.has_connections();
        // A relay needs the datagrams of other protocols.
        let has_datagrams = board.has(Transport::Datagram) || relay.is_some() || !has_streams;
        let mut with_stream = new_neighbors
            .iter()
            .copied()
            .chain(kept)
            .chain(old_neighbors.iter().copied());
        let kept_stream = with_stream.find_map(|bound| bound.stream.as_ref());
        let kept_stream = kept_stream.map(|(socket, _)| socket.clone());
        let is_taken = new_neighbors.iter().any(|bound| !bound.sockets.is_empty());
        let mut with_sockets = kept
            .into_iter()
            .chain(old_neighbors.iter().copied().filter(|_| !is_taken));
        let kept_sockets = with_sockets.find(|bound| !bound.sockets.is_empty());
        let kept_sockets = kept_sockets.map_or_else(Arc::default, |bound| bound.sockets.clone());
        let wanted = kept.map_or(address, |kept| kept.local);
        let mut attempt = 1;
        let (local, sockets, stream) = loop {
            let sockets = match (&*kept_sockets, &inherited) {
                _ if !has_datagrams => Arc::default(),
                ([_, ..], _) => kept_sockets.clone(),
                ([], Some(inherited)) if !inherited.is_empty() => {
                    adopt(&inherited[..inherited.len().min(workers)], is_portable)
                        .map_err(|cause| error(address, Transport::Datagram, cause))?
                        .into()
                }
                ([], _) => open(wanted, workers, is_portable)
                    .map_err(|cause| error(address, Transport::Datagram, cause))?
                    .into(),
            };
            let local = sockets.first().map_or(wanted, Socket::local_addr);
            let stream = match kept_stream.clone() {
                _ if !has_streams => Ok(None),
                Some(stream) => Ok(Some(stream)),
                None => StreamSocket::bind(local).map(Some),
            };
            match stream {
                Ok(stream) => break (local, sockets, stream),
                // Connections of other programs use the ports that the system chooses, too.
                Err(cause)
                    if cause.kind() == io::ErrorKind::AddrInUse
                        && wanted.port() == 0
                        && attempt < PORT_ATTEMPTS =>
                {
                    attempt += 1;
                }
                Err(cause) => return Err(error(address, Transport::Stream, cause)),
            }
        };
        let local = match &stream {
            Some(stream) if sockets.is_empty() => stream
                .local_addr()
                .map_err(|cause| error(address, Transport::Stream, cause))?,
            _ => local,
        };
        let counts = kept.map_or_else(
            || (0..workers).map(|_| Mutex::default()).collect(),
            |kept| kept.counts.clone(),
        );
        let kept_route = kept.and_then(|kept| kept.stream.as_ref());
        let stream = stream.map(|socket| {
            let route = kept_route.map(|(_, route)| route.clone());
            (socket, route.unwrap_or_else(|| Route::new(board.clone())))
        });
        list.push(Arc::new(BoundListener {
            configured: address,
            local,
            board,
            relay,
            sockets,
            stream,
            counts,
        }));
    }
    Ok(list)
}

fn error(address: SocketAddr, transport: Transport, cause: io::Error) -> ListenError {
    ListenError {
        address,
        transport,
        cause,
    }
}

fn queues(address: SocketAddr, is_portable: bool) -> SocketConfig {
    let mut config = SocketConfig::default();
    config.receive_buffer = Some(RECEIVE_BUFFER);
    config.send_buffer = Some(SEND_BUFFER);
    config.is_portable = is_portable;
    // Distribution has a small cost, so it is only used if the listener has several addresses.
    config.has_destination = address.ip().is_unspecified();
    config
}

/// Takes over inherited sockets. Those that share an address get the same distribution of networks
/// as our own.
fn adopt(inherited: &[UdpSocket], is_portable: bool) -> io::Result<Vec<Socket>> {
    let adopt = |socket: &UdpSocket| {
        let mut config = queues(socket.local_addr()?, is_portable);
        config.spread = inherited.len() as u32;
        Socket::adopt(socket.try_clone()?, &config)
    };
    inherited.iter().map(adopt).collect()
}

/// Opens a socket for each worker on one address. The kernel gives all datagrams of one network to
/// one of them.
fn open(address: SocketAddr, workers: usize, is_portable: bool) -> io::Result<Vec<Socket>> {
    let mut config = queues(address, is_portable);
    if workers == 1 {
        return Ok(vec![Socket::bind(address, &config)?]);
    }
    // With shared addresses, another process of the same user could listen as well, so check that
    // none does.
    drop(Socket::bind(address, &config)?);
    config.is_port_shared = true;
    config.spread = workers as u32;
    let first = Socket::bind(address, &config)?;
    let address = first.local_addr();
    let rest = (1..workers).map(|_| Socket::bind(address, &config));
    std::iter::once(Ok(first)).chain(rest).collect()
}

const WAKER: Token = Token(usize::MAX);

/// Worker thread.
struct PoolWorker {
    index: usize,
    poll: Poll,
    shared: Arc<PoolState>,
    config: Arc<PoolConfig>,
    limiter: RateLimiter,
    inbox: Inbox,
    clock: EpochClock,
    /// Current list, and this worker's state for each of its listeners.
    list: Arc<Vec<Arc<BoundListener>>>,
    listeners: Vec<WorkerListener>,
    reported_at: Instant,
    rated_at: Instant,
}

/// State of a worker for one listener.
struct WorkerListener {
    bound: Arc<BoundListener>,
    outbox: Outbox,
    counts: Counts,
    doorway: Doorway,
    /// Position in the worker's list, which the tokens of sessions contain.
    place: usize,
    /// Registration of the socket. `None` if the system refused it.
    watched: Option<WatchedSocket>,
    /// Whether there may be more to receive.
    is_hot: bool,
}

impl PoolWorker {
    fn new(index: usize, poll: Poll, shared: Arc<PoolState>) -> Self {
        let config = shared.config.load_full();
        let budget = config.budget.share(shared.wakers.len());
        Self {
            index,
            poll,
            config,
            limiter: RateLimiter::new(budget, getrandom::u64().unwrap_or_default()),
            inbox: Inbox::with_max_length(MAX_REQUEST),
            clock: EpochClock::start(),
            list: Arc::default(),
            listeners: Vec::new(),
            reported_at: Instant::now(),
            rated_at: Instant::now(),
            shared,
        }
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        let mut left = MAX_DRAIN_BATCHES;
        loop {
            let is_over = self.shared.stop.load(Ordering::Relaxed);
            self.apply_config();
            self.apply_list();
            let registry = self.poll.registry();
            let is_hot = self.listeners.iter_mut().fold(false, |hot, listener| {
                let (limiter, inbox) = (&mut self.limiter, &mut self.inbox);
                listener.follow(&self.config, registry);
                let is_hot = listener.serve(self.index, limiter, inbox, &self.clock);
                if !is_hot && let Some(watched) = &mut listener.watched {
                    watched.request_event(registry);
                }
                hot | is_hot
            });
            let now = Instant::now();
            left -= usize::from(is_over);
            let is_last = is_over && (!is_hot || left == 0);
            if now >= self.reported_at + REPORT_INTERVAL || is_last {
                self.reported_at = now;
                self.report(now);
            }
            if is_last {
                return;
            }
            let wait = if is_hot { Duration::ZERO } else { MAX_WAIT };
            match self.poll.poll(&mut events, Some(wait)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A passing shortage of the system: pause, so as not to spin.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            for event in &events {
                let place = event.token().0;
                // Low numbers are listeners; the others are sessions of relays.
                match self.listeners.get_mut(place % MAX_LISTENERS) {
                    Some(listener) if place < MAX_LISTENERS => listener.record_event(),
                    Some(listener) => {
                        listener.receive_from_game(
                            place / MAX_LISTENERS,
                            self.index,
                            &mut self.limiter,
                            &self.clock,
                        );
                    }
                    None => {}
                }
            }
        }
    }

    /// Applies a new configuration, if there is one.
    fn apply_config(&mut self) {
        let config = self.shared.config.load();
        if Arc::ptr_eq(&config, &self.config) {
            return;
        }
        self.config = config.clone();
        self.limiter
            .change(self.config.budget.share(self.shared.wakers.len()));
        for relay in self
            .listeners
            .iter_mut()
            .filter_map(|listener| listener.doorway.relay_mut())
        {
            relay.set_limits(self.config.relay_limits());
        }
    }

    /// Applies a new list of listeners, if there is one.
    fn apply_list(&mut self) {
        let list = self.shared.list.load_full();
        if Arc::ptr_eq(&list, &self.list) {
            return;
        }
        let registry = self.poll.registry();
        let mut old = std::mem::take(&mut self.listeners);
        let mine = list.iter().filter(|bound| bound.sockets.len() > self.index);
        for (place, bound) in mine.enumerate().take(MAX_LISTENERS) {
            let same = old
                .iter()
                .position(|listener| Arc::ptr_eq(&listener.bound.sockets, &bound.sockets));
            let mut listener = match same {
                Some(same) => old.swap_remove(same),
                None => WorkerListener::new(bound.clone()),
            };
            listener.watch(
                &bound.sockets[self.index],
                self.shared.is_portable,
                registry,
                Token(place),
            );
            listener.apply(bound.clone(), place);
            listener.follow(&self.config, registry);
            self.listeners.push(listener);
        }
        // Requests that wait at a removed listener arrived before its removal: answer them.
        for mut listener in old {
            for _ in 0..MAX_DRAIN_BATCHES {
                listener.is_hot = true;
                if !listener.serve(self.index, &mut self.limiter, &mut self.inbox, &self.clock) {
                    break;
                }
            }
            if let Some(watched) = listener.watched {
                watched.deregister(registry);
            }
        }
        self.list = list;
    }

    /// Publishes the counters. A report that is being read is published the next time.
    fn report(&mut self, now: Instant) {
        if let Ok(mut report) = self.shared.reports[self.index].try_lock() {
            report.budget = self.limiter.remaining(self.clock.since());
            let ago = now - self.rated_at;
            if ago >= RATE_WINDOW {
                self.rated_at = now;
                self.limiter.top(ago, &mut report.top);
            }
        }
        for listener in &mut self.listeners {
            let relay = listener.doorway.relay_mut();
            listener.counts.sessions = relay.map_or(0, |relay| {
                relay.expire(now);
                relay.len() as u64
            });
            if let Ok(mut counts) = listener.bound.counts[self.index].try_lock() {
                counts.clone_from(&listener.counts);
            }
        }
    }
}

/// Largest number of listeners of a worker: each has a token for its events below this number.
const MAX_LISTENERS: usize = 1 << 16;

impl WorkerListener {
    fn new(bound: Arc<BoundListener>) -> Self {
        Self {
            bound,
            outbox: Outbox::new(),
            counts: Counts::default(),
            doorway: Doorway::default(),
            place: 0,
            watched: None,
            is_hot: true,
        }
    }

    /// Registers the socket, or changes its token.
    fn watch(&mut self, socket: &Socket, is_portable: bool, registry: &Registry, token: Token) {
        let register = || WatchedSocket::register(socket, is_portable, registry, token).ok();
        match &mut self.watched {
            Some(watched) => {
                let _ = watched.set_token(registry, token);
            }
            None => self.watched = register(),
        }
    }

    /// Records that a datagram has arrived.
    fn record_event(&mut self) {
        self.is_hot = true;
        if let Some(watched) = &mut self.watched {
            watched.record_event();
        }
    }

    /// Applies the board and the relay of a listener.
    fn apply(&mut self, bound: Arc<BoundListener>, place: usize) {
        self.is_hot = true;
        self.place = place;
        self.bound = bound;
    }

    /// Follows the state of the door and the address of the game.
    fn follow(&mut self, config: &PoolConfig, registry: &Registry) {
        let BoundListener { board, relay, .. } = &*self.bound;
        let tokens = (MAX_LISTENERS, self.place);
        let limits = config.relay_limits();
        self.doorway
            .follow(board, relay.as_ref(), limits, registry, tokens);
    }

    /// Answers a batch, if one is waiting. Returns whether there may be more.
    fn serve(
        &mut self,
        index: usize,
        limiter: &mut RateLimiter,
        inbox: &mut Inbox,
        clock: &EpochClock,
    ) -> bool {
        let Self {
            bound,
            outbox,
            counts,
            doorway,
            watched,
            is_hot,
            ..
        } = self;
        // A socket without events is read in every round.
        *is_hot |= !watched.as_ref().is_some_and(WatchedSocket::is_armed);
        let socket = &bound.sockets[index];
        if !outbox.is_empty() {
            send(socket, outbox, counts);
        }
        if !*is_hot {
            return !outbox.is_empty();
        }
        let mut received = 0;
        if outbox.len() < MAX_UNSENT_REPLIES {
            match socket.receive(inbox) {
                Ok(count) => received = count,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            let batch = inbox.iter().take(received);
            answer_batch(
                &bound.board,
                limiter,
                counts,
                clock,
                batch,
                outbox,
                |unclaimed| doorway.receive(&bound.board, unclaimed),
            );
            send(socket, outbox, counts);
        }
        *is_hot = received == BATCH || !outbox.is_empty();
        *is_hot
    }

    /// Passes on what the game server sent in a session of the relay.
    fn receive_from_game(
        &mut self,
        session: usize,
        index: usize,
        limiter: &mut RateLimiter,
        clock: &EpochClock,
    ) {
        if let Some(relay) = self.doorway.relay_mut() {
            let since = clock.since();
            let now = clock.moment(since).now;
            relay.receive(
                session,
                (now, since),
                limiter,
                &mut self.counts,
                &mut self.outbox,
            );
            send(
                &self.bound.sockets[index],
                &mut self.outbox,
                &mut self.counts,
            );
        }
    }
}

fn send(socket: &Socket, outbox: &mut Outbox, counts: &mut Counts) {
    // Pause while the system has no room, so as not to spin.
    if socket.send(outbox).is_err() || !outbox.is_empty() {
        std::thread::sleep(SEND_RETRY_DELAY);
    }
    counts.unsent += outbox.take_unsent().len() as u64;
}
