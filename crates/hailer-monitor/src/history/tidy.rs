//! Compression, roll-ups and retention. Called every minute, in small transactions, so that writers
//! never wait for long.
//!
//! ```text
//! recent ──► block of samples     one transaction for each shelf of 2,048 servers and each hour
//!        └─► block of 5 minutes ──► block of hours ──► block of days
//! ```
//!
//! Recent samples of a closed bucket come into blocks, and their roll-ups are computed from all samples of
//! the bucket. Samples that come late are recent samples too. Each level stores until when its
//! buckets are closed (`done`). A closed bucket that changes below is put on a list (`late`). Buckets
//! that are not closed are computed when they are read.
//!
//! In: recent samples. Out: blocks of samples and of roll-ups; deleted old rows.
//!
//! May import: `crate::history`, `crate::history::blocks`, `crate::history::codec`,
//! `crate::history::insert`, `crate::history::open`, `crate::sample`, `crate::server`.

use super::blocks::{
    self, COHORTS, Rows, cohort, cohorts, merge_rollups, merge_samples, shelf_sum, span,
    take_recent,
};
use super::codec::Rollup;
use super::insert::{late, run};
use super::open::{Dialect, Transaction};
use super::{History, HistoryError, Level, Retention};
use crate::sample::{Millis, millis};
use crate::server::ServerId;
use sqlx::{AnyConnection, AssertSqlSafe, Row, raw_sql};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Delay between the end of a bucket and its closing, in milliseconds: a sample has the time when
/// it was due, and is written after the reply.
const GRACE_MS: Millis = 30_000;
/// Limit of rows deleted by one statement.
const ROWS_PER_DELETE: i64 = 20_000;
/// Limit of statements that one call uses to delete rows of one table: more rows than a minute
/// adds.
const MAX_DELETES: u32 = 50;
/// Blocks deleted by one statement, at least. All blocks of a start are deleted together.
const BLOCKS_PER_DELETE: i64 = 2_000;
/// Servers whose sessions one call checks.
const SERVERS_PER_CALL: i64 = 2_000;
/// Time that one call spends on rows of earlier versions.
const LEGACY_TIME: Duration = Duration::from_secs(10);
/// Number that is added to a level in the list while one of its buckets is computed.
const UNDER_WAY: i64 = 10;

impl History {
    /// Compresses and rolls up new samples, and deletes old rows. Call it every minute. Any process may
    /// call it at any time. After a long stop the first call takes longer. Rows of earlier versions are
    /// converted, for some seconds with each call.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn tidy(&self, now: Millis, keep: &Retention) -> Result<(), HistoryError> {
        self.convert_legacy(LEGACY_TIME).await?;
        self.compress(now).await?;
        for level in [Level::Hour, Level::Day] {
            self.roll_up(level).await?;
        }
        self.delete_expired(now, keep).await
    }

    /// Moves the recent samples of closed buckets into blocks.
    async fn compress(&self, now: Millis) -> Result<(), HistoryError> {
        let to = Level::FiveMinutes.floor(now - GRACE_MS);
        let units =
            "SELECT DISTINCT bucket, shelf FROM recent WHERE bucket < $1 ORDER BY bucket, shelf";
        let units = sqlx::query(units).bind(to).fetch_all(&self.pool).await?;
        let mut hours: BTreeMap<Millis, BTreeSet<i64>> = BTreeMap::new();
        for unit in units {
            let hour = span(Level::Raw, unit.try_get(0)?).start;
            hours.entry(hour).or_default().insert(unit.try_get(1)?);
        }
        for (hour, shelves) in hours {
            let buckets = hour..(hour + span(Level::Raw, hour).length).min(to);
            for shelf in shelves {
                self.compress_unit(hour, &buckets, shelf).await?;
            }
            self.sum_shelves().await?;
        }
        // Sums the shelves that an interrupted call left.
        self.sum_shelves().await?;
        self.set_done(Level::FiveMinutes, to).await
    }

    /// Moves recent samples of one hour and one shelf.
    async fn compress_unit(
        &self,
        hour: Millis,
        buckets: &Range<Millis>,
        shelf: i64,
    ) -> Result<(), HistoryError> {
        let mut change = self.begin_alone().await?;
        let new = take_recent(&mut change, buckets, shelf).await?;
        let changed: BTreeSet<i64> = new.keys().map(|server| cohort(*server)).collect();
        let (Some(first), Some(last)) = (changed.first(), changed.last()) else {
            return change.commit().await;
        };
        let mut rows = blocks::load(&mut change, Level::Raw, hour, *first..*last + 1).await?;
        let mut rollups: Rows<Rollup> = Rows::new();
        let mut edges: BTreeMap<Millis, (Millis, Millis)> = BTreeMap::new();
        for (server, samples) in new {
            let of_samples: BTreeSet<Millis> = samples
                .iter()
                .map(|sample| Level::FiveMinutes.floor(sample.at))
                .collect();
            let all = rows.entry(server).or_default();
            merge_samples(all, samples);
            for bucket in of_samples {
                let from = all.partition_point(|sample| sample.at < bucket);
                let end = bucket + Level::FiveMinutes.length();
                let within = &all[from..];
                let within = &within[..within.partition_point(|sample| sample.at < end)];
                let edge = edges.entry(bucket).or_insert((Millis::MAX, Millis::MIN));
                edge.0 = edge.0.min(within[0].at);
                edge.1 = edge.1.max(within[within.len() - 1].at);
                rollups
                    .entry(server)
                    .or_default()
                    .push(Rollup::of(bucket, within));
            }
        }
        blocks::store(&mut change, self.dialect, Level::Raw, hour, &rows, &changed).await?;
        drop(rows);
        let of_buckets: Vec<Millis> = edges.keys().copied().collect();
        self.add_rollups(&mut change, shelf, &of_buckets, rollups)
            .await?;
        let edge = "INSERT INTO edge (bucket, first, last) VALUES ($1, $2, $3) ON CONFLICT (bucket) DO UPDATE
                    SET first = CASE WHEN excluded.first < edge.first THEN excluded.first ELSE edge.first END,
                        last = CASE WHEN excluded.last > edge.last THEN excluded.last ELSE edge.last END";
        for (bucket, (first, last)) in edges {
            let edge = sqlx::query(edge).bind(bucket).bind(first).bind(last);
            edge.execute(&mut *change).await?;
        }
        change.commit().await
    }

    /// Adds roll-ups of five minutes of one shelf and one block, and computes the sums of the shelf. The
    /// caller calls [`sum_shelves`](Self::sum_shelves) afterwards.
    pub(super) async fn add_rollups(
        &self,
        change: &mut AnyConnection,
        shelf: i64,
        buckets: &[Millis],
        new: Rows<Rollup>,
    ) -> Result<(), HistoryError> {
        const LEVEL: Level = Level::FiveMinutes;
        let Some(first) = buckets.first() else {
            return Ok(());
        };
        let start = span(LEVEL, *first).start;
        let mut rows: Rows<Rollup> = blocks::load(change, LEVEL, start, cohorts(shelf)).await?;
        let changed = new.keys().map(|server| cohort(*server)).collect();
        for (server, rollups) in new {
            merge_rollups(rows.entry(server).or_default(), rollups);
        }
        blocks::store(change, self.dialect, LEVEL, start, &rows, &changed).await?;
        // The sums replace the older ones, because they have all servers.
        let sum = shelf_sum(shelf);
        let sums = cohort(sum);
        let mut of_shelves: Rows<Rollup> =
            blocks::load(change, LEVEL, start, sums..sums + 1).await?;
        let totals = buckets
            .iter()
            .filter_map(|bucket| total(&rows, *bucket, |id| id.0 > 0));
        let totals: Vec<Rollup> = totals.collect();
        blocks::merge(of_shelves.entry(sum).or_default(), totals, |_, _| true);
        if of_shelves[&sum].is_empty() {
            of_shelves.remove(&sum);
        }
        blocks::store(
            change,
            self.dialect,
            LEVEL,
            start,
            &of_shelves,
            &[sums].into(),
        )
        .await?;
        run(change, late(self.dialect, LEVEL, buckets.iter().copied())).await?;
        Ok(())
    }

    /// Computes the sum of all servers for buckets of five minutes whose shelves have changed.
    async fn sum_shelves(&self) -> Result<(), HistoryError> {
        const LEVEL: Level = Level::FiveMinutes;
        let list = sqlx::query("SELECT bucket FROM late WHERE level = $1 ORDER BY bucket")
            .bind(LEVEL.number())
            .fetch_all(&self.pool)
            .await?;
        let mut blocks: BTreeMap<Millis, Vec<Millis>> = BTreeMap::new();
        for row in list {
            let bucket: Millis = row.try_get(0)?;
            blocks
                .entry(span(LEVEL, bucket).start)
                .or_default()
                .push(bucket);
        }
        for (start, buckets) in blocks {
            let mut change = self.begin_alone().await?;
            let shelves: Rows<Rollup> =
                blocks::load(&mut change, LEVEL, start, i64::MIN..0).await?;
            let totals = buckets
                .iter()
                .filter_map(|bucket| total(&shelves, *bucket, |id| id.0 < 0));
            self.add_totals(&mut change, LEVEL, start, totals).await?;
            self.forget_late(&mut change, LEVEL.number(), &buckets)
                .await?;
            self.mark_above(&mut change, LEVEL, &buckets).await?;
            change.commit().await?;
        }
        Ok(())
    }

    /// Adds sums of all servers to a block.
    pub(super) async fn add_totals(
        &self,
        change: &mut AnyConnection,
        level: Level,
        start: Millis,
        totals: impl IntoIterator<Item = Rollup>,
    ) -> Result<(), HistoryError> {
        let mut first: Rows<Rollup> = blocks::load(change, level, start, 0..1).await?;
        merge_rollups(first.entry(ServerId(0)).or_default(), totals);
        if first[&ServerId(0)].is_empty() {
            first.remove(&ServerId(0));
        }
        blocks::store(change, self.dialect, level, start, &first, &[0].into()).await
    }

    async fn forget_late(
        &self,
        change: &mut AnyConnection,
        level: i64,
        buckets: &[Millis],
    ) -> Result<(), HistoryError> {
        let forget = "DELETE FROM late WHERE level = $1 AND bucket = $2";
        for bucket in buckets {
            let forget = sqlx::query(forget).bind(level).bind(bucket);
            forget.execute(&mut *change).await?;
        }
        Ok(())
    }

    /// Puts closed buckets of the level above on the list.
    async fn mark_above(
        &self,
        change: &mut AnyConnection,
        level: Level,
        buckets: &[Millis],
    ) -> Result<(), HistoryError> {
        let above = match level {
            Level::FiveMinutes => Level::Hour,
            Level::Hour => Level::Day,
            Level::Raw | Level::Day => return Ok(()),
        };
        let done = sqlx::query("SELECT done FROM progress WHERE level = $1").bind(above.number());
        let done: Millis = done.fetch_one(&mut *change).await?.try_get(0)?;
        let above_it: BTreeSet<Millis> =
            buckets.iter().map(|bucket| above.floor(*bucket)).collect();
        let above_it = above_it.into_iter().filter(|bucket| *bucket < done);
        run(change, late(self.dialect, above, above_it)).await?;
        Ok(())
    }

    async fn set_done(&self, level: Level, to: Millis) -> Result<(), HistoryError> {
        let mut change = self.begin_alone().await?;
        let update = "UPDATE progress SET done = $2 WHERE level = $1 AND done < $2";
        let update = sqlx::query(update).bind(level.number()).bind(to);
        update.execute(&mut *change).await?;
        change.commit().await
    }

    /// Computes the buckets of a level that have closed, and closed ones that have changed.
    async fn roll_up(&self, level: Level) -> Result<(), HistoryError> {
        let below = level.below();
        let progress = "SELECT done, (SELECT done FROM progress WHERE level = $2) FROM progress WHERE level = $1";
        let progress = sqlx::query(progress)
            .bind(level.number())
            .bind(below.number())
            .fetch_one(&self.pool)
            .await?;
        let done: Millis = progress.try_get(0)?;
        // The buckets of a level can close when those of the level below are closed.
        let to = level.floor(progress.try_get(1)?).max(done);
        let mut buckets = BTreeSet::new();
        let list = "SELECT bucket FROM late WHERE level = $1 OR level = $2";
        let list = sqlx::query(list)
            .bind(level.number())
            .bind(level.number() + UNDER_WAY);
        for row in list.fetch_all(&self.pool).await? {
            buckets.insert(row.try_get(0)?);
        }
        let starts =
            "SELECT DISTINCT start FROM block WHERE level = $1 AND start >= $2 AND start < $3";
        let starts = sqlx::query(starts)
            .bind(below.number())
            .bind(span(below, done).start)
            .bind(to);
        for row in starts.fetch_all(&self.pool).await? {
            let start: Millis = row.try_get(0)?;
            let end = (start + span(below, start).length).min(to);
            let first = level.floor(start).max(done);
            buckets.extend((first..end).step_by(level.length() as usize));
        }
        for bucket in buckets {
            self.roll_up_bucket(level, bucket, to).await?;
        }
        self.set_done(level, to).await
    }

    /// Computes one bucket of all servers, in one transaction for each shelf.
    async fn roll_up_bucket(
        &self,
        level: Level,
        bucket: Millis,
        to: Millis,
    ) -> Result<(), HistoryError> {
        let below = level.below();
        let end = bucket + level.length();
        // A change meanwhile puts the bucket on the list again, and a stop leaves it there.
        let mut change = self.begin_alone().await?;
        self.forget_late(&mut change, level.number(), &[bucket])
            .await?;
        if bucket >= to {
            // It is not closed.
            self.forget_late(&mut change, level.number() + UNDER_WAY, &[bucket])
                .await?;
            return change.commit().await;
        }
        let mark = "INSERT INTO late (level, bucket) VALUES ($1, $2) ON CONFLICT (level, bucket) DO NOTHING";
        let mark = sqlx::query(mark)
            .bind(level.number() + UNDER_WAY)
            .bind(bucket);
        mark.execute(&mut *change).await?;
        change.commit().await?;
        let length = span(below, bucket).length;
        let starts: Vec<Millis> = (span(below, bucket).start..end)
            .step_by(length as usize)
            .collect();
        let mut shelves = BTreeSet::new();
        for start in &starts {
            let some = AssertSqlSafe(format!(
                "SELECT DISTINCT cohort / {COHORTS} FROM block WHERE level = $1 AND start = $2 AND cohort >= 0"
            ));
            let some = sqlx::query(some).bind(below.number()).bind(start);
            for row in some.fetch_all(&self.pool).await? {
                shelves.insert(row.try_get::<i64, _>(0)?);
            }
        }
        for shelf in shelves {
            let mut change = self.begin_alone().await?;
            let mut sums: Rows<Rollup> = Rows::new();
            for start in &starts {
                let rows: Rows<Rollup> =
                    blocks::load(&mut change, below, *start, cohorts(shelf)).await?;
                for (server, rows) in rows {
                    let within = rows.iter().filter(|row| (bucket..end).contains(&row.at));
                    let mut within = within.peekable();
                    if within.peek().is_some() {
                        let sum = sums
                            .entry(server)
                            .or_insert_with(|| vec![Rollup::empty(bucket)]);
                        within.for_each(|row| sum[0].add(row, below.length()));
                    }
                }
            }
            let changed: BTreeSet<i64> = sums.keys().map(|server| cohort(*server)).collect();
            if let (Some(first), Some(last)) = (changed.first(), changed.last()) {
                let start = span(level, bucket).start;
                let mut rows = blocks::load(&mut change, level, start, *first..*last + 1).await?;
                for (server, sum) in sums {
                    merge_rollups(rows.entry(server).or_default(), sum);
                }
                blocks::store(&mut change, self.dialect, level, start, &rows, &changed).await?;
            }
            change.commit().await?;
        }
        let mut change = self.begin_alone().await?;
        self.forget_late(&mut change, level.number() + UNDER_WAY, &[bucket])
            .await?;
        self.mark_above(&mut change, level, &[bucket]).await?;
        change.commit().await
    }

    /// Begins a transaction without concurrent roll-ups. Writers of samples do not wait for it in
    /// PostgreSQL.
    pub(super) async fn begin_alone(&self) -> Result<Transaction, HistoryError> {
        let mut change = self.begin().await?;
        if self.dialect == Dialect::Postgres {
            let lock = "SET LOCAL statement_timeout = '900s'; SELECT done FROM progress WHERE level = 1 FOR UPDATE";
            raw_sql(lock).execute(&mut *change).await?;
        }
        Ok(change)
    }

    async fn delete_expired(&self, now: Millis, keep: &Retention) -> Result<(), HistoryError> {
        let before = |kept: Duration| now - millis(kept);
        // A bucket is deleted as a whole, and only after it was rolled up.
        let done = "SELECT CASE WHEN listed.bucket < done THEN listed.bucket ELSE done END FROM progress
                    LEFT JOIN (SELECT level, MIN(bucket) AS bucket FROM late GROUP BY level) AS listed
                    ON listed.level = progress.level ORDER BY progress.level";
        let done = sqlx::query(done).fetch_all(&self.pool).await?;
        for (level, kept) in [
            (Level::Raw, keep.raw),
            (Level::FiveMinutes, keep.five_minutes),
            (Level::Hour, keep.hour),
            (Level::Day, keep.day),
        ] {
            let mut cut = before(kept);
            if let Some(above) = done.get(level as usize + 1) {
                // The time until which the level above is complete.
                cut = cut.min(above.try_get(0)?);
            }
            let cut = match level {
                Level::Raw => Level::FiveMinutes.floor(cut),
                level => level.floor(cut),
            };
            self.delete_blocks(level, cut).await?;
        }
        for (table, column, kept) in [("edge", "bucket", keep.raw), ("event", "at", keep.day)] {
            self.delete_front(table, column, "1 = 1", before(kept), ROWS_PER_DELETE)
                .await?;
        }
        let longest = [keep.raw, keep.five_minutes, keep.hour, keep.day]
            .into_iter()
            .max()
            .unwrap_or_default();
        self.delete_of_servers(before(keep.hour), before(longest))
            .await
    }

    /// Hides the rows of a level before a time, and deletes the blocks that have no others.
    async fn delete_blocks(&self, level: Level, cut: Millis) -> Result<(), HistoryError> {
        let mut change = self.begin_alone().await?;
        let update = "UPDATE progress SET cut = $2 WHERE level = $1 AND (cut IS NULL OR cut < $2)";
        let update = sqlx::query(update).bind(level.number()).bind(cut);
        update.execute(&mut *change).await?;
        change.commit().await?;
        let end = span(level, cut).start;
        let filter = format!("level = {}", level.number());
        self.delete_front("block", "start", &filter, end, BLOCKS_PER_DELETE)
            .await
    }

    /// Deletes the oldest rows of a table, some at a time. The SQL text has no outside data.
    async fn delete_front(
        &self,
        table: &str,
        column: &str,
        filter: &str,
        cut: Millis,
        at_once: i64,
    ) -> Result<(), HistoryError> {
        let edge = format!(
            "SELECT {column} FROM {table} WHERE {filter} AND {column} < $1 ORDER BY {column} LIMIT 1 OFFSET $2"
        );
        let delete = format!("DELETE FROM {table} WHERE {filter} AND {column} <= $1");
        for _ in 0..MAX_DELETES {
            let edge = sqlx::query(AssertSqlSafe(edge.clone()))
                .bind(cut)
                .bind(at_once)
                .fetch_optional(&self.pool)
                .await?;
            let last = edge
                .as_ref()
                .map_or(Ok(cut - 1), |edge| edge.try_get::<Millis, _>(0))?;
            let mut change = self.begin().await?;
            sqlx::query(AssertSqlSafe(delete.clone()))
                .bind(last)
                .execute(&mut *change)
                .await?;
            change.commit().await?;
            if edge.is_none() {
                break;
            }
        }
        Ok(())
    }

    /// Deletes sessions that ended before a time, for some servers with each call. After the last
    /// server, deletes servers that were removed before another time: their other rows are gone by
    /// then.
    async fn delete_of_servers(&self, ended: Millis, removed: Millis) -> Result<(), HistoryError> {
        let mut from = self.turn.load(Ordering::Relaxed);
        let next = sqlx::query(
            "SELECT MIN(id) FROM (SELECT id FROM server WHERE id > $1 ORDER BY id LIMIT 1 OFFSET $2) AS next",
        );
        let next: Option<i64> = next
            .bind(from)
            .bind(SERVERS_PER_CALL)
            .fetch_one(&self.pool)
            .await?
            .try_get(0)?;
        let mut change = self.begin().await?;
        let delete_expired = "DELETE FROM session WHERE first < $1 AND last < $1
                      AND server IN (SELECT id FROM server WHERE id > $2 ORDER BY id LIMIT $3)";
        sqlx::query(delete_expired)
            .bind(ended)
            .bind(from)
            .bind(SERVERS_PER_CALL)
            .execute(&mut *change)
            .await?;
        // One less, because `from` is exclusive.
        from = next.map_or(0, |next| next - 1);
        if next.is_none() {
            for delete_expired in [
                "DELETE FROM state WHERE server IN (SELECT id FROM server WHERE removed_at < $1)",
                "DELETE FROM last_status WHERE server IN (SELECT id FROM server WHERE removed_at < $1)",
                "DELETE FROM last_icon WHERE server IN (SELECT id FROM server WHERE removed_at < $1)",
                // Keep the row with the highest number, so that the number is not used again.
                "DELETE FROM server WHERE removed_at < $1 AND id < (SELECT MAX(id) FROM server)",
            ] {
                sqlx::query(delete_expired)
                    .bind(removed)
                    .execute(&mut *change)
                    .await?;
            }
        }
        change.commit().await?;
        self.turn.store(from, Ordering::Relaxed);
        Ok(())
    }
}

/// Returns the sum of some servers in a bucket.
pub(super) fn total(
    rows: &Rows<Rollup>,
    bucket: Millis,
    is_counted: impl Fn(ServerId) -> bool,
) -> Option<Rollup> {
    let counted = rows.iter().filter(|(server, _)| is_counted(**server));
    Rollup::total(
        bucket,
        counted.filter_map(|(_, rows)| {
            let nth = rows.binary_search_by_key(&bucket, |row| row.at).ok()?;
            rows.get(nth)
        }),
    )
}
