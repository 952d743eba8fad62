//! The deviations that the client accepts, by name (spec/minecraft-12w.md#6.1).

use crate::wire::deviations;

deviations! {
    NEWER_REPLY "newer-reply" "the reply has the form of Minecraft 1.4 and later, with protocol number and version";
    FORMATTED_MOTD "formatted-motd" "the MOTD holds section signs; the counts are read from the end";
    ODD_COUNT "odd-count" "a count is not a number, and is left out";
    TRAILING_BYTES "trailing-bytes" "bytes follow the end of the packet";
}
