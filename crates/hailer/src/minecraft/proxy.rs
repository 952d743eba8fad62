//! Stands between clients and a server, and shows what passes: sockets around a [`Bridge`] for each client.
//!
//! Every buffer has a bound. What one side does not take is not read from the other; a client that is slow, silent or
//! wrong holds up nobody but itself.

use super::bridge::{Bridge, BridgeError, ForwardedPacket};
use super::unreachable;
use hailer_minecraft::crypto::KeyPair;
use hailer_minecraft::table::Kick;
use hailer_minecraft::{Build, Connection, ConnectionState, PacketDirection, Role};
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

/// With so many bytes waiting for one side, the other is not read.
const MAX_WAITING: usize = 256 << 10;
/// Read at once.
const CHUNK: usize = 16 << 10;
/// A client says something within this time, as the game's own server wants it.
const SILENCE: Duration = Duration::from_secs(30);
/// The server takes the connection within this time.
const CONNECT: Duration = Duration::from_secs(5);
/// Once one side has ended, the other gets so long to take what it is owed and to end as well.
const GRACE: Duration = Duration::from_secs(5);
/// After the last byte sent, so long is listened for the peer's end: closing at once could take back what it has not read.
const LINGER: Duration = Duration::from_secs(1);

/// What to do.
#[derive(Clone, Debug)]
pub struct ProxyConfig {
    /// Name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The build, where the number that a client says (32, 38) has two. `None`: the newer one.
    pub build: Option<Build>,
    /// Connections at a time; whoever comes then is sent away.
    pub max_connections: usize,
}

/// What happens on a connection.
#[derive(Debug)]
pub enum ProxyEvent<'a> {
    /// A client is there.
    Opened,
    /// A packet passed.
    Packet(&'a ForwardedPacket),
    /// A secret was agreed on.
    Secret(SessionSecret<'a>),
    /// It is over.
    Closed(&'a SessionEnd),
}

/// A secret with which one of the two connections is encrypted.
pub struct SessionSecret<'a> {
    /// Which one.
    pub side: Side,
    /// The end that connected.
    pub client: SocketAddr,
    /// The end that was connected to.
    pub server: SocketAddr,
    /// The build, which says the cipher.
    pub build: Build,
    /// The secret.
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

/// Which of the two connections.
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

/// How a connection ended.
#[derive(Debug)]
pub enum SessionEnd {
    /// One side said goodbye in the words of the game.
    Goodbye,
    /// This side closed the connection, after so many bytes that make no whole packet.
    Hangup(Side, usize),
    /// Something that cannot pass.
    BridgeError(BridgeError),
    /// The server cannot be reached.
    Unreachable(io::Error),
    /// The client said nothing.
    Silence,
    /// Too many clients at a time.
    Full,
    /// This side's connection broke.
    Io(Side, io::Error),
    /// The proxy was stopped.
    Stopped,
}

impl SessionEnd {
    /// Whether it is as it should be.
    pub fn is_sound(&self) -> bool {
        matches!(self, Self::Goodbye | Self::Hangup(_, 0) | Self::Stopped)
    }
}

impl fmt::Display for SessionEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Goodbye => f.write_str("goodbye was said"),
            Self::Hangup(side, 0) => write!(f, "the {side} closed the connection"),
            Self::Hangup(side, count) => {
                write!(
                    f,
                    "the {side} closed the connection in the middle of a packet, {count} bytes of it were there"
                )
            }
            Self::BridgeError(fault) => fault.fmt(f),
            Self::Unreachable(error) => {
                write!(f, "the server cannot be reached: {}", unreachable(error))
            }
            Self::Silence => write!(f, "the client said nothing for {} s", SILENCE.as_secs()),
            Self::Full => f.write_str("sent away, too many connections"),
            Self::Io(side, error) => write!(f, "the connection to the {side} broke: {error}"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

/// Who wants to know what happens. Called in the order of events, from all connections; while it works, they wait.
pub trait ProxyObserver: Send + Sync + 'static {
    /// Something happened, so long after the connection began. Connections are numbered from 1.
    fn event(&self, connection: u64, client: SocketAddr, at: Duration, event: ProxyEvent<'_>);
}

/// A proxy.
#[derive(Debug)]
pub struct Proxy {
    settings: ProxyConfig,
    key: Arc<KeyPair>,
    places: Arc<Semaphore>,
    stopped: watch::Sender<bool>,
}

impl Proxy {
    /// A proxy with a key of its own.
    pub fn new(settings: ProxyConfig) -> io::Result<Self> {
        let key =
            KeyPair::generate(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
        let places = Arc::new(Semaphore::new(settings.max_connections));
        Ok(Self {
            settings,
            key: Arc::new(key),
            places,
            stopped: watch::Sender::new(false),
        })
    }

    /// Takes clients until told to stop; then both sides of each connection are told so, and it is waited for them within
    /// reason.
    pub async fn serve(
        self: Arc<Self>,
        listener: &TcpListener,
        watch: Arc<impl ProxyObserver>,
        until: impl Future<Output = ()> + Send,
    ) {
        // Dropped with the future, and its connections with it.
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
            let (proxy, watch) = (Arc::clone(&self), Arc::clone(&watch));
            let started = Instant::now();
            let tell =
                move |event: ProxyEvent<'_>| watch.event(number, from, started.elapsed(), event);
            match Arc::clone(&self.places).try_acquire_owned() {
                Ok(place) => {
                    connections.spawn(async move {
                        tell(ProxyEvent::Opened);
                        let end = proxy.run(client, from, &tell).await;
                        tell(ProxyEvent::Closed(&end));
                        drop(place);
                    });
                }
                Err(_) => {
                    send_away(&client);
                    tell(ProxyEvent::Closed(&SessionEnd::Full));
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
        tell: &impl Fn(ProxyEvent<'_>),
    ) -> SessionEnd {
        let mut bridge = Bridge::new(Arc::clone(&self.key), self.settings.build);
        let mut near = Link::new(client, Side::Client);
        let mut far = None;
        let mut stopped = self.stopped.subscribe();
        let end = tokio::select! {
            end = self.pass(&mut bridge, &mut near, &mut far, from, tell) => end,
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

    /// Passes on what can be passed, until it is over.
    async fn pass(
        &self,
        bridge: &mut Bridge,
        near: &mut Link,
        far: &mut Option<Link>,
        from: SocketAddr,
        tell: &impl Fn(ProxyEvent<'_>),
    ) -> SessionEnd {
        let mut till = Instant::now() + SILENCE;
        loop {
            loop {
                match bridge.next(&mut random) {
                    Ok(Some(passed)) => tell(ProxyEvent::Packet(&passed)),
                    Ok(None) => break,
                    Err(fault) => return SessionEnd::BridgeError(fault),
                }
                if let (Some(secrets), Some(far)) = (bridge.take_secrets(), far.as_ref()) {
                    let build = bridge.build();
                    let secret = |side, ends: io::Result<(SocketAddr, SocketAddr)>, secret| {
                        if let Ok((client, server)) = ends {
                            tell(ProxyEvent::Secret(SessionSecret {
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
                Ok(Turn::Moved) => {}
                Ok(Turn::Ended(side)) => {
                    let way = if side == Side::Client {
                        PacketDirection::ToServer
                    } else {
                        PacketDirection::ToClient
                    };
                    // Somebody who asks for the status may stop talking, and still listens.
                    if side == Side::Server || bridge.state() != ConnectionState::Pinged {
                        return SessionEnd::Hangup(side, bridge.unread(way).len());
                    }
                    till = till.min(Instant::now() + GRACE);
                }
                Ok(Turn::Late) if !bridge.is_announced() => return SessionEnd::Silence,
                Ok(Turn::Late) => return SessionEnd::Hangup(Side::Client, 0),
                Err((side, error)) => return SessionEnd::Io(side, error),
            }
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let ProxyConfig { host, port, .. } = &self.settings;
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
            // Out of files, or a client that is gone again: neither is over for good.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

/// One side's socket.
struct Link {
    socket: TcpStream,
    side: Side,
    /// Direction of what comes from it.
    from: PacketDirection,
    /// Direction of what goes to it.
    to: PacketDirection,
    /// Nothing more will come.
    is_ended: bool,
}

/// What came of waiting.
enum Turn {
    Moved,
    Ended(Side),
    Late,
}

impl Link {
    fn new(socket: TcpStream, side: Side) -> Self {
        // The game is made of small packets that are worth most when they are new.
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

    /// Waits until something can be read or written on either side, and does it.
    async fn turn(
        &mut self,
        far: Option<&mut Self>,
        bridge: &mut Bridge,
        till: Instant,
    ) -> Result<Turn, (Side, io::Error)> {
        let Some(far) = far else {
            return tokio::select! {
                ready = self.ready(bridge) => self.moved(bridge, ready),
                () = sleep_until(till) => Ok(Turn::Late),
            };
        };
        tokio::select! {
            ready = self.ready(bridge) => self.moved(bridge, ready),
            ready = far.ready(bridge) => far.moved(bridge, ready),
            () = sleep_until(till) => Ok(Turn::Late),
        }
    }

    /// Waits until there is something to do: `Ok(true)` to read, `Ok(false)` to write.
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
    ) -> Result<Turn, (Side, io::Error)> {
        let moved = ready.and_then(|to_read| match to_read {
            true => {
                let mut chunk = [0; CHUNK];
                let count = self.socket.try_read(&mut chunk)?;
                bridge.receive(self.from, chunk.get(..count).unwrap_or_default());
                self.is_ended = count == 0;
                Ok(if count == 0 {
                    Turn::Ended(self.side)
                } else {
                    Turn::Moved
                })
            }
            false => {
                let count = self.socket.try_write(bridge.outgoing(self.to))?;
                bridge.sent_bytes(self.to, count);
                Ok(Turn::Moved)
            }
        });
        match moved {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Turn::Moved),
            // Gone without a word, as the game's own client goes.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                self.is_ended = true;
                Ok(Turn::Ended(self.side))
            }
            moved => moved.map_err(|error| (self.side, error)),
        }
    }

    /// Sends what is left, ends our half, and waits a little for the other.
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

/// Tells a client why it cannot stay, if its socket takes that at once.
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

/// Fills with bytes fit for keys.
fn random(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the operating system has a random source");
}
