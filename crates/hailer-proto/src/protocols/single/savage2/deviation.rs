//! The deviations that the client accepts, by name (spec/savage2.md#4).

use crate::wire::deviations;

deviations! {
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the reply";
}
