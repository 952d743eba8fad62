//! Formatted texts of servers as HTML pieces: styles become classes of our own style sheet.

use hailer::proto::Text;
use hailer::proto::model::{Style, TextColor, is_control};

/// Maximum number of pieces per text: a rainbow has one per character.
const MAX_PIECES: usize = 400;

/// Part of a text in one style.
#[derive(Debug, PartialEq)]
pub(crate) struct Piece {
    /// CSS classes separated by spaces; empty: none.
    pub(crate) class: String,
    /// Text without control characters; line breaks are kept.
    pub(crate) text: String,
}

/// Splits a text into pieces, up to `most` characters in total.
pub(crate) fn pieces(text: &Text, most: usize) -> Vec<Piece> {
    let mut left = most;
    let mut pieces: Vec<Piece> = Vec::new();
    for (style, run) in text.runs() {
        if left == 0 || pieces.len() == MAX_PIECES {
            pieces.push(Piece {
                class: String::new(),
                text: "…".into(),
            });
            break;
        }
        let shown: String = run
            .chars()
            .filter(|&c| c == '\n' || !is_control(c))
            .take(left)
            .collect();
        left -= shown.chars().count();
        let class = class(style);
        match pieces.last_mut() {
            _ if shown.is_empty() => {}
            // Join neighbors whose styles have the same classes.
            Some(last) if last.class == class => last.text.push_str(&shown),
            _ => pieces.push(Piece { class, text: shown }),
        }
    }
    pieces
}

/// `c0` to `cf` are the 16 named colors, `q000` to `q333` the others, rounded to four steps per
/// channel.
fn class(style: Style) -> String {
    let mut class = match style.color {
        None => String::new(),
        Some(TextColor::Legacy(code)) => format!("c{:x}", code & 15),
        Some(TextColor::Rgb(r, g, b)) => {
            let [r, g, b] = [r, g, b].map(|channel| (u16::from(channel) + 42) / 85);
            format!("q{r}{g}{b}")
        }
    };
    let styles = [
        (style.is_bold, "mb"),
        (style.is_italic, "mi"),
        (style.is_underlined, "mu"),
        (style.is_struck, "ms"),
        (style.is_obfuscated, "mk"),
    ];
    for (_, word) in styles.iter().filter(|(is_on, _)| *is_on) {
        if !class.is_empty() {
            class.push(' ');
        }
        class.push_str(word);
    }
    class
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_are_classes() {
        let text = Text::legacy(
            "\u{A7}aGreen \u{A7}a\u{A7}lbold\u{202E}\u{A7}r plain\n\u{A7}x\u{A7}f\u{A7}f\u{A7}8\u{A7}0\u{A7}0\u{A7}0x",
        );
        let shown: Vec<_> = pieces(&text, 100)
            .into_iter()
            .map(|piece| (piece.class, piece.text))
            .collect();
        let expected = [
            ("ca", "Green "),
            ("ca mb", "bold"),
            ("", " plain\n"),
            ("q320", "x"),
        ];
        assert_eq!(
            shown,
            expected.map(|(class, text)| (class.to_owned(), text.to_owned()))
        );
    }

    #[test]
    fn long_ones_end() {
        let rainbow: String = (0..10_000)
            .map(|i| format!("\u{A7}{:x}a", i % 16))
            .collect();
        assert_eq!(
            pieces(&Text::legacy(rainbow), 100_000).len(),
            MAX_PIECES + 1
        );
        let long = pieces(
            &Text::legacy(format!("\u{A7}a{}\u{A7}bb", "a".repeat(1_000))),
            10,
        );
        assert_eq!(
            (long.len(), long[0].text.len(), long[1].text.as_str()),
            (2, 10, "…")
        );
    }
}
