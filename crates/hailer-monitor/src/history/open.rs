//! Opens a database and updates its tables.
//!
//! In: a path or a URL. Out: the history, ready for use.
//!
//! May import: `crate::history`, `crate::history::connection`, `crate::history::legacy`.

use super::connection::{self, MAX_IDLE_MS};
use super::legacy::has_legacy_rows;
use super::{History, HistoryError};
use sqlx::any::{AnyPoolOptions, install_default_drivers};
use sqlx::migrate::{Migrate, MigrateError, Migration, MigrationType, Migrator};
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AssertSqlSafe, Connection, SqlSafeStr, raw_sql};
use std::fmt::Write;
use std::fs::OpenOptions;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::OwnedMutexGuard;
use tokio::time::timeout;

/// All migrations, by number. The statements of a released migration never change; a test holds
/// their checksums. Comments may change: see [`store_checksums`].
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (
        1,
        "history",
        include_str!("../../migrations/0001_history.sql"),
    ),
    (
        2,
        "alerts",
        include_str!("../../migrations/0002_alerts.sql"),
    ),
    (
        3,
        "last status",
        include_str!("../../migrations/0003_last_status.sql"),
    ),
    (
        4,
        "last icon",
        include_str!("../../migrations/0004_last_icon.sql"),
    ),
    (
        5,
        "observed time",
        include_str!("../../migrations/0005_observed_time.sql"),
    ),
    (
        6,
        "former names",
        include_str!("../../migrations/0006_former_name.sql"),
    ),
    (
        7,
        "column names",
        include_str!("../../migrations/0007_column_names.sql"),
    ),
    (
        8,
        "blocks",
        include_str!("../../migrations/0008_blocks.sql"),
    ),
];

/// Limit of connections. Readers do not wait for the writer.
const MAX_CONNECTIONS: u32 = 6;
/// Timeout for a connection.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Kind of database, which decides a few differences in SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// SQLite, with one writer at a time.
    Sqlite,
    /// PostgreSQL, which other processes may share.
    Postgres,
}

impl Dialect {
    /// Returns an expression for the time of the database, in Unix milliseconds.
    pub(crate) fn now(self) -> &'static str {
        match self {
            Self::Sqlite => "CAST(unixepoch('subsec') * 1000 AS BIGINT)",
            Self::Postgres => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
        }
    }
}

/// Table in which sqlx stores the migrations of a database.
const MIGRATIONS_TABLE: &str = "_sqlx_migrations";

impl History {
    /// Opens a history: `sqlite:PATH` (created if absent, with its folder; the path is used
    /// literally), `sqlite::memory:`, or `postgres://USER:PASSWORD@HOST/NAME`. Creates the tables
    /// or updates them.
    ///
    /// # Errors
    /// If the URL is invalid, the file is not a database, the database cannot be reached, or a
    /// newer version has written it.
    pub async fn open(url: &str) -> Result<Self, HistoryError> {
        install_default_drivers();
        let (dialect, url, place) = read_url(url)?;
        if dialect == Dialect::Postgres && !cfg!(feature = "postgres") {
            return Err(HistoryError::Unsupported("PostgreSQL"));
        }
        if dialect == Dialect::Sqlite {
            check_file(&url, &place).await?;
        }
        // A database in memory exists as long as its connection.
        let is_memory = url == MEMORY;
        let pool = AnyPoolOptions::new()
            .max_connections(if is_memory { 1 } else { MAX_CONNECTIONS })
            .min_connections(is_memory.into())
            .idle_timeout(if is_memory { None } else { Some(Duration::from_secs(600)) })
            .max_lifetime(if is_memory { None } else { Some(Duration::from_secs(3600)) })
            .acquire_timeout(LOCK_TIMEOUT)
            .after_connect(move |connection, _| {
                Box::pin(async move {
                    if dialect == Dialect::Postgres {
                        connection::set_up(connection).await?;
                    } else {
                        // With WAL, readers do not block the writer, and a killed process loses no
                        // committed data. With NORMAL, a power failure may lose the last seconds.
                        let config =
                            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 10000;
                                        PRAGMA cache_size = -2000; PRAGMA journal_size_limit = 67108864;";
                        raw_sql(config).execute(connection).await?;
                    }
                    Ok(())
                })
            })
            .connect(&url)
            .await
            .map_err(|source| HistoryError::Open { place: place.clone(), source })?;
        let migrations: Vec<_> = MIGRATIONS
            .iter()
            .map(|&(version, name, text)| {
                let (clustered, bytes) = match dialect {
                    Dialect::Sqlite => ("WITHOUT ROWID", "BLOB"),
                    Dialect::Postgres => ("", "BYTEA"),
                };
                let text = text
                    .replace("{clustered}", clustered)
                    .replace("{bytes}", bytes);
                let text = AssertSqlSafe(text).into_sql_str();
                Migration::new(version, name.into(), MigrationType::Simple, text, false)
            })
            .collect();
        migrate(&pool, dialect, migrations)
            .await
            .map_err(|source| match source {
                MigrateError::VersionMissing(_) => HistoryError::Newer(place.clone()),
                source => HistoryError::Migrate {
                    place: place.clone(),
                    source,
                },
            })?;
        let has_legacy = has_legacy_rows(&pool).await;
        let has_legacy = has_legacy.map_err(|source| HistoryError::Open { place, source })?;
        Ok(Self {
            pool,
            dialect,
            has_legacy: Arc::new(has_legacy.into()),
            writing: Arc::default(),
            turn: Arc::default(),
            max_idle: Arc::new(AtomicI64::new(MAX_IDLE_MS)),
        })
    }

    /// Begins a transaction. SQLite allows one writer: others in this process queue, those of other
    /// processes wait a few seconds.
    pub(crate) async fn begin(&self) -> Result<Transaction, HistoryError> {
        let turn = match self.dialect {
            Dialect::Sqlite => Some(self.writing.clone().lock_owned().await),
            Dialect::Postgres => None,
        };
        let connection = self.pool.acquire().await?;
        let mut change = Transaction {
            open: Some((connection, turn)),
        };
        let begin = AssertSqlSafe(self.begin_statement());
        raw_sql(begin).execute(&mut *change).await?;
        Ok(change)
    }

    /// Closes all connections after their current work.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// A transaction, with the writer lock for SQLite. Dropping it rolls it back.
///
/// (Not the one of `sqlx`: when SQLite ends a transaction by itself, for example because the disk
/// is full, that one stays open, and its connection is useless.)
pub(crate) struct Transaction {
    open: Option<(PoolConnection<Any>, Option<OwnedMutexGuard<()>>)>,
}

impl Transaction {
    pub(crate) async fn commit(mut self) -> Result<(), HistoryError> {
        raw_sql("COMMIT").execute(&mut *self).await?;
        self.open = None;
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let Some((mut connection, turn)) = self.open.take() else {
            return;
        };
        // Without a runtime, close the connection: that also rolls back.
        let Ok(runtime) = Handle::try_current() else {
            return drop(connection.detach());
        };
        runtime.spawn(async move {
            // If SQLite has rolled back already, this fails. That is no error. A connection without a
            // reply is closed, which also rolls back: the pool needs its place.
            let done = raw_sql("ROLLBACK").execute(&mut *connection);
            if timeout(LOCK_TIMEOUT, done).await.is_err() {
                drop(connection.detach());
            }
            drop(turn);
        });
    }
}

impl Deref for Transaction {
    type Target = AnyConnection;

    fn deref(&self) -> &AnyConnection {
        &self.open.as_ref().expect("open until it is committed").0
    }
}

impl DerefMut for Transaction {
    fn deref_mut(&mut self) -> &mut AnyConnection {
        &mut self.open.as_mut().expect("open until it is committed").0
    }
}

/// Lock of PostgreSQL that one process at a time holds while it migrates: "hailer" in ASCII.
const MIGRATION_LOCK: i64 = 0x6861_696c_6572;

/// Creates or updates the tables. Several processes may start at the same moment: in PostgreSQL,
/// one of them migrates, and the others wait for it.
async fn migrate(
    pool: &sqlx::Pool<Any>,
    dialect: Dialect,
    migrations: Vec<Migration>,
) -> Result<(), MigrateError> {
    // A separate connection holds the lock until it is closed at the end.
    let mut lock = None;
    if dialect == Dialect::Postgres {
        let mut connection = pool.acquire().await?.detach();
        // A process that is frozen meanwhile loses the lock with its session: PostgreSQL 14.
        let limit = raw_sql("SET idle_session_timeout = '60s'");
        let _ = limit.execute(&mut connection).await;
        let wait = format!(
            "SET lock_timeout = '300s'; SET statement_timeout = '300s'; SELECT pg_advisory_lock({MIGRATION_LOCK})"
        );
        raw_sql(AssertSqlSafe(wait))
            .execute(&mut connection)
            .await?;
        lock = Some(connection);
    }
    store_checksums(pool, &migrations).await?;
    let migrator = Migrator {
        migrations: migrations.into(),
        ..Migrator::DEFAULT
    };
    migrator.run(pool).await?;
    if let Some(connection) = lock {
        connection.close().await?;
    }
    Ok(())
}

/// Stores the checksums of these migrations over those in the database. A checksum covers the whole
/// text, so it also changes with a comment. Without this step, sqlx would reject the database.
async fn store_checksums(
    pool: &sqlx::Pool<Any>,
    migrations: &[Migration],
) -> Result<(), MigrateError> {
    let mut connection = pool.acquire().await?;
    connection.ensure_migrations_table(MIGRATIONS_TABLE).await?;
    for migration in migrations {
        // The description tells our migrations from those of other programs.
        let text = "UPDATE _sqlx_migrations SET checksum = $1
                    WHERE version = $2 AND description = $3 AND checksum <> $1";
        sqlx::query(text)
            .bind(migration.checksum.to_vec())
            .bind(migration.version)
            .bind(migration.description.to_string())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Reads a SQLite file once. The pool would retry until its timeout, and not report the reason.
async fn check_file(url: &str, place: &str) -> Result<(), HistoryError> {
    let failed = |source: sqlx::Error| match source.as_database_error().and_then(|e| e.code()) {
        // SQLITE_CORRUPT and SQLITE_NOTADB, in the lowest byte of an extended code.
        Some(code)
            if code
                .parse()
                .is_ok_and(|code: u32| matches!(code & 0xff, 11 | 26)) =>
        {
            HistoryError::Corrupt(place.to_owned())
        }
        _ => HistoryError::Open {
            place: place.to_owned(),
            source,
        },
    };
    let mut connection = AnyConnection::connect(url).await.map_err(failed)?;
    let read = raw_sql("SELECT COUNT(*) FROM sqlite_master")
        .execute(&mut connection)
        .await;
    read.map_err(failed)?;
    connection.close().await.map_err(failed)
}

const MEMORY: &str = "sqlite::memory:";

/// Returns the dialect, the URL for the driver, and the name of the database for errors, without a
/// password.
fn read_url(url: &str) -> Result<(Dialect, String, String), HistoryError> {
    if url == MEMORY {
        return Ok((Dialect::Sqlite, url.into(), "in memory".into()));
    }
    if let Some(path) = url.strip_prefix("sqlite:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        if path.is_empty() {
            return Err(HistoryError::Url("sqlite:".into()));
        }
        if let Some(folder) = Path::new(path)
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            std::fs::create_dir_all(folder).map_err(|source| HistoryError::Folder {
                folder: folder.into(),
                source,
            })?;
        }
        keep_to_ourselves(Path::new(path));
        return Ok((
            Dialect::Sqlite,
            format!("sqlite:{}?mode=rwc", quote(path)),
            path.into(),
        ));
    }
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        let place = url.rsplit_once('@').map_or(url, |(_, place)| place);
        let place = place.split(['?', '#']).next().unwrap_or_default();
        return Ok((
            Dialect::Postgres,
            url.into(),
            format!(
                "at {}",
                place.rsplit_once("://").map_or(place, |(_, host)| host)
            ),
        ));
    }
    Err(HistoryError::Url(
        url.split_once(':').map_or("", |(scheme, _)| scheme).into(),
    ))
}

/// Creates the file of a new database with mode 0600, because it has names of players. A failure
/// here is reported by the open that follows.
fn keep_to_ourselves(path: &Path) {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(path);
}

/// Returns a path as part of a URL. Bytes with a special meaning become `%xx`.
fn quote(path: &str) -> String {
    let mut quoted = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                quoted.push(byte.into());
            }
            _ => write!(quoted, "%{byte:02x}").expect("texts take everything"),
        }
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the checksums of the statements, without comments.
    #[test]
    fn statements_of_released_migrations_never_change() {
        let found: Vec<String> = MIGRATIONS
            .iter()
            .map(|&(version, name, text)| {
                let is_statement = |line: &&str| !line.starts_with("--") && !line.is_empty();
                let lines: Vec<&str> = text.lines().filter(is_statement).collect();
                let text = AssertSqlSafe(lines.join("\n")).into_sql_str();
                let whole =
                    Migration::new(version, name.into(), MigrationType::Simple, text, false);
                let start: Vec<_> = whole.checksum[..8]
                    .iter()
                    .map(|b| format!("{b:02x}"))
                    .collect();
                format!("{version} {}", start.concat())
            })
            .collect();
        let expected = [
            "1 bc5f081dda676eaa",
            "2 bab720ec55427134",
            "3 2231ec734f847272",
            "4 5da32c8a01b600d8",
            "5 7c8ee28bfe01d304",
            "6 c1f1493226675be0",
            "7 ca8ce562388f85b8",
            "8 c41ffebd71cd3988",
        ];
        assert_eq!(found, expected);
    }

    #[tokio::test]
    async fn databases_with_other_comments_open() {
        let name = format!("hailer-comments-{}.db", std::process::id());
        let path = std::env::temp_dir().join(name);
        let url = format!("sqlite:{}", path.display());
        let history = History::open(&url).await.unwrap();
        sqlx::query("UPDATE _sqlx_migrations SET checksum = $1 WHERE version = 1")
            .bind(vec![1_u8; 48])
            .execute(&history.pool)
            .await
            .unwrap();
        history.pool.close().await;
        drop(History::open(&url).await.unwrap());
        std::fs::remove_file(&path).unwrap();
    }

    #[tokio::test]
    async fn a_corrupt_file_is_reported_before_the_timeout() {
        let name = format!("hailer-corrupt-{}.db", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(
            &path,
            "this is not a database, but long enough to look like one".repeat(40),
        )
        .unwrap();
        let started = std::time::Instant::now();
        let url = format!("sqlite:{}", path.display());
        let error = History::open(&url).await.unwrap_err().to_string();
        assert!(error.contains("is not a valid SQLite database"), "{error}");
        assert!(started.elapsed() < LOCK_TIMEOUT, "{:?}", started.elapsed());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn parses_urls_and_hides_passwords() {
        let (_, url, place) =
            read_url("postgres://me:secret@db.example.com:5432/hailer?sslmode=require").unwrap();
        assert_eq!(place, "at db.example.com:5432/hailer");
        assert!(url.contains("secret"));
        assert_eq!(
            read_url("postgres:///hailer?password=secret").unwrap().2,
            "at /hailer"
        );
        assert_eq!(quote("a b?.db"), "a%20b%3f.db");
        for wrong in ["mysql://me:secret@host/x", "history.db", "sqlite:", ""] {
            let error = read_url(wrong).unwrap_err().to_string();
            assert!(
                error.contains("sqlite:PATH") && !error.contains("secret"),
                "{error}"
            );
        }
    }
}
