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
