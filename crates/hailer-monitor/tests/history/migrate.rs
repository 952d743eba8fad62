//! Databases of earlier versions.

use super::*;
use futures_util::TryStreamExt;
use hailer_monitor::alert::{self, ConditionKind};
use hailer_monitor::health::State;
use hailer_monitor::history::{Batch, ExportSelection, Level, Record, Retention};
use hailer_monitor::sample::EventKind;
use std::time::Duration;

/// Tables as migrations 1 to 6 leave them.
const TABLES: &str = r#"
CREATE TABLE setting (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) {clustered};
CREATE TABLE server (id BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL UNIQUE, target TEXT NOT NULL,
    of_group TEXT NOT NULL, labels TEXT NOT NULL, every BIGINT, origin TEXT NOT NULL, removed BIGINT) {clustered};
CREATE TABLE sample (at BIGINT NOT NULL, server BIGINT NOT NULL, answered BIGINT NOT NULL, players BIGINT, slots BIGINT,
    latency BIGINT, sent BIGINT NOT NULL, resent BIGINT NOT NULL, length BIGINT, PRIMARY KEY (at, server)) {clustered};
CREATE TABLE rollup (level BIGINT NOT NULL, bucket BIGINT NOT NULL, server BIGINT NOT NULL, asked BIGINT NOT NULL,
    answered BIGINT NOT NULL, told BIGINT NOT NULL, players BIGINT, players_max BIGINT, slots BIGINT,
    timed BIGINT NOT NULL, latency BIGINT, latency_max BIGINT, sent BIGINT NOT NULL, resent BIGINT NOT NULL,
    observed BIGINT, up BIGINT, PRIMARY KEY (level, bucket, server)) {clustered};
CREATE TABLE progress (level BIGINT NOT NULL PRIMARY KEY, done BIGINT NOT NULL, seen BIGINT NOT NULL) {clustered};
CREATE TABLE late (level BIGINT NOT NULL, bucket BIGINT NOT NULL, PRIMARY KEY (level, bucket)) {clustered};
CREATE TABLE event (server BIGINT NOT NULL, at BIGINT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (server, at, kind)) {clustered};
CREATE INDEX event_at ON event (at, server, kind);
CREATE TABLE state (server BIGINT NOT NULL PRIMARY KEY, state TEXT NOT NULL, since BIGINT NOT NULL) {clustered};
CREATE TABLE session (server BIGINT NOT NULL, first BIGINT NOT NULL, player TEXT NOT NULL, last BIGINT NOT NULL,
    PRIMARY KEY (server, first, player)) {clustered};
CREATE TABLE alert_message (id TEXT NOT NULL PRIMARY KEY, receiver TEXT NOT NULL, number BIGINT NOT NULL,
    made BIGINT NOT NULL, due BIGINT NOT NULL, held BIGINT NOT NULL, state BIGINT NOT NULL, attempts BIGINT NOT NULL,
    error TEXT NOT NULL, firing TEXT NOT NULL);
CREATE INDEX alert_message_by_number ON alert_message (number);
CREATE INDEX alert_message_waiting ON alert_message (number) WHERE state = 0;
CREATE TABLE alert_open (rule TEXT NOT NULL, server BIGINT NOT NULL, since BIGINT NOT NULL, told BIGINT NOT NULL,
    PRIMARY KEY (rule, server)) {clustered};
CREATE TABLE last_status (server BIGINT NOT NULL PRIMARY KEY, status TEXT NOT NULL);
CREATE TABLE last_icon (server BIGINT NOT NULL PRIMARY KEY, digest TEXT NOT NULL, png TEXT NOT NULL);
CREATE INDEX last_icon_digest ON last_icon (digest);
CREATE TABLE former_name (name TEXT NOT NULL PRIMARY KEY, server BIGINT NOT NULL) {clustered};
CREATE TABLE _sqlx_migrations (version BIGINT PRIMARY KEY, description TEXT NOT NULL,
    installed_on {time} NOT NULL DEFAULT CURRENT_TIMESTAMP, success BOOLEAN NOT NULL, checksum {bytes} NOT NULL,
    execution_time BIGINT NOT NULL);
INSERT INTO progress (level, done, seen) VALUES (1, 0, 0), (2, 7200000, 0), (3, 0, 0);
INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES
    (1, 'history', TRUE, CAST('x' AS {bytes}), 1), (2, 'alerts', TRUE, CAST('x' AS {bytes}), 1),
    (3, 'last status', TRUE, CAST('x' AS {bytes}), 1), (4, 'last icon', TRUE, CAST('x' AS {bytes}), 1),
    (5, 'observed time', TRUE, CAST('x' AS {bytes}), 1), (6, 'former names', TRUE, CAST('x' AS {bytes}), 1);
"#;

const ROWS: &str = r#"
INSERT INTO server (id, name, target, of_group, labels, every, origin, removed) VALUES
    (1, 'lobby', 'ugp://lobby.example.com', 'games', '{"region":"eu"}', 1500, 'plan', NULL),
    (2, 'gone', 'ugp://gone.example.com', '', '{}', NULL, 'api', 5000);
INSERT INTO sample (at, server, answered, players, slots, latency, sent, resent, length) VALUES
    (7200000, 1, 1, 7, 20, 1500, 2, 1, 60000), (7260000, 1, 0, NULL, NULL, NULL, 3, 2, NULL);
INSERT INTO rollup (level, bucket, server, asked, answered, told, players, players_max, slots, timed, latency, latency_max,
    sent, resent, observed, up) VALUES (2, 3600000, 1, 10, 9, 8, 80, 15, 20, 4, 8000, 3000, 21, 1, 600000, 540000);
INSERT INTO event (server, at, kind, body) VALUES (1, 7260000, 'down', '{"kind":"down","reason":"silence"}');
INSERT INTO state (server, state, since) VALUES (1, 'down', 7260000);
INSERT INTO session (server, first, player, last) VALUES (1, 7200000, 'Alice', 7230000);
INSERT INTO alert_message (id, receiver, number, made, due, held, state, attempts, error, firing) VALUES ('id', 'ops', 4, 5, 6, 1, 0,
    3, 'away', '{"id":"n","rule":"r","condition":"down","kind":"firing","at":5,"items":[{"name":"lobby","players":7,"latency":1500}],
    "more":0,"to":["ops"],"held_until":6,"words":{"priority":"high"},"zone":"UTC"}');
INSERT INTO alert_open (rule, server, since, told) VALUES ('r', 1, 8, 9);
INSERT INTO former_name (name, server) VALUES ('hall', 1);
"#;

/// Writes the tables of the version before the columns were renamed, without rows.
pub async fn write_old_tables(pool: &sqlx::AnyPool, is_postgres: bool) {
    let [clustered, time, bytes] = if is_postgres {
        ["", "TIMESTAMPTZ", "BYTEA"]
    } else {
        ["WITHOUT ROWID", "TIMESTAMP", "BLOB"]
    };
    let tables = TABLES
        .replace("{clustered}", clustered)
        .replace("{time}", time)
        .replace("{bytes}", bytes);
    let tables = sqlx::AssertSqlSafe(tables);
    sqlx::raw_sql(tables).execute(pool).await.unwrap();
}

/// Migrates a database, and reads every renamed column through the history.
async fn migrate(url: &str, is_postgres: bool) {
    sqlx::any::install_default_drivers();
    let create = if is_postgres { "" } else { "?mode=rwc" };
    let pool = sqlx::AnyPool::connect(&format!("{url}{create}"))
        .await
        .unwrap();
    write_old_tables(&pool, is_postgres).await;
    sqlx::raw_sql(ROWS).execute(&pool).await.unwrap();
    pool.close().await;

    let history = History::open(url).await.unwrap();
    let lobby = Server {
        interval: Some(Duration::from_millis(1_500)),
        ..new("lobby").with_id(ServerId(1))
    };
    assert_eq!(
        history.servers().await.unwrap(),
        std::slice::from_ref(&lobby)
    );
    let gone = history.server(ServerId(2)).await.unwrap().unwrap();
    assert_eq!((&*gone.name, gone.origin), ("gone", Origin::Api));
    let current = history.current_name("hall").await.unwrap();
    assert_eq!(current.as_deref(), Some("lobby"));

    let points = history.series(lobby.id, 0, DAY, Level::Raw).await.unwrap();
    let [first, second] = points[..] else {
        panic!("{points:?}")
    };
    assert_eq!(
        (first.answered, first.players, first.max),
        (1, Some(7.0), Some(20))
    );
    assert_eq!(
        (first.latency, first.observed_ms),
        (Some(1_500), Some(60_000))
    );
    assert_eq!(
        (second.answered, second.players, second.observed_ms),
        (0, None, None)
    );
    let hours = history.series(lobby.id, 0, DAY, Level::Hour).await.unwrap();
    let hour = hours[0];
    assert_eq!(
        (hour.polls, hour.answered, hour.players),
        (10, 9, Some(10.0))
    );
    assert_eq!(
        (hour.players_max, hour.max, hour.latency),
        (Some(15), Some(20), Some(2_000))
    );
    assert_eq!(
        (hour.observed_ms, hour.up_ms),
        (Some(600_000), Some(540_000))
    );
    let events = history.events(None, DAY, 10).await.unwrap();
    let reason = "silence".to_owned();
    assert_eq!(events[0].kind, EventKind::Down { reason });
    let states = history.last_states().await.unwrap();
    assert_eq!(states, [(lobby.id, State::Down, 7_260_000)]);
    let sessions = history.sessions(lobby.id, DAY, 10).await.unwrap();
    assert_eq!(sessions[0].player, "Alice");

    let (open, messages) = alert::stored(&history, 10).await.unwrap();
    assert_eq!((open[0].since, open[0].notified_at), (8, 9));
    let message = &messages[0];
    assert_eq!(
        (message.due, message.is_held, message.attempts),
        (6, true, 3)
    );
    let item = &message.notification.items[0];
    assert_eq!(message.notification.condition, ConditionKind::Down);
    assert_eq!((item.players, item.latency), (Some(7), Some(1_500)));

    // The tables are complete: they take new rows, and roll-ups of old ones.
    history.change(&lobby).await.unwrap();
    let samples = vec![sample(lobby.id, 7_320_000, 9)];
    let batch = Batch {
        samples,
        ..Batch::default()
    };
    history.write(&batch).await.unwrap();
    history.tidy(DAY, &Retention::default()).await.unwrap();
    let five = history
        .series(lobby.id, 0, DAY, Level::FiveMinutes)
        .await
        .unwrap();
    assert_eq!((five[0].polls, five[0].answered), (3, 2));
    // The old tables are empty now, and everything is where it was.
    for table in ["SELECT COUNT(*) FROM sample", "SELECT COUNT(*) FROM rollup"] {
        let pool = sqlx::AnyPool::connect(url).await.unwrap();
        let rows = sqlx::query(table).fetch_one(&pool).await.unwrap();
        assert_eq!(sqlx::Row::get::<i64, _>(&rows, 0), 0, "{table}");
    }
    let moved = history.series(lobby.id, 0, DAY, Level::Raw).await.unwrap();
    assert_eq!(moved[..2], points);
    let moved = history.series(lobby.id, 0, DAY, Level::Hour).await.unwrap();
    assert_eq!(moved[0], hour);
    let records: Vec<Record> = history
        .export(ExportSelection::default())
        .try_collect()
        .await
        .unwrap();
    let is_removed = |record: &&Record| match record {
        Record::Server(server) => server.removed_at == Some(5_000),
        _ => false,
    };
    assert_eq!(records.iter().filter(is_removed).count(), 1);
    history.close().await;
    History::open(url).await.unwrap().close().await;
}

#[test]
fn a_database_of_the_last_version_is_migrated() {
    let folder = Folder::new("migrate");
    let file = folder.path().join("history.db");
    runtime().block_on(migrate(&format!("sqlite:{}", file.display()), false));
    let Some(server) = postgres::Server::start("migrate") else {
        return;
    };
    runtime().block_on(migrate(&server.database("migrate"), true));
}
