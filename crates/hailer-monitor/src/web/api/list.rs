//! Which servers a list shows, in which order, and from where on: a page begins after the last row of the one before, so that
//! servers that come, go or change places meanwhile make no doubles.

use super::params::Params;
use super::{Problem, describe};
use crate::health::State;
use crate::live::{Live, Row, Said};
use crate::sample::Millis;
use crate::server::{Server, ServerId};
use axum::http::Uri;
use std::cmp::Ordering;
use std::sync::Arc;

/// Servers of one page, and unless asked for otherwise.
pub(super) const MOST: usize = 500;
const PAGE: usize = 100;
/// Characters of a text to search for.
const LONGEST_SEARCH: usize = 100;
/// A cursor has a group and a name.
const LONGEST_CURSOR: usize = 200;

/// What a list shows.
pub(super) struct Wanted {
    group: Option<String>,
    protocol: Option<String>,
    state: Option<Match>,
    /// Keys, and values if they matter.
    labels: Vec<(String, Option<String>)>,
    search: Option<Search>,
    by: By,
    is_descending: bool,
    limit: usize,
    after: Option<Place>,
}

#[derive(Clone, Copy, PartialEq)]
enum Match {
    State(State),
    Flapping,
}

#[derive(Clone, Copy, PartialEq)]
enum By {
    Name,
    State,
    Players,
    Latency,
    Uptime,
    Group,
}

/// A row's place in the order. What is not known comes last, in either direction.
struct Place {
    number: Option<i64>,
    group: String,
    name: String,
}

struct Entry {
    number: Option<i64>,
    server: Arc<Server>,
    /// If it is searched.
    said: Option<Arc<Said>>,
}

/// A text to search for.
struct Search {
    /// In small letters.
    text: String,
}

/// A page of a list.
pub(super) struct Page {
    /// How many there are on all pages.
    pub(super) count: usize,
    pub(super) ids: Vec<ServerId>,
    /// Where the next page begins.
    pub(super) next: Option<String>,
}

impl Wanted {
    pub(super) fn read(uri: &Uri) -> Result<Self, Problem> {
        let known = ["group", "protocol", "state", "search", "sort", "order", "limit", "cursor"];
        let mut params = Params::read(uri, &known, &["label"]);
        let states = [
            ("up", Match::State(State::Up)),
            ("down", Match::State(State::Down)),
            ("unknown", Match::State(State::Unknown)),
            ("flapping", Match::Flapping),
        ];
        let orders = [
            ("name", By::Name),
            ("state", By::State),
            ("players", By::Players),
            ("latency", By::Latency),
            ("uptime", By::Uptime),
            ("group", By::Group),
        ];
        let protocols: Vec<_> = hailer::registry::PROTOCOLS.iter().map(|protocol| protocol.info().id).collect();
        let protocols: Vec<_> = protocols.iter().map(|id| (*id, *id)).collect();
        let by = params.word("sort", &orders).unwrap_or(By::Name);
        // An empty group is one: of those that have none.
        let group = params.take("group");
        let labels = params.all("label").into_iter().map(|label| match label.split_once('=') {
            Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
            None => (label, None),
        });
        let labels = labels.collect();
        let cursor = params.text("cursor", LONGEST_CURSOR);
        let after = cursor.and_then(|text| match Place::read(&text, by) {
            Some(place) => Some(place),
            None => params.refuse("cursor", "`next` of the page before, with the same `sort`"),
        });
        let wanted = Self {
            group,
            protocol: params.word("protocol", &protocols).map(str::to_owned),
            state: params.word("state", &states),
            labels,
            search: params.text("search", LONGEST_SEARCH).map(|text| Search { text: text.to_lowercase() }),
            by,
            // The most players first, unless told otherwise.
            is_descending: params.word("order", &[("asc", false), ("desc", true)]).unwrap_or(by == By::Players),
            limit: params.number("limit", 1..=MOST).unwrap_or(PAGE),
            after,
        };
        params.end().map(|()| wanted)
    }

    pub(super) fn find(&self, live: &Live, now: Millis) -> Page {
        let mut entries = live.pick(|row| {
            let said = self.search.is_some().then(|| row.said.clone()).flatten();
            let entry = || Entry { number: self.number(row, now), server: row.server.clone(), said };
            self.matches(row).then(entry)
        });
        // Not under the lock, since it takes long.
        if let Some(search) = &self.search {
            entries.retain(|entry| search.is_in(entry));
        }
        let count = entries.len();
        if let Some(after) = &self.after {
            let after = (after.number, &*after.group, &*after.name);
            entries.retain(|entry| self.order(self.rank(entry), after).is_gt());
        }
        let has_more = entries.len() > self.limit;
        if has_more {
            // Of a hundred thousand, only those that are shown are put in order.
            entries.select_nth_unstable_by(self.limit, |a, b| self.order(self.rank(a), self.rank(b)));
            entries.truncate(self.limit);
        }
        entries.sort_unstable_by(|a, b| self.order(self.rank(a), self.rank(b)));
        let next = entries.last().filter(|_| has_more).map(|entry| self.cursor(entry));
        Page { count, ids: entries.iter().map(|entry| entry.server.id).collect(), next }
    }

    fn matches(&self, row: &Row) -> bool {
        let server = &*row.server;
        let has = |(key, value): &(String, Option<String>)| {
            server.labels.get(key).is_some_and(|found| value.as_ref().is_none_or(|value| value == found))
        };
        self.group.as_ref().is_none_or(|group| *group == server.group)
            && self.protocol.as_ref().is_none_or(|id| describe::protocol(server).eq_ignore_ascii_case(id))
            && self.state.is_none_or(|state| match state {
                Match::State(state) => row.state == state,
                Match::Flapping => row.is_flapping,
            })
            && self.labels.iter().all(has)
    }

    fn number(&self, row: &Row, now: Millis) -> Option<i64> {
        match self.by {
            By::Name | By::Group => None,
            By::State => Some(row.state as i64),
            By::Players => row.last?.players.map(i64::from),
            By::Latency => row.last?.latency.map(i64::from),
            By::Uptime => row.day.uptime(now).map(|share| (share * 1e6) as i64),
        }
    }

    fn rank<'a>(&self, entry: &'a Entry) -> (Option<i64>, &'a str, &'a str) {
        let group = if self.by == By::Group { &*entry.server.group } else { "" };
        (entry.number, group, &entry.server.name)
    }

    fn order(&self, a: (Option<i64>, &str, &str), b: (Option<i64>, &str, &str)) -> Ordering {
        let turned = |order: Ordering| if self.is_descending { order.reverse() } else { order };
        let numbers = match (a.0, b.0) {
            (Some(a), Some(b)) => turned(a.cmp(&b)),
            (a, b) => b.is_some().cmp(&a.is_some()),
        };
        // Those of one number stand by name, in either direction.
        let names = a.2.cmp(b.2);
        numbers.then_with(|| turned(a.1.cmp(b.1))).then(if self.by == By::Name { turned(names) } else { names })
    }

    /// `NUMBER~GROUP~NAME`, with what the order needs: names have no tilde.
    fn cursor(&self, entry: &Entry) -> String {
        let (number, group, name) = self.rank(entry);
        let number = number.map(|number| number.to_string()).unwrap_or_default();
        format!("{number}~{group}~{name}")
    }
}

impl Place {
    fn read(text: &str, by: By) -> Option<Self> {
        let (number, rest) = text.split_once('~')?;
        let (group, name) = rest.rsplit_once('~')?;
        let number = if number.is_empty() { None } else { Some(number.parse().ok()?) };
        let is_sound = match by {
            By::Name => number.is_none() && group.is_empty(),
            By::Group => number.is_none(),
            _ => group.is_empty(),
        };
        is_sound.then(|| Self { number, group: group.into(), name: name.into() })
    }
}

impl Search {
    /// Whether it is in what people know of a server.
    fn is_in(&self, entry: &Entry) -> bool {
        let server = &*entry.server;
        let said = |said: &Said| {
            let words = [&said.title, &said.game, &said.version, &said.map];
            words.into_iter().flatten().any(|word| self.is_part(word))
                || said.motd.as_ref().is_some_and(|motd| self.is_part(&motd.plain()))
        };
        self.is_part(&server.name)
            || self.is_part(&server.target)
            || self.is_part(&server.group)
            || server.labels.values().any(|value| self.is_part(value))
            || entry.said.as_deref().is_some_and(said)
    }

    fn is_part(&self, whole: &str) -> bool {
        let text = self.text.as_bytes();
        match text.is_ascii() {
            true => whole.as_bytes().windows(text.len()).any(|part| part.eq_ignore_ascii_case(text)),
            false => whole.to_lowercase().contains(&self.text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Update;
    use crate::sample::Sample;
    use crate::server::Origin;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn live() -> Live {
        let live = Live::default();
        for id in 0..25 {
            let labels = [("even".to_owned(), (id % 2 == 0).to_string())].into();
            let (name, group) = (format!("s{id:02}"), ["", "a~b", "Zoo"][id as usize % 3].to_owned());
            let target = format!("{}://127.0.0.1", ["ugp", "onequery"][id as usize % 2]);
            let (id, interval) = (ServerId(id), None);
            live.set(Server { id, name, target, group, labels, interval, origin: Origin::Plan });
        }
        let servers = (0..20).map(ServerId).collect();
        live.change(Update { servers, ..Update::default() }, |row| {
            let (id, at) = (row.server.id, 1_000_000);
            let players = Some(id.0 as u32 / 4);
            (row.state, row.since) = (State::Up, at);
            let (max, latency) = (Some(9), Some(1_000));
            row.last = Some(Sample { server: id, at, answered: true, players, max, latency, sent: 2, resent: 0 });
        });
        live
    }

    fn names(live: &Live, query: &str) -> Vec<String> {
        let mut names = Vec::new();
        let mut cursor = String::new();
        loop {
            let uri = format!("/?{query}{cursor}").parse().unwrap();
            let page =
                Wanted::read(&uri).unwrap_or_else(|problem| panic!("{query}: {problem:?}")).find(live, 1_000_000);
            names.extend(page.ids.iter().map(|id| live.row(*id).unwrap().server.name.clone()));
            match page.next {
                Some(next) => cursor = format!("&cursor={}", next.replace('~', "%7E")),
                None if names.len() == page.count => return names,
                None => panic!("{query}: {} of {}", names.len(), page.count),
            }
        }
    }

    #[test]
    fn every_order_in_pages_is_the_order_in_one() {
        let live = live();
        for sort in ["name", "state", "players", "latency", "uptime", "group"] {
            for order in ["asc", "desc"] {
                let query = format!("sort={sort}&order={order}");
                let whole = names(&live, &query);
                assert_eq!(whole.len(), 25);
                assert_eq!(names(&live, &format!("{query}&limit=3")), whole, "{query}");
            }
        }
        let players = names(&live, "sort=players");
        assert_eq!((&*players[0], &*players[19], &*players[24]), ("s16", "s03", "s24"), "{players:?}");
        assert_eq!(names(&live, "sort=players&order=asc")[24], "s24", "what is not known comes last");
        assert_eq!(names(&live, "order=desc")[0], "s24");
    }

    proptest! {
        #[test]
        fn no_address_is_too_odd(pairs in vec(("[a-z]{0,8}|sort|group|label|cursor|search|limit|state", ".{0,40}|[0-9~-]{0,30}"), 0..6)) {
            let live = live();
            let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
            let uri = format!("/?{query}").parse().unwrap();
            if let Ok(wanted) = Wanted::read(&uri) {
                let page = wanted.find(&live, 1_000_000);
                prop_assert!(page.ids.len() <= page.count && page.count <= 25);
            }
        }
    }

    #[test]
    fn filters_meet() {
        let live = live();
        assert_eq!(names(&live, "group=").len(), 9);
        assert_eq!(names(&live, "group=a~b&state=up&protocol=ugp&label=even=true&limit=1"), ["s04", "s10", "s16"]);
        assert_eq!(names(&live, "label=even").len(), 25);
        assert_eq!(names(&live, "label=even&label=odd").len(), 0);
        assert_eq!(names(&live, "state=unknown").len(), 5);
        assert_eq!(names(&live, "search=ZOO").len(), 8);
        for bad in
            ["limit=0", "limit=501", "sort=x", "cursor=x", "cursor=x~~y", "grup=a", "state=up&state=up", "protocol=x"]
        {
            assert!(Wanted::read(&format!("/?{bad}").parse().unwrap()).is_err(), "{bad}");
        }
    }
}
