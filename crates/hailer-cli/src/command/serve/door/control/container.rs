//! Containers of Docker or Podman, by the Docker Engine API over its Unix socket.
//!
//! ```text
//!   POST /containers/NAME/start       204 started, 304 runs already, 404 no such container
//!   POST /containers/NAME/stop?t=S    204 stopped, 304 does not run; after S seconds it is killed
//!   GET  /containers/NAME/json        State.Running
//! ```
//!
//! The requests have no version, so that the server uses its own. The configuration checks the
//! names. Limits: 1 MiB for a response.
//!
//! In: the name of a container. Out: requests, their result.
//!
//! May import: `crate::command::serve::door::control`, `hailer`.

use super::Change;
use hailer::proto::model::printable;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::time::timeout;

/// Maximum size of a response.
const MAX_RESPONSE_BYTES: usize = 1 << 20;
/// Maximum length of a quoted error.
const MAX_QUOTED_CHARS: usize = 200;
/// Time beyond the time limit of a stop, in which the server kills the container.
const KILL_TIME: Duration = Duration::from_secs(10);

/// Starts or stops a container. A stop kills it after `limit`.
///
/// # Errors
/// The socket cannot be used, there is no such container, or the server reports an error.
pub(super) async fn change(
    name: &str,
    socket: &Path,
    change: Change,
    limit: Duration,
) -> Result<(), String> {
    let (path, limit) = match change {
        Change::Start => (format!("/containers/{name}/start"), limit),
        Change::Stop => {
            let seconds = limit.as_secs();
            let path = format!("/containers/{name}/stop?t={seconds}");
            (path, limit + KILL_TIME)
        }
    };
    let (status, body) = request(socket, Method::POST, &path, limit).await?;
    match status {
        StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => Ok(()),
        StatusCode::NOT_FOUND => Err(format!(
            "there is no container {name:?} at {}; create it first, as with `docker create`",
            socket.display()
        )),
        status => Err(format!(
            "cannot {} the container {name:?}: {}",
            change.verb(),
            message(status, &body)
        )),
    }
}

/// Returns whether a container runs. `None`: unknown, also while it is paused.
pub(super) async fn is_running(name: &str, socket: &Path, limit: Duration) -> Option<bool> {
    let path = format!("/containers/{name}/json");
    let (status, body) = request(socket, Method::GET, &path, limit).await.ok()?;
    if status != StatusCode::OK {
        return None;
    }
    let body: serde_json::Value = serde_json::from_slice(&body).ok()?;
    let state = body.get("State")?;
    let is = |key: &str| state.get(key).and_then(serde_json::Value::as_bool);
    match (is("Running")?, is("Paused")) {
        (true, Some(true)) => None,
        (is_running, _) => Some(is_running),
    }
}

/// Sends a request without a body. Returns the status and the body of the response.
async fn request(
    socket: &Path,
    method: Method,
    path: &str,
    limit: Duration,
) -> Result<(StatusCode, Bytes), String> {
    let shown = socket.display();
    let exchange = async {
        let stream = UnixStream::connect(socket)
            .await
            .map_err(|error| format!("{shown}: {}", fix_of(&error)))?;
        let broken = |error: hyper::Error| format!("{shown}: no valid HTTP: {error}");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("Host", "localhost")
            .body(Empty::<Bytes>::new())
            .map_err(|error| error.to_string())?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(broken)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_RESPONSE_BYTES);
            let body = body.collect().await;
            let body = body.map_err(|error| format!("{shown}: {error}"))?;
            Ok((status, body.to_bytes()))
        };
        tokio::pin!(exchange);
        tokio::select! {
            result = &mut exchange => result,
            // A response that has arrived can be read after the end of the connection.
            _ = connection => exchange.await,
        }
    };
    timeout(limit, exchange).await.unwrap_or_else(|_| {
        let limit = humantime::format_duration(limit);
        Err(format!("{shown}: no response within {limit}"))
    })
}

/// Returns an error of a connection attempt, and the fix.
fn fix_of(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => {
            "no such socket; start Docker or Podman's API service, or write socket".to_owned()
        }
        ErrorKind::ConnectionRefused => "no program listens; is Docker running?".to_owned(),
        ErrorKind::PermissionDenied => {
            "permission denied; add the user of hailer to the group of the socket".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Returns the message of an error response.
fn message(status: StatusCode, body: &[u8]) -> String {
    let body: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let message = body.as_ref().and_then(|body| body.get("message")?.as_str());
    let message = printable(message.unwrap_or_default());
    let message: String = message.trim().chars().take(MAX_QUOTED_CHARS).collect();
    if message.is_empty() {
        format!("the server responded {status}")
    } else {
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_testkit::api::{ApiRequest, Docker};
    use std::time::Instant;

    const LIMIT: Duration = Duration::from_secs(10);

    fn run<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(future)
    }

    #[test]
    fn a_container_starts_and_stops() {
        run(async {
            let docker = Docker::start("mc");
            let socket = docker.socket();
            assert_eq!(is_running("mc", socket, LIMIT).await, Some(false));
            for _ in 0..2 {
                assert_eq!(change("mc", socket, Change::Start, LIMIT).await, Ok(()));
                assert_eq!(is_running("mc", socket, LIMIT).await, Some(true));
            }
            for _ in 0..2 {
                assert_eq!(change("mc", socket, Change::Stop, LIMIT).await, Ok(()));
                assert_eq!(is_running("mc", socket, LIMIT).await, Some(false));
            }
            let requests = docker.requests();
            let paths: Vec<&str> = requests.iter().map(|request| &*request.path).collect();
            assert_eq!(paths[1], "/containers/mc/start");
            assert_eq!(paths[5], "/containers/mc/stop?t=10");
            assert_eq!(paths[0], "/containers/mc/json");
            assert!(
                requests
                    .iter()
                    .all(|request: &ApiRequest| request.body.is_empty())
            );
        });
    }

    #[test]
    fn failures_of_the_server_are_described() {
        run(async {
            let docker = Docker::start("mc");
            let socket = docker.socket();
            let error = change("other", socket, Change::Start, LIMIT)
                .await
                .unwrap_err();
            assert!(error.contains("there is no container \"other\""), "{error}");
            assert_eq!(is_running("other", socket, LIMIT).await, None);

            docker.pause();
            assert_eq!(is_running("mc", socket, LIMIT).await, None);
            docker.fail("driver failed\n\u{1b}[31mport is already allocated");
            let error = change("mc", socket, Change::Start, LIMIT)
                .await
                .unwrap_err();
            let expected = "cannot start the container \"mc\": driver failed";
            assert!(
                error.starts_with(expected) && error.ends_with("allocated"),
                "{error}"
            );
            assert!(!error.contains(['\n', '\u{1b}']), "{error}");

            docker.hang();
            let started = Instant::now();
            let limit = Duration::from_millis(200);
            let error = change("mc", socket, Change::Start, limit)
                .await
                .unwrap_err();
            assert!(error.contains("no response within 200ms"), "{error}");
            assert_eq!(is_running("mc", socket, limit).await, None);
            assert!(started.elapsed() < LIMIT);
        });
    }

    #[test]
    fn sockets_that_cannot_be_used_are_described() {
        run(async {
            let missing = Path::new("/no/such/docker.sock");
            let error = change("mc", missing, Change::Stop, LIMIT)
                .await
                .unwrap_err();
            assert!(error.contains("/no/such/docker.sock: no such socket; start Docker"));
            // A socket without a listener.
            let docker = Docker::start("mc");
            let socket = docker.socket().with_extension("closed");
            drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
            let error = change("mc", &socket, Change::Stop, LIMIT)
                .await
                .unwrap_err();
            assert!(error.contains("no program listens"), "{error}");
            std::fs::remove_file(socket).unwrap();
        });
    }
}
