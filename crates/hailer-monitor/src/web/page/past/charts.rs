//! Charts of players, latency and uptime.

use super::query::Range;
use super::{MINUTE, interval_of};
use crate::history::{HistoryError, Level, Point};
use crate::sample::{Millis, millis};
use crate::server::ServerId;
use crate::uptime::{Uptime, sample_length_ms};
use crate::web::App;
use crate::web::chart::{Chart, ChartStyle, Svg};
use crate::web::show::{self, NOTHING};
use hailer::proto::wire::counted;
use std::fmt::Write as _;

/// A chart with its summary.
pub(crate) struct ChartView {
    pub(crate) title: &'static str,
    pub(crate) summary: String,
    pub(crate) svg: Svg,
}

/// Data of the charts.
pub(super) struct ChartData {
    pub(super) range: Range,
    level: Level,
    from: Millis,
    step: Millis,
    count: usize,
    points: Vec<Point>,
}

impl ChartData {
    /// `may_be_less`: show the last hour for a server that was added recently.
    pub(super) async fn read(
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
    pub(super) fn late_start(&self) -> Option<Millis> {
        let first = self.points.first()?.at;
        (first - self.from > 2 * self.step).then_some(first)
    }

    /// `day_uptime`: the uptime of the last day as the rest of the page shows it.
    pub(super) fn charts(&self, day_uptime: Option<f64>, now: Millis) -> Vec<ChartView> {
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
}
