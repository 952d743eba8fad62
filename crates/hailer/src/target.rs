//! Targets as users type them: `host`, `host:port`, `[v6]:port`, `protocol://host:port`.
//!
//! Names have at most 253 characters, zones of IPv6 addresses at most 32.

use hailer_proto::{Info, Protocol, registry};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// Server as the user specified it.
#[derive(Clone)]
pub struct Target {
    /// Protocol; `None` means that all protocols are tried.
    pub protocol: Option<&'static dyn Protocol>,
    /// Host name or address.
    pub host: Host,
    /// Port; `None` means the port of an SRV record, or the protocol's default.
    pub port: Option<u16>,
}

/// Host name or IP address.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub(crate) fn of(self, text: &str) -> Self {
        Self::new(text, self.problem)
    }

    /// Returns the invalid text, cut to 300 characters.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl Target {
    /// Returns the same target in another protocol.
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
    if text.contains(',') {
        let separated: String = text.replace(',', " ").chars().take(100).collect();
        return Err(format!("separate several targets with spaces: {separated}"));
    }
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

fn parse_port(text: &str) -> Result<u16, String> {
    let port = text
        .parse()
        .ok()
        .filter(|port| *port > 0 && !text.starts_with('+'));
    port.ok_or_else(|| "the port must be a number from 1 to 65535".into())
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

/// Checks a host name. Underscores are allowed; international names must be in their `xn--` form.
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
    if is_numeric(bare) {
        return Err(match bare.parse::<u16>() {
            Ok(port) if port > 0 => {
                format!(
                    "a number is no host; for a port write HOST:{port}, such as 127.0.0.1:{port}"
                )
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
            ("_under.example.com.", "_under.example.com."),
            ("localhost.", "localhost."),
            ("127.0.0.1.example.com", "127.0.0.1.example.com"),
            ("0x7f000001.example", "0x7f000001.example"),
            ("1and1", "1and1"),
            ("fe80::1%eth0", "fe80::1%eth0"),
            ("[FE80::1%eth0]:22000", "[fe80::1%eth0]:22000"),
        ];
        for (text, printed) in forms {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), printed);
            assert_eq!(printed.parse::<Target>().unwrap().to_string(), printed);
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
