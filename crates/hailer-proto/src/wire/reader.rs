//! Cursor over one datagram.

use super::{Deviation, Error, ErrorKind, Notes};
use alloc::{format, string::String, string::ToString};
use core::fmt::Display;

/// A checked cursor over one datagram. Offsets in errors and notes always count from the first byte
/// of the datagram.
#[derive(Debug)]
pub struct Reader<'a, 'n> {
    bytes: &'a [u8],
    at: usize,
    notes: &'n mut Notes,
}

impl<'a, 'n> Reader<'a, 'n> {
    /// Creates a reader at the first byte of a datagram.
    pub fn new(bytes: &'a [u8], notes: &'n mut Notes) -> Self {
        Self {
            bytes,
            at: 0,
            notes,
        }
    }

    /// Takes `n` bytes. Every other read uses this function.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn take(&mut self, n: usize, field: &'static str) -> Result<&'a [u8], Error> {
        let rest = self.rest();
        match rest.get(..n) {
            Some(taken) => {
                self.at += n;
                Ok(taken)
            }
            None => Err(Error::short(field, self.at, n - rest.len())),
        }
    }

    /// Takes `N` bytes as an array, without a note.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Error> {
        let at = self.at;
        self.take(N, field)?
            .try_into()
            .map_err(|_| Error::bad(field, at, "a fixed number of bytes"))
    }

    /// Takes `n` bytes and notes them in hexadecimal.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    pub fn raw(&mut self, n: usize, field: &'static str) -> Result<&'a [u8], Error> {
        let at = self.at;
        let taken = self.take(n, field)?;
        self.note(at, field, || hex(taken));
        Ok(taken)
    }

    /// Takes the constant `expected`, or fails at its first byte.
    ///
    /// # Errors
    ///
    /// Fails if the datagram ends too early or the bytes differ.
    pub fn constant(&mut self, expected: &'static [u8], field: &'static str) -> Result<(), Error> {
        let at = self.at;
        if self.take(expected.len(), field)? != expected {
            return Err(Error::bad(field, at, "the protocol's constant"));
        }
        self.note(at, field, || hex(expected));
        Ok(())
    }

    /// Reads one byte.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Result<u8, Error> {
        self.number::<1, u8>(field, u8::from_be_bytes)
    }

    /// Reads one byte, signed.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn i8(&mut self, field: &'static str) -> Result<i8, Error> {
        self.number::<1, i8>(field, i8::from_be_bytes)
    }

    /// Reads two bytes, least significant first.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn u16_le(&mut self, field: &'static str) -> Result<u16, Error> {
        self.number::<2, u16>(field, u16::from_le_bytes)
    }

    /// Reads four bytes, least significant first.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn u32_le(&mut self, field: &'static str) -> Result<u32, Error> {
        self.number::<4, u32>(field, u32::from_le_bytes)
    }

    /// Reads four bytes, least significant first, signed.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn i32_le(&mut self, field: &'static str) -> Result<i32, Error> {
        self.number::<4, i32>(field, i32::from_le_bytes)
    }

    /// Reads eight bytes, least significant first.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn u64_le(&mut self, field: &'static str) -> Result<u64, Error> {
        self.number::<8, u64>(field, u64::from_le_bytes)
    }

    /// Reads four bytes, IEEE 754 binary32, least significant first.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn f32_le(&mut self, field: &'static str) -> Result<f32, Error> {
        self.number::<4, f32>(field, f32::from_le_bytes)
    }

    /// Reads two bytes, most significant first.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn u16_be(&mut self, field: &'static str) -> Result<u16, Error> {
        self.number::<2, u16>(field, u16::from_be_bytes)
    }

    /// Reads two bytes, most significant first, signed.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn i16_be(&mut self, field: &'static str) -> Result<i16, Error> {
        self.number::<2, i16>(field, i16::from_be_bytes)
    }

    /// Reads four bytes, most significant first, signed.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn i32_be(&mut self, field: &'static str) -> Result<i32, Error> {
        self.number::<4, i32>(field, i32::from_be_bytes)
    }

    /// Reads eight bytes, most significant first, signed.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn i64_be(&mut self, field: &'static str) -> Result<i64, Error> {
        self.number::<8, i64>(field, i64::from_be_bytes)
    }

    /// Reads four bytes, IEEE 754 binary32, most significant first.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn f32_be(&mut self, field: &'static str) -> Result<f32, Error> {
        self.number::<4, f32>(field, f32::from_be_bytes)
    }

    /// Reads eight bytes, IEEE 754 binary64, most significant first.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    #[inline]
    pub fn f64_be(&mut self, field: &'static str) -> Result<f64, Error> {
        self.number::<8, f64>(field, f64::from_be_bytes)
    }

    #[inline]
    fn number<const N: usize, T: Display + Copy>(
        &mut self,
        field: &'static str,
        decode: fn([u8; N]) -> T,
    ) -> Result<T, Error> {
        let at = self.at;
        let value = decode(self.array(field)?);
        self.note(at, field, || value.to_string());
        Ok(value)
    }

    /// Reads UTF-16 after a signed 16-bit count of units, at most `limit`, all with the most
    /// significant byte first. Returns the units as bytes, which [`utf16`](super::utf16) decodes.
    ///
    /// # Errors
    ///
    /// Fails if the datagram ends too early, or if the count is negative or above `limit`.
    pub fn utf16_be(&mut self, limit: usize, field: &'static str) -> Result<&'a [u8], Error> {
        let at = self.at;
        let count = i16::from_be_bytes(self.array(field)?);
        let count = usize::try_from(count)
            .map_err(|_| Error::bad(field, at, "a count of UTF-16 units, not below 0"))?;
        if count > limit {
            return Err(Error::limit(field, at, limit));
        }
        let units = self.take(count * 2, field)?;
        self.note(at, field, || format!("{:?}", super::utf16(units)));
        Ok(units)
    }

    /// Reads a number in groups of 7 bits, least significant first, as in Protobuf: at most 10 bytes.
    /// Makes no note.
    ///
    /// # Errors
    ///
    /// Fails if the datagram ends too early, or if the number has more bytes.
    pub fn varint(&mut self, field: &'static str) -> Result<u64, Error> {
        let at = self.at;
        let mut value = 0;
        for place in 0..10_u32 {
            let [byte] = self.array(field)?;
            value |= u64::from(byte & 0x7F) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Error::bad(field, at, "a number of at most 10 bytes"))
    }

    /// Takes a text after a length of one byte. Notes it by its content.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends too early.
    pub fn counted_text(&mut self, field: &'static str) -> Result<&'a [u8], Error> {
        let at = self.at;
        let [length] = self.array(field)?;
        let text = self.take(length.into(), field)?;
        self.note(at, field, || format!("{:?}", super::by_content(text).0));
        Ok(text)
    }

    /// Takes a text up to its NUL, which is taken too. Notes it by its content.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Short`] if the datagram ends before a NUL.
    pub fn text_to_nul(&mut self, field: &'static str) -> Result<&'a [u8], Error> {
        let at = self.at;
        let length = super::first_nul(self.rest()).unwrap_or(self.remaining());
        let text = self.take(length, field)?;
        let [_] = self.array(field)?;
        self.note(at, field, || format!("{:?}", super::by_content(text).0));
        Ok(text)
    }

    /// Takes all remaining bytes.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Returns the whole datagram.
    pub fn whole(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the number of remaining bytes.
    pub fn remaining(&self) -> usize {
        self.rest().len()
    }

    /// Returns the offset of the next byte.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Fails if bytes remain.
    ///
    /// # Errors
    ///
    /// Returns [`ErrorKind::Leftover`] if bytes remain.
    pub fn end(&self) -> Result<(), Error> {
        match self.remaining() {
            0 => Ok(()),
            count => Err(Error {
                field: "end of message",
                at: self.at,
                kind: ErrorKind::Leftover { count },
            }),
        }
    }

    /// Takes the remaining bytes, if any, and notes them as this deviation.
    pub fn trailing(&mut self, deviation: &'static Deviation) {
        let at = self.at;
        let rest = self.rest();
        if !rest.is_empty() {
            self.at += rest.len();
            self.note(at, "trailing bytes", || hex(rest));
            self.notes.deviation(deviation, at);
        }
    }

    /// Takes all remaining bytes without a note.
    pub fn skip_rest(&mut self) {
        self.at = self.bytes.len();
    }

    /// Returns the notes of this reader.
    pub fn notes(&mut self) -> &mut Notes {
        self.notes
    }

    /// Explains the bytes from `from` to the cursor. `value` runs only if fields are collected.
    #[inline]
    pub fn note(&mut self, from: usize, field: &'static str, value: impl FnOnce() -> String) {
        self.notes.field(from..self.at, field, value);
    }
}

/// Formats at most 32 bytes as pairs of hexadecimal digits, for explanations.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for (i, byte) in bytes.iter().take(32).enumerate() {
        if i > 0 {
            out.push(' ');
        }
        out.push_str(&format!("{byte:02x}"));
    }
    if bytes.len() > 32 {
        out.push_str(" …");
    }
    out
}
