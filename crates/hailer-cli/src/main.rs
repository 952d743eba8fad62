//! The command-line tool `hailer`.
//!
//! ```text
//!   args.rs (arguments) ─► command/ (one module per command) ─► print/ (one module per format)
//! ```

mod activation;
mod args;
mod command;
mod config;
#[cfg(test)]
mod examples;
mod exit;
mod log;
mod observe;
#[cfg(feature = "game")]
mod packet_filter;
mod population;
mod print;
mod values;
mod web;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    exit::code(command::run(args::Arguments::parse()))
}
