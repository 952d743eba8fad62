//! Packages of npm that tests run: third-party clients and servers.

use std::path::PathBuf;

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
