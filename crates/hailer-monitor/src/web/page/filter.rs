//! Filter and order of the server list, and their representation in the URL.

use crate::sample::Millis;
use crate::server::ServerId;
use crate::state::find::{MAX_SEARCH_CHARS, SearchTerms, ServerMatch, directed, natural};
use crate::state::index::Candidates;
use crate::state::{ServerRow, StateTable};
use compact_str::CompactString;
use std::cmp::Ordering;
use std::sync::Arc;

pub(crate) use crate::state::find::{Sort, StateFilter};

/// Number of rows per page.
pub(crate) const PAGE: usize = 100;

/// Parameters of the list.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Filter {
    /// Search as typed; all words must match.
    pub(crate) search: String,
    /// Group of the servers; empty: all.
    pub(crate) group: String,
    /// Protocol id; empty: all.
    pub(crate) protocol: String,
    pub(crate) state: Option<StateFilter>,
    pub(crate) sort: Sort,
    /// Whether the order is reversed.
    pub(crate) is_reversed: bool,
    /// Number of the page, counted from 0.
    pub(crate) page: usize,
}

/// Result of a list.
pub(crate) struct FilteredPage {
    /// Number of servers on all pages.
    pub(crate) count: usize,
    /// Copies of the rows of this page.
    pub(crate) rows: Vec<ServerRow>,
    /// Number of this page: the last one, if a later one was requested.
    pub(crate) page: usize,
}

impl Filter {
    /// Parses a URL query. Unknown parts are ignored, so links from earlier versions work.
    pub(crate) fn read(query: &str) -> Self {
        let mut filter = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "q" => filter.search = value.trim().chars().take(MAX_SEARCH_CHARS).collect(),
                "group" => filter.group = value.into_owned(),
                "protocol" => filter.protocol = value.into_owned(),
                "state" => {
                    filter.state = StateFilter::ALL
                        .iter()
                        .find(|(_, word)| *word == value)
                        .map(|(shown, _)| *shown);
                }
                "sort" => {
                    let word = value.strip_prefix('-');
                    filter.is_reversed = word.is_some();
                    let word = word.unwrap_or(&value);
                    filter.sort = Sort::ALL
                        .iter()
                        .find(|(_, known, _)| *known == word)
                        .map_or_else(Sort::default, |s| s.0);
                }
                "page" => filter.page = value.parse::<usize>().unwrap_or(1).saturating_sub(1),
                _ => {}
            }
        }
        filter
    }

    /// Returns the URL of the list, without default values.
    pub(crate) fn address(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        let usual = Self::default();
        for (key, value) in [
            ("q", &self.search),
            ("group", &self.group),
            ("protocol", &self.protocol),
        ] {
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
        if query.is_empty() {
            "/".into()
        } else {
            format!("/?{query}")
        }
    }

    /// Whether it hides some servers.
    pub(crate) fn is_narrow(&self) -> bool {
        let Self {
            search,
            group,
            protocol,
            state,
            ..
        } = self;
        state.is_some()
            || [search, group, protocol]
                .iter()
                .any(|text| !text.is_empty())
    }

    pub(crate) fn state_word(&self) -> Option<&'static str> {
        StateFilter::ALL
            .iter()
            .find(|(shown, _)| Some(*shown) == self.state)
            .map(|(_, word)| *word)
    }

    pub(crate) fn sort_word(&self) -> String {
        format!(
            "{}{}",
            if self.is_reversed { "-" } else { "" },
            self.sort.word()
        )
    }

    /// Returns the rows of the page.
    pub(crate) fn find(&self, live: &Arc<StateTable>, now: Millis) -> FilteredPage {
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let group = text(&self.group);
        let protocol = text(&self.protocol);
        let wanted = ServerMatch {
            group,
            protocol,
            state: self.state,
            labels: Vec::new(),
        };
        let words = SearchTerms::of(&self.search);
        let (count, page, ids) = match self.sort {
            Sort::Players | Sort::Latency | Sort::Uptime | Sort::State => {
                let number = |row: &ServerRow| {
                    wanted
                        .fits(row)
                        .then(|| (self.sort.number(row, now), row.server.id))
                };
                let mut numbers = if words.is_empty() {
                    live.pick(number)
                } else {
                    Candidates::of(live, &words).pick(live, |_, row| number(row))
                };
                let compare = |a: &(Option<i64>, ServerId), b: &(Option<i64>, ServerId)| {
                    self.directed(a.0.as_ref(), b.0.as_ref(), i64::cmp)
                        .then_with(|| a.1.cmp(&b.1))
                };
                let (page, shown) = self.page_of(&mut numbers, compare);
                let ids: Vec<ServerId> = shown.iter().map(|(_, id)| *id).collect();
                (numbers.len(), page, ids)
            }
            Sort::Name => {
                let mut all = Candidates::of(live, &words).matching(live, &wanted);
                let (page, shown) = self.page_of(&mut all, |a, b| {
                    self.directed(Some(&a.0), Some(&b.0), usize::cmp)
                });
                let ids: Vec<ServerId> = shown.iter().map(|(_, id)| *id).collect();
                (all.len(), page, ids)
            }
            Sort::Group | Sort::Version => {
                let entry = |place, row: &ServerRow| {
                    wanted
                        .fits(row)
                        .then(|| (self.text(row), place, row.server.id))
                };
                let mut texts = Candidates::of(live, &words).pick(live, entry);
                let (page, shown) = self.page_of(&mut texts, |a, b| {
                    self.directed(a.0.as_deref(), b.0.as_deref(), natural)
                        .then(a.1.cmp(&b.1))
                });
                let ids: Vec<ServerId> = shown.iter().map(|(.., id)| *id).collect();
                (texts.len(), page, ids)
            }
        };
        FilteredPage {
            count,
            rows: ids.into_iter().filter_map(|id| live.row(id)).collect(),
            page,
        }
    }

    /// Sorts only the entries of the page, and returns its number and entries.
    fn page_of<'a, T>(
        &self,
        entries: &'a mut [T],
        compare: impl Fn(&T, &T) -> Ordering,
    ) -> (usize, &'a [T]) {
        let page = self.page.min(entries.len().saturating_sub(1) / PAGE);
        let start = page * PAGE;
        let end = ((page + 1) * PAGE).min(entries.len());
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

    /// Returns the sort key if it is a text. Copied, so that comparisons stay in the cache.
    fn text(&self, row: &ServerRow) -> Option<CompactString> {
        match self.sort {
            Sort::Group => Some(&row.server.group)
                .filter(|group| !group.is_empty())
                .map(CompactString::from),
            Sort::Version => row.last_status.as_ref()?.version.clone(),
            _ => None,
        }
    }

    fn directed<T: ?Sized>(
        &self,
        a: Option<&T>,
        b: Option<&T>,
        compare: fn(&T, &T) -> Ordering,
    ) -> Ordering {
        directed(self.is_reversed != self.sort.is_descending(), a, b, compare)
    }
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
            state: Some(StateFilter::Down),
            sort: Sort::Uptime,
            is_reversed: true,
            page: 2,
        };
        let address = filter.address();
        assert!(
            address.starts_with("/?q=a+%26+b%3D%C3%A4&group=EU+west"),
            "{address}"
        );
        assert_eq!(Filter::read(address.trim_start_matches("/?")), filter);
        assert_eq!(Filter::default().address(), "/");
        let odd = Filter::read(
            "q=%ff&q=x&page=-1&page=99999999999999999999999&sort=--&state=sideways&=&&%",
        );
        assert_eq!((odd.page, odd.sort, odd.state), (0, Sort::default(), None));
    }
}
