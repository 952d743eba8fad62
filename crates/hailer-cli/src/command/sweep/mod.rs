//! `hailer sweep`: queries many servers and writes results as they arrive.
//!
//! ```text
//!   args ─► Targets ─► ProbeSource ─► hailer::sweep::run ─► Output ─► file or stdout ─► checkpoint
//!                                                      output                      checkpoint
//! ```
//!
//! Line formats are written directly to the output file. `--resume` truncates that file to the
//! length in the checkpoint and appends. A Parquet file is valid only once its last byte is
//! written, so a sweep to Parquet first writes a journal of rows next to the output and converts it
//! at the end.
//!
//! May import: `crate::args`, `crate::command`, `crate::command::stop`, `crate::exit`,
//! `crate::files`, `crate::http_client`, `crate::print`, `hailer`.

mod checkpoint;
mod encoder;
mod options;
mod output;
mod progress;
mod targets;

use super::stop::{Cause, StopRequest};
use crate::args::Sweep;
use crate::exit::{Exit, OrUsage, usage};
use crate::files::append_suffix;
use crate::print::{fields, stderr, table};
use checkpoint::Checkpoint;
use hailer::sweep::{Counts, Position, Skipped, Summary, SweepEnd};
use options::OutputOptions;
use output::{Output, OutputConfig};
use progress::ProgressView;
use std::fs::{self, File, TryLockError};
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use targets::Targets;

pub(crate) fn run(args: &Sweep) -> anyhow::Result<Exit> {
    if matches!(args.writing.fields.as_slice(), [word] if ["list", "help"].contains(&word.as_str()))
    {
        return show_fields();
    }
    let options = OutputOptions::new(args)?;
    let config = options::config(args, &options)?;
    let before = match &options.checkpoint {
        Some(path) if args.writing.resume => Some(Checkpoint::load(path)?),
        _ => None,
    };
    if before.is_none() && !args.writing.force {
        refuse_to_overwrite(&options)?;
    }
    let stop = StopRequest::watch(args.pace.r#for)?;
    let position = match &before {
        Some(before) => before.position.clone(),
        None => Position::default(),
    };
    let Some(mut targets) = Targets::read(args, &position, &stop)? else {
        let cause = stop.cause().unwrap_or(Cause::Signal);
        stderr!(
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
        output: options.describe(args),
    };
    if let (Some(before), Some(path)) = (&before, &options.checkpoint) {
        before.check(path, &kind)?;
    }
    check_summary(args)?;
    let mut output = open_output(args, &options, kind, before, &stop)?;
    let swept = if args.pace.threads == 1 {
        hailer::sweep::run(&config, targets.source(), &mut output)
    } else {
        let parts = &mut output.parts;
        let reporter = &mut output.reporter;
        hailer::sweep::run_threads(&config, targets.source(), reporter, parts)
    };
    let (counts, failure) = match swept {
        Ok(counts) => (counts, None),
        Err(error) => (Counts::default(), Some(error)),
    };
    let written = output.finish(&counts);
    if let Some(error) = failure {
        return Err(anyhow::Error::from(error).context("the network failed"));
    }
    let (sum, mut took) = written.map_err(|error| unwritten(error, &options))?;
    let cause = stop.cause();
    if cause.is_none() {
        if let (true, false, Some(output)) =
            (options.has_journal(), args.writing.quiet, &options.output)
        {
            stderr!("writing {}", output.display());
        }
        let concluding = Instant::now();
        conclude(&options)?;
        took += concluding.elapsed();
    }
    let skipped = targets.skipped();
    if !args.writing.quiet {
        progress::summary(&sum, took, &skipped);
    }
    if let Some(cause) = cause {
        report_stop(cause, &options);
    }
    if let Some(path) = &args.writing.summary {
        write_summary(path, cause, targets.source().total(), &sum, took, &skipped)?;
    }
    Ok(match cause {
        Some(Cause::Signal) => Exit::Stopped,
        _ if sum.answered == 0 || targets.is_incomplete() => Exit::Partial,
        _ => Exit::Success,
    })
}

/// Checks that the summary can be written. An unwritable path is reported now, not after hours of
/// sweeping.
fn check_summary(args: &Sweep) -> anyhow::Result<()> {
    let path = args.writing.summary.as_deref();
    if let Some(path) = path.filter(|path| *path != Path::new("-"))
        && let Err(error) = File::options().append(true).create(true).open(path)
    {
        usage!("--summary {}: {error}", path.display());
    }
    Ok(())
}

/// Opens the output, with a progress bar if nothing else writes to the terminal.
fn open_output(
    args: &Sweep,
    options: &OutputOptions,
    kind: checkpoint::Sweep,
    before: Option<Checkpoint>,
    stop: &Arc<StopRequest>,
) -> anyhow::Result<Output> {
    let journal = options.journal();
    let (to, length) = match &journal {
        Some(path) => {
            let (file, length) = open(path, before.as_ref())?;
            (Box::new(file) as Box<dyn Write + Send>, length)
        }
        None => (Box::new(io::stdout()) as Box<dyn Write + Send>, None),
    };
    let on_terminal = journal.is_none() && io::stdout().is_terminal();
    // The reader of a pipe may write to this terminal too, which would garble the bar.
    let piped = journal.is_none() && !on_terminal && !is_file(&io::stdout());
    let progress = ProgressView::new(
        !args.writing.quiet && !piped && io::stderr().is_terminal(),
        on_terminal,
    );
    let threads = usize::from(args.pace.threads);
    let encoders = (0..threads).map(|_| options.encoder()).collect();
    let checkpoint = options.checkpoint.clone().map(|path| (path, kind));
    let config = OutputConfig {
        encoders,
        has_failures: args.writing.failed,
        to,
        length,
        checkpoint,
        before,
        progress,
        stop: Arc::clone(stop),
    };
    Ok(Output::new(config).or_usage()?)
}

/// Returns the error of an output that could not be written.
fn unwritten(error: io::Error, options: &OutputOptions) -> anyhow::Error {
    // The caller treats a closed pipe as success.
    let output = options.journal().map_or_else(
        || "standard output".to_owned(),
        |path| path.display().to_string(),
    );
    let resume = match (&options.output, &options.checkpoint) {
        (Some(_), Some(_)) => " (to continue, run the same command with --resume)",
        _ => "",
    };
    anyhow::Error::from(error).context(format!("{output} could not be written{resume}"))
}

/// Reports that the sweep was stopped, and how to continue it.
fn report_stop(cause: Cause, options: &OutputOptions) {
    let cause = cause.words();
    match &options.checkpoint {
        Some(path) => stderr!(
            "{cause}, checkpoint in {}: to continue, run the same command with --resume",
            path.display()
        ),
        None => stderr!(
            "{cause}; no checkpoint was written, since neither --checkpoint FILE nor -o FILE was given"
        ),
    }
}

/// Returns whether standard output is a file. Always `false` on systems other than Unix.
#[cfg(unix)]
fn is_file(out: &io::Stdout) -> bool {
    use std::os::fd::AsFd;
    let file = out.as_fd().try_clone_to_owned().map(File::from);
    file.and_then(|file| file.metadata())
        .is_ok_and(|file| file.is_file())
}

#[cfg(not(unix))]
fn is_file(_: &io::Stdout) -> bool {
    false
}

/// Fails if the checkpoint exists, or if the output or journal is not empty. Only `--force`
/// overwrites the results of an earlier sweep.
fn refuse_to_overwrite(options: &OutputOptions) -> anyhow::Result<()> {
    if let Some(path) = options.checkpoint.as_ref().filter(|path| path.exists()) {
        usage!(
            "{} belongs to an unfinished sweep: --resume continues it, --force starts again",
            path.display()
        );
    }
    for path in options.output.iter().chain(&options.journal()) {
        // A sweep that failed at its start leaves an empty file.
        if fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0) {
            usage!(
                "{} exists: choose another name, or overwrite it with --force",
                path.display()
            );
        }
    }
    Ok(())
}

/// Opens the output at the position of its next byte. Returns the file and that position, or `None`
/// for a pipe or a device, which has none.
fn open(path: &Path, before: Option<&Checkpoint>) -> anyhow::Result<(File, Option<u64>)> {
    let mut file = File::options()
        .write(true)
        .create(before.is_none())
        .truncate(false)
        .open(path)
        .or_usage_in(path.display())?;
    if !file.metadata()?.is_file() {
        return Ok((file, None));
    }
    // The lock lasts as long as the file is open. Some file systems do not support locks.
    if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
        usage!("{}: another sweep is writing to it", path.display());
    }
    let Some(before) = before else {
        file.set_len(0)?;
        return Ok((file, Some(0)));
    };
    let Some(length) = before.length else {
        usage!("the checkpoint belongs to a sweep to standard output; continue it without -o");
    };
    if file.metadata()?.len() < length {
        usage!(
            "{} is shorter than its checkpoint records, so answers are missing: start again with --force",
            path.display()
        );
    }
    // Bytes after that length belong to probes that are repeated.
    file.set_len(length)?;
    file.seek(SeekFrom::Start(length))?;
    Ok((file, Some(length)))
}

/// Finishes a complete sweep: converts the journal if there is one, and removes the checkpoint.
fn conclude(options: &OutputOptions) -> anyhow::Result<()> {
    if let (true, Some(output), Some(journal)) =
        (options.has_journal(), &options.output, options.journal())
    {
        let part = append_suffix(output, "part");
        if let Err(error) = convert(&journal, options, &part) {
            // The space may be needed to continue.
            let _ = fs::remove_file(&part);
            anyhow::bail!(
                "{}: {error}; the answers are in {}: to convert them, run the same command with --resume",
                part.display(),
                journal.display()
            );
        }
        fs::rename(&part, output)?;
        remove(options.checkpoint.as_deref())?;
        return remove(Some(&journal));
    }
    remove(options.checkpoint.as_deref())
}

#[cfg(feature = "parquet")]
fn convert(journal: &Path, options: &OutputOptions, to: &Path) -> io::Result<()> {
    use std::io::{BufReader, BufWriter};
    let fields = options.fields.as_deref().unwrap_or_default();
    let rows = BufReader::with_capacity(1 << 18, File::open(journal)?);
    let mut file = BufWriter::new(File::create(to)?);
    crate::print::parquet::write(rows, fields, &mut file)?;
    file.into_inner()
        .map_err(|error| error.into_error())?
        .sync_all()?;
    Ok(())
}

#[cfg(not(feature = "parquet"))]
fn convert(_: &Path, _: &OutputOptions, _: &Path) -> io::Result<()> {
    Ok(())
}

fn remove(path: Option<&Path>) -> anyhow::Result<()> {
    match path.map_or(Ok(()), fs::remove_file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes a summary for programs, as in `schema/sweep-summary-v2.json`.
fn write_summary(
    path: &Path,
    cause: Option<Cause>,
    total: Option<u64>,
    sum: &Counts,
    took: Duration,
    skipped: &Skipped,
) -> anyhow::Result<()> {
    let end = match cause {
        None => SweepEnd::Finished,
        Some(Cause::Signal) => SweepEnd::Signal,
        Some(Cause::Time) => SweepEnd::TimeLimit,
    };
    let summary = Summary::new(end, took, total, sum.clone(), *skipped);
    let summary = serde_json::to_string(&summary)?;
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
    let row = |field: &fields::Field| {
        vec![
            field.name.to_owned(),
            field.kind.name().to_owned(),
            field.help.to_owned(),
        ]
    };
    let rows: Vec<_> = fields::FIELDS.iter().map(row).collect();
    table::print(&mut anstream::stdout(), &header, &rows)?;
    Ok(Exit::Success)
}
