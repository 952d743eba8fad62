//! Filters and orders of server lists, for pages and API.
//!
//! The search itself uses the [`index`](super::index).

use crate::health::State;
use crate::sample::Millis;
use crate::server::Server;
use crate::state::row::ServerRow;
use hailer::support::catalog;
use std::cmp::Ordering;

/// Maximum length of a search, in characters, and maximum number of its words.
pub(crate) const MAX_SEARCH_CHARS: usize = 100;
const MAX_SEARCH_WORDS: usize = 8;

/// Filter by properties of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ServerMatch {
    /// Empty: servers without a group.
    pub(crate) group: Option<String>,
    /// Id of a protocol.
    pub(crate) protocol: Option<String>,
    pub(crate) state: Option<StateFilter>,
    /// Label keys, with values if given.
    pub(crate) labels: Vec<(String, Option<String>)>,
}

impl ServerMatch {
    pub(crate) fn fits(&self, row: &ServerRow) -> bool {
        let server = &*row.server;
        let has = |(key, value): &(String, Option<String>)| {
            server
                .labels
                .get(key)
                .is_some_and(|found| value.as_ref().is_none_or(|value| value == found))
        };
        self.group
            .as_ref()
            .is_none_or(|group| *group == server.group)
            && self
                .protocol
                .as_ref()
                .is_none_or(|id| row.protocol().eq_ignore_ascii_case(id))
            && self.state.is_none_or(|state| state.matches(row))
            && self.labels.iter().all(has)
    }
}

/// State to filter by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateFilter {
    Up,
    Down,
    Unknown,
    Flapping,
}

impl StateFilter {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Up, "up"),
        (Self::Down, "down"),
        (Self::Unknown, "unknown"),
        (Self::Flapping, "flapping"),
    ];

    fn matches(self, row: &ServerRow) -> bool {
        match self {
            Self::Up => row.state == State::Up,
            Self::Down => row.state == State::Down,
            Self::Unknown => row.state == State::Unknown,
            Self::Flapping => row.is_flapping,
        }
    }
}

/// Words that must all occur in the searched texts, ignoring case.
#[derive(Clone, Debug, Default)]
pub(crate) struct SearchTerms(Vec<String>);

impl SearchTerms {
    pub(crate) fn of(text: &str) -> Self {
        Self(
            text.split_whitespace()
                .take(MAX_SEARCH_WORDS)
                .map(str::to_lowercase)
                .collect(),
        )
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn all(&self) -> &[String] {
        &self.0
    }

    /// Whether each word occurs in one of the texts.
    pub(crate) fn are_in_one_of(&self, texts: &[&str]) -> bool {
        self.0
            .iter()
            .all(|word| texts.iter().any(|text| contains(text, word)))
    }
}

/// Whether a text contains a word in lower case, ignoring case.
fn contains(text: &str, word: &str) -> bool {
    if text.is_ascii() {
        return text
            .as_bytes()
            .windows(word.len().max(1))
            .any(|part| part.eq_ignore_ascii_case(word.as_bytes()));
    }
    text.to_lowercase().contains(word)
}

/// Order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// Most players first.
    Players,
    Name,
    /// Down first (latest change first), then unknown, then up with the most players first.
    #[default]
    State,
    /// Lowest latency first.
    Latency,
    /// Lowest uptime first.
    Uptime,
    Version,
    Group,
}

impl Sort {
    /// All orders: value, URL keyword and label.
    pub(crate) const ALL: [(Self, &'static str, &'static str); 7] = [
        (Self::State, "state", "State"),
        (Self::Name, "name", "Server"),
        (Self::Players, "players", "Players"),
        (Self::Latency, "latency", "Latency"),
        (Self::Uptime, "uptime", "Uptime"),
        (Self::Version, "version", "Version"),
        (Self::Group, "group", "Group"),
    ];

    pub(crate) fn word(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(sort, ..)| *sort == self)
            .map_or("state", |(_, word, _)| word)
    }

    /// Whether the default direction is descending.
    pub(crate) fn is_descending(self) -> bool {
        self == Self::Players
    }

    /// Returns the sort key, if it is a number; `None`: the key is a text, or is unknown and comes
    /// last.
    pub(crate) fn number(self, row: &ServerRow, now: Millis) -> Option<i64> {
        let last = row.last_answer();
        match self {
            Self::Players => last?.players.map(i64::from),
            Self::Latency => last?.latency.map(i64::from),
            Self::Uptime => row
                .day
                .uptime(now)
                .map(|share| (f64::from(share) * 1e6) as i64),
            Self::State => {
                // The state in the upper bits; below it, the time of the change or the players, with
                // larger values first.
                let rank = if row.state == State::Up {
                    last.and_then(|last| last.players).map_or(0, i64::from)
                } else {
                    row.since.max(0)
                };
                Some((row.state as i64) << 56 | ((i64::MAX >> 8) - rank.min(i64::MAX >> 8)))
            }
            Self::Name | Self::Version | Self::Group => None,
        }
    }
}

/// Compares two optional keys. Unknown ones come last in either direction.
pub(crate) fn directed<T: ?Sized>(
    is_descending: bool,
    a: Option<&T>,
    b: Option<&T>,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) if is_descending => compare(b, a),
        (Some(a), Some(b)) => compare(a, b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}

/// Returns the id of the protocol in which a server is polled first: that of its target, or the main
/// one of the target's game.
pub(super) fn protocol(server: &Server) -> &str {
    let Some((word, _)) = server.target.split_once("://") else {
        return "";
    };
    if catalog::protocol(word).is_some() {
        return word;
    }
    let game = catalog::game(word);
    let known = |id: &&str| catalog::protocol(id).is_some();
    game.and_then(|game| game.protocols.iter().copied().find(known))
        .unwrap_or(word)
}

/// Compares names naturally: `node-9` before `node-10`, ignoring case unless all else is equal.
pub(crate) fn natural(a: &str, b: &str) -> Ordering {
    let mut left = a.as_bytes();
    let mut right = b.as_bytes();
    while let (Some(&l), Some(&r)) = (left.first(), right.first()) {
        let order = if l.is_ascii_digit() && r.is_ascii_digit() {
            let a = number(&mut left);
            let b = number(&mut right);
            a.len().cmp(&b.len()).then_with(|| a.cmp(b))
        } else {
            left = &left[1..];
            right = &right[1..];
            l.to_ascii_lowercase().cmp(&r.to_ascii_lowercase())
        };
        if order.is_ne() {
            return order;
        }
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// Takes the leading digits of a text, without leading zeros.
fn number<'a>(text: &mut &'a [u8]) -> &'a [u8] {
    let end = text
        .iter()
        .position(|byte| !byte.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    let noughts = digits
        .iter()
        .position(|digit| *digit != b'0')
        .unwrap_or(digits.len());
    &digits[noughts..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_names_naturally() {
        let mut names = ["b", "a10", "A9", "a9", "a09", "a", "ä", "a9b"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "A9", "a09", "a9", "a9b", "a10", "b", "ä"]);
    }
}
