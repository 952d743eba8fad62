//! A row of the server list, for the page and for event streams.

use crate::sample::Millis;
use crate::server::Server;
use crate::state::{LastStatus, ServerRow};
use crate::web::chart::{Svg, sparkline};
use crate::web::motd::{Piece, pieces};
use crate::web::page::filter::Filter;
use crate::web::show::{self, ShortText};
use askama::Template;
use askama::filters::HtmlSafe;

/// Maximum length of MOTD, version and group in a row, in characters.
const MAX_MOTD_CHARS: usize = 160;
const MAX_VERSION_CHARS: usize = 28;
const MAX_GROUP_CHARS: usize = 24;

/// Maximum length of the reason why a server is down, in characters: all of them fit.
const MAX_REASON_CHARS: usize = 500;

/// A row of the server list.
#[derive(Template)]
#[template(path = "row.html")]
pub(crate) struct RowView<'a> {
    row: &'a ServerRow,
    server: &'a Server,
    status: Option<&'a LastStatus>,
    state: StateView,
    now: Millis,
}

// The template escapes its values.
impl HtmlSafe for RowView<'_> {}

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
        let word = if row.is_flapping {
            "flapping"
        } else {
            row.state.word()
        };
        let reason = row.error.as_ref();
        let reason = reason.map(|error| show::cut(&error.message, MAX_REASON_CHARS));
        Self {
            word,
            since: (row.since > 0).then(|| Time::of(row.since, now)),
            reason,
        }
    }
}

impl<'a> RowView<'a> {
    pub(crate) fn of(row: &'a ServerRow, now: Millis) -> Self {
        Self {
            row,
            server: &row.server,
            status: row.last_status.as_deref(),
            state: StateView::of(row, now),
            now,
        }
    }

    /// Returns the URL of the icon.
    fn icon(&self) -> Option<String> {
        Some(self.status?.icon?.path())
    }

    /// Returns the title, unless the MOTD repeats it.
    fn title(&self) -> Option<ShortText> {
        let title = self.status?.title.as_deref()?;
        let is_repeated = self
            .status?
            .motd
            .as_ref()
            .is_some_and(|motd| motd.plain().contains(title.trim()));
        (!title.trim().is_empty() && !is_repeated).then(|| show::cut(title, 60))
    }

    fn motd(&self) -> Vec<Piece> {
        let motd = self.status.and_then(|status| status.motd.as_ref());
        motd.map(|motd| pieces(motd, MAX_MOTD_CHARS))
            .unwrap_or_default()
    }

    /// Returns the MOTD as plain text: CSS may shorten the formatted one further.
    fn plain_motd(&self) -> String {
        let motd = self.status.and_then(|status| status.motd.as_ref());
        let plain = motd.map(|motd| show::cut(&motd.plain(), MAX_MOTD_CHARS).whole().to_owned());
        plain.unwrap_or_default()
    }

    fn players(&self) -> Option<String> {
        let players = self.row.last_answer()?.players?;
        Some(show::count(players.into()))
    }

    /// Returns the limit of players. It hardly changes, so it is shown while the server is down too.
    fn max(&self) -> Option<String> {
        let max = self.row.last_answer().and_then(|last| last.max);
        let max = max.or_else(|| self.status?.max)?;
        Some(show::count(max.into()))
    }

    fn spark(&self) -> Svg {
        let day = &self.row.day;
        sparkline(&day.players(self.now), Some(&day.uptimes(self.now)))
    }

    fn latency(&self) -> Option<String> {
        self.row.last_answer()?.latency.map(show::latency)
    }

    /// Returns the uptime and its CSS class.
    fn uptime(&self) -> Option<(String, &'static str)> {
        let share = self.row.day.uptime(self.now)?;
        Some((show::percent(share.into()), grade(share)))
    }

    fn version(&self) -> Option<ShortText> {
        let version = self.status?.version.as_deref()?;
        Some(show::cut(version, MAX_VERSION_CHARS))
    }

    /// Returns the group and the URL of its servers.
    fn group(&self) -> Option<(ShortText, String)> {
        group_link(&self.server.group, MAX_GROUP_CHARS)
    }
}

/// Returns a group, cut to `most` characters, and the URL of its servers. `None` without a group.
pub(crate) fn group_link(group: &str, most: usize) -> Option<(ShortText, String)> {
    let filter = Filter {
        group: group.to_owned(),
        ..Filter::default()
    };
    (!group.is_empty()).then(|| (show::cut(group, most), filter.address()))
}

/// CSS class of an uptime.
fn grade(share: f32) -> &'static str {
    match share {
        0.99.. => "good",
        0.9.. => "fair",
        _ => "poor",
    }
}
