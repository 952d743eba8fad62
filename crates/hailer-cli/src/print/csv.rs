//! CSV as in RFC 4180, one line per record. Line breaks in a cell become spaces, and control
//! characters are removed. Lists and objects are JSON in their cell.
//!
//! Servers choose their names, and spreadsheets run a cell that begins with `=`, `+`, `-` or `@` as
//! a formula. Such text gets an apostrophe in front, and so does text that begins with an
//! apostrophe: removing one apostrophe restores the original text. Numbers stay numbers.

use super::fields::{Cell, Field, Record};
use super::ndjson;
use csv_core::Writer;
use hailer::proto::model::is_control;

/// Writes records into a buffer.
pub(crate) struct Csv {
    fields: Vec<&'static Field>,
    quoter: Writer,
    /// The current cell.
    cell: Vec<u8>,
}

impl Csv {
    pub(crate) fn new(fields: Vec<&'static Field>) -> Self {
        Self {
            fields,
            quoter: Writer::new(),
            cell: Vec::new(),
        }
    }

    /// Writes the names of the columns.
    pub(crate) fn header(&mut self, out: &mut Vec<u8>) {
        self.line(out, |field, cell| {
            cell.extend_from_slice(field.name.as_bytes());
        });
    }

    /// Writes one result.
    pub(crate) fn record(&mut self, out: &mut Vec<u8>, of: &Record<'_>) {
        self.line(out, |field, cell| match (field.get)(of) {
            Cell::Nothing => {}
            Cell::Word(word) => cell.extend_from_slice(word.as_bytes()),
            Cell::Foreign(text) => foreign(cell, text),
            Cell::Plain(text) => foreign(cell, &text.plain()),
            Cell::Sentence(text) => foreign(cell, &text),
            Cell::Address(address) => hailer::support::report::json::address(cell, address),
            Cell::Ip(ip) => cell.extend_from_slice(ip.to_string().as_bytes()),
            Cell::Time(micros) => ndjson::time(cell, micros),
            other => ndjson::cell(cell, &other),
        });
    }

    fn line(&mut self, out: &mut Vec<u8>, write: impl Fn(&Field, &mut Vec<u8>)) {
        let Self {
            fields,
            quoter,
            cell,
        } = self;
        for (i, field) in fields.iter().enumerate() {
            cell.clear();
            write(field, cell);
            let start = out.len();
            // Space for the worst case: every byte doubled, a comma and two quotes, or quotes and
            // the line end.
            out.resize(start + 2 * cell.len() + 8, 0);
            let mut end = start;
            if i > 0 {
                end += quoter.delimiter(&mut out[end..]).1;
            }
            end += quoter.field(cell, &mut out[end..]).2;
            out.truncate(end);
        }
        let start = out.len();
        out.resize(start + 8, 0);
        let end = start + quoter.terminator(&mut out[start..]).1;
        out.truncate(end);
    }
}

/// Appends text of a server: on one line, and safe for terminals and spreadsheets.
fn foreign(cell: &mut Vec<u8>, text: &str) {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r', '\'', '＝', '＋', '－', '＠']) {
        cell.push(b'\'');
    }
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return cell.extend_from_slice(text.as_bytes());
    }
    for c in text
        .chars()
        .map(|c| if matches!(c, '\n' | '\t') { ' ' } else { c })
        .filter(|&c| !is_control(c))
    {
        cell.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print::fields::{FIELDS, find};
    use crate::print::tests::{answer, failure};
    use proptest::prelude::*;
    use std::time::UNIX_EPOCH;

    fn lines(fields: &[&str], result: &Result<hailer::Answer, hailer::Error>) -> String {
        let mut csv = Csv::new(fields.iter().map(|name| find(name).unwrap()).collect());
        let mut out = Vec::new();
        csv.header(&mut out);
        csv.record(
            &mut out,
            &Record {
                target: "play.example.com",
                at: UNIX_EPOCH,
                result,
            },
        );
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_record_is_a_line() {
        let names: Vec<&str> = FIELDS.iter().map(|field| field.name).collect();
        for result in [answer("a\nb, \"c\"\x1b[2J\u{2028}d\r\n"), failure()] {
            let text = lines(&names, &result);
            assert_eq!(text.lines().count(), 2, "{text}");
            let mut reader = csv::Reader::from_reader(text.as_bytes());
            let record = reader.records().next().unwrap().unwrap();
            let cell = |name: &str| {
                record
                    .get(names.iter().position(|known| *known == name).unwrap())
                    .unwrap()
            };
            assert_eq!(cell("ok"), if result.is_ok() { "true" } else { "false" });
            assert_eq!(cell("time"), "1970-01-01T00:00:00.000000Z");
            if result.is_ok() {
                assert_eq!(cell("motd"), "a b, \"c\"[2Jd ");
                let players: serde_json::Value = serde_json::from_str(cell("players")).unwrap();
                assert_eq!(players[0]["name"], "a\nb, \"c\"[2Jd\n");
            } else {
                assert_eq!(cell("error_kind"), "silence");
            }
        }
        assert_eq!(
            lines(&["error_kind"], &answer("x")),
            "error_kind\n\"\"\n",
            "an empty line would be no record"
        );
    }

    proptest! {
        #[test]
        fn no_text_is_a_formula_and_none_is_lost(text in "[=+@\t'-]?[ -~]{0,20}|.{0,20}") {
            let out = lines(&["motd", "players_online"], &answer(&text));
            let mut reader = csv::Reader::from_reader(out.as_bytes());
            let record = reader.records().next().unwrap().unwrap();
            let cell = record.get(0).unwrap();
            prop_assert!(!cell.starts_with(['=', '+', '-', '@', '\t', '\r']), "{:?}", cell);
            if let Ok(answer) = answer(&text) {
                let plain = answer.status.motd.unwrap().plain().replace('\n', " ");
                prop_assert_eq!(cell.strip_prefix('\'').unwrap_or(cell), plain);
            }
            prop_assert_eq!(record.get(1).unwrap(), "-3", "a number is no formula");
        }
    }
}
