//! `/metrics`: a snapshot as metrics, in the format that the client accepts, and a small HTTP server
//! for it.
//!
//! Labels are our addresses, protocols, kinds, reasons and sources. Clients cannot create series,
//! so the prefixes of a snapshot are left out.
//!
//! Limits: [`LIMITS`].
//!
//! In: a snapshot, HTTP requests. Out: metrics as text.
//!
//! May import: `crate::observe`, `crate::observe::snapshot`, `hailer`.

use super::snapshot::{Counts, Door, Listener, Snapshot, Source, State, reasons};
use super::{MAX_CLIENTS, TakeSnapshot};
use hailer::door::State as DoorState;
use hailer::support::listen::ConnectionLimits;
use hailer::support::listen::http::{self, HttpLimits};
use hailer::support::metrics_format::MetricKind::{Counter, Gauge, Info};
use hailer::support::metrics_format::{Metric, MetricsFormat, MetricsPage};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};
use std::collections::BTreeSet;
use std::future::{pending, ready};
use std::net::IpAddr;
use std::time::Duration;
use tokio::net::TcpListener;

/// Time for a request and its response. Shorter in tests.
const TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 5_000 });
/// Limits of the listener. One request per connection.
const LIMITS: HttpLimits = HttpLimits {
    connections: ConnectionLimits {
        total: MAX_CLIENTS,
        per_network: MAX_CLIENTS,
        first_byte: TIMEOUT,
        idle: None,
        stalled: TIMEOUT,
        lifetime: Some(TIMEOUT),
    },
    head: TIMEOUT,
    head_bytes: 16 << 10,
    has_keep_alive: false,
    shutdown: Duration::ZERO,
};

/// Serves requests until dropped, one per connection.
pub(super) async fn serve(listener: TcpListener, take_snapshot: TakeSnapshot) {
    let respond = move |request: Request<Incoming>, _| ready(respond(&request, &take_snapshot));
    http::serve(listener, LIMITS, respond, pending()).await;
}

/// Accepts addresses and `localhost` as the name of this server. Otherwise a web page could read
/// the metrics through a browser on this machine, by pointing its own name at a loopback address
/// (DNS rebinding).
fn check_host<B>(request: &Request<B>) -> Result<(), (StatusCode, &'static str)> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let authority = match (request.uri().authority(), hosts.next(), hosts.next()) {
        (_, _, Some(_)) => return Err((StatusCode::BAD_REQUEST, "two Host headers\n")),
        // A request with an absolute URL overrides the header.
        (Some(authority), ..) => Some(authority.clone()),
        (None, Some(host), None) => Authority::try_from(host.as_bytes()).ok(),
        // HTTP/1.0 has no such header, and no browser speaks it.
        (None, None, None) => return Ok(()),
    };
    let is_own = authority.is_some_and(|authority| {
        let host = authority
            .host()
            .trim_matches(['[', ']'])
            .to_ascii_lowercase();
        host.trim_end_matches('.') == "localhost" || host.parse::<IpAddr>().is_ok()
    });
    if is_own {
        Ok(())
    } else {
        Err((
            StatusCode::MISDIRECTED_REQUEST,
            "the host name must be an IP address or localhost\n",
        ))
    }
}

fn respond<B>(request: &Request<B>, take_snapshot: &TakeSnapshot) -> Response<Full<Bytes>> {
    let plain = "text/plain; charset=utf-8";
    if let Err((status, problem)) = check_host(request) {
        let mut response = Response::new(Full::from(problem));
        *response.status_mut() = status;
        let plain = HeaderValue::from_static(plain);
        response.headers_mut().insert(CONTENT_TYPE, plain);
        return response;
    }
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let accepted = request.headers().get_all(ACCEPT).iter();
            let format =
                MetricsFormat::accepted(accepted.filter_map(|accept| accept.to_str().ok()));
            let text = text(&take_snapshot(), format);
            (StatusCode::OK, format.content_type(), text)
        }
        (&Method::GET | &Method::HEAD, "/") => (
            StatusCode::OK,
            plain,
            "the metrics are at /metrics\n".into(),
        ),
        (&Method::GET | &Method::HEAD, _) => (
            StatusCode::NOT_FOUND,
            plain,
            "nothing here; the metrics are at /metrics\n".into(),
        ),
        _ => (StatusCode::METHOD_NOT_ALLOWED, plain, "only GET\n".into()),
    };
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

/// Metrics of the process.
const PROCESS: [Metric<Snapshot>; 2] = [
    (
        Gauge,
        "start_time_seconds",
        "When the process started, seconds since 1970.",
        |all| count(all.started_at_ms / 1_000),
    ),
    (Gauge, "workers", "Threads that answer.", |all| {
        count(all.workers.into())
    }),
];

/// Metrics of a listener.
const LISTENER: [Metric<Counts>; 14] = [
    (
        Counter,
        "received_datagrams",
        "Datagrams received.",
        |all| count(all.received),
    ),
    (Counter, "connections", "Connections accepted.", |all| {
        count(all.connections)
    }),
    (
        Counter,
        "join_attempts",
        "Attempts to join the game, on connections.",
        |all| count(all.join_attempts),
    ),
    (
        Counter,
        "received_bytes",
        "Bytes received, of UDP and TCP payload.",
        |all| count(all.received_bytes),
    ),
    (
        Counter,
        "sent_bytes",
        "Bytes sent, of UDP and TCP payload.",
        |all| count(all.sent_bytes),
    ),
    (
        Counter,
        "relayed_datagrams",
        "Datagrams passed to the game server by a relay.",
        |all| count(all.relayed),
    ),
    (
        Counter,
        "relayed_back_datagrams",
        "Datagrams of the game server passed back.",
        |all| count(all.relayed_back),
    ),
    (
        Counter,
        "lost_datagrams",
        "Datagrams lost because the receive queue was full.",
        |all| count(all.lost),
    ),
    (
        Gauge,
        "open_connections",
        "Connections that are open now.",
        |all| count(all.open_connections),
    ),
    (
        Gauge,
        "held_connections",
        "Connections held now, until the game runs.",
        |all| count(all.held_connections),
    ),
    (
        Counter,
        "relayed_connections",
        "Connections passed to the game server.",
        |all| count(all.relayed_connections),
    ),
    (
        Gauge,
        "open_relayed_connections",
        "Connections passed to the game server that are open now.",
        |all| count(all.open_relayed_connections),
    ),
    (
        Counter,
        "relayed_bytes",
        "Bytes of connections passed to the game server.",
        |all| count(all.relayed_bytes),
    ),
    (
        Counter,
        "relayed_back_bytes",
        "Bytes of the game server passed back on connections.",
        |all| count(all.relayed_back_bytes),
    ),
];

/// Metrics of the budget and of relays.
const LIMIT: [Metric<Snapshot>; 6] = [
    (
        Gauge,
        "unverified_budget_left_bytes",
        "Bytes that may be sent now to unverified addresses.",
        |all| count(all.budget.left_bytes),
    ),
    (
        Gauge,
        "unverified_budget_bytes",
        "Bytes added to that budget per second; 0: no limit.",
        |all| count(all.budget.bytes_per_s),
    ),
    (
        Gauge,
        "budget_networks",
        "Source networks in the table of the budget.",
        |all| count(all.budget.networks),
    ),
    (
        Gauge,
        "budget_networks_max",
        "Capacity of that table.",
        |all| count(all.budget.networks_max),
    ),
    (Gauge, "relay_sessions", "Open sessions of relays.", |all| {
        count(all.relay.sessions)
    }),
    (
        Gauge,
        "relay_sessions_max",
        "Maximum number of sessions; 0: no relay.",
        |all| count(all.relay.sessions_max),
    ),
];

/// Metrics of a door.
const DOOR: [Metric<Door>; 11] = [
    (Counter, "door_starts", "Starts of the game.", |door| {
        count(door.starts)
    }),
    (
        Counter,
        "door_failed_starts",
        "Starts that failed.",
        |door| count(door.failed_starts),
    ),
    (
        Counter,
        "door_crashes",
        "Crashes: ends of the game without a stop.",
        |door| count(door.crashes),
    ),
    (
        Counter,
        "door_idle_stops",
        "Stops after the time without players.",
        |door| count(door.idle_stops),
    ),
    (
        Counter,
        "door_held_joins",
        "Joins that did not start the game because of a limit or a pause.",
        |door| count(door.held_joins),
    ),
    (
        Counter,
        "door_refused_joins",
        "Joins of clients that may not wake the game.",
        |door| count(door.refused_joins),
    ),
    (
        Counter,
        "door_asleep_seconds",
        "Time saved: time without the game.",
        |door| Some(door.asleep_s),
    ),
    (
        Gauge,
        "door_state_age_seconds",
        "Time in the current state.",
        |door| Some(door.since_s),
    ),
    (
        Gauge,
        "door_last_start_seconds",
        "Time from the last start to the first answer; missing before the first one.",
        |door| door.last_start_s,
    ),
    (
        Gauge,
        "door_visits",
        "Clients that are passed on to the game now.",
        |door| count(door.visits),
    ),
    (
        Gauge,
        "door_players",
        "Players online; missing while unknown.",
        |door| door.players.map(f64::from),
    ),
];

/// Returns the value of an integer. Above 2^53 it is rounded, as by the readers of metrics.
fn count(number: u64) -> Option<f64> {
    Some(number as f64)
}

/// Returns the snapshot as text.
pub(super) fn text(snapshot: &Snapshot, format: MetricsFormat) -> String {
    let mut page = MetricsPage::new(format, "hailer_serve");
    page.family(Info, "build", "Version of the program; always 1.")
        .sample(&[("version", &*snapshot.version)], 1.0);
    page.add(&PROCESS, &[(Vec::new(), snapshot)]);
    add_listeners(&mut page, &snapshot.listeners);
    page.add(&LIMIT, &[(Vec::new(), snapshot)]);
    add_sources(&mut page, &snapshot.sources);
    add_doors(&mut page, &snapshot.doors);
    page.finish()
}

fn add_listeners(page: &mut MetricsPage, listeners: &[Listener]) {
    let listeners: Vec<_> = listeners
        .iter()
        .map(|listener| (vec![("listener", &*listener.address)], &listener.counts))
        .collect();
    page.add(&LISTENER, &listeners);
    let help = "Received datagrams and connections, by protocol.";
    let mut family = page.family(Counter, "requests", help);
    for (labels, counts) in &listeners {
        for (protocol, count) in &counts.requests {
            family.sample(&[labels[0], ("protocol", protocol)], *count as f64);
        }
    }
    let help = "Replies, by protocol and by whether the source address was verified.";
    let mut family = page.family(Counter, "answers", help);
    for (labels, counts) in &listeners {
        for (protocol, kinds) in &counts.answers {
            for (kind, count) in kinds {
                let labels = [labels[0], ("protocol", protocol), ("kind", kind)];
                family.sample(&labels, *count as f64);
            }
        }
    }
    let help = "Datagrams and connections without a reply, by reason.";
    let mut family = page.family(Counter, "dropped_datagrams", help);
    for (labels, counts) in &listeners {
        // Report all reasons from the start: rates ignore the first value of a new series.
        for reason in reasons() {
            let count = counts.dropped.get(&reason).copied().unwrap_or(0);
            family.sample(&[labels[0], ("reason", &reason)], count as f64);
        }
    }
}

fn add_sources(page: &mut MetricsPage, sources: &[Source]) {
    // Two series with the same labels would make the page invalid.
    let mut names = BTreeSet::new();
    let mut named = Vec::new();
    for (i, source) in sources.iter().enumerate() {
        let name = if names.insert(&source.name) {
            source.name.clone()
        } else {
            format!("{} #{i}", source.name)
        };
        named.push((name, source));
    }
    let help = "Age of the last status of a source; missing before the first one.";
    let mut family = page.family(Gauge, "source_age_seconds", help);
    for (name, source) in &named {
        if let Some(age) = source.age_s {
            family.sample(&[("source", name), ("kind", &source.kind)], age);
        }
    }
    let help = "1 for the state that a source is in, 0 for the others.";
    let mut family = page.family(Gauge, "source_state", help);
    for (name, source) in &named {
        for state in State::ALL {
            let labels = [
                ("source", &**name),
                ("kind", &*source.kind),
                ("state", state.name()),
            ];
            family.sample(&labels, f64::from(u8::from(source.state == state)));
        }
    }
}

/// Adds the doors. Their names are unique.
fn add_doors(page: &mut MetricsPage, doors: &[Door]) {
    let help = "1 for the state that the game is in, 0 for the others.";
    let mut family = page.family(Gauge, "door_state", help);
    for door in doors {
        for state in DoorState::ALL {
            let labels = [("door", &*door.name), ("state", state.name())];
            family.sample(&labels, f64::from(u8::from(door.state == state)));
        }
    }
    let doors: Vec<_> = doors
        .iter()
        .map(|door| (vec![("door", &*door.name)], door))
        .collect();
    page.add(&DOOR, &doors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::responder as simulated;
    use hailer_testkit::openmetrics::{self, parse};
    use std::io::{Read, Write as _};
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;

    fn value(page: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        openmetrics::value(&parse(page), &format!("hailer_serve_{name}"), labels)
    }

    #[test]
    fn page_matches_the_snapshot() {
        let snapshot = simulated::snapshot(100.0);
        let page = text(&snapshot, MetricsFormat::OpenMetrics);
        let first = &snapshot.listeners[0];
        let listener = ("listener", &*first.address);
        assert_eq!(
            value(&page, "received_datagrams_total", &[listener]),
            Some(first.counts.received as f64)
        );
        let passed = value(&page, "relayed_back_datagrams_total", &[listener]);
        assert_eq!(passed, Some(first.counts.relayed_back as f64));
        let requests = value(
            &page,
            "requests_total",
            &[listener, ("protocol", "minecraft-query")],
        );
        assert_eq!(
            requests,
            Some(first.counts.requests["minecraft-query"] as f64)
        );
        let verified = [
            listener,
            ("protocol", "minecraft-query"),
            ("kind", "answer"),
        ];
        let count = first.counts.answers["minecraft-query"]["answer"];
        assert_eq!(value(&page, "answers_total", &verified), Some(count as f64));
        let token = [listener, ("reason", "token")];
        assert_eq!(
            value(&page, "dropped_datagrams_total", &token),
            Some(first.counts.dropped["token"] as f64)
        );
        assert_eq!(
            value(
                &page,
                "dropped_datagrams_total",
                &[listener, ("reason", "stale")]
            ),
            Some(0.0)
        );
        assert_eq!(
            value(
                &page,
                "source_age_seconds",
                &[("source", "lobby"), ("kind", "file")]
            ),
            Some(1.0)
        );
        let never = [("source", "creative"), ("kind", "push"), ("state", "never")];
        assert_eq!(value(&page, "source_state", &never), Some(1.0));
        assert_eq!(value(&page, "source_age_seconds", &never[..2]), None);
    }

    #[test]
    fn escapes_labels_and_limits_series() {
        let mut snapshot = simulated::snapshot(5.0);
        let series = parse(&text(&snapshot, MetricsFormat::OpenMetrics)).len();
        snapshot.top.clear();
        snapshot.listeners[0]
            .counts
            .dropped
            .insert("of a newer library".into(), 3);
        assert_eq!(
            parse(&text(&snapshot, MetricsFormat::OpenMetrics)).len(),
            series
        );
        let odd = "a\\n\"}\n# {x=\"\\";
        let twice = Source {
            name: odd.into(),
            kind: "file".into(),
            ..Source::default()
        };
        snapshot.sources = vec![twice.clone(), twice];
        let page = text(&snapshot, MetricsFormat::OpenMetrics);
        let never = [("source", odd), ("kind", "file"), ("state", "never")];
        assert_eq!(value(&page, "source_state", &never), Some(1.0));
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let _ = stream.write_all(request.as_bytes());
        let mut output = String::new();
        let _ = stream.read_to_string(&mut output);
        output
    }

    #[test]
    fn serves_http() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = tokio::spawn(serve(listener, Arc::new(|| simulated::snapshot(7.0))));
            let asked = tokio::task::spawn_blocking(move || {
                let get = |path: &str| {
                    ask(
                        address,
                        &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"),
                    )
                };
                let plain = get("/metrics");
                assert!(
                    plain.contains("content-type: text/plain; version=0.0.4"),
                    "{plain}"
                );
                assert!(
                    plain.contains("\n# TYPE hailer_serve_requests_total counter\n"),
                    "{plain}"
                );
                let accept = "Accept: application/openmetrics-text";
                let output = ask(
                    address,
                    &format!("GET /metrics HTTP/1.1\r\nHost: {address}\r\n{accept}\r\n\r\n"),
                );
                let (head, body) = output.split_once("\r\n\r\n").unwrap();
                assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
                assert!(
                    head.contains(
                        "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8"
                    ),
                    "{head}"
                );
                assert!(
                    head.contains(&format!("content-length: {}", body.len())),
                    "{head}"
                );
                assert_eq!(value(body, "workers", &[]), Some(2.0));
                let head = ask(
                    address,
                    &format!("HEAD /metrics HTTP/1.1\r\nHost: {address}\r\n\r\n"),
                );
                assert!(
                    head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"),
                    "{head}"
                );
                for (host, status) in [
                    ("localhost", "200"),
                    ("LOCALHOST.:9570", "200"),
                    ("[::1]:9570", "200"),
                    ("evil.example", "421"),
                    ("127.0.0.1.evil.example:80", "421"),
                    ("", "421"),
                    ("localhost\r\nHost: localhost", "400"),
                ] {
                    let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n");
                    let output = ask(address, &request);
                    assert!(
                        output.starts_with(&format!("HTTP/1.1 {status} ")),
                        "{host}: {output}"
                    );
                    assert_eq!(output.contains("hailer_serve"), status == "200", "{host}");
                }
                let elsewhere =
                    format!("GET http://evil.example/metrics HTTP/1.1\r\nHost: {address}\r\n\r\n");
                assert!(ask(address, &elsewhere).starts_with("HTTP/1.1 421 "));
                assert!(get("/").contains("/metrics"));
                assert!(get("/metrics/x").starts_with("HTTP/1.1 404"));
                let post = ask(
                    address,
                    "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
                );
                assert!(
                    post.starts_with("HTTP/1.1 405") && post.contains("allow: GET, HEAD"),
                    "{post}"
                );
                assert!(ask(address, "rubbish\r\n\r\n").starts_with("HTTP/1.1 400"));
                let endless = format!(
                    "GET / HTTP/1.1\r\nx: {}\r\n\r\n",
                    "x".repeat(2 * LIMITS.head_bytes)
                );
                assert!(!ask(address, &endless).starts_with("HTTP/1.1 200"));
                // Idle connections are closed to accept others, and after a timeout.
                let idle: Vec<_> = (0..2 * MAX_CLIENTS)
                    .map(|_| std::net::TcpStream::connect(address).unwrap())
                    .collect();
                assert!(get("/metrics").starts_with("HTTP/1.1 200"));
                let mut last = idle.last().unwrap();
                last.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                assert_eq!(last.read(&mut [0]).unwrap(), 0);
                drop(idle);
            });
            asked.await.unwrap();
            server.abort();
        });
    }
}
