//! What stands before every page and every operation: by which name we are called, how often one address asks, how long it takes.

use crate::web::api::{self, Problem};
use crate::web::{App, page};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;

/// Lets a request through, or says why not, in the way of whoever asked.
pub(super) async fn guard(State(app): State<App>, request: Request, next: Next) -> Response {
    let is_for_programs = api::is_for_programs(request.uri().path());
    let asked = request.headers().clone();
    let refuse = |problem: Problem| {
        if is_for_programs {
            problem.into_response()
        } else {
            page::problem(&app, &asked, &problem)
        }
    };
    if let Some(hosts) = &app.hosts
        && let Some(name) = called(&asked, request.uri()).filter(|name| !is_ours(name, hosts))
    {
        return refuse(Problem::misdirected(&name));
    }
    // Programs are counted where they are answered.
    if let Some(api) = app.api.as_ref().filter(|_| !is_for_programs)
        && let Err(problem) = api.admit(&request)
    {
        return refuse(problem);
    }
    match tokio::time::timeout(app.patience, next.run(request)).await {
        Ok(response) => response,
        Err(_) => refuse(Problem::slow(app.patience)),
    }
}

/// By which name we are called, without the port.
fn called(asked: &HeaderMap, uri: &Uri) -> Option<String> {
    let host = match asked.get(header::HOST) {
        Some(host) => String::from_utf8_lossy(host.as_bytes()).into_owned(),
        None => uri.authority()?.as_str().to_owned(),
    };
    Some(without_port(&host).to_owned())
}

/// The name of `NAME:PORT`.
pub(super) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether nobody else can have pointed this name at us: an address, this machine, or a name that we were told.
pub(super) fn is_ours(name: &str, hosts: &[String]) -> bool {
    let is_address = name.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    is_address
        || name.eq_ignore_ascii_case("localhost")
        || hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_somebody_pointed_at_us_are_not_ours() {
        let hosts = ["Status.example.com".to_owned()];
        let is_ours = |host: &str| is_ours(without_port(host), &hosts);
        for good in [
            "127.0.0.1:8080",
            "[::1]:8080",
            "[::1]",
            "localhost",
            "LOCALHOST:80",
            "status.example.com:443",
        ] {
            assert!(is_ours(good), "{good}");
        }
        for bad in [
            "evil.example.com",
            "localhost.example.com",
            "status.example.com.:80",
            "",
            "a:b",
            "127.0.0.1.example",
        ] {
            assert!(!is_ours(bad), "{bad}");
        }
    }
}
