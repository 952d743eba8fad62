//! The deviations that the client accepts, by name (spec/rfactor.md#4).

use crate::wire::deviations;

deviations! {
    NO_VEHICLES "no-vehicles" "the reply ends before the list of vehicles, or inside it";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the reply";
}
