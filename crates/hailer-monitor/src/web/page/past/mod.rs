//! History of one server: charts, events and sessions.

use crate::history::{Gap, HistoryError, Level, PlayerSession, Point, page_start};
use crate::sample::{Event, EventKind, Millis, ValueChange, millis};
use crate::server::ServerId;
use crate::state::find::{MAX_SEARCH_CHARS, SearchTerms, natural};
use crate::uptime::{Uptime, sample_length_ms};
use crate::web::App;
use crate::web::chart::{Chart, ChartStyle, Svg};
use crate::web::page::row::Time;
use crate::web::show::{self, NOTHING, ShortText};
use compact_str::CompactString;
use hailer::proto::model::PLAYER_MEMBERS;
use hailer::proto::wire::counted;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

/// Maximum number of events and of sessions shown.
const MAX_EVENTS: u32 = 50;
const MAX_SESSIONS: u32 = 100;
/// Maximum number read when they are searched or sorted differently.
const MAX_EVENTS_READ: u32 = 5_000;
/// Maximum number of samples, of all servers together, read for a chart.
const MAX_CHART_SAMPLES: Millis = 300_000;
const MINUTE: Millis = 60_000;
/// Time limit of the history queries. The page is useful without them.
const HISTORY_TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum length of an event's text, and of a player name, in characters.
const MAX_TEXT_CHARS: usize = 120;
const MAX_NAME_CHARS: usize = 40;

/// Keyword of gaps in lists of events.
pub(super) const GAP: &str = "gap";

/// Time range of the charts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Range {
    Hour,
    #[default]
    Day,
    Week,
    Month,
    Year,
}

impl Range {
    pub(crate) const ALL: [Self; 5] = [Self::Hour, Self::Day, Self::Week, Self::Month, Self::Year];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Hour => "1h",
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Month => "30d",
            Self::Year => "1y",
        }
    }

    /// Returns the level to read, the length of a bucket in milliseconds, and the number of
    /// buckets. `interval`: polling interval, in milliseconds.
    fn buckets(self, interval: Millis) -> (Level, Millis, usize) {
        let of = |level: Level, each: Millis, count| (level, level.length() * each, count);
        match self {
            // At least two samples per bucket, since polls are not evenly spaced: gaps would
            // suggest failures.
            Self::Hour => {
                let steps = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30];
                let step = steps
                    .into_iter()
                    .find(|minutes| minutes * MINUTE >= 2 * interval)
                    .unwrap_or(60);
                (Level::Raw, step * MINUTE, (60 / step) as usize)
            }
            Self::Day => of(Level::FiveMinutes, 1, 288),
            Self::Week => of(Level::Hour, 1, 168),
            Self::Month => of(Level::Hour, 2, 360),
            Self::Year => of(Level::Day, 1, 365),
        }
    }

    /// Whether the range is offered. Samples are stored by time, so an hour of one server is read
    /// together with that of all others.
    pub(crate) fn is_cheap(self, app: &App) -> bool {
        let samples = 60 * MINUTE / interval_of(app).max(1_000);
        self != Self::Hour || samples.saturating_mul(app.live.len() as Millis) <= MAX_CHART_SAMPLES
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Hour => "1 hour",
            Self::Day => "24 hours",
            Self::Week => "7 days",
            Self::Month => "30 days",
            Self::Year => "1 year",
        }
    }
}

/// Order of sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Order {
    /// Sessions that were seen latest come first.
    #[default]
    From,
    /// By player name.
    Player,
    /// Players with the longest time come first.
    Played,
}

impl Order {
    pub(crate) const ALL: [Self; 3] = [Self::Player, Self::From, Self::Played];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::From => "from",
            Self::Player => "player",
            Self::Played => "played",
        }
    }
}

/// Order of the players online.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PlayerOrder {
    /// As the server lists them.
    #[default]
    Server,
    /// By name.
    Name,
    /// By the member with this key: the highest number first, texts in alphabetical order.
    Member(&'static str),
}

impl PlayerOrder {
    /// Returns the order with this word. Unknown words are the order of the server.
    fn of(word: &str) -> Self {
        let member = || PLAYER_MEMBERS.iter().find(|member| member.key == word);
        match word {
            "name" => Self::Name,
            _ => member().map_or(Self::Server, |member| Self::Member(member.key)),
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Name => "name",
            Self::Member(key) => key,
        }
    }
}

/// Parameters of the page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HistoryQuery {
    /// `None`: 24 hours, or less for a new server.
    pub(crate) range: Option<Range>,
    pub(crate) order: Order,
    pub(crate) who: PlayerOrder,
    /// Search as typed; all words must match.
    pub(crate) find: String,
}

impl HistoryQuery {
    /// Parses a URL query. Unknown parts are ignored.
    pub(crate) fn read(query: &str) -> Self {
        let mut wanted = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "range" => {
                    wanted.range = Range::ALL.into_iter().find(|range| range.word() == value);
                }
                "sessions" => {
                    wanted.order = Order::ALL
                        .into_iter()
                        .find(|order| order.word() == value)
                        .unwrap_or_default();
                }
                "who" => wanted.who = PlayerOrder::of(&value),
                "find" => wanted.find = value.trim().chars().take(MAX_SEARCH_CHARS).collect(),
                _ => {}
            }
        }
        wanted
    }

    /// Returns the URL query with `?`, or an empty text for default values.
    pub(crate) fn query(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (key, word, is_usual) in [
            (
                "range",
                self.range.unwrap_or_default().word(),
                self.range.is_none(),
            ),
            (
                "sessions",
                self.order.word(),
                self.order == Order::default(),
            ),
            ("who", self.who.word(), self.who == PlayerOrder::default()),
            ("find", &self.find, self.find.is_empty()),
        ] {
            if !is_usual {
                query.append_pair(key, word);
            }
        }
        let query = query.finish();
        if query.is_empty() {
            query
        } else {
            format!("?{query}")
        }
    }
}

/// History of one server.
#[derive(Default)]
pub(crate) struct HistoryView {
    /// Time range of the charts.
    pub(crate) range: Range,
    /// Why nothing can be shown.
    pub(crate) problem: Option<String>,
    /// Start of the recording, if it is later than the start of the charts.
    pub(crate) begins: Option<String>,
    pub(crate) charts: Vec<ChartView>,
    pub(crate) events: Vec<EventView>,
    pub(crate) sessions: Vec<SessionView>,
    /// Whether there are events and sessions, even if the search hides all of them.
    pub(crate) has_events: bool,
    pub(crate) has_sessions: bool,
}

/// A chart with its summary.
pub(crate) struct ChartView {
    pub(crate) title: &'static str,
    pub(crate) summary: String,
    pub(crate) svg: Svg,
}

/// An event, as the page shows it.
pub(crate) struct EventView {
    pub(crate) word: &'static str,
    pub(crate) at_ms: Millis,
    pub(crate) at: Time,
    pub(crate) what: &'static str,
    pub(crate) text: ShortText,
}

/// A session of a player, as the page shows it.
pub(crate) struct SessionView {
    pub(crate) player: ShortText,
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) played: String,
}

impl HistoryView {
    /// Reads the history. On an error, the page shows a message and the rest. `online`: players
    /// online now.
    pub(crate) async fn of(
        app: &App,
        server: ServerId,
        online: &[CompactString],
        wanted: &HistoryQuery,
        now: Millis,
    ) -> Self {
        let range = wanted.range.unwrap_or_default();
        let range = if range.is_cheap(app) {
            range
        } else {
            Range::Day
        };
        let terms = SearchTerms::of(&wanted.find);
        let read = Self::read(app, server, range, wanted, &terms, now);
        // The log of the monitor has the error; pages are public.
        let Ok(Ok((data, events, gaps, sessions))) =
            tokio::time::timeout(HISTORY_TIMEOUT, read).await
        else {
            let problem =
                "The history cannot be read at the moment. The page shows the current state only.";
            return Self {
                range,
                problem: Some(problem.into()),
                ..Self::default()
            };
        };
        let day_uptime = app
            .live
            .row(server)
            .and_then(|row| row.day.uptime(now))
            .map(f64::from);
        let has_sessions = !sessions.is_empty();
        let mut sessions = continue_sessions(sessions, online, now);
        sessions.retain(|(session, _)| terms.are_in_one_of(&[&session.player]));
        match wanted.order {
            Order::From => {}
            Order::Player => sessions.sort_by(|(a, _), (b, _)| natural(&a.player, &b.player)),
            Order::Played => sessions.sort_by_key(|(session, _)| session.first - session.last),
        }
        Self {
            range: data.range,
            problem: None,
            begins: data.late_start().map(|at| show::time(at, now)),
            charts: data.charts(day_uptime, now),
            events: with_gaps(&events, &gaps, now)
                .filter(|event| terms.are_in_one_of(&[event.what, &event.text.text]))
                .take(MAX_EVENTS as usize)
                .collect(),
            sessions: sessions
                .iter()
                .take(MAX_SESSIONS as usize)
                .map(|(session, is_open)| SessionView::of(session, *is_open, now))
                .collect(),
            has_events: !events.is_empty(),
            has_sessions,
        }
    }

    async fn read(
        app: &App,
        server: ServerId,
        range: Range,
        wanted: &HistoryQuery,
        terms: &SearchTerms,
        now: Millis,
    ) -> Result<(ChartData, Vec<Event>, Vec<Gap>, Vec<PlayerSession>), HistoryError> {
        let events = if terms.is_empty() {
            MAX_EVENTS
        } else {
            MAX_EVENTS_READ
        };
        let sessions = if !app.has_player_names {
            0
        } else if terms.is_empty() && wanted.order == Order::From {
            MAX_SESSIONS
        } else {
            MAX_EVENTS_READ
        };
        let events = async {
            let events = app.history.events(Some(server), now + 1, events).await?;
            let start = page_start(&events, true, Some(server), now);
            let gaps = app.history.gaps(start, now, shortest_interval(app)).await?;
            Ok((events, gaps))
        };
        let (data, (events, gaps), sessions) = tokio::try_join!(
            ChartData::read(app, server, range, wanted.range.is_none(), now),
            events,
            app.history.sessions(server, now + 1, sessions),
        )?;
        Ok((data, events, gaps, sessions))
    }
}

/// Returns events with the gaps between them, the newest first.
fn with_gaps<'a>(
    events: &'a [Event],
    gaps: &'a [Gap],
    now: Millis,
) -> impl Iterator<Item = EventView> + 'a {
    let mut gaps = gaps.iter().peekable();
    let mut events = events.iter().peekable();
    std::iter::from_fn(move || {
        let at = events.peek().map(|event| event.at);
        match gaps.next_if(|gap| at.is_none_or(|at| gap.from >= at)) {
            Some(gap) => Some(EventView::of_gap(*gap, now)),
            None => events.next().map(|event| EventView::of(event, now)),
        }
    })
}

/// Returns the sessions, and whether each continues: the newest one of a player who is online. Its
/// stored end is outdated and becomes `now`.
fn continue_sessions(
    sessions: Vec<PlayerSession>,
    online: &[CompactString],
    now: Millis,
) -> Vec<(PlayerSession, bool)> {
    let online: HashSet<&str> = online.iter().map(CompactString::as_str).collect();
    let mut seen = HashSet::new();
    let with_end = |mut session: PlayerSession| {
        let is_newest = seen.insert(session.player.clone());
        let is_open = is_newest && online.contains(&*session.player);
        if is_open {
            session.last = now;
        }
        (session, is_open)
    };
    sessions.into_iter().map(with_end).collect()
}

/// Default polling interval, in milliseconds.
fn interval_of(app: &App) -> Millis {
    app.api
        .as_ref()
        .map_or(MINUTE, |api| millis(api.interval()))
}

/// Shortest polling interval of all servers, in milliseconds.
pub(super) fn shortest_interval(app: &App) -> Millis {
    let usual = interval_of(app);
    let shortest = app
        .live
        .shortest_interval(Duration::from_millis(usual.unsigned_abs()));
    shortest.map_or(usual, millis)
}

/// Data of the charts.
struct ChartData {
    range: Range,
    level: Level,
    from: Millis,
    step: Millis,
    count: usize,
    points: Vec<Point>,
}

impl ChartData {
    /// `may_be_less`: show the last hour for a server that was added recently.
    async fn read(
        app: &App,
        server: ServerId,
        range: Range,
        may_be_less: bool,
        now: Millis,
    ) -> Result<Self, HistoryError> {
        let read = async |range: Range| {
            let own = app.live.row(server).and_then(|row| row.server.interval);
            let interval = own.map_or_else(|| interval_of(app), millis);
            let (level, step, count) = range.buckets(interval);
            let to = now.div_euclid(step) * step + step;
            let from = to - step * count as Millis;
            let points = app.history.series(server, from, to, level).await?;
            Ok(Self {
                range,
                level,
                from,
                step,
                count,
                points,
            })
        };
        let whole = read(range).await?;
        let is_new = whole
            .points
            .first()
            .is_none_or(|first| first.at > now - 50 * MINUTE);
        if may_be_less && is_new && Range::Hour.is_cheap(app) {
            read(Range::Hour).await
        } else {
            Ok(whole)
        }
    }

    /// Returns the start of the recording, if it is later than the start of the charts.
    fn late_start(&self) -> Option<Millis> {
        let first = self.points.first()?.at;
        (first - self.from > 2 * self.step).then_some(first)
    }

    /// `day_uptime`: the uptime of the last day as the rest of the page shows it.
    fn charts(&self, day_uptime: Option<f64>, now: Millis) -> Vec<ChartView> {
        if self.points.is_empty() {
            return Vec::new();
        }
        let buckets = Buckets::of(&self.points, self.level, self.from, self.step, self.count);
        let whole = buckets.whole();
        let uptime = match self.range {
            Range::Day => day_uptime.or_else(|| whole.uptime()),
            _ => whole.uptime(),
        };
        [
            Plot::players(&whole),
            Plot::latency(&whole),
            Plot::uptime(uptime),
        ]
        .map(|plot| buckets.draw(plot, self.range, now))
        .into()
    }
}

/// Points at their bucket.
struct Buckets {
    from: Millis,
    step: Millis,
    sums: Vec<BucketSum>,
}

/// Sum of the points of a bucket.
#[derive(Clone, Copy, Default)]
struct BucketSum {
    polls: u64,
    answered: u64,
    uptime: Uptime,
    /// Sums of means, weighted by the number of answers.
    players: f64,
    counted: u64,
    players_max: Option<u32>,
    latency: f64,
    timed: u64,
    latency_max: Option<u32>,
    sent: u64,
    resent: u64,
}

impl BucketSum {
    /// Adds a point that stands for `length_ms` milliseconds.
    fn add(&mut self, point: &Point, length_ms: Millis) {
        // A point has the number of answers, but not how many of them contained each value; nearly
        // all did.
        let weight = u64::from(point.answered.max(1));
        self.polls += u64::from(point.polls);
        self.answered += u64::from(point.answered);
        match (point.observed_ms, point.up_ms) {
            (Some(observed), Some(up)) => self.uptime.add_times(observed, up),
            _ => self
                .uptime
                .add(length_ms, point.polls.into(), point.answered.into()),
        }
        if let Some(players) = point.players {
            self.players += players * weight as f64;
            self.counted += weight;
        }
        if let Some(latency) = point.latency {
            self.latency += f64::from(latency) * weight as f64;
            self.timed += weight;
        }
        self.players_max = self.players_max.max(point.players_max);
        self.latency_max = self.latency_max.max(point.latency_max);
        self.sent += u64::from(point.sent);
        self.resent += u64::from(point.resent);
    }

    fn players(&self) -> Option<f64> {
        (self.counted > 0).then(|| self.players / self.counted as f64)
    }

    /// Returns the mean latency, in milliseconds.
    fn latency(&self) -> Option<f64> {
        (self.timed > 0).then(|| self.latency / self.timed as f64 / 1e3)
    }

    fn uptime(&self) -> Option<f64> {
        self.uptime.share()
    }
}

impl Buckets {
    fn of(points: &[Point], level: Level, from: Millis, step: Millis, count: usize) -> Self {
        let mut sums = vec![BucketSum::default(); count];
        let mut previous = None;
        for point in points {
            let length_ms = match level {
                Level::Raw => sample_length_ms(point.observed_ms, previous, point.at),
                _ => level.length(),
            };
            previous = Some(point.at);
            let place = usize::try_from((point.at - from).div_euclid(step)).ok();
            if let Some(sum) = place.and_then(|place| sums.get_mut(place)) {
                sum.add(point, length_ms);
            }
        }
        Self { from, step, sums }
    }

    /// Sum over all buckets.
    fn whole(&self) -> BucketSum {
        let mut whole = BucketSum::default();
        for sum in &self.sums {
            whole.polls += sum.polls;
            whole.answered += sum.answered;
            whole.uptime.merge(sum.uptime);
            whole.players += sum.players;
            whole.counted += sum.counted;
            whole.latency += sum.latency;
            whole.timed += sum.timed;
            whole.players_max = whole.players_max.max(sum.players_max);
            whole.latency_max = whole.latency_max.max(sum.latency_max);
            whole.sent += sum.sent;
            whole.resent += sum.resent;
        }
        whole
    }

    fn draw(&self, plot: Plot, range: Range, now: Millis) -> ChartView {
        let Plot { title, summary, .. } = plot;
        let values_of =
            |value: fn(&BucketSum) -> Option<f64>| self.sums.iter().map(value).collect();
        let values: Vec<_> = values_of(plot.mean);
        let highest: Vec<_> = plot.highest.map(values_of).unwrap_or_default();
        let words = |bucket: usize| match self.sums.get(bucket) {
            Some(sum) if sum.polls > 0 => (plot.words)(sum),
            _ => String::new(),
        };
        let chart = Chart {
            label: &format!("{title}, last {}: {summary}", range.text()),
            from: self.from,
            step: self.step,
            values: &values,
            highest: &highest,
            words: &words,
            axis: &plot.axis,
            style: plot.style,
            now,
        };
        ChartView {
            title,
            svg: chart.draw(),
            summary,
        }
    }
}

/// Content of a chart.
struct Plot {
    title: &'static str,
    /// Figures of the whole time range.
    summary: String,
    style: ChartStyle,
    /// Mean of a bucket.
    mean: fn(&BucketSum) -> Option<f64>,
    /// Maximum of a bucket; `None`: not drawn.
    highest: Option<fn(&BucketSum) -> Option<f64>>,
    /// Text of a bucket in the tooltip.
    words: fn(&BucketSum) -> String,
    /// Formats values at the axis.
    axis: fn(f64) -> String,
}

impl Plot {
    fn players(whole: &BucketSum) -> Self {
        fn players(mean: f64) -> String {
            counted(show::mean(mean), "player")
        }
        let most = whole.players_max.map(|most| show::count(most.into()));
        Self {
            title: "Players",
            summary: format!(
                "mean {} · max. {}",
                or_nothing(whole.players().map(show::mean)),
                or_nothing(most),
            ),
            style: ChartStyle::Area,
            mean: BucketSum::players,
            highest: Some(|sum| sum.players_max.map(f64::from)),
            words: |sum| match (sum.players(), sum.players_max) {
                (Some(mean), Some(most)) if mean.round() < f64::from(most) => {
                    let most = show::count(most.into());
                    format!("{}, max. {most}", players(mean))
                }
                (Some(mean), _) => players(mean),
                (None, _) if sum.answered == 0 => "no answer".into(),
                (None, _) => "unknown".into(),
            },
            axis: show::mean,
        }
    }

    fn latency(whole: &BucketSum) -> Self {
        let mut summary = format!(
            "mean {} · max. {}",
            or_nothing(whole.latency().map(latency_text)),
            or_nothing(whole.latency_max.map(show::latency)),
        );
        if whole.resent > 0 {
            let resent = show::share(whole.resent, whole.sent);
            let _ = write!(summary, " · {resent} of datagrams repeated");
        }
        Self {
            title: "Latency",
            summary,
            style: ChartStyle::Line,
            mean: BucketSum::latency,
            highest: Some(|sum| sum.latency_max.map(|most| f64::from(most) / 1e3)),
            words: |sum| match (sum.latency(), sum.latency_max) {
                (Some(mean), Some(most)) => {
                    format!("{}, max. {}", latency_text(mean), show::latency(most))
                }
                (Some(mean), None) => latency_text(mean),
                (None, _) => "no answer".into(),
            },
            axis: |millis| format!("{}\u{202F}ms", show::mean(millis)),
        }
    }

    fn uptime(uptime: Option<f64>) -> Self {
        Self {
            title: "Uptime",
            summary: or_nothing(uptime.map(show::percent)),
            style: ChartStyle::Share,
            mean: BucketSum::uptime,
            highest: None,
            words: |sum| {
                let uptime = or_nothing(sum.uptime().map(show::percent));
                if sum.answered == sum.polls {
                    return uptime;
                }
                let answered = show::count(sum.answered);
                format!(
                    "{uptime} ({answered} of {} answered)",
                    show::count(sum.polls)
                )
            },
            axis: |share| format!("{:.0}\u{202F}%", share * 100.0),
        }
    }
}

fn or_nothing(text: Option<String>) -> String {
    text.unwrap_or_else(|| NOTHING.into())
}

fn latency_text(millis: f64) -> String {
    show::latency((millis * 1e3).round() as u32)
}

impl EventView {
    pub(crate) fn of_gap(gap: Gap, now: Millis) -> Self {
        let text = format!(
            "no samples until {} ({})",
            show::when(gap.to, gap.from),
            show::length(gap.to - gap.from)
        );
        Self {
            word: GAP,
            at_ms: gap.from,
            at: Time::of(gap.from, now),
            what: "Not monitored",
            text: show::cut(&text, MAX_TEXT_CHARS),
        }
    }

    pub(crate) fn of(event: &Event, now: Millis) -> Self {
        let difference = |what: &ValueChange| {
            let side = |side: &Option<String>| {
                side.as_deref()
                    .filter(|side| !side.trim().is_empty())
                    .unwrap_or(NOTHING)
                    .to_owned()
            };
            show::cut(
                &format!("{} → {}", side(&what.from), side(&what.to)),
                MAX_TEXT_CHARS,
            )
        };
        let (what, text) = match &event.kind {
            EventKind::Up => ("Up", ShortText::default()),
            EventKind::Down { reason } if reason == "silence" => {
                ("Down", show::cut("no answer", MAX_TEXT_CHARS))
            }
            EventKind::Down { reason } => {
                ("Down", show::cut(&reason.replace('-', " "), MAX_TEXT_CHARS))
            }
            EventKind::Flapping => (
                "Flapping",
                show::cut(
                    "alternates between up and down; only times of 3 min or more are listed",
                    MAX_TEXT_CHARS,
                ),
            ),
            EventKind::Steady => ("Stable again", ShortText::default()),
            EventKind::Version(what) => ("Version", difference(what)),
            EventKind::Map(what) => ("Map", difference(what)),
            EventKind::Motd(what) => ("MOTD", difference(what)),
            EventKind::Address(what) => ("Address", difference(what)),
            EventKind::Protocol(what) => ("Protocol", difference(what)),
        };
        Self {
            word: event.kind.word(),
            at_ms: event.at,
            at: Time::of(event.at, now),
            what,
            text,
        }
    }
}

impl SessionView {
    fn of(session: &PlayerSession, is_open: bool, now: Millis) -> Self {
        Self {
            player: show::cut(&session.player, MAX_NAME_CHARS),
            from: show::when(session.first, now),
            to: if is_open {
                "now".into()
            } else {
                show::when(session.last, now)
            },
            played: show::length(session.last - session.first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_find_their_places() {
        let point = |at, answered, players| Point {
            at,
            polls: 10,
            answered,
            players: Some(players),
            players_max: Some(players as u32 + 1),
            ..Point::default()
        };
        let points = [
            point(-1, 10, 99.0),
            point(0, 10, 4.0),
            point(50, 5, 1.0),
            point(199, 0, 0.0),
            point(200, 10, 99.0),
        ];
        let buckets = Buckets::of(&points, Level::FiveMinutes, 0, 100, 2);
        assert_eq!(
            (buckets.sums[0].players(), buckets.sums[0].uptime()),
            (Some(3.0), Some(0.75))
        );
        assert_eq!(
            (buckets.sums[0].players_max, buckets.sums[1].uptime()),
            (Some(5), Some(0.0))
        );
        assert_eq!(buckets.whole().polls, 30);
    }

    #[test]
    fn ranges_are_words_of_the_address() {
        for range in Range::ALL {
            for order in Order::ALL {
                for (who, find) in [("", ""), ("name", "a & b"), ("score", "")] {
                    let wanted = HistoryQuery {
                        range: Some(range),
                        order,
                        who: PlayerOrder::of(who),
                        find: find.into(),
                    };
                    assert_eq!(
                        HistoryQuery::read(wanted.query().trim_start_matches('?')),
                        wanted
                    );
                }
            }
            let (_, step, count) = range.buckets(MINUTE);
            let hours = [1, 24, 7 * 24, 30 * 24, 365 * 24][range as usize];
            assert_eq!(step * count as Millis, hours * 3_600_000);
        }
        let minutes = |seconds: Millis| Range::Hour.buckets(seconds * 1_000).1 / MINUTE;
        assert_eq!(
            [1, 30, 31, 60, 400, 90_000].map(minutes),
            [1, 1, 2, 2, 15, 60]
        );
        assert_eq!(
            HistoryQuery::read("range=3h&sessions=&x"),
            HistoryQuery::default()
        );
    }
}
