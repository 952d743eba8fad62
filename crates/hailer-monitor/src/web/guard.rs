//! Checks before every page and API operation: the host name, the request rate and the time limit.
//! Addresses of renamed servers redirect to the new ones.

use crate::web::api::{self, Problem};
use crate::web::host::{is_own_host, without_port};
use crate::web::{App, page};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};

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
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let uri = request.uri().clone();
    let respond = async {
        let response = next.run(request).await;
        if is_read && response.status() == StatusCode::NOT_FOUND {
            return moved(&app, &uri).await.unwrap_or(response);
        }
        response
    };
    match tokio::time::timeout(app.timeout, respond).await {
        Ok(response) => response,
        Err(_) => reject(Problem::timed_out(app.timeout)),
    }
}

/// Returns the redirect of an address with the former name of a server. It is not permanent, because
/// another server may get the name.
async fn moved(app: &App, uri: &Uri) -> Option<Response> {
    let (folder, name, rest) = named_path(uri.path())?;
    if app.named(name).await.is_some() {
        return None;
    }
    let new = app.history.current_name(name).await.ok()??;
    let query = uri.query().map(|query| format!("?{query}"));
    let address = format!("{folder}{new}{rest}{}", query.unwrap_or_default());
    Some(Redirect::temporary(&address).into_response())
}

/// Splits the path of a server: the folder, its name, and the rest.
fn named_path(path: &str) -> Option<(&str, &str, &str)> {
    for folder in ["/server/", "/badge/", "/widget/", "/api/v1/servers/"] {
        if let Some(name) = path.strip_prefix(folder) {
            let end = name.find('/').unwrap_or(name.len());
            let end = match folder {
                "/badge/" => name.strip_suffix(".svg")?.len(),
                _ => end,
            };
            return Some((&path[..folder.len()], &name[..end], &name[end..]));
        }
    }
    None
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
    use crate::history::{History, NewServer};
    use crate::server::Origin;
    use crate::state::StateTable;
    use std::sync::Arc;

    #[tokio::test]
    async fn former_names_redirect_to_the_server() {
        let history = History::open("sqlite::memory:").await.unwrap();
        let new = NewServer::new("old", "ugp://127.0.0.1", Origin::Configuration);
        let mut server = history.add(&new).await.unwrap();
        for name in ["other", "new"] {
            server.name = name.into();
            history.change(&server).await.unwrap();
        }
        let live = Arc::new(StateTable::default());
        live.set(server.clone());
        let app = App::new(live.clone(), history.clone());
        let redirect = async |address: &'static str| {
            let response = moved(&app, &Uri::from_static(address)).await?;
            let place = response.headers()[header::LOCATION].to_str().unwrap();
            Some(place.to_owned())
        };
        for (old, new) in [
            ("/server/old?days=7", Some("/server/new?days=7")),
            ("/server/other", Some("/server/new")),
            ("/badge/old.svg?label=x", Some("/badge/new.svg?label=x")),
            ("/widget/old", Some("/widget/new")),
            (
                "/api/v1/servers/old/events",
                Some("/api/v1/servers/new/events"),
            ),
            ("/server/new", None),
            ("/server/never", None),
            ("/badge/old", None),
            ("/alerts", None),
        ] {
            assert_eq!(redirect(old).await.as_deref(), new, "{old}");
        }
        history.remove(server.id).await.unwrap();
        assert_eq!(redirect("/server/old").await, None);
    }

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
