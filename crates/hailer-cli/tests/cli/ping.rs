//! `hailer ping`.

use crate::support::{Server, closed, ids};
use crate::tool::{Process, Serve, assert_harmless, command, run};
use std::io::{BufRead, BufReader, Read};
use std::process::Command;

const QUICK: [&str; 4] = ["--interval", "100ms", "--timeout", "60ms"];

#[test]
fn every_round_trip_has_a_line_and_a_summary_follows() {
    let serve = Serve::with(&["--demo"]);
    for target in ids().iter().map(|id| serve.url(id)).chain([serve.address()]) {
        let said = run(["ping", &target, "--count", "2", "--interval", "100ms"]).ends_with(0);
        for expected in ["seq=1 time=", "seq=2 time=", "2 sent, 2 answered, 0 % loss", "min/mean/max"] {
            assert!(said.out.contains(expected), "{expected}: {}", said.out);
        }
        assert!(said.out.contains(&serve.address()) && said.err.is_empty());
        assert_harmless(&said.out, false);
    }
}

#[test]
fn loss_is_counted_and_told_by_the_exit_code() {
    let silent = Server::silent();
    let said = run(["ping", &silent.address.to_string(), "-c", "2"].iter().chain(&QUICK)).ends_with(1);
    assert!(said.out.contains("seq=2 ") && said.out.contains("2 sent, 0 answered, 100 % loss"), "{}", said.out);
    assert!(!said.out.contains("NaN"), "{}", said.out);

    // Half of them are lost.
    let mut heard = 0;
    let server = Server::script(move |request| {
        heard += 1;
        if heard % 2 == 0 { Vec::new() } else { vec![[&request[..7], &[0x80]].concat()] }
    });
    let target = format!("ugp://{}", server.address);
    let said = run(["ping", &target, "-c", "4"].iter().chain(&QUICK)).ends_with(1);
    assert!(said.out.contains("4 sent, 2 answered, 50 % loss"), "{}", said.out);

    let said = run(["ping", &closed().to_string(), "-c", "1"].iter().chain(&QUICK)).ends_with(1);
    assert!(said.out.contains("nothing listens"), "{}", said.out);
}

#[test]
fn json_has_the_same() {
    let serve = Serve::with(&["--demo"]);
    let lines = run(["ping", &serve.url("ugp"), "--json", "-c", "2", "-i", "100ms"]).ends_with(0).json();
    assert_eq!(lines.len(), 3);
    assert_eq!(
        (&lines[0]["sequence"], &lines[1]["sequence"], &lines[1]["protocol"]),
        (&1.into(), &2.into(), &"ugp".into())
    );
    assert_eq!(
        (&lines[2]["sent"], &lines[2]["answered"], &lines[2]["loss_percent"]),
        (&2.into(), &2.into(), &0.0.into())
    );

    let silent = Server::silent();
    let lines =
        run(["ping", &silent.address.to_string(), "--json", "-c", "1"].iter().chain(&QUICK)).ends_with(1).json();
    assert_eq!((&lines[0]["error"], &lines[1]["loss_percent"]), (&"silence".into(), &100.0.into()));
    assert!(lines[1]["min_ms"].is_null() && lines[1]["mean_ms"].is_null());
}

#[test]
fn an_endless_ping_ends_with_a_summary_when_interrupted() {
    let serve = Serve::with(&["--demo"]);
    let mut process = Process::start(&mut command(["ping", &serve.address(), "-c", "0", "-i", "100ms"]));
    let mut out = BufReader::new(process.child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("seq=1"), "{line}");
    let kill = Command::new("sh").args(["-c", &format!("kill -INT {}", process.child.id())]).status().unwrap();
    assert!(kill.success());
    assert_eq!(process.wait().code(), Some(0));
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("0 % loss"), "{rest}");
}
