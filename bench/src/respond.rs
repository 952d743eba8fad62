//! The responder's engine against a bare loop that answers the same sizes without looking: a process of its own on one
//! core, asked from another.

use crate::bare::{self, BATCH, Batch, Peer};
use crate::host;
use crate::measure::{at_least, heading, median, range};
use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use hailer::proto::{Cookie, Extra, Input, Keys, Options, Protocol, Step, minecraft_query, registry};
use hailer::respond::{Board, Budget, Engine, Post, Settings, random_secret};
use hailer::{Ask, Depth, Player, Status, Text};
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

/// Requests under way at one time: a queue is never empty, and never full.
const WINDOW: usize = 512;
/// Somebody who hears nothing for so long asks again.
const SILENCE: Duration = Duration::from_millis(100);

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// The same bytes to everybody.
    Raw,
    /// `hailer::respond::Engine`, one worker.
    Engine,
}

/// What to answer.
#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// Who answers.
    #[arg(long, value_enum)]
    kind: Kind,
    /// Of the raw loop: the bytes.
    #[arg(long)]
    reply: Option<PathBuf>,
    /// Of the engine: loopback pays from the default budget, as others do.
    #[arg(long)]
    strict: bool,
    /// Of the engine: where it listens.
    #[arg(long, default_value_t = Ipv4Addr::LOCALHOST)]
    at: Ipv4Addr,
}

struct Case {
    title: &'static str,
    protocol: &'static str,
    depth: Depth,
    players: bool,
    bar: f64,
}

const CASES: [Case; 4] = [
    Case { title: "Minecraft full stat", protocol: "minecraft-query", depth: Depth::Full, players: true, bar: 0.9 },
    Case { title: "OneQuery basic", protocol: "onequery", depth: Depth::Basic, players: false, bar: 0.85 },
    Case { title: "OneQuery players", protocol: "onequery", depth: Depth::Full, players: true, bar: 0.85 },
    Case { title: "UGP server+rules", protocol: "ugp", depth: Depth::Full, players: false, bar: 0.85 },
];

/// Answers until standard input ends. Says its port first.
pub(crate) fn answer(plan: &Plan) -> anyhow::Result<()> {
    match plan.kind {
        Kind::Raw => raw(&std::fs::read(plan.reply.as_ref().context("--reply")?)?),
        Kind::Engine => {
            let protocols = registry::datagram().map(|protocol| (protocol, Options::default())).collect();
            let board = Board::with_options(protocols, Keys::new(random_secret()), &status())?;
            let mut settings = Settings::default();
            settings.workers = 1;
            settings.budget = Budget::default();
            settings.budget.limit_loopback = true;
            if !plan.strict {
                // Everybody pays, and everybody can.
                let budget = &mut settings.budget;
                (budget.unproven_per_source, budget.unproven_packets) = (u32::MAX, u32::MAX);
                (budget.unproven_per_network, budget.unproven_total) = (u32::MAX, u32::MAX);
                (budget.proven_per_source, budget.proven_packets) = (u32::MAX, u32::MAX);
                budget.unproven_total_packets = u32::MAX;
            }
            let address = SocketAddr::from((plan.at, 0));
            let engine = Engine::start(vec![Post { address, board, relay: None, handed: None }], &settings)?;
            println!("{}", engine.addresses()[0].port());
            std::io::stdin().read_to_end(&mut Vec::new())?;
            let done = engine.stop();
            let counts = &done[0].counts;
            eprintln!("  the engine: {counts:?}");
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
    let (mut input, mut output) = (Batch::new(false), Batch::new(false));
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

fn status() -> Status {
    let mut status = Status {
        name: Some(Text::unformatted("A server")),
        motd: Some(Text::legacy("\u{A7}aA \u{A7}lserver\u{A7}r of many colours")),
        map: Some("world".into()),
        version: Some("1.21.8".into()),
        ..Status::default()
    };
    status.extra.push(Extra::new("software", "Paper on Bukkit 1.21.8"));
    let plugins = ["WorldEdit", "Essentials", "LuckPerms", "Vault", "Dynmap"];
    status.extra.extend(minecraft_query::plugins(plugins.map(|name| (name, "1.2.3"))));
    status.players.max = Some(100);
    status.players.online = Some(8);
    status.players.set_list((0..8).map(|i| Player::named(Text::unformatted(format!("player_{i}")))).collect());
    status
}

/// A process that answers. Ended when dropped.
pub(crate) struct Server {
    child: Child,
    out: BufReader<ChildStdout>,
    /// Its port.
    pub(crate) port: u16,
}

impl Server {
    /// Starts one and waits until it answers.
    pub(crate) fn start(args: &[&str]) -> anyhow::Result<Self> {
        let args: Vec<String> = ["answer", "--kind"].iter().chain(args).map(|arg| (*arg).into()).collect();
        let mut child = host::again(&args)?.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut out = BufReader::new(child.stdout.take().context("a pipe")?);
        let mut line = String::new();
        out.read_line(&mut line)?;
        let mut server = Self { child, out, port: 0 };
        server.port = line.trim().parse().context("the server did not start")?;
        Ok(server)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends an engine. Returns how many datagrams it heard.
    pub(crate) fn end(mut self) -> anyhow::Result<u64> {
        drop(self.child.stdin.take());
        let mut line = String::new();
        self.out.read_line(&mut line)?;
        line.trim().parse().context("the engine told nothing")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A whole query; its last request and the reply to that.
fn capture(case: &Case, socket: &UdpSocket, port: u16) -> anyhow::Result<(Vec<u8>, Vec<u8>)> {
    let protocol: &'static dyn Protocol = registry::find(case.protocol).context("a protocol of the registry")?;
    let mut ask = Ask::default();
    (ask.depth, ask.players) = (case.depth, case.players);
    let mut exchange = protocol.exchange(&ask, Cookie(7));
    let (mut request, mut reply) = (Vec::new(), vec![0; 4_096]);
    let mut step = exchange.handle(Input::Start, &mut request);
    for _ in 0..10 {
        ensure!(step == Step::Send, "{step:?}");
        socket.send_to(&request, (Ipv4Addr::LOCALHOST, port))?;
        let length = socket.recv(&mut reply)?;
        let mut next = Vec::new();
        step = exchange.handle(Input::Datagram(&reply[..length]), &mut next);
        if matches!(step, Step::Done(_)) {
            return Ok((request, reply[..length].to_vec()));
        }
        request = next;
    }
    bail!("no end of it")
}

/// Keeps a server busy for so long. Answers a second, and its CPU for each in microseconds.
fn load(
    server: &Server,
    socket: &UdpSocket,
    request: &[u8],
    length: usize,
    time: Duration,
) -> anyhow::Result<(f64, f64)> {
    let to = Peer { ip: Ipv4Addr::LOCALHOST.to_bits(), port: server.port };
    let (mut input, mut output) = (Batch::new(false), Batch::new(false));
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
    let (started, before) = (Instant::now(), cpu()?);
    let (mut heard, mut last) = (0_u64, Instant::now());
    send(&mut output, WINDOW)?;
    loop {
        let count = input.receive(socket)?;
        let now = Instant::now();
        if now >= started + time {
            break;
        }
        let good = (0..count).filter(|&i| input.get(i).2.len() == length).count();
        heard += good as u64;
        if count > 0 {
            last = now;
            send(&mut output, count)?;
        } else if now >= last + SILENCE {
            last = now;
            send(&mut output, WINDOW)?;
        }
    }
    let (wall, used) = (started.elapsed().as_secs_f64(), cpu()? - before);
    // What is still under way is not for the next.
    std::thread::sleep(Duration::from_millis(50));
    while input.receive(socket)? > 0 {}
    Ok((heard as f64 / wall, used * 1e6 / heard.max(1) as f64))
}

/// Each case, interleaved.
pub(crate) fn respond(rounds: usize, scale: f64) -> anyhow::Result<()> {
    heading("answers a second on one core, against a loop that answers the same sizes without looking");
    host::pin(1);
    let socket = bare::bind(0, false)?;
    let time = Duration::from_secs_f64(2.0 * scale);
    for case in &CASES {
        let engine = Server::start(&["engine"])?;
        socket.set_nonblocking(false)?;
        socket.set_read_timeout(Some(Duration::from_secs(2)))?;
        let (request, reply) = capture(case, &socket, engine.port)?;
        let file = std::env::temp_dir().join(format!("hailer-bench-{}.reply", std::process::id()));
        std::fs::write(&file, &reply)?;
        let raw = Server::start(&["raw", "--reply", file.to_str().context("a path in UTF-8")?]);
        let _ = std::fs::remove_file(&file);
        let raw = raw?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            theirs.push(load(&raw, &socket, &request, reply.len(), time)?);
            ours.push(load(&engine, &socket, &request, reply.len(), time)?);
        }
        println!("{}: requests of {} bytes, replies of {}", case.title, request.len(), reply.len());
        for (name, runs) in [("raw", &theirs), ("engine", &ours)] {
            let (rate, cost) =
                (median(runs.iter().map(|run| run.0).collect()), median(runs.iter().map(|run| run.1).collect()));
            println!(
                "  {name:<8} {rate:>9.0}/s {}  {cost:.2} µs of CPU an answer",
                range(runs.iter().map(|run| run.0))
            );
        }
        let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| theirs.1 / ours.1).collect();
        at_least(&format!("{}, by CPU", case.title), median(ratios.clone()), case.bar, &range(ratios.into_iter()));
    }
    Ok(())
}
