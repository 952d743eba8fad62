//! Lists of servers with filters and cursors. A page begins after the last row of the previous
//! page, so that servers that are added, removed or reordered in between do not appear twice.

use super::Problem;
use super::params::Params;
use crate::sample::Millis;
use crate::server::ServerId;
use crate::state::find::{
    MAX_SEARCH_CHARS, SearchTerms, ServerMatch, Sort, StateFilter, directed, natural,
};
use crate::state::index::Candidates;
use crate::state::{ServerRow, StateTable};
use axum::http::Uri;
use compact_str::CompactString;
use std::cmp::Ordering;
use std::sync::Arc;

/// Maximum number of servers per page.
pub(super) const MAX_SERVERS_PER_PAGE: usize = 500;
const DEFAULT_SERVERS_PER_PAGE: usize = 100;
/// Maximum length of a cursor: it contains a group and a name.
const MAX_CURSOR_CHARS: usize = 200;

/// Parameters of a list request.
pub(super) struct ListQuery {
    matching: ServerMatch,
    words: SearchTerms,
    by: Sort,
    is_descending: bool,
    limit: usize,
    after: Option<RowPosition>,
}

/// Position of a row in the order. Unknown values come last, in either direction.
struct RowPosition {
    number: Option<i64>,
    group: String,
    name: String,
}

struct ListEntry {
    number: Option<i64>,
    /// Empty unless sorted by group.
    group: CompactString,
    /// Position among all names.
    place: usize,
    id: ServerId,
}

/// One page of a list.
pub(super) struct Page {
    /// Number of servers on all pages.
    pub(super) count: usize,
    pub(super) ids: Vec<ServerId>,
    /// Cursor of the next page.
    pub(super) next: Option<String>,
}

impl ListQuery {
    pub(super) fn read(uri: &Uri) -> Result<Self, Problem> {
        let known = [
            "group", "protocol", "state", "search", "sort", "order", "limit", "cursor",
        ];
        let mut params = Params::read(uri, &known, &["label"]);
        let states = StateFilter::ALL.map(|(state, word)| (word, state));
        let orders: Vec<_> = Sort::ALL
            .into_iter()
            .filter(|(sort, ..)| *sort != Sort::Version)
            .collect();
        let orders: Vec<_> = orders
            .iter()
            .map(|(sort, word, _)| (*word, *sort))
            .collect();
        let protocols: Vec<_> = hailer::proto::registry::PROTOCOLS
            .iter()
            .map(|protocol| protocol.info().id)
            .collect();
        let protocols: Vec<_> = protocols.iter().map(|id| (*id, *id)).collect();
        let by = params.word("sort", &orders).unwrap_or(Sort::Name);
        // An empty group selects servers without one.
        let group = params.take("group");
        let labels = params
            .all("label")
            .into_iter()
            .map(|label| match label.split_once('=') {
                Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
                None => (label, None),
            });
        let labels = labels.collect();
        let cursor = params.text("cursor", MAX_CURSOR_CHARS);
        let after = cursor.and_then(|text| match RowPosition::read(&text, by) {
            Some(place) => Some(place),
            None => params.refuse(
                "cursor",
                "must be `next` of the previous page, with the same `sort`",
            ),
        });
        let wanted = Self {
            matching: ServerMatch {
                group,
                protocol: params.word("protocol", &protocols).map(str::to_owned),
                state: params.word("state", &states),
                labels,
            },
            words: params
                .text("search", MAX_SEARCH_CHARS)
                .map(|text| SearchTerms::of(&text))
                .unwrap_or_default(),
            by,
            // Players descend by default.
            is_descending: params
                .word("order", &[("asc", false), ("desc", true)])
                .unwrap_or(by.is_descending()),
            limit: params
                .number("limit", 1..=MAX_SERVERS_PER_PAGE)
                .unwrap_or(DEFAULT_SERVERS_PER_PAGE),
            after,
        };
        params.end().map(|()| wanted)
    }

    pub(super) fn find(&self, live: &Arc<StateTable>, now: Millis) -> Page {
        let all = Candidates::of(live, &self.words);
        let mut entries: Vec<ListEntry> = if self.by == Sort::Name {
            let all = all.matching(live, &self.matching).into_iter();
            all.map(|(place, id)| ListEntry {
                number: None,
                group: CompactString::default(),
                place,
                id,
            })
            .collect()
        } else {
            all.pick(live, |place, row| {
                self.matching.fits(row).then(|| self.entry(place, row, now))
            })
        };
        let count = entries.len();
        if let Some(after) = &self.after {
            let place = all.place(&after.name);
            let names = |entry: &ListEntry| match place {
                Ok(place) => entry.place.cmp(&place),
                Err(next) if entry.place < next => Ordering::Less,
                Err(_) => Ordering::Greater,
            };
            entries.retain(|entry| {
                self.order(entry, after.number, &after.group, names(entry))
                    .is_gt()
            });
        }
        let order =
            |a: &ListEntry, b: &ListEntry| self.order(a, b.number, &b.group, a.place.cmp(&b.place));
        let has_more = entries.len() > self.limit;
        if has_more {
            // Sort only the rows of the page.
            entries.select_nth_unstable_by(self.limit, order);
            entries.truncate(self.limit);
        }
        entries.sort_unstable_by(order);
        let next = entries
            .last()
            .filter(|_| has_more)
            .map(|entry| cursor(entry, all.name(entry.place)));
        Page {
            count,
            ids: entries.iter().map(|entry| entry.id).collect(),
            next,
        }
    }

    fn entry(&self, place: usize, row: &ServerRow, now: Millis) -> ListEntry {
        let group = if self.by == Sort::Group {
            &*row.server.group
        } else {
            ""
        };
        ListEntry {
            number: self.by.number(row, now),
            group: group.into(),
            place,
            id: row.server.id,
        }
    }

    /// Compares two entries whose names are in this order.
    fn order(
        &self,
        entry: &ListEntry,
        number: Option<i64>,
        group: &str,
        names: Ordering,
    ) -> Ordering {
        let turned = |order: Ordering| {
            if self.is_descending {
                order.reverse()
            } else {
                order
            }
        };
        // Entries with the same number are sorted by name, always ascending.
        directed(
            self.is_descending,
            entry.number.as_ref(),
            number.as_ref(),
            i64::cmp,
        )
        .then_with(|| turned(natural(&entry.group, group)))
        .then(if self.by == Sort::Name {
            turned(names)
        } else {
            names
        })
    }
}

/// Format: `NUMBER~GROUP~NAME`, with the parts that the order needs. Names contain no tilde.
fn cursor(entry: &ListEntry, name: &str) -> String {
    let number = entry
        .number
        .map(|number| number.to_string())
        .unwrap_or_default();
    format!("{number}~{}~{name}", entry.group)
}

impl RowPosition {
    fn read(text: &str, by: Sort) -> Option<Self> {
        let (number, rest) = text.split_once('~')?;
        let (group, name) = rest.rsplit_once('~')?;
        let number = if number.is_empty() {
            None
        } else {
            Some(number.parse().ok()?)
        };
        let is_sound = match by {
            Sort::Name => number.is_none() && group.is_empty(),
            Sort::Group => number.is_none(),
            _ => group.is_empty(),
        };
        is_sound.then(|| Self {
            number,
            group: group.into(),
            name: name.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::health::State;
    use crate::sample::Sample;
    use crate::server::{Origin, Server};
    use crate::state::Update;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn live() -> Arc<StateTable> {
        let live = Arc::new(StateTable::default());
        for id in 0..25 {
            let labels = [("even".to_owned(), (id % 2 == 0).to_string())].into();
            let name = format!("s{id:02}");
            let group = ["", "a~b", "Zoo"][id as usize % 3].to_owned();
            let target = format!("{}://127.0.0.1", ["ugp", "onequery"][id as usize % 2]);
            let id = ServerId(id);
            let interval = None;
            live.set(Server {
                id,
                name,
                target,
                group,
                labels,
                interval,
                origin: Origin::Configuration,
            });
        }
        let servers = (0..20).map(ServerId).collect();
        live.change(
            Update {
                servers,
                ..Update::default()
            },
            |row| {
                let id = row.server.id;
                let at = 1_000_000;
                let players = Some(id.0 as u32 / 4);
                row.state = State::Up;
                row.since = at;
                let max = Some(9);
                let latency = Some(1_000);
                row.last_sample = Some(Sample {
                    observed_ms: 0,
                    server: id,
                    at,
                    is_answered: true,
                    players,
                    max,
                    latency,
                    sent: 2,
                    resent: 0,
                });
            },
        );
        live
    }

    fn names(live: &Arc<StateTable>, query: &str) -> Vec<String> {
        let mut names = Vec::new();
        let mut cursor = String::new();
        loop {
            let uri = format!("/?{query}{cursor}").parse().unwrap();
            let page = ListQuery::read(&uri)
                .unwrap_or_else(|problem| panic!("{query}: {problem:?}"))
                .find(live, 1_000_000);
            names.extend(
                page.ids
                    .iter()
                    .map(|id| live.row(*id).unwrap().server.name.clone()),
            );
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
        assert_eq!(
            (&*players[0], &*players[19], &*players[24]),
            ("s16", "s03", "s24"),
            "{players:?}"
        );
        assert_eq!(
            names(&live, "sort=players&order=asc")[24],
            "s24",
            "unknown values come last"
        );
        assert_eq!(names(&live, "order=desc")[0], "s24");
    }

    proptest! {
        #[test]
        fn no_address_is_too_odd(pairs in vec(("[a-z]{0,8}|sort|group|label|cursor|search|limit|state", ".{0,40}|[0-9~-]{0,30}"), 0..6)) {
            let live = live();
            let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
            let uri = format!("/?{query}").parse().unwrap();
            if let Ok(wanted) = ListQuery::read(&uri) {
                let page = wanted.find(&live, 1_000_000);
                prop_assert!(page.ids.len() <= page.count && page.count <= 25);
            }
        }
    }

    #[test]
    fn filters_meet() {
        let live = live();
        assert_eq!(names(&live, "group=").len(), 9);
        assert_eq!(
            names(
                &live,
                "group=a~b&state=up&protocol=ugp&label=even=true&limit=1"
            ),
            ["s04", "s10", "s16"]
        );
        assert_eq!(names(&live, "label=even").len(), 25);
        assert_eq!(names(&live, "label=even&label=odd").len(), 0);
        assert_eq!(names(&live, "state=unknown").len(), 5);
        assert_eq!(names(&live, "search=ZOO").len(), 8);
        for bad in [
            "limit=0",
            "limit=501",
            "sort=x",
            "cursor=x",
            "cursor=x~~y",
            "grup=a",
            "state=up&state=up",
            "protocol=x",
        ] {
            assert!(
                ListQuery::read(&format!("/?{bad}").parse().unwrap()).is_err(),
                "{bad}"
            );
        }
    }
}
