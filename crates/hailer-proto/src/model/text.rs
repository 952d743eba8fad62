//! Text with colors: parsed once, then available as plain text, for a terminal, or as received.

use crate::wire::codepage::{self, CodePage, utf8_or_western};
use crate::wire::{Latin1, by_content, offsets};
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
///
/// Texts are equal if they have the same characters and styles, regardless of their
/// [codes](Text::codes) and of the encoding that they were received in.
#[derive(Clone, Debug, Default)]
pub struct Text {
    /// The text as received. Texts of up to 24 bytes are not allocated: there are many names of
    /// players, and they are short.
    raw: CompactString,
    /// Styles of the text. Boxed because most texts have none.
    format: Option<Box<Format>>,
    codes: Codes,
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw && (self.styled() == other.styled() || pieces(self).eq(pieces(other)))
    }
}

impl Eq for Text {}

/// Returns the runs that show something, neighbors with one style as one.
fn pieces(text: &Text) -> impl Iterator<Item = Run> {
    let mut runs = text.all_runs().filter(|run| run.start < run.end).peekable();
    core::iter::from_fn(move || {
        let mut run = runs.next()?;
        while let Some(next) = runs.next_if(|next| next.start == run.end && next.style == run.style)
        {
            run.end = next.end;
        }
        Some(run)
    })
}

/// Formatting codes of a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codes {
    /// None.
    #[default]
    None,
    /// Section signs of Minecraft's Java Edition: [`Text::legacy`].
    Legacy,
    /// Section signs of Minecraft's Bedrock Edition: [`Text::bedrock`].
    Bedrock,
    /// Carets of the Quake family: [`Text::carets`].
    Carets(Carets),
    /// Escape characters of Unreal: [`Text::unreal`].
    Unreal,
    /// Hexadecimal numbers of Armagetron: [`Text::hex_codes`].
    Hex,
    /// Tags in angle brackets: [`Text::tags`].
    Tags,
}

impl Codes {
    /// Parses a text with these codes.
    pub fn parse(self, raw: impl Into<CompactString>) -> Text {
        match self {
            Self::None => Text::unformatted(raw),
            Self::Legacy => Text::legacy(raw),
            Self::Bedrock => Text::bedrock(raw),
            Self::Carets(carets) => Text::carets(raw, carets),
            Self::Unreal => Text::unreal(raw),
            Self::Hex => Text::hex_codes(raw),
            Self::Tags => Text::tags(raw),
        }
    }

    /// Returns the style that comes closest to another one.
    fn nearest(self, style: Style) -> Style {
        let plain = Style::default();
        match self {
            Self::None | Self::Hex | Self::Tags => plain,
            Self::Legacy => Style {
                color: style.color.map(TextColor::nearest_legacy),
                ..style
            },
            Self::Bedrock => Style {
                is_underlined: false,
                is_struck: false,
                ..Self::Legacy.nearest(style)
            },
            Self::Carets(carets) => Style {
                color: style.color.map(|color| carets.nearest(color)),
                ..plain
            },
            Self::Unreal => Style {
                color: style.color,
                ..plain
            },
        }
    }

    /// Appends the codes that change one style, as [`nearest`](Self::nearest) returns it, to
    /// another.
    fn write_change(self, from: Style, to: Style, out: &mut String) {
        match self {
            _ if from == to => {}
            Self::None | Self::Hex | Self::Tags => {}
            Self::Legacy => to.codes(from, out),
            Self::Bedrock => to.bedrock_codes(from, out),
            Self::Carets(carets) => carets.write(to.color, out),
            Self::Unreal => {
                let (r, g, b) = to.color.map_or((255, 255, 255), TextColor::rgb);
                out.push(ESCAPE);
                out.extend([r, g, b].map(unreal_channel));
            }
        }
    }

    /// Returns a text without codes of this kind in it.
    fn escape(self, text: &str) -> Cow<'_, str> {
        let mark = match self {
            Self::None | Self::Hex | Self::Tags => return Cow::Borrowed(text),
            Self::Legacy | Self::Bedrock => SECTION,
            Self::Carets(_) => '^',
            Self::Unreal => ESCAPE,
        };
        match self {
            _ if !text.contains(mark) => Cow::Borrowed(text),
            Self::Carets(carets) if carets.has_doubled() => Cow::Owned(text.replace('^', "^^")),
            // Most carets are no codes, such as those of faces.
            Self::Carets(carets) if Text::carets(text, carets).plain_runs() == text => {
                Cow::Borrowed(text)
            }
            _ => Cow::Owned(text.replace(mark, "")),
        }
    }
}

/// Returns a channel of a color of Unreal as a character. Some bytes are the end of a text in one of
/// its protocols, or have no character in Windows-1252.
fn unreal_channel(channel: u8) -> char {
    match channel {
        0 => '\u{1}',
        b'\n' | b'\r' | b'\\' | 0x1B => char::from(channel + 1),
        0x80..=0x9F => '\u{A0}',
        channel => char::from(channel),
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Format {
    /// Runs of one style each. Empty if the whole text has the default style.
    runs: Vec<Run>,
    /// Whether the encoding had one byte for each character.
    is_single_byte: bool,
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
    /// Color; `None` for the default.
    pub color: Option<TextColor>,
    /// Bold (code `l`).
    pub is_bold: bool,
    /// Italic (code `o`).
    pub is_italic: bool,
    /// Underlined (code `n`).
    pub is_underlined: bool,
    /// Strikethrough (code `m`).
    pub is_struck: bool,
    /// Obfuscated: the letters change constantly in the game (code `k`).
    pub is_obfuscated: bool,
}

/// Color of a run of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextColor {
    /// One of the sixteen colors of the legacy codes `0` to `f`.
    Legacy(u8),
    /// Red, green, blue.
    Rgb(u8, u8, u8),
}

impl TextColor {
    /// Returns red, green and blue, as the game shows the color.
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

    /// Returns the nearest of the sixteen colors of the legacy codes.
    fn nearest_legacy(self) -> Self {
        // The brighter of two equally near colors, so that yellow does not become gold.
        let nearest = |codes: core::ops::Range<u8>| {
            let codes = codes.rev();
            codes.min_by_key(|code| self.distance(Self::Legacy(*code)))
        };
        match self {
            Self::Legacy(_) => self,
            Self::Rgb(..) => Self::Legacy(nearest(0..16).unwrap_or(15)),
        }
    }

    /// Returns the square of the distance between two colors.
    fn distance(self, other: Self) -> u32 {
        let ((r, g, b), (x, y, z)) = (self.rgb(), other.rgb());
        [(r, x), (g, y), (b, z)]
            .map(|(from, to)| u32::from(from.abs_diff(to)).pow(2))
            .iter()
            .sum()
    }

    /// Parses six hexadecimal digits, followed by anything.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.get(..HEX_DIGITS)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let [_, r, g, b] = u32::from_str_radix(digits, 16).ok()?.to_be_bytes();
        Some(Self::Rgb(r, g, b))
    }

    /// Returns the color as SGR parameters of a terminal.
    fn sgr(self) -> String {
        // Terminals number their colors red, green, blue from the lowest bit; the legacy codes use
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

/// Caret codes of a game: what is a color code after a caret (spec/quake3.md#6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Carets {
    /// A letter or digit: ioquake3, OpenArena, Urban Terror.
    #[default]
    Alphanumeric,
    /// Any visible character; two carets show one: Quake 3, RTCW, Enemy Territory, SoF2, Doom 3.
    Visible,
    /// A digit: Jedi Knight, Call of Duty.
    Digit,
    /// A digit, or `x` with three hexadecimal digits; two carets show one: Xonotic, Warsow.
    DarkPlaces,
    /// As `Visible`, and `c` with three digits for a color, or `i` with three characters for an
    /// icon: Quake 4.
    Quake4,
    /// As `DarkPlaces`, and `#` with six hexadecimal digits: Unvanquished.
    Daemon,
    /// Three digits for a color, or a letter or digit: Savage 2.
    Savage,
}

impl Carets {
    /// Returns the length of the code after a caret, and its color. `None`: the caret is text.
    fn code(self, rest: &str) -> Option<(usize, Option<TextColor>)> {
        let code = rest.chars().next()?;
        let digits = |count: usize| -> Option<u32> {
            let digits = rest.get(1..=count)?;
            let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            is_hex.then(|| u32::from_str_radix(digits, 16).ok())?
        };
        let has_rgb = matches!(self, Self::DarkPlaces | Self::Daemon);
        if let Some(rgb) = digits(3).filter(|_| has_rgb && code == 'x') {
            let channel = |shift: u32| (rgb >> shift & 15) as u8 * 17;
            return Some((4, Some(TextColor::Rgb(channel(8), channel(4), channel(0)))));
        }
        if let Some(rgb) = digits(6).filter(|_| self == Self::Daemon && code == '#') {
            let [_, r, g, b] = rgb.to_be_bytes();
            return Some((7, Some(TextColor::Rgb(r, g, b))));
        }
        let three = || {
            rest.get(1..4)
                .filter(|three| self == Self::Quake4 && three.is_ascii())
        };
        if let Some(digits) = rest.get(..3).filter(|_| self == Self::Savage)
            && digits.bytes().all(|byte| byte.is_ascii_digit())
        {
            let mut channels = digits.bytes().map(|digit| (digit - b'0') * 28);
            let mut next = || channels.next().unwrap_or_default();
            return Some((3, Some(TextColor::Rgb(next(), next(), next()))));
        }
        if let Some(digits) = three().filter(|_| code == 'c') {
            let mut channels = digits
                .bytes()
                .map(|digit| digit.checked_sub(b'0').filter(|d| *d < 10));
            if let Some([r, g, b]) = channels.next().flatten().and_then(|r| {
                Some([r, channels.next()??, channels.next()??].map(|digit| digit * 28))
            }) {
                return Some((4, Some(TextColor::Rgb(r, g, b))));
            }
        }
        if three().is_some_and(|_| code == 'i') {
            return Some((4, None));
        }
        let is_code = match self {
            Self::Alphanumeric | Self::Savage => code.is_ascii_alphanumeric(),
            Self::Visible | Self::Quake4 => code != '^' && !code.is_whitespace(),
            Self::Digit | Self::DarkPlaces | Self::Daemon => code.is_ascii_digit(),
        };
        is_code.then(|| (code.len_utf8(), self.color(code)))
    }

    fn color(self, code: char) -> Option<TextColor> {
        let [_, r, g, b] = match (self, code) {
            (Self::Digit, '8') => 0xFF_8000_u32,
            (Self::Digit, '9') => 0x80_8080,
            // The games count eight colors from the digit 0, in three bits.
            _ => match (u32::from(code)).wrapping_sub(u32::from('0')) & 7 {
                0 => 0,
                1 => 0xFF_0000,
                2 => 0x00_FF00,
                3 => 0xFF_FF00,
                4 => 0x00_00FF,
                5 => 0x00_FFFF,
                6 => 0xFF_00FF,
                _ => 0xFF_FFFF,
            },
        }
        .to_be_bytes();
        Some(TextColor::Rgb(r, g, b))
    }

    /// Returns the nearest color that has a code.
    fn nearest(self, color: TextColor) -> TextColor {
        let (r, g, b) = color.rgb();
        let steps = |step: u8| {
            let round = |channel: u8| channel.saturating_add(step / 2) / step;
            TextColor::Rgb(
                round(r).min(u8::MAX / step) * step,
                round(g).min(u8::MAX / step) * step,
                round(b).min(u8::MAX / step) * step,
            )
        };
        match self {
            Self::Daemon => TextColor::Rgb(r, g, b),
            Self::DarkPlaces => steps(DARK_PLACES_STEP),
            Self::Quake4 | Self::Savage => steps(DIGIT_STEP),
            Self::Alphanumeric | Self::Visible | Self::Digit => {
                let colors = self.digits().map(|(_, color)| color);
                let nearest = colors.min_by_key(|other| other.distance(color));
                nearest.unwrap_or(color)
            }
        }
    }

    /// Returns the digits with colors, and their colors.
    fn digits(self) -> impl Iterator<Item = (char, TextColor)> {
        let last = if self == Self::Digit { '9' } else { '7' };
        let digits = ('0'..=last).filter_map(move |digit| Some((digit, self.color(digit)?)));
        digits.take_while(move |_| self != Self::Savage)
    }

    /// Appends the code of a color that [`nearest`](Self::nearest) returned, or of the default color.
    fn write(self, color: Option<TextColor>, out: &mut String) {
        let color = color.unwrap_or(TextColor::Rgb(255, 255, 255));
        let digit = self.digits().find(|(_, known)| *known == color);
        let (r, g, b) = color.rgb();
        // Writing to a `String` does not fail.
        let _ = match (self, digit) {
            (_, Some((digit, _))) => write!(out, "^{digit}"),
            (Self::DarkPlaces, None) => {
                let [r, g, b] = [r, g, b].map(|channel| channel / DARK_PLACES_STEP);
                write!(out, "^x{r:X}{g:X}{b:X}")
            }
            (Self::Daemon, None) => write!(out, "^#{r:02X}{g:02X}{b:02X}"),
            (_, None) => {
                let [r, g, b] = [r, g, b].map(|channel| channel / DIGIT_STEP);
                let start = if self == Self::Quake4 { "c" } else { "" };
                write!(out, "^{start}{r}{g}{b}")
            }
        };
    }

    /// Returns whether two carets show one.
    fn has_doubled(self) -> bool {
        !matches!(self, Self::Alphanumeric | Self::Digit | Self::Savage)
    }
}

/// Difference of two steps of a channel in the colors of [`Carets::DarkPlaces`].
const DARK_PLACES_STEP: u8 = 17;
/// The same for a channel of one decimal digit.
const DIGIT_STEP: u8 = 28;
/// Section sign: starts a legacy formatting code.
const SECTION: char = '\u{A7}';
/// Starts a color code of Armagetron.
const HEX_PREFIX: &str = "0x";
/// Follows [`HEX_PREFIX`] in the code for the default color.
const HEX_RESET: &str = "RESETT";
/// Starts a color code of Unreal.
const ESCAPE: char = '\u{1B}';
/// First byte of the section sign in UTF-8.
const SECTION_START: u8 = 0xC2;

impl Text {
    /// Creates a text without formatting codes.
    pub fn unformatted(raw: impl Into<CompactString>) -> Self {
        Self {
            raw: raw.into(),
            format: None,
            codes: Codes::None,
        }
    }

    /// Creates a text whose runs are parsed if it `has_codes`.
    #[inline]
    fn formatted(
        raw: CompactString,
        codes: Codes,
        has_codes: bool,
        parse: impl FnOnce(&str) -> Vec<Run>,
    ) -> Self {
        let format = has_codes.then(|| {
            Box::new(Format {
                runs: parse(&raw),
                is_single_byte: false,
            })
        });
        Self { raw, format, codes }
    }

    /// Decodes text without formatting codes [by content](crate::wire::by_content).
    pub fn by_content(bytes: &[u8]) -> Self {
        let (text, is_latin1) = by_content(bytes);
        Self::unformatted(text).from_single_byte(is_latin1)
    }

    /// Decodes text without formatting codes by content, in UTF-8 or a
    /// [code page of Windows](crate::wire::codepage::decode).
    pub fn windows(bytes: &[u8]) -> Self {
        let is_utf8 = core::str::from_utf8(bytes).is_ok();
        Self::unformatted(codepage::decode(bytes)).from_single_byte(!is_utf8)
    }

    /// Decodes like [`windows`](Self::windows); `None` if there is no text.
    pub fn filled_windows(bytes: &[u8]) -> Option<Self> {
        (!bytes.is_empty()).then(|| Self::windows(bytes))
    }

    /// Parses text with Minecraft's section-sign codes: `0`-`f`, `k`-`o`, `r`, and for any color
    /// `x` with six more codes or `#` with six digits.
    pub fn legacy(raw: impl Into<CompactString>) -> Self {
        let raw = raw.into();
        // Most texts are ASCII, and searching for the first byte of the sign is faster than for the
        // sign.
        let has_codes =
            !raw.is_ascii() && raw.as_bytes().contains(&SECTION_START) && raw.contains(SECTION);
        Self::formatted(raw, Codes::Legacy, has_codes, parse)
    }

    /// Parses text with the codes of Minecraft's Bedrock Edition. There `m` and `n` are colors, as
    /// are `g` to `v` without `k`, `l`, `o` and `r`, and a color keeps the styles
    /// (spec/minecraft-bedrock.md#4.3).
    pub fn bedrock(raw: impl Into<CompactString>) -> Self {
        let raw = raw.into();
        let has_codes = raw.contains(SECTION);
        Self::formatted(raw, Codes::Bedrock, has_codes, parse_bedrock)
    }

    /// Parses text whose form without codes is known: with the first kind of codes that gives this
    /// form, or else with Minecraft's section-sign codes.
    pub fn with_plain(raw: &str, plain: &str) -> Self {
        let text = Self::unformatted(raw);
        if text.to_plain() == plain {
            return text;
        }
        let carets = [
            Carets::Alphanumeric,
            Carets::Visible,
            Carets::Digit,
            Carets::DarkPlaces,
            Carets::Quake4,
            Carets::Daemon,
            Carets::Savage,
        ];
        let first = [
            Self::legacy(raw),
            Self::bedrock(raw),
            Self::unreal(raw),
            Self::hex_codes(raw),
            Self::tags(raw),
        ];
        let all = first
            .into_iter()
            .chain(carets.map(|carets| Self::carets(raw, carets)));
        all.into_iter()
            .find(|text| text.plain() == plain)
            .unwrap_or_else(|| Self::legacy(raw))
    }

    /// Parses text with the caret codes of the Quake family.
    pub fn carets(raw: impl Into<CompactString>, carets: Carets) -> Self {
        let raw = raw.into();
        let has_codes = offsets(b'^', raw.as_bytes()).next().is_some();
        Self::formatted(raw, Codes::Carets(carets), has_codes, |raw| {
            parse_carets(raw, carets)
        })
    }

    /// Parses text with the color codes of Unreal: an escape character, and red, green and blue as
    /// one character each (spec/unreal2.md#3.2).
    pub fn unreal(raw: impl Into<CompactString>) -> Self {
        let raw = raw.into();
        let has_codes = raw.contains(ESCAPE);
        Self::formatted(raw, Codes::Unreal, has_codes, parse_unreal)
    }

    /// Parses text with tags in angle brackets: `<color=#rrggbb>`, `<#rrggbb>`, `<b>`, `<i>`, `<u>`
    /// and their ends. Other tags, such as sizes, have no effect and are no part of the plain text.
    pub fn tags(raw: impl Into<CompactString>) -> Self {
        let raw = raw.into();
        let has_codes = raw.contains('<');
        Self::formatted(raw, Codes::Tags, has_codes, parse_tags)
    }

    /// Parses text with the color codes of Armagetron: `0x` and six hexadecimal digits, or
    /// `0xRESETT` for the default color (spec/armagetron.md#4).
    pub fn hex_codes(raw: impl Into<CompactString>) -> Self {
        let raw = raw.into();
        let has_codes = raw.contains(HEX_PREFIX);
        Self::formatted(raw, Codes::Hex, has_codes, parse_hex_codes)
    }

    /// Decodes text without formatting codes: UTF-8 if it is valid, else Windows-1252.
    pub fn western(bytes: &[u8]) -> Self {
        let (text, is_western) = utf8_or_western(bytes);
        Self::unformatted(text).from_single_byte(is_western)
    }

    /// Decodes text with the caret codes of the Quake family, like [`Text::western`].
    pub fn western_carets(bytes: &[u8], carets: Carets) -> Self {
        let (text, is_western) = utf8_or_western(bytes);
        Self::carets(text, carets).from_single_byte(is_western)
    }

    /// Records that the text was received in ISO-8859-1, in Windows-1252, which extends it, or in
    /// Windows-1251, so that [`Text::bytes`] returns the same bytes.
    #[must_use]
    pub fn from_single_byte(mut self, is_single_byte: bool) -> Self {
        if is_single_byte {
            self.format.get_or_insert_default().is_single_byte = true;
        }
        self
    }

    /// Returns whether the text may have formatting codes.
    #[inline]
    pub fn may_have_codes(&self) -> bool {
        self.format.is_some()
    }

    /// Returns the text as received, with its codes. May contain control characters.
    #[inline]
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// Returns the bytes as received.
    pub fn bytes(&self) -> Cow<'_, [u8]> {
        if self.is_single_byte() {
            Cow::Owned(CodePage::bytes_of(&self.raw).unwrap_or_default())
        } else {
            Cow::Borrowed(self.raw.as_bytes())
        }
    }

    /// Returns whether the text was received in an encoding with one byte for each character, or was
    /// decoded like that for want of a better guess.
    pub fn is_single_byte(&self) -> bool {
        let format = self.format.as_ref();
        format.is_some_and(|format| format.is_single_byte)
    }

    /// Decodes the [bytes](Self::bytes) anew, with the same runs. Returns `None` if the text was
    /// UTF-8, or if `decode` fails.
    pub(crate) fn decoded_with(&self, decode: impl Fn(&[u8]) -> Option<String>) -> Option<Self> {
        let bytes = CodePage::bytes_of(&self.raw).filter(|_| self.is_single_byte())?;
        let mut raw = CompactString::default();
        let mut runs = self.styled().to_vec();
        // Offsets in the bytes and in the text. Each character was one byte.
        let (mut done, mut at) = (0, 0);
        let mut advance = |to: usize| {
            let end = done + self.raw.get(at..to)?.chars().count();
            raw.push_str(&decode(bytes.get(done..end)?)?);
            (done, at) = (end, to);
            Some(raw.len())
        };
        for run in &mut runs {
            run.start = advance(run.start)?;
            run.end = advance(run.end)?;
        }
        advance(self.raw.len())?;
        let format = (!runs.is_empty()).then(|| {
            Box::new(Format {
                runs,
                is_single_byte: false,
            })
        });
        let codes = self.codes;
        Some(Self { raw, format, codes })
    }

    /// Returns the runs with their styles, without codes, but with control characters.
    pub fn runs(&self) -> impl Iterator<Item = (Style, &str)> {
        self.all_runs()
            .filter_map(|run| Some((run.style, self.raw.get(run.start..run.end)?)))
    }

    /// Returns the runs; without any, the whole text.
    fn all_runs(&self) -> impl Iterator<Item = Run> {
        let whole = Run {
            start: 0,
            end: self.raw.len(),
            style: Style::default(),
        };
        let styled = self.styled();
        styled
            .is_empty()
            .then_some(whole)
            .into_iter()
            .chain(styled.iter().copied())
    }

    /// Returns the codes that the text was parsed with. It does not need to have any.
    pub fn codes(&self) -> Codes {
        self.codes
    }

    /// Returns whether codes of the text have a meaning in its form without codes: styles, or
    /// characters that are left out.
    pub(crate) fn has_codes(&self) -> bool {
        !self.styled().is_empty()
    }

    /// Returns the text with other codes. Colors become the nearest ones that those codes have;
    /// other styles are kept if the codes have them. A text without codes is unchanged, and so is
    /// one that already means the same with the other codes.
    ///
    /// Texts get no codes of [`Codes::Hex`] and [`Codes::Tags`], which no responder sends.
    pub fn with_codes(&self, codes: Codes) -> Cow<'_, Self> {
        let is_same = |other: &Self| other.styled() == self.styled();
        if !self.has_codes() || codes == self.codes || is_same(&codes.parse(self.raw.clone())) {
            return Cow::Borrowed(self);
        }
        // Neighbors with one style are one piece, so that no code is formed where they meet.
        let mut pieces: Vec<(Style, String)> = Vec::new();
        for (style, piece) in self.runs() {
            let style = codes.nearest(style);
            match pieces.last_mut() {
                Some((last, text)) if *last == style => text.push_str(piece),
                _ => pieces.push((style, piece.into())),
            }
        }
        let mut raw = String::with_capacity(self.raw.len());
        let mut last = Style::default();
        for (style, piece) in &pieces {
            codes.write_change(last, *style, &mut raw);
            raw.push_str(&codes.escape(piece));
            last = *style;
        }
        Cow::Owned(codes.parse(raw))
    }

    /// Returns all runs as one text.
    fn plain_runs(&self) -> String {
        self.runs().map(|(_, piece)| piece).collect()
    }

    /// Returns the raw text for clients that know only the sixteen colors of the legacy codes: other
    /// colors become the nearest of these.
    pub fn with_legacy_colors(&self) -> Cow<'_, str> {
        if !self.raw.contains("\u{A7}x") && !self.raw.contains("\u{A7}#") {
            return Cow::Borrowed(&self.raw);
        }
        let mut out = String::with_capacity(self.raw.len());
        let mut last = Style::default();
        for (mut style, piece) in self.runs() {
            style.color = style.color.map(TextColor::nearest_legacy);
            if style != last {
                style.codes(last, &mut out);
                last = style;
            }
            out.push_str(piece);
        }
        Cow::Owned(out)
    }

    fn styled(&self) -> &[Run] {
        self.format.as_ref().map_or(&[], |format| &format.runs)
    }

    /// Returns the text without codes and without control characters other than line breaks.
    pub fn plain(&self) -> String {
        self.to_plain().into_owned()
    }

    /// Returns [`Text::plain`], without an allocation if there is nothing to remove.
    pub fn to_plain(&self) -> Cow<'_, str> {
        if self.is_plain() {
            Cow::Borrowed(self.raw())
        } else {
            Cow::Owned(self.filtered().into_string())
        }
    }

    /// Returns [`Text::plain`], without an allocation if it is short or has nothing to remove.
    pub(crate) fn into_short(self) -> CompactString {
        if self.is_plain() {
            self.raw
        } else {
            self.filtered()
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
            // Whole pieces where that is possible: most have nothing to remove.
            let mut rest = piece;
            while let Some((at, c)) = first_control(rest) {
                let (keep, after) = rest.split_at(at);
                out.push_str(keep);
                rest = after.get(c.len_utf8()..).unwrap_or_default();
            }
            out.push_str(rest);
        }
        out
    }

    /// Returns the text for a terminal: with ANSI colors and styles, reset at the end of each
    /// line, and without control characters of the server.
    pub fn ansi(&self) -> String {
        let mut out = String::with_capacity(self.raw.len() * 2);
        for (style, piece) in self.runs() {
            // Each line is complete, so that lines can be printed separately.
            for (i, line) in piece.split('\n').enumerate() {
                if i > 0 {
                    out.push('\n');
                }
                let line = without_controls(line);
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

/// Parses the raw form so that it has the plain form: see [`Text::with_plain`]. Without a raw form,
/// the plain one is the text.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        struct Forms {
            plain: String,
            raw: Option<CompactString>,
        }
        let Forms { plain, raw } = serde::Deserialize::deserialize(deserializer)?;
        Ok(match raw {
            Some(raw) => Self::with_plain(&raw, &plain),
            None => Self::unformatted(plain),
        })
    }
}

impl Style {
    /// Appends the codes that change the style `from` to this one.
    fn codes(self, from: Self, out: &mut String) {
        let adds_only = from.color == self.color
            && from
                .flags()
                .iter()
                .zip(self.flags())
                .all(|(from, to)| !from.0 || to.0);
        if !adds_only {
            match self.color {
                None => out.push_str("\u{A7}r"),
                Some(TextColor::Legacy(code)) => {
                    let _ = write!(out, "\u{A7}{code:x}");
                }
                Some(TextColor::Rgb(r, g, b)) => {
                    out.push_str("\u{A7}x");
                    for byte in [r, g, b] {
                        let _ = write!(out, "\u{A7}{:x}\u{A7}{:x}", byte >> 4, byte & 15);
                    }
                }
            }
        }
        for ((is_on, code), (was_on, _)) in self.flags().into_iter().zip(from.flags()) {
            if is_on && !(adds_only && was_on) {
                out.push(SECTION);
                out.push(code);
            }
        }
    }

    /// Appends the codes of Bedrock Edition that change the style `from` to this one. There a color
    /// keeps the other styles.
    fn bedrock_codes(self, mut from: Self, out: &mut String) {
        let was_on = from.flags().map(|(is_on, _)| is_on);
        let lacks_flag = |((is_on, _), was_on): ((bool, char), bool)| was_on && !is_on;
        let mut flags = self.flags().into_iter().zip(was_on);
        if flags.any(lacks_flag) || self.color.is_none() && from.color.is_some() {
            out.push_str("\u{A7}r");
            from = Self::default();
        }
        if let Some(TextColor::Legacy(code)) = self.color.filter(|_| self.color != from.color) {
            let _ = write!(out, "\u{A7}{code:x}");
        }
        for ((is_on, code), (was_on, _)) in self.flags().into_iter().zip(from.flags()) {
            if is_on && !was_on {
                out.extend([SECTION, code]);
            }
        }
    }

    /// Returns the switches with their codes.
    fn flags(self) -> [(bool, char); 5] {
        [
            (self.is_obfuscated, 'k'),
            (self.is_bold, 'l'),
            (self.is_struck, 'm'),
            (self.is_underlined, 'n'),
            (self.is_italic, 'o'),
        ]
    }

    fn start(self, out: &mut String) {
        let mut codes = Vec::new();
        let flags = [
            (self.is_bold, "1"),
            (self.is_italic, "3"),
            (self.is_underlined, "4"),
            (self.is_struck, "9"),
        ];
        codes.extend(
            flags
                .iter()
                .filter(|(on, _)| *on)
                .map(|(_, code)| String::from(*code)),
        );
        codes.extend(self.color.map(TextColor::sgr));
        if !codes.is_empty() {
            let _ = write!(out, "\x1b[{}m", codes.join(";"));
        }
    }
}

/// Replaces codes as people type them: `&a` by a section sign and its letter, `&#ff8800` by the
/// code of that color, `&&` by `&`.
pub fn colored(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let code = |c: &char| "0123456789abcdefklmnorx".contains(*c);
        if c != '&' || chars.next_if_eq(&'&').is_some() {
            out.push(c);
        } else if chars.peek().is_some_and(code) {
            out.push(SECTION);
        } else if let Some(digits) = rgb_digits(chars.clone()) {
            out.extend([SECTION, 'x']);
            out.extend(digits.into_iter().flat_map(|digit| [SECTION, digit]));
            chars.nth(digits.len());
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns the digits after a `#`, in lower case.
fn rgb_digits(mut chars: impl Iterator<Item = char>) -> Option<[char; 6]> {
    let mut digits = ['0'; 6];
    chars.next().filter(|&c| c == '#')?;
    for digit in &mut digits {
        *digit = chars
            .next()
            .filter(char::is_ascii_hexdigit)?
            .to_ascii_lowercase();
    }
    Some(digits)
}

/// Returns any other text of a server as one line for a terminal: without control characters, and
/// with spaces instead of line breaks.
pub fn printable(text: &str) -> String {
    let spaced = text
        .chars()
        .map(|c| if matches!(c, '\n' | '\t') { ' ' } else { c });
    spaced.filter(|&c| !is_control(c)).collect()
}

/// Returns a text without control characters, line breaks included.
pub fn without_controls(text: &str) -> String {
    text.chars().filter(|&c| !is_control(c)).collect()
}

/// Returns whether a character must not reach a terminal or a page: control characters, those that
/// reorder the line, and those without a width, with which two different names look the same.
pub fn is_control(c: char) -> bool {
    let reorders = matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    // Spaces and operators without a width, annotations, and tags. Joiners (U+200C and U+200D) stay:
    // emoji and several scripts need them.
    let is_invisible = matches!(c, '\u{180E}' | '\u{200B}' | '\u{2060}'..='\u{2064}' | '\u{206A}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}');
    // Two line breaks of Unicode.
    c.is_control() || reorders || is_invisible || matches!(c, '\u{2028}' | '\u{2029}')
}

/// Returns the first character that [`is_control`] other than a line break, and its offset.
fn first_control(text: &str) -> Option<(usize, char)> {
    let mut start = 0;
    loop {
        let rest = text.get(start..)?;
        // The first bytes of these characters, and of a few others.
        let suspect = |byte: u8| {
            byte < b' ' || matches!(byte, 0x7F | 0xC2 | 0xD8 | 0xE1 | 0xE2 | 0xEF | 0xF3)
        };
        let at = rest.bytes().position(suspect)?;
        let c = rest.get(at..)?.chars().next()?;
        if c != '\n' && is_control(c) {
            return Some((start + at, c));
        }
        start += at + c.len_utf8();
    }
}

/// Splits a text at its codes. A text of codes only gets one empty run, to distinguish it from a
/// text without codes.
fn parse(raw: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    let style = split(raw, Style::default(), |style, start, end| {
        runs.push(Run { start, end, style });
    });
    if runs.is_empty() {
        runs.push(Run {
            start: 0,
            end: 0,
            style,
        });
    }
    runs
}

/// Calls `run` for each piece between codes, and returns the last style. A color resets all
/// styles, as in the game, and `r` restores the style `base`. An unknown code is dropped with its
/// letter.
fn split(raw: &str, base: Style, mut run: impl FnMut(Style, usize, usize)) -> Style {
    let mut style = base;
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
            run(style, start, at);
        }
        let mut chars = rest.chars();
        let Some(code) = chars.next() else {
            start = raw.len();
            break;
        };
        let colored = |color| Style {
            color: Some(color),
            ..Style::default()
        };
        match code.to_ascii_lowercase() {
            'k' => style.is_obfuscated = true,
            'l' => style.is_bold = true,
            'm' => style.is_struck = true,
            'n' => style.is_underlined = true,
            'o' => style.is_italic = true,
            'r' => style = base,
            'x' => {
                if let Some(color) = hex_color(chars.as_str()) {
                    style = colored(color);
                    chars.nth(HEX_CODES - 1);
                }
            }
            '#' => {
                if let Some(color) = TextColor::from_hex(chars.as_str()) {
                    style = colored(color);
                    chars.nth(HEX_DIGITS - 1);
                }
            }
            digit => {
                if let Some(digit) = digit.to_digit(16) {
                    style = colored(TextColor::Legacy(digit as u8));
                }
            }
        }
        start = raw.len() - chars.as_str().len();
    }
    if start < raw.len() {
        run(style, start, raw.len());
    }
    style
}

/// Splits a text at caret codes.
fn parse_carets(raw: &str, carets: Carets) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut style = Style::default();
    let mut start = 0;
    let mut next = 0;
    while let Some(at) = raw.get(next..).and_then(|rest| rest.find('^')) {
        let at = next + at;
        let rest = raw.get(at + 1..).unwrap_or_default();
        let code = carets.code(rest);
        let is_doubled = carets.has_doubled() && rest.starts_with('^');
        next = at + 1 + code.map_or(usize::from(is_doubled), |(length, _)| length);
        if code.is_none() && !is_doubled {
            continue;
        }
        // The first of two carets is text.
        let end = at + usize::from(is_doubled);
        if end > start {
            runs.push(Run { start, end, style });
        }
        style.color = code.map_or(style.color, |(_, color)| color);
        start = next;
    }
    if start < raw.len() || runs.is_empty() {
        runs.push(Run {
            start,
            end: raw.len(),
            style,
        });
    }
    runs
}

/// Splits a text at the color codes of Unreal. A code that is cut off is dropped.
fn parse_unreal(raw: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut style = Style::default();
    let mut start = 0;
    while let Some((text, rest)) = raw.get(start..).and_then(|rest| rest.split_once(ESCAPE)) {
        let end = start + text.len();
        if end > start {
            runs.push(Run { start, end, style });
        }
        let mut chars = rest.chars();
        // Characters of Windows-1252 stand for their bytes.
        let mut channel = || {
            let c = chars.next()?;
            Latin1::byte(c).or_else(|| CodePage::Western.byte(c))
        };
        if let (Some(r), Some(g), Some(b)) = (channel(), channel(), channel()) {
            style.color = Some(TextColor::Rgb(r, g, b));
        }
        start = raw.len() - chars.as_str().len();
    }
    if start < raw.len() || runs.is_empty() {
        runs.push(Run {
            start,
            end: raw.len(),
            style,
        });
    }
    runs
}

/// Splits a text at tags. A tag starts with a letter, a slash or a number sign.
fn parse_tags(raw: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut style = Style::default();
    // Start of the current run, and position of the search.
    let mut start = 0;
    let mut at = 0;
    while let Some(found) = raw.get(at..).and_then(|rest| rest.find('<')) {
        let tag_start = at + found;
        at = tag_start + 1;
        let rest = raw.get(at..).unwrap_or_default();
        let starts_tag = |c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '#');
        let Some((tag, _)) = rest
            .split_once('>')
            .filter(|(tag, _)| tag.starts_with(starts_tag))
        else {
            continue;
        };
        if tag_start > start {
            runs.push(Run {
                start,
                end: tag_start,
                style,
            });
        }
        apply_tag(tag, &mut style);
        at += tag.len() + 1;
        start = at;
    }
    if start < raw.len() || runs.is_empty() {
        runs.push(Run {
            start,
            end: raw.len(),
            style,
        });
    }
    runs
}

fn apply_tag(tag: &str, style: &mut Style) {
    let tag = tag.to_ascii_lowercase();
    match &*tag {
        "b" => style.is_bold = true,
        "/b" => style.is_bold = false,
        "i" => style.is_italic = true,
        "/i" => style.is_italic = false,
        "u" => style.is_underlined = true,
        "/u" => style.is_underlined = false,
        "/color" => style.color = None,
        tag => {
            let value = tag.strip_prefix("color=").unwrap_or(tag);
            let value = value.trim_matches('"');
            let color = value.strip_prefix('#').and_then(TextColor::from_hex);
            style.color = color.or(style.color);
        }
    }
}

/// Splits a text at the color codes of Armagetron. A prefix without six digits is text.
fn parse_hex_codes(raw: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut style = Style::default();
    let mut start = 0;
    let mut next = 0;
    while let Some(at) = raw.get(next..).and_then(|rest| rest.find(HEX_PREFIX)) {
        let at = next + at;
        next = at + HEX_PREFIX.len();
        let digits = raw.get(next..).unwrap_or_default();
        let is_reset = digits.starts_with(HEX_RESET);
        let color = TextColor::from_hex(digits);
        if color.is_none() && !is_reset {
            continue;
        }
        if at > start {
            let end = at;
            runs.push(Run { start, end, style });
        }
        style.color = color;
        next += HEX_DIGITS;
        start = next;
    }
    if start < raw.len() || runs.is_empty() {
        runs.push(Run {
            start,
            end: raw.len(),
            style,
        });
    }
    runs
}

/// Splits a text at the codes of Bedrock Edition. An unknown code is dropped with its letter.
fn parse_bedrock(raw: &str) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut style = Style::default();
    let mut start = 0;
    while let Some((text, rest)) = raw.get(start..).and_then(|rest| rest.split_once(SECTION)) {
        let end = start + text.len();
        if end > start {
            runs.push(Run { start, end, style });
        }
        let mut chars = rest.chars();
        match chars.next().map(|code| code.to_ascii_lowercase()) {
            Some('k') => style.is_obfuscated = true,
            Some('l') => style.is_bold = true,
            Some('o') => style.is_italic = true,
            Some('r') => style = Style::default(),
            Some(code) => style.color = bedrock_color(code).or(style.color),
            None => {}
        }
        start = raw.len() - chars.as_str().len();
    }
    if start < raw.len() || runs.is_empty() {
        runs.push(Run {
            start,
            end: raw.len(),
            style,
        });
    }
    runs
}

/// Returns the color of a code: the sixteen of Java Edition, and those of materials.
fn bedrock_color(code: char) -> Option<TextColor> {
    let [_, r, g, b] = match code {
        'g' => 0xDD_D605_u32,
        'h' => 0xE3_D4D1,
        'i' => 0xCE_CACA,
        'j' => 0x44_3A3B,
        'm' => 0x97_1607,
        'n' => 0xB4_684D,
        'p' => 0xDE_B12D,
        'q' => 0x47_A036,
        's' => 0x2C_BAA8,
        't' => 0x21_497B,
        'u' => 0x9A_5CC6,
        'v' => 0xEB_7114,
        _ => return Some(TextColor::Legacy(code.to_digit(16)? as u8)),
    }
    .to_be_bytes();
    Some(TextColor::Rgb(r, g, b))
}

/// Writes a text with section-sign codes from pieces of any style, for protocols that send styles
/// in another form.
#[derive(Debug, Default)]
pub struct TextBuilder {
    raw: String,
    style: Style,
}

impl TextBuilder {
    /// Appends a piece, whose own codes apply on top of `base` until its end. Returns the number of
    /// bytes so far.
    pub fn push(&mut self, base: Style, piece: &str) -> usize {
        if piece.contains(SECTION) {
            split(piece, base, |style, start, end| {
                self.plain(style, piece.get(start..end).unwrap_or_default());
            });
        } else {
            self.plain(base, piece);
        }
        self.raw.len()
    }

    fn plain(&mut self, style: Style, piece: &str) {
        if piece.is_empty() {
            return;
        }
        if style != self.style {
            style.codes(self.style, &mut self.raw);
            self.style = style;
        }
        self.raw.push_str(piece);
    }

    /// Returns the text.
    pub fn finish(self) -> Text {
        Text::legacy(self.raw)
    }
}

/// Digits of a color.
const HEX_DIGITS: usize = 6;
/// Characters of the six section-digit pairs that follow `x`.
const HEX_CODES: usize = 2 * HEX_DIGITS;

fn hex_color(rest: &str) -> Option<TextColor> {
    let mut chars = rest.chars();
    let mut value = 0u32;
    for _ in 0..HEX_DIGITS {
        if chars.next()? != SECTION {
            return None;
        }
        value = value << 4 | chars.next()?.to_digit(16)?;
    }
    let [_, r, g, b] = value.to_be_bytes();
    Some(TextColor::Rgb(r, g, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_control_character_is_found() {
        let is_other = |c: &char| *c != '\n' && is_control(*c);
        for c in ('\0'..=char::MAX).filter(|c| *c < '\u{3000}' || is_control(*c)) {
            let text = format!("\n\u{A0}\u{E9}\u{2026}{c}\u{9B}");
            let (at, expected) = text.char_indices().find(|(_, c)| is_other(c)).unwrap();
            assert_eq!(first_control(&text), Some((at, expected)), "{text:?}");
        }
        assert_eq!(first_control("\n\u{A0}plain\u{2026}"), None);
    }

    #[test]
    fn tags_are_removed_and_other_brackets_kept() {
        for (text, plain) in [
            ("<color=#ff0000>Test</color>", "Test"),
            ("<#0000FE>[</color>FR<b>]", "[FR]"),
            ("a < b > c", "a < b > c"),
            ("<3 <i>x", "<3 x"),
            ("<size=20></size>", ""),
            ("<", "<"),
            ("<b", "<b"),
        ] {
            assert_eq!(Text::tags(text).plain(), plain);
        }
        let text = Text::tags("<color=#ff0000>a</color>b");
        let colors: Vec<_> = text.runs().map(|(style, _)| style.color).collect();
        assert_eq!(colors, [Some(TextColor::Rgb(255, 0, 0)), None]);
    }

    #[test]
    fn codes_of_armagetron_are_colors() {
        let text = Text::hex_codes("a0xff8000b0x00c0xRESETTd0xff8000");
        let runs: Vec<_> = text.runs().map(|(style, run)| (style.color, run)).collect();
        let orange = Some(TextColor::Rgb(0xFF, 0x80, 0));
        assert_eq!(runs, [(None, "a"), (orange, "b0x00c"), (None, "d")]);
        assert_eq!(text.plain(), "ab0x00cd");
        assert_eq!(Text::hex_codes("0xff8000").plain(), "");
        assert!(!Text::hex_codes("plain").may_have_codes());
    }

    #[test]
    fn codes_of_unreal_are_colors() {
        let text = Text::unreal("\u{1B}@\u{20AC}@Sen\u{1B}\u{1}\u{1}\u{FF}try\u{1B}ab");
        let runs: Vec<_> = text.runs().map(|(style, run)| (style.color, run)).collect();
        let rgb = |r, g, b| Some(TextColor::Rgb(r, g, b));
        assert_eq!(
            runs,
            [(rgb(0x40, 0x80, 0x40), "Sen"), (rgb(1, 1, 0xFF), "try")]
        );
        assert_eq!(text.plain(), "Sentry");
        assert_eq!(Text::unreal("\u{1B}@@@").plain(), "");
        assert_eq!(Text::with_plain(text.raw(), "Sentry"), text);
        assert!(!Text::unreal("plain").may_have_codes());
    }

    const ALL_CARETS: [Carets; 7] = [
        Carets::Alphanumeric,
        Carets::Visible,
        Carets::Digit,
        Carets::DarkPlaces,
        Carets::Quake4,
        Carets::Daemon,
        Carets::Savage,
    ];

    #[test]
    fn codes_are_converted() {
        let carets = Codes::Carets;
        for (from, raw, to, converted) in [
            (
                carets(Carets::Digit),
                "^1Red^7 ^^3:^)",
                Codes::None,
                "Red ^:^)",
            ),
            (
                carets(Carets::Digit),
                "^1Red^7x",
                Codes::Legacy,
                "\u{A7}4Red\u{A7}fx",
            ),
            (
                carets(Carets::Digit),
                "^3Sun^5",
                Codes::Bedrock,
                "\u{A7}eSun",
            ),
            (
                Codes::Legacy,
                "\u{A7}c\u{A7}lA\u{A7}rb^1",
                carets(Carets::Visible),
                "^1A^7b^^1",
            ),
            (
                Codes::Legacy,
                "\u{A7}aA^1 :^)",
                carets(Carets::Alphanumeric),
                "^2A1 :)",
            ),
            (
                Codes::Legacy,
                "\u{A7}aA :^)",
                carets(Carets::Alphanumeric),
                "^2A :^)",
            ),
            (
                Codes::Legacy,
                "\u{A7}6A",
                carets(Carets::DarkPlaces),
                "^xFA0A",
            ),
            (
                Codes::Legacy,
                "\u{A7}#ff8001A",
                carets(Carets::Daemon),
                "^#FF8001A",
            ),
            (
                Codes::Legacy,
                "\u{A7}#ff8001A\u{A7}r1",
                carets(Carets::Savage),
                "^950A^9991",
            ),
            (
                Codes::Legacy,
                "\u{A7}lA\u{A7}cB",
                Codes::Bedrock,
                "\u{A7}lA\u{A7}r\u{A7}cB",
            ),
            (
                Codes::Bedrock,
                "\u{A7}lA\u{A7}cB",
                Codes::Legacy,
                "\u{A7}lA\u{A7}c\u{A7}lB",
            ),
            (Codes::Bedrock, "\u{A7}gA", Codes::Legacy, "\u{A7}6A"),
            (
                Codes::Unreal,
                "\u{1B}\u{FF}\u{1}\u{1}A",
                Codes::Legacy,
                "\u{A7}4A",
            ),
            (
                Codes::Legacy,
                "\u{A7}0A\\",
                Codes::Unreal,
                "\u{1B}\u{1}\u{1}\u{1}A\\",
            ),
            (Codes::Hex, "0xff0000A", Codes::None, "A"),
            (Codes::Tags, "<b>A</b>", Codes::Legacy, "\u{A7}lA"),
            // The same meaning, and no codes at all.
            (
                carets(Carets::Digit),
                "^1A",
                carets(Carets::DarkPlaces),
                "^1A",
            ),
            (Codes::Legacy, "\u{A7}cA", Codes::Bedrock, "\u{A7}cA"),
            (Codes::Legacy, "^1A", carets(Carets::Digit), "^1A"),
            (Codes::None, "\u{A7}cA", Codes::Legacy, "\u{A7}cA"),
        ] {
            let text = from.parse(raw);
            let text = text.with_codes(to);
            assert_eq!(text.raw(), converted, "{from:?} {raw:?} {to:?}");
        }
    }

    #[test]
    fn converted_texts_mean_the_same() {
        let carets = ALL_CARETS.map(Codes::Carets);
        let others = [
            Codes::None,
            Codes::Legacy,
            Codes::Bedrock,
            Codes::Unreal,
            Codes::Hex,
            Codes::Tags,
        ];
        let all: Vec<Codes> = carets.into_iter().chain(others).collect();
        let parts = [
            "^1",
            "^",
            "^^",
            "^x0F8",
            "\u{A7}",
            "\u{A7}c",
            "\u{A7}l",
            "\u{A7}x",
            "\u{1B}@\u{80}\u{1}",
            "0x",
            "0xff0080",
            "<b>",
            "<",
            "a",
            "1",
            " ",
            "\u{E9}",
        ];
        let mut state: u32 = 7;
        let mut next = |count: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as usize % count
        };
        for _ in 0..20_000 {
            let raw: String = (0..=next(7)).map(|_| parts[next(parts.len())]).collect();
            let (from, to) = (all[next(all.len())], all[next(all.len())]);
            let text = from.parse(raw.as_str());
            let converted = text.with_codes(to);
            // Only marks of the other codes are left out.
            let without_marks = |text: &Text| -> String {
                let plain = text.plain_runs();
                plain
                    .chars()
                    .filter(|c| !['^', SECTION, ESCAPE].contains(c))
                    .collect()
            };
            let read = to.parse(converted.raw());
            if text.has_codes() && !matches!(to, Codes::Hex | Codes::Tags | Codes::None) {
                assert_eq!(
                    without_marks(&read),
                    without_marks(&text),
                    "{from:?} {raw:?} {to:?}"
                );
            }
            assert_eq!(&*read.with_codes(to), &read);
            assert_eq!(&*text.with_codes(from), &text);
        }
    }

    #[test]
    fn codes_become_styles() {
        let text = Text::legacy("\u{A7}aGreen \u{A7}lbold\u{A7}r plain");
        let runs: Vec<_> = text.runs().collect();
        let green = Style {
            color: Some(TextColor::Legacy(10)),
            ..Style::default()
        };
        let bold = Style {
            is_bold: true,
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
    fn bedrock_colors_keep_styles() {
        let text = Text::bedrock("\u{A7}lBold\u{A7}mRed\u{A7}\u{A7}r end");
        let bold = Style {
            is_bold: true,
            ..Style::default()
        };
        let red = Style {
            color: Some(TextColor::Rgb(0x97, 0x16, 0x07)),
            ..bold
        };
        assert_eq!(
            text.runs().collect::<Vec<_>>(),
            [(bold, "Bold"), (red, "Red"), (red, "r end")]
        );
        assert_eq!(text.plain(), "BoldRedr end");
        assert_eq!(Text::bedrock("\u{A7}a\u{A7}").plain(), "");
        let gray = Text::bedrock("\u{A7}7x\u{A7}ry").ansi();
        assert_eq!(gray, "\x1b[37mx\x1b[0my");
    }

    #[test]
    fn caret_codes_differ_by_game() {
        use Carets::{Alphanumeric, Daemon, DarkPlaces, Digit, Quake4, Visible};
        for (carets, raw, plain) in [
            (Alphanumeric, "^1Red^xx^&y^", "Redx^&y^"),
            (Visible, "^1Red^xx^&y^", "Redxy^"),
            (Digit, "^1Red^xx^&y^", "Red^xx^&y^"),
            (DarkPlaces, "^1Red^xf0ax^xg", "Redx^xg"),
            (Daemon, "^#ff8001x^#ff", "x^#ff"),
            (Quake4, "^c900Red^iabcx^i\u{E9}y^cxxz^-", "Redx\u{E9}yxxz"),
            (Alphanumeric, "a^^1b", "a^b"),
            (Visible, "a^^1b", "a^1b"),
            (DarkPlaces, "a^^1b^^", "a^1b^"),
            (Visible, "^ x", "^ x"),
            (Visible, "^1^2", ""),
            (Alphanumeric, "\u{E9}^\u{E9}", "\u{E9}^\u{E9}"),
            (Visible, "\u{E9}^\u{E9}", "\u{E9}"),
        ] {
            assert_eq!(Text::carets(raw, carets).plain(), plain, "{carets:?} {raw}");
        }
        let colors = |raw: &str, carets| -> Vec<_> {
            let text = Text::carets(raw, carets);
            text.runs()
                .map(|(style, piece)| (style.color.map(TextColor::rgb), String::from(piece)))
                .collect()
        };
        assert_eq!(
            colors("a^1b^4c^xf80d", DarkPlaces),
            [
                (None, "a".into()),
                (Some((255, 0, 0)), "b".into()),
                (Some((0, 0, 255)), "c".into()),
                (Some((255, 136, 0)), "d".into()),
            ]
        );
        assert_eq!(
            colors("^c905x", Quake4),
            [(Some((252, 0, 140)), "x".into())]
        );
        assert_eq!(colors("^8x", Digit), [(Some((255, 128, 0)), "x".into())]);
        assert_eq!(colors("^8x", Visible), [(Some((0, 0, 0)), "x".into())]);
        assert_eq!(
            colors("^#0a0B0cx", Daemon),
            [(Some((10, 11, 12)), "x".into())]
        );
    }

    #[test]
    fn hexadecimal_colors() {
        let text = Text::legacy("\u{A7}x\u{A7}f\u{A7}f\u{A7}8\u{A7}0\u{A7}0\u{A7}1orange");
        assert_eq!(text.plain(), "orange");
        assert_eq!(text.ansi(), "\x1b[38;2;255;128;1morange\x1b[0m");
    }

    #[test]
    fn legacy_colors_replace_others() {
        for (raw, expected) in [
            (
                "\u{A7}x\u{A7}f\u{A7}f\u{A7}8\u{A7}8\u{A7}0\u{A7}0\u{A7}lHex\u{A7}rno",
                "\u{A7}6\u{A7}lHex\u{A7}rno",
            ),
            ("\u{A7}#00aaffsky\u{A7}cred", "\u{A7}3sky\u{A7}cred"),
            ("\u{A7}aa\n\u{A7}#010101b", "\u{A7}aa\n\u{A7}0b"),
            ("\u{A7}a\u{A7}zkept", "\u{A7}a\u{A7}zkept"),
        ] {
            assert_eq!(Text::legacy(raw).with_legacy_colors(), expected);
        }
    }

    #[test]
    fn hexadecimal_colors_of_networks() {
        let text = Text::legacy("\u{A7}#F1AEFFpink");
        assert_eq!(text.plain(), "pink");
        assert_eq!(text.ansi(), "\x1b[38;2;241;174;255mpink\x1b[0m");
        assert_eq!(Text::legacy("\u{A7}#F1AE+Fno").plain(), "F1AE+Fno");
    }

    #[test]
    fn built_texts_parse_into_the_styles_they_were_built_from() {
        let style = |color, is_bold, is_italic| Style {
            color,
            is_bold,
            is_italic,
            ..Style::default()
        };
        let red = Some(TextColor::Legacy(12));
        let rgb = Some(TextColor::Rgb(255, 136, 0));
        let pieces = [
            (Style::default(), "a"),
            (style(red, false, false), "b"),
            (style(red, true, false), "c"),
            (style(red, true, true), "d"),
            (style(red, false, true), "e"),
            (style(rgb, false, true), "f"),
            (style(None, false, true), "g"),
            (Style::default(), "h"),
        ];
        let mut builder = TextBuilder::default();
        for (style, piece) in pieces {
            builder.push(style, piece);
            builder.push(style, "");
        }
        let text = builder.finish();
        assert_eq!(text.runs().collect::<Vec<_>>(), pieces);
        assert_eq!(
            text.raw(),
            "a\u{A7}cb\u{A7}lc\u{A7}od\u{A7}c\u{A7}oe\u{A7}x\u{A7}f\u{A7}f\u{A7}8\u{A7}8\u{A7}0\u{A7}0\u{A7}of\u{A7}r\u{A7}og\u{A7}rh"
        );
        let mut nested = TextBuilder::default();
        nested.push(style(red, true, false), "\u{A7}aA\u{A7}lB\u{A7}rC\u{A7}");
        nested.push(Style::default(), "D");
        let text = nested.finish();
        assert_eq!(text.raw(), "\u{A7}aA\u{A7}lB\u{A7}c\u{A7}lC\u{A7}rD");
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
            &*Text::legacy("\u{A7}a\u{E9}").from_single_byte(true).bytes(),
            b"\xA7a\xE9"
        );
        assert_eq!(&*Text::legacy("\u{A7}a").bytes(), b"\xC2\xA7a");
        let all: Vec<u8> = (0..=0xFF).collect();
        for text in [
            Text::by_content(&all),
            Text::western(&all),
            Text::western_carets(&all, Carets::Digit),
        ] {
            assert_eq!(&*text.bytes(), all);
        }
        let text = Text::western_carets(b"^1\x93caf\xE9\x94 \x80", Carets::Digit);
        assert_eq!(text.plain(), "\u{201C}caf\u{E9}\u{201D} \u{20AC}");
        let text = Text::western_carets("^1caf\u{E9}".as_bytes(), Carets::Digit);
        assert_eq!(text, Text::carets("^1caf\u{E9}", Carets::Digit));
    }

    #[test]
    fn legacy_colors_as_the_game_draws_them() {
        assert_eq!(TextColor::Legacy(0).rgb(), (0, 0, 0));
        assert_eq!(TextColor::Legacy(6).rgb(), (255, 170, 0));
        assert_eq!(TextColor::Legacy(7).rgb(), (170, 170, 170));
        assert_eq!(TextColor::Legacy(12).rgb(), (255, 85, 85));
        assert_eq!(TextColor::Legacy(15).rgb(), (255, 255, 255));
    }
}
