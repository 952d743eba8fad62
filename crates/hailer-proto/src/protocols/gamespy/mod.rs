//! Formats that the GameSpy protocols share: pairs of keys and values, player and team tables, and
//! the QR2 layer with its challenge tokens, which Minecraft Query uses too.
//!
//! Limits: field names of tables have at most 32 bytes, row numbers go up to 1,023.
//!
//! In: bytes of replies, or a status. Out: a status, or bytes of replies.
//!
//! May import: `crate::model`, `crate::protocol`, `crate::sample`, `crate::token`, `crate::wire`.

pub mod deviation;
pub mod gamespy1;
pub mod gamespy2;
pub mod gamespy3;
pub mod minecraft_query;
pub mod qr2;
pub(crate) mod sample;
mod status;
mod write;

pub use status::{MAX_ROW, Reply};
pub(crate) use status::{is_any, is_member_key, is_name_field};
pub(crate) use write::{Dialect, Outgoing, Row, fits_latin1, has_index};

use alloc::vec::Vec;

/// Longest accepted field name of a table, in bytes. A table carries a field name once, but a
/// status has it once for each row.
pub const MAX_FIELD_NAME: usize = 32;

/// Appends a number as decimal text, without an allocation.
pub(crate) fn write_decimal(number: i64, out: &mut Vec<u8>) {
    use core::fmt::Write;
    struct Ascii<'a>(&'a mut Vec<u8>);
    impl Write for Ascii<'_> {
        fn write_str(&mut self, text: &str) -> core::fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    let _ = write!(Ascii(out), "{number}");
}
