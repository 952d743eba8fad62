//! Arguments of `hailer check`.

use super::{Auth, TargetArgs};
use crate::values;
use clap::{Args, ValueEnum, ValueHint};
use hailer::check::Severity;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const CHECK: &str = "\
The protocol must be named, in the TARGET or by --protocol. Only the named server gets datagrams, at
most one every 100 ms to 1.5 s, depending on the protocol. No request is known to crash servers or
to get the sender blocked; `hailer check --list` and the first lines of the output name the
requirements that are left out. Check only servers that you are allowed to test.

The exit code is 1 if a failure or a deviation has at least the severity of --fail-on, else 0.

Examples:
  hailer check minecraft-query://127.0.0.1
  hailer check --protocol a2s 192.0.2.7:27015 --quick --only a2s/2
  hailer check onequery://127.0.0.1 --junit report.xml --github
  hailer check --list --protocol quake3
  hailer check --client --protocol minecraft-query";

#[derive(Args)]
#[command(mut_arg("protocol", |arg| arg.help("Protocol to test, if the target does not name it")))]
pub(crate) struct Check {
    /// Server to test
    #[arg(value_hint = ValueHint::Hostname, required_unless_present_any = ["list", "client"])]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) targets: TargetArgs,
    #[command(flatten)]
    pub(crate) auth: Auth,
    /// Test only these requirements or groups, such as a2s/2 or a2s/2.4; may be given several times
    #[arg(long, value_name = "ID")]
    pub(crate) only: Vec<String>,
    /// Skip requirements that need waiting, such as the lifetime of tokens
    #[arg(long)]
    pub(crate) quick: bool,
    /// Also send 50 requests/s for 5 s
    #[arg(long)]
    pub(crate) load: bool,
    /// Also send what is left out for a family of servers, because it stops them or blocks the sender; only for their authors
    #[arg(long)]
    pub(crate) force: bool,
    /// Least severity of a failure or deviation that makes the exit code 1
    #[arg(long, value_enum, default_value = "error", value_name = "SEVERITY")]
    pub(crate) fail_on: FailOn,
    /// Show every datagram in hexadecimal, with an explanation
    #[arg(long)]
    pub(crate) raw: bool,
    /// Print one line of JSON, as in schema/check-v1.json
    #[arg(long, conflicts_with = "raw")]
    pub(crate) json: bool,
    /// Also write the results as JUnit XML to a file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) junit: Option<PathBuf>,
    /// Also print annotations for GitHub Actions
    #[arg(long, conflicts_with = "json")]
    pub(crate) github: bool,
    /// List all requirements and test nothing
    #[arg(long, conflicts_with_all = ["target", "client"])]
    pub(crate) list: bool,
    /// Test a client: respond on --listen, and report what clients do wrong
    #[arg(long, conflicts_with_all = ["target", "quick", "load", "only", "raw", "junit", "github", "force"], requires = "protocol", help_heading = "Clients")]
    pub(crate) client: bool,
    /// Address to respond on [default: 127.0.0.1 and the port of the protocol]
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        value_parser = values::listen_address,
        requires = "client",
        help_heading = "Clients"
    )]
    pub(crate) listen: Option<SocketAddr>,
    /// Time to respond [default: until Ctrl-C]
    #[arg(long = "for", value_parser = values::duration, value_name = "TIME", requires = "client", help_heading = "Clients")]
    pub(crate) duration: Option<Duration>,
}

/// Least severity that makes the exit code 1.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FailOn {
    /// Every failure and every deviation
    #[value(alias = "deviation")]
    Note,
    /// Those that matter to some clients, and worse
    Warning,
    /// Those that many clients or attackers notice
    Error,
    /// The exit code is 0 after every complete check
    Never,
}

impl FailOn {
    /// Returns the least severity. `None`: the exit code is 0.
    pub(crate) fn severity(self) -> Option<Severity> {
        match self {
            Self::Note => Some(Severity::Note),
            Self::Warning => Some(Severity::Warning),
            Self::Error => Some(Severity::Error),
            Self::Never => None,
        }
    }
}
