//! The deviations that the client accepts, by name (spec/battlefield.md#7).

use crate::wire::deviations;

deviations! {
    EVENT "event" "the server sends an event to a client that has not logged in";
    STRAY_REPLY "stray-reply" "a reply has the number of no request";
    SHORT_INFO "short-info" "the server information ends before the round time";
    EMPTY_TEAMS "empty-teams" "the number of teams is empty";
    ODD_NUMBER "odd-number" "a number, `true` or `false` is empty or has another form, and is left out";
    ZERO_ADDRESS "zero-address" "the address of the game is 0.0.0.0, and only its port counts";
    LATIN1 "latin1" "a name is not valid UTF-8 and is read as ISO-8859-1";
    NO_VERSION "no-version" "the server refuses to send its version, or sends none";
    NO_LIST "no-list" "the server refuses to send the list of players, or sends none";
    ODD_LIST "odd-list" "the list of players cannot be read, and is left out";
}
