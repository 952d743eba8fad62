//! Health of the monitor itself: `/healthz` and the notice on the pages.

use super::Api;
use crate::cached::Expiry;
use crate::lock::lock;
use crate::monitor_health::{ClockHealth, HistoryHealth, MonitorHealth};
use crate::sample::{Millis, millis, unix_millis};
use crate::state::StateTable;
use crate::web::{Notice, show};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hailer::proto::wire::counted;
use serde::Serialize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time for a poll to finish and its sample to arrive, in milliseconds.
const SAMPLE_GRACE_MS: Millis = 30_000;
/// Share of missed samples above which the monitor counts as overloaded, in thousandths.
const MAX_MISSED_PER_MILLE: u64 = 10;
/// How long the text of the notice is cached.
const NOTICE_MAX_AGE: Duration = Duration::from_secs(1);
/// Minimum length of the period in which missed samples are counted, in milliseconds.
const MISSED_WINDOW_MS: Millis = 120_000;

/// Counts at two earlier times.
#[derive(Default)]
pub(super) struct CountWindow(Mutex<[Option<HealthCounts>; 2]>);

#[derive(Clone, Copy)]
struct HealthCounts {
    at: Millis,
    samples: u64,
    missed: u64,
}

#[derive(Serialize)]
struct Report {
    status: &'static str,
    checks: Vec<Check>,
}

#[derive(Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    message: String,
}

/// `GET /healthz`, `GET /api/v1/health`
pub(super) async fn show(State(api): State<Api>) -> Response {
    let health = (api.0.parts.health)();
    let checks = api
        .0
        .marks
        .check(&health, api.live(), api.config().interval, unix_millis());
    let (code, status) = if checks.iter().all(|check| check.ok) {
        (StatusCode::OK, "ok")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "failing")
    };
    let mut response = (code, Json(Report { status, checks })).into_response();
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl Api {
    /// Returns the notice for all pages: problems of the history or the polling, without details
    /// such as paths, since pages are public. `/healthz` has the details.
    pub fn notice(&self) -> Notice {
        let api = self.clone();
        Arc::new(move || {
            let checked = api.clone();
            let notice = api.0.notice.get(Expiry::Time(NOTICE_MAX_AGE), 0, move || {
                checked.current_notice(unix_millis())
            });
            (*notice).clone()
        })
    }

    fn current_notice(&self, now: Millis) -> Option<String> {
        let health = (self.0.parts.health)();
        let interval = self.config().interval;
        let checks = self.0.marks.check(&health, self.live(), interval, now);
        notice(&health.history, &checks, now)
    }
}

/// Returns the public description of failing checks.
fn notice(history: &HistoryHealth, checks: &[Check], now: Millis) -> Option<String> {
    let wrong = checks
        .iter()
        .filter(|check| !check.ok)
        .map(|check| match check.name {
            "history" => {
                let since = history
                    .since
                    .map(|at| format!(" since {} UTC", show::time(at, now)))
                    .unwrap_or_default();
                let lost = if history.dropped > 0 {
                    format!("; lost: {}", show::counted(history.dropped, "sample"))
                } else {
                    String::new()
                };
                let kept = show::counted(history.kept, "sample");
                format!("The history cannot be written{since}; kept in memory: {kept}{lost}.")
            }
            "samples" => {
                "No server has been polled for some time: the data shown is outdated.".to_owned()
            }
            "clock" => "The clock of this node is wrong: times may be shown wrong.".to_owned(),
            _ => format!(
                "The monitor is overloaded and skips polls: {}.",
                check.message
            ),
        });
    let wrong: Vec<String> = wrong.collect();
    (!wrong.is_empty()).then(|| wrong.join(" "))
}

impl CountWindow {
    fn check(
        &self,
        health: &MonitorHealth,
        live: &StateTable,
        interval: Duration,
        now: Millis,
    ) -> Vec<Check> {
        let history = &health.history;
        let message = match (history.is_failing, &history.message) {
            (false, _) => "written".into(),
            (true, message) => {
                let message = message
                    .as_deref()
                    .unwrap_or("the history cannot be written");
                format!(
                    "{message}; kept in memory: {}",
                    counted(history.kept, "sample")
                )
            }
        };
        let history = Check {
            name: "history",
            ok: !history.is_failing,
            message,
        };

        let samples = match live.shortest_interval(interval) {
            None => Check {
                name: "samples",
                ok: true,
                message: "there are no servers".into(),
            },
            Some(shortest) => {
                let stop_timeout = 2 * millis(shortest) + SAMPLE_GRACE_MS;
                let age = (now - health.last.unwrap_or(health.started)).max(0);
                let message = match health.last {
                    Some(_) => format!("last sample {} s ago", age / 1_000),
                    None => format!("no sample since the start {} s ago", age / 1_000),
                };
                Check {
                    name: "samples",
                    ok: age <= stop_timeout,
                    message,
                }
            }
        };

        let before = self.before(health, now);
        let missed = health.missed.saturating_sub(before.missed);
        let taken = health.samples.saturating_sub(before.samples);
        let minutes = (now - before.at) as f64 / 60_000.0;
        let message = format!(
            "{} missed and {taken} taken in the last {minutes:.1} minutes",
            counted(missed, "sample")
        );
        let ok = missed * 1_000 <= (missed + taken) * MAX_MISSED_PER_MILLE;
        let intervals = Check {
            name: "intervals",
            ok,
            message,
        };
        let clock = health.clock.as_ref().map(clock_check);
        [history, samples, intervals]
            .into_iter()
            .chain(clock)
            .collect()
    }

    /// Returns the counts of some minutes ago, or of the start.
    fn before(&self, health: &MonitorHealth, now: Millis) -> HealthCounts {
        let mut marks = lock(&self.0);
        let mark = HealthCounts {
            at: now,
            samples: health.samples,
            missed: health.missed,
        };
        let start = HealthCounts {
            at: health.started,
            samples: 0,
            missed: 0,
        };
        // After the clock was set back, older counts lie in the future: start again.
        let is_future = |counts: &HealthCounts| counts.at > now;
        if marks.iter().flatten().any(is_future) || marks[1].is_none() && is_future(&start) {
            *marks = [Some(mark), Some(mark)];
        }
        // The older mark is used as the base; the newer one replaces it after two minutes.
        match marks[1] {
            Some(newer) if now - newer.at < MISSED_WINDOW_MS => {}
            newer => *marks = [newer, Some(mark)],
        }
        marks[0].unwrap_or(start)
    }
}

/// Returns the check of the clock of a node.
fn clock_check(clock: &ClockHealth) -> Check {
    let message = match (&clock.problem, clock.stops_polling) {
        (None, _) => "agrees with Redis and PostgreSQL".into(),
        (Some(problem), false) => problem.clone(),
        (Some(problem), true) => format!("{problem}; this node does not poll"),
    };
    Check {
        name: "clock",
        ok: clock.problem.is_none(),
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_set_back_gives_no_negative_minutes() {
        let window = CountWindow::default();
        let mut health = MonitorHealth {
            started: 10_000_000,
            ..MonitorHealth::default()
        };
        let minutes = |health: &MonitorHealth, now: Millis| {
            let live = StateTable::default();
            let checks = window.check(health, &live, Duration::from_secs(60), now);
            checks.into_iter().next_back().unwrap().message
        };
        minutes(&health, 10_060_000);
        health.samples = 7;
        // Two hours back, before the start.
        let message = minutes(&health, 2_860_000);
        assert_eq!(
            message,
            "0 samples missed and 0 taken in the last 0.0 minutes"
        );
        health.samples = 9;
        let message = minutes(&health, 2_920_000);
        assert_eq!(
            message,
            "0 samples missed and 2 taken in the last 1.0 minutes"
        );
        let fresh = CountWindow::default();
        assert!(fresh.before(&health, 2_920_000).at <= 2_920_000);
    }
    use crate::server::{Origin, Server, ServerId};

    #[test]
    fn checks_fail_and_recover() {
        let live = StateTable::default();
        let marks = CountWindow::default();
        let minute = Duration::from_secs(60);
        let failing = |health: &MonitorHealth, live: &StateTable, at: i64| {
            let checks = marks.check(health, live, minute, at * 1_000);
            checks
                .into_iter()
                .filter(|check| !check.ok)
                .map(|check| check.name)
                .collect::<Vec<_>>()
        };
        let mut health = MonitorHealth::default();
        assert_eq!(
            failing(&health, &live, 1_000),
            [""; 0],
            "there are no servers"
        );
        let name = "a".into();
        let target = "ugp://[::1]".into();
        let group = String::new();
        let labels = [].into();
        live.set(Server {
            id: ServerId(1),
            name,
            target,
            group,
            labels,
            interval: None,
            origin: Origin::Configuration,
        });
        assert_eq!(
            failing(&health, &live, 100),
            [""; 0],
            "the monitor has just started"
        );
        assert_eq!(failing(&health, &live, 200), ["samples"]);
        health.last = Some(200_000);
        health.samples = 10_000;
        health.missed = 50;
        let message = Some("disk full: /secret/path".into());
        health.history = HistoryHealth {
            is_failing: true,
            since: Some(60_000),
            message,
            kept: 50_000,
            dropped: 3,
            ..HistoryHealth::default()
        };
        assert_eq!(failing(&health, &live, 210), ["history"]);
        let notice_text = notice(
            &health.history,
            &marks.check(&health, &live, minute, 210_000),
            210_000,
        )
        .unwrap();
        assert!(
            notice_text.contains(
                "since 1 Jan 00:01 UTC; kept in memory: 50\u{202f}000 samples; lost: 3 samples."
            ),
            "{notice_text}"
        );
        assert!(!notice_text.contains("secret"), "pages are public");
        health.history.is_failing = false;
        health.last = Some(2_000_000);
        health.missed = 1_000;
        assert_eq!(failing(&health, &live, 2_000), ["intervals"]);
        let notice_text = notice(
            &health.history,
            &marks.check(&health, &live, minute, 2_000_000),
            2_000_000,
        )
        .unwrap();
        assert!(
            notice_text.starts_with("The monitor is overloaded")
                && notice_text.contains("1000 samples missed"),
            "{notice_text}"
        );
        for at in [2_100, 2_130, 2_260, 2_400] {
            health.last = Some(at * 1_000);
            failing(&health, &live, at);
        }
        assert_eq!(
            failing(&health, &live, 2_400),
            [""; 0],
            "samples missed long ago do not count"
        );
    }
}
