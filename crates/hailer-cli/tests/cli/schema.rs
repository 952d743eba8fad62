//! JSON output of the tool, checked against its schemas.

use crate::capture::{Capture, Link};
use crate::support::dns::{Dns, Record};
use crate::support::{Server, closed, ids, minecraft};
use crate::tool::{Finished, Serve, Temporary, run, run_with};
use hailer::proto::registry;
use serde_json::Value;
use std::collections::BTreeSet;

fn schema(name: &str) -> Value {
    let path = format!("{}/../../schema/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Checks each line against a schema. Returns the lines.
#[track_caller]
pub(crate) fn check(name: &str, output: &Finished) -> Vec<Value> {
    let validator = jsonschema::draft202012::new(&schema(name)).unwrap();
    let lines = output.json();
    assert!(!lines.is_empty(), "{}", output.err);
    for line in &lines {
        let errors: Vec<String> = validator
            .iter_errors(line)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}\n{line:#}", errors.join("\n"));
    }
    lines
}

#[test]
fn schemas_are_valid_and_describe_each_member() {
    /// Checks that every member has a description, and that every object with members is closed.
    fn walk(schema: &Value, path: &str) {
        let Value::Object(object) = schema else {
            return;
        };
        if let Some(Value::Object(members)) = object
            .get("properties")
            .filter(|_| object.get("type").is_some())
        {
            assert_eq!(
                object.get("additionalProperties"),
                Some(&Value::Bool(false)),
                "{path} permits unknown members"
            );
            for (name, member) in members {
                let output = member["description"].is_string() || member["$ref"].is_string();
                assert!(output, "{path}/{name} lacks a description");
            }
        }
        for (key, value) in object {
            if ["then", "else", "if"].contains(&key.as_str()) {
                continue;
            }
            match value {
                Value::Object(_) => walk(value, &format!("{path}/{key}")),
                Value::Array(values) => values
                    .iter()
                    .for_each(|value| walk(value, &format!("{path}/{key}"))),
                _ => {}
            }
        }
    }
    for name in [
        "alert-v2.json",
        "answer-v2.json",
        "check-client-v1.json",
        "check-v1.json",
        "ping-v2.json",
        "datagram-v2.json",
        "game-v1.json",
        "join-v2.json",
        "packet-v2.json",
        "packet-summary-v2.json",
        "requirement-v1.json",
        "serve-status-v2.json",
        "sweep-summary-v2.json",
    ] {
        let schema = schema(name);
        assert!(jsonschema::meta::is_valid(&schema), "{name}");
        walk(&schema, name);
    }
}

#[test]
fn answers_match_the_schema() {
    let plain = Serve::with(&[
        "--name",
        "Harbour",
        "--motd",
        "&aHello",
        "--map",
        "m",
        "--mode",
        "SMP",
        "--game-version",
        "1",
        "--player",
        "Alice",
        "--rule",
        "Owner=me",
        "--option",
        r#"onequery.tokens={ "s3cret" = ["basic"] }"#,
    ]);
    let demo = Serve::with(&["--demo"]);
    let empty = Serve::with(&["--max-players", "0"]);
    let mut targets: Vec<String> = vec![demo.address(), empty.address()];
    targets.extend(
        ids()
            .iter()
            .flat_map(|id| [plain.url(id), demo.url(id), empty.url(id)]),
    );
    for flags in [&[][..], &["--basic"], &["--no-players"]] {
        let args = ["query", "--json"]
            .iter()
            .chain(flags)
            .copied()
            .chain(targets.iter().map(String::as_str));
        let answers = check("answer-v2.json", &run(args).ends_with(0));
        let protocols: BTreeSet<_> = answers
            .iter()
            .map(|answer| answer["protocol"].as_str().unwrap())
            .collect();
        assert_eq!(protocols.len(), ids().len());
        // Members of `extra` are documented in the registry.
        for answer in &answers {
            let info = registry::find(answer["protocol"].as_str().unwrap())
                .unwrap()
                .info();
            for key in answer["status"]["extra"].as_object().unwrap().keys() {
                assert!(info.fields.iter().any(|field| field.key == key), "{key}");
            }
            for player in answer["status"]["players"]["list"].as_array().unwrap() {
                for key in player["extra"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(|(key, _)| key)
                {
                    assert!(
                        info.player_fields.iter().any(|field| field.key == key),
                        "{key}"
                    );
                }
            }
        }
    }
}

#[test]
fn sweeps_match_the_schemas() {
    let serve = Serve::with(&["--demo"]);
    let summary = Temporary::path("summary.json");
    let closed = closed().to_string();
    let shared = [
        "--timeout",
        "80ms",
        "--retries",
        "0",
        "-q",
        "--summary",
        summary.text(),
        &closed,
        &serve.address(),
    ];
    let mut output = run(["sweep", "--json", "--failed"].iter().chain(&shared)).ends_with(0);
    let lines = check("answer-v2.json", &output);
    let answers = lines.iter().filter(|line| line["ok"] == true).count();
    // Both targets are probed in each default protocol, and the demo answers in all of them.
    let datagram = registry::defaults().count();
    assert_eq!(
        (lines.len(), answers),
        (2 * datagram, datagram),
        "{lines:#?}"
    );
    output.out = std::fs::read_to_string(&summary).unwrap();
    let summary = &check("sweep-summary-v2.json", &output)[0];
    let read: hailer::sweep::Summary = serde_json::from_value(summary.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), *summary);
    assert_eq!(
        (&summary["end"], &summary["probes"]),
        (&"finished".into(), &(2 * datagram).into())
    );
    assert_eq!(summary["counts"]["answered"], datagram);
    let output = run(["sweep", "--json", "--failed"]
        .iter()
        .chain(&shared[..5])
        .chain(&["nobody.example.test", "--name-server", "127.0.0.1:9"]));
    // One failure for the whole target, though it is probed in each protocol.
    assert_eq!(check("answer-v2.json", &output.ends_with(1)).len(), 1);
}

#[test]
fn failures_match_the_schema() {
    let private = Serve::with(&["--option", "onequery.public=[]"]);
    let silent = Server::silent();
    let stray = Server::script(|_| vec![b"?".to_vec()]);
    let malformed = Server::script(|request| vec![minecraft(request, b"Hello")]);
    let dns = Dns::with(&[("broken.example.test", Record::Failure)]);
    let targets = [
        "nobody.example.test".to_owned(),
        "broken.example.test".into(),
        closed().to_string(),
        silent.address.to_string(),
        stray.address.to_string(),
        private.url("onequery"),
        format!("minecraft-query://{}", malformed.address),
    ];
    let server = dns.address().to_string();
    let args = [
        "query",
        "--json",
        "--basic",
        "--timeout",
        "80ms",
        "--retries",
        "0",
        "--name-server",
        &server,
    ];
    let output = run(args.into_iter().chain(targets.iter().map(String::as_str))).ends_with(1);
    let failures = check("answer-v2.json", &output);
    let kinds: Vec<_> = failures
        .iter()
        .map(|failure| failure["error"]["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "name-not-found",
            "lookup",
            "port-closed",
            "silence",
            "silence",
            "refused",
            "malformed"
        ]
    );
    // Failures after the first request name the server and count the datagrams.
    for (failure, received) in
        failures
            .iter()
            .zip([None, None, Some(0), Some(0), None, Some(2), Some(2)])
    {
        let was_queried =
            !["name-not-found", "lookup"].contains(&failure["error"]["kind"].as_str().unwrap());
        for member in [
            "protocol",
            "address",
            "datagrams_sent",
            "datagrams_received",
        ] {
            assert_eq!(
                failure[member].is_null(),
                !was_queried,
                "{member}: {failure:#}"
            );
        }
        if let Some(received) = received {
            assert_eq!(failure["datagrams_received"], received, "{failure:#}");
        }
    }
    assert_eq!(failures[6]["address"], malformed.address.to_string());
    assert!(
        failures[6]["error"]["datagram"]
            .as_str()
            .unwrap()
            .ends_with("48656c6c6f")
    );
    for id in ids() {
        let target = format!("{id}://{}", silent.address);
        check(
            "answer-v2.json",
            &run(format!("query --json --timeout 50ms --retries 0 {target}").split(' '))
                .ends_with(1),
        );
    }
}

#[test]
fn deviating_answers_match_the_schema() {
    let full = b"splitnum\0\x80\0hostname\0Odd\0gametype\0SMP\0game_id\0MINECRAFT\0version\x001\0plugins\0Paper: Tides 2.1\0\
                 map\0m\0numplayers\0-3\0maxplayers\0many\0hostport\x001\0hostip\0h\0whitelist\0on\0\0\x01player_\0\0\0";
    let server = Server::script(move |request| vec![minecraft(request, full)]);
    let target = format!("minecraft-query://{}", server.address);
    let answers = check(
        "answer-v2.json",
        &run(["query", "--json", "--basic", &target]).ends_with(0),
    );
    assert!(
        answers[0]["status"]["deviations"]
            .as_array()
            .unwrap()
            .iter()
            .any(|name| name == "full-for-basic")
    );
    check(
        "answer-v2.json",
        &run(["query", "--json", "--strict", &target]).ends_with(1),
    );
}

#[test]
fn pings_match_the_schema() {
    let serve = Serve::with(&["--demo"]);
    for target in ids()
        .iter()
        .map(|id| serve.url(id))
        .chain([serve.address()])
    {
        check(
            "ping-v2.json",
            &run(["ping", "--json", "-c", "2", "-i", "100ms", &target]).ends_with(0),
        );
    }
    let silent = Server::silent();
    for target in [silent.address.to_string(), closed().to_string()] {
        check(
            "ping-v2.json",
            &run(["ping", "--json", "-c", "1", "--timeout", "50ms", &target]).ends_with(1),
        );
    }
}

#[test]
fn explanations_match_the_schema() {
    let serve = Serve::with(&["--demo"]);
    for id in ids() {
        // Every datagram of a real exchange, taken from the rows that `--raw` prints.
        let raw = run(["query", "--raw", &serve.url(id)]).ends_with(0).out;
        let mut lines = String::new();
        for line in raw.lines().skip_while(|line| !line.starts_with('→')) {
            if line.starts_with(['→', '←']) {
                lines.push('\n');
            } else if line.len() > 9 && line.starts_with("  ") {
                let digits: String = line.chars().skip(9).take(47).collect();
                lines.push_str(
                    &digits
                        .split_whitespace()
                        .take_while(|word| word.len() == 2)
                        .collect::<String>(),
                );
            }
        }
        let explained = check(
            "datagram-v2.json",
            &run_with(["decode", "--json"], lines.as_bytes()).ends_with(0),
        );
        assert!(
            explained
                .iter()
                .all(|datagram| datagram["protocol"] == id && datagram["error"].is_null()),
            "{explained:#?}"
        );
    }
    for hex in [
        "00",
        "fefd",
        "fefd09",
        "ff ff 55 47 50 00 01 81 07",
        "4f4e455245504c5901",
        "deadbeef",
        "09",
    ] {
        check("datagram-v2.json", &run(["decode", "--json", hex]));
    }
    // A OneQuery query with an auth token, "s3cret".
    let query = format!(
        "4f4e455155455259 01 {} 00000000 0100 00000000 0600 733363726574",
        "07".repeat(32)
    );
    let output = check(
        "datagram-v2.json",
        &run(["decode", "--json", &query]).ends_with(0),
    );
    assert!(
        output[0]["hex"].as_str().unwrap().ends_with("------------"),
        "{:#}",
        output[0]
    );
    let capture = Capture::new(Link::Ethernet)
        .udp(b"\xFE\xFD\x09\0\0\0\x01")
        .udp(b"hello");
    let file = Temporary::file("capture.pcap", capture.pcap(true, false));
    let output = run(["decode", "--json", "--all", file.text()]).ends_with(1);
    assert_eq!(check("datagram-v2.json", &output).len(), 2);
}

#[test]
fn games_match_the_schema() {
    let games = check("game-v1.json", &run(["games", "--json"]).ends_with(0));
    assert_eq!(games.len(), hailer::proto::games::GAMES.len());
}
