//! Checks the arguments of a sweep before it sends anything.
//!
//! Limits: a target list from the web takes at most 10 minutes and 1 GiB. Those of master servers are
//! in [`MasterLimits`].

use super::super::stop::StopRequest;
use super::encoder::Encoder;
use super::files::append_suffix;
use crate::args::{self, Format, Sweep};
use crate::command;
use crate::exit::{Usage, print_error, usage};
use crate::print::csv::Csv;
use crate::print::fields::{self, Field};
#[cfg(feature = "parquet")]
use crate::print::parquet::journal;
use crate::print::{count, stderr};
use crate::web;
use hailer::master::{MasterLimits, MasterUrl};
use hailer::sweep::{
    Collector, DefaultKinds, Exclusions, ListSource, Position, ProbeSource, Skipped, SourceConfig,
    StreamSource, SweepConfig, TcpClose,
};
use hailer::{Depth, Target};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use ureq::http::Uri;

/// Timeout for fetching a target list from the web.
const LIST_TIMEOUT: Duration = Duration::from_secs(600);
/// Time beyond `--for` that a web server may take.
const STOP_MARGIN: Duration = Duration::from_millis(200);
/// Maximum size of a target list from the web in bytes, about 40 million lines.
const MAX_LIST_BYTES: u64 = 1 << 30;

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
        let asked_for = match (&fields, format) {
            (Some(fields), _) => lists(fields),
            (None, Format::Lines) => args.what.players,
            (None, _) => true,
        };
        // Replies with rules also have values that are not rules.
        let rules = match (&fields, format) {
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
        let choice = Self {
            format,
            fields,
            has_players: asked_for && !args.what.no_players,
            has_rules: rules && !args.what.no_rules,
            output,
            checkpoint,
        };
        choice.refuse_one_file_for_two(args)?;
        Ok(choice)
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
                journal.as_deref().filter(|_| self.is_turned_over()),
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
        Some(if self.is_turned_over() {
            append_suffix(output, "journal")
        } else {
            output.to_owned()
        })
    }

    /// Returns whether the output is converted from a journal at the end.
    pub(super) fn is_turned_over(&self) -> bool {
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
            .filter_map(|(is_so, words)| is_so.then_some(words));
        format!("{name}{names}{}", more.collect::<String>())
    }
}

fn format(args: &Sweep, output: Option<&Path>) -> anyhow::Result<Format> {
    let asked = if args.writing.json {
        Some(Format::Ndjson)
    } else {
        args.writing.format
    };
    let Some(output) = output else {
        let format = asked.unwrap_or(Format::Lines);
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
        Some("parquet") if asked.is_none() => usage!("{}", crate::exit::without("parquet")),
        _ => None,
    };
    match asked.or(named) {
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
    config.ask.auth_token = what.auth.token()?.map(Into::into);
    config.is_strict = what.strict;
    let limits = &mut config.limits;
    limits.timeout = pace.timeout;
    limits.retries = pace.retries;
    let all = pace.timeout.saturating_mul(pace.retries + 1);
    limits.deadline = pace.deadline.unwrap_or(limits.deadline.max(all));
    config.rate_limits.packets_per_second = pace.rate;
    config.rate_limits.bits_per_second = pace.bandwidth;
    config.rate_limits.per_prefix = pace.per_network;
    config.tcp_close = match pace.tcp_close {
        args::TcpClose::Reset => TcpClose::Reset,
        args::TcpClose::Fin => TcpClose::Fin,
    };
    config.max_in_flight = pace.max_in_flight as usize;
    config.max_memory = pace.max_memory;
    Ok(config)
}

/// Targets of a sweep.
pub(super) enum Targets {
    List {
        list: Box<ListSource>,
        skipped: Skipped,
        /// Whether a master server sent no list.
        is_incomplete: bool,
    },
    Stream(Box<StreamSource>),
}

impl Targets {
    /// Reads the targets and skips those that an earlier part of the sweep has finished. Returns
    /// `None` if the sweep was stopped meanwhile.
    ///
    /// # Errors
    /// A target or a list is invalid, a list cannot be read, or no target is left.
    pub(super) fn read(
        args: &Sweep,
        from: &Position,
        stop: &Arc<StopRequest>,
    ) -> anyhow::Result<Option<Self>> {
        let is_input = |path: &PathBuf| path == Path::new("-");
        let streamed =
            args.given.iter().any(|text| text == "-") || args.targets.iter().any(is_input);
        if args.given.is_empty() && args.targets.is_empty() {
            usage!("no targets: name some, add --targets FILE, or - for standard input");
        }
        if streamed && args.given.len() + args.targets.len() > 1 {
            usage!("`-` cannot be combined with other targets; add them to standard input");
        }
        let mut exclusions = Exclusions::default();
        for path in &args.exclude {
            let mut read = || {
                let input = open("--exclude", path, args.pace.r#for, stop)?;
                anyhow::Ok(exclusions.read(&path.display().to_string(), input, Err)?)
            };
            match read() {
                Err(_) if stop.cause().is_some() => return Ok(None),
                Err(error) if error.is::<Usage>() => return Err(error),
                Err(error) => usage!("--exclude {error}"),
                Ok(()) => {}
            }
        }
        let exclusions = Arc::new(exclusions);
        let defaults = match &args.game {
            None => DefaultKinds::new(&args.protocol),
            Some(id) => DefaultKinds::of_game(command::named_game(id)?),
        };
        let defaults = match defaults {
            Ok(defaults) => defaults,
            Err(error) => usage!("{error}"),
        };
        let mut walk = SourceConfig::default();
        walk.seed = args.seed;
        walk.shard = args.shard.unwrap_or_default();
        walk.name_server = args.name_server;
        if streamed {
            let stream = StreamSource::new(
                "standard input",
                std::io::stdin(),
                defaults,
                exclusions,
                &walk,
                from,
            );
            return match stream {
                Ok(stream) => Ok(Some(Self::Stream(Box::new(stream)))),
                Err(error) => usage!("{error}"),
            };
        }
        let masters = masters(args)?;
        let mut failed = Vec::new();
        let mut read = || {
            let mut collector = Collector::with_defaults(defaults.clone());
            for text in &args.given {
                match collector.add(text) {
                    Err(_) if Path::new(text).is_file() => {
                        usage!("{text} is a file: write --targets {text}")
                    }
                    added => added?,
                }
            }
            for master in &masters {
                match list_master(master, args, stop, &mut collector) {
                    Err(error) if stop.cause().is_none() => failed.push(format!("{error:#}")),
                    listed => listed?,
                }
            }
            for path in args.targets.iter().filter(|path| !is_master(path)) {
                let input = open("--targets", path, args.pace.r#for, stop)?;
                collector.read(&path.display().to_string(), input, Err)?;
            }
            anyhow::Ok(collector.finish(&exclusions)?)
        };
        let targets = match read() {
            Ok(targets) => targets,
            Err(_) if stop.cause().is_some() => return Ok(None),
            Err(error) => usage!("{error:#}"),
        };
        let skipped = targets.skipped();
        if targets.is_empty() && !failed.is_empty() {
            usage!("{}", failed.join("\n"));
        }
        for error in &failed {
            print_error(format_args!("{error}; its servers are missing"));
        }
        if targets.is_empty() {
            usage!(
                "no target is left to query: {}",
                super::progress::skipped(&skipped).unwrap_or("the lists are empty".into())
            );
        }
        let mut list = ListSource::new(targets, exclusions, walk);
        list.resume(from);
        Ok(Some(Self::List {
            list: Box::new(list),
            skipped,
            is_incomplete: !failed.is_empty(),
        }))
    }

    pub(super) fn source(&mut self) -> &mut (dyn ProbeSource + Send) {
        match self {
            Self::List { list, .. } => list.as_mut(),
            Self::Stream(stream) => stream.as_mut(),
        }
    }

    /// Returns a digest that identifies the targets and their order.
    pub(super) fn digest(&self) -> String {
        let digest = match self {
            Self::List { list, .. } => list.digest(),
            Self::Stream(stream) => stream.digest(),
        };
        format!("{digest:016x}")
    }

    /// Returns whether servers are missing because a master server sent no list.
    pub(super) fn is_incomplete(&self) -> bool {
        matches!(
            self,
            Self::List {
                is_incomplete: true,
                ..
            }
        )
    }

    /// Returns the counts of skipped targets so far.
    pub(super) fn skipped(&self) -> Skipped {
        match self {
            Self::List { skipped, .. } => *skipped,
            Self::Stream(stream) => stream.skipped(),
        }
    }
}

fn is_master(path: &Path) -> bool {
    path.to_str().is_some_and(MasterUrl::is_master)
}

/// Returns the master servers among the lists of targets.
fn masters(args: &Sweep) -> anyhow::Result<Vec<MasterUrl>> {
    if let Some(text) = args.given.iter().find(|text| MasterUrl::is_master(text)) {
        usage!("{text} is a list of targets: write --targets {text}");
    }
    let mut masters = Vec::new();
    for text in args.targets.iter().filter_map(|path| path.to_str()) {
        if !MasterUrl::is_master(text) {
            continue;
        }
        match text.parse() {
            Ok(master) => masters.push(master),
            Err(error) => usage!("--targets {error}"),
        }
    }
    Ok(masters)
}

/// Adds the servers of a master's list.
fn list_master(
    master: &MasterUrl,
    args: &Sweep,
    stop: &Arc<StopRequest>,
    collector: &mut Collector,
) -> anyhow::Result<()> {
    let mut limits = MasterLimits::default();
    if let Some(time) = args.pace.r#for {
        limits.deadline = limits.deadline.min(time);
    }
    let mut invalid: u64 = 0;
    let mut found = |target: &str| {
        if collector.add_listed(target).is_err() {
            invalid += 1;
        }
    };
    let is_stopped = || stop.cause().is_some();
    let summary = web::list_of(master, &limits, &is_stopped, &mut found)?;
    if let Some(cause) = stop.cause() {
        anyhow::bail!("{}", cause.words());
    }
    if !args.writing.quiet {
        stderr!("{master}: {}", count(summary.servers - invalid, "server"));
    }
    if let Some(why) = summary.incomplete {
        stderr!("\x1b[1;33mwarning:\x1b[0m {master}: {why}; servers may be missing");
    }
    Ok(())
}

/// Reader that fails once the sweep is stopped.
struct StoppableReader<R> {
    input: R,
    stop: Arc<StopRequest>,
}

impl<R: Read> Read for StoppableReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stop.cause() {
            None => self.input.read(buffer),
            Some(cause) => Err(io::Error::other(cause.words())),
        }
    }
}

/// Opens a list: a file, or the body of an HTTP response.
fn open(
    flag: &str,
    path: &Path,
    time: Option<Duration>,
    stop: &Arc<StopRequest>,
) -> anyhow::Result<Box<dyn Read>> {
    let input = open_list(flag, path, time)?;
    let stop = stop.clone();
    Ok(Box::new(StoppableReader { input, stop }))
}

fn open_list(flag: &str, path: &Path, time: Option<Duration>) -> anyhow::Result<Box<dyn Read>> {
    let shown = path.display();
    if let Some(uri) = path.to_str().and_then(web_address) {
        // A silent server must not delay the end of the sweep beyond `--for`. The margin lets
        // `StopRequest` act first.
        let time = time.map(|time| time.saturating_add(STOP_MARGIN));
        let timeout = LIST_TIMEOUT.min(time.unwrap_or(LIST_TIMEOUT));
        let agent = web::config(&uri, timeout).build().new_agent();
        return match agent.get(&uri).call() {
            Ok(answer) => Ok(Box::new(
                answer
                    .into_body()
                    .into_with_config()
                    .limit(MAX_LIST_BYTES)
                    .reader(),
            )),
            Err(error) => usage!("{flag} {shown}: {}", web::words(error)),
        };
    }
    match File::open(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => usage!("{flag} {}", unreadable(path, &error)),
    }
}

/// Describes a list that cannot be opened. A URL of another kind is no missing file.
fn unreadable(path: &Path, error: &io::Error) -> String {
    let shown = path.display();
    let url = path.to_str().filter(|text| text.contains("://"));
    match url.map(|text| (text.parse::<Target>(), text.parse::<MasterUrl>())) {
        Some((Ok(_), _)) => format!("{shown} is one server: write it without the flag"),
        Some((_, Err(unknown))) => unknown.to_string(),
        _ => format!("{shown}: {error}"),
    }
}

fn web_address(text: &str) -> Option<Uri> {
    text.parse()
        .ok()
        .filter(|uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")))
}
