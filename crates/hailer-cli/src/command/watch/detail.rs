//! Details of one server: state, charts, players, events, rules and extras.

use super::board::{Entry, SamplePoint, ServerHistory};
use super::cells::{speed, state, uptime};
use super::screen::WatchScreen;
use crate::print::{line, padded, since};
use crate::terminal::chart::chart;
use crate::terminal::text::{colored_lines, fitting};
use crate::terminal::widgets::{bold, both_ends, dim, halves, heading, in_color, lines};
use hailer::proto::Text;
use hailer::proto::wire::counted;
use hailer_monitor::health::State;
use hailer_monitor::sample::{Event, EventKind, Millis, ValueChange};
use hailer_monitor::state::LastStatus;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use serde_json::Value;
use unicode_width::UnicodeWidthStr;

/// Maximum number of lines of a MOTD.
const MOTD_LINES: usize = 4;
/// Maximum number of events.
const MAX_EVENTS: usize = 50;
/// Maximum number of player names.
const MAX_PLAYERS: usize = 1_024;
/// Maximum number of rules and extras.
const MAX_VALUES: usize = 500;
/// Maximum width of a rule's name, in columns.
const KEY_WIDTH: usize = 28;
/// Smallest and largest useful height of a chart with its title, in lines.
const CHART: (u16, u16) = (5, 12);
/// Minimum width for two charts side by side, in columns.
const SIDE_BY_SIDE_WIDTH: u16 = 90;

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    screen: &WatchScreen,
    entry: &Entry,
    past: Option<&ServerHistory>,
) {
    let [head, charts, text] = places(area, entry, past);
    let now = (screen.clock)();
    let width = usize::from(area.width);
    lines(frame, head, facts(entry, past, now, width));
    if charts.height > 0 {
        let sides: [Rect; 2] = if charts.width >= SIDE_BY_SIDE_WIDTH {
            halves(charts)
        } else {
            Layout::vertical([Constraint::Fill(1); 2]).areas(charts)
        };
        let samples = samples(entry, past);
        let mut plot = |side, title, color, number: fn(&SamplePoint) -> Option<f32>| {
            let seconds = |at: Millis| at.saturating_sub(now) as f64 / 1e3;
            let points = samples
                .iter()
                .map(|sample| (seconds(sample.at), number(sample)));
            let points: Vec<_> = points.collect();
            chart(frame, side, title, &points, color);
        };
        plot(sides[0], "players", Color::Cyan, |sample| sample.players);
        plot(sides[1], "latency, ms", Color::Green, |sample| {
            sample.latency
        });
    }
    let shown = text_of(entry, past, screen, width).into_iter();
    lines(frame, text, shown.skip(screen.scroll));
}

/// Returns how many lines can be scrolled.
pub(super) fn most_scroll(
    area: Rect,
    screen: &WatchScreen,
    entry: &Entry,
    past: Option<&ServerHistory>,
) -> usize {
    let [_, _, text] = places(area, entry, past);
    let lines = text_of(entry, past, screen, usize::from(area.width));
    lines.len().saturating_sub(usize::from(text.height))
}

/// Divides the area into facts, charts and scrollable text. Facts come first, then a few lines of
/// text; charts get the rest.
fn places(area: Rect, entry: &Entry, past: Option<&ServerHistory>) -> [Rect; 3] {
    let facts = facts(entry, past, 0, usize::from(area.width)).len() as u16;
    let rows = if area.width >= SIDE_BY_SIDE_WIDTH {
        1
    } else {
        2
    };
    let head = facts.min(area.height);
    let left = area.height - head;
    let text = left.min(4.max(left / 3));
    let charts = match (left - text) / rows {
        height if height < CHART.0 => 0,
        height => height.min(CHART.1) * rows,
    };
    Layout::vertical([
        Constraint::Length(head),
        Constraint::Length(charts),
        Constraint::Fill(1),
    ])
    .areas(area)
}

fn last_status<'a>(entry: &'a Entry, past: Option<&'a ServerHistory>) -> Option<&'a LastStatus> {
    past.and_then(|past| past.last_status.as_deref())
        .or(entry.seen.last_status.as_deref())
}

/// Combines samples of the history with those since then.
fn samples(entry: &Entry, past: Option<&ServerHistory>) -> Vec<SamplePoint> {
    let known = past.map_or(&[][..], |past| &past.samples);
    let newest = known.last().map_or(Millis::MIN, |sample| sample.at);
    known
        .iter()
        .chain(entry.samples.iter().filter(|sample| sample.at > newest))
        .copied()
        .collect()
}

/// Returns the state in a few lines.
fn facts(
    entry: &Entry,
    past: Option<&ServerHistory>,
    now: Millis,
    width: usize,
) -> Vec<Line<'static>> {
    let seen = &entry.seen;
    let (mut word, style) = {
        let (word, style) = state(entry);
        (word.to_owned(), style)
    };
    if seen.since > 0 {
        word += &format!(" for {}", ago(seen.since, now));
    }
    let cut = u16::try_from(width).unwrap_or(u16::MAX);
    let name = Span::styled(line(&seen.server.name, width), bold());
    let mut lines = vec![both_ends(vec![name], Span::styled(word, style), cut)];
    let answer = last_status(entry, past);
    let mut target = seen.server.target.clone();
    if let Some(address) = answer.and_then(|answer| answer.address) {
        target += &format!(" at {address}");
    }
    lines.push(Line::styled(line(&target, width), dim()));
    if let Some(motd) = answer.and_then(motd) {
        lines.extend(colored_lines(&motd, width, MOTD_LINES));
    }
    lines.push(numbers(entry, width));
    if let Some(answer) = answer {
        let named = [
            ("game", &answer.game),
            ("version", &answer.version),
            ("map", &answer.map),
        ];
        let mut words = Vec::new();
        for (name, value) in named {
            if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
                words.push(Span::styled(format!("{name} "), dim()));
                words.push(Span::raw(format!("{}  ", line(value, 40))));
            }
        }
        if !words.is_empty() {
            lines.push(fitting(words, width));
        }
    }
    if let Some(error) = &seen.error {
        let words = match seen.state {
            State::Up => "last error: ",
            _ => "",
        };
        let error = line(&format!("{words}{}", error.message), width);
        lines.push(Line::styled(error, in_color(Color::Red)));
    }
    lines
}

/// Returns players, latency, lost datagrams and uptime.
fn numbers(entry: &Entry, width: usize) -> Line<'static> {
    let mut named = Vec::new();
    if let Some(last) = entry.seen.last.filter(|last| last.is_answered) {
        let max = last.max.map(|max| format!(" of {max}")).unwrap_or_default();
        let on = last.players.map(|players| players.to_string());
        let on = on.unwrap_or_else(|| "unknown".into());
        named.push(("players", Span::raw(format!("{on}{max}"))));
        if let Some(latency) = last.latency {
            let words = format!("{:.1} ms", f64::from(latency) / 1e3);
            named.push(("latency", Span::styled(words, speed(latency))));
        }
        if last.resent > 0 {
            let words = format!("{} of {}", last.resent, counted(last.sent, "datagram"));
            named.push(("lost", Span::raw(words)));
        }
    }
    let share = uptime(entry.seen.uptime);
    named.push((
        "up",
        Span::styled(format!("{} %", share.content), share.style),
    ));
    let mut words = Vec::new();
    for (name, value) in named {
        if !words.is_empty() {
            words.push(Span::raw("  "));
        }
        words.extend([Span::styled(format!("{name} "), dim()), value]);
    }
    fitting(words, width)
}

/// Returns the MOTD with its colors, which the list of a monitor lacks.
fn motd(last_status: &LastStatus) -> Option<Text> {
    let raw = || {
        let answer: Value = serde_json::from_slice(&last_status.answer).ok()?;
        let motd = answer.get("status")?.get("motd")?;
        let raw = motd.get("raw")?.as_str()?;
        let plain = motd.get("plain")?.as_str()?;
        // Codes that are missing in the plain text were parsed as formatting.
        (raw.contains('§') && !plain.contains('§')).then(|| Text::legacy(raw))
    };
    let motd = last_status.motd.clone()?;
    let has_colors = motd.runs().any(|(style, _)| style != Default::default());
    if has_colors {
        Some(motd)
    } else {
        raw().or(Some(motd))
    }
}

/// Returns players, events, rules and extras as lines.
fn text_of(
    entry: &Entry,
    past: Option<&ServerHistory>,
    screen: &WatchScreen,
    width: usize,
) -> Vec<Line<'static>> {
    let last_status = last_status(entry, past);
    let mut lines = Vec::new();
    if let Some(last_status) = last_status {
        lines.extend(players(entry, last_status, width));
    }
    lines.extend(events(entry, past, screen, width));
    if let Some(last_status) = last_status {
        lines.extend(values(last_status, width));
    }
    lines
}

/// Returns the online players.
fn players(entry: &Entry, last_status: &LastStatus, width: usize) -> Vec<Line<'static>> {
    let online = entry.players().map(|players| format!("{players} on"));
    let listed = match (last_status.players.len(), last_status.is_whole) {
        (0, _) => Some("no names".into()),
        (_, true) => None,
        (listed, false) => Some(format!("{listed} listed")),
    };
    let summary: Vec<String> = online.into_iter().chain(listed).collect();
    let title = heading("online players", Some(&summary.join(", ")), width);
    let players = last_status.players.iter().take(MAX_PLAYERS);
    let names: Vec<String> = players
        .map(|name| line(name.as_ref(), 32.min(width)))
        .collect();
    let column = names.iter().map(|name| name.width()).max().unwrap_or(0) + 2;
    let rows = names.chunks((width / column).max(1)).map(|row| {
        let row: String = row.iter().map(|name| padded(name, column)).collect();
        Line::raw(row.trim_end().to_owned())
    });
    std::iter::once(title).chain(rows).collect()
}

/// Returns the newest events.
fn events(
    entry: &Entry,
    past: Option<&ServerHistory>,
    screen: &WatchScreen,
    width: usize,
) -> Vec<Line<'static>> {
    let live = screen.board.events(entry.seen.server.id);
    let earlier = past.iter().flat_map(|past| &past.events);
    let mut events: Vec<&Event> = live.chain(earlier).collect();
    events.sort_by_key(|event| std::cmp::Reverse(event.at));
    events.dedup();
    let summary = if events.is_empty() { "none so far" } else { "" };
    let title = heading("events", Some(summary), width);
    let now = (screen.clock)();
    let rows = events.into_iter().take(MAX_EVENTS).map(|event| {
        let age = padded(&format!("{} ago", ago(event.at, now)), 12);
        let (words, style) = happened(&event.kind);
        let words = Span::styled(line(&words, width), style);
        fitting(vec![Span::styled(age, dim()), words], width)
    });
    std::iter::once(title).chain(rows).collect()
}

/// Returns the rules, extras and deviations of a status.
fn values(last_status: &LastStatus, width: usize) -> Vec<Line<'static>> {
    let answer = serde_json::from_slice::<Value>(&last_status.answer).unwrap_or_default();
    let status = &answer["status"];
    let list = |key: &str| status[key].as_array().into_iter().flatten();
    let text = |value: Option<&Value>| value.map(human).unwrap_or_default();
    let rules = list("rules").map(|rule| (text(rule.get("key")), text(rule.get("value"))));
    let extra = status["extra"].as_object().into_iter().flatten();
    let extra = extra.map(|(key, value)| (key.clone(), human(value)));
    let deviations = list("deviations").map(|name| (human(name), String::new()));
    let groups: [(_, Vec<_>); 3] = [
        ("rules", rules.take(MAX_VALUES).collect()),
        ("extras", extra.take(MAX_VALUES).collect()),
        (
            "deviates from the protocol",
            deviations.take(MAX_VALUES).collect(),
        ),
    ];
    let mut lines = Vec::new();
    for (title, pairs) in groups.iter().filter(|(_, pairs)| !pairs.is_empty()) {
        lines.push(heading(title, Some(""), width));
        let longest = pairs.iter().map(|(key, _)| key.width()).max().unwrap_or(0);
        let key = longest.clamp(4, KEY_WIDTH) + 2;
        lines.extend(pairs.iter().map(|(name, value)| {
            let name = padded(&line(name, key - 2), key);
            let value = Span::raw(line(value, width));
            fitting(vec![Span::styled(name, dim()), value], width)
        }));
    }
    lines
}

fn happened(kind: &EventKind) -> (String, Style) {
    let side = |side: &Option<String>| match side.as_deref() {
        Some(text) => line(text, 60),
        None => "nothing".into(),
    };
    let changed = |what: &str, change: &ValueChange| {
        format!("{what}: {} → {}", side(&change.from), side(&change.to))
    };
    let (words, color) = match kind {
        EventKind::Up => ("up".into(), Some(Color::Green)),
        EventKind::Down { reason } => (format!("down: {}", line(reason, 60)), Some(Color::Red)),
        EventKind::Flapping => (
            "flaps: goes up and down repeatedly".into(),
            Some(Color::Yellow),
        ),
        EventKind::Steady => ("steady again".into(), None),
        EventKind::Version(of) => (changed("version", of), None),
        EventKind::Map(of) => (changed("map", of), None),
        EventKind::Motd(of) => (changed("MOTD", of), None),
        EventKind::Address(of) => (changed("address", of), None),
        EventKind::Protocol(of) => (changed("protocol", of), None),
    };
    (words, color.map_or(Style::new(), in_color))
}

fn ago(at: Millis, now: Millis) -> String {
    since(now.saturating_sub(at) as f64 / 1e3)
}

/// Formats a value in one line. Objects appear without keys, which would repeat in every row.
fn human(value: &Value) -> String {
    fn all<'a>(values: impl Iterator<Item = &'a Value>, separator: &str) -> String {
        let values: Vec<_> = values.take(MAX_VALUES).map(human).collect();
        values.join(separator)
    }
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => all(values.iter(), ", "),
        Value::Object(members) => all(members.values(), " "),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::Null => String::new(),
        Value::Number(number) => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::watch::board::Board;
    use crate::command::watch::simulated::{self, NOW, board, five};
    use crate::terminal::Screen;
    use crate::terminal::tests::{assert_shows, shown};
    use hailer_monitor::sample::ValueChange;
    use hailer_monitor::server::ServerId;
    use std::sync::Arc;

    fn with_answer() -> Board {
        let mut board = board();
        let mut seen = five().remove(0);
        let last_status = Arc::make_mut(seen.last_status.as_mut().unwrap());
        last_status.answer = br#"{"status":{"rules":[{"key":"pvp","value":"on"},{"key":"difficulty","value":"hard"}],
            "extra":{"software":"Paper","plugins":[{"name":"Tides","version":"2.1"},{"name":"LuckPerms","version":"5"}],"online-mode":true},
            "deviations":["late-players"]}}"#[..].into();
        board.see(vec![seen]);
        let at = |seconds: i64, kind| Event {
            server: ServerId(1),
            at: NOW - 1_000 * seconds,
            kind,
        };
        board.happen(vec![
            at(
                7_200,
                EventKind::Down {
                    reason: "silence".into(),
                },
            ),
            at(3_600, EventKind::Up),
            at(
                5,
                EventKind::Version(ValueChange {
                    from: Some("1.20".into()),
                    to: Some("1.20.4".into()),
                }),
            ),
        ]);
        board.arrange();
        board
    }

    /// Returns a screen with the details of a server.
    fn screen(board: Board, id: i64) -> Screen<WatchScreen> {
        let mut screen = simulated::screen(board);
        screen.program.detail = Some(ServerId(id));
        screen
    }

    #[test]
    fn shows_every_detail_of_a_server() {
        let mut with_answer = screen(with_answer(), 1);
        let screen = shown(&mut with_answer, 100, 50);
        for expected in [
            "● up for 1h",
            "minecraft-query://lobby.example.com at 192.0.2.1:25565",
            "Welcome to the lobby",
            "players 12 of 20",
            "latency 12.3 ms",
            "up 100 %",
            "game MINECRAFT",
            "version 1.20.4",
            "players 12, at most 12 ──",
            "latency, ms 12.3, at most 16.3 ──",
            "4m 55s ago",
            "now",
            "online players 12 on, 3 listed",
            "Alice  Bob    名前",
            "5s ago      version: 1.20 → 1.20.4",
            "2h ago      down: silence",
            "difficulty  hard",
            "plugins      Tides 2.1, LuckPerms 5",
            "online-mode  yes",
            "late-players",
        ] {
            assert!(screen.contains(expected), "{expected}\n{screen}");
        }
        assert!(
            screen.contains(['⠤', '⣀', '⠒', '⠉', '⡠', '⢄']),
            "a chart\n{screen}"
        );
        let events =
            screen.find("version: 1.20 →").unwrap() < screen.find("down: silence").unwrap();
        assert!(events, "the newest first\n{screen}");
        assert!(!screen.contains("survival"), "the table shrinks\n{screen}");
        let wide = shown(&mut with_answer, 160, 50);
        assert!(
            wide.contains("survival-9") && wide.contains("online players"),
            "both\n{wide}"
        );
    }

    #[test]
    fn details_scroll_in_small_terminals() {
        let mut with_answer = screen(with_answer(), 1);
        for (width, height) in [(40, 10), (60, 16), (80, 24)] {
            with_answer.program.scroll = 0;
            let first = shown(&mut with_answer, width, height);
            assert_shows(&first, &["lobby", "12 of 20", "online players"]);
            assert!(!first.contains("late-players"), "{first}");
            with_answer.program.scroll = 1_000;
            let last = shown(&mut with_answer, width, height);
            assert_shows(&last, &["late-players", "lobby"]);
        }
    }

    #[test]
    fn silence_is_a_gap_with_a_reason() {
        let silent = shown(&mut screen(board(), 5), 80, 24);
        assert_shows(
            &silent,
            &[
                "✗ down",
                "did not answer within 3 s",
                "nothing yet",
                "up 0.0 %",
                "none so far",
            ],
        );
        let arena = shown(&mut screen(board(), 4), 80, 24);
        assert_shows(&arena, &["at most 40", "<b>Arena</b>"]);
    }

    #[test]
    fn history_comes_before_new_samples() {
        let board = board();
        let sample = |seconds: i64, players| SamplePoint {
            at: NOW - seconds * 1_000,
            players: Some(players),
            latency: None,
        };
        let mut last_status = board
            .server(ServerId(1))
            .unwrap()
            .seen
            .last_status
            .as_deref()
            .unwrap()
            .clone();
        last_status.motd = Some(Text::unformatted("Red"));
        last_status.answer = r#"{"status":{"motd":{"plain":"Red","raw":"§cRed"}}}"#
            .as_bytes()
            .into();
        let past = ServerHistory {
            server: ServerId(1),
            samples: vec![sample(86_400, 77.0), sample(60, 5.0)],
            events: vec![Event {
                server: ServerId(1),
                at: NOW - 86_000_000,
                kind: EventKind::Steady,
            }],
            last_status: Some(Arc::new(last_status)),
        };
        let samples = samples(board.server(ServerId(1)).unwrap(), Some(&past));
        assert_eq!(
            (samples[0].players, samples[1].players, samples.len()),
            (Some(77.0), Some(5.0), 2 + 12),
            "no sample twice"
        );
        assert_eq!(
            motd(past.last_status.as_deref().unwrap()).unwrap().raw(),
            "§cRed",
            "colors of the whole answer"
        );
        let mut screen = screen(board, 1);
        screen.program.past = Some(past);
        let lobby = shown(&mut screen, 80, 30);
        assert_shows(&lobby, &["at most 77", "1d ago", "steady again", "Red"]);
        // The history of another server is not shown.
        screen.program.detail = Some(ServerId(2));
        let other = shown(&mut screen, 80, 30);
        assert!(!other.contains("steady again"), "{other}");
    }
}
