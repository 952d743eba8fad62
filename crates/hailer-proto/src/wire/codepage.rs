//! Code pages of Windows, for texts that are not UTF-8. No protocol has a field that names the code
//! page of the server.

use crate::wire::{Latin1, cut};
use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use compact_str::CompactString;

/// Windows-1252 from 0x80 to 0x9F. Undefined bytes keep their number.
const WESTERN: &[u16] = &[
    0x20AC, 0x81, 0x201A, 0x192, 0x201E, 0x2026, 0x2020, 0x2021, 0x2C6, 0x2030, 0x160, 0x2039,
    0x152, 0x8D, 0x17D, 0x8F, 0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x2DC,
    0x2122, 0x161, 0x203A, 0x153, 0x9D, 0x17E, 0x178,
];
/// Windows-1251 from 0x80 to 0xBF. From 0xC0 on, it has the letters from U+0410 in order.
const CYRILLIC: &[u16] = &[
    0x402, 0x403, 0x201A, 0x453, 0x201E, 0x2026, 0x2020, 0x2021, 0x20AC, 0x2030, 0x409, 0x2039,
    0x40A, 0x40C, 0x40B, 0x40F, 0x452, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
    0x98, 0x2122, 0x459, 0x203A, 0x45A, 0x45C, 0x45B, 0x45F, 0xA0, 0x40E, 0x45E, 0x408, 0xA4,
    0x490, 0xA6, 0xA7, 0x401, 0xA9, 0x404, 0xAB, 0xAC, 0xAD, 0xAE, 0x407, 0xB0, 0xB1, 0x406, 0x456,
    0x491, 0xB5, 0xB6, 0xB7, 0x451, 0x2116, 0x454, 0xBB, 0x458, 0x405, 0x455, 0x457,
];
/// Bytes in a row that are letters of Windows-1251, from which a text is Cyrillic. Western languages
/// rarely have that number of accented letters in a row.
const CYRILLIC_RUN: usize = 3;

/// A code page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodePage {
    /// Windows-1252.
    Western,
    /// Windows-1251.
    Cyrillic,
}

impl CodePage {
    /// Returns the characters from 0x80 on that the table has, and the distance of the bytes after
    /// them to their characters.
    fn table(self) -> (&'static [u16], u16) {
        match self {
            Self::Western => (WESTERN, 0),
            Self::Cyrillic => (CYRILLIC, 0x410 - 0xC0),
        }
    }

    /// Returns the character of a byte.
    pub fn char(self, byte: u8) -> char {
        let Some(place) = byte.checked_sub(0x80) else {
            return char::from(byte);
        };
        let (table, distance) = self.table();
        let listed = table.get(usize::from(place)).copied();
        let code = listed.unwrap_or(u16::from(byte) + distance);
        char::from_u32(code.into()).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// Returns the byte of a character, if it has one.
    pub fn byte(self, c: char) -> Option<u8> {
        if c.is_ascii() {
            return u8::try_from(c).ok();
        }
        let (table, distance) = self.table();
        let code = u16::try_from(u32::from(c)).ok()?;
        let byte = match table.iter().position(|listed| *listed == code) {
            Some(place) => u8::try_from(0x80 + place).ok(),
            None => u8::try_from(code.checked_sub(distance)?).ok(),
        };
        byte.filter(|byte| self.char(*byte) == c)
    }

    /// Decodes a text.
    pub fn decode(self, bytes: &[u8]) -> CompactString {
        bytes.iter().map(|byte| self.char(*byte)).collect()
    }

    /// Returns the bytes of a text that was decoded from ISO-8859-1 or a code page; `None` if it has
    /// other characters.
    pub(crate) fn bytes_of(text: &str) -> Option<Vec<u8>> {
        // No character of ISO-8859-1 and Windows-1252 has another byte in the other.
        let western = |c| Latin1::byte(c).or_else(|| Self::Western.byte(c));
        let bytes: Option<Vec<u8>> = text.chars().map(western).collect();
        bytes.or_else(|| text.chars().map(|c| Self::Cyrillic.byte(c)).collect())
    }
}

/// Decodes a text by content: UTF-8 if it is valid, else Windows-1252. Returns the text and whether
/// it was Windows-1252.
pub fn utf8_or_western(bytes: &[u8]) -> (Cow<'_, str>, bool) {
    match core::str::from_utf8(bytes) {
        Ok(text) => (Cow::Borrowed(text), false),
        Err(_) => (Cow::Owned(CodePage::Western.decode(bytes).into()), true),
    }
}

/// Decodes a text by content: UTF-8 if it is valid, else Windows-1251 if its bytes suggest Cyrillic
/// words, else Windows-1252 (spec/samp.md#4).
pub fn decode(bytes: &[u8]) -> CompactString {
    match core::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) if is_cyrillic(bytes) => CodePage::Cyrillic.decode(bytes),
        Err(_) => CodePage::Western.decode(bytes),
    }
}

/// Decodes a text by content; `None` if it is empty.
pub fn filled(bytes: &[u8]) -> Option<CompactString> {
    (!bytes.is_empty()).then(|| decode(bytes))
}

pub(crate) fn is_cyrillic(bytes: &[u8]) -> bool {
    let is_letter = |byte: &u8| matches!(byte, 0xC0..=0xFF | 0xA8 | 0xB8);
    let letters = bytes.iter().filter(|byte| is_letter(byte)).count();
    let has_latin = bytes.iter().any(u8::is_ascii_alphabetic);
    let has_run = bytes
        .windows(CYRILLIC_RUN)
        .any(|run| run.iter().all(is_letter));
    has_run || letters > 1 && !has_latin
}

/// Encodes a text, cut to `limit` bytes between characters, so that [`decode`] returns it: in the
/// first code page that suits, or else in UTF-8.
pub fn encode(text: &str, limit: usize) -> Vec<u8> {
    let text: String = text.chars().take(limit).collect();
    let bytes = encode_all(&text);
    if bytes.len() <= limit {
        bytes
    } else {
        encode_all(cut(&text, limit))
    }
}

fn encode_all(text: &str) -> Vec<u8> {
    if text.is_ascii() {
        return text.into();
    }
    let pages = [CodePage::Western, CodePage::Cyrillic].into_iter();
    let mut encoded = pages.filter_map(|page| {
        let bytes: Option<Vec<u8>> = text.chars().map(|c| page.byte(c)).collect();
        bytes.filter(|bytes| decode(bytes) == text)
    });
    encoded.next().unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_a_character() {
        for page in [CodePage::Western, CodePage::Cyrillic] {
            for byte in 0..=0xFF {
                assert_eq!(
                    page.byte(page.char(byte)),
                    Some(byte),
                    "{page:?} {byte:02x}"
                );
            }
        }
        assert_eq!(
            CodePage::Western.decode(b"\x80\xE9\xFF"),
            "\u{20AC}\u{E9}\u{FF}"
        );
        assert_eq!(
            CodePage::Cyrillic.decode(b"\xB8\xC0\xFF\xB9"),
            "\u{451}\u{410}\u{44F}\u{2116}"
        );
    }

    #[test]
    fn texts_are_decoded_by_content() {
        for (bytes, text) in [
            (&b"plain"[..], "plain"),
            (b"caf\xE9", "caf\u{E9}"),
            (b"\x93ok\x94 \x80", "\u{201C}ok\u{201D} \u{20AC}"),
            (b"\xD2\xE5\xF1\xF2", "\u{422}\u{435}\u{441}\u{442}"),
            (b"\xC4\xE0", "\u{414}\u{430}"),
            (
                b"RP \xD0\xEE\xF1\xF1\xE8\xFF",
                "RP \u{420}\u{43E}\u{441}\u{441}\u{438}\u{44F}",
            ),
            ("caf\u{E9} \u{4E2D}".as_bytes(), "caf\u{E9} \u{4E2D}"),
        ] {
            assert_eq!(decode(bytes), text);
            assert_eq!(encode(text, 100), bytes, "{text}");
        }
    }

    #[test]
    fn encoded_texts_come_back() {
        for text in [
            "\u{C3}\u{A9}",
            "\u{E0}\u{E8}\u{EC}\u{F2}",
            "a\u{442}b",
            "\u{416}\u{20AC}",
        ] {
            assert_eq!(decode(&encode(text, 100)), text);
        }
        assert_eq!(encode("\u{4E2D}\u{4E2D}", 5), "\u{4E2D}".as_bytes());
        assert_eq!(encode("caf\u{E9}s", 4), b"caf\xE9");
    }
}
