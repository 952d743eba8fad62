//! What is worth telling, as the plan says it.

use super::message::Template;
use super::quiet::{QuietHours, read_zone};
use crate::health::State;
use crate::sample::Millis;
use crate::server::Server;
use crate::state::ServerRow;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// No template is longer, in bytes.
const MAX_TEMPLATE_BYTES: usize = 1_000;
/// Unless told otherwise, what follows within a minute is told together.
const DEFAULT_GATHER: Duration = Duration::from_secs(60);

/// What is worth telling, about whom, and to whom: a `[[alert]]` of the plan.
///
/// ```toml
/// [[alert]]
/// name = "lobbies"
/// when = "down"                     # up, flapping, version, map, motd, address, monitor-silent; or instead of `when` one of
/// # players-below = 5               # players-above, latency-above = "200ms", uptime-below = "99%" (of the last day)
/// for = "5m"                        # only if it is so for so long
/// servers = ["lobby-*"]             # all, if left out
/// groups = ["eu"]
/// labels = { tier = "gold" }
/// to = ["ops"]                      # receivers by name
/// resolve = true                    # tells when it is over; so it is unless for `up` and changes
/// repeat = "1h"                     # says it again while it is so
/// gather = "1m"                     # what follows within this time is told in one message
/// quiet = ["22:00-07:00"]           # what happens then is told after, in one message
/// zone = "Europe/Berlin"            # or "+02:00", or "local"
/// priority = "high"                 # min, low, default, high, max: for ntfy
/// title = "{server} is gone"        # see message::PLACEHOLDERS
/// text = "{server} ({group}) does not answer since {since}: {error}"
/// resolved-title = "{server} is back"
/// resolved-text = "{server} was away for {for}"
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RuleConfig")]
pub struct Rule {
    /// Unique.
    pub name: String,
    /// What is told.
    pub condition: Condition,
    /// It is told only if it was so for so long, in milliseconds.
    pub lasts: Millis,
    /// Whom it watches.
    pub filter: ServerFilter,
    /// The names of receivers.
    pub to: Vec<String>,
    /// Whether the end is told as well.
    pub resolve: bool,
    /// After so many milliseconds it is told again.
    pub repeat: Option<Millis>,
    /// After a message, the next of this rule waits for so long, in milliseconds, and tells all that came in between.
    pub gather: Millis,
    /// When messages are held.
    pub quiet: QuietHours,
    /// The zone of the quiet hours, and of times in messages, as it was written.
    pub zone: String,
    /// What to say, if not the usual.
    pub words: MessageConfig,
}

/// What a rule watches for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    /// It does not answer.
    Down,
    /// It answers, after it did not, or for the first time.
    Up,
    /// It goes up and down all the time.
    Flapping,
    /// What it says of itself, or its address, changed.
    Changed(Change),
    /// No sample was taken of anybody, for three intervals at least. This tells of a monitor that lives and does nothing;
    /// that a dead one is dead, somebody else must tell, who asks its `/healthz`.
    MonitorSilent,
    /// Fewer players.
    PlayersBelow(u32),
    /// More players.
    PlayersAbove(u32),
    /// Longer round trips, in microseconds.
    LatencyAbove(u32),
    /// A smaller share of answered samples in the last day, from 0 to 1.
    UptimeBelow(f32),
}

/// What may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The version that it tells.
    Version,
    /// The map.
    Map,
    /// The MOTD.
    Motd,
    /// What its name means.
    Address,
}

/// Whom a rule watches: all that each of these lists matches; an empty one matches all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerFilter {
    /// Names; `*` stands for any text.
    pub servers: Vec<String>,
    /// Groups, likewise.
    pub groups: Vec<String>,
    /// Labels, all of them; `*` in values likewise.
    pub labels: BTreeMap<String, String>,
}

/// What to say, if not the usual.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MessageConfig {
    /// The first line.
    pub title: Option<Template>,
    /// A line for each server.
    pub text: Option<Template>,
    /// The first line when it is over.
    pub resolved_title: Option<Template>,
    /// A line for each server when it is over.
    pub resolved_text: Option<Template>,
    /// How urgent it is.
    #[serde(default)]
    pub priority: Priority,
}

/// How urgent something is, in the words of ntfy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// No sound, at the end of the list.
    Min,
    /// No sound.
    Low,
    /// As usual.
    #[default]
    Default,
    /// A long sound.
    High,
    /// Sound over everything.
    Max,
}

impl Rule {
    /// Whether it watches this server.
    pub fn watches(&self, server: &Server) -> bool {
        self.condition != Condition::MonitorSilent && self.filter.matches(server)
    }
}

impl Condition {
    /// Its word: in messages, and in the plan.
    pub fn word(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Up => "up",
            Self::Flapping => "flapping",
            Self::Changed(Change::Version) => "version",
            Self::Changed(Change::Map) => "map",
            Self::Changed(Change::Motd) => "motd",
            Self::Changed(Change::Address) => "address",
            Self::MonitorSilent => "monitor-silent",
            Self::PlayersBelow(_) => "players-below",
            Self::PlayersAbove(_) => "players-above",
            Self::LatencyAbove(_) => "latency-above",
            Self::UptimeBelow(_) => "uptime-below",
        }
    }

    /// Whether it compares a number that goes up and down, so that its end must last as well.
    pub(super) fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::PlayersBelow(_)
                | Self::PlayersAbove(_)
                | Self::LatencyAbove(_)
                | Self::UptimeBelow(_)
        )
    }

    /// Whether it is so; `None`: nobody knows, so what was so stays so. Changes are events, of which a row knows nothing.
    pub(super) fn holds(self, row: &ServerRow, now: Millis) -> Option<bool> {
        let last = row.last_sample.as_ref().filter(|last| last.answered);
        match self {
            Self::Flapping => Some(row.is_flapping),
            // Nobody wants to hear each up and down of one that flaps.
            Self::Down | Self::Up if row.is_flapping || row.state == State::Unknown => None,
            // What the history says of before the start may be long over.
            Self::Down | Self::Up if row.last_sample.is_none() => None,
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

/// As in the plan, with its bound.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())?;
        match self {
            Self::PlayersBelow(limit) | Self::PlayersAbove(limit) => write!(f, " {limit}"),
            Self::LatencyAbove(limit) => write!(f, " {} ms", f64::from(*limit) / 1e3),
            Self::UptimeBelow(limit) => write!(f, " {} %", f64::from(*limit * 1e4).round() / 100.0),
            _ => Ok(()),
        }
    }
}

impl ServerFilter {
    fn matches(&self, server: &Server) -> bool {
        let one_of = |patterns: &[String], text: &str| {
            patterns.is_empty()
                || patterns
                    .iter()
                    .any(|pattern| matches(pattern.as_bytes(), text.as_bytes()))
        };
        let has = |(label, pattern): (&String, &String)| {
            server
                .labels
                .get(label)
                .is_some_and(|value| matches(pattern.as_bytes(), value.as_bytes()))
        };
        one_of(&self.servers, &server.name)
            && one_of(&self.groups, &server.group)
            && self.labels.iter().all(has)
    }
}

/// Whether a pattern with `*` matches, in linear memory and at worst quadratic time: patterns come from the plan.
fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the last star was, and how much of the text it stood for.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(byte) if *byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, taken)) => {
                    star = Some((at, taken + 1));
                    (p, t) = (at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// A `[[alert]]` as it was written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RuleConfig {
    name: String,
    when: Option<When>,
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
enum When {
    Down,
    Up,
    Flapping,
    Version,
    Map,
    Motd,
    Address,
    MonitorSilent,
}

/// A duration such as `5m`.
pub(super) struct ConfigDuration(pub(super) Duration);

impl<'de> Deserialize<'de> for ConfigDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let span = humantime::parse_duration(&text).map_err(|_| {
            serde::de::Error::custom(format!(
                "\"{text}\" is no duration; write it as \"30s\", \"5m\" or \"1h\""
            ))
        })?;
        Ok(Self(span))
    }
}

impl ConfigDuration {
    fn millis(&self) -> Millis {
        Millis::try_from(self.0.as_millis())
            .unwrap_or(Millis::MAX)
            .min(1 << 50)
    }
}

/// A share such as `99.5%`.
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
                "\"{text}\" is no share; write it as \"99.5%\""
            ))),
        }
    }
}

/// What is wrong with a rule or a receiver, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RuleError(pub String);

impl TryFrom<RuleConfig> for Rule {
    type Error = RuleError;

    fn try_from(config: RuleConfig) -> Result<Self, RuleError> {
        let name = config.name;
        let wrong = |problem: String| RuleError(format!("alert \"{name}\": {problem}"));
        if name.is_empty()
            || name.chars().count() > 64
            || name.chars().any(hailer::proto::model::is_control)
        {
            return Err(RuleError(
                "an alert has a name of 1 to 64 printable characters".into(),
            ));
        }
        let when = config.when.map(|when| match when {
            When::Down => Condition::Down,
            When::Up => Condition::Up,
            When::Flapping => Condition::Flapping,
            When::Version => Condition::Changed(Change::Version),
            When::Map => Condition::Changed(Change::Map),
            When::Motd => Condition::Changed(Change::Motd),
            When::Address => Condition::Changed(Change::Address),
            When::MonitorSilent => Condition::MonitorSilent,
        });
        let latency = |span: ConfigDuration| u32::try_from(span.0.as_micros()).unwrap_or(u32::MAX);
        let conditions = [
            when,
            config.players_below.map(Condition::PlayersBelow),
            config.players_above.map(Condition::PlayersAbove),
            config
                .latency_above
                .map(|span| Condition::LatencyAbove(latency(span))),
            config
                .uptime_below
                .map(|share| Condition::UptimeBelow(share.0)),
        ];
        let mut conditions = conditions.into_iter().flatten();
        let (Some(condition), None) = (conditions.next(), conditions.next()) else {
            let one =
                "write one of when, players-below, players-above, latency-above and uptime-below";
            return Err(wrong(one.into()));
        };
        let filter = ServerFilter {
            servers: config.servers,
            groups: config.groups,
            labels: config.labels,
        };
        if condition == Condition::MonitorSilent && filter != ServerFilter::default() {
            return Err(wrong(
                "monitor-silent is about nobody in particular; leave servers, groups and labels out".into(),
            ));
        }
        let is_change = matches!(condition, Condition::Changed(_));
        if is_change && (config.resolve == Some(true) || config.repeat.is_some()) {
            return Err(wrong(
                "a change is never over; leave resolve and repeat out".into(),
            ));
        }
        if config.to.is_empty() {
            return Err(wrong(
                "nobody would hear of it; write to = [\"NAME\"] with the name of a receiver".into(),
            ));
        }
        let repeat = config.repeat.map(|span| span.millis());
        if repeat.is_some_and(|repeat| repeat < 60_000) {
            return Err(wrong(
                "it would be repeated more than once a minute; write repeat = \"1m\" or longer"
                    .into(),
            ));
        }
        let templates = [
            &config.title,
            &config.text,
            &config.resolved_title,
            &config.resolved_text,
        ];
        if templates
            .into_iter()
            .flatten()
            .any(|template| template.source().len() > MAX_TEMPLATE_BYTES)
        {
            return Err(wrong(format!(
                "a template has at most {MAX_TEMPLATE_BYTES} bytes"
            )));
        }
        let zone = config.zone.unwrap_or_else(|| "local".into());
        let quiet = read_zone(&zone)
            .and_then(|zone| QuietHours::new(&config.quiet, zone))
            .map_err(&wrong)?;
        Ok(Self {
            condition,
            lasts: config.r#for.map_or(0, |span| span.millis()),
            filter,
            to: config.to,
            resolve: config
                .resolve
                .unwrap_or(!is_change && condition != Condition::Up),
            repeat,
            gather: config
                .gather
                .unwrap_or(ConfigDuration(DEFAULT_GATHER))
                .millis(),
            quiet,
            zone,
            words: MessageConfig {
                title: config.title,
                text: config.text,
                resolved_title: config.resolved_title,
                resolved_text: config.resolved_text,
                priority: config.priority,
            },
            name,
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
    fn a_rule_says_what_is_wrong_with_it() {
        let all = "name = 'a'\nwhen = 'down'\nfor = '5m'\nto = ['ops']\nrepeat = '1h'\nquiet = ['22:00-07:00']\nzone = '+02:00'
                   title = '{server} is gone'\npriority = 'high'\nservers = ['*']\ngroups = []\nlabels = { tier = 'gold' }";
        let good = rule(all).unwrap();
        assert_eq!(
            (good.lasts, good.repeat, good.resolve),
            (300_000, Some(3_600_000), true)
        );
        for (more, says) in [
            ("when = 'gone'", "monitor-silent"),
            ("players-below = 5\nwhen = 'down'", "write one of"),
            ("", "write one of"),
            ("when = 'motd'\nrepeat = '1h'", "never over"),
            ("when = 'down'\nfor = '5 apples'", "no duration"),
            ("uptime-below = '101%'", "no share"),
            ("when = 'down'\ntitle = '{servr}'", "{server}"),
            ("when = 'down'\nseverity = 'high'", "severity"),
            (
                "when = 'monitor-silent'\ngroups = ['eu']",
                "nobody in particular",
            ),
            ("when = 'down'\nquiet = ['22-7']", "22:00-07:00"),
            ("when = 'down'\nzone = 'Mars'", "time zone"),
            ("when = 'down'\nrepeat = '1s'", "once a minute"),
        ] {
            let error = rule(&format!("name = 'a'\nto = ['ops']\n{more}")).unwrap_err();
            assert!(error.contains(says), "{more}: {error}");
        }
        assert!(
            rule("name = 'a'\nwhen = 'down'\nto = []")
                .unwrap_err()
                .contains("nobody would hear")
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
    fn whom_it_watches() {
        let mut server = Server {
            id: ServerId(1),
            name: "lobby-eu-1".into(),
            target: "ugp://127.0.0.1".into(),
            group: "eu".into(),
            labels: [("tier".to_owned(), "gold".to_owned())].into(),
            interval: None,
            origin: Origin::Plan,
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
