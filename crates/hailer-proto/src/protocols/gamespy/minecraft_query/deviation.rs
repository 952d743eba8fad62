//! The deviations that the client accepts, by name (spec/minecraft-query.md#5).

use crate::wire::deviations;

deviations! {
    MANGLED_SESSION_ID "mangled-session-id" "the handshake reply holds the session id as re-encoded text";
    RAW_TOKEN "raw-token" "the challenge token is four raw bytes instead of decimal text";
    DOUBLED_NUL "doubled-nul" "more than one NUL closes the challenge token";
    MISSING_NUL "missing-nul" "the datagram ends without the NUL of its last text";
    ZERO_PADDING "zero-padding" "zero bytes in place of the constants";
    GEYSER_HEADER "geyser-header" "`GeyserMC` in place of `splitnum`";
    ODD_PADDING "odd-padding" "unknown bytes in place of the constants";
    WIDE_CONSTANTS "wide-constants" "constants of the full stat have four bytes instead of one, as in Paper 1.17";
    FULL_FOR_BASIC "full-for-basic" "a full stat answers a request for a basic one";
    BASIC_FOR_FULL "basic-for-full" "a basic stat answers a request for a full one";
    PORT_AS_TEXT "port-as-text" "the port of the basic stat is decimal text";
    SPACED_KEY "spaced-key" "a key is spelt with a space, such as `game type`";
    NUL_IN_MOTD "nul-in-motd" "the MOTD holds NUL bytes, which can imitate later pairs";
    NUL_IN_VALUE "nul-in-value" "a value other than the MOTD holds a NUL byte";
    DUPLICATE_KEY "duplicate-key" "a key appears twice; the first value counts";
    REPEATED_HOSTNAME "repeated-hostname" "a second `hostname` stands for `hostip`";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the message";
    UNENDED_LIST "unended-list" "the player list lacks its closing NUL";
    ODD_NUMBER "odd-number" "a count or port is not a plain decimal number in range";
    MISSING_KEY "missing-key" "a pair that vanilla servers always send is absent";
}
