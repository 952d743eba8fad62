//! The deviations that the client accepts, by name (spec/teamspeak-voice.md#4).

use crate::wire::deviations;

deviations! {
    RESTART "restart" "the server asks to start the handshake again";
    ECHO_DIFFERS "echo-differs" "the reply does not return the random bytes of the request";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the reply";
}
