//! Tables of earlier versions, which have one row per sample and roll-up. Their rows are moved into
//! blocks some at a time, each in the transaction that deletes it, so a stop loses nothing. Until then they
//! are read together with the blocks.
//!
//! In: rows of samples and roll-ups. Out: recent samples and blocks.
//!
//! May import: `crate::history`, `crate::history::blocks`, `crate::history::codec`,
//! `crate::history::insert`, `crate::sample`, `crate::server`.

use super::blocks::{
    self, Rows, SHELF, Which, cohort, cohorts, merge_rollups, merge_samples, recent_rows, span,
};
use super::codec::Rollup;
use super::insert::{insert_recent, small, small_if_any};
use super::{History, HistoryError, Level};
use crate::sample::{Millis, Sample};
use crate::server::ServerId;
use sqlx::any::AnyRow;
use sqlx::{AnyPool, Row};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Returns whether tables of earlier versions have rows.
pub(super) async fn has_legacy_rows(pool: &AnyPool) -> sqlx::Result<bool> {
    for table in [
        "SELECT 1 FROM sample LIMIT 1",
        "SELECT 1 FROM rollup LIMIT 1",
    ] {
        if sqlx::query(table).fetch_optional(pool).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

impl History {
    /// Moves rows of earlier versions into blocks, for about this time. Returns whether none are left.
    pub(super) async fn convert_legacy(&self, time: Duration) -> Result<bool, HistoryError> {
        if !self.has_legacy.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let started = Instant::now();
        for level in [Level::FiveMinutes, Level::Hour, Level::Day] {
            while self.convert_rollups(level).await? {
                if started.elapsed() > time {
                    return Ok(false);
                }
            }
        }
        while self.convert_samples().await? {
            if started.elapsed() > time {
                return Ok(false);
            }
        }
        let has_rows = has_legacy_rows(&self.pool).await?;
        self.has_legacy.store(has_rows, Ordering::Relaxed);
        Ok(!has_rows)
    }

    /// Moves the oldest samples, of five minutes. Returns `false` if there are none.
    async fn convert_samples(&self) -> Result<bool, HistoryError> {
        let oldest = sqlx::query("SELECT MIN(at) FROM sample")
            .fetch_one(&self.pool)
            .await?;
        let Some(oldest) = oldest.try_get::<Option<Millis>, _>(0)? else {
            return Ok(false);
        };
        let bucket = Level::FiveMinutes.floor(oldest);
        let end = bucket + Level::FiveMinutes.length();
        let servers = "SELECT MIN(server), MAX(server) FROM sample WHERE at >= $1 AND at < $2";
        for shelf in self.shelves(servers, bucket..end).await? {
            let mut change = self.begin_alone().await?;
            let take = "DELETE FROM sample WHERE at >= $1 AND at < $2 AND server >= $3 AND server < $4
                        RETURNING server, at, is_answered, players, max, latency, sent, resent, observed_ms";
            let take = sqlx::query(take)
                .bind(bucket)
                .bind(end)
                .bind(shelf * SHELF)
                .bind((shelf + 1) * SHELF);
            let rows = take.fetch_all(&mut *change).await?;
            let samples: Result<Vec<Sample>, _> = rows.iter().map(sample).collect();
            insert_recent(&mut change, self.dialect, recent_rows(&samples?)).await?;
            change.commit().await?;
        }
        Ok(true)
    }

    /// Moves the oldest roll-ups of a level, of one block. Returns `false` if there are none.
    async fn convert_rollups(&self, level: Level) -> Result<bool, HistoryError> {
        let oldest = sqlx::query("SELECT MIN(bucket) FROM rollup WHERE level = $1")
            .bind(level.number())
            .fetch_one(&self.pool)
            .await?;
        let Some(oldest) = oldest.try_get::<Option<Millis>, _>(0)? else {
            return Ok(false);
        };
        let start = span(level, oldest).start;
        let end = start + span(level, oldest).length;
        let servers = match level {
            Level::Raw | Level::FiveMinutes => {
                "SELECT MIN(server), MAX(server) FROM rollup WHERE level = 1 AND bucket >= $1 AND bucket < $2"
            }
            Level::Hour => {
                "SELECT MIN(server), MAX(server) FROM rollup WHERE level = 2 AND bucket >= $1 AND bucket < $2"
            }
            Level::Day => {
                "SELECT MIN(server), MAX(server) FROM rollup WHERE level = 3 AND bucket >= $1 AND bucket < $2"
            }
        };
        for shelf in self.shelves(servers, start..end).await? {
            let mut change = self.begin_alone().await?;
            let take = "DELETE FROM rollup WHERE level = $1 AND bucket >= $2 AND bucket < $3 AND server >= $4 AND server < $5
                        RETURNING server, bucket, polls, answered, with_players, players, players_max, max, with_latency,
                                  latency, latency_max, sent, resent, observed_ms, up_ms";
            let take = sqlx::query(take)
                .bind(level.number())
                .bind(start)
                .bind(end)
                .bind(shelf * SHELF)
                .bind((shelf + 1) * SHELF);
            let mut rows: Rows<Rollup> =
                blocks::load(&mut change, level, start, cohorts(shelf)).await?;
            let mut changed = std::collections::BTreeSet::new();
            for row in take.fetch_all(&mut *change).await? {
                let (server, rollup) = rollup(&row)?;
                changed.insert(cohort(server));
                merge_rollups(rows.entry(server).or_default(), [rollup]);
            }
            blocks::store(&mut change, self.dialect, level, start, &rows, &changed).await?;
            change.commit().await?;
        }
        Ok(true)
    }

    async fn shelves(
        &self,
        servers: &'static str,
        times: Range<Millis>,
    ) -> Result<Range<i64>, HistoryError> {
        let ends = sqlx::query(servers).bind(times.start).bind(times.end);
        let ends = ends.fetch_one(&self.pool).await?;
        let (Some(first), Some(last)) = (
            ends.try_get::<Option<i64>, _>(0)?,
            ends.try_get::<Option<i64>, _>(1)?,
        ) else {
            return Ok(0..0);
        };
        Ok(blocks::shelf(ServerId(first))..blocks::shelf(ServerId(last)) + 1)
    }

    /// Adds samples of earlier versions.
    pub(super) async fn add_legacy_samples(
        &self,
        rows: &mut Rows<Sample>,
        which: Which<'_>,
        from: Millis,
        to: Millis,
    ) -> Result<(), HistoryError> {
        if !self.has_legacy.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (first, last) = which.ends();
        let samples = "SELECT server, at, is_answered, players, max, latency, sent, resent, observed_ms FROM sample
                       WHERE at >= $1 AND at < $2 AND server >= $3 AND server <= $4 ORDER BY server, at";
        let samples = sqlx::query(samples)
            .bind(from)
            .bind(to)
            .bind(first.0)
            .bind(last.0);
        for sample in self.all(samples, sample).await? {
            if which.has(sample.server) {
                merge_samples(rows.entry(sample.server).or_default(), [sample]);
            }
        }
        Ok(())
    }

    /// Adds roll-ups of earlier versions.
    pub(super) async fn add_legacy_rollups(
        &self,
        rows: &mut Rows<Rollup>,
        level: Level,
        which: Which<'_>,
        from: Millis,
        to: Millis,
    ) -> Result<(), HistoryError> {
        if !self.has_legacy.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (first, last) = which.ends();
        // One server by its keys: there are too many rows to search.
        let one = "
            WITH RECURSIVE ends (low, high) AS (
                SELECT MIN(bucket), MAX(bucket) FROM rollup WHERE level = $1 AND bucket >= $2 AND bucket < $3
            ), grid (time) AS (
                SELECT low FROM ends WHERE low IS NOT NULL
                UNION ALL SELECT time + $6 FROM grid WHERE time + $6 <= (SELECT high FROM ends)
            )
            SELECT server, bucket, polls, answered, with_players, players, players_max, max, with_latency,
                   latency, latency_max, sent, resent, observed_ms, up_ms
            FROM grid CROSS JOIN rollup WHERE level = $1 AND bucket = time AND server >= $4 AND server <= $5
            ORDER BY server, bucket";
        let all = "SELECT server, bucket, polls, answered, with_players, players, players_max, max, with_latency,
                   latency, latency_max, sent, resent, observed_ms, up_ms
            FROM rollup WHERE level = $1 AND bucket >= $2 AND bucket < $3 AND server >= $4 AND server <= $5
            ORDER BY server, bucket";
        let is_one = first == last;
        let rollups = sqlx::query(if is_one { one } else { all })
            .bind(level.number())
            .bind(from)
            .bind(to)
            .bind(first.0)
            .bind(last.0);
        let rollups = if is_one {
            rollups.bind(level.length())
        } else {
            rollups
        };
        for (server, rollup) in self.all(rollups, rollup).await? {
            if which.has(server) {
                merge_rollups(rows.entry(server).or_default(), [rollup]);
            }
        }
        Ok(())
    }
}

fn sample(row: &AnyRow) -> Result<Sample, HistoryError> {
    Ok(Sample {
        server: ServerId(row.try_get(0)?),
        at: row.try_get(1)?,
        is_answered: row.try_get::<i64, _>(2)? != 0,
        players: small_if_any(row, 3)?,
        max: small_if_any(row, 4)?,
        latency: small_if_any(row, 5)?,
        sent: small(row, 6)?,
        resent: small(row, 7)?,
        observed_ms: small_if_any(row, 8)?.unwrap_or(0),
    })
}

fn rollup(row: &AnyRow) -> Result<(ServerId, Rollup), HistoryError> {
    let rollup = Rollup {
        at: row.try_get(1)?,
        polls: row.try_get(2)?,
        answered: row.try_get(3)?,
        with_players: row.try_get(4)?,
        players: row.try_get(5)?,
        players_max: row.try_get(6)?,
        max: row.try_get(7)?,
        with_latency: row.try_get(8)?,
        latency: row.try_get(9)?,
        latency_max: row.try_get(10)?,
        sent: row.try_get(11)?,
        resent: row.try_get(12)?,
        observed_ms: row.try_get(13)?,
        up_ms: row.try_get(14)?,
    };
    Ok((ServerId(row.try_get(0)?), rollup))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Retention;
    use sqlx::raw_sql;

    const LEVELS: [Level; 4] = [Level::Raw, Level::FiveMinutes, Level::Hour, Level::Day];
    const DAY: Millis = 86_400_000;

    /// A stop after any step of the conversion loses nothing, and pages show the same.
    #[tokio::test]
    async fn each_step_of_the_conversion_changes_nothing_that_is_read() {
        let history = History::open("sqlite::memory:").await.unwrap();
        let rows = "
            WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 1000)
            INSERT INTO sample (at, server, is_answered, players, max, latency, sent, resent, observed_ms)
            SELECT n / 3 * 60000, 1 + n % 3 * 3000, n % 7 > 0, n % 50, 50, n * 10, 1, 0, 60000 FROM n;
            WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 280)
            INSERT INTO rollup (level, bucket, server, polls, answered, with_players, players, players_max, max, with_latency,
                latency, latency_max, sent, resent, observed_ms, up_ms)
            SELECT level, n / 4 * length, CASE n % 4 WHEN 3 THEN 0 ELSE 1 + n % 4 * 3000 END, 6, 4, 4, n, n, 50, 4, 4000, 1100,
                5, 0, 300000, 240000
            FROM n CROSS JOIN (SELECT 1 AS level, 300000 AS length UNION ALL SELECT 2, 3600000 UNION ALL SELECT 3, 86400000);
            UPDATE progress SET done = 60 * 86400000";
        raw_sql(rows).execute(&history.pool).await.unwrap();
        history.has_legacy.store(true, Ordering::Relaxed);
        let read = async || {
            let mut all = Vec::new();
            for level in LEVELS {
                for server in [1, 3_001, 6_001] {
                    let server = ServerId(server);
                    all.push(history.series(server, 0, 100 * DAY, level).await.unwrap());
                }
                all.push(history.totals(0, 100 * DAY, level).await.unwrap());
            }
            all
        };
        let before = read().await;
        assert!(before.iter().all(|points| points.len() > 40), "{before:?}");
        let mut steps = 0;
        while !history.convert_legacy(Duration::ZERO).await.unwrap() {
            assert!(read().await == before, "after step {steps}");
            steps += 1;
        }
        assert!(steps > 60, "{steps}");
        assert!(read().await == before);
        // The roll-ups that are computed again have no more samples than the others.
        let keep = Retention::default();
        history.tidy(7 * DAY - 1, &keep).await.unwrap();
        let after = read().await;
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before.len(), after.len());
        }
        assert_eq!(before[..4], after[..4], "the samples");
    }
}
