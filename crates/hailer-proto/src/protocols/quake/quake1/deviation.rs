//! The deviations that the client accepts, by name (spec/quake1.md#6).

use crate::wire::deviations;

deviations! {
    NO_VALUE "no-value" "the last key of an infostring has no value";
    DUPLICATE_KEY "duplicate-key" "a key occurs twice; the first value is kept";
    NO_NUL "no-nul" "the reply does not end with a NUL";
    EMPTY_LINE "empty-line" "the reply has an empty line";
    ODD_PLAYER "odd-player" "a player line has no number or no name where they belong";
    MISSING_PLAYERS "missing-players" "there are fewer player lines than the server counts";
}
