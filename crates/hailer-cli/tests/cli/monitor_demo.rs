//! `hailer monitor --demo`.

use crate::tool::{Process, Temporary, command, run};
use hailer::proto::Protocol;
use hailer::proto::registry;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

/// Longest wait for the demo. A release build starts it within 5 s, but this build is not optimized
/// and other tests run at the same time.
const TIMEOUT: Duration = Duration::from_secs(40);

#[test]
fn demo_starts_with_a_year_of_history() {
    let folder = Temporary::path("demo");
    std::fs::create_dir(&folder).unwrap();
    let mut command = command("monitor --demo --listen 127.0.0.1:0 --for 2min".split(' '));
    let mut process = Process::start(command.env("TMPDIR", folder.text()));
    let mut line = String::new();
    BufReader::new(process.child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let url = line
        .trim_end()
        .rsplit_once(" at ")
        .unwrap_or_else(|| panic!("{line:?}"))
        .1
        .to_owned();
    let get = |path: &str| {
        ureq::get(format!("{url}{path}"))
            .call()
            .unwrap()
            .body_mut()
            .read_to_string()
            .unwrap()
    };
    let json = |path: &str| serde_json::from_str::<Value>(&get(path)).unwrap();

    let started = Instant::now();
    let servers = loop {
        let list = json("/api/v1/servers?limit=500");
        let servers = list["servers"].as_array().unwrap().clone();
        let is_asked = |server: &Value| server["last_sample"].is_object();
        if servers.len() > 30 && servers.iter().all(is_asked) {
            break servers;
        }
        assert!(started.elapsed() < TIMEOUT, "{list}");
        std::thread::sleep(Duration::from_millis(100));
    };
    let is_up = |server: &&Value| server["state"] == "up";
    assert!(servers.iter().filter(is_up).count() > 30);
    assert_eq!(
        servers
            .iter()
            .find(|server| server["name"] == "market")
            .unwrap()["state"],
        "down"
    );
    let is_in_demo = |protocol: &&&dyn Protocol| {
        let id = protocol.info().id;
        registry::DEFAULTS.contains(&id) || matches!(id, "minecraft-status" | "a2s")
    };
    for protocol in registry::PROTOCOLS.iter().filter(is_in_demo) {
        let is_of = |server: &Value| {
            server["protocol"] == protocol.info().id && server["last_sample"]["is_answered"] == true
        };
        assert!(
            servers.iter().any(is_of),
            "{} has no answer",
            protocol.info().id
        );
    }

    let page = get("/");
    assert!(page.contains("lobby-eu") && page.contains("CROSSROADS") && page.contains("mallory"));
    assert!(
        !page.contains("<script>") && !page.contains("<img src=x"),
        "hostile names must be escaped"
    );
    let page = get("/server/harbour?range=1y");
    assert_eq!(page.matches("<svg class=\"chart").count(), 3, "{page}");
    let now = json("/api/v1/totals")["at"].as_i64();
    for (level, days, at_least) in [("5m", 1, 286), ("1h", 30, 718), ("1d", 365, 364)] {
        let now = now.unwrap_or_else(|| {
            json("/api/v1/servers/harbour")["last_sample"]["at_ms"]
                .as_i64()
                .unwrap()
        });
        let from = now - days * 86_400_000;
        let series = json(&format!(
            "/api/v1/servers/harbour/series?from={from}&level={level}"
        ));
        let points = series["points"].as_array().unwrap();
        let shown = points
            .iter()
            .filter(|point| point["players_mean"].as_f64().is_some())
            .count();
        assert!(shown >= at_least * 95 / 100, "{shown} of {level}");
    }
    assert!(
        json("/api/v1/events?limit=500")["events"]
            .as_array()
            .unwrap()
            .len()
            > 100
    );
    assert!(
        !json("/api/v1/servers/lobby-eu/sessions")["sessions"]
            .as_array()
            .unwrap()
            .is_empty()
    );

    process.signal("INT");
    assert!(process.wait().success());
    assert_eq!(
        std::fs::read_dir(&folder).unwrap().count(),
        0,
        "the demo must remove its files"
    );
}

#[test]
fn demo_refuses_other_servers() {
    let output = run(["monitor", "--demo", "ugp://127.0.0.1"]).ends_with(2);
    output.warns(&["--demo"]);
}
