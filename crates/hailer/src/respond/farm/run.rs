//! Runs a farm on sockets.
//!
//! In: a farm, datagrams and connections. Out: replies, counts.
//!
//! May import: `crate::respond::farm`, `crate::respond::farm::connections`, `hailer_proto`,
//! `hailer_udp`.

use super::{Clock, Farm, FarmCounts, FarmPort, PortServices, STOP_CHECK_INTERVAL, connections};
use hailer_proto::Transport;
use hailer_udp::{BATCH, Inbox, Outbox, Socket, SocketConfig, wait};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Requested size of each queue in bytes. Requests arrive in bursts, and only the simulated network
/// should lose them.
const BUFFER_BYTES: usize = 32 << 20;
/// Maximum length of a request. No protocol has longer ones.
const MAX_REQUEST: usize = 2_048;
/// Replies waiting for room in the send queue. At this number the farm stops receiving.
const MAX_UNSENT_REPLIES: usize = 4 * BATCH;

/// A bound port of a farm.
#[derive(Debug)]
pub struct BoundPort {
    index: usize,
    port: u16,
    listener: BoundListener,
}

#[derive(Debug)]
enum BoundListener {
    Datagram(Socket),
    Stream(TcpListener),
}

impl BoundPort {
    /// Returns its index among the farm's [ports](Farm::port).
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the port number.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether the port is a TCP or a UDP port. HTTP protocols use TCP.
    pub fn transport(&self) -> Transport {
        match self.listener {
            BoundListener::Datagram(_) => Transport::Datagram,
            BoundListener::Stream(_) => Transport::Stream,
        }
    }
}

impl BoundPort {
    /// Returns the index of the port and its socket for datagrams.
    fn socket(&self) -> Option<(usize, &Socket)> {
        match &self.listener {
            BoundListener::Datagram(socket) => Some((self.index, socket)),
            BoundListener::Stream(_) => None,
        }
    }

    /// Returns the index of the port, its number, and its listener.
    fn listener(&self) -> Option<(usize, u16, &TcpListener)> {
        match &self.listener {
            BoundListener::Datagram(_) => None,
            BoundListener::Stream(listener) => Some((self.index, self.port, listener)),
        }
    }
}

/// Reason why a farm cannot use a port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FarmBindError {
    /// The port cannot be bound.
    #[error("cannot listen on port {port} of all addresses: {cause}")]
    Bind {
        /// The port number.
        port: u16,
        /// Error of the system.
        cause: io::Error,
    },
    /// The system hides destination addresses.
    #[error("farms are not supported here: the system hides destination addresses")]
    Destination,
}

/// A port with its socket and its replies.
struct OpenPort<'a> {
    port: FarmPort<'a>,
    socket: &'a Socket,
    outbox: Outbox,
}

impl Farm {
    /// Binds the [ports](Farm::port), in order, on all addresses: other sockets do not receive for
    /// a whole network. See [the module](crate::respond::farm) for the protection against other
    /// hosts.
    ///
    /// # Errors
    /// If a port is in use, or the system hides destination addresses.
    pub fn bind(&self) -> Result<Vec<BoundPort>, FarmBindError> {
        let bind = |index: usize| {
            let PortServices {
                port, is_connected, ..
            } = self.ports[index];
            if is_connected {
                let listener =
                    connections::bind(port).map_err(|cause| FarmBindError::Bind { port, cause })?;
                return Ok(BoundPort {
                    index,
                    port: listener
                        .local_addr()
                        .map_err(|cause| FarmBindError::Bind { port, cause })?
                        .port(),
                    listener: BoundListener::Stream(listener),
                });
            }
            let mut config = SocketConfig::default();
            config.receive_buffer = Some(BUFFER_BYTES);
            config.send_buffer = Some(BUFFER_BYTES);
            config.has_destination = true;
            let socket = Socket::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), &config);
            let socket = socket.map_err(|cause| FarmBindError::Bind { port, cause })?;
            if socket.capabilities().has_destination {
                Ok(BoundPort {
                    index,
                    port: socket.local_addr().port(),
                    listener: BoundListener::Datagram(socket),
                })
            } else {
                Err(FarmBindError::Destination)
            }
        };
        (0..self.ports.len()).map(bind).collect()
    }

    /// Answers on these ports until `stop` is true. Returns the counters. Several threads can share
    /// a farm, each with other ports. A separate thread serves connections.
    ///
    /// # Panics
    /// If the system cannot start this thread.
    pub fn run(&self, bound: &[BoundPort], stop: &AtomicBool) -> FarmCounts {
        let listeners: Vec<_> = bound.iter().filter_map(BoundPort::listener).collect();
        let datagrams: Vec<_> = bound.iter().filter_map(BoundPort::socket).collect();
        if listeners.is_empty() {
            return self.run_datagrams(&datagrams, stop);
        }
        if datagrams.is_empty() {
            return connections::run(self, &listeners, stop);
        }
        std::thread::scope(|scope| {
            let streams = scope.spawn(|| connections::run(self, &listeners, stop));
            let mut total = self.run_datagrams(&datagrams, stop);
            match streams.join() {
                Ok(counts) => total.add(&counts),
                Err(panic) => std::panic::resume_unwind(panic),
            }
            total
        })
    }

    fn run_datagrams(&self, bound: &[(usize, &Socket)], stop: &AtomicBool) -> FarmCounts {
        let sockets: Vec<&Socket> = bound.iter().map(|(_, socket)| *socket).collect();
        let posts = bound.iter().map(|(index, socket)| OpenPort {
            port: self.port(*index, socket.local_addr().port()),
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
                // Temporary resource shortage: pause, to avoid a busy loop.
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
    /// Runs one round. Returns whether there may be more to receive.
    fn serve(&mut self, clock: &Clock, inbox: &mut Inbox) -> bool {
        let now = clock.now();
        self.port.release(now, MAX_UNSENT_REPLIES, &mut self.outbox);
        let mut received = 0;
        if self.outbox.len() < MAX_UNSENT_REPLIES {
            match self.socket.receive(inbox) {
                Ok(count) => received = count,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            for datagram in inbox.iter().take(received) {
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
        received == BATCH
    }
}
