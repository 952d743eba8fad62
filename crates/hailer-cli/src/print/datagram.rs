//! Datagrams in hexadecimal, explained.

use hailer::Answer;
use hailer::proto::model::printable;
use hailer::proto::wire::{Field, Notes};
use hailer::proto::{Explanation, Info, Seen, Way, registry};
use std::io::Write;

/// Bytes in one row of hexadecimal.
const ROW: usize = 16;
/// Fields of one datagram shown before the rest is only counted.
const MAX_FIELDS: usize = 2_000;

/// Every datagram of an exchange.
pub(crate) fn exchange(out: &mut impl Write, answer: &Answer) -> std::io::Result<()> {
    let mut request: &[u8] = &[];
    for datagram in &answer.datagrams {
        let seen = match datagram.way {
            Way::Request => Seen::Request,
            Way::Reply => Seen::ReplyTo(request),
        };
        if datagram.way == Way::Request {
            request = &datagram.bytes;
        }
        let at = format!("{:8.2} ms", datagram.at.as_secs_f64() * 1e3);
        let protocol = registry::find(answer.protocol.id);
        let mut notes = Notes::explaining();
        let found = protocol.and_then(|protocol| protocol.explain(&datagram.bytes, seen, &mut notes));
        heading(out, &at, Some(datagram.way), found.map(|found| (answer.protocol, found)), datagram.bytes.len())?;
        body(out, &datagram.bytes, found, &notes)?;
    }
    Ok(())
}

/// The datagram that a failure is about.
pub(crate) fn culprit(out: &mut impl Write, protocol: &str, bytes: &[u8]) -> std::io::Result<()> {
    let mut notes = Notes::explaining();
    let found = registry::find(protocol).and_then(|protocol| protocol.explain(bytes, Seen::Reply, &mut notes));
    body(out, bytes, found, &notes)
}

/// One line: when and where, which message, how long.
pub(crate) fn heading(
    out: &mut impl Write,
    place: &str,
    way: Option<Way>,
    found: Option<(&Info, Explanation)>,
    length: usize,
) -> std::io::Result<()> {
    let arrow = match way.or(found.map(|(_, explanation)| explanation.way)) {
        Some(Way::Request) => "\x1b[36m→\x1b[0m",
        Some(Way::Reply) => "\x1b[32m←\x1b[0m",
        None => "·",
    };
    let name = match found {
        Some((info, Explanation { message, sure, .. })) => {
            format!("\x1b[1m{} {message}\x1b[0m{}", info.title, if sure { "" } else { " (by its shape)" })
        }
        None => "\x1b[1munknown\x1b[0m".into(),
    };
    writeln!(out, "{arrow} {place} {name}, {length} bytes")
}

/// The fields with their bytes, then what is wrong.
pub(crate) fn body(
    out: &mut impl Write,
    bytes: &[u8],
    found: Option<Explanation>,
    notes: &Notes,
) -> std::io::Result<()> {
    let mut shown = 0;
    for field in notes.fields().iter().take(MAX_FIELDS) {
        if field.range.start > shown {
            row(out, bytes, shown..field.range.start, "", "")?;
        }
        row(out, bytes, field.range.clone(), &field.name, &field.value)?;
        shown = shown.max(field.range.end);
    }
    if let Some(more @ 1..) = notes.fields().len().checked_sub(MAX_FIELDS) {
        writeln!(out, "  … and {more} fields more")?;
        shown = bytes.len();
    }
    let error = found.and_then(|found| found.error);
    if shown < bytes.len() {
        let mark = if error.is_some() { "\x1b[31mnot understood\x1b[0m" } else { "" };
        row(out, bytes, shown..bytes.len(), mark, "")?;
    }
    for (deviation, at) in notes.deviations() {
        writeln!(out, "  \x1b[33m{}\x1b[0m at offset {at}: {}", deviation.name, deviation.help)?;
    }
    if let Some(error) = error {
        writeln!(out, "  \x1b[31mmalformed\x1b[0m: {error}")?;
    }
    writeln!(out)
}

/// Offset, bytes, name and value; more rows of bytes if they do not fit into one.
fn row(
    out: &mut impl Write,
    bytes: &[u8],
    range: std::ops::Range<usize>,
    name: &str,
    value: &str,
) -> std::io::Result<()> {
    let field = bytes.get(range.clone()).unwrap_or_default();
    let mut first = true;
    // An empty field still has a name worth showing.
    let mut chunks: Vec<&[u8]> = field.chunks(ROW).collect();
    if chunks.is_empty() && !name.is_empty() {
        chunks.push(&[]);
    }
    for (i, chunk) in chunks.into_iter().enumerate() {
        let hex: Vec<String> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        let (name, value) = if first { (name, printable(value)) } else { ("", String::new()) };
        let at = range.start + i * ROW;
        let text = format!("  \x1b[2m{at:5}\x1b[0m  {:<47}  {name} \x1b[36m{value}\x1b[0m", hex.join(" "));
        writeln!(
            out,
            "{}",
            if name.is_empty() && value.is_empty() {
                text.trim_end_matches(" \x1b[36m\x1b[0m").trim_end()
            } else {
                &text
            }
        )?;
        first = false;
    }
    Ok(())
}

/// The same as JSON: message, fields, deviations, error.
pub(crate) fn json(found: Option<(&Info, Explanation)>, notes: &Notes, bytes: &[u8]) -> serde_json::Value {
    use serde_json::{Value, json};
    let fields = |field: &Field| json!({"start": field.range.start, "end": field.range.end, "name": field.name, "value": field.value});
    json!({
        "schema": "hailer/datagram/1",
        "protocol": found.map(|(info, _)| info.id),
        "message": found.map(|(_, explanation)| explanation.message),
        "way": found.map(|(_, explanation)| way_name(explanation.way)),
        "sure": found.map(|(_, explanation)| explanation.sure),
        "length": bytes.len(),
        "hex": bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(),
        "fields": notes.fields().iter().map(fields).collect::<Value>(),
        "deviations": notes.deviations().iter()
            .map(|(deviation, at)| json!({"name": deviation.name, "at": at, "help": deviation.help}))
            .collect::<Value>(),
        "error": found.and_then(|(_, explanation)| explanation.error)
            .map(|error| json!({"field": error.field, "at": error.at, "message": error.to_string()})),
    })
}

/// `request` or `reply`.
pub(crate) fn way_name(way: Way) -> &'static str {
    match way {
        Way::Request => "request",
        Way::Reply => "reply",
    }
}
