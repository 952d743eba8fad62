//! `/metrics`: metrics of the monitor, and optionally of servers, in the Prometheus text format.
//!
//! Labels have only configured values (name, group, protocol). A value chosen by a server, such as
//! its MOTD, would create a new series with each change. The number of servers with their own
//! series is limited by the configuration.

use super::{Api, MonitorHealth, answer};
use crate::health::State as Health;
use crate::sample::Sample;
use crate::server::Server;
use crate::state::StateTable;
use crate::state::find;
use crate::state::totals::Totals;
use crate::web::listeners::ListenerLimit;
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
    let refused = &api.0.rejected;
    let refused = [
        ("rate", refused.rate.load(Ordering::Relaxed)),
        ("token", refused.token.load(Ordering::Relaxed)),
    ];
    let totals = api.live().totals();
    monitor(&mut page, &(api.0.parts.look)(), &totals, refused);
    page.gauge("hailer_monitor_pages_live", "Open event streams of pages.");
    page.sample(&[], open.taken());
    servers(&mut page, api.live(), api.settings().server_metrics);
    answer::tagged(
        &asked,
        "text/plain; version=0.0.4; charset=utf-8",
        "no-store",
        page.text,
    )
}

/// Writes the metrics of the monitor.
fn monitor(page: &mut Page, vitals: &MonitorHealth, totals: &Totals, refused: [(&str, u64); 2]) {
    page.gauge(
        "hailer_monitor_build_info",
        "Version of the program; always 1.",
    );
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    page.gauge(
        "hailer_monitor_start_time_seconds",
        "Start time of the monitor, in Unix seconds.",
    );
    page.sample(&[], vitals.started as f64 / 1e3);
    page.gauge("hailer_monitor_servers", "Number of servers by state.");
    for (state, count) in [
        ("up", totals.all.up),
        ("down", totals.all.down),
        ("unknown", totals.all.unknown),
    ] {
        page.sample(&[("state", state)], count);
    }
    page.gauge(
        "hailer_monitor_servers_flapping",
        "Number of servers that alternate between up and down.",
    );
    page.sample(&[], totals.all.flapping);
    page.gauge("hailer_monitor_players", "Players online on all servers.");
    page.sample(&[], totals.all.players_online);
    let history = &vitals.history;
    for (name, help, count) in [
        (
            "hailer_monitor_samples_total",
            "Samples taken.",
            vitals.samples,
        ),
        (
            "hailer_monitor_samples_missed_total",
            "Samples skipped because their time had passed.",
            vitals.missed,
        ),
        (
            "hailer_monitor_samples_dropped_total",
            "Samples that were not stored.",
            vitals.dropped,
        ),
        (
            "hailer_monitor_alerts_delivered_total",
            "Alerts delivered.",
            vitals.alerts_delivered,
        ),
        (
            "hailer_monitor_alerts_failed_total",
            "Failed attempts to deliver an alert.",
            vitals.alerts_failed,
        ),
    ] {
        page.counter(name, help);
        page.sample(&[], count);
    }
    page.gauge(
        "hailer_monitor_last_sample_time_seconds",
        "Time of the last sample, in Unix seconds.",
    );
    if let Some(last) = vitals.last {
        page.sample(&[], last as f64 / 1e3);
    }
    page.gauge(
        "hailer_monitor_history_failing",
        "Whether writing the history fails: 1 or 0.",
    );
    page.sample(&[], u8::from(history.is_failing));
    page.gauge(
        "hailer_monitor_history_waiting_samples",
        "Samples waiting in memory to be stored.",
    );
    page.sample(&[], history.kept);
    page.gauge(
        "hailer_monitor_alerts_waiting",
        "Alerts waiting for delivery.",
    );
    page.sample(&[], vitals.alerts_waiting);
    page.counter(
        "hailer_monitor_http_refused_total",
        "Rejected requests by reason.",
    );
    for (reason, count) in refused {
        page.sample(&[("reason", reason)], count);
    }
}

/// Writes the metrics of at most `most` servers, those with the smallest ids.
fn servers(page: &mut Page, live: &StateTable, most: usize) {
    if most == 0 {
        return;
    }
    struct One {
        server: Arc<Server>,
        state: Health,
        last: Option<Sample>,
    }
    // Find the smallest ids without sorting all of them.
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
        "Whether the server is up: 1 or 0; absent while unknown.",
        &|one| match one.state {
            Health::Up => Some(1.0),
            Health::Down => Some(0.0),
            Health::Unknown => None,
        },
    );
    family("hailer_server_players", "Players online.", &|one| {
        one.last?.players.map(f64::from)
    });
    family("hailer_server_max_players", "Player limit.", &|one| {
        one.last?.max.map(f64::from)
    });
    family(
        "hailer_server_latency_seconds",
        "Shortest time between a request and its reply, in seconds.",
        &|one| one.last?.latency.map(|micros| f64::from(micros) / 1e6),
    );
    page.gauge(
        "hailer_monitor_servers_without_series",
        "Servers without their own series.",
    );
    page.sample(&[], left_out);
}

/// Text so far. Samples belong to the family that was begun last.
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
        // Writing to a `String` cannot fail.
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
