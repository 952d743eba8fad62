//! Styles, lines and bars that all full-screen programs use.

use super::About;
use crate::print::{line, padded};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, RenderDirection, Sparkline};
use unicode_width::UnicodeWidthStr;

/// Space between two columns of content.
pub(crate) const GAP_WIDTH: u16 = 2;

pub(crate) fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

pub(crate) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Returns the style of text in a color.
pub(crate) fn in_color(color: Color) -> Style {
    Style::new().fg(color)
}

/// Aligns two texts at both ends of a line. If they do not fit, the left one is cut.
pub(crate) fn both_ends(
    left: Vec<Span<'static>>,
    right: Span<'static>,
    width: u16,
) -> Line<'static> {
    let mut spans = Vec::new();
    let mut room = usize::from(width).saturating_sub(right.content.width() + 1);
    for span in left {
        let text = if span.content.width() > room {
            line(&span.content, room)
        } else {
            span.content.into_owned()
        };
        room -= text.width().min(room);
        spans.push(Span::styled(text, span.style));
        if room == 0 {
            break;
        }
    }
    spans.push(Span::raw(" ".repeat(room + 1)));
    spans.push(right);
    Line::from(spans)
}

/// Returns a heading that fills the line. One with words ends a column earlier.
pub(crate) fn heading(title: &str, words: Option<&str>, width: usize) -> Line<'static> {
    let mut spans = vec![Span::styled(format!("{title} "), bold())];
    let mut room = width.saturating_sub(title.width() + 1);
    if let Some(words) = words {
        let words = line(words, room.saturating_sub(1));
        room = room.saturating_sub(words.width() + 2);
        spans.push(Span::raw(format!("{words} ")));
    }
    spans.push(Span::styled("─".repeat(room), dim()));
    Line::from(spans)
}

/// Returns the line of an area at an offset from its top.
pub(crate) fn row(area: Rect, offset: u16) -> Rect {
    Rect {
        y: area.y + offset,
        height: 1.min(area.height.saturating_sub(offset)),
        ..area
    }
}

/// Returns the area without its first lines.
pub(crate) fn below(area: Rect, lines: u16) -> Rect {
    let lines = lines.min(area.height);
    Rect {
        y: area.y + lines,
        height: area.height - lines,
        ..area
    }
}

/// Draws as many lines as fit.
pub(crate) fn lines(
    frame: &mut Frame<'_>,
    area: Rect,
    lines: impl IntoIterator<Item = Line<'static>>,
) {
    for (offset, line) in (0..area.height).zip(lines) {
        frame.render_widget(line, row(area, offset));
    }
}

/// Divides an area into two columns.
pub(crate) fn halves(area: Rect) -> [Rect; 2] {
    let [left, _, right] = Layout::horizontal([
        Constraint::Fill(1),
        Constraint::Length(GAP_WIDTH),
        Constraint::Fill(1),
    ])
    .areas(area);
    [left, right]
}

/// Divides `total` lines or columns: each part first gets its minimum, in turn, then up to its
/// maximum. Without enough of them, the last parts get none.
pub(crate) fn share(ranges: &[(u16, u16)], total: u16) -> Vec<u16> {
    let mut left = total;
    let mut given = vec![0; ranges.len()];
    for ((least, most), given) in ranges.iter().zip(&mut given) {
        let least = *least.min(most);
        if least <= left {
            *given = least;
            left -= least;
        }
    }
    while left > 0 {
        let before = left;
        for ((_, most), given) in ranges.iter().zip(&mut given) {
            if left > 0 && (1..*most).contains(given) {
                *given += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    given
}

/// Draws values as bars, the newest first in `values` and at the right of the area. A missing value
/// is a dot. The full height is the largest value, at least `floor`.
pub(crate) fn sparkline(
    frame: &mut Frame<'_>,
    area: Rect,
    values: impl Iterator<Item = Option<f64>>,
    floor: f64,
    color: Color,
) {
    // In thousandths, since the widget takes integers.
    let thousandths = |value: f64| (value * 1e3) as u64;
    let data: Vec<_> = values.map(|value| value.map(thousandths)).collect();
    let most = data.iter().flatten().max().copied().unwrap_or(0);
    let bars = Sparkline::default()
        .data(data)
        .max(most.max(thousandths(floor)))
        .direction(RenderDirection::RightToLeft);
    let bars = bars
        .style(in_color(color))
        .absent_value_symbol("·")
        .absent_value_style(dim());
    frame.render_widget(bars, area);
}

/// Draws the help of a program in the middle of the screen.
pub(super) fn help(frame: &mut Frame<'_>, about: &About) {
    let area = frame.area();
    let row = |(name, words): &(&str, &'static str)| {
        Line::from(vec![
            Span::styled(padded(name, 11), bold()),
            Span::raw(*words),
        ])
    };
    let height = (about.help.len() as u16 + 2).min(area.height);
    let width = about.help_width.min(area.width);
    let place = Rect {
        x: (area.width - width) / 2,
        y: (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    let title = format!(" {} ", about.name);
    frame.render_widget(Block::bordered().title(title), place);
    let lines: Vec<_> = about.help.iter().map(row).collect();
    frame.render_widget(Paragraph::new(lines), place.inner(Margin::new(2, 1)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_shared_by_need() {
        assert_eq!(share(&[(2, 5), (2, 9)], 20), [5, 9]);
        assert_eq!(share(&[(2, 5), (2, 9)], 9), [5, 4]);
        assert_eq!(share(&[(2, 5), (2, 9)], 3), [3, 0]);
        assert_eq!(share(&[(4, 5), (2, 2)], 3), [0, 2]);
    }
}
