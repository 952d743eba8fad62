//! The deviations that the client accepts, by name (spec/mafia2mp.md#4).

use crate::wire::deviations;

deviations! {
    ODD_NUMBER "odd-number" "a text that should be a number is none; the field is left out";
    CUT_PLAYERS "cut-players" "the list of players ends early; whole entries are kept";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the list of players";
}
