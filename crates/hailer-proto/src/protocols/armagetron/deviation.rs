//! The deviations that the client accepts, by name (spec/armagetron.md#5).

use crate::wire::deviations;

deviations! {
    NO_SENDER "no-sender" "the reply ends without the number of its sender";
    SHORT_INFO "short-info" "the reply ends before the list of players or after it; missing fields are left out";
}
