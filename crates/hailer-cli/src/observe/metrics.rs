//! `/metrics`: a snapshot in the text format of Prometheus, and a small HTTP server for it.
//!
//! Labels are our addresses, protocols, kinds, reasons and sources. Clients cannot create series,
//! so the prefixes of a snapshot are left out.
//!
//! Limits: [`LIMITS`].

use super::snapshot::{Counts, Snapshot, State, reasons};
use super::{CLIENTS, Look};
use hailer::listen::ConnectionLimits;
use hailer::listen::http::{self, HttpLimits};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::http::uri::Authority;
use hyper::{Method, Request, Response, StatusCode};
use std::collections::BTreeSet;
use std::fmt::{Display, Write};
use std::future::{pending, ready};
use std::net::IpAddr;
use std::time::Duration;
use tokio::net::TcpListener;

/// Time for a request and its response. Shorter in tests.
const TIMEOUT: Duration = Duration::from_millis(if cfg!(test) { 500 } else { 5_000 });
/// Limits of the listener. One request per connection.
const LIMITS: HttpLimits = HttpLimits {
    connections: ConnectionLimits {
        total: CLIENTS,
        per_network: CLIENTS,
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
pub(super) async fn serve(listener: TcpListener, look: Look) {
    let respond = move |request: Request<Incoming>, _| ready(respond(&request, &look));
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
    match is_own {
        true => Ok(()),
        false => Err((
            StatusCode::MISDIRECTED_REQUEST,
            "the host name must be an IP address or localhost\n",
        )),
    }
}

fn respond<B>(request: &Request<B>, look: &Look) -> Response<Full<Bytes>> {
    let plain = "text/plain; charset=utf-8";
    if let Err((status, problem)) = check_host(request) {
        let mut response = Response::new(Full::from(problem));
        *response.status_mut() = status;
        let plain = HeaderValue::from_static(plain);
        response.headers_mut().insert(CONTENT_TYPE, plain);
        return response;
    }
    let (status, kind, body) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => (
            StatusCode::OK,
            "text/plain; version=0.0.4; charset=utf-8",
            text(&look()),
        ),
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
    headers.insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(kind));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
    }
    response
}

/// Returns the snapshot in version 0.0.4 of the text format.
pub(super) fn text(snapshot: &Snapshot) -> String {
    let mut page = Page(String::with_capacity(8 << 10), "");
    page.gauge("build_info", "Version of the program; always 1.");
    page.sample(&[("version", &snapshot.version)], 1);
    page.gauge(
        "start_time_seconds",
        "When the process started, seconds since 1970.",
    );
    page.sample(&[], snapshot.started);
    page.gauge("workers", "Threads that answer.");
    page.sample(&[], snapshot.workers);

    type Counter = fn(&Counts) -> u64;
    let of_each: [(_, _, Counter); 6] = [
        (
            "received_datagrams_total",
            "Datagrams received.",
            |counts| counts.received,
        ),
        (
            "received_bytes_total",
            "Bytes received, of UDP payload.",
            |counts| counts.bytes_in,
        ),
        (
            "sent_bytes_total",
            "Bytes sent, of UDP payload.",
            |counts| counts.bytes_out,
        ),
        (
            "relayed_datagrams_total",
            "Datagrams passed to the game server by a relay.",
            |counts| counts.relayed,
        ),
        (
            "relayed_back_datagrams_total",
            "Datagrams of the game server passed back.",
            |counts| counts.relayed_back,
        ),
        (
            "lost_datagrams_total",
            "Datagrams lost because the receive queue was full.",
            |counts| counts.overflows,
        ),
    ];
    for (name, help, count) in of_each {
        page.counter(name, help);
        for listener in &snapshot.listeners {
            page.sample(&[("listener", &listener.address)], count(&listener.counts));
        }
    }
    page.counter("requests_total", "Received datagrams, by protocol.");
    for listener in &snapshot.listeners {
        for (protocol, count) in &listener.counts.requests {
            page.sample(
                &[("listener", &*listener.address), ("protocol", protocol)],
                count,
            );
        }
    }
    page.counter(
        "answers_total",
        "Replies, by protocol and by whether the source address was verified.",
    );
    for listener in &snapshot.listeners {
        for (protocol, kinds) in &listener.counts.answers {
            for (kind, count) in kinds {
                let labels = [
                    ("listener", &*listener.address),
                    ("protocol", protocol),
                    ("kind", kind),
                ];
                page.sample(&labels, count);
            }
        }
    }
    page.counter(
        "dropped_datagrams_total",
        "Datagrams without a reply, by reason.",
    );
    for listener in &snapshot.listeners {
        // Report all reasons from the start: rates ignore the first value of a new series.
        for reason in reasons() {
            let count = listener.counts.dropped.get(&reason).copied().unwrap_or(0);
            page.sample(
                &[("listener", &listener.address), ("reason", &reason)],
                count,
            );
        }
    }

    let budget = &snapshot.budget;
    for (name, help, value) in [
        (
            "unverified_budget_left_bytes",
            "Bytes that may be sent now to unverified addresses.",
            budget.left_bytes,
        ),
        (
            "unverified_budget_bytes",
            "Bytes added to that budget per second; 0: no limit.",
            budget.bytes_per_second,
        ),
        (
            "budget_networks",
            "Source networks in the table of the budget.",
            budget.sources,
        ),
        (
            "budget_networks_max",
            "Capacity of that table.",
            budget.places,
        ),
        (
            "relay_sessions",
            "Open sessions of relays.",
            snapshot.relay.sessions,
        ),
        (
            "relay_sessions_max",
            "Maximum number of sessions; 0: no relay.",
            snapshot.relay.places,
        ),
    ] {
        page.gauge(name, help);
        page.sample(&[], value);
    }

    // Two series with the same labels would make the page invalid.
    let mut names = BTreeSet::new();
    let sources = snapshot.sources.iter().enumerate().map(|(i, source)| {
        let is_new = names.insert(&source.name);
        (
            if is_new {
                source.name.clone()
            } else {
                format!("{} #{i}", source.name)
            },
            source,
        )
    });
    let sources: Vec<_> = sources.collect();
    page.gauge(
        "source_age_seconds",
        "Age of the last status of a source; missing before the first one.",
    );
    for (name, source) in &sources {
        if let Some(age) = source.age_s {
            page.sample(&[("source", name), ("kind", &source.kind)], age);
        }
    }
    page.gauge(
        "source_state",
        "1 for the state that a source is in, 0 for the others.",
    );
    for (name, source) in &sources {
        for state in State::ALL {
            let labels = [
                ("source", &**name),
                ("kind", &source.kind),
                ("state", state.name()),
            ];
            page.sample(&labels, u8::from(source.state == state));
        }
    }
    page.0
}

/// The text so far, and the name of the current metric family.
struct Page(String, &'static str);

impl Page {
    fn counter(&mut self, name: &'static str, help: &str) {
        debug_assert!(name.ends_with("_total"));
        self.family(name, "counter", help);
    }

    fn gauge(&mut self, name: &'static str, help: &str) {
        debug_assert!(!name.ends_with("_total"));
        self.family(name, "gauge", help);
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.1 = name;
        // Writing to a `String` cannot fail.
        let _ = writeln!(
            self.0,
            "# HELP hailer_serve_{name} {help}\n# TYPE hailer_serve_{name} {kind}"
        );
    }

    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "hailer_serve_{}", self.1);
        for (i, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if i == 0 { '{' } else { ',' });
            for c in text.chars() {
                match c {
                    '\\' => self.0.push_str("\\\\"),
                    '"' => self.0.push_str("\\\""),
                    '\n' => self.0.push_str("\\n"),
                    c => self.0.push(c),
                }
            }
            self.0.push('"');
        }
        let _ = writeln!(
            self.0,
            "{} {value}",
            if labels.is_empty() { "" } else { "}" }
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::{invented, snapshot::Source};
    use super::*;
    use std::collections::BTreeMap;
    use std::io::{Read, Write as _};
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::Arc;

    /// Returns the value of each sample by name and labels. Panics on anything that version 0.0.4
    /// of the text format does not allow, and on timestamps.
    fn parse(text: &str) -> BTreeMap<(String, BTreeMap<String, String>), f64> {
        fn is_name(name: &str) -> bool {
            let first = name
                .bytes()
                .next()
                .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
            first && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        }
        let (mut samples, mut families) = (BTreeMap::new(), BTreeSet::new());
        let mut family = ("", "");
        assert!(text.ends_with('\n'));
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(help) = line.strip_prefix("# HELP ") {
                let (name, words) = help.split_once(' ').unwrap();
                assert!(
                    is_name(name) && words.ends_with('.') && !words.contains('\\'),
                    "{line}"
                );
                let (typed, kind) = lines
                    .next()
                    .unwrap()
                    .strip_prefix("# TYPE ")
                    .unwrap()
                    .split_once(' ')
                    .unwrap();
                assert!(
                    typed == name && ["counter", "gauge"].contains(&kind),
                    "{typed} {kind}"
                );
                assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
                assert!(families.insert(name), "{name} twice");
                family = (name, kind);
                continue;
            }
            let end = line.find(['{', ' ']).unwrap();
            assert_eq!(&line[..end], family.0, "a sample outside of its family");
            let mut rest = &line[end..];
            let mut labels = BTreeMap::new();
            if let Some(inner) = rest.strip_prefix('{') {
                rest = inner;
                loop {
                    let (label, value) = rest.split_once("=\"").unwrap();
                    assert!(is_name(label) && !label.starts_with("__"), "{line}");
                    let (mut text, mut chars) = (String::new(), value.char_indices());
                    let end = loop {
                        match chars.next().expect("an open label") {
                            (at, '"') => break at,
                            (_, '\\') => text.push(match chars.next().unwrap().1 {
                                'n' => '\n',
                                c @ ('\\' | '"') => c,
                                c => panic!("\\{c} in {line}"),
                            }),
                            (_, c) => text.push(c),
                        }
                    };
                    assert!(
                        labels.insert(label.to_owned(), text).is_none(),
                        "{label} twice"
                    );
                    rest = &value[end + 1..];
                    match rest.strip_prefix(',') {
                        Some(more) => rest = more,
                        None => break,
                    }
                }
                rest = rest.strip_prefix('}').unwrap();
            }
            let value: f64 = rest.strip_prefix(' ').unwrap().parse().unwrap();
            assert!(value.is_finite() && value >= 0.0, "{line}");
            assert!(
                samples
                    .insert((family.0.to_owned(), labels), value)
                    .is_none(),
                "a series twice: {line}"
            );
        }
        samples
    }

    fn value(page: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels
            .iter()
            .map(|(label, value)| ((*label).to_owned(), (*value).to_owned()))
            .collect();
        parse(page)
            .get(&(format!("hailer_serve_{name}"), labels))
            .copied()
    }

    #[test]
    fn the_page_says_what_the_snapshot_says() {
        let snapshot = invented::snapshot(100.0);
        let page = text(&snapshot);
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
    fn no_text_breaks_out_of_its_label_and_no_outsider_makes_series() {
        let mut snapshot = invented::snapshot(5.0);
        let series = parse(&text(&snapshot)).len();
        snapshot.top.clear();
        snapshot.listeners[0]
            .counts
            .dropped
            .insert("of a newer library".into(), 3);
        assert_eq!(parse(&text(&snapshot)).len(), series);
        let odd = "a\\n\"}\n# {x=\"\\";
        let twice = Source {
            name: odd.into(),
            kind: "file".into(),
            ..Source::default()
        };
        snapshot.sources = vec![twice.clone(), twice];
        let page = text(&snapshot);
        let never = [("source", odd), ("kind", "file"), ("state", "never")];
        assert_eq!(value(&page, "source_state", &never), Some(1.0));
    }

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let _ = stream.write_all(request.as_bytes());
        let mut said = String::new();
        let _ = stream.read_to_string(&mut said);
        said
    }

    #[test]
    fn it_is_handed_out_over_http() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let address = listener.local_addr().unwrap();
            let server = tokio::spawn(serve(listener, Arc::new(|| invented::snapshot(7.0))));
            let asked = tokio::task::spawn_blocking(move || {
                let get = |path: &str| {
                    ask(
                        address,
                        &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n"),
                    )
                };
                let said = get("/metrics");
                let (head, body) = said.split_once("\r\n\r\n").unwrap();
                assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
                assert!(
                    head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"),
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
                    let said = ask(address, &request);
                    assert!(
                        said.starts_with(&format!("HTTP/1.1 {status} ")),
                        "{host}: {said}"
                    );
                    assert_eq!(said.contains("hailer_serve"), status == "200", "{host}");
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
                let idle: Vec<_> = (0..2 * CLIENTS)
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
