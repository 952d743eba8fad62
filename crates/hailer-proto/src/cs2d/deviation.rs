//! The deviations that the client accepts, by name (spec/cs2d.md#5).

use crate::wire::deviations;

deviations! {
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the server's message";
    NO_PLAYERS "no-players" "the server never sends the list of players";
}
