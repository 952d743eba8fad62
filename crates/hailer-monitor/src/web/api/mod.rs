//! HTTP interface for programs: JSON API, badges, widgets, metrics and health.
//!
//! ```text
//! request ─► limit ─┬─► read ──► StateTable, History ──► JSON with an ETag
//! │                                └─► badge, widget, metrics, health
//! └─► write ─► auth ─► Watchlist, TestAlert
//! ```
//!
//! Reading needs no token, writing does. `openapi.json` describes each operation, and the tests
//! check every response against it. Errors follow RFC 9457 (`problem`) and name the invalid field.
//!
//! Limits: 16 KiB for a request body, 500 entries for a page of a list, 12,000 points for a series,
//! one list and two series at a time, request rates per address (default: 100 reads/s and 20
//! writes/s). Addresses come from [`serve`](super::serve); without it, all clients share one rate
//! limit.
//!
//! May import: `crate::alert`, `crate::cached`, `crate::health`, `crate::history`, `crate::lock`,
//! `crate::monitor_health`, `crate::sample`, `crate::server`, `crate::state`, `crate::test_alert`,
//! `crate::watchlist`, `crate::web`, `crate::web::host`, `crate::web::listeners`,
//! `crate::web::show`, `crate::web::tagged`, `hailer`.

mod answer;
mod auth;
mod badge;
mod describe;
mod health;
pub(in crate::web) mod limit;
mod list;
mod metrics;
mod openapi;
mod params;
mod past;
mod problem;
mod servers;
#[cfg(test)]
mod tests;
mod totals_api;
pub mod types;
mod watchlist;
mod widget;

pub use auth::Token;
pub use limit::Rate;

use crate::cached::Cached;
use crate::history::{History, Retention};
use crate::monitor_health::MonitorHealth;
use crate::state::{ServerRow, StateTable};
use crate::test_alert::TestAlert;
use crate::watchlist::Watchlist;
use crate::web::listeners::ListenerLimit;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, header};
use axum::middleware;
use axum::routing::{get, post};
use axum::{Extension, Router};
pub(in crate::web) use problem::Problem;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::Semaphore;
use tower_http::set_header::SetResponseHeaderLayer;

/// Maximum size of a request body, in bytes. The largest valid server takes a quarter of it.
const MAX_BODY_BYTES: usize = 16 << 10;

/// Maximum number of concurrent series queries, so that other requests find a free database
/// connection.
const MAX_SERIES_QUERIES: usize = 2;

/// Configuration of the API.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Token that allows writing; `None`: writing is disabled.
    pub token: Option<Token>,
    /// Host names from which browsers may write, besides addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Whether a proxy on this machine sends the client address in `X-Forwarded-For`. Its last
    /// address counts, if the connection comes from loopback.
    pub is_behind_proxy: bool,
    /// Rate limit of read requests per address.
    pub reads: Rate,
    /// Rate limit of write requests per address, including those with a wrong token.
    pub writes: Rate,
    /// Whether badges are served.
    pub has_badges: bool,
    /// Whether widgets are served.
    pub has_widgets: bool,
    /// Whether names of players are shown, and answers that contain them.
    pub has_player_names: bool,
    /// Number of servers that have their own series in `/metrics`; 0: none.
    pub server_metrics: usize,
    /// The API adds no server beyond this number.
    pub max_servers: usize,
    /// Polling interval of servers without their own.
    pub interval: Duration,
    /// How long each level of the history is kept. Determines the level of a series.
    pub keep: Retention,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            token: None,
            hosts: Vec::new(),
            is_behind_proxy: false,
            reads: Rate {
                per_second: 100,
                burst: 500,
            },
            writes: Rate {
                per_second: 20,
                burst: 100,
            },
            has_badges: true,
            has_widgets: true,
            has_player_names: true,
            server_metrics: 0,
            max_servers: 200_000,
            interval: Duration::from_secs(60),
            keep: Retention::default(),
        }
    }
}

/// Components that the API reads and changes.
pub struct ApiBackend {
    /// Current state of all servers.
    pub live: Arc<StateTable>,
    /// Samples, events and sessions.
    pub history: History,
    /// Adds and removes servers; `None`: this process only reads.
    pub watchlist: Option<Arc<dyn Watchlist>>,
    /// Sends test alerts; `None`: no alerts are configured.
    pub alerts: Option<Arc<dyn TestAlert>>,
    /// Returns the health of the monitor.
    pub health: HealthFn,
}

impl fmt::Debug for ApiBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiBackend").finish_non_exhaustive()
    }
}

/// Returns the current health of the monitor.
pub type HealthFn = Arc<dyn Fn() -> MonitorHealth + Send + Sync>;

/// The API. Clones share their state.
#[derive(Clone)]
pub struct Api(Arc<ApiState>);

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("config", &self.0.config)
            .finish_non_exhaustive()
    }
}

struct ApiState {
    parts: ApiBackend,
    config: ApiConfig,
    limits: limit::Limits,
    /// Limits the number of concurrent scans over all servers; the next member limits that of large
    /// queries of the history.
    lists: Semaphore,
    queries: Semaphore,
    marks: health::CountWindow,
    notice: Cached<Option<String>>,
    rejected: RejectedCounts,
}

/// Number of rejected requests since the start.
#[derive(Default)]
struct RejectedCounts {
    /// Rate limit exceeded.
    rate: AtomicU64,
    /// Missing or wrong token.
    token: AtomicU64,
}

impl Api {
    /// Creates an API.
    pub fn new(parts: ApiBackend, config: ApiConfig) -> Self {
        let limits = limit::Limits::new(config.reads, config.writes);
        Self(Arc::new(ApiState {
            parts,
            config,
            limits,
            lists: Semaphore::new(1),
            queries: Semaphore::new(MAX_SERIES_QUERIES),
            marks: health::CountWindow::default(),
            notice: Cached::default(),
            rejected: RejectedCounts::default(),
        }))
    }

    fn live(&self) -> &Arc<StateTable> {
        &self.0.parts.live
    }

    /// Returns the row of a server, also of one that another node of the cluster has just added.
    pub(in crate::web) async fn named(&self, name: &str) -> Option<ServerRow> {
        if let Some(row) = self.live().named(name) {
            return Some(row);
        }
        let watchlist = self.0.parts.watchlist.as_ref()?;
        let added = watchlist.find(name).await?;
        Some(ServerRow::new(Arc::new(added)))
    }

    /// Lists the servers that other nodes of the cluster have just added.
    pub(in crate::web) async fn catch_up(&self) {
        if let Some(watchlist) = &self.0.parts.watchlist {
            watchlist.catch_up().await;
        }
    }

    fn history(&self) -> &History {
        &self.0.parts.history
    }

    /// Whether badges and widgets are served.
    pub(super) fn for_sites(&self) -> (bool, bool) {
        (self.config().has_badges, self.config().has_widgets)
    }

    /// Polling interval of servers without their own.
    pub(super) fn interval(&self) -> Duration {
        self.config().interval
    }

    pub(super) fn is_behind_proxy(&self) -> bool {
        self.config().is_behind_proxy
    }

    fn config(&self) -> &ApiConfig {
        &self.0.config
    }
}

/// Whether errors at this path are reported as JSON instead of a page.
pub(super) fn is_api_path(path: &str) -> bool {
    let folders = ["/api/", "/badge/", "/widget/", "/schema/"];
    ["/api", "/metrics", "/healthz", "/openapi.json"].contains(&path)
        || folders.iter().any(|folder| path.starts_with(folder))
}

/// Routes for programs, to be merged into the router of the pages. `open`: the limit of event
/// streams, whose usage `/metrics` shows.
pub(super) fn router<S: Clone + Send + Sync + 'static>(
    api: Api,
    open: Arc<ListenerLimit>,
) -> Router<S> {
    let v1 = Router::new()
        .route("/servers", get(servers::list).post(servers::add))
        .route(
            "/servers/{name}",
            get(servers::show).put(servers::put).delete(servers::remove),
        )
        .route("/servers/{name}/answer", get(servers::answer))
        .route("/servers/{name}/series", get(past::series))
        .route("/servers/{name}/events", get(past::events_of))
        .route("/servers/{name}/sessions", get(past::sessions))
        .route("/events", get(past::events))
        .route("/totals", get(totals_api::now))
        .route("/totals/series", get(past::totals))
        .route("/health", get(health::show))
        .route("/alerts/test", post(watchlist::test_alert))
        .fallback(|| async {
            Problem::not_found("unknown path; /openapi.json lists all operations")
        })
        .method_not_allowed_fallback(|| async { Problem::method() });
    Router::new()
        .nest("/api/v1", v1)
        .route("/badge/{file}", get(badge::show))
        .route("/widget/{name}", get(widget::show))
        .route("/metrics", get(metrics::show))
        .route("/healthz", get(health::show))
        .route("/openapi.json", get(openapi::document))
        .route("/schema/answer-v2.json", get(openapi::answer_schema))
        .method_not_allowed_fallback(|| async { Problem::method() })
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(Extension(open))
        .layer(middleware::from_fn_with_state(api.clone(), limit::enforce))
        .layer(SetResponseHeaderLayer::if_not_present(
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ))
        .with_state(api)
}
