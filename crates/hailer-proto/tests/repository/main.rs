//! Rules for the files at the root of the repository.

mod archives;
mod crates;
mod imports;

use hailer_proto::registry;
use hailer_testkit::folder::Folder;
use hailer_testkit::golden;
use std::path::Path;
use std::process::{Command, Stdio};

/// Every dependency of the workspace has its reason in the comment above it, in the root
/// `Cargo.toml`. The members of the workspace themselves need none.
#[test]
fn dependencies_have_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("the root Cargo.toml");
    let missing = dependencies_without_reason(&manifest);
    assert!(
        missing.is_empty(),
        "add a comment with the reason above: {}",
        missing.join(", ")
    );
}

#[test]
fn a_missing_reason_is_found() {
    let manifest = concat!(
        "[workspace.dependencies]\n",
        "own = { path = \"crates/own\" }\n\n",
        "# Why.\nwith = \"1\"\n\n",
        "without = \"1\"\nnor-this = \"1\"\n",
        "[profile.dev]\ndebug = 1\n",
    );
    assert_eq!(
        dependencies_without_reason(manifest),
        ["without", "nor-this"]
    );
}

/// Names of dependencies in `manifest` that have no comment directly above.
fn dependencies_without_reason(manifest: &str) -> Vec<&str> {
    let mut missing = Vec::new();
    let mut is_inside = false;
    let mut previous = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_inside = line == "[workspace.dependencies]";
        } else if let (true, Some((name, value))) = (is_inside, line.split_once(" = "))
            && !previous.starts_with('#')
            && !value.contains("path = ")
            && !line.starts_with('#')
        {
            missing.push(name);
        }
        previous = line;
    }
    missing
}

/// The mark table of a spec page lists the marks that the page uses, and no others.
#[test]
fn spec_pages_use_their_marks() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec");
    let mut unused = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of spec pages") {
        let path = entry.expect("an entry").path();
        let page = std::fs::read_to_string(&path).expect("a page");
        for mark in unused_marks(&page) {
            unused.push(format!("{}: {mark}", path.display()));
        }
    }
    assert!(unused.is_empty(), "remove these marks: {unused:#?}");
}

#[test]
fn an_unused_mark_is_found() {
    let page = "| mark | basis |\n| --- | --- |\n| `one` | a |\n| `two` | b |\n\nClaims are `two`.";
    assert_eq!(unused_marks(page), ["one"]);
}

/// Marks in the mark table of a page that occur nowhere else on it.
fn unused_marks(page: &str) -> Vec<&str> {
    let Some((before, table)) = page.split_once("| mark |") else {
        return Vec::new();
    };
    let (table, after) = table.split_once("\n\n").unwrap_or((table, ""));
    let marks = table
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let is_unused = |mark: &&str| {
        let quoted = format!("`{mark}`");
        !before.contains(&quoted) && !after.contains(&quoted)
    };
    marks.filter(is_unused).collect()
}

/// The README lists all protocols, in the order of the registry. `BLESS=1` writes the list.
#[test]
fn the_readme_lists_all_protocols() {
    const START: &str = "through these protocols: ";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let page = std::fs::read_to_string(&path).expect("the README");
    let (before, rest) = page.split_once(START).expect("the list of the README");
    let (list, after) = rest.split_once(".\n").expect("the end of the list");
    let ids = registry::PROTOCOLS
        .iter()
        .map(|protocol| format!("`{}`", protocol.info().id));
    let expected = ids.collect::<Vec<_>>().join(", ");
    if golden::blessing() {
        let page = [before, START, &expected, ".\n", after].concat();
        std::fs::write(&path, page).expect("the README can be written");
        return;
    }
    assert_eq!(list, expected, "run this test with BLESS=1");
}

/// `contrib/new-protocol` knows the form of the lists that it adds a line to. Its files keep the
/// rules of the repository.
#[test]
fn a_new_protocol_has_its_files_and_lines() {
    const LISTS: [&str; 2] = [
        "crates/hailer-proto/src/registry.rs",
        "crates/hailer-proto/src/protocols/single/mod.rs",
    ];
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = Folder::new("new-protocol");
    for list in LISTS {
        let copy = folder.path().join(list);
        std::fs::create_dir_all(copy.parent().expect("a folder")).expect("a folder");
        std::fs::copy(root.join(list), copy).expect("a list");
    }
    let run = || {
        let mut command = Command::new("python3");
        command.arg(root.join("contrib/new-protocol"));
        command.args(["harbour-wars", "7777", "--root"]);
        command.arg(folder.path()).stderr(Stdio::piped()).output()
    };
    let Ok(output) = run() else {
        eprintln!("skipped: python3 is not installed");
        return;
    };
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problem}");
    let read = |path: &str| std::fs::read_to_string(folder.path().join(path)).expect(path);
    for (list, line) in LISTS.iter().zip([
        "    &single::harbour_wars::PROTOCOL,\n];",
        "pub mod harbour_wars;",
    ]) {
        let before = std::fs::read_to_string(root.join(list)).expect(list);
        let after = read(list);
        assert!(after.contains(line), "{list}: {after}");
        assert_eq!(after.lines().count(), before.lines().count() + 1);
    }
    let page = read("spec/harbour-wars.md");
    assert_eq!(unused_marks(&page), [""; 0]);
    let source = read("crates/hailer-proto/src/protocols/single/harbour_wars.rs");
    assert!(source.contains("port: 7777,"), "{source}");
    for path in ["datagrams.txt", "conversations/queries.txt"] {
        assert!(read(&format!("vectors/harbour-wars/{path}")).contains("\"harbour-wars?\""));
    }
    assert!(!run().is_ok_and(|output| output.status.success()));
}
