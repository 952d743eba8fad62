//! The game server on sockets. [`hailer_minecraft::server`] has the protocol and the world, this
//! file the I/O.
//!
//! There is one task per connection, one per listener and one for ticks. They share the server
//! behind a lock that is never held while waiting, so a slow socket delays only itself. Unsent
//! bytes stay in the server, which drops clients above its limit.
//!
//! In: connections of clients. Out: packets to clients, events.
//!
//! May import: `crate::support`, `hailer_minecraft`.

use crate::support::accept::wait_after;
use hailer_minecraft::crypto::KeyError;
use hailer_minecraft::server::{ClientId, GameServerConfig, Server, ServerEvent, TICK};
use std::collections::HashMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

/// Size of a connection's read buffer. Clients send little.
const READ_BYTES: usize = 2 << 10;
/// Maximum number of bytes per write.
const MAX_WRITE_BYTES: usize = 16 << 10;
/// Time limit for a kicked client to read the reason.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of unread events. More are dropped.
const MAX_EVENTS: usize = 256;

/// Error that prevented the start of a game server.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GameServerError {
    /// Listening on an address failed.
    #[error("cannot listen on {address}")]
    Listen {
        /// Address that was requested.
        address: SocketAddr,
        /// Error of the operating system.
        #[source]
        error: io::Error,
    },
    /// Creating the RSA key failed.
    #[error("cannot create the RSA key: {0}")]
    Key(#[from] KeyError),
}

/// Game server that listens on sockets.
///
/// ```no_run
/// use hailer::minecraft::game::server::GameServerConfig;
/// use hailer::minecraft::GameServer;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let config = GameServerConfig { motd: "Come in".into(), ..GameServerConfig::default() };
/// let mut server = GameServer::bind(&["127.0.0.1:25565".parse()?], config).await?;
/// if let Some(mut events) = server.events() {
///     tokio::spawn(async move {
///         while let Some(event) = events.recv().await {
///             println!("{event}");
///         }
///     });
/// }
/// server.run(std::future::pending()).await;
/// # Ok(())
/// # }
/// ```
pub struct GameServer {
    listeners: Vec<TcpListener>,
    shared: Arc<GameShared>,
    events: Option<mpsc::Receiver<ServerEvent>>,
}

impl fmt::Debug for GameServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GameServer")
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}

struct GameShared {
    state: Mutex<GameState>,
    started: Instant,
    log: mpsc::Sender<ServerEvent>,
}

struct GameState {
    server: Server,
    /// Wakes the idle task of a connection.
    bells: HashMap<ClientId, Arc<Notify>>,
}

impl GameShared {
    /// Locks the server. A panic in another task leaves it consistent.
    fn state(&self) -> MutexGuard<'_, GameState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Forwards events and wakes the connections with bytes to send.
    fn pass_on(&self, state: &mut GameState) {
        for event in state.server.events() {
            // Drop events that the reader is too slow for.
            let _ = self.log.try_send(event);
        }
        for (id, bell) in &state.bells {
            if !state.server.outgoing(*id).is_empty() || state.server.is_over(*id) {
                bell.notify_one();
            }
        }
    }
}

impl GameServer {
    /// Listens on these addresses. Connections are accepted by [`GameServer::run`].
    ///
    /// # Errors
    /// An address is not available, or creating the key failed.
    pub async fn bind(
        addresses: &[SocketAddr],
        config: GameServerConfig,
    ) -> Result<Self, GameServerError> {
        let mut listeners = Vec::new();
        for &address in addresses {
            let listener = TcpListener::bind(address).await;
            listeners.push(listener.map_err(|error| GameServerError::Listen { address, error })?);
        }
        let random = |bytes: &mut [u8]| {
            getrandom::fill(bytes).expect("the operating system has a random source");
        };
        let server = Server::new(config, random)?;
        let (log, events) = mpsc::channel(MAX_EVENTS);
        let state = Mutex::new(GameState {
            server,
            bells: HashMap::new(),
        });
        let shared = Arc::new(GameShared {
            state,
            started: Instant::now(),
            log,
        });
        Ok(Self {
            listeners,
            shared,
            events: Some(events),
        })
    }

    /// Returns the addresses that the server listens on.
    ///
    /// # Errors
    /// The system does not report an address.
    pub fn local_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// Returns the receiver of events. It holds at most 256 unread events and drops further ones.
    /// The second call returns `None`.
    pub fn events(&mut self) -> Option<mpsc::Receiver<ServerEvent>> {
        self.events.take()
    }

    /// Serves until the future `until` completes, then kicks all players with a reason.
    pub async fn run(self, until: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        let mut clock = interval(TICK);
        // The server itself catches up on late ticks.
        clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = &mut until => break,
                _ = clock.tick() => {
                    let mut state = self.shared.state();
                    state.server.tick(self.shared.now());
                    self.shared.pass_on(&mut state);
                }
                accepted = accept(&self.listeners) => match accepted {
                    Ok((socket, from)) => self.welcome(socket, from, &mut connections),
                    Err(error) => wait_after(&error).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
        {
            let mut state = self.shared.state();
            state.server.close("Server closed");
            self.shared.pass_on(&mut state);
        }
        let _ = timeout(GOODBYE_TIMEOUT, async {
            while connections.join_next().await.is_some() {}
        })
        .await;
    }

    fn welcome(&self, socket: TcpStream, from: SocketAddr, connections: &mut JoinSet<()>) {
        let mut state = self.shared.state();
        let connected = state
            .server
            .connect(self.shared.now(), from.ip().to_canonical());
        let bell = Arc::new(Notify::new());
        if let Ok(id) = connected {
            state.bells.insert(id, Arc::clone(&bell));
            let connection = Connection {
                shared: Arc::clone(&self.shared),
                id,
                bell,
            };
            connections.spawn(connection.carry(socket));
        }
        self.shared.pass_on(&mut state);
    }
}

/// Accepts the next connection on any listener.
async fn accept(listeners: &[TcpListener]) -> io::Result<(TcpStream, SocketAddr)> {
    poll_fn(|context| {
        let ready = listeners
            .iter()
            .map(|listener| listener.poll_accept(context))
            .find(Poll::is_ready);
        ready.unwrap_or(Poll::Pending)
    })
    .await
}

/// Task of one client.
struct Connection {
    shared: Arc<GameShared>,
    id: ClientId,
    bell: Arc<Notify>,
}

impl Drop for Connection {
    /// Removes the client from the server, however the task ends.
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.bells.remove(&self.id);
        state.server.hang_up(self.id);
        self.shared.pass_on(&mut state);
    }
}

impl Connection {
    /// Transfers bytes in both directions until one side closes.
    async fn carry(self, mut socket: TcpStream) {
        // Packets are small and urgent.
        let _ = socket.set_nodelay(true);
        let mut incoming = vec![0; READ_BYTES];
        let mut outgoing: Vec<u8> = Vec::new();
        let (mut reader, mut writer) = socket.split();
        let mut over = false;
        loop {
            if outgoing.is_empty() {
                over = self.take(&mut outgoing);
            }
            if over && outgoing.is_empty() {
                break;
            }
            tokio::select! {
                written = writer.write(&outgoing), if !outgoing.is_empty() => match written {
                    Ok(count @ 1..) => drop(outgoing.drain(..count)),
                    _ => return,
                },
                read = reader.read(&mut incoming), if !over => match read {
                    Ok(count @ 1..) => self.shared.state().server.receive(self.id, self.shared.now(), &incoming[..count]),
                    _ => return,
                },
                () = self.bell.notified() => over = over || self.shared.state().server.is_over(self.id),
                () = sleep(GOODBYE_TIMEOUT), if over => return,
            }
        }
        // Closing with unread bytes would reset the connection and discard the reason. So wait for
        // the client to close, for a limited time.
        let _ = writer.shutdown().await;
        let rest = async { while let Ok(1..) = reader.read(&mut incoming).await {} };
        let _ = timeout(GOODBYE_TIMEOUT, rest).await;
    }

    /// Copies the next bytes to send. Returns whether the connection is over.
    fn take(&self, outgoing: &mut Vec<u8>) -> bool {
        let mut state = self.shared.state();
        let all = state.server.outgoing(self.id);
        outgoing.extend_from_slice(&all[..all.len().min(MAX_WRITE_BYTES)]);
        let end = state.server.is_over(self.id);
        state.server.sent(self.id, outgoing.len());
        end
    }
}
