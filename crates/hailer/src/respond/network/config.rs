//! Configuration of a network member.

use super::record::MAX_TEXT;
use crate::support::link::{RedisConfig, RedisUrlError};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Range of heartbeats that the reference allows, in seconds.
const HEARTBEAT: RangeInclusive<u64> = 5..=300;
/// Range of full reads that the reference allows, in seconds.
const REFRESH: RangeInclusive<u64> = 10..=300;

/// Configuration of a network member (spec/onequery.md#12.1).
///
/// [`NetworkConfig::new`] uses the defaults of the reference for everything but the URL.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NetworkConfig {
    /// The Redis server and the credentials.
    pub redis: RedisConfig,
    /// First word of all keys. A fork of OneQuery uses `monitoringhytalequery`.
    pub prefix: String,
    /// Id of the network. Servers of one network share their players.
    pub network_id: String,
    /// Id of this server, unique in the network.
    pub server_id: String,
    /// Name of this server in the network; `None`: the name of the published status.
    pub name: Option<String>,
    /// Address of this server for players; `None`: not published.
    pub host: Option<String>,
    /// Port of this server for players.
    pub port: u16,
    /// Whether this member reads the other servers and replies for all of them.
    pub mode: Mode,
    /// Time between heartbeats, 5 s to 300 s. Other members may ignore a server after 45 s without
    /// one.
    pub heartbeat: Duration,
    /// Time between full reads, 10 s to 300 s. Events arrive in between.
    pub refresh: Duration,
    /// Servers without heartbeat for this time are not counted. The reference defines a limit of
    /// 45 s, but does not apply it.
    pub stale: Duration,
    /// How long the last view is used after the connection to Redis is lost. After that, this
    /// server replies for itself.
    pub keep_view: Duration,
    /// Maximum number of other servers.
    pub max_servers: usize,
    /// Maximum number of their players.
    pub max_players: usize,
    /// Whether any heartbeat and refresh time is accepted, for tests.
    pub has_any_interval: bool,
}

impl NetworkConfig {
    /// Returns the defaults of the reference for the Redis at a URL.
    ///
    /// # Errors
    /// The URL is invalid.
    pub fn new(url: &str) -> Result<Self, NetworkConfigError> {
        Ok(Self {
            redis: RedisConfig::new(url)?,
            prefix: "onequery".into(),
            network_id: "default".into(),
            server_id: "server-1".into(),
            name: None,
            host: None,
            port: 5520,
            mode: Mode::Aggregate,
            heartbeat: Duration::from_secs(15),
            refresh: Duration::from_secs(60),
            stale: Duration::from_secs(45),
            keep_view: Duration::from_secs(300),
            max_servers: 10_000,
            max_players: 1_000_000,
            has_any_interval: false,
        })
    }

    /// Checks all values. [`super::Network::start`] does so too.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn check(&self) -> Result<(), NetworkConfigError> {
        let wrong = |key, problem: String| Err(NetworkConfigError { key, problem });
        for (key, text) in [
            ("prefix", &self.prefix),
            ("network-id", &self.network_id),
            ("server-id", &self.server_id),
        ] {
            if text.trim().is_empty() || text.len() > MAX_TEXT || text.chars().any(char::is_control)
            {
                return wrong(
                    key,
                    format!("must have 1 to {MAX_TEXT} bytes and no control characters"),
                );
            }
        }
        // Braces would put the keys of one network on several nodes of a cluster.
        for (key, text) in [("prefix", &self.prefix), ("network-id", &self.network_id)] {
            if text.contains(['{', '}']) {
                return wrong(key, "must not have braces".into());
            }
        }
        for (key, time, range) in [
            ("heartbeat", self.heartbeat, HEARTBEAT),
            ("refresh", self.refresh, REFRESH),
        ] {
            let least = Duration::from_secs(*range.start());
            let most = Duration::from_secs(*range.end());
            if !self.has_any_interval && !(least..=most).contains(&time) || time.is_zero() {
                return wrong(
                    key,
                    format!(
                        "must be {} to {} seconds, not {time:?}",
                        range.start(),
                        range.end()
                    ),
                );
            }
        }
        if self.stale.is_zero() {
            return wrong("stale", "must be longer than 0 s; 45 s is usual".into());
        }
        Ok(())
    }
}

/// Data that a member writes, reads and publishes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Writes its own state, reads nothing, and replies for itself.
    Publish,
    /// Writes and reads, and replies for itself. The view is available to the program.
    Sync,
    /// Writes and reads, and replies for the whole network.
    #[default]
    Aggregate,
}

impl Mode {
    /// Returns whether the member reads the state of other members.
    pub(super) fn reads(self) -> bool {
        self != Self::Publish
    }
}

impl FromStr for Mode {
    type Err = NetworkConfigError;

    /// Parses a mode in any case. The reference takes every other word for AGGREGATE; here it is an
    /// error.
    fn from_str(text: &str) -> Result<Self, NetworkConfigError> {
        match text.to_ascii_uppercase().as_str() {
            "PUBLISH" => Ok(Self::Publish),
            "SYNC" => Ok(Self::Sync),
            "AGGREGATE" => Ok(Self::Aggregate),
            _ => Err(NetworkConfigError {
                key: "mode",
                problem: "must be PUBLISH, SYNC or AGGREGATE".into(),
            }),
        }
    }
}

/// An invalid value in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct NetworkConfigError {
    /// Key of the value.
    pub key: &'static str,
    /// Problem, and how to fix it.
    pub problem: String,
}

impl From<RedisUrlError> for NetworkConfigError {
    fn from(error: RedisUrlError) -> Self {
        Self {
            key: "url",
            problem: error.problem.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_contains_no_secrets() {
        let mut config = NetworkConfig::new("redis://hailer:s3cret%40x@127.0.0.1:7/3").unwrap();
        config.redis.identity = Some((b"certificate".to_vec(), b"k3y".to_vec()));
        let shown = format!("{config:?} {config:#?} {}", config.redis);
        assert!(
            !shown.contains("s3cret") && !shown.contains("k3y") && !shown.contains("107, 51"),
            "{shown}"
        );
        assert!(shown.contains("127.0.0.1:7"), "{shown}");
        assert_eq!(
            config.redis.info.redis_settings().password(),
            Some("s3cret@x")
        );
        assert_eq!(config.redis.info.redis_settings().db(), 3);
        assert_eq!(
            config.redis.without_secrets("ERR args: 's3cret@x'"),
            "ERR args: '…'"
        );
        config.redis.log_in(Some("x"), "an@ther/:");
        assert!(!config.redis.without_secrets("an@ther/:").contains("an@"));
        for bad in [
            "redis://u:s3cret@:x",
            "http://u:s3cret@host",
            "rediss://u:s3cret@host/#insecure",
            "redis://u:s3cret@h/x",
        ] {
            let error = NetworkConfig::new(bad).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("s3cret"), "{error}");
        }
    }

    #[test]
    fn invalid_values_are_rejected() {
        let sound = NetworkConfig::new("redis://127.0.0.1").unwrap();
        assert_eq!(sound.check(), Ok(()));
        let wrong_key = |change: fn(&mut NetworkConfig)| {
            let mut config = sound.clone();
            change(&mut config);
            config.check().unwrap_err().key
        };
        assert_eq!(
            wrong_key(|s| s.heartbeat = Duration::from_secs(4)),
            "heartbeat"
        );
        assert_eq!(
            wrong_key(|s| s.refresh = Duration::from_secs(301)),
            "refresh"
        );
        assert_eq!(wrong_key(|s| s.network_id = "a}b".into()), "network-id");
        assert_eq!(wrong_key(|s| s.server_id = " ".into()), "server-id");
        assert_eq!("aggregate".parse(), Ok(Mode::Aggregate));
        assert_eq!("Sync".parse(), Ok(Mode::Sync));
        assert!("agregate".parse::<Mode>().is_err());
    }
}
