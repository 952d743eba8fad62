//! Runs a farm on sockets.
//!
//! In: a farm, datagrams and connections. Out: replies, counts.
//!
//! May import: `crate::respond::farm`, `crate::respond::farm::connections`, `crate::support`,
//! `hailer_proto`, `hailer_udp`.

use super::{Clock, Farm, FarmCounts, FarmPort, PortServices, STOP_CHECK_INTERVAL, connections};
use crate::support::readiness::WatchedSocket;
use hailer_proto::Transport;
use hailer_proto::sample::Random;
use hailer_udp::{BATCH, Inbox, MAX_WAIT_SOCKETS, Outbox, Socket, SocketConfig, wait};
use mio::{Events, Poll, Token};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Requested size of each queue in bytes. Requests arrive in bursts, and only the simulated network
/// should lose them.
const BUFFER_BYTES: usize = 32 << 20;
/// Requested size of each queue of a socket that receives for one address.
const ADDRESS_BUFFER_BYTES: usize = 256 << 10;
/// Maximum number of sockets if each address and port needs one.
const MAX_SOCKETS: u64 = 4_096;
/// Attempts to find a port number that is free at all addresses.
const PORT_ATTEMPTS: u32 = 16;
/// Maximum length of a request. No protocol has longer ones.
const MAX_REQUEST: usize = 2_048;
/// Replies waiting for room in the send queue. At this number the farm stops receiving.
const MAX_UNSENT_REPLIES: usize = 4 * BATCH;
/// Longest wait while a reply waits for room in the send queue.
const SEND_RETRY_DELAY: Duration = Duration::from_micros(500);

/// A bound port of a farm.
#[derive(Debug)]
pub struct BoundPort {
    index: usize,
    port: u16,
    listener: BoundListener,
}

#[derive(Debug)]
enum BoundListener {
    Datagram(Vec<BoundSocket>),
    Stream(TcpListener),
}

/// A socket for datagrams.
#[derive(Debug)]
struct BoundSocket {
    socket: Socket,
    /// Address that the socket receives for. `None`: for all, and it reports which.
    address: Option<Ipv4Addr>,
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
    /// Returns the index of the port and its sockets for datagrams.
    fn sockets(&self) -> impl Iterator<Item = (usize, &BoundSocket)> {
        let sockets = match &self.listener {
            BoundListener::Datagram(sockets) => &sockets[..],
            BoundListener::Stream(_) => &[],
        };
        sockets.iter().map(|socket| (self.index, socket))
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
    /// The port cannot be bound at one address.
    #[error("cannot listen on {address}: {cause}")]
    Address {
        /// Address and port.
        address: SocketAddr,
        /// Error of the system.
        cause: io::Error,
    },
    /// The system hides destination addresses, and too many sockets would be needed.
    #[error(
        "this system needs a socket for each address and port of a farm: {needed} here, and at most {MAX_SOCKETS} are allowed; name smaller networks or fewer protocols"
    )]
    TooManySockets {
        /// Number of addresses times number of ports over UDP.
        needed: u64,
    },
}

/// A port with its socket and its replies.
struct OpenPort<'a> {
    port: FarmPort<'a>,
    socket: &'a Socket,
    /// Address that the socket receives for, if it does not report it.
    address: Option<IpAddr>,
    outbox: Outbox,
    /// Registration in an event queue. `None`: the socket is read in every round.
    watched: Option<WatchedSocket>,
    /// Whether there may be something to receive.
    is_hot: bool,
}

impl Farm {
    /// Binds the [ports](Farm::port), in order, on all addresses: other sockets do not receive for
    /// a whole network. See [the module](crate::respond::farm) for the protection against other
    /// hosts. Systems that hide destination addresses get a socket for each address.
    ///
    /// # Errors
    /// If a port is in use, or too many sockets would be needed.
    pub fn bind(&self) -> Result<Vec<BoundPort>, FarmBindError> {
        let bind = |index: usize| {
            let PortServices {
                port, is_connected, ..
            } = self.ports[index];
            let failed = |cause| FarmBindError::Bind { port, cause };
            if is_connected {
                let listener = connections::bind(port).map_err(failed)?;
                return Ok(BoundPort {
                    index,
                    port: listener.local_addr().map_err(failed)?.port(),
                    listener: BoundListener::Stream(listener),
                });
            }
            // Only Linux reports destination addresses.
            let sockets = if cfg!(target_os = "linux") && !self.is_portable {
                let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
                let socket = self.open(any, BUFFER_BYTES).map_err(failed)?;
                let address = None;
                vec![BoundSocket { socket, address }]
            } else {
                self.bind_addresses(port)?
            };
            let first = sockets.first().map(|bound| bound.socket.local_addr());
            Ok(BoundPort {
                index,
                port: first.map_or(port, |address| address.port()),
                listener: BoundListener::Datagram(sockets),
            })
        };
        (0..self.ports.len()).map(bind).collect()
    }

    fn open(&self, address: SocketAddr, buffer: usize) -> io::Result<Socket> {
        let mut config = SocketConfig::default();
        config.receive_buffer = Some(buffer);
        config.send_buffer = Some(buffer);
        config.has_destination = true;
        config.is_portable = self.is_portable;
        Socket::bind(address, &config)
    }

    /// Opens a socket for each address. For port 0, all get the same free port.
    fn bind_addresses(&self, port: u16) -> Result<Vec<BoundSocket>, FarmBindError> {
        let ports = self.ports.iter().filter(|port| !port.is_connected).count();
        let needed = self.address_count().saturating_mul(ports as u64);
        if needed > MAX_SOCKETS {
            return Err(FarmBindError::TooManySockets { needed });
        }
        let addresses = self.addresses();
        let mut attempt = 1;
        loop {
            match self.bind_each(&addresses, port) {
                Err(FarmBindError::Address { cause, .. })
                    if cause.kind() == io::ErrorKind::AddrInUse
                        && port == 0
                        && attempt < PORT_ATTEMPTS =>
                {
                    attempt += 1;
                }
                end => return end,
            }
        }
    }

    fn bind_each(
        &self,
        addresses: &[Ipv4Addr],
        mut port: u16,
    ) -> Result<Vec<BoundSocket>, FarmBindError> {
        let mut sockets = Vec::with_capacity(addresses.len());
        for &address in addresses {
            let place = SocketAddr::from((address, port));
            let socket = self.open(place, ADDRESS_BUFFER_BYTES);
            let failed = |cause| FarmBindError::Address {
                address: place,
                cause,
            };
            let socket = socket.map_err(failed)?;
            port = socket.local_addr().port();
            sockets.push(BoundSocket {
                socket,
                address: Some(address),
            });
        }
        Ok(sockets)
    }

    /// Answers on these ports until `stop` is true. Returns the counters. Several threads can share
    /// a farm, each with other ports. A separate thread serves connections.
    ///
    /// # Panics
    /// If the system cannot start this thread.
    pub fn run(&self, bound: &[BoundPort], stop: &AtomicBool) -> FarmCounts {
        let listeners: Vec<_> = bound.iter().filter_map(BoundPort::listener).collect();
        let datagrams: Vec<_> = bound.iter().flat_map(BoundPort::sockets).collect();
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

    fn run_datagrams(&self, bound: &[(usize, &BoundSocket)], stop: &AtomicBool) -> FarmCounts {
        let mut waiter = Waiter::new(bound, self.is_portable);
        let posts = bound.iter().enumerate().map(|(number, (index, bound))| {
            let mut port = self.port(*index, bound.socket.local_addr().port());
            if let Some(address) = bound.address {
                let [a, b, c, d] = address.octets();
                let [.., e, f] = index.to_be_bytes();
                port.random = Random(self.hash_of(&[a, b, c, d, e, f]));
            }
            OpenPort {
                port,
                socket: &bound.socket,
                address: bound.address.map(IpAddr::from),
                outbox: Outbox::new(),
                watched: waiter.watch(&bound.socket, number, self.is_portable),
                is_hot: true,
            }
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
            if waiter.wait(&mut posts, time).is_err() {
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

/// Waits for datagrams.
enum Waiter<'a> {
    /// A few sockets, to the microsecond.
    Few(Vec<&'a Socket>),
    /// Any number of sockets, to the millisecond.
    Queue { poll: Poll, events: Events },
}

impl<'a> Waiter<'a> {
    fn new(bound: &[(usize, &'a BoundSocket)], is_portable: bool) -> Self {
        if bound.len() > MAX_WAIT_SOCKETS || is_portable || cfg!(not(unix)) {
            // Without a queue, the farm reads all sockets in turn.
            if let Ok(poll) = Poll::new() {
                let events = Events::with_capacity(1_024);
                return Self::Queue { poll, events };
            }
        }
        Self::Few(bound.iter().map(|(_, bound)| &bound.socket).collect())
    }

    fn watch(&self, socket: &Socket, number: usize, is_portable: bool) -> Option<WatchedSocket> {
        match self {
            Self::Few(_) => None,
            Self::Queue { poll, .. } => {
                WatchedSocket::register(socket, is_portable, poll.registry(), Token(number)).ok()
            }
        }
    }

    /// Waits for datagrams, or room for the replies that wait, or until the timeout.
    fn wait(&mut self, posts: &mut [OpenPort<'_>], timeout: Duration) -> io::Result<()> {
        let is_full = posts.iter().any(|post| !post.outbox.is_empty());
        match self {
            Self::Few(_) if timeout.is_zero() => Ok(()),
            Self::Few(sockets) => wait(sockets, is_full, timeout),
            Self::Queue { poll, events } => {
                for post in posts.iter_mut().filter(|post| !post.is_hot) {
                    if let Some(watched) = &mut post.watched {
                        watched.request_event(poll.registry());
                    }
                }
                let timeout = if is_full {
                    timeout.min(SEND_RETRY_DELAY)
                } else {
                    timeout
                };
                poll.poll(events, Some(timeout))?;
                for event in &*events {
                    if let Some(post) = posts.get_mut(event.token().0) {
                        post.record_event();
                    }
                }
                Ok(())
            }
        }
    }
}

impl OpenPort<'_> {
    /// Records that a datagram has arrived.
    fn record_event(&mut self) {
        self.is_hot = true;
        if let Some(watched) = &mut self.watched {
            watched.record_event();
        }
    }

    /// Runs one round. Returns whether there may be more to receive.
    fn serve(&mut self, clock: &Clock, inbox: &mut Inbox) -> bool {
        let now = clock.now();
        self.port.release(now, MAX_UNSENT_REPLIES, &mut self.outbox);
        // A socket without events is read in every round.
        self.is_hot |= !self.watched.as_ref().is_some_and(WatchedSocket::is_armed);
        let mut received = 0;
        if self.is_hot && self.outbox.len() < MAX_UNSENT_REPLIES {
            match self.socket.receive(inbox) {
                Ok(count) => received = count,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            for datagram in inbox.iter().take(received) {
                self.port.receive(
                    now,
                    datagram.from,
                    datagram.to.or(self.address),
                    datagram.bytes,
                    &mut self.outbox,
                );
            }
            self.is_hot = received == BATCH;
        }
        if !self.outbox.is_empty() && self.socket.send(&mut self.outbox).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.port.counts.unsent += self.outbox.take_unsent().len() as u64;
        received == BATCH
    }
}
