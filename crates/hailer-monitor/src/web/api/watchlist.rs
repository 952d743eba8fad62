//! What the API may do to the monitor, and no more: it owns neither the poller nor the alerts.

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

/// Where servers are added, changed and removed.
pub trait Watchlist: Send + Sync + 'static {
    /// Watches one more from now on.
    fn add(&self, new: NewServer) -> BoxFuture<'_, Result<Server, WatchlistError>>;
    /// Watches many more, all of them or none: those of a plan. An error names the server that it is about, if it knows.
    fn add_all(
        &self,
        new: Vec<NewServer>,
    ) -> BoxFuture<'_, Result<(), (Option<String>, WatchlistError)>>;
    /// Goes on with another description of one that is watched.
    fn change(&self, server: Server) -> BoxFuture<'_, Result<(), WatchlistError>>;
    /// Watches one no more; `false`: it was not watched.
    fn remove(&self, id: ServerId) -> BoxFuture<'_, Result<bool, WatchlistError>>;
}

/// Why the watchlist is as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchlistError {
    /// Another server has this name.
    #[error("another server is called {0}")]
    Taken(String),
    /// It is not watched any more.
    #[error("it is not watched any more")]
    Gone,
    /// It cannot be asked: why.
    #[error("{0}")]
    Invalid(String),
    /// The history cannot be written: why.
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

/// The watchlist of this process: the history first, then the poller, one change after the other. What was begun is ended, even if
/// whoever asked for it has gone meanwhile.
pub struct LocalWatchlist(Arc<Both>);

struct Both {
    history: History,
    poll: Arc<Poller>,
    live: Arc<StateTable>,
    turn: Mutex<()>,
}

impl LocalWatchlist {
    /// The watchlist of this poller.
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
                WatchlistError::Failed("it was not done; try again".into()),
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
        // Each was checked.
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

/// Checks all, and has the history store them.
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
    tokio::spawn(work)
        .await
        .unwrap_or_else(|_| Err(WatchlistError::Failed("it was not done; try again".into())))
}

/// Who sends an alert to see whether it arrives.
pub trait TestAlert: Send + Sync + 'static {
    /// Which alerts there are, and who is told.
    fn plan(&self) -> &CheckedConfig;

    /// Sends one to the target of this name, or to all; returns what came of it, in a sentence. Within some seconds: whoever asked
    /// is told after ten that it took too long.
    fn send(&self, to: Option<String>) -> BoxFuture<'_, Result<String, TestAlertError>>;
}

/// Why no alert arrived.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TestAlertError {
    /// There is no such target: which there are.
    #[error("{0}")]
    Unknown(String),
    /// The target did not take it: why.
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
                    "must be the name of a target of alerts, or null",
                )]));
            }
            _ => {
                return Err(invalid(vec![FieldError::new(
                    &key,
                    "there is no such member; there is: to",
                )]));
            }
        }
    }
    let message = api.test_alert(to).await?;
    Ok(Json(json!({ "message": message })).into_response())
}

impl Api {
    /// What the plan says of alerts.
    pub(in crate::web) fn alerts(&self) -> Option<&CheckedConfig> {
        self.0.parts.alerts.as_deref().map(TestAlert::plan)
    }

    /// Sends a test for whoever knows the token.
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
            let hint = "no alerts are set up; the plan has a place for them, `[[alert]]`";
            return Err(Problem::conflict("no-alerts", hint));
        };
        alerts.send(to).await.map_err(|problem| match problem {
            TestAlertError::Unknown(message) => Problem::invalid(
                StatusCode::UNPROCESSABLE_ENTITY,
                vec![FieldError::new("to", message)],
            ),
            TestAlertError::Failed(message) => Problem::behind(message),
        })
    }
}
