//! The keys of `[server.door]`, except those about who may wake the game.

use super::control::{self, ControlConfig, ControlInput};
use crate::config::ListenConfig;
use crate::config::checker::Checker;
use crate::config::reader::{FromText, IntegerBetween, OneOrMany, Parsed, Time};
use hailer::door::machine::{DoorLimits, KeepWindow, MachineConfig};
use hailer::proto::model::colored;
use hailer::{Status, Target};
use serde::Deserialize;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

/// Longest name of a host.
const MAX_HOST_BYTES: usize = 253;

/// A game server that sleeps while nobody plays.
#[derive(Clone, Debug)]
pub(crate) struct DoorConfig {
    /// Where the game listens.
    pub(crate) game: GameAddress,
    pub(crate) query: DoorQuery,
    pub(crate) control: ControlConfig,
    pub(crate) machine: MachineConfig,
    /// Whether all traffic that is no query counts as a join.
    pub(crate) wakes_on_traffic: bool,
    pub(crate) texts: DoorTexts,
    pub(crate) state_file: StateFile,
    /// The status of the configuration, for all states but running.
    pub(crate) status: Box<Status>,
    /// Whether that status has its own maximum of players.
    pub(crate) has_max_players: bool,
}

/// Address of a game. The host may be a name, which is looked up again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GameAddress {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for GameAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl FromText for GameAddress {
    type Value = Self;
    const EXPECTED: &'static str =
        "the address of the game, such as \"127.0.0.1:25566\" or \"mc:25565\"";

    fn parse(text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port: u16 = port.parse().ok().filter(|port| *port != 0)?;
        let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(host) => host.parse::<std::net::Ipv6Addr>().ok()?.to_string(),
            None => host.to_owned(),
        };
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name = !host.is_empty() && host.bytes().all(is_part);
        let address = host.parse::<IpAddr>().ok();
        let is_good = address.map_or(is_name, |ip| !ip.is_unspecified());
        (is_good && host.len() <= MAX_HOST_BYTES).then_some(Self { host, port })
    }
}

/// How a door finds out whether the game runs, and who plays.
#[derive(Clone, Debug)]
pub(crate) enum DoorQuery {
    /// The game answers a query.
    Target(Box<Target>),
    /// The game accepts a TCP connection. Its players are unknown.
    Tcp,
}

impl FromText for DoorQuery {
    type Value = Self;
    const EXPECTED: &'static str =
        "a server such as \"minecraft-query://127.0.0.1:25566\", or \"tcp\"";

    fn parse(text: &str) -> Option<Self> {
        Self::from_text(text).ok()
    }

    fn from_text(text: &str) -> Result<Self, String> {
        match text {
            "tcp" => Ok(Self::Tcp),
            _ => Target::from_text(text).map(|target| Self::Target(Box::new(target))),
        }
    }
}

/// File in which a door keeps what it knows of the game.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StateFile {
    /// A file in the folder of the service or the user.
    Default,
    At(PathBuf),
    Off,
}

/// Texts of the states in which the game does not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DoorTexts {
    pub(crate) asleep: StateText,
    pub(crate) starting: StateText,
    pub(crate) stopping: StateText,
    pub(crate) failed: StateText,
}

/// Texts of a state. `None`: the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StateText {
    pub(crate) name: Option<String>,
    pub(crate) motd: Option<String>,
    pub(crate) kick: Option<String>,
}

/// Names that texts may have in braces.
pub(crate) const PLACEHOLDERS: [&str; 5] = ["text", "took", "left", "pause", "player"];

/// A text with placeholders. Colors are typed with an ampersand.
enum DoorText {}

impl FromText for DoorText {
    type Value = String;
    const EXPECTED: &'static str =
        "a text in quotes, in which {text}, {took}, {left}, {pause} and {player} are replaced";

    fn parse(text: &str) -> Option<String> {
        let known = PLACEHOLDERS.iter();
        let rest = known.fold(text.to_owned(), |rest, name| {
            rest.replace(&format!("{{{name}}}"), "")
        });
        (!rest.contains(['{', '}'])).then(|| colored(text))
    }
}

impl FromText for KeepWindow {
    type Value = Self;
    const EXPECTED: &'static str = "two times of the day such as \"18:00-23:00\"";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|fix| format!("{text:?}: {fix}"))
    }
}

/// The table `[server.door]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct DoorInput {
    game: Spanned<Parsed<GameAddress>>,
    query: Option<Spanned<Parsed<DoorQuery>>>,
    start: Spanned<ControlInput>,
    stop: Option<Spanned<ControlInput>>,
    idle: Option<Spanned<Parsed<Time<1_000>>>>,
    min_uptime: Option<Parsed<Time<0>>>,
    #[serde(default)]
    keep: OneOrMany<Spanned<Parsed<KeepWindow>>>,
    start_timeout: Option<Parsed<Time<1_000>>>,
    every: Option<Parsed<Time<200>>>,
    restart: Option<RestartInput>,
    wake: Option<WakeInput>,
    #[serde(default)]
    starts_per_hour: LimitsInput,
    #[serde(default)]
    asleep: TextInput,
    #[serde(default)]
    starting: TextInput,
    #[serde(default)]
    stopping: TextInput,
    #[serde(default)]
    failed: TextInput,
    state_file: Option<Spanned<PathBuf>>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RestartInput {
    Never,
    OnCrash,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum WakeInput {
    Join,
    Traffic,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct LimitsInput {
    per_source: Option<IntegerBetween<usize, 1, 3_600>>,
    total: Option<IntegerBetween<usize, 1, 3_600>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct TextInput {
    name: Option<Parsed<DoorText>>,
    motd: Option<Parsed<DoorText>>,
    kick: Option<Parsed<DoorText>>,
}

impl TextInput {
    fn text(&self) -> StateText {
        let text = |text: &Option<Parsed<DoorText>>| text.as_ref().map(|text| text.0.clone());
        StateText {
            name: text(&self.name),
            motd: text(&self.motd),
            kick: text(&self.kick),
        }
    }
}

impl DoorInput {
    /// Returns the configuration, or `None` after a mistake. `status` is that of the server, with
    /// whether it has its own maximum of players.
    pub(crate) fn config(
        &self,
        span: &Range<usize>,
        listeners: &[ListenConfig],
        (status, has_max_players): (Status, bool),
        checker: &mut Checker<'_>,
    ) -> Option<DoorConfig> {
        let mistakes = checker.problems.len();
        let game = &self.game.get_ref().0;
        if let Ok(ip) = game.host.parse::<IpAddr>() {
            let is_here = |listener: &ListenConfig| {
                let at = listener.address;
                let is_any = at.ip().is_unspecified() && ip.is_loopback();
                at.port() == game.port && (at.ip() == ip || is_any)
            };
            if listeners.iter().any(is_here) {
                let text = format!(
                    "server.door.game: this server listens on {game} itself; give the game another port"
                );
                checker.wrong::<()>(&self.game.span(), text);
            }
        }
        let query = match &self.query {
            Some(query) => query.get_ref().0.clone(),
            None => default_query(game, listeners).unwrap_or_else(|| {
                let text = "server.door: no query; add query = \"PROTOCOL://HOST:PORT\" or query = \"tcp\"";
                checker.wrong::<()>(span, text);
                DoorQuery::Tcp
            }),
        };
        let table = "server.door";
        let control = control::control(table, &self.start, self.stop.as_ref(), checker);
        if let (Some(idle), Some(control)) = (&self.idle, &control) {
            if control.stop.is_none() {
                let text = "server.door.idle: needs a way to stop the game; add stop = { command = [\"PROGRAM\", …] }";
                checker.wrong::<()>(&idle.span(), text);
            } else if matches!(query, DoorQuery::Tcp) {
                let text = "server.door.idle: over TCP alone, the players are unknown; add query = \"PROTOCOL://HOST:PORT\"";
                checker.wrong::<()>(&idle.span(), text);
            }
        }
        let state_file = match &self.state_file {
            None => StateFile::Default,
            Some(file) if file.get_ref().as_os_str() == "off" => StateFile::Off,
            Some(file) => {
                let path = checker.folder.join(file.get_ref());
                if file.get_ref().as_os_str().is_empty() || path.is_dir() {
                    let text = "server.door.state-file: expected the path of a file, or \"off\"";
                    checker.wrong::<()>(&file.span(), text);
                }
                StateFile::At(path)
            }
        };
        let config = DoorConfig {
            game: game.clone(),
            query,
            control: control?,
            machine: self.machine(),
            wakes_on_traffic: matches!(self.wake, Some(WakeInput::Traffic)),
            texts: DoorTexts {
                asleep: self.asleep.text(),
                starting: self.starting.text(),
                stopping: self.stopping.text(),
                failed: self.failed.text(),
            },
            state_file,
            status: Box::new(status),
            has_max_players,
        };
        (checker.problems.len() == mistakes).then_some(config)
    }

    fn machine(&self) -> MachineConfig {
        let default = MachineConfig::default();
        let limits = DoorLimits::default();
        let starts = &self.starts_per_hour;
        let time = |time: Option<Duration>, default: Duration| time.unwrap_or(default);
        MachineConfig {
            idle: self.idle.as_ref().map(|idle| idle.get_ref().0),
            min_uptime: time(self.min_uptime.as_ref().map(|t| t.0), default.min_uptime),
            keep: self.keep.0.iter().map(|keep| keep.get_ref().0).collect(),
            start_timeout: time(
                self.start_timeout.as_ref().map(|t| t.0),
                default.start_timeout,
            ),
            every: time(self.every.as_ref().map(|t| t.0), default.every),
            restarts: matches!(self.restart, Some(RestartInput::OnCrash)),
            limits: DoorLimits {
                per_source: starts.per_source.map_or(limits.per_source, |most| most.0),
                total: starts.total.map_or(limits.total, |most| most.0),
            },
        }
    }
}

/// Returns a query in the protocol of the server: one with joins, or else the first.
fn default_query(game: &GameAddress, listeners: &[ListenConfig]) -> Option<DoorQuery> {
    let protocols = listeners.iter().flat_map(|listener| &listener.protocols);
    let infos: Vec<_> = protocols.map(|(protocol, _)| protocol.info()).collect();
    let info = infos
        .iter()
        .find(|info| info.has_join_attempts)
        .or(infos.first())?;
    let target = format!("{}://{game}", info.id).parse().ok()?;
    Some(DoorQuery::Target(Box::new(target)))
}
