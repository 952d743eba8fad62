//! Feed that polls the servers itself, with the monitor's poller and no history.
//!
//! A target without a protocol is queried in all protocols first, and then polled in one that it
//! answered. At most 100,000 servers are polled, and at most 2,000 per second.
//!
//! In: targets. Out: updates of the board.
//!
//! May import: `crate::args`, `crate::command`, `crate::command::watch`,
//! `crate::command::watch::board`, `crate::config`, `crate::exit`, `hailer`, `hailer_monitor`.

use super::board::ServerView;
use super::{FeedResult, FeedUpdate};
use crate::args::Watch;
use crate::config::monitor as config;
use crate::exit::{OrUsage, usage};
use anyhow::Context;
use hailer::proto::Transport;
use hailer::{Answer, Client, Error, Target};
use hailer_monitor::health::State;
use hailer_monitor::history::NewServer;
use hailer_monitor::poll::{PollConfig, Poller};
use hailer_monitor::sample::Event;
use hailer_monitor::sample::unix_millis;
use hailer_monitor::server::{Origin, Server, ServerId};
use hailer_monitor::state::{StateTable, Update};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::mpsc;

/// Maximum number of servers. More need a monitor.
const MAX_SERVERS: usize = 100_000;
/// Maximum number of polls per second. With more servers, the interval grows.
const MAX_POLLS_PER_SECOND: usize = 2_000;
/// Maximum number of targets that are queried in all protocols at the same time.
const MAX_DETECTIONS: usize = 64;
/// Time after which targets that did not answer are queried in all protocols again.
const DETECTION_INTERVAL: Duration = Duration::from_secs(15);
/// Number of retries of one poll.
const RETRIES: u32 = 2;
/// Maximum number of datagrams per second to one network. Higher than in a sweep, since users watch
/// servers that they know.
const DATAGRAMS_PER_NETWORK: f64 = 2_000.0;

/// Returns the servers of the configuration, then those of arguments and lists. Targets may have no
/// protocol yet.
///
/// # Errors
/// A target is invalid, a file cannot be read, or there are too many servers.
pub(super) fn servers(args: &Watch) -> anyhow::Result<Vec<Server>> {
    let mut typed = args.given.clone();
    for path in &args.targets {
        typed.extend(read(path)?);
    }
    let mut targets = Vec::new();
    let mut known = HashSet::new();
    for text in &typed {
        let target = args.query_args.targets.target(text)?.to_string();
        if known.insert(target.clone()) {
            targets.push(target);
        }
    }
    if targets.len() > MAX_SERVERS {
        usage!(
            "{} targets; at most {MAX_SERVERS} can be watched from here, use hailer monitor for more",
            targets.len()
        );
    }
    // The name contains the protocol only if one host is watched in several.
    let bare = |target: &str| {
        target
            .split_once("://")
            .map_or(target, |(_, rest)| rest)
            .to_owned()
    };
    let mut hosts: HashMap<String, u32> = HashMap::new();
    for target in &targets {
        *hosts.entry(bare(target)).or_default() += 1;
    }
    let mut new_servers = match &args.config {
        Some(path) => config::read(path)?.servers,
        None => Vec::new(),
    };
    for target in targets {
        let host = bare(&target);
        let is_unique = hosts.get(&host) == Some(&1);
        let name = if is_unique { host } else { target.clone() };
        new_servers.push(NewServer::new(name, target, Origin::Configuration));
    }
    let mut servers = Vec::new();
    for (mut new, number) in new_servers.into_iter().zip(0..) {
        // The interval is an argument here. That of the configuration is meant for a history of years.
        new.interval = None;
        servers.push(new.with_id(ServerId(number)));
    }
    if servers.is_empty() && args.monitor.is_none() {
        usage!("the configuration has no [[server]] to watch");
    }
    Ok(servers)
}

/// Returns the targets of a file: the first word of each line, without comments.
fn read(path: &Path) -> anyhow::Result<Vec<String>> {
    let text =
        std::fs::read_to_string(path).or_usage_in(format_args!("--targets {}", path.display()))?;
    let words = text
        .lines()
        .filter_map(|line| line.split('#').next()?.split_whitespace().next());
    let words: Vec<String> = words.map(str::to_owned).collect();
    if words.is_empty() {
        usage!(
            "--targets {}: no target in this file; write one per line",
            path.display()
        );
    }
    Ok(words)
}

/// Result of a detection: the server as typed, and its target with a protocol.
type Detected = (Server, Result<Target, Error>);

/// The feed. Dropping it ends the poller.
pub(super) struct Direct {
    live: Arc<StateTable>,
    poll: Poller,
    servers: Vec<Server>,
    client: Client,
    /// Interval of each server until its first poll.
    first: Duration,
}

impl Direct {
    pub(super) fn start(args: &Watch, servers: Vec<Server>) -> anyhow::Result<Self> {
        let client_config = args.query_args.config(RETRIES, None);
        let round = Duration::from_millis((servers.len() * 1_000 / MAX_POLLS_PER_SECOND) as u64);
        let interval = args.interval.max(round);
        let mut config = PollConfig {
            interval,
            name_server: client_config.name_server,
            ..PollConfig::default()
        };
        config.sweep.limits = client_config.limits;
        config.sweep.rate_limits.per_network = DATAGRAMS_PER_NETWORK;
        // The replies are not shown.
        config.sweep.has_replies = false;
        let live = Arc::new(StateTable::default());
        // Nothing is written to a history.
        let (poll, _) = Poller::start(config, live.clone()).context("cannot open a socket")?;
        let first = Duration::from_secs(1).max(round).min(interval);
        Ok(Self {
            live,
            poll,
            servers,
            client: Client::new(client_config),
            first,
        })
    }

    /// Sends updates until the receiver is dropped.
    pub(super) async fn run(self, to: mpsc::Sender<FeedResult>) {
        let Self {
            live,
            poll,
            servers,
            client,
            first,
        } = self;
        let watch = |server: Server, fresh: &mut HashMap<ServerId, Server>| {
            let soon = Server {
                interval: Some(first),
                ..server.clone()
            };
            // The target was parsed before and has a protocol, so this cannot fail.
            if poll.watch(soon, None).is_ok() {
                fresh.insert(server.id, server);
            }
        };
        let mut updates = live.listen();
        let mut fresh = HashMap::new();
        let (finder, mut found) = mpsc::channel(MAX_DETECTIONS);
        let (named, nameless): (Vec<_>, Vec<_>) = servers
            .into_iter()
            .partition(|server| server.target.contains("://"));
        let mut is_over = false;
        if !nameless.is_empty() {
            let seen = nameless.iter().map(|server| without_reply(server, None));
            let new = FeedUpdate::of(seen.collect());
            is_over = to.send(Ok(new)).await.is_err();
        }
        // The task ends when its receiver is dropped.
        tokio::spawn(find(client, nameless, finder));
        for server in named {
            watch(server, &mut fresh);
        }
        while !is_over {
            let news = tokio::select! {
                update = updates.recv() => match gather(update, &mut updates) {
                    Some(changed) => news_of(&live, changed),
                    None => return,
                },
                Some((server, end)) = found.recv() => match end {
                    Ok(target) => {
                        watch(Server { target: target.to_string(), ..server }, &mut fresh);
                        continue;
                    }
                    Err(error) => {
                        FeedUpdate::of(vec![without_reply(&server, Some(&error))])
                    }
                },
            };
            if let FeedUpdate::Update { seen, .. } = &news {
                for seen in seen.iter().filter(|seen| seen.last.is_some()) {
                    // After the first poll, the usual interval applies.
                    if let Some(server) = fresh.remove(&seen.server.id) {
                        let _ = poll.watch(server, None);
                    }
                }
            }
            is_over = to.send(Ok(news)).await.is_err();
        }
    }
}

/// Changed servers, `None` if they are too many to list, and events.
type Changed = (Option<HashSet<ServerId>>, Vec<Event>);

/// Waits for an update and collects those that follow immediately. `None` means that the feed has
/// ended.
fn gather(
    first: Result<Arc<Update>, RecvError>,
    updates: &mut Receiver<Arc<Update>>,
) -> Option<Changed> {
    let mut ids = Some(HashSet::new());
    let mut events = Vec::new();
    let mut next = match first {
        Ok(update) => Some(update),
        Err(RecvError::Lagged(_)) => None,
        Err(RecvError::Closed) => return None,
    };
    loop {
        match next {
            Some(update) => {
                if let Some(ids) = &mut ids {
                    ids.extend(&update.servers);
                }
                events.extend_from_slice(&update.events);
            }
            None => ids = None,
        }
        next = match updates.try_recv() {
            Ok(update) => Some(update),
            Err(TryRecvError::Lagged(_)) => None,
            Err(_) => return Some((ids, events)),
        };
    }
}

fn news_of(live: &StateTable, (ids, events): Changed) -> FeedUpdate {
    let now = unix_millis();
    let seen = match ids {
        Some(ids) => ids
            .into_iter()
            .filter_map(|id| live.row(id))
            .map(|row| ServerView::of(&row, now))
            .collect(),
        None => live.pick(|row| Some(ServerView::of(row, now))),
    };
    FeedUpdate::Update {
        seen,
        all: None,
        events,
    }
}

/// Returns the state of a server before its first poll.
fn without_reply(server: &Server, error: Option<&Error>) -> ServerView {
    ServerView {
        server: Arc::new(server.clone()),
        state: if error.is_some() {
            State::Down
        } else {
            State::Unknown
        },
        is_flapping: false,
        since: 0,
        last: None,
        error: error.map(|error| Arc::new(error.into())),
        last_status: None,
        uptime: None,
    }
}

/// Queries servers in all protocols until each has answered in one.
async fn find(client: Client, mut servers: Vec<Server>, to: mpsc::Sender<Detected>) {
    while !servers.is_empty() {
        let mut left: HashMap<String, Server> = servers
            .into_iter()
            .map(|server| (server.target.clone(), server))
            .collect();
        servers = Vec::new();
        let targets: Vec<String> = left.keys().cloned().collect();
        let mut ends = client.query_many(targets.iter().map(String::as_str), MAX_DETECTIONS);
        while let Some((target, end)) = ends.next().await {
            let Some(server) = left.remove(target) else {
                continue;
            };
            let end = end.and_then(|answers| {
                let protocol = best(&answers).and_then(|answer| {
                    hailer::support::catalog::protocol(answer.transcript.protocol.id)
                });
                Ok((protocol, target.parse::<Target>()?))
            });
            let end = match end {
                Ok((Some(protocol), target)) => Ok(target.with_protocol(protocol)),
                // Cannot happen: answers have a protocol of the registry.
                Ok((None, _)) => continue,
                Err(error) => {
                    servers.push(server.clone());
                    Err(error)
                }
            };
            if to.send((server, end)).await.is_err() {
                return;
            }
        }
        drop(ends);
        tokio::time::sleep(DETECTION_INTERVAL).await;
    }
}

/// Returns the answer whose protocol is polled: the most complete one of a datagram protocol, which
/// costs least, or else of any protocol. A datagram protocol without the name or the number of
/// players does not count if another one has them, such as the old query of OpenTTD.
pub(in crate::command) fn best(answers: &[Answer]) -> Option<&Answer> {
    let first = answers.first()?;
    let shows = |answer: &Answer| {
        let status = &answer.status;
        [status.title().is_some(), status.players.online.is_some()]
    };
    let is_cheap = |answer: &&Answer| {
        let is_datagram = answer.transcript.protocol.transport == Transport::Datagram;
        let mut pairs = shows(answer).into_iter().zip(shows(first));
        is_datagram && pairs.all(|(shown, needed)| shown || !needed)
    };
    answers.iter().find(is_cheap).or(Some(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Command};
    use clap::Parser;
    use hailer::client::Transcript;
    use hailer::proto::registry;

    fn read(flags: &[&str]) -> anyhow::Result<Vec<Server>> {
        let Command::Watch(args) =
            Arguments::try_parse_from([&["hailer", "watch"], flags].concat())?.command
        else {
            unreachable!()
        };
        servers(&args)
    }

    fn names(flags: &[&str]) -> Vec<(String, String)> {
        let servers = read(flags).unwrap();
        servers
            .into_iter()
            .map(|server| (server.name, server.target))
            .collect()
    }

    #[test]
    fn targets_become_servers_without_duplicates() {
        let of = |name: &str, target: &str| (name.to_owned(), target.to_owned());
        assert_eq!(
            names(&[
                "ugp://192.0.2.7",
                "play.example.com",
                "ugp://192.0.2.7",
                "[2001:db8::7]:5520"
            ]),
            [
                of("192.0.2.7", "ugp://192.0.2.7"),
                of("play.example.com", "play.example.com"),
                of("[2001:db8::7]:5520", "[2001:db8::7]:5520")
            ]
        );
        assert_eq!(
            names(&["ugp://a", "onequery://a"])[1],
            of("onequery://a", "onequery://a"),
            "one host, two names"
        );
        assert_eq!(names(&["-p", "ugp", "a"]), [of("a", "ugp://a")]);
        for (wrong, hint) in [
            ("no such host", "no such host"),
            ("telnet://a", "unknown protocol or game"),
            ("a:99999", "port"),
        ] {
            let error = read(&[wrong]).unwrap_err();
            assert!(
                error.is::<crate::exit::Usage>() && error.to_string().contains(hint),
                "{error}"
            );
        }
        assert!(read(&[]).is_err(), "no server to watch");
        assert!(
            read(&["a", "--monitor", "http://127.0.0.1:1"]).is_err(),
            "servers and a monitor"
        );
    }

    #[test]
    fn simultaneous_updates_are_sent_together() {
        let live = StateTable::default();
        let mut updates = live.listen();
        let change = |id: i64| {
            let event = crate::command::watch::simulated::event(id, id);
            live.change(
                Update {
                    servers: vec![ServerId(id)],
                    events: vec![event],
                    has_list_changed: false,
                },
                |_| {},
            );
        };
        [1, 2, 1].into_iter().for_each(change);
        let first = updates.try_recv().map_err(|_| RecvError::Closed);
        let (ids, events) = gather(first, &mut updates).unwrap();
        assert_eq!((ids.unwrap().len(), events.len()), (2, 3));
        (0..10_000).for_each(change);
        let first = updates.try_recv().map_err(|_| RecvError::Lagged(1));
        assert_eq!(
            gather(first, &mut updates).unwrap().0,
            None,
            "too many to be noted"
        );
        assert_eq!(gather(Err(RecvError::Closed), &mut updates), None);
    }

    #[test]
    fn datagram_protocols_are_preferred() {
        let answer = |id: &str| {
            let transcript = Transcript {
                sent: 1,
                received: 1,
                ..Transcript::new(
                    registry::find(id).unwrap().info(),
                    ([192, 0, 2, 7], 1).into(),
                )
            };
            Answer::new(transcript, Box::default(), Duration::ZERO)
        };
        let chosen = |ids: &[&str]| {
            let answers: Vec<Answer> = ids.iter().map(|id| answer(id)).collect();
            best(&answers).map(|answer| answer.transcript.protocol.id)
        };
        assert_eq!(
            chosen(&["minecraft-status", "minecraft-query"]),
            Some("minecraft-query")
        );
        assert_eq!(chosen(&["minecraft-status"]), Some("minecraft-status"));
        assert_eq!(chosen(&[]), None);

        let mut answers = ["openttd", "openttd-udp"].map(answer);
        answers[0].status.players.online = Some(0);
        let polled = best(&answers).map(|answer| answer.transcript.protocol.id);
        assert_eq!(
            polled,
            Some("openttd"),
            "the other one has no number of players"
        );
    }
}
