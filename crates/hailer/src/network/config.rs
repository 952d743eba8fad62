//! What a member of a network is told, and told off for.

use super::record::MAX_TEXT;
use crate::link::RedisConfig;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Heartbeats that the reference allows, in seconds.
const HEARTBEAT: RangeInclusive<u64> = 5..=300;
/// Full reads that the reference allows, in seconds.
const REFRESH: RangeInclusive<u64> = 10..=300;

/// How a server takes part in a network (spec/onequery.md#12.1).
///
/// With [`NetworkConfig::new`] everything but the URL has the reference's default.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NetworkConfig {
    /// Where Redis is, and as whom.
    pub redis: RedisConfig,
    /// First word of all keys. A fork of OneQuery has `monitoringhytalequery`.
    pub prefix: String,
    /// Which network. Servers of one network share their players.
    pub network_id: String,
    /// Which server: another one for each server of a network.
    pub server_id: String,
    /// The name that the network shows for this server; without one, that of the published status.
    pub name: Option<String>,
    /// The address under which players reach this server, if it is to be known.
    pub host: Option<String>,
    /// Port of the game.
    pub port: u16,
    /// What is written, read and answered.
    pub mode: Mode,
    /// Time between signs of life, 5 s to 300 s. Other members may take a server that is silent for 45 s for dead.
    pub heartbeat: Duration,
    /// Time between full reads, 10 s to 300 s. In between there are events.
    pub refresh: Duration,
    /// Servers without a sign of life for so long are not counted. The reference knows the limit of 45 s, but does nothing.
    pub stale: Duration,
    /// For so long after the loss of Redis the last view is answered; after that, what this server knows of itself.
    pub keep_view: Duration,
    /// Most other servers kept.
    pub max_servers: usize,
    /// Most players of other servers kept.
    pub max_players: usize,
    /// Takes any time for heartbeat and refresh. For tests, which cannot wait.
    pub any_interval: bool,
}

impl NetworkConfig {
    /// The reference's defaults for the Redis at a URL.
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
            any_interval: false,
        })
    }

    /// Whether all of it makes sense. [`super::Network::start`] asks this too.
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
        // They would move the keys of one network to several nodes of a cluster.
        for (key, text) in [("prefix", &self.prefix), ("network-id", &self.network_id)] {
            if text.contains(['{', '}']) {
                return wrong(key, "must not have braces".into());
            }
        }
        for (key, time, range) in [
            ("heartbeat", self.heartbeat, HEARTBEAT),
            ("refresh", self.refresh, REFRESH),
        ] {
            let (least, most) = (
                Duration::from_secs(*range.start()),
                Duration::from_secs(*range.end()),
            );
            if !self.any_interval && !(least..=most).contains(&time) || time.is_zero() {
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
            return wrong(
                "stale",
                "must be longer than nothing; 45 seconds is usual".into(),
            );
        }
        Ok(())
    }
}

/// What a member writes, reads and answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Writes its own state, reads nothing, answers for itself.
    Publish,
    /// Writes and reads, but answers for itself: the view is for the program.
    Sync,
    /// Writes, reads, and answers for the network.
    #[default]
    Aggregate,
}

impl Mode {
    /// Whether it reads what others write.
    pub(super) fn reads(self) -> bool {
        self != Self::Publish
    }
}

impl FromStr for Mode {
    type Err = NetworkConfigError;

    /// In any case. Unlike the reference, which takes any other word for AGGREGATE, this tells a slip of the pen.
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

/// A setting that makes no sense: which, and what it must be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {problem}")]
pub struct NetworkConfigError {
    /// The setting.
    pub key: &'static str,
    /// What to do.
    pub problem: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_show_nowhere() {
        let mut settings = NetworkConfig::new("redis://hailer:s3cret%40x@127.0.0.1:7/3").unwrap();
        settings.redis.identity = Some((b"certificate".to_vec(), b"k3y".to_vec()));
        let shown = format!("{settings:?} {settings:#?} {}", settings.redis);
        assert!(
            !shown.contains("s3cret") && !shown.contains("k3y") && !shown.contains("107, 51"),
            "{shown}"
        );
        assert!(shown.contains("127.0.0.1:7"), "{shown}");
        assert_eq!(
            settings.redis.info.redis_settings().password(),
            Some("s3cret@x")
        );
        assert_eq!(settings.redis.info.redis_settings().db(), 3);
        assert_eq!(
            settings.redis.without_secrets("ERR args: 's3cret@x'"),
            "ERR args: '…'"
        );
        settings.redis.log_in(Some("x"), "an@ther/:");
        assert!(!settings.redis.without_secrets("an@ther/:").contains("an@"));
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
    fn nonsense_is_told() {
        let sound = NetworkConfig::new("redis://127.0.0.1").unwrap();
        assert_eq!(sound.check(), Ok(()));
        let told = |change: fn(&mut NetworkConfig)| {
            let mut settings = sound.clone();
            change(&mut settings);
            settings.check().unwrap_err().key
        };
        assert_eq!(told(|s| s.heartbeat = Duration::from_secs(4)), "heartbeat");
        assert_eq!(told(|s| s.refresh = Duration::from_secs(301)), "refresh");
        assert_eq!(told(|s| s.network_id = "a}b".into()), "network-id");
        assert_eq!(told(|s| s.server_id = " ".into()), "server-id");
        assert_eq!("aggregate".parse(), Ok(Mode::Aggregate));
        assert_eq!("Sync".parse(), Ok(Mode::Sync));
        assert!("agregate".parse::<Mode>().is_err());
    }
}
