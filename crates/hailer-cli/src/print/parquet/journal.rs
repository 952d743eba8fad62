//! Journal of a sweep to Parquet: rows of cells, each with its size.
//!
//! All numbers are little-endian. A row is its size in bytes (`u32`) and one cell per field. A cell
//! begins with a `u32`: 0 if there is no value, otherwise one more than the size of the value in
//! bytes, or for a list one more than the number of its elements. Times are microseconds since
//! 1970, flags one byte. An element of a list is one text cell for each of its members.

use crate::print::fields::{Cell, Field, Record};
use hailer::support::report::json;
use std::io::{self, Read, Write};

/// Format of the journal. Only a sweep with the same format can be resumed.
pub(crate) const VERSION: u32 = 2;
/// Maximum size of a row in bytes, which is far above that of the largest answer.
const MAX_ROW_BYTES: usize = 256 << 20;

/// Appends a row.
pub(crate) fn row(out: &mut Vec<u8>, fields: &[&Field], record: &Record<'_>) {
    let start = begin(out);
    for field in fields {
        cell(out, &(field.get)(record));
    }
    let size = out.len() - start - 4;
    end(out, start, size);
}

/// Reserves a size.
fn begin(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; 4]);
    out.len() - 4
}

/// Sets a reserved size.
fn end(out: &mut [u8], start: usize, size: usize) {
    // A row is far below 4 GiB, because answers are limited.
    let size = u32::try_from(size).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&size.to_le_bytes());
}

/// Appends a cell whose value is written by `write`.
fn value(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = begin(out);
    write(out);
    let size = out.len() - start - 4;
    end(out, start, size + 1);
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    value(out, |out| out.extend_from_slice(bytes));
}

fn nothing(out: &mut Vec<u8>) {
    begin(out);
}

/// Appends a list of elements, each written by `write`.
fn list<T>(out: &mut Vec<u8>, items: &[T], write: impl Fn(&mut Vec<u8>, &T)) {
    let start = begin(out);
    for item in items {
        write(out, item);
    }
    end(out, start, items.len() + 1);
}

fn cell(out: &mut Vec<u8>, cell: &Cell<'_>) {
    match cell {
        Cell::Nothing => nothing(out),
        Cell::Word(text) | Cell::Foreign(text) => bytes(out, text.as_bytes()),
        Cell::Plain(text) => bytes(out, text.plain().as_bytes()),
        Cell::Sentence(text) => bytes(out, text.as_bytes()),
        Cell::Address(address) => value(out, |out| json::address(out, *address)),
        // Writing to a `Vec` cannot fail.
        Cell::Ip(ip) => value(out, |out| drop(write!(out, "{ip}"))),
        Cell::Flag(flag) => bytes(out, &[u8::from(*flag)]),
        Cell::Int(number) | Cell::Time(number) => bytes(out, &number.to_le_bytes()),
        Cell::Milliseconds(time) => bytes(out, &time.to_le_bytes()),
        Cell::Players(players) => list(out, players, |out, player| {
            bytes(out, player.name.plain().as_bytes());
            match &player.uuid {
                Some(uuid) => bytes(out, hailer::proto::model::uuid_text(uuid).as_bytes()),
                None => nothing(out),
            }
        }),
        Cell::Rules(rules) => list(out, rules, |out, rule| {
            bytes(out, rule.key.as_bytes());
            bytes(out, rule.value.as_bytes());
        }),
        Cell::Words(names) => list(out, names, |out, name| bytes(out, name.name.as_bytes())),
        Cell::Json(extra) => value(out, |out| json::extras(out, extra)),
    }
}

/// Reads the next row into `row`. Returns `false` at the end of the journal.
///
/// # Errors
/// The journal cannot be read, or it ends within a row.
pub(super) fn next_row(journal: &mut impl Read, row: &mut Vec<u8>) -> io::Result<bool> {
    let mut size = [0; 4];
    match journal.read(&mut size[..1])? {
        0 => return Ok(false),
        _ => journal.read_exact(&mut size[1..])?,
    }
    let size = u32::from_le_bytes(size) as usize;
    if size > MAX_ROW_BYTES {
        return Err(damaged("a row is too large"));
    }
    row.resize(size, 0);
    journal.read_exact(row)?;
    Ok(true)
}

/// Returns the error of a damaged journal.
pub(super) fn damaged(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("the journal is damaged: {what}; start again with --force"),
    )
}

/// Cells of a row. The methods return `None` if the row is damaged.
pub(super) struct Cells<'a>(pub(super) &'a [u8]);

impl<'a> Cells<'a> {
    /// Reads the beginning of a cell. Returns the size of its value, or `Some(None)` if there is no
    /// value.
    pub(super) fn size(&mut self) -> Option<Option<usize>> {
        let size = self.0.split_off(..4)?;
        let size = u32::from_le_bytes(size.try_into().ok()?);
        Some((size as usize).checked_sub(1))
    }

    /// Reads a text of `size` bytes.
    pub(super) fn text(&mut self, size: usize) -> Option<&'a [u8]> {
        let text = self.0.split_off(..size)?;
        std::str::from_utf8(text).ok().map(str::as_bytes)
    }

    /// Reads a value of `size` bytes, which must be `N`.
    pub(super) fn array<const N: usize>(&mut self, size: usize) -> Option<[u8; N]> {
        self.0.split_off(..size)?.try_into().ok()
    }
}
