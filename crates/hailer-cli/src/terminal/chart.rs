//! Line charts with axes.

use super::widgets::{below, dim, heading, in_color, lines};
use crate::print::{rate, since};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::symbols::Marker;
use ratatui::text::Span;
use ratatui::widgets::{Axis, Chart, Dataset, GraphType};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(
            [0.0, 0.3, 1.0, 3.0, 12.0, 20.0, 51.0, 100.0, 1_234.0].map(nice),
            [1.0, 1.0, 1.0, 5.0, 20.0, 20.0, 100.0, 100.0, 2_000.0]
        );
        assert_eq!(nice(f64::NAN), 1.0);
    }
}
