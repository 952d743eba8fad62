//! The deviations that the client accepts, by name (spec/gamespy2.md#5).

use crate::protocols::gamespy::deviation::{DUPLICATE_KEY, ODD_NUMBER, TRUNCATED_REPLY};
use crate::wire::Deviation;

/// Deviations of this protocol only.
pub mod own {
    use crate::wire::deviations;

    deviations! {
        COUNT_MISSING "count-missing" "a table without its row count";
        MISSING_TABLE "missing-table" "the reply has no table of players or teams";
        UNREADABLE_TABLES "unreadable-tables" "the tables of players and teams cannot be read to their end; rows before it are kept";
        TRAILING_BYTES "trailing-bytes" "bytes follow the end of the message";
    }
}

pub use own::*;

/// All deviations, in the order of the spec page.
pub static ALL: &[&Deviation] = &[
    &COUNT_MISSING,
    &TRUNCATED_REPLY,
    &MISSING_TABLE,
    &UNREADABLE_TABLES,
    &TRAILING_BYTES,
    &DUPLICATE_KEY,
    &ODD_NUMBER,
];
