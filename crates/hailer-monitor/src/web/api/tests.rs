//! Contract test: every operation of `openapi.json` is called with real servers, and every response
//! is checked against it.

use super::*;
use crate::history::{Batch, NewServer, PlayerSession};
use crate::monitor_health::HistoryHealth;
use crate::poll::{PollConfig, PollResult, Poller};
use crate::sample::unix_millis;
use crate::sample::{Event, EventKind, Millis, Sample};
use crate::server::{Origin, Server, ServerId};
use crate::test_alert::TestAlertError;
use crate::watchlist::{LocalWatchlist, WatchlistError};
use crate::web;
use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use futures_util::future::BoxFuture;
use hailer::Status;
use hailer::proto::{Player, Text, registry};
use hailer::respond::{Board, ListenerConfig, PoolConfig, ResponderPool};
use hailer_testkit::openmetrics;
use http_body_util::BodyExt;
use jsonschema::Registry;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use tokio::sync::mpsc;
use tower::ServiceExt;

const TOKEN: &str = "a-token-for-tests-only";
const HOSTILE: &str = "</title><script>alert(1)</script>\"'&\u{202e}";
/// Base URI of the schemas, for references.
const AT: &str = "http://hailer.test";

/// Alerts that are delivered, unless the receiver is called `broken`.
struct Alerts(crate::alert::CheckedConfig);

impl TestAlert for Alerts {
    fn config(&self) -> &crate::alert::CheckedConfig {
        &self.0
    }

    fn send(&self, to: Option<String>) -> BoxFuture<'_, Result<String, TestAlertError>> {
        Box::pin(async move {
            match to.as_deref() {
                None => Ok("1 target took it".into()),
                Some("slow") => {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    Ok("1 target took it".into())
                }
                Some("broken") => Err(TestAlertError::Failed("connection refused".into())),
                Some(other) => Err(TestAlertError::Unknown(format!(
                    "no target is called {other}; there is: broken"
                ))),
            }
        })
    }
}

/// A sample of a removed server.
fn before_gap(at: Millis) -> Sample {
    Sample {
        observed_ms: 60_000,
        server: ServerId(999),
        at,
        is_answered: true,
        players: None,
        max: None,
        latency: None,
        sent: 1,
        resent: 0,
    }
}

/// A watchlist in which another request always wins.
struct RacingWatchlist;

impl Watchlist for RacingWatchlist {
    fn add(&self, new: NewServer) -> BoxFuture<'_, Result<Server, WatchlistError>> {
        Box::pin(async { Err(WatchlistError::Taken(new.name)) })
    }

    fn add_all(
        &self,
        _: Vec<NewServer>,
    ) -> BoxFuture<'_, Result<(), (Option<String>, WatchlistError)>> {
        Box::pin(async { Err((None, WatchlistError::Gone)) })
    }

    fn change(&self, _: Server) -> BoxFuture<'_, Result<(), WatchlistError>> {
        Box::pin(async { Err(WatchlistError::Gone) })
    }

    fn remove(&self, _: ServerId) -> BoxFuture<'_, Result<bool, WatchlistError>> {
        Box::pin(async { Ok(false) })
    }
}

/// A monitor with two configured servers: `lobby` is up and sends hostile texts; `quiet` does not
/// answer.
struct Monitor {
    history: History,
    live: Arc<StateTable>,
    watchlist: Arc<dyn Watchlist>,
    health: Arc<Mutex<MonitorHealth>>,
    target: String,
    /// Targets of servers that are not on the watchlist.
    others: [String; 2],
    pool: Option<ResponderPool>,
    batches: tokio::sync::Mutex<mpsc::Receiver<Vec<PollResult>>>,
}

impl Monitor {
    async fn start() -> Self {
        let protocols: Vec<_> = registry::datagram_responders().collect();
        let mut status = Status {
            version: Some(HOSTILE.into()),
            ..Status::default()
        };
        status.motd = Some(Text::unformatted(HOSTILE));
        status
            .players
            .set_list(vec![Player::named(Text::unformatted(HOSTILE))]);
        status.players.max = Some(20);
        let board = Board::new(&protocols, &status).unwrap();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = || ListenerConfig {
            address: any,
            board: board.clone(),
            relay: None,
            inherited: None,
        };
        let listeners = vec![listener(), listener(), listener()];
        let pool = ResponderPool::start(listeners, &PoolConfig::default()).unwrap();
        let target = |place| format!("minecraft-query://{}", pool.addresses()[place]);
        let others = [target(1), target(2)];
        let target = target(0);
        let closed = std::net::UdpSocket::bind(any)
            .unwrap()
            .local_addr()
            .unwrap();

        let history = History::open("sqlite::memory:").await.unwrap();
        let live = Arc::new(StateTable::default());
        let (poll, batches) = Poller::start(PollConfig::default(), live.clone()).unwrap();
        let poll = Arc::new(poll);
        for (name, target) in [
            ("lobby", &*target),
            ("quiet", &format!("minecraft-query://{closed}")),
        ] {
            let second = Some(Duration::from_secs(1));
            let name = name.into();
            let target = target.into();
            let group = "games \"1\"\\".into();
            let labels = BTreeMap::new();
            let new = NewServer {
                name,
                target,
                group,
                labels,
                interval: second,
                origin: Origin::Configuration,
            };
            poll.watch(history.add(&new).await.unwrap(), None).unwrap();
        }
        let watchlist: Arc<dyn Watchlist> =
            Arc::new(LocalWatchlist::new(history.clone(), poll, live.clone()));
        let health = MonitorHealth {
            started: unix_millis(),
            samples: 100,
            last: Some(unix_millis()),
            ..MonitorHealth::default()
        };
        let health = Arc::new(Mutex::new(health));
        let batches = tokio::sync::Mutex::new(batches);
        let monitor = Self {
            history,
            live,
            watchlist,
            health,
            target,
            others,
            pool: Some(pool),
            batches,
        };
        monitor.until("quiet", crate::health::State::Down).await;
        monitor.until("lobby", crate::health::State::Up).await;
        monitor
    }

    /// Waits until a server has this state, and stores the batches meanwhile.
    async fn until(&self, name: &str, state: crate::health::State) {
        for _ in 0..200 {
            while let Ok(results) = self.batches.lock().await.try_recv() {
                let mut batch = Batch::default();
                for result in results {
                    batch.add(result);
                }
                self.history.write(&batch).await.unwrap();
            }
            if self.live.named(name).is_some_and(|row| row.state == state) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!(
            "{name} is not {state:?} after ten seconds: {:?}",
            self.live.named(name)
        );
    }

    fn router(&self, change: impl FnOnce(&mut ApiBackend, &mut ApiConfig)) -> Router {
        web::router(self.app(change))
    }

    fn app(&self, change: impl FnOnce(&mut ApiBackend, &mut ApiConfig)) -> web::App {
        let health = self.health.clone();
        let mut parts = ApiBackend {
            live: self.live.clone(),
            history: self.history.clone(),
            watchlist: Some(self.watchlist.clone()),
            alerts: Some(Arc::new(Alerts(crate::alert::CheckedConfig::default()))),
            health: Arc::new(move || health.lock().unwrap().clone()),
        };
        let often = Rate {
            per_second: 10_000,
            burst: 10_000,
        };
        let mut config = ApiConfig {
            token: Some(Token::new(TOKEN).unwrap()),
            server_metrics: 10,
            ..ApiConfig::default()
        };
        config.reads = often;
        config.writes = often;
        change(&mut parts, &mut config);
        let mut app = web::App::new(self.live.clone(), self.history.clone());
        let api = Api::new(parts, config);
        app.notice = api.notice();
        app.api = Some(api);
        app
    }
}

/// A response.
struct Response {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Response {
    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Returns the keyword of a problem.
    fn word(&self) -> String {
        self.json()["type"]
            .as_str()
            .unwrap()
            .replace("urn:hailer:problem:", "")
    }

    fn fields(&self) -> Vec<String> {
        let errors = self.json()["errors"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        errors
            .iter()
            .map(|error| error["field"].as_str().unwrap().to_owned())
            .collect()
    }
}

async fn ask(router: &Router, request: Request<Body>) -> Response {
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    Response {
        status: parts.status,
        headers: parts.headers,
        body: body.collect().await.unwrap().to_bytes().into(),
    }
}

/// The document, and the responses seen so far.
struct Contract {
    document: Value,
    registry: Registry<'static>,
    seen: Mutex<BTreeSet<(String, String)>>,
}

impl Contract {
    fn new() -> Self {
        let document: Value = serde_json::from_str(&openapi::DOCUMENT).unwrap();
        let registry = Registry::new()
            .add(format!("{AT}/openapi.json"), document.clone())
            .and_then(|registry| registry.prepare())
            .unwrap();
        Self {
            document,
            registry,
            seen: Mutex::default(),
        }
    }

    /// Resolves a reference within the document.
    fn follow<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            Some(there) => self
                .document
                .pointer(there.strip_prefix('#').unwrap())
                .unwrap(),
            None => value,
        }
    }

    /// Returns all operations: method, path and definition.
    fn operations(&self) -> impl Iterator<Item = (Method, &str, &Value)> {
        let paths = self.document["paths"].as_object().unwrap();
        paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().iter();
            methods.map(move |(method, operation)| {
                (method.to_uppercase().parse().unwrap(), &**path, operation)
            })
        })
    }

    fn operation(&self, method: &Method, path: &str) -> &Value {
        let fits = |template: &str| {
            let template: Vec<_> = template.split('/').collect();
            let path: Vec<_> = path.split('/').collect();
            let fit = |part: &str, reply: &str| match part.split_once("{name}") {
                Some((before, after)) => reply.starts_with(before) && reply.ends_with(after),
                None => part == reply,
            };
            template.len() == path.len()
                && template
                    .iter()
                    .zip(path)
                    .all(|(part, reply)| fit(part, reply))
        };
        let mut all = self
            .operations()
            .filter(|(its, template, _)| its == method && fits(template));
        all.next()
            .unwrap_or_else(|| panic!("{method} {path} is not in the document"))
            .2
    }

    #[track_caller]
    fn check(&self, schema: &Value, value: &Value, what: &str) {
        let schema = schema
            .to_string()
            .replace("\"#/", &format!("\"{AT}/openapi.json#/"));
        let schema: Value = serde_json::from_str(&schema).unwrap();
        let validator = jsonschema::options()
            .with_registry(&self.registry)
            .build(&schema)
            .unwrap();
        let errors: Vec<_> = validator
            .iter_errors(value)
            .map(|e| format!("{}: {e}", e.instance_path()))
            .collect();
        assert!(
            errors.is_empty(),
            "{what}: {}\n{value:#}",
            errors.join("\n")
        );
    }

    /// Sends a request, and checks the response against the document.
    async fn ask(&self, router: &Router, request: Request<Body>) -> Response {
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let reply = ask(router, request).await;
        self.hold(&method, &path, &reply);
        reply
    }

    /// Checks a response against the document.
    #[track_caller]
    fn hold(&self, method: &Method, path: &str, reply: &Response) {
        let what = format!("{method} {path}");
        let operation = self.operation(method, path);
        let status = reply.status.as_str();
        let response = self.follow(&operation["responses"][status]);
        assert!(
            response.is_object(),
            "{what}: {status} is not in the document\n{}",
            String::from_utf8_lossy(&reply.body)
        );
        for (name, header) in response["headers"].as_object().into_iter().flatten() {
            let value = reply.header(name);
            assert!(!value.is_empty(), "{what}: {status} without {name}");
            let value = value
                .parse::<i64>()
                .map_or_else(|_| value.into(), Value::from);
            self.check(&header["schema"], &value, &format!("{what}: {name}"));
        }
        match response["content"].as_object() {
            None => assert!(reply.body.is_empty(), "{what}: {status} has a body"),
            Some(content) => {
                let kind = reply
                    .header("content-type")
                    .split(';')
                    .next()
                    .unwrap()
                    .to_owned();
                let schema = &content
                    .get(&kind)
                    .unwrap_or_else(|| panic!("{what}: {status} is {kind}"))["schema"];
                let value = if kind.ends_with("json") {
                    reply.json()
                } else {
                    reply.text().into()
                };
                self.check(schema, &value, &what);
                if kind == "application/problem+json" {
                    assert_eq!(value["status"], reply.status.as_u16(), "{what}");
                }
            }
        }
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{what}");
        let is_badge = path.starts_with("/badge/");
        let is_open = reply.headers.contains_key("access-control-allow-origin");
        assert!(
            !is_open || is_badge,
            "{what}: only badges are for the scripts of all sites"
        );
        self.seen.lock().unwrap().insert((
            operation["operationId"].as_str().unwrap().into(),
            status.into(),
        ));
    }

    async fn get(&self, router: &Router, uri: &str) -> Response {
        self.ask(router, get(uri)).await
    }
}

fn get(uri: &str) -> Request<Body> {
    Request::get(uri).body(Body::empty()).unwrap()
}

fn write(method: Method, uri: &str, token: Option<&str>, body: Option<&Value>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(uri);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    match body {
        Some(body) => request
            .header("content-type", "application/json")
            .body(body.to_string().into()),
        None => request.body(Body::empty()),
    }
    .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_match_the_openapi_document() {
    let contract = Contract::new();
    let mut monitor = Monitor::start().await;
    let router = monitor.router(|_, _| {});
    reads(&contract, &monitor, &router).await;
    writes(&contract, &monitor, &router).await;
    refusals(&contract, &monitor).await;

    // A failing monitor reports it.
    monitor.health.lock().unwrap().history = HistoryHealth {
        is_failing: true,
        message: Some("disk full".into()),
        kept: 7,
        ..HistoryHealth::default()
    };
    // A new router, since the notice is cached for one second.
    let router = monitor.router(|_, _| {});
    for uri in ["/healthz", "/api/v1/health"] {
        let health = contract.get(&router, uri).await;
        assert_eq!(
            (health.status.as_u16(), &health.json()["status"]),
            (503, &"failing".into())
        );
        assert!(health.text().contains("disk full"), "{}", health.text());
    }
    for path in ["/", "/server/lobby", "/events"] {
        let page = ask(&router, get(path)).await;
        assert!(
            page.text().contains("kept in memory: 7 samples"),
            "{path}: {}",
            page.text()
        );
        assert!(
            !page.text().contains("disk full"),
            "pages do not show the reason"
        );
    }
    monitor.history.close().await;
    for uri in [
        "/events",
        "/totals/series",
        "/servers/lobby/series",
        "/servers/lobby/events",
        "/servers/lobby/sessions",
    ] {
        assert_eq!(
            contract.get(&router, &format!("/api/v1{uri}")).await.word(),
            "history",
            "{uri}"
        );
    }
    let new = json!({ "name": "late", "target": monitor.others[0] });
    for (method, uri) in [
        (Method::POST, "/api/v1/servers"),
        (Method::PUT, "/api/v1/servers/mine"),
    ] {
        let reply = contract
            .ask(&router, write(method, uri, Some(TOKEN), Some(&new)))
            .await;
        assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    }
    let reply = contract
        .ask(
            &router,
            write(Method::DELETE, "/api/v1/servers/mine", Some(TOKEN), None),
        )
        .await;
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(monitor.live.named("mine").is_some() && monitor.live.named("late").is_none());
    monitor.pool.take().unwrap().stop();

    let seen = contract.seen.lock().unwrap();
    for (method, path, operation) in contract.operations() {
        for status in operation["responses"].as_object().unwrap().keys() {
            let id = operation["operationId"].as_str().unwrap();
            assert!(
                seen.contains(&(id.into(), status.clone())),
                "{method} {path}: {status} was never returned"
            );
        }
    }
}

async fn reads(contract: &Contract, monitor: &Monitor, router: &Router) {
    let id = monitor.live.named("lobby").unwrap().server.id;
    let now = unix_millis();
    let sessions = vec![PlayerSession {
        server: id,
        player: HOSTILE.into(),
        first: now - 90_000,
        last: now,
    }];
    let gone = Event {
        server: ServerId(999),
        at: now - 5_000,
        kind: EventKind::Steady,
    };
    monitor
        .history
        .write(&Batch {
            sessions,
            events: vec![gone],
            samples: [3, 1]
                .map(|hours| before_gap(now - hours * 3_600_000))
                .into(),
        })
        .await
        .unwrap();
    monitor
        .history
        .tidy(now, &Retention::default())
        .await
        .unwrap();

    let page = contract.get(router, "/api/v1/servers?limit=1").await.json();
    assert_eq!(
        (&page["count"], &page["servers"][0]["name"]),
        (&2.into(), &"lobby".into())
    );
    let next = format!(
        "/api/v1/servers?limit=1&cursor={}",
        page["next"].as_str().unwrap()
    );
    let page = contract.get(router, &next).await.json();
    assert_eq!(
        (&page["servers"][0]["name"], &page["next"]),
        (&"quiet".into(), &Value::Null)
    );
    let bad = contract
        .get(router, "/api/v1/servers?limit=501&sort=x&grup=y")
        .await;
    assert_eq!(bad.fields(), ["grup", "sort", "limit"]);

    let lobby = contract.get(router, "/api/v1/servers/lobby").await.json();
    assert_eq!(
        (&lobby["state"], &lobby["last_sample"]["players_online"]),
        (&"up".into(), &1.into())
    );
    assert_eq!(lobby["last_answer"]["status"]["players"]["online"], 1);
    let reply = contract.get(router, "/api/v1/servers/lobby/answer").await;
    let kept = monitor.live.named("lobby").unwrap().last_status.unwrap();
    assert_eq!(reply.json()["schema"], "hailer/answer/2");
    assert_eq!(
        reply.json()["target"],
        serde_json::from_slice::<Value>(&kept.answer).unwrap()["target"]
    );
    assert_eq!(
        contract.get(router, "/api/v1/servers/quiet").await.json()["last_answer"],
        Value::Null
    );

    let series = format!(
        "/api/v1/servers/lobby/series?level=raw&from={}",
        now - 60_000
    );
    let series = contract.get(router, &series).await.json();
    assert!(
        series["points"]
            .as_array()
            .is_some_and(|points| !points.is_empty()),
        "{series}"
    );
    let events = contract.get(router, "/api/v1/events").await.json();
    let gap = json!({"from_ms": now - 3 * 3_600_000, "to_ms": now - 3_600_000});
    let gaps = events["gaps"].as_array().unwrap();
    assert!(gaps.contains(&gap), "{gaps:?}");
    let kinds: Vec<_> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| &event["kind"])
        .collect();
    assert!(
        kinds.contains(&&"up".into()) && kinds.contains(&&"down".into()),
        "{events}"
    );
    let gone = &events["events"]
        .as_array()
        .unwrap()
        .iter()
        .find(|event| event["server_id"] == 999)
        .unwrap();
    assert_eq!(gone["server"], Value::Null);
    let sessions = contract
        .get(router, "/api/v1/servers/lobby/sessions")
        .await
        .json();
    assert_eq!(sessions["sessions"][0]["duration_s"], 90.0);
    let totals = contract.get(router, "/api/v1/totals").await.json();
    assert_eq!(
        (&totals["up"], &totals["down"], &totals["players_online"]),
        (&1.into(), &1.into(), &1.into())
    );

    // Texts of servers are escaped everywhere.
    for uri in [
        "/badge/lobby.svg",
        "/badge/lobby.svg?label=%3Cscript%3E&style=square",
        "/widget/lobby",
    ] {
        let reply = contract.get(router, uri).await;
        assert!(
            !reply.text().contains("<script") && !reply.text().contains('\u{202e}'),
            "{uri}: {}",
            reply.text()
        );
        assert!(
            reply
                .header("content-security-policy")
                .starts_with("default-src 'none';"),
            "{uri}"
        );
        assert_eq!(
            reply.header("cross-origin-resource-policy"),
            "cross-origin",
            "{uri}"
        );
    }
    assert!(
        contract
            .get(router, "/badge/lobby.svg")
            .await
            .text()
            .contains(">1/20</text>")
    );
    assert!(
        contract
            .get(router, "/badge/quiet.svg")
            .await
            .text()
            .contains(">down</text>")
    );
    // Browsers show nothing of an error that is no image.
    for (uri, status, text) in [
        ("/badge/nobody.svg", 404, "not found"),
        (
            "/badge/lobby.svg?style=oval",
            400,
            "style: must be one of: round, square",
        ),
        (
            "/badge/lobby.svg?size=%3Cb%3E",
            400,
            "size: unknown parameter; allowed: label, style",
        ),
        (
            "/badge/lobby.svg?%3Cscript%3E=1",
            400,
            "&#60;script&#62;: unknown parameter; allowed: label, style",
        ),
        (
            "/badge/lobby.svg?style=x&label=a&label=b",
            400,
            "invalid parameters: label, style",
        ),
    ] {
        let reply = contract.get(router, uri).await;
        assert_eq!(
            (reply.status.as_u16(), reply.header("content-type")),
            (status, "image/svg+xml"),
            "{uri}"
        );
        let text = format!(">{text}</text>");
        assert!(reply.text().contains(&text), "{uri}: {}", reply.text());
        assert_eq!(reply.header("etag"), "", "{uri}");
    }
    let png = ask(router, get("/badge/lobby.png")).await;
    assert!(png.text().contains(">badges are at /badge/NAME.svg</text>"));
    assert!(
        contract
            .get(router, "/widget/lobby")
            .await
            .header("content-security-policy")
            .ends_with("frame-ancestors *")
    );
    assert!(
        ask(router, get("/"))
            .await
            .header("content-security-policy")
            .contains("frame-ancestors 'none'")
    );

    // Responses with an ETag are not sent twice. Those that change every second may need several
    // attempts.
    for (method, path, operation) in contract.operations() {
        let uri = path.replace("{name}", "lobby");
        let known = ["304", "400"].map(|status| operation["responses"][status].is_object());
        if method != Method::GET || !known[0] {
            continue;
        }
        let mut tries = 0;
        loop {
            let tag = contract.get(router, &uri).await.header("etag").to_owned();
            let request = Request::get(&uri).header("if-none-match", format!("\"other\", {tag}"));
            let reply = contract
                .ask(router, request.body(Body::empty()).unwrap())
                .await;
            if reply.status == StatusCode::NOT_MODIFIED {
                break;
            }
            tries += 1;
            assert!(tries < 20, "{uri} is never 304");
        }
        if known[1] {
            let reply = contract.get(router, &format!("{uri}?unheard=of")).await;
            let is_named = match reply.header("content-type") {
                "image/svg+xml" => reply.text().contains(">unheard: "),
                _ => reply.fields() == ["unheard"],
            };
            assert!(is_named, "{uri}");
        }
        if path.contains("{name}") {
            let request =
                Request::get(path.replace("{name}", "no-such")).header("if-none-match", "*");
            let reply = contract
                .ask(router, request.body(Body::empty()).unwrap())
                .await;
            assert_eq!(reply.status, StatusCode::NOT_FOUND, "{uri}");
        }
    }
    assert_eq!(
        contract.get(router, "/api/v1/servers/%FF").await.word(),
        "not-found"
    );
    for uri in ["/api/v1/nothing", "/api/v1/servers/"] {
        assert_eq!(ask(router, get(uri)).await.word(), "not-found", "{uri}");
    }
    let reply = ask(
        router,
        write(Method::PATCH, "/api/v1/servers", Some(TOKEN), None),
    )
    .await;
    assert_eq!(
        (reply.word(), reply.header("allow")),
        ("method".into(), "GET,HEAD,POST")
    );
    assert_eq!(
        ask(
            router,
            Request::head("/api/v1/servers")
                .body(Body::empty())
                .unwrap()
        )
        .await
        .body
        .len(),
        0
    );
    assert_eq!(
        contract.get(router, "/api/v1/health").await.json()["status"],
        "ok"
    );
    contract.get(router, "/healthz").await;
}

async fn writes(contract: &Contract, monitor: &Monitor, router: &Router) {
    let send = |method: Method, uri: &'static str, body: Option<Value>| async move {
        contract
            .ask(router, write(method, uri, Some(TOKEN), body.as_ref()))
            .await
    };
    let new = json!({
        "name": "mine", "target": monitor.others[0], "group": HOSTILE.trim_end_matches('\u{202e}'),
        "labels": { "region": "eu" }, "interval_s": 1.5,
    });
    let reply = send(Method::POST, "/api/v1/servers", Some(new.clone())).await;
    assert_eq!(
        (reply.status.as_u16(), reply.header("location")),
        (201, "/api/v1/servers/mine"),
        "{}",
        reply.text()
    );
    assert_eq!(
        (
            &reply.json()["interval_s"],
            &reply.json()["labels"]["region"]
        ),
        (&1.5.into(), &"eu".into())
    );
    assert_eq!(monitor.history.servers().await.unwrap().len(), 3);
    monitor.until("mine", crate::health::State::Up).await;
    assert_eq!(
        send(Method::POST, "/api/v1/servers", Some(new))
            .await
            .word(),
        "taken"
    );

    let twice =
        json!({ "name": "twice", "target": monitor.target.replace("minecraft-query", "ugp") });
    let reply = send(Method::POST, "/api/v1/servers", Some(twice.clone())).await;
    assert_eq!(reply.word(), "duplicate");
    assert!(
        reply
            .text()
            .contains("lobby has the same address and query port")
    );
    let name = monitor.target.replace("127.0.0.1", "localhost");
    let by_name = json!({ "name": "twice", "target": name });
    let reply = send(Method::POST, "/api/v1/servers", Some(by_name)).await;
    assert_eq!(reply.word(), "duplicate");

    let put = "/api/v1/servers/mine";
    assert_eq!(
        send(Method::PUT, put, Some(twice)).await.word(),
        "duplicate"
    );
    let reply = send(
        Method::PUT,
        put,
        Some(json!({ "target": monitor.others[0], "group": "other" })),
    )
    .await;
    assert_eq!(
        (
            reply.status.as_u16(),
            &reply.json()["group"],
            &reply.json()["labels"]
        ),
        (200, &"other".into(), &json!({}))
    );
    assert_eq!(
        reply.json()["state"],
        "up",
        "the state is kept while the target is the same"
    );
    let reply = send(
        Method::PUT,
        put,
        Some(json!({ "name": "lobby", "target": monitor.others[0] })),
    )
    .await;
    assert_eq!(reply.word(), "taken");
    let reply = send(
        Method::PUT,
        put,
        Some(json!({ "name": "ours", "target": monitor.others[0] })),
    )
    .await;
    assert_eq!(
        (reply.status.as_u16(), reply.header("location")),
        (200, "/api/v1/servers/ours")
    );
    assert!(monitor.live.named("mine").is_none());
    let reply = send(
        Method::PUT,
        put,
        Some(json!({ "name": "yours", "target": monitor.others[0] })),
    )
    .await;
    assert_eq!(reply.fields(), ["name"], "nothing is there to rename");
    assert_eq!(
        send(
            Method::PUT,
            put,
            Some(json!({ "target": monitor.others[1] }))
        )
        .await
        .status,
        StatusCode::CREATED
    );

    for (method, body) in [
        (Method::PUT, Some(json!({ "target": monitor.others[0] }))),
        (Method::DELETE, None),
    ] {
        assert_eq!(
            send(method, "/api/v1/servers/lobby", body).await.word(),
            "configured"
        );
    }
    assert_eq!(
        send(Method::DELETE, "/api/v1/servers/ours", None)
            .await
            .status,
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        send(Method::DELETE, "/api/v1/servers/ours", None)
            .await
            .status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        contract.get(router, "/api/v1/servers/ours").await.status,
        StatusCode::NOT_FOUND
    );

    let bad = json!({ "name": "..", "target": "play.example.com", "labels": [], "interval_s": "often", "color": "red" });
    let reply = send(Method::POST, "/api/v1/servers", Some(bad)).await;
    assert_eq!(
        reply.fields(),
        ["color", "interval_s", "labels", "name", "target"]
    );
    let reply = send(
        Method::PUT,
        put,
        Some(json!({ "target": "ugp://[::1]", "interval_s": 0.1 })),
    )
    .await;
    assert_eq!(reply.fields(), ["interval_s"]);
    let test = "/api/v1/alerts/test";
    assert_eq!(
        send(Method::POST, test, Some(json!({}))).await.json()["message"],
        "1 target took it"
    );
    assert_eq!(
        send(Method::POST, test, Some(json!({ "to": "nobody" })))
            .await
            .fields(),
        ["to"]
    );
    assert_eq!(
        send(Method::POST, test, Some(json!({ "to": "broken" })))
            .await
            .word(),
        "delivery"
    );
}

/// Sends requests until one is rejected by the rate limit; a busy machine needs a second.
async fn once_too_often(router: &Router, request: impl Fn() -> Request<Body>) -> Response {
    for _ in 0..50 {
        let reply = ask(router, request()).await;
        if reply.status == StatusCode::TOO_MANY_REQUESTS {
            return reply;
        }
    }
    panic!("fifty requests were not too many")
}

/// An endless body.
fn endless() -> impl futures_util::Stream<Item = Result<&'static str, std::io::Error>> {
    futures_util::stream::repeat_with(|| Ok("{\"a\":1}"))
}

async fn refusals(contract: &Contract, monitor: &Monitor) {
    let router = monitor.router(|_, _| {});
    let closed = monitor.router(|_, config| config.token = None);
    let shows = monitor.router(|parts, config| {
        parts.watchlist = None;
        parts.alerts = None;
        config.max_servers = 1;
    });
    let watchlist = monitor.watchlist.clone();
    let full = monitor.router(move |parts, config| {
        parts.watchlist = Some(watchlist);
        config.max_servers = 1;
    });
    let body = json!({ "name": "new", "target": monitor.others[0] });
    let servers = monitor.live.len();
    for (method, path, operation) in contract
        .operations()
        .filter(|(method, ..)| *method != Method::GET)
    {
        let uri = path.replace("{name}", "mine");
        let body = operation["requestBody"].is_object().then_some(&body);
        let request = |token| write(method.clone(), &uri, token, body);
        assert_eq!(
            contract.ask(&closed, request(Some(TOKEN))).await.word(),
            "no-token",
            "{uri}"
        );
        for wrong in [
            None,
            Some(""),
            Some("a-token-for-tests-onlY"),
            Some("a-token-for-tests-only,"),
        ] {
            assert_eq!(
                contract.ask(&router, request(wrong)).await.word(),
                "token",
                "{uri}"
            );
        }
        let mut two = request(Some(TOKEN));
        two.headers_mut()
            .append("authorization", "Bearer other".parse().unwrap());
        assert_eq!(contract.ask(&router, two).await.word(), "token", "{uri}");
        let mut foreign = request(Some(TOKEN));
        foreign
            .headers_mut()
            .insert("host", "127.0.0.1:8080".parse().unwrap());
        foreign
            .headers_mut()
            .insert("origin", "https://evil.example.com".parse().unwrap());
        assert_eq!(
            contract.ask(&router, foreign).await.word(),
            "origin",
            "{uri}"
        );
        if body.is_some() {
            let mut form = request(Some(TOKEN));
            form.headers_mut()
                .insert("content-type", "text/plain".parse().unwrap());
            assert_eq!(
                contract.ask(&router, form).await.word(),
                "media-type",
                "{uri}"
            );
            let mut long = request(Some(TOKEN));
            *long.body_mut() = Body::from(format!("{{\"a\":\"{}\"}}", "x".repeat(MAX_BODY_BYTES)));
            assert_eq!(
                contract.ask(&router, long).await.word(),
                "too-large",
                "{uri}"
            );
            for text in ["[]", "{", "[[[["] {
                let mut bad = request(Some(TOKEN));
                *bad.body_mut() = text.into();
                assert_eq!(
                    contract.ask(&router, bad).await.word(),
                    "body",
                    "{uri}: {text}"
                );
            }
        }
    }
    assert_eq!(monitor.live.len(), servers, "no server was changed");
    let send = |router, uri, body| async move {
        contract
            .ask(router, write(Method::POST, uri, Some(TOKEN), Some(body)))
            .await
    };
    assert_eq!(send(&full, "/api/v1/servers", &body).await.word(), "full");
    let empty = json!({});
    assert_eq!(
        send(&shows, "/api/v1/alerts/test", &empty).await.word(),
        "no-alerts"
    );
    let request = write(Method::DELETE, "/api/v1/servers/mine", Some(TOKEN), None);
    assert_eq!(contract.ask(&shows, request).await.word(), "read-only");

    let gone = monitor.router(|parts, _| parts.watchlist = Some(Arc::new(RacingWatchlist)));
    for (method, body) in [
        (Method::PUT, Some(json!({ "target": monitor.others[0] }))),
        (Method::DELETE, None),
    ] {
        let reply = contract
            .ask(
                &gone,
                write(method, "/api/v1/servers/mine", Some(TOKEN), body.as_ref()),
            )
            .await;
        assert_eq!(reply.status, StatusCode::NOT_FOUND);
    }

    // Exceed the rate limit of each operation.
    for (method, path, _) in contract.operations() {
        let once = Rate {
            per_second: 1,
            burst: 1,
        };
        let router = monitor.router(|_, config| (config.reads, config.writes) = (once, once));
        let uri = path.replace("{name}", "lobby");
        let reply = once_too_often(&router, || write(method.clone(), &uri, None, None)).await;
        contract.hold(&method, &uri, &reply);
        assert_eq!(
            (reply.word(), reply.header("retry-after")),
            ("rate".into(), "1"),
            "{method} {uri}"
        );
    }

    // Request with an unknown host name.
    let mut app = monitor.app(|_, _| {});
    app.hosts = Some(vec!["status.example.com".into()]);
    let strict = web::router(app);
    for (method, path, _) in contract.operations() {
        let mut request = write(
            method.clone(),
            &path.replace("{name}", "lobby"),
            Some(TOKEN),
            None,
        );
        request
            .headers_mut()
            .insert("host", "evil.example.com:8080".parse().unwrap());
        assert_eq!(
            contract.ask(&strict, request).await.word(),
            "host",
            "{method} {path}"
        );
    }
    for (host, status) in [
        ("evil.example.com", 421),
        ("status.example.com", 200),
        ("127.0.0.1:1", 200),
    ] {
        let page = ask(
            &strict,
            Request::get("/")
                .header("host", host)
                .body(Body::empty())
                .unwrap(),
        )
        .await;
        assert_eq!(
            (page.status.as_u16(), page.header("content-type")),
            (status, "text/html; charset=utf-8"),
            "{host}"
        );
        assert_eq!(page.text().contains("hosts = ["), status == 421, "{host}");
    }

    // Requests that take too long.
    let mut app = monitor.app(|_, _| {});
    app.timeout = Duration::ZERO;
    // Occupy all slots.
    let api = app.api.clone().unwrap();
    let turns = app.turns.clone();
    let _lists = (
        api.0.lists.acquire().await,
        turns.acquire_many(turns.available_permits() as u32).await,
    );
    let hasty = web::router(app.clone());
    for request in [
        get("/api/v1/servers"),
        write(
            Method::POST,
            "/api/v1/alerts/test",
            Some(TOKEN),
            Some(&json!({ "to": "slow" })),
        ),
    ] {
        let reply = contract.ask(&hasty, request).await;
        assert_eq!(
            (reply.word(), reply.header("retry-after")),
            ("slow".into(), "5")
        );
    }
    let page = ask(&hasty, get("/")).await;
    assert_eq!(
        (page.status.as_u16(), page.header("content-type")),
        (503, "text/html; charset=utf-8")
    );

    // A body that is too long, with or without Content-Length.
    for body in [
        Body::from("x".repeat(1 << 20)),
        Body::from_stream(endless()),
    ] {
        let mut request = write(
            Method::POST,
            "/api/v1/servers",
            Some(TOKEN),
            Some(&json!({})),
        );
        *request.body_mut() = body;
        assert_eq!(contract.ask(&router, request).await.word(), "too-large");
    }

    // Pages count against the same rate limit.
    let once = Rate {
        per_second: 1,
        burst: 1,
    };
    let counted = monitor.router(|_, config| config.reads = once);
    let page = once_too_often(&counted, || get("/events")).await;
    assert_eq!(
        (page.status.as_u16(), page.header("content-type")),
        (429, "text/html; charset=utf-8")
    );
    assert_eq!(page.header("retry-after"), "1");

    // With `has_player_names` off, no response contains names of players.
    let discreet = monitor.router(|_, config| {
        config.has_player_names = false;
        config.has_widgets = false;
        config.has_badges = false;
    });
    let lobby = contract
        .get(&discreet, "/api/v1/servers/lobby")
        .await
        .json();
    assert_eq!(
        (&lobby["players"], &lobby["last_answer"]),
        (&json!([]), &Value::Null)
    );
    for uri in ["/api/v1/servers/lobby/answer", "/widget/lobby"] {
        assert_eq!(
            contract.get(&discreet, uri).await.word(),
            "not-found",
            "{uri}"
        );
    }
    let badge = contract.get(&discreet, "/badge/lobby.svg").await;
    assert!(badge.text().contains(">badges are disabled</text>"));
}

#[test]
fn the_document_refers_to_itself_only() {
    /// Adds all references below a value.
    fn collect<'a>(value: &'a Value, references: &mut Vec<&'a str>) {
        match value {
            Value::Object(members) => {
                references.extend(members.get("$ref").and_then(Value::as_str));
                members
                    .values()
                    .for_each(|value| collect(value, references));
            }
            Value::Array(items) => items.iter().for_each(|value| collect(value, references)),
            _ => {}
        }
    }
    let contract = Contract::new();
    let mut references = Vec::new();
    collect(&contract.document, &mut references);
    assert!(references.contains(&"#/components/schemas/Answer/$defs/player"));
    for reference in references {
        let there = reference.strip_prefix('#');
        let found = there.and_then(|there| contract.document.pointer(there));
        assert!(found.is_some(), "{reference}");
    }
    let answer = &contract.document["components"]["schemas"]["Answer"];
    assert!(answer["$defs"].is_object() && answer["$id"].is_null());
}

#[test]
fn every_member_of_the_document_has_a_description() {
    /// Every member has a description, and every object with members is closed.
    fn walk(schema: &Value, path: &str) {
        let Value::Object(object) = schema else {
            return;
        };
        if let Some(Value::Object(members)) = object
            .get("properties")
            .filter(|_| object.contains_key("additionalProperties"))
        {
            assert_eq!(object["additionalProperties"], false, "{path} is open");
            for (name, member) in members {
                assert!(
                    member["description"].is_string() || member["$ref"].is_string(),
                    "{path}/{name}"
                );
            }
        }
        object
            .iter()
            .for_each(|(key, value)| walk(value, &format!("{path}/{key}")));
    }
    let contract = Contract::new();
    for (name, schema) in contract.document["components"]["schemas"]
        .as_object()
        .unwrap()
    {
        assert!(jsonschema::meta::is_valid(schema), "{name}");
        // The schema of an answer is a copy with different rules.
        if name != "Answer" {
            walk(schema, name);
        }
    }
    let mut ids = BTreeSet::new();
    for (method, path, operation) in contract.operations() {
        assert!(
            operation["summary"].is_string() && ids.insert(operation["operationId"].as_str()),
            "{method} {path}"
        );
        assert_eq!(
            operation["security"].is_array(),
            method != Method::GET,
            "{method} {path}: writing requires the token"
        );
        let parameters = operation["parameters"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let has_name = parameters
            .iter()
            .any(|parameter| contract.follow(parameter)["in"] == "path");
        assert_eq!(has_name, path.contains("{name}"), "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn alert_page_sends_tests_with_the_token() {
    let monitor = Monitor::start().await;
    let router = monitor.router(|_, _| {});
    let form = |body: &str, origin: &str| {
        let request = Request::post("/alerts/test")
            .header("host", "localhost:1")
            .header("origin", origin);
        request.body(Body::from(body.to_owned())).unwrap()
    };
    let own = "http://localhost:1";
    let good = format!("to=&token={TOKEN}");
    let received = ask(&router, form(&good, own)).await;
    assert!(
        received.status == 200 && received.text().contains("1 target took it"),
        "{}",
        received.text()
    );
    for (body, origin, status, claims) in [
        ("to=&token=a-guess-of-a-token", own, 401, "wrong token"),
        ("to=", own, 401, "wrong token"),
        (&*good, "http://evil.example", 403, "other sites"),
        (
            &format!("to=broken&token={TOKEN}"),
            own,
            502,
            "connection refused",
        ),
        (&format!("to=%3Cb%3E&token={TOKEN}"), own, 422, ""),
    ] {
        let received = ask(&router, form(body, origin)).await;
        assert!(
            received.status == status && received.text().contains(claims),
            "{body}: {} {}",
            received.status,
            received.text()
        );
        assert!(
            !received.text().contains(TOKEN) && !received.text().contains("<b>"),
            "{}",
            received.text()
        );
    }
    assert_eq!(
        ask(&router, form(&"x".repeat(5_000), own)).await.status,
        413
    );
    let without_token = monitor.router(|_, config| config.token = None);
    assert_eq!(ask(&without_token, form(&good, own)).await.status, 403);
    let page = ask(
        &without_token,
        Request::get("/alerts").body(Body::empty()).unwrap(),
    )
    .await;
    assert!(
        page.status == 200 && page.text().contains("No alerts are configured"),
        "{}",
        page.text()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_valid_and_the_dashboard_uses_only_these() {
    let monitor = Monitor::start().await;
    monitor.health.lock().unwrap().samples = 12;
    let plain = ask(&monitor.router(|_, _| {}), get("/metrics")).await;
    assert_eq!(
        plain.header("content-type"),
        "text/plain; version=0.0.4; charset=utf-8"
    );
    let family = "\n# TYPE hailer_monitor_samples_total counter\nhailer_monitor_samples_total 12\n";
    assert!(plain.text().contains(family), "{}", plain.text());
    let scrape = async |most| {
        let mut request = get("/metrics");
        let accept = "application/openmetrics-text".parse().unwrap();
        request.headers_mut().insert("accept", accept);
        let router = monitor.router(|_, config| config.server_metrics = most);
        let reply = ask(&router, request).await;
        assert_eq!(
            reply.header("content-type"),
            "application/openmetrics-text; version=1.0.0; charset=utf-8"
        );
        openmetrics::parse(reply.text())
    };
    let page = scrape(10).await;
    let value = |name: &str, labels: &[(&str, &str)]| openmetrics::value(&page, name, labels);
    assert_eq!(value("hailer_monitor_samples_total", &[]), Some(12.0));
    assert_eq!(
        value("hailer_monitor_servers", &[("state", "down")]),
        Some(1.0)
    );
    let group = ("group", "games \"1\"\\");
    let lobby = [("server", "lobby"), group, ("protocol", "minecraft-query")];
    assert_eq!(value("hailer_server_up", &lobby), Some(1.0));
    assert_eq!(value("hailer_server_players", &lobby), Some(1.0));
    assert_eq!(value("hailer_server_max_players", &lobby), Some(20.0));
    assert!(
        value("hailer_server_latency_seconds", &lobby)
            .is_some_and(|seconds| seconds > 0.0 && seconds < 1.0)
    );
    let quiet = [("server", "quiet"), group, ("protocol", "minecraft-query")];
    assert_eq!(
        (
            value("hailer_server_up", &quiet),
            value("hailer_server_players", &quiet)
        ),
        (Some(0.0), None)
    );

    let of_servers = |page: &BTreeMap<openmetrics::Series, f64>| {
        page.keys()
            .filter(|(name, _)| name.starts_with("hailer_server_"))
            .map(|(name, _)| name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        of_servers(&scrape(0).await),
        [""; 0],
        "only behind the switch"
    );
    let first = scrape(1).await;
    assert_eq!(
        of_servers(&first).len(),
        4,
        "as many servers as are wanted, no more"
    );
    assert_eq!(
        first[&(
            "hailer_monitor_servers_without_series".to_owned(),
            BTreeMap::new()
        )],
        1.0
    );

    let dashboard = include_str!("../../../../../contrib/grafana/hailer-monitor.json");
    let dashboard_json: Value = serde_json::from_str(dashboard).unwrap();
    assert!(
        dashboard_json["panels"]
            .as_array()
            .is_some_and(|panels| panels.len() > 5)
    );
    let exported: BTreeSet<&str> = page.keys().map(|(name, _)| &**name).collect();
    let words = dashboard.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let named: BTreeSet<&str> = words.filter(|word| word.starts_with("hailer_")).collect();
    assert!(
        named.is_subset(&exported),
        "not exported: {:?}",
        named.difference(&exported)
    );
    let unused: Vec<_> = exported
        .difference(&named)
        .filter(|name| !name.ends_with("_info"))
        .collect();
    assert!(unused.is_empty(), "not on the dashboard: {unused:?}");
}
