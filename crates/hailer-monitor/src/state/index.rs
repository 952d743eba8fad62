//! Index of all servers: names in order, and searchable texts, in contiguous memory. Without it,
//! reading the texts of 100,000 rows takes 250 ms, and sorting their names another 250 ms.
//!
//! Both parts are [`Cached`]. Names are rebuilt after servers were added or removed, texts also after
//! some time.

use super::find::{SearchTerms, ServerMatch, natural};
use crate::cached::{Cached, Expiry};
use crate::server::{Server, ServerId};
use crate::state::StateTable;
use crate::state::row::{LastStatus, ServerRow};
use compact_str::CompactString;
use memchr::memmem::{self, Finder};
use std::sync::Arc;
use std::time::Duration;

/// Number of rows read per lock.
const SERVERS_PER_LOCK: usize = 2_048;

/// Cached names and texts.
#[derive(Debug, Default)]
pub(crate) struct Index {
    names: Cached<Names>,
    texts: Cached<Texts>,
}

/// All servers in the order of their names.
#[derive(Debug)]
struct Names {
    ids: Vec<ServerId>,
    /// All names concatenated, and the end of each.
    names: String,
    ends: Vec<usize>,
}

/// Searchable texts in lower case, in the order of names, one line per text.
#[derive(Debug)]
struct Texts {
    names: Arc<Names>,
    text: String,
    ends: Vec<usize>,
}

/// Servers in the order of their names: all, or those that match a search.
pub(crate) struct Candidates {
    names: Arc<Names>,
    /// Positions in that order; `None`: all.
    found: Option<Vec<usize>>,
}

impl Candidates {
    pub(crate) fn of(live: &Arc<StateTable>, words: &SearchTerms) -> Self {
        if words.is_empty() {
            return Self {
                names: names(live),
                found: None,
            };
        }
        let table = live.clone();
        let texts = live
            .index()
            .texts
            .get(Expiry::Time(Duration::ZERO), live.list(), move || {
                Texts::of(&table)
            });
        Self {
            names: texts.names.clone(),
            found: Some(texts.find(words)),
        }
    }

    /// Maps rows, in order, with their position among all servers; `None` skips a row.
    pub(crate) fn pick<T>(
        &self,
        live: &StateTable,
        mut pick: impl FnMut(usize, &ServerRow) -> Option<T>,
    ) -> Vec<T> {
        match &self.found {
            None => live.pick_of(&self.names.ids, pick),
            Some(found) => {
                let ids: Vec<ServerId> = found.iter().map(|place| self.names.ids[*place]).collect();
                live.pick_of(&ids, |nth, row| pick(found[nth], row))
            }
        }
    }

    /// Returns positions and ids of the matching servers. Reads no row if all match.
    pub(crate) fn matching(
        &self,
        live: &StateTable,
        matching: &ServerMatch,
    ) -> Vec<(usize, ServerId)> {
        if *matching != ServerMatch::default() {
            return self.pick(live, |place, row| {
                matching.fits(row).then_some((place, row.server.id))
            });
        }
        match &self.found {
            None => self.names.ids.iter().copied().enumerate().collect(),
            Some(found) => found
                .iter()
                .map(|place| (*place, self.names.ids[*place]))
                .collect(),
        }
    }

    /// Returns the name at a position.
    pub(crate) fn name(&self, place: usize) -> &str {
        self.names.name(place)
    }

    /// Returns the position of a name, or as an error the position where it would be.
    pub(crate) fn place(&self, name: &str) -> Result<usize, usize> {
        let names = &*self.names;
        let mut from = 0;
        let mut to = names.ids.len();
        while from < to {
            let middle = (from + to) / 2;
            match natural(names.name(middle), name) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        Err(from)
    }
}

fn names(live: &Arc<StateTable>) -> Arc<Names> {
    let table = live.clone();
    live.index()
        .names
        .get(Expiry::Version, live.list(), move || Names::of(&table))
}

impl Names {
    fn of(live: &Arc<StateTable>) -> Self {
        let mut all =
            live.pick(|row| Some((CompactString::from(row.server.name.as_str()), row.server.id)));
        all.sort_unstable_by(|a, b| natural(&a.0, &b.0));
        let mut names = String::new();
        let mut ends = Vec::with_capacity(all.len());
        for (name, _) in &all {
            names.push_str(name);
            ends.push(names.len());
        }
        Self {
            ids: all.into_iter().map(|(_, id)| id).collect(),
            names,
            ends,
        }
    }

    fn name(&self, place: usize) -> &str {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.names[start..self.ends[place]]
    }
}

impl Texts {
    fn of(live: &Arc<StateTable>) -> Self {
        let names = names(live);
        let mut text = String::new();
        let mut ends = Vec::with_capacity(names.ids.len());
        for ids in names.ids.chunks(SERVERS_PER_LOCK) {
            // Copy only pointers under the lock.
            let rows = live.pick_of(ids, |nth, row| {
                Some((nth, row.server.clone(), row.last_status.clone()))
            });
            let mut rows = rows.into_iter().peekable();
            for nth in 0..ids.len() {
                if let Some((_, server, status)) = rows.next_if(|row| row.0 == nth) {
                    write(&mut text, &server, status.as_deref());
                }
                ends.push(text.len());
            }
        }
        Self { names, text, ends }
    }

    /// Returns the positions of the servers that contain all words.
    fn find(&self, words: &SearchTerms) -> Vec<usize> {
        let text = self.text.as_bytes();
        let mut found = Vec::new();
        let Some((first, others)) = words.all().split_first() else {
            return (0..self.ends.len()).collect();
        };
        let finder = Finder::new(first);
        let mut start = 0;
        let mut place = 0;
        while let Some(hit) = finder.find(&text[start..]) {
            while self.ends[place] <= start + hit {
                place += 1;
            }
            let begin = if place == 0 { 0 } else { self.ends[place - 1] };
            let own = &text[begin..self.ends[place]];
            if others
                .iter()
                .all(|word| memmem::find(own, word.as_bytes()).is_some())
            {
                found.push(place);
            }
            start = self.ends[place];
        }
        found
    }
}

/// Writes the searchable texts of a server. Words contain no whitespace, so no match spans two
/// lines.
fn write(text: &mut String, server: &Server, status: Option<&LastStatus>) {
    let mut add = |part: &str| {
        if part.is_ascii() {
            text.extend(part.chars().map(|char| char.to_ascii_lowercase()));
        } else {
            text.push_str(&part.to_lowercase());
        }
        text.push('\n');
    };
    add(&server.name);
    add(&server.target);
    add(&server.group);
    for value in server.labels.values() {
        add(value);
    }
    let Some(status) = status else { return };
    [&status.title, &status.version, &status.map, &status.game]
        .into_iter()
        .flatten()
        .for_each(|part| add(part));
    if let Some(motd) = &status.motd {
        add(&motd.plain());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Origin;
    use crate::state::Update;
    use hailer::proto::Text;

    #[test]
    fn search_finds_current_servers_only() {
        let live = Arc::new(StateTable::default());
        let server = |id: i64, name: &str| Server {
            id: ServerId(id),
            name: name.into(),
            target: "ugp://127.0.0.1".into(),
            group: "Süd".into(),
            labels: [("region".to_owned(), "Far West".to_owned())].into(),
            interval: None,
            origin: Origin::Configuration,
        };
        for (id, name) in [(1, "node-10"), (2, "node-9"), (3, "Lobby")] {
            live.set(server(id, name));
        }
        let status = LastStatus {
            motd: Some(Text::legacy("\u{A7}6Wel\u{A7}acome\nhome")),
            ..LastStatus::default()
        };
        let status = Arc::new(LastStatus {
            version: Some("1.21".into()),
            ..status
        });
        live.change(Update::of(vec![ServerId(2)]), |row| {
            row.last_status = Some(status.clone())
        });
        let find = |words: &str| {
            let all = Candidates::of(&live, &SearchTerms::of(words));
            let found = all.matching(&live, &ServerMatch::default());
            assert!(
                found
                    .iter()
                    .all(|(place, id)| all.name(*place) == live.row(*id).unwrap().server.name)
            );
            found.into_iter().map(|(_, id)| id.0).collect::<Vec<_>>()
        };
        assert_eq!(find(""), [3, 2, 1], "as people count");
        assert_eq!(
            (find("SÜD"), find("node"), find("ode-1"), find("west")),
            (vec![3, 2, 1], vec![2, 1], vec![1], vec![3, 2, 1])
        );
        assert_eq!(
            (
                find("welcome 1.21"),
                find("welcome lobby"),
                find("comehome")
            ),
            (vec![2], vec![], vec![])
        );
        live.set(server(4, "lobby-2"));
        live.remove(ServerId(1));
        assert_eq!(
            (find(""), find("lobby")),
            (vec![3, 4, 2], vec![3, 4]),
            "at once, of so few"
        );
        let all = Candidates::of(&live, &SearchTerms::default());
        assert_eq!(
            (
                all.place("Lobby"),
                all.place("lobby-2"),
                all.place("m"),
                all.place("z")
            ),
            (Ok(0), Ok(1), Err(2), Err(3))
        );
        let narrow = ServerMatch {
            group: Some(String::new()),
            ..ServerMatch::default()
        };
        assert_eq!(all.matching(&live, &narrow), []);
    }
}
