//! Servers in the history.

use super::insert::{Insert, Statement, Values, run};
use super::open::{Dialect, Transaction};
use super::{History, HistoryError, NewServer};
use crate::server::{Origin, Server, ServerId};
use sqlx::any::AnyRow;
use sqlx::{AnyConnection, Row};
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

impl History {
    /// Returns all servers of the watchlist, by number.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn servers(&self) -> Result<Vec<Server>, HistoryError> {
        let rows = "SELECT id, name, target, of_group, labels, every, origin FROM server WHERE removed IS NULL ORDER BY id";
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
        let rows = "SELECT id, name, target, of_group, labels, every, origin FROM server
                    WHERE removed IS NULL AND id >= $1 AND id < $2 ORDER BY id";
        self.all(sqlx::query(rows).bind(from.0).bind(to.0), server)
            .await
    }

    /// Returns a server, also a removed one.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn server(&self, id: ServerId) -> Result<Option<Server>, HistoryError> {
        let rows =
            "SELECT id, name, target, of_group, labels, every, origin FROM server WHERE id = $1";
        let found = self.all(sqlx::query(rows).bind(id.0), server).await?;
        Ok(found.into_iter().next())
    }

    /// Returns the server of the watchlist with this name.
    ///
    /// # Errors
    /// If the database fails.
    pub async fn server_named(&self, name: &str) -> Result<Option<Server>, HistoryError> {
        let rows = "SELECT id, name, target, of_group, labels, every, origin FROM server
                    WHERE removed IS NULL AND name = $1";
        let found = self.all(sqlx::query(rows).bind(name.to_owned()), server);
        Ok(found.await?.pop())
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
        let update = "UPDATE server SET name = $2, target = $3, of_group = $4, labels = $5, every = $6, origin = $7
                      WHERE id = $1 AND removed IS NULL";
        let done = sqlx::query(update)
            .bind(server.id.0)
            .bind(&server.name)
            .bind(&server.target)
            .bind(&server.group)
            .bind(labels(&server.labels))
            .bind(millis(server.interval))
            .bind(origin_word(server.origin))
            .execute(&mut *change)
            .await
            .map_err(|error| {
                if is_double(&error) {
                    HistoryError::Taken(server.name.clone())
                } else {
                    error.into()
                }
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
                    WHERE former_name.name = $1 AND server.removed IS NULL";
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
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_millis() as i64);
        let done = sqlx::query("UPDATE server SET removed = $2 WHERE id = $1 AND removed IS NULL");
        let done = done.bind(id.0).bind(now).execute(&mut *change).await?;
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
        let text = key
            .iter()
            .fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
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

/// Adds a server, or restores a removed one.
async fn add(change: &mut AnyConnection, new: &NewServer) -> Result<Server, HistoryError> {
    let (id, put) = match vacate(change, &new.name, &new.target, ServerId(0)).await? {
        Some(again) => {
            let update = "UPDATE server SET of_group = $4, labels = $5, every = $6, origin = $7, removed = NULL
                               WHERE id = $1 AND name = $2 AND target = $3";
            (again, update)
        }
        None => {
            let insert = "INSERT INTO server (id, name, target, of_group, labels, every, origin)
                          VALUES ($1, $2, $3, $4, $5, $6, $7)";
            (ServerId(last_number(change).await? + 1), insert)
        }
    };
    let server = new.clone().with_id(id);
    sqlx::query(put)
        .bind(id.0)
        .bind(&server.name)
        .bind(&server.target)
        .bind(&server.group)
        .bind(labels(&server.labels))
        .bind(millis(server.interval))
        .bind(origin_word(server.origin))
        .execute(change)
        .await?;
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
        head: "INSERT INTO server (id, name, target, of_group, labels, every, origin) VALUES ",
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
            values.add(millis(server.interval));
            values.add(origin_word(server.origin));
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
    let owner = sqlx::query("SELECT id, target, removed FROM server WHERE name = $1 AND id <> $2");
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
        origin: read_origin(&origin).ok_or_else(|| stored(&format!("origin {origin:?}")))?,
    })
}

pub(super) fn labels(labels: &BTreeMap<String, String>) -> String {
    serde_json::to_string(labels).expect("texts become JSON")
}

fn millis(interval: Option<Duration>) -> Option<i64> {
    interval.map(|interval| i64::try_from(interval.as_millis()).unwrap_or(i64::MAX))
}

pub(super) fn origin_word(origin: Origin) -> &'static str {
    match origin {
        Origin::Configuration => "configuration",
        Origin::Api => "api",
        Origin::Master => "master",
    }
}

fn read_origin(word: &str) -> Option<Origin> {
    match word {
        // Databases of earlier versions contain `plan`.
        "configuration" | "plan" => Some(Origin::Configuration),
        "api" => Some(Origin::Api),
        "master" => Some(Origin::Master),
        _ => None,
    }
}

fn is_double(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .is_some_and(|error| error.is_unique_violation())
}
