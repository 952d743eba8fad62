//! Deviations that several GameSpy protocols share (spec/gamespy1.md#6, spec/gamespy3.md#7).

use crate::wire::deviations;

deviations! {
    DUPLICATE_KEY "duplicate-key" "a server key appears twice with different values; the first value counts";
    ODD_NUMBER "odd-number" "a count or port is not a plain decimal number in range";
    TRUNCATED_REPLY "truncated-reply" "the reply ends within a pair or a row, or before the end of a section";
    PART_GAP "part-gap" "a part does not continue where the part before it ended";
    STALE_PLAYERS "stale-players" "the list holds more players than the count; the surplus ones have left";
}
