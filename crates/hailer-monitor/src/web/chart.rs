//! Charts as SVG. They contain only numbers and built-in texts.
//!
//! A chart is two nested images. The outer one has no `viewBox`, so that its labels keep their size
//! on every screen, and uses percentages of the width. The inner one is stretched over it, one unit
//! per bucket, and contains the lines. The values are `<title>`s of invisible columns: browsers
//! show them without a script, and the script reads them.

use crate::sample::Millis;
use crate::state::DAY_BUCKETS;
use crate::web::show;
use askama::filters::HtmlSafe;
use hailer::proto::wire::counted;
use std::fmt::{self, Display, Write};

/// Height of the inner image, in units.
const HEIGHT_UNITS: f64 = 1_000.0;
/// Heights in pixels: above the plot, of the plot, below it, and of the outer image.
const TOP_PIXELS: u32 = 10;
const PLOT_PIXELS: u32 = 150;
const FOOT_PIXELS: u32 = 22;
const IMAGE_PIXELS: u32 = TOP_PIXELS + PLOT_PIXELS + FOOT_PIXELS;

/// A complete image for a page.
#[derive(Debug, Default)]
pub(crate) struct Svg(String);

impl Display for Svg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// Only this file creates it, and escapes all texts.
impl HtmlSafe for Svg {}

/// A value over time, and optionally the maximum of each bucket.
pub(crate) struct Chart<'a> {
    /// Description for screen readers.
    pub(crate) label: &'a str,
    /// Start of the first bucket, in Unix milliseconds.
    pub(crate) from: Millis,
    /// Length of a bucket, in milliseconds.
    pub(crate) step: Millis,
    /// Mean of each bucket; `None`: unknown.
    pub(crate) values: &'a [Option<f64>],
    /// Maximum of each bucket; empty: not drawn.
    pub(crate) highest: &'a [Option<f64>],
    /// Text of a bucket in the tooltip, without its time; empty: none.
    pub(crate) words: &'a dyn Fn(usize) -> String,
    /// Formats values at the axis.
    pub(crate) axis: &'a dyn Fn(f64) -> String,
    /// Style of the chart.
    pub(crate) style: ChartStyle,
    /// Current time: dates of the same year are shown without the year.
    pub(crate) now: Millis,
}

/// Style of a chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChartStyle {
    /// A line with the area below it filled.
    Area,
    /// A line without a filled area.
    Line,
    /// Columns for shares of a whole; the missing part is drawn above.
    Share,
}

impl ChartStyle {
    fn class(self) -> &'static str {
        match self {
            Self::Area => "area",
            Self::Line => "line",
            Self::Share => "share",
        }
    }
}

impl Chart<'_> {
    /// Draws the chart.
    pub(crate) fn draw(&self) -> Svg {
        let mut out = String::with_capacity(16 * 1024);
        // Writing to a string cannot fail.
        let _ = self.write(&mut out);
        Svg(out)
    }

    fn write(&self, out: &mut String) -> fmt::Result {
        let ticks = self.ticks();
        let buckets = self.values.len();
        write!(
            out,
            r#"<svg class="chart {}" width="100%" height="{IMAGE_PIXELS}" role="img" aria-label=""#,
            self.style.class()
        )?;
        escaped(out, self.label)?;
        write!(out, r#"" data-buckets="{buckets}">"#)?;
        self.write_grid(out, &ticks)?;
        let width = buckets.max(1);
        write!(
            out,
            r#"<svg class="plot" y="{TOP_PIXELS}" width="100%" height="{PLOT_PIXELS}" viewBox="0 0 {width} {HEIGHT_UNITS}" preserveAspectRatio="none">"#,
        )?;
        self.write_plot(out, ticks.last().copied().unwrap_or(1.0))?;
        self.write_columns(out)?;
        out.write_str("</svg>")?;
        if self.values.iter().all(Option::is_none) {
            let y = TOP_PIXELS + PLOT_PIXELS / 2;
            write!(
                out,
                r#"<text class="none" x="50%" y="{y}" text-anchor="middle">no data in this time range</text>"#
            )?;
        } else {
            self.write_axis(out, &ticks)?;
        }
        out.write_str("</svg>")
    }

    /// Writes the grid, and the times below it.
    fn write_grid(&self, out: &mut String, ticks: &[f64]) -> fmt::Result {
        out.write_str(r#"<g class="grid">"#)?;
        for &tick in ticks {
            let y = tick_y(tick, ticks);
            write!(out, r#"<line x1="0" x2="100%" y1="{y:.1}" y2="{y:.1}"/>"#)?;
        }
        let mut marks = self.marks();
        let width = self.step * self.values.len() as Millis;
        // A label at the edge would be cut off.
        marks.retain(|(at, _)| (3..=97).contains(&((at - self.from) * 100 / width.max(1))));
        for (number, (at, text)) in marks.iter().enumerate() {
            let x = (at - self.from) as f64 * 100.0 / width as f64;
            // CSS hides every other label on narrow screens.
            let class = if number % 2 == 1 {
                r#" class="odd""#
            } else {
                ""
            };
            let foot = TOP_PIXELS + PLOT_PIXELS;
            let text_y = IMAGE_PIXELS - 6;
            write!(
                out,
                r#"<line{class} x1="{x:.2}%" x2="{x:.2}%" y1="{foot}" y2="{}"/>"#,
                foot + 4
            )?;
            write!(
                out,
                r#"<text{class} x="{x:.2}%" y="{text_y}" text-anchor="middle">"#
            )?;
            escaped(out, text)?;
            out.write_str("</text>")?;
        }
        out.write_str("</g>")
    }

    /// Writes lines, areas or columns. `top`: value at the top.
    fn write_plot(&self, out: &mut String, top: f64) -> fmt::Result {
        let y = |value: f64| ((1.0 - (value / top).clamp(0.0, 1.0)) * HEIGHT_UNITS).round() as i64;
        let mut path =
            |class: &str, path: String| write!(out, r#"<path class="{class}" d="{path}"/>"#);
        match self.style {
            ChartStyle::Share => {
                path("missing", columns(self.values, y, 0, |value| value < top))?;
                path(
                    "there",
                    columns(self.values, y, HEIGHT_UNITS as i64, |_| true),
                )
            }
            ChartStyle::Area | ChartStyle::Line => {
                if self.style == ChartStyle::Area {
                    path("fill", line(self.values, y, true))?;
                }
                if !self.highest.is_empty() {
                    path("highest", line(self.highest, y, false))?;
                }
                path("mean", line(self.values, y, false))?;
                path("dots", dots(self.values, y))
            }
        }
    }

    /// Writes an invisible column per bucket, with its time and text as tooltip.
    fn write_columns(&self, out: &mut String) -> fmt::Result {
        out.write_str(r#"<g class="hits">"#)?;
        for (bucket, value) in self.values.iter().enumerate() {
            let words = (self.words)(bucket);
            if value.is_none() && words.is_empty() {
                continue;
            }
            let at = self.from + bucket as Millis * self.step;
            let when = match self.step {
                86_400_000.. => show::date(at, self.now),
                _ => show::time(at, self.now),
            };
            write!(out, r#"<path d="M{bucket} 0h1v{HEIGHT_UNITS}h-1z"><title>"#)?;
            escaped(out, &format!("{when} · {words}"))?;
            out.write_str("</title></path>")?;
        }
        out.write_str("</g>")
    }

    /// Writes the labels of the grid. They are inside the plot, which then has the full width.
    fn write_axis(&self, out: &mut String, ticks: &[f64]) -> fmt::Result {
        out.write_str(r#"<g class="values">"#)?;
        for &tick in ticks.iter().skip(1) {
            let y = tick_y(tick, ticks) + 11.0;
            write!(out, r#"<text x="4" y="{y:.1}">"#)?;
            escaped(out, &(self.axis)(tick))?;
            out.write_str("</text>")?;
        }
        out.write_str("</g>")
    }

    /// Returns the values of the grid lines, from 0 to the top.
    fn ticks(&self) -> Vec<f64> {
        if self.style == ChartStyle::Share {
            return vec![0.0, 0.5, 1.0];
        }
        let values = self.values.iter().chain(self.highest).flatten();
        let most = values
            .copied()
            .filter(|value| value.is_finite())
            .fold(0.0, f64::max);
        let step = nice(most / 3.0);
        // Above the highest value, a twentieth of it stays free.
        let count = (most * 1.05 / step).ceil().max(1.0) as u32;
        (0..=count).map(|number| f64::from(number) * step).collect()
    }

    /// Returns the times that have a label.
    fn marks(&self) -> Vec<(Millis, String)> {
        const HOUR: Millis = 3_600_000;
        const DAY: Millis = 24 * HOUR;
        let to = self.from + self.step * self.values.len() as Millis;
        let every = |step: Millis, label: fn(Millis) -> String| {
            let first = self.from.div_euclid(step) * step + step;
            (first..to)
                .step_by(step as usize)
                .map(|at| (at, label(at)))
                .collect()
        };
        match to - self.from {
            ..=7_200_000 => every(HOUR / 6, show::clock),
            7_200_001..=172_800_000 => every(3 * HOUR, show::clock),
            172_800_001..=864_000_000 => every(DAY, show::weekday),
            864_000_001..=4_320_000_000 => {
                let days: Vec<(Millis, String)> = every(DAY, |at| show::date(at, at));
                days.into_iter().step_by(5).collect()
            }
            _ => {
                let days: Vec<(Millis, String)> = every(DAY, |at| show::month_of(at).into());
                days.into_iter()
                    .filter(|(at, _)| show::is_first_of_month(*at))
                    .collect()
            }
        }
    }
}

/// Returns the position of a grid line in the outer image, in pixels from the top.
fn tick_y(tick: f64, ticks: &[f64]) -> f64 {
    let top = ticks.last().copied().unwrap_or(1.0);
    f64::from(TOP_PIXELS) + f64::from(PLOT_PIXELS) * (1.0 - tick / top)
}

/// Rounds a grid step up to 1, 2 or 5 times a power of ten, at least 1.
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.max(1.0).log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= step)
        .unwrap_or(10.0);
    factor * power
}

/// Path through the centers of the buckets, with gaps at unknown values; `is_closed`: down to the
/// ground and back.
fn line(values: &[Option<f64>], y: impl Fn(f64) -> i64, is_closed: bool) -> String {
    let mut out = String::new();
    let mut start = None;
    let ends = values.iter().copied().chain([None]).enumerate();
    for (bucket, value) in ends {
        // Centers are at half units.
        match (value, start) {
            (Some(value), None) => {
                start = Some(bucket);
                let _ = write!(out, "M{bucket}.5 {}", y(value));
            }
            (Some(value), Some(_)) => {
                let _ = write!(out, "L{bucket}.5 {}", y(value));
            }
            (None, Some(first)) => {
                // A single bucket between two gaps is a dash, else it would be invisible.
                if first + 1 == bucket {
                    out.push_str("h.4");
                }
                if is_closed {
                    let _ = write!(out, "V{HEIGHT_UNITS}H{first}.5z");
                }
                start = None;
            }
            (None, None) => {}
        }
    }
    out
}

/// Draws values without neighbors as dots, since no line leads to them.
fn dots(values: &[Option<f64>], y: impl Fn(f64) -> i64) -> String {
    let mut out = String::new();
    let is_known = |bucket: usize| values.get(bucket).is_some_and(Option::is_some);
    for (bucket, value) in values.iter().enumerate() {
        if let Some(value) =
            value.filter(|_| !is_known(bucket.wrapping_sub(1)) && !is_known(bucket + 1))
        {
            let _ = write!(out, "M{bucket}.5 {}h.01", y(value));
        }
    }
    out
}

/// Draws columns from `ground` to the value; neighbors of the same height are merged.
fn columns(
    values: &[Option<f64>],
    y: impl Fn(f64) -> i64,
    ground: i64,
    wanted: impl Fn(f64) -> bool,
) -> String {
    let mut out = String::new();
    let mut bucket = 0;
    while let Some(value) = values.get(bucket) {
        let height = value.filter(|value| wanted(*value)).map(&y);
        let alike = values[bucket..]
            .iter()
            .take_while(|next| next.filter(|value| wanted(*value)).map(&y) == height);
        let end = bucket + alike.count();
        if let Some(height) = height {
            let _ = write!(out, "M{bucket} {ground}V{height}H{end}V{ground}z");
        }
        bucket = end;
    }
    out
}

/// Sparkline of the last 24 hours: players as an area, and marks where polls failed.
pub(crate) fn sparkline(
    players: &[Option<f32>; DAY_BUCKETS],
    answered: Option<&[Option<f32>; DAY_BUCKETS]>,
) -> Svg {
    let known = || players.iter().flatten().copied();
    let most = known().fold(0.0, f32::max);
    let mut out = String::with_capacity(1_024);
    let _ = write!(
        out,
        r#"<svg class="spark" viewBox="0 0 {DAY_BUCKETS} 96" preserveAspectRatio="none" role="img"><title>"#
    );
    if known().next().is_some() {
        let least = known().fold(f32::MAX, f32::min);
        let least = show::mean(f64::from(least));
        let most = show::mean(f64::from(most));
        out.push_str("Last 24 hours: ");
        let _ = if least == most {
            out.write_str(&counted(most, "player"))
        } else {
            write!(out, "{least} to {most} players")
        };
    } else {
        out.push_str("No data for the last 24 hours");
    }
    let values = players.map(|players| players.map(f64::from));
    // Leave room for the line width at the top, and for the marks at the bottom.
    let y = |value: f64| (86.0 - value / f64::from(most.max(1.0)) * 78.0).round() as i64;
    let hill = line(&values, y, true).replace("V1000", "V88");
    let _ = write!(
        out,
        r#"</title><path class="fill" d="{hill}"/><path class="mean" d="{}"/>"#,
        line(&values, y, false)
    );
    let alone = dots(&values, y);
    if !alone.is_empty() {
        let _ = write!(out, r#"<path class="dots" d="{alone}"/>"#);
    }
    if let Some(answered) = answered {
        let missing = answered.map(|share| share.filter(|share| *share < 1.0).map(f64::from));
        let marks = columns(&missing, |_| 89, 96, |_| true);
        if !marks.is_empty() {
            let _ = write!(out, r#"<path class="missing" d="{marks}"/>"#);
        }
    }
    out.push_str("</svg>");
    Svg(out)
}

fn escaped(out: &mut String, text: &str) -> fmt::Result {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_are_counted_in_ones_twos_and_fives() {
        assert_eq!(
            [0.0, 0.3, 1.1, 3.4, 7.0, 34.0, 167.0].map(nice),
            [1.0, 1.0, 2.0, 5.0, 10.0, 50.0, 200.0]
        );
    }

    #[test]
    fn lines_have_gaps() {
        let y = |value: f64| value as i64;
        let values = [Some(1.0), Some(2.0), None, Some(3.0), None];
        assert_eq!(line(&values, y, false), "M0.5 1L1.5 2M3.5 3h.4");
        assert_eq!(
            line(&values, y, true),
            "M0.5 1L1.5 2V1000H0.5zM3.5 3h.4V1000H3.5z"
        );
        assert_eq!(dots(&values, y), "M3.5 3h.01");
        let shares = [Some(1.0), Some(1.0), None, Some(0.0)];
        assert_eq!(columns(&shares, y, 9, |_| true), "M0 9V1H2V9zM3 9V0H4V9z");
    }

    #[test]
    fn charts_contain_their_values_and_no_markup() {
        let chart = Chart {
            label: "\"<Players>\"",
            from: 1_795_219_200_000,
            step: 300_000,
            values: &[Some(3.0), None, Some(f64::NAN), Some(f64::INFINITY)],
            highest: &[Some(7.0)],
            words: &|bucket| {
                if bucket == 1 {
                    String::new()
                } else {
                    format!("<{bucket}>")
                }
            },
            axis: &show::mean,
            style: ChartStyle::Area,
            now: 1_795_219_200_000,
        };
        let svg = chart.draw().to_string();
        assert!(
            svg.contains("aria-label=\"&quot;&lt;Players&gt;&quot;\""),
            "{svg}"
        );
        assert!(
            svg.contains("<path d=\"M0 0h1v1000h-1z\"><title>21 Nov 00:00 · &lt;0&gt;</title>"),
            "{svg}"
        );
        assert!(!svg.contains("M1 0h1"), "no data: {svg}");
        let empty = Chart {
            values: &[],
            highest: &[],
            ..chart
        };
        assert!(
            empty
                .draw()
                .to_string()
                .ends_with("no data in this time range</text></svg>")
        );
    }

    #[test]
    fn sparklines_have_a_title() {
        let mut players = [None; DAY_BUCKETS];
        assert!(sparkline(&players, None).to_string().contains("No data"));
        players[3] = Some(2.0);
        players[4] = Some(12.5);
        let mut answered = [None; DAY_BUCKETS];
        answered[3] = Some(1.0);
        answered[4] = Some(0.5);
        answered[5] = Some(0.0);
        let svg = sparkline(&players, Some(&answered)).to_string();
        assert!(svg.contains("Last 24 hours: 2 to 13 players"), "{svg}");
        assert!(
            svg.contains(r#"<path class="missing" d="M4 96V89H6V96z"/>"#),
            "{svg}"
        );
    }
}
