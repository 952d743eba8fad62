//! The deviations that the client accepts, by name (spec/seven-days.md#5).

use crate::wire::deviations;

deviations! {
    BINARY_LENGTH "binary-length" "the length has two bytes instead of five digits, as in old builds";
    SHORT_BODY "short-body" "the connection ends before the length is reached; the lines up to there count";
    NO_TYPE "no-type" "the lines have no `GameType`";
    INVALID_UTF8 "invalid-utf8" "a value is not valid UTF-8";
}
