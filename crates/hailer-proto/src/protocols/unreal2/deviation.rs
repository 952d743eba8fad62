//! The deviations that the client accepts, by name (spec/unreal2.md#6).

use crate::wire::deviations;

deviations! {
    SHORT_INFO "short-info" "the information ends before its last field";
    MISSING_NUL "missing-nul" "a text has no NUL at its end";
    WIDENED_UTF8 "widened-utf8" "a text in UTF-16 has the bytes of UTF-8 as its characters";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the information";
    EMPTY_REPLY "empty-reply" "a reply with rules or players has none";
    UNREADABLE_PART "unreadable-part" "a datagram of the reply is unreadable and left out";
}
