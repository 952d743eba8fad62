//! Alert rules as configured, and the evaluation of their conditions.
//!
//! Bounds: a name has 1 to 64 characters, a template at most 1,000 bytes, `repeat` is at least one
//! minute.

use super::notification::{ConditionKind, MessageConfig, Priority};
use super::quiet::{QuietHours, read_zone};
use super::template::{MAX_TEMPLATE_BYTES, Template};
use crate::health::State;
use crate::sample::{Millis, millis};
use crate::server::Server;
use crate::state::ServerRow;
use hailer::support::pattern;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Default of `gather`: the minimum time between two messages of a rule.
const DEFAULT_GATHER: Duration = Duration::from_secs(60);
/// Maximum length of the name of a rule or receiver, in characters.
pub(super) const MAX_NAME_CHARS: usize = 64;

/// One `[[alert]]` of the configuration: a condition, the servers to watch and the receivers.
///
/// ```toml
/// [[alert]]
/// name = "lobbies"
/// when = "down"                     # up, flapping, version, map, motd, address, monitor-silent; or
///                                   # instead of `when` one of: players-below = 5,
///                                   # players-above = 50, latency-above = "200ms",
///                                   # uptime-below = "99%" (of the last day)
/// for = "5m"                        # how long the condition must be true
/// servers = ["lobby-*"]             # default: all servers
/// groups = ["eu"]
/// labels = { tier = "gold" }
/// to = ["ops"]                      # names of receivers
/// resolve = true                    # also notify when the condition ends; default: true, except
///                                   # for `up` and changes
/// repeat = "1h"                     # repeat the message while the condition is true
/// gather = "1m"                     # minimum time between messages; later incidents are combined
/// quiet = ["22:00-07:00"]           # hold messages, and send one summary afterwards
/// zone = "Europe/Berlin"            # or "+02:00", or "local" (default)
/// priority = "high"                 # min, low, default, high, max; used by ntfy
/// title = "{server} is gone"        # for placeholders see `Placeholder`
/// text = "{server} ({group}) has not answered since {since}: {error}"
/// resolved-title = "{server} is back"
/// resolved-text = "{server} was down for {for}"
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RuleConfig")]
pub struct Rule {
    /// Unique name of the rule.
    pub name: String,
    /// When it fires.
    pub condition: Condition,
    /// How long the condition must be true before it fires, in milliseconds.
    pub min_duration: Millis,
    /// Which servers it watches.
    pub filter: ServerFilter,
    /// Names of the receivers.
    pub to: Vec<String>,
    /// Whether the end of an incident is notified.
    pub is_end_notified: bool,
    /// How often an open incident is notified again, in milliseconds; `None`: once only.
    pub repeat: Option<Millis>,
    /// Minimum time between two messages of this rule, in milliseconds. Incidents that arise
    /// meanwhile are combined into the next message.
    pub gather: Millis,
    /// When messages are held.
    pub quiet: QuietHours,
    /// Time zone of quiet hours and of times in messages, as configured.
    pub zone: String,
    /// Priority, and templates that replace the default ones.
    pub message: MessageConfig,
}

/// Condition of a rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    /// The server does not answer.
    Down,
    /// The server answers after it was down, or for the first time.
    Up,
    /// The server alternates between up and down.
    Flapping,
    /// A property of the server changed.
    Changed(Change),
    /// The monitor took no sample for at least three intervals. This detects a monitor that runs but
    /// does not poll; to detect that the process is gone, watch `/healthz` from outside.
    MonitorSilent,
    /// Fewer players than this.
    PlayersBelow(u32),
    /// More players than this.
    PlayersAbove(u32),
    /// Latency above this, in microseconds.
    LatencyAbove(u32),
    /// Uptime of the last day below this, from 0 to 1.
    UptimeBelow(f32),
}

/// A property whose change fires a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Version that the server reports.
    Version,
    /// Map that the server reports.
    Map,
    /// MOTD of the server.
    Motd,
    /// Address that the server's name resolves to.
    Address,
}

/// Selects servers by name, group and labels. All parts must match; an empty part matches all
/// servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerFilter {
    /// Patterns of names; `*` matches any text.
    pub servers: Vec<String>,
    /// Patterns of groups.
    pub groups: Vec<String>,
    /// Labels that the server must have, with patterns of their values.
    pub labels: BTreeMap<String, String>,
}

impl Rule {
    /// Returns the rule that reports flapping in place of a rule about `down`, whose templates are
    /// about outages.
    pub(super) fn about_flapping(&self) -> Option<Self> {
        (self.condition == Condition::Down).then(|| Self {
            condition: Condition::Flapping,
            message: MessageConfig {
                priority: self.message.priority,
                ..MessageConfig::default()
            },
            ..self.clone()
        })
    }

    /// Whether the rule watches this server.
    pub fn watches(&self, server: &Server) -> bool {
        self.condition != Condition::MonitorSilent && self.filter.matches(server)
    }
}

impl Condition {
    /// Returns the condition without its limit.
    pub fn kind(self) -> ConditionKind {
        match self {
            Self::Down => ConditionKind::Down,
            Self::Up => ConditionKind::Up,
            Self::Flapping => ConditionKind::Flapping,
            Self::Changed(Change::Version) => ConditionKind::Version,
            Self::Changed(Change::Map) => ConditionKind::Map,
            Self::Changed(Change::Motd) => ConditionKind::Motd,
            Self::Changed(Change::Address) => ConditionKind::Address,
            Self::MonitorSilent => ConditionKind::MonitorSilent,
            Self::PlayersBelow(_) => ConditionKind::PlayersBelow,
            Self::PlayersAbove(_) => ConditionKind::PlayersAbove,
            Self::LatencyAbove(_) => ConditionKind::LatencyAbove,
            Self::UptimeBelow(_) => ConditionKind::UptimeBelow,
        }
    }

    /// Whether it compares a number with a limit. Such a condition must also be false for
    /// `min_duration` before the incident ends.
    pub(super) fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::PlayersBelow(_)
                | Self::PlayersAbove(_)
                | Self::LatencyAbove(_)
                | Self::UptimeBelow(_)
        )
    }

    /// Evaluates the condition for one server.
    ///
    /// `None`: not known, so an incident neither begins nor ends. Changes are always `None`, since
    /// they are reported by events.
    pub(super) fn holds(self, row: &ServerRow, now: Millis) -> Option<bool> {
        let last = row.last_sample.as_ref().filter(|last| last.is_answered);
        match self {
            // The state was read from the history and may be outdated.
            Self::Down | Self::Up | Self::Flapping if row.last_sample.is_none() => None,
            Self::Flapping => Some(row.is_flapping),
            // While a server is flapping, only a state that lasts is reported.
            Self::Down | Self::Up if !row.is_settled || row.state == State::Unknown => None,
            Self::Down => Some(row.state == State::Down),
            Self::Up => Some(row.state == State::Up),
            Self::PlayersBelow(limit) => Some(last?.players? < limit),
            Self::PlayersAbove(limit) => Some(last?.players? > limit),
            Self::LatencyAbove(limit) => Some(last?.latency? > limit),
            Self::UptimeBelow(limit) => Some(row.day.uptime(now)? < limit),
            Self::Changed(_) | Self::MonitorSilent => None,
        }
    }
}

/// Keyword and limit, as in the configuration.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind().word())?;
        match self {
            Self::PlayersBelow(limit) | Self::PlayersAbove(limit) => write!(f, " {limit}"),
            Self::LatencyAbove(limit) => write!(f, " {} ms", f64::from(*limit) / 1e3),
            Self::UptimeBelow(limit) => write!(f, " {} %", f64::from(*limit * 1e4).round() / 100.0),
            Self::Down | Self::Up | Self::Flapping | Self::Changed(_) | Self::MonitorSilent => {
                Ok(())
            }
        }
    }
}

impl ServerFilter {
    fn matches(&self, server: &Server) -> bool {
        let any_matches = |patterns: &[String], text: &str| {
            patterns.is_empty()
                || patterns
                    .iter()
                    .any(|pattern| pattern::matches(pattern, text))
        };
        let has_label = |(label, pattern): (&String, &String)| {
            server
                .labels
                .get(label)
                .is_some_and(|value| pattern::matches(pattern, value))
        };
        any_matches(&self.servers, &server.name)
            && any_matches(&self.groups, &server.group)
            && self.labels.iter().all(has_label)
    }
}

/// `[[alert]]` as written in the configuration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RuleConfig {
    name: String,
    when: Option<ConditionInput>,
    players_below: Option<u32>,
    players_above: Option<u32>,
    latency_above: Option<ConfigDuration>,
    uptime_below: Option<ConfigPercent>,
    r#for: Option<ConfigDuration>,
    #[serde(default)]
    servers: Vec<String>,
    #[serde(default)]
    groups: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    to: Vec<String>,
    resolve: Option<bool>,
    repeat: Option<ConfigDuration>,
    gather: Option<ConfigDuration>,
    #[serde(default)]
    quiet: Vec<String>,
    zone: Option<String>,
    title: Option<Template>,
    text: Option<Template>,
    resolved_title: Option<Template>,
    resolved_text: Option<Template>,
    #[serde(default)]
    priority: Priority,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ConditionInput {
    Down,
    Up,
    Flapping,
    Version,
    Map,
    Motd,
    Address,
    MonitorSilent,
}

impl From<ConditionInput> for Condition {
    fn from(when: ConditionInput) -> Self {
        match when {
            ConditionInput::Down => Self::Down,
            ConditionInput::Up => Self::Up,
            ConditionInput::Flapping => Self::Flapping,
            ConditionInput::Version => Self::Changed(Change::Version),
            ConditionInput::Map => Self::Changed(Change::Map),
            ConditionInput::Motd => Self::Changed(Change::Motd),
            ConditionInput::Address => Self::Changed(Change::Address),
            ConditionInput::MonitorSilent => Self::MonitorSilent,
        }
    }
}

/// A duration such as `5m`.
pub(super) struct ConfigDuration(pub(super) Duration);

impl<'de> Deserialize<'de> for ConfigDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let duration = humantime::parse_duration(&text).map_err(|_| {
            serde::de::Error::custom(format!(
                "\"{text}\" is not a duration; write \"30s\", \"5m\" or \"1h\""
            ))
        })?;
        Ok(Self(duration))
    }
}

impl ConfigDuration {
    fn millis(&self) -> Millis {
        millis(self.0)
    }
}

/// A percentage such as `99.5%`, stored as a share from 0 to 1.
struct ConfigPercent(f32);

impl<'de> Deserialize<'de> for ConfigPercent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let number = text
            .strip_suffix('%')
            .and_then(|number| number.trim().parse::<f32>().ok());
        match number.filter(|number| (0.0..=100.0).contains(number)) {
            Some(number) => Ok(Self(number / 100.0)),
            None => Err(serde::de::Error::custom(format!(
                "\"{text}\" is not a percentage from 0% to 100%; write \"99.5%\""
            ))),
        }
    }
}

/// Error in a rule or a receiver: what is wrong and how to fix it, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(pub String);

/// Whether a rule or a receiver may have this name.
pub(super) fn is_valid_name(name: &str) -> bool {
    (1..=MAX_NAME_CHARS).contains(&name.chars().count())
        && !name.chars().any(hailer::proto::model::is_control)
}

impl RuleConfig {
    /// Returns the one condition that is configured.
    fn condition(&self) -> Option<Condition> {
        let latency = |span: &ConfigDuration| u32::try_from(span.0.as_micros()).unwrap_or(u32::MAX);
        let all = [
            self.when.map(Condition::from),
            self.players_below.map(Condition::PlayersBelow),
            self.players_above.map(Condition::PlayersAbove),
            self.latency_above
                .as_ref()
                .map(|span| Condition::LatencyAbove(latency(span))),
            self.uptime_below
                .as_ref()
                .map(|share| Condition::UptimeBelow(share.0)),
        ];
        let mut conditions = all.into_iter().flatten();
        let first = conditions.next();
        first.filter(|_| conditions.next().is_none())
    }

    fn has_long_template(&self) -> bool {
        [
            &self.title,
            &self.text,
            &self.resolved_title,
            &self.resolved_text,
        ]
        .into_iter()
        .flatten()
        .any(|template| template.source().len() > MAX_TEMPLATE_BYTES)
    }
}

impl TryFrom<RuleConfig> for Rule {
    type Error = RuleError;

    fn try_from(config: RuleConfig) -> Result<Self, RuleError> {
        if !is_valid_name(&config.name) {
            return Err(RuleError(format!(
                "the name of an alert must have 1 to {MAX_NAME_CHARS} printable characters"
            )));
        }
        let error = |problem: String| RuleError(format!("alert \"{}\": {problem}", config.name));
        let Some(condition) = config.condition() else {
            return Err(error(
                "write exactly one of when, players-below, players-above, latency-above and \
                 uptime-below"
                    .into(),
            ));
        };
        if config.has_long_template() {
            return Err(error(format!(
                "a template must have at most {MAX_TEMPLATE_BYTES} bytes"
            )));
        }
        let filter = ServerFilter {
            servers: config.servers,
            groups: config.groups,
            labels: config.labels,
        };
        if condition == Condition::MonitorSilent && filter != ServerFilter::default() {
            return Err(error(
                "monitor-silent is about the monitor itself; remove servers, groups and labels"
                    .into(),
            ));
        }
        let is_change = matches!(condition, Condition::Changed(_));
        if is_change && (config.resolve == Some(true) || config.repeat.is_some()) {
            return Err(error(
                "a change has no end; remove resolve and repeat".into(),
            ));
        }
        if config.to.is_empty() {
            return Err(error(
                "no receiver; write to = [\"NAME\"] with the name of a receiver".into(),
            ));
        }
        let repeat = config.repeat.map(|span| span.millis());
        if repeat.is_some_and(|repeat| repeat < 60_000) {
            return Err(error(
                "repeat must be at least one minute; write repeat = \"1m\" or longer".into(),
            ));
        }
        let zone = config.zone.unwrap_or_else(|| "local".into());
        let quiet = read_zone(&zone)
            .and_then(|zone| QuietHours::new(&config.quiet, zone))
            .map_err(&error)?;
        let gather = config.gather.unwrap_or(ConfigDuration(DEFAULT_GATHER));
        Ok(Self {
            condition,
            min_duration: config.r#for.map_or(0, |span| span.millis()),
            filter,
            to: config.to,
            is_end_notified: config
                .resolve
                .unwrap_or(!is_change && condition != Condition::Up),
            repeat,
            gather: gather.millis(),
            quiet,
            zone,
            message: MessageConfig {
                title: config.title,
                text: config.text,
                resolved_title: config.resolved_title,
                resolved_text: config.resolved_text,
                priority: config.priority,
            },
            name: config.name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::{Origin, ServerId};

    fn rule(toml: &str) -> Result<Rule, String> {
        toml::from_str(toml).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn rejects_invalid_rules_with_the_fix() {
        let all = "name = 'a'\nwhen = 'down'\nfor = '5m'\nto = ['ops']\nrepeat = '1h'\nquiet = ['22:00-07:00']\nzone = '+02:00'
                   title = '{server} is gone'\npriority = 'high'\nservers = ['*']\ngroups = []\nlabels = { tier = 'gold' }";
        let good = rule(all).unwrap();
        assert_eq!(
            (good.min_duration, good.repeat, good.is_end_notified),
            (300_000, Some(3_600_000), true)
        );
        for (more, expected) in [
            ("when = 'gone'", "monitor-silent"),
            ("players-below = 5\nwhen = 'down'", "write exactly one of"),
            ("", "write exactly one of"),
            ("when = 'motd'\nrepeat = '1h'", "has no end"),
            ("when = 'down'\nfor = '5 apples'", "not a duration"),
            ("uptime-below = '101%'", "not a percentage"),
            ("when = 'down'\ntitle = '{servr}'", "{server}"),
            ("when = 'down'\nseverity = 'high'", "severity"),
            (
                "when = 'monitor-silent'\ngroups = ['eu']",
                "the monitor itself",
            ),
            ("when = 'down'\nquiet = ['22-7']", "22:00-07:00"),
            ("when = 'down'\nzone = 'Mars'", "time zone"),
            ("when = 'down'\nrepeat = '1s'", "at least one minute"),
        ] {
            let error = rule(&format!("name = 'a'\nto = ['ops']\n{more}")).unwrap_err();
            assert!(error.contains(expected), "{more}: {error}");
        }
        assert!(
            rule("name = 'a'\nwhen = 'down'\nto = []")
                .unwrap_err()
                .contains("no receiver")
        );
        assert_eq!(
            rule("name = 'a'\nlatency-above = '200ms'\nto = ['b']")
                .unwrap()
                .condition
                .to_string(),
            "latency-above 200 ms"
        );
        assert_eq!(
            rule("name = 'a'\nuptime-below = '99.9%'\nto = ['b']")
                .unwrap()
                .condition
                .to_string(),
            "uptime-below 99.9 %"
        );
    }

    #[test]
    fn filters_match_names_groups_and_labels() {
        let mut server = Server {
            id: ServerId(1),
            name: "lobby-eu-1".into(),
            target: "ugp://127.0.0.1".into(),
            group: "eu".into(),
            labels: [("tier".to_owned(), "gold".to_owned())].into(),
            interval: None,
            origin: Origin::Configuration,
        };
        let filter = |servers: &[&str], groups: &[&str], labels: &[(&str, &str)]| ServerFilter {
            servers: servers.iter().map(|s| (*s).into()).collect(),
            groups: groups.iter().map(|s| (*s).into()).collect(),
            labels: labels
                .iter()
                .map(|(k, v)| ((*k).into(), (*v).into()))
                .collect(),
        };
        assert!(ServerFilter::default().matches(&server));
        assert!(filter(&["x", "lobby-*"], &["eu"], &[("tier", "g*d")]).matches(&server));
        assert!(filter(&["*eu*1"], &["*"], &[]).matches(&server));
        assert!(!filter(&["lobby-*-2"], &[], &[]).matches(&server));
        assert!(!filter(&["lobby"], &[], &[]).matches(&server));
        assert!(!filter(&[], &["us"], &[]).matches(&server));
        assert!(!filter(&[], &[], &[("tier", "silver")]).matches(&server));
        server.group.clear();
        assert!(
            !filter(&[], &["eu"], &[]).matches(&server)
                && filter(&[], &["*"], &[]).matches(&server)
        );
    }
}
