//! `hailer watch`: a live table of servers in the terminal, polled by this process or by a running
//! monitor.
//!
//! ```text
//!   direct.rs: Poller, StateTable ──┐
//!                                   ├─► News ─► Board ─► draw, detail ─► terminal
//!   remote.rs: HTTP, JSON ──────────┘           board.rs, filter.rs
//! ```

mod board;
mod cells;
mod detail;
pub(super) mod direct;
mod draw;
mod filter;
pub(crate) mod remote;
#[cfg(test)]
mod simulated;
mod view;

use crate::args::Watch;
use crate::exit::{Exit, usage};
use crate::print::ink::Ink;
use crate::print::line;
use anyhow::Context;
use board::{Board, Entry, SamplePoint, ServerHistory, ServerView, SortKey};
use crossterm::event::{
    Event as Typed, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers,
};
use filter::Filter;
use futures_util::StreamExt;
use hailer_monitor::health::State;
use hailer_monitor::sample::unix_millis;
use hailer_monitor::sample::{Event, Millis};
use hailer_monitor::server::ServerId;
use ratatui::layout::Rect;
use std::io::IsTerminal;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use view::{Link, View};

/// Time for which an event is shown in the last line.
const NOTICE_TIME: Duration = Duration::from_secs(15);
/// Longest delay before an update is drawn. Keys are handled immediately.
const MAX_DRAW_DELAY: Duration = Duration::from_millis(100);
/// Maximum length of a filter in characters.
const MAX_FILTER_CHARS: usize = 200;

pub(crate) async fn run(args: Watch) -> anyhow::Result<Exit> {
    // Report invalid targets even if there is no terminal.
    let servers = direct::servers(&args)?;
    let monitor = args
        .monitor
        .as_deref()
        .map(remote::Monitor::new)
        .transpose()?;
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        usage!("hailer watch needs a terminal; programs can use `hailer query --json`");
    }
    let (sender, news) = mpsc::channel(4);
    let (wants, wanted) = std::sync::mpsc::channel();
    let feed = match monitor {
        Some(monitor) => {
            // A monitor that is unreachable at the start is an error.
            let monitor = tokio::task::spawn_blocking(move || monitor.check()).await??;
            monitor.listen(args.interval, wanted, sender)?;
            None
        }
        None => Some(tokio::spawn(
            direct::Direct::start(&args, servers)?.run(sender),
        )),
    };
    // Also restores the terminal after a panic.
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let end = show(
        &mut terminal,
        WatchScreen::new(args.monitor.is_some()),
        news,
        &wants,
    )
    .await;
    ratatui::restore();
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
    /// The feed is interrupted, with the reason.
    Lost(String),
}

/// Servers on the screen, whose history the feed can fetch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ShownServers {
    /// Name of the server whose details are shown.
    detail: Option<String>,
    /// Servers on the screen without samples from before the start.
    rows: Vec<(ServerId, String)>,
}

/// Draws the screen and handles keys until the user quits. Sends the shown servers to `wants`.
async fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut screen: WatchScreen,
    mut news: mpsc::Receiver<FeedUpdate>,
    wants: &std::sync::mpsc::Sender<ShownServers>,
) -> anyhow::Result<()> {
    let ink = Ink::wanted();
    let mut typed = EventStream::new();
    let mut ticks = tokio::time::interval(Duration::from_secs(1));
    let stop = super::service::interrupted();
    tokio::pin!(stop);
    let mut wanted = ShownServers::default();
    let mut is_due = true;
    let mut is_new = false;
    let mut drawn = Instant::now();
    loop {
        if is_due {
            terminal.draw(|frame| {
                screen.settle(frame.area());
                draw::draw(frame, &screen.view(unix_millis()));
                ink.apply(frame.buffer_mut());
            })?;
            is_due = false;
            is_new = false;
            drawn = Instant::now();
            let wants_now = screen.wants();
            if wants_now != wanted {
                wanted.clone_from(&wants_now);
                // The direct feed has no receiver.
                let _ = wants.send(wants_now);
            }
        }
        tokio::select! {
            () = &mut stop => return Ok(()),
            event = typed.next() => match event {
                Some(Ok(Typed::Key(key))) if key.kind != KeyEventKind::Release => {
                    if !screen.press(key) {
                        return Ok(());
                    }
                    is_due = true;
                }
                Some(Ok(_)) => is_due = true,
                // The terminal was closed.
                Some(Err(_)) | None => return Ok(()),
            },
            message = news.recv() => match message {
                Some(message) => {
                    screen.receive(message, Instant::now());
                    is_new = true;
                }
                None => return Ok(()),
            },
            () = sleep_until(drawn + MAX_DRAW_DELAY), if is_new => is_due = true,
            _ = ticks.tick() => {
                screen.tick(Instant::now());
                is_due = true;
            }
        }
    }
}

/// State of the screen.
struct WatchScreen {
    board: Board,
    /// Whether a monitor polls the servers.
    is_remote: bool,
    /// Row of the cursor, and its server once it was moved: the cursor then follows the server.
    cursor: usize,
    held: Option<ServerId>,
    /// First visible row, and number of visible rows.
    top: usize,
    page: usize,
    /// Server whose details are shown, and how many of their lines are scrolled away.
    detail: Option<ServerId>,
    scroll: usize,
    past: Option<ServerHistory>,
    is_typing: bool,
    is_paused: bool,
    has_help: bool,
    link: Link,
    lost: Option<Instant>,
    notice: Option<(Instant, String)>,
}

impl WatchScreen {
    fn new(is_remote: bool) -> Self {
        Self {
            board: Board::default(),
            is_remote,
            cursor: 0,
            held: None,
            top: 0,
            page: 1,
            detail: None,
            scroll: 0,
            past: None,
            is_typing: false,
            is_paused: false,
            has_help: false,
            link: Link::Waiting,
            lost: None,
            notice: None,
        }
    }

    fn view(&self, now: Millis) -> View<'_> {
        View {
            board: &self.board,
            now,
            is_remote: self.is_remote,
            cursor: self.cursor,
            top: self.top,
            detail: self.detail,
            scroll: self.scroll,
            past: self.past.as_ref(),
            is_typing: self.is_typing,
            is_paused: self.is_paused,
            has_help: self.has_help,
            link: &self.link,
            notice: self.notice.as_ref().map(|(_, notice)| &**notice),
        }
    }

    /// Limits scrolling to the size of the terminal.
    fn settle(&mut self, area: Rect) {
        self.page = draw::rows(area).max(1);
        self.cursor = self.cursor.min(self.board.len().saturating_sub(1));
        self.top = self.top.min(self.board.len().saturating_sub(self.page));
        self.top = self
            .top
            .clamp((self.cursor + 1).saturating_sub(self.page), self.cursor);
        self.scroll = match self.detail {
            Some(_) => self
                .scroll
                .min(draw::most_scroll(area, &self.view(unix_millis()))),
            None => 0,
        };
    }

    fn wants(&self) -> ShownServers {
        let named = |entry: &Entry| entry.seen.server.name.clone();
        let detail = self.detail.and_then(|id| self.board.server(id)).map(named);
        let shown = (self.top..self.top + self.page).map_while(|row| self.board.entry(row));
        let new = shown.filter(|entry| self.is_remote && !entry.has_before);
        ShownServers {
            detail,
            rows: new
                .map(|entry| (entry.seen.server.id, named(entry)))
                .collect(),
        }
    }

    /// Handles a key. Returns `false` to quit.
    fn press(&mut self, key: KeyEvent) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && key.code == KeyCode::Char('c') {
            return false;
        }
        if self.is_typing {
            self.type_filter(key, is_control);
            return true;
        }
        let last = self.board.len().saturating_sub(1);
        match key.code {
            KeyCode::Esc if self.has_help => self.has_help = false,
            KeyCode::Esc if self.detail.is_some() => self.detail = None,
            KeyCode::Esc if !self.board.filter().is_empty() => self.filter(""),
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.has_help = !self.has_help,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('r') => {
                let sort = self.board.sort();
                self.board.sort_by(sort.press(sort.by));
                self.find();
            }
            KeyCode::Char(digit @ '0'..='9') => {
                let by = SortKey::ALL[digit as usize - usize::from(b'0')];
                self.board.sort_by(self.board.sort().press(by));
                self.find();
            }
            KeyCode::Enter => {
                let chosen = self
                    .board
                    .entry(self.cursor)
                    .map(|entry| entry.seen.server.id);
                self.detail = if self.detail.is_some() { None } else { chosen };
                self.held = chosen;
                self.scroll = 0;
            }
            KeyCode::PageDown if self.detail.is_some() => self.scroll += self.page / 2 + 1,
            KeyCode::PageUp if self.detail.is_some() => {
                self.scroll = self.scroll.saturating_sub(self.page / 2 + 1);
            }
            KeyCode::Down | KeyCode::Char('j') => self.go((self.cursor + 1).min(last)),
            KeyCode::Up | KeyCode::Char('k') => self.go(self.cursor.saturating_sub(1)),
            KeyCode::PageDown => self.go((self.cursor + self.page).min(last)),
            KeyCode::PageUp => self.go(self.cursor.saturating_sub(self.page)),
            KeyCode::End | KeyCode::Char('G') => self.go(last),
            KeyCode::Home | KeyCode::Char('g') => {
                self.go(0);
                // The cursor stays in the first row instead of following a server, unless details
                // are shown.
                self.held = self.detail;
            }
            _ => {}
        }
        true
    }

    fn type_filter(&mut self, key: KeyEvent, is_control: bool) {
        let mut text = self.board.filter().typed().to_owned();
        match key.code {
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.is_typing = false;
                self.filter("");
            }
            KeyCode::Backspace if text.is_empty() => self.is_typing = false,
            KeyCode::Backspace => {
                text.pop();
                self.filter(&text);
            }
            KeyCode::Char('u' | 'w') if is_control => self.filter(""),
            KeyCode::Char(letter) if !is_control && text.chars().count() < MAX_FILTER_CHARS => {
                text.push(letter);
                self.filter(&text);
            }
            _ => {}
        }
    }

    fn filter(&mut self, typed: &str) {
        self.board.filter_by(Filter::read(typed));
        self.find();
    }

    /// Moves the cursor, and shows the details of its new server.
    fn go(&mut self, row: usize) {
        self.cursor = row;
        self.held = self.board.entry(row).map(|entry| entry.seen.server.id);
        if self.detail.is_some() && self.detail != self.held {
            self.detail = self.held;
            self.scroll = 0;
        }
    }

    /// Moves the cursor to the row of its server.
    fn find(&mut self) {
        if let Some(row) = self.held.and_then(|held| self.board.row_of(held)) {
            self.cursor = row;
        }
    }

    fn receive(&mut self, news: FeedUpdate, now: Instant) {
        match news {
            FeedUpdate::Lost(why) => {
                let since = *self.lost.get_or_insert(now);
                self.link = Link::Lost((now - since).as_secs(), why);
                return;
            }
            _ => {
                self.link = Link::Live;
                self.lost = None;
            }
        }
        match news {
            _ if self.is_paused => {}
            FeedUpdate::Update { seen, all, events } => {
                let is_first = self.board.totals().servers == 0;
                let changed = self.board.see(seen);
                self.board.happen(events);
                if let Some(all) = all {
                    self.board.keep(&all);
                }
                if is_first {
                    self.board.arrange();
                }
                if let Some(words) = self.message(&changed) {
                    self.notice = Some((now, words));
                }
                if self
                    .detail
                    .is_some_and(|id| self.board.server(id).is_none())
                {
                    self.detail = None;
                }
            }
            FeedUpdate::History(past) => self.past = Some(past),
            FeedUpdate::Before { server, samples } => self.board.remember(server, samples),
            FeedUpdate::Lost(_) => {}
        }
    }

    /// Describes which servers went up or down.
    fn message(&self, changed: &[ServerId]) -> Option<String> {
        let word = |state| match state {
            State::Down => "down",
            State::Up => "up",
            State::Unknown => "unknown",
        };
        let states = changed
            .iter()
            .filter_map(|id| self.board.server(*id))
            .filter(|entry| !entry.seen.is_flapping);
        let states: Vec<_> = states
            .map(|entry| (line(&entry.seen.server.name, 40), word(entry.seen.state)))
            .collect();
        match &states[..] {
            [] => None,
            [(name, state)] => Some(format!("{name} is {state}")),
            many => {
                let count = |word| many.iter().filter(|(_, state)| *state == word).count();
                let words = ["down", "up"].map(|word| (count(word), word));
                let words = words.iter().filter(|(count, _)| *count > 0);
                let words: Vec<_> = words
                    .map(|(count, word)| format!("{count} went {word}"))
                    .collect();
                (!words.is_empty()).then(|| words.join(", "))
            }
        }
    }

    fn tick(&mut self, now: Instant) {
        if let (Some(since), Link::Lost(seconds, _)) = (self.lost, &mut self.link) {
            *seconds = (now - since).as_secs();
        }
        self.notice.take_if(|(since, _)| now - *since > NOTICE_TIME);
        if self.board.is_stale() && !self.is_paused {
            self.board.arrange();
            self.find();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simulated::{board, five, seen};

    fn screen() -> WatchScreen {
        let mut screen = WatchScreen::new(false);
        screen.board = board();
        screen.link = Link::Live;
        screen.settle(Rect::new(0, 0, 80, 24));
        screen
    }

    fn press(screen: &mut WatchScreen, codes: &[KeyCode]) {
        for code in codes {
            assert!(
                screen.press(KeyEvent::new(*code, KeyModifiers::NONE)),
                "{code:?} ended it"
            );
            screen.settle(Rect::new(0, 0, 80, 24));
        }
    }

    fn type_text(screen: &mut WatchScreen, text: &str) {
        text.chars()
            .for_each(|letter| press(screen, &[KeyCode::Char(letter)]));
    }

    fn chosen(screen: &WatchScreen) -> &str {
        &screen.board.entry(screen.cursor).unwrap().seen.server.name
    }

    fn ends(screen: &mut WatchScreen, code: KeyCode, modifiers: KeyModifiers) -> bool {
        !screen.press(KeyEvent::new(code, modifiers))
    }

    #[test]
    fn cursor_follows_its_server() {
        let mut screen = screen();
        type_text(&mut screen, "4");
        assert_eq!(
            chosen(&screen),
            "survival-10",
            "it stays at the top until it is moved"
        );
        press(&mut screen, &[KeyCode::Down, KeyCode::Char('j')]);
        assert_eq!(chosen(&screen), "lobby");
        type_text(&mut screen, "4");
        assert_eq!((chosen(&screen), screen.cursor), ("lobby", 1));
        type_text(&mut screen, "2");
        assert_eq!(
            (chosen(&screen), screen.board.sort().by),
            ("lobby", SortKey::Name)
        );
        type_text(&mut screen, "r");
        assert!(screen.board.sort().is_descending && chosen(&screen) == "lobby");
        press(&mut screen, &[KeyCode::End]);
        assert_eq!(chosen(&screen), "Arena");
        press(
            &mut screen,
            &[KeyCode::PageUp, KeyCode::Up, KeyCode::Char('k')],
        );
        assert_eq!(screen.cursor, 0);
        // It also follows when servers are added.
        press(&mut screen, &[KeyCode::Char('j')]);
        let before = chosen(&screen).to_owned();
        let new = FeedUpdate::Update {
            seen: vec![seen(8, "zebra")],
            all: None,
            events: Vec::new(),
        };
        screen.receive(new, Instant::now());
        screen.tick(Instant::now());
        assert_eq!((chosen(&screen), screen.cursor), (&*before, 2));
    }

    #[test]
    fn filter_can_be_typed_kept_and_cleared() {
        let mut screen = screen();
        type_text(&mut screen, "/surq");
        assert!(
            screen.is_typing && screen.board.len() == 0,
            "q is a letter there"
        );
        press(&mut screen, &[KeyCode::Backspace]);
        assert_eq!(screen.board.len(), 2);
        press(&mut screen, &[KeyCode::Enter]);
        assert!(!screen.is_typing);
        press(&mut screen, &[KeyCode::Down, KeyCode::Down]);
        assert_eq!((chosen(&screen), screen.cursor), ("survival-9", 1));
        press(&mut screen, &[KeyCode::Esc]);
        assert_eq!((screen.board.len(), chosen(&screen)), (5, "survival-9"));
        type_text(&mut screen, "/!down");
        press(&mut screen, &[KeyCode::Esc]);
        assert!(!screen.is_typing && screen.board.len() == 5);
        type_text(&mut screen, "/");
        type_text(&mut screen, &"x".repeat(500));
        assert_eq!(screen.board.filter().typed().len(), MAX_FILTER_CHARS);
        assert!(
            ends(&mut screen, KeyCode::Char('c'), KeyModifiers::CONTROL),
            "even there"
        );
    }

    #[test]
    fn keys_match_the_help() {
        let mut screen = screen();
        press(&mut screen, &[KeyCode::Char('?')]);
        assert!(screen.has_help);
        press(&mut screen, &[KeyCode::Esc, KeyCode::Enter]);
        assert!(!screen.has_help, "Esc closes the help first");
        assert_eq!(
            (screen.detail, screen.wants().detail.as_deref()),
            (Some(ServerId(1)), Some("lobby"))
        );
        press(&mut screen, &[KeyCode::Down]);
        assert_eq!(
            screen.wants().detail.as_deref(),
            Some("survival-10"),
            "the details go with the cursor"
        );
        press(&mut screen, &[KeyCode::PageDown; 50]);
        assert!(
            screen.scroll < 100,
            "scrolled to the end: {}",
            screen.scroll
        );
        press(&mut screen, &[KeyCode::Esc]);
        assert_eq!(
            (screen.detail, screen.wants()),
            (None, ShownServers::default())
        );
        type_text(&mut screen, "p");
        let before = screen.board.totals().up;
        let mut down = five();
        down[0].state = State::Down;
        screen.receive(
            FeedUpdate::Update {
                seen: down,
                all: None,
                events: Vec::new(),
            },
            Instant::now(),
        );
        screen.tick(Instant::now());
        assert!(
            screen.is_paused && screen.board.totals().up == before,
            "nothing moves meanwhile"
        );
        for (code, modifiers) in [
            (KeyCode::Char('q'), KeyModifiers::NONE),
            (KeyCode::Esc, KeyModifiers::NONE),
            (KeyCode::Char('c'), KeyModifiers::CONTROL),
        ] {
            assert!(ends(&mut screen, code, modifiers), "{code:?}");
        }
        assert!(!ends(&mut screen, KeyCode::Char('c'), KeyModifiers::NONE));
    }

    #[test]
    fn events_are_shown() {
        let mut screen = screen();
        let start = Instant::now();
        let notify = |screen: &mut WatchScreen, change: fn(&mut Vec<ServerView>), seconds| {
            let mut seen = five();
            change(&mut seen);
            let now = start + Duration::from_secs(seconds);
            screen.receive(
                FeedUpdate::Update {
                    seen,
                    all: None,
                    events: Vec::new(),
                },
                now,
            );
            screen.tick(now);
            screen
                .notice
                .as_ref()
                .map(|(_, notice)| notice.clone())
                .unwrap_or_default()
        };
        assert_eq!(notify(&mut screen, |_| {}, 0), "");
        assert_eq!(
            notify(&mut screen, |all| all[0].state = State::Down, 1),
            "lobby is down"
        );
        assert_eq!(screen.board.totals().down, 2);
        assert_eq!(
            notify(
                &mut screen,
                |all| all[1..3].iter_mut().for_each(|one| one.state = State::Down),
                2
            ),
            "2 went down, 1 went up"
        );
        assert_eq!(
            notify(
                &mut screen,
                |all| all[1..3].iter_mut().for_each(|one| one.state = State::Down),
                60
            ),
            ""
        );
        screen.receive(
            FeedUpdate::Lost("gone".into()),
            start + Duration::from_secs(61),
        );
        screen.tick(start + Duration::from_secs(70));
        assert_eq!(screen.link, Link::Lost(9, "gone".into()));
        notify(&mut screen, |_| {}, 71);
        assert_eq!(screen.link, Link::Live);
        // The server of the details was removed.
        press(&mut screen, &[KeyCode::Enter]);
        screen.receive(
            FeedUpdate::Update {
                seen: Vec::new(),
                all: Some(vec![ServerId(2)]),
                events: Vec::new(),
            },
            start,
        );
        assert_eq!((screen.detail, screen.board.len()), (None, 1));
        screen.settle(Rect::new(0, 0, 80, 24));
        assert_eq!(chosen(&screen), "survival-10");
    }

    #[test]
    fn history_is_fetched_for_rows_on_the_screen() {
        let mut screen = WatchScreen::new(true);
        let many = (0..100)
            .map(|id| seen(id, &format!("server-{id}")))
            .collect();
        screen.receive(
            FeedUpdate::Update {
                seen: many,
                all: None,
                events: Vec::new(),
            },
            Instant::now(),
        );
        screen.settle(Rect::new(0, 0, 80, 24));
        let rows = screen.wants().rows;
        assert_eq!((rows.len(), &*rows[0].1), (screen.page, "server-0"));
        let sample = |at, players| SamplePoint {
            at,
            players: Some(players),
            latency: None,
        };
        let now = simulated::NOW;
        let samples = vec![sample(now - 2, 1.0), sample(now - 1, 2.0), sample(now, 3.0)];
        screen.receive(
            FeedUpdate::Before {
                server: rows[0].0,
                samples,
            },
            Instant::now(),
        );
        let entry = screen.board.entry(0).unwrap();
        let players: Vec<_> = entry
            .samples
            .iter()
            .map(|sample| sample.players.unwrap())
            .collect();
        assert_eq!(
            players,
            [1.0, 2.0, 12.0],
            "no sample twice, and ours counts"
        );
        assert_eq!(screen.wants().rows[0].1, "server-1", "once is enough");
    }

    #[test]
    fn scrolls_ten_thousand_rows() {
        let mut screen = WatchScreen::new(true);
        let many = (0..10_000)
            .map(|id| seen(id, &format!("server-{id}")))
            .collect();
        screen.receive(
            FeedUpdate::Update {
                seen: many,
                all: None,
                events: Vec::new(),
            },
            Instant::now(),
        );
        press(&mut screen, &[KeyCode::End]);
        assert_eq!(
            (screen.cursor, screen.top),
            (9_999, 9_999 + 1 - screen.page)
        );
        press(&mut screen, &[KeyCode::Up]);
        assert_eq!(screen.top, 10_000 - screen.page, "only the cursor moves");
        press(&mut screen, &[KeyCode::PageUp, KeyCode::PageUp]);
        assert_eq!(screen.top, screen.cursor);
        press(&mut screen, &[KeyCode::Home]);
        assert_eq!((screen.cursor, screen.top), (0, 0));
        for height in [1, 5, 8, 200] {
            screen.settle(Rect::new(0, 0, 40, height));
        }
    }
}
