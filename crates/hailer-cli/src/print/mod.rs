//! Output forms. Those for people write ANSI colours; the stream that they write to drops them unless it is a terminal.

pub(crate) mod datagram;
pub(crate) mod json;
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
