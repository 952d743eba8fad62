//! Arguments of the commands that monitor servers.

use super::{GameIds, MoreGames, QueryArgs};
use crate::log::LogArgs;
use crate::values;
use clap::{Args, Subcommand, ValueHint};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const MONITOR: &str = concat!(
    unix_only!("SIGHUP reads the servers in the configuration file again.\n\n"),
    "\
Examples:
  hailer monitor minecraft://127.0.0.1 ugp://127.0.0.1            web page: http://127.0.0.1:8080
  hailer monitor --config monitor.toml --check-config             check the configuration
  hailer monitor add ugp://192.0.2.7 --token-file token           add a server at run time
  hailer monitor test-alert --config monitor.toml                 send a test notification
  hailer monitor export --config monitor.toml -o history.ndjson   export the whole history
  hailer monitor --cluster redis://10.0.0.1 --history postgres://hailer@10.0.0.2/hailer"
);

pub(super) const WATCH: &str = "\
A TARGET is a host, host:port, [v6]:port, game://host:port or protocol://host:port. Without a game
or protocol, the common protocols are tried, and one that the server answers is used from then on.
Files have one target per line.

Keys: the arrow keys, j and k select a server, Enter shows its details, the digits in the header
sort, / filters, p pauses, ? shows the help, q or Ctrl-C quits. A filter consists of words to find
and of states such as !down.

Examples:
  hailer watch play.example.com ugp://192.0.2.7
  hailer watch --targets servers.txt --interval 15s
  hailer watch --monitor http://127.0.0.1:8080";

#[derive(Args)]
pub(crate) struct Monitor {
    /// Servers to monitor, as GAME://HOST, PROTOCOL://HOST or HOST, whose protocol is detected at the start
    #[arg(value_hint = ValueHint::Hostname, conflicts_with = "config")]
    pub(crate) target: Vec<String>,
    /// Read the servers and options from a TOML file
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Game of targets without GAME://; `hailer games` lists them
    #[arg(long, short, value_parser = GameIds, hide_possible_values = true, value_name = "GAME", requires = "target")]
    pub(crate) game: Option<String>,
    #[command(flatten)]
    pub(crate) games: MoreGames,
    /// Check the configuration file, report all mistakes, and stop
    #[arg(long, requires = "config")]
    pub(crate) check_config: bool,
    /// Print a complete configuration file with comments, and stop
    #[arg(long, exclusive = true)]
    pub(crate) example: bool,
    /// Monitor simulated servers on this machine, with a year of history; deleted at the end
    #[arg(long, conflicts_with_all = ["target", "config", "history"])]
    pub(crate) demo: bool,
    /// Address of the web page, the API and the metrics [default: 127.0.0.1:8080]
    #[arg(long, short, value_name = "ADDRESS:PORT", value_parser = values::listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Database of the history: a file or postgres://USER@HOST/DATABASE [default: hailer.db]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) history: Option<String>,
    /// Time between polls of a server [default: 1min]
    #[arg(long, value_parser = values::poll_interval, value_name = "TIME")]
    pub(crate) interval: Option<Duration>,
    /// Local address to poll from, with or without a port; over TCP, the port is any
    #[arg(long, value_parser = values::source, value_name = "ADDRESS[:PORT]")]
    pub(crate) source: Option<SocketAddr>,
    /// Share the polling with all nodes that use the same Redis and the same history, in PostgreSQL
    #[arg(long, value_name = "redis://HOST", value_hint = ValueHint::Url)]
    pub(crate) cluster: Option<String>,
    /// Stop after this time
    #[arg(long, value_parser = values::duration, value_name = "TIME")]
    pub(crate) r#for: Option<Duration>,
    #[command(flatten)]
    pub(crate) log: LogArgs,
    #[command(subcommand)]
    pub(crate) action: Option<MonitorAction>,
}

#[derive(Subcommand)]
pub(crate) enum MonitorAction {
    /// Add a server to a running monitor
    Add(MonitorAdd),
    /// Remove a server from a running monitor
    Remove(MonitorName),
    /// List the servers of a running monitor
    List {
        #[command(flatten)]
        remote: MonitorRemote,
        /// Print one line of JSON for each server
        #[arg(long)]
        json: bool,
    },
    /// Send a test notification to the receivers of a configuration and report the result
    TestAlert(MonitorTest),
    /// Export the history to a file: lines of JSON, or one table as CSV or Parquet
    Export(MonitorExport),
    /// Import an exported file into the history; existing records are kept
    Import(MonitorImport),
}

// A running monitor.
#[derive(Args)]
pub(crate) struct MonitorRemote {
    /// URL of the monitor's web page
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080", value_hint = ValueHint::Url)]
    pub(crate) monitor: String,
    /// Read the monitor's API token from the first line of a file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_file: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct MonitorAdd {
    /// Server to add, with its game or protocol, such as minecraft://192.0.2.7
    #[arg(value_hint = ValueHint::Hostname)]
    pub(crate) target: String,
    /// Game of a target without GAME://; `hailer games` lists them
    #[arg(long, short, value_parser = GameIds, hide_possible_values = true, value_name = "GAME")]
    pub(crate) game: Option<String>,
    /// Name of the server [default: derived from the target]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Group of the server
    #[arg(long, default_value = "", hide_default_value = true)]
    pub(crate) group: String,
    /// Label of the server; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) label: Vec<(String, String)>,
    /// Time between polls [default: the interval of the monitor]
    #[arg(long, value_parser = values::poll_interval, value_name = "TIME")]
    pub(crate) interval: Option<Duration>,
    #[command(flatten)]
    pub(crate) remote: MonitorRemote,
}

#[derive(Args)]
pub(crate) struct MonitorName {
    /// Name of the server
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) remote: MonitorRemote,
}

#[derive(Args)]
pub(crate) struct MonitorTest {
    /// Receiver to test [default: all]
    pub(crate) receiver: Option<String>,
    /// Configuration file of the monitor
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: PathBuf,
}

#[derive(Args)]
pub(crate) struct MonitorExport {
    /// File to write, ending in .ndjson or .jsonl; for one table, also .csv or .parquet
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: PathBuf,
    /// Export only this table: servers, samples, rollups, events or sessions; may be given several times
    #[arg(long)]
    pub(crate) table: Vec<hailer_monitor::history::Table>,
    /// Configuration file that names the history
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Database of the history: a file or postgres://USER@HOST/DATABASE [default: hailer.db]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) history: Option<String>,
}

#[derive(Args)]
pub(crate) struct MonitorImport {
    /// File written by `hailer monitor export`, ending in .ndjson or .jsonl
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Configuration file that names the history
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Database of the history: a file or postgres://USER@HOST/DATABASE [default: hailer.db]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) history: Option<String>,
}

#[derive(Args)]
pub(crate) struct Watch {
    /// Servers to poll
    #[arg(value_name = "TARGET", value_hint = ValueHint::Hostname, required_unless_present_any = ["targets", "config", "monitor"])]
    pub(crate) given: Vec<String>,
    /// Read targets from a file, one per line; may be given several times
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) targets: Vec<PathBuf>,
    /// Poll the servers of a hailer monitor configuration, without a running monitor
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) config: Option<PathBuf>,
    /// Show the servers of a running hailer monitor; URL of its web page
    #[arg(long, value_name = "URL", value_hint = ValueHint::Url)]
    #[arg(conflicts_with_all = ["given", "targets", "config", "protocol", "game"])]
    pub(crate) monitor: Option<String>,
    /// Time between polls of a server or of the monitor, 1s to 1d; longer if needed to stay at 2,000 polls/s
    #[arg(long, short, default_value = "5s", value_parser = watch_interval, value_name = "TIME")]
    pub(crate) interval: Duration,
    #[command(flatten)]
    pub(crate) query_args: QueryArgs,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Parses the interval of `hailer watch`, 1 s to 1 d. Shorter ones would burden servers.
fn watch_interval(text: &str) -> Result<Duration, String> {
    let time = values::duration(text)?;
    let fits = (Duration::from_secs(1)..=Duration::from_secs(86_400)).contains(&time);
    if fits {
        Ok(time)
    } else {
        Err("expected a time from 1s to 1d".into())
    }
}
