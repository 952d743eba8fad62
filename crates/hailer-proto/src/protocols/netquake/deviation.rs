//! The deviations that the client accepts, by name (spec/netquake.md#5).

use crate::wire::deviations;

deviations! {
    TRAILING_BYTES "trailing-bytes" "bytes follow the last field of the reply";
    WRONG_LENGTH "wrong-length" "the length in the header is not that of the datagram";
}
