//! How a server was: charts, events, sessions.

use crate::sample::Millis;
use crate::server::ServerId;
use crate::web::App;
use crate::web::chart::Svg;
use crate::web::page::row::Time;
use crate::web::show::Cut;

const DAY: Millis = 86_400_000;

/// How far back charts look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Range {
    #[default]
    Day,
    Week,
    Month,
    Year,
}

impl Range {
    pub(crate) const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::Year];

    /// What the address says; a day if nothing that is known.
    pub(crate) fn read(query: &str) -> Self {
        let word = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "range");
        let range = word.and_then(|(_, word)| Self::ALL.into_iter().find(|range| range.word() == word));
        range.unwrap_or_default()
    }

    /// What the address says.
    pub(crate) fn query(self) -> String {
        if self == Self::Day { String::new() } else { format!("?range={}", self.word()) }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
            Self::Year => "1y",
        }
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Day => "24 hours",
            Self::Week => "7 days",
            Self::Month => "30 days",
            Self::Year => "1 year",
        }
    }
}

/// How a server was.
#[derive(Default)]
pub(crate) struct Past {
    /// Why there is nothing to show.
    pub(crate) problem: Option<String>,
    pub(crate) charts: Vec<ChartView>,
    pub(crate) events: Vec<EventView>,
    pub(crate) sessions: Vec<SessionView>,
}

/// A chart and what it comes to.
pub(crate) struct ChartView {
    pub(crate) title: &'static str,
    pub(crate) summary: String,
    pub(crate) svg: Svg,
}

/// Something that changed.
pub(crate) struct EventView {
    pub(crate) word: &'static str,
    pub(crate) at: Time,
    pub(crate) what: &'static str,
    pub(crate) text: Cut,
}

/// A player who was on.
pub(crate) struct SessionView {
    pub(crate) player: Cut,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) played: String,
}

impl Past {
    pub(crate) async fn of(_app: &App, _server: ServerId, _range: Range, _now: Millis) -> Self {
        let _ = DAY;
        Self::default()
    }
}
