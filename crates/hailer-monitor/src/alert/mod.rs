//! Alert rules and at-least-once delivery of notifications.
//!
//! ```text
//!   StateTable ─► AlertEngine ─► Notification ─► MessageQueue ─► render ─► OpenReceiver ─► webhook
//!                 rules          quiet hours     SQL             form                      command
//! ```
//!
//! The [`AlertEngine`] evaluates each [`Rule`] and creates a [`Notification`] when an incident begins,
//! repeats or ends. The queue stores it in the database of the history. One task per [`Receiver`]
//! then sends the messages in order and retries until they are accepted. A process that is killed
//! between sending and storing sends the message again, with the same `Idempotency-Key`, so that
//! receivers can drop duplicates.
//!
//! After an outage of a receiver, its waiting messages are sent as soon as one was delivered. If the
//! end of an incident comes while the message about its begin waits, both become one: "was down from …
//! to …".
//!
//! Messages of quiet hours are stored as usual and sent together when the quiet hours end.
//!
//! | resource | limit |
//! | --- | --- |
//! | rules | 1,000 |
//! | incidents in memory | one for each rule and server for which it is true, about 80 bytes each |
//! | servers listed in a message | [`MAX_LISTED_SERVERS`]; the others are counted |
//! | messages of a rule | one per `gather` (default: 1 min) for begins, one for ends |
//! | repeats | at least 1 min apart |
//! | waiting messages | 1,000 for each receiver, each for at most 24 h; the oldest are discarded |
//! | messages being sent | one for each receiver, on its own thread |
//! | retries | after 1 s, doubling up to 30 s; later if the receiver asks for it (`Retry-After`) |
//! | log of sent messages | 30 days |
//!
//! With `when = "monitor-silent"` the monitor reports that it takes no samples. A process that is
//! gone cannot report anything; watch `/healthz` from outside.
//!
//! May import: `crate::health`, `crate::history`, `crate::lock`, `crate::sample`, `crate::server`,
//! `crate::state`, `hailer`.

mod deliver;
mod engine;
mod message;
mod notification;
mod queue;
mod quiet;
mod rule;
mod template;

pub use deliver::{Delivery, OpenReceiver, Receiver, test};
pub use engine::{AlertEngine, IncidentKey, OpenIncident, TickOutput};
pub use message::{Form, Rendered, render};
pub use notification::{
    AffectedServer, ConditionKind, MAX_LISTED_SERVERS, MessageConfig, Notification,
    NotificationKind, Priority,
};
pub use queue::{MessageState, QueuedMessage};
pub use quiet::QuietHours;
pub use rule::{Change, Condition, Rule, RuleError, ServerFilter};
pub use template::{Placeholder, Template};

use crate::history::{History, HistoryError};
use crate::lock::lock;
use crate::sample::{Millis, millis, unix_millis as now};
use crate::server::ServerId;
use crate::state::{ServerRow, StateTable, Update};
use governor::clock::Clock;
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use queue::{MessageQueue, NextStep};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;

/// Maximum number of rules.
const MAX_RULES: usize = 1_000;
/// Undelivered messages are discarded at this age, in milliseconds.
const MAX_MESSAGE_AGE: Millis = 24 * 3_600_000;
/// Delay before the first retry, in milliseconds. It doubles with each retry.
const MIN_BACKOFF: Millis = 1_000;
/// Longest delay between retries, in milliseconds.
const MAX_BACKOFF: Millis = 30_000;
/// Number of messages to one receiver that may be sent without delay.
const SEND_BURST: NonZeroU32 = NonZeroU32::new(5).unwrap();
/// How often rules are evaluated.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// Number of ticks between attempts to store what the database did not accept.
const TICKS_PER_WRITE: u64 = 10;
/// Number of ticks between deletions of old messages.
const TICKS_PER_CLEANUP: u64 = 3_600;

/// Alerts in the configuration: `[[alert]]`, `[[receiver]]` and `page`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AlertConfig {
    /// Configured alert rules.
    #[serde(default, rename = "alert")]
    pub rules: Vec<Rule>,
    /// Receivers of messages.
    #[serde(default, rename = "receiver")]
    pub receivers: Vec<Receiver>,
    /// URL of the web pages, for links in messages: `https://status.example.com`.
    pub page: Option<String>,
}

/// A valid configuration whose secrets were read.
#[derive(Clone, Debug, Default)]
pub struct CheckedConfig {
    rules: Vec<Rule>,
    receivers: Vec<OpenReceiver>,
    page: Option<String>,
}

impl AlertConfig {
    /// Checks that names are unique and receivers exist, and reads secrets. Relative paths start at
    /// `folder`.
    ///
    /// # Errors
    /// The first error, with its fix.
    pub fn check(self, folder: &Path) -> Result<CheckedConfig, RuleError> {
        let Self {
            rules,
            receivers,
            page,
        } = self;
        if rules.len() > MAX_RULES {
            return Err(RuleError(format!(
                "{} alerts, but at most {MAX_RULES} are allowed; use patterns to match more servers",
                rules.len()
            )));
        }
        if let Some(name) = duplicate(rules.iter().map(|rule| &rule.name)) {
            return Err(RuleError(format!(
                "two alerts have the name \"{name}\"; rename one of them"
            )));
        }
        if let Some(name) = duplicate(receivers.iter().map(|receiver| &receiver.name)) {
            return Err(RuleError(format!(
                "two receivers have the name \"{name}\"; rename one of them"
            )));
        }
        let known: Vec<&str> = receivers
            .iter()
            .map(|receiver| receiver.name.as_str())
            .collect();
        for rule in &rules {
            check_receivers(rule, &known)?;
        }
        if page
            .as_ref()
            .is_some_and(|page| deliver::host(page).is_err())
        {
            return Err(RuleError(
                "page must be the URL of the web pages; write page = \"https://HOST\"".into(),
            ));
        }
        let receivers = receivers
            .iter()
            .map(|receiver| receiver.open(folder))
            .collect::<Result<_, _>>()?;
        Ok(CheckedConfig {
            rules,
            receivers,
            page,
        })
    }
}

/// Returns the first name that occurs twice.
fn duplicate<'a>(names: impl Iterator<Item = &'a String>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    names.map(String::as_str).find(|name| !seen.insert(*name))
}

fn check_receivers(rule: &Rule, known: &[&str]) -> Result<(), RuleError> {
    if let Some(name) = duplicate(rule.to.iter()) {
        return Err(RuleError(format!(
            "alert \"{}\" names the receiver \"{name}\" twice; remove one",
            rule.name
        )));
    }
    let unknown = rule.to.iter().find(|name| !known.contains(&name.as_str()));
    let Some(name) = unknown else {
        return Ok(());
    };
    let known = if known.is_empty() {
        "there are none".into()
    } else {
        format!("configured: {}", known.join(", "))
    };
    Err(RuleError(format!(
        "alert \"{}\" names the receiver \"{name}\", which is not configured ({known}); add a \
         [[receiver]] block",
        rule.name
    )))
}

/// Reads the open incidents and the newest `messages` messages, the newest first, from the history.
///
/// # Errors
/// If the history cannot be read.
pub async fn stored(
    history: &History,
    messages: u32,
) -> Result<(Vec<OpenIncident>, Vec<QueuedMessage>), HistoryError> {
    Ok((
        queue::open(history).await?,
        queue::log(history, i64::MAX, messages).await?,
    ))
}

impl CheckedConfig {
    /// Rules, in the order of the configuration.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Receivers, in the order of the configuration.
    pub fn receivers(&self) -> impl Iterator<Item = &OpenReceiver> {
        self.receivers.iter()
    }

    /// Sends a test message to a receiver. Blocks until the receiver answered or timed out.
    ///
    /// # Errors
    /// If there is no such receiver, or why the message was not accepted.
    pub fn test(&self, receiver: &str) -> Result<(), String> {
        test(self.receiver(receiver)?, self.page.as_deref(), now())
    }

    fn receiver(&self, name: &str) -> Result<&OpenReceiver, String> {
        let found = self.receivers.iter().find(|known| known.name == name);
        found.ok_or_else(|| {
            let known: Vec<&str> = self
                .receivers
                .iter()
                .map(|receiver| receiver.name.as_str())
                .collect();
            format!(
                "there is no receiver \"{name}\"; configured: {}",
                known.join(", ")
            )
        })
    }
}

/// Running alerts. Dropping it stops them; undelivered messages are sent after the next start.
#[derive(Debug)]
pub struct Alerts {
    engine: Arc<Mutex<AlertEngine>>,
    queue: Arc<MessageQueue>,
    tasks: Vec<JoinHandle<()>>,
}

/// Counters and problems of the delivery.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AlertHealth {
    /// For each receiver: number of waiting messages, and the error of the first that failed, else
    /// empty.
    pub waiting: BTreeMap<String, (usize, String)>,
    /// Number of delivered messages since the start.
    pub delivered: u64,
    /// Number of failed attempts since the start.
    pub failed: u64,
    /// Number of discarded messages since the start.
    pub given_up: u64,
    /// Receiver and error of the last discarded message.
    pub last_given_up: Option<String>,
    /// Why the database does not accept writes; `None` if it does.
    pub failure: Option<String>,
}

impl Alerts {
    /// Starts evaluating rules and sending messages, including those that a previous process left
    /// undelivered. `interval` applies to servers without their own.
    ///
    /// # Errors
    /// If the history cannot be read.
    pub async fn start(
        config: CheckedConfig,
        live: Arc<StateTable>,
        history: &History,
        interval: Duration,
    ) -> Result<Self, HistoryError> {
        let names = config
            .receivers
            .iter()
            .map(|receiver| receiver.name.clone());
        let (queue, open) = MessageQueue::load(history, names).await?;
        // Close incidents of rules removed from the configuration, without a message.
        let is_removed =
            |open: &&OpenIncident| !config.rules.iter().any(|rule| rule.name == open.key.rule);
        let closed = open
            .iter()
            .filter(is_removed)
            .map(|open| open.key.clone())
            .collect();
        queue
            .push(TickOutput {
                closed,
                ..TickOutput::default()
            })
            .await;
        let queue = Arc::new(queue);
        let mut engine = AlertEngine::new(config.rules.clone(), &open);
        for id in open.iter().filter_map(|open| open.key.server) {
            let server = match live.row(id) {
                Some(row) => Some(row.server),
                // It was removed while no monitor was running.
                None => history.server(id).await?.map(Arc::new),
            };
            server.iter().for_each(|server| engine.describe(server));
        }
        let engine = Arc::new(Mutex::new(engine));
        let updates = live.listen();
        let evaluation = evaluate(engine.clone(), queue.clone(), live, updates, interval);
        let mut tasks = vec![tokio::spawn(evaluation)];
        for receiver in &config.receivers {
            tasks.push(tokio::spawn(deliver(
                receiver.clone(),
                config.page.clone(),
                queue.clone(),
            )));
        }
        Ok(Self {
            engine,
            queue,
            tasks,
        })
    }

    /// Returns the open incidents of one server, or of all, the oldest first.
    pub fn open(&self, server: Option<ServerId>) -> Vec<OpenIncident> {
        lock(&self.engine).open(server)
    }

    /// Returns at most `limit` messages with a number below `before`, the newest first.
    ///
    /// # Errors
    /// If the history cannot be read.
    pub async fn log(&self, before: i64, limit: u32) -> Result<Vec<QueuedMessage>, HistoryError> {
        self.queue.log(before, limit).await
    }

    /// Returns counters and problems of the delivery.
    pub fn health(&self) -> AlertHealth {
        self.queue.health()
    }
}

impl Drop for Alerts {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Passes updates to the engine, and its output to the queue.
async fn evaluate(
    engine: Arc<Mutex<AlertEngine>>,
    queue: Arc<MessageQueue>,
    live: Arc<StateTable>,
    mut updates: broadcast::Receiver<Arc<Update>>,
    interval: Duration,
) {
    let mut ticks = tokio::time::interval(TICK_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let interval = millis(interval);
    let mut has_list_changed = true;
    for tick in 1_u64.. {
        loop {
            let update = tokio::select! {
                _ = ticks.tick() => break,
                update = updates.recv() => update,
            };
            match update {
                Ok(update) => {
                    let mut engine = lock(&engine);
                    let now = now();
                    for row in update.servers.iter().filter_map(|id| live.row(*id)) {
                        engine.sample(&row, now);
                    }
                    for event in &update.events {
                        if let Some(row) = live.row(event.server) {
                            engine.event(&row.server, event);
                        }
                    }
                    has_list_changed |= update.has_list_changed;
                }
                // Updates were lost: evaluate the current state of all servers.
                Err(RecvError::Lagged(_)) => has_list_changed = true,
                Err(RecvError::Closed) => return,
            }
        }
        // Once per tick, even if thousands of servers are added.
        if std::mem::take(&mut has_list_changed) {
            evaluate_all(&mut lock(&engine), &live, interval);
        }
        let output =
            lock(&engine).tick(now(), |id: ServerId| -> Option<ServerRow> { live.row(id) });
        if output != TickOutput::default() {
            queue.push(output).await;
        }
        if tick.is_multiple_of(TICKS_PER_WRITE) {
            queue.write().await;
        }
        if tick.is_multiple_of(TICKS_PER_CLEANUP) {
            // On an error, the next cleanup deletes the rest.
            let _ = queue.delete_old(now()).await;
        }
    }
}

/// Evaluates all servers, and determines their shortest interval. `interval`: default, in
/// milliseconds.
fn evaluate_all(engine: &mut AlertEngine, live: &StateTable, interval: Millis) {
    let now = now();
    engine.remove_servers(|id| live.row(id).is_none(), now);
    let mut shortest: Option<Millis> = None;
    live.pick(|row| {
        engine.sample(row, now);
        let own = row.server.interval.map_or(interval, millis);
        shortest = Some(shortest.map_or(own, |shortest| shortest.min(own)));
        None::<()>
    });
    engine.set_interval(shortest);
}

/// Sends the waiting messages of a receiver, in order.
async fn deliver(receiver: OpenReceiver, page: Option<String>, queue: Arc<MessageQueue>) {
    let news = queue.news(&receiver.name);
    let limiter = RateLimiter::direct(send_quota(receiver.per_minute));
    loop {
        let messages = match queue.next(&receiver.name, now()) {
            NextStep::Send(messages) => messages,
            NextStep::Nothing => {
                news.notified().await;
                continue;
            }
            NextStep::Wait(due) => {
                // At most 30 s, since the clock may be set.
                let wait = Duration::from_millis((due - now()).clamp(1, 30_000) as u64);
                tokio::select! {
                    () = news.notified() => {}
                    () = tokio::time::sleep(wait) => {}
                }
                continue;
            }
        };
        wait_for_turn(&limiter).await;
        let receiver = receiver.clone();
        let page = page.clone();
        let sent = messages.clone();
        let delivery = on_thread(move || {
            let notifications: Vec<Notification> = sent
                .iter()
                .map(|message| (*message.notification).clone())
                .collect();
            receiver.send(&notifications, &queue::id_of(&sent), page.as_deref(), now())
        });
        let delivery = delivery
            .await
            .unwrap_or_else(|| Delivery::Retry(NO_THREAD.into(), None));
        record_delivery(&queue, &messages, delivery, now(), random()).await;
    }
}

/// Records the result of an attempt, and when it is repeated.
async fn record_delivery(
    queue: &MessageQueue,
    messages: &[QueuedMessage],
    delivery: Delivery,
    now: Millis,
    random: u32,
) {
    match delivery {
        Delivery::Delivered => queue.finish(messages, MessageState::Done, "").await,
        Delivery::Rejected(why) => queue.finish(messages, MessageState::GivenUp, &why).await,
        Delivery::Retry(why, after) => {
            let first = messages.first().map_or(now, |message| message.made);
            let attempts = messages.iter().map(|message| message.attempts).max();
            // Never retry sooner than our own backoff, even for `Retry-After: 0`.
            let delay = backoff(attempts.unwrap_or(0), random).max(after.map_or(0, millis));
            if now + delay - first > MAX_MESSAGE_AGE {
                let why = format!("discarded after 24 h; last error: {why}");
                queue.finish(messages, MessageState::GivenUp, &why).await;
            } else {
                queue.retry(messages, now + delay, &why).await;
            }
        }
    }
}

const NO_THREAD: &str = "the system cannot start a thread";

/// Returns the delay before the next attempt, in milliseconds: doubled with each attempt, and
/// shortened by up to half at random (`random`), so that retries spread out.
fn backoff(attempts: u32, random: u32) -> Millis {
    let whole = MIN_BACKOFF
        .saturating_mul(1 << attempts.min(16))
        .min(MAX_BACKOFF);
    whole - whole / 2 * i64::from(random % 1_024) / 1_024
}

/// Returns the rate of messages to one receiver, with a burst of [`SEND_BURST`].
fn send_quota(per_minute: u32) -> Quota {
    let per_minute = NonZeroU32::new(per_minute).unwrap_or(NonZeroU32::MIN);
    Quota::per_minute(per_minute).allow_burst(SEND_BURST)
}

/// Waits until the rate limit allows a message, and counts it.
async fn wait_for_turn(limiter: &DefaultDirectRateLimiter) {
    while let Err(not_until) = limiter.check() {
        tokio::time::sleep(not_until.wait_time_from(limiter.clock().now())).await;
    }
}

/// Runs blocking work on its own thread, which does not delay the end of the process. Returns `None`
/// if the system cannot start a thread.
async fn on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let work = move || {
        // The receiver is gone only if the alerts were stopped.
        let _ = sender.send(work());
    };
    std::thread::Builder::new()
        .name("alert".into())
        .spawn(work)
        .ok()?;
    receiver.await.ok()
}

/// Returns a random number, or 0 if the system has none: delays are not shortened then.
fn random() -> u32 {
    getrandom::u32().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use governor::clock::FakeRelativeClock;
    use proptest::prelude::*;

    #[test]
    fn backoff_doubles_up_to_the_maximum() {
        assert_eq!(backoff(0, 0), MIN_BACKOFF);
        assert!((MIN_BACKOFF / 2..MIN_BACKOFF).contains(&backoff(0, 1_023)));
        assert_eq!((backoff(1, 0), backoff(3, 0)), (2_000, 8_000));
        assert_eq!(backoff(u32::MAX, 0), MAX_BACKOFF);
    }

    #[test]
    fn limiter_allows_a_burst_then_an_even_rate() {
        let clock = FakeRelativeClock::default();
        let limiter = RateLimiter::direct_with_clock(send_quota(60), clock.clone());
        let mut waits = Vec::new();
        for _ in 0..8 {
            let mut wait = Duration::ZERO;
            while let Err(not_until) = limiter.check() {
                let step = not_until.wait_time_from(clock.now());
                clock.advance(step);
                wait += step;
            }
            waits.push(wait.as_secs());
        }
        assert_eq!(waits, [0, 0, 0, 0, 0, 1, 1, 1]);
        clock.advance(Duration::from_secs(60));
        assert!((0..5).all(|_| limiter.check().is_ok()));
        assert!(limiter.check().is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 6, max_shrink_iters: 20, failure_persistence: None, ..ProptestConfig::default() })]

        /// For a week, a receiver below its limit gets every message without delay, and one above it gets the
        /// limit.
        #[test]
        fn a_week_of_messages_keeps_the_limit(
            per_minute in 1..60_u32,
            share in 10..400_u64,
            suspended_hours in 0..48_u64,
        ) {
            let minutes = 7 * 24 * 60;
            let clock = FakeRelativeClock::default();
            let limiter = RateLimiter::direct_with_clock(send_quota(per_minute), clock.clone());
            // One message in each `gap`: `share` percent of the limit. They wait for their turn.
            let gap = Duration::from_millis(60_000 * 100 / share / u64::from(per_minute));
            let (mut ran, mut sent, mut waiting) = (Duration::ZERO, 0_u64, 0_u64);
            let mut suspend = Some(Duration::from_secs(suspended_hours * 3_600));
            while ran < Duration::from_secs(minutes * 60) {
                waiting += 1;
                while waiting > 0 && limiter.check().is_ok() {
                    waiting -= 1;
                    sent += 1;
                }
                if share <= 100 {
                    prop_assert_eq!(waiting, 0, "below the limit");
                }
                clock.advance(gap);
                ran += gap;
                if ran.as_secs() > minutes * 30 {
                    clock.advance(suspend.take().unwrap_or_default());
                }
            }
            if share > 101 {
                let limit = minutes * u64::from(per_minute);
                let most = limit + 2 * u64::from(SEND_BURST.get());
                prop_assert!((limit * 99 / 100..=most).contains(&sent), "{sent} of {limit}");
            }
        }
    }

    /// Time since the start of the week, which the clock may differ from.
    const SECOND: Millis = 1_000;
    const MINUTE: Millis = 60 * SECOND;
    const START: Millis = 1_780_315_200_000;

    /// Begin or end of the incident number `id`, which began at `since`.
    fn news(id: i64, since: Millis, until: Option<Millis>, now: Millis) -> TickOutput {
        let mut notification = Notification::test("ops", now);
        notification.id = format!("{id} {until:?}");
        notification.rule = "down".into();
        notification.condition = ConditionKind::Down;
        notification.kind = match until {
            Some(_) => NotificationKind::Resolved,
            None => NotificationKind::Firing,
        };
        notification.items[0].id = Some(ServerId(id));
        notification.items[0].since = since;
        notification.items[0].until = until;
        TickOutput {
            notifications: vec![notification],
            ..TickOutput::default()
        }
    }

    /// A queue and its receiver, for a week in simulated time.
    async fn week_of_deliveries(
        outages: &[(i64, i64)],
        jumps: &[(i64, i64)],
    ) -> Result<(), TestCaseError> {
        let history = History::open("sqlite::memory:").await.unwrap();
        let queue = MessageQueue::load(&history, ["ops".to_owned()].into_iter());
        let (queue, _) = queue.await.unwrap();
        let (mut outages, mut jumps) = (outages.iter().cycle(), jumps.iter());
        let (mut time, mut clock) = (0, START);
        let (mut is_away, mut change) = (false, 60 * MINUTE);
        let mut jump = jumps.next();
        // Begins and ends of incidents, and what the receiver has got of each.
        let mut got: BTreeMap<i64, Vec<&str>> = BTreeMap::new();
        let mut ids = 0..;
        let mut open: Option<(i64, Millis)> = None;
        let (mut next_news, mut last_attempt, mut back_at) = (10 * MINUTE, None, 0);
        while time < 7 * 24 * 60 * MINUTE {
            if time >= change {
                is_away = !is_away;
                let (away, here) = outages.next().unwrap();
                change = time + if is_away { *away } else { *here } * MINUTE;
                back_at = time;
                last_attempt = None;
            }
            if let Some((at, size)) = jump
                && time >= at * MINUTE
            {
                // A suspend is longer time; a clock that is set back is not.
                clock += size * MINUTE;
                time += (size * MINUTE).max(0);
                (jump, last_attempt, back_at) = (jumps.next(), None, back_at.max(time));
            }
            if time >= next_news {
                next_news = time + 7 * MINUTE;
                let output = match open.take() {
                    Some((id, since)) => news(id, since, Some(clock), clock),
                    None => {
                        let id = ids.next().unwrap();
                        open = Some((id, clock));
                        news(id, clock, None, clock)
                    }
                };
                queue.push(output).await;
            }
            while let NextStep::Send(messages) = queue.next("ops", clock) {
                let delivery = if is_away {
                    Delivery::Retry("away".into(), None)
                } else {
                    Delivery::Delivered
                };
                for item in messages.iter().flat_map(|sent| &sent.notification.items) {
                    if !is_away {
                        let what = match (item.until, item.is_late) {
                            (None, _) => "begin",
                            (Some(_), false) => "end",
                            (Some(_), true) => "both",
                        };
                        got.entry(item.id.unwrap().0).or_default().push(what);
                    }
                }
                if is_away {
                    last_attempt = Some(time);
                }
                record_delivery(&queue, &messages, delivery, clock, 0).await;
            }
            let waiting = queue.health().waiting["ops"].0;
            if is_away && waiting > 0 {
                let since = time - last_attempt.unwrap_or(back_at.max(next_news - 7 * MINUTE));
                prop_assert!(since <= 31 * SECOND, "no attempt for {since} ms");
            }
            if !is_away && time - back_at > 31 * SECOND {
                prop_assert_eq!(waiting, 0, "all are sent at once");
            }
            time += SECOND;
            clock += SECOND;
        }
        let last = got.len() as i64 - 1;
        for (id, got) in got {
            let is_whole = got == ["begin", "end"] || got == ["both"] || id >= last;
            prop_assert!(is_whole, "{id}: {got:?}");
        }
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 10, failure_persistence: None, ..ProptestConfig::default() })]

        /// The receiver fails from time to time, the machine is suspended, and its clock is set back.
        #[test]
        fn a_week_of_deliveries_loses_and_delays_nothing(
            outages in prop::collection::vec((1..300_i64, 1..600_i64), 1..20),
            jumps in prop::collection::vec((0..10_000_i64, -1_000..1_000_i64), 0..5),
        ) {
            let mut jumps = jumps;
            jumps.sort_unstable();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(week_of_deliveries(&outages, &jumps))?;
        }
    }

    #[test]
    fn rejects_duplicate_and_unknown_names() {
        let check = |toml: &str| {
            let config: AlertConfig =
                toml::from_str(toml).map_err(|error| error.message().to_owned())?;
            config
                .check(Path::new("."))
                .map_err(|error| error.to_string())
        };
        let alert = |name: &str, to: &str| {
            format!("[[alert]]\nname = '{name}'\nwhen = 'down'\nto = {to}\n")
        };
        let receiver = "[[receiver]]\nname = 'ops'\ncommand = ['true']\n";
        assert!(
            check(&format!(
                "page = 'https://status.example'\n{}{receiver}",
                alert("a", "['ops']")
            ))
            .is_ok()
        );
        for (toml, expected) in [
            (
                format!(
                    "{}{}{receiver}",
                    alert("a", "['ops']"),
                    alert("a", "['ops']")
                ),
                "two alerts",
            ),
            (
                format!("{}{receiver}{receiver}", alert("a", "['ops']")),
                "two receivers",
            ),
            (
                format!("{}{receiver}", alert("a", "['opps']")),
                "[[receiver]]",
            ),
            (
                format!("{}{receiver}", alert("a", "['ops', 'ops']")),
                "twice",
            ),
            (
                format!("page = 'status.example'\n{receiver}"),
                "https://HOST",
            ),
            ("pages = 'x'".to_owned(), "pages"),
        ] {
            let error = check(&toml).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        assert!(
            check(receiver)
                .unwrap()
                .test("opps")
                .unwrap_err()
                .contains("configured: ops")
        );
    }
}
