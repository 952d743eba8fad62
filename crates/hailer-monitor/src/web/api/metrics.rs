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
use hailer::support::metrics_format::MetricsFormat;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::collections::BinaryHeap;
use std::fmt;
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
    let mut registry = Registry::default();
    registry.register_collector(Box::new(MonitorMetrics {
        health: (api.0.parts.health)(),
        totals: live.totals(),
        rejected_by_rate: rejected.rate.load(Ordering::Relaxed),
        rejected_by_token: rejected.token.load(Ordering::Relaxed),
        event_streams: open.taken(),
        server_count: live.len(),
        servers,
    }));
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    let _ = encode(&mut text, &registry);
    let accepted = headers.get_all(header::ACCEPT).iter();
    let format = MetricsFormat::accepted(accepted.filter_map(|accept| accept.to_str().ok()));
    let text = format.convert(text);
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

impl Collector for MonitorMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.encode_monitor(&mut encoder)?;
        let help = "Open event streams of pages.";
        gauge(&mut encoder, "hailer_monitor_pages_live", help)?
            .encode_gauge(&self.event_streams)?;
        let Some(servers) = &self.servers else {
            return Ok(());
        };
        encode_servers(&mut encoder, servers)?;
        let help = "Servers without their own series.";
        gauge(&mut encoder, "hailer_monitor_servers_without_series", help)?
            .encode_gauge(&self.server_count.saturating_sub(servers.len()))
    }
}

impl MonitorMetrics {
    fn encode_monitor(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let health = &self.health;
        let all = &self.totals.all;
        let help = "Version of the program; always 1.";
        encoder
            .encode_descriptor("hailer_monitor_build", help, None, MetricType::Info)?
            .encode_info(&[("version", env!("CARGO_PKG_VERSION"))])?;
        let help = "Start time of the monitor, in Unix seconds.";
        gauge(encoder, "hailer_monitor_start_time_seconds", help)?
            .encode_gauge(&(health.started as f64 / 1e3))?;
        let help = "Number of servers by state.";
        let mut family = gauge(encoder, "hailer_monitor_servers", help)?;
        for (state, count) in [("up", all.up), ("down", all.down), ("unknown", all.unknown)] {
            let labels = [("state", state)];
            family.encode_family(&labels)?.encode_gauge(&count)?;
        }
        let help = "Number of servers that alternate between up and down.";
        gauge(encoder, "hailer_monitor_servers_flapping", help)?.encode_gauge(&all.flapping)?;
        let help = "Players online on all servers.";
        gauge(encoder, "hailer_monitor_players", help)?.encode_gauge(&all.players_online)?;
        for (name, help, count) in [
            ("hailer_monitor_samples", "Samples taken.", health.samples),
            (
                "hailer_monitor_samples_missed",
                "Samples skipped because their time had passed.",
                health.missed,
            ),
            (
                "hailer_monitor_samples_dropped",
                "Samples that were not stored.",
                health.dropped,
            ),
            (
                "hailer_monitor_alerts_delivered",
                "Alerts delivered.",
                health.alerts_delivered,
            ),
            (
                "hailer_monitor_alerts_failed",
                "Failed attempts to deliver an alert.",
                health.alerts_failed,
            ),
        ] {
            counter(encoder, name, help)?.encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        let help = "Time of the last sample, in Unix seconds.";
        let mut family = gauge(encoder, "hailer_monitor_last_sample_time_seconds", help)?;
        if let Some(last) = health.last {
            family.encode_gauge(&(last as f64 / 1e3))?;
        }
        let help = "Whether writing the history fails: 1 or 0.";
        gauge(encoder, "hailer_monitor_history_failing", help)?
            .encode_gauge(&u32::from(health.history.is_failing))?;
        let help = "Samples waiting in memory to be stored.";
        gauge(encoder, "hailer_monitor_history_waiting_samples", help)?
            .encode_gauge(&health.history.kept)?;
        let help = "Alerts waiting for delivery.";
        gauge(encoder, "hailer_monitor_alerts_waiting", help)?
            .encode_gauge(&health.alerts_waiting)?;
        let help = "Rejected requests by reason.";
        let mut family = counter(encoder, "hailer_monitor_http_refused", help)?;
        for (reason, count) in [
            ("rate", self.rejected_by_rate),
            ("token", self.rejected_by_token),
        ] {
            family
                .encode_family(&[("reason", reason)])?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        Ok(())
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

fn encode_servers(encoder: &mut DescriptorEncoder<'_>, servers: &[ServerSeries]) -> fmt::Result {
    type Value = fn(&ServerSeries) -> Option<f64>;
    let families: [(_, _, Value); 4] = [
        (
            "hailer_server_up",
            "Whether the server is up: 1 or 0; absent while unknown.",
            |one| match one.state {
                Health::Up => Some(1.0),
                Health::Down => Some(0.0),
                Health::Unknown => None,
            },
        ),
        ("hailer_server_players", "Players online.", |one| {
            one.last?.players.map(f64::from)
        }),
        ("hailer_server_max_players", "Player limit.", |one| {
            one.last?.max.map(f64::from)
        }),
        (
            "hailer_server_latency_seconds",
            "Shortest time between a request and its reply, in seconds.",
            |one| one.last?.latency.map(|micros| f64::from(micros) / 1e6),
        ),
    ];
    for (name, help, value) in families {
        let mut family = gauge(encoder, name, help)?;
        for one in servers {
            let Some(value) = value(one) else {
                continue;
            };
            let labels = [
                ("server", &*one.server.name),
                ("group", &*one.server.group),
                ("protocol", &*one.protocol),
            ];
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
    }
    Ok(())
}

fn gauge<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    debug_assert!(!name.ends_with("_total"));
    encoder.encode_descriptor(name, help, None, MetricType::Gauge)
}

/// Begins a counter. Its samples are called `NAME_total`.
fn counter<'a>(
    encoder: &'a mut DescriptorEncoder<'_>,
    name: &'a str,
    help: &str,
) -> Result<MetricEncoder<'a>, fmt::Error> {
    debug_assert!(!name.ends_with("_total"));
    encoder.encode_descriptor(name, help, None, MetricType::Counter)
}
