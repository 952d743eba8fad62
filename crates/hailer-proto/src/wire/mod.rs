//! Reading and writing bytes: the rules of the house.
//!
//! - Reading borrows. A [`Reader`] walks one datagram, knows its offset, and every read names the field it is for, so
//!   an [`Error`] says *what* could not be read and *where*.
//! - The parser that explains is the parser that runs: a [`Notes`] given to the reader collects the deviations met and,
//!   if asked to, every field with its place and value. `hailer decode` prints that list; nothing is parsed twice by
//!   two codes.
//! - Writing appends to the caller's buffer, which keeps its capacity from one datagram to the next.
//! - Bytes left over after a message are never ignored: a protocol either refuses them or names the deviation.

mod deviation;
mod notes;
mod reader;
mod text;
mod writer;

pub use deviation::Deviation;
pub(crate) use deviation::deviations;
pub use notes::{Field, Notes};
pub use reader::Reader;
pub use text::{
    Latin1, Utf8, by_content, filled, first_nul, hexadecimal, nuls, utf8_or_latin1, utf16,
};
pub use writer::{Writer, cut};

use core::fmt;

/// Why bytes could not be read: the field, where it starts, and what is wrong. No allocation, cheap to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The field as the spec page calls it.
    pub field: &'static str,
    /// Offset from the datagram's first byte, in bytes.
    pub at: usize,
    /// What is wrong there.
    pub kind: ErrorKind,
}

/// The kinds of unreadable bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The datagram ends too early: so many bytes more were needed.
    Short {
        /// Bytes missing.
        need: usize,
    },
    /// The value is not one that the field can hold; the text says what was expected.
    Bad(&'static str),
    /// A count or length is above what we accept.
    Limit {
        /// The most we accept.
        limit: usize,
    },
    /// The message ended and bytes remain.
    Leftover {
        /// Bytes remaining.
        count: usize,
    },
}

impl Error {
    /// A value the field cannot hold.
    pub const fn bad(field: &'static str, at: usize, expected: &'static str) -> Self {
        Self {
            field,
            at,
            kind: ErrorKind::Bad(expected),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}: ", self.field, self.at)?;
        match self.kind {
            ErrorKind::Short { need: 1 } => write!(f, "ends 1 byte too early"),
            ErrorKind::Short { need } => write!(f, "ends {need} bytes too early"),
            ErrorKind::Bad(expected) => write!(f, "expected {expected}"),
            ErrorKind::Limit { limit } => write!(f, "more than {limit}, the most accepted"),
            ErrorKind::Leftover { count } => write!(f, "{count} bytes left over"),
        }
    }
}

impl core::error::Error for Error {}
