//! qstat of Debian, a query client for some dozens of protocols.
//!
//! In: arguments of a query. Out: a command to run.
//!
//! May import: nothing of this workspace.

use std::path::Path;
use std::process::Command;

/// Where Debian's package `qstat` installs its program, which has the name of another one elsewhere.
const PROGRAM: &str = "/usr/bin/quakestat";

/// Returns a command that reads one server with players and rules, and prints a JSON list with it.
/// `kind` is a type such as `q3s`, with options such as `ts3,port=9987`; address and port are those
/// of the game, from which some types derive the port of the query. Without the program, prints
/// that the test was skipped.
///
/// # Panics
///
/// If the program is missing and `HAILER_NEEDS_QSTAT` is set.
pub fn query(kind: &str, server: &str) -> Option<Command> {
    if !is_installed() {
        return None;
    }
    let mut command = Command::new(PROGRAM);
    // Its own types and servers are not those of the user.
    command
        .env_remove("QSTAT_CONFIG")
        .env("HOME", "/nonexistent")
        // Some types wait for one interval after each reply.
        .args(["-interval", "0.5", "-retry", "6"])
        // All characters, not only those of ASCII.
        .args(["-stripunprintable", "-json", "-utf8", "-R", "-P"])
        .args([&format!("-{kind}"), server]);
    Some(command)
}

/// Returns whether the program is installed. If not, prints that the test was skipped.
///
/// # Panics
///
/// As [`query`].
pub fn is_installed() -> bool {
    if Path::new(PROGRAM).is_file() {
        return true;
    }
    let reason = format!("{PROGRAM} is missing: it is in Debian's package qstat");
    assert!(std::env::var_os("HAILER_NEEDS_QSTAT").is_none(), "{reason}");
    eprintln!("skipped: {reason}");
    false
}
