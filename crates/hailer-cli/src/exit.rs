//! Exit codes, so that a script or a health check can tell what happened.

use crate::print::tell;
use std::io;
use std::process::ExitCode;

/// What shells make of Ctrl-C: 128 and the number of the signal.
pub(crate) const STOPPED: u8 = 130;

/// How a command ended; the worse, the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Exit {
    /// Everything asked answered; everything decoded is sound.
    Success,
    /// Something did not.
    Partial,
    /// A signal stopped it before it was done.
    Stopped,
}

/// A mistake of the user's, or of a configuration file's: one line that says what to do. Exit code 2, like clap's.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Shorthand for `Err(Usage(…).into())`.
macro_rules! usage {
    ($($text:tt)*) => { return Err($crate::exit::Usage(format!($($text)*)).into()) };
}
pub(crate) use usage;

/// Turns how a command ended into the process's exit code, with one line for an error.
pub(crate) fn code(end: anyhow::Result<Exit>) -> ExitCode {
    match end {
        Ok(Exit::Success) => ExitCode::SUCCESS,
        Ok(Exit::Partial) => ExitCode::from(1),
        Ok(Exit::Stopped) => ExitCode::from(STOPPED),
        // The reader of our output has seen enough.
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            tell!(
                "\x1b[1;31merror:\x1b[0m {}",
                without_numbers(&words(&error))
            );
            ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
        }
    }
}

/// An error and its causes, each once: some say in their own words what their cause says again.
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

/// Without the number that Rust puts behind the words of the operating system: ` (os error 2)`.
pub(crate) fn without_numbers(text: &str) -> String {
    let mut pieces = text.split(" (os error ");
    let mut words = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        words.push_str(piece.split_once(')').map_or("", |(_, rest)| rest));
    }
    words
}

/// The end of a command whose output may have been closed before: what is known by then counts.
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
    fn errors_are_words() {
        let error = io::Error::from_raw_os_error(2);
        let words = without_numbers(&format!("--map a: {error}, and b: {error}"));
        assert_eq!(
            words,
            "--map a: No such file or directory, and b: No such file or directory"
        );
    }
}
