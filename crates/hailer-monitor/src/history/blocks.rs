//! Blocks in the database, and recent samples, which come into blocks later.
//!
//! In: rows of servers. Out: compressed rows of the database, and back.
//!
//! May import: `crate::history`, `crate::history::codec`, `crate::history::insert`,
//! `crate::history::open`, `crate::sample`, `crate::server`.

use super::codec::{self, BlockRow, Rollup, Span};
use super::insert::{Insert, Values, run};
use super::open::Dialect;
use super::{History, HistoryError, Level};
use crate::sample::{Millis, Sample, rounded_latency};
use crate::server::ServerId;
use futures_util::TryStreamExt;
use sqlx::{AnyConnection, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Number of servers of a block.
const COHORT: i64 = 16;
/// Number of servers of a row of recent samples, and of a transaction of roll-ups.
pub(super) const SHELF: i64 = 2_048;
/// Number of cohorts of a shelf.
pub(super) const COHORTS: i64 = SHELF / COHORT;

/// Rows of some servers, each in ascending order of time.
pub(super) type Rows<T> = BTreeMap<ServerId, Vec<T>>;

/// Returns the span of the block of a level that has a time.
pub(super) fn span(level: Level, at: Millis) -> Span {
    const HOUR: Millis = 3_600_000;
    let length = match level {
        Level::Raw => HOUR,
        Level::FiveMinutes => 2 * HOUR,
        Level::Hour => 48 * HOUR,
        Level::Day => 64 * 24 * HOUR,
    };
    Span {
        start: at.div_euclid(length).saturating_mul(length),
        length,
        step: level.length(),
    }
}

/// Returns the span of recent samples of five minutes.
fn bucket_span(bucket: Millis) -> Span {
    Span {
        start: bucket,
        length: Level::FiveMinutes.length(),
        step: 1,
    }
}

/// Returns the cohort of a server.
pub(super) fn cohort(server: ServerId) -> i64 {
    server.0.div_euclid(COHORT)
}

/// Returns the shelf of a server.
pub(super) fn shelf(server: ServerId) -> i64 {
    server.0.div_euclid(SHELF)
}

/// Returns the pseudo-server that has the sums of a shelf.
pub(super) fn shelf_sum(shelf: i64) -> ServerId {
    ServerId(-1 - shelf)
}

/// Returns the cohorts of a shelf.
pub(super) fn cohorts(shelf: i64) -> Range<i64> {
    shelf * COHORTS..(shelf + 1) * COHORTS
}

fn damaged(level: Level, start: Millis) -> HistoryError {
    HistoryError::Stored(format!(
        "a damaged block of level {} at {start}",
        level.number()
    ))
}

/// Reads the blocks of some cohorts.
pub(super) async fn load<T: BlockRow>(
    connection: &mut AnyConnection,
    level: Level,
    start: Millis,
    cohorts: Range<i64>,
) -> Result<Rows<T>, HistoryError> {
    let blocks =
        "SELECT body FROM block WHERE level = $1 AND start = $2 AND cohort >= $3 AND cohort < $4";
    let blocks = sqlx::query(blocks)
        .bind(level.number())
        .bind(start)
        .bind(cohorts.start)
        .bind(cohorts.end);
    let mut blocks = blocks.fetch(connection);
    let mut rows = Rows::new();
    while let Some(block) = blocks.try_next().await? {
        let body: Vec<u8> = block.try_get(0)?;
        let some = codec::read(span(level, start), &body, |_| true);
        rows.extend(some.ok_or_else(|| damaged(level, start))?);
    }
    Ok(rows)
}

/// Writes the blocks of these cohorts in place of older ones. `rows` has all rows of their servers.
pub(super) async fn store<T: BlockRow>(
    change: &mut AnyConnection,
    dialect: Dialect,
    level: Level,
    start: Millis,
    rows: &Rows<T>,
    changed: &BTreeSet<i64>,
) -> Result<(), HistoryError> {
    let table = Insert {
        head: "INSERT INTO block (level, start, cohort, body) VALUES ",
        columns: 4,
        tail: " ON CONFLICT (level, start, cohort) DO UPDATE SET body = excluded.body",
    };
    let blocks = changed.iter().map(|&cohort| {
        let servers = ServerId(cohort * COHORT)..ServerId((cohort + 1) * COHORT);
        let some = rows
            .range(servers)
            .map(|(server, rows)| (*server, &rows[..]));
        let body = codec::write(span(level, start), some);
        move |values: &mut Values| {
            values.add(level.number());
            values.add(start);
            values.add(cohort);
            values.add(body);
        }
    });
    let statements = table.rows(dialect, blocks);
    run(change, statements).await?;
    Ok(())
}

/// Adds rows. If two have the same time, `is_better` decides whether the second replaces the first.
pub(super) fn merge<T: BlockRow>(
    rows: &mut Vec<T>,
    more: impl IntoIterator<Item = T>,
    is_better: impl Fn(&T, &T) -> bool,
) {
    for row in more {
        if rows.last().is_none_or(|last| last.at() < row.at()) {
            rows.push(row);
            continue;
        }
        match rows.binary_search_by_key(&row.at(), BlockRow::at) {
            Ok(nth) if is_better(&row, &rows[nth]) => rows[nth] = row,
            Ok(_) => {}
            Err(nth) => rows.insert(nth, row),
        }
    }
}

/// Adds samples. The first of two at the same time stays.
pub(super) fn merge_samples(rows: &mut Vec<Sample>, more: impl IntoIterator<Item = Sample>) {
    merge(rows, more, |_, _| false);
}

/// Adds roll-ups. A roll-up replaces only one with fewer samples: rows below may have been deleted.
pub(super) fn merge_rollups(rows: &mut Vec<Rollup>, more: impl IntoIterator<Item = Rollup>) {
    merge(rows, more, |new, old| {
        (new.polls, new.with_players) > (old.polls, old.with_players)
    });
}

/// Samples of one write, of five minutes and one shelf.
pub(super) struct RecentRow {
    pub(super) bucket: Millis,
    pub(super) shelf: i64,
    pub(super) body: Vec<u8>,
    pub(super) count: u64,
}

/// Returns the rows of some samples in any order.
pub(super) fn recent_rows(samples: &[Sample]) -> Vec<RecentRow> {
    let bucket = |sample: &Sample| Level::FiveMinutes.floor(sample.at);
    let rounded = |sample: &Sample| Sample {
        latency: sample.latency.map(rounded_latency),
        ..*sample
    };
    let mut sorted: Vec<Sample> = samples.iter().map(rounded).collect();
    sorted.sort_by_key(|sample| (bucket(sample), sample.server, sample.at));
    sorted.dedup_by_key(|sample| (sample.server, sample.at));
    let units = sorted.chunk_by(|one, next| {
        (bucket(one), shelf(one.server)) == (bucket(next), shelf(next.server))
    });
    let row = |unit: &[Sample]| {
        let bucket = bucket(&unit[0]);
        let servers = unit.chunk_by(|one, next| one.server == next.server);
        let servers = servers.map(|samples| (samples[0].server, samples));
        RecentRow {
            bucket,
            shelf: shelf(unit[0].server),
            body: codec::write(bucket_span(bucket), servers),
            count: unit.len() as u64,
        }
    };
    units.map(row).collect()
}

/// Reads the samples of a row of recent samples.
fn read_recent(
    bucket: Millis,
    body: &[u8],
    is_wanted: impl Fn(ServerId) -> bool,
) -> Result<Vec<(ServerId, Vec<Sample>)>, HistoryError> {
    codec::read(bucket_span(bucket), body, is_wanted)
        .ok_or_else(|| HistoryError::Stored(format!("damaged recent samples at {bucket}")))
}

/// Removes the recent samples of some buckets and one shelf, and returns them.
pub(super) async fn take_recent(
    change: &mut AnyConnection,
    buckets: &Range<Millis>,
    shelf: i64,
) -> Result<Rows<Sample>, HistoryError> {
    let take = "DELETE FROM recent WHERE bucket >= $1 AND bucket < $2 AND shelf = $3 RETURNING bucket, body";
    let take = sqlx::query(take)
        .bind(buckets.start)
        .bind(buckets.end)
        .bind(shelf);
    let mut rows = Rows::new();
    for row in take.fetch_all(change).await? {
        let body: Vec<u8> = row.try_get(1)?;
        for (server, samples) in read_recent(row.try_get(0)?, &body, |_| true)? {
            merge_samples(rows.entry(server).or_default(), samples);
        }
    }
    Ok(rows)
}

/// Which servers are read.
#[derive(Clone, Copy, Debug)]
pub(super) enum Which<'a> {
    All,
    One(ServerId),
    Some(&'a BTreeSet<ServerId>),
}

impl Which<'_> {
    pub(super) fn has(self, server: ServerId) -> bool {
        match self {
            Self::All => server.0 > 0,
            Self::One(one) => server == one,
            Self::Some(some) => some.contains(&server),
        }
    }

    /// Returns the first and the last number.
    pub(super) fn ends(self) -> (ServerId, ServerId) {
        match self {
            Self::All => (ServerId(1), ServerId(i64::MAX)),
            Self::One(one) => (one, one),
            Self::Some(some) => match (some.first(), some.last()) {
                (Some(first), Some(last)) => (*first, *last),
                _ => (ServerId(0), ServerId(-1)),
            },
        }
    }
}

/// Reads recent samples from `from` until before `to`.
pub(super) async fn load_recent(
    connection: &mut AnyConnection,
    which: Which<'_>,
    from: Millis,
    to: Millis,
) -> Result<Rows<Sample>, HistoryError> {
    let (first, last) = which.ends();
    let recent = "SELECT bucket, body FROM recent WHERE bucket >= $1 AND bucket < $2 AND shelf >= $3 AND shelf <= $4";
    let recent = sqlx::query(recent)
        .bind(Level::FiveMinutes.floor(from))
        .bind(to)
        .bind(shelf(first))
        .bind(shelf(last));
    let mut recent = recent.fetch(connection);
    let mut rows: Rows<Sample> = Rows::new();
    while let Some(row) = recent.try_next().await? {
        let body: Vec<u8> = row.try_get(1)?;
        for (server, mut samples) in read_recent(row.try_get(0)?, &body, |id| which.has(id))? {
            samples.retain(|sample| (from..to).contains(&sample.at));
            if !samples.is_empty() {
                merge_samples(rows.entry(server).or_default(), samples);
            }
        }
    }
    Ok(rows)
}

impl History {
    /// Reads recent samples from `from` until before `to`.
    pub(super) async fn recent(
        &self,
        which: Which<'_>,
        from: Millis,
        to: Millis,
    ) -> Result<Rows<Sample>, HistoryError> {
        let mut connection = self.pool.acquire().await?;
        load_recent(&mut connection, which, from, to).await
    }

    /// Reads the rows of a level from `from` until before `to` that blocks have.
    pub(super) async fn stored<T: BlockRow + Send>(
        &self,
        level: Level,
        which: Which<'_>,
        from: Millis,
        to: Millis,
    ) -> Result<Rows<T>, HistoryError> {
        let mut rows = Rows::new();
        self.each_stored(level, which, from, to, |server, some: Vec<T>| {
            rows.entry(server).or_insert_with(Vec::new).extend(some);
        })
        .await?;
        Ok(rows)
    }

    /// Reads the rows that [`stored`](Self::stored) returns, one server and block at a time.
    pub(super) async fn each_stored<T: BlockRow + Send>(
        &self,
        level: Level,
        which: Which<'_>,
        from: Millis,
        to: Millis,
        mut each: impl FnMut(ServerId, Vec<T>) + Send,
    ) -> Result<(), HistoryError> {
        let Some((from, starts)) = self.starts(level, from, to).await? else {
            return Ok(());
        };
        let (first, last) = which.ends();
        // Each block is read by its key, from the first existing start to the last.
        let blocks = "
            WITH RECURSIVE grid (time) AS (
                SELECT CAST($1 AS BIGINT) UNION ALL SELECT time + $2 FROM grid WHERE time + $2 <= $3
            )
            SELECT start, body FROM grid CROSS JOIN block
            WHERE level = $4 AND start = time AND cohort >= $5 AND cohort <= $6 ORDER BY start";
        let blocks = sqlx::query(blocks)
            .bind(starts.start)
            .bind(span(level, 0).length)
            .bind(starts.end)
            .bind(level.number())
            .bind(cohort(first))
            .bind(cohort(last));
        let mut blocks = blocks.fetch(&self.pool);
        while let Some(block) = blocks.try_next().await? {
            let start: Millis = block.try_get(0)?;
            let body: Vec<u8> = block.try_get(1)?;
            let some = codec::read::<T>(span(level, start), &body, |id| which.has(id));
            for (server, mut some) in some.ok_or_else(|| damaged(level, start))? {
                some.retain(|row| (from..to).contains(&row.at()));
                if !some.is_empty() {
                    each(server, some);
                }
            }
        }
        Ok(())
    }

    /// Returns the beginning of a period without expired rows, and the first and the last start of the
    /// blocks in it; `None` if there are none.
    async fn starts(
        &self,
        level: Level,
        from: Millis,
        to: Millis,
    ) -> Result<Option<(Millis, Range<Millis>)>, HistoryError> {
        let ends = "SELECT (SELECT MIN(start) FROM block WHERE level = $1),
                           (SELECT MAX(start) FROM block WHERE level = $1),
                           (SELECT cut FROM progress WHERE level = $1)";
        let ends = sqlx::query(ends)
            .bind(level.number())
            .fetch_one(&self.pool)
            .await?;
        let (Some(first), Some(last)) = (
            ends.try_get::<Option<Millis>, _>(0)?,
            ends.try_get::<Option<Millis>, _>(1)?,
        ) else {
            return Ok(None);
        };
        let from = from.max(ends.try_get::<Option<Millis>, _>(2)?.unwrap_or(Millis::MIN));
        let last = last.min(span(level, to.saturating_sub(1)).start);
        let first = first.max(span(level, from).start);
        // A clock that was wrong may have left blocks far away.
        let first = first.max(last - (MAX_BLOCKS - 1) * span(level, 0).length);
        Ok((first <= last).then_some((from, first..last)))
    }
}

/// Maximum number of blocks of a server that one query reads, the newest.
const MAX_BLOCKS: Millis = 50_000;
