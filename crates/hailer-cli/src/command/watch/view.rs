//! Input of a screen of `hailer watch`: the board and the state of the screen.

use super::board::{Board, Entry, ServerHistory};
use hailer_monitor::sample::Millis;
use hailer_monitor::server::ServerId;

/// State of the feed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Link {
    /// No update has arrived yet.
    Waiting,
    /// Updates arrive.
    Live,
    /// Interrupted: seconds since then, and the reason.
    Lost(u64, String),
}

/// Everything that is drawn.
pub(super) struct View<'a> {
    pub(super) board: &'a Board,
    pub(super) now: Millis,
    /// Whether a monitor polls the servers.
    pub(super) is_remote: bool,
    /// Row of the cursor, and the first visible row.
    pub(super) cursor: usize,
    pub(super) top: usize,
    /// Server whose details are shown, and how many of their lines are scrolled away.
    pub(super) detail: Option<ServerId>,
    pub(super) scroll: usize,
    pub(super) past: Option<&'a ServerHistory>,
    pub(super) is_typing: bool,
    pub(super) is_paused: bool,
    pub(super) has_help: bool,
    pub(super) link: &'a Link,
    pub(super) notice: Option<&'a str>,
}

impl<'a> View<'a> {
    /// Returns the server whose details are shown, and its history.
    pub(super) fn shown(&self) -> Option<(&'a Entry, Option<&'a ServerHistory>)> {
        let id = self.detail?;
        Some((
            self.board.server(id)?,
            self.past.filter(|past| past.server == id),
        ))
    }
}
