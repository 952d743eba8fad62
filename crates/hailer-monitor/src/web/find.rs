//! Which servers a list shows and by what it is ordered: the same for pages and for programs.
//!
//! Texts of servers are searched in the [`index`](super::index).

use crate::health::State;
use crate::sample::Millis;
use crate::server::Server;
use crate::state::ServerRow;
use std::cmp::Ordering;

/// Characters and words of a search.
pub(crate) const MAX_SEARCH_CHARS: usize = 100;
const WORDS: usize = 8;

/// The servers that are meant.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ServerMatch {
    /// An empty one is that of all that have none.
    pub(crate) group: Option<String>,
    /// Id of a protocol.
    pub(crate) protocol: Option<String>,
    pub(crate) state: Option<StateFilter>,
    /// Keys, and values if they matter.
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
                .is_none_or(|id| protocol(server).eq_ignore_ascii_case(id))
            && self.state.is_none_or(|state| state.matches(row))
            && self.labels.iter().all(has)
    }
}

/// A state to filter by.
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

/// Words that all stand somewhere in what people know of a server, in any case.
#[derive(Clone, Debug, Default)]
pub(crate) struct SearchTerms(Vec<String>);

impl SearchTerms {
    pub(crate) fn of(text: &str) -> Self {
        Self(
            text.split_whitespace()
                .take(WORDS)
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

    /// The same, of some texts.
    pub(crate) fn are_in_one_of(&self, texts: &[&str]) -> bool {
        self.0
            .iter()
            .all(|word| texts.iter().any(|text| contains(text, word)))
    }
}

/// Whether a word, in lower case, stands in a text in any case.
fn contains(text: &str, word: &str) -> bool {
    if text.is_ascii() {
        return text
            .as_bytes()
            .windows(word.len().max(1))
            .any(|part| part.eq_ignore_ascii_case(word.as_bytes()));
    }
    text.to_lowercase().contains(word)
}

/// What a list is ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// The most first, unless turned round.
    #[default]
    Players,
    Name,
    /// Those that are down first, of those whatever changed last.
    State,
    /// The quickest first.
    Latency,
    /// The worst first.
    Uptime,
    Version,
    Group,
}

impl Sort {
    /// All of them, by the word of the address and the name for people.
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
            .map_or("players", |(_, word, _)| word)
    }

    /// Whether its natural direction is from the most to the least.
    pub(crate) fn is_descending(self) -> bool {
        self == Self::Players
    }

    /// Where a row stands, if that is told by a number; `None`: by a text, or it is not known and comes last.
    pub(crate) fn number(self, row: &ServerRow, now: Millis) -> Option<i64> {
        let last = row.last_sample.filter(|last| last.answered);
        match self {
            Self::Players => last?.players.map(i64::from),
            Self::Latency => last?.latency.map(i64::from),
            Self::Uptime => row
                .day
                .uptime(now)
                .map(|share| (f64::from(share) * 1e6) as i64),
            // The state first, then the time, backwards.
            Self::State => {
                Some((row.state as i64) << 56 | (i64::MAX >> 8).saturating_sub(row.since.max(0)))
            }
            Self::Name | Self::Version | Self::Group => None,
        }
    }
}

/// The order of two that may not be known: those come last in either direction.
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

/// The id of a server's protocol, as its target has it.
pub(crate) fn protocol(server: &Server) -> &str {
    server
        .target
        .split_once("://")
        .map_or("", |(protocol, _)| protocol)
}

/// As people count: `node-9` before `node-10`; capitals and small letters alike, unless all else is the same.
pub(crate) fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.as_bytes(), b.as_bytes());
    while let (Some(&l), Some(&r)) = (left.first(), right.first()) {
        let order = if l.is_ascii_digit() && r.is_ascii_digit() {
            let (number, other) = (number(&mut left), number(&mut right));
            number
                .len()
                .cmp(&other.len())
                .then_with(|| number.cmp(other))
        } else {
            (left, right) = (&left[1..], &right[1..]);
            l.to_ascii_lowercase().cmp(&r.to_ascii_lowercase())
        };
        if order.is_ne() {
            return order;
        }
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// Takes the digits at the front, without the noughts before them.
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
    fn names_are_ordered_as_people_count() {
        let mut names = ["b", "a10", "A9", "a9", "a09", "a", "ä", "a9b"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "A9", "a09", "a9", "a9b", "a10", "b", "ä"]);
    }
}
