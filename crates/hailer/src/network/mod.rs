//! Network: several servers of one owner answer as one, by way of Redis. The network mode of OneQuery
//! (spec/onequery.md#12), so that Hailer and servers with the OneQuery plugin can be members of the same network.
//!
//! ```text
//!   game ──► joined, left, moved, publish ──► roster ──┬─► scripts, atomic ──► Redis ◄── other members
//!                                                      │                         │
//!   responder ◄── updates: Status ◄── aggregate ◄──────┴──────── view ◄── events, full reads
//! ```
//!
//! A member in a program, the feature `redis` turned on:
//!
//! ```
//! use hailer::network::{Network, NetworkConfig};
//! use hailer::{Status, Text};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut settings = NetworkConfig::new("redis://127.0.0.1:6379/0")?;
//! settings.server_id = "lobby-1".into();
//! // Returns at once, whether Redis is there or not; it is joined as soon as it is.
//! let network = Network::start(settings)?;
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
//! // What is to be answered now, and each time that it changes: give it to `respond::Board::publish`.
//! let mut updates = network.updates();
//! updates.wait_for(|status| status.players.count() == 1).await?;
//! println!("{:?}", network.health());
//!
//! network.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! # What holds
//!
//! - **Answers never stop.** Without Redis the last view is answered for [`NetworkConfig::keep_view`], then what this server knows of
//!   itself; the own players are right at any time. [`Health`] says which it is, and how old. The extra `network` of a status is
//!   true while others are counted.
//! - **Redis is found again** within a few seconds, whatever it has lost by then: each heartbeat writes the whole truth of this
//!   server, and removes what is not true.
//! - **Counts are those of lists**, each player is counted once, and servers that are silent for 45 seconds are left out.
//! - **Bounds**: 10,000 players of this server, and of the others what [`NetworkConfig`] says; what does not fit is counted in
//!   [`Health::refused`]. One command is under way at a time, none is queued: after a loss the state is written, not its history.
//! - **Secrets** are in no error and no `Debug`. Redis itself is trusted: whoever can write there can say anything.

mod config;
mod event;
mod keys;
mod record;
mod scripts;
mod session;
mod view;
mod wildcard;

pub use crate::link::RedisConfig;
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
use view::{Bounds, Known, Uuid};

/// Most players of this server: one script writes all of them.
const MAX_OWN: usize = 10_000;
/// Changes that are written one by one. More of them are left to a heartbeat.
const MAX_CHANGES: usize = 64;
/// A new status is made so often at most.
const PAUSE: Duration = Duration::from_millis(20);
/// And is looked at so often at least, since views grow old by themselves.
const TICK: Duration = Duration::from_secs(1);
/// Time that a clean stop may take.
const STOP: Duration = Duration::from_secs(5);

/// A member of a network. Dropped without [`Network::stop`] it falls silent, and the others miss it 45 seconds later.
pub struct Network {
    shared: Arc<Shared>,
    updates: watch::Receiver<Arc<Status>>,
    stop: watch::Sender<bool>,
    session: JoinHandle<()>,
    teller: JoinHandle<()>,
}

/// How a member fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether Redis is there, and this server registered.
    pub connected: bool,
    /// Whether other servers are part of the status that is answered.
    pub network: bool,
    /// Time since Redis was last heard.
    pub age: Option<Duration>,
    /// Time since the last full read.
    pub refreshed: Option<Duration>,
    /// Failed connections and commands.
    pub errors: u64,
    /// What the last of them said.
    pub last_error: Option<String>,
    /// Entries and events that could not be read, and were passed over.
    pub skipped: u64,
    /// Servers and players that there was no room for.
    pub refused: u64,
    /// Other servers of the network.
    pub servers: usize,
    /// Their players.
    pub players: usize,
}

/// What the game's threads, the session and the teller share.
struct Shared {
    settings: NetworkConfig,
    keys: Keys,
    state: Mutex<State>,
    /// There is something to write.
    wake: Notify,
    /// There is something to tell.
    changed: Notify,
}

struct State {
    /// What this server says of itself, players aside.
    local: Status,
    /// Players of this server that the network knows, as the game reports them.
    roster: HashMap<Uuid, Member>,
    /// Players of this server without a UUID: part of the status, but not shared. At most `MAX_OWN`.
    unshared: Vec<Player>,
    /// Players of this server that its status counts and does not list.
    unlisted: i64,
    /// Of those, who has joined since the last word to Redis.
    fresh: HashSet<Uuid>,
    /// Who has left since then, and whereto, if that was said.
    gone: HashMap<Uuid, Option<(String, Member)>>,
    /// Too much has changed to write it piece by piece.
    rewrite: bool,
    known: Known,
    connected: bool,
    heard: Option<Instant>,
    refreshed: Option<Instant>,
    errors: u64,
    last_error: Option<String>,
    skipped: u64,
    refused: u64,
}

impl Network {
    /// Takes part in a network, for as long as it is kept. Returns at once; Redis is looked for in the background.
    ///
    /// # Errors
    /// If the settings make no sense, or if there is no tokio runtime to run on.
    pub fn start(settings: NetworkConfig) -> Result<Self, NetworkConfigError> {
        Self::start_after(settings, None)
    }

    /// Starts like [`Network::start`], with the view of an earlier member of the same network, which loses it. That member
    /// should be dropped; with [`Network::stop`] it would remove the entry of this one if both have the same server id.
    ///
    /// # Errors
    /// As [`Network::start`].
    pub fn start_after(
        settings: NetworkConfig,
        earlier: Option<&Self>,
    ) -> Result<Self, NetworkConfigError> {
        settings.check()?;
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| NetworkConfigError {
            key: "runtime",
            problem: "there is none: call this from inside of a tokio runtime with time and I/O"
                .into(),
        })?;
        let bounds = Bounds {
            servers: settings.max_servers,
            players: settings.max_players,
            stale: millis(settings.stale),
        };
        let (mut known, mut heard, mut refreshed) = (Known::new(bounds), None, None);
        let is_same = |config: &NetworkConfig| {
            config.redis == settings.redis
                && config.prefix == settings.prefix
                && config.network_id == settings.network_id
        };
        if let Some(earlier) = earlier.filter(|earlier| is_same(&earlier.shared.settings)) {
            let mut state = earlier.shared.state();
            std::mem::swap(&mut known, &mut state.known);
            heard = state.heard;
            refreshed = state.refreshed.take();
            known.remove(&settings.server_id);
        }
        let mut local = Status {
            name: settings.name.as_deref().map(Text::unformatted),
            ..Status::default()
        };
        local.players.max = Some(0);
        let state = State {
            local,
            roster: HashMap::new(),
            unshared: Vec::new(),
            unlisted: 0,
            fresh: HashSet::new(),
            gone: HashMap::new(),
            rewrite: false,
            known,
            connected: false,
            heard,
            refreshed,
            errors: 0,
            last_error: None,
            skipped: 0,
            refused: 0,
        };
        let keys = Keys::new(&settings.prefix, &settings.network_id);
        let shared = Arc::new(Shared {
            settings,
            keys,
            state: Mutex::new(state),
            wake: Notify::new(),
            changed: Notify::new(),
        });
        let (stop, stopped) = watch::channel(false);
        let (sender, updates) = watch::channel(Arc::new(shared.status()));
        let session = runtime.spawn(session::run(shared.clone(), stopped));
        let teller = runtime.spawn(tell(shared.clone(), sender));
        Ok(Self {
            shared,
            updates,
            stop,
            session,
            teller,
        })
    }

    /// A player is on this server now, and so on no other. Returns whether there was room.
    pub fn joined(&self, uuid: [u8; 16], name: &str) -> bool {
        let took = self.shared.state().join(uuid, name, wall());
        self.shared.notify();
        took
    }

    /// A player has left this server.
    pub fn left(&self, uuid: [u8; 16]) {
        self.shared.state().leave(uuid, None);
        self.shared.notify();
    }

    /// A player goes from here to another server of the network, and is listed there at once. If Redis does not know that
    /// server, the player has left.
    ///
    /// While 64 moves and leaves wait to be written, as when everybody moves at once or Redis is away, further moves become
    /// plain leaves: such a player is listed nowhere until the other server says that it has joined.
    pub fn moved(&self, uuid: [u8; 16], server_id: &str) {
        // Who moves to this server is here.
        if server_id == self.shared.settings.server_id {
            return;
        }
        let to = server_id.to_owned();
        let mut state = self.shared.state();
        let name = state.roster.get(&uuid).map(|member| member.name.clone());
        if let Some(name) = name {
            state.leave(uuid, Some(to.clone()));
            // Without this the player would be nowhere until the stream says so.
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

    /// Sets the players of this server, for programs that know no more than their list. Of several with one UUID the first
    /// counts. Players without a UUID are part of [`Network::status`] and are not shared with the network. Returns how many
    /// these are.
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

    /// Sets everything that is known of this server: [`Network::publish`] and [`Network::set_players`] in one. Writes
    /// nothing to Redis if nothing has changed. Returns the number of players without a UUID.
    pub fn set_status(&self, status: &Status) -> usize {
        self.publish(status);
        let listed = i64::try_from(status.players.list.len()).unwrap_or(i64::MAX);
        let online = status.players.online.unwrap_or(listed);
        self.shared.state().unlisted = online.saturating_sub(listed).max(0);
        self.set_players(&status.players.list)
    }

    /// What this server says of itself: name, MOTD, version, the most players that fit, and all else but the players.
    pub fn publish(&self, status: &Status) {
        let mut state = self.shared.state();
        let max = status.players.max;
        // The others need not wait for the next heartbeat.
        state.rewrite |= state.local.players.max != max || state.local.name != status.name;
        state.local = Status {
            players: Default::default(),
            ..status.clone()
        };
        state.local.players.max = max;
        drop(state);
        self.shared.notify();
    }

    /// What is to be answered: in [`Mode::Aggregate`] for the network, otherwise for this server.
    pub fn status(&self) -> Arc<Status> {
        Arc::new(self.shared.status())
    }

    /// The same each time that it changes, within some tens of milliseconds.
    pub fn updates(&self) -> watch::Receiver<Arc<Status>> {
        self.updates.clone()
    }

    /// The servers of the network and who is on them.
    pub fn view(&self) -> View {
        let state = self.shared.state();
        let mut servers: Vec<_> = state.known.shown().cloned().collect();
        servers.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        let record = self.shared.record(&state);
        let own = Server {
            id: self.shared.settings.server_id.clone(),
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
            age: state.heard.map(|heard| heard.elapsed()),
        }
    }

    /// How it fares.
    pub fn health(&self) -> Health {
        let state = self.shared.state();
        Health {
            connected: state.connected,
            network: self.shared.counts_others(&state),
            age: state.heard.map(|heard| heard.elapsed()),
            refreshed: state.refreshed.map(|at| at.elapsed()),
            errors: state.errors,
            last_error: state.last_error.clone(),
            skipped: state.skipped,
            refused: state.refused + state.known.refused,
            servers: state.known.shown().count(),
            players: state.known.players(),
        }
    }

    /// Says goodbye to the others, if Redis is there, and stops. Takes five seconds at most.
    pub async fn stop(mut self) {
        let _ = self.stop.send(true);
        let _ = tokio::time::timeout(STOP, &mut self.session).await;
    }
}

impl fmt::Debug for Network {
    /// Configuration and health, not each player.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (settings, health) = (&self.shared.settings, self.health());
        f.debug_struct("Network")
            .field("settings", settings)
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

impl State {
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
        // A heartbeat finds out by itself who is not in the roster any more.
        if self.gone.len() >= MAX_CHANGES {
            self.rewrite = true;
        } else {
            self.gone.insert(uuid, to.map(|to| (to, member)));
        }
    }

    /// Redis knows of a player, unless there is news since.
    fn told(&mut self, uuid: &Uuid, member: &Member) {
        if self.roster.get(uuid).is_none_or(|now| now == member) {
            self.fresh.remove(uuid);
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panicked in between left a state that is whole all the same.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notify(&self) {
        self.wake.notify_one();
        self.changed.notify_one();
    }

    fn counts_others(&self, state: &State) -> bool {
        let fresh = |heard: Instant| heard.elapsed() <= self.settings.keep_view;
        self.settings.mode == Mode::Aggregate
            && state.refreshed.is_some()
            && state.heard.is_some_and(fresh)
    }

    fn status(&self) -> Status {
        // Servers are shared, so the lock is held for as long as it takes to copy the own players, not all.
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

    /// What is written of this server.
    fn record(&self, state: &State) -> Record {
        let name = self
            .settings
            .name
            .clone()
            .or_else(|| state.local.name.as_ref().map(Text::plain));
        Record {
            name: cut(&name.unwrap_or_default()).to_owned(),
            host: self.settings.host.clone(),
            port: self.settings.port,
            max: state.local.players.max.unwrap_or(0).max(0),
            count: None,
            heartbeat: Some(wall()),
        }
    }

    fn joining(&self, uuid: Uuid, member: &Member, server: &str, server_name: &str) -> String {
        let (server, server_name) = (server.to_owned(), server_name.to_owned());
        Event::Join {
            uuid,
            server,
            name: member.name.clone(),
            server_name,
        }
        .write()
    }
}

/// Makes a status of each change, but not of each single one of many.
async fn tell(shared: Arc<Shared>, updates: watch::Sender<Arc<Status>>) {
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
        // A list of a million takes its time, which must not be all of it.
        tokio::time::sleep(PAUSE.max(started.elapsed() * 4)).await;
    }
}

/// Milliseconds by a clock that nobody sets: with it ages are measured.
fn now() -> i64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    millis(START.elapsed())
}

/// Milliseconds since 1970 by the clock on the wall: for others to read.
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
