//! Servers in the history.
//!
//! In: changes of the watchlist. Out: rows of servers.
//!
//! May import: `crate::history`, `crate::history::insert`, `crate::history::open`, `crate::sample`,
//! `crate::server`, `hailer`.

use super::insert::{Insert, Statement, Values, run};
use super::open::{Dialect, Transaction};
use super::{History, HistoryError, NewServer};
use crate::sample::{millis, unix_millis};
use crate::server::{Server, ServerId};
use hailer::proto::wire::hexadecimal;
use sqlx::any::{AnyArguments, AnyRow};
use sqlx::query::Query;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Row};
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

impl History {
    /// Returns all servers of the watchlist, by number.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn servers(&self) -> Result<Vec<Server>, HistoryError> {
        let rows = select("removed_at IS NULL ORDER BY id");
        self.all(sqlx::query(rows), server).await
    }

    /// Returns the servers of the watchlist from `from` until before `to`.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn servers_of(
        &self,
        from: ServerId,
        to: ServerId,
    ) -> Result<Vec<Server>, HistoryError> {
        let rows = select("removed_at IS NULL AND id >= $1 AND id < $2 ORDER BY id");
        self.all(sqlx::query(rows).bind(from.0).bind(to.0), server)
            .await
    }

    /// Returns a server, also a removed one.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn server(&self, id: ServerId) -> Result<Option<Server>, HistoryError> {
        let row = sqlx::query(select("id = $1")).bind(id.0);
        let found = self.all(row, server).await?;
        Ok(found.into_iter().next())
    }

    /// Returns the server of the watchlist with this name.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn server_named(&self, name: &str) -> Result<Option<Server>, HistoryError> {
        let row = sqlx::query(select("removed_at IS NULL AND name = $1")).bind(name.to_owned());
        Ok(self.all(row, server).await?.pop())
    }

    /// Returns the last number that was assigned.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn last_server(&self) -> Result<ServerId, HistoryError> {
        let last = sqlx::query("SELECT COALESCE(MAX(id), 0) FROM server")
            .fetch_one(&self.pool)
            .await?;
        Ok(ServerId(last.try_get::<i64, _>(0)?.max(0)))
    }

    /// Adds a server. A removed server with the same name and target returns with its number and
    /// history.
    ///
    /// # Errors
    ///
    /// If the name is taken, or the database fails.
    pub async fn add(&self, new: &NewServer) -> Result<Server, HistoryError> {
        let mut change = self.begin_adding().await?;
        let server = add(&mut change, new).await?;
        change.commit().await?;
        Ok(server)
    }

    /// Begins a transaction in which no other process adds servers, so that numbers and names stay
    /// unique.
    async fn begin_adding(&self) -> Result<Transaction, HistoryError> {
        let mut change = self.begin().await?;
        if self.dialect == Dialect::Postgres {
            sqlx::query("LOCK TABLE server IN SHARE ROW EXCLUSIVE MODE")
                .execute(&mut *change)
                .await?;
        }
        Ok(change)
    }

    /// Adds many servers, all or none. The same as [`add`](Self::add) for each, but about a hundred
    /// times faster.
    ///
    /// # Errors
    ///
    /// If a name is taken, or the database fails.
    pub async fn add_all(&self, new: &[NewServer]) -> Result<Vec<Server>, HistoryError> {
        let mut change = self.begin_adding().await?;
        let mut known = HashSet::new();
        for row in sqlx::query("SELECT name FROM server")
            .fetch_all(&mut *change)
            .await?
        {
            known.insert(row.try_get::<String, _>(0)?);
        }
        let mut last = last_number(&mut change).await?;
        let mut added = Vec::with_capacity(new.len());
        for new in new {
            added.push(known.insert(new.name.clone()).then(|| {
                last += 1;
                new.clone().with_id(ServerId(last))
            }));
        }
        run(&mut change, rows(self.dialect, &added)).await?;
        let mut all = Vec::with_capacity(new.len());
        for (new, added) in new.iter().zip(added) {
            all.push(match added {
                Some(server) => server,
                None => add(&mut change, new).await?,
            });
        }
        change.commit().await?;
        Ok(all)
    }

    /// Replaces the description of a server, which keeps its number and history.
    ///
    /// # Errors
    ///
    /// If there is no such server, its new name is taken, or the database fails.
    pub async fn change(&self, server: &Server) -> Result<(), HistoryError> {
        let mut change = self.begin().await?;
        vacate(&mut change, &server.name, "", server.id).await?;
        let insert = "INSERT INTO former_name (name, server)
                      SELECT name, id FROM server WHERE id = $1 AND name <> $2
                      ON CONFLICT (name) DO UPDATE SET server = excluded.server";
        sqlx::query(insert)
            .bind(server.id.0)
            .bind(&server.name)
            .execute(&mut *change)
            .await?;
        let update = "UPDATE server SET name = $2, target = $3, \"group\" = $4, labels = $5, interval_ms = $6, origin = $7
                      WHERE id = $1 AND removed_at IS NULL";
        let done = bind(update, server).execute(&mut *change).await;
        let done = done.map_err(|error| match error.as_database_error() {
            Some(double) if double.is_unique_violation() => {
                HistoryError::Taken(server.name.clone())
            }
            _ => error.into(),
        })?;
        if done.rows_affected() == 0 {
            return Err(HistoryError::Absent(server.id));
        }
        change.commit().await
    }

    /// Returns the name of the server that formerly had this one. `None` if there is none on the
    /// watchlist.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn current_name(&self, former: &str) -> Result<Option<String>, HistoryError> {
        let rows =
            "SELECT server.name FROM former_name JOIN server ON server.id = former_name.server
                    WHERE former_name.name = $1 AND server.removed_at IS NULL";
        let name = |row: &AnyRow| Ok(row.try_get(0)?);
        let found = self.all(sqlx::query(rows).bind(former), name).await?;
        Ok(found.into_iter().next())
    }

    /// Removes a server from the watchlist. Returns `false` if it was not there. Its history stays
    /// until its retention ends.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn remove(&self, id: ServerId) -> Result<bool, HistoryError> {
        let mut change = self.begin().await?;
        let done =
            sqlx::query("UPDATE server SET removed_at = $2 WHERE id = $1 AND removed_at IS NULL");
        let done = done
            .bind(id.0)
            .bind(unix_millis())
            .execute(&mut *change)
            .await?;
        change.commit().await?;
        Ok(done.rows_affected() > 0)
    }

    /// Returns the key for [`Privacy::Hashed`](crate::sessions::Privacy), created on first use.
    /// Without this key, all earlier players become strangers.
    ///
    /// # Errors
    /// If the database fails, or the system has no random bytes.
    pub async fn players_key(&self) -> Result<[u8; 32], HistoryError> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| HistoryError::Random(error.to_string()))?;
        let text = hexadecimal(&key);
        let mut change = self.begin().await?;
        let insert = "INSERT INTO setting (name, value) VALUES ('players-key', $1) ON CONFLICT (name) DO NOTHING";
        sqlx::query(insert).bind(text).execute(&mut *change).await?;
        let stored = sqlx::query("SELECT value FROM setting WHERE name = 'players-key'")
            .fetch_one(&mut *change)
            .await?;
        change.commit().await?;
        let stored: String = stored.try_get(0)?;
        for (place, byte) in key.iter_mut().enumerate() {
            let digits = stored
                .get(2 * place..2 * place + 2)
                .and_then(|digits| u8::from_str_radix(digits, 16).ok());
            *byte = digits.ok_or_else(|| {
                HistoryError::Stored("the key of players is not 64 hexadecimal digits".into())
            })?;
        }
        Ok(key)
    }
}

/// Returns the query of the servers that fit a condition. The condition has no outside data.
fn select(condition: &str) -> AssertSqlSafe<String> {
    AssertSqlSafe(format!(
        "SELECT id, name, target, \"group\", labels, interval_ms, origin FROM server WHERE {condition}"
    ))
}

/// Returns a statement with all values of a server, its number first.
fn bind(statement: &'static str, server: &Server) -> Query<'static, Any, AnyArguments> {
    sqlx::query(statement)
        .bind(server.id.0)
        .bind(server.name.clone())
        .bind(server.target.clone())
        .bind(server.group.clone())
        .bind(labels(&server.labels))
        .bind(server.interval.map(millis))
        .bind(server.origin.word())
}

/// Adds a server, or restores a removed one.
async fn add(change: &mut AnyConnection, new: &NewServer) -> Result<Server, HistoryError> {
    let (id, put) = match vacate(change, &new.name, &new.target, ServerId(0)).await? {
        Some(again) => {
            let update = "UPDATE server SET \"group\" = $4, labels = $5, interval_ms = $6, origin = $7, removed_at = NULL
                               WHERE id = $1 AND name = $2 AND target = $3";
            (again, update)
        }
        None => {
            let insert =
                "INSERT INTO server (id, name, target, \"group\", labels, interval_ms, origin)
                          VALUES ($1, $2, $3, $4, $5, $6, $7)";
            (ServerId(last_number(change).await? + 1), insert)
        }
    };
    let server = new.clone().with_id(id);
    bind(put, &server).execute(change).await?;
    Ok(server)
}

/// Returns the last number that was assigned.
async fn last_number(change: &mut AnyConnection) -> Result<i64, HistoryError> {
    let last = sqlx::query("SELECT COALESCE(MAX(id), 0) FROM server")
        .fetch_one(change)
        .await?;
    Ok(last.try_get::<i64, _>(0)?.max(0))
}

fn rows(dialect: Dialect, servers: &[Option<Server>]) -> Vec<Statement> {
    let table = Insert {
        head: "INSERT INTO server (id, name, target, \"group\", labels, interval_ms, origin) VALUES ",
        columns: 7,
        tail: "",
    };
    let rows = servers.iter().flatten().map(|server| {
        move |values: &mut Values| {
            values.add(server.id.0);
            for text in [&server.name, &server.target, &server.group] {
                values.add(text.as_str());
            }
            values.add(labels(&server.labels));
            values.add(server.interval.map(millis));
            values.add(server.origin.word());
        }
    });
    table.rows(dialect, rows)
}

/// Frees a name that a removed server has: that server becomes `NAME.NUMBER`. If the removed server
/// has the same target, it is returned instead.
async fn vacate(
    change: &mut AnyConnection,
    name: &str,
    target: &str,
    except: ServerId,
) -> Result<Option<ServerId>, HistoryError> {
    let owner =
        sqlx::query("SELECT id, target, removed_at FROM server WHERE name = $1 AND id <> $2");
    let Some(owner) = owner
        .bind(name)
        .bind(except.0)
        .fetch_optional(&mut *change)
        .await?
    else {
        return Ok(None);
    };
    let id: i64 = owner.try_get(0)?;
    if owner.try_get::<Option<i64>, _>(2)?.is_none() {
        return Err(HistoryError::Taken(name.into()));
    }
    if owner.try_get::<String, _>(1)? == target {
        return Ok(Some(ServerId(id)));
    }
    let mut other = format!("{name}.{id}");
    while sqlx::query("SELECT id FROM server WHERE name = $1")
        .bind(&other)
        .fetch_optional(&mut *change)
        .await?
        .is_some()
    {
        other.push('_');
    }
    sqlx::query("UPDATE server SET name = $2 WHERE id = $1")
        .bind(id)
        .bind(other)
        .execute(change)
        .await?;
    Ok(None)
}

pub(super) fn server(row: &AnyRow) -> Result<Server, HistoryError> {
    let labels: String = row.try_get(4)?;
    let origin: String = row.try_get(6)?;
    let stored = |what: &str| HistoryError::Stored(format!("{what} in the table server"));
    Ok(Server {
        id: ServerId(row.try_get(0)?),
        name: row.try_get(1)?,
        target: row.try_get(2)?,
        group: row.try_get(3)?,
        labels: serde_json::from_str(&labels).map_err(|_| stored(&format!("labels {labels:?}")))?,
        interval: row
            .try_get::<Option<i64>, _>(5)?
            .map(|millis| Duration::from_millis(millis.max(0) as u64)),
        origin: serde_json::from_value(origin.clone().into())
            .map_err(|_| stored(&format!("origin {origin:?}")))?,
    })
}

pub(super) fn labels(labels: &BTreeMap<String, String>) -> String {
    serde_json::to_string(labels).expect("texts become JSON")
}
