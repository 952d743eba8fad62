//! Joins a server: the client of [`hailer_minecraft`] on a socket.
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
//!
//! In: a target, commands of the caller. Out: events of the game, a recording.
//!
//! May import: `crate::error`, `crate::minecraft`, `crate::names`, `crate::target`,
//! `hailer_minecraft`.

use super::{Recorder, unreachable};
use crate::error::Error;
use crate::names::{NameResolver, Resolved};
use crate::target::Target;
use hailer_minecraft::client::{Client, ClientError, ClientEvent, GameClientConfig, TICK};
use hailer_minecraft::{Build, PORT};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, Interval, MissedTickBehavior};

/// Service name of the game's SRV records.
const SERVICE: &str = "_minecraft._tcp";
/// Size of the read buffer, in bytes.
const READ_BYTES: usize = 64 << 10;
/// Reading stops while this many bytes wait to be sent.
const MAX_UNSENT_BYTES: usize = 1 << 20;
/// Time limit for sending the disconnect packet.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(1);

/// Settings for [`join`].
#[derive(Clone, Debug)]
pub struct Join {
    /// Configuration of the client. Host and port are taken from the target.
    pub client: GameClientConfig,
    /// Time limit for connecting to each address, and again for the login.
    pub timeout: Duration,
    /// Name server to use instead of the system's.
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

/// Error that prevented or ended a session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The host name does not resolve.
    #[error(transparent)]
    Name(#[from] Error),
    /// The TCP connection failed.
    #[error("{address}: cannot connect: {}{}", unreachable(cause), note(srv.as_deref()))]
    Connect {
        /// Address of the server.
        address: SocketAddr,
        /// The SRV record that led to the address, as a clause.
        srv: Option<String>,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// Connecting or the login took too long.
    #[error("{address}: {}{}", late(*.is_connected, *.after), note(srv.as_deref()))]
    TimedOut {
        /// Address of the server.
        address: SocketAddr,
        /// The SRV record that led to the address, as a clause.
        srv: Option<String>,
        /// Whether the TCP connection was made.
        is_connected: bool,
        /// Time limit that passed.
        after: Duration,
    },
    /// The server closed the connection without a reason.
    #[error("{address}: {}", closed(*.has_joined))]
    Closed {
        /// Address of the server.
        address: SocketAddr,
        /// Whether the login was accepted before.
        has_joined: bool,
    },
    /// The server or the protocol ended the session.
    #[error("{address}: {error}")]
    Game {
        /// Address of the server.
        address: SocketAddr,
        /// Error of the client.
        error: Box<ClientError>,
    },
    /// The recording cannot be written.
    #[error("the recording cannot be written: {0}")]
    Recording(#[source] io::Error),
}

/// Returns a clause for the end of a message.
fn note(srv: Option<&str>) -> String {
    srv.map_or(String::new(), |srv| format!("; {srv}"))
}

fn late(is_connected: bool, after: Duration) -> String {
    let after = after.as_secs_f64();
    if is_connected {
        format!(
            "connected, but the login was not accepted within {after:.1} s: another service, or the server hangs"
        )
    } else {
        format!("no connection in {after:.1} s: filtered, on another port, or the server is down")
    }
}

fn closed(has_joined: bool) -> &'static str {
    if has_joined {
        "the server closed the connection without a reason"
    } else {
        "the server closed the connection without a reason: it may require another version, or refuse connections \
             within a few seconds of the last one"
    }
}

impl JoinError {
    /// Returns the builds to try next, the most likely first.
    pub fn try_builds(&self) -> &[Build] {
        match self {
            Self::Game { error, .. } => error.try_builds(),
            _ => &[],
        }
    }

    /// Returns a stable identifier for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Name(error) => error.kind().as_str(),
            Self::Connect { .. } => "connect",
            Self::TimedOut { .. } => "timeout",
            Self::Closed { .. } => "closed",
            Self::Game { error, .. } => error.kind(),
            Self::Recording(_) => "recording",
        }
    }
}

/// Connects and sends the handshake. [`JoinSession::next`] reports the result of the login.
///
/// # Errors
/// The name does not resolve, or no address accepts a connection in time.
pub async fn join(target: &Target, join: Join) -> Result<JoinSession, JoinError> {
    let Join {
        client: mut config,
        timeout,
        name_server,
    } = join;
    let names = NameResolver::new(name_server);
    let found = names
        .resolve(&target.host, target.port, PORT, Some(SERVICE))
        .await?;
    let (stream, address) = connect(found, timeout).await?;
    config.host = target.host.to_string();
    config.port = address.port();
    let local = stream.local_addr().map_err(|cause| JoinError::Connect {
        address,
        srv: None,
        cause,
    })?;
    let mut ticker = tokio::time::interval(TICK);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The random source works on every system with sockets. Without it, secrets would not be
    // secret.
    let random = |bytes: &mut [u8]| getrandom::fill(bytes).expect("the system has random bytes");
    Ok(JoinSession {
        client: Client::new(config, random),
        stream,
        address,
        local,
        ticker,
        started: Instant::now(),
        timeout,
        joined: None,
        recorder: None,
        buffer: vec![0; READ_BYTES],
    })
}

/// Connects to the first address that accepts, one after the other.
async fn connect(found: Resolved, timeout: Duration) -> Result<(TcpStream, SocketAddr), JoinError> {
    let mut last = None;
    let srv = found.srv;
    for address in found.addresses {
        let end = match tokio::time::timeout(timeout, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                // Packets are small and urgent.
                let _ = stream.set_nodelay(true);
                return Ok((stream, address));
            }
            Ok(Err(cause)) => JoinError::Connect {
                address,
                srv: srv.clone(),
                cause,
            },
            Err(_) => JoinError::TimedOut {
                address,
                srv: srv.clone(),
                is_connected: false,
                after: timeout,
            },
        };
        last.get_or_insert(end);
    }
    Err(last.expect("a name has at least one address"))
}

/// Connection to a server.
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
    /// Returns the address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the local address.
    pub fn local_address(&self) -> SocketAddr {
        self.local
    }

    /// Returns the time since the connection was made.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns when the login was accepted, since the connection was made. `None` before.
    pub fn joined(&self) -> Option<Duration> {
        self.joined
    }

    /// Returns the client, which has the state of the game.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the client for actions. [`next`](Self::next) sends their packets.
    pub fn client_mut(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Records every packet from now on. The client must [keep](GameClientConfig::has_packet_log)
    /// them.
    pub fn record(&mut self, recorder: Recorder<Box<dyn Write + Send>>) {
        self.recorder = Some(recorder);
    }

    /// Plays until the next event. The future may be dropped at any time without loss. Nothing
    /// happens between calls.
    ///
    /// # Errors
    /// The session has ended, or the recording cannot be written.
    pub async fn next(&mut self) -> Result<ClientEvent, JoinError> {
        loop {
            let next = self.client.next();
            self.record_packets()?;
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
                    srv: None,
                    address: self.address,
                    is_connected: true,
                    after: self.timeout,
                });
            }
            self.wait().await?;
        }
    }

    /// Waits until bytes were received or sent, or a tick has passed.
    async fn wait(&mut self) -> Result<(), JoinError> {
        let waiting = self.client.outgoing().len();
        tokio::select! {
            _ = self.ticker.tick() => self.client.tick(self.started.elapsed()),
            _ = self.stream.writable(), if waiting > 0 => self.write(),
            _ = self.stream.readable(), if waiting < MAX_UNSENT_BYTES => match self.stream.try_read(&mut self.buffer) {
                Ok(count @ 1..) => self.client.receive(&self.buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The error code of a connection that just ends adds nothing.
                _ => return Err(JoinError::Closed { address: self.address, has_joined: self.joined.is_some() }),
            },
        }
        Ok(())
    }

    fn write(&mut self) {
        match self.stream.try_write(self.client.outgoing()) {
            Ok(count) => self.client.sent(count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // The server has closed. Unread bytes may still contain the reason.
            Err(_) => self.client.sent(usize::MAX),
        }
    }

    fn record_packets(&mut self) -> Result<(), JoinError> {
        if let Some(recorder) = &mut self.recorder {
            let at = self.started.elapsed();
            for (direction, bytes) in self.client.take_packets() {
                recorder
                    .packet(at, direction, &bytes)
                    .map_err(JoinError::Recording)?;
            }
        }
        Ok(())
    }

    /// Sends a disconnect packet and closes the connection, within 1 s. Also ends the recording, so
    /// call it after errors.
    ///
    /// # Errors
    /// The recording cannot be written.
    pub async fn leave(&mut self) -> Result<(), JoinError> {
        self.client.leave();
        let farewell = async {
            while !self.client.outgoing().is_empty() && self.stream.writable().await.is_ok() {
                self.write();
            }
            let _ = tokio::io::AsyncWriteExt::shutdown(&mut self.stream).await;
            // Closing with unread bytes would reset the connection and discard the disconnect
            // packet.
            while self.stream.readable().await.is_ok() {
                match self.stream.try_read(&mut self.buffer) {
                    Ok(1..) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    _ => break,
                }
            }
        };
        let _ = tokio::time::timeout(GOODBYE_TIMEOUT, farewell).await;
        self.record_packets()?;
        self.recorder
            .as_mut()
            .map_or(Ok(()), Recorder::flush)
            .map_err(JoinError::Recording)
    }
}
