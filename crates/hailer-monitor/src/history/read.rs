//! Queries of the history.
//!
//! In: servers, periods and levels. Out: points, events and sessions.
//!
//! May import: `crate::health`, `crate::history`, `crate::sample`, `crate::server`, `crate::state`.

use super::{History, HistoryError, Level, PlayerSession, Point};
use crate::health::State;
use crate::sample::{Event, EventKind, Millis};
use crate::server::ServerId;
use crate::state::{DAY_BUCKET_MS, DAY_BUCKETS, HalfHour, StateTable};
use futures_util::TryStreamExt;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AssertSqlSafe, Row};
use std::ops::Range;

/// The pseudo-server of the totals in the roll-ups.
pub(super) const ALL: ServerId = ServerId(0);
/// Maximum number of points of one series, the newest: more than any level keeps by default.
const MAX_POINTS: i64 = 50_000;

impl History {
    /// Returns the points of one server from the bucket of `from` until before `to`, the oldest
    /// first. Buckets without samples are left out. The newest bucket is as of the last
    /// [`tidy`](Self::tidy).
    ///
    /// [`Level::Raw`] reads the samples of all servers in that period: use at most a day with few
    /// servers, and an hour with 100,000.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn series(
        &self,
        server: ServerId,
        from: Millis,
        to: Millis,
        level: Level,
    ) -> Result<Vec<Point>, HistoryError> {
        if level != Level::Raw {
            return self.rolled_up(server, from..to, level).await;
        }
        let rows = "SELECT at, 1, is_answered, CASE WHEN players IS NULL THEN 0 ELSE 1 END, players, players, max,
                           CASE WHEN latency IS NULL THEN 0 ELSE 1 END, latency, latency, sent, resent,
                           observed_ms, observed_ms * is_answered
                    FROM sample WHERE at >= $1 AND at < $2 AND server = $3 ORDER BY at DESC LIMIT $4";
        let rows = sqlx::query(rows)
            .bind(from)
            .bind(to)
            .bind(server.0)
            .bind(MAX_POINTS);
        let mut points = self.all(rows, point).await?;
        points.reverse();
        Ok(points)
    }

    /// Returns the points of all servers together. At [`Level::Raw`] a point is a minute.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn totals(
        &self,
        from: Millis,
        to: Millis,
        level: Level,
    ) -> Result<Vec<Point>, HistoryError> {
        if level != Level::Raw {
            return self.rolled_up(ALL, from..to, level).await;
        }
        let rows = "
            SELECT minute, CAST(SUM(polls) AS BIGINT), CAST(SUM(answered) AS BIGINT), 1,
                   CAST(ROUND(SUM(players)) AS BIGINT), CAST(ROUND(SUM(players)) AS BIGINT), CAST(SUM(max) AS BIGINT),
                   CAST(SUM(with_latency) AS BIGINT), CAST(SUM(latency) AS BIGINT), MAX(latency_max),
                   CAST(SUM(sent) AS BIGINT), CAST(SUM(resent) AS BIGINT),
                   CAST(SUM(observed_ms) AS BIGINT), CAST(SUM(up_ms) AS BIGINT)
            FROM (
                SELECT at / 60000 * 60000 AS minute, server, COUNT(*) AS polls, SUM(is_answered) AS answered,
                       AVG(CAST(players AS DOUBLE PRECISION)) AS players, MAX(max) AS max, COUNT(latency) AS with_latency,
                       SUM(latency) AS latency, MAX(latency) AS latency_max, SUM(sent) AS sent, SUM(resent) AS resent,
                       SUM(observed_ms) AS observed_ms, SUM(observed_ms * is_answered) AS up_ms
                FROM sample WHERE at >= $1 AND at < $2 GROUP BY at / 60000 * 60000, server
            ) AS each_server GROUP BY minute ORDER BY minute LIMIT $3";
        self.all(
            sqlx::query(rows).bind(from).bind(to).bind(MAX_POINTS),
            point,
        )
        .await
    }

    async fn rolled_up(
        &self,
        server: ServerId,
        Range {
            start: from,
            end: to,
        }: Range<Millis>,
        level: Level,
    ) -> Result<Vec<Point>, HistoryError> {
        // Each bucket is read by its key, from the first existing bucket to the last.
        let ends = sqlx::query("SELECT MIN(bucket), MAX(bucket) FROM rollup WHERE level = $1")
            .bind(level.number());
        let ends = ends.fetch_one(&self.pool).await?;
        let (Some(first), Some(last)) = (
            ends.try_get::<Option<i64>, _>(0)?,
            ends.try_get::<Option<i64>, _>(1)?,
        ) else {
            return Ok(Vec::new());
        };
        let length = level.length();
        let last = last.min(to.saturating_sub(1));
        let from = level.floor(from.max(first));
        let from = from.max(level.floor(last) - (MAX_POINTS - 1) * length);
        if from > last {
            return Ok(Vec::new());
        }
        let rows = "
            WITH RECURSIVE grid (start) AS (
                SELECT CAST($1 AS BIGINT) UNION ALL SELECT start + $2 FROM grid WHERE start + $2 <= $3
            )
            SELECT bucket, polls, answered, with_players, players, players_max, max, with_latency, latency, latency_max,
                   sent, resent, observed_ms, up_ms
            FROM grid CROSS JOIN rollup WHERE level = $4 AND bucket = start AND server = $5 ORDER BY start";
        let rows = sqlx::query(rows)
            .bind(from)
            .bind(length)
            .bind(last)
            .bind(level.number())
            .bind(server.0);
        self.all(rows, point).await
    }

    /// Returns events before a time, of one server or of all, the newest first. If the oldest of
    /// `limit` events shares its time with others, all of these are returned, so that the next page
    /// begins before it.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn events(
        &self,
        server: Option<ServerId>,
        before: Millis,
        limit: u32,
    ) -> Result<Vec<Event>, HistoryError> {
        let rows = match server {
            Some(server) => sqlx::query(
                "SELECT server, at, body FROM event WHERE server = $1 AND at < $2 AND at >= (SELECT MIN(at) FROM
                   (SELECT at FROM event WHERE server = $1 AND at < $2 ORDER BY at DESC LIMIT $3) AS page)
                 ORDER BY at DESC, kind",
            )
            .bind(server.0),
            None => sqlx::query(
                "SELECT server, at, body FROM event WHERE at < $1 AND at >= (SELECT MIN(at) FROM
                   (SELECT at FROM event WHERE at < $1 ORDER BY at DESC LIMIT $2) AS page)
                 ORDER BY at DESC, server, kind",
            ),
        };
        self.all(rows.bind(before).bind(i64::from(limit)), event)
            .await
    }

    /// Returns events of all servers after a time, the oldest first. Pages end as in
    /// [`events`](Self::events).
    ///
    /// # Errors
    /// If the database fails.
    pub async fn events_after(
        &self,
        after: Millis,
        limit: u32,
    ) -> Result<Vec<Event>, HistoryError> {
        let rows = "SELECT server, at, body FROM event WHERE at > $1 AND at <= (SELECT MAX(at) FROM
                      (SELECT at FROM event WHERE at > $1 ORDER BY at LIMIT $2) AS page)
                    ORDER BY at, server, kind";
        self.all(sqlx::query(rows).bind(after).bind(i64::from(limit)), event)
            .await
    }

    /// Returns sessions of a server that began before a time, the newest first. Pages end as in
    /// [`events`](Self::events).
    ///
    /// # Errors
    /// If the database fails.
    pub async fn sessions(
        &self,
        server: ServerId,
        before: Millis,
        limit: u32,
    ) -> Result<Vec<PlayerSession>, HistoryError> {
        let rows = "SELECT server, first, player, last FROM session
                    WHERE server = $1 AND first < $2 AND first >= (SELECT MIN(first) FROM
                      (SELECT first FROM session WHERE server = $1 AND first < $2 ORDER BY first DESC LIMIT $3) AS page)
                    ORDER BY first DESC, player";
        self.all(
            sqlx::query(rows)
                .bind(server.0)
                .bind(before)
                .bind(i64::from(limit)),
            session,
        )
        .await
    }

    /// Returns sessions on the watchlist that were last seen at this time or later.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn sessions_since(&self, last: Millis) -> Result<Vec<PlayerSession>, HistoryError> {
        let rows = "SELECT session.server, session.first, session.player, session.last FROM session
                    JOIN server ON server.id = session.server WHERE session.last >= $1 AND server.removed_at IS NULL
                    ORDER BY session.server, session.player, session.first";
        self.all(sqlx::query(rows).bind(last), session).await
    }

    /// Returns sessions of the servers from `from` until before `to` that were last seen at `last`
    /// or later. Only sessions that began within a day before are searched.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn sessions_of(
        &self,
        from: ServerId,
        to: ServerId,
        last: Millis,
    ) -> Result<Vec<PlayerSession>, HistoryError> {
        let rows = "SELECT session.server, session.first, session.player, session.last FROM server
                    JOIN session ON session.server = server.id AND session.first >= $4
                    WHERE server.id >= $1 AND server.id < $2 AND session.last >= $3 AND server.removed_at IS NULL
                    ORDER BY session.server, session.player, session.first";
        let first = last - 24 * 3_600_000;
        self.all(
            sqlx::query(rows)
                .bind(from.0)
                .bind(to.0)
                .bind(last)
                .bind(first),
            session,
        )
        .await
    }

    /// Returns the time by the clock of the database, in Unix milliseconds.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn time(&self) -> Result<Millis, HistoryError> {
        let time = AssertSqlSafe(format!("SELECT {}", self.dialect.now()));
        let row = sqlx::query(time).fetch_one(&self.pool).await?;
        Ok(row.try_get(0)?)
    }

    /// Returns the last stored state of each server, and since when it has it.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn last_states(&self) -> Result<Vec<(ServerId, State, Millis)>, HistoryError> {
        self.all(
            sqlx::query("SELECT server, state, since FROM state ORDER BY server"),
            state,
        )
        .await
    }

    /// Returns the servers that were flapping when the last of their events was stored. Events before
    /// `after` do not count.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn flapping_servers(&self, after: Millis) -> Result<Vec<ServerId>, HistoryError> {
        let rows = "SELECT server FROM event WHERE at > $1 AND kind IN ('flapping', 'steady') GROUP BY server
                    HAVING COALESCE(MAX(CASE WHEN kind = 'flapping' THEN at END), 0)
                         > COALESCE(MAX(CASE WHEN kind = 'steady' THEN at END), 0)";
        self.all(sqlx::query(rows).bind(after), |row| {
            Ok(ServerId(row.try_get(0)?))
        })
        .await
    }

    /// Returns the stored states of the servers from `from` until before `to`.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn states_of(
        &self,
        from: ServerId,
        to: ServerId,
    ) -> Result<Vec<(ServerId, State, Millis)>, HistoryError> {
        let rows = "SELECT server, state, since FROM state WHERE server >= $1 AND server < $2 ORDER BY server";
        self.all(sqlx::query(rows).bind(from.0).bind(to.0), state)
            .await
    }

    /// Loads the last day of all servers into the state table: roll-ups, and the samples that are not
    /// rolled up yet. Reads 30 minutes at a time: a whole day of 100,000 servers would need more
    /// memory than all other parts.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn load_day(&self, state: &StateTable, now: Millis) -> Result<(), HistoryError> {
        let last = now.div_euclid(DAY_BUCKET_MS) * DAY_BUCKET_MS;
        let first = last - (DAY_BUCKETS as Millis - 1) * DAY_BUCKET_MS;
        let complete = self
            .complete_until(now)
            .await?
            .clamp(first, last + DAY_BUCKET_MS);
        for nth in 0..DAY_BUCKETS as Millis {
            let start = first + nth * DAY_BUCKET_MS;
            let end = (start + DAY_BUCKET_MS).min(complete);
            if start < end {
                state.add_half_hours(&self.rolled_up_half_hour(start, end).await?);
            }
            if complete < start + DAY_BUCKET_MS {
                let from = start.max(complete);
                state.add_half_hours(&self.sampled_half_hour(start, from).await?);
            }
        }
        Ok(())
    }

    /// Returns the time until which the roll-ups have all samples that the history has, apart from
    /// samples that came late by more than half an hour.
    async fn complete_until(&self, now: Millis) -> Result<Millis, HistoryError> {
        let rows = "SELECT done, (SELECT MIN(bucket) FROM late WHERE level = 1 AND bucket >= $1) FROM progress
                    WHERE level = 1";
        let row = sqlx::query(rows)
            .bind(now - DAY_BUCKET_MS)
            .fetch_one(&self.pool)
            .await?;
        let done: Millis = row.try_get(0)?;
        let late: Option<Millis> = row.try_get(1)?;
        Ok(late.map_or(done, |late| late.min(done)))
    }

    /// Returns the half hour from `start` of all servers that have samples in it; `None` if the
    /// roll-ups do not have all of its samples yet.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn half_hour(&self, start: Millis) -> Result<Option<Vec<HalfHour>>, HistoryError> {
        let end = start + DAY_BUCKET_MS;
        if self.complete_until(end).await? < end {
            return Ok(None);
        }
        Ok(Some(self.rolled_up_half_hour(start, end).await?))
    }

    /// Reads the roll-ups of a half hour until before `end`. Those of earlier versions count for
    /// their length.
    async fn rolled_up_half_hour(
        &self,
        start: Millis,
        end: Millis,
    ) -> Result<Vec<HalfHour>, HistoryError> {
        let rows = "SELECT server, CAST($1 AS BIGINT),
                           CAST(SUM(COALESCE(observed_ms, CASE WHEN polls > 0 THEN 300000 ELSE 0 END)) AS BIGINT),
                           CAST(COALESCE(SUM(COALESCE(up_ms, 300000 * answered / NULLIF(polls, 0))), 0) AS BIGINT),
                           CAST(COALESCE(SUM(players), 0) AS BIGINT), CAST(COALESCE(SUM(with_players), 0) AS BIGINT),
                           CAST(0 AS BIGINT)
                    FROM rollup WHERE level = 1 AND bucket >= $1 AND bucket < $2 AND server <> 0 GROUP BY server";
        self.all(sqlx::query(rows).bind(start).bind(end), half_hour)
            .await
    }

    /// Reads the samples of a half hour from `from`.
    async fn sampled_half_hour(
        &self,
        start: Millis,
        from: Millis,
    ) -> Result<Vec<HalfHour>, HistoryError> {
        let rows =
            "SELECT server, CAST($1 AS BIGINT), CAST(SUM(COALESCE(observed_ms, 1000)) AS BIGINT),
                           CAST(SUM(COALESCE(observed_ms, 1000) * is_answered) AS BIGINT),
                           CAST(COALESCE(SUM(players), 0) AS BIGINT), COUNT(players), MAX(at)
                    FROM sample WHERE at >= $2 AND at < $3 GROUP BY server";
        let end = start + DAY_BUCKET_MS;
        self.all(
            sqlx::query(rows).bind(start).bind(from).bind(end),
            half_hour,
        )
        .await
    }

    /// Converts rows as they arrive: raw rows take much more memory.
    pub(super) async fn all<T>(
        &self,
        query: Query<'_, Any, AnyArguments>,
        read: fn(&AnyRow) -> Result<T, HistoryError>,
    ) -> Result<Vec<T>, HistoryError> {
        let mut rows = query.fetch(&self.pool);
        let mut all = Vec::new();
        while let Some(row) = rows.try_next().await? {
            all.push(read(&row)?);
        }
        Ok(all)
    }
}

fn state(row: &AnyRow) -> Result<(ServerId, State, Millis), HistoryError> {
    let word: String = row.try_get(1)?;
    let state = match word.as_str() {
        "up" => State::Up,
        "down" => State::Down,
        _ => return Err(HistoryError::Stored(format!("state {word:?}"))),
    };
    Ok((ServerId(row.try_get(0)?), state, row.try_get(2)?))
}

fn half_hour(row: &AnyRow) -> Result<HalfHour, HistoryError> {
    let players: i64 = row.try_get(4)?;
    let replies: i64 = row.try_get(5)?;
    Ok(HalfHour {
        server: ServerId(row.try_get(0)?),
        start: row.try_get(1)?,
        last_sample: row.try_get(6)?,
        observed_ms: row.try_get(2)?,
        up_ms: row.try_get(3)?,
        players: if replies > 0 {
            players as f32 / replies as f32
        } else {
            0.0
        },
    })
}

/// Reads a point from the columns of `rollup`, the bucket first.
fn point(row: &AnyRow) -> Result<Point, HistoryError> {
    let number = |column| Ok::<_, HistoryError>(row.try_get::<Option<i64>, _>(column)?);
    let count = |column| {
        Ok::<_, HistoryError>(number(column)?.unwrap_or(0).clamp(0, u32::MAX.into()) as u32)
    };
    let most = |column| {
        Ok::<_, HistoryError>(number(column)?.map(|most| most.clamp(0, u32::MAX.into()) as u32))
    };
    let with_players = count(3)?;
    let with_latency = count(7)?;
    Ok(Point {
        at: row.try_get(0)?,
        polls: count(1)?,
        answered: count(2)?,
        players: number(4)?
            .filter(|_| with_players > 0)
            .map(|sum| sum as f64 / f64::from(with_players)),
        players_max: most(5)?,
        max: most(6)?,
        latency: number(8)?
            .filter(|_| with_latency > 0)
            .map(|sum| (sum / i64::from(with_latency)) as u32),
        latency_max: most(9)?,
        sent: count(10)?,
        resent: count(11)?,
        observed_ms: number(12)?,
        up_ms: number(13)?,
    })
}

pub(super) fn event(row: &AnyRow) -> Result<Event, HistoryError> {
    let body: String = row.try_get(2)?;
    let kind: EventKind = serde_json::from_str(&body)
        .map_err(|error| HistoryError::Stored(format!("event {body:?}: {error}")))?;
    Ok(Event {
        server: ServerId(row.try_get(0)?),
        at: row.try_get(1)?,
        kind,
    })
}

pub(super) fn session(row: &AnyRow) -> Result<PlayerSession, HistoryError> {
    Ok(PlayerSession {
        server: ServerId(row.try_get(0)?),
        first: row.try_get(1)?,
        player: row.try_get(2)?,
        last: row.try_get(3)?,
    })
}
