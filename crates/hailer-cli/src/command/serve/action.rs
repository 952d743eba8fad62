//! Runs commands and webhooks for hooks and doors.
//!
//! ```text
//!   Facts ─► environment variables HAILER_*   command, without a shell
//!         ─► JSON                             webhook, by POST
//! ```
//!
//! Clients choose some of the facts. The limits:
//!
//! | limit | value |
//! | --- | --- |
//! | time of a run | chosen by the caller; then the command is killed with its children |
//! | texts of the client | one line of at most 255 bytes, without control characters |
//! | quoted error output of a command | 200 characters |
//!
//! In: an action, facts. Out: requests, processes, the problem of a run.
//!
//! May import: `crate::config`, `crate::http_client`, `crate::system`, `hailer`.

use crate::config::HookAction;
use crate::http_client;
use crate::system::{kill_group, start_group};
use hailer::proto::model::{printable, uuid_text};
use hailer::proto::protocol::JoinAttempt;
use serde_json::{Map, Value};
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Time between checks whether a command has ended.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Wait for the output of a command that ended: its children may keep it open.
const PIPE_CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum length of a text of a client.
const MAX_TEXT_BYTES: usize = 255;
/// Maximum number of bytes read from an output of a command.
const MAX_OUTPUT_BYTES: u64 = 4 << 10;
/// Maximum length of a quoted error output.
const MAX_QUOTED_CHARS: usize = 200;
/// All keys of facts. Keys that an event lacks are removed from the environment of a command.
const KEYS: [&str; 11] = [
    "event", "server", "name", "cause", "source", "player", "uuid", "host", "port", "protocol",
    "reason",
];

/// Facts about an event, for a command or a webhook.
#[derive(Clone, Debug)]
pub(super) struct Facts(Map<String, Value>);

impl Facts {
    /// Returns the facts about an event of a server, with its number from 1.
    pub(super) fn new(event: &str, server: usize) -> Self {
        Self(Map::new()).with("event", event).with("server", server)
    }

    /// Adds a fact. The key is one of [`KEYS`].
    pub(super) fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        debug_assert!(KEYS.contains(&key), "{key}");
        let value = match value.into() {
            Value::String(text) => Value::String(clean(&text)),
            value => value,
        };
        self.0.insert(key.to_owned(), value);
        self
    }

    /// Adds the facts of a join attempt.
    pub(super) fn with_join(self, source: SocketAddr, attempt: &JoinAttempt) -> Self {
        let facts = match &attempt.uuid {
            Some(uuid) => self.with("uuid", uuid_text(uuid)),
            None => self,
        };
        facts
            .with("source", source.to_string())
            .with("player", &*attempt.name)
            .with("host", &*attempt.host)
            .with("port", attempt.port)
            .with("protocol", attempt.protocol)
    }

    /// Returns environment variables such as `HAILER_EVENT`, and `None` for absent facts.
    fn variables(&self) -> impl Iterator<Item = (String, Option<String>)> {
        KEYS.into_iter().map(|key| {
            let value = self.0.get(key).map(|value| match value {
                Value::String(text) => text.clone(),
                value => value.to_string(),
            });
            (format!("HAILER_{}", key.to_ascii_uppercase()), value)
        })
    }
}

/// Runs an action. Returns the problem if it fails. Blocks for at most `timeout`.
pub(super) fn run(action: &HookAction, facts: &Facts, timeout: Duration) -> Result<(), String> {
    match action {
        HookAction::Command(words) => run_command(words, facts, timeout),
        HookAction::Webhook(url) => post(url.reveal(), facts, timeout),
    }
}

/// Sends the facts to a webhook. Errors contain no URL, which may be a secret.
fn post(url: &str, facts: &Facts, timeout: Duration) -> Result<(), String> {
    let body = Value::Object(facts.0.clone());
    let agent = agent(url, timeout);
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

/// Returns a client for one request that must not be redirected.
pub(super) fn agent(url: &str, timeout: Duration) -> ureq::Agent {
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
    config.build().new_agent()
}

/// Runs a command without a shell, with the facts as environment variables. Its input and output
/// are empty.
fn run_command(words: &[String], facts: &Facts, timeout: Duration) -> Result<(), String> {
    let ended = wait_for(words, facts, timeout, Stdio::null())?;
    if ended.status.success() {
        return Ok(());
    }
    let problem = format!("{} ended with {}", words[0], ended.status);
    Err(with_quote(problem, &ended.errors))
}

/// Runs a command as [`run`] does, and returns its output if it succeeds: at most 4 KiB.
///
/// # Errors
/// It cannot be started, fails, or takes too long. The error quotes its error output.
pub(super) fn output_of(words: &[String], timeout: Duration) -> Result<String, String> {
    let ended = wait_for(words, &Facts(Map::new()), timeout, Stdio::piped())?;
    if ended.status.success() {
        return Ok(ended.output.read());
    }
    let problem = format!("{} ended with {}", words[0], ended.status);
    Err(with_quote(problem, &ended.errors))
}

/// A command that has ended by itself.
struct Ended {
    status: ExitStatus,
    output: Pipe,
    errors: Pipe,
}

/// Runs a command until it ends.
///
/// # Errors
/// It cannot be started, or takes longer than `timeout`: then it is killed with its children.
fn wait_for(
    words: &[String],
    facts: &Facts,
    timeout: Duration,
    output: Stdio,
) -> Result<Ended, String> {
    let (program, arguments) = words.split_first().ok_or("the command is empty")?;
    let mut command = Command::new(program);
    for (name, value) in facts.variables() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::piped());
    start_group(&mut command);
    let mut child = command
        .spawn()
        .map_err(|error| format!("{program}: {error}"))?;
    let output = Pipe::drain(child.stdout.take());
    let errors = Pipe::drain(child.stderr.take());
    let until = Instant::now() + timeout;
    let problem = loop {
        match child.try_wait() {
            Ok(Some(status)) => {
                return Ok(Ended {
                    status,
                    output,
                    errors,
                });
            }
            Ok(None) if Instant::now() < until => std::thread::sleep(CHECK_INTERVAL),
            Ok(None) => {
                kill_group(&mut child);
                let _ = child.wait();
                break format!("{program} was killed after {} s", timeout.as_secs_f32());
            }
            Err(error) => break format!("{program} {error}"),
        }
    };
    Err(with_quote(problem, &errors))
}

fn with_quote(problem: String, errors: &Pipe) -> String {
    let text = printable(&errors.read());
    let quoted: String = text.trim().chars().take(MAX_QUOTED_CHARS).collect();
    if quoted.is_empty() {
        problem
    } else {
        format!("{problem}: {quoted}")
    }
}

fn is_loopback(url: &str) -> bool {
    let uri = url.parse::<ureq::http::Uri>().ok();
    let host = uri.as_ref().and_then(|uri| uri.host());
    let address = host.and_then(|host| host.trim_matches(['[', ']']).parse::<IpAddr>().ok());
    address.is_some_and(|address| address.is_loopback())
}

/// The start of an output of a command.
struct Pipe(mpsc::Receiver<String>);

impl Pipe {
    /// Reads the start on a thread, and drains the rest, so that the command does not block on it.
    fn drain(pipe: Option<impl Read + Send + 'static>) -> Self {
        let (sender, output) = mpsc::channel();
        if let Some(mut pipe) = pipe {
            let read = move || {
                let mut bytes = Vec::new();
                let _ = pipe.by_ref().take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes);
                let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
                let _ = std::io::copy(&mut pipe, &mut std::io::sink());
            };
            // Without a thread, the output is missing.
            let _ = std::thread::Builder::new()
                .name("command-output".into())
                .spawn(read);
        }
        Self(output)
    }

    /// Returns the start. Empty if a child of the command keeps the pipe open.
    fn read(&self) -> String {
        self.0.recv_timeout(PIPE_CLOSE_TIMEOUT).unwrap_or_default()
    }
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
pub(crate) mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    /// Time of a run.
    const TIMEOUT: Duration = Duration::from_secs(30);

    pub(crate) fn attempt(name: &str) -> JoinAttempt {
        JoinAttempt {
            name: name.into(),
            uuid: Some([0xAB; 16]),
            host: "play.example.com".into(),
            port: 25_565,
            protocol: 772,
        }
    }

    pub(crate) fn source() -> SocketAddr {
        "192.0.2.7:50000".parse().unwrap()
    }

    pub(crate) fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).into()
    }

    pub(crate) fn temporary(name: &str) -> std::path::PathBuf {
        std::env::temp_dir().join(format!("hailer-action-{}-{name}", std::process::id()))
    }

    pub(crate) fn until(mut is_so: impl FnMut() -> bool) {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() < Duration::from_secs(10), "timed out");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Accepts one request, responds with a status line, and returns the request.
    pub(crate) fn webhook(response: &'static str) -> (String, std::thread::JoinHandle<String>) {
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
    fn failures_of_a_command_are_described() {
        let facts = Facts::new("join-attempt", 1).with_join(source(), &attempt("Alice"));
        let run = |script: &str, timeout| {
            super::run(&HookAction::Command(shell(script)), &facts, timeout)
        };
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
        let problem = super::run(&missing, &facts, second).unwrap_err();
        assert!(problem.starts_with("/no/such/program: No such file"));
    }

    #[test]
    fn a_webhook_gets_the_facts_as_json() {
        let facts = Facts::new("join-attempt", 2).with_join(source(), &attempt("Al\"ice"));
        let (url, server) = webhook("204 No Content");
        let action = HookAction::Webhook(url.into());
        assert_eq!(run(&action, &facts, TIMEOUT), Ok(()));
        let request = server.join().unwrap();
        assert!(request.starts_with("POST /secret-path HTTP/1.1\r\n"));
        let (_, body) = request.split_once("\r\n\r\n").unwrap();
        let expected = serde_json::json!({
            "event": "join-attempt", "server": 2, "source": "192.0.2.7:50000",
            "player": "Al\"ice", "uuid": "abababab-abab-abab-abab-abababababab", "host": "play.example.com", "port": 25_565, "protocol": 772,
        });
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body, expected);

        let (url, server) = webhook("500 Broken");
        let action = HookAction::Webhook(url.into());
        let problem = run(&action, &facts, TIMEOUT).unwrap_err();
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

    #[test]
    fn facts_of_other_events_are_removed_from_the_environment() {
        let facts = Facts::new("sleep", 1).with("name", "survival");
        let script = "env | grep ^HAILER_ | grep -v _NEEDS_ | sort | tr '\\n' ' ' >&2; exit 1";
        let problem = run(&HookAction::Command(shell(script)), &facts, TIMEOUT).unwrap_err();
        let expected = "HAILER_EVENT=sleep HAILER_NAME=survival HAILER_SERVER=1";
        assert!(problem.ends_with(expected), "{problem}");
    }

    #[test]
    fn hostile_texts_stay_values() {
        let path = temporary("hostile");
        for name in [
            "$(touch PATH)",
            "`touch PATH`",
            "'; touch PATH; '",
            "a\nHAILER_X=1",
            "a\0b",
            "() { :;}; touch PATH",
        ] {
            let name = name.replace("PATH", &path.display().to_string());
            let facts = Facts::new("wake", 1).with_join(source(), &attempt(&name));
            let script = "env | grep -c ^HAILER_X= >&2; printf %s \"$HAILER_PLAYER\" >&2; exit 1";
            let action = HookAction::Command(shell(script));
            let problem = run(&action, &facts, TIMEOUT).unwrap_err();
            let quoted = problem.split_once(": 0").map(|(_, quoted)| quoted.trim());
            assert_eq!(quoted, Some(clean(&name).trim()), "{problem}");
            assert!(!path.exists(), "{name}");
        }
    }
}
