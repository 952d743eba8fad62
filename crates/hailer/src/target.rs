//! What a user types for a server: `host`, `host:port`, `[v6]:port`, `protocol://host:port`.

use hailer_proto::{Info, Protocol, registry};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A server to ask: which protocol, if said; which host; which port, if said.
#[derive(Clone)]
pub struct Target {
    /// `None`: find out by asking in all of them.
    pub protocol: Option<&'static dyn Protocol>,
    /// Name or address.
    pub host: Host,
    /// `None`: an SRV record's or the protocol's own.
    pub port: Option<u16>,
}

/// A name or an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// To be looked up.
    Name(String),
    /// Ready to use.
    Address(IpAddr),
}

/// Why a target cannot be understood.
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

    /// The same problem, of the text that was typed.
    pub(crate) fn of(self, text: &str) -> Self {
        Self::new(text, self.problem)
    }

    /// What was typed, cut where it is long.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Target {
    /// The same target in a certain protocol.
    #[must_use]
    pub fn with_protocol(self, protocol: &'static dyn Protocol) -> Self {
        Self {
            protocol: Some(protocol),
            ..self
        }
    }

    fn info(&self) -> Option<&'static Info> {
        self.protocol.map(Protocol::info)
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        let id = |target: &Self| target.info().map(|info| info.id);
        (id(self), &self.host, self.port) == (id(other), &other.host, other.port)
    }
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let error = |problem: String| TargetError::new(text, problem);
        let scheme = text
            .split_once(':')
            .and_then(|(scheme, rest)| Some((scheme, rest.strip_prefix("//")?)));
        let (protocol, rest) = match scheme {
            None => (None, text),
            Some((scheme, rest)) => {
                let protocol = registry::find(&scheme.to_ascii_lowercase()).ok_or_else(|| {
                    error(format!("unknown protocol; known are {}", registry::known()))
                })?;
                (Some(protocol), rest.strip_suffix('/').unwrap_or(rest))
            }
        };
        let (host, port) = host_and_port(rest).map_err(error)?;
        Ok(Self {
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

impl TryFrom<&Target> for Target {
    type Error = TargetError;

    fn try_from(target: &Target) -> Result<Self, TargetError> {
        Ok(target.clone())
    }
}

fn host_and_port(text: &str) -> Result<(Host, Option<u16>), String> {
    if let Some(host) = ipv6(text) {
        return Ok((host, None));
    }
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, rest) = bracketed
            .split_once(']')
            .ok_or("the bracket is not closed")?;
        let host = ipv6(address).ok_or("no IPv6 address between the brackets")?;
        let port = match rest.strip_prefix(':') {
            Some(port) => Some(parse_port(port)?),
            None if rest.is_empty() => None,
            None => return Err("after the bracket only a colon and a port may follow".into()),
        };
        return Ok((host, port));
    }
    let (host, port) = match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => {
            return Err("write IPv6 addresses as [address]:port".into());
        }
        Some((host, port)) => (host, Some(parse_port(port)?)),
        None => (text, None),
    };
    match host.parse::<IpAddr>() {
        Ok(address) => Ok((Host::Address(address), port)),
        Err(_) => Ok((Host::Name(parse_name(host)?), port)),
    }
}

/// With a zone, as link-local addresses need it, it is for the system to resolve.
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

fn parse_port(text: &str) -> Result<u16, String> {
    let port = text
        .parse()
        .ok()
        .filter(|port| *port > 0 && !text.starts_with('+'));
    port.ok_or_else(|| "the port must be a number from 1 to 65535".into())
}

/// Names as DNS has them, underscores allowed; international names must come in their `xn--` form.
fn parse_name(name: &str) -> Result<String, String> {
    let bare = name.strip_suffix('.').unwrap_or(name);
    if bare.is_empty() {
        return Err("a host name or an address is needed".into());
    }
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    if bare.len() > 253 || !bare.split('.').all(label) {
        return Err("neither an address nor a host name".into());
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
        if let Some(info) = self.info() {
            write!(f, "{}://", info.id)?;
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

    #[test]
    fn every_form_reads_and_prints_back() {
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
            ("_under.example.com.", "_under.example.com."),
            ("fe80::1%eth0", "fe80::1%eth0"),
            ("[FE80::1%eth0]:22000", "[fe80::1%eth0]:22000"),
        ];
        for (text, printed) in forms {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), printed);
            assert_eq!(printed.parse::<Target>().unwrap().to_string(), printed);
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "needed"),
            (":25565", "needed"),
            ("host:", "1 to 65535"),
            ("host:0", "1 to 65535"),
            ("host:+1", "1 to 65535"),
            ("host:65536", "1 to 65535"),
            ("host:1:2", "[address]:port"),
            ("[::1", "not closed"),
            ("[host]:1", "no IPv6"),
            ("[::1]1", "colon"),
            ("[fe80::1%]:1", "no IPv6"),
            ("host%eth0", "neither"),
            ("gopher://host", "known are minecraft-query"),
            ("a b", "neither"),
            ("host\u{1b}[2J", "neither"),
            ("a..b", "neither"),
        ] {
            let error = text.parse::<Target>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }
}
