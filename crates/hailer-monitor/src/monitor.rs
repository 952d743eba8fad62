//! All of it together: who is watched, polling, history, alerts.

use crate::alert::{self, Alerts};
use crate::cluster::{self, ClusterConfig, LeaderAlerts};
use crate::health::State;
use crate::history::{
    Batch, History, HistoryError, HistoryWriter, NewServer, PlayerSession, Retention, WriterHealth,
    WriterLimits,
};
use crate::poll::{PollConfig, Poller, unix_millis};
use crate::sample::EventKind;
use crate::server::{Origin, Server, ServerId};
use crate::sessions::{Privacy, SessionTracker};
use crate::state::{DAY_BUCKET_MS, DAY_BUCKETS, StateTable, Update};
use crate::web::api::{
    HistoryHealth, LocalWatchlist, MonitorHealth, TestAlert, TestAlertError, Watchlist,
    WatchlistError,
};
use futures_util::future::BoxFuture;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;

/// Roll-ups are made, and old rows deleted, so often.
const TIDY: Duration = Duration::from_secs(60);
/// New servers of a plan that are written at once.
const ADDED: usize = 20_000;
/// So often another process may be faster with servers of the same plan: once for each part that is written at once.
const FASTER: usize = 20;
/// What came last is waited for no longer when we stop.
const LAST: Duration = Duration::from_secs(2);

/// How to monitor.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MonitorConfig {
    /// Whom to ask when, and how fast.
    pub poll: PollConfig,
    /// How long to remember what.
    pub keep: Retention,
    /// What becomes of the names of players.
    pub privacy: Privacy,
    /// What is worth telling, and to whom.
    pub alerts: alert::CheckedConfig,
    /// Others that share the work; `None`: it is alone.
    pub cluster: Option<ClusterConfig>,
}

impl Default for MonitorConfig {
    fn default() -> Self {
        let (poll, keep, alerts) = (
            PollConfig::default(),
            Retention::default(),
            alert::CheckedConfig::default(),
        );
        Self {
            poll,
            keep,
            privacy: Privacy::Names,
            alerts,
            cluster: None,
        }
    }
}

/// Why a monitor does not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// The database.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A history that others cannot write to.
    #[error(
        "a cluster needs a history in PostgreSQL; write history = \"postgres://USER@HOST/DATABASE\" into [monitor], or give \
         --history postgres://…"
    )]
    NotShared,
    /// A thread or a socket that cannot be had.
    #[error("cannot poll: {0}")]
    Poll(#[from] io::Error),
    /// A server of the plan that cannot be watched.
    #[error("server {name}: {problem}")]
    Server {
        /// Its name.
        name: String,
        /// Why.
        problem: WatchlistError,
    },
}

/// A monitor that runs. Dropping it ends it; [`stop`](Self::stop) writes what is not written yet.
pub struct Monitor {
    live: Arc<StateTable>,
    history: History,
    poll: Arc<Poller>,
    watchlist: Arc<dyn Watchlist>,
    writer: HistoryWriter,
    /// In a cluster: while this process leads.
    alerts: LeaderAlerts,
    plan: Arc<alert::CheckedConfig>,
    started: i64,
    feeder: JoinHandle<()>,
    tidier: JoinHandle<()>,
    cluster: Option<cluster::Member>,
}

impl Monitor {
    /// Starts to watch what the history knows. Inside a tokio runtime.
    pub async fn start(history: History, settings: MonitorConfig) -> Result<Self, MonitorError> {
        if settings.cluster.is_some() {
            return Self::join(history, settings).await;
        }
        let live = Arc::new(StateTable::default());
        let interval = settings.poll.interval;
        let (poll, mut batches) = Poller::start(settings.poll, live.clone())?;
        let poll = Arc::new(poll);
        let states = history.last_states().await?;
        let states: HashMap<ServerId, (State, i64)> = states
            .into_iter()
            .map(|(id, state, at)| (id, (state, at)))
            .collect();
        let servers = history.servers().await?.into_iter().map(|server| {
            let known = states.get(&server.id).copied();
            (server, known)
        });
        // What was stored was checked then; a protocol may have gone since. It is shown, and never asked.
        poll.watch_all(servers)
            .into_iter()
            .for_each(|(server, _)| live.set(server));
        drop(states);
        let started = unix_millis();
        remember_day(&live, &history, started).await?;
        let writer = HistoryWriter::start(history.clone(), WriterLimits::default());
        let mut sessions = SessionTracker::new(settings.privacy);
        sessions.resume(history.sessions_since(started - RESUME).await?);
        let feeder = {
            let (live, writer, mut updates) = (live.clone(), writer.clone(), live.listen());
            tokio::spawn(async move {
                loop {
                    let batch = tokio::select! {
                        batch = batches.recv() => match batch {
                            Some(mut batch) => {
                                add_sessions(&mut sessions, &live, &mut batch);
                                batch
                            }
                            None => break,
                        },
                        update = updates.recv() => {
                            let sessions = end_sessions(&mut sessions, &live, update);
                            Batch { sessions, ..Batch::default() }
                        }
                    };
                    if batch != Batch::default() {
                        writer.send(batch);
                    }
                }
                writer.send(Batch {
                    sessions: sessions.close_all(),
                    ..Batch::default()
                });
            })
        };
        let tidier = {
            let (history, keep) = (history.clone(), settings.keep);
            tokio::spawn(async move {
                let mut each = tokio::time::interval(TIDY);
                each.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                loop {
                    each.tick().await;
                    // The writer tells that the database fails; what is not done now is done next time.
                    let _ = history.tidy(unix_millis(), &keep).await;
                }
            })
        };
        let plan = Arc::new(settings.alerts.clone());
        let alerts =
            Arc::new(Alerts::start(settings.alerts, live.clone(), &history, interval).await?);
        let alerts: LeaderAlerts = Arc::new(Mutex::new(Some(alerts)));
        let watchlist = Arc::new(LocalWatchlist::new(
            history.clone(),
            poll.clone(),
            live.clone(),
        ));
        Ok(Self {
            live,
            history,
            poll,
            watchlist,
            writer,
            alerts,
            plan,
            started,
            feeder,
            tidier,
            cluster: None,
        })
    }

    /// Takes part in a cluster, whose processes do together what one does alone.
    async fn join(history: History, settings: MonitorConfig) -> Result<Self, MonitorError> {
        let MonitorConfig {
            poll,
            keep,
            privacy,
            alerts: plan,
            cluster: Some(cluster),
        } = settings
        else {
            return Err(MonitorError::NotShared);
        };
        let live = Arc::new(StateTable::default());
        let interval = poll.interval;
        let (poll, batches) = Poller::start(poll, live.clone())?;
        let (poll, started, alerts) = (Arc::new(poll), unix_millis(), LeaderAlerts::default());
        let start = cluster::Start {
            history: history.clone(),
            live: live.clone(),
            poll: poll.clone(),
            batches,
            interval,
            privacy,
            keep,
            alerts: plan.clone(),
            seat: alerts.clone(),
        };
        let member = cluster::Member::start(cluster, start).await?;
        let watchlist = member.watchlist();
        // Nothing comes to this one: results go by way of Redis.
        let writer = HistoryWriter::start(history.clone(), WriterLimits::default());
        let (feeder, tidier, plan) = (
            tokio::spawn(async {}),
            tokio::spawn(async {}),
            Arc::new(plan),
        );
        let cluster = Some(member);
        Ok(Self {
            live,
            history,
            poll,
            watchlist,
            writer,
            alerts,
            plan,
            started,
            feeder,
            tidier,
            cluster,
        })
    }

    /// How things stand.
    pub fn live(&self) -> &Arc<StateTable> {
        &self.live
    }

    /// What was.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Where servers come and go.
    pub fn watchlist(&self) -> &Arc<dyn Watchlist> {
        &self.watchlist
    }

    /// Alerts at work; `None`: another process of the cluster sends them.
    pub fn alerts(&self) -> Option<Arc<Alerts>> {
        self.alerts
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Who sends tests of alerts.
    pub fn tests(&self) -> Tests {
        Tests(self.plan.clone())
    }

    /// Looks at how the monitor itself is, whenever it is asked.
    pub fn look(&self) -> impl Fn() -> MonitorHealth + Send + Sync + 'static {
        let (poll, writer, alerts, started) = (
            self.poll.clone(),
            self.writer.clone(),
            self.alerts.clone(),
            self.started,
        );
        let cluster = self.cluster.as_ref().map(cluster::Member::vitals);
        move || {
            let alerts = alerts
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            let alerts = alerts.map(|alerts| alerts.health()).unwrap_or_default();
            let (counts, mut health) = (poll.counts(), writer.health());
            let mut last = counts.last.load(Ordering::Relaxed);
            if let Some((trouble, kept, dropped, seen)) = cluster.as_ref().map(|look| look()) {
                (health.is_failing, health.message, health.kept) =
                    (trouble.is_some(), trouble, kept);
                health.dropped += dropped;
                last = last.max(seen.unwrap_or(0) as u64);
            }
            MonitorHealth {
                started,
                samples: counts.samples.load(Ordering::Relaxed),
                missed: counts.missed.load(Ordering::Relaxed),
                dropped: counts.dropped.load(Ordering::Relaxed) + health.dropped,
                last: (last > 0).then_some(last as i64),
                history: HistoryHealth {
                    is_failing: health.is_failing,
                    since: health.since,
                    message: health.message.filter(|_| health.is_failing),
                    kept: health.kept,
                    dropped: health.dropped,
                },
                alerts_waiting: alerts
                    .waiting
                    .values()
                    .map(|(count, _)| *count as u64)
                    .sum(),
                alerts_delivered: alerts.delivered,
                alerts_failed: alerts.failed,
            }
        }
    }

    /// Makes the servers of the plan those that are watched for its sake.
    ///
    /// In a cluster only whoever has some in his plan says which they are.
    pub async fn follow(&self, plan: Vec<NewServer>) -> Result<(), MonitorError> {
        if self.cluster.is_none() {
            return self.follow_once(plan).await;
        }
        if plan.is_empty() {
            return Ok(());
        }
        for _ in 0..FASTER {
            match self.follow_once(plan.clone()).await {
                // Another process with the same plan was faster.
                Err(MonitorError::Server {
                    problem: WatchlistError::Taken(_),
                    ..
                }) => {}
                done => return done,
            }
        }
        self.follow_once(plan).await
    }

    async fn follow_once(&self, plan: Vec<NewServer>) -> Result<(), MonitorError> {
        let known = self.history.servers().await?;
        let mut known: HashMap<String, Server> = known
            .into_iter()
            .map(|old| (old.name.clone(), old))
            .collect();
        let (mut fresh, mut other) = (Vec::new(), Vec::new());
        for new in plan {
            match known.remove(&new.name) {
                None => fresh.push(new),
                Some(old) => {
                    let NewServer {
                        name,
                        target,
                        group,
                        labels,
                        interval,
                        origin,
                    } = new;
                    let server = Server {
                        id: old.id,
                        name,
                        target,
                        group,
                        labels,
                        interval,
                        origin,
                    };
                    if server != old {
                        other.push(server);
                    }
                }
            }
        }
        for old in known.into_values().filter(|old| old.origin == Origin::Plan) {
            let problem = |problem| MonitorError::Server {
                name: old.name.clone(),
                problem,
            };
            self.watchlist.remove(old.id).await.map_err(problem)?;
        }
        for server in other {
            let name = server.name.clone();
            let problem = |problem| MonitorError::Server { name, problem };
            self.watchlist.change(server).await.map_err(problem)?;
        }
        let mut fresh = fresh.into_iter().peekable();
        while let Some(first) = fresh.peek() {
            let name = first.name.clone();
            let some = fresh.by_ref().take(ADDED).collect();
            let problem = |(named, problem): (Option<String>, _)| MonitorError::Server {
                name: named.unwrap_or(name),
                problem,
            };
            self.watchlist.add_all(some).await.map_err(problem)?;
        }
        Ok(())
    }

    /// Ends it: what came is written, if the database takes it. Tells how that went: what is kept is lost now.
    pub async fn stop(self) -> WriterHealth {
        self.tidier.abort();
        if let Some(cluster) = self.cluster {
            cluster.stop().await;
        }
        self.poll.end();
        let _ = tokio::time::timeout(LAST, self.feeder).await;
        let health = self.writer.finish().await;
        self.history.close().await;
        health
    }
}

/// The last day of all servers, one half hour after the other: a day of a hundred thousand at once would take more room than all
/// else.
pub(crate) async fn remember_day(
    live: &StateTable,
    history: &History,
    now: i64,
) -> Result<(), HistoryError> {
    for place in (0..DAY_BUCKETS as i64).rev() {
        live.remember(
            &history
                .half_hour((now.div_euclid(DAY_BUCKET_MS) - place) * DAY_BUCKET_MS)
                .await?,
        );
    }
    Ok(())
}

/// Who was on when the last monitor stopped, not longer ago, is still the same session.
const RESUME: i64 = 5 * 60_000;

/// Who is on, by what each answer of a batch said.
pub(crate) fn add_sessions(sessions: &mut SessionTracker, live: &StateTable, batch: &mut Batch) {
    for sample in batch.samples.iter().filter(|sample| sample.answered) {
        let said = live
            .row(sample.server)
            .and_then(|row| row.last_status)
            .filter(|said| said.at == sample.at);
        if let Some(said) = said {
            let names = said.players.iter().map(|name| name.as_str());
            batch
                .sessions
                .extend(sessions.see(sample.server, sample.at, names, said.is_whole));
        }
    }
    for event in batch
        .events
        .iter()
        .filter(|event| matches!(event.kind, EventKind::Down { .. }))
    {
        batch.sessions.extend(sessions.close(event.server));
    }
}

/// Nobody is on a server that is watched no more: who is there when it is watched again has come anew.
fn end_sessions(
    sessions: &mut SessionTracker,
    live: &StateTable,
    update: Result<Arc<Update>, RecvError>,
) -> Vec<PlayerSession> {
    let is_gone = |id: ServerId| live.row(id).is_none();
    match update {
        Ok(update) if update.list_changed => {
            let gone = update.servers.iter().filter(|id| is_gone(**id));
            gone.flat_map(|id| sessions.close(*id)).collect()
        }
        Ok(_) => Vec::new(),
        // Too much at once to be told one by one.
        Err(_) => sessions.close_if(is_gone),
    }
}

/// Sends tests, by alerts alone.
pub struct Tests(Arc<alert::CheckedConfig>);

impl TestAlert for Tests {
    fn plan(&self) -> &alert::CheckedConfig {
        &self.0
    }

    fn send(&self, to: Option<String>) -> BoxFuture<'_, Result<String, TestAlertError>> {
        Box::pin(send_test(self.0.clone(), to))
    }
}

async fn send_test(
    plan: Arc<alert::CheckedConfig>,
    to: Option<String>,
) -> Result<String, TestAlertError> {
    let all: Vec<String> = plan.receivers().map(|outlet| outlet.name.clone()).collect();
    let chosen = match to {
        Some(name) if all.contains(&name) => vec![name],
        Some(name) => {
            return Err(TestAlertError::Unknown(format!(
                "there is no receiver {name:?}; there is {}",
                all.join(", ")
            )));
        }
        None if all.is_empty() => {
            return Err(TestAlertError::Unknown(
                "the plan has no [[receiver]]".into(),
            ));
        }
        None => all,
    };
    for name in &chosen {
        let (plan, receiver) = (plan.clone(), name.clone());
        let sent = tokio::task::spawn_blocking(move || plan.test(&receiver)).await;
        let sent = sent.unwrap_or_else(|_| Err("it was not sent; try again".into()));
        sent.map_err(|why| TestAlertError::Failed(format!("{name}: {why}")))?;
    }
    Ok(format!("sent to {}", chosen.join(", ")))
}
