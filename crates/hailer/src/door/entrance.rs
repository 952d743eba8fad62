//! State that the threads of sockets and the owner of a door share.
//!
//! In: joins of verified sources, the view of the owner. Out: requests to the owner, results
//! for clients. Limits: [`MAX_WAITING`] requests; more are dropped, since one wakes the game.
//!
//! May import: `hailer_proto`.

use arc_swap::ArcSwap;
use hailer_proto::protocol::JoinAttempt;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::{Notify, mpsc, watch};

/// Maximum number of requests that wait for the owner of the door.
const MAX_WAITING: usize = 64;

/// State of a door.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The game does not run. A join starts it.
    #[default]
    Asleep,
    /// The start has begun, and the game does not answer yet.
    Starting,
    /// The game answers.
    Running,
    /// The stop has begun, and the game still answers.
    Stopping,
    /// The game did not start, or ended by itself. A join starts it after a pause.
    Failed,
}

impl State {
    /// All states, in the order of a life.
    pub const ALL: [Self; 5] = [
        Self::Asleep,
        Self::Starting,
        Self::Running,
        Self::Stopping,
        Self::Failed,
    ];

    /// Returns the name for people and programs, such as `asleep`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Asleep => "asleep",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Failed => "failed",
        }
    }
}

/// State of a door, as its owner shows it to the threads of sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// State of the door.
    pub state: State,
    /// Address of the game. Clients are passed on to it while it runs.
    pub game: Option<SocketAddr>,
}

/// Result for a client that tries to join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Pass it on to the game at this address.
    Open(SocketAddr),
    /// The game starts, or was requested to. Hold the client until the view changes, or end it with
    /// the text of the board.
    Wait,
    /// The client may not wake the game. End it with the text of the board.
    Refused,
}

/// Request to the owner of a door.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Request {
    /// A verified source tries to join.
    Join {
        /// Address of the client.
        source: SocketAddr,
        /// Data that the client sent.
        attempt: JoinAttempt,
    },
    /// The game did not accept a connection, or nothing listens on its port.
    Unreachable {
        /// Its address.
        game: SocketAddr,
    },
}

/// Decides who may wake the game. It runs on the threads of sockets, so it must not block.
type Admits = dyn Fn(SocketAddr, &JoinAttempt) -> bool + Send + Sync;

/// Side of a door that sockets see. Cheap to clone: all clones are one door.
#[derive(Clone)]
pub struct Entrance(Arc<Inner>);

struct Inner {
    /// The view for threads that take no locks.
    current: ArcSwap<View>,
    /// The view for connections that wait for a change.
    changes: watch::Sender<View>,
    requests: mpsc::Sender<Request>,
    admits: ArcSwap<Box<Admits>>,
    wakes_on_traffic: AtomicBool,
    unreachable: Notify,
    visits: AtomicU64,
    refused: AtomicU64,
}

/// Requests of an [`Entrance`], for the owner of the door.
pub type Requests = mpsc::Receiver<Request>;

impl Entrance {
    /// Returns an entrance that shows [`State::Asleep`], and its requests.
    pub fn new() -> (Self, Requests) {
        let (requests, receiver) = mpsc::channel(MAX_WAITING);
        let admits: Box<Admits> = Box::new(|_, _| true);
        let inner = Inner {
            current: ArcSwap::default(),
            changes: watch::Sender::default(),
            requests,
            admits: ArcSwap::from_pointee(admits),
            wakes_on_traffic: AtomicBool::new(false),
            unreachable: Notify::new(),
            visits: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        };
        (Self(Arc::new(inner)), receiver)
    }

    /// Returns the entrance of a game without a door, which counts as running. `game`: its address, if
    /// known.
    pub fn always_open(game: Option<SocketAddr>) -> Self {
        let (entrance, _) = Self::new();
        let state = State::Running;
        entrance.show(View { state, game });
        entrance
    }

    /// Returns a number that clones of one entrance share, and no other entrance.
    pub fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Shows a new view. Waiting clients get it immediately.
    pub fn show(&self, view: View) {
        self.0.current.store(Arc::new(view.clone()));
        self.0.changes.send_replace(view);
    }

    /// Replaces the decision which clients may wake the game. At the start, all clients may.
    pub fn admit(&self, admits: impl Fn(SocketAddr, &JoinAttempt) -> bool + Send + Sync + 'static) {
        self.0.admits.store(Arc::new(Box::new(admits)));
    }

    /// Sets whether all traffic that is no query counts as an attempt to join, for games whose
    /// handshake is unknown. At the start, it does not.
    pub fn set_wakes_on_traffic(&self, wakes_on_traffic: bool) {
        self.0
            .wakes_on_traffic
            .store(wakes_on_traffic, Ordering::Relaxed);
    }

    /// Returns whether all traffic that is no query counts as an attempt to join.
    pub fn wakes_on_traffic(&self) -> bool {
        self.0.wakes_on_traffic.load(Ordering::Relaxed)
    }

    /// Returns the current view. Takes no lock.
    pub fn view(&self) -> arc_swap::Guard<Arc<View>> {
        self.0.current.load()
    }

    /// Returns the views from now on.
    pub fn changes(&self) -> watch::Receiver<View> {
        self.0.changes.subscribe()
    }

    /// Records that a verified source tries to join. Returns what the client gets. Never blocks.
    pub fn enter(&self, source: SocketAddr, attempt: &JoinAttempt) -> Entry {
        let view = self.0.current.load();
        if let (State::Running, Some(game)) = (view.state, view.game) {
            return Entry::Open(game);
        }
        if !(self.0.admits.load())(source, attempt) {
            self.0.refused.fetch_add(1, Ordering::Relaxed);
            return Entry::Refused;
        }
        let attempt = attempt.clone();
        // If the queue is full, a request that does the same is waiting.
        let _ = self.0.requests.try_send(Request::Join { source, attempt });
        Entry::Wait
    }

    /// Records that the game did not accept a connection, or that nothing listens on its port. Never
    /// blocks.
    pub fn report_unreachable(&self, game: SocketAddr) {
        self.0.unreachable.notify_one();
        // If the queue is full, the owner already has requests to handle.
        let _ = self.0.requests.try_send(Request::Unreachable { game });
    }

    /// Waits until the game cannot be reached. Only one caller may wait.
    pub async fn unreachable(&self) {
        self.0.unreachable.notified().await;
    }

    /// Counts a client that is passed on to the game, until the result is dropped.
    pub fn visit(&self) -> Visit {
        self.0.visits.fetch_add(1, Ordering::AcqRel);
        Visit(self.0.clone())
    }

    /// Returns the number of clients that are passed on to the game now.
    pub fn visits(&self) -> u64 {
        self.0.visits.load(Ordering::Acquire)
    }

    /// Returns the number of clients that were refused.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entrance")
            .field("view", &**self.view())
            .field("visits", &self.visits())
            .finish_non_exhaustive()
    }
}

/// A client that is passed on to the game.
pub struct Visit(Arc<Inner>);

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.visits.fetch_sub(1, Ordering::AcqRel);
    }
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Visit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> SocketAddr {
        "192.0.2.7:50000".parse().unwrap()
    }

    #[test]
    fn clients_are_passed_on_only_while_the_game_runs() {
        let (entrance, mut requests) = Entrance::new();
        let attempt = JoinAttempt::default();
        let game: SocketAddr = "127.0.0.1:25566".parse().unwrap();
        for state in State::ALL {
            let game = Some(game);
            entrance.show(View { state, game });
            let expected = match state {
                State::Running => Entry::Open("127.0.0.1:25566".parse().unwrap()),
                _ => Entry::Wait,
            };
            assert_eq!(entrance.enter(source(), &attempt), expected, "{state:?}");
            let is_requested = requests.try_recv().is_ok();
            assert_eq!(is_requested, state != State::Running, "{state:?}");
        }
    }

    #[test]
    fn refused_clients_request_nothing() {
        let (entrance, mut requests) = Entrance::new();
        entrance.admit(|_, attempt| attempt.name == "Alice");
        let named = |name: &str| JoinAttempt {
            name: name.into(),
            ..JoinAttempt::default()
        };
        assert_eq!(entrance.enter(source(), &named("Bob")), Entry::Refused);
        assert!(requests.try_recv().is_err());
        assert_eq!(entrance.refused(), 1);
        assert_eq!(entrance.enter(source(), &named("Alice")), Entry::Wait);
        assert!(requests.try_recv().is_ok());
    }

    #[test]
    fn more_requests_than_fit_are_dropped() {
        let (entrance, mut requests) = Entrance::new();
        for _ in 0..2 * MAX_WAITING {
            assert_eq!(
                entrance.enter(source(), &JoinAttempt::default()),
                Entry::Wait
            );
        }
        let received = std::iter::from_fn(|| requests.try_recv().ok()).count();
        assert_eq!(received, MAX_WAITING);
    }

    #[test]
    fn visits_are_counted_until_they_end() {
        let (entrance, _requests) = Entrance::new();
        let visits = [entrance.visit(), entrance.visit()];
        assert_eq!(entrance.visits(), 2);
        drop(visits);
        assert_eq!(entrance.visits(), 0);
    }
}
