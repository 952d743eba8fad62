//! All of it together: who is watched, polling, history, alerts.

use crate::history::{Batch, History, HistoryError, Keep, NewServer, Writer};
use crate::live::Live;
use crate::poll::{self, Poll, since_1970};
use crate::sample::Millis;
use crate::server::{Origin, Server, ServerId, check_name, check_target};
use crate::sessions::{Privacy, Sessions};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Roll-ups are made, and old rows deleted, so often.
const TIDY: Duration = Duration::from_secs(60);

/// How to monitor.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Whom to ask when, and how fast.
    pub poll: poll::Settings,
    /// How long to remember what.
    pub keep: Keep,
    /// What becomes of the names of players.
    pub privacy: Privacy,
}

/// Why a monitor does not do what it was asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// The database.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// A thread or a socket that cannot be had.
    #[error("cannot poll: {0}")]
    Poll(#[from] io::Error),
    /// A name that is no name for a server.
    #[error("name {0:?}: {1}")]
    Name(String, &'static str),
    /// A target that cannot be asked.
    #[error("target: {0}")]
    Target(String),
    /// Nobody of that name or number is watched.
    #[error("no such server")]
    Unknown,
    /// Only who said that it be watched may take that back.
    #[error("{0} is in the plan: change it there")]
    Planned(String),
}

/// A monitor that runs. Dropping it ends it; [`stop`](Self::stop) writes what is not written yet.
pub struct Monitor {
    live: Arc<Live>,
    history: History,
    poll: Arc<Poll>,
    writer: Writer,
    /// One change of the list after the other.
    changes: Mutex<()>,
    tidier: tokio::task::JoinHandle<()>,
    feeder: tokio::task::JoinHandle<()>,
}

impl Monitor {
    /// Starts to watch what the history knows. Inside a tokio runtime.
    pub async fn start(history: History, settings: Settings) -> Result<Self, MonitorError> {
        let live = Arc::new(Live::default());
        let (poll, mut batches) = Poll::start(settings.poll, live.clone())?;
        let poll = Arc::new(poll);
        let states = history.last_states().await?;
        let states: std::collections::HashMap<ServerId, _> =
            states.into_iter().map(|(id, state, since)| (id, (state, since))).collect();
        for server in history.servers().await? {
            // What was stored was checked then; a protocol may have gone since.
            let _ = poll.watch(server.clone(), states.get(&server.id).copied());
        }
        let now = since_1970();
        for (id, at, asked, answered, players) in history.day(now).await? {
            live.remember(id, at, asked, answered, players);
        }
        let writer = Writer::start(history.clone());
        let feeder = {
            let (live, writer) = (live.clone(), writer.clone());
            let mut sessions = Sessions::new(settings.privacy);
            tokio::spawn(async move {
                while let Some(mut batch) = batches.recv().await {
                    add_sessions(&mut sessions, &live, &mut batch);
                    writer.write(batch).await;
                }
            })
        };
        let tidier = {
            let (history, keep) = (history.clone(), settings.keep);
            tokio::spawn(async move {
                let mut each = tokio::time::interval(TIDY);
                each.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                loop {
                    each.tick().await;
                    // The writer says that the database fails; this is made up for next time.
                    let _ = history.tidy(since_1970(), &keep).await;
                }
            })
        };
        Ok(Self { live, history, poll, writer, changes: Mutex::default(), tidier, feeder })
    }

    /// How things stand.
    pub fn live(&self) -> &Arc<Live> {
        &self.live
    }

    /// What was.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Who asks.
    pub fn poll(&self) -> &Arc<Poll> {
        &self.poll
    }

    /// Who writes.
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Makes the servers of the plan those that are watched for its sake.
    pub async fn follow(&self, plan: &[NewServer]) -> Result<(), MonitorError> {
        let _changes = self.changes.lock().await;
        let known = self.history.servers().await?;
        for old in known.iter().filter(|old| old.origin == Origin::Plan) {
            if !plan.iter().any(|new| new.name == old.name) {
                self.history.remove(old.id).await?;
                self.poll.forget(old.id);
            }
        }
        for new in plan {
            match known.iter().find(|old| old.name == new.name) {
                None => {
                    let server = self.history.add(new).await?;
                    self.watch(server)?;
                }
                Some(old) => {
                    let server = described(old.id, new);
                    if server != *old {
                        self.history.change(&server).await?;
                        self.watch(server)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Watches one more.
    pub async fn add(&self, new: &NewServer) -> Result<Server, MonitorError> {
        check(new)?;
        let _changes = self.changes.lock().await;
        let server = self.history.add(new).await?;
        self.watch(server.clone())?;
        Ok(server)
    }

    /// Puts another description in place of the one of that name, which may be renamed by it.
    pub async fn change(&self, name: &str, new: &NewServer) -> Result<Server, MonitorError> {
        check(new)?;
        let _changes = self.changes.lock().await;
        let server = described(self.own(name)?, new);
        self.history.change(&server).await?;
        self.watch(server.clone())?;
        Ok(server)
    }

    /// Watches one no more. Its history stays as long as any.
    pub async fn remove(&self, name: &str) -> Result<(), MonitorError> {
        let _changes = self.changes.lock().await;
        let id = self.own(name)?;
        self.history.remove(id).await?;
        self.poll.forget(id);
        Ok(())
    }

    /// The number of a server that is not the plan's.
    fn own(&self, name: &str) -> Result<ServerId, MonitorError> {
        let server = self.live.named(name).ok_or(MonitorError::Unknown)?.server;
        match server.origin {
            Origin::Plan => Err(MonitorError::Planned(name.into())),
            Origin::Api => Ok(server.id),
        }
    }

    fn watch(&self, server: Server) -> Result<(), MonitorError> {
        self.poll.watch(server, None).map_err(MonitorError::Target)
    }

    /// Ends it: what came is written, if the database takes it within some seconds.
    pub async fn stop(self) {
        self.tidier.abort();
        self.poll.end();
        let _ = tokio::time::timeout(Duration::from_secs(2), self.feeder).await;
        self.writer.stop().await;
    }
}

fn described(id: ServerId, new: &NewServer) -> Server {
    let NewServer { name, target, group, labels, interval, origin } = new.clone();
    Server { id, name, target, group, labels, interval, origin }
}

fn check(new: &NewServer) -> Result<(), MonitorError> {
    check_name(&new.name).map_err(|problem| MonitorError::Name(new.name.clone(), problem))?;
    check_target(&new.target).map_err(MonitorError::Target)
}

/// Who is on, by what each answer of a batch said.
fn add_sessions(sessions: &mut Sessions, live: &Live, batch: &mut Batch) {
    for sample in &batch.samples {
        let said = live.row(sample.server).and_then(|row| row.said).filter(|said| said.at == sample.at);
        let at: Millis = sample.at;
        match said {
            Some(said) => batch.sessions.extend(sessions.see(sample.server, at, &said.players, said.is_whole)),
            None if !sample.answered => batch.sessions.extend(sessions.silent(sample.server, at)),
            None => {}
        }
    }
}
