//! Alerts from the state table to a receiver over HTTP: retries, and a monitor that is killed.

use hailer_monitor::alert::{AlertConfig, Alerts};
use hailer_monitor::health::State;
use hailer_monitor::history::History;
use hailer_monitor::sample::{Millis, Sample};
use hailer_monitor::server::{Origin, Server, ServerId};
use hailer_monitor::state::{StateTable, Update};
use hailer_monitor::test_alert::{TestAlert, TestAlerts};
use hailer_testkit::postgres;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

const TIMEOUT: Duration = Duration::from_secs(20);
const MINUTE: Duration = Duration::from_secs(60);

/// A receiver on loopback.
struct Hook {
    listener: TcpListener,
}

/// A received message.
struct Got {
    stream: TcpStream,
    key: String,
    body: serde_json::Value,
}

impl Hook {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { listener }
    }

    fn config(&self) -> String {
        let port = self.listener.local_addr().unwrap().port();
        format!(
            "[[receiver]]\nname = 'ops'\nform = 'json'\nurl = 'http://127.0.0.1:{port}/hush'\ntimeout = '5s'\n
             [[alert]]\nname = 'gone'\nwhen = 'down'\nto = ['ops']\ngather = '0s'\nzone = 'UTC'\n"
        )
    }

    /// Returns the next request, if one arrives in time.
    fn next(&self, timeout: Duration) -> Option<Got> {
        let until = Instant::now() + timeout;
        let mut stream = loop {
            match self.listener.accept() {
                Ok((stream, _)) => break stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) => panic!("{error}"),
            }
        };
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let mut request = Vec::new();
        let mut part = [0; 4096];
        loop {
            let read = stream.read(&mut part).unwrap();
            assert!(read > 0, "the request ends too early");
            request.extend_from_slice(&part[..read]);
            let text = String::from_utf8_lossy(&request).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let header = |wanted: &str| {
                let mut headers = head.lines().filter_map(|line| line.split_once(':'));
                headers
                    .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
                    .map(|(_, value)| value.trim().to_owned())
            };
            if body.len() >= header("content-length").unwrap().parse().unwrap() {
                let key = header("idempotency-key").unwrap();
                return Some(Got {
                    stream,
                    key,
                    body: serde_json::from_str(body).unwrap(),
                });
            }
        }
    }
}

impl Got {
    fn answer(mut self, head: &str) {
        self.stream
            .write_all(format!("HTTP/1.1 {head}\r\nContent-Length: 0\r\n\r\n").as_bytes())
            .unwrap();
    }

    fn title(&self) -> &str {
        self.body["title"].as_str().unwrap()
    }
}

fn now() -> Millis {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_millis() as Millis
}

/// One server that is down.
fn live(since: Millis) -> Arc<StateTable> {
    let live = Arc::new(StateTable::default());
    live.set(Server {
        id: ServerId(1),
        name: "lobby".into(),
        target: "ugp://127.0.0.1".into(),
        group: String::new(),
        labels: BTreeMap::new(),
        interval: None,
        origin: Origin::Configuration,
    });
    show(&live, State::Down, since);
    live
}

fn show(live: &StateTable, state: State, since: Millis) {
    let update = Update::of(vec![ServerId(1)]);
    live.change(update, |row| {
        row.state = state;
        row.since = since;
        row.last_sample = Some(Sample {
            observed_ms: 0,
            server: ServerId(1),
            at: since,
            is_answered: state == State::Up,
            players: None,
            max: None,
            latency: None,
            sent: 1,
            resent: 0,
        });
    });
}

async fn start(config: &str, live: Arc<StateTable>, history: &History) -> Alerts {
    let config: AlertConfig = toml::from_str(config).unwrap();
    Alerts::start(config.check(Path::new(".")).unwrap(), live, history, MINUTE)
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_messages_are_retried_in_order_with_the_same_key() {
    let hook = Hook::new();
    let history = History::open("sqlite::memory:").await.unwrap();
    let live = live(now());
    let alerts = start(&hook.config(), live.clone(), &history).await;
    let first = hook.next(TIMEOUT).expect("it is down");
    assert_eq!(first.title(), "lobby is down");
    assert_eq!(alerts.open(Some(ServerId(1))).len(), 1);
    let key = first.key.clone();
    let schema = include_str!("../../../../schema/alert-v2.json");
    let schema = jsonschema::draft202012::new(&serde_json::from_str(schema).unwrap()).unwrap();
    let errors: Vec<String> = schema
        .iter_errors(&first.body)
        .map(|error| error.to_string())
        .collect();
    assert!(errors.is_empty(), "{errors:?}\n{:#}", first.body);
    first.answer("503 Busy\r\nRetry-After: 2");
    let second = hook.next(TIMEOUT).expect("it is sent again");
    assert_eq!(
        (second.title(), second.key.as_str()),
        ("lobby is down", key.as_str())
    );
    let health = alerts.health();
    assert!(health.waiting["ops"].1.contains("503"), "{health:?}");
    second.answer("307 Elsewhere\r\nLocation: http://127.0.0.2:9/\r\nRetry-After: 0");
    let third = hook.next(TIMEOUT).expect("redirects are not followed");
    assert_eq!(third.key, key);
    third.answer("200 OK");
    written(&alerts, "Done").await;
    show(&live, State::Up, now());
    let over = hook.next(TIMEOUT).expect("it is up");
    assert_eq!(over.title(), "lobby is up again");
    assert_ne!(over.key, key);
    over.answer("403 No");
    let config: AlertConfig = toml::from_str(&hook.config()).unwrap();
    let tests = TestAlerts::new(Arc::new(config.check(Path::new(".")).unwrap()));
    let testing = tokio::spawn(async move { tests.send(Some("ops".into())).await });
    let got = hook.next(TIMEOUT).expect("a test");
    assert_eq!(got.body["kind"], "test");
    got.answer("410 Gone");
    let refused = testing.await.unwrap().unwrap_err();
    assert!(refused.to_string().contains("410"), "a test says why");
    written(&alerts, "GivenUp").await;
    let log = alerts.log(i64::MAX, 10).await.unwrap();
    let log: Vec<String> = log
        .iter()
        .map(|message| format!("{:?} {}", message.state, message.attempts))
        .collect();
    assert_eq!(log, ["GivenUp 0", "Done 2"]);
    let health = alerts.health();
    assert_eq!(
        (health.delivered, health.failed, health.given_up),
        (1, 3, 1)
    );
    assert!(alerts.open(None).is_empty());
}

#[test]
fn restart_with_postgresql() {
    let Some(server) = postgres::Server::start("alerts") else {
        return;
    };
    let hook = Hook::new();
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let history = History::open(&server.url()).await.unwrap();
        let live = live(now());
        let alerts = start(&hook.config(), live.clone(), &history).await;
        hook.next(TIMEOUT)
            .expect("it is down")
            .answer("204 No Content");
        written(&alerts, "Done").await;
        drop(alerts);
        let alerts = start(&hook.config(), live.clone(), &history).await;
        assert_eq!(alerts.open(None).len(), 1, "it knows what is not over");
        assert!(hook.next(Duration::from_secs(2)).is_none(), "it was told");
        show(&live, State::Up, now());
        let over = hook.next(TIMEOUT).expect("it is up");
        assert_eq!(over.title(), "lobby is up again");
        over.answer("400 Bad");
        written(&alerts, "GivenUp").await;
        assert!(alerts.health().last_given_up.unwrap().contains("400"));
        history.close().await;
    });
}

/// Waits until the newest message has this state.
async fn written(alerts: &Alerts, state: &str) {
    let until = Instant::now() + TIMEOUT;
    loop {
        let log = alerts.log(i64::MAX, 1).await.unwrap();
        if log
            .first()
            .is_some_and(|message| format!("{:?}", message.state) == state)
        {
            return;
        }
        assert!(Instant::now() < until, "{log:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A monitor in its own process, killed at the end.
struct Monitor(Child);

impl Monitor {
    fn start(database: &Path, config: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "monitor_to_be_killed", "--nocapture"]);
        command
            .env("HAILER_TEST_DATABASE", database)
            .env("HAILER_TEST_CONFIG", config);
        Self(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn()
                .unwrap(),
        )
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // SIGKILL on Unix.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A temporary folder.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder =
            std::env::temp_dir().join(format!("hailer-alerts-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The process that `kill_between_sending_and_storing_sends_again` starts. Does nothing on its
/// own.
#[test]
fn monitor_to_be_killed() {
    let Some(database) = std::env::var_os("HAILER_TEST_DATABASE") else {
        return;
    };
    let config = std::env::var("HAILER_TEST_CONFIG").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let history = History::open(&format!("sqlite:{}", Path::new(&database).display()))
            .await
            .unwrap();
        let _alerts = start(&config, live(1_780_315_200_000), &history).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
}

#[test]
fn kill_between_sending_and_storing_sends_again() {
    let folder = Folder::new("killed");
    let database = folder.path().join("history.db");
    let hook = Hook::new();
    let config = hook.config();
    let monitor = Monitor::start(&database, &config);
    let first = hook.next(TIMEOUT).expect("it is down");
    drop(monitor);
    let monitor = Monitor::start(&database, &config);
    let second = hook
        .next(TIMEOUT)
        .expect("the receiver did not confirm the message");
    assert_eq!(
        (&first.key, &first.body),
        (&second.key, &second.body),
        "the key of a retry"
    );
    second.answer("204 No Content");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        sqlx::any::install_default_drivers();
        let pool = sqlx::AnyPool::connect(&format!("sqlite:{}", database.display()))
            .await
            .unwrap();
        let until = Instant::now() + TIMEOUT;
        while sqlx::query("SELECT id FROM alert_message WHERE state = 1")
            .fetch_all(&pool)
            .await
            .unwrap()
            .is_empty()
        {
            assert!(Instant::now() < until, "the delivery is not stored");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        pool.close().await;
    });
    drop(monitor);
    let _monitor = Monitor::start(&database, &config);
    assert!(
        hook.next(Duration::from_secs(4)).is_none(),
        "delivered messages are not sent again while the server is down"
    );
}
