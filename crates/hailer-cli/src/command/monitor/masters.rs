//! Servers of master servers on the watchlist.
//!
//! ```text
//!   MasterConfig ─► task: list, sleep, list, … ─► ServerList ─► Masters::update ─► Monitor::follow
//! ```
//!
//! The task also looks up the names of listed and configured servers, at most 32 at a time for at
//! most 60 s, so that a server is monitored once. Servers with the same address and query port are
//! one server, in whatever protocol.
//!
//! Addresses that an [`AddressPolicy`] does not allow are left out of lists, and the poller applies
//! the same policy after each lookup.
//!
//! A list that cannot be read changes nothing. A server that a list lacks stays for `keep`, and at
//! least until three lists lack it, because masters drop servers that restart.

use crate::config::monitor::{MasterConfig, name_of};
use crate::http_client;
use futures_util::stream::{self, StreamExt};
use hailer::client::ClientConfig;
use hailer::client::Host;
use hailer::discover::master::{ListSummary, MasterError, MasterLimits};
use hailer::support::address::AddressPolicy;
use hailer::{Client, Target};
use hailer_monitor::history::NewServer;
use hailer_monitor::poll::listed::ListedPolicies;
use hailer_monitor::server::{Origin, Server, check};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

/// Number of lists in a row that must lack a server before it is removed.
const MISSING_LISTS: u32 = 3;
/// Number of names that are looked up at the same time, and the time for all names of a list.
const LOOKUPS_AT_ONCE: usize = 32;
const LOOKUP_TIME: Duration = Duration::from_secs(60);
/// Time until the next try after a failure, unless the interval is shorter.
const RETRY_DELAY: Duration = Duration::from_secs(60);

/// A list that has arrived.
pub(super) struct ServerList {
    /// Index of the master.
    master: usize,
    /// Targets, with duplicates.
    targets: Vec<String>,
    /// Policy for their addresses.
    policy: Arc<AddressPolicy>,
    /// Addresses of the names among listed and configured targets, by target.
    addresses: Addresses,
    summary: ListSummary,
}

type Addresses = HashMap<String, Vec<SocketAddr>>;

/// Servers that masters list, or listed lately.
pub(super) struct Masters {
    configs: Arc<[MasterConfig]>,
    /// Policies of the last lists, by master.
    policies: Vec<Option<Arc<AddressPolicy>>>,
    /// Listed servers by target.
    servers: BTreeMap<String, ListedServer>,
    /// Addresses of names, by target.
    addresses: Addresses,
    /// Targets of the configuration.
    configured: watch::Sender<Vec<String>>,
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
            policies: vec![None; configs.len()],
            configs: configs.into(),
            servers,
            addresses: HashMap::new(),
            configured: watch::Sender::new(Vec::new()),
            max_servers,
            is_full: false,
        }
    }

    /// Starts to request the lists. The tasks end when the receiver is dropped.
    pub(super) fn start(&self) -> mpsc::Receiver<ServerList> {
        let (sender, receiver) = mpsc::channel(1);
        for index in 0..self.configs.len() {
            let task = ListTask {
                configs: self.configs.clone(),
                index,
                configured: self.configured.subscribe(),
                sender: sender.clone(),
            };
            tokio::spawn(task.run());
        }
        receiver
    }

    /// Applies a list. `taken` are the names of servers that the API has added.
    pub(super) fn update(&mut self, list: &ServerList, taken: &HashSet<String>) {
        let now = Instant::now();
        let config = &self.configs[list.master];
        self.policies[list.master] = Some(list.policy.clone());
        let listed: HashSet<&str> = list.targets.iter().map(String::as_str).collect();
        for (target, addresses) in &list.addresses {
            self.addresses.insert(target.clone(), addresses.clone());
        }
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
        if let Some(why) = http_client::refused(&list.summary) {
            warn!("{}: {why}", config.url);
        }
        if let Some(why) = &list.summary.incomplete {
            warn!("{}: {why}; servers may be missing", config.url);
        }
    }

    /// Returns the policies for the addresses of the listed servers.
    pub(super) fn policies(&self) -> ListedPolicies {
        let mut policies = policies_of(&self.configs);
        for (target, listed) in &self.servers {
            let policy = listed
                .master
                .and_then(|owner| self.policies[owner].as_ref());
            if let Some(policy) = policy.filter(|policy| ***policy != policies.default) {
                policies.by_target.insert(target.clone(), policy.clone());
            }
        }
        policies
    }

    /// Returns the configured servers and those of the lists. Each address and query port is listed
    /// once: a configured server comes before one of a list.
    pub(super) fn with(&mut self, configured: &[NewServer]) -> Vec<NewServer> {
        let mut all = configured.to_vec();
        let mut names: HashSet<String> = HashSet::new();
        let mut places: HashSet<SocketAddr> = HashSet::new();
        for server in configured {
            names.insert(server.name.clone());
            places.extend(self.places(&server.target));
        }
        let targets = configured.iter().map(|server| server.target.clone());
        self.configured.send_replace(targets.collect());
        let is_configured: HashSet<&str> =
            configured.iter().map(|server| &*server.target).collect();
        let servers = &self.servers;
        self.addresses.retain(|target, _| {
            servers.contains_key(target) || is_configured.contains(target.as_str())
        });
        let mut is_full = false;
        for listed in self.servers.values() {
            if all.len() >= self.max_servers {
                is_full = true;
                break;
            }
            let server = &listed.server;
            let own = self.places(&server.target);
            let is_new = !own.iter().any(|place| places.contains(place));
            if is_new && names.insert(server.name.clone()) {
                places.extend(own);
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

    /// Returns the addresses and query ports of a target, as far as they are known.
    fn places(&self, text: &str) -> Vec<SocketAddr> {
        if let Some(addresses) = self.addresses.get(text) {
            return addresses.clone();
        }
        let Ok(target) = text.parse::<Target>() else {
            return Vec::new();
        };
        match (&target.host, target.query_port()) {
            (Host::Address(ip), Some(port)) => vec![SocketAddr::new(*ip, port)],
            _ => Vec::new(),
        }
    }
}

/// Returns the policies before the first list. Which master has listed a server of the history is
/// unknown, so the policy of any allows it.
pub(super) fn policies_of(configs: &[MasterConfig]) -> ListedPolicies {
    let mut policies = ListedPolicies::default();
    for config in configs {
        let own = AddressPolicy::new(config.is_private_allowed);
        policies.default = policies.default.or(&config.url.policy(own));
    }
    policies
}

impl MasterConfig {
    fn describe(&self, server: &mut NewServer) {
        server.group.clone_from(&self.group);
        server.labels.clone_from(&self.labels);
        server.interval = self.interval;
    }
}

/// Returns the targets with a name as host.
fn named<'a>(texts: impl Iterator<Item = &'a String>) -> Vec<(String, Target)> {
    let mut named = Vec::new();
    for text in texts {
        match text.parse::<Target>() {
            Ok(target) if matches!(target.host, Host::Name(_)) => {
                named.push((text.clone(), target))
            }
            _ => {}
        }
    }
    named
}

/// Looks up the names of targets. Those that are not found, or not in time, are missing.
async fn look_up(client: &Client, targets: Vec<(String, Target)>) -> Addresses {
    let lookups = targets.into_iter().map(async |(text, target)| {
        let addresses = client.addresses(&target).await.ok()?;
        Some((text, addresses))
    });
    let mut found = stream::iter(lookups).buffer_unordered(LOOKUPS_AT_ONCE);
    let mut addresses = HashMap::new();
    let collect = async {
        while let Some(lookup) = found.next().await {
            addresses.extend(lookup);
        }
    };
    let _ = timeout(LOOKUP_TIME, collect).await;
    addresses
}

/// Looks up the names of the targets, and returns the names of the first two servers with the same
/// address and query port.
pub(super) async fn same_place(servers: &[NewServer]) -> anyhow::Result<Option<(String, String)>> {
    let named = named(servers.iter().map(|server| &server.target));
    let mut masters = Masters::new(Vec::new(), 0, &[]);
    if !named.is_empty() {
        masters.addresses = look_up(&Client::new(ClientConfig::default()), named).await;
    }
    let mut places: HashMap<SocketAddr, &str> = HashMap::new();
    for server in servers {
        // A name with several addresses is one server.
        let own: HashSet<SocketAddr> = masters.places(&server.target).into_iter().collect();
        for place in own {
            if let Some(other) = places.insert(place, &server.name) {
                return Ok(Some((other.to_owned(), server.name.clone())));
            }
        }
    }
    Ok(None)
}

/// Leaves out names that lead only to addresses that the policy does not allow, and such addresses
/// of other names.
fn leave_out(
    policy: &AddressPolicy,
    targets: &mut Vec<String>,
    addresses: &mut Addresses,
    summary: &mut ListSummary,
) {
    targets.retain(|target| {
        let Some(own) = addresses.get_mut(target) else {
            return true;
        };
        let checks = own.iter().map(|address| policy.check(address.ip()));
        let fault = checks.filter_map(Result::err).next();
        own.retain(|address| policy.check(address.ip()).is_ok());
        if own.is_empty() {
            summary.refused += 1;
            summary.first_refused = summary.first_refused.or(fault);
        }
        !own.is_empty()
    });
}

/// Requests the list of one master at its interval.
struct ListTask {
    configs: Arc<[MasterConfig]>,
    /// Index of the master.
    index: usize,
    configured: watch::Receiver<Vec<String>>,
    sender: mpsc::Sender<ServerList>,
}

impl ListTask {
    /// Ends when the receiver of the lists is dropped.
    async fn run(self) {
        let config = &self.configs[self.index];
        let client = Client::new(ClientConfig::default());
        loop {
            let is_stopped = Arc::new(AtomicBool::new(false));
            let url = config.url.clone();
            let policy = AddressPolicy::new(config.is_private_allowed);
            let stop = is_stopped.clone();
            let request = tokio::task::spawn_blocking(move || {
                let mut targets = Vec::new();
                let mut own = Arc::new(policy.clone());
                let mut found = |target: &str, policy: &Arc<AddressPolicy>| {
                    targets.push(target.to_owned());
                    own = policy.clone();
                };
                let is_stopped = || stop.load(Ordering::Relaxed);
                let limits = MasterLimits::default();
                let summary =
                    http_client::list_of(&url, &limits, &policy, &is_stopped, &mut found)?;
                Ok::<_, MasterError>((targets, own, summary))
            });
            let list = tokio::select! {
                list = request => list,
                () = self.sender.closed() => {
                    is_stopped.store(true, Ordering::Relaxed);
                    return;
                }
            };
            let pause = match list {
                Ok(Ok((mut targets, policy, mut summary))) => {
                    let configured = self.configured.borrow().clone();
                    let names = named(targets.iter().chain(&configured));
                    let mut addresses = tokio::select! {
                        addresses = look_up(&client, names) => addresses,
                        () = self.sender.closed() => return,
                    };
                    leave_out(&policy, &mut targets, &mut addresses, &mut summary);
                    let list = ServerList {
                        master: self.index,
                        targets,
                        policy,
                        addresses,
                        summary,
                    };
                    if self.sender.send(list).await.is_err() {
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
                () = self.sender.closed() => return,
            }
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
            is_private_allowed: false,
            group: "Xonotic".into(),
            labels: BTreeMap::new(),
            interval: None,
        }
    }

    fn list(targets: &[&str], incomplete: Option<&str>) -> ServerList {
        ServerList {
            master: 0,
            targets: targets.iter().map(|&target| target.to_owned()).collect(),
            policy: Arc::default(),
            addresses: HashMap::new(),
            summary: ListSummary {
                servers: targets.len() as u64,
                incomplete: incomplete.map(str::to_owned),
                ..ListSummary::default()
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

    #[tokio::test]
    async fn servers_with_the_same_address_and_port_are_found_by_name_too() {
        let server = |name: &str, target: &str| NewServer::new(name, target, Origin::Configuration);
        let one = server("one", "a2s://127.0.0.1:27015");
        let other = server("other", "a2s://127.0.0.1:27016");
        let servers = [one.clone(), other];
        assert_eq!(same_place(&servers).await.unwrap(), None);
        let named = server("named", "ugp://localhost:27015");
        let found = same_place(&[one, named]).await.unwrap();
        assert_eq!(found, Some(("one".to_owned(), "named".to_owned())));
    }

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

    /// A server that a list names is that of another list with its address, or the configured one
    /// with its name.
    #[test]
    fn names_and_addresses_of_a_server_are_one() {
        let name = "teeworlds://play.example.com:26000";
        let mut configured =
            NewServer::new("mine", "a2s://own.example.com:27015", Origin::Configuration);
        configured.group = "Own".into();
        let mut masters = Masters::new(vec![config(10), config(10)], 100, &[]);
        let own = "xonotic://192.0.2.9:27015";
        masters.update(&list(&[A, B, own], None), &HashSet::new());
        let mut by_name = list(&[name], None);
        by_name.master = 1;
        let addresses = [
            ("192.0.2.1:26000", name),
            ("192.0.2.9:27015", &configured.target),
        ];
        for (address, target) in addresses {
            let other = "[2001:db8::1]:1".parse().unwrap();
            let address = address.parse().unwrap();
            let addresses = if target == name {
                vec![other, address]
            } else {
                vec![address]
            };
            by_name.addresses.insert(target.into(), addresses);
        }
        let configured = [configured];
        masters.update(&by_name, &HashSet::new());
        let all = targets(&mut masters, &configured);
        assert_eq!(all, [&configured[0].target, name, B]);
        // Addresses of names that no list has are removed.
        let none = targets(&mut masters, &[]);
        assert_eq!(none.len(), 3);
        assert_eq!(masters.addresses.len(), 1);
    }

    #[tokio::test]
    async fn names_are_looked_up() {
        let client = Client::new(ClientConfig::default());
        let listed = ["quake3://localhost:27960", A, "?"].map(str::to_owned);
        let found = look_up(&client, named(listed.iter())).await;
        assert_eq!(found.len(), 1);
        assert!(
            found[&listed[0]]
                .iter()
                .all(|address| address.ip().is_loopback())
        );
    }

    #[test]
    fn names_that_lead_to_private_addresses_are_left_out() {
        let places = |all: &[&str]| all.iter().map(|a| a.parse().unwrap()).collect::<Vec<_>>();
        let mut addresses = Addresses::from([
            (
                "quake3://here.example.com".into(),
                places(&["127.0.0.1:1", "[::1]:1"]),
            ),
            (
                "quake3://both.example.com".into(),
                places(&["10.0.0.1:1", "8.8.8.8:1"]),
            ),
            ("quake3://own.example.com".into(), places(&["10.0.0.2:1"])),
        ]);
        let mut targets = ["here", "both", "gone"]
            .map(|n| format!("quake3://{n}.example.com"))
            .to_vec();
        let mut summary = ListSummary::default();
        let policy = AddressPolicy::default();
        leave_out(&policy, &mut targets, &mut addresses, &mut summary);
        assert_eq!(
            targets,
            ["quake3://both.example.com", "quake3://gone.example.com"]
        );
        assert_eq!(
            addresses["quake3://both.example.com"],
            places(&["8.8.8.8:1"])
        );
        // A server of the configuration may be anywhere.
        assert_eq!(addresses["quake3://own.example.com"].len(), 1);
        assert_eq!(summary.refused, 1);
        assert!(summary.first_refused.unwrap().is_private);
    }

    #[test]
    fn policies_follow_the_masters() {
        let local = MasterConfig {
            url: "quake2-master://127.0.0.1".parse().unwrap(),
            ..config(10)
        };
        let mut masters = Masters::new(vec![config(10), local], 100, &[]);
        let here = "127.0.0.1".parse().unwrap();
        assert!(masters.policies().default.check(here).is_ok());
        let near = Arc::new(AddressPolicy::default().near(&[here]));
        masters.update(&list(&[A, B], None), &HashSet::new());
        let mut other = list(&[C], None);
        other.master = 1;
        other.policy = near.clone();
        masters.update(&other, &HashSet::new());
        let policies = masters.policies();
        assert_eq!(policies.by_target.len(), 2);
        assert!(policies.by_target[A].is_strict());
        // That of C is the default.
        assert_eq!(policies.default, *near);
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
