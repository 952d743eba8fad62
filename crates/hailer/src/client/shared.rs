//! Datagrams from one local port to several servers, and in several protocols to one server.
//!
//! Each server has one connected socket. The system delivers its replies there, although all sockets
//! have the same port. Exchanges with one server share the socket: each receives every datagram and
//! ignores those that it cannot read.
//!
//! In: datagrams of several exchanges. Out: received datagrams, for each exchange of their server.
//!
//! May import: `crate::client::socket`.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::net::UdpSocket;
use tokio::sync::broadcast::{self, error::RecvError};

/// Datagrams that wait for the slowest exchange. Older ones are dropped.
const MAX_WAITING: usize = 256;

type Received = Result<Arc<[u8]>, ErrorKind>;

/// The open sockets, by server.
#[derive(Default)]
pub(super) struct SharedSockets(Mutex<HashMap<SocketAddr, Weak<ServerSocket>>>);

/// The socket of one server.
struct ServerSocket {
    socket: UdpSocket,
    received: broadcast::Sender<Received>,
}

/// Access of one exchange to the socket of its server.
pub(super) struct SharedSocket {
    server: Arc<ServerSocket>,
    waiting: broadcast::Receiver<Received>,
}

impl SharedSockets {
    /// Returns access to the socket of a server, from this local address.
    pub(super) fn of(&self, server: SocketAddr, source: SocketAddr) -> io::Result<SharedSocket> {
        let mut sockets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match sockets.get(&server).and_then(Weak::upgrade) {
            Some(open) => open,
            None => {
                sockets.retain(|_, socket| socket.strong_count() > 0);
                let open = Arc::new(ServerSocket::open(server, source)?);
                sockets.insert(server, Arc::downgrade(&open));
                open
            }
        };
        Ok(SharedSocket {
            waiting: open.received.subscribe(),
            server: open,
        })
    }
}

impl ServerSocket {
    fn open(server: SocketAddr, source: SocketAddr) -> io::Result<Self> {
        let domain = socket2::Domain::for_address(source);
        let socket = socket2::Socket::new(domain, socket2::Type::DGRAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        socket.bind(&source.into())?;
        socket.connect(&server.into())?;
        Ok(Self {
            socket: UdpSocket::from_std(socket.into())?,
            received: broadcast::channel(MAX_WAITING).0,
        })
    }
}

impl SharedSocket {
    pub(super) async fn send(&self, bytes: &[u8]) -> io::Result<()> {
        self.server.socket.send(bytes).await.map(drop)
    }

    /// Returns whether replies may belong to another exchange.
    pub(super) fn is_shared(&self) -> bool {
        self.server.received.receiver_count() > 1
    }

    /// Receives one datagram in place of the buffer's content. Cancel-safe: a datagram that one
    /// exchange has taken from the socket waits for all of them.
    pub(super) async fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            let received = tokio::select! {
                biased;
                received = self.waiting.recv() => match received {
                    Ok(received) => received,
                    Err(RecvError::Lagged(_)) => continue,
                    Err(RecvError::Closed) => return Err(ErrorKind::NotConnected.into()),
                },
                ready = self.server.socket.readable() => {
                    ready?;
                    bytes.clear();
                    bytes.reserve(super::socket::MAX_DATAGRAM);
                    match self.server.socket.try_recv_buf(&mut bytes) {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                        result => {
                            let received = result.map(|_| Arc::from(&*bytes));
                            let received = received.map_err(|error| error.kind());
                            // This exchange has a receiver too.
                            let _ = self.server.received.send(received);
                            continue;
                        }
                    }
                }
            };
            buffer.clear();
            buffer.extend_from_slice(&received?);
            return Ok(());
        }
    }
}
