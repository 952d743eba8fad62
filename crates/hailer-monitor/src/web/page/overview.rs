//! Overview: totals, filters and a page of the server list.

use crate::sample::{Millis, unix_millis};
use crate::state::ServerRow;
use crate::state::totals::{Counts, Totals};
use crate::web::App;
use crate::web::page::filter::{Filter, PAGE, Sort, StateFilter};
use crate::web::page::row::RowView;
use crate::web::page::total_tiles::TotalsView;
use crate::web::page::{Frame, html};
use crate::web::show;
use askama::Template;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hailer::support::catalog;
use std::collections::BTreeMap;

/// Maximum number of groups in the filter.
const MAX_OPTIONS: usize = 500;
/// Host and port that `hailer monitor add` uses by default.
const DEFAULT_HOST: &str = "127.0.0.1:8080";

/// `/`
pub(crate) async fn show(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let filter = Filter::read(query.as_deref().unwrap_or_default());
    if let Some(api) = &app.api {
        api.catch_up().await;
    }
    // Scanning 100,000 rows takes some milliseconds. Do it on a blocking thread, and few at a time.
    let Ok(_turn) = app.turns.clone().acquire_owned().await else {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    };
    let made = tokio::task::spawn_blocking(move || {
        html(StatusCode::OK, &Overview::of(&app, &headers, filter))
    });
    made.await
        .unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

#[derive(Template)]
#[template(path = "overview.html")]
struct Overview {
    frame: Frame,
    totals: String,
    filter: Filter,
    groups: Vec<SelectOption>,
    protocols: Vec<SelectOption>,
    states: Vec<SelectOption>,
    sorts: Vec<SelectOption>,
    columns: Vec<HeaderColumn>,
    rows: Vec<ServerRow>,
    /// Number of rows on all pages, and the range on this page.
    found: String,
    span: Option<(String, String)>,
    pages: Vec<Step>,
    is_empty: bool,
    /// URL of the monitor for `hailer monitor add`, empty if it is the default; `None`: servers cannot
    /// be added by the API.
    add_to: Option<String>,
    /// Time of the data, in Unix milliseconds.
    at: Millis,
}

/// An option of a select element.
pub(crate) struct SelectOption {
    pub(crate) value: String,
    pub(crate) text: String,
    pub(crate) is_chosen: bool,
}

impl SelectOption {
    pub(crate) fn new(value: &str, text: String, chosen: &str) -> Self {
        Self {
            value: value.into(),
            text,
            is_chosen: value == chosen,
        }
    }
}

/// A column header.
struct HeaderColumn {
    class: &'static str,
    text: &'static str,
    /// URL that sorts by this column; `None`: not sortable.
    address: Option<String>,
    /// `ascending`, `descending` or `none`.
    order: &'static str,
}

/// A link to another page; without a URL, it is disabled.
struct Step {
    text: &'static str,
    rel: &'static str,
    address: Option<String>,
}

impl Overview {
    fn row<'a>(&self, row: &'a ServerRow) -> RowView<'a> {
        RowView::of(row, self.at)
    }

    fn of(app: &App, headers: &HeaderMap, mut filter: Filter) -> Self {
        let now = unix_millis();
        let totals = app.live.totals();
        let found = filter.find(&app.live, now);
        filter.page = found.page;
        let first = found.page * PAGE;
        let span = (!found.rows.is_empty()).then(|| {
            let number = |number: usize| show::count(number as u64);
            (number(first + 1), number(first + found.rows.len()))
        });
        Self {
            frame: Frame::new(app, headers, filter.address()),
            totals: TotalsView::of(&totals).render().unwrap_or_default(),
            groups: choices(
                "all groups",
                &counts(&totals.groups),
                &filter.group,
                |group| show::cut(group, 40).text,
            ),
            protocols: choices(
                "all protocols",
                &counts(&totals.protocols),
                &filter.protocol,
                |id| {
                    catalog::protocol(id)
                        .map_or(id, |protocol| protocol.info().title)
                        .into()
                },
            ),
            states: states(&totals, &filter),
            sorts: sorts(&filter),
            columns: columns(&filter),
            rows: found.rows,
            found: show::count(found.count as u64),
            span,
            pages: steps(&filter, found.count),
            is_empty: totals.all.servers == 0,
            add_to: add_to(app, headers),
            at: now,
            filter,
        }
    }
}

/// Returns the URL of the monitor for a command, see [`Overview::add_to`].
fn add_to(app: &App, headers: &HeaderMap) -> Option<String> {
    let api = app.api.as_ref().filter(|api| api.has_token())?;
    let host = headers.get(header::HOST)?.to_str().ok()?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".:-[]".contains(c);
    if host == DEFAULT_HOST || !host.chars().all(is_plain) {
        return Some(String::new());
    }
    // The proxy in front usually terminates TLS.
    let scheme = if api.is_behind_proxy() {
        "https"
    } else {
        "http"
    };
    Some(format!("{scheme}://{host}"))
}

/// Returns the first groups or protocols, with their number of servers.
fn counts(sums: &BTreeMap<String, Counts>) -> Vec<(String, u64)> {
    sums.iter()
        .filter(|(name, _)| !name.is_empty())
        .take(MAX_OPTIONS)
        .map(|(name, counts)| (name.clone(), counts.servers))
        .collect()
}

/// Returns the options of a filter, "all" first. The chosen value is included even if no server has
/// it.
fn choices(
    all: &str,
    counts: &[(String, u64)],
    chosen: &str,
    text: impl Fn(&str) -> String,
) -> Vec<SelectOption> {
    let choice = |value: &str, text| SelectOption::new(value, text, chosen);
    let some = counts
        .iter()
        .map(|(name, count)| choice(name, format!("{} ({})", text(name), show::count(*count))));
    let gone = (!chosen.is_empty() && counts.iter().all(|(name, _)| name != chosen))
        .then(|| choice(chosen, text(chosen)));
    [choice("", all.into())]
        .into_iter()
        .chain(gone)
        .chain(some)
        .collect()
}

fn states(totals: &Totals, filter: &Filter) -> Vec<SelectOption> {
    let counts = StateFilter::ALL.map(|(shown, word)| {
        let count = match shown {
            StateFilter::Up => totals.all.up,
            StateFilter::Down => totals.all.down,
            StateFilter::Unknown => totals.all.unknown,
            StateFilter::Flapping => totals.all.flapping,
        };
        (word.to_owned(), count)
    });
    choices(
        "all states",
        &counts,
        filter.state_word().unwrap_or_default(),
        str::to_owned,
    )
}

fn sorts(filter: &Filter) -> Vec<SelectOption> {
    let mut sorts = Vec::new();
    for (sort, _, text) in Sort::ALL {
        for is_reversed in [false, true] {
            let value = Filter {
                sort,
                is_reversed,
                ..Filter::default()
            }
            .sort_word();
            let arrow = if is_reversed == sort.is_descending() {
                "↑"
            } else {
                "↓"
            };
            let is_chosen = (filter.sort, filter.is_reversed) == (sort, is_reversed);
            sorts.push(SelectOption {
                value,
                text: format!("{text} {arrow}"),
                is_chosen,
            });
        }
    }
    sorts
}

fn columns(filter: &Filter) -> Vec<HeaderColumn> {
    let column = |sort: Sort| {
        let (_, class, text) = Sort::ALL
            .into_iter()
            .find(|(known, ..)| *known == sort)
            .unwrap_or(Sort::ALL[0]);
        let is_current = filter.sort == sort;
        let next = Filter {
            sort,
            is_reversed: is_current && !filter.is_reversed,
            page: 0,
            ..filter.clone()
        };
        let order = match (is_current, filter.is_reversed == sort.is_descending()) {
            (false, _) => "none",
            (true, true) => "ascending",
            (true, false) => "descending",
        };
        HeaderColumn {
            class,
            text,
            address: Some(next.address()),
            order,
        }
    };
    let day = HeaderColumn {
        class: "day",
        text: "Day",
        address: None,
        order: "none",
    };
    let [state, name, players, latency, uptime, version, group] =
        Sort::ALL.map(|(sort, ..)| column(sort));
    vec![state, name, players, day, latency, uptime, version, group]
}

fn steps(filter: &Filter, count: usize) -> Vec<Step> {
    let page = filter.page;
    let last = count.saturating_sub(1) / PAGE;
    if last == 0 {
        return Vec::new();
    }
    let step = |text, rel, to: Option<usize>| {
        let address = to.filter(|to| *to != page).map(|page| {
            Filter {
                page,
                ..filter.clone()
            }
            .address()
        });
        Step { text, rel, address }
    };
    vec![
        step("First", "", Some(0)),
        step("Previous", "prev", page.checked_sub(1)),
        step("Next", "next", Some((page + 1).min(last))),
        step("Last", "", Some(last)),
    ]
}
