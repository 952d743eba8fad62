//! The deviations that the client accepts, by name (spec/ugp.md#8).

use crate::wire::deviations;

deviations! {
    ODD_VERSION "odd-version" "a version other than 1 is in the header of a reply";
    UNMARKED_TYPE "unmarked-type" "the type of a reply lacks the bit that distinguishes it from a request";
    UNKNOWN_FLAGS "unknown-flags" "a flag without a known meaning is set; it is assumed to add no bytes";
    ZERO_LENGTH_STRING "zero-length-string" "a string has the length 0, without even its NUL";
    UNCLOSED_STRING "unclosed-string" "a string ends without its NUL";
    CUT_TEXT "cut-text" "a text ends inside a UTF-8 character, which is dropped";
    LATIN_1_TEXT "latin-1-text" "a text is not UTF-8 and is read as ISO-8859-1";
    ODD_PLAYER_COUNT "odd-player-count" "the list holds more or fewer players than the server counts";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the reply";
}
