//! Temporary folders for the files of a test.
//!
//! In: a name. Out: a folder that is deleted on drop.
//!
//! May import: nothing of this workspace.

use std::path::{Path, PathBuf};

/// A folder that is deleted on drop.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("hailer-history-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn url(&self) -> String {
        format!("sqlite:{}/history of tests?.db", self.0.display())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
