//! Targets as users type them: `host`, `host:port`, `[v6]:port`, `protocol://host:port`,
//! `game://host:port`.
//!
//! The words before `://` are those of the [`catalog`]. A word that is both a protocol and a game
//! names the protocol, unless the game adds protocols or ports to it.
//!
//! Names have at most 253 characters, zones of IPv6 addresses at most 32.
//!
//! Texts, socket addresses and pairs of a host and a port convert to a target with `TryFrom`.

use crate::support::catalog;
use hailer_proto::games::QueryPort;
use hailer_proto::{Game, Info, Protocol, Transport};
use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// Largest number of addresses and ports tried for one target and protocol.
const MAX_CANDIDATES: usize = 12;

/// Server as the user specified it.
#[derive(Clone)]
pub struct Target {
    /// Game, if the target names one.
    pub game: Option<&'static Game>,
    /// Protocol; the main one if the target names a game. `None` means that all protocols are
    /// tried.
    pub protocol: Option<&'static dyn Protocol>,
    /// Host name or address.
    pub host: Host,
    /// Port; `None` means the port of an SRV record, or the default of the game or protocol.
    pub port: Option<u16>,
}

/// Host name or IP address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// Name in lower case, or IPv6 address with a zone.
    Name(String),
    /// IP address without a zone.
    Address(IpAddr),
}

/// Error for an invalid target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {problem}")]
pub struct TargetError {
    text: String,
    problem: String,
}

impl TargetError {
    pub(crate) fn new(text: &str, problem: String) -> Self {
        Self {
            text: text.chars().take(300).collect(),
            problem,
        }
    }

    /// Replaces the text with the one that the user typed.
    #[cfg(feature = "sweep")]
    pub(crate) fn of(self, text: &str) -> Self {
        Self::new(text, self.problem)
    }

    /// Returns the invalid text, cut to 300 characters.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns why the text is invalid, without the text.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl Target {
    /// Returns the same target in another protocol, and without a game.
    #[must_use]
    pub fn with_protocol(self, protocol: &'static dyn Protocol) -> Self {
        Self {
            game: None,
            protocol: Some(protocol),
            ..self
        }
    }

    /// Returns the same target as a server of a game.
    ///
    /// # Errors
    /// Servers of the game cannot be queried; the error has the reason.
    pub fn with_game(self, game: &'static Game) -> Result<Self, TargetError> {
        match catalog::protocols_of(game).first() {
            Some(protocol) => Ok(Self {
                game: Some(game),
                protocol: Some(*protocol),
                ..self
            }),
            None => {
                let text = format!("{}://{}", game.id, self.host);
                Err(TargetError::new(&text, cannot_be_queried(game)))
            }
        }
    }

    /// Returns the port for a single query: the given one, or the default of the game or protocol.
    /// If the given port is the game's, that is the query port that belongs to it. `None` if the
    /// target has neither a port nor a protocol.
    pub fn query_port(&self) -> Option<u16> {
        let Some(game) = self.game else {
            return self.port.or(self.info().map(|info| info.port));
        };
        let given = self.port.filter(|port| Some(*port) != game.port);
        game.query_ports(given).first().copied().or(self.port)
    }

    /// Returns the addresses at which the server may reply, the most likely first: one, or one for
    /// each query port of the game and each default port of the protocol. `None` if the host is a
    /// name or a remote service is queried instead, which
    /// [`Client::candidates`](crate::Client::candidates) looks up, or if there is no protocol.
    pub fn candidates(&self) -> Option<Vec<SocketAddr>> {
        let Host::Address(ip) = self.host else {
            return None;
        };
        let protocol = self
            .protocol
            .filter(|protocol| protocol.info().service.is_none())?;
        let default_port = self.default_port(protocol);
        let address = SocketAddr::new(ip, self.port.unwrap_or(default_port));
        Some(self.at_query_ports(vec![address], self.protocol?, default_port))
    }

    /// Returns the port of a query in a protocol if the user names none.
    pub(crate) fn default_port(&self, protocol: &dyn Protocol) -> u16 {
        let id = protocol.info().id;
        let ports = self.game.map(|game| game.query_ports_in(id, None));
        ports
            .and_then(|ports| ports.first().copied())
            .unwrap_or(protocol.info().port)
    }

    /// Returns these addresses at every query port of the game in a protocol, and at its other
    /// default port on IPv6, at most [`MAX_CANDIDATES`] in total. A port other than `default_port`
    /// counts as given by the user.
    pub(crate) fn at_query_ports(
        &self,
        addresses: Vec<SocketAddr>,
        protocol: &dyn Protocol,
        default_port: u16,
    ) -> Vec<SocketAddr> {
        let Some(first) = addresses.first() else {
            return addresses;
        };
        // The port of an SRV record counts as given by the user.
        let is_given = self.port.is_some() || first.port() != default_port;
        let given = is_given.then_some(first.port());
        let ports = match self.game {
            Some(game) => game.query_ports_in(protocol.info().id, given),
            None => vec![first.port()],
        };
        let at = |port: u16| {
            addresses.iter().map(move |address| {
                let mut address = *address;
                address.set_port(port);
                address
            })
        };
        let candidates = ports.into_iter().flat_map(at);
        let ipv6_port = protocol.info().ipv6_port.filter(|_| !is_given);
        let on_ipv6 = ipv6_port.into_iter().flat_map(at);
        let on_ipv6 = on_ipv6.filter(SocketAddr::is_ipv6);
        candidates.chain(on_ipv6).take(MAX_CANDIDATES).collect()
    }

    /// Returns the port that players connect to, if the target names a game, and the user or an SRV
    /// record a port: the first of `candidates`. Otherwise 0.
    pub(crate) fn game_port(&self, candidates: &[SocketAddr], protocol: &dyn Protocol) -> u16 {
        let first = candidates.first().map_or(0, SocketAddr::port);
        let is_given = self.port.is_some() || first != self.default_port(protocol);
        if self.game.is_some() && is_given {
            first
        } else {
            0
        }
    }

    /// Returns the port for a single query, unless an SRV record may name it.
    pub(crate) fn port_without_srv(&self) -> Option<u16> {
        match self.game {
            Some(game) if self.port.is_some() || game.srv.is_none() => self.query_port(),
            _ => self.port,
        }
    }

    /// Returns the SRV service that names the port, if there is one.
    pub(crate) fn srv(&self, protocol: &dyn Protocol) -> Option<&'static str> {
        match self.game {
            Some(game) => game.srv,
            None => catalog::srv(protocol.info().id),
        }
    }

    fn info(&self) -> Option<&'static Info> {
        self.protocol.map(Protocol::info)
    }

    /// Returns the word before `://`.
    fn scheme(&self) -> Option<&'static str> {
        let game = self.game.map(|game| game.id);
        game.or(self.info().map(|info| info.id))
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        (self.scheme(), &self.host, self.port) == (other.scheme(), &other.host, other.port)
    }
}

impl Eq for Target {}

impl Hash for Target {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.scheme(), &self.host, self.port).hash(state);
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let error = |problem: String| TargetError::new(text, problem);
        let scheme = text
            .split_once(':')
            .and_then(|(scheme, rest)| Some((scheme, rest.strip_prefix("//")?)));
        let ((game, protocol), rest) = match scheme {
            None => ((None, None), text),
            Some((scheme, rest)) => {
                let named = named(&scheme.to_ascii_lowercase()).map_err(error)?;
                (named, rest.strip_suffix('/').unwrap_or(rest))
            }
        };
        let (host, port) = match protocol.and_then(|protocol| id_in_service(protocol, rest)) {
            Some(id) => (Host::Name(id), None),
            None => host_and_port(rest).map_err(error)?,
        };
        Ok(Self {
            game,
            protocol,
            host,
            port,
        })
    }
}

impl TryFrom<&str> for Target {
    type Error = TargetError;

    fn try_from(text: &str) -> Result<Self, TargetError> {
        text.parse()
    }
}

impl TryFrom<String> for Target {
    type Error = TargetError;

    fn try_from(text: String) -> Result<Self, TargetError> {
        text.parse()
    }
}

impl TryFrom<&String> for Target {
    type Error = TargetError;

    fn try_from(text: &String) -> Result<Self, TargetError> {
        text.parse()
    }
}

/// A server without a protocol: all common ones are tried.
impl TryFrom<SocketAddr> for Target {
    type Error = TargetError;

    /// Rejects port 0, and link-local addresses of IPv6 without a scope.
    fn try_from(address: SocketAddr) -> Result<Self, TargetError> {
        let host = match address {
            SocketAddr::V6(six) if six.scope_id() != 0 => {
                Ok(Host::Name(format!("{}%{}", six.ip(), six.scope_id())))
            }
            _ => {
                with_scope(Host::Address(address.ip()), Some(address.port())).map(|(host, _)| host)
            }
        };
        let both = host.and_then(|host| Ok((host, port_above_0(address.port())?)));
        let (host, port) =
            both.map_err(|problem| TargetError::new(&address.to_string(), problem))?;
        Ok(Self {
            game: None,
            protocol: None,
            host,
            port: Some(port),
        })
    }
}

/// A host, a `game://host` or a `protocol://host`, and its port. A port in the text counts less.
impl TryFrom<(&str, u16)> for Target {
    type Error = TargetError;

    fn try_from((host, port): (&str, u16)) -> Result<Self, TargetError> {
        let port = port_above_0(port).map_err(|problem| TargetError::new(host, problem))?;
        let target: Self = host.parse()?;
        Ok(Self {
            port: Some(port),
            ..target
        })
    }
}

impl TryFrom<(String, u16)> for Target {
    type Error = TargetError;

    fn try_from((host, port): (String, u16)) -> Result<Self, TargetError> {
        (host.as_str(), port).try_into()
    }
}

impl TryFrom<&Target> for Target {
    type Error = TargetError;

    fn try_from(target: &Target) -> Result<Self, TargetError> {
        Ok(target.clone())
    }
}

/// Returns the protocol, or the game and its main protocol, that a word before `://` names.
fn named(scheme: &str) -> Result<(Option<&'static Game>, Option<&'static dyn Protocol>), String> {
    let game = catalog::game(scheme);
    if let Some(protocol) = catalog::protocol(scheme) {
        let same = game.filter(|game| game.id == scheme && adds_to(game, protocol.info().id));
        return Ok((same, Some(protocol)));
    }
    let Some(game) = game else {
        return Err(match catalog::suggestion(scheme) {
            _ if matches!(scheme, "http" | "https") => over_http(),
            _ if scheme == "steam" => {
                "a link of Steam holds the address alone: write a2s://HOST:PORT".into()
            }
            Some(id) => format!("unknown protocol or game; did you mean `{id}`?"),
            None => {
                "unknown protocol or game; `hailer protocols` and `hailer games` list them".into()
            }
        });
    };
    match catalog::protocols_of(game).first() {
        Some(protocol) => Ok((Some(game), Some(*protocol))),
        None => Err(cannot_be_queried(game)),
    }
}

/// Names the protocols over HTTP, for targets that are web addresses.
fn over_http() -> String {
    let protocols = catalog::protocols();
    let over_http = protocols.iter().filter(|protocol| {
        protocol.info().transport == Transport::Http && protocol.info().service.is_none()
    });
    let ids: Vec<&str> = over_http.map(|protocol| protocol.info().id).collect();
    format!(
        "web pages are no servers; protocols over HTTP are {}, written as {}://HOST:PORT",
        ids.join(", "),
        ids.first().copied().unwrap_or_default()
    )
}

/// Returns whether a game has this main protocol, and adds protocols or ports to it.
fn adds_to(game: &Game, protocol: &str) -> bool {
    game.protocols.first() == Some(&protocol)
        && (game.protocols.len() > 1 || game.query != QueryPort::Same)
}

/// Explains that servers of a game cannot be queried.
fn cannot_be_queried(game: &Game) -> String {
    let reason = catalog::obstacle(game).unwrap_or_default();
    format!("servers of {} cannot be queried: {reason}", game.name)
}

/// Returns the id of something that a remote service knows by a number, as in `discord://ID`. Such a
/// number is not looked up as a name.
fn id_in_service(protocol: &dyn Protocol, text: &str) -> Option<String> {
    protocol.info().service?;
    let is_id = (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_id.then(|| text.to_owned())
}

fn host_and_port(text: &str) -> Result<(Host, Option<u16>), String> {
    if text.contains(',') {
        let separated: String = text.replace(',', " ").chars().take(100).collect();
        return Err(format!("separate several targets with spaces: {separated}"));
    }
    if let Some(problem) = no_single_host(text) {
        return Err(problem);
    }
    if let Some(host) = ipv6(text) {
        return with_scope(host, None);
    }
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, rest) = bracketed
            .split_once(']')
            .ok_or("the bracket is not closed")?;
        let Some(host) = ipv6(address) else {
            return Err(if address.parse::<IpAddr>().is_ok() {
                format!("brackets are for IPv6; write {address}{rest}")
            } else {
                "no IPv6 address between the brackets".into()
            });
        };
        let port = match rest.strip_prefix(':') {
            Some(port) => Some(parse_port(port)?),
            None if rest.is_empty() => None,
            None => return Err("after the bracket only a colon and a port may follow".into()),
        };
        return with_scope(host, port);
    }
    let (host, port) = match text.split_once(':') {
        Some((host, _)) if host.contains('.') && text.matches(':').count() > 1 => {
            return Err("one port may follow the host: HOST:PORT".into());
        }
        Some((_, rest)) if rest.contains(':') => {
            return Err("write IPv6 addresses as [address]:port".into());
        }
        Some((host, port)) => (host, Some(port_after(host, port)?)),
        None => (text, None),
    };
    match host.parse::<IpAddr>() {
        Ok(address) => Ok((Host::Address(address), port)),
        Err(_) => Ok((Host::Name(parse_name(host)?), port)),
    }
}

/// Parses an IPv6 address. An address with a zone (link-local) is returned as a name, for the
/// system to resolve.
fn ipv6(text: &str) -> Option<Host> {
    let (address, zone) = text
        .split_once('%')
        .map_or((text, None), |(address, zone)| (address, Some(zone)));
    let address: Ipv6Addr = address.parse().ok()?;
    let usable = |zone: &str| {
        !zone.is_empty() && zone.len() <= 32 && zone.bytes().all(|b| b.is_ascii_graphic())
    };
    match zone {
        None => Some(Host::Address(address.into())),
        Some(zone) if usable(zone) => Some(Host::Name(format!("{address}%{zone}"))),
        Some(_) => None,
    }
}

/// Explains texts that name something else than one host: ranges, paths, accounts.
fn no_single_host(text: &str) -> Option<String> {
    let is_address = |text: &str| text.parse::<IpAddr>().is_ok();
    if let Some((first, rest)) = text.split_once('/') {
        let word = first
            .strip_suffix(':')
            .unwrap_or(first)
            .to_ascii_lowercase();
        return Some(match rest.split(':').next() {
            Some(bits) if is_address(first) && bits.parse::<u8>().is_ok() => {
                format!("a range of addresses; `hailer sweep {text}` queries it")
            }
            _ if named(&word).is_ok() => {
                format!("write {word}://{}", rest.trim_start_matches('/'))
            }
            _ if first.is_empty() => "a host does not begin with a slash".into(),
            _ => "nothing may follow the host and its port; remove the slash".into(),
        });
    }
    match text.split_once('-') {
        Some((first, last)) if is_address(first) && is_address(last) => {
            return Some(format!(
                "a range of addresses; `hailer sweep {text}` queries it"
            ));
        }
        _ => {}
    }
    let (_, host) = text.split_once('@')?;
    Some(format!("a target has no user; write {host}"))
}

/// Rejects link-local addresses of IPv6 without their interface, which no system can reach.
fn with_scope(host: Host, port: Option<u16>) -> Result<(Host, Option<u16>), String> {
    match host {
        Host::Address(IpAddr::V6(ip)) if ip.is_unicast_link_local() => Err(format!(
            "a link-local address needs its interface, such as [{ip}%eth0]:{}",
            port.unwrap_or(25_565)
        )),
        host => Ok((host, port)),
    }
}

/// Parses what follows the first colon. Protocols and games are followed by `://`.
fn port_after(host: &str, text: &str) -> Result<u16, String> {
    parse_port(text).map_err(|problem| match named(&host.to_ascii_lowercase()) {
        Ok(_) if !text.is_empty() => {
            format!("write {host}://{}", text.trim_start_matches('/'))
        }
        _ => problem,
    })
}

fn parse_port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|_| !text.starts_with('+'));
    port_above_0(port.unwrap_or(0))
}

fn port_above_0(port: u16) -> Result<u16, String> {
    match port {
        0 => Err("the port must be a number from 1 to 65535".into()),
        port => Ok(port),
    }
}

/// Returns whether the system's resolver could interpret a name as an IPv4 address, such as
/// `25577`, `0x7f.1` or `127.1`: its last label is a number. No name on the Internet ends in a
/// number.
fn is_numeric(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    match last.strip_prefix("0x").or(last.strip_prefix("0X")) {
        Some(digits) => digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit()),
    }
}

/// Checks a host name. Underscores are allowed; international names become their `xn--` form.
fn parse_name(name: &str) -> Result<String, String> {
    const NO_NAME: &str = "neither an address nor a host name";
    let name = if name.is_ascii() {
        Cow::Borrowed(name)
    } else {
        Cow::Owned(idna::domain_to_ascii(name).map_err(|_| NO_NAME)?)
    };
    let bare = name.strip_suffix('.').unwrap_or(&name);
    if bare.is_empty() {
        return Err("a host name or an address is needed".into());
    }
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if bare.len() > 253 || !bare.split('.').all(label) {
        return Err(NO_NAME.into());
    }
    if is_numeric(bare) {
        return Err(match bare.parse::<u16>() {
            Ok(port) if port > 0 => {
                format!(
                    "a number is no host; for a port write HOST:{port}, such as 127.0.0.1:{port}"
                )
            }
            _ if bare.split('.').count() == 4 => {
                "an address has four numbers from 0 to 255, such as 127.0.0.1".into()
            }
            _ => "a number is no host; write an address as four numbers, such as 127.0.0.1".into(),
        });
    }
    Ok(name.to_ascii_lowercase())
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(address) => address.fmt(f),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scheme) = self.scheme() {
            write!(f, "{scheme}://")?;
        }
        match (&self.host, self.port) {
            (Host::Address(IpAddr::V6(address)), Some(_)) => write!(f, "[{address}]")?,
            (Host::Name(name), Some(_)) if name.contains('%') => write!(f, "[{name}]")?,
            (host, _) => write!(f, "{host}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_proto::games::QueryPort;
    use hailer_testkit::servers::GAME;

    #[test]
    fn parses_and_prints_every_form() {
        let forms = [
            ("play.example.com", "play.example.com"),
            ("Play.Example.com:25566", "play.example.com:25566"),
            ("192.0.2.7", "192.0.2.7"),
            ("192.0.2.7:1", "192.0.2.7:1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:DB8::1]:22000", "[2001:db8::1]:22000"),
            (
                "minecraft-query://mc.example.com/",
                "minecraft-query://mc.example.com",
            ),
            (
                "MINECRAFT-QUERY://[::1]:25565",
                "minecraft-query://[::1]:25565",
            ),
            ("gtac://192.0.2.7:22000", "gtac://192.0.2.7:22000"),
            ("MAFIAC://host", "mafiac://host"),
            ("_under.example.com.", "_under.example.com."),
            ("localhost.", "localhost."),
            ("127.0.0.1.example.com", "127.0.0.1.example.com"),
            ("0x7f000001.example", "0x7f000001.example"),
            ("1and1", "1and1"),
            ("M\u{DC}NCHEN.example.:1", "xn--mnchen-3ya.example.:1"),
            ("\u{43C}\u{438}\u{440}", "xn--h1ahn"),
            ("fe80::1%eth0", "fe80::1%eth0"),
            ("[FE80::1%eth0]:22000", "[fe80::1%eth0]:22000"),
        ];
        for (text, printed) in forms {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), printed);
            assert_eq!(printed.parse::<Target>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn targets_are_made_of_texts_addresses_and_pairs() {
        let text = String::from("ugp://192.0.2.7:22003");
        let parsed: Target = text.parse().unwrap();
        assert_eq!(Target::try_from(&text).unwrap(), parsed);
        assert_eq!(Target::try_from(text).unwrap(), parsed);
        for host in ["ugp://192.0.2.7", "ugp://192.0.2.7:1"] {
            assert_eq!(Target::try_from((host, 22_003)).unwrap(), parsed);
        }
        assert_eq!(
            Target::try_from((String::from("::1"), 5)).unwrap(),
            "[::1]:5".parse().unwrap()
        );
        for address in ["192.0.2.7:25565", "[2001:db8::1]:25565"] {
            let target = Target::try_from(address.parse::<SocketAddr>().unwrap()).unwrap();
            assert_eq!(target, address.parse().unwrap());
        }
        for address in ["192.0.2.7:0", "[::]:0"] {
            let error = Target::try_from(address.parse::<SocketAddr>().unwrap()).unwrap_err();
            assert_eq!(
                (error.text(), error.problem()),
                (address, "the port must be a number from 1 to 65535")
            );
        }
        let local: SocketAddr = "[fe80::1%2]:25565".parse().unwrap();
        assert_eq!(
            Target::try_from(local).unwrap(),
            "[fe80::1%2]:25565".parse().unwrap()
        );
        let local: SocketAddr = "[fe80::1]:25565".parse().unwrap();
        let error = Target::try_from(local).unwrap_err().to_string();
        assert!(error.contains("needs its interface"), "{error}");
        let error = Target::try_from(("192.0.2.7", 0)).unwrap_err().to_string();
        assert!(error.contains("1 to 65535"), "{error}");
        assert!(Target::try_from(("a b", 1)).is_err());
    }

    #[test]
    fn a_word_names_a_protocol_or_a_game() {
        let target: Target = "ugp://host".parse().unwrap();
        assert!(target.game.is_none());
        assert_eq!(target.query_port(), Some(22_000));
        assert_eq!(target.srv(target.protocol.unwrap()), None);
        let target: Target = "mafiac://host".parse().unwrap();
        assert_eq!(target.game.unwrap().name, "Mafia Connected");
        assert_eq!(target.protocol.unwrap().info().id, "ugp");
        assert_eq!(target.query_port(), Some(22_000));
        let protocol = catalog::protocol("onequery").unwrap();
        assert_eq!(
            target.with_protocol(protocol).to_string(),
            "onequery://host"
        );
        let target: Target = "host".parse().unwrap();
        assert_eq!(target.query_port(), None);
        let target = target.with_game(catalog::game("hytale").unwrap()).unwrap();
        assert_eq!(target.to_string(), "hytale://host");
        let squad = catalog::game("squad").unwrap();
        assert!(
            target
                .with_game(squad)
                .unwrap_err()
                .to_string()
                .contains("Epic")
        );
        let target: Target = "minecraft-query://host".parse().unwrap();
        assert_eq!(
            target.srv(target.protocol.unwrap()),
            Some("_minecraft._tcp")
        );
    }

    #[test]
    fn a_word_for_both_names_a_game_that_adds_ports() {
        let target: Target = "teamspeak3://192.0.2.7:9988".parse().unwrap();
        assert_eq!(target.game.unwrap().id, "teamspeak3");
        let candidates = target.candidates().unwrap();
        let ports: Vec<u16> = candidates.iter().map(SocketAddr::port).collect();
        assert_eq!(ports, [9_988, 10_011]);
        let protocol = target.protocol.unwrap();
        assert_eq!(target.game_port(&candidates, protocol), 9_988);
        let target: Target = "teamspeak3://192.0.2.7".parse().unwrap();
        let candidates = target.candidates().unwrap();
        assert_eq!(target.game_port(&candidates, protocol), 0);
        let target: Target = "openttd://192.0.2.7".parse().unwrap();
        assert_eq!(target.game.unwrap().protocols.len(), 2);
        let target: Target = "samp://192.0.2.7".parse().unwrap();
        assert!(target.game.is_none());
    }

    /// Adds a game with two query ports.
    fn add_game(id: &'static str, name: &'static str) {
        let game = catalog::add_game(Game {
            id,
            name,
            port: Some(2_456),
            query: QueryPort::FirstOf(&[QueryPort::Offset(1), QueryPort::Fixed(9)]),
            ..GAME
        });
        assert!(game.is_ok());
    }

    #[test]
    fn a_game_port_leads_to_its_query_port() {
        add_game("target-test", "Target Test");
        for (text, port) in [
            ("target-test://host", 2457),
            ("target-test://host:2456", 2457),
            ("target-test://host:2457", 2457),
            ("target-test://host:5000", 5000),
        ] {
            let target: Target = text.parse().unwrap();
            assert_eq!(target.query_port(), Some(port), "{text}");
        }
    }

    #[test]
    fn candidates_of_an_address_need_no_lookup() {
        add_game("candidates-test", "Candidates Test");
        for (text, ports) in [
            ("candidates-test://192.0.2.7", Some(&[2457, 9][..])),
            ("candidates-test://192.0.2.7:2456", Some(&[2456, 2457, 9])),
            ("candidates-test://[2001:db8::1]:5", Some(&[5, 6, 9])),
            ("ugp://192.0.2.7", Some(&[22_000])),
            ("ugp://192.0.2.7:5", Some(&[5])),
            ("minecraft-bedrock://192.0.2.7", Some(&[19_132])),
            ("minecraft-bedrock://[2001:db8::1]", Some(&[19_132, 19_133])),
            ("minecraft-bedrock://[2001:db8::1]:5", Some(&[5])),
            ("bedrock://[2001:db8::1]", Some(&[19_132, 19_133])),
            ("bedrock://[2001:db8::1]:5", Some(&[5])),
            ("candidates-test://host", None),
            ("192.0.2.7:5", None),
        ] {
            let target: Target = text.parse().unwrap();
            let candidates = target.candidates();
            let found: Option<Vec<u16>> =
                candidates.map(|found| found.iter().map(SocketAddr::port).collect());
            assert_eq!(found.as_deref(), ports, "{text}");
        }
    }

    #[test]
    fn rejects_invalid_targets_with_a_reason() {
        for (text, reason) in [
            ("", "needed"),
            (":25565", "needed"),
            ("host:", "1 to 65535"),
            ("host:0", "1 to 65535"),
            ("host:+1", "1 to 65535"),
            ("host:65536", "1 to 65535"),
            ("host:1:2", "[address]:port"),
            ("a:1,b:2", "with spaces: a:1 b:2"),
            ("a,b", "with spaces: a b"),
            ("25577", "write HOST:25577, such as 127.0.0.1:25577"),
            ("25577.", "127.0.0.1:25577"),
            ("ugp://25577", "127.0.0.1:25577"),
            ("25577:25577", "a number is no host"),
            ("0177", "a number is no host"),
            ("0x7f000001", "four numbers"),
            ("0x", "four numbers"),
            ("127.1", "four numbers"),
            ("0x7f.0.0.0X1", "four numbers"),
            ("256.0.0.1", "four numbers"),
            ("1.2.3.4.5", "four numbers"),
            ("4294967295", "four numbers"),
            ("[::1", "not closed"),
            ("[host]:1", "no IPv6"),
            ("[::1]1", "colon"),
            ("[fe80::1%]:1", "no IPv6"),
            ("host%eth0", "neither"),
            ("gopher://host", "`hailer protocols` and `hailer games`"),
            (
                "squad://host",
                "Squad cannot be queried: Epic Online Services",
            ),
            ("a b", "neither"),
            ("host\u{1b}[2J", "neither"),
            ("a..b", "neither"),
            ("\u{FC}..b", "neither"),
            ("\u{FC}\u{202E}.example", "neither"),
            ("\u{FC}\\032.example", "neither"),
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }
}
