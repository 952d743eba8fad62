//! Connections to PostgreSQL: time limits, so that a process that is frozen or cut off holds no lock
//! for long and leaves no waiting statement behind.
//!
//! The server enforces the limits: it ends a transaction that waits for its next statement, a
//! statement that waits for a lock or takes too long, and a connection whose client does not
//! acknowledge data.
//!
//! In: a URL of PostgreSQL. Out: a pool of connections.
//!
//! May import: `crate::history`, `crate::history::open`, `crate::sample`.

use super::open::Dialect;
use super::{History, HistoryError};
use crate::sample::{Millis, millis};
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, Executor, Row, raw_sql};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a transaction may wait for its next statement if the process is in no cluster.
pub(super) const MAX_IDLE_MS: Millis = 5_000;
/// Shortest such limit, for short leases.
const MIN_IDLE_MS: Millis = 500;
/// Timeout of the question what holds a lock.
const HOLDER_TIMEOUT: Duration = Duration::from_secs(2);

/// Settings of each connection. A statement ends before the timeout of its caller.
const SETTINGS: &str =
    "SET client_min_messages = error; SET idle_in_transaction_session_timeout = '5s';
    SET lock_timeout = '15s'; SET statement_timeout = '50s'; SET tcp_keepalives_idle = 10;
    SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";
/// The same for servers that have it: PostgreSQL 12.
const USER_TIMEOUT: &str = "SET tcp_user_timeout = '20s'";

/// Applies the settings to a new connection.
pub(super) async fn set_up(connection: &mut AnyConnection) -> sqlx::Result<()> {
    raw_sql(SETTINGS).execute(&mut *connection).await?;
    let name = format!("SET application_name = 'hailer {}'", std::process::id());
    connection.execute(sqlx::AssertSqlSafe(name)).await?;
    let _ = raw_sql(USER_TIMEOUT).execute(connection).await;
    Ok(())
}

impl History {
    /// Sets how long a transaction may stop between two statements. Then PostgreSQL ends it, and
    /// other processes continue.
    pub fn set_max_idle(&self, limit: Duration) {
        let limit = millis(limit).clamp(MIN_IDLE_MS, MAX_IDLE_MS);
        self.max_idle.store(limit, Ordering::Relaxed);
    }

    /// Returns the statement that begins a transaction.
    pub(super) fn begin_statement(&self) -> String {
        match self.dialect {
            Dialect::Sqlite => "BEGIN IMMEDIATE".into(),
            Dialect::Postgres => {
                let limit = self.max_idle.load(Ordering::Relaxed);
                format!("BEGIN; SET LOCAL idle_in_transaction_session_timeout = {limit}")
            }
        }
    }

    /// Takes a connection for one statement outside of a transaction.
    pub(super) async fn connection(&self) -> Result<BusyConnection, HistoryError> {
        Ok(BusyConnection(Some(self.pool.acquire().await?)))
    }

    /// Returns a sentence about the oldest transaction that waits for its process, if PostgreSQL
    /// has one and replies.
    pub(crate) async fn lock_holder(&self) -> Option<String> {
        if self.dialect != Dialect::Postgres {
            return None;
        }
        let ask = "SELECT CAST(application_name AS TEXT), COALESCE(CAST(client_addr AS TEXT), 'a local socket'),
                          CAST(EXTRACT(EPOCH FROM clock_timestamp() - xact_start) AS BIGINT)
                   FROM pg_stat_activity
                   WHERE datname = current_database() AND state LIKE 'idle in transaction%'
                   ORDER BY xact_start LIMIT 1";
        let row = sqlx::query(ask).fetch_optional(&self.pool);
        let row = tokio::time::timeout(HOLDER_TIMEOUT, row)
            .await
            .ok()?
            .ok()??;
        let name: String = row.try_get(0).ok()?;
        let address: String = row.try_get(1).ok()?;
        let seconds: i64 = row.try_get(2).ok()?;
        Some(format!(
            "a transaction of {name:?} at {address} is open for {seconds} s"
        ))
    }
}

/// A connection that runs a statement. Dropping it closes the connection: in the pool, it would
/// wait for a reply that may never come.
pub(super) struct BusyConnection(Option<PoolConnection<Any>>);

impl BusyConnection {
    /// Returns the connection to the pool after its statement.
    pub(super) fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            drop(connection.detach());
        }
    }
}

impl Deref for BusyConnection {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        self.0.as_ref().expect("taken only by `release`")
    }
}

impl DerefMut for BusyConnection {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        self.0.as_mut().expect("taken only by `release`")
    }
}
