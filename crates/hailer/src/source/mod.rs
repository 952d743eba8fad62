//! Where the truth about a server comes from, and how old it may grow.
//!
//! ```text
//!   source: file, poll, push ──► TimedStatus ──► Policy ──► Published ──► Board
//!           a task of its own     watch    pure       status or silence
//! ```
//!
//! A source is something that runs as a task and hands truths on through a [`watch::Sender`]: whoever listens sees the
//! newest, and `None` until there is a first one. It never takes back what it said: when it learns nothing new, the truth
//! grows old, and [`Policy`] says what follows from that. [`keep`] is the task between both.
//!
//! With the feature `sources`: `file` (JSON that something else writes), `push` (HTTP PUT), `json` (their format).

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
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// After the system would let nobody in.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// What is known of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct TimedStatus {
    /// What it says of itself.
    pub status: Arc<Status>,
    /// When that was true.
    pub since: Instant,
}

impl TimedStatus {
    /// What is true now.
    pub fn now(status: Status) -> Self {
        Self {
            status: Arc::new(status),
            since: Instant::now(),
        }
    }

    /// How long ago it was true.
    pub fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }
}

/// What is answered from now on.
#[derive(Clone, Debug, PartialEq)]
pub enum Published {
    /// This.
    Status(Arc<Status>),
    /// Nothing, to nobody.
    Silence,
}

/// A channel for truths, before the first one.
pub fn truths() -> (
    watch::Sender<Option<TimedStatus>>,
    watch::Receiver<Option<TimedStatus>>,
) {
    watch::channel(None)
}

/// Hands on what a policy makes of the truths that come, and of their age, whenever that changes. Runs until it is
/// dropped: the end of a source is no reason to forget what it said.
pub async fn keep(
    policy: Policy,
    mut truths: watch::Receiver<Option<TimedStatus>>,
    mut publish: impl FnMut(Published),
) {
    let mut last = None;
    let mut is_over = false;
    loop {
        let (published, again) = policy.decide(truths.borrow_and_update().as_ref(), now());
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
            changed = truths.changed(), if !is_over => is_over = changed.is_err(),
            () = again => {}
        }
    }
}

/// The clock of the runtime, which tests hold still.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// What a source says of itself, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceEvent {
    /// Something is wrong.
    Trouble(String),
    /// Something is wrong, but such lines were told often enough lately: for whoever looks, not for a log.
    Untold(String),
    /// It is over. With a line, if there was one about the trouble.
    Over(Option<String>),
}

/// Connections of those who have come with a request, at most so many. One more, and whoever has been there for longest goes: a
/// request takes a moment, and who only holds a place must not keep others from theirs. All end when this is dropped.
#[derive(Debug)]
pub struct ConnectionLimiter {
    most: usize,
    tasks: JoinSet<()>,
    /// In the order in which they came.
    here: VecDeque<AbortHandle>,
}

impl ConnectionLimiter {
    /// None yet.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            tasks: JoinSet::new(),
            here: VecDeque::new(),
        }
    }

    /// One more. Within a tokio runtime.
    pub fn insert(&mut self, conversation: impl Future<Output = ()> + Send + 'static) {
        while self.tasks.try_join_next().is_some() {}
        self.here.retain(|visitor| !visitor.is_finished());
        if self.here.len() >= self.most
            && let Some(first) = self.here.pop_front()
        {
            first.abort();
        }
        self.here.push_back(self.tasks.spawn(conversation));
    }

    /// Lets in whoever comes to a listener, until this is dropped. No connection ends it.
    pub async fn receive<C>(
        &mut self,
        listener: &TcpListener,
        mut converse: impl FnMut(TcpStream, SocketAddr) -> C,
    ) -> Infallible
    where
        C: Future<Output = ()> + Send + 'static,
    {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => self.insert(converse(stream, peer)),
                // An error of one connection, or too many open files: passes, but not at once.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Waits until all have left.
    pub async fn leave(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}

/// The end of a line about trouble: what is answered meanwhile.
fn kept(truths: &watch::Sender<Option<TimedStatus>>) -> &'static str {
    if truths.borrow().is_some() {
        "; the last status stays in use"
    } else {
        ""
    }
}

/// Something goes wrong again and again, and is told at a bounded rate, with a count of what was not told.
#[derive(Debug)]
pub struct Complaint {
    /// In the long run at most one in so long.
    every: Duration,
    /// How far the times of lines may be ahead of the clock: so many come at once if there were none for long.
    ahead: Duration,
    /// When the next line would be due if all came evenly.
    due: Option<Instant>,
    untold: u64,
    /// What was told is still so.
    stands: bool,
}

impl Complaint {
    /// In the long run at most one line in so long; so many at once if there were none for long.
    pub fn new(every: Duration, at_once: u32) -> Self {
        Self {
            every,
            ahead: every * at_once.saturating_sub(1),
            due: None,
            untold: 0,
            stands: false,
        }
    }

    /// The line to tell, if it is time for one.
    fn about(&mut self, problem: &str, now: Instant) -> Option<String> {
        let due = self.due.map_or(now, |due| due.max(now));
        if due > now + self.ahead {
            self.untold += 1;
            return None;
        }
        (self.due, self.stands) = (Some(due + self.every), true);
        Some(match std::mem::take(&mut self.untold) {
            0 => problem.to_owned(),
            untold => format!("{problem} (and {untold} times more since the last such line)"),
        })
    }

    /// The same as a word.
    pub fn word(&mut self, problem: String, now: Instant) -> SourceEvent {
        self.about(&problem, now)
            .map_or(SourceEvent::Untold(problem), SourceEvent::Trouble)
    }

    /// All is well, in these words. Nothing, if it was before.
    pub fn over(&mut self, line: String) -> Option<SourceEvent> {
        let is_untold = std::mem::take(&mut self.untold) > 0;
        match std::mem::take(&mut self.stands) {
            true => Some(SourceEvent::Over(Some(line))),
            false => is_untold.then_some(SourceEvent::Over(None)),
        }
    }
}

/// Whether section signs are codes in a text, as its form without codes shows.
fn has_codes(raw: &str, plain: &str) -> bool {
    Text::legacy(raw).plain() == plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn complaints_are_bounded_and_counted() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut complaint = Complaint::new(Duration::from_secs(60), 1);
        let told: Vec<_> = (0..=120)
            .filter_map(|second| complaint.about("bad", at(second)))
            .collect();
        let counted = "bad (and 59 times more since the last such line)";
        assert_eq!(told, ["bad", counted, counted]);
        let mut over = || complaint.over("good".into());
        assert_eq!(
            [over(), over()],
            [Some(SourceEvent::Over(Some("good".into()))), None]
        );
        // Well in between is no reason to be told more often.
        assert_eq!(
            complaint.word("bad".into(), at(121)),
            SourceEvent::Untold("bad".into())
        );
        assert_eq!(
            complaint.over("good".into()),
            Some(SourceEvent::Over(None)),
            "it was seen, if not told"
        );
        let mut complaint = Complaint::new(Duration::from_secs(10), 3);
        let told: Vec<_> = (0..30)
            .filter(|second| complaint.about("bad", at(*second)).is_some())
            .collect();
        assert_eq!(told, [0, 1, 2, 10, 20]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_published_changes_with_truths_and_with_time() {
        let (sender, receiver) = truths();
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = said.clone();
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
            heard.lock().unwrap().push(published);
        }));
        let truth = |text| {
            Some(TimedStatus {
                status: name(text),
                since: now(),
            })
        };
        let wait = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        wait(10).await;
        sender.send_replace(truth("one"));
        wait(50).await;
        // The same again: nothing to publish, but younger.
        sender.send_replace(truth("one"));
        wait(59).await;
        assert_eq!(
            *said.lock().unwrap(),
            ["before", "one"].map(|text| Published::Status(name(text)))
        );
        wait(2).await;
        assert_eq!(said.lock().unwrap().last(), Some(&Published::Silence));
        sender.send_replace(truth("two"));
        // The source ends, and what it said is kept until it is too old.
        drop(sender);
        wait(59).await;
        assert_eq!(
            said.lock().unwrap().last(),
            Some(&Published::Status(name("two")))
        );
        wait(2).await;
        assert_eq!(said.lock().unwrap().len(), 5);
        assert_eq!(said.lock().unwrap().last(), Some(&Published::Silence));
        task.abort();
    }
}
