//! The game server on sockets: [`hailer_minecraft::server`] does the thinking, this file the waiting.
//!
//! One task for each connection, one for each listener, one for the clock. They share the server behind a lock that
//! nobody holds while waiting, so a slow socket makes nobody else wait. What a client has not read yet stays in the
//! server, which drops it past its limit.

use hailer_minecraft::crypto::KeyError;
use hailer_minecraft::server::{ClientId, GameServerConfig, Server, ServerEvent, TICK};
use std::collections::HashMap;
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

/// Bytes read at once: clients send little, and there may be many of them.
const READ: usize = 2 << 10;
/// Bytes written at once.
const PIECE: usize = 16 << 10;
/// A client that was told goodbye has so long to read it.
const GOODBYE: Duration = Duration::from_secs(2);
/// Events that wait for their reader. More are dropped.
const EVENTS: usize = 256;

/// Why no server could be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum GameServerError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// Which.
        address: SocketAddr,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// No key could be made.
    #[error("cannot make a key: {0}")]
    Key(#[from] KeyError),
}

/// A game server that listens.
///
/// ```no_run
/// use hailer::game::server::GameServerConfig;
/// use hailer::minecraft::GameServer;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let settings = GameServerConfig { motd: "Come in".into(), ..GameServerConfig::default() };
/// let mut server = GameServer::bind(&["127.0.0.1:25565".parse()?], settings).await?;
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
    shared: Arc<Shared>,
    events: Option<mpsc::Receiver<ServerEvent>>,
}

struct Shared {
    state: Mutex<State>,
    started: Instant,
    log: mpsc::Sender<ServerEvent>,
}

struct State {
    server: Server,
    /// Wakes the task of a connection that rests.
    bells: HashMap<ClientId, Arc<Notify>>,
}

impl Shared {
    /// The server. A task that panicked while it held it left a world that is whole all the same.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// Hands events on and wakes whoever has something to send.
    fn pass_on(&self, state: &mut State) {
        for event in state.server.events() {
            // Nobody reads, or not fast enough: a log is no reason to wait.
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
    /// A server that listens at these addresses. Nobody is let in before [`GameServer::run`].
    pub async fn bind(
        addresses: &[SocketAddr],
        settings: GameServerConfig,
    ) -> Result<Self, GameServerError> {
        let mut listeners = Vec::new();
        for &address in addresses {
            let listener = TcpListener::bind(address).await;
            listeners.push(listener.map_err(|error| GameServerError::Listen { address, error })?);
        }
        let random = |bytes: &mut [u8]| {
            getrandom::fill(bytes).expect("the operating system has a random source");
        };
        let server = Server::new(settings, random)?;
        let (log, events) = mpsc::channel(EVENTS);
        let state = Mutex::new(State {
            server,
            bells: HashMap::new(),
        });
        let shared = Arc::new(Shared {
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

    /// Where it listens.
    pub fn local_addrs(&self) -> io::Result<Vec<SocketAddr>> {
        self.listeners.iter().map(TcpListener::local_addr).collect()
    }

    /// What happens, to be read while the server runs; it ends with it. Whoever does not keep up misses some. The second
    /// call gets nothing.
    pub fn events(&mut self) -> Option<mpsc::Receiver<ServerEvent>> {
        self.events.take()
    }

    /// Serves until the future ends; then sends everybody away with a word.
    pub async fn run(self, until: impl Future<Output = ()>) {
        let mut connections = JoinSet::new();
        let mut clock = interval(TICK);
        // The server itself makes up for ticks that were late.
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
                    // A passing shortage, of descriptors say; never a reason to stop, nor to spin.
                    Err(_) => sleep(Duration::from_millis(10)).await,
                },
                Some(_) = connections.join_next() => {}
            }
        }
        {
            let mut state = self.shared.state();
            state.server.close("Server closed");
            self.shared.pass_on(&mut state);
        }
        let _ = timeout(GOODBYE, async {
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

/// The next connection to any of them.
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

/// One client's task.
struct Connection {
    shared: Arc<Shared>,
    id: ClientId,
    bell: Arc<Notify>,
}

impl Drop for Connection {
    /// However it ends, the server hears of it.
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.bells.remove(&self.id);
        state.server.hang_up(self.id);
        self.shared.pass_on(&mut state);
    }
}

impl Connection {
    /// Carries bytes both ways until one side ends it.
    async fn carry(self, mut socket: TcpStream) {
        // Moves are small and must not wait for each other.
        let _ = socket.set_nodelay(true);
        let mut incoming = vec![0; READ];
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
                () = sleep(GOODBYE), if over => return,
            }
        }
        // Closing with bytes unread would be a reset, which takes the goodbye with it. So the other side ends first, or
        // has had its time.
        let _ = writer.shutdown().await;
        let rest = async { while let Ok(1..) = reader.read(&mut incoming).await {} };
        let _ = timeout(GOODBYE, rest).await;
    }

    /// Takes a piece of what is to be sent. Whether it is the end.
    fn take(&self, outgoing: &mut Vec<u8>) -> bool {
        let mut state = self.shared.state();
        let all = state.server.outgoing(self.id);
        outgoing.extend_from_slice(&all[..all.len().min(PIECE)]);
        let end = state.server.is_over(self.id);
        state.server.sent(self.id, outgoing.len());
        end
    }
}
