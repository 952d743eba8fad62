//! Screen of `hailer top`, a pure function of the history and the size of the terminal.
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

use super::history::{History, MAX_RATES};
use crate::command::status::state;
use crate::observe::snapshot::{Counts, Snapshot, State, in_words};
use crate::print::{bytes, count, line, padded, rate, since};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, RenderDirection, Sparkline};
use unicode_width::UnicodeWidthStr;

/// Minimum width for two columns of sections, in terminal columns.
const TWO_COLUMNS_WIDTH: u16 = 100;
/// Minimum size of the terminal in columns and lines.
const MIN_SIZE: (u16, u16) = (30, 8);
/// Space between two columns of sections.
const GAP_WIDTH: u16 = 2;
/// Minimum width of a section in which words appear next to the numbers, in columns.
const WORDS_WIDTH: u16 = 58;
/// Minimum width of a section in which all numbers appear, in columns.
const NUMBERS_WIDTH: u16 = 38;

const KEYS: &[(&str, &str)] = &[
    ("q", "quit"),
    ("Tab ← →", "select a listener"),
    ("p", "pause or continue"),
    ("?", "show or hide this help"),
];

const TERMS: &[(&str, &str)] = &[
    ("received", "datagrams that arrived"),
    ("answered", "replies to verified addresses"),
    (
        "unverified",
        "replies to unverified addresses, limited by the budget",
    ),
    ("dropped", "datagrams without a reply, by reason"),
    ("relayed", "datagrams to the game server and back"),
    ("lost", "datagrams lost because the receive queue was full"),
    ("sources", "where statuses come from, and their age"),
    ("clients", "networks with most requests; can be forged"),
];

/// State of the connection to the responder.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Link {
    /// The responder sends snapshots.
    Live,
    /// Disconnected, with the number of seconds and the reason.
    Lost(u64, String),
}

/// Content of the screen.
pub(super) struct View<'a> {
    pub(super) history: &'a History,
    /// Selected listener; 0 shows the totals of all.
    pub(super) chosen: usize,
    pub(super) is_paused: bool,
    pub(super) has_help: bool,
    pub(super) link: &'a Link,
    /// Message about a recent event.
    pub(super) notice: Option<&'a str>,
}

pub(super) fn draw(frame: &mut Frame<'_>, view: &View<'_>) {
    let area = frame.area();
    let Some(snapshot) = view.history.last() else {
        return;
    };
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        let (width, height) = MIN_SIZE;
        return frame.render_widget(
            Paragraph::new(format!("too small: at least {width}x{height}")),
            area,
        );
    }
    let [top, tabs, body, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(process(snapshot, view, top.width), top);
    frame.render_widget(listeners(snapshot, view.chosen, tabs.width), tabs);
    frame.render_widget(footer(view, bottom.width), bottom);

    let listener = view
        .chosen
        .checked_sub(1)
        .and_then(|i| snapshot.listeners.get(i))
        .map(|one| &*one.address);
    let all = view.history.counts(listener);
    let rates = rates(view.history, listener, &all);
    let answers = answers(view.history, listener, &all);
    let half = (body.width - GAP_WIDTH) / 2;
    let drops = drops(view.history, listener, &all, half);
    let source_status = source_status(snapshot);
    let clients = clients(snapshot, half);
    let budget = Section {
        title: None,
        rows: vec![budget(snapshot)],
        least: 1,
    };
    if body.width >= TWO_COLUMNS_WIDTH {
        let [left, _, right] = Layout::horizontal([
            Constraint::Fill(1),
            Constraint::Length(GAP_WIDTH),
            Constraint::Fill(1),
        ])
        .areas(body);
        column(frame, left, &[rates, budget, answers]);
        column(frame, right, &[drops, source_status, clients]);
    } else {
        let under = [
            answers.height().saturating_add(drops.height()),
            source_status.height().saturating_add(clients.height()),
        ];
        let under = under.into_iter().max();
        let above = [&rates, &budget];
        let [above_height, _] = share(
            [
                (
                    above.iter().map(|section| section.least).sum(),
                    above.iter().map(|section| section.height()).sum(),
                ),
                (6, under.unwrap_or(0)),
            ],
            body.height,
        );
        let [above, under] =
            Layout::vertical([Constraint::Length(above_height), Constraint::Fill(1)]).areas(body);
        column(frame, above, &[rates, budget]);
        let [left, _, right] = Layout::horizontal([
            Constraint::Fill(1),
            Constraint::Length(GAP_WIDTH),
            Constraint::Fill(1),
        ])
        .areas(under);
        column(frame, left, &[answers, drops]);
        column(frame, right, &[source_status, clients]);
    }
    if view.has_help {
        draw_help(frame, area);
    }
}

pub(in crate::command) fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

pub(in crate::command) fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

/// Aligns two texts at both ends of a line. If they do not fit, the left one is cut.
pub(in crate::command) fn both_ends(
    left: Vec<Span<'static>>,
    right: Span<'static>,
    width: u16,
) -> Line<'static> {
    let mut spans = Vec::new();
    let mut room = usize::from(width).saturating_sub(right.content.width() + 1);
    for span in left {
        let text = if span.content.width() > room {
            line(&span.content, room)
        } else {
            span.content.into_owned()
        };
        room -= text.width().min(room);
        spans.push(Span::styled(text, span.style));
        if room == 0 {
            break;
        }
    }
    spans.push(Span::raw(" ".repeat(room + 1)));
    spans.push(right);
    Line::from(spans)
}

fn process(snapshot: &Snapshot, view: &View<'_>, width: u16) -> Line<'static> {
    let words = [
        format!(" {}", line(&snapshot.version, 20)),
        format!("process {}", snapshot.pid),
        format!("up {}", since(snapshot.uptime_s)),
        count(snapshot.workers, "worker"),
        match snapshot.relay.sessions_max {
            0 => String::new(),
            _ => count(snapshot.relay.sessions, "relay session"),
        },
    ];
    let words = words
        .into_iter()
        .filter(|words| !words.is_empty())
        .collect::<Vec<_>>()
        .join(", ");
    let right = match view.link {
        Link::Lost(seconds, _) => Span::styled(
            format!("lost for {}", since(*seconds as f64)),
            bold().fg(Color::Red),
        ),
        Link::Live if view.is_paused => Span::styled("paused", bold().fg(Color::Yellow)),
        Link::Live => Span::styled("live", Style::new().fg(Color::Green)),
    };
    both_ends(
        vec![Span::styled("hailer serve", bold()), Span::raw(words)],
        right,
        width,
    )
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
            Style::new().add_modifier(Modifier::REVERSED)
        } else {
            dim()
        };
        spans.push(Span::styled(line(name, room), style));
        room = room.saturating_sub(name.width());
    }
    Line::from(spans)
}

fn footer(view: &View<'_>, width: u16) -> Line<'static> {
    let width = usize::from(width);
    match (view.link, view.notice) {
        (Link::Lost(_, why), _) => Line::styled(
            line(&format!("{why}. Retrying every second."), width),
            Style::new().fg(Color::Red),
        ),
        (_, Some(notice)) => Line::styled(line(notice, width), Style::new().fg(Color::Yellow)),
        _ => Line::styled("q quits  Tab listener  p pauses  ? help", dim()),
    }
}

/// Content of one or several lines.
enum ScreenRow {
    Text(Line<'static>),
    /// Name, number, and a chart of recent values.
    Trend {
        name: String,
        number: String,
        series: Vec<f64>,
        color: Color,
    },
    /// Texts at both ends of a line. The left one is cut if necessary.
    Ends(Vec<Span<'static>>, Span<'static>),
    Gauge {
        name: &'static str,
        words: String,
        share: f64,
    },
}

/// Titled rows in order of importance. If there is not enough space, only the first are shown.
struct Section {
    title: Option<String>,
    rows: Vec<ScreenRow>,
    /// Minimum useful height in lines.
    least: u16,
}

impl Section {
    fn new(title: impl Into<String>, rows: Vec<ScreenRow>) -> Self {
        let least = 1 + u16::try_from(rows.len()).unwrap_or(u16::MAX).min(2);
        Self {
            title: Some(title.into()),
            rows,
            least,
        }
    }

    /// Returns the height of all rows and the title, in lines.
    fn height(&self) -> u16 {
        u16::try_from(self.rows.len() + usize::from(self.title.is_some())).unwrap_or(u16::MAX)
    }
}

/// Divides `total` lines: each section first gets its minimum, in turn, then up to its maximum.
/// Without enough lines, the last sections get none.
fn share<const N: usize>(ranges: [(u16, u16); N], total: u16) -> [u16; N] {
    let mut given = [0; N];
    share_out(&ranges, total, &mut given);
    given
}

fn share_out(ranges: &[(u16, u16)], mut left: u16, given: &mut [u16]) {
    for ((least, most), given) in ranges.iter().zip(&mut *given) {
        let least = *least.min(most);
        if least <= left {
            *given = least;
            left -= least;
        }
    }
    while left > 0 {
        let before = left;
        for ((_, most), given) in ranges.iter().zip(&mut *given) {
            if left > 0 && (1..*most).contains(given) {
                *given += 1;
                left -= 1;
            }
        }
        if left == before {
            return;
        }
    }
}

fn column(frame: &mut Frame<'_>, area: Rect, sections: &[Section]) {
    let ranges: Vec<_> = sections
        .iter()
        .map(|section| (section.least, section.height()))
        .collect();
    let mut heights = vec![0; sections.len()];
    share_out(&ranges, area.height, &mut heights);
    let used: u16 = heights.iter().sum();
    // Unused lines make the charts taller.
    let is_trend = |row: &&ScreenRow| matches!(row, ScreenRow::Trend { .. });
    let trends: usize = sections
        .iter()
        .map(|section| section.rows.iter().filter(is_trend).count())
        .sum();
    let spare = usize::from(area.height - used);
    let everything = sections
        .iter()
        .map(|section| usize::from(section.height()))
        .sum::<usize>()
        == usize::from(used);
    let taller = if everything && trends > 0 {
        (spare / trends).min(2) as u16
    } else {
        0
    };
    let mut y = area.y;
    for (section, height) in sections.iter().zip(heights) {
        let mut end = y + height;
        if height > 0
            && let Some(title) = &section.title
        {
            let rule = "─".repeat(usize::from(area.width).saturating_sub(title.width() + 1));
            let title = Line::from(vec![
                Span::styled(format!("{title} "), bold()),
                Span::styled(rule, dim()),
            ]);
            frame.render_widget(
                title,
                Rect {
                    y,
                    height: 1,
                    ..area
                },
            );
            y += 1;
        }
        let names = section.rows.iter().filter_map(|row| match row {
            ScreenRow::Trend { name, .. } => Some((name.width() + 1).min(NAME_WIDTH.into()) as u16),
            _ => None,
        });
        let name_width = names.max().unwrap_or(0).clamp(10, NAME_WIDTH);
        for row in &section.rows {
            let height = if is_trend(&row) { 1 + taller } else { 1 };
            end += height - 1;
            if y >= end {
                break;
            }
            draw_row(frame, Rect { y, height, ..area }, row, name_width);
            y += height;
        }
    }
}

/// Maximum width of a chart's name with a space, in columns.
const NAME_WIDTH: u16 = 24;
/// Width of a chart's number with a space, in columns.
const NUMBER_WIDTH: u16 = 11;

fn draw_row(frame: &mut Frame<'_>, area: Rect, row: &ScreenRow, name_width: u16) {
    let width = usize::from(area.width);
    match row {
        ScreenRow::Text(text) => frame.render_widget(text, area),
        ScreenRow::Ends(left, right) => {
            frame.render_widget(both_ends(left.clone(), right.clone(), area.width), area);
        }
        ScreenRow::Trend {
            name,
            number,
            series,
            color,
        } => {
            let number_width = if area.width < NUMBERS_WIDTH {
                NUMBER_WIDTH - 3
            } else {
                NUMBER_WIDTH
            };
            let text = format!(
                "{}{:>width$}",
                padded(&line(name, usize::from(name_width) - 1), name_width.into()),
                number,
                width = usize::from(number_width) - 1
            );
            frame.render_widget(Line::raw(line(&text, width)), Rect { height: 1, ..area });
            let left = name_width + number_width;
            let Some(room) = area.width.checked_sub(left).filter(|room| *room >= 4) else {
                return;
            };
            let shown = room.min(MAX_RATES as u16);
            // Newest values at the right. In thousandths, since the widget takes integers.
            let data = series.iter().rev().map(|rate| (rate * 1e3) as u64);
            let trend = Sparkline::default()
                .data(data)
                .direction(RenderDirection::RightToLeft);
            let place = Rect {
                x: area.x + left,
                width: shown,
                ..area
            };
            frame.render_widget(trend.style(Style::new().fg(*color)), place);
        }
        ScreenRow::Gauge { name, words, share } => {
            let color = match share {
                ..0.1 => Color::Red,
                ..0.4 => Color::Yellow,
                _ => Color::Green,
            };
            let name = padded(name, 10);
            let words_width = words.width() as u16;
            let shown = area
                .width
                .saturating_sub(10 + words_width + 1)
                .min(MAX_RATES as u16);
            let full = (share.clamp(0.0, 1.0) * f64::from(shown)).round() as usize;
            let bar = Line::from(vec![
                Span::raw(name),
                Span::styled("█".repeat(full), Style::new().fg(color)),
                Span::styled("░".repeat(usize::from(shown) - full), dim()),
            ]);
            frame.render_widget(bar, area);
            let x = area.x + 10 + shown + 1;
            let place = Rect {
                x,
                width: (area.x + area.width).saturating_sub(x),
                ..area
            };
            frame.render_widget(Line::raw(words.clone()), place);
        }
    }
}

fn per_second(text: &str) -> String {
    format!("{text}/s")
}

fn trend(name: &str, series: Vec<f64>, words: fn(f64) -> String, color: Color) -> ScreenRow {
    let number = series
        .last()
        .map_or_else(|| "…".into(), |last| per_second(&words(*last)));
    ScreenRow::Trend {
        name: name.into(),
        number,
        series,
        color,
    }
}

fn rates(history: &History, listener: Option<&str>, all: &Counts) -> Section {
    type Counter = fn(&Counts) -> u64;
    let of = |name, counter: Counter, words, color| {
        trend(name, history.rates(listener, counter), words, color)
    };
    let mut rows = vec![
        of("received", |counts| counts.received, rate, Color::Cyan),
        of("answered", |counts| counts.answered, rate, Color::Green),
        of(
            "unverified",
            |counts| counts.unverified,
            rate,
            Color::Yellow,
        ),
        of("dropped", Counts::all_dropped, rate, Color::Red),
        of("bytes out", |counts| counts.sent_bytes, bytes, Color::Blue),
        of(
            "bytes in",
            |counts| counts.received_bytes,
            bytes,
            Color::Blue,
        ),
    ];
    if all.relayed > 0 {
        rows.push(of("relayed", |counts| counts.relayed, rate, Color::Magenta));
        rows.push(of(
            "and back",
            |counts| counts.relayed_back,
            rate,
            Color::Magenta,
        ));
    }
    if all.lost > 0 {
        rows.push(of("lost", |counts| counts.lost, rate, Color::Red));
    }
    let least = 6;
    Section {
        least,
        ..Section::new(
            listener.map_or("all listeners".into(), |address| line(address, 48)),
            rows,
        )
    }
}

fn budget(snapshot: &Snapshot) -> ScreenRow {
    let budget = &snapshot.budget;
    if budget.bytes_per_s == 0 {
        return ScreenRow::Text(Line::from(vec![
            Span::raw(padded("budget", 10)),
            Span::styled("no limit", dim()),
        ]));
    }
    let share = budget.left_bytes as f64 / budget.bytes_per_s as f64;
    let words = format!(
        "{} of {}/s, {} known",
        bytes(budget.left_bytes as f64),
        bytes(budget.bytes_per_s as f64),
        count(budget.networks, "network")
    );
    ScreenRow::Gauge {
        name: "budget",
        words,
        share,
    }
}

fn answers(history: &History, listener: Option<&str>, all: &Counts) -> Section {
    let protocols = all.answers.keys().map(|protocol| {
        let series = history.rates(listener, |counts| counts.of(protocol));
        trend(protocol, series, rate, Color::Green)
    });
    let kinds = all
        .answers
        .iter()
        .flat_map(|(protocol, kinds)| kinds.keys().map(move |kind| (protocol, kind)));
    let kinds = kinds.map(|(protocol, kind)| {
        let of = |counts: &Counts| {
            counts
                .answers
                .get(protocol)
                .and_then(|kinds| kinds.get(kind))
                .copied()
        };
        let series = history.rates(listener, |counts| of(counts).unwrap_or(0));
        let number = series
            .last()
            .map_or_else(|| "…".into(), |last| per_second(&rate(*last)));
        let name = format!("{} {}", line(protocol, 24), line(kind, 24));
        ScreenRow::Ends(vec![Span::styled(name, dim())], Span::styled(number, dim()))
    });
    let rows: Vec<ScreenRow> = protocols.chain(kinds).collect();
    Section::new("answers", or_none(rows, "none yet"))
}

fn or_none(mut rows: Vec<ScreenRow>, words: &'static str) -> Vec<ScreenRow> {
    if rows.is_empty() {
        rows.push(ScreenRow::Text(Line::styled(words, dim())));
    }
    rows
}

fn drops(history: &History, listener: Option<&str>, all: &Counts, width: u16) -> Section {
    let of = |key: &str| {
        let series = history.rates(listener, |counts| {
            counts.dropped.get(key).copied().unwrap_or(0)
        });
        series.last().copied().unwrap_or(0.0)
    };
    let dropped = all.dropped.iter().filter(|(_, count)| **count > 0);
    let mut dropped: Vec<_> = dropped.map(|(key, count)| (of(key), *count, key)).collect();
    dropped.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    let rows = dropped.into_iter().map(|(now, count, key)| {
        let name = line(key, 24);
        let words = in_words(key);
        let style = if now > 0.0 {
            Style::new().fg(Color::Red)
        } else {
            Style::new()
        };
        let numbers = format!("{:>7} {:>7}", per_second(&rate(now)), rate(count as f64));
        let words = (width >= WORDS_WIDTH && words != key)
            .then(|| Span::styled(format!("  {words}"), dim()));
        ScreenRow::Ends(
            [Some(Span::styled(name, style)), words]
                .into_iter()
                .flatten()
                .collect(),
            Span::raw(numbers),
        )
    });
    Section::new("dropped", or_none(rows.collect(), "nothing"))
}

fn source_status(snapshot: &Snapshot) -> Section {
    let mut sources: Vec<_> = snapshot.sources.iter().collect();
    // Sources with problems first.
    sources.sort_by_key(|source| std::cmp::Reverse(source.state as u8));
    let color = |state: State| match state {
        State::Fresh => Color::Green,
        State::Stale => Color::Yellow,
        State::Silent | State::Never => Color::Red,
    };
    let rows = sources.into_iter().flat_map(|source| {
        let words = match source.age_s {
            None => state(source.state).to_owned(),
            Some(age) if source.state == State::Fresh => since(age),
            Some(age) => format!("{}, {}", source.state.name(), since(age)),
        };
        let name = vec![
            Span::raw(line(&source.name, 40)),
            Span::styled(format!(" {}", line(&source.kind, 12)), dim()),
        ];
        let age = Span::styled(words, Style::new().fg(color(source.state)));
        let last_error = source.last_error.as_deref().map(|error| {
            ScreenRow::Ends(
                vec![Span::styled(format!("  {}", line(error, 200)), dim())],
                Span::raw(""),
            )
        });
        std::iter::once(ScreenRow::Ends(name, age)).chain(last_error)
    });
    Section::new("sources", or_none(rows.collect(), "no sources"))
}

fn clients(snapshot: &Snapshot, width: u16) -> Section {
    let rows = snapshot.top.iter().map(|top| {
        let mut numbers = format!("{:>7}", per_second(&rate(top.packets_per_s)));
        if width >= NUMBERS_WIDTH {
            numbers += &format!(" {:>7}", per_second(&rate(top.replies_per_s)));
        }
        if width >= WORDS_WIDTH {
            let received = bytes(top.bytes_per_s);
            let sent = bytes(top.reply_bytes_per_s);
            numbers += &format!(" {:>9} {:>9}", per_second(&received), per_second(&sent));
        }
        // More than half of the datagrams got no reply.
        let is_mostly_unanswered = top.packets_per_s > 2.0 * top.replies_per_s;
        let style = if is_mostly_unanswered {
            Style::new().fg(Color::Red)
        } else {
            Style::new()
        };
        ScreenRow::Ends(
            vec![Span::styled(line(&top.prefix, 48), style)],
            Span::raw(numbers),
        )
    });
    let title = match width {
        WORDS_WIDTH.. => "busiest clients: received, answered, in, out",
        NUMBERS_WIDTH.. => "busiest clients: received",
        _ => "busiest clients",
    };
    Section::new(title, or_none(rows.collect(), "none"))
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let row = |(name, words): &(&str, &str)| {
        Line::from(vec![
            Span::styled(padded(name, 11), bold()),
            Span::raw((*words).to_owned()),
        ])
    };
    let lines: Vec<Line<'_>> = KEYS.iter().chain(TERMS).map(row).collect();
    let height = (lines.len() as u16 + 2).min(area.height);
    let width = 60.min(area.width);
    let place = Rect {
        x: (area.width - width) / 2,
        y: (area.height - height) / 2,
        width,
        height,
    };
    frame.render_widget(Clear, place);
    frame.render_widget(Block::bordered().title(" hailer top "), place);
    frame.render_widget(
        Paragraph::new(lines),
        place.inner(Margin {
            horizontal: 2,
            vertical: 1,
        }),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::simulated;
    use crate::observe::snapshot::Source;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn history(seconds: u32) -> History {
        let mut history = History::default();
        (0..=seconds).for_each(|second| {
            assert_eq!(history.push(simulated::snapshot(f64::from(second))), None);
        });
        history
    }

    fn plain(history: &History) -> View<'_> {
        View {
            history,
            chosen: 0,
            is_paused: false,
            has_help: false,
            link: &Link::Live,
            notice: None,
        }
    }

    fn shown(view: &View<'_>, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| {
            (0..width)
                .map(|x| buffer[(x, y)].symbol())
                .collect::<String>()
        };
        (0..height)
            .map(|y| format!("{}\n", row(y).trim_end()))
            .collect()
    }

    #[test]
    fn every_size_shows_what_matters() {
        let history = history(100);
        for (width, height) in [
            (60, 16),
            (80, 24),
            (99, 30),
            (100, 24),
            (120, 40),
            (200, 60),
        ] {
            let screen = shown(&plain(&history), width, height);
            for expected in [
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
            ] {
                assert!(
                    screen.contains(expected),
                    "{width}x{height}: {expected}\n{screen}"
                );
            }
            // The simulated server is queried all the time, so the chart is not empty.
            assert!(screen.lines().any(|line| line.starts_with("received") && line.contains(['▅', '▆', '▇', '█'])));
        }
        let wide = shown(&plain(&history), 120, 40);
        for expected in [
            "over the limit for replies",
            "Redis at 127.0.0.1:6379",
            "onequery unverified",
            "relayed",
        ] {
            assert!(wide.contains(expected), "{expected}\n{wide}");
        }
    }

    #[test]
    fn no_size_and_no_content_is_too_odd() {
        let full = history(100);
        let mut odd = History::default();
        let mut snapshot = simulated::snapshot(1.0);
        let long = "名前\u{1b}[2J\n\u{301}".repeat(20);
        snapshot.listeners[0].address.clone_from(&long);
        snapshot.version.clone_from(&long);
        snapshot.sources = vec![
            Source {
                name: long.clone(),
                last_error: Some(long.clone()),
                ..Source::default()
            };
            50
        ];
        snapshot.top[0].prefix.clone_from(&long);
        snapshot.top[0].packets_per_s = f64::MAX;
        snapshot.budget.left_bytes = u64::MAX;
        odd.push(snapshot);
        let mut empty = History::default();
        empty.push(Snapshot::default());
        for history in [&full, &odd, &empty, &History::default()] {
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
                    let screen = shown(
                        &View {
                            chosen,
                            has_help,
                            ..plain(history)
                        },
                        width,
                        height,
                    );
                    assert!(!screen.contains('\u{1b}'), "{screen:?}");
                }
            }
        }
        assert!(shown(&plain(&full), 29, 20).contains("too small"));
    }

    #[test]
    fn one_listener_alone() {
        let history = history(100);
        let screen = shown(
            &View {
                chosen: 3,
                ..plain(&history)
            },
            80,
            24,
        );
        assert!(
            screen.contains("0.0.0.0:22000 ──") && screen.contains("ugp"),
            "{screen}"
        );
        assert!(
            !screen.contains("minecraft-query") && !screen.contains("relayed"),
            "{screen}"
        );
        // In a narrow terminal, the selected listener stays visible.
        let screen = shown(
            &View {
                chosen: 3,
                ..plain(&history)
            },
            40,
            20,
        );
        assert!(
            screen.lines().nth(1).unwrap().contains("0.0.0.0:22000"),
            "{screen}"
        );
    }

    #[test]
    fn shows_events() {
        let history = history(10);
        let lost = Link::Lost(5, "hailer serve has ended".into());
        let screen = shown(
            &View {
                link: &lost,
                ..plain(&history)
            },
            80,
            24,
        );
        assert!(
            screen.contains("lost for 5s") && screen.contains("has ended. Retrying"),
            "{screen}"
        );
        let screen = shown(
            &View {
                is_paused: true,
                notice: Some("it restarted"),
                ..plain(&history)
            },
            80,
            24,
        );
        assert!(
            screen.contains("paused") && screen.contains("it restarted"),
            "{screen}"
        );
        let screen = shown(
            &View {
                has_help: true,
                ..plain(&history)
            },
            60,
            16,
        );
        assert!(
            screen.contains("select a listener") && screen.contains("can be forged"),
            "{screen}"
        );
    }

    #[test]
    fn lines_are_shared_by_need() {
        assert_eq!(share([(2, 5), (2, 9)], 20), [5, 9]);
        assert_eq!(share([(2, 5), (2, 9)], 9), [5, 4]);
        assert_eq!(share([(2, 5), (2, 9)], 3), [3, 0]);
        assert_eq!(share([(4, 5), (2, 2)], 3), [0, 2]);
    }
}
