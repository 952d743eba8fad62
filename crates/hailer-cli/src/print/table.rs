//! Tables.

use super::line;
use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
use hailer::{Answer, Error};
use std::io::Write;

/// The table of several servers side by side shows so much of a text.
const CELL: usize = 40;

/// A table with a header, as wide as the terminal at the most.
pub(crate) fn print<const N: usize>(
    out: &mut impl Write,
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> std::io::Result<()> {
    print_rows(out, header.to_vec(), rows.into_iter().map(Vec::from))
}

/// The same for a number of columns known only now.
pub(crate) fn print_rows(
    out: &mut impl Write,
    header: Vec<&str>,
    rows: impl IntoIterator<Item = Vec<String>>,
) -> std::io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header.into_iter().map(|name| Cell::new(name).add_attribute(Attribute::Underlined)));
    for row in rows {
        table.add_row(row);
    }
    for line in table.lines() {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Several servers side by side: one row an answer.
pub(crate) fn servers(out: &mut impl Write, rows: &[(String, Result<Vec<Answer>, Error>)]) -> std::io::Result<()> {
    let header = ["target", "protocol", "name", "players", "map", "version", "round trip", "remarks"];
    let rows = rows.iter().flat_map(|(target, end)| match end {
        Ok(answers) => answers.iter().map(|answer| server(target, answer)).collect(),
        Err(error) => {
            let mut row = [const { String::new() }; 8];
            row[0] = line(target, CELL);
            row[7] = reason(error);
            vec![row]
        }
    });
    print(out, header, rows)
}

fn server(target: &str, answer: &Answer) -> [String; 8] {
    let status = &answer.status;
    let text = |text: &Option<String>| text.as_deref().map(|text| line(text, CELL)).unwrap_or_default();
    let remarks: Vec<_> = status.deviations.iter().map(|deviation| deviation.name).collect();
    [
        line(target, CELL),
        answer.protocol.id.to_owned(),
        line(&status.title().unwrap_or_default(), CELL),
        players(answer),
        text(&status.map),
        text(&status.version),
        format!("{:.1} ms", answer.round_trip.as_secs_f64() * 1e3),
        remarks.join(", "),
    ]
}

/// `12 / 20`, as far as known.
pub(crate) fn players(answer: &Answer) -> String {
    let players = &answer.status.players;
    match (players.online, players.max) {
        (Some(online), Some(max)) => format!("{online} / {max}"),
        (Some(online), None) => online.to_string(),
        (None, Some(max)) => format!("? / {max}"),
        (None, None) => "?".into(),
    }
}

/// A failure in a few words, for a cell.
fn reason(error: &Error) -> String {
    match error {
        Error::NameNotFound { .. } => "name not found".into(),
        Error::PortClosed { .. } => "port closed".into(),
        Error::Silence { after, .. } => format!("no answer in {:.1} s", after.as_secs_f64()),
        Error::Malformed { fault, .. } => format!("malformed: {fault}"),
        Error::Refused { reason, .. } => format!("refused: {reason}"),
        Error::Unreachable { cause, .. } => format!("unreachable: {cause}"),
        other => line(&other.to_string(), 2 * CELL),
    }
}
