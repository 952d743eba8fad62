//! The control socket reports the state of a running responder. Server and client.
//!
//! Requests and replies are lines of JSON.
//!
//! ```text
//!   {"get":"status"}   one snapshot; further requests may follow
//!   {"watch":1000}     a snapshot now and every 1000 ms, until the client sends anything or closes
//!   {"wake":"NAME"}    starts the game of a door, and {"sleep":"NAME"} stops it: {"done":"…"}
//! ```
//!
//! `channel.rs` has the sockets. Limits: [`MAX_CLIENTS`]
//! connections, [`MAX_REQUEST`] bytes for a request, [`IDLE_TIMEOUT`] without a request, [`TIMEOUT`] to
//! accept a reply.
//!
//! In: requests of clients, snapshots. Out: lines of JSON.
//!
//! May import: `crate::observe`, `crate::observe::channel`, `crate::observe::snapshot`, `hailer`.

pub(crate) use super::channel::default_path;
use super::channel::{self, Listener};
use super::snapshot::{SCHEMA, Snapshot};
use super::{DoorOrder, MAX_CLIENTS, Served, TakeSnapshot};
use anyhow::{Context, anyhow, bail};
use hailer::support::accept::wait_after;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Semaphore;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Maximum size of a request in bytes, including the end of the line.
const MAX_REQUEST: u64 = 256;
/// Maximum size of a reply that the client accepts, enough for thousands of servers.
const MAX_REPLY: u64 = 16 << 20;
/// Idle connections are closed after this time. Shorter in tests.
const IDLE_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 30 });
/// Time for a peer to accept a reply.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time for a door to accept an order. It does not include the start or stop.
const ORDER_TIMEOUT: Duration = Duration::from_secs(3);
/// Range of the interval between snapshots, in milliseconds.
const WATCH_MS: std::ops::RangeInclusive<u64> = 100..=3_600_000;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Request {
    Get(Subject),
    Watch(u64),
    Wake(String),
    Sleep(String),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Subject {
    Status,
}

/// Effect of an order on a door.
#[derive(Serialize, Deserialize)]
struct Obeyed {
    done: String,
}

#[derive(Serialize, Deserialize)]
struct Refusal {
    error: String,
}

/// Serves clients until dropped.
pub(super) async fn serve(mut listener: Listener, served: Served) {
    let places = Arc::new(Semaphore::new(MAX_CLIENTS));
    loop {
        match listener.accept().await {
            Ok(mut stream) => match places.clone().try_acquire_owned() {
                Ok(place) => {
                    let served = served.clone();
                    tokio::spawn(async move {
                        let _ = answer(stream, &served).await;
                        drop(place);
                    });
                }
                Err(_) => {
                    let refusal = line(&Refusal {
                        error: format!("{MAX_CLIENTS} others are watching; close one"),
                    });
                    // The text fits into the empty send queue of a new connection; otherwise it is
                    // lost.
                    let _ =
                        tokio::time::timeout(Duration::from_millis(10), stream.write_all(&refusal))
                            .await;
                }
            },
            Err(error) => wait_after(&error).await,
        }
    }
}

async fn answer(stream: impl AsyncRead + AsyncWrite, served: &Served) -> io::Result<()> {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut reader = BufReader::new(reader);
    loop {
        let request = match timeout(IDLE_TIMEOUT, read(&mut reader, MAX_REQUEST)).await? {
            Ok(Some(line)) => request(&line),
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(error.to_string()),
            Err(error) => return Err(error),
        };
        match request {
            Ok(Request::Get(Subject::Status)) => {
                write(&mut writer, &(served.take_snapshot)()).await?
            }
            Ok(Request::Watch(ms)) => {
                let every = Duration::from_millis(ms);
                return watch(reader, writer, &served.take_snapshot, every).await;
            }
            Ok(Request::Wake(name)) => {
                obey(&mut writer, (served.steer)(DoorOrder::Wake, name)).await?;
            }
            Ok(Request::Sleep(name)) => {
                obey(&mut writer, (served.steer)(DoorOrder::Sleep, name)).await?;
            }
            Err(error) => return write(&mut writer, &Refusal { error }).await,
        }
    }
}

/// Sends the result of an order.
async fn obey(
    writer: &mut (impl AsyncWrite + Unpin),
    result: impl Future<Output = Result<String, String>>,
) -> io::Result<()> {
    let result = timeout(ORDER_TIMEOUT, result).await;
    match result.unwrap_or_else(|_| Err("the door does not respond".to_owned())) {
        Ok(done) => write(writer, &Obeyed { done }).await,
        Err(error) => write(writer, &Refusal { error }).await,
    }
}

fn request(line: &str) -> Result<Request, String> {
    let request = serde_json::from_str(line).map_err(|_| {
        r#"write {"get":"status"}, {"watch":1000}, {"wake":"NAME"} or {"sleep":"NAME"}"#.to_owned()
    })?;
    match request {
        Request::Watch(ms) if !WATCH_MS.contains(&ms) => Err(format!(
            "watch: write {} to {} milliseconds",
            WATCH_MS.start(),
            WATCH_MS.end()
        )),
        request => Ok(request),
    }
}

async fn watch(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    take_snapshot: &TakeSnapshot,
    every: Duration,
) -> io::Result<()> {
    let mut ticks = interval(every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut byte = [0];
    loop {
        tokio::select! {
            _ = reader.read(&mut byte) => return Ok(()),
            _ = ticks.tick() => write(&mut writer, &take_snapshot()).await?,
        }
    }
}

/// Reads a line without its end. Returns `None` if the peer has closed.
async fn read(
    reader: &mut (impl AsyncBufReadExt + Unpin),
    most: u64,
) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    let length = reader.take(most).read_until(b'\n', &mut line).await?;
    match line.pop() {
        None => Ok(None),
        Some(b'\n') => match String::from_utf8(line) {
            Ok(line) => Ok(Some(line)),
            Err(_) => Err(io::Error::new(
                ErrorKind::InvalidData,
                "the line is not UTF-8",
            )),
        },
        Some(_) if length as u64 == most => Err(io::Error::new(
            ErrorKind::InvalidData,
            format!("the line is longer than {most} bytes"),
        )),
        Some(_) => Err(ErrorKind::UnexpectedEof.into()),
    }
}

async fn write(writer: &mut (impl AsyncWrite + Unpin), reply: &impl Serialize) -> io::Result<()> {
    timeout(TIMEOUT, writer.write_all(&line(reply))).await?
}

fn line(value: &impl Serialize) -> Vec<u8> {
    // Only maps with keys other than strings fail, and there are none.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

/// A client of a running responder.
pub(crate) struct Client {
    stream: BufReader<channel::Client>,
    /// Interval of updates, which is added to the timeout of each reply.
    every: Duration,
}

impl Client {
    /// Connects to a responder.
    ///
    /// # Errors
    /// No responder listens there, or permission is denied. The error contains the correction.
    pub(crate) async fn connect(path: &Path) -> anyhow::Result<Self> {
        let shown = path.display();
        match timeout(TIMEOUT, channel::connect(path)).await {
            Ok(Ok(stream)) => Ok(Self {
                stream: BufReader::new(stream),
                every: Duration::ZERO,
            }),
            Ok(Err(error)) => Err(match error.kind() {
                ErrorKind::NotFound | ErrorKind::ConnectionRefused => anyhow!(
                    "no hailer serve listens at {shown}: start one, or give its socket with --control PATH"
                ),
                ErrorKind::PermissionDenied => {
                    anyhow!(
                        "{shown}: permission denied; only the user of hailer serve can connect: run the command as that user or with sudo"
                    )
                }
                _ => anyhow::Error::new(error).context(format!(
                    "cannot connect to {shown} (is it the control socket?)"
                )),
            }),
            Err(_) => bail!("{shown}: cannot connect in time; hailer serve does not respond"),
        }
    }

    /// Requests one snapshot.
    ///
    /// # Errors
    /// The responder has ended, sends no reply, refuses the request, or has another version.
    pub(crate) async fn status(&mut self) -> anyhow::Result<Snapshot> {
        self.ask(&Request::Get(Subject::Status)).await?;
        self.next().await
    }

    /// Orders a door to wake its game, or to put it to sleep. Returns a description of the effect.
    ///
    /// # Errors
    /// The responder has ended, or there is no such door. The error contains the correction.
    pub(crate) async fn order(&mut self, order: DoorOrder, name: &str) -> anyhow::Result<String> {
        let name = name.to_owned();
        self.ask(&match order {
            DoorOrder::Wake => Request::Wake(name),
            DoorOrder::Sleep => Request::Sleep(name),
        })
        .await?;
        let line = self.line().await?;
        match serde_json::from_str(&line) {
            Ok(Obeyed { done }) => Ok(done),
            Err(_) => match serde_json::from_str(&line) {
                Ok(Refusal { error }) => bail!("{error}"),
                Err(_) => bail!("the reply is not from hailer serve"),
            },
        }
    }

    /// Requests periodic snapshots, which [`Client::next`] returns.
    ///
    /// # Errors
    /// The same as for [`Client::status`].
    #[cfg(feature = "top")]
    pub(crate) async fn watch(&mut self, every: Duration) -> anyhow::Result<()> {
        self.every = every;
        let ms = every.as_millis().try_into().unwrap_or(u64::MAX);
        self.ask(&Request::Watch(ms)).await
    }

    /// Returns the next snapshot. A canceled call leaves the client unusable.
    ///
    /// # Errors
    /// The same as for [`Client::status`].
    pub(crate) async fn next(&mut self) -> anyhow::Result<Snapshot> {
        understand(&self.line().await?)
    }

    async fn line(&mut self) -> anyhow::Result<String> {
        let Ok(line) = timeout(self.every + TIMEOUT, read(&mut self.stream, MAX_REPLY)).await
        else {
            bail!("no reply from hailer serve; it is blocked or suspended");
        };
        match line {
            Ok(Some(line)) => Ok(line),
            Ok(None) => bail!("hailer serve has ended"),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                Err(error).context("invalid reply from hailer serve")
            }
            // The connection ended within a line.
            Err(_) => bail!("hailer serve has ended"),
        }
    }

    async fn ask(&mut self, request: &Request) -> anyhow::Result<()> {
        // The responder may have refused the client and disconnected. Its reason can still be read.
        let _ = write(self.stream.get_mut(), request).await;
        Ok(())
    }
}

fn understand(line: &str) -> anyhow::Result<Snapshot> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<String>,
        error: Option<String>,
    }
    let head: Head =
        serde_json::from_str(line).map_err(|_| anyhow!("the reply is not from hailer serve"))?;
    match head {
        Head {
            error: Some(error), ..
        } => bail!("hailer serve rejected the request: {error}"),
        Head {
            schema: Some(schema),
            ..
        } if schema != SCHEMA => {
            bail!("hailer serve uses {schema}, this command {SCHEMA}: use the same version of both")
        }
        _ => serde_json::from_str(line)
            .context("invalid snapshot from hailer serve; use the same version of both"),
    }
}

#[cfg(all(test, unix))]
pub(crate) mod tests {
    use super::channel::bind;
    use super::*;
    use crate::simulated::responder as simulated;
    use std::io::{BufRead, Read, Write};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::net::UnixStream as Blocking;
    use std::path::PathBuf;
    use std::time::Instant;

    /// Returns an empty folder for one test.
    pub(crate) fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("hailer-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).unwrap();
        folder
    }

    /// Runs a server in its own folder, and the test on another thread.
    fn with_server(name: &str, test: impl FnOnce(&Path) + Send + 'static) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let folder = folder(name);
            let path = folder.join("s");
            let (listener, bound) = bind(&path).unwrap();
            let started = Instant::now();
            let take_snapshot = move || simulated::snapshot(1.0 + started.elapsed().as_secs_f64());
            let served = Served {
                take_snapshot: Arc::new(take_snapshot),
                steer: Arc::new(|order, name| {
                    Box::pin(async move {
                        match &*name {
                            "survival" => Ok(format!("survival: {order:?}")),
                            "deaf" => std::future::pending().await,
                            _ => Err(format!("no door {name:?}")),
                        }
                    })
                }),
            };
            let server = tokio::spawn(serve(listener, served));
            tokio::task::spawn_blocking(move || test(&path))
                .await
                .unwrap();
            server.abort();
            drop(bound);
            std::fs::remove_dir(folder).unwrap();
        });
    }

    fn connect(path: &Path) -> Blocking {
        let stream = Blocking::connect(path).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        stream
    }

    fn ask(path: &Path, request: &[u8]) -> String {
        let mut stream = connect(path);
        stream.write_all(request).unwrap();
        let mut line = String::new();
        std::io::BufReader::new(stream)
            .read_line(&mut line)
            .unwrap();
        line
    }

    #[test]
    fn requests_are_lines_and_so_are_replies() {
        with_server("lines", |path| {
            assert_eq!(
                std::fs::metadata(path).unwrap().permissions().mode() & 0o777,
                0o600
            );
            for _ in 0..2 {
                let output: Snapshot =
                    serde_json::from_str(&ask(path, b"{\"get\":\"status\"}\n")).unwrap();
                assert_eq!(output.schema, SCHEMA);
            }
            // Two requests over one connection.
            let mut stream = connect(path);
            stream
                .write_all(b"{\"get\":\"status\"}\n { \"get\" : \"status\" }\n")
                .unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut output = String::new();
            stream.read_to_string(&mut output).unwrap();
            assert_eq!(output.lines().count(), 2);

            let mut stream = connect(path);
            stream.write_all(b"{\"watch\":100}\n").unwrap();
            let started = Instant::now();
            let lines = std::io::BufReader::new(stream).lines().take(4);
            let times: Vec<f64> = lines
                .map(|line| understand(&line.unwrap()).unwrap().uptime_s)
                .collect();
            assert!(times.windows(2).all(|pair| pair[1] > pair[0]), "{times:?}");
            assert!(
                started.elapsed() >= Duration::from_millis(280),
                "{:?}",
                started.elapsed()
            );
        });
    }

    #[test]
    fn orders_of_doors_get_a_reply() {
        with_server("orders", |path| {
            for (request, expected) in [
                (
                    "{\"wake\":\"survival\"}\n",
                    "{\"done\":\"survival: Wake\"}\n",
                ),
                (
                    "{\"sleep\":\"survival\"}\n",
                    "{\"done\":\"survival: Sleep\"}\n",
                ),
                ("{\"wake\":\"x\"}\n", "{\"error\":\"no door \\\"x\\\"\"}\n"),
                (
                    "{\"wake\":\"deaf\"}\n",
                    "{\"error\":\"the door does not respond\"}\n",
                ),
            ] {
                assert_eq!(ask(path, request.as_bytes()), expected);
            }
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all();
            runtime.build().unwrap().block_on(async {
                let mut client = Client::connect(path).await.unwrap();
                let done = client.order(DoorOrder::Wake, "survival").await.unwrap();
                assert_eq!(done, "survival: Wake");
                let error = client.order(DoorOrder::Sleep, "x").await.unwrap_err();
                assert_eq!(error.to_string(), "no door \"x\"");
                // The connection still serves.
                assert_eq!(client.status().await.unwrap().schema, SCHEMA);
            });
        });
    }

    #[test]
    fn reports_errors_and_limits_connections() {
        with_server("bounds", |path| {
            for (request, expected) in [
                (&b"rubbish\n"[..], r#"write {\"get\":\"status\"}"#),
                (b"{\"get\":\"secrets\"}\n", "write {"),
                (b"\xFF\n", "not UTF-8"),
                (
                    b"{\"watch\":99}\n",
                    "watch: write 100 to 3600000 milliseconds",
                ),
                (b"{\"watch\":-1}\n", "write {"),
                (&[b' '; MAX_REQUEST as usize], "longer than 256 bytes"),
            ] {
                let output = ask(path, request);
                assert!(
                    output.starts_with("{\"error\":\"") && output.contains(expected),
                    "{output}"
                );
            }
            let mut watchers: Vec<Blocking> = (0..MAX_CLIENTS).map(|_| connect(path)).collect();
            for watcher in &mut watchers {
                watcher.write_all(b"{\"watch\":100}\n").unwrap();
                watcher.read_exact(&mut [0; 10]).unwrap();
            }
            let mut line = String::new();
            std::io::BufReader::new(connect(path))
                .read_line(&mut line)
                .unwrap();
            assert!(line.contains("16 others are watching"), "{line}");
            // Clients with a subscription stay connected; idle ones do not.
            watchers.pop();
            std::thread::sleep(Duration::from_millis(50));
            let mut idle = connect(path);
            assert_eq!(idle.read(&mut [0]).unwrap(), 0);
            watchers[0].read_exact(&mut [0; 10]).unwrap();
            // A closed connection frees its place.
            watchers.pop();
            let started = Instant::now();
            loop {
                let mut stream = connect(path);
                let mut line = String::new();
                let asked = stream.write_all(b"{\"get\":\"status\"}\n");
                let read = std::io::BufReader::new(stream).read_line(&mut line);
                if asked.is_ok() && read.is_ok() && line.contains(SCHEMA) {
                    break;
                }
                assert!(started.elapsed() < Duration::from_secs(5), "{line}");
            }
        });
    }

    #[tokio::test]
    async fn client_reports_errors() {
        let folder = folder("client");
        let path = folder.join("s");
        let error = async |path: &Path| match Client::connect(path).await {
            Ok(mut client) => client.status().await.unwrap_err().to_string(),
            Err(error) => error.to_string(),
        };
        assert!(
            error(&path)
                .await
                .contains("start one, or give its socket with --control")
        );
        for (output, expected) in [
            (
                &b"{\"error\":\"16 others are watching; close one\"}\n"[..],
                "hailer serve rejected the request: 16 others",
            ),
            (
                b"{\"schema\":\"hailer/serve-status/9\"}\n",
                "use the same version",
            ),
            (
                b"{\"schema\":\"hailer/serve-status/2\"}\n",
                "use the same version",
            ),
            (b"SSH-2.0\n", "is not from hailer serve"),
            (b"{\"schema\":\"hai", "has ended"),
            (b"", "has ended"),
        ] {
            let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
            let server =
                std::thread::spawn(move || listener.accept().unwrap().0.write_all(output).unwrap());
            let error = error(&path).await;
            assert!(error.contains(expected), "{error}");
            server.join().unwrap();
            std::fs::remove_file(&path).unwrap();
        }
        std::fs::remove_dir(folder).unwrap();
    }

    #[tokio::test]
    async fn listen_errors_suggest_a_fix() {
        let folder = folder("dead");
        let path = folder.join("deep").join("s");
        // The folder is created for its owner only.
        let (first, bound) = bind(&path).unwrap();
        assert_eq!(
            std::fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777,
            0o700
        );
        assert!(
            bind(&path)
                .err()
                .unwrap()
                .to_string()
                .contains("already answers")
        );
        drop((first, bound));
        std::fs::write(&path, "precious").unwrap();
        assert!(bind(&path).err().unwrap().to_string().contains("no socket"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        let error = format!(
            "{:#}",
            bind(&folder.join("no").join("such").join("s"))
                .err()
                .unwrap()
        );
        assert!(
            error.contains("cannot make the folder") && error.contains("--control"),
            "{error}"
        );
        let long = folder.join("x".repeat(120));
        assert!(format!("{:#}", bind(&long).err().unwrap()).contains("cannot listen at"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
