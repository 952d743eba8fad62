//! The deviations that the client accepts, by name (spec/luanti.md#4).

use crate::wire::deviations;

deviations! {
    TRAILING_BYTES "trailing-bytes" "bytes follow the number of the client";
}
