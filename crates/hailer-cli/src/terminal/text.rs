//! Text of servers with its colors, cut to the width of a line.
//!
//! Control characters are removed.

use crate::print::line;
use hailer::proto::Text;
use hailer::proto::model::{self, TextColor, printable};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

/// Returns a text with its colors, as one line of at most `width` columns.
pub(crate) fn colored(text: &Text, width: usize) -> Line<'static> {
    let mut fitting = BoundedLine::new(width);
    text.runs()
        .take_while(|(style, piece)| fitting.push(piece, style_of(*style)))
        .for_each(drop);
    fitting.line()
}

/// Returns the first non-empty lines of a text with its colors.
pub(crate) fn colored_lines(text: &Text, width: usize, most: usize) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut last = BoundedLine::new(width);
    for (style, piece) in text.runs() {
        for (number, part) in piece.split('\n').enumerate() {
            if number > 0 {
                let line = std::mem::replace(&mut last, BoundedLine::new(width)).line();
                lines.extend(Some(line).filter(|line| !is_blank(line)));
                if lines.len() == most {
                    return lines;
                }
            }
            last.push(part, style_of(style));
        }
    }
    lines.extend(Some(last.line()).filter(|line| !is_blank(line)));
    lines
}

fn is_blank(line: &Line<'_>) -> bool {
    line.spans.iter().all(|span| span.content.trim().is_empty())
}

/// Cuts spans to a width.
pub(crate) fn fitting(spans: Vec<Span<'static>>, width: usize) -> Line<'static> {
    let mut fitting = BoundedLine::new(width);
    spans
        .into_iter()
        .take_while(|span| fitting.push(&span.content, span.style))
        .for_each(drop);
    fitting.line()
}

/// A line of text spans that stops at a width.
pub(crate) struct BoundedLine {
    spans: Vec<Span<'static>>,
    room: usize,
    width: usize,
    is_full: bool,
}

impl BoundedLine {
    pub(crate) fn new(width: usize) -> Self {
        Self {
            spans: Vec::new(),
            room: width,
            width,
            is_full: width == 0,
        }
    }

    /// Appends a span, and cuts it with `…` where the width ends. Returns whether there is room for
    /// more.
    pub(crate) fn push(&mut self, text: &str, style: Style) -> bool {
        // Limits characters without a width, and the number of spans.
        if self.is_full || self.spans.len() > self.width {
            return false;
        }
        let text: String = text.chars().take(4 * self.width).collect();
        let text = printable(&text);
        if text.is_empty() {
            return true;
        }
        if self.room == 0 {
            // Replace the last character by `…`.
            self.is_full = true;
            return false;
        }
        self.is_full = text.width() > self.room;
        let text = if self.is_full {
            line(&text, self.room)
        } else {
            text
        };
        self.room = self.room.saturating_sub(text.width());
        self.spans.push(Span::styled(text, style));
        !self.is_full
    }

    pub(crate) fn line(self) -> Line<'static> {
        Line::from(self.spans)
    }
}

fn style_of(style: model::Style) -> Style {
    let flags = [
        (style.is_bold, Modifier::BOLD),
        (style.is_italic, Modifier::ITALIC),
        (style.is_underlined, Modifier::UNDERLINED),
        (style.is_struck, Modifier::CROSSED_OUT),
    ];
    let modifiers = flags
        .into_iter()
        .filter(|(is_on, _)| *is_on)
        .map(|(_, modifier)| modifier);
    let styled = modifiers.fold(Style::new(), Style::add_modifier);
    match style.color {
        Some(color) => styled.fg(color_of(color)),
        None => styled,
    }
}

/// Maps the game's colors to the 16 of the terminal, whose user chose them to be readable. Black
/// becomes gray.
fn color_of(color: TextColor) -> Color {
    match color {
        TextColor::Rgb(r, g, b) => Color::Rgb(r, g, b),
        TextColor::Legacy(code) => match code & 15 {
            1 => Color::Blue,
            2 => Color::Green,
            3 => Color::Cyan,
            4 => Color::Red,
            5 => Color::Magenta,
            6 => Color::Yellow,
            7 => Color::Gray,
            0 | 8 => Color::DarkGray,
            9 => Color::LightBlue,
            10 => Color::LightGreen,
            11 => Color::LightCyan,
            12 => Color::LightRed,
            13 => Color::LightMagenta,
            14 => Color::LightYellow,
            _ => Color::White,
        },
    }
}
