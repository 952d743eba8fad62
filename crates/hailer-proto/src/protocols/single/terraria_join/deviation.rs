//! The deviations that the client accepts, by name (spec/terraria-join.md#5).

use crate::wire::deviations;

deviations! {
    SLOT_GIVEN "slot-given" "the server accepts the version that no release has, and gives the client a slot";
}
