//! Lines of JSON: the complete answer, or a flat object with selected fields.

use super::fields::{Cell, Field, Record};
use hailer::support::report::{AnswerLine, json};
use std::io::Write;

/// Writes a line as in `schema/answer-v2.json`.
pub(crate) fn whole(out: &mut Vec<u8>, record: &Record<'_>) {
    match record.result {
        Ok(answer) => AnswerLine::answered(record.target, answer),
        Err(error) => AnswerLine::failed(record.target, error),
    }
    .write(out);
    out.push(b'\n');
}

/// Writes one object with exactly these members.
pub(crate) fn flat(out: &mut Vec<u8>, fields: &[&Field], record: &Record<'_>) {
    for (i, field) in fields.iter().enumerate() {
        out.extend_from_slice(if i == 0 { b"{\"" } else { b",\"" });
        out.extend_from_slice(field.name.as_bytes());
        out.extend_from_slice(b"\":");
        cell(out, &(field.get)(record));
    }
    out.extend_from_slice(b"}\n");
}

/// Writes a cell as JSON.
pub(super) fn cell(out: &mut Vec<u8>, cell: &Cell<'_>) {
    match cell {
        Cell::Nothing => out.extend_from_slice(b"null"),
        Cell::Word(text) | Cell::Foreign(text) => json::string(out, text),
        Cell::Plain(text) => json::string(out, &text.plain()),
        Cell::Sentence(text) => json::string(out, text),
        Cell::Address(address) => {
            out.push(b'"');
            json::address(out, *address);
            out.push(b'"');
        }
        Cell::Ip(ip) => drop(write!(out, "\"{ip}\"")),
        Cell::Flag(flag) => out.extend_from_slice(if *flag { b"true" } else { b"false" }),
        Cell::Int(number) => json::int(out, *number),
        Cell::Milliseconds(time) => json::milliseconds(out, *time),
        Cell::Time(micros) => {
            out.push(b'"');
            time(out, *micros);
            out.push(b'"');
        }
        Cell::Players(players) => json::list(out, *players, |out, player| {
            out.extend_from_slice(b"{\"name\":");
            json::string(out, &player.name.plain());
            if let Some(uuid) = &player.uuid {
                out.extend_from_slice(b",\"uuid\":");
                json::string(out, &hailer::proto::model::uuid_text(uuid));
            }
            out.push(b'}');
        }),
        Cell::Rules(rules) => json::rules(out, rules),
        Cell::Words(names) => json::list(out, *names, |out, name| json::string(out, name.name)),
        Cell::Json(extra) => json::extras(out, extra),
    }
}

/// Writes a time as in RFC 3339, in UTC.
pub(super) fn time(out: &mut Vec<u8>, micros: i64) {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_micros(micros.max(0).unsigned_abs());
    let _ = write!(out, "{}", humantime::format_rfc3339_micros(at));
}
