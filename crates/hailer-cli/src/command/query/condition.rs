//! `hailer query --if`, `--until` and `--wait-ready`: evaluates a condition, once or until it is true.
//!
//! In: a condition, answers. Out: one line for each target; the exit code is the result.
//!
//! May import: `crate::args`, `crate::command::query`, `crate::exit`, `crate::print`, `crate::service`,
//! `hailer`.

use super::{TypedTarget, print_view};
use crate::args::Query;
use crate::exit::{Exit, Usage, as_known, print_error};
use crate::print::json;
use crate::service::stopped;
use futures_util::{StreamExt, stream};
use hailer::client::Answers;
use hailer::support::condition::{Condition, Facts, Step, Verdict, Wait};
use hailer::support::report::AnswerLine;
use hailer::{Client, Error, Target};
use serde::Serialize;
use std::io::Write;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Time between two queries of `--until` by default.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);

/// The line of a target with its condition.
#[derive(Serialize)]
struct ConditionLine<'a> {
    #[serde(flatten)]
    answer: AnswerLine<'a>,
    condition: ConditionResult<'a>,
}

#[derive(Serialize)]
struct ConditionResult<'a> {
    text: String,
    /// `None`: unknown.
    result: Option<bool>,
    reason: &'a str,
}

/// Result of a query of one target.
struct Finding<'a> {
    text: &'a str,
    target: &'a Target,
    result: Result<Answers, Error>,
    verdict: Verdict,
}

/// Returns the condition of a query, if it has one, and how it is waited for.
pub(super) fn of(args: &Query) -> Result<Option<(Condition, Option<Wait>)>, Usage> {
    let waits = &args.condition;
    if let Some(condition) = &waits.r#if {
        return Ok(Some((condition.clone(), None)));
    }
    let (condition, limit) = match (&waits.until, waits.wait_ready) {
        (Some(condition), _) => (condition.clone(), waits.r#for),
        (None, Some(limit)) => (Condition::ready(), Some(limit)),
        (None, None) => {
            let alone = [("--hold", waits.hold), ("--every", waits.every)];
            return match alone.iter().find(|(_, time)| time.is_some()) {
                Some((option, _)) => Err(Usage(format!(
                    "{option} needs a condition; write --until 'players = 0' or --wait-ready 5min"
                ))),
                None => Ok(None),
            };
        }
    };
    let every = waits.every.unwrap_or(DEFAULT_INTERVAL);
    let wait = Wait::new(every, waits.hold.unwrap_or_default(), limit);
    Ok(Some((condition, Some(wait))))
}

/// Evaluates the condition, once or until it is true of every target.
pub(super) async fn run(
    args: &Query,
    entries: &[TypedTarget],
    client: &Client,
    (condition, wait): (Condition, Option<Wait>),
) -> anyhow::Result<Exit> {
    let mut targets = Vec::new();
    for (text, target) in entries {
        match target {
            Ok(target) => targets.push((&**text, target)),
            Err(problem) => print_error(problem),
        }
    }
    let all_are_valid = targets.len() == entries.len();
    let mut stop = pin!(stopped(None));
    let mut findings = Vec::new();
    let exit = tokio::select! {
        biased;
        exit = poll(args, &targets, client, (&condition, wait), &mut findings) => exit,
        () = &mut stop => Exit::Stopped,
    };
    let exit = match exit {
        Exit::Success if !all_are_valid => Exit::ConditionNotMet,
        exit => exit,
    };
    as_known(print(args, &condition, &findings), exit)
}

/// Queries all targets, once or until the condition is true of all. `findings` are those of the last
/// complete round.
async fn poll<'a>(
    args: &Query,
    targets: &[(&'a str, &'a Target)],
    client: &Client,
    (condition, mut wait): (&Condition, Option<Wait>),
    findings: &mut Vec<Finding<'a>>,
) -> Exit {
    let start = Instant::now();
    let limit = wait
        .as_ref()
        .and_then(Wait::limit)
        .map(|limit| start + limit);
    loop {
        let started = start.elapsed();
        let round = evaluate(args, targets, client, condition);
        let found = match limit {
            // The first round is always completed.
            Some(limit) if !findings.is_empty() => timeout_at(limit, round).await,
            _ => Ok(round.await),
        };
        let Ok(found) = found else {
            return Exit::ConditionNotMet;
        };
        if wait.is_some() {
            report_changes(findings, &found);
        }
        *findings = found;
        let is_true = of_all(findings);
        let Some(wait) = &mut wait else {
            return match is_true {
                Some(true) => Exit::Success,
                _ => Exit::ConditionNotMet,
            };
        };
        match wait.record(is_true, started, start.elapsed()) {
            Step::Met => return Exit::Success,
            Step::GivenUp => return Exit::ConditionNotMet,
            Step::QueryAt(time) => sleep_until(start + time).await,
        }
    }
}

/// Queries all targets once.
async fn evaluate<'a>(
    args: &Query,
    targets: &[(&'a str, &'a Target)],
    client: &Client,
    condition: &Condition,
) -> Vec<Finding<'a>> {
    let query = |(text, target): (&'a str, &'a Target)| async move {
        let result = client.detect(target).await;
        let facts = match &result {
            Ok(answers) => Facts::answered(answers.best(), target.game.or(answers.game())),
            Err(error) => Facts::failed(error, target.game),
        };
        let verdict = condition.evaluate(&facts);
        Finding {
            text,
            target,
            result,
            verdict,
        }
    };
    stream::iter(targets.iter().copied().map(query))
        .buffered(usize::from(args.concurrency))
        .collect()
        .await
}

/// Returns whether the condition is true of every target.
fn of_all(findings: &[Finding<'_>]) -> Option<bool> {
    let mut results = findings.iter().map(|finding| finding.verdict.is_true);
    if results.clone().any(|is_true| is_true == Some(false)) {
        return Some(false);
    }
    results.all(|is_true| is_true == Some(true)).then_some(true)
}

/// Prints the targets whose result differs from the last one to standard error.
fn report_changes(before: &[Finding<'_>], after: &[Finding<'_>]) {
    for (index, finding) in after.iter().enumerate() {
        let last = before.get(index).map(|last| last.verdict.is_true);
        if last != Some(finding.verdict.is_true) && finding.verdict.is_true != Some(true) {
            anstream::eprintln!("{}", sentence(finding));
        }
    }
}

/// Returns the result of a target in one line.
fn sentence(finding: &Finding<'_>) -> String {
    let Finding {
        text,
        result,
        verdict,
        target,
    } = finding;
    let line = format!("{text}: {}: {}", verdict.word(), verdict.reason);
    match result {
        Ok(_) => line,
        Err(error @ Error::NoProtocol { .. })
            if target.game.is_none() && verdict.is_true.is_none() =>
        {
            format!(
                "{line}; {error}; servers of other protocols are silent too, so name the game: GAME://{}",
                target.host
            )
        }
        Err(error) => format!("{line}; {error}"),
    }
}

/// Prints the results: a line each, or the answers in JSON.
fn print(args: &Query, condition: &Condition, findings: &[Finding<'_>]) -> anyhow::Result<()> {
    let mut out = crate::print::stdout();
    for finding in findings {
        if args.json {
            let answer = match &finding.result {
                Ok(answers) => AnswerLine::answered(finding.text, answers.best()),
                Err(error) => AnswerLine::failed(finding.text, error),
            };
            let line = ConditionLine {
                answer,
                condition: ConditionResult {
                    text: condition.to_string(),
                    result: finding.verdict.is_true,
                    reason: &finding.verdict.reason,
                },
            };
            writeln!(out, "{}", json::line(&line)?)?;
            continue;
        }
        if args.long {
            print_view(
                &mut out,
                (finding.text, finding.target),
                &finding.result,
                args,
            )?;
        }
        writeln!(out, "{}", sentence(finding))?;
    }
    Ok(out.flush()?)
}
