//! Styles, lines and charts that all full-screen programs use.

use super::About;
use super::text::BoundedLine;
use crate::print::{line, padded, rate, since};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{
    Axis, Block, Chart, Clear, Dataset, GraphType, Paragraph, RenderDirection, Sparkline,
};
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

/// Cuts spans to a width.
pub(crate) fn fitting(spans: Vec<Span<'static>>, width: usize) -> Line<'static> {
    let mut fitting = BoundedLine::new(width);
    spans
        .into_iter()
        .take_while(|span| fitting.push(&span.content, span.style))
        .for_each(drop);
    fitting.line()
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

/// Draws a line chart with a heading and axes. `points` are seconds, negative and ascending, and
/// values; a missing value is a gap.
pub(crate) fn chart(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    points: &[(f64, Option<f32>)],
    color: Color,
) {
    let numbers = || points.iter().filter_map(|point| point.1);
    let most = numbers()
        .filter(|number| number.is_finite())
        .fold(0.0, f32::max);
    let shown = |number: f32| {
        if number < 1e4 {
            format!("{number:.1}").trim_end_matches(".0").to_owned()
        } else {
            rate(f64::from(number))
        }
    };
    let words = match points.last().and_then(|last| last.1) {
        Some(last) => format!("{}, at most {}", shown(last), shown(most)),
        None if !numbers().any(f32::is_finite) => "nothing yet".into(),
        None => format!("no answer, at most {}", shown(most)),
    };
    lines(
        frame,
        area,
        [heading(title, Some(&words), usize::from(area.width))],
    );
    let Some((first, _)) = points.first() else {
        return;
    };
    let point = |(at, number): &(f64, Option<f32>)| Some((*at, f64::from((*number)?)));
    // A gap separates two lines.
    let parts: Vec<Vec<_>> = points
        .split(|point| point.1.is_none())
        .map(|part| part.iter().filter_map(point).collect())
        .collect();
    let datasets = parts.iter().filter(|part| !part.is_empty()).map(|part| {
        Dataset::default()
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(in_color(color))
            .data(part)
    });
    let top = nice(f64::from(most));
    let axis = |bounds, labels: [String; 2]| {
        Axis::default()
            .bounds(bounds)
            .labels(labels.map(|label| Span::styled(label, dim())))
            .style(dim())
    };
    let ago = format!("{} ago", since(-first));
    let chart = Chart::new(datasets.collect())
        .legend_position(None)
        .x_axis(axis([first.min(-1.0), 0.0], [ago, "now".into()]))
        .y_axis(axis([0.0, top], ["0".into(), shown(top as f32)]));
    frame.render_widget(chart, below(area, 1));
}

/// Returns the next round number that is at least `value`.
fn nice(most: f64) -> f64 {
    if !most.is_finite() || most <= 1.0 {
        return 1.0;
    }
    let power = 10f64.powf(most.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|top| *top >= most)
        .unwrap_or(most)
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

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(
            [0.0, 0.3, 1.0, 3.0, 12.0, 20.0, 51.0, 100.0, 1_234.0].map(nice),
            [1.0, 1.0, 1.0, 5.0, 20.0, 20.0, 100.0, 100.0, 2_000.0]
        );
        assert_eq!(nice(f64::NAN), 1.0);
    }
}
