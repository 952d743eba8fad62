//! The deviations that the client accepts, by name (spec/lhmp.md#4).

use crate::wire::deviations;

deviations! {
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the reply";
    SHORT_DETAILS "short-details" "the details end after the name; missing texts are left out";
    CUT_PLAYERS "cut-players" "the list of players ends early; whole entries are kept";
}
