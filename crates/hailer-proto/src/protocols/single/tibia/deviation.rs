//! The deviations that the client accepts, by name (spec/tibia.md#5).

use crate::wire::deviations;

deviations! {
    LATIN1 "latin1" "the text is not valid UTF-8 and is read as ISO-8859-1";
    BARE_AMPERSAND "bare-ampersand" "an `&` starts no reference, and stands for itself";
    NO_END "no-end" "the reply ends before the end of its root element";
    ODD_COUNT "odd-count" "a count is not a number, and is left out";
}
