//! The deviations that the client accepts, by name (spec/ffow.md#5).

use crate::wire::deviations;

deviations! {
    TRAILING_BYTES "trailing-bytes" "bytes follow the last field of the reply";
    SHORT_INFO "short-info" "the info reply ends after the counts of players or after a later field; missing fields are left out";
    CUT_LIST "cut-list" "a list ends before its count of entries; whole entries are kept";
}
