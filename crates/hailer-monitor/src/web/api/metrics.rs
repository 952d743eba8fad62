//! `/metrics`: the monitor in Prometheus' text format, and its servers if wanted.
//!
//! No label has a value that a server chooses: what a server says would make new series each time that it says something else. A
//! server's labels are what its owner or ours wrote: name, group, protocol. How many servers have series is a setting.

use super::totals::Totals;
use super::{Api, MonitorHealth, answer};
use crate::health::State as Health;
use crate::sample::Sample;
use crate::server::Server;
use crate::state::StateTable;
use crate::web::find;
use crate::web::live::ListenerLimit;
use axum::Extension;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use std::collections::BinaryHeap;
use std::fmt::{Display, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// `GET /metrics`
pub(super) async fn show(
    State(api): State<Api>,
    Extension(open): Extension<Arc<ListenerLimit>>,
    asked: HeaderMap,
) -> Response {
    let mut page = Page::default();
    let refused = &api.0.refused;
    let refused = [
        ("rate", refused.rate.load(Ordering::Relaxed)),
        ("token", refused.token.load(Ordering::Relaxed)),
    ];
    let totals = api.0.totals.now(api.live()).await;
    monitor(&mut page, &(api.0.parts.look)(), &totals, refused);
    page.gauge(
        "hailer_monitor_pages_live",
        "Pages that are open and change by themselves.",
    );
    page.sample(&[], open.taken());
    servers(&mut page, api.live(), api.settings().server_metrics);
    answer::tagged(
        &asked,
        "text/plain; version=0.0.4; charset=utf-8",
        "no-store",
        page.text,
    )
}

/// The monitor itself.
fn monitor(page: &mut Page, vitals: &MonitorHealth, totals: &Totals, refused: [(&str, u64); 2]) {
    page.gauge(
        "hailer_monitor_build_info",
        "Version of the program; always 1.",
    );
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.gauge(
        "hailer_monitor_start_time_seconds",
        "When the monitor started, seconds since 1970.",
    );
    page.sample(&[], vitals.started as f64 / 1e3);
    page.gauge(
        "hailer_monitor_servers",
        "Servers that are watched, by state.",
    );
    for (state, count) in [
        ("up", totals.all.up),
        ("down", totals.all.down),
        ("unknown", totals.all.unknown),
    ] {
        page.sample(&[("state", state)], count);
    }
    page.gauge(
        "hailer_monitor_servers_flapping",
        "Servers that go up and down all the time.",
    );
    page.sample(&[], totals.all.flapping);
    page.gauge("hailer_monitor_players", "Players on all servers together.");
    page.sample(&[], totals.all.players);
    let history = &vitals.history;
    for (name, help, count) in [
        (
            "hailer_monitor_samples_total",
            "Looks at servers.",
            vitals.samples,
        ),
        (
            "hailer_monitor_samples_missed_total",
            "Looks not taken because their time had passed.",
            vitals.missed,
        ),
        (
            "hailer_monitor_samples_dropped_total",
            "Looks that never came to the history.",
            vitals.dropped,
        ),
        (
            "hailer_monitor_alerts_delivered_total",
            "Alerts delivered.",
            vitals.alerts_delivered,
        ),
        (
            "hailer_monitor_alerts_failed_total",
            "Tries to deliver an alert that failed.",
            vitals.alerts_failed,
        ),
    ] {
        page.counter(name, help);
        page.sample(&[], count);
    }
    page.gauge(
        "hailer_monitor_last_sample_time_seconds",
        "When a server was last looked at, seconds since 1970.",
    );
    if let Some(last) = vitals.last {
        page.sample(&[], last as f64 / 1e3);
    }
    page.gauge(
        "hailer_monitor_history_failing",
        "1: the history cannot be written now.",
    );
    page.sample(&[], u8::from(history.is_failing));
    page.gauge(
        "hailer_monitor_history_waiting_samples",
        "Looks that wait in memory for the history.",
    );
    page.sample(&[], history.kept);
    page.gauge(
        "hailer_monitor_alerts_waiting",
        "Alerts that wait to be delivered.",
    );
    page.sample(&[], vitals.alerts_waiting);
    page.counter(
        "hailer_monitor_http_refused_total",
        "Requests refused, by reason.",
    );
    for (reason, count) in refused {
        page.sample(&[("reason", reason)], count);
    }
}

/// So many servers, those that were there first.
fn servers(page: &mut Page, live: &StateTable, most: usize) {
    if most == 0 {
        return;
    }
    struct One {
        server: Arc<Server>,
        state: Health,
        last: Option<Sample>,
    }
    // Those with the smallest ids, without a list of all.
    let mut first = BinaryHeap::new();
    live.pick(|row| -> Option<()> {
        first.push(row.server.id);
        if first.len() > most {
            first.pop();
        }
        None
    });
    let left_out = live.len().saturating_sub(first.len());
    let rows = first
        .into_sorted_vec()
        .into_iter()
        .filter_map(|id| live.row(id));
    let all: Vec<One> = rows
        .map(|row| One {
            server: row.server,
            state: row.state,
            last: row.last_sample,
        })
        .collect();
    let mut family = |name: &'static str, help: &str, value: &dyn Fn(&One) -> Option<f64>| {
        page.gauge(name, help);
        for one in &all {
            if let Some(value) = value(one) {
                let server = &*one.server;
                let labels = [
                    ("server", &*server.name),
                    ("group", &*server.group),
                    ("protocol", find::protocol(server)),
                ];
                page.sample(&labels, value);
            }
        }
    };
    family(
        "hailer_server_up",
        "1: it answers, 0: it does not; none: not known yet.",
        &|one| match one.state {
            Health::Up => Some(1.0),
            Health::Down => Some(0.0),
            Health::Unknown => None,
        },
    );
    family("hailer_server_players", "Players on.", &|one| {
        one.last?.players.map(f64::from)
    });
    family(
        "hailer_server_max_players",
        "The most players that fit.",
        &|one| one.last?.max.map(f64::from),
    );
    family(
        "hailer_server_latency_seconds",
        "The shortest time between a request and its reply.",
        &|one| one.last?.latency.map(|micros| f64::from(micros) / 1e6),
    );
    page.gauge(
        "hailer_monitor_servers_without_series",
        "Servers beyond those that have gauges of their own.",
    );
    page.sample(&[], left_out);
}

/// What is written so far. A sample belongs to the family before it.
#[derive(Default)]
struct Page {
    text: String,
    family: &'static str,
}

impl Page {
    fn counter(&mut self, name: &'static str, help: &str) {
        debug_assert!(name.ends_with("_total"));
        self.begin(name, "counter", help);
    }

    fn gauge(&mut self, name: &'static str, help: &str) {
        debug_assert!(!name.ends_with("_total"));
        self.begin(name, "gauge", help);
    }

    fn begin(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        // A `String` takes everything.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        self.text.push_str(self.family);
        for (i, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{label}=\"", if i == 0 { '{' } else { ',' });
            for c in text.chars() {
                match c {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    c => self.text.push(c),
                }
            }
            self.text.push('"');
        }
        let _ = writeln!(
            self.text,
            "{} {value}",
            if labels.is_empty() { "" } else { "}" }
        );
    }
}
