//! The deviations that the client accepts, by name (spec/samp.md#6).

use crate::wire::deviations;

deviations! {
    SHORT_INFO "short-info" "the information ends after the name; missing texts are left out";
    CUT_LINKS "cut-links" "the links of open.mp end early; whole ones are kept";
    UNREADABLE_LIST "unreadable-list" "a list of rules or players is unreadable and left out";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the reply";
}
