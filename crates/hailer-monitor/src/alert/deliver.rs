//! Sends one message to a receiver, by HTTP or by running a command. Blocking: runs on its own thread.
//!
//! Bounds: 10 s for a response unless configured (100 ms to 5 min), 4 KiB of a response or of a
//! command's error output are read, 200 characters of it are quoted, and `Retry-After` counts for at
//! most one day. Redirects are not followed.
//!
//! In: a message and its receiver. Out: an HTTP request or a process; whether it was delivered.
//!
//! May import: `crate::alert::message`, `crate::alert::notification`, `crate::alert::rule`,
//! `crate::sample`, `hailer`.

use super::message::{Form, Rendered, render};
use super::notification::Notification;
use super::rule::{ConfigDuration, MAX_NAME_CHARS, RuleError, is_valid_name};
use crate::sample::Millis;
use hailer::proto::Secret;
use hailer::proto::model::printable;
use jiff::fmt::rfc2822;
use serde::Deserialize;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::Uri;

/// Maximum number of bytes read from a response, or from the error output of a command.
const MAX_RESPONSE_BYTES: u64 = 4 << 10;
/// Maximum length of a response quoted in an error, in characters.
const MAX_QUOTED_CHARS: usize = 200;
/// Default time for a receiver to respond.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for the error output of a command that ended: its children may keep it open.
const PIPE_CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// How long to wait for a killed command to exit.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest `Retry-After` that is honored.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// One `[[receiver]]` of the configuration.
///
/// ```toml
/// [[receiver]]
/// name = "ops"
/// form = "discord"                        # json, discord, slack, ntfy
/// url = "https://discord.example/api/…"   # a secret; better one of the following:
/// # url-file = "ops.url"                  # relative to the configuration file
/// # url-env = "OPS_URL"
/// # token-file = "ops.token"              # or token-env: a bearer token, for ntfy and others
/// timeout = "10s"                         # 100ms to 5m
/// per-minute = 20                         # maximum rate, after a burst of five messages
///
/// [[receiver]]
/// name = "script"
/// # Runs without a shell, with the message in environment variables HAILER_…; ./on-alert would be
/// # relative to the configuration file.
/// command = ["/usr/local/bin/on-alert", "--from", "hailer"]
/// timeout = "30s"                         # then it is killed with its children
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ReceiverConfig")]
pub struct Receiver {
    /// Unique name, which rules refer to.
    pub name: String,
    endpoint: Endpoint,
    /// Time to respond, from 100 ms to 5 min.
    pub timeout: Duration,
    /// Maximum number of messages per minute, from 1 to 6,000.
    pub per_minute: u32,
}

#[derive(Clone, Debug)]
enum Endpoint {
    Http {
        form: Form,
        url: SecretRef,
        token: Option<SecretRef>,
    },
    Command(Vec<String>),
}

/// Where a secret is stored.
#[derive(Clone, Debug)]
enum SecretRef {
    Inline(Secret),
    File(PathBuf),
    Variable(String),
}

/// A receiver whose secrets were read.
#[derive(Clone)]
pub struct OpenReceiver {
    /// Unique name of the receiver.
    pub name: String,
    /// Maximum number of messages per minute, from 1 to 6,000.
    pub per_minute: u32,
    timeout: Duration,
    endpoint: OpenEndpoint,
}

#[derive(Clone)]
enum OpenEndpoint {
    Http {
        form: Form,
        url: Secret,
        host: String,
        token: Option<Secret>,
        agent: Agent,
    },
    Command(Vec<String>),
}

/// Result of sending one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The receiver accepted the message.
    Delivered,
    /// A temporary error, and the delay that the receiver asked for.
    Retry(String, Option<Duration>),
    /// A permanent error: retrying cannot help.
    Rejected(String),
}

impl Receiver {
    /// Reads the secrets. Relative paths start at `folder`.
    ///
    /// # Errors
    /// If a secret cannot be read or is not an HTTP URL.
    pub fn open(&self, folder: &Path) -> Result<OpenReceiver, RuleError> {
        let error = |problem: String| RuleError(format!("receiver \"{}\": {problem}", self.name));
        let endpoint = match &self.endpoint {
            Endpoint::Command(command) => {
                let mut command = command.clone();
                // A program without a slash is searched in PATH.
                if let Some(program) = command.first_mut().filter(|program| program.contains('/')) {
                    *program = folder.join(&*program).to_string_lossy().into_owned();
                }
                OpenEndpoint::Command(command)
            }
            Endpoint::Http { form, url, token } => {
                let url = url.read(folder).map_err(&error)?;
                let host = host(url.reveal()).map_err(|problem| error(problem.into()))?;
                let token = token
                    .as_ref()
                    .map(|token| token.read(folder))
                    .transpose()
                    .map_err(&error)?;
                let agent = agent(&host, self.timeout);
                OpenEndpoint::Http {
                    form: *form,
                    url,
                    host,
                    token,
                    agent,
                }
            }
        };
        Ok(OpenReceiver {
            name: self.name.clone(),
            per_minute: self.per_minute,
            timeout: self.timeout,
            endpoint,
        })
    }
}

impl OpenReceiver {
    /// Sends one message made of `notifications`. `key` must be the same whenever the same message is
    /// sent again. `page` is the URL of the web pages.
    pub fn send(
        &self,
        notifications: &[Notification],
        key: &str,
        page: Option<&str>,
        now: Millis,
    ) -> Delivery {
        match &self.endpoint {
            OpenEndpoint::Command(command) => run(
                command,
                &render(Form::Command, notifications, key, page),
                self.timeout,
            ),
            OpenEndpoint::Http {
                form,
                url,
                token,
                agent,
                ..
            } => self.post(
                agent,
                url,
                token.as_ref(),
                &render(*form, notifications, key, page),
                key,
                now,
            ),
        }
    }

    fn post(
        &self,
        agent: &Agent,
        url: &Secret,
        token: Option<&Secret>,
        message: &Rendered,
        key: &str,
        now: Millis,
    ) -> Delivery {
        let mut request = agent.post(url.reveal()).header("Idempotency-Key", key);
        for (name, value) in &message.headers {
            // As bytes: ntfy accepts UTF-8 in headers.
            request = request.header(name.as_str(), value.as_bytes());
        }
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {}", token.reveal()));
        }
        let mut response = match request.send(&message.body[..]) {
            Ok(response) => response,
            Err(error) => return Delivery::Retry(self.describe(&error), None),
        };
        let status = response.status();
        if status.is_success() {
            return Delivery::Delivered;
        }
        let header = |name: &str| {
            response
                .headers()
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let after = header("Retry-After").and_then(|value| retry_after(&value, now));
        if status.is_redirection() {
            // Do not follow redirects: alerts must only go to the configured host.
            let why = format!(
                "the receiver answered {status}, a redirect, which is not followed; configure the new URL"
            );
            return if matches!(status.as_u16(), 301 | 308) {
                Delivery::Rejected(why)
            } else {
                Delivery::Retry(why, after)
            };
        }
        let mut body = Vec::new();
        // On an error, quote what was read.
        let _ = response
            .body_mut()
            .as_reader()
            .take(MAX_RESPONSE_BYTES)
            .read_to_end(&mut body);
        let mut quoted = quote(&body);
        // Some services repeat the path in errors, and the path is the secret.
        if let Some(path) = url
            .reveal()
            .parse::<Uri>()
            .ok()
            .and_then(|uri| uri.path_and_query().map(ToString::to_string))
            && path.len() > 1
        {
            quoted = quoted
                .replace(&path, "…")
                .replace(path.trim_start_matches('/'), "…");
        }
        let why = if quoted.is_empty() {
            format!("the receiver answered {status}")
        } else {
            format!("the receiver answered {status}: {quoted}")
        };
        match status.as_u16() {
            408 | 425 | 429 => Delivery::Retry(why, after),
            404 | 410 => Delivery::Rejected(format!("{why}; check the configured URL")),
            400..500 => Delivery::Rejected(why),
            _ => Delivery::Retry(why, after),
        }
    }

    /// Describes an HTTP error without the URL, which is secret.
    fn describe(&self, error: &ureq::Error) -> String {
        let OpenEndpoint::Http { host, .. } = &self.endpoint else {
            return String::new();
        };
        match error {
            ureq::Error::HostNotFound => format!("{host}: unknown host"),
            ureq::Error::Timeout(_) => {
                format!(
                    "{host} did not respond within {}",
                    humantime::format_duration(self.timeout)
                )
            }
            ureq::Error::ConnectionFailed => format!("cannot connect to {host}"),
            ureq::Error::Io(error) => format!("{host}: {error}"),
            ureq::Error::Tls(error) => format!("{host}: TLS: {error}"),
            ureq::Error::Rustls(error) => format!("{host}: TLS: {error}"),
            ureq::Error::Http(_) | ureq::Error::BadUri(_) => {
                "the message is not a valid HTTP request".to_owned()
            }
            _ => format!("{host} sent an invalid HTTP response"),
        }
    }
}

/// Sends a test message, without retries.
///
/// # Errors
/// Why the receiver did not accept it.
pub fn test(receiver: &OpenReceiver, page: Option<&str>, now: Millis) -> Result<(), String> {
    let notification = Notification::test(&receiver.name, now);
    match receiver.send(
        std::slice::from_ref(&notification),
        &notification.id,
        page,
        now,
    ) {
        Delivery::Delivered => Ok(()),
        Delivery::Retry(why, _) | Delivery::Rejected(why) => Err(why),
    }
}

impl fmt::Debug for OpenReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenReceiver")
            .field("name", &self.name)
            .field("to", &format_args!("{self}"))
            .finish_non_exhaustive()
    }
}

/// Kind and host, without secrets.
impl fmt::Display for OpenReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint {
            OpenEndpoint::Http { form, host, .. } => write!(f, "{} at {host}", form.word()),
            OpenEndpoint::Command(command) => {
                write!(f, "command {}", command.first().map_or("", String::as_str))
            }
        }
    }
}

impl OpenReceiver {
    /// Keyword of the kind: a form, or `command`.
    pub(crate) fn word(&self) -> &'static str {
        match &self.endpoint {
            OpenEndpoint::Http { form, .. } => form.word(),
            OpenEndpoint::Command(_) => "command",
        }
    }
}

impl Form {
    fn word(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Discord => "discord",
            Self::Slack => "slack",
            Self::Ntfy => "ntfy",
            Self::Command => "command",
        }
    }
}

impl SecretRef {
    fn read(&self, folder: &Path) -> Result<Secret, String> {
        let text = match self {
            Self::Inline(secret) => return Ok(secret.clone()),
            Self::File(path) => {
                let path = folder.join(path);
                std::fs::read_to_string(&path)
                    .map_err(|error| format!("{}: {error}", path.display()))?
            }
            Self::Variable(name) => std::env::var(name).map_err(|_| {
                format!("the environment variable {name} is not set; set it, or use a file")
            })?,
        };
        match text.trim() {
            "" => Err("the file or environment variable with the secret is empty".into()),
            text => Ok(text.into()),
        }
    }
}

/// Returns host and port of an HTTP URL.
pub(super) fn host(url: &str) -> Result<String, &'static str> {
    let uri: Uri = url
        .parse()
        .map_err(|_| "the URL is invalid; write https://HOST/PATH")?;
    let authority = uri
        .authority()
        .ok_or("the URL has no host; write https://HOST/PATH")?;
    match uri.scheme_str() {
        Some("http" | "https") if authority.as_str().contains('@') => {
            Err("the URL contains a user name; use token-file or token-env instead")
        }
        Some("http" | "https") if !authority.host().is_empty() => Ok(authority.as_str().to_owned()),
        _ => Err("the URL is not an HTTP URL; write https://HOST/PATH"),
    }
}

fn agent(host: &str, timeout: Duration) -> Agent {
    let name = host.rsplit_once(':').map_or(
        host,
        |(name, port)| if port.ends_with(']') { host } else { name },
    );
    let is_loopback = name == "localhost"
        || name
            .trim_matches(['[', ']'])
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback());
    let config = Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .user_agent(concat!("hailer/", env!("CARGO_PKG_VERSION")))
        .accept("")
        // Messages are rare: the server would close an idle connection.
        .max_idle_connections(0);
    // The proxy of the environment is for other hosts.
    let config = if is_loopback {
        config.proxy(None)
    } else {
        config
    };
    config.build().new_agent()
}

/// Parses `Retry-After`: seconds, or a date.
fn retry_after(value: &str, now: Millis) -> Option<Duration> {
    let value = value.trim();
    let wait = match value.parse::<f64>() {
        // Some services send fractions.
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        Err(_) => {
            let at = rfc2822::parse(value).ok()?.timestamp().as_millisecond();
            Duration::from_millis(u64::try_from(at - now).unwrap_or(0))
        }
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

/// Returns the start of an untrusted text as one printable line.
fn quote(text: &[u8]) -> String {
    let text = printable(&String::from_utf8_lossy(text));
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(MAX_QUOTED_CHARS)
        .collect()
}

/// Runs a command without a shell. Its input and output are empty; its error output is quoted.
fn run(command: &[String], message: &Rendered, timeout: Duration) -> Delivery {
    let Some((program, arguments)) = command.split_first() else {
        return Delivery::Rejected("the command is empty".into());
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command.envs(message.headers.iter().map(|(name, value)| (name, value)));
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return Delivery::Retry(format!("{program}: {error}"), None),
    };
    let (sender, errors) = mpsc::channel();
    if let Some(mut pipe) = child.stderr.take() {
        let reads = move || {
            let mut output = Vec::new();
            let _ = pipe
                .by_ref()
                .take(MAX_RESPONSE_BYTES)
                .read_to_end(&mut output);
            let _ = sender.send(output);
            // Drain the pipe, so that the command does not block on it.
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        };
        // Without a thread, the error output is missing from the error.
        let _ = std::thread::Builder::new()
            .name("alert-errors".into())
            .spawn(reads);
    }
    let has_exited = wait(&mut child, Instant::now() + timeout);
    kill(&mut child);
    if !wait(&mut child, Instant::now() + KILL_TIMEOUT) {
        // It blocks in the kernel, where signals do not reach it.
        return Delivery::Retry(format!("{program} could not be killed"), None);
    }
    let status = child.wait();
    let quoted = errors
        .recv_timeout(PIPE_CLOSE_TIMEOUT)
        .map(|output| quote(&output))
        .unwrap_or_default();
    let quoted = if quoted.is_empty() {
        quoted
    } else {
        format!(": {quoted}")
    };
    match status {
        _ if !has_exited => Delivery::Retry(
            format!(
                "{program} was killed after {}{quoted}",
                humantime::format_duration(timeout)
            ),
            None,
        ),
        Ok(status) if status.success() => Delivery::Delivered,
        Ok(status) => Delivery::Retry(format!("{program} ended with {status}{quoted}"), None),
        Err(error) => Delivery::Retry(format!("{program}: {error}"), None),
    }
}

/// Waits until a child exits, without reaping it, so that its process group can still be killed.
fn wait(child: &mut std::process::Child, until: Instant) -> bool {
    let mut pause = Duration::from_millis(2);
    loop {
        if has_ended(child) {
            return true;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

#[cfg(unix)]
fn has_ended(child: &mut std::process::Child) -> bool {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else {
        return true;
    };
    // NOWAIT does not reap it: until then, its process id is not reused.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    !matches!(
        waitid(WaitId::Pid(pid), options),
        Ok(None) | Err(rustix::io::Errno::INTR)
    )
}

/// Kills a child and its process group.
#[cfg(unix)]
fn kill(child: &mut std::process::Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // Fails if all of them have exited.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn has_ended(child: &mut std::process::Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

#[cfg(not(unix))]
fn kill(child: &mut std::process::Child) {
    let _ = child.kill();
}

/// `[[receiver]]` as written in the configuration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ReceiverConfig {
    name: String,
    form: Option<Form>,
    url: Option<String>,
    url_file: Option<PathBuf>,
    url_env: Option<String>,
    token_file: Option<PathBuf>,
    token_env: Option<String>,
    command: Option<Vec<String>>,
    timeout: Option<ConfigDuration>,
    per_minute: Option<u32>,
}

impl TryFrom<ReceiverConfig> for Receiver {
    type Error = RuleError;

    fn try_from(config: ReceiverConfig) -> Result<Self, RuleError> {
        let name = config.name;
        let error = |problem: &str| RuleError(format!("receiver \"{name}\": {problem}"));
        if !is_valid_name(&name) {
            return Err(RuleError(format!(
                "the name of a receiver must have 1 to {MAX_NAME_CHARS} printable characters"
            )));
        }
        let secrets = |text: Option<String>, file: Option<PathBuf>, variable: Option<String>| {
            let places = [
                text.map(|text| SecretRef::Inline(text.into())),
                file.map(SecretRef::File),
                variable.map(SecretRef::Variable),
            ];
            places.into_iter().flatten().collect::<Vec<_>>()
        };
        let mut urls = secrets(config.url, config.url_file, config.url_env);
        let mut tokens = secrets(None, config.token_file, config.token_env);
        if tokens.len() > 1 {
            return Err(error("write token-file or token-env, not both"));
        }
        let endpoint = match (config.command, config.form, urls.pop()) {
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
                return Err(error("write command, or form and url, not both"));
            }
            (Some(command), None, None) => {
                if command.first().is_none_or(String::is_empty)
                    || command.iter().any(|word| word.contains('\0'))
                {
                    return Err(error("write command = [\"PROGRAM\", \"ARGUMENT\"]"));
                }
                if !tokens.is_empty() {
                    return Err(error("a command takes no token; remove it"));
                }
                Endpoint::Command(command)
            }
            (None, Some(Form::Command), _) => {
                return Err(error(
                    "write command = [\"PROGRAM\"] instead of form = \"command\"",
                ));
            }
            (None, Some(form), Some(url)) if urls.is_empty() => {
                if let SecretRef::Inline(url) = &url {
                    host(url.reveal()).map_err(error)?;
                }
                Endpoint::Http {
                    form,
                    url,
                    token: tokens.pop(),
                }
            }
            (None, Some(_), _) => return Err(error("write one of url, url-file and url-env")),
            (None, None, _) => {
                return Err(error(
                    "write form = \"json\", \"discord\", \"slack\" or \"ntfy\" with a url, or a command",
                ));
            }
        };
        let timeout = config.timeout.map_or(DEFAULT_TIMEOUT, |timeout| timeout.0);
        if !(Duration::from_millis(100)..=Duration::from_secs(300)).contains(&timeout) {
            return Err(error("timeout must be from 100ms to 5m"));
        }
        let per_minute = config.per_minute.unwrap_or(20);
        if !(1..=6_000).contains(&per_minute) {
            return Err(error("per-minute must be from 1 to 6000"));
        }
        Ok(Self {
            name,
            endpoint,
            timeout,
            per_minute,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};

    const NOW: Millis = 1_780_315_200_000;

    fn receiver(toml: &str) -> Result<Receiver, String> {
        toml::from_str(&format!("name = 'ops'\n{toml}")).map_err(|error| error.message().to_owned())
    }

    fn open(toml: &str) -> OpenReceiver {
        receiver(toml).unwrap().open(Path::new(".")).unwrap()
    }

    /// Starts a server that answers one request with `bytes`; the thread returns the request.
    fn answer(bytes: &str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let bytes = bytes.to_owned();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let request = read_request(&mut stream);
            let _ = stream.write_all(bytes.as_bytes());
            request
        });
        (format!("http://127.0.0.1:{port}/hook/hush-hush"), thread)
    }

    /// Reads one request.
    fn read_request(stream: &mut TcpStream) -> String {
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let mut request = Vec::new();
        let mut part = [0; 4096];
        loop {
            let text = String::from_utf8_lossy(&request).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.lines().find_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    name.eq_ignore_ascii_case("content-length")
                        .then(|| value.trim().parse::<usize>().unwrap())
                });
                if body.len() >= length.unwrap_or(0) {
                    return text;
                }
            }
            let read = stream.read(&mut part).unwrap();
            assert!(read > 0, "the request ends too early");
            request.extend_from_slice(&part[..read]);
        }
    }

    fn send(receiver: &OpenReceiver) -> Delivery {
        receiver.send(&[Notification::test("ops", NOW)], "the-key", None, NOW)
    }

    #[test]
    fn status_codes_decide_between_retry_and_rejection() {
        let seconds = |after: u64| Some(Duration::from_secs(after));
        for (head, expected) in [
            ("200 OK", Ok(())),
            ("204 No Content", Ok(())),
            ("500 Oops", Err((true, None))),
            ("503 Busy\r\nRetry-After: 7", Err((true, seconds(7)))),
            (
                "429 Slow\r\nRetry-After: Mon, 01 Jun 2026 12:01:00 GMT",
                Err((true, seconds(60))),
            ),
            (
                "429 Slow\r\nRetry-After: 99999999",
                Err((true, seconds(86_400))),
            ),
            ("408 Late", Err((true, None))),
            ("400 Bad", Err((false, None))),
            ("404 Gone", Err((false, None))),
            (
                "307 Here\r\nLocation: http://127.0.0.2:1/",
                Err((true, None)),
            ),
            (
                "301 There\r\nLocation: http://127.0.0.2:1/",
                Err((false, None)),
            ),
        ] {
            let (url, thread) = answer(&format!(
                "HTTP/1.1 {head}\r\nContent-Length: 24\r\n\r\nno /hook/hush-hush \u{7}here"
            ));
            let delivery = send(&open(&format!("form = 'json'\nurl = '{url}'")));
            let request = thread.join().unwrap();
            assert!(
                request.starts_with("POST /hook/hush-hush HTTP/1.1\r\n"),
                "{request}"
            );
            assert!(
                request
                    .to_lowercase()
                    .contains("\r\nidempotency-key: the-key\r\n"),
                "{request}"
            );
            match delivery {
                Delivery::Delivered => assert_eq!(expected, Ok(()), "{head}"),
                Delivery::Retry(ref why, after) => {
                    assert_eq!(expected, Err((true, after)), "{head}");
                    assert!(!why.contains("hush") && !why.contains('\u{7}'), "{why}");
                }
                Delivery::Rejected(ref why) => {
                    assert_eq!(expected, Err((false, None)), "{head}");
                    assert!(!why.contains("hush"), "{why}");
                }
            }
        }
    }

    #[test]
    fn timeouts_and_invalid_responses_are_retried() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let slow = open(&format!(
            "form = 'ntfy'\nurl = 'http://{address}/hush'\ntimeout = '200ms'"
        ));
        let begun = Instant::now();
        let Delivery::Retry(why, None) = send(&slow) else {
            panic!("expected a timeout")
        };
        assert!(
            why.contains("within 200ms") && !why.contains("hush"),
            "{why}"
        );
        assert!(begun.elapsed() < Duration::from_secs(3));
        drop(listener);
        let Delivery::Retry(why, None) = send(&slow) else {
            panic!("expected a refused connection")
        };
        assert!(why.contains("127.0.0.1") && !why.contains("hush"), "{why}");
        let (url, thread) = answer("what?\r\n\r\n");
        assert!(matches!(
            send(&open(&format!("form = 'slack'\nurl = '{url}'"))),
            Delivery::Retry(..)
        ));
        thread.join().unwrap();
    }

    #[test]
    fn tls_errors_are_retried_and_name_the_host() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad\r\n\r\n");
        });
        let delivery = send(&open(&format!(
            "form = 'json'\nurl = 'https://{address}/hush'\ntimeout = '5s'"
        )));
        thread.join().unwrap();
        assert!(
            matches!(&delivery, Delivery::Retry(why, None) if why.contains("127.0.0.1") && !why.contains("hush")),
            "{delivery:?}"
        );
    }

    #[test]
    fn ntfy_headers_are_utf_8_without_line_breaks() {
        let (url, thread) = answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let file = format!("hailer-alert-token-{}", std::process::id());
        std::fs::write(std::env::temp_dir().join(&file), "tk_secret\n").unwrap();
        let receiver = receiver(&format!(
            "form = 'ntfy'\nurl = '{url}'\ntoken-file = '{file}'"
        ))
        .unwrap();
        let opened = receiver.open(&std::env::temp_dir()).unwrap();
        let _ = std::fs::remove_file(std::env::temp_dir().join(file));
        let mut notification = Notification::test("ops", NOW);
        notification.message.title =
            Some(super::super::template::Template::try_from("Größe {server}".to_owned()).unwrap());
        notification.items[0].name = "сервер\r\nX-Evil: 1".into();
        assert_eq!(
            opened.send(&[notification], "key", None, NOW),
            Delivery::Delivered
        );
        let request = thread.join().unwrap();
        let title = request
            .lines()
            .find(|line| line.to_lowercase().starts_with("title:"))
            .unwrap();
        assert!(title.ends_with("Größe сервер X-Evil: 1"), "{title}");
        assert!(request.contains("Bearer tk_secret"), "{request}");
        assert!(
            !format!("{receiver:?} {opened:?} {opened}").contains("secret"),
            "{opened:?}"
        );
        assert!(
            !format!("{receiver:?} {opened:?} {opened}").contains("hush"),
            "{receiver:?}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn commands_get_variables_and_fail_by_exit_code() {
        let file = std::env::temp_dir().join(format!("hailer-alert-{}", std::process::id()));
        let script = format!(
            "printf '%s|%s' \"$HAILER_SERVER\" \"$HAILER_KEY\" > {}",
            file.display()
        );
        let run = |script: &str| {
            send(&open(&format!(
                "command = ['sh', '-c', '''{script}''']\ntimeout = '5s'"
            )))
        };
        assert_eq!(run(&script), Delivery::Delivered);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "example|the-key");
        let Delivery::Retry(why, None) = run("yes no | head -c 1000000 >&2; exit 3") else {
            panic!()
        };
        assert!(
            why.contains("3") && why.contains(": no no no") && why.chars().count() < 300,
            "{why}"
        );
        assert!(
            matches!(send(&open("command = ['/nowhere/at-all']")), Delivery::Retry(why, None) if why.contains("/nowhere"))
        );
        let _ = std::fs::remove_file(file);
    }

    #[cfg(unix)]
    #[test]
    fn commands_are_killed_with_their_children_after_the_timeout() {
        use rustix::process::{Pid, test_kill_process};
        let file = std::env::temp_dir().join(format!("hailer-alert-child-{}", std::process::id()));
        let script = format!("sleep 60 & echo $! > {}; sleep 60", file.display());
        let begun = Instant::now();
        let delivery = send(&open(&format!(
            "command = ['sh', '-c', '''{script}''']\ntimeout = '500ms'"
        )));
        assert!(
            matches!(&delivery, Delivery::Retry(why, None) if why.contains("killed after 500ms")),
            "{delivery:?}"
        );
        assert!(begun.elapsed() < Duration::from_secs(5));
        let child: i32 = std::fs::read_to_string(&file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let child = Pid::from_raw(child).unwrap();
        // The process that adopts it may take a moment to reap it.
        let stat = || {
            std::fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero()))
                .unwrap_or_default()
        };
        let is_dead = || test_kill_process(child).is_err() || stat().contains(") Z");
        let gone = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            is_dead()
        });
        assert!(gone, "the child of the command still runs");
        let _ = std::fs::remove_file(file);
    }

    #[test]
    fn rejects_invalid_receivers_with_the_fix() {
        for (toml, expected) in [
            ("", "write form"),
            ("form = 'discord'", "url-file"),
            ("form = 'discord'\nurl = 'ftp://example.com/'", "https://"),
            (
                "form = 'discord'\nurl = 'https://user:password@example.com/'",
                "token-file",
            ),
            ("form = 'fax'\nurl = 'https://example.com/'", "ntfy"),
            ("command = []", "PROGRAM"),
            ("command = ['a']\nform = 'json'", "not both"),
            ("command = 'rm -rf'", "sequence"),
            ("form = 'json'\nurl = 'http://a/'\nurl-env = 'B'", "one of"),
            (
                "form = 'json'\nurl = 'http://a/'\ntimeout = '1h'",
                "timeout",
            ),
        ] {
            let error = receiver(toml).unwrap_err();
            assert!(
                error.contains(expected) && !error.contains("password@"),
                "{toml}: {error}"
            );
        }
        let missing = receiver("form = 'json'\nurl-env = 'HAILER_NO_SUCH_VARIABLE'").unwrap();
        assert!(
            missing
                .open(Path::new("."))
                .unwrap_err()
                .0
                .contains("HAILER_NO_SUCH_VARIABLE")
        );
        assert!(receiver("form = 'json'\nurl = 'http://127.0.0.1:9/'").is_ok());
    }
}
