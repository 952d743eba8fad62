//! Resolves host names to addresses. Follows SRV records if the protocol has them.
//!
//! Addresses come from the resolver of the operating system, unless the user names a name server.
//! SRV records come from name servers, because operating systems look up addresses only.
//!
//! Limits: 5 s for a lookup, 2 s for that of an SRV record, and 8 addresses per name.
//!
//! In: a host name, perhaps an SRV service. Out: addresses and ports.
//!
//! May import: `crate::error`, `crate::target`.

mod stub;
mod system;

use self::stub::{Kind, LookupFailure, Record, StubResolver};
use crate::error::Error;
use crate::target::Host;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Time limit for the lookup of an SRV record. The record is optional, so a slow name server must
/// not delay the query for longer.
const SRV_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit for the lookup of an address.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of addresses used per name.
const MAX_ADDRESSES: usize = 8;

/// Result of a lookup.
pub(crate) struct Resolved {
    /// At least one, the best first.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The SRV record that led there, as a clause for errors.
    pub(crate) srv: Option<String>,
}

impl Resolved {
    pub(crate) fn without_srv(addresses: Vec<SocketAddr>) -> Self {
        Self {
            addresses,
            srv: None,
        }
    }
}

/// Resolver of host names.
#[derive(Default)]
pub(crate) struct NameResolver {
    /// Name server; `None` means the operating system's resolver.
    server: Option<SocketAddr>,
    stub: StubResolver,
}

impl NameResolver {
    pub(crate) fn new(server: Option<SocketAddr>) -> Self {
        Self {
            server,
            stub: StubResolver::default(),
        }
    }

    /// Looks up the addresses of a host. Without a `port`, an SRV record of the service `srv` names
    /// the host and the port; without a record, the port is `default_port`.
    ///
    /// # Errors
    /// The name does not exist, or cannot be looked up.
    pub(crate) async fn resolve(
        &self,
        host: &Host,
        port: Option<u16>,
        default_port: u16,
        srv: Option<&str>,
    ) -> Result<Resolved, Error> {
        let name = match host {
            Host::Address(ip) => {
                let address = SocketAddr::new(*ip, port.unwrap_or(default_port));
                return Ok(Resolved::without_srv(vec![address]));
            }
            Host::Name(name) => name,
        };
        // An SRV record contains the host and port of the game. Its port is the best guess for the
        // query port (spec/minecraft-query.md#4.4). A port given by the user takes precedence.
        let service = match (srv, port) {
            (Some(service), None) => self.service(service, name).await,
            _ => None,
        };
        let Some((host, port)) = service else {
            let addresses = self.host(name, port.unwrap_or(default_port)).await?;
            return Ok(Resolved::without_srv(addresses));
        };
        // The user did not type that host, so report errors with the name that the user typed.
        let addresses = self.host(&host, port).await;
        let host = host.trim_end_matches('.');
        let srv = format!("the SRV record of {name} leads to {host}:{port}");
        let resolved = |addresses| Resolved {
            addresses,
            srv: Some(srv),
        };
        addresses.map(resolved).map_err(|error| {
            let cause = match error {
                Error::NameNotFound { .. } => {
                    format!("its SRV record leads to {host}, which has no address")
                }
                error => format!("its SRV record leads to {error}"),
            };
            Error::Lookup {
                name: name.clone(),
                cause,
            }
        })
    }

    /// Returns host and port of the first SRV record, if there is one.
    async fn service(&self, service: &str, name: &str) -> Option<(String, u16)> {
        let name = name.trim_end_matches('.');
        if !name.contains('.') {
            return None;
        }
        let full = format!("{service}.{name}");
        let servers = match self.server {
            Some(server) => vec![server],
            None => system::name_servers(),
        };
        let lookup = self.stub.lookup(&servers, &full, Kind::Service);
        let records = tokio::time::timeout(SRV_TIMEOUT, lookup).await.ok()?.ok()?;
        // The game's client uses the first record and ignores priority and weight.
        records.into_iter().find_map(|record| match record {
            Record::Service { host, port } => Some((host, port)),
            Record::Address(_) => None,
        })
    }

    /// Returns the addresses of a host name.
    async fn host(&self, name: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
        let not_found = || Error::NameNotFound { name: name.into() };
        let failed = |cause: String| Error::Lookup {
            name: name.into(),
            cause,
        };
        let no_reply = || failed("the name server does not reply".into());
        // Only the system resolves addresses with a zone, without asking a name server.
        let server = self.server.filter(|_| !name.contains('%'));
        let mut found: Vec<SocketAddr> = if let Some(server) = server {
            let lookup = self.at_server(server, name);
            match tokio::time::timeout(LOOKUP_TIMEOUT, lookup).await {
                Ok(Ok(addresses)) => {
                    let addresses = addresses.into_iter();
                    addresses.map(|ip| SocketAddr::new(ip, port)).collect()
                }
                Ok(Err(LookupFailure::NotFound)) => return Err(not_found()),
                Ok(Err(error)) => return Err(failed(error.to_string())),
                Err(_) => return Err(no_reply()),
            }
        } else {
            // The system's resolver uses its hosts file, search domains and caches. Most do not
            // recognize `localhost.` with the final dot, which must not be sent to a name server
            // (RFC 6761).
            let known = if name == "localhost." {
                "localhost"
            } else {
                name
            };
            let lookup = tokio::net::lookup_host((known, port));
            match tokio::time::timeout(LOOKUP_TIMEOUT, lookup).await {
                Ok(Ok(addresses)) => addresses.collect(),
                // The C library returns the reason only as text. All errors except "temporary
                // failure" mean that the name does not exist.
                Ok(Err(error)) if error.to_string().contains("emporary") => {
                    return Err(failed(error.to_string()));
                }
                Ok(Err(_)) => return Err(not_found()),
                Err(_) => return Err(no_reply()),
            }
        };
        let mut seen = std::collections::HashSet::new();
        found.retain(|address| seen.insert(*address));
        if found.is_empty() {
            return Err(not_found());
        }
        found.truncate(MAX_ADDRESSES);
        Ok(found)
    }

    /// Returns the addresses that a name server knows, those of IPv6 first.
    async fn at_server(
        &self,
        server: SocketAddr,
        name: &str,
    ) -> Result<Vec<IpAddr>, LookupFailure> {
        // No name server is asked for these names (RFC 6761).
        let bare = name.trim_end_matches('.');
        if bare == "localhost" || bare.ends_with(".localhost") {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        let servers = [server];
        let (ipv6, ipv4) = tokio::join!(
            self.stub.lookup(&servers, name, Kind::Ipv6),
            self.stub.lookup(&servers, name, Kind::Ipv4),
        );
        let records = match (ipv6, ipv4) {
            (Ok(ipv6), Ok(ipv4)) => [ipv6, ipv4].concat(),
            (Ok(records), Err(_)) | (Err(_), Ok(records)) => records,
            (Err(LookupFailure::NotFound), Err(error)) | (Err(error), Err(_)) => return Err(error),
        };
        let addresses = records.into_iter().filter_map(|record| match record {
            Record::Address(ip) => Some(ip),
            Record::Service { .. } => None,
        });
        Ok(addresses.collect())
    }
}

#[cfg(test)]
mod tests;
