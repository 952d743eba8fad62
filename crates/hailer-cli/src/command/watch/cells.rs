//! Values of a server as colored text, for the table and the details.

use super::board::Entry;
use crate::print::rate;
use crate::terminal::widgets::{dim, in_color};
use hailer_monitor::health::State;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

/// Latency in microseconds from which it is colored as slow.
const SLOW_MICROS: u32 = 100_000;
/// Latency in microseconds from which it is colored as very slow.
const VERY_SLOW_MICROS: u32 = 250_000;

/// Returns symbol, word and color of a state.
pub(super) fn state(entry: &Entry) -> (&'static str, Style) {
    match entry.seen.state {
        _ if entry.seen.is_flapping => ("◐ flaps", in_color(Color::Yellow)),
        State::Up => ("● up", in_color(Color::Green)),
        State::Down => ("✗ down", in_color(Color::Red)),
        State::Unknown => ("○ new", dim()),
    }
}

/// Returns the color of a latency in microseconds.
pub(super) fn speed(micros: u32) -> Style {
    in_color(match micros {
        ..SLOW_MICROS => Color::Green,
        SLOW_MICROS..VERY_SLOW_MICROS => Color::Yellow,
        _ => Color::Red,
    })
}

/// Formats the uptime of the last day. Anything below 100 % is never rounded up to it.
pub(super) fn uptime(share: Option<f32>) -> Span<'static> {
    let Some(share) = share else {
        return Span::styled("-", dim());
    };
    let color = match share {
        1.0.. => return Span::styled("100", in_color(Color::Green)),
        0.99.. => Color::Green,
        0.9.. => Color::Yellow,
        _ => Color::Red,
    };
    let percent = (share * 1e3).floor() / 10.0;
    Span::styled(format!("{percent:.1}"), in_color(color))
}

/// Formats player counts in aligned columns: `  12/20`.
pub(super) fn players(entry: &Entry) -> Line<'static> {
    let few = |number: u32| match number {
        ..10_000 => number.to_string(),
        _ => rate(f64::from(number)),
    };
    let Some(last) = entry.seen.last.filter(|last| last.is_answered) else {
        return Line::styled("   -", dim());
    };
    let on = last.players.map_or("?".into(), few);
    let max = last.max.map(|max| format!("/{}", few(max)));
    Line::from(vec![
        Span::raw(format!("{on:>4}")),
        Span::styled(max.unwrap_or_default(), dim()),
    ])
}

/// Formats a latency in milliseconds; slow ones are colored.
pub(super) fn latency(micros: Option<u32>) -> Span<'static> {
    let Some(micros) = micros else {
        return Span::styled("-", dim());
    };
    let milliseconds = f64::from(micros) / 1e3;
    let words = match milliseconds {
        ..99.95 => format!("{milliseconds:.1}"),
        ..99_999.5 => format!("{milliseconds:.0}"),
        _ => rate(milliseconds),
    };
    Span::styled(words, speed(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptime_is_never_rounded_up_to_100_percent() {
        let words = |share| uptime(Some(share)).content.to_string();
        assert_eq!(
            [1.0, 0.9999, 0.5, 0.0].map(words),
            ["100", "99.9", "50.0", "0.0"]
        );
        let words = |micros| latency(Some(micros)).content.to_string();
        assert_eq!(
            [0, 12_340, 99_960, 1_234_000, u32::MAX].map(words),
            ["0.0", "12.3", "100", "1234", "4.3M"]
        );
        assert_eq!(
            [99_999, 100_000, 250_000].map(|micros| speed(micros).fg.unwrap()),
            [Color::Green, Color::Yellow, Color::Red]
        );
    }
}
