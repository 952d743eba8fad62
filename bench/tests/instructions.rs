//! Instructions of the hot paths, counted by valgrind, against `golden/instructions.txt`. Time on shared machines varies by a
//! third; a count does not.
//!
//! With `BLESS=1` it writes the file. With other compilers and C libraries there are a few more or less, mostly within the
//! tolerance; other architectures are not compared.
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// What runs this test.
const COMMAND: &str = "cargo test --release -p hailer-bench --test instructions";
/// Share by which a count may differ.
const TOLERANCE: f64 = 0.05;
/// A multiple of a batch, and enough that buffers and tables have grown.
const TIMES: u64 = 6_400;

#[test]
fn hot_paths_take_as_many_instructions_as_before() {
    if !can_count() {
        return;
    }
    let mut found = format!(
        "# Instructions of the hot paths in a release build for x86_64, as valgrind counts them: each time that a path of\n\
         # bench/src/work.rs is walked. `BLESS=1 {COMMAND}` writes this.\n",
    );
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/instructions.txt");
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    let lines = stored
        .lines()
        .filter_map(|line| line.trim().split_once(' '));
    let mut stored: BTreeMap<&str, u64> = lines
        .filter_map(|(count, path)| Some((path, count.parse().ok()?)))
        .collect();
    let mut complaints = Vec::new();
    let paths = String::from_utf8(work(Command::new(PROGRAM), &[]).1).unwrap();
    for path in paths.lines() {
        let count = instructions(path);
        writeln!(found, "{count:>8} {path}").unwrap();
        let before = stored.remove(path).unwrap_or(0);
        if count.abs_diff(before) as f64 > before as f64 * TOLERANCE {
            complaints.push(format!("{path}: {count} instructions, {before} before"));
        }
    }
    eprint!("{found}");
    complaints.extend(
        stored
            .keys()
            .map(|path| format!("{path}: no such path any more")),
    );
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        return std::fs::write(&file, found).unwrap();
    }
    assert!(
        complaints.is_empty(),
        "{}\nIf that is meant, or comes of another compiler, run `BLESS=1 {COMMAND}` and commit the diff of \
         golden/instructions.txt.",
        complaints.join("\n")
    );
}

/// Whether there is something to count with. Where it must be there, its absence is a failure.
fn can_count() -> bool {
    let reason = if cfg!(debug_assertions) {
        "instructions count in a release build only"
    } else if cfg!(not(target_arch = "x86_64")) {
        "golden/instructions.txt is for x86_64"
    } else if Command::new("valgrind")
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        "valgrind is not installed (on Debian: apt-get install valgrind)"
    } else {
        return true;
    };
    assert!(
        std::env::var_os("HAILER_NEEDS_VALGRIND").is_none(),
        "{reason}; run: {COMMAND}"
    );
    eprintln!("skipped: {reason}; run: {COMMAND}");
    false
}

const PROGRAM: &str = env!("CARGO_BIN_EXE_hailer-bench");

/// Instructions for each time that a path is walked: what more times take more, both at once on two cores.
fn instructions(path: &str) -> u64 {
    let [once, twice] = std::thread::scope(|scope| {
        [1, 2]
            .map(|factor| scope.spawn(move || count(path, factor * TIMES)))
            .map(|thread| thread.join().unwrap())
    });
    (twice - once) / TIMES
}

fn count(path: &str, times: u64) -> u64 {
    let mut valgrind = Command::new("valgrind");
    valgrind.args([
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        PROGRAM,
    ]);
    let (told, _) = work(valgrind, &[path, &times.to_string()]);
    let collected = told
        .lines()
        .find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    collected.unwrap_or_else(|| panic!("valgrind told no count:\n{told}"))
}

/// Standard error and output of the program.
fn work(mut command: Command, args: &[&str]) -> (String, Vec<u8>) {
    let output = command.arg("work").args(args).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}:\n{told}");
    (told, output.stdout)
}
