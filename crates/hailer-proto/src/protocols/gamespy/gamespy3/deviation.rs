//! The deviations that the client accepts, by name (spec/gamespy3.md#7).

use crate::protocols::gamespy::deviation::{DUPLICATE_KEY, ODD_NUMBER, PART_GAP, TRUNCATED_REPLY};
use crate::wire::Deviation;

/// Deviations of this protocol only.
pub mod own {
    use crate::wire::deviations;

    deviations! {
        CHALLENGE_ZERO "challenge-zero" "the challenge token is 0 or absent: the query must not carry one";
        UNSPLIT_REPLY "unsplit-reply" "the reply has the layout without parts, as in GameSpy 2";
        EMPTY_VALUES "empty-values" "a list holds empty values, which end lists";
        MISSING_VALUE "missing-value" "a key without a value is followed by the next key";
        UT3_NUMBERS "ut3-numbers" "numbers replace the names of keys, as in Unreal Tournament 3";
        UT3_MAP_BLOB "ut3-map-blob" "the map key holds several numbered keys and their values";
        JC2_LIST "jc2-list" "players follow the pairs in a special layout, as in Just Cause 2 Multiplayer";
        MISSING_SECTION "missing-section" "the reply has no section for players or teams";
        MISSING_NUL "missing-nul" "the datagram ends without the NUL of its last text";
        COUNT_MISSING "count-missing" "a table without its row count";
        TRAILING_BYTES "trailing-bytes" "bytes follow the end of the message";
    }
}

pub use own::*;

/// All deviations, in the order of the spec page.
pub static ALL: &[&Deviation] = &[
    &CHALLENGE_ZERO,
    &UNSPLIT_REPLY,
    &EMPTY_VALUES,
    &MISSING_VALUE,
    &UT3_NUMBERS,
    &UT3_MAP_BLOB,
    &JC2_LIST,
    &PART_GAP,
    &MISSING_SECTION,
    &TRUNCATED_REPLY,
    &MISSING_NUL,
    &COUNT_MISSING,
    &TRAILING_BYTES,
    &DUPLICATE_KEY,
    &ODD_NUMBER,
];
