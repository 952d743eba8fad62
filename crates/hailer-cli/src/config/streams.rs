//! Keys of connections: `hosts`, `trusted-proxies`, `proxy-protocol` and `relay`.
//!
//! May import: `crate::config`, `crate::config::checker`, `crate::config::reader`, `hailer`.

use super::checker::Checker;
use super::reader::FromText;
use super::{ListenConfig, ServerConfig};
use hailer::door::GameAddress;
use hailer::proto::Transport;
use hailer::proto::minecraft_status::configured_host;
use hailer::respond::StreamConfig;
use hailer::support::address_range::AddressRange;
use hailer::support::proxy_protocol::Version;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use toml::Spanned;

/// Prefix of an entry of `listen` without protocols.
pub(super) const RELAY_ONLY: &str = "relay";

impl FromText for GameAddress {
    type Value = Self;
    const EXPECTED: &'static str = "a host and a port, such as \"127.0.0.1:25566\" or \"mc:25566\"";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// An entry of `relay`.
#[derive(Clone, Debug)]
pub(super) enum RelayTo {
    /// Datagrams.
    Udp(GameAddress),
    /// Connections.
    Tcp(GameAddress),
}

impl FromText for RelayTo {
    type Value = Self;
    const EXPECTED: &'static str = "a host and a port such as \"127.0.0.1:25566\" or \"mc:25566\", with tcp: in front for connections";

    fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            Some(("tcp", address)) => address.parse().ok().map(Self::Tcp),
            Some(("udp", address)) => address.parse().ok().map(Self::Udp),
            _ => text.parse().ok().map(Self::Udp),
        }
    }
}

impl FromText for AddressRange {
    type Value = Self;
    const EXPECTED: &'static str = "an address or a range such as \"10.0.0.0/8\"";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error| format!("{text:?}: {error}"))
    }
}

/// Returns the configuration of connections.
pub(super) fn config(
    hosts: &[Spanned<String>],
    trusted_proxies: Vec<AddressRange>,
    proxy_protocol: Option<u8>,
    checker: &mut Checker<'_>,
) -> StreamConfig {
    let mut config = StreamConfig::default();
    for host in hosts {
        match configured_host(host.get_ref()) {
            Some(name) if config.hosts.contains(&name) => {
                let text = format!("server.hosts: {:?} is listed twice", host.get_ref());
                checker.wrong::<()>(&host.span(), text);
            }
            Some(name) => config.hosts.push(name),
            None => {
                let text = format!(
                    "server.hosts: {:?} is no name that clients send; write it as in \"mc.example.com\", and other letters as in \"xn--mnchen-3ya.example\"",
                    host.get_ref()
                );
                checker.wrong::<()>(&host.span(), text);
            }
        }
    }
    config.trusted_proxies = trusted_proxies;
    config.proxy_protocol = proxy_protocol.map(|version| match version {
        1 => Version::V1,
        _ => Version::V2,
    });
    config
}

/// A server at an address, with the place of its table and its listener there.
type Sharer<'a> = (&'a Range<usize>, &'a ServerConfig, &'a ListenConfig);

/// Records a mistake for each address that two servers share without different hosts.
pub(super) fn check_addresses(servers: &[(Range<usize>, ServerConfig)], checker: &mut Checker<'_>) {
    let mut all: BTreeMap<SocketAddr, Vec<Sharer<'_>>> = BTreeMap::new();
    for (span, server) in servers {
        for listen in &server.listeners {
            if listen.address.port() != 0 {
                all.entry(listen.address)
                    .or_default()
                    .push((span, server, listen));
            }
        }
    }
    let mut mistakes = Vec::new();
    for (address, sharing) in all.iter().filter(|(_, sharing)| sharing.len() > 1) {
        let mut default = None;
        let mut hosts = BTreeMap::new();
        let trusted = &sharing[0].1.streams.trusted_proxies;
        for (span, server, listen) in sharing {
            let line = checker.line(span);
            let mut wrong =
                |text: String| mistakes.push(((*span).clone(), format!("server: {text}")));
            if server.streams.hosts.is_empty() {
                if let Some(first) = default.replace(line) {
                    wrong(format!(
                        "{address} is taken by the server of line {first}; write another address or port in listen, or hosts = [\"mc.example.com\"] to choose by name"
                    ));
                }
                continue;
            }
            for host in &server.streams.hosts {
                if let Some(first) = hosts.insert(host, line) {
                    wrong(format!(
                        "the host {host} at {address} belongs to the server of line {first}"
                    ));
                }
            }
            let mut protocols = listen.protocols.iter().map(|(protocol, _)| protocol.info());
            let without_hosts = protocols.find(|info| !info.has_join_attempts);
            if let Some(info) = without_hosts {
                let over = match info.transport {
                    Transport::Datagram => "over UDP",
                    Transport::Stream | Transport::Http => "over TCP",
                };
                wrong(format!(
                    "{} {over} has no host names, so only the server without hosts can have it at {address}; write listen = \"minecraft-status={address}\"",
                    info.id
                ));
            } else if server.relay.is_some() {
                wrong(format!(
                    "datagrams have no host names, so only the server without hosts can relay them at {address}"
                ));
            }
        }
        if let Some((span, ..)) = sharing
            .iter()
            .find(|(_, server, _)| server.streams.trusted_proxies != *trusted)
        {
            let text =
                format!("server: trusted-proxies must be the same for all servers at {address}");
            mistakes.push(((*span).clone(), text));
        }
    }
    mistakes.sort_by_key(|(span, _)| span.start);
    for (span, text) in mistakes {
        checker.wrong::<()>(&span, text);
    }
}
