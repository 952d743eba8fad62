//! The page: what is watched, how it stands, how it was.
//!
//! ```text
//!   serve ─► guard ─► page: overview, server, events, ─┐                        ┌─► whole pages: complete without a script
//!   bounds   names,     alerts, from StateTable and History ─┴─► templates (askama) ──┤
//!            rates   ─► live ───────────────────────────────────────────────────┴─► the same rows again, as they change
//!                    ─► api: JSON, badges, widgets, metrics
//! ```
//!
//! Everything that a server says is hostile. It reaches a page by one way only, through a template that escapes it, after
//! [`printable`](hailer::proto::model::printable) took what steers the text around it; its colours become classes of a fixed
//! list (`motd`). The policy of [`POLICY`] stands behind that: were there a hole, no script or style would come through it.
//!
//! Nothing is loaded from elsewhere, and nothing is built: three files (`files`) are part of the program.

pub mod api;
mod chart;
mod files;
mod find;
mod guard;
pub(crate) mod index;
mod live;
mod motd;
mod page;
mod serve;
mod show;

pub use serve::{Bounds, serve};

use crate::history::History;
use crate::state::StateTable;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware;
use axum::routing::{get, post};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::{Semaphore, watch};
use tower_http::compression::CompressionLayer;
use tower_http::set_header::SetResponseHeaderLayer;

/// What a browser may do with our pages: show them, and load from us what they name.
pub const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// For an answer to begin.
const PATIENCE: Duration = Duration::from_secs(10);
/// Lists that are made at the same time; others wait.
const TURNS: usize = 4;

/// Tells what is wrong now, in a sentence; `None`: nothing.
pub type Notice = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// What all pages are made from. A clone is the same app.
#[derive(Clone)]
pub struct App {
    /// How things stand.
    pub live: Arc<StateTable>,
    /// How they were.
    pub history: History,
    /// What the page is called.
    pub title: Arc<str>,
    /// Whether names of players are shown, and the bytes that hold them.
    pub shows_players: bool,
    /// What programs ask; `None`: only people are answered.
    pub api: Option<api::Api>,
    /// What is wrong with the monitor itself, for everybody who looks: a history that cannot be written, say. An API knows:
    /// [`Api::notice`](api::Api::notice).
    pub notice: Notice,
    /// Names by which it may be called, beside addresses and `localhost`; `None`: by any. Whoever points a name of theirs at an
    /// address that only their visitors reach would have browsers read it for them.
    pub hosts: Option<Vec<String>>,
    /// Sums over all servers, made now and then.
    totals: Arc<page::totals::Kept>,
    /// Turns to make a list.
    turns: Arc<Semaphore>,
    /// Places for those who watch rows change.
    listeners: Arc<live::ListenerLimit>,
    /// For an answer to begin.
    patience: Duration,
    /// Whether those are to leave.
    closing: Arc<watch::Sender<bool>>,
}

impl App {
    /// An app with the settings that most want.
    pub fn new(live: Arc<StateTable>, history: History) -> Self {
        Self {
            live,
            history,
            title: "Hailer".into(),
            shows_players: true,
            api: None,
            notice: Arc::new(|| None),
            hosts: None,
            totals: Arc::default(),
            turns: Arc::new(Semaphore::new(TURNS)),
            listeners: Arc::default(),
            patience: PATIENCE,
            closing: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Ends all that would go on for as long as a browser likes, so that the HTTP server can stop.
    pub fn close(&self) {
        self.closing.send_replace(true);
    }

    fn now(&self) -> crate::sample::Millis {
        let since = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        since.as_millis().try_into().unwrap_or(i64::MAX)
    }
}

/// All that is served.
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
        .route("/static/{name}", get(files::show))
        .fallback(page::not_found)
        .method_not_allowed_fallback(page::not_allowed)
        .layer(middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
        .layer(CompressionLayer::new())
        .layer(header(header::CONTENT_SECURITY_POLICY, POLICY))
        .layer(header(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(header(header::X_FRAME_OPTIONS, "DENY"))
        // To others nothing; to us a form says where it comes from.
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
        // Pages show what is now, and their look depends on a cookie; what may be kept says so itself.
        .layer(header(header::CACHE_CONTROL, "no-store"))
}
