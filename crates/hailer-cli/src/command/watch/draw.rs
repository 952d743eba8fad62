//! Screen of `hailer watch`, a pure function of the board, the screen's state and the terminal
//! size.
//!
//! ```text
//!   ┌ totals, state of the connection ───────────────┐
//!   ├ header: digits that sort ───────────┬──────────┤   from 120 columns, details are next to
//!   │ state name group players trend …    │ detail.rs│   the table; below, they replace it
//!   ├ keys, or an event, or a filter ─────┴──────────┤
//!   └────────────────────────────────────────────────┘
//! ```
//!
//! Only visible rows are drawn. Text of servers passes through `line` or [`colored`], which remove
//! control characters.

use super::board::{Entry, SortKey};
use super::cells::{colored, speed, state, uptime};
use super::detail;
use super::view::{Link, View};
use crate::command::top::draw::{bold, both_ends, dim};
use crate::print::{count, line, padded, rate, since};
use hailer::proto::model::printable;
use hailer_monitor::health::State;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, RenderDirection, Sparkline};
use unicode_width::UnicodeWidthStr;

/// Smallest supported size of the terminal, in columns and lines.
const LEAST: (u16, u16) = (30, 5);
/// Smallest width, in columns, at which details are next to the table.
const WIDE: u16 = 120;
const KEYS: &[(&str, &str)] = &[
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
];

pub(super) fn draw(frame: &mut Frame<'_>, view: &View<'_>) {
    let area = frame.area();
    if area.width < LEAST.0 || area.height < LEAST.1 {
        let (width, height) = LEAST;
        return frame.render_widget(
            Paragraph::new(format!("too small: at least {width}x{height}")),
            area,
        );
    }
    let [top, body, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(totals(view, top.width), top);
    frame.render_widget(footer(view, bottom.width), bottom);
    match (view.shown(), sides(body)) {
        (None, _) => table(frame, body, view),
        (Some((entry, past)), None) => detail::draw(frame, body, view, entry, past),
        (Some((entry, past)), Some([left, right])) => {
            table(frame, left, view);
            detail::draw(frame, right, view, entry, past);
        }
    }
    if view.has_help {
        help(frame, area);
    }
}

/// Returns the number of table rows that a terminal of this size shows.
pub(super) fn rows(area: Rect) -> usize {
    usize::from(area.height.saturating_sub(3))
}

/// Returns the number of lines of the details that can be scrolled away.
pub(super) fn most_scroll(area: Rect, view: &View<'_>) -> usize {
    let body = Rect {
        height: area.height.saturating_sub(2),
        ..area
    };
    let area = sides(body).map_or(body, |[_, right]| right);
    view.shown().map_or(0, |(entry, past)| {
        detail::most_scroll(area, view, entry, past)
    })
}

/// Returns the areas of table and details, if there is room for both.
fn sides(body: Rect) -> Option<[Rect; 2]> {
    if body.width < WIDE {
        return None;
    }
    let [left, _, right] = Layout::horizontal([
        Constraint::Fill(1),
        Constraint::Length(2),
        Constraint::Fill(1),
    ])
    .areas(body);
    Some([left, right])
}

fn totals(view: &View<'_>, width: u16) -> Line<'static> {
    let totals = view.board.totals();
    let is_narrow = width < 60;
    let mut words = vec![
        if is_narrow {
            format!("{}/{} up", totals.up, totals.servers)
        } else {
            format!("{}: {} up", count(totals.servers, "server"), totals.up)
        },
        match totals.max {
            0 => format!("{} players", totals.players),
            max => format!("{} of {max} players", totals.players),
        },
    ];
    if totals.down > 0 {
        words.insert(1, format!("{} down", totals.down));
    }
    if !view.board.filter().is_empty() {
        words.insert(0, format!("{} shown", view.board.len()));
    }
    let title = Span::styled(if is_narrow { "" } else { "hailer watch " }, bold());
    let green = Style::new().fg(Color::Green);
    let right = match view.link {
        Link::Lost(seconds, _) => Span::styled(
            format!("lost for {}", since(*seconds as f64)),
            bold().fg(Color::Red),
        ),
        _ if view.is_paused => Span::styled("paused", bold().fg(Color::Yellow)),
        Link::Waiting => Span::styled("connecting", Style::new().fg(Color::Yellow)),
        Link::Live => Span::styled(if view.is_remote { "monitor" } else { "live" }, green),
    };
    both_ends(vec![title, Span::raw(words.join(", "))], right, width)
}

fn footer(view: &View<'_>, width: u16) -> Line<'static> {
    let width = usize::from(width);
    let filter = view.board.filter();
    let yellow = Style::new().fg(Color::Yellow);
    if view.is_typing {
        // Show the end of the text, where the user types.
        let room = width.saturating_sub(2);
        let mut typed = printable(filter.typed());
        while typed.width() > room {
            typed.remove(0);
        }
        let mut spans = vec![
            Span::styled("/", bold()),
            Span::raw(typed),
            Span::styled(" ", Style::new().reversed()),
        ];
        let left = room.saturating_sub(spans[1].content.width());
        if let Some(word) = filter.unknown_state() {
            let hint = format!("  no state !{word}; known are !up !down !new !flapping");
            spans.push(Span::styled(line(&hint, left), yellow));
        } else if filter.typed().is_empty() {
            spans.push(Span::styled(
                line("  words, and states such as !down", left),
                dim(),
            ));
        }
        return Line::from(spans);
    }
    match (view.link, view.notice) {
        (Link::Lost(_, why), _) => Line::styled(
            line(&format!("{why}. Retrying every second."), width),
            Style::new().fg(Color::Red),
        ),
        (_, Some(notice)) => Line::styled(line(notice, width), yellow),
        _ if !filter.is_empty() => Line::styled(
            line(&format!("/{}  Esc clears it", filter.typed()), width),
            bold(),
        ),
        _ if view.detail.is_some() => Line::styled(
            line(
                "Esc closes  ↑↓ other servers  PageDown scrolls  ? help",
                width,
            ),
            dim(),
        ),
        _ => Line::styled(
            line(
                "q quits  Enter details  / filters  1-9 sort  p pauses  ? help",
                width,
            ),
            dim(),
        ),
    }
}

/// A column of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BoardColumn {
    Sortable(SortKey),
    /// Chart of the samples.
    Trend,
}

/// Columns in the order of their importance, with smallest and largest useful width.
const COLUMNS: [(BoardColumn, u16, u16); 10] = [
    (BoardColumn::Sortable(SortKey::State), 7, 7),
    (BoardColumn::Sortable(SortKey::Name), 12, 32),
    (BoardColumn::Sortable(SortKey::Players), 9, 9),
    (BoardColumn::Sortable(SortKey::Latency), 5, 5),
    (BoardColumn::Trend, 8, 24),
    (BoardColumn::Sortable(SortKey::Uptime), 5, 5),
    (BoardColumn::Sortable(SortKey::Motd), 16, u16::MAX),
    (BoardColumn::Sortable(SortKey::Group), 8, 12),
    (BoardColumn::Sortable(SortKey::Version), 9, 14),
    (BoardColumn::Sortable(SortKey::Protocol), 15, 15),
];

/// Columns from left to right.
const ORDER: [BoardColumn; 10] = [
    BoardColumn::Sortable(SortKey::State),
    BoardColumn::Sortable(SortKey::Name),
    BoardColumn::Sortable(SortKey::Group),
    BoardColumn::Sortable(SortKey::Players),
    BoardColumn::Trend,
    BoardColumn::Sortable(SortKey::Latency),
    BoardColumn::Sortable(SortKey::Uptime),
    BoardColumn::Sortable(SortKey::Version),
    BoardColumn::Sortable(SortKey::Protocol),
    BoardColumn::Sortable(SortKey::Motd),
];

/// Returns the columns that fit, with their widths, from left to right. One space separates two
/// columns.
fn columns(width: u16, has_groups: bool) -> Vec<(BoardColumn, u16)> {
    let mut chosen: Vec<(BoardColumn, u16, u16)> = Vec::new();
    let mut left = width;
    for (column, least, most) in COLUMNS {
        let is_empty = column == BoardColumn::Sortable(SortKey::Group) && !has_groups;
        let needs = least + u16::from(!chosen.is_empty());
        if is_empty || needs > left {
            continue;
        }
        chosen.push((column, least, most));
        left -= needs;
    }
    // The name gets spare width first; the rest is distributed in turn.
    if let Some((_, least, _)) = chosen
        .iter_mut()
        .find(|(column, ..)| *column == BoardColumn::Sortable(SortKey::Name))
    {
        let more = left.min(8);
        *least += more;
        left -= more;
    }
    while left > 0 {
        let before = left;
        for (_, least, most) in chosen.iter_mut().filter(|(_, least, most)| least < most) {
            if left > 0 && least < most {
                *least += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    let width = |column: &BoardColumn| {
        chosen
            .iter()
            .find(|(other, ..)| other == column)
            .map(|(_, width, _)| *width)
    };
    ORDER
        .into_iter()
        .filter_map(|column| Some((column, width(&column)?)))
        .collect()
}

fn is_right(column: BoardColumn) -> bool {
    matches!(
        column,
        BoardColumn::Sortable(SortKey::Latency | SortKey::Uptime)
    )
}

fn table(frame: &mut Frame<'_>, area: Rect, view: &View<'_>) {
    let columns = columns(area.width, view.board.has_groups());
    header(frame, area, &columns, view);
    let body = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1),
        ..area
    };
    if view.board.len() == 0 {
        let words = match (view.link, view.board.totals().servers) {
            (Link::Waiting, _) => "waiting for the first answers",
            (_, 0) => "no servers",
            _ => "no server matches the filter; Esc clears it",
        };
        return frame.render_widget(
            Line::styled(line(words, usize::from(body.width)), dim()),
            body,
        );
    }
    for offset in 0..body.height {
        let row = view.top + usize::from(offset);
        let Some(entry) = view.board.entry(row) else {
            break;
        };
        let place = Rect {
            y: body.y + offset,
            height: 1,
            ..body
        };
        let mut x = place.x;
        for (column, width) in &columns {
            let cell = Rect {
                x,
                width: *width,
                ..place
            };
            match column {
                BoardColumn::Trend => trend(frame, cell, entry),
                BoardColumn::Sortable(by) => {
                    frame.render_widget(cell_of(*by, entry, usize::from(*width)), cell);
                }
            }
            x += width + 1;
        }
        if row == view.cursor {
            frame
                .buffer_mut()
                .set_style(place, Style::new().add_modifier(Modifier::REVERSED));
        }
    }
}

fn header(frame: &mut Frame<'_>, area: Rect, columns: &[(BoardColumn, u16)], view: &View<'_>) {
    let sort = view.board.sort();
    let mut x = area.x;
    for (column, width) in columns {
        let words = match column {
            BoardColumn::Trend => Line::styled("trend", dim()),
            BoardColumn::Sortable(by) => {
                let (arrow, style) = match (*by == sort.by, sort.is_descending) {
                    (false, _) => (" ", dim()),
                    (true, false) => ("▲", bold()),
                    (true, true) => ("▼", bold()),
                };
                Line::styled(format!("{}{arrow}{}", by.digit(), by.word()), style)
            }
        };
        let words = if is_right(*column) {
            words.right_aligned()
        } else {
            words
        };
        frame.render_widget(
            words,
            Rect {
                x,
                width: *width,
                height: 1,
                ..area
            },
        );
        x += width + 1;
    }
}

/// Draws a chart of the samples, newest at the right. Polls without an answer are gaps.
fn trend(frame: &mut Frame<'_>, area: Rect, entry: &Entry) {
    let newest = entry.samples.iter().rev().take(usize::from(area.width));
    // In hundredths, since the widget takes integers. No players is blank, no answer is a dot.
    let data: Vec<Option<u64>> = newest
        .map(|sample| sample.players.map(|players| (players * 1e2) as u64))
        .collect();
    let most = data.iter().flatten().copied().max().unwrap_or(0).max(100);
    let trend = Sparkline::default()
        .data(data)
        .max(most)
        .direction(RenderDirection::RightToLeft);
    let color = Style::new().fg(Color::Cyan);
    frame.render_widget(
        trend
            .style(color)
            .absent_value_symbol("·")
            .absent_value_style(dim()),
        area,
    );
}

fn cell_of(by: SortKey, entry: &Entry, width: usize) -> Line<'static> {
    let seen = &entry.seen;
    let text = |text: &str| Line::raw(line(text, width));
    match by {
        SortKey::State => {
            let (words, style) = state(entry);
            Line::styled(words, style)
        }
        SortKey::Name => text(&seen.server.name),
        SortKey::Group => Line::styled(line(&seen.server.group, width), dim()),
        SortKey::Players => players(entry),
        SortKey::Latency => latency(entry.latency()).right_aligned(),
        SortKey::Uptime => uptime(seen.uptime).right_aligned(),
        SortKey::Version => text(&entry.version),
        SortKey::Protocol => Line::styled(line(entry.protocol(), width), dim()),
        SortKey::Motd => match (&seen.error, seen.last_status.as_deref()) {
            // For a server that is down, the reason is more useful than its last status.
            (Some(error), _) if seen.state != State::Up => {
                Line::styled(line(reason(&error.1), width), Style::new().fg(Color::Red))
            }
            (_, Some(last_status)) => last_status
                .motd
                .as_ref()
                .map_or_else(|| text(&entry.motd), |motd| colored(motd, width)),
            _ => Line::default(),
        },
        SortKey::Given => Line::default(),
    }
}

/// Returns an error message without the address, which the row already contains.
fn reason(error: &str) -> &str {
    error
        .split_once(": ")
        .filter(|(address, _)| !address.contains(' '))
        .map_or(error, |(_, reason)| reason)
}

/// Formats player counts in aligned columns: `  12/20`.
fn players(entry: &Entry) -> Line<'static> {
    let few = |number: u32| {
        if number < 10_000 {
            number.to_string()
        } else {
            rate(f64::from(number))
        }
    };
    let Some(last) = entry.seen.last.filter(|last| last.is_answered) else {
        return Line::styled("   -", dim());
    };
    let on = last.players.map_or("?".into(), few);
    let max = last
        .max
        .map(|max| format!("/{}", few(max)))
        .unwrap_or_default();
    Line::from(vec![
        Span::raw(format!("{on:>4}")),
        Span::styled(max, dim()),
    ])
}

/// Formats a latency in milliseconds; slow ones are colored.
fn latency(micros: Option<u32>) -> Line<'static> {
    let Some(micros) = micros else {
        return Line::styled("-", dim());
    };
    let milliseconds = f64::from(micros) / 1e3;
    let words = match milliseconds {
        ..99.95 => format!("{milliseconds:.1}"),
        ..99_999.5 => format!("{milliseconds:.0}"),
        _ => rate(milliseconds),
    };
    Line::styled(words, speed(micros))
}

fn help(frame: &mut Frame<'_>, area: Rect) {
    let row = |(name, words): &(&str, &str)| {
        Line::from(vec![
            Span::styled(padded(name, 11), bold()),
            Span::raw((*words).to_owned()),
        ])
    };
    let lines: Vec<Line<'_>> = KEYS.iter().map(row).collect();
    let height = (lines.len() as u16 + 2).min(area.height);
    let width = 74.min(area.width);
    let place = Rect {
        x: (area.width - width) / 2,
        y: (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    frame.render_widget(Block::bordered().title(" hailer watch "), place);
    frame.render_widget(
        Paragraph::new(lines),
        place.inner(Margin {
            horizontal: 2,
            vertical: 1,
        }),
    );
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::command::watch::board::{Board, ServerView, Sort};
    use crate::command::watch::filter::Filter;
    use crate::command::watch::simulated::{self, NOW, board, seen};
    use hailer::Text;
    use hailer_monitor::server::ServerId;
    use hailer_monitor::state::LastStatus;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;
    use std::sync::Arc;

    pub(crate) fn plain(board: &Board) -> View<'_> {
        View {
            board,
            now: NOW,
            is_remote: false,
            cursor: 0,
            top: 0,
            detail: None,
            scroll: 0,
            past: None,
            is_typing: false,
            is_paused: false,
            has_help: false,
            link: &Link::Live,
            notice: None,
        }
    }

    fn drawn(view: &View<'_>, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        terminal.backend().buffer().clone()
    }

    pub(crate) fn shown(view: &View<'_>, width: u16, height: u16) -> String {
        let buffer = drawn(view, width, height);
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

    #[test]
    fn every_size_shows_the_important_columns() {
        let board = board();
        for (width, height) in [
            (40, 10),
            (60, 16),
            (80, 24),
            (100, 24),
            (120, 40),
            (250, 60),
        ] {
            let screen = shown(&plain(&board), width, height);
            for expected in [
                "● up",
                "✗ down",
                "◐ flaps",
                "lobby",
                "survival-9",
                "12/20",
                "250/500",
                "12.3",
                "1234",
                "4 players",
                "305 of 640",
                "live",
            ] {
                assert!(
                    screen.contains(expected),
                    "{width}x{height}: {expected}\n{screen}"
                );
            }
            assert!(
                screen.lines().last().unwrap().starts_with("q quits"),
                "{screen}"
            );
        }
        let wide = shown(&plain(&board), 160, 24);
        for expected in [
            "100",
            "87.5",
            "Paper 1.21.8",
            "ugp",
            "Welcome to the lobby",
            "名前の鯖へようこそ[2J",
        ] {
            assert!(wide.contains(expected), "{expected}\n{wide}");
        }
        let wider = shown(&plain(&board), 220, 24);
        assert!(wider.contains("did not answer within 3 s"), "why\n{wider}");
        assert!(wide.contains("Survival, 10th secret"), "one line\n{wide}");
        assert!(
            wide.lines().nth(2).unwrap().contains(['▅', '▆', '▇', '█']),
            "a trend\n{wide}"
        );
    }

    #[test]
    fn colors_of_the_server_are_shown() {
        let board = board();
        let buffer = drawn(&plain(&board), 200, 10);
        let find = |y: u16, letter: &str, from: u16| {
            (from..200)
                .find(|x| buffer[(*x, y)].symbol() == letter)
                .unwrap()
        };
        let welcome = find(2, "W", 0);
        assert_eq!(buffer[(welcome, 2)].fg, Color::LightGreen);
        let survival = find(3, "S", 0);
        assert_eq!(buffer[(survival, 3)].fg, Color::Rgb(255, 128, 1));
        assert!(
            buffer[(0, 2)].modifier.contains(Modifier::REVERSED)
                && !buffer[(0, 3)].modifier.contains(Modifier::REVERSED)
        );
        // Colors are redundant: each state also has a word.
        assert_eq!(
            (buffer[(0, 2)].fg, buffer[(0, 6)].fg),
            (Color::Green, Color::Red)
        );
        assert_eq!(
            [99_999, 100_000, 250_000].map(|micros| speed(micros).fg.unwrap()),
            [Color::Green, Color::Yellow, Color::Red]
        );
    }

    #[test]
    fn rows_are_aligned_in_every_script() {
        let board = board();
        for width in [100, 140, 200] {
            let columns = columns(width, true);
            let x_of = |wanted: SortKey| {
                let before = columns
                    .iter()
                    .take_while(|(column, _)| *column != BoardColumn::Sortable(wanted));
                before
                    .map(|(_, width)| usize::from(*width) + 1)
                    .sum::<usize>()
            };
            let screen = shown(&plain(&board), width, 10);
            for row in screen.lines().skip(2).take(5) {
                let at = row.find('/').map(|at| row[..at].width());
                assert!(
                    at.is_none() || at == Some(x_of(SortKey::Players) + 4),
                    "{width}\n{screen}"
                );
            }
            assert!(
                columns.iter().map(|(_, width)| width + 1).sum::<u16>() <= width + 1,
                "{width}"
            );
        }
    }

    #[test]
    fn header_shows_the_sort_order() {
        let mut board = board();
        board.sort_by(Sort {
            by: SortKey::Players,
            is_descending: true,
        });
        let screen = shown(&plain(&board), 120, 10);
        assert!(
            screen.lines().nth(1).unwrap().contains("4▼players"),
            "{screen}"
        );
        assert!(
            screen.lines().nth(2).unwrap().contains("survival-10"),
            "{screen}"
        );
        board.filter_by(Filter::read("lobby"));
        let screen = shown(&plain(&board), 120, 10);
        assert!(
            screen.contains("1 shown")
                && screen.contains("/lobby  Esc clears it")
                && !screen.contains("Arena"),
            "{screen}"
        );
        board.filter_by(Filter::read("!dwon"));
        let screen = shown(
            &View {
                is_typing: true,
                ..plain(&board)
            },
            100,
            10,
        );
        assert!(
            screen.contains("no server matches") && screen.contains("no state !dwon"),
            "{screen}"
        );
    }

    #[test]
    fn events_are_shown() {
        let board = board();
        let lost = Link::Lost(65, "no monitor at http://127.0.0.1:1: refused".into());
        let screen = shown(
            &View {
                link: &lost,
                ..plain(&board)
            },
            100,
            10,
        );
        assert!(
            screen.contains("lost for 1m 5s") && screen.contains("refused. Retrying every second"),
            "{screen}"
        );
        let screen = shown(
            &View {
                is_paused: true,
                notice: Some("lobby is down"),
                ..plain(&board)
            },
            60,
            10,
        );
        assert!(
            screen.contains("paused") && screen.contains("lobby is down"),
            "{screen}"
        );
        let screen = shown(
            &View {
                has_help: true,
                ..plain(&board)
            },
            80,
            24,
        );
        assert!(
            screen.contains("!flapping") && screen.contains("reverse the order"),
            "{screen}"
        );
        let empty = Board::default();
        assert!(
            shown(
                &View {
                    link: &Link::Waiting,
                    ..plain(&empty)
                },
                80,
                10
            )
            .contains("waiting for the first")
        );
        assert!(shown(&plain(&empty), 80, 10).contains("no servers"));
    }

    /// Returns a server with hostile texts.
    fn odd(id: i64) -> ServerView {
        let long = "名前\u{1b}[2J\n\u{301}\u{202e}\u{9b}31m\r".repeat(30);
        let mut seen = seen(id, &long);
        let last_status = LastStatus {
            at: i64::MAX,
            motd: Some(Text::legacy(format!("§a{long}§k").repeat(20))),
            title: Some(long.clone().into()),
            version: Some(long.clone().into()),
            game: Some(long.clone().into()),
            map: Some(long.clone().into()),
            players: vec![long.clone().into(); 60].into(),
            answer: r#"{"status":{"rules":[{"key":"\u001b[2J","value":"\u001b]0;x\u0007"}],"extra":{"a":[1,{"b":"\u001b[31m"}]},"motd":{"plain":5,"raw":"§a\u001b[2J"}}}"#.to_owned().into_bytes().into(),
            ..LastStatus::default()
        };
        seen.last_status = Some(Arc::new(last_status));
        seen.error = Some(Arc::new((long.clone(), long)));
        seen.uptime = Some(f32::NAN);
        seen.since = i64::MIN / 2;
        if let Some(last) = &mut seen.last {
            last.players = Some(u32::MAX);
            last.max = Some(u32::MAX);
            last.latency = Some(u32::MAX);
        }
        seen
    }

    #[test]
    fn every_size_and_content_can_be_drawn() {
        let mut odd_ones = Board::default();
        odd_ones.see((0..20).map(odd).collect());
        odd_ones.happen(vec![
            simulated::event(3, i64::MAX),
            simulated::event(3, i64::MIN / 2),
        ]);
        odd_ones.arrange();
        for board in [&board(), &odd_ones, &Board::default()] {
            for (width, height) in [
                (1, 1),
                (29, 9),
                (30, 5),
                (40, 10),
                (47, 13),
                (80, 9),
                (119, 8),
                (120, 8),
                (121, 30),
                (300, 100),
            ] {
                for (detail, has_help) in [
                    (None, false),
                    (Some(ServerId(3)), false),
                    (Some(ServerId(99)), true),
                ] {
                    let view = View {
                        detail,
                        has_help,
                        cursor: 9,
                        top: 3,
                        scroll: 1,
                        ..plain(board)
                    };
                    let screen = shown(&view, width, height);
                    let is_safe = |c: char| c == '\n' || !hailer::proto::model::is_control(c);
                    assert!(screen.chars().all(is_safe), "{screen:?}");
                    most_scroll(Rect::new(0, 0, width, height), &view);
                }
            }
        }
        assert!(shown(&plain(&board()), 29, 20).contains("too small"));
    }

    #[test]
    fn only_visible_rows_are_drawn() {
        let mut board = Board::default();
        board.see(
            (0..10_000)
                .map(|id| seen(id, &format!("server-{id}")))
                .collect(),
        );
        board.arrange();
        let started = std::time::Instant::now();
        let screen = shown(
            &View {
                top: 9_980,
                cursor: 9_999,
                ..plain(&board)
            },
            200,
            23,
        );
        assert!(
            started.elapsed().as_secs_f64() < 1.0,
            "{:?}",
            started.elapsed()
        );
        assert!(
            screen.contains("server-9980")
                && screen.contains("server-9999")
                && !screen.contains("server-9979"),
            "{screen}"
        );
    }

    #[test]
    fn uptime_is_never_rounded_up_to_100_percent() {
        let words = |share| uptime(Some(share)).spans[0].content.to_string();
        assert_eq!(
            [1.0, 0.9999, 0.5, 0.0].map(words),
            ["100", "99.9", "50.0", "0.0"]
        );
        let words = |micros| latency(Some(micros)).spans[0].content.to_string();
        assert_eq!(
            [0, 12_340, 99_960, 1_234_000, u32::MAX].map(words),
            ["0.0", "12.3", "100", "1234", "4.3M"]
        );
    }
}
