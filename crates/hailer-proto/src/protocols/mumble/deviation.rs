//! The deviations that the client accepts, by name (spec/mumble.md#5).

use crate::wire::deviations;

deviations! {
    CAPPED_PATCH "capped-patch" "the patch of the version is 255 or more, and the new form is not requested or gets no reply";
    MISSING_MAXIMUM "missing-maximum" "a reply of the new form has no maximum of users";
    MISSING_BANDWIDTH "missing-bandwidth" "a reply of the new form has no bandwidth";
}
