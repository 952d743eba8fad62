//! `hailer sweep`: asks many servers, and writes what comes as it comes.
//!
//! ```text
//!   args ─► plan ─► ProbeSource ─► hailer::sweep::run ─► Output ─► file or standard output ─► checkpoint
//!                                                     output                               checkpoint
//! ```
//!
//! A file of lines is written as it is, and cut to what the checkpoint says of it when the sweep is continued. A file that
//! is none before its last byte, which is Parquet, is made at the end of a journal of lines that stands beside it.

mod checkpoint;
mod output;
mod plan;
mod progress;
mod stop;
mod tally;

use crate::args::Sweep;
use crate::exit::{Exit, usage};
use crate::print::{fields, table, tell};
use checkpoint::{Checkpoint, beside};
use hailer::sweep::{Counts, Position, Skipped};
use output::{Output, Plan};
use plan::{Choice, Targets};
use progress::ProgressView;
use serde::Serialize;
use std::fs::{self, File, TryLockError};
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};
use stop::{Cause, Stop};

/// Name and version of the summary.
const SUMMARY: &str = "hailer/sweep-summary/2";

pub(crate) fn run(args: &Sweep) -> anyhow::Result<Exit> {
    if matches!(args.writing.fields.as_slice(), [word] if ["list", "help"].contains(&word.as_str()))
    {
        return show_fields();
    }
    let choice = Choice::new(args)?;
    let config = plan::config(args, choice.players)?;
    let before = match &choice.checkpoint {
        Some(path) if args.writing.resume => Some(Checkpoint::load(path)?),
        _ => None,
    };
    let journal = choice.journal();
    if before.is_none() && !args.writing.force {
        refuse_to_overwrite(&choice)?;
    }
    let stop = Stop::watch(args.pace.r#for)?;
    let position = match &before {
        Some(before) => before.position.clone(),
        None => Position::default(),
    };
    let Some(mut targets) = Targets::read(args, &position, &stop)? else {
        let cause = stop.cause().unwrap_or(Cause::Signal);
        tell!(
            "{} while reading the targets; nothing was sent",
            cause.words()
        );
        return Ok(match cause {
            Cause::Signal => Exit::Stopped,
            Cause::Time => Exit::Partial,
        });
    };
    let kind = checkpoint::Sweep {
        targets: targets.digest(),
        output: choice.describe(args),
    };
    if let (Some(before), Some(path)) = (&before, &choice.checkpoint) {
        before.check(path, &kind)?;
    }
    if let Some(path) = args
        .writing
        .summary
        .as_deref()
        .filter(|path| *path != Path::new("-"))
    {
        // Not after hours of sweeping.
        if let Err(error) = File::options().append(true).create(true).open(path) {
            usage!("--summary {}: {error}", path.display());
        }
    }
    let (to, length) = match &journal {
        Some(path) => {
            let (file, length) = open(path, before.as_ref())?;
            (Box::new(file) as Box<dyn Write + Send>, length)
        }
        None => (Box::new(io::stdout()) as Box<dyn Write + Send>, None),
    };
    let on_terminal = journal.is_none() && io::stdout().is_terminal();
    // Whoever reads a pipe may write to the same terminal, into the bar.
    let piped = journal.is_none() && !on_terminal && !is_file(&io::stdout());
    let progress = ProgressView::new(
        !args.writing.quiet && !piped && io::stderr().is_terminal(),
        on_terminal,
    );
    let (encoder, failed) = (choice.encoder(), args.writing.failed);
    let checkpoint = choice.checkpoint.clone().map(|path| (path, kind));
    let plan = Plan {
        encoder,
        failed,
        to,
        length,
        checkpoint,
        before,
        progress,
        stop: stop.clone(),
    };
    let mut output = match Output::new(plan) {
        Ok(output) => output,
        Err(error) => usage!("{error}"),
    };
    let swept = hailer::sweep::run(&config, targets.source(), &mut output);
    let (counts, failure) = match swept {
        Ok(counts) => (counts, None),
        Err(error) => (Counts::default(), Some(error)),
    };
    let written = output.finish(&counts);
    if let Some(error) = failure {
        return Err(anyhow::Error::from(error).context("the network failed"));
    }
    let (sum, mut took) = match (written, &journal) {
        (Ok(written), _) => written,
        (Err(error), Some(_)) => {
            let resume = " (once it can, the same command with --resume goes on)";
            let resume = if choice.checkpoint.is_some() {
                resume
            } else {
                ""
            };
            return Err(anyhow::Error::from(error)
                .context(format!("the output could not be written{resume}")));
        }
        // Standard output: that nobody reads it any more is no failure.
        (Err(error), None) => {
            return Err(anyhow::Error::from(error).context("standard output could not be written"));
        }
    };
    let cause = stop.cause();
    if cause.is_none() {
        if let (true, false, Some(output)) =
            (choice.is_turned_over(), args.writing.quiet, &choice.output)
        {
            tell!("writing {}", output.display());
        }
        let concluding = Instant::now();
        conclude(&choice)?;
        took += concluding.elapsed();
    }
    let skipped = targets.skipped();
    if !args.writing.quiet {
        progress::summary(&sum, took, &skipped);
    }
    if let (Some(cause), Some(path)) = (cause, &choice.checkpoint) {
        tell!(
            "{}, noted in {}: the same command with --resume goes on",
            cause.words(),
            path.display()
        );
    } else if let Some(cause) = cause {
        tell!(
            "{}, and nothing notes how far it came: --checkpoint FILE or -o FILE would",
            cause.words()
        );
    }
    if let Some(path) = &args.writing.summary {
        write_summary(path, cause, targets.source().total(), &sum, took, &skipped)?;
    }
    Ok(match cause {
        Some(Cause::Signal) => Exit::Stopped,
        _ if sum.answered == 0 => Exit::Partial,
        _ => Exit::Success,
    })
}

/// Whether standard output is a file, where this system tells.
#[cfg(unix)]
fn is_file(out: &io::Stdout) -> bool {
    use std::os::fd::AsFd;
    let file = out.as_fd().try_clone_to_owned().map(File::from);
    file.and_then(|file| file.metadata())
        .is_ok_and(|it| it.is_file())
}

#[cfg(not(unix))]
fn is_file(_: &io::Stdout) -> bool {
    false
}

/// A new sweep never takes the place of an older one's work by itself.
fn refuse_to_overwrite(choice: &Choice) -> anyhow::Result<()> {
    if let Some(path) = choice.checkpoint.as_ref().filter(|path| path.exists()) {
        usage!(
            "{} is of a sweep that is not done: --resume continues it, --force begins again",
            path.display()
        );
    }
    for path in choice.output.iter().chain(&choice.journal()) {
        // An empty one is of a sweep that ended as it began.
        if fs::metadata(path).is_ok_and(|it| it.is_file() && it.len() > 0) {
            usage!(
                "{} is there already: another name, or --force to take its place",
                path.display()
            );
        }
    }
    Ok(())
}

/// Opens what is written to, at the place where the next byte belongs, and says where that is; a pipe or a device has no
/// such place.
fn open(path: &Path, before: Option<&Checkpoint>) -> anyhow::Result<(File, Option<u64>)> {
    let mut file = match File::options()
        .write(true)
        .create(before.is_none())
        .truncate(false)
        .open(path)
    {
        Ok(file) => file,
        Err(error) => usage!("{}: {error}", path.display()),
    };
    if !file.metadata()?.is_file() {
        return Ok((file, None));
    }
    // Held as long as the file is open. Where the file system has no locks, there is none.
    if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        usage!("{}: another sweep writes it", path.display());
    }
    let Some(before) = before else {
        file.set_len(0)?;
        return Ok((file, Some(0)));
    };
    let Some(length) = before.length else {
        usage!("the checkpoint is of a sweep to standard output; it continues there, without -o");
    };
    if file.metadata()?.len() < length {
        usage!(
            "{} is shorter than its checkpoint says, so answers are missing: begin again with --force",
            path.display()
        );
    }
    // What is longer was written after the checkpoint, and is asked for again.
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length))?;
    Ok((file, Some(length)))
}

/// The end of a sweep that is done: the output gets its last form, and nothing is left beside it.
fn conclude(choice: &Choice) -> anyhow::Result<()> {
    if let (true, Some(output), Some(journal)) =
        (choice.is_turned_over(), &choice.output, choice.journal())
    {
        let part = beside(output, "part");
        turn_over(&journal, choice, &part)?;
        fs::rename(&part, output)?;
        remove(choice.checkpoint.as_deref())?;
        return remove(Some(&journal));
    }
    remove(choice.checkpoint.as_deref())
}

#[cfg(feature = "parquet")]
fn turn_over(journal: &Path, choice: &Choice, to: &Path) -> anyhow::Result<()> {
    use std::io::{BufReader, BufWriter};
    let fields = choice.fields.as_deref().unwrap_or_default();
    let lines = BufReader::with_capacity(1 << 20, File::open(journal)?);
    let mut file = BufWriter::new(File::create(to)?);
    crate::print::parquet::write(lines, fields, &mut file)?;
    file.into_inner()
        .map_err(|error| error.into_error())?
        .sync_all()?;
    Ok(())
}

#[cfg(not(feature = "parquet"))]
fn turn_over(_: &Path, _: &Choice, _: &Path) -> anyhow::Result<()> {
    Ok(())
}

fn remove(path: Option<&Path>) -> anyhow::Result<()> {
    match path.map_or(Ok(()), fs::remove_file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// What happened, for programs: `schema/sweep-summary-v2.json`.
#[derive(Serialize)]
struct Summary<'a> {
    schema: &'static str,
    end: &'static str,
    duration_s: f64,
    probes: Option<u64>,
    counts: tally::Members<'a>,
    skipped: Omitted,
}

#[derive(Serialize)]
struct Omitted {
    duplicates: u64,
    excluded: u64,
    reserved: u64,
}

fn write_summary(
    path: &Path,
    cause: Option<Cause>,
    total: Option<u64>,
    sum: &Counts,
    took: Duration,
    skipped: &Skipped,
) -> anyhow::Result<()> {
    let end = match cause {
        None => "finished",
        Some(Cause::Signal) => "signal",
        Some(Cause::Time) => "time-limit",
    };
    let Skipped {
        duplicates,
        excluded,
        reserved,
    } = *skipped;
    let summary = serde_json::to_string(&Summary {
        schema: SUMMARY,
        end,
        duration_s: (took.as_secs_f64() * 1e3).round() / 1e3,
        probes: total,
        counts: tally::Members(sum),
        skipped: Omitted {
            duplicates,
            excluded,
            reserved,
        },
    })?;
    let line = format!("{summary}\n");
    if path == Path::new("-") {
        return Ok(io::stdout().write_all(line.as_bytes())?);
    }
    match fs::write(path, line) {
        Ok(()) => Ok(()),
        Err(error) => {
            Err(anyhow::Error::from(error).context(format!("--summary {}", path.display())))
        }
    }
}

fn show_fields() -> anyhow::Result<Exit> {
    let header = [
        ("field", table::Fit::Whole),
        ("values", table::Fit::Whole),
        ("meaning", table::Fit::Fold),
    ];
    let row = |it: &fields::Field| {
        vec![
            it.name.to_owned(),
            it.kind.name().to_owned(),
            it.help.to_owned(),
        ]
    };
    let rows: Vec<_> = fields::FIELDS.iter().map(row).collect();
    table::print(&mut anstream::stdout(), &header, &rows)?;
    Ok(Exit::Success)
}
