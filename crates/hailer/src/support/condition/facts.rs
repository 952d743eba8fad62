//! Facts about a server, for the evaluation of conditions.

use super::Field;
use crate::answer::Answer;
use crate::error::Error;
use hailer_proto::games::{Game, Quirk};
use hailer_proto::model::{Roster, Text, Value, printable};
use hailer_proto::{Fault, Status};
use std::borrow::Cow;
use std::time::Duration;

/// Extras with which a server says that players cannot join yet: the key, and values in lower case.
/// Satisfactory loads or has no game, the API of Satisfactory has no running game, TeamSpeak's
/// virtual server is not up.
const NOT_READY: &[(&str, &[&str])] = &[
    (
        "state",
        &["loading", "idle", "offline", "booting up", "shutting down"],
    ),
    ("running", &["no"]),
];

/// Known facts about a server at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts<'a> {
    /// Whether the server replied. `None`: unknown, because the query could not find out.
    pub is_online: Option<bool>,
    /// The status that it reported.
    pub status: Option<&'a Status>,
    /// Latency of the reply.
    pub latency: Option<Duration>,
    /// Whether a reported number of 0 players may be wrong, as in games with
    /// [`Quirk::UnsureCount`].
    pub is_zero_unsure: bool,
}

impl<'a> Facts<'a> {
    /// Returns the facts of an answer. `game` is the game of the target, if it names one.
    pub fn answered(answer: &'a Answer, game: Option<&Game>) -> Self {
        Self {
            is_online: Some(true),
            status: Some(&answer.status),
            latency: Some(answer.latency),
            is_zero_unsure: has(game, Quirk::UnsureCount),
        }
    }

    /// Returns the facts of a query without an answer. Only silence, or a closed port, of a server
    /// whose game or protocol was named means that it is offline. It is unknown after other failures:
    /// of the name lookup or of the network here, at addresses of Steam's relay, and in games whose
    /// servers can be silent although they run.
    pub fn failed(error: &Error, game: Option<&Game>) -> Self {
        let is_online = match is_online(error, game) {
            Some(false) if has(game, Quirk::SilentInLobby) || error.is_at_relay() => None,
            known => known,
        };
        Self {
            is_online,
            ..Self::default()
        }
    }

    /// Returns whether players can join: the server replies, and does not say that it is starting.
    fn is_ready(&self) -> Option<bool> {
        let Some(status) = self.status else {
            return self.is_online.filter(|is_online| !is_online);
        };
        let says_no = |(key, words): &(&str, &[&str])| {
            let value = status
                .extra(key)
                .map(|value| value.to_string().to_lowercase());
            value.is_some_and(|value| words.contains(&&*value))
        };
        Some(!NOT_READY.iter().any(says_no))
    }

    /// Returns the number of players. A 0 next to a list of players, and one that may be wrong, is
    /// unknown; so is a negative number.
    fn players(&self) -> Option<i64> {
        let players = &self.status?.players;
        let listed = i64::try_from(players.list.len()).ok()?;
        let is_list = matches!(players.roster, Roster::Whole | Roster::Partial);
        let count = match players.online {
            Some(count) => count,
            None if players.roster == Roster::Whole => listed,
            None => return None,
        };
        let is_doubtful = count == 0 && (self.is_zero_unsure || is_list && listed > 0);
        (count >= 0 && !is_doubtful).then_some(count)
    }

    /// Returns the value of a number.
    pub(super) fn number(&self, field: &Field) -> Option<f64> {
        let count = match field {
            Field::Players => self.players(),
            Field::Max => self.status?.players.max.filter(|max| *max >= 0),
            Field::Bots => self.status?.players.bots.filter(|bots| *bots >= 0),
            Field::Ping => return self.latency.map(|latency| latency.as_secs_f64() * 1e3),
            _ => None,
        };
        count.map(|count| count as f64)
    }

    /// Returns the value of a flag.
    pub(super) fn flag(&self, field: &Field) -> Option<bool> {
        match field {
            Field::Online => self.is_online,
            Field::Ready => self.is_ready(),
            Field::Password => self.status?.has_password,
            Field::AntiCheat => self.status?.has_anti_cheat,
            Field::Extra(key) => match self.extra(key)? {
                Value::Bool(is_set) => Some(*is_set),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the extra with a key, in any case.
    fn extra(&self, key: &str) -> Option<&'a Value> {
        let mut extras = self.status?.extra.iter();
        let extra = extras.find(|extra| extra.key.eq_ignore_ascii_case(key))?;
        Some(&extra.value)
    }

    /// Returns the value of a text, without codes.
    pub(super) fn text(&self, field: &Field) -> Option<Cow<'a, str>> {
        let status = self.status?;
        let plain = |text: &'a Option<Text>| text.as_ref().map(|text| Cow::Owned(text.plain()));
        match field {
            Field::Name => plain(&status.name),
            Field::Motd => plain(&status.motd),
            Field::Game => status.game.as_deref().map(Cow::Borrowed),
            Field::Mode => status.mode.as_deref().map(Cow::Borrowed),
            Field::Map => status.map.as_deref().map(Cow::Borrowed),
            Field::Version => status.version.as_deref().map(Cow::Borrowed),
            Field::Rule(key) => {
                let mut rules = status.rules.iter();
                let rule = rules.find(|rule| rule.key.eq_ignore_ascii_case(key))?;
                Some(Cow::Borrowed(&rule.value))
            }
            Field::Extra(key) => Some(Cow::Owned(self.extra(key)?.to_string())),
            _ => None,
        }
    }

    /// Returns `FIELD is VALUE` for users.
    pub(super) fn describe(&self, field: &Field) -> String {
        let flag = self
            .flag(field)
            .map(|is_set| if is_set { "yes" } else { "no" }.to_owned());
        let number = || Some(format!("{}", (self.number(field)? * 1e3).round() / 1e3));
        let text = || self.text(field).map(|text| printable(text.trim()));
        let unit = if *field == Field::Ping { " ms" } else { "" };
        let name = field.name();
        match flag.or_else(number).or_else(text) {
            Some(value) if value.is_empty() => format!("{name} is empty"),
            Some(value) => format!("{name} is {value}{unit}"),
            None => match self.doubt(field) {
                Some(why) => format!("{name} is unknown ({why})"),
                None => format!("{name} is unknown"),
            },
        }
    }

    /// Explains why a reported number does not count.
    fn doubt(&self, field: &Field) -> Option<&'static str> {
        let players = &self.status?.players;
        match field {
            Field::Players if players.online == Some(0) && self.is_zero_unsure => {
                Some("this game's servers report 0 although there are players")
            }
            Field::Players if players.online == Some(0) => {
                Some("the server reports 0 and lists players")
            }
            Field::Players if players.online.is_some() => {
                Some("the server reports a negative number")
            }
            _ => None,
        }
    }
}

fn has(game: Option<&Game>, quirk: Quirk) -> bool {
    game.is_some_and(|game| game.quirks.contains(&quirk))
}

/// Returns whether a server replied to a query without an answer; `None` if that is unknown.
fn is_online(error: &Error, game: Option<&Game>) -> Option<bool> {
    match error {
        Error::Refused { .. } | Error::Deviates { .. } => Some(true),
        Error::Malformed { fault, .. } if matches!(**fault, Fault::Kicked(_)) => Some(true),
        Error::PortClosed { .. } => Some(false),
        // Something else than the server may have sent what was received.
        Error::Silence { transcript, .. } => (transcript.received == 0).then_some(false),
        Error::NoProtocol { failures } => {
            let known: Vec<Option<bool>> = failures
                .iter()
                .map(|failure| is_online(&failure.error, game))
                .collect();
            if known.contains(&Some(true)) {
                return Some(true);
            }
            // Without a game, a server of a protocol that was not tried is silent too.
            let is_offline = game.is_some() && !known.is_empty() && !known.contains(&None);
            is_offline.then_some(false)
        }
        _ => None,
    }
}
