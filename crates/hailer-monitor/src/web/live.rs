//! Server-sent events: changes of rows for open pages.
//!
//! A page lists the rows that it shows. It receives those that changed, at most once per second,
//! rendered by the same template as the page. Nothing is queued: slow clients receive the current
//! state instead of each change.

use crate::sample::{Millis, unix_millis};
use crate::server::ServerId;
use crate::state::Update;
use crate::web::App;
use crate::web::api::Api;
use crate::web::api::limit::{client_ip, network};
use crate::web::listeners::ListenerPermit;
use crate::web::page::filter::PAGE;
use crate::web::page::row::RowView;
use crate::web::page::{self, total_tiles::TotalsView};
use askama::Template;
use axum::extract::{Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use std::borrow::Cow;
use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Minimum time between two events of a stream.
const EVENT_INTERVAL: Duration = Duration::from_secs(1);
/// How often a stream checks the health of the monitor.
const HEALTH_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// Time for a poll, its sample and the page to arrive, in milliseconds: changes of this time are
/// sent again.
const MAX_WRITE_DELAY_MS: Millis = 15_000;
/// Interval of comments that keep proxies from closing the connection.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Delay before a browser reconnects.
const RECONNECT_DELAY: Duration = Duration::from_secs(3);

/// `/live/rows?ids=1,2,3&since=MILLISECONDS`: event `rows` with changed rows; event `list` when
/// servers were added or removed.
pub(super) async fn rows(State(app): State<App>, request: Parts) -> Response {
    let ids = value(&request, "ids").unwrap_or_default();
    let ids: HashSet<ServerId> = ids
        .split(',')
        .filter_map(|id| id.parse().ok())
        .map(ServerId)
        .take(PAGE)
        .collect();
    // Subscribe first, then look for changes since the page was rendered.
    let updates = app.live.listen();
    let since = since(&request).map(|since| since.saturating_sub(MAX_WRITE_DELAY_MS));
    let is_new = |id: &&ServerId| {
        let last = app.live.row(**id).and_then(|row| row.last_sample);
        since.is_some_and(|since| last.is_some_and(|last| last.at >= since))
    };
    let changed = ids.iter().filter(is_new).copied().collect();
    watch(&app, &request, updates, ids, changed, StreamKind::Rows)
}

/// `/live/server/{name}?since=MILLISECONDS`: event `changed` when there is a newer sample than that
/// of `since`.
pub(super) async fn server(
    State(app): State<App>,
    Path(name): Path<String>,
    request: Parts,
) -> Response {
    let updates = app.live.listen();
    match app.named(&name).await {
        Some(row) => {
            let ids = HashSet::from([row.server.id]);
            let is_new = since(&request)
                .is_some_and(|since| row.last_sample.is_some_and(|last| last.at != since));
            let changed = if is_new { ids.clone() } else { HashSet::new() };
            watch(&app, &request, updates, ids, changed, StreamKind::Word)
        }
        None => page::error(
            &app,
            &request.headers,
            StatusCode::NOT_FOUND,
            "There is no server with this name.",
        ),
    }
}

/// `/live/events?since=MILLISECONDS`: event `changed` when a server has a new event.
pub(super) async fn events(State(app): State<App>, request: Parts) -> Response {
    let updates = app.live.listen();
    let since = since(&request).map(|since| since.saturating_sub(MAX_WRITE_DELAY_MS));
    let is_new = since.is_some_and(|since| app.live.happened().is_some_and(|at| at >= since));
    watch(
        &app,
        &request,
        updates,
        HashSet::new(),
        HashSet::new(),
        StreamKind::Events { is_new },
    )
}

/// Returns a query parameter.
fn value<'a>(request: &'a Parts, key: &str) -> Option<Cow<'a, str>> {
    let query = request.uri.query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes())
        .find(|(name, _)| name == key)
        .map(|(_, value)| value)
}

/// Returns the time of the page, in Unix milliseconds.
fn since(request: &Parts) -> Option<Millis> {
    value(request, "since")?.parse().ok()
}

fn watch(
    app: &App,
    request: &Parts,
    updates: broadcast::Receiver<Arc<Update>>,
    ids: HashSet<ServerId>,
    changed: HashSet<ServerId>,
    kind: StreamKind,
) -> Response {
    let is_behind_proxy = app.api.as_ref().is_some_and(Api::is_behind_proxy);
    let who = client_ip(&request.extensions, &request.headers, is_behind_proxy);
    let Some(place) = app.listeners.take(network(who)) else {
        let text = "Too many pages are open. This one does not update by itself; reload it.";
        let mut answer = page::error(app, &request.headers, StatusCode::SERVICE_UNAVAILABLE, text);
        answer
            .headers_mut()
            .insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
        return answer;
    };
    let mut pace = interval(EVENT_INTERVAL);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut health_checks = interval(HEALTH_CHECK_INTERVAL);
    health_checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let listener = Listener {
        updates,
        closing: app.closing.subscribe(),
        app: app.clone(),
        ids,
        changed,
        has_list_changed: false,
        has_other_changes: matches!(kind, StreamKind::Events { is_new: true }),
        kind,
        totals: String::new(),
        notice: page::notice(app),
        pace,
        health_checks,
        _place: place,
    };
    let hello = Event::default().comment("hello").retry(RECONNECT_DELAY);
    let events = stream::unfold(
        (listener, Some(hello)),
        |(mut listener, hello)| async move {
            let event = match hello {
                Some(hello) => hello,
                None => listener.next().await?,
            };
            Some((Ok::<_, Infallible>(event), (listener, None)))
        },
    );
    let mut answer = Sse::new(events)
        .keep_alive(KeepAlive::new().interval(KEEPALIVE_INTERVAL))
        .into_response();
    // Disables buffering in nginx, which would hold back events.
    answer
        .headers_mut()
        .insert("x-accel-buffering", HeaderValue::from_static("no"));
    answer
}

/// Kind of a stream.
enum StreamKind {
    /// Changed rows and totals.
    Rows,
    /// `changed` when one of the rows changed.
    Word,
    /// `changed` when there is any event.
    Events {
        /// Whether there was an event since the page was rendered.
        is_new: bool,
    },
}

/// One open stream.
struct Listener {
    app: App,
    updates: broadcast::Receiver<Arc<Update>>,
    closing: watch::Receiver<bool>,
    ids: HashSet<ServerId>,
    kind: StreamKind,
    /// Rows of the page that changed since the last event.
    changed: HashSet<ServerId>,
    has_list_changed: bool,
    /// Whether something other than a row may have changed.
    has_other_changes: bool,
    /// Totals as last sent, as HTML.
    totals: String,
    notice: String,
    pace: Interval,
    health_checks: Interval,
    _place: ListenerPermit,
}

/// Data of the event `rows`.
#[derive(Serialize)]
struct Rows {
    rows: Vec<Changed>,
    /// Totals as HTML, if they changed.
    totals: Option<String>,
    /// Notice as HTML, if it changed.
    notice: Option<String>,
}

#[derive(Serialize)]
struct Changed {
    id: i64,
    html: String,
}

impl Listener {
    /// Returns the next event; `None`: the stream ends.
    async fn next(&mut self) -> Option<Event> {
        loop {
            let has_news =
                self.has_list_changed || self.has_other_changes || !self.changed.is_empty();
            tokio::select! {
                () = async { drop(self.closing.wait_for(|is_closing| *is_closing).await) } => return None,
                update = self.updates.recv() => match update {
                    Ok(update) => self.note(&update),
                    Err(RecvError::Lagged(_)) => {
                        self.changed.extend(&self.ids);
                        self.has_other_changes = true;
                    }
                    Err(RecvError::Closed) => return None,
                },
                // Sends the notice even if no samples arrive.
                _ = self.health_checks.tick() => self.has_other_changes |= page::notice(&self.app) != self.notice,
                _ = self.pace.tick(), if has_news => {
                    if let Some(event) = self.event() {
                        return Some(event);
                    }
                }
            }
        }
    }

    fn note(&mut self, update: &Update) {
        self.changed
            .extend(update.servers.iter().filter(|id| self.ids.contains(id)));
        self.has_list_changed |= update.has_list_changed;
        self.has_other_changes |= match self.kind {
            StreamKind::Rows => true,
            StreamKind::Word => false,
            StreamKind::Events { .. } => !update.events.is_empty(),
        };
    }

    /// Returns what changed; `None`: nothing visible.
    fn event(&mut self) -> Option<Event> {
        let changed = std::mem::take(&mut self.changed);
        let has_other_changes = std::mem::take(&mut self.has_other_changes);
        if std::mem::take(&mut self.has_list_changed) {
            return Some(Event::default().event("list").data("again"));
        }
        if let StreamKind::Word | StreamKind::Events { .. } = self.kind {
            let notice = page::notice(&self.app);
            let is_other = has_other_changes || !changed.is_empty() || notice != self.notice;
            self.notice = notice;
            return is_other.then(|| Event::default().event("changed").data("again"));
        }
        let now = unix_millis();
        let rows = changed.into_iter().filter_map(|id| self.app.live.row(id));
        let rows: Vec<Changed> = rows
            .filter_map(|row| {
                Some(Changed {
                    id: row.server.id.0,
                    html: RowView::of(&row, now).render().ok()?,
                })
            })
            .collect();
        let totals = TotalsView::of(&self.app.live.totals()).render().ok()?;
        let has_new_totals = totals != self.totals;
        self.totals.clone_from(&totals);
        let totals = has_new_totals.then_some(totals);
        let notice = page::notice(&self.app);
        let is_other_notice = notice != self.notice;
        self.notice.clone_from(&notice);
        let notice = is_other_notice.then_some(notice);
        if rows.is_empty() && totals.is_none() && notice.is_none() {
            return None;
        }
        Some(
            Event::default().event("rows").data(
                serde_json::to_string(&Rows {
                    rows,
                    totals,
                    notice,
                })
                .ok()?,
            ),
        )
    }
}
