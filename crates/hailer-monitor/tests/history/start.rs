//! Several processes that open one database at the same moment.

use super::*;
use futures_util::future::join_all;

#[test]
fn three_processes_create_and_update_the_tables_at_once() {
    let Some(server) = postgres::Server::start("start") else {
        return;
    };
    runtime().block_on(async {
        for round in 0..3 {
            let url = server.database(&format!("start{round}"));
            let open = async |what: &str| {
                let opened = join_all((0..3).map(|_| History::open(&url))).await;
                for history in opened {
                    history
                        .unwrap_or_else(|error| panic!("{what}: {error}"))
                        .close()
                        .await;
                }
            };
            open("an empty database").await;
            let pool = sqlx::AnyPool::connect(&url).await.unwrap();
            let empty = "DROP SCHEMA public CASCADE; CREATE SCHEMA public";
            sqlx::raw_sql(empty).execute(&pool).await.unwrap();
            migrate::write_old_tables(&pool, true).await;
            let older = "ALTER TABLE sample DROP COLUMN length; ALTER TABLE rollup DROP COLUMN observed, DROP COLUMN up;
                         DROP TABLE last_icon; DROP TABLE former_name; DELETE FROM _sqlx_migrations WHERE version >= 4";
            sqlx::raw_sql(older).execute(&pool).await.unwrap();
            open("a database of an older version").await;
            for new in ["SELECT png FROM last_icon", "SELECT observed_ms FROM sample"] {
                let rows = sqlx::query(new).fetch_all(&pool).await;
                assert!(rows.unwrap().is_empty());
            }
        }
    });
}
