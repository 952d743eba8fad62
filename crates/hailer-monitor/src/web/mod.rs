//! Web interface: pages, event streams, and the API for programs.
//!
//! ```text
//! serve ─► guard ─► page: overview, server, events, alerts ─► templates ─► complete pages, usable without a script
//! limits   host     live: changed rows as server-sent events
//! rate     api: JSON, badges, widgets, metrics
//! ```
//!
//! Texts of servers are untrusted. They reach a page only through a template that escapes them,
//! after [`printable`](hailer::proto::model::printable) removed control characters; their colors
//! become classes of a fixed list (`motd`). As a second line of defense, [`POLICY`] forbids other
//! scripts and styles.
//!
//! Pages load nothing from other sites. The three static files (`files`) are embedded in the
//! program.
//!
//! May import: `crate::alert`, `crate::cached`, `crate::health`, `crate::history`, `crate::icon`,
//! `crate::lock`, `crate::monitor_health`, `crate::sample`, `crate::server`, `crate::state`,
//! `crate::test_alert`, `crate::uptime`, `crate::watchlist`, `hailer`.

pub mod api;
mod chart;
mod guard;
mod host;
mod icon;
mod listeners;
mod live;
mod motd;
mod page;
mod serve;
mod show;
mod tagged;

pub use serve::{LIMITS, serve};

use crate::history::History;
use crate::state::{ServerRow, StateTable};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware;
use axum::routing::{get, post};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tower_http::compression::CompressionLayer;
use tower_http::set_header::SetResponseHeaderLayer;

/// Content security policy of the pages.
pub const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Maximum time until a response begins.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of lists created at the same time.
const MAX_CONCURRENT_LISTS: usize = 4;

/// Returns a sentence about a current problem; `None`: no problem.
pub type Notice = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// State shared by all pages. Clones share it too.
#[derive(Clone)]
pub struct App {
    /// Current state of all servers.
    pub live: Arc<StateTable>,
    /// Samples, events and sessions.
    pub history: History,
    /// Title of the site.
    pub title: Arc<str>,
    /// Whether names of players, and datagrams that contain them, are shown.
    pub has_player_names: bool,
    /// API for programs; `None`: pages only.
    pub api: Option<api::Api>,
    /// Returns the problem of the monitor that all pages show, see
    /// [`Api::notice`](api::Api::notice).
    pub notice: Notice,
    /// Host names accepted besides addresses and `localhost`; `None`: any. Protects against DNS
    /// rebinding.
    pub hosts: Option<Vec<String>>,
    /// Limits the number of lists created at the same time.
    turns: Arc<Semaphore>,
    /// Limits the number of event streams.
    listeners: Arc<listeners::ListenerLimit>,
    /// Maximum time until a response begins.
    timeout: Duration,
    /// Tells event streams to end.
    closing: Arc<watch::Sender<bool>>,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("title", &self.title)
            .finish_non_exhaustive()
    }
}

impl App {
    /// Creates an app with the default configuration.
    pub fn new(live: Arc<StateTable>, history: History) -> Self {
        Self {
            live,
            history,
            title: "Hailer".into(),
            has_player_names: true,
            api: None,
            notice: Arc::new(|| None),
            hosts: None,
            turns: Arc::new(Semaphore::new(MAX_CONCURRENT_LISTS)),
            listeners: Arc::default(),
            timeout: RESPONSE_TIMEOUT,
            closing: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Ends event streams, so that the HTTP server can stop.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    /// Returns the row of a server, also of one that another node of the cluster has just added.
    async fn named(&self, name: &str) -> Option<ServerRow> {
        match &self.api {
            Some(api) => api.named(name).await,
            None => self.live.named(name),
        }
    }
}

/// Returns all routes.
pub fn router(app: App) -> Router {
    let header = |name: HeaderName, value: &'static str| {
        SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
    };
    let api = app
        .api
        .clone()
        .map(|api| api::router(api, app.listeners.clone()))
        .unwrap_or_default();
    Router::new()
        .merge(api)
        .route("/", get(page::overview::show))
        .route("/server/{name}", get(page::server::show))
        .route("/events", get(page::events::show))
        .route("/alerts", get(page::alerts::show))
        .route(
            "/alerts/test",
            post(page::alerts::test).layer(DefaultBodyLimit::max(page::alerts::MAX_FORM_BYTES)),
        )
        .route("/theme", get(page::theme))
        .route("/live/rows", get(live::rows))
        .route("/live/server/{name}", get(live::server))
        .route("/live/events", get(live::events))
        .route("/static/{name}", get(page::files::show))
        .route("/icon/{name}", get(icon::show))
        .fallback(page::not_found)
        .method_not_allowed_fallback(page::not_allowed)
        .layer(middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
        .layer(CompressionLayer::new())
        .layer(header(header::CONTENT_SECURITY_POLICY, POLICY))
        .layer(header(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(header(header::X_FRAME_OPTIONS, "DENY"))
        // Send the referrer to our own forms only.
        .layer(header(header::REFERRER_POLICY, "same-origin"))
        .layer(header(
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ))
        .layer(header(
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ))
        .layer(header(
            HeaderName::from_static("permissions-policy"),
            "camera=(), geolocation=(), microphone=()",
        ))
        // Pages show current data and depend on a cookie. Cacheable responses set their own header.
        .layer(header(header::CACHE_CONTROL, "no-store"))
}
