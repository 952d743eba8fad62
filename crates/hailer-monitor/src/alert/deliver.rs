//! Sends a message once, and says what came of it: HTTP, or a command. It blocks: it runs on a thread of its own.

use super::engine::Notification;
use super::message::{Form, Rendered, render};
use super::rule::{ConfigDuration, RuleError};
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

/// What a receiver answers, and what a command says of errors: so many bytes are read.
const MAX_RESPONSE_BYTES: u64 = 4 << 10;
/// Of that so many characters are told.
const MAX_QUOTED_CHARS: usize = 200;
/// Unless told otherwise a receiver has so long to answer.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// What a killed command left open is waited for so long.
const PIPE_CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// And the end of a killed command for so long.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Nobody makes us wait longer.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Who gets messages: a `[[receiver]]` of the plan.
///
/// ```toml
/// [[receiver]]
/// name = "ops"
/// form = "discord"                        # json, discord, slack, ntfy
/// url = "https://discord.example/api/…"   # it is as good as a password, so better one of these:
/// # url-file = "ops.url"                  # a relative path counts from the plan
/// # url-env = "OPS_URL"
/// # token-file = "ops.token"              # or token-env: a bearer token, for ntfy and others
/// timeout = "10s"
/// per-minute = 20                         # no more messages than this; five may go at once
///
/// [[receiver]]
/// name = "script"
/// command = ["/usr/local/bin/on-alert", "--from", "hailer"]   # no shell; what happened is in HAILER_… variables;
///                                                             # ./on-alert counts from the plan
/// timeout = "30s"                         # then it is killed, and what it started with it
/// ```
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ReceiverConfig")]
pub struct Receiver {
    /// Unique: alerts name it.
    pub name: String,
    endpoint: Endpoint,
    /// How long it may take.
    pub timeout: Duration,
    /// Messages a minute.
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

/// Where a secret is.
#[derive(Clone, Debug)]
enum SecretRef {
    Here(Secret),
    File(PathBuf),
    Variable(String),
}

/// A receiver whose secrets are read: it can be sent to.
#[derive(Clone)]
pub struct OpenReceiver {
    /// Its name.
    pub name: String,
    /// Messages a minute.
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

/// What came of sending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It has it.
    Delivered,
    /// It may have it another time: why not now, and when it wants to be asked again.
    Retry(String, Option<Duration>),
    /// It does not want it: why.
    Rejected(String),
}

impl Receiver {
    /// Reads its secrets; relative paths count from `folder`.
    ///
    /// # Errors
    /// A secret that is not there, or no URL for HTTP.
    pub fn open(&self, folder: &Path) -> Result<OpenReceiver, RuleError> {
        let wrong = |problem: String| RuleError(format!("receiver \"{}\": {problem}", self.name));
        let endpoint = match &self.endpoint {
            Endpoint::Command(command) => {
                let mut command = command.clone();
                // A name alone is looked for in the PATH.
                if let Some(program) = command.first_mut().filter(|program| program.contains('/')) {
                    *program = folder.join(&*program).to_string_lossy().into_owned();
                }
                OpenEndpoint::Command(command)
            }
            Endpoint::Http { form, url, token } => {
                let url = url.read(folder).map_err(&wrong)?;
                let host = host(url.reveal()).map_err(|problem| wrong(problem.into()))?;
                let token = token
                    .as_ref()
                    .map(|token| token.read(folder))
                    .transpose()
                    .map_err(&wrong)?;
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
    /// Sends what was put together from these; `key` is the same each time that the same is sent.
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
            // As bytes, since names may be in any script: ntfy reads UTF-8 here.
            request = request.header(name.as_str(), value.as_bytes());
        }
        if let Some(token) = token {
            request = request.header("Authorization", format!("Bearer {}", token.reveal()));
        }
        let mut response = match request.send(&message.body[..]) {
            Ok(response) => response,
            Err(error) => return Delivery::Retry(self.why(&error), None),
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
            // Whoever takes our messages elsewhere is not followed: where to is for the plan to say.
            let why = format!(
                "it answers {status}, which sends messages elsewhere; put the new URL into the plan"
            );
            return if matches!(status.as_u16(), 301 | 308) {
                Delivery::Rejected(why)
            } else {
                Delivery::Retry(why, after)
            };
        }
        let mut body = Vec::new();
        // What is not read of it says less.
        let _ = response
            .body_mut()
            .as_reader()
            .take(MAX_RESPONSE_BYTES)
            .read_to_end(&mut body);
        let mut said = tell(&body);
        // Some tell the whole path in their errors, and the path is the password.
        if let Some(path) = url
            .reveal()
            .parse::<Uri>()
            .ok()
            .and_then(|uri| uri.path_and_query().map(ToString::to_string))
            && path.len() > 1
        {
            said = said
                .replace(&path, "…")
                .replace(path.trim_start_matches('/'), "…");
        }
        let why = if said.is_empty() {
            format!("it answers {status}")
        } else {
            format!("it answers {status}: {said}")
        };
        match status.as_u16() {
            408 | 425 | 429 => Delivery::Retry(why, after),
            404 | 410 => {
                Delivery::Rejected(format!("{why}; is it gone? put its new URL into the plan"))
            }
            400..500 => Delivery::Rejected(why),
            _ => Delivery::Retry(why, after),
        }
    }

    /// An error of HTTP without the URL.
    fn why(&self, error: &ureq::Error) -> String {
        let OpenEndpoint::Http { host, .. } = &self.endpoint else {
            return String::new();
        };
        match error {
            ureq::Error::HostNotFound => format!("{host}: there is no such host"),
            ureq::Error::Timeout(_) => {
                format!(
                    "{host} did not answer within {}",
                    humantime::format_duration(self.timeout)
                )
            }
            ureq::Error::ConnectionFailed => format!("{host} cannot be connected to"),
            ureq::Error::Io(error) => format!("{host}: {error}"),
            ureq::Error::Tls(error) => format!("{host}: TLS: {error}"),
            ureq::Error::Rustls(error) => format!("{host}: TLS: {error}"),
            ureq::Error::Http(_) | ureq::Error::BadUri(_) => {
                "what is to be sent is no HTTP request".to_owned()
            }
            _ => format!("{host} does not speak HTTP as it should"),
        }
    }
}

/// Whether messages arrive: sends one, at once, and once.
///
/// # Errors
/// Why it did not arrive.
pub fn test(outlet: &OpenReceiver, page: Option<&str>, now: Millis) -> Result<(), String> {
    let notification = Notification::test(&outlet.name, now);
    match outlet.send(
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
        f.debug_struct("Outlet")
            .field("name", &self.name)
            .field("to", &format_args!("{self}"))
            .finish_non_exhaustive()
    }
}

/// Where it sends to, without what must not be told.
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
    /// What it is, in a word.
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
            Self::Here(secret) => return Ok(secret.clone()),
            Self::File(path) => {
                let path = folder.join(path);
                std::fs::read_to_string(&path)
                    .map_err(|error| format!("{}: {error}", path.display()))?
            }
            Self::Variable(name) => std::env::var(name)
                .map_err(|_| format!("the environment has no {name}; set it, or write url-file"))?,
        };
        match text.trim() {
            "" => Err("the file or variable is empty".into()),
            text => Ok(text.into()),
        }
    }
}

/// Host and port of a URL that can be sent to.
pub(super) fn host(url: &str) -> Result<String, &'static str> {
    let uri: Uri = url
        .parse()
        .map_err(|_| "its URL is none; write https://HOST/PATH")?;
    let authority = uri
        .authority()
        .ok_or("its URL has no host; write https://HOST/PATH")?;
    match uri.scheme_str() {
        Some("http" | "https") if authority.as_str().contains('@') => {
            Err("its URL has a user in it; write token-file or token-env instead")
        }
        Some("http" | "https") if !authority.host().is_empty() => Ok(authority.as_str().to_owned()),
        _ => Err("its URL is not one of HTTP; write https://HOST/PATH"),
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
        // A message an hour: connections that stay open would be closed by then.
        .max_idle_connections(0);
    // The environment's proxy is for what is out there.
    let config = if is_loopback {
        config.proxy(None)
    } else {
        config
    };
    config.build().new_agent()
}

/// Seconds, or a date.
fn retry_after(value: &str, now: Millis) -> Option<Duration> {
    let value = value.trim();
    let wait = match value.parse::<f64>() {
        // Some count fractions.
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        Err(_) => {
            let at = rfc2822::parse(value).ok()?.timestamp().as_millisecond();
            Duration::from_millis(u64::try_from(at - now).unwrap_or(0))
        }
    };
    Some(wait.min(MAX_RETRY_AFTER))
}

/// What somebody said, as part of a sentence of ours.
fn tell(said: &[u8]) -> String {
    let text = printable(&String::from_utf8_lossy(said));
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(MAX_QUOTED_CHARS)
        .collect()
}

/// Runs a command: no shell, nothing on its input, what it says is thrown away but for its errors.
fn run(command: &[String], message: &Rendered, timeout: Duration) -> Delivery {
    let Some((program, arguments)) = command.split_first() else {
        return Delivery::Rejected("there is no command".into());
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
            let mut said = Vec::new();
            let _ = pipe
                .by_ref()
                .take(MAX_RESPONSE_BYTES)
                .read_to_end(&mut said);
            let _ = sender.send(said);
            // So that it can go on talking.
            let _ = std::io::copy(&mut pipe, &mut std::io::sink());
        };
        // Without a thread its errors are not told, no more.
        let _ = std::thread::Builder::new()
            .name("alert-errors".into())
            .spawn(reads);
    }
    let is_over = wait(&mut child, Instant::now() + timeout);
    end(&mut child);
    if !wait(&mut child, Instant::now() + KILL_TIMEOUT) {
        // It hangs within the system, where no signal reaches it.
        return Delivery::Retry(format!("{program} cannot be ended"), None);
    }
    let status = child.wait();
    let said = errors
        .recv_timeout(PIPE_CLOSE_TIMEOUT)
        .map(|said| tell(&said))
        .unwrap_or_default();
    let said = if said.is_empty() {
        said
    } else {
        format!(": {said}")
    };
    match status {
        _ if !is_over => Delivery::Retry(
            format!(
                "{program} was killed after {}{said}",
                humantime::format_duration(timeout)
            ),
            None,
        ),
        Ok(status) if status.success() => Delivery::Delivered,
        Ok(status) => Delivery::Retry(format!("{program} ended with {status}{said}"), None),
        Err(error) => Delivery::Retry(format!("{program}: {error}"), None),
    }
}

/// Waits for the end of a child, and leaves it where it can still be named.
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
    // Not taken away: as long as it lies there, nobody else has its number.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    !matches!(
        waitid(WaitId::Pid(pid), options),
        Ok(None) | Err(rustix::io::Errno::INTR)
    )
}

/// Ends a child, and all that it started and that did not leave its group.
#[cfg(unix)]
fn end(child: &mut std::process::Child) {
    use rustix::process::{Pid, Signal, kill_process_group};
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // They may all have ended by themselves.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

#[cfg(not(unix))]
fn has_ended(child: &mut std::process::Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

#[cfg(not(unix))]
fn end(child: &mut std::process::Child) {
    let _ = child.kill();
}

/// A `[[receiver]]` as it was written.
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
        let wrong = |problem: &str| RuleError(format!("receiver \"{name}\": {problem}"));
        if name.is_empty()
            || name.chars().count() > 64
            || name.chars().any(hailer::proto::model::is_control)
        {
            return Err(RuleError(
                "a receiver has a name of 1 to 64 printable characters".into(),
            ));
        }
        let one = |here: Option<String>, file: Option<PathBuf>, variable: Option<String>| {
            let places = [
                here.map(|text| SecretRef::Here(text.into())),
                file.map(SecretRef::File),
                variable.map(SecretRef::Variable),
            ];
            places.into_iter().flatten().collect::<Vec<_>>()
        };
        let mut urls = one(config.url, config.url_file, config.url_env);
        let mut tokens = one(None, config.token_file, config.token_env);
        if tokens.len() > 1 {
            return Err(wrong("write token-file or token-env, not both"));
        }
        let endpoint = match (config.command, config.form, urls.pop()) {
            (Some(_), Some(_), _) | (Some(_), _, Some(_)) => {
                return Err(wrong("write command, or form and url, not both"));
            }
            (Some(command), None, None) => {
                if command.first().is_none_or(String::is_empty)
                    || command.iter().any(|word| word.contains('\0'))
                {
                    return Err(wrong("write command = [\"PROGRAM\", \"ARGUMENT\"]"));
                }
                if !tokens.is_empty() {
                    return Err(wrong("a command has no token"));
                }
                Endpoint::Command(command)
            }
            (None, Some(Form::Command), _) => {
                return Err(wrong(
                    "write command = [\"PROGRAM\"] instead of form = \"command\"",
                ));
            }
            (None, Some(form), Some(url)) if urls.is_empty() => {
                if let SecretRef::Here(url) = &url {
                    host(url.reveal()).map_err(wrong)?;
                }
                Endpoint::Http {
                    form,
                    url,
                    token: tokens.pop(),
                }
            }
            (None, Some(_), _) => return Err(wrong("write one of url, url-file and url-env")),
            (None, None, _) => {
                return Err(wrong(
                    "write form = \"json\", \"discord\", \"slack\" or \"ntfy\" with a url, or a command",
                ));
            }
        };
        let timeout = config.timeout.map_or(DEFAULT_TIMEOUT, |span| span.0);
        if !(Duration::from_millis(100)..=Duration::from_secs(300)).contains(&timeout) {
            return Err(wrong("a timeout is from 100ms to 5m"));
        }
        let per_minute = config.per_minute.unwrap_or(20);
        if !(1..=6_000).contains(&per_minute) {
            return Err(wrong("per-minute is from 1 to 6000"));
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

    fn outlet(toml: &str) -> OpenReceiver {
        receiver(toml).unwrap().open(Path::new(".")).unwrap()
    }

    /// Answers one request with these bytes, and says what it was.
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

    /// A whole request.
    fn read_request(stream: &mut TcpStream) -> String {
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let (mut request, mut part) = (Vec::new(), [0; 4096]);
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

    fn send(outlet: &OpenReceiver) -> Delivery {
        outlet.send(&[Notification::test("ops", NOW)], "the-key", None, NOW)
    }

    #[test]
    fn what_a_receiver_answers_decides() {
        let later = |after: u64| Some(Duration::from_secs(after));
        for (head, expected) in [
            ("200 OK", Ok(())),
            ("204 No Content", Ok(())),
            ("500 Oops", Err((true, None))),
            ("503 Busy\r\nRetry-After: 7", Err((true, later(7)))),
            (
                "429 Slow\r\nRetry-After: Mon, 01 Jun 2026 12:01:00 GMT",
                Err((true, later(60))),
            ),
            (
                "429 Slow\r\nRetry-After: 99999999",
                Err((true, later(86_400))),
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
            let outcome = send(&outlet(&format!("form = 'json'\nurl = '{url}'")));
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
            match outcome {
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
    fn who_does_not_answer_is_asked_another_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let slow = outlet(&format!(
            "form = 'ntfy'\nurl = 'http://{address}/hush'\ntimeout = '200ms'"
        ));
        let begun = Instant::now();
        let Delivery::Retry(why, None) = send(&slow) else {
            panic!("nobody answered")
        };
        assert!(
            why.contains("within 200ms") && !why.contains("hush"),
            "{why}"
        );
        assert!(begun.elapsed() < Duration::from_secs(3));
        drop(listener);
        let Delivery::Retry(why, None) = send(&slow) else {
            panic!("nobody listened")
        };
        assert!(why.contains("127.0.0.1") && !why.contains("hush"), "{why}");
        let (url, thread) = answer("what?\r\n\r\n");
        assert!(matches!(
            send(&outlet(&format!("form = 'slack'\nurl = '{url}'"))),
            Delivery::Retry(..)
        ));
        thread.join().unwrap();
    }

    #[test]
    fn who_speaks_no_tls_is_told_so() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad\r\n\r\n");
        });
        let outcome = send(&outlet(&format!(
            "form = 'json'\nurl = 'https://{address}/hush'\ntimeout = '5s'"
        )));
        thread.join().unwrap();
        assert!(
            matches!(&outcome, Delivery::Retry(why, None) if why.contains("127.0.0.1") && !why.contains("hush")),
            "{outcome:?}"
        );
    }

    #[test]
    fn headers_of_ntfy_in_any_script() {
        let (url, thread) = answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let file = format!("hailer-alert-token-{}", std::process::id());
        std::fs::write(std::env::temp_dir().join(&file), "tk_secret\n").unwrap();
        let receiver = receiver(&format!(
            "form = 'ntfy'\nurl = '{url}'\ntoken-file = '{file}'"
        ))
        .unwrap();
        let outlet = receiver.open(&std::env::temp_dir()).unwrap();
        let _ = std::fs::remove_file(std::env::temp_dir().join(file));
        let mut notification = Notification::test("ops", NOW);
        notification.words.title =
            Some(super::super::message::Template::try_from("Größe {server}".to_owned()).unwrap());
        notification.items[0].name = "сервер\r\nX-Evil: 1".into();
        assert_eq!(
            outlet.send(&[notification], "key", None, NOW),
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
            !format!("{receiver:?} {outlet:?} {outlet}").contains("secret"),
            "{outlet:?}"
        );
        assert!(
            !format!("{receiver:?} {outlet:?} {outlet}").contains("hush"),
            "{receiver:?}"
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_command_gets_variables_and_its_exit_code_counts() {
        let file = std::env::temp_dir().join(format!("hailer-alert-{}", std::process::id()));
        let script = format!(
            "printf '%s|%s' \"$HAILER_SERVER\" \"$HAILER_KEY\" > {}",
            file.display()
        );
        let run = |script: &str| {
            send(&outlet(&format!(
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
            matches!(send(&outlet("command = ['/nowhere/at-all']")), Delivery::Retry(why, None) if why.contains("/nowhere"))
        );
        let _ = std::fs::remove_file(file);
    }

    #[cfg(unix)]
    #[test]
    fn a_command_that_hangs_is_killed_with_its_children() {
        use rustix::process::{Pid, test_kill_process};
        let file = std::env::temp_dir().join(format!("hailer-alert-child-{}", std::process::id()));
        let script = format!("sleep 60 & echo $! > {}; sleep 60", file.display());
        let begun = Instant::now();
        let outcome = send(&outlet(&format!(
            "command = ['sh', '-c', '''{script}''']\ntimeout = '500ms'"
        )));
        assert!(
            matches!(&outcome, Delivery::Retry(why, None) if why.contains("killed after 500ms")),
            "{outcome:?}"
        );
        assert!(begun.elapsed() < Duration::from_secs(5));
        let child: i32 = std::fs::read_to_string(&file)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let child = Pid::from_raw(child).unwrap();
        // Whoever takes orphans in may need a moment to bury it.
        let stat = || {
            std::fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero()))
                .unwrap_or_default()
        };
        let is_dead = || test_kill_process(child).is_err() || stat().contains(") Z");
        let gone = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            is_dead()
        });
        assert!(gone, "the child of the command lives on");
        let _ = std::fs::remove_file(file);
    }

    #[test]
    fn a_receiver_says_what_is_wrong_with_it() {
        for (toml, says) in [
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
                error.contains(says) && !error.contains("password@"),
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
