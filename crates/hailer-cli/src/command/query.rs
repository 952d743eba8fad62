//! `hailer query`: asks servers for their status.

use crate::args::Query;
use crate::exit::{Exit, as_known, usage};
use crate::print::{datagram, json, table, view};
use futures_util::{StreamExt, stream};
use hailer::proto::Depth;
use hailer::report::AnswerLine;
use hailer::{Answer, Client, ClientConfig, Error, Target, registry};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::mem::ManuallyDrop;
use std::time::Duration;

pub(crate) async fn run(args: Query) -> anyhow::Result<Exit> {
    let targets = targets(&args)?;
    // The program ends with it: taking it apart would only load what that needs.
    let client = ManuallyDrop::new(Client::new(settings(&args)?));
    let mut exit = Exit::Success;
    let shown = ask(&args, &targets, &client, &mut exit).await;
    as_known(shown, exit)
}

/// Asks, and shows what comes, in the order typed and as soon as it can be shown.
async fn ask(
    args: &Query,
    targets: &[(String, Target)],
    client: &Client,
    exit: &mut Exit,
) -> anyhow::Result<()> {
    let progress = progress(args, targets.len());
    let mut out = anstream::stdout();
    let several = targets.len() > 1 && !args.long && !args.raw;
    let mut rows = Vec::new();
    let mut answers = stream::iter(targets)
        .map(|(text, target)| {
            let progress = &progress;
            async move {
                let mut end = client.query_all(target).await;
                if let Ok(answers) = &mut end {
                    answers.sort_by_key(place);
                }
                progress.iter().for_each(|bar| bar.inc(1));
                (text, end)
            }
        })
        .buffered(usize::from(args.concurrency));
    while let Some((text, end)) = answers.next().await {
        if end.is_err() {
            *exit = Exit::Partial;
        }
        if args.json {
            print_json(&mut out, text, &end)?;
        } else if several {
            rows.push((text.clone(), end));
        } else {
            let mut print = || print_view(&mut out, text, &end, args);
            match &progress {
                Some(bar) => bar.suspend(print)?,
                None => print()?,
            }
        }
    }
    progress.iter().for_each(ProgressBar::finish_and_clear);
    if several && !args.json {
        table::servers(&mut out, &rows)?;
    }
    Ok(out.flush()?)
}

/// Whoever answers first, answers are shown in the order of the registry.
fn place(answer: &Answer) -> Option<usize> {
    registry::PROTOCOLS
        .iter()
        .position(|protocol| protocol.info().id == answer.transcript.protocol.id)
}

/// The library's settings. Reads the auth token's file.
fn settings(args: &Query) -> anyhow::Result<ClientConfig> {
    let mut settings = args.asking.settings(args.retries, args.deadline);
    settings.ask.players = !args.no_players;
    settings.ask.depth = if args.basic {
        Depth::Basic
    } else {
        Depth::Full
    };
    settings.ask.auth_token = args.auth.token()?.map(Into::into);
    settings.strict = args.strict;
    settings.keep_datagrams = args.raw;
    Ok(settings)
}

/// Every target, checked before the first is asked.
fn targets(args: &Query) -> anyhow::Result<Vec<(String, Target)>> {
    let mut texts = Vec::new();
    for text in &args.targets {
        if text == "-" {
            let lines = match std::io::read_to_string(std::io::stdin()) {
                Ok(lines) => lines,
                Err(error) => usage!("standard input: {error}; write one host a line"),
            };
            let lines = lines
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty() && !line.starts_with('#'));
            texts.extend(lines.map(str::to_owned));
        } else {
            texts.push(text.clone());
        }
    }
    if texts.is_empty() {
        usage!("no target on standard input; write one host a line");
    }
    texts
        .into_iter()
        .map(|text| Ok((text.clone(), args.asking.target(&text)?)))
        .collect()
}

/// A bar on standard error while several servers are asked, if somebody is watching.
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

fn print_json(
    out: &mut impl Write,
    text: &str,
    end: &Result<Vec<Answer>, Error>,
) -> anyhow::Result<()> {
    match end {
        Ok(answers) => {
            for answer in answers {
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
    text: &str,
    end: &Result<Vec<Answer>, Error>,
    args: &Query,
) -> anyhow::Result<()> {
    match end {
        Ok(answers) => {
            for answer in answers {
                view::answer(out, text, answer, !args.no_players)?;
                if args.raw {
                    datagram::exchange(out, &answer.transcript)?;
                }
            }
        }
        Err(error) => {
            view::failure(out, text, error)?;
            match error {
                error if args.raw => error
                    .transcript()
                    .map_or(Ok(()), |transcript| datagram::exchange(out, transcript))?,
                Error::Malformed {
                    transcript,
                    datagram,
                    ..
                } => datagram::culprit(out, transcript.protocol.id, datagram)?,
                _ => {}
            }
        }
    }
    Ok(())
}
