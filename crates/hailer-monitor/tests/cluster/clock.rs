//! Nodes whose clocks are wrong.

use super::monitor::{INTERVAL, Process};
use super::{count, databases, farm_until, owners, samples, until};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SERVERS: u32 = 600;
const TEN_MINUTES: i64 = 600_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_clock_is_reported_and_freezes_no_server() {
    static IS_OVER: AtomicBool = AtomicBool::new(false);
    let databases = databases("clock", SERVERS, || farm_until(&IS_OVER)).await;
    let Some((postgres, redis, pool, _)) = databases else {
        return;
    };
    let mut raw = redis.raw();
    let few = Duration::from_secs(12);
    let ahead = Process::with_clock(&redis.url(), &postgres.url(), TEN_MINUTES);
    let mut right = Process::start(&redis.url(), &postgres.url());
    until("each server has a sample", few, async || {
        samples(&pool).await.len() == SERVERS as usize
    })
    .await;
    assert_eq!(owners(&mut raw).len(), 1, "a wrong node polls nothing");
    let health = ahead.api("GET", "health", None);
    assert!(
        health.contains("600.0 s ahead of that of Redis") && health.contains("does not poll"),
        "{health}"
    );
    assert!(health.contains(r#""status":"failing""#), "{health}");
    assert!(
        right
            .api("GET", "health", None)
            .contains(r#""status":"ok""#)
    );
    let now = hailer_monitor::sample::unix_millis();
    let newest = samples(&pool).await.into_values().flatten().max().unwrap();
    assert!(newest <= now, "{} ms in the future", newest - now);

    // The clock of the node that polls is set forward while a third node is there.
    let third = Process::start(&redis.url(), &postgres.url());
    until("two nodes share the servers", few, async || {
        owners(&mut raw).len() == 2
    })
    .await;
    right.set_clock(TEN_MINUTES);
    let took = until("it gives its servers away", few, async || {
        owners(&mut raw).len() == 1
    })
    .await;
    assert!(took < 2 * INTERVAL, "{took:?}");

    // Its samples in the future do not hide that the servers stop.
    IS_OVER.store(true, Ordering::Relaxed);
    for node in [&third, &right, &ahead] {
        until("every server is shown as down", 3 * few, async || {
            let totals = node.api("GET", "totals", None);
            totals.contains(&format!(r#""down":{SERVERS}"#))
        })
        .await;
    }
    until("the history has it too", few, async || {
        let down = "SELECT COUNT(*) FROM state WHERE state = 'down'";
        count(&pool, down).await == i64::from(SERVERS)
    })
    .await;
    right.set_clock(0);
    until("its clock is right again", few, async || {
        right
            .api("GET", "health", None)
            .contains("agrees with Redis")
            && owners(&mut raw).len() == 2
    })
    .await;
}
