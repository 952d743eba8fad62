//! `hailer query --if`, `--until` and `--wait-ready`, with servers that are frozen, loading, empty and
//! full.

use crate::schema;
use crate::support::{Server, closed, loopback, protocol, status};
use crate::tool::{Process, command, finish_started, run, run_with};
use hailer::Status;
use hailer::proto::model::Extra;
use hailer::respond::{Board, Budget, Service};
use std::net::SocketAddr;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Options that make the queries of silent servers short.
const SHORT: [&str; 4] = ["--retries", "0", "--timeout", "300ms"];

/// Returns a status with a number of players.
pub(crate) fn with_players(online: i64, max: i64) -> Status {
    let names: Vec<String> = (0..online)
        .map(|number| format!("Player{number}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut status = status("Harbour house", &names);
    status.players.max = Some(max);
    status
}

/// Returns a server of a protocol with a number of players.
fn server(id: &str, online: i64, max: i64) -> Server {
    Server::of(&[protocol(id)], &with_players(online, max))
}

/// Returns a server of Satisfactory that reports that it loads its world.
pub(crate) fn loading() -> Server {
    let status = Status {
        extra: vec![Extra::new("state", "loading")],
        ..with_players(0, 4)
    };
    Server::of(&[protocol("satisfactory")], &status)
}

/// A server that changes from one status to another. At first, it may also be silent.
struct Changing {
    server: Server,
    has_changed: Arc<AtomicBool>,
    requests: Arc<AtomicU32>,
}

impl Changing {
    fn new(id: &'static str, before: Option<&Status>, after: &Status) -> Self {
        let service = |status: &Status| {
            let board = Board::new(&[protocol(id)], status).unwrap();
            Service::new(board, Budget::default())
        };
        let mut before = before.map(service);
        let mut after = service(after);
        let (has_changed, requests) = (Arc::<AtomicBool>::default(), Arc::<AtomicU32>::default());
        let (changed, received) = (has_changed.clone(), requests.clone());
        let server = Server::run(loopback(), move |socket, bytes, from: SocketAddr| {
            received.fetch_add(1, Ordering::Relaxed);
            let service = match &mut before {
                _ if changed.load(Ordering::Relaxed) => &mut after,
                Some(before) => before,
                None => return,
            };
            for reply in service.answer(from, bytes) {
                let _ = socket.send_to(reply, from);
            }
        });
        Self {
            server,
            has_changed,
            requests,
        }
    }

    fn change(&self) {
        self.has_changed.store(true, Ordering::Relaxed);
    }

    fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }
}

fn target(id: &str, server: &Server) -> String {
    format!("{id}://{}", server.address)
}

/// Starts a query with piped output.
fn start(args: &[&str]) -> Process {
    let mut command = command(["query"].iter().chain(args));
    Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

#[test]
fn exit_code_is_0_only_if_the_condition_is_true() {
    let frozen = Server::silent();
    let (empty, full) = (server("ugp", 0, 4), server("ugp", 4, 4));
    let loading = loading();
    let closed = format!("ugp://{}", closed());
    let frozen = target("ugp", &frozen);
    let [empty_url, full_url] = [&empty, &full].map(|server| target("ugp", server));
    let loading_url = target("satisfactory", &loading);
    for (target, condition, code, word) in [
        (&empty_url, "players = 0", 0, "true: players is 0"),
        (&full_url, "players = 0", 3, "false: players is 4"),
        (
            &loading_url,
            "players = 0",
            3,
            "unknown: players is unknown",
        ),
        (
            &frozen,
            "players = 0",
            3,
            "unknown: players is unknown; 127.0.0.1:",
        ),
        (
            &closed,
            "players = 0",
            3,
            "unknown: players is unknown; 127.99.0.1:",
        ),
        (&empty_url, "ready", 0, "true: ready is yes"),
        (&full_url, "ready", 0, "true: ready is yes"),
        (&loading_url, "ready", 3, "false: ready is no"),
        (&frozen, "ready", 3, "false: ready is no; 127.0.0.1:"),
        (&closed, "ready", 3, "false: ready is no; 127.99.0.1:"),
        (&empty_url, "not online", 3, "false: online is yes"),
        (&full_url, "not online", 3, "false: online is yes"),
        (&loading_url, "not online", 3, "false: online is yes"),
        (&frozen, "not online", 0, "true: online is no; 127.0.0.1:"),
        (&closed, "not online", 0, "true: online is no; 127.99.0.1:"),
        (
            &full_url,
            "players = max and map = HARBOUR",
            0,
            "true: players is 4, max is 4, map is harbour",
        ),
        (
            &full_url,
            "max >= 4 and ping < 5s",
            0,
            "true: max is 4, ping is ",
        ),
    ] {
        let args = ["query", target, "--if", condition];
        let output = run(args.iter().chain(&SHORT)).ends_with(code);
        assert!(
            output.out.starts_with(&format!("{target}: {word}")),
            "{condition}: {}",
            output.out
        );
        assert_eq!((output.out.lines().count(), &*output.err), (1, ""));

        let args = ["query", target, "--if", condition, "--json"];
        let output = run(args.iter().chain(&SHORT)).ends_with(code);
        let line = &schema::check("answer-v2.json", &output)[0];
        assert_eq!(line["condition"]["text"], condition);
        let expected = match word.split(':').next() {
            Some("true") => serde_json::json!(true),
            Some("false") => serde_json::json!(false),
            _ => serde_json::Value::Null,
        };
        assert_eq!(
            line["condition"]["result"], expected,
            "{target} {condition}"
        );
        assert_eq!(output.err, "");
    }
    // The whole view, in front of the result.
    let output = run(["query", &full_url, "--if", "players = 4", "--long"]).ends_with(0);
    output.shows(&["4 / 4", "Player3", "true: players is 4"]);
}

#[test]
fn a_condition_must_be_true_of_every_server() {
    let servers = [0, 4].map(|players| server("ugp", players, 4));
    let [empty, full] = [0, 1].map(|at| target("ugp", &servers[at]));
    let output = run(["query", &empty, &full, "--if", "players = 0"]).ends_with(3);
    assert_eq!(output.out.lines().count(), 2, "{}", output.out);
    let output = run(["query", &empty, &full, "--if", "max = 4", "--json"]).ends_with(0);
    assert_eq!(schema::check("answer-v2.json", &output).len(), 2);
    // The result of an invalid line is unknown.
    let lines = format!("{empty}\nnothing://x\n");
    let output = run_with(["query", "-", "--if", "players = 0"], lines.as_bytes()).ends_with(3);
    output.warns(&["standard input, line 2"]);
}

#[test]
fn silence_without_a_protocol_is_no_proof() {
    let frozen = Server::silent();
    let address = frozen.address.to_string();
    let args = ["query", &address, "--if", "not online"];
    let output = run(args.iter().chain(&SHORT)).ends_with(3);
    output.shows(&[
        "unknown: online is unknown",
        "name the game: GAME://127.0.0.1",
    ]);
    // So is a server whose name does not exist.
    let output = run(["query", "rust://no-such-host.invalid", "--if", "not online"]).ends_with(3);
    output.shows(&["unknown: online is unknown"]);
}

#[test]
fn waits_until_the_condition_is_true() {
    let changing = Changing::new("ugp", Some(&with_players(2, 4)), &with_players(0, 4));
    let target = target("ugp", &changing.server);
    let mut waiting = start(&[&target, "--until", "players = 0", "--every", "100ms"]);
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(waiting.child.try_wait().unwrap(), None);
    let before = changing.requests();
    assert!(before >= 3, "{before} requests");
    changing.change();
    let output = finish_started(waiting).ends_with(0);
    assert_eq!(output.out, format!("{target}: true: players is 0\n"));
    // The log has one line for each change.
    assert_eq!(output.err, format!("{target}: false: players is 2\n"));

    // It must stay true.
    let started = Instant::now();
    let args = [
        "query",
        &target,
        "--until",
        "players = 0",
        "--every",
        "100ms",
        "--hold",
        "700ms",
    ];
    run(args).ends_with(0);
    assert!(started.elapsed() >= Duration::from_millis(700));
}

#[test]
fn gives_up_after_the_time() {
    let full = server("ugp", 4, 4);
    let target = target("ugp", &full);
    let started = Instant::now();
    let args = [
        "query",
        &target,
        "--until",
        "players = 0",
        "--every",
        "100ms",
        "--for",
        "500ms",
    ];
    let output = run(args).ends_with(3);
    assert_eq!(output.out, format!("{target}: false: players is 4\n"));
    let elapsed = started.elapsed();
    assert!(elapsed >= Duration::from_millis(300), "{elapsed:?}");
    let output = run(args.iter().chain(&["--json"])).ends_with(3);
    let line = &schema::check("answer-v2.json", &output)[0];
    assert_eq!(line["condition"]["result"], false);
    // A time that can never pass.
    let args = [
        "query",
        &target,
        "--until",
        "players = 4",
        "--every",
        "100ms",
        "--hold",
        "1h",
        "--for",
        "400ms",
    ];
    let output = run(args).ends_with(3);
    assert_eq!(output.out, format!("{target}: true: players is 4\n"));
    // The last query of a frozen server is ended at the limit.
    let frozen = Server::silent();
    let target = format!("ugp://{}", frozen.address);
    let started = Instant::now();
    let args = [
        "query",
        &target,
        "--until",
        "online",
        "--every",
        "100ms",
        "--for",
        "1s",
        "--timeout",
        "600ms",
        "--retries",
        "0",
    ];
    run(args).ends_with(3);
    let elapsed = started.elapsed();
    assert!(elapsed < Duration::from_secs(4), "{elapsed:?}");
}

#[test]
fn waits_until_players_can_join() {
    let starting = Status {
        extra: vec![Extra::new("state", "loading")],
        ..with_players(0, 4)
    };
    for before in [None, Some(&starting)] {
        let changing = Changing::new("satisfactory", before, &with_players(4, 4));
        let target = target("satisfactory", &changing.server);
        let args = [
            &*target,
            "--protocol",
            "satisfactory",
            "--wait-ready",
            "20s",
            "--every",
            "100ms",
        ];
        let args = [&args[..], &SHORT].concat();
        let mut waiting = start(&args);
        std::thread::sleep(Duration::from_millis(700));
        assert_eq!(waiting.child.try_wait().unwrap(), None);
        changing.change();
        let output = finish_started(waiting).ends_with(0);
        assert_eq!(output.out, format!("{target}: true: ready is yes\n"));
        output.warns(&["false: ready is no"]);
    }
    let frozen = Server::silent();
    let frozen = format!("ugp://{}", frozen.address);
    let args = [
        "query",
        &frozen,
        "--wait-ready",
        "1s",
        "--every",
        "200ms",
        "--json",
    ];
    let output = run(args.iter().chain(&SHORT)).ends_with(3);
    let line = &schema::check("answer-v2.json", &output)[0];
    assert_eq!(line["condition"]["text"], "ready");
    assert_eq!(line["condition"]["result"], false);
}

#[test]
fn ctrl_c_prints_the_last_result() {
    let full = server("ugp", 4, 4);
    let target = target("ugp", &full);
    for extra in [&[][..], &["--json"]] {
        let args = [
            &[&*target, "--until", "players = 0", "--every", "1h"][..],
            extra,
        ]
        .concat();
        let waiting = start(&args);
        std::thread::sleep(Duration::from_millis(1_500));
        waiting.signal("INT");
        let output = finish_started(waiting).ends_with(130);
        assert_eq!(output.out.lines().count(), 1, "{}", output.out);
        output.shows(&["players is 4"]);
    }
}

#[test]
fn mistakes_are_one_line_with_the_fix() {
    let query = |args: &[&str]| run(["query", "ugp://127.0.0.1:9"].iter().chain(args));
    for (args, expected) in [
        (
            &["--if", "playrs = 0"][..],
            "for '--if <CONDITION>': at character 1: unknown field `playrs`; did you mean `players`?",
        ),
        (&["--if", ""], "the condition is empty"),
        (&["--until", "players"], "such as `players = 0`"),
        (
            &["--if", "players = 0", "--until", "online"],
            "exclude each other",
        ),
        (&["--if", "online", "--all"], "exclude each other"),
        (&["--if", "online", "--raw"], "exclude each other"),
        (&["--if", "online", "--hold", "1s"], "exclude each other"),
        (
            &["--until", "online", "--wait-ready", "1s"],
            "exclude each other",
        ),
        (&["--for", "1s"], "--until"),
        (
            &["--hold", "1s"],
            "--hold needs a condition; write --until 'players = 0' or --wait-ready 5min",
        ),
        (&["--every", "1s"], "--every needs a condition"),
        (&["--until", "online", "--every", "1ms"], "at least 100ms"),
        (&["--wait-ready", "soon"], "expected a time such as"),
    ] {
        query(args).fails_as_usage(expected);
    }
}
