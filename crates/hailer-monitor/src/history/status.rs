//! Last statuses of servers, as JSON records of [`StatusStore`](crate::status_store::StatusStore).

use super::insert::{Insert, Values, run};
use super::{History, HistoryError};
use crate::server::ServerId;
use sqlx::Row;

impl History {
    /// Returns the stored records.
    ///
    /// # Errors
    /// If the history cannot be read.
    pub(crate) async fn last_statuses(&self) -> Result<Vec<(ServerId, String)>, HistoryError> {
        let query = sqlx::query("SELECT server, status FROM last_status ORDER BY server");
        self.all(query, |row| {
            Ok((ServerId(row.try_get(0)?), row.try_get(1)?))
        })
        .await
    }

    /// Stores records, in place of older ones.
    ///
    /// # Errors
    /// If the history cannot be written.
    pub(crate) async fn save_statuses(
        &self,
        records: Vec<(ServerId, &str)>,
    ) -> Result<(), HistoryError> {
        if records.is_empty() {
            return Ok(());
        }
        let table = Insert {
            head: "INSERT INTO last_status (server, status) VALUES ",
            columns: 2,
            tail: " ON CONFLICT (server) DO UPDATE SET status = excluded.status",
        };
        let rows = records.into_iter().map(|(server, record)| {
            move |values: &mut Values| {
                values.add(server.0);
                values.add(record.to_owned());
            }
        });
        let mut change = self.begin().await?;
        run(&mut change, table.rows(self.dialect, rows)).await?;
        change.commit().await
    }
}
