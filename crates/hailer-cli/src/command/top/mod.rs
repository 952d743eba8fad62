//! `hailer top`: a live view of a running `hailer serve`.
//!
//! ```text
//!   control socket ─► History ─► draw ─► terminal
//!                     history.rs draw.rs
//! ```
//!
//! May import: `crate::args`, `crate::command::serve`, `crate::exit`, `crate::observe`,
//! `crate::print`, `crate::terminal`, `hailer`.

mod draw;
mod history;

use crate::args::Top;
use crate::exit::Exit;
use crate::observe::control::{Client, default_path};
use crate::observe::snapshot::Snapshot;
use crate::terminal;
use draw::TopScreen;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::sleep;

/// Time between attempts to reconnect.
const RETRY_DELAY: Duration = Duration::from_secs(1);

pub(crate) async fn run(args: Top) -> anyhow::Result<Exit> {
    terminal::require::<TopScreen>()?;
    let path = args.running.control.unwrap_or_else(default_path);
    // If no responder runs at the start, fail instead of waiting.
    let first = watch(&path, args.every).await?;
    let (sender, feed) = mpsc::channel(4);
    let listening = tokio::spawn(listen(first, path, args.every, sender));
    let end = terminal::run(TopScreen::default(), feed).await;
    listening.abort();
    end.map(|()| Exit::Success)
}

async fn watch(path: &Path, every: Duration) -> anyhow::Result<(Client, Snapshot)> {
    let mut client = Client::connect(path).await?;
    client.watch(every).await?;
    let snapshot = client.next().await?;
    Ok((client, snapshot))
}

/// Sends snapshots, or the reason why there is none, and reconnects, until the receiver is dropped.
async fn listen(
    first: (Client, Snapshot),
    path: PathBuf,
    every: Duration,
    to: mpsc::Sender<Result<Snapshot, String>>,
) {
    let mut next = Ok(first);
    loop {
        let error = match next {
            Ok((mut client, mut snapshot)) => loop {
                if to.send(Ok(snapshot)).await.is_err() {
                    return;
                }
                match client.next().await {
                    Ok(next) => snapshot = next,
                    Err(error) => break error,
                }
            },
            Err(error) => error,
        };
        if to.send(Err(format!("{error:#}"))).await.is_err() {
            return;
        }
        sleep(RETRY_DELAY).await;
        next = watch(&path, every).await;
    }
}
