//! Which servers a list shows, in which order: what the address of the page says, and the other way round.

use crate::health::State;
use crate::live::{Live, Row, Said};
use crate::sample::Millis;
use crate::server::{Server, ServerId};
use std::cmp::Ordering;
use std::sync::Arc;

/// Rows of one page.
pub(crate) const PAGE: usize = 100;
/// Characters and words of a search.
const LONGEST_SEARCH: usize = 100;
const WORDS: usize = 8;

/// What a list shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    /// Words that all must be found somewhere; as typed.
    pub(crate) search: String,
    /// Empty: all.
    pub(crate) group: String,
    /// Id of a protocol; empty: all.
    pub(crate) protocol: String,
    pub(crate) state: Option<Shown>,
    pub(crate) sort: Sort,
    /// Against the natural direction of the order.
    pub(crate) is_reversed: bool,
    /// From 0.
    pub(crate) page: usize,
}

/// A state to filter by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Up,
    Down,
    Unknown,
    Flapping,
}

impl Shown {
    pub(crate) const ALL: [(Self, &'static str); 4] =
        [(Self::Up, "up"), (Self::Down, "down"), (Self::Unknown, "unknown"), (Self::Flapping, "flapping")];

    fn matches(self, row: &Row) -> bool {
        match self {
            Self::Up => row.state == State::Up,
            Self::Down => row.state == State::Down,
            Self::Unknown => row.state == State::Unknown,
            Self::Flapping => row.is_flapping,
        }
    }
}

/// What a list is ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sort {
    /// The most first.
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

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(sort, ..)| *sort == self).map_or("players", |(_, word, _)| word)
    }

    /// Whether its natural direction is from the most to the least.
    pub(crate) fn is_descending(self) -> bool {
        self == Self::Players
    }
}

/// What a list comes to.
pub(crate) struct Found {
    /// How many there are on all pages.
    pub(crate) count: usize,
    /// Copies of the rows of this page.
    pub(crate) rows: Vec<Row>,
    /// The page that they are of: the last one there is if a later one was asked for.
    pub(crate) page: usize,
}

impl Filter {
    /// Reads an address. What it does not know, it leaves out: an old link should still show something.
    pub(crate) fn read(query: &str) -> Self {
        let mut filter = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "q" => filter.search = value.trim().chars().take(LONGEST_SEARCH).collect(),
                "group" => filter.group = value.into_owned(),
                "protocol" => filter.protocol = value.into_owned(),
                "state" => filter.state = Shown::ALL.iter().find(|(_, word)| *word == value).map(|(shown, _)| *shown),
                "sort" => {
                    let word = value.strip_prefix('-');
                    filter.is_reversed = word.is_some();
                    let word = word.unwrap_or(&value);
                    filter.sort =
                        Sort::ALL.iter().find(|(_, known, _)| *known == word).map_or_else(Sort::default, |s| s.0);
                }
                "page" => filter.page = value.parse::<usize>().unwrap_or(1).saturating_sub(1),
                _ => {}
            }
        }
        filter
    }

    /// The address of the list. What is as usual is not in it.
    pub(crate) fn address(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let usual = Self::default();
        for (key, value) in [("q", &self.search), ("group", &self.group), ("protocol", &self.protocol)] {
            if !value.is_empty() {
                query.append_pair(key, value);
            }
        }
        if let Some(state) = self.state_word() {
            query.append_pair("state", state);
        }
        if (self.sort, self.is_reversed) != (usual.sort, usual.is_reversed) {
            query.append_pair("sort", &self.sort_word());
        }
        if self.page > 0 {
            query.append_pair("page", &(self.page + 1).to_string());
        }
        let query = query.finish();
        if query.is_empty() { "/".into() } else { format!("/?{query}") }
    }

    /// Whether it shows less than there is.
    pub(crate) fn is_narrow(&self) -> bool {
        let Self { search, group, protocol, state, .. } = self;
        state.is_some() || [search, group, protocol].iter().any(|text| !text.is_empty())
    }

    pub(crate) fn state_word(&self) -> Option<&'static str> {
        Shown::ALL.iter().find(|(shown, _)| Some(*shown) == self.state).map(|(_, word)| *word)
    }

    pub(crate) fn sort_word(&self) -> String {
        format!("{}{}", if self.is_reversed { "-" } else { "" }, self.sort.word())
    }

    /// The rows of the page that is asked for.
    pub(crate) fn find(&self, live: &Live, now: Millis) -> Found {
        let words: Vec<String> = self.search.split_whitespace().take(WORDS).map(str::to_lowercase).collect();
        let fits = |row: &Row| {
            (self.group.is_empty() || row.server.group == self.group)
                && (self.protocol.is_empty() || protocol(&row.server) == self.protocol)
                && self.state.is_none_or(|state| state.matches(row))
                && words.iter().all(|word| has(row, word))
        };
        // Little is copied under the lock: numbers, or pointers to what holds the texts.
        let (count, page, ids) = match self.sort {
            Sort::Players | Sort::Latency | Sort::Uptime | Sort::State => {
                let mut numbers = live.pick(|row| fits(row).then(|| (self.number(row, now), row.server.id)));
                let compare = |a: &(Option<i64>, ServerId), b: &(Option<i64>, ServerId)| {
                    self.directed(a.0.as_ref(), b.0.as_ref(), i64::cmp).then_with(|| a.1.cmp(&b.1))
                };
                let (page, shown) = self.page_of(&mut numbers, compare);
                let ids: Vec<ServerId> = shown.iter().map(|(_, id)| *id).collect();
                (numbers.len(), page, ids)
            }
            Sort::Name | Sort::Group | Sort::Version => {
                let mut texts = live.pick(|row| fits(row).then(|| (row.server.clone(), row.said.clone())));
                let (page, shown) = self.page_of(&mut texts, |a, b| self.compare(a, b));
                let ids: Vec<ServerId> = shown.iter().map(|(server, _)| server.id).collect();
                (texts.len(), page, ids)
            }
        };
        Found { count, rows: ids.into_iter().filter_map(|id| live.row(id)).collect(), page }
    }

    /// The page that there is, and its entries in order. What is before and behind them is in no order.
    fn page_of<'a, T>(&self, entries: &'a mut [T], compare: impl Fn(&T, &T) -> Ordering) -> (usize, &'a [T]) {
        let page = self.page.min(entries.len().saturating_sub(1) / PAGE);
        let (start, end) = (page * PAGE, ((page + 1) * PAGE).min(entries.len()));
        if start > 0 && start < entries.len() {
            entries.select_nth_unstable_by(start, &compare);
        }
        let rest = entries.get_mut(start..).unwrap_or_default();
        if end - start < rest.len() {
            rest.select_nth_unstable_by(end - start, &compare);
        }
        let shown = &mut rest[..end - start];
        shown.sort_unstable_by(&compare);
        (page, shown)
    }

    fn number(&self, row: &Row, now: Millis) -> Option<i64> {
        let last = row.last.filter(|last| last.answered);
        match self.sort {
            Sort::Players => last?.players.map(i64::from),
            Sort::Latency => last?.latency.map(i64::from),
            Sort::Uptime => row.day.uptime(now).map(|share| (f64::from(share) * 1e6) as i64),
            // The state first, then the time, backwards.
            Sort::State => Some((row.state as i64) << 56 | (i64::MAX >> 8).saturating_sub(row.since.max(0))),
            Sort::Name | Sort::Version | Sort::Group => None,
        }
    }

    fn compare(&self, a: &Texts, b: &Texts) -> Ordering {
        fn group((server, _): &Texts) -> Option<&str> {
            Some(server.group.as_str()).filter(|group| !group.is_empty())
        }
        fn version((_, said): &Texts) -> Option<&str> {
            said.as_ref()?.version.as_deref()
        }
        let order = match self.sort {
            Sort::Group => self.directed(group(a), group(b), natural),
            Sort::Version => self.directed(version(a), version(b), natural),
            _ => self.directed(Some(&*a.0.name), Some(&*b.0.name), natural),
        };
        order.then_with(|| natural(&a.0.name, &b.0.name))
    }

    /// What is not known stands last in either direction.
    fn directed<T: ?Sized>(&self, a: Option<&T>, b: Option<&T>, compare: fn(&T, &T) -> Ordering) -> Ordering {
        match (a, b) {
            (Some(a), Some(b)) if self.is_reversed != self.sort.is_descending() => compare(b, a),
            (Some(a), Some(b)) => compare(a, b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }
}

/// What holds the texts that a list may be ordered by.
type Texts = (Arc<Server>, Option<Arc<Said>>);

/// The id of a server's protocol, as its target has it.
pub(crate) fn protocol(server: &Server) -> &str {
    server.target.split_once("://").map_or("", |(protocol, _)| protocol)
}

/// Whether a word, in lower case, stands anywhere in what is known of a server.
fn has(row: &Row, word: &str) -> bool {
    let server = &*row.server;
    let of_us = [&server.name, &server.target, &server.group];
    if of_us.into_iter().chain(server.labels.values()).any(|text| contains(text, word)) {
        return true;
    }
    let Some(said) = &row.said else { return false };
    let of_it = [&said.title, &said.version, &said.map, &said.game];
    of_it.into_iter().flatten().any(|text| contains(text, word))
        || said.motd.as_ref().is_some_and(|motd| contains(&motd.plain(), word))
}

/// Whether a word, in lower case, stands in a text in any case.
fn contains(text: &str, word: &str) -> bool {
    if text.is_ascii() {
        return text.as_bytes().windows(word.len().max(1)).any(|part| part.eq_ignore_ascii_case(word.as_bytes()));
    }
    text.to_lowercase().contains(word)
}

/// As people count: `node-9` before `node-10`; capitals and small letters alike, unless all else is the same.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a.as_bytes(), b.as_bytes());
    while let (Some(&l), Some(&r)) = (left.first(), right.first()) {
        let order = if l.is_ascii_digit() && r.is_ascii_digit() {
            let (number, other) = (number(&mut left), number(&mut right));
            number.len().cmp(&other.len()).then_with(|| number.cmp(other))
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
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    *text = rest;
    let noughts = digits.iter().position(|digit| *digit != b'0').unwrap_or(digits.len());
    &digits[noughts..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_it_was_written() {
        let filter = Filter {
            search: "a & b=ä".into(),
            group: "EU west".into(),
            protocol: "ugp".into(),
            state: Some(Shown::Down),
            sort: Sort::Uptime,
            is_reversed: true,
            page: 2,
        };
        let address = filter.address();
        assert!(address.starts_with("/?q=a+%26+b%3D%C3%A4&group=EU+west"), "{address}");
        assert_eq!(Filter::read(address.trim_start_matches("/?")), filter);
        assert_eq!(Filter::default().address(), "/");
        let odd = Filter::read("q=%ff&q=x&page=-1&page=99999999999999999999999&sort=--&state=sideways&=&&%");
        assert_eq!((odd.page, odd.sort, odd.state), (0, Sort::Players, None));
    }

    #[test]
    fn names_are_ordered_as_people_count() {
        let mut names = ["b", "a10", "A9", "a9", "a09", "a", "ä", "a9b"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["a", "A9", "a09", "a9", "a9b", "a10", "b", "ä"]);
    }
}
