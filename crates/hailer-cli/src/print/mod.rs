//! Output forms for people. Each writes ANSI colours; the stream that it writes to drops them unless it is a terminal.

pub(crate) mod datagram;
pub(crate) mod table;
pub(crate) mod view;

use hailer::proto::model::printable;

/// Text of a server's, cut to a width for one line.
pub(crate) fn line(text: &str, width: usize) -> String {
    let text = printable(text);
    match text.char_indices().nth(width) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text,
    }
}
