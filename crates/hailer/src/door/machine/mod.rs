//! The states of a door, without I/O: events go in, actions come out.
//!
//! ```text
//!   joins, polls, commands, results ─► Machine ─► start, stop, changes of the state
//! ```
//!
//! The states and their changes are the rows of [`TABLE`]. This module finds out which
//! [`Trigger`] an event is:
//!
//! - A player count is 0 only if a fresh answer of the game has 0. Unknown is not 0, and neither
//!   is a count that is older than two polls.
//! - The time without players starts again after two lost polls in a row, and after a longer gap
//!   such as that of a suspended machine.
//! - One lost poll is no crash, and neither is a silence while clients are passed on: see
//!   [`Trigger::Gone`].
//! - One start or stop runs at a time. The next one waits for its end.
//! - After a failed start or a crash, joins start the game only after a pause: 10 s, doubled each
//!   time, at most 10 min. It is 10 s again after an orderly stop, or 10 min of running.
//!
//! Memory: the starts of the last hour, at most [`DoorLimits::total`].
//!
//! May import: `crate::door`, `crate::prefix`, `hailer_proto`.

mod limits;
mod table;
#[cfg(test)]
mod tests;

pub use self::limits::DoorLimits;
pub use self::table::{Effect, Row, TABLE, Trigger};

use self::limits::RecentStarts;
use super::State;
use hailer_proto::protocol::JoinAttempt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// Pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// Longest pause after a failure.
const MAX_PAUSE: Duration = Duration::from_secs(600);
/// Time of running after which earlier failures do not count.
const STABLE: Duration = Duration::from_secs(600);
/// Time after which a stop has failed.
const STOP_TIMEOUT: Duration = Duration::from_secs(300);
/// Unanswered polls in a row after which a game that was not stopped may be gone.
const GONE_POLLS: u32 = 3;
/// Silence after which a game is gone although clients are passed on to it.
const GONE_WITH_VISITS: Duration = Duration::from_secs(60);
/// Unanswered polls in a row after which a stopped game is gone.
const STOPPED_POLLS: u32 = 2;
/// Polls that find no running game after which a start has failed, and the least time between them:
/// the first ones may be earlier than the process.
const ENDED_POLLS: u32 = 3;
const ENDED_TIME: Duration = Duration::from_secs(15);
/// Unanswered polls in a row after which the time without players starts again.
const LOST_POLLS: u32 = 2;
/// Minutes of a day.
const DAY: u16 = 24 * 60;

/// Settings of a door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineConfig {
    /// Time without players after which the game is stopped. `None`: never.
    pub idle: Option<Duration>,
    /// Time after a start in which the game is not stopped.
    pub min_uptime: Duration,
    /// Times of the day in which the game is not stopped.
    pub keep: Vec<KeepWindow>,
    /// Time in which a started game has to answer.
    pub start_timeout: Duration,
    /// Time between polls.
    pub every: Duration,
    /// Whether the game is started again after a crash.
    pub restarts: bool,
    /// Limits of starts by joins.
    pub limits: DoorLimits,
}

impl Default for MachineConfig {
    fn default() -> Self {
        Self {
            idle: None,
            min_uptime: Duration::from_secs(180),
            keep: Vec::new(),
            start_timeout: Duration::from_secs(300),
            every: Duration::from_secs(5),
            restarts: false,
            limits: DoorLimits::default(),
        }
    }
}

/// A time of each day, such as `18:00-23:00`. It may include midnight, as in `22:00-02:00`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepWindow {
    /// First minute of the day.
    from: u16,
    /// Minute of the day after the last one.
    to: u16,
}

impl KeepWindow {
    /// Returns whether it contains a minute of the day.
    pub fn contains(self, minute: u16) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&minute)
        } else {
            minute >= self.from || minute < self.to
        }
    }
}

impl FromStr for KeepWindow {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected two times such as \"18:00-23:00\"";
        let minute = |text: &str| {
            let (hour, minute) = text.trim().split_once(':')?;
            let is_number = |text: &str, length: std::ops::RangeInclusive<usize>| {
                length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
            };
            if !is_number(hour, 1..=2) || !is_number(minute, 2..=2) {
                return None;
            }
            let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
            let total = hour * 60 + minute;
            (minute < 60 && total <= DAY).then_some(total)
        };
        let (from, to) = text.split_once('-').ok_or(EXPECTED)?;
        match (minute(from), minute(to)) {
            (Some(from), Some(to)) if from != to && from < DAY => Ok(Self { from, to }),
            (Some(_), Some(_)) => Err("the window is empty; \"00:00-24:00\" is the whole day"),
            _ => Err(EXPECTED),
        }
    }
}

/// A point in time.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Time of a clock that never goes back.
    pub at: Instant,
    /// Minute of the local day, below 1,440.
    pub minute: u16,
}

/// A client that tries to join.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visitor {
    /// Verified address.
    pub source: SocketAddr,
    /// Data that the client sent, unverified.
    pub attempt: JoinAttempt,
}

/// Reason for a start of the game.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A client that tries to join.
    Join(Visitor),
    /// The operator.
    Operator,
    /// The end of the pause after a crash.
    Crash,
}

/// Result of a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When the poll began.
    pub asked: Instant,
    /// The answer. `None`: the game did not answer.
    pub answer: Option<GameAnswer>,
    /// Whether the game runs, as its control reports. `None`: unknown.
    pub is_running: Option<bool>,
    /// Clients that are passed on to the game now.
    pub visits: u64,
}

/// Answer of a game.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GameAnswer {
    /// Players online, without bots. `None`: unknown.
    pub players: Option<u32>,
}

/// An input of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client of a verified address tries to join, and may wake the game.
    Join(Visitor),
    /// The operator wakes the game.
    Wake,
    /// The operator puts the game to sleep, also if players are online.
    Sleep,
    /// A poll ended.
    Polled(Sample),
    /// The start ended. An error has the reason.
    StartEnded(Result<(), String>),
    /// The stop ended. An error has the reason.
    StopEnded(Result<(), String>),
    /// A client got in after the last poll, and the stop did not begin yet.
    Entered,
    /// Time passes: see [`Machine::deadline`].
    Tick,
}

/// An output of the machine, which its owner carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Start the game, and report the end as [`Event::StartEnded`].
    Start(Cause),
    /// Stop the game, and report the end as [`Event::StopEnded`]. With [`Trigger::Idle`], check
    /// first that no client got in, and report [`Event::Entered`] otherwise.
    Stop(Trigger),
    /// The state changed.
    Changed(Change),
    /// A client was not allowed to start the game now.
    Held(Visitor, Hold),
}

/// A change of the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// State before.
    pub from: State,
    /// State after.
    pub to: State,
    /// Trigger of the change.
    pub trigger: Trigger,
    /// Reason for the start, if the game is started.
    pub cause: Option<Cause>,
    /// Time in the state before.
    pub lasted: Duration,
    /// Reason of a failure.
    pub reason: Option<String>,
}

/// Why a join does not start the game.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The pause after a failure lasts for this time.
    Pause(Duration),
    /// The limit of starts is reached.
    Limit,
}

/// Counts and times of a door since it was set up. They may be kept across restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DoorRecord {
    /// Starts.
    pub starts: u64,
    /// Starts that failed.
    pub failed_starts: u64,
    /// Ends of a running game that the door did not ask for.
    pub crashes: u64,
    /// Stops because of [`MachineConfig::idle`].
    pub idle_stops: u64,
    /// Joins that were held back by a pause or a limit.
    pub held_joins: u64,
    /// Time in [`State::Asleep`], without the current state.
    pub asleep: Duration,
    /// Time between the last successful start and its first answer.
    pub last_start: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Start,
    Stop,
}

/// State machine of a door.
#[derive(Debug)]
pub struct Machine {
    config: MachineConfig,
    state: State,
    since: Instant,
    record: DoorRecord,
    /// Reason of the last failure, until the game runs or sleeps.
    reason: Option<String>,
    /// Whether a poll ended since the machine exists.
    is_checked: bool,
    operation: Option<Operation>,
    /// The operation after that.
    queued: Option<(Operation, Trigger, Option<Cause>)>,
    /// Start as soon as the state is known to be [`State::Asleep`].
    wanted: Option<Cause>,
    /// When the start began, if the game did not answer since.
    started: Option<Instant>,
    /// Error of the current stop.
    stop_error: Option<String>,
    /// When the last answered poll began.
    answered: Option<Instant>,
    /// Since when there are no players.
    empty_since: Option<Instant>,
    /// Unanswered polls in a row, and when the first one began.
    silent_polls: u32,
    silent_since: Option<Instant>,
    /// Polls that found no running game, without one that found it, and when the first one began.
    ended_polls: u32,
    ended_since: Option<Instant>,
    /// Failures in a row.
    failures: u32,
    paused_until: Option<Instant>,
    /// Whether a restart follows the pause.
    is_restart_due: bool,
    starts: RecentStarts,
}

impl Machine {
    /// Creates a machine for a game that seems to sleep, until the first poll. Joins before it wait
    /// for its end.
    pub fn new(config: MachineConfig, record: DoorRecord, now: Instant) -> Self {
        Self {
            config,
            state: State::Asleep,
            since: now,
            record,
            reason: None,
            is_checked: false,
            operation: None,
            queued: None,
            wanted: None,
            started: None,
            stop_error: None,
            answered: None,
            empty_since: None,
            silent_polls: 0,
            silent_since: None,
            ended_polls: 0,
            ended_since: None,
            failures: 0,
            paused_until: None,
            is_restart_due: false,
            starts: RecentStarts::default(),
        }
    }

    /// Replaces the settings. The state stays.
    pub fn configure(&mut self, config: MachineConfig) {
        self.config = config;
    }

    /// Returns the state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns since when the state lasts.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Returns whether a poll has shown whether the game runs.
    pub fn is_checked(&self) -> bool {
        self.is_checked
    }

    /// Returns the reason of the last failure, until the game runs or sleeps.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Returns the counts and times of the door. [`DoorRecord::asleep`] includes the current state.
    pub fn record(&self, now: Instant) -> DoorRecord {
        let mut record = self.record;
        if self.state == State::Asleep {
            record.asleep += now.saturating_duration_since(self.since);
        }
        record
    }

    /// Returns the rest of the pause in which joins do not start the game.
    pub fn pause(&self, now: Instant) -> Option<Duration> {
        let left = self.paused_until?.saturating_duration_since(now);
        (self.state == State::Failed && !left.is_zero()).then_some(left)
    }

    /// Returns when the next [`Event::Tick`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Starting => Some(self.since + self.config.start_timeout),
            State::Stopping => Some(self.since + STOP_TIMEOUT),
            State::Failed if self.is_restart_due => self.paused_until,
            State::Asleep | State::Running | State::Failed => None,
        }
    }

    /// Handles an event. Appends the actions for it, in order.
    pub fn handle(&mut self, now: Moment, event: Event, out: &mut Vec<Action>) {
        match event {
            Event::Join(visitor) => self.join(visitor, now.at, out),
            Event::Wake => self.ask(Trigger::Wake, Cause::Operator, now.at, out),
            Event::Sleep => {
                self.wanted = None;
                self.fire(Trigger::Sleep, None, None, now.at, out);
            }
            Event::Polled(sample) => self.polled(&sample, now, out),
            Event::StartEnded(result) => self.ended(Operation::Start, result, now.at, out),
            Event::StopEnded(result) => self.ended(Operation::Stop, result, now.at, out),
            Event::Entered => {
                // The stop does not begin.
                if self.operation == Some(Operation::Stop) && self.state == State::Stopping {
                    self.operation = None;
                    self.fire(Trigger::Entered, None, None, now.at, out);
                }
            }
            Event::Tick => self.tick(now.at, out),
        }
    }

    fn join(&mut self, visitor: Visitor, now: Instant, out: &mut Vec<Action>) {
        if table::find(self.state, Trigger::Join).is_none() || self.wanted.is_some() {
            return;
        }
        let hold = match self.pause(now) {
            Some(left) => Some(Hold::Pause(left)),
            None => {
                let ip = visitor.source.ip();
                let is_within = self.starts.admit(ip, self.config.limits, now);
                (!is_within).then_some(Hold::Limit)
            }
        };
        if let Some(hold) = hold {
            self.record.held_joins += 1;
            out.push(Action::Held(visitor, hold));
            return;
        }
        self.ask(Trigger::Join, Cause::Join(visitor), now, out);
    }

    /// Starts the game, now or later.
    fn ask(&mut self, trigger: Trigger, cause: Cause, now: Instant, out: &mut Vec<Action>) {
        if self.state == State::Asleep && !self.is_checked {
            self.wanted = Some(cause);
        } else {
            self.fire(trigger, Some(cause), None, now, out);
        }
    }

    fn polled(&mut self, sample: &Sample, now: Moment, out: &mut Vec<Action>) {
        if sample.asked < self.since {
            // The poll began before the last change of the state.
            return;
        }
        let is_first = !std::mem::replace(&mut self.is_checked, true);
        if sample.visits > 0 {
            self.empty_since = None;
        }
        match sample.answer {
            Some(answer) => self.answered(sample, answer, now, out),
            None => self.unanswered(sample, is_first, now.at, out),
        }
        if self.state == State::Asleep && self.wanted.is_some() {
            self.start_wanted(now.at, out);
        }
    }

    fn answered(
        &mut self,
        sample: &Sample,
        answer: GameAnswer,
        now: Moment,
        out: &mut Vec<Action>,
    ) {
        let every = self.config.every;
        let last = self.answered.replace(sample.asked);
        let is_continuous = self.silent_polls < LOST_POLLS
            && last.is_some_and(|last| sample.asked.saturating_duration_since(last) <= every * 3);
        self.silent_polls = 0;
        self.silent_since = None;
        self.ended_polls = 0;
        self.ended_since = None;
        match self.state {
            State::Stopping => {
                if self.operation.is_none()
                    && let Some(reason) = self.stop_error.take()
                {
                    self.fire(Trigger::StopFailed, None, Some(reason), now.at, out);
                }
                return;
            }
            State::Running => {}
            State::Asleep | State::Starting | State::Failed => {
                self.fire(Trigger::Answers, None, None, now.at, out);
            }
        }
        let uptime = now.at.saturating_duration_since(self.since);
        if uptime >= STABLE {
            self.failures = 0;
        }
        let is_fresh = now.at.saturating_duration_since(sample.asked) <= every * 2;
        if answer.players != Some(0) || sample.visits > 0 || !is_fresh {
            self.empty_since = None;
            return;
        }
        if !is_continuous {
            self.empty_since = None;
        }
        let empty_since = *self.empty_since.get_or_insert(sample.asked);
        let empty = now.at.saturating_duration_since(empty_since);
        // A stop that waits for the end of a slow start would rely on old facts.
        if self.config.idle.is_some_and(|idle| empty >= idle)
            && self.operation.is_none()
            && uptime >= self.config.min_uptime
            && !self
                .config
                .keep
                .iter()
                .any(|keep| keep.contains(now.minute))
        {
            self.fire(Trigger::Idle, None, None, now.at, out);
        }
    }

    fn unanswered(&mut self, sample: &Sample, is_first: bool, now: Instant, out: &mut Vec<Action>) {
        self.silent_polls += 1;
        let silent_since = *self.silent_since.get_or_insert(sample.asked);
        let silence = now.saturating_duration_since(silent_since);
        match sample.is_running {
            Some(false) if self.operation.is_none() => {
                self.ended_polls += 1;
                self.ended_since.get_or_insert(sample.asked);
            }
            Some(true) => {
                self.ended_polls = 0;
                self.ended_since = None;
            }
            _ => {}
        }
        match self.state {
            State::Asleep => {
                let is_sure = is_first || self.silent_polls >= 2;
                if is_sure && sample.is_running == Some(true) {
                    self.fire(Trigger::Runs, None, None, now, out);
                }
            }
            State::Starting => {
                let ended = self.ended_since.map(|at| now.saturating_duration_since(at));
                let is_ended = ended.is_some_and(|time| time >= ENDED_TIME);
                if is_ended && self.ended_polls >= ENDED_POLLS {
                    let reason = "the game ended before it answered".into();
                    self.fire(Trigger::Ended, None, Some(reason), now, out);
                }
            }
            State::Running => {
                let is_gone = match sample.is_running {
                    Some(false) => true,
                    Some(true) => silence >= self.config.start_timeout,
                    None => sample.visits == 0 || silence >= GONE_WITH_VISITS,
                };
                if is_gone && self.silent_polls >= GONE_POLLS {
                    let reason = match sample.is_running {
                        Some(true) => "the game runs, but does not answer",
                        _ => "the game ended by itself",
                    };
                    self.fire(Trigger::Gone, None, Some(reason.into()), now, out);
                }
            }
            State::Stopping => {
                let is_ended = sample.is_running == Some(false)
                    || self.silent_polls >= STOPPED_POLLS && sample.is_running.is_none();
                if is_ended && self.operation.is_none() {
                    self.fire(Trigger::Stopped, None, None, now, out);
                }
            }
            State::Failed => {}
        }
    }

    fn tick(&mut self, now: Instant, out: &mut Vec<Action>) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        match self.state {
            State::Starting => {
                let seconds = self.config.start_timeout.as_secs();
                let reason = format!("the game does not answer {seconds} s after the start");
                self.fire(Trigger::StartTimedOut, None, Some(reason), now, out);
            }
            State::Stopping => {
                let minutes = STOP_TIMEOUT.as_secs() / 60;
                let (trigger, what) = match self.silent_polls {
                    0 => (Trigger::StopFailed, "answers"),
                    _ => (Trigger::StopTimedOut, "runs"),
                };
                let reason = format!("the game still {what} {minutes} min after the stop");
                self.fire(trigger, None, Some(reason), now, out);
            }
            State::Failed => self.fire(Trigger::Restart, Some(Cause::Crash), None, now, out),
            State::Asleep | State::Running => {}
        }
    }

    /// Handles the end of an operation.
    fn ended(
        &mut self,
        ended: Operation,
        result: Result<(), String>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        if self.operation != Some(ended) {
            return;
        }
        self.operation = None;
        if let Some((operation, trigger, cause)) = self.queued.take() {
            // The operation that ended belongs to an earlier state.
            self.perform((operation, trigger), cause, now, out);
            return;
        }
        let Err(reason) = result else {
            return;
        };
        match (ended, self.state) {
            (Operation::Start, State::Starting) => {
                self.fire(Trigger::StartFailed, None, Some(reason), now, out);
            }
            // Whether the game still answers decides.
            (Operation::Stop, State::Stopping) => self.stop_error = Some(reason),
            _ => {}
        }
    }

    /// Goes to the next state of the table, if the trigger has a row.
    fn fire(
        &mut self,
        trigger: Trigger,
        cause: Option<Cause>,
        reason: Option<String>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        let Some(row) = table::find(self.state, trigger) else {
            return;
        };
        if row.effect == Effect::StartLater {
            self.wanted = self.wanted.take().or(cause);
            return;
        }
        let lasted = now.saturating_duration_since(self.since);
        self.enter(row, reason.as_deref(), now);
        out.push(Action::Changed(Change {
            from: row.from,
            to: row.to,
            trigger,
            cause: cause.clone(),
            lasted,
            reason,
        }));
        match row.effect {
            Effect::Start => {
                self.record.starts += 1;
                self.perform((Operation::Start, trigger), cause, now, out);
            }
            Effect::Stop => self.perform((Operation::Stop, trigger), None, now, out),
            Effect::None | Effect::StartLater => {}
        }
        if self.state == State::Asleep {
            self.start_wanted(now, out);
        }
    }

    /// Starts the game if a start was requested while it was not possible.
    fn start_wanted(&mut self, now: Instant, out: &mut Vec<Action>) {
        if let Some(cause) = self.wanted.take() {
            let trigger = match cause {
                Cause::Join(_) => Trigger::Join,
                Cause::Operator | Cause::Crash => Trigger::Wake,
            };
            self.fire(trigger, Some(cause), None, now, out);
        }
    }

    /// Sets the state and the fields that depend on it.
    fn enter(&mut self, row: &Row, reason: Option<&str>, now: Instant) {
        if row.from == State::Asleep {
            self.record.asleep += now.saturating_duration_since(self.since);
        }
        self.state = row.to;
        self.since = now;
        self.queued = None;
        self.stop_error = None;
        self.empty_since = None;
        self.silent_polls = 0;
        self.silent_since = None;
        self.ended_polls = 0;
        self.ended_since = None;
        if row.to != State::Asleep {
            self.wanted = None;
        }
        match row.to {
            State::Running => {
                if let Some(started) = self.started.take() {
                    self.record.last_start = Some(now.saturating_duration_since(started));
                }
                self.is_restart_due = false;
                self.reason = reason.map(str::to_owned);
            }
            State::Asleep => {
                self.failures = 0;
                self.is_restart_due = false;
                self.reason = None;
            }
            State::Failed => {
                if row.trigger == Trigger::Gone {
                    self.record.crashes += 1;
                    self.is_restart_due = self.config.restarts;
                } else if row.from == State::Starting {
                    self.record.failed_starts += 1;
                }
                let doubled = FIRST_PAUSE * (1 << self.failures.min(10));
                self.failures += 1;
                self.paused_until = Some(now + doubled.min(MAX_PAUSE));
                self.reason = reason.map(str::to_owned);
            }
            State::Stopping => {
                if row.trigger == Trigger::Idle {
                    self.record.idle_stops += 1;
                }
                self.is_restart_due = false;
                self.started = None;
            }
            State::Starting => {}
        }
    }

    /// Starts an operation, or queues it behind the current one.
    fn perform(
        &mut self,
        (operation, trigger): (Operation, Trigger),
        cause: Option<Cause>,
        now: Instant,
        out: &mut Vec<Action>,
    ) {
        if self.operation.is_some() {
            self.queued = Some((operation, trigger, cause));
            return;
        }
        self.operation = Some(operation);
        match operation {
            Operation::Start => {
                self.started = Some(now);
                // The time for the first answer begins with the start, which may have been queued.
                self.since = now;
                out.push(Action::Start(cause.unwrap_or(Cause::Operator)));
            }
            Operation::Stop => out.push(Action::Stop(trigger)),
        }
    }
}
