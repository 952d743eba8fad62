//! The responder pool against a bare loop that sends replies of the same size to any datagram. Each
//! is a process on one core, queried from another core: at full speed, and then at half of the
//! loop's rate.
//!
//! In: a plan as arguments. Out: replies per second, latency.
//!
//! May import: `crate::bare`, `crate::host`, `crate::report`, `hailer`, `hailer_udp`.

use crate::bare::{self, BATCH, Batch, Peer};
use crate::host;
use crate::report::{at_least, at_most, heading, median, range};
use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use hailer::Status;
use hailer::door::Entrance;
use hailer::proto::{
    Ask, Cookie, Extra, Input, Keys, Options, Protocol, Step, minecraft_query, registry,
};
use hailer::proto::{Depth, Player, Text};
use hailer::respond::{Board, Budget, ListenerConfig, PoolConfig, ResponderPool};
use hailer::support::random_secret;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

/// Requests in flight: enough to keep the queue from becoming empty, and too few to fill it.
const WINDOW: usize = 512;
/// Timeout after which the requests are sent again.
const SILENCE: Duration = Duration::from_millis(100);
/// Longer than any reply in these measurements, in bytes.
const LONGEST: usize = 4_096;

/// A server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// The bare loop: the same bytes to every source.
    Raw,
    /// `hailer::respond::ResponderPool`, one worker.
    Pool,
}

/// Options of a server.
#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// The server.
    #[arg(long, value_enum)]
    kind: Kind,
    /// Bare loop: file with the reply.
    #[arg(long)]
    reply: Option<PathBuf>,
    /// Pool: the default budget, for loopback as well.
    #[arg(long)]
    strict: bool,
    /// Pool: address to listen on.
    #[arg(long, default_value_t = Ipv4Addr::LOCALHOST)]
    at: Ipv4Addr,
    /// Pool: the game server that receives unclaimed datagrams.
    #[arg(long)]
    relay: Option<SocketAddr>,
}

/// A query whose reply is measured.
pub(crate) struct Case {
    /// Name of the query in tables.
    pub(crate) title: &'static str,
    protocol: &'static str,
    depth: Depth,
    has_players: bool,
    bar: f64,
}

/// All cases.
pub(crate) const CASES: [Case; 8] = [
    Case {
        title: "Minecraft full stat",
        protocol: "minecraft-query",
        depth: Depth::Full,
        has_players: true,
        bar: 0.9,
    },
    Case {
        title: "OneQuery basic",
        protocol: "onequery",
        depth: Depth::Basic,
        has_players: false,
        bar: 0.85,
    },
    Case {
        title: "OneQuery players",
        protocol: "onequery",
        depth: Depth::Full,
        has_players: true,
        bar: 0.85,
    },
    Case {
        title: "UGP server+rules",
        protocol: "ugp",
        depth: Depth::Full,
        has_players: false,
        bar: 0.85,
    },
    Case {
        title: "GameSpy 2 keys",
        protocol: "gamespy2",
        depth: Depth::Full,
        has_players: false,
        bar: 0.9,
    },
    Case {
        title: "GameSpy 2 tables",
        protocol: "gamespy2",
        depth: Depth::Full,
        has_players: true,
        bar: 0.85,
    },
    Case {
        title: "Quake 3 status",
        protocol: "quake3",
        depth: Depth::Full,
        has_players: true,
        bar: 0.9,
    },
    Case {
        title: "SA-MP info",
        protocol: "samp",
        depth: Depth::Basic,
        has_players: false,
        bar: 0.85,
    },
];

/// Replies until standard input ends. Prints its port first.
pub(crate) fn answer(plan: &Plan) -> anyhow::Result<()> {
    match plan.kind {
        Kind::Raw => raw(&std::fs::read(plan.reply.as_ref().context("--reply")?)?),
        Kind::Pool => {
            let mut config = PoolConfig::default();
            config.workers = 1;
            config.budget = if plan.strict {
                Budget::default()
            } else {
                ample()
            };
            config.budget.is_loopback_limited = true;
            let board = board()?;
            let address = SocketAddr::from((plan.at, 0));
            let pool = ResponderPool::start(
                vec![ListenerConfig {
                    address,
                    board,
                    relay: plan.relay.map(|game| Entrance::always_open(Some(game))),
                    inherited: None,
                }],
                &config,
            )?;
            println!("{}", pool.addresses()[0].port());
            std::io::stdin().read_to_end(&mut Vec::new())?;
            let done = pool.stop();
            let counts = &done[0].counts;
            eprintln!("  the pool: {counts:?}");
            println!("{}", counts.received);
            Ok(())
        }
    }
}

fn raw(reply: &[u8]) -> anyhow::Result<()> {
    let socket = bare::bind(0, false)?;
    println!("{}", socket.local_addr()?.port());
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let mut input = Batch::new(false);
    let mut output = Batch::new(false);
    loop {
        let count = input.receive(&socket)?;
        for i in 0..count {
            output.push(input.get(i).0, 0, |out| {
                out[..reply.len()].copy_from_slice(reply);
                reply.len()
            });
        }
        match count {
            0 => bare::wait(&socket, 200),
            _ => output.send(&socket)?,
        }
    }
}

/// Returns all datagram protocols, for a server of average size.
pub(crate) fn board() -> anyhow::Result<Board> {
    let protocols = registry::datagram_responders()
        .map(|protocol| (protocol, Options::default()))
        .collect();
    Ok(Board::with_options(
        protocols,
        Keys::new(random_secret()),
        &status(),
    )?)
}

/// Returns a budget without effective limits.
pub(crate) fn ample() -> Budget {
    let mut budget = Budget::default();
    budget.unverified_per_source = u32::MAX;
    budget.unverified_packets = u32::MAX;
    budget.unverified_per_network = u32::MAX;
    budget.unverified_total = u32::MAX;
    budget.verified_per_source = u32::MAX;
    budget.verified_packets = u32::MAX;
    budget.unverified_network_packets = u32::MAX;
    budget.unverified_total_packets = u32::MAX;
    budget
}

/// Returns a status of average size.
pub(crate) fn status() -> Status {
    let mut status = Status {
        name: Some(Text::unformatted("A server")),
        motd: Some(Text::legacy("\u{A7}aA \u{A7}lserver\u{A7}r of many colors")),
        map: Some("world".into()),
        version: Some("1.21.8".into()),
        ..Status::default()
    };
    status
        .extra
        .push(Extra::new("software", "Paper on Bukkit 1.21.8"));
    let plugins = ["WorldEdit", "Essentials", "LuckPerms", "Vault", "Dynmap"];
    status.extra.extend(minecraft_query::plugins(
        plugins.map(|name| (name, "1.2.3")),
    ));
    status.players.max = Some(100);
    status.players.online = Some(8);
    status.players.set_list(
        (0..8)
            .map(|i| Player::named(Text::unformatted(format!("player_{i}"))))
            .collect(),
    );
    status
}

/// Server process. Stopped when dropped.
pub(crate) struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    /// Port of the server.
    pub(crate) port: u16,
}

impl Server {
    /// Starts a server and waits until it replies.
    pub(crate) fn start(args: &[&str]) -> anyhow::Result<Self> {
        let args: Vec<String> = ["answer", "--kind"]
            .iter()
            .chain(args)
            .map(|arg| (*arg).into())
            .collect();
        let mut child = host::again(&args)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut out = BufReader::new(child.stdout.take().context("a pipe")?);
        let mut line = String::new();
        out.read_line(&mut line)?;
        let mut server = Self {
            child,
            out,
            port: 0,
        };
        server.port = line.trim().parse().context("the server did not start")?;
        Ok(server)
    }

    /// Returns the id of the process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops a pool. Returns the number of datagrams that it received.
    pub(crate) fn end(mut self) -> anyhow::Result<u64> {
        drop(self.child.stdin.take());
        let mut line = String::new();
        self.out.read_line(&mut line)?;
        line.trim().parse().context("the pool stopping nothing")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a query. Returns its last request and the reply. `talk` returns the reply to a request.
pub(crate) fn capture(
    case: &Case,
    mut talk: impl FnMut(&[u8]) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let protocol: &'static dyn Protocol =
        registry::find(case.protocol).context("a protocol of the registry")?;
    let ask = Ask {
        depth: case.depth,
        has_players: case.has_players,
        ..Ask::default()
    };
    let mut exchange = protocol.exchange(&ask, Cookie(7));
    let mut request = Vec::new();
    let mut step = exchange.handle(Input::Start, &mut request);
    for _ in 0..10 {
        ensure!(step == Step::Send, "{step:?}");
        let reply = talk(&request)?;
        let mut next = Vec::new();
        step = exchange.handle(Input::Datagram(&reply), &mut next);
        if matches!(step, Step::Done(_)) {
            return Ok((request, reply));
        }
        request = next;
    }
    bail!("no end of it")
}

/// Returns a socket, with a request and a reply captured on it: challenge tokens can be bound to
/// the port.
fn open(case: &Case, server: &Server) -> anyhow::Result<(UdpSocket, Vec<u8>, Vec<u8>)> {
    let socket = bare::bind(0, false)?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    let mut buffer = vec![0; LONGEST];
    let (request, reply) = capture(case, |request| {
        socket.send_to(request, (Ipv4Addr::LOCALHOST, server.port))?;
        let length = socket.recv(&mut buffer)?;
        Ok(buffer[..length].to_vec())
    })?;
    Ok((socket, request, reply))
}

/// Keeps a server busy for `time`. Returns the replies per second, and its CPU time per reply in
/// microseconds.
fn load(
    server: &Server,
    socket: &UdpSocket,
    request: &[u8],
    length: usize,
    time: Duration,
) -> anyhow::Result<(f64, f64)> {
    let to = Peer {
        ip: Ipv4Addr::LOCALHOST.to_bits(),
        port: server.port,
    };
    let mut input = Batch::new(false);
    let mut output = Batch::new(false);
    let send = |output: &mut Batch, count: usize| {
        for _ in 0..count {
            output.push(to, 0, |out| {
                out[..request.len()].copy_from_slice(request);
                request.len()
            });
            if output.len() == BATCH {
                output.send(socket)?;
            }
        }
        match output.len() {
            0 => Ok(()),
            _ => output.send(socket),
        }
    };
    let cpu = || host::cpu_of(server.child.id()).context("/proc/PID/stat");
    let started = Instant::now();
    let before = cpu()?;
    let mut received = 0_u64;
    let mut last = Instant::now();
    send(&mut output, WINDOW)?;
    loop {
        let count = input.receive(socket)?;
        let now = Instant::now();
        if now >= started + time {
            break;
        }
        let good = (0..count)
            .filter(|&i| input.get(i).2.len() == length)
            .count();
        received += good as u64;
        if count > 0 {
            last = now;
            send(&mut output, count)?;
        } else if now >= last + SILENCE {
            last = now;
            send(&mut output, WINDOW)?;
        }
    }
    let wall = started.elapsed().as_secs_f64();
    let used = cpu()? - before;
    // Replies in flight must not count for the next run.
    std::thread::sleep(Duration::from_millis(50));
    while input.receive(socket)? > 0 {}
    Ok((received as f64 / wall, used * 1e6 / received.max(1) as f64))
}

/// Sends `rate` requests per second for `time`, each when it is due, without waiting for replies.
/// Returns, in microseconds: percentiles 50, 99 and 99.9 of the time from when a request was due
/// until the system had the reply, and percentile 99 of the time until it was sent.
fn offer(
    server: &Server,
    (socket, request, reply): (UdpSocket, Vec<u8>, Vec<u8>),
    rate: f64,
    time: Duration,
) -> anyhow::Result<[f64; 4]> {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port));
    let mut config = hailer_udp::SocketConfig::default();
    config.has_timestamps = true;
    let socket = hailer_udp::Socket::adopt(socket, &config)?;
    let mut inbox = hailer_udp::Inbox::with_max_length(LONGEST);
    let mut outbox = hailer_udp::Outbox::new();
    let total = (rate * time.as_secs_f64()) as usize;
    let [mut took, mut late] = [(); 2].map(|()| Vec::with_capacity(total));
    let due = |request: usize| request as f64 / rate;
    let started = Instant::now();
    while took.len() < total {
        let now = started.elapsed().as_secs_f64();
        while late.len() < total && due(late.len()) <= now && outbox.len() < BATCH {
            late.push((now - due(late.len())) * 1e6);
            outbox.push(to, None, |out| out.extend_from_slice(&request));
        }
        socket.send(&mut outbox)?;
        socket.receive(&mut inbox)?;
        let now = started.elapsed().as_secs_f64();
        for received in inbox
            .iter()
            .filter(|received| received.bytes.len() == reply.len())
        {
            let waited = received
                .waited
                .context("a system with timestamps")?
                .as_secs_f64();
            // Replies arrive in the order of the requests.
            took.push((now - waited - due(took.len())) * 1e6);
        }
        ensure!(
            now < due(total) + 1.0,
            "{} of {total} requests had no reply",
            total - took.len()
        );
    }
    took.sort_by(f64::total_cmp);
    late.sort_by(f64::total_cmp);
    let of = |sorted: &[f64], share: f64| {
        *sorted
            .get((sorted.len() as f64 * share) as usize)
            .unwrap_or(&f64::NAN)
    };
    Ok([
        of(&took, 0.5),
        of(&took, 0.99),
        of(&took, 0.999),
        of(&late, 0.99),
    ])
}

/// Runs all cases, interleaved.
pub(crate) fn respond(rounds: usize, scale: f64) -> anyhow::Result<()> {
    heading(
        "replies per second on one core, against a loop that sends the same sizes to any datagram",
    );
    host::pin(1);
    let time = Duration::from_secs_f64(2.0 * scale);
    for case in &CASES {
        let pool = Server::start(&["pool"])?;
        let (socket, request, reply) = open(case, &pool)?;
        let file = std::env::temp_dir().join(format!("hailer-bench-{}.reply", std::process::id()));
        std::fs::write(&file, &reply)?;
        let raw = Server::start(&["raw", "--reply", file.to_str().context("a path in UTF-8")?]);
        let _ = std::fs::remove_file(&file);
        let raw = raw?;
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for _ in 0..rounds {
            theirs.push(load(&raw, &socket, &request, reply.len(), time)?);
            ours.push(load(&pool, &socket, &request, reply.len(), time)?);
        }
        println!(
            "{}: requests of {} bytes, replies of {}",
            case.title,
            request.len(),
            reply.len()
        );
        for (name, runs) in [("raw", &theirs), ("pool", &ours)] {
            let rate = median(runs.iter().map(|run| run.0).collect());
            let cost = median(runs.iter().map(|run| run.1).collect());
            println!(
                "  {name:<8} {rate:>9.0}/s {}  {cost:.2} µs of CPU an answer",
                range(runs.iter().map(|run| run.0))
            );
        }
        let ratios: Vec<f64> = ours
            .iter()
            .zip(&theirs)
            .map(|(ours, theirs)| theirs.1 / ours.1)
            .collect();
        at_least(
            &format!("{}, by CPU", case.title),
            median(ratios.clone()),
            case.bar,
            &range(ratios.into_iter()),
        );
        let rate = median(theirs.iter().map(|run| run.0).collect()) / 2.0;
        half_load(case, &raw, &pool, rate, rounds, time)?;
    }
    Ok(())
}

/// Measures the time from request to reply at `rate` requests per second, for both servers in
/// turns.
fn half_load(
    case: &Case,
    raw: &Server,
    pool: &Server,
    rate: f64,
    rounds: usize,
    time: Duration,
) -> anyhow::Result<()> {
    println!(
        "  from request to reply at {rate:.0}/s, half of the raw loop's, in µs: p50, p99, p99.9"
    );
    let mut runs = [(); 2].map(|()| Vec::new());
    for _ in 0..rounds {
        for (server, runs) in [raw, pool].iter().zip(&mut runs) {
            runs.push(offer(server, open(case, pool)?, rate, time)?);
        }
    }
    for (name, runs) in ["raw", "pool"].iter().zip(&runs) {
        let [p50, p99, p999, late] =
            [0, 1, 2, 3].map(|i| median(runs.iter().map(|run| run[i]).collect()));
        let spread = range(runs.iter().map(|run| run[1]));
        println!(
            "  {name:<8} {p50:>7.1} {p99:>7.1} {p999:>7.1}  p99 {spread}; asked late by {late:.1} at p99"
        );
        if late > p99 / 2.0 {
            println!(
                "  ! the client itself was late: others use the machine, or it cannot ask so fast"
            );
        }
    }
    let ratios: Vec<f64> = runs[1]
        .iter()
        .zip(&runs[0])
        .map(|(ours, theirs)| ours[1] / theirs[1])
        .collect();
    let label = format!("times the raw loop's p99 at half load, {}", case.title);
    at_most(
        &label,
        median(ratios.clone()),
        3.0,
        &range(ratios.into_iter()),
    );
    Ok(())
}
