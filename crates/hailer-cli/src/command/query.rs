//! `hailer query`: requests the status of servers.
//!
//! In: arguments, targets of standard input. Out: answers as text or JSON.
//!
//! May import: `crate::args`, `crate::exit`, `crate::print`, `crate::service`, `hailer`.

mod condition;

use crate::args::Query;
use crate::exit::{Exit, as_known, print_error, usage};
#[cfg(feature = "top")]
use crate::print::icon;
use crate::print::{datagram, json, table, view};
use crate::service::stopped;
use futures_util::{StreamExt, stream};
use hailer::client::{Answers, ClientConfig};
use hailer::proto::Depth;
use hailer::proto::games::Quirk;
use hailer::support::catalog;
use hailer::support::report::AnswerLine;
use hailer::{Answer, Client, Error, Target};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

/// A target as typed and as parsed. Only lines from standard input may be invalid.
type TypedTarget = (String, Result<Target, String>);

pub(crate) async fn run(args: Query) -> anyhow::Result<Exit> {
    let entries = entries(&args)?;
    if args.icon.is_some() && entries.len() != 1 {
        usage!("--icon writes one file; name one target");
    }
    let client = Client::new(config(&args)?);
    if let Some(condition) = condition::of(&args)? {
        return condition::run(&args, &entries, &client, condition).await;
    }
    let mut exit = Exit::Success;
    let shown = query(&args, &entries, &client, &mut exit).await;
    as_known(shown, exit)
}

/// Queries all targets. Prints each result once all previous ones are printed.
async fn query(
    args: &Query,
    entries: &[TypedTarget],
    client: &Client,
    exit: &mut Exit,
) -> anyhow::Result<()> {
    let progress = progress(args, entries.len());
    let mut out = crate::print::stdout();
    let is_table = entries.len() > 1 && !args.long && !args.raw && !args.json;
    let mut rows = Vec::new();
    let mut targets = Vec::new();
    for (text, target) in entries {
        match target {
            Ok(target) => targets.push((text, target)),
            Err(problem) => {
                *exit = Exit::Partial;
                print_error(problem);
            }
        }
    }
    let mut results = stream::iter(targets)
        .map(|(text, target)| {
            let progress = &progress;
            async move {
                let result = if args.all {
                    client.query_all(target).await
                } else {
                    client.detect(target).await
                };
                if let Some(bar) = progress {
                    bar.inc(1);
                }
                (text, target, result)
            }
        })
        .buffered(usize::from(args.concurrency));
    let mut stop = pin!(stopped(None));
    loop {
        let (text, target, result) = tokio::select! {
            biased;
            next = results.next() => match next {
                Some(next) => next,
                None => break,
            },
            () = &mut stop => {
                *exit = Exit::Stopped;
                break;
            }
        };
        if result.is_err() {
            *exit = Exit::Partial;
        }
        if args.json {
            print_json(&mut out, text, &result, args.all)?;
        } else if is_table {
            rows.push((text.clone(), result));
            continue;
        } else {
            let mut print = || print_view(&mut out, (text, target), &result, args);
            match &progress {
                Some(bar) => bar.suspend(print)?,
                None => print()?,
            }
        }
        if let (Some(file), Ok(answers)) = (&args.icon, &result)
            && !save_icon(file, answers)
        {
            *exit = Exit::Partial;
        }
    }
    if let Some(bar) = &progress {
        bar.finish_and_clear();
    }
    if is_table {
        table::servers(&mut out, &rows, args.all)?;
    }
    Ok(out.flush()?)
}

/// Writes the icon of a server to a file. Returns `false` after an error message.
fn save_icon(file: &Path, answers: &Answers) -> bool {
    let Some(icon) = &answers.best().status.icon else {
        print_error("the server sends no icon; nothing was written");
        return false;
    };
    let written = std::fs::write(file, icon.to_png());
    if let Err(error) = &written {
        print_error(format!("--icon {}: {error}", file.display()));
    }
    written.is_ok()
}

/// Builds the library's configuration. Reads the file of the auth token.
fn config(args: &Query) -> anyhow::Result<ClientConfig> {
    let mut config = args.query_args.config(args.retries, args.deadline);
    config.ask.has_players = !args.no_players;
    config.ask.depth = if args.basic {
        Depth::Basic
    } else {
        Depth::Full
    };
    config.ask.charset = args.charset;
    config.ask.auth_token = args.auth.token()?.map(Into::into);
    config.ask.to.host = args.send_host.as_deref().unwrap_or_default().into();
    config.has_proxy_header = args.proxy_header;
    config.is_strict = args.strict;
    config.has_datagrams = args.raw;
    Ok(config)
}

/// Returns all targets, parsed before the first query starts.
fn entries(args: &Query) -> anyhow::Result<Vec<TypedTarget>> {
    let mut entries = Vec::new();
    for text in &args.targets {
        if text != "-" {
            entries.push((text.clone(), Ok(args.query_args.targets.target(text)?)));
            continue;
        }
        let lines = match std::io::read_to_string(std::io::stdin()) {
            Ok(lines) => lines,
            Err(error) => usage!("standard input: {error}; write one target per line"),
        };
        // As in target lists of a sweep: the first word of a line, without comments after `#`.
        for (number, line) in (1..).zip(lines.lines()) {
            let content = line.split('#').next().unwrap_or_default();
            if let Some(word) = content.split_ascii_whitespace().next() {
                let target = args.query_args.targets.target(word);
                let target =
                    target.map_err(|error| format!("standard input, line {number}: {error}"));
                entries.push((word.to_owned(), target));
            }
        }
    }
    if entries.is_empty() {
        usage!("no target on standard input; write one target per line");
    }
    Ok(entries)
}

/// Returns a progress bar on standard error for several targets, if both outputs allow it.
fn progress(args: &Query, targets: usize) -> Option<ProgressBar> {
    if targets < 2
        || args.json && std::io::stdout().is_terminal()
        || !std::io::stderr().is_terminal()
    {
        return None;
    }
    let bar = ProgressBar::new(targets as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} servers, {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    Some(bar)
}

/// Returns the answers to show: the best one, or all separately.
fn shown(answers: &Answers, all: bool) -> Vec<&Answer> {
    if all {
        answers.iter().collect()
    } else {
        vec![answers.best()]
    }
}

fn print_json(
    out: &mut impl Write,
    text: &str,
    result: &Result<Answers, Error>,
    all: bool,
) -> anyhow::Result<()> {
    match result {
        Ok(answers) => {
            for answer in shown(answers, all) {
                writeln!(out, "{}", json::line(&AnswerLine::answered(text, answer))?)?;
            }
        }
        Err(error) => writeln!(out, "{}", json::line(&AnswerLine::failed(text, error))?)?,
    }
    out.flush()?;
    Ok(())
}

fn print_view(
    out: &mut impl Write,
    (text, target): (&str, &Target),
    result: &Result<Answers, Error>,
    args: &Query,
) -> anyhow::Result<()> {
    let answers = match result {
        Ok(answers) => answers,
        Err(error) => return print_failure(out, (text, target), error, args),
    };
    for answer in shown(answers, args.all) {
        let others = if args.all {
            Vec::new()
        } else {
            answers.others()
        };
        #[cfg(feature = "top")]
        if let Some(shown) = &answer.status.icon {
            icon::show(out, shown, args.show_icon)?;
        }
        view::answer(out, text, answer, &others, !args.no_players)?;
        if args.raw {
            datagram::exchange(out, &answer.transcript)?;
        }
    }
    Ok(())
}

/// Returns advice after a failure: settings that servers of the game need, or protocols that were
/// not tried.
fn hints(target: &Target, error: &Error, args: &Query) -> Vec<String> {
    let name = target.host.to_string();
    if matches!(error, Error::NameNotFound { .. } | Error::Lookup { .. })
        && let Some(word) = game_or_protocol(&name)
    {
        return vec![format!(
            "{name} is a {word}; name a server too: {name}://HOST"
        )];
    }
    if let Some(game) = target.game {
        let quirks = game
            .quirks
            .iter()
            .filter(|quirk| matches!(quirk, Quirk::StatusNeeds(_) | Quirk::SilentInLobby));
        return quirks
            .map(|quirk| format!("{}: {quirk}", game.name))
            .collect();
    }
    let is_incomplete = match error {
        Error::NoProtocol { failures } => failures.len() < catalog::protocols().len(),
        _ => false,
    };
    if is_incomplete && !args.all {
        vec![
            "Other protocols and the requests of older versions were not tried: name the game, as `hailer games` lists it, or use --all"
                .into(),
        ]
    } else {
        Vec::new()
    }
}

/// Returns whether a name is that of a game or a protocol.
fn game_or_protocol(name: &str) -> Option<&'static str> {
    if catalog::game(name).is_some() {
        Some("game")
    } else {
        catalog::protocol(name).map(|_| "protocol")
    }
}

/// Prints a failure to standard error. Datagrams go to standard output.
fn print_failure(
    out: &mut impl Write,
    (text, target): (&str, &Target),
    error: &Error,
    args: &Query,
) -> anyhow::Result<()> {
    let mut err = anstream::stderr();
    view::failure(&mut err, text, error, &hints(target, error, args))?;
    if args.raw {
        for transcript in error.transcripts() {
            datagram::exchange(out, transcript)?;
        }
    } else if let Some(place) = error.fault_place() {
        datagram::culprit(&mut err, place)?;
    }
    Ok(())
}
