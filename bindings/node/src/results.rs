//! Results of many queries, in batches.
//!
//! ```text
//!   query_many: task of Tokio ─┐
//!                              ├─► channel ─► next(): a promise of a batch
//!   sweep: thread ─────────────┘
//! ```
//!
//! Limits: at most [`CAPACITY`] results wait in the channel. While it is full, no query starts.

use crate::options::Options;
use crate::{invalid, line};
use futures_util::StreamExt;
use hailer::sweep::{
    Collector, Counts, Exclusions, ListSource, ProbeResult, Progress, Sink, SourceConfig,
};
use hailer::{Client, Target};
use napi_derive::napi;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;

/// Largest number of results that wait to be taken.
const CAPACITY: usize = 1_024;
/// Largest number of results in one batch.
const BATCH: usize = 256;

/// Results as they arrive.
#[napi]
pub struct Results {
    receiver: tokio::sync::Mutex<Receiver<String>>,
    progress: Arc<Mutex<LastProgress>>,
    stop: Arc<AtomicBool>,
    stopped: watch::Sender<bool>,
    failure: Arc<Mutex<Option<String>>>,
}

/// The last report of a sweep.
#[derive(Default)]
struct LastProgress {
    counts: Counts,
    total: Option<u64>,
    in_flight: usize,
}

/// JSON of a [`LastProgress`].
#[derive(serde::Serialize)]
struct ProgressLine<'a> {
    #[serde(flatten)]
    counts: &'a Counts,
    total: Option<u64>,
    in_flight: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[napi]
impl Results {
    /// Waits for results. Returns them as lines of JSON, at least one, or `null` after the last.
    #[napi]
    pub async fn next(&self) -> napi::Result<Option<String>> {
        let mut stopped = self.stopped.subscribe();
        let mut receiver = self.receiver.lock().await;
        let mut lines = Vec::new();
        let count = tokio::select! {
            biased;
            _ = stopped.wait_for(|is_stopped| *is_stopped) => 0,
            count = receiver.recv_many(&mut lines, BATCH) => count,
        };
        if count > 0 {
            return Ok(Some(lines.join("\n")));
        }
        match lock(&self.failure).take() {
            Some(problem) => Err(napi::Error::from_reason(problem)),
            None => Ok(None),
        }
    }

    /// Returns the progress of a sweep as JSON.
    #[napi]
    pub fn progress(&self) -> String {
        let last = lock(&self.progress);
        let line = ProgressLine {
            counts: &last.counts,
            total: last.total,
            in_flight: last.in_flight,
        };
        serde_json::to_string(&line).unwrap_or_default()
    }

    /// Stops all queries. Later results are dropped.
    #[napi]
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.stopped.send_replace(true);
    }

    fn new(receiver: Receiver<String>) -> Self {
        Self {
            receiver: receiver.into(),
            progress: Arc::default(),
            stop: Arc::default(),
            stopped: watch::Sender::new(false),
            failure: Arc::default(),
        }
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Queries servers, some at a time.
#[napi]
pub fn query_many(targets: Vec<String>, options: String) -> napi::Result<Results> {
    let options = Options::parse(&options)?;
    let client = Client::new(options.client()?);
    let (sender, receiver) = mpsc::channel(CAPACITY);
    let results = Results::new(receiver);
    let mut stopped = results.stopped.subscribe();
    napi::bindgen_prelude::spawn(async move {
        let work = run_queries(targets, &options, &client, sender);
        tokio::select! {
            _ = stopped.wait_for(|is_stopped| *is_stopped) => {}
            () = work => {}
        }
    });
    Ok(results)
}

async fn run_queries(
    targets: Vec<String>,
    options: &Options,
    client: &Client,
    sender: Sender<String>,
) {
    let mut parsed: Vec<(String, Target)> = Vec::with_capacity(targets.len());
    for text in targets {
        match options.target(&text) {
            Ok(target) => parsed.push((text, target)),
            Err(error) => {
                if sender.send(line(&text, Err(&error))).await.is_err() {
                    return;
                }
            }
        }
    }
    let query = |(text, target): (String, Target)| async move {
        let result = client.detect(target).await;
        line(&text, result.as_ref().map(|answers| answers.best()))
    };
    let mut lines = futures_util::stream::iter(parsed)
        .map(query)
        .buffer_unordered(options.concurrency());
    while let Some(line) = lines.next().await {
        if sender.send(line).await.is_err() {
            return;
        }
    }
}

/// Queries many servers at a limited rate, in a thread.
#[napi]
pub fn sweep(targets: Vec<String>, options: String) -> napi::Result<Results> {
    let options = Options::parse(&options)?;
    let config = options.sweep()?;
    let mut collector = Collector::with_defaults(options.kinds()?);
    for target in &targets {
        collector.add(target).map_err(invalid)?;
    }
    let mut exclusions = Exclusions::default();
    for network in &options.exclude {
        exclusions.add(network).map_err(invalid)?;
    }
    let exclusions = Arc::new(exclusions);
    let targets = collector.finish(&exclusions).map_err(invalid)?;
    let mut walk = SourceConfig::default();
    walk.seed = options.seed;
    walk.shard = options.shard()?;
    walk.name_server = options.name_server();
    let mut source = ListSource::new(targets, exclusions, walk);
    let (sender, receiver) = mpsc::channel(CAPACITY);
    let results = Results::new(receiver);
    let mut sink = ChannelSink {
        sender,
        waiting: VecDeque::new(),
        has_failures: options.failed.unwrap_or(true),
        progress: Arc::clone(&results.progress),
        stop: Arc::clone(&results.stop),
    };
    let failure = Arc::clone(&results.failure);
    let thread = std::thread::Builder::new().name("hailer-sweep".into());
    let started = thread.spawn(move || {
        match hailer::sweep::run(&config, &mut source, &mut sink) {
            Ok(counts) => lock(&sink.progress).counts = counts,
            Err(error) => *lock(&failure) = Some(error.to_string()),
        }
        sink.finish();
    });
    started.map_err(|error| napi::Error::from_reason(error.to_string()))?;
    Ok(results)
}

/// Passes results on to a channel.
struct ChannelSink {
    sender: Sender<String>,
    /// Results that the channel had no room for.
    waiting: VecDeque<String>,
    has_failures: bool,
    progress: Arc<Mutex<LastProgress>>,
    stop: Arc<AtomicBool>,
}

impl ChannelSink {
    /// Moves waiting results to the channel, as far as there is room.
    fn flush(&mut self) {
        while let Some(line) = self.waiting.pop_front() {
            if let Err(error) = self.sender.try_send(line) {
                self.waiting.push_front(error.into_inner());
                return;
            }
        }
    }

    /// Waits until the last results have room.
    fn finish(&mut self) {
        for line in self.waiting.drain(..) {
            if self.stop.load(Ordering::Relaxed) || self.sender.blocking_send(line).is_err() {
                return;
            }
        }
    }
}

impl Sink for ChannelSink {
    fn record(&mut self, result: ProbeResult) {
        if result.result.is_err() && !self.has_failures {
            return;
        }
        let transcript = match &result.result {
            Ok(answer) => Some(&answer.transcript),
            Err(error) => error.transcript(),
        };
        let target = match (&result.name, transcript) {
            (Some(name), _) => name.to_string(),
            (None, Some(of)) => format!("{}://{}", of.protocol.id, of.address),
            (None, None) => String::new(),
        };
        self.waiting
            .push_back(line(&target, result.result.as_ref()));
        self.flush();
    }

    fn is_full(&self) -> bool {
        !self.waiting.is_empty() && self.sender.capacity() == 0
    }

    fn report_progress(&mut self, progress: &Progress<'_>) {
        self.flush();
        *lock(&self.progress) = LastProgress {
            counts: progress.counts.clone(),
            total: progress.total,
            in_flight: progress.in_flight,
        };
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
