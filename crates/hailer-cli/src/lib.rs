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
#[cfg(feature = "top")]
mod terminal;
mod values;

use clap::Parser;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the command in the program's arguments and returns its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let arguments = match args::Arguments::try_parse_from(&words) {
        Ok(arguments) => arguments,
        Err(error) => match args::problem_line(&error, &words) {
            Some(line) => return exit::code(Err(exit::Usage(line).into())),
            None => error.exit(),
        },
    };
    exit::code(command::run(arguments))
}
