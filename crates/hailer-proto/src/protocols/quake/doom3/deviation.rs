//! The deviations that the client accepts, by name (spec/doom3.md#6).

use crate::wire::deviations;

deviations! {
    OTHER_LAYOUT "other-layout" "the players have the layout of another game than that of the version";
    UNREADABLE_PLAYERS "unreadable-players" "the players have no known layout and are left out";
    SIXTEEN_ENDS_LIST "sixteen-ends-list" "the list of players ends with 16 instead of 32";
    SHORT_TAIL "short-tail" "the reply ends before the last field after the players";
    OTHER_SIZE "other-size" "the declared size of the reply is not its length";
    DUPLICATE_KEY "duplicate-key" "a key occurs twice; the first value is kept";
    HALF_CHALLENGE "half-challenge" "the reply repeats only the first half of the challenge, and has FF FF FF FF as the second";
    MISSING_PLAYERS "missing-players" "there are fewer players in the list than the server counts";
}
