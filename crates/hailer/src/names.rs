//! Names to addresses, by way of SRV records where a protocol has them.

use crate::error::Error;
use crate::target::{Host, Target};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig, ResolverOpts};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::{RData, RecordType};
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

/// An SRV record is a hint: a slow name server must not hold up a query that may do without.
const SRV_PATIENCE: Duration = Duration::from_secs(2);
/// A name is not worth waiting longer for.
const PATIENCE: Duration = Duration::from_secs(5);
/// More addresses of one name are not asked.
const MAX_ADDRESSES: usize = 8;

/// Looks names up.
#[derive(Default)]
pub(crate) struct NameResolver {
    /// Where to ask; `None`: as the operating system does.
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

    /// The addresses to ask for a target, the best first; never empty. Port and SRV service are those of the protocol,
    /// for a target that names no port.
    pub(crate) async fn addresses(
        &self,
        target: &Target,
        port: u16,
        srv: Option<&str>,
    ) -> Result<Vec<SocketAddr>, Error> {
        let port = target.port.unwrap_or(port);
        let name = match &target.host {
            Host::Address(ip) => return Ok(vec![SocketAddr::new(*ip, port)]),
            Host::Name(name) => name,
        };
        // An SRV record names host and port of the game; its port is the best guess for the query
        // (spec/minecraft-query.md#4.4). A port that the user gave is no guess.
        let service = match (srv, target.port) {
            (Some(service), None) => self.service(service, name).await,
            _ => None,
        };
        match service {
            None => self.host(name, port).await,
            // The user did not type that name, so the error is told of the one that they did.
            Some((host, port)) => self.host(&host, port).await.map_err(|error| Error::Lookup {
                name: name.clone(),
                cause: format!("its SRV record leads to {error}"),
            }),
        }
    }

    async fn service(&self, service: &str, name: &str) -> Option<(String, u16)> {
        if !name.trim_end_matches('.').contains('.') {
            return None;
        }
        // Fully qualified, so that no search domain is tried.
        let full = format!("{service}.{}.", name.trim_end_matches('.'));
        let lookup = self.resolver()?.lookup(full, RecordType::SRV);
        let lookup = tokio::time::timeout(SRV_PATIENCE, lookup)
            .await
            .ok()?
            .ok()?;
        // The game's own client takes the first record and looks at neither priority nor weight.
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

    async fn host(&self, name: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
        let not_found = || Error::NameNotFound { name: name.into() };
        let failed = |cause: String| Error::Lookup {
            name: name.into(),
            cause,
        };
        let mut found: Vec<SocketAddr> = match self.server {
            None => {
                // The system's own way, so that its hosts file, search domains and caches count.
                let lookup =
                    tokio::time::timeout(PATIENCE, tokio::net::lookup_host((name, port))).await;
                let lookup = lookup.map_err(|_| failed("no answer from the name server".into()))?;
                match lookup {
                    Ok(addresses) => addresses.collect(),
                    // The C library's reasons come as texts only; all but "try again" mean that there is no such name.
                    Err(error) if error.to_string().contains("emporary") => {
                        return Err(failed(error.to_string()));
                    }
                    Err(_) => return Err(not_found()),
                }
            }
            Some(_) => {
                let resolver = self
                    .resolver()
                    .ok_or_else(|| failed("no name server".into()))?;
                match tokio::time::timeout(PATIENCE, resolver.lookup_ip(name)).await {
                    Ok(Ok(addresses)) => addresses
                        .iter()
                        .map(|ip| SocketAddr::new(ip, port))
                        .collect(),
                    Ok(Err(error)) if error.is_nx_domain() || error.is_no_records_found() => {
                        return Err(not_found());
                    }
                    Ok(Err(error)) => return Err(failed(error.to_string())),
                    Err(_) => return Err(failed("no answer from the name server".into())),
                }
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

/// `None`: the system has no usable configuration; then there are no SRV records.
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
