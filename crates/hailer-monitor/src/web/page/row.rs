//! A row of the server list, for the page and for event streams.

use crate::health::State;
use crate::sample::Millis;
use crate::state::ServerRow;
use crate::web::chart::{Svg, sparkline};
use crate::web::motd::{Piece, pieces};
use crate::web::page::filter::Filter;
use crate::web::show::{self, ShortText};
use askama::Template;
use askama::filters::HtmlSafe;

/// Maximum length of MAX_MOTD_CHARS, version and group in a row, in characters.
const MAX_MOTD_CHARS: usize = 160;
const MAX_VERSION_CHARS: usize = 28;
const MAX_GROUP_CHARS: usize = 24;

/// Maximum length of the reason why a server is down, in characters: all of them fit.
const MAX_REASON_CHARS: usize = 500;

/// A row of the server list.
#[derive(Template)]
#[template(path = "row.html")]
pub(crate) struct RowView {
    id: i64,
    name: String,
    state: StateView,
    title: Option<ShortText>,
    /// URL of the icon.
    icon: Option<String>,
    motd: Vec<Piece>,
    motd_whole: String,
    players: Option<String>,
    max: Option<String>,
    spark: Svg,
    latency: Option<String>,
    uptime: Option<(String, &'static str)>,
    version: Option<ShortText>,
    group: Option<(ShortText, String)>,
}

// The template escapes its values.
impl HtmlSafe for RowView {}

/// State of a server: keyword, time and reason.
pub(crate) struct StateView {
    /// `up`, `down`, `unknown` or `flapping`; also the CSS class.
    pub(crate) word: &'static str,
    pub(crate) since: Option<Time>,
    /// Why the last poll failed.
    pub(crate) reason: Option<ShortText>,
}

/// A time in several formats.
pub(crate) struct Time {
    /// RFC 3339.
    pub(crate) exact: String,
    /// Age, such as "5 s", or "−5 min" for a time in the future.
    pub(crate) ago: String,
    /// Date and time, UTC.
    pub(crate) day: String,
}

impl Time {
    pub(crate) fn of(at: Millis, now: Millis) -> Self {
        Self {
            exact: show::rfc3339(at),
            ago: show::age(at, now),
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
        let reason = row
            .error
            .as_ref()
            .map(|error| show::cut(&error.1, MAX_REASON_CHARS));
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
        let status = row.last_status.as_deref();
        let last = row.last_sample.filter(|last| last.is_answered);
        let motd = status.and_then(|status| status.motd.as_ref());
        // CSS may shorten the MAX_MOTD_CHARS further.
        let motd_whole =
            motd.map(|motd| show::cut(&motd.plain(), MAX_MOTD_CHARS).whole().to_owned());
        // Hide a title that the MAX_MOTD_CHARS repeats.
        let title = status
            .and_then(|status| status.title.as_deref())
            .filter(|title| {
                !title.trim().is_empty()
                    && motd.is_none_or(|motd| !motd.plain().contains(title.trim()))
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
            icon: status
                .and_then(|status| status.icon)
                .map(|icon| icon.path()),
            motd: motd
                .map(|motd| pieces(motd, MAX_MOTD_CHARS))
                .unwrap_or_default(),
            motd_whole: motd_whole.unwrap_or_default(),
            players: last
                .and_then(|last| last.players)
                .map(|players| show::count(players.into())),
            // The limit hardly changes, so it is shown while the server is down too.
            max: last
                .and_then(|last| last.max)
                .or_else(|| status.and_then(|status| status.max))
                .map(|max| show::count(max.into())),
            spark: sparkline(&row.day.players(now), Some(&row.day.uptimes(now))),
            latency: last.and_then(|last| last.latency).map(show::latency),
            uptime: row
                .day
                .uptime(now)
                .map(|share| (show::percent(share.into()), grade(share))),
            version: status
                .and_then(|status| status.version.as_deref())
                .map(|version| show::cut(version, MAX_VERSION_CHARS)),
            group: (!group.is_empty()).then(|| (show::cut(group, MAX_GROUP_CHARS), of_group())),
        }
    }
}

/// CSS class of an uptime.
fn grade(share: f32) -> &'static str {
    match share {
        0.99.. => "good",
        0.9.. => "fair",
        _ => "poor",
    }
}
