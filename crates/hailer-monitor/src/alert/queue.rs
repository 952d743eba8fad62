//! Messages waiting for delivery, stored in the database of the history: neither a kill nor an
//! unreachable receiver loses messages.
//!
//! A message is *waiting*, then *done*, *given up* or *merged* into a later one. Waiting messages are in memory too. If the
//! database does not accept a change, it stays in memory until the database does: a full disk delays
//! no alert, and only a kill while the disk is full loses messages.
//!
//! Bounds: 1,000 waiting messages for each receiver, then the oldest is given up; 500 characters of
//! an error; 30 days of finished messages.
//!
//! In: notifications, results of deliveries. Out: messages to send, rows of the database.
//!
//! May import: `crate::alert`, `crate::alert::engine`, `crate::alert::notification`,
//! `crate::history`, `crate::lock`, `crate::sample`, `crate::server`.

use super::engine::{IncidentKey, OpenIncident, TickOutput};
use super::notification::{AffectedServer, Notification, NotificationKind, hex};
use super::{AlertHealth, MAX_BACKOFF};
use crate::history::{History, HistoryError, Insert, Values, run};
use crate::lock::lock;
use crate::sample::Millis;
use crate::server::ServerId;
use serde::Serialize;
use sha2::{Digest, Sha256};
use sqlx::any::AnyRow;
use sqlx::{AssertSqlSafe, Row};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::Notify;

/// Maximum number of messages waiting for one receiver; beyond it, the oldest is given up.
pub(super) const MAX_WAITING_MESSAGES: usize = 1_000;
/// How long messages are kept in the log, in milliseconds.
const RETENTION_MS: Millis = 30 * 24 * 3_600_000;
/// Maximum length of a stored error, in characters.
const MAX_REASON_CHARS: usize = 500;
/// Server id of incidents of the monitor itself in the database. Ids of servers are positive.
const MONITOR_ROW_ID: i64 = 0;

/// Follows the name of a rule about `down` in incidents about flapping in the database. Names have no
/// control characters.
const FLAPPING_SUFFIX: &str = "\u{1f}flapping";

/// One message to one receiver.
#[derive(Clone, Debug, Serialize)]
pub struct QueuedMessage {
    /// 32 hexadecimal digits; the same whenever the message is sent again.
    pub id: String,
    /// Name of the receiver.
    pub receiver: String,
    /// Position in the order of sending.
    pub number: i64,
    /// When it was created, or when its quiet hours end, in Unix milliseconds.
    pub made: Millis,
    /// Earliest time of the next attempt, in Unix milliseconds.
    pub due: Millis,
    /// Whether it was created in quiet hours, and is sent in one summary with others.
    pub is_held: bool,
    /// State of the delivery.
    pub state: MessageState,
    /// Number of failed attempts.
    pub attempts: u32,
    /// Error of the last attempt; empty if there was none.
    pub error: String,
    /// Content of the message.
    pub notification: Arc<Notification>,
}

/// State of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageState {
    /// Not accepted yet.
    Waiting,
    /// Accepted by the receiver.
    Done,
    /// Discarded without delivery.
    GivenUp,
    /// Not sent, because a later message contains it.
    Merged,
}

/// Next action for a receiver.
#[derive(Debug)]
pub(super) enum NextStep {
    /// Wait for a new message.
    Nothing,
    /// Wait until this time, in Unix milliseconds.
    Wait(Millis),
    /// Send these as one message.
    Send(Vec<QueuedMessage>),
}

/// All waiting messages.
#[derive(Debug)]
pub(super) struct MessageQueue {
    history: History,
    inner: Mutex<QueueState>,
    /// Held while writing to the database.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct QueueState {
    queues: HashMap<String, ReceiverQueue>,
    next: i64,
    pending: PendingWrites,
    /// Ids of new messages that were in the database already.
    known: HashSet<String>,
    /// Why the last write failed; `None` if it succeeded.
    failure: Option<String>,
    delivered: u64,
    failed: u64,
    given_up: u64,
    last_given_up: Option<String>,
    /// Time of the last call of `next`.
    last_time: Option<Millis>,
}

/// Messages waiting for one receiver.
#[derive(Debug, Default)]
struct ReceiverQueue {
    messages: VecDeque<QueuedMessage>,
    /// Ids of the messages that are being sent.
    sending: Vec<String>,
    news: Arc<Notify>,
}

/// Changes that are not in the database yet.
#[derive(Debug, Default)]
struct PendingWrites {
    /// By id, with whether the row must be inserted.
    messages: BTreeMap<String, (QueuedMessage, bool)>,
    /// By rule and server: begin and last notification, or `None` if it was closed.
    open: HashMap<(String, i64), Option<(Millis, Millis)>>,
}

impl QueueState {
    /// Keeps the delays of waiting messages if the clock was set back. Those of quiet hours wait for a
    /// time of the day.
    fn follow_clock(&mut self, now: Millis) {
        let last = self.last_time.replace(now);
        let step = last.map_or(0, |last| last - now);
        for message in self.queues.values_mut().flat_map(|line| &mut line.messages) {
            if message.is_held && message.attempts == 0 {
                continue;
            }
            if step > 0 {
                message.due -= step;
            } else if last.is_none() {
                // It may have been set back while no monitor was running.
                message.due = message.due.min(now + MAX_BACKOFF);
            }
        }
    }

    fn give_up(&mut self, mut message: QueuedMessage) {
        self.given_up += 1;
        self.last_given_up = Some(format!("{}: {}", message.receiver, message.error));
        message.state = MessageState::GivenUp;
        self.pending.record(message);
    }
}

impl ReceiverQueue {
    /// Returns the next action.
    fn next(&self, now: Millis) -> NextStep {
        let first = self.messages.iter().find(|message| !message.is_held);
        let night = self
            .messages
            .iter()
            .filter(|message| message.is_held)
            .min_by_key(|held| (held.due, held.number));
        // Messages are sent in order, but held messages do not block others.
        let night = night.filter(|night| match first {
            Some(first) => night.due <= now && (night.number < first.number || first.due > now),
            None => true,
        });
        match (night, first) {
            (Some(night), _) if night.due <= now => {
                let all = self
                    .messages
                    .iter()
                    .filter(|message| message.is_held && message.due == night.due);
                NextStep::Send(all.cloned().collect())
            }
            (Some(night), _) => NextStep::Wait(night.due),
            (None, Some(first)) if first.due <= now => NextStep::Send(vec![first.clone()]),
            (None, Some(first)) => {
                let held = self
                    .messages
                    .iter()
                    .filter(|message| message.is_held)
                    .map(|held| held.due)
                    .min();
                NextStep::Wait(first.due.min(held.unwrap_or(Millis::MAX)))
            }
            (None, None) => NextStep::Nothing,
        }
    }

    /// Takes out of waiting messages what a new one contains: begin and reminders of an incident that
    /// has ended, and earlier reminders. Returns the messages that changed.
    fn merge_into(&mut self, new: &mut QueuedMessage) -> Vec<QueuedMessage> {
        let is_end = new.notification.kind == NotificationKind::Resolved;
        let is_reminder = new.notification.kind == NotificationKind::Repeated;
        let mut changed = Vec::new();
        if new.is_held || !(is_end || is_reminder) {
            return changed;
        }
        for old in &mut self.messages {
            let is_begin = old.notification.kind == NotificationKind::Firing;
            let is_contained = old.notification.rule == new.notification.rule
                && old.notification.condition == new.notification.condition
                && (is_begin && is_end || old.notification.kind == NotificationKind::Repeated);
            if !is_contained || old.is_held || self.sending.contains(&old.id) {
                continue;
            }
            let is_same = |one: &AffectedServer, other: &AffectedServer| {
                one.id == other.id && one.since == other.since
            };
            let shared = |item: &AffectedServer| {
                let mut items = new.notification.items.iter();
                items.any(|other| is_same(item, other))
            };
            if !old.notification.items.iter().any(shared) {
                continue;
            }
            let before = old.notification.clone();
            Arc::make_mut(&mut old.notification)
                .items
                .retain(|item| !shared(item));
            if is_begin {
                for item in &mut Arc::make_mut(&mut new.notification).items {
                    item.is_late |= before.items.iter().any(|old| is_same(old, item));
                }
            }
            if old.notification.count() == 0 {
                // The log shows what it was about.
                old.notification = before;
                old.state = MessageState::Merged;
            }
            changed.push(old.clone());
        }
        self.messages
            .retain(|message| message.state == MessageState::Waiting);
        changed
    }
}

impl PendingWrites {
    /// Records a changed message. One that was never written must still be inserted.
    fn record(&mut self, message: QueuedMessage) {
        let is_new = self
            .messages
            .get(&message.id)
            .is_some_and(|(_, is_new)| *is_new);
        self.messages.insert(message.id.clone(), (message, is_new));
    }
}

impl MessageQueue {
    /// Reads the waiting messages and the open incidents of a previous process.
    pub(super) async fn load(
        history: &History,
        receivers: impl Iterator<Item = String>,
    ) -> Result<(Self, Vec<OpenIncident>), HistoryError> {
        let mut inner = QueueState::default();
        let rows = sqlx::query(
            "SELECT id, receiver, number, made, due, is_held, state, attempts, error, notification FROM alert_message
             WHERE state = 0 ORDER BY number",
        )
        .fetch_all(&history.pool)
        .await?;
        inner.queues = receivers
            .map(|name| (name, ReceiverQueue::default()))
            .collect();
        for row in &rows {
            // Unreadable messages, and those of removed receivers, stay in the database.
            if let Some(message) = read(row)
                && let Some(line) = inner.queues.get_mut(&message.receiver)
            {
                line.messages.push_back(message);
            }
        }
        let last = sqlx::query("SELECT COALESCE(MAX(number), 0) FROM alert_message")
            .fetch_one(&history.pool)
            .await?;
        inner.next = last.try_get::<i64, _>(0)? + 1;
        let open = open(history).await?;
        Ok((
            Self {
                history: history.clone(),
                inner: inner.into(),
                writing: tokio::sync::Mutex::default(),
            },
            open,
        ))
    }

    /// Adds messages and incidents. Messages are stored before they are sent, unless the database
    /// fails.
    pub(super) async fn push(&self, output: TickOutput) {
        let mut new = Vec::new();
        {
            let mut inner = self.inner();
            for open in output.opened {
                let times = (open.since, open.notified_at);
                inner.pending.open.insert(row_key(open.key), Some(times));
            }
            for closed in output.closed {
                inner.pending.open.insert(row_key(closed), None);
            }
            for notification in output.notifications {
                let notification = Arc::new(notification);
                for receiver in &notification.to {
                    let number = inner.next;
                    inner.next += 1;
                    let made = notification.held_until.unwrap_or(notification.at);
                    let mut message = QueuedMessage {
                        id: hex(&Sha256::digest(format!("{}\0{receiver}", notification.id))),
                        receiver: receiver.clone(),
                        number,
                        made,
                        due: made,
                        is_held: notification.held_until.is_some(),
                        state: MessageState::Waiting,
                        attempts: 0,
                        error: String::new(),
                        notification: notification.clone(),
                    };
                    let inner = &mut *inner;
                    if let Some(line) = inner.queues.get_mut(receiver) {
                        for changed in line.merge_into(&mut message) {
                            inner.pending.record(changed);
                        }
                    }
                    inner
                        .pending
                        .messages
                        .insert(message.id.clone(), (message.clone(), true));
                    new.push(message);
                }
            }
        }
        self.write().await;
        let mut inner = self.inner();
        let inner = &mut *inner;
        for message in new {
            // It was stored before a kill: it is waiting or finished already.
            if inner.known.remove(&message.id) {
                continue;
            }
            let Some(line) = inner.queues.get_mut(&message.receiver) else {
                continue;
            };
            line.messages.push_back(message);
            if line.messages.len() > MAX_WAITING_MESSAGES
                && let Some(mut oldest) = line.messages.pop_front()
            {
                oldest.error = format!("more than {MAX_WAITING_MESSAGES} messages were waiting");
                inner.give_up(oldest);
            }
        }
        for line in inner.queues.values() {
            line.news.notify_one();
        }
    }

    /// Returns the next action for a receiver. Messages of quiet hours that end at the same time are
    /// sent as one.
    pub(super) fn next(&self, receiver: &str, now: Millis) -> NextStep {
        let mut inner = self.inner();
        inner.follow_clock(now);
        let Some(line) = inner.queues.get_mut(receiver) else {
            return NextStep::Nothing;
        };
        let step = line.next(now);
        line.sending = match &step {
            NextStep::Send(messages) => messages.iter().map(|sent| sent.id.clone()).collect(),
            NextStep::Nothing | NextStep::Wait(_) => Vec::new(),
        };
        step
    }

    /// Returns the signal that there are new messages for a receiver.
    pub(super) fn news(&self, receiver: &str) -> Arc<Notify> {
        self.inner()
            .queues
            .get(receiver)
            .map(|line| line.news.clone())
            .unwrap_or_default()
    }

    /// Records that messages were delivered or given up.
    pub(super) async fn finish(
        &self,
        messages: &[QueuedMessage],
        state: MessageState,
        error: &str,
    ) {
        self.inner().failed += u64::from(state == MessageState::GivenUp);
        self.mark(messages, |message| {
            message.state = state;
            message.error = short(error);
        });
        if state == MessageState::Done {
            // The receiver is back: the others are due again.
            for message in messages {
                if let Some(line) = self.inner().queues.get_mut(&message.receiver) {
                    for waiting in &mut line.messages {
                        if waiting.attempts > 0 {
                            waiting.due = waiting.due.min(waiting.made);
                        }
                    }
                }
            }
        }
        self.write().await;
    }

    /// Records a failed attempt, to be retried at `due`.
    pub(super) async fn retry(&self, messages: &[QueuedMessage], due: Millis, error: &str) {
        self.inner().failed += 1;
        self.mark(messages, |message| {
            message.attempts = message.attempts.saturating_add(1);
            message.due = due;
            message.error = short(error);
        });
        self.write().await;
    }

    fn mark(&self, messages: &[QueuedMessage], change: impl Fn(&mut QueuedMessage)) {
        let mut inner = self.inner();
        let inner = &mut *inner;
        for message in messages {
            let Some(line) = inner.queues.get_mut(&message.receiver) else {
                continue;
            };
            line.sending.clear();
            // It may have been given up meanwhile because too many were waiting. If it was delivered
            // nevertheless, record that.
            let place = line
                .messages
                .iter()
                .position(|waiting| waiting.id == message.id);
            let mut changed =
                place.map_or_else(|| message.clone(), |place| line.messages[place].clone());
            change(&mut changed);
            match (place, changed.state) {
                (Some(place), MessageState::Waiting) => line.messages[place] = changed.clone(),
                (Some(place), _) => drop(line.messages.remove(place)),
                (None, MessageState::Done) => {}
                (None, _) => continue,
            }
            inner.delivered += u64::from(changed.state == MessageState::Done);
            match changed.state {
                MessageState::GivenUp => inner.give_up(changed),
                MessageState::Waiting | MessageState::Done | MessageState::Merged => {
                    inner.pending.record(changed);
                }
            }
        }
    }

    /// Writes pending changes to the database.
    pub(super) async fn write(&self) {
        let _turn = self.writing.lock().await;
        let pending = std::mem::take(&mut self.inner().pending);
        if pending.messages.is_empty() && pending.open.is_empty() {
            return;
        }
        let result = self.write_all(&pending).await;
        let mut inner = self.inner();
        match result {
            Ok(known) => {
                inner.failure = None;
                inner.known.extend(known);
            }
            Err(error) => {
                inner.failure = Some(error.to_string());
                // Changes recorded meanwhile are newer.
                for (id, (message, is_new)) in pending.messages {
                    inner
                        .pending
                        .messages
                        .entry(id)
                        .or_insert((message, is_new))
                        .1 |= is_new;
                }
                for (key, open) in pending.open {
                    inner.pending.open.entry(key).or_insert(open);
                }
                // Beyond the limit, drop finished messages first.
                while inner.pending.messages.len()
                    > 2 * MAX_WAITING_MESSAGES * inner.queues.len().max(1)
                {
                    let done = inner
                        .pending
                        .messages
                        .iter()
                        .find(|(_, (message, _))| message.state != MessageState::Waiting);
                    let Some(id) = done.map(|(id, _)| id.clone()) else {
                        break;
                    };
                    inner.pending.messages.remove(&id);
                }
            }
        }
    }

    /// Returns the ids of new messages that were stored already.
    async fn write_all(&self, pending: &PendingWrites) -> Result<Vec<String>, HistoryError> {
        let mut change = self.history.begin().await?;
        let mut known = Vec::new();
        for (message, is_new) in pending.messages.values() {
            let done = if *is_new {
                sqlx::query(
                    "INSERT INTO alert_message (id, receiver, number, made, due, is_held, state, attempts, error, notification)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (id) DO NOTHING",
                )
                .bind(message.id.as_str())
                .bind(message.receiver.as_str())
                .bind(message.number)
                .bind(message.made)
                .bind(message.due)
                .bind(i64::from(message.is_held))
                .bind(message.state.number())
                .bind(i64::from(message.attempts))
                .bind(message.error.as_str())
                .bind(serde_json::to_string(&*message.notification).unwrap_or_default())
                .execute(&mut *change)
                .await?
            } else {
                sqlx::query("UPDATE alert_message SET due = $1, state = $2, attempts = $3, error = $4, notification = $5 WHERE id = $6")
                    .bind(message.due)
                    .bind(message.state.number())
                    .bind(i64::from(message.attempts))
                    .bind(message.error.as_str())
                    .bind(serde_json::to_string(&*message.notification).unwrap_or_default())
                    .bind(message.id.as_str())
                    .execute(&mut *change)
                    .await?
            };
            if *is_new && done.rows_affected() == 0 {
                known.push(message.id.clone());
            }
        }
        let table = Insert {
            head: "INSERT INTO alert_open (rule, server, since, notified_at) VALUES ",
            columns: 4,
            tail: " ON CONFLICT (rule, server) DO UPDATE SET since = excluded.since, notified_at = excluded.notified_at",
        };
        let mut open = Vec::new();
        for ((rule, server), entry) in &pending.open {
            open.extend(
                entry.map(|(since, is_notified)| (rule.clone(), *server, since, is_notified)),
            );
        }
        let rows = open.into_iter().map(|(rule, server, since, is_notified)| {
            move |values: &mut Values| {
                values.add(rule);
                values.add(server);
                values.add(since);
                values.add(is_notified);
            }
        });
        run(&mut change, table.rows(self.history.dialect, rows)).await?;
        let mut over: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for ((rule, server), entry) in &pending.open {
            if entry.is_none() {
                over.entry(rule).or_default().push(server.to_string());
            }
        }
        for (rule, servers) in over {
            // Few statements even if 100,000 servers recover. The ids are integers, so they need no
            // escaping.
            for some in servers.chunks(500) {
                let text = format!(
                    "DELETE FROM alert_open WHERE rule = $1 AND server IN ({})",
                    some.join(",")
                );
                sqlx::query(AssertSqlSafe(text))
                    .persistent(false)
                    .bind(rule)
                    .execute(&mut *change)
                    .await?;
            }
        }
        change.commit().await?;
        Ok(known)
    }

    /// Deletes messages older than 30 days.
    pub(super) async fn delete_old(&self, now: Millis) -> Result<(), HistoryError> {
        let mut change = self.history.begin().await?;
        // Those still waiting belong to a removed receiver.
        sqlx::query("DELETE FROM alert_message WHERE made < $1")
            .bind(now - RETENTION_MS)
            .execute(&mut *change)
            .await?;
        change.commit().await
    }

    /// Returns at most `limit` messages with a number below `before`, the newest first.
    pub(super) async fn log(
        &self,
        before: i64,
        limit: u32,
    ) -> Result<Vec<QueuedMessage>, HistoryError> {
        log(&self.history, before, limit).await
    }

    /// Returns counters and problems.
    pub(super) fn health(&self) -> AlertHealth {
        let inner = self.inner();
        let waiting = inner.queues.iter().map(|(name, line)| {
            let error = line.messages.iter().find(|message| message.attempts > 0);
            (
                name.clone(),
                (
                    line.messages.len(),
                    error.map_or_else(String::new, |message| message.error.clone()),
                ),
            )
        });
        AlertHealth {
            waiting: waiting.collect(),
            delivered: inner.delivered,
            failed: inner.failed,
            given_up: inner.given_up,
            last_given_up: inner.last_given_up.clone(),
            failure: inner.failure.clone(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, QueueState> {
        lock(&self.inner)
    }
}

/// Reads the open incidents.
pub(super) async fn open(history: &History) -> Result<Vec<OpenIncident>, HistoryError> {
    let rows = sqlx::query("SELECT rule, server, since, notified_at FROM alert_open")
        .fetch_all(&history.pool)
        .await?;
    let open = rows.iter().map(|row| {
        Ok(OpenIncident {
            key: incident_key(&row.try_get::<String, _>(0)?, row.try_get(1)?),
            since: row.try_get(2)?,
            notified_at: row.try_get(3)?,
        })
    });
    Ok(open.collect::<Result<_, sqlx::Error>>()?)
}

/// Returns the key of an incident in the database: rule and server.
fn row_key(key: IncidentKey) -> (String, i64) {
    let suffix = if key.is_flapping { FLAPPING_SUFFIX } else { "" };
    let server = key.server.map_or(MONITOR_ROW_ID, |server| server.0);
    (key.rule + suffix, server)
}

/// Parses the key of an incident in the database.
fn incident_key(rule: &str, server: i64) -> IncidentKey {
    let name = rule.strip_suffix(FLAPPING_SUFFIX);
    IncidentKey {
        is_flapping: name.is_some(),
        rule: name.unwrap_or(rule).to_owned(),
        server: (server != MONITOR_ROW_ID).then_some(ServerId(server)),
    }
}

/// Reads at most `limit` messages with a number below `before`, the newest first.
pub(super) async fn log(
    history: &History,
    before: i64,
    limit: u32,
) -> Result<Vec<QueuedMessage>, HistoryError> {
    let text = "SELECT id, receiver, number, made, due, is_held, state, attempts, error, notification FROM alert_message
                WHERE number < $1 ORDER BY number DESC LIMIT $2";
    let rows = sqlx::query(text)
        .bind(before)
        .bind(i64::from(limit))
        .fetch_all(&history.pool)
        .await?;
    Ok(rows.iter().filter_map(read).collect())
}

impl MessageState {
    fn number(self) -> i64 {
        match self {
            Self::Waiting => 0,
            Self::Done => 1,
            Self::GivenUp => 2,
            Self::Merged => 3,
        }
    }
}

/// Returns the id of messages that are sent as one.
pub(super) fn id_of(messages: &[QueuedMessage]) -> String {
    match messages {
        [message] => message.id.clone(),
        _ => {
            let all: Vec<&str> = messages.iter().map(|message| message.id.as_str()).collect();
            hex(&Sha256::digest(all.join(" ")))
        }
    }
}

fn short(text: &str) -> String {
    text.chars().take(MAX_REASON_CHARS).collect()
}

/// Parses a row; `None` if another version wrote it in an unknown form.
fn read(row: &AnyRow) -> Option<QueuedMessage> {
    let notification: String = row.try_get(9).ok()?;
    Some(QueuedMessage {
        id: row.try_get(0).ok()?,
        receiver: row.try_get(1).ok()?,
        number: row.try_get(2).ok()?,
        made: row.try_get(3).ok()?,
        due: row.try_get(4).ok()?,
        is_held: row.try_get::<i64, _>(5).ok()? != 0,
        state: match row.try_get::<i64, _>(6).ok()? {
            0 => MessageState::Waiting,
            1 => MessageState::Done,
            3 => MessageState::Merged,
            _ => MessageState::GivenUp,
        },
        attempts: row
            .try_get::<i64, _>(7)
            .ok()?
            .try_into()
            .unwrap_or(u32::MAX),
        error: row.try_get(8).ok()?,
        notification: Arc::new(serde_json::from_str(&notification).ok()?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = 1_780_315_200_000;

    async fn queue(history: &History) -> MessageQueue {
        MessageQueue::load(history, ["ops".to_owned()].into_iter())
            .await
            .unwrap()
            .0
    }

    fn output(id: &str, held_until: Option<Millis>) -> TickOutput {
        let notification = Notification {
            id: id.into(),
            held_until,
            ..Notification::test("ops", NOW)
        };
        TickOutput {
            notifications: vec![notification],
            ..TickOutput::default()
        }
    }

    fn sent(next: NextStep) -> Vec<QueuedMessage> {
        match next {
            NextStep::Send(messages) => messages,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn messages_are_sent_in_order_and_survive_a_restart() {
        let history = History::open("sqlite::memory:").await.unwrap();
        let first = queue(&history).await;
        first.push(output("a", None)).await;
        first.push(output("b", None)).await;
        let a = sent(first.next("ops", NOW));
        assert_eq!(a[0].notification.id, "a");
        first.retry(&a, NOW + 5_000, "busy").await;
        assert!(
            matches!(first.next("ops", NOW), NextStep::Wait(due) if due == NOW + 5_000),
            "b must wait for a"
        );
        drop(first);
        let second = queue(&history).await;
        second.push(output("a", None)).await;
        assert!(matches!(second.next("ops", NOW), NextStep::Wait(_)));
        let a = sent(second.next("ops", NOW + 5_000));
        assert_eq!(
            (
                a[0].notification.id.as_str(),
                a[0].attempts,
                a[0].error.as_str()
            ),
            ("a", 1, "busy")
        );
        second.finish(&a, MessageState::Done, "").await;
        let b = sent(second.next("ops", NOW));
        second
            .finish(&b, MessageState::GivenUp, "no such hook")
            .await;
        second.push(output("b", None)).await;
        assert!(
            matches!(second.next("ops", NOW), NextStep::Nothing),
            "finished messages are not sent again"
        );
        let log = second.log(i64::MAX, 10).await.unwrap();
        let log: Vec<_> = log
            .iter()
            .map(|message| (message.notification.id.as_str(), message.state))
            .collect();
        assert_eq!(
            log,
            [("b", MessageState::GivenUp), ("a", MessageState::Done)]
        );
        second.delete_old(NOW + RETENTION_MS + 1).await.unwrap();
        assert!(second.log(i64::MAX, 10).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn quiet_hours_are_one_message_that_does_not_block_others() {
        let history = History::open("sqlite::memory:").await.unwrap();
        let queue = queue(&history).await;
        let morning = NOW + 3_600_000;
        queue.push(output("a", Some(morning))).await;
        queue.push(output("b", Some(morning))).await;
        assert!(matches!(queue.next("ops", NOW), NextStep::Wait(due) if due == morning));
        queue.push(output("c", None)).await;
        let c = sent(queue.next("ops", NOW));
        assert_eq!(c[0].notification.id, "c");
        queue.retry(&c, morning + 60_000, "away").await;
        assert!(matches!(queue.next("ops", NOW), NextStep::Wait(due) if due == morning));
        let night = sent(queue.next("ops", morning));
        assert_eq!(
            night
                .iter()
                .map(|message| message.notification.id.as_str())
                .collect::<Vec<_>>(),
            ["a", "b"]
        );
        queue.retry(&night, morning + 5_000, "away").await;
        let again = sent(queue.next("ops", morning + 5_000));
        assert_eq!(id_of(&night), id_of(&again), "the id of a retry");
        queue.finish(&again, MessageState::Done, "").await;
        assert_eq!(
            sent(queue.next("ops", morning + 60_000))[0].notification.id,
            "c"
        );
    }

    /// Begin (or reminder, or end) of the incidents of some servers, which began at `NOW`.
    fn about(kind: NotificationKind, servers: &[i64], at: Millis) -> TickOutput {
        let mut output = output(&format!("{kind:?}{servers:?}{at}"), None);
        let notification = &mut output.notifications[0];
        notification.kind = kind;
        notification.condition = super::super::notification::ConditionKind::Down;
        notification.at = at;
        let item = |id: &i64| AffectedServer {
            id: Some(ServerId(*id)),
            name: format!("s{id}"),
            since: NOW,
            until: (kind == NotificationKind::Resolved).then_some(at),
            ..AffectedServer::default()
        };
        notification.items = servers.iter().map(item).collect();
        output
    }

    #[tokio::test]
    async fn stale_messages_are_merged_with_the_end() {
        use NotificationKind::{Firing, Repeated, Resolved};
        let history = History::open("sqlite::memory:").await.unwrap();
        let first = queue(&history).await;
        first.push(about(Firing, &[1, 2], NOW)).await;
        let failed = sent(first.next("ops", NOW));
        // While it is being sent, it may arrive.
        first.push(about(Resolved, &[2], NOW + 1)).await;
        first.retry(&failed, NOW + 20_000, "away").await;
        first.push(about(Repeated, &[1], NOW + 2)).await;
        first.push(about(Repeated, &[1], NOW + 3)).await;
        first.push(about(Resolved, &[1], NOW + 4)).await;
        assert_eq!(first.health().waiting["ops"].0, 3);
        drop(first);
        let second = queue(&history).await;
        let mut got = Vec::new();
        while let NextStep::Send(messages) = second.next("ops", NOW + 20_000) {
            let notification = &messages[0].notification;
            let items = notification.items.iter();
            let items: Vec<_> = items
                .map(|item| (item.name.as_str(), item.is_late))
                .collect();
            got.push(format!("{:?} {items:?}", notification.kind));
            second.finish(&messages, MessageState::Done, "").await;
        }
        assert_eq!(
            got,
            [
                "Firing [(\"s2\", false)]",
                "Resolved [(\"s2\", false)]",
                "Resolved [(\"s1\", true)]"
            ]
        );
        let log = second.log(i64::MAX, 10).await.unwrap();
        let merged = log.iter().filter(|sent| sent.state == MessageState::Merged);
        assert_eq!(merged.count(), 2, "both reminders");
        assert_eq!(second.health().given_up, 0);
    }

    #[tokio::test]
    async fn one_delivery_makes_the_others_due() {
        let history = History::open("sqlite::memory:").await.unwrap();
        let queue = queue(&history).await;
        let morning = NOW + 3_600_000;
        queue.push(output("a", Some(morning))).await;
        let night = sent(queue.next("ops", morning));
        queue.retry(&night, morning + 30_000, "away").await;
        queue.push(output("b", None)).await;
        let b = sent(queue.next("ops", morning + 1));
        queue.finish(&b, MessageState::Done, "").await;
        assert_eq!(sent(queue.next("ops", morning + 1))[0].notification.id, "a");
    }

    #[tokio::test]
    async fn database_errors_delay_no_message_and_memory_is_bounded() {
        let history = History::open("sqlite::memory:").await.unwrap();
        let queue = queue(&history).await;
        history.close().await;
        for number in 0..MAX_WAITING_MESSAGES + 10 {
            queue.push(output(&number.to_string(), None)).await;
        }
        let health = queue.health();
        assert_eq!(
            (health.waiting["ops"].0, health.given_up),
            (MAX_WAITING_MESSAGES, 10)
        );
        assert!(health.failure.is_some());
        let first = sent(queue.next("ops", NOW));
        assert_eq!(first[0].notification.id, "10", "the oldest are given up");
        queue.finish(&first, MessageState::Done, "").await;
        assert_eq!(sent(queue.next("ops", NOW))[0].notification.id, "11");
    }
}
