//! `hailer completions`, generated from the definitions in args.rs.
//!
//! In: definitions in args.rs, ids of games and protocols. Out: scripts.
//!
//! May import: `crate::args`, `crate::exit`, `crate::print`, `hailer`.

use crate::args::Arguments;
use crate::exit::Exit;
use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, CommandFactory};
use clap_complete::Shell;
use hailer::proto::games::GAMES;
use hailer::proto::registry::PROTOCOLS;
use std::io::Write;

pub(crate) fn print(shell: Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    let mut tool = with_ids(Arguments::command());
    clap_complete::generate(shell, &mut tool, "hailer", &mut script);
    crate::print::stdout().write_all(&script)?;
    Ok(Exit::Success)
}

/// Lists ids of protocols and games as values of the arguments that take them. The arguments
/// themselves accept more than these: the help would be pages long, and targets continue with a host.
fn with_ids(command: Command) -> Command {
    let serves = ["serve", "farm"].contains(&command.get_name());
    command
        .mut_args(|arg| match (arg.get_id().as_str(), is_target(&arg)) {
            ("protocol", _) => arg.value_parser(PossibleValuesParser::new(protocols(serves))),
            (_, true) => arg.value_parser(PossibleValuesParser::new(schemes())),
            _ => arg,
        })
        .mut_subcommands(with_ids)
}

/// Whether an argument is one or several targets.
fn is_target(arg: &Arg) -> bool {
    arg.is_positional() && arg.get_id().as_str().starts_with("target")
}

/// The ids of all protocols, or of those that Hailer serves.
fn protocols(served: bool) -> impl Iterator<Item = &'static str> {
    PROTOCOLS
        .iter()
        .filter(move |protocol| !served || protocol.info().has_responder)
        .map(|protocol| protocol.info().id)
}

/// The beginnings of targets: `GAME://` and `PROTOCOL://`.
fn schemes() -> Vec<&'static str> {
    let games = GAMES.iter().filter(|game| !game.protocols.is_empty());
    let mut ids: Vec<_> = protocols(false).chain(games.map(|game| game.id)).collect();
    ids.sort_unstable();
    ids.dedup();
    // clap keeps values for as long as the program runs, which ends after the script.
    ids.into_iter()
        .map(|id| &*format!("{id}://").leak())
        .collect()
}
