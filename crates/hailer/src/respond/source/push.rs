//! Receives statuses: `PUT /status` over HTTP with a bearer token, in the format of [`json`].
//!
//! ```text
//! PUT /status          204, or 401, 413, 422 and so on with {"error": "…"} in one line
//! PUT /status/NAME     the same for one of several servers
//! GET /status          {"age_seconds": 1.5, "status": {…}}; both null before the first one
//! ```
//!
//! It listens on loopback or on a Unix socket, since there is no TLS and the token would be
//! readable elsewhere. Limits: 64 connections, 32 of one network, 10 s for each, one request per
//! connection.
//!
//! In: HTTP requests. Out: statuses and problems, responses.
//!
//! May import: `crate::respond::source`, `crate::respond::source::json`, `crate::support`,
//! `hailer_proto`.

use super::json::{self, MAX_BYTES};
use super::{TimedStatus, now};
use crate::support::listen::ConnectionLimits;
use crate::support::listen::http::{HttpLimits, serve};
#[cfg(unix)]
use crate::support::unix::SocketFile;
use hailer_proto::{Secret, Status};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::fmt;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use subtle::ConstantTimeEq;
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::time::timeout;

/// Time limit for the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of an oversized body that are read and discarded.
const MAX_DISCARDED_BYTES: usize = 16 << 20;
/// Limits of the listener. One request per connection: at one push per second, a new connection for
/// each is cheap enough.
const LIMITS: HttpLimits = HttpLimits {
    connections: ConnectionLimits {
        total: 64,
        per_network: 32,
        first_byte: Duration::from_secs(5),
        idle: None,
        stalled: Duration::from_secs(5),
        lifetime: Some(Duration::from_secs(10)),
    },
    head: Duration::from_secs(5),
    head_bytes: 16 << 10,
    has_keep_alive: false,
    shutdown: Duration::ZERO,
};

/// Listening address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// TCP address.
    Address(SocketAddr),
    /// Path of a Unix socket. It is created, and removed at the end.
    Path(PathBuf),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Path(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Receiver of pushed statuses, with its token.
pub struct PushTarget {
    name: Option<String>,
    /// SHA-256 of the token, compared in constant time. The token itself is not stored.
    token: [u8; 32],
    statuses: watch::Sender<Option<TimedStatus>>,
}

impl fmt::Debug for PushTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushTarget")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl PushTarget {
    /// Creates a receiver at `/status/NAME`, or at `/status` without a name.
    pub fn new(
        name: Option<String>,
        token: &Secret,
        statuses: watch::Sender<Option<TimedStatus>>,
    ) -> Self {
        Self {
            name,
            token: Sha256::digest(token.reveal()).into(),
            statuses,
        }
    }

    fn opens(&self, digest: &[u8; 32]) -> bool {
        self.token.ct_eq(digest).into()
    }
}

/// Listener for pushed statuses.
pub struct Push {
    listener: PushListener,
    targets: Arc<[PushTarget]>,
}

impl fmt::Debug for Push {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push")
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}

enum PushListener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener, SocketFile),
}

impl Push {
    /// Starts to listen.
    ///
    /// # Errors
    /// The address is not a loopback address and `insecure` is false, or the system refuses.
    pub async fn bind(place: &Place, insecure: bool, targets: Vec<PushTarget>) -> io::Result<Self> {
        let listener = match place {
            Place::Address(address) if !insecure && !address.ip().is_loopback() => {
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "not a loopback address: the token would travel in clear text",
                ));
            }
            Place::Address(address) => PushListener::Tcp(TcpListener::bind(address).await?),
            // Owner and group may connect; they also need the token.
            #[cfg(unix)]
            Place::Path(path) => {
                let (listener, file) = crate::support::unix::bind(path, 0o660)?;
                PushListener::Unix(UnixListener::from_std(listener)?, file)
            }
            #[cfg(not(unix))]
            Place::Path(_) => return Err(io::ErrorKind::Unsupported.into()),
        };
        Ok(Self {
            listener,
            targets: targets.into(),
        })
    }

    /// Returns the listening address.
    ///
    /// # Errors
    /// The system does not report the address.
    pub fn place(&self) -> io::Result<Place> {
        Ok(match &self.listener {
            PushListener::Tcp(listener) => Place::Address(listener.local_addr()?),
            #[cfg(unix)]
            PushListener::Unix(_, file) => Place::Path(file.path().into()),
        })
    }

    /// Accepts statuses until it is dropped. No request can end it.
    pub async fn run(self) {
        let targets = self.targets;
        let respond = move |request, _| {
            let targets = targets.clone();
            async move { answer(request, &targets).await }
        };
        match self.listener {
            PushListener::Tcp(listener) => serve(listener, LIMITS, respond, pending()).await,
            #[cfg(unix)]
            PushListener::Unix(listener, _file) => {
                serve(listener, LIMITS, respond, pending()).await
            }
        }
    }
}

type Reply = Response<Full<Bytes>>;

async fn answer(request: Request<Incoming>, targets: &[PushTarget]) -> Reply {
    let digest = bearer(&request).map(|token| <[u8; 32]>::from(Sha256::digest(token)));
    let is_known = |target: &&PushTarget| digest.is_some_and(|digest| target.opens(&digest));
    // Without a valid token, do not reveal which names exist.
    if !targets.iter().any(|target| is_known(&target)) {
        let mut reply = refusal(
            StatusCode::UNAUTHORIZED,
            "send Authorization: Bearer TOKEN, with the token of this server",
        );
        reply
            .headers_mut()
            .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return reply;
    }
    let name = match request.uri().path().strip_prefix("/status") {
        Some("") => None,
        Some(rest) if rest.len() > 1 && rest.starts_with('/') => Some(&rest[1..]),
        _ => {
            return refusal(
                StatusCode::NOT_FOUND,
                "only /status and /status/NAME are here",
            );
        }
    };
    let Some(target) = targets
        .iter()
        .filter(is_known)
        .find(|target| target.name.as_deref() == name)
    else {
        return refusal(
            StatusCode::NOT_FOUND,
            "this token is not valid for a server of this name",
        );
    };
    match *request.method() {
        Method::PUT => match put(request).await {
            Ok(status) => {
                target.statuses.send_replace(Some(TimedStatus {
                    status: Arc::new(status),
                    since: now(),
                }));
                reply(StatusCode::NO_CONTENT, Vec::new())
            }
            Err((code, problem)) => refusal(code, &problem),
        },
        Method::GET => reply(StatusCode::OK, known(target)),
        _ => {
            let mut reply = refusal(
                StatusCode::METHOD_NOT_ALLOWED,
                "PUT a status, or GET what is known",
            );
            reply
                .headers_mut()
                .insert(ALLOW, HeaderValue::from_static("GET, PUT"));
            reply
        }
    }
}

fn bearer<B>(request: &Request<B>) -> Option<&[u8]> {
    let value = request.headers().get(AUTHORIZATION)?.as_bytes();
    let (scheme, token) = value.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())
}

async fn put(request: Request<Incoming>) -> Result<Status, (StatusCode, String)> {
    let too_large = || {
        (
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("a status has at most {MAX_BYTES} bytes"),
        )
    };
    let mut body = request.into_body();
    let mut bytes = Vec::new();
    let mut length = 0;
    let read = async {
        while let Some(frame) = body.frame().await {
            let data = frame?.into_data().unwrap_or_default();
            length += data.len();
            // An oversized body is read up to a limit, because clients read the response only after
            // they have sent everything.
            if length <= MAX_BYTES {
                bytes.extend_from_slice(&data);
            } else if length > MAX_DISCARDED_BYTES {
                break;
            }
        }
        Ok::<_, hyper::Error>(())
    };
    let read = timeout(BODY_TIMEOUT, read).await;
    if length > MAX_BYTES {
        return Err(too_large());
    }
    match read {
        Ok(Ok(())) => json::status(&bytes)
            .map_err(|error| (StatusCode::UNPROCESSABLE_ENTITY, format!("line {error}"))),
        Ok(Err(error)) => Err((
            StatusCode::BAD_REQUEST,
            format!("the body ended early: {error}"),
        )),
        Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body took too long".into())),
    }
}

fn known(target: &PushTarget) -> Vec<u8> {
    #[derive(Serialize)]
    struct Known<'a> {
        age_seconds: Option<f64>,
        status: Option<&'a Status>,
    }
    let timed = target.statuses.borrow().clone();
    let age_seconds = timed
        .as_ref()
        .map(|timed| (timed.age(now()).as_secs_f64() * 1e3).round() / 1e3);
    to_json(&Known {
        age_seconds,
        status: timed.as_ref().map(|timed| &*timed.status),
    })
}

fn refusal(code: StatusCode, problem: &str) -> Reply {
    #[derive(Serialize)]
    struct Refusal<'a> {
        error: &'a str,
    }
    reply(code, to_json(&Refusal { error: problem }))
}

/// Formats an error as one line of JSON.
fn to_json(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

fn reply(code: StatusCode, body: Vec<u8>) -> Reply {
    let mut reply = Response::new(Full::from(body));
    *reply.status_mut() = code;
    if code != StatusCode::NO_CONTENT {
        reply
            .headers_mut()
            .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Starts a listener for two servers and sends it some bytes. Returns its response, and the
    /// statuses of the first server.
    async fn send(bytes: &[u8]) -> (String, watch::Receiver<Option<TimedStatus>>) {
        let (own, timed) = super::super::statuses();
        let (other, _) = super::super::statuses();
        let targets = vec![
            PushTarget::new(None, &"a good token".into(), own),
            PushTarget::new(Some("b".into()), &"another".into(), other),
        ];
        let push = Push::bind(&Place::Address(([127, 0, 0, 1], 0).into()), false, targets)
            .await
            .unwrap();
        let Ok(Place::Address(address)) = push.place() else {
            panic!()
        };
        let task = tokio::spawn(push.run());
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        // The server may close the connection early.
        let _ = stream.write_all(bytes).await;
        let mut response = Vec::new();
        let _ = stream.read_to_end(&mut response).await;
        task.abort();
        (String::from_utf8(response).unwrap(), timed)
    }

    fn request(head: &str, token: &str, body: &str) -> Vec<u8> {
        format!("{head} HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
            .into()
    }

    #[tokio::test]
    async fn every_request_gets_the_right_response() {
        let good = "Bearer a good token";
        let long = format!("{{\"map\": \"{}\"}}", "x".repeat(MAX_BYTES));
        let chunked = format!(
            "PUT /status HTTP/1.1\r\nHost: x\r\nAuthorization: {good}\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n",
            long.len()
        );
        for (bytes, code, body) in [
            (request("PUT /status", good, "{\"map\": \"m\"}"), 204, ""),
            (request("PUT /status", "bearer a good token", "{}"), 204, ""),
            (
                request("GET /status", good, ""),
                200,
                "{\"age_seconds\":null,\"status\":null}",
            ),
            (
                request("PUT /status", "Bearer a good toke", "{}"),
                401,
                "{\"error\":\"send Authorization",
            ),
            (
                request("PUT /status", "Bearer ", "{}"),
                401,
                "{\"error\":\"send Authorization",
            ),
            (
                request("PUT /status", "a good token", "{}"),
                401,
                "{\"error\":\"send Authorization",
            ),
            (
                b"PUT /status HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}".to_vec(),
                401,
                "{\"error\":\"send Authorization",
            ),
            (
                request("PUT /status", "Bearer another", "{}"),
                404,
                "{\"error\":\"this token is not valid",
            ),
            (request("PUT /status/b", "Bearer another", "{}"), 204, ""),
            (
                request("PUT /status/b", good, "{}"),
                404,
                "{\"error\":\"this token is not valid",
            ),
            (
                request("PUT /status/", good, "{}"),
                404,
                "{\"error\":\"only /status",
            ),
            (
                request("PUT /", good, "{}"),
                404,
                "{\"error\":\"only /status",
            ),
            (
                request("POST /status", good, "{}"),
                405,
                "{\"error\":\"PUT a status",
            ),
            (
                request("PUT /status", good, &long),
                413,
                "{\"error\":\"a status has at most 1048576 bytes\"}",
            ),
            (
                chunked.into_bytes(),
                413,
                "{\"error\":\"a status has at most",
            ),
            (
                request("PUT /status", good, "{\n\"x\": 1}"),
                422,
                "{\"error\":\"line 2: unknown field `x`",
            ),
            (
                request("PUT /status", good, ""),
                422,
                "{\"error\":\"line 1: EOF",
            ),
            (b"nonsense\r\n\r\n".to_vec(), 400, ""),
        ] {
            let (response, timed) = send(&bytes).await;
            let request_line = String::from_utf8_lossy(&bytes[..bytes.len().min(100)]).into_owned();
            assert!(
                response.starts_with(&format!("HTTP/1.1 {code} ")),
                "{request_line}: {response}"
            );
            let (_, text) = response.split_once("\r\n\r\n").unwrap();
            assert!(
                text.starts_with(body) && text.lines().count() <= 1,
                "{request_line}: {response}"
            );
            let is_ours = code == 204 && !request_line.contains("/status/b");
            assert_eq!(timed.borrow().is_some(), is_ours, "{request_line}");
        }
    }

    /// An idle connection does not block others.
    #[tokio::test]
    async fn idle_connections_are_closed_when_full() {
        let target = PushTarget::new(None, &"a good token".into(), super::super::statuses().0);
        let push = Push::bind(
            &Place::Address(([127, 0, 0, 1], 0).into()),
            false,
            vec![target],
        )
        .await
        .unwrap();
        let Ok(Place::Address(address)) = push.place() else {
            panic!()
        };
        let task = tokio::spawn(push.run());
        let mut silent = Vec::new();
        for _ in 0..2 * LIMITS.connections.total {
            silent.push(tokio::net::TcpStream::connect(address).await.unwrap());
        }
        let requests = async {
            let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
            stream
                .write_all(&request("PUT /status", "Bearer a good token", "{}"))
                .await
                .unwrap();
            let mut response = Vec::new();
            stream.read_to_end(&mut response).await.unwrap();
            assert!(
                response.starts_with(b"HTTP/1.1 204"),
                "{}",
                String::from_utf8_lossy(&response)
            );
        };
        timeout(Duration::from_secs(2), requests).await.unwrap();
        task.abort();
    }

    #[tokio::test]
    async fn refuses_public_addresses_unless_insecure() {
        let anywhere = Place::Address(([0, 0, 0, 0], 0).into());
        let error = Push::bind(&anywhere, false, Vec::new())
            .await
            .err()
            .unwrap();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn replaces_a_stale_socket_and_removes_its_own() {
        let path = std::env::temp_dir().join(format!("hailer-push-{}.sock", std::process::id()));
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let place = Place::Path(path.clone());
        let push = Push::bind(&place, false, Vec::new()).await.unwrap();
        let in_use = Push::bind(&place, false, Vec::new()).await.err().unwrap();
        assert_eq!(in_use.kind(), io::ErrorKind::AddrInUse);
        drop(push);
        assert!(!path.exists());
        std::fs::write(&path, "precious").unwrap();
        assert!(Push::bind(&place, false, Vec::new()).await.is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
        std::fs::remove_file(&path).unwrap();
    }
}
