//! State of all servers, and which of them are shown in which order. Uses no terminal and no
//! sockets.
//!
//! Rows stay in the order of their arrival. The order on the screen is a list of indexes, which is
//! rebuilt at most once per second and after a key. At most 720 samples of a server are stored,
//! 1,000,000 in total but at least 10 of each server, and 2,000 events.

use super::filter::Filter;
use hailer::proto::Text;
use hailer::proto::model::printable;
use hailer_monitor::health::State;
use hailer_monitor::sample::{Event, Millis, PollError, Sample};
use hailer_monitor::server::{Server, ServerId};
use hailer_monitor::state::{LastStatus, ServerRow};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Maximum number of samples for one server.
const MAX_SAMPLES: usize = 720;
/// Maximum number of samples in total.
const MAX_TOTAL_SAMPLES: usize = 1_000_000;
/// Minimum number of samples for each server, even if there are many servers.
const MIN_SAMPLES: usize = 10;
/// Maximum number of stored events.
const MAX_EVENTS: usize = 2_000;
/// Maximum length of text for search and order, in characters.
const MAX_TEXT_CHARS: usize = 256;

/// State of one server, as a feed delivers it.
#[derive(Clone, Debug)]
pub(super) struct ServerView {
    pub(super) server: Arc<Server>,
    pub(super) state: State,
    pub(super) is_flapping: bool,
    pub(super) since: Millis,
    pub(super) last: Option<Sample>,
    /// Why the last poll failed.
    pub(super) error: Option<Arc<PollError>>,
    pub(super) last_status: Option<Arc<LastStatus>>,
    /// Share of the last day's polls that were answered, from 0 to 1.
    pub(super) uptime: Option<f32>,
}

impl ServerView {
    pub(super) fn of(row: &ServerRow, now: Millis) -> Self {
        Self {
            server: row.server.clone(),
            state: row.state,
            is_flapping: row.is_flapping,
            since: row.since,
            last: row.last_sample,
            error: row.error.clone(),
            last_status: row.last_status.clone(),
            uptime: row.day.uptime(now),
        }
    }
}

/// One sample, as charts show it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SamplePoint {
    pub(super) at: Millis,
    pub(super) players: Option<f32>,
    /// Latency in milliseconds.
    pub(super) latency: Option<f32>,
}

/// One server with values derived from its state.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) seen: ServerView,
    /// Samples, oldest first.
    pub(super) samples: VecDeque<SamplePoint>,
    /// Whether samples from before the start were fetched.
    pub(super) has_before: bool,
    /// The version as one printable line.
    pub(super) version: String,
    /// The MOTD, otherwise the title, as one line without colors.
    pub(super) motd: String,
    /// Text that filters search, in lower case.
    pub(super) words: String,
}

impl Entry {
    fn new(seen: ServerView) -> Self {
        let mut entry = Self {
            seen,
            samples: VecDeque::new(),
            has_before: false,
            version: String::new(),
            motd: String::new(),
            words: String::new(),
        };
        entry.spell();
        entry
    }

    fn spell(&mut self) {
        let last_status = self.seen.last_status.as_deref();
        let version = last_status.and_then(|last| last.version.as_deref());
        self.version = version.map(short).unwrap_or_default();
        let motd = last_status.and_then(|last| {
            let motd = last.motd.as_ref().map(Text::plain);
            motd.or_else(|| last.title.clone().map(Into::into))
        });
        self.motd = motd.map(|motd| short(&motd)).unwrap_or_default();
        let server = &self.seen.server;
        self.words = [
            &*server.name,
            &server.group,
            &server.target,
            &self.version,
            &self.motd,
        ]
        .join("\n")
        .to_lowercase();
    }

    /// Returns the id of the protocol; empty if it is not known yet.
    pub(super) fn protocol(&self) -> &str {
        self.seen
            .server
            .target
            .split_once("://")
            .map_or("", |(protocol, _)| protocol)
    }

    pub(super) fn players(&self) -> Option<u32> {
        self.seen.last.and_then(|last| last.players)
    }

    /// Returns the last latency in microseconds.
    pub(super) fn latency(&self) -> Option<u32> {
        self.seen.last.and_then(|last| last.latency)
    }

    /// Returns the state as a filter names it.
    pub(super) fn word(&self) -> &'static str {
        match self.seen.state {
            _ if self.seen.is_flapping => "flapping",
            State::Up => "up",
            State::Down => "down",
            State::Unknown => "new",
        }
    }
}

/// Returns text of a server as one line.
fn short(text: &str) -> String {
    printable(text)
        .trim()
        .chars()
        .take(MAX_TEXT_CHARS)
        .collect()
}

/// Columns that the table can be sorted by, with their digits and headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SortKey {
    /// The order of the arguments, or of the monitor.
    #[default]
    Given,
    State,
    Name,
    Group,
    Players,
    Latency,
    Uptime,
    Version,
    Protocol,
    Motd,
}

impl SortKey {
    /// All columns with their headers, each at the index of its digit.
    pub(super) const ALL: [(Self, &'static str); 10] = [
        (Self::Given, "as given"),
        (Self::State, "state"),
        (Self::Name, "name"),
        (Self::Group, "group"),
        (Self::Players, "players"),
        (Self::Latency, "ms"),
        (Self::Uptime, "up%"),
        (Self::Version, "version"),
        (Self::Protocol, "protocol"),
        (Self::Motd, "MOTD"),
    ];

    pub(super) fn word(self) -> &'static str {
        Self::ALL[self.digit()].1
    }

    pub(super) fn digit(self) -> usize {
        self as usize
    }
}

/// Column to sort by, and whether in reverse.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sort {
    pub(super) by: SortKey,
    pub(super) is_descending: bool,
}

impl Sort {
    /// Selects a column in its default direction. Selecting the same column again reverses it.
    pub(super) fn press(self, by: SortKey) -> Self {
        if self.by == by && by != SortKey::Given {
            Self {
                is_descending: !self.is_descending,
                ..self
            }
        } else {
            Self {
                by,
                is_descending: by == SortKey::Players,
            }
        }
    }
}

/// Totals of all servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) servers: usize,
    pub(super) up: usize,
    pub(super) down: usize,
    pub(super) players: u64,
    pub(super) max: u64,
}

/// History of one server.
#[derive(Debug)]
pub(super) struct ServerHistory {
    pub(super) server: ServerId,
    /// Samples, oldest first.
    pub(super) samples: Vec<SamplePoint>,
    /// Events, newest first.
    pub(super) events: Vec<Event>,
    /// The last complete status.
    pub(super) last_status: Option<Arc<LastStatus>>,
}

/// State of all servers, their order and their events.
#[derive(Debug, Default)]
pub(super) struct Board {
    entries: Vec<Entry>,
    by_id: HashMap<ServerId, usize>,
    /// Indexes of the shown `entries`.
    order: Vec<u32>,
    sort: Sort,
    filter: Filter,
    totals: Totals,
    /// Events, newest first.
    events: VecDeque<Event>,
    has_groups: bool,
    is_stale: bool,
}

impl Board {
    /// Stores states from a feed. Returns the servers that went up or down.
    pub(super) fn see(&mut self, seen: Vec<ServerView>) -> Vec<ServerId> {
        let mut changed = Vec::new();
        for seen in seen {
            self.is_stale = true;
            let id = seen.server.id;
            let place = *self.by_id.entry(id).or_insert_with(|| {
                self.entries.push(Entry::new(seen.clone()));
                self.entries.len() - 1
            });
            let most = self.max_samples();
            let Some(entry) = self.entries.get_mut(place) else {
                continue;
            };
            let before = entry.seen.state;
            let after = seen.state;
            if before != after && before != State::Unknown {
                changed.push(id);
            }
            let differs = match (&entry.seen.last_status, &seen.last_status) {
                (Some(before), Some(after)) => !Arc::ptr_eq(before, after),
                (before, after) => before.is_some() != after.is_some(),
            };
            let is_other = differs || !Arc::ptr_eq(&entry.seen.server, &seen.server);
            entry.seen = seen;
            if is_other {
                entry.spell();
            }
            let newest = entry.samples.back().map_or(Millis::MIN, |sample| sample.at);
            if let Some(last) = entry.seen.last.filter(|last| last.at > newest) {
                entry.samples.push_back(SamplePoint {
                    at: last.at,
                    players: last.players.map(|players| players as f32),
                    latency: last.latency.map(|latency| latency as f32 / 1e3),
                });
            }
            while entry.samples.len() > most {
                entry.samples.pop_front();
            }
        }
        changed
    }

    /// Inserts earlier samples, oldest first, before the stored ones.
    pub(super) fn remember(&mut self, id: ServerId, samples: Vec<SamplePoint>) {
        let most = self.max_samples();
        let place = self.by_id.get(&id);
        let Some(entry) = place.and_then(|place| self.entries.get_mut(*place)) else {
            return;
        };
        entry.has_before = true;
        let stored = &mut entry.samples;
        let oldest = stored.front().map_or(Millis::MAX, |sample| sample.at);
        let room = most.saturating_sub(stored.len());
        let earlier = samples
            .into_iter()
            .rev()
            .filter(|sample| sample.at < oldest);
        earlier
            .take(room)
            .for_each(|sample| stored.push_front(sample));
    }

    /// Returns the maximum number of samples of each server.
    fn max_samples(&self) -> usize {
        (MAX_TOTAL_SAMPLES / self.by_id.len().max(1)).clamp(MIN_SAMPLES, MAX_SAMPLES)
    }

    /// Removes all other servers.
    pub(super) fn keep(&mut self, ids: &[ServerId]) {
        let ids: HashSet<ServerId> = ids.iter().copied().collect();
        let before = self.entries.len();
        self.entries
            .retain(|entry| ids.contains(&entry.seen.server.id));
        if self.entries.len() < before {
            let ids = self.entries.iter().map(|entry| entry.seen.server.id);
            self.by_id = ids.zip(0..).collect();
            self.arrange();
        }
    }

    /// Stores an event.
    pub(super) fn happen(&mut self, events: Vec<Event>) {
        for event in events {
            self.events.push_front(event);
        }
        self.events.truncate(MAX_EVENTS);
    }

    pub(super) fn sort(&self) -> Sort {
        self.sort
    }

    pub(super) fn sort_by(&mut self, sort: Sort) {
        self.sort = sort;
        self.arrange();
    }

    pub(super) fn filter(&self) -> &Filter {
        &self.filter
    }

    pub(super) fn filter_by(&mut self, filter: Filter) {
        self.filter = filter;
        self.arrange();
    }

    /// Returns whether states changed since the rows were sorted.
    pub(super) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Selects the rows to show, and sorts them.
    pub(super) fn arrange(&mut self) {
        self.is_stale = false;
        self.totals = Totals {
            servers: self.entries.len(),
            ..Totals::default()
        };
        self.has_groups = false;
        self.order.clear();
        for (place, entry) in self.entries.iter().enumerate() {
            let totals = &mut self.totals;
            totals.up += usize::from(entry.seen.state == State::Up);
            totals.down += usize::from(entry.seen.state == State::Down);
            totals.players += u64::from(entry.players().unwrap_or(0));
            let max = entry.seen.last.and_then(|last| last.max);
            totals.max += u64::from(max.unwrap_or(0));
            self.has_groups |= !entry.seen.server.group.is_empty();
            if self.filter.matches(entry.word(), &entry.words) {
                self.order.push(place as u32);
            }
        }
        let entries = &self.entries;
        let sort = self.sort;
        let entry = |place: &u32| &entries[*place as usize];
        self.order
            .sort_unstable_by(|a, b| order(sort, entry(a), entry(b)));
    }

    /// Returns the number of shown rows.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns the server in a row of the screen.
    pub(super) fn entry(&self, row: usize) -> Option<&Entry> {
        self.order
            .get(row)
            .and_then(|place| self.entries.get(*place as usize))
    }

    /// Returns a server, whether shown or not.
    pub(super) fn server(&self, id: ServerId) -> Option<&Entry> {
        self.by_id
            .get(&id)
            .and_then(|place| self.entries.get(*place))
    }

    /// Returns the row in which a server is shown.
    pub(super) fn row_of(&self, id: ServerId) -> Option<usize> {
        let place = *self.by_id.get(&id)? as u32;
        self.order.iter().position(|other| *other == place)
    }

    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(super) fn has_groups(&self) -> bool {
        self.has_groups
    }

    /// Events of a server, newest first.
    pub(super) fn events(&self, id: ServerId) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.server == id)
    }
}

/// Compares two values for a column. Unknown values come last in both directions; equal values keep
/// their order.
fn order(sort: Sort, a: &Entry, b: &Entry) -> Ordering {
    let turned = |order: Ordering| {
        if sort.is_descending {
            order.reverse()
        } else {
            order
        }
    };
    let numbers = |a: Option<u32>, b: Option<u32>| match (a, b) {
        (Some(a), Some(b)) => turned(a.cmp(&b)),
        (a, b) => b.is_some().cmp(&a.is_some()),
    };
    let texts = |a: &str, b: &str| match (a.is_empty(), b.is_empty()) {
        (false, false) => turned(a.cmp(b)),
        (a, b) => a.cmp(&b),
    };
    let this = &a.seen;
    let that = &b.seen;
    // Servers with problems first.
    let trouble = |entry: &Entry| match entry.word() {
        "down" => 0,
        "flapping" => 1,
        "new" => 2,
        _ => 3,
    };
    let share = |seen: &ServerView| seen.uptime.map(|share| (share * 1e6) as u32);
    let found = match sort.by {
        SortKey::Given => Ordering::Equal,
        SortKey::State => turned(trouble(a).cmp(&trouble(b))),
        SortKey::Name => turned(natural(&this.server.name, &that.server.name)),
        SortKey::Group => texts(&this.server.group, &that.server.group),
        SortKey::Players => numbers(a.players(), b.players()),
        SortKey::Latency => numbers(a.latency(), b.latency()),
        SortKey::Uptime => numbers(share(this), share(that)),
        SortKey::Version => texts(&a.version, &b.version),
        SortKey::Protocol => texts(a.protocol(), b.protocol()),
        SortKey::Motd => texts(&a.motd, &b.motd),
    };
    found.then_with(|| this.server.id.cmp(&that.server.id))
}

/// Compares texts with their numbers by value and ignoring case: `lobby-9` comes before `lobby-10`.
fn natural(a: &str, b: &str) -> Ordering {
    let mut a = a.as_bytes();
    let mut b = b.as_bytes();
    loop {
        let digits_a = digits(a);
        let digits_b = digits(b);
        if digits_a > 0 && digits_b > 0 {
            let number = without_zeros(&a[..digits_a]);
            let other = without_zeros(&b[..digits_b]);
            let found = number
                .len()
                .cmp(&other.len())
                .then_with(|| number.cmp(other));
            if found.is_ne() {
                return found;
            }
            a = &a[digits_a..];
            b = &b[digits_b..];
            continue;
        }
        match (a.split_first(), b.split_first()) {
            (Some((first, rest)), Some((other, others))) => {
                let found = first.to_ascii_lowercase().cmp(&other.to_ascii_lowercase());
                if found.is_ne() {
                    return found;
                }
                a = rest;
                b = others;
            }
            (a, b) => return a.is_some().cmp(&b.is_some()),
        }
    }
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

fn without_zeros(number: &[u8]) -> &[u8] {
    &number[number.iter().take_while(|digit| **digit == b'0').count()..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::watch::simulated::{self, board, seen};

    fn names(board: &Board) -> Vec<&str> {
        (0..board.len())
            .filter_map(|row| board.entry(row))
            .map(|entry| &*entry.seen.server.name)
            .collect()
    }

    #[test]
    fn columns_sort_in_both_directions_with_unknown_values_last() {
        let mut board = board();
        assert_eq!(
            names(&board),
            ["lobby", "survival-10", "survival-9", "Arena", "silent"]
        );
        for (by, first, again) in [
            (
                SortKey::Name,
                "Arena lobby silent survival-9 survival-10",
                "survival-10 survival-9 silent lobby Arena",
            ),
            (
                SortKey::Players,
                "survival-10 Arena lobby survival-9 silent",
                "survival-9 lobby Arena survival-10 silent",
            ),
            (
                SortKey::Latency,
                "lobby survival-10 survival-9 Arena silent",
                "Arena survival-9 survival-10 lobby silent",
            ),
            (
                SortKey::State,
                "silent Arena lobby survival-10 survival-9",
                "lobby survival-10 survival-9 Arena silent",
            ),
            (
                SortKey::Uptime,
                "silent Arena lobby survival-10 survival-9",
                "lobby survival-10 survival-9 Arena silent",
            ),
            (
                SortKey::Version,
                "lobby survival-9 Arena survival-10 silent",
                "survival-10 Arena survival-9 lobby silent",
            ),
            (
                SortKey::Group,
                "Arena silent lobby survival-10 survival-9",
                "lobby survival-10 survival-9 Arena silent",
            ),
        ] {
            board.sort_by(board.sort().press(by));
            assert_eq!(names(&board).join(" "), first, "{by:?}");
            board.sort_by(board.sort().press(by));
            assert_eq!(names(&board).join(" "), again, "{by:?} reversed");
        }
        board.sort_by(board.sort().press(SortKey::Given));
        assert_eq!(names(&board)[0], "lobby");
    }

    #[test]
    fn numbers_in_names_sort_by_value() {
        for (a, b) in [
            ("a9", "a10"),
            ("a09b", "a9c"),
            ("A2", "b1"),
            ("127.0.0.2", "127.0.0.10"),
            ("a", "a1"),
            ("", "x"),
        ] {
            assert_eq!(
                (natural(a, b), natural(b, a)),
                (Ordering::Less, Ordering::Greater),
                "{a} {b}"
            );
        }
        assert_eq!(natural("Lobby-1", "lobby-01"), Ordering::Equal);
    }

    #[test]
    fn totals_count_all_servers_and_rows_the_matching_ones() {
        let mut board = board();
        let all = Totals {
            servers: 5,
            up: 4,
            down: 1,
            players: 12 + 250 + 3 + 40,
            max: 20 + 500 + 20 + 100,
        };
        assert_eq!(board.totals(), &all);
        board.filter_by(Filter::read("survival"));
        assert_eq!((board.len(), board.totals()), (2, &all));
        let id = ServerId(3);
        assert_eq!(
            (board.row_of(id), board.row_of(ServerId(1))),
            (Some(1), None)
        );
        assert_eq!(
            board.server(ServerId(1)).unwrap().seen.server.name,
            "lobby",
            "hidden, and known all the same"
        );
    }

    #[test]
    fn samples_are_stored_once_and_bounded() {
        let mut board = Board::default();
        for sample in 0..2_000 {
            let mut seen = seen(1, "lobby");
            if let Some(last) = &mut seen.last {
                last.at = sample / 2 * 5_000;
            }
            board.see(vec![seen]);
        }
        let entry = board.server(ServerId(1)).unwrap();
        assert_eq!(
            entry.samples.len(),
            MAX_SAMPLES,
            "the same sample twice is one"
        );
        assert_eq!(entry.samples.back().unwrap().at, 999 * 5_000);
        let events = (0..5_000).map(|at| simulated::event(1, at)).collect();
        board.happen(events);
        assert_eq!(board.events(ServerId(1)).count(), MAX_EVENTS);
        assert_eq!(
            board.events(ServerId(1)).next().unwrap().at,
            4_999,
            "the newest first"
        );
    }

    #[test]
    fn removed_servers_are_dropped_and_changes_returned() {
        let mut board = board();
        let mut down = seen(3, "survival-9");
        down.state = State::Down;
        let new = seen(9, "new");
        assert_eq!(
            board.see(vec![down.clone(), new]),
            [ServerId(3)],
            "a new server is no change"
        );
        assert_eq!(board.see(vec![down]), []);
        board.keep(&[ServerId(3), ServerId(9)]);
        assert_eq!(names(&board), ["survival-9", "new"]);
        assert_eq!(
            (board.row_of(ServerId(9)), board.row_of(ServerId(1))),
            (Some(1), None)
        );
    }

    #[test]
    fn sorts_ten_thousand_servers_in_time() {
        let mut board = Board::default();
        board.see(
            (0..10_000)
                .map(|id| seen(id, &format!("server-{}", id * 7_919 % 10_000)))
                .collect(),
        );
        let started = std::time::Instant::now();
        for (by, _) in SortKey::ALL {
            board.sort_by(Sort {
                by,
                is_descending: true,
            });
        }
        // Time for ten sorts in a debug build on a busy machine.
        assert!(
            started.elapsed().as_secs_f64() < 5.0,
            "{:?}",
            started.elapsed()
        );
        assert_eq!(board.len(), 10_000);
    }
}
