//! Queue of results for the database. It writes every second, or sooner for 5,000 samples.
//!
//! If the database fails (disk full, PostgreSQL away), results are kept in memory: at most
//! 1,000,000 samples, 100,000 events and 100,000 sessions. Beyond that the oldest are dropped, and
//! [`WriterHealth`] counts them. When the database works again, everything kept is written. A
//! killed process loses the results since the last write.
//!
//! In: results of polls. Out: batches for the database; its health.
//!
//! May import: `crate::history`, `crate::sample`.

use super::{Batch, History, HistoryError, PlayerSession, WriteCounts};
use crate::sample::unix_millis;
use crate::sample::{Event, Millis, Sample};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

/// Capacity of the channel to the task, in batches.
const CHANNEL_BATCHES: usize = 256;
/// First delay after a failure; doubles up to the longest.
const FIRST_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);

/// When to write, and how much to keep after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterLimits {
    /// Interval of writes.
    pub every: Duration,
    /// Number of queued samples that start a write early.
    pub soon: usize,
    /// Limit of queued samples, 48 bytes each.
    pub samples: usize,
    /// Limit of queued events, some hundred bytes each.
    pub events: usize,
    /// Limit of queued sessions, some hundred bytes each.
    pub sessions: usize,
    /// Limit of rows of each kind in one write.
    pub at_once: usize,
    /// Time after which a write is given up, so that a database that does not respond cannot delay a
    /// stop for longer.
    pub stop_timeout: Duration,
}

impl Default for WriterLimits {
    /// Returns the defaults: writes every second, or after 5,000 samples. The queue holds 1,000,000
    /// samples, which are 10 minutes of 100,000 servers, or a week of 100.
    fn default() -> Self {
        Self {
            every: Duration::from_secs(1),
            soon: 5_000,
            samples: 1_000_000,
            events: 100_000,
            sessions: 100_000,
            at_once: 20_000,
            stop_timeout: Duration::from_secs(60),
        }
    }
}

/// Health of the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriterHealth {
    /// Whether the last write failed. Results are kept in memory meanwhile.
    pub is_failing: bool,
    /// When the first of the failed writes in a row failed, in Unix milliseconds; `None` if the
    /// last write succeeded.
    pub since: Option<Millis>,
    /// Error of the last failed write.
    pub message: Option<String>,
    /// Samples, events and sessions in memory.
    pub kept: u64,
    /// Rows dropped since the start because a limit was reached.
    pub dropped: u64,
    /// Samples, events and sessions written since the start.
    pub written: u64,
}

/// Handle of the queue; cheap to clone. When the last one is dropped, the rest is written.
#[derive(Clone, Debug)]
pub struct HistoryWriter {
    messages: mpsc::Sender<QueueMessage>,
    health: watch::Receiver<WriterHealth>,
}

#[derive(Debug)]
enum QueueMessage {
    Batch(Batch),
    Finish(oneshot::Sender<()>),
}

impl HistoryWriter {
    /// Starts the task on the current tokio runtime.
    pub fn start(history: History, bounds: WriterLimits) -> Self {
        let (messages, inbox) = mpsc::channel(CHANNEL_BATCHES);
        let (published, health) = watch::channel(WriterHealth::default());
        let desk = WriterTask {
            history,
            bounds,
            inbox,
            published,
            health: WriterHealth::default(),
            kept: Backlog::default(),
            under_way: 0,
            at_once: bounds.at_once.max(1),
            pause: FIRST_RETRY_DELAY,
        };
        tokio::spawn(desk.run());
        Self { messages, health }
    }

    /// Queues a batch without waiting. Returns `false` if the queue is full or its task is gone.
    pub fn send(&self, batch: Batch) -> bool {
        self.messages.try_send(QueueMessage::Batch(batch)).is_ok()
    }

    /// Returns the current health.
    pub fn health(&self) -> WriterHealth {
        self.health.borrow().clone()
    }

    /// Writes all queued batches, if the database works, and ends the task. Returns the final
    /// health: rows still kept are lost.
    pub async fn finish(self) -> WriterHealth {
        let (done, wait) = oneshot::channel();
        if self.messages.send(QueueMessage::Finish(done)).await.is_ok() {
            let _ = wait.await;
        }
        self.health()
    }
}

/// State of the task.
struct WriterTask {
    history: History,
    bounds: WriterLimits,
    inbox: mpsc::Receiver<QueueMessage>,
    published: watch::Sender<WriterHealth>,
    health: WriterHealth,
    kept: Backlog,
    /// Rows that are being written.
    under_way: usize,
    /// Rows of each kind in one write; fewer while the database refuses some of them.
    at_once: usize,
    pause: Duration,
}

type PendingWrite =
    Pin<Box<dyn Future<Output = (Batch, Result<WriteCounts, WriteFailure>)> + Send>>;

impl WriterTask {
    async fn run(mut self) {
        let mut ticks = interval(self.bounds.every.max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut under_way: Option<PendingWrite> = None;
        let mut not_before: Option<Instant> = None;
        let mut finish: Option<Option<oneshot::Sender<()>>> = None;
        let mut is_due = false;
        loop {
            tokio::select! {
                message = self.inbox.recv(), if finish.is_none() => match message {
                    Some(QueueMessage::Batch(batch)) => self.keep(batch),
                    // Try once more, without waiting for an unavailable database.
                    Some(QueueMessage::Finish(done)) => {
                        finish = Some(Some(done));
                        not_before = None;
                    }
                    None => {
                        finish = Some(None);
                        not_before = None;
                    }
                },
                _ = ticks.tick() => is_due = true,
                (batch, result) = async { under_way.as_mut().expect("checked").await }, if under_way.is_some() => {
                    under_way = None;
                    not_before = self.done(batch, result);
                }
                () = async { sleep_until(not_before.expect("checked")).await }, if not_before.is_some() => not_before = None,
            }
            let is_enough =
                is_due || finish.is_some() || self.kept.samples.len() >= self.bounds.soon;
            let may_write = not_before.is_none() && is_enough;
            if under_way.is_none() && may_write && !self.kept.is_empty() {
                under_way = Some(self.write());
                is_due = false;
            }
            self.publish();
            if under_way.is_none() && finish.is_some() {
                let _ = finish.flatten().map(|done| done.send(()));
                return;
            }
        }
    }

    fn keep(&mut self, batch: Batch) {
        self.kept.samples.extend(batch.samples);
        self.kept.events.extend(batch.events);
        self.kept.sessions.extend(batch.sessions);
        self.trim();
    }

    fn trim(&mut self) {
        let bounds = self.bounds;
        self.health.dropped += trim(&mut self.kept.samples, bounds.samples)
            + trim(&mut self.kept.events, bounds.events)
            + trim(&mut self.kept.sessions, bounds.sessions);
    }

    fn write(&mut self) -> PendingWrite {
        let batch = self.kept.take(self.at_once);
        self.under_way = count(&batch);
        let history = self.history.clone();
        let stop_timeout = self.bounds.stop_timeout;
        Box::pin(async move {
            let result = match timeout(stop_timeout, history.write(&batch)).await {
                Ok(result) => result.map_err(|error| WriteFailure {
                    is_of_data: is_of_data(&error),
                    message: error.to_string(),
                }),
                Err(_) => {
                    let message = format!(
                        "the history fails: no answer within {} s",
                        stop_timeout.as_secs_f32()
                    );
                    Err(WriteFailure {
                        is_of_data: false,
                        message,
                    })
                }
            };
            (batch, result)
        })
    }

    /// Returns when to try again; `None` for immediately.
    fn done(&mut self, batch: Batch, result: Result<WriteCounts, WriteFailure>) -> Option<Instant> {
        self.under_way = 0;
        match result {
            Ok(_) => {
                self.health.is_failing = false;
                self.health.since = None;
                self.health.written += count(&batch) as u64;
                self.pause = FIRST_RETRY_DELAY;
                self.at_once = (self.at_once * 2).min(self.bounds.at_once.max(1));
                None
            }
            // The database rejects a row. Halve the writes until that row is found and dropped, so
            // that the others are stored.
            Err(failure) if failure.is_of_data => {
                self.health.message = Some(failure.message);
                match self.at_once {
                    1 => self.health.dropped += count(&batch) as u64,
                    _ => self.kept.put_back(batch),
                }
                self.at_once = (self.at_once / 2).max(1);
                None
            }
            Err(failure) => {
                self.health.is_failing = true;
                self.health.since.get_or_insert_with(unix_millis);
                self.health.message = Some(failure.message);
                self.kept.put_back(batch);
                self.trim();
                let pause = self.pause;
                self.pause = (pause * 2).min(MAX_RETRY_DELAY);
                Some(Instant::now() + pause)
            }
        }
    }

    fn publish(&mut self) {
        self.health.kept = (self.kept.len() + self.under_way) as u64;
        let health = &self.health;
        self.published.send_if_modified(|published| {
            let is_other = published != health;
            if is_other {
                published.clone_from(health);
            }
            is_other
        });
    }
}

struct WriteFailure {
    is_of_data: bool,
    message: String,
}

/// Whether the database refuses the data itself. All rows fit the tables, so this is a fault in our
/// code, which must not stop other rows.
pub(crate) fn is_of_data(error: &HistoryError) -> bool {
    let HistoryError::Sql(sqlx::Error::Database(error)) = error else {
        return false;
    };
    let Some(code) = error.code() else {
        return false;
    };
    match code.len() {
        // PostgreSQL: data exception, integrity constraint violation, limit exceeded.
        5 => ["22", "23", "54"]
            .iter()
            .any(|class| code.starts_with(class)),
        // SQLite: too big, constraint, mismatch; in the lowest byte.
        _ => code
            .parse::<u32>()
            .is_ok_and(|code| matches!(code & 0xff, 18..=20)),
    }
}

/// Queued rows, oldest first.
#[derive(Default)]
struct Backlog {
    samples: VecDeque<Sample>,
    events: VecDeque<Event>,
    sessions: VecDeque<PlayerSession>,
}

impl Backlog {
    fn len(&self) -> usize {
        self.samples.len() + self.events.len() + self.sessions.len()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn take(&mut self, at_once: usize) -> Batch {
        Batch {
            samples: take(&mut self.samples, at_once),
            events: take(&mut self.events, at_once),
            sessions: take(&mut self.sessions, at_once),
        }
    }

    fn put_back(&mut self, batch: Batch) {
        put_back(&mut self.samples, batch.samples);
        put_back(&mut self.events, batch.events);
        put_back(&mut self.sessions, batch.sessions);
    }
}

fn count(batch: &Batch) -> usize {
    batch.samples.len() + batch.events.len() + batch.sessions.len()
}

fn take<T>(kept: &mut VecDeque<T>, at_once: usize) -> Vec<T> {
    let taken = kept.drain(..at_once.min(kept.len())).collect();
    if kept.is_empty() && kept.capacity() > 4 * at_once {
        // Release memory after a long failure.
        kept.shrink_to_fit();
    }
    taken
}

fn put_back<T>(kept: &mut VecDeque<T>, taken: Vec<T>) {
    kept.reserve(taken.len());
    for one in taken.into_iter().rev() {
        kept.push_front(one);
    }
}

fn trim<T>(kept: &mut VecDeque<T>, most: usize) -> u64 {
    let excess = kept.len().saturating_sub(most);
    kept.drain(..excess);
    excess as u64
}
