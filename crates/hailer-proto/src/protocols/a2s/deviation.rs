//! Accepted deviations, by name (spec/a2s.md#10).

use crate::wire::deviations;

deviations! {
    TRAILING_BYTES "trailing-bytes" "bytes follow the last field of the message";
    DOUBLED_HEADER "doubled-header" "a reply starts with FF FF FF FF twice";
    SHORT_CHALLENGE "short-challenge" "a players or rules request ends before the four bytes of its challenge";
    NOT_UTF8 "not-utf8" "a text is not UTF-8; it is read as Windows-1252";
    CUT_TEXT "cut-text" "a text was cut at a byte limit inside a character, which is dropped";
    CONTROL_BYTES "control-bytes" "the name of the server contains control characters, which sort it to the top of lists";
    APP_ID_ZERO "app-id-zero" "the 16-bit app id is 0; the game id has the right one";
    NO_EDF "no-edf" "the info reply ends after the version, without the flags of further fields";
    CUT_INFO "cut-info" "the info reply ends after the counts of players, within or before the version";
    CUT_EDF "cut-edf" "the info reply ends inside the fields that its flags announce; those before the end are kept";
    UNKNOWN_EDF "unknown-edf" "flags announce unknown fields; what follows the known fields is not read";
    ODD_TYPE "odd-type" "the server type or the system is an unknown letter, or an upper-case one";
    NO_MOD_BLOCK "no-mod-block" "a GoldSource info reply announces a mod, but does not describe it";
    NO_ANTI_CHEAT "no-anti-cheat" "a GoldSource info reply ends before anti-cheat or before the bots, as in servers of 1999 to 2003";
    BOTH_INFO "both-info" "one request gets an info reply in both forms; the Source form counts";
    NO_CHALLENGE "no-challenge" "players or rules arrive without a challenge";
    CHALLENGE_EACH "challenge-each" "the server replaces a challenge that it has just sent";
    OLD_CHALLENGE "old-challenge" "only the old request for a challenge gets one";
    OLD_WORDS "old-words" "the server only knows the requests of 1999, which are words";
    PLAYERS_TRUNCATED "players-truncated" "the player list ends before the counted number of entries; whole entries are kept";
    PLAYERS_COUNT_LOW "players-count-low" "the player list is longer than its count, which wraps at 256";
    PLAYERS_HIDDEN "players-hidden" "the reply counts 255 players and lists none, or lists one pseudo player `Max Players`";
    SHIP_EXTRA "ship-extra" "deaths and money follow the player list of another game than The Ship";
    RULES_NO_NUL "rules-no-nul" "the value of the last counted rule has no NUL at its end";
    RULES_TRUNCATED "rules-truncated" "the list of rules ends before the counted number of entries; whole entries are kept";
    RULES_COUNT_LOW "rules-count-low" "the list of rules is longer than its count, or the count is negative";
    BINARY_RULES "binary-rules" "rules hold one binary message in chunks, as in Arma 3 and DayZ";
    ZEROS "zeros" "a datagram of zeros arrives instead of a reply; the request is repeated";
    BIG_DATAGRAM "big-datagram" "a datagram is longer than 1400 bytes, the limit of the protocol";
    SPLIT_NO_SIZE "split-no-size" "parts of a split reply have no size field, as in engines of 2006";
    SPLIT_GOLD_SOURCE "split-gold-source" "parts of a split reply have the GoldSource header, with number and total in one byte";
    SPLIT_COMPRESSED_NO_SIZE "split-compressed-no-size" "a compressed split reply has no size field before its length and checksum";
    SPLIT_UNEVEN "split-uneven" "a part before the last one is shorter than another, or than the size field states";
    SPLIT_NO_HEADER "split-no-header" "the joined reply does not start with FF FF FF FF";
}
