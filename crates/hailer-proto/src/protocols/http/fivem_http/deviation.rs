//! The deviations that the client accepts, by name (spec/fivem-http.md#5).

use crate::wire::deviations;

deviations! {
    MAX_AS_NUMBER "max-as-number" "the number of slots is a number instead of a text";
}
