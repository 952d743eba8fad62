//! Targets of a sweep, from arguments, files, the web and master servers.
//!
//! Limits: a target list from the web takes at most 10 minutes and 1 GiB. Those of master servers are
//! in [`MasterLimits`].
//!
//! In: arguments, files, URLs, lists of master servers. Out: a source of probes.
//!
//! May import: `crate::args`, `crate::command`, `crate::command::stop`,
//! `crate::command::sweep::progress`, `crate::exit`, `crate::http_client`, `crate::print`,
//! `hailer`.

use super::super::stop::StopRequest;
use crate::args::Sweep;
use crate::command;
use crate::exit::{OrUsage, Usage, print_error, usage};
use crate::http_client;
use crate::print::stderr;
use hailer::Target;
use hailer::discover::master::{MasterLimits, MasterUrl};
use hailer::proto::wire::counted;
use hailer::support::address::AddressPolicy;
use hailer::sweep::{
    Collector, DefaultKinds, Exclusions, ListSource, Position, ProbeSource, Skipped, SourceConfig,
    StreamSource,
};
use std::fs::File;
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
        let is_streamed = is_streamed(args)?;
        let Some(exclusions) = read_exclusions(args, stop)? else {
            return Ok(None);
        };
        let exclusions = Arc::new(exclusions);
        let defaults = default_kinds(args)?;
        let mut config = SourceConfig::default();
        config.seed = args.seed;
        config.shard = args.shard.unwrap_or_default();
        config.name_server = args.name_server;
        if !is_streamed {
            return Self::read_lists(args, defaults, exclusions, config, from, stop);
        }
        let input = std::io::stdin();
        match StreamSource::new("standard input", input, defaults, exclusions, &config, from) {
            Ok(stream) => Ok(Some(Self::Stream(Box::new(stream)))),
            Err(error) => usage!("{error}"),
        }
    }

    /// Reads all targets that do not come from standard input.
    fn read_lists(
        args: &Sweep,
        defaults: DefaultKinds,
        exclusions: Arc<Exclusions>,
        config: SourceConfig,
        from: &Position,
        stop: &Arc<StopRequest>,
    ) -> anyhow::Result<Option<Self>> {
        let masters = masters(args)?;
        let mut failed = Vec::new();
        let mut collector = Collector::with_defaults(defaults);
        let read = collect(args, &masters, stop, &mut collector, &mut failed);
        let targets = match read.and_then(|()| Ok(collector.finish(&exclusions)?)) {
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
        let mut list = ListSource::new(targets, exclusions, config);
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

/// Returns whether the targets come from standard input.
///
/// # Errors
/// There are no targets, or standard input is combined with others.
fn is_streamed(args: &Sweep) -> anyhow::Result<bool> {
    if args.given.is_empty() && args.targets.is_empty() {
        usage!("no targets: name some, add --targets FILE, or - for standard input");
    }
    let is_input = |path: &PathBuf| path == Path::new("-");
    let is_streamed =
        args.given.iter().any(|text| text == "-") || args.targets.iter().any(is_input);
    if is_streamed && args.given.len() + args.targets.len() > 1 {
        usage!("`-` cannot be combined with other targets; add them to standard input");
    }
    Ok(is_streamed)
}

/// Reads the exclusions. Returns `None` if the sweep was stopped meanwhile.
///
/// # Errors
/// A list is invalid or cannot be read.
fn read_exclusions(args: &Sweep, stop: &Arc<StopRequest>) -> anyhow::Result<Option<Exclusions>> {
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
    Ok(Some(exclusions))
}

/// Returns the protocols or the game of targets without one.
fn default_kinds(args: &Sweep) -> anyhow::Result<DefaultKinds> {
    let defaults = match &args.game {
        None => DefaultKinds::new(&args.protocol),
        Some(id) => DefaultKinds::of_game(command::named_game(id)?),
    };
    Ok(defaults.or_usage()?)
}

/// Collects the targets of arguments, masters and files. Adds the errors of masters that sent no
/// list to `failed`.
///
/// # Errors
/// A target or a list is invalid, or the sweep was stopped.
fn collect(
    args: &Sweep,
    masters: &[MasterUrl],
    stop: &Arc<StopRequest>,
    collector: &mut Collector,
    failed: &mut Vec<String>,
) -> anyhow::Result<()> {
    for text in &args.given {
        match collector.add(text) {
            Err(_) if Path::new(text).is_file() => {
                usage!("{text} is a file: write --targets {text}")
            }
            added => added?,
        }
    }
    for master in masters {
        match list_master(master, args, stop, collector) {
            Err(error) if stop.cause().is_none() => failed.push(format!("{error:#}")),
            listed => listed?,
        }
    }
    for path in args.targets.iter().filter(|path| !is_master(path)) {
        let input = open("--targets", path, args.pace.r#for, stop)?;
        collector.read(&path.display().to_string(), input, Err)?;
    }
    Ok(())
}

fn is_master(path: &Path) -> bool {
    path.to_str().is_some_and(MasterUrl::is_master)
}

/// Returns the master servers among the lists of targets.
fn masters(args: &Sweep) -> anyhow::Result<Vec<MasterUrl>> {
    let is_list = |text: &&String| {
        MasterUrl::is_master(text)
            || text.starts_with("http://")
            || text.starts_with("https://")
            || command::list_file(text).is_some()
    };
    if let Some(text) = args.given.iter().find(is_list) {
        let list = command::list_file(text).unwrap_or(text);
        usage!("{list} is a list of targets: write --targets {list}");
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
    let mut found = |target: &str, policy: &Arc<AddressPolicy>| {
        if collector.add_listed(target, policy).is_err() {
            invalid += 1;
        }
    };
    let is_stopped = || stop.cause().is_some();
    let policy = AddressPolicy::new(args.allow_private);
    let summary = http_client::list_of(master, &limits, &policy, &is_stopped, &mut found)?;
    if let Some(cause) = stop.cause() {
        anyhow::bail!("{}", cause.words());
    }
    if !args.writing.quiet {
        stderr!("{master}: {}", counted(summary.servers - invalid, "server"));
    }
    if let Some(why) = http_client::refused(&summary) {
        let hint = match summary.first_refused {
            Some(fault) if fault.is_private => "; --allow-private queries such servers",
            _ => "",
        };
        stderr!("\x1b[1;33mwarning:\x1b[0m {master}: {why}{hint}");
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
        return match http_client::document(&uri, timeout) {
            Ok((response, _)) => Ok(Box::new(
                response
                    .into_body()
                    .into_with_config()
                    .limit(MAX_LIST_BYTES)
                    .reader(),
            )),
            Err(problem) => usage!("{flag} {shown}: {problem}"),
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
