//! The deviations that the client accepts, by name (spec/quake2.md#6).

use crate::wire::deviations;

deviations! {
    NO_VALUE "no-value" "the last key of an infostring has no value";
    DUPLICATE_KEY "duplicate-key" "a key occurs twice; the first value is kept";
    NO_LINE_FEED "no-line-feed" "the last line of a reply has no line feed";
    EMPTY_LINE "empty-line" "a status reply has an empty line";
    PLAYER_ADDRESS "player-address" "a player line has the address of the player, which is dropped";
    ODD_PLAYER "odd-player" "a player line has no number or no name where they belong";
    MISSING_PLAYERS "missing-players" "there are fewer player lines than the server counts";
    WRONG_VERSION "wrong-version" "the server sends no info to clients of this protocol number";
}
