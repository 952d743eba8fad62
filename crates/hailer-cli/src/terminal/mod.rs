//! Toolkit of the full-screen programs, `hailer top` and `hailer watch`.
//!
//! ```text
//!   ┌ title, state of the feed ─────┐
//!   │ drawn by the program          │  ◄─ updates of a feed, keys
//!   └ keys, notice or last error ───┘
//! ```
//!
//! It owns the terminal, the event loop, the shared keys and the frame around a [`Program`]. It uses
//! `print`, and no command.
//!
//! May import: `crate::exit`, `crate::print`, `crate::service`, `hailer`.

#[cfg(feature = "monitor")]
pub(crate) mod chart;
mod ink;
pub(crate) mod sections;
#[cfg(feature = "monitor")]
pub(crate) mod text;
pub(crate) mod widgets;

use crate::exit::usage;
use crate::print::{line, since};
use crate::service::interrupted;
use anyhow::Context;
use crossterm::event::{Event, EventStream, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use futures_util::StreamExt;
use ink::Ink;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Color;
use ratatui::text::{Line, Span};
use std::io::IsTerminal;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use widgets::{bold, help, in_color};

/// Longest delay before an update is drawn. Keys are handled immediately.
const MAX_DRAW_DELAY: Duration = Duration::from_millis(100);

/// Constants of a program.
pub(crate) struct About {
    /// Name of the command, such as `hailer top`.
    pub(crate) name: &'static str,
    /// The command for programs, which have no terminal.
    pub(crate) for_programs: &'static str,
    /// Smallest supported size of the terminal, in columns and lines.
    pub(crate) min_size: (u16, u16),
    /// Time for which a notice is shown.
    pub(crate) notice_time: Duration,
    /// Width of the help in columns.
    pub(crate) help_width: u16,
    /// Keys and terms with their explanation.
    pub(crate) help: &'static [(&'static str, &'static str)],
}

/// Contents of a full-screen program, and its reactions to keys and updates.
pub(crate) trait Program {
    /// Its constants.
    const ABOUT: About;
    /// An update from its feed.
    type Update;

    /// Returns the left end of the first line.
    fn title(&self, width: u16) -> Vec<Span<'static>>;

    /// Returns the word for a connected feed.
    fn live(&self) -> &'static str {
        "live"
    }

    /// Returns whether text is typed. All keys but Ctrl+C then belong to the program.
    fn is_typing(&self) -> bool {
        false
    }

    /// Returns the last line while text is typed.
    fn prompt(&self, _width: usize) -> Line<'static> {
        Line::default()
    }

    /// Returns the last line if nothing happened.
    fn hint(&self) -> Span<'static>;

    /// Draws everything between the first and the last line.
    fn draw(&mut self, frame: &mut Frame<'_>, body: Rect);

    /// Handles a key. Returns whether the program uses it.
    fn press(&mut self, key: KeyEvent) -> bool;

    /// Handles an update. Returns a notice, if the user should see one.
    fn receive(&mut self, update: Self::Update) -> Option<String>;

    /// Called every second, unless paused.
    fn tick(&mut self) {}
}

/// State of the feed.
#[derive(Clone, Debug, PartialEq)]
enum Link {
    /// No update has arrived yet.
    Waiting,
    /// Updates arrive.
    Live,
    /// Interrupted since then, for this reason.
    Lost(Instant, String),
}

/// A program on the screen.
pub(crate) struct Screen<P> {
    pub(crate) program: P,
    link: Link,
    pub(crate) is_paused: bool,
    pub(crate) has_help: bool,
    notice: Option<(Instant, String)>,
}

/// Checks that there is a terminal.
///
/// # Errors
/// There is none. The error names the command for programs.
pub(crate) fn require<P: Program>() -> anyhow::Result<()> {
    if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
        return Ok(());
    }
    let About {
        name, for_programs, ..
    } = P::ABOUT;
    usage!("{name} needs a terminal; programs can use `{for_programs}`");
}

/// Shows a program until the user quits or the feed ends. An error from the feed is the reason why
/// it is interrupted.
///
/// # Errors
/// The terminal cannot be used.
pub(crate) async fn run<P: Program>(
    program: P,
    feed: mpsc::Receiver<Result<P::Update, String>>,
) -> anyhow::Result<()> {
    // Also restores the terminal after a panic.
    let mut terminal = ratatui::try_init().context("cannot draw on this terminal")?;
    let end = Screen::new(program).show(&mut terminal, feed).await;
    ratatui::restore();
    end
}

impl<P: Program> Screen<P> {
    pub(crate) fn new(program: P) -> Self {
        Self {
            program,
            link: Link::Waiting,
            is_paused: false,
            has_help: false,
            notice: None,
        }
    }

    async fn show(
        mut self,
        terminal: &mut ratatui::DefaultTerminal,
        mut feed: mpsc::Receiver<Result<P::Update, String>>,
    ) -> anyhow::Result<()> {
        let ink = Ink::wanted();
        let mut typed = EventStream::new();
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        let stop = interrupted();
        tokio::pin!(stop);
        let mut is_due = true;
        let mut is_new = false;
        let mut drawn = Instant::now();
        loop {
            if is_due {
                drawn = Instant::now();
                terminal.draw(|frame| {
                    self.draw(frame, drawn);
                    ink.apply(frame.buffer_mut());
                })?;
                is_due = false;
                is_new = false;
            }
            tokio::select! {
                () = &mut stop => return Ok(()),
                event = typed.next() => match event {
                    Some(Ok(Event::Key(key))) if key.kind != KeyEventKind::Release => {
                        if !self.press(key) {
                            return Ok(());
                        }
                        is_due = true;
                    }
                    Some(Ok(_)) => is_due = true,
                    // The terminal was closed.
                    Some(Err(_)) | None => return Ok(()),
                },
                update = feed.recv() => match update {
                    Some(update) => {
                        self.receive(update, Instant::now());
                        is_new = true;
                    }
                    None => return Ok(()),
                },
                () = sleep_until(drawn + MAX_DRAW_DELAY), if is_new => is_due = true,
                _ = ticks.tick() => {
                    self.tick(Instant::now());
                    is_due = true;
                }
            }
        }
    }

    /// Draws the frame, the program and the help.
    pub(crate) fn draw(&mut self, frame: &mut Frame<'_>, now: Instant) {
        let area = frame.area();
        let (width, height) = P::ABOUT.min_size;
        if area.width < width || area.height < height {
            let words = format!("too small: at least {width}x{height}");
            return frame.render_widget(Line::raw(words), area);
        }
        let [top, body, bottom] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(1),
        ])
        .areas(area);
        let title = self.program.title(top.width);
        frame.render_widget(widgets::both_ends(title, self.state(now), top.width), top);
        frame.render_widget(self.footer(usize::from(bottom.width)), bottom);
        self.program.draw(frame, body);
        if self.has_help {
            help(frame, &P::ABOUT);
        }
    }

    /// Returns the state of the feed in words.
    fn state(&self, now: Instant) -> Span<'static> {
        match self.link {
            Link::Lost(from, _) => {
                let seconds = now.saturating_duration_since(from).as_secs();
                Span::styled(
                    format!("lost for {}", since(seconds as f64)),
                    bold().fg(Color::Red),
                )
            }
            _ if self.is_paused => Span::styled("paused", bold().fg(Color::Yellow)),
            Link::Waiting => Span::styled("connecting", in_color(Color::Yellow)),
            Link::Live => Span::styled(self.program.live(), in_color(Color::Green)),
        }
    }

    fn footer(&self, width: usize) -> Line<'static> {
        if self.program.is_typing() {
            return self.program.prompt(width);
        }
        let span = match (&self.link, &self.notice) {
            (Link::Lost(_, why), _) => Span::styled(
                format!("{why}. Retrying every second."),
                in_color(Color::Red),
            ),
            (_, Some((_, notice))) => Span::styled(notice.clone(), in_color(Color::Yellow)),
            _ => self.program.hint(),
        };
        Line::styled(line(&span.content, width), span.style)
    }

    /// Handles a key. Returns `false` to quit.
    pub(crate) fn press(&mut self, key: KeyEvent) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if is_control => return false,
            _ if self.program.is_typing() => {
                self.program.press(key);
            }
            KeyCode::Esc if self.has_help => self.has_help = false,
            _ if self.program.press(key) => {}
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('p' | ' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.has_help = !self.has_help,
            _ => {}
        }
        true
    }

    /// Handles an update of the feed. While paused, updates are dropped.
    pub(crate) fn receive(&mut self, update: Result<P::Update, String>, now: Instant) {
        match update {
            Ok(update) => {
                self.link = Link::Live;
                if !self.is_paused
                    && let Some(notice) = self.program.receive(update)
                {
                    self.notice = Some((now, notice));
                }
            }
            Err(why) => {
                let from = match self.link {
                    Link::Lost(from, _) => from,
                    _ => now,
                };
                self.link = Link::Lost(from, why);
            }
        }
    }

    /// Called every second.
    pub(crate) fn tick(&mut self, now: Instant) {
        self.notice
            .take_if(|(from, _)| now - *from > P::ABOUT.notice_time);
        if !self.is_paused {
            self.program.tick();
        }
    }

    /// Returns the notice that is shown.
    #[cfg(test)]
    pub(crate) fn notice(&self) -> Option<&str> {
        self.notice.as_ref().map(|(_, notice)| &**notice)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;
    use unicode_width::UnicodeWidthStr;

    pub(crate) fn key(code: KeyCode) -> KeyEvent {
        KeyEvent::new(code, KeyModifiers::NONE)
    }

    /// Checks that these keys, and no others, end a program in its first state.
    pub(crate) fn ends_by_its_keys(screen: &mut Screen<impl Program>) {
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        for last in [key(KeyCode::Char('q')), key(KeyCode::Esc), interrupt] {
            assert!(!screen.press(last), "{last:?}");
        }
        assert!(screen.press(key(KeyCode::Char('c'))));
    }

    /// Draws a screen of this size.
    pub(crate) fn drawn(screen: &mut Screen<impl Program>, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal
            .draw(|frame| screen.draw(frame, Instant::now()))
            .unwrap();
        terminal.backend().buffer().clone()
    }

    /// Returns the text on a screen of this size.
    pub(crate) fn shown(screen: &mut Screen<impl Program>, width: u16, height: u16) -> String {
        let buffer = drawn(screen, width, height);
        // Skip the second cell of a wide character.
        let row = |y| {
            let mut x = 0;
            let mut text = String::new();
            while x < width {
                let symbol = buffer[(x, y)].symbol();
                text.push_str(symbol);
                x += symbol.width().max(1) as u16;
            }
            text
        };
        (0..height)
            .map(|y| format!("{}\n", row(y).trim_end()))
            .collect()
    }

    /// Checks that all of these texts are on a screen.
    #[track_caller]
    pub(crate) fn assert_shows(screen: &str, expected: &[&str]) {
        for expected in expected {
            assert!(screen.contains(expected), "{expected}\n{screen}");
        }
    }
}
