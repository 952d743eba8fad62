//! The connection of one exchange: a datagram socket, a stream, or requests over HTTP.
//!
//! In: bytes of an exchange. Out: received bytes, errors of the system.
//!
//! May import: `crate::client::detection`, `crate::client::shared`, `crate::support`,
//! `hailer_proto`.

use super::detection::Window;
use super::shared::SharedSocket;
use crate::support::local::connect_from;
use futures_util::future::BoxFuture;
use hailer_proto::Info;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Largest datagram, in bytes. A smaller buffer would cut long lists of players.
pub(super) const MAX_DATAGRAM: usize = 65_535;
/// Bytes per read from a stream.
const STREAM_CHUNK_BYTES: usize = 16 * 1_024;
/// First bytes of a PROXY protocol header of version 2.
const PROXY_SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Version 2 of the header, for a connection on behalf of a client.
const PROXIED: u8 = 0x21;
/// TCP over IPv4 and over IPv6.
const TCP_FAMILIES: [u8; 2] = [0x11, 0x21];

/// Notifies the exchanges of a detection that another protocol has answered.
pub(super) type DetectionWindow = watch::Receiver<Option<Window>>;

/// Waits until the detection window opens or changes, and returns it. Without a window, waits
/// forever.
pub(super) async fn opened(window: &mut Option<DetectionWindow>) -> Window {
    while let Some(receiver) = window {
        if receiver.changed().await.is_err() {
            *window = None;
        } else if let Some(window) = &*receiver.borrow_and_update() {
            return window.clone();
        }
    }
    pending().await
}

/// Returns a PROXY protocol header with the addresses of a connection
/// (spec/minecraft-status.md#4.1).
fn proxy_header(source: SocketAddr, destination: SocketAddr) -> Vec<u8> {
    let addresses: Vec<u8> = match (source.ip(), destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            [source.octets(), destination.octets()].concat()
        }
        (source, destination) => [source, destination]
            .map(|ip| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            })
            .concat(),
    };
    let [v4, v6] = TCP_FAMILIES;
    let family = if addresses.len() == 8 { v4 } else { v6 };
    let ports = [source.port(), destination.port()];
    let length = (addresses.len() + size_of_val(&ports)) as u16;
    let mut header = Vec::from(*PROXY_SIGNATURE);
    header.extend([PROXIED, family]);
    header.extend(length.to_be_bytes());
    header.extend(addresses);
    header.extend(ports.map(u16::to_be_bytes).concat());
    header
}

async fn connect_now(
    address: SocketAddr,
    source: Option<SocketAddr>,
    has_proxy_header: bool,
) -> io::Result<TcpStream> {
    let mut stream = connect_from(address, source).await?;
    if has_proxy_header {
        let header = proxy_header(stream.local_addr()?, address);
        stream.write_all(&header).await?;
    }
    Ok(stream)
}

/// Connects a stream before `deadline` and before the detection window ends. Returns `None` if this
/// takes too long, or if the protocol is not waited for.
pub(super) async fn connect(
    address: SocketAddr,
    source: Option<SocketAddr>,
    has_proxy_header: bool,
    deadline: Instant,
    protocol: &Info,
    window: &Option<DetectionWindow>,
) -> Option<io::Result<TcpStream>> {
    let mut window = window.clone();
    let mut stream = pin!(connect_now(address, source, has_proxy_header));
    let mut due = pin!(sleep_until(deadline));
    loop {
        tokio::select! {
            biased;
            stream = &mut stream => return Some(stream),
            () = &mut due => return None,
            window = opened(&mut window) => {
                if !window.waits_for(protocol) {
                    return None;
                }
                due.as_mut().reset(deadline.min(window.end()));
            }
        }
    }
}

/// Returns a datagram socket that is connected to the address, on a random port.
pub(super) async fn connected(
    address: SocketAddr,
    source: Option<SocketAddr>,
) -> io::Result<UdpSocket> {
    let source = source.unwrap_or_else(|| any_port(address));
    let socket = UdpSocket::bind(source).await?;
    socket.connect(address).await?;
    Ok(socket)
}

/// Returns a local address from which `address` can be reached, without a port.
fn any_port(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// Receives from either socket. The one that receives stays as `socket`. Cancel-safe.
pub(super) async fn receive_first(
    socket: &mut Socket,
    open: &mut Option<Socket>,
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    let Some(other) = open else {
        return socket.receive(buffer).await;
    };
    let mut bytes = Vec::new();
    // In random order: a flood of one socket must not hide the reply of the other.
    let is_other = tokio::select! {
        result = socket.receive(buffer) => result.map(|()| false)?,
        result = other.receive(&mut bytes) => result.map(|()| true)?,
    };
    if let Some(other) = open.take().filter(|_| is_other) {
        *socket = other;
        *buffer = bytes;
    }
    Ok(())
}

/// A connection to one server.
pub(super) enum Socket {
    Datagram(UdpSocket),
    /// On a port that other exchanges use too.
    Shared(SharedSocket),
    /// Not connected. Receives from every port of the address.
    Open {
        socket: UdpSocket,
        address: SocketAddr,
        /// Port of the last datagram.
        source: u16,
    },
    Stream(TcpStream),
    /// The response to the last request over HTTP, until it is received.
    Http(Option<BoxFuture<'static, io::Result<Vec<u8>>>>),
}

impl Socket {
    /// Opens a socket that receives from every port of the address.
    pub(super) async fn open(address: SocketAddr, source: Option<SocketAddr>) -> io::Result<Self> {
        let source = source.unwrap_or_else(|| any_port(address));
        Ok(Self::Open {
            socket: UdpSocket::bind(source).await?,
            address,
            source: address.port(),
        })
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Datagram(socket) => socket.send(bytes).await.map(drop),
            Self::Shared(socket) => socket.send(bytes).await,
            Self::Open {
                socket, address, ..
            } => socket.send_to(bytes, *address).await.map(drop),
            Self::Stream(stream) => stream.write_all(bytes).await,
            // Requests over HTTP have their own connections.
            Self::Http(_) => Ok(()),
        }
    }

    /// Receives one datagram in place of the buffer's content, or appends bytes of a stream.
    /// Cancel-safe: no data is lost on drop.
    async fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Datagram(socket) => {
                // The buffer is allocated only when there is a datagram, since most exchanges are
                // waiting.
                loop {
                    let ready = socket.ready(Interest::READABLE | Interest::ERROR).await?;
                    let result = if ready.is_error() {
                        // ICMP errors do not make a socket readable.
                        socket.try_io(Interest::ERROR, || match socket.take_error()? {
                            Some(error) => Err(error),
                            None => Err(ErrorKind::WouldBlock.into()),
                        })
                    } else {
                        buffer.clear();
                        buffer.reserve(MAX_DATAGRAM);
                        socket.try_recv_buf(buffer).map(drop)
                    };
                    match result {
                        Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                        result => return result,
                    }
                }
            }
            Self::Open {
                socket,
                address,
                source,
            } => loop {
                socket.readable().await?;
                buffer.clear();
                buffer.reserve(MAX_DATAGRAM);
                match socket.try_recv_buf_from(buffer) {
                    Ok((_, from)) if from.ip() == address.ip() => {
                        *source = from.port();
                        return Ok(());
                    }
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(error),
                }
            },
            Self::Shared(socket) => socket.receive(buffer).await,
            Self::Http(None) => pending().await,
            Self::Http(Some(response)) => {
                let result = response.await;
                *self = Self::Http(None);
                *buffer = result?;
                Ok(())
            }
            Self::Stream(stream) => {
                buffer.clear();
                buffer.reserve(STREAM_CHUNK_BYTES);
                if stream.read_buf(buffer).await? == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                Ok(())
            }
        }
    }
}

/// Returns `None` if the error is the end of a stream, properly closed or reset.
pub(super) fn closed_or(error: io::Error, is_stream: bool) -> Option<io::Error> {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let ends_stream = matches!(
        error.kind(),
        UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe
    );
    if is_stream && ends_stream {
        None
    } else {
        Some(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_headers_have_the_addresses_of_the_connection() {
        let header = |source: &str, destination: &str| {
            proxy_header(source.parse().unwrap(), destination.parse().unwrap())
        };
        assert_eq!(
            header("192.0.2.7:51000", "198.51.100.9:25565"),
            *b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0C\xC0\0\x02\x07\xC6\x33\x64\x09\xC7\x38\x63\xDD"
        );
        let v6 = header("[2001:db8::7]:1", "[2001:db8::9]:258");
        assert_eq!(v6.len(), 52);
        assert_eq!(v6[12..18], [0x21, 0x21, 0, 36, 0x20, 0x01]);
        assert_eq!(v6[47..], [9, 0, 1, 1, 2]);
    }
}
