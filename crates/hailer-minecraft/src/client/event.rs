//! Events that a client reports, and errors that end its session.

use super::mode::ReportedMode;
use crate::build::Build;
use crate::connection::PeerError;
use crate::crypto::KeyError;
use hailer_proto::Text;
use serde::Serialize;
use std::fmt;

/// Event of the game. Names, warnings and the results of [`Text`] contain no control characters.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum ClientEvent {
    /// The server checks accounts. Send the hash to the session server, then call
    /// [`session_checked`](super::Client::session_checked). Only with
    /// [`GameClientConfig::can_check_session`](super::GameClientConfig::can_check_session).
    SessionCheck {
        /// Hash for the session server.
        hash: String,
    },
    /// The server accepted the login.
    Joined {
        /// Entity id of the local player.
        entity: i32,
        /// Game mode, as the server names it.
        mode: ReportedMode,
        /// Whether death is final.
        #[serde(rename = "is_hardcore")]
        is_hardcore: bool,
        /// Dimension: −1 Nether, 0 overworld, 1 End.
        dimension: i32,
        /// Difficulty, from 0 (peaceful) to 3 (hard).
        difficulty: i8,
        /// Maximum number of players, as the server reports it.
        max_players: u8,
    },
    /// A line of chat.
    Chat {
        /// The line with its colors.
        text: Text,
    },
    /// A name was added to the list of players.
    PlayerListed {
        /// Name of the player.
        name: String,
        /// Latency of the player in milliseconds.
        #[serde(rename = "latency_ms")]
        ping: i16,
    },
    /// A name was removed from the list of players.
    PlayerUnlisted {
        /// Name of the player.
        name: String,
    },
    /// Another player came into view.
    PlayerAppeared {
        /// Entity id of the player.
        entity: i32,
        /// Name of the player.
        name: String,
        /// Position to the east, in blocks.
        x: f64,
        /// Height of the feet, in blocks.
        y: f64,
        /// Position to the south, in blocks.
        z: f64,
    },
    /// Another player went out of view.
    PlayerVanished {
        /// Entity id of the player.
        entity: i32,
        /// Name of the player.
        name: String,
    },
    /// The server set the position of the local player.
    Placed {
        /// Position to the east, in blocks.
        x: f64,
        /// Height of the feet, in blocks.
        y: f64,
        /// Position to the south, in blocks.
        z: f64,
    },
    /// The local player landed after a fall of at least 1.5 blocks.
    Landed {
        /// Position to the east, in blocks.
        x: f64,
        /// Height of the feet, in blocks.
        y: f64,
        /// Position to the south, in blocks.
        z: f64,
        /// Height of the fall, in blocks.
        fall: f64,
    },
    /// A walk reached its place.
    Arrived {
        /// Position to the east, in blocks.
        x: f64,
        /// Height of the feet, in blocks.
        y: f64,
        /// Position to the south, in blocks.
        z: f64,
    },
    /// A walk was given up after 2 s without progress.
    Blocked {
        /// Position to the east, in blocks.
        x: f64,
        /// Height of the feet, in blocks.
        y: f64,
        /// Position to the south, in blocks.
        z: f64,
    },
    /// Health or food changed.
    Health {
        /// Health in half hearts, up to 20.
        health: i16,
        /// Food in half points, up to 20.
        food: i16,
    },
    /// The local player died.
    Died,
    /// The local player respawned or changed the dimension.
    Respawned {
        /// Dimension: −1 Nether, 0 overworld, 1 End.
        dimension: i32,
        /// Game mode, as the server names it.
        mode: ReportedMode,
    },
    /// The server changed the game mode.
    ModeChanged {
        /// Game mode, as the server names it.
        mode: ReportedMode,
    },
    /// Rain or snow began or ended.
    Weather {
        /// Whether it rains.
        #[serde(rename = "is_raining")]
        is_raining: bool,
    },
    /// The first column of blocks was loaded.
    FirstColumn,
    /// All columns up to three around the local player are loaded, the shortest view distance of
    /// real servers.
    Surrounded {
        /// Number of loaded columns.
        columns: usize,
    },
    /// The server sent something unusual that does not end the session.
    Warning {
        /// Description of it.
        text: String,
    },
}

/// Error that ended a client's session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClientError {
    /// The server's bytes are invalid in the client's build.
    Peer {
        /// The invalid packet.
        error: PeerError,
        /// Build that the client speaks.
        build: Build,
        /// Other builds with the same protocol number.
        try_builds: Vec<Build>,
    },
    /// The server requires another version.
    Version {
        /// Reason sent by the server.
        reason: Text,
        /// Build that the client speaks.
        build: Build,
        /// Builds to try, the most likely first. Empty if no known build fits.
        try_builds: Vec<Build>,
    },
    /// The server refused the login.
    Refused {
        /// Reason sent by the server.
        reason: Text,
    },
    /// The server kicked the player out of the game.
    Kicked {
        /// Reason sent by the server.
        reason: Text,
    },
    /// The server checks accounts, and the caller did not offer to contact the session server.
    AccountCheck,
    /// The server's public key is not usable.
    Key(KeyError),
    /// The server sent nothing for this many seconds.
    Silence(u64),
}

impl ClientError {
    /// Classifies a kick before the game.
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

    /// Returns the builds to try next, the most likely first.
    pub fn try_builds(&self) -> &[Build] {
        match self {
            Self::Peer { try_builds, .. } | Self::Version { try_builds, .. } => try_builds,
            _ => &[],
        }
    }

    /// Returns a stable identifier for programs.
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
                write!(
                    f,
                    "the server sent data that is invalid in {build}: {error}"
                )?;
                suggest(f, try_builds)
            }
            Self::Version {
                reason,
                build,
                try_builds,
            } => {
                if try_builds.is_empty() && *build == Build::LATEST {
                    write!(
                        f,
                        "the server is newer than {build}, the newest version that Hailer speaks ({})",
                        shown(reason)
                    )
                } else {
                    write!(
                        f,
                        "the server requires another version than {build} ({})",
                        shown(reason)
                    )?;
                    if try_builds.is_empty() {
                        write!(f, "; no other known build fits")
                    } else {
                        suggest(f, try_builds)
                    }
                }
            }
            Self::Refused { reason } => {
                write!(f, "the server refused the login: {}", shown(reason))
            }
            Self::Kicked { reason } => write!(f, "kicked: {}", shown(reason)),
            Self::AccountCheck => write!(
                f,
                "the server checks accounts, which is not supported; join a server in offline mode"
            ),
            Self::Key(error) => write!(f, "the server's key is not usable: {error}"),
            Self::Silence(seconds) => write!(f, "the server has sent nothing for {seconds} s"),
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
            let oldest = rest.iter().min().unwrap_or(first);
            let newest = rest.iter().max().unwrap_or(first);
            write!(
                f,
                "; try the build {first}, or one from {oldest} to {newest}"
            )
        }
    }
}

/// Returns one build of each dialect, newest first: a release if the dialect has one, else its
/// newest snapshot.
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

/// Returns the builds to try if a kick before the game is about the version, else `None`
/// (spec/minecraft-12w.md#6).
fn builds_to_try(reason: &str, build: Build) -> Option<Vec<Build>> {
    let reason = reason.to_ascii_lowercase();
    let contains = |text: &str| reason.contains(text);
    // Servers until 12w16a read our protocol number as the length of a string, which is then too
    // long.
    let (newer, older) = if contains("outdated client") {
        (true, false)
    } else if contains("outdated server") || contains("string length") {
        (false, true)
    } else if contains("protocol") || contains("version") {
        (true, true)
    } else {
        return None;
    };
    let number = build.protocol();
    let fits =
        |other: &Build| newer && other.protocol() > number || older && other.protocol() < number;
    let mut builds: Vec<Build> = newest_first().filter(fits).collect();
    if !newer {
        // An old server is more likely to be a release than a snapshot.
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
    fn version_kicks_suggest_builds() {
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
            "the server requires another version than 12w16a (Outdated server![2J); try the build 1.2.5"
        );
        let error = ClientError::refused(Text::legacy("Outdated client!"), Build::V1_3_2);
        assert_eq!(
            error.to_string(),
            "the server is newer than 1.3.2, the newest version that Hailer speaks (Outdated client!)"
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
