//! The configuration file of `hailer monitor`.
//!
//! `hailer monitor --example` prints every key with an explanation: see `example-monitor.toml`.

use super::cluster::{Cluster, ClusterInput};
use crate::config::checker::{Checker, lines_of};
use crate::config::reader::{
    self, Blocks, FromText, IntegerBetween, Ordered, Parsed, Problem, TextOrNumber, Time,
};
use crate::config::{self, MIN_TOKEN_BYTES};
use crate::values::{byte_size, game_of, names_another};
use hailer::Target;
use hailer::client::{Host, TargetError};
use hailer::discover::master::MasterUrl;
use hailer::proto::Charset;
use hailer_monitor::alert::{self, Receiver, Rule};
use hailer_monitor::history::{NewServer, Retention};
use hailer_monitor::server::MIN_INTERVAL_MS;
use hailer_monitor::server::{self, Origin};
use hailer_monitor::web::api::Token;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;

/// A complete configuration with comments, which `hailer monitor --example` prints.
pub(crate) const EXAMPLE: &str = include_str!("../example-monitor.toml");

/// Validated configuration of a monitor.
pub(crate) struct CheckedMonitorConfig {
    pub(crate) listen: SocketAddr,
    pub(crate) history: String,
    pub(crate) interval: Duration,
    pub(crate) down_after: u8,
    pub(crate) players: Players,
    pub(crate) keep: Retention,
    /// Maximum number of datagrams per second.
    pub(crate) rate: f64,
    /// Maximum memory of the queries in flight, in bytes.
    pub(crate) max_memory: usize,
    pub(crate) token: Option<Token>,
    /// Character set of texts that are not UTF-8, in protocols that declare none; `None` for a guess.
    pub(crate) charset: Option<Charset>,
    pub(crate) has_server_metrics: bool,
    /// Host names that requests may use, if configured, and the host of the public page.
    pub(crate) hosts: Option<Vec<String>>,
    pub(crate) page_host: Option<String>,
    pub(crate) is_behind_proxy: bool,
    pub(crate) has_badges: bool,
    pub(crate) has_widgets: bool,
    pub(crate) max_servers: usize,
    pub(crate) servers: Vec<NewServer>,
    /// New and former names of renamed servers.
    pub(crate) renames: Vec<(String, String)>,
    pub(crate) masters: Vec<MasterConfig>,
    /// Text of the file without its servers, to detect other changes.
    pub(crate) others: String,
    pub(crate) alerts: alert::CheckedConfig,
    pub(crate) cluster: Option<Cluster>,
    /// Suspicious settings that are accepted, one line each.
    pub(crate) warnings: Vec<String>,
}

/// A master server whose servers are monitored.
#[derive(Clone, Debug)]
pub(crate) struct MasterConfig {
    pub(crate) url: MasterUrl,
    /// Time between two lists.
    pub(crate) refresh: Duration,
    /// How long a server stays after it was last listed.
    pub(crate) keep: Duration,
    /// Maximum number of servers.
    pub(crate) limit: usize,
    /// Whether servers at private addresses are monitored too.
    pub(crate) is_private_allowed: bool,
    pub(crate) group: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) interval: Option<Duration>,
}

/// Content of the configuration file.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct MonitorFileInput {
    monitor: MonitorInput,
    cluster: Option<Spanned<ClusterInput>>,
    server: Blocks<MonitoredServerInput>,
    master: Blocks<MasterInput>,
    alert: Blocks<Rule>,
    receiver: Blocks<Receiver>,
    /// File with games, which is read before the other keys.
    games: Option<PathBuf>,
}

/// The table `[monitor]`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct MonitorInput {
    listen: Option<Parsed<SocketAddr>>,
    history: Option<Parsed<HistoryLocation>>,
    interval: Option<Parsed<Interval>>,
    down_after: Option<IntegerBetween<u8, 1, 100>>,
    players: Option<Players>,
    keep: KeepInput,
    rate: Option<IntegerBetween<u32, 1, 10_000_000>>,
    max_memory: Option<Parsed<ByteSize>>,
    charset: Option<Parsed<Charset>>,
    token_file: Option<Spanned<PathBuf>>,
    server_metrics: Option<bool>,
    page: Option<String>,
    hosts: Option<Vec<Parsed<HostName>>>,
    behind_proxy: Option<bool>,
    badges: Option<bool>,
    widgets: Option<bool>,
    max_servers: Option<IntegerBetween<usize, 0, 10_000_000>>,
}

/// A size in bytes.
enum ByteSize {}

impl FromText for ByteSize {
    type Value = usize;
    const EXPECTED: &'static str = "a size in quotes such as \"512KiB\", \"256MiB\" or \"2GiB\"";

    fn parse(text: &str) -> Option<usize> {
        byte_size(text).ok()
    }
}

/// The table `keep = { … }`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct KeepInput {
    raw: Option<Parsed<SampleAge>>,
    five_minutes: Option<Parsed<SampleAge>>,
    hour: Option<Parsed<SampleAge>>,
    day: Option<Parsed<SampleAge>>,
}

/// A table `[[server]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MonitoredServerInput {
    name: Spanned<String>,
    target: Spanned<String>,
    was: Option<Spanned<String>>,
    game: Option<Spanned<String>>,
    group: Option<Spanned<String>>,
    #[serde(default)]
    labels: Ordered<TextOrNumber>,
    interval: Option<Parsed<Interval>>,
}

/// A table `[[master]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MasterInput {
    url: Spanned<String>,
    refresh: Option<Parsed<Time<60_000>>>,
    keep: Option<Parsed<Time<0>>>,
    limit: Option<IntegerBetween<usize, 1, 1_000_000>>,
    allow_private: Option<bool>,
    group: Option<Spanned<String>>,
    #[serde(default)]
    labels: Ordered<TextOrNumber>,
    interval: Option<Parsed<Interval>>,
}

/// Time between polls of a server.
type Interval = Time<{ MIN_INTERVAL_MS as u64 }>;
/// Age at which samples are deleted.
enum SampleAge {}

impl FromText for SampleAge {
    type Value = Duration;
    const EXPECTED: &'static str = "a time in quotes such as \"7d\" or \"2years\"";

    fn parse(text: &str) -> Option<Duration> {
        humantime::parse_duration(text).ok()
    }

    fn from_text(text: &str) -> Result<Duration, String> {
        // Each level is computed from a finer one, which must be kept until then.
        const MIN: Duration = Duration::from_secs(2 * 86_400);
        match Self::parse(text) {
            Some(age) if age >= MIN => Ok(age),
            Some(_) => Err("expected at least \"2d\"".into()),
            None => Err(format!("expected {}", Self::EXPECTED)),
        }
    }
}

/// Location of the history: a file, relative to the folder of the configuration, or PostgreSQL.
enum HistoryLocation {
    File(PathBuf),
    Url(String),
}

impl FromText for HistoryLocation {
    type Value = Self;
    const EXPECTED: &'static str = "the path of a file, or \"postgres://USER@HOST/DATABASE\"";
    const IS_QUOTED: bool = false;

    fn parse(text: &str) -> Option<Self> {
        match text.split_once("://").map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => Some(Self::Url(text.into())),
            None if !text.is_empty() => {
                let path = text.strip_prefix("sqlite:").unwrap_or(text);
                Some(Self::File(path.into()))
            }
            _ => None,
        }
    }
}

/// A host name without scheme and port.
enum HostName {}

impl FromText for HostName {
    type Value = String;
    const EXPECTED: &'static str = "a name such as \"status.example.com\", without scheme and port";

    fn parse(text: &str) -> Option<String> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let is_part = |part: &str| !part.is_empty() && part.bytes().all(is_good);
        (text.len() <= 253 && text.split('.').all(is_part)).then(|| text.into())
    }
}

/// How the names of players are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Players {
    Names,
    Hashed,
    Off,
}

impl Default for CheckedMonitorConfig {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 8080).into(),
            history: sqlite(Path::new("hailer.db")),
            interval: Duration::from_secs(60),
            down_after: 2,
            players: Players::Names,
            keep: Retention::default(),
            rate: 20_000.0,
            max_memory: 256 << 20,
            token: None,
            charset: None,
            has_server_metrics: true,
            hosts: None,
            page_host: None,
            is_behind_proxy: false,
            has_badges: true,
            has_widgets: true,
            max_servers: 200_000,
            servers: Vec::new(),
            renames: Vec::new(),
            masters: Vec::new(),
            others: String::new(),
            alerts: alert::CheckedConfig::default(),
            cluster: None,
            warnings: Vec::new(),
        }
    }
}

impl CheckedMonitorConfig {
    /// Returns the host names that requests may use; `None` allows any. On a loopback address, the
    /// check prevents that a web page reads the monitor by pointing its own name at this machine
    /// (DNS rebinding). On other addresses, everyone on the network has access anyway.
    pub(crate) fn names(&self) -> Option<Vec<String>> {
        let is_strict = self.hosts.is_some() || self.listen.ip().is_loopback();
        is_strict.then(|| {
            self.hosts
                .iter()
                .flatten()
                .chain(&self.page_host)
                .cloned()
                .collect()
        })
    }
}

/// Returns the database URL of a file.
pub(crate) fn sqlite(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

/// Reads a configuration file.
///
/// # Errors
/// One line for each mistake, with file, line and correction.
pub(crate) fn read(path: &Path) -> anyhow::Result<CheckedMonitorConfig> {
    config::load(path, parse)
}

fn parse(name: &str, text: &str, folder: &Path) -> Result<CheckedMonitorConfig, Vec<Problem>> {
    let document = reader::read::<MonitorFileInput>(text);
    let is_readable = document.problems.is_empty();
    let mut checker = Checker::new(folder, &document.lines, document.problems);
    let file = document.value.unwrap_or_default();
    let page = file.monitor.page.clone();
    let mut config = file.monitor.config(&mut checker);
    config.cluster = file
        .cluster
        .as_ref()
        .and_then(|cluster| cluster.get_ref().cluster(&cluster.span(), &mut checker));
    let mut lines: HashMap<String, usize> = HashMap::new();
    let mut places: HashMap<(Host, u16), (String, usize)> = HashMap::new();
    let mut former_names = Vec::new();
    for block in file.server.0 {
        let span = block.span();
        let mut block = block.into_inner();
        let former = block.was.take();
        let Some(server) = block.server(&mut checker) else {
            continue;
        };
        let line = checker.line(&span);
        if let Some(former) = former {
            former_names.push((server.name.clone(), former));
        }
        let place = server::place(&server.target);
        let same_place = place.and_then(|place| places.insert(place, (server.name.clone(), line)));
        if let Some(first) = lines.insert(server.name.clone(), line) {
            let text = format!(
                "server.name: the server of line {first} has the name {:?} as well; write another",
                server.name
            );
            checker.wrong::<()>(&span, text);
        } else if let Some((name, first)) = same_place {
            let text = format!(
                "server.target: {name:?} of line {first} has the same address and query port; \
                 remove one of them"
            );
            checker.wrong::<()>(&span, text);
        }
        config.servers.push(server);
    }
    for (name, former) in former_names {
        let old = former.get_ref();
        let as_former_name = NewServer::new(old, "ugp://127.0.0.1", Origin::Configuration);
        if let Some(mistake) = server::check(&as_former_name).first() {
            checker.wrong::<()>(&former.span(), format!("server.was: {}", mistake.message));
        } else if let Some(line) = lines.get(old) {
            let text = format!(
                "server.was: the server of line {line} has the name {old:?}; write its former name, \
                 or remove was"
            );
            checker.wrong::<()>(&former.span(), text);
        } else {
            config.renames.push((name, old.clone()));
        }
    }
    for block in file.master.0 {
        let span = block.span();
        if config.cluster.is_some() {
            let text = "master: not possible with [cluster], because the nodes would get different \
                        lists; list the servers with [[server]]";
            checker.wrong::<()>(&span, text);
        }
        config
            .masters
            .extend(block.into_inner().master(&mut checker));
    }
    let first_alert = file.alert.0.first().map(Spanned::span);
    let alerts = alert::AlertConfig {
        rules: file.alert.0.into_iter().map(Spanned::into_inner).collect(),
        receivers: file
            .receiver
            .0
            .into_iter()
            .map(Spanned::into_inner)
            .collect(),
        page,
    };
    // Rules name receivers. After a mistake in a receiver, errors about its rules would mislead.
    if is_readable {
        match alerts.check(folder) {
            Ok(alerts) => config.alerts = alerts,
            Err(error) => {
                checker.wrong::<()>(&first_alert.unwrap_or(0..0), error.to_string());
            }
        }
    }
    if !checker.problems.is_empty() {
        return Err(checker.problems);
    }
    config.others = without_servers(text);
    config.warnings = lines_of(name, checker.warnings)
        .lines()
        .map(str::to_owned)
        .collect();
    Ok(config)
}

/// Returns the lines outside of `[[server]]` tables, without comments.
fn without_servers(text: &str) -> String {
    let mut kept = String::new();
    let mut is_server = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            let header = line.trim_start_matches('[').trim_start();
            is_server = header
                .strip_prefix("server")
                .is_some_and(|rest| rest.trim_start().starts_with([']', '.']));
        }
        if !is_server && !line.is_empty() && !line.starts_with('#') {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept
}

impl MonitorInput {
    fn config(self, checker: &mut Checker<'_>) -> CheckedMonitorConfig {
        let default = CheckedMonitorConfig::default();
        let token = self.token_file.as_ref().and_then(|file| {
            let token = checker.token("monitor.token-file", file, MIN_TOKEN_BYTES)?;
            match Token::new(token.reveal()) {
                Ok(token) => Some(token),
                Err(error) => checker.wrong(&file.span(), format!("monitor.token-file: {error}")),
            }
        });
        let history = match self.history {
            Some(Parsed(HistoryLocation::Url(url))) => url,
            Some(Parsed(HistoryLocation::File(path))) => sqlite(&checker.folder.join(path)),
            None => sqlite(&checker.folder.join("hailer.db")),
        };
        let age_or = |age: Option<Parsed<SampleAge>>, default| age.map_or(default, |age| age.0);
        let keep = Retention {
            raw: age_or(self.keep.raw, default.keep.raw),
            five_minutes: age_or(self.keep.five_minutes, default.keep.five_minutes),
            hour: age_or(self.keep.hour, default.keep.hour),
            day: age_or(self.keep.day, default.keep.day),
        };
        let hosts = self.hosts;
        let hosts = hosts.map(|hosts| hosts.into_iter().map(|host| host.0).collect());
        CheckedMonitorConfig {
            listen: self.listen.map_or(default.listen, |listen| listen.0),
            history,
            interval: self.interval.map_or(default.interval, |time| time.0),
            down_after: self.down_after.map_or(default.down_after, |polls| polls.0),
            players: self.players.unwrap_or(default.players),
            keep,
            rate: self.rate.map_or(default.rate, |rate| rate.0.into()),
            max_memory: self.max_memory.map_or(default.max_memory, |bytes| bytes.0),
            token,
            charset: self.charset.map(|charset| charset.0),
            has_server_metrics: self.server_metrics.unwrap_or(default.has_server_metrics),
            hosts,
            page_host: self.page.as_deref().and_then(host_of).map(str::to_owned),
            is_behind_proxy: self.behind_proxy.unwrap_or(default.is_behind_proxy),
            has_badges: self.badges.unwrap_or(default.has_badges),
            has_widgets: self.widgets.unwrap_or(default.has_widgets),
            max_servers: self.max_servers.map_or(default.max_servers, |max| max.0),
            ..default
        }
    }
}

/// Returns the host of a URL such as `https://NAME:PORT/…`.
fn host_of(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next()?;
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    Some(name).filter(|name| !name.is_empty())
}

impl MonitoredServerInput {
    fn server(self, checker: &mut Checker<'_>) -> Option<NewServer> {
        let name_at = self.name.span();
        let target_at = self.target.span();
        let group_at = self.group.as_ref().map_or(name_at.clone(), Spanned::span);
        let labels = self.labels.0.into_iter();
        let labels_at = labels
            .as_slice()
            .first()
            .map_or(name_at.clone(), |(key, _)| key.span());
        let mut target = self.target.into_inner();
        if let Some(game) = self.game {
            match in_game(&target, game.get_ref()) {
                Ok(in_game) => target = in_game,
                Err(problem) => {
                    return checker.wrong(&game.span(), format!("server.game: {problem}"));
                }
            }
        }
        let new = NewServer {
            name: self.name.into_inner(),
            target,
            group: self.group.map(Spanned::into_inner).unwrap_or_default(),
            labels: labels
                .map(|(key, value)| (key.into_inner(), value.into_inner().0))
                .collect(),
            interval: self.interval.map(|time| time.0),
            origin: Origin::Configuration,
        };
        let mistakes = server::check(&new);
        for mistake in &mistakes {
            let span = match mistake.field.as_str() {
                "target" => &target_at,
                "group" => &group_at,
                "labels" => &labels_at,
                _ => &name_at,
            };
            let text = format!("server.{}: {}", mistake.field, mistake.message);
            checker.wrong::<()>(span, text);
        }
        mistakes.is_empty().then_some(new)
    }
}

impl MasterInput {
    fn master(self, checker: &mut Checker<'_>) -> Option<MasterConfig> {
        let url: MasterUrl = match self.url.get_ref().parse() {
            Ok(url) => url,
            Err(error) => return checker.wrong(&self.url.span(), format!("master.url: {error}")),
        };
        let labels = self.labels.0.into_iter();
        let labels = labels.map(|(key, value)| (key.into_inner(), value.into_inner().0));
        // Checks the members that all servers of the list get.
        let server = NewServer {
            group: self.group.map(Spanned::into_inner).unwrap_or_default(),
            labels: labels.collect(),
            interval: self.interval.map(|time| time.0),
            ..NewServer::new("name", "quake3://192.0.2.1", Origin::Master)
        };
        let mistakes = server::check(&server);
        for mistake in &mistakes {
            let text = format!("master.{}: {}", mistake.field, mistake.message);
            checker.wrong::<()>(&self.url.span(), text);
        }
        let refresh = Duration::from_secs(15 * 60);
        let keep = Duration::from_secs(86_400);
        mistakes.is_empty().then(|| MasterConfig {
            url,
            refresh: self.refresh.map_or(refresh, |time| time.0),
            keep: self.keep.map_or(keep, |time| time.0),
            limit: self.limit.map_or(1_000, |limit| limit.0),
            is_private_allowed: self.allow_private.unwrap_or(false),
            group: server.group,
            labels: server.labels,
            interval: server.interval,
        })
    }
}

/// Returns a target as a server of a game, or the problem.
fn in_game(target: &str, id: &str) -> Result<String, String> {
    let game = game_of(id).map_err(|problem| format!("{id:?}: {problem}"))?;
    let parsed: Target = target
        .parse()
        .map_err(|error: TargetError| error.to_string())?;
    if names_another(&parsed, game) {
        return Err(format!(
            "the target {target} names another game or a protocol; drop it, or this key"
        ));
    }
    match parsed.with_game(game) {
        Ok(target) => Ok(target.to_string()),
        Err(error) => Err(error.problem().to_owned()),
    }
}

/// Derives a server name from a target: invalid characters become dashes.
pub(crate) fn name_of(target: &str) -> String {
    let (protocol, rest) = target.split_once("://").unwrap_or(("", target));
    let mut name = String::new();
    for char in format!("{rest}-{protocol}").chars().take(64) {
        let is_good = char.is_ascii_alphanumeric() || matches!(char, '.' | '_');
        if is_good {
            name.push(char);
        } else if !name.ends_with('-') {
            name.push('-');
        }
    }
    name.trim_matches(['-', '.']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value as Json;

    fn read(text: &str) -> Result<CheckedMonitorConfig, String> {
        parse("FILE", text, Path::new("/configuration"))
            .map_err(|problems| lines_of("FILE", problems))
    }

    fn problem(text: &str) -> String {
        read(text).err().unwrap_or_default()
    }

    /// Returns the example with its optional settings, except those that need files.
    fn full_example() -> String {
        let line = |line: &str| match line.strip_prefix('#') {
            Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => {
                format!("{setting}\n")
            }
            _ => format!("{line}\n"),
        };
        EXAMPLE.lines().map(line).collect()
    }

    fn without_files(text: &str) -> String {
        // These receivers need a file or an environment variable.
        let (text, _) = text
            .split_once("[[receiver]]\nname = \"chat-with-secrets\"")
            .unwrap();
        let is_file = |line: &&str| {
            let (key, _) = line.split_once(" = ").unwrap_or_default();
            key == "user" || key.ends_with("-file") || key.ends_with("-env")
        };
        let kept = text.lines().filter(|line| !is_file(line));
        kept.map(|line| format!("{line}\n")).collect()
    }

    /// Returns the lines outside of a table.
    fn without_table(text: &str, header: &str) -> String {
        let (before, table) = text.split_once(header).unwrap();
        let (_, after) = table.split_once("\n[").unwrap();
        format!("{before}[{after}")
    }

    #[test]
    fn the_example_is_sound_with_and_without_its_optional_settings() {
        let full = without_files(&full_example());
        let problem = problem(&full);
        assert!(
            problem.contains("master: not possible with [cluster]"),
            "{problem}"
        );
        let without_cluster = without_table(&full, "[cluster]");
        assert_eq!(read(&without_cluster).unwrap().masters.len(), 1);
        let without_master = without_table(&full, "[[master]]");
        for text in [EXAMPLE.to_owned(), without_cluster, without_master] {
            let config = read(&text).unwrap_or_else(|problem| panic!("{problem}"));
            let default = CheckedMonitorConfig::default();
            assert_eq!(
                (config.max_servers, config.has_badges),
                (default.max_servers, default.has_badges)
            );
            assert_eq!(
                (config.interval, config.down_after),
                (default.interval, default.down_after)
            );
            assert_eq!((config.listen, config.rate), (default.listen, default.rate));
            assert_eq!(config.max_memory, default.max_memory);
            assert!(!config.servers.is_empty());
        }
    }

    #[test]
    fn the_schema_accepts_the_example_and_lists_every_key() {
        let schema: Json =
            serde_json::from_str(include_str!("../../../../schema/monitor-config-v1.json"))
                .unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        for text in [EXAMPLE.to_owned(), full_example()] {
            let value: Json = toml::from_str(&text).unwrap();
            let errors = validator.iter_errors(&value);
            let errors: Vec<_> = errors
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert_eq!(errors, [""; 0]);
        }
        let tables = [
            ("zzz = 1\n", ""),
            ("[monitor]\nzzz = 1\n", "/properties/monitor"),
            (
                "[monitor]\nkeep.zzz = 1\n",
                "/properties/monitor/properties/keep",
            ),
            ("[cluster]\nzzz = 1\n", "/properties/cluster"),
            ("[[server]]\nzzz = 1\n", "/properties/server/items"),
            ("[[master]]\nzzz = 1\n", "/properties/master/items"),
            ("[[alert]]\nzzz = 1\n", "/properties/alert/items"),
            ("[[receiver]]\nzzz = 1\n", "/properties/receiver/items"),
        ];
        for (text, place) in tables {
            let problem = problem(text);
            let (_, known) = problem
                .split_once("unknown key `zzz`; known are ")
                .unwrap_or_else(|| panic!("{problem}"));
            let mut known: Vec<&str> = known.lines().next().unwrap().split(", ").collect();
            known.sort_unstable();
            let properties = schema.pointer(&format!("{place}/properties"));
            let properties = properties.unwrap_or_else(|| panic!("{place}"));
            let listed: Vec<&String> = properties.as_object().unwrap().keys().collect();
            assert_eq!(known, listed, "{place}");
            for key in known {
                assert!(full_example().contains(key), "the example lacks {key}");
            }
        }
    }

    #[test]
    fn a_game_becomes_part_of_the_target() {
        let target = |target: &str, game: &str| {
            let text =
                format!("[[server]]\nname = \"a\"\ntarget = \"{target}\"\ngame = \"{game}\"\n");
            read(&text).map(|config| config.servers[0].target.clone())
        };
        assert_eq!(target("192.0.2.7", "rust"), Ok("rust://192.0.2.7".into()));
        assert_eq!(
            target("play.example.com:25566", "Minecraft"),
            Ok("minecraft://play.example.com:25566".into())
        );
        assert_eq!(target("rust://h", "rust"), Ok("rust://h".into()));
        for (text, game, expected) in [
            (
                "192.0.2.7",
                "rusty",
                "FILE:4: server.game: \"rusty\": unknown game; did you mean",
            ),
            (
                "a2s://h",
                "rust",
                "FILE:4: server.game: the target a2s://h names another game",
            ),
            (
                "dayz://h",
                "rust",
                "FILE:4: server.game: the target dayz://h names another game",
            ),
            (
                "192.0.2.7",
                "squad",
                "FILE:4: server.game: servers of Squad",
            ),
            ("a b", "rust", "FILE:4: server.game: \"a b\": "),
        ] {
            let problem = target(text, game).unwrap_err();
            assert!(problem.starts_with(expected), "{problem}");
            assert_eq!(problem.lines().count(), 1, "{problem}");
        }
    }

    #[test]
    fn max_memory_is_a_size_with_a_unit() {
        let max_memory = |size: &str| {
            read(&format!("[monitor]\nmax-memory = {size}\n")).map(|config| config.max_memory)
        };
        assert_eq!(max_memory("\"64MiB\""), Ok(64 << 20));
        assert_eq!(read("").map(|config| config.max_memory), Ok(256 << 20));
        for wrong in ["\"64\"", "\"64MB\"", "\"-1MiB\"", "67108864"] {
            let problem = max_memory(wrong).unwrap_err();
            assert!(
                problem.starts_with("FILE:2: ") && problem.contains("expected a size in quotes"),
                "{wrong}: {problem}"
            );
        }
    }

    #[test]
    fn on_loopback_only_its_own_names_are_accepted() {
        let hosts = |rest: &str| read(&format!("[monitor]\n{rest}")).unwrap().names();
        assert_eq!(hosts(""), Some(Vec::new()));
        assert_eq!(
            hosts("page = \"https://status.example.com:8443/x\"").unwrap(),
            ["status.example.com"]
        );
        assert_eq!(hosts("listen = \"0.0.0.0:80\""), None);
        assert_eq!(
            hosts("listen = \"0.0.0.0:80\"\nhosts = [\"a\"]").unwrap(),
            ["a"]
        );
        assert_eq!(
            read("").unwrap().names(),
            Some(Vec::new()),
            "as without a file"
        );
    }

    #[test]
    fn errors_name_line_key_and_fix() {
        for (text, expected) in [
            ("hosts = 7", "FILE:2: monitor.hosts: expected a list"),
            (
                "hosts = [\"https://a\"]",
                "FILE:2: monitor.hosts: \"https://a\": expected a name such as",
            ),
            ("hosts = [\"a:80\"]", "without scheme and port"),
            (
                "behind-proxy = 1",
                "FILE:2: monitor.behind-proxy: expected true or false",
            ),
            ("badges = \"no\"", "FILE:2: monitor.badges: "),
            (
                "max-servers = -1",
                "FILE:2: monitor.max-servers: expected a whole number from 0",
            ),
            ("max_servers = 5", "did you mean `max-servers`?"),
            ("behind_proxy = true", "did you mean `behind-proxy`?"),
            ("players = \"nams\"", "did you mean `names`?"),
            (
                "keep.raw = \"1h\"",
                "FILE:2: monitor.keep.raw: expected at least \"2d\"",
            ),
            (
                "history = \"mysql://h\"",
                "FILE:2: monitor.history: expected the path of a file",
            ),
            ("[cluster]", "FILE:2: cluster: missing key `url`"),
            (
                "[cluster]\nurl = \"http://h\"",
                "FILE:3: cluster.url: must begin with redis://",
            ),
            (
                "[cluster]\nurl = \"redis://h\"\nroles = [\"pol\"]",
                "did you mean `poll`?",
            ),
            (
                "[[server]]\nname = \"a\"",
                "FILE:2: server: missing key `target`",
            ),
            (
                "[[server]]\nname = \"a\"\ntarget = \"ugb://h\"",
                "FILE:4: server.target: ",
            ),
            (
                "[[server]]\nname = \"a\"\ntarget = \"ugp://h\"\n[[server]]\nname = \"a\"\ntarget = \"ugp://i\"",
                "FILE:5: server.name: the server of line 2 has the name \"a\" as well",
            ),
            (
                "[[server]]\nname = \"a\"\ntarget = \"ugp://h:7\"\n[[server]]\nname = \"b\"\ntarget = \"a2s://H:7\"",
                "FILE:5: server.target: \"a\" of line 2 has the same address and query port",
            ),
            (
                "[[server]]\nname = \"a\"\ntarget = \"ugp://h\"\nwas = \"a\"",
                "FILE:5: server.was: the server of line 2 has the name \"a\"",
            ),
            (
                "[[server]]\nname = \"a\"\ntarget = \"ugp://h\"\nwas = \"/\"",
                "FILE:5: server.was: 1 to 64 letters",
            ),
            (
                "[[alert]]\nname = \"a\"\nwhen = \"dwn\"\nto = [\"x\"]",
                "FILE:4: alert.when: unknown value",
            ),
        ] {
            let problem = problem(&format!("[monitor]\n{text}"));
            assert!(
                problem.contains(expected),
                "{text}: {problem:?} has no {expected:?}"
            );
            assert_eq!(problem.lines().count(), 1, "{problem}");
        }
    }

    #[test]
    fn a_former_name_is_a_rename() {
        let text = "[[server]]\nname = \"new\"\ntarget = \"ugp://h\"\nwas = \"old\"\n";
        let config = read(text).unwrap();
        assert_eq!(config.renames, [("new".to_owned(), "old".to_owned())]);
        assert_eq!(config.servers[0].name, "new");
    }

    #[test]
    fn all_mistakes_are_reported() {
        let text = "[monitor]\ninterval = 5\n[[server]]\nname = \"/\"\ntarget = \"ugp://h\"\n\
            [[server]]\ntarget = \"ugp://h\"\n[[alert]]\nname = \"a\"\n";
        let problems = problem(text);
        let lines: Vec<_> = problems
            .lines()
            .filter_map(|line| line.split(':').nth(1))
            .collect();
        assert_eq!(lines, ["2", "4", "6", "8"], "{problems}");
    }

    #[test]
    fn a_change_outside_of_servers_is_noticed() {
        let others = |text: &str| read(text).unwrap().others;
        let one = "[monitor]\nrate = 1\n[[server]]\nname = \"a\"\ntarget = \"ugp://h\"\n[server.labels]\na = 1\n";
        let two = "# Comment\n[monitor]\nrate = 1\n";
        assert_eq!(others(one), others(two));
        assert_ne!(others(one), others("[monitor]\nrate = 2\n"));
    }
}
