//! The configuration of one server from the flags of `hailer serve`.

use super::checker::Checker;
use super::reader::{IntegerBetween, Lines, OneOrMany, Ordered, TextOrNumber};
use super::serve::{ProtocolOptions, ServerInput, find};
use super::status::StatusConfig;
use super::{ServerConfig, checker};
use crate::args::Serve;
use crate::exit::Usage;
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;

/// Builds the configuration of a server from flags.
///
/// # Errors
/// A flag has an invalid value.
pub(crate) fn from_flags(args: &Serve) -> Result<ServerConfig, Usage> {
    let rule = |rule: &String| match rule.split_once('=') {
        Some((key, value)) => Ok((plain(key.to_owned()), plain(TextOrNumber(value.to_owned())))),
        None => Err(Usage(format!("--rule {rule}: write KEY=VALUE"))),
    };
    let max_players = match args.max_players {
        Some(max) if !(0..=i64::from(i32::MAX)).contains(&max) => {
            let text = format!("--max-players {max}: write a number from 0 to {}", i32::MAX);
            return Err(Usage(text));
        }
        max => max.map(IntegerBetween),
    };
    let mut status = StatusConfig {
        name: args.name.clone(),
        motd: args.motd.clone(),
        game: args.game.clone(),
        mode: args.mode.clone(),
        map: args.map.clone(),
        version: args.game_version.clone(),
        icon: args.icon.clone().map(plain),
        max_players,
        rules: Ordered(args.rule.iter().map(rule).collect::<Result<_, _>>()?),
        ..StatusConfig::default()
    };
    for name in &args.player {
        status
            .add_player(name)
            .map_err(|problem| Usage(format!("--player: {problem}")))?;
    }
    let protocol_ids = args
        .protocol
        .iter()
        .map(|protocol| protocol.info().id.to_owned());
    let mut input = ServerInput::default();
    input.listen = OneOrMany(args.listen.iter().cloned().map(plain).collect());
    input.protocols = protocol_ids.map(plain).collect();
    if args.demo {
        input.demo = Some(plain(IntegerBetween(args.seed.min(i64::MAX as u64))));
    } else {
        input.status = Some(status);
    }
    input.options = options(&args.option)?;
    input.lan_announce = args.lan_announce.then(|| plain(true));
    let lines = Lines::new("");
    let mut checker = Checker::new(Path::new(""), &lines, Vec::new());
    let server = input.server(&(0..0), &mut checker);
    server.ok_or_else(|| {
        let texts: Vec<_> = checker
            .problems
            .into_iter()
            .map(|problem| problem.text)
            .collect();
        Usage(texts.join("\n"))
    })
}

/// Wraps a value that has no position in a file.
fn plain<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// Parses options such as `onequery.v1=true`. Values may be secrets, so errors never contain them.
fn options(flags: &[String]) -> Result<Ordered<ProtocolOptions>, Usage> {
    let mut options: Vec<(Spanned<String>, Spanned<ProtocolOptions>)> = Vec::new();
    for flag in flags {
        let wrong = || {
            let fix = "write PROTOCOL.KEY=VALUE, with a key that `hailer protocols PROTOCOL` shows";
            Usage(format!("--option: {fix}"))
        };
        let (path, value) = flag.split_once('=').ok_or_else(wrong)?;
        let (protocol, key) = path.split_once('.').ok_or_else(wrong)?;
        if !key
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            return Err(wrong());
        }
        find("--option", protocol).map_err(Usage)?;
        // A value that is not valid TOML is a string, so that users need not quote it twice in a
        // shell.
        let table = format!("value = {value}").parse::<toml::Table>().ok();
        let read = table
            .filter(|table| table.len() == 1)
            .and_then(|mut table| table.remove("value"));
        let value = plain(read.unwrap_or_else(|| value.into()));
        match options.iter_mut().find(|(id, _)| id.get_ref() == protocol) {
            Some((_, values)) => drop(values.as_mut().insert(key.to_owned(), value)),
            None => {
                let values = BTreeMap::from([(key.to_owned(), value)]);
                options.push((plain(protocol.to_owned()), plain(values)));
            }
        }
    }
    Ok(Ordered(options))
}

/// Warns about a token file that every user of the machine can read. For commands without a
/// configuration file.
pub(crate) fn warn_about_token_file(flag: &str, path: &Path) {
    if let Some(warning) = checker::readable_by_all(path) {
        crate::print::stderr!("\x1b[33mwarning:\x1b[0m {flag}: {warning}");
    }
}
