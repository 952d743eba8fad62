//! Notifications about doors, by the receivers of `hailer monitor`.
//!
//! Each receiver has a thread, which sends the messages in order. Messages in the queue are lost when
//! the program ends.
//!
//! | limit | value |
//! | --- | --- |
//! | messages that wait for a receiver | 64; more are dropped |
//! | attempts | 6, after pauses of 1 s, doubled each time, or as long as the receiver asks, at most 5 min |
//! | rate | `per-minute` of the receiver, after a burst of 5 |

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use hailer::door::State;
use hailer_monitor::alert::{Delivery, Notification, OpenReceiver};
use std::num::NonZeroU32;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};
use tracing::warn;

/// Maximum number of messages that wait for a receiver.
const MAX_WAITING: usize = 64;
/// Attempts to deliver a message.
const ATTEMPTS: u32 = 6;
/// Pause after the first failed attempt.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// Messages of a receiver that are not delayed.
const BURST: NonZeroU32 = NonZeroU32::new(5).expect("not 0");
/// Time between checks of the rate limit.
const LIMIT_CHECK: Duration = Duration::from_millis(200);

/// Sends notifications to all receivers.
pub(super) struct Notifier {
    /// Names and queues of the receivers.
    queues: Vec<(String, SyncSender<Notification>)>,
}

impl Notifier {
    /// Starts a thread for each receiver. The threads end after the notifier, when their queue is
    /// empty.
    pub(super) fn new(receivers: &[OpenReceiver]) -> Self {
        let mut queues = Vec::new();
        for receiver in receivers {
            let (sender, queue) = sync_channel(MAX_WAITING);
            let name = receiver.name.clone();
            let receiver = receiver.clone();
            let thread = std::thread::Builder::new()
                .name("notify".into())
                .spawn(move || deliver(&receiver, &queue));
            match thread {
                Ok(_) => queues.push((name, sender)),
                Err(error) => warn!("receiver {name}: {error}; it gets no messages"),
            }
        }
        Self { queues }
    }

    /// Sends a message that the game behind a door is in another state. Never blocks.
    pub(super) fn door(&self, server: &str, state: State, line: &str, is_failure: bool) {
        let notification = Notification::door(server, state.name(), line, is_failure, now());
        for (name, queue) in &self.queues {
            if queue.try_send(notification.clone()).is_err() {
                warn!("receiver {name}: {MAX_WAITING} messages wait; dropping another");
            }
        }
    }
}

/// Returns the time in Unix milliseconds.
fn now() -> i64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    time.unwrap_or_default().as_millis() as i64
}

/// Sends the messages of a queue until it ends.
fn deliver(receiver: &OpenReceiver, queue: &Receiver<Notification>) {
    let per_minute = NonZeroU32::new(receiver.per_minute).unwrap_or(BURST);
    let limiter: DefaultDirectRateLimiter =
        RateLimiter::direct(Quota::per_minute(per_minute).allow_burst(BURST));
    while let Ok(notification) = queue.recv() {
        while limiter.check().is_err() {
            std::thread::sleep(LIMIT_CHECK);
        }
        if let Err(why) = send(receiver, &notification, FIRST_PAUSE) {
            let name = &receiver.name;
            warn!("receiver {name}: {why}; a message about a door is lost");
        }
    }
}

/// Sends a message, with retries. Returns why the last attempt failed.
fn send(
    receiver: &OpenReceiver,
    notification: &Notification,
    mut pause: Duration,
) -> Result<(), String> {
    let mut attempt = 1;
    loop {
        let messages = std::slice::from_ref(notification);
        match receiver.send(messages, &notification.id, None, now()) {
            Delivery::Delivered => return Ok(()),
            Delivery::Rejected(why) => return Err(why),
            Delivery::Retry(why, _) if attempt == ATTEMPTS => return Err(why),
            Delivery::Retry(_, after) => {
                std::thread::sleep(after.unwrap_or(pause).min(MAX_PAUSE));
                pause *= 2;
                attempt += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_testkit::api;
    use std::path::Path;

    fn receiver(form: &str, url: &str) -> OpenReceiver {
        let text = format!("name = \"ops\"\nform = \"{form}\"\nurl = \"{url}\"\n");
        let receiver: hailer_monitor::alert::Receiver = toml::from_str(&text).unwrap();
        receiver.open(Path::new(".")).unwrap()
    }

    #[test]
    fn changes_are_sent_in_order() {
        let fake = api::Receiver::new();
        let receivers = [
            receiver("json", fake.url()),
            receiver("discord", fake.url()),
        ];
        let notifier = Notifier::new(&receivers);
        notifier.door(
            "survival",
            State::Starting,
            "starting: \"@everyone\" joins",
            false,
        );
        notifier.door(
            "survival",
            State::Failed,
            "the start failed: no answer",
            true,
        );
        let requests = fake.wait(4);
        let bodies: Vec<serde_json::Value> = requests
            .iter()
            .map(|request| serde_json::from_str(&request.body).unwrap())
            .collect();
        let json: Vec<_> = bodies
            .iter()
            .filter(|body| body["schema"].is_string())
            .collect();
        let alert = |number: usize, key: &str| json[number]["alerts"][0][key].clone();
        assert_eq!(json[0]["title"], "survival is starting");
        assert_eq!(json[0]["text"], "survival: starting: \"@everyone\" joins");
        assert_eq!(json[1]["title"], "survival is failed");
        assert_eq!(
            (alert(0, "kind"), alert(1, "kind")),
            ("resolved".into(), "firing".into())
        );
        assert_eq!(alert(1, "condition"), "door");
        let discord = bodies
            .iter()
            .find(|body| body["embeds"].is_array())
            .unwrap();
        let text = discord["embeds"][0]["description"].as_str().unwrap();
        assert!(text.contains("@\u{200B}everyone"), "{text}");
    }

    #[test]
    fn failed_deliveries_are_repeated() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", closed.local_addr().unwrap());
        drop(closed);
        let notification = Notification::door("survival", "failed", "why", true, 1);
        let error = send(
            &receiver("json", &url),
            &notification,
            Duration::from_millis(1),
        );
        assert!(error.unwrap_err().contains("127.0.0.1"));
    }
}
