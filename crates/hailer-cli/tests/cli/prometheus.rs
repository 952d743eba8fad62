//! Both pages of metrics, in both formats, with promtool and a real Prometheus.

use crate::tool::{Process, Serve, Temporary, command};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time for Prometheus to start and to request all pages.
const TIMEOUT: Duration = Duration::from_secs(60);
const OPEN: &str = "application/openmetrics-text";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns whether Prometheus is installed. Without it, prints that the test is skipped, or panics
/// if `HAILER_NEEDS_PROMETHEUS` is set.
fn is_installed() -> bool {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if has("prometheus") && has("promtool") {
        return true;
    }
    let needed = std::env::var_os("HAILER_NEEDS_PROMETHEUS").is_some();
    assert!(
        !needed,
        "prometheus and promtool are not installed; on Debian: apt-get install prometheus"
    );
    eprintln!("skipped: Prometheus is not installed");
    false
}

fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

/// Returns the header and the body of a response.
fn get(address: SocketAddr, path: &str, accept: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n")?;
    Some((head.to_owned(), body.to_owned()))
}

/// Serves a page in the plain format to every request.
fn relay(page: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let length = page.len();
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: {PLAIN}\r\nContent-Length: {length}\r\n");
            let _ = stream.write_all(format!("{head}\r\n{page}").as_bytes());
        }
    });
    address
}

/// Checks a page with promtool.
fn check(page: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped());
    promtool.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().unwrap();
    let mut input = promtool.stdin.take().unwrap();
    input.write_all(page.as_bytes()).unwrap();
    drop(input);
    let output = promtool.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success() && text.is_empty(), "{text}\n{page}");
}

#[test]
fn prometheus_reads_both_pages_in_both_formats() {
    if !is_installed() {
        return;
    }
    let [metrics, web, listen] = [free(), free(), free()];
    let serve = Serve::with(&["--name", "Lobby", "--metrics", &metrics.to_string()]);
    let folder = Temporary::path("prometheus");
    std::fs::create_dir(folder.text()).unwrap();
    let at = |name: &str| format!("{}/{name}", folder.text());
    let mut monitor = command(["monitor", "--for", "60s", "--listen", &web.to_string()]);
    monitor.args(["--history", &at("history.db"), "--interval", "1s"]);
    let mut monitor = Process::start(monitor.arg(serve.url("minecraft-query")));
    let out = monitor.child.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut String::new()).unwrap();

    let mut relays = Vec::new();
    for page in [metrics, web] {
        let (head, plain) = get(page, "/metrics", "*/*").unwrap();
        assert!(head.contains(PLAIN), "{head}");
        check(&plain);
        let (head, open) = get(page, "/metrics", OPEN).unwrap();
        assert!(head.contains(OPEN) && open.ends_with("# EOF\n"), "{head}");
        relays.push(relay(plain));
    }
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n\
         - {{job_name: open, static_configs: [{{targets: ['{metrics}', '{web}']}}]}}\n\
         - {{job_name: plain, static_configs: [{{targets: ['{}', '{}']}}]}}\n",
        relays[0], relays[1]
    );
    std::fs::write(at("prometheus.yml"), config).unwrap();
    let mut prometheus = Command::new("prometheus");
    prometheus.arg(format!("--config.file={}", at("prometheus.yml")));
    prometheus.arg(format!("--storage.tsdb.path={}", at("data")));
    prometheus.arg(format!("--web.listen-address={listen}"));
    prometheus.arg("--log.level=error");
    let _prometheus = Process::start(&mut prometheus);
    let values = |query: &str| -> Vec<(String, String)> {
        let path = format!("/api/v1/query?query={query}");
        let Some((_, body)) = get(listen, &path, "*/*") else {
            return Vec::new();
        };
        let body: Value = serde_json::from_str(&body).unwrap_or_default();
        let results = body["data"]["result"].as_array().cloned();
        let mut values: Vec<_> = results
            .unwrap_or_default()
            .iter()
            .map(|one| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                (text(&one["metric"]["job"]), text(&one["value"][1]))
            })
            .collect();
        values.sort();
        values
    };
    let both = |value: &str| ["open", "plain"].map(|job| (job.to_owned(), value.to_owned()));
    let started = Instant::now();
    while values("up").len() < 4 {
        assert!(started.elapsed() < TIMEOUT, "Prometheus requests no page");
        std::thread::sleep(Duration::from_millis(100));
    }
    let up = [both("1"), both("1")].concat();
    let sorted = |mut values: Vec<_>| {
        values.sort();
        values
    };
    assert_eq!(values("up"), sorted(up), "a page cannot be read");
    for (query, value) in [
        ("hailer_serve_build_info", "1"),
        (
            "count(hailer_serve_dropped_datagrams_total)by(job)>bool+5",
            "1",
        ),
        ("hailer_monitor_build_info", "1"),
        ("hailer_monitor_servers_flapping", "0"),
        ("hailer_monitor_alerts_failed_total", "0"),
    ] {
        assert_eq!(values(query), both(value), "{query}");
    }
}
