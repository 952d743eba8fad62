//! Writer that appends to the buffer of the caller.

use alloc::vec::Vec;

/// Appends numbers and bytes to a buffer that the caller owns and reuses.
#[derive(Debug)]
pub struct Writer<'a>(pub &'a mut Vec<u8>);

impl Writer<'_> {
    /// Appends raw bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes(&[value])
    }

    /// Appends two bytes, least significant first.
    pub fn u16_le(&mut self, value: u16) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends four bytes, least significant first.
    pub fn u32_le(&mut self, value: u32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends four bytes, least significant first, signed.
    pub fn i32_le(&mut self, value: i32) -> &mut Self {
        self.bytes(&value.to_le_bytes())
    }

    /// Appends four bytes, most significant first, signed.
    pub fn i32_be(&mut self, value: i32) -> &mut Self {
        self.bytes(&value.to_be_bytes())
    }
}

/// Returns the longest prefix of `text` with at most `limit` bytes that ends between characters.
pub fn cut(text: &str, limit: usize) -> &str {
    let mut end = limit.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::cut;

    #[test]
    fn cutting_respects_characters() {
        assert_eq!(cut("abc", 10), "abc");
        assert_eq!(cut("\u{E9}\u{E9}", 3), "\u{E9}");
        assert_eq!(cut("\u{1F600}", 3), "");
    }
}
