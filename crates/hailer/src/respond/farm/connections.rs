//! Connections of a farm: one thread accepts and answers all of them.
//!
//! Limits: see [the module](crate::respond::farm).
//!
//! In: connections of clients. Out: replies, counts.
//!
//! May import: `crate::respond::farm`, `crate::respond::reason`, `crate::support`, `hailer_proto`.

use super::{Clock, Farm, FarmCounts, PortServices, STOP_CHECK_INTERVAL};
use crate::respond::reason;
use crate::support::accept::accept_failed;
use crate::support::readiness::IS_SHORT_READ_LAST;
use hailer_proto::protocol::PAUSE_MS;
use hailer_proto::sample::Random;
use hailer_proto::{Connection, ConnectionStep, Epoch};
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, SockRef, Socket, Type};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Requested number of connections that wait to be accepted.
const BACKLOG: i32 = 4_096;
/// Connections accepted in a row.
const MAX_ACCEPTED: usize = 64;
/// Events of one call.
const MAX_EVENTS: usize = 1_024;
/// Bytes of one read.
const READ_BYTES: usize = 4 << 10;
/// Limit of bytes that no protocol has consumed.
const MAX_UNREAD_BYTES: usize = 8 << 10;
/// Limit of replies that the client has not taken.
const MAX_UNSENT_BYTES: usize = 256 << 10;
/// Longest time without received bytes.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between searches for idle connections.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Pause after which a request is complete, if its protocol has such requests.
const PAUSE: Duration = Duration::from_millis(PAUSE_MS);
/// First token of the listeners. Lower ones are connections.
const LISTENERS: usize = usize::MAX / 2;

/// Listens on a port of all addresses.
pub(super) fn bind(port: u16) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    // Connections of an earlier process may still wait for their end.
    #[cfg(unix)]
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Accepts and answers connections until `stop` is true. `ports`: index, number and listener of
/// each port.
pub(super) fn run(
    farm: &Farm,
    ports: &[(usize, u16, &std::net::TcpListener)],
    stop: &AtomicBool,
) -> FarmCounts {
    // The system may lack files for a moment.
    let mut streams = loop {
        match Streams::new(farm, ports) {
            Ok(streams) => break streams,
            Err(_) if stop.load(Ordering::Relaxed) => return FarmCounts::default(),
            Err(_) => std::thread::sleep(STOP_CHECK_INTERVAL),
        }
    };
    while !stop.load(Ordering::Relaxed) {
        streams.turn();
    }
    streams.counts
}

/// A listening port.
struct ListeningPort<'a> {
    listener: TcpListener,
    services: &'a PortServices,
    port: u16,
    /// Time from which connections may wait to be accepted, later after an error. `None`: none waits.
    ready_at: Option<Duration>,
}

/// An accepted connection.
struct AcceptedConnection<'a> {
    stream: TcpStream,
    /// Distinguishes it from earlier connections with its place.
    number: u64,
    /// Session with a simulated server; `None` if the server is silent.
    session: Option<FarmSession<'a>>,
    /// Replies that wait for their time, and whether the connection ends after them.
    delayed: VecDeque<(Vec<u8>, bool)>,
    last_due: Duration,
    unsent: Vec<u8>,
    is_closing: bool,
    has_reply: bool,
    active_at: Duration,
    /// Whether it is in the queue of pauses.
    awaits_pause: bool,
}

/// State of the thread.
struct Streams<'a> {
    farm: &'a Farm,
    clock: Clock,
    poll: Poll,
    events: Events,
    ports: Vec<ListeningPort<'a>>,
    visits: Vec<Option<AcceptedConnection<'a>>>,
    free: Vec<usize>,
    count: usize,
    accepted: u64,
    /// When each delayed reply is due, its number, and the place and number of its connection.
    due: BinaryHeap<Reverse<(Duration, u64, usize, u64)>>,
    replies: u64,
    /// Connections with unread bytes: when to look whether more have arrived, place and number. The
    /// first one is due first.
    pauses: VecDeque<(Duration, usize, u64)>,
    random: Random,
    idle_check_at: Duration,
    buffer: Box<[u8]>,
    out: Vec<u8>,
    counts: FarmCounts,
}

impl<'a> Streams<'a> {
    fn new(farm: &'a Farm, listeners: &[(usize, u16, &std::net::TcpListener)]) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut ports = Vec::new();
        for (number, (index, port, listener)) in listeners.iter().enumerate() {
            let mut listener = TcpListener::from_std(listener.try_clone()?);
            let token = Token(LISTENERS + number);
            poll.registry()
                .register(&mut listener, token, Interest::READABLE)?;
            ports.push(ListeningPort {
                listener,
                services: &farm.ports[*index],
                port: *port,
                ready_at: Some(Duration::ZERO),
            });
        }
        let clock = Clock::start();
        Ok(Self {
            idle_check_at: clock.now() + IDLE_CHECK_INTERVAL,
            clock,
            poll,
            events: Events::with_capacity(MAX_EVENTS),
            ports,
            visits: Vec::new(),
            free: Vec::new(),
            count: 0,
            accepted: 0,
            due: BinaryHeap::new(),
            replies: 0,
            pauses: VecDeque::new(),
            random: Random(farm.hash_of(b"streams")),
            buffer: vec![0; READ_BYTES].into(),
            out: Vec::new(),
            counts: FarmCounts::default(),
            farm,
        })
    }

    /// Waits for events, and handles them.
    fn turn(&mut self) {
        let now = self.clock.now();
        let has_room = self.count < self.farm.max_connections;
        let accepts = self.ports.iter().filter_map(|port| port.ready_at);
        let accepts = accepts.filter(|_| has_room).min();
        let replies = self.due.peek().map(|Reverse((due, ..))| *due);
        let pauses = self.pauses.front().map(|(due, ..)| *due);
        let due = accepts.into_iter().chain(replies).chain(pauses).min();
        let wait = due.map_or(STOP_CHECK_INTERVAL, |due| {
            due.saturating_sub(now).min(STOP_CHECK_INTERVAL)
        });
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(1));
        if self.poll.poll(&mut events, Some(wait)).is_err() {
            // A signal, or a temporary lack of memory.
            std::thread::sleep(Duration::from_millis(1));
        }
        let now = self.clock.now();
        for event in &events {
            match event.token().0.checked_sub(LISTENERS) {
                Some(port) => {
                    if let Some(port) = self.ports.get_mut(port) {
                        port.ready_at = Some(now);
                    }
                }
                None => self.handle(now, event),
            }
        }
        self.events = events;
        self.release(now);
        self.end_pauses(now);
        for port in 0..self.ports.len() {
            self.accept(now, port);
        }
        if now >= self.idle_check_at {
            self.idle_check_at = now + IDLE_CHECK_INTERVAL;
            self.close_idle(now);
        }
    }

    /// Accepts connections that wait at a port.
    fn accept(&mut self, now: Duration, index: usize) {
        for _ in 0..MAX_ACCEPTED {
            let port = &mut self.ports[index];
            let is_ready = port.ready_at.is_some_and(|at| at <= now);
            if !is_ready || self.count >= self.farm.max_connections {
                return;
            }
            match port.listener.accept() {
                Ok((stream, from)) => self.insert(now, index, stream, from),
                Err(error) if error.kind() == ErrorKind::WouldBlock => port.ready_at = None,
                Err(error) => port.ready_at = Some(now + accept_failed(&error, Instant::now())),
            }
        }
    }

    fn insert(&mut self, now: Duration, index: usize, stream: TcpStream, from: SocketAddr) {
        let farm = self.farm;
        let port = &self.ports[index];
        self.counts.connections += 1;
        let is_allowed = farm.can_leave_loopback || from.ip().is_loopback();
        let to = match stream.local_addr().map(|to| to.ip()) {
            Ok(IpAddr::V4(to)) if is_allowed && farm.holds(to) => to,
            _ => {
                self.counts.foreign += 1;
                return;
            }
        };
        let slot = farm.place(to, port.port);
        if slot.is_refusing && !slot.is_silent {
            self.counts.refused += 1;
            // Resets the connection. On failure, it is closed in the usual way.
            let _ = SockRef::from(&stream).set_linger(Some(Duration::ZERO));
            return;
        }
        self.counts.silent += u64::from(slot.is_silent);
        let session =
            (!slot.is_silent).then(|| FarmSession::new(farm, port.services, slot.variant, from));
        let place = self.free.pop().unwrap_or_else(|| {
            self.visits.push(None);
            self.visits.len() - 1
        });
        self.accepted += 1;
        self.count += 1;
        self.visits[place] = Some(AcceptedConnection {
            stream,
            number: self.accepted,
            session,
            delayed: VecDeque::new(),
            last_due: now,
            unsent: Vec::new(),
            is_closing: false,
            has_reply: false,
            active_at: now,
            awaits_pause: false,
        });
        self.open(now, place);
        // The request has often arrived with the connection.
        self.read(now, place, false);
        let Some(visit) = &mut self.visits[place] else {
            return;
        };
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        if registry
            .register(&mut visit.stream, Token(place), interest)
            .is_err()
        {
            self.counts.unsent += 1;
            self.close(place, None);
        }
    }

    /// Sends the first bytes of a protocol whose server sends first.
    fn open(&mut self, now: Duration, place: usize) {
        let visit = self.visits.get_mut(place).and_then(Option::as_mut);
        let Some(session) = visit.and_then(|visit| visit.session.as_mut()) else {
            return;
        };
        let mut out = std::mem::take(&mut self.out);
        let is_last = session.open(&mut out);
        if !out.is_empty() {
            self.reply(now, place, &out, is_last);
        }
        out.clear();
        self.out = out;
    }

    fn handle(&mut self, now: Duration, event: &Event) {
        let place = event.token().0;
        let Some(Some(visit)) = self.visits.get_mut(place) else {
            return;
        };
        let is_end = event.is_read_closed() || event.is_error();
        if visit.session.is_none() && is_end {
            return self.close(place, None);
        }
        if event.is_writable() && !visit.unsent.is_empty() {
            self.write(place);
        }
        if event.is_readable() || is_end {
            self.read(now, place, is_end);
        }
    }

    /// Reads what has arrived. `is_end`: whether the client has ended the connection, so that the
    /// end must be read too. Otherwise a short read shows on Unix that nothing is left.
    fn read(&mut self, now: Duration, place: usize, is_end: bool) {
        loop {
            let Some(Some(visit)) = self.visits.get_mut(place) else {
                return;
            };
            let Some(session) = &mut visit.session else {
                return;
            };
            let length = match visit.stream.read(&mut self.buffer) {
                Ok(0) => return self.close(place, Some(reason::UNFINISHED.name)),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return self.close(place, Some(reason::UNFINISHED.name)),
            };
            visit.active_at = now;
            self.counts.bytes_in += length as u64;
            let bytes = &self.buffer[..length];
            let epoch = Epoch::at(now.as_secs());
            let mut out = std::mem::take(&mut self.out);
            let end = session.receive(epoch, bytes, &mut out);
            if !session.unread.is_empty() && end.is_none() && !visit.awaits_pause {
                visit.awaits_pause = true;
                self.pauses.push_back((now + PAUSE, place, visit.number));
            }
            self.follow(now, place, out, end);
            if IS_SHORT_READ_LAST && length < READ_BYTES && !is_end {
                return;
            }
        }
    }

    /// Sends what a session has written, and closes the connection if it has ended.
    fn follow(&mut self, now: Duration, place: usize, mut out: Vec<u8>, end: Option<&'static str>) {
        if !out.is_empty() {
            self.reply(now, place, &out, end.is_some());
        } else if end.is_some() {
            self.close(place, end);
        }
        out.clear();
        self.out = out;
    }

    /// Handles requests that are complete because nothing has followed them.
    fn end_pauses(&mut self, now: Duration) {
        while let Some(&(due, place, number)) = self.pauses.front()
            && due <= now
        {
            self.pauses.pop_front();
            let Some(Some(visit)) = self.visits.get_mut(place) else {
                continue;
            };
            let Some(session) = visit.session.as_mut().filter(|_| visit.number == number) else {
                continue;
            };
            let due = visit.active_at + PAUSE;
            if due > now {
                self.pauses.push_back((due, place, number));
                continue;
            }
            visit.awaits_pause = false;
            let mut out = std::mem::take(&mut self.out);
            let end = session.pause(&mut out);
            self.follow(now, place, out, end);
        }
    }

    /// Sends a reply now, or when its delay is over.
    fn reply(&mut self, now: Duration, place: usize, bytes: &[u8], is_last: bool) {
        let conditions = &self.farm.conditions;
        let Some(visit) = &mut self.visits[place] else {
            return;
        };
        if conditions.is_instant() {
            visit.unsent.extend_from_slice(bytes);
            visit.is_closing |= is_last;
            return self.write(place);
        }
        let waiting: usize = visit.delayed.iter().map(|(bytes, _)| bytes.len()).sum();
        if waiting + bytes.len() > MAX_UNSENT_BYTES {
            self.counts.queue_full += 1;
            return self.close(place, None);
        }
        // Replies on a connection keep their order.
        let due = (now + conditions.time(&mut self.random)).max(visit.last_due);
        visit.last_due = due;
        visit.delayed.push_back((bytes.to_vec(), is_last));
        self.due
            .push(Reverse((due, self.replies, place, visit.number)));
        self.replies += 1;
    }

    /// Sends the delayed replies that are due.
    fn release(&mut self, now: Duration) {
        while let Some(Reverse((due, _, place, number))) = self.due.peek().copied()
            && due <= now
        {
            self.due.pop();
            let Some(Some(visit)) = self.visits.get_mut(place) else {
                continue;
            };
            if visit.number == number
                && let Some((bytes, is_last)) = visit.delayed.pop_front()
            {
                visit.unsent.extend_from_slice(&bytes);
                visit.is_closing |= is_last;
                self.write(place);
            }
        }
    }

    /// Sends as much as the system takes.
    fn write(&mut self, place: usize) {
        let Some(Some(visit)) = self.visits.get_mut(place) else {
            return;
        };
        while !visit.unsent.is_empty() {
            match visit.stream.write(&visit.unsent) {
                Ok(count) => {
                    self.counts.answered += u64::from(!visit.has_reply);
                    visit.has_reply = true;
                    self.counts.bytes_out += count as u64;
                    visit.unsent.drain(..count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if visit.unsent.len() > MAX_UNSENT_BYTES {
                        self.counts.queue_full += 1;
                        self.close(place, None);
                    }
                    return;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.counts.unsent += 1;
                    return self.close(place, Some(reason::UNFINISHED.name));
                }
            }
        }
        if visit.is_closing {
            self.close(place, Some(reason::UNFINISHED.name));
        }
    }

    /// Closes a connection. The reason is counted if the connection had no reply.
    fn close(&mut self, place: usize, reason: Option<&'static str>) {
        let Some(visit) = self.visits.get_mut(place).and_then(Option::take) else {
            return;
        };
        if let Some(reason) = reason.filter(|_| !visit.has_reply) {
            *self.counts.dropped.entry(reason).or_default() += 1;
        }
        self.count -= 1;
        self.free.push(place);
    }

    fn close_idle(&mut self, now: Duration) {
        for place in 0..self.visits.len() {
            if let Some(visit) = &self.visits[place]
                && now >= visit.active_at + IDLE_TIMEOUT
                && visit.delayed.is_empty()
            {
                self.close(place, Some(reason::SLOW.name));
            }
        }
    }
}

/// The protocol side of one connection, without I/O.
struct FarmSession<'a> {
    farm: &'a Farm,
    services: &'a PortServices,
    variant: u32,
    from: SocketAddr,
    /// Number of protocols that passed the connection on.
    passed: usize,
    current: Option<Box<dyn Connection>>,
    unread: Vec<u8>,
}

impl<'a> FarmSession<'a> {
    fn new(farm: &'a Farm, services: &'a PortServices, variant: u32, from: SocketAddr) -> Self {
        Self {
            farm,
            services,
            variant,
            from,
            passed: 0,
            current: None,
            unread: Vec::new(),
        }
    }

    /// Lets the server send first, if the port has one protocol. Appends its bytes to `out`. Returns
    /// whether the connection ends after them.
    fn open(&mut self, out: &mut Vec<u8>) -> bool {
        let [service] = self.services.services[..] else {
            return false;
        };
        let responders = &self.farm.services[service].responders;
        let responder = responders.get(self.variant as usize);
        self.current = responder.and_then(|responder| responder.connection(self.from));
        self.current
            .as_mut()
            .is_some_and(|connection| connection.open(out) != ConnectionStep::Wait)
    }

    /// Handles received bytes. Appends the replies to `out`. Returns the reason if the connection
    /// ends after them.
    fn receive(&mut self, epoch: Epoch, bytes: &[u8], out: &mut Vec<u8>) -> Option<&'static str> {
        self.unread.extend_from_slice(bytes);
        loop {
            let Some(service) = self.services.services.get(self.passed) else {
                return Some(reason::NO_QUERY.name);
            };
            let responders = &self.farm.services[*service].responders;
            let responder = responders.get(self.variant as usize);
            if self.current.is_none() {
                self.current = responder.and_then(|responder| responder.connection(self.from));
            }
            let Some(connection) = &mut self.current else {
                self.passed += 1;
                continue;
            };
            let received = connection.receive(epoch, &self.unread, out);
            self.unread
                .drain(..received.consumed.min(self.unread.len()));
            return match received.step {
                ConnectionStep::Wait if self.unread.len() > MAX_UNREAD_BYTES => {
                    Some(reason::OVERSIZED.name)
                }
                ConnectionStep::Wait => None,
                ConnectionStep::Close => Some(reason::UNFINISHED.name),
                ConnectionStep::Bad(_) => Some(reason::MALFORMED.name),
                ConnectionStep::Pass => {
                    self.current = None;
                    self.passed += 1;
                    continue;
                }
            };
        }
    }

    /// Handles a pause after bytes without an end, as [`receive`](Self::receive) handles bytes.
    fn pause(&mut self, out: &mut Vec<u8>) -> Option<&'static str> {
        let received = self.current.as_mut()?.pause(&self.unread, out);
        self.unread
            .drain(..received.consumed.min(self.unread.len()));
        match received.step {
            ConnectionStep::Wait | ConnectionStep::Pass => None,
            ConnectionStep::Close => Some(reason::UNFINISHED.name),
            ConnectionStep::Bad(_) => Some(reason::MALFORMED.name),
        }
    }
}
