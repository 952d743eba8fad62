//! The responder under a flood from forged sources, and beside it a client that behaves. In two network namespaces with a link between
//! them; on loopback where there can be none. What is sent to the forged sources is counted where it arrives.

use crate::bare::{self, BATCH, Batch, Peer};
use crate::host;
use crate::measure::{at_least, at_most, heading};
use crate::namespace;
use crate::respond::Server;
use anyhow::{Context, ensure};
use clap::Args;
use hailer::Client;
use hailer::respond::{Budget, FREE_RATIO};
use hailer_udp::{Inbox, Outbox, Socket, SocketConfig};
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, socket};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The link between the namespaces, with the responder on the near side.
const LINK: u8 = 0;
/// One datagram in eight pretends to come from here: whoever forges sources means somebody.
const VICTIM: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);
const VICTIM_ON_LOOPBACK: Ipv4Addr = Ipv4Addr::new(127, 51, 100, 7);
/// The client asks again so soon after an answer.
const PAUSE: Duration = Duration::from_millis(20);
/// Replies that are late are heard for so long.
const LATE: Duration = Duration::from_millis(300);
/// The budget flows back by the responder's clock, and is held against the clock of whoever counts.
const CLOCKS: f64 = 0.05;

/// What the flooding process does.
#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// For so many seconds.
    #[arg(long)]
    seconds: f64,
    /// Across a link, through a raw socket. Else from addresses of loopback, which are this machine's own.
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    pace: Pace,
}

/// How fast a flood is.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The most datagrams in a second; without it, as fast as one core sends.
    #[arg(long, default_value_t = f64::INFINITY)]
    pace: f64,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            pace: f64::INFINITY,
        }
    }
}

impl Pace {
    fn wait(self, sent: u64, started: Instant) {
        let due = Duration::from_secs_f64(sent as f64 / self.pace);
        std::thread::sleep(due.saturating_sub(started.elapsed()));
    }
}

/// What it says in the end.
#[derive(Serialize, Deserialize, Debug, Default)]
struct Figures {
    wall: f64,
    forged: u64,
    /// Queries of the client that behaves, and those answered within two tries.
    asked: u64,
    answered: u64,
    /// What came back to forged sources, and what of it was counted neither there nor by the client.
    replies: u64,
    bytes: u64,
    uncounted: u64,
    /// More than a harmless multiple of its request: in all, and at its fullest moment as a share of the burst.
    paid: u64,
    peak_bytes: f64,
    peak_datagrams: f64,
    peak_victim: f64,
}

/// Floods for so long, and judges. In two namespaces, unless told otherwise or refused.
pub(crate) fn flood(seconds: f64, pace: Pace, loopback: bool) -> anyhow::Result<()> {
    if namespace::is_inside() {
        return judge(seconds, pace);
    }
    heading(&format!("a flood from forged sources for {seconds:.0} s"));
    let inside = if loopback {
        Err("as told".into())
    } else {
        namespace::enter(std::env::current_exe()?)
    };
    match inside {
        Ok(mut inside) => {
            println!("  in two network namespaces with a link between them");
            let status = inside
                .args([
                    "flood",
                    "--minutes",
                    &(seconds / 60.0).to_string(),
                    "--pace",
                    &pace.pace.to_string(),
                ])
                .status()?;
            ensure!(status.success(), "the flood broke off");
            Ok(())
        }
        Err(reason) => {
            println!("  on loopback ({reason})");
            judge(seconds, pace)
        }
    }
}

fn judge(seconds: f64, pace: Pace) -> anyhow::Result<()> {
    let mut attacker = Attacker::start(seconds, pace)?;
    let at = if namespace::is_inside() {
        attacker.link()?
    } else {
        Ipv4Addr::LOCALHOST
    };
    let server = Server::start(&["engine", "--strict", "--at", &at.to_string()])?;
    let resident = || host::resident(server.pid()).context("/proc/PID/status");
    let cpu = || host::cpu_of(server.pid()).context("/proc/PID/stat");
    let (mut memory, before) = (Vec::new(), cpu()?);
    attacker.attack(SocketAddrV4::new(at, server.port))?;
    for _ in 0..10 {
        std::thread::sleep(Duration::from_secs_f64(seconds / 10.0));
        memory.push(resident()? as f64 / 1_024.0);
    }
    let used = cpu()? - before;
    let figures = attacker.figures()?;
    let heard = server.end()? as f64;
    let Figures {
        wall,
        forged,
        asked,
        answered,
        replies,
        bytes,
        uncounted,
        paid,
        ..
    } = figures;
    let (forged, replies) = (forged as f64, replies as f64);
    println!(
        "  {:.0} forged and {:.0} heard in a second; it could hear {:.0} with all of its core: a flood of {:.2} times that",
        forged / wall,
        heard / wall,
        heard / used,
        forged / wall / (heard / used)
    );
    let budget = Budget::default();
    println!(
        "  {:.0} replies to forged sources in a second, {} kB of it; {:.1} times the datagrams that the budget has for them",
        replies / wall,
        (bytes as f64 / wall / 1e3) as u64,
        forged / wall / f64::from(budget.unverified_total_packets)
    );
    let share = answered as f64 / asked.max(1) as f64;
    at_least(
        "of the client's queries answered within two tries",
        share,
        0.95,
        &format!("({answered} of {asked})"),
    );
    let kb = |bytes: f64| format!("({:.0} kB a second)", bytes / wall / 1e3);
    at_most(
        "of the budget for all, at its fullest moment",
        figures.peak_bytes,
        1.0,
        &kb(paid as f64),
    );
    at_most(
        "of the datagrams for all, at its fullest moment",
        figures.peak_datagrams,
        1.0,
        "",
    );
    at_most(
        "of the budget for one source, at its fullest moment",
        figures.peak_victim,
        1.0,
        "",
    );
    at_most(
        "of the replies sent, but not counted",
        uncounted as f64 / replies.max(1.0),
        0.01,
        "",
    );
    let (first, last) = (memory[1], memory[memory.len() - 1]);
    at_most(
        "MiB resident at the end",
        last,
        64.0,
        &format!("({first:.1} after a fifth)"),
    );
    at_most("times the memory after a fifth", last / first, 1.05, "");
    Ok(())
}

/// The process that floods. Ended when dropped.
struct Attacker {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Attacker {
    /// Starts it; it waits to be told whom to flood. Where there are namespaces, it has one of its own.
    fn start(seconds: f64, pace: Pace) -> anyhow::Result<Self> {
        let program = std::env::current_exe()?;
        let is_apart = namespace::is_inside();
        let mut command = if is_apart {
            namespace::apart(program)
        } else {
            Command::new(program)
        };
        command
            .args([
                "forge",
                "--seconds",
                &seconds.to_string(),
                "--pace",
                &pace.pace.to_string(),
            ])
            .args(is_apart.then_some("--raw"));
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
        // All the world seems to live over there, so that replies to whoever is forged arrive.
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
        serde_json::from_str(&line).context("the flood broke off")
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Floods whom a line on standard input names, asks as one who behaves does, and counts what comes back.
pub(crate) fn forge(plan: &Plan) -> anyhow::Result<()> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let to: SocketAddrV4 = line.trim().parse().context("whom to flood")?;
    let is_ours = if plan.raw {
        namespace::is_inside()
    } else {
        to.ip().is_loopback()
    };
    ensure!(
        is_ours,
        "floods go to loopback, and to namespaces of our own"
    );
    let mut settings = SocketConfig::default();
    (settings.destination, settings.receive_buffer) = (true, Some(32 << 20));
    let socket = Socket::bind((Ipv4Addr::UNSPECIFIED, 0).into(), &settings)?;
    let before = if plan.raw { arrived()? } else { 0 };
    let (started, time, stop) = (
        Instant::now(),
        Duration::from_secs_f64(plan.seconds),
        AtomicBool::new(false),
    );
    let mut figures = std::thread::scope(|scope| -> anyhow::Result<Figures> {
        let ears = scope.spawn(|| hear(&socket, &stop));
        let client = scope.spawn(|| behave(to, started + time));
        // On a machine that others use as well, the flood is what gives way: it must not win by taking the responder's turn.
        let _ = rustix::process::nice(19);
        let forged = match plan.raw {
            true => send_raw(to, socket.local_addr().port(), started + time, plan.pace),
            false => send_loopback(to, &socket, started + time, plan.pace),
        };
        let wall = started.elapsed().as_secs_f64();
        let client = client.join();
        std::thread::sleep(LATE);
        stop.store(true, Ordering::Relaxed);
        let mut figures = ears.join().map_err(|_| anyhow::anyhow!("nobody heard"))??;
        (figures.wall, figures.forged) = (wall, forged?);
        (figures.answered, figures.asked) =
            client.map_err(|_| anyhow::anyhow!("the client broke off"))??;
        Ok(figures)
    })?;
    figures.uncounted = match plan.raw {
        // A query of the client is two datagrams at most, each way.
        true => (arrived()? - before).saturating_sub(figures.replies + 2 * figures.asked),
        false => socket.overflows(),
    };
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

/// Frames that the link brought to this side.
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

/// What comes from a source, always the same: so whoever hears the reply knows the request. Four kinds of query, one of nonsense.
fn request(from: Ipv4Addr) -> &'static [u8] {
    const UGP: &[u8] = b"\xFF\xFFUGP\0\x01\x01\x03\x7D\x7F\x3D";
    // What is amplified most.
    if from == VICTIM || from == VICTIM_ON_LOOPBACK {
        return UGP;
    }
    match from.to_bits().wrapping_mul(0x9E37_79B1) >> 16 & 7 {
        0 | 1 => b"\xFE\xFD\x09\x01\x02\x03\x04",
        2 => b"\xFE\xFD\x00\x01\x02\x03\x04\x11\x22\x33\x44\0\0\0\0",
        3 => b"ONEQUERY\0",
        4 => b"nothing that anybody knows",
        _ => UGP,
    }
}

/// Numbers that repeat late and are made fast.
fn next(random: &mut u64) -> u64 {
    *random = random
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *random >> 29
}

/// From all addresses that a host on the Internet may have.
fn send_raw(to: SocketAddrV4, port: u16, until: Instant, pace: Pace) -> anyhow::Result<u64> {
    // Of this kind is who writes the heads of IP too.
    let raw = socket(
        AddressFamily::Inet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::Raw,
    )?;
    let (raw, mut batch) = (UdpSocket::from(raw), Batch::new(false));
    let peer = Peer {
        ip: to.ip().to_bits(),
        port: 0,
    };
    let (started, mut random, mut sent) = (Instant::now(), 1, 0);
    while Instant::now() < until {
        while batch.len() < BATCH {
            let bits = next(&mut random);
            let from = if bits >> 32 & 7 == 0 {
                VICTIM
            } else {
                Ipv4Addr::from_bits(bits as u32)
            };
            if matches!(from.octets()[0], 0 | 10 | 127 | 224..) {
                continue;
            }
            batch.push(peer, 0, |out| {
                write_datagram(out, SocketAddrV4::new(from, port), to, request(from))
            });
        }
        batch.send(&raw)?;
        sent += BATCH as u64;
        pace.wait(sent, started);
    }
    Ok(sent)
}

/// Heads and payload. The system writes the checksum of the first; that of the second may be none.
fn write_datagram(
    out: &mut [u8; bare::SLOT],
    from: SocketAddrV4,
    to: SocketAddrV4,
    payload: &[u8],
) -> usize {
    let length = 28 + payload.len();
    out[..28].fill(0);
    (out[0], out[8], out[9]) = (0x45, 64, 17);
    out[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    out[12..16].copy_from_slice(&from.ip().octets());
    out[16..20].copy_from_slice(&to.ip().octets());
    out[20..22].copy_from_slice(&from.port().to_be_bytes());
    out[22..24].copy_from_slice(&to.port().to_be_bytes());
    out[24..26].copy_from_slice(&(length as u16 - 20).to_be_bytes());
    out[28..length].copy_from_slice(payload);
    length
}

/// From all of loopback.
fn send_loopback(
    to: SocketAddrV4,
    socket: &Socket,
    until: Instant,
    pace: Pace,
) -> anyhow::Result<u64> {
    let (started, mut outbox, mut random, mut sent) = (Instant::now(), Outbox::new(), 1, 0);
    while Instant::now() < until {
        for _ in 0..BATCH {
            let bits = next(&mut random);
            let [_, a, b, c] = (bits as u32).to_be_bytes();
            let from = if bits >> 32 & 7 == 0 {
                VICTIM_ON_LOOPBACK
            } else {
                Ipv4Addr::new(127, a | 1, b, c)
            };
            outbox.push(to.into(), Some(from.into()), |out| {
                out.extend_from_slice(request(from));
            });
        }
        sent += socket.send(&mut outbox)? as u64;
        outbox.clear();
        pace.wait(sent, started);
    }
    Ok(sent)
}

/// Asks one query after the other, each with two tries of one datagram a step. How many were answered, of how many.
fn behave(to: SocketAddrV4, until: Instant) -> anyhow::Result<(u64, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut settings = hailer::ClientConfig::default();
    settings.limits.retries = 0;
    let (client, target) = (Client::new(settings), format!("minecraft-query://{to}"));
    let (mut answered, mut asked) = (0, 0);
    while Instant::now() < until {
        asked += 1;
        let ask = || runtime.block_on(client.query(target.as_str())).is_ok();
        answered += u64::from(ask() || ask());
        std::thread::sleep(PAUSE);
    }
    Ok((answered, asked))
}

/// A budget, kept by whoever is sent to: how full it was at its fullest.
struct Gauge {
    rate: f64,
    burst: f64,
    level: f64,
    peak: f64,
    at: Instant,
}

impl Gauge {
    /// Of a rate in a second and a burst of so many seconds.
    fn new(rate: u32, seconds: f64) -> Self {
        let rate = f64::from(rate);
        Self {
            rate,
            burst: rate * (seconds + CLOCKS),
            level: 0.0,
            peak: 0.0,
            at: Instant::now(),
        }
    }

    fn add(&mut self, amount: f64, now: Instant) {
        let flown = (now - self.at).as_secs_f64() * self.rate;
        self.level = (self.level - flown).max(0.0) + amount;
        self.at = now;
        self.peak = self.peak.max(self.level / self.burst);
    }
}

/// Counts what comes to forged sources.
fn hear(socket: &Socket, stop: &AtomicBool) -> anyhow::Result<Figures> {
    let (mut inbox, mut figures) = (Inbox::with_max_length(4_096), Figures::default());
    let budget = Budget::default();
    let mut all = Gauge::new(budget.unverified_total, 1.0);
    let mut datagrams = Gauge::new(budget.unverified_total_packets, 1.0);
    let mut victim = Gauge::new(budget.unverified_per_source, 4.0);
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
            (figures.replies, figures.bytes) = (figures.replies + 1, figures.bytes + length as u64);
            if length > request(to).len() * FREE_RATIO {
                figures.paid += length as u64;
                all.add(length as f64, now);
                datagrams.add(1.0, now);
            }
            if matches!(to, VICTIM | VICTIM_ON_LOOPBACK) {
                victim.add(length as f64, now);
            }
        }
    }
    (
        figures.peak_bytes,
        figures.peak_datagrams,
        figures.peak_victim,
    ) = (all.peak, datagrams.peak, victim.peak);
    Ok(figures)
}
