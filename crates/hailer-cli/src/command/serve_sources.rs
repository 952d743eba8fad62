//! The sources of `hailer serve`: each a task that runs beside the answering and hands on what is to be answered.

use crate::config::{Feed, Origin};
use crate::observe::snapshot::{self, State};
use crate::print::tell;
use anyhow::Context;
use futures_util::future::join_all;
use hailer::Status;
use hailer::network::{Mode, Network};
use hailer::source::file::File;
use hailer::source::push::{Door, Place, Push};
use hailer::source::{Complaint, Policy, Published, SourceEvent, Stale, TimedStatus, keep, truths};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch::{Receiver, Sender};
use tokio::task::JoinSet;

/// A network is asked for its health so often.
const LOOK: Duration = Duration::from_secs(1);

/// Lines about a network that cannot be reached come at most so often.
const COMPLAIN: Duration = Duration::from_secs(60);

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

/// Sources that run. They stop when this is dropped, and what they listen on is closed a moment later.
#[derive(Default)]
pub(crate) struct Sources {
    tasks: JoinSet<()>,
    watched: Vec<Watched>,
    members: Vec<(String, Member)>,
    /// What each said last, by its identity.
    said: BTreeMap<String, Receiver<Option<TimedStatus>>>,
    /// Of lines about sources. It stays through reloads, and so does its count.
    gate: Arc<Mutex<Gate>>,
}

/// What is known of a source.
pub(crate) struct Watched {
    kind: &'static str,
    policy: Policy,
    truth: Receiver<Option<TimedStatus>>,
    trouble: Trouble,
}

/// What is wrong with a source now, in its own words.
type Trouble = Arc<Mutex<Option<String>>>;

impl Watched {
    /// Of a server of this name.
    pub(crate) fn source(&self, name: String) -> snapshot::Source {
        let age = self
            .truth
            .borrow()
            .as_ref()
            .map(|truth| truth.since.elapsed());
        let is_stale = age
            .zip(self.policy.stale_after)
            .is_some_and(|(age, limit)| age >= limit);
        let state = match (age, &self.policy.stale) {
            (None, _) => State::Never,
            (Some(_), Stale::Silent) if is_stale => State::Silent,
            (Some(_), _) if is_stale => State::Stale,
            (Some(_), _) => State::Fresh,
        };
        let last_error = self
            .trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let age_s = age.map(|age| age.as_secs_f64());
        snapshot::Source {
            name,
            kind: self.kind.into(),
            age_s,
            state,
            last_error,
        }
    }
}

impl Sources {
    /// What such a source said last.
    pub(crate) fn said(&self, origin: &Origin) -> Option<TimedStatus> {
        self.said.get(&origin.identity())?.borrow().clone()
    }

    /// Stops all of them; what they listened on is free then. Leaves all networks, so that nobody waits until they are missed,
    /// but for those that `returns` says so of.
    pub(crate) async fn stop(&mut self, returns: impl Fn(&str) -> bool) {
        let networks = self.members.drain(..).filter_map(|(identity, member)| {
            let network = member.lock().unwrap_or_else(PoisonError::into_inner).take();
            network.filter(|_| !returns(&identity))
        });
        // Redis may be gone for good. Meanwhile the others still take what they are told.
        let farewells = networks.map(|network| tokio::time::timeout(FAREWELL, network.stop()));
        join_all(farewells.collect::<Vec<_>>()).await;
        self.tasks.shutdown().await;
    }

    /// A line about lines that were not told, if there are any.
    pub(crate) fn held_back(&self) -> Option<String> {
        let held = std::mem::take(
            &mut self
                .gate
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .held,
        );
        let more = "more lines were held back; `hailer serve status` has the last of each";
        (held > 0).then(|| format!("\x1b[33msource:\x1b[0m {held} {more}"))
    }

    /// Each source, in the order in which they were given.
    pub(crate) fn watched(&mut self) -> Vec<Watched> {
        std::mem::take(&mut self.watched)
    }
}

/// Starts the sources, each with whoever publishes what it says, within a runtime. What such a source said before is
/// published first, or else what is said before it has spoken. Servers that are pushed to at one place share one listener.
/// Returns what runs, and what does not.
pub(crate) async fn start(
    fed: Vec<(Feed, Publish)>,
    before: &Sources,
) -> (Sources, Vec<anyhow::Error>) {
    let mut sources = Sources {
        gate: before.gate.clone(),
        ..Sources::default()
    };
    let mut problems = Vec::new();
    let mut pushed: BTreeMap<Place, (bool, Vec<Door>)> = BTreeMap::new();
    for (feed, publish) in fed {
        let (sender, receiver) = truths();
        sender.send_replace(before.said(&feed.from));
        sources.said.insert(feed.from.identity(), receiver.clone());
        let trouble = Trouble::default();
        let kind = match &feed.from {
            Origin::File(_) => "file",
            Origin::Poll(_) => "poll",
            Origin::Push(_) => "push",
            Origin::Redis(_) => "redis",
        };
        let own = feed.policy.before.clone();
        let say = {
            let (trouble, gate) = (trouble.clone(), sources.gate.clone());
            move |word: SourceEvent| {
                if let SourceEvent::Trouble(line) | SourceEvent::Over(Some(line)) = &word
                    && gate
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .lets_through(Instant::now())
                {
                    tell!("\x1b[33msource:\x1b[0m {line}");
                }
                *trouble.lock().unwrap_or_else(PoisonError::into_inner) = match word {
                    SourceEvent::Trouble(line) | SourceEvent::Untold(line) => Some(line),
                    SourceEvent::Over(_) => None,
                };
            }
        };
        sources.watched.push(Watched {
            kind,
            policy: feed.policy.clone(),
            truth: receiver.clone(),
            trouble,
        });
        sources.tasks.spawn(keep(feed.policy, receiver, publish));
        let identity = feed.from.identity();
        match feed.from {
            Origin::File(path) => drop(sources.tasks.spawn(File::new(path).run(sender, say))),
            Origin::Poll(poll) => drop(sources.tasks.spawn(poll.run(sender, say))),
            Origin::Redis(settings) => {
                let is_held = settings.mode == Mode::Aggregate && sender.borrow().is_some();
                let hold = if is_held { HOLD } else { Duration::ZERO };
                match Network::start(*settings) {
                    Ok(network) => {
                        let status = own.unwrap_or_default();
                        network.publish(&status);
                        let nameless = network.set_players(&status.players.list);
                        if nameless > 0 {
                            let players =
                                "players of the status have no uuid, and a network takes none such";
                            tell!("\x1b[33mnote:\x1b[0m redis: {nameless} {players}");
                        }
                        let updates = network.updates();
                        let member: Member = Arc::new(Mutex::new(Some(network)));
                        sources.members.push((identity, member.clone()));
                        drop(
                            sources
                                .tasks
                                .spawn(follow(member, updates, sender, hold, say)),
                        );
                    }
                    Err(error) => problems.push(error.into()),
                }
            }
            Origin::Push(push) => {
                let (insecure, doors) = pushed.entry(push.place).or_default();
                *insecure |= push.insecure;
                doors.push(Door::new(push.name, &push.token, sender));
            }
        }
    }
    for (place, (insecure, doors)) in pushed {
        let push = Push::bind(&place, insecure, doors)
            .await
            .and_then(|push| Ok((push.place()?, push)));
        match push.with_context(|| format!("cannot listen on {place} for what is pushed")) {
            Ok((place, push)) => {
                tell!("\x1b[2mtakes statuses on {place}\x1b[0m");
                sources.tasks.spawn(push.run());
            }
            Err(error) => problems.push(error),
        }
    }
    (sources, problems)
}

/// A server of a network, until it leaves.
type Member = Arc<Mutex<Option<Network>>>;

/// Hands on what a network says, as long as there is word of it. What was known of it before stands until it is heard, or for
/// as long as `hold` says.
async fn follow(
    member: Member,
    mut updates: Receiver<Arc<Status>>,
    sender: Sender<Option<TimedStatus>>,
    hold: Duration,
    mut say: impl FnMut(SourceEvent),
) {
    let health = || {
        member
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map(Network::health)
    };
    let (mut complaint, mut errors) = (Complaint::new(COMPLAIN, 1), 0);
    // What the network was before a reload is closer to the truth than this server alone, which is all that is known at first.
    let alone_from = Instant::now() + hold;
    while let Some(health) = health() {
        // Without Redis the last view ages, and then it is what this server knows of itself.
        let since = Instant::now().checked_sub(health.age.unwrap_or_default());
        if let Some(since) =
            since.filter(|_| health.refreshed.is_some() || Instant::now() >= alone_from)
        {
            let status = updates.borrow_and_update().clone();
            sender.send_replace(Some(TimedStatus { status, since }));
        }
        if health.connected {
            complaint
                .over("redis: connected again".into())
                .map(&mut say);
        } else if let Some(error) = health.last_error.filter(|_| health.errors != errors) {
            errors = health.errors;
            say(complaint.word(format!("redis: {error}"), Instant::now()));
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
            (0..100)
                .filter(|_| gate.lets_through(start + Duration::from_millis(millis)))
                .count()
        };
        assert_eq!(
            (
                told(&mut gate, 0),
                told(&mut gate, 500),
                told(&mut gate, 1_000)
            ),
            (5, 0, 1)
        );
        assert_eq!(told(&mut gate, 60_000), 5);
        assert_eq!(gate.held, 400 - 11);
    }
}
