//! Servers on the watchlist.

use hailer::Target;
use hailer::client::{Host, TargetError};
use hailer::proto::Protocol;
use hailer::proto::model::is_control;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Shortest interval, in milliseconds.
pub const MIN_INTERVAL_MS: i64 = 1_000;

/// Number of a server in the history. Never used twice.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct ServerId(pub i64);

/// How a server came onto the watchlist. Each origin may remove only its own servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The configuration file. Earlier versions wrote `plan`.
    #[serde(alias = "plan")]
    Configuration,
    /// The API, which `hailer monitor add` uses too.
    Api,
    /// The list of a master server.
    Master,
}

impl Origin {
    /// Returns the keyword in the history and the API.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Api => "api",
            Self::Master => "master",
        }
    }
}

/// A server on the watchlist. JSON has its description, without the number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Server {
    /// Number of the server.
    #[serde(skip)]
    pub id: ServerId,
    /// Unique name: 1 to 64 letters, digits, `.`, `_` and `-`. Part of page URLs.
    pub name: String,
    /// Target as typed, with a protocol: `minecraft-query://play.example.com`.
    pub target: String,
    /// Group for lists and filters; empty for none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Labels for filters and alerts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Interval between polls; `None` for that of the monitor. JSON has milliseconds.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "interval_as_ms"
    )]
    pub interval: Option<Duration>,
    /// How it came onto the watchlist.
    pub origin: Origin,
}

mod interval_as_ms {
    use crate::sample::millis;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(
        interval: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        interval.map(millis).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        let interval = Option::<u64>::deserialize(from)?;
        Ok(interval.map(Duration::from_millis))
    }
}

/// Returns the host and the query port of a target. A server has one of each, in whatever protocol.
/// `None` for a target without a fixed query port.
pub fn place(target: &str) -> Option<(Host, u16)> {
    let target: Target = target.parse().ok()?;
    let port = target.query_port()?;
    Some((target.host, port))
}

/// A server to be added to the watchlist.
#[derive(Clone, Debug, PartialEq)]
pub struct NewServer {
    /// Its unique name (see [`Server::name`]).
    pub name: String,
    /// Its target, with a protocol.
    pub target: String,
    /// Its group for lists and filters; empty for none.
    pub group: String,
    /// Labels for filters and alerts.
    pub labels: BTreeMap<String, String>,
    /// Its interval; `None` for that of the monitor.
    pub interval: Option<Duration>,
    /// How it came onto the watchlist.
    pub origin: Origin,
}

impl NewServer {
    /// Returns a server without group, labels and interval.
    pub fn new(name: impl Into<String>, target: impl Into<String>, origin: Origin) -> Self {
        Self {
            name: name.into(),
            target: target.into(),
            group: String::new(),
            labels: BTreeMap::new(),
            interval: None,
            origin,
        }
    }

    /// Returns the server with this description and this number.
    pub fn with_id(self, id: ServerId) -> Server {
        Server {
            id,
            name: self.name,
            target: self.target,
            group: self.group,
            labels: self.labels,
            interval: self.interval,
            origin: self.origin,
        }
    }
}

/// Parses a target to be polled, which must have a protocol. The error describes the problem.
pub(crate) fn polled_target(text: &str) -> Result<(Target, &'static dyn Protocol), String> {
    let target: Target = text
        .parse()
        .map_err(|error: TargetError| error.to_string())?;
    match target.protocol {
        Some(protocol) => Ok((target, protocol)),
        None => Err(format!(
            "{text}: no protocol; write it as PROTOCOL://{text}"
        )),
    }
}

impl Server {
    /// Parses the target. Stored targets were checked, so an error means that another program has
    /// written to the database.
    ///
    /// # Errors
    /// If the target is invalid.
    pub fn target(&self) -> Result<Target, TargetError> {
        self.target.parse()
    }
}

/// Maximum length of a name, in characters.
pub const MAX_NAME_LENGTH: usize = 64;
/// Maximum length of a target, in characters. A host name has at most 253.
const MAX_TARGET_LENGTH: usize = 300;
const MAX_GROUP_CHARS: usize = 64;
const MAX_LABELS: usize = 16;
const MAX_KEY_LENGTH: usize = 32;
const MAX_VALUE_CHARS: usize = 128;
/// Maximum interval between polls.
const MAX_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// An error in one field of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// Name of the field.
    pub field: String,
    /// Description of valid values.
    pub message: String,
}

impl FieldError {
    /// Creates an error. A field name is cut after 64 characters.
    pub fn new(field: &str, message: impl Into<String>) -> Self {
        Self {
            field: field.chars().take(64).collect(),
            message: message.into(),
        }
    }
}

/// Returns the errors in the description of a server; none if it is valid.
pub fn check(new: &NewServer) -> Vec<FieldError> {
    let mut wrong = Vec::new();
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name = &new.name;
    if name.is_empty()
        || name.len() > MAX_NAME_LENGTH
        || name.starts_with('.')
        || !name.chars().all(is_of_name)
    {
        let message =
            format!("1 to {MAX_NAME_LENGTH} letters, digits, `.`, `_` and `-`, no `.` in front");
        wrong.push(FieldError::new("name", message));
    }
    let target = new.target.parse::<Target>();
    match target {
        _ if new.target.len() > MAX_TARGET_LENGTH => {
            wrong.push(FieldError::new(
                "target",
                format!("at most {MAX_TARGET_LENGTH} characters"),
            ));
        }
        Err(error) => wrong.push(FieldError::new("target", error.problem())),
        Ok(Target { protocol: None, .. }) => {
            wrong.push(FieldError::new(
                "target",
                format!(
                    "name the game or the protocol, such as minecraft://{}",
                    new.target
                ),
            ));
        }
        Ok(_) => {}
    }
    if !is_line(&new.group, MAX_GROUP_CHARS) {
        wrong.push(FieldError::new(
            "group",
            format!("at most {MAX_GROUP_CHARS} characters of one line"),
        ));
    }
    if new.labels.len() > MAX_LABELS {
        wrong.push(FieldError::new(
            "labels",
            format!("at most {MAX_LABELS} labels"),
        ));
    }
    for (key, value) in new.labels.iter().take(MAX_LABELS) {
        let field = format!("labels.{key}");
        if key.is_empty() || key.len() > MAX_KEY_LENGTH || !key.chars().all(is_of_name) {
            wrong.push(FieldError::new(
                &field,
                format!("a key has 1 to {MAX_KEY_LENGTH} letters, digits, `.`, `_` and `-`"),
            ));
        } else if !is_line(value, MAX_VALUE_CHARS) {
            wrong.push(FieldError::new(
                &field,
                format!("a value has at most {MAX_VALUE_CHARS} characters of one line"),
            ));
        }
    }
    let shortest = Duration::from_millis(MIN_INTERVAL_MS as u64);
    if new
        .interval
        .is_some_and(|interval| !(shortest..=MAX_INTERVAL).contains(&interval))
    {
        wrong.push(FieldError::new(
            "interval",
            format!(
                "from {} s to {} s",
                shortest.as_secs(),
                MAX_INTERVAL.as_secs()
            ),
        ));
    }
    wrong
}

fn is_line(text: &str, most: usize) -> bool {
    text.chars().count() <= most && !text.chars().any(is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Server {
        /// Returns a server on loopback, whose name is `s` and its id.
        pub(crate) fn of_test(id: i64) -> Self {
            Self {
                id: ServerId(id),
                name: format!("s{id}"),
                target: "ugp://127.0.0.1".into(),
                group: String::new(),
                labels: [].into(),
                interval: None,
                origin: Origin::Api,
            }
        }
    }

    #[test]
    fn errors_name_their_field() {
        let good = NewServer {
            name: "lobby-1.eu".into(),
            target: "ugp://play.example.com".into(),
            group: "Näh".into(),
            labels: [("region".to_owned(), "eu west".to_owned())].into(),
            interval: Some(Duration::from_secs(1)),
            origin: Origin::Api,
        };
        assert_eq!(check(&good), []);
        let fields = |new: NewServer| {
            check(&new)
                .into_iter()
                .map(|wrong| wrong.field)
                .collect::<Vec<_>>()
        };
        for name in ["", "..", "a/b", "ä", &"x".repeat(65)] {
            assert_eq!(
                fields(NewServer {
                    name: name.into(),
                    ..good.clone()
                }),
                ["name"],
                "{name}"
            );
        }
        for target in [
            "play.example.com",
            "gopher://x",
            "ugp://",
            &format!("ugp://{}", "x".repeat(300)),
        ] {
            assert_eq!(
                fields(NewServer {
                    target: target.into(),
                    ..good.clone()
                }),
                ["target"],
                "{target}"
            );
        }
        let labels = [
            ("a b".to_owned(), String::new()),
            ("c".to_owned(), "two\nlines".to_owned()),
        ]
        .into();
        let bad = NewServer {
            group: "\u{202e}".into(),
            labels,
            interval: Some(Duration::ZERO),
            ..good
        };
        assert_eq!(fields(bad), ["group", "labels.a b", "labels.c", "interval"]);
    }
}
