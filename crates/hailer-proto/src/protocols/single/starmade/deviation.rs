//! The deviations that the client accepts, by name (spec/starmade.md#5).

use crate::wire::deviations;

deviations! {
    VERSION_FLOAT "version-float" "the version is a number instead of a text, as in old builds";
    MORE_VALUES "more-values" "more than the seven known values; the others are dropped";
}
