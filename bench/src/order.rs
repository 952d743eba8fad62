//! Which code of the program a query runs, as callgrind sees it, for the linker to put in one place
//! (`crates/hailer-cli/order.ld`).

use crate::game::Game;
use crate::host::Server;
use crate::server;
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Functions of one name are many instances of what is generic, all but a few of them for others: these come last.
const FEW: usize = 8;

const HEAD: &str = "\
/* The code that a query runs, in one place of the file instead of all over it, since systems map more than what is touched.
   Written by `just order`. Names that are not there do no harm, and hashes of compilers are left out. */
";

/// Prints a script for linkers.
pub(crate) fn run(hailer: &Path) -> anyhow::Result<()> {
    let mut found = Vec::new();
    for game in [Game::Minecraft, Game::Onequery, Game::Ugp] {
        let kind = server::Kind::Farm;
        let server = Server::start(&server::Plan {
            kind,
            game,
            silent: 0.0,
            delay_ms: 0,
            targets: 1,
        })?;
        let target = format!("{}://127.0.1.0:{}", game.protocol().info().id, server.port);
        for args in [&["query", &target, "--json"][..], &["query", &target]] {
            found.extend(functions(hailer, args)?);
        }
        server.end()?;
    }
    let instances = instances(hailer)?;
    let mut patterns: Vec<(bool, String)> = Vec::new();
    for name in found
        .iter()
        .filter(|name| name.starts_with("_ZN") || name.starts_with("_R"))
    {
        let pattern = pattern(name);
        if let Some(count) = instances.get(&pattern)
            && !patterns.iter().any(|(_, known)| *known == pattern)
        {
            patterns.push((*count > FEW, pattern));
        }
    }
    ensure!(
        !patterns.is_empty(),
        "{} has no names of functions: it was stripped",
        hailer.display()
    );
    patterns.sort_by_key(|(is_generic, _)| *is_generic);
    let mut script = format!("{HEAD}SECTIONS\n{{\n  .text.query :\n  {{\n");
    for (_, pattern) in patterns {
        writeln!(script, "    *(.text*.{pattern})")?;
    }
    print!("{script}  }}\n}}\nINSERT BEFORE .text;\n");
    Ok(())
}

/// The functions that run when the program is called so, those of C libraries too.
fn functions(hailer: &Path, args: &[&str]) -> anyhow::Result<Vec<String>> {
    let file = std::env::temp_dir().join(format!("hailer-order-{}", std::process::id()));
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--demangle=no"])
        .arg(format!("--callgrind-out-file={}", file.display()));
    let output = valgrind
        .arg(hailer)
        .args(args)
        .stdout(Stdio::null())
        .output()
        .context("valgrind")?;
    let profile = std::fs::read_to_string(&file);
    let _ = std::fs::remove_file(&file);
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // A name is given where its number comes first, of a caller or of a callee: `fn=(7) name`.
    let name = |line: &str| {
        Some(
            line.trim_start_matches('c')
                .strip_prefix("fn=(")?
                .split_once(") ")?
                .1
                .to_owned(),
        )
    };
    let mut found: Vec<String> = profile?.lines().filter_map(name).collect();
    found.sort_unstable();
    Ok(found)
}

/// How many functions of the program have a name of this pattern.
fn instances(hailer: &Path) -> anyhow::Result<BTreeMap<String, usize>> {
    let output = Command::new("nm")
        .arg("--defined-only")
        .arg(hailer)
        .output()
        .context("nm")?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut instances = BTreeMap::new();
    for line in String::from_utf8(output.stdout)?.lines() {
        if let [_, "t" | "T", name] = line.split(' ').collect::<Vec<_>>()[..] {
            *instances.entry(pattern(name)).or_default() += 1;
        }
    }
    Ok(instances)
}

/// A name without what differs from one compiler to the next: hashes of instances and of crates.
fn pattern(name: &str) -> String {
    let name = name.split(".llvm.").next().unwrap_or(name);
    if let Some((path, _)) = name.rsplit_once("17h").filter(|(_, hash)| hash.len() == 17) {
        return format!("{path}17h*");
    }
    let mut parts = name.split("Cs");
    let mut pattern = parts.next().unwrap_or_default().to_string();
    for part in parts {
        pattern.push_str("Cs");
        let hash = part.find('_').filter(|end| {
            part[..*end]
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric())
        });
        pattern.push_str(if hash.is_some() { "*" } else { "" });
        pattern.push_str(&part[hash.unwrap_or(0)..]);
    }
    pattern + "*"
}
