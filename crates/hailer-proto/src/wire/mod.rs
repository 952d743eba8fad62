//! Parsing and writing bytes.
//!
//! - Parsing borrows. A [`Reader`] walks over one datagram and knows its offset. Every read names
//!   its field, so an [`Error`] states the field and where it is.
//! - One parser serves queries and explanations: the [`Notes`] of a reader collect deviations and,
//!   if requested, every field with its offset and value. `hailer decode` prints them.
//! - Writing appends to the caller's buffer, which keeps its capacity from one datagram to the
//!   next.
//! - Bytes after the end of a message are an error or a named deviation, never ignored.
//!
//! In: bytes, or values. Out: values with offsets and notes, or bytes.
//!
//! May import: nothing of this workspace.

pub(crate) mod charset;
pub mod codepage;
mod crc;
mod deviation;
pub mod json;
mod notes;
mod reader;
mod text;
mod writer;
pub mod xml;

pub(crate) use crc::crc32;
pub(crate) use deviation::deviations;
pub use deviation::{Deviation, UNKNOWN_DEVIATION, UNREADABLE_MESSAGE};
pub use notes::{Field, Notes};
pub use reader::Reader;
pub(crate) use text::whole_number;
pub use text::{
    Latin1, Utf8, by_content, counted, decimal, filled, first_nul, first_of, hexadecimal, nuls,
    offsets, utf8_or_latin1, utf16,
};
pub use writer::{Writer, cut};

use core::fmt;

/// Why bytes cannot be parsed: the field, its offset, and the kind of error. Needs no allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// Name of the field on the spec page.
    pub field: &'static str,
    /// Offset of the field from the first byte of the datagram.
    pub at: usize,
    /// Kind of the error.
    pub kind: ErrorKind,
}

/// Kinds of parse errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The datagram ends too early.
    Short {
        /// Number of missing bytes.
        need: usize,
    },
    /// The value is not valid for the field. The text names the expected values.
    Bad(&'static str),
    /// The value is another number than the protocol has there. The text names the expected one.
    Other {
        /// The value.
        found: i64,
        /// The expected value.
        expected: &'static str,
    },
    /// A count or length exceeds the accepted limit.
    Limit {
        /// The limit.
        limit: usize,
    },
    /// A number of parts exceeds the accepted limit.
    TooMany {
        /// The limit.
        limit: usize,
        /// Name of the parts, in the plural.
        unit: &'static str,
    },
    /// Bytes remain after the end of the message.
    Leftover {
        /// Number of remaining bytes.
        count: usize,
    },
}

impl Error {
    /// Creates an error about a value that the field cannot have.
    pub const fn bad(field: &'static str, at: usize, expected: &'static str) -> Self {
        Self {
            field,
            at,
            kind: ErrorKind::Bad(expected),
        }
    }

    /// Creates an error about a datagram that ends `need` bytes too early.
    pub const fn short(field: &'static str, at: usize, need: usize) -> Self {
        Self {
            field,
            at,
            kind: ErrorKind::Short { need },
        }
    }

    /// Creates an error about a count or length above the accepted limit.
    pub const fn limit(field: &'static str, at: usize, limit: usize) -> Self {
        Self {
            field,
            at,
            kind: ErrorKind::Limit { limit },
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
            ErrorKind::Other { found, expected } => write!(f, "expected {expected}, not {found}"),
            ErrorKind::Limit { limit } => write!(f, "more than {limit}, the most accepted"),
            ErrorKind::TooMany { limit, unit } => write!(f, "more than {limit} {unit}"),
            ErrorKind::Leftover { count: 1 } => write!(f, "1 byte left over"),
            ErrorKind::Leftover { count } => write!(f, "{count} bytes left over"),
        }
    }
}

impl core::error::Error for Error {}
