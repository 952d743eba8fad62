//! The deviations that the client accepts, by name (spec/tribes1.md#5).

use crate::wire::deviations;

deviations! {
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the reply";
    CUT_LISTS "cut-lists" "the lists of teams or players end early; whole entries are kept";
}
