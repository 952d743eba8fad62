//! Times in which the monitor did not run.
//!
//! In: samples in the database. Out: gaps.
//!
//! May import: `crate::history`, `crate::history::blocks`, `crate::sample`, `crate::server`,
//! `crate::uptime`.

use super::blocks::{Rows, Which};
use super::{History, HistoryError, Level};
use crate::sample::{Event, Millis, Sample};
use crate::server::ServerId;
use crate::uptime::MAX_SAMPLE_MS;
use serde::{Deserialize, Serialize};
use sqlx::Row;
use std::collections::BTreeSet;

const DAY: Millis = 86_400_000;
/// Maximum number of gaps of one query, the newest.
const MAX_GAPS: usize = 100;
/// How far the last page of events of all servers looks back for gaps, in milliseconds.
const LAST_PAGE_MS: Millis = 7 * DAY;

/// A time in which no server was polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gap {
    /// Time of the last sample before it, in Unix milliseconds.
    #[serde(rename = "from_ms")]
    pub from: Millis,
    /// Time of the first sample after it, in Unix milliseconds.
    #[serde(rename = "to_ms")]
    pub to: Millis,
}

impl History {
    /// Returns the gaps that began from `from` until before `to`, the newest first. `interval`: the
    /// shortest polling interval; shorter times without samples are no gaps. A gap is found if a whole
    /// bucket has no samples. The last week has buckets of 5 minutes, the year before buckets of an hour,
    /// and earlier times buckets of a day; deleted buckets are replaced by the next level.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn gaps(
        &self,
        from: Millis,
        to: Millis,
        interval: Millis,
    ) -> Result<Vec<Gap>, HistoryError> {
        let most = [
            (Level::FiveMinutes, LAST_PAGE_MS + DAY),
            (Level::Hour, 366 * DAY),
            (Level::Day, Millis::MAX),
        ];
        let mut gaps = Vec::new();
        let mut end = to;
        for (level, most) in most {
            let start = from.max(end.saturating_sub(most));
            if start >= end {
                break;
            }
            let mut buckets = self.buckets(start, end, level).await?;
            let Some(&last) = buckets.last() else {
                continue;
            };
            let next = self
                .buckets(last + level.length(), Millis::MAX, level)
                .await?;
            buckets.extend(next.first());
            let some = self.gaps_between(&buckets, level, start..end, interval);
            gaps.extend(some.await?);
            end = start;
        }
        gaps.truncate(MAX_GAPS);
        Ok(gaps)
    }

    async fn gaps_between(
        &self,
        buckets: &[Millis],
        level: Level,
        within: std::ops::Range<Millis>,
        interval: Millis,
    ) -> Result<Vec<Gap>, HistoryError> {
        let mut gaps = Vec::new();
        for pair in buckets.windows(2).rev() {
            let (before, after) = (pair[0], pair[1]);
            if after - before <= level.length() || gaps.len() == MAX_GAPS {
                continue;
            }
            // Samples are kept for a shorter time than buckets.
            let gap = Gap {
                from: self
                    .edges(before, level)
                    .await?
                    .map_or(before + level.length(), |(_, last)| last),
                to: self
                    .edges(after, level)
                    .await?
                    .map_or(after, |(first, _)| first),
            };
            if within.contains(&gap.from) && gap.to - gap.from > MAX_SAMPLE_MS.max(interval * 3 / 2)
            {
                gaps.push(gap);
            }
        }
        Ok(gaps)
    }

    /// Returns the buckets that have samples.
    async fn buckets(
        &self,
        from: Millis,
        to: Millis,
        level: Level,
    ) -> Result<Vec<Millis>, HistoryError> {
        if from >= to {
            return Ok(Vec::new());
        }
        let closed = self.closed_totals(from, to, level).await?;
        let mut buckets: BTreeSet<Millis> = closed.iter().map(|point| point.at).collect();
        let recent = "SELECT DISTINCT bucket FROM recent WHERE bucket >= $1 AND bucket < $2";
        let recent = sqlx::query(recent).bind(level.floor(from)).bind(to);
        for row in recent.fetch_all(&self.pool).await? {
            buckets.insert(level.floor(row.try_get(0)?));
        }
        Ok(buckets.into_iter().collect())
    }

    /// Returns the times of the first and the last sample in a bucket, as long as samples are kept.
    async fn edges(
        &self,
        bucket: Millis,
        level: Level,
    ) -> Result<Option<(Millis, Millis)>, HistoryError> {
        let end = bucket.saturating_add(level.length());
        let row = sqlx::query(
            "SELECT MIN(first), MAX(last) FROM edge WHERE bucket >= $1 AND bucket < $2",
        )
        .bind(bucket)
        .bind(end)
        .fetch_one(&self.pool)
        .await?;
        let first: Option<Millis> = row.try_get(0)?;
        let mut edges = first.zip(row.try_get(1)?);
        let mut more: Rows<Sample> = self.recent(Which::All, bucket, end).await?;
        self.add_legacy_samples(&mut more, Which::All, bucket, end)
            .await?;
        for samples in more.values() {
            let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
                continue;
            };
            let edges = edges.get_or_insert((first.at, last.at));
            *edges = (edges.0.min(first.at), edges.1.max(last.at));
        }
        Ok(edges)
    }
}

/// Returns from when on gaps belong to a page of events, the newest first: since the oldest event, and on
/// the last page of all servers at least those of the last week. A server has no gaps before its first
/// event.
pub(crate) fn page_start(
    events: &[Event],
    is_last: bool,
    of: Option<ServerId>,
    now: Millis,
) -> Millis {
    let oldest = events.last().map_or(now, |event| event.at);
    match of {
        None if is_last => oldest.min(now - LAST_PAGE_MS),
        _ => oldest,
    }
}
