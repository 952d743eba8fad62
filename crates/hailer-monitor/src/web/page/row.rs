//! One server in the list, made in one place for the page and for what is sent when it changes.

use crate::health::State;
use crate::sample::Millis;
use crate::state::ServerRow;
use crate::web::chart::{Svg, sparkline};
use crate::web::motd::{Piece, pieces};
use crate::web::page::filter::Filter;
use crate::web::show::{self, Cut};
use askama::Template;
use askama::filters::HtmlSafe;

/// Characters of a MOTD, a version, a group in a row.
const MOTD: usize = 160;
const VERSION: usize = 28;
const GROUP: usize = 24;

/// One server in the list.
#[derive(Template)]
#[template(path = "row.html")]
pub(crate) struct RowView {
    id: i64,
    name: String,
    state: StateView,
    title: Option<Cut>,
    motd: Vec<Piece>,
    motd_whole: String,
    players: Option<String>,
    max: Option<String>,
    spark: Svg,
    latency: Option<String>,
    uptime: Option<(String, &'static str)>,
    version: Option<Cut>,
    group: Option<(Cut, String)>,
}

// A template escapes what it is given.
impl HtmlSafe for RowView {}

/// Whether a server is up, as a word, a shape and a time.
pub(crate) struct StateView {
    /// `up`, `down`, `unknown` or `flapping`: the class, too.
    pub(crate) word: &'static str,
    pub(crate) since: Option<Time>,
    /// Why there is no answer.
    pub(crate) reason: Option<Cut>,
}

/// A time, for people and programs.
pub(crate) struct Time {
    /// RFC 3339.
    pub(crate) exact: String,
    /// How long ago.
    pub(crate) ago: String,
    /// Day and time of day, UTC.
    pub(crate) day: String,
}

impl Time {
    pub(crate) fn of(at: Millis, now: Millis) -> Self {
        Self {
            exact: show::rfc3339(at),
            ago: show::length(now - at),
            day: show::time(at, now),
        }
    }
}

impl StateView {
    pub(crate) fn of(row: &ServerRow, now: Millis) -> Self {
        let word = match row.state {
            _ if row.is_flapping => "flapping",
            State::Up => "up",
            State::Down => "down",
            State::Unknown => "unknown",
        };
        let reason = row.error.as_ref().map(|error| show::cut(&error.1, 200));
        Self {
            word,
            since: (row.since > 0).then(|| Time::of(row.since, now)),
            reason,
        }
    }
}

impl RowView {
    pub(crate) fn of(row: &ServerRow, now: Millis) -> Self {
        let server = &*row.server;
        let said = row.last_status.as_deref();
        let last = row.last_sample.filter(|last| last.answered);
        let motd = said.and_then(|said| said.motd.as_ref());
        // A narrow column cuts sooner than that.
        let motd_whole = motd.map(|motd| show::cut(&motd.plain(), MOTD).whole().to_owned());
        // A name that the MOTD says again is said once.
        let title = said.and_then(|said| said.title.as_deref()).filter(|title| {
            !title.trim().is_empty() && motd.is_none_or(|motd| !motd.plain().contains(title.trim()))
        });
        let group = &server.group;
        let of_group = || {
            Filter {
                group: group.clone(),
                ..Filter::default()
            }
            .address()
        };
        Self {
            id: server.id.0,
            name: server.name.clone(),
            state: StateView::of(row, now),
            title: title.map(|title| show::cut(title, 60)),
            motd: motd.map(|motd| pieces(motd, MOTD)).unwrap_or_default(),
            motd_whole: motd_whole.unwrap_or_default(),
            players: last
                .and_then(|last| last.players)
                .map(|players| show::count(players.into())),
            max: last
                .and_then(|last| last.max)
                .map(|max| show::count(max.into())),
            spark: sparkline(&row.day.players(now), Some(&row.day.answered(now))),
            latency: last.and_then(|last| last.latency).map(show::latency),
            uptime: row
                .day
                .uptime(now)
                .map(|share| (show::percent(share.into()), grade(share))),
            version: said
                .and_then(|said| said.version.as_deref())
                .map(|version| show::cut(version, VERSION)),
            group: (!group.is_empty()).then(|| (show::cut(group, GROUP), of_group())),
        }
    }
}

/// How good an uptime is: a class.
fn grade(share: f32) -> &'static str {
    match share {
        0.99.. => "good",
        0.9.. => "fair",
        _ => "poor",
    }
}
