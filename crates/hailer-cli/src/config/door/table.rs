//! The keys of `[server.door]`, except `who`.

use super::access::{AccessConfig, AccessInput};
use super::control::{self, ControlConfig, ControlInput};
use crate::config::ListenConfig;
use crate::config::checker::Checker;
use crate::config::reader::{FromText, IntegerBetween, OneOrMany, Parsed, Time};
use hailer::door::GameAddress;
use hailer::door::machine::{DoorLimits, KeepWindow, MachineConfig};
use hailer::proto::model::colored;
use hailer::{Status, Target};
use serde::Deserialize;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

/// A game server that sleeps while it has no players.
#[derive(Clone, Debug)]
pub(crate) struct DoorConfig {
    /// Where the game listens.
    pub(crate) game: GameAddress,
    pub(crate) query: DoorQuery,
    pub(crate) control: ControlConfig,
    pub(crate) machine: MachineConfig,
    /// Whether all traffic that is no query counts as a join.
    pub(crate) wakes_on_traffic: bool,
    /// Clients that may wake the game. `None`: all.
    pub(crate) who: Option<AccessConfig>,
    pub(crate) texts: DoorTexts,
    pub(crate) state_file: StateFile,
    /// The status of the configuration, for all states but running.
    pub(crate) status: Box<Status>,
    /// Whether that status has its own maximum of players.
    pub(crate) has_max_players: bool,
}

/// How a door finds out whether the game runs, and its number of players.
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

/// File in which a door keeps its counts and the last status of the game.
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
    who: Option<Spanned<AccessInput>>,
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
    /// Returns the configuration, or `None` after a mistake. `status` is the status of the server,
    /// and whether it has its own maximum of players.
    pub(crate) fn config(
        &self,
        span: &Range<usize>,
        listeners: &[ListenConfig],
        (status, has_max_players): (Status, bool),
        checker: &mut Checker<'_>,
    ) -> Option<DoorConfig> {
        let mistakes = checker.problems.len();
        let game = &self.game.get_ref().0;
        if let Some(to) = game.literal() {
            let is_here = |listener: &ListenConfig| {
                let at = listener.address;
                let is_any = at.ip().is_unspecified() && to.ip().is_loopback();
                at.port() == to.port() && (at.ip() == to.ip() || is_any)
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
        let who = match &self.who {
            Some(who) => who.get_ref().config(&who.span(), checker),
            None => None,
        };
        let config = DoorConfig {
            game: game.clone(),
            query,
            control: control?,
            machine: self.machine(),
            who,
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::config::reader;
    use hailer::proto::{Options, registry};
    use std::path::Path;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        door: Spanned<DoorInput>,
    }

    /// Parses a table, with a game and a start. Returns the configuration, or the mistakes.
    fn parse(keys: &str) -> Result<DoorConfig, String> {
        let text = format!("[door]\n{keys}\n");
        let document = reader::read::<File>(&text);
        let mut checker =
            Checker::new(Path::new("/etc/hailer"), &document.lines, document.problems);
        let protocols = ["minecraft-query", "minecraft-status"];
        let protocols = protocols.map(|id| (registry::find(id).unwrap(), Options::default()));
        let listener = ListenConfig {
            address: "0.0.0.0:25565".parse().unwrap(),
            protocols: protocols.into(),
            secret: None,
            is_further: false,
        };
        let status = (Status::default(), false);
        let config = document.value.and_then(|file| {
            let door = file.door.get_ref();
            door.config(&file.door.span(), &[listener], status, &mut checker)
        });
        let problems = checker.problems.iter();
        let problems: Vec<String> = problems.map(|problem| problem.text.clone()).collect();
        config
            .filter(|_| problems.is_empty())
            .ok_or(problems.join("\n"))
    }

    const GAME: &str = "game = \"127.0.0.1:25566\"\nstart = { unit = \"mc\" }\n";

    /// Returns the configuration of a door with these keys.
    pub(crate) fn door(keys: &str) -> DoorConfig {
        parse(&format!("{GAME}{keys}")).unwrap()
    }

    #[test]
    fn two_keys_are_enough() {
        let config = door("");
        assert_eq!(config.machine, MachineConfig::default());
        assert_eq!(config.state_file, StateFile::Default);
        assert!(!config.wakes_on_traffic);
        let DoorQuery::Target(target) = config.query else {
            panic!("{:?}", config.query);
        };
        let target = target.to_string();
        assert_eq!(target, "minecraft-status://127.0.0.1:25566");
    }

    #[test]
    fn all_keys_are_read() {
        let config = door(
            "query = \"tcp\"\nmin-uptime = \"1min\"\nkeep = [\"18:00-23:00\", \"6:00-7:00\"]\n\
             start-timeout = \"2min\"\nevery = \"1s\"\nrestart = \"on-crash\"\nwake = \"traffic\"\n\
             starts-per-hour = { per-source = 3, total = 5 }\nstate-file = \"off\"\n\
             asleep = { name = \"&7{text}\", kick = \"No\" }\nfailed = { motd = \"{pause}\" }",
        );
        assert!(matches!(config.query, DoorQuery::Tcp));
        assert_eq!(config.machine.keep.len(), 2);
        assert_eq!(config.machine.start_timeout, Duration::from_secs(120));
        assert!(config.machine.restarts && config.wakes_on_traffic);
        let limits = config.machine.limits;
        assert_eq!((limits.per_source, limits.total), (3, 5));
        assert_eq!(config.state_file, StateFile::Off);
        assert_eq!(config.texts.asleep.name.as_deref(), Some("\u{A7}7{text}"));
        assert_eq!(config.texts.failed.motd.as_deref(), Some("{pause}"));
        let config = door("keep = \"22:00-02:00\"\nidle = \"10min\"\nstate-file = \"mc.json\"");
        assert_eq!(config.machine.idle, Some(Duration::from_secs(600)));
        assert_eq!(
            config.state_file,
            StateFile::At("/etc/hailer/mc.json".into())
        );
    }

    #[test]
    fn mistakes_are_explained() {
        let command = "game = \"127.0.0.1:25566\"\nstart = { command = [\"wake\"] }\n";
        for (keys, problem) in [
            (String::new(), "missing key `game`"),
            (
                "game = \"mc\"\nstart = { unit = \"mc\" }".into(),
                "a host and a port",
            ),
            (
                "game = \"127.0.0.1:25565\"\nstart = { unit = \"mc\" }".into(),
                "listens on 127.0.0.1:25565 itself",
            ),
            (
                format!("{command}idle = \"1min\""),
                "needs a way to stop the game",
            ),
            (
                format!("{GAME}idle = \"1min\"\nquery = \"tcp\""),
                "the players are unknown",
            ),
            (format!("{GAME}keep = \"18-23\""), "two times such as"),
            (
                format!("{GAME}restart = \"always\""),
                "known are never, on-crash",
            ),
            (
                format!("{GAME}asleep = {{ motd = \"{{who}}\" }}"),
                "{text}, {took}",
            ),
            (
                format!("{GAME}state-file = \"\""),
                "expected the path of a file",
            ),
            (
                format!("{GAME}query = \"nonsense://x\""),
                "such as \"minecraft-query://",
            ),
        ] {
            let found = parse(&keys).unwrap_err();
            assert!(found.contains(problem), "{keys}: {found}");
        }
    }
}
