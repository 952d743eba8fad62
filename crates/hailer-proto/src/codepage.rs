//! Code pages of Windows, for protocols whose texts have the code page of the server and no field
//! that names it (spec/samp.md#4).

use crate::wire::cut;
use alloc::string::String;
use alloc::vec::Vec;
use compact_str::CompactString;

/// Windows-1252 from 0x80 to 0x9F. Undefined bytes keep their number.
const WESTERN: &str = "\u{20AC}\u{81}\u{201A}\u{192}\u{201E}\u{2026}\u{2020}\u{2021}\u{2C6}\u{2030}\u{160}\u{2039}\u{152}\
                       \u{8D}\u{17D}\u{8F}\u{90}\u{2018}\u{2019}\u{201C}\u{201D}\u{2022}\u{2013}\u{2014}\u{2DC}\u{2122}\
                       \u{161}\u{203A}\u{153}\u{9D}\u{17E}\u{178}";
/// Windows-1251 from 0x80 to 0xBF. From 0xC0 on, it has the letters from U+0410 in order.
const CYRILLIC: &str = "\u{402}\u{403}\u{201A}\u{453}\u{201E}\u{2026}\u{2020}\u{2021}\u{20AC}\u{2030}\u{409}\u{2039}\u{40A}\
                        \u{40C}\u{40B}\u{40F}\u{452}\u{2018}\u{2019}\u{201C}\u{201D}\u{2022}\u{2013}\u{2014}\u{98}\u{2122}\
                        \u{459}\u{203A}\u{45A}\u{45C}\u{45B}\u{45F}\u{A0}\u{40E}\u{45E}\u{408}\u{A4}\u{490}\u{A6}\u{A7}\
                        \u{401}\u{A9}\u{404}\u{AB}\u{AC}\u{AD}\u{AE}\u{407}\u{B0}\u{B1}\u{406}\u{456}\u{491}\u{B5}\u{B6}\
                        \u{B7}\u{451}\u{2116}\u{454}\u{BB}\u{458}\u{405}\u{455}\u{457}";
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
    fn table(self) -> (&'static str, u32) {
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
        let listed = table.chars().nth(place.into());
        let other = char::from_u32(u32::from(byte) + distance);
        listed.or(other).unwrap_or(char::REPLACEMENT_CHARACTER)
    }

    /// Returns the byte of a character, if it has one.
    pub fn byte(self, c: char) -> Option<u8> {
        if c.is_ascii() {
            return u8::try_from(c).ok();
        }
        let (table, distance) = self.table();
        let listed = table.chars().position(|listed| listed == c);
        let byte = match listed {
            Some(place) => u8::try_from(0x80 + place).ok(),
            None => u8::try_from(u32::from(c).checked_sub(distance)?).ok(),
        };
        byte.filter(|byte| self.char(*byte) == c)
    }

    /// Decodes a text.
    pub fn decode(self, bytes: &[u8]) -> CompactString {
        bytes.iter().map(|byte| self.char(*byte)).collect()
    }
}

/// Decodes a text by content: UTF-8 if it is valid, else Windows-1251 if its bytes suggest Cyrillic
/// words, else Windows-1252.
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

fn is_cyrillic(bytes: &[u8]) -> bool {
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
