//! The farm on real sockets.

use super::{Counts, Farm, Gate};
use hailer_udp::{BATCH, Inbox, Outbox, Settings, Socket, wait};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Bytes wanted for each queue: a farm is asked in bursts, and is not to lose what the weather does not.
const BUFFER: usize = 32 << 20;
/// Requests are not longer; what is cut is no request.
const MAX_REQUEST: usize = 2_048;
/// Replies that wait for the system to take them; past that, nothing is heard.
const MAX_WAITING: usize = 4 * BATCH;
/// It looks so often whether to stop.
const LOOK: Duration = Duration::from_millis(50);

/// A farm's port, bound.
#[derive(Debug)]
pub struct Bound {
    index: usize,
    socket: Socket,
}

impl Bound {
    /// Which of the farm's [gates](Farm::gate) it is for.
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
pub enum BindError {
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

/// A gate with its socket.
struct Post<'a> {
    gate: Gate<'a>,
    socket: &'a Socket,
    outbox: Outbox,
}

impl Farm {
    /// Binds its ports, in the order of its [gates](Farm::gate). Only a socket on all addresses hears all of a network; see
    /// [the module](crate::respond::farm) for what keeps the world out.
    pub fn bind(&self) -> Result<Vec<Bound>, BindError> {
        let bind = |index: usize| {
            let port = self.doors[index].port;
            let mut settings = Settings::default();
            settings.receive_buffer = Some(BUFFER);
            settings.send_buffer = Some(BUFFER);
            settings.destination = true;
            let socket = Socket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), &settings);
            let socket = socket.map_err(|cause| BindError::Bind { port, cause })?;
            match socket.capabilities().destination {
                true => Ok(Bound { index, socket }),
                false => Err(BindError::Destination),
            }
        };
        (0..self.doors.len()).map(bind).collect()
    }

    /// Answers on these ports until told to stop. No datagram ends it. Several threads can share a farm, each with its
    /// ports.
    pub fn run(&self, bound: &[Bound], stop: &AtomicBool) -> Counts {
        let sockets: Vec<&Socket> = bound.iter().map(Bound::socket).collect();
        let gates = bound
            .iter()
            .map(|bound| self.gate(bound.index, bound.port()));
        let posts = gates.zip(&sockets).map(|(gate, socket)| Post {
            gate,
            socket,
            outbox: Outbox::new(),
        });
        let mut posts: Vec<Post<'_>> = posts.collect();
        let mut inbox = Inbox::for_length(MAX_REQUEST);
        let clock = Clock::start();
        while !stop.load(Ordering::Relaxed) {
            let mut more = false;
            for post in &mut posts {
                more |= post.serve(&clock, &mut inbox);
            }
            if more {
                continue;
            }
            let due = posts.iter().filter_map(|post| post.gate.due()).min();
            let time = due.map_or(LOOK, |due| due.saturating_sub(clock.now()).min(LOOK));
            let full = posts.iter().any(|post| !post.outbox.is_empty());
            if !time.is_zero() && wait(&sockets, full, time).is_err() {
                // Passing shortages of the system: never a reason to stop, nor to spin.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let mut total = Counts::default();
        for post in &mut posts {
            post.gate.counts.overflows = post.socket.overflows();
            total.add(&post.gate.counts);
        }
        total
    }
}

impl Post<'_> {
    /// One round. Returns whether there is more to do at once.
    fn serve(&mut self, clock: &Clock, inbox: &mut Inbox) -> bool {
        let now = clock.now();
        self.gate.release(now, MAX_WAITING, &mut self.outbox);
        let mut heard = 0;
        if self.outbox.len() < MAX_WAITING {
            match self.socket.receive(inbox) {
                Ok(count) => heard = count,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            for datagram in inbox.iter().take(heard) {
                self.gate.hear(
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
        self.gate.counts.unsent += self.outbox.take_unsent().len() as u64;
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
