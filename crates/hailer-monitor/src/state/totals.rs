//! Totals of all servers, shared by pages, API and metrics.

use super::StateTable;
use super::row::{DAY_BUCKETS, ServerRow};
use crate::cached::Expiry;
use crate::health::State;
use crate::sample::{Millis, unix_millis};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of groups listed; the others count only in the sum.
const MAX_GROUPS: usize = 1_000;

/// Totals of all servers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Totals {
    /// Sum over all servers.
    #[serde(flatten)]
    pub(crate) all: Counts,
    /// Sums by group; the empty name stands for servers without one.
    pub(crate) groups: BTreeMap<String, Counts>,
    /// Sums by protocol id.
    pub(crate) protocols: BTreeMap<String, Counts>,
    /// Sum of the player limits of servers that answered.
    #[serde(skip)]
    pub(crate) players_max: u64,
    /// Mean number of players in each half-hour bucket of the last day.
    #[serde(skip)]
    pub(crate) day: [Option<f32>; DAY_BUCKETS],
}

/// Totals of some servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Counts {
    pub(crate) servers: u64,
    pub(crate) up: u64,
    pub(crate) down: u64,
    pub(crate) unknown: u64,
    pub(crate) flapping: u64,
    pub(crate) players_online: u64,
}

impl StateTable {
    /// Returns current totals, or recent ones if computing them is slow.
    pub(crate) fn totals(self: &Arc<Self>) -> Arc<Totals> {
        let table = self.clone();
        self.totals
            .get(Expiry::Time(Duration::ZERO), self.list(), move || {
                Totals::of(&table, unix_millis())
            })
    }
}

impl Totals {
    fn of(live: &StateTable, now: Millis) -> Self {
        let mut totals = Self {
            all: Counts::default(),
            groups: BTreeMap::new(),
            protocols: BTreeMap::new(),
            players_max: 0,
            day: [None; DAY_BUCKETS],
        };
        live.pick::<()>(|row| {
            totals.add(row, now);
            None
        });
        totals
    }

    fn add(&mut self, row: &ServerRow, now: Millis) {
        let last = row.last_answer();
        let players = last.and_then(|last| last.players).unwrap_or(0);
        let one = Counts {
            servers: 1,
            up: u64::from(row.state == State::Up),
            down: u64::from(row.state == State::Down),
            unknown: u64::from(row.state == State::Unknown),
            flapping: u64::from(row.is_flapping),
            players_online: u64::from(players),
        };
        self.all.add(one);
        self.players_max += u64::from(last.and_then(|last| last.max).unwrap_or(0));
        add(&mut self.protocols, row.protocol(), one);
        let group = &row.server.group;
        if self.groups.len() < MAX_GROUPS || self.groups.contains_key(group) {
            add(&mut self.groups, group, one);
        }
        let mut day = row.day.players(now);
        // At the start of a bucket, most servers have no sample in it yet: use the previous value.
        if let [.., before, last] = &mut day
            && row.state == State::Up
        {
            *last = last.or(*before);
        }
        for (sum, players) in self.day.iter_mut().zip(day) {
            *sum = players.map(|players| sum.unwrap_or(0.0) + players).or(*sum);
        }
    }
}

/// Adds to the counts of a name. Allocates only for new names.
fn add(sums: &mut BTreeMap<String, Counts>, key: &str, one: Counts) {
    match sums.get_mut(key) {
        Some(sum) => sum.add(one),
        None => {
            sums.insert(key.to_owned(), one);
        }
    }
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.servers += other.servers;
        self.up += other.up;
        self.down += other.down;
        self.unknown += other.unknown;
        self.flapping += other.flapping;
        self.players_online += other.players_online;
    }
}
