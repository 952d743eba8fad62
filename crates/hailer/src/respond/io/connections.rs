//! Stream protocols of a [`Board`]: accepts connections, and answers them within limits.
//!
//! ```text
//!   StreamSocket ─► accept ─► ConnectionLimiter ─► converse ─► Session ─► Connection of a protocol
//!                                                    I/O         bytes
//! ```
//!
//! One thread runs all connections of a pool. A connection belongs to the first protocol of the
//! board that does not pass its bytes on, with the status of that moment. A connection counts once:
//! as answered, or as dropped for a reason.
//!
//! A client that is connected has proved its address. Its replies are charged to the budget of
//! verified sources, which all connections of a pool share; over it, the connection is closed.
//!
//! | limit | value |
//! | --- | --- |
//! | connections, and the times of each | [`PoolConfig::connections`](crate::respond::PoolConfig::connections) |
//! | bytes that no protocol has claimed | 4 KiB |
//! | bytes that a protocol has not consumed | 8 KiB |
//! | bytes received on a connection | 64 KiB |
//! | pause after which a request is complete, if its protocol has such requests | 100 ms |
//! | pause before the server sends first, if several protocols share the port | 100 ms |
//! | wait for the end of the client after the last reply | 1 s |
//! | connections that wait for the thread | those of the system |
//! | end of the pool: time for open connections | 500 ms |
//!
//! May import: `crate::respond`, `crate::respond::board`, `crate::respond::io::service`,
//! `crate::respond::reason`, `crate::support`, `hailer_proto`.

use super::service::EpochClock;
use crate::respond::board::Published;
use crate::respond::{Board, Budget, Counts, RateLimiter, reason};
use crate::support::accept::wait_after;
use crate::support::catalog;
use crate::support::listen::{ConnectionLimiter, ConnectionLimits, LimitedStream};
use arc_swap::ArcSwap;
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

/// Listening socket with its state.
pub(crate) struct StreamSocket {
    listener: StdListener,
    state: Arc<SocketState>,
}

/// Current board and counters of a socket. Connections share it, and do not keep the socket open.
struct SocketState {
    board: ArcSwap<Board>,
    counts: Mutex<Counts>,
}

impl SocketState {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        // A panicked writer leaves complete data.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StreamSocket {
    /// Listens on an address.
    ///
    /// # Errors
    /// The error of the system.
    pub(crate) fn bind(address: SocketAddr, board: Board) -> io::Result<Arc<Self>> {
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
            state: Arc::new(SocketState {
                board: ArcSwap::from_pointee(board),
                counts: Mutex::default(),
            }),
        }))
    }

    /// Replaces the board, for connections from now on.
    pub(crate) fn set_board(&self, board: Board) {
        self.state.board.store(Arc::new(board));
    }

    /// Returns the address with its port.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the counters.
    pub(crate) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.state.counts()
    }
}

/// Sockets and limits of the thread.
#[derive(Clone)]
struct Work {
    sockets: Vec<Arc<StreamSocket>>,
    limits: ConnectionLimits,
    budget: Budget,
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
    pub(crate) fn start(
        sockets: Vec<Arc<StreamSocket>>,
        limits: ConnectionLimits,
        budget: Budget,
    ) -> io::Result<Self> {
        let (work, updates) = watch::channel(Work {
            sockets,
            limits,
            budget,
        });
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
    pub(crate) fn set_limits(&self, limits: ConnectionLimits, budget: Budget) {
        if let Some(work) = &self.work {
            work.send_modify(|work| {
                work.limits = limits;
                work.budget = budget;
            });
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
    replies: ReplyLimiter,
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

impl StreamServer {
    fn insert(&mut self, stream: TcpStream, peer: SocketAddr, state: Arc<SocketState>) {
        // Replies are written whole, so do not wait for more data.
        let _ = stream.set_nodelay(true);
        self.run(stream, peer, state);
    }

    fn run(
        &mut self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        peer: SocketAddr,
        state: Arc<SocketState>,
    ) {
        let stream = LimitedStream::new(stream, &self.limits);
        let visit = CountedConnection::start(state);
        let lifetime = self.limits.lifetime.unwrap_or(Duration::MAX);
        let replies = self.replies.clone();
        self.limiter
            .insert(Some(peer), converse(stream, peer, visit, lifetime, replies));
    }

    fn set_limits(&mut self, limits: ConnectionLimits) {
        self.limits = limits;
        // The lifetime is limited by `converse`, which counts it.
        self.limiter.set_limits(ConnectionLimits {
            lifetime: None,
            ..limits
        });
    }

    /// Runs the connections that wait at a socket.
    fn drain(&mut self, socket: &StreamSocket) {
        let accept = || socket.listener.accept().ok();
        for (stream, peer) in std::iter::from_fn(accept).take(MAX_DRAINED) {
            let convert = |stream: StdStream| {
                stream.set_nonblocking(true)?;
                TcpStream::from_std(stream)
            };
            if let Ok(stream) = convert(stream) {
                self.insert(stream, peer, socket.state.clone());
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
    let Work { limits, budget, .. } = *updates.borrow();
    let server = Arc::new(Mutex::new(StreamServer {
        limiter: ConnectionLimiter::new(limits),
        limits,
        replies: ReplyLimiter::new(budget),
    }));
    let mut open: Vec<OpenSocket> = Vec::new();
    updates.mark_changed();
    while updates.changed().await.is_ok() {
        let work = updates.borrow_and_update().clone();
        lock(&server).set_limits(work.limits);
        lock(&server).replies.set_budget(work.budget);
        apply(work.sockets, &mut open, &server);
    }
    apply(Vec::new(), &mut open, &server);
    let mut limiter = std::mem::replace(&mut lock(&server).limiter, ConnectionLimiter::new(limits));
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
        lock(server).drain(&socket);
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
                lock(&server).insert(stream, peer, socket.state.clone());
                // The connections have their turn before more of them are accepted.
                tokio::task::yield_now().await;
            }
            Err(error) => wait_after(&error).await,
        }
    }
}

/// Counts one connection. If it is dropped before the end, the connection was evicted.
struct CountedConnection {
    state: Arc<SocketState>,
    has_reply: bool,
    /// Why the connection ended.
    end: &'static str,
}

impl CountedConnection {
    fn start(state: Arc<SocketState>) -> Self {
        let mut counts = state.counts();
        counts.connections += 1;
        counts.open_connections += 1;
        drop(counts);
        Self {
            state,
            has_reply: false,
            end: reason::EVICTED.name,
        }
    }
}

impl Drop for CountedConnection {
    fn drop(&mut self) {
        let mut counts = self.state.counts();
        counts.open_connections -= 1;
        if !self.has_reply {
            Counts::drop(&mut counts, self.end);
        }
    }
}

/// Runs one connection.
async fn converse<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: LimitedStream<S>,
    peer: SocketAddr,
    mut visit: CountedConnection,
    lifetime: Duration,
    replies: ReplyLimiter,
) {
    let end = timeout(lifetime, talk(&mut stream, peer, &mut visit, &replies)).await;
    visit.end = end.unwrap_or(reason::SLOW.name);
}

/// Answers until either side ends the connection. Returns the reason, which is counted if there was
/// no reply.
async fn talk<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut LimitedStream<S>,
    peer: SocketAddr,
    visit: &mut CountedConnection,
    replies: &ReplyLimiter,
) -> &'static str {
    let mut session = StreamSession::new(peer);
    let mut out = Vec::new();
    let mut has_paused = false;
    // A server that sends first on a shared port waits for clients of the other protocols.
    let is_shared = visit.state.board.load().published().streams.len() > 1;
    let mut first_wait = Some(if is_shared { END_PAUSE } else { Duration::ZERO });
    loop {
        let mut bytes = [0; READ_BYTES];
        let read = stream.read(&mut bytes);
        // One pause at the start, and one after each read that left bytes.
        let is_waiting = has_paused || session.unread.is_empty();
        let read = match (first_wait.take(), is_waiting) {
            (Some(wait), _) => timeout(wait, read).await.ok(),
            (None, false) => timeout(END_PAUSE, read).await.ok(),
            (None, true) => Some(read.await),
        };
        has_paused = read.is_none();
        let length = match read {
            None => 0,
            Some(Ok(0)) => return reason::UNFINISHED.name,
            Some(Ok(length)) => length,
            Some(Err(error)) if error.kind() == io::ErrorKind::TimedOut => {
                return reason::SLOW.name;
            }
            Some(Err(_)) => return reason::UNFINISHED.name,
        };
        let board = visit.state.board.load_full();
        let epoch = replies.epoch();
        let turn = if !has_paused {
            session.receive(&board, epoch, &bytes[..length], &mut out)
        } else if session.received == 0 {
            session.open(&board, &mut out)
        } else {
            session.pause(&board, epoch, &mut out)
        };
        if !out.is_empty() && !replies.try_spend(peer, length, out.len()) {
            visit.state.counts().bytes_in += length as u64;
            return reason::BUDGET.name;
        }
        let is_first_reply = !out.is_empty() && !visit.has_reply;
        visit.has_reply |= is_first_reply;
        {
            let mut counts = visit.state.counts();
            counts.bytes_in += length as u64;
            counts.bytes_out += out.len() as u64;
            counts.answered += u64::from(is_first_reply);
            if let Some((index, id)) = session.claimed {
                let of = counts.of_protocol(index, id);
                of.requests += u64::from(!session.is_counted);
                of.answered += u64::from(is_first_reply);
                session.is_counted = true;
            }
        }
        if turn != NextAction::Wait
            && let Some(attempt) = session.join_attempt()
        {
            visit.state.counts().join_attempts += 1;
            board.report_join(peer, attempt);
        }
        if !out.is_empty() {
            if stream.write_all(&out).await.is_err() {
                visit.state.counts().unsent += 1;
                return reason::UNFINISHED.name;
            }
            out.clear();
        }
        match turn {
            NextAction::Wait => {}
            NextAction::Close => {
                finish(stream).await;
                return reason::UNFINISHED.name;
            }
            NextAction::Drop(reason) => return reason,
        }
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
                if published.is_silent || !self.has_http_request(&responders.streams) {
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
        let state = Arc::new(SocketState {
            board: ArcSwap::from_pointee(board),
            counts: Mutex::default(),
        });
        let limits = ConnectionLimits::default();
        let mut server = StreamServer {
            limiter: ConnectionLimiter::new(limits),
            limits,
            replies: ReplyLimiter::new(budget),
        };
        let peer = "192.0.2.7:50000".parse().unwrap();
        let mut results = Vec::new();
        for times in stretches(interval, 6_000) {
            let mut replies = 0;
            for since in &times {
                advance(since.saturating_sub(start.elapsed())).await;
                let (stream, mut client) = duplex(4 << 10);
                server.run(stream, peer, state.clone());
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
        let counts = state.counts();
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
