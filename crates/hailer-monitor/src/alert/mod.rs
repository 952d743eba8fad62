//! Alerts: what is worth telling, to whom, and that it arrives.
//!
//! ```text
//!   StateTable ─► Engine ─► Firing ─► Queue ─► render ─► Outlet ─► webhook
//!           rules     quiet?    SQL      form                command
//! ```
//!
//! A [`Rule`] watches servers; the [`AlertEngine`], sans-IO, says what is so, and what is over. A [`Notification`] is a message before it is put
//! into words. The queue writes it into the history's database; then a task for each [`Receiver`] sends what is there, one after
//! the other, again and again if need be: **at least once**. Whoever is killed between sending and writing sends again, with the same
//! `Idempotency-Key`, by which receivers may drop doubles.
//!
//! In quiet hours messages are written as any others, and sent when it is over, those of one end as one.
//!
//! | what | bound |
//! | --- | --- |
//! | episodes | one for each rule and server of which it is so, some 80 bytes |
//! | servers in a message | [`MAX_LISTED_SERVERS`], of the others it says how many |
//! | messages | one a minute for each rule and kind (`gather`), repetitions as rarely |
//! | messages that wait | 1,000 for each receiver, then the oldest are given up, as is what is a day old |
//! | messages on their way | one for each receiver, on a thread of its own |
//! | what is remembered of messages | 30 days |
//!
//! The monitor tells of its own silence (`when = "monitor-silent"`): it lives, and takes no samples. A process that is dead tells
//! nothing; somebody else must watch `/healthz`.

mod deliver;
mod engine;
mod message;
mod queue;
mod quiet;
mod rule;

pub use deliver::{Delivery, OpenReceiver, Receiver, test};
pub use engine::{
    AffectedServer, AlertEngine, MAX_LISTED_SERVERS, Notification, NotificationKind, OpenIncident,
    TickOutput,
};
pub use message::{Form, Rendered, Template, placeholders, render};
pub use queue::{MessageState, QueuedMessage};
pub use quiet::QuietHours;
pub use rule::{Change, Condition, MessageConfig, Priority, Rule, RuleError, ServerFilter};

use crate::history::{History, HistoryError};
use crate::poll::unix_millis as now;
use crate::sample::Millis;
use crate::server::{Server, ServerId};
use crate::state::{ServerRow, StateTable};
use queue::{MessageQueue, NextStep};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinHandle;

/// Rules of a plan.
const MAX_RULES: usize = 1_000;
/// What waits for so long is given up.
const MAX_MESSAGE_AGE: Millis = 24 * 3_600_000;
/// The first pause before a message is sent again; each is twice as long as the one before.
const MIN_BACKOFF: Millis = 1_000;
/// And none is longer.
const MAX_BACKOFF: Millis = 15 * 60_000;
/// Messages to one receiver that may go at once.
const SEND_BURST: u32 = 5;
/// How often rules are asked what is to be told.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// In ticks: how often the database is offered what it did not take, and how often old messages are forgotten.
const TICKS_PER_WRITE: u64 = 10;
const TICKS_PER_CLEANUP: u64 = 3_600;

/// What a plan says of alerts: `[[alert]]` and `[[receiver]]`, and where the page is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct AlertConfig {
    /// What is worth telling.
    #[serde(default, rename = "alert")]
    pub rules: Vec<Rule>,
    /// Who is told.
    #[serde(default, rename = "receiver")]
    pub receivers: Vec<Receiver>,
    /// Where people find the page, for links in messages: `https://status.example.com`.
    pub page: Option<String>,
}

/// A plan that holds together, with its secrets read.
#[derive(Clone, Debug, Default)]
pub struct CheckedConfig {
    rules: Vec<Rule>,
    outlets: Vec<OpenReceiver>,
    page: Option<String>,
}

impl AlertConfig {
    /// Checks that names are unique and known, and reads secrets; relative paths count from `folder`.
    ///
    /// # Errors
    /// What is wrong, and what to do.
    pub fn check(self, folder: &Path) -> Result<CheckedConfig, RuleError> {
        let Self {
            rules,
            receivers,
            page,
        } = self;
        if rules.len() > MAX_RULES {
            return Err(RuleError(format!(
                "{} alerts, of {MAX_RULES} at the most; let patterns name more servers",
                rules.len()
            )));
        }
        let twice = |names: Vec<&str>| {
            let mut seen = std::collections::BTreeSet::new();
            names
                .into_iter()
                .find(|name| !seen.insert(name.to_owned()))
                .map(str::to_owned)
        };
        if let Some(name) = twice(rules.iter().map(|rule| rule.name.as_str()).collect()) {
            return Err(RuleError(format!(
                "two alerts are called \"{name}\"; give one another name"
            )));
        }
        if let Some(name) = twice(
            receivers
                .iter()
                .map(|receiver| receiver.name.as_str())
                .collect(),
        ) {
            return Err(RuleError(format!(
                "two receivers are called \"{name}\"; give one another name"
            )));
        }
        for rule in &rules {
            if let Some(name) = twice(rule.to.iter().map(String::as_str).collect()) {
                return Err(RuleError(format!(
                    "alert \"{}\" names receiver \"{name}\" twice; once is enough",
                    rule.name
                )));
            }
            for name in &rule.to {
                if !receivers.iter().any(|receiver| receiver.name == *name) {
                    let known: Vec<&str> = receivers
                        .iter()
                        .map(|receiver| receiver.name.as_str())
                        .collect();
                    let known = if known.is_empty() {
                        "there is none".into()
                    } else {
                        known.join(", ")
                    };
                    return Err(RuleError(format!(
                        "alert \"{}\" is for receiver \"{name}\", which is not in the plan ({known}); write a [[receiver]] block",
                        rule.name
                    )));
                }
            }
        }
        if page
            .as_ref()
            .is_some_and(|page| deliver::host(page).is_err())
        {
            return Err(RuleError(
                "page is the URL of the page; write page = \"https://HOST\"".into(),
            ));
        }
        let outlets = receivers
            .iter()
            .map(|receiver| receiver.open(folder))
            .collect::<Result<_, _>>()?;
        Ok(CheckedConfig {
            rules,
            outlets,
            page,
        })
    }
}

/// What the history knows of alerts, whoever sends them: what is so now, and the last messages, the newest first.
///
/// # Errors
/// If the history cannot be read.
pub async fn past(
    history: &History,
    messages: u32,
) -> Result<(Vec<OpenIncident>, Vec<QueuedMessage>), HistoryError> {
    Ok((
        queue::open(history).await?,
        queue::log(history, i64::MAX, messages).await?,
    ))
}

impl CheckedConfig {
    /// What is told.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Who can be told.
    pub fn receivers(&self) -> impl Iterator<Item = &OpenReceiver> {
        self.outlets.iter()
    }

    /// Sends a test to a receiver, at once, and blocks until it arrived or did not.
    ///
    /// # Errors
    /// Why it did not arrive.
    pub fn test(&self, receiver: &str) -> Result<(), String> {
        test(self.outlet(receiver)?, self.page.as_deref(), now())
    }

    fn outlet(&self, receiver: &str) -> Result<&OpenReceiver, String> {
        let known = || {
            self.outlets
                .iter()
                .map(|outlet| outlet.name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let outlet = self.outlets.iter().find(|outlet| outlet.name == receiver);
        outlet.ok_or_else(|| format!("there is no receiver \"{receiver}\"; there is {}", known()))
    }
}

/// Alerts at work. Dropping it ends them; what is on its way is sent when it is started again.
#[derive(Debug)]
pub struct Alerts {
    plan: Arc<CheckedConfig>,
    engine: Arc<Mutex<AlertEngine>>,
    queue: Arc<MessageQueue>,
    tasks: Vec<JoinHandle<()>>,
}

/// How alerts are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AlertHealth {
    /// By receiver: how many messages wait, and why the first did not arrive yet.
    pub waiting: BTreeMap<String, (usize, String)>,
    /// Messages that arrived since the start.
    pub delivered: u64,
    /// Tries in vain since the start.
    pub failed: u64,
    /// Messages given up since the start.
    pub given_up: u64,
    /// The last of those: its receiver, and why.
    pub last_given_up: Option<String>,
    /// Why the database does not take what is to be written; `None`: it does.
    pub failure: Option<String>,
}

impl Alerts {
    /// Starts: tells what `live` shows, and sends what was on its way. `interval` is that of servers without one of their own.
    ///
    /// # Errors
    /// If the history cannot be read.
    pub async fn start(
        plan: CheckedConfig,
        live: Arc<StateTable>,
        history: &History,
        interval: Duration,
    ) -> Result<Self, HistoryError> {
        let (queue, open) = MessageQueue::load(
            history,
            plan.outlets.iter().map(|outlet| outlet.name.clone()),
        )
        .await?;
        // Of a rule that left the plan, nothing is over and nothing goes on.
        let has_left = |open: &&OpenIncident| !plan.rules.iter().any(|rule| rule.name == open.rule);
        let closed = open
            .iter()
            .filter(has_left)
            .map(|open| (open.rule.clone(), open.server))
            .collect();
        queue
            .push(TickOutput {
                closed,
                ..TickOutput::default()
            })
            .await;
        let queue = Arc::new(queue);
        let engine = Arc::new(Mutex::new(AlertEngine::new(plan.rules.clone(), &open)));
        let plan = Arc::new(plan);
        let mut tasks = vec![tokio::spawn(watch(
            engine.clone(),
            queue.clone(),
            live,
            interval,
        ))];
        for outlet in &plan.outlets {
            tasks.push(tokio::spawn(deliver(
                outlet.clone(),
                plan.page.clone(),
                queue.clone(),
            )));
        }
        Ok(Self {
            plan,
            engine,
            queue,
            tasks,
        })
    }

    /// Sends a test to a receiver, at once.
    ///
    /// # Errors
    /// Why it did not arrive.
    pub async fn test(&self, receiver: &str) -> Result<(), String> {
        let (plan, receiver) = (self.plan.clone(), receiver.to_owned());
        on_a_thread(move || plan.test(&receiver))
            .await
            .unwrap_or_else(|| Err("the system gives us no thread".into()))
    }

    /// The plan.
    pub fn plan(&self) -> &CheckedConfig {
        &self.plan
    }

    /// The rules that watch a server.
    pub fn rules_of(&self, server: &Server) -> Vec<Rule> {
        self.plan
            .rules
            .iter()
            .filter(|rule| rule.watches(server))
            .cloned()
            .collect()
    }

    /// What was told and is not over, of one server or of all.
    pub fn open(&self, server: Option<ServerId>) -> Vec<OpenIncident> {
        lock(&self.engine).open(server)
    }

    /// The last messages, the newest first, before the one of this number.
    ///
    /// # Errors
    /// If the history cannot be read.
    pub async fn log(&self, before: i64, limit: u32) -> Result<Vec<QueuedMessage>, HistoryError> {
        self.queue.log(before, limit).await
    }

    /// How alerts are.
    pub fn health(&self) -> AlertHealth {
        self.queue.health()
    }
}

impl Drop for Alerts {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Shows the engine what changes, and passes on what is to be told.
async fn watch(
    engine: Arc<Mutex<AlertEngine>>,
    queue: Arc<MessageQueue>,
    live: Arc<StateTable>,
    interval: Duration,
) {
    let mut updates = live.listen();
    let mut ticks = tokio::time::interval(TICK_INTERVAL);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let interval = millis(interval);
    let look_at_all = || {
        let now = now();
        let mut engine = lock(&engine);
        let mut shortest = None;
        live.pick(|row| {
            engine.sample(row, now);
            let own = row.server.interval.map_or(interval, millis);
            shortest = Some(shortest.map_or(own, |shortest: Millis| shortest.min(own)));
            None::<()>
        });
        engine.watches(shortest);
    };
    let mut is_other = true;
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
                    for id in &update.servers {
                        match live.row(*id) {
                            Some(row) => engine.sample(&row, now),
                            None => engine.forget(|watched| watched == *id),
                        }
                    }
                    for event in &update.events {
                        if let Some(row) = live.row(event.server) {
                            engine.event(&row.server, event);
                        }
                    }
                    is_other |= update.list_changed;
                }
                // We were slow: how things stand counts, not how they came to.
                Err(RecvError::Lagged(_)) => is_other = true,
                Err(RecvError::Closed) => return,
            }
        }
        // Once, when a plan adds ten thousand.
        if std::mem::take(&mut is_other) {
            look_at_all();
        }
        let told = lock(&engine).tick(now(), |id: ServerId| -> Option<ServerRow> { live.row(id) });
        if told != TickOutput::default() {
            queue.push(told).await;
        }
        if tick.is_multiple_of(TICKS_PER_WRITE) {
            queue.write().await;
        }
        if tick.is_multiple_of(TICKS_PER_CLEANUP) {
            // Those that left while we were slow, or were away.
            lock(&engine).forget(|id| live.row(id).is_none());
            // What fails today is done tomorrow.
            let _ = queue.tidy(now()).await;
        }
    }
}

/// Sends what waits for a receiver, in order.
async fn deliver(outlet: OpenReceiver, page: Option<String>, queue: Arc<MessageQueue>) {
    let news = queue.news(&outlet.name);
    let mut pace = SendLimiter::new(outlet.per_minute);
    loop {
        let messages = match queue.next(&outlet.name, now()) {
            NextStep::Send(messages) => messages,
            NextStep::Nothing => {
                news.notified().await;
                continue;
            }
            NextStep::Wait(due) => {
                // Not for long at once, since the clock may be set.
                let wait = Duration::from_millis((due - now()).clamp(1, 30_000) as u64);
                tokio::select! {
                    () = news.notified() => {}
                    () = tokio::time::sleep(wait) => {}
                }
                continue;
            }
        };
        tokio::time::sleep(pace.wait(Instant::now())).await;
        let (outlet, page) = (outlet.clone(), page.clone());
        let sent = messages.clone();
        let outcome = on_a_thread(move || {
            let notifications: Vec<Notification> = sent
                .iter()
                .map(|message| (*message.notification).clone())
                .collect();
            outlet.send(&notifications, &queue::id_of(&sent), page.as_deref(), now())
        });
        let outcome = outcome
            .await
            .unwrap_or_else(|| Delivery::Retry("the system gives us no thread".into(), None));
        match outcome {
            Delivery::Delivered => queue.finish(&messages, MessageState::Done, "").await,
            Delivery::Rejected(why) => queue.finish(&messages, MessageState::GivenUp, &why).await,
            Delivery::Retry(why, after) => {
                let now = now();
                let first = messages.first().map_or(now, |message| message.made);
                let attempts = messages
                    .iter()
                    .map(|message| message.attempts)
                    .max()
                    .unwrap_or(0);
                // Who says "at once" again and again is not asked at once again and again.
                let pause = pause(attempts, random()).max(after.map_or(0, millis));
                if now + pause - first > MAX_MESSAGE_AGE {
                    let why = format!("given up after a day, at the last: {why}");
                    queue.finish(&messages, MessageState::GivenUp, &why).await;
                } else {
                    queue.again(&messages, now + pause, &why).await;
                }
            }
        }
    }
}

/// How long to wait before the next try: twice as long each time, and shorter by chance, so that not all come back at once.
fn pause(attempts: u32, chance: u32) -> Millis {
    let whole = MIN_BACKOFF
        .saturating_mul(1 << attempts.min(16))
        .min(MAX_BACKOFF);
    whole - whole / 2 * i64::from(chance % 1_024) / 1_024
}

/// No more messages than a receiver wants: the generic cell rate algorithm.
#[derive(Debug)]
struct SendLimiter {
    each: Duration,
    /// When the next would go if all went evenly.
    next: Option<Instant>,
}

impl SendLimiter {
    fn new(per_minute: u32) -> Self {
        Self {
            each: Duration::from_secs(60) / per_minute.max(1),
            next: None,
        }
    }

    /// Counts one, and says how long to wait with it.
    fn wait(&mut self, now: Instant) -> Duration {
        let next = self.next.filter(|next| *next > now).unwrap_or(now);
        self.next = Some(next + self.each);
        next.saturating_duration_since(now)
            .saturating_sub(self.each * (SEND_BURST - 1))
    }
}

/// Does something that blocks. `None`: there is no thread for it. Nobody waits for it when the process ends.
async fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let work = move || drop(sender.send(work()));
    std::thread::Builder::new()
        .name("alert".into())
        .spawn(work)
        .ok()?;
    receiver.await.ok()
}

fn lock(engine: &Mutex<AlertEngine>) -> MutexGuard<'_, AlertEngine> {
    engine.lock().unwrap_or_else(PoisonError::into_inner)
}

fn millis(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis())
        .unwrap_or(Millis::MAX)
        .min(1 << 50)
}

/// Without chance all pauses are whole, no more.
fn random() -> u32 {
    getrandom::u32().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        assert_eq!(pause(0, 0), MIN_BACKOFF);
        assert!((MIN_BACKOFF / 2..MIN_BACKOFF).contains(&pause(0, 1_023)));
        assert_eq!((pause(1, 0), pause(3, 0)), (2_000, 8_000));
        assert_eq!(pause(u32::MAX, 0), MAX_BACKOFF);
    }

    #[test]
    fn a_few_at_once_then_evenly() {
        let mut pace = SendLimiter::new(60);
        let now = Instant::now();
        let waits: Vec<u64> = (0..8).map(|_| pace.wait(now).as_secs()).collect();
        assert_eq!(waits, [0, 0, 0, 0, 0, 1, 2, 3]);
        assert_eq!(pace.wait(now + Duration::from_secs(60)), Duration::ZERO);
    }

    #[test]
    fn a_plan_holds_together() {
        let check = |toml: &str| {
            let plan: AlertConfig =
                toml::from_str(toml).map_err(|error| error.message().to_owned())?;
            plan.check(Path::new("."))
                .map_err(|wrong| wrong.to_string())
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
        for (toml, says) in [
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
            assert!(error.contains(says), "{error}");
        }
        assert!(
            check(receiver)
                .unwrap()
                .test("opps")
                .unwrap_err()
                .contains("there is ops")
        );
    }
}
