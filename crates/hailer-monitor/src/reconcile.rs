//! Replaces each half-hour bucket in the state table by that of the history, when the history has
//! all of its samples. So all nodes show the same figures, also if one of them has missed samples.

use crate::clock::WallClock;
use crate::history::{History, HistoryError};
use crate::sample::Millis;
use crate::state::{DAY_BUCKET_MS, StateTable};
use std::sync::Arc;
use std::time::Duration;

/// Interval between checks for a complete half-hour bucket.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Runs until it is dropped.
pub(crate) async fn run(history: History, state: Arc<StateTable>, clock: WallClock) {
    let mut done = 0;
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        // `/healthz` reports a failing history; the next call tries again.
        if let Ok(start) = reconcile(&history, &state, clock.now(), done).await {
            done = start;
        }
    }
}

/// Replaces the last complete half-hour bucket, and the one before, which may have got late
/// samples. Does nothing if the last one starts at `done`. Returns its start.
async fn reconcile(
    history: &History,
    state: &StateTable,
    now: Millis,
    done: Millis,
) -> Result<Millis, HistoryError> {
    let last = now.div_euclid(DAY_BUCKET_MS) * DAY_BUCKET_MS - DAY_BUCKET_MS;
    if last == done {
        return Ok(done);
    }
    let Some(half_hours) = history.half_hour(last).await? else {
        return Ok(done);
    };
    state.replace_half_hour(last, &half_hours);
    let before = last - DAY_BUCKET_MS;
    if let Some(half_hours) = history.half_hour(before).await? {
        state.replace_half_hour(before, &half_hours);
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Batch, Retention};
    use crate::sample::Sample;
    use crate::server::{NewServer, Origin, Server, ServerId};

    const NOW: Millis = 1_795_284_000_000;
    const INTERVAL: Millis = 60_000;

    fn sample(at: Millis, is_answered: bool) -> Sample {
        Sample {
            server: ServerId(1),
            at,
            is_answered,
            players: is_answered.then_some(7),
            max: None,
            latency: None,
            sent: 1,
            resent: 0,
            observed_ms: INTERVAL as u32,
        }
    }

    fn table(server: &Server) -> StateTable {
        let table = StateTable::default();
        table.set(server.clone());
        table
    }

    fn uptime(table: &StateTable, now: Millis) -> f64 {
        f64::from(table.row(ServerId(1)).unwrap().day.uptime(now).unwrap())
    }

    /// Two hours of samples, with a pause of 20 minutes, are written and rolled up. A
    /// process that starts at any minute shows the share of answered samples.
    #[tokio::test]
    async fn uptime_survives_a_restart_at_any_minute() {
        let history = History::open("sqlite::memory:").await.unwrap();
        let new = NewServer::new("a", "ugp://127.0.0.1", Origin::Api);
        let server = history.add(&new).await.unwrap();
        let running = table(&server);
        let (mut answered, mut taken) = (0, 0);
        for minute in 0..120 {
            let now = NOW + minute * INTERVAL;
            if !(50..70).contains(&minute) {
                let sample = sample(now, minute % 8 < 3 || minute > 90);
                answered += u32::from(sample.is_answered);
                taken += 1;
                let samples = vec![sample];
                let batch = Batch {
                    samples,
                    ..Batch::default()
                };
                history.write(&batch).await.unwrap();
                let update = crate::state::Update::of(vec![server.id]);
                running.change(update, |row| row.day.add_sample(&sample, now));
            }
            // The roll-ups run every few minutes, and miss the newest samples.
            if minute % 7 == 3 {
                let keep = Retention::default();
                history.tidy(now, &keep).await.unwrap();
            }
            let expected = f64::from(answered) / f64::from(taken);
            let restarted = table(&server);
            history.load_day(&restarted, now).await.unwrap();
            for (name, table) in [("running", &running), ("restarted", &restarted)] {
                let shown = uptime(table, now);
                assert!(
                    (shown - expected).abs() < 0.0002,
                    "{name}, minute {minute}: {shown}, not {expected}"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_node_that_missed_samples_shows_the_figures_of_the_history() {
        let history = History::open("sqlite::memory:").await.unwrap();
        let new = NewServer::new("a", "ugp://127.0.0.1", Origin::Api);
        let server = history.add(&new).await.unwrap();
        let start = NOW.div_euclid(DAY_BUCKET_MS) * DAY_BUCKET_MS;
        let samples: Vec<Sample> = (0..45)
            .map(|minute| sample(start + minute * INTERVAL, minute % 3 > 0))
            .collect();
        let state = table(&server);
        let update = || crate::state::Update::of(vec![server.id]);
        for sample in samples.iter().step_by(2) {
            state.change(update(), |row| row.day.add_sample(sample, sample.at));
        }
        let batch = Batch {
            samples,
            ..Batch::default()
        };
        history.write(&batch).await.unwrap();
        let now = start + 45 * INTERVAL;
        let incomplete = reconcile(&history, &state, now, 0).await.unwrap();
        assert_eq!(incomplete, 0, "nothing is rolled up yet");
        history.tidy(now, &Retention::default()).await.unwrap();
        let done = reconcile(&history, &state, now, 0).await.unwrap();
        assert_eq!(done, start);
        let uptimes = state.row(server.id).unwrap().day.uptimes(now);
        assert_eq!(uptimes[46], Some(20.0 / 30.0));
    }
}
