//! Inserts batches, each in one transaction. Existing rows are not changed.
//!
//! In: a batch of results. Out: rows of the database.
//!
//! May import: `crate::history`, `crate::history::blocks`, `crate::history::open`, `crate::sample`,
//! `crate::server`, `hailer`.

use super::blocks::{RecentRow, recent_rows};
use super::open::Dialect;
use super::{Batch, History, HistoryError, Level, PlayerSession, WriteCounts};
use crate::sample::{Event, EventKind, Millis};
use crate::server::ServerId;
use hailer::proto::wire::hexadecimal;
use serde_json::{Value, json};
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::{Any, AnyConnection, Arguments, AssertSqlSafe, Encode, Row, Type};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows of one statement: enough to make its overhead small. SQLite accepts 32,766 values,
/// PostgreSQL 65,535.
const ROWS_PER_STATEMENT: usize = 500;
/// Limit for the name of a player in a key, in bytes. PostgreSQL accepts keys of up to about 2,700
/// bytes, and names in games are shorter than this limit.
const MAX_PLAYER_BYTES: usize = 128;

impl History {
    /// Writes a batch completely or not at all. Existing rows are not changed, except for sessions
    /// that now end later.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn write(&self, batch: &Batch) -> Result<WriteCounts, HistoryError> {
        match self.dialect {
            Dialect::Sqlite => {
                let mut change = self.begin().await?;
                let written = write(&mut change, self.dialect, batch).await?;
                change.commit().await?;
                Ok(written)
            }
            // PostgreSQL runs a single statement as a transaction.
            Dialect::Postgres => {
                let mut connection = self.connection().await?;
                let written = write_at_once(&mut connection, batch).await;
                connection.release();
                written
            }
        }
    }
}

/// Writes a batch as part of a larger transaction.
pub(super) async fn write(
    change: &mut AnyConnection,
    dialect: Dialect,
    batch: &Batch,
) -> Result<WriteCounts, HistoryError> {
    if dialect == Dialect::Postgres {
        return write_at_once(change, batch).await;
    }
    let samples = insert_recent(change, dialect, recent_rows(&batch.samples)).await?;
    let [events, states, sessions] = rows_as_json(batch);
    let events = run_with(change, INSERT_EVENTS, events).await?;
    run_with(change, UPDATE_STATES, states).await?;
    let sessions = run_with(change, UPDATE_SESSIONS, sessions).await?;
    Ok(WriteCounts {
        samples,
        events,
        sessions,
    })
}

/// Statements of SQLite. (`WHERE TRUE` tells its parser that `ON` begins no join.)
const INSERT_EVENTS: &str = "INSERT INTO event (server, at, kind, body)
    SELECT value ->> 'server', value ->> 'at', value ->> 'kind', value ->> 'body' FROM json_each($1) WHERE TRUE
    ON CONFLICT (server, at, kind) DO NOTHING";
/// A state with a time in the future comes from a wrong clock: it holds no later one back.
const UPDATE_STATES: &str = "INSERT INTO state (server, state, since)
    SELECT value ->> 'server', value ->> 'state', value ->> 'since' FROM json_each($1) WHERE TRUE
    ON CONFLICT (server) DO UPDATE SET state = excluded.state, since = excluded.since
    WHERE excluded.since > state.since OR state.since > CAST(unixepoch('subsec') * 1000 AS BIGINT)";
const UPDATE_SESSIONS: &str = "INSERT INTO session (server, first, player, last)
    SELECT value ->> 'server', value ->> 'first', value ->> 'player', value ->> 'last' FROM json_each($1) WHERE TRUE
    ON CONFLICT (server, first, player) DO UPDATE SET last = excluded.last WHERE excluded.last > session.last";

/// Runs a statement with rows in JSON. Returns the number of added or changed rows.
async fn run_with(
    change: &mut AnyConnection,
    statement: &'static str,
    rows: Value,
) -> Result<u64, HistoryError> {
    if rows == json!([]) {
        return Ok(0);
    }
    let done = sqlx::query(statement)
        .bind(rows.to_string())
        .execute(change);
    Ok(done.await?.rows_affected())
}

/// Returns the events, the last states and the sessions of a batch, each as a list of rows.
fn rows_as_json(batch: &Batch) -> [Value; 3] {
    let events = batch.events.iter().map(|event| {
        let body = serde_json::to_string(&event.kind).expect("texts become JSON");
        json!({"server": event.server, "at": event.at, "kind": event.kind.word(), "body": body})
    });
    let states = last_states(&batch.events);
    let states = states
        .iter()
        .map(|(server, (since, state))| json!({"server": server, "state": state, "since": since}));
    let sessions = last_sessions(&batch.sessions);
    let sessions = sessions.iter().map(|((server, first, player), last)| {
        json!({"server": server, "first": first, "player": player, "last": last})
    });
    [events.collect(), states.collect(), sessions.collect()]
}

/// Inserts recent samples. Returns their number.
pub(super) async fn insert_recent(
    change: &mut AnyConnection,
    dialect: Dialect,
    recent: Vec<RecentRow>,
) -> Result<u64, HistoryError> {
    let table = Insert {
        head: "INSERT INTO recent (bucket, shelf, body) VALUES ",
        columns: 3,
        tail: "",
    };
    let count = recent.iter().map(|row| row.count).sum();
    let rows = recent.into_iter().map(|row| {
        move |values: &mut Values| {
            values.add(row.bucket);
            values.add(row.shelf);
            values.add(row.body);
        }
    });
    let statements = table.rows(dialect, rows);
    run(change, statements).await?;
    Ok(count)
}

/// Writes a batch to PostgreSQL with one statement. A process that is frozen or cut off is so before
/// the statement or after it, and never holds a lock.
const WRITE_AT_ONCE: &str = "
    WITH recents AS (
        INSERT INTO recent (bucket, shelf, body) SELECT bucket, shelf, body
        FROM unnest(CAST($1 AS BIGINT[]), CAST($2 AS BIGINT[]), CAST($3 AS BYTEA[])) AS new (bucket, shelf, body)
    ), events AS (
        INSERT INTO event (server, at, kind, body) SELECT server, at, kind, body
        FROM json_to_recordset(CAST($4 AS JSON)) AS event (server BIGINT, at BIGINT, kind TEXT, body TEXT)
        ON CONFLICT (server, at, kind) DO NOTHING RETURNING 1
    ), states AS (
        INSERT INTO state (server, state, since) SELECT server, state, since
        FROM json_to_recordset(CAST($5 AS JSON)) AS new_state (server BIGINT, state TEXT, since BIGINT)
        ON CONFLICT (server) DO UPDATE SET state = excluded.state, since = excluded.since
        WHERE excluded.since > state.since OR state.since > CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)
    ), sessions AS (
        INSERT INTO session (server, first, player, last) SELECT server, first, player, last
        FROM json_to_recordset(CAST($6 AS JSON)) AS new_session (server BIGINT, first BIGINT, player TEXT, last BIGINT)
        ON CONFLICT (server, first, player) DO UPDATE SET last = excluded.last WHERE excluded.last > session.last
        RETURNING 1
    )
    SELECT (SELECT COUNT(*) FROM events), (SELECT COUNT(*) FROM sessions)";

async fn write_at_once(
    connection: &mut AnyConnection,
    batch: &Batch,
) -> Result<WriteCounts, HistoryError> {
    let recent = recent_rows(&batch.samples);
    let array = |value: &dyn Fn(&RecentRow) -> String| {
        let values: Vec<String> = recent.iter().map(value).collect();
        format!("{{{}}}", values.join(","))
    };
    let [events, states, sessions] = rows_as_json(batch);
    let row = sqlx::query(WRITE_AT_ONCE)
        .bind(array(&|row| row.bucket.to_string()))
        .bind(array(&|row| row.shelf.to_string()))
        .bind(array(&|row| format!("\"\\\\x{}\"", hexadecimal(&row.body))))
        .bind(events.to_string())
        .bind(states.to_string())
        .bind(sessions.to_string())
        .fetch_one(connection)
        .await?;
    let count = |column| Ok::<_, HistoryError>(row.try_get::<i64, _>(column)?.max(0) as u64);
    Ok(WriteCounts {
        samples: recent.iter().map(|row| row.count).sum(),
        events: count(0)?,
        sessions: count(1)?,
    })
}

/// Puts closed buckets that have changed below on the list.
pub(super) fn late(
    dialect: Dialect,
    level: Level,
    buckets: impl IntoIterator<Item = Millis>,
) -> Vec<Statement> {
    let table = Insert {
        head: "INSERT INTO late (level, bucket) VALUES ",
        columns: 2,
        tail: " ON CONFLICT (level, bucket) DO NOTHING",
    };
    let rows = buckets.into_iter().map(|bucket| {
        move |values: &mut Values| {
            values.add(level.number());
            values.add(bucket);
        }
    });
    table.rows(dialect, rows)
}

/// Returns the last state of each server in these events, and since when it has it.
fn last_states(events: &[Event]) -> BTreeMap<ServerId, (Millis, &'static str)> {
    let mut last: BTreeMap<ServerId, (Millis, &'static str)> = BTreeMap::new();
    for event in events {
        if matches!(event.kind, EventKind::Up | EventKind::Down { .. }) {
            let state = last.entry(event.server).or_insert((Millis::MIN, ""));
            if event.at >= state.0 {
                *state = (event.at, event.kind.word());
            }
        }
    }
    last
}

/// Returns the last end of each session.
fn last_sessions(sessions: &[PlayerSession]) -> BTreeMap<(ServerId, Millis, Cow<'_, str>), Millis> {
    // A statement of PostgreSQL cannot change a row twice.
    let mut last: BTreeMap<(ServerId, Millis, Cow<'_, str>), Millis> = BTreeMap::new();
    for session in sessions {
        let known = last
            .entry((session.server, session.first, player_key(&session.player)))
            .or_insert(session.last);
        *known = session.last.max(*known);
    }
    last
}

/// Returns a name as part of a key: cut to the limit, and without NUL, which PostgreSQL rejects.
pub(crate) fn player_key(name: &str) -> Cow<'_, str> {
    let cut = |name: &str| name.floor_char_boundary(MAX_PLAYER_BYTES);
    let name = &name[..cut(name)];
    if !name.contains('\0') {
        return name.into();
    }
    let mut name = name.replace('\0', "\u{fffd}");
    name.truncate(cut(&name));
    name.into()
}

/// An insert of many rows.
pub(crate) struct Insert<'a> {
    pub(crate) head: &'a str,
    pub(crate) columns: usize,
    pub(crate) tail: &'a str,
}

impl Insert<'_> {
    /// Returns statements that insert many rows each. (An iterator held across an `await` would
    /// make the future not `Send`.)
    pub(crate) fn rows(
        &self,
        dialect: Dialect,
        rows: impl IntoIterator<Item = impl FnOnce(&mut Values)>,
    ) -> Vec<Statement> {
        let mut rows = rows.into_iter().peekable();
        let mut statements = Vec::new();
        let mut whole = None;
        while rows.peek().is_some() {
            let mut values = Values::default();
            let count = rows
                .by_ref()
                .take(ROWS_PER_STATEMENT)
                .map(|row| row(&mut values))
                .count();
            // Only full statements are repeated often enough to be cached by the connection.
            let is_whole = count == ROWS_PER_STATEMENT;
            let text = if is_whole {
                whole
                    .get_or_insert_with(|| Arc::<str>::from(self.text(dialect, ROWS_PER_STATEMENT)))
                    .clone()
            } else {
                self.text(dialect, count).into()
            };
            statements.push(Statement {
                text,
                values: values.arguments,
                is_whole,
            });
        }
        statements
    }

    /// Returns the SQL text. It has no data: values are bound. SQLite finds values without numbers
    /// faster; PostgreSQL needs the numbers.
    fn text(&self, dialect: Dialect, rows: usize) -> String {
        let mut text = String::from(self.head);
        for row in 0..rows {
            text += if row == 0 { "(" } else { ",(" };
            for column in 0..self.columns {
                if column > 0 {
                    text.push(',');
                }
                match dialect {
                    Dialect::Sqlite => text.push('?'),
                    Dialect::Postgres => text += &format!("${}", row * self.columns + column + 1),
                }
            }
            text.push(')');
        }
        text + self.tail
    }
}

/// A statement with its values.
pub(crate) struct Statement {
    text: Arc<str>,
    values: AnyArguments,
    is_whole: bool,
}

/// Executes statements. Returns the number of added or changed rows.
pub(crate) async fn run(
    change: &mut AnyConnection,
    statements: Vec<Statement>,
) -> Result<u64, HistoryError> {
    let mut done = 0;
    for Statement {
        text,
        values,
        is_whole,
    } in statements
    {
        let query = sqlx::query_with::<Any, _>(AssertSqlSafe(text), values).persistent(is_whole);
        done += query.execute(&mut *change).await?.rows_affected();
    }
    Ok(done)
}

/// Values of a statement, in order.
#[derive(Default)]
pub(crate) struct Values {
    arguments: AnyArguments,
}

impl Values {
    pub(crate) fn add<'q>(&mut self, value: impl Encode<'q, Any> + Type<Any>) {
        self.arguments
            .add(value)
            .expect("numbers and texts can be bound");
    }
}

/// Reads a whole number of a row as a smaller type.
pub(super) fn small<T: TryFrom<i64>>(row: &AnyRow, column: usize) -> Result<T, HistoryError> {
    let value: i64 = row.try_get(column)?;
    T::try_from(value).map_err(|_| HistoryError::Stored(format!("{value} is out of range")))
}

/// Reads a number that may be absent.
pub(super) fn small_if_any<T: TryFrom<i64>>(
    row: &AnyRow,
    column: usize,
) -> Result<Option<T>, HistoryError> {
    let Some(value) = row.try_get::<Option<i64>, _>(column)? else {
        return Ok(None);
    };
    T::try_from(value)
        .map(Some)
        .map_err(|_| HistoryError::Stored(format!("{value} is out of range")))
}
