//! The view of one server.

use super::{line, table};
use hailer::proto::model::{printable, uuid_text};
use hailer::proto::{Extra, Info, Player, Roster, Status, Text, Value};
use hailer::{Answer, Error};
use std::io::Write;

/// A line of the view has room for so much.
const WIDE: usize = 160;

/// Names of fields have room for so much.
const NAME: usize = 16;

/// Everything a server said.
pub(crate) fn answer(out: &mut impl Write, target: &str, answer: &Answer, players: bool) -> std::io::Result<()> {
    let status = &answer.status;
    heading(out, status, answer.protocol, target)?;
    let mut row = |name: &str, value: &str| writeln!(out, "  \x1b[2m{name:<NAME$}\x1b[0m {value}");
    let round_trip = answer.round_trip.as_secs_f64() * 1e3;
    row("Address", &format!("{}, round trip {round_trip:.2} ms", answer.address))?;
    let plain = [("Game", &status.game), ("Version", &status.version), ("Mode", &status.mode), ("Map", &status.map)];
    for (name, value) in plain {
        if let Some(value) = value {
            row(name, &line(value, WIDE))?;
        }
    }
    if let Some(address) = &status.address {
        let host = address.host.as_deref().map(|host| line(host, WIDE)).unwrap_or_default();
        let port = address.port.map(|port| format!(":{port}")).unwrap_or_default();
        row("Calls itself", &format!("{host}{port}"))?;
    }
    for Extra { key, value } in &status.extra {
        row(&title(key), &line(&human(value), 4 * WIDE))?;
    }
    row("Players", &format!("{}{}", table::players(answer), bar(status)))?;
    if players {
        list(out, status)?;
    }
    if !status.rules.is_empty() {
        writeln!(out, "\n  \x1b[1mRules\x1b[0m")?;
        for rule in &status.rules {
            writeln!(out, "  {:<20} {}", line(&rule.key, 40), line(&rule.value, WIDE))?;
        }
    }
    if !status.deviations.is_empty() {
        writeln!(out, "\n  \x1b[33mDeviates from the protocol\x1b[0m")?;
        for deviation in &status.deviations {
            writeln!(out, "  {:<20} {}", deviation.name, deviation.help)?;
        }
    }
    writeln!(out)
}

/// A server that gave no answer.
pub(crate) fn failure(out: &mut impl Write, target: &str, error: &Error) -> std::io::Result<()> {
    writeln!(out, "\x1b[31m●\x1b[0m \x1b[1m{}\x1b[0m", line(target, WIDE))?;
    writeln!(out, "  {}\n", line(&error.to_string(), 4 * WIDE))
}

fn heading(out: &mut impl Write, status: &Status, protocol: &Info, target: &str) -> std::io::Result<()> {
    writeln!(out, "\x1b[32m●\x1b[0m \x1b[1m{}\x1b[0m \x1b[2m{}\x1b[0m", line(target, WIDE), protocol.title)?;
    for text in [&status.name, &status.motd].into_iter().flatten() {
        for text in lines(text) {
            writeln!(out, "  {text}")?;
        }
    }
    Ok(())
}

/// The lines of a coloured text that hold anything. Lines are cut before they are coloured, so that no colour runs on.
fn lines(text: &Text) -> Vec<String> {
    let ansi = text.ansi();
    ansi.lines().filter(|line| !line.trim().is_empty()).take(8).map(|line| format!("{line}\x1b[0m")).collect()
}

/// `max-players` as a person reads it.
fn title(key: &str) -> String {
    let mut title = key.replace('-', " ");
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    title
}

/// A value for a line: of a table only the values, since their names would repeat in every row.
fn human(value: &Value) -> String {
    let all =
        |values: &mut dyn Iterator<Item = &Value>, separator| values.map(human).collect::<Vec<_>>().join(separator);
    match value {
        Value::List(values) => all(&mut values.iter(), ", "),
        Value::Table(entries) => all(&mut entries.iter().map(|(_, value)| value), " "),
        other => other.to_string(),
    }
}

/// How full the server is, in twenty steps.
fn bar(status: &Status) -> String {
    let (Some(online), Some(max)) = (status.players.online, status.players.max) else {
        return String::new();
    };
    if max <= 0 || online < 0 {
        return String::new();
    }
    let full = (online.saturating_mul(20) / max).clamp(i64::from(online > 0), 20) as usize;
    format!("  \x1b[36m{}\x1b[0m\x1b[2m{}\x1b[0m", "█".repeat(full), "░".repeat(20 - full))
}

/// The players: names alone in columns, or a table if more is known of them.
fn list(out: &mut impl Write, status: &Status) -> std::io::Result<()> {
    let players = &status.players;
    match players.roster {
        Roster::Refused => writeln!(out, "  \x1b[2m{:<NAME$}\x1b[0m needs an auth token (--auth-token-file)", "")?,
        Roster::Partial if !players.list.is_empty() => {
            writeln!(out, "  \x1b[2m{:<NAME$}\x1b[0m the list holds {}", "", players.list.len())?;
        }
        _ => {}
    }
    if players.list.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let uuids = players.list.iter().any(|player| player.uuid.is_some());
    let mut keys: Vec<&'static str> = Vec::new();
    for extra in players.list.iter().flat_map(|player| &player.extra) {
        if !keys.contains(&extra.key) {
            keys.push(extra.key);
        }
    }
    if !uuids && keys.is_empty() {
        return names(out, &players.list);
    }
    let mut header = vec!["player"];
    header.extend(uuids.then_some("UUID"));
    header.extend(&keys);
    let rows = players.list.iter().map(|player| {
        let mut row = vec![line(&player.name.plain(), 48)];
        row.extend(uuids.then(|| player.uuid.as_ref().map(uuid_text).unwrap_or_default()));
        row.extend(keys.iter().map(|key| {
            let value = player.extra.iter().find(|extra| extra.key == *key);
            value.map(|extra| printable(&extra.value.to_string())).unwrap_or_default()
        }));
        row
    });
    table::print_rows(out, header, rows)
}

fn names(out: &mut impl Write, players: &[Player]) -> std::io::Result<()> {
    let names: Vec<String> = players.iter().map(|player| line(&player.name.plain(), 48)).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) + 2;
    for row in names.chunks((96 / width).max(1)) {
        let row: String = row.iter().map(|name| format!("{name:<width$}")).collect();
        writeln!(out, "  {}", row.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_titles() {
        assert_eq!(title("game-id"), "Game id");
        assert_eq!(title(""), "");
    }

    #[test]
    fn bars_stay_in_their_frame() {
        let mut status = Status::default();
        let mut bar_of = |online, max| {
            (status.players.online, status.players.max) = (Some(online), Some(max));
            bar(&status).chars().filter(|c| *c == '█').count()
        };
        assert_eq!(bar_of(0, 20), 0);
        assert_eq!(bar_of(1, 1000), 1);
        assert_eq!(bar_of(20, 20), 20);
        assert_eq!(bar_of(i64::MAX, 1), 20);
        assert_eq!(bar_of(-5, 20), 0);
        assert_eq!(bar_of(5, 0), 0);
    }
}
