//! The deviations that the client accepts, by name (spec/cs2d.md#5).

use crate::wire::deviations;

deviations! {
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the server's message";
    SHORT_STATUS "short-status" "the server's message ends after the counts of players; missing fields are left out";
    UNREADABLE_PLAYERS "unreadable-players" "the list of players is unreadable and left out";
}
