//! Feed from a running `hailer monitor`: polls its JSON API on a thread, with ETags for unchanged
//! responses.
//!
//! Limits: at most 200,000 servers, 16 MiB for a response, and 10 s for a request.

use super::board::{SamplePoint, ServerHistory, ServerView};
use super::{FeedResult, FeedUpdate, ShownServers};
use crate::exit::usage;
use crate::http_client;
use anyhow::{Context, anyhow, bail};
use hailer::proto::Text;
use hailer_monitor::history::Point;
use hailer_monitor::sample::unix_millis;
use hailer_monitor::sample::{Event, Millis, Sample};
use hailer_monitor::server::{Server, ServerId};
use hailer_monitor::state::LastStatus;
use hailer_monitor::web::api::types::{
    self, Events, ProblemDetails, Series, ServerDetails, Servers,
};
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Number of servers per page.
const SERVERS_PER_PAGE: usize = 500;
/// Maximum number of pages. Together they cover the servers that one monitor process can have.
const MAX_PAGES: usize = 400;
/// Maximum size of a response in bytes.
const MAX_RESPONSE_BYTES: u64 = 16 << 20;
/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time between attempts to reach a monitor.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// Time between requests for the details of one server.
const DETAILS_INTERVAL: Duration = Duration::from_secs(15);
/// Length of the fetched history in milliseconds.
const HISTORY_MS: Millis = 3_600_000;
/// Maximum number of samples: one hour with one per second.
const MAX_POINTS: u32 = 4_000;
/// Minimum time between requests for rows: a fifth of the rate that a monitor allows.
const MIN_REQUEST_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum number of events of one server.
const MAX_EVENTS: usize = 50;

/// HTTP client of a monitor.
pub(super) struct Monitor {
    agent: ureq::Agent,
    /// Base URL without a final slash.
    url: String,
    /// The last pages of the list.
    pages: Vec<Page>,
}

/// Returns the HTTP agent for a monitor, and its URL without a final slash.
///
/// # Errors
/// The URL is invalid.
pub(crate) fn reach(typed: &str, redirects: u32) -> anyhow::Result<(ureq::Agent, String)> {
    let url = if typed.contains("://") {
        typed.to_owned()
    } else {
        format!("http://{typed}")
    };
    let url = url.trim_end_matches('/').to_owned();
    let parsed = url.parse::<ureq::http::Uri>().ok();
    let is_http = |uri: &ureq::http::Uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.query().is_none()
    };
    let Some(uri) = parsed.filter(is_http) else {
        usage!("--monitor {typed}: write the URL of its web page, such as http://127.0.0.1:8080");
    };
    let config = http_client::config(&uri, TIMEOUT)
        .http_status_as_error(false)
        .max_redirects(redirects);
    Ok((config.build().new_agent(), url))
}

/// Describes why a monitor is unreachable.
pub(crate) fn away(url: &str, error: ureq::Error) -> anyhow::Error {
    anyhow!("no monitor at {url}: {}", http_client::words(error))
}

/// A page of the list, stored for responses without changes.
struct Page {
    etag: String,
    ids: Vec<ServerId>,
    next: Option<String>,
}

/// A response. `body` is `None` if it is unchanged.
struct ApiResponse<T> {
    body: Option<T>,
    etag: String,
}

impl Monitor {
    pub(super) fn new(typed: &str) -> anyhow::Result<Self> {
        let (agent, url) = reach(typed, 3)?;
        Ok(Self {
            agent,
            url,
            pages: Vec::new(),
        })
    }

    /// Checks that the monitor is reachable.
    ///
    /// # Errors
    /// The monitor is unreachable, or its reply is invalid.
    pub(super) fn check(mut self) -> anyhow::Result<Self> {
        self.page(0, Some(1), &mut Vec::new())?;
        self.pages.clear();
        Ok(self)
    }

    /// Starts a thread that sends updates until the receiver is dropped.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn listen(
        mut self,
        every: Duration,
        wanted: Receiver<ShownServers>,
        to: mpsc::Sender<FeedResult>,
    ) -> anyhow::Result<()> {
        let body = move || {
            let mut wants = ShownServers::default();
            let mut next = Instant::now();
            let mut next_details = Instant::now();
            let mut known = HashSet::new();
            loop {
                let now = Instant::now();
                if now >= next {
                    let news = self.list().map_err(|error| format!("{error:#}"));
                    let wait = if news.is_ok() { every } else { RETRY_DELAY };
                    if to.blocking_send(news).is_err() {
                        return;
                    }
                    next = Instant::now() + wait;
                }
                if let Some(shown) = wants.detail.as_deref().filter(|_| now >= next_details) {
                    // Only the list decides whether the monitor is reachable.
                    if let Ok(past) = self.past(shown)
                        && to.blocking_send(Ok(FeedUpdate::History(past))).is_err()
                    {
                        return;
                    }
                    next_details = Instant::now() + DETAILS_INTERVAL.max(every);
                }
                // Fetch one row at a time, so that neither the list nor a key has to wait. Do not
                // repeat a failed request.
                let row = wants.rows.iter().find(|(id, _)| known.insert(*id));
                if let Some((server, name)) = row
                    && let Ok(samples) = self.before(name)
                {
                    let server = *server;
                    let before = FeedUpdate::Before { server, samples };
                    if to.blocking_send(Ok(before)).is_err() {
                        return;
                    }
                }
                let mut until = next;
                if wants.detail.is_some() {
                    until = until.min(next_details);
                }
                if row.is_some() {
                    until = until.min(Instant::now() + MIN_REQUEST_INTERVAL);
                }
                match wanted.recv_timeout(until.saturating_duration_since(Instant::now())) {
                    Ok(new) if new.detail != wants.detail => {
                        wants = new;
                        next_details = Instant::now();
                    }
                    Ok(new) => wants = new,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        std::thread::Builder::new()
            .name("monitor".into())
            .spawn(body)
            .context("cannot start a thread")?;
        Ok(())
    }

    /// Fetches the changed pages of the list.
    fn list(&mut self) -> anyhow::Result<FeedUpdate> {
        let mut seen = Vec::new();
        let mut all = Vec::new();
        for number in 0..MAX_PAGES {
            self.page(number, None, &mut seen)?;
            let Some(page) = self.pages.get(number) else {
                break;
            };
            all.extend_from_slice(&page.ids);
            if page.next.is_none() {
                self.pages.truncate(number + 1);
                break;
            }
        }
        Ok(FeedUpdate::Update {
            seen,
            all: Some(all),
            events: Vec::new(),
        })
    }

    fn page(
        &mut self,
        number: usize,
        limit: Option<usize>,
        seen: &mut Vec<ServerView>,
    ) -> anyhow::Result<()> {
        let cursor = number
            .checked_sub(1)
            .and_then(|before| self.pages.get(before)?.next.as_deref());
        let cursor = cursor
            .map(|cursor| format!("&cursor={}", escape(cursor)))
            .unwrap_or_default();
        let path = format!(
            "/api/v1/servers?limit={}{cursor}",
            limit.unwrap_or(SERVERS_PER_PAGE)
        );
        let known = self
            .pages
            .get(number)
            .map(|page| page.etag.clone())
            .filter(|etag| !etag.is_empty());
        let ApiResponse { body, etag } = self.get::<Servers>(&path, known.as_deref())?;
        let Some(Servers { servers, next, .. }) = body else {
            return Ok(());
        };
        let ids = servers.iter().map(|server| server.id).collect();
        // Discard the stored pages after this one: they now start at other servers.
        if self
            .pages
            .get(number)
            .is_some_and(|before| before.next != next)
        {
            self.pages.truncate(number);
        }
        let page = Page { etag, ids, next };
        match self.pages.get_mut(number) {
            Some(place) => *place = page,
            None => self.pages.push(page),
        }
        seen.extend(servers.into_iter().map(self::seen));
        Ok(())
    }

    /// Fetches the history of one server.
    fn past(&self, name: &str) -> anyhow::Result<ServerHistory> {
        let path = format!("/api/v1/servers/{}", escape(name));
        let of = |path: &str| format!("{path}: not found");
        let whole = self
            .get::<ServerDetails<serde_json::Value>>(&path, None)?
            .body
            .with_context(|| of(&path))?;
        let id = whole.server.id;
        let series = self
            .get::<Series>(&format!("{path}/series"), None)?
            .body
            .with_context(|| of("series"))?;
        let events = self
            .get::<Events>(&format!("{path}/events?limit={MAX_EVENTS}"), None)?
            .body
            .with_context(|| of("events"))?;
        let ServerDetails {
            server,
            players,
            last_answer,
            ..
        } = whole;
        let seen = seen(server);
        let mut last_status = seen.last_status.as_deref().cloned().unwrap_or_default();
        last_status.is_whole = !last_status.is_sample
            && seen
                .last
                .and_then(|last| last.players)
                .is_some_and(|on| on as usize == players.len());
        last_status.players = players.into_iter().map(Into::into).collect();
        last_status.answer = last_answer
            .map(|answer| answer.to_string().into_bytes().into())
            .unwrap_or_default();
        let events = events
            .events
            .into_iter()
            .filter_map(|change| event(change, id))
            .collect();
        Ok(ServerHistory {
            server: id,
            samples: samples(series),
            events,
            last_status: Some(Arc::new(last_status)),
        })
    }

    /// Fetches the last hour of samples of one server.
    fn before(&self, name: &str) -> anyhow::Result<Vec<SamplePoint>> {
        let path = format!(
            "/api/v1/servers/{}/series?from={}&points={MAX_POINTS}",
            escape(name),
            unix_millis() - HISTORY_MS
        );
        Ok(self
            .get::<Series>(&path, None)?
            .body
            .map(samples)
            .unwrap_or_default())
    }

    /// Sends one request. `known` is the ETag of the stored response.
    fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        known: Option<&str>,
    ) -> anyhow::Result<ApiResponse<T>> {
        let url = format!("{}{path}", self.url);
        let mut request = self.agent.get(&url).header("Accept", "application/json");
        if let Some(known) = known {
            request = request.header("If-None-Match", known);
        }
        let mut response = request.call().map_err(|error| away(&self.url, error))?;
        let status = response.status().as_u16();
        let etag = response
            .headers()
            .get("ETag")
            .and_then(|etag| etag.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        if status == 304 {
            return Ok(ApiResponse { body: None, etag });
        }
        let body = response
            .body_mut()
            .with_config()
            .limit(MAX_RESPONSE_BYTES)
            .read_to_vec();
        let body = body.map_err(|error| {
            anyhow!(
                "the connection to the monitor at {} broke: {error}",
                self.url
            )
        })?;
        if status != 200 {
            let problem = serde_json::from_slice::<ProblemDetails>(&body)
                .ok()
                .map(|problem| problem.detail);
            let words = problem
                .map(|words| format!(": {words}"))
                .unwrap_or_default();
            bail!("{}: HTTP status {status}{words}", self.url);
        }
        match serde_json::from_slice(&body) {
            Ok(body) => Ok(ApiResponse {
                body: Some(body),
                etag,
            }),
            Err(error) => bail!(
                "{} is not a hailer monitor, or one of another version: {error}",
                self.url
            ),
        }
    }
}

/// Encodes text as a part of a URL.
pub(crate) fn escape(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let pieces = text.bytes().map(|byte| {
        if is_plain(byte) {
            char::from(byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    });
    pieces.collect()
}

fn samples(series: Series) -> Vec<SamplePoint> {
    let sample = |point: Point| SamplePoint {
        at: point.at,
        players: point.players.map(|players| players as f32),
        latency: point.latency.map(|latency| latency as f32 / 1e3),
    };
    series.points.into_iter().map(sample).collect()
}

fn seen(server: types::Server<'_>) -> ServerView {
    let id = server.id;
    ServerView {
        server: Arc::new(Server {
            id,
            name: server.name.into(),
            target: server.target.into(),
            group: server.group.into(),
            labels: server.labels.into_owned(),
            interval: None,
            origin: server.origin,
        }),
        state: server.state,
        is_flapping: server.is_flapping,
        since: server.since_ms.unwrap_or(0),
        last: server.last_sample.map(|last| Sample { server: id, ..last }),
        error: server.error.map(|error| Arc::new(error.into_owned())),
        last_status: server
            .last_status
            .map(|status| Arc::new(last_status(status))),
        uptime: server.uptime_share.map(|share| share as f32),
    }
}

fn last_status(status: types::Status<'_>) -> LastStatus {
    LastStatus {
        at: status.at_ms,
        address: status.address,
        title: status.title.map(Into::into),
        motd: status.motd.map(Text::unformatted),
        game: status.game.map(Into::into),
        version: status.version.map(Into::into),
        map: status.map.map(Into::into),
        max: status.players_max,
        has_password: status.has_password,
        has_anti_cheat: status.has_anti_cheat,
        bots: status.bots,
        is_sample: status.roster == "sample",
        ..LastStatus::default()
    }
}

/// Converts an event; `None` if a newer monitor has a kind that is unknown here.
fn event(event: types::Event, server: ServerId) -> Option<Event> {
    let at = event.at_ms;
    let kind = serde_json::to_value(event).and_then(serde_json::from_value);
    let kind = kind.ok()?;
    Some(Event { server, at, kind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    fn shown(id: i64, players: u32) -> String {
        format!(
            r#"{{"id":{id},"name":"server-{id}","target":"ugp://192.0.2.{id}","protocol":"ugp","group":"eu","labels":{{}},
            "interval_s":null,"origin":"configuration","state":"up","is_flapping":false,"since_ms":5,"uptime_share":0.5,
            "last_sample":{{"at_ms":7,"is_answered":true,"players_online":{players},"players_max":20,"latency_ms":12.5,"datagrams_sent":2,"datagrams_resent":0}},"error":null,
            "last_status":{{"at_ms":7,"address":"192.0.2.{id}:22000","title":"T","motd":"A MOTD","game":null,"version":"1.1","map":null}}}}"#
        )
    }

    /// Simulates a monitor that replies to a list of expected requests: path, ETag, status, body.
    fn pretend(
        answers: Vec<(&'static str, &'static str, u16, String)>,
    ) -> (Monitor, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("127.0.0.1:{}/", listener.local_addr().unwrap().port());
        let server = std::thread::spawn(move || {
            for (path, known, status, body) in answers {
                let (stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") {
                    assert_ne!(reader.read_line(&mut head).unwrap(), 0, "{head}");
                }
                assert!(head.starts_with(&format!("GET {path} ")), "{path}: {head}");
                let sent = head.lines().find_map(|line| {
                    line.split_once(": ")
                        .filter(|(key, _)| key.eq_ignore_ascii_case("if-none-match"))
                });
                assert_eq!(sent.map_or("", |(_, etag)| etag), known, "{head}");
                let length = body.len();
                let head = format!(
                    "HTTP/1.1 {status} X\r\nETag: W/\"{length}\"\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
                );
                (&stream)
                    .write_all(format!("{head}{body}").as_bytes())
                    .unwrap();
            }
        });
        (Monitor::new(&url).unwrap(), server)
    }

    fn list(monitor: &mut Monitor) -> (Vec<(i64, u32)>, Vec<i64>) {
        let FeedUpdate::Update { seen, all, .. } = monitor.list().unwrap() else {
            panic!("no list")
        };
        let seen = seen
            .iter()
            .map(|seen| (seen.server.id.0, seen.last.unwrap().players.unwrap()))
            .collect();
        (seen, all.unwrap().iter().map(|id| id.0).collect())
    }

    #[test]
    fn unchanged_pages_are_not_transferred_again() {
        let first = format!(
            r#"{{"servers":[{},{}],"count":3,"next":"~~a b"}}"#,
            shown(1, 4),
            shown(2, 5)
        );
        let second = |players| {
            format!(
                r#"{{"servers":[{}],"count":3,"next":null}}"#,
                shown(3, players)
            )
        };
        let etag = |body: &str| -> &'static str { format!("W/\"{}\"", body.len()).leak() };
        let known = etag(&first);
        let of_second = etag(&second(6));
        let path = "/api/v1/servers?limit=500";
        let next = "/api/v1/servers?limit=500&cursor=~~a%20b";
        let (mut monitor, server) = pretend(vec![
            (path, "", 200, first.clone()),
            (next, "", 200, second(6)),
            (path, known, 304, String::new()),
            (next, of_second, 200, second(7)),
            (
                path,
                known,
                503,
                r#"{"type":"urn:hailer:problem:history","title":"x","status":503,"detail":"the history cannot be read"}"#.into(),
            ),
            (path, known, 200, "<html>".into()),
        ]);
        assert_eq!(
            list(&mut monitor),
            (vec![(1, 4), (2, 5), (3, 6)], vec![1, 2, 3])
        );
        assert_eq!(list(&mut monitor), (vec![(3, 7)], vec![1, 2, 3]));
        let error = |monitor: &mut Monitor| {
            monitor
                .list()
                .err()
                .map(|error| format!("{error:#}"))
                .unwrap()
        };
        let words = error(&mut monitor);
        assert!(words.contains("503: the history cannot be read"), "{words}");
        let words = error(&mut monitor);
        assert!(words.contains("not a hailer monitor"), "{words}");
        server.join().unwrap();
        let words = error(&mut monitor);
        assert!(
            words.starts_with("no monitor at http://127.0.0.1:"),
            "{words}"
        );
    }

    #[test]
    fn details_combine_three_requests() {
        let whole = shown(1, 4);
        let whole = format!(
            r#"{},"players":["Alice"],"day":{{"from_ms":0,"step_ms":1,"players":[null]}},"last_answer":{{"ok":true}}}}"#,
            whole.strip_suffix('}').unwrap()
        );
        let series = r#"{"from_ms":0,"to_ms":9,"level":"raw","step_ms":5,"points":[
            {"at_ms":5,"polls":1,"answered":1,"players_mean":4.5,"players_peak":5,"players_max":20,"latency_mean_ms":12.5,"latency_max_ms":12.5,"datagrams_sent":1,"datagrams_resent":0},
            {"at_ms":6,"polls":1,"answered":0,"players_mean":null,"players_peak":null,"players_max":null,"latency_mean_ms":null,"latency_max_ms":null,"datagrams_sent":1,"datagrams_resent":0}]}"#;
        let events = r#"{"events":[{"server_id":1,"server":"server-1","at_ms":5,"kind":"down","reason":"silence","from":null,"to":null},
            {"server_id":1,"at_ms":4,"kind":"of-the-future"},{"server_id":1,"at_ms":3,"kind":"version","from":"1","to":"2"}],"next":null}"#;
        let (monitor, server) = pretend(vec![
            ("/api/v1/servers/server-1", "", 200, whole),
            ("/api/v1/servers/server-1/series", "", 200, series.into()),
            (
                "/api/v1/servers/server-1/events?limit=50",
                "",
                200,
                events.into(),
            ),
        ]);
        let past = monitor.past("server-1").unwrap();
        server.join().unwrap();
        assert_eq!(past.server, ServerId(1));
        assert_eq!(
            past.samples[0],
            SamplePoint {
                at: 5,
                players: Some(4.5),
                latency: Some(12.5)
            }
        );
        assert_eq!(past.samples[1].players, None);
        let words: Vec<&str> = past.events.iter().map(|event| event.kind.word()).collect();
        assert_eq!(words, ["down", "version"], "unknown values are left out");
        let last_status = past.last_status.unwrap();
        assert_eq!(
            (&*last_status.answer, &last_status.players[..]),
            (&br#"{"ok":true}"#[..], &["Alice".into()][..])
        );
        assert_eq!(last_status.version.as_deref(), Some("1.1"));
    }

    #[test]
    fn encodes_urls() {
        for good in [
            "http://127.0.0.1:8080",
            "https://monitor.example.com/status/",
            "127.0.0.1:8080",
            "[::1]:8080",
        ] {
            assert!(
                Monitor::new(good).is_ok_and(|monitor| !monitor.url.ends_with('/')),
                "{good}"
            );
        }
        for wrong in ["ftp://a", "", "http://", "http://a b", "http://a/?x=1"] {
            let error = Monitor::new(wrong)
                .err()
                .unwrap_or_else(|| panic!("{wrong}"));
            assert!(error.is::<crate::exit::Usage>(), "{error}");
        }
        assert_eq!(escape("a-b_c.~ü/?"), "a-b_c.~%C3%BC%2F%3F");
    }
}
