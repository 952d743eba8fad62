//! Roll-ups and retention. Called every minute, in small transactions, so that writers never wait
//! for long.
//!
//! Each level stores until when its buckets are closed (`done`). Closed buckets are put on a list
//! (`late`), and so is a closed bucket into which a late sample comes. A bucket leaves the list in
//! the transaction that computes it, so that no bucket is lost when the process ends. The newest
//! bucket is also computed while it fills: that of five minutes with each call, the higher ones
//! when a bucket below closes.
//!
//! In: samples in the database. Out: roll-ups; deleted old rows.
//!
//! May import: `crate::history`, `crate::history::insert`, `crate::history::open`, `crate::sample`.

use super::insert::{late, run};
use super::open::{Dialect, Transaction};
use super::{History, HistoryError, Level, Retention};
use crate::sample::{Millis, millis};
use sqlx::{AnyConnection, AssertSqlSafe, Row, raw_sql};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Delay between the end of a bucket and its closing, in milliseconds: a sample has the time when
/// it was due, and is written after the reply.
const GRACE_MS: Millis = 30_000;
/// Buckets that are closed, or read from the list, at a time.
const BUCKETS_PER_READ: usize = 500;
/// Limit of rows deleted by one statement.
const ROWS_PER_DELETE: i64 = 20_000;
/// Limit of statements that one call uses to delete rows of one table: more rows than a minute
/// adds.
const MAX_DELETES: u32 = 50;
/// Servers whose sessions one call checks.
const SERVERS_PER_CALL: i64 = 2_000;

impl History {
    /// Rolls up new samples, and deletes old rows. Call it every minute. Any process may call it at
    /// any time. After a long stop the first call takes longer.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn tidy(&self, now: Millis, keep: &Retention) -> Result<(), HistoryError> {
        for level in [Level::FiveMinutes, Level::Hour, Level::Day] {
            self.roll_up(level, now).await?;
        }
        self.delete_expired(now, keep).await
    }

    async fn roll_up(&self, level: Level, now: Millis) -> Result<(), HistoryError> {
        while !self.close_buckets(level, now).await? {}
        loop {
            let list =
                sqlx::query("SELECT bucket FROM late WHERE level = $1 ORDER BY bucket LIMIT $2");
            let list = list
                .bind(level.number())
                .bind(BUCKETS_PER_READ as i64)
                .fetch_all(&self.pool)
                .await?;
            for late in &list {
                let bucket: Millis = late.try_get(0)?;
                let mut change = self.begin_alone().await?;
                let delete = sqlx::query("DELETE FROM late WHERE level = $1 AND bucket = $2");
                delete
                    .bind(level.number())
                    .bind(bucket)
                    .execute(&mut *change)
                    .await?;
                self.work_out(&mut change, level, bucket).await?;
                change.commit().await?;
            }
            if list.len() < BUCKETS_PER_READ {
                break;
            }
        }
        let progress = "SELECT done, seen, (SELECT done FROM progress WHERE level = $2) FROM progress WHERE level = $1";
        let progress = sqlx::query(progress)
            .bind(level.number())
            .bind(level.number() - 1)
            .fetch_one(&self.pool)
            .await?;
        let mut from: Millis = progress.try_get(0)?;
        let seen: Millis = progress.try_get(1)?;
        let below: Option<Millis> = progress.try_get(2)?;
        if below.is_some_and(|below| below <= seen) {
            return Ok(());
        }
        loop {
            let mut change = self.begin_alone().await?;
            let Some(bucket) = next_bucket(&mut change, level, from, now).await? else {
                break;
            };
            self.work_out(&mut change, level, bucket).await?;
            change.commit().await?;
            from = bucket + level.length();
        }
        let Some(below) = below else { return Ok(()) };
        let mut change = self.begin_alone().await?;
        let update = sqlx::query("UPDATE progress SET seen = $2 WHERE level = $1")
            .bind(level.number())
            .bind(below);
        update.execute(&mut *change).await?;
        change.commit().await
    }

    /// Puts closed buckets on the list. Later writers put them there again. Returns `false` if
    /// there are more.
    async fn close_buckets(&self, level: Level, now: Millis) -> Result<bool, HistoryError> {
        let mut change = self.begin_alone().await?;
        let progress = "SELECT done, (SELECT done FROM progress WHERE level = $2) FROM progress WHERE level = $1";
        let progress = sqlx::query(progress)
            .bind(level.number())
            .bind(level.number() - 1)
            .fetch_one(&mut *change)
            .await?;
        let done: Millis = progress.try_get(0)?;
        // The buckets of a level can close when those of the level below are closed.
        let to = level.floor(
            progress
                .try_get::<Option<Millis>, _>(1)?
                .unwrap_or(now - GRACE_MS),
        );
        if to <= done {
            return Ok(true);
        }
        let mut closed = Vec::new();
        let mut from = done;
        while closed.len() < BUCKETS_PER_READ && from < to {
            let Some(bucket) = next_bucket(&mut change, level, from, to - 1).await? else {
                break;
            };
            closed.push(bucket);
            from = bucket + level.length();
        }
        let is_all = closed.len() < BUCKETS_PER_READ;
        run(&mut change, late(self.dialect, level, closed)).await?;
        let update =
            sqlx::query("UPDATE progress SET done = $2 WHERE level = $1").bind(level.number());
        update
            .bind(if is_all { to } else { from })
            .execute(&mut *change)
            .await?;
        change.commit().await?;
        Ok(is_all)
    }

    /// Begins a transaction without concurrent writers of samples or roll-ups.
    pub(super) async fn begin_alone(&self) -> Result<Transaction, HistoryError> {
        let mut change = self.begin().await?;
        if self.dialect == Dialect::Postgres {
            // The roll-up of millions of servers takes minutes.
            let lock = "SET LOCAL statement_timeout = '900s'; SELECT done FROM progress WHERE level = 1 FOR UPDATE";
            raw_sql(lock).execute(&mut *change).await?;
        }
        Ok(change)
    }

    /// Computes one bucket of all servers and the totals, in a transaction from
    /// [`begin_alone`](Self::begin_alone).
    async fn work_out(
        &self,
        change: &mut Transaction,
        level: Level,
        bucket: Millis,
    ) -> Result<(), HistoryError> {
        let each = match level {
            Level::FiveMinutes => {
                "SELECT CAST($1 AS BIGINT), CAST($2 AS BIGINT), server, COUNT(*), CAST(SUM(is_answered) AS BIGINT),
                        COUNT(players), CAST(SUM(players) AS BIGINT), MAX(players), MAX(max),
                        COUNT(latency), CAST(SUM(latency) AS BIGINT), MAX(latency),
                        CAST(SUM(sent) AS BIGINT), CAST(SUM(resent) AS BIGINT),
                        CASE WHEN COUNT(observed_ms) = COUNT(*) THEN CAST(SUM(observed_ms) AS BIGINT) END,
                        CASE WHEN COUNT(observed_ms) = COUNT(*) THEN CAST(SUM(observed_ms * is_answered) AS BIGINT) END
                 FROM sample WHERE at >= $2 AND at < $3 GROUP BY server"
            }
            _ => {
                "SELECT CAST($1 AS BIGINT), CAST($2 AS BIGINT), server, CAST(SUM(polls) AS BIGINT),
                        CAST(SUM(answered) AS BIGINT), CAST(SUM(with_players) AS BIGINT), CAST(SUM(players) AS BIGINT),
                        MAX(players_max), MAX(max), CAST(SUM(with_latency) AS BIGINT), CAST(SUM(latency) AS BIGINT),
                        MAX(latency_max), CAST(SUM(sent) AS BIGINT), CAST(SUM(resent) AS BIGINT),
                        CAST(SUM(COALESCE(observed_ms, $4)) AS BIGINT),
                        CAST(SUM(COALESCE(up_ms, $4 * answered / NULLIF(polls, 0))) AS BIGINT)
                 FROM rollup WHERE level = $1 - 1 AND bucket >= $2 AND bucket < $3 GROUP BY server"
            }
        };
        let end = bucket + level.length();
        let put = sqlx::query(AssertSqlSafe(format!(
            "{INSERT_ROLLUP} {each} {KEEP_LARGER_ROLLUP}"
        )));
        let mut put = put.bind(level.number()).bind(bucket).bind(end);
        // Roll-ups of earlier versions count for their length.
        match level {
            Level::Hour => put = put.bind(Level::FiveMinutes.length()),
            Level::Day => put = put.bind(Level::Hour.length()),
            Level::Raw | Level::FiveMinutes => {}
        }
        put.execute(&mut **change).await?;
        if level == Level::FiveMinutes {
            let put = sqlx::query(AssertSqlSafe(format!(
                "{INSERT_ROLLUP} {ALL_SERVERS} {KEEP_LARGER_ROLLUP}"
            )));
            put.bind(level.number())
                .bind(bucket)
                .bind(bucket)
                .execute(&mut **change)
                .await?;
        }
        let above = match level {
            Level::FiveMinutes => Level::Hour,
            Level::Hour => Level::Day,
            Level::Raw | Level::Day => return Ok(()),
        };
        let done = sqlx::query("SELECT done FROM progress WHERE level = $1").bind(above.number());
        let done: Millis = done.fetch_one(&mut **change).await?.try_get(0)?;
        let above_it = Some(above.floor(bucket)).filter(|&bucket| bucket < done);
        run(change, late(self.dialect, above, above_it)).await?;
        Ok(())
    }

    async fn delete_expired(&self, now: Millis, keep: &Retention) -> Result<(), HistoryError> {
        let before = |kept: Duration| now - millis(kept);
        // A bucket is deleted as a whole, and only after it was rolled up.
        let done = "SELECT CASE WHEN listed.bucket < done THEN listed.bucket ELSE done END FROM progress
                    LEFT JOIN (SELECT level, MIN(bucket) AS bucket FROM late GROUP BY level) AS listed
                    ON listed.level = progress.level ORDER BY progress.level";
        let done = sqlx::query(done).fetch_all(&self.pool).await?;
        // The time until which the level above is complete.
        let done = |level: Level| Ok::<Millis, HistoryError>(done[level as usize].try_get(0)?);
        let raw = Level::FiveMinutes.floor(before(keep.raw).min(done(Level::Raw)?));
        self.delete_front("sample", "at", "1 = 1", raw).await?;
        for (level, kept) in [
            (Level::FiveMinutes, keep.five_minutes),
            (Level::Hour, keep.hour),
            (Level::Day, keep.day),
        ] {
            let mut cut = before(kept);
            if level != Level::Day {
                cut = cut.min(done(level)?);
            }
            let filter = format!("level = {}", level.number());
            self.delete_front("rollup", "bucket", &filter, level.floor(cut))
                .await?;
        }
        self.delete_front("event", "at", "1 = 1", before(keep.day))
            .await?;
        let longest = [keep.raw, keep.five_minutes, keep.hour, keep.day]
            .into_iter()
            .max()
            .unwrap_or_default();
        self.delete_of_servers(before(keep.hour), before(longest))
            .await
    }

    /// Deletes the oldest rows of a table, some at a time. The SQL text has no outside data.
    async fn delete_front(
        &self,
        table: &str,
        column: &str,
        filter: &str,
        cut: Millis,
    ) -> Result<(), HistoryError> {
        let edge = format!(
            "SELECT {column} FROM {table} WHERE {filter} AND {column} < $1 ORDER BY {column} LIMIT 1 OFFSET $2"
        );
        let delete = format!("DELETE FROM {table} WHERE {filter} AND {column} <= $1");
        for _ in 0..MAX_DELETES {
            let edge = sqlx::query(AssertSqlSafe(edge.clone()))
                .bind(cut)
                .bind(ROWS_PER_DELETE)
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

/// Returns the first bucket within a period, both ends included, for which the level below has rows.
async fn next_bucket(
    connection: &mut AnyConnection,
    level: Level,
    from: Millis,
    to: Millis,
) -> Result<Option<Millis>, HistoryError> {
    let first = match level {
        Level::FiveMinutes => sqlx::query("SELECT MIN(at) FROM sample WHERE at >= $1 AND at <= $2")
            .bind(from)
            .bind(to),
        _ => sqlx::query(
            "SELECT MIN(bucket) FROM rollup WHERE bucket >= $1 AND bucket <= $2 AND level = $3",
        )
        .bind(from)
        .bind(to)
        .bind(level.number() - 1),
    };
    let first: Option<Millis> = first.fetch_one(connection).await?.try_get(0)?;
    Ok(first.map(|at| level.floor(at)))
}

pub(super) const INSERT_ROLLUP: &str =
    "INSERT INTO rollup (level, bucket, server, polls, answered, with_players, players, players_max,
    max, with_latency, latency, latency_max, sent, resent, observed_ms, up_ms)";
/// A roll-up replaces only one with fewer samples: rows below may have been deleted. (Totals of
/// totals have a higher count than the total of this bucket, see below.)
pub(super) const KEEP_LARGER_ROLLUP: &str = "ON CONFLICT (level, bucket, server) DO UPDATE SET polls = excluded.polls,
    answered = excluded.answered, with_players = excluded.with_players, players = excluded.players, players_max = excluded.players_max,
    max = excluded.max, with_latency = excluded.with_latency, latency = excluded.latency, latency_max = excluded.latency_max,
    sent = excluded.sent, resent = excluded.resent, observed_ms = excluded.observed_ms, up_ms = excluded.up_ms
    WHERE excluded.polls > rollup.polls OR excluded.polls = rollup.polls AND excluded.with_players > rollup.with_players";
/// Totals of all servers: the sum of the mean players of each server, in hundredths, with a count
/// of 100. Above five minutes the totals are rolled up like a server. From one bucket to another,
/// both included.
pub(super) const ALL_SERVERS: &str = "
    SELECT level, bucket, server, polls, answered, with_players, players, (players + 50) / 100, max, with_latency, latency, latency_max,
           sent, resent, observed_ms, up_ms
    FROM (
        SELECT level, bucket, 0 AS server, CAST(SUM(polls) AS BIGINT) AS polls,
               CAST(SUM(answered) AS BIGINT) AS answered, CASE WHEN SUM(with_players) > 0 THEN 100 ELSE 0 END AS with_players,
               CAST(ROUND(SUM(CAST(players AS DOUBLE PRECISION) / NULLIF(with_players, 0)) * 100) AS BIGINT) AS players,
               CAST(SUM(max) AS BIGINT) AS max, CAST(SUM(with_latency) AS BIGINT) AS with_latency,
               CAST(SUM(latency) AS BIGINT) AS latency, MAX(latency_max) AS latency_max,
               CAST(SUM(sent) AS BIGINT) AS sent, CAST(SUM(resent) AS BIGINT) AS resent,
               CAST(SUM(observed_ms) AS BIGINT) AS observed_ms, CAST(SUM(up_ms) AS BIGINT) AS up_ms
        FROM rollup WHERE level = $1 AND bucket >= $2 AND bucket <= $3 AND server <> 0 GROUP BY level, bucket
    ) AS sums WHERE polls > 0";
