//! The character set of Quake: two colors of ASCII, and symbols (spec/quake1.md#5), for the protocols of Quake and of its
//! descendants.

use alloc::string::String;
use compact_str::CompactString;

/// The highest bit selects the second color of a character.
const SECOND_COLOR: u8 = 0x80;

/// Decodes a text. Symbols become similar ASCII characters.
pub(crate) fn decode(bytes: &[u8]) -> CompactString {
    bytes.iter().map(|byte| char::from(ascii(*byte))).collect()
}

/// Encodes a text in the first color. Characters outside of ASCII become underscores.
pub(crate) fn encode(text: &str) -> String {
    let graphic = |c: char| if matches!(c, ' '..='~') { c } else { '_' };
    text.chars().map(graphic).collect()
}

/// Returns whether a text consists of ASCII in the first color.
pub(crate) fn is_plain(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b' '..=b'~'))
}

fn ascii(byte: u8) -> u8 {
    match byte & !SECOND_COLOR {
        letter @ b' '..=b'~' => letter,
        0x10 => b'[',
        0x11 => b']',
        digit @ 0x12..=0x1B => digit - 0x12 + b'0',
        0x05 | 0x0E | 0x0F | 0x1C => b'.',
        0x0D | 0x1F => b'>',
        0x1D => b'<',
        0x1E => b'-',
        _ => b'_',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_colors_and_symbols() {
        assert_eq!(decode(b"\xC1\xEC\x12\x93"), "Al01");
        assert_eq!(
            decode(b"\x10x\x11\x1B\x9B\x1D\x1E\x1F\x0D\x1C\x05"),
            "[x]99<->>.."
        );
        assert_eq!(decode(b"\x01\x7F\xFF\n"), "____");
        assert_eq!(encode("Al\u{E9}\n~"), "Al__~");
        assert!(is_plain(b"Al 1~"));
        assert!(!is_plain(b"\xC1") && !is_plain(b"\x12"));
    }
}
