//! The command-line tool `hailer`, as a library with one function: builds compile it at the same time as the crates below it,
//! while a binary would wait for them.
//!
//! ```text
//!   args.rs (arguments) ─► command/ (one module per command) ─► print/ (one module per format)
//! ```
//!
//! May import: `hailer`, `hailer_monitor`.

mod activation;
mod args;
mod command;
mod config;
#[cfg(all(test, feature = "game", feature = "monitor", feature = "parquet"))]
mod examples;
mod exit;
mod files;
mod http_client;
mod log;
mod observe;
#[cfg(feature = "game")]
mod packet_filter;
mod print;
mod service;
mod simulated;
mod system;
#[cfg(feature = "top")]
mod terminal;
mod values;

#[cfg(feature = "probe")]
use clap::Command;
use clap::{CommandFactory, Parser};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

/// Runs the command in the program's arguments and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let words = words(std::env::args_os().collect());
    let arguments = match args::Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => match args::problem_line(&error, &args::Arguments::command(), &words) {
            Some(line) => return exit::code(Err(exit::Usage(line).into())),
            None => error.exit(),
        },
    };
    exit::code(command::run(arguments))
}

/// Runs `hailer query` with the program's arguments and returns its exit code.
#[cfg(feature = "probe")]
#[must_use]
pub fn probe() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    let arguments = match args::Probe::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => {
            words.insert(words.len().min(1), "query".into());
            // The definitions of the other commands would make the binary larger.
            let tool = Command::new("hailer").subcommand(args::Probe::command().name("query"));
            match args::problem_line(&error, &tool, &words) {
                Some(line) => {
                    let line = line.replace("hailer query", "hailer-probe");
                    return exit::code(Err(exit::Usage(line).into()));
                }
                None => error.exit(),
            }
        }
    };
    exit::code(command::probe(arguments))
}

/// Returns the arguments of the program. As a program named gamedig, they are those of the command.
fn words(mut words: Vec<OsString>) -> Vec<OsString> {
    let name = words.first().and_then(|name| Path::new(name).file_stem());
    if name.is_some_and(|name| name == "gamedig") {
        words.insert(1, "gamedig".into());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_named_gamedig_is_the_command() {
        let words = |names: &[&str]| words(names.iter().map(OsString::from).collect());
        assert_eq!(
            words(&["/bin/gamedig", "--pretty"]),
            ["/bin/gamedig", "gamedig", "--pretty"]
        );
        assert_eq!(words(&["gamedig.exe"]), ["gamedig.exe", "gamedig"]);
        assert_eq!(words(&["hailer", "gamedig"]), ["hailer", "gamedig"]);
        assert!(words(&[]).is_empty());
    }
}
