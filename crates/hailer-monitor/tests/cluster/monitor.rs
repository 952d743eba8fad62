//! Runs a monitor in a separate process, so that a test can kill it: the test program starts
//! itself.

use hailer_monitor::cluster;
use hailer_monitor::history::History;
use hailer_monitor::monitor::{Monitor, MonitorConfig};
use hailer_monitor::web::api::{Api, ApiBackend, Token};
use hailer_monitor::web::{self, App, api};
use std::io::{BufRead, BufReader, Lines, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

pub const INTERVAL: Duration = Duration::from_secs(4);
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

pub struct Process {
    child: Child,
    port: u16,
    /// Kept open: writing to a closed pipe would end the process.
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    pub fn start(redis: &str, history: &str) -> Self {
        Self::with_clock(redis, history, 0)
    }

    /// Starts a process whose clock is this much ahead, in milliseconds.
    pub fn with_clock(redis: &str, history: &str, ahead: i64) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "monitor::process",
            "--nocapture",
            "--test-threads",
            "1",
        ]);
        command
            .env("HAILER_TEST_REDIS", redis)
            .env("HAILER_TEST_HISTORY", history)
            .env("HAILER_TEST_CLOCK", ahead.to_string());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let port_of = |line: String| line.split_once("page at ")?.1.trim().parse().ok();
        let port = lines.by_ref().map_while(Result::ok).find_map(port_of);
        Self {
            child,
            port: port.expect("no line with the port of its page"),
            _lines: lines,
        }
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sets the clock of the process to this much ahead, in milliseconds.
    pub fn set_clock(&mut self, ahead: i64) {
        writeln!(self.child.stdin.as_ref().unwrap(), "{ahead}").unwrap();
    }

    pub fn signal(&self, signal: &str) {
        assert!(
            Command::new("kill")
                .args([signal, &self.child.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Returns the body of a page.
    pub fn page(&self, path: &str) -> String {
        let mut answer = ureq::get(format!("http://127.0.0.1:{}{path}", self.port))
            .call()
            .unwrap();
        answer.body_mut().read_to_string().unwrap()
    }

    /// Returns the body of an API response. The body of an error includes its HTTP status.
    pub fn api(&self, method: &str, path: &str, body: Option<&str>) -> String {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(5)));
        let request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("http://127.0.0.1:{}/api/v1/{path}", self.port))
            .header("Authorization", format!("Bearer {TOKEN}"))
            .header("Content-Type", "application/json");
        let agent = config.build().new_agent();
        let mut answer = agent
            .run(request.body(body.unwrap_or_default().to_owned()).unwrap())
            .unwrap();
        answer.body_mut().read_to_string().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process ends when its input is closed.
        drop(self.child.stdin.take());
        for _ in 0..100 {
            if self.child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.kill();
    }
}

/// The process that [`Process`] starts. Does nothing on its own.
#[test]
fn process() {
    let Ok(redis) = std::env::var("HAILER_TEST_REDIS") else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let history = History::open(&std::env::var("HAILER_TEST_HISTORY").unwrap())
            .await
            .unwrap();
        let mut config = MonitorConfig::default();
        config.poll.interval = INTERVAL;
        let clock = config.poll.clock.clone();
        if let Ok(offset) = std::env::var("HAILER_TEST_CLOCK") {
            clock.set_offset(offset.parse().unwrap());
        }
        let redis = hailer::support::link::RedisConfig::new(&redis).unwrap();
        let mut cluster = cluster::ClusterConfig::new(redis, INTERVAL);
        cluster.name = "test".into();
        config.cluster = Some(cluster);
        let monitor = Monitor::start(history.clone(), config).await.unwrap();
        let parts = ApiBackend {
            live: monitor.live().clone(),
            history: history.clone(),
            watchlist: Some(monitor.watchlist().clone()),
            alerts: None,
            health: Arc::new(monitor.health_reader()),
        };
        let mut app = App::new(monitor.live().clone(), history);
        let config = api::ApiConfig {
            interval: INTERVAL,
            token: Some(Token::new(TOKEN).unwrap()),
            ..api::ApiConfig::default()
        };
        app.api = Some(Api::new(parts, config));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("page at {}", listener.local_addr().unwrap().port());
        let service = web::router(app).into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async { axum::serve(listener, service).await });
        // Each line is a new offset of the clock.
        tokio::task::spawn_blocking(move || {
            for line in std::io::stdin().lines() {
                clock.set_offset(line.unwrap().parse().unwrap());
            }
        })
        .await
        .unwrap();
        monitor.stop().await;
    });
}
