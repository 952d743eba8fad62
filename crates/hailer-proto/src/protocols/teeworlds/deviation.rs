//! The deviations that the client accepts, by name (spec/teeworlds.md#7).

use crate::wire::deviations;

deviations! {
    PLAYERS_LEFT_OUT "players-left-out" "the server counts clients and lists none, as above its rate limit";
    MISSING_PLAYERS "missing-players" "there are fewer clients in the list than the server counts";
    CUT_LIST "cut-list" "the list ends within a client, or bytes follow it; the complete clients are kept";
    ODD_NUMBER "odd-number" "a number is not a plain decimal text";
}
