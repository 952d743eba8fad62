//! Totals of all servers.

use crate::health::State;
use crate::sample::Millis;
use crate::state::{DAY_BUCKETS, StateTable};
use crate::web::chart::{Svg, sparkline};
use crate::web::page::filter::protocol;
use crate::web::show;
use askama::Template;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of groups in the filter.
const GROUPS: usize = 500;
/// Cached totals stay valid for this multiple of the time that computing them takes, so that it
/// uses at most 1/50 of a core.
const KEPT: u32 = 50;
/// Longest computation that a request waits for while cached totals are usable, and their maximum
/// age.
const LONG: Duration = Duration::from_millis(3);
const OLD: Duration = Duration::from_secs(10);

/// Totals of all servers.
#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) servers: usize,
    pub(crate) up: usize,
    pub(crate) down: usize,
    pub(crate) unknown: usize,
    pub(crate) flapping: usize,
    pub(crate) players: u64,
    /// Sum of the player limits of servers that answered.
    pub(crate) max: u64,
    /// Groups and protocols with their number of servers.
    pub(crate) groups: Vec<(String, usize)>,
    pub(crate) protocols: Vec<(String, usize)>,
    /// Players in the last 24 hours.
    day: [Option<f32>; DAY_BUCKETS],
}

impl Totals {
    fn of(live: &StateTable, now: Millis) -> Self {
        let mut sums = Self {
            servers: 0,
            up: 0,
            down: 0,
            unknown: 0,
            flapping: 0,
            players: 0,
            max: 0,
            groups: Vec::new(),
            protocols: Vec::new(),
            day: [None; DAY_BUCKETS],
        };
        let mut groups: BTreeMap<String, usize> = BTreeMap::new();
        let mut protocols: BTreeMap<String, usize> = BTreeMap::new();
        live.pick::<()>(|row| {
            sums.servers += 1;
            match row.state {
                State::Up => sums.up += 1,
                State::Down => sums.down += 1,
                State::Unknown => sums.unknown += 1,
            }
            sums.flapping += usize::from(row.is_flapping);
            if let Some(last) = row.last_sample.filter(|last| last.answered) {
                sums.players += u64::from(last.players.unwrap_or(0));
                sums.max += u64::from(last.max.unwrap_or(0));
            }
            let mut day = row.day.players(now);
            // At the start of a half hour, most servers have no sample in it yet: use the previous
            // value.
            if let [.., before, last] = &mut day
                && row.state == State::Up
            {
                *last = last.or(*before);
            }
            for (sum, players) in sums.day.iter_mut().zip(day) {
                *sum = players.map(|players| sum.unwrap_or(0.0) + players).or(*sum);
            }
            add(&mut groups, &row.server.group);
            add(&mut protocols, protocol(&row.server));
            None
        });
        sums.groups = groups
            .into_iter()
            .filter(|(group, _)| !group.is_empty())
            .take(GROUPS)
            .collect();
        sums.protocols = protocols
            .into_iter()
            .filter(|(protocol, _)| !protocol.is_empty())
            .collect();
        sums
    }
}

/// Allocates only for new names.
fn add(counts: &mut BTreeMap<String, usize>, name: &str) {
    match counts.get_mut(name) {
        Some(count) => *count += 1,
        None => {
            counts.insert(name.into(), 1);
        }
    }
}

/// Cached totals.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Option<Last>>);

#[derive(Debug)]
struct Last {
    totals: Arc<Totals>,
    /// When they expire.
    until: Instant,
    /// How long the computation took.
    took: Duration,
    /// Whether a task is computing new ones.
    is_made: bool,
}

impl Kept {
    /// Returns current totals. If computing them is slow, returns the cached ones and computes new
    /// ones in the background.
    pub(crate) fn totals(self: &Arc<Self>, live: &Arc<StateTable>, now: Millis) -> Arc<Totals> {
        let start = Instant::now();
        let mut kept = self.lock();
        if let Some(last) = kept.as_mut() {
            if start < last.until {
                return last.totals.clone();
            }
            if last.took > LONG && start < last.until + OLD {
                if !std::mem::replace(&mut last.is_made, true) {
                    let (kept, live) = (self.clone(), live.clone());
                    tokio::task::spawn_blocking(move || {
                        let made = Last::of(&live, now);
                        *kept.lock() = Some(made);
                    });
                }
                return last.totals.clone();
            }
        }
        // Other requests wait for the lock: computing twice would take as long.
        kept.insert(Last::of(live, now)).totals.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Last {
    fn of(live: &StateTable, now: Millis) -> Self {
        let start = Instant::now();
        let totals = Arc::new(Totals::of(live, now));
        let end = Instant::now();
        let took = end - start;
        Self {
            totals,
            until: end + took * KEPT,
            took,
            is_made: false,
        }
    }
}

/// Totals as shown on the page.
#[derive(Template)]
#[template(path = "totals.html")]
pub(crate) struct TotalsView {
    servers: String,
    up: String,
    up_share: String,
    down: Option<String>,
    unknown: Option<String>,
    flapping: Option<String>,
    players: String,
    max: Option<String>,
    day: Svg,
}

impl TotalsView {
    pub(crate) fn of(totals: &Totals) -> Self {
        let number = |number: usize| show::count(number as u64);
        let some = |count: usize| (count > 0).then(|| number(count));
        Self {
            servers: number(totals.servers),
            up: number(totals.up),
            up_share: show::share(totals.up as u64, totals.servers as u64),
            down: some(totals.down),
            unknown: some(totals.unknown),
            flapping: some(totals.flapping),
            players: show::count(totals.players),
            max: (totals.max > 0).then(|| show::count(totals.max)),
            day: sparkline(&totals.day, None),
        }
    }
}
