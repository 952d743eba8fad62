//! Events of all servers.

use crate::history::{HistoryError, page_start};
use crate::sample::{Event, Millis, unix_millis};
use crate::state::find::{MAX_SEARCH_CHARS, SearchTerms, directed, natural};
use crate::web::App;
use crate::web::page::overview::SelectOption;
use crate::web::page::past::{EventView, GAP, shortest_interval};
use crate::web::page::{Frame, html};
use askama::Template;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use std::ops::Range;
use std::time::Duration;

/// Number of events per page.
const EVENTS_PER_PAGE: usize = 100;
/// Number of events read per query, and maximum per page. A search for rare events continues on the
/// next page.
const EVENTS_PER_QUERY: u32 = 500;
const MAX_SEARCHED: usize = 5_000;
const HISTORY_TIMEOUT: Duration = Duration::from_secs(5);

/// Orders. By time: all events; else: the newest [`MAX_SEARCHED`].
const SORTS: [(&str, &str); 4] = [
    ("", "newest first"),
    ("time", "oldest first"),
    ("server", "by server"),
    ("kind", "by kind"),
];
/// Keywords of event kinds.
const KINDS: [&str; 10] = [
    "up", "down", "flapping", "steady", "version", "map", "motd", "address", "protocol", GAP,
];

/// `/events?q=TEXT&kind=WORD&sort=WORD`. Start of the page: `before=MILLISECONDS`,
/// `after=MILLISECONDS` or `page=NUMBER`.
pub(crate) async fn show(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let wanted = EventQuery::read(query.as_deref().unwrap_or_default());
    let now = unix_millis();
    let read = tokio::time::timeout(HISTORY_TIMEOUT, wanted.find(&app, now)).await;
    let (found, problem) = match read {
        Ok(Ok(found)) => (found, None),
        _ => (
            EventPage::default(),
            Some("The history cannot be read at the moment."),
        ),
    };
    let kinds = KINDS
        .iter()
        .map(|kind| SelectOption::new(kind, (*kind).to_owned(), wanted.kind));
    let next = found.next.map(|place| {
        EventQuery {
            place: Some(place),
            ..wanted.clone()
        }
        .address()
    });
    let [first, further] = match wanted.sort {
        "" => ["Newest", "Older"],
        "time" => ["Oldest", "Newer"],
        _ => ["First", "Next"],
    };
    let page = EventsPage {
        frame: Frame::new(&app, &headers, wanted.address()),
        sorts: SORTS
            .iter()
            .map(|(word, text)| SelectOption::new(word, (*text).to_owned(), wanted.sort))
            .collect(),
        kinds: [SelectOption::new("", "all kinds".into(), wanted.kind)]
            .into_iter()
            .chain(kinds)
            .collect(),
        events: found.events,
        is_cut: found.is_cut,
        max_searched: MAX_SEARCHED,
        problem,
        first: wanted.place.map(|_| {
            (
                EventQuery {
                    place: None,
                    ..wanted.clone()
                }
                .address(),
                first,
            )
        }),
        next: next.map(|address| (address, further)),
        at: now,
        is_live: wanted.place.is_none() && wanted.sort != "time",
        search: wanted.search,
    };
    html(StatusCode::OK, &page)
}

#[derive(Template)]
#[template(path = "events.html")]
struct EventsPage {
    frame: Frame,
    at: Millis,
    /// Whether new events belong on the page.
    is_live: bool,
    search: String,
    kinds: Vec<SelectOption>,
    sorts: Vec<SelectOption>,
    /// Events with the name of their server; `None`: it was removed.
    events: Vec<(Option<String>, EventView)>,
    /// Whether older events were not sorted.
    is_cut: bool,
    max_searched: usize,
    problem: Option<&'static str>,
    /// URLs and labels of other pages.
    first: Option<(String, &'static str)>,
    next: Option<(String, &'static str)>,
}

/// Parameters of the page.
#[derive(Clone)]
struct EventQuery {
    search: String,
    /// Kind of the events to show; empty: all kinds.
    kind: &'static str,
    /// Order; empty: the newest first.
    sort: &'static str,
    /// Start of the page, see [`EventQuery::cursor`].
    place: Option<i64>,
}

#[derive(Default)]
struct EventPage {
    events: Vec<(Option<String>, EventView)>,
    /// Start of the next page.
    next: Option<i64>,
    /// Times of the first and the last event searched.
    first: Option<Millis>,
    last: Option<Millis>,
    is_cut: bool,
}

impl EventQuery {
    fn read(query: &str) -> Self {
        let mut wanted = Self {
            search: String::new(),
            kind: "",
            sort: "",
            place: None,
        };
        let mut places = Vec::new();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "q" => wanted.search = value.trim().chars().take(MAX_SEARCH_CHARS).collect(),
                "kind" => {
                    wanted.kind = KINDS
                        .into_iter()
                        .find(|kind| *kind == value)
                        .unwrap_or_default();
                }
                "sort" => {
                    wanted.sort = SORTS
                        .iter()
                        .find(|(word, _)| *word == value)
                        .map_or("", |(word, _)| word);
                }
                _ => places.extend(value.parse().ok().map(|place: i64| (key, place))),
            }
        }
        wanted.place = places
            .iter()
            .find(|(key, _)| key == wanted.cursor())
            .map(|(_, place)| *place);
        wanted
    }

    /// Name of the parameter that contains the start of the page.
    fn cursor(&self) -> &'static str {
        match self.sort {
            "" => "before",
            "time" => "after",
            _ => "page",
        }
    }

    fn address(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (key, value) in [
            ("q", self.search.as_str()),
            ("kind", self.kind),
            ("sort", self.sort),
        ] {
            if !value.is_empty() {
                query.append_pair(key, value);
            }
        }
        if let Some(place) = self.place {
            query.append_pair(self.cursor(), &place.to_string());
        }
        let query = query.finish();
        if query.is_empty() {
            "/events".into()
        } else {
            format!("/events?{query}")
        }
    }

    async fn find(&self, app: &App, now: Millis) -> Result<EventPage, HistoryError> {
        if !matches!(self.sort, "" | "time") {
            return self.in_order(app, now).await;
        }
        let mut found = self.by_time(app, now).await?;
        let is_ascending = self.sort == "time";
        let span = if is_ascending {
            let first = found
                .first
                .unwrap_or(now)
                .min(page_start(&[], true, None, now));
            let from = self.place.map_or(first, |place| place + 1);
            from..found.next.map_or(now, |next| next + 1)
        } else {
            let last = found
                .last
                .unwrap_or(now)
                .min(page_start(&[], true, None, now));
            found.next.unwrap_or(last)..self.place.unwrap_or(now)
        };
        for gap in self.gaps(app, span, now).await? {
            let place = found.events.partition_point(|(_, event)| {
                if is_ascending {
                    event.at_ms <= gap.at_ms
                } else {
                    event.at_ms > gap.at_ms
                }
            });
            found.events.insert(place, (None, gap));
        }
        Ok(found)
    }

    /// Returns the gaps that began in a time, unless the list has something else only.
    async fn gaps(
        &self,
        app: &App,
        span: Range<Millis>,
        now: Millis,
    ) -> Result<Vec<EventView>, HistoryError> {
        if !self.search.is_empty() || !["", GAP].contains(&self.kind) {
            return Ok(Vec::new());
        }
        let to = span.end.min(now);
        let gaps = app.history.gaps(span.start, to, shortest_interval(app));
        let views = gaps.await?.into_iter();
        Ok(views.map(|gap| EventView::of_gap(gap, now)).collect())
    }

    /// Finds the events of a page that is sorted by time.
    async fn by_time(&self, app: &App, now: Millis) -> Result<EventPage, HistoryError> {
        let words = SearchTerms::of(&self.search);
        let is_ascending = self.sort == "time";
        let mut place = self.place.unwrap_or(if is_ascending {
            Millis::MIN
        } else {
            Millis::MAX
        });
        let mut found = EventPage::default();
        let mut seen = 0;
        loop {
            let events: Vec<Event> = if is_ascending {
                app.history.events_after(place, EVENTS_PER_QUERY).await?
            } else {
                app.history.events(None, place, EVENTS_PER_QUERY).await?
            };
            for event in &events {
                // Keep events of the same time on one page, else the next page would miss some.
                if found.events.len() >= EVENTS_PER_PAGE && event.at != place {
                    found.next = Some(place);
                    return Ok(found);
                }
                place = event.at;
                found.first = found.first.or(Some(place));
                found.last = Some(place);
                found.events.extend(self.fits(&words, app, event, now));
            }
            seen += events.len();
            if events.len() < EVENTS_PER_QUERY as usize {
                return Ok(found);
            }
            if seen >= MAX_SEARCHED {
                found.next = Some(place);
                return Ok(found);
            }
        }
    }

    /// Sorts the newest events by server or kind.
    async fn in_order(&self, app: &App, now: Millis) -> Result<EventPage, HistoryError> {
        let words = SearchTerms::of(&self.search);
        let events = app
            .history
            .events(None, Millis::MAX, MAX_SEARCHED as u32)
            .await?;
        let mut fitting: Vec<_> = events
            .iter()
            .filter_map(|event| self.fits(&words, app, event, now))
            .collect();
        match self.sort {
            "server" => fitting
                .sort_by(|(a, _), (b, _)| directed(false, a.as_deref(), b.as_deref(), natural)),
            _ => {
                fitting.sort_by_key(|(_, event)| KINDS.iter().position(|kind| *kind == event.word));
            }
        }
        // Gaps have no server, and are the last kind.
        let start = page_start(&events, events.len() < MAX_SEARCHED, None, now);
        let gaps = self.gaps(app, start..now, now).await?;
        fitting.extend(gaps.into_iter().map(|gap| (None, gap)));
        let page = usize::try_from(self.place.unwrap_or_default()).unwrap_or_default();
        let begin = page.saturating_mul(EVENTS_PER_PAGE).min(fitting.len());
        let mut shown = fitting.split_off(begin);
        let next = (shown.len() > EVENTS_PER_PAGE).then_some(page as i64 + 1);
        shown.truncate(EVENTS_PER_PAGE);
        Ok(EventPage {
            events: shown,
            next,
            is_cut: events.len() >= MAX_SEARCHED,
            ..EventPage::default()
        })
    }

    /// Returns an event with the name of its server, if it matches.
    fn fits(
        &self,
        words: &SearchTerms,
        app: &App,
        event: &Event,
        now: Millis,
    ) -> Option<(Option<String>, EventView)> {
        if !self.kind.is_empty() && event.kind.word() != self.kind {
            return None;
        }
        let name = app
            .live
            .row(event.server)
            .map(|row| row.server.name.clone());
        let view = EventView::of(event, now);
        words
            .are_in_one_of(&[name.as_deref().unwrap_or_default(), &view.text.text])
            .then_some((name, view))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::EventKind;

    #[test]
    fn every_kind_can_be_chosen() {
        let difference = crate::sample::ValueChange {
            from: None,
            to: None,
        };
        let kinds = [
            EventKind::Up,
            EventKind::Down {
                reason: String::new(),
            },
            EventKind::Flapping,
            EventKind::Steady,
            EventKind::Version(difference.clone()),
            EventKind::Map(difference.clone()),
            EventKind::Motd(difference.clone()),
            EventKind::Address(difference.clone()),
            EventKind::Protocol(difference),
        ];
        let words = kinds.map(|kind| kind.word());
        assert_eq!([words.as_slice(), &[GAP]].concat(), KINDS);
        assert_eq!(EventQuery::read("kind=none&before=x").address(), "/events");
        assert_eq!(
            EventQuery::read("before=7&kind=up&sort=kind&q=+a+").address(),
            "/events?q=a&kind=up&sort=kind",
            "there are pages by number"
        );
        for address in [
            "/events?before=7",
            "/events?sort=time&after=7",
            "/events?q=a&kind=up&sort=kind&page=7",
        ] {
            assert_eq!(
                EventQuery::read(address.split_once('?').unwrap().1).address(),
                address
            );
        }
    }
}
