//! History of one server: charts, events and sessions.
//!
//! In: a query, rows of the history. Out: views for pages.
//!
//! May import: `crate::history`, `crate::sample`, `crate::server`, `crate::state`, `crate::uptime`,
//! `crate::web`, `crate::web::chart`, `crate::web::page::row`, `crate::web::show`, `hailer`.

mod charts;
mod events;
mod query;

pub(crate) use self::events::{EventView, GAP};
pub(crate) use self::query::{HistoryQuery, Order, PlayerOrder, Range};

use self::charts::{ChartData, ChartView};
use self::events::{SessionView, continue_sessions, with_gaps};
use crate::history::{Gap, HistoryError, PlayerSession, page_start};
use crate::sample::{Event, Millis, millis};
use crate::server::ServerId;
use crate::state::find::{SearchTerms, natural};
use crate::web::App;
use crate::web::show;
use compact_str::CompactString;
use std::time::Duration;

/// Maximum number of events and of sessions shown.
const MAX_EVENTS: u32 = 50;

const MAX_SESSIONS: u32 = 100;

/// Maximum number read when they are searched or sorted differently.
const MAX_EVENTS_READ: u32 = 5_000;

const MINUTE: Millis = 60_000;

/// Time limit of the history queries. The page is useful without them.
const HISTORY_TIMEOUT: Duration = Duration::from_secs(4);

/// History of one server.
#[derive(Default)]
pub(crate) struct HistoryView {
    /// Time range of the charts.
    pub(crate) range: Range,
    /// Why nothing can be shown.
    pub(crate) problem: Option<String>,
    /// Start of the recording, if it is later than the start of the charts.
    pub(crate) begins: Option<String>,
    pub(crate) charts: Vec<ChartView>,
    pub(crate) events: Vec<EventView>,
    pub(crate) sessions: Vec<SessionView>,
    /// Whether there are events and sessions, even if the search hides all of them.
    pub(crate) has_events: bool,
    pub(crate) has_sessions: bool,
}

impl HistoryView {
    /// Reads the history. On an error, the page shows a message and the rest. `online`: players
    /// online now.
    pub(crate) async fn of(
        app: &App,
        server: ServerId,
        online: &[CompactString],
        wanted: &HistoryQuery,
        now: Millis,
    ) -> Self {
        let range = wanted.range.unwrap_or_default();
        let range = if range.is_cheap(app) {
            range
        } else {
            Range::Day
        };
        let terms = SearchTerms::of(&wanted.find);
        let read = Self::read(app, server, range, wanted, &terms, now);
        // The log of the monitor has the error; pages are public.
        let Ok(Ok((data, events, gaps, sessions))) =
            tokio::time::timeout(HISTORY_TIMEOUT, read).await
        else {
            let problem =
                "The history cannot be read at the moment. The page shows the current state only.";
            return Self {
                range,
                problem: Some(problem.into()),
                ..Self::default()
            };
        };
        let day_uptime = app
            .live
            .row(server)
            .and_then(|row| row.day.uptime(now))
            .map(f64::from);
        let has_sessions = !sessions.is_empty();
        let mut sessions = continue_sessions(sessions, online, now);
        sessions.retain(|(session, _)| terms.are_in_one_of(&[&session.player]));
        match wanted.order {
            Order::From => {}
            Order::Player => sessions.sort_by(|(a, _), (b, _)| natural(&a.player, &b.player)),
            Order::Played => sessions.sort_by_key(|(session, _)| session.first - session.last),
        }
        Self {
            range: data.range,
            problem: None,
            begins: data.late_start().map(|at| show::time(at, now)),
            charts: data.charts(day_uptime, now),
            events: with_gaps(&events, &gaps, now)
                .filter(|event| terms.are_in_one_of(&[event.what, &event.text.text]))
                .take(MAX_EVENTS as usize)
                .collect(),
            sessions: sessions
                .iter()
                .take(MAX_SESSIONS as usize)
                .map(|(session, is_open)| SessionView::of(session, *is_open, now))
                .collect(),
            has_events: !events.is_empty(),
            has_sessions,
        }
    }

    async fn read(
        app: &App,
        server: ServerId,
        range: Range,
        wanted: &HistoryQuery,
        terms: &SearchTerms,
        now: Millis,
    ) -> Result<(ChartData, Vec<Event>, Vec<Gap>, Vec<PlayerSession>), HistoryError> {
        let events = if terms.is_empty() {
            MAX_EVENTS
        } else {
            MAX_EVENTS_READ
        };
        let sessions = if !app.has_player_names {
            0
        } else if terms.is_empty() && wanted.order == Order::From {
            MAX_SESSIONS
        } else {
            MAX_EVENTS_READ
        };
        let events = async {
            let events = app.history.events(Some(server), now + 1, events).await?;
            let start = page_start(&events, true, Some(server), now);
            let gaps = app.history.gaps(start, now, shortest_interval(app)).await?;
            Ok((events, gaps))
        };
        let (data, (events, gaps), sessions) = tokio::try_join!(
            ChartData::read(app, server, range, wanted.range.is_none(), now),
            events,
            app.history.sessions(server, now + 1, sessions),
        )?;
        Ok((data, events, gaps, sessions))
    }
}

/// Default polling interval, in milliseconds.
fn interval_of(app: &App) -> Millis {
    app.api
        .as_ref()
        .map_or(MINUTE, |api| millis(api.interval()))
}

/// Shortest polling interval of all servers, in milliseconds.
pub(crate) fn shortest_interval(app: &App) -> Millis {
    let usual = interval_of(app);
    let shortest = app
        .live
        .shortest_interval(Duration::from_millis(usual.unsigned_abs()));
    shortest.map_or(usual, millis)
}
