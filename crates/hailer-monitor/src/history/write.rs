//! Batches in: one transaction, and what is there already is left alone.

use super::open::Dialect;
use super::{Batch, History, HistoryError, Level, Session, Written};
use crate::sample::{Event, EventKind, Millis, Sample};
use crate::server::ServerId;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::{Any, AnyConnection, Arguments, AssertSqlSafe, Encode, Row, Type};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Rows of one statement: enough that its own cost does not count; SQLite takes 32,766 values, PostgreSQL 65,535.
const ROWS: usize = 500;
/// Longest name of a player in a key, in bytes: PostgreSQL takes none above 2,700 bytes, and games no longer than this.
const LONGEST_PLAYER: usize = 128;

impl History {
    /// Writes a batch, whole or not at all. What is there already is left alone, but for a session that lasts longer now.
    pub async fn write(&self, batch: &Batch) -> Result<Written, HistoryError> {
        let mut change = self.begin().await?;
        let written = write(&mut change, self.dialect, batch).await?;
        change.commit().await?;
        Ok(written)
    }
}

/// The same as part of something larger.
pub(super) async fn write(
    change: &mut AnyConnection,
    dialect: Dialect,
    batch: &Batch,
) -> Result<Written, HistoryError> {
    let samples = samples(change, dialect, &batch.samples).await?;
    let events = events(change, dialect, &batch.events).await?;
    states(change, dialect, &batch.events).await?;
    let sessions = sessions(change, dialect, &batch.sessions).await?;
    Ok(Written { samples, events, sessions })
}

async fn samples(change: &mut AnyConnection, dialect: Dialect, samples: &[Sample]) -> Result<u64, HistoryError> {
    if samples.is_empty() {
        return Ok(0);
    }
    // Whoever rolls up waits for us, or we for them: no sample comes into a bucket unseen.
    let done = match dialect {
        Dialect::Sqlite => "SELECT done FROM progress WHERE level = 1",
        Dialect::Postgres => "SELECT done FROM progress WHERE level = 1 FOR SHARE",
    };
    let done: Millis = sqlx::query(done).fetch_one(&mut *change).await?.try_get(0)?;
    let late: BTreeSet<Millis> =
        samples.iter().filter(|sample| sample.at < done).map(|sample| Level::FiveMinutes.floor(sample.at)).collect();
    mark_late(change, dialect, Level::FiveMinutes, late).await?;
    let table = Insert {
        head: "INSERT INTO sample (at, server, answered, players, slots, latency, sent, resent) VALUES ",
        columns: 8,
        tail: " ON CONFLICT (at, server) DO NOTHING",
    };
    let rows = samples.iter().map(|sample| {
        move |values: &mut Values| {
            values.add(sample.at);
            values.add(sample.server.0);
            values.add(i64::from(sample.answered));
            values.add(sample.players.map(i64::from));
            values.add(sample.max.map(i64::from));
            values.add(sample.latency.map(i64::from));
            values.add(i64::from(sample.sent));
            values.add(i64::from(sample.resent));
        }
    });
    table.run(change, dialect, rows).await
}

/// Remembers final buckets into which something comes.
pub(super) async fn mark_late(
    change: &mut AnyConnection,
    dialect: Dialect,
    level: Level,
    buckets: BTreeSet<Millis>,
) -> Result<(), HistoryError> {
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
    table.run(change, dialect, rows).await?;
    Ok(())
}

async fn events(change: &mut AnyConnection, dialect: Dialect, events: &[Event]) -> Result<u64, HistoryError> {
    let table = Insert {
        head: "INSERT INTO event (server, at, kind, body) VALUES ",
        columns: 4,
        tail: " ON CONFLICT (server, at, kind) DO NOTHING",
    };
    let rows = events.iter().map(|event| {
        move |values: &mut Values| {
            values.add(event.server.0);
            values.add(event.at);
            values.add(event.kind.word());
            values.add(serde_json::to_string(&event.kind).expect("texts become JSON"));
        }
    });
    table.run(change, dialect, rows).await
}

/// The last word on each server that these events have.
async fn states(change: &mut AnyConnection, dialect: Dialect, events: &[Event]) -> Result<(), HistoryError> {
    let mut last: BTreeMap<ServerId, (Millis, &'static str)> = BTreeMap::new();
    for event in events {
        if matches!(event.kind, EventKind::Up | EventKind::Down { .. }) {
            let state = last.entry(event.server).or_insert((Millis::MIN, ""));
            if event.at >= state.0 {
                *state = (event.at, event.kind.word());
            }
        }
    }
    let table = Insert {
        head: "INSERT INTO state (server, state, since) VALUES ",
        columns: 3,
        tail: " ON CONFLICT (server) DO UPDATE SET state = excluded.state, since = excluded.since
                WHERE excluded.since > state.since",
    };
    let rows = last.into_iter().map(|(server, (since, word))| {
        move |values: &mut Values| {
            values.add(server.0);
            values.add(word);
            values.add(since);
        }
    });
    table.run(change, dialect, rows).await?;
    Ok(())
}

async fn sessions(change: &mut AnyConnection, dialect: Dialect, sessions: &[Session]) -> Result<u64, HistoryError> {
    // A statement of PostgreSQL must not change a row twice.
    let mut last: BTreeMap<(ServerId, Millis, Cow<'_, str>), Millis> = BTreeMap::new();
    for session in sessions {
        let known = last.entry((session.server, session.first, player_key(&session.player))).or_insert(session.last);
        *known = session.last.max(*known);
    }
    let table = Insert {
        head: "INSERT INTO session (server, first, player, last) VALUES ",
        columns: 4,
        tail: " ON CONFLICT (server, first, player) DO UPDATE SET last = excluded.last
                WHERE excluded.last > session.last",
    };
    let rows = last.iter().map(|((server, first, player), last)| {
        move |values: &mut Values| {
            values.add(server.0);
            values.add(*first);
            values.add(player.as_ref());
            values.add(*last);
        }
    });
    table.run(change, dialect, rows).await
}

/// A name as part of a key: not too long, and without NUL, which PostgreSQL does not take.
pub(crate) fn player_key(name: &str) -> Cow<'_, str> {
    let name = &name[..name.floor_char_boundary(LONGEST_PLAYER)];
    if name.contains('\0') { name.replace('\0', "\u{fffd}").into() } else { name.into() }
}

/// An insert of many rows.
pub(super) struct Insert {
    pub(super) head: &'static str,
    pub(super) columns: usize,
    pub(super) tail: &'static str,
}

impl Insert {
    /// Returns how many rows came or changed.
    pub(super) async fn run(
        &self,
        change: &mut AnyConnection,
        dialect: Dialect,
        rows: impl Iterator<Item = impl FnOnce(&mut Values)>,
    ) -> Result<u64, HistoryError> {
        let mut rows = rows.peekable();
        let (mut done, mut text) = (0, None);
        while rows.peek().is_some() {
            let mut values = Values::default();
            let count = rows.by_ref().take(ROWS).map(|row| row(&mut values)).count();
            // Only the statement of many rows is worth remembering for the connection.
            let is_whole = count == ROWS;
            let text = match &text {
                Some(text) if is_whole => String::clone(text),
                _ => text.insert(self.text(dialect, count)).clone(),
            };
            let query = sqlx::query_with::<Any, _>(AssertSqlSafe(text), values.arguments).persistent(is_whole);
            done += query.execute(&mut *change).await?.rows_affected();
        }
        Ok(done)
    }

    /// Only words of ours: values are bound. SQLite finds values without numbers faster, PostgreSQL must have them.
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

/// Values of a statement, in order.
#[derive(Default)]
pub(super) struct Values {
    arguments: AnyArguments,
}

impl Values {
    pub(super) fn add<'q>(&mut self, value: impl Encode<'q, Any> + Type<Any>) {
        self.arguments.add(value).expect("numbers and texts can be bound");
    }
}

/// A whole number of a row, as small as it was when it was written.
pub(super) fn small<T: TryFrom<i64>>(row: &AnyRow, column: usize) -> Result<T, HistoryError> {
    let value: i64 = row.try_get(column)?;
    T::try_from(value).map_err(|_| HistoryError::Stored(format!("{value} is out of range")))
}
