//! What happened to all servers, the newest first.

use crate::history::HistoryError;
use crate::sample::{Event, Millis};
use crate::web::App;
use crate::web::find::{LONGEST_SEARCH, Words, directed, natural};
use crate::web::page::overview::Choice;
use crate::web::page::past::EventView;
use crate::web::page::{Frame, html};
use askama::Template;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use std::time::Duration;

/// Events of one page.
const PAGE: usize = 100;
/// Events read at once, and for one page at the most: who looks for something rare gets a page that goes on further back.
const READ: u32 = 500;
const LOOKED_THROUGH: usize = 5_000;
const PATIENCE: Duration = Duration::from_secs(5);

/// Orders of the events of a page.
const SORTS: [(&str, &str); 4] =
    [("", "newest first"), ("time", "oldest first"), ("server", "by server"), ("kind", "by kind")];
/// Words of kinds of events.
const KINDS: [&str; 8] = ["up", "down", "flapping", "steady", "version", "map", "motd", "address"];

/// `/events?q=TEXT&kind=WORD&before=MILLISECONDS`
pub(crate) async fn show(State(app): State<App>, RawQuery(query): RawQuery, asked: HeaderMap) -> Response {
    let wanted = Wanted::read(query.as_deref().unwrap_or_default());
    let now = app.now();
    let read = tokio::time::timeout(PATIENCE, wanted.find(&app, now)).await;
    let (found, problem) = match read {
        Ok(Ok(found)) => (found, None),
        _ => (Found::default(), Some("The history cannot be read now.")),
    };
    let kinds = KINDS.iter().map(|kind| Choice::new(kind, (*kind).to_owned(), wanted.kind));
    let mut found = found;
    match wanted.sort {
        "time" => found.events.reverse(),
        "server" => found.events.sort_by(|(a, _), (b, _)| directed(false, a.as_deref(), b.as_deref(), natural)),
        "kind" => found.events.sort_by_key(|(_, event)| KINDS.iter().position(|kind| *kind == event.word)),
        _ => {}
    }
    let next = found.next.map(|before| Wanted { before: Some(before), ..wanted.clone() }.address());
    let page = Events {
        frame: Frame::new(&app, &asked, wanted.address()),
        sorts: SORTS.iter().map(|(word, text)| Choice::new(word, (*text).to_owned(), wanted.sort)).collect(),
        kinds: [Choice::new("", "all kinds".into(), wanted.kind)].into_iter().chain(kinds).collect(),
        events: found.events,
        problem,
        newest: wanted.before.map(|_| Wanted { before: None, ..wanted.clone() }.address()),
        next,
        search: wanted.search,
    };
    html(StatusCode::OK, &page)
}

#[derive(Template)]
#[template(path = "events.html")]
struct Events {
    frame: Frame,
    search: String,
    kinds: Vec<Choice>,
    sorts: Vec<Choice>,
    /// Of a server that is watched no more, no name is known.
    events: Vec<(Option<String>, EventView)>,
    problem: Option<&'static str>,
    newest: Option<String>,
    next: Option<String>,
}

/// What is looked for.
#[derive(Clone)]
struct Wanted {
    search: String,
    /// Empty: all.
    kind: &'static str,
    /// What the events of a page are ordered by; empty: the newest first.
    sort: &'static str,
    before: Option<Millis>,
}

#[derive(Default)]
struct Found {
    events: Vec<(Option<String>, EventView)>,
    /// Before when it goes on.
    next: Option<Millis>,
}

impl Wanted {
    fn read(query: &str) -> Self {
        let mut wanted = Self { search: String::new(), kind: "", sort: "", before: None };
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "q" => wanted.search = value.trim().chars().take(LONGEST_SEARCH).collect(),
                "kind" => wanted.kind = KINDS.into_iter().find(|kind| *kind == value).unwrap_or_default(),
                "sort" => wanted.sort = SORTS.iter().find(|(word, _)| *word == value).map_or("", |(word, _)| word),
                "before" => wanted.before = value.parse().ok(),
                _ => {}
            }
        }
        wanted
    }

    fn address(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (key, value) in [("q", self.search.as_str()), ("kind", self.kind), ("sort", self.sort)] {
            if !value.is_empty() {
                query.append_pair(key, value);
            }
        }
        if let Some(before) = self.before {
            query.append_pair("before", &before.to_string());
        }
        let query = query.finish();
        if query.is_empty() { "/events".into() } else { format!("/events?{query}") }
    }

    async fn find(&self, app: &App, now: Millis) -> Result<Found, HistoryError> {
        let words = Words::of(&self.search);
        let mut before = self.before.unwrap_or(Millis::MAX);
        let mut found = Found::default();
        let mut seen = 0;
        loop {
            let events: Vec<Event> = app.history.events(None, before, READ).await?;
            for event in &events {
                // Those of the same time belong to one page, or the next would leave some out.
                if found.events.len() >= PAGE && event.at != before {
                    found.next = Some(before);
                    return Ok(found);
                }
                before = event.at;
                if !self.kind.is_empty() && event.kind.word() != self.kind {
                    continue;
                }
                let name = app.live.row(event.server).map(|row| row.server.name.clone());
                let view = EventView::of(event, now);
                if words.are_in_one_of(&[name.as_deref().unwrap_or_default(), &view.text.text]) {
                    found.events.push((name, view));
                }
            }
            seen += events.len();
            if events.len() < READ as usize {
                return Ok(found);
            }
            if seen >= LOOKED_THROUGH {
                found.next = Some(before);
                return Ok(found);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::EventKind;

    #[test]
    fn every_kind_can_be_chosen() {
        let difference = crate::sample::Difference { from: None, to: None };
        let kinds = [
            EventKind::Up,
            EventKind::Down { reason: String::new() },
            EventKind::Flapping,
            EventKind::Steady,
            EventKind::Version(difference.clone()),
            EventKind::Map(difference.clone()),
            EventKind::Motd(difference.clone()),
            EventKind::Address(difference),
        ];
        assert_eq!(kinds.map(|kind| kind.word()), KINDS);
        assert_eq!(Wanted::read("kind=none&before=x").address(), "/events");
        assert_eq!(
            Wanted::read("before=7&kind=up&sort=kind&q=+a+").address(),
            "/events?q=a&kind=up&sort=kind&before=7"
        );
    }
}
