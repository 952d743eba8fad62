//! Client of a measurement: the bare loop or the sweep. Each run is a new process, which measures
//! itself.
//!
//! In: a plan as arguments. Out: figures as JSON on standard output.
//!
//! May import: `crate::bare`, `crate::figures`, `crate::game`, `crate::slp`, `hailer`.

use crate::bare::{self, BATCH, Batch, Peer};
use crate::figures::Figures;
use crate::game::{Game, ip, probe, target};
use crate::slp;
use anyhow::Context;
use clap::{Args, ValueEnum};
use hailer::proto::Protocol;
use hailer::support::report::{AnswerLine, json};
use hailer::sweep::{self, Next, ProbeResult, ProbeSource, Progress, Sink};
use nix::sys::resource::{UsageWho, getrusage};
use std::fs::File;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Kind of client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Does nothing, to measure the memory of an empty process.
    Empty,
    /// The bare loop.
    Bare,
    /// `hailer::sweep`.
    Sweep,
}

/// Options of a client.
#[derive(Args, Clone, Debug)]
pub(crate) struct Plan {
    /// The client.
    #[arg(long, value_enum)]
    pub(crate) kind: Kind,
    /// The protocol.
    #[arg(long, value_enum, default_value = "minecraft")]
    pub(crate) game: Game,
    /// The server's port.
    #[arg(long, default_value_t = 0)]
    pub(crate) port: u16,
    /// Number of targets.
    #[arg(long, default_value_t = 0)]
    pub(crate) targets: u32,
    /// The bare loop: largest number of queries in flight.
    #[arg(long, default_value_t = 1_024)]
    pub(crate) window: u32,
    /// The bare loop: pause in microseconds when few datagrams arrive, for fuller batches. 0: wait
    /// for the next datagram.
    #[arg(long, default_value_t = 0)]
    pub rest_us: u64,
    /// TCP: how connections are closed.
    #[arg(long, value_enum, default_value = "reset")]
    pub(crate) close: slp::Close,
    /// TCP: port of targets that never reply. 0: all reply.
    #[arg(long, default_value_t = 0)]
    pub(crate) dead_port: u16,
    /// TCP: share of these targets.
    #[arg(long, default_value_t = 0.0)]
    pub(crate) dead: f64,
    /// Port of the targets with an odd number. 0: that of the others.
    #[arg(long, default_value_t = 0)]
    pub(crate) second_port: u16,
    /// The sweep: number of threads. With more than one, it is not pinned to a core.
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// The sweep: datagrams per second.
    #[arg(long, default_value_t = f64::INFINITY)]
    pub packets_per_second: f64,
    /// The sweep: datagrams per second to one network.
    #[arg(long, default_value_t = f64::INFINITY)]
    pub per_prefix: f64,
    /// The sweep: timeout in seconds, without retries. 0: the default timeout and retries.
    #[arg(long, default_value_t = 0)]
    pub(crate) timeout: u64,
    /// The sweep: write answers as NDJSON to this file, over its present contents.
    #[arg(long)]
    pub(crate) ndjson: Option<PathBuf>,
}

/// Runs the client and prints the figures.
pub(crate) fn run(plan: &Plan) -> anyhow::Result<()> {
    let mut figures = match plan.kind {
        Kind::Empty => Figures::default(),
        Kind::Bare if plan.game == Game::Slp => {
            let dead = (plan.dead_port, plan.dead);
            let config = slp::BareConfig {
                close: plan.close,
                targets: plan.targets,
                window: plan.window,
                port: plan.port,
                dead: (plan.dead_port > 0).then_some(dead),
            };
            Clock::around(|| slp::bare_loop(&config))?
        }
        Kind::Bare => Clock::around(|| bare_loop(plan))?,
        Kind::Sweep => swept(plan)?,
    };
    figures.peak = peak().context("VmHWM in /proc/self/status")?;
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

/// Returns the peak resident memory in KiB.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// Returns the user and system time of this process so far, in seconds.
fn cpu() -> f64 {
    let seconds =
        |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |usage| {
        seconds(usage.user_time()) + seconds(usage.system_time())
    })
}

struct Clock;

impl Clock {
    fn around(work: impl FnOnce() -> anyhow::Result<Figures>) -> anyhow::Result<Figures> {
        let started = Instant::now();
        let before = cpu();
        let mut figures = work()?;
        figures.wall = started.elapsed().as_secs_f64();
        figures.cpu = cpu() - before;
        Ok(figures)
    }
}

/// State of a target in the bare loop: 20 bytes, as in the C reference.
#[derive(Clone, Copy, Default)]
struct State {
    began: u32,
    sent: u32,
    token: u32,
    took: u32,
    step: u8,
    is_done: bool,
}

/// Timeout of a target in microseconds. There are no retries.
const TIMEOUT_MICROS: u32 = 1_000_000;

/// The bare loop: one unconnected socket, a fixed window, batches both ways, and an array indexed by
/// address. Replies are checked by type and sender, but not decoded.
struct BareLoop<'a> {
    plan: &'a Plan,
    states: Vec<State>,
    output: Batch,
    /// First target that was not started.
    next: u32,
    /// First target that is not done.
    oldest: u32,
    in_flight: u32,
    completed: u64,
}

fn bare_loop(plan: &Plan) -> anyhow::Result<Figures> {
    const { assert!(size_of::<State>() == 20) }
    let socket = bare::bind(0, false)?;
    let mut input = Batch::new(false);
    let mut run = BareLoop {
        plan,
        states: vec![State::default(); plan.targets as usize],
        output: Batch::new(false),
        next: 0,
        oldest: 0,
        in_flight: 0,
        completed: 0,
    };
    let opening = plan.game.opening();
    let started = Instant::now();
    let mut receive_calls = 0_u64;
    let mut send_calls = 0_u64;
    while run.oldest < plan.targets {
        let count = input.receive(&socket)?;
        receive_calls += u64::from(count > 0);
        let now = started.elapsed().as_micros() as u32;
        for i in 0..count {
            let (from, _, reply) = input.get(i);
            run.receive(now, from, reply);
        }
        if run.output.len() == BATCH {
            send_calls += 1;
            run.output.send(&socket)?;
        }
        run.start(now, &opening);
        let sent = run.output.len();
        if sent > 0 {
            send_calls += 1;
            run.output.send(&socket)?;
        }
        run.time_out(now, count > 0);
        if plan.rest_us > 0 && count < BATCH / 2 && sent < BATCH / 2 {
            std::thread::sleep(Duration::from_micros(plan.rest_us));
        } else if count == 0 && sent == 0 {
            bare::wait(&socket, 1);
        }
    }
    let completed = run.completed;
    let packets = (completed * 2) as f64;
    let took: u64 = run.states.iter().map(|state| u64::from(state.took)).sum();
    let note = format!(
        "{:.0} received and {:.0} sent a call, {:.1} ms an answer",
        packets / receive_calls.max(1) as f64,
        packets / send_calls.max(1) as f64,
        took as f64 / 1e3 / completed.max(1) as f64
    );
    Ok(Figures {
        completed,
        note,
        ..Figures::default()
    })
}

impl BareLoop<'_> {
    fn receive(&mut self, now: u32, from: Peer, reply: &[u8]) {
        let state = self.states.get_mut(target(from.ip));
        let Some(state) = state.filter(|state| from.port == self.plan.port && !state.is_done)
        else {
            return;
        };
        let mut request = [0; 64];
        let game = self.plan.game;
        match game.follow(state.step, reply, &mut state.token, &mut request) {
            None => {}
            Some(0) => {
                state.is_done = true;
                state.took = now.wrapping_sub(state.began);
                self.completed += 1;
                self.in_flight -= 1;
            }
            Some(length) => {
                state.step += 1;
                state.sent = now;
                self.output.push(from, 0, |out| {
                    out[..64].copy_from_slice(&request);
                    length
                });
            }
        }
    }

    /// Starts targets within the window.
    fn start(&mut self, now: u32, opening: &[u8]) {
        let plan = self.plan;
        while self.next < plan.targets && self.in_flight < plan.window && self.output.len() < BATCH
        {
            let state = &mut self.states[self.next as usize];
            state.began = now;
            state.sent = now;
            let peer = Peer {
                ip: ip(self.next),
                port: plan.port,
            };
            self.output.push(peer, 0, |out| {
                out[..opening.len()].copy_from_slice(opening);
                opening.len()
            });
            self.next += 1;
            self.in_flight += 1;
        }
    }

    /// Ends targets without a reply. Targets are in the order of sending, so the oldest comes first.
    fn time_out(&mut self, now: u32, has_received: bool) {
        while self.oldest < self.next {
            let state = &mut self.states[self.oldest as usize];
            if !state.is_done {
                // A reply that waits in the queue is not late.
                if has_received || now.wrapping_sub(state.sent) < TIMEOUT_MICROS {
                    return;
                }
                state.is_done = true;
                self.in_flight -= 1;
            }
            self.oldest += 1;
        }
    }
}

/// List of targets, 8 bytes each.
struct List {
    targets: Vec<u64>,
    next: usize,
    protocol: &'static dyn Protocol,
    started: Instant,
    later: Option<Duration>,
    drained: Option<Duration>,
}

impl ProbeSource for List {
    fn next(&mut self) -> Next {
        let Some(target) = self.targets.get(self.next) else {
            self.drained.get_or_insert_with(|| self.started.elapsed());
            return Next::Done;
        };
        if self.next == self.targets.len() / 5 {
            self.later = Some(self.started.elapsed());
        }
        let address =
            SocketAddr::from((Ipv4Addr::from_bits((target >> 16) as u32), *target as u16));
        let index = self.next as u64;
        self.next += 1;
        Next::Probe(probe(index, address, self.protocol))
    }

    fn total(&self) -> Option<u64> {
        Some(self.targets.len() as u64)
    }
}

/// Counts the answers, and writes them as lines if there is a file.
#[derive(Default)]
struct Tally {
    completed: u64,
    file: Option<File>,
    buffer: Vec<u8>,
    address: Vec<u8>,
    failure: Option<std::io::Error>,
    most_in_flight: usize,
}

impl Sink for Tally {
    fn record(&mut self, end: ProbeResult) {
        self.completed += u64::from(end.result.is_ok());
        if self.file.is_none() {
            return;
        }
        write_line(&end, &mut self.address, &mut self.buffer);
        if self.buffer.len() >= 1 << 16 {
            self.flush();
        }
    }

    fn report_progress(&mut self, progress: &Progress<'_>) {
        self.most_in_flight = self.most_in_flight.max(progress.in_flight);
    }

    fn is_stopped(&self) -> bool {
        self.failure.is_some()
    }
}

/// Appends a result as NDJSON. `address` is a buffer for the target.
pub(crate) fn write_line(end: &ProbeResult, address: &mut Vec<u8>, out: &mut Vec<u8>) {
    let transcript = match &end.result {
        Ok(answer) => Some(&answer.transcript),
        Err(error) => error.transcript(),
    };
    address.clear();
    if let Some(transcript) = transcript {
        json::address(address, transcript.address);
    }
    let target = str::from_utf8(address).unwrap_or_default();
    match &end.result {
        Ok(answer) => AnswerLine::answered(target, answer).write(out),
        Err(error) => AnswerLine::failed(target, error).write(out),
    }
    out.push(b'\n');
}

impl Tally {
    fn flush(&mut self) {
        if let Some(file) = &mut self.file {
            self.failure = file.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }
}

fn swept(plan: &Plan) -> anyhow::Result<Figures> {
    let mut config = sweep::SweepConfig::default();
    config.ask = plan.game.ask();
    config.tcp_close = match plan.close {
        slp::Close::Reset => sweep::TcpClose::Reset,
        slp::Close::Fin => sweep::TcpClose::Fin,
    };
    if plan.timeout > 0 {
        config.limits.timeout = Duration::from_secs(plan.timeout);
        config.limits.deadline = config.limits.timeout * 2;
        config.limits.retries = 0;
    }
    config.rate_limits.rate = plan.packets_per_second;
    config.rate_limits.per_network = plan.per_prefix;
    let mut source = List {
        targets: (0..plan.targets)
            .map(|target| {
                let is_dead = plan.dead_port > 0 && slp::is_dead(target, plan.dead);
                let port = match (is_dead, target % 2) {
                    (true, _) => plan.dead_port,
                    (false, 1) if plan.second_port > 0 => plan.second_port,
                    _ => plan.port,
                };
                u64::from(ip(target)) << 16 | u64::from(port)
            })
            .collect(),
        next: 0,
        protocol: plan.game.protocol(),
        started: Instant::now(),
        later: None,
        drained: None,
    };
    let over = || {
        File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .clone()
    };
    let file = plan
        .ndjson
        .as_ref()
        .map(|path| over().open(path))
        .transpose()
        .context("cannot write the NDJSON")?;
    let mut sink = Tally {
        file,
        ..Tally::default()
    };
    Clock::around(|| {
        source.started = Instant::now();
        let counts = if plan.threads > 1 {
            let mut parts: Vec<Tally> = (0..plan.threads).map(|_| Tally::default()).collect();
            let counts = sweep::run_threads(&config, &mut source, &mut sink, &mut parts)?;
            sink.completed = parts.iter().map(|part| part.completed).sum();
            counts
        } else {
            sweep::run(&config, &mut source, &mut sink)?
        };
        sink.flush();
        if let Some(failure) = sink.failure {
            return Err(failure).context("cannot write the NDJSON");
        }
        let later = source.later.unwrap_or_default().as_secs_f64();
        let drained = source.drained.unwrap_or_default().as_secs_f64();
        let targets = f64::from(plan.targets);
        Ok(Figures {
            completed: sink.completed,
            begun: targets / drained,
            begun_later: targets * 0.8 / (drained - later),
            resent: counts.datagrams_resent,
            overflows: counts.dropped_datagrams,
            note: format!(
                "at most {} in flight; {} silent, {} faulty, {} forgiven, {} strays, {} duplicates",
                sink.most_in_flight,
                counts.timed_out,
                counts.invalid,
                counts.resent_after_overflow,
                counts.stray_datagrams,
                counts.duplicate_datagrams
            ),
            ..Figures::default()
        })
    })
}
