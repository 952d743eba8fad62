//! Joining a server: the client of [`hailer_minecraft`] on a socket.
//!
//! ```no_run
//! # async fn example() -> Result<(), hailer::minecraft::JoinError> {
//! use hailer::minecraft::{Join, join};
//! let target = "play.example.com".parse().map_err(hailer::Error::Target)?;
//! let mut session = join(&target, Join::default()).await?;
//! loop {
//!     println!("{:?}", session.next().await?);
//! }
//! # }
//! ```

use super::{Recorder, unreachable};
use crate::error::Error;
use crate::names::NameResolver;
use crate::target::Target;
use hailer_minecraft::client::{Client, ClientError, ClientEvent, GameClientConfig, TICK};
use hailer_minecraft::{Build, PORT};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, Interval, MissedTickBehavior};

/// Where SRV records of the game stand.
const SERVICE: &str = "_minecraft._tcp";
/// Bytes read at once.
const READ: usize = 64 << 10;
/// While the server takes no more than this off us, we take nothing off it.
const MAX_WAITING: usize = 1 << 20;
/// Our goodbye is worth waiting this long for.
const GOODBYE: Duration = Duration::from_secs(1);

/// How to join.
#[derive(Clone, Debug)]
pub struct Join {
    /// Who joins, and in which build. Host and port are taken from the target.
    pub client: GameClientConfig,
    /// So long connecting may take for each address, and then the login.
    pub timeout: Duration,
    /// Ask this name server instead of the system's.
    pub name_server: Option<SocketAddr>,
}

impl Default for Join {
    fn default() -> Self {
        Self {
            client: GameClientConfig::default(),
            timeout: Duration::from_secs(10),
            name_server: None,
        }
    }
}

/// Why a server cannot be joined, or was left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The name leads nowhere.
    #[error(transparent)]
    Name(#[from] Error),
    /// Nobody listens there, or there is no way there.
    #[error("{address}: cannot connect: {}", unreachable(cause))]
    Connect {
        /// Who was asked.
        address: SocketAddr,
        /// What the operating system says.
        cause: io::Error,
    },
    /// There is no connection in time, or the server does not let us in.
    #[error("{address}: {}", late(*.connected, *.after))]
    TimedOut {
        /// Who was asked.
        address: SocketAddr,
        /// Whether there was a connection.
        connected: bool,
        /// How long.
        after: Duration,
    },
    /// The connection ended without a word.
    #[error("{address}: {}", closed(*.joined))]
    Closed {
        /// Who was asked.
        address: SocketAddr,
        /// Whether it had let us in.
        joined: bool,
    },
    /// The server said or did something that ends the game.
    #[error("{address}: {error}")]
    Game {
        /// Who was asked.
        address: SocketAddr,
        /// What.
        error: Box<ClientError>,
    },
    /// The recording cannot be written.
    #[error("the recording cannot be written: {0}")]
    Recording(#[source] io::Error),
}

fn late(connected: bool, after: Duration) -> String {
    let after = after.as_secs_f64();
    match connected {
        true => format!(
            "connected, but not let in within {after:.1} s: another service, or the server hangs"
        ),
        false => format!(
            "no connection in {after:.1} s: filtered, on another port, or the server is down"
        ),
    }
}

fn closed(joined: bool) -> &'static str {
    match joined {
        true => "the server closed the connection without a word",
        false => {
            "the server closed the connection without a word: it may speak another version, or mind that one joins \
             again within a few seconds"
        }
    }
}

impl JoinError {
    /// Builds with which it may go better.
    pub fn try_builds(&self) -> &[Build] {
        match self {
            Self::Game { error, .. } => error.try_builds(),
            _ => &[],
        }
    }

    /// A stable word for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Name(error) => error.kind(),
            Self::Connect { .. } => "connect",
            Self::TimedOut { .. } => "timeout",
            Self::Closed { .. } => "closed",
            Self::Game { error, .. } => error.kind(),
            Self::Recording(_) => "recording",
        }
    }
}

/// Connects, and says who we are. What the server makes of it, [`JoinSession::next`] tells.
pub async fn join(target: &Target, join: Join) -> Result<JoinSession, JoinError> {
    let Join {
        client: mut settings,
        timeout,
        name_server,
    } = join;
    let names = NameResolver::new(name_server);
    let addresses = names.addresses(target, PORT, Some(SERVICE)).await?;
    let (stream, address) = connect(&addresses, timeout).await?;
    settings.host = target.host.to_string();
    settings.port = address.port();
    let local = stream
        .local_addr()
        .map_err(|cause| JoinError::Connect { address, cause })?;
    let mut ticker = tokio::time::interval(TICK);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The system's source of randomness fails on no system that has sockets; without it nothing is kept secret.
    let random = |bytes: &mut [u8]| getrandom::fill(bytes).expect("the system has random bytes");
    Ok(JoinSession {
        client: Client::new(settings, random),
        stream,
        address,
        local,
        ticker,
        started: Instant::now(),
        timeout,
        joined: None,
        recorder: None,
        buffer: vec![0; READ],
    })
}

/// To the first address that lets us, one after the other.
async fn connect(
    addresses: &[SocketAddr],
    timeout: Duration,
) -> Result<(TcpStream, SocketAddr), JoinError> {
    let mut last = None;
    for &address in addresses {
        let end = match tokio::time::timeout(timeout, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Each packet counts, and most are small.
                let _ = stream.set_nodelay(true);
                return Ok((stream, address));
            }
            Ok(Err(cause)) => JoinError::Connect { address, cause },
            Err(_) => JoinError::TimedOut {
                address,
                connected: false,
                after: timeout,
            },
        };
        last.get_or_insert(end);
    }
    Err(last.expect("a name has at least one address"))
}

/// A connection to a server, from the first byte to the last.
pub struct JoinSession {
    client: Client,
    stream: TcpStream,
    address: SocketAddr,
    local: SocketAddr,
    ticker: Interval,
    started: Instant,
    timeout: Duration,
    joined: Option<Duration>,
    recorder: Option<Recorder<Box<dyn Write + Send>>>,
    buffer: Vec<u8>,
}

impl std::fmt::Debug for JoinSession {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JoinSession({}, {:?})", self.address, self.client)
    }
}

impl JoinSession {
    /// The server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Our own end.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Time since we were connected.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// When the server let us in, since we were connected.
    pub fn joined(&self) -> Option<Duration> {
        self.joined
    }

    /// What is known of the game.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The same, to have it do something. What it is to send is sent by [`next`](Self::next).
    pub fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Records every packet from here on; the client must [keep](GameClientConfig::keep_packets) them.
    pub fn record(&mut self, recorder: Recorder<Box<dyn Write + Send>>) {
        self.recorder = Some(recorder);
    }

    /// Plays until something happens that is worth telling. May be dropped at any time and called again: nothing is
    /// lost. The game stands still while nobody calls it.
    pub async fn next(&mut self) -> Result<ClientEvent, JoinError> {
        loop {
            let next = self.client.next();
            self.write_down()?;
            match next {
                Ok(Some(event)) => {
                    if matches!(event, ClientEvent::Joined { .. }) {
                        self.joined.get_or_insert(self.started.elapsed());
                    }
                    return Ok(event);
                }
                Ok(None) => {}
                Err(error) => {
                    return Err(JoinError::Game {
                        address: self.address,
                        error: error.into(),
                    });
                }
            }
            if self.joined.is_none() && self.started.elapsed() >= self.timeout {
                return Err(JoinError::TimedOut {
                    address: self.address,
                    connected: true,
                    after: self.timeout,
                });
            }
            self.wait().await?;
        }
    }

    /// Until bytes have come or gone, or a tick has passed.
    async fn wait(&mut self) -> Result<(), JoinError> {
        let waiting = self.client.outgoing().len();
        tokio::select! {
            _ = self.ticker.tick() => self.client.tick(self.started.elapsed()),
            _ = self.stream.writable(), if waiting > 0 => self.write(),
            _ = self.stream.readable(), if waiting < MAX_WAITING => match self.stream.try_read(&mut self.buffer) {
                Ok(count @ 1..) => self.client.receive(&self.buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // How a connection ends without a word says nothing more.
                _ => return Err(JoinError::Closed { address: self.address, joined: self.joined.is_some() }),
            },
        }
        Ok(())
    }

    fn write(&mut self) {
        match self.stream.try_write(self.client.outgoing()) {
            Ok(count) => self.client.sent(count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // Nobody listens any more. What was said before that is still to be read, and may say why.
            Err(_) => self.client.sent(usize::MAX),
        }
    }

    fn write_down(&mut self) -> Result<(), JoinError> {
        if let Some(recorder) = &mut self.recorder {
            let at = self.started.elapsed();
            for (way, bytes) in self.client.take_packets() {
                recorder
                    .packet(at, way, &bytes)
                    .map_err(JoinError::Recording)?;
            }
        }
        Ok(())
    }

    /// Says goodbye and hangs up. Also ends the recording, so call it after an error too.
    pub async fn leave(&mut self) -> Result<(), JoinError> {
        self.client.leave();
        let goodbye = async {
            while !self.client.outgoing().is_empty() && self.stream.writable().await.is_ok() {
                self.write();
            }
            let _ = tokio::io::AsyncWriteExt::shutdown(&mut self.stream).await;
            // Whoever hangs up with bytes unread takes back what it said last.
            while self.stream.readable().await.is_ok() {
                match self.stream.try_read(&mut self.buffer) {
                    Ok(1..) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    _ => break,
                }
            }
        };
        let _ = tokio::time::timeout(GOODBYE, goodbye).await;
        self.write_down()?;
        self.recorder
            .as_mut()
            .map_or(Ok(()), Recorder::flush)
            .map_err(JoinError::Recording)
    }
}
