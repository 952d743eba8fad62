//! Whether the monitor itself does its work: 200 or 503, and why.

use super::Api;
use crate::poll::unix_millis;
use crate::sample::Millis;
use crate::state::StateTable;
use crate::web::{Notice, show};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A question and its answer take no longer, and a sample comes after it.
const SAMPLE_GRACE_MS: Millis = 30_000;
/// Missed samples of the last minutes, of a thousand: more is a monitor that does not keep up.
const MAX_MISSED_PER_MILLE: u64 = 10;
/// The sentence for all pages is made no more often.
const NOTICE_MAX_AGE: Duration = Duration::from_secs(1);
/// How far back missed samples count, at least.
const MISSED_WINDOW_MS: Millis = 120_000;

/// How the monitor itself is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MonitorHealth {
    /// When it started.
    pub started: Millis,
    /// Samples taken.
    pub samples: u64,
    /// Samples that were not taken because their time had passed.
    pub missed: u64,
    /// Samples that never came to the history, for want of room on the way there or in its memory.
    pub dropped: u64,
    /// When the last sample was taken.
    pub last: Option<Millis>,
    /// Its history.
    pub history: HistoryHealth,
    /// Alerts that wait to be delivered.
    pub alerts_waiting: u64,
    /// Alerts delivered.
    pub alerts_delivered: u64,
    /// Tries to deliver an alert that failed.
    pub alerts_failed: u64,
}

/// How the history is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryHealth {
    /// It cannot be written now.
    pub is_failing: bool,
    /// Since when.
    pub since: Option<Millis>,
    /// Why.
    pub message: Option<String>,
    /// Samples kept in memory until it can be.
    pub kept: u64,
    /// Of the samples dropped, those that its memory had no room for.
    pub dropped: u64,
}

/// Counts of some minutes ago.
#[derive(Default)]
pub(super) struct CountWindow(Mutex<[Option<Counts>; 2]>);

#[derive(Clone, Copy)]
struct Counts {
    at: Millis,
    samples: u64,
    missed: u64,
}

#[derive(Serialize)]
struct Report {
    status: &'static str,
    checks: [Check; 3],
}

#[derive(Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    message: String,
}

/// `GET /healthz`, `GET /api/v1/health`
pub(super) async fn show(State(api): State<Api>) -> Response {
    let vitals = (api.0.parts.look)();
    let checks = api
        .0
        .marks
        .check(&vitals, api.live(), api.settings().interval, unix_millis());
    let (code, status) = match checks.iter().all(|check| check.ok) {
        true => (StatusCode::OK, "ok"),
        false => (StatusCode::SERVICE_UNAVAILABLE, "failing"),
    };
    let mut response = (code, Json(Report { status, checks })).into_response();
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// A sentence for everybody who looks, and when it was made.
#[derive(Default)]
pub(super) struct CachedNotice(Mutex<Option<(Instant, Option<String>)>>);

impl Api {
    /// Tells, to be shown on each page, what is wrong with the monitor: a history that cannot be written, servers that are asked
    /// too late. What fails behind that is told to those who ask for `/healthz`.
    pub fn notice(&self) -> Notice {
        let api = self.clone();
        Arc::new(move || {
            let mut said = api
                .0
                .notice
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            if let Some((_, text)) = said
                .as_ref()
                .filter(|(at, _)| at.elapsed() < NOTICE_MAX_AGE)
            {
                return text.clone();
            }
            let (vitals, now) = ((api.0.parts.look)(), unix_millis());
            let checks = api
                .0
                .marks
                .check(&vitals, api.live(), api.settings().interval, now);
            let text = notice(&vitals.history, &checks, now);
            *said = Some((Instant::now(), text.clone()));
            text
        })
    }
}

/// What of it everybody should know.
fn notice(history: &HistoryHealth, checks: &[Check; 3], now: Millis) -> Option<String> {
    let wrong = checks.iter().filter(|check| !check.ok).map(|check| match check.name {
        "history" => {
            let since = history.since.map(|at| format!(" since {} UTC", show::time(at, now))).unwrap_or_default();
            let lost = if history.dropped > 0 {
                format!("; {} are lost", show::count(history.dropped))
            } else {
                String::new()
            };
            let kept = show::count(history.kept);
            format!("The history cannot be written: samples are kept in memory{since}, {kept} by now{lost}.")
        }
        "samples" => "No server has been asked for some time: what is shown is as it was.".to_owned(),
        _ => format!("The monitor is behind and leaves out some of its questions: {}.", check.message),
    });
    let wrong: Vec<String> = wrong.collect();
    (!wrong.is_empty()).then(|| wrong.join(" "))
}

impl CountWindow {
    fn check(
        &self,
        vitals: &MonitorHealth,
        live: &StateTable,
        interval: Duration,
        now: Millis,
    ) -> [Check; 3] {
        let history = &vitals.history;
        let message = match (history.is_failing, &history.message) {
            (false, _) => "written".into(),
            (true, Some(message)) => format!("{message}; {} samples wait in memory", history.kept),
            (true, None) => format!(
                "it cannot be written; {} samples wait in memory",
                history.kept
            ),
        };
        let history = Check {
            name: "history",
            ok: !history.is_failing,
            message,
        };

        let mut shortest = None;
        live.pick(|row| -> Option<()> {
            let this = row.server.interval.unwrap_or(interval);
            shortest = Some(shortest.map_or(this, |shortest: Duration| shortest.min(this)));
            None
        });
        let samples = match shortest {
            None => Check {
                name: "samples",
                ok: true,
                message: "no server is watched".into(),
            },
            Some(shortest) => {
                let patience = 2 * Millis::try_from(shortest.as_millis())
                    .unwrap_or(Millis::MAX / 4)
                    + SAMPLE_GRACE_MS;
                let age = (now - vitals.last.unwrap_or(vitals.started)).max(0);
                let message = match vitals.last {
                    Some(_) => format!("the last was taken {} s ago", age / 1_000),
                    None => format!("none since the start {} s ago", age / 1_000),
                };
                Check {
                    name: "samples",
                    ok: age <= patience,
                    message,
                }
            }
        };

        let before = self.before(vitals, now);
        let missed = vitals.missed.saturating_sub(before.missed);
        let taken = vitals.samples.saturating_sub(before.samples);
        let minutes = (now - before.at) as f64 / 60_000.0;
        let message = format!("{missed} missed and {taken} taken in the last {minutes:.1} minutes");
        let ok = missed * 1_000 <= (missed + taken) * MAX_MISSED_PER_MILLE;
        [
            history,
            samples,
            Check {
                name: "intervals",
                ok,
                message,
            },
        ]
    }

    /// Counts of some minutes ago, as far as somebody asked then.
    fn before(&self, vitals: &MonitorHealth, now: Millis) -> Counts {
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = Counts {
            at: now,
            samples: vitals.samples,
            missed: vitals.missed,
        };
        let start = Counts {
            at: vitals.started,
            samples: 0,
            missed: 0,
        };
        // Of the two, the older one is some minutes old and counts, the newer one takes its place in time.
        match marks[1] {
            Some(newer) if now - newer.at < MISSED_WINDOW_MS => {}
            newer => *marks = [newer, Some(mark)],
        }
        marks[0].unwrap_or(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Origin, Server, ServerId};

    #[test]
    fn what_is_wrong_is_said_and_passes() {
        let (live, marks, minute) = (
            StateTable::default(),
            CountWindow::default(),
            Duration::from_secs(60),
        );
        let failing = |vitals: &MonitorHealth, live: &StateTable, at: i64| {
            let checks = marks.check(vitals, live, minute, at * 1_000);
            checks
                .into_iter()
                .filter(|check| !check.ok)
                .map(|check| check.name)
                .collect::<Vec<_>>()
        };
        let mut vitals = MonitorHealth::default();
        assert_eq!(
            failing(&vitals, &live, 1_000),
            [""; 0],
            "nobody is watched, and so nobody is asked"
        );
        let (name, target, group, labels) =
            ("a".into(), "ugp://[::1]".into(), String::new(), [].into());
        live.set(Server {
            id: ServerId(1),
            name,
            target,
            group,
            labels,
            interval: None,
            origin: Origin::Plan,
        });
        assert_eq!(failing(&vitals, &live, 100), [""; 0], "it has just begun");
        assert_eq!(failing(&vitals, &live, 200), ["samples"]);
        (vitals.last, vitals.samples, vitals.missed) = (Some(200_000), 10_000, 50);
        let message = Some("disk full: /secret/path".into());
        vitals.history = HistoryHealth {
            is_failing: true,
            since: Some(60_000),
            message,
            kept: 50_000,
            dropped: 3,
        };
        assert_eq!(failing(&vitals, &live, 210), ["history"]);
        let said = notice(
            &vitals.history,
            &marks.check(&vitals, &live, minute, 210_000),
            210_000,
        )
        .unwrap();
        assert!(
            said.contains("in memory since 1 Jan 00:01 UTC, 50\u{202f}000 by now; 3 are lost."),
            "{said}"
        );
        assert!(!said.contains("secret"), "it is for everybody");
        vitals.history.is_failing = false;
        (vitals.last, vitals.missed) = (Some(2_000_000), 1_000);
        assert_eq!(failing(&vitals, &live, 2_000), ["intervals"]);
        let said = notice(
            &vitals.history,
            &marks.check(&vitals, &live, minute, 2_000_000),
            2_000_000,
        )
        .unwrap();
        assert!(
            said.starts_with("The monitor is behind") && said.contains("1000 missed"),
            "{said}"
        );
        for at in [2_100, 2_130, 2_260, 2_400] {
            vitals.last = Some(at * 1_000);
            failing(&vitals, &live, at);
        }
        assert_eq!(
            failing(&vitals, &live, 2_400),
            [""; 0],
            "what was missed long ago is over"
        );
    }
}
