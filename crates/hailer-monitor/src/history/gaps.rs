//! Times in which the monitor did not run.
//!
//! In: samples in the database. Out: gaps.
//!
//! May import: `crate::history`, `crate::history::read`, `crate::sample`, `crate::server`,
//! `crate::uptime`.

use super::read::ALL;
use super::{History, HistoryError, Level};
use crate::sample::{Event, Millis};
use crate::server::ServerId;
use crate::uptime::MAX_SAMPLE_MS;
use serde::{Deserialize, Serialize};
use sqlx::Row;

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
            let points = self.totals(start, end, level).await?;
            let Some(last) = points.last() else {
                continue;
            };
            let mut buckets: Vec<Millis> = points.iter().map(|point| point.at).collect();
            buckets.extend(self.next_bucket(level, last.at).await?);
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
            let last = "SELECT MAX(at) FROM sample WHERE at >= $1 AND at < $2";
            let first = "SELECT MIN(at) FROM sample WHERE at >= $1 AND at < $2";
            let gap = Gap {
                from: self
                    .edge(last, before, level)
                    .await?
                    .unwrap_or(before + level.length()),
                to: self.edge(first, after, level).await?.unwrap_or(after),
            };
            if within.contains(&gap.from) && gap.to - gap.from > MAX_SAMPLE_MS.max(interval * 3 / 2)
            {
                gaps.push(gap);
            }
        }
        Ok(gaps)
    }

    /// Returns the first bucket after another one.
    async fn next_bucket(
        &self,
        level: Level,
        after: Millis,
    ) -> Result<Option<Millis>, HistoryError> {
        let row = sqlx::query(
            "SELECT MIN(bucket) FROM rollup WHERE level = $1 AND bucket > $2 AND server = $3",
        )
        .bind(level.number())
        .bind(after)
        .bind(ALL.0)
        .fetch_one(&self.pool)
        .await?;
        Ok(row.try_get(0)?)
    }

    /// Returns the time of the first or the last sample in a bucket.
    async fn edge(
        &self,
        query: &'static str,
        bucket: Millis,
        level: Level,
    ) -> Result<Option<Millis>, HistoryError> {
        let row = sqlx::query(query)
            .bind(bucket)
            .bind(bucket + level.length())
            .fetch_one(&self.pool)
            .await?;
        Ok(row.try_get(0)?)
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
