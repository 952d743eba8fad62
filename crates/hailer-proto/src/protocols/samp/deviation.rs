//! The deviations that the client accepts, by name (spec/samp.md#6).

use crate::wire::deviations;

deviations! {
    SILENT_RULES "silent-rules" "a request for rules gets no reply";
    SILENT_PLAYERS "silent-players" "a request for the list of players gets no reply";
    NO_DETAILS "no-details" "a request for details of players gets no reply, and one for names and scores does";
    SILENT_LINKS "silent-links" "a request for links gets no reply from a server of open.mp";
    SHORT_INFO "short-info" "the information ends after the name; missing texts are left out";
    CUT_LINKS "cut-links" "the links of open.mp end early; whole ones are kept";
    UNREADABLE_LIST "unreadable-list" "a list of rules or players is unreadable and left out";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the reply";
}
