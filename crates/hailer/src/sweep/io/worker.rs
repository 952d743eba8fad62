//! Thread of a sweep: the only part with sockets and a clock.
//!
//! It alternates between receiving at most 64 batches and sending at most 2. The receive buffer is
//! 16 MiB and the send buffer 4 MiB, if the system allows.

use super::tcp::TcpSockets;
use crate::support::random_secret;
use crate::sweep::engine::SharedLimits;
use crate::sweep::engine::{Outboxes, STREAM_BATCH, SweepEngine};
use crate::sweep::{Counts, ProbeSource, Progress, Sink, SweepConfig, TcpClose};
use hailer_udp::{BATCH, Inbox, Socket};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Size of the receive buffer, in bytes: about 20 ms at full rate, for moments in which the thread
/// is busy.
const RECEIVE_BUFFER: usize = 16 << 20;
const SEND_BUFFER: usize = 4 << 20;
/// Time between progress reports.
pub(crate) const BEAT: Duration = Duration::from_millis(100);
/// Highest rate, in datagrams per second, at which the system records arrival times. These add 10 %
/// to the cost of receiving, and at higher rates the queue is emptied so often that they do not
/// matter.
const TIMESTAMPS: f64 = 50_000.0;
/// Time between checks for ICMP errors and for overflows of the receive queue. Each is a system
/// call, and both are rare.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Batches received in a row before new probes start: about 20 ms of them. Limits the effect of
/// floods.
const MAX_RECEIVED: usize = 64;
/// Batches of probes started in a row before receiving again. More would only evict the CPU caches.
const MAX_STARTED: usize = 2;
/// Pause of a busy sweep, so that the next batch is fuller. A system call for a single datagram is
/// the most expensive case.
const REST: Duration = Duration::from_micros(200);
/// Longest wait, even if nothing is due, because the sink may stop the sweep.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// Time between checks of a full sink.
const FULL: Duration = Duration::from_millis(5);
/// Timeouts are processed when all received datagrams are, or after this time. Limits the effect of
/// floods.
const LONGEST_BUSY: Duration = Duration::from_millis(500);

/// Runs a sweep until the source is exhausted and all probes are finished, or the sink stops it.
/// Blocks.
///
/// # Errors
///
/// Returns an error if no socket can be opened, or if a socket fails.
pub fn run(
    config: &SweepConfig,
    source: &mut dyn ProbeSource,
    sink: &mut dyn Sink,
) -> io::Result<Counts> {
    let secret = random_secret();
    let thread = WorkerConfig {
        config,
        limits: SharedLimits::new(&config.rate_limits, u64::from(secret[0])),
        threads: 1,
        started: Instant::now(),
    };
    run_worker(&thread, source, sink, &mut SingleObserver { beat_at: BEAT })
}

/// Configuration of one thread.
pub(crate) struct WorkerConfig<'a> {
    pub(crate) config: &'a SweepConfig,
    pub(crate) limits: SharedLimits,
    /// Number of threads that share the open files of the process.
    pub(crate) threads: usize,
    /// Time zero, the same for all threads.
    pub(crate) started: Instant,
}

/// One turn of a thread.
pub(crate) struct Turn<'a> {
    pub(crate) now: Duration,
    pub(crate) engine: &'a SweepEngine,
    pub(crate) source: &'a dyn ProbeSource,
    /// Whether this is the last turn.
    pub(crate) is_over: bool,
}

/// Follows the progress of a thread.
pub(crate) trait Observer {
    /// Called in each turn of the thread. Returns whether to stop.
    fn observe(&mut self, turn: &Turn<'_>, sink: &mut dyn Sink) -> bool;

    /// Returns when to call it again at the latest.
    fn next_due(&self) -> Duration;
}

/// Observer of the only thread of a sweep.
struct SingleObserver {
    beat_at: Duration,
}

impl Observer for SingleObserver {
    fn observe(&mut self, turn: &Turn<'_>, sink: &mut dyn Sink) -> bool {
        let Turn { engine, source, .. } = *turn;
        if turn.now >= self.beat_at || turn.is_over {
            self.beat_at = turn.now + BEAT;
            let position = || Some(engine.position(source));
            sink.report_progress(&Progress {
                counts: engine.counts(),
                total: source.total(),
                in_flight: engine.in_flight(),
                position: &position,
            });
        }
        false
    }

    fn next_due(&self) -> Duration {
        self.beat_at
    }
}

/// Runs one thread of a sweep.
pub(crate) fn run_worker(
    thread: &WorkerConfig<'_>,
    source: &mut dyn ProbeSource,
    sink: &mut dyn Sink,
    observer: &mut dyn Observer,
) -> io::Result<Counts> {
    let WorkerConfig {
        config, started, ..
    } = *thread;
    let mut sockets = Sockets::bind(
        config.rate_limits.rate <= TIMESTAMPS,
        config.source,
        config.is_portable,
    )?;
    let mut connections = LazyConnections::new(config);
    let mut engine =
        SweepEngine::with_limits(config.clone(), random_secret(), thread.limits.clone());
    engine.set_receive_buffer(sockets.receive_buffer());
    engine.set_max_connections(connections.max() / thread.threads);
    let mut inbox = Inbox::new();
    let mut out = Outboxes::default();
    let mut check_at = Duration::ZERO;
    let mut empty_at = Duration::ZERO;
    let mut ticked_at = Duration::ZERO;
    loop {
        // Process all received datagrams before starting probes, to keep the queue short. Datagrams
        // that wait long are slower to process and distort the delays.
        let mut received = ReceiveResult {
            count: 0,
            is_empty: false,
        };
        for _ in 0..MAX_RECEIVED {
            engine.set_receive_lag(started.elapsed() - empty_at);
            let more = sockets.receive(&mut engine, &mut inbox, &mut out, sink, started)?;
            received = ReceiveResult {
                count: received.count + more.count,
                is_empty: more.is_empty,
            };
            if received.is_empty {
                break;
            }
            sockets.send(&mut engine, &mut out, started.elapsed(), sink)?;
        }
        let events = connections.process(&mut engine, &sockets, Duration::ZERO, started, sink)?;
        let now = started.elapsed();
        if now >= check_at {
            check_at = now + CHECK_INTERVAL;
            sockets.refusals(&mut engine, now, sink)?;
            engine.record_drops(now, sockets.overflows());
        }
        if received.is_empty {
            empty_at = now;
        }
        if received.is_empty || now >= ticked_at + LONGEST_BUSY {
            ticked_at = now;
            engine.tick(now, &mut out, sink);
            connections.follow(&mut engine, &sockets, now, sink)?;
        }
        let has_streams = connections.are_open();
        let max_batches = if has_streams { 1 } else { MAX_STARTED };
        let mut batches = 0;
        let mut started_probes = 0;
        let mut is_blocked = sockets.send(&mut engine, &mut out, now, sink)?;
        while !is_blocked && batches < max_batches && !sink.is_full() {
            let count = engine.start_probes(now, source, &mut out, sink);
            if count == 0 {
                break;
            }
            started_probes += count;
            is_blocked = sockets.send(&mut engine, &mut out, now, sink)?;
            connections.follow(&mut engine, &sockets, now, sink)?;
            batches += 1;
        }
        let mut is_over = engine.is_done() && out.is_empty() || sink.is_stopped();
        let turn = Turn {
            now,
            engine: &engine,
            source,
            is_over,
        };
        is_over |= observer.observe(&turn, sink);
        if is_over {
            return Ok(engine.counts().clone());
        }
        let is_busy = if has_streams {
            received.count + events + started_probes >= STREAM_BATCH
        } else {
            received.count >= BATCH || batches == MAX_STARTED
        };
        if is_busy {
            continue;
        }
        // Free space in the send queue cannot be waited for, since the network interface may be the
        // one that is full.
        if received.count + events + batches > 0 || is_blocked {
            std::thread::sleep(REST);
            continue;
        }
        let due = if sink.is_full() {
            now + FULL
        } else {
            engine.next_due(now, LONGEST_WAIT).min(observer.next_due())
        };
        let wait = due
            .saturating_sub(started.elapsed())
            .clamp(Duration::from_micros(100), LONGEST_WAIT);
        if connections.are_open() {
            connections.process(&mut engine, &sockets, wait, started, sink)?;
        } else {
            sockets.wait(wait)?;
        }
        // The datagram that ended the wait has not waited in the queue.
        empty_at = started.elapsed();
    }
}

/// The connections of stream protocols. Opened by the first probe that needs one.
struct LazyConnections {
    close: TcpClose,
    source: Option<SocketAddr>,
    is_portable: bool,
    sockets: Option<TcpSockets>,
}

impl LazyConnections {
    fn new(config: &SweepConfig) -> Self {
        Self {
            close: config.tcp_close,
            source: config.source,
            is_portable: config.is_portable,
            sockets: None,
        }
    }

    /// Returns the largest number of connections.
    fn max(&self) -> usize {
        super::tcp::max_connections()
    }

    fn are_open(&self) -> bool {
        self.sockets.is_some()
    }

    /// Follows the orders of the engine.
    fn follow(
        &mut self,
        engine: &mut SweepEngine,
        udp: &Sockets,
        now: Duration,
        sink: &mut dyn Sink,
    ) -> io::Result<()> {
        if self.sockets.is_none() && engine.open_connections() > 0 {
            let both = udp.v4.iter().chain(&udp.v6);
            self.sockets = Some(TcpSockets::new(
                self.close,
                self.source,
                both,
                self.is_portable,
            )?);
        }
        if let Some(sockets) = &mut self.sockets {
            sockets.follow(engine, now, sink);
        }
        Ok(())
    }

    /// Processes events, after waiting for them at most `timeout`. Returns their number.
    fn process(
        &mut self,
        engine: &mut SweepEngine,
        udp: &Sockets,
        timeout: Duration,
        started: Instant,
        sink: &mut dyn Sink,
    ) -> io::Result<usize> {
        self.follow(engine, udp, started.elapsed(), sink)?;
        match &mut self.sockets {
            Some(sockets) => sockets.wait(engine, timeout, started, sink),
            None => Ok(0),
        }
    }
}

/// One socket for each address family that this machine supports.
struct Sockets {
    v4: Option<Socket>,
    v6: Option<Socket>,
    /// Whether a datagram was sent to an IPv4 address. Until then no reply can arrive, and each
    /// check is a system call.
    is_v4_used: bool,
    /// The same for IPv6.
    is_v6_used: bool,
}

/// Result of receiving from all sockets.
struct ReceiveResult {
    count: usize,
    /// Whether the receive queues are empty.
    is_empty: bool,
}

impl Sockets {
    fn bind(timestamps: bool, source: Option<SocketAddr>, is_portable: bool) -> io::Result<Self> {
        let mut config = hailer_udp::SocketConfig::default();
        config.receive_buffer = Some(RECEIVE_BUFFER);
        config.send_buffer = Some(SEND_BUFFER);
        config.has_refusals = true;
        config.has_timestamps = timestamps;
        config.is_unfragmented = true;
        config.is_portable = is_portable;
        if let Some(source) = source {
            let socket = Socket::bind(source, &config)?;
            let (v4, v6) = if source.is_ipv4() {
                (Some(socket), None)
            } else {
                (None, Some(socket))
            };
            return Ok(Self {
                v4,
                v6,
                is_v4_used: false,
                is_v6_used: false,
            });
        }
        let v4 = Socket::bind((Ipv4Addr::UNSPECIFIED, 0).into(), &config);
        let v6 = Socket::bind((Ipv6Addr::UNSPECIFIED, 0).into(), &config).ok();
        match v4 {
            Err(error) if v6.is_none() => Err(error),
            v4 => Ok(Self {
                v4: v4.ok(),
                v6,
                is_v4_used: false,
                is_v6_used: false,
            }),
        }
    }

    /// Returns the size of the smaller receive queue, in bytes.
    fn receive_buffer(&self) -> usize {
        let both = self.v4.iter().chain(&self.v6);
        both.map(|socket| socket.capabilities().receive_buffer)
            .min()
            .unwrap_or_default()
    }

    fn all(&self) -> impl Iterator<Item = &Socket> {
        let v4 = self.v4.iter().filter(|_| self.is_v4_used);
        v4.chain(self.v6.iter().filter(|_| self.is_v6_used))
    }

    /// Receives a batch from each socket.
    fn receive(
        &self,
        engine: &mut SweepEngine,
        inbox: &mut Inbox,
        out: &mut Outboxes,
        sink: &mut dyn Sink,
        started: Instant,
    ) -> io::Result<ReceiveResult> {
        let mut received = ReceiveResult {
            count: 0,
            is_empty: true,
        };
        for socket in self.all() {
            let count = socket.receive(inbox)?;
            let now = started.elapsed();
            for datagram in inbox.iter() {
                let waited = datagram.waited.unwrap_or_default();
                engine.receive(now, datagram.from, waited, datagram.bytes, out, sink);
            }
            received.count += count;
            received.is_empty &= count < BATCH;
        }
        Ok(received)
    }

    /// Returns the number of datagrams that the receive queues have lost.
    fn overflows(&self) -> u64 {
        self.all().map(Socket::overflows).sum()
    }

    fn refusals(
        &self,
        engine: &mut SweepEngine,
        now: Duration,
        sink: &mut dyn Sink,
    ) -> io::Result<()> {
        for socket in self.all() {
            socket.refusals(&mut |refusal| {
                engine.receive_refusal(now, refusal.to, &refusal.error, refusal.quoted, sink);
            })?;
        }
        Ok(())
    }

    /// Sends the pending datagrams. Returns whether some could not be sent yet.
    fn send(
        &mut self,
        engine: &mut SweepEngine,
        out: &mut Outboxes,
        now: Duration,
        sink: &mut dyn Sink,
    ) -> io::Result<bool> {
        self.is_v4_used |= !out.v4.is_empty();
        self.is_v6_used |= !out.v6.is_empty();
        for (socket, outbox) in [(&self.v4, &mut out.v4), (&self.v6, &mut out.v6)] {
            match socket {
                Some(socket) => drop(socket.send(outbox)?),
                None => {
                    let no_family = || io::Error::from(io::ErrorKind::NetworkUnreachable);
                    let all: Vec<SocketAddr> = outbox.pending().map(|(to, ..)| to).collect();
                    all.iter()
                        .for_each(|to| engine.receive_refusal(now, *to, &no_family(), &[], sink));
                    outbox.clear();
                }
            }
            for unsent in outbox.take_unsent() {
                engine.receive_refusal(now, unsent.to, &unsent.error, &[], sink);
            }
        }
        if !out.is_empty() {
            engine.record_full_send_queue();
        }
        Ok(!out.is_empty())
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        let sockets: Vec<&Socket> = self.all().collect();
        if sockets.is_empty() {
            std::thread::sleep(timeout);
            return Ok(());
        }
        hailer_udp::wait(&sockets, false, timeout)
    }
}
