//! Packages of PyPI that tests run: third-party clients.
//!
//! `pypi/requirements.txt` pins them.
//!
//! In: a script and its arguments. Out: its output.
//!
//! May import: nothing of this workspace.

use std::path::PathBuf;
use std::process::Command;

/// Returns a command that runs the text of a Python script with these packages; arguments can be
/// added. They are in the environment `target/pypi`, where `.ci/run` installs them. Without it,
/// prints that the test was skipped.
///
/// # Panics
///
/// If the environment is missing and `HAILER_NEEDS_PYPI` is set.
pub fn run_script(text: &str) -> Option<Command> {
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/pypi/bin/python3");
    let python = PathBuf::from(python);
    if !python.is_file() {
        let reason = format!("no packages of PyPI: {} is missing", python.display());
        assert!(std::env::var_os("HAILER_NEEDS_PYPI").is_none(), "{reason}");
        eprintln!("skipped: {reason}");
        return None;
    }
    let mut command = Command::new(python);
    // -I: no modules from the current folder or the environment of the user.
    command.args(["-I", "-c", text]);
    Some(command)
}
