//! Export and import of the whole history as records.
//!
//! A record names its server instead of giving its number, so that files are readable, and can be
//! imported where numbers differ. Importing twice changes nothing; a roll-up replaces one with
//! fewer samples. At most 5,000 records are in memory at a time.
//!
//! In: rows of the database, or records. Out: records, or rows of the database.
//!
//! May import: `crate::history`, `crate::history::insert`, `crate::history::open`,
//! `crate::history::read`, `crate::history::record`, `crate::history::servers`,
//! `crate::history::tidy`, `crate::sample`, `crate::server`, `hailer`.

use super::insert::{Insert, Statement, Values, late, run, small, small_if_any, write};
use super::open::Dialect;
use super::read::event as read_event;
use super::record::{
    ExportedEvent, ExportedRollup, ExportedSample, ExportedServer, ExportedSession, Record, Table,
};
use super::servers::{labels, server as read_server};
use super::tidy::{ALL_SERVERS, INSERT_ROLLUP, KEEP_LARGER_ROLLUP};
use super::{Batch, History, HistoryError, Level, PlayerSession};
use crate::sample::{Event, Millis, Sample};
use crate::server::ServerId;
use futures_util::stream::{self, Stream, TryStreamExt};
use hailer::Target;
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Range;

/// Rows read or written at a time.
const ROWS_PER_READ: usize = 5_000;
/// Valid times of imported records, in Unix milliseconds: up to the year 9999.
const TIMES: Range<Millis> = 0..253_402_300_800_000;
/// Longest name of a server in bytes, with the suffix of a removed one.
const MAX_NAME_BYTES: usize = 96;

/// Records to export; by default all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportSelection {
    /// Tables to export, in the order that an import needs.
    pub tables: Vec<Table>,
    /// Servers to export; `None` for all, including removed ones.
    pub servers: Option<Vec<ServerId>>,
    /// Start of the period, in Unix milliseconds. Sessions count by their beginning.
    pub from: Millis,
    /// End of the period, exclusive, in Unix milliseconds.
    pub to: Millis,
}

impl Default for ExportSelection {
    fn default() -> Self {
        Self {
            tables: Table::ALL.to_vec(),
            servers: None,
            from: 0,
            to: Millis::MAX,
        }
    }
}

impl History {
    /// Returns the records of a selection: by table, then by time (sessions by server). Rows that
    /// are written meanwhile may be among them.
    pub fn export(
        &self,
        selection: ExportSelection,
    ) -> impl Stream<Item = Result<Record, HistoryError>> + Send + 'static {
        let steps = selection.tables.iter().flat_map(|&table| match table {
            Table::Rollups => vec![
                (table, Level::FiveMinutes),
                (table, Level::Hour),
                (table, Level::Day),
            ],
            _ => vec![(table, Level::Raw)],
        });
        let steps: VecDeque<_> = steps.collect();
        let export = Export {
            history: self.clone(),
            selection,
            steps,
            names: None,
            after: None,
        };
        stream::try_unfold(export, |mut export| async move {
            Ok::<_, HistoryError>(export.page().await?.map(|page| (page, export)))
        })
        .map_ok(|page| stream::iter(page.into_iter().map(Ok)))
        .try_flatten()
    }

    /// Imports records, each with its line number for errors. A server must come before its
    /// records, unless the history has one of this name. Existing rows are not changed, so an
    /// interrupted import can be repeated.
    ///
    /// # Errors
    /// If a record is invalid, with its line, or if the database fails.
    pub async fn import(
        &self,
        records: impl IntoIterator<Item = Result<(u64, Record), HistoryError>>,
    ) -> Result<ImportCounts, HistoryError> {
        let mut import = Import::new(self).await?;
        for record in records {
            let (line, record) = record?;
            import.add(line, record).await?;
        }
        import.flush().await?;
        Ok(import.imported)
    }
}

/// Counts of the records that an import has added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportCounts {
    /// Records that were read.
    pub records: u64,
    /// Number of servers added by an import.
    pub servers: u64,
    /// Number of samples added by an import.
    pub samples: u64,
    /// Roll-ups added or replaced.
    pub rollups: u64,
    /// Number of events added by an import.
    pub events: u64,
    /// Sessions added or extended.
    pub sessions: u64,
}

/// A running export.
struct Export {
    history: History,
    selection: ExportSelection,
    steps: VecDeque<(Table, Level)>,
    /// Names of the selected servers.
    names: Option<HashMap<i64, String>>,
    /// Key of the last row of the previous page of this table.
    after: Option<(i64, i64, String)>,
}

impl Export {
    /// Returns the next page, which may be empty; `None` at the end.
    async fn page(&mut self) -> Result<Option<Vec<Record>>, HistoryError> {
        let Some(&(table, level)) = self.steps.front() else {
            return Ok(None);
        };
        if self.names.is_none() {
            self.names = Some(self.names().await?);
        }
        let names = self.names.as_ref().expect("just read");
        let from = self.selection.from;
        let to = self.selection.to;
        let text = match table {
            Table::Servers => {
                "SELECT id, name, target, \"group\", labels, interval_ms, origin, removed_at FROM server
                 WHERE id > $1 ORDER BY id LIMIT $2"
            }
            Table::Samples => {
                "SELECT server, at, is_answered, players, max, latency, sent, resent, observed_ms FROM sample
                 WHERE (at, server) > ($1, $2) AND at < $3 ORDER BY at, server LIMIT $4"
            }
            Table::Rollups => {
                "SELECT server, bucket, polls, answered, with_players, players, players_max, max, with_latency, latency,
                        latency_max, sent, resent, observed_ms, up_ms
                 FROM rollup WHERE level = $5 AND (bucket, server) > ($1, $2) AND bucket < $3 AND server <> 0
                 ORDER BY bucket, server LIMIT $4"
            }
            Table::Events => {
                "SELECT server, at, body, kind FROM event WHERE (at, server, kind) > ($1, $2, $5) AND at < $3
                 ORDER BY at, server, kind LIMIT $4"
            }
            Table::Sessions => {
                "SELECT server, first, player, last FROM session
                 WHERE (server, first, player) > ($1, $2, $6) AND first < $3 AND first >= $5
                 ORDER BY server, first, player LIMIT $4"
            }
        };
        let by_server = matches!(table, Table::Servers | Table::Sessions);
        let start = if by_server {
            (0, Millis::MIN, String::new())
        } else {
            (from.saturating_sub(1), Millis::MAX, String::new())
        };
        let (one, two, three) = self.after.clone().unwrap_or(start);
        let rows = sqlx::query(text).bind(one);
        let rows = if table == Table::Servers {
            rows
        } else {
            rows.bind(two).bind(to)
        };
        let rows = rows.bind(ROWS_PER_READ as i64);
        let rows = match table {
            Table::Rollups => rows.bind(level.number()),
            Table::Events => rows.bind(three),
            Table::Sessions => rows.bind(from).bind(three),
            Table::Servers | Table::Samples => rows,
        };
        let rows = rows.fetch_all(&self.history.pool).await?;
        self.after = match rows.last() {
            Some(last) if rows.len() == ROWS_PER_READ => Some(match table {
                Table::Servers => (last.try_get(0)?, 0, String::new()),
                Table::Samples | Table::Rollups => {
                    (last.try_get(1)?, last.try_get(0)?, String::new())
                }
                Table::Events => (last.try_get(1)?, last.try_get(0)?, last.try_get(3)?),
                Table::Sessions => (last.try_get(0)?, last.try_get(1)?, last.try_get(2)?),
            }),
            _ => {
                self.steps.pop_front();
                None
            }
        };
        let mut page = Vec::with_capacity(rows.len());
        for row in &rows {
            let Some(name) = names.get(&row.try_get::<i64, _>(0)?) else {
                continue;
            };
            page.push(record(table, level, name.clone(), row)?);
        }
        Ok(Some(page))
    }

    async fn names(&self) -> Result<HashMap<i64, String>, HistoryError> {
        let wanted = self
            .selection
            .servers
            .as_ref()
            .map(|servers| servers.iter().copied().collect::<BTreeSet<_>>());
        let mut names = HashMap::new();
        for row in sqlx::query("SELECT id, name FROM server")
            .fetch_all(&self.history.pool)
            .await?
        {
            let id: i64 = row.try_get(0)?;
            if wanted
                .as_ref()
                .is_none_or(|wanted| wanted.contains(&ServerId(id)))
            {
                names.insert(id, row.try_get(1)?);
            }
        }
        Ok(names)
    }
}

fn record(
    table: Table,
    level: Level,
    server: String,
    row: &AnyRow,
) -> Result<Record, HistoryError> {
    Ok(match table {
        Table::Servers => {
            let read = read_server(row)?;
            Record::Server(ExportedServer {
                server,
                target: read.target,
                group: read.group,
                labels: read.labels,
                interval_ms: row.try_get(5)?,
                origin: read.origin,
                removed_at: row.try_get(7)?,
            })
        }
        Table::Samples => Record::Sample(ExportedSample {
            server,
            sample: Sample {
                // The record has the name instead.
                server: ServerId::default(),
                at: row.try_get(1)?,
                is_answered: row.try_get::<i64, _>(2)? != 0,
                players: small_if_any(row, 3)?,
                max: small_if_any(row, 4)?,
                latency: small_if_any(row, 5)?,
                sent: small(row, 6)?,
                resent: small(row, 7)?,
                observed_ms: 0,
            },
            observed_ms: small_if_any(row, 8)?,
        }),
        Table::Rollups => Record::Rollup(ExportedRollup {
            server,
            level,
            at: row.try_get(1)?,
            polls: small(row, 2)?,
            answered: small(row, 3)?,
            with_players: small(row, 4)?,
            players: row.try_get(5)?,
            players_max: small_if_any(row, 6)?,
            max: small_if_any(row, 7)?,
            with_latency: small(row, 8)?,
            latency: row.try_get(9)?,
            latency_max: small_if_any(row, 10)?,
            sent: row.try_get(11)?,
            resent: row.try_get(12)?,
            observed_ms: row.try_get(13)?,
            up_ms: row.try_get(14)?,
        }),
        Table::Events => {
            let event = read_event(row)?;
            Record::Event(ExportedEvent {
                server,
                at: event.at,
                kind: event.kind,
            })
        }
        Table::Sessions => Record::Session(ExportedSession {
            server,
            player: row.try_get(2)?,
            first: row.try_get(1)?,
            last: row.try_get(3)?,
        }),
    })
}

/// A running import.
struct Import<'a> {
    history: &'a History,
    numbers: HashMap<String, ServerId>,
    batch: Batch,
    rollups: Vec<(ServerId, ExportedRollup)>,
    imported: ImportCounts,
}

impl<'a> Import<'a> {
    async fn new(history: &'a History) -> Result<Self, HistoryError> {
        let mut numbers = HashMap::new();
        for row in sqlx::query("SELECT id, name FROM server")
            .fetch_all(&history.pool)
            .await?
        {
            numbers.insert(row.try_get(1)?, ServerId(row.try_get(0)?));
        }
        Ok(Self {
            history,
            numbers,
            batch: Batch::default(),
            rollups: Vec::new(),
            imported: ImportCounts::default(),
        })
    }

    async fn add(&mut self, line: u64, record: Record) -> Result<(), HistoryError> {
        self.imported.records += 1;
        let name = match &record {
            Record::Server(server) => return self.add_server(line, server).await,
            Record::Sample(sample) => &sample.server,
            Record::Rollup(rollup) => &rollup.server,
            Record::Event(event) => &event.server,
            Record::Session(session) => &session.server,
        };
        let times = match &record {
            Record::Server(_) => [0, 0],
            Record::Sample(sample) => [sample.sample.at; 2],
            Record::Rollup(rollup) => [rollup.at; 2],
            Record::Event(event) => [event.at; 2],
            Record::Session(session) => [session.first, session.last],
        };
        if let Some(time) = times.into_iter().find(|time| !TIMES.contains(time)) {
            let message = format!("{time} is no time in milliseconds since 1970");
            return Err(HistoryError::Import { line, message });
        }
        let Some(&server) = self.numbers.get(name) else {
            let message = format!("no server is called {name:?} here: import the servers first");
            return Err(HistoryError::Import { line, message });
        };
        match record {
            Record::Server(_) => unreachable!("added above"),
            Record::Sample(ExportedSample {
                sample,
                observed_ms,
                ..
            }) => {
                self.batch.samples.push(Sample {
                    server,
                    observed_ms: observed_ms.unwrap_or(0),
                    ..sample
                });
            }
            Record::Event(ExportedEvent { at, kind, .. }) => {
                self.batch.events.push(Event { server, at, kind });
            }
            Record::Session(ExportedSession {
                player,
                first,
                last,
                ..
            }) => {
                self.batch.sessions.push(PlayerSession {
                    server,
                    player,
                    first,
                    last,
                });
            }
            Record::Rollup(rollup) => {
                if rollup.level == Level::Raw || rollup.level.floor(rollup.at) != rollup.at {
                    let message =
                        format!("no bucket of {:?} begins at {}", rollup.level, rollup.at);
                    return Err(HistoryError::Import { line, message });
                }
                self.rollups.push((server, rollup));
            }
        }
        let waiting = self.batch.samples.len()
            + self.batch.events.len()
            + self.batch.sessions.len()
            + self.rollups.len();
        if waiting >= ROWS_PER_READ {
            self.flush().await
        } else {
            Ok(())
        }
    }

    async fn add_server(&mut self, line: u64, record: &ExportedServer) -> Result<(), HistoryError> {
        if self.numbers.contains_key(&record.server) {
            return Ok(());
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if record.server.is_empty()
            || record.server.len() > MAX_NAME_BYTES
            || !record.server.bytes().all(is_name)
        {
            let message = format!(
                "{:?} is no name of a server: letters, digits, '.', '_' and '-'",
                record.server
            );
            return Err(HistoryError::Import { line, message });
        }
        if let Err(error) = record.target.parse::<Target>() {
            let message = format!("{:?} is no target: {error}", record.target);
            return Err(HistoryError::Import { line, message });
        }
        let mut change = self.history.begin().await?;
        let insert =
            "INSERT INTO server (id, name, target, \"group\", labels, interval_ms, origin, removed_at)
                      SELECT COALESCE(MAX(id), 0) + 1, $1, $2, $3, $4, $5, $6, $7 FROM server";
        sqlx::query(insert)
            .bind(&record.server)
            .bind(&record.target)
            .bind(&record.group)
            .bind(labels(&record.labels))
            .bind(record.interval_ms)
            .bind(record.origin.word())
            .bind(record.removed_at)
            .execute(&mut *change)
            .await?;
        let id = sqlx::query("SELECT id FROM server WHERE name = $1")
            .bind(&record.server)
            .fetch_one(&mut *change)
            .await?;
        self.numbers
            .insert(record.server.clone(), ServerId(id.try_get(0)?));
        change.commit().await?;
        self.imported.servers += 1;
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), HistoryError> {
        let mut change = self.history.begin_alone().await?;
        let written = write(&mut change, self.history.dialect, &self.batch).await?;
        let new = run(&mut change, rollups(self.history.dialect, &self.rollups)).await?;
        for (level, first, last) in runs(&self.rollups) {
            let put = sqlx::query(AssertSqlSafe(format!(
                "{INSERT_ROLLUP} {ALL_SERVERS} {KEEP_LARGER_ROLLUP}"
            )));
            put.bind(level.number())
                .bind(first)
                .bind(last)
                .execute(&mut *change)
                .await?;
            // Compute this level again if the level below has buckets of this period: those know more
            // about all servers together. The level above always changes.
            let below = "SELECT MIN(bucket), MAX(bucket) FROM rollup WHERE level = $1";
            let below = sqlx::query(below)
                .bind(level.number() - 1)
                .fetch_one(&mut *change)
                .await?;
            let from: Option<Millis> = below.try_get(0)?;
            let to: Option<Millis> = below.try_get(1)?;
            let has_below = from
                .zip(to)
                .is_some_and(|(from, to)| from < last + level.length() && first <= to);
            let above = [Level::Hour, Level::Day]
                .into_iter()
                .find(|above| above.number() == level.number() + 1);
            for (level, is_wanted) in [(Some(level), has_below), (above, true)] {
                let Some(level) = level.filter(|_| is_wanted) else {
                    continue;
                };
                let buckets = (level.floor(first)..=last).step_by(level.length() as usize);
                run(&mut change, late(self.history.dialect, level, buckets)).await?;
            }
        }
        change.commit().await?;
        self.batch = Batch::default();
        self.rollups.clear();
        self.imported.samples += written.samples;
        self.imported.events += written.events;
        self.imported.sessions += written.sessions;
        self.imported.rollups += new;
        Ok(())
    }
}

/// Merges the buckets of these roll-ups into runs of adjacent buckets: level, first and last
/// bucket.
fn runs(rollups: &[(ServerId, ExportedRollup)]) -> Vec<(Level, Millis, Millis)> {
    let buckets: BTreeSet<(Level, Millis)> = rollups
        .iter()
        .map(|(_, rollup)| (rollup.level, rollup.at))
        .collect();
    let mut runs: Vec<(Level, Millis, Millis)> = Vec::new();
    for (level, bucket) in buckets {
        match runs.last_mut() {
            Some((of, _, last)) if *of == level && *last + level.length() == bucket => {
                *last = bucket;
            }
            _ => runs.push((level, bucket, bucket)),
        }
    }
    runs
}

fn rollups(dialect: Dialect, rollups: &[(ServerId, ExportedRollup)]) -> Vec<Statement> {
    // A statement of PostgreSQL cannot change a row twice.
    let mut by_key: BTreeMap<(i64, Millis, i64), &ExportedRollup> = BTreeMap::new();
    for (server, rollup) in rollups {
        let known = by_key
            .entry((rollup.level.number(), rollup.at, server.0))
            .or_insert(rollup);
        if rollup.polls > known.polls {
            *known = rollup;
        }
    }
    let head = format!("{INSERT_ROLLUP} VALUES ");
    let tail = format!(" {KEEP_LARGER_ROLLUP}");
    let rows = by_key.into_iter().map(|((level, bucket, server), rollup)| {
        move |values: &mut Values| {
            for key in [level, bucket, server] {
                values.add(key);
            }
            for count in [rollup.polls, rollup.answered, rollup.with_players] {
                values.add(i64::from(count));
            }
            values.add(rollup.players);
            values.add(rollup.players_max.map(i64::from));
            values.add(rollup.max.map(i64::from));
            values.add(i64::from(rollup.with_latency));
            values.add(rollup.latency);
            values.add(rollup.latency_max.map(i64::from));
            values.add(rollup.sent);
            values.add(rollup.resent);
            values.add(rollup.observed_ms);
            values.add(rollup.up_ms);
        }
    });
    Insert {
        head: &head,
        columns: 16,
        tail: &tail,
    }
    .rows(dialect, rows)
}
