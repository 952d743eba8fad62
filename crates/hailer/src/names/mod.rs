//! Resolves host names to addresses. Follows SRV records if the protocol has them.
//!
//! Limits: 5 s for a lookup, 2 s for that of an SRV record, and 8 addresses per name.
//!
//! In: a host name, perhaps an SRV service. Out: addresses and ports.
//!
//! May import: `crate::error`, `crate::target`.

use crate::error::Error;
use crate::target::Host;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};
use std::net::SocketAddr;
use std::sync::OnceLock;
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
    resolver: OnceLock<Option<TokioResolver>>,
}

impl NameResolver {
    pub(crate) fn new(server: Option<SocketAddr>) -> Self {
        Self {
            server,
            resolver: OnceLock::new(),
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
        if !name.trim_end_matches('.').contains('.') {
            return None;
        }
        // A final dot prevents search domains from being tried.
        let full = format!("{service}.{}.", name.trim_end_matches('.'));
        let lookup = self.service_records(full);
        let lookup = tokio::time::timeout(SRV_TIMEOUT, lookup).await.ok()??;
        // The game's client uses the first record and ignores priority and weight.
        lookup
            .answers()
            .iter()
            .find_map(|record| match &record.data {
                RData::SRV(srv) if srv.port > 0 && !srv.target.is_root() => {
                    Some((srv.target.to_string(), srv.port))
                }
                _ => None,
            })
    }

    /// Looks up SRV records. The resolver finds no records behind an alias (CNAME).
    async fn service_records(&self, name: String) -> Option<Lookup> {
        let resolver = self.resolver()?;
        match resolver.lookup(&*name, RecordType::SRV).await {
            Ok(lookup) => Some(lookup),
            Err(error) if error.is_no_records_found() && !error.is_nx_domain() => {
                let aliases = resolver.lookup(name, RecordType::CNAME).await.ok()?;
                let alias = aliases
                    .answers()
                    .iter()
                    .find_map(|record| match &record.data {
                        RData::CNAME(alias) => Some(alias.0.clone()),
                        _ => None,
                    })?;
                resolver.lookup(alias, RecordType::SRV).await.ok()
            }
            Err(_) => None,
        }
    }

    /// Returns the addresses of a host name.
    async fn host(&self, name: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
        let not_found = || Error::NameNotFound { name: name.into() };
        let failed = |cause: String| Error::Lookup {
            name: name.into(),
            cause,
        };
        let no_reply = || failed("the name server does not reply".into());
        let mut found: Vec<SocketAddr> = if self.server.is_some() {
            let resolver = self
                .resolver()
                .ok_or_else(|| failed("there is no name server".into()))?;
            match tokio::time::timeout(LOOKUP_TIMEOUT, resolver.lookup_ip(name)).await {
                Ok(Ok(addresses)) => addresses
                    .iter()
                    .map(|ip| SocketAddr::new(ip, port))
                    .collect(),
                Ok(Err(error)) if error.is_nx_domain() || error.is_no_records_found() => {
                    return Err(not_found());
                }
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

    fn resolver(&self) -> Option<&TokioResolver> {
        self.resolver.get_or_init(|| build(self.server)).as_ref()
    }
}

/// Builds the resolver. Returns `None` if the system has no usable configuration; SRV records are
/// then not found.
fn build(server: Option<SocketAddr>) -> Option<TokioResolver> {
    let Some(server) = server else {
        return TokioResolver::builder_tokio().ok()?.build().ok();
    };
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    for connection in &mut connections {
        connection.port = server.port();
    }
    let servers = vec![NameServerConfig::new(server.ip(), true, connections)];
    let config = ResolverConfig::from_parts(None, Vec::new(), servers);
    let mut options = ResolverOpts::default();
    options.timeout = Duration::from_secs(1);
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        .with_options(options)
        .build()
        .ok()
}
