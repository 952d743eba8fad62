//! Conversions between bytes and text, named by format, not by game.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use compact_str::CompactString;
use core::fmt;
use memchr::{memchr, memchr2};

/// Decodes ISO-8859-1: each byte is the code point with the same number.
#[derive(Clone, Copy, Debug)]
pub struct Latin1;

impl Latin1 {
    /// Never fails: every byte is a character.
    pub fn decode(bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len() + bytes.len() / 8);
        text.extend(bytes.iter().copied().map(char::from));
        text
    }

    /// Returns the byte of a character, if it has one.
    pub fn byte(c: char) -> Option<u8> {
        u8::try_from(u32::from(c)).ok()
    }
}

/// Decodes by content: UTF-8 if the bytes are valid UTF-8, else ISO-8859-1. Returns the text and
/// whether it was ISO-8859-1.
///
/// A lone 0xA7, the section sign of old servers, is never valid UTF-8, so one rule decodes servers
/// of both kinds (spec/minecraft-query.md#4.1). The original bytes can be restored from the result.
pub fn by_content(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    match core::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), false),
        Err(_) => (Cow::Owned(Latin1::decode(bytes)), true),
    }
}

/// Returns a number with its noun: `1 byte`, `2 bytes`, `0 addresses`, `3 replies`. The number may be
/// formatted already.
pub fn counted(number: impl fmt::Display, noun: &str) -> String {
    let mut text = number.to_string();
    let is_one = text == "1";
    text.push(' ');
    let (stem, ending) = match noun.strip_suffix('y') {
        _ if is_one => (noun, ""),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => (stem, "ies"),
        _ if noun.ends_with('s') => (noun, "es"),
        _ => (noun, "s"),
    };
    text + stem + ending
}

/// Numbers of up to this many digits fit into 64 bits.
const SAFE_DIGITS: usize = 18;

/// Parses decimal digits with an optional sign; nothing else is accepted.
pub fn decimal(bytes: &[u8]) -> Option<i64> {
    let (sign, digits) = match bytes {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] | digits => (1, digits),
    };
    let digit = |byte: u8| Some(i64::from(byte.wrapping_sub(b'0'))).filter(|digit| *digit < 10);
    match digits.len() {
        0 => None,
        // Too few digits for an overflow, as in most numbers.
        1..=SAFE_DIGITS => {
            let add = |number: i64, &byte: &u8| Some(number * 10 + digit(byte)?);
            Some(sign * digits.iter().try_fold(0, add)?)
        }
        _ => digits.iter().try_fold(0, |number: i64, &byte| {
            number.checked_mul(10)?.checked_add(sign * digit(byte)?)
        }),
    }
}

/// Parses a whole number in the forms that servers use: with spaces around it, or with a fraction
/// of zeros, such as ` 50` or `16.00`.
pub(crate) fn whole_number(bytes: &[u8]) -> Option<i64> {
    // Most numbers are plain.
    decimal(bytes).or_else(|| {
        let text = bytes.trim_ascii();
        if text.len() < bytes.len() {
            return whole_number(text);
        }
        let point = text.iter().position(|byte| *byte == b'.')?;
        let (whole, fraction) = text.split_at_checked(point)?;
        let zeros = fraction.get(1..).filter(|zeros| !zeros.is_empty())?;
        decimal(whole).filter(|_| zeros.iter().all(|digit| *digit == b'0'))
    })
}

/// The start or the end of a message that is valid UTF-8, checked once, so that most texts in it
/// need no further check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Utf8<'a> {
    text: &'a str,
    /// Whether all bytes of the message are ASCII; `false` if it was not checked.
    is_ascii: bool,
}

impl<'a> Utf8<'a> {
    /// Finds the end of the message that is valid UTF-8, starting after a NUL. Tries 4 starts,
    /// because texts in ISO-8859-1 may precede.
    pub fn end_of(mut bytes: &'a [u8]) -> Self {
        for _ in 0..4 {
            let broken = match core::str::from_utf8(bytes) {
                Ok(text) => {
                    return Self {
                        text,
                        is_ascii: text.is_ascii(),
                    };
                }
                Err(error) => bytes.get(error.valid_up_to()..).unwrap_or_default(),
            };
            bytes = memchr(0, broken)
                .and_then(|end| broken.get(end..))
                .unwrap_or_default();
        }
        Self::default()
    }

    /// Returns the start of the message, up to the first invalid byte.
    pub fn start_of(bytes: &'a [u8]) -> Self {
        let text = core::str::from_utf8(bytes).or_else(|error| {
            let start = bytes.get(..error.valid_up_to()).unwrap_or_default();
            core::str::from_utf8(start)
        });
        Self {
            text: text.unwrap_or_default(),
            is_ascii: false,
        }
    }

    /// Decodes a piece of the message, or any other bytes, like [`utf8_or_latin1`].
    pub fn decode_cut(self, piece: &'a [u8]) -> (Cow<'a, str>, bool, bool) {
        self.find(piece).map_or_else(
            || utf8_or_latin1(piece),
            |text| (Cow::Borrowed(text), false, false),
        )
    }

    /// Decodes a piece of the message, or any other bytes, like [`by_content`].
    pub fn decode(self, piece: &'a [u8]) -> (Cow<'a, str>, bool) {
        self.find(piece)
            .map_or_else(|| by_content(piece), |text| (Cow::Borrowed(text), false))
    }

    /// Returns a piece as text if the checked part is ASCII.
    pub fn ascii(self, piece: &[u8]) -> Option<&'a str> {
        self.find(piece).filter(|_| self.is_ascii)
    }

    /// Returns a piece as text if it is inside the checked part.
    #[inline(always)]
    pub fn find(self, piece: &[u8]) -> Option<&'a str> {
        let at = piece
            .as_ptr()
            .addr()
            .wrapping_sub(self.text.as_ptr().addr());
        self.text.get(at..at.checked_add(piece.len())?)
    }
}

/// No known server cuts texts shorter than this. An incomplete character at the end of a shorter
/// text is ISO-8859-1, such as an accented letter at the end of a name.
const SHORTEST_CUT: usize = 32;

/// Returns the offset of the first NUL. See [`first_of`].
#[inline]
pub fn first_nul(bytes: &[u8]) -> Option<usize> {
    first_of(0, bytes)
}

/// Returns the first offset of a byte. Most texts are short, so a few bytes are checked before a
/// search starts.
#[inline]
pub fn first_of(byte: u8, bytes: &[u8]) -> Option<usize> {
    const WORDS: usize = 3;
    let all = u64::from_ne_bytes([byte; 8]);
    let (words, _) = bytes.as_chunks();
    for (i, word) in words.iter().take(WORDS).enumerate() {
        let found = first_zero(u64::from_le_bytes(*word) ^ all);
        if found != 0 {
            return Some(8 * i + found.trailing_zeros() as usize / 8);
        }
    }
    let looked_at = 8 * words.len().min(WORDS);
    Some(looked_at + memchr(byte, bytes.get(looked_at..)?)?)
}

/// Returns the offset of the first byte that is one of two, with the lead of [`first_nul`] for
/// the shortest texts, such as keys.
#[inline]
pub(super) fn first_of_two(one: u8, other: u8, bytes: &[u8]) -> Option<usize> {
    const WORDS: usize = 2;
    let [all_one, all_other] = [one, other].map(|byte| u64::from_ne_bytes([byte; 8]));
    let (words, _) = bytes.as_chunks();
    for (i, word) in words.iter().take(WORDS).enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = first_zero(word ^ all_one) | first_zero(word ^ all_other);
        if found != 0 {
            return Some(8 * i + found.trailing_zeros() as usize / 8);
        }
    }
    let looked_at = 8 * words.len().min(WORDS);
    Some(looked_at + memchr2(one, other, bytes.get(looked_at..)?)?)
}

/// Returns the offsets of all NULs. See [`offsets`].
#[inline]
pub fn nuls(bytes: &[u8]) -> impl Iterator<Item = usize> {
    offsets(0, bytes)
}

/// Returns the offsets of a byte. Most pieces between them are short, so testing eight bytes
/// together is faster than a search for each.
#[inline]
pub fn offsets(byte: u8, bytes: &[u8]) -> impl Iterator<Item = usize> {
    let (words, rest) = bytes.as_chunks();
    let mut last = [!byte; 8];
    core::iter::zip(&mut last, rest).for_each(|(to, byte)| *to = *byte);
    let mut words = words.iter().copied().chain([last]);
    let all = u64::from_ne_bytes([byte; 8]);
    let mut next = 0;
    let mut found = 0;
    core::iter::from_fn(move || {
        while found == 0 {
            found = zeros(u64::from_le_bytes(words.next()?) ^ all);
            next += 8;
        }
        let at = next - 8 + found.trailing_zeros() as usize / 8;
        found &= found - 1;
        Some(at)
    })
}

/// Returns a word with the highest bit set in each byte that is zero. The first byte is the lowest.
#[inline]
fn zeros(word: u64) -> u64 {
    const LOW: u64 = u64::from_ne_bytes([0x7F; 8]);
    !(((word & LOW) + LOW) | word | LOW)
}

/// Like [`zeros`], in less time, but only the lowest bit is right: above a zero byte, the difference
/// has wrong bits.
#[inline]
fn first_zero(word: u64) -> u64 {
    const HIGH: u64 = u64::from_ne_bytes([0x80; 8]);
    word.wrapping_sub(u64::from_ne_bytes([1; 8])) & !word & HIGH
}

/// Decodes bytes by content; `None` if there are none.
pub fn filled(bytes: &[u8]) -> Option<CompactString> {
    (!bytes.is_empty()).then(|| by_content(bytes).0.into())
}

/// Like [`by_content`], for servers that cut UTF-8 at a byte limit: a character cut off at the end
/// of a long text is dropped. Returns the text, whether it was cut, and whether it was ISO-8859-1
/// (spec/ugp.md#2).
pub fn utf8_or_latin1(bytes: &[u8]) -> (Cow<'_, str>, bool, bool) {
    match core::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), false, false),
        Err(error) if error.error_len().is_none() && bytes.len() >= SHORTEST_CUT => {
            let whole = bytes.get(..error.valid_up_to()).unwrap_or_default();
            (
                Cow::Borrowed(core::str::from_utf8(whole).unwrap_or_default()),
                true,
                false,
            )
        }
        Err(_) => (Cow::Owned(Latin1::decode(bytes)), false, true),
    }
}

/// Formats bytes as hexadecimal: two lower-case digits each, without separators.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or_default();
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

/// Decodes UTF-16, most significant byte first. An unpaired surrogate becomes U+FFFD.
pub fn utf16(bytes: &[u8]) -> String {
    let (units, _) = bytes.as_chunks();
    char::decode_utf16(units.iter().map(|&unit| u16::from_be_bytes(unit)))
        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn nouns_have_a_singular_and_a_plural() {
        let texts = [
            counted(0, "byte"),
            counted(1, "reply"),
            counted(2, "reply"),
            counted("1", "address"),
            counted("12,345", "address"),
            counted(3, "more entry"),
            counted(0.5, "day"),
        ];
        let expected =
            "0 bytes, 1 reply, 2 replies, 1 address, 12,345 addresses, 3 more entries, 0.5 days";
        assert_eq!(texts.join(", "), expected);
    }

    #[test]
    fn every_byte_is_a_character() {
        let all: Vec<u8> = (0..=255).chain(b"x".iter().copied()).collect();
        assert!(
            Latin1::decode(&all)
                .chars()
                .map(u32::from)
                .eq(all.iter().map(|byte| u32::from(*byte)))
        );
    }

    #[test]
    fn whole_numbers_have_spaces_and_zeros_around_them() {
        for (text, number) in [
            ("16", Some(16)),
            (" 50 ", Some(50)),
            ("16.000", Some(16)),
            ("-3.0", Some(-3)),
            ("16.", None),
            (".0", None),
            ("16.5", None),
            ("1.0.0", None),
            ("1 6", None),
            ("", None),
        ] {
            assert_eq!(whole_number(text.as_bytes()), number, "{text:?}");
        }
    }

    #[test]
    fn every_nul_is_found_once() {
        let bytes: Vec<u8> = (0..200_u32)
            .map(|i| [0, 1, 0x80, 0xFF, 0, 0x7F, b'x'][(i * i % 101 % 7) as usize])
            .collect();
        for start in 0..16 {
            for end in start..bytes.len() {
                let piece = &bytes[start..end];
                assert!(nuls(piece).eq(memchr::memchr_iter(0, piece)), "{piece:?}");
                assert!(offsets(0x80, piece).eq(memchr::memchr_iter(0x80, piece)));
                assert_eq!(first_nul(piece), memchr(0, piece), "{piece:?}");
                assert_eq!(first_of(0x80, piece), memchr(0x80, piece), "{piece:?}");
            }
        }
    }

    #[test]
    fn the_first_of_two_is_found() {
        let bytes: Vec<u8> = (0..200_u32)
            .map(|i| b"\"\\\xDC\xA2ab\0!"[(i * i % 103 % 8) as usize])
            .chain([b'x'; 60])
            .chain([b'\\'])
            .collect();
        for start in 0..bytes.len() {
            for end in start..bytes.len() {
                let piece = &bytes[start..end];
                let expected = memchr2(b'"', b'\\', piece);
                assert_eq!(first_of_two(b'"', b'\\', piece), expected, "{piece:?}");
            }
        }
    }

    #[test]
    fn numbers_have_digits_and_a_sign() {
        for number in [0, 7, -7, 10_i64.pow(18) - 1, i64::MAX, i64::MIN] {
            let text = alloc::format!("{number}");
            assert_eq!(decimal(text.as_bytes()), Some(number));
        }
        assert_eq!(decimal(b"+007"), Some(7));
        for wrong in [
            "",
            "-",
            "--1",
            "1 ",
            "/",
            ":",
            "9223372036854775808",
            "123456789012345678x",
        ] {
            assert_eq!(decimal(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(hexadecimal(&[0, 0x0A, 0xF0, 0xFF]), "000af0ff");
    }

    #[test]
    fn content_decides_the_encoding() {
        assert_eq!(by_content(b"\xA7aHi"), ("\u{A7}aHi".into(), true));
        assert_eq!(by_content(b"\xC2\xA7aHi"), ("\u{A7}aHi".into(), false));
        assert_eq!(by_content(b"plain"), ("plain".into(), false));
    }

    #[test]
    fn pieces_decode_as_they_do_alone() {
        for message in [
            &b"caf\xE9\0plain\0caf\xC3\xA9\0"[..],
            b"plain\0x",
            b"\xFF\xFF\0",
            b"",
            &[0xE9; 20],
            b"a\xC3",
        ] {
            for utf8 in [Utf8::start_of(message), Utf8::end_of(message)] {
                for start in 0..=message.len() {
                    for end in start..=message.len() {
                        let piece = &message[start..end];
                        assert_eq!(
                            utf8.decode(piece),
                            by_content(piece),
                            "{piece:?} of {message:?}"
                        );
                        assert_eq!(
                            utf8.decode_cut(piece),
                            utf8_or_latin1(piece),
                            "{piece:?} of {message:?}"
                        );
                    }
                }
                assert_eq!(
                    utf8.decode(b"\xE9"),
                    by_content(b"\xE9"),
                    "of something else"
                );
            }
        }
        assert_eq!(Utf8::start_of(b"plain\0caf\xE9\0more").text, "plain\0caf");
        let end = Utf8::end_of(b"caf\xE9\0plain");
        assert_eq!((end.text, end.is_ascii), ("\0plain", true));
    }

    #[test]
    fn a_character_cut_at_the_end_is_dropped() {
        let long = "caf\u{E9}".repeat(13);
        let (text, cut, latin1) = utf8_or_latin1(&long.as_bytes()[..64]);
        assert_eq!(
            (text.ends_with("caf"), text.chars().count(), cut, latin1),
            (true, 51, true, false)
        );
        assert_eq!(
            utf8_or_latin1(b"Jos\xE9"),
            ("Jos\u{E9}".into(), false, true)
        );
        assert_eq!(
            utf8_or_latin1(b"caf\xE9!"),
            ("caf\u{E9}!".into(), false, true)
        );
    }
}
