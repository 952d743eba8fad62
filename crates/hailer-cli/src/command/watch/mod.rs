//! `hailer watch`: a live table of servers in the terminal, polled by this process or by a running
//! monitor.
//!
//! ```text
//!   direct.rs: Poller, StateTable ──┐
//!                                   ├─► FeedUpdate ─► Board ─► screen, table, detail ─► terminal
//!   remote.rs: HTTP, JSON ──────────┘                 board.rs, filter.rs
//! ```
//!
//! May import: `crate::args`, `crate::command`, `crate::config`, `crate::exit`,
//! `crate::http_client`, `crate::print`, `crate::terminal`, `hailer`, `hailer_monitor`.

mod board;
mod cells;
mod detail;
pub(super) mod direct;
mod filter;
pub(crate) mod remote;
mod screen;
#[cfg(test)]
mod simulated;
mod table;

use crate::args::Watch;
use crate::exit::Exit;
use crate::terminal;
use board::{SamplePoint, ServerHistory, ServerView};
use hailer_monitor::sample::Event;
use hailer_monitor::server::ServerId;
use screen::WatchScreen;
use tokio::sync::mpsc;

pub(crate) async fn run(args: Watch) -> anyhow::Result<Exit> {
    // Report invalid targets even if there is no terminal.
    let servers = direct::servers(&args)?;
    let monitor = args.monitor.as_deref().map(remote::Monitor::new);
    let monitor = monitor.transpose()?;
    terminal::require::<WatchScreen>()?;
    let (sender, updates) = mpsc::channel(4);
    let mut screen = WatchScreen::default();
    let feed = match monitor {
        Some(monitor) => {
            // A monitor that is unreachable at the start is an error.
            let monitor = tokio::task::spawn_blocking(move || monitor.check()).await??;
            let (wants, wanted) = std::sync::mpsc::channel();
            monitor.listen(args.interval, wanted, sender)?;
            screen.monitor = Some(wants);
            None
        }
        None => Some(tokio::spawn(
            direct::Direct::start(&args, servers)?.run(sender),
        )),
    };
    let end = terminal::run(screen, updates).await;
    if let Some(feed) = feed {
        feed.abort();
        let _ = feed.await;
    }
    end.map(|()| Exit::Success)
}

/// Update from a feed.
enum FeedUpdate {
    /// Current states of servers.
    Update {
        seen: Vec<ServerView>,
        /// All servers that remain, if some were removed.
        all: Option<Vec<ServerId>>,
        events: Vec<Event>,
    },
    /// History of the server whose details are shown.
    History(ServerHistory),
    /// Earlier samples of a server on the screen.
    Before {
        server: ServerId,
        samples: Vec<SamplePoint>,
    },
}

/// A message of a feed: an update, or the reason why it is interrupted.
type FeedResult = Result<FeedUpdate, String>;

impl FeedUpdate {
    /// Returns states of servers, none of which were removed.
    fn of(seen: Vec<ServerView>) -> Self {
        Self::Update {
            seen,
            all: None,
            events: Vec::new(),
        }
    }
}

/// Servers on the screen, whose history the feed can fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ShownServers {
    /// Name of the server whose details are shown.
    detail: Option<String>,
    /// Servers on the screen without samples from before the start.
    rows: Vec<(ServerId, String)>,
}
