//! The commands, one module each.
//!
//! In: parsed arguments. Out: an exit code; output of each command.
//!
//! May import: `crate::activation`, `crate::args`, `crate::config`, `crate::exit`, `crate::files`,
//! `crate::http_client`, `crate::log`, `crate::observe`, `crate::packet_filter`, `crate::print`,
//! `crate::service`, `crate::simulated`, `crate::system`, `crate::terminal`, `crate::values`,
//! `hailer`, `hailer_monitor`.

mod check;
mod completions;
mod decode;
mod demo;
mod discover;
mod farm;
mod gamedig;
mod games;
#[cfg(feature = "game")]
mod join;
mod man;
#[cfg(feature = "monitor")]
mod monitor;
mod ping;
mod protocols;
#[cfg(feature = "game")]
mod proxy;
mod query;
#[cfg(feature = "game")]
pub(crate) mod secrets;
mod serve;
mod stop;
mod sweep;
#[cfg(feature = "top")]
mod top;
#[cfg(feature = "monitor")]
mod watch;
#[cfg(feature = "game")]
mod world;

#[cfg(feature = "probe")]
use crate::args::Probe;
use crate::args::{Arguments, Auth, Command, QueryArgs, ServeAction, TargetArgs};
use crate::config::{self, warn_about_token_file};
#[cfg(not(all(feature = "game", feature = "monitor", feature = "top")))]
use crate::exit::without;
use crate::exit::{Exit, OrUsage, usage};
use crate::observe::DoorOrder;
use crate::values::{game_of, names_another};
use hailer::Target;
use hailer::client::ClientConfig;
use hailer::proto::Game;
use hailer::proto::onequery::message::MAX_AUTH_TOKEN;
use std::future::Future;
use std::path::Path;
use std::time::Duration;

/// Runs a command.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    add_games(arguments.command.games_file())?;
    match arguments.command {
        Command::Query(args) => block_on(query::run(*args)),
        Command::Sweep(args) => sweep::run(&args),
        Command::Discover(args) => block_on(discover::run(*args)),
        Command::Ping(args) => block_on(ping::run(*args)),
        Command::Check(args) => block_on(check::run(*args)),
        Command::Serve(mut args) => match args.action.take() {
            Some(ServeAction::Status(args)) => block_on(serve::status::run(args)),
            Some(ServeAction::Wake(args)) => block_on(serve::order::run(args, DoorOrder::Wake)),
            Some(ServeAction::Sleep(args)) => block_on(serve::order::run(args, DoorOrder::Sleep)),
            None => serve::run(&args),
        },
        Command::Gamedig(args) => block_on(gamedig::run(args)),
        Command::Farm(args) => farm::run(&args),
        #[cfg(feature = "game")]
        Command::World(args) => block_on(world::run(*args)),
        #[cfg(feature = "monitor")]
        Command::Monitor(args) => monitor::run(&args),
        #[cfg(feature = "top")]
        Command::Top(args) => block_on(top::run(*args)),
        #[cfg(feature = "monitor")]
        Command::Watch(args) => block_on(watch::run(*args)),
        Command::Decode(args) => decode::run(&args),
        #[cfg(feature = "game")]
        Command::Join(args) => block_on(join::run(*args)),
        #[cfg(feature = "game")]
        Command::Proxy(args) => block_on(proxy::run(*args)),
        #[cfg(not(feature = "game"))]
        Command::World(_) | Command::Join(_) | Command::Proxy(_) => usage!("{}", without("game")),
        #[cfg(not(feature = "top"))]
        Command::Top(_) => usage!("{}", without("top")),
        #[cfg(not(feature = "monitor"))]
        Command::Monitor(_) | Command::Watch(_) => usage!("{}", without("monitor")),
        Command::Demo(args) => block_on(demo::run(*args)),
        Command::Protocols(args) => protocols::run(&args),
        Command::Games(args) => games::run(&args),
        Command::Completions { shell } => completions::print(shell),
        Command::Man { folder } => man::write(folder.as_deref()),
    }
}

/// Runs `hailer query`.
#[cfg(feature = "probe")]
pub(crate) fn probe(arguments: Probe) -> anyhow::Result<Exit> {
    add_games(arguments.query.query_args.targets.games.file.as_deref())?;
    block_on(query::run(arguments.query))
}

/// Adds the games of a file.
fn add_games(file: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = file else {
        return Ok(());
    };
    if let Err(error) = std::fs::metadata(file) {
        usage!("--games {}: {error}; expected a TOML file", file.display());
    }
    config::games::add(file)
}

impl Auth {
    /// Returns the auth token, if there is one. Reads the token file.
    fn token(&self) -> anyhow::Result<Option<String>> {
        let token = match (&self.auth_token, &self.auth_token_file) {
            // An empty variable counts as unset.
            (token, None) => token.clone().filter(|token| !token.is_empty()),
            (_, Some(file)) => {
                warn_about_token_file("--auth-token-file", file);
                let text = std::fs::read_to_string(file)
                    .or_usage_in(format_args!("--auth-token-file {}", file.display()))?;
                let token = text.lines().next().unwrap_or_default().trim();
                if token.is_empty() {
                    usage!(
                        "--auth-token-file {}: its first line is empty; it should hold the token",
                        file.display()
                    );
                }
                Some(token.to_owned())
            }
        };
        if let Some(length) = token
            .as_ref()
            .map(String::len)
            .filter(|length| *length > MAX_AUTH_TOKEN)
        {
            usage!(
                "the auth token has {length} bytes; at most {MAX_AUTH_TOKEN} fit into a request"
            );
        }
        Ok(token)
    }
}

fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let end = runtime.block_on(future);
    // Do not wait for a name lookup that hangs in the C library.
    runtime.shutdown_background();
    end
}

impl QueryArgs {
    /// Builds the library's configuration, as [`TargetArgs::config`].
    fn config(&self, retries: u32, deadline: Option<Duration>) -> ClientConfig {
        let mut config = self.targets.config(retries, deadline);
        config.wait = self.wait;
        config.source = self.source;
        config.tls = self.tls;
        config
    }
}

impl TargetArgs {
    /// Builds the library's configuration. The default deadline leaves time for all retries.
    fn config(&self, retries: u32, deadline: Option<Duration>) -> ClientConfig {
        let mut config = ClientConfig::default();
        let limits = &mut config.limits;
        limits.timeout = self.timeout;
        limits.retries = retries;
        limits.leave_time(deadline);
        config.name_server = self.name_server;
        config
    }

    /// Parses a target, and applies `--protocol` and `--game`.
    fn target(&self, text: &str) -> anyhow::Result<Target> {
        if let Some(file) = list_file(text) {
            usage!(
                "{file} is a file; query its lines with `hailer query - < {file}`, or with `hailer sweep --targets {file}`"
            );
        }
        let target: Target = text.parse().or_usage()?;
        if let Some(id) = &self.game {
            return in_game(target, text, id);
        }
        let (Some(protocol), from_url) = (self.protocol, target.protocol) else {
            return Ok(target);
        };
        if from_url.is_some_and(|from_url| from_url.info().id != protocol.info().id) {
            usage!(
                "{text}: the URL names another protocol than --protocol {}; drop one of them",
                protocol.info().id
            );
        }
        Ok(target.with_protocol(protocol))
    }
}

/// Returns the path of an existing file, if a word is one and not the name of a host.
pub(crate) fn list_file(text: &str) -> Option<&str> {
    let file = text.strip_prefix('@').unwrap_or(text);
    let path = Path::new(file);
    let ends = ["txt", "csv", "json", "ndjson", "toml", "list", "parquet"];
    let end = path.extension();
    let has_end = end.is_some_and(|end| ends.iter().any(|known| end == *known));
    let is_path = has_end || file.contains('/') && !file.contains("://");
    (is_path && path.is_file()).then_some(file)
}

/// Returns the game that `--game` names.
fn named_game(id: &str) -> anyhow::Result<&'static Game> {
    Ok(game_of(id).or_usage_in(format_args!("--game {id}"))?)
}

/// Applies `--game` to a target.
pub(crate) fn in_game(target: Target, text: &str, id: &str) -> anyhow::Result<Target> {
    let game = named_game(id)?;
    if names_another(&target, game) {
        usage!("{text}: the URL names another game or a protocol; drop it, or --game {id}");
    }
    match target.with_game(game) {
        Ok(target) => Ok(target),
        Err(error) => usage!("--game {id}: {}", error.problem()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn default_deadline_leaves_time_for_all_retries() {
        for (flags, seconds) in [
            ("", 10),
            ("--timeout 15s --retries 0", 15),
            ("--timeout 5s", 20),
            ("--timeout 15s --deadline 3s", 3),
            ("--timeout 365d --retries 100", 365 * 86_400 * 101),
        ] {
            let flags = ["hailer", "query", "host"]
                .into_iter()
                .chain(flags.split_whitespace());
            let Command::Query(args) = Arguments::parse_from(flags).command else {
                unreachable!()
            };
            let limits = args.query_args.config(args.retries, args.deadline).limits;
            assert_eq!(
                limits.deadline,
                Duration::from_secs(seconds),
                "{:?}",
                args.query_args.targets.timeout
            );
        }
    }
}
