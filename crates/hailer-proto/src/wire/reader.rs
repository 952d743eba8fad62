//! The cursor over one datagram.

use super::{Deviation, Error, ErrorKind, Notes};
use alloc::{format, string::String, string::ToString};
use core::fmt::Display;

/// A checked cursor over one datagram. Offsets in errors and notes always count from the datagram's first byte.
#[derive(Debug)]
pub struct Reader<'a, 'n> {
    bytes: &'a [u8],
    at: usize,
    notes: &'n mut Notes,
}

impl<'a, 'n> Reader<'a, 'n> {
    /// Starts at the first byte of a datagram.
    pub fn new(bytes: &'a [u8], notes: &'n mut Notes) -> Self {
        Self { bytes, at: 0, notes }
    }

    /// Takes `n` bytes. Every other read goes through here.
    pub fn take(&mut self, n: usize, field: &'static str) -> Result<&'a [u8], Error> {
        let rest = self.rest();
        match rest.get(..n) {
            Some(taken) => {
                self.at += n;
                Ok(taken)
            }
            None => Err(Error { field, at: self.at, kind: ErrorKind::Short { need: n - rest.len() } }),
        }
    }

    /// Takes `N` bytes as an array, without a note.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Error> {
        let at = self.at;
        self.take(N, field)?.try_into().map_err(|_| Error::bad(field, at, "a fixed number of bytes"))
    }

    /// Takes `n` bytes and notes them in hexadecimal.
    pub fn raw(&mut self, n: usize, field: &'static str) -> Result<&'a [u8], Error> {
        let at = self.at;
        let taken = self.take(n, field)?;
        self.note(at, field, || hex(taken));
        Ok(taken)
    }

    /// Takes the constant `expected`, or fails at its first byte.
    pub fn constant(&mut self, expected: &'static [u8], field: &'static str) -> Result<(), Error> {
        let at = self.at;
        if self.take(expected.len(), field)? != expected {
            return Err(Error::bad(field, at, "the protocol's constant"));
        }
        self.note(at, field, || hex(expected));
        Ok(())
    }

    /// One byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, Error> {
        self.number::<1, u8>(field, u8::from_be_bytes)
    }

    /// Two bytes, least significant first.
    pub fn u16_le(&mut self, field: &'static str) -> Result<u16, Error> {
        self.number::<2, u16>(field, u16::from_le_bytes)
    }

    /// Four bytes, least significant first.
    pub fn u32_le(&mut self, field: &'static str) -> Result<u32, Error> {
        self.number::<4, u32>(field, u32::from_le_bytes)
    }

    /// Four bytes, least significant first, signed.
    pub fn i32_le(&mut self, field: &'static str) -> Result<i32, Error> {
        self.number::<4, i32>(field, i32::from_le_bytes)
    }

    /// Four bytes, most significant first, signed.
    pub fn i32_be(&mut self, field: &'static str) -> Result<i32, Error> {
        self.number::<4, i32>(field, i32::from_be_bytes)
    }

    /// Eight bytes, least significant first.
    pub fn u64_le(&mut self, field: &'static str) -> Result<u64, Error> {
        self.number::<8, u64>(field, u64::from_le_bytes)
    }

    /// Four bytes, IEEE 754 binary32, least significant first.
    pub fn f32_le(&mut self, field: &'static str) -> Result<f32, Error> {
        self.number::<4, f32>(field, f32::from_le_bytes)
    }

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

    /// Everything not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// The whole datagram.
    pub fn whole(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many bytes are not read yet.
    pub fn remaining(&self) -> usize {
        self.rest().len()
    }

    /// Offset of the next byte.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Refuses bytes left over.
    pub fn end(&self) -> Result<(), Error> {
        match self.remaining() {
            0 => Ok(()),
            count => Err(Error { field: "end of message", at: self.at, kind: ErrorKind::Leftover { count } }),
        }
    }

    /// Takes what is left over, if anything, as the protocol's deviation of that kind.
    pub fn trailing(&mut self, deviation: &'static Deviation) {
        let (at, rest) = (self.at, self.rest());
        if !rest.is_empty() {
            self.at += rest.len();
            self.note(at, "trailing bytes", || hex(rest));
            self.notes.deviation(deviation, at);
        }
    }

    /// Where deviations and explained fields go.
    pub fn notes(&mut self) -> &mut Notes {
        self.notes
    }

    /// Explains the bytes from `from` to the cursor. `value` runs only if somebody wants to read it.
    pub fn note(&mut self, from: usize, field: &'static str, value: impl FnOnce() -> String) {
        self.notes.field(from..self.at, field, value);
    }
}

/// Hexadecimal in pairs, shortened past 32 bytes: for explanations only.
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
