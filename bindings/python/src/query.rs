//! Single queries: blocking in the calling thread, or in the background for an event loop.

use crate::options::QueryOptions;
use crate::results::Record;
use crate::stream::{self, Producer, SLICE, Stream, lock};
use crate::{convert, error};
use hailer::client::ClientConfig;
use hailer::{Answer, Client, Error};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::io;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::AbortHandle;
use tokio::time::sleep;

/// Time between two looks at a full queue.
const FULL_WAIT: Duration = Duration::from_millis(5);

/// The threads of asynchronous queries. Only a thread with the GIL locks it, so that no child inherits it locked.
static BACKGROUND: Mutex<Option<Background>> = Mutex::new(None);

/// A call of Python code, or `None` at the end of the program.
type Job = Option<Box<dyn FnOnce(Python<'_>) + Send>>;

struct Background {
    /// Process that the threads run in.
    process: u32,
    runtime: Handle,
    jobs: Sender<Job>,
    /// The thread that runs jobs.
    runner: JoinHandle<()>,
}

/// Ends the thread that runs Python code. Called before the interpreter ends: it would end the thread in the middle of its frames.
#[pyfunction]
pub(crate) fn stop_background(py: Python<'_>) {
    let process = std::process::id();
    let background = lock(&BACKGROUND).take_if(|background| background.process == process);
    if let Some(Background { jobs, runner, .. }) = background {
        let _ = jobs.send(None);
        // The thread may need the GIL for its last job. A panic of it was reported.
        let _ = py.detach(|| runner.join());
    }
}

/// Returns a runtime without threads.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// Runs a function with the threads of this process, which it starts if there are none.
fn with_background<T>(run: impl FnOnce(&Background) -> T) -> io::Result<T> {
    let mut slot = lock(&BACKGROUND);
    let process = std::process::id();
    let current = slot.take_if(|background| background.process == process);
    // The parent's runtime has no threads here, so its parts must not be dropped.
    std::mem::forget(slot.take());
    let background = match current {
        Some(background) => background,
        None => start(process)?,
    };
    Ok(run(slot.insert(background)))
}

fn start(process: u32) -> io::Result<Background> {
    let runtime = runtime()?;
    let handle = runtime.handle().clone();
    let thread = |name: &str| std::thread::Builder::new().name(name.into());
    thread("hailer-query").spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    let (jobs, received) = channel();
    let runner = thread("hailer-wake").spawn(move || run_jobs(&received))?;
    Ok(Background {
        process,
        runtime: handle,
        jobs,
        runner,
    })
}

/// Runs jobs, all that are there with one lock of the GIL. Queries continue meanwhile: waiting for the GIL must not count as latency.
fn run_jobs(received: &Receiver<Job>) {
    while let Ok(Some(first)) = received.recv() {
        let is_over = Python::try_attach(|py| {
            first(py);
            for job in received.try_iter() {
                match job {
                    Some(job) => job(py),
                    None => return true,
                }
            }
            false
        });
        // The interpreter may have ended.
        if is_over.unwrap_or(true) {
            return;
        }
    }
}

/// Returns the way to run Python code from threads that must not wait for the GIL. Called with the GIL.
pub(crate) fn jobs() -> io::Result<JobQueue> {
    with_background(|background| JobQueue(background.jobs.clone()))
}

/// Runs Python code in another thread.
#[derive(Clone)]
pub(crate) struct JobQueue(Sender<Job>);

impl JobQueue {
    pub(crate) fn send(&self, job: impl FnOnce(Python<'_>) + Send + 'static) {
        let _ = self.0.send(Some(Box::new(job)));
    }
}

/// Queries a server. Returns its answer as a dataclass.
#[pyfunction]
pub(crate) fn query<'py>(
    py: Python<'py>,
    target: &str,
    options: QueryOptions,
) -> PyResult<Bound<'py, PyAny>> {
    let config = options.client()?;
    match py.detach(|| blocking(config, target))? {
        Ok(found) => convert::answer(py, Some(target), &found),
        Err(failed) => Err(error::raised(py, target, &failed)),
    }
}

/// Queries in this thread. Signals end it.
fn blocking(config: ClientConfig, target: &str) -> PyResult<Result<Answer, Error>> {
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        let client = Client::new(config);
        let mut query = pin!(client.query(target));
        loop {
            tokio::select! {
                result = &mut query => return Ok(result),
                () = sleep(SLICE) => Python::attach(|py| py.check_signals())?,
            }
        }
    });
    // A name lookup may still run; no query waits for it.
    runtime.shutdown_background();
    result
}

/// A query in the background.
#[pyclass(frozen, module = "hailer_query._native")]
pub(crate) struct QueryTask(AbortHandle);

#[pymethods]
impl QueryTask {
    /// Ends the query. Its function is not called.
    fn cancel(&self) {
        self.0.abort();
    }
}

/// Starts a query in the background. At its end, calls `done(answer, error)` in another thread.
#[pyfunction]
pub(crate) fn start_query(
    target: String,
    options: QueryOptions,
    done: Py<PyAny>,
) -> PyResult<QueryTask> {
    let config = options.client()?;
    let task = with_background(|background| {
        let jobs = background.jobs.clone();
        background.runtime.spawn(async move {
            let result = Client::new(config).query(&*target).await;
            let job = move |py: Python<'_>| finish(py, &target, &result, &done);
            let _ = jobs.send(Some(Box::new(job)));
        })
    })?;
    Ok(QueryTask(task.abort_handle()))
}

fn finish(py: Python<'_>, target: &str, result: &Result<Answer, Error>, done: &Py<PyAny>) {
    let converted = match result {
        Ok(answer) => convert::answer(py, Some(target), answer).map(|answer| (Some(answer), None)),
        Err(failed) => error::exception(py, target, failed).map(|error| (None, Some(error))),
    };
    let parts = converted
        .unwrap_or_else(|error| (None, Some(error.into_value(py).into_bound(py).into_any())));
    if let Err(error) = done.call1(py, parts) {
        error.write_unraisable(py, None);
    }
}

/// Starts queries of many servers.
#[pyfunction]
pub(crate) fn start_query_many(
    targets: Vec<String>,
    options: QueryOptions,
    concurrency: usize,
    on_progress: Option<Py<PyAny>>,
) -> PyResult<Stream> {
    let config = options.client()?;
    if concurrency == 0 {
        return Err(PyValueError::new_err(
            "concurrency: expected a number above 0",
        ));
    }
    let total = targets.len() as u64;
    stream::spawn(
        "hailer-many",
        Some(total),
        Default::default(),
        true,
        on_progress,
        move |producer| {
            producer.run(async |producer| {
                many(producer, config, &targets, concurrency).await;
                Ok(())
            });
        },
    )
}

async fn many(
    producer: &mut Producer,
    config: ClientConfig,
    targets: &[String],
    concurrency: usize,
) {
    let client = Client::new(config);
    let mut results = client.query_many(targets.iter().map(String::as_str), concurrency);
    while !producer.is_stopped() {
        if producer.is_full() {
            sleep(FULL_WAIT).await;
            continue;
        }
        let next = tokio::select! {
            next = results.next() => next,
            () = sleep(SLICE) => continue,
        };
        let Some((target, result)) = next else {
            return;
        };
        let outcome = result.map(|answers| answers.best().clone());
        producer.report(|counts, _| {
            counts.probes += 1;
            stream::count(counts, &outcome);
        });
        producer.push(Record {
            name: Some(target.into()),
            at: SystemTime::now(),
            outcome,
            sighting: None,
        });
        producer.flush();
    }
}
