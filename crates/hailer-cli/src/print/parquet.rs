//! Parquet files, written in row groups and compressed with zstd: results of a sweep, and tables of
//! the monitor's history.
//!
//! A Parquet file is valid once its last byte is written. A sweep therefore writes lines of flat
//! JSON, its journal, and [`write`] converts them at the end. A row group stays in memory until it
//! is written. Limits: a row group has at most 65,536 rows and 4 MiB of values.

use super::fields::{Field, Kind};
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, Write};
use std::ops::Range;
use std::sync::Arc;

const MAX_GROUP_ROWS: usize = 1 << 16;
const MAX_GROUP_BYTES: usize = 4 << 20;
/// Estimated memory of a value in addition to its bytes: two levels and an offset.
const VALUE_BYTES: usize = 12;
/// Number of values per call of the Parquet library.
const BATCH: usize = 4_096;
/// Maximum size of a dictionary in bytes. Above it, the column is written without one, since its
/// values hardly repeat.
const MAX_DICTIONARY_BYTES: usize = 64 << 10;

/// Converts lines of JSON with these fields, in this order, to a file. Returns the number of rows.
pub(crate) fn write(
    mut lines: impl BufRead,
    fields: &[&'static Field],
    to: impl Write + Send,
) -> io::Result<u64> {
    let shape: Vec<(&'static str, Kind)> = fields
        .iter()
        .map(|field| (field.name, field.kind))
        .collect();
    let mut rows = Rows::new("answer", &shape, to)?;
    let mut line = Vec::new();
    while lines.read_until(b'\n', &mut line)? > 0 {
        rows.push_line(&line)?;
        line.clear();
    }
    rows.finish().map(|(rows, _)| rows)
}

/// A file that is written row by row.
pub(crate) struct Rows<W: Write + Send> {
    file: SerializedFileWriter<W>,
    columns: Vec<Column>,
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
            .map(|&(name, kind)| Column::new(name, kind))
            .collect();
        Ok(Self {
            file,
            columns,
            rows: 0,
            group_rows: 0,
        })
    }

    /// Adds a row: an object with a member for each column. `null` and missing members have no
    /// value.
    pub(crate) fn push(&mut self, row: &Value) -> io::Result<()> {
        for column in &mut self.columns {
            let value = &row[column.name];
            ColumnValue(column)
                .deserialize(value)
                .map_err(io::Error::from)?;
        }
        self.end_row()
    }

    /// Adds a row: a line of JSON with the columns as members, in order.
    fn push_line(&mut self, line: &[u8]) -> io::Result<()> {
        let mut json = serde_json::Deserializer::from_slice(line);
        json.deserialize_map(Line(&mut self.columns))?;
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
struct Column {
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

/// The methods push a value only if it has the type of the column, and return whether it has.
impl Column {
    fn new(name: &'static str, kind: Kind) -> Self {
        let text = |present| Leaf::new(Values::Text(Vec::new(), Vec::new()), present);
        let leaves = match kind {
            Kind::Text | Kind::Json => vec![text(1)],
            Kind::Flag => vec![Leaf::new(Values::Flag(Vec::new()), 1)],
            Kind::Int | Kind::Time => vec![Leaf::new(Values::Int(Vec::new()), 1)],
            Kind::Number => vec![Leaf::new(Values::Number(Vec::new()), 1)],
            Kind::Words => vec![text(2)],
            // The UUID is optional, which adds one level.
            Kind::Players => vec![text(2), text(3)],
            Kind::Rules => vec![text(2), text(2)],
        };
        Self { name, kind, leaves }
    }

    /// Pushes a missing value or list.
    fn push_null(&mut self) {
        for leaf in &mut self.leaves {
            leaf.level(0, true);
        }
    }

    fn push_text(&mut self, text: &[u8]) -> bool {
        self.leaves[0].push_text(text, true)
    }

    fn push_int(&mut self, int: i64) -> bool {
        let Values::Int(values) = &mut self.leaves[0].values else {
            return false;
        };
        values.push(int);
        self.leaves[0].level(1, true);
        true
    }

    fn push_number(&mut self, number: f64) -> bool {
        let Values::Number(values) = &mut self.leaves[0].values else {
            return false;
        };
        values.push(number);
        self.leaves[0].level(1, true);
        true
    }

    fn push_flag(&mut self, flag: bool) -> bool {
        let Values::Flag(values) = &mut self.leaves[0].values else {
            return false;
        };
        values.push(flag);
        self.leaves[0].level(1, true);
        true
    }

    /// Pushes a list without elements.
    fn push_empty_list(&mut self) {
        for leaf in &mut self.leaves {
            leaf.level(1, true);
        }
    }

    /// Pushes a member of a list element. `None` is for optional members only.
    fn push_member(&mut self, member: usize, text: Option<&[u8]>, is_first: bool) {
        let Some(leaf) = self.leaves.get_mut(member) else {
            return;
        };
        match text {
            Some(text) => drop(leaf.push_text(text, is_first)),
            None => leaf.level(2, is_first),
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

    fn level(&mut self, definition: i16, is_first: bool) {
        self.definition.push(definition);
        if self.is_list() {
            self.repetition.push(i16::from(!is_first));
        }
    }

    fn push_text(&mut self, text: &[u8], is_first: bool) -> bool {
        let Values::Text(texts, ends) = &mut self.values else {
            return false;
        };
        texts.extend_from_slice(text);
        ends.push(texts.len());
        self.level(self.present, is_first);
        true
    }

    /// Writes the values and removes them.
    fn write(&mut self, column: &mut ColumnWriter<'_>) -> Result<()> {
        let ranges = self.batches();
        match (column, &mut self.values) {
            (ColumnWriter::ByteArrayColumnWriter(column), Values::Text(texts, ends)) => {
                let mut start = 0;
                let mut batch: Vec<ByteArray> = Vec::with_capacity(BATCH);
                for (levels, values) in ranges {
                    batch.clear();
                    for end in &ends[values] {
                        batch.push(texts[start..*end].to_vec().into());
                        start = *end;
                    }
                    write_batch(column, &batch, &self.definition, &self.repetition, levels)?;
                }
                texts.clear();
                ends.clear();
            }
            (ColumnWriter::Int64ColumnWriter(column), Values::Int(values)) => {
                for (levels, range) in ranges {
                    write_batch(
                        column,
                        &values[range],
                        &self.definition,
                        &self.repetition,
                        levels,
                    )?;
                }
                values.clear();
            }
            (ColumnWriter::DoubleColumnWriter(column), Values::Number(values)) => {
                for (levels, range) in ranges {
                    write_batch(
                        column,
                        &values[range],
                        &self.definition,
                        &self.repetition,
                        levels,
                    )?;
                }
                values.clear();
            }
            (ColumnWriter::BoolColumnWriter(column), Values::Flag(values)) => {
                for (levels, range) in ranges {
                    write_batch(
                        column,
                        &values[range],
                        &self.definition,
                        &self.repetition,
                        levels,
                    )?;
                }
                values.clear();
            }
            _ => return Err(ParquetError::General("a column of another type".into())),
        }
        self.definition.clear();
        self.repetition.clear();
        Ok(())
    }

    /// Divides the levels into ranges of about [`BATCH`] that begin with a row. Returns each with
    /// its range of values.
    fn batches(&self) -> Vec<(Range<usize>, Range<usize>)> {
        let mut batches = Vec::new();
        let (mut start, mut first_value) = (0, 0);
        while start < self.definition.len() {
            let mut end = (start + BATCH).min(self.definition.len());
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
        repetition.filter(|it| !it.is_empty()),
    )?;
    Ok(())
}

/// The members of a line, one for each column.
struct Line<'a>(&'a mut [Column]);

impl<'de> Visitor<'de> for Line<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a member for each column")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut members: M) -> std::result::Result<(), M::Error> {
        for column in self.0 {
            if members.next_key::<Cow<'_, str>>()?.as_deref() != Some(column.name) {
                return Err(M::Error::custom(format!(
                    "column {} is missing",
                    column.name
                )));
            }
            members.next_value_seed(ColumnValue(column))?;
        }
        match members.next_key::<IgnoredAny>()? {
            None => Ok(()),
            Some(_) => Err(M::Error::custom("a column too many")),
        }
    }
}

/// The value of a column in one row.
struct ColumnValue<'a>(&'a mut Column);

impl ColumnValue<'_> {
    fn check<E: serde::de::Error>(self, is_valid: bool) -> std::result::Result<(), E> {
        if is_valid {
            Ok(())
        } else {
            let message = format!("column {} has another type", self.0.name);
            Err(E::custom(message))
        }
    }
}

impl<'de> DeserializeSeed<'de> for ColumnValue<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(
        self,
        json: D,
    ) -> std::result::Result<(), D::Error> {
        if self.0.kind != Kind::Json {
            return json.deserialize_any(self);
        }
        let value: Value = serde::Deserialize::deserialize(json)?;
        match value {
            Value::Null => self.0.push_null(),
            other => drop(self.0.push_text(other.to_string().as_bytes())),
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for ColumnValue<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value of column {}", self.0.name)
    }

    fn visit_unit<E: serde::de::Error>(self) -> std::result::Result<(), E> {
        self.0.push_null();
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, flag: bool) -> std::result::Result<(), E> {
        let is_valid = self.0.push_flag(flag);
        self.check(is_valid)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> std::result::Result<(), E> {
        let is_valid = match self.0.kind {
            Kind::Number => self.0.push_number(number as f64),
            _ => self.0.push_int(number),
        };
        self.check(is_valid)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> std::result::Result<(), E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => Err(E::custom(format!(
                "{number} in column {} is too large",
                self.0.name
            ))),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> std::result::Result<(), E> {
        let is_valid = self.0.push_number(number);
        self.check(is_valid)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<(), E> {
        let is_valid = match self.0.kind {
            Kind::Time => micros(text).is_some_and(|micros| self.0.push_int(micros)),
            _ => self.0.push_text(text.as_bytes()),
        };
        self.check(is_valid)
    }

    fn visit_seq<S: SeqAccess<'de>>(self, mut elements: S) -> std::result::Result<(), S::Error> {
        let mut is_first = true;
        while elements
            .next_element_seed(Element {
                column: &mut *self.0,
                is_first,
            })?
            .is_some()
        {
            is_first = false;
        }
        if is_first {
            self.0.push_empty_list();
        }
        Ok(())
    }
}

/// An element of a list: a string, or an object with the members of [`members`].
struct Element<'a> {
    column: &'a mut Column,
    is_first: bool,
}

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(
        self,
        json: D,
    ) -> std::result::Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an element of column {}", self.column.name)
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> std::result::Result<(), E> {
        self.column
            .push_member(0, Some(word.as_bytes()), self.is_first);
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut object: M) -> std::result::Result<(), M::Error> {
        let mut found = 0;
        while let Some(key) = object.next_key::<Cow<'_, str>>()? {
            let text: Cow<'_, str> = object.next_value()?;
            // Members are in the order of the schema. An optional one may be missing.
            if members(self.column.kind).get(found) == Some(&&*key) {
                self.column
                    .push_member(found, Some(text.as_bytes()), self.is_first);
                found += 1;
            }
        }
        for member in found..self.column.leaves.len() {
            self.column.push_member(member, None, self.is_first);
        }
        Ok(())
    }
}

/// Returns the members of the elements of a list, in order.
fn members(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Players => &["name", "uuid"],
        Kind::Rules => &["key", "value"],
        _ => &[],
    }
}

fn micros(time: &str) -> Option<i64> {
    let since = humantime::parse_rfc3339(time)
        .ok()?
        .duration_since(std::time::UNIX_EPOCH)
        .ok()?;
    since.as_micros().try_into().ok()
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
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn what_was_written_can_be_read() {
        let fields: Vec<&'static Field> = FIELDS
            .iter()
            .map(|field| crate::print::fields::find(field.name).unwrap())
            .collect();
        let at = UNIX_EPOCH + Duration::from_micros(1_700_000_000_123_456);
        let mut lines = Vec::new();
        let ends = [answer("a\n\"b\" 名"), failure(), answer("")];
        for result in &ends {
            ndjson::flat(
                &mut lines,
                &fields,
                &Record {
                    target: "play.example.com",
                    at,
                    result,
                },
            );
        }
        let mut file = Vec::new();
        assert_eq!(write(lines.as_slice(), &fields, &mut file).unwrap(), 3);
        let reader = SerializedFileReader::new(bytes(&file)).unwrap();
        let rows: Vec<_> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| object(&row.unwrap()))
            .collect();
        for (row, line) in rows.iter().zip(lines.split(|byte| *byte == b'\n')) {
            let line: Value = serde_json::from_slice(line).unwrap();
            for field in &fields {
                let (value, expected) = (&row[field.name], &line[field.name]);
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
        let mut it = std::fs::File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        it.write_all(file).unwrap();
        it.seek(SeekFrom::Start(0)).unwrap();
        std::fs::remove_file(&path).unwrap();
        it
    }
}
