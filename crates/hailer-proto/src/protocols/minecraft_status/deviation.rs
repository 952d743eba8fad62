//! The deviations that the client accepts, by name (spec/minecraft-status.md#9).

use crate::wire::deviations;

deviations! {
    EMPTY_STATUS "empty-status" "the server closes the connection of a current request without a byte, and replies to an older form";
    LEGACY_KICK "legacy-kick" "the reply to a current request has the form of servers before 1.7";
    NUMBER_REFUSED "number-refused" "the server replies only to another protocol number";
    NO_PONG "no-pong" "the status arrives, but no pong";
    TRAILING_JSON "trailing-json" "more bytes follow the JSON text inside of its packet";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the packet";
    LENGTH_WRONG "length-wrong" "the length of the packet does not fit the length of its text";
    NO_VERSION "no-version" "`version` is absent";
    VERSION_TEXT "version-text" "`version` is a text, the name of the version";
    NO_PLAYERS "no-players" "`players` is absent";
    NO_DESCRIPTION "no-description" "`description` is absent";
    DESCRIPTION_ARRAY "description-array" "the description is a list of components";
    UNKNOWN_COLOR "unknown-color" "a color has an unknown name, and is ignored";
    UUID_ODD "uuid-odd" "a player's id has no hyphens, is a list of numbers or is not a UUID";
    FAVICON_LF "favicon-lf" "white space in the base64 of the icon";
    FAVICON_BARE "favicon-bare" "the icon is base64 without the start of a data URL";
    FAVICON_OTHER "favicon-other" "the icon is not a PNG image of at most 64 KiB in a data URL, and is left out";
    INT_AS_STRING "int-as-string" "a number is a text";
    FLOAT "float" "a whole number has a fraction or an exponent";
    OUTSIDE_32_BITS "outside-32-bits" "a number does not fit 32 bits, so that clients of the game cannot read it; it is kept as sent";
    WRONG_TYPE "wrong-type" "a field has a value of another type, and is left out";
    DUPLICATE_KEYS "duplicate-keys" "an object has a key twice; the last value counts";
    INVALID_UTF8 "invalid-utf8" "a text is not valid UTF-8; it is read as Windows-1252";
    LENIENT_JSON "lenient-json" "the JSON has what only lenient parsers accept, as that of the game: comments, superfluous commas, NaN, single quotes, texts without quotes or a byte order mark";
    MODS_UNREADABLE "mods-unreadable" "the packed mod list ends early or is invalid; mods up to there are kept";
    PROTOCOL_127 "protocol-127" "the protocol number of a legacy reply is 127, which names no version";
    LEGACY_NEG "legacy-neg" "a count of a legacy reply is -1, which means unknown";
    FORMATTED_MOTD "formatted-motd" "the MOTD of a beta reply holds section signs; the counts are read from the end";
    NUL_IN_MOTD "nul-in-motd" "the MOTD of a 1.4 reply contains NULs; the counts are read from the end";
    LEGACY_TRAILING "legacy-trailing" "text follows the maximum of a 1.4 reply";
    ODD_COUNT "odd-count" "a count of a legacy reply is not a number, and is left out";
}
