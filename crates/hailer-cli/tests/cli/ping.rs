//! `hailer ping`.

use crate::support::dns::{Dns, Record};
use crate::support::{Server, closed, ids};
use crate::tool::{Process, Serve, assert_harmless, command, run};
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const QUICK: [&str; 4] = ["--interval", "100ms", "--timeout", "60ms"];

#[test]
fn prints_a_line_per_round_trip_and_a_summary() {
    let serve = Serve::with(&["--demo"]);
    for target in ids()
        .iter()
        .map(|id| serve.url(id))
        .chain([serve.address()])
    {
        let output = run(["ping", &target, "--count", "2", "--interval", "100ms"]).ends_with(0);
        for expected in [
            "seq=1 time=",
            "seq=2 time=",
            "2 sent, 2 answered, 0 % loss",
            "min/mean/max",
        ] {
            assert!(output.out.contains(expected), "{expected}: {}", output.out);
        }
        assert!(output.out.contains(&serve.address()) && output.err.is_empty());
        assert_harmless(&output.out, false);
    }
}

#[test]
fn counts_loss_and_sets_the_exit_code() {
    let silent = Server::silent();
    let output = run(["ping", &silent.address.to_string(), "-c", "2"]
        .iter()
        .chain(&QUICK))
    .ends_with(1);
    output.shows(&["seq=2 ", "2 sent, 0 answered, 100 % loss"]);
    assert!(!output.out.contains("NaN"), "{}", output.out);

    // Half of the requests are lost.
    let mut received = 0;
    let server = Server::script(move |request| {
        received += 1;
        if received % 2 == 0 {
            Vec::new()
        } else {
            vec![[&request[..7], &[0x80]].concat()]
        }
    });
    let target = format!("ugp://{}", server.address);
    let output = run(["ping", &target, "-c", "4"].iter().chain(&QUICK)).ends_with(1);
    output.shows(&["4 sent, 2 answered, 50 % loss"]);

    let output = run(["ping", &closed().to_string(), "-c", "1"]
        .iter()
        .chain(&QUICK))
    .ends_with(1);
    output.shows(&["nothing listens"]);
}

/// Servers of Teeworlds 0.7 do not reply to the first form, that of 0.6.
#[test]
fn servers_that_answer_a_later_form_are_pinged() {
    let server = Server::script(|request| match request {
        [4, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 5, token @ ..] if token.len() > 500 => {
            vec![[&[4, 0, 0], &token[..4], b"\x05SRV!"].concat()]
        }
        _ => Vec::new(),
    });
    let target = format!("teeworlds://{}", server.address);
    let output = run(["ping", &target, "-c", "2"].iter().chain(&QUICK)).ends_with(0);
    output.shows(&["2 sent, 2 answered, 0 % loss"]);
}

#[test]
fn json_has_the_same_data() {
    let serve = Serve::with(&["--demo"]);
    let lines = run([
        "ping",
        &serve.url("ugp"),
        "--json",
        "-c",
        "2",
        "-i",
        "100ms",
    ])
    .ends_with(0)
    .json();
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (
            &lines[0]["sequence"],
            &lines[1]["sequence"],
            &lines[1]["protocol"]
        ),
        (&1.into(), &2.into(), &"ugp".into())
    );
    assert_eq!(
        (
            &lines[2]["requests"],
            &lines[2]["replies"],
            &lines[2]["loss_percent"]
        ),
        (&2.into(), &2.into(), &0.0.into())
    );

    let silent = Server::silent();
    let lines = run(["ping", &silent.address.to_string(), "--json", "-c", "1"]
        .iter()
        .chain(&QUICK))
    .ends_with(1)
    .json();
    assert_eq!(
        (&lines[0]["error"], &lines[1]["loss_percent"]),
        (&"silence".into(), &100.0.into())
    );
    assert!(lines[1]["latency_min_ms"].is_null() && lines[1]["latency_mean_ms"].is_null());
}

#[test]
fn interrupted_ping_prints_its_summary() {
    let serve = Serve::with(&["--demo"]);
    let mut process = Process::start(&mut command([
        "ping",
        &serve.address(),
        "-c",
        "0",
        "-i",
        "100ms",
    ]));
    let mut out = BufReader::new(process.child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("seq=1"), "{line}");
    process.signal("INT");
    assert_eq!(process.wait().code(), Some(0));
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("0 % loss"), "{rest}");
}

#[test]
fn missed_pings_are_not_sent_late() {
    let (say, received) = mpsc::channel();
    let mut count = 0;
    // The second request is lost. Its timeout is four intervals long.
    let server = Server::script(move |request| {
        count += 1;
        if count == 2 {
            return Vec::new();
        }
        say.send(Instant::now()).unwrap();
        vec![[&request[..7], &[0x80]].concat()]
    });
    let target = format!("ugp://{}", server.address);
    let output =
        run(format!("ping {target} -c 6 -i 100ms --timeout 400ms").split(' ')).ends_with(1);
    output.shows(&["6 sent, 5 answered"]);
    let times: Vec<Instant> = received.try_iter().collect();
    assert_eq!(times.len(), 5);
    for pair in times.windows(2) {
        assert!(
            pair[1] - pair[0] > Duration::from_millis(50),
            "{:?}",
            pair[1] - pair[0]
        );
    }
}

#[test]
fn resolves_the_name_once_and_shows_it_as_typed() {
    let serve = Serve::with(&["--demo"]);
    let dns = Dns::with(&[("play.example.test", Record::Address([127, 0, 0, 1].into()))]);
    let target = format!(
        "Play.Example.test:{}",
        serve.address().rsplit_once(':').unwrap().1
    );
    let server = dns.address().to_string();
    let output =
        run(format!("ping {target} --name-server {server} -c 3 -i 100ms").split(' ')).ends_with(0);
    assert!(
        output
            .out
            .contains(&format!("--- {target} ---\n3 sent, 3 answered")),
        "{}",
        output.out
    );
    let once = dns.queries().len();
    let output =
        run(format!("ping {target} --name-server {server} -c 1 --json").split(' ')).ends_with(0);
    assert_eq!(dns.queries().len(), 2 * once, "{:?}", dns.queries());
    assert!(
        output
            .json()
            .iter()
            .all(|line| line["target"] == target.as_str())
    );
}

#[test]
fn invalid_flags_are_usage_errors() {
    for flag in [
        "--retries",
        "--deadline",
        "--auth-token",
        "--auth-token-file",
    ] {
        run(["ping", "127.0.0.1", flag, "1"]).ends_with(2);
    }
}

#[test]
fn closed_output_keeps_the_exit_code() {
    let serve = Serve::with(&["--demo"]);
    for (target, code) in [(serve.address(), 0), (closed().to_string(), 1)] {
        let process = Process::start(&mut command(["ping", &target, "-c", "2", "-i", "100ms"]));
        assert_eq!(process.ends_without_output().0, Some(code));
    }
}
