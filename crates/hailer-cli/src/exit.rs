//! Exit codes for scripts and health checks.

use crate::print::stderr;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// Exit code after Ctrl-C, as shells use it: 128 plus the number of the signal.
pub(crate) const STOPPED: u8 = 130;

/// Result of a command, ordered by severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// All servers answered, or all bytes are valid.
    Success,
    /// Some servers did not answer, or some bytes are invalid.
    Partial,
    /// A condition is false or unknown.
    ConditionNotMet,
    /// A signal ended the command early.
    Stopped,
}

/// Error in arguments or configuration, with the correction. Exit code 2, as in clap.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Shorthand for `Err(Usage(…).into())`.
macro_rules! usage {
    ($($text:tt)*) => { return Err($crate::exit::Usage(format!($($text)*)).into()) };
}
pub(crate) use usage;

/// Makes any error one in arguments or configuration.
pub(crate) trait OrUsage<T> {
    /// Keeps the message.
    fn or_usage(self) -> Result<T, Usage>;

    /// Puts a flag, a key or a file before the message.
    fn or_usage_in(self, place: impl fmt::Display) -> Result<T, Usage>;
}

impl<T, E: fmt::Display> OrUsage<T> for Result<T, E> {
    fn or_usage(self) -> Result<T, Usage> {
        self.map_err(|error| Usage(error.to_string()))
    }

    fn or_usage_in(self, place: impl fmt::Display) -> Result<T, Usage> {
        self.map_err(|error| Usage(format!("{place}: {error}")))
    }
}

/// Returns the error of something that this build lacks, with the fix.
#[allow(dead_code, reason = "unused with all features")]
pub(crate) fn without(feature: &str) -> String {
    format!(
        "this hailer was built without the feature `{feature}`; build it again with --features {feature}"
    )
}

/// Converts the result of a command to the exit code of the process. Prints each error.
pub(crate) fn code(end: anyhow::Result<Exit>) -> ExitCode {
    match end {
        Ok(Exit::Success) => ExitCode::SUCCESS,
        Ok(Exit::Partial) => ExitCode::from(1),
        Ok(Exit::ConditionNotMet) => ExitCode::from(3),
        Ok(Exit::Stopped) => ExitCode::from(STOPPED),
        // The reader closed the pipe.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // A configuration file may have several mistakes, one per line.
            for line in without_numbers(&words(&error)).lines() {
                print_error(line);
            }
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}

/// Prints one error to the standard error stream.
pub(crate) fn print_error(error: impl fmt::Display) {
    stderr!("\x1b[1;31merror:\x1b[0m {error}");
}

/// Joins an error and its causes. Skips a cause that the previous message already ends with.
pub(crate) fn words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.ends_with(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

/// Removes the error number that Rust appends to messages of the operating system: ` (os error 2)`.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut pieces = text.split(" (os error ");
    let mut words = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        words.push_str(piece.split_once(')').map_or("", |(_, rest)| rest));
    }
    words
}

/// Returns the result known so far if the command's output was closed early.
pub(crate) fn as_known(shown: anyhow::Result<()>, so_far: Exit) -> anyhow::Result<Exit> {
    match shown {
        Err(error) if !is_closed_pipe(&error) => Err(error),
        _ => Ok(so_far),
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<io::Error>());
    io.is_some_and(|io| io.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removes_error_numbers() {
        let error = io::Error::from_raw_os_error(2);
        let words = without_numbers(&format!("--map a: {error}, and b: {error}"));
        assert_eq!(
            words,
            "--map a: No such file or directory, and b: No such file or directory"
        );
    }
}
