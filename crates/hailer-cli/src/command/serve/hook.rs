//! Hook on join attempts: a command or a webhook, for owners of servers that sleep.
//!
//! Every client can cause a run, with any host and any name that a player can have. The limits:
//!
//! | limit | value |
//! | --- | --- |
//! | runs of a server | one at a time, and one per `every`; other attempts are counted only |
//! | time of a run | 30 s; then the command is killed with its children |
//! | texts of the client | one line of at most 255 bytes, without control characters |
//! | quoted error output of a command | 200 characters |

use crate::config::{HookAction, HookConfig};
use crate::http_client;
use crate::system::{kill_group, start_group};
use hailer::proto::model::printable;
use hailer::proto::protocol::JoinAttempt;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use tracing::{info, warn};

/// Time of a run.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time between checks whether a command has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Wait for the error output of a command that ended: its children may keep it open.
const PIPE_CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum length of a text of a client.
const MAX_TEXT_BYTES: usize = 255;
/// Maximum length of the name of a player.
const MAX_NAME_BYTES: usize = 16;
/// Maximum number of bytes read from the error output of a command.
const MAX_OUTPUT_BYTES: u64 = 4 << 10;
/// Maximum length of a quoted error output.
const MAX_QUOTED_CHARS: usize = 200;

/// Runs the action of one server.
pub(super) struct JoinHook {
    /// Number of the server, from 1.
    server: usize,
    config: HookConfig,
    last_run: Mutex<Option<Instant>>,
    is_running: Arc<AtomicBool>,
}

impl JoinHook {
    pub(super) fn new(server: usize, config: HookConfig) -> Self {
        Self {
            server,
            config,
            last_run: Mutex::default(),
            is_running: Arc::default(),
        }
    }

    /// Starts the action on its own thread, unless a limit forbids it. Returns immediately.
    pub(super) fn record(&self, source: SocketAddr, attempt: &JoinAttempt) {
        if !is_player_name(&attempt.name) || !self.is_due(Instant::now()) {
            return;
        }
        let facts = AttemptVariables::new(self.server, source, attempt);
        info!(
            "server {}: {:?} at {source} tries to join; running on-join",
            self.server, facts.player
        );
        let action = self.config.action.clone();
        let server = self.server;
        let is_running = self.is_running.clone();
        let run = move || {
            if let Err(problem) = facts.run(&action, TIMEOUT) {
                warn!("server {server}: on-join: {problem}");
            }
            is_running.store(false, Ordering::Release);
        };
        let thread = std::thread::Builder::new()
            .name("on-join".into())
            .spawn(run);
        if let Err(error) = thread {
            warn!("server {server}: on-join: {error}");
            self.is_running.store(false, Ordering::Release);
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let mut last_run = self.last_run.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = last_run.is_some_and(|last| now < last + self.config.every);
        if is_early || self.is_running.swap(true, Ordering::AcqRel) {
            return false;
        }
        *last_run = Some(now);
        true
    }
}

/// Returns whether a player can have this name: at most 16 letters, digits and underscores, and
/// before them the dot or star that Floodgate adds to names of Bedrock players.
fn is_player_name(name: &str) -> bool {
    let bare = name.strip_prefix(['.', '*']).unwrap_or(name);
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.len() <= MAX_NAME_BYTES && !bare.is_empty() && bare.bytes().all(is_part)
}

/// Facts about an attempt, for a command or a webhook.
struct AttemptVariables {
    server: usize,
    source: SocketAddr,
    player: String,
    host: String,
    port: u16,
    protocol: i32,
}

impl AttemptVariables {
    fn new(server: usize, source: SocketAddr, attempt: &JoinAttempt) -> Self {
        Self {
            server,
            source,
            player: clean(&attempt.name),
            host: clean(&attempt.host),
            port: attempt.port,
            protocol: attempt.protocol,
        }
    }

    /// Runs an action. Returns the problem if it fails.
    fn run(&self, action: &HookAction, timeout: Duration) -> Result<(), String> {
        match action {
            HookAction::Command(command) => self.run_command(command, timeout),
            HookAction::Webhook(url) => self.post(url.reveal(), timeout),
        }
    }

    /// Sends the facts to a webhook. Errors contain no URL, which may be a secret.
    fn post(&self, url: &str, timeout: Duration) -> Result<(), String> {
        let body = serde_json::json!({
            "event": "join-attempt",
            "server": self.server,
            "source": self.source.to_string(),
            "player": self.player,
            "host": self.host,
            "port": self.port,
            "protocol": self.protocol,
        });
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("hailer/", env!("CARGO_PKG_VERSION")));
        // The proxy of the environment is for other hosts.
        let config = if is_loopback(url) {
            config.proxy(None)
        } else {
            config
        };
        let agent = config.build().new_agent();
        let request = agent.post(url).header("Content-Type", "application/json");
        match request.send(body.to_string().as_bytes()) {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => Err(format!("the webhook responded {}", response.status())),
            Err(error) => {
                let text = http_client::words(error).replace(url, "the URL");
                Err(format!("the webhook failed: {text}"))
            }
        }
    }

    /// Runs a command without a shell, with the facts as environment variables. Its input and
    /// output are empty.
    fn run_command(&self, words: &[String], timeout: Duration) -> Result<(), String> {
        let (program, arguments) = words.split_first().ok_or("the command is empty")?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env("HAILER_EVENT", "join-attempt")
            .env("HAILER_SERVER", self.server.to_string())
            .env("HAILER_SOURCE", self.source.to_string())
            .env("HAILER_PLAYER", &self.player)
            .env("HAILER_HOST", &self.host)
            .env("HAILER_PORT", self.port.to_string())
            .env("HAILER_PROTOCOL", self.protocol.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        start_group(&mut command);
        let mut child = command
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let output = read_errors(&mut child);
        let until = Instant::now() + timeout;
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break Ok(status),
                Ok(None) if Instant::now() < until => std::thread::sleep(CHECK_INTERVAL),
                Ok(None) => {
                    kill_group(&mut child);
                    let _ = child.wait();
                    break Err(format!("was killed after {} s", timeout.as_secs_f32()));
                }
                Err(error) => break Err(error.to_string()),
            }
        };
        let problem = match status {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => format!("ended with {status}"),
            Err(problem) => problem,
        };
        let quoted = output.recv_timeout(PIPE_CLOSE_TIMEOUT).unwrap_or_default();
        Err(if quoted.is_empty() {
            format!("{program} {problem}")
        } else {
            format!("{program} {problem}: {quoted}")
        })
    }
}

fn is_loopback(url: &str) -> bool {
    let uri = url.parse::<ureq::http::Uri>().ok();
    let host = uri.as_ref().and_then(|uri| uri.host());
    let address = host.and_then(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().ok());
    address.is_some_and(|address| address.is_loopback())
}

/// Reads the start of the error output on a thread, and drains the rest, so that the command does
/// not block on it.
fn read_errors(child: &mut Child) -> mpsc::Receiver<String> {
    let (sender, output) = mpsc::channel();
    if let Some(mut pipe) = child.stderr.take() {
        let read = move || {
            let mut bytes = Vec::new();
            let _ = pipe.by_ref().take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes);
            let text = printable(&String::from_utf8_lossy(&bytes));
            let _ = sender.send(text.trim().chars().take(MAX_QUOTED_CHARS).collect());
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        };
        // Without a thread, the output is missing from the error.
        let _ = std::thread::Builder::new()
            .name("on-join-errors".into())
            .spawn(read);
    }
    output
}

/// Returns a text of a client in one line, without control characters.
fn clean(text: &str) -> String {
    let mut text = printable(text);
    while text.len() > MAX_TEXT_BYTES {
        text.pop();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    fn attempt(name: &str) -> JoinAttempt {
        JoinAttempt {
            name: name.into(),
            host: "play.example.com".into(),
            port: 25_565,
            protocol: 772,
        }
    }

    fn source() -> SocketAddr {
        "192.0.2.7:50000".parse().unwrap()
    }

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).into()
    }

    fn temporary(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("hailer-hook-{}-{name}", std::process::id()))
    }

    fn until(mut is_so: impl FnMut() -> bool) {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() < Duration::from_secs(10), "timed out");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_command_runs_at_most_once_per_interval() {
        let path = temporary("runs");
        let _ = std::fs::remove_file(&path);
        let script = format!(
            "echo \"$HAILER_EVENT $HAILER_SERVER $HAILER_SOURCE <$HAILER_PLAYER> $HAILER_HOST $HAILER_PORT $HAILER_PROTOCOL\" >> {}",
            path.display()
        );
        let every = Duration::from_millis(700);
        let action = HookAction::Command(shell(&script));
        let hook = JoinHook::new(3, HookConfig { action, every });
        let lines = || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        for _ in 0..50 {
            hook.record(source(), &attempt("$(id)\n\x1b[31m; Eve"));
            hook.record(source(), &attempt(".Eve_42"));
        }
        until(|| lines().len() == 1 && !hook.is_running.load(Ordering::Acquire));
        let line = "join-attempt 3 192.0.2.7:50000 <.Eve_42> play.example.com 25565 772";
        assert_eq!(lines(), [line]);
        std::thread::sleep(every);
        hook.record(source(), &attempt("Bob"));
        until(|| lines().len() == 2);
        assert!(lines()[1].contains("<Bob>"));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn only_names_that_players_can_have_are_accepted() {
        for name in ["Alice", "_", "0123456789abcdef", ".Bob", "*Bob_2"] {
            assert!(is_player_name(name), "{name}");
        }
        for name in [
            "",
            ".",
            "..",
            "0123456789abcdefg",
            ".123456789abcdefg",
            "a b",
            "../x",
            "-rf",
            "$HOME",
            "a\n",
            "Zo\u{EB}",
            "Al\u{200B}ice",
            "a;b",
            "\0",
        ] {
            assert!(!is_player_name(name), "{name:?}");
        }
    }

    #[test]
    fn one_run_at_a_time() {
        let config = HookConfig {
            action: HookAction::Command(shell("sleep 1")),
            every: Duration::ZERO,
        };
        let hook = JoinHook::new(1, config);
        let now = Instant::now();
        assert!(hook.is_due(now));
        assert!(!hook.is_due(now + Duration::from_secs(60)));
        hook.is_running.store(false, Ordering::Release);
        assert!(hook.is_due(now + Duration::from_secs(61)));
    }

    #[test]
    fn failures_of_a_command_are_described() {
        let facts = AttemptVariables::new(1, source(), &attempt("Alice"));
        let run = |script: &str, timeout| facts.run(&HookAction::Command(shell(script)), timeout);
        let second = Duration::from_secs(1);
        assert_eq!(run("exit 0", 10 * second), Ok(()));
        let problem = run("echo no server >&2; exit 3", 10 * second).unwrap_err();
        assert!(problem.contains("exit status: 3: no server"), "{problem}");
        let started = Instant::now();
        // The child of the shell keeps the output open, and is killed with it.
        let problem = run("sleep 60 & sleep 60", second / 4).unwrap_err();
        assert!(problem.contains("was killed after 0.25 s"), "{problem}");
        assert!(started.elapsed() < 10 * second);
        let missing = HookAction::Command(vec!["/no/such/program".into()]);
        let problem = facts.run(&missing, second).unwrap_err();
        assert!(problem.starts_with("/no/such/program: No such file"));
    }

    /// Accepts one request, responds with a status line, and returns the request.
    fn webhook(response: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/secret-path", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = String::new();
            let mut bytes = [0; 4_096];
            while !request.ends_with('}') {
                let length = stream.read(&mut bytes).unwrap();
                request += std::str::from_utf8(&bytes[..length]).unwrap();
            }
            let response = format!("HTTP/1.1 {response}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(response.as_bytes()).unwrap();
            request
        });
        (url, server)
    }

    #[test]
    fn a_webhook_gets_the_facts_as_json() {
        let facts = AttemptVariables::new(2, source(), &attempt("Al\"ice"));
        let (url, server) = webhook("204 No Content");
        let action = HookAction::Webhook(url.into());
        assert_eq!(facts.run(&action, TIMEOUT), Ok(()));
        let request = server.join().unwrap();
        assert!(request.starts_with("POST /secret-path HTTP/1.1\r\n"));
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        let expected = serde_json::json!({
            "event": "join-attempt", "server": 2, "source": "192.0.2.7:50000",
            "player": "Al\"ice", "host": "play.example.com", "port": 25_565, "protocol": 772,
        });
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body, expected);

        let (url, server) = webhook("500 Broken");
        let problem = facts
            .run(&HookAction::Webhook(url.into()), TIMEOUT)
            .unwrap_err();
        assert!(
            problem.contains("500") && !problem.contains("secret-path"),
            "{problem}"
        );
        server.join().unwrap();
    }

    #[test]
    fn texts_of_clients_are_short() {
        assert_eq!(clean(&"\u{e9}".repeat(300)).len(), 254);
        assert_eq!(clean("a\u{202e}b\0\n"), "ab ");
    }
}
