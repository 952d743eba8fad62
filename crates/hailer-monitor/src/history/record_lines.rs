//! Records as text: lines of JSON, or CSV with one table in a file.
//!
//! Spreadsheets interpret some texts as formulas, and players choose their names. So in CSV, a text
//! that begins like a formula or with an apostrophe gets an apostrophe in front, which reading
//! removes. Absent values are empty cells.

use super::HistoryError;
use super::record::{Column, Kind, Record, Table};
use serde_json::{Map, Value};
use std::fmt;
use std::io::{self, BufRead, Read, Write};

/// Limit for a line of JSON, in bytes. The longest lines are events with two MOTDs.
const MAX_LINE_BYTES: u64 = 1 << 20;
const FORMULA: [char; 7] = ['=', '+', '-', '@', '\'', '\t', '\r'];

/// Format of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One line of JSON per record, of all tables. The member `record` names the table.
    Ndjson,
    /// A header, and a row for each record of one table.
    Csv(Table),
}

/// Writes records of the history in an export format.
pub struct RecordWriter<W: Write> {
    to: LineSink<W>,
}

impl<W: Write> fmt::Debug for RecordWriter<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordWriter").finish_non_exhaustive()
    }
}

enum LineSink<W: Write> {
    Ndjson(W),
    Csv(Table, Box<csv::Writer<W>>),
}

impl<W: Write> RecordWriter<W> {
    /// Starts writing. CSV begins with a header.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn new(format: Format, to: W) -> io::Result<Self> {
        let to = match format {
            Format::Ndjson => LineSink::Ndjson(to),
            Format::Csv(table) => {
                let mut csv = csv::Writer::from_writer(to);
                csv.write_record(table.columns().iter().map(|column| column.name))?;
                LineSink::Csv(table, csv.into())
            }
        };
        Ok(Self { to })
    }

    /// Writes a record.
    ///
    /// # Errors
    ///
    /// If writing fails, or for CSV, if the record belongs to another table.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        match &mut self.to {
            LineSink::Ndjson(to) => {
                serde_json::to_writer(&mut *to, record)?;
                to.write_all(b"\n")
            }
            LineSink::Csv(table, csv) => {
                if record.table() != *table {
                    let message = format!(
                        "{} do not go into a file of {}",
                        record.table().word(),
                        table.word()
                    );
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
                }
                let record = serde_json::to_value(record)?;
                csv.write_record(
                    table
                        .columns()
                        .iter()
                        .map(|column| cell(&record[column.name])),
                )?;
                Ok(())
            }
        }
    }

    /// Flushes and returns the writer.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn finish(self) -> io::Result<W> {
        match self.to {
            LineSink::Ndjson(mut to) => to.flush().map(|()| to),
            LineSink::Csv(_, csv) => csv.into_inner().map_err(csv::IntoInnerError::into_error),
        }
    }
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) if text.starts_with(FORMULA) => format!("'{text}"),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Records of a file with their line numbers.
pub type Records<'a> = Box<dyn Iterator<Item = Result<(u64, Record), HistoryError>> + Send + 'a>;

/// Reads the records of a file, each with its line number, for
/// [`History::import`](super::History::import). A file that begins with `{` is NDJSON, else CSV.
///
/// # Errors
/// If the file is empty, or has no header of an exported table.
pub fn read<'a>(mut from: impl BufRead + Send + 'a) -> Result<Records<'a>, HistoryError> {
    let failed = |error: io::Error| HistoryError::Import {
        line: 1,
        message: error.to_string(),
    };
    if from.fill_buf().map_err(failed)?.first() == Some(&b'{') {
        let mut line = 0;
        return Ok(Box::new(std::iter::from_fn(move || {
            line += 1;
            read_line(&mut from, line).transpose()
        })));
    }
    let mut csv = csv::Reader::from_reader(from);
    let header = csv.headers().map_err(|error| failed(error.into()))?.clone();
    let table = Table::ALL
        .into_iter()
        .find(|table| table.columns().iter().map(|column| column.name).eq(&header));
    let Some(table) = table else {
        let message =
            "this is neither a line of JSON nor the header of a table that was exported".into();
        return Err(HistoryError::Import { line: 1, message });
    };
    Ok(Box::new(csv.into_records().map(move |row| {
        let row = row.map_err(|error| {
            let line = error.position().map_or(0, csv::Position::line);
            HistoryError::Import {
                line,
                message: error.to_string(),
            }
        })?;
        let line = row.position().map_or(0, csv::Position::line);
        let record =
            read_row(table, &row).map_err(|message| HistoryError::Import { line, message })?;
        Ok((line, record))
    })))
}

fn read_line(from: &mut impl BufRead, line: u64) -> Result<Option<(u64, Record)>, HistoryError> {
    let failed = |message: String| HistoryError::Import { line, message };
    let mut text = Vec::new();
    from.take(MAX_LINE_BYTES)
        .read_until(b'\n', &mut text)
        .map_err(|error| failed(error.to_string()))?;
    if text.is_empty() {
        return Ok(None);
    }
    if text.len() as u64 == MAX_LINE_BYTES && !text.ends_with(b"\n") {
        return Err(failed(
            "the line is longer than any that was exported".into(),
        ));
    }
    serde_json::from_slice(&text)
        .map(|record| Some((line, record)))
        .map_err(|error| failed(error.to_string()))
}

fn read_row(table: Table, row: &csv::StringRecord) -> Result<Record, String> {
    let mut record = Map::new();
    for (column, cell) in table.columns().iter().zip(row) {
        if !(cell.is_empty() && column.is_optional) {
            record.insert(column.name.into(), read_cell(column, cell)?);
        }
    }
    record.insert("record".into(), table.record().into());
    serde_json::from_value(record.into()).map_err(|error| error.to_string())
}

fn read_cell(column: &Column, cell: &str) -> Result<Value, String> {
    let wrong = |what: &str| format!("column {}: {cell:?} is {what}", column.name);
    match column.kind {
        Kind::Text => {
            let text = cell
                .strip_prefix('\'')
                .filter(|rest| rest.starts_with(FORMULA))
                .unwrap_or(cell);
            Ok(text.into())
        }
        Kind::Int | Kind::Time => cell
            .parse::<i64>()
            .map(Value::from)
            .map_err(|_| wrong("no whole number")),
        Kind::Number => cell
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .map(Value::from)
            .ok_or_else(|| wrong("no number")),
        Kind::Flag => cell
            .parse::<bool>()
            .map(Value::from)
            .map_err(|_| wrong("neither true nor false")),
        Kind::Json => {
            serde_json::from_str(cell).map_err(|error| wrong(&format!("no JSON: {error}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::super::record::{
        ExportedEvent, ExportedRollup, ExportedSample, ExportedServer, ExportedSession,
    };
    use super::*;
    use crate::sample::{EventKind, Sample, ValueChange};
    use crate::server::{Origin, ServerId};

    fn records() -> Vec<Record> {
        let server = String::from("lobby");
        let difference = ValueChange {
            from: Some("=1+1".into()),
            to: Some("a\n\"b\",\0".into()),
        };
        let session = |player: &str| {
            Record::Session(ExportedSession {
                server: server.clone(),
                player: player.into(),
                first: 1,
                last: 2,
            })
        };
        let event = |kind| {
            Record::Event(ExportedEvent {
                server: server.clone(),
                at: 6,
                kind,
            })
        };
        vec![
            Record::Server(ExportedServer {
                server: server.clone(),
                target: "ugp://127.0.0.1".into(),
                group: "-".into(),
                labels: [("a".into(), "'b".into())].into(),
                interval_ms: Some(60_000),
                origin: Origin::Api,
                removed_at: Some(5),
            }),
            Record::Sample(ExportedSample {
                server: server.clone(),
                sample: Sample {
                    server: ServerId::default(),
                    at: -1,
                    is_answered: true,
                    players: Some(u32::MAX),
                    max: Some(2),
                    latency: Some(3),
                    sent: 4,
                    resent: 5,
                    observed_ms: 0,
                },
                observed_ms: Some(6),
            }),
            Record::Rollup(ExportedRollup {
                server: server.clone(),
                level: Level::FiveMinutes,
                at: 300_000,
                polls: 1,
                answered: 2,
                with_players: 3,
                players: Some(1 << 40),
                players_max: Some(4),
                max: Some(5),
                with_latency: 6,
                latency: Some(7),
                latency_max: Some(8),
                sent: 9,
                resent: 10,
                observed_ms: Some(11),
                up_ms: None,
            }),
            event(EventKind::Version(difference)),
            event(EventKind::Down {
                reason: "silence".into(),
            }),
            event(EventKind::Map(ValueChange {
                from: None,
                to: Some("'".into()),
            })),
            event(EventKind::Flapping),
            session("@Alice"),
            session("'"),
            session("Bob"),
        ]
    }

    fn there_and_back(format: Format, records: &[Record]) -> (String, Vec<Record>) {
        let mut lines = RecordWriter::new(format, Vec::new()).unwrap();
        records
            .iter()
            .for_each(|record| lines.write(record).unwrap());
        let text = String::from_utf8(lines.finish().unwrap()).unwrap();
        let back = read(text.as_bytes())
            .unwrap()
            .map(|record| record.unwrap().1)
            .collect();
        (text, back)
    }

    #[test]
    fn records_survive_encoding() {
        let records = records();
        assert_eq!(there_and_back(Format::Ndjson, &records).1, records);
        for table in Table::ALL {
            let of_table: Vec<Record> = records
                .iter()
                .filter(|record| record.table() == table)
                .cloned()
                .collect();
            let (text, back) = there_and_back(Format::Csv(table), &of_table);
            assert_eq!(back, of_table, "{text}");
            // The columns cover all members of the records.
            for record in of_table {
                let Value::Object(members) = serde_json::to_value(&record).unwrap() else {
                    panic!()
                };
                for name in members.keys().filter(|name| *name != "record") {
                    assert!(
                        table.columns().iter().any(|column| column.name == name),
                        "{name} is no column"
                    );
                }
                assert_eq!(members["record"], table.record());
            }
        }
        let (text, _) = there_and_back(Format::Csv(Table::Sessions), &records[7..]);
        assert_eq!(
            text,
            "server,player,first_seen_ms,last_seen_ms\nlobby,'@Alice,1,2\nlobby,'',1,2\nlobby,Bob,1,2\n"
        );
    }

    #[test]
    fn errors_name_the_line() {
        let error = |text: &str| match read(text.as_bytes()) {
            Ok(mut records) => records.find_map(Result::err).expect("an error").to_string(),
            Err(error) => error.to_string(),
        };
        assert!(
            error("{\"record\":\"session\",\"server\":\"a\",\"player\":\"b\",\"first_seen_ms\":1,\"last_seen_ms\":2}\n{")
                .starts_with("line 2: ")
        );
        let wrong = "server,player,first_seen_ms,last_seen_ms\na,b,1,2\na,b,1,two\n";
        assert_eq!(
            error(wrong),
            "line 3: column last_seen_ms: \"two\" is no whole number"
        );
        assert!(error("a,b\n1,2\n").starts_with("line 1: this is neither"));
        assert!(error("").starts_with("line 1: this is neither"));
        assert!(error("server,player,first_seen_ms,last_seen_ms\na,b\n").starts_with("line 2: "));
        assert!(error(&"{".repeat(2 << 20)).starts_with("line 1: the line is longer"));
    }
}
