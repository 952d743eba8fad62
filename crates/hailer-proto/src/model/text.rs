//! Text with colours: parsed once, then available as plain text, for a terminal, or as received.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use compact_str::CompactString;
use core::fmt::Write;
use memchr::memchr_iter;

/// Text of a server with its formatting.
///
/// Texts of servers are untrusted. [`Text::plain`] and [`Text::ansi`] remove all control
/// characters, so their results are safe to print to a terminal. [`Text::raw`] is the text as
/// received, unfiltered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// Texts of up to 24 bytes are not allocated: there are many names of players, and they are
    /// short.
    raw: CompactString,
    /// Boxed because most texts have no runs.
    format: Option<Box<Format>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Format {
    /// Runs of one style each. Empty if the whole text has the default style.
    runs: Vec<Run>,
    latin1: bool,
}

/// A run of text in one style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    start: usize,
    end: usize,
    /// Style of the run.
    pub style: Style,
}

/// Style of a run of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Colour; `None` for the default.
    pub colour: Option<Colour>,
    /// Bold (code `l`).
    pub bold: bool,
    /// Italic (code `o`).
    pub italic: bool,
    /// Underlined (code `n`).
    pub underline: bool,
    /// Strikethrough (code `m`).
    pub strikethrough: bool,
    /// Obfuscated: the letters change constantly in the game (code `k`).
    pub obfuscated: bool,
}

/// A colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// One of the sixteen colours of the legacy codes `0` to `f`.
    Legacy(u8),
    /// Red, green, blue.
    Rgb(u8, u8, u8),
}

impl Colour {
    /// Returns red, green and blue, as the game shows the colour.
    pub fn rgb(self) -> (u8, u8, u8) {
        match self {
            Self::Rgb(r, g, b) => (r, g, b),
            Self::Legacy(6) => (255, 170, 0),
            Self::Legacy(code) => {
                let bright = if code & 8 != 0 { 85 } else { 0 };
                let channel = |bit: u8| {
                    if code & bit != 0 {
                        170 + bright
                    } else {
                        bright
                    }
                };
                (channel(4), channel(2), channel(1))
            }
        }
    }

    /// Returns the colour as SGR parameters of a terminal.
    fn sgr(self) -> String {
        // Terminals number their colours red, green, blue from the lowest bit; the legacy codes use
        // the opposite order.
        match self {
            Self::Rgb(r, g, b) => format!("38;2;{r};{g};{b}"),
            Self::Legacy(code) => {
                let reversed = (code & 1) << 2 | (code & 2) | (code & 4) >> 2;
                format!("{}", if code & 8 != 0 { 90 } else { 30 } + reversed)
            }
        }
    }
}

/// Section sign: starts a legacy formatting code.
const SECTION: char = '\u{A7}';
/// First byte of the section sign in UTF-8.
const SECTION_START: u8 = 0xC2;

impl Text {
    /// Creates a text without formatting codes.
    pub fn unformatted(raw: impl Into<CompactString>) -> Self {
        Self {
            raw: raw.into(),
            format: None,
        }
    }

    /// Parses text with Minecraft's section-sign codes: `0`-`f`, `k`-`o`, `r`, and `x` with six
    /// more digits for any colour.
    pub fn legacy(raw: impl Into<CompactString>) -> Self {
        let raw = raw.into();
        // Searching for the first byte of the sign is faster than for the sign, and most texts have
        // neither.
        let has_codes = raw.as_bytes().contains(&SECTION_START) && raw.contains(SECTION);
        let format = has_codes.then(|| {
            Box::new(Format {
                runs: parse(&raw),
                latin1: false,
            })
        });
        Self { raw, format }
    }

    /// Records that the text was received as ISO-8859-1, so that [`Text::bytes`] returns the same
    /// bytes.
    #[must_use]
    pub fn from_latin1(mut self, latin1: bool) -> Self {
        if latin1 {
            self.format.get_or_insert_default().latin1 = true;
        }
        self
    }

    /// Returns the text as received, with its codes. May contain control characters.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Returns the bytes as received.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        if self.format.as_ref().is_some_and(|format| format.latin1) {
            Cow::Owned(
                self.raw
                    .chars()
                    .filter_map(crate::wire::Latin1::byte)
                    .collect(),
            )
        } else {
            Cow::Borrowed(self.raw.as_bytes())
        }
    }

    /// Returns the runs with their styles, without codes, but with control characters.
    pub fn runs(&self) -> impl Iterator<Item = (Style, &str)> {
        let whole = Run {
            start: 0,
            end: self.raw.len(),
            style: Style::default(),
        };
        let styled = self.styled();
        let runs = styled
            .is_empty()
            .then_some(whole)
            .into_iter()
            .chain(styled.iter().copied());
        runs.filter_map(|run| Some((run.style, self.raw.get(run.start..run.end)?)))
    }

    fn styled(&self) -> &[Run] {
        self.format.as_ref().map_or(&[], |format| &format.runs)
    }

    /// Returns the text without codes and without control characters other than line breaks.
    pub fn plain(&self) -> String {
        match self.is_plain() {
            true => String::from(self.raw()),
            false => self.filtered().into_string(),
        }
    }

    /// Returns [`Text::plain`], without an allocation if it is short or has nothing to remove.
    pub(crate) fn into_short(self) -> CompactString {
        match self.is_plain() {
            true => self.raw,
            false => self.filtered(),
        }
    }

    /// Returns whether there is nothing to remove, as in most texts. Checks bytes, which is faster
    /// than characters.
    fn is_plain(&self) -> bool {
        self.styled().is_empty() && self.raw.bytes().all(|byte| matches!(byte, b' '..=b'~'))
    }

    fn filtered(&self) -> CompactString {
        let mut out = CompactString::with_capacity(self.raw.len());
        for (_, piece) in self.runs() {
            out.extend(piece.chars().filter(|&c| c == '\n' || !is_control(c)));
        }
        out
    }

    /// Returns the text for a terminal: with ANSI colours and styles, reset at the end of each
    /// line, and without control characters of the server.
    pub fn ansi(&self) -> String {
        let mut out = String::with_capacity(self.raw.len() * 2);
        for (style, piece) in self.runs() {
            // Each line is complete, so that lines can be printed separately.
            for (i, line) in piece.split('\n').enumerate() {
                if i > 0 {
                    out.push('\n');
                }
                let line: String = line.chars().filter(|&c| !is_control(c)).collect();
                if line.is_empty() || style == Style::default() {
                    out.push_str(&line);
                } else {
                    style.start(&mut out);
                    out.push_str(&line);
                    out.push_str("\x1b[0m");
                }
            }
        }
        out
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Text {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut text = serializer.serialize_struct("Text", 2)?;
        text.serialize_field("plain", &self.plain())?;
        text.serialize_field("raw", &self.raw)?;
        text.end()
    }
}

impl Style {
    fn start(self, out: &mut String) {
        let mut codes = Vec::new();
        let flags = [
            (self.bold, "1"),
            (self.italic, "3"),
            (self.underline, "4"),
            (self.strikethrough, "9"),
        ];
        codes.extend(
            flags
                .iter()
                .filter(|(on, _)| *on)
                .map(|(_, code)| String::from(*code)),
        );
        codes.extend(self.colour.map(Colour::sgr));
        if !codes.is_empty() {
            let _ = write!(out, "\x1b[{}m", codes.join(";"));
        }
    }
}

/// Returns any other text of a server as one line for a terminal: without control characters, and
/// with spaces instead of line breaks.
pub fn printable(text: &str) -> String {
    let spaced = text
        .chars()
        .map(|c| if matches!(c, '\n' | '\t') { ' ' } else { c });
    spaced.filter(|&c| !is_control(c)).collect()
}

/// Returns whether a character must not reach a terminal: control characters, and those that
/// reorder the line.
pub fn is_control(c: char) -> bool {
    let reorders = matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    // Two line breaks of Unicode.
    c.is_control() || reorders || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Splits a text at its codes. A colour resets all styles, as in the game. An unknown code is
/// dropped with its letter.
fn parse(raw: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut style = Style::default();
    let mut start = 0;
    for at in memchr_iter(SECTION_START, raw.as_bytes()) {
        // This is the letter of another sign, or not a sign.
        let Some(rest) = raw
            .get(at..)
            .filter(|_| at >= start)
            .and_then(|rest| rest.strip_prefix(SECTION))
        else {
            continue;
        };
        if at > start {
            runs.push(Run {
                start,
                end: at,
                style,
            });
        }
        let mut chars = rest.chars();
        let Some(code) = chars.next() else {
            start = raw.len();
            break;
        };
        match code.to_ascii_lowercase() {
            'k' => style.obfuscated = true,
            'l' => style.bold = true,
            'm' => style.strikethrough = true,
            'n' => style.underline = true,
            'o' => style.italic = true,
            'r' => style = Style::default(),
            'x' => {
                if let Some(colour) = hex_colour(chars.as_str()) {
                    style = Style {
                        colour: Some(colour),
                        ..Style::default()
                    };
                    chars.nth(HEX_CODES - 1);
                }
            }
            digit => {
                if let Some(digit) = digit.to_digit(16) {
                    style = Style {
                        colour: Some(Colour::Legacy(digit as u8)),
                        ..Style::default()
                    };
                }
            }
        }
        start = raw.len() - chars.as_str().len();
    }
    if start < raw.len() {
        runs.push(Run {
            start,
            end: raw.len(),
            style,
        });
    }
    if runs.is_empty() {
        // A text of codes only gets one empty run, to distinguish it from a text without codes.
        runs.push(Run {
            start: 0,
            end: 0,
            style,
        });
    }
    runs
}

/// Characters of the six section-digit pairs that follow `x`.
const HEX_CODES: usize = 12;

fn hex_colour(rest: &str) -> Option<Colour> {
    let mut chars = rest.chars();
    let mut value = 0u32;
    for _ in 0..HEX_CODES / 2 {
        if chars.next()? != SECTION {
            return None;
        }
        value = value << 4 | chars.next()?.to_digit(16)?;
    }
    let [_, r, g, b] = value.to_be_bytes();
    Some(Colour::Rgb(r, g, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_styles() {
        let text = Text::legacy("\u{A7}aGreen \u{A7}lbold\u{A7}r plain");
        let runs: Vec<_> = text.runs().collect();
        let green = Style {
            colour: Some(Colour::Legacy(10)),
            ..Style::default()
        };
        let bold = Style {
            bold: true,
            ..green
        };
        assert_eq!(
            runs,
            [
                (green, "Green "),
                (bold, "bold"),
                (Style::default(), " plain")
            ]
        );
        assert_eq!(text.plain(), "Green bold plain");
        assert_eq!(
            text.ansi(),
            "\x1b[92mGreen \x1b[0m\x1b[1;92mbold\x1b[0m plain"
        );
        assert_eq!(text.raw(), "\u{A7}aGreen \u{A7}lbold\u{A7}r plain");
    }

    #[test]
    fn hexadecimal_colours() {
        let text = Text::legacy("\u{A7}x\u{A7}f\u{A7}f\u{A7}8\u{A7}0\u{A7}0\u{A7}1orange");
        assert_eq!(text.plain(), "orange");
        assert_eq!(text.ansi(), "\x1b[38;2;255;128;1morange\x1b[0m");
    }

    #[test]
    fn a_text_of_codes_only_is_empty() {
        assert_eq!(Text::legacy("\u{A7}a\u{A7}l").plain(), "");
        assert_eq!(Text::legacy("\u{A7}").plain(), "");
    }

    #[test]
    fn a_server_cannot_steer_the_terminal() {
        let text = Text::legacy("\u{A7}a\x1b[2Jhi\u{9b}31m\u{202E}!\r\n\0");
        assert_eq!(text.plain(), "[2Jhi31m!\n");
        assert_eq!(text.ansi(), "\x1b[92m[2Jhi31m!\x1b[0m\n");
    }

    #[test]
    fn bytes_come_back_in_the_encoding_they_came_in() {
        assert_eq!(
            &*Text::legacy("\u{A7}a\u{E9}").from_latin1(true).bytes(),
            b"\xA7a\xE9"
        );
        assert_eq!(&*Text::legacy("\u{A7}a").bytes(), b"\xC2\xA7a");
    }

    #[test]
    fn legacy_colours_as_the_game_draws_them() {
        assert_eq!(Colour::Legacy(0).rgb(), (0, 0, 0));
        assert_eq!(Colour::Legacy(6).rgb(), (255, 170, 0));
        assert_eq!(Colour::Legacy(7).rgb(), (170, 170, 170));
        assert_eq!(Colour::Legacy(12).rgb(), (255, 85, 85));
        assert_eq!(Colour::Legacy(15).rgb(), (255, 255, 255));
    }
}
