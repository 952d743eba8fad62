//! Parquet, compressed with zstd: made of flat lines of JSON when a sweep is done, since a Parquet file is none before its
//! last byte is written; and of a table of the monitor's history.

use super::fields::{Field, Kind};
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::Value;
use std::io::{self, BufRead, Write};
use std::sync::Arc;

/// A row group has at most so many rows, which take so many bytes: it is kept in memory until it is written.
const ROWS: usize = 1 << 17;
const BYTES: usize = 32 << 20;

/// Turns lines of JSON with these fields into a file. Returns how many rows it has.
pub(crate) fn write(
    lines: impl BufRead,
    fields: &[&'static Field],
    to: impl Write + Send,
) -> io::Result<u64> {
    let shape: Vec<(&'static str, Kind)> = fields
        .iter()
        .map(|field| (field.name, field.kind))
        .collect();
    let mut rows = Rows::new("answer", &shape, to)?;
    for line in lines.lines() {
        let line = line?;
        rows.push(&serde_json::from_str(&line)?, line.len())?;
    }
    rows.finish().map(|(rows, _)| rows)
}

/// A file that is written row by row.
pub(crate) struct Rows<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Column>,
    rows: u64,
    /// Rows that are in memory, and what they take about.
    waiting: usize,
    bytes: usize,
}

impl<W: Write + Send> Rows<W> {
    /// Begins a file of rows that are called this, with these columns.
    pub(crate) fn new(row: &str, shape: &[(&'static str, Kind)], to: W) -> io::Result<Self> {
        let level = ZstdLevel::try_new(3)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by(concat!("hailer ", env!("CARGO_PKG_VERSION")).into());
        let schema = Arc::new(parse_message_type(&schema(row, shape))?);
        let writer = SerializedFileWriter::new(to, schema, Arc::new(properties.build()))?;
        Ok(Self {
            writer,
            columns: columns(shape),
            rows: 0,
            waiting: 0,
            bytes: 0,
        })
    }

    /// Takes a row: an object with members called as the columns are. `bytes` is what it takes about.
    pub(crate) fn push(&mut self, row: &Value, bytes: usize) -> io::Result<()> {
        self.columns
            .iter_mut()
            .for_each(|column| column.push(&row[column.field]));
        (self.rows, self.waiting, self.bytes) =
            (self.rows + 1, self.waiting + 1, self.bytes + bytes);
        if self.waiting == ROWS || self.bytes >= BYTES {
            self.group()?;
        }
        Ok(())
    }

    /// Ends the file. Returns how many rows it has, and what was written to.
    pub(crate) fn finish(mut self) -> io::Result<(u64, W)> {
        if self.waiting > 0 {
            self.group()?;
        }
        Ok((self.rows, self.writer.into_inner()?))
    }

    fn group(&mut self) -> io::Result<()> {
        (self.waiting, self.bytes) = (0, 0);
        Ok(group(&mut self.writer, &mut self.columns)?)
    }
}

/// A column of the file; what is a list of structs in a row is a column for each of their members.
struct Column {
    field: &'static str,
    /// Member of the elements of a list; empty: they are the values themselves. `None`: no list.
    member: Option<&'static str>,
    /// How deep a value is defined, and its list: as the Dremel paper has it.
    definition: Vec<i16>,
    repetition: Vec<i16>,
    values: Values,
}

enum Values {
    Text(Vec<ByteArray>),
    Int(Vec<i64>),
    Number(Vec<f64>),
    Flag(Vec<bool>),
}

/// The members of the elements of a list, and whether each has them.
fn members(kind: Kind) -> &'static [(&'static str, bool)] {
    match kind {
        Kind::Players => &[("name", true), ("uuid", false)],
        Kind::Rules => &[("key", true), ("value", true)],
        _ => &[],
    }
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
            Kind::Players | Kind::Rules => {
                let member = |&(member, always): &(&str, bool)| {
                    format!(
                        "{} binary {member} (STRING);",
                        if always { "required" } else { "optional" }
                    )
                };
                let members: String = members(kind).iter().map(member).collect();
                list(name, &format!("required group element {{ {members} }}"))
            }
        };
    }
    text + "}"
}

fn list(name: &str, element: &str) -> String {
    format!("optional group {name} (LIST) {{ repeated group list {{ {element} }} }}\n")
}

fn columns(shape: &[(&'static str, Kind)]) -> Vec<Column> {
    let column = |field, kind, member| Column {
        field,
        member,
        definition: Vec::new(),
        repetition: Vec::new(),
        values: match kind {
            Kind::Int | Kind::Time => Values::Int(Vec::new()),
            Kind::Number => Values::Number(Vec::new()),
            Kind::Flag => Values::Flag(Vec::new()),
            _ => Values::Text(Vec::new()),
        },
    };
    let of = |&(field, kind): &(&'static str, Kind)| match kind {
        Kind::Words => vec![column(field, kind, Some(""))],
        Kind::Players | Kind::Rules => members(kind)
            .iter()
            .map(|&(member, _)| column(field, kind, Some(member)))
            .collect(),
        _ => vec![column(field, kind, None)],
    };
    shape.iter().flat_map(of).collect()
}

impl Column {
    /// Takes the value of a row.
    fn push(&mut self, value: &Value) {
        let Some(member) = self.member else {
            let defined = self.values.push(value);
            self.definition.push(defined.into());
            return;
        };
        let elements = value.as_array();
        if elements.is_none_or(Vec::is_empty) {
            // No list, or one without elements.
            self.definition.push(elements.is_some().into());
            self.repetition.push(0);
            return;
        }
        for (i, element) in elements.into_iter().flatten().enumerate() {
            let value = if member.is_empty() {
                element
            } else {
                &element[member]
            };
            // The list is there, the element is; a member that need not be is one level more.
            let level = if self.values.push(value) && member == "uuid" {
                3
            } else {
                2
            };
            self.definition.push(level);
            self.repetition.push((i > 0).into());
        }
    }
}

impl Values {
    /// Takes a value of the right kind. Returns whether it was one.
    fn push(&mut self, value: &Value) -> bool {
        fn some<T>(values: &mut Vec<T>, value: Option<T>) -> bool {
            let there = value.is_some();
            values.extend(value);
            there
        }
        match self {
            Self::Text(values) => {
                let text = match value {
                    Value::Null => None,
                    Value::String(text) => Some(text.as_str().into()),
                    other => Some(other.to_string().as_str().into()),
                };
                some(values, text)
            }
            Self::Int(values) => some(values, value.as_i64().or_else(|| micros(value.as_str()?))),
            Self::Number(values) => some(values, value.as_f64()),
            Self::Flag(values) => some(values, value.as_bool()),
        }
    }
}

fn micros(time: &str) -> Option<i64> {
    let since = humantime::parse_rfc3339(time)
        .ok()?
        .duration_since(std::time::UNIX_EPOCH)
        .ok()?;
    since.as_micros().try_into().ok()
}

/// Writes what the columns hold, and empties them.
fn group(
    writer: &mut SerializedFileWriter<impl Write + Send>,
    columns: &mut [Column],
) -> Result<()> {
    let mut group = writer.next_row_group()?;
    for Column {
        definition,
        repetition,
        values,
        ..
    } in columns
    {
        let Some(mut column) = group.next_column()? else {
            break;
        };
        let levels = (
            Some(definition.as_slice()),
            Some(repetition.as_slice()).filter(|levels| !levels.is_empty()),
        );
        match (column.untyped(), &mut *values) {
            (ColumnWriter::ByteArrayColumnWriter(it), Values::Text(values)) => {
                it.write_batch(values, levels.0, levels.1)?;
                values.clear();
            }
            (ColumnWriter::Int64ColumnWriter(it), Values::Int(values)) => {
                it.write_batch(values, levels.0, levels.1)?;
                values.clear();
            }
            (ColumnWriter::DoubleColumnWriter(it), Values::Number(values)) => {
                it.write_batch(values, levels.0, levels.1)?;
                values.clear();
            }
            (ColumnWriter::BoolColumnWriter(it), Values::Flag(values)) => {
                it.write_batch(values, levels.0, levels.1)?;
                values.clear();
            }
            _ => return Err(ParquetError::General("a column of another kind".into())),
        }
        column.close()?;
        definition.clear();
        repetition.clear();
    }
    group.close()?;
    Ok(())
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
