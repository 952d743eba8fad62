//! Doors: game servers that sleep while they have no players.
//!
//! ```text
//!   DoorConfig ─► Doors ─┬─► Entrance ─► boards: what sockets do with clients
//!                        └─► Driver: a task for each door; it survives a reload
//!                              │ Control: start and stop
//! ```
//!
//! In: joins, statuses, commands. Out: games that start and stop.
//!
//! May import: `crate::command::serve`, `crate::command::serve::action`,
//! `crate::command::serve::notify`, `crate::config`, `crate::files`, `crate::http_client`,
//! `crate::observe`, `hailer`.

pub(super) mod control;
mod driver;
mod record;
mod texts;

use self::control::{Control, DoorName};
use self::driver::Driver;
use self::texts::Shown;
use super::notify::Notifier;
use crate::config::ServerConfig;
use crate::config::door::access::AccessConfig;
use crate::config::door::table::DoorConfig;
use crate::observe::snapshot;
use hailer::door::access::Access;
use hailer::door::machine::{Cause, DoorRecord, Event};
use hailer::door::{Entrance, Requests, State};
use hailer::respond::Board;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::warn;

/// Time between checks whether the lists of players have changed.
const REREAD_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of orders that wait for a door.
const MAX_ORDERS: usize = 16;

/// The doors of one configuration, by server.
#[derive(Default)]
pub(super) struct Doors(Vec<Option<Arc<Door>>>);

/// A door: the side of its sockets, and its task. Dropping the last one ends the task. The game
/// does not change.
pub(super) struct Door {
    shared: Arc<Shared>,
    /// Identifies the door after a reload.
    identity: String,
    orders: mpsc::Sender<Order>,
    /// Channels for the task, until it starts.
    seat: Mutex<Option<(Requests, mpsc::Receiver<Order>)>>,
    task: Mutex<Option<JoinHandle<()>>>,
    /// Clients that may wake the game, until another configuration.
    access: Mutex<Option<Arc<Access>>>,
    /// Reads the files of `access` again.
    reader: Mutex<Option<JoinHandle<()>>>,
}

/// State that a door shares with its task.
struct Shared {
    name: String,
    entrance: Entrance,
    shown: Mutex<Option<Shown>>,
    report: Mutex<DoorReport>,
}

/// State of a door for people.
#[derive(Clone, Debug)]
pub(super) struct DoorReport {
    pub(super) name: String,
    pub(super) state: State,
    pub(super) since: Instant,
    /// Cause of the last start of the game.
    pub(super) woken_by: Option<Cause>,
    pub(super) record: DoorRecord,
    /// Reason of the last failure, until the game runs or sleeps.
    pub(super) reason: Option<String>,
    /// Players online. `None`: unknown.
    pub(super) players: Option<u32>,
}

/// Command of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DoorCommand {
    Wake,
    Sleep,
}

/// Order to the task of a door.
enum Order {
    Configure(Box<Setup>),
    Command(DoorCommand, oneshot::Sender<Result<String, String>>),
}

/// Configuration and boards of a door.
struct Setup {
    config: DoorConfig,
    /// Number of the server, from 1.
    number: usize,
    boards: Vec<(SocketAddr, Board)>,
    /// Sends notifications of changes.
    notifier: Arc<Notifier>,
}

impl Setup {
    fn control(&self, name: &str) -> Arc<dyn Control> {
        let name = DoorName {
            number: self.number,
            name: name.to_owned(),
        };
        control::control(&self.config.control, name)
    }
}

impl DoorCommand {
    fn event(self) -> Event {
        match self {
            Self::Wake => Event::Wake,
            Self::Sleep => Event::Sleep,
        }
    }

    /// Describes the effect of a command.
    fn result(self, before: State, after: State) -> String {
        match (self, before == after) {
            (_, false) => format!("{} now; it was {}", after.name(), before.name()),
            (Self::Wake, true) if after == State::Stopping => {
                "stopping now; it starts again after that".to_owned()
            }
            (_, true) => format!("{} already", after.name()),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn set_shown(&self, shown: &Shown) {
        *lock(&self.shown) = Some(shown.clone());
    }

    fn set_report(&self, report: DoorReport) {
        *lock(&self.report) = report;
    }
}

impl Door {
    fn new(name: String, identity: String) -> Self {
        let (entrance, requests) = Entrance::new();
        let (orders, receiver) = mpsc::channel(MAX_ORDERS);
        let report = DoorReport {
            name: name.clone(),
            state: State::Asleep,
            since: Instant::now(),
            woken_by: None,
            record: DoorRecord::default(),
            reason: None,
            players: None,
        };
        let shared = Shared {
            name,
            entrance,
            shown: Mutex::default(),
            report: Mutex::new(report),
        };
        Self {
            shared: Arc::new(shared),
            identity,
            orders,
            seat: Mutex::new(Some((requests, receiver))),
            task: Mutex::default(),
            access: Mutex::default(),
            reader: Mutex::default(),
        }
    }

    /// Returns the side that sockets see.
    pub(super) fn entrance(&self) -> &Entrance {
        &self.shared.entrance
    }

    /// Lets a board show the status of the door, and pass clients on.
    pub(super) fn attach(&self, board: &Board, port: u16) {
        board.set_entrance(Some(self.shared.entrance.clone()));
        if let Some(shown) = &*lock(&self.shared.shown) {
            let status = crate::config::at_port(shown.status.clone(), port);
            // Invalid options have failed before.
            let _ = board.publish_with_kick(&status, &shown.kick);
        }
    }

    /// Returns the state for people.
    pub(super) fn report(&self) -> DoorReport {
        lock(&self.shared.report).clone()
    }

    /// Returns the state for the control socket and the metrics.
    pub(super) fn snapshot(&self) -> snapshot::Door {
        let report = self.report();
        let record = report.record;
        snapshot::Door {
            name: report.name,
            state: report.state,
            since_s: report.since.elapsed().as_secs_f64(),
            woken_by: report.woken_by.as_ref().map(driver::waker),
            starts: record.starts,
            failed_starts: record.failed_starts,
            crashes: record.crashes,
            idle_stops: record.idle_stops,
            held_joins: record.held_joins,
            refused_joins: self.entrance().refused(),
            visits: self.entrance().visits(),
            players: report.players,
            last_start_s: record.last_start.map(|time| time.as_secs_f64()),
            asleep_s: record.asleep.as_secs_f64(),
            last_error: report.reason,
        }
    }

    /// Returns the name.
    pub(super) fn name(&self) -> &str {
        &self.shared.name
    }

    /// Wakes the game or puts it to sleep. Returns a description of the effect.
    ///
    /// # Errors
    /// The reason why the door cannot do it.
    pub(super) async fn command(&self, command: DoorCommand) -> Result<String, String> {
        let (sender, reply) = oneshot::channel();
        let order = Order::Command(command, sender);
        let gone = || "the door does not run".to_owned();
        self.orders.send(order).await.map_err(|_| gone())?;
        reply.await.map_err(|_| gone())?
    }

    /// Sets the clients that may wake the game. Reads the files of the lists.
    fn set_access(&self, config: Option<&AccessConfig>) {
        let entrance = &self.shared.entrance;
        let access = config.map(|who| Arc::new(Access::new(who.allow.clone(), who.deny.clone())));
        match &access {
            Some(access) => {
                log_problems(&self.shared.name, access);
                let access = access.clone();
                entrance.admit(move |source, attempt| access.admits(source.ip(), attempt));
            }
            None => entrance.admit(|_, _| true),
        }
        *lock(&self.access) = access;
    }

    /// Starts the task that reads the files of the lists again.
    fn watch_access(&self) {
        let access = lock(&self.access).clone();
        let task = access.filter(|access| access.has_files()).map(|access| {
            let name = self.shared.name.clone();
            tokio::spawn(async move {
                let mut ticks = tokio::time::interval(REREAD_INTERVAL);
                ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    let (name, access) = (name.clone(), access.clone());
                    // The disk may hang.
                    let read = tokio::task::spawn_blocking(move || log_problems(&name, &access));
                    let _ = read.await;
                }
            })
        });
        if let Some(old) = std::mem::replace(&mut *lock(&self.reader), task) {
            old.abort();
        }
    }

    /// Starts the task, or gives it another configuration.
    async fn start(&self, setup: Setup) {
        self.set_access(setup.config.who.as_ref());
        self.watch_access();
        let seat = lock(&self.seat).take();
        match seat {
            Some((requests, orders)) => {
                let driver = Driver::new(self.shared.clone(), setup);
                let task = tokio::spawn(driver.run(requests, orders));
                *lock(&self.task) = Some(task);
            }
            // The task ends only with the door.
            None => drop(self.orders.send(Order::Configure(Box::new(setup))).await),
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let tasks = [lock(&self.task).take(), lock(&self.reader).take()];
        tasks.iter().flatten().for_each(JoinHandle::abort);
    }
}

impl Doors {
    /// Returns the doors of a configuration. Doors of the old configuration keep their state.
    pub(super) fn new(servers: &[ServerConfig], old: Option<&Self>) -> Self {
        let mut left: Vec<_> = old.into_iter().flat_map(Self::iter).cloned().collect();
        let mut names = BTreeSet::new();
        let mut door = |(index, server): (usize, &ServerConfig)| {
            let config = server.door.as_ref()?;
            let mut name = name_of(server, index);
            if !names.insert(name.clone()) {
                name = format!("{name}#{}", index + 1);
                names.insert(name.clone());
            }
            let identity = format!("{name} {}", config.game);
            let same = left.iter().position(|door| door.identity == identity);
            Some(match same {
                Some(at) => left.swap_remove(at),
                None => {
                    let door = Door::new(name, identity);
                    // Before the first client.
                    door.set_access(config.who.as_ref());
                    Arc::new(door)
                }
            })
        };
        Self(servers.iter().enumerate().map(&mut door).collect())
    }

    /// Returns the door of a server, counted from 0.
    pub(super) fn of(&self, server: usize) -> Option<&Arc<Door>> {
        self.0.get(server)?.as_ref()
    }

    /// Returns all doors, in the order of the servers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Door>> {
        self.0.iter().flatten()
    }

    /// Starts the tasks, or gives them their new configuration. `boards` has the boards of each
    /// server.
    pub(super) async fn start(
        &self,
        servers: &[ServerConfig],
        boards: Vec<Vec<(SocketAddr, Board)>>,
        notifier: &Arc<Notifier>,
    ) {
        for ((index, server), boards) in servers.iter().enumerate().zip(boards) {
            if let (Some(door), Some(config)) = (self.of(index), &server.door) {
                let config = (**config).clone();
                let number = index + 1;
                door.start(Setup {
                    config,
                    number,
                    boards,
                    notifier: notifier.clone(),
                })
                .await;
            }
        }
    }
}

/// Reads the lists that changed.
fn log_problems(name: &str, access: &Access) {
    for problem in access.reread() {
        warn!("door {name}: who: {problem}");
    }
}

/// Returns the name of a server with a door, by default the first address where it listens.
fn name_of(server: &ServerConfig, index: usize) -> String {
    if let Some(name) = &server.name {
        return name.clone();
    }
    match server.listeners.first() {
        Some(listener) if listener.address.port() != 0 => listener.address.to_string(),
        _ => format!("{}", index + 1),
    }
}

/// Returns the minute of the local day. Without time zones in this build, that of UTC.
fn local_minute() -> u16 {
    #[cfg(feature = "monitor")]
    {
        let now = jiff::Zoned::now();
        now.hour() as u16 * 60 + now.minute() as u16
    }
    #[cfg(not(feature = "monitor"))]
    {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        (now.unwrap_or_default().as_secs() / 60 % (24 * 60)) as u16
    }
}
