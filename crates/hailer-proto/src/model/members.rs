//! Optional members of [`Status`], [`Players`](super::Players) and [`Player`] as tables: the source
//! of the columns, views and pages that show them. A test compares the tables with the JSON schema
//! and the columns.

use super::{Player, Status, Value};

/// An optional member of a `T`.
#[derive(Debug)]
pub struct Member<T> {
    /// Name in JSON and of the column.
    pub key: &'static str,
    /// Name in views and on pages.
    pub title: &'static str,
    /// Unit of the value, if it has one.
    pub unit: Option<Unit>,
    /// Meaning: one sentence without a final stop.
    pub help: &'static str,
    /// Returns the value, or `None` if it is unknown.
    pub value: fn(&T) -> Option<Value>,
}

/// Unit of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
}

impl Unit {
    /// Returns the symbol of the unit.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
        }
    }
}

/// Optional members of a status with a short value.
pub static STATUS_MEMBERS: &[Member<Status>] = &[
    Member {
        key: "password",
        title: "Password",
        unit: None,
        help: "Whether players need a password to join",
        value: |status| status.has_password.map(Value::Bool),
    },
    Member {
        key: "anti_cheat",
        title: "Anti-cheat",
        unit: None,
        help: "Whether the server uses the anti-cheat software of its platform, such as VAC",
        value: |status| status.has_anti_cheat.map(Value::Bool),
    },
    Member {
        key: "bots",
        title: "Bots",
        unit: None,
        help: "Number of bots, which the number of players may include or not",
        value: |status| status.players.bots.map(Value::Int),
    },
];

/// Optional members of a player, besides the UUID.
pub static PLAYER_MEMBERS: &[Member<Player>] = &[
    Member {
        key: "score",
        title: "score",
        unit: None,
        help: "Points, kills or another score, as received",
        value: |player| player.score.map(Value::Int),
    },
    Member {
        key: "time_s",
        title: "time",
        unit: Some(Unit::Seconds),
        help: "Time since the player joined, in seconds",
        value: |player| player.time_s.map(|time_s| Value::Float(time_s.into())),
    },
    Member {
        key: "team",
        title: "team",
        unit: None,
        help: "Name or number of the player's team",
        value: |player| player.team.clone().map(Value::Str),
    },
    Member {
        key: "latency_ms",
        title: "latency",
        unit: Some(Unit::Milliseconds),
        help: "Latency between player and server, as measured by the server, in milliseconds",
        value: |player| player.latency_ms.map(|ms| Value::Int(ms.into())),
    },
];
