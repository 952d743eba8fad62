//! Worker threads that answer from boards: what `hailer serve` runs on.
//!
//! ```text
//!   datagrams ──► the kernel, by network of the sender ──► one socket for each worker
//!                                                            │ a batch at a time
//!                                                          Worker ── reply ──► the socket that was asked
//!                                                            └── claimed by nobody ──► Relay ──► the game server behind
//! ```
//!
//! A worker takes no lock for a datagram, allocates nothing, and looks at the clock once a batch. What it answers hangs at
//! a [`Board`], one atomic pointer; where it answers, in a list that [`ResponderPool::reload`] replaces as a whole. A socket that
//! stays in the list stays open, so that no datagram is lost between two lists.

use super::reason::NO_QUERY;
use super::relay::Relay;
use super::{
    Board, Budget, Clock, Counts, MAX_REQUEST, RateLimiter, RemainingBudget, TopTalker,
    answer_batch,
};
use arc_swap::ArcSwap;
use hailer_udp::{BATCH, Inbox, Outbox, Socket, SocketConfig};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Room for requests that come while a worker is at something else.
const RECEIVE_BUFFER: usize = 4 << 20;
const SEND_BUFFER: usize = 4 << 20;
/// Replies that wait for the system to take them; past that, nothing is heard.
const MAX_UNSENT_REPLIES: usize = 4 * BATCH;
/// A system that takes no more is given so long.
const SEND_RETRY_DELAY: Duration = Duration::from_micros(500);
/// Whoever wants to know reads counts that are at most so old.
const REPORT_INTERVAL: Duration = Duration::from_millis(200);
/// Rates are of so much time at least.
const RATE_WINDOW: Duration = Duration::from_secs(1);
/// A worker looks up at least so often.
const MAX_WAIT: Duration = Duration::from_millis(200);
/// A socket that is taken off the list is emptied first, and at the end all are: so many batches at most, more than a queue
/// holds, since a flood would have no end.
const MAX_DRAIN_BATCHES: usize = 256;

/// What is answered at one address.
#[derive(Clone)]
pub struct ListenerConfig {
    /// The address, port 0 for any free one.
    pub address: SocketAddr,
    /// What is answered.
    pub board: Board,
    /// The game server to which goes what no protocol claims. None: it is dropped.
    pub relay: Option<SocketAddr>,
    /// Sockets that are bound there already, such as those that a service manager hands over. A worker answers on each,
    /// and the others answer elsewhere: two on one socket would both count for the same networks. Several must have been
    /// bound with `SO_REUSEPORT`; of more than there are workers the first are taken.
    pub inherited: Option<Arc<[UdpSocket]>>,
}

/// How an engine works.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolConfig {
    /// Threads; 0: one for each core.
    pub workers: usize,
    /// How much may be sent to whom.
    pub budget: Budget,
    /// Sessions that a relay holds at once, for each post and worker. Each is an open socket.
    pub relay_sessions: usize,
    /// A session in which nothing moved for so long is closed.
    pub relay_idle: Duration,
}

impl Default for PoolConfig {
    fn default() -> Self {
        Self {
            workers: 0,
            budget: Budget::default(),
            relay_sessions: 1_024,
            relay_idle: Duration::from_secs(60),
        }
    }
}

impl PoolConfig {
    /// How many threads that means on this machine.
    pub fn threads(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        }
    }
}

/// A running engine. Dropping it stops it.
pub struct ResponderPool {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<()>>,
}

struct Shared {
    list: ArcSwap<Vec<Arc<BoundListener>>>,
    settings: ArcSwap<PoolConfig>,
    stop: AtomicBool,
    wakers: Vec<Waker>,
    /// What each worker last told.
    told: Vec<Mutex<WorkerReport>>,
}

/// What a worker tells of all its posts together.
#[derive(Default)]
struct WorkerReport {
    /// What is left of its budget.
    left: RemainingBudget,
    /// The networks that ask most.
    top: Vec<TopTalker>,
}

/// A post with its sockets.
struct BoundListener {
    asked: SocketAddr,
    local: SocketAddr,
    board: Board,
    relay: Option<SocketAddr>,
    /// One for each worker, or, where they were inherited over, for the first workers.
    sockets: Arc<[Socket]>,
    /// What each worker did here, as it last told.
    told: Arc<[Mutex<Counts>]>,
}

/// What was done at one post.
#[derive(Clone, Debug)]
pub struct ListenerCounts {
    /// The address, with its port.
    pub address: SocketAddr,
    /// What was done there, by all workers.
    pub counts: Counts,
}

/// An address that cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {cause}")]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// Why.
    pub cause: io::Error,
}

impl ResponderPool {
    /// Binds all posts and starts the workers.
    pub fn start(posts: Vec<ListenerConfig>, settings: &PoolConfig) -> Result<Self, ListenError> {
        let count = settings.threads();
        let list = bind(posts, count, &[])?;
        let no_poll = |cause| ListenError {
            address: list.first().map_or(([0; 4], 0).into(), |bound| bound.local),
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
        let shared = Arc::new(Shared {
            list: ArcSwap::from_pointee(list),
            settings: ArcSwap::from_pointee(settings.clone()),
            stop: AtomicBool::new(false),
            wakers,
            told: (0..count).map(|_| Mutex::default()).collect(),
        });
        let start = |(index, poll)| {
            let worker = Worker::new(index, poll, shared.clone());
            std::thread::Builder::new()
                .name(format!("answer-{index}"))
                .spawn(move || worker.run())
        };
        let workers: io::Result<Vec<_>> = polls.into_iter().enumerate().map(start).collect();
        match workers {
            Ok(workers) => Ok(Self { shared, workers }),
            Err(cause) => {
                shared.stop.store(true, Ordering::Relaxed);
                Err(ListenError {
                    address: ([0; 4], 0).into(),
                    cause,
                })
            }
        }
    }

    /// Replaces the posts. Those whose address stays keep their sockets, so that nothing is lost; if one of the others
    /// cannot be had, all stays as it was.
    pub fn reload(&self, posts: Vec<ListenerConfig>) -> Result<(), ListenError> {
        let list = bind(posts, self.workers.len(), &self.shared.list.load())?;
        self.shared.list.store(Arc::new(list));
        self.wake();
        Ok(())
    }

    /// Other settings from now on, all but the number of workers, which stays. What was spent of the old budget is spent of
    /// the new one too.
    pub fn configure(&self, settings: &PoolConfig) {
        self.shared.settings.store(Arc::new(settings.clone()));
        self.wake();
    }

    /// The settings at work. Their number of workers is what was last wished for.
    pub fn config(&self) -> Arc<PoolConfig> {
        self.shared.settings.load_full()
    }

    /// The addresses, in the order of the posts, with the ports that the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.shared
            .list
            .load()
            .iter()
            .map(|bound| bound.local)
            .collect()
    }

    /// How many threads answer.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// What was done so far, a moment ago.
    pub fn counts(&self) -> Vec<ListenerCounts> {
        self.shared
            .list
            .load()
            .iter()
            .map(|bound| bound.done())
            .collect()
    }

    /// What is left of the budget for askers that have proved nothing, a moment ago.
    pub fn remaining_budget(&self) -> RemainingBudget {
        let each = self
            .shared
            .told
            .iter()
            .map(|told| told.lock().unwrap_or_else(PoisonError::into_inner).left);
        each.fold(RemainingBudget::default(), |all, one| RemainingBudget {
            bytes: all.bytes + one.bytes,
            bytes_per_second: all.bytes_per_second + one.bytes_per_second,
            tracked_networks: all.tracked_networks + one.tracked_networks,
            max_networks: all.max_networks + one.max_networks,
        })
    }

    /// The networks that ask most, at all posts together, a moment ago; who asks most first.
    pub fn top_talkers(&self) -> Vec<TopTalker> {
        let each = self.shared.told.iter();
        TopTalker::merged(each.flat_map(|told| {
            told.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .top
                .clone()
        }))
    }

    /// Stops: what waits in the sockets is still answered. Returns what was done.
    pub fn stop(mut self) -> Vec<ListenerCounts> {
        self.join();
        self.counts()
    }

    fn join(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.wake();
        for worker in self.workers.drain(..) {
            // A worker that panicked has said so.
            let _ = worker.join();
        }
    }

    fn wake(&self) {
        for waker in &self.shared.wakers {
            // It looks up by itself soon.
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
    fn done(&self) -> ListenerCounts {
        let lock = |counts: &Mutex<Counts>| {
            counts
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        };
        let mut counts = Counts::default();
        self.told.iter().for_each(|told| counts.add(&lock(told)));
        counts.overflows = self.sockets.iter().map(Socket::overflows).sum();
        ListenerCounts {
            address: self.local,
            counts,
        }
    }
}

/// Binds what is not bound yet.
fn bind(
    posts: Vec<ListenerConfig>,
    workers: usize,
    old: &[Arc<BoundListener>],
) -> Result<Vec<Arc<BoundListener>>, ListenError> {
    let mut list: Vec<Arc<BoundListener>> = Vec::with_capacity(posts.len());
    for ListenerConfig {
        address,
        board,
        relay,
        inherited,
    } in posts
    {
        let kept = old.iter().find(|bound| {
            bound.asked == address && !list.iter().any(|new| new.local == bound.local)
        });
        let (local, sockets, told) = match kept {
            Some(kept) => (kept.local, kept.sockets.clone(), kept.told.clone()),
            None => {
                let sockets = match &inherited {
                    Some(inherited) if !inherited.is_empty() => {
                        adopt(&inherited[..inherited.len().min(workers)])
                    }
                    _ => open(address, workers),
                };
                let sockets = sockets.map_err(|cause| ListenError { address, cause })?;
                let told = (0..workers).map(|_| Mutex::default()).collect();
                (sockets[0].local_addr(), sockets.into(), told)
            }
        };
        list.push(Arc::new(BoundListener {
            asked: address,
            local,
            board,
            relay,
            sockets,
            told,
        }));
    }
    Ok(list)
}

fn queues(address: SocketAddr) -> SocketConfig {
    let mut settings = SocketConfig::default();
    settings.receive_buffer = Some(RECEIVE_BUFFER);
    settings.send_buffer = Some(SEND_BUFFER);
    // Only where it is not clear which address was asked: it costs a little.
    settings.destination = address.ip().is_unspecified();
    settings
}

/// Sockets that share an address are given their networks as if they were our own.
fn adopt(inherited: &[UdpSocket]) -> io::Result<Vec<Socket>> {
    let adopt = |socket: &UdpSocket| {
        let mut settings = queues(socket.local_addr()?);
        settings.spread = inherited.len() as u32;
        Socket::adopt(socket.try_clone()?, &settings)
    };
    inherited.iter().map(adopt).collect()
}

/// A socket for each worker, on one address. The kernel gives all that comes from one network to one of them.
fn open(address: SocketAddr, workers: usize) -> io::Result<Vec<Socket>> {
    let mut settings = queues(address);
    if workers == 1 {
        return Ok(vec![Socket::bind(address, &settings)?]);
    }
    // Sockets that share an address would also share it with another process of the same user, unasked.
    drop(Socket::bind(address, &settings)?);
    settings.reuse_port = true;
    settings.spread = workers as u32;
    let first = Socket::bind(address, &settings)?;
    let address = first.local_addr();
    let rest = (1..workers).map(|_| Socket::bind(address, &settings));
    std::iter::once(Ok(first)).chain(rest).collect()
}

const WAKER: Token = Token(usize::MAX);

/// One thread.
struct Worker {
    index: usize,
    poll: Poll,
    shared: Arc<Shared>,
    settings: Arc<PoolConfig>,
    limiter: RateLimiter,
    inbox: Inbox,
    clock: Clock,
    /// The list at work, and what this worker keeps of each post of it.
    list: Arc<Vec<Arc<BoundListener>>>,
    listeners: Vec<Listener>,
    told_at: Instant,
    rated_at: Instant,
}

/// What a worker keeps of a post.
struct Listener {
    bound: Arc<BoundListener>,
    outbox: Outbox,
    counts: Counts,
    relay: Option<Relay>,
    /// There may be more to receive.
    is_hot: bool,
}

impl Worker {
    fn new(index: usize, poll: Poll, shared: Arc<Shared>) -> Self {
        let settings = shared.settings.load_full();
        let budget = settings.budget.share(shared.wakers.len());
        Self {
            index,
            poll,
            settings,
            limiter: RateLimiter::new(budget, getrandom::u64().unwrap_or_default()),
            inbox: Inbox::with_max_length(MAX_REQUEST),
            clock: Clock::start(),
            list: Arc::default(),
            listeners: Vec::new(),
            told_at: Instant::now(),
            rated_at: Instant::now(),
            shared,
        }
    }

    fn run(mut self) {
        let mut events = Events::with_capacity(256);
        let mut left = MAX_DRAIN_BATCHES;
        loop {
            let is_over = self.shared.stop.load(Ordering::Relaxed);
            self.follow_settings();
            self.follow_list();
            let is_hot = self.listeners.iter_mut().fold(false, |hot, listener| {
                hot | listener.serve(self.index, &mut self.limiter, &mut self.inbox, &self.clock)
            });
            let now = Instant::now();
            left -= usize::from(is_over);
            let is_last = is_over && (!is_hot || left == 0);
            if now >= self.told_at + REPORT_INTERVAL || is_last {
                self.told_at = now;
                self.tell(now);
            }
            if is_last {
                return;
            }
            let wait = if is_hot { Duration::ZERO } else { MAX_WAIT };
            match self.poll.poll(&mut events, Some(wait)) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A passing shortage of the system: never a reason to stop, nor to spin.
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            for event in &events {
                let place = event.token().0;
                // Low numbers are posts; the rest belongs to the sessions of relays.
                match self.listeners.get_mut(place % MAX_LISTENERS) {
                    Some(listener) if place < MAX_LISTENERS => listener.is_hot = true,
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

    /// Takes over the newest settings, if they are others.
    fn follow_settings(&mut self) {
        let settings = self.shared.settings.load();
        if Arc::ptr_eq(&settings, &self.settings) {
            return;
        }
        self.settings = settings.clone();
        self.limiter
            .change(self.settings.budget.share(self.shared.wakers.len()));
        for relay in self
            .listeners
            .iter_mut()
            .filter_map(|listener| listener.relay.as_mut())
        {
            relay.set_limits(self.settings.relay_sessions, self.settings.relay_idle);
        }
    }

    /// Takes over the newest list, if it is another.
    fn follow_list(&mut self) {
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
                None => Listener::new(bound.clone()),
            };
            let socket = &bound.sockets[self.index];
            let fd = socket.as_raw_fd();
            let (token, interest) = (Token(place), Interest::READABLE);
            // What cannot be watched is looked at every time: see `is_hot`.
            let mut source = SourceFd(&fd);
            let watched = registry.reregister(&mut source, token, interest);
            let _ = watched.or_else(|_| registry.register(&mut source, token, interest));
            listener.take_post(bound.clone(), place, &self.settings, registry);
            self.listeners.push(listener);
        }
        // What still waits at a post that is gone was asked while it stood.
        for mut listener in old {
            for _ in 0..MAX_DRAIN_BATCHES {
                listener.is_hot = true;
                if !listener.serve(self.index, &mut self.limiter, &mut self.inbox, &self.clock) {
                    break;
                }
            }
            let _ = registry.deregister(&mut SourceFd(
                &listener.bound.sockets[self.index].as_raw_fd(),
            ));
        }
        self.list = list;
    }

    fn tell(&mut self, now: Instant) {
        // Whoever reads holds it for a moment; then the next time will do.
        if let Ok(mut told) = self.shared.told[self.index].try_lock() {
            told.left = self.limiter.remaining(self.clock.since());
            let ago = now - self.rated_at;
            if ago >= RATE_WINDOW {
                self.rated_at = now;
                self.limiter.top(ago, &mut told.top);
            }
        }
        for listener in &mut self.listeners {
            if let Some(relay) = &mut listener.relay {
                relay.expire(now);
                listener.counts.sessions = relay.len() as u64;
            }
            if let Ok(mut told) = listener.bound.told[self.index].try_lock() {
                told.clone_from(&listener.counts);
            }
        }
    }
}

/// Posts that a worker can tell apart by their tokens.
const MAX_LISTENERS: usize = 1 << 16;

impl Listener {
    fn new(bound: Arc<BoundListener>) -> Self {
        Self {
            bound,
            outbox: Outbox::new(),
            counts: Counts::default(),
            relay: None,
            is_hot: true,
        }
    }

    /// The post may have another board or relay than before.
    fn take_post(
        &mut self,
        bound: Arc<BoundListener>,
        place: usize,
        settings: &PoolConfig,
        registry: &mio::Registry,
    ) {
        let is_same = self.relay.as_ref().map(Relay::server) == bound.relay
            && self.bound.relay == bound.relay;
        if !is_same || bound.relay.is_none() {
            self.relay = None;
        }
        if let Some(server) = bound.relay {
            let make = || {
                Relay::new(
                    server,
                    settings.relay_sessions,
                    settings.relay_idle,
                    registry,
                )
            };
            if self.relay.is_none() {
                self.relay = make().ok();
            }
        }
        if let Some(relay) = &mut self.relay {
            relay.set_tokens(MAX_LISTENERS, place);
        }
        self.is_hot = true;
        self.bound = bound;
    }

    /// A batch, if there may be one. Returns whether there may be more.
    fn serve(
        &mut self,
        index: usize,
        limiter: &mut RateLimiter,
        inbox: &mut Inbox,
        clock: &Clock,
    ) -> bool {
        let Self {
            bound,
            outbox,
            counts,
            relay,
            is_hot,
        } = self;
        let socket = &bound.sockets[index];
        if !outbox.is_empty() {
            send(socket, outbox, counts);
        }
        if !*is_hot {
            return !outbox.is_empty();
        }
        let mut heard = 0;
        if outbox.len() < MAX_UNSENT_REPLIES {
            match socket.receive(inbox) {
                Ok(count) => heard = count,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            let batch = inbox.iter().take(heard);
            answer_batch(
                &bound.board,
                limiter,
                counts,
                clock,
                batch,
                outbox,
                |datagram, now, counts| match relay {
                    Some(relay) => {
                        relay.forward(datagram.from, datagram.to, datagram.bytes, now, counts);
                    }
                    None => counts.drop(NO_QUERY.name),
                },
            );
            send(socket, outbox, counts);
        }
        *is_hot = heard == BATCH || !outbox.is_empty();
        *is_hot
    }

    /// Passes on what the game server sent in a session of the relay.
    fn receive_from_game(
        &mut self,
        session: usize,
        index: usize,
        limiter: &mut RateLimiter,
        clock: &Clock,
    ) {
        if let Some(relay) = &mut self.relay {
            let since = clock.since();
            let now = (clock.started + since, since);
            relay.receive(session, now, limiter, &mut self.counts, &mut self.outbox);
            send(
                &self.bound.sockets[index],
                &mut self.outbox,
                &mut self.counts,
            );
        }
    }
}

fn send(socket: &Socket, outbox: &mut Outbox, counts: &mut Counts) {
    // Where the system takes no more, to come back at once would only spin.
    if socket.send(outbox).is_err() || !outbox.is_empty() {
        std::thread::sleep(SEND_RETRY_DELAY);
    }
    counts.unsent += outbox.take_unsent().len() as u64;
}
