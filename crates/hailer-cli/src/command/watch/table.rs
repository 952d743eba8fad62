//! Table of `hailer watch`.
//!
//! Only visible rows are drawn. Text of servers passes through `line` or [`colored`], which remove
//! control characters.

use super::board::{Entry, SortKey};
use super::cells::{latency, players, state, uptime};
use super::screen::WatchScreen;
use crate::print::line;
use crate::terminal::text::colored;
use crate::terminal::widgets::{below, bold, dim, in_color, lines, row, share, sparkline};
use hailer_monitor::health::State;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

/// A column: what it shows, its place from the left, its smallest and its largest useful width.
/// `None` shows a chart of the samples.
type Column = (Option<SortKey>, usize, u16, u16);

/// Columns in the order of their importance.
const COLUMNS: [Column; 10] = [
    (Some(SortKey::State), 0, 7, 7),
    (Some(SortKey::Name), 1, 12, 32),
    (Some(SortKey::Players), 3, 9, 9),
    (Some(SortKey::Latency), 5, 5, 5),
    (None, 4, 8, 24),
    (Some(SortKey::Uptime), 6, 5, 5),
    (Some(SortKey::Motd), 9, 16, u16::MAX - 1),
    (Some(SortKey::Group), 2, 8, 12),
    (Some(SortKey::Version), 7, 9, 14),
    (Some(SortKey::Protocol), 8, 15, 15),
];

/// Index of the name in [`COLUMNS`], and the width that it gets before other columns grow.
const NAME: (usize, u16) = (1, 8);

/// Returns the columns that fit, with their areas, from left to right. One space separates two
/// columns.
fn columns(area: Rect, has_groups: bool) -> Vec<(Option<SortKey>, Rect)> {
    let width = area.width.saturating_add(1);
    let smallest = COLUMNS.map(|(key, _, least, _)| match key {
        Some(SortKey::Group) if !has_groups => (0, 0),
        _ => (least + 1, least + 1),
    });
    let smallest = share(&smallest, width);
    let spare = width - smallest.iter().sum::<u16>();
    let mut ranges: Vec<_> = COLUMNS
        .iter()
        .zip(&smallest)
        .map(|((_, _, _, most), given)| (*given, if *given > 0 { most + 1 } else { 0 }))
        .collect();
    ranges[NAME.0].0 += NAME.1.min(spare);
    let mut chosen: Vec<_> = COLUMNS.iter().zip(share(&ranges, width)).collect();
    chosen.retain(|(_, width)| *width > 0);
    chosen.sort_by_key(|((_, place, ..), _)| *place);
    let mut x = area.x;
    let placed = chosen.into_iter().map(|((key, ..), width)| {
        let place = Rect {
            x,
            width: width - 1,
            ..area
        };
        x += width;
        (*key, place)
    });
    placed.collect()
}

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, screen: &WatchScreen) {
    let board = &screen.board;
    let columns = columns(area, board.has_groups());
    let sort = board.sort();
    for (key, place) in &columns {
        let words = match key {
            None => Line::styled("trend", dim()),
            Some(by) => {
                let (arrow, style) = match (*by == sort.by, sort.is_descending) {
                    (false, _) => (" ", dim()),
                    (true, false) => ("▲", bold()),
                    (true, true) => ("▼", bold()),
                };
                let words = format!("{}{arrow}{}", by.digit(), by.word());
                aligned(*by, Line::styled(words, style))
            }
        };
        frame.render_widget(words, row(*place, 0));
    }
    let body = below(area, 1);
    if board.len() == 0 {
        let words = match board.totals().servers {
            _ if !screen.is_connected => "waiting for the first answers",
            0 => "no servers",
            _ => "no server matches the filter; Esc clears it",
        };
        let words = line(words, usize::from(body.width));
        return lines(frame, body, [Line::styled(words, dim())]);
    }
    for offset in 0..body.height {
        let number = screen.top + usize::from(offset);
        let Some(entry) = board.entry(number) else {
            break;
        };
        for (key, column) in &columns {
            let place = row(below(*column, 1), offset);
            match key {
                None => trend(frame, place, entry),
                Some(by) => {
                    let cell = cell_of(*by, entry, usize::from(place.width));
                    frame.render_widget(aligned(*by, cell), place);
                }
            }
        }
        if number == screen.cursor {
            let buffer = frame.buffer_mut();
            buffer.set_style(row(body, offset), Style::new().reversed());
        }
    }
}

fn aligned(key: SortKey, line: Line<'static>) -> Line<'static> {
    match key {
        SortKey::Latency | SortKey::Uptime => line.right_aligned(),
        _ => line,
    }
}

/// Draws a chart of the samples, newest at the right. No players is blank, no answer is a dot.
fn trend(frame: &mut Frame<'_>, area: Rect, entry: &Entry) {
    let newest = entry.samples.iter().rev().take(usize::from(area.width));
    let values = newest.map(|sample| sample.players.map(f64::from));
    sparkline(frame, area, values, 1.0, Color::Cyan);
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
        SortKey::Group => text(&seen.server.group).style(dim()),
        SortKey::Players => players(entry),
        SortKey::Latency => whole(latency(entry.latency())),
        SortKey::Uptime => whole(uptime(seen.uptime)),
        SortKey::Version => text(&entry.version),
        SortKey::Protocol => text(entry.protocol()).style(dim()),
        SortKey::Motd => match (&seen.error, seen.last_status.as_deref()) {
            // For a server that is down, the reason is more useful than its last status.
            (Some(error), _) if seen.state != State::Up => {
                text(reason(&error.message)).style(in_color(Color::Red))
            }
            (_, Some(last_status)) => match &last_status.motd {
                Some(motd) => colored(motd, width),
                None => text(&entry.motd),
            },
            _ => Line::default(),
        },
        SortKey::Given => Line::default(),
    }
}

/// Returns a line whose style fills the cell.
fn whole(span: Span<'static>) -> Line<'static> {
    Line::styled(span.content, span.style)
}

/// Returns an error message without the address, which the row already contains.
fn reason(error: &str) -> &str {
    error
        .split_once(": ")
        .filter(|(address, _)| !address.contains(' '))
        .map_or(error, |(_, reason)| reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::watch::board::{Board, ServerView, Sort};
    use crate::command::watch::filter::Filter;
    use crate::command::watch::simulated::{self, board, screen, seen};
    use crate::terminal::tests::{assert_shows, drawn, shown};
    use hailer::proto::Text;
    use hailer_monitor::sample::PollError;
    use hailer_monitor::server::ServerId;
    use hailer_monitor::state::LastStatus;
    use ratatui::style::Modifier;
    use std::sync::Arc;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn every_size_shows_the_important_columns() {
        let mut plain = screen(board());
        for (width, height) in [
            (40, 10),
            (60, 16),
            (80, 24),
            (100, 24),
            (120, 40),
            (250, 60),
        ] {
            let screen = shown(&mut plain, width, height);
            assert_shows(
                &screen,
                &[
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
                ],
            );
            let last = screen.lines().last().unwrap();
            assert!(last.starts_with("q quits"), "{screen}");
        }
        let wide = shown(&mut plain, 160, 24);
        assert_shows(
            &wide,
            &[
                "100",
                "87.5",
                "Paper 1.21.8",
                "ugp",
                "Welcome to the lobby",
                "名前の鯖へようこそ[2J",
                "Survival, 10th secret",
            ],
        );
        let first = wide.lines().nth(2).unwrap();
        assert!(first.contains(['▅', '▆', '▇', '█']), "a trend\n{wide}");
        let wider = shown(&mut plain, 220, 24);
        assert_shows(&wider, &["did not answer within 3 s"]);
    }

    #[test]
    fn colors_of_the_server_are_shown() {
        let buffer = drawn(&mut screen(board()), 200, 10);
        let find = |y: u16, letter: &str, from: u16| {
            (from..200)
                .find(|x| buffer[(*x, y)].symbol() == letter)
                .unwrap()
        };
        let welcome = find(2, "W", 0);
        assert_eq!(buffer[(welcome, 2)].fg, Color::LightGreen);
        let survival = find(3, "S", 0);
        assert_eq!(buffer[(survival, 3)].fg, Color::Rgb(255, 128, 1));
        let is_reversed = |y| buffer[(0, y)].modifier.contains(Modifier::REVERSED);
        assert!(is_reversed(2) && !is_reversed(3));
        // Colors are redundant: each state also has a word.
        assert_eq!(
            (buffer[(0, 2)].fg, buffer[(0, 6)].fg),
            (Color::Green, Color::Red)
        );
    }

    #[test]
    fn rows_are_aligned_in_every_script() {
        for width in [100, 140, 200] {
            let columns = columns(Rect::new(0, 0, width, 1), true);
            let players = columns
                .iter()
                .find(|(key, _)| *key == Some(SortKey::Players));
            let slash = usize::from(players.unwrap().1.x) + 4;
            let screen = shown(&mut screen(board()), width, 10);
            for row in screen.lines().skip(2).take(5) {
                let at = row.find('/').map(|at| row[..at].width());
                assert!(at.is_none_or(|at| at == slash), "{width}\n{screen}");
            }
            let (_, last) = columns.last().unwrap();
            assert!(last.right() <= width, "{width}");
        }
    }

    #[test]
    fn header_shows_the_sort_order() {
        let mut screen = screen(board());
        screen.program.board.sort_by(Sort {
            by: SortKey::Players,
            is_descending: true,
        });
        let sorted = shown(&mut screen, 120, 10);
        let mut lines = sorted.lines().skip(1);
        assert!(lines.next().unwrap().contains("4▼players"), "{sorted}");
        assert!(lines.next().unwrap().contains("survival-10"), "{sorted}");
        screen.program.board.filter_by(Filter::read("lobby"));
        let filtered = shown(&mut screen, 120, 10);
        assert_shows(&filtered, &["1 shown", "/lobby  Esc clears it"]);
        assert!(!filtered.contains("Arena"), "{filtered}");
        screen.program.board.filter_by(Filter::read("!dwon"));
        screen.program.is_typing = true;
        assert_shows(
            &shown(&mut screen, 100, 10),
            &["no server matches", "no state !dwon"],
        );
    }

    #[test]
    fn an_empty_table_has_a_reason() {
        let mut empty = screen(Board::default());
        assert_shows(&shown(&mut empty, 80, 10), &["no servers"]);
        let mut new = crate::terminal::Screen::new(WatchScreen::default());
        assert_shows(
            &shown(&mut new, 80, 10),
            &["waiting for the first", "connecting"],
        );
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
        seen.error = Some(Arc::new(PollError {
            kind: long.clone(),
            message: long,
        }));
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
        for mut screen in [board(), odd_ones, Board::default()].map(screen) {
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
                    screen.has_help = has_help;
                    let program = &mut screen.program;
                    program.detail = detail;
                    (program.cursor, program.top, program.scroll) = (9, 3, 1);
                    let screen = shown(&mut screen, width, height);
                    let is_safe = |c: char| c == '\n' || !hailer::proto::model::is_control(c);
                    assert!(screen.chars().all(is_safe), "{screen:?}");
                }
            }
        }
        assert_shows(&shown(&mut screen(board()), 29, 20), &["too small"]);
    }

    #[test]
    fn only_visible_rows_are_drawn() {
        let mut board = Board::default();
        let servers = (0..10_000).map(|id| seen(id, &format!("server-{id}")));
        board.see(servers.collect());
        board.arrange();
        let mut screen = screen(board);
        screen.program.cursor = 9_999;
        let started = std::time::Instant::now();
        let screen = shown(&mut screen, 200, 23);
        assert!(
            started.elapsed().as_secs_f64() < 1.0,
            "{:?}",
            started.elapsed()
        );
        assert_shows(&screen, &["server-9980", "server-9999"]);
        assert!(!screen.contains("server-9979"), "{screen}");
    }
}
