//! Texts of servers in their colours, without a style that a server chooses: classes of a list that the style sheet knows.

use hailer::Text;
use hailer::proto::model::{Colour, Style, is_control};

/// Pieces of one text beyond this are not shown: a rainbow has one for each letter.
const PIECES: usize = 400;

/// A piece of a text in one style.
#[derive(Debug, PartialEq)]
pub(crate) struct Piece {
    /// Classes of the style sheet, separated by blanks; empty: none.
    pub(crate) class: String,
    /// What to show, without controls; lines as they came.
    pub(crate) text: String,
}

/// The pieces of a text, up to so many characters in all.
pub(crate) fn pieces(text: &Text, most: usize) -> Vec<Piece> {
    let mut left = most;
    let mut pieces: Vec<Piece> = Vec::new();
    for (style, run) in text.runs() {
        if left == 0 || pieces.len() == PIECES {
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
            // Servers say the same colour again, and colours that are told apart there are one here.
            Some(last) if last.class == class => last.text.push_str(&shown),
            _ => pieces.push(Piece { class, text: shown }),
        }
    }
    pieces
}

/// `c0` to `cf` are the sixteen colours, `q000` to `q333` all others, four steps to each channel.
fn class(style: Style) -> String {
    let mut class = match style.colour {
        None => String::new(),
        Some(Colour::Legacy(code)) => format!("c{:x}", code & 15),
        Some(Colour::Rgb(r, g, b)) => {
            let [r, g, b] = [r, g, b].map(|channel| (u16::from(channel) + 42) / 85);
            format!("q{r}{g}{b}")
        }
    };
    let styles = [
        (style.bold, "mb"),
        (style.italic, "mi"),
        (style.underline, "mu"),
        (style.strikethrough, "ms"),
        (style.obfuscated, "mk"),
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
        assert_eq!(pieces(&Text::legacy(rainbow), 100_000).len(), PIECES + 1);
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
