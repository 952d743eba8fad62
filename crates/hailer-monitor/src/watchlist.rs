//! The watchlist: the list of polled servers, and the interface that changes it.
//!
//! The API, the configuration file and `hailer monitor add` change it through the [`Watchlist`]
//! trait. [`LocalWatchlist`] serves a monitor that runs alone; the cluster has its own.

use crate::history::{History, HistoryError};
use crate::poll::Poller;
use crate::server::{NewServer, Server, ServerId, check};
use crate::state::StateTable;
use futures_util::future::BoxFuture;
use std::fmt;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Adds, changes and removes servers.
pub trait Watchlist: Send + Sync + 'static {
    /// Adds a server. Its first poll follows within its interval.
    fn add(&self, new: NewServer) -> BoxFuture<'_, Result<Server, WatchlistError>>;
    /// Adds many servers, all or none, such as all servers of a configuration file. The error names the
    /// server at fault, if it is known.
    fn add_all(
        &self,
        new: Vec<NewServer>,
    ) -> BoxFuture<'_, Result<(), (Option<String>, WatchlistError)>>;
    /// Returns a server that another process has added and that this one may not know yet.
    fn find<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Option<Server>> {
        let _ = name;
        Box::pin(async { None })
    }
    /// Takes the servers that other processes have added into the state table.
    fn catch_up(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
    /// Replaces the description of a server.
    fn change(&self, server: Server) -> BoxFuture<'_, Result<(), WatchlistError>>;
    /// Removes a server. Returns `false` if there was none.
    fn remove(&self, id: ServerId) -> BoxFuture<'_, Result<bool, WatchlistError>>;
}

/// Why the watchlist was not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchlistError {
    /// Another server has this name.
    #[error("another server is called {0}")]
    Taken(String),
    /// The server is not on the watchlist.
    #[error("the server was removed")]
    Gone,
    /// The description is invalid. The text describes the problem.
    #[error("{0}")]
    Invalid(String),
    /// The history cannot be written. The text has the cause.
    #[error("{0}")]
    Failed(String),
}

impl From<HistoryError> for WatchlistError {
    fn from(error: HistoryError) -> Self {
        match error {
            HistoryError::Taken(name) => Self::Taken(name),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// The watchlist of a monitor that runs alone.
///
/// Changes run one after the other: first in the history, then in the poller. A change that has
/// begun is completed even if its caller is gone.
pub struct LocalWatchlist(Arc<WatchlistState>);

impl fmt::Debug for LocalWatchlist {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalWatchlist").finish_non_exhaustive()
    }
}

struct WatchlistState {
    history: History,
    poller: Arc<Poller>,
    state: Arc<StateTable>,
    turn: Mutex<()>,
}

impl LocalWatchlist {
    /// Creates the watchlist of a poller.
    pub fn new(history: History, poller: Arc<Poller>, state: Arc<StateTable>) -> Self {
        Self(Arc::new(WatchlistState {
            history,
            poller,
            state,
            turn: Mutex::default(),
        }))
    }
}

impl Watchlist for LocalWatchlist {
    fn add(&self, new: NewServer) -> BoxFuture<'_, Result<Server, WatchlistError>> {
        let inner = self.0.clone();
        Box::pin(run_to_completion(async move { inner.add(new).await }))
    }

    fn add_all(
        &self,
        new: Vec<NewServer>,
    ) -> BoxFuture<'_, Result<(), (Option<String>, WatchlistError)>> {
        let inner = self.0.clone();
        let work = tokio::spawn(async move { inner.add_all(new).await });
        Box::pin(async move { work.await.unwrap_or_else(|_| Err((None, interrupted()))) })
    }

    fn change(&self, server: Server) -> BoxFuture<'_, Result<(), WatchlistError>> {
        let inner = self.0.clone();
        Box::pin(run_to_completion(async move { inner.change(server).await }))
    }

    fn remove(&self, id: ServerId) -> BoxFuture<'_, Result<bool, WatchlistError>> {
        let inner = self.0.clone();
        Box::pin(run_to_completion(async move { inner.remove(id).await }))
    }
}

impl WatchlistState {
    async fn add(&self, new: NewServer) -> Result<Server, WatchlistError> {
        let _turn = self.turn.lock().await;
        let server = self.history.add(&new).await?;
        if let Err(problem) = self.poller.watch(server.clone(), None) {
            self.history.remove(server.id).await?;
            return Err(WatchlistError::Invalid(problem));
        }
        Ok(server)
    }

    async fn add_all(&self, new: Vec<NewServer>) -> Result<(), (Option<String>, WatchlistError)> {
        let _turn = self.turn.lock().await;
        let added = store_all(&self.history, &new).await?;
        // `store_all` has checked the targets, so none is refused.
        self.poller
            .watch_all(added.into_iter().map(|server| (server, None)));
        Ok(())
    }

    async fn change(&self, server: Server) -> Result<(), WatchlistError> {
        let _turn = self.turn.lock().await;
        self.state.row(server.id).ok_or(WatchlistError::Gone)?;
        server
            .target()
            .map_err(|error| WatchlistError::Invalid(error.to_string()))?;
        self.history.change(&server).await?;
        self.poller
            .watch(server, None)
            .map_err(WatchlistError::Invalid)
    }

    async fn remove(&self, id: ServerId) -> Result<bool, WatchlistError> {
        let _turn = self.turn.lock().await;
        let was_there = self.history.remove(id).await?;
        self.poller.forget(id);
        Ok(was_there)
    }
}

/// Checks servers and stores them in the history, all or none. The error names the server at fault,
/// if it is known.
pub(crate) async fn store_all(
    history: &History,
    new: &[NewServer],
) -> Result<Vec<Server>, (Option<String>, WatchlistError)> {
    for new in new {
        if let Some(wrong) = check(new).into_iter().next() {
            return Err((
                Some(new.name.clone()),
                WatchlistError::Invalid(format!("{}: {}", wrong.field, wrong.message)),
            ));
        }
    }
    let named = |problem| match problem {
        HistoryError::Taken(name) => (Some(name.clone()), WatchlistError::Taken(name)),
        problem => (None, problem.into()),
    };
    history.add_all(new).await.map_err(named)
}

async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T, WatchlistError>> + Send + 'static,
) -> Result<T, WatchlistError> {
    tokio::spawn(work)
        .await
        .unwrap_or_else(|_| Err(interrupted()))
}

fn interrupted() -> WatchlistError {
    WatchlistError::Failed("the change was interrupted; try again".into())
}
