//! Hailer asks the real server, by any protocol that it speaks: what it answers for it is a shield and a translator.

use super::{Complaint, SourceEvent, TimedStatus, kept, now};
use crate::client::{Client, ClientConfig};
use crate::target::Target;
use hailer_proto::Status;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Nobody is asked more often: once in a second is more than any list needs.
pub const MIN_EVERY: Duration = Duration::from_secs(1);
/// Lines about a server that does not answer come at most so often.
const COMPLAIN: Duration = Duration::from_secs(60);

/// A server to ask again and again.
#[derive(Clone, Debug)]
pub struct Poll {
    /// Whom. Without a protocol the first answer counts, whichever protocol it is in.
    pub target: Target,
    /// How often, give or take a tenth, so that many who poll do not ask in step. At least [`MIN_EVERY`].
    pub every: Duration,
    /// Whether the address that the server believes to have is handed on. It is often a private one, and never where
    /// those who ask here are to go.
    pub keep_address: bool,
    /// What to ask and how patiently.
    pub settings: ClientConfig,
}

impl Poll {
    /// Asks every five seconds, for everything.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            every: Duration::from_secs(5),
            keep_address: false,
            settings: ClientConfig::default(),
        }
    }

    /// Asks until nobody listens any more. When there is no answer the last one stands, and `say` is told, at most once
    /// a minute.
    pub async fn run(
        self,
        truths: watch::Sender<Option<TimedStatus>>,
        mut say: impl FnMut(SourceEvent) + Send,
    ) {
        let client = Client::new(self.settings.clone());
        let mut complaint = Complaint::new(COMPLAIN, 1);
        loop {
            let asked = Instant::now();
            match client.query(&self.target).await {
                Ok(answer) => {
                    complaint
                        .over(format!("{}: answers again", self.target))
                        .map(&mut say);
                    let status = Arc::new(self.cleaned(*answer.status));
                    // True when it was asked at the earliest; an answer that took long is not younger for that.
                    truths.send_replace(Some(TimedStatus {
                        status,
                        since: asked.into_std(),
                    }));
                }
                Err(error) => {
                    let problem = format!("{}: {error}{}", self.target, kept(&truths));
                    say(complaint.word(problem, now()));
                }
            }
            tokio::select! {
                () = sleep_until(asked + jittered(self.every.max(MIN_EVERY))) => {}
                () = truths.closed() => return,
            }
        }
    }

    fn cleaned(&self, mut status: Status) -> Status {
        // They are about the bytes of that answer, not about ours.
        status.deviations.clear();
        if !self.keep_address {
            status.address = None;
        }
        status
    }
}

/// Give or take a tenth.
fn jittered(every: Duration) -> Duration {
    let random = f64::from(getrandom::u32().unwrap_or(u32::MAX / 2)) / f64::from(u32::MAX);
    every.mul_f64(0.9 + random / 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::model::Address;

    #[test]
    fn a_private_address_stays_private() {
        let address = Some(Address {
            host: Some("10.0.0.7".into()),
            port: Some(25565),
        });
        let status = Status {
            address: address.clone(),
            ..Status::default()
        };
        let mut poll = Poll::new("ugp://127.0.0.1".parse().unwrap());
        assert_eq!(poll.cleaned(status.clone()).address, None);
        poll.keep_address = true;
        assert_eq!(poll.cleaned(status).address, address);
    }

    #[test]
    fn the_pace_is_about_what_was_asked_for() {
        let times: Vec<_> = (0..1000)
            .map(|_| jittered(Duration::from_secs(10)).as_secs_f64())
            .collect();
        assert!(
            times.iter().all(|time| (8.9..=11.1).contains(time)),
            "{times:?}"
        );
        assert!(times.iter().any(|time| *time < 9.5) && times.iter().any(|time| *time > 10.5));
    }
}
