//! Errors with the messages of node-gamedig.

use crate::error::Error;

/// Reason why a query has no result. The messages are those of node-gamedig; [`GamedigError::reason`]
/// has more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GamedigError {
    /// The options have no type.
    #[error("No game specified")]
    NoGame,
    /// No game has this id.
    #[error("Invalid game: {0}")]
    UnknownGame(String),
    /// No protocol of node-gamedig has this name.
    #[error("Protocol definition file missing: {0}")]
    UnknownProtocol(String),
    /// There is no answer.
    #[error("Failed all {attempts} attempts")]
    Failed {
        /// Number of tries that node-gamedig would count.
        attempts: u32,
        /// The cause.
        #[source]
        cause: Box<Error>,
    },
    /// The answer lacks a part that the options require.
    #[error("Failed all {attempts} attempts")]
    Missing {
        /// Number of tries that node-gamedig would count.
        attempts: u32,
        /// The part.
        missing: &'static str,
    },
}

impl GamedigError {
    /// Returns why the query failed, in words of Hailer. `None` if the message says everything.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Failed { cause, .. } => Some(cause.to_string()),
            Self::Missing { missing, .. } => Some(format!("the server did not send {missing}")),
            Self::UnknownGame(_) => Some("`hailer games` lists the games".into()),
            _ => None,
        }
    }

    /// Returns the kind of the cause, as [`Error::kind`] names it; `type` for an unknown type and
    /// `incomplete` for a missing part.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Failed { cause, .. } => cause.kind().as_str(),
            Self::Missing { .. } => "incomplete",
            _ => "type",
        }
    }
}
