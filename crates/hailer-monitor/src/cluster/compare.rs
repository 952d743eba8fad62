//! Compares the clock of this node with those of Redis and PostgreSQL.
//!
//! A node that is wrong by more than half an interval gives its chunks and the lead back: its
//! samples would have times of another poll. It still shows pages and writes results.
//!
//! In: times of Redis and PostgreSQL. Out: differences, and whether this node may poll.
//!
//! May import: `crate::cluster`, `crate::lock`, `crate::sample`, `hailer`.

use super::{ClockCheck, ClockHealth, Reference, Shared};
use crate::lock::lock;
use crate::sample::{Millis, millis};
use hailer::support::link::RedisConnection;
use redis::{RedisResult, cmd};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Interval of the comparisons.
const COMPARE_INTERVAL: Duration = Duration::from_secs(60);
/// Timeout for the time of PostgreSQL.
const POSTGRES_TIMEOUT: Duration = Duration::from_secs(2);

/// Compares with PostgreSQL every minute, and when the difference to Redis has changed. The
/// heartbeats compare with Redis.
pub(super) async fn run(shared: Arc<Shared>) {
    loop {
        let _ = timeout(COMPARE_INTERVAL, shared.clock_step.notified()).await;
        shared.compare_with_postgres().await;
    }
}

impl Shared {
    /// Without a reply, the last difference is kept.
    pub(super) async fn compare_with_postgres(&self) {
        let sent = self.clock.now();
        let time = timeout(POSTGRES_TIMEOUT, self.history.time()).await;
        if let Ok(Ok(time)) = time {
            self.record_time(Reference::Postgres, time, sent);
        }
    }

    pub(super) async fn compare_with_redis(&self, link: &mut RedisConnection) -> RedisResult<()> {
        let sent = self.clock.now();
        let (seconds, micros): (Millis, Millis) = cmd("TIME").query_async(link).await?;
        self.record_time(Reference::Redis, seconds * 1_000 + micros / 1_000, sent);
        Ok(())
    }

    /// Records the time of a reference, which has just replied to a request of `sent`.
    pub(super) fn record_time(&self, of: Reference, time: Millis, sent: Millis) {
        let now = self.clock.now();
        let has_changed = self.lock_clock_check().record(of, time, sent, now);
        if has_changed && of == Reference::Redis {
            self.clock_step.notify_one();
        }
    }

    /// Returns whether the clock is too wrong for polling.
    pub(super) fn has_wrong_clock(&self) -> bool {
        let interval = millis(self.interval);
        self.lock_clock_check().is_wrong(interval)
    }

    pub(super) fn clock_health(&self) -> ClockHealth {
        let check = *self.lock_clock_check();
        ClockHealth {
            problem: check.warning(),
            stops_polling: check.is_wrong(millis(self.interval)),
        }
    }

    fn lock_clock_check(&self) -> std::sync::MutexGuard<'_, ClockCheck> {
        lock(&self.clock_check)
    }
}
