//! Screen of `hailer watch`: what it shows, and its keys.
//!
//! ```text
//!   ┌ totals, state of the connection ───────────────┐
//!   ├ header: digits that sort ───────────┬──────────┤   from 120 columns, details are next to
//!   │ state name group players trend …    │ detail.rs│   the table; below, they replace it
//!   ├ keys, or an event, or a filter ─────┴──────────┤
//!   └────────────────────────────────────────────────┘
//! ```

use super::board::{Board, Entry, ServerHistory, SortKey};
use super::filter::Filter;
use super::{FeedUpdate, ShownServers, detail, table};
use crate::print::line;
use crate::terminal::widgets::{bold, dim, halves, in_color};
use crate::terminal::{About, Program};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use hailer::proto::model::printable;
use hailer::proto::wire::counted;
use hailer_monitor::health::State;
use hailer_monitor::sample::{Millis, unix_millis};
use hailer_monitor::server::ServerId;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use std::sync::mpsc::Sender;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

/// Smallest width, in columns, at which details are next to the table.
const WIDE: u16 = 120;
/// Maximum length of a filter in characters.
const MAX_FILTER_CHARS: usize = 200;

/// State of the screen.
pub(super) struct WatchScreen {
    pub(super) board: Board,
    /// Receives the shown servers, if a monitor polls them.
    pub(super) monitor: Option<Sender<ShownServers>>,
    /// The last answer that the monitor received.
    pub(super) wanted: ShownServers,
    /// Returns the current time.
    pub(super) clock: fn() -> Millis,
    /// Whether the feed has sent something.
    pub(super) is_connected: bool,
    /// Row of the cursor, and its server once it was moved: the cursor then follows the server.
    pub(super) cursor: usize,
    pub(super) held: Option<ServerId>,
    /// First visible row, and number of visible rows.
    pub(super) top: usize,
    pub(super) page: usize,
    /// Server whose details are shown, and how many of their lines are scrolled away.
    pub(super) detail: Option<ServerId>,
    pub(super) scroll: usize,
    pub(super) past: Option<ServerHistory>,
    pub(super) is_typing: bool,
}

impl Default for WatchScreen {
    fn default() -> Self {
        Self {
            board: Board::default(),
            monitor: None,
            wanted: ShownServers::default(),
            clock: unix_millis,
            is_connected: false,
            cursor: 0,
            held: None,
            top: 0,
            page: 1,
            detail: None,
            scroll: 0,
            past: None,
            is_typing: false,
        }
    }
}

impl Program for WatchScreen {
    const ABOUT: About = About {
        name: "hailer watch",
        for_programs: "hailer query --json",
        min_size: (30, 5),
        notice_time: Duration::from_secs(15),
        help_width: 74,
        help: &[
            ("q", "quit"),
            (
                "↑ ↓ j k",
                "select a server; also PageUp, PageDown, Home and End",
            ),
            ("Enter", "show or hide details; PageUp and PageDown scroll"),
            (
                "1 to 9",
                "sort by that column; again to reverse; 0 as given",
            ),
            ("r", "reverse the order"),
            ("/", "filter; Enter keeps it, Esc clears it"),
            ("p", "pause or continue"),
            ("?", "show or hide this help"),
            ("", ""),
            ("a filter", "words in name, group, target, version or MOTD"),
            ("!down", "only this state: !up !down !new !flapping"),
            ("ms", "shortest time from a request to its reply"),
            ("up%", "share of successful polls in the last day"),
            ("flaps", "goes up and down repeatedly"),
        ],
    };
    type Update = FeedUpdate;

    fn title(&self, width: u16) -> Vec<Span<'static>> {
        let totals = self.board.totals();
        let mut words = Vec::new();
        if !self.board.filter().is_empty() {
            words.push(format!("{} shown", self.board.len()));
        }
        let is_narrow = width < 60;
        words.push(if is_narrow {
            format!("{}/{} up", totals.up, totals.servers)
        } else {
            format!("{}: {} up", counted(totals.servers, "server"), totals.up)
        });
        if totals.down > 0 {
            words.push(format!("{} down", totals.down));
        }
        words.push(match totals.max {
            0 => counted(totals.players, "player"),
            max => format!("{} of {}", totals.players, counted(max, "player")),
        });
        let title = if is_narrow { "" } else { "hailer watch " };
        vec![Span::styled(title, bold()), Span::raw(words.join(", "))]
    }

    fn live(&self) -> &'static str {
        if self.monitor.is_some() {
            "monitor"
        } else {
            "live"
        }
    }

    fn is_typing(&self) -> bool {
        self.is_typing
    }

    fn prompt(&self, width: usize) -> Line<'static> {
        let filter = self.board.filter();
        // Show the end of the text, where the user types.
        let room = width.saturating_sub(2);
        let mut typed = printable(filter.typed());
        while typed.width() > room {
            typed.remove(0);
        }
        let left = room.saturating_sub(typed.width());
        let hint = match filter.unknown_state() {
            Some(word) => {
                let hint = format!("  no state !{word}; known are !up !down !new !flapping");
                Span::styled(line(&hint, left), in_color(Color::Yellow))
            }
            None if filter.typed().is_empty() => {
                Span::styled(line("  words, and states such as !down", left), dim())
            }
            None => Span::raw(""),
        };
        Line::from(vec![
            Span::styled("/", bold()),
            Span::raw(typed),
            Span::styled(" ", Style::new().reversed()),
            hint,
        ])
    }

    fn hint(&self) -> Span<'static> {
        let filter = self.board.filter();
        if !filter.is_empty() {
            return Span::styled(format!("/{}  Esc clears it", filter.typed()), bold());
        }
        let keys = match self.detail {
            Some(_) => "Esc closes  ↑↓ other servers  PageDown scrolls  ? help",
            None => "q quits  Enter details  / filters  1-9 sort  p pauses  ? help",
        };
        Span::styled(keys, dim())
    }

    fn draw(&mut self, frame: &mut Frame<'_>, body: Rect) {
        self.settle(body);
        match (self.shown(), sides(body)) {
            (None, _) => table::draw(frame, body, self),
            (Some((entry, past)), None) => detail::draw(frame, body, self, entry, past),
            (Some((entry, past)), Some([left, right])) => {
                table::draw(frame, left, self);
                detail::draw(frame, right, self, entry, past);
            }
        }
        if let Some(monitor) = &self.monitor {
            let wants = self.wants();
            if wants != self.wanted {
                self.wanted.clone_from(&wants);
                // If the thread has ended, so does the feed.
                let _ = monitor.send(wants);
            }
        }
    }

    fn press(&mut self, key: KeyEvent) -> bool {
        if self.is_typing {
            self.type_filter(key);
            return true;
        }
        let last = self.board.len().saturating_sub(1);
        match key.code {
            KeyCode::Esc if self.detail.is_some() => self.detail = None,
            KeyCode::Esc if !self.board.filter().is_empty() => self.filter(""),
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('r') => self.sort(self.board.sort().by),
            KeyCode::Char(digit @ '0'..='9') => {
                self.sort(SortKey::ALL[usize::from(digit as u8 - b'0')].0);
            }
            KeyCode::Enter => {
                let chosen = self.id_of(self.cursor);
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
            _ => return false,
        }
        true
    }

    fn receive(&mut self, update: FeedUpdate) -> Option<String> {
        self.is_connected = true;
        match update {
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
                self.detail = self.detail.filter(|id| self.board.server(*id).is_some());
                return self.notice(&changed);
            }
            FeedUpdate::History(past) => self.past = Some(past),
            FeedUpdate::Before { server, samples } => self.board.remember(server, samples),
        }
        None
    }

    fn tick(&mut self) {
        if self.board.is_stale() {
            self.board.arrange();
            self.find();
        }
    }
}

impl WatchScreen {
    /// Returns the server whose details are shown, and its history.
    fn shown(&self) -> Option<(&Entry, Option<&ServerHistory>)> {
        let id = self.detail?;
        let past = self.past.as_ref().filter(|past| past.server == id);
        Some((self.board.server(id)?, past))
    }

    /// Limits scrolling to the size of the body.
    fn settle(&mut self, body: Rect) {
        self.page = usize::from(body.height.saturating_sub(1)).max(1);
        self.cursor = self.cursor.min(self.board.len().saturating_sub(1));
        let last_top = self.board.len().saturating_sub(self.page);
        let least = (self.cursor + 1).saturating_sub(self.page);
        self.top = self.top.min(last_top).clamp(least, self.cursor);
        let area = sides(body).map_or(body, |[_, right]| right);
        let most = self.shown().map_or(0, |(entry, past)| {
            detail::most_scroll(area, self, entry, past)
        });
        self.scroll = self.scroll.min(most);
    }

    fn wants(&self) -> ShownServers {
        let named = |entry: &Entry| entry.seen.server.name.clone();
        let detail = self.detail.and_then(|id| self.board.server(id)).map(named);
        let shown = (self.top..self.top + self.page).map_while(|row| self.board.entry(row));
        let new = shown.filter(|entry| !entry.has_before);
        ShownServers {
            detail,
            rows: new
                .map(|entry| (entry.seen.server.id, named(entry)))
                .collect(),
        }
    }

    fn type_filter(&mut self, key: KeyEvent) {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
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

    fn sort(&mut self, by: SortKey) {
        self.board.sort_by(self.board.sort().press(by));
        self.find();
    }

    fn id_of(&self, row: usize) -> Option<ServerId> {
        Some(self.board.entry(row)?.seen.server.id)
    }

    /// Moves the cursor, and shows the details of its new server.
    fn go(&mut self, row: usize) {
        self.cursor = row;
        self.held = self.id_of(row);
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

    /// Describes which servers went up or down.
    fn notice(&self, changed: &[ServerId]) -> Option<String> {
        let entries = changed.iter().filter_map(|id| self.board.server(*id));
        let steady: Vec<_> = entries.filter(|entry| !entry.seen.is_flapping).collect();
        if let [entry] = steady[..] {
            let word = match entry.seen.state {
                State::Down => "down",
                State::Up => "up",
                State::Unknown => "unknown",
            };
            return Some(format!("{} is {word}", line(&entry.seen.server.name, 40)));
        }
        let words = [(State::Down, "down"), (State::Up, "up")].map(|(state, word)| {
            let all = steady.iter().filter(|entry| entry.seen.state == state);
            (all.count(), word)
        });
        let words = words.into_iter().filter(|(count, _)| *count > 0);
        let words: Vec<_> = words
            .map(|(count, word)| format!("{count} went {word}"))
            .collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}

/// Returns the areas of table and details, if there is room for both.
fn sides(body: Rect) -> Option<[Rect; 2]> {
    (body.width >= WIDE).then(|| halves(body))
}

#[cfg(test)]
mod tests {
    use super::super::board::{SamplePoint, ServerView};
    use super::super::simulated::{self, board, five, screen, seen};
    use super::*;
    use crate::terminal::Screen;
    use crate::terminal::tests::{assert_shows, ends_by_its_keys, key, shown};
    use tokio::time::Instant;

    /// Presses keys on a terminal of 80 columns and 24 lines.
    fn press(screen: &mut Screen<WatchScreen>, codes: &[KeyCode]) {
        for code in codes {
            assert!(screen.press(key(*code)), "{code:?} ended it");
            screen.program.settle(Rect::new(0, 1, 80, 22));
        }
    }

    fn type_text(screen: &mut Screen<WatchScreen>, text: &str) {
        text.chars()
            .for_each(|letter| press(screen, &[KeyCode::Char(letter)]));
    }

    fn chosen(screen: &Screen<WatchScreen>) -> &str {
        let board = &screen.program.board;
        &board.entry(screen.program.cursor).unwrap().seen.server.name
    }

    fn update(screen: &mut Screen<WatchScreen>, seen: Vec<ServerView>) {
        screen.receive(Ok(FeedUpdate::of(seen)), Instant::now());
        screen.tick(Instant::now());
    }

    /// Returns a screen with this number of servers.
    fn many(servers: i64) -> Screen<WatchScreen> {
        let mut screen = screen(Board::default());
        let servers = (0..servers).map(|id| seen(id, &format!("server-{id}")));
        update(&mut screen, servers.collect());
        screen
    }

    #[test]
    fn cursor_follows_its_server() {
        let mut screen = screen(board());
        type_text(&mut screen, "4");
        assert_eq!(
            chosen(&screen),
            "survival-10",
            "it stays at the top until it is moved"
        );
        press(&mut screen, &[KeyCode::Down, KeyCode::Char('j')]);
        assert_eq!(chosen(&screen), "lobby");
        type_text(&mut screen, "4");
        assert_eq!((chosen(&screen), screen.program.cursor), ("lobby", 1));
        type_text(&mut screen, "2");
        assert_eq!(
            (chosen(&screen), screen.program.board.sort().by),
            ("lobby", SortKey::Name)
        );
        type_text(&mut screen, "r");
        assert!(screen.program.board.sort().is_descending && chosen(&screen) == "lobby");
        press(&mut screen, &[KeyCode::End]);
        assert_eq!(chosen(&screen), "Arena");
        press(
            &mut screen,
            &[KeyCode::PageUp, KeyCode::Up, KeyCode::Char('k')],
        );
        assert_eq!(screen.program.cursor, 0);
        // It also follows when servers are added.
        press(&mut screen, &[KeyCode::Char('j')]);
        let before = chosen(&screen).to_owned();
        update(&mut screen, vec![seen(8, "zebra")]);
        assert_eq!((chosen(&screen), screen.program.cursor), (&*before, 2));
    }

    #[test]
    fn filter_can_be_typed_kept_and_cleared() {
        let mut screen = screen(board());
        type_text(&mut screen, "/surq");
        assert!(
            screen.program.is_typing && screen.program.board.len() == 0,
            "q is a letter there"
        );
        press(&mut screen, &[KeyCode::Backspace]);
        assert_eq!(screen.program.board.len(), 2);
        press(&mut screen, &[KeyCode::Enter]);
        assert!(!screen.program.is_typing);
        press(&mut screen, &[KeyCode::Down, KeyCode::Down]);
        assert_eq!((chosen(&screen), screen.program.cursor), ("survival-9", 1));
        press(&mut screen, &[KeyCode::Esc]);
        assert_eq!(
            (screen.program.board.len(), chosen(&screen)),
            (5, "survival-9")
        );
        type_text(&mut screen, "/!down");
        press(&mut screen, &[KeyCode::Esc]);
        assert!(!screen.program.is_typing && screen.program.board.len() == 5);
        type_text(&mut screen, "/");
        type_text(&mut screen, &"x".repeat(500));
        assert_eq!(
            screen.program.board.filter().typed().len(),
            MAX_FILTER_CHARS
        );
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert!(!screen.press(interrupt), "even there");
    }

    #[test]
    fn keys_match_the_help() {
        let mut screen = screen(board());
        press(&mut screen, &[KeyCode::Char('?')]);
        let help = shown(&mut screen, 80, 24);
        assert_shows(&help, &["!flapping", "reverse the order"]);
        press(&mut screen, &[KeyCode::Esc, KeyCode::Enter]);
        assert!(!screen.has_help, "Esc closes the help first");
        assert_eq!(
            (
                screen.program.detail,
                screen.program.wants().detail.as_deref()
            ),
            (Some(ServerId(1)), Some("lobby"))
        );
        press(&mut screen, &[KeyCode::Down]);
        assert_eq!(
            screen.program.wants().detail.as_deref(),
            Some("survival-10"),
            "the details go with the cursor"
        );
        press(&mut screen, &[KeyCode::PageDown; 50]);
        assert!(
            screen.program.scroll < 100,
            "scrolled to the end: {}",
            screen.program.scroll
        );
        press(&mut screen, &[KeyCode::Esc]);
        assert_eq!(
            (screen.program.detail, screen.program.wants().detail),
            (None, None)
        );
        type_text(&mut screen, "p");
        let before = screen.program.board.totals().up;
        let mut down = five();
        down[0].state = State::Down;
        update(&mut screen, down);
        assert!(
            screen.is_paused && screen.program.board.totals().up == before,
            "nothing moves meanwhile"
        );
        ends_by_its_keys(&mut screen);
    }

    #[test]
    fn events_are_shown() {
        let mut screen = screen(board());
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let notify = |screen: &mut Screen<_>, change: fn(&mut [ServerView]), seconds| {
            let mut seen = five();
            change(&mut seen);
            screen.receive(Ok(FeedUpdate::of(seen)), after(seconds));
            screen.tick(after(seconds));
            screen.notice().unwrap_or_default().to_owned()
        };
        let two_down: fn(&mut [ServerView]) =
            |all| all[1..3].iter_mut().for_each(|one| one.state = State::Down);
        assert_eq!(notify(&mut screen, |_| {}, 0), "");
        assert_eq!(
            notify(&mut screen, |all| all[0].state = State::Down, 1),
            "lobby is down"
        );
        assert_eq!(screen.program.board.totals().down, 2);
        assert_eq!(notify(&mut screen, two_down, 2), "2 went down, 1 went up");
        assert_eq!(notify(&mut screen, two_down, 60), "");
        screen.receive(Err("refused".into()), start - Duration::from_secs(65));
        let lost = shown(&mut screen, 100, 10);
        assert_shows(&lost, &["lost for 1m 5s", "refused. Retrying every second"]);
        notify(&mut screen, |all| all[0].state = State::Down, 71);
        let live = shown(&mut screen, 60, 10);
        assert_shows(&live, &["live", "1 went down, 2 went up"]);
        // The server of the details was removed.
        press(&mut screen, &[KeyCode::Enter]);
        let removed = FeedUpdate::Update {
            seen: Vec::new(),
            all: Some(vec![ServerId(2)]),
            events: Vec::new(),
        };
        screen.receive(Ok(removed), start);
        assert_eq!(
            (screen.program.detail, screen.program.board.len()),
            (None, 1)
        );
        screen.program.settle(Rect::new(0, 0, 80, 24));
        assert_eq!(chosen(&screen), "survival-10");
    }

    #[test]
    fn history_is_fetched_for_rows_on_the_screen() {
        let mut screen = many(100);
        let (wants, wanted) = std::sync::mpsc::channel();
        screen.program.monitor = Some(wants);
        assert_shows(&shown(&mut screen, 80, 24), &["monitor", "server-0"]);
        let rows = wanted.try_recv().unwrap().rows;
        assert_eq!((rows.len(), &*rows[0].1), (screen.program.page, "server-0"));
        let sample = |at, players| SamplePoint {
            at,
            players: Some(players),
            latency: None,
        };
        let now = simulated::NOW;
        let samples = vec![sample(now - 2, 1.0), sample(now - 1, 2.0), sample(now, 3.0)];
        let server = rows[0].0;
        let before = FeedUpdate::Before { server, samples };
        screen.receive(Ok(before), Instant::now());
        let entry = screen.program.board.entry(0).unwrap();
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
        shown(&mut screen, 80, 24);
        let rows = wanted.try_recv().unwrap().rows;
        assert_eq!(rows[0].1, "server-1", "once is enough");
        shown(&mut screen, 80, 24);
        assert!(wanted.try_recv().is_err(), "only changes are sent");
    }

    #[test]
    fn scrolls_ten_thousand_rows() {
        let mut screen = many(10_000);
        press(&mut screen, &[KeyCode::End]);
        assert_eq!(
            (screen.program.cursor, screen.program.top),
            (9_999, 9_999 + 1 - screen.program.page)
        );
        press(&mut screen, &[KeyCode::Up]);
        assert_eq!(
            screen.program.top,
            10_000 - screen.program.page,
            "only the cursor moves"
        );
        press(&mut screen, &[KeyCode::PageUp, KeyCode::PageUp]);
        assert_eq!(screen.program.top, screen.program.cursor);
        press(&mut screen, &[KeyCode::Home]);
        assert_eq!((screen.program.cursor, screen.program.top), (0, 0));
        for height in [1, 5, 8, 200] {
            screen.program.settle(Rect::new(0, 0, 40, height));
        }
    }
}
