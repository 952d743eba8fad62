//! Export and import of the whole history as records.
//!
//! A record names its server instead of giving its number, so that files are readable, and can be
//! imported where numbers differ. Importing twice changes nothing; a roll-up replaces one with
//! fewer samples. At most 5,000 records are in memory at a time, or the records of one bucket.
//!
//! In: rows of the database, or records. Out: records, or rows of the database.
//!
//! May import: `crate::history`, `crate::history::blocks`, `crate::history::codec`,
//! `crate::history::insert`, `crate::history::read`, `crate::history::record`,
//! `crate::history::servers`, `crate::history::tidy`, `crate::sample`, `crate::server`, `hailer`.

use super::blocks::{self, Rows, Which, cohort, shelf, span};
use super::codec::Rollup;
use super::insert::{late, run, write};
use super::read::event as read_event;
use super::record::{
    ExportedEvent, ExportedRollup, ExportedSample, ExportedServer, ExportedSession, Record, Table,
};
use super::servers::{labels, server as read_server};
use super::tidy::total;
use super::{Batch, History, HistoryError, Level, PlayerSession};
use crate::sample::{Event, Millis, Sample};
use crate::server::ServerId;
use futures_util::stream::{self, Stream, TryStreamExt};
use hailer::Target;
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

/// Rows read or written at a time.
const ROWS_PER_READ: usize = 5_000;
/// Time that rows of earlier versions may take before an export or an import, in practice all.
const LEGACY_TIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
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
            self.history.convert_legacy(LEGACY_TIME).await?;
            self.names = Some(self.names().await?);
        }
        if matches!(table, Table::Samples | Table::Rollups) {
            return self.bucket(table, level).await.map(Some);
        }
        let names = self.names.as_ref().expect("just read");
        let from = self.selection.from;
        let to = self.selection.to;
        let text = match table {
            Table::Servers => {
                "SELECT id, name, target, \"group\", labels, interval_ms, origin, removed_at FROM server
                 WHERE id > $1 ORDER BY id LIMIT $2"
            }
            Table::Samples | Table::Rollups => unreachable!("read above"),
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
            Table::Events => rows.bind(three),
            Table::Sessions => rows.bind(from).bind(three),
            Table::Servers | Table::Samples | Table::Rollups => rows,
        };
        let rows = rows.fetch_all(&self.history.pool).await?;
        self.after = match rows.last() {
            Some(last) if rows.len() == ROWS_PER_READ => Some(match table {
                Table::Servers => (last.try_get(0)?, 0, String::new()),
                Table::Events => (last.try_get(1)?, last.try_get(0)?, last.try_get(3)?),
                Table::Sessions => (last.try_get(0)?, last.try_get(1)?, last.try_get(2)?),
                Table::Samples | Table::Rollups => unreachable!("read above"),
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
            page.push(record(table, name.clone(), row)?);
        }
        Ok(Some(page))
    }

    /// Returns the records of the next bucket that has some; none at the end of the table.
    async fn bucket(&mut self, table: Table, level: Level) -> Result<Vec<Record>, HistoryError> {
        let from = self
            .after
            .take()
            .map_or(self.selection.from, |after| after.0);
        let to = self.selection.to;
        let length = level.length().max(Level::FiveMinutes.length());
        let names = self.names.as_ref().expect("just read");
        let wanted: BTreeSet<ServerId> = names.keys().map(|id| ServerId(*id)).collect();
        let Some(bucket) = self
            .history
            .first_bucket(level, from)
            .await?
            .filter(|at| *at < to)
        else {
            self.steps.pop_front();
            return Ok(Vec::new());
        };
        let bucket = bucket.max(from.div_euclid(length) * length);
        let end = bucket + length;
        self.after = Some((end, 0, String::new()));
        let within = bucket.max(from)..end.min(to);
        let which = Which::Some(&wanted);
        let name = |server: ServerId| names[&server.0].clone();
        if table == Table::Samples {
            let samples = self
                .history
                .samples(which, within.start, within.end)
                .await?;
            let mut samples: Vec<Sample> = samples.into_values().flatten().collect();
            samples.sort_by_key(|sample| (sample.at, sample.server));
            let record = |sample: Sample| {
                Record::Sample(ExportedSample {
                    server: name(sample.server),
                    observed_ms: Some(sample.observed_ms).filter(|observed| *observed > 0),
                    // The record has the name and the time instead.
                    sample: Sample {
                        server: ServerId::default(),
                        observed_ms: 0,
                        ..sample
                    },
                })
            };
            return Ok(samples.into_iter().map(record).collect());
        }
        let rows = self
            .history
            .stored(level, which, within.start, within.end)
            .await?;
        let rows = rows.into_iter().flat_map(|(server, rows)| {
            let name = name(server);
            rows.into_iter()
                .map(move |row| exported(name.clone(), level, &row))
        });
        Ok(rows.map(Record::Rollup).collect())
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

fn exported(server: String, level: Level, row: &Rollup) -> ExportedRollup {
    let count = |value: i64| value.clamp(0, u32::MAX.into()) as u32;
    ExportedRollup {
        server,
        level,
        at: row.at,
        polls: count(row.polls),
        answered: count(row.answered),
        with_players: count(row.with_players),
        players: row.players,
        players_max: row.players_max.map(count),
        max: row.max.map(count),
        with_latency: count(row.with_latency),
        latency: row.latency,
        latency_max: row.latency_max.map(count),
        sent: row.sent,
        resent: row.resent,
        observed_ms: row.observed_ms,
        up_ms: row.up_ms,
    }
}

fn record(table: Table, server: String, row: &AnyRow) -> Result<Record, HistoryError> {
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
        Table::Samples | Table::Rollups => unreachable!("read from blocks"),
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
        history.convert_legacy(LEGACY_TIME).await?;
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
        self.history
            .forget_known(&mut change, &mut self.batch.samples)
            .await?;
        let written = write(&mut change, self.history.dialect, &self.batch).await?;
        let mut new = 0;
        let rollups = std::mem::take(&mut self.rollups);
        let mut blocks: BTreeMap<(Level, Millis, i64), Vec<(ServerId, Rollup)>> = BTreeMap::new();
        for (server, rollup) in &rollups {
            let start = span(rollup.level, rollup.at).start;
            let block = blocks
                .entry((rollup.level, start, shelf(*server)))
                .or_default();
            block.push((*server, imported(rollup)));
        }
        for ((level, start, shelf), rows) in blocks {
            new += self
                .history
                .import_rollups(&mut change, level, start, shelf, rows)
                .await?;
        }
        change.commit().await?;
        self.batch = Batch::default();
        self.imported.samples += written.samples;
        self.imported.events += written.events;
        self.imported.sessions += written.sessions;
        self.imported.rollups += new;
        Ok(())
    }
}

fn imported(rollup: &ExportedRollup) -> Rollup {
    Rollup {
        at: rollup.at,
        polls: rollup.polls.into(),
        answered: rollup.answered.into(),
        with_players: rollup.with_players.into(),
        players: rollup.players,
        players_max: rollup.players_max.map(i64::from),
        max: rollup.max.map(i64::from),
        with_latency: rollup.with_latency.into(),
        latency: rollup.latency,
        latency_max: rollup.latency_max.map(i64::from),
        sent: rollup.sent,
        resent: rollup.resent,
        observed_ms: rollup.observed_ms,
        up_ms: rollup.up_ms,
    }
}

impl History {
    /// Returns the beginning of the first bucket from `from` on that may have rows.
    async fn first_bucket(
        &self,
        level: Level,
        from: Millis,
    ) -> Result<Option<Millis>, HistoryError> {
        let block = "SELECT MIN(start) FROM block WHERE level = $1 AND start >= $2";
        let block = sqlx::query(block)
            .bind(level.number())
            .bind(span(level, from).start)
            .fetch_one(&self.pool)
            .await?;
        let mut first: Option<Millis> = block.try_get(0)?;
        if level == Level::Raw {
            let recent = sqlx::query("SELECT MIN(bucket) FROM recent WHERE bucket >= $1");
            let recent = recent
                .bind(Level::FiveMinutes.floor(from))
                .fetch_one(&self.pool);
            let recent: Option<Millis> = recent.await?.try_get(0)?;
            first = first.into_iter().chain(recent).min();
        }
        Ok(first)
    }

    /// Removes the samples that the history has already.
    async fn forget_known(
        &self,
        change: &mut AnyConnection,
        samples: &mut Vec<Sample>,
    ) -> Result<(), HistoryError> {
        let mut hours: BTreeMap<(Millis, i64), BTreeSet<ServerId>> = BTreeMap::new();
        for sample in &*samples {
            let hour = span(Level::Raw, sample.at).start;
            let unit = hours.entry((hour, shelf(sample.server))).or_default();
            unit.insert(sample.server);
        }
        let mut known = HashSet::new();
        for ((hour, _), servers) in hours {
            let (Some(first), Some(last)) = (servers.first(), servers.last()) else {
                continue;
            };
            let cohorts = cohort(*first)..cohort(*last) + 1;
            let stored: Rows<Sample> = blocks::load(change, Level::Raw, hour, cohorts).await?;
            let end = hour + span(Level::Raw, hour).length;
            let recent = blocks::load_recent(change, Which::Some(&servers), hour, end).await?;
            for (server, samples) in stored.into_iter().chain(recent) {
                known.extend(samples.iter().map(|sample| (server, sample.at)));
            }
        }
        samples.retain(|sample| !known.contains(&(sample.server, sample.at)));
        Ok(())
    }

    /// Adds roll-ups of one block and one shelf. Returns how many are new or replace others.
    async fn import_rollups(
        &self,
        change: &mut AnyConnection,
        level: Level,
        start: Millis,
        shelf: i64,
        new: Vec<(ServerId, Rollup)>,
    ) -> Result<u64, HistoryError> {
        let buckets: BTreeSet<Millis> = new.iter().map(|(_, rollup)| rollup.at).collect();
        let buckets: Vec<Millis> = buckets.into_iter().collect();
        let mut rows: Rows<Rollup> =
            blocks::load(change, level, start, blocks::cohorts(shelf)).await?;
        let mut better: Rows<Rollup> = Rows::new();
        for (server, rollup) in new {
            let of_server = rows.entry(server).or_default();
            let before = of_server.clone();
            blocks::merge_rollups(of_server, [rollup]);
            if *of_server != before {
                blocks::merge_rollups(better.entry(server).or_default(), [rollup]);
            }
        }
        let count = better.values().map(Vec::len).sum::<usize>() as u64;
        if level == Level::FiveMinutes {
            // The list of the roll-ups of five minutes becomes that of hours.
            self.add_rollups(change, shelf, &buckets, better).await?;
        } else {
            let changed = better.keys().map(|server| cohort(*server)).collect();
            blocks::store(change, self.dialect, level, start, &rows, &changed).await?;
            let all: Rows<Rollup> = blocks::load(change, level, start, 0..i64::MAX).await?;
            let totals = buckets
                .iter()
                .filter_map(|bucket| total(&all, *bucket, |id| id.0 > 0));
            let totals: Vec<Rollup> = totals.collect();
            self.add_totals(change, level, start, totals).await?;
            // Compute this level again from the level below, which may know more about all servers
            // together, and the level above.
            run(change, late(self.dialect, level, buckets.iter().copied())).await?;
        }
        let above = match level {
            Level::FiveMinutes => Level::Hour,
            Level::Hour => Level::Day,
            Level::Raw | Level::Day => return Ok(count),
        };
        let above_it: BTreeSet<Millis> =
            buckets.iter().map(|bucket| above.floor(*bucket)).collect();
        run(change, late(self.dialect, above, above_it)).await?;
        Ok(count)
    }
}
