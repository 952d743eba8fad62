//! The deviations that the client accepts, by name (spec/teamspeak3.md#6).

use crate::wire::deviations;

deviations! {
    OTHER_GREETING "other-greeting" "the first line is another name than `TS3`, as of TeaSpeak; a line of welcome follows it";
    NO_LIST "no-list" "the server refuses to send the list of clients, sends none, or one above the limits";
    BAD_ESCAPE "bad-escape" "a value has a backslash with an unknown character after it";
    INVALID_UTF8 "invalid-utf8" "a value is not valid UTF-8";
    ODD_NUMBER "odd-number" "a number has another form, and is left out";
}
