//! `hailer top`: a live view of a running `hailer serve`.
//!
//! ```text
//!   control socket ─► History ─► draw ─► terminal
//!                     history.rs draw.rs
//! ```

pub(super) mod draw;
mod history;

use crate::args::Top;
use crate::exit::{Exit, usage};
use crate::observe::control::{Client, default_path};
use crate::observe::snapshot::Snapshot;
use crate::print::ink::Ink;
use anyhow::Context;
use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use draw::{Link, View};
use futures_util::StreamExt;
use history::History;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

/// Time between attempts to reconnect.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Time for which a message is shown.
const NOTICE_TIME: Duration = Duration::from_secs(30);

pub(crate) async fn run(args: Top) -> anyhow::Result<Exit> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        usage!("hailer top needs a terminal; programs can use `hailer serve status --json`");
    }
    let path = args.running.control.unwrap_or_else(default_path);
    // If no responder runs at the start, fail instead of waiting.
    let first = watch(&path, args.every).await?;
    let (sender, received) = mpsc::channel(4);
    let listening = tokio::spawn(listen(first, path, args.every, sender));
    // Restores the terminal, also after a panic.
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let end = show(&mut terminal, received).await;
    listening.abort();
    ratatui::restore();
    end.map(|()| Exit::Success)
}

/// Snapshot of the responder, or the reason why there is none.
type ReceivedSnapshot = Result<Snapshot, String>;

async fn watch(path: &Path, every: Duration) -> anyhow::Result<(Client, Snapshot)> {
    let mut client = Client::connect(path).await?;
    client.watch(every).await?;
    let snapshot = client.next().await?;
    Ok((client, snapshot))
}

/// Receives snapshots, and reconnects, until the receiver is dropped.
async fn listen(
    first: (Client, Snapshot),
    path: PathBuf,
    every: Duration,
    to: mpsc::Sender<ReceivedSnapshot>,
) {
    let mut next = Ok(first);
    loop {
        let error = match next {
            Ok((client, snapshot)) => match pass_on(client, snapshot, &to).await {
                Some(error) => error,
                None => return,
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

/// Forwards snapshots until the connection is lost, and returns the reason. Returns `None` if the
/// receiver is dropped.
async fn pass_on(
    mut client: Client,
    mut snapshot: Snapshot,
    to: &mpsc::Sender<ReceivedSnapshot>,
) -> Option<anyhow::Error> {
    loop {
        to.send(Ok(snapshot)).await.ok()?;
        match client.next().await {
            Ok(next) => snapshot = next,
            Err(error) => return Some(error),
        }
    }
}

/// Draws the screen and handles keys until the user quits.
async fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut received: mpsc::Receiver<ReceivedSnapshot>,
) -> anyhow::Result<()> {
    let mut screen = TopScreen::default();
    let ink = Ink::wanted();
    let mut typed = EventStream::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    let stop = super::service::interrupted();
    tokio::pin!(stop);
    loop {
        terminal.draw(|frame| {
            draw::draw(frame, &screen.view());
            ink.apply(frame.buffer_mut());
        })?;
        tokio::select! {
            () = &mut stop => return Ok(()),
            event = typed.next() => match event {
                Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => {
                    if !screen.press(key) {
                        return Ok(());
                    }
                }
                Some(Ok(_)) => {}
                // The terminal was closed.
                Some(Err(_)) | None => return Ok(()),
            },
            news = received.recv() => match news {
                Some(news) => screen.receive(news, Instant::now()),
                None => return Ok(()),
            },
            _ = ticks.tick() => screen.tick(Instant::now()),
        }
    }
}

/// The content of the screen.
struct TopScreen {
    history: History,
    /// Selected listener; 0 shows the totals of all.
    chosen: usize,
    is_paused: bool,
    has_help: bool,
    link: Link,
    lost: Option<Instant>,
    notice: Option<(Instant, String)>,
}

impl Default for TopScreen {
    fn default() -> Self {
        Self {
            history: History::default(),
            chosen: 0,
            is_paused: false,
            has_help: false,
            link: Link::Live,
            lost: None,
            notice: None,
        }
    }
}

impl TopScreen {
    fn view(&self) -> View<'_> {
        let Self { history, link, .. } = self;
        let notice = self.notice.as_ref().map(|(_, notice)| &**notice);
        View {
            history,
            chosen: self.chosen,
            is_paused: self.is_paused,
            has_help: self.has_help,
            link,
            notice,
        }
    }

    /// Handles a key. Returns `false` to quit.
    fn press(&mut self, key: KeyEvent) -> bool {
        let places = 1 + self
            .history
            .last()
            .map_or(0, |snapshot| snapshot.listeners.len());
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return false,
            KeyCode::Esc if self.has_help => self.has_help = false,
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.has_help = !self.has_help,
            KeyCode::Tab | KeyCode::Right | KeyCode::Down => {
                self.chosen = (self.chosen + 1) % places;
            }
            KeyCode::BackTab | KeyCode::Left | KeyCode::Up => {
                self.chosen = (self.chosen + places - 1) % places;
            }
            _ => {}
        }
        true
    }

    fn receive(&mut self, news: ReceivedSnapshot, now: Instant) {
        match news {
            Ok(snapshot) => {
                self.link = Link::Live;
                self.lost = None;
                if self.is_paused {
                    return;
                }
                let pid = snapshot.pid;
                // A reload may have changed the listeners.
                if self.chosen > snapshot.listeners.len() {
                    self.chosen = 0;
                }
                if let Some(before) = self.history.push(snapshot) {
                    let words =
                        format!("hailer serve has restarted: process {pid}, before {before}");
                    self.notice = Some((now, words));
                }
            }
            Err(why) => {
                let since = *self.lost.get_or_insert(now);
                self.link = Link::Lost((now - since).as_secs(), why);
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        if let (Some(since), Link::Lost(seconds, _)) = (self.lost, &mut self.link) {
            *seconds = (now - since).as_secs();
        }
        self.notice.take_if(|(since, _)| now - *since > NOTICE_TIME);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::simulated;

    fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    #[test]
    fn keys_match_the_help() {
        let mut screen = TopScreen::default();
        screen.receive(Ok(simulated::snapshot(1.0)), Instant::now());
        for (code, chosen) in [
            (KeyCode::Tab, 1),
            (KeyCode::Right, 2),
            (KeyCode::BackTab, 1),
            (KeyCode::Left, 0),
        ] {
            assert!(screen.press(key(code)));
            assert_eq!(screen.chosen, chosen);
        }
        assert!(
            screen.press(key(KeyCode::Up))
                && screen.chosen == 3
                && screen.press(key(KeyCode::Down))
        );
        assert_eq!(screen.chosen, 0);
        assert!(screen.press(key(KeyCode::Char('?'))) && screen.has_help);
        assert!(
            screen.press(key(KeyCode::Esc)) && !screen.has_help,
            "Esc closes the help first"
        );
        assert!(screen.press(key(KeyCode::Char('p'))) && screen.is_paused);
        screen.receive(Ok(simulated::snapshot(9.0)), Instant::now());
        assert_eq!(screen.history.last().unwrap().uptime_s, 1.0);
        for last in [
            key(KeyCode::Char('q')),
            key(KeyCode::Esc),
            KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
        ] {
            assert!(!screen.press(last));
        }
        assert!(screen.press(key(KeyCode::Char('c'))));
    }

    #[test]
    fn shows_lost_and_restored_connections() {
        let mut screen = TopScreen::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        screen.receive(Ok(simulated::snapshot(50.0)), start);
        screen.chosen = 3;
        screen.receive(Err("gone".into()), after(1));
        screen.tick(after(4));
        screen.receive(Err("still gone".into()), after(5));
        assert_eq!(screen.link, Link::Lost(4, "still gone".into()));
        let mut restarted = Snapshot {
            pid: 4800,
            ..simulated::snapshot(0.1)
        };
        restarted.listeners.truncate(1);
        screen.receive(Ok(restarted), after(6));
        assert_eq!((&screen.link, screen.chosen), (&Link::Live, 0));
        assert!(
            screen
                .view()
                .notice
                .unwrap()
                .ends_with("process 4800, before 4711")
        );
        screen.tick(after(60));
        assert_eq!(screen.view().notice, None);
    }
}
