//! The deviations that the client accepts, by name (spec/eco.md#4).

use crate::wire::deviations;

deviations! {
    NULL_LIST "null-list" "the list of players is null instead of empty";
    TAGS "tags" "a text has tags for colors and sizes";
}
