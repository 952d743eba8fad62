//! Parquet files, written in row groups and compressed with zstd: results of a sweep, and tables of
//! the monitor's history.
//!
//! A Parquet file is valid once its last byte is written. A sweep therefore writes a [`journal`],
//! and [`write`] converts it at the end. A row group stays in memory until it is written. Limits: a
//! row group has at most 65,536 rows and 4 MiB of values.

pub(crate) mod journal;

use super::fields::{Field, Kind};
use journal::Cells;
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
#[cfg(any(feature = "monitor", test))]
use serde_json::Value;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::sync::Arc;

const MAX_GROUP_ROWS: usize = 1 << 16;
const MAX_GROUP_BYTES: usize = 4 << 20;
/// Estimated memory of a value in addition to its bytes: two levels and an offset.
const VALUE_BYTES: usize = 12;
/// Number of values per call of the Parquet library.
const VALUES_PER_CALL: usize = 4_096;
/// Maximum size of a dictionary in bytes. Above it, the column is written without one, since its
/// values hardly repeat.
const MAX_DICTIONARY_BYTES: usize = 64 << 10;
/// Definition levels of texts in list elements that are present. An optional member has one level
/// more.
const MEMBER: i16 = 2;
const OPTIONAL_MEMBER: i16 = 3;

/// Converts a journal with these fields to a file. Returns the number of rows.
///
/// # Errors
/// The journal cannot be read or is damaged, or the file cannot be written.
pub(crate) fn write(
    mut journal: impl Read,
    fields: &[&'static Field],
    to: impl Write + Send,
) -> io::Result<u64> {
    write_rows(&mut journal, fields, to).map_err(without_wrapper)
}

/// Returns the error of the file system inside an error of the Parquet library, which adds only
/// "External".
fn without_wrapper(error: io::Error) -> io::Error {
    let inner = error
        .get_ref()
        .and_then(|error| match error.downcast_ref::<ParquetError>() {
            Some(ParquetError::External(inner)) => inner.downcast_ref::<io::Error>(),
            _ => None,
        });
    match inner.and_then(io::Error::raw_os_error) {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error,
    }
}

fn write_rows(
    journal: &mut impl Read,
    fields: &[&'static Field],
    to: impl Write + Send,
) -> io::Result<u64> {
    let shape: Vec<(&'static str, Kind)> = fields
        .iter()
        .map(|field| (field.name, field.kind))
        .collect();
    let mut rows = Rows::new("answer", &shape, to)?;
    let mut row = Vec::new();
    while journal::next_row(journal, &mut row)? {
        rows.push_cells(Cells(&row))?;
    }
    rows.finish().map(|(rows, _)| rows)
}

/// A file that is written row by row.
pub(crate) struct Rows<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<ParquetColumn>,
    rows: u64,
    group_rows: usize,
}

impl<W: Write + Send> Rows<W> {
    /// Starts a file with these columns. `row` is the name of its schema.
    pub(crate) fn new(row: &str, shape: &[(&'static str, Kind)], to: W) -> io::Result<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_dictionary_page_size_limit(MAX_DICTIONARY_BYTES)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by(concat!("hailer ", env!("CARGO_PKG_VERSION")).into());
        let schema = Arc::new(parse_message_type(&schema(row, shape))?);
        let file = SerializedFileWriter::new(to, schema, Arc::new(properties.build()))?;
        let columns = shape
            .iter()
            .map(|&(name, kind)| ParquetColumn::new(name, kind))
            .collect();
        Ok(Self {
            file,
            columns,
            rows: 0,
            group_rows: 0,
        })
    }

    /// Adds a row: an object with a member for each column. `null` and missing members have no
    /// value. Lists are not supported.
    ///
    /// # Errors
    /// A value has another type than its column, or the file cannot be written.
    #[cfg(feature = "monitor")]
    pub(crate) fn push(&mut self, row: &Value) -> io::Result<()> {
        for column in &mut self.columns {
            if column.push_json(&row[column.name]).is_none() {
                let message = format!("column {} has another type", column.name);
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
        }
        self.end_row()
    }

    /// Adds a row of a journal.
    fn push_cells(&mut self, mut cells: Cells<'_>) -> io::Result<()> {
        for column in &mut self.columns {
            if column.push_cell(&mut cells).is_none() {
                return Err(journal::damaged(column.name));
            }
        }
        if !cells.0.is_empty() {
            return Err(journal::damaged("a row has a column too many"));
        }
        self.end_row()
    }

    /// Ends a row.
    fn end_row(&mut self) -> io::Result<()> {
        self.rows += 1;
        self.group_rows += 1;
        let bytes: usize = self
            .columns
            .iter()
            .flat_map(|column| &column.leaves)
            .map(Leaf::bytes)
            .sum();
        if self.group_rows >= MAX_GROUP_ROWS || bytes >= MAX_GROUP_BYTES {
            self.write_group()?;
        }
        Ok(())
    }

    /// Completes the file. Returns the number of rows and the inner writer.
    pub(crate) fn finish(mut self) -> io::Result<(u64, W)> {
        if self.group_rows > 0 {
            self.write_group()?;
        }
        Ok((self.rows, self.file.into_inner()?))
    }

    fn write_group(&mut self) -> Result<()> {
        self.group_rows = 0;
        let mut group = self.file.next_row_group()?;
        for leaf in self
            .columns
            .iter_mut()
            .flat_map(|column| &mut column.leaves)
        {
            let Some(mut column) = group.next_column()? else {
                break;
            };
            leaf.write(column.untyped())?;
            column.close()?;
        }
        group.close()?;
        Ok(())
    }
}

/// A column of the file. A list of objects has one leaf for each member.
struct ParquetColumn {
    name: &'static str,
    kind: Kind,
    /// One leaf for a plain value or a list of strings, one per member for a list of objects.
    leaves: Vec<Leaf>,
}

struct Leaf {
    /// Definition and repetition levels as in the Dremel paper. Plain values do not repeat.
    definition: Vec<i16>,
    repetition: Vec<i16>,
    /// Definition level of a value that is present.
    present: i16,
    values: Values,
}

enum Values {
    /// Concatenated texts, and the end offset of each.
    Text(Vec<u8>, Vec<usize>),
    Int(Vec<i64>),
    Number(Vec<f64>),
    Flag(Vec<bool>),
}

/// The methods return `None` if a value has another type than the column.
impl ParquetColumn {
    fn new(name: &'static str, kind: Kind) -> Self {
        let text = |present| Leaf::new(Values::Text(Vec::new(), Vec::new()), present);
        let leaves = match kind {
            Kind::Text | Kind::Json => vec![text(1)],
            Kind::Flag => vec![Leaf::new(Values::Flag(Vec::new()), 1)],
            Kind::Int | Kind::Time => vec![Leaf::new(Values::Int(Vec::new()), 1)],
            Kind::Number => vec![Leaf::new(Values::Number(Vec::new()), 1)],
            Kind::Words => vec![text(MEMBER)],
            Kind::Players => vec![text(MEMBER), text(OPTIONAL_MEMBER)],
            Kind::Rules => vec![text(MEMBER), text(MEMBER)],
        };
        Self { name, kind, leaves }
    }

    /// Pushes a missing value or list.
    fn push_null(&mut self) {
        for leaf in &mut self.leaves {
            leaf.push_level(0, true);
        }
    }

    fn push_text(&mut self, text: &[u8]) -> Option<()> {
        self.leaves[0].push_text(text, true)
    }

    fn push_int(&mut self, int: i64) -> Option<()> {
        let Values::Int(values) = &mut self.leaves[0].values else {
            return None;
        };
        values.push(int);
        self.leaves[0].push_level(1, true);
        Some(())
    }

    fn push_number(&mut self, number: f64) -> Option<()> {
        let Values::Number(values) = &mut self.leaves[0].values else {
            return None;
        };
        values.push(number);
        self.leaves[0].push_level(1, true);
        Some(())
    }

    fn push_flag(&mut self, flag: bool) -> Option<()> {
        let Values::Flag(values) = &mut self.leaves[0].values else {
            return None;
        };
        values.push(flag);
        self.leaves[0].push_level(1, true);
        Some(())
    }

    /// Pushes a list of `length` elements.
    fn push_list(&mut self, length: usize, cells: &mut Cells<'_>) -> Option<()> {
        if length == 0 {
            for leaf in &mut self.leaves {
                leaf.push_level(1, true);
            }
        }
        for element in 0..length {
            for leaf in &mut self.leaves {
                match cells.size()? {
                    Some(size) => leaf.push_text(cells.text(size)?, element == 0)?,
                    None if leaf.present == OPTIONAL_MEMBER => {
                        leaf.push_level(leaf.present - 1, element == 0);
                    }
                    None => return None,
                }
            }
        }
        Some(())
    }

    /// Pushes the next cell of a row.
    fn push_cell(&mut self, cells: &mut Cells<'_>) -> Option<()> {
        let Some(size) = cells.size()? else {
            self.push_null();
            return Some(());
        };
        match self.kind {
            Kind::Text | Kind::Json => self.push_text(cells.text(size)?),
            Kind::Int | Kind::Time => self.push_int(i64::from_le_bytes(cells.array(size)?)),
            Kind::Number => self.push_number(f64::from_le_bytes(cells.array(size)?)),
            Kind::Flag => self.push_flag(cells.array(size)? != [0]),
            Kind::Words | Kind::Players | Kind::Rules => self.push_list(size, cells),
        }
    }

    /// Pushes a JSON value.
    #[cfg(feature = "monitor")]
    fn push_json(&mut self, value: &Value) -> Option<()> {
        match (self.kind, value) {
            (_, Value::Null) => {
                self.push_null();
                Some(())
            }
            (Kind::Json, value) => self.push_text(value.to_string().as_bytes()),
            (_, Value::String(text)) => self.push_text(text.as_bytes()),
            (_, Value::Bool(flag)) => self.push_flag(*flag),
            (Kind::Number, Value::Number(number)) => self.push_number(number.as_f64()?),
            (_, Value::Number(number)) => self.push_int(number.as_i64()?),
            (_, Value::Array(_) | Value::Object(_)) => None,
        }
    }
}

impl Leaf {
    fn new(values: Values, present: i16) -> Self {
        Self {
            definition: Vec::new(),
            repetition: Vec::new(),
            present,
            values,
        }
    }

    fn is_list(&self) -> bool {
        self.present > 1
    }

    fn bytes(&self) -> usize {
        let text = if let Values::Text(text, _) = &self.values {
            text.len()
        } else {
            0
        };
        text + self.definition.len() * VALUE_BYTES
    }

    fn push_level(&mut self, definition: i16, is_first: bool) {
        self.definition.push(definition);
        if self.is_list() {
            self.repetition.push(i16::from(!is_first));
        }
    }

    fn push_text(&mut self, text: &[u8], is_first: bool) -> Option<()> {
        let Values::Text(texts, ends) = &mut self.values else {
            return None;
        };
        texts.extend_from_slice(text);
        ends.push(texts.len());
        self.push_level(self.present, is_first);
        Some(())
    }

    /// Writes the values and removes them.
    fn write(&mut self, column: &mut ColumnWriter<'_>) -> Result<()> {
        let ranges = self.batches();
        match (column, &mut self.values) {
            (ColumnWriter::ByteArrayColumnWriter(column), Values::Text(texts, ends)) => {
                let mut start = 0;
                let mut batch: Vec<ByteArray> = Vec::with_capacity(VALUES_PER_CALL);
                let next = Vec::with_capacity(texts.len());
                // The values share one buffer, so that none needs its own allocation.
                let texts = ByteArray::from(std::mem::replace(texts, next));
                for (levels, values) in ranges {
                    batch.clear();
                    for end in &ends[values] {
                        batch.push(texts.slice(start, *end - start));
                        start = *end;
                    }
                    write_batch(column, &batch, &self.definition, &self.repetition, levels)?;
                }
                ends.clear();
            }
            (ColumnWriter::Int64ColumnWriter(column), Values::Int(values)) => {
                write_values(column, values, &self.definition, &self.repetition, ranges)?;
            }
            (ColumnWriter::DoubleColumnWriter(column), Values::Number(values)) => {
                write_values(column, values, &self.definition, &self.repetition, ranges)?;
            }
            (ColumnWriter::BoolColumnWriter(column), Values::Flag(values)) => {
                write_values(column, values, &self.definition, &self.repetition, ranges)?;
            }
            _ => return Err(ParquetError::General("a column of another type".into())),
        }
        self.definition.clear();
        self.repetition.clear();
        Ok(())
    }

    /// Divides the levels into ranges of about [`VALUES_PER_CALL`] that begin with a row. Returns each with
    /// its range of values.
    fn batches(&self) -> Vec<(Range<usize>, Range<usize>)> {
        let mut batches = Vec::new();
        let mut start = 0;
        let mut first_value = 0;
        while start < self.definition.len() {
            let mut end = (start + VALUES_PER_CALL).min(self.definition.len());
            while self.repetition.get(end).is_some_and(|level| *level > 0) {
                end += 1;
            }
            let levels = &self.definition[start..end];
            let present = levels
                .iter()
                .filter(|level| **level == self.present)
                .count();
            batches.push((start..end, first_value..first_value + present));
            start = end;
            first_value += present;
        }
        batches
    }
}

/// Writes all values in batches, and removes them.
fn write_values<T: DataType>(
    column: &mut ColumnWriterImpl<'_, T>,
    values: &mut Vec<T::T>,
    definition: &[i16],
    repetition: &[i16],
    batches: Vec<(Range<usize>, Range<usize>)>,
) -> Result<()> {
    for (levels, range) in batches {
        write_batch(column, &values[range], definition, repetition, levels)?;
    }
    values.clear();
    Ok(())
}

fn write_batch<T: DataType>(
    column: &mut ColumnWriterImpl<'_, T>,
    values: &[T::T],
    definition: &[i16],
    repetition: &[i16],
    levels: Range<usize>,
) -> Result<()> {
    let repetition = repetition.get(levels.clone());
    column.write_batch(
        values,
        Some(&definition[levels]),
        repetition.filter(|text| !text.is_empty()),
    )?;
    Ok(())
}

fn schema(row: &str, shape: &[(&'static str, Kind)]) -> String {
    let mut text = format!("message {row} {{\n");
    for &(name, kind) in shape {
        text += &match kind {
            Kind::Text | Kind::Json => format!("optional binary {name} (STRING);\n"),
            Kind::Flag => format!("optional boolean {name};\n"),
            Kind::Int => format!("optional int64 {name};\n"),
            Kind::Number => format!("optional double {name};\n"),
            Kind::Time => format!("optional int64 {name} (TIMESTAMP(MICROS,true));\n"),
            Kind::Words => list(name, "required binary element (STRING);"),
            Kind::Players => list(
                name,
                "required group element { required binary name (STRING); optional binary uuid (STRING); }",
            ),
            Kind::Rules => list(
                name,
                "required group element { required binary key (STRING); required binary value (STRING); }",
            ),
        };
    }
    text + "}"
}

fn list(name: &str, element: &str) -> String {
    format!("optional group {name} (LIST) {{ repeated group list {{ {element} }} }}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::fields::{FIELDS, Record};
    use crate::print::ndjson;
    use crate::print::tests::{answer, failure};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record;
    use proptest::prelude::*;
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn reads_its_own_output() {
        let fields: Vec<&'static Field> = FIELDS
            .iter()
            .map(|field| crate::print::fields::find(field.name).unwrap())
            .collect();
        let at = UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
        let mut lines = Vec::new();
        let mut rows = Vec::new();
        let ends = [answer("a\n\"b\" 名"), failure(), answer("")];
        for result in &ends {
            let record = Record {
                target: "play.example.com",
                at,
                result,
            };
            ndjson::flat(&mut lines, &fields, &record);
            journal::row(&mut rows, &fields, &record);
        }
        let mut file = Vec::new();
        assert_eq!(write(rows.as_slice(), &fields, &mut file).unwrap(), 3);
        let reader = SerializedFileReader::new(bytes(&file)).unwrap();
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| object(&row.unwrap()))
            .collect();
        for (row, line) in rows.iter().zip(lines.split(|byte| *byte == b'\n')) {
            let line: Value = serde_json::from_slice(line).unwrap();
            for field in &fields {
                let value = &row[field.name];
                let expected = &line[field.name];
                match field.kind {
                    Kind::Json => {
                        let text = value
                            .as_str()
                            .map(|text| serde_json::from_str(text).unwrap());
                        assert_eq!(&text.unwrap_or(Value::Null), expected);
                    }
                    Kind::Time => assert_eq!(value, &Value::from(1_700_000_000_123_456_i64)),
                    Kind::Players if !expected.is_null() => {
                        assert_eq!(value[0], expected[0]);
                        assert_eq!(value[1]["name"], "");
                        assert_eq!(value[1]["uuid"], Value::Null);
                    }
                    _ => assert_eq!(value, expected, "{}", field.name),
                }
            }
        }
        assert_eq!(rows[1]["error_kind"], "silence");
        let mut empty = Vec::new();
        assert_eq!(write(&b""[..], &fields, &mut empty).unwrap(), 0);
        assert_eq!(
            SerializedFileReader::new(bytes(&empty))
                .unwrap()
                .metadata()
                .file_metadata()
                .num_rows(),
            0
        );
    }

    /// Returns all fields, and a journal of three rows with the end of each row.
    fn journal_of_three() -> (Vec<&'static Field>, Vec<u8>, Vec<usize>) {
        let fields: Vec<&'static Field> = FIELDS
            .iter()
            .map(|field| crate::print::fields::find(field.name).unwrap())
            .collect();
        let mut rows = Vec::new();
        let mut ends = vec![0];
        for result in &[answer("a"), failure(), Ok(crate::print::tests::typical())] {
            let record = Record {
                target: "play.example.com",
                at: UNIX_EPOCH,
                result,
            };
            journal::row(&mut rows, &fields, &record);
            ends.push(rows.len());
        }
        (fields, rows, ends)
    }

    #[test]
    fn truncated_journals_are_errors_except_between_rows() {
        let (fields, rows, ends) = journal_of_three();
        for length in 0..rows.len() {
            let written = write(&rows[..length], &fields, io::sink());
            match ends.iter().position(|end| *end == length) {
                Some(count) => assert_eq!(written.unwrap(), count as u64),
                None => drop(written.unwrap_err()),
            }
        }
    }

    #[test]
    fn journals_of_other_fields_are_errors() {
        let (mut fields, rows, _) = journal_of_three();
        let last = fields.pop().unwrap();
        let error = write(rows.as_slice(), &fields, io::sink()).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
        fields.extend([last, last]);
        let error = write(rows.as_slice(), &fields, io::sink()).unwrap_err();
        assert!(error.to_string().contains("damaged"), "{error}");
    }

    proptest! {
        #[test]
        fn damaged_journals_never_panic(at in any::<prop::sample::Index>(), byte: u8) {
            let (fields, mut rows, _) = journal_of_three();
            let at = at.index(rows.len());
            rows[at] = byte;
            let _ = write(rows.as_slice(), &fields, io::sink());
        }
    }

    fn object(row: &record::Row) -> Value {
        row.get_column_iter()
            .map(|(name, field)| (name.clone(), json(field)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }

    fn json(field: &record::Field) -> Value {
        match field {
            record::Field::Null => Value::Null,
            record::Field::Bool(flag) => (*flag).into(),
            record::Field::Long(number) | record::Field::TimestampMicros(number) => {
                (*number).into()
            }
            record::Field::Double(number) => (*number).into(),
            record::Field::Str(text) => text.as_str().into(),
            record::Field::Group(row) => object(row),
            record::Field::ListInternal(list) => list.elements().iter().map(json).collect(),
            other => panic!("{other}"),
        }
    }

    fn bytes(file: &[u8]) -> std::fs::File {
        use std::io::{Seek, SeekFrom};
        let path = std::env::temp_dir().join(format!(
            "hailer-{}-{}.parquet",
            std::process::id(),
            file.len()
        ));
        let mut opened = std::fs::File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        opened.write_all(file).unwrap();
        opened.seek(SeekFrom::Start(0)).unwrap();
        std::fs::remove_file(&path).unwrap();
        opened
    }
}
