//! For programs: the JSON API, badges, widgets, metrics, health.
//!
//! ```text
//!   asked ─► limit ─┬─► read ──► StateTable, History ──► JSON with an ETag
//!                   │                          └─► badge, widget, metrics, health
//!                   └─► write ─► auth ─► Watchlist, TestAlert
//! ```
//!
//! All may read, so many times a second; whoever knows the token may write. `openapi.json` describes each operation,
//! and the tests hold every answer against it. What goes wrong is said as RFC 9457 has it (`problem`), with the field at fault.
//!
//! [`serve`](super::serve) tells who asks: without it all clients share one limit.

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
mod totals;
mod watchlist;
mod widget;

pub use auth::Token;
pub use health::{HistoryHealth, MonitorHealth};
pub use limit::Rate;
pub(crate) use watchlist::store_all;
pub use watchlist::{LocalWatchlist, TestAlert, TestAlertError, Watchlist, WatchlistError};

use crate::history::{History, Retention};
use crate::state::StateTable;
use crate::web::live::ListenerLimit;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderValue, header};
use axum::middleware;
use axum::routing::{get, post};
use axum::{Extension, Router};
pub(in crate::web) use problem::Problem;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::Semaphore;
use tower_http::set_header::SetResponseHeaderLayer;

/// Bytes of a body: a server with all its labels takes a quarter.
const MAX_BODY_BYTES: usize = 16 << 10;

/// Series that are read at the same time. The history has some connections, and others want them as well.
const MAX_SERIES_QUERIES: usize = 2;

/// What may be set.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// Who knows it may write; `None`: nobody may.
    pub token: Option<Token>,
    /// Host names under which the pages of a browser may write, beside addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Clients are told apart by the last address of `X-Forwarded-For`, if it comes from loopback: a proxy stands in front.
    pub is_behind_proxy: bool,
    /// Reads of one address.
    pub reads: Rate,
    /// Writes of one address, tries with a wrong token included.
    pub writes: Rate,
    /// Whether there are badges.
    pub badges: bool,
    /// Whether other sites may show widgets.
    pub widgets: bool,
    /// Whether names of players are told, and the answers that have them.
    pub shows_players: bool,
    /// So many servers have gauges of their own in `/metrics`; 0: none.
    pub server_metrics: usize,
    /// The API adds none beyond so many.
    pub max_servers: usize,
    /// How often servers are asked that have no interval of their own.
    pub interval: Duration,
    /// How long the history is kept: which level a series is made of.
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
            badges: true,
            widgets: true,
            shows_players: true,
            server_metrics: 0,
            max_servers: 200_000,
            interval: Duration::from_secs(60),
            keep: Retention::default(),
        }
    }
}

/// What the API stands on.
pub struct ApiBackend {
    /// How things stand.
    pub live: Arc<StateTable>,
    /// How they were.
    pub history: History,
    /// Where servers are added and removed; `None`: this process only shows.
    pub watchlist: Option<Arc<dyn Watchlist>>,
    /// Who sends alerts to try them; `None`: no alerts are set up.
    pub alerts: Option<Arc<dyn TestAlert>>,
    /// How the monitor itself is.
    pub look: HealthFn,
}

/// How the monitor itself is, now.
pub type HealthFn = Arc<dyn Fn() -> MonitorHealth + Send + Sync>;

/// The API. A clone is the same one.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

struct Inner {
    parts: ApiBackend,
    settings: ApiConfig,
    limits: limit::Limits,
    /// Turns of those who go through all servers, and of those who ask the history for much.
    lists: Semaphore,
    queries: Semaphore,
    totals: totals::Kept,
    marks: health::CountWindow,
    notice: health::CachedNotice,
    refused: RejectedCounts,
}

/// What was refused so far.
#[derive(Default)]
struct RejectedCounts {
    /// Too many requests.
    rate: AtomicU64,
    /// No token, or a wrong one.
    token: AtomicU64,
}

impl Api {
    /// An API.
    pub fn new(parts: ApiBackend, settings: ApiConfig) -> Self {
        let limits = limit::Limits::new(settings.reads, settings.writes);
        Self(Arc::new(Inner {
            parts,
            settings,
            limits,
            lists: Semaphore::new(1),
            queries: Semaphore::new(MAX_SERIES_QUERIES),
            totals: totals::Kept::default(),
            marks: health::CountWindow::default(),
            notice: health::CachedNotice::default(),
            refused: RejectedCounts::default(),
        }))
    }

    fn live(&self) -> &Arc<StateTable> {
        &self.0.parts.live
    }

    fn history(&self) -> &History {
        &self.0.parts.history
    }

    /// Whether there are badges, and widgets.
    pub(super) fn for_sites(&self) -> (bool, bool) {
        (self.settings().badges, self.settings().widgets)
    }

    /// How often servers are asked that have no interval of their own.
    pub(super) fn interval(&self) -> Duration {
        self.settings().interval
    }

    pub(super) fn is_behind_proxy(&self) -> bool {
        self.settings().is_behind_proxy
    }

    fn settings(&self) -> &ApiConfig {
        &self.0.settings
    }
}

/// Whether an address is for programs, which are told in JSON what went wrong.
pub(super) fn is_for_programs(path: &str) -> bool {
    let folders = ["/api/", "/badge/", "/widget/", "/schema/"];
    ["/api", "/metrics", "/healthz", "/openapi.json"].contains(&path)
        || folders.iter().any(|it| path.starts_with(it))
}

/// All addresses that are for programs, to be merged into the router of the page. `open`: who watches rows change.
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
        .route("/totals", get(totals::now))
        .route("/totals/series", get(past::totals))
        .route("/health", get(health::show))
        .route("/alerts/test", post(watchlist::test_alert))
        .fallback(|| async {
            Problem::not_found(
                "there is nothing at this address; /openapi.json lists what there is",
            )
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
