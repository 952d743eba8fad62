//! Stream protocols of a [`Board`]: accepts connections, and answers them within limits.
//!
//! ```text
//!   StreamSocket ─► accept ─► ConnectionLimiter ─► converse ─► Session ─► Connection of a protocol
//!                                                    I/O         bytes
//!                                                     └─► Passages: joins, and bytes of no protocol
//! ```
//!
//! One thread runs all connections of a pool. A connection belongs to the first protocol of the
//! board that does not pass its bytes on, with the status of that moment. A connection counts once:
//! as answered, passed on, or dropped for a reason.
//!
//! Several boards can share a socket: the host that a Minecraft client sends first chooses the board.
//! Connections of trusted proxies start with the address of the client, which then counts in their
//! place.
//!
//! A client that is connected has proved its address. Its replies are charged to the budget of
//! verified sources, which all connections of a pool share; over it, the connection is closed.
//!
//! | limit | value |
//! | --- | --- |
//! | connections, and the times of each | [`PoolConfig::connections`](crate::respond::PoolConfig::connections) |
//! | bytes that no protocol has claimed, or before the host is known | 4 KiB |
//! | bytes that a protocol has not consumed | 8 KiB |
//! | bytes received on a connection | 64 KiB |
//! | pause after which a request is complete, if its protocol has such requests | 100 ms |
//! | pause before the server sends first, if several protocols share the port | 100 ms |
//! | wait for the end of the client after the last reply | 1 s |
//! | connections that wait for the thread | those of the system |
//! | end of the pool: time for open connections | 500 ms |
//!
//! May import: `crate::door`, `crate::respond`, `crate::respond::board`, `crate::respond::io::passage`,
//! `crate::respond::io::service`, `crate::respond::reason`, `crate::support`, `hailer_proto`.

use super::passage::{Arrival, PassageCounts, PassageEnd, PassageLimits, Passages};
use super::service::EpochClock;
use crate::door::{Entrance, Entry, State};
use crate::respond::board::Published;
use crate::respond::{Board, Budget, Counts, RateLimiter, reason};
use crate::support::accept::wait_after;
use crate::support::catalog;
use crate::support::listen::{ConnectionLimiter, ConnectionLimits, LimitedStream};
use crate::support::proxy_protocol::{MAX_HEADER_BYTES, ProxiedAddresses, ProxyHeader};
use arc_swap::ArcSwap;
use hailer_proto::minecraft_status::message::is_legacy_request;
use hailer_proto::minecraft_status::{RequestedHost, requested_host};
use hailer_proto::protocol::{JoinAttempt, PAUSE_MS, Received};
use hailer_proto::{Connection, ConnectionStep, Epoch, Responder, Transport, http};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, TcpStream as StdStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle as Task;
use tokio::time::timeout;

/// Limit of bytes that no protocol has claimed. The longest handshake has about 1,100 bytes.
const MAX_UNCLAIMED_BYTES: usize = 4 << 10;
/// Limit of bytes that a protocol has not consumed.
const MAX_UNREAD_BYTES: usize = 8 << 10;
/// Limit of bytes received on a connection. A status ping has less than 1 KiB.
const MAX_RECEIVED_BYTES: usize = 64 << 10;
/// Bytes of one read.
const READ_BYTES: usize = 1 << 10;
/// Pause after which bytes without an end can be a complete request.
const END_PAUSE: Duration = Duration::from_millis(PAUSE_MS);
/// Wait for the end of the client after the last reply. A connection that is closed with unread
/// bytes is reset, and a reset discards replies in flight.
const LINGER: Duration = Duration::from_secs(1);
/// Requested number of connections that wait to be accepted.
const BACKLOG: i32 = 4_096;
/// Connections taken from the queue of a socket that is closed.
const MAX_DRAINED: usize = 1_024;
/// Time for open connections at the end.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// Listening socket with the servers that share it.
pub(crate) struct StreamSocket {
    listener: StdListener,
    routes: Arc<Routes>,
}

/// The servers of a socket. Connections share them, and do not keep the socket open.
type Routes = ArcSwap<Vec<Arc<Route>>>;

/// Current board and counters of one server of a socket.
pub(crate) struct Route {
    board: ArcSwap<Board>,
    counts: Mutex<Counts>,
}

impl Route {
    pub(crate) fn new(board: Board) -> Arc<Self> {
        Arc::new(Self {
            board: ArcSwap::from_pointee(board),
            counts: Mutex::default(),
        })
    }

    /// Replaces the board, for connections from now on.
    pub(crate) fn set_board(&self, board: Board) {
        self.board.store(Arc::new(board));
    }

    /// Returns the counters.
    pub(crate) fn counts(&self) -> MutexGuard<'_, Counts> {
        // A panicked writer leaves complete data.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the server of clients without a host, or with an unknown one.
fn default_route(routes: &[Arc<Route>]) -> Option<&Arc<Route>> {
    let is_default = |route: &&Arc<Route>| route.board.load().stream_config().hosts.is_empty();
    routes.iter().find(is_default)
}

/// Returns the server of a host, or the default one.
fn route_to<'a>(routes: &'a [Arc<Route>], host: &str) -> Option<&'a Arc<Route>> {
    let has_host = |route: &&Arc<Route>| {
        let board = route.board.load();
        board.stream_config().hosts.iter().any(|own| own == host)
    };
    let found = routes.iter().find(has_host);
    found.or_else(|| default_route(routes))
}

impl StreamSocket {
    /// Listens on an address.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Arc<Self>> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        if address.is_ipv6() {
            // As for datagrams.
            socket.set_only_v6(true)?;
        }
        // Connections of an earlier process may still wait for their end.
        #[cfg(unix)]
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(Arc::new(Self {
            listener: socket.into(),
            routes: Arc::default(),
        }))
    }

    /// Replaces the servers of the socket, for connections from now on.
    pub(crate) fn set_routes(&self, routes: Vec<Arc<Route>>) {
        self.routes.store(Arc::new(routes));
    }

    /// Returns the address with its port.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Limits of the thread.
#[derive(Clone, Copy)]
pub(crate) struct StreamLimits {
    /// Of connections of queries.
    pub(crate) queries: ConnectionLimits,
    /// Of connections that are passed on.
    pub(crate) passages: PassageLimits,
    /// Of replies.
    pub(crate) budget: Budget,
}

/// Sockets and limits of the thread.
#[derive(Clone)]
struct Work {
    sockets: Vec<Arc<StreamSocket>>,
    limits: StreamLimits,
}

/// Thread that runs all connections. Dropping it answers those that wait, and ends it.
pub(crate) struct StreamThread {
    /// Server of the thread; `None` while it stops.
    work: Option<watch::Sender<Work>>,
    thread: Option<JoinHandle<()>>,
}

impl StreamThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system refuses a thread or an event queue.
    pub(crate) fn start(sockets: Vec<Arc<StreamSocket>>, limits: StreamLimits) -> io::Result<Self> {
        let (work, updates) = watch::channel(Work { sockets, limits });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::Builder::new()
            .name("answer-streams".into())
            .spawn(move || runtime.block_on(run(updates)))?;
        Ok(Self {
            work: Some(work),
            thread: Some(thread),
        })
    }

    /// Replaces the sockets. Those that stay keep their connections and their queues.
    pub(crate) fn set_sockets(&self, sockets: Vec<Arc<StreamSocket>>) {
        if let Some(work) = &self.work {
            work.send_modify(|work| work.sockets = sockets);
        }
    }

    /// Replaces the limits.
    pub(crate) fn set_limits(&self, limits: StreamLimits) {
        if let Some(work) = &self.work {
            work.send_modify(|work| work.limits = limits);
        }
    }
}

impl Drop for StreamThread {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed its message.
            let _ = thread.join();
        }
    }
}

/// A socket and the task that accepts its connections.
struct OpenSocket {
    socket: Arc<StreamSocket>,
    task: Task<()>,
}

/// State of the thread.
struct StreamServer {
    limiter: ConnectionLimiter,
    limits: ConnectionLimits,
    shared: Shared,
}

/// State that all connections share.
#[derive(Clone)]
struct Shared {
    replies: ReplyLimiter,
    passages: Passages,
}

/// Limits the replies of all connections, by source.
#[derive(Clone)]
struct ReplyLimiter {
    limiter: Arc<Mutex<RateLimiter>>,
    clock: EpochClock,
}

impl ReplyLimiter {
    fn new(budget: Budget) -> Self {
        let limiter = RateLimiter::new(budget, getrandom::u64().unwrap_or_default());
        Self {
            limiter: Arc::new(Mutex::new(limiter)),
            clock: EpochClock::start(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, RateLimiter> {
        // A panicked writer leaves complete data.
        self.limiter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_budget(&self, budget: Budget) {
        self.lock().change(budget);
    }

    fn epoch(&self) -> Epoch {
        self.clock.moment(self.clock.since()).epoch
    }

    /// Charges a reply. Returns whether it may be sent.
    fn try_spend(&self, peer: SocketAddr, request_bytes: usize, reply_bytes: usize) -> bool {
        let since = self.clock.since();
        self.lock()
            .try_spend(peer.ip(), request_bytes, reply_bytes, true, since)
    }
}

/// A client of a socket.
struct Client {
    /// Its addresses, as its proxy names them, if there is one.
    addresses: ProxiedAddresses,
    /// Bytes that were read before.
    first: Vec<u8>,
    /// Counts the connection, until it ends.
    visit: CountedConnection,
    routes: Arc<Vec<Arc<Route>>>,
}

impl StreamServer {
    fn new(limits: StreamLimits) -> Self {
        Self {
            limiter: ConnectionLimiter::new(limits.queries),
            limits: limits.queries,
            shared: Shared {
                replies: ReplyLimiter::new(limits.budget),
                passages: Passages::new(limits.passages),
            },
        }
    }

    /// Runs a connection of a client or of a trusted proxy.
    fn insert(
        &mut self,
        stream: TcpStream,
        peer: SocketAddr,
        routes: &Routes,
        this: &SharedServer,
    ) {
        // Replies are written whole, so do not wait for more data.
        let _ = stream.set_nodelay(true);
        let destination = stream.local_addr().unwrap_or(peer);
        let addresses = ProxiedAddresses {
            source: peer,
            destination,
        };
        self.start(stream, addresses, routes, this);
    }

    fn start(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        addresses: ProxiedAddresses,
        routes: &Routes,
        this: &SharedServer,
    ) {
        let routes = routes.load_full();
        // Only a socket that is being removed has no server.
        let Some(route) = default_route(&routes).or(routes.first()) else {
            return;
        };
        let peer = addresses.source.ip();
        let is_trusted = routes.iter().any(|route| {
            let board = route.board.load();
            let trusted = &board.stream_config().trusted_proxies;
            trusted.iter().any(|range| range.contains(peer))
        });
        let client = Client {
            addresses,
            first: Vec::new(),
            visit: CountedConnection::start(route.clone()),
            routes: routes.clone(),
        };
        if is_trusted {
            let stream = LimitedStream::new(stream, &self.limits);
            // The network of a proxy has no limit, since many clients share it.
            self.limiter
                .insert(None, read_proxy_header(stream, client, this.clone()));
        } else {
            self.run(stream, client);
        }
    }

    /// Runs a connection of a client.
    fn run(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        client: Client,
    ) {
        let stream = LimitedStream::new(stream, &self.limits);
        let peer = client.addresses.source;
        self.limiter.insert(
            Some(peer),
            converse(stream, client, self.limits, self.shared.clone()),
        );
    }

    fn set_limits(&mut self, limits: StreamLimits) {
        self.limits = limits.queries;
        // The lifetime is limited by `converse`, which counts it.
        self.limiter.set_limits(ConnectionLimits {
            lifetime: None,
            ..limits.queries
        });
        self.shared.replies.set_budget(limits.budget);
        self.shared.passages.set_limits(limits.passages);
    }

    /// Runs the connections that wait at a socket.
    fn drain(&mut self, socket: &StreamSocket, this: &SharedServer) {
        let accept = || socket.listener.accept().ok();
        for (stream, peer) in std::iter::from_fn(accept).take(MAX_DRAINED) {
            let convert = |stream: StdStream| {
                stream.set_nonblocking(true)?;
                TcpStream::from_std(stream)
            };
            if let Ok(stream) = convert(stream) {
                self.insert(stream, peer, &socket.routes, this);
            }
        }
    }
}

/// State of the thread, shared by the tasks that accept connections.
type SharedServer = Arc<Mutex<StreamServer>>;

fn lock(server: &SharedServer) -> MutexGuard<'_, StreamServer> {
    // A panicked writer leaves complete data.
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs until the sender of the updates is dropped.
async fn run(mut updates: watch::Receiver<Work>) {
    let limits = updates.borrow().limits;
    let server = Arc::new(Mutex::new(StreamServer::new(limits)));
    let mut open: Vec<OpenSocket> = Vec::new();
    updates.mark_changed();
    while updates.changed().await.is_ok() {
        let work = updates.borrow_and_update().clone();
        lock(&server).set_limits(work.limits);
        apply(work.sockets, &mut open, &server);
    }
    apply(Vec::new(), &mut open, &server);
    let none = ConnectionLimiter::new(limits.queries);
    let mut limiter = std::mem::replace(&mut lock(&server).limiter, none);
    // Connections that are still open then are closed with the runtime.
    let _ = timeout(STOP_GRACE, limiter.closed()).await;
}

/// Accepts on these sockets and on no others. Connections that wait at the others are answered.
fn apply(sockets: Vec<Arc<StreamSocket>>, open: &mut Vec<OpenSocket>, server: &SharedServer) {
    let mut old = std::mem::take(open);
    for socket in sockets {
        let same = old.iter().position(|old| Arc::ptr_eq(&old.socket, &socket));
        let same = same.map(|same| old.swap_remove(same));
        open.push(same.unwrap_or_else(|| {
            let task = tokio::spawn(accept(socket.clone(), server.clone()));
            OpenSocket { socket, task }
        }));
    }
    for OpenSocket { socket, task } in old {
        task.abort();
        lock(server).drain(&socket, server);
    }
}

/// Accepts connections until it is aborted. While it waits, it holds nothing that other sockets
/// need. An accepted connection runs before the next wait, so an aborted task loses none.
async fn accept(socket: Arc<StreamSocket>, server: SharedServer) {
    let listener = loop {
        match socket.listener.try_clone().and_then(TcpListener::from_std) {
            Ok(listener) => break listener,
            Err(error) => wait_after(&error).await,
        }
    };
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                lock(&server).insert(stream, peer, &socket.routes, &server);
                // The connections have their turn before more of them are accepted.
                tokio::task::yield_now().await;
            }
            Err(error) => wait_after(&error).await,
        }
    }
}

/// Counts one connection. If it is dropped before the end, the connection was evicted.
struct CountedConnection {
    route: Arc<Route>,
    /// Whether the connection had a reply, or was passed on.
    is_served: bool,
    /// Why the connection ended.
    end: &'static str,
}

impl CountedConnection {
    fn start(route: Arc<Route>) -> Self {
        let mut counts = route.counts();
        counts.connections += 1;
        counts.open_connections += 1;
        drop(counts);
        Self {
            route,
            is_served: false,
            end: reason::EVICTED.name,
        }
    }

    /// Counts the connection for another server of the socket.
    fn move_to(&mut self, route: &Arc<Route>) {
        for (route, change) in [(&self.route, -1), (route, 1)] {
            let mut counts = route.counts();
            counts.connections = counts.connections.saturating_add_signed(change);
            counts.open_connections = counts.open_connections.saturating_add_signed(change);
        }
        self.route = route.clone();
    }

    /// Counts a turn of a session: bytes received, and replies.
    fn record(&mut self, session: &mut StreamSession, received: usize, sent: usize) {
        let is_first_reply = sent > 0 && !self.is_served;
        self.is_served |= is_first_reply;
        let mut counts = self.route.counts();
        counts.bytes_in += received as u64;
        counts.bytes_out += sent as u64;
        counts.answered += u64::from(is_first_reply);
        if let Some((index, id)) = session.claimed {
            let of = counts.of_protocol(index, id);
            of.requests += u64::from(!session.is_counted);
            of.answered += u64::from(is_first_reply);
            session.is_counted = true;
        }
    }
}

impl PassageCounts for CountedConnection {
    fn held(&mut self, change: i64) {
        let mut counts = self.route.counts();
        counts.held_connections = counts.held_connections.saturating_add_signed(change);
    }

    fn relayed(&mut self, change: i64) {
        self.is_served = true;
        let mut counts = self.route.counts();
        counts.relayed_connections += u64::from(change > 0);
        let open = &mut counts.open_relayed_connections;
        *open = open.saturating_add_signed(change);
    }

    fn bytes(&mut self, to_game: u64, from_game: u64) {
        let mut counts = self.route.counts();
        counts.relayed_bytes += to_game;
        counts.relayed_back_bytes += from_game;
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut counts = self.route.counts();
        counts.open_connections -= 1;
        if !self.is_served {
            Counts::drop(&mut counts, self.end);
        }
    }
}

/// Reads the header of a trusted proxy, and runs the connection of its client.
async fn read_proxy_header<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    mut stream: LimitedStream<S>,
    mut client: Client,
    server: SharedServer,
) {
    let header = loop {
        match ProxyHeader::read(&client.first) {
            Ok(Some(header)) => break header,
            Ok(None) if client.first.len() <= MAX_HEADER_BYTES => {}
            Ok(None) | Err(_) => {
                client.visit.end = reason::MALFORMED.name;
                return;
            }
        }
        let mut bytes = [0; READ_BYTES];
        match stream.read(&mut bytes).await {
            Ok(length @ 1..) => client.first.extend(bytes.iter().take(length)),
            end => {
                client.visit.end = reason_of_read(&end);
                return;
            }
        }
    };
    client.first.drain(..header.length);
    // A connection of the proxy itself has its own address.
    client.addresses = header.addresses.unwrap_or(client.addresses);
    lock(&server).run(stream.into_inner(), client);
}

/// Returns why a connection ended whose read got nothing.
fn reason_of_read(read: &io::Result<usize>) -> &'static str {
    match read {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => reason::SLOW.name,
        _ => reason::UNFINISHED.name,
    }
}

/// Runs one connection.
async fn converse<S: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
    mut stream: LimitedStream<S>,
    mut client: Client,
    limits: ConnectionLimits,
    shared: Shared,
) {
    let lifetime = limits.lifetime.unwrap_or(Duration::MAX);
    let talk = talk(&mut stream, &mut client, &shared.replies);
    match timeout(lifetime, talk).await {
        Ok(TalkEnd::Closed(reason)) => client.visit.end = reason,
        Err(_) => client.visit.end = reason::SLOW.name,
        Ok(TalkEnd::Arrived(arrival)) => {
            // The connection leaves the limits of queries. It ends with the runtime.
            let stream = stream.into_inner();
            tokio::spawn(pass_on(stream, *arrival, client.visit, limits, shared));
        }
    }
}

/// Holds a client and passes it on to the game, or ends it with the text of the board.
async fn pass_on<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    arrival: Arrival,
    mut visit: CountedConnection,
    limits: ConnectionLimits,
    shared: Shared,
) {
    let peer = arrival.addresses.source;
    let (end, bytes) = shared.passages.run(&mut stream, arrival, &mut visit).await;
    visit.end = match end {
        PassageEnd::Relayed => return,
        PassageEnd::Left => reason::UNFINISHED.name,
        PassageEnd::Oversized => reason::OVERSIZED.name,
        PassageEnd::Full => reason::RELAY_FULL.name,
        PassageEnd::Text => reason::RELAY_FAILED.name,
    };
    if end != PassageEnd::Text {
        return;
    }
    let board = visit.route.board.load_full();
    let mut out = Vec::new();
    let mut session = StreamSession::new(peer);
    session.receive(&board, shared.replies.epoch(), &bytes, &mut out);
    // The protocol was counted when the client arrived.
    session.is_counted = true;
    if out.is_empty() {
        return;
    }
    if !shared.replies.try_spend(peer, bytes.len(), out.len()) {
        visit.end = reason::BUDGET.name;
        return;
    }
    visit.record(&mut session, 0, out.len());
    let mut stream = LimitedStream::new(stream, &limits);
    if stream.write_all(&out).await.is_err() {
        visit.route.counts().unsent += 1;
        return;
    }
    finish(&mut stream).await;
}

/// End of the exchange of queries on a connection.
enum TalkEnd {
    /// It is closed. The reason is counted if there was no reply.
    Closed(&'static str),
    /// It belongs to the game.
    Arrived(Box<Arrival>),
}

/// Answers until either side ends the connection, or it belongs to the game.
async fn talk<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut LimitedStream<S>,
    client: &mut Client,
    replies: &ReplyLimiter,
) -> TalkEnd {
    let peer = client.addresses.source;
    let mut session = StreamSession::new(peer);
    let mut out = Vec::new();
    let mut has_paused = false;
    // Bytes of a client whose server is not known yet.
    let mut unrouted = (client.routes.len() > 1).then(Vec::new);
    if unrouted.is_none()
        && client.first.is_empty()
        && let Some(arrival) = client.arrives_silently()
    {
        return TalkEnd::Arrived(arrival);
    }
    // A server that sends first on a shared port waits for clients of the other protocols.
    let is_shared =
        unrouted.is_some() || client.visit.route.board.load().published().streams.len() > 1;
    let mut first_wait = Some(if is_shared { END_PAUSE } else { Duration::ZERO });
    loop {
        let mut bytes = match std::mem::take(&mut client.first) {
            first if !first.is_empty() => {
                first_wait = None;
                has_paused = false;
                first
            }
            _ => {
                let mut buffer = [0; READ_BYTES];
                let read = stream.read(&mut buffer);
                // One pause at the start, and one after each read that left bytes.
                let has_unread = !session.unread.is_empty()
                    || unrouted.as_ref().is_some_and(|bytes| !bytes.is_empty());
                let is_waiting = has_paused || !has_unread;
                let read = match (first_wait.take(), is_waiting) {
                    (Some(wait), _) => timeout(wait, read).await.ok(),
                    (None, false) => timeout(END_PAUSE, read).await.ok(),
                    (None, true) => Some(read.await),
                };
                has_paused = read.is_none();
                match read {
                    None => Vec::new(),
                    Some(Ok(length @ 1..)) => buffer.iter().take(length).copied().collect(),
                    Some(end) => return TalkEnd::Closed(reason_of_read(&end)),
                }
            }
        };
        let received = bytes.len();
        if let Some(unknown) = &mut unrouted {
            unknown.append(&mut bytes);
            let choice = match unknown.is_empty() {
                true => client.speaks_first(),
                false => choose_route(&client.routes, unknown, has_paused),
            };
            match choice {
                RouteChoice::Wait if unknown.len() > MAX_UNCLAIMED_BYTES => {
                    return TalkEnd::Closed(reason::OVERSIZED.name);
                }
                RouteChoice::Wait => {
                    client.visit.record(&mut session, received, 0);
                    continue;
                }
                RouteChoice::Unknown => return TalkEnd::Closed(reason::NO_QUERY.name),
                RouteChoice::Found(route) => {
                    client.visit.move_to(&route);
                    bytes = std::mem::take(unknown);
                    has_paused &= bytes.is_empty();
                    unrouted = None;
                }
            }
        }
        let board = client.visit.route.board.load_full();
        let epoch = replies.epoch();
        session.is_recorded |= board.stream_entrance().is_some();
        let turn = if !has_paused {
            session.receive(&board, epoch, &bytes, &mut out)
        } else if session.received == 0 {
            session.open(&board, &mut out)
        } else {
            session.pause(&board, epoch, &mut out)
        };
        if let Some(arrival) = client.arrives(&board, &mut session, turn, epoch, &mut out) {
            client.visit.record(&mut session, received, 0);
            return TalkEnd::Arrived(arrival);
        }
        if !out.is_empty() && !replies.try_spend(peer, received, out.len()) {
            client.visit.route.counts().bytes_in += received as u64;
            return TalkEnd::Closed(reason::BUDGET.name);
        }
        client.visit.record(&mut session, received, out.len());
        if !out.is_empty() {
            if stream.write_all(&out).await.is_err() {
                client.visit.route.counts().unsent += 1;
                return TalkEnd::Closed(reason::UNFINISHED.name);
            }
            out.clear();
        }
        match turn {
            NextAction::Wait => {}
            NextAction::Close => {
                finish(stream).await;
                return TalkEnd::Closed(reason::UNFINISHED.name);
            }
            NextAction::Drop(reason) => return TalkEnd::Closed(reason),
        }
    }
}

impl Client {
    /// Returns the default server if it sends first to a client that waits.
    fn speaks_first(&self) -> RouteChoice {
        let sends = |route: &&Arc<Route>| {
            let mut out = Vec::new();
            let mut session = StreamSession::new(self.addresses.source);
            session.open(&route.board.load(), &mut out);
            !out.is_empty()
        };
        match default_route(&self.routes).filter(sends) {
            Some(route) => RouteChoice::Found(route.clone()),
            None => RouteChoice::Wait,
        }
    }

    /// Returns the way to a running game, if no protocol is served that the client could speak.
    fn arrives_silently(&self) -> Option<Box<Arrival>> {
        let board = self.visit.route.board.load();
        let entrance = board.stream_entrance()?;
        let is_free = board.published().streams.is_empty() && is_running(&entrance);
        is_free.then(|| self.arrival(&board, entrance, Vec::new(), None))
    }

    /// Returns the way to the game if the client joins, or if no protocol claims its bytes. If it may
    /// not wake the game, `out` gets the text about it.
    fn arrives(
        &self,
        board: &Board,
        session: &mut StreamSession,
        turn: NextAction,
        epoch: Epoch,
        out: &mut Vec<u8>,
    ) -> Option<Box<Arrival>> {
        if turn == NextAction::Wait {
            return None;
        }
        let peer = self.addresses.source;
        if let Some(attempt) = session.join_attempt() {
            self.visit.route.counts().join_attempts += 1;
            board.report_join(peer, attempt);
            // After a reply, the game could not take over.
            let entrance = board.stream_entrance().filter(|_| !self.visit.is_served)?;
            if entrance.enter(peer, attempt) == Entry::Refused {
                if let Some(reply) = board.refused_reply(peer, epoch, &session.recorded) {
                    *out = reply;
                }
                return None;
            }
            let wait = session.claimed.map(|(_, id)| board.join_wait(id));
            let bytes = std::mem::take(&mut session.recorded);
            return Some(self.arrival(board, entrance, bytes, wait));
        }
        if turn != NextAction::Drop(reason::NO_QUERY.name) || session.claimed.is_some() {
            return None;
        }
        let entrance = board.stream_entrance()?;
        let mut wait = None;
        if !is_running(&entrance) {
            if !entrance.wakes_on_traffic()
                || entrance.enter(peer, &JoinAttempt::default()) == Entry::Refused
            {
                return None;
            }
            wait = Some(board.join_wait(""));
        }
        let bytes = std::mem::take(&mut session.recorded);
        Some(self.arrival(board, entrance, bytes, wait))
    }

    fn arrival(
        &self,
        board: &Board,
        entrance: Arc<Entrance>,
        bytes: Vec<u8>,
        wait: Option<Duration>,
    ) -> Box<Arrival> {
        Box::new(Arrival {
            addresses: self.addresses,
            bytes,
            entrance,
            proxy_protocol: board.stream_config().proxy_protocol,
            wait,
        })
    }
}

fn is_running(entrance: &Entrance) -> bool {
    let view = entrance.view();
    view.state == State::Running && view.game.is_some()
}

/// Server of a connection.
enum RouteChoice {
    /// More bytes decide.
    Wait,
    /// No server has this host, and there is no default.
    Unknown,
    Found(Arc<Route>),
}

/// Chooses the server of a client by its first bytes.
fn choose_route(routes: &[Arc<Route>], bytes: &[u8], has_paused: bool) -> RouteChoice {
    let host = match requested_host(bytes) {
        RequestedHost::Known(host) => Some(host),
        RequestedHost::Missing => None,
        // A legacy ping without a host.
        RequestedHost::Incomplete if has_paused && is_legacy_request(bytes) => None,
        RequestedHost::Incomplete => return RouteChoice::Wait,
    };
    let found = match host {
        Some(host) => route_to(routes, &host),
        None => default_route(routes),
    };
    match found {
        Some(route) => RouteChoice::Found(route.clone()),
        None => RouteChoice::Unknown,
    }
}

/// Ends our side, and waits for the end of the client, within limits.
async fn finish<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut LimitedStream<S>) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let rest = async {
        let mut bytes = [0; READ_BYTES];
        for _ in 0..MAX_RECEIVED_BYTES / READ_BYTES {
            if !matches!(stream.read(&mut bytes).await, Ok(1..)) {
                break;
            }
        }
    };
    let _ = timeout(LINGER, rest).await;
}

/// Next action on a connection, after its replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextAction {
    /// Wait for more bytes.
    Wait,
    /// Close it after its replies.
    Close,
    /// Close it. The reason is counted if the connection had no reply.
    Drop(&'static str),
}

/// The protocol side of one connection, without I/O.
struct StreamSession {
    peer: SocketAddr,
    /// The responders of the first bytes.
    responders: Option<Arc<Published>>,
    /// Number of protocols that passed the connection on.
    passed: usize,
    current: Option<Box<dyn Connection>>,
    /// Index and id of the protocol that consumed bytes, replied, or closed the connection.
    claimed: Option<(usize, &'static str)>,
    /// Whether the caller counted the claim.
    is_counted: bool,
    unread: Vec<u8>,
    received: usize,
    /// Whether all bytes are recorded, because they may belong to a game.
    is_recorded: bool,
    recorded: Vec<u8>,
}

impl StreamSession {
    fn new(peer: SocketAddr) -> Self {
        Self {
            peer,
            responders: None,
            passed: 0,
            current: None,
            claimed: None,
            is_counted: false,
            unread: Vec::new(),
            received: 0,
            is_recorded: false,
            recorded: Vec::new(),
        }
    }

    /// Returns the attempt to join the game, once the connection ends.
    fn join_attempt(&self) -> Option<&JoinAttempt> {
        self.current.as_ref()?.join_attempt()
    }

    /// Lets the first protocol whose server sends first do so. Appends its bytes to `out`.
    fn open(&mut self, board: &Board, out: &mut Vec<u8>) -> NextAction {
        let published = board.published();
        for (index, (_, responder)) in published.streams.iter().enumerate() {
            let Some(mut connection) = responder.connection(self.peer) else {
                continue;
            };
            let step = connection.open(out);
            if out.is_empty() && step == ConnectionStep::Wait {
                continue;
            }
            self.passed = index;
            self.current = Some(connection);
            self.responders = Some(Arc::clone(&published));
            return self.follow(Received { consumed: 0, step }, &published, out);
        }
        NextAction::Wait
    }

    /// Handles received bytes. Appends the replies to `out`.
    fn receive(
        &mut self,
        board: &Board,
        epoch: Epoch,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> NextAction {
        self.received += bytes.len();
        if self.received > MAX_RECEIVED_BYTES {
            return NextAction::Drop(reason::OVERSIZED.name);
        }
        self.unread.extend_from_slice(bytes);
        if self.is_recorded {
            self.recorded.extend_from_slice(bytes);
        }
        self.offer(board, epoch, out)
    }

    /// Returns whether the client has requested a file over HTTP, and a protocol over HTTP is served.
    fn has_http_request(&self, responders: &[(&'static str, Arc<dyn Responder>)]) -> bool {
        let is_http = |id: &str| {
            let protocol = catalog::protocol(id);
            protocol.is_some_and(|protocol| protocol.info().transport == Transport::Http)
        };
        self.unread.starts_with(b"GET /") && responders.iter().any(|(id, _)| is_http(id))
    }

    /// Offers the bytes to the protocol of the connection, or to each one until one takes them.
    fn offer(&mut self, board: &Board, epoch: Epoch, out: &mut Vec<u8>) -> NextAction {
        let published = board.published();
        let responders = self
            .responders
            .get_or_insert_with(|| Arc::clone(&published))
            .clone();
        let received = loop {
            let Some((_, responder)) = responders.streams.get(self.passed) else {
                let is_of_game = self.is_recorded;
                if is_of_game || published.is_silent || !self.has_http_request(&responders.streams)
                {
                    return NextAction::Drop(reason::NO_QUERY.name);
                }
                http::write_not_found(out);
                return NextAction::Close;
            };
            if self.current.is_none() {
                self.current = responder.connection(self.peer);
            }
            let Some(connection) = &mut self.current else {
                self.passed += 1;
                continue;
            };
            let received = connection.receive(epoch, &self.unread, out);
            let is_claimed = self.claimed.is_some() || received.consumed > 0 || !out.is_empty();
            if received.step == ConnectionStep::Pass && !is_claimed {
                self.current = None;
                self.passed += 1;
                continue;
            }
            break received;
        };
        self.follow(received, &published, out)
    }

    /// Handles a pause after bytes without an end. Appends the replies to `out`.
    fn pause(&mut self, board: &Board, epoch: Epoch, out: &mut Vec<u8>) -> NextAction {
        let Some(connection) = &mut self.current else {
            return NextAction::Wait;
        };
        let received = connection.pause(&self.unread, out);
        if received.step != ConnectionStep::Pass {
            return self.follow(received, &board.published(), out);
        }
        let count = self.responders.as_ref().map_or(0, |all| all.streams.len());
        if self.claimed.is_some() || self.passed + 1 >= count {
            // No other protocol is left: the rest of the request may be late.
            return NextAction::Wait;
        }
        self.current = None;
        self.passed += 1;
        self.offer(board, epoch, out)
    }

    /// Returns the action for the result of a connection.
    fn follow(
        &mut self,
        received: Received,
        published: &Published,
        out: &mut Vec<u8>,
    ) -> NextAction {
        let Received { consumed, step } = received;
        let consumed = consumed.min(self.unread.len());
        let is_end = matches!(step, ConnectionStep::Close | ConnectionStep::Bad(_));
        let responders = self.responders.as_deref();
        let current = responders.and_then(|responders| responders.streams.get(self.passed));
        if let Some((id, _)) = current
            && (consumed > 0 || !out.is_empty() || is_end)
        {
            self.claimed.get_or_insert((self.passed, id));
        }
        self.unread.drain(..consumed);
        if !out.is_empty() && published.is_silent {
            out.clear();
            return NextAction::Drop(reason::STALE.name);
        }
        let limit = match self.claimed {
            Some(_) => MAX_UNREAD_BYTES,
            None => MAX_UNCLAIMED_BYTES,
        };
        match step {
            ConnectionStep::Wait if self.unread.len() > limit => {
                NextAction::Drop(reason::OVERSIZED.name)
            }
            ConnectionStep::Wait => NextAction::Wait,
            ConnectionStep::Close => NextAction::Close,
            // The replies before the invalid bytes are still sent.
            ConnectionStep::Bad(_) if !out.is_empty() => NextAction::Close,
            ConnectionStep::Bad(_) => NextAction::Drop(reason::MALFORMED.name),
            // Bytes that were consumed or answered cannot be passed on.
            ConnectionStep::Pass => NextAction::Drop(reason::NO_QUERY.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::Status;
    use hailer_proto::minecraft_status;
    use hailer_testkit::week::{WEEK, assert_limit, stretches};
    use tokio::io::duplex;
    use tokio::time::{Instant, advance};

    /// Sends one request every `interval` through a week. Returns the number of replies of each
    /// stretch, with its requests and its length.
    async fn week(budget: Budget, interval: Duration) -> Vec<(usize, usize, Duration)> {
        let start = Instant::now();
        let board = Board::new(&[&minecraft_status::PROTOCOL], &Status::default()).unwrap();
        let route = Route::new(board);
        let routes = ArcSwap::from_pointee(vec![route.clone()]);
        let limits = StreamLimits {
            queries: ConnectionLimits::default(),
            passages: PassageLimits::default(),
            budget,
        };
        let server = Arc::new(Mutex::new(StreamServer::new(limits)));
        let addresses = ProxiedAddresses {
            source: "192.0.2.7:50000".parse().unwrap(),
            destination: "192.0.2.1:25565".parse().unwrap(),
        };
        let mut results = Vec::new();
        for times in stretches(interval, 6_000) {
            let mut replies = 0;
            for since in &times {
                advance(since.saturating_sub(start.elapsed())).await;
                let (stream, mut client) = duplex(4 << 10);
                lock(&server).start(stream, addresses, &routes, &server);
                client.write_all(b"\xFE\x01").await.unwrap();
                let mut reply = Vec::new();
                client.read_to_end(&mut reply).await.unwrap();
                replies += usize::from(reply.starts_with(b"\xFF"));
            }
            results.push((replies, times.len(), interval * times.len() as u32));
        }
        assert!(start.elapsed() + interval >= WEEK);
        // The server waits for the end of the client.
        tokio::time::sleep(LINGER).await;
        let counts = route.counts();
        let requests: usize = results.iter().map(|(_, requests, _)| requests).sum();
        assert_eq!(counts.connections, requests as u64);
        assert_eq!(counts.open_connections, 0);
        results
    }

    #[tokio::test(start_paused = true)]
    async fn connections_get_their_replies_at_every_point_of_a_week() {
        let budget = Budget {
            verified_packets: 2,
            ..Budget::default()
        };
        for interval_ms in [510, 7_000, 600_000] {
            for (replies, requests, _) in week(budget, Duration::from_millis(interval_ms)).await {
                assert_eq!(replies, requests);
            }
        }
        for interval_ms in [150, 450] {
            for (replies, _, time) in week(budget, Duration::from_millis(interval_ms)).await {
                assert_limit(replies as f64, 2.0, 8.0, time);
            }
        }
    }
}
