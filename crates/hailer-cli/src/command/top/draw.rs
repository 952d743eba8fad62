//! Screen of `hailer top`.
//!
//! ```text
//!   from 100 columns                    narrower
//!   ┌ process ──────────────────┐       ┌ process ────────────┐
//!   ├ listeners ────────────────┤       ├ listeners ──────────┤
//!   │ rates       │ drops       │       │ rates               │
//!   │ budget      │ sources     │       │ budget              │
//!   │ replies     │ clients     │       │ replies  │ sources  │
//!   ├ keys ─────────────────────┤       │ drops    │ clients  │
//!   └───────────────────────────┘       └ keys ───────────────┘
//! ```

use super::history::History;
use crate::command::serve::status::state;
use crate::observe::snapshot::{Counts, Snapshot, State, in_words};
use crate::print::{bytes, line, padded, rate, since};
use crate::terminal::sections::{NUMBERS_WIDTH, ScreenRow, Section, column};
use crate::terminal::widgets::{GAP_WIDTH, below, bold, dim, halves, in_color, lines, share};
use crate::terminal::{About, Program};
use crossterm::event::{KeyCode, KeyEvent};
use hailer::door::State as DoorState;
use hailer::proto::wire::counted;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};
use std::cmp::Reverse;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

/// Minimum width for two columns of sections, in terminal columns.
const TWO_COLUMNS_WIDTH: u16 = 100;
/// Minimum width of a section in which words appear next to the numbers, in columns.
const WORDS_WIDTH: u16 = 58;
/// Minimum height of the lower sections in a narrow terminal, in lines.
const MIN_LOWER_HEIGHT: u16 = 6;

/// The content of the screen.
#[derive(Default)]
pub(super) struct TopScreen {
    history: History,
    /// Selected listener; 0 shows the totals of all.
    chosen: usize,
}

impl Program for TopScreen {
    const ABOUT: About = About {
        name: "hailer top",
        for_programs: "hailer serve status --json",
        min_size: (30, 8),
        notice_time: Duration::from_secs(30),
        help_width: 60,
        help: &[
            ("q", "quit"),
            ("Tab ← →", "select a listener"),
            ("p", "pause or continue"),
            ("?", "show or hide this help"),
            ("received", "datagrams that arrived"),
            ("answered", "replies to verified addresses"),
            (
                "unverified",
                "replies to unverified addresses, limited by the budget",
            ),
            ("dropped", "datagrams without a reply, by reason"),
            ("relayed", "datagrams to the game server and back"),
            ("lost", "datagrams lost because the receive queue was full"),
            ("doors", "games that stop when they have no players"),
            ("sources", "where statuses come from, and their age"),
            ("clients", "networks with most requests; can be forged"),
        ],
    };
    type Update = Snapshot;

    fn title(&self, _width: u16) -> Vec<Span<'static>> {
        let Some(snapshot) = self.history.last() else {
            return Vec::new();
        };
        let mut words = format!(
            " {}, process {}, up {}, {}",
            line(&snapshot.version, 20),
            snapshot.pid,
            since(snapshot.uptime_s),
            counted(snapshot.workers, "worker")
        );
        if snapshot.relay.sessions_max > 0 {
            words += &format!(", {}", counted(snapshot.relay.sessions, "relay session"));
        }
        vec![Span::styled("hailer serve", bold()), Span::raw(words)]
    }

    fn hint(&self) -> Span<'static> {
        Span::styled("q quits  Tab listener  p pauses  ? help", dim())
    }

    fn draw(&mut self, frame: &mut Frame<'_>, body: Rect) {
        let Some(snapshot) = self.history.last() else {
            return;
        };
        lines(frame, body, [listeners(snapshot, self.chosen, body.width)]);
        let body = below(body, 1);
        let listener = self.chosen.checked_sub(1);
        let listener = listener.and_then(|i| Some(&*snapshot.listeners.get(i)?.address));
        let all = self.history.counts(listener);
        let half = (body.width - GAP_WIDTH) / 2;
        let rates = rates(&self.history, listener, &all);
        let answers = answers(&self.history, listener, &all);
        let drops = drops(&self.history, listener, &all, half);
        let sources = sources(snapshot);
        let clients = clients(snapshot, half);
        let doors = doors(snapshot);
        let budget = Section {
            title: None,
            rows: vec![budget(snapshot)],
            least: 1,
        };
        if body.width >= TWO_COLUMNS_WIDTH {
            let [left, right] = halves(body);
            column(frame, left, &[rates, budget, answers]);
            column(frame, right, &[drops, sources, doors, clients]);
            return;
        }
        let left = answers.height().saturating_add(drops.height());
        let right = sources.height().saturating_add(doors.height());
        let right = right.saturating_add(clients.height());
        let ranges = [
            (rates.least + budget.least, rates.height() + budget.height()),
            (MIN_LOWER_HEIGHT, left.max(right)),
        ];
        let upper = Constraint::Length(share(&ranges, body.height)[0]);
        let [upper, lower] = Layout::vertical([upper, Constraint::Fill(1)]).areas(body);
        column(frame, upper, &[rates, budget]);
        let [left, right] = halves(lower);
        column(frame, left, &[answers, drops]);
        column(frame, right, &[sources, doors, clients]);
    }

    fn press(&mut self, key: KeyEvent) -> bool {
        let last = self.history.last();
        let places = 1 + last.map_or(0, |snapshot| snapshot.listeners.len());
        let step = match key.code {
            KeyCode::Tab | KeyCode::Right | KeyCode::Down => 1,
            KeyCode::BackTab | KeyCode::Left | KeyCode::Up => places - 1,
            _ => return false,
        };
        self.chosen = (self.chosen + step) % places;
        true
    }

    fn receive(&mut self, snapshot: Snapshot) -> Option<String> {
        let pid = snapshot.pid;
        // A reload may have changed the listeners.
        if self.chosen > snapshot.listeners.len() {
            self.chosen = 0;
        }
        let before = self.history.push(snapshot)?;
        Some(format!(
            "hailer serve has restarted: process {pid}, before {before}"
        ))
    }
}

/// Lists the listeners in one line, scrolled so that the selected one is visible.
fn listeners(snapshot: &Snapshot, chosen: usize, width: u16) -> Line<'static> {
    let names = snapshot
        .listeners
        .iter()
        .map(|listener| format!(" {} ", line(&listener.address, 48)));
    let names: Vec<String> = std::iter::once(" all ".into()).chain(names).collect();
    let chosen = chosen.min(names.len() - 1);
    let until_chosen =
        |from: usize| -> usize { names[from..=chosen].iter().map(|name| name.width()).sum() };
    let mut first = 0;
    while first < chosen && until_chosen(first) + 4 > usize::from(width) {
        first += 1;
    }
    let mut room = usize::from(width);
    let mut spans = Vec::new();
    if first > 0 {
        spans.push(Span::styled("‹ ", dim()));
        room -= 2;
    }
    for (i, name) in names.iter().enumerate().skip(first) {
        let is_last = i + 1 == names.len();
        if name.width() + if is_last { 0 } else { 2 } > room && i != chosen {
            spans.push(Span::styled(" ›", dim()));
            break;
        }
        let style = if i == chosen {
            Style::new().reversed()
        } else {
            dim()
        };
        spans.push(Span::styled(line(name, room), style));
        room = room.saturating_sub(name.width());
    }
    Line::from(spans)
}

fn per_second(text: &str) -> String {
    format!("{text}/s")
}

/// Formats the newest rate of a series.
fn newest(series: &[f64], words: fn(f64) -> String) -> String {
    let last = series.last();
    last.map_or_else(|| "…".into(), |last| per_second(&words(*last)))
}

fn trend(name: &str, series: Vec<f64>, words: fn(f64) -> String, color: Color) -> ScreenRow {
    ScreenRow::Trend {
        name: name.into(),
        number: newest(&series, words),
        series,
        color,
    }
}

/// Counters whose rates are shown: name, value, format of the rate, color.
type Rate = (&'static str, fn(&Counts) -> u64, fn(f64) -> String, Color);

/// Rates that are always shown.
const RATES: [Rate; 6] = [
    ("received", |counts| counts.received, rate, Color::Cyan),
    ("answered", |counts| counts.answered, rate, Color::Green),
    (
        "unverified",
        |counts| counts.unverified,
        rate,
        Color::Yellow,
    ),
    ("dropped", Counts::all_dropped, rate, Color::Red),
    ("bytes out", |counts| counts.sent_bytes, bytes, Color::Blue),
    (
        "bytes in",
        |counts| counts.received_bytes,
        bytes,
        Color::Blue,
    ),
];

/// Rates that are shown if something was relayed.
const RELAY_RATES: [Rate; 2] = [
    ("relayed", |counts| counts.relayed, rate, Color::Magenta),
    (
        "and back",
        |counts| counts.relayed_back,
        rate,
        Color::Magenta,
    ),
];

/// The rate that is shown if something was lost.
const LOST_RATES: [Rate; 1] = [("lost", |counts| counts.lost, rate, Color::Red)];

fn rates(history: &History, listener: Option<&str>, all: &Counts) -> Section {
    let groups = [
        (true, &RATES[..]),
        (all.relayed > 0, &RELAY_RATES),
        (all.lost > 0, &LOST_RATES),
    ];
    let shown = groups.into_iter().filter(|(is_shown, _)| *is_shown);
    let rows = shown.flat_map(|(_, rates)| rates);
    let rows = rows.map(|(name, counter, words, color)| {
        trend(name, history.rates(listener, counter), *words, *color)
    });
    let title = listener.map_or("all listeners".into(), |address| line(address, 48));
    Section {
        least: RATES.len() as u16,
        ..Section::new(title, rows.collect())
    }
}

fn budget(snapshot: &Snapshot) -> ScreenRow {
    let budget = &snapshot.budget;
    if budget.bytes_per_s == 0 {
        let words = [
            Span::raw(padded("budget", 10)),
            Span::styled("no limit", dim()),
        ];
        return ScreenRow::Text(words.into_iter().collect());
    }
    let left = budget.left_bytes as f64;
    let full = budget.bytes_per_s as f64;
    let networks = counted(budget.networks, "network");
    ScreenRow::Gauge {
        name: "budget",
        words: format!("{} of {}/s, {networks} known", bytes(left), bytes(full)),
        share: left / full,
    }
}

fn answers(history: &History, listener: Option<&str>, all: &Counts) -> Section {
    let protocols = all.answers.keys().map(|protocol| {
        let series = history.rates(listener, |counts| counts.of(protocol));
        trend(protocol, series, rate, Color::Green)
    });
    let kinds = all.answers.iter().flat_map(|(protocol, kinds)| {
        kinds.keys().map(move |kind| {
            let of = |counts: &Counts| Some(*counts.answers.get(protocol)?.get(kind)?);
            let series = history.rates(listener, |counts| of(counts).unwrap_or(0));
            let name = format!("{} {}", line(protocol, 24), line(kind, 24));
            ScreenRow::Ends(
                vec![Span::styled(name, dim())],
                Span::styled(newest(&series, rate), dim()),
            )
        })
    });
    Section::or_none("answers", protocols.chain(kinds).collect(), "none yet")
}

fn drops(history: &History, listener: Option<&str>, all: &Counts, width: u16) -> Section {
    let now = |key: &str| {
        let of = |counts: &Counts| counts.dropped.get(key).copied().unwrap_or(0);
        history.rates(listener, of).last().copied().unwrap_or(0.0)
    };
    let dropped = all.dropped.iter().filter(|(_, count)| **count > 0);
    let mut dropped: Vec<_> = dropped
        .map(|(key, count)| (now(key), *count, key))
        .collect();
    dropped.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    let rows = dropped.into_iter().map(|(now, count, key)| {
        let mut left = vec![Span::styled(line(key, 24), red_if(now > 0.0))];
        let words = in_words(key);
        if width >= WORDS_WIDTH && words != key {
            left.push(Span::styled(format!("  {words}"), dim()));
        }
        let numbers = format!("{:>7} {:>7}", per_second(&rate(now)), rate(count as f64));
        ScreenRow::Ends(left, Span::raw(numbers))
    });
    Section::or_none("dropped", rows.collect(), "nothing")
}

fn red_if(is_red: bool) -> Style {
    if is_red {
        in_color(Color::Red)
    } else {
        Style::new()
    }
}

fn sources(snapshot: &Snapshot) -> Section {
    let mut sources: Vec<_> = snapshot.sources.iter().collect();
    // Sources with problems first.
    sources.sort_by_key(|source| Reverse(source.state as u8));
    let mut rows = Vec::new();
    for source in sources {
        let color = match source.state {
            State::Fresh => Color::Green,
            State::Stale => Color::Yellow,
            State::Silent | State::Never => Color::Red,
        };
        let words = match source.age_s {
            None => state(source.state).to_owned(),
            Some(age) if source.state == State::Fresh => since(age),
            Some(age) => format!("{}, {}", source.state.name(), since(age)),
        };
        let name = Span::raw(line(&source.name, 40));
        let kind = Span::styled(format!(" {}", line(&source.kind, 12)), dim());
        rows.push(ScreenRow::Ends(
            vec![name, kind],
            Span::styled(words, in_color(color)),
        ));
        if let Some(error) = &source.last_error {
            let error = Span::styled(format!("  {}", line(error, 200)), dim());
            rows.push(ScreenRow::Ends(vec![error], Span::raw("")));
        }
    }
    Section::or_none("sources", rows, "no sources")
}

/// Returns the games that sleep while they have no players. Without any, the section takes no line.
fn doors(snapshot: &Snapshot) -> Section {
    let mut rows = Vec::new();
    for door in &snapshot.doors {
        let color = match door.state {
            DoorState::Running => Color::Green,
            DoorState::Starting | DoorState::Stopping => Color::Yellow,
            DoorState::Failed => Color::Red,
            DoorState::Asleep => Color::Blue,
        };
        let words = format!("{}, {}", door.state.name(), since(door.since_s));
        let name = Span::raw(line(&door.name, 40));
        let what = match (door.players, &door.woken_by) {
            (Some(players), _) if players > 0 => counted(players, "player"),
            (_, Some(woken_by)) if door.state != DoorState::Asleep => {
                format!("by {}", line(woken_by, 40))
            }
            _ => String::new(),
        };
        let what = Span::styled(format!(" {what}"), dim());
        rows.push(ScreenRow::Ends(
            vec![name, what],
            Span::styled(words, in_color(color)),
        ));
        if let Some(error) = &door.last_error {
            let error = Span::styled(format!("  {}", line(error, 200)), dim());
            rows.push(ScreenRow::Ends(vec![error], Span::raw("")));
        }
    }
    if rows.is_empty() {
        return Section {
            title: None,
            rows,
            least: 0,
        };
    }
    // In a small terminal, sources and clients matter more.
    Section {
        least: 0,
        ..Section::new("doors", rows)
    }
}

fn clients(snapshot: &Snapshot, width: u16) -> Section {
    let rows = snapshot.top.iter().map(|top| {
        let mut numbers = format!("{:>7}", per_second(&rate(top.packets_per_s)));
        if width >= NUMBERS_WIDTH {
            numbers += &format!(" {:>7}", per_second(&rate(top.replies_per_s)));
        }
        if width >= WORDS_WIDTH {
            for number in [top.bytes_per_s, top.reply_bytes_per_s] {
                numbers += &format!(" {:>9}", per_second(&bytes(number)));
            }
        }
        // More than half of the datagrams got no reply.
        let style = red_if(top.packets_per_s > 2.0 * top.replies_per_s);
        let name = Span::styled(line(&top.prefix, 48), style);
        ScreenRow::Ends(vec![name], Span::raw(numbers))
    });
    let title = match width {
        WORDS_WIDTH.. => "busiest clients: received, answered, in, out",
        NUMBERS_WIDTH.. => "busiest clients: received",
        _ => "busiest clients",
    };
    Section::or_none(title, rows.collect(), "none")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::snapshot::Source;
    use crate::simulated::responder as simulated;
    use crate::terminal::Screen;
    use crate::terminal::tests::{assert_shows, ends_by_its_keys, key, shown};
    use tokio::time::Instant;

    fn screen(snapshots: impl IntoIterator<Item = Snapshot>) -> Screen<TopScreen> {
        let mut screen = Screen::new(TopScreen::default());
        for snapshot in snapshots {
            screen.receive(Ok(snapshot), Instant::now());
        }
        screen
    }

    fn full(seconds: u32) -> Screen<TopScreen> {
        screen((0..=seconds).map(|second| simulated::snapshot(second.into())))
    }

    #[test]
    fn every_size_shows_what_matters() {
        let mut full = full(100);
        for (width, height) in [
            (60, 16),
            (80, 24),
            (99, 30),
            (100, 24),
            (120, 40),
            (200, 60),
        ] {
            let screen = shown(&mut full, width, height);
            assert_shows(
                &screen,
                &[
                    "hailer serve 0.1.0, process 4711, up 1m 40s",
                    "live",
                    " all ",
                    "0.0.0.0:25565",
                    "received",
                    "answered",
                    "dropped",
                    "bytes out",
                    "budget",
                    "minecraft-query",
                    "sources",
                    "none yet",
                    "busiest clients",
                    "203.0.113.0/24",
                    "q quits",
                ],
            );
            // The simulated server is queried all the time, so the chart is not empty.
            let mut lines = screen.lines();
            assert!(lines.any(|line| line.starts_with("received") && line.contains(['▅', '▆', '▇', '█'])));
        }
        assert_shows(
            &shown(&mut full, 120, 40),
            &[
                "over the limit for replies",
                "Redis at 127.0.0.1:6379",
                "onequery unverified",
                "relayed",
            ],
        );
    }

    #[test]
    fn no_size_and_no_content_is_too_odd() {
        let mut odd = simulated::snapshot(1.0);
        let long = "名前\u{1b}[2J\n\u{301}".repeat(20);
        odd.listeners[0].address.clone_from(&long);
        odd.version.clone_from(&long);
        odd.sources = vec![
            Source {
                name: long.clone(),
                last_error: Some(long.clone()),
                ..Source::default()
            };
            50
        ];
        odd.top[0].prefix.clone_from(&long);
        odd.top[0].packets_per_s = f64::MAX;
        odd.budget.left_bytes = u64::MAX;
        let empty = screen([Snapshot::default()]);
        for mut screen in [full(100), screen([odd]), empty, screen([])] {
            for (width, height) in [
                (1, 1),
                (29, 9),
                (30, 8),
                (40, 10),
                (47, 13),
                (80, 9),
                (101, 8),
                (300, 100),
            ] {
                for (chosen, has_help) in [(0, false), (1, true), (2, false), (9, false)] {
                    screen.program.chosen = chosen;
                    screen.has_help = has_help;
                    let screen = shown(&mut screen, width, height);
                    assert!(!screen.contains('\u{1b}'), "{screen:?}");
                }
            }
        }
        assert_shows(&shown(&mut full(1), 29, 20), &["too small"]);
    }

    #[test]
    fn one_listener_alone() {
        let mut one = full(100);
        one.program.chosen = 3;
        let screen = shown(&mut one, 80, 24);
        assert_shows(&screen, &["0.0.0.0:22000 ──", "ugp"]);
        assert!(
            !screen.contains("minecraft-query") && !screen.contains("relayed"),
            "{screen}"
        );
        // In a narrow terminal, the selected listener stays visible.
        let screen = shown(&mut one, 40, 20);
        let tabs = screen.lines().nth(1).unwrap();
        assert!(tabs.contains("0.0.0.0:22000"), "{screen}");
    }

    #[test]
    fn keys_match_the_help() {
        let mut screen = screen([simulated::snapshot(1.0)]);
        for (code, chosen) in [
            (KeyCode::Tab, 1),
            (KeyCode::Right, 2),
            (KeyCode::BackTab, 1),
            (KeyCode::Left, 0),
            (KeyCode::Up, 3),
            (KeyCode::Down, 0),
        ] {
            assert!(screen.press(key(code)));
            assert_eq!(screen.program.chosen, chosen);
        }
        assert!(screen.press(key(KeyCode::Char('?'))) && screen.has_help);
        let help = shown(&mut screen, 60, 16);
        assert_shows(&help, &["select a listener", "can be forged"]);
        assert!(
            screen.press(key(KeyCode::Esc)) && !screen.has_help,
            "Esc closes the help first"
        );
        assert!(screen.press(key(KeyCode::Char('p'))) && screen.is_paused);
        screen.receive(Ok(simulated::snapshot(9.0)), Instant::now());
        assert_eq!(screen.program.history.last().unwrap().uptime_s, 1.0);
        assert_shows(&shown(&mut screen, 60, 16), &["paused"]);
        ends_by_its_keys(&mut screen);
    }

    #[test]
    fn shows_lost_and_restored_connections() {
        let now = Instant::now();
        let ago = |seconds| now - Duration::from_secs(seconds);
        let mut screen = screen([simulated::snapshot(50.0)]);
        screen.program.chosen = 3;
        screen.receive(Err("gone".into()), ago(9));
        screen.receive(Err("still gone".into()), ago(5));
        let lost = shown(&mut screen, 80, 24);
        assert_shows(&lost, &["lost for 9s", "still gone. Retrying"]);
        let mut restarted = Snapshot {
            pid: 4800,
            ..simulated::snapshot(0.1)
        };
        restarted.listeners.truncate(1);
        screen.receive(Ok(restarted), ago(4));
        assert_eq!(screen.program.chosen, 0);
        let restarted = shown(&mut screen, 80, 24);
        assert_shows(&restarted, &["live", "process 4800, before 4711"]);
        screen.tick(now + Duration::from_secs(60));
        assert_shows(&shown(&mut screen, 80, 24), &["q quits"]);
    }
}
