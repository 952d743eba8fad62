//! Servers of master servers on the watchlist.
//!
//! ```text
//!   MasterConfig ─► task: list, sleep, list, … ─► ServerList ─► Masters::update ─► Monitor::follow
//! ```
//!
//! A list that cannot be read changes nothing. A server that a list lacks stays for `keep`, and at
//! least until three lists lack it, because masters drop servers that restart.

use super::config::{MasterConfig, name_of};
use crate::web;
use hailer::Target;
use hailer::master::{ListSummary, MasterLimits};
use hailer_monitor::history::NewServer;
use hailer_monitor::server::{Origin, Server, check};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

/// Number of lists in a row that must lack a server before it is removed.
const MISSING_LISTS: u32 = 3;
/// Time until the next try after a failure, unless the interval is shorter.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// A list that has arrived.
pub(super) struct ServerList {
    /// Index of the master.
    master: usize,
    /// Targets, with duplicates.
    targets: Vec<String>,
    summary: ListSummary,
}

/// Servers that masters list, or listed lately.
pub(super) struct Masters {
    configs: Arc<[MasterConfig]>,
    /// By target.
    servers: BTreeMap<String, ListedServer>,
    max_servers: usize,
    is_full: bool,
}

struct ListedServer {
    /// Index of the master, or `None` if no list since the start has it.
    master: Option<usize>,
    last_listed: Instant,
    /// Lists in a row that lacked it.
    misses: u32,
    server: NewServer,
}

impl Masters {
    /// Continues with the servers of earlier lists in the history.
    pub(super) fn new(configs: Vec<MasterConfig>, max_servers: usize, known: &[Server]) -> Self {
        let mut servers = BTreeMap::new();
        // Without masters in the configuration, their servers are removed.
        let of_masters = known
            .iter()
            .filter(|server| server.origin == Origin::Master && !configs.is_empty());
        for server in of_masters {
            let listed = ListedServer {
                master: None,
                last_listed: Instant::now(),
                misses: 0,
                server: NewServer {
                    name: server.name.clone(),
                    target: server.target.clone(),
                    group: server.group.clone(),
                    labels: server.labels.clone(),
                    interval: server.interval,
                    origin: Origin::Master,
                },
            };
            servers.insert(server.target.clone(), listed);
        }
        Self {
            configs: configs.into(),
            servers,
            max_servers,
            is_full: false,
        }
    }

    /// Starts to request the lists. The tasks end when the receiver is dropped.
    pub(super) fn start(&self) -> mpsc::Receiver<ServerList> {
        let (sender, receiver) = mpsc::channel(1);
        for index in 0..self.configs.len() {
            tokio::spawn(poll(self.configs.clone(), index, sender.clone()));
        }
        receiver
    }

    /// Applies a list. `taken` are the names of servers that the API has added.
    pub(super) fn update(&mut self, list: &ServerList, taken: &HashSet<String>) {
        let now = Instant::now();
        let config = &self.configs[list.master];
        let listed: HashSet<&str> = list.targets.iter().map(String::as_str).collect();
        let before = self.servers.len();
        self.servers.retain(|target, server| {
            if server.master.is_some_and(|owner| owner != list.master) {
                return true;
            }
            if listed.contains(target.as_str()) {
                server.master = Some(list.master);
                server.last_listed = now;
                server.misses = 0;
                // The configuration may have changed since the server was stored.
                config.describe(&mut server.server);
                return true;
            }
            // An incomplete list may lack servers that are listed.
            if list.summary.incomplete.is_none() {
                server.misses += 1;
            }
            server.misses < MISSING_LISTS || now.duration_since(server.last_listed) < config.keep
        });
        let removed = before - self.servers.len();
        let is_own = |server: &&ListedServer| server.master == Some(list.master);
        let mut own = self.servers.values().filter(is_own).count();
        let mut names: HashSet<String> = self
            .servers
            .values()
            .map(|server| server.server.name.clone())
            .collect();
        let mut added = 0;
        for target in &list.targets {
            if own >= config.limit || self.servers.contains_key(target) {
                continue;
            }
            let mut server = NewServer::new(name_of(target), target, Origin::Master);
            config.describe(&mut server);
            if taken.contains(&server.name)
                || !check(&server).is_empty()
                || !names.insert(server.name.clone())
            {
                continue;
            }
            let listed = ListedServer {
                master: Some(list.master),
                last_listed: now,
                misses: 0,
                server,
            };
            self.servers.insert(target.clone(), listed);
            own += 1;
            added += 1;
        }
        info!(
            "{}: {} listed, {own} monitored, {added} new, {removed} removed",
            config.url,
            listed.len()
        );
        if let Some(why) = &list.summary.incomplete {
            warn!("{}: {why}; servers may be missing", config.url);
        }
    }

    /// Returns the configured servers and those of the lists. Each address is listed once: a
    /// configured server comes before one of a list.
    pub(super) fn with(&mut self, configured: &[NewServer]) -> Vec<NewServer> {
        let mut all = configured.to_vec();
        let mut names: HashSet<String> = HashSet::new();
        let mut places: HashSet<String> = HashSet::new();
        for server in configured {
            names.insert(server.name.clone());
            places.extend(place(&server.target));
        }
        let mut is_full = false;
        for listed in self.servers.values() {
            if all.len() >= self.max_servers {
                is_full = true;
                break;
            }
            let server = &listed.server;
            let is_new_place = place(&server.target).is_none_or(|place| places.insert(place));
            if is_new_place && names.insert(server.name.clone()) {
                all.push(server.clone());
            }
        }
        if is_full && !self.is_full {
            warn!(
                "max-servers = {} is reached: not all servers of the masters are monitored",
                self.max_servers
            );
        }
        self.is_full = is_full;
        all
    }
}

impl MasterConfig {
    fn describe(&self, server: &mut NewServer) {
        server.group.clone_from(&self.group);
        server.labels.clone_from(&self.labels);
        server.interval = self.interval;
    }
}

/// Returns host and query port of a target.
fn place(target: &str) -> Option<String> {
    let target: Target = target.parse().ok()?;
    Some(format!("{}:{}", target.host, target.query_port()?))
}

/// Requests one list at the interval of its master.
async fn poll(configs: Arc<[MasterConfig]>, index: usize, sender: mpsc::Sender<ServerList>) {
    let config = &configs[index];
    loop {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let url = config.url.clone();
        let stop = is_stopped.clone();
        let request = tokio::task::spawn_blocking(move || {
            let mut targets = Vec::new();
            let mut found = |target: &str| targets.push(target.to_owned());
            let is_stopped = || stop.load(Ordering::Relaxed);
            let list = web::list_of(&url, &MasterLimits::default(), &is_stopped, &mut found);
            list.map(|summary| (targets, summary))
        });
        let list = tokio::select! {
            list = request => list,
            () = sender.closed() => {
                is_stopped.store(true, Ordering::Relaxed);
                return;
            }
        };
        let pause = match list {
            Ok(Ok((targets, summary))) => {
                let list = ServerList {
                    master: index,
                    targets,
                    summary,
                };
                if sender.send(list).await.is_err() {
                    return;
                }
                config.refresh
            }
            Ok(Err(error)) => {
                warn!("{error}; the servers of the last list stay");
                RETRY_DELAY.min(config.refresh)
            }
            Err(_) => RETRY_DELAY.min(config.refresh),
        };
        tokio::select! {
            () = sleep(pause) => {}
            () = sender.closed() => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_monitor::server::ServerId;

    fn config(limit: usize) -> MasterConfig {
        MasterConfig {
            url: "dpmaster://master.example.com/xonotic".parse().unwrap(),
            refresh: Duration::from_secs(900),
            keep: Duration::ZERO,
            limit,
            group: "Xonotic".into(),
            labels: BTreeMap::new(),
            interval: None,
        }
    }

    fn list(targets: &[&str], incomplete: Option<&str>) -> ServerList {
        ServerList {
            master: 0,
            targets: targets.iter().map(|&target| target.to_owned()).collect(),
            summary: ListSummary {
                servers: targets.len() as u64,
                incomplete: incomplete.map(str::to_owned),
            },
        }
    }

    fn targets(masters: &mut Masters, configured: &[NewServer]) -> Vec<String> {
        let servers = masters.with(configured);
        servers.into_iter().map(|server| server.target).collect()
    }

    const A: &str = "xonotic://192.0.2.1:26000";
    const B: &str = "xonotic://192.0.2.2:26000";
    const C: &str = "xonotic://192.0.2.3:26000";

    #[test]
    fn servers_are_removed_after_several_complete_lists_without_them() {
        let mut masters = Masters::new(vec![config(10)], 100, &[]);
        let none = HashSet::new();
        masters.update(&list(&[A, B, B], None), &none);
        assert_eq!(targets(&mut masters, &[]), [A, B]);
        for _ in 0..5 {
            masters.update(&list(&[A], Some("cut")), &none);
        }
        masters.update(&list(&[A], None), &none);
        masters.update(&list(&[A], None), &none);
        assert_eq!(targets(&mut masters, &[]), [A, B]);
        masters.update(&list(&[A, C], None), &none);
        assert_eq!(targets(&mut masters, &[]), [A, C]);
        let servers = masters.with(&[]);
        assert_eq!(servers[0].name, "192.0.2.1-26000-xonotic");
        assert_eq!(servers[0].group, "Xonotic");
        assert_eq!(servers[0].origin, Origin::Master);
    }

    #[test]
    fn a_long_absence_is_needed_as_well() {
        let mut patient = config(10);
        patient.keep = Duration::from_secs(3_600);
        let mut masters = Masters::new(vec![patient], 100, &[]);
        masters.update(&list(&[A], None), &HashSet::new());
        for _ in 0..9 {
            masters.update(&list(&[], None), &HashSet::new());
        }
        assert_eq!(targets(&mut masters, &[]), [A]);
    }

    #[test]
    fn limits_keep_the_servers_that_are_monitored() {
        let mut masters = Masters::new(vec![config(1)], 100, &[]);
        masters.update(&list(&[B], None), &HashSet::new());
        masters.update(&list(&[A, B, C], None), &HashSet::new());
        assert_eq!(targets(&mut masters, &[]), [B]);
        let taken = ["192.0.2.1-26000-xonotic".to_owned()].into();
        let mut masters = Masters::new(vec![config(10)], 2, &[]);
        masters.update(&list(&[A, B, C, "xonotic://"], None), &taken);
        assert_eq!(targets(&mut masters, &[]), [B, C]);
        let configured = masters.with(&[])[1].clone();
        let configured = NewServer {
            name: "mine".into(),
            target: "quake3://192.0.2.3:26000".into(),
            origin: Origin::Configuration,
            ..configured
        };
        // The configured server has the same address as C.
        let all = targets(&mut masters, &[configured]);
        assert_eq!(all, ["quake3://192.0.2.3:26000", B]);
    }

    #[test]
    fn servers_of_the_history_stay_until_lists_lack_them() {
        let mut masters = Masters::new(vec![config(10)], 100, &[]);
        masters.update(&list(&[A, B], None), &HashSet::new());
        let stored: Vec<Server> = (1..)
            .zip(masters.with(&[]))
            .map(|(id, server)| server.with_id(ServerId(id)))
            .collect();
        let mut again = Masters::new(vec![config(10)], 100, &stored);
        assert_eq!(targets(&mut again, &[]), [A, B]);
        for _ in 0..MISSING_LISTS {
            again.update(&list(&[B], None), &HashSet::new());
        }
        assert_eq!(targets(&mut again, &[]), [B]);
        let mut without = Masters::new(Vec::new(), 100, &stored);
        assert_eq!(targets(&mut without, &[]), [""; 0]);
    }
}
