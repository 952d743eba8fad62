//! Packages of npm that tests run: third-party clients and servers.
//!
//! `npm/package.json` pins them; `npm install --package-lock-only` in its folder writes the lock
//! file.

use std::path::PathBuf;
use std::process::Command;

/// Returns the folder of a package's modules, for `NODE_PATH`: `target/npm`, where `.ci/run` installs
/// them. Without the package, prints that the test was skipped.
///
/// # Panics
///
/// If the package is missing and `HAILER_NEEDS_NPM` is set.
pub fn modules(package: &str) -> Option<PathBuf> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/npm/node_modules");
    let root = PathBuf::from(root);
    if root.join(package).is_dir() {
        return Some(root);
    }
    let reason = format!("the npm package {package} is not in {}", root.display());
    assert!(std::env::var_os("HAILER_NEEDS_NPM").is_none(), "{reason}");
    eprintln!("skipped: {reason}");
    None
}

/// Returns a command that runs the text of a JavaScript module, which imports a package; arguments
/// can be added. Without the package, like [`modules`].
///
/// # Panics
///
/// As [`modules`].
pub fn run_module(package: &str, text: &str) -> Option<Command> {
    let modules = modules(package)?;
    let mut command = Command::new("node");
    // `import` ignores NODE_PATH and searches from the current folder.
    command
        .current_dir(modules.parent()?)
        .args(["--input-type=module", "--eval", text, "--"]);
    Some(command)
}
