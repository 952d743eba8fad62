//! A server in memory, with simulated time.

use super::wire::{Origin, Received, SocketId, Wire};
use hailer_proto::protocol::PAUSE_MS;
use hailer_proto::{ConnectionStep, Epoch, Responder, Transport};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Unix time at which simulated time starts, in seconds.
const START: u64 = 1_800_000_000;
/// Time that a datagram needs for one direction.
const ONE_WAY: Duration = Duration::from_millis(1);
/// Time between two segments of a stream.
const SEGMENT_PAUSE: Duration = Duration::from_micros(100);

/// Returns the epoch of a simulated time.
fn epoch(now: Duration) -> Epoch {
    Epoch::at(START + now.as_secs())
}

/// Returns the replies to a datagram that arrives at a time from an address.
type Answer = dyn FnMut(Duration, SocketAddr, &[u8]) -> Vec<Vec<u8>>;

/// A server in memory. Its time passes only while a probe waits.
pub struct MemoryWire {
    /// Handles datagrams, for a datagram protocol.
    answer: Box<Answer>,
    /// Accepts connections, for a stream protocol.
    accept: Option<Box<Accept>>,
    now: Duration,
    sockets: Vec<MemorySocket>,
    next_port: u16,
    /// Longest segment of a stream, in bytes.
    segment: usize,
}

impl fmt::Debug for MemoryWire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryWire")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// Returns the server side of a connection from an address. `None` refuses it.
type Accept = dyn FnMut(SocketAddr) -> Option<Box<dyn hailer_proto::Connection>>;

struct MemorySocket {
    from: SocketAddr,
    /// Bytes on their way, with the time of their arrival. `None` closes the connection.
    arriving: VecDeque<(Duration, Option<Vec<u8>>)>,
    connection: Option<MemoryConnection>,
}

struct MemoryConnection {
    server: Box<dyn hailer_proto::Connection>,
    /// Bytes that the server has not consumed.
    unread: Vec<u8>,
    /// When the server handles a pause.
    pause_at: Option<Duration>,
    /// Longest segment, in bytes.
    segment: usize,
}

impl MemoryWire {
    /// Creates a server from a function that returns the replies to a datagram, by time and address of
    /// the client.
    pub fn new(answer: impl FnMut(Duration, SocketAddr, &[u8]) -> Vec<Vec<u8>> + 'static) -> Self {
        Self {
            answer: Box::new(answer),
            accept: None,
            now: Duration::ZERO,
            sockets: Vec::new(),
            next_port: 40_000,
            segment: usize::MAX,
        }
    }

    /// Sends replies over a stream in segments of at most `length` bytes, at least 1.
    #[must_use]
    pub fn with_segments(mut self, length: usize) -> Self {
        self.segment = length.max(1);
        self
    }

    /// Creates a server from a responder.
    pub fn responder(responder: Arc<dyn Responder>, transport: Transport) -> Self {
        if transport == Transport::Datagram {
            Self::new(move |now, from, bytes| responder.replies(from, epoch(now), bytes))
        } else {
            Self::connections(move |from| responder.connection(from))
        }
    }

    /// Creates a server that accepts connections.
    pub fn connections(
        accept: impl FnMut(SocketAddr) -> Option<Box<dyn hailer_proto::Connection>> + 'static,
    ) -> Self {
        let mut wire = Self::new(|_, _, _| Vec::new());
        wire.accept = Some(Box::new(accept));
        wire
    }

    /// Tells the server of a connection about a pause, if one is over.
    fn pause(socket: &mut MemorySocket, now: Duration) {
        let Some(connection) = &mut socket.connection else {
            return;
        };
        if connection.pause_at.is_none_or(|at| at > now) {
            return;
        }
        let at = connection.pause_at.take().unwrap_or(now);
        let mut out = Vec::new();
        let received = connection.server.pause(&connection.unread, &mut out);
        Self::follow(socket, at, received, &out);
    }

    fn follow(
        socket: &mut MemorySocket,
        now: Duration,
        received: hailer_proto::Received,
        out: &[u8],
    ) {
        let Some(connection) = &mut socket.connection else {
            return;
        };
        let mut now = now;
        for segment in out.chunks(connection.segment) {
            socket
                .arriving
                .push_back((now + ONE_WAY, Some(segment.to_vec())));
            now += SEGMENT_PAUSE;
        }
        let consumed = received.consumed.min(connection.unread.len());
        connection.unread.drain(..consumed);
        if received.step != ConnectionStep::Wait {
            socket.connection = None;
            socket.arriving.push_back((now + ONE_WAY, None));
        }
    }
}

impl Wire for MemoryWire {
    fn now(&self) -> Duration {
        self.now
    }

    fn sleep_until(&mut self, time: Duration) {
        self.now = self.now.max(time);
    }

    fn open(&mut self, origin: Origin) -> io::Result<SocketId> {
        let ip = match origin {
            Origin::Usual => [192, 0, 2, 7],
            Origin::OtherAddress => [192, 0, 2, 8],
        };
        let from = SocketAddr::from((ip, self.next_port));
        self.next_port = self.next_port.wrapping_add(1).max(1_024);
        let connection = match &mut self.accept {
            None => None,
            Some(accept) => match accept(from) {
                Some(server) => Some(MemoryConnection {
                    server,
                    unread: Vec::new(),
                    pause_at: None,
                    segment: self.segment,
                }),
                None => return Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
            },
        };
        self.sockets.push(MemorySocket {
            from,
            arriving: VecDeque::new(),
            connection,
        });
        Ok(SocketId(self.sockets.len() - 1))
    }

    fn send(&mut self, socket: SocketId, bytes: &[u8]) -> io::Result<()> {
        let now = self.now;
        let Some(socket) = self.sockets.get_mut(socket.0) else {
            return Err(io::Error::from(io::ErrorKind::NotConnected));
        };
        if self.accept.is_none() {
            let sent = (self.answer)(now + ONE_WAY, socket.from, bytes).into_iter();
            let sent = sent.map(|bytes| (now + 2 * ONE_WAY, Some(bytes)));
            socket.arriving.extend(sent);
            socket.arriving.make_contiguous().sort_by_key(|(at, _)| *at);
            return Ok(());
        }
        Self::pause(socket, now);
        let Some(connection) = &mut socket.connection else {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        };
        connection.unread.extend_from_slice(bytes);
        connection.pause_at = Some(now + Duration::from_millis(PAUSE_MS));
        let mut out = Vec::new();
        let received = connection
            .server
            .receive(epoch(now), &connection.unread, &mut out);
        Self::follow(socket, now, received, &out);
        Ok(())
    }

    fn receive(&mut self, socket: SocketId, until: Duration) -> Received {
        let Some(socket) = self.sockets.get_mut(socket.0) else {
            return Received::Closed;
        };
        if socket.arriving.is_empty() {
            Self::pause(socket, until);
        }
        match socket.arriving.front() {
            Some((at, _)) if *at <= until => {
                self.now = self.now.max(*at);
                match socket.arriving.pop_front() {
                    Some((_, Some(bytes))) => Received::Bytes(bytes),
                    _ => Received::Closed,
                }
            }
            _ => {
                self.now = self.now.max(until);
                Received::Nothing
            }
        }
    }

    fn close_all(&mut self) {
        self.sockets.clear();
    }
}
