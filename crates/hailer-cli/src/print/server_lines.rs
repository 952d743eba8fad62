//! One line for each server, as results arrive.

use super::fields::Record;
use super::table::{players, reason};
use super::{line, padded};
use std::io::Write;

/// Widths of target, players and version, in columns.
const WIDTHS: [usize; 3] = [40, 9, 12];
/// Maximum width of the name or the failure, in columns.
const TITLE_WIDTH: usize = 60;

/// Writes the names of the columns.
pub(crate) fn header(out: &mut Vec<u8>) {
    let [target, on, version] = WIDTHS;
    let _ = writeln!(
        out,
        "{:target$}  {:>on$}  {:>11}  {:version$}  name",
        "target", "players", "round trip", "version"
    );
}

/// Writes one result, with the names of the players if `listed`.
pub(crate) fn record(out: &mut Vec<u8>, record: &Record<'_>, listed: bool) {
    let [target, on, version] = WIDTHS;
    let shown = padded(&line(record.target, 2 * target), target);
    let answer = match record.result {
        Ok(answer) => answer,
        Err(error) => {
            let _ = writeln!(
                out,
                "{shown}  {:>on$}  {:>11}  {:version$}  {}",
                "",
                "",
                "",
                line(&reason(error), TITLE_WIDTH)
            );
            return;
        }
    };
    let status = &answer.status;
    let _ = write!(
        out,
        "{shown}  {:>on$}  {:>8.2} ms  {}  {}",
        players(answer),
        answer.latency.as_secs_f64() * 1e3,
        padded(
            &line(status.version.as_deref().unwrap_or_default(), version),
            version
        ),
        line(&status.title().unwrap_or_default(), TITLE_WIDTH),
    );
    let list = status
        .players
        .list
        .iter()
        .filter(|_| listed)
        .map(|player| line(&player.name.plain(), 2 * WIDTHS[1]));
    for (i, name) in list.enumerate() {
        let _ = write!(out, "{}{name}", if i == 0 { ": " } else { ", " });
    }
    while out.last() == Some(&b' ') {
        out.pop();
    }
    out.push(b'\n');
}
