//! The deviations that the client accepts, by name (spec/quake3.md#9).

use crate::wire::deviations;

deviations! {
    NO_CHALLENGE "no-challenge" "the reply does not return the challenge of the request";
    EMPTY_CHALLENGE "empty-challenge" "the reply has an empty challenge";
    NO_VALUE "no-value" "the last key of an infostring has no value";
    DUPLICATE_KEY "duplicate-key" "a key occurs twice; the first value is kept";
    BACKSLASH_IN_VALUE "backslash-in-value" "a value contains a backslash, which separates keys and values";
    NO_LINE_FEED "no-line-feed" "the last line of a status reply has no line feed";
    EMPTY_LINE "empty-line" "a status reply has an empty line";
    VARIABLES_AFTER_PLAYERS "variables-after-players" "a second infostring follows the players";
    ODD_PLAYER "odd-player" "a player line has no number or no name where they belong, or no quote after the name";
    MISSING_PLAYERS "missing-players" "there are fewer player lines than the server counts";
    INFO_FOR_STATUS "info-for-status" "the server sends the info in reply to a request for the status";
    NO_COUNT "no-count" "an info reply has no number of players";
}
