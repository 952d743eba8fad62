//! `hailer check`: all outputs, exit codes, and the guide.

use crate::schema::check as matches_schema;
use crate::support::Server;
use crate::tool::{Process, Serve, Temporary, command, finish, finish_started, run};
use hailer::check::SUITES;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A server that replies to every handshake with the token 0, and to every stat.
fn without_tokens() -> Server {
    Server::script(|request| {
        let Some((kind, id)) = request.get(2).zip(request.get(3..7)) else {
            return Vec::new();
        };
        let body: &[u8] = match (kind, request.len()) {
            (9, _) => b"0\0",
            (0, 15) => {
                b"splitnum\0\x80\0hostname\0A\0gametype\0SMP\0game_id\0MINECRAFT\0version\x001.21\0plugins\0\0map\0w\0\
                numplayers\x000\0maxplayers\x0020\0hostport\x0025565\0hostip\x00127.0.0.1\0\0\x01player_\0\0\0"
            }
            (0, _) => b"A\0SMP\0w\x000\x0020\0\xDD\x63127.0.0.1\0",
            _ => return Vec::new(),
        };
        vec![[&[*kind], id, body].concat()]
    })
}

#[test]
fn own_servers_pass() {
    for (id, only) in [
        ("minecraft-query", "minecraft-query/5.1"),
        ("onequery", "onequery/5.1"),
        ("ugp", "ugp/3"),
        ("minecraft-bedrock", "minecraft-bedrock/2.1"),
        ("a2s", "a2s/2.1"),
        ("quake3", "quake3/2.3"),
        ("minecraft-status", "minecraft-status/2.3"),
    ] {
        let serve = Serve::with(&["--protocol", id, "--player", "Alice"]);
        let output = run(["check", &serve.url(id), "--quick", "--only", only]).ends_with(0);
        output.shows(&["pass "]);
        assert!(!output.out.contains("FAIL"), "{}", output.out);
        assert!(
            output.err.starts_with("Tests ") && output.err.contains("Never sent: "),
            "{}",
            output.err
        );
    }
}

#[test]
fn failures_have_an_exit_code_by_severity() {
    let server = without_tokens();
    let url = format!("minecraft-query://{}", server.address);
    let only = ["--quick", "--only", "minecraft-query/5.1"];
    let args = ["check", &url].into_iter().chain(only);
    let output = run(args.clone()).ends_with(1);
    output.shows(&["FAIL       minecraft-query/5.1"]);
    output.shows(&["See spec/minecraft-query.md#7.2"]);
    output.shows(&["15 bytes get "]);
    run(args.chain(["--fail-on", "never"])).ends_with(0);
    // A deviation of the severity warning.
    let deviating = ["check", &url, "--quick", "--only", "minecraft-query/5.8"];
    let output = run(deviating).ends_with(0);
    output.shows(&["token-zero: "]);
    for (fail_on, code) in [("error", 0), ("warning", 1), ("note", 1), ("deviation", 1)] {
        run(deviating.into_iter().chain(["--fail-on", fail_on])).ends_with(code);
    }
}

/// A server of OneQuery whose refusals contain the server info, as those of HyQuery.
fn disclosing() -> Server {
    Server::script(|request| {
        let Some(id) = request.get(41..45) else {
            let token = [&b"ONEREPLY\0"[..], &[7; 32], &[0; 7]].concat();
            return vec![token];
        };
        let has_token = request.get(45) == Some(&1) && request.ends_with(b"s3cret");
        let info = b"\x01\0A\x01\0B\0\0\0\0\x14\0\0\0\x01\x001\x03\0\0\0\x08\x0000000000";
        let players = [0; 12];
        let (kind, body) = match request.get(8) {
            Some(2) if has_token => (2, &players[..]),
            _ => (1, &info[..]),
        };
        let flags = if has_token { 0 } else { 2 };
        let length = body.len() as u8;
        vec![
            [
                &b"ONEREPLY\x01"[..],
                &[flags, 0],
                id,
                &[length + 4, 0, kind, 0, length, 0],
                body,
            ]
            .concat(),
        ]
    })
}

/// A deviation counts as its severity in the exit code and in all outputs.
#[test]
fn a_deviation_counts_by_its_severity() {
    let server = disclosing();
    let url = format!("onequery://{}", server.address);
    let file = Temporary::path("deviation.xml");
    let base = [
        "check",
        &url,
        "--only",
        "onequery/6.3",
        "--junit",
        file.text(),
    ];
    let check = |more: &[&str], code| run(base.iter().chain(more)).ends_with(code);
    for fail_on in ["note", "warning", "error"] {
        let output = check(&["--fail-on", fail_on, "--github"], 1);
        for expected in [
            format!("Exit code 1, because --fail-on {fail_on} counts onequery/6.3\n"),
            "::error title=onequery/6.3::A refusal discloses nothing: refused-but-disclosed".into(),
        ] {
            output.shows(&[&expected]);
        }
        let xml = std::fs::read_to_string(file.text()).unwrap();
        let failure = "<failure type=\"error\" message=\"refused-but-disclosed: ";
        assert!(
            xml.contains(failure) && xml.contains("failures=\"1\""),
            "{xml}"
        );
    }
    let json = check(&["--json", "--fail-on", "never"], 0);
    let lines = matches_schema("check-v1.json", &json);
    assert_eq!(lines[0]["results"][1]["severity"], "error");
    assert_eq!(lines[0]["results"][1]["result"], "deviation");
    // The failure is in the report also if it does not count.
    let xml = std::fs::read_to_string(file.text()).unwrap();
    assert!(xml.contains("failures=\"1\""), "{xml}");
}

#[test]
fn an_auth_token_opens_requirements_and_is_hidden() {
    let server = disclosing();
    let url = format!("onequery://{}", server.address);
    let base = [
        "check",
        &url,
        "--quick",
        "--only",
        "onequery/4.1",
        "--only",
        "onequery/6.4",
    ];
    let without = run(base).ends_with(0);
    without.shows(&["n/a        onequery/4.1"]);
    let secret = Temporary::file("token", "s3cret\n");
    for more in [
        ["--auth-token", "s3cret"],
        ["--auth-token-file", secret.text()],
    ] {
        let raw = run(base.into_iter().chain(more).chain(["--raw"])).ends_with(0);
        raw.shows(&["pass       onequery/4.1"]);
        raw.shows(&["pass       onequery/6.4"]);
        let json = run(base.into_iter().chain(more).chain(["--json"])).ends_with(0);
        matches_schema("check-v1.json", &json);
        json.shows(&["------------"]);
        for text in [raw.out, raw.err, json.out] {
            assert!(
                !text.contains("s3cret")
                    && !text.contains("733363726574")
                    && !text.contains("73 33 63"),
                "{text}"
            );
        }
    }
    let mut from_environment = command(base);
    from_environment.env("HAILER_AUTH_TOKEN", "s3cret");
    let output = finish(from_environment, None).ends_with(0);
    output.shows(&["pass       onequery/6.4"]);
}

/// The hint names the first failure, not an earlier deviation.
#[test]
fn the_hint_names_the_first_failure() {
    let server = without_tokens();
    let url = format!("minecraft-query://{}", server.address);
    let only = [
        "minecraft-query/3.5",
        "minecraft-query/5.1",
        "minecraft-query/5.8",
    ];
    let only = only.into_iter().flat_map(|id| ["--only", id]);
    let output = run(["check", &url, "--quick"].into_iter().chain(only)).ends_with(1);
    let hint = "--only minecraft-query/5.1 --raw shows the bytes";
    output.shows(&[hint]);
}

#[test]
fn json_junit_and_annotations_have_every_result() {
    let server = without_tokens();
    let url = format!("minecraft-query://{}", server.address);
    let file = Temporary::path("report.xml");
    let only = [
        "--only",
        "minecraft-query/5.1",
        "--only",
        "minecraft-query/5.9",
    ];
    let shared = ["check", &url, "--quick", "--junit", file.text()];
    let json = run(shared.iter().chain(&only).chain(&["--json"])).ends_with(1);
    let lines = matches_schema("check-v1.json", &json);
    let results = lines[0]["results"].as_array().unwrap();
    let found: Vec<_> = results
        .iter()
        .map(|result| {
            (
                result["id"].as_str().unwrap(),
                result["result"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("minecraft-query/1.1", "pass"),
            ("minecraft-query/5.1", "fail"),
            ("minecraft-query/5.9", "not-applicable"),
        ]
    );
    assert!(results[1]["measured"]["amplification"].as_f64().unwrap() > 5.0);
    assert!(results[1]["datagrams"].as_array().unwrap().len() >= 4);
    let xml = std::fs::read_to_string(file.text()).unwrap();
    assert!(
        xml.contains("tests=\"3\" failures=\"1\" skipped=\"1\""),
        "{xml}"
    );
    assert!(
        xml.contains("<failure type=\"error\" message=\"a token"),
        "{xml}"
    );
    let output = run(shared.iter().chain(&only).chain(&["--github", "--raw"])).ends_with(1);
    assert!(
        output
            .out
            .contains("::error title=minecraft-query/5.1::A stat with a wrong token"),
        "{}",
        output.out
    );
    assert!(
        output
            .out
            .contains("Minecraft Query handshake request, 7 bytes"),
        "{}",
        output.out
    );
}

#[test]
fn a_silent_server_fails_the_first_requirement_only() {
    let server = Server::silent();
    let url = format!("ugp://{}", server.address);
    let output = run(["check", &url, "--timeout", "50ms"]).ends_with(1);
    output.shows(&["FAIL       ugp/1.1"]);
    assert_eq!(output.out.matches("FAIL").count(), 1, "{}", output.out);
    let counts = "1 failure, 12 not applicable: the server does not answer the first requirement\n";
    output.shows(&[counts]);
}

#[test]
fn a_closed_port_is_one_line() {
    let closed = crate::support::loopback().local_addr().unwrap();
    let url = format!("minecraft-query://{closed}");
    let file = Temporary::path("closed.xml");
    let output = run(["check", &url, "--timeout", "50ms", "--junit", file.text()]).ends_with(1);
    output.shows(&["the port is closed"]);
    assert!(!output.out.contains("n/a"), "{}", output.out);
    assert!(output.out.lines().count() <= 5, "{}", output.out);
    let xml = std::fs::read_to_string(file.text()).unwrap();
    let all = xml.matches("<testcase ").count();
    assert_eq!(xml.matches("<skipped ").count(), all - 1, "{xml}");
}

#[test]
#[cfg(unix)]
fn a_stop_prints_the_results_so_far() {
    let serve = Serve::with(&["--protocol", "quake3"]);
    let url = serve.url("quake3");
    let file = Temporary::path("stopped.xml");
    let args = ["check", &url, "--github", "--junit", file.text()];
    let mut check = Process::start(&mut command(args));
    let mut out = BufReader::new(check.child.stdout.take().unwrap());
    let mut text = String::new();
    // The check takes a quarter of a minute, because its requests are 1.1 s apart.
    out.read_line(&mut text).unwrap();
    assert!(text.contains("pass       quake3/1.1"), "{text}");
    check.signal("INT");
    out.read_to_string(&mut text).unwrap();
    assert_eq!(check.wait().code(), Some(130));
    let all = hailer::check::suite(hailer::proto::registry::find("quake3").unwrap());
    let all = all.unwrap().requirements.len();
    let passed = text.matches("pass  ").count();
    let not_run = all - passed;
    for expected in [
        format!("{passed} passed, 0 deviations, 0 failures, 0 not applicable, {not_run} not run\n"),
        format!("::warning title=quake3::{not_run} of {all} requirements were not run"),
    ] {
        assert!(text.contains(&expected), "{text} lacks {expected}");
    }
    assert!(!text.contains("quake3/6.1"), "{text}");
    let xml = std::fs::read_to_string(file.text()).unwrap();
    let counts = format!("tests=\"{all}\" failures=\"0\" skipped=\"{not_run}\"");
    assert!(xml.contains(&counts), "{xml}");
    assert_eq!(xml.matches("<testcase ").count(), all, "{xml}");
    assert_eq!(xml.matches("<skipped ").count(), not_run, "{xml}");
}

#[test]
#[cfg(unix)]
fn json_of_a_stopped_check_counts_the_rest() {
    let (received, first) = std::sync::mpsc::channel();
    let server = Server::script(move |_| {
        let _ = received.send(());
        Vec::new()
    });
    let url = format!("quake3://{}", server.address);
    let only = ["--only", "quake3/2.1"];
    let args = ["check", &url, "--json"].into_iter().chain(only);
    let check = Process::start(&mut command(args));
    first.recv().unwrap();
    check.signal("INT");
    let output = finish_started(check).ends_with(130);
    let lines = matches_schema("check-v1.json", &output);
    assert_eq!(lines[0]["results"], serde_json::json!([]));
    assert_eq!(lines[0]["counts"]["not_run"], 2);
}

#[test]
fn arguments_are_checked() {
    run(["check", "127.0.0.1"]).fails_as_usage("minecraft-query://127.0.0.1");
    run(["check", "samp://127.0.0.1"]).fails_as_usage("protocols with requirements are");
    run(["check", "ugp://127.0.0.1", "--only", "a2s/1"]).fails_as_usage("no such requirement");
    run(["check", "a2s://127.0.0.1", "--only", "a2"]).fails_as_usage("no such requirement");
    run(["check"]).ends_with(2);
}

#[test]
fn requirements_are_listed() {
    let lines = matches_schema(
        "requirement-v1.json",
        &run(["check", "--list", "--json"]).ends_with(0),
    );
    let of_servers = lines.iter().filter(|line| line["role"] == "server");
    let all: usize = SUITES.iter().map(|suite| suite.requirements.len()).sum();
    assert_eq!(of_servers.count(), all);
    let output = run(["check", "--list", "-p", "quake3"]).ends_with(0);
    output.shows(&["quake3/2.3"]);
    assert!(!output.out.contains("a2s"), "{}", output.out);
}

/// A test without requests fails, since it shows nothing.
#[test]
fn a_test_of_clients_announces_its_end() {
    let args = [
        "check",
        "--client",
        "-p",
        "quake3",
        "--listen",
        "127.0.0.1:0",
    ];
    let output = run(args.into_iter().chain(["--for", "200ms"])).ends_with(1);
    let lines: Vec<&str> = output.err.lines().collect();
    let [first, second, ..] = &lines[..] else {
        panic!("{output:?}")
    };
    assert!(
        first.starts_with("Responds to quake3 on 127.0.0.1:"),
        "{first}"
    );
    let end =
        " for 200ms, or until Ctrl-C. Query it with the client under test, at least three times.";
    assert!(first.ends_with(end), "{first}");
    assert!(
        second.contains("on purpose") && second.contains("Hailer"),
        "{second}"
    );
    assert!(
        output.out.trim_end().ends_with("0 requests"),
        "{}",
        output.out
    );
}

#[test]
fn clients_are_observed() {
    let listen = crate::support::loopback().local_addr().unwrap().to_string();
    let args = [
        "check",
        "--client",
        "-p",
        "minecraft-query",
        "--listen",
        &listen,
    ];
    let observer = std::thread::spawn({
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        move || {
            run(args
                .iter()
                .map(String::as_str)
                .chain(["--for", "4s", "--json"]))
        }
    });
    std::thread::sleep(std::time::Duration::from_millis(700));
    let url = format!("minecraft-query://{listen}");
    run(["query", &url, "--timeout", "300ms"]).ends_with(0);
    // Every byte of the id is above 7F. The other request is too short.
    let socket = crate::support::loopback();
    for request in [&b"\xFE\xFD\x09\xFF\xFF\xFF\xFF"[..], b"\xFE\xFD\x09"] {
        socket.send_to(request, &listen).unwrap();
    }
    let output = observer.join().unwrap().ends_with(1);
    let lines = matches_schema("check-client-v1.json", &output);
    let results = lines[0]["results"].as_array().unwrap();
    let failed: Vec<_> = results
        .iter()
        .filter(|result| result["result"] == "fail")
        .map(|result| result["id"].as_str().unwrap())
        .collect();
    assert_eq!(
        failed,
        ["minecraft-query/client.1", "minecraft-query/client.4"]
    );
    run(["check", "--client"]).ends_with(2);
}

#[test]
#[cfg(unix)]
fn a_stop_counts_and_answers_the_requests_that_have_arrived() {
    let args = ["check", "--client", "-p", "minecraft-status", "--json"];
    let args = args.into_iter().chain(["--listen", "127.0.0.1:0"]);
    let read_reply = |stream: &mut TcpStream| {
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let [low, high] = length.map(usize::from);
        let mut reply = vec![0; (low & 0x7F) | (high << 7)];
        stream.read_exact(&mut reply).unwrap();
        assert!(reply.ends_with(b"}"), "{reply:?}");
    };
    // The connection stays open. The signal comes after the reply, or before it.
    for is_answered in [true, false] {
        let mut observer = Process::start(&mut command(args.clone()));
        let mut err = BufReader::new(observer.child.stderr.take().unwrap());
        let mut line = String::new();
        err.read_line(&mut line).unwrap();
        observer.child.stderr = Some(err.into_inner());
        let mut words = line.split(' ').skip_while(|word| *word != "on");
        let listen: SocketAddr = words.nth(1).unwrap().parse().unwrap();
        let mut stream = TcpStream::connect(listen).unwrap();
        let [high, low] = listen.port().to_be_bytes();
        // A handshake, and a request for the status.
        let request = [b"\x0F\0\x2F\x09localhost", &[high, low, 1][..], b"\x01\0"].concat();
        stream.write_all(&request).unwrap();
        let mut first = [0];
        stream.peek(&mut first).unwrap();
        if is_answered {
            read_reply(&mut stream);
            observer.signal("INT");
        } else {
            observer.signal("INT");
            read_reply(&mut stream);
        }
        let output = finish_started(observer).ends_with(0);
        let lines = matches_schema("check-client-v1.json", &output);
        assert_eq!(lines[0]["requests"], 1, "{is_answered}");
    }
}

/// The commands of the guide run against a server on this machine.
#[test]
fn the_guide_has_working_commands() {
    let guide = include_str!("../../../../docs/check.md");
    let mut tried = 0;
    for line in guide
        .lines()
        .filter(|line| line.starts_with("hailer check ") && !line.contains("--client"))
    {
        let line = line.split(" | ").next().unwrap();
        let id = SUITES
            .iter()
            .map(|suite| suite.protocol)
            .find(|id| line.contains(id))
            .unwrap();
        let serve = Serve::with(&["--protocol", id]);
        let first = format!("{id}/1");
        let report = Temporary::path("guide.xml");
        let token = Temporary::file("guide-token", "s3cret\n");
        let mut args: Vec<String> = Vec::new();
        for word in line.split_whitespace().skip(1) {
            args.push(match word {
                "report.xml" => report.text().into(),
                "token.txt" => token.text().into(),
                word if word.contains("127.0.0.1") => serve.url(id),
                word => word.into(),
            });
        }
        args.extend(["--quick", "--only", &first].map(String::from));
        // The guide can have it already.
        args.dedup();
        let quick = args.iter().filter(|word| *word == "--quick").count();
        if quick > 1 {
            let at = args.iter().rposition(|word| word == "--quick").unwrap();
            args.remove(at);
        }
        finish(command(args), None).ends_with(0);
        tried += 1;
    }
    assert!(tried >= 4, "{tried} commands");
}
