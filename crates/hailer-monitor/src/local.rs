//! A monitor that runs alone: results go straight to the history.

use crate::alert::Alerts;
use crate::error::MonitorError;
use crate::health::Health;
use crate::history::{Batch, History, HistoryWriter, PlayerSession, WriterHealth, WriterLimits};
use crate::monitor_health::HistoryHealth;
use crate::node::{LeaderAlerts, Node, NodeHealth, NodeStart};
use crate::poll::{PollResult, Poller};
use crate::reconcile;
use crate::sample::Millis;
use crate::server::ServerId;
use crate::sessions::{RESUME_MS, SessionTracker};
use crate::state::{StateTable, Update};
use crate::status_store::{self, StatusStore};
use crate::watchlist::{LocalWatchlist, Watchlist};
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Mutex, broadcast, mpsc};
use tokio::task::JoinHandle;

/// Interval between runs of the roll-ups and the retention.
const TIDY_INTERVAL: Duration = Duration::from_secs(60);
/// How long [`Local::stop`] waits for the last results.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// The only process of a monitor.
pub(crate) struct Local {
    history: History,
    poller: Arc<Poller>,
    watchlist: Arc<dyn Watchlist>,
    writer: HistoryWriter,
    alerts: LeaderAlerts,
    feeder: JoinHandle<()>,
    tidier: JoinHandle<()>,
    statuses: Arc<Mutex<StatusStore>>,
    status_saver: JoinHandle<()>,
    reconciler: JoinHandle<()>,
    state: Arc<StateTable>,
}

impl Local {
    /// Starts to poll the servers of the history.
    pub(crate) async fn start(start: NodeStart) -> Result<Self, MonitorError> {
        let NodeStart {
            history,
            state,
            poller,
            results,
            clock,
            interval,
            privacy,
            retention,
            alerts,
        } = start;
        let now = clock.now();
        resume_servers(&history, &state, &poller, now).await?;
        history.load_day(&state, now).await?;
        let statuses = StatusStore::load(history.clone(), &state).await?;
        let statuses = Arc::new(Mutex::new(statuses));
        let status_saver = tokio::spawn(status_store::save_regularly(
            statuses.clone(),
            state.clone(),
        ));
        let reconciler = tokio::spawn(reconcile::run(
            history.clone(),
            state.clone(),
            clock.clone(),
        ));
        let mut sessions = SessionTracker::new(privacy);
        sessions.resume(history.sessions_since(now - RESUME_MS).await?);
        let writer = HistoryWriter::start(history.clone(), WriterLimits::default());
        let feeder = tokio::spawn(feed(results, state.clone(), sessions, writer.clone()));
        let tidier = {
            let history = history.clone();
            tokio::spawn(async move {
                let mut ticks = tokio::time::interval(TIDY_INTERVAL);
                ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    // The writer reports a failing database; the next run does the rest.
                    let _ = history.tidy(clock.now(), &retention).await;
                }
            })
        };
        let running = Alerts::start(alerts, state.clone(), &history, interval).await?;
        let alerts = LeaderAlerts::default();
        alerts.set(Some(Arc::new(running)));
        let watchlist = LocalWatchlist::new(history.clone(), poller.clone(), state.clone());
        Ok(Self {
            history,
            poller,
            watchlist: Arc::new(watchlist),
            writer,
            alerts,
            feeder,
            tidier,
            statuses,
            status_saver,
            reconciler,
            state,
        })
    }
}

impl Node for Local {
    fn watchlist(&self) -> Arc<dyn Watchlist> {
        self.watchlist.clone()
    }

    fn alerts(&self) -> &LeaderAlerts {
        &self.alerts
    }

    fn health(&self) -> Box<dyn Fn() -> NodeHealth + Send + Sync> {
        let writer = self.writer.clone();
        Box::new(move || {
            let health = writer.health();
            NodeHealth {
                history: HistoryHealth {
                    is_failing: health.is_failing,
                    since: health.since,
                    message: health.message.filter(|_| health.is_failing),
                    redis: None,
                    is_database_failing: health.is_failing,
                    kept: health.kept,
                    dropped: health.dropped,
                },
                clock: None,
                last_remote_sample: None,
            }
        })
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn stop(self: Box<Self>) -> BoxFuture<'static, WriterHealth> {
        Box::pin(async move {
            self.tidier.abort();
            self.reconciler.abort();
            self.poller.end();
            let _ = tokio::time::timeout(STOP_TIMEOUT, self.feeder).await;
            let health = self.writer.finish().await;
            self.status_saver.abort();
            // On an error, the statuses of the last minute are missing after a restart.
            let _ = self.statuses.lock().await.save(&self.state).await;
            self.history.close().await;
            health
        })
    }
}

/// How far back events of flapping are read at the start, in milliseconds.
const FLAPPING_RESUME_MS: Millis = 24 * 3_600_000;

/// Polls the servers of the history, each in the state that the history has last stored.
async fn resume_servers(
    history: &History,
    state: &StateTable,
    poller: &Poller,
    now: Millis,
) -> Result<(), MonitorError> {
    let mut states: HashMap<ServerId, Health> = HashMap::new();
    for (id, state, since) in history.last_states().await? {
        states.insert(id, Health::known(state, since));
    }
    for id in history.flapping_servers(now - FLAPPING_RESUME_MS).await? {
        states
            .entry(id)
            .and_modify(|known| *known = known.flapping(now));
    }
    let servers = history.servers().await?.into_iter().map(|server| {
        let known = states.get(&server.id).copied();
        (server, known)
    });
    // A stored target was valid once. If its protocol has gone since, the server is shown, but
    // never polled.
    for (server, _) in poller.watch_all(servers) {
        state.set(server);
    }
    Ok(())
}

/// Takes results to the writer until the poller ends, with the sessions that follow from them.
async fn feed(
    mut results: mpsc::Receiver<Vec<PollResult>>,
    state: Arc<StateTable>,
    mut sessions: SessionTracker,
    writer: HistoryWriter,
) {
    let mut updates: broadcast::Receiver<Arc<Update>> = state.listen();
    loop {
        let mut batch = Batch::default();
        tokio::select! {
            results = results.recv() => match results {
                Some(results) => {
                    for result in results {
                        batch.sessions.extend(sessions.record(&result));
                        batch.add(result);
                    }
                }
                None => break,
            },
            update = updates.recv() => {
                batch.sessions = close_removed(&mut sessions, &state, update);
            }
        }
        if batch != Batch::default() {
            writer.send(batch);
        }
    }
    writer.send(Batch {
        sessions: sessions.close_all(),
        ..Batch::default()
    });
}

/// Closes the sessions of removed servers. A player who is there when the server is added again
/// starts a new session.
fn close_removed(
    sessions: &mut SessionTracker,
    state: &StateTable,
    update: Result<Arc<Update>, RecvError>,
) -> Vec<PlayerSession> {
    let is_removed = |id: ServerId| state.row(id).is_none();
    match update {
        Ok(update) if update.has_list_changed => {
            let mut closed = Vec::new();
            for id in update.servers.iter().copied().filter(|id| is_removed(*id)) {
                closed.extend(sessions.close(id));
            }
            closed
        }
        Ok(_) => Vec::new(),
        // Some updates were lost: check all servers.
        Err(_) => sessions.close_if(is_removed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poll::{ChangeLimit, ServerState};
    use crate::sample::Sample;
    use crate::sessions::Privacy;
    use crate::state::LastStatus;

    fn result(at: Millis, players: &[&str]) -> PollResult {
        let status = Arc::new(LastStatus {
            at,
            players: players.iter().map(|name| (*name).into()).collect(),
            is_whole: true,
            ..LastStatus::default()
        });
        PollResult {
            sample: Sample {
                observed_ms: 0,
                server: ServerId(1),
                at,
                is_answered: true,
                players: Some(players.len() as u32),
                max: None,
                latency: None,
                sent: 1,
                resent: 0,
            },
            error: None,
            status: Some(status.clone()),
            events: Vec::new(),
            state: ServerState {
                health: Health::default(),
                last_status: Some(status),
                changes: ChangeLimit::default(),
            },
        }
    }

    /// The state table holds only the newest status. Sessions must come from the results, so that a
    /// feeder that is some intervals late loses none.
    #[tokio::test]
    async fn a_late_feeder_loses_no_sessions() {
        let history = History::open("sqlite::memory:").await.unwrap();
        let writer = HistoryWriter::start(history.clone(), WriterLimits::default());
        let state = Arc::new(StateTable::default());
        let (sender, results) = mpsc::channel(4);
        // Both polls are over before the feeder reads the first.
        sender.send(vec![result(60_000, &["Alice"])]).await.unwrap();
        sender
            .send(vec![result(120_000, &["Bob"]), result(180_000, &["Bob"])])
            .await
            .unwrap();
        drop(sender);
        let sessions = SessionTracker::new(Privacy::Names);
        feed(results, state, sessions, writer.clone()).await;
        writer.finish().await;
        let stored = history
            .sessions(ServerId(1), Millis::MAX, 10)
            .await
            .unwrap();
        let mut names: Vec<(&str, Millis, Millis)> = Vec::new();
        for session in &stored {
            names.push((&session.player, session.first, session.last));
        }
        names.sort_unstable();
        assert_eq!(
            names,
            [("Alice", 60_000, 60_000), ("Bob", 120_000, 180_000)]
        );
    }
}
