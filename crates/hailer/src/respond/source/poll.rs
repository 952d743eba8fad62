//! Polls the real server in any protocol. The responder then shields it and translates its status.

use super::{ProblemLog, SourceEvent, TimedStatus, kept, now};
use crate::client::{Client, ClientConfig};
use crate::target::Target;
use hailer_proto::Status;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Shortest interval between polls.
pub const MIN_EVERY: Duration = Duration::from_secs(1);
/// Shortest time between log lines about a server that does not answer.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A server to poll.
#[derive(Clone, Debug)]
pub struct Poll {
    /// The server. Without a protocol, the first answer in any protocol counts.
    pub target: Target,
    /// Interval between polls, varied by a tenth so that many pollers do not poll at the same
    /// moment. At least [`MIN_EVERY`].
    pub every: Duration,
    /// Whether the address that the server reports for itself is passed on. It is often a private
    /// one.
    pub has_address: bool,
    /// Queries to send, and their limits.
    pub config: ClientConfig,
}

impl Poll {
    /// Polls everything every 5 s.
    pub fn new(target: Target) -> Self {
        Self {
            target,
            every: Duration::from_secs(5),
            has_address: false,
            config: ClientConfig::default(),
        }
    }

    /// Polls until the receiver is dropped. Without an answer the last status stays in use.
    /// Problems are reported to `say`, as log lines at most once a minute.
    pub async fn run(
        self,
        statuses: watch::Sender<Option<TimedStatus>>,
        mut report: impl FnMut(SourceEvent) + Send,
    ) {
        let client = Client::new(self.config.clone());
        let mut problems = ProblemLog::new(LOG_INTERVAL, 1);
        loop {
            let polled_at = Instant::now();
            match client.query(&self.target).await {
                Ok(answer) => {
                    problems
                        .recovered(format!("{}: replies again", self.target))
                        .map(&mut report);
                    let status = Arc::new(self.cleaned(*answer.status));
                    // The status was valid when the query began; a slow answer does not make it
                    // younger.
                    statuses.send_replace(Some(TimedStatus {
                        status,
                        since: polled_at.into_std(),
                    }));
                }
                Err(error) => {
                    let problem = format!("{}: {error}{}", self.target, kept(&statuses));
                    report(problems.event(problem, now()));
                }
            }
            tokio::select! {
                () = sleep_until(polled_at + jittered(self.every.max(MIN_EVERY))) => {}
                () = statuses.closed() => return,
            }
        }
    }

    fn cleaned(&self, mut status: Status) -> Status {
        // Deviations are about the bytes of the polled server.
        status.deviations.clear();
        if !self.has_address {
            status.address = None;
        }
        status
    }
}

/// Varies a time by up to a tenth.
fn jittered(every: Duration) -> Duration {
    let random = f64::from(getrandom::u32().unwrap_or(u32::MAX / 2)) / f64::from(u32::MAX);
    every.mul_f64(0.9 + random / 5.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::model::Address;

    #[test]
    fn does_not_pass_on_the_address() {
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
        poll.has_address = true;
        assert_eq!(poll.cleaned(status).address, address);
    }

    #[test]
    fn varies_the_interval_by_a_tenth() {
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
