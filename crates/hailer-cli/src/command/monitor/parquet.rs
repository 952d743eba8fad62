//! Import and export of history tables as Parquet.
//!
//! In: rows of the history, or a file. Out: a file, or rows of the history.
//!
//! May import: `crate::print`, `hailer_monitor`.

use crate::print::fields::Kind as Cells;
use crate::print::parquet::Rows;
use hailer_monitor::history::{Column, HistoryError, Kind, Record, Records, Table};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use serde_json::{Map, Value};
use std::fs::File;
use std::io::{self, BufRead, BufWriter};

/// Parquet file of one table that is being written.
pub(super) struct TableFile {
    table: Table,
    rows: Rows<BufWriter<File>>,
}

impl TableFile {
    pub(super) fn new(table: Table, to: BufWriter<File>) -> io::Result<Self> {
        let shape = table
            .columns()
            .iter()
            .map(|column| (column.name, cells(column.kind)));
        Ok(Self {
            table,
            rows: Rows::new(table.record(), &shape.collect::<Vec<_>>(), to)?,
        })
    }

    pub(super) fn write(&mut self, record: &Record) -> io::Result<()> {
        let mut row = serde_json::to_value(record)?;
        for column in self.table.columns() {
            let cell = &mut row[column.name];
            // Times in Parquet are in microseconds, as in the output of a sweep.
            if let (Kind::Time, Some(millis)) = (column.kind, cell.as_i64()) {
                *cell = millis.saturating_mul(1_000).into();
            }
        }
        self.rows.push(&row)
    }

    pub(super) fn finish(self) -> io::Result<BufWriter<File>> {
        self.rows.finish().map(|(_, file)| file)
    }
}

fn cells(kind: Kind) -> Cells {
    match kind {
        Kind::Text => Cells::Text,
        Kind::Int => Cells::Int,
        Kind::Number => Cells::Number,
        Kind::Time => Cells::Time,
        Kind::Flag => Cells::Flag,
        Kind::Json => Cells::Json,
    }
}

/// Returns whether a file begins with the Parquet signature.
pub(super) fn begins(file: &mut impl BufRead) -> Result<bool, HistoryError> {
    let begins = file.fill_buf().map(|bytes| bytes.starts_with(b"PAR1"));
    begins.map_err(|error| HistoryError::Import {
        line: 1,
        message: error.to_string(),
    })
}

/// Reads the records of a file, each with its row number.
pub(super) fn read(file: File) -> Result<Records<'static>, HistoryError> {
    let failed = |message: String| HistoryError::Import { line: 1, message };
    let reader = SerializedFileReader::new(file).map_err(|error| failed(error.to_string()))?;
    let names: Vec<String> = {
        let schema = reader.metadata().file_metadata().schema();
        schema
            .get_fields()
            .iter()
            .map(|field| field.name().to_owned())
            .collect()
    };
    let table = Table::ALL
        .into_iter()
        .find(|table| table.columns().iter().map(|column| column.name).eq(&names));
    let Some(table) = table else {
        return Err(failed(
            "the columns of this file match no exported table".into(),
        ));
    };
    Ok(Box::new(reader.into_iter().zip(1..).map(
        move |(row, line)| {
            let record = row
                .map_err(|error| error.to_string())
                .and_then(|row| record(table, row));
            record
                .map(|record| (line, record))
                .map_err(|message| HistoryError::Import { line, message })
        },
    )))
}

fn record(table: Table, row: Row) -> Result<Record, String> {
    let mut record = Map::new();
    for (column, (_, field)) in table.columns().iter().zip(row.into_columns()) {
        if let Some(value) = value(column, field)? {
            record.insert(column.name.into(), value);
        }
    }
    record.insert("record".into(), table.record().into());
    serde_json::from_value(record.into()).map_err(|error| error.to_string())
}

/// Returns a value of a column, or `None` if it is missing.
fn value(column: &Column, field: Field) -> Result<Option<Value>, String> {
    Ok(Some(match (column.kind, field) {
        (_, Field::Null) => return Ok(None),
        (Kind::Text, Field::Str(text)) => text.into(),
        (Kind::Json, Field::Str(text)) => serde_json::from_str(&text)
            .map_err(|error| format!("column {}: no JSON: {error}", column.name))?,
        (Kind::Int, Field::Long(number)) => number.into(),
        (Kind::Number, Field::Double(number)) => number.into(),
        (Kind::Time, Field::TimestampMicros(micros)) => micros.div_euclid(1_000).into(),
        (Kind::Time, Field::TimestampMillis(millis)) => millis.into(),
        (Kind::Flag, Field::Bool(flag)) => flag.into(),
        (_, other) => {
            return Err(format!("column {}: unexpected value {other}", column.name));
        }
    }))
}
