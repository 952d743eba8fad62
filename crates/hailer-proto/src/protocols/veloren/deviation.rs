//! The deviations that the client accepts, by name (spec/veloren.md#5).

use crate::wire::deviations;

deviations! {
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of a reply";
}
