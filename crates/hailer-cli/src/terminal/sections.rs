//! Titled sections below each other, which share the lines of a column by need.

use super::widgets::{below, both_ends, dim, heading, in_color, row, share, sparkline};
use crate::print::{line, padded};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

/// Maximum width of a chart or a gauge in columns.
pub(crate) const MAX_CHART_WIDTH: u16 = 60;
/// Maximum width of a chart's name with a space, in columns.
const NAME_WIDTH: u16 = 24;
/// Minimum width of the name of a chart or a gauge, in columns.
const MIN_NAME_WIDTH: u16 = 10;
/// Width of a chart's number with a space, in columns: in a section of at least
/// [`NUMBERS_WIDTH`] columns, and in a narrow one.
const NUMBER_WIDTHS: [u16; 2] = [11, 8];
/// Minimum width of a section in which all numbers appear, in columns.
pub(crate) const NUMBERS_WIDTH: u16 = 38;
/// Largest number of lines that a chart gains if there is space.
const MAX_TALLER: u16 = 2;

/// Content of one or several lines.
pub(crate) enum ScreenRow {
    Text(Line<'static>),
    /// Name, number, and a chart of recent values, oldest first.
    Trend {
        name: String,
        number: String,
        series: Vec<f64>,
        color: Color,
    },
    /// Texts at both ends of a line. The left one is cut if necessary.
    Ends(Vec<Span<'static>>, Span<'static>),
    /// Name, a bar for a share from 0 to 1, and words.
    Gauge {
        name: &'static str,
        words: String,
        share: f64,
    },
}

/// Titled rows in order of importance. If there is not enough space, only the first are shown.
pub(crate) struct Section {
    pub(crate) title: Option<String>,
    pub(crate) rows: Vec<ScreenRow>,
    /// Minimum useful height in lines.
    pub(crate) least: u16,
}

impl Section {
    pub(crate) fn new(title: impl Into<String>, rows: Vec<ScreenRow>) -> Self {
        Self {
            title: Some(title.into()),
            least: 1 + rows.len().min(2) as u16,
            rows,
        }
    }

    /// Returns a section that shows words if it has no rows.
    pub(crate) fn or_none(
        title: impl Into<String>,
        mut rows: Vec<ScreenRow>,
        words: &'static str,
    ) -> Self {
        if rows.is_empty() {
            rows.push(ScreenRow::Text(Line::styled(words, dim())));
        }
        Self::new(title, rows)
    }

    /// Returns the height of all rows and the title, in lines.
    pub(crate) fn height(&self) -> u16 {
        u16::try_from(self.rows.len() + usize::from(self.title.is_some())).unwrap_or(u16::MAX)
    }

    fn trends(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(|row| match row {
            ScreenRow::Trend { name, .. } => Some(&**name),
            _ => None,
        })
    }
}

/// Draws sections below each other. Unused lines make the charts taller.
pub(crate) fn column(frame: &mut Frame<'_>, area: Rect, sections: &[Section]) {
    let ranges: Vec<_> = sections
        .iter()
        .map(|section| (section.least, section.height()))
        .collect();
    let heights = share(&ranges, area.height);
    let is_complete = ranges
        .iter()
        .zip(&heights)
        .all(|(range, height)| range.1 == *height);
    let trends = sections.iter().flat_map(Section::trends).count();
    let spare = usize::from(area.height - heights.iter().sum::<u16>());
    let taller = match spare.checked_div(trends) {
        Some(lines) if is_complete => MAX_TALLER.min(lines as u16),
        _ => 0,
    };
    let mut y = 0;
    for (section, height) in sections.iter().zip(heights) {
        let mut end = y + height;
        if let Some(title) = section.title.as_ref().filter(|_| height > 0) {
            frame.render_widget(heading(title, None, area.width.into()), row(area, y));
            y += 1;
        }
        let names = section.trends().map(|name| name.width() + 1);
        let name_width = names.max().unwrap_or(0).min(NAME_WIDTH.into()) as u16;
        for content in &section.rows {
            let height = match content {
                ScreenRow::Trend { .. } => 1 + taller,
                _ => 1,
            };
            end += height - 1;
            if y >= end {
                break;
            }
            let place = Rect {
                height,
                ..below(area, y)
            };
            draw_row(frame, place, content, name_width.max(MIN_NAME_WIDTH));
            y += height;
        }
    }
}

fn draw_row(frame: &mut Frame<'_>, area: Rect, content: &ScreenRow, name_width: u16) {
    match content {
        ScreenRow::Text(text) => frame.render_widget(text, area),
        ScreenRow::Ends(left, right) => {
            frame.render_widget(both_ends(left.clone(), right.clone(), area.width), area);
        }
        ScreenRow::Trend {
            name,
            number,
            series,
            color,
        } => {
            let number_width = NUMBER_WIDTHS[usize::from(area.width < NUMBERS_WIDTH)];
            let name = line(name, usize::from(name_width) - 1);
            let name = padded(&name, name_width.into());
            let text = format!("{name}{number:>0$}", usize::from(number_width) - 1);
            frame.render_widget(Line::raw(line(&text, area.width.into())), row(area, 0));
            let left = name_width + number_width;
            let Some(room) = area.width.checked_sub(left).filter(|room| *room >= 4) else {
                return;
            };
            let place = Rect {
                x: area.x + left,
                width: room.min(MAX_CHART_WIDTH),
                ..area
            };
            let newest_first = series.iter().rev().map(|value| Some(*value));
            sparkline(frame, place, newest_first, 0.0, *color);
        }
        ScreenRow::Gauge { name, words, share } => {
            let color = match share {
                ..0.1 => Color::Red,
                ..0.4 => Color::Yellow,
                _ => Color::Green,
            };
            let room = area
                .width
                .saturating_sub(MIN_NAME_WIDTH + words.width() as u16 + 1);
            let shown = room.min(MAX_CHART_WIDTH);
            let full = (share.clamp(0.0, 1.0) * f64::from(shown)).round() as usize;
            let bar = Line::from(vec![
                Span::raw(padded(name, MIN_NAME_WIDTH.into())),
                Span::styled("█".repeat(full), in_color(color)),
                Span::styled("░".repeat(usize::from(shown) - full), dim()),
                Span::raw(format!(" {words}")),
            ]);
            frame.render_widget(bar, area);
        }
    }
}
