//! Processes of a measurement, and the machine that they run on.
//!
//! In: commands to start, files of `/proc`. Out: their output, CPU and memory.
//!
//! May import: `crate::figures`, `crate::game`, `crate::server`.

use crate::figures::Figures;
use crate::game::Game;
use crate::server;
use anyhow::{Context, ensure};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// Jiffies per second in /proc, the same on all common systems.
const JIFFIES: f64 = 100.0;

/// Pins this process to one core. Does nothing on a machine with only one core.
pub(crate) fn pin(core: usize) {
    let mut set = CpuSet::new();
    if set.set(core).is_ok() {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}

/// Returns a command that runs this program with other arguments.
pub(crate) fn again(args: &[String]) -> anyhow::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(args);
    Ok(command)
}

/// Server process. Stopped when dropped.
pub(crate) struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// Port of the server.
    pub(crate) port: u16,
    /// Number of targets that reply.
    pub(crate) alive: u64,
    /// Port of targets that drop connections, and their share. 0: there are none.
    pub(crate) dead_port: u16,
    /// Share of targets that never reply.
    pub(crate) silent: f64,
    /// Protocol of the server.
    pub(crate) game: Game,
}

impl Server {
    /// Starts a server and waits until it replies.
    pub(crate) fn start(plan: &server::Plan) -> anyhow::Result<Self> {
        let name = |value: &dyn ToString| value.to_string();
        let kind = if plan.kind == server::Kind::Farm {
            "farm"
        } else {
            "canned"
        };
        let game = plan.game.argument();
        let args = [
            "server",
            "--kind",
            kind,
            "--game",
            &game,
            "--silent",
            &name(&plan.silent),
        ];
        let more = [
            "--delay-ms",
            &name(&plan.delay_ms),
            "--targets",
            &name(&plan.targets),
            "--core",
            &name(&plan.core),
        ];
        let args: Vec<String> = args.iter().chain(&more).map(|arg| (*arg).into()).collect();
        let mut child = again(&args)?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().context("a pipe")?);
        let mut server = Self {
            child,
            stdin,
            stdout,
            port: 0,
            alive: 0,
            dead_port: 0,
            silent: plan.silent,
            game: plan.game,
        };
        let mut line = String::new();
        server.stdout.read_line(&mut line)?;
        let mut numbers = line.split_whitespace();
        let mut number = || numbers.next().context("the server did not start");
        server.port = number()?.parse()?;
        server.alive = number()?.parse()?;
        server.dead_port = number()?.parse()?;
        Ok(server)
    }

    /// Stops the server. Returns the number of datagrams that it lost itself.
    pub(crate) fn end(mut self) -> anyhow::Result<u64> {
        drop(self.stdin.take());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest)?;
        ensure!(self.child.wait()?.success(), "the server failed");
        Ok(rest.trim().parse()?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Results of a client, and of the machine during the same time.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Results of the client.
    pub(crate) figures: Figures,
    /// CPU of the server while the client ran, as a share of one core.
    pub(crate) server: f64,
    /// CPU of other processes, as a share of the machine.
    pub(crate) foreign: f64,
    /// Targets that reply, but have no result at the client.
    pub(crate) lost: u64,
}

/// Runs a client process until it ends.
pub(crate) fn client(args: &[String], server: Option<&Server>) -> anyhow::Result<Run> {
    let pid = server.map(|server| server.child.id());
    let server_before = pid.and_then(cpu_of);
    let all_before = busy();
    let started = Instant::now();
    let mut child = again(args)?.stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    let read = child
        .stdout
        .take()
        .context("a pipe")
        .and_then(|mut out| Ok(out.read_to_string(&mut line)?));
    let status = child.wait()?;
    read?;
    ensure!(status.success(), "the client failed");
    let figures: Figures =
        serde_json::from_str(line.trim()).context("the client printed no figures")?;
    let wall = started.elapsed().as_secs_f64();
    let served = pid
        .and_then(cpu_of)
        .zip(server_before)
        .map_or(0.0, |(after, before)| after - before);
    let busy = busy()
        .zip(all_before)
        .map_or(0.0, |(after, before)| after - before);
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    Ok(Run {
        server: served / wall,
        foreign: ((busy - served - figures.cpu) / wall / cores).max(0.0),
        lost: server.map_or(0, |server| server.alive.saturating_sub(figures.completed)),
        figures,
    })
}

/// Returns the resident memory of a process in KiB.
pub(crate) fn resident(pid: u32) -> Option<u64> {
    memory(pid, "VmRSS:")
}

/// Returns the peak resident memory of a process in KiB.
pub(crate) fn peak(pid: u32) -> Option<u64> {
    memory(pid, "VmHWM:")
}

fn memory(pid: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

/// Returns the user and system time of a process, in seconds.
pub(crate) fn cpu_of(pid: u32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may contain spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / JIFFIES)
}

/// Returns the time in which the machine was not idle, in seconds of one core.
pub(crate) fn busy() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let fields: Vec<f64> = stat
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .map_while(|f| f.parse().ok())
        .collect();
    let [user, nice, system, _idle, _waiting, irq, softirq, steal] = *fields.first_chunk()?;
    Some((user + nice + system + irq + softirq + steal) / JIFFIES)
}
