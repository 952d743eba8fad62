//! The deviations that the client accepts, by name (spec/satisfactory.md#5).

use crate::wire::deviations;

deviations! {
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the reply";
}
