//! Hot paths, repeated with little code around them, for counting instructions (`count.rs`) or for
//! a profiler.
//!
//! In: name of a path, number of repetitions. Out: nothing: a tool counts the instructions.
//!
//! May import: `crate::bare`, `crate::client`, `crate::game`, `crate::respond`, `crate::slp`,
//! `hailer`, `hailer_udp`.

use crate::bare::{BATCH, Peer, SLOT};
use crate::client;
use crate::game::{Canned, Game, probe};
use crate::respond::{self, CASES, Case};
use crate::slp;
use anyhow::{Context, ensure};
use hailer::proto::registry;
use hailer::proto::testing::memory::{self, Server as MemoryServer};
use hailer::proto::{Ask, Cookie, Epoch, Keys, Options, Protocol, Responder, Step};
use hailer::respond::Service;
use hailer::sweep::{
    ConnectionOrder, Next, Outboxes, ProbeResult, ProbeSource, Progress, Sink, SweepConfig,
    SweepEngine,
};
use hailer_udp::{Inbox, Outbox, Received, Socket, wait};
use std::hint::black_box;
use std::iter;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// Repeats a path `times` times. Without a path, prints the names of all paths.
pub(crate) fn run(path: Option<&str>, times: u64) -> anyhow::Result<()> {
    let Some(path) = path else {
        names().for_each(|name| println!("{name}"));
        return Ok(());
    };
    let done = match paths()
        .find(|known| known.name() == path)
        .context("no such path")?
    {
        Path::Answer(case) => answer(case, times)?,
        Path::Sweep(protocol) => sweep(protocol, times)?,
        Path::Exchange(protocol) => exchange(protocol, times)?,
        Path::Line(Game::Slp) => status_lines(times)?,
        Path::Line(game) => lines(game, times)?,
        Path::Datagram => datagrams(times)?,
    };
    ensure!(done == times, "{done} of {times}");
    Ok(())
}

/// Names of the paths.
pub(crate) fn names() -> impl Iterator<Item = String> {
    paths().map(|path| path.name())
}

enum Path {
    /// From a datagram of a batch to its reply in the outbox.
    Answer(&'static Case),
    /// From a target to its status, through the sweep's engine. Includes the responder.
    Sweep(&'static dyn Protocol),
    /// The same exchange and replies without the engine.
    Exchange(&'static dyn Protocol),
    /// From a target to its line of NDJSON, through the sweep's engine, with prepared replies.
    Line(Game),
    /// A datagram sent, and one received.
    Datagram,
}

fn paths() -> impl Iterator<Item = Path> {
    let answers = CASES.iter().map(Path::Answer);
    let sweeps = registry::datagram_responders()
        .flat_map(|protocol| [Path::Sweep(protocol), Path::Exchange(protocol)]);
    let lines = [
        Game::Minecraft,
        Game::A2sInfo,
        Game::A2sPlayers,
        Game::Qr2,
        Game::Quake3,
        Game::Slp,
    ]
    .map(Path::Line);
    answers.chain(sweeps).chain(lines).chain([Path::Datagram])
}

impl Path {
    fn name(&self) -> String {
        match self {
            Self::Answer(case) => format!("answer {}", case.title),
            Self::Sweep(protocol) => format!("sweep {}", protocol.info().id),
            Self::Exchange(protocol) => format!("exchange {}", protocol.info().id),
            Self::Line(game) => format!("line {}", game.argument()),
            Self::Datagram => "datagram in and out".into(),
        }
    }
}

fn answer(case: &Case, times: u64) -> anyhow::Result<u64> {
    let mut service = Service::new(respond::board()?, respond::ample());
    let from = SocketAddr::from(([192, 0, 2, 7], 50_000));
    let mut talk = |request: &[u8]| {
        service
            .answer(from, request)
            .next()
            .map(<[u8]>::to_vec)
            .context("no reply")
    };
    let (request, _) = respond::capture(case, &mut talk)?;
    let mut out = Outbox::new();
    let mut done = 0;
    while done < times {
        let batch = (times - done).min(BATCH as u64) as usize;
        let received = Received {
            from,
            to: None,
            waited: None,
            bytes: &request,
        };
        service.answer_batch(iter::repeat_n(received, batch), &mut out);
        ensure!(out.len() == batch, "{} of {batch} were answered", out.len());
        done += batch as u64;
        out.clear();
    }
    Ok(done)
}

fn responder(protocol: &'static dyn Protocol) -> anyhow::Result<Arc<dyn Responder>> {
    Ok(protocol.responder(&respond::status(), &Keys::new([7; 16]), &Options::default())?)
}

const EPOCH: Epoch = Epoch(1);

struct Range {
    next: u64,
    end: u64,
    protocol: &'static dyn Protocol,
}

impl Range {
    fn new(end: u64, protocol: &'static dyn Protocol) -> Self {
        let next = 0;
        Self {
            next,
            end,
            protocol,
        }
    }
}

impl ProbeSource for Range {
    fn next(&mut self) -> Next {
        if self.next == self.end {
            return Next::Done;
        }
        let index = self.next;
        self.next += 1;
        let address = SocketAddr::from(((0x7F00_0001 + index as u32 * 7).to_be_bytes(), 25_565));
        Next::Probe(probe(index, address, self.protocol))
    }

    fn total(&self) -> Option<u64> {
        Some(self.end)
    }
}

#[derive(Default)]
struct Count(u64);

impl Sink for Count {
    fn record(&mut self, end: ProbeResult) {
        self.0 += u64::from(black_box(end).result.is_ok());
    }
    fn report_progress(&mut self, _: &Progress<'_>) {}
}

/// Writes the answers as lines into a buffer.
#[derive(Default)]
struct Lines {
    completed: u64,
    buffer: Vec<u8>,
    address: Vec<u8>,
}

impl Sink for Lines {
    fn record(&mut self, end: ProbeResult) {
        self.completed += u64::from(end.result.is_ok());
        client::write_line(&end, &mut self.address, &mut self.buffer);
        if self.buffer.len() >= 1 << 16 {
            black_box(&self.buffer);
            self.buffer.clear();
        }
    }
    fn report_progress(&mut self, _: &Progress<'_>) {}
}

/// Returns a configuration without rate limits.
fn unlimited() -> SweepConfig {
    let mut config = SweepConfig::default();
    config.rate_limits.rate = f64::INFINITY;
    config.rate_limits.per_network = f64::INFINITY;
    config
}

/// Sweeps `times` servers with the replies of one responder.
fn sweep(protocol: &'static dyn Protocol, times: u64) -> anyhow::Result<u64> {
    let responder = responder(protocol)?;
    let mut engine = SweepEngine::new(unlimited(), [7; 16]);
    let mut out = Outboxes::default();
    let mut count = Count::default();
    let mut source = Range::new(times, protocol);
    let mut now = Duration::ZERO;
    let mut batch: Vec<(SocketAddr, Vec<u8>)> = Vec::new();
    while !engine.is_done() {
        now += Duration::from_micros(100);
        engine.tick(now, &mut out, &mut count);
        engine.start_probes(now, &mut source, &mut out, &mut count);
        batch.clear();
        batch.extend(out.v4.pending().map(|(to, _, bytes)| (to, bytes.to_vec())));
        out.v4.clear();
        for (to, request) in &batch {
            for reply in MemoryServer::new(&*responder, *to, EPOCH).request(request) {
                engine.receive(now, *to, Duration::ZERO, &reply, &mut out, &mut count);
            }
        }
    }
    Ok(count.0)
}

/// Sweeps `times` servers of datagrams with prepared replies.
fn lines(game: Game, times: u64) -> anyhow::Result<u64> {
    let replies = Canned::new(game, 0.0)?;
    let mut config = unlimited();
    config.ask = game.ask();
    let mut engine = SweepEngine::new(config, [7; 16]);
    let mut out = Outboxes::default();
    let mut lines = Lines::default();
    let mut source = Range::new(times, game.protocol());
    let us = Peer { ip: 1, port: 1 };
    let mut now = Duration::ZERO;
    let mut reply = [0; SLOT];
    let mut batch: Vec<(SocketAddr, Vec<u8>)> = Vec::new();
    while !engine.is_done() {
        now += Duration::from_micros(100);
        engine.tick(now, &mut out, &mut lines);
        engine.start_probes(now, &mut source, &mut out, &mut lines);
        batch.clear();
        for (to, _, request) in out.v4.pending() {
            let SocketAddr::V4(v4) = to else { continue };
            let ip = v4.ip().to_bits();
            let request_parts = replies.parse(us, ip, request).context("a known request")?;
            let length = replies.answer(request_parts, us, ip, &mut reply);
            batch.push((to, reply[..length].to_vec()));
        }
        out.v4.clear();
        for (from, reply) in &batch {
            engine.receive(now, *from, Duration::ZERO, reply, &mut out, &mut lines);
        }
    }
    Ok(lines.completed)
}

/// Sweeps `times` servers of status pings with prepared replies.
fn status_lines(times: u64) -> anyhow::Result<u64> {
    let replies = slp::replies(&Game::Slp.opening())?;
    let mut config = unlimited();
    config.ask = Game::Slp.ask();
    let mut engine = SweepEngine::new(config, [7; 16]);
    let mut out = Outboxes::default();
    let mut lines = Lines::default();
    let mut source = Range::new(times, Game::Slp.protocol());
    let mut now = Duration::ZERO;
    let mut orders = Vec::new();
    while !engine.is_done() {
        now += Duration::from_micros(100);
        engine.tick(now, &mut out, &mut lines);
        engine.start_probes(now, &mut source, &mut out, &mut lines);
        while engine.take_orders(&mut orders) {
            for order in orders.drain(..) {
                match order {
                    ConnectionOrder::Connect { id, .. } => engine.connected(now, id, &mut lines),
                    ConnectionOrder::Send { id, .. } => {
                        let reply = &replies[id as usize % replies.len()];
                        engine.receive_stream(now, id, reply, &mut lines);
                    }
                    ConnectionOrder::Reconnect { .. } | ConnectionOrder::Close { .. } => {}
                }
            }
        }
    }
    Ok(lines.completed)
}

fn exchange(protocol: &'static dyn Protocol, times: u64) -> anyhow::Result<u64> {
    let responder = responder(protocol)?;
    let from = SocketAddr::from(([127, 0, 0, 1], 1));
    let mut done = 0;
    for cookie in 0..times {
        let mut exchange = protocol.exchange(&Ask::default(), Cookie(cookie));
        let mut server = MemoryServer::new(&*responder, from, EPOCH);
        let step = memory::run(&mut *exchange, &mut server, |_, _| {});
        done += u64::from(matches!(black_box(step), Step::Done(_)));
    }
    Ok(done)
}

/// Sends datagrams through a real socket. The other side uses the cheapest system calls and never
/// reads.
fn datagrams(times: u64) -> anyhow::Result<u64> {
    let socket = Socket::bind(
        (Ipv4Addr::LOCALHOST, 0).into(),
        &hailer_udp::SocketConfig::default(),
    )?;
    let client = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    client.connect(socket.local_addr())?;
    let mut inbox = Inbox::with_max_length(2_048);
    let mut outbox = Outbox::new();
    let mut done = 0;
    while done < times {
        for _ in 0..BATCH {
            client.send(&[7; 15])?;
        }
        let mut received = 0;
        while received < BATCH {
            let count = socket.receive(&mut inbox)?;
            if count == 0 {
                wait(&[&socket], false, Duration::from_secs(1))?;
            }
            for received in inbox.iter() {
                outbox.push(received.from, received.to, |out| {
                    out.extend_from_slice(&[7; 500]);
                });
            }
            done += socket.send(&mut outbox)? as u64;
            received += count;
        }
    }
    Ok(done)
}
