//! Work of the leader: alerts and roll-ups. A new leader starts from the database.

use super::Shared;
use crate::alert::{Alerts, CheckedConfig};
use crate::history::Retention;
use crate::node::LeaderAlerts;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{interval, sleep};

/// Interval of roll-ups and deletion of old rows.
const TIDY_INTERVAL: Duration = Duration::from_secs(60);
/// Delay before the database is tried again.
const DATABASE_RETRY_DELAY: Duration = Duration::from_secs(5);

pub(super) async fn run(
    shared: Arc<Shared>,
    keep: Retention,
    alerts: CheckedConfig,
    leader_alerts: LeaderAlerts,
) {
    let mut leads = shared.leads.subscribe();
    loop {
        if leads.wait_for(|leads| *leads).await.is_err() {
            return;
        }
        tokio::select! {
            () = lead(&shared, &keep, &alerts, &leader_alerts) => {}
            () = async { drop(leads.wait_for(|leads| !*leads).await) } => {}
        }
        shared.set_error("lead", None);
        shared.set_error("roll-ups", None);
        // The next leader sends undelivered notifications again.
        leader_alerts.set(None);
    }
}

async fn lead(
    shared: &Shared,
    keep: &Retention,
    alerts: &CheckedConfig,
    leader_alerts: &LeaderAlerts,
) {
    let alerts = loop {
        match Alerts::start(
            alerts.clone(),
            shared.live.clone(),
            &shared.history,
            shared.interval,
        )
        .await
        {
            Ok(alerts) => break Arc::new(alerts),
            Err(error) => shared.set_error("lead", Some(error.to_string())),
        }
        sleep(DATABASE_RETRY_DELAY).await;
    };
    shared.set_error("lead", None);
    leader_alerts.set(Some(alerts));
    let mut each = interval(TIDY_INTERVAL);
    each.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        each.tick().await;
        // The next run does the rest.
        let trouble = match shared.history.tidy(shared.clock.now(), keep).await {
            Ok(()) => None,
            Err(error) => {
                let trouble = format!("roll-ups wait: {error}");
                Some(shared.with_lock_holder(trouble).await)
            }
        };
        shared.set_error("roll-ups", trouble);
    }
}
