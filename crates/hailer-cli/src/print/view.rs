//! Detailed view of one server.

use super::table::{self, Fit};
use super::{columns, line, padded, since, wrapped};
use crate::exit::without_numbers;
use hailer::client::Host;
use hailer::proto::games::QueryPort;
use hailer::proto::model::{Member, PLAYER_MEMBERS, STATUS_MEMBERS, Unit, uuid_text};
use hailer::proto::{Extra, Info, Player, Roster, Status, Text, Value};
use hailer::support::catalog;
use hailer::{Answer, Error, Target};
use std::io::Write;
use std::net::SocketAddr;
use unicode_width::UnicodeWidthStr;

/// Maximum width of a line of text, in columns.
const LINE_WIDTH: usize = 160;

/// Least width of a field's name, in columns.
const NAME_WIDTH: usize = 16;

/// Maximum width of a rule's key, in columns.
const KEY_WIDTH: usize = 40;

/// Prints an answer, and the names of the protocols of the `others`.
pub(crate) fn answer(
    out: &mut impl Write,
    target: &str,
    answer: &Answer,
    others: &[&Answer],
    has_players: bool,
) -> std::io::Result<()> {
    let status = &answer.status;
    heading(out, status, answer.transcript.protocol, target)?;
    let own = status.extra.iter().map(|extra| title(&extra.key).width());
    let width = own.max().unwrap_or(0).clamp(NAME_WIDTH, 2 * NAME_WIDTH);
    let mut row = |name: &str, value: &str| {
        let value = wrapped(value, width + 3);
        writeln!(out, "  \x1b[2m{name:<width$}\x1b[0m {value}")
    };
    let round_trip = answer.latency.as_secs_f64() * 1e3;
    row(
        "Address",
        &format!(
            "{}, round trip {round_trip:.2} ms",
            answer.transcript.address
        ),
    )?;
    let plain = [
        ("Game", &status.game),
        ("Version", &status.version),
        ("Mode", &status.mode),
        ("Map", &status.map),
    ];
    for (name, value) in plain {
        if let Some(value) = value {
            row(name, &line(value, LINE_WIDTH))?;
        }
    }
    if let Some(address) = &status.address {
        let port = address.port.map(|port| port.to_string());
        match (&address.host, port) {
            (None, None) => {}
            (None, Some(port)) => row("Game port", &port)?,
            (Some(host), None) => row("Own address", &line(host, LINE_WIDTH))?,
            (Some(host), Some(port)) => {
                row("Own address", &format!("{}:{port}", line(host, LINE_WIDTH)))?;
            }
        }
    }
    if let Some(join) = join_address(target, answer) {
        row("Join", &join)?;
    }
    for extra in &status.extra {
        row(
            &title(&extra.key),
            &line(&extra_text(extra), 4 * LINE_WIDTH),
        )?;
    }
    row(
        "Players",
        &format!("{}{}", table::players(answer), bar(status)),
    )?;
    for member in STATUS_MEMBERS {
        if let Some(value) = (member.value)(status) {
            row(member.title, &human(&value))?;
        }
    }
    if has_players {
        list(out, status)?;
    }
    if !status.rules.is_empty() {
        writeln!(out, "\n  \x1b[1mRules\x1b[0m")?;
        let rules = status
            .rules
            .iter()
            .map(|rule| (line(&rule.key, KEY_WIDTH), line(&rule.value, LINE_WIDTH)));
        pairs(out, &rules.collect::<Vec<_>>())?;
    }
    if !status.deviations.is_empty() {
        writeln!(out, "\n  \x1b[33mDeviates from the protocol\x1b[0m")?;
        let deviations = status
            .deviations
            .iter()
            .map(|deviation| (deviation.name.to_owned(), deviation.help.to_owned()));
        pairs(out, &deviations.collect::<Vec<_>>())?;
    }
    if !answer.sources.is_empty() {
        writeln!(out, "\n  \x1b[2m{}\x1b[0m", sources(answer))?;
    }
    for note in &answer.notes {
        writeln!(out, "\n  \x1b[33m{}\x1b[0m", line(note, 4 * LINE_WIDTH))?;
    }
    if !others.is_empty() {
        let titles: Vec<_> = others
            .iter()
            .map(|other| other.transcript.protocol.title)
            .collect();
        let titles = titles.join(", ");
        writeln!(
            out,
            "\n  \x1b[2mAlso answered in: {titles} (--all shows them)\x1b[0m"
        )?;
    }
    writeln!(out)
}

/// Returns what players type or open to join the server: a link of Steam for A2S, else host and port.
/// `None` if the port of the game is unknown.
fn join_address(target: &str, answer: &Answer) -> Option<String> {
    let info = answer.transcript.protocol;
    if catalog::protocol(info.id)?.info().service.is_some() {
        return None;
    }
    let address = answer.transcript.address;
    let reported = answer.status.address.as_ref();
    let reported = reported.and_then(|address| address.port.filter(|port| *port > 0));
    if info.id == "a2s" {
        let address = SocketAddr::new(address.ip(), reported.unwrap_or(address.port()));
        return Some(format!("steam://connect/{address}"));
    }
    let game = target.parse::<Target>().ok().and_then(|target| target.game);
    let game = game.or_else(|| catalog::games_of(info).first().copied());
    let port = match game?.query {
        QueryPort::Same => address.port(),
        _ => reported?,
    };
    match target.parse::<Target>().ok()?.host {
        Host::Name(name) if !name.contains(':') => Some(format!("{name}:{port}")),
        _ => Some(SocketAddr::new(address.ip(), port).to_string()),
    }
}

/// Names the fields of a merged answer by protocol: "From Minecraft Query: map, players.list".
fn sources(answer: &Answer) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for source in &answer.sources {
        match groups.iter_mut().find(|(id, _)| *id == source.protocol) {
            Some((_, fields)) => fields.push(&source.field),
            None => groups.push((&source.protocol, vec![&source.field])),
        }
    }
    let group = |(id, fields): &(&str, Vec<&str>)| {
        let title = catalog::protocol(id).map_or(*id, |protocol| protocol.info().title);
        format!("From {title}: {}", fields.join(", "))
    };
    groups.iter().map(group).collect::<Vec<_>>().join("; ")
}

/// Prints a failure: one line, or one for each different result of several protocols, and hints.
pub(crate) fn failure(
    out: &mut impl Write,
    target: &str,
    error: &Error,
    hints: &[String],
) -> std::io::Result<()> {
    writeln!(
        out,
        "\x1b[31m●\x1b[0m \x1b[1m{}\x1b[0m",
        line(target, LINE_WIDTH)
    )?;
    let mut reports = error.protocol_reports();
    if reports.is_empty() {
        reports.push(error.to_string());
    }
    for report in reports {
        let report = line(&without_numbers(&report), 4 * LINE_WIDTH);
        writeln!(out, "  {report}")?;
    }
    for hint in hints {
        writeln!(out, "  \x1b[33m{}\x1b[0m", line(hint, 4 * LINE_WIDTH))?;
    }
    writeln!(out)
}

fn heading(
    out: &mut impl Write,
    status: &Status,
    protocol: &Info,
    target: &str,
) -> std::io::Result<()> {
    writeln!(
        out,
        "\x1b[32m●\x1b[0m \x1b[1m{}\x1b[0m \x1b[2m{}\x1b[0m",
        line(target, LINE_WIDTH),
        protocol.title
    )?;
    for text in [&status.name, &status.motd].into_iter().flatten() {
        for text in lines(text) {
            writeln!(out, "  {text}")?;
        }
    }
    Ok(())
}

/// Returns the first 8 non-empty lines of a colored text. A line that is too long is cut and loses
/// its colors.
fn lines(text: &Text) -> Vec<String> {
    let ansi = text.ansi();
    let plain = text.plain();
    let lines = ansi
        .lines()
        .zip(plain.lines())
        .filter(|(_, plain)| !plain.trim().is_empty())
        .take(8);
    lines
        .map(|(ansi, plain)| match line(plain, LINE_WIDTH) {
            whole if whole == plain => ansi.to_owned(),
            cut => cut,
        })
        .collect()
}

/// Prints two columns, the second of any width.
fn pairs(out: &mut impl Write, pairs: &[(String, String)]) -> std::io::Result<()> {
    let width = pairs.iter().map(|(key, _)| key.width()).max().unwrap_or(0);
    for (key, value) in pairs {
        let value = wrapped(value, width + 3);
        writeln!(out, "  {} {value}", padded(key, width))?;
    }
    Ok(())
}

/// Formats a key as a title: `max-players` becomes `Max players`.
fn title(key: &str) -> String {
    let mut title = key.replace('-', " ");
    if let Some(first) = title.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    title
}

/// Formats a field of its own in one line: the uptime as a duration, and a single table with its
/// keys.
fn extra_text(extra: &Extra) -> String {
    match &extra.value {
        Value::Int(seconds) if extra.key == "uptime" => since(*seconds as f64),
        table @ Value::Table(_) => table.to_string(),
        value => human(value),
    }
}

/// Formats a value in one line. Tables appear without keys, which would repeat in every row.
fn human(value: &Value) -> String {
    let all = |values: &mut dyn Iterator<Item = String>, separator| {
        values.collect::<Vec<_>>().join(separator)
    };
    match value {
        Value::List(values) => all(&mut values.iter().map(human), ", "),
        Value::Table(entries) => all(&mut entries.iter().map(|(_, value)| human(value)), " "),
        Value::Rows(rows) => all(
            &mut rows
                .iter()
                .map(|row| all(&mut row.map(|(_, text)| text.into()), " ")),
            ", ",
        ),
        other => other.to_string(),
    }
}

/// Returns a bar of 20 steps that shows how full the server is.
fn bar(status: &Status) -> String {
    let (Some(online), Some(max)) = (status.players.online, status.players.max) else {
        return String::new();
    };
    if max <= 0 || online < 0 {
        return String::new();
    }
    let full = (online.saturating_mul(20) / max).clamp(i64::from(online > 0), 20) as usize;
    format!(
        "  \x1b[36m{}\x1b[0m\x1b[2m{}\x1b[0m",
        "█".repeat(full),
        "░".repeat(20 - full)
    )
}

/// Prints the players: names in columns, or a table if there are more details.
fn list(out: &mut impl Write, status: &Status) -> std::io::Result<()> {
    let players = &status.players;
    match players.roster {
        Roster::Refused => {
            let reason = if status.extra("auth-token").is_some() {
                "the server rejected the auth token"
            } else {
                "requires an auth token (--auth-token-file)"
            };
            writeln!(out, "  \x1b[2m{:<NAME_WIDTH$}\x1b[0m {reason}", "")?;
        }
        // A sample can have all players.
        Roster::Sample if !players.list.is_empty() && !players.has_all_players() => {
            writeln!(
                out,
                "  \x1b[2m{:<NAME_WIDTH$}\x1b[0m the server lists only a sample of {}",
                "",
                players.list.len()
            )?;
        }
        Roster::Partial if !players.list.is_empty() => {
            writeln!(
                out,
                "  \x1b[2m{:<NAME_WIDTH$}\x1b[0m the list holds {}",
                "",
                players.list.len()
            )?;
        }
        _ => {}
    }
    if players.list.is_empty() {
        return Ok(());
    }
    writeln!(out)?;
    let uuids = players.list.iter().any(|player| player.uuid.is_some());
    let is_known = |member: &&Member<Player>| {
        let mut all = players.list.iter();
        all.any(|player| (member.value)(player).is_some())
    };
    let members: Vec<&Member<Player>> = PLAYER_MEMBERS.iter().filter(is_known).collect();
    let mut keys: Vec<&str> = Vec::new();
    for extra in players.list.iter().flat_map(|player| &player.extra) {
        if !keys.contains(&&*extra.key) {
            keys.push(&extra.key);
        }
    }
    if !uuids && members.is_empty() && keys.is_empty() {
        return names(out, &players.list);
    }
    let titles: Vec<String> = members.iter().map(|member| member_title(member)).collect();
    let mut header = vec![("player", Fit::Cut)];
    header.extend(uuids.then_some(("UUID", Fit::Whole)));
    header.extend(titles.iter().map(|title| (&**title, Fit::Cut)));
    header.extend(keys.iter().map(|key| (*key, Fit::Cut)));
    let rows = players.list.iter().map(|player| {
        let mut row = vec![line(&player.name.plain(), 48)];
        row.extend(uuids.then(|| player.uuid.as_ref().map(uuid_text).unwrap_or_default()));
        row.extend(members.iter().map(|member| {
            let value = (member.value)(player);
            value
                .map(|value| cell(&value, member.unit))
                .unwrap_or_default()
        }));
        row.extend(keys.iter().map(|key| {
            let value = player.extra.iter().find(|extra| extra.key == *key);
            value
                .map(|extra| cell(&extra.value, None))
                .unwrap_or_default()
        }));
        row
    });
    table::print_indented(out, &header, &rows.collect::<Vec<_>>())
}

fn member_title(member: &Member<Player>) -> String {
    match member.unit {
        // Such cells have their units.
        Some(Unit::Seconds) | None => member.title.into(),
        Some(unit) => format!("{} ({})", member.title, unit.symbol()),
    }
}

/// Formats a value of a player. Times arrive as binary fractions with many digits.
fn cell(value: &Value, unit: Option<Unit>) -> String {
    let seconds = match (value, unit) {
        (Value::Float(seconds), Some(Unit::Seconds)) => Some(*seconds),
        (Value::Int(seconds), Some(Unit::Seconds)) => Some(*seconds as f64),
        _ => None,
    };
    match value {
        _ if seconds.is_some_and(|seconds| seconds >= 0.0) => since(seconds.unwrap_or_default()),
        Value::Float(number) => format!("{number:.1}"),
        other => line(&other.to_string(), table::CELL),
    }
}

fn names(out: &mut impl Write, players: &[Player]) -> std::io::Result<()> {
    let names: Vec<String> = players
        .iter()
        .map(|player| line(&player.name.plain(), 48))
        .collect();
    let width = names.iter().map(|name| name.width()).max().unwrap_or(0) + 2;
    for row in names.chunks((columns().unwrap_or(100) / width).max(1)) {
        let row: String = row.iter().map(|name| padded(name, width)).collect();
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
    fn fields_of_a_protocol_are_readable() {
        let table = vec![
            ("currentBlueScore".into(), Value::Int(3)),
            ("maxScore".into(), Value::Int(10)),
        ];
        for (extra, text) in [
            (Extra::new("uptime", 7_500), "2h 5m"),
            (Extra::new("uptime", "3 days"), "3 days"),
            (Extra::new("age", 7_500), "7500"),
            (
                Extra::new("scores", Value::Table(table)),
                "currentBlueScore=3 maxScore=10",
            ),
        ] {
            assert_eq!(extra_text(&extra), text);
        }
    }

    #[test]
    fn times_have_units_and_other_numbers_one_digit_after_the_point() {
        let plain = |value| cell(&value, None);
        assert_eq!(plain(Value::Float(13_425.509_765_625)), "13425.5");
        assert_eq!(plain(Value::Int(7)), "7");
        let time = |seconds| cell(&Value::Float(seconds), Some(Unit::Seconds));
        assert_eq!(time(3_720.0), "1h 2m");
        assert_eq!(time(-1.0), "-1.0");
    }

    #[test]
    fn long_lines_are_cut_and_short_ones_keep_their_colors() {
        let text = Text::legacy(format!(
            "\u{A7}aGreen\n\n  \n{}\nend",
            "\u{A7}c名".repeat(20_000)
        ));
        let lines = lines(&text);
        assert_eq!(
            (lines[0].as_str(), lines[2].as_str()),
            ("\x1b[92mGreen\x1b[0m", "\x1b[91mend\x1b[0m")
        );
        assert_eq!((lines[1].width(), lines.len()), (LINE_WIDTH - 1, 3));
        assert!(lines[1].ends_with("名…") && !lines[1].contains('\x1b'));
    }

    #[test]
    fn a_sample_with_all_players_is_not_called_a_sample() {
        let shown = |online: Option<i64>| {
            let mut status = Status::default();
            let players = &mut status.players;
            players.online = online;
            players.list = vec![Player::named(Text::unformatted("Alice"))];
            players.roster = Roster::Sample;
            let mut out = Vec::new();
            list(&mut out, &status).unwrap();
            String::from_utf8(out).unwrap()
        };
        let sentence = "the server lists only a sample of 1";
        for (online, is_shown) in [
            (Some(1), false),
            (Some(0), false),
            (Some(2), true),
            (None, true),
        ] {
            let text = shown(online);
            assert_eq!(text.contains(sentence), is_shown, "{online:?}: {text}");
            assert!(text.contains("Alice"), "{text}");
        }
    }

    #[test]
    fn columns_stand_below_each_other_whatever_the_script() {
        let names = ["Alice", "名前", "👩‍🚀", "Björn", "e\u{301}"];
        let players: Vec<Player> = names
            .iter()
            .map(|name| Player::named(Text::unformatted(*name)))
            .collect();
        let mut out = Vec::new();
        super::names(&mut out, &players).unwrap();
        let out = String::from_utf8(out).unwrap();
        let (first, _) = out.split_once('\n').unwrap();
        for (nth, name) in names.iter().enumerate() {
            let (before, _) = first.split_once(name).unwrap();
            assert_eq!(before.width(), 2 + nth * 7, "{first}");
        }
        let mut out = Vec::new();
        pairs(
            &mut out,
            &[
                ("名前".into(), "a".into()),
                ("key".into(), "b".into()),
                ("longer".into(), "c".into()),
            ],
        )
        .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "  名前   a\n  key    b\n  longer c\n"
        );
    }

    #[test]
    fn bars_stay_in_their_frame() {
        let mut status = Status::default();
        let mut bar_of = |online, max| {
            status.players.online = Some(online);
            status.players.max = Some(max);
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
