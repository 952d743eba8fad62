//! What each command does, one file a command.

mod decode;
mod demo;
mod generate;
mod ping;
mod protocols;
mod query;
mod serve;

use crate::args::{Arguments, Asking, Command};
use crate::exit::{Exit, usage};
use hailer::{Patience, Settings, Target};
use std::future::Future;

/// Runs a command to its end.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    match arguments.command {
        Command::Query(args) => block_on(query::run(args)),
        Command::Ping(args) => block_on(ping::run(args)),
        Command::Serve(args) => serve::run(&args),
        Command::Decode(args) => decode::run(&args),
        Command::Demo(args) => block_on(demo::run(args)),
        Command::Protocols(args) => protocols::run(&args),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { folder } => generate::man_pages(folder.as_deref()),
    }
}

fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}

impl Asking {
    /// The library's settings. Reads the auth token's file.
    fn settings(&self) -> anyhow::Result<Settings> {
        let mut settings = Settings::default();
        let mut patience = Patience::default();
        (patience.timeout, patience.retries, patience.deadline) = (self.timeout, self.retries, self.deadline);
        settings.patience = patience;
        settings.name_server = self.name_server;
        settings.ask.auth_token = match (&self.auth_token, &self.auth_token_file) {
            // An empty variable is as good as none.
            (token, None) => token.as_deref().filter(|token| !token.is_empty()).map(Into::into),
            (_, Some(file)) => {
                let text = match std::fs::read_to_string(file) {
                    Ok(text) => text,
                    Err(error) => usage!("--auth-token-file {}: {error}", file.display()),
                };
                let token = text.lines().next().unwrap_or_default().trim();
                if token.is_empty() {
                    usage!("--auth-token-file {}: its first line is empty; it should hold the token", file.display());
                }
                Some(token.into())
            }
        };
        Ok(settings)
    }

    /// A target, in the protocol asked for.
    fn target(&self, text: &str) -> anyhow::Result<Target> {
        let target: Target = match text.parse() {
            Ok(target) => target,
            Err(error) => usage!("{error}"),
        };
        let (Some(protocol), from_url) = (self.protocol, target.protocol) else {
            return Ok(target);
        };
        if from_url.is_some_and(|from_url| from_url.info().id != protocol.info().id) {
            usage!("{text}: the URL names another protocol than --protocol {}; drop one of them", protocol.info().id);
        }
        Ok(target.with_protocol(protocol))
    }
}
