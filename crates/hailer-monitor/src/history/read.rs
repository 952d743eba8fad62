//! Queries of the history.
//!
//! In: servers, periods and levels. Out: points, events and sessions.
//!
//! May import: `crate::health`, `crate::history`, `crate::history::blocks`, `crate::history::codec`,
//! `crate::sample`, `crate::server`, `crate::state`.

use super::blocks::{Rows, Which, merge_rollups, merge_samples};
use super::codec::Rollup;
use super::{History, HistoryError, Level, PlayerSession, Point};
use crate::health::State;
use crate::sample::{Event, EventKind, Millis, Sample};
use crate::server::ServerId;
use crate::state::{DAY_BUCKET_MS, DAY_BUCKETS, HalfHour, StateTable};
use futures_util::TryStreamExt;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AssertSqlSafe, Row};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The pseudo-server of the totals in the roll-ups.
pub(super) const ALL: ServerId = ServerId(0);
/// Maximum number of points of one series, the newest: more than any level keeps by default.
const MAX_POINTS: usize = 50_000;
/// Time that a sample of unknown length counts for, in milliseconds.
const UNKNOWN_SAMPLE_MS: i64 = 1_000;

impl History {
    /// Returns the points of one server from the bucket of `from` until before `to`, the oldest
    /// first. Buckets without samples are left out. The newest bucket has the samples of this moment.
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
            let rollups = self.rolled_up(server, from..to, level, true).await?;
            return Ok(points(&rollups));
        }
        let mut samples = self.samples(Which::One(server), from, to).await?;
        let samples = samples.remove(&server).unwrap_or_default();
        let newest = &samples[samples.len().saturating_sub(MAX_POINTS)..];
        let of_one = |sample: &Sample| point(&Rollup::of(sample.at, std::slice::from_ref(sample)));
        Ok(newest.iter().map(of_one).collect())
    }

    /// Returns the points of all servers together. At [`Level::Raw`] a point is a minute: use at most
    /// a day with few servers, and an hour with 100,000.
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
        const MINUTE: Millis = 60_000;
        if level != Level::Raw {
            return Ok(points(&self.rolled_up(ALL, from..to, level, true).await?));
        }
        let minute = |sample: &Sample| sample.at.div_euclid(MINUTE) * MINUTE;
        let mut minutes: BTreeMap<Millis, Vec<Rollup>> = BTreeMap::new();
        for samples in self.samples(Which::All, from, to).await?.into_values() {
            for some in samples.chunk_by(|one, next| minute(one) == minute(next)) {
                let at = minute(&some[0]);
                minutes.entry(at).or_default().push(Rollup::of(at, some));
            }
        }
        let totals = minutes
            .iter()
            .filter_map(|(at, rows)| Rollup::total(*at, rows));
        Ok(points(&totals.collect::<Vec<_>>()))
    }

    /// Returns the totals of all servers, without samples of buckets that are not closed.
    pub(super) async fn closed_totals(
        &self,
        from: Millis,
        to: Millis,
        level: Level,
    ) -> Result<Vec<Point>, HistoryError> {
        Ok(points(&self.rolled_up(ALL, from..to, level, false).await?))
    }

    /// Returns samples from `from` until before `to`.
    pub(super) async fn samples(
        &self,
        which: Which<'_>,
        from: Millis,
        to: Millis,
    ) -> Result<Rows<Sample>, HistoryError> {
        // In this order: a sample that moves meanwhile is found twice, and not missed.
        let mut rows = Rows::new();
        self.add_legacy_samples(&mut rows, which, from, to).await?;
        for more in [
            self.recent(which, from, to).await?,
            self.stored(Level::Raw, which, from, to).await?,
        ] {
            for (server, samples) in more {
                merge_samples(rows.entry(server).or_default(), samples);
            }
        }
        Ok(rows)
    }

    /// Returns the roll-ups of a server. `with_recent`: with samples that no roll-up has yet.
    async fn rolled_up(
        &self,
        server: ServerId,
        Range {
            start: from,
            end: to,
        }: Range<Millis>,
        level: Level,
        with_recent: bool,
    ) -> Result<Vec<Rollup>, HistoryError> {
        let from = level.floor(from);
        if from >= to {
            return Ok(Vec::new());
        }
        let end = level
            .floor(to.saturating_sub(1))
            .saturating_add(level.length());
        let which = Which::One(server);
        let mut rows = Rows::new();
        // Rows that move meanwhile are found twice, and not missed.
        let recent = match level {
            Level::FiveMinutes if with_recent => {
                let which = if server == ALL { Which::All } else { which };
                self.recent(which, from, end).await?
            }
            _ => Rows::new(),
        };
        self.add_legacy_rollups(&mut rows, level, which, from, end)
            .await?;
        for (server, stored) in self.stored(level, which, from, end).await? {
            merge_rollups(rows.entry(server).or_default(), stored);
        }
        let mut rows = rows.remove(&server).unwrap_or_default();
        if level == Level::FiveMinutes {
            let late = add_recent(&mut rows, &recent, server);
            if let (Some(first), Some(last)) = (late.first(), late.last()) {
                // Earlier samples of these buckets count too.
                let mut samples = self.samples(which, *first, last + level.length()).await?;
                let samples = samples.remove(&server).unwrap_or_default();
                let buckets =
                    samples.chunk_by(|one, next| level.floor(one.at) == level.floor(next.at));
                let sums = buckets.map(|some| Rollup::of(level.floor(some[0].at), some));
                merge_rollups(&mut rows, sums.filter(|sum| late.contains(&sum.at)));
            }
        } else {
            let done = sqlx::query("SELECT done FROM progress WHERE level = $1")
                .bind(level.number())
                .fetch_one(&self.pool)
                .await?;
            let start = from.max(level.floor(done.try_get(0)?));
            if start < end {
                let below = self.rolled_up(server, start..end, level.below(), with_recent);
                let below = Box::pin(below).await?;
                let buckets =
                    below.chunk_by(|one, next| level.floor(one.at) == level.floor(next.at));
                let sum = |bucket: &[Rollup]| {
                    let mut sum = Rollup::empty(level.floor(bucket[0].at));
                    bucket
                        .iter()
                        .for_each(|row| sum.add(row, level.below().length()));
                    sum
                };
                merge_rollups(&mut rows, buckets.map(sum));
            }
        }
        rows.drain(..rows.len().saturating_sub(MAX_POINTS));
        Ok(rows)
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
        let rows = "SELECT done, (SELECT MIN(bucket) FROM recent WHERE bucket >= $1) FROM progress
                    WHERE level = 1";
        let row = sqlx::query(rows)
            .bind(now - DAY_BUCKET_MS)
            .fetch_one(&self.pool)
            .await?;
        let done: Millis = row.try_get(0)?;
        let late: Option<Millis> = row.try_get(1)?;
        Ok(late.map_or(done, |late| late.min(done)))
    }

    /// Returns the 30 minutes from `start` of all servers that have samples in them; `None` if the
    /// roll-ups do not have all of these samples yet.
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

    /// Reads the roll-ups of 30 minutes until before `end`. Roll-ups of earlier versions count for
    /// their length.
    async fn rolled_up_half_hour(
        &self,
        start: Millis,
        end: Millis,
    ) -> Result<Vec<HalfHour>, HistoryError> {
        const LEVEL: Level = Level::FiveMinutes;
        let mut servers: BTreeMap<ServerId, (Rollup, i64)> = BTreeMap::new();
        let mut add = |server, rows: Vec<Rollup>| {
            let sum = servers
                .entry(server)
                .or_insert_with(|| (Rollup::empty(start), 0));
            rows.iter().for_each(|row| sum.0.add(row, LEVEL.length()));
        };
        let mut legacy = Rows::new();
        self.add_legacy_rollups(&mut legacy, LEVEL, Which::All, start, end)
            .await?;
        legacy
            .into_iter()
            .for_each(|(server, rows)| add(server, rows));
        self.each_stored(LEVEL, Which::All, start, end, add).await?;
        Ok(servers
            .into_iter()
            .map(|(server, sum)| half_hour(server, &sum.0, 0))
            .collect())
    }

    /// Reads the samples of 30 minutes from `from`.
    async fn sampled_half_hour(
        &self,
        start: Millis,
        from: Millis,
    ) -> Result<Vec<HalfHour>, HistoryError> {
        let samples = self
            .samples(Which::All, from, start + DAY_BUCKET_MS)
            .await?;
        let of_server = |(server, samples): (ServerId, Vec<Sample>)| {
            let mut sum = Rollup::of(start, &samples);
            let observed = |sample: &Sample| match sample.observed_ms {
                0 => UNKNOWN_SAMPLE_MS,
                known => known.into(),
            };
            let answered = samples.iter().filter(|sample| sample.is_answered);
            sum.observed_ms = Some(samples.iter().map(observed).sum());
            sum.up_ms = Some(answered.map(observed).sum());
            half_hour(server, &sum, samples.last().map_or(0, |sample| sample.at))
        };
        Ok(samples.into_iter().map(of_server).collect())
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

fn half_hour(server: ServerId, sum: &Rollup, last_sample: Millis) -> HalfHour {
    let players = sum.players.filter(|_| sum.with_players > 0);
    HalfHour {
        server,
        start: sum.at,
        last_sample,
        observed_ms: sum.observed_ms.unwrap_or(0),
        up_ms: sum.up_ms.unwrap_or(0),
        players: players.map_or(0.0, |players| players as f32 / sum.with_players as f32),
    }
}

/// Adds the roll-ups of recent samples. Returns the buckets that have one already.
fn add_recent(rows: &mut Vec<Rollup>, recent: &Rows<Sample>, server: ServerId) -> BTreeSet<Millis> {
    const LEVEL: Level = Level::FiveMinutes;
    let mut buckets: BTreeMap<Millis, Vec<Rollup>> = BTreeMap::new();
    for samples in recent.values() {
        for some in samples.chunk_by(|one, next| LEVEL.floor(one.at) == LEVEL.floor(next.at)) {
            let at = LEVEL.floor(some[0].at);
            buckets.entry(at).or_default().push(Rollup::of(at, some));
        }
    }
    let mut late = BTreeSet::new();
    for (at, of_servers) in buckets {
        let new = match server {
            ALL => Rollup::total(at, &of_servers),
            _ => of_servers.first().copied(),
        };
        match rows.binary_search_by_key(&at, |row| row.at) {
            Err(nth) => rows.splice(nth..nth, new).for_each(drop),
            Ok(_) => {
                late.insert(at);
            }
        }
    }
    late
}

fn points(rollups: &[Rollup]) -> Vec<Point> {
    let newest = &rollups[rollups.len().saturating_sub(MAX_POINTS)..];
    newest.iter().map(point).collect()
}

fn point(row: &Rollup) -> Point {
    let count = |value: i64| value.clamp(0, u32::MAX.into()) as u32;
    let most = |value: Option<i64>| value.map(count);
    let players = row.players.filter(|_| row.with_players > 0);
    let latency = row.latency.filter(|_| row.with_latency > 0);
    Point {
        at: row.at,
        polls: count(row.polls),
        answered: count(row.answered),
        players: players.map(|sum| sum as f64 / row.with_players as f64),
        players_max: most(row.players_max),
        max: most(row.max),
        latency: latency.map(|sum| count(sum / row.with_latency)),
        latency_max: most(row.latency_max),
        sent: count(row.sent),
        resent: count(row.resent),
        observed_ms: row.observed_ms,
        up_ms: row.up_ms,
    }
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
