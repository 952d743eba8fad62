//! Servers for tests, each with a thread and a loopback address. Stopped on drop. The tests of the
//! tool use them too.
//!
//! In: prepared replies. Out: addresses of servers, received requests.
//!
//! May import: `hailer`.

pub mod dns;

use hailer::Status;
use hailer::proto::Protocol;
use hailer::proto::games::{Game, QueryPort};
use hailer::proto::{Player, Text, registry};
use hailer::respond::{Board, Budget, Service};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A game to add, without an id.
pub const GAME: Game = Game {
    id: "",
    name: "Harbour Wars",
    protocols: &["ugp"],
    port: Some(9),
    query: QueryPort::Same,
    srv: None,
    quirks: &[],
    sources: "",
    aliases: &[],
};

/// A UDP server.
pub struct Server {
    pub address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // An empty datagram wakes the thread.
        if let Ok(socket) = UdpSocket::bind((self.address.ip(), 0)) {
            let _ = socket.send_to(b"", self.address);
        }
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Server {
    /// Receives datagrams on a socket and calls a function for each.
    pub fn run(
        socket: UdpSocket,
        mut answer: impl FnMut(&UdpSocket, &[u8], SocketAddr) + Send + 'static,
    ) -> Self {
        let address = socket.local_addr().unwrap();
        socket
            .set_read_timeout(Some(Duration::from_millis(200)))
            .unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let thread = std::thread::spawn(move || {
            let mut buffer = vec![0; 65_535];
            while !is_over.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut buffer)
                    && !is_over.load(Ordering::Relaxed)
                {
                    answer(&socket, &buffer[..length], from);
                }
            }
        });
        Self {
            address,
            over,
            thread: Some(thread),
        }
    }

    /// Replies to each datagram with any number of datagrams.
    pub fn script(mut replies: impl FnMut(&[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        Self::run(loopback(), move |socket, bytes, from| {
            for reply in replies(bytes) {
                let _ = socket.send_to(&reply, from);
            }
        })
    }

    /// Receives datagrams and never replies.
    pub fn silent() -> Self {
        Self::script(|_| Vec::new())
    }

    /// Replies from a board.
    pub fn board(socket: UdpSocket, board: Board, budget: Budget) -> Self {
        let mut service = Service::new(board, budget);
        Self::run(socket, move |socket, bytes, from| {
            for reply in service.answer(from, bytes) {
                let _ = socket.send_to(reply, from);
            }
        })
    }

    /// Replies with this status in some protocols.
    pub fn of(protocols: &[&'static dyn Protocol], status: &Status) -> Self {
        Self::at(loopback(), protocols, status)
    }

    /// Replies with this status in some protocols, on this socket.
    pub fn at(socket: UdpSocket, protocols: &[&'static dyn Protocol], status: &Status) -> Self {
        Self::board(
            socket,
            Board::new(protocols, status).unwrap(),
            Budget::default(),
        )
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

/// A TCP server that handles one connection after the other.
pub struct Stream {
    pub address: SocketAddr,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        // A connection wakes the thread.
        let _ = TcpStream::connect(self.address);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Stream {
    /// Calls a function for each connection.
    pub fn run(at: SocketAddr, mut act: impl FnMut(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind(at).unwrap();
        let address = listener.local_addr().unwrap();
        let over = Arc::new(AtomicBool::new(false));
        let is_over = over.clone();
        let thread = std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                stream.set_nodelay(true).unwrap();
                stream
                    .set_read_timeout(Some(Duration::from_secs(5)))
                    .unwrap();
                act(stream);
            }
        });
        Self {
            address,
            over,
            thread: Some(thread),
        }
    }

    /// Sends these bytes on each connection, without waiting for a request, and closes it.
    pub fn answering(at: SocketAddr, reply: impl Into<Vec<u8>>) -> Self {
        let reply = reply.into();
        Self::run(at, move |mut stream| {
            let _ = stream.read(&mut [0; 16]);
            let _ = std::io::Write::write_all(&mut stream, &reply);
        })
    }

    /// Accepts connections, reads them to the end and never replies.
    pub fn silent(at: SocketAddr) -> Self {
        Self::run(at, |mut stream| drop(stream.read_to_end(&mut Vec::new())))
    }
}

/// Returns Minecraft's kick packet with this text: the reply to a list ping.
pub fn kick(text: &str) -> Vec<u8> {
    let units: Vec<u16> = text.encode_utf16().collect();
    let mut bytes = vec![0xFF];
    bytes.extend((units.len() as u16).to_be_bytes());
    bytes.extend(units.iter().flat_map(|unit| unit.to_be_bytes()));
    bytes
}

/// Any free port of 127.0.0.1.
pub const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Binds a socket to a free port of 127.0.0.1.
pub fn loopback() -> UdpSocket {
    bind(Ipv4Addr::LOCALHOST, 0)
}

/// Binds a socket to this address.
pub fn bind(ip: impl Into<IpAddr>, port: u16) -> UdpSocket {
    UdpSocket::bind((ip.into(), port)).unwrap()
}

/// Returns an address without a listener. No other test binds this IP address, so its port stays
/// closed.
pub fn closed() -> SocketAddr {
    bind([127, 99, 0, 1], 0).local_addr().unwrap()
}

/// Binds a socket whose port is also free for TCP: other tests open their ports on another IP
/// address.
pub fn apart() -> UdpSocket {
    bind([127, 97, 0, 1], 0)
}

/// Returns a protocol by its id.
pub fn protocol(id: &str) -> &'static dyn Protocol {
    registry::find(id).unwrap()
}

/// Returns the ids of protocols that carry every member of [`status`], and that have one request in
/// flight at a time.
pub fn ids() -> Vec<&'static str> {
    vec!["minecraft-query", "ugp", "onequery"]
}

/// Returns the ids of the protocols that use datagrams and have a responder.
pub fn datagram_ids() -> Vec<&'static str> {
    registry::datagram_responders()
        .map(|protocol| protocol.info().id)
        .collect()
}

/// Returns a status with fields that every protocol can carry.
pub fn status(name: &str, players: &[&str]) -> Status {
    let mut status = Status {
        name: Some(Text::unformatted(name)),
        motd: Some(Text::legacy(name)),
        map: Some("harbour".into()),
        version: Some("1.2.3".into()),
        ..Status::default()
    };
    status.players.online = Some(players.len() as i64);
    status.players.max = Some(20);
    // OneQuery distinguishes players by UUID, so each has one.
    let list = players
        .iter()
        .zip(1..)
        .map(|(name, number): (_, u128)| Player {
            uuid: Some(number.to_be_bytes()),
            ..Player::named(Text::unformatted(*name))
        });
    status.players.set_list(list.collect());
    status
}

/// Returns the names of all players.
pub fn names(status: &Status) -> Vec<String> {
    status
        .players
        .list
        .iter()
        .map(|player| player.name.plain())
        .collect()
}

/// Returns Minecraft Query's reply to a handshake, or a stat with this body.
pub fn minecraft(request: &[u8], stat: &[u8]) -> Vec<u8> {
    let session = &request[3..7];
    match request[2] {
        9 => [b"\x09", session, b"12345\0"].concat(),
        _ => [b"\0", session, stat].concat(),
    }
}
