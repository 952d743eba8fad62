//! Rules for the files at the root of the repository.

use std::path::Path;

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
