//! `hailer monitor --demo`: simulated servers on this machine, with one year of history.
//!
//! ```text
//!   server (state at any time) ─┬─► sockets on loopback ◄─── monitor
//!                               └─► past ─► History: import, write
//! ```
//!
//! May import: `crate::exit`, `crate::simulated::population`, `hailer`, `hailer_monitor`.

mod past;
mod server;

use self::server::{SimulatedServer, all};
use crate::exit::usage;
use anyhow::Context;
use hailer::Status;
use hailer::proto::{ConnectionStep, Epoch, Keys, Options, Transport};
use hailer::respond::{Board, Budget, Service};
use hailer::support::accept::wait_after;
use hailer::support::random_secret;
use hailer_monitor::history::{History, NewServer};
use hailer_monitor::sample::unix_millis;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Default interval of the demo, short so that changes show soon.
pub(crate) const INTERVAL: Duration = Duration::from_secs(2);
/// Time between status updates of the simulated servers.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(2);
/// Maximum number of delayed replies of one server.
const MAX_DELAYED_REPLIES: usize = 256;
/// Maximum size of a request in bytes.
const MAX_REQUEST_BYTES: usize = 2_048;
/// Timeout for the request of a stream client.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// Simulated servers with their sockets. Dropping the fleet stops them.
pub(crate) struct Fleet {
    simulated: Vec<SimulatedServer>,
    pub(crate) servers: Vec<NewServer>,
    folder: Folder,
    _tasks: JoinSet<()>,
}

impl Fleet {
    /// Starts the servers, each on a free port of loopback.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let now = unix_millis();
        let mut servers = Vec::new();
        let mut tasks = JoinSet::new();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        for server in all(now).into_iter().map(Arc::new) {
            let status = server.status(now);
            let address = if server.protocol.info().transport == Transport::Stream {
                let listener = TcpListener::bind(any).await?;
                let address = listener.local_addr()?;
                tasks.spawn(serve_stream(server.clone(), listener));
                address
            } else {
                let socket = Arc::new(UdpSocket::bind(any).await?);
                let address = socket.local_addr()?;
                let board = Board::new(&[server.protocol], &status)?;
                tasks.spawn(serve(server.clone(), socket, board));
                address
            };
            servers.push(server.server(address));
        }
        Ok(Self {
            simulated: all(now),
            servers,
            folder: Folder::new()?,
            _tasks: tasks,
        })
    }

    /// Returns the path of the history, which is deleted with the fleet.
    pub(crate) fn history(&self) -> PathBuf {
        self.folder.0.join("demo.db")
    }

    /// Writes the simulated history.
    pub(crate) async fn write_past(&self, history: &History) -> anyhow::Result<()> {
        let servers = history.add_all(&self.servers).await?;
        past::write(history, &self.simulated, &servers, unix_millis()).await?;
        Ok(())
    }
}

/// Listens at `wanted`. If that is `None`, listens at the usual address, or at a free port if the
/// usual one is in use.
///
/// # Errors
/// The wanted address cannot be used, or no port is free.
pub(crate) async fn listen(
    wanted: Option<SocketAddr>,
    usual: SocketAddr,
) -> anyhow::Result<TcpListener> {
    match wanted {
        Some(wanted) => match TcpListener::bind(wanted).await {
            Ok(listener) => Ok(listener),
            Err(error) => {
                usage!("cannot listen on {wanted}: {error}; choose another address with --listen")
            }
        },
        None => match TcpListener::bind(usual).await {
            Ok(listener) => Ok(listener),
            Err(_) => TcpListener::bind((usual.ip(), 0))
                .await
                .context("no port is free"),
        },
    }
}

/// Replies to datagrams with simulated latency and loss.
async fn serve(server: Arc<SimulatedServer>, socket: Arc<UdpSocket>, board: Board) {
    let mut service = Service::new(board.clone(), Budget::default());
    let mut publish = tokio::time::interval(PUBLISH_INTERVAL);
    let mut buffer = [0; MAX_REQUEST_BYTES];
    let mut count = 0_u64;
    let places = Arc::new(Semaphore::new(MAX_DELAYED_REPLIES));
    loop {
        let (length, from) = tokio::select! {
            received_bytes = socket.recv_from(&mut buffer) => match received_bytes {
                Ok(received_bytes) => received_bytes,
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    continue;
                }
            },
            _ = publish.tick() => {
                // On failure, the previous status stays published.
                let _ = board.publish(&server.status(unix_millis()));
                continue;
            }
        };
        let now = unix_millis();
        count += 1;
        if !server.is_up(now) || server.loses(server.random(count, 70)) {
            continue;
        }
        let replies: Vec<Vec<u8>> = service
            .answer(from, &buffer[..length])
            .map(<[u8]>::to_vec)
            .collect();
        if replies.is_empty() {
            continue;
        }
        let Ok(place) = places.clone().try_acquire_owned() else {
            continue;
        };
        let delay = Duration::from_micros(server.latency(now).into());
        let socket = socket.clone();
        tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            for reply in replies {
                let _ = socket.send_to(&reply, from).await;
            }
            drop(place);
        });
    }
}

/// Serves stream connections.
async fn serve_stream(server: Arc<SimulatedServer>, listener: TcpListener) {
    let places = Arc::new(Semaphore::new(MAX_DELAYED_REPLIES));
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                wait_after(&error).await;
                continue;
            }
        };
        let now = unix_millis();
        let place = places.clone().try_acquire_owned();
        if let (Ok(place), true) = (place, server.is_up(now)) {
            let status = server.status(now);
            let delay = server.latency(now);
            let server = server.clone();
            tokio::spawn(async move {
                let answer = answer_stream(
                    &server,
                    &status,
                    stream,
                    from,
                    Duration::from_micros(delay.into()),
                );
                let _ = tokio::time::timeout(REQUEST_TIMEOUT, answer).await;
                drop(place);
            });
        }
    }
}

async fn answer_stream(
    server: &SimulatedServer,
    status: &Status,
    mut stream: TcpStream,
    from: SocketAddr,
    delay: Duration,
) -> anyhow::Result<()> {
    let responder =
        server
            .protocol
            .responder(status, &Keys::new(random_secret()), &Options::default())?;
    let Some(mut connection) = responder.connection(from) else {
        return Ok(());
    };
    let mut received = Vec::new();
    let mut reply = Vec::new();
    let step = connection.open(&mut reply);
    if !reply.is_empty() {
        tokio::time::sleep(delay).await;
        stream.write_all(&reply).await?;
    }
    while step == ConnectionStep::Wait
        && received.len() < MAX_REQUEST_BYTES
        && stream.read_buf(&mut received).await? > 0
    {
        let mut reply = Vec::new();
        let end = connection.receive(Epoch::at(0), &received, &mut reply);
        received.drain(..end.consumed);
        if !reply.is_empty() {
            tokio::time::sleep(delay).await;
            stream.write_all(&reply).await?;
        }
        if end.step != ConnectionStep::Wait {
            break;
        }
    }
    Ok(stream.shutdown().await?)
}

/// Temporary folder that is deleted when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!(
            "hailer-demo-{}-{}",
            std::process::id(),
            unix_millis()
        ));
        std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all::<&Path>(&self.0);
    }
}
