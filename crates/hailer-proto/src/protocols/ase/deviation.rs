//! The deviations that the client accepts, by name (spec/ase.md#6).

use crate::wire::deviations;

deviations! {
    CUT_LIST "cut-list" "the reply ends within a rule or a player; those before it are kept";
    MISSING_PLAYERS "missing-players" "there are fewer players in the list than the server counts";
    MISSING_END "missing-end" "the rules end with the datagram instead of an empty key";
    ODD_NUMBER "odd-number" "a count or port is not a plain decimal number in range";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the message";
}
