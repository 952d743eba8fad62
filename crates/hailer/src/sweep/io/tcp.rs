//! Connections of a sweep: non-blocking sockets, watched by one event queue.
//!
//! With [`TcpClose::Reset`], a socket is reused for the next server: `connect` with an unspecified
//! address ends the old connection with RST. This saves opening and registering a socket for each
//! server, and leaves no connection in TIME_WAIT. Systems other than Unix cannot reuse sockets.
//!
//! Limits: open connections are limited by the process's limit of open files, minus [`OTHER_FILES`];
//! one read takes at most [`READ_BYTES`]. The engine limits the bytes and the time of a connection.
//!
//! In: orders of the sweep's engine. Out: received bytes, closed connections.
//!
//! May import: `crate::support`, `crate::sweep`, `crate::sweep::engine`, `hailer_udp`.

use crate::support::readiness::{IS_SHORT_READ_LAST, WatchedSocket};
use crate::sweep::engine::{ConnectionOrder, SweepEngine};
use crate::sweep::{Sink, TcpClose};
use hailer_udp::Socket as UdpSocket;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Open files that are not connections: output, lists, lookups.
#[cfg(unix)]
const OTHER_FILES: u64 = 128;
/// Largest number of connections without a limit of open files. Windows has 16,384 ports for
/// connections by default, and other programs need some.
const MAX_CONNECTIONS: usize = if cfg!(unix) { 1 << 20 } else { 1 << 13 };
/// Largest number of bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Largest number of events of one call.
const MAX_EVENTS: usize = 1_024;
/// Largest number of unused sockets that are kept for the next servers.
const MAX_IDLE_SOCKETS: usize = 4_096;
/// Place of a probe without a connection.
const NONE: u32 = u32::MAX;
/// Tokens from here on are UDP sockets, which only end a wait.
const UDP_TOKENS: usize = usize::MAX - 16;

/// All connections of a sweep.
pub(crate) struct TcpSockets {
    poll: Poll,
    events: Events,
    close: TcpClose,
    source: Option<SocketAddr>,
    udp: Vec<WatchedSocket>,
    places: Vec<OpenConnection>,
    /// Places without a socket.
    empty: Vec<u32>,
    /// Places with an unused socket, by address family.
    idle: [Vec<u32>; 2],
    /// Places that became free while events were processed. Later events of the same call may
    /// still concern their old connection.
    freed: Vec<u32>,
    /// Place of each probe.
    by_probe: Vec<u32>,
    orders: Vec<ConnectionOrder>,
    buffer: Box<[u8]>,
}

/// A socket and its probe.
struct OpenConnection {
    socket: Option<TcpStream>,
    is_registered: bool,
    is_v6: bool,
    probe: Option<u32>,
    is_connected: bool,
    /// Bytes that wait for the connection, or for room in the send queue.
    unsent: Vec<u8>,
}

impl TcpSockets {
    /// Creates an event queue, and raises the limit of open files as far as allowed. The UDP sockets
    /// end a [wait](Self::wait) too.
    pub(crate) fn new<'s>(
        close: TcpClose,
        source: Option<SocketAddr>,
        udp: impl Iterator<Item = &'s UdpSocket>,
        is_portable: bool,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let watch = |(number, socket)| {
            let token = Token(UDP_TOKENS + number);
            WatchedSocket::register(socket, is_portable, poll.registry(), token)
        };
        let udp = udp.enumerate().map(watch).collect::<io::Result<_>>()?;
        Ok(Self {
            poll,
            events: Events::with_capacity(MAX_EVENTS),
            // The reuse of a socket would end the binding to its address.
            close: if source.is_some() {
                TcpClose::Fin
            } else {
                close
            },
            source,
            udp,
            places: Vec::new(),
            empty: Vec::new(),
            idle: [Vec::new(), Vec::new()],
            freed: Vec::new(),
            by_probe: Vec::new(),
            orders: Vec::new(),
            buffer: vec![0; READ_BYTES].into(),
        })
    }

    /// Follows the orders of the engine.
    pub(crate) fn follow(&mut self, engine: &mut SweepEngine, now: Duration, sink: &mut dyn Sink) {
        self.follow_orders(engine, now, sink);
        self.reuse_freed();
    }

    /// Follows the orders of the engine, and keeps freed places apart.
    fn follow_orders(&mut self, engine: &mut SweepEngine, now: Duration, sink: &mut dyn Sink) {
        let mut orders = std::mem::take(&mut self.orders);
        while engine.take_orders(&mut orders) {
            for order in orders.drain(..) {
                match order {
                    ConnectionOrder::Connect { id, address } => {
                        self.connect(engine, now, id, address, Vec::new(), sink);
                    }
                    ConnectionOrder::Send { id, bytes } => self.send(engine, now, id, &bytes, sink),
                    ConnectionOrder::Reconnect { id, address, bytes } => {
                        self.release(id);
                        self.connect(engine, now, id, address, bytes, sink);
                    }
                    ConnectionOrder::Close { id } => self.release(id),
                }
            }
        }
        self.orders = orders;
    }

    fn connect(
        &mut self,
        engine: &mut SweepEngine,
        now: Duration,
        id: u32,
        address: SocketAddr,
        unsent: Vec<u8>,
        sink: &mut dyn Sink,
    ) {
        let place = match self.place(address.is_ipv6()) {
            Ok(place) => place,
            Err(error) if is_shortage(&error) => return engine.connect_later(now, id, sink),
            Err(error) => return engine.stream_ended(now, id, Some(&error), sink),
        };
        if self.by_probe.len() <= id as usize {
            self.by_probe.resize(id as usize + 1, NONE);
        }
        self.by_probe[id as usize] = place;
        let entry = &mut self.places[place as usize];
        entry.probe = Some(id);
        entry.is_connected = false;
        entry.unsent = unsent;
        let Some(socket) = &mut entry.socket else {
            return;
        };
        let mut connected = SockRef::from(&*socket).connect(&SockAddr::from(address));
        let has_begun = match &connected {
            Ok(()) => true,
            Err(error) => is_in_progress(error),
        };
        // Before it connects, Windows reports a socket as closed.
        if has_begun && !entry.is_registered {
            let token = Token(place as usize);
            let interest = Interest::READABLE | Interest::WRITABLE;
            match self.poll.registry().register(socket, token, interest) {
                Ok(()) => entry.is_registered = true,
                Err(error) => connected = Err(error),
            }
        }
        match connected {
            Ok(()) => self.opened(engine, now, place, sink),
            Err(error) if is_in_progress(&error) => {}
            Err(error) if is_shortage(&error) => {
                self.release(id);
                engine.connect_later(now, id, sink);
            }
            Err(error) => engine.stream_ended(now, id, Some(&error), sink),
        }
    }

    /// Returns a place with a socket that is not connected.
    fn place(&mut self, is_v6: bool) -> io::Result<u32> {
        if let Some(place) = self.idle[usize::from(is_v6)].pop() {
            return Ok(place);
        }
        let domain = if is_v6 { Domain::IPV6 } else { Domain::IPV4 };
        let socket = new_socket(domain)?;
        if let Some(source) = self.source {
            if source.is_ipv6() != is_v6 {
                return Err(ErrorKind::NetworkUnreachable.into());
            }
            socket.bind(&SocketAddr::new(source.ip(), 0).into())?;
        }
        let place = self.empty.pop().unwrap_or_else(|| {
            self.places.push(OpenConnection {
                socket: None,
                is_registered: false,
                is_v6,
                probe: None,
                is_connected: false,
                unsent: Vec::new(),
            });
            self.places.len() as u32 - 1
        });
        let entry = &mut self.places[place as usize];
        entry.is_v6 = is_v6;
        entry.is_registered = false;
        entry.socket = Some(TcpStream::from_std(socket.into()));
        Ok(place)
    }

    /// Processes the end of a connection attempt with success.
    fn opened(&mut self, engine: &mut SweepEngine, now: Duration, place: u32, sink: &mut dyn Sink) {
        let entry = &mut self.places[place as usize];
        entry.is_connected = true;
        let Some(id) = entry.probe else { return };
        if entry.unsent.is_empty() {
            engine.connected(now, id, sink);
        } else {
            let bytes = std::mem::take(&mut entry.unsent);
            self.send(engine, now, id, &bytes, sink);
        }
    }

    fn send(
        &mut self,
        engine: &mut SweepEngine,
        now: Duration,
        id: u32,
        bytes: &[u8],
        sink: &mut dyn Sink,
    ) {
        let Some(entry) = self.of_probe(id) else {
            return;
        };
        let Some(socket) = &mut entry.socket else {
            return;
        };
        if !entry.is_connected || !entry.unsent.is_empty() {
            return entry.unsent.extend_from_slice(bytes);
        }
        let mut sent = 0;
        // Outside Unix, only a failed write requests an event for free space.
        while sent < bytes.len() {
            match socket.write(&bytes[sent..]) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return entry.unsent.extend_from_slice(&bytes[sent..]);
                }
                Err(error) => return engine.stream_ended(now, id, Some(&error), sink),
            }
        }
    }

    fn of_probe(&mut self, id: u32) -> Option<&mut OpenConnection> {
        let place = *self.by_probe.get(id as usize)?;
        self.places.get_mut(place as usize)
    }

    /// Ends the connection of a probe.
    fn release(&mut self, id: u32) {
        let Some(place) = self.by_probe.get_mut(id as usize) else {
            return;
        };
        let place = std::mem::replace(place, NONE);
        let Some(entry) = self.places.get_mut(place as usize) else {
            return;
        };
        entry.probe = None;
        entry.is_connected = false;
        entry.unsent = Vec::new();
        let is_reusable = match (&entry.socket, self.close) {
            #[cfg(unix)]
            (Some(socket), TcpClose::Reset) => rustix::net::connect_unspec(socket).is_ok(),
            #[cfg(not(unix))]
            (Some(socket), TcpClose::Reset) => {
                // The system resets the connection when the socket is closed.
                let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
                false
            }
            _ => false,
        };
        if !is_reusable {
            entry.socket = None;
        }
        self.freed.push(place);
    }

    /// Makes freed places available.
    fn reuse_freed(&mut self) {
        for place in self.freed.drain(..) {
            let entry = &mut self.places[place as usize];
            let idle = &mut self.idle[usize::from(entry.is_v6)];
            if entry.socket.is_some() && idle.len() < MAX_IDLE_SOCKETS {
                idle.push(place);
            } else {
                entry.socket = None;
                self.empty.push(place);
            }
        }
    }

    /// Waits for events, at most `timeout`, and processes them. Returns the number of events.
    pub(crate) fn wait(
        &mut self,
        engine: &mut SweepEngine,
        timeout: Duration,
        started: Instant,
        sink: &mut dyn Sink,
    ) -> io::Result<usize> {
        // The datagrams of earlier events have been read.
        for socket in &mut self.udp {
            socket.request_event(self.poll.registry());
        }
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        match self.poll.poll(&mut events, Some(timeout)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let now = started.elapsed();
        let mut count = 0;
        for event in &events {
            count += 1;
            let place = event.token().0;
            if place >= UDP_TOKENS {
                if let Some(socket) = self.udp.get_mut(place - UDP_TOKENS) {
                    socket.record_event();
                }
                continue;
            }
            let Some(id) = self.places.get(place).and_then(|entry| entry.probe) else {
                continue;
            };
            self.process(engine, now, place as u32, id, event, sink);
            self.follow_orders(engine, now, sink);
        }
        self.events = events;
        self.reuse_freed();
        Ok(count)
    }

    fn process(
        &mut self,
        engine: &mut SweepEngine,
        now: Duration,
        place: u32,
        id: u32,
        event: &mio::event::Event,
        sink: &mut dyn Sink,
    ) {
        let entry = &mut self.places[place as usize];
        let Some(socket) = &mut entry.socket else {
            return;
        };
        if event.is_error()
            && let Ok(Some(error)) = socket.take_error()
        {
            return engine.stream_ended(now, id, Some(&error), sink);
        }
        if !entry.is_connected {
            if event.is_writable() {
                self.opened(engine, now, place, sink);
                self.follow_orders(engine, now, sink);
            }
        } else if event.is_writable() && !entry.unsent.is_empty() {
            let bytes = std::mem::take(&mut entry.unsent);
            self.send(engine, now, id, &bytes, sink);
            self.follow_orders(engine, now, sink);
        }
        let is_end = event.is_read_closed();
        if event.is_readable() || is_end {
            self.read(engine, now, place, id, is_end, sink);
        }
    }

    /// Reads until nothing is left or the probe has ended. `is_end`: the server has closed the
    /// connection, and its end must be read too.
    fn read(
        &mut self,
        engine: &mut SweepEngine,
        now: Duration,
        place: u32,
        id: u32,
        is_end: bool,
        sink: &mut dyn Sink,
    ) {
        loop {
            let entry = &mut self.places[place as usize];
            if entry.probe != Some(id) || !entry.is_connected {
                return;
            }
            let Some(socket) = &mut entry.socket else {
                return;
            };
            match socket.read(&mut self.buffer) {
                Ok(0) => return engine.stream_ended(now, id, None, sink),
                Ok(count) => {
                    engine.receive_stream(now, id, &self.buffer[..count], sink);
                    self.follow_orders(engine, now, sink);
                    // A short read empties the receive queue. Later bytes cause another event.
                    if IS_SHORT_READ_LAST && count < READ_BYTES && !is_end {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return engine.stream_ended(now, id, Some(&error), sink),
            }
        }
    }
}

/// Returns how many connections a sweep can have open at the same time: the limit of open files of
/// this process, which is raised as far as allowed, minus 128 for other files. On systems other than
/// Unix: 8,192.
pub fn max_connections() -> usize {
    open_files().clamp(1, MAX_CONNECTIONS)
}

#[cfg(not(unix))]
fn open_files() -> usize {
    MAX_CONNECTIONS
}

#[cfg(unix)]
fn open_files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.maximum.is_none() {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // On failure, the old limit stays.
        let _ = setrlimit(Resource::Nofile, raised);
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX)
}

/// Creates a non-blocking socket. The mode is part of the type where the system allows, since two
/// more system calls for each socket cost a tenth of a short connection.
fn new_socket(domain: Domain) -> io::Result<Socket> {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    return Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP));
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        Ok(socket)
    }
}

fn is_in_progress(error: &io::Error) -> bool {
    #[cfg(unix)]
    if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) {
        return true;
    }
    error.kind() == ErrorKind::WouldBlock
}

/// Returns whether the system lacks resources, so that another try may succeed.
#[cfg(not(unix))]
fn is_shortage(error: &io::Error) -> bool {
    /// WSAEMFILE, WSAEADDRNOTAVAIL, WSAENOBUFS, and WSAEADDRINUSE for local ports.
    const SHORTAGES: [i32; 4] = [10_024, 10_049, 10_055, 10_048];
    let code = error.raw_os_error();
    code.is_some_and(|code| SHORTAGES.contains(&code))
}

/// Returns whether the system lacks resources, so that another try may succeed.
#[cfg(unix)]
fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let shortages = [
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::ADDRNOTAVAIL,
        Errno::AGAIN,
    ];
    shortages
        .iter()
        .any(|shortage| error.raw_os_error() == Some(shortage.raw_os_error()))
}
