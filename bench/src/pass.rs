//! Connections through the relay over TCP, compared with HAProxy in TCP mode. Both run with one
//! thread on one core. Clients and game are on another core.
//!
//! In: a number of rounds. Out: bytes per second, CPU per byte, added latency.
//!
//! May import: `crate::host`, `crate::report`, `hailer`.

use crate::host;
use crate::report::{at_least, at_most, heading, median, range};
use anyhow::{Context, ensure};
use hailer::Status;
use hailer::door::{Entrance, State, View};
use hailer::respond::{
    Board, ListenerConfig, PoolConfig, ResponderPool, SourceLimits, StreamConfig,
};
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

/// Number of players.
const CONNECTIONS: u32 = 100;
/// Bytes of one write of the game at full speed.
const CHUNK: usize = 16 << 10;
/// Bytes of a message whose way is measured.
const MESSAGE: usize = 200;
/// Time between two messages of a player.
const INTERVAL: Duration = Duration::from_millis(50);
/// First byte of a player that gets data without end.
const DOWNLOAD: u8 = b'D';
/// First byte of a player whose messages are echoed.
const ECHO: u8 = b'E';

/// Runs the relay until standard input ends. Prints its port first.
pub(crate) fn serve(game: SocketAddr) -> anyhow::Result<()> {
    let (entrance, _requests) = Entrance::new();
    let view = View {
        state: State::Running,
        game: Some(game),
    };
    entrance.show(view);
    let board = Board::new(&[], &Status::default())?;
    board.set_stream_config(StreamConfig {
        relay: Some(entrance),
        ..StreamConfig::default()
    });
    let mut config = PoolConfig::default();
    config.workers = 1;
    config.passages.relayed = SourceLimits {
        total: 4_096,
        per_network: 4_096,
    };
    let listener = ListenerConfig {
        address: (Ipv4Addr::LOCALHOST, 0).into(),
        board,
        relay: None,
        inherited: None,
    };
    let pool = ResponderPool::start(vec![listener], &config)?;
    println!("{}", pool.addresses()[0].port());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// A relay in another process. Stopped when dropped.
struct Proxy {
    child: Child,
    address: SocketAddr,
    /// Configuration of HAProxy.
    file: Option<PathBuf>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(file) = &self.file {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Proxy {
    fn hailer(game: SocketAddr) -> anyhow::Result<Self> {
        let args = ["pass-on".to_owned(), game.to_string()];
        let mut child = host::again(&args)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        let out = child.stdout.take().context("a pipe")?;
        BufReader::new(out).read_line(&mut line)?;
        let port: u16 = line.trim().parse().context("the relay did not start")?;
        Ok(Self {
            child,
            address: (Ipv4Addr::LOCALHOST, port).into(),
            file: None,
        })
    }

    /// Starts HAProxy with one thread. `None` if it is not installed.
    fn haproxy(game: SocketAddr) -> anyhow::Result<Option<Self>> {
        let address = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let file = std::env::temp_dir().join(format!("hailer-bench-{}.cfg", std::process::id()));
        let text = format!(
            "global\n nbthread 1\n maxconn 4096\ndefaults\n mode tcp\n timeout connect 5s\n \
             timeout client 60s\n timeout server 60s\nlisten game\n bind {address}\n server game {game}\n"
        );
        std::fs::write(&file, text)?;
        let started = Command::new("haproxy")
            .arg("-db")
            .arg("-f")
            .arg(&file)
            .spawn();
        let Ok(child) = started else {
            std::fs::remove_file(&file)?;
            return Ok(None);
        };
        let proxy = Self {
            child,
            address,
            file: Some(file),
        };
        for _ in 0..100 {
            if std::net::TcpStream::connect(address).is_ok() {
                return Ok(Some(proxy));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        anyhow::bail!("HAProxy did not start")
    }
}

/// Starts the game: it sends without end, or echoes.
async fn game(listener: TcpListener) {
    while let Ok((mut stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let _ = stream.set_nodelay(true);
            let mut buffer = vec![0; CHUNK];
            match stream.read_u8().await {
                Ok(DOWNLOAD) => while stream.write_all(&buffer).await.is_ok() {},
                _ => {
                    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                        if stream.write_all(&buffer[..length]).await.is_err() {
                            break;
                        }
                    }
                }
            }
        });
    }
}

async fn connect(address: SocketAddr, kind: u8) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    stream.write_u8(kind).await?;
    Ok(stream)
}

/// Returns the bytes that all players together receive in `time`.
async fn download(address: SocketAddr, time: Duration) -> anyhow::Result<u64> {
    let mut players = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let mut stream = connect(address, DOWNLOAD).await?;
        players.spawn(async move {
            let mut buffer = vec![0; 64 << 10];
            let end = tokio::time::Instant::now() + time;
            let mut total = 0;
            while let Ok(Ok(length @ 1..)) =
                tokio::time::timeout_at(end, stream.read(&mut buffer)).await
            {
                total += length as u64;
            }
            total
        });
    }
    let totals = players.join_all().await;
    ensure!(
        totals.iter().all(|total| *total > 0),
        "a player received nothing"
    );
    Ok(totals.iter().sum())
}

/// Returns percentiles 50 and 99 of the time from a message to its echo, in microseconds.
async fn latency(address: SocketAddr, time: Duration) -> anyhow::Result<[f64; 2]> {
    let mut players = JoinSet::new();
    for player in 0..CONNECTIONS {
        let mut stream = connect(address, ECHO).await?;
        players.spawn(async move {
            tokio::time::sleep(INTERVAL * player / CONNECTIONS).await;
            let mut ticks = tokio::time::interval(INTERVAL);
            let end = Instant::now() + time;
            let mut times = Vec::new();
            let mut message = [7; MESSAGE];
            while Instant::now() < end {
                ticks.tick().await;
                let sent = Instant::now();
                stream.write_all(&message).await?;
                stream.read_exact(&mut message).await?;
                times.push(sent.elapsed().as_secs_f64() * 1e6);
            }
            anyhow::Ok(times)
        });
    }
    let mut all = Vec::new();
    while let Some(times) = players.join_next().await {
        all.extend(times??);
    }
    all.sort_by(f64::total_cmp);
    ensure!(!all.is_empty(), "no message came back");
    Ok([all.len() / 2, all.len() * 99 / 100].map(|at| all[at]))
}

/// Figures of one way to the game.
#[derive(Default)]
struct Way {
    /// MB per second.
    rate: Vec<f64>,
    /// Nanoseconds of CPU of the relay per KB.
    cpu: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Way {
    fn measure(
        &mut self,
        runtime: &Runtime,
        (address, pid): (SocketAddr, Option<u32>),
        time: Duration,
    ) -> anyhow::Result<()> {
        let cpu = || {
            pid.map_or(Some(0.0), host::cpu_of)
                .context("/proc/PID/stat")
        };
        let before = cpu()?;
        let started = Instant::now();
        let bytes = runtime.block_on(download(address, time))? as f64;
        let wall = started.elapsed().as_secs_f64();
        let used = cpu()? - before;
        self.rate.push(bytes / 1e6 / wall);
        self.cpu.push(used * 1e9 / (bytes / 1e3));
        // Bytes in transit must not count for the next run.
        std::thread::sleep(Duration::from_millis(200));
        let [p50, p99] = runtime.block_on(latency(address, time))?;
        self.p50.push(p50);
        self.p99.push(p99);
        Ok(())
    }

    fn print(&self, name: &str) {
        println!(
            "{name:>10}: {:.0} MB/s {}, {:.0} ns of CPU per KB {}, p50 {:.0} µs, p99 {:.0} µs {}",
            median(self.rate.clone()),
            range(self.rate.iter().copied()),
            median(self.cpu.clone()),
            range(self.cpu.iter().copied()),
            median(self.p50.clone()),
            median(self.p99.clone()),
            range(self.p99.iter().copied()),
        );
    }
}

/// Measures the relay and HAProxy in turns.
pub(crate) fn pass(rounds: usize, scale: f64) -> anyhow::Result<()> {
    heading("relay over TCP and HAProxy with 100 connections");
    // Each player needs its turn.
    let time = Duration::from_secs_f64((3.0 * scale).max(0.5));
    // The relays inherit the core of this thread, the runtime of clients and game has another.
    host::pin(1);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let origin = listener.local_addr()?;
    runtime.spawn(game(listener));
    host::pin(0);
    let hailer = Proxy::hailer(origin)?;
    let haproxy = Proxy::haproxy(origin)?;
    host::pin(1);
    let mut ways: [Way; 3] = Default::default();
    for _ in 0..rounds.max(1) {
        ways[0].measure(&runtime, (origin, None), time)?;
        ways[1].measure(&runtime, (hailer.address, Some(hailer.child.id())), time)?;
        if let Some(haproxy) = &haproxy {
            ways[2].measure(&runtime, (haproxy.address, Some(haproxy.child.id())), time)?;
        }
    }
    let [direct, ours, theirs] = &ways;
    direct.print("no relay");
    ours.print("Hailer");
    let added = |way: &Way| {
        let both = way.p99.iter().zip(&direct.p99);
        both.map(|(way, direct)| (way - direct) / 1e3)
            .collect::<Vec<_>>()
    };
    at_most(
        "ms added at p99",
        median(added(ours)),
        1.0,
        &range(added(ours).into_iter()),
    );
    if haproxy.is_none() {
        println!("HAProxy is not installed, so nothing is compared");
        return Ok(());
    }
    theirs.print("HAProxy");
    let ratios = |of: fn(&Way) -> &Vec<f64>| {
        let both = of(ours).iter().zip(of(theirs));
        both.map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>()
    };
    let rate = ratios(|way| &way.rate);
    let cpu: Vec<f64> = ratios(|way| &way.cpu)
        .iter()
        .map(|ratio| 1.0 / ratio)
        .collect();
    at_least(
        "of HAProxy's throughput",
        median(rate.clone()),
        0.7,
        &range(rate.into_iter()),
    );
    at_least(
        "of HAProxy's throughput per second of CPU",
        median(cpu.clone()),
        0.7,
        &range(cpu.into_iter()),
    );
    let theirs = added(theirs);
    println!(
        "HAProxy adds {:.3} ms at p99 {}",
        median(theirs.clone()),
        range(theirs.into_iter())
    );
    Ok(())
}
