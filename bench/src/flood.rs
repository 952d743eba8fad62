//! The responder and the relay under a flood from forged sources, next to honest clients.
//!
//! Runs in two network namespaces with a link between them, or on loopback where the system allows
//! no namespaces. The replies to forged sources are counted where they arrive.
//!
//! In: options of the flood. Out: a table of replies, bytes and memory.
//!
//! May import: `crate`, `crate::bare`, `crate::host`, `crate::report`, `crate::respond`, `hailer`,
//! `hailer_udp`.

use crate::bare::{self, BATCH, Batch, Peer};
use crate::host;
use crate::namespace;
use crate::report::{at_least, at_most, heading, median};
use crate::respond::Server;
use anyhow::{Context, ensure};
use clap::Args;
use hailer::Client;
use hailer::respond::{Budget, is_free};
use hailer_udp::{Inbox, Outbox, Socket, SocketConfig};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// The link between the namespaces, with the responder on the near side.
const LINK: u8 = 0;
/// Source of 1 datagram in 8, or of all of them. Represents the victim of an attacker that forges
/// sources. Others have the following addresses.
const VICTIM: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const VICTIM_ON_LOOPBACK: Ipv4Addr = Ipv4Addr::new(127, 51, 100, 7);
/// Largest number of victims.
const MAX_VICTIMS: usize = 20;
/// Protocols of the honest clients, one each.
const PROTOCOLS: [&str; 3] = ["minecraft-query", "onequery", "ugp"];
/// Delay between two queries of an honest client.
const QUERY_DELAY: Duration = Duration::from_millis(20);
/// Time to receive replies after the end of the flood.
const LATE: Duration = Duration::from_millis(300);
/// Tolerance between the clocks of the responder, which refills the budget, and of the flooding
/// process, which checks it.
const CLOCK_TOLERANCE_S: f64 = 0.05;
/// Players that join through the relay.
const PLAYERS: u32 = 40;
/// Timeout of a player for a reply, before the next try.
const PLAYER_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit for a player to join.
const JOIN_DEADLINE: Duration = Duration::from_secs(10);
/// Length of the game server's reply to any unknown datagram, in bytes.
const GAME_REPLY_BYTES: usize = 1_200;
/// Payload of the forged datagrams to the game server.
const JUNK: &[u8; 20] = b"20 bytes of nothing.";
/// Headers of a datagram.
const HEADER_BYTES: u64 = 28;
/// First datagram of a player. As in QUIC and RakNet, it is at least as long as the reply.
const HELLO_BYTES: usize = 1_200;

/// Options of the flooding process.
#[derive(Args, Clone, Debug)]
pub(crate) struct ForgeConfig {
    /// Duration in seconds
    #[arg(long)]
    seconds: f64,
    /// Send across a link through a raw socket; otherwise from addresses of loopback
    #[arg(long)]
    raw: bool,
    /// Send to a game server behind a relay, and let players join
    #[arg(long)]
    relay: bool,
    #[command(flatten)]
    rate: FloodRate,
    #[command(flatten)]
    sources: FloodSources,
}

/// Sources of a flood.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct FloodSources {
    /// Forge only the addresses of this many victims, at most 20; 0: one datagram in 8 from one victim
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=MAX_VICTIMS as i64))]
    victims: u8,
    /// Send other bytes in each datagram
    #[arg(long)]
    other_bytes: bool,
}

impl FloodSources {
    const RANDOM: Self = Self {
        victims: 0,
        other_bytes: false,
    };

    /// Returns the victim of a datagram, or `None` for a random source.
    fn victim(self, bits: u64) -> Option<u8> {
        match self.victims {
            0 => (bits >> 32 & 7 == 0).then_some(0),
            victims => Some((bits % u64::from(victims)) as u8),
        }
    }

    /// Returns the datagram of a forged source. Without other bytes it is always the same for a source,
    /// so the receiver of the reply knows the request.
    fn request(self, from: Ipv4Addr, relay: bool, bits: u64) -> Vec<u8> {
        let mut bytes = request(from, relay).to_vec();
        if self.other_bytes && relay {
            bytes[..8].copy_from_slice(&bits.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
        }
        bytes
    }

    fn args(self) -> [String; 2] {
        let other = if self.other_bytes {
            "--other-bytes"
        } else {
            ""
        };
        [format!("--victims={}", self.victims), other.into()]
    }
}

/// Floods of the relay: datagrams per second and sources.
const RELAY_FLOODS: [(f64, u8); 4] = [(20_000.0, 0), (800.0, 1), (20_000.0, 1), (20_000.0, 20)];

/// Rate of a flood.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct FloodRate {
    /// Datagrams per second; without it, as many as one core can send
    #[arg(long, default_value_t = f64::INFINITY)]
    rate: f64,
}

impl FloodRate {
    pub(crate) fn new(rate: f64) -> Self {
        Self { rate }
    }

    fn wait(self, sent: u64, started: Instant) {
        let due = Duration::from_secs_f64(sent as f64 / self.rate);
        thread::sleep(due.saturating_sub(started.elapsed()));
    }
}

impl Default for FloodRate {
    fn default() -> Self {
        Self {
            rate: f64::INFINITY,
        }
    }
}

/// Results of the flooding process.
#[derive(Serialize, Deserialize, Debug, Default)]
struct Figures {
    /// Duration in seconds.
    wall: f64,
    /// Forged datagrams sent.
    forged: u64,
    clients: Vec<ClientFigures>,
    players: Vec<PlayerFigures>,
    /// Replies to forged sources, and their bytes.
    replies: u64,
    bytes: u64,
    /// Replies that arrived and were not counted, neither here nor by a client.
    uncounted: u64,
    /// Bytes in replies that the budget for all unverified sources pays for.
    charged_bytes: u64,
    /// Bytes to each victim, and number of datagrams.
    to_victims: Vec<(u64, u64)>,
    /// Bytes from each victim, and number of datagrams.
    from_victims: Vec<(u64, u64)>,
    /// Highest level of each budget, as a share of its burst.
    peak_bytes: f64,
    peak_datagrams: f64,
    peak_victim: f64,
}

/// Results of an honest client.
#[derive(Serialize, Deserialize, Debug, Default)]
struct ClientFigures {
    queries: u64,
    /// Queries answered within two tries.
    answered: u64,
}

/// Results of a player.
#[derive(Serialize, Deserialize, Debug, Default)]
struct PlayerFigures {
    has_joined: bool,
    /// Datagrams sent until the player had joined.
    sent: u32,
    /// Time to join in seconds.
    took: f64,
    /// Pings answered in the same session afterwards, of those sent.
    pongs: u32,
    pings: u32,
}

/// Floods the responder for `seconds`.
pub(crate) fn flood(seconds: f64, rate: FloodRate, loopback: bool) -> anyhow::Result<()> {
    let sources = FloodSources::RANDOM;
    run(
        "flood",
        seconds,
        rate,
        sources,
        loopback,
        |seconds, rate, _| judge(seconds, rate),
    )
}

/// Floods the relay for `seconds`, while players join.
pub(crate) fn relay(
    seconds: f64,
    rate: FloodRate,
    sources: FloodSources,
    loopback: bool,
) -> anyhow::Result<()> {
    run("relay", seconds, rate, sources, loopback, judge_relay)
}

/// Floods the relay in all ways, each for `seconds`.
pub(crate) fn relay_all(seconds: f64, loopback: bool) -> anyhow::Result<()> {
    for (rate, victims) in RELAY_FLOODS {
        for other_bytes in [false, true] {
            let sources = FloodSources {
                victims,
                other_bytes,
            };
            relay(seconds, FloodRate::new(rate), sources, loopback)?;
        }
    }
    Ok(())
}

/// Runs `judge` in two namespaces, unless the user selected loopback or the system refuses.
fn run(
    command: &str,
    seconds: f64,
    rate: FloodRate,
    sources: FloodSources,
    loopback: bool,
    judge: fn(f64, FloodRate, FloodSources) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    if namespace::is_inside() {
        return judge(seconds, rate, sources);
    }
    let forged = match sources.victims {
        0 => "forged sources".into(),
        victims => format!("{victims} forged source(s) only"),
    };
    let other = if sources.other_bytes {
        ", other bytes in each datagram"
    } else {
        ""
    };
    heading(&format!("{command}: {forged} for {seconds:.0} s{other}"));
    let inside = if loopback {
        Err("as requested".into())
    } else {
        namespace::enter(std::env::current_exe()?)
    };
    match inside {
        Ok(mut inside) => {
            println!("  in two network namespaces with a link between them");
            let minutes = (seconds / 60.0).to_string();
            let rate = rate.rate.to_string();
            inside.args([command, "--minutes", &minutes, "--rate", &rate]);
            if command == "relay" {
                inside.args(sources.args().iter().filter(|arg| !arg.is_empty()));
            }
            ensure!(inside.status()?.success(), "the flood failed");
            Ok(())
        }
        Err(reason) => {
            println!("  on loopback ({reason})");
            judge(seconds, rate, sources)
        }
    }
}

/// Returns the address of the responder: this side of the link, or loopback.
fn listen_ip(attacker: &Attacker) -> anyhow::Result<Ipv4Addr> {
    if namespace::is_inside() {
        attacker.link()
    } else {
        Ok(Ipv4Addr::LOCALHOST)
    }
}

fn judge(seconds: f64, rate: FloodRate) -> anyhow::Result<()> {
    let mut attacker = Attacker::start(seconds, rate, None)?;
    let ip = listen_ip(&attacker)?;
    let server = Server::start(&["pool", "--strict", "--at", &ip.to_string()])?;
    let cpu = || host::cpu_of(server.pid()).context("/proc/PID/stat");
    let before = cpu()?;
    attacker.attack(SocketAddrV4::new(ip, server.port))?;
    let memory = watch_memory(&server, seconds)?;
    let used = cpu()? - before;
    let figures = attacker.figures()?;
    let received = server.end()? as f64;
    let forged = figures.forged as f64;
    let wall = figures.wall;
    println!(
        "  {:.0} forged datagrams/s; {:.0}/s received; one core could receive {:.0}/s",
        forged / wall,
        received / wall,
        received / used
    );
    println!(
        "  {:.0} replies/s to forged sources, {:.0} kB/s; {:.1} times the datagrams in the budget for all",
        figures.replies as f64 / wall,
        figures.bytes as f64 / wall / 1e3,
        forged / wall / f64::from(Budget::default().unverified_total_packets)
    );
    for (protocol, client) in PROTOCOLS.iter().zip(&figures.clients) {
        at_least(
            &format!("{protocol} queries answered within two tries, as a share"),
            client.answered as f64 / client.queries.max(1) as f64,
            0.95,
            &format!("({} of {})", client.answered, client.queries),
        );
    }
    judge_budget(&figures);
    judge_memory(&memory);
    Ok(())
}

fn judge_relay(seconds: f64, rate: FloodRate, sources: FloodSources) -> anyhow::Result<()> {
    let mut attacker = Attacker::start(seconds, rate, Some(sources))?;
    let ip = listen_ip(&attacker)?;
    let game = Game::start()?;
    let at = ip.to_string();
    let behind = game.address.to_string();
    let server = Server::start(&["pool", "--strict", "--at", &at, "--relay", &behind])?;
    attacker.attack(SocketAddrV4::new(ip, server.port))?;
    let memory = watch_memory(&server, seconds)?;
    let figures = attacker.figures()?;
    let received = server.end()? as f64;
    let wall = figures.wall;
    let with_headers = |(bytes, datagrams): (u64, u64)| (bytes + datagrams * HEADER_BYTES) as f64;
    let forged = with_headers((figures.forged * JUNK.len() as u64, figures.forged));
    println!(
        "  {:.0} forged datagrams/s of {} bytes, {:.0} kB/s with headers; {:.0}/s received",
        figures.forged as f64 / wall,
        JUNK.len(),
        forged / wall / 1e3,
        received / wall
    );
    let replies = with_headers((figures.bytes, figures.replies));
    let ratios = figures.to_victims.iter().zip(&figures.from_victims);
    let ratios = ratios.map(|(to, from)| with_headers(*to) / with_headers(*from).max(1.0));
    at_most(
        "times the bytes of all forged sources were sent to them",
        replies / forged,
        3.0,
        &format!("({:.0} kB/s with headers)", replies / wall / 1e3),
    );
    at_most(
        "times the bytes of a victim that keeps sending were sent to it",
        ratios.fold(0.0, f64::max),
        3.0,
        &format!("(the highest of {})", sources.victims.max(1)),
    );
    let joined: Vec<_> = figures
        .players
        .iter()
        .filter(|player| player.has_joined)
        .collect();
    let sent: Vec<f64> = joined.iter().map(|player| f64::from(player.sent)).collect();
    let took: Vec<f64> = joined.iter().map(|player| player.took).collect();
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    at_least(
        &format!("players joined, of {PLAYERS}"),
        joined.len() as f64,
        f64::from(PLAYERS),
        &format!(
            "(datagrams sent: median {}, most {}; {:.2} s, most {:.2} s)",
            median(sent.clone()),
            most(&sent),
            median(took.clone()),
            most(&took)
        ),
    );
    let pings: u32 = joined.iter().map(|player| player.pings).sum();
    let pongs: u32 = joined.iter().map(|player| player.pongs).sum();
    at_least(
        "pings answered in the same session, as a share",
        f64::from(pongs) / f64::from(pings.max(1)),
        0.95,
        &format!("({pongs} of {pings})"),
    );
    judge_budget(&figures);
    judge_memory(&memory);
    Ok(())
}

/// Samples the server's resident memory, in MiB, 10 times during the flood.
fn watch_memory(server: &Server, seconds: f64) -> anyhow::Result<Vec<f64>> {
    let mut memory = Vec::new();
    for _ in 0..10 {
        thread::sleep(Duration::from_secs_f64(seconds / 10.0));
        let kib = host::resident(server.pid()).context("/proc/PID/status")?;
        memory.push(kib as f64 / 1_024.0);
    }
    Ok(memory)
}

fn judge_budget(figures: &Figures) {
    let pongs = figures.players.iter().map(|player| u64::from(player.pongs));
    let pongs: u64 = pongs.sum();
    at_most(
        "peak share of the budget for all unverified sources",
        figures.peak_bytes,
        1.0,
        &format!(
            "({:.0} kB/s)",
            figures.charged_bytes as f64 / figures.wall / 1e3
        ),
    );
    at_most(
        "peak share of the datagrams for all unverified sources",
        figures.peak_datagrams,
        1.0,
        "",
    );
    at_most(
        "peak share of the budget for one source",
        figures.peak_victim,
        1.0,
        "",
    );
    at_most(
        "replies sent but not counted, as a share",
        figures.uncounted as f64 / (figures.replies + pongs).max(1) as f64,
        0.01,
        "",
    );
}

fn judge_memory(memory: &[f64]) {
    let first = memory[1];
    let last = memory[memory.len() - 1];
    at_most(
        "MiB resident memory at the end",
        last,
        64.0,
        &format!("({first:.1} after a fifth)"),
    );
    at_most("times the memory after a fifth", last / first, 1.05, "");
}

/// Flooding process. Killed when dropped.
struct Attacker {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Attacker {
    /// Starts the process, which waits for its target. With namespaces, it runs in a separate one.
    fn start(seconds: f64, rate: FloodRate, relay: Option<FloodSources>) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?;
        let is_apart = namespace::is_inside();
        let mut command = if is_apart {
            namespace::apart(program)
        } else {
            Command::new(program)
        };
        command.args(["forge", "--seconds", &seconds.to_string()]);
        command.args(["--rate", &rate.rate.to_string()]);
        command.args(is_apart.then_some("--raw"));
        if let Some(sources) = relay {
            command.arg("--relay");
            command.args(sources.args().iter().filter(|arg| !arg.is_empty()));
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let out = BufReader::new(child.stdout.take().context("a pipe")?);
        Ok(Self { child, out })
    }

    /// Links its namespace with this one. Returns the address of this side.
    fn link(&self) -> anyhow::Result<Ipv4Addr> {
        let pid = self.child.id();
        namespace::link(pid, LINK)?;
        // All addresses are on the far side, so replies to forged sources arrive there.
        namespace::ip(&format!("route add default via {}", namespace::far(LINK)))?;
        namespace::ip_there(pid, "route add local default dev lo table main")?;
        Ok(namespace::near(LINK))
    }

    fn attack(&mut self, to: SocketAddrV4) -> anyhow::Result<()> {
        let mut stdin = self.child.stdin.take().context("a pipe")?;
        Ok(writeln!(stdin, "{to}")?)
    }

    fn figures(mut self) -> anyhow::Result<Figures> {
        let mut line = String::new();
        self.out.read_line(&mut line)?;
        serde_json::from_str(&line).context("the flood failed")
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Game server that amplifies: it sends 1,200 bytes in reply to any datagram. Players join in two
/// steps. Stopped when dropped.
struct Game {
    address: SocketAddr,
}

impl Game {
    fn start() -> anyhow::Result<Self> {
        let mut config = SocketConfig::default();
        config.receive_buffer = Some(8 << 20);
        let socket = Socket::bind((Ipv4Addr::LOCALHOST, 0).into(), &config)?;
        let address = socket.local_addr();
        thread::spawn(move || {
            let mut inbox = Inbox::with_max_length(2_048);
            let mut outbox = Outbox::new();
            loop {
                let _ = hailer_udp::wait(&[&socket], !outbox.is_empty(), Duration::from_secs(1));
                let _ = socket.receive(&mut inbox);
                for received in inbox.iter() {
                    let reply = Self::reply(received.from.port(), received.bytes);
                    outbox.push(received.from, None, |out| out.extend_from_slice(&reply));
                }
                let _ = socket.send(&mut outbox);
            }
        });
        Ok(Self { address })
    }

    /// Returns the reply to a datagram from a session. The game server identifies sessions by their
    /// port.
    fn reply(port: u16, bytes: &[u8]) -> Vec<u8> {
        let nonce = Self::nonce(port);
        match bytes.split_first() {
            Some((b'J', rest)) if rest == nonce => [b"W", &nonce[..]].concat(),
            Some((b'P', _)) => [b"P", &nonce[..]].concat(),
            _ => {
                let mut reply = [b"H", &nonce[..]].concat();
                reply.resize(GAME_REPLY_BYTES, 0);
                reply
            }
        }
    }

    fn nonce(port: u16) -> [u8; 4] {
        u32::from(port).wrapping_mul(0x9E37_79B1).to_be_bytes()
    }
}

/// Floods the address on standard input, runs the honest clients or players, and counts the
/// replies.
pub(crate) fn forge(config: &ForgeConfig) -> anyhow::Result<()> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let to: SocketAddrV4 = line.trim().parse().context("an address to flood")?;
    let is_allowed = if config.raw {
        namespace::is_inside()
    } else {
        to.ip().is_loopback()
    };
    ensure!(
        is_allowed,
        "floods go to loopback and to network namespaces of this program only"
    );
    let mut socket_config = SocketConfig::default();
    socket_config.has_destination = true;
    socket_config.receive_buffer = Some(32 << 20);
    let socket = Socket::bind((Ipv4Addr::UNSPECIFIED, 0).into(), &socket_config)?;
    let before = if config.raw { arrived()? } else { 0 };
    let started = Instant::now();
    let end = started + Duration::from_secs_f64(config.seconds);
    let stop = AtomicBool::new(false);
    let mut figures = thread::scope(|scope| -> anyhow::Result<Figures> {
        let counter = scope.spawn(|| count_replies(&socket, config, &stop));
        let mut clients = Vec::new();
        let mut players = Vec::new();
        if config.relay {
            for index in 0..PLAYERS {
                // The first player joins when the flood has filled the relay, the last one early
                // enough to be judged.
                let share = 0.2 + 0.4 * f64::from(index) / f64::from(PLAYERS);
                let start = started + Duration::from_secs_f64(config.seconds * share);
                let raw = config.raw;
                players.push(scope.spawn(move || play(to, index, raw, start, end)));
            }
        } else {
            for protocol in PROTOCOLS {
                clients.push(scope.spawn(move || query(protocol, to, end)));
            }
        }
        // On a busy machine the flood slows down: it must not win by taking CPU time from the
        // responder.
        let _ = rustix::process::nice(19);
        let port = socket.local_addr().port();
        let forged = if config.raw {
            send_raw(to, port, config, end)
        } else {
            send_loopback(to, &socket, config, end)
        };
        let wall = started.elapsed().as_secs_f64();
        let clients = join_all(clients)?;
        let players = join_all(players)?;
        thread::sleep(LATE);
        stop.store(true, Ordering::Relaxed);
        let mut figures = join_all(vec![counter])?.remove(0);
        figures.wall = wall;
        let forged = forged?;
        figures.forged = forged.sent;
        figures.from_victims = forged.from_victims.to_vec();
        figures.clients = clients;
        figures.players = players;
        Ok(figures)
    })?;
    figures.uncounted = if config.raw {
        // A query has at most 2 replies for each of 2 tries. A player has a reply for each
        // datagram.
        let queries: u64 = figures.clients.iter().map(|client| client.queries).sum();
        let sent = figures
            .players
            .iter()
            .map(|player| player.sent + player.pings);
        let sent: u64 = sent.map(u64::from).sum();
        (arrived()? - before).saturating_sub(figures.replies + 4 * queries + sent)
    } else {
        socket.overflows()
    };
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

fn join_all<T>(threads: Vec<ScopedJoinHandle<'_, anyhow::Result<T>>>) -> anyhow::Result<Vec<T>> {
    let results = threads.into_iter().map(|thread| match thread.join() {
        Ok(result) => result,
        Err(_) => Err(anyhow::anyhow!("a thread of the flood panicked")),
    });
    results.collect()
}

/// Frames received from the link so far.
fn arrived() -> anyhow::Result<u64> {
    let table = std::fs::read_to_string("/proc/net/dev")?;
    let name = format!("far{LINK}:");
    let line = table
        .lines()
        .find_map(|line| line.trim().strip_prefix(&name))
        .context("no link")?;
    line.split_whitespace()
        .nth(1)
        .and_then(|frames| frames.parse().ok())
        .context("a count of frames")
}

/// Returns the datagram of a forged source. It is always the same, so the receiver of the reply
/// knows the request.
fn request(from: Ipv4Addr, relay: bool) -> &'static [u8] {
    const UGP: &[u8] = b"\xFF\xFFUGP\0\x01\x01\x03\x7D\x7F\x3D";
    if relay {
        return JUNK;
    }
    // The request with the highest amplification.
    if from == VICTIM || from == VICTIM_ON_LOOPBACK {
        return UGP;
    }
    match from.to_bits().wrapping_mul(0x9E37_79B1) >> 16 & 7 {
        0 | 1 => b"\xFE\xFD\x09\x01\x02\x03\x04",
        2 => b"\xFE\xFD\x00\x01\x02\x03\x04\x11\x22\x33\x44\0\0\0\0",
        3 => b"ONEQUERY\0",
        4 => b"nothing that any protocol has",
        _ => UGP,
    }
}

/// Returns the next number of a fast linear congruential generator with a long period.
fn next(random: &mut u64) -> u64 {
    *random = random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *random >> 29
}

/// Datagrams that were forged.
#[derive(Default)]
struct Forged {
    sent: u64,
    /// Bytes and datagrams of each victim.
    from_victims: [(u64, u64); MAX_VICTIMS],
}

/// Returns the next source of a flood and its datagram. `random`: an address for random bits.
fn forge_one(
    config: &ForgeConfig,
    random: &mut u64,
    forged: &mut Forged,
    address: fn(u32) -> Ipv4Addr,
) -> (Ipv4Addr, Vec<u8>) {
    let bits = next(random);
    let victim = config.sources.victim(bits);
    let from = match victim {
        Some(index) => victim_address(index, config.raw),
        None => address(bits as u32),
    };
    let payload = config.sources.request(from, config.relay, bits);
    if let Some((bytes, datagrams)) =
        victim.and_then(|index| forged.from_victims.get_mut(usize::from(index)))
    {
        *bytes += payload.len() as u64;
        *datagrams += 1;
    }
    (from, payload)
}

fn victim_address(index: u8, raw: bool) -> Ipv4Addr {
    let first = if raw { VICTIM } else { VICTIM_ON_LOOPBACK };
    Ipv4Addr::from_bits(first.to_bits() + u32::from(index))
}

/// Returns the number of the victim with this address, if it is one.
fn victim_index(address: Ipv4Addr, victims: u8) -> Option<usize> {
    let of = |raw| (0..victims.max(1)).position(|index| victim_address(index, raw) == address);
    of(true).or_else(|| of(false))
}

/// Floods from all addresses that a host on the Internet may have.
fn send_raw(
    to: SocketAddrV4,
    port: u16,
    config: &ForgeConfig,
    until: Instant,
) -> anyhow::Result<Forged> {
    // Datagrams of a raw socket of this protocol have their own IP header.
    let raw = socket(
        AddressFamily::Inet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::Raw,
    )?;
    let raw = UdpSocket::from(raw);
    let mut batch = Batch::new(false);
    let peer = Peer {
        ip: to.ip().to_bits(),
        port: 0,
    };
    let started = Instant::now();
    let mut random = 1;
    let mut forged = Forged::default();
    while Instant::now() < until {
        while batch.len() < BATCH {
            let (from, payload) = forge_one(config, &mut random, &mut forged, Ipv4Addr::from_bits);
            if matches!(from.octets()[0], 0 | 10 | 127 | 224..) {
                continue;
            }
            let from = SocketAddrV4::new(from, port);
            batch.push(peer, 0, |out| write_datagram(out, from, to, &payload));
        }
        batch.send(&raw)?;
        forged.sent += BATCH as u64;
        config.rate.wait(forged.sent, started);
    }
    Ok(forged)
}

/// Writes headers and payload. The system writes the IP checksum; that of UDP is optional.
fn write_datagram(
    out: &mut [u8; bare::SLOT],
    from: SocketAddrV4,
    to: SocketAddrV4,
    payload: &[u8],
) -> usize {
    let length = 28 + payload.len();
    out[..28].fill(0);
    // Version 4 with 20 bytes of header, time to live, UDP.
    out[0] = 0x45;
    out[8] = 64;
    out[9] = 17;
    out[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    out[12..16].copy_from_slice(&from.ip().octets());
    out[16..20].copy_from_slice(&to.ip().octets());
    out[20..22].copy_from_slice(&from.port().to_be_bytes());
    out[22..24].copy_from_slice(&to.port().to_be_bytes());
    out[24..26].copy_from_slice(&(length as u16 - 20).to_be_bytes());
    out[28..length].copy_from_slice(payload);
    length
}

/// Floods from all addresses of loopback.
fn send_loopback(
    to: SocketAddrV4,
    socket: &Socket,
    config: &ForgeConfig,
    until: Instant,
) -> anyhow::Result<Forged> {
    let started = Instant::now();
    let mut outbox = Outbox::new();
    let mut random = 1;
    let mut forged = Forged::default();
    while Instant::now() < until {
        for _ in 0..BATCH {
            let (from, payload) = forge_one(config, &mut random, &mut forged, |bits| {
                let [_, a, b, c] = bits.to_be_bytes();
                Ipv4Addr::new(127, a | 1, b, c)
            });
            outbox.push(to.into(), Some(from.into()), |out| {
                out.extend_from_slice(&payload);
            });
        }
        forged.sent += socket.send(&mut outbox)? as u64;
        outbox.clear();
        config.rate.wait(forged.sent, started);
    }
    Ok(forged)
}

/// Sends one query after the other, each with two tries of one datagram a step.
fn query(protocol: &str, to: SocketAddrV4, until: Instant) -> anyhow::Result<ClientFigures> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut config = hailer::client::ClientConfig::default();
    config.limits.retries = 0;
    let client = Client::new(config);
    let target = format!("{protocol}://{to}");
    let mut figures = ClientFigures::default();
    while Instant::now() < until {
        figures.queries += 1;
        let answered = || runtime.block_on(client.query(target.as_str())).is_ok();
        if answered() || answered() {
            figures.answered += 1;
        }
        thread::sleep(QUERY_DELAY);
    }
    Ok(figures)
}

/// Joins the game through the relay like a game client, with retries, and then sends pings until
/// the end.
fn play(
    to: SocketAddrV4,
    index: u32,
    raw: bool,
    start: Instant,
    end: Instant,
) -> anyhow::Result<PlayerFigures> {
    thread::sleep(start.saturating_duration_since(Instant::now()));
    // Each player is in a different network. On the far side of the link every address is local.
    let first = if raw { 203 } else { 127 };
    let socket = UdpSocket::bind((Ipv4Addr::new(first, 100, index as u8, 9), 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(PLAYER_TIMEOUT))?;
    let mut figures = PlayerFigures::default();
    let mut buffer = [0; 2_048];
    // Returns the reply that starts with this byte, without the byte.
    let mut exchange = |request: &[u8], kind: u8| -> anyhow::Result<Option<[u8; 4]>> {
        socket.send(request)?;
        while let Ok(length) = socket.recv(&mut buffer) {
            if let [first, nonce @ ..] = &buffer[..length]
                && *first == kind
                && let Some(nonce) = nonce.first_chunk()
            {
                return Ok(Some(*nonce));
            }
        }
        Ok(None)
    };
    let mut hello = b"Hello, may I join?".to_vec();
    hello.resize(HELLO_BYTES, 0);
    let deadline = (start + JOIN_DEADLINE).min(end);
    let mut session = None;
    while session.is_none() && Instant::now() < deadline {
        figures.sent += 1;
        if let Some(nonce) = exchange(&hello, b'H')? {
            figures.sent += 1;
            session = exchange(&[b"J", &nonce[..]].concat(), b'W')?;
        }
    }
    figures.has_joined = session.is_some();
    figures.took = start.elapsed().as_secs_f64();
    while figures.has_joined && Instant::now() < end {
        figures.pings += 1;
        figures.pongs += u32::from(exchange(b"P", b'P')? == session);
        thread::sleep(Duration::from_millis(50));
    }
    Ok(figures)
}

/// Budget as observed by its receiver.
struct Gauge {
    rate: f64,
    burst: f64,
    level: f64,
    peak: f64,
    at: Instant,
}

impl Gauge {
    /// Returns a budget of `rate` per second with a burst of `seconds`.
    fn new(rate: u32, seconds: f64) -> Self {
        let rate = f64::from(rate);
        Self {
            rate,
            burst: rate * (seconds + CLOCK_TOLERANCE_S),
            level: 0.0,
            peak: 0.0,
            at: Instant::now(),
        }
    }

    fn add(&mut self, amount: f64, now: Instant) {
        let refilled = (now - self.at).as_secs_f64() * self.rate;
        self.level = (self.level - refilled).max(0.0) + amount;
        self.at = now;
        self.peak = self.peak.max(self.level / self.burst);
    }
}

/// Counts the replies to forged sources.
fn count_replies(
    socket: &Socket,
    config: &ForgeConfig,
    stop: &AtomicBool,
) -> anyhow::Result<Figures> {
    let mut inbox = Inbox::with_max_length(4_096);
    let mut figures = Figures::default();
    let budget = Budget::default();
    let mut all = Gauge::new(budget.unverified_total, 1.0);
    let mut datagrams = Gauge::new(budget.unverified_total_packets, 1.0);
    let mut victim = Gauge::new(budget.unverified_per_source, 4.0);
    figures.to_victims = vec![(0, 0); MAX_VICTIMS];
    while !stop.load(Ordering::Relaxed) {
        if socket.receive(&mut inbox)? == 0 {
            hailer_udp::wait(&[socket], false, Duration::from_millis(20))?;
            continue;
        }
        let now = Instant::now();
        for received in inbox.iter() {
            let Some(IpAddr::V4(to)) = received.to else {
                continue;
            };
            let length = received.bytes.len();
            figures.replies += 1;
            figures.bytes += length as u64;
            if let Some(index) = victim_index(to, config.sources.victims) {
                let (bytes, datagrams) = &mut figures.to_victims[index];
                *bytes += length as u64;
                *datagrams += 1;
                if index == 0 {
                    victim.add(length as f64, now);
                }
            }
            // Through the relay, all replies to a source together are at most three times its bytes.
            let is_exempt = config.relay || is_free(request(to, false).len(), length);
            if !is_exempt {
                figures.charged_bytes += length as u64;
                all.add(length as f64, now);
                datagrams.add(1.0, now);
            }
        }
    }
    figures.peak_bytes = all.peak;
    figures.peak_datagrams = datagrams.peak;
    figures.peak_victim = victim.peak;
    Ok(figures)
}
