//! Operations of the API that change the monitor: the watchlist, and test alerts.

use super::auth::Writer;
use super::servers::object;
use super::{Api, Problem};
use crate::alert::CheckedConfig;
use crate::history::{History, HistoryError, NewServer};
use crate::poll::Poller;
use crate::server::{FieldError, Server, ServerId, check};
use crate::state::StateTable;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Adds, changes and removes servers.
pub trait Watchlist: Send + Sync + 'static {
    /// Adds a server.
    fn add(&self, new: NewServer) -> BoxFuture<'_, Result<Server, WatchlistError>>;
    /// Adds servers, all or none. An error names the server, if it concerns one.
    fn add_all(
        &self,
        new: Vec<NewServer>,
    ) -> BoxFuture<'_, Result<(), (Option<String>, WatchlistError)>>;
    /// Replaces the configuration of a server.
    fn change(&self, server: Server) -> BoxFuture<'_, Result<(), WatchlistError>>;
    /// Removes a server; `false`: there was none.
    fn remove(&self, id: ServerId) -> BoxFuture<'_, Result<bool, WatchlistError>>;
}

/// Reason why a change of the watchlist failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchlistError {
    /// Another server has this name.
    #[error("another server has the name {0}")]
    Taken(String),
    /// The server was removed.
    #[error("the server was removed")]
    Gone,
    /// The server cannot be polled.
    #[error("{0}")]
    Invalid(String),
    /// The history cannot be written.
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

/// Watchlist of a monitor without a cluster. Changes are made one at a time, in the history first and
/// then in the poller. A change completes even if its request is cancelled.
pub struct LocalWatchlist(Arc<Both>);

struct Both {
    history: History,
    poll: Arc<Poller>,
    live: Arc<StateTable>,
    turn: Mutex<()>,
}

impl LocalWatchlist {
    /// Creates the watchlist of a poller.
    pub fn new(history: History, poll: Arc<Poller>, live: Arc<StateTable>) -> Self {
        Self(Arc::new(Both {
            history,
            poll,
            live,
            turn: Mutex::default(),
        }))
    }
}

impl Watchlist for LocalWatchlist {
    fn add_all(
        &self,
        new: Vec<NewServer>,
    ) -> BoxFuture<'_, Result<(), (Option<String>, WatchlistError)>> {
        let both = self.0.clone();
        let work = tokio::spawn(async move { both.add_all(new).await });
        let lost = || {
            (
                None,
                WatchlistError::Failed("the change was interrupted; try again".into()),
            )
        };
        Box::pin(async move { work.await.unwrap_or_else(|_| Err(lost())) })
    }

    fn add(&self, new: NewServer) -> BoxFuture<'_, Result<Server, WatchlistError>> {
        let both = self.0.clone();
        Box::pin(to_the_end(async move { both.add(new).await }))
    }

    fn change(&self, server: Server) -> BoxFuture<'_, Result<(), WatchlistError>> {
        let both = self.0.clone();
        Box::pin(to_the_end(async move { both.change(server).await }))
    }

    fn remove(&self, id: ServerId) -> BoxFuture<'_, Result<bool, WatchlistError>> {
        let both = self.0.clone();
        Box::pin(to_the_end(async move { both.remove(id).await }))
    }
}

impl Both {
    async fn add(&self, new: NewServer) -> Result<Server, WatchlistError> {
        let _turn = self.turn.lock().await;
        let server = self.history.add(&new).await?;
        if let Err(problem) = self.poll.watch(server.clone(), None) {
            self.history.remove(server.id).await?;
            return Err(WatchlistError::Invalid(problem));
        }
        Ok(server)
    }

    async fn add_all(&self, new: Vec<NewServer>) -> Result<(), (Option<String>, WatchlistError)> {
        let _turn = self.turn.lock().await;
        let added = store_all(&self.history, &new).await?;
        // The targets were checked by `store_all`.
        self.poll
            .watch_all(added.into_iter().map(|server| (server, None)));
        Ok(())
    }

    async fn change(&self, server: Server) -> Result<(), WatchlistError> {
        let _turn = self.turn.lock().await;
        self.live.row(server.id).ok_or(WatchlistError::Gone)?;
        server
            .target()
            .map_err(|error| WatchlistError::Invalid(error.to_string()))?;
        self.history.change(&server).await?;
        self.poll
            .watch(server, None)
            .map_err(WatchlistError::Invalid)
    }

    async fn remove(&self, id: ServerId) -> Result<bool, WatchlistError> {
        let _turn = self.turn.lock().await;
        let was_there = self.history.remove(id).await?;
        self.poll.forget(id);
        Ok(was_there)
    }
}

/// Checks servers and stores them in the history.
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

async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, WatchlistError>> + Send + 'static,
) -> Result<T, WatchlistError> {
    tokio::spawn(work).await.unwrap_or_else(|_| {
        Err(WatchlistError::Failed(
            "the change was interrupted; try again".into(),
        ))
    })
}

/// Sends test alerts.
pub trait TestAlert: Send + Sync + 'static {
    /// Configured rules and receivers.
    fn plan(&self) -> &CheckedConfig;

    /// Sends a test alert to the receiver `to`, or to all receivers; returns the result as a sentence.
    /// Should take less than 10 s, the time limit of requests.
    fn send(&self, to: Option<String>) -> BoxFuture<'_, Result<String, TestAlertError>>;
}

/// Reason why a test alert failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TestAlertError {
    /// Unknown receiver.
    #[error("{0}")]
    Unknown(String),
    /// The receiver did not accept it.
    #[error("{0}")]
    Failed(String),
}

/// `POST /api/v1/alerts/test`
pub(super) async fn test_alert(
    State(api): State<Api>,
    _: Writer,
    asked: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let invalid = |errors| Problem::invalid(StatusCode::UNPROCESSABLE_ENTITY, errors);
    let mut to = None;
    for (key, value) in object(&asked, body)? {
        match (&*key, value) {
            ("to", Value::String(name)) => to = Some(name),
            ("to", Value::Null) => {}
            ("to", _) => {
                return Err(invalid(vec![FieldError::new(
                    "to",
                    "must be the name of a receiver or null",
                )]));
            }
            _ => {
                return Err(invalid(vec![FieldError::new(
                    &key,
                    "unknown member; expected to",
                )]));
            }
        }
    }
    let message = api.test_alert(to).await?;
    Ok(Json(json!({ "message": message })).into_response())
}

impl Api {
    /// Returns the configured rules and receivers.
    pub(in crate::web) fn alerts(&self) -> Option<&CheckedConfig> {
        self.0.parts.alerts.as_deref().map(TestAlert::plan)
    }

    /// Sends a test alert if the token is right.
    pub(in crate::web) async fn try_alerts(
        &self,
        asked: &HeaderMap,
        token: &[u8],
        to: Option<String>,
    ) -> Result<String, Problem> {
        self.authorize(asked, Some(token))?;
        self.test_alert(to).await
    }

    async fn test_alert(&self, to: Option<String>) -> Result<String, Problem> {
        let Some(alerts) = &self.0.parts.alerts else {
            let hint = "no alerts are configured; add [[alert]] and [[receiver]] blocks to the configuration";
            return Err(Problem::conflict("no-alerts", hint));
        };
        alerts.send(to).await.map_err(|problem| match problem {
            TestAlertError::Unknown(message) => Problem::invalid(
                StatusCode::UNPROCESSABLE_ENTITY,
                vec![FieldError::new("to", message)],
            ),
            TestAlertError::Failed(message) => Problem::not_delivered(message),
        })
    }
}
