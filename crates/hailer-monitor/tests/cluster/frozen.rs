//! Nodes whose way to PostgreSQL stops in the middle of a write.

use super::monitor::{INTERVAL, Process};
use super::{databases, farm, samples, until};
use hailer_monitor::sample::{Millis, unix_millis};
use std::time::Duration;

const SERVERS: u32 = 600;
/// The lease that follows from [`INTERVAL`].
const LEASE: Duration = Duration::from_millis(1_500);

#[tokio::test(flavor = "multi_thread")]
async fn others_store_every_sample_of_a_node_that_is_frozen_in_a_write() {
    let databases = databases("frozen-node", SERVERS, farm).await;
    let Some((postgres, redis, pool, _)) = databases else {
        return;
    };
    let (before, before_url) = postgres.proxy("postgres");
    let (after, after_url) = postgres.proxy("postgres");
    // It leads, so the roll-ups stop too.
    let one = Process::start(&redis.url(), &before_url);
    let two = Process::start(&redis.url(), &after_url);
    let three = Process::start(&redis.url(), &postgres.url());
    let few = Duration::from_secs(15);
    let begun = unix_millis();
    until("each server has samples", few, async || {
        let samples = samples(&pool).await;
        let twice = samples.values().filter(|times| times.len() > 1);
        twice.count() == SERVERS as usize
    })
    .await;

    // The first message with an array of times: one write never arrives, the reply to the other
    // does not.
    before.freeze_at(0, false, "{1");
    after.freeze_at(0, true, "{1");
    until("both are frozen", few, async || {
        before.is_frozen() && after.is_frozen()
    })
    .await;
    let frozen = unix_millis();
    let took = until("others write what they poll", few, async || {
        let samples = samples(&pool).await;
        samples
            .values()
            .filter(|times| *times.last().unwrap() > frozen)
            .count()
            == SERVERS as usize
    })
    .await;
    assert!(
        took < INTERVAL + 2 * LEASE + Duration::from_secs(2),
        "{took:?}"
    );
    until("the frozen nodes report it", 2 * few, async || {
        [&one, &two].into_iter().all(|node| {
            let health = node.api("GET", "health", None);
            health.contains("PostgreSQL has not replied for 10s to a write of")
        })
    })
    .await;
    assert!(
        three
            .api("GET", "health", None)
            .contains(r#""status":"ok""#)
    );
    let interval = INTERVAL.as_millis() as Millis;
    let samples = samples(&pool).await;
    for (server, times) in samples {
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(
            gaps.max() == Some(interval),
            "server {server}: {times:?}, since {begun}"
        );
    }
    for proxy in [before, after] {
        proxy.thaw();
    }
}
