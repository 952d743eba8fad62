//! Runs a door: polls the game, sends events to the [`Machine`], and carries out its results.
//!
//! ```text
//!   sockets ─ joins ──────► ┌────────┐ ─► Entrance: the view of the sockets
//!   game ─ polls ─────────► │ Driver │ ─► boards: status and texts of the state
//!   operator ─ commands ──► │        │ ─► Control: start and stop
//!   Control ─ results ────► └────────┘ ─► log, state file, report
//! ```
//!
//! One poll and one operation run at a time. The driver never waits for them: joins, commands and
//! new configurations are handled meanwhile.
//!
//! May import: `crate::command::serve::door`, `crate::command::serve::door::control`,
//! `crate::command::serve::door::record`, `crate::command::serve::door::texts`, `crate::config`,
//! `hailer`.

use super::control::{Control, WakeFacts};
use super::record::{self, Kept};
use super::texts::{self, Shown, TextFacts, in_words};
use super::{DoorCommand, DoorReport, Order, Setup, Shared};
use crate::config::at_port;
use crate::config::door::table::DoorQuery;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hailer::client::ClientConfig;
use hailer::door::machine::{
    Action, Cause, Change, Event, GameAnswer, Hold, Machine, Moment, Sample, Trigger, Visitor,
};
use hailer::door::{LookupSchedule, Request, Requests, State, View};
use hailer::proto::model::printable;
use hailer::respond::source::{ProblemLog, SourceEvent};
use hailer::{Client, Status};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

/// Longest time between polls while the game starts or stops.
const BUSY_INTERVAL: Duration = Duration::from_secs(1);
/// Timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Minimum time between two checks whether the game runs, because panels limit requests. Also the
/// time for which a result is used.
const CONTROL_INTERVAL: Duration = Duration::from_secs(10);
const BUSY_CONTROL_INTERVAL: Duration = Duration::from_secs(5);
/// Time in which a client that was let in before a stop is counted.
const STOP_DELAY: Duration = Duration::from_millis(250);
/// Minimum time between writes of the state file because of a changed status.
const WRITE_INTERVAL: Duration = Duration::from_secs(60);
/// Minimum time between log lines about joins that do not start the game.
const HELD_INTERVAL: Duration = Duration::from_secs(60);
/// Longest name of a player in the log.
const MAX_NAME_CHARS: usize = 64;

/// Result of a poll.
struct Polled {
    asked: Instant,
    /// The addresses of the game, if they were looked up.
    addresses: Option<Vec<SocketAddr>>,
    status: Option<Box<Status>>,
    answer: Option<GameAnswer>,
    /// Whether the game runs, if the control was asked.
    is_running: Option<Option<bool>>,
}

/// End of a start or a stop.
enum Ended {
    Start(Result<(), String>),
    Stop(Result<(), String>),
    /// A client got in before the stop.
    Entered,
}

/// The task of a door.
pub(super) struct Driver {
    shared: Arc<Shared>,
    setup: Setup,
    control: Arc<dyn Control>,
    client: Arc<Client>,
    machine: Machine,
    file: Option<PathBuf>,
    /// The last status of the running game, without players.
    last: Option<Status>,
    written: Option<(Kept, Instant)>,
    /// The status of the game, while it runs.
    running: Option<Box<Status>>,
    shown: Option<Shown>,
    lookups: LookupSchedule,
    /// Whether the game runs, as its control reported.
    is_running: Option<(Instant, Option<bool>)>,
    poll: Option<BoxFuture<'static, Polled>>,
    next_poll: Instant,
    operation: Option<BoxFuture<'static, Ended>>,
    /// Cause of the last start of the game.
    woken_by: Option<Cause>,
    players: Option<u32>,
    held: ProblemLog,
    files: ProblemLog,
}

impl Driver {
    /// Creates the driver, with the content of the state file.
    pub(super) fn new(shared: Arc<Shared>, setup: Setup) -> Self {
        let now = Instant::now();
        let file = record::path(&setup.config.state_file, &shared.name);
        let kept = match file.as_deref().map(record::read) {
            Some(Ok(kept)) => kept,
            Some(Err(problem)) => {
                warn!(
                    "door {}: state file: {problem}; starting without it",
                    shared.name
                );
                Kept::default()
            }
            None => Kept::default(),
        };
        let machine = Machine::new(setup.config.machine.clone(), kept.record, now.into_std());
        let control = setup.control(&shared.name);
        let lookups = LookupSchedule::new(setup.config.game.literal(), now.into_std());
        let mut driver = Self {
            shared,
            setup,
            control,
            client: Arc::new(Client::new(ClientConfig::default())),
            machine,
            file,
            last: kept.status,
            written: None,
            running: None,
            shown: None,
            lookups,
            is_running: None,
            poll: None,
            next_poll: now,
            operation: None,
            woken_by: None,
            players: None,
            held: ProblemLog::new(HELD_INTERVAL, 1),
            files: ProblemLog::new(HELD_INTERVAL, 1),
        };
        driver.configure();
        driver
    }

    /// Runs until the task is dropped.
    pub(super) async fn run(mut self, mut requests: Requests, mut orders: mpsc::Receiver<Order>) {
        loop {
            let now = Instant::now();
            if self.poll.is_none() && now >= self.next_poll {
                self.poll = Some(self.start_poll());
            }
            let poll = async {
                match &mut self.poll {
                    Some(poll) => Some(poll.await),
                    None => {
                        sleep_until(self.next_poll).await;
                        None
                    }
                }
            };
            let operation = async {
                match &mut self.operation {
                    Some(operation) => operation.await,
                    None => std::future::pending().await,
                }
            };
            let deadline = self.machine.deadline().map(Instant::from_std);
            let tick = async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(request) = requests.recv() => self.requested(request),
                Some(order) = orders.recv() => self.obey(order),
                polled = poll => {
                    if let Some(polled) = polled {
                        self.poll = None;
                        self.polled(polled);
                    }
                }
                ended = operation => {
                    self.operation = None;
                    self.handle(match ended {
                        Ended::Start(result) => Event::StartEnded(result),
                        Ended::Stop(result) => Event::StopEnded(result),
                        Ended::Entered => Event::Entered,
                    });
                }
                () = tick => self.handle(Event::Tick),
            }
        }
    }

    /// Applies the current setup to entrance and boards.
    fn configure(&mut self) {
        let config = &self.setup.config;
        let entrance = &self.shared.entrance;
        entrance.set_wakes_on_traffic(config.wakes_on_traffic);
        self.shown = None;
        self.show();
        self.publish();
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Configure(setup) => {
                let is_same_game = setup.config.game == self.setup.config.game;
                self.setup = *setup;
                self.control = self.setup.control(&self.shared.name);
                self.file = record::path(&self.setup.config.state_file, &self.shared.name);
                self.written = None;
                self.machine.configure(self.setup.config.machine.clone());
                if !is_same_game {
                    let game = self.setup.config.game.literal();
                    self.lookups = LookupSchedule::new(game, Instant::now().into_std());
                }
                // The query may be another one.
                self.poll = None;
                self.next_poll = Instant::now();
                self.configure();
                self.report();
            }
            Order::Command(command, reply) => {
                let can_stop = command != DoorCommand::Sleep || self.control.can_stop();
                let result = match self.machine.is_checked() {
                    _ if !can_stop => {
                        Err("the configuration has no way to stop the game; add stop".to_owned())
                    }
                    true => {
                        let before = self.machine.state();
                        self.handle(command.event());
                        Ok(command.result(before, self.machine.state()))
                    }
                    false => Err("the game was not polled yet; try again".to_owned()),
                };
                // The operator may be gone.
                let _ = reply.send(result);
            }
        }
    }

    fn requested(&mut self, request: Request) {
        match request {
            Request::Join { source, attempt } => {
                self.handle(Event::Join(Visitor { source, attempt }));
            }
            Request::Unreachable { game } if self.lookups.address() == Some(game) => {
                let now = Instant::now();
                self.lookups.record_unreachable(now.into_std());
                // Check now whether it ended. Do not wait for the next poll.
                self.next_poll = self.next_poll.min(now + BUSY_INTERVAL);
            }
            _ => {}
        }
    }

    /// Returns a poll of the game.
    fn start_poll(&mut self) -> BoxFuture<'static, Polled> {
        let asked = Instant::now();
        let game = self.setup.config.game.clone();
        let is_lookup_due = game.literal().is_none() && self.lookups.due() <= asked.into_std();
        let known = self.lookups.address();
        let query = self.setup.config.query.clone();
        let client = self.client.clone();
        let interval = match self.machine.state() {
            State::Starting | State::Stopping => BUSY_CONTROL_INTERVAL,
            _ => CONTROL_INTERVAL,
        };
        let is_control_due = self
            .is_running
            .is_none_or(|(at, _)| asked - at >= interval || at.into_std() < self.machine.since());
        let control = is_control_due.then(|| self.control.clone());
        let poll = async move {
            let addresses = match is_lookup_due {
                // Without a result, the address in use stays.
                true => Some(game.lookup().await.unwrap_or_default()),
                false => None,
            };
            let address = known.or(addresses.as_ref().and_then(|found| found.first().copied()));
            let mut polled = Polled {
                asked,
                addresses,
                status: None,
                answer: None,
                is_running: None,
            };
            match query {
                DoorQuery::Target(target) => {
                    if let Ok(answer) = client.query(&*target).await {
                        let players = players(&answer.status);
                        polled.answer = Some(GameAnswer { players });
                        polled.status = Some(answer.status);
                    }
                }
                DoorQuery::Tcp => {
                    if let Some(address) = address
                        && let Ok(Ok(_)) =
                            timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await
                    {
                        polled.answer = Some(GameAnswer { players: None });
                    }
                }
            }
            if let Some(control) = control.filter(|_| polled.answer.is_none()) {
                polled.is_running = Some(control.is_running().await);
            }
            polled
        };
        poll.boxed()
    }

    fn polled(&mut self, polled: Polled) {
        let now = Instant::now();
        if let Some(found) = &polled.addresses {
            let before = self.lookups.address();
            self.lookups.record_lookup(Some(found), now.into_std());
            if self.lookups.address() != before {
                self.show();
            }
        }
        if polled.answer.is_none() && self.machine.state() != State::Asleep {
            // It may have another address now.
            self.lookups.record_unreachable(now.into_std());
        }
        if let Some(is_running) = polled.is_running {
            self.is_running = Some((polled.asked, is_running));
        }
        let since = self.machine.since();
        let known = self.is_running.filter(|(at, _)| {
            at.into_std() >= since && polled.asked.saturating_duration_since(*at) < CONTROL_INTERVAL
        });
        self.players = polled.answer.and_then(|answer| answer.players);
        if let Some(status) = polled.status {
            self.running = Some(status);
        }
        self.handle(Event::Polled(Sample {
            asked: polled.asked.into_std(),
            answer: polled.answer,
            is_running: known.and_then(|(_, is_running)| is_running),
            visits: self.shared.entrance.visits(),
        }));
        if self.machine.state() == State::Running
            && let Some(status) = &self.running
        {
            self.last = Some(texts::without_players(status));
            let is_due = |at: &Instant| now - *at >= WRITE_INTERVAL;
            if self.written.as_ref().is_none_or(|(_, at)| is_due(at)) {
                self.write();
            }
        }
        // Some texts show a time.
        self.publish();
        let every = self.setup.config.machine.every;
        let wait = match self.machine.state() {
            State::Starting | State::Stopping => every.min(BUSY_INTERVAL),
            _ => every,
        };
        self.next_poll = (polled.asked + wait).max(now);
        self.report();
    }

    /// Sends an event to the machine, and carries out the result.
    fn handle(&mut self, event: Event) {
        let now = Moment {
            at: Instant::now().into_std(),
            minute: super::local_minute(),
        };
        let before = self.machine.state();
        let is_first = !self.machine.is_checked();
        let mut actions = Vec::new();
        self.machine.handle(now, event, &mut actions);
        if is_first && self.machine.is_checked() && self.machine.state() == State::Asleep {
            info!("door {}: asleep", self.shared.name);
        }
        let mut operation = None;
        for action in actions {
            match action {
                Action::Changed(change) => self.changed(&change),
                Action::Start(cause) => {
                    self.woken_by = Some(cause.clone());
                    operation = Some(Err(cause));
                }
                Action::Stop(trigger) => operation = Some(Ok(trigger)),
                Action::Held(visitor, hold) => self.held(&visitor, hold),
            }
        }
        if self.machine.state() != before {
            if self.machine.state() != State::Running {
                self.running = None;
                self.players = None;
            }
            // Sockets first: after this, they let no client in.
            self.show();
            self.publish();
            self.write();
            self.next_poll = self.next_poll.min(Instant::now() + BUSY_INTERVAL);
            self.report();
        }
        match operation {
            Some(Ok(trigger)) => self.stop(trigger),
            Some(Err(cause)) => self.start(cause),
            None => {}
        }
    }

    fn start(&mut self, cause: Cause) {
        let facts = match cause {
            Cause::Join(Visitor { source, attempt }) => WakeFacts::Join { source, attempt },
            Cause::Operator => WakeFacts::Request,
            Cause::Crash => WakeFacts::Crash,
        };
        let control = self.control.clone();
        let start = async move { Ended::Start(control.start(&facts).await) };
        self.operation = Some(start.boxed());
    }

    fn stop(&mut self, trigger: Trigger) {
        let control = self.control.clone();
        let entrance = self.shared.entrance.clone();
        let stop = async move {
            if trigger == Trigger::Idle {
                // A thread of a socket may have let a client in, and not counted it yet.
                tokio::time::sleep(STOP_DELAY).await;
                if entrance.visits() > 0 {
                    return Ended::Entered;
                }
            }
            Ended::Stop(control.stop().await)
        };
        self.operation = Some(stop.boxed());
    }

    /// Shows the state to the sockets.
    fn show(&self) {
        self.shared.entrance.show(View {
            state: self.machine.state(),
            game: self.lookups.address(),
        });
    }

    fn facts(&self) -> TextFacts {
        let now = Instant::now().into_std();
        let player = match &self.woken_by {
            Some(Cause::Join(visitor)) => visitor.attempt.name.to_string(),
            _ => String::new(),
        };
        TextFacts {
            state: self.machine.state(),
            lasted: now.saturating_duration_since(self.machine.since()),
            last_start: self.machine.record(now).last_start,
            pause: self.machine.pause(now),
            player,
        }
    }

    /// Publishes status and texts of the state, if they changed.
    fn publish(&mut self) {
        let facts = self.facts();
        let mut shown = texts::shown(&self.setup.config, self.last.as_ref(), &facts);
        if facts.state == State::Running
            && let Some(status) = &self.running
        {
            shown.status = (**status).clone();
            shown.status.deviations.clear();
            shown.status.address = None;
        }
        if self.shown.as_ref() == Some(&shown) {
            return;
        }
        for (address, board) in &self.setup.boards {
            let status = at_port(shown.status.clone(), address.port());
            // Invalid options would have failed at the start.
            let _ = board.publish_with_kick(&status, &shown.kick);
        }
        self.shared.set_shown(&shown);
        self.shown = Some(shown);
    }

    /// Writes the state file, if its content changed.
    fn write(&mut self) {
        let Some(path) = &self.file else {
            return;
        };
        let kept = Kept {
            record: self.machine.record(Instant::now().into_std()),
            status: self.last.clone(),
        };
        let event = match record::write(path, &kept) {
            Ok(()) => self.files.recovered("written again".into()),
            Err(problem) => Some(self.files.event(problem, Instant::now().into_std())),
        };
        self.written = Some((kept, Instant::now()));
        match event {
            Some(SourceEvent::Failed(line)) => {
                warn!(
                    "door {}: state file: {line}; going on without it",
                    self.shared.name
                );
            }
            Some(SourceEvent::Recovered(Some(line))) => {
                info!("door {}: state file: {line}", self.shared.name);
            }
            _ => {}
        }
    }

    fn report(&self) {
        let now = Instant::now().into_std();
        let record = self.machine.record(now);
        self.shared.set_report(DoorReport {
            name: self.shared.name.clone(),
            state: self.machine.state(),
            since: self.machine.since(),
            woken_by: self.woken_by.clone(),
            record,
            reason: self.machine.reason().map(str::to_owned),
            players: self.players,
        });
    }

    fn held(&mut self, visitor: &Visitor, hold: Hold) {
        let why = match hold {
            Hold::Pause(left) => format!("a pause of {} is left after a failure", in_words(left)),
            Hold::Limit => "the limit of starts is reached".to_owned(),
        };
        let line = format!("{} joins, and does not start the game: {why}", who(visitor));
        let now = Instant::now().into_std();
        if let SourceEvent::Failed(line) = self.held.event(line, now) {
            warn!("door {}: {line}", self.shared.name);
        }
    }

    /// Logs a change in one line.
    fn changed(&self, change: &Change) {
        let name = &self.shared.name;
        let (line, is_bad) = line_of(change, self.setup.config.machine.idle);
        if is_bad {
            warn!("door {name}: {line}");
        } else {
            info!("door {name}: {line}");
        }
        self.setup.notifier.door(name, change.to, &line, is_bad);
    }
}

/// Returns the player, command or crash that started a game.
pub(super) fn waker(cause: &Cause) -> String {
    match cause {
        Cause::Join(visitor) => who(visitor),
        Cause::Operator => "the operator".to_owned(),
        Cause::Crash => "a restart after a crash".to_owned(),
    }
}

/// Returns the log line of a change, and whether it is a problem.
pub(super) fn line_of(change: &Change, idle: Option<Duration>) -> (String, bool) {
    let lasted = in_words(change.lasted);
    let was = match change.from {
        State::Asleep => format!("asleep for {lasted}"),
        State::Starting => format!("starting for {lasted}"),
        State::Running => format!("it ran for {lasted}"),
        State::Stopping => format!("stopping for {lasted}"),
        State::Failed => format!("not running for {lasted}"),
    };
    let reason = change.reason.as_deref().unwrap_or_default();
    let who = match &change.cause {
        Some(Cause::Join(visitor)) => format!("{} joins", who(visitor)),
        Some(Cause::Operator) => "the operator wakes it".to_owned(),
        Some(Cause::Crash) => "the pause after the crash is over".to_owned(),
        None => "another program starts it".to_owned(),
    };
    let idle = idle.map(in_words).unwrap_or_default();
    match change.trigger {
        Trigger::Join | Trigger::Wake | Trigger::Restart | Trigger::Runs => {
            (format!("starting: {who} ({was})"), false)
        }
        Trigger::Answers if change.from == State::Starting => {
            (format!("running after {lasted}"), false)
        }
        Trigger::Answers => (
            format!("running: another program started it ({was})"),
            false,
        ),
        Trigger::StartFailed | Trigger::StartTimedOut | Trigger::Ended => {
            (format!("the start failed: {reason}"), true)
        }
        Trigger::Idle => (format!("stopping: no players for {idle} ({was})"), false),
        Trigger::Sleep => (
            format!("stopping: the operator puts it to sleep ({was})"),
            false,
        ),
        Trigger::Entered => (
            "running: a client connected before the stop".to_owned(),
            false,
        ),
        Trigger::Gone => (format!("failed: {reason} ({was})"), true),
        Trigger::Stopped => (format!("asleep after {lasted}"), false),
        Trigger::StopFailed => (format!("running: the stop failed: {reason}"), true),
        Trigger::StopTimedOut => (format!("failed: {reason}"), true),
        _ => (format!("{} ({was})", change.to.name()), false),
    }
}

/// Returns a client for the log, in one line without control characters.
fn who(visitor: &Visitor) -> String {
    let name = printable(&visitor.attempt.name);
    let name: String = name.chars().take(MAX_NAME_CHARS).collect();
    match name.trim() {
        "" => format!("a client at {}", visitor.source),
        name => format!("{name:?} at {}", visitor.source),
    }
}

/// Returns the number of players without bots. `None`: unknown.
fn players(status: &Status) -> Option<u32> {
    let players = &status.players;
    let listed = i64::try_from(players.list.len()).unwrap_or(i64::MAX);
    let online = match players.online {
        // Some servers report a negative number if they hide it.
        Some(online) if online < 0 => return None,
        Some(online) => online.max(0),
        None if listed > 0 => listed,
        None => return None,
    };
    let bots = players.bots.unwrap_or(0).clamp(0, online);
    Some(u32::try_from(online - bots).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_is_not_0() {
        let count = |online, bots, listed: usize| {
            let mut status = Status::default();
            status.players.list = vec![hailer::proto::Player::default(); listed];
            status.players.online = online;
            status.players.bots = bots;
            players(&status)
        };
        assert_eq!(count(Some(0), None, 0), Some(0));
        assert_eq!(count(Some(3), None, 0), Some(3));
        assert_eq!(count(Some(3), Some(3), 0), Some(0));
        assert_eq!(count(Some(3), Some(9), 0), Some(0));
        assert_eq!(count(Some(3), Some(-1), 0), Some(3));
        assert_eq!(count(None, None, 2), Some(2));
        assert_eq!(count(None, None, 0), None);
        assert_eq!(count(Some(-1), None, 0), None);
    }

    #[test]
    fn names_in_the_log_are_one_line() {
        let visitor = |name: &str| Visitor {
            source: "192.0.2.7:50000".parse().unwrap(),
            attempt: hailer::proto::protocol::JoinAttempt {
                name: name.into(),
                ..Default::default()
            },
        };
        assert_eq!(who(&visitor("Alice")), "\"Alice\" at 192.0.2.7:50000");
        assert_eq!(who(&visitor("")), "a client at 192.0.2.7:50000");
        let hostile = who(&visitor("a\n\x1b[31mb"));
        assert!(!hostile.contains(['\n', '\x1b']), "{hostile:?}");
    }
}
