//! Accepted deviations, by name (spec/onequery.md#9).

use crate::wire::deviations;

deviations! {
    SHORT_REQUEST "short-request" "a query ends before its offset; missing fields count as zero";
    UNKNOWN_TYPE "unknown-type" "a query of a type that does not exist, answered as basic";
    NEGATIVE_OFFSET "negative-offset" "a query requests players from an offset below zero";
    BROKEN_AUTH_TOKEN "broken-auth-token" "an auth token is announced, but it is empty or does not fit the datagram";
    HYQUERY_MAGIC "hyquery-magic" "the magic is HyQuery's own, `HYQUERY2` or `HYREPLY2`";
    TRAILING_BYTES "trailing-bytes" "bytes follow the last field of the message or of one of its parts";
    SHORT_CHALLENGE "short-challenge" "a challenge reply ends before its seven reserved bytes do";
    RESERVED_NOT_ZERO "reserved-not-zero" "the reserved bytes of a challenge reply are in use";
    OVER_1400 "over-1400" "a reply is longer than the 1400 bytes that the protocol promises";
    INVALID_UTF8 "invalid-utf8" "a text is not UTF-8; it is read as ISO-8859-1";
    REFUSED_BUT_DISCLOSED "refused-but-disclosed" "a refusal carries full server info or a page of players";
    IMPLAUSIBLE_COUNT "implausible-count" "a count of players is negative or above one million; it is kept as sent";
    MORE_PAST_TOTAL "more-past-total" "a page has the flag for more players although it reaches their total";
    OFFSET_NOT_ASKED "offset-not-asked" "a page starts at another offset than requested";
    REPEATED_PLAYER "repeated-player" "a player is listed twice, since the list shifted between two pages";
    COUNT_NOT_TOTAL "count-not-total" "the pages hold more or fewer players than the last of them counts";
    ONLY_V1 "only-v1" "the server answers version 1 only";
    NO_CAPABILITIES "no-capabilities" "a reply of version 1 ends before its capabilities, as in OneQuery 1.x";
    CUT_V1 "cut-v1" "a reply of version 1 ends after its counts; whole fields and entries are kept";
    NO_SERVER_IDS "no-server-ids" "a reply of version 1 has HyQuery's lists without servers, as in HyQuery 1.0";
    HYQUERY_LAYOUT "hyquery-layout" "a reply of version 1 has HyQuery's layout, with a port of four bytes";
}
