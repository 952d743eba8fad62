//! The deviations that the client accepts, by name (spec/gamespy1.md#6).

use crate::protocols::gamespy::deviation::{
    DUPLICATE_KEY, ODD_NUMBER, STALE_PLAYERS, TRUNCATED_REPLY,
};
use crate::wire::Deviation;

/// Deviations of this protocol only.
pub mod own {
    use crate::wire::deviations;

    deviations! {
        FINAL_AFTER_QUERY_ID "final-after-query-id" "the end mark follows the query id";
        NO_QUERY_ID "no-query-id" "a datagram without a query id; its place is the order of arrival";
        UNCLOSED_FINAL "unclosed-final" "the end mark lacks its closing backslash";
        FINAL_EVERYWHERE "final-everywhere" "every datagram of a reply has the end mark";
        NO_SEPARATOR "no-separator" "a reply lacks the backslash before its first key";
        TRAILING_BYTES "trailing-bytes" "a NUL or a line break follows the text";
        QUERY_ID_WITHOUT_PART "query-id-without-part" "a query id without the number of its part, which is the order of arrival";
        LONE_WORD "lone-word" "a word without a value before the query id or the end mark";
        BACKSLASH_IN_VALUE "backslash-in-value" "a name contains a backslash, which separates keys and values";
    }
}

pub use own::*;

/// All deviations, in the order of the spec page.
pub static ALL: &[&Deviation] = &[
    &FINAL_AFTER_QUERY_ID,
    &NO_QUERY_ID,
    &UNCLOSED_FINAL,
    &FINAL_EVERYWHERE,
    &NO_SEPARATOR,
    &TRAILING_BYTES,
    &QUERY_ID_WITHOUT_PART,
    &LONE_WORD,
    &BACKSLASH_IN_VALUE,
    &TRUNCATED_REPLY,
    &DUPLICATE_KEY,
    &ODD_NUMBER,
    &STALE_PLAYERS,
];
