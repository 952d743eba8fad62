//! A proxy between clients and a server that reports every packet: sockets around one [`Bridge`]
//! per client.
//!
//! Every buffer is limited. While one side does not accept bytes, the other side is not read, so a
//! slow client delays only itself.
//!
//! In: connections of clients. Out: forwarded packets, events.
//!
//! May import: `crate::minecraft`, `crate::minecraft::bridge`, `crate::support`,
//! `hailer_minecraft`, `hailer_proto`.

use super::bridge::{Bridge, BridgeError, ForwardedPacket};
use super::unreachable;
use crate::support::accept::wait_after;
use hailer_minecraft::crypto::KeyPair;
use hailer_minecraft::table::Kick;
use hailer_minecraft::{Build, Connection, ConnectionState, PacketDirection, Role};
use hailer_proto::wire::counted;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until, timeout};

/// While this many bytes wait for one side, the other side is not read.
const MAX_WAITING: usize = 256 << 10;
/// Size of the read buffer, in bytes.
const CHUNK: usize = 16 << 10;
/// Time limit for the first bytes of a client, as in vanilla servers.
const SILENCE: Duration = Duration::from_secs(30);
/// Time limit for connecting to the server.
const CONNECT: Duration = Duration::from_secs(5);
/// After one side has closed, time limit for sending the rest to the other side.
const GRACE: Duration = Duration::from_secs(5);
/// After the last byte, time limit for the peer to close. Closing earlier could discard bytes it
/// has not read.
const LINGER: Duration = Duration::from_secs(1);

/// Configuration of a [`Proxy`].
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// Host name or IP address of the server.
    pub host: String,
    /// Port of the server.
    pub port: u16,
    /// Build for clients whose protocol number (32, 38) has two builds. `None` means the newer one.
    pub build: Option<Build>,
    /// Maximum number of connections. Further clients are kicked.
    pub max_connections: usize,
}

/// Something that happened on a connection.
#[derive(Debug)]
pub enum ProxyEvent<'a> {
    /// A client connected.
    Opened,
    /// A packet was forwarded.
    Packet(&'a ForwardedPacket),
    /// A secret was negotiated.
    Secret(SessionSecret<'a>),
    /// The connection ended.
    Closed(&'a SessionEnd),
}

/// Secret of one of the two encrypted connections.
pub struct SessionSecret<'a> {
    /// Which of the two connections.
    pub side: Side,
    /// Address that made the connection.
    pub client: SocketAddr,
    /// Address that accepted the connection.
    pub server: SocketAddr,
    /// Build, which determines the cipher.
    pub build: Build,
    /// Secret bytes.
    pub secret: &'a [u8],
}

impl fmt::Debug for SessionSecret<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Secret({:?} {} {} {})",
            self.side, self.client, self.server, self.build
        )
    }
}

/// One of the two connections of a proxied session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Between client and proxy.
    Client,
    /// Between proxy and server.
    Server,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Client => "client",
            Self::Server => "server",
        })
    }
}

/// Why a proxied session ended.
#[derive(Debug)]
pub enum SessionEnd {
    /// One side sent a disconnect packet.
    Goodbye,
    /// This side closed the connection. The number counts its bytes of an incomplete packet.
    Hangup(Side, usize),
    /// A packet could not be forwarded.
    BridgeError(BridgeError),
    /// The connection to the server failed.
    Unreachable(io::Error),
    /// The client sent nothing in time.
    Silence,
    /// There were too many clients.
    Full,
    /// The connection to this side failed.
    Io(Side, io::Error),
    /// The proxy was stopped.
    Stopped,
}

impl SessionEnd {
    /// Returns whether the session ended normally.
    pub fn is_sound(&self) -> bool {
        matches!(self, Self::Goodbye | Self::Hangup(_, 0) | Self::Stopped)
    }
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Goodbye => f.write_str("disconnected"),
            Self::Hangup(side, 0) => write!(f, "the {side} closed the connection"),
            Self::Hangup(side, count) => {
                write!(
                    f,
                    "the {side} closed the connection after {} of an incomplete packet",
                    counted(count, "byte")
                )
            }
            Self::BridgeError(fault) => fault.fmt(f),
            Self::Unreachable(error) => {
                write!(f, "cannot connect to the server: {}", unreachable(error))
            }
            Self::Silence => write!(f, "the client sent nothing for {} s", SILENCE.as_secs()),
            Self::Full => f.write_str("refused: too many connections"),
            Self::Io(side, error) => write!(f, "the connection to the {side} failed: {error}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

/// Receives the events of all connections in order. A slow observer delays the connections.
pub trait ProxyObserver: Send + Sync + 'static {
    /// Handles an event that happened `at` after the start of its connection. Connections are
    /// numbered from 1.
    fn event(&self, connection: u64, client: SocketAddr, at: Duration, event: ProxyEvent<'_>);
}

/// Proxy between clients and a server.
#[derive(Debug)]
pub struct Proxy {
    config: ProxyConfig,
    key: Arc<KeyPair>,
    places: Arc<Semaphore>,
    stopped: watch::Sender<bool>,
}

impl Proxy {
    /// Creates a proxy with a new RSA key.
    ///
    /// # Errors
    /// Creating the key failed.
    pub fn new(config: ProxyConfig) -> io::Result<Self> {
        let key =
            KeyPair::generate(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let places = Arc::new(Semaphore::new(config.max_connections));
        Ok(Self {
            config,
            key: Arc::new(key),
            places,
            stopped: watch::Sender::new(false),
        })
    }

    /// Accepts clients until `stop` completes, then disconnects both sides of every connection and
    /// waits for them.
    pub async fn serve(
        self: Arc<Self>,
        listener: &TcpListener,
        watch: Arc<impl ProxyObserver>,
        until: impl Future<Output = ()> + Send,
    ) {
        // Dropping the future closes all connections.
        let mut connections = tokio::task::JoinSet::new();
        let mut until = std::pin::pin!(until);
        for number in 1.. {
            let accepted = tokio::select! {
                accepted = accept(listener) => Some(accepted),
                () = &mut until => None,
            };
            let Some((client, from)) = accepted else {
                break;
            };
            while connections.try_join_next().is_some() {}
            let proxy = Arc::clone(&self);
            let watch = Arc::clone(&watch);
            let started = Instant::now();
            let notify =
                move |event: ProxyEvent<'_>| watch.event(number, from, started.elapsed(), event);
            match Arc::clone(&self.places).try_acquire_owned() {
                Ok(place) => {
                    connections.spawn(async move {
                        notify(ProxyEvent::Opened);
                        let end = proxy.run(client, from, &notify).await;
                        notify(ProxyEvent::Closed(&end));
                        drop(place);
                    });
                }
                Err(_) => {
                    send_away(&client);
                    notify(ProxyEvent::Closed(&SessionEnd::Full));
                }
            }
        }
        self.stopped.send_replace(true);
        while connections.join_next().await.is_some() {}
    }

    async fn run(
        &self,
        client: TcpStream,
        from: SocketAddr,
        notify: &impl Fn(ProxyEvent<'_>),
    ) -> SessionEnd {
        let mut bridge = Bridge::new(Arc::clone(&self.key), self.config.build);
        let mut near = Link::new(client, Side::Client);
        let mut far = None;
        let mut stopped = self.stopped.subscribe();
        let end = tokio::select! {
            end = self.pass(&mut bridge, &mut near, &mut far, from, notify) => end,
            _ = stopped.wait_for(|stopped| *stopped) => SessionEnd::Stopped,
        };
        if !matches!(end, SessionEnd::Goodbye | SessionEnd::Hangup(..)) {
            bridge.kick(&format!("hailer proxy: {end}"));
        }
        let near = near.finish(&bridge);
        let far = async {
            if let Some(far) = far {
                far.finish(&bridge).await;
            }
        };
        let _ = timeout(GRACE, async { tokio::join!(near, far) }).await;
        end
    }

    /// Forwards packets until the session ends.
    async fn pass(
        &self,
        bridge: &mut Bridge,
        near: &mut Link,
        far: &mut Option<Link>,
        from: SocketAddr,
        notify: &impl Fn(ProxyEvent<'_>),
    ) -> SessionEnd {
        let mut till = Instant::now() + SILENCE;
        loop {
            loop {
                match bridge.next(&mut random) {
                    Ok(Some(passed)) => notify(ProxyEvent::Packet(&passed)),
                    Ok(None) => break,
                    Err(fault) => return SessionEnd::BridgeError(fault),
                }
                if let (Some(secrets), Some(far)) = (bridge.take_secrets(), far.as_ref()) {
                    let build = bridge.build();
                    let secret = |side, ends: io::Result<(SocketAddr, SocketAddr)>, secret| {
                        if let Ok((client, server)) = ends {
                            notify(ProxyEvent::Secret(SessionSecret {
                                side,
                                client,
                                server,
                                build,
                                secret,
                            }));
                        }
                    };
                    secret(
                        Side::Client,
                        near.socket.local_addr().map(|local| (from, local)),
                        &secrets.near,
                    );
                    let ends = far
                        .socket
                        .local_addr()
                        .and_then(|local| Ok((local, far.socket.peer_addr()?)));
                    secret(Side::Server, ends, &secrets.far);
                }
            }
            if bridge.is_over() {
                return SessionEnd::Goodbye;
            }
            if bridge.is_announced() && far.is_none() {
                match self.connect().await {
                    Ok(socket) => *far = Some(Link::new(socket, Side::Server)),
                    Err(error) => return SessionEnd::Unreachable(error),
                }
                till = Instant::now() + Duration::from_secs(366 * 86_400);
            }
            let hangup = near.turn(far.as_mut(), bridge, till).await;
            match hangup {
                Ok(SideEvent::Moved) => {}
                Ok(SideEvent::Ended(side)) => {
                    let direction = if side == Side::Client {
                        PacketDirection::ToServer
                    } else {
                        PacketDirection::ToClient
                    };
                    // A client that requests the status may close its sending half and still read.
                    if side == Side::Server || bridge.state() != ConnectionState::Pinged {
                        return SessionEnd::Hangup(side, bridge.unread(direction).len());
                    }
                    till = till.min(Instant::now() + GRACE);
                }
                Ok(SideEvent::Late) if !bridge.is_announced() => return SessionEnd::Silence,
                Ok(SideEvent::Late) => return SessionEnd::Hangup(Side::Client, 0),
                Err((side, error)) => return SessionEnd::Io(side, error),
            }
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let ProxyConfig { host, port, .. } = &self.config;
        match timeout(CONNECT, TcpStream::connect((host.as_str(), *port))).await {
            Ok(socket) => socket,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => wait_after(&error).await,
        }
    }
}

/// Socket of one side.
struct Link {
    socket: TcpStream,
    side: Side,
    /// Direction of its packets.
    from: PacketDirection,
    /// Direction of packets for it.
    to: PacketDirection,
    /// Whether the peer has closed its sending half.
    is_ended: bool,
}

/// Result of waiting for both sides.
enum SideEvent {
    Moved,
    Ended(Side),
    Late,
}

impl Link {
    fn new(socket: TcpStream, side: Side) -> Self {
        // Packets are small and urgent.
        let _ = socket.set_nodelay(true);
        let (from, to) = match side {
            Side::Client => (PacketDirection::ToServer, PacketDirection::ToClient),
            Side::Server => (PacketDirection::ToClient, PacketDirection::ToServer),
        };
        Self {
            socket,
            side,
            from,
            to,
            is_ended: false,
        }
    }

    /// Waits until either side can be read or written, and does it.
    async fn turn(
        &mut self,
        far: Option<&mut Self>,
        bridge: &mut Bridge,
        till: Instant,
    ) -> Result<SideEvent, (Side, io::Error)> {
        let Some(far) = far else {
            return tokio::select! {
                ready = self.ready(bridge) => self.moved(bridge, ready),
                () = sleep_until(till) => Ok(SideEvent::Late),
            };
        };
        tokio::select! {
            ready = self.ready(bridge) => self.moved(bridge, ready),
            ready = far.ready(bridge) => far.moved(bridge, ready),
            () = sleep_until(till) => Ok(SideEvent::Late),
        }
    }

    /// Waits until the socket is ready: `Ok(true)` to read, `Ok(false)` to write.
    async fn ready(&self, bridge: &Bridge) -> io::Result<bool> {
        let may_read = !self.is_ended && bridge.outgoing(self.from).len() < MAX_WAITING;
        let may_write = !bridge.outgoing(self.to).is_empty();
        tokio::select! {
            ready = self.socket.readable(), if may_read => ready.map(|()| true),
            ready = self.socket.writable(), if may_write => ready.map(|()| false),
            else => std::future::pending().await,
        }
    }

    fn moved(
        &mut self,
        bridge: &mut Bridge,
        ready: io::Result<bool>,
    ) -> Result<SideEvent, (Side, io::Error)> {
        let moved = ready.and_then(|to_read| {
            if to_read {
                let mut chunk = [0; CHUNK];
                let count = self.socket.try_read(&mut chunk)?;
                bridge.receive(self.from, chunk.get(..count).unwrap_or_default());
                self.is_ended = count == 0;
                Ok(if count == 0 {
                    SideEvent::Ended(self.side)
                } else {
                    SideEvent::Moved
                })
            } else {
                let count = self.socket.try_write(bridge.outgoing(self.to))?;
                bridge.sent_bytes(self.to, count);
                Ok(SideEvent::Moved)
            }
        });
        match moved {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(SideEvent::Moved),
            // The game's client closes without a disconnect packet.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                self.is_ended = true;
                Ok(SideEvent::Ended(self.side))
            }
            moved => moved.map_err(|error| (self.side, error)),
        }
    }

    /// Sends the rest, closes the sending half, and waits up to 1 s for the peer to close.
    async fn finish(mut self, bridge: &Bridge) {
        if self
            .socket
            .write_all(bridge.outgoing(self.to))
            .await
            .is_err()
            || self.socket.shutdown().await.is_err()
        {
            return;
        }
        let listen = async {
            let mut chunk = [0; 1024];
            while let Ok(1..) = self.socket.read(&mut chunk).await {}
        };
        let _ = timeout(LINGER, listen).await;
    }
}

/// Kicks a client that exceeds the limit, if its socket accepts the packet without waiting.
fn send_away(client: &TcpStream) {
    let mut connection = Connection::new(Role::Server, Build::LATEST);
    if connection
        .send(
            &Kick {
                reason: "hailer proxy: too many connections".into(),
            }
            .into(),
        )
        .is_ok()
    {
        let _ = client.try_write(connection.outgoing());
    }
    debug_assert_eq!(connection.state(), ConnectionState::Closed);
}

/// Fills a slice with random bytes of cryptographic quality.
fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system has a random source");
}
