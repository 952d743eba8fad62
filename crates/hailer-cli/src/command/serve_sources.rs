//! The sources of `hailer serve`: each a task that runs beside the answering and hands on what is to be answered.

use crate::config::{Feed, Origin, Source};
use crate::observe::snapshot::{self, State};
use crate::print::tell;
use anyhow::Context;
use hailer::Status;
use hailer::network::{Mode, Network};
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

/// What was known of a network before a reload stands for so long, unless it is heard.
const HOLD: Duration = Duration::from_secs(10);

/// Lines of all sources together: so many at once, and in the long run one in so long. Each source is brief by itself, but
/// there may be thousands that fail at the same time.
const AT_ONCE: u32 = 5;
const EVERY: Duration = Duration::from_secs(1);

/// Takes what is to be answered from now on.
pub(crate) type Publish = Box<dyn FnMut(Published) + Send>;

/// Sources that run. They stop when this is dropped, and what they listen on is closed.
pub(crate) struct Sources {
    tasks: JoinSet<()>,
    watched: Vec<Watched>,
    members: Vec<(Origin, Member)>,
    truths: Vec<(Origin, Receiver<Option<Truth>>)>,
    gate: Arc<Mutex<Gate>>,
}

/// What sources said last that have ended.
#[derive(Default)]
pub(crate) struct Said(Vec<(Origin, Truth)>);

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
    /// Ends them. Networks in which nobody goes on are left, so that nobody waits until it is missed.
    pub(crate) async fn end(mut self, goes_on: impl Fn(&Origin) -> bool) -> Said {
        let mut farewells = JoinSet::new();
        for (origin, member) in &self.members {
            let network = member.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(network) = network.filter(|_| !goes_on(origin)) {
                // Redis may be gone for good.
                farewells.spawn(tokio::time::timeout(FAREWELL, network.stop()));
            }
        }
        while farewells.join_next().await.is_some() {}
        self.tasks.shutdown().await;
        let last =
            |(origin, truth): &(Origin, Receiver<Option<Truth>>)| Some((origin.clone(), truth.borrow().clone()?));
        Said(self.truths.iter().filter_map(last).collect())
    }

    /// What is to be answered for a source that runs already, by the source's policy; none if it does not.
    pub(crate) fn published(&self, source: &Source) -> Option<Published> {
        let Source::Fed(feed) = source else { return None };
        let (_, truth) = self.truths.iter().find(|(origin, _)| origin.is_same(&feed.from))?;
        let truth = truth.borrow().clone();
        truth.map(|truth| feed.policy.decide(Some(&truth), Instant::now()).0)
    }

    /// A line about lines that were not told, if there are any.
    pub(crate) fn held_back(&self) -> Option<String> {
        let held = std::mem::take(&mut self.gate.lock().unwrap_or_else(PoisonError::into_inner).held);
        (held > 0).then(|| {
            format!(
                "\x1b[33msource:\x1b[0m {held} more lines were held back; `hailer serve status` has the last of each"
            )
        })
    }

    /// Each source, in the order in which they were given.
    pub(crate) fn watched(&mut self) -> Vec<Watched> {
        std::mem::take(&mut self.watched)
    }
}

/// Starts the sources, each with whoever publishes what it says, within a runtime. The first thing published is what a
/// source said that has `ended`, or what is said before it has spoken. Servers that are pushed to at one place share one
/// listener. Also returns what hinders single ones.
pub(crate) async fn start(fed: Vec<(Feed, Publish)>, ended: &Said) -> (Sources, Vec<anyhow::Error>) {
    let mut problems = Vec::new();
    let (mut tasks, mut watched, mut members, mut known) = (JoinSet::new(), Vec::new(), Vec::new(), Vec::new());
    let gate = Arc::new(Mutex::new(Gate::default()));
    let mut pushed: BTreeMap<Place, (bool, Vec<Door>)> = BTreeMap::new();
    for (feed, publish) in fed {
        let (sender, receiver) = truths();
        let last = ended.0.iter().find(|(origin, _)| origin.is_same(&feed.from)).map(|(_, truth)| truth.clone());
        if last.is_some() {
            sender.send_replace(last);
        }
        known.push((feed.from.clone(), receiver.clone()));
        let said: Arc<Mutex<Option<String>>> = Arc::default();
        let kind = match &feed.from {
            Origin::File(_) => "file",
            Origin::Poll(_) => "poll",
            Origin::Push(_) => "push",
            Origin::Redis(_) => "redis",
        };
        let before = feed.policy.before.clone();
        let complain = {
            let (said, gate) = (said.clone(), gate.clone());
            move |line: String| {
                if gate.lock().unwrap_or_else(PoisonError::into_inner).lets_through(Instant::now()) {
                    tell!("\x1b[33msource:\x1b[0m {line}");
                }
                *said.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
            }
        };
        watched.push(Watched { kind, policy: feed.policy.clone(), truth: receiver.clone(), said });
        tasks.spawn(keep(feed.policy, receiver, publish));
        match feed.from {
            Origin::File(path) => drop(tasks.spawn(File::new(path).run(sender, complain))),
            Origin::Poll(poll) => drop(tasks.spawn(poll.run(sender, complain))),
            Origin::Redis(settings) => {
                let origin = Origin::Redis(settings.clone());
                let hold = if settings.mode == Mode::Aggregate { HOLD } else { Duration::ZERO };
                let network = match Network::start(*settings) {
                    Ok(network) => network,
                    Err(error) => {
                        problems.push(error.into());
                        continue;
                    }
                };
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
                members.push((origin, member.clone()));
                drop(tasks.spawn(follow(member, updates, sender, hold, complain)));
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
        let push = push.and_then(|push| Ok((push.place()?, push)));
        match push.with_context(|| format!("cannot listen on {place} for what is pushed")) {
            Ok((place, push)) => {
                tell!("\x1b[2mtakes statuses on {place}\x1b[0m");
                tasks.spawn(push.run());
            }
            Err(problem) => problems.push(problem),
        }
    }
    (Sources { tasks, watched, members, truths: known, gate }, problems)
}

/// A server of a network, until it leaves.
type Member = Arc<Mutex<Option<Network>>>;

/// Hands on what a network says, as long as there is word of it. What was known of it before stands until it is heard, or for
/// as long as `hold` says.
async fn follow(
    member: Member,
    mut updates: Receiver<Arc<Status>>,
    sender: Sender<Option<Truth>>,
    hold: Duration,
    mut complain: impl FnMut(String),
) {
    let (is_known, started) = (sender.borrow().is_some(), Instant::now());
    let is_held = || is_known && started.elapsed() < hold;
    let health = || member.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(Network::health);
    let mut failed = None;
    while let Some(health) = health() {
        // Without Redis the last view ages, and then it is what this server knows of itself.
        if let Some(since) = Instant::now().checked_sub(health.age.unwrap_or_default())
            && (health.refreshed.is_some() || !is_held())
        {
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

/// Lets lines through at a bounded rate, and counts the others.
#[derive(Default)]
struct Gate {
    /// When the next line would be due if all came evenly.
    due: Option<Instant>,
    held: u64,
}

impl Gate {
    fn lets_through(&mut self, now: Instant) -> bool {
        let due = self.due.map_or(now, |due| due.max(now));
        let is_open = due + EVERY <= now + EVERY * AT_ONCE;
        match is_open {
            true => self.due = Some(due + EVERY),
            false => self.held += 1,
        }
        is_open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_few_however_many_sources_fail() {
        let (mut gate, start) = (Gate::default(), Instant::now());
        let told = |gate: &mut Gate, millis: u64| {
            (0..100).filter(|_| gate.lets_through(start + Duration::from_millis(millis))).count()
        };
        assert_eq!((told(&mut gate, 0), told(&mut gate, 500), told(&mut gate, 1_000)), (5, 0, 1));
        assert_eq!(told(&mut gate, 60_000), 5);
        assert_eq!(gate.held, 400 - 11);
    }
}
