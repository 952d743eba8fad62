//! Instructions of the hot paths, counted by valgrind, next to the figures of
//! `golden/instructions.txt`.
//!
//! Time on shared machines varies by a third; instructions hardly vary. Other compilers and C
//! libraries have slightly different counts, and other architectures cannot be compared.
//!
//! In: `golden/instructions.txt`. Out: a table of counts next to it.
//!
//! May import: `crate::work`.

use crate::work;
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// A multiple of a batch, and large enough that buffers and tables have grown.
const REPETITIONS: u64 = 6_400;

/// Prints a table. With `BLESS=1` in the environment, it also writes `golden/instructions.txt`.
pub(crate) fn run() -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        println!("  ! a build without optimization: the figures are for release builds");
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../golden/instructions.txt");
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    let lines = stored.lines().map(|line| line.trim().split_once(' '));
    let stored: BTreeMap<&str, u64> = lines
        .flatten()
        .filter_map(|(count, path)| Some((path, count.parse().ok()?)))
        .collect();
    let mut found = String::from(
        "# Instructions of the hot paths (bench/src/work.rs), for one repetition each: a release build for x86_64, counted by\n\
         # valgrind. `BLESS=1 just count` writes this file.\n",
    );
    println!("{:>12} {:>12} {:>8}  path", "now", "golden", "change");
    for path in work::names() {
        let now = instructions(&path)?;
        writeln!(found, "{now:>8} {path}")?;
        match stored.get(path.as_str()) {
            Some(&before) => {
                let change = (now as f64 / before as f64 - 1.0) * 100.0;
                println!("{now:>12} {before:>12} {change:>+7.1}%  {path}");
            }
            None => println!("{now:>12} {:>12} {:>8}  {path}", "-", "-"),
        }
    }
    if std::env::var_os("BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&file, found)?;
    }
    Ok(())
}

/// Instructions of one repetition: the difference between two runs of different lengths.
fn instructions(path: &str) -> anyhow::Result<u64> {
    let [once, twice] = std::thread::scope(|scope| {
        [1, 2]
            .map(|factor| scope.spawn(move || count(path, factor * REPETITIONS)))
            .map(|thread| thread.join().expect("no panic in valgrind's thread"))
    });
    Ok(twice?.saturating_sub(once?) / REPETITIONS)
}

fn count(path: &str, repetitions: u64) -> anyhow::Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe()?)
        .args(["work", path, &repetitions.to_string()])
        .output()
        .context("cannot run valgrind (on Debian: apt-get install valgrind)")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "valgrind: {text}");
    let collected = text.lines().find_map(|line| {
        let (_, count) = line.split_once("Collected : ")?;
        count.trim().parse().ok()
    });
    collected.with_context(|| format!("valgrind printed no count:\n{text}"))
}
