//! The farm on real sockets.

use super::{Farm, FarmCounts, FarmPort};
use hailer_udp::{BATCH, Inbox, Outbox, Socket, SocketConfig, wait};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Bytes wanted for each queue: a farm is asked in bursts, and is not to lose what the conditions does not.
const BUFFER_BYTES: usize = 32 << 20;
/// Requests are not longer; what is cut is no request.
const MAX_REQUEST: usize = 2_048;
/// Replies that wait for the system to take them; past that, nothing is heard.
const MAX_UNSENT_REPLIES: usize = 4 * BATCH;
/// It looks so often whether to stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// A farm's port, bound.
#[derive(Debug)]
pub struct BoundPort {
    index: usize,
    socket: Socket,
}

impl BoundPort {
    /// Which of the farm's [ports](Farm::port) it is for.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.socket.local_addr().port()
    }

    /// The socket.
    pub fn socket(&self) -> &Socket {
        &self.socket
    }
}

/// Why a farm's port cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FarmBindError {
    /// It cannot be bound.
    #[error("cannot listen on port {port} of all addresses: {cause}")]
    Bind {
        /// The port.
        port: u16,
        /// Why.
        cause: io::Error,
    },
    /// The system does not tell which address was asked.
    #[error(
        "a farm does not work on this system, which does not tell which of its addresses was asked"
    )]
    Destination,
}

/// A port with its socket.
struct OpenPort<'a> {
    port: FarmPort<'a>,
    socket: &'a Socket,
    outbox: Outbox,
}

impl Farm {
    /// Binds its ports, in the order of its [ports](Farm::port). Only a socket on all addresses hears all of a network; see
    /// [the module](crate::respond::farm) for what keeps the world out.
    pub fn bind(&self) -> Result<Vec<BoundPort>, FarmBindError> {
        let bind = |index: usize| {
            let port = self.ports[index].port;
            let mut settings = SocketConfig::default();
            settings.receive_buffer = Some(BUFFER_BYTES);
            settings.send_buffer = Some(BUFFER_BYTES);
            settings.destination = true;
            let socket = Socket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), &settings);
            let socket = socket.map_err(|cause| FarmBindError::Bind { port, cause })?;
            match socket.capabilities().destination {
                true => Ok(BoundPort { index, socket }),
                false => Err(FarmBindError::Destination),
            }
        };
        (0..self.ports.len()).map(bind).collect()
    }

    /// Answers on these ports until told to stop. No datagram ends it. Several threads can share a farm, each with its
    /// ports.
    pub fn run(&self, bound: &[BoundPort], stop: &AtomicBool) -> FarmCounts {
        let sockets: Vec<&Socket> = bound.iter().map(BoundPort::socket).collect();
        let ports = bound
            .iter()
            .map(|bound| self.port(bound.index, bound.port()));
        let posts = ports.zip(&sockets).map(|(port, socket)| OpenPort {
            port,
            socket,
            outbox: Outbox::new(),
        });
        let mut posts: Vec<OpenPort<'_>> = posts.collect();
        let mut inbox = Inbox::with_max_length(MAX_REQUEST);
        let clock = Clock::start();
        while !stop.load(Ordering::Relaxed) {
            let mut more = false;
            for post in &mut posts {
                more |= post.serve(&clock, &mut inbox);
            }
            if more {
                continue;
            }
            let due = posts.iter().filter_map(|post| post.port.due()).min();
            let time = due.map_or(STOP_CHECK_INTERVAL, |due| {
                due.saturating_sub(clock.now()).min(STOP_CHECK_INTERVAL)
            });
            let full = posts.iter().any(|post| !post.outbox.is_empty());
            if !time.is_zero() && wait(&sockets, full, time).is_err() {
                // Passing shortages of the system: never a reason to stop, nor to spin.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let mut total = FarmCounts::default();
        for post in &mut posts {
            post.port.counts.overflows = post.socket.overflows();
            total.add(&post.port.counts);
        }
        total
    }
}

impl OpenPort<'_> {
    /// One round. Returns whether there is more to do at once.
    fn serve(&mut self, clock: &Clock, inbox: &mut Inbox) -> bool {
        let now = clock.now();
        self.port.release(now, MAX_UNSENT_REPLIES, &mut self.outbox);
        let mut heard = 0;
        if self.outbox.len() < MAX_UNSENT_REPLIES {
            match self.socket.receive(inbox) {
                Ok(count) => heard = count,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            for datagram in inbox.iter().take(heard) {
                self.port.receive(
                    now,
                    datagram.from,
                    datagram.to,
                    datagram.bytes,
                    &mut self.outbox,
                );
            }
        }
        if self.socket.send(&mut self.outbox).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.port.counts.unsent += self.outbox.take_unsent().len() as u64;
        heard == BATCH
    }
}

/// Time since 1970, going on by the monotonic clock.
struct Clock {
    started: Instant,
    started_at: Duration,
}

impl Clock {
    fn start() -> Self {
        let started_at = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: Instant::now(),
            started_at,
        }
    }

    fn now(&self) -> Duration {
        self.started_at + self.started.elapsed()
    }
}
