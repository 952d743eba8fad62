//! Configuration files in TOML, and the configuration of `hailer serve`, also from flags.
//!
//! ```text
//!   reader   TOML ─► serde types, with all errors and their lines
//!   monitor  keys of the file of `hailer monitor`; cluster: its table `[cluster]`
//!   serve    keys of the file ─► ServeConfig
//!   door     `[server.door]`: a game that sleeps while it has no players
//!   action   commands and webhooks
//!   flags    flags ─► ServerConfig
//!   status   a status as users write it
//!   streams  hosts, proxies and relays of connections
//!   games    games that users add
//!   checker  keys that exclude each other, token files
//! ```
//!
//! `hailer serve --example` prints every key with an explanation: see `example-serve.toml`.
//!
//! May import: `crate::args`, `crate::exit`, `crate::files`, `crate::observe`, `crate::print`,
//! `crate::simulated`, `crate::values`, `hailer`, `hailer_monitor`.

mod action;
pub(crate) mod checker;
#[cfg(feature = "monitor")]
#[cfg_attr(not(feature = "redis"), path = "no_cluster.rs")]
pub(crate) mod cluster;
pub(crate) mod door;
mod flags;
pub(crate) mod games;
#[cfg(feature = "monitor")]
pub(crate) mod monitor;
#[cfg_attr(not(feature = "redis"), path = "no_network.rs")]
pub(crate) mod network;
pub(crate) mod reader;
#[cfg_attr(not(feature = "monitor"), path = "no_receivers.rs")]
mod receivers;
mod serve;
mod status;
mod streams;
#[cfg(all(test, feature = "redis"))]
mod tests;

pub(crate) use self::flags::{from_flags, warn_about_token_file};
pub(crate) use self::serve::announces;

use self::door::table::DoorConfig;
use self::network::NetworkConfig;
use self::reader::Problem;
use crate::exit::{Usage, usage};
use crate::observe::ObserverConfig;
use crate::simulated::population::Population;
use hailer::Status;
use hailer::door::GameAddress;
use hailer::proto::{Options, Protocol, Secret};
use hailer::respond::source::poll::Poll;
use hailer::respond::source::push::Place;
use hailer::respond::source::{Policy, Published, TimedStatus};
use hailer::respond::{PoolConfig, StreamConfig};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A receiver of notifications. In a build without the feature `monitor`, there is none.
#[cfg(feature = "monitor")]
pub(crate) use hailer_monitor::alert::OpenReceiver;
#[cfg(not(feature = "monitor"))]
pub(crate) use std::convert::Infallible as OpenReceiver;

/// Minimum length of a token in bytes. Shorter ones can be guessed.
pub(crate) const MIN_TOKEN_BYTES: usize = 16;
/// A complete configuration with comments, which `hailer serve --example` prints.
pub(crate) const EXAMPLE: &str = include_str!("../example-serve.toml");

/// Validated configuration of `hailer serve`.
#[derive(Default)]
pub(crate) struct ServeConfig {
    pub(crate) servers: Vec<ServerConfig>,
    /// Receivers of notifications about doors.
    pub(crate) receivers: Vec<OpenReceiver>,
    /// The table `[engine]`.
    pub(crate) engine: PoolConfig,
    pub(crate) observe: ObserverConfig,
}

/// Configuration of a server that is answered for.
#[derive(Clone)]
pub(crate) struct ServerConfig {
    /// Name for people, unique.
    pub(crate) name: Option<String>,
    pub(crate) source: StatusSource,
    /// The OneQuery network that the server is a member of. Port 0 stands for the listener's port.
    pub(crate) network: Option<Box<NetworkConfig>>,
    pub(crate) listeners: Vec<ListenConfig>,
    /// The game server that receives datagrams of unknown protocols.
    pub(crate) relay: Option<GameAddress>,
    /// The game server that receives joins, and connections of unknown protocols.
    pub(crate) relay_tcp: Option<GameAddress>,
    /// Hosts and proxies of connections.
    pub(crate) streams: StreamConfig,
    pub(crate) on_join: Option<HookConfig>,
    /// The door, if the game sleeps while it has no players.
    pub(crate) door: Option<Box<DoorConfig>>,
    /// Whether to announce Minecraft Status to the local network.
    pub(crate) lan_announce: bool,
}

impl ServerConfig {
    /// Returns the name for people: by default `server N`, with the number from 1.
    pub(crate) fn label(&self, number: usize) -> String {
        let name = self.name.clone();
        name.unwrap_or_else(|| format!("server {number}"))
    }
}

/// Hook that runs when a player tries to join.
#[derive(Clone)]
pub(crate) struct HookConfig {
    pub(crate) action: HookAction,
    /// Minimum time between two runs.
    pub(crate) every: Duration,
}

/// Action of a hook or a door.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HookAction {
    /// Runs a program with arguments, without a shell.
    Command(Vec<String>),
    /// Sends a POST request to a URL, which may contain a secret.
    Webhook(Secret),
}

/// Origin of the status.
#[derive(Clone)]
pub(crate) enum StatusSource {
    /// The configuration. The status never changes.
    Fixed(Box<Status>),
    /// The status of a simulated server.
    Demo(Population),
    /// A file, a poll or a push.
    External(Box<ExternalSource>),
}

/// A source outside the configuration.
#[derive(Clone)]
pub(crate) struct ExternalSource {
    pub(crate) origin: SourceOrigin,
    /// Behavior before the first status, and when the last one is stale.
    pub(crate) policy: Policy,
}

/// Kind and parameters of an external source.
#[derive(Clone)]
pub(crate) enum SourceOrigin {
    /// A JSON file.
    File(PathBuf),
    /// Another server, which is polled.
    Poll(Box<Poll>),
    /// Statuses that other programs push over HTTP.
    Push(PushConfig),
}

impl SourceOrigin {
    /// Returns an identifier that stays the same across reloads, so that the last status is kept.
    /// It contains no secrets.
    pub(crate) fn identity(&self) -> String {
        match self {
            Self::File(path) => format!("file {}", path.display()),
            Self::Poll(poll) => format!("poll {} {}", poll.target, poll.has_address),
            Self::Push(push) => {
                let name = push.name.as_deref().unwrap_or_default();
                format!("push {} {name}", push.place)
            }
        }
    }
}

/// A listener for pushed statuses.
#[derive(Clone)]
pub(crate) struct PushConfig {
    pub(crate) place: Place,
    /// The last part of `/status/NAME`, if several servers share the listener.
    pub(crate) name: Option<String>,
    pub(crate) token: Secret,
    /// Whether addresses other than loopback are allowed.
    pub(crate) insecure: bool,
}

/// A listening address and its protocols. Without protocols, everything is relayed.
#[derive(Clone)]
pub(crate) struct ListenConfig {
    pub(crate) address: SocketAddr,
    /// Protocols that are answered. Empty for a further port of the game, whose datagrams are all
    /// passed on.
    pub(crate) protocols: Vec<(&'static dyn Protocol, Options)>,
    /// The secret of challenge tokens, if several nodes share it. `None`: a random one, renewed
    /// every hour.
    pub(crate) secret: Option<[u8; 16]>,
    /// Whether it is a further port of the game, from the key `also`.
    pub(crate) is_further: bool,
}

impl StatusSource {
    /// Returns the status of a listener `seconds` after the start, or `None` if it must not reply.
    /// `last` is the last status of an external source.
    pub(crate) fn status(
        &self,
        listener: &ListenConfig,
        port: u16,
        seconds: u64,
        last: Option<&TimedStatus>,
    ) -> Option<Status> {
        let status = match self {
            Self::Fixed(status) => (**status).clone(),
            Self::Demo(population) => match listener.protocols.first() {
                Some((protocol, _)) => population.status(*protocol, seconds),
                None => Status::default(),
            },
            Self::External(source) => match source.policy.decide(last, Instant::now()).0 {
                Published::Status(status) => (*status).clone(),
                Published::Silence => return None,
            },
        };
        Some(at_port(status, port))
    }

    /// Returns the external source, if there is one.
    pub(crate) fn external(&self) -> Option<&ExternalSource> {
        match self {
            Self::External(source) => Some(source),
            _ => None,
        }
    }
}

/// Sets the port of the game to the port of the listener, unless the status has one.
pub(crate) fn at_port(mut status: Status, port: u16) -> Status {
    let address = status.address.get_or_insert_default();
    address.port.get_or_insert(port);
    status
}

/// Reads a configuration file. Returns the configuration and its warnings.
///
/// # Errors
/// As in [`load`].
pub(crate) fn read(path: &Path) -> anyhow::Result<(ServeConfig, Vec<String>)> {
    load(path, |name, text, folder| {
        let (config, warnings) = serve::parse(text, folder)?;
        let warnings = checker::lines_of(name, warnings);
        Ok((config, warnings.lines().map(str::to_owned).collect()))
    })
}

/// Reads a configuration file, after the games that it names. `parse` gets the name of the file, its
/// text and the base of its relative paths.
///
/// # Errors
/// One line for each mistake, with file, line and correction.
pub(crate) fn load<T>(
    path: &Path,
    parse: impl FnOnce(&str, &str, &Path) -> Result<T, Vec<Problem>>,
) -> anyhow::Result<T> {
    let text = text(path)?;
    games::add_of_config(path, &text)?;
    let name = path.display().to_string();
    let folder = path.parent().unwrap_or(Path::new(""));
    let parsed = parse(&name, &text, folder);
    Ok(parsed.map_err(|problems| Usage(checker::lines_of(&name, problems)))?)
}

/// Reads a text file in UTF-8.
///
/// # Errors
/// The file cannot be read, or is not UTF-8.
pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    let name = path.display();
    match std::fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.iter().filter(|byte| **byte == b'\n').count() + 1;
            usage!("{name}:{line}: not UTF-8; save the file as UTF-8");
        }
        Err(error) => usage!("{name}: {error}"),
    }
}
