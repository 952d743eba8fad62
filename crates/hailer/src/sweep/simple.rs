//! A sweep in one call. Its methods have the names of the flags of `hailer sweep`.
//!
//! In: targets, one value after the other. Out: results, to a function or an iterator.
//!
//! May import: `crate::support`, `crate::sweep`, `crate::sweep::io`, `crate::sweep::targets`,
//! `crate::target`, `hailer_proto`.

use super::io::{run, run_threads};
use super::targets::{Collector, Exclusions, ListSource, Shard, SourceConfig};
use super::{Counts, DefaultKinds, ListError, ProbeResult, Progress, Sink, SweepConfig, TcpClose};
use crate::support::setters::query_setters;
use crate::target::TargetError;
use hailer_proto::{Game, Protocol};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Results that wait for the caller of an iterator. At this number, the sweep starts no probes.
const MAX_WAITING: usize = 1_024;

/// Queries many servers at a limited rate. Its methods have the names of the flags of
/// `hailer sweep`; the defaults are those of [`SweepConfig`].
///
/// ```no_run
/// use hailer::sweep::Sweep;
///
/// let counts = Sweep::new(["ugp://192.0.2.0/24", "a2s://192.0.2.7:27015"])
///     .rate(500.0)
///     .per_network(20.0)
///     .run(|probe| match probe.result {
///         Ok(answer) => println!("{}: {:?}", answer.transcript.address, answer.status.title()),
///         Err(error) => eprintln!("{error}"),
///     })?;
/// println!("{} of {} probes answered", counts.answered, counts.probes);
/// # Ok::<(), hailer::sweep::SweepError>(())
/// ```
///
/// [`run`](Self::run) passes the results to a function. [`start`](Self::start) returns an iterator
/// of them, which also stops the sweep. For targets from files or a stream, checkpoints and other
/// sources, use [`sweep::run`](super::run).
#[derive(Clone, Debug)]
#[must_use = "a sweep does nothing until `run` or `start` is called"]
pub struct Sweep {
    targets: Vec<String>,
    exclude: Vec<String>,
    protocols: Vec<&'static dyn Protocol>,
    game: Option<&'static Game>,
    order: SourceConfig,
    config: SweepConfig,
    deadline: Option<Duration>,
    threads: usize,
}

/// Reason why a sweep did not start, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// A target or an exclusion is invalid.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The targets are too many, or cannot be queried in a sweep.
    #[error(transparent)]
    List(#[from] ListError),
    /// A socket cannot be opened, or fails.
    #[error("the sweep failed: {0}")]
    Socket(#[from] io::Error),
}

impl Sweep {
    /// Returns a sweep of these servers: each target as in [`Target`](crate::Target), or a range of
    /// addresses such as `192.0.2.0/24`, `ugp://192.0.2.0/24:22000` or `192.0.2.1-192.0.2.9`.
    /// As in the lines of a list, only the first word of each counts.
    pub fn new<T: Into<String>>(targets: impl IntoIterator<Item = T>) -> Self {
        Self {
            targets: targets.into_iter().map(Into::into).collect(),
            exclude: Vec::new(),
            protocols: Vec::new(),
            game: None,
            order: SourceConfig::default(),
            config: SweepConfig::default(),
            deadline: None,
            threads: 1,
        }
    }

    query_setters!(retries: 2);

    /// Skips these addresses and ranges, also those that a name leads to. Default: the addresses
    /// that no server can have.
    pub fn exclude<T: Into<String>>(mut self, ranges: impl IntoIterator<Item = T>) -> Self {
        self.exclude.extend(ranges.into_iter().map(Into::into));
        self
    }

    /// Adds a protocol of targets without a game or protocol. Default: `minecraft-query`, `ugp` and
    /// `onequery`.
    pub fn protocol(mut self, protocol: &'static dyn Protocol) -> Self {
        self.protocols.push(protocol);
        self
    }

    /// Game of targets without a game or protocol. It replaces their protocols.
    pub fn game(mut self, game: &'static Game) -> Self {
        self.game = Some(game);
        self
    }

    /// Queries only one shard of the targets. Default: all.
    pub fn shard(mut self, shard: Shard) -> Self {
        self.order.shard = shard;
        self
    }

    /// Seed of the order of the targets. Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.order.seed = seed;
        self
    }

    /// Name server for host names. Default: the system's.
    pub fn name_server(mut self, server: SocketAddr) -> Self {
        self.order.name_server = Some(server);
        self
    }

    /// Largest number of datagrams per second to all servers together; infinity is no limit.
    /// Default: 1,000.
    pub fn rate(mut self, rate: f64) -> Self {
        self.config.rate_limits.rate = rate;
        self
    }

    /// Largest number of bits per second, including IP and UDP headers. Default: infinity.
    pub fn bandwidth(mut self, bandwidth: f64) -> Self {
        self.config.rate_limits.bandwidth = bandwidth;
        self
    }

    /// Largest number of datagrams per second to one network: an IPv4 /24 or an IPv6 /48.
    /// Default: 50.
    pub fn per_network(mut self, per_network: f64) -> Self {
        self.config.rate_limits.per_network = per_network;
        self
    }

    /// Local address to send from. A port other than 0 needs one thread. Default: the system's
    /// choice.
    pub fn source(mut self, source: SocketAddr) -> Self {
        self.config.source = Some(source);
        self
    }

    /// Threads that query servers; 0 counts as 1. Rates and limits are for all of them together.
    /// Default: 1.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// How TCP connections are closed. Default: with a reset.
    pub fn tcp_close(mut self, how: TcpClose) -> Self {
        self.config.tcp_close = how;
        self
    }

    /// Largest number of servers queried at the same time, at about 42 bytes of memory each.
    /// Default: 750,000.
    pub fn max_in_flight(mut self, max: usize) -> Self {
        self.config.max_in_flight = max;
        self
    }

    /// Memory for incomplete answers, in bytes. Default: 256 MiB.
    pub fn max_memory(mut self, bytes: usize) -> Self {
        self.config.max_memory = bytes;
        self
    }

    /// Runs the sweep and passes each result to a function. Blocks until all probes are finished.
    /// Several threads call the function one after the other.
    ///
    /// # Errors
    /// A target is invalid, or a socket cannot be opened or fails.
    pub fn run(self, on_result: impl FnMut(ProbeResult) + Send) -> Result<Counts, SweepError> {
        let threads = self.threads;
        let (config, mut source) = self.prepare()?;
        if threads == 1 {
            return Ok(run(&config, &mut source, &mut Call(on_result))?);
        }
        let shared = Mutex::new(on_result);
        let shared = &shared;
        let call = |result| shared.lock().unwrap_or_else(PoisonError::into_inner)(result);
        let mut sinks: Vec<_> = (0..threads).map(|_| Call(call)).collect();
        let counts = run_threads(&config, &mut source, &mut Call(|_| ()), &mut sinks)?;
        Ok(counts)
    }

    /// Starts the sweep in a thread of its own and returns its results as they arrive. The sweep
    /// starts no probes while 1,024 results wait, and it stops when the iterator is dropped.
    ///
    /// # Errors
    /// A target is invalid, or the system refuses a thread. If a socket fails, the results end, and
    /// [`Results::finish`] has the error.
    pub fn start(self) -> Result<Results, SweepError> {
        let threads = self.threads;
        let (config, mut source) = self.prepare()?;
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let state = Arc::new(State::default());
        let results = (receiver, state.clone());
        let thread = std::thread::Builder::new().name("sweep".into());
        let thread = thread.spawn(move || {
            let mut main = Pass::new(sender.clone(), &state, true);
            let counts = if threads == 1 {
                run(&config, &mut source, &mut main)?
            } else {
                let sinks = (0..threads).map(|_| Pass::new(sender.clone(), &state, false));
                let mut sinks: Vec<_> = sinks.collect();
                let counts = run_threads(&config, &mut source, &mut main, &mut sinks)?;
                sinks.into_iter().for_each(Pass::finish);
                counts
            };
            main.finish();
            Ok(counts)
        })?;
        let (receiver, state) = results;
        Ok(Results {
            receiver: Some(receiver),
            state,
            thread: Some(thread),
        })
    }

    /// Parses the targets.
    fn prepare(self) -> Result<(SweepConfig, ListSource), SweepError> {
        let defaults = match self.game {
            Some(game) => DefaultKinds::of_game(game)?,
            None => DefaultKinds::new(&self.protocols)?,
        };
        let mut targets = Collector::with_defaults(defaults);
        for target in &self.targets {
            targets.add(target)?;
        }
        let mut exclusions = Exclusions::default();
        for range in &self.exclude {
            exclusions.add(range)?;
        }
        let targets = targets.finish(&exclusions)?;
        let mut config = self.config;
        config.limits.leave_time(self.deadline);
        Ok((
            config,
            ListSource::new(targets, Arc::new(exclusions), self.order),
        ))
    }
}

/// Results of [`Sweep::start`] as they arrive. Dropping it stops the sweep.
#[derive(Debug)]
pub struct Results {
    /// `None` once the sweep is to stop.
    receiver: Option<Receiver<ProbeResult>>,
    state: Arc<State>,
    thread: Option<JoinHandle<io::Result<Counts>>>,
}

impl Results {
    /// Returns the counts so far, at most 100 ms old.
    pub fn counts(&self) -> Counts {
        self.state.lock().clone()
    }

    /// Stops the sweep if it still runs, waits for its end and returns its counts. Results that
    /// were not taken are dropped.
    ///
    /// # Errors
    /// A socket could not be opened, or failed.
    pub fn finish(mut self) -> Result<Counts, SweepError> {
        self.stop();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(counts)) => Ok(counts?),
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(self.counts()),
        }
    }

    fn stop(&mut self) {
        self.state.is_stopped.store(true, Ordering::Relaxed);
        self.receiver = None;
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Iterator for Results {
    type Item = ProbeResult;

    fn next(&mut self) -> Option<ProbeResult> {
        self.receiver.as_ref()?.recv().ok()
    }
}

/// Passes results to a function.
struct Call<F>(F);

impl<F: FnMut(ProbeResult)> Sink for Call<F> {
    fn record(&mut self, result: ProbeResult) {
        (self.0)(result);
    }

    fn report_progress(&mut self, _: &Progress<'_>) {}
}

/// Passes results to an iterator.
struct Pass {
    sender: SyncSender<ProbeResult>,
    /// Results for which there was no room. While there are any, the sweep starts no probes.
    waiting: RefCell<VecDeque<ProbeResult>>,
    state: Arc<State>,
    /// Whether this is the sink of the whole sweep.
    is_main: bool,
}

/// State that a sweep and its results share.
#[derive(Debug, Default)]
struct State {
    counts: Mutex<Counts>,
    is_stopped: AtomicBool,
}

impl Pass {
    fn new(sender: SyncSender<ProbeResult>, state: &Arc<State>, is_main: bool) -> Self {
        Self {
            sender,
            waiting: RefCell::default(),
            state: state.clone(),
            is_main,
        }
    }

    /// Passes on as many waiting results as there is room for.
    fn flush(&self) {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(result) = waiting.pop_front() {
            match self.sender.try_send(result) {
                Ok(()) | Err(TrySendError::Disconnected(_)) => {}
                Err(TrySendError::Full(result)) => {
                    waiting.push_front(result);
                    return;
                }
            }
        }
    }

    /// Passes on the results that still wait, and blocks until there is room for them.
    fn finish(self) {
        for result in self.waiting.into_inner() {
            if self.sender.send(result).is_err() {
                return;
            }
        }
    }
}

impl Sink for Pass {
    fn record(&mut self, result: ProbeResult) {
        self.waiting.borrow_mut().push_back(result);
        self.flush();
    }

    fn is_full(&self) -> bool {
        self.flush();
        !self.waiting.borrow().is_empty()
    }

    fn report_progress(&mut self, progress: &Progress<'_>) {
        self.flush();
        if self.is_main {
            *self.state.lock() = progress.counts.clone();
        }
    }

    fn is_stopped(&self) -> bool {
        self.state.is_stopped.load(Ordering::Relaxed)
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Counts> {
        // A panicked writer leaves complete data.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
