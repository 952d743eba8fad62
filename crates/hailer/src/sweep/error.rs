//! Errors of target lists, and the largest numbers of probes and kinds.

use crate::support::catalog::CatalogError;
use crate::target::TargetError;
use std::io;
use std::sync::Arc;

/// Largest number of probes in a sweep and of addresses in a range. At 400 probes per second they
/// take 87 years.
pub(crate) const MAX_PROBES: u64 = 1 << 40;
/// Largest number of protocols and games that one process can sweep with.
pub(crate) const MAX_KINDS: usize = 1 << 13;

/// Errors of target lists.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// A line is invalid.
    #[error("{file}:{line}: {error}")]
    Line {
        /// Name of the list.
        file: Arc<str>,
        /// Line number, from 1.
        line: u64,
        /// Problem with the line.
        error: TargetError,
    },
    /// The list cannot be read.
    #[error("{file}: cannot be read: {cause}")]
    Read {
        /// Name of the list.
        file: Arc<str>,
        /// Error of the operating system.
        cause: io::Error,
    },
    /// The process has used too many protocols and games.
    #[error("a process can sweep with at most {MAX_KINDS} protocols and games")]
    TooManyKinds,
    /// Servers of the game cannot be queried.
    #[error(transparent)]
    Game(CatalogError),
    /// Servers of the protocol or game are queried over HTTP only.
    #[error(
        "{0} is queried over HTTP, which a sweep does not do; use `hailer query` or `hailer monitor`"
    )]
    Http(&'static str),
    /// More than 2^40 probes.
    #[error("{0} questions are too many: a sweep asks at most {MAX_PROBES}; split the ranges")]
    TooMany(u128),
}
