//! The table `[cluster]` and the flag `--cluster`.

use crate::config::checker::{Checker, RedisKeys};
use crate::config::reader::{IntegerBetween, Parsed, Time};
use hailer::support::link::RedisConfig;
use hailer_monitor::cluster::{self, Roles};
use hailer_monitor::monitor::MonitorConfig;
use serde::Deserialize;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

/// Configuration of a cluster.
pub(crate) struct Cluster {
    redis: RedisConfig,
    name: String,
    /// Lease of a server chunk. `None`: derived from the interval.
    lease: Option<Duration>,
    roles: Roles,
    backlog: Option<u64>,
}

impl Cluster {
    /// Applies the flag `--cluster` to the table `[cluster]`, if there is one.
    ///
    /// # Errors
    /// The URL is invalid.
    pub(crate) fn with_url(table: Option<Self>, url: &str) -> Result<Self, String> {
        let redis = RedisConfig::new(url).map_err(|error| error.to_string())?;
        Ok(match table {
            Some(cluster) => Self { redis, ..cluster },
            None => Self::new(redis),
        })
    }

    /// Returns the default configuration.
    fn new(redis: RedisConfig) -> Self {
        Self {
            redis,
            name: "hailer".into(),
            lease: None,
            roles: Roles::default(),
            backlog: None,
        }
    }

    /// Sets the cluster of a monitor with this default interval.
    pub(crate) fn apply(&self, interval: Duration, config: &mut MonitorConfig) {
        let mut cluster = cluster::ClusterConfig::new(self.redis.clone(), interval);
        cluster.name.clone_from(&self.name);
        cluster.roles = self.roles;
        cluster.lease = self.lease.unwrap_or(cluster.lease);
        cluster.backlog = self.backlog.unwrap_or(cluster.backlog);
        config.cluster = Some(cluster);
    }
}

/// The table `[cluster]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct ClusterInput {
    url: Spanned<String>,
    name: Option<Spanned<String>>,
    lease: Option<Parsed<Lease>>,
    backlog: Option<IntegerBetween<u64, 1_000, 1_000_000_000_000>>,
    roles: Option<Vec<Role>>,
    user: Option<Spanned<String>>,
    password_file: Option<Spanned<PathBuf>>,
    ca_file: Option<Spanned<PathBuf>>,
    certificate_file: Option<Spanned<PathBuf>>,
    key_file: Option<Spanned<PathBuf>>,
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Role {
    Poll,
    Write,
    Page,
}

/// Time after which other nodes take over the servers of a failed node.
type Lease = Time<{ cluster::SHORTEST_LEASE.as_millis() as u64 }>;

impl ClusterInput {
    pub(super) fn cluster(&self, _: &Range<usize>, checker: &mut Checker<'_>) -> Option<Cluster> {
        let redis = match RedisConfig::new(self.url.get_ref()) {
            Ok(redis) => redis,
            Err(error) => return checker.wrong(&self.url.span(), format!("cluster.{error}")),
        };
        let mut cluster = Cluster::new(redis);
        let keys = RedisKeys {
            user: &self.user,
            password_file: &self.password_file,
            ca_file: &self.ca_file,
            certificate_file: &self.certificate_file,
            key_file: &self.key_file,
        };
        keys.apply("cluster", &mut cluster.redis, checker)?;
        if let Some(name) = &self.name {
            cluster.name.clone_from(name.get_ref());
            if let Err(error) = cluster::check_name(&cluster.name) {
                return checker.wrong(&name.span(), format!("cluster.name: {error}"));
            }
        }
        cluster.lease = self.lease.as_ref().map(|lease| lease.0);
        cluster.backlog = self.backlog.map(|backlog| backlog.0);
        if let Some(roles) = &self.roles {
            cluster.roles = Roles {
                can_poll: roles.contains(&Role::Poll),
                can_write: roles.contains(&Role::Write),
                can_serve: roles.contains(&Role::Page),
            };
        }
        Some(cluster)
    }
}
