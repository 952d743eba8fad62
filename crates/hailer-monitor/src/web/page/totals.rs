//! Sums over all servers.

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

/// Groups to choose from; a list of more is for nobody.
const GROUPS: usize = 500;
/// Sums are kept for so many times as long as it took to make them, so that they never cost more than a fiftieth of a core.
const KEPT: u32 = 50;
/// Nobody waits for sums that took longer than this, unless there are none that are younger than that.
const LONG: Duration = Duration::from_millis(3);
const OLD: Duration = Duration::from_secs(10);

/// Sums over all servers.
#[derive(Debug)]
pub(crate) struct Totals {
    pub(crate) servers: usize,
    pub(crate) up: usize,
    pub(crate) down: usize,
    pub(crate) unknown: usize,
    pub(crate) flapping: usize,
    pub(crate) players: u64,
    /// Places on servers that are up.
    pub(crate) max: u64,
    /// Groups and protocols, with how many servers are of them.
    pub(crate) groups: Vec<(String, usize)>,
    pub(crate) protocols: Vec<(String, usize)>,
    /// Players of the last day.
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
            // At the start of a half hour most have not been asked in it: that is no dip.
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

/// Names are copied only the first time.
fn add(counts: &mut BTreeMap<String, usize>, name: &str) {
    match counts.get_mut(name) {
        Some(count) => *count += 1,
        None => {
            counts.insert(name.into(), 1);
        }
    }
}

/// The last sums, for all who ask.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Option<Last>>);

#[derive(Debug)]
struct Last {
    totals: Arc<Totals>,
    /// Until when they are good enough.
    until: Instant,
    /// How long it took to make them.
    took: Duration,
    /// Somebody makes new ones.
    is_made: bool,
}

impl Kept {
    /// Sums that are not much older than now. Those that take long to make are made while the old ones are shown.
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
        // Whoever comes meanwhile waits: making them twice would take as long.
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

/// The sums as the page shows them.
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
