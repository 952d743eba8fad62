//! Short floods with the same verdicts as the benchmark.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Runs one flood at a time.
static MACHINE: Mutex<()> = Mutex::new(());

/// Enough to use up the budget, and less than an unoptimized responder can receive on a busy
/// machine.
const FLOOD_RATE: &str = "15000";
const RELAY_RATE: &str = "5000";

#[test]
fn honest_clients_get_answers_in_a_flood_that_is_not_amplified() {
    passes(&["flood", "--minutes", "0.1", "--rate", FLOOD_RATE], 7);
}

#[test]
fn players_join_through_a_flooded_relay() {
    passes(&["relay", "--minutes", "0.15", "--rate", RELAY_RATE], 6);
}

#[test]
fn victims_that_keep_sending_get_three_times_their_bytes() {
    let victims = ["--victims", "20", "--other-bytes"];
    let relay = ["relay", "--minutes", "0.1", "--rate", RELAY_RATE];
    passes(&[&relay[..], &victims].concat(), 6);
}

fn passes(args: &[&str], min_verdicts: usize) {
    let _guard = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut bench = Command::new(env!("CARGO_BIN_EXE_hailer-bench"));
    let output = bench.args(args).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    if let Some((_, reason)) = text.split_once("on loopback (") {
        let reason = reason.lines().next().unwrap_or_default();
        assert!(
            std::env::var_os("HAILER_NEEDS_NAMESPACES").is_none(),
            "{reason}"
        );
        eprintln!("skipped in namespaces, done on loopback ({reason}");
    }
    let verdicts = text
        .lines()
        .filter(|line| line.starts_with("PASS") || line.starts_with("FAIL"));
    // Memory needs more time to become stable.
    let verdicts: Vec<_> = verdicts.filter(|line| !line.contains("memory")).collect();
    assert!(verdicts.len() >= min_verdicts, "{text}");
    assert!(
        verdicts.iter().all(|line| line.starts_with("PASS")),
        "{text}"
    );
}
