//! Streams of results: a thread in Rust fills a queue, Python takes from it.
//!
//! ```text
//!   sweep, query_many, discover ─► Producer ─► Shared ─► Consumer ─► Stream (iterator)
//!       own threads                 batches     queue        └─────► Batches (Arrow)
//! ```
//!
//! A stream without a consumer ends its thread. In a child process, which has no such thread, it raises an error.

use crate::arrow::{self, RecordBatch};
use crate::query::{self, JobQueue};
use crate::results::{Record, ResultObject};
use hailer::Error;
use hailer::client::ErrorKind;
use hailer::sweep::{Counts, ProbeResult, Progress, Sink, Skipped};
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyCapsule, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Time between two looks for signals.
pub(crate) const SLICE: Duration = Duration::from_millis(50);
/// Results in the queue from which on no query starts.
const MAX_QUEUED: usize = 8_192;
/// Results that a producer collects for a consumer that does not wait.
const BATCH: usize = 256;
/// Shortest time between two batches for a consumer that waits.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// `Progress` of the package.
static PROGRESS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State that producer and consumer share.
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    queued: AtomicUsize,
    is_awaited: AtomicBool,
    is_stopped: AtomicBool,
    /// Whether the consumer calls a function at new progress.
    reports_progress: bool,
    /// Process that the producer runs in.
    process: u32,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Record>,
    progress: Snapshot,
    /// Number of changes of `progress`.
    version: u64,
    end: Option<Result<(), String>>,
    /// Functions to call once, when there is something to take.
    wakes: Vec<(Py<PyAny>, JobQueue)>,
}

#[derive(Clone, Default)]
struct Snapshot {
    counts: Counts,
    total: Option<u64>,
    in_flight: usize,
    skipped: Skipped,
}

/// Result of waiting for results.
pub(crate) enum Filled {
    /// Some arrived, or none yet.
    Open,
    /// None will arrive; the reason if the producer failed.
    Ended(Option<String>),
}

impl Shared {
    fn new(total: Option<u64>, skipped: Skipped, reports_progress: bool) -> Arc<Self> {
        let state = State {
            progress: Snapshot {
                total,
                skipped,
                ..Snapshot::default()
            },
            ..State::default()
        };
        Arc::new(Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            queued: AtomicUsize::new(0),
            is_awaited: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            reports_progress,
            process: std::process::id(),
        })
    }

    fn notify(&self, mut state: MutexGuard<'_, State>) {
        let wakes = std::mem::take(&mut state.wakes);
        drop(state);
        self.is_awaited.store(false, Ordering::Relaxed);
        self.changed.notify_all();
        for (wake, jobs) in wakes {
            jobs.send(move |py| {
                if let Err(error) = wake.call0(py) {
                    error.write_unraisable(py, None);
                }
            });
        }
    }

    /// Marks the progress as new. Wakes the consumer if it reports progress.
    fn end_report(&self, mut state: MutexGuard<'_, State>) {
        state.version += 1;
        if self.reports_progress {
            self.notify(state);
        }
    }
}

/// The side of a stream that adds results. Ends the stream when it is dropped.
pub(crate) struct Producer {
    shared: Arc<Shared>,
    buffer: Vec<Record>,
    flushed_at: Instant,
    has_failures: bool,
    /// Whether reports have the progress of the whole stream.
    is_reporter: bool,
}

impl Producer {
    /// Returns a second producer of the same stream, for another thread, which does not end it.
    pub(crate) fn part(&self) -> Part {
        Part(Self {
            shared: self.shared.clone(),
            buffer: Vec::new(),
            flushed_at: Instant::now(),
            has_failures: self.has_failures,
            is_reporter: false,
        })
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.shared.is_stopped.load(Ordering::Relaxed)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.shared.queued.load(Ordering::Relaxed) >= MAX_QUEUED
    }

    /// Adds a result. It may stay in the buffer until the next [`flush`](Self::flush).
    pub(crate) fn push(&mut self, record: Record) {
        self.buffer.push(record);
        let is_due = self.buffer.len() >= BATCH
            || (self.shared.is_awaited.load(Ordering::Relaxed)
                && self.flushed_at.elapsed() >= MIN_INTERVAL);
        if is_due {
            self.flush();
        }
    }

    /// Passes on all results.
    pub(crate) fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        self.flushed_at = Instant::now();
        let mut state = lock(&self.shared.state);
        state.queue.extend(self.buffer.drain(..));
        self.shared
            .queued
            .store(state.queue.len(), Ordering::Relaxed);
        self.shared.notify(state);
    }

    /// Changes the counts.
    pub(crate) fn report(&self, change: impl FnOnce(&mut Counts, &mut usize)) {
        let mut state = lock(&self.shared.state);
        let Snapshot {
            counts, in_flight, ..
        } = &mut state.progress;
        change(counts, in_flight);
        self.shared.end_report(state);
    }

    /// Runs queries in this thread and ends the stream.
    pub(crate) fn run(mut self, run: impl AsyncFnOnce(&mut Self) -> Result<(), String>) {
        let result = query::runtime()
            .map_err(|error| error.to_string())
            .and_then(|runtime| {
                let result = runtime.block_on(run(&mut self));
                // A name lookup may still run; no query waits for it.
                runtime.shutdown_background();
                result
            });
        self.end(result);
    }

    /// Ends the stream, with the problem if there is one.
    pub(crate) fn end(mut self, result: Result<(), String>) {
        self.flush();
        lock(&self.shared.state).end = Some(result);
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        if !self.is_reporter {
            return;
        }
        let mut state = lock(&self.shared.state);
        state
            .end
            .get_or_insert_with(|| Err("a thread of Hailer panicked".into()));
        self.shared.notify(state);
    }
}

impl Sink for Producer {
    fn record(&mut self, ProbeResult { name, result, .. }: ProbeResult) {
        if result.is_ok() || self.has_failures {
            self.push(Record {
                name,
                at: SystemTime::now(),
                outcome: result,
                sighting: None,
            });
        }
    }

    fn is_full(&self) -> bool {
        self.is_full()
    }

    fn report_progress(&mut self, progress: &Progress<'_>) {
        self.flush();
        if self.is_reporter {
            let mut state = lock(&self.shared.state);
            state.progress.counts = progress.counts.clone();
            state.progress.total = progress.total.or(state.progress.total);
            state.progress.in_flight = progress.in_flight;
            self.shared.end_report(state);
        }
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped()
    }
}

/// A producer in one of several threads of a sweep.
pub(crate) struct Part(Producer);

impl Sink for Part {
    fn record(&mut self, result: ProbeResult) {
        self.0.record(result);
    }

    fn is_full(&self) -> bool {
        self.0.is_full()
    }

    fn report_progress(&mut self, _: &Progress<'_>) {
        self.0.flush();
    }

    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }
}

/// The side of a stream that takes results. Its end stops the producer.
pub(crate) struct Consumer {
    shared: Arc<Shared>,
    taken: Mutex<VecDeque<Record>>,
}

impl Consumer {
    /// Returns the next result if it has arrived.
    pub(crate) fn pop(&self) -> Option<Record> {
        lock(&self.taken).pop_front()
    }

    /// Takes results from the queue. Waits for a change for at most this time.
    pub(crate) fn fill(&self, wait: Duration) -> Filled {
        let mut state = lock(&self.shared.state);
        if state.queue.is_empty() && state.end.is_none() && !wait.is_zero() {
            self.shared.is_awaited.store(true, Ordering::Relaxed);
            let waited = self.shared.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if !state.queue.is_empty() {
            let records = std::mem::take(&mut state.queue);
            self.shared.queued.store(0, Ordering::Relaxed);
            drop(state);
            lock(&self.taken).extend(records);
            return Filled::Open;
        }
        match &state.end {
            Some(end) if lock(&self.taken).is_empty() => Filled::Ended(end.clone().err()),
            _ => Filled::Open,
        }
    }

    pub(crate) fn stop(&self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Fails in a child of the process that the producer runs in.
    fn check_process(&self) -> PyResult<()> {
        if std::process::id() == self.shared.process {
            return Ok(());
        }
        let problem = "these results belong to the parent process: start the sweep or the queries in this process";
        Err(PyRuntimeError::new_err(problem))
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Results of many queries as they arrive: the base of the classes of the package.
#[pyclass(frozen, module = "hailer_query._native")]
pub(crate) struct Stream {
    consumer: Arc<Consumer>,
    on_progress: Mutex<Option<Py<PyAny>>>,
    /// Version of the progress that was reported last.
    reported: Mutex<u64>,
}

/// Starts a thread that adds results to a new stream.
pub(crate) fn spawn(
    name: &str,
    total: Option<u64>,
    skipped: Skipped,
    has_failures: bool,
    on_progress: Option<Py<PyAny>>,
    run: impl FnOnce(Producer) + Send + 'static,
) -> PyResult<Stream> {
    let shared = Shared::new(total, skipped, on_progress.is_some());
    let producer = Producer {
        shared: shared.clone(),
        buffer: Vec::with_capacity(BATCH),
        flushed_at: Instant::now(),
        has_failures,
        is_reporter: true,
    };
    let thread = std::thread::Builder::new().name(name.into());
    // The thread is detached: it ends when the consumer is dropped.
    drop(thread.spawn(move || run(producer))?);
    Ok(Stream {
        consumer: Arc::new(Consumer {
            shared,
            taken: Mutex::default(),
        }),
        on_progress: Mutex::new(on_progress),
        reported: Mutex::new(0),
    })
}

impl Stream {
    /// Calls the user's function if there is new progress.
    fn report(&self, py: Python<'_>) -> PyResult<()> {
        let callback = lock(&self.on_progress)
            .as_ref()
            .map(|callback| callback.clone_ref(py));
        let Some(callback) = callback else {
            return Ok(());
        };
        let version = lock(&self.consumer.shared.state).version;
        if std::mem::replace(&mut *lock(&self.reported), version) == version {
            return Ok(());
        }
        callback.call1(py, (self.progress(py)?,))?;
        Ok(())
    }

    fn failed(problem: Option<String>) -> PyResult<()> {
        problem.map_or(Ok(()), |problem| Err(PyOSError::new_err(problem)))
    }
}

#[pymethods]
impl Stream {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<ResultObject>> {
        loop {
            if let Some(record) = self.consumer.pop() {
                return Ok(Some(ResultObject::from(record)));
            }
            self.consumer.check_process()?;
            let filled = py.detach(|| self.consumer.fill(SLICE));
            self.report(py)?;
            if let Filled::Ended(problem) = filled {
                return Self::failed(problem).map(|()| None);
            }
            py.check_signals()?;
        }
    }

    /// Returns the next result without waiting. `None`: there is none yet, or if `is_ended`, ever.
    fn try_next(&self, py: Python<'_>) -> PyResult<(Option<ResultObject>, bool)> {
        if let Some(record) = self.consumer.pop() {
            return Ok((Some(ResultObject::from(record)), false));
        }
        self.consumer.check_process()?;
        let filled = self.consumer.fill(Duration::ZERO);
        self.report(py)?;
        if let Filled::Ended(problem) = filled {
            return Self::failed(problem).map(|()| (None, true));
        }
        Ok((self.consumer.pop().map(ResultObject::from), false))
    }

    /// Calls a function once, from another thread, when there is something to take. Returns whether it will be called.
    fn wake(&self, wake: Py<PyAny>) -> PyResult<bool> {
        let jobs = query::jobs()?;
        let mut state = lock(&self.consumer.shared.state);
        let is_waiting = state.queue.is_empty() && state.end.is_none();
        if is_waiting {
            state.wakes.push((wake, jobs));
            self.consumer
                .shared
                .is_awaited
                .store(true, Ordering::Relaxed);
        }
        Ok(is_waiting)
    }

    /// Stops the queries. The results that have arrived can still be taken.
    fn cancel(&self) {
        self.consumer.stop();
    }

    /// Returns the progress.
    fn progress<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.consumer.check_process()?;
        let Snapshot {
            counts,
            total,
            in_flight,
            skipped,
        } = lock(&self.consumer.shared.state).progress.clone();
        let numbers = [
            counts.probes,
            counts.answered,
            counts.timed_out,
            counts.port_closed,
            counts.unreachable,
            counts.invalid,
            counts.unresolved,
            counts.datagrams_sent,
            counts.bytes_sent,
            counts.datagrams_received,
            counts.bytes_received,
            counts.datagrams_resent,
            counts.dropped_datagrams,
            in_flight as u64,
            skipped.duplicates,
            skipped.excluded,
            skipped.reserved,
        ];
        let class = PROGRESS.get_or_try_init(py, || {
            let module = py.import("hailer_query._types")?;
            module.getattr("Progress").map(Bound::unbind)
        })?;
        let total = total.into_pyobject(py)?;
        let numbers = PyTuple::new(py, numbers)?;
        let arguments: Vec<Bound<'py, PyAny>> =
            std::iter::once(total).chain(numbers.iter()).collect();
        class.bind(py).call1(PyTuple::new(py, arguments)?)
    }

    /// Returns the next results as a batch of at most this number of rows, or `None` at the end.
    fn next_batch(&self, py: Python<'_>, rows: usize) -> PyResult<Option<RecordBatch>> {
        let mut batch = arrow::Pending::new(rows);
        loop {
            self.consumer.check_process()?;
            let done = py.detach(|| batch.collect(&self.consumer, SLICE));
            self.report(py)?;
            match done {
                arrow::Collected::Batch => {
                    return batch.finish().map(|batch| Some(RecordBatch(batch)));
                }
                arrow::Collected::Ended(problem) => return Self::failed(problem).map(|()| None),
                arrow::Collected::Waiting => py.check_signals()?,
            }
        }
    }

    /// Returns the remaining results as an `ArrowArrayStream`.
    fn arrow_stream<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        self.consumer.check_process()?;
        arrow::stream(py, self.consumer.clone())
    }

    /// Returns the columns as an `ArrowSchema`.
    #[staticmethod]
    fn arrow_schema(py: Python<'_>) -> PyResult<Bound<'_, PyCapsule>> {
        arrow::schema_capsule(py)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.on_progress.try_lock() {
            Ok(callback) => visit.call(&*callback),
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        lock(&self.on_progress).take();
    }
}

/// Counts a finished query.
pub(crate) fn count(counts: &mut Counts, outcome: &Result<hailer::Answer, Error>) {
    let (sent, received) = match outcome {
        Ok(answer) => (answer.transcript.sent, answer.transcript.received),
        Err(error) => error
            .transcript()
            .map_or((0, 0), |transcript| (transcript.sent, transcript.received)),
    };
    counts.datagrams_sent += u64::from(sent);
    counts.datagrams_received += u64::from(received);
    let number = match outcome.as_ref().map_err(Error::kind) {
        Ok(_) => &mut counts.answered,
        Err(ErrorKind::Silence) => &mut counts.timed_out,
        Err(ErrorKind::PortClosed) => &mut counts.port_closed,
        Err(ErrorKind::Unreachable) => &mut counts.unreachable,
        Err(ErrorKind::NameNotFound | ErrorKind::Lookup) => &mut counts.unresolved,
        Err(_) => &mut counts.invalid,
    };
    *number += 1;
}
