//! The deviations that the client accepts, by name (spec/beammp.md#5).

use crate::wire::deviations;

deviations! {
    NO_LENGTH "no-length" "the information has no length before it";
    NO_INFORMATION "no-information" "the server closes the connection instead of sending the information";
}
