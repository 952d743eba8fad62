//! Paths and modes of the files that commands write.
//!
//! In: a path. Out: another path, or an open file.
//!
//! May import: nothing of this workspace.

#[cfg(any(feature = "game", feature = "monitor"))]
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// Appends a suffix to a path: `out.csv` becomes `out.csv.checkpoint`.
pub(crate) fn append_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}

/// Returns the folder of a file, which is `.` for a bare name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent();
    let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Creates a file that only its owner can read.
///
/// # Errors
/// The file exists, or cannot be created.
#[cfg(any(feature = "game", feature = "monitor"))]
pub(crate) fn create_private(path: &Path) -> std::io::Result<File> {
    private().write(true).create_new(true).open(path)
}

/// Opens a file to append. A new one is readable by its owner only.
///
/// # Errors
/// The file cannot be opened.
#[cfg(feature = "game")]
pub(crate) fn append_private(path: &Path) -> std::io::Result<File> {
    private().append(true).create(true).open(path)
}

#[cfg(any(feature = "game", feature = "monitor"))]
fn private() -> OpenOptions {
    #[cfg(unix)]
    {
        let mut options = OpenOptions::new();
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options
    }
    #[cfg(not(unix))]
    OpenOptions::new()
}
