//! Checks before every page and API operation: the host name, the request rate and the time limit.

use crate::web::api::{self, Problem};
use crate::web::host::{is_own_host, without_port};
use crate::web::{App, page};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Passes a request on, or rejects it: as JSON for API clients, as a page for browsers.
pub(super) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let is_api = api::is_api_path(request.uri().path());
    let headers = request.headers().clone();
    let reject = |problem: Problem| {
        if is_api {
            problem.into_response()
        } else {
            page::problem(&app, &headers, &problem)
        }
    };
    if let Err(problem) = check_host(request.uri(), &headers, app.hosts.as_deref()) {
        return reject(problem);
    }
    // API requests are counted by the router of the API.
    if let Some(api) = app.api.as_ref().filter(|_| !is_api)
        && let Err(problem) = api.admit(&request)
    {
        return reject(problem);
    }
    match tokio::time::timeout(app.timeout, next.run(request)).await {
        Ok(response) => response,
        Err(_) => reject(Problem::timed_out(app.timeout)),
    }
}

/// Checks the host names of a request: those of the `Host` header and of an absolute-form target
/// (`GET http://HOST/ HTTP/1.1`). `allowed`: names besides addresses and `localhost`; `None`: any.
fn check_host(uri: &Uri, headers: &HeaderMap, allowed: Option<&[String]>) -> Result<(), Problem> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next();
    if hosts.next().is_some() {
        // A proxy in front may have checked the other one.
        return Err(Problem::several_hosts());
    }
    let Some(allowed) = allowed else {
        return Ok(());
    };
    let host = host.map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned());
    let target = uri
        .authority()
        .map(|authority| authority.as_str().to_owned());
    for name in [host, target].into_iter().flatten() {
        let name = without_port(&name);
        if !is_own_host(name, allowed) {
            return Err(Problem::misdirected(name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::StatusCode;

    #[test]
    fn host_header_and_absolute_form_are_both_checked() {
        let status = |uri: &'static str, hosts: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(header::HOST, host.parse().unwrap());
            }
            check_host(&Uri::from_static(uri), &headers, Some(&[]))
                .map_err(|problem| problem.status())
        };
        let misdirected = Err(StatusCode::MISDIRECTED_REQUEST);
        let bad = Err(StatusCode::BAD_REQUEST);
        assert_eq!(status("/", &["localhost"]), Ok(()));
        assert_eq!(status("http://localhost/", &["localhost"]), Ok(()));
        assert_eq!(status("/", &["evil.example"]), misdirected);
        assert_eq!(status("http://evil.example/", &["localhost"]), misdirected);
        assert_eq!(status("http://localhost/", &["evil.example"]), misdirected);
        assert_eq!(status("/", &["localhost", "localhost"]), bad);
        assert_eq!(status("/", &["localhost", "evil.example"]), bad);
        let mut twice = HeaderMap::new();
        twice.append(header::HOST, "a".parse().unwrap());
        twice.append(header::HOST, "b".parse().unwrap());
        assert!(check_host(&Uri::from_static("/"), &twice, None).is_err());
    }
}
