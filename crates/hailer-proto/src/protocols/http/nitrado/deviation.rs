//! The deviations that the client accepts, by name (spec/nitrado.md#4).

use crate::wire::deviations;

deviations! {
    BASIC_ONLY "basic-only" "only the section with name and counts is public";
    NO_COUNT "no-count" "no public section has the number of players; the list is counted";
}
