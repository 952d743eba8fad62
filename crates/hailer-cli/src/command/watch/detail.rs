//! Details of one server: state, charts, players, events, rules and extras.

use super::board::{Entry, SamplePoint, ServerHistory};
use super::cells::{BoundedLine, colored_lines, speed, state, uptime};
use super::view::View;
use crate::command::top::draw::{bold, both_ends, dim};
use crate::print::{line, padded, rate, since};
use hailer::Text;
use hailer_monitor::health::State;
use hailer_monitor::sample::{Event, EventKind, Millis};
use hailer_monitor::state::LastStatus;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::symbols::Marker;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Axis, Chart, Dataset, GraphType};
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
    view: &View<'_>,
    entry: &Entry,
    past: Option<&ServerHistory>,
) {
    let [head, charts, text] = places(area, entry, past);
    for (y, line) in
        (head.y..head.y + head.height).zip(facts(entry, past, view.now, usize::from(area.width)))
    {
        frame.render_widget(
            line,
            Rect {
                y,
                height: 1,
                ..head
            },
        );
    }
    if charts.height > 0 {
        let sides: [Rect; 2] = if charts.width >= SIDE_BY_SIDE_WIDTH {
            let [left, _, right] = Layout::horizontal([
                Constraint::Fill(1),
                Constraint::Length(2),
                Constraint::Fill(1),
            ])
            .areas(charts);
            [left, right]
        } else {
            Layout::vertical([Constraint::Fill(1), Constraint::Fill(1)]).areas(charts)
        };
        let samples = samples(entry, past);
        chart(
            frame,
            sides[0],
            "players",
            &samples,
            view.now,
            Color::Cyan,
            |sample| sample.players,
        );
        chart(
            frame,
            sides[1],
            "latency, ms",
            &samples,
            view.now,
            Color::Green,
            |sample| sample.latency,
        );
    }
    let lines = text_of(entry, past, view, usize::from(area.width));
    for (y, line) in (text.y..text.y + text.height).zip(lines.into_iter().skip(view.scroll)) {
        frame.render_widget(
            line,
            Rect {
                y,
                height: 1,
                ..text
            },
        );
    }
}

/// Returns how many lines can be scrolled.
pub(super) fn most_scroll(
    area: Rect,
    view: &View<'_>,
    entry: &Entry,
    past: Option<&ServerHistory>,
) -> usize {
    let [_, _, text] = places(area, entry, past);
    text_of(entry, past, view, usize::from(area.width))
        .len()
        .saturating_sub(usize::from(text.height))
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
    let (word, style) = state(entry);
    let word = match seen.since {
        1.. => format!("{word} for {}", ago(seen.since, now)),
        _ => word.to_owned(),
    };
    let cut = u16::try_from(width).unwrap_or(u16::MAX);
    let mut lines = vec![both_ends(
        vec![Span::styled(line(&seen.server.name, width), bold())],
        Span::styled(word, style),
        cut,
    )];
    let address = last_status(entry, past)
        .and_then(|last_status| last_status.address)
        .map(|address| format!(" at {address}"))
        .unwrap_or_default();
    lines.push(Line::styled(
        line(&format!("{}{address}", seen.server.target), width),
        dim(),
    ));
    let answer = last_status(entry, past);
    if let Some(motd) = answer.and_then(motd) {
        lines.extend(colored_lines(&motd, width, MOTD_LINES));
    }
    let mut words: Vec<Span<'static>> = Vec::new();
    let mut add = |name: &str, value: Span<'static>| {
        if !words.is_empty() {
            words.push(Span::raw("  "));
        }
        words.push(Span::styled(format!("{name} "), dim()));
        words.push(value);
    };
    if let Some(last) = seen.last.filter(|last| last.is_answered) {
        let max = last.max.map(|max| format!(" of {max}")).unwrap_or_default();
        let on = last
            .players
            .map_or("unknown".into(), |players| players.to_string());
        add("players", Span::raw(format!("{on}{max}")));
        if let Some(latency) = last.latency {
            add(
                "latency",
                Span::styled(
                    format!("{:.1} ms", f64::from(latency) / 1e3),
                    speed(latency),
                ),
            );
        }
        if last.resent > 0 {
            add(
                "lost",
                Span::raw(format!("{} of {} datagrams", last.resent, last.sent)),
            );
        }
    }
    if let Some(share) = uptime(seen.uptime).spans.into_iter().next() {
        let style = uptime(seen.uptime).style.patch(share.style);
        add("up", Span::styled(format!("{} %", share.content), style));
    }
    lines.push(fitting(words, width));
    let named = |last_status: &LastStatus| {
        let named = [
            ("game", last_status.game.clone()),
            ("version", last_status.version.clone()),
            ("map", last_status.map.clone()),
        ];
        let words = named
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.filter(|value| !value.is_empty())?)));
        words
            .flat_map(|(name, value)| {
                [
                    Span::styled(format!("{name} "), dim()),
                    Span::raw(format!("{}  ", line(&value, 40))),
                ]
            })
            .collect::<Vec<_>>()
    };
    let named = answer.map(named).unwrap_or_default();
    if !named.is_empty() {
        lines.push(fitting(named, width));
    }
    if let Some(error) = &seen.error {
        let words = if seen.state == State::Up {
            "last error: "
        } else {
            ""
        };
        lines.push(Line::styled(
            line(&format!("{words}{}", error.1), width),
            Style::new().fg(Color::Red),
        ));
    }
    lines
}

/// Cuts spans to a width.
fn fitting(spans: Vec<Span<'static>>, width: usize) -> Line<'static> {
    let mut fitting = BoundedLine::new(width);
    spans
        .into_iter()
        .take_while(|span| fitting.push(&span.content, span.style))
        .for_each(drop);
    fitting.line()
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

/// Draws a line chart with axes. Polls without an answer are gaps.
fn chart(
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    samples: &[SamplePoint],
    now: Millis,
    color: Color,
    number: fn(&SamplePoint) -> Option<f32>,
) {
    let numbers = || {
        samples
            .iter()
            .filter_map(number)
            .filter(|number| number.is_finite())
    };
    let most = numbers().fold(0.0, f32::max);
    let last = samples.last().and_then(number);
    let shown = |number: f32| {
        if number < 1e4 {
            format!("{number:.1}").trim_end_matches(".0").to_owned()
        } else {
            rate(f64::from(number))
        }
    };
    let words = match last {
        Some(last) => format!("{}, at most {}", shown(last), shown(most)),
        None if numbers().next().is_none() => "nothing yet".into(),
        None => format!("no answer, at most {}", shown(most)),
    };
    let heading = rule(title, &words, usize::from(area.width));
    frame.render_widget(
        heading,
        Rect {
            height: 1.min(area.height),
            ..area
        },
    );
    let place = Rect {
        y: area.y + 1,
        height: area.height.saturating_sub(1),
        ..area
    };
    let Some(first) = samples.first() else { return };
    let seconds = |at: Millis| at.saturating_sub(now) as f64 / 1e3;
    let begin = seconds(first.at).min(-1.0);
    // A gap separates two lines.
    let mut parts: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
    for sample in samples {
        match (number(sample), parts.last_mut()) {
            (Some(number), Some(part)) => part.push((seconds(sample.at), f64::from(number))),
            (None, Some(part)) if !part.is_empty() => parts.push(Vec::new()),
            _ => {}
        }
    }
    let datasets = parts.iter().filter(|part| !part.is_empty()).map(|part| {
        let style = Style::new().fg(color);
        Dataset::default()
            .marker(Marker::Braille)
            .graph_type(GraphType::Line)
            .style(style)
            .data(part)
    });
    let top = nice(f64::from(most));
    let label = |text: String| Span::styled(text, dim());
    let chart = Chart::new(datasets.collect())
        .legend_position(None)
        .x_axis(
            Axis::default()
                .bounds([begin, 0.0])
                .labels([
                    label(format!("{} ago", ago(first.at, now))),
                    label("now".into()),
                ])
                .style(dim()),
        )
        .y_axis(
            Axis::default()
                .bounds([0.0, top])
                .labels([label("0".into()), label(shown(top as f32))])
                .style(dim()),
        );
    frame.render_widget(chart, place);
}

/// Returns the next round number that is at least `value`.
fn nice(most: f64) -> f64 {
    if !most.is_finite() || most <= 1.0 {
        return 1.0;
    }
    let power = 10f64.powf(most.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|top| *top >= most)
        .unwrap_or(most)
}

/// Returns a line with a title and text.
fn rule(title: &str, words: &str, width: usize) -> Line<'static> {
    let words = line(words, width.saturating_sub(title.width() + 2));
    let rest = "─".repeat(width.saturating_sub(title.width() + words.width() + 3));
    fitting(
        vec![
            Span::styled(format!("{title} "), bold()),
            Span::raw(format!("{words} ")),
            Span::styled(rest, dim()),
        ],
        width,
    )
}

/// Returns players, events, rules and extras as lines.
fn text_of(
    entry: &Entry,
    past: Option<&ServerHistory>,
    view: &View<'_>,
    width: usize,
) -> Vec<Line<'static>> {
    let last_status = last_status(entry, past);
    let mut lines = Vec::new();
    if let Some(last_status) = last_status {
        lines.extend(players(entry, last_status, width));
    }
    lines.extend(events(entry, past, view, width));
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
    let mut lines = vec![rule("online players", &summary.join(", "), width)];
    lines.extend(names(&last_status.players, width));
    lines
}

/// Returns the newest events.
fn events(
    entry: &Entry,
    past: Option<&ServerHistory>,
    view: &View<'_>,
    width: usize,
) -> Vec<Line<'static>> {
    let mut events: Vec<&Event> = view
        .board
        .events(entry.seen.server.id)
        .chain(past.iter().flat_map(|past| &past.events))
        .collect();
    events.sort_by_key(|event| std::cmp::Reverse(event.at));
    events.dedup();
    let summary = if events.is_empty() { "none so far" } else { "" };
    let mut lines = vec![rule("events", summary, width)];
    for event in events.into_iter().take(MAX_EVENTS) {
        let age = padded(&format!("{} ago", ago(event.at, view.now)), 12);
        let (words, style) = happened(&event.kind);
        lines.push(fitting(
            vec![
                Span::styled(age, dim()),
                Span::styled(line(&words, width), style),
            ],
            width,
        ));
    }
    lines
}

/// Returns the rules, extras and deviations of a status.
fn values(last_status: &LastStatus, width: usize) -> Vec<Line<'static>> {
    let status: Value = serde_json::from_slice::<Value>(&last_status.answer)
        .ok()
        .and_then(|mut answer| answer.get_mut("status").map(Value::take))
        .unwrap_or_default();
    let list = |key: &str| {
        status
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
    };
    let text = |value: Option<&Value>| value.map(human).unwrap_or_default();
    let rules = list("rules").map(|rule| (text(rule.get("key")), text(rule.get("value"))));
    let extra = status.get("extra").and_then(Value::as_object);
    let extra = extra
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), human(value)));
    let deviations = list("deviations").map(|name| (human(name), String::new()));
    let mut lines = Vec::new();
    for (title, pairs) in [
        ("rules", rules.take(MAX_VALUES).collect::<Vec<_>>()),
        ("extras", extra.take(MAX_VALUES).collect()),
        (
            "deviates from the protocol",
            deviations.take(MAX_VALUES).collect(),
        ),
    ] {
        if pairs.is_empty() {
            continue;
        }
        lines.push(rule(title, "", width));
        let longest = pairs.iter().map(|(key, _)| key.width()).max().unwrap_or(0);
        let key = longest.clamp(4, KEY_WIDTH) + 2;
        lines.extend(pairs.iter().map(|(name, value)| {
            let name = padded(&line(name, key - 2), key);
            fitting(
                vec![Span::styled(name, dim()), Span::raw(line(value, width))],
                width,
            )
        }));
    }
    lines
}

/// Arranges names in columns.
fn names(players: &[impl AsRef<str>], width: usize) -> Vec<Line<'static>> {
    let names: Vec<String> = players
        .iter()
        .take(MAX_PLAYERS)
        .map(|name| line(name.as_ref(), 32.min(width)))
        .collect();
    let column = names.iter().map(|name| name.width()).max().unwrap_or(0) + 2;
    let row = |row: &[String]| {
        Line::raw(
            row.iter()
                .map(|name| padded(name, column))
                .collect::<String>()
                .trim_end()
                .to_owned(),
        )
    };
    names.chunks((width / column).max(1)).map(row).collect()
}

fn happened(kind: &EventKind) -> (String, Style) {
    let plain = Style::new();
    let difference = |what: &str, difference: &hailer_monitor::sample::ValueChange| {
        let side = |side: &Option<String>| {
            side.as_deref()
                .map_or("nothing".into(), |text| line(text, 60))
        };
        format!(
            "{what}: {} → {}",
            side(&difference.from),
            side(&difference.to)
        )
    };
    match kind {
        EventKind::Up => ("up".into(), plain.fg(Color::Green)),
        EventKind::Down { reason } => (format!("down: {}", line(reason, 60)), plain.fg(Color::Red)),
        EventKind::Flapping => (
            "flaps: goes up and down repeatedly".into(),
            plain.fg(Color::Yellow),
        ),
        EventKind::Steady => ("steady again".into(), plain),
        EventKind::Version(of) => (difference("version", of), plain),
        EventKind::Map(of) => (difference("map", of), plain),
        EventKind::Motd(of) => (difference("MOTD", of), plain),
        EventKind::Address(of) => (difference("address", of), plain),
        EventKind::Protocol(of) => (difference("protocol", of), plain),
    }
}

fn ago(at: Millis, now: Millis) -> String {
    since(now.saturating_sub(at) as f64 / 1e3)
}

/// Formats a value in one line. Objects appear without keys, which would repeat in every row.
fn human(value: &Value) -> String {
    let all = |values: &mut dyn Iterator<Item = &Value>, separator| {
        values
            .take(MAX_VALUES)
            .map(human)
            .collect::<Vec<_>>()
            .join(separator)
    };
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => all(&mut values.iter(), ", "),
        Value::Object(members) => all(&mut members.values(), " "),
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
    use crate::command::watch::draw::tests::{plain, shown};
    use crate::command::watch::simulated::{NOW, board, five};
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

    #[test]
    fn shows_every_detail_of_a_server() {
        let board = with_answer();
        let view = View {
            detail: Some(ServerId(1)),
            ..plain(&board)
        };
        let screen = shown(&view, 100, 50);
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
        let wide = shown(&view, 160, 50);
        assert!(
            wide.contains("survival-9") && wide.contains("online players"),
            "both\n{wide}"
        );
    }

    #[test]
    fn details_scroll_in_small_terminals() {
        let board = with_answer();
        for (width, height) in [(40, 10), (60, 16), (80, 24)] {
            let view = View {
                detail: Some(ServerId(1)),
                ..plain(&board)
            };
            let screen = shown(&view, width, height);
            assert!(
                screen.contains("lobby")
                    && screen.contains("12 of 20")
                    && screen.contains("online players"),
                "{screen}"
            );
            assert!(!screen.contains("late-players"), "{screen}");
            let most = super::super::draw::most_scroll(Rect::new(0, 0, width, height), &view);
            let screen = shown(
                &View {
                    scroll: most,
                    ..view
                },
                width,
                height,
            );
            assert!(
                screen.contains("late-players") && screen.contains("lobby"),
                "the end\n{screen}"
            );
        }
    }

    #[test]
    fn silence_is_a_gap_with_a_reason() {
        let board = board();
        let silent = shown(
            &View {
                detail: Some(ServerId(5)),
                ..plain(&board)
            },
            80,
            24,
        );
        for expected in [
            "✗ down",
            "did not answer within 3 s",
            "nothing yet",
            "up 0.0 %",
            "none so far",
        ] {
            assert!(silent.contains(expected), "{expected}\n{silent}");
        }
        let arena = shown(
            &View {
                detail: Some(ServerId(4)),
                ..plain(&board)
            },
            80,
            24,
        );
        assert!(
            arena.contains("at most 40") && arena.contains("<b>Arena</b>"),
            "{arena}"
        );
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
        let view = View {
            detail: Some(ServerId(1)),
            past: Some(&past),
            ..plain(&board)
        };
        let screen = shown(&view, 80, 30);
        for expected in ["at most 77", "1d ago", "steady again", "Red"] {
            assert!(screen.contains(expected), "{expected}\n{screen}");
        }
        assert_eq!(
            motd(past.last_status.as_deref().unwrap()).unwrap().raw(),
            "§cRed",
            "colors of the whole answer"
        );
        // The history of another server is not shown.
        let other = shown(
            &View {
                detail: Some(ServerId(2)),
                ..view
            },
            80,
            30,
        );
        assert!(!other.contains("steady again"), "{other}");
    }

    #[test]
    fn axes_end_at_round_numbers() {
        assert_eq!(
            [0.0, 0.3, 1.0, 3.0, 12.0, 20.0, 51.0, 100.0, 1_234.0].map(nice),
            [1.0, 1.0, 1.0, 5.0, 20.0, 20.0, 100.0, 100.0, 2_000.0]
        );
        assert_eq!(nice(f64::NAN), 1.0);
    }
}
