//! The deviations that the client accepts, by name (spec/minecraft-bedrock.md#8).

use crate::wire::deviations;

deviations! {
    NO_TEXT "no-text" "the pong ends after the magic: the server is online and reports nothing else";
    EMPTY_TEXT "empty-text" "the text of the pong has the length 0";
    CUT_TEXT "cut-text" "the pong ends before the declared length of its text";
    TRAILING_BYTES "trailing-bytes" "bytes follow the declared length of the text";
    FEWER_FIELDS "fewer-fields" "the text has fewer than twelve fields";
    EXTRA_FIELDS "extra-fields" "the text has more than twelve fields";
    NO_FINAL_SEPARATOR "no-final-separator" "no separator follows the last field";
    ESCAPED_SEPARATOR "escaped-separator" "a separator inside a text has a backslash before it";
    FINAL_BACKSLASH "final-backslash" "a text ends with a backslash, which is not an escape of the separator after it";
    SEPARATOR_IN_NAME "separator-in-name" "the name contains separators without an escape, so its end is a guess";
    SEPARATOR_IN_LEVEL "separator-in-level" "the second line contains separators without an escape; it ends before the game mode";
    UNKNOWN_LAYOUT "unknown-layout" "no arrangement of the fields has numbers where they belong; the whole text is taken as the name";
    ODD_PROTOCOL "odd-protocol" "the number of the protocol is missing or not a number; the other fields are at their places";
    NO_COUNT "no-count" "a count of players is empty";
    EMPTY_VERSION "empty-version" "the version is empty";
    GUID_NOT_A_NUMBER "guid-not-a-number" "the text has something else than a number as the server's id, such as a UUID";
    NEGATIVE_GUID "negative-guid" "the text has the server's id as a signed number";
    OTHER_GUID "other-guid" "the id in the text differs from the id in the header, as in replies for another server";
    ODD_MODE "odd-mode" "the game mode is none of the game's";
    ODD_PORT "odd-port" "a port of the game is missing or outside of 1 to 65535";
    LATIN_1_TEXT "latin-1-text" "the text is not UTF-8; a field that was cut inside a character loses that character, others are read as ISO-8859-1";
}
