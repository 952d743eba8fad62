//! `hailer-probe`: `hailer query` alone.

use crate::tool::{Finished, Serve, command, finish, run};
use std::process::{Command, Stdio};

/// Runs the small binary in the environment of the large one.
fn probe(args: &[&str]) -> Finished {
    let mut probe = Command::new(env!("CARGO_BIN_EXE_hailer-probe"));
    probe.args(args).stdin(Stdio::null());
    for (name, value) in command([""]).get_envs() {
        match value {
            Some(value) => probe.env(name, value),
            None => probe.env_remove(name),
        };
    }
    finish(probe, None)
}

/// Returns the options of a help text.
fn options(help: &str) -> Vec<&str> {
    let words = help
        .lines()
        .filter_map(|line| line.trim().split("  ").next());
    let options = words.filter(|words| words.starts_with('-'));
    options.collect()
}

#[test]
fn the_probe_prints_what_query_prints() {
    let serve = Serve::with(&["--demo"]);
    let target = serve.url("minecraft-query");
    let [mut small, mut large] = [
        probe(&["--json", &target]).ends_with(0).json(),
        run(["query", "--json", &target]).ends_with(0).json(),
    ];
    for lines in [&mut small, &mut large] {
        // Players of the simulated server come and go.
        for changing in ["latency_ms", "status"] {
            assert!(
                lines[0][changing].take() != serde_json::Value::Null,
                "{changing}"
            );
        }
    }
    assert_eq!(small, large);
    probe(&[&target])
        .ends_with(0)
        .shows(&["Hailer demo", "round trip"]);
    let closed = format!("ugp://{}", crate::support::closed());
    let failed = probe(&[&closed]).ends_with(1);
    let expected = run(["query", &closed]).ends_with(1);
    assert_eq!(failed.err, expected.err);
}

#[test]
fn the_probe_takes_the_arguments_of_query() {
    let small = probe(&["--help"]).ends_with(0);
    let large = run(["query", "--help"]).ends_with(0);
    let expected = options(&large.out);
    assert!(expected.len() > 20, "{expected:?}");
    // Only programs have a version, not their commands.
    let mut found = options(&small.out);
    found.retain(|option| *option != "-V, --version");
    assert_eq!(found, expected);
    small.shows(&[
        "hailer-probe is `hailer query` alone",
        "Usage: hailer-probe",
    ]);
    let version = probe(&["--version"]).ends_with(0).out;
    assert_eq!(
        version.trim(),
        concat!("hailer-probe ", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn mistakes_name_the_probe() {
    for (args, expected) in [
        (
            &[][..],
            "<TARGET>... is missing, as in `hailer-probe play.example.com`",
        ),
        (
            &["--jsn", "127.0.0.1"],
            "unknown option --jsn; did you mean --json?",
        ),
        (
            &["--port", "1", "127.0.0.1"],
            "`hailer-probe` has no --port: write the port in the target",
        ),
        (&["127.0.0.1", "--nonsense"], "see `hailer-probe --help`"),
    ] {
        let output = probe(args).ends_with(2);
        assert!(output.err.contains(expected), "{args:?}: {}", output.err);
    }
}
