//! `contrib/pelican`: the query types of the Pelican panel, in PHP, with stubs of the panel.

use crate::condition::with_players;
use crate::support::{Server, closed, protocol};
use crate::tool::{Temporary, run};
use hailer::Status;
use hailer::proto::model::Roster;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const NEEDED: &str = "HAILER_NEEDS_PHP";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/pelican")
}

/// Returns whether there is PHP. Prints that a test is skipped without it, unless it is required.
fn has_php() -> bool {
    let has_php = Command::new("php").arg("--version").output().is_ok();
    if !has_php {
        assert!(std::env::var_os(NEEDED).is_none(), "php is not installed");
        eprintln!("skipped: php is not installed");
    }
    has_php
}

/// Starts a program for each connection to a Unix socket, as systemd does.
fn answer_connections(path: &str) {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let input = OwnedFd::from(stream.try_clone().unwrap());
            let mut child = Command::new(env!("CARGO_BIN_EXE_hailer"))
                .args("query - --json --retries 0 --timeout 500ms".split(' '))
                .stdin(Stdio::from(input))
                .stdout(Stdio::from(OwnedFd::from(stream)))
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            child.wait().unwrap();
        }
    });
}

/// Runs queries of [type, form, egg, host, port].
fn query(socket: &str, queries: &[Value]) -> Value {
    let given = json!({
        "program": env!("CARGO_BIN_EXE_hailer"),
        "socket": socket,
        "queries": queries,
    });
    let output = Command::new("php")
        .arg(folder().join("tests/run.php"))
        .arg(given.to_string())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!(
            "{error}: {text} {}",
            String::from_utf8_lossy(&output.stderr)
        )
    })
}

#[test]
fn files_of_the_package_have_no_syntax_errors() {
    let composer = std::fs::read_to_string(folder().join("composer.json")).unwrap();
    let composer: Value = serde_json::from_str(&composer).unwrap();
    let provider = composer["extra"]["laravel"]["providers"][0]
        .as_str()
        .unwrap();
    assert_eq!(composer["autoload"]["psr-4"]["Hailer\\Pelican\\"], "src/");
    let class = provider.strip_prefix("Hailer\\Pelican\\").unwrap();
    assert!(folder().join(format!("src/{class}.php")).exists());
    if !has_php() {
        return;
    }
    for part in ["src", "tests"] {
        for entry in std::fs::read_dir(folder().join(part)).unwrap() {
            let path = entry.unwrap().path();
            let output = Command::new("php").arg("-l").arg(&path).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        }
    }
}

#[test]
fn the_panel_gets_counts_maps_and_names() {
    if !has_php() {
        return;
    }
    let rust = Server::of(&[protocol("a2s")], &with_players(2, 50));
    let mut unknown = with_players(2, 50);
    unknown.players.online = None;
    unknown.players.roster = Roster::Absent;
    unknown.players.list.clear();
    // A server of Satisfactory reports no number of players.
    let silent_count = Server::of(&[protocol("satisfactory")], &unknown);
    let nameless = Status {
        name: None,
        ..with_players(0, 20)
    };
    let hytale = Server::of(&[protocol("onequery")], &nameless);
    let port = rust.port();
    let egg = |name: &str| json!({"name": name, "tags": []});
    let empty = json!({});
    let queries = [
        json!(["hailer-rust", "address", empty, "127.0.0.1", port]),
        json!(["hailer", "server", egg("Rust"), "127.0.0.1", port]),
        json!(["hailer", "with-server", egg("Rust Oxide"), "0.0.0.0", port]),
        json!(["hailer-rust", "address", empty, "0.0.0.0", port]),
        json!([
            "hailer-hytale",
            "address",
            empty,
            "127.0.0.1",
            hytale.port()
        ]),
        json!([
            "hailer-satisfactory",
            "address",
            empty,
            "127.0.0.1",
            silent_count.port()
        ]),
        json!([
            "hailer-rust",
            "address",
            empty,
            closed().ip().to_string(),
            closed().port()
        ]),
        json!(["hailer-rust", "address", empty, "127.0.0.1\nrust://x", port]),
        json!(["hailer-rust", "address", empty, "--help", port]),
        json!(["hailer-rust", "address", empty, "127.0.0.1", 0]),
    ];
    let folder = Temporary::path("pelican");
    std::fs::create_dir_all(&folder).unwrap();
    let socket = format!("{}/query.sock", folder.text());
    answer_connections(&socket);
    for socket in ["", &socket] {
        let output = query(socket, &queries);
        let results = output["results"].as_array().unwrap();
        assert_eq!(results.len(), queries.len());
        for result in &results[..4] {
            let expected = json!({
                "hostname": "Harbour house",
                "map": "harbour",
                "current_players": 2,
                "max_players": 50,
                "players": [{"id": "1", "name": "Player0"}, {"id": "2", "name": "Player1"}],
            });
            assert_eq!(*result, expected, "{socket}");
        }
        assert_eq!(results[4]["current_players"], 0);
        assert_eq!(results[4]["players"], json!([]));
        assert!(results[5..].iter().all(Value::is_null), "{results:?}");
    }
    // A socket without a service.
    let output = query("/no/such/socket", &queries[..1]);
    assert_eq!(output["results"], json!([null]));
}

#[test]
fn eggs_name_games_that_can_be_queried() {
    if !has_php() {
        return;
    }
    let output = query("", &[]);
    let known = run(["games", "--json"]).ends_with(0).json();
    let known: BTreeSet<&str> = known
        .iter()
        .filter(|game| game["obstacle"].is_null())
        .map(|game| game["id"].as_str().unwrap())
        .collect();
    let games = output["games"].as_object().unwrap();
    let games: BTreeSet<&str> = games.values().map(|id| id.as_str().unwrap()).collect();
    let wrong: Vec<&&str> = games.difference(&known).collect();
    assert!(
        wrong.is_empty() && games.len() >= 50,
        "{wrong:?}, {} games",
        games.len()
    );
    let types = output["types"].as_object().unwrap();
    assert_eq!(types.len(), games.len() + 1);
    assert_eq!(types["hailer-rust"], "Hailer: rust");
}
