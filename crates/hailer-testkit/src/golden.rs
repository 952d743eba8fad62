//! Golden files: results of tests, stored under `golden/` so that a change shows up as a diff.
//!
//! A difference fails the test. `BLESS=1 cargo test` writes the files instead.
//!
//! In: the result of a test, a stored file. Out: a complaint, or a new file.
//!
//! May import: nothing of this workspace.

use std::path::{Path, PathBuf};

/// The root of the repository.
pub fn root() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    crates
        .and_then(Path::parent)
        .expect("crates/<name> in the repository")
        .into()
}

/// Returns whether golden files are written instead of compared.
pub fn blessing() -> bool {
    std::env::var_os("BLESS").is_some_and(|value| value == "1")
}

/// Compares `found` with the file `golden/<path>`, or writes the file.
///
/// # Errors
///
/// When they differ: the first different line and how to update the file.
pub fn check(path: &str, found: &str) -> Result<(), String> {
    let file = root().join("golden").join(path);
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    if stored == found {
        return Ok(());
    }
    if blessing() {
        let folder = file.parent().expect("a file in a folder");
        std::fs::create_dir_all(folder).expect("golden/ can be written");
        std::fs::write(&file, found).expect("golden/ can be written");
        return Ok(());
    }
    let mut pairs = stored.lines().zip(found.lines()).enumerate();
    let (line, stored_line, found_line) = match pairs.find(|(_, (a, b))| a != b) {
        Some((i, (a, b))) => (i + 1, a, b),
        None => (
            stored.lines().count().min(found.lines().count()) + 1,
            "(end)",
            "(end, or more lines)",
        ),
    };
    Err(format!(
        "golden/{path} differs from the result, first in line {line}:\n  stored: {stored_line}\n  found:  \
         {found_line}\n  If the change is meant, run `BLESS=1 cargo test` and commit the diff."
    ))
}

/// Fails with all complaints, one a line, if there are any.
pub fn settle(complaints: &[String]) {
    assert!(
        complaints.is_empty(),
        "{} complaints:\n{}\n",
        complaints.len(),
        complaints.join("\n")
    );
}
