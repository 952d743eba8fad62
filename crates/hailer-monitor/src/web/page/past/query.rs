//! Parameters of the page of a server: time range, orders and search.

use super::{MINUTE, interval_of};
use crate::history::Level;
use crate::sample::Millis;
use crate::state::find::MAX_SEARCH_CHARS;
use crate::web::App;
use hailer::proto::model::PLAYER_MEMBERS;

/// Maximum number of samples, of all servers together, read for a chart.
const MAX_CHART_SAMPLES: Millis = 300_000;

/// Time range of the charts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Range {
    Hour,
    #[default]
    Day,
    Week,
    Month,
    Year,
}

impl Range {
    pub(crate) const ALL: [Self; 5] = [Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
            Self::Year => "1y",
        }
    }

    /// Returns the level to read, the length of a bucket in milliseconds, and the number of
    /// buckets. `interval`: polling interval, in milliseconds.
    pub(super) fn buckets(self, interval: Millis) -> (Level, Millis, usize) {
        let of = |level: Level, each: Millis, count| (level, level.length() * each, count);
        match self {
            // At least two samples per bucket, since polls are not evenly spaced: gaps would
            // suggest failures.
            Self::Hour => {
                let steps = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30];
                let step = steps
                    .into_iter()
                    .find(|minutes| minutes * MINUTE >= 2 * interval)
                    .unwrap_or(60);
                (Level::Raw, step * MINUTE, (60 / step) as usize)
            }
            Self::Day => of(Level::FiveMinutes, 1, 288),
            Self::Week => of(Level::Hour, 1, 168),
            Self::Month => of(Level::Hour, 2, 360),
            Self::Year => of(Level::Day, 1, 365),
        }
    }

    /// Whether the range is offered. Samples are stored by time, so an hour of one server is read
    /// together with that of all others.
    pub(crate) fn is_cheap(self, app: &App) -> bool {
        let samples = 60 * MINUTE / interval_of(app).max(1_000);
        self != Self::Hour || samples.saturating_mul(app.live.len() as Millis) <= MAX_CHART_SAMPLES
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Hour => "1 hour",
            Self::Day => "24 hours",
            Self::Week => "7 days",
            Self::Month => "30 days",
            Self::Year => "1 year",
        }
    }
}

/// Order of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// Sessions that were seen latest come first.
    #[default]
    From,
    /// By player name.
    Player,
    /// Players with the longest time come first.
    Played,
}

impl Order {
    pub(crate) const ALL: [Self; 3] = [Self::Player, Self::From, Self::Played];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::From => "from",
            Self::Player => "player",
            Self::Played => "played",
        }
    }
}

/// Order of the players online.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PlayerOrder {
    /// As the server lists them.
    #[default]
    Server,
    /// By name.
    Name,
    /// By the member with this key: the highest number first, texts in alphabetical order.
    Member(&'static str),
}

impl PlayerOrder {
    /// Returns the order with this word. Unknown words are the order of the server.
    fn of(word: &str) -> Self {
        let member = || PLAYER_MEMBERS.iter().find(|member| member.key == word);
        match word {
            "name" => Self::Name,
            _ => member().map_or(Self::Server, |member| Self::Member(member.key)),
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Name => "name",
            Self::Member(key) => key,
        }
    }
}

/// Parameters of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryQuery {
    /// `None`: 24 hours, or less for a new server.
    pub(crate) range: Option<Range>,
    pub(crate) order: Order,
    pub(crate) who: PlayerOrder,
    /// Search as typed; all words must match.
    pub(crate) find: String,
}

impl HistoryQuery {
    /// Parses a URL query. Unknown parts are ignored.
    pub(crate) fn read(query: &str) -> Self {
        let mut wanted = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "range" => {
                    wanted.range = Range::ALL.into_iter().find(|range| range.word() == value);
                }
                "sessions" => {
                    wanted.order = Order::ALL
                        .into_iter()
                        .find(|order| order.word() == value)
                        .unwrap_or_default();
                }
                "who" => wanted.who = PlayerOrder::of(&value),
                "find" => wanted.find = value.trim().chars().take(MAX_SEARCH_CHARS).collect(),
                _ => {}
            }
        }
        wanted
    }

    /// Returns the URL query with `?`, or an empty text for default values.
    pub(crate) fn query(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (key, word, is_usual) in [
            (
                "range",
                self.range.unwrap_or_default().word(),
                self.range.is_none(),
            ),
            (
                "sessions",
                self.order.word(),
                self.order == Order::default(),
            ),
            ("who", self.who.word(), self.who == PlayerOrder::default()),
            ("find", &self.find, self.find.is_empty()),
        ] {
            if !is_usual {
                query.append_pair(key, word);
            }
        }
        let query = query.finish();
        if query.is_empty() {
            query
        } else {
            format!("?{query}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_words_of_the_address() {
        for range in Range::ALL {
            for order in Order::ALL {
                for (who, find) in [("", ""), ("name", "a & b"), ("score", "")] {
                    let wanted = HistoryQuery {
                        range: Some(range),
                        order,
                        who: PlayerOrder::of(who),
                        find: find.into(),
                    };
                    assert_eq!(
                        HistoryQuery::read(wanted.query().trim_start_matches('?')),
                        wanted
                    );
                }
            }
            let (_, step, count) = range.buckets(MINUTE);
            let hours = [1, 24, 7 * 24, 30 * 24, 365 * 24][range as usize];
            assert_eq!(step * count as Millis, hours * 3_600_000);
        }
        let minutes = |seconds: Millis| Range::Hour.buckets(seconds * 1_000).1 / MINUTE;
        assert_eq!(
            [1, 30, 31, 60, 400, 90_000].map(minutes),
            [1, 1, 2, 2, 15, 60]
        );
        assert_eq!(
            HistoryQuery::read("range=3h&sessions=&x"),
            HistoryQuery::default()
        );
    }
}
