//! Datagrams in hexadecimal, with their fields explained.

use hailer::client::{FaultPlace, Transcript};
use hailer::proto::model::printable;
use hailer::proto::registry;
use hailer::proto::wire::counted;
use hailer::proto::wire::{Error, Field, Notes};
use hailer::proto::{DatagramContext, Direction, Explanation, Info};
use hailer::support::catalog;
use std::io::Write;
use std::ops::Range;

/// Bytes per row of hexadecimal.
const BYTES_PER_ROW: usize = 16;
/// Maximum number of fields shown for one datagram. The rest is only counted.
const MAX_FIELDS: usize = 2_000;
/// Maximum number of bytes shown for one field where fields can be as long as a chunk. The rest is
/// only counted.
#[cfg(feature = "game")]
pub(crate) const MAX_BYTES: usize = 16 * BYTES_PER_ROW;

/// Prints every datagram of an exchange.
pub(crate) fn exchange(out: &mut impl Write, transcript: &Transcript) -> std::io::Result<()> {
    let mut request: &[u8] = &[];
    for datagram in &transcript.datagrams {
        let seen = match datagram.direction {
            Direction::Request => DatagramContext::Request,
            Direction::Reply => DatagramContext::ReplyTo(request),
        };
        if datagram.direction == Direction::Request {
            request = &datagram.bytes;
        }
        let at = format!("{:8.2} ms", datagram.at.as_secs_f64() * 1e3);
        let (found, notes) = explain(transcript.protocol, &datagram.bytes, seen);
        heading(
            out,
            &at,
            Some(datagram.direction),
            found.map(|found| (transcript.protocol, found)),
            datagram.bytes.len(),
        )?;
        body(
            out,
            &datagram.bytes,
            found.and_then(|found| found.error),
            &notes,
            usize::MAX,
        )?;
    }
    Ok(())
}

/// Prints the part of an invalid message around its fault.
pub(crate) fn culprit(out: &mut impl Write, place: FaultPlace<'_>) -> std::io::Result<()> {
    let bytes = place.message;
    let (found, notes) = explain(place.protocol, bytes, DatagramContext::Reply);
    let error = found.and_then(|found| found.error);
    part(
        out,
        bytes,
        place.start..place.end,
        error,
        &notes,
        usize::MAX,
    )?;
    if place.is_cut() {
        writeln!(
            out,
            "  {} in all; --raw shows them",
            counted(bytes.len(), "byte")
        )?;
    }
    Ok(())
}

fn explain(info: &Info, bytes: &[u8], seen: DatagramContext<'_>) -> (Option<Explanation>, Notes) {
    let protocol = catalog::protocol(info.id);
    protocol.map_or_else(Default::default, |protocol| {
        registry::explain_as(protocol, bytes, seen)
    })
}

/// Prints one line: place, time, message and length.
pub(crate) fn heading(
    out: &mut impl Write,
    place: &str,
    direction: Option<Direction>,
    found: Option<(&Info, Explanation)>,
    length: usize,
) -> std::io::Result<()> {
    let arrow = match direction.or(found.map(|(_, explanation)| explanation.direction)) {
        Some(Direction::Request) => "\x1b[36m→\x1b[0m",
        Some(Direction::Reply) => "\x1b[32m←\x1b[0m",
        None => "·",
    };
    let name = match found {
        Some((
            info,
            Explanation {
                message,
                is_certain,
                ..
            },
        )) => {
            format!(
                "\x1b[1m{} {message}\x1b[0m{}",
                info.title,
                if is_certain { "" } else { " (by its shape)" }
            )
        }
        None => "\x1b[1munknown\x1b[0m".into(),
    };
    let place = if place.is_empty() {
        String::new()
    } else {
        format!("{place} ")
    };
    writeln!(out, "{arrow} {place}{name}, {}", counted(length, "byte"))
}

/// Prints the fields, each with a limited number of bytes, and then the error.
pub(crate) fn body(
    out: &mut impl Write,
    bytes: &[u8],
    error: Option<Error>,
    notes: &Notes,
    most: usize,
) -> std::io::Result<()> {
    part(out, bytes, 0..bytes.len(), error, notes, most)
}

/// Prints a part of the bytes, as [`body`].
fn part(
    out: &mut impl Write,
    bytes: &[u8],
    window: Range<usize>,
    error: Option<Error>,
    notes: &Notes,
    most: usize,
) -> std::io::Result<()> {
    let digits = &digits(bytes, &window, notes, "··");
    if window.start > 0 {
        writeln!(out, "         … {} before", counted(window.start, "byte"))?;
    }
    let mut shown = window.start;
    let fields = notes.fields().iter();
    let mut fields = fields.filter(|field| {
        let range = &field.range;
        let is_empty = range.is_empty() && (window.start..=window.end).contains(&range.start);
        is_empty || (range.start < window.end && range.end > window.start)
    });
    for field in fields.by_ref().take(MAX_FIELDS) {
        let start = field.range.start.max(window.start);
        let end = field.range.end.min(window.end);
        if start > shown {
            row(out, digits, shown..start, "", "")?;
        }
        let cut = end.min(start.saturating_add(most));
        row(out, digits, start..cut, &field.name, value(field))?;
        if cut < end {
            writeln!(out, "         … and {} more", counted(end - cut, "byte"))?;
        }
        shown = shown.max(end);
    }
    let more = fields.count();
    if more > 0 {
        writeln!(out, "  … and {} more", counted(more, "field"))?;
        shown = window.end;
    }
    if shown < window.end {
        let mark = if error.is_some() {
            "\x1b[31mnot understood\x1b[0m"
        } else {
            ""
        };
        row(out, digits, shown..window.end, mark, "")?;
    }
    if window.end < bytes.len() {
        let after = bytes.len() - window.end;
        writeln!(out, "         … {} after", counted(after, "byte"))?;
    }
    for (deviation, at) in notes.deviations() {
        writeln!(
            out,
            "  \x1b[33m{}\x1b[0m at offset {at}: {}",
            deviation.name, deviation.help
        )?;
    }
    if let Some(error) = error {
        writeln!(out, "  \x1b[31mmalformed\x1b[0m: {error}")?;
    }
    writeln!(out)
}

/// Prints bytes without explanation.
#[cfg(feature = "game")]
pub(crate) fn rows(out: &mut impl Write, bytes: &[u8]) -> std::io::Result<()> {
    let all = 0..bytes.len();
    let digits = digits(bytes, &all, &Notes::discarding(), "");
    row(out, &digits, all, "", "")
}

/// Formats a message of a protocol as hexadecimal digits. Each byte of a secret is `--`.
pub(crate) fn hex(protocol: &str, bytes: &[u8], seen: DatagramContext<'_>) -> String {
    let mut notes = Notes::explaining();
    if let Some(protocol) = catalog::protocol(protocol) {
        let _ = protocol.explain(bytes, seen, &mut notes);
    }
    digits(bytes, &(0..bytes.len()), &notes, "--")
        .digits
        .concat()
}

/// Bytes as hexadecimal digits, from an offset on.
struct Digits {
    start: usize,
    digits: Vec<String>,
}

impl Digits {
    /// Returns the digits of a range of offsets.
    fn get(&self, range: Range<usize>) -> Option<&[String]> {
        let start = range.start.checked_sub(self.start)?;
        self.digits.get(start..range.end.checked_sub(self.start)?)
    }
}

/// Formats each byte of a part as two hexadecimal digits, or as `hidden` if it belongs to a secret.
fn digits(bytes: &[u8], part: &Range<usize>, notes: &Notes, hidden: &str) -> Digits {
    let shown = bytes.get(part.clone()).unwrap_or_default();
    let mut digits: Vec<String> = shown.iter().map(|byte| format!("{byte:02x}")).collect();
    for field in notes.fields().iter().filter(|field| field.is_secret) {
        let start = field.range.start.clamp(part.start, part.end) - part.start;
        let end = field.range.end.clamp(part.start, part.end) - part.start;
        let secret = digits.get_mut(start..end).unwrap_or_default();
        secret.fill(hidden.to_owned());
    }
    Digits {
        start: part.start,
        digits,
    }
}

/// Returns the value of a field, without secrets.
fn value(field: &Field) -> &str {
    if field.is_secret {
        "not shown"
    } else {
        &field.value
    }
}

/// Prints offset, bytes, name and value. Bytes that do not fit in one row continue in the next.
fn row(
    out: &mut impl Write,
    digits: &Digits,
    range: Range<usize>,
    name: &str,
    value: &str,
) -> std::io::Result<()> {
    let field = digits.get(range.clone()).unwrap_or_default();
    // Print an empty field for its name.
    let empty: &[&[String]] = if field.is_empty() && !name.is_empty() {
        &[&[]]
    } else {
        &[]
    };
    for (i, chunk) in field
        .chunks(BYTES_PER_ROW)
        .chain(empty.iter().copied())
        .enumerate()
    {
        let text = format!(
            "  \x1b[2m{:5}\x1b[0m  {:<47}",
            range.start + i * BYTES_PER_ROW,
            chunk.join(" ")
        );
        match i {
            0 if !name.is_empty() => {
                writeln!(out, "{text}  {name} \x1b[36m{}\x1b[0m", printable(value))?;
            }
            _ => writeln!(out, "{}", text.trim_end())?,
        }
    }
    Ok(())
}

/// Returns the explanation as JSON: message, fields, deviations, error. Each byte of a secret is
/// `--`.
pub(crate) fn json(
    found: Option<(&Info, Explanation)>,
    notes: &Notes,
    bytes: &[u8],
) -> serde_json::Value {
    use serde_json::{Value, json};
    json!({
        "schema": "hailer/datagram/2",
        "protocol": found.map(|(info, _)| info.id),
        "message": found.map(|(_, explanation)| explanation.message),
        "direction": found.map(|(_, explanation)| way_name(explanation.direction)),
        "is_certain": found.map(|(_, explanation)| explanation.is_certain),
        "length_bytes": bytes.len(),
        "hex": digits(bytes, &(0..bytes.len()), notes, "--").digits.concat(),
        "fields": fields(notes),
        "deviations": notes.deviations().iter()
            .map(|(deviation, at)| json!({"name": deviation.name, "offset": at, "help": deviation.help}))
            .collect::<Value>(),
        "error": found.and_then(|(_, explanation)| explanation.error)
            .map(|error| json!({"field": error.field, "offset": error.at, "message": error.to_string()})),
    })
}

/// Returns the explained fields as JSON.
pub(crate) fn fields(notes: &Notes) -> serde_json::Value {
    use serde_json::json;
    let field = |field: &Field| json!({"start": field.range.start, "end": field.range.end, "name": field.name, "value": value(field)});
    notes.fields().iter().map(field).collect()
}

/// Returns `request` or `reply`.
pub(crate) fn way_name(direction: Direction) -> &'static str {
    match direction {
        Direction::Request => "request",
        Direction::Reply => "reply",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer::proto::onequery::message::{Endpoint, Query, Request, Token};
    use hailer::proto::registry;

    const TOKEN: &str = "hush hush, not a word";

    /// Returns a query with an auth token, complete and truncated at each byte of the token.
    fn queries() -> Vec<Vec<u8>> {
        let auth_token = Some(TOKEN.as_bytes());
        let query = Query {
            endpoint: Endpoint::Players,
            token: Token([7; 32]),
            id: 1,
            offset: 0,
            auth_token,
        };
        let mut whole = Vec::new();
        Request::Query(query).write(&mut whole);
        (0..TOKEN.len())
            .map(|cut| whole[..whole.len() - cut].to_vec())
            .collect()
    }

    /// A fault in a message of 2 MiB is shown with the bytes around it.
    #[test]
    fn the_surroundings_of_a_fault_are_shown() {
        let mut bytes = vec![0xAB; 2 << 20];
        bytes[1_000_064] = 0xCD;
        for (start, end, before, after) in [
            (
                1_000_000,
                1_000_128,
                "… 1000000 bytes before",
                "… 1097024 bytes after",
            ),
            (0, 64, "    0\x1b[0m  ab", "… 2097088 bytes after"),
            (2_097_088, 2 << 20, "… 2097088 bytes before", "… ab ab"),
        ] {
            let place = FaultPlace {
                protocol: registry::PROTOCOLS[0].info(),
                message: &bytes,
                start,
                end,
            };
            let mut out = Vec::new();
            culprit(&mut out, place).unwrap();
            let out = String::from_utf8(out).unwrap();
            assert!(out.contains(before), "{out}");
            assert!(out.contains(after) || end == bytes.len(), "{out}");
            assert!(
                out.contains("2097152 bytes in all; --raw shows them"),
                "{out}"
            );
            let shown = out.matches("ab").count() + out.matches("cd").count();
            assert_eq!(shown, end - start, "{out}");
            assert!(out.len() < 2_000, "{}", out.len());
        }
    }

    #[test]
    fn an_auth_token_is_hidden_and_its_place_is_not() {
        for bytes in queries() {
            let Some((protocol, found, notes)) =
                registry::explain(&bytes, DatagramContext::Request)
            else {
                panic!("{bytes:?}")
            };
            let mut out = Vec::new();
            body(&mut out, &bytes, found.error, &notes, usize::MAX).unwrap();
            let out = String::from_utf8(out).unwrap();
            let json = json(Some((protocol.info(), found)), &notes, &bytes);
            let hex = json["hex"].as_str().unwrap();
            assert_eq!(hex.len(), 2 * bytes.len());
            let shown = bytes.len() - hex.matches("--").count();
            assert_eq!(out.matches("··").count(), bytes.len() - shown);
            assert!(shown <= 53, "{out}");
            for text in [&out, &json.to_string()] {
                assert!(
                    !text.contains("hush") && !text.contains("68 75") && !text.contains("6875"),
                    "{text}"
                );
            }
        }
    }
}
