//! Removes colors from terminal screens if `NO_COLOR` is set, and keeps other attributes.

use crossterm::style::force_color_output;
use ratatui::buffer::Buffer;
use ratatui::style::Color;

/// Whether screens have colors.
pub(super) struct Ink {
    is_colorless: bool,
}

impl Ink {
    /// Reads the environment. Must be called before anything is drawn.
    pub(super) fn wanted() -> Self {
        let is_colorless = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        // With NO_COLOR, crossterm writes incomplete color codes, which also reset bold and
        // reversed text.
        force_color_output(true);
        Self { is_colorless }
    }

    /// Removes the colors of a drawn screen, if they are disabled.
    pub(super) fn apply(&self, drawn: &mut Buffer) {
        if self.is_colorless {
            for cell in &mut drawn.content {
                cell.fg = Color::Reset;
                cell.bg = Color::Reset;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::layout::Rect;
    use ratatui::style::{Modifier, Style};

    #[test]
    fn reversed_order_stays_reversed() {
        let style = Style::new()
            .fg(Color::Red)
            .bg(Color::Rgb(1, 2, 3))
            .add_modifier(Modifier::REVERSED);
        for is_colorless in [false, true] {
            let mut drawn = Buffer::empty(Rect::new(0, 0, 3, 1));
            drawn.set_string(0, 0, "abc", style);
            Ink { is_colorless }.apply(&mut drawn);
            let cell = &drawn.content[1];
            assert_eq!((cell.symbol(), cell.modifier), ("b", Modifier::REVERSED));
            assert_eq!(
                (cell.fg == Color::Reset, cell.bg == Color::Reset),
                (is_colorless, is_colorless)
            );
        }
    }
}
