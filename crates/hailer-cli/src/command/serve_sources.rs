//! The sources of `hailer serve`: each a task that runs beside the answering and hands on what is to be answered.

use crate::config::{Feed, Origin};
use crate::observe::snapshot::{self, State};
use crate::print::tell;
use anyhow::Context;
use hailer::Status;
use hailer::network::Network;
use hailer::source::file::File;
use hailer::source::push::{Door, Place, Push};
use hailer::source::{Policy, Published, Stale, Truth, keep, truths};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch::{Receiver, Sender};
use tokio::task::JoinSet;

/// A network is asked for its health so often.
const LOOK: Duration = Duration::from_secs(1);

/// A network has so long to take note that a server leaves.
const FAREWELL: Duration = Duration::from_secs(2);

/// Takes what is to be answered from now on.
pub(crate) type Publish = Box<dyn FnMut(Published) + Send>;

/// Sources that run. They stop when this is dropped, and what they listen on is closed.
pub(crate) struct Sources {
    _tasks: JoinSet<()>,
    watched: Vec<Watched>,
    members: Vec<Member>,
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
    /// Leaves all networks, so that nobody waits until it is missed.
    pub(crate) async fn stop(self) {
        for member in &self.members {
            let network = member.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(network) = network {
                // Redis may be gone for good.
                let _ = tokio::time::timeout(FAREWELL, network.stop()).await;
            }
        }
    }

    /// Each source, in the order in which they were given.
    pub(crate) fn watched(&mut self) -> Vec<Watched> {
        std::mem::take(&mut self.watched)
    }
}

/// Starts the sources, each with whoever publishes what it says, within a runtime. The first thing published is what is
/// said before a source has spoken. Servers that are pushed to at one place share one listener.
pub(crate) async fn start(fed: Vec<(Feed, Publish)>) -> anyhow::Result<Sources> {
    let (mut tasks, mut watched, mut members) = (JoinSet::new(), Vec::new(), Vec::new());
    let mut pushed: BTreeMap<Place, (bool, Vec<Door>)> = BTreeMap::new();
    for (feed, publish) in fed {
        let (sender, receiver) = truths();
        let said: Arc<Mutex<Option<String>>> = Arc::default();
        let kind = match &feed.from {
            Origin::File(_) => "file",
            Origin::Poll(_) => "poll",
            Origin::Push(_) => "push",
            Origin::Redis(_) => "redis",
        };
        let before = feed.policy.before.clone();
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
            Origin::Redis(settings) => {
                let network = Network::start(*settings)?;
                let status = before.unwrap_or_default();
                network.publish(&status);
                let nameless = network.set_players(&status.players.list);
                if nameless > 0 {
                    complain(format!(
                        "redis: {nameless} players of the status have no uuid, and a network takes none such"
                    ));
                }
                let updates = network.updates();
                let member: Member = Arc::new(Mutex::new(Some(network)));
                members.push(member.clone());
                drop(tasks.spawn(follow(member, updates, sender, complain)));
            }
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
    Ok(Sources { _tasks: tasks, watched, members })
}

/// A server of a network, until it leaves.
type Member = Arc<Mutex<Option<Network>>>;

/// Hands on what a network says, as long as there is word of it.
async fn follow(
    member: Member,
    mut updates: Receiver<Arc<Status>>,
    sender: Sender<Option<Truth>>,
    mut complain: impl FnMut(String),
) {
    let health = || member.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Network::health);
    let mut failed = None;
    while let Some(health) = health() {
        // Without Redis the last view ages, and then it is what this server knows of itself.
        if let Some(since) = Instant::now().checked_sub(health.age.unwrap_or_default()) {
            let status = updates.borrow_and_update().clone();
            sender.send_replace(Some(Truth { status, since }));
        }
        if health.last_error != failed && !health.connected {
            failed = health.last_error;
            if let Some(error) = &failed {
                complain(format!("redis: {error}"));
            }
        }
        tokio::select! {
            changed = updates.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}
