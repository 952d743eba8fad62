//! Last statuses of servers, as JSON records of [`StatusStore`](crate::status_store::StatusStore),
//! and their icons.
//!
//! In: statuses, or rows of the database. Out: rows of the database, or statuses.
//!
//! May import: `crate::history`, `crate::history::insert`, `crate::icon`, `crate::server`,
//! `hailer`.

use super::insert::{Insert, Values, run};
use super::{History, HistoryError};
use crate::icon::IconId;
use crate::server::ServerId;
use hailer::proto::model::Icon;
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

    /// Stores icons, in place of older ones of the same server.
    ///
    /// # Errors
    /// If the history cannot be written.
    pub(crate) async fn save_icons(
        &self,
        icons: Vec<(ServerId, IconId, &Icon)>,
    ) -> Result<(), HistoryError> {
        if icons.is_empty() {
            return Ok(());
        }
        let table = Insert {
            head: "INSERT INTO last_icon (server, digest, png) VALUES ",
            columns: 3,
            tail: " ON CONFLICT (server) DO UPDATE SET digest = excluded.digest, png = excluded.png",
        };
        let rows = icons.into_iter().map(|(server, id, icon)| {
            move |values: &mut Values| {
                values.add(server.0);
                values.add(id.to_string());
                values.add(icon.data_uri().to_owned());
            }
        });
        let mut change = self.begin().await?;
        run(&mut change, table.rows(self.dialect, rows)).await?;
        change.commit().await
    }

    /// Returns a stored icon. `None` if no server has it.
    ///
    /// # Errors
    /// If the history cannot be read.
    pub(crate) async fn icon(&self, id: IconId) -> Result<Option<Icon>, HistoryError> {
        let query = sqlx::query("SELECT png FROM last_icon WHERE digest = $1 LIMIT 1");
        let found = self
            .all(query.bind(id.to_string()), |row| {
                Ok(row.try_get::<String, _>(0)?)
            })
            .await?;
        Ok(found
            .first()
            .and_then(|text| Icon::from_data_uri(text).ok()))
    }
}
