//! Short runs of the benchmarks: all of them still know the messages of the protocols. Ratios depend
//! on the machine and are not checked. `flood` and `relay` have a separate test; `monitor`,
//! `cluster`, `count`, `targets` and `million --game slp` take too long, or too much of the machine,
//! without optimization.
#![cfg(target_os = "linux")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Runs one benchmark at a time.
static MACHINE: Mutex<()> = Mutex::new(());

/// Tries of a benchmark. A busy machine may lose a datagram, which is an error of the run.
const TRIES: usize = 3;

/// Runs a benchmark, and returns its output.
fn run(args: &[&str]) -> String {
    let _guard = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut problem = String::new();
    for _ in 0..TRIES {
        let mut bench = Command::new(env!("CARGO_BIN_EXE_hailer-bench"));
        bench.args(args).args(["--scale", "0.02", "--rounds", "1"]);
        let output = bench.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            return text;
        }
        problem = String::from_utf8_lossy(&output.stderr).into_owned();
    }
    panic!("{args:?}: {problem}");
}

/// Returns the arguments that name the program in the folder of the benchmark, or `None` if it was
/// not built.
fn program() -> Option<[String; 2]> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_hailer-bench")).with_file_name("hailer");
    if program.is_file() {
        return Some(["--hailer".into(), program.to_str()?.into()]);
    }
    eprintln!("skipped: {} is not built", program.display());
    None
}

#[test]
fn queries_per_second_of_every_protocol() {
    let text = run(&["rate"]);
    for title in [
        "Minecraft full",
        "OneQuery",
        "UGP",
        "GameSpy 2",
        "Quake 3",
        "SA-MP",
    ] {
        let verdict = |line: &&str| line.contains(title) && line.contains("of the bare loop's");
        assert_eq!(text.lines().filter(verdict).count(), 1, "{title}: {text}");
    }
}

#[test]
fn sweeps() {
    for what in [
        "cpu", "delay", "memory", "lost", "million", "slp", "a2s", "threads", "targets",
    ] {
        let text = run(&[what]);
        assert!(text.lines().count() > 1, "{what}: {text}");
    }
    run(&["million", "--game", "a2s"]);
}

#[test]
fn the_program() {
    if let Some(program) = program() {
        for what in ["cli", "output"] {
            run(&[what, &program[0], &program[1]]);
        }
    }
}

#[test]
fn the_responder() {
    run(&["respond"]);
}

#[test]
fn the_history() {
    run(&["history"]);
}

#[test]
fn datagrams_through_the_relay() {
    let text = run(&["passing"]);
    let verdict = |line: &&str| line.contains("datagrams for each second of CPU, of 50,000");
    assert_eq!(text.lines().filter(verdict).count(), 1, "{text}");
}

#[test]
fn connections_through_the_relay() {
    let text = run(&["pass"]);
    assert!(text.contains("ms added at p99"), "{text}");
}
