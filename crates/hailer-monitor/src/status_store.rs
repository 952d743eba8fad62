//! Keeps the last status of each server in the history, so that pages show MOTD, version, player
//! limit and icon after a restart, also of servers that are down.
//!
//! Bounds: one row of at most [`MAX_RECORD_BYTES`] per server, written at most once per minute and only
//! if the status changed, and one icon of at most 64 KiB; about 40 bytes per server in memory.

use crate::history::{History, HistoryError};
use crate::icon::IconId;
use crate::server::ServerId;
use crate::state::{LastStatus, StateTable, Update};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::MissedTickBehavior;

/// How often changed statuses are written.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);
/// Limit for a stored record, in bytes. Longer records are not stored.
const MAX_RECORD_BYTES: usize = 16 << 10;
/// Icons written with one statement.
const ICONS_PER_WRITE: usize = 64;

/// Writes changed statuses to the history.
#[derive(Debug)]
pub(crate) struct StatusStore {
    history: History,
    /// Digest of the stored status of each server.
    stored: HashMap<ServerId, u64>,
    /// Stored icon of each server.
    icons: HashMap<ServerId, IconId>,
}

impl StatusStore {
    /// Reads the stored statuses into the rows that have none.
    ///
    /// # Errors
    /// If the history cannot be read.
    pub(crate) async fn load(history: History, live: &StateTable) -> Result<Self, HistoryError> {
        let mut stored = HashMap::new();
        let mut icons = HashMap::new();
        let mut statuses = HashMap::new();
        for (id, text) in history.last_statuses().await? {
            // A record of another version is replaced by the next answer.
            if let Ok(status) = serde_json::from_str::<LastStatus>(&text) {
                stored.insert(id, digest(&status));
                icons.extend(status.icon.map(|icon| (id, icon)));
                statuses.insert(id, Arc::new(status));
            }
        }
        let update = Update::of(statuses.keys().copied());
        live.change(update, |row| {
            if row.last_status.is_none() {
                row.last_status = statuses.remove(&row.server.id);
            }
        });
        Ok(Self {
            history,
            stored,
            icons,
        })
    }

    /// Stores the statuses that changed since the last call.
    ///
    /// # Errors
    /// If the history cannot be written; the next call tries again.
    pub(crate) async fn save(&mut self, live: &StateTable) -> Result<(), HistoryError> {
        let mut current: Vec<(ServerId, Arc<LastStatus>)> =
            live.pick(|row| Some((row.server.id, row.last_status.clone()?)));
        current.sort_unstable_by_key(|(id, _)| *id);
        let mut changed = Vec::new();
        let mut icons = Vec::new();
        for (id, status) in current {
            let digest = digest(&status);
            if self.stored.get(&id) == Some(&digest) {
                continue;
            }
            let text = serde_json::to_string(&*status).unwrap_or_default();
            if text.len() <= MAX_RECORD_BYTES {
                changed.push((id, text, digest));
                let icon = status.icon.filter(|icon| self.icons.get(&id) != Some(icon));
                icons.extend(icon.and_then(|icon| Some((id, icon, live.icons().find(icon)?))));
            }
        }
        // Icons before the statuses that name them, in parts that fit into memory.
        for part in icons.chunks(ICONS_PER_WRITE) {
            let rows = part.iter().map(|(id, icon, png)| (*id, *icon, &**png));
            self.history.save_icons(rows.collect()).await?;
            self.icons
                .extend(part.iter().map(|(id, icon, _)| (*id, *icon)));
        }
        let rows = changed.iter().map(|(id, text, _)| (*id, text.as_str()));
        self.history.save_statuses(rows.collect()).await?;
        for (id, _, digest) in changed {
            self.stored.insert(id, digest);
        }
        Ok(())
    }
}

/// Stores changed statuses every [`SAVE_INTERVAL`].
pub(crate) async fn save_regularly(store: Arc<Mutex<StatusStore>>, live: Arc<StateTable>) {
    let mut interval = tokio::time::interval(SAVE_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        // `/healthz` reports that the history fails; the next call tries again.
        let _ = store.lock().await.save(&live).await;
    }
}

/// Digest of a status without its time: answers that repeat it are not written.
fn digest(status: &LastStatus) -> u64 {
    let mut without_time = serde_json::to_value(status).unwrap_or_default();
    without_time["at"] = 0.into();
    let mut hasher = DefaultHasher::new();
    without_time.to_string().hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::icon::tests::PNG;
    use crate::server::Server;
    use hailer::proto::Text;
    use hailer::proto::model::Icon;

    fn table() -> StateTable {
        let live = StateTable::default();
        for id in [1, 2] {
            live.set(Server::of_test(id));
        }
        live
    }

    fn answer(live: &StateTable, at: i64, motd: &str) {
        let status = Arc::new(LastStatus {
            at,
            motd: Some(Text::legacy(motd)),
            version: Some("1.21".into()),
            max: Some(20),
            protocol: Some("a2s"),
            has_password: Some(true),
            has_anti_cheat: Some(false),
            bots: Some(2),
            ..LastStatus::default()
        });
        let update = Update::of(vec![ServerId(1)]);
        live.change(update, |row| row.last_status = Some(status.clone()));
    }

    #[tokio::test]
    async fn restart_keeps_motd_version_and_limit() {
        let history = History::open("sqlite::memory:").await.unwrap();
        let live = table();
        let mut store = StatusStore::load(history.clone(), &live).await.unwrap();
        answer(&live, 1_000, "\u{A7}6Old");
        store.save(&live).await.unwrap();
        answer(&live, 2_000, "\u{A7}6New");
        store.save(&live).await.unwrap();
        // The same status again is not written: the stored time stays.
        answer(&live, 3_000, "\u{A7}6New");
        store.save(&live).await.unwrap();

        let restarted = table();
        StatusStore::load(history, &restarted).await.unwrap();
        let row = restarted.row(ServerId(1)).unwrap();
        let status = row.last_status.unwrap();
        assert_eq!(status.motd, Some(Text::legacy("\u{A7}6New")));
        assert_eq!(
            (status.version.as_deref(), status.max, status.at),
            (Some("1.21"), Some(20), 2_000)
        );
        assert_eq!(status.protocol, Some("a2s"));
        assert_eq!(
            (status.has_password, status.has_anti_cheat, status.bots),
            (Some(true), Some(false), Some(2))
        );
        assert!(restarted.row(ServerId(2)).unwrap().last_status.is_none());
    }

    #[tokio::test]
    async fn restart_keeps_icons() {
        let history = History::open("sqlite::memory:").await.unwrap();
        let live = table();
        let mut store = StatusStore::load(history.clone(), &live).await.unwrap();
        let icon = Icon::from_png(PNG).unwrap();
        let id = live.icons().insert(icon.clone());
        let status = Arc::new(LastStatus {
            at: 1_000,
            icon: id,
            ..LastStatus::default()
        });
        let update = Update::of(vec![ServerId(1)]);
        live.change(update, |row| row.last_status = Some(status.clone()));
        store.save(&live).await.unwrap();

        let restarted = table();
        StatusStore::load(history.clone(), &restarted)
            .await
            .unwrap();
        let status = restarted.row(ServerId(1)).unwrap().last_status.unwrap();
        assert!(id.is_some() && status.icon == id);
        assert_eq!(history.icon(id.unwrap()).await.unwrap(), Some(icon));
        let other = "0".repeat(32).parse().unwrap();
        assert_eq!(history.icon(other).await.unwrap(), None);
    }
}
