//! Connections of players: held while the game starts, then passed on to it.
//!
//! ```text
//!   converse ── Arrival ──► Passages ──► hold ──► connect ──► relay
//!                              │ limits    └ text of the board, if the game does not start in time
//! ```
//!
//! A connection that is passed on leaves the limits of queries. Both directions are copied
//! independently: one side may end while the other continues. Bytes are read only when the other
//! side took the bytes before.
//!
//! | limit | value |
//! | --- | --- |
//! | connections that are passed on, in total and of one network | [`PassageLimits::relayed`] |
//! | connections that are held, in total and of one network; more get the text immediately | [`PassageLimits::held`] |
//! | time that a client is held | that of its protocol, `Info::join_wait_ms` |
//! | time that a client is held while the game does not start | 2 s |
//! | bytes of a client that is held | 64 KiB |
//! | time to connect to the game, with retries | 5 s |
//! | bytes in each direction that were read and not written | 32 KiB |
//! | time without a byte in either direction | [`PassageLimits::idle`] |
//! | time without a byte after one side has ended | 60 s |
//! | time that one side takes no bytes while there are some for it | 60 s |
//! | bytes copied in each direction before other connections have their turn | 32 KiB |
//!
//! A network is an IPv4 /24 or an IPv6 /56. Loopback addresses have no limit per network, because a
//! proxy on this machine forwards all its clients from there; use the PROXY protocol then.
//!
//! May import: `crate::door`, `crate::prefix`, `crate::support`.

use crate::door::{Entrance, State, View};
use crate::prefix;
use crate::support::proxy_protocol::{ProxiedAddresses, Version};
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout_at};

/// Time that a client is held while the game neither runs nor starts.
const START_WAIT: Duration = Duration::from_secs(2);
/// Limit of bytes of a client that is held.
const MAX_HELD_BYTES: usize = 64 << 10;
/// Time to connect to the game.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before another attempt to connect to the game.
const CONNECT_PAUSE: Duration = Duration::from_millis(250);
/// Bytes of one read of a relay.
const WINDOW_BYTES: usize = 32 << 10;
/// Reads of a direction before other connections have their turn. With 100 busy connections, a turn
/// of all takes less than 2 ms, in which queries wait.
const READS_IN_TURN: usize = 1;
/// Time without a byte after one side has ended.
const HALF_CLOSED: Duration = Duration::from_secs(60);
/// Time that one side takes no bytes while there are some for it.
const STALLED: Duration = Duration::from_secs(60);

/// Maximum numbers of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceLimits {
    /// Maximum of all sources.
    pub total: usize,
    /// Maximum of a network, an IPv4 /24 or IPv6 /56. Loopback addresses are limited in total only.
    pub per_network: usize,
}

/// Limits of the connections that are passed on to games. Those of queries are separate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassageLimits {
    /// Connections that are passed on. Each is two open files. More are closed.
    pub relayed: SourceLimits,
    /// Connections that are held while the game starts. More get the text of the board.
    pub held: SourceLimits,
    /// Time without a byte in either direction after which a connection is closed.
    pub idle: Duration,
}

impl Default for PassageLimits {
    /// 2,048 connections that are passed on, 128 of one network, 5 minutes idle; 256 that are held,
    /// 16 of one network.
    fn default() -> Self {
        Self {
            relayed: SourceLimits {
                total: 2_048,
                per_network: 128,
            },
            held: SourceLimits {
                total: 256,
                per_network: 16,
            },
            idle: Duration::from_secs(300),
        }
    }
}

/// Counts connections by network.
struct Slots(Mutex<SlotTable>);

struct SlotTable {
    limits: SourceLimits,
    total: usize,
    /// Networks with connections.
    networks: HashMap<u128, usize>,
}

impl Slots {
    fn new(limits: SourceLimits) -> Arc<Self> {
        Arc::new(Self(Mutex::new(SlotTable {
            limits,
            total: 0,
            networks: HashMap::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, SlotTable> {
        // A panicked writer leaves complete data.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for a connection of this source, if its limits allow it.
    fn take(self: &Arc<Self>, source: IpAddr) -> Option<Slot> {
        let source = source.to_canonical();
        let network = prefix::network(source);
        let mut table = self.lock();
        let in_network = table.networks.get(&network).copied().unwrap_or(0);
        let is_full = !source.is_loopback() && in_network >= table.limits.per_network;
        if is_full || table.total >= table.limits.total {
            return None;
        }
        table.total += 1;
        table.networks.insert(network, in_network + 1);
        Some(Slot {
            slots: self.clone(),
            network,
        })
    }
}

/// Slot of one connection, until it is dropped.
struct Slot {
    slots: Arc<Slots>,
    network: u128,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut table = self.slots.lock();
        table.total -= 1;
        if let Some(count) = table.networks.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                table.networks.remove(&self.network);
            }
        }
    }
}

/// Limits that all connections of a thread share.
#[derive(Clone)]
pub(super) struct Passages {
    relayed: Arc<Slots>,
    held: Arc<Slots>,
    idle: Duration,
}

impl Passages {
    pub(super) fn new(limits: PassageLimits) -> Self {
        Self {
            relayed: Slots::new(limits.relayed),
            held: Slots::new(limits.held),
            idle: limits.idle,
        }
    }

    /// Replaces the limits. Open connections stay.
    pub(super) fn set_limits(&mut self, limits: PassageLimits) {
        self.relayed.lock().limits = limits.relayed;
        self.held.lock().limits = limits.held;
        self.idle = limits.idle;
    }
}

/// Data that a client of a game has sent, and its destination.
pub(super) struct Arrival {
    /// Addresses of the client's connection.
    pub(super) addresses: ProxiedAddresses,
    /// All bytes since the start.
    pub(super) bytes: Vec<u8>,
    pub(super) entrance: Arc<Entrance>,
    /// Version of the header that the game gets before the bytes.
    pub(super) proxy_protocol: Option<Version>,
    /// Time that the client waits. `None`: it is passed on to a running game only.
    pub(super) wait: Option<Duration>,
}

/// Counts events of passages.
pub(super) trait PassageCounts {
    /// A client starts (1) or ends (-1) being held.
    fn held(&mut self, change: i64);
    /// A client is passed on (1), or its connection has ended (-1).
    fn relayed(&mut self, change: i64);
    /// Bytes passed on to the game, and bytes passed back.
    fn bytes(&mut self, to_game: u64, from_game: u64);
}

/// Calls the method of a counter with -1 when it is dropped.
struct CountGuard<'a, C: PassageCounts> {
    counts: &'a mut C,
    end: fn(&mut C),
}

impl<C: PassageCounts> Drop for CountGuard<'_, C> {
    fn drop(&mut self) {
        (self.end)(self.counts);
    }
}

/// How the passage of a client ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PassageEnd {
    /// It was passed on.
    Relayed,
    /// The game cannot be reached: the client gets the text of the board.
    Text,
    /// The client left before.
    Left,
    /// It sent too many bytes before it could be passed on.
    Oversized,
    /// Too many connections are passed on.
    Full,
}

impl Passages {
    /// Holds a client and passes it on. Returns when the connection has ended, or the client is to
    /// get a text.
    pub(super) async fn run<S, C>(
        self,
        client: &mut S,
        mut arrival: Arrival,
        counts: &mut C,
    ) -> (PassageEnd, Vec<u8>)
    where
        S: AsyncRead + AsyncWrite + Unpin,
        C: PassageCounts,
    {
        let end = self.pass(client, &mut arrival, counts).await;
        (end.unwrap_or_else(|end| end), arrival.bytes)
    }

    async fn pass<S, C>(
        &self,
        client: &mut S,
        arrival: &mut Arrival,
        counts: &mut C,
    ) -> Result<PassageEnd, PassageEnd>
    where
        S: AsyncRead + AsyncWrite + Unpin,
        C: PassageCounts,
    {
        let source = arrival.addresses.source.ip();
        let game = match running_game(&arrival.entrance.view()) {
            Some(game) => game,
            None => {
                let wait = arrival.wait.ok_or(PassageEnd::Text)?;
                let _slot = self.held.take(source).ok_or(PassageEnd::Text)?;
                counts.held(1);
                let _count = CountGuard {
                    counts: &mut *counts,
                    end: |counts| counts.held(-1),
                };
                hold(client, arrival, wait).await?
            }
        };
        let _slot = self.relayed.take(source).ok_or(PassageEnd::Full)?;
        // From here on, the door counts the client.
        let _visit = arrival.entrance.visit();
        let mut game = connect(game, &arrival.entrance).await?;
        let mut first = Vec::new();
        if let Some(version) = arrival.proxy_protocol {
            arrival.addresses.write(version, &mut first);
        }
        let header_bytes = first.len();
        first.append(&mut arrival.bytes);
        counts.relayed(1);
        let count = CountGuard {
            counts: &mut *counts,
            end: |counts| counts.relayed(-1),
        };
        let relay = Relay::new(client, &mut game, first, header_bytes, self.idle);
        relay.run(&mut *count.counts).await;
        Ok(PassageEnd::Relayed)
    }
}

fn running_game(view: &View) -> Option<SocketAddr> {
    view.game.filter(|_| view.state == State::Running)
}

/// Holds a client until the game runs. Returns its address.
async fn hold<S: AsyncRead + Unpin>(
    client: &mut S,
    arrival: &mut Arrival,
    wait: Duration,
) -> Result<SocketAddr, PassageEnd> {
    let end = Instant::now() + wait;
    let mut changes = arrival.entrance.changes();
    // When the wait for the start ends, while the game does not start.
    let mut start_end = None;
    let mut buffer = [0; 1 << 10];
    loop {
        let view = changes.borrow_and_update().clone();
        if let Some(game) = running_game(&view) {
            return Ok(game);
        }
        let deadline = match view.state {
            State::Asleep | State::Failed => {
                *start_end.get_or_insert_with(|| end.min(Instant::now() + START_WAIT))
            }
            State::Starting | State::Running | State::Stopping => {
                start_end = None;
                end
            }
        };
        tokio::select! {
            changed = changes.changed() => changed.map_err(|_| PassageEnd::Text)?,
            () = sleep_until(deadline) => return Err(PassageEnd::Text),
            read = client.read(&mut buffer) => match read {
                Ok(length @ 1..) => {
                    arrival.bytes.extend(buffer.iter().take(length));
                    if arrival.bytes.len() > MAX_HELD_BYTES {
                        return Err(PassageEnd::Oversized);
                    }
                }
                _ => return Err(PassageEnd::Left),
            },
        }
    }
}

/// Connects to the game, with retries while the door shows it as running.
async fn connect(mut game: SocketAddr, entrance: &Entrance) -> Result<TcpStream, PassageEnd> {
    let end = Instant::now() + CONNECT_TIMEOUT;
    loop {
        if let Ok(Ok(stream)) = timeout_at(end, TcpStream::connect(game)).await {
            // Bytes are written as they arrive.
            let _ = stream.set_nodelay(true);
            return Ok(stream);
        }
        entrance.report_unreachable(game);
        let is_over = timeout_at(end, sleep(CONNECT_PAUSE)).await.is_err();
        game = match running_game(&entrance.view()) {
            Some(game) if !is_over => game,
            _ => return Err(PassageEnd::Text),
        };
    }
}

/// One direction of a relay.
struct Pipe {
    /// Bytes that were read and not written, from `at` on.
    pending: Vec<u8>,
    at: usize,
    /// Bytes at the start of `pending` that are not counted.
    uncounted: usize,
    /// Whether the sender has ended its side.
    is_ended: bool,
    /// Whether the end was passed on.
    is_done: bool,
    /// When bytes were moved last.
    moved_at: Instant,
}

thread_local! {
    /// Buffer of all relays of a thread. Only bytes that cannot be written immediately are kept.
    static BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; WINDOW_BYTES]);
}

impl Pipe {
    fn new(pending: Vec<u8>, uncounted: usize, now: Instant) -> Self {
        Self {
            pending,
            at: 0,
            uncounted,
            is_ended: false,
            is_done: false,
            moved_at: now,
        }
    }

    /// Moves bytes until one side has to wait. Returns the number of bytes written.
    fn poll<R, W>(
        &mut self,
        from: &mut R,
        to: &mut W,
        context: &mut Context<'_>,
        written: &mut u64,
    ) -> Poll<io::Result<()>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        for _ in 0..READS_IN_TURN {
            while let Some(rest) = self.pending.get(self.at..).filter(|rest| !rest.is_empty()) {
                let length = ready!(Pin::new(&mut *to).poll_write(context, rest))?;
                self.record(length, written)?;
                self.at += length;
            }
            if self.at > 0 {
                // Idle connections keep no buffer.
                self.pending = Vec::new();
                self.at = 0;
            }
            if self.is_ended {
                ready!(Pin::new(&mut *to).poll_shutdown(context))?;
                self.is_done = true;
                return Poll::Ready(Ok(()));
            }
            let moved = BUFFER.with_borrow_mut(|buffer| -> Poll<io::Result<()>> {
                let mut buffer = ReadBuf::new(buffer);
                ready!(Pin::new(&mut *from).poll_read(context, &mut buffer))?;
                let mut read = buffer.filled();
                self.is_ended = read.is_empty();
                while !read.is_empty() {
                    match Pin::new(&mut *to).poll_write(context, read)? {
                        Poll::Ready(length) => {
                            self.record(length, written)?;
                            read = read.get(length..).unwrap_or_default();
                        }
                        Poll::Pending => {
                            self.pending = read.to_vec();
                            return Poll::Pending;
                        }
                    }
                }
                Poll::Ready(Ok(()))
            });
            ready!(moved)?;
        }
        // Other connections have their turn.
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn record(&mut self, length: usize, written: &mut u64) -> io::Result<()> {
        if length == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let uncounted = length.min(self.uncounted);
        self.uncounted -= uncounted;
        *written += (length - uncounted) as u64;
        Ok(())
    }
}

/// Copies bytes between a client and a game in both directions.
struct Relay<'a, S, G> {
    client: &'a mut S,
    game: &'a mut G,
    to_game: Pipe,
    from_game: Pipe,
    idle: Duration,
    clock: Pin<Box<Sleep>>,
}

impl<'a, S, G> Relay<'a, S, G>
where
    S: AsyncRead + AsyncWrite + Unpin,
    G: AsyncRead + AsyncWrite + Unpin,
{
    /// Creates a relay. The game gets `first` before the other bytes of the client; its first
    /// `header_bytes` are not counted.
    fn new(
        client: &'a mut S,
        game: &'a mut G,
        first: Vec<u8>,
        header_bytes: usize,
        idle: Duration,
    ) -> Self {
        let now = Instant::now();
        Self {
            client,
            game,
            to_game: Pipe::new(first, header_bytes, now),
            from_game: Pipe::new(Vec::new(), 0, now),
            idle,
            clock: Box::pin(sleep(idle)),
        }
    }

    /// Runs until both sides have ended, one fails, or a time limit is reached.
    async fn run(mut self, counts: &mut impl PassageCounts) {
        std::future::poll_fn(|context| self.poll(context, counts)).await;
    }

    fn poll(&mut self, context: &mut Context<'_>, counts: &mut impl PassageCounts) -> Poll<()> {
        let (mut to_game, mut from_game) = (0, 0);
        let mut is_failed = false;
        if !self.to_game.is_done {
            let polled = self
                .to_game
                .poll(self.client, self.game, context, &mut to_game);
            is_failed |= matches!(polled, Poll::Ready(Err(_)));
        }
        if !self.from_game.is_done {
            let polled = self
                .from_game
                .poll(self.game, self.client, context, &mut from_game);
            is_failed |= matches!(polled, Poll::Ready(Err(_)));
        }
        if to_game + from_game > 0 {
            counts.bytes(to_game, from_game);
            let now = Instant::now();
            for (pipe, moved) in [
                (&mut self.to_game, to_game),
                (&mut self.from_game, from_game),
            ] {
                if moved > 0 {
                    pipe.moved_at = now;
                }
            }
        }
        if is_failed || (self.to_game.is_done && self.from_game.is_done) {
            return Poll::Ready(());
        }
        // The clock may be behind a later deadline, but never after an earlier one.
        let deadline = self.deadline();
        if deadline < self.clock.deadline() {
            self.clock.as_mut().reset(deadline);
        }
        while self.clock.as_mut().poll(context).is_ready() {
            if deadline <= Instant::now() {
                return Poll::Ready(());
            }
            self.clock.as_mut().reset(deadline);
        }
        Poll::Pending
    }

    /// Returns when the connection is closed if no further bytes are moved.
    fn deadline(&self) -> Instant {
        let pipes = [&self.to_game, &self.from_game];
        let moved_at = self.to_game.moved_at.max(self.from_game.moved_at);
        let idle = match pipes.iter().any(|pipe| pipe.is_ended) {
            true => self.idle.min(HALF_CLOSED),
            false => self.idle,
        };
        let stalled = pipes.into_iter().filter(|pipe| !pipe.pending.is_empty());
        let stalled = stalled.map(|pipe| pipe.moved_at + STALLED);
        stalled.fold(moved_at + idle, Instant::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::Requests;
    use hailer_testkit::week::{WEEK, stretches};
    use tokio::io::{AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::advance;

    const IDLE: Duration = Duration::from_secs(300);

    #[derive(Clone, Default)]
    struct Totals(Arc<Mutex<(i64, i64, u64, u64)>>);

    impl PassageCounts for Totals {
        fn held(&mut self, change: i64) {
            self.0.lock().unwrap().0 += change;
        }

        fn relayed(&mut self, change: i64) {
            self.0.lock().unwrap().1 += change;
        }

        fn bytes(&mut self, to_game: u64, from_game: u64) {
            let mut totals = self.0.lock().unwrap();
            totals.2 += to_game;
            totals.3 += from_game;
        }
    }

    /// Runs a relay between two streams, with windows of 64 bytes. Returns the ends of client and
    /// game, and when it ends.
    fn relay() -> (DuplexStream, DuplexStream, JoinHandle<Instant>) {
        let (mut near_client, client) = duplex(64);
        let (mut near_game, game) = duplex(64);
        let ended = tokio::spawn(async move {
            let relay = Relay::new(&mut near_client, &mut near_game, Vec::new(), 0, IDLE);
            relay.run(&mut Totals::default()).await;
            Instant::now()
        });
        (client, game, ended)
    }

    async fn send(from: &mut DuplexStream, to: &mut DuplexStream) {
        from.write_all(b"ping").await.unwrap();
        let mut bytes = [0; 4];
        to.read_exact(&mut bytes).await.unwrap();
        assert_eq!(&bytes, b"ping");
    }

    #[tokio::test(start_paused = true)]
    async fn relays_have_the_same_limits_at_every_point_of_a_week() {
        let start = Instant::now();
        let (mut player, mut game, mut ended) = relay();
        for since in stretches(IDLE - Duration::from_secs(1), 1_200)
            .into_iter()
            .flatten()
        {
            let behind = since.saturating_sub(start.elapsed());
            advance(behind).await;
            if behind >= IDLE {
                // A suspend ends a connection, as its peers would.
                ended.await.unwrap();
                (player, game, ended) = relay();
                tokio::task::yield_now().await;
            }
            send(&mut player, &mut game).await;
        }
        assert!(!ended.is_finished());
        drop((player, game));
        let start = Instant::now();
        for since in stretches(Duration::from_secs(2_003), 400)
            .into_iter()
            .flatten()
        {
            advance(since.saturating_sub(start.elapsed())).await;
            // An idle connection, one whose client has ended its side, and one whose game reads
            // nothing.
            let (mut player, mut game, idle) = relay();
            send(&mut player, &mut game).await;
            send(&mut game, &mut player).await;
            let opened = Instant::now();
            let (mut half, mut half_game, half_closed) = relay();
            half.shutdown().await.unwrap();
            assert_eq!(half_game.read(&mut [0]).await.unwrap(), 0);
            send(&mut half_game, &mut half).await;
            let (mut busy, mut deaf, stalled) = relay();
            let sender = tokio::spawn(async move { busy.write_all(&[0; 1_000]).await });
            let talker = tokio::spawn(async move {
                while deaf.write_all(b".").await.is_ok() {
                    sleep(Duration::from_secs(1)).await;
                }
            });
            let ends = [half_closed, stalled, idle]
                .map(|ended| async { (ended.await.unwrap() - opened).as_millis() });
            let [a, b, c] = ends;
            let ends = [a.await, b.await, c.await];
            assert_eq!(ends, [60_000, 60_000, 300_000], "after {since:?}");
            assert!(sender.await.unwrap().is_err());
            talker.await.unwrap();
            drop((player, game, half, half_game));
        }
        assert!(start.elapsed() + Duration::from_secs(2 * 2_003) >= WEEK);
    }

    fn door() -> (Arc<Entrance>, Requests) {
        let (entrance, requests) = Entrance::new();
        (Arc::new(entrance), requests)
    }

    fn show(entrance: &Entrance, state: State) {
        let game = Some("127.0.0.1:1".parse().unwrap());
        entrance.show(View { state, game });
    }

    /// How and when a client stops being held.
    type HoldEnd = (Result<SocketAddr, PassageEnd>, Instant);

    /// Holds a client of a door. Returns its end of the stream, and how and when it ends.
    fn held(entrance: &Arc<Entrance>) -> (DuplexStream, JoinHandle<HoldEnd>) {
        let (mut near, client) = duplex(64);
        let address = "192.0.2.7:50000".parse().unwrap();
        let mut arrival = Arrival {
            addresses: ProxiedAddresses {
                source: address,
                destination: address,
            },
            bytes: Vec::new(),
            entrance: entrance.clone(),
            proxy_protocol: None,
            wait: None,
        };
        let task = tokio::spawn(async move {
            let end = hold(&mut near, &mut arrival, Duration::from_secs(25)).await;
            (end, Instant::now())
        });
        (client, task)
    }

    #[tokio::test(start_paused = true)]
    async fn clients_are_held_as_long_at_every_point_of_a_week() {
        let start = Instant::now();
        for since in stretches(Duration::from_secs(1_009), 600)
            .into_iter()
            .flatten()
        {
            advance(since.saturating_sub(start.elapsed())).await;
            let (entrance, _requests) = door();
            let opened = Instant::now();
            let after = |(end, at): HoldEnd| (end.is_ok(), (at - opened).as_millis());
            // The game is not started.
            let (_client, held_asleep) = held(&entrance);
            assert_eq!(after(held_asleep.await.unwrap()), (false, 2_000));
            // It starts after 1 s, and is running 20 s later.
            let opened = Instant::now();
            let after = |(end, at): HoldEnd| (end.is_ok(), (at - opened).as_millis());
            let (_client, first) = held(&entrance);
            sleep(Duration::from_secs(1)).await;
            show(&entrance, State::Starting);
            sleep(Duration::from_secs(20)).await;
            let (_other, second) = held(&entrance);
            show(&entrance, State::Running);
            assert_eq!(after(first.await.unwrap()), (true, 21_000));
            assert_eq!(after(second.await.unwrap()), (true, 21_000));
            // It never runs.
            show(&entrance, State::Starting);
            let (_client, third) = held(&entrance);
            assert_eq!(
                after(third.await.unwrap()),
                (false, 46_000),
                "after {since:?}"
            );
            // It fails.
            let (_client, fourth) = held(&entrance);
            sleep(Duration::from_secs(1)).await;
            show(&entrance, State::Failed);
            assert_eq!(after(fourth.await.unwrap()), (false, 49_000));
            // The client leaves.
            let (client, fifth) = held(&entrance);
            drop(client);
            assert_eq!(after(fifth.await.unwrap()), (false, 49_000));
        }
        assert!(start.elapsed() + Duration::from_secs(2 * 1_009) >= WEEK);
    }

    #[test]
    fn slots_are_limited_by_network_and_in_total() {
        let slots = Slots::new(SourceLimits {
            total: 5,
            per_network: 2,
        });
        let take = |ip: &str| slots.take(ip.parse().unwrap());
        let mut taken = vec![take("192.0.2.1"), take("::ffff:192.0.2.200")];
        assert!(taken.iter().all(Option::is_some));
        assert!(take("192.0.2.3").is_none());
        taken.extend(["2001:db8::1", "127.0.0.1", "127.0.0.1"].map(take));
        assert!(taken.iter().all(Option::is_some));
        assert!(take("198.51.100.1").is_none(), "the total");
        taken.remove(0);
        assert!(take("198.51.100.1").is_some());
        drop(taken);
        let table = slots.lock();
        assert_eq!((table.total, table.networks.len()), (0, 0));
    }
}
