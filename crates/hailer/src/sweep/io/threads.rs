//! Sweep in several threads: one source, common rate limits, one position.
//!
//! ```text
//!   ProbeSource ──► SharedSource ──► SourcePart ──► thread 1 ──► its Sink
//!                        │     └───► SourcePart ──► thread 2 ──► its Sink
//!                        ▼
//!   calling thread: counts, positions ──► Sink of the sweep
//! ```
//!
//! A thread takes up to 64 probes of the source at a time. Sockets, memory and probes in flight are
//! divided equally; the rate limits are shared.
//!
//! A position must match the results exactly, although the threads never stop together. The calling
//! thread requests a *cut*. At the cut, each thread passes on its results, adds its unfinished
//! probes to the position, and holds back its results until the position was reported. Probes that
//! a thread takes from the source after its cut are unfinished too. With the last thread, the
//! position is complete.

use super::worker::{BEAT, Observer, Turn, WorkerConfig, run_worker};
use crate::support::random_secret;
use crate::sweep::engine::SharedLimits;
use crate::sweep::engine::SweepEngine;
use crate::sweep::{Counts, Next, Position, ProbeSource, Progress, Sink, SweepConfig};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most items that a thread takes from the source at a time.
const BATCH: usize = 64;
/// Time between two looks of the calling thread.
const TURN: Duration = Duration::from_millis(10);

/// Runs a sweep in one thread for each of `threads`, which get the results of their thread. Returns
/// the counts of all. Blocks, like [`run`](crate::sweep::run).
///
/// The calling thread reports the progress of the whole sweep to `sink`. The sink of a thread gets
/// reports too, with the counts of the thread.
///
/// # Errors
///
/// Returns the first error of a thread. The others are stopped.
pub fn run_threads<K: Sink + Send>(
    config: &SweepConfig,
    source: &mut (dyn ProbeSource + Send),
    sink: &mut dyn Sink,
    threads: &mut [K],
) -> io::Result<Counts> {
    let count = threads.len().max(1);
    let mut share = config.clone();
    share.max_in_flight = config.max_in_flight.div_ceil(count);
    share.max_memory = config.max_memory / count;
    let started = Instant::now();
    let thread = WorkerConfig {
        config: &share,
        limits: SharedLimits::new(&config.rate_limits, u64::from(random_secret()[0])),
        threads: count,
        started,
    };
    let shared = SharedSource {
        probes: Mutex::new(SharedProbes {
            source,
            next_index: 0,
            is_done: false,
            running: threads.len(),
            cut: None,
            unfinished: Vec::new(),
        }),
        requested: AtomicU64::new(0),
        released: AtomicU64::new(0),
        is_failed: AtomicBool::new(false),
        states: threads.iter().map(|_| Mutex::default()).collect(),
    };
    let result = std::thread::scope(|scope| {
        let mut handles = Vec::new();
        let mut failure = None;
        for (number, sink) in threads.iter_mut().enumerate() {
            let thread = &thread;
            let shared = &shared;
            let handle = std::thread::Builder::new()
                .name(format!("sweep-{number}"))
                .spawn_scoped(scope, move || shared.run_thread(number, thread, sink));
            match handle {
                Ok(handle) => handles.push(handle),
                Err(error) => {
                    shared.is_failed.store(true, Ordering::Relaxed);
                    shared.locked().running -= 1;
                    failure = Some(error);
                }
            }
        }
        shared.coordinate(started, sink);
        let mut counts = Counts::default();
        for handle in handles {
            match handle.join() {
                Ok(Ok(more)) => counts.add(&more),
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        failure.map_or(Ok(counts), Err)
    });
    // After a failure, the unfinished probes of a thread are unknown.
    if let Ok(counts) = &result {
        let probes = shared.locked();
        let position = probes.complete(probes.unfinished.clone());
        sink.report_progress(&Progress {
            counts,
            total: probes.source.total(),
            in_flight: 0,
            position: &|| Some(position.clone()),
        });
    }
    result
}

/// State that all threads share.
struct SharedSource<'s> {
    probes: Mutex<SharedProbes<'s>>,
    /// Number of the last cut that was requested.
    requested: AtomicU64,
    /// Number of the last cut whose position was reported.
    released: AtomicU64,
    /// Whether a thread failed, so that the others stop.
    is_failed: AtomicBool,
    states: Vec<Mutex<ThreadState>>,
}

/// The source of probes and its state, shared by all threads.
struct SharedProbes<'s> {
    source: &'s mut (dyn ProbeSource + Send),
    /// Above every index that a thread has taken.
    next_index: u64,
    is_done: bool,
    /// Threads that have not ended.
    running: usize,
    cut: Option<ConsistentCut>,
    /// Unfinished probes of the threads that have ended.
    unfinished: Vec<u64>,
}

/// A cut in progress.
struct ConsistentCut {
    /// Running threads that have not reached it.
    missing: usize,
    /// Numbers of the threads that have reached it.
    reached: Vec<usize>,
    unfinished: Vec<u64>,
    /// The position, once it is complete.
    position: Option<Position>,
}

/// State of a thread, for reports.
#[derive(Default)]
struct ThreadState {
    counts: Counts,
    in_flight: usize,
}

impl<'s> SharedSource<'s> {
    fn locked(&self) -> MutexGuard<'_, SharedProbes<'s>> {
        // A thread that panics ends the sweep.
        self.probes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_thread(
        &self,
        number: usize,
        thread: &WorkerConfig<'_>,
        sink: &mut dyn Sink,
    ) -> io::Result<Counts> {
        let mut part = ThreadPart {
            shared: self,
            number,
            cut: 0,
            is_holding: false,
            has_left: false,
            beat_at: BEAT,
        };
        let mut source = SourcePart {
            shared: self,
            queue: VecDeque::new(),
            retry_after: Duration::ZERO,
            number,
        };
        let result = run_worker(thread, &mut source, sink, &mut part);
        if result.is_err() {
            self.is_failed.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Reports progress and positions until all threads have ended.
    fn coordinate(&self, started: Instant, sink: &mut dyn Sink) {
        let mut beat_at = BEAT;
        loop {
            let (is_over, position, is_cutting) = {
                let mut probes = self.locked();
                let position = probes.cut.as_mut().and_then(|cut| cut.position.take());
                (probes.running == 0, position, probes.cut.is_some())
            };
            let now = started.elapsed();
            if position.is_some() || now >= beat_at {
                beat_at = now + BEAT;
                self.report(position.as_ref(), sink);
            }
            if position.is_some() {
                self.locked().cut = None;
                self.released
                    .store(self.requested.load(Ordering::Relaxed), Ordering::Release);
            } else if !is_cutting && sink.is_position_due() {
                self.request_cut();
            }
            if is_over {
                return;
            }
            std::thread::sleep(TURN);
        }
    }

    fn report(&self, position: Option<&Position>, sink: &mut dyn Sink) {
        let mut counts = Counts::default();
        let mut in_flight = 0;
        for state in &self.states {
            let state = state.lock().unwrap_or_else(PoisonError::into_inner);
            counts.add(&state.counts);
            in_flight += state.in_flight;
        }
        let total = self.locked().source.total();
        sink.report_progress(&Progress {
            counts: &counts,
            total,
            in_flight,
            position: &|| position.cloned(),
        });
    }

    fn request_cut(&self) {
        let mut probes = self.locked();
        if probes.running == 0 {
            return;
        }
        probes.cut = Some(ConsistentCut {
            missing: probes.running,
            reached: Vec::new(),
            unfinished: probes.unfinished.clone(),
            position: None,
        });
        self.requested.fetch_add(1, Ordering::Release);
    }
}

impl SharedProbes<'_> {
    /// Adds the unfinished probes of the source to those of the threads.
    fn complete(&self, mut unfinished: Vec<u64>) -> Position {
        let Position {
            next,
            unfinished: to_come,
        } = self.source.position();
        unfinished.extend(to_come);
        unfinished.sort_unstable();
        unfinished.dedup();
        let last = unfinished.last().map_or(0, |last| last + 1);
        Position {
            next: next.max(self.next_index).max(last),
            unfinished,
        }
    }

    /// Adds the unfinished probes of a thread to the cut.
    fn reach_cut(&mut self, number: usize, unfinished: Vec<u64>) {
        let Some(mut cut) = self.cut.take() else {
            return;
        };
        cut.unfinished.extend(unfinished);
        cut.reached.push(number);
        cut.missing = cut.missing.saturating_sub(1);
        if cut.missing == 0 {
            cut.position = Some(self.complete(std::mem::take(&mut cut.unfinished)));
        }
        self.cut = Some(cut);
    }
}

/// A thread's side of the cuts.
struct ThreadPart<'a, 's> {
    shared: &'a SharedSource<'s>,
    number: usize,
    /// Number of the last cut that it reached.
    cut: u64,
    is_holding: bool,
    has_left: bool,
    beat_at: Duration,
}

impl ThreadPart<'_, '_> {
    fn publish(&self, engine: &SweepEngine) {
        let state = self.shared.states.get(self.number);
        if let Some(state) = state {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            state.counts = engine.counts().clone();
            state.in_flight = engine.in_flight();
        }
    }

    /// Reaches a requested cut, or ends the thread's part if `is_over`.
    fn reach(&mut self, turn: &Turn<'_>, sink: &mut dyn Sink, is_over: bool) {
        let Turn { engine, source, .. } = *turn;
        let is_new = self.shared.requested.load(Ordering::Acquire) != self.cut;
        if !is_new && !is_over {
            return;
        }
        // No results follow the last turn, so all of them must be passed on now.
        while self.is_holding && !self.release(sink) {
            if self.shared.is_failed.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        sink.hold();
        self.is_holding = true;
        self.publish(engine);
        let unfinished = engine.position(source).unfinished;
        let mut probes = self.shared.locked();
        if is_over {
            probes.running -= 1;
            probes.unfinished.extend(&unfinished);
            self.has_left = true;
        }
        // A cut that was requested since counts this thread too.
        let requested = self.shared.requested.load(Ordering::Acquire);
        if requested != self.cut {
            self.cut = requested;
            probes.reach_cut(self.number, unfinished);
        }
    }

    /// Ends the hold if the position was reported. Returns whether it was.
    fn release(&mut self, sink: &mut dyn Sink) -> bool {
        let is_reported = self.shared.released.load(Ordering::Acquire) >= self.cut;
        if is_reported {
            self.is_holding = false;
            sink.release();
        }
        is_reported
    }
}

impl Observer for ThreadPart<'_, '_> {
    fn observe(&mut self, turn: &Turn<'_>, sink: &mut dyn Sink) -> bool {
        let Turn { now, engine, .. } = *turn;
        let is_over = turn.is_over || self.shared.is_failed.load(Ordering::Relaxed);
        if self.is_holding {
            self.release(sink);
        }
        self.reach(turn, sink, is_over);
        if now >= self.beat_at || is_over {
            self.beat_at = now + BEAT;
            self.publish(engine);
            sink.report_progress(&Progress {
                counts: engine.counts(),
                total: None,
                in_flight: engine.in_flight(),
                position: &|| None,
            });
        }
        is_over
    }

    fn next_due(&self) -> Duration {
        self.beat_at
    }
}

impl Drop for ThreadPart<'_, '_> {
    fn drop(&mut self) {
        // An error or a panic: the sweep has failed, and no position will be complete.
        if !self.has_left {
            self.shared.is_failed.store(true, Ordering::Relaxed);
            self.shared.locked().running -= 1;
        }
    }
}

/// The probes that a thread has taken from the source.
struct SourcePart<'a, 's> {
    shared: &'a SharedSource<'s>,
    queue: VecDeque<Next>,
    retry_after: Duration,
    number: usize,
}

impl SourcePart<'_, '_> {
    /// Takes items from the source. Returns what it returned instead of an item.
    fn take(&mut self) -> Option<Next> {
        let mut probes = self.shared.locked();
        while self.queue.len() < BATCH {
            if probes.is_done {
                return Some(Next::Done);
            }
            let next = probes.source.next();
            match &next {
                Next::Done => {
                    probes.is_done = true;
                    return Some(next);
                }
                Next::Pending => {
                    self.retry_after = probes.source.retry_after();
                    return Some(next);
                }
                item => {
                    let Some(index) = index_of(item) else {
                        continue;
                    };
                    probes.next_index = probes.next_index.max(index + 1);
                    if let Some(cut) = &mut probes.cut
                        && cut.missing > 0
                        && cut.reached.contains(&self.number)
                    {
                        cut.unfinished.push(index);
                    }
                    self.queue.push_back(next);
                }
            }
        }
        None
    }
}

impl ProbeSource for SourcePart<'_, '_> {
    fn next(&mut self) -> Next {
        if let Some(next) = self.queue.pop_front() {
            return next;
        }
        let end = self.take();
        self.queue.pop_front().or(end).unwrap_or(Next::Pending)
    }

    fn retry_after(&self) -> Duration {
        self.retry_after
    }

    fn total(&self) -> Option<u64> {
        None
    }

    fn position(&self) -> Position {
        Position {
            next: 0,
            unfinished: self.queue.iter().filter_map(index_of).collect(),
        }
    }
}

/// Returns the index of an item, or `None` if there is no item.
fn index_of(next: &Next) -> Option<u64> {
    match next {
        Next::Probe(probe) => Some(probe.index),
        Next::Failed { index, .. } | Next::Repeat { index, .. } => Some(*index),
        Next::Pending | Next::Done => None,
    }
}
