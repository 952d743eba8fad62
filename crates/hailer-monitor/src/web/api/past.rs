//! History of one server or of all: series, events and sessions.

use super::params::{NamedServer, Params};
use super::types::{Events, Series, Session, Sessions};
use super::{Api, ApiConfig, Problem, answer, describe};
use crate::history::{Level, Point, Retention, page_start};
use crate::sample::{Millis, millis, unix_millis};
use crate::server::ServerId;
use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;

/// Maximum number of points of a series.
const MAX_POINTS: i64 = 12_000;
const DEFAULT_POINTS: i64 = 1_000;
/// Maximum number of events or sessions per page.
const MAX_ROWS_PER_PAGE: u32 = 500;
const DEFAULT_ROWS_PER_PAGE: u32 = 100;
/// End of the year 9999, the latest accepted time, in Unix milliseconds.
const MAX_TIME: Millis = 253_402_300_799_999;
/// Maximum number of samples read for one series. Samples are stored by time, so a series of one
/// server reads the samples of all servers.
const MAX_SAMPLES: i64 = 1_000_000;
const MINUTE: Millis = 60_000;
const HOUR: Millis = 60 * MINUTE;

/// Levels of the history, the finest first.
const LEVELS: [(&str, Level); 4] = [
    ("raw", Level::Raw),
    ("5m", Level::FiveMinutes),
    ("1h", Level::Hour),
    ("1d", Level::Day),
];

/// Parameters of a series.
struct Span {
    from: Millis,
    to: Millis,
    level: Level,
    /// Time between two points, in milliseconds.
    step: Millis,
}

/// Parameters of a list that continues with a time.
pub(super) struct Page {
    /// Only entries before this time are listed.
    before: Millis,
    /// Maximum number of entries.
    limit: u32,
}

/// `GET /api/v1/servers/{name}/series`
pub(super) async fn series(
    State(api): State<Api>,
    NamedServer(row): NamedServer,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let config = api.config();
    let step = millis(row.server.interval.unwrap_or(config.interval));
    let span = Span::read(&uri, unix_millis(), step, api.live().len(), config)?;
    let _turn = api.0.queries.acquire().await;
    let points = api
        .history()
        .series(row.server.id, span.from, span.to, span.level)
        .await?;
    Ok(answer::json(&headers, &span.show(points)))
}

/// `GET /api/v1/totals/series`
pub(super) async fn totals(
    State(api): State<Api>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    // The finest level of all servers together has one point per minute.
    let span = Span::read(&uri, unix_millis(), MINUTE, api.live().len(), api.config())?;
    let _turn = api.0.queries.acquire().await;
    let points = api.history().totals(span.from, span.to, span.level).await?;
    Ok(answer::json(&headers, &span.show(points)))
}

/// `GET /api/v1/events`
pub(super) async fn events(
    State(api): State<Api>,
    page: Page,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    all_events(&api, None, page, &headers).await
}

/// `GET /api/v1/servers/{name}/events`
pub(super) async fn events_of(
    State(api): State<Api>,
    NamedServer(row): NamedServer,
    page: Page,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    all_events(&api, Some(row.server.id), page, &headers).await
}

/// `GET /api/v1/servers/{name}/sessions`
pub(super) async fn sessions(
    State(api): State<Api>,
    NamedServer(row): NamedServer,
    Page { before, limit }: Page,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let id = row.server.id;
    let sessions = api.history().sessions(id, before, limit).await?;
    let next = sessions
        .last()
        .filter(|_| sessions.len() >= limit as usize)
        .map(|session| session.first);
    let sessions = sessions.into_iter().map(|session| {
        let duration_s = (session.last - session.first).max(0) as f64 / 1e3;
        Session {
            player: session.player,
            first_seen_ms: session.first,
            last_seen_ms: session.last,
            duration_s,
        }
    });
    Ok(answer::json(
        &headers,
        &Sessions {
            sessions: sessions.collect(),
            next,
        },
    ))
}

async fn all_events(
    api: &Api,
    id: Option<ServerId>,
    Page { before, limit }: Page,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let events = api.history().events(id, before, limit).await?;
    let next = events
        .last()
        .filter(|_| events.len() >= limit as usize)
        .map(|event| event.at);
    let now = unix_millis();
    let usual = api.config().interval;
    let interval = api.live().shortest_interval(usual).unwrap_or(usual);
    let start = page_start(&events, next.is_none(), id, now);
    let gaps = api
        .history()
        .gaps(start, before.min(now), millis(interval))
        .await?;
    let name = |id| api.live().row(id).map(|row| row.server.name.clone());
    let events = events.into_iter().map(|event| {
        let name = name(event.server);
        describe::event(event, name)
    });
    Ok(answer::json(
        headers,
        &Events {
            events: events.collect(),
            gaps,
            next,
        },
    ))
}

impl<S: Send + Sync> FromRequestParts<S> for Page {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut params = Params::read(&parts.uri, &["before", "limit"], &[]);
        let before = params.number("before", 0..=MAX_TIME).unwrap_or(MAX_TIME);
        let limit = params
            .number("limit", 1..=MAX_ROWS_PER_PAGE)
            .unwrap_or(DEFAULT_ROWS_PER_PAGE);
        params.end().map(|()| Self { before, limit })
    }
}

impl Span {
    /// `step`: time between two points of the finest level, in milliseconds; `servers`: number of
    /// servers.
    fn read(
        uri: &Uri,
        now: Millis,
        step: Millis,
        servers: usize,
        config: &ApiConfig,
    ) -> Result<Self, Problem> {
        let mut params = Params::read(uri, &["from", "to", "level", "points"], &[]);
        // Default: end of this minute, so that repeated requests have the same tag.
        let this_minute = (now.div_euclid(MINUTE) + 1) * MINUTE;
        let to = params.number("to", 0..=MAX_TIME).unwrap_or(this_minute);
        let from = params
            .number("from", 0..=MAX_TIME)
            .unwrap_or((to - 24 * HOUR).max(0));
        let most = params
            .number("points", 1..=MAX_POINTS)
            .unwrap_or(DEFAULT_POINTS);
        let wanted = params.word("level", &LEVELS);
        if from >= to {
            params.refuse::<()>("from", "must be before `to`");
        }
        let step_of = |level: Level| {
            if level == Level::Raw {
                step.max(1_000)
            } else {
                level.length()
            }
        };
        let points = |level| (to - from).max(0) / step_of(level) + 1;
        let usual = millis(config.interval).max(1_000);
        let samples = ((to - from).max(0) / usual).saturating_mul(servers as i64);
        let is_cheap = |level| level != Level::Raw || samples <= MAX_SAMPLES;
        let level = match wanted {
            Some(level) if points(level) > MAX_POINTS || !is_cheap(level) => params.refuse(
                "level",
                "too many points; choose a shorter time or a coarser level",
            ),
            Some(level) => Some(level),
            // The finest level that is kept long enough and has few enough points.
            None => {
                let is_kept = |level| now - from <= kept(level, &config.keep);
                let mut levels = LEVELS.iter().map(|(_, level)| *level);
                levels.find(|level| points(*level) <= most && is_cheap(*level) && is_kept(*level))
            }
        };
        let level = level.unwrap_or(Level::Day);
        if points(level) > MAX_POINTS {
            params.refuse::<()>("from", "too early; choose a later time");
        }
        params.end().map(|()| Self {
            from,
            to,
            level,
            step: step_of(level),
        })
    }

    fn show(&self, points: Vec<Point>) -> Series {
        let points = points.into_iter().map(|point| Point {
            players: point.players.map(|mean| (mean * 1e2).round() / 1e2),
            ..point
        });
        // Intervals may have been shorter in the past, which yields more points.
        let points = points.take(MAX_POINTS as usize).collect();
        let level = LEVELS
            .iter()
            .find(|(_, level)| *level == self.level)
            .map_or("raw", |(word, _)| word);
        Series {
            from_ms: self.from,
            to_ms: self.to,
            level: level.into(),
            step_ms: self.step,
            points,
        }
    }
}

fn kept(level: Level, keep: &Retention) -> Millis {
    millis(match level {
        Level::Raw => keep.raw,
        Level::FiveMinutes => keep.five_minutes,
        Level::Hour => keep.hour,
        Level::Day => keep.day,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_finest_level_that_is_kept_and_not_too_much() {
        let now = 1_800_000_000_000;
        let level_of = |query: &str, servers| {
            let uri = format!("/?{query}").parse().unwrap();
            let span = Span::read(&uri, now, MINUTE, servers, &ApiConfig::default());
            span.map(|span| {
                LEVELS
                    .iter()
                    .find(|(_, level)| *level == span.level)
                    .unwrap()
                    .0
            })
            .map_err(|_| ())
        };
        let level = |query: &str| level_of(query, 10);
        let back = |days: i64| format!("from={}", now - days * 24 * HOUR);
        assert_eq!(level("points=1500"), Ok("raw"));
        assert_eq!(
            level(&back(1)),
            Ok("5m"),
            "1,440 samples are more than a chart shows"
        );
        assert_eq!(level(&back(30)), Ok("1h"));
        assert_eq!(level(&back(365)), Ok("1d"));
        assert_eq!(
            level(&format!(
                "{}&to={}&points=12000",
                back(20),
                now - 19 * 24 * HOUR
            )),
            Ok("5m"),
            "raw is gone"
        );
        assert_eq!(level(&format!("{}&level=raw", back(7))), Ok("raw"));
        let hour = format!("from={}", now - HOUR);
        assert_eq!(
            (level_of(&hour, 10_000), level_of(&hour, 100_000)),
            (Ok("raw"), Ok("5m")),
            "others' samples are read too"
        );
        assert_eq!(level_of(&format!("{hour}&level=raw"), 100_000), Err(()));
        for bad in [
            &*format!("{}&level=raw", back(30)),
            "from=5&to=5",
            "level=1w",
            "points=0",
            "from=x",
            "from=0&level=1h",
        ] {
            assert_eq!(level(bad), Err(()), "{bad}");
        }
    }
}
