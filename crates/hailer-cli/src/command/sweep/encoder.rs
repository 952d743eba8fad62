//! Encoding of the results of a sweep.

use crate::print::csv::Csv;
use crate::print::fields::{Field, Record};
#[cfg(feature = "parquet")]
use crate::print::parquet::journal;
use crate::print::{ndjson, server_lines};
use hailer::sweep::ProbeResult;
use std::time::SystemTime;

/// Encoding of results.
pub(super) enum Encoder {
    /// One line of JSON as in `schema/answer-v2.json`.
    Whole,
    /// JSON with the selected fields.
    Flat(Vec<&'static Field>),
    /// Rows of the journal that becomes a Parquet file.
    #[cfg(feature = "parquet")]
    Journal(Vec<&'static Field>),
    Csv(Box<Csv>),
    /// Human-readable lines. The flag adds the names of the players.
    Lines(bool),
}

impl Encoder {
    /// Writes the header of a new output.
    pub(super) fn header(&mut self, out: &mut Vec<u8>) {
        match self {
            Self::Csv(csv) => csv.header(out),
            Self::Lines(_) => server_lines::header(out),
            _ => {}
        }
    }

    /// Writes a result.
    pub(super) fn record(&mut self, out: &mut Vec<u8>, target: &str, end: &ProbeResult) {
        let at = match self {
            Self::Whole | Self::Lines(_) => SystemTime::UNIX_EPOCH,
            _ => SystemTime::now(),
        };
        let record = Record {
            target,
            at,
            result: &end.result,
        };
        match self {
            Self::Whole => ndjson::whole(out, &record),
            Self::Flat(fields) => ndjson::flat(out, fields, &record),
            #[cfg(feature = "parquet")]
            Self::Journal(fields) => journal::row(out, fields, &record),
            Self::Csv(csv) => csv.record(out, &record),
            Self::Lines(listed) => server_lines::record(out, &record, *listed),
        }
    }
}
