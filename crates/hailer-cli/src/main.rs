//! `hailer`: talk to game servers from a terminal.
//!
//! ```text
//!   args.rs (what was typed) ─► command/ (one file each: what it does) ─► print/ (one file for each output form)
//! ```

mod activation;
mod args;
mod command;
mod config;
mod exit;
mod observe;
mod population;
mod print;
mod web;

use std::process::ExitCode;

fn main() -> ExitCode {
    exit::code(command::run(args::Arguments::typed()))
}
