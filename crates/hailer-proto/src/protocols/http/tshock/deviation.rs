//! The deviations that the client accepts, by name (spec/tshock.md#4).

use crate::wire::deviations;

deviations! {
    PLAYERS_TEXT "players-text" "the players are one text with commas instead of a list";
    VERSION_OBJECT "version-object" "the version of TShock is an object instead of a text";
}
