//! Tables that fit the terminal.

use super::{columns, line};
use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, Table, Width, presets};
use hailer::client::Answers;
use hailer::{Answer, Error};
use std::io::Write;
use unicode_width::UnicodeWidthStr;

/// Maximum width of text from a server in a cell, in columns.
pub(crate) const CELL: usize = 40;
/// Spaces between two columns.
const GAP_WIDTH: usize = 2;
/// Minimum width of a column while there are spare columns to remove.
const NARROW_WIDTH: usize = 16;
/// Minimum width of a column after that.
const NARROWEST_WIDTH: usize = 8;

/// How a column adapts to a narrow terminal.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fit {
    /// Shrinks only when no other column can.
    Whole,
    /// As `Whole`, and aligned to the right.
    Number,
    /// Cells are cut.
    Cut,
    /// Cells are wrapped between words.
    Fold,
    /// The column is removed, the lowest number first.
    Spare(u8),
}

/// Prints a table no wider than the terminal, without empty columns.
pub(crate) fn print(
    out: &mut impl Write,
    header: &[(&str, Fit)],
    rows: &[Vec<String>],
) -> std::io::Result<()> {
    for line in lay_out(header, rows, columns().unwrap_or(usize::MAX)) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Prints a table as part of a view, two columns to the right.
pub(crate) fn print_indented(
    out: &mut impl Write,
    header: &[(&str, Fit)],
    rows: &[Vec<String>],
) -> std::io::Result<()> {
    let limit = columns().map_or(usize::MAX, |columns| columns.saturating_sub(2));
    for line in lay_out(header, rows, limit) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

fn lay_out(header: &[(&str, Fit)], rows: &[Vec<String>], limit: usize) -> Vec<String> {
    let widest = |column: usize| {
        rows.iter()
            .map(|row| row[column].width())
            .max()
            .unwrap_or(0)
    };
    // Number, fit and width of each column shown.
    let mut shown: Vec<(usize, Fit, usize)> = (header.iter().enumerate())
        .filter(|(column, _)| widest(*column) > 0)
        .map(|(column, (name, fit))| (column, *fit, widest(column).max(name.width())))
        .collect();
    let gives_way = |fit| matches!(fit, Fit::Cut | Fit::Fold);
    let at_least = |shown: &[(usize, Fit, usize)]| -> usize {
        let least = |&(_, fit, width): &_| {
            if gives_way(fit) {
                NARROW_WIDTH.min(width)
            } else {
                width
            }
        };
        shown.iter().map(|column| least(column) + GAP_WIDTH).sum()
    };
    while at_least(&shown) > limit.saturating_add(GAP_WIDTH)
        && let Some((_, spare)) = (shown.iter().enumerate())
            .filter_map(|(i, &(_, fit, _))| {
                if let Fit::Spare(rank) = fit {
                    Some((rank, i))
                } else {
                    None
                }
            })
            .min()
    {
        shown.remove(spare);
    }
    for (least, all) in [
        (NARROW_WIDTH, false),
        (NARROWEST_WIDTH, false),
        (NARROWEST_WIDTH, true),
    ] {
        while shown
            .iter()
            .map(|(.., width)| width + GAP_WIDTH)
            .sum::<usize>()
            > limit.saturating_add(GAP_WIDTH)
            && let Some((.., width)) = (shown.iter_mut())
                .filter(|(_, fit, width)| *width > least && (all || gives_way(*fit)))
                .max_by_key(|(.., width)| *width)
        {
            *width -= 1;
        }
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.style_text_only();
    table.set_header(
        shown
            .iter()
            .map(|(column, ..)| Cell::new(header[*column].0).add_attribute(Attribute::Underlined)),
    );
    for row in rows {
        table.add_row(shown.iter().map(|&(column, fit, width)| match fit {
            Fit::Fold => row[column].clone(),
            _ => line(&row[column], width),
        }));
    }
    for (column, (_, fit, width)) in table.column_iter_mut().zip(shown) {
        let fixed = u16::try_from(width + GAP_WIDTH).unwrap_or(u16::MAX);
        if fit == Fit::Number {
            column.set_cell_alignment(CellAlignment::Right);
        }
        column
            .set_padding((0, GAP_WIDTH as u16))
            .set_constraint(ColumnConstraint::Absolute(Width::Fixed(fixed)));
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect()
}

/// Prints several servers: one row for the most complete answer of each, or with `all` one for each
/// answer.
pub(crate) fn servers(
    out: &mut impl Write,
    rows: &[(String, Result<Answers, Error>)],
    all: bool,
) -> std::io::Result<()> {
    let header = [
        ("target", Fit::Whole),
        ("protocol", Fit::Whole),
        ("name", Fit::Cut),
        ("players", Fit::Whole),
        ("map", Fit::Spare(1)),
        ("version", Fit::Spare(0)),
        ("round trip", Fit::Spare(2)),
        ("remarks", Fit::Cut),
    ];
    // The protocol has its own column unless every target names it. A failure uses the column of
    // the name.
    let protocols = rows.iter().any(|(target, _)| !target.contains("://"));
    let rows = rows.iter().flat_map(|(target, end)| match end {
        Ok(answers) if all => answers
            .iter()
            .map(|answer| server(target, answer, &[], protocols))
            .collect(),
        Ok(answers) => vec![server(target, answers.best(), &answers.others(), protocols)],
        Err(error) => {
            let mut row = vec![String::new(); header.len()];
            row[0] = line(target, 2 * CELL);
            row[2] = reason(error);
            vec![row]
        }
    });
    print(out, &header, &rows.collect::<Vec<_>>())
}

fn server(target: &str, answer: &Answer, others: &[&Answer], protocol: bool) -> Vec<String> {
    let status = &answer.status;
    let text = |text: Option<&str>| text.map(|text| line(text, CELL)).unwrap_or_default();
    let mut remarks: Vec<_> = status
        .deviations
        .iter()
        .map(|deviation| deviation.name.to_owned())
        .collect();
    if !others.is_empty() {
        let ids: Vec<_> = others
            .iter()
            .map(|other| other.transcript.protocol.id)
            .collect();
        remarks.push(format!("also {}", ids.join(", ")));
    }
    vec![
        line(target, 2 * CELL),
        if protocol {
            answer.transcript.protocol.id.to_owned()
        } else {
            String::new()
        },
        line(&status.title().unwrap_or_default(), CELL),
        players(answer),
        text(status.map.as_deref()),
        text(status.version.as_deref()),
        format!("{:.2} ms", answer.latency.as_secs_f64() * 1e3),
        remarks.join(", "),
    ]
}

/// Prints one row for each simulated server, in one protocol each.
pub(crate) fn simulated(
    out: &mut impl Write,
    rows: &[(String, Result<Answer, Error>)],
) -> std::io::Result<()> {
    let header = [
        ("target", Fit::Whole),
        ("name", Fit::Cut),
        ("players", Fit::Whole),
        ("map", Fit::Spare(1)),
        ("version", Fit::Spare(0)),
        ("round trip", Fit::Spare(2)),
    ];
    let rows = rows.iter().map(|(target, end)| match end {
        Ok(answer) => {
            let mut row = server(target, answer, &[], false);
            row.remove(1);
            row.truncate(header.len());
            row
        }
        Err(error) => {
            let mut row = vec![String::new(); header.len()];
            row[0] = line(target, 2 * CELL);
            row[1] = reason(error);
            row
        }
    });
    print(out, &header, &rows.collect::<Vec<_>>())
}

/// Formats the player counts that are known, such as `12 / 20`.
pub(crate) fn players(answer: &Answer) -> String {
    let players = &answer.status.players;
    match (players.online, players.max) {
        (Some(online), Some(max)) => format!("{online} / {max}"),
        (Some(online), None) => online.to_string(),
        (None, Some(max)) => format!("? / {max}"),
        (None, None) => "?".into(),
    }
}

/// Describes a failure in a few words.
pub(super) fn reason(error: &Error) -> String {
    match error.most_informative() {
        Error::NameNotFound { .. } => "name not found".into(),
        Error::PortClosed { .. } => "port closed".into(),
        Error::Silence { after, .. } => format!("no answer in {:.1} s", after.as_secs_f64()),
        Error::Malformed { fault, .. } => format!("malformed: {fault}"),
        Error::Refused { reason, .. } => format!("refused: {reason}"),
        Error::Unreachable { cause, .. } => format!("unreachable: {cause}"),
        other => line(&other.to_string(), 2 * CELL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [(&str, Fit); 6] = [
        ("target", Fit::Whole),
        ("name", Fit::Cut),
        ("players", Fit::Whole),
        ("map", Fit::Spare(1)),
        ("version", Fit::Spare(0)),
        ("remarks", Fit::Cut),
    ];

    fn laid_out(limit: usize, rows: &[[&str; 6]]) -> String {
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.map(str::to_owned).to_vec())
            .collect();
        let lines = lay_out(&HEADER, &rows, limit);
        assert_eq!(lines.len(), rows.len() + 1, "a row is a line");
        assert!(
            lines.iter().all(|line| line.width() <= limit),
            "{limit}: {lines:#?}"
        );
        lines.join("\n")
    }

    #[test]
    fn narrow_tables_have_fewer_columns_and_whole_words() {
        let rows = [
            [
                "play.example.com:25565",
                "A name of a good length 名前",
                "12 / 20",
                "old_mill",
                "1.21.8",
                "",
            ],
            [
                "192.0.2.7",
                "Short",
                "0 / 8",
                "harbour",
                "1.21.8",
                "counts-differ, motd-nul",
            ],
        ];
        for limit in [1000, 120, 100, 80, 60, 51] {
            let table = laid_out(limit, &rows);
            for whole in ["play.example.com:25565", "12 / 20", "192.0.2.7", "0 / 8"] {
                assert!(table.contains(whole), "{limit}:\n{table}");
            }
            assert_eq!(table.contains("version"), limit >= 100, "{limit}:\n{table}");
            assert_eq!(table.contains("map"), limit >= 80, "{limit}:\n{table}");
            assert_eq!(table.contains('…'), limit <= 100, "{limit}:\n{table}");
        }
        // No column is left to remove or shrink, so all are cut.
        assert!(laid_out(40, &rows).contains('…'));
    }

    #[test]
    fn removes_empty_columns() {
        let table = laid_out(
            80,
            &[["a", "b", "1", "", "2", ""], ["a", "", "1", "", "2", ""]],
        );
        assert_eq!(
            table,
            "target  name  players  version\na       b     1        2\na             1        2"
        );
    }

    #[test]
    fn wraps_prose_between_words() {
        let rows = [vec![
            "max-reply".to_owned(),
            "The longest reply sent, in bytes, from 64 to 65507".to_owned(),
        ]];
        let lines = lay_out(&[("name", Fit::Whole), ("meaning", Fit::Fold)], &rows, 40);
        assert_eq!(lines[1], "max-reply  The longest reply sent, in");
        assert_eq!(lines[2], "           bytes, from 64 to 65507");
    }
}
