//! Options of a sweep, checked before it sends anything.
//!
//! In: arguments. Out: a checked configuration of the sweep.
//!
//! May import: `crate::args`, `crate::command::sweep::encoder`, `crate::exit`, `crate::files`,
//! `crate::print`, `hailer`.

use super::encoder::Encoder;
use crate::args::{self, Format, Sweep};
use crate::exit::usage;
use crate::files::append_suffix;
use crate::print::csv::Csv;
use crate::print::fields::{self, Field};
#[cfg(feature = "parquet")]
use crate::print::parquet::journal;
use hailer::proto::Depth;
use hailer::sweep::{SweepConfig, TcpClose};
use std::fs;
use std::path::{Path, PathBuf};

/// Format and destination of the results.
pub(super) struct OutputOptions {
    pub(super) format: Format,
    /// Selected fields; `None` for the complete JSON line and for human-readable lines.
    pub(super) fields: Option<Vec<&'static Field>>,
    /// Whether player lists are requested and written.
    pub(super) has_players: bool,
    /// Whether rules are requested.
    pub(super) has_rules: bool,
    /// File of the final output; `None` means standard output.
    pub(super) output: Option<PathBuf>,
    pub(super) checkpoint: Option<PathBuf>,
}

impl OutputOptions {
    pub(super) fn new(args: &Sweep) -> anyhow::Result<Self> {
        let writing = &args.writing;
        let output = writing.output.clone().filter(|path| path != Path::new("-"));
        let format = format(args, output.as_deref())?;
        let mut fields = match format {
            Format::Lines if !writing.fields.is_empty() => {
                usage!("--fields is for programs; add --json or --format csv, or -o FILE")
            }
            Format::Lines => None,
            _ if !writing.fields.is_empty() => Some(named(&writing.fields)?),
            Format::Ndjson => None,
            Format::Csv => {
                let failed: &[&str] = if writing.failed { &["error_kind"] } else { &[] };
                Some(named(&[fields::USUAL, failed].concat())?)
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => Some(fields::FIELDS.iter().collect()),
        };
        let lists = |fields: &[&Field]| {
            fields
                .iter()
                .any(|field| ["players", "roster"].contains(&field.name))
        };
        if args.what.players
            && let Some(fields) = fields.as_mut().filter(|fields| !lists(fields))
        {
            fields.extend(fields::find("players"));
        }
        let wants_players = match (&fields, format) {
            (Some(fields), _) => lists(fields),
            (None, Format::Lines) => args.what.players,
            (None, _) => true,
        };
        // Replies with rules also have values that are not rules.
        let wants_rules = match (&fields, format) {
            (Some(fields), _) => fields
                .iter()
                .any(|field| ["rules", "extra", "deviations"].contains(&field.name)),
            (None, Format::Lines) => false,
            (None, _) => true,
        };
        // A pipe or a device cannot be truncated, and its folder may not accept new files.
        let file = output
            .as_deref()
            .filter(|path| fs::metadata(path).map_or(true, |file| file.is_file()));
        let checkpoint = writing
            .checkpoint
            .clone()
            .or_else(|| Some(append_suffix(file?, "checkpoint")));
        if writing.resume && checkpoint.is_none() {
            usage!(
                "--resume needs a checkpoint; name it with --checkpoint, or name the output with -o"
            );
        }
        if writing.summary.as_deref() == Some(Path::new("-")) && output.is_none() {
            usage!(
                "--summary - would mix with the answers on standard output; write them to a file with -o"
            );
        }
        let options = Self {
            format,
            fields,
            has_players: wants_players && !args.what.no_players,
            has_rules: wants_rules && !args.what.no_rules,
            output,
            checkpoint,
        };
        options.refuse_one_file_for_two(args)?;
        Ok(options)
    }

    /// Fails if two files are the same: the last one written would replace the other, and a target
    /// list would be overwritten while it is read.
    fn refuse_one_file_for_two(&self, args: &Sweep) -> anyhow::Result<()> {
        // Writing to a pipe or a device overwrites nothing.
        let is_device = |path: &Path| fs::metadata(path).is_ok_and(|file| !file.is_file());
        // Resolve links, so that different paths to an existing file compare equal.
        let whole = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let journal = self.journal();
        let written = [
            ("--output", self.output.as_deref()),
            (
                "its journal",
                journal.as_deref().filter(|_| self.has_journal()),
            ),
            ("--checkpoint", self.checkpoint.as_deref()),
            (
                "--summary",
                args.writing
                    .summary
                    .as_deref()
                    .filter(|path| *path != Path::new("-")),
            ),
        ];
        let written = written
            .into_iter()
            .filter_map(|(what, path)| path.map(|path| (what, path)));
        let read = args
            .targets
            .iter()
            .map(|path| ("--targets", path.as_path()));
        let read = read.chain(
            args.exclude
                .iter()
                .map(|path| ("--exclude", path.as_path())),
        );
        let mut before: Vec<(&str, PathBuf)> =
            read.map(|(what, path)| (what, whole(path))).collect();
        for (what, path) in written.filter(|(_, path)| !is_device(path)) {
            let path = whole(path);
            if let Some((other, _)) = before.iter().find(|(_, other)| *other == path) {
                usage!(
                    "{}: {other} and {what} cannot be one file; give one of them another name",
                    path.display()
                );
            }
            before.push((what, path));
        }
        Ok(())
    }

    /// Returns the file that is written while the sweep runs; `None` means standard output.
    pub(super) fn journal(&self) -> Option<PathBuf> {
        let output = self.output.as_deref()?;
        Some(if self.has_journal() {
            append_suffix(output, "journal")
        } else {
            output.to_owned()
        })
    }

    /// Returns whether the sweep writes a journal, which is converted to the output at the end.
    pub(super) fn has_journal(&self) -> bool {
        #[cfg(feature = "parquet")]
        return self.format == Format::Parquet;
        #[cfg(not(feature = "parquet"))]
        false
    }

    pub(super) fn encoder(&self) -> Encoder {
        match (self.format, &self.fields) {
            (Format::Csv, Some(fields)) => Encoder::Csv(Box::new(Csv::new(fields.clone()))),
            (Format::Lines, _) => Encoder::Lines(self.has_players),
            #[cfg(feature = "parquet")]
            (Format::Parquet, Some(fields)) => Encoder::Journal(fields.clone()),
            (_, Some(fields)) => Encoder::Flat(fields.clone()),
            (_, None) => Encoder::Whole,
        }
    }

    /// Describes the output. Only a run with the same description can continue the sweep.
    pub(super) fn describe(&self, args: &Sweep) -> String {
        let name: String = match self.format {
            Format::Lines => "lines".into(),
            Format::Ndjson => "ndjson".into(),
            Format::Csv => "csv".into(),
            #[cfg(feature = "parquet")]
            Format::Parquet => format!("parquet (journal version {})", journal::VERSION),
        };
        let names = self
            .fields
            .iter()
            .flatten()
            .map(|field| field.name)
            .collect::<Vec<_>>()
            .join(",");
        let names = if names.is_empty() {
            names
        } else {
            format!(" of {names}")
        };
        let more = [
            (args.writing.failed, " with failures"),
            (args.what.no_players, " without players"),
            (args.what.no_rules, " without rules"),
            (args.what.basic, " of short replies"),
            (args.what.strict, " without deviations"),
        ];
        let more = more
            .into_iter()
            .filter_map(|(is_set, words)| is_set.then_some(words));
        format!("{name}{names}{}", more.collect::<String>())
    }
}

fn format(args: &Sweep, output: Option<&Path>) -> anyhow::Result<Format> {
    let requested = if args.writing.json {
        Some(Format::Ndjson)
    } else {
        args.writing.format
    };
    let Some(output) = output else {
        let format = requested.unwrap_or(Format::Lines);
        #[cfg(feature = "parquet")]
        if format == Format::Parquet {
            usage!("Parquet cannot be written to standard output; name a file with -o");
        }
        return Ok(format);
    };
    let suffix = output
        .extension()
        .and_then(|suffix| suffix.to_str())
        .map(str::to_ascii_lowercase);
    let named = match suffix.as_deref() {
        Some("ndjson" | "jsonl" | "json") => Some(Format::Ndjson),
        Some("csv") => Some(Format::Csv),
        #[cfg(feature = "parquet")]
        Some("parquet") => Some(Format::Parquet),
        #[cfg(not(feature = "parquet"))]
        Some("parquet") if requested.is_none() => usage!("{}", crate::exit::without("parquet")),
        _ => None,
    };
    match requested.or(named) {
        Some(format) => Ok(format),
        None => usage!(
            "{}: unknown format; use a name that ends in .ndjson, .csv or .parquet, or add --format",
            output.display()
        ),
    }
}

/// Returns the fields with these names, without duplicates.
fn named(names: &[impl AsRef<str>]) -> anyhow::Result<Vec<&'static Field>> {
    let mut fields: Vec<&'static Field> = Vec::new();
    for name in names.iter().map(|name| name.as_ref().trim()) {
        let Some(field) = fields::find(name) else {
            usage!("--fields: unknown field {name:?}; `hailer sweep --fields list` shows all");
        };
        if !fields.iter().any(|known| known.name == field.name) {
            fields.push(field);
        }
    }
    Ok(fields)
}

/// Builds the library's configuration. Reads the file of the auth token.
///
/// # Errors
/// The token file cannot be read.
pub(super) fn config(args: &Sweep, output: &OutputOptions) -> anyhow::Result<SweepConfig> {
    let what = &args.what;
    let pace = &args.pace;
    let mut config = SweepConfig::default();
    config.ask.has_players = output.has_players;
    config.ask.has_rules = output.has_rules;
    config.ask.depth = if what.basic {
        Depth::Basic
    } else {
        Depth::Full
    };
    config.ask.charset = what.charset;
    config.ask.auth_token = what.auth.token()?.map(Into::into);
    config.is_strict = what.strict;
    let limits = &mut config.limits;
    limits.timeout = pace.timeout;
    limits.retries = pace.retries;
    limits.leave_time(pace.deadline);
    config.rate_limits.rate = pace.rate;
    config.rate_limits.bandwidth = pace.bandwidth;
    config.rate_limits.per_network = pace.per_network;
    config.tcp_close = match pace.tcp_close {
        args::TcpClose::Reset => TcpClose::Reset,
        args::TcpClose::Fin => TcpClose::Fin,
    };
    config.source = pace.source;
    if pace.threads > 1 && pace.source.is_some_and(|source| source.port() != 0) {
        usage!("--source with a port needs --threads 1: threads cannot share a port");
    }
    config.max_in_flight = pace.max_in_flight as usize;
    config.max_memory = pace.max_memory;
    Ok(config)
}
