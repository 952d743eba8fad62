//! What a client tells of, and why it ends.

use super::game::ReportedMode;
use crate::build::Build;
use crate::connection::PeerError;
use crate::crypto::KeyError;
use hailer_proto::Text;
use serde::Serialize;
use std::fmt;

/// Something that whoever runs a client may want to know. Names and warnings hold no control characters; what a
/// [`Text`] gives out holds none either.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ClientEvent {
    /// The server wants the account checked: tell the session server this hash, then call
    /// [`session_checked`](super::Client::session_checked). Only with [`GameClientConfig::session`](super::GameClientConfig::session).
    SessionCheck {
        /// Goes to the session server.
        hash: String,
    },
    /// The game begins.
    Joined {
        /// Our own entity.
        entity: i32,
        /// GameState mode.
        mode: ReportedMode,
        /// Whether death is final.
        #[serde(rename = "is_hardcore")]
        hardcore: bool,
        /// -1 Nether, 0 overworld, 1 End.
        dimension: i32,
        /// 0 peaceful to 3 hard.
        difficulty: i8,
        /// As many players fit, says the server.
        max_players: u8,
    },
    /// A line of chat, with its colours.
    Chat {
        /// The line.
        text: Text,
    },
    /// A name is new on the list of players.
    PlayerListed {
        /// The name.
        name: String,
        /// Milliseconds.
        #[serde(rename = "latency_ms")]
        ping: i16,
    },
    /// A name has left the list of players.
    PlayerUnlisted {
        /// The name.
        name: String,
    },
    /// Another player has come into view.
    PlayerAppeared {
        /// Their entity.
        entity: i32,
        /// Their name.
        name: String,
        /// In blocks.
        x: f64,
        /// In blocks.
        y: f64,
        /// In blocks.
        z: f64,
    },
    /// Another player is out of view.
    PlayerVanished {
        /// Their entity.
        entity: i32,
        /// Their name.
        name: String,
    },
    /// The server put us somewhere for the first time, or anew.
    Placed {
        /// In blocks.
        x: f64,
        /// Our feet, in blocks.
        y: f64,
        /// In blocks.
        z: f64,
    },
    /// Health or food has changed.
    Health {
        /// Up to 20.
        health: i16,
        /// Up to 20.
        food: i16,
    },
    /// We are dead.
    Died,
    /// We are alive again, or in another dimension.
    Respawned {
        /// -1 Nether, 0 overworld, 1 End.
        dimension: i32,
        /// GameState mode.
        mode: ReportedMode,
    },
    /// The server changed our game mode.
    ModeChanged {
        /// GameState mode.
        mode: ReportedMode,
    },
    /// Rain or snow begins or ends.
    Weather {
        /// Whether it rains.
        #[serde(rename = "is_raining")]
        raining: bool,
    },
    /// The first column of blocks is here.
    FirstColumn,
    /// All columns up to three around us are here: the shortest view distance of real servers.
    Surrounded {
        /// Columns that are here.
        columns: usize,
    },
    /// Something was odd, but not so much that it ends the game.
    Warning {
        /// What.
        text: String,
    },
}

/// Why a client cannot go on.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClientError {
    /// The server's bytes make no sense in our build.
    Peer {
        /// What is wrong.
        error: PeerError,
        /// The build spoken.
        build: Build,
        /// Builds that call themselves the same and speak differently.
        try_builds: Vec<Build>,
    },
    /// The server speaks another version.
    Version {
        /// What it says.
        reason: Text,
        /// The build spoken.
        build: Build,
        /// What to try, the likeliest first. Empty: nothing that we know.
        try_builds: Vec<Build>,
    },
    /// The server did not let us in.
    Refused {
        /// Why.
        reason: Text,
    },
    /// The server threw us out of the game.
    Kicked {
        /// Why.
        reason: Text,
    },
    /// The server checks accounts, and nobody offered to.
    AccountCheck,
    /// Nothing can be encrypted with the server's key.
    Key(KeyError),
    /// The server has said nothing for so many seconds.
    Silence(u64),
}

impl ClientError {
    /// What a kick before the game means.
    pub(super) fn refused(reason: Text, build: Build) -> Self {
        match builds_to_try(&reason.plain(), build) {
            Some(try_builds) => Self::Version {
                reason,
                build,
                try_builds,
            },
            None => Self::Refused { reason },
        }
    }

    pub(super) fn peer(error: PeerError, build: Build) -> Self {
        let same_number = |other: &Build| {
            other.protocol() == build.protocol() && other.dialect() != build.dialect()
        };
        Self::Peer {
            error,
            build,
            try_builds: newest_first().filter(same_number).collect(),
        }
    }

    /// Builds with which it may go better.
    pub fn try_builds(&self) -> &[Build] {
        match self {
            Self::Peer { try_builds, .. } | Self::Version { try_builds, .. } => try_builds,
            _ => &[],
        }
    }

    /// A stable word for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Peer { .. } => "malformed",
            Self::Version { .. } => "version",
            Self::Refused { .. } => "refused",
            Self::Kicked { .. } => "kicked",
            Self::AccountCheck => "account-check",
            Self::Key(_) => "key",
            Self::Silence(_) => "silence",
        }
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |reason: &Text| hailer_proto::model::printable(&reason.plain());
        match self {
            Self::Peer {
                error,
                build,
                try_builds,
            } => {
                write!(f, "what the server says makes no sense in {build}: {error}")?;
                suggest(f, try_builds)
            }
            Self::Version {
                reason,
                build,
                try_builds,
            } => {
                write!(
                    f,
                    "the server speaks another version than {build} ({})",
                    shown(reason)
                )?;
                match try_builds.is_empty() {
                    true => write!(f, "; no build that we know is left to try"),
                    false => suggest(f, try_builds),
                }
            }
            Self::Refused { reason } => {
                write!(f, "the server does not let us in: {}", shown(reason))
            }
            Self::Kicked { reason } => write!(f, "kicked: {}", shown(reason)),
            Self::AccountCheck => write!(f, "the server checks accounts; offline servers only"),
            Self::Key(error) => write!(f, "the server's key cannot be used: {error}"),
            Self::Silence(seconds) => write!(f, "the server has said nothing for {seconds} s"),
        }
    }
}

impl std::error::Error for ClientError {}

fn suggest(f: &mut fmt::Formatter<'_>, builds: &[Build]) -> fmt::Result {
    match builds {
        [] => Ok(()),
        [first] => write!(f, "; try the build {first}"),
        [first, second] => write!(f, "; try the build {first} or {second}"),
        [first, rest @ ..] => {
            let (oldest, newest) = (
                rest.iter().min().unwrap_or(first),
                rest.iter().max().unwrap_or(first),
            );
            write!(
                f,
                "; try the build {first}, or one from {oldest} to {newest}"
            )
        }
    }
}

/// A build of each wire version, the newest first: the newest of it, but the release where it stands for a snapshot too.
fn newest_first() -> impl Iterator<Item = Build> {
    let mut last = None;
    let newest = Build::ALL.iter().copied().rev();
    let newest = newest.filter(move |build| last.replace(build.dialect()) != Some(build.dialect()));
    newest.map(|build| {
        if build == Build::W15a {
            Build::V1_2_5
        } else {
            build
        }
    })
}

/// Whether a kick before the game is about the version, and which builds to try then (spec/minecraft-12w.md#6).
fn builds_to_try(reason: &str, build: Build) -> Option<Vec<Build>> {
    let reason = reason.to_ascii_lowercase();
    let says = |text: &str| reason.contains(text);
    // Servers until 12w16a read our number as the length of a text, which is then too long.
    let (newer, older) = if says("outdated client") {
        (true, false)
    } else if says("outdated server") || says("string length") {
        (false, true)
    } else if says("protocol") || says("version") {
        (true, true)
    } else {
        return None;
    };
    let number = build.protocol();
    let fits =
        |other: &Build| newer && other.protocol() > number || older && other.protocol() < number;
    let mut builds: Vec<Build> = newest_first().filter(fits).collect();
    if !newer {
        // Of older ones the release is likelier than any snapshot.
        builds.sort_by_key(|build| *build > Build::W15a);
    }
    Some(builds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(reason: &str, build: Build) -> Option<Vec<&'static str>> {
        builds_to_try(reason, build).map(|builds| builds.iter().map(|build| build.name()).collect())
    }

    #[test]
    fn kicks_about_the_version_name_builds() {
        assert_eq!(
            names("Outdated client!", Build::W25a).unwrap(),
            ["1.3.2", "12w30b", "12w27a"]
        );
        assert_eq!(names("Outdated client!", Build::V1_3_2).unwrap(), [""; 0]);
        assert_eq!(
            names("Outdated server!", Build::W18a).unwrap(),
            ["1.2.5", "12w17a", "12w16a"]
        );
        assert_eq!(names("Protocol error", Build::W27a).unwrap().len(), 11);
        assert_eq!(names("The server is full!", Build::W27a), None);
        let error = ClientError::refused(
            Text::legacy("\u{A7}cOutdated server!\u{1b}[2J"),
            Build::W16a,
        );
        assert_eq!(
            error.to_string(),
            "the server speaks another version than 12w16a (Outdated server![2J); try the build 1.2.5"
        );
        let error = ClientError::refused(Text::legacy("Outdated client!"), Build::W23a);
        assert!(
            error
                .to_string()
                .ends_with("; try the build 1.3.2, or one from 12w24a to 12w30b"),
            "{error}"
        );
    }
}
