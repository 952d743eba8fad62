//! The flood of `just soak` for a moment: the verdicts are those of the bench.
#![cfg(target_os = "linux")]

use std::process::Command;

/// Enough to exhaust every budget, and less than what a responder without optimization can hear.
const PACE: &str = "40000";

#[test]
fn a_flood_from_forged_sources_starves_nobody_and_is_no_reflection() {
    let mut bench = Command::new(env!("CARGO_BIN_EXE_hailer-bench"));
    let output = bench
        .args(["flood", "--minutes", "0.04", "--pace", PACE])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    print!("{said}");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    if let Some((_, reason)) = said.split_once("on loopback (") {
        let reason = reason.lines().next().unwrap_or_default();
        assert!(
            std::env::var_os("HAILER_NEEDS_NAMESPACES").is_none(),
            "{reason}"
        );
        eprintln!("skipped in namespaces, done on loopback ({reason}");
    }
    // Memory needs longer to be flat.
    let verdicts = said
        .lines()
        .filter(|line| line.starts_with("PASS") || line.starts_with("FAIL"));
    let verdicts: Vec<_> = verdicts.filter(|line| !line.contains("memory")).collect();
    assert!(verdicts.len() >= 6, "too few verdicts");
    assert!(
        verdicts.iter().all(|line| line.starts_with("PASS")),
        "{said}"
    );
}
