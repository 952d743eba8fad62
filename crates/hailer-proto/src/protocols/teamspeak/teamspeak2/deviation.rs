//! The deviations that the client accepts, by name (spec/teamspeak2.md#5).

use crate::wire::deviations;

deviations! {
    NO_LIST "no-list" "the server refuses to send the list of players, or sends none";
    ODD_NUMBER "odd-number" "a number has another form, and is left out";
}
