//! Names of the files next to the output.

use std::path::{Path, PathBuf};

/// Appends a suffix to a path: `out.csv` becomes `out.csv.checkpoint`.
pub(super) fn append_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}
