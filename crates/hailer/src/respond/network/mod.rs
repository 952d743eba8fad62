//! Network mode of OneQuery (spec/onequery.md#12): several servers of one owner share their state
//! over Redis and reply as one server. Hailer and servers with the OneQuery plugin can be members
//! of the same network.
//!
//! ```text
//!   game ──► joined, left, moved, publish ──► roster ──┬─► scripts, atomic ──► Redis ◄── other members
//!                                                      │                         │
//!   responder ◄── updates: Status ◄── aggregate ◄──────┴──────── view ◄── events, full reads
//! ```
//!
//! A member in a program, with the feature `redis`:
//!
//! ```
//! use hailer::respond::network::{Network, NetworkConfig};
//! use hailer::Status;
//! use hailer::proto::Text;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = NetworkConfig::new("redis://127.0.0.1:6379/0")?;
//! config.server_id = "lobby-1".into();
//! // Returns at once. Redis is joined in the background.
//! let network = Network::start(config)?;
//!
//! let mut status = Status { name: Some(Text::unformatted("Lobby")), ..Status::default() };
//! status.players.max = Some(100);
//! network.publish(&status);
//!
//! let alice = [0xA1; 16];
//! network.joined(alice, "Alice");
//! network.moved(alice, "arena-1"); // or network.left(alice)
//! network.joined([0xB0; 16], "Bob");
//!
//! // The status to answer with, and each change of it: pass it to `respond::Board::publish`.
//! let mut updates = network.updates();
//! updates.wait_for(|status| status.players.count() == 1).await?;
//! println!("{:?}", network.health());
//!
//! network.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # Properties
//!
//! - **Replies never stop.** Without Redis, the last view is used for [`NetworkConfig::keep_view`],
//!   and after that the status of this server alone. The local players are always current.
//!   [`Health`] reports the state. The extra `network` of a status is true while other servers are
//!   counted.
//! - **Reconnects** to Redis within a few seconds. Each heartbeat writes the complete state of this
//!   server and removes outdated entries, even if Redis has lost its data.
//! - **Counts are those of lists.** Each player is counted once. Servers without heartbeat for 45 s
//!   are left out.
//! - **Limits:** 10,000 players of this server, and the limits of [`NetworkConfig`] for the others.
//!   [`Health::refused`] counts the excess. Commands are sent one at a time and never queued: after
//!   a lost connection, only the current state is written.
//! - **Secrets** appear in no error and no `Debug` output. Redis itself is trusted.
//!
//! May import: `crate::support`, `hailer_proto`.

mod config;
mod event;
mod keys;
mod record;
mod scripts;
mod session;
mod view;
mod wildcard;

pub use crate::support::link::RedisConfig;
pub use config::{Mode, NetworkConfig, NetworkConfigError};
pub use record::Member;
pub use view::{Server, View};
pub use wildcard::matches;

use event::Event;
use hailer_proto::model::Roster;
use hailer_proto::{Player, Status, Text};
use keys::Keys;
use record::{Record, cut};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use view::{Bounds, NetworkView, Uuid};

/// Maximum number of players of this server. One script writes all of them.
const MAX_OWN: usize = 10_000;
/// Maximum number of changes written one by one. More are left to a heartbeat.
const MAX_CHANGES: usize = 64;
/// Shortest time between updates of the status.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_millis(20);
/// Longest time between updates, since views age without events.
const TICK: Duration = Duration::from_secs(1);
/// Longest time for a clean stop.
const STOP: Duration = Duration::from_secs(5);

/// A member of a network. If it is dropped without [`Network::stop`], the others remove it after 45
/// s.
pub struct Network {
    shared: Arc<NetworkShared>,
    updates: watch::Receiver<Arc<Status>>,
    stop: watch::Sender<bool>,
    session: JoinHandle<()>,
    teller: JoinHandle<()>,
}

/// The state of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether Redis is connected and this server is registered.
    pub is_connected: bool,
    /// Whether the status includes other servers.
    pub has_network: bool,
    /// Time since the last reply of Redis.
    pub age: Option<Duration>,
    /// Time since the last full read.
    pub refreshed: Option<Duration>,
    /// Failed connections and commands.
    pub errors: u64,
    /// The last of these errors.
    pub last_error: Option<String>,
    /// Entries and events that could not be parsed and were skipped.
    pub skipped: u64,
    /// Servers and players beyond the limits.
    pub refused: u64,
    /// Number of other servers.
    pub servers: usize,
    /// Number of their players.
    pub players: usize,
}

/// State shared by the threads of the game, the session and the updater.
struct NetworkShared {
    config: NetworkConfig,
    keys: Keys,
    state: Mutex<NetworkState>,
    /// Wakes the session: there is something to write.
    wake: Notify,
    /// Wakes the updater: the status may have changed.
    changed: Notify,
}

struct NetworkState {
    /// The status of this server without its players.
    local: Status,
    /// Players of this server that the network knows, as the game reports them.
    roster: HashMap<Uuid, Member>,
    /// Players of this server without a UUID: part of the status, but not shared. At most
    /// `MAX_OWN`.
    unshared: Vec<Player>,
    /// Players of this server that its status counts and does not list.
    unlisted: i64,
    /// Players who joined since the last write.
    fresh: HashSet<Uuid>,
    /// Players who left since the last write, with the server that they moved to, if known.
    gone: HashMap<Uuid, Option<(String, Member)>>,
    /// Whether there are too many changes to write them one by one.
    needs_rewrite: bool,
    known: NetworkView,
    is_connected: bool,
    last_message: Option<Instant>,
    refreshed: Option<Instant>,
    errors: u64,
    last_error: Option<String>,
    skipped: u64,
    refused: u64,
}

impl Network {
    /// Joins the network for the lifetime of the value. Returns immediately; the connection to
    /// Redis is made in the background.
    ///
    /// # Errors
    ///
    /// The configuration is invalid, or there is no tokio runtime.
    pub fn start(config: NetworkConfig) -> Result<Self, NetworkConfigError> {
        Self::start_after(config, None)
    }

    /// Starts like [`Network::start`] and takes over the view of an earlier member of the same
    /// network. Drop that member afterwards: [`Network::stop`] would remove the entry of its
    /// successor if both have the same server id.
    ///
    /// # Errors
    /// As [`Network::start`].
    pub fn start_after(
        config: NetworkConfig,
        earlier: Option<&Self>,
    ) -> Result<Self, NetworkConfigError> {
        config.check()?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| NetworkConfigError {
            key: "runtime",
            problem: "missing: call this within a tokio runtime with time and I/O enabled".into(),
        })?;
        let bounds = Bounds {
            servers: config.max_servers,
            players: config.max_players,
            stale: millis(config.stale),
        };
        let mut known = NetworkView::new(bounds);
        let mut last_message = None;
        let mut refreshed = None;
        let is_same = |earlier: &NetworkConfig| {
            earlier.redis == config.redis
                && earlier.prefix == config.prefix
                && earlier.network_id == config.network_id
        };
        if let Some(earlier) = earlier.filter(|earlier| is_same(&earlier.shared.config)) {
            let mut state = earlier.shared.state();
            std::mem::swap(&mut known, &mut state.known);
            last_message = state.last_message;
            refreshed = state.refreshed.take();
            known.remove(&config.server_id);
        }
        let mut local = Status {
            name: config.name.as_deref().map(Text::unformatted),
            ..Status::default()
        };
        local.players.max = Some(0);
        let state = NetworkState {
            local,
            roster: HashMap::new(),
            unshared: Vec::new(),
            unlisted: 0,
            fresh: HashSet::new(),
            gone: HashMap::new(),
            needs_rewrite: false,
            known,
            is_connected: false,
            last_message,
            refreshed,
            errors: 0,
            last_error: None,
            skipped: 0,
            refused: 0,
        };
        let keys = Keys::new(&config.prefix, &config.network_id);
        let shared = Arc::new(NetworkShared {
            config,
            keys,
            state: Mutex::new(state),
            wake: Notify::new(),
            changed: Notify::new(),
        });
        let (stop, stopped) = watch::channel(false);
        let (sender, updates) = watch::channel(Arc::new(shared.status()));
        let session = runtime.spawn(session::run(shared.clone(), stopped));
        let teller = runtime.spawn(publish_updates(shared.clone(), sender));
        Ok(Self {
            shared,
            updates,
            stop,
            session,
            teller,
        })
    }

    /// Records that a player joined this server and left any other. Returns false if the limit is
    /// reached.
    pub fn joined(&self, uuid: [u8; 16], name: &str) -> bool {
        let took = self.shared.state().join(uuid, name, wall());
        self.shared.notify();
        took
    }

    /// Records that a player has left this server.
    pub fn left(&self, uuid: [u8; 16]) {
        self.shared.state().leave(uuid, None);
        self.shared.notify();
    }

    /// Records that a player moves to another server of the network, and lists the player there
    /// immediately. If Redis does not know that server, the player counts as left.
    ///
    /// At most 64 moves and leaves wait to be written. Further moves become leaves: such a player
    /// is not listed until the other server reports the join.
    pub fn moved(&self, uuid: [u8; 16], server_id: &str) {
        // A move to this server is no change.
        if server_id == self.shared.config.server_id {
            return;
        }
        let to = server_id.to_owned();
        let mut state = self.shared.state();
        let name = state.roster.get(&uuid).map(|member| member.name.clone());
        if let Some(name) = name {
            state.leave(uuid, Some(to.clone()));
            // Without this the player would be listed nowhere until the event arrives.
            state.known.apply(
                Event::Join {
                    uuid,
                    server: to,
                    name,
                    server_name: String::new(),
                },
                wall(),
            );
        }
        drop(state);
        self.shared.notify();
    }

    /// Sets the players of this server, for programs that only have the list. If several have the
    /// same UUID, the first one counts. Players without a UUID are part of [`Network::status`] but
    /// not shared with the network. Returns their number.
    pub fn set_players(&self, players: &[Player]) -> usize {
        let now = wall();
        let mut state = self.shared.state();
        let mut members: HashMap<Uuid, &str> = HashMap::new();
        for player in players {
            if let Some(uuid) = player.uuid.filter(|_| members.len() < MAX_OWN) {
                members.entry(uuid).or_insert(player.name.raw());
            }
        }
        let gone: Vec<_> = state
            .roster
            .keys()
            .filter(|uuid| !members.contains_key(*uuid))
            .copied()
            .collect();
        for uuid in gone {
            state.leave(uuid, None);
        }
        for (uuid, name) in members {
            if state
                .roster
                .get(&uuid)
                .is_none_or(|member| member.name.raw() != cut(name))
            {
                state.join(uuid, name, now);
            }
        }
        let unshared = players.iter().filter(|player| player.uuid.is_none());
        let count = unshared.clone().count();
        state.unshared = unshared.take(MAX_OWN).cloned().collect();
        drop(state);
        self.shared.notify();
        count
    }

    /// Sets the complete status of this server: [`Network::publish`] and [`Network::set_players`]
    /// in one. Writes nothing to Redis if nothing changed. Returns the number of players without a
    /// UUID.
    pub fn set_status(&self, status: &Status) -> usize {
        self.publish(status);
        let listed = i64::try_from(status.players.list.len()).unwrap_or(i64::MAX);
        let online = status.players.online.unwrap_or(listed);
        self.shared.state().unlisted = online.saturating_sub(listed).max(0);
        self.set_players(&status.players.list)
    }

    /// Sets the status of this server without its players: name, MOTD, version, maximum number of
    /// players and the rest.
    pub fn publish(&self, status: &Status) {
        let mut state = self.shared.state();
        let max = status.players.max;
        // The others should not wait for the next heartbeat.
        state.needs_rewrite |= state.local.players.max != max || state.local.name != status.name;
        state.local = Status {
            players: Default::default(),
            ..status.clone()
        };
        state.local.players.max = max;
        drop(state);
        self.shared.notify();
    }

    /// Returns the status to answer with: in [`Mode::Aggregate`] of the network, else of this
    /// server.
    pub fn status(&self) -> Arc<Status> {
        Arc::new(self.shared.status())
    }

    /// Returns a channel with that status, updated within about 20 ms of each change.
    pub fn updates(&self) -> watch::Receiver<Arc<Status>> {
        self.updates.clone()
    }

    /// Returns the servers of the network and their players.
    pub fn view(&self) -> View {
        let state = self.shared.state();
        let mut servers: Vec<_> = state.known.shown().cloned().collect();
        servers.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let record = self.shared.record(&state);
        let own = Server {
            id: self.shared.config.server_id.clone(),
            name: record.name,
            host: record.host,
            port: record.port,
            max_players: record.max,
            players: state
                .roster
                .iter()
                .map(|(uuid, member)| (*uuid, member.clone()))
                .collect(),
        };
        servers.insert(0, Arc::new(own));
        View {
            servers,
            age: state
                .last_message
                .map(|last_message| last_message.elapsed()),
        }
    }

    /// Returns the state of this member.
    pub fn health(&self) -> Health {
        let state = self.shared.state();
        Health {
            is_connected: state.is_connected,
            has_network: self.shared.counts_others(&state),
            age: state
                .last_message
                .map(|last_message| last_message.elapsed()),
            refreshed: state.refreshed.map(|at| at.elapsed()),
            errors: state.errors,
            last_error: state.last_error.clone(),
            skipped: state.skipped,
            refused: state.refused + state.known.refused,
            servers: state.known.shown().count(),
            players: state.known.players(),
        }
    }

    /// Leaves the network if Redis is connected, and stops. Takes at most 5 s.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        let _ = tokio::time::timeout(STOP, &mut self.session).await;
    }
}

impl fmt::Debug for Network {
    /// Shows the configuration and the health, but no players.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = &self.shared.config;
        let health = self.health();
        f.debug_struct("Network")
            .field("config", config)
            .field("health", &health)
            .finish_non_exhaustive()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.session.abort();
        self.teller.abort();
    }
}

impl NetworkState {
    fn join(&mut self, uuid: Uuid, name: &str, now: i64) -> bool {
        if self.roster.len() >= MAX_OWN && !self.roster.contains_key(&uuid) {
            self.refused += 1;
            return false;
        }
        self.gone.remove(&uuid);
        self.known.claim(&uuid);
        self.roster.insert(
            uuid,
            Member {
                name: Text::unformatted(cut(name)),
                joined: now,
            },
        );
        self.fresh.insert(uuid);
        true
    }

    fn leave(&mut self, uuid: Uuid, to: Option<String>) {
        let Some(member) = self.roster.remove(&uuid) else {
            return;
        };
        self.fresh.remove(&uuid);
        // A heartbeat removes players who are not in the roster.
        if self.gone.len() >= MAX_CHANGES {
            self.needs_rewrite = true;
        } else {
            self.gone.insert(uuid, to.map(|to| (to, member)));
        }
    }

    /// Records that Redis knows a player, unless the player has changed since.
    fn record_sent(&mut self, uuid: &Uuid, member: &Member) {
        if self.roster.get(uuid).is_none_or(|now| now == member) {
            self.fresh.remove(uuid);
        }
    }
}

impl NetworkShared {
    fn state(&self) -> MutexGuard<'_, NetworkState> {
        // The state is complete even after a panic of another thread.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.wake.notify_one();
        self.changed.notify_one();
    }

    fn counts_others(&self, state: &NetworkState) -> bool {
        let fresh = |last_message: Instant| last_message.elapsed() <= self.config.keep_view;
        self.config.mode == Mode::Aggregate
            && state.refreshed.is_some()
            && state.last_message.is_some_and(fresh)
    }

    fn status(&self) -> Status {
        // Servers are shared, so the lock is only held while the local players are copied.
        let (local, roster, unshared, unlisted, others, network) = {
            let state = self.state();
            let network = self.counts_others(&state);
            let others: Vec<_> = if network {
                state.known.shown().cloned().collect()
            } else {
                Vec::new()
            };
            (
                state.local.clone(),
                state.roster.clone(),
                state.unshared.clone(),
                state.unlisted,
                others,
                network,
            )
        };
        let mut status = view::aggregate(&local, &roster, &others);
        let players = &mut status.players;
        players.list.extend(unshared);
        let listed = i64::try_from(players.list.len()).unwrap_or(i64::MAX);
        players.online = Some(listed.saturating_add(unlisted));
        if unlisted > 0 {
            players.roster = Roster::Partial;
        }
        view::mark(&mut status, network);
        status
    }

    /// Returns what is written of this server.
    fn record(&self, state: &NetworkState) -> Record {
        let name = self
            .config
            .name
            .clone()
            .or_else(|| state.local.name.as_ref().map(Text::plain));
        Record {
            name: cut(&name.unwrap_or_default()).to_owned(),
            host: self.config.host.clone(),
            port: self.config.port,
            max: state.local.players.max.unwrap_or(0).max(0),
            count: None,
            heartbeat: Some(wall()),
        }
    }

    fn joining(&self, uuid: Uuid, member: &Member, server: &str, server_name: &str) -> String {
        let server = server.to_owned();
        let server_name = server_name.to_owned();
        Event::Join {
            uuid,
            server,
            name: member.name.clone(),
            server_name,
        }
        .write()
    }
}

/// Publishes the status after changes. Changes in quick succession are combined.
async fn publish_updates(shared: Arc<NetworkShared>, updates: watch::Sender<Arc<Status>>) {
    loop {
        let _ = tokio::time::timeout(TICK, shared.changed.notified()).await;
        let started = Instant::now();
        let status = shared.status();
        updates.send_if_modified(|old| {
            let differs = **old != status;
            if differs {
                *old = Arc::new(status);
            }
            differs
        });
        // A list of a million players takes time; at most a fifth of all time is spent on it.
        tokio::time::sleep(MIN_UPDATE_INTERVAL.max(started.elapsed() * 4)).await;
    }
}

/// Milliseconds of the monotonic clock, for ages.
fn now() -> i64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    millis(START.elapsed())
}

/// Milliseconds since 1970 of the wall clock, for other members.
fn wall() -> i64 {
    millis(
        SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default(),
    )
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX / 4)
}
