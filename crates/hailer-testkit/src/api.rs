//! Fakes of HTTP APIs that start and stop games, after their public documentation, and a receiver of
//! webhooks.
//!
//! In: the name of a container or a server. Out: a fake on a Unix socket or on loopback, and the
//! requests that it got.
//!
//! May import: nothing of this workspace.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
#[cfg(unix)]
use std::os::unix::net::UnixListener;
#[cfg(unix)]
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A request that a fake got.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    pub method: String,
    /// With the query.
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl ApiRequest {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }

    fn read(stream: impl Read) -> io::Result<Self> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let mut words = line.split_whitespace().map(str::to_owned);
        let (Some(method), Some(path)) = (words.next(), words.next()) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        let mut headers = Vec::new();
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self {
            method,
            path,
            headers,
            body: String::new(),
        };
        let length = request.header("content-length");
        let length: u64 = length.map_or(0, |length| length.parse().unwrap_or(0));
        reader.take(length).read_to_string(&mut request.body)?;
        Ok(request)
    }
}

/// Status and JSON of a response.
type Response = (u16, String);

/// Called with whether the game runs now.
type OnChange = Box<dyn FnMut(bool) + Send>;

#[derive(Default)]
struct State {
    requests: Vec<ApiRequest>,
    is_running: bool,
    is_paused: bool,
    /// Status and message of all responses.
    failure: Option<Response>,
    /// Requests get no response.
    hangs: bool,
    on_change: Option<OnChange>,
}

impl State {
    fn set(&mut self, is_running: bool) {
        if let Some(on_change) = self
            .on_change
            .as_mut()
            .filter(|_| self.is_running != is_running)
        {
            on_change(is_running);
        }
        self.is_running = is_running;
    }
}

type Shared = Arc<Mutex<State>>;

fn lock(state: &Shared) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Records a request and sends the response of `respond`.
fn answer<S: Write>(
    mut stream: S,
    request: io::Result<ApiRequest>,
    state: &Shared,
    respond: impl Fn(&ApiRequest, &mut State) -> Response,
) {
    let Ok(request) = request else { return };
    let mut state = lock(state);
    state.requests.push(request.clone());
    if state.hangs {
        // The stream is closed when the test ends.
        std::mem::forget(stream);
        return;
    }
    let (status, body) = match &state.failure {
        Some(failure) => failure.clone(),
        None => respond(&request, &mut state),
    };
    let length = match status {
        204 | 304 => String::new(),
        _ => format!(
            "Content-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        ),
    };
    let _ = write!(
        stream,
        "HTTP/1.1 {status} Fake\r\nConnection: close\r\n{length}\r\n{body}"
    );
}

fn requests_of(state: &Shared) -> Vec<ApiRequest> {
    lock(state).requests.clone()
}

/// A fake of the Docker Engine API with one container that exists and does not run.
#[cfg(unix)]
pub struct Docker {
    socket: PathBuf,
    state: Shared,
}

#[cfg(unix)]
impl Docker {
    pub fn start(container: &str) -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("hailer-docker-{}-{number}.sock", std::process::id());
        let socket = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        let state = Shared::default();
        let (shared, container) = (state.clone(), container.to_owned());
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let request = ApiRequest::read(&stream);
                answer(stream, request, &shared, |request, state| {
                    docker(&container, request, state)
                });
            }
        });
        Self { socket, state }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    pub fn requests(&self) -> Vec<ApiRequest> {
        requests_of(&self.state)
    }

    /// Calls this with whether the container runs, when that changes.
    pub fn on_change(&self, on_change: impl FnMut(bool) + Send + 'static) {
        lock(&self.state).on_change = Some(Box::new(on_change));
    }

    /// The container ends by itself.
    pub fn end(&self) {
        lock(&self.state).set(false);
    }

    pub fn is_running(&self) -> bool {
        lock(&self.state).is_running
    }

    pub fn pause(&self) {
        let mut state = lock(&self.state);
        state.is_running = true;
        state.is_paused = true;
    }

    /// All requests fail with this message.
    pub fn fail(&self, message: &str) {
        let message = message.replace('\n', "\\n").replace('\u{1b}', "\\u001b");
        lock(&self.state).failure = Some((500, format!("{{\"message\":\"{message}\"}}")));
    }

    /// From now on, no request gets a response.
    pub fn hang(&self) {
        lock(&self.state).hangs = true;
    }
}

#[cfg(unix)]
impl Drop for Docker {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
    }
}

#[cfg(unix)]
fn docker(container: &str, request: &ApiRequest, state: &mut State) -> Response {
    let path = request.path.split('?').next().unwrap_or_default();
    let mut parts = path
        .strip_prefix("/containers/")
        .unwrap_or_default()
        .split('/');
    let name = parts.next().unwrap_or_default();
    if name != container {
        return (
            404,
            format!("{{\"message\":\"No such container: {name}\"}}"),
        );
    }
    let is_running = state.is_running;
    match (&*request.method, parts.next().unwrap_or_default()) {
        ("POST", "start" | "stop") if (request.path.contains("start")) == is_running => {
            (304, String::new())
        }
        ("POST", "start") => {
            state.set(true);
            (204, String::new())
        }
        ("POST", "stop") => {
            state.set(false);
            (204, String::new())
        }
        ("GET", "json") => {
            let status = match (is_running, state.is_paused) {
                (true, true) => "paused",
                (true, false) => "running",
                (false, _) => "exited",
            };
            let paused = state.is_paused;
            let state = format!(
                "{{\"Status\":\"{status}\",\"Running\":{is_running},\"Paused\":{paused},\"Restarting\":false,\"OOMKilled\":false,\"Dead\":false,\"Pid\":0,\"ExitCode\":0,\"Error\":\"\"}}"
            );
            let body = format!("{{\"Id\":\"abc\",\"Name\":\"/{name}\",\"State\":{state}}}");
            (200, body)
        }
        _ => (404, "{\"message\":\"page not found\"}".to_owned()),
    }
}

/// A fake of the client API of Pterodactyl and Pelican with one server that is offline.
pub struct Panel {
    url: String,
    state: Shared,
}

impl Panel {
    pub fn start(server: &str, key: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Shared::default();
        let (shared, server, key) = (state.clone(), server.to_owned(), key.to_owned());
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let request = ApiRequest::read(&stream);
                answer(stream, request, &shared, |request, state| {
                    panel(&server, &key, request, state)
                });
            }
        });
        Self { url, state }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn requests(&self) -> Vec<ApiRequest> {
        requests_of(&self.state)
    }

    /// Calls this with whether the server runs, when that changes.
    pub fn on_change(&self, on_change: impl FnMut(bool) + Send + 'static) {
        lock(&self.state).on_change = Some(Box::new(on_change));
    }

    pub fn is_running(&self) -> bool {
        lock(&self.state).is_running
    }

    /// All requests fail with this status. 409 has a detail.
    pub fn fail(&self, status: u16) {
        let body = match status {
            409 => errors(
                status,
                "This server is currently suspended and the functionality requested is unavailable.",
            ),
            _ => "{}".to_owned(),
        };
        lock(&self.state).failure = Some((status, body));
    }

    /// From now on, no request gets a response.
    pub fn hang(&self) {
        lock(&self.state).hangs = true;
    }
}

fn errors(status: u16, detail: &str) -> String {
    format!(
        "{{\"errors\":[{{\"code\":\"HttpException\",\"status\":\"{status}\",\"detail\":\"{detail}\"}}]}}"
    )
}

fn panel(server: &str, key: &str, request: &ApiRequest, state: &mut State) -> Response {
    if request.header("authorization") != Some(&format!("Bearer {key}")) {
        return (401, errors(401, "Unauthenticated."));
    }
    let prefix = "/api/client/servers/";
    let (id, what) = request
        .path
        .strip_prefix(prefix)
        .and_then(|rest| rest.split_once('/'))
        .unwrap_or_default();
    if id != server {
        return (
            404,
            errors(
                404,
                "The requested resource could not be found on the server.",
            ),
        );
    }
    let is_running = state.is_running;
    match (&*request.method, what, &*request.body) {
        ("POST", "power", "{\"signal\":\"start\"}") if is_running => (
            400,
            errors(400, "Cannot start server, server is already running."),
        ),
        ("POST", "power", "{\"signal\":\"start\"}") => {
            state.set(true);
            (204, String::new())
        }
        ("POST", "power", "{\"signal\":\"stop\"}") => {
            state.set(false);
            (204, String::new())
        }
        ("POST", "power", _) => (422, errors(422, "The selected signal is invalid.")),
        ("GET", "resources", _) => {
            let current = if is_running { "running" } else { "offline" };
            let resources = "{\"memory_bytes\":0,\"cpu_absolute\":0,\"disk_bytes\":0,\"uptime\":0}";
            let body = format!(
                "{{\"object\":\"stats\",\"attributes\":{{\"current_state\":\"{current}\",\"is_suspended\":false,\"resources\":{resources}}}}}"
            );
            (200, body)
        }
        _ => (404, errors(404, "Not Found")),
    }
}

/// A receiver of webhooks, which accepts everything.
pub struct Receiver {
    url: String,
    state: Shared,
}

impl Receiver {
    #[expect(clippy::new_without_default, reason = "it starts a thread")]
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Shared::default();
        let shared = state.clone();
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let request = ApiRequest::read(&stream);
                answer(stream, request, &shared, |_, _| (204, String::new()));
            }
        });
        Self { url, state }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    pub fn requests(&self) -> Vec<ApiRequest> {
        requests_of(&self.state)
    }

    /// Waits up to 20 s for this many requests, and returns all.
    pub fn wait(&self, count: usize) -> Vec<ApiRequest> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let requests = self.requests();
            if requests.len() >= count || Instant::now() > until {
                return requests;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
