//! Units of systemd, by `systemctl`.
//!
//! The names are checked by the configuration: no patterns, no options.

use super::Change;

/// Returns the command that starts or stops a unit, and waits until it has.
pub(super) fn change(program: &str, name: &str, is_user: bool, change: Change) -> Vec<String> {
    systemctl(
        program,
        is_user,
        &["--no-ask-password", change.verb(), "--", name],
    )
}

/// Returns the command that shows the state of a unit.
pub(super) fn show(program: &str, name: &str, is_user: bool) -> Vec<String> {
    systemctl(
        program,
        is_user,
        &["--property=LoadState,ActiveState", "show", "--", name],
    )
}

fn systemctl(program: &str, is_user: bool, arguments: &[&str]) -> Vec<String> {
    let manager = if is_user { "--user" } else { "--system" };
    let words = [program, manager].into_iter();
    words
        .chain(arguments.iter().copied())
        .map(str::to_owned)
        .collect()
}

/// Reads the output of [`show`]. Returns `None` for a unit that does not exist.
pub(super) fn is_running(output: &str) -> Option<bool> {
    let property = |name: &str| {
        let mut lines = output.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    };
    if property("LoadState")? == "not-found" {
        return None;
    }
    match property("ActiveState")? {
        "inactive" | "failed" => Some(false),
        "active" | "activating" | "deactivating" | "reloading" | "refreshing" => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_read() {
        for (state, expected) in [
            ("active", Some(true)),
            ("activating", Some(true)),
            ("deactivating", Some(true)),
            ("inactive", Some(false)),
            ("failed", Some(false)),
            ("maintenance", None),
            ("", None),
        ] {
            let output = format!("ActiveState={state}\nLoadState=loaded\n");
            assert_eq!(is_running(&output), expected, "{state}");
        }
        assert_eq!(
            is_running("LoadState=not-found\nActiveState=inactive\n"),
            None
        );
        assert_eq!(is_running(""), None);
    }
}
