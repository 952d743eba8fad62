//! The sources of `hailer serve`: each a task that runs beside the answering and hands on what is to be answered.

use crate::config::{Feed, Origin};
use crate::observe::snapshot::{self, State};
use crate::print::tell;
use anyhow::Context;
use hailer::source::file::File;
use hailer::source::push::{Door, Place, Push};
use hailer::source::{Policy, Published, Stale, Truth, keep, truths};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch::Receiver;
use tokio::task::JoinSet;

/// Takes what is to be answered from now on.
pub(crate) type Publish = Box<dyn FnMut(Published) + Send>;

/// Sources that run. They stop when this is dropped, and what they listen on is closed.
pub(crate) struct Sources {
    _tasks: JoinSet<()>,
    watched: Vec<Watched>,
}

/// What is known of a source.
pub(crate) struct Watched {
    kind: &'static str,
    policy: Policy,
    truth: Receiver<Option<Truth>>,
    said: Arc<Mutex<Option<String>>>,
}

impl Watched {
    /// Of a server of this name.
    pub(crate) fn source(&self, name: String) -> snapshot::Source {
        let age = self.truth.borrow().as_ref().map(|truth| truth.since.elapsed());
        let is_stale = age.zip(self.policy.stale_after).is_some_and(|(age, limit)| age >= limit);
        let state = match (age, &self.policy.stale) {
            (None, _) => State::Never,
            (Some(_), Stale::Silent) if is_stale => State::Silent,
            (Some(_), _) if is_stale => State::Stale,
            (Some(_), _) => State::Fresh,
        };
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // What is fresh has gone right since.
        let last_error = said.filter(|_| state != State::Fresh);
        let age_s = age.map(|age| age.as_secs_f64());
        snapshot::Source { name, kind: self.kind.into(), age_s, state, last_error }
    }
}

impl Sources {
    /// Each source, in the order in which they were given.
    pub(crate) fn watched(&mut self) -> Vec<Watched> {
        std::mem::take(&mut self.watched)
    }
}

/// Starts the sources, each with whoever publishes what it says, within a runtime. The first thing published is what is
/// said before a source has spoken. Servers that are pushed to at one place share one listener.
pub(crate) async fn start(fed: Vec<(Feed, Publish)>) -> anyhow::Result<Sources> {
    let (mut tasks, mut watched) = (JoinSet::new(), Vec::new());
    let mut pushed: BTreeMap<Place, (bool, Vec<Door>)> = BTreeMap::new();
    for (feed, publish) in fed {
        let (sender, receiver) = truths();
        let said: Arc<Mutex<Option<String>>> = Arc::default();
        let kind = match &feed.from {
            Origin::File(_) => "file",
            Origin::Poll(_) => "poll",
            Origin::Push(_) => "push",
        };
        let complain = {
            let said = said.clone();
            move |line: String| {
                tell!("\x1b[33msource:\x1b[0m {line}");
                *said.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
            }
        };
        watched.push(Watched { kind, policy: feed.policy.clone(), truth: receiver.clone(), said });
        tasks.spawn(keep(feed.policy, receiver, publish));
        match feed.from {
            Origin::File(path) => drop(tasks.spawn(File::new(path).run(sender, complain))),
            Origin::Poll(poll) => drop(tasks.spawn(poll.run(sender, complain))),
            Origin::Push(push) => {
                let (insecure, doors) = pushed.entry(push.place).or_default();
                *insecure |= push.insecure;
                doors.push(Door::new(push.name, &push.token, sender));
            }
        }
    }
    for (place, (insecure, doors)) in pushed {
        let push = Push::bind(&place, insecure, doors).await;
        let push = push.with_context(|| format!("cannot listen on {place} for what is pushed"))?;
        let place = push.place()?;
        tell!("\x1b[2mtakes statuses on {place}\x1b[0m");
        tasks.spawn(push.run());
    }
    Ok(Sources { _tasks: tasks, watched })
}
