//! Access to the server under test.
//!
//! In: bytes to send, times to wait. Out: received bytes, closed connections.
//!
//! May import: `hailer_proto`.

use hailer_proto::Transport;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Longest datagram that UDP carries.
const MAX_DATAGRAM: usize = 65_535;
/// Longest time to set up a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Another address of this machine, for servers on loopback addresses. Linux has all of 127.0.0.0/8.
const OTHER_LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 83, 0, 1));

/// Where a socket sends from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The usual address. Every socket has its own port.
    Usual,
    /// Another address of this machine.
    OtherAddress,
}

/// Number of an open socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketId(pub usize);

/// Something received, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A datagram, or bytes of a stream.
    Bytes(Vec<u8>),
    /// The server has closed the connection, or its port.
    Closed,
    /// Nothing arrived in time.
    Nothing,
}

/// Access to one server, over datagrams or connections.
pub trait Wire {
    /// Returns the time since the start.
    fn now(&self) -> Duration;

    /// Waits until a time.
    fn sleep_until(&mut self, time: Duration);

    /// Opens a socket with its own port; on a stream, a connection.
    ///
    /// # Errors
    /// There is no such address, or the server refuses the connection.
    fn open(&mut self, origin: Origin) -> io::Result<SocketId>;

    /// Sends a datagram, or bytes of a stream in one write.
    ///
    /// # Errors
    /// The system or the server refuses it.
    fn send(&mut self, socket: SocketId, bytes: &[u8]) -> io::Result<()>;

    /// Waits for bytes, at most until a time.
    fn receive(&mut self, socket: SocketId, until: Duration) -> Received;

    /// Closes all sockets.
    fn close_all(&mut self);
}

/// A live server.
#[derive(Debug)]
pub struct SocketWire {
    server: SocketAddr,
    transport: Transport,
    started: Instant,
    sockets: Vec<Socket>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum Socket {
    Datagram(UdpSocket),
    Stream(TcpStream),
}

impl SocketWire {
    /// Creates the access to a server. Nothing is sent yet.
    pub fn new(server: SocketAddr, transport: Transport) -> Self {
        Self {
            server,
            transport,
            started: Instant::now(),
            sockets: Vec::new(),
            buffer: vec![0; MAX_DATAGRAM],
        }
    }

    /// Returns the address to send from.
    fn local(&self, origin: Origin) -> io::Result<SocketAddr> {
        let unspecified: IpAddr = match self.server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        match origin {
            Origin::Usual => Ok((unspecified, 0).into()),
            Origin::OtherAddress if self.server.ip().is_loopback() && self.server.is_ipv4() => {
                Ok((OTHER_LOOPBACK, 0).into())
            }
            Origin::OtherAddress => Err(io::Error::from(io::ErrorKind::AddrNotAvailable)),
        }
    }
}

impl Wire for SocketWire {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep_until(&mut self, time: Duration) {
        std::thread::sleep(time.saturating_sub(self.now()));
    }

    fn open(&mut self, origin: Origin) -> io::Result<SocketId> {
        let local = self.local(origin)?;
        let socket = if self.transport == Transport::Datagram {
            let socket = UdpSocket::bind(local)?;
            // Only datagrams of the server arrive, and closed ports are reported.
            socket.connect(self.server)?;
            Socket::Datagram(socket)
        } else {
            let stream = TcpStream::connect_timeout(&self.server, CONNECT_TIMEOUT)?;
            stream.set_nodelay(true)?;
            Socket::Stream(stream)
        };
        self.sockets.push(socket);
        Ok(SocketId(self.sockets.len() - 1))
    }

    fn send(&mut self, socket: SocketId, bytes: &[u8]) -> io::Result<()> {
        match self.sockets.get_mut(socket.0) {
            Some(Socket::Datagram(socket)) => socket.send(bytes).map(|_| ()),
            Some(Socket::Stream(stream)) => stream.write_all(bytes),
            None => Err(io::Error::from(io::ErrorKind::NotConnected)),
        }
    }

    fn receive(&mut self, socket: SocketId, until: Duration) -> Received {
        loop {
            let left = until.saturating_sub(self.started.elapsed());
            // A timeout of 0 means none.
            let left = left.max(Duration::from_millis(1));
            let received = match self.sockets.get_mut(socket.0) {
                Some(Socket::Datagram(socket)) => {
                    let _ = socket.set_read_timeout(Some(left));
                    socket.recv(&mut self.buffer).map(Some)
                }
                Some(Socket::Stream(stream)) => {
                    let _ = stream.set_read_timeout(Some(left));
                    let read = stream.read(&mut self.buffer);
                    read.map(|length| Some(length).filter(|length| *length > 0))
                }
                None => Ok(None),
            };
            return match received {
                Ok(Some(length)) => {
                    Received::Bytes(self.buffer.get(..length).unwrap_or_default().to_vec())
                }
                Ok(None) => Received::Closed,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Received::Nothing,
                    io::ErrorKind::Interrupted => continue,
                    _ => Received::Closed,
                },
            };
        }
    }

    fn close_all(&mut self) {
        self.sockets.clear();
    }
}
