//! Content of alert messages, before a template turns it into text.

use super::template::Template;
use crate::sample::Millis;
use crate::server::ServerId;
use hailer::proto::wire::hexadecimal;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Maximum number of servers listed in one notification; [`Notification::more`] counts the others.
pub const MAX_LISTED_SERVERS: usize = 20;

/// One message of a rule about one or more servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Notification {
    /// 32 hexadecimal digits, derived from the incidents: every node computes the same id.
    pub id: String,
    /// Name of the rule.
    pub rule: String,
    /// Condition of the rule.
    pub condition: ConditionKind,
    /// Whether the condition became true, remains true or ended.
    pub kind: NotificationKind,
    /// When it was created, in Unix milliseconds.
    pub at: Millis,
    /// Servers concerned, at most [`MAX_LISTED_SERVERS`].
    pub items: Vec<AffectedServer>,
    /// Number of servers concerned that are not in `items`.
    pub more: u32,
    /// Names of the receivers.
    pub to: Vec<String>,
    /// End of the quiet hours in which it was created, in Unix milliseconds; `None` outside of
    /// quiet hours.
    pub held_until: Option<Millis>,
    /// Priority, and templates that replace the default ones.
    #[serde(rename = "words")]
    pub message: MessageConfig,
    /// Time zone of times in the text, as configured.
    pub zone: String,
}

/// Reason for a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotificationKind {
    /// The condition became true.
    Firing,
    /// The condition is still true.
    Repeated,
    /// The condition ended.
    Resolved,
    /// Test of a receiver; no condition is true.
    Test,
}

impl NotificationKind {
    /// Keyword of the kind, as in `schema/alert-v2.json`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Firing => "firing",
            Self::Repeated => "repeated",
            Self::Resolved => "resolved",
            Self::Test => "test",
        }
    }
}

/// Condition of a rule, without its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConditionKind {
    /// The server does not answer.
    Down,
    /// The server answers again.
    Up,
    /// The server alternates between up and down.
    Flapping,
    /// The version changed.
    Version,
    /// The map changed.
    Map,
    /// The MOTD changed.
    Motd,
    /// The resolved address changed.
    Address,
    /// The monitor takes no samples.
    MonitorSilent,
    /// Fewer players than the limit.
    PlayersBelow,
    /// More players than the limit.
    PlayersAbove,
    /// Latency above the limit.
    LatencyAbove,
    /// Uptime of the last day below the limit.
    UptimeBelow,
    /// The game behind a door of `hailer serve` is in another state.
    Door,
    /// Test of a receiver.
    Test,
}

impl ConditionKind {
    /// Keyword of the condition, as in the configuration and in `schema/alert-v2.json`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
            Self::Flapping => "flapping",
            Self::Version => "version",
            Self::Map => "map",
            Self::Motd => "motd",
            Self::Address => "address",
            Self::MonitorSilent => "monitor-silent",
            Self::PlayersBelow => "players-below",
            Self::PlayersAbove => "players-above",
            Self::LatencyAbove => "latency-above",
            Self::UptimeBelow => "uptime-below",
            Self::Door => "door",
            Self::Test => "test",
        }
    }
}

/// State of one server when the notification was created. Texts come from the server and are
/// untrusted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AffectedServer {
    /// Id of the incident: 32 hexadecimal digits, the same in all its messages and on every node.
    pub incident: String,
    /// Id of the server; `None` for the monitor itself.
    pub id: Option<ServerId>,
    /// Configured name of the server.
    pub name: String,
    /// Configured group; empty if it has none.
    pub group: String,
    /// Address as configured.
    pub target: String,
    /// `up`, `down`, `unknown` or `flapping`; `removed`, `renamed` or `unwatched` if the incident ended
    /// for this reason; empty for the monitor itself.
    pub state: String,
    /// When the condition became true, in Unix milliseconds.
    pub since: Millis,
    /// When the condition ended, in Unix milliseconds; `None` while it is true.
    pub until: Option<Millis>,
    /// Whether the message about the begin waited until the end, so that this one is about both.
    pub is_late: bool,
    /// Times of the last changes between up and down, the oldest first; empty unless the message is
    /// about flapping.
    pub changes: Vec<Millis>,
    /// Number of players online.
    pub players: Option<u32>,
    /// Maximum number of players.
    pub max: Option<u32>,
    /// Latency of the last answer, in microseconds.
    pub latency: Option<u32>,
    /// Uptime of the last day, from 0 to 1.
    pub uptime: Option<f32>,
    /// Why the last poll failed, as the keyword of [`hailer::Error`].
    pub reason: Option<String>,
    /// Why the last poll failed, as a sentence.
    pub error: Option<String>,
    /// Value before a change.
    pub from: Option<String>,
    /// Value after a change, or the new name of a renamed server.
    pub to: Option<String>,
    /// Name that the server reports.
    pub title: Option<String>,
    /// MOTD without formatting.
    pub motd: Option<String>,
    /// Version that the server reports.
    pub version: Option<String>,
    /// Map that the server reports.
    pub map: Option<String>,
    /// Number of bots.
    pub bots: Option<u32>,
    /// Whether players need a password to join.
    pub has_password: Option<bool>,
}

/// Priority of a rule's messages, and templates that replace the default ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MessageConfig {
    /// Title while the condition is true.
    pub title: Option<Template>,
    /// Line for each server while the condition is true.
    pub text: Option<Template>,
    /// Title after the condition ended.
    pub resolved_title: Option<Template>,
    /// Line for each server after the condition ended.
    pub resolved_text: Option<Template>,
    /// Priority of the messages.
    #[serde(default)]
    pub priority: Priority,
}

/// Priority of a message, with the names and effects of ntfy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// No sound, at the end of the list.
    Min,
    /// Delivered without sound.
    Low,
    /// Delivered with a short sound.
    #[default]
    Default,
    /// Delivered with a long sound.
    High,
    /// Long sound, and a window in the foreground.
    Max,
}

impl Notification {
    /// Creates a test message for the receiver `to`.
    pub fn test(to: &str, now: Millis) -> Self {
        let item = AffectedServer {
            name: "example".into(),
            since: now,
            state: "up".into(),
            ..AffectedServer::default()
        };
        Self {
            id: hex(&Sha256::digest(format!("test\0{to}\0{now}"))),
            rule: "test".into(),
            condition: ConditionKind::Test,
            kind: NotificationKind::Test,
            at: now,
            items: vec![item],
            more: 0,
            to: vec![to.into()],
            held_until: None,
            message: MessageConfig::default(),
            zone: "local".into(),
        }
    }

    /// Creates a message about the game behind a door of `hailer serve`. `state` is its new state,
    /// and `line` describes the change. The kind is [`NotificationKind::Firing`] for failures.
    pub fn door(server: &str, state: &str, line: &str, is_failure: bool, now: Millis) -> Self {
        let id = format!("door\0{server}\0{state}\0{line}\0{now}");
        let id = hex(&Sha256::digest(id));
        let item = AffectedServer {
            incident: id.clone(),
            name: server.into(),
            since: now,
            state: state.into(),
            to: Some(line.into()),
            ..AffectedServer::default()
        };
        Self {
            id,
            rule: "door".into(),
            condition: ConditionKind::Door,
            kind: match is_failure {
                true => NotificationKind::Firing,
                false => NotificationKind::Resolved,
            },
            at: now,
            items: vec![item],
            more: 0,
            to: Vec::new(),
            held_until: None,
            message: MessageConfig::default(),
            zone: "local".into(),
        }
    }

    /// Number of servers concerned, listed or not.
    pub fn count(&self) -> u64 {
        self.items.len() as u64 + u64::from(self.more)
    }
}

/// Returns the first 16 bytes of a digest as hexadecimal digits.
pub(super) fn hex(digest: &[u8]) -> String {
    hexadecimal(&digest[..16])
}
