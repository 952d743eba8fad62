//! Compressed rows of several servers: samples, or roll-ups of one level. Sans-IO.
//!
//! ```text
//! block    version, number of servers; of each: its number less the one before, bytes; sections
//! section  rows of one server: number of rows, then columns of bits
//! ```
//!
//! A column has the differences to a prediction: that polls come evenly, that a number is the one
//! before, that a server replies. Most differences are zero, and take no bits. Nothing is rounded.
//! A section can be read without the others.
//!
//! In: rows of servers, or bytes of a block. Out: bytes of a block, or rows of servers.
//!
//! May import: `crate::sample`, `crate::server`.

mod bits;
mod rollup;
mod sample;

use crate::sample::Millis;
use crate::server::ServerId;
use bits::{BitReader, BitWriter, fold, unfold};
pub(super) use rollup::Rollup;

/// First byte of each block.
const VERSION: u8 = 1;

/// Period of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Its beginning, in Unix milliseconds.
    pub(super) start: Millis,
    /// Its length in milliseconds, a multiple of `step`.
    pub(super) length: Millis,
    /// Times of rows are multiples of this after the beginning.
    pub(super) step: Millis,
}

/// A row of a block.
pub(super) trait BlockRow: Sized {
    /// Usual distance between rows, in steps.
    const DISTANCE: i64;

    /// Returns the time of the row, in Unix milliseconds.
    fn at(&self) -> Millis;

    /// Writes all columns but the time. `distances`: steps since the previous row.
    fn write(rows: &[Self], distances: &[i64], columns: &mut ColumnWriter);

    /// Reads the columns of rows at these times.
    fn read(
        server: ServerId,
        times: &[Millis],
        distances: &[i64],
        columns: &mut ColumnReader<'_>,
    ) -> Option<Vec<Self>>;
}

/// Writes the rows of some servers. Servers are in ascending order, and have one row or more. Rows are in
/// ascending order of time, within the span.
pub(super) fn write<'a, T: BlockRow + 'a>(
    span: Span,
    servers: impl IntoIterator<Item = (ServerId, &'a [T])>,
) -> Vec<u8> {
    let mut head = vec![VERSION];
    let mut table = Vec::new();
    let mut body = Vec::new();
    let mut previous = 0_i64;
    let mut count = 0;
    for (server, rows) in servers {
        let section = write_section(span, rows);
        varint(&mut table, fold(server.0.wrapping_sub(previous)));
        varint(&mut table, section.len() as u64);
        body.extend(section);
        previous = server.0;
        count += 1;
    }
    varint(&mut head, count);
    head.extend(table);
    head.extend(body);
    head
}

/// Reads the rows of those servers that are wanted. `None`: the bytes are no block of this span.
pub(super) fn read<T: BlockRow>(
    span: Span,
    bytes: &[u8],
    is_wanted: impl Fn(ServerId) -> bool,
) -> Option<Vec<(ServerId, Vec<T>)>> {
    let mut rest = bytes.strip_prefix(&[VERSION])?;
    let count = read_varint(&mut rest)?;
    // Each server takes two bytes or more.
    let mut table = Vec::with_capacity(usize::try_from(count).ok().filter(|n| *n <= rest.len())?);
    let mut previous = None;
    for _ in 0..count {
        let step = unfold(read_varint(&mut rest)?);
        let server = previous.unwrap_or(0_i64).wrapping_add(step);
        if previous.is_some_and(|previous| server <= previous) {
            return None;
        }
        previous = Some(server);
        table.push((
            ServerId(server),
            usize::try_from(read_varint(&mut rest)?).ok()?,
        ));
    }
    let mut found = Vec::new();
    for (server, length) in table {
        let (section, others) = rest.split_at_checked(length)?;
        rest = others;
        if is_wanted(server) {
            found.push((server, read_section(span, server, section)?));
        }
    }
    rest.is_empty().then_some(found)
}

fn write_section<T: BlockRow>(span: Span, rows: &[T]) -> Vec<u8> {
    let mut columns = ColumnWriter::default();
    columns.bits.number(rows.len() as u64);
    let mut distances = Vec::with_capacity(rows.len());
    let mut changes = Vec::with_capacity(rows.len());
    let mut previous = span.start;
    let mut usual = T::DISTANCE;
    for (nth, row) in rows.iter().enumerate() {
        let distance = (row.at() - previous) / span.step;
        previous = row.at();
        distances.push(distance);
        if nth == 0 {
            columns.bits.number(distance as u64);
        } else {
            changes.push(distance - usual);
            usual = distance;
        }
    }
    columns.numbers(&changes);
    T::write(rows, &distances, &mut columns);
    columns.bits.finish()
}

fn read_section<T: BlockRow>(span: Span, server: ServerId, bytes: &[u8]) -> Option<Vec<T>> {
    let mut columns = ColumnReader {
        bits: BitReader::new(bytes),
    };
    let most = (span.length / span.step) as u64;
    let count = columns
        .bits
        .number()
        .filter(|count| (1..=most).contains(count))? as usize;
    let first = columns.bits.number().filter(|first| *first < most)? as i64;
    let mut distances = columns.numbers(count - 1)?;
    let mut at = first;
    let mut times = Vec::with_capacity(count);
    times.push(span.start + first * span.step);
    let mut usual = T::DISTANCE;
    for distance in &mut distances {
        usual = usual.checked_add(*distance)?;
        *distance = usual;
        at = at
            .checked_add(usual)
            .filter(|at| usual > 0 && *at < most as i64)?;
        times.push(span.start + at * span.step);
    }
    distances.insert(0, first);
    let rows = T::read(server, &times, &distances, &mut columns)?;
    columns.bits.is_at_end().then_some(rows)
}

fn varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if part << shift >> shift != part {
            return None;
        }
        value |= part << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Writes the columns of a section.
#[derive(Debug, Default)]
pub(super) struct ColumnWriter {
    bits: BitWriter,
}

impl ColumnWriter {
    /// Writes numbers, of which most are zero or small.
    fn numbers(&mut self, values: &[i64]) {
        let folded: Vec<u64> = values.iter().map(|value| fold(*value)).collect();
        self.bits.column(&folded);
    }

    /// Writes flags, of which most are as expected.
    fn flags(&mut self, flags: impl Iterator<Item = (bool, bool)>) {
        let other: Vec<u64> = flags
            .map(|(flag, expected)| u64::from(flag != expected))
            .collect();
        self.bits.column(&other);
    }

    /// Writes numbers that stay the same for long, or change by little.
    fn steady(&mut self, values: impl IntoIterator<Item = i64>) {
        let mut previous = 0_i64;
        let changes = values.into_iter().map(|value| {
            let change = value.wrapping_sub(previous);
            previous = value;
            change
        });
        let changes: Vec<i64> = changes.collect();
        // The first has its own size.
        if let Some((first, rest)) = changes.split_first() {
            self.bits.number(fold(*first));
            self.numbers(rest);
        }
    }

    /// Writes measured numbers: they change around a mean, or from one to the next. Zeros at the end of
    /// all of them are left out.
    fn measured(&mut self, values: &[i64]) {
        if values.is_empty() {
            return;
        }
        let mut unit = 1_i64;
        let mut zeros = 0;
        while zeros < 15 && values.iter().all(|value| value % (unit * 10) == 0) {
            unit *= 10;
            zeros += 1;
        }
        let mut sorted: Vec<i64> = values.iter().map(|value| value / unit).collect();
        let plain = sorted.clone();
        sorted.sort_unstable();
        let middle = sorted[sorted.len() / 2];
        let around: Vec<i64> = plain
            .iter()
            .map(|value| value.wrapping_sub(middle))
            .collect();
        let changes: Vec<i64> = std::iter::once(plain[0].wrapping_sub(middle))
            .chain(plain.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])))
            .collect();
        let size = |values: &[i64]| -> u64 {
            values
                .iter()
                .map(|value| u64::from(64 - fold(*value).leading_zeros()))
                .sum()
        };
        let is_around = size(&around) <= size(&changes);
        self.bits.bits(zeros, 4);
        self.bits.number(fold(middle));
        self.bits.bits(is_around.into(), 1);
        self.numbers(if is_around { &around } else { &changes });
    }
}

/// Reads the columns of a section.
#[derive(Debug)]
pub(super) struct ColumnReader<'a> {
    bits: BitReader<'a>,
}

impl ColumnReader<'_> {
    fn numbers(&mut self, count: usize) -> Option<Vec<i64>> {
        Some(self.bits.column(count)?.into_iter().map(unfold).collect())
    }

    /// Reads flags. `expected` gets the number of a flag and the previous flag.
    fn flags(
        &mut self,
        count: usize,
        mut expected: impl FnMut(usize, Option<bool>) -> bool,
    ) -> Option<Vec<bool>> {
        let mut previous = None;
        let mut flags = Vec::with_capacity(count);
        for (nth, other) in self.bits.column(count)?.into_iter().enumerate() {
            let flag = expected(nth, previous) != (other > 0);
            if other > 1 {
                return None;
            }
            previous = Some(flag);
            flags.push(flag);
        }
        Some(flags)
    }

    fn steady(&mut self, count: usize) -> Option<Vec<i64>> {
        if count == 0 {
            return Some(Vec::new());
        }
        let mut value = unfold(self.bits.number()?);
        let mut values = Vec::with_capacity(count);
        values.push(value);
        for change in self.numbers(count - 1)? {
            value = value.wrapping_add(change);
            values.push(value);
        }
        Some(values)
    }

    fn measured(&mut self, count: usize) -> Option<Vec<i64>> {
        if count == 0 {
            return Some(Vec::new());
        }
        let unit = 10_i64.pow(self.bits.bits(4)? as u32);
        let middle = unfold(self.bits.number()?);
        let is_around = self.bits.bits(1)? == 1;
        let mut previous = middle;
        let mut values = self.numbers(count)?;
        for value in &mut values {
            previous = value.wrapping_add(if is_around { middle } else { previous });
            *value = previous.checked_mul(unit)?;
        }
        Some(values)
    }
}

/// Returns the numbers of those rows that have one, in their places.
fn spread<T: TryFrom<i64>>(values: Vec<i64>, flags: &[bool]) -> Option<Vec<Option<T>>> {
    let mut values = values.into_iter();
    let place = |flag: &bool| match flag {
        true => T::try_from(values.next()?).ok().map(Some),
        false => Some(None),
    };
    flags.iter().map(place).collect()
}

fn whole<T: TryFrom<i64>>(value: i64) -> Option<T> {
    T::try_from(value).ok()
}

#[cfg(test)]
mod tests;
