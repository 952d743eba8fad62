//! Sources of a status, and what to publish when a status is old.
//!
//! ```text
//!   source: file, poll, push ──► TimedStatus ──► Policy ──► Published ──► Board
//!           a task of its own     watch    pure       status or silence
//! ```
//!
//! A source is a task that sends statuses through a [`watch::Sender`]; the receiver holds the
//! newest, and `None` before the first. A source never withdraws a status. Without new ones the
//! last status ages, and [`Policy`] decides what to publish. [`keep`] is the task between both.
//!
//! With the feature `sources`: `file` (a JSON file), `push` (HTTP PUT), `json` (their format).
//!
//! May import: `crate::client`, `crate::support`, `crate::target`, `hailer_proto`.

mod age;
#[cfg(feature = "sources")]
pub mod file;
#[cfg(feature = "sources")]
pub mod json;
pub mod poll;
#[cfg(feature = "sources")]
pub mod push;

pub use age::{Policy, Stale, Wording, WordingError};

use hailer_proto::{Status, Text};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Status with the time at which it was valid.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedStatus {
    /// The status.
    pub status: Arc<Status>,
    /// Time at which the status was valid.
    pub since: Instant,
}

impl TimedStatus {
    /// Creates a status that is valid now.
    pub fn now(status: Status) -> Self {
        Self {
            status: Arc::new(status),
            since: Instant::now(),
        }
    }

    /// Returns the age.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}

/// Behavior of a responder.
#[derive(Clone, Debug, PartialEq)]
pub enum Published {
    /// Replies with this status.
    Status(Arc<Status>),
    /// Does not reply.
    Silence,
}

/// Returns a channel for statuses that contains `None`.
pub fn statuses() -> (
    watch::Sender<Option<TimedStatus>>,
    watch::Receiver<Option<TimedStatus>>,
) {
    watch::channel(None)
}

/// Publishes the result of a policy whenever it changes, because of a new status or its age. Runs
/// until it is dropped, even if the source has ended.
pub async fn keep(
    policy: Policy,
    mut statuses: watch::Receiver<Option<TimedStatus>>,
    mut publish: impl FnMut(Published),
) {
    let mut last = None;
    let mut is_over = false;
    loop {
        let (published, again) = policy.decide(statuses.borrow_and_update().as_ref(), now());
        if last.as_ref() != Some(&published) {
            publish(published.clone());
            last = Some(published);
        }
        let again = async {
            match again {
                Some(again) => tokio::time::sleep_until(again.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = statuses.changed(), if !is_over => is_over = changed.is_err(),
            () = again => {}
        }
    }
}

/// Returns the time of the runtime's clock, which tests can pause.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Event of a source, described in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceEvent {
    /// A problem, with a line for the log.
    Failed(String),
    /// A problem for the status view only, because the limit of log lines is reached.
    Suppressed(String),
    /// The problem is solved. Contains a log line if the problem had one.
    Recovered(Option<String>),
}

/// Returns the end of a log line about a problem: the status that is published meanwhile.
fn kept(statuses: &watch::Sender<Option<TimedStatus>>) -> &'static str {
    if statuses.borrow().is_some() {
        "; the last status stays in use"
    } else {
        ""
    }
}

/// Limits the log lines about a repeated problem, and counts the suppressed ones.
#[derive(Debug)]
pub struct ProblemLog {
    /// Time between lines in the long run.
    every: Duration,
    /// Maximum time that the log lines may be ahead of their average rate, which allows a burst.
    ahead: Duration,
    /// Time at which the next line would be due at an even rate.
    due: Option<Instant>,
    suppressed: u64,
    /// Whether the last logged problem still exists.
    is_open: bool,
}

impl ProblemLog {
    /// Creates a limit of one line per `every` in the long run, and of `at_once` lines in a burst.
    pub fn new(every: Duration, at_once: u32) -> Self {
        Self {
            every,
            ahead: every * at_once.saturating_sub(1),
            due: None,
            suppressed: 0,
            is_open: false,
        }
    }

    /// Returns the line to log, unless the limit is reached.
    fn line_for(&mut self, problem: &str, now: Instant) -> Option<String> {
        let due = self.due.map_or(now, |due| due.max(now));
        if due > now + self.ahead {
            self.suppressed += 1;
            return None;
        }
        self.due = Some(due + self.every);
        self.is_open = true;
        Some(match std::mem::take(&mut self.suppressed) {
            0 => problem.to_owned(),
            suppressed => {
                format!("{problem} (and {suppressed} more times since the last such line)")
            }
        })
    }

    /// Returns the problem as an event.
    pub fn event(&mut self, problem: String, now: Instant) -> SourceEvent {
        self.line_for(&problem, now)
            .map_or(SourceEvent::Suppressed(problem), SourceEvent::Failed)
    }

    /// Returns the event for the end of the problem, if there was one.
    pub fn recovered(&mut self, line: String) -> Option<SourceEvent> {
        let was_suppressed = std::mem::take(&mut self.suppressed) > 0;
        if std::mem::take(&mut self.is_open) {
            Some(SourceEvent::Recovered(Some(line)))
        } else {
            was_suppressed.then_some(SourceEvent::Recovered(None))
        }
    }
}

/// Returns whether section signs are codes in a text, judged by its form without codes.
fn has_codes(raw: &str, plain: &str) -> bool {
    Text::legacy(raw).plain() == plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn log_lines_are_limited_and_counted() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut problems = ProblemLog::new(Duration::from_secs(60), 1);
        let ages: Vec<_> = (0..=120)
            .filter_map(|second| problems.line_for("bad", at(second)))
            .collect();
        let counted = "bad (and 59 more times since the last such line)";
        assert_eq!(ages, ["bad", counted, counted]);
        let mut over = || problems.recovered("good".into());
        assert_eq!(
            [over(), over()],
            [Some(SourceEvent::Recovered(Some("good".into()))), None]
        );
        // A short recovery does not reset the limit.
        assert_eq!(
            problems.event("bad".into(), at(121)),
            SourceEvent::Suppressed("bad".into())
        );
        assert_eq!(
            problems.recovered("good".into()),
            Some(SourceEvent::Recovered(None)),
            "it was seen, if not told"
        );
        let mut problems = ProblemLog::new(Duration::from_secs(10), 3);
        let ages: Vec<_> = (0..30)
            .filter(|second| problems.line_for("bad", at(*second)).is_some())
            .collect();
        assert_eq!(ages, [0, 1, 2, 10, 20]);
    }

    #[tokio::test(start_paused = true)]
    async fn publishes_on_new_statuses_and_with_age() {
        let (sender, receiver) = statuses();
        let events = Arc::new(Mutex::new(Vec::new()));
        let recorder = events.clone();
        let name = |name: &str| {
            Arc::new(Status {
                name: Some(Text::unformatted(name)),
                ..Status::default()
            })
        };
        let policy = Policy {
            before: Some(name("before")),
            stale_after: Some(Duration::from_secs(60)),
            stale: Stale::Silent,
        };
        let task = tokio::spawn(keep(policy, receiver, move |published| {
            recorder.lock().unwrap().push(published);
        }));
        let timed = |text| {
            Some(TimedStatus {
                status: name(text),
                since: now(),
            })
        };
        let wait = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        wait(10).await;
        sender.send_replace(timed("one"));
        wait(50).await;
        // The same status again: nothing to publish, but it is younger.
        sender.send_replace(timed("one"));
        wait(59).await;
        assert_eq!(
            *events.lock().unwrap(),
            ["before", "one"].map(|text| Published::Status(name(text)))
        );
        wait(2).await;
        assert_eq!(events.lock().unwrap().last(), Some(&Published::Silence));
        sender.send_replace(timed("two"));
        // The source ends. Its last status stays in use until it is stale.
        drop(sender);
        wait(59).await;
        assert_eq!(
            events.lock().unwrap().last(),
            Some(&Published::Status(name("two")))
        );
        wait(2).await;
        assert_eq!(events.lock().unwrap().len(), 5);
        assert_eq!(events.lock().unwrap().last(), Some(&Published::Silence));
        task.abort();
    }
}
