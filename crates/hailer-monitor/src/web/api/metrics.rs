//! `/metrics`: metrics of the monitor, and optionally of servers, in the format that the client
//! accepts.
//!
//! Labels have only configured values (name, group, protocol). A value chosen by a server, such as
//! its MOTD, would create a new series with each change. The number of servers with their own
//! series is limited by the configuration.

use super::{Api, MonitorHealth, answer};
use crate::health::State as Health;
use crate::sample::Sample;
use crate::server::Server;
use crate::state::StateTable;
use crate::state::totals::Totals;
use crate::web::listeners::ListenerLimit;
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use hailer::support::metrics_format::MetricKind::{Counter, Gauge, Info};
use hailer::support::metrics_format::{Metric, MetricsFormat, MetricsPage};
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// `GET /metrics`
pub(super) async fn show(
    State(api): State<Api>,
    Extension(open): Extension<Arc<ListenerLimit>>,
    headers: HeaderMap,
) -> Response {
    let rejected = &api.0.rejected;
    let live = api.live();
    let most = api.config().server_metrics;
    let servers = (most > 0).then(|| server_series(live, most));
    let metrics = MonitorMetrics {
        health: (api.0.parts.health)(),
        totals: live.totals(),
        rejected_by_rate: rejected.rate.load(Ordering::Relaxed),
        rejected_by_token: rejected.token.load(Ordering::Relaxed),
        event_streams: open.taken(),
        server_count: live.len(),
        servers,
    };
    let accepted = headers.get_all(header::ACCEPT).iter();
    let format = MetricsFormat::accepted(accepted.filter_map(|accept| accept.to_str().ok()));
    let text = metrics.text(format);
    answer::tagged(&headers, format.content_type(), "no-store", text)
}

/// State at the time of a request.
#[derive(Debug)]
struct MonitorMetrics {
    health: MonitorHealth,
    totals: Arc<Totals>,
    rejected_by_rate: u64,
    rejected_by_token: u64,
    event_streams: usize,
    server_count: usize,
    /// Servers with their own series. `None`: not configured.
    servers: Option<Vec<ServerSeries>>,
}

/// Metrics of the monitor.
const MONITOR: [Metric<MonitorMetrics>; 13] = [
    (
        Gauge,
        "start_time_seconds",
        "Start time of the monitor, in Unix seconds.",
        |all| Some(all.health.started as f64 / 1e3),
    ),
    (
        Gauge,
        "servers_flapping",
        "Number of servers that alternate between up and down.",
        |all| Some(all.totals.all.flapping as f64),
    ),
    (Gauge, "players", "Players online on all servers.", |all| {
        Some(all.totals.all.players_online as f64)
    }),
    (Counter, "samples", "Samples taken.", |all| {
        Some(all.health.samples as f64)
    }),
    (
        Counter,
        "samples_missed",
        "Samples skipped because their time had passed.",
        |all| Some(all.health.missed as f64),
    ),
    (
        Counter,
        "samples_dropped",
        "Samples that were not stored.",
        |all| Some(all.health.dropped as f64),
    ),
    (Counter, "alerts_delivered", "Alerts delivered.", |all| {
        Some(all.health.alerts_delivered as f64)
    }),
    (
        Counter,
        "alerts_failed",
        "Failed attempts to deliver an alert.",
        |all| Some(all.health.alerts_failed as f64),
    ),
    (
        Gauge,
        "last_sample_time_seconds",
        "Time of the last sample, in Unix seconds.",
        |all| Some(all.health.last? as f64 / 1e3),
    ),
    (
        Gauge,
        "history_failing",
        "Whether writing the history fails: 1 or 0.",
        |all| Some(u8::from(all.health.history.is_failing).into()),
    ),
    (
        Gauge,
        "history_waiting_samples",
        "Samples waiting in memory to be stored.",
        |all| Some(all.health.history.kept as f64),
    ),
    (
        Gauge,
        "alerts_waiting",
        "Alerts waiting for delivery.",
        |all| Some(all.health.alerts_waiting as f64),
    ),
    (Gauge, "pages_live", "Open event streams of pages.", |all| {
        Some(all.event_streams as f64)
    }),
];

/// Metrics of a server.
const SERVER: [Metric<ServerSeries>; 4] = [
    (
        Gauge,
        "up",
        "Whether the server is up: 1 or 0; absent while unknown.",
        |one| match one.state {
            Health::Up => Some(1.0),
            Health::Down => Some(0.0),
            Health::Unknown => None,
        },
    ),
    (Gauge, "players", "Players online.", |one| {
        one.last?.players.map(f64::from)
    }),
    (Gauge, "max_players", "Player limit.", |one| {
        one.last?.max.map(f64::from)
    }),
    (
        Gauge,
        "latency_seconds",
        "Shortest time between a request and its reply, in seconds.",
        |one| one.last?.latency.map(|micros| f64::from(micros) / 1e6),
    ),
];

impl MonitorMetrics {
    fn text(&self, format: MetricsFormat) -> String {
        let mut page = MetricsPage::new(format, "hailer_monitor");
        page.family(Info, "build", "Version of the program; always 1.")
            .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        page.add(&MONITOR, &[(Vec::new(), self)]);
        let all = &self.totals.all;
        let mut family = page.family(Gauge, "servers", "Number of servers by state.");
        for (state, count) in [("up", all.up), ("down", all.down), ("unknown", all.unknown)] {
            family.sample(&[("state", state)], count as f64);
        }
        let mut family = page.family(Counter, "http_refused", "Rejected requests by reason.");
        for (reason, count) in [
            ("rate", self.rejected_by_rate),
            ("token", self.rejected_by_token),
        ] {
            family.sample(&[("reason", reason)], count as f64);
        }
        if let Some(servers) = &self.servers {
            let others = self.server_count.saturating_sub(servers.len());
            page.family(
                Gauge,
                "servers_without_series",
                "Servers without their own series.",
            )
            .sample(&[], others as f64);
            page.prefix = "hailer_server";
            let servers: Vec<_> = servers.iter().map(|one| (one.labels(), one)).collect();
            page.add(&SERVER, &servers);
        }
        page.finish()
    }
}

/// State of a server with its own series.
#[derive(Debug)]
struct ServerSeries {
    server: Arc<Server>,
    /// Id of the protocol.
    protocol: String,
    state: Health,
    last: Option<Sample>,
}

impl ServerSeries {
    fn labels(&self) -> Vec<(&str, &str)> {
        vec![
            ("server", &self.server.name),
            ("group", &self.server.group),
            ("protocol", &self.protocol),
        ]
    }
}

/// Returns at most `most` servers, those with the smallest ids.
fn server_series(live: &StateTable, most: usize) -> Vec<ServerSeries> {
    // Find the smallest ids without sorting all of them.
    let mut first = BinaryHeap::new();
    live.pick(|row| -> Option<()> {
        first.push(row.server.id);
        if first.len() > most {
            first.pop();
        }
        None
    });
    let mut servers = Vec::new();
    for id in first.into_sorted_vec() {
        if let Some(row) = live.row(id) {
            servers.push(ServerSeries {
                protocol: row.protocol().to_owned(),
                server: row.server,
                state: row.state,
                last: row.last_sample,
            });
        }
    }
    servers
}
