//! Listeners for streams with limits: total and per-network connections, time to the first byte,
//! idle and stalled clients.
//!
//! ```text
//!   Listener ─► ConnectionLimiter ─► task with a LimitedStream ─► your protocol, or `http`
//!                └ ConnectionTable: which connection is closed when a limit is reached
//! ```
//!
//! A new connection is always accepted. When a limit is reached, an older one is closed instead, so
//! that idle connections cannot lock out others:
//!
//! | limit | effect when reached |
//! | --- | --- |
//! | [`ConnectionLimits::per_network`] | the oldest connection of the same network is closed |
//! | [`ConnectionLimits::total`] | the oldest connection of the network with most connections is closed |
//! | [`ConnectionLimits::first_byte`] | a read fails: the client sent nothing |
//! | [`ConnectionLimits::idle`] | a read fails: nothing was sent or received for this time |
//! | [`ConnectionLimits::stalled`] | a write fails: the client does not read, or is gone |
//! | [`ConnectionLimits::lifetime`] | the connection is closed |
//!
//! A network is an IPv4 /24 or an IPv6 /56. Loopback addresses and Unix sockets have no limit per
//! network, because a proxy on this machine forwards all its clients from there.
//!
//! With the feature `sources`: [`http`], HTTP/1.1 within these limits.
//!
//! May import: `crate::prefix`, `crate::support::accept`.

#[cfg(feature = "sources")]
pub mod http;

use crate::prefix;
use crate::support::accept::wait_after;
use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

/// Limits of a listener and of each of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Maximum number of connections, at least 1. Each is an open file.
    pub total: usize,
    /// Maximum number of connections of one network, at least 1.
    pub per_network: usize,
    /// Time from the start of a connection to its first byte.
    pub first_byte: Duration,
    /// Time without a byte in either direction, after the first byte. `None`: no limit.
    pub idle: Option<Duration>,
    /// Time that a write waits for a client that does not read.
    pub stalled: Duration,
    /// Time from start to end of a connection. `None`: no limit.
    pub lifetime: Option<Duration>,
}

impl Default for ConnectionLimits {
    /// 256 connections, 32 of one network; 5 s to the first byte, 10 s idle or stalled, 60 s in
    /// total.
    fn default() -> Self {
        Self {
            total: 256,
            per_network: 32,
            first_byte: Duration::from_secs(5),
            idle: Some(Duration::from_secs(10)),
            stalled: Duration::from_secs(10),
            lifetime: Some(Duration::from_secs(60)),
        }
    }
}

/// Open connections by age and network. Decides which connection is closed for a new one. Does no
/// I/O, so that any event loop can use it.
#[derive(Debug)]
pub struct ConnectionTable {
    total: usize,
    per_network: usize,
    next: u64,
    /// Networks of the open connections, oldest connection first.
    open: BTreeMap<u64, u128>,
    /// Number of open connections by network.
    networks: HashMap<u128, usize>,
}

/// Network of loopback addresses and Unix sockets. Other networks are never 0.
const LOCAL: u128 = 0;

impl ConnectionTable {
    /// Creates an empty table.
    pub fn new(limits: &ConnectionLimits) -> Self {
        Self {
            total: limits.total.max(1),
            per_network: limits.per_network.max(1),
            next: 0,
            open: BTreeMap::new(),
            networks: HashMap::new(),
        }
    }

    /// Replaces the limits. Connections above a lower limit stay open until others need their
    /// place.
    pub fn set_limits(&mut self, limits: &ConnectionLimits) {
        self.total = limits.total.max(1);
        self.per_network = limits.per_network.max(1);
    }

    /// Inserts a connection. Returns its number, and the number of the connection that must be
    /// closed for it, which is removed already. `peer` is `None` for Unix sockets.
    pub fn insert(&mut self, peer: Option<IpAddr>) -> (u64, Option<u64>) {
        let network = match peer.map(|peer| peer.to_canonical()) {
            Some(peer) if !peer.is_loopback() => prefix::network(peer),
            _ => LOCAL,
        };
        let in_network = self.networks.get(&network).copied().unwrap_or(0);
        let full = if network != LOCAL && in_network >= self.per_network {
            Some(network)
        } else if self.open.len() >= self.total {
            let largest = self.networks.iter().max_by_key(|(_, count)| **count);
            largest.map(|(network, _)| *network)
        } else {
            None
        };
        let evicted = full.and_then(|full| {
            let mut open = self.open.iter();
            open.find(|(_, network)| **network == full)
                .map(|(id, _)| *id)
        });
        if let Some(evicted) = evicted {
            self.remove(evicted);
        }
        let id = self.next;
        self.next += 1;
        self.open.insert(id, network);
        *self.networks.entry(network).or_default() += 1;
        (id, evicted)
    }

    /// Removes a closed connection. Unknown numbers have no effect.
    pub fn remove(&mut self, id: u64) {
        let Some(network) = self.open.remove(&id) else {
            return;
        };
        if let Some(count) = self.networks.get_mut(&network) {
            *count -= 1;
            if *count == 0 {
                self.networks.remove(&network);
            }
        }
    }

    /// Returns the number of open connections.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns whether no connection is open.
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }
}

/// Listening socket.
pub trait Listener {
    /// Accepted connection.
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Waits for a connection. Returns it with the address of its peer, `None` for Unix sockets.
    /// Safe to cancel.
    fn accept(&self)
    -> impl Future<Output = io::Result<(Self::Stream, Option<SocketAddr>)>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Option<SocketAddr>)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        // Replies are written whole, so do not wait for more data.
        let _ = stream.set_nodelay(true);
        Ok((stream, Some(peer)))
    }
}

#[cfg(unix)]
impl Listener for UnixListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Option<SocketAddr>)> {
        let (stream, _) = UnixListener::accept(self).await?;
        Ok((stream, None))
    }
}

/// Runs a limited number of connections, each as a task of the tokio runtime. Dropping it closes
/// all.
#[derive(Debug)]
pub struct ConnectionLimiter {
    limits: ConnectionLimits,
    table: ConnectionTable,
    tasks: JoinSet<u64>,
    handles: HashMap<u64, AbortHandle>,
}

impl ConnectionLimiter {
    /// Creates a limiter without connections.
    pub fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            table: ConnectionTable::new(&limits),
            tasks: JoinSet::new(),
            handles: HashMap::new(),
        }
    }

    /// Accepts connections until it is dropped, and runs `converse` for each. Errors of single
    /// connections do not end it.
    pub async fn serve<L, C>(
        &mut self,
        listener: &L,
        mut converse: impl FnMut(LimitedStream<L::Stream>, Option<SocketAddr>) -> C,
    ) -> Infallible
    where
        L: Listener,
        C: Future<Output = ()> + Send + 'static,
    {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let stream = LimitedStream::new(stream, &self.limits);
                    self.insert(peer, converse(stream, peer));
                }
                Err(error) => wait_after(&error).await,
            }
        }
    }

    /// Replaces the limits. Running connections keep their time limits.
    pub fn set_limits(&mut self, limits: ConnectionLimits) {
        self.limits = limits;
        self.table.set_limits(&limits);
    }

    /// Runs a connection that the caller accepted, and closes an older one if a limit is reached.
    /// Call it within a tokio runtime.
    pub fn insert(
        &mut self,
        peer: Option<SocketAddr>,
        connection: impl Future<Output = ()> + Send + 'static,
    ) {
        while let Some(ended) = self.tasks.try_join_next() {
            // Aborted tasks were removed before.
            if let Ok(id) = ended {
                self.table.remove(id);
                self.handles.remove(&id);
            }
        }
        let (id, evicted) = self.table.insert(peer.map(|peer| peer.ip()));
        if let Some(task) = evicted.and_then(|evicted| self.handles.remove(&evicted)) {
            task.abort();
        }
        let lifetime = self.limits.lifetime;
        let task = self.tasks.spawn(async move {
            match lifetime {
                Some(lifetime) => drop(timeout(lifetime, connection).await),
                None => connection.await,
            }
            id
        });
        self.handles.insert(id, task);
    }

    /// Waits until all connections are closed.
    pub async fn closed(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Stream with the time limits of its listener. A limit that is reached is an error of kind
/// [`io::ErrorKind::TimedOut`].
#[derive(Debug)]
pub struct LimitedStream<S> {
    stream: S,
    first_byte: Duration,
    idle: Option<Duration>,
    stalled: Duration,
    has_received: bool,
    /// Start of the connection, or last byte in either direction after the first byte received.
    active_at: Instant,
    /// Runs while a read waits.
    idle_clock: Pin<Box<Sleep>>,
    /// Runs while a write waits.
    stalled_clock: Pin<Box<Sleep>>,
    is_stalled: bool,
}

impl<S> LimitedStream<S> {
    /// Starts the time limits of a connection.
    pub fn new(stream: S, limits: &ConnectionLimits) -> Self {
        let now = Instant::now();
        Self {
            stream,
            first_byte: limits.first_byte,
            idle: limits.idle,
            stalled: limits.stalled,
            has_received: false,
            active_at: now,
            idle_clock: Box::pin(sleep_until(now + limits.first_byte)),
            stalled_clock: Box::pin(sleep_until(now + limits.stalled)),
            is_stalled: false,
        }
    }

    /// Returns the stream without its limits.
    pub fn get_ref(&self) -> &S {
        &self.stream
    }

    /// Ends the limits. Returns the stream.
    pub fn into_inner(self) -> S {
        self.stream
    }

    /// Returns when a read that waits has reached its limit.
    fn poll_idle(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let limit = if self.has_received {
            self.idle
        } else {
            Some(self.first_byte)
        };
        let Some(limit) = limit else {
            return Poll::Pending;
        };
        let deadline = self.active_at + limit;
        if self.idle_clock.deadline() != deadline {
            self.idle_clock.as_mut().reset(deadline);
        }
        ready!(self.idle_clock.as_mut().poll(context));
        Poll::Ready(io::ErrorKind::TimedOut.into())
    }

    /// Passes the result of a write on, or fails if it has waited for too long.
    fn limit_write(
        &mut self,
        written: Poll<io::Result<usize>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.is_stalled = false;
            if self.has_received {
                self.active_at = Instant::now();
            }
            return written;
        }
        if !std::mem::replace(&mut self.is_stalled, true) {
            let deadline = Instant::now() + self.stalled;
            self.stalled_clock.as_mut().reset(deadline);
        }
        ready!(self.stalled_clock.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LimitedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Pending => self.poll_idle(context).map(Err),
            read => {
                if buffer.filled().len() > before {
                    self.has_received = true;
                    self.active_at = Instant::now();
                }
                read
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LimitedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.limit_write(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.limit_write(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_testkit::week::{WEEK, stretches};
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{advance, sleep};

    const LIMITS: ConnectionLimits = ConnectionLimits {
        total: 4,
        per_network: 2,
        first_byte: Duration::from_secs(1),
        idle: Some(Duration::from_secs(3)),
        stalled: Duration::from_secs(2),
        lifetime: Some(Duration::from_secs(30)),
    };

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn evicts_the_oldest_connection_of_a_full_network() {
        let mut table = ConnectionTable::new(&LIMITS);
        assert_eq!(table.insert(ip("192.0.2.1")), (0, None));
        assert_eq!(table.insert(ip("198.51.100.1")), (1, None));
        assert_eq!(table.insert(ip("::ffff:192.0.2.200")), (2, None));
        assert_eq!(table.insert(ip("192.0.2.3")), (3, Some(0)));
        // An IPv6 /56 is one network.
        assert_eq!(table.insert(ip("2001:db8::1")), (4, None));
        table.remove(1);
        assert_eq!(table.insert(ip("2001:db8:0:ff::1")), (5, None));
        assert_eq!(table.insert(ip("2001:db8:0:1::1")), (6, Some(4)));
        assert_eq!(table.len(), 4);
    }

    #[test]
    fn evicts_from_the_largest_network_when_full() {
        let mut table = ConnectionTable::new(&LIMITS);
        for peer in ["192.0.2.1", "198.51.100.1", "198.51.100.2", "203.0.113.1"] {
            assert_eq!(table.insert(ip(peer)).1, None);
        }
        assert_eq!(table.insert(ip("2001:db8::1")).1, Some(1));
        assert_eq!(table.len(), 4);
        for id in 0..5 {
            table.remove(id);
            table.remove(id);
        }
        assert!(table.is_empty() && table.networks.is_empty());
    }

    #[test]
    fn local_connections_are_limited_in_total_only() {
        let mut table = ConnectionTable::new(&LIMITS);
        for peer in [None, ip("127.0.0.1"), ip("127.0.0.2"), ip("::1")] {
            assert_eq!(table.insert(peer).1, None);
        }
        assert_eq!(table.insert(ip("127.0.0.1")).1, Some(0));
        assert_eq!(table.insert(ip("192.0.2.1")).1, Some(1));
    }

    /// Returns the error of a read and the time until then, in milliseconds.
    async fn read_until_limit(stream: &mut LimitedStream<impl AsyncRead + Unpin>) -> (bool, u128) {
        let start = Instant::now();
        let read = stream.read(&mut [0; 64]).await;
        let is_timeout = read.is_err_and(|error| error.kind() == io::ErrorKind::TimedOut);
        (is_timeout, start.elapsed().as_millis())
    }

    #[tokio::test(start_paused = true)]
    async fn silent_clients_time_out() {
        let (stream, mut peer) = duplex(64);
        let mut silent = LimitedStream::new(stream, &LIMITS);
        // Our own bytes do not extend the time to the first byte.
        sleep(Duration::from_millis(400)).await;
        silent.write_all(b"banner").await.unwrap();
        assert_eq!(read_until_limit(&mut silent).await, (true, 600));
        peer.write_all(b"too late").await.unwrap();

        let (stream, mut peer) = duplex(64);
        let mut idle = LimitedStream::new(stream, &LIMITS);
        peer.write_all(b"one").await.unwrap();
        assert_eq!(idle.read(&mut [0; 64]).await.unwrap(), 3);
        sleep(Duration::from_secs(2)).await;
        idle.write_all(b"reply").await.unwrap();
        assert_eq!(read_until_limit(&mut idle).await, (true, 3_000));
    }

    #[tokio::test(start_paused = true)]
    async fn clients_that_do_not_read_time_out() {
        let (stream, mut peer) = duplex(64);
        let mut limited = LimitedStream::new(stream, &LIMITS);
        let start = Instant::now();
        let reader = tokio::spawn(async move {
            for _ in 0..3 {
                sleep(Duration::from_millis(1_900)).await;
                peer.read_exact(&mut [0; 64]).await.unwrap();
            }
            peer
        });
        let error = limited.write_all(&[0; 1_000]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), Duration::from_millis(3 * 1_900 + 2_000));
        drop(reader.await.unwrap());
    }

    #[tokio::test]
    async fn new_connections_replace_the_oldest() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = ConnectionLimits {
            first_byte: Duration::from_secs(20),
            ..LIMITS
        };
        let mut limiter = ConnectionLimiter::new(limits);
        let server = tokio::spawn(async move {
            limiter
                .serve(&listener, |mut stream, _| async move {
                    let mut bytes = [0; 4];
                    if stream.read_exact(&mut bytes).await.is_ok() {
                        let _ = stream.write_all(&bytes).await;
                    }
                })
                .await
        });
        let mut idle = Vec::new();
        for _ in 0..3 * limits.total {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(b"ping").await.unwrap();
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).await.unwrap();
        assert_eq!(reply, b"ping");
        let mut open = 0;
        for stream in &mut idle {
            let read = timeout(Duration::from_millis(20), stream.read(&mut [0])).await;
            open += usize::from(read.is_err());
        }
        assert_eq!(open, limits.total - 1);
        server.abort();
    }

    #[tokio::test]
    async fn connections_end_with_their_lifetime() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut limiter = ConnectionLimiter::new(ConnectionLimits {
            lifetime: Some(Duration::from_millis(100)),
            ..LIMITS
        });
        let serve = limiter.serve(&listener, |mut stream, _| async move {
            // Drips forever: no other limit applies.
            while stream.write_all(b".").await.is_ok() {
                sleep(Duration::from_millis(5)).await;
            }
        });
        let client = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let mut received = Vec::new();
            let _ = timeout(Duration::from_secs(10), stream.read_to_end(&mut received))
                .await
                .expect("the connection ends");
            received.len()
        };
        tokio::select! {
            _ = serve => unreachable!(),
            received = client => assert!(received > 1, "{received}"),
        }
        limiter.closed().await;
    }

    /// Opens connections of networks for a week. A network opens one every `interval` and closes it
    /// after `hold`. Returns the evicted connections of each network, and the open ones at the end.
    fn week_of_table(
        networks: &[(Duration, Duration)],
        limits: &ConnectionLimits,
    ) -> Vec<(usize, usize)> {
        let mut table = ConnectionTable::new(limits);
        // The network of each open connection. An event is an end, or the start of a connection.
        let mut open: HashMap<u64, usize> = HashMap::new();
        let mut ends: BTreeMap<(Duration, u64), ()> = BTreeMap::new();
        let mut starts: Vec<(Duration, usize)> = Vec::new();
        for (network, (interval, _)) in networks.iter().enumerate() {
            let times = stretches(*interval, 3_000).into_iter().flatten();
            starts.extend(times.map(|time| (time, network)));
        }
        starts.sort();
        let mut evictions = vec![0; networks.len()];
        for (now, network) in starts {
            while let Some((&(end, id), ())) = ends.first_key_value()
                && end <= now
            {
                ends.remove(&(end, id));
                table.remove(id);
                open.remove(&id);
            }
            let peer = IpAddr::from([192, 0, network as u8, 7]);
            let (id, evicted) = table.insert(Some(peer));
            if let Some(evicted) = evicted {
                evictions[open.remove(&evicted).unwrap()] += 1;
            }
            open.insert(id, network);
            ends.insert((now + networks[network].1, id), ());
            assert_eq!(table.len(), open.len());
            assert!(table.len() <= limits.total && table.networks.len() <= limits.total);
        }
        let open = |network| open.values().filter(|of| **of == network).count();
        evictions
            .into_iter()
            .enumerate()
            .map(|(network, evicted)| (evicted, open(network)))
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32,
            rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn networks_below_their_limit_lose_no_connection_in_a_week(
            networks in proptest::collection::vec((1u64..100_000, 1u32..=6), 1..8),
            crowd_ms in 1u64..1_000,
        ) {
            let limits = ConnectionLimits { total: 64, per_network: 8, ..LIMITS };
            // At most six connections of each at a time, and more than eight of the last one.
            let mut networks: Vec<_> = networks
                .into_iter()
                .map(|(interval, open)| (Duration::from_millis(interval), Duration::from_millis(interval) * open))
                .collect();
            let crowd = Duration::from_millis(crowd_ms);
            networks.push((crowd, crowd * 100));
            let found = week_of_table(&networks, &limits);
            let (crowd, others) = found.split_last().unwrap();
            prop_assert!(others.iter().all(|(evicted, _)| *evicted == 0), "{:?}", found);
            prop_assert_eq!(crowd.1, limits.per_network, "exactly its limit stays open");
        }
    }

    /// Answers four bytes.
    fn connect(limiter: &mut ConnectionLimiter, host: u8) -> DuplexStream {
        let (stream, client) = duplex(64);
        let mut stream = LimitedStream::new(stream, &limiter.limits);
        let peer = SocketAddr::from(([192, 0, host, 7], 50_000));
        limiter.insert(Some(peer), async move {
            let mut bytes = [0; 4];
            while stream.read_exact(&mut bytes).await.is_ok() {
                let _ = stream.write_all(&bytes).await;
            }
        });
        client
    }

    async fn is_answered(client: &mut DuplexStream) -> bool {
        let mut bytes = [0; 4];
        client.write_all(b"ping").await.is_ok()
            && client.read_exact(&mut bytes).await.is_ok()
            && bytes == *b"ping"
    }

    #[tokio::test(start_paused = true)]
    async fn time_limits_are_the_same_through_a_week_with_suspends() {
        let start = Instant::now();
        let mut limiter = ConnectionLimiter::new(LIMITS);
        for since in stretches(Duration::from_secs(97), 1_500)
            .into_iter()
            .flatten()
        {
            let behind = since.saturating_sub(start.elapsed());
            advance(behind).await;
            // A client that asks every two seconds until its lifetime of 30 s is over, and a silent
            // one.
            let mut client = connect(&mut limiter, 1);
            let mut silent = connect(&mut limiter, 2);
            let opened = Instant::now();
            let mut replies = u32::from(is_answered(&mut client).await);
            assert_eq!(silent.read(&mut [0]).await.unwrap(), 0);
            assert_eq!(opened.elapsed().as_millis(), 1_000);
            sleep(Duration::from_millis(900)).await;
            while is_answered(&mut client).await {
                replies += 1;
                sleep(Duration::from_secs(2)).await;
            }
            assert_eq!(
                (replies, opened.elapsed().as_secs()),
                (16, 31),
                "after {since:?}"
            );
            assert!(limiter.handles.len() <= LIMITS.total && limiter.tasks.len() <= LIMITS.total);
        }
        assert!(start.elapsed() >= WEEK - Duration::from_secs(97));
        // A suspend closes the open connections.
        let mut client = connect(&mut limiter, 1);
        assert!(is_answered(&mut client).await);
        advance(WEEK).await;
        sleep(Duration::from_millis(1)).await;
        assert!(!is_answered(&mut client).await);
        assert!(is_answered(&mut connect(&mut limiter, 1)).await);
    }
}
