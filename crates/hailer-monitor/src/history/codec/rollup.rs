//! Columns of roll-ups.

use super::{BlockRow, ColumnReader, ColumnWriter, spread};
use crate::sample::{Millis, Sample};
use crate::server::ServerId;

/// Sums of the samples of a server in one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rollup {
    /// Start of the bucket, in Unix milliseconds.
    pub(crate) at: Millis,
    pub(crate) polls: i64,
    pub(crate) answered: i64,
    /// Replies with a number of players.
    pub(crate) with_players: i64,
    /// Sum of the players in these replies.
    pub(crate) players: Option<i64>,
    pub(crate) players_max: Option<i64>,
    pub(crate) max: Option<i64>,
    /// Replies with a latency.
    pub(crate) with_latency: i64,
    /// Sum of these latencies, in microseconds.
    pub(crate) latency: Option<i64>,
    pub(crate) latency_max: Option<i64>,
    pub(crate) sent: i64,
    pub(crate) resent: i64,
    /// Time that the samples stand for, in milliseconds.
    pub(crate) observed_ms: Option<i64>,
    /// Part of this time in which the server replied.
    pub(crate) up_ms: Option<i64>,
}

/// Returns the expected maximum of some players: their mean, rounded up.
fn mean(sum: Option<i64>, count: i64) -> i64 {
    let count = count.max(1);
    let sum = sum.unwrap_or(0);
    sum.wrapping_div(count)
        .wrapping_add((sum % count > 0).into())
}

/// Returns the expected time with replies.
fn expected_up(observed: Option<i64>, polls: i64, answered: i64) -> i64 {
    let observed = observed.unwrap_or(0);
    if polls == answered {
        return observed;
    }
    let up = i128::from(observed) * i128::from(answered) / i128::from(polls.max(1));
    up as i64
}

impl BlockRow for Rollup {
    const DISTANCE: i64 = 1;

    fn at(&self) -> Millis {
        self.at
    }

    fn write(rows: &[Self], _: &[i64], columns: &mut ColumnWriter) {
        columns.steady(rows.iter().map(|row| row.polls));
        let less: [fn(&Self) -> i64; 3] = [
            |row| row.polls.wrapping_sub(row.answered),
            |row| row.answered.wrapping_sub(row.with_players),
            |row| row.answered.wrapping_sub(row.with_latency),
        ];
        for less in less {
            columns.steady(rows.iter().map(less));
        }
        let players = optional(rows, columns, |row| row.players, |row| row.with_players > 0);
        columns.steady(players);
        let above = |row: &Self| {
            let mean = mean(row.players, row.with_players);
            row.players_max.map(|most| most.wrapping_sub(mean))
        };
        let players_max = optional(rows, columns, above, |row| row.with_players > 0);
        columns.numbers(&players_max);
        let max = optional(rows, columns, |row| row.max, |row| row.with_players > 0);
        columns.steady(max);
        let latency = optional(rows, columns, |row| row.latency, |row| row.with_latency > 0);
        columns.measured(&latency);
        let latency_max = optional(
            rows,
            columns,
            |row| row.latency_max,
            |row| row.with_latency > 0,
        );
        columns.measured(&latency_max);
        columns.steady(rows.iter().map(|row| row.sent.wrapping_sub(row.resent)));
        columns.steady(rows.iter().map(|row| row.resent));
        let observed = optional(rows, columns, |row| row.observed_ms, |_| true);
        columns.steady(observed);
        let missing = |row: &Self| {
            let expected = expected_up(row.observed_ms, row.polls, row.answered);
            row.up_ms.map(|up| up.wrapping_sub(expected))
        };
        let up = optional(rows, columns, missing, |_| true);
        columns.numbers(&up);
    }

    fn read(
        _: ServerId,
        times: &[Millis],
        _: &[i64],
        columns: &mut ColumnReader<'_>,
    ) -> Option<Vec<Self>> {
        let count = times.len();
        let mut rows: Vec<Self> = times
            .iter()
            .map(|at| Self {
                at: *at,
                ..Self::default()
            })
            .collect();
        let polls = columns.steady(count)?;
        let less = [
            columns.steady(count)?,
            columns.steady(count)?,
            columns.steady(count)?,
        ];
        for (nth, row) in rows.iter_mut().enumerate() {
            row.polls = polls[nth];
            row.answered = row.polls.wrapping_sub(less[0][nth]);
            row.with_players = row.answered.wrapping_sub(less[1][nth]);
            row.with_latency = row.answered.wrapping_sub(less[2][nth]);
        }
        let (flags, count) = read_flags(columns, &rows, |row| row.with_players > 0)?;
        let values = columns.steady(count)?;
        set(&mut rows, &flags, values, |row, value| {
            row.players = Some(value)
        })?;
        let (flags, count) = read_flags(columns, &rows, |row| row.with_players > 0)?;
        let values = columns.numbers(count)?;
        set(&mut rows, &flags, values, |row, value| {
            let mean = mean(row.players, row.with_players);
            row.players_max = Some(mean.wrapping_add(value));
        })?;
        let (flags, count) = read_flags(columns, &rows, |row| row.with_players > 0)?;
        let values = columns.steady(count)?;
        set(&mut rows, &flags, values, |row, value| {
            row.max = Some(value)
        })?;
        let (flags, count) = read_flags(columns, &rows, |row| row.with_latency > 0)?;
        let values = columns.measured(count)?;
        set(&mut rows, &flags, values, |row, value| {
            row.latency = Some(value)
        })?;
        let (flags, count) = read_flags(columns, &rows, |row| row.with_latency > 0)?;
        let values = columns.measured(count)?;
        set(&mut rows, &flags, values, |row, value| {
            row.latency_max = Some(value)
        })?;
        let count = times.len();
        let sent = columns.steady(count)?;
        let resent = columns.steady(count)?;
        for (nth, row) in rows.iter_mut().enumerate() {
            row.sent = sent[nth].wrapping_add(resent[nth]);
            row.resent = resent[nth];
        }
        let (flags, count) = read_flags(columns, &rows, |_| true)?;
        let values = columns.steady(count)?;
        set(&mut rows, &flags, values, |row, value| {
            row.observed_ms = Some(value)
        })?;
        let (flags, count) = read_flags(columns, &rows, |_| true)?;
        let values = columns.numbers(count)?;
        set(&mut rows, &flags, values, |row, value| {
            let expected = expected_up(row.observed_ms, row.polls, row.answered);
            row.up_ms = Some(expected.wrapping_add(value));
        })?;
        Some(rows)
    }
}

/// Writes which rows have a number. Returns these numbers.
fn optional(
    rows: &[Rollup],
    columns: &mut ColumnWriter,
    value: impl Fn(&Rollup) -> Option<i64>,
    is_expected: impl Fn(&Rollup) -> bool,
) -> Vec<i64> {
    // The first row decides whether the others are as expected.
    let mut other = false;
    columns.flags(rows.iter().map(|row| {
        let flag = value(row).is_some();
        let expected = is_expected(row) != other;
        other = flag != is_expected(row);
        (flag, expected)
    }));
    rows.iter().filter_map(value).collect()
}

/// Returns which rows have a number, and how many have one.
fn read_flags(
    columns: &mut ColumnReader<'_>,
    rows: &[Rollup],
    is_expected: impl Fn(&Rollup) -> bool,
) -> Option<(Vec<bool>, usize)> {
    let flags = columns.flags(rows.len(), |nth, previous| {
        let other = previous.is_some_and(|flag| flag != is_expected(&rows[nth - 1]));
        is_expected(&rows[nth]) != other
    })?;
    let count = flags.iter().filter(|flag| **flag).count();
    Some((flags, count))
}

fn set(
    rows: &mut [Rollup],
    flags: &[bool],
    values: Vec<i64>,
    set: impl Fn(&mut Rollup, i64),
) -> Option<()> {
    for (row, value) in rows.iter_mut().zip(spread::<i64>(values, flags)?) {
        if let Some(value) = value {
            set(row, value);
        }
    }
    Some(())
}

impl Rollup {
    /// Returns a roll-up without samples.
    pub(crate) fn empty(at: Millis) -> Self {
        Self {
            at,
            observed_ms: Some(0),
            up_ms: Some(0),
            ..Self::default()
        }
    }

    /// Adds another roll-up. One of an earlier version counts for its length.
    pub(crate) fn add(&mut self, other: &Self, length: Millis) {
        let sum = |one: Option<i64>, other: Option<i64>| match (one, other) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        self.players = sum(self.players, other.players);
        self.latency = sum(self.latency, other.latency);
        self.players_max = self.players_max.max(other.players_max);
        self.max = self.max.max(other.max);
        self.latency_max = self.latency_max.max(other.latency_max);
        let up = || {
            let polls = Some(other.polls).filter(|polls| *polls > 0)?;
            Some(length.saturating_mul(other.answered) / polls)
        };
        self.observed_ms = sum(self.observed_ms, other.observed_ms.or(Some(length)));
        self.up_ms = sum(self.up_ms, other.up_ms.or_else(up));
        for (count, more) in [
            (&mut self.polls, other.polls),
            (&mut self.answered, other.answered),
            (&mut self.with_players, other.with_players),
            (&mut self.with_latency, other.with_latency),
            (&mut self.sent, other.sent),
            (&mut self.resent, other.resent),
        ] {
            *count = count.saturating_add(more);
        }
    }

    /// Returns the sum of some servers in a bucket: the sum of the mean players of each, in hundredths, with
    /// a count of 100. Above five minutes the totals are rolled up like a server. `None` without
    /// samples.
    pub(crate) fn total<'a>(at: Millis, rows: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        let add = |sum: &mut Option<i64>, more: Option<i64>| {
            if let Some(more) = more {
                *sum = Some(sum.unwrap_or(0).saturating_add(more));
            }
        };
        let mut sum = Self::empty(at);
        let mut players = None;
        let (mut max, mut observed_ms, mut up_ms) = (None, None, None);
        for row in rows {
            if let Some(of_server) = row.players.filter(|_| row.with_players > 0) {
                let mean = of_server as f64 / row.with_players as f64;
                players = Some(players.unwrap_or(0.0) + mean * 100.0);
            }
            sum.add(row, 0);
            add(&mut max, row.max);
            add(&mut observed_ms, row.observed_ms);
            add(&mut up_ms, row.up_ms);
        }
        let players = players.map(|players: f64| players.round() as i64);
        (sum.polls > 0).then_some(Self {
            players,
            players_max: players.map(|players| players.saturating_add(50) / 100),
            with_players: if players.is_some() { 100 } else { 0 },
            max,
            observed_ms,
            up_ms,
            ..sum
        })
    }

    /// Returns the roll-up of some samples of one server.
    pub(crate) fn of(at: Millis, samples: &[Sample]) -> Self {
        let sum = |value: fn(&Sample) -> Option<u32>| {
            let values = || samples.iter().filter_map(value).map(i64::from);
            let count = values().count() as i64;
            (
                count,
                (count > 0).then(|| values().sum::<i64>()),
                values().max(),
            )
        };
        let (with_players, players, players_max) = sum(|sample| sample.players);
        let (with_latency, latency, latency_max) = sum(|sample| sample.latency);
        let observed = |sample: &Sample| i64::from(sample.observed_ms);
        // Earlier versions did not store how long a sample stands for.
        let is_observed = samples.iter().all(|sample| sample.observed_ms > 0);
        let answered = || samples.iter().filter(|sample| sample.is_answered);
        Self {
            at,
            polls: samples.len() as i64,
            answered: answered().count() as i64,
            with_players,
            players,
            players_max,
            max: sum(|sample| sample.max).2,
            with_latency,
            latency,
            latency_max,
            sent: samples.iter().map(|sample| i64::from(sample.sent)).sum(),
            resent: samples.iter().map(|sample| i64::from(sample.resent)).sum(),
            observed_ms: is_observed.then(|| samples.iter().map(observed).sum()),
            up_ms: is_observed.then(|| answered().map(observed).sum()),
        }
    }
}
