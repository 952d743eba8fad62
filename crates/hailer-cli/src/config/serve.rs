//! Configuration file of `hailer serve`: its keys, and their conversion.

use super::action::ActionKeys;
use super::checker::Checker;
use super::door::table::DoorInput;
use super::network::{self, NetworkInput};
use super::reader::{
    self, Blocks, FromShort, FromText, IntegerBetween, OneOrMany, Ordered, Parsed, Problem, TextOr,
    Time,
};
use super::receivers::{self, ReceiverInput};
use super::status::StatusConfig;
use super::streams::{self, RELAY_ONLY, RelayTo};
use super::{
    ExternalSource, HookAction, HookConfig, ListenConfig, MIN_TOKEN_BYTES, PushConfig, ServeConfig,
    ServerConfig, SourceOrigin, StatusSource,
};
use crate::files::folder_of;
use crate::observe::{Control, ObserverConfig};
use crate::simulated::population::Population;
use crate::values::wrong_port;
use hailer::client::ClientConfig;
use hailer::door::GameAddress;
use hailer::proto::model::{Value, colored};
use hailer::proto::registry;
use hailer::proto::{Discovery, Keys, Options, Protocol};
use hailer::respond::source::poll::{MIN_EVERY, Poll};
use hailer::respond::source::push::Place;
use hailer::respond::source::{Policy, Stale, Wording};
use hailer::respond::{PoolConfig, RelayVerification, StreamConfig};
use hailer::support::address_range::AddressRange;
use hailer::support::catalog::closest;
use hailer::{Status, Target};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use toml::Spanned;

/// Default time between two runs of `on-join`.
const HOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Content of the configuration file.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct ServeFileInput {
    server: Blocks<ServerInput>,
    receiver: Blocks<ReceiverInput>,
    engine: EngineInput,
    observe: ObserveInput,
    /// File with games, which is read before the other keys.
    games: Option<PathBuf>,
}

/// A table `[[server]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ServerInput {
    pub(super) listen: OneOrMany<Spanned<String>>,
    pub(super) protocols: Vec<Spanned<String>>,
    pub(super) status: Option<StatusConfig>,
    pub(super) demo: Option<Spanned<IntegerBetween<u64, 0, { i64::MAX }>>>,
    source: Option<Spanned<SourceInput>>,
    network: Option<Spanned<NetworkInput>>,
    stale_after: Option<Spanned<Parsed<Time<1_000>>>>,
    stale: Option<Spanned<StaleInput>>,
    stale_text: Option<Spanned<Parsed<Wording>>>,
    pub(super) options: Ordered<ProtocolOptions>,
    secret: Option<Parsed<SharedSecret>>,
    relay: OneOrMany<Spanned<Parsed<RelayTo>>>,
    also: OneOrMany<Spanned<Parsed<FurtherPort>>>,
    hosts: OneOrMany<Spanned<String>>,
    trusted_proxies: OneOrMany<Spanned<Parsed<AddressRange>>>,
    proxy_protocol: Option<Spanned<IntegerBetween<u8, 1, 2>>>,
    on_join: Option<Spanned<HookInput>>,
    door: Option<Spanned<DoorInput>>,
    pub(super) lan_announce: Option<Spanned<bool>>,
    name: Option<Spanned<Parsed<ServerName>>>,
}

/// Options of a protocol by key.
pub(super) type ProtocolOptions = BTreeMap<String, Spanned<toml::Value>>;

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct SourceInput {
    file: Option<Spanned<PathBuf>>,
    poll: Option<Spanned<TextOr<PollInput>>>,
    push: Option<Spanned<PushInput>>,
    redis: Option<Spanned<IgnoredAny>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PollInput {
    target: Parsed<Target>,
    every: Option<Parsed<Time<{ MIN_EVERY.as_millis() as u64 }>>>,
    #[serde(default)]
    keep_address: bool,
    auth_token_file: Option<Spanned<PathBuf>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct PushInput {
    listen: Spanned<Parsed<Place>>,
    token_file: Spanned<PathBuf>,
    name: Option<Parsed<PushName>>,
    #[serde(default)]
    insecure: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct HookInput {
    command: Option<Spanned<Vec<String>>>,
    url: Option<Spanned<String>>,
    url_file: Option<Spanned<PathBuf>>,
    every: Option<Parsed<Time<1_000>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum StaleInput {
    Serve,
    Say,
    Silent,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct EngineInput {
    workers: IntegerBetween<usize, 0, 1_024>,
    budget: BudgetInput,
    relay: RelayInput,
    connections: ConnectionsInput,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct BudgetInput {
    unverified_per_source: Option<TextOr<AllowanceInput>>,
    unverified_total: Option<TextOr<AllowanceInput>>,
    verified_per_source: Option<TextOr<AllowanceInput>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct AllowanceInput {
    bytes: Option<Parsed<BytesPerSecond>>,
    packets: Option<IntegerBetween<u32, 1, { u32::MAX as i64 }>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct RelayInput {
    sessions: Option<IntegerBetween<usize, 1, 65_536>>,
    idle: Option<Parsed<Time<1_000>>>,
    connections: Option<IntegerBetween<usize, 1, 65_536>>,
    connections_per_network: Option<IntegerBetween<usize, 1, 65_536>>,
    connection_idle: Option<Parsed<Time<1_000>>>,
    held: Option<IntegerBetween<usize, 0, 65_536>>,
    held_per_network: Option<IntegerBetween<usize, 0, 65_536>>,
    verify: Option<VerifyInput>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum VerifyInput {
    Echo,
    Ratio,
    Off,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct ConnectionsInput {
    total: Option<IntegerBetween<usize, 1, 65_536>>,
    per_network: Option<IntegerBetween<usize, 1, 65_536>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
struct ObserveInput {
    metrics: Option<Parsed<LoopbackAddress>>,
    control: Option<Spanned<PathBuf>>,
}

/// A loopback address.
enum LoopbackAddress {}

impl FromText for LoopbackAddress {
    type Value = SocketAddr;
    const EXPECTED: &'static str = "a loopback address and a port, such as \"127.0.0.1:9100\"";

    fn parse(text: &str) -> Option<SocketAddr> {
        text.parse().ok()
    }

    fn from_text(text: &str) -> Result<SocketAddr, String> {
        match Self::parse(text) {
            Some(address) if address.ip().is_loopback() => Ok(address),
            Some(_) => Err(format!(
                "{text:?}: other machines could read them; write {}",
                Self::EXPECTED
            )),
            None => Err(format!("{text:?}: expected {}", Self::EXPECTED)),
        }
    }
}

/// A further port of a game over UDP.
enum FurtherPort {}

impl FromText for FurtherPort {
    type Value = u16;
    const EXPECTED: &'static str = "a port of the game such as \"udp:24454\"";

    fn parse(text: &str) -> Option<u16> {
        let port = text.strip_prefix("udp:")?.parse().ok()?;
        (port > 0).then_some(port)
    }
}

impl FromText for Target {
    type Value = Self;
    const EXPECTED: &'static str = "a server such as \"minecraft-query://127.0.0.1:25566\"";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse()
            .map_err(|error| format!("{error}; expected {}", Self::EXPECTED))
    }
}

impl FromShort for PollInput {
    const EXPECTED: &'static str = <Target as FromText>::EXPECTED;

    fn from_short(text: &str) -> Result<Self, String> {
        Ok(Self {
            target: Parsed(Target::from_text(text)?),
            every: None,
            keep_address: false,
            auth_token_file: None,
        })
    }
}

impl FromText for Place {
    type Value = Self;
    const EXPECTED: &'static str = if cfg!(unix) {
        "\"ADDRESS:PORT\" or \"unix:PATH\""
    } else {
        "\"ADDRESS:PORT\""
    };

    fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            Some(path) if cfg!(unix) => Some(Self::Path(path.into())),
            _ => text.parse().ok().map(Self::Address),
        }
    }
}

/// Name of a server for people and commands.
enum ServerName {}

impl FromText for ServerName {
    type Value = String;
    const EXPECTED: &'static str =
        "a name of 1 to 64 letters, digits, dots, hyphens and underscores";

    fn parse(text: &str) -> Option<String> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name =
            (1..=64).contains(&text.len()) && text.bytes().all(is_good) && !text.starts_with('-');
        is_name.then(|| text.into())
    }
}

/// Records a mistake for each name that two servers share.
fn check_names(servers: &[Spanned<ServerInput>], checker: &mut Checker<'_>) {
    let mut taken = BTreeMap::new();
    for name in servers
        .iter()
        .filter_map(|server| server.get_ref().name.as_ref())
    {
        let text = &name.get_ref().0;
        if let Some(first) = taken.insert(text, checker.line(&name.span())) {
            let text = format!("server.name: {text:?} is the name of the server of line {first}");
            checker.wrong::<()>(&name.span(), text);
        }
    }
}

/// The last part of an address of the listener for pushed statuses.
enum PushName {}

impl FromText for PushName {
    type Value = String;
    const EXPECTED: &'static str = "a name of letters, digits, dots, hyphens and underscores";
    const IS_QUOTED: bool = false;

    fn parse(text: &str) -> Option<String> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (!text.is_empty() && text.bytes().all(is_good)).then(|| text.into())
    }
}

impl FromText for Wording {
    type Value = Self;
    const EXPECTED: &'static str = "a text in quotes, in which {text} and {age} are replaced";

    fn parse(text: &str) -> Option<Self> {
        Self::from_text(text).ok()
    }

    fn from_text(text: &str) -> Result<Self, String> {
        let wording: Result<Self, _> = colored(text).parse();
        wording.map_err(|error| error.to_string())
    }
}

/// Secret of challenge tokens. Errors never contain it.
enum SharedSecret {}

impl FromText for SharedSecret {
    type Value = [u8; 16];
    const EXPECTED: &'static str =
        "32 hexadecimal digits, the same on every node that shares the secret";
    const IS_QUOTED: bool = false;

    fn parse(text: &str) -> Option<[u8; 16]> {
        let is_hex = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex);
        number.map(u128::to_be_bytes)
    }
}

/// Bytes per second.
enum BytesPerSecond {}

impl FromText for BytesPerSecond {
    type Value = u32;
    const EXPECTED: &'static str = "bytes per second such as \"8KiB\"";

    fn parse(text: &str) -> Option<u32> {
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
        let unit = match text[digits.len()..].trim().to_ascii_lowercase().as_str() {
            "b" | "" => 1,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "kib" => 1 << 10,
            "mib" => 1 << 20,
            _ => return None,
        };
        let bytes = digits.parse::<u32>().ok()?.checked_mul(unit)?;
        (bytes > 0).then_some(bytes)
    }

    fn from_text(text: &str) -> Result<u32, String> {
        Self::parse(text).ok_or_else(|| {
            format!(
                "{text:?}: expected {}; units are B, kB, MB, KiB and MiB, up to 4 GiB",
                Self::EXPECTED
            )
        })
    }
}

impl FromShort for AllowanceInput {
    const EXPECTED: &'static str =
        "bytes per second such as \"8KiB\", or { bytes = \"8KiB\", packets = 40 }";

    fn from_short(text: &str) -> Result<Self, String> {
        let bytes = Some(Parsed(BytesPerSecond::from_text(text)?));
        Ok(Self {
            bytes,
            packets: None,
        })
    }
}

/// Parses a configuration. Returns it with its warnings, or all its mistakes.
pub(super) fn parse(
    text: &str,
    folder: &Path,
) -> Result<(ServeConfig, Vec<Problem>), Vec<Problem>> {
    let document = reader::read::<ServeFileInput>(text);
    let mut checker = Checker::new(folder, &document.lines, document.problems);
    let file = document.value.unwrap_or_default();
    let mut servers = Vec::new();
    for block in &file.server.0 {
        // In a table with a mistake, errors about missing keys would mislead.
        if !document.broken.contains(&block.span().start)
            && let Some(server) = block.get_ref().server(&block.span(), &mut checker)
        {
            servers.push((block.span(), server));
        }
    }
    streams::check_addresses(&servers, &mut checker);
    check_names(&file.server.0, &mut checker);
    check_push(&file.server.0, &mut checker);
    let observe = file.observe.config(&mut checker);
    let receivers = receivers::open(&file.receiver.0, &mut checker);
    if checker.problems.is_empty() && servers.is_empty() {
        checker.wrong::<()>(&(0..0), "no server; write at least one [[server]] block");
    }
    if !checker.problems.is_empty() {
        return Err(checker.problems);
    }
    let config = ServeConfig {
        servers: servers.into_iter().map(|(_, server)| server).collect(),
        receivers,
        engine: file.engine.config(),
        observe,
    };
    Ok((config, checker.warnings))
}

/// Merges listeners with the same address: a protocol over UDP and one over TCP often have the same
/// port. Those with port 0 get different ports.
fn merge(listeners: Vec<ListenConfig>) -> Vec<ListenConfig> {
    let mut merged: Vec<ListenConfig> = Vec::new();
    for listener in listeners {
        let mut earlier = merged.iter_mut();
        let is_same = |earlier: &&mut ListenConfig| {
            listener.address.port() != 0 && earlier.address == listener.address
        };
        let Some(same) = earlier.find(is_same) else {
            merged.push(listener);
            continue;
        };
        for (protocol, options) in listener.protocols {
            let id = protocol.info().id;
            if same
                .protocols
                .iter()
                .all(|(known, _)| known.info().id != id)
            {
                same.protocols.push((protocol, options));
            }
        }
    }
    merged
}

/// Records a mistake for each push that does not identify one server.
fn check_push(servers: &[Spanned<ServerInput>], checker: &mut Checker<'_>) {
    let mut taken = BTreeMap::new();
    for server in servers {
        let source = server.get_ref().source.as_ref().map(Spanned::get_ref);
        let Some(push) = source.and_then(|source| source.push.as_ref()) else {
            continue;
        };
        let name = push.get_ref().name.as_ref().map(|name| &name.0);
        let place = &push.get_ref().listen.get_ref().0;
        if let Some(first) = taken.insert((place, name), checker.line(&push.span())) {
            let fix = "give each its own name, as in source.push = { name = \"lobby\", … }";
            let text = format!("server.source.push: the same as in line {first}; {fix}");
            checker.wrong::<()>(&push.span(), text);
        }
    }
}

/// Returns whether an entry of `listen` has no protocols.
fn is_relay_only(listen: &str) -> bool {
    listen
        .split_once('=')
        .is_some_and(|(id, _)| id == RELAY_ONLY)
}

/// Returns whether servers of a protocol announce themselves to the local network.
pub(crate) fn announces(protocol: &dyn Protocol) -> bool {
    let mut ways = protocol.info().discovery.iter();
    ways.any(|direction| matches!(direction, Discovery::Announcement { .. }))
}

impl ServerInput {
    /// Returns the configuration of the server, or `None` after a mistake.
    pub(super) fn server(
        &self,
        block: &Range<usize>,
        checker: &mut Checker<'_>,
    ) -> Option<ServerConfig> {
        let mistakes = checker.problems.len();
        let protocols = self.protocols(checker);
        let mut listeners = self.listeners(&protocols, checker);
        self.check_options(&protocols, checker);
        let (relay, relay_tcp) = self.relay(&listeners, checker);
        let streams = self.streams(&protocols, relay_tcp.is_some(), checker);
        listeners.extend(self.further_ports(&listeners, relay.is_some(), checker));
        let on_join = self.on_join(&protocols, checker);
        let lan_announce = self.lan_announce(&protocols, checker);
        self.check_exclusions(checker);
        let stale = self.stale(checker);
        let status = self.status.as_ref().map(|status| status.status(checker));
        let network = match &self.network {
            Some(network) => network::config(network, status.as_ref(), checker).map(Box::new),
            None => None,
        };
        let door = match &self.door {
            Some(door) => {
                let max = self.status.as_ref().and_then(|status| status.max_players);
                let status = status.clone();
                let status = status.unwrap_or_else(|| StatusConfig::default().status(checker));
                let input = door.get_ref();
                let config =
                    input.config(&door.span(), &listeners, (status, max.is_some()), checker);
                Some(Box::new(config?))
            }
            None => None,
        };
        let source = match (&self.demo, &self.source) {
            (Some(seed), _) => {
                let seed = seed.get_ref().0;
                StatusSource::Demo(Population { seed })
            }
            (None, Some(source)) => StatusSource::External(Box::new(ExternalSource {
                origin: source.get_ref().origin(&source.span(), checker)?,
                policy: Policy {
                    before: status.map(Arc::new),
                    stale_after: self.stale_after.as_ref().map(|time| time.get_ref().0),
                    stale,
                },
            })),
            (None, None) => {
                if self.status.is_none() && door.is_none() {
                    let text = "server: no status, so clients see an empty server; add status = { name = …, max-players = … } or a source";
                    checker.warn(block, text);
                }
                let status = status.unwrap_or_else(|| StatusConfig::default().status(checker));
                StatusSource::Fixed(Box::new(status))
            }
        };
        (checker.problems.len() == mistakes).then_some(ServerConfig {
            name: self.name.as_ref().map(|name| name.get_ref().0.clone()),
            source,
            network,
            listeners,
            relay,
            relay_tcp,
            streams,
            on_join,
            door,
            lan_announce,
        })
    }

    /// Returns whether to announce the server. That needs a protocol with announcements.
    fn lan_announce(
        &self,
        protocols: &[(&'static dyn Protocol, Options)],
        checker: &mut Checker<'_>,
    ) -> bool {
        let Some(lan_announce) = self.lan_announce.as_ref().filter(|flag| *flag.get_ref()) else {
            return false;
        };
        let can_announce = protocols.iter().any(|(protocol, _)| announces(*protocol));
        if !can_announce {
            let text = "server.lan-announce: only Minecraft Status has announcements; add it, as in protocols = [\"minecraft-status\"]";
            checker.wrong::<()>(&lan_announce.span(), text);
        }
        can_announce
    }

    fn check_exclusions(&self, checker: &mut Checker<'_>) {
        if let Some(demo) = &self.demo {
            let others = [
                (self.status.is_some(), "status"),
                (self.source.is_some(), "source"),
                (self.network.is_some(), "network"),
            ];
            if let Some((_, other)) = others.iter().find(|(is_set, _)| *is_set) {
                let text = format!("server: demo and {other} exclude each other; keep one");
                checker.wrong::<()>(&demo.span(), text);
            }
        }
        if let Some(door) = &self.door {
            let others = [
                (self.demo.is_some(), "demo"),
                (self.source.is_some(), "source"),
                (self.network.is_some(), "network"),
                (!self.relay.0.is_empty(), "relay"),
            ];
            if let Some((_, other)) = others.iter().find(|(is_set, _)| *is_set) {
                let text = format!(
                    "server: door and {other} exclude each other; the door polls the game, and passes clients on to it"
                );
                checker.wrong::<()>(&door.span(), text);
            }
        }
        let stale = self.stale.as_ref().map(Spanned::span);
        let text = self.stale_text.as_ref().map(Spanned::span);
        let after = self.stale_after.as_ref().map(Spanned::span);
        if let (None, Some(span)) = (
            &self.source,
            after.clone().or(stale.clone()).or(text.clone()),
        ) {
            let text = "server.stale: needs a source; add source.file, source.poll or source.push";
            checker.wrong::<()>(&span, text);
        } else if let (None, Some(span)) = (after, stale.or(text)) {
            let text = "server.stale: needs stale-after as well, such as stale-after = \"1min\"";
            checker.wrong::<()>(&span, text);
        }
    }

    /// Returns the behavior for a stale status. The default is `"say"`.
    fn stale(&self, checker: &mut Checker<'_>) -> Stale {
        let mode = self.stale.as_ref().map(|mode| *mode.get_ref());
        if let (Some(StaleInput::Serve | StaleInput::Silent), Some(text)) = (mode, &self.stale_text)
        {
            let problem = "server.stale-text: only works with stale = \"say\"";
            checker.wrong::<()>(&text.span(), problem);
        }
        match mode {
            _ if self.stale_after.is_none() => Stale::default(),
            Some(StaleInput::Serve) => Stale::Serve,
            Some(StaleInput::Silent) => Stale::Silent,
            Some(StaleInput::Say) | None => {
                let text = self
                    .stale_text
                    .as_ref()
                    .map(|text| text.get_ref().0.clone());
                Stale::Say(text.unwrap_or_default())
            }
        }
    }

    /// Returns the protocols with their options: those of the key, or else those that all listeners
    /// name, or else the default ones. With `on-join`, `hosts` or a door, protocols that report joins are in the
    /// default too: otherwise, the TCP port usually belongs to the game.
    fn protocols(&self, checker: &mut Checker<'_>) -> Vec<(&'static dyn Protocol, Options)> {
        let mut chosen: Vec<&'static dyn Protocol> = Vec::new();
        for id in &self.protocols {
            match find_responder("server.protocols", id.get_ref()) {
                Ok(protocol) => chosen.push(protocol),
                Err(problem) => drop(checker.wrong::<()>(&id.span(), problem)),
            }
        }
        let names_protocol = |text: &Spanned<String>| text.get_ref().contains('=');
        let listeners = &self.listen.0;
        if self.protocols.is_empty()
            && !listeners.is_empty()
            && listeners.iter().all(names_protocol)
        {
            for listen in listeners {
                let id = listen.get_ref().split('=').next().unwrap_or_default();
                if id == RELAY_ONLY {
                    continue;
                }
                if chosen.iter().any(|protocol| protocol.info().id == id) {
                    continue;
                }
                // `listeners` reports unknown ones.
                chosen.extend(find_responder("", id));
            }
        } else if self.protocols.is_empty() {
            chosen.extend(registry::defaults());
            if self.on_join.is_some() || !self.hosts.0.is_empty() || self.door.is_some() {
                let streams = registry::PROTOCOLS.iter().copied();
                chosen.extend(streams.filter(|protocol| protocol.info().has_join_attempts));
            }
        }
        let options = |id: &str| {
            let mut entries = self.options.0.iter();
            let found = entries.find(|(name, _)| name.get_ref() == id);
            let values = found.into_iter().flat_map(|(_, values)| values.get_ref());
            let option = |(key, value): (&String, &Spanned<toml::Value>)| {
                (key.clone(), option_value(value.get_ref()))
            };
            Options(values.map(option).collect())
        };
        chosen
            .into_iter()
            .map(|protocol| (protocol, options(protocol.info().id)))
            .collect()
    }

    fn check_options(
        &self,
        protocols: &[(&'static dyn Protocol, Options)],
        checker: &mut Checker<'_>,
    ) {
        for (id, values) in &self.options.0 {
            if let Err(text) = find("server.options", id.get_ref()) {
                checker.wrong::<()>(&id.span(), text);
            }
            let mut chosen = protocols.iter();
            let Some((protocol, options)) =
                chosen.find(|(protocol, _)| protocol.info().id == id.get_ref())
            else {
                continue;
            };
            let keys = Keys::new([0; 16]);
            if let Err(error) = protocol.responder(&Status::default(), &keys, options) {
                let span = values
                    .get_ref()
                    .get(&error.key)
                    .map_or(id.span(), Spanned::span);
                let text = format!("server.options.{}.{error}", id.get_ref());
                checker.wrong::<()>(&span, text);
            }
        }
    }

    /// Returns the listeners. The default addresses are on loopback.
    fn listeners(
        &self,
        protocols: &[(&'static dyn Protocol, Options)],
        checker: &mut Checker<'_>,
    ) -> Vec<ListenConfig> {
        let secret = self.secret.as_ref().map(|secret| secret.0);
        let each_on_its_own_port = |ip: IpAddr| {
            protocols
                .iter()
                .map(move |(protocol, options)| ListenConfig {
                    address: (ip, protocol.info().port).into(),
                    protocols: vec![(*protocol, options.clone())],
                    secret,
                    is_further: false,
                })
        };
        if self.listen.0.is_empty() {
            return merge(each_on_its_own_port(Ipv4Addr::LOCALHOST.into()).collect());
        }
        let mut listeners = Vec::new();
        for listen in &self.listen.0 {
            let text = listen.get_ref();
            let address = text.split_once('=').map_or(&**text, |(_, address)| address);
            let fix = wrong_port(address).unwrap_or_else(|| {
                "expected ADDRESS, ADDRESS:PORT or PROTOCOL=ADDRESS:PORT".into()
            });
            let wrong = format!("listen {text:?}: {fix}");
            if let Some((id, address)) = text.split_once('=') {
                let relay_only = address.parse().ok().filter(|_| id == RELAY_ONLY);
                if let Some(address) = relay_only {
                    listeners.push(ListenConfig {
                        address,
                        protocols: Vec::new(),
                        secret,
                        is_further: false,
                    });
                    continue;
                }
                let mut chosen = protocols.iter();
                let chosen = chosen.find(|(protocol, _)| protocol.info().id == id);
                match (chosen, address.parse()) {
                    (Some(chosen), Ok(address)) => listeners.push(ListenConfig {
                        address,
                        protocols: vec![chosen.clone()],
                        secret,
                        is_further: false,
                    }),
                    (None, _) if id != RELAY_ONLY => {
                        let key = format!("listen {text:?}");
                        let text = find_responder(&key, id).map_or_else(
                            |problem| problem,
                            |_| format!("{key}: {id:?} is not among the protocols"),
                        );
                        checker.wrong::<()>(&listen.span(), text);
                    }
                    _ => drop(checker.wrong::<()>(&listen.span(), wrong)),
                }
            } else if let Ok(address) = text.parse() {
                let protocols = protocols.to_vec();
                listeners.push(ListenConfig {
                    address,
                    protocols,
                    secret,
                    is_further: false,
                });
            } else {
                match text.trim_start_matches('[').trim_end_matches(']').parse() {
                    Ok(ip) => listeners.extend(each_on_its_own_port(ip)),
                    Err(_) => drop(checker.wrong::<()>(&listen.span(), wrong)),
                }
            }
        }
        merge(listeners)
    }

    fn on_join(
        &self,
        protocols: &[(&'static dyn Protocol, Options)],
        checker: &mut Checker<'_>,
    ) -> Option<HookConfig> {
        let input = self.on_join.as_ref()?;
        let has_join_attempts =
            |(protocol, _): &(&'static dyn Protocol, Options)| protocol.info().has_join_attempts;
        if !protocols.iter().any(has_join_attempts) {
            let text = "server.on-join: players join over TCP; add minecraft-status to protocols";
            return checker.wrong(&input.span(), text);
        }
        let every = input.get_ref().every.as_ref();
        Some(HookConfig {
            action: input.get_ref().action(&input.span(), checker)?,
            every: every.map_or(HOOK_INTERVAL, |every| every.0),
        })
    }

    /// Returns the listeners of further ports of the game: one on each address.
    fn further_ports(
        &self,
        listeners: &[ListenConfig],
        has_relay: bool,
        checker: &mut Checker<'_>,
    ) -> Vec<ListenConfig> {
        let mut further: Vec<ListenConfig> = Vec::new();
        for also in &self.also.0 {
            let port = also.get_ref().0;
            if !has_relay && self.door.is_none() {
                let text = "server.also: needs the game; add relay = \"HOST:PORT\" or a door";
                checker.wrong::<()>(&also.span(), text);
                continue;
            }
            for listener in listeners {
                let address = SocketAddr::new(listener.address.ip(), port);
                if listeners.iter().any(|known| known.address == address) {
                    let text = format!("server.also: this server listens on {address} already");
                    checker.wrong::<()>(&also.span(), text);
                    break;
                }
                if further.iter().all(|known| known.address != address) {
                    further.push(ListenConfig {
                        address,
                        protocols: Vec::new(),
                        secret: listener.secret,
                        is_further: true,
                    });
                }
            }
        }
        further
    }

    /// Returns the games that get datagrams and connections.
    fn relay(
        &self,
        listeners: &[ListenConfig],
        checker: &mut Checker<'_>,
    ) -> (Option<GameAddress>, Option<GameAddress>) {
        let mut udp = None;
        let mut tcp = None;
        for relay in &self.relay.0 {
            let (game, transport) = match &relay.get_ref().0 {
                RelayTo::Udp(game) => (game, "udp"),
                RelayTo::Tcp(game) => (game, "tcp"),
            };
            let is_here = |at: SocketAddr| {
                game.literal().is_some_and(|to| {
                    let is_any = at.ip().is_unspecified()
                        && to.ip().is_loopback()
                        && at.is_ipv4() == to.is_ipv4();
                    at.port() == to.port() && (at.ip() == to.ip() || is_any)
                })
            };
            let problem = match transport {
                _ if listeners.iter().any(|listener| is_here(listener.address)) => {
                    format!("this server listens on {game} itself; write the address of the game")
                }
                "udp" if udp.is_some() => "datagrams go to one game; keep one entry".into(),
                "tcp" if tcp.is_some() => {
                    "connections go to one game; keep one entry with tcp:".into()
                }
                _ if game
                    .literal()
                    .is_some_and(|to| to.port() == 0 || to.ip().is_unspecified()) =>
                {
                    format!("{game} is not the address of a game server")
                }
                "udp" => {
                    udp = Some(game.clone());
                    continue;
                }
                _ => {
                    tcp = Some(game.clone());
                    continue;
                }
            };
            checker.wrong::<()>(&relay.span(), format!("server.relay: {problem}"));
        }
        let has_relay = !self.relay.0.is_empty();
        let without_protocols = self
            .listen
            .0
            .iter()
            .find(|listen| is_relay_only(listen.get_ref()));
        if let Some(listen) = without_protocols.filter(|_| !has_relay && self.door.is_none()) {
            let text = format!(
                "listen {:?}: needs a game as well; add relay = \"tcp:HOST:PORT\" or relay = \"udp:HOST:PORT\"",
                listen.get_ref()
            );
            checker.wrong::<()>(&listen.span(), text);
        }
        (udp, tcp)
    }

    /// Returns the hosts and proxies of connections.
    fn streams(
        &self,
        protocols: &[(&'static dyn Protocol, Options)],
        has_relay: bool,
        checker: &mut Checker<'_>,
    ) -> StreamConfig {
        let infos = || protocols.iter().map(|(protocol, _)| protocol.info());
        let has_joins = infos().any(|info| info.has_join_attempts);
        if let Some(host) = self.hosts.0.first().filter(|_| !has_joins) {
            let text = "server.hosts: only Minecraft clients send the host; add minecraft-status to protocols";
            checker.wrong::<()>(&host.span(), text);
        }
        let is_connected = has_relay || infos().any(|info| info.transport.is_connected());
        let key = match (&self.proxy_protocol, self.trusted_proxies.0.first()) {
            (Some(version), _) => Some(("proxy-protocol", version.span())),
            (None, Some(range)) => Some(("trusted-proxies", range.span())),
            (None, None) => None,
        };
        if let Some((key, span)) = key.filter(|_| !is_connected) {
            let text = format!(
                "server.{key}: needs connections; add a protocol over TCP, such as minecraft-status"
            );
            checker.wrong::<()>(&span, text);
        }
        let ranges = self.trusted_proxies.0.iter();
        let version = self
            .proxy_protocol
            .as_ref()
            .map(|version| version.get_ref().0);
        streams::config(
            &self.hosts.0,
            ranges.map(|range| range.get_ref().0).collect(),
            version,
            checker,
        )
    }
}

impl HookInput {
    fn action(&self, span: &Range<usize>, checker: &mut Checker<'_>) -> Option<HookAction> {
        let keys = ActionKeys {
            command: self.command.as_ref(),
            url: self.url.as_ref(),
            url_file: self.url_file.as_ref(),
        };
        keys.action("server.on-join", span, checker)
    }
}

impl SourceInput {
    fn origin(&self, span: &Range<usize>, checker: &mut Checker<'_>) -> Option<SourceOrigin> {
        const KEYS: &str =
            "source.file = \"PATH\", source.poll = { target = … } or source.push = { listen = … }";
        if let Some(redis) = &self.redis {
            let fix = "write network = { url = …, server-id = … }, which works with every source";
            return checker.wrong(
                &redis.span(),
                format!("server.source.redis: replaced by network; {fix}"),
            );
        }
        match (&self.file, &self.poll, &self.push) {
            (Some(file), None, None) => file_origin(file, checker),
            (None, Some(poll), None) => poll.get_ref().0.origin(checker),
            (None, None, Some(push)) => push.get_ref().origin(checker),
            (file, poll, push) => {
                let spans = [
                    file.as_ref().map(Spanned::span),
                    poll.as_ref().map(Spanned::span),
                    push.as_ref().map(Spanned::span),
                ];
                let last = spans.into_iter().flatten().max_by_key(|span| span.start);
                let text = format!("server.source: exactly one is needed: {KEYS}");
                checker.wrong(&last.unwrap_or(span.clone()), text)
            }
        }
    }
}

fn file_origin(file: &Spanned<PathBuf>, checker: &mut Checker<'_>) -> Option<SourceOrigin> {
    let path = checker.folder.join(file.get_ref());
    // The file may be created later. A missing folder is probably a typing error.
    let problem = if file.get_ref().as_os_str().is_empty() || path.is_dir() {
        "is a folder"
    } else if !folder_of(&path).is_dir() {
        "is in a folder that does not exist"
    } else {
        return Some(SourceOrigin::File(path));
    };
    let text = format!(
        "server.source.file: {} {problem}; expected the path of a JSON file",
        path.display()
    );
    checker.wrong(&file.span(), text)
}

impl PollInput {
    fn origin(&self, checker: &mut Checker<'_>) -> Option<SourceOrigin> {
        let mut poll = Poll::new(self.target.0.clone());
        poll.every = self.every.as_ref().map_or(poll.every, |every| every.0);
        poll.has_address = self.keep_address;
        poll.config = ClientConfig::default();
        if let Some(file) = &self.auth_token_file {
            let token = checker.token("server.source.poll.auth-token-file", file, 1)?;
            poll.config.ask.auth_token = Some(token);
        }
        Some(SourceOrigin::Poll(Box::new(poll)))
    }
}

impl PushInput {
    fn origin(&self, checker: &mut Checker<'_>) -> Option<SourceOrigin> {
        let place = match &self.listen.get_ref().0 {
            Place::Path(path) => Place::Path(checker.folder.join(path)),
            Place::Address(address) if !self.insecure && !address.ip().is_loopback() => {
                let fix = "listen on 127.0.0.1, or write insecure = true as well";
                let text = format!(
                    "server.source.push.listen: {address} would receive tokens in clear text; {fix}"
                );
                return checker.wrong(&self.listen.span(), text);
            }
            Place::Address(address) => Place::Address(*address),
        };
        Some(SourceOrigin::Push(PushConfig {
            place,
            name: self.name.as_ref().map(|name| name.0.clone()),
            token: checker.token(
                "server.source.push.token-file",
                &self.token_file,
                MIN_TOKEN_BYTES,
            )?,
            insecure: self.insecure,
        }))
    }
}

impl EngineInput {
    /// Returns the library's default with the settings of the file.
    fn config(&self) -> PoolConfig {
        let mut config = PoolConfig::default();
        config.workers = self.workers.0;
        let relay = &self.relay;
        set(
            &mut config.relay_sessions,
            relay.sessions.map(|most| most.0),
        );
        set(
            &mut config.relay_idle,
            relay.idle.as_ref().map(|idle| idle.0),
        );
        let verification = relay.verify.map(|verify| match verify {
            VerifyInput::Echo => RelayVerification::Echo,
            VerifyInput::Ratio => RelayVerification::Ratio,
            VerifyInput::Off => RelayVerification::Off,
        });
        set(&mut config.relay_verification, verification);
        let limits = &mut config.connections;
        set(&mut limits.total, self.connections.total.map(|most| most.0));
        let per_network = self.connections.per_network;
        set(&mut limits.per_network, per_network.map(|most| most.0));
        let passages = &mut config.passages;
        for (place, most) in [
            (&mut passages.relayed.total, relay.connections),
            (
                &mut passages.relayed.per_network,
                relay.connections_per_network,
            ),
        ] {
            set(place, most.map(|most| most.0));
        }
        for (place, most) in [
            (&mut passages.held.total, relay.held),
            (&mut passages.held.per_network, relay.held_per_network),
        ] {
            set(place, most.map(|most| most.0));
        }
        set(
            &mut passages.idle,
            relay.connection_idle.as_ref().map(|idle| idle.0),
        );
        let budget = &mut config.budget;
        for (input, bytes, packets) in [
            (
                &self.budget.unverified_per_source,
                &mut budget.unverified_per_source,
                &mut budget.unverified_packets,
            ),
            (
                &self.budget.unverified_total,
                &mut budget.unverified_total,
                &mut budget.unverified_total_packets,
            ),
            (
                &self.budget.verified_per_source,
                &mut budget.verified_per_source,
                &mut budget.verified_packets,
            ),
        ] {
            if let Some(TextOr(input)) = input {
                set(bytes, input.bytes.as_ref().map(|bytes| bytes.0));
                set(packets, input.packets.map(|packets| packets.0));
            }
        }
        config
    }
}

/// Replaces a default by a value of the file, if it has one.
fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

impl ObserveInput {
    fn config(&self, checker: &mut Checker<'_>) -> ObserverConfig {
        let control = match &self.control {
            None => Control::Default,
            Some(control) => match Control::at(control.get_ref().clone()) {
                Control::At(path) => {
                    let place = checker.folder.join(&path);
                    if path.as_os_str().is_empty() || place.is_dir() {
                        checker.wrong::<()>(
                            &control.span(),
                            if cfg!(windows) {
                                r#"observe.control: expected the name of a pipe, or "off""#
                            } else {
                                r#"observe.control: expected the path of a Unix socket, or "off""#
                            },
                        );
                    }
                    Control::At(place)
                }
                other => other,
            },
        };
        let metrics = self.metrics.as_ref().map(|address| address.0);
        ObserverConfig { metrics, control }
    }
}

/// Finds a protocol by its id. The error begins with the key.
///
/// # Errors
/// No protocol has this id. The error lists the known ids.
pub(super) fn find(key: &str, id: &str) -> Result<&'static dyn Protocol, String> {
    registry::find(id).ok_or_else(|| {
        let known = registry::PROTOCOLS
            .iter()
            .map(|protocol| protocol.info().id);
        let fix = match closest(id, known) {
            Some(id) => format!("did you mean `{id}`?"),
            None => format!("known are {}", registry::known()),
        };
        format!("{key}: unknown protocol {id:?}; {fix}")
    })
}

/// Returns a protocol that has a responder.
fn find_responder(key: &str, id: &str) -> Result<&'static dyn Protocol, String> {
    if id == crate::values::GAME {
        return Err(format!(
            "{key}: {id} is the game itself; run `hailer world` for it"
        ));
    }
    match find(key, id) {
        Ok(protocol) if !protocol.info().has_responder => Err(format!(
            "{key}: {id} has no responder; Hailer only queries its servers"
        )),
        found => found,
    }
}

/// Converts a TOML value to an option's value.
pub(super) fn option_value(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => text.as_str().into(),
        toml::Value::Integer(number) => Value::Int(*number),
        toml::Value::Float(number) => Value::Float(*number),
        toml::Value::Boolean(flag) => Value::Bool(*flag),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(items) => Value::List(items.iter().map(option_value).collect()),
        toml::Value::Table(table) => {
            let entry =
                |(key, value): (&String, &toml::Value)| (key.clone().into(), option_value(value));
            Value::Table(table.iter().map(entry).collect())
        }
    }
}
