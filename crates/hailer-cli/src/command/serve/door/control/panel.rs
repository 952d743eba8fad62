//! Servers of Pterodactyl and Pelican, by their client API.
//!
//! ```text
//!   POST /api/client/servers/ID/power       {"signal":"start"} or {"signal":"stop"}; 204
//!   GET  /api/client/servers/ID/resources   attributes.current_state
//! ```
//!
//! A panel permits a few hundred requests per minute and key. Limits: 64 KiB for a response, no
//! redirects.
//!
//! In: a server of a panel. Out: requests, their result.
//!
//! May import: `crate::command::serve::action`, `crate::command::serve::door::control`,
//! `crate::http_client`, `hailer`.

use super::super::super::action::agent;
use super::Change;
use crate::http_client;
use hailer::proto::Secret;
use hailer::proto::model::printable;
use std::time::Duration;
use ureq::Body;
use ureq::http::Response;

/// Maximum size of a response.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;
/// Maximum length of a quoted error.
const MAX_QUOTED_CHARS: usize = 200;

/// A server of a panel.
#[derive(Clone)]
pub(super) struct PanelServer {
    /// Address of the panel, without a slash at the end.
    url: String,
    /// Identifier of the server.
    server: String,
    /// Key of the client API.
    token: Secret,
}

impl PanelServer {
    pub(super) fn new(url: &str, server: &str, token: &Secret) -> Self {
        Self {
            url: url.to_owned(),
            server: server.to_owned(),
            token: token.clone(),
        }
    }

    /// Starts or stops the server. Blocks for at most `limit`.
    ///
    /// # Errors
    /// The panel cannot be reached, or refuses. The error never contains the key.
    pub(super) fn change(&self, change: Change, limit: Duration) -> Result<(), String> {
        let body = serde_json::json!({ "signal": change.verb() }).to_string();
        let url = self.address("power");
        let request = agent(&url, limit)
            .post(&url)
            .header("Authorization", &self.authorization())
            .header("Accept", "application/json")
            .header("Content-Type", "application/json");
        let mut response = request
            .send(body.as_bytes())
            .map_err(|error| self.unreachable(error))?;
        let status = response.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(());
        }
        let detail = detail(&mut response);
        // Panels refuse to start a server that runs, and to stop one that does not.
        let is_conflict = matches!(status, 400 | 409);
        if is_conflict && self.is_running(limit) == Some(change == Change::Start) {
            return Ok(());
        }
        Err(format!(
            "{} cannot {} the server {}: {}",
            self.url,
            change.verb(),
            self.server,
            refusal(status, &detail)
        ))
    }

    /// Returns whether the server runs. `None`: unknown. Blocks for at most `limit`.
    pub(super) fn is_running(&self, limit: Duration) -> Option<bool> {
        let url = self.address("resources");
        let request = agent(&url, limit)
            .get(&url)
            .header("Authorization", &self.authorization())
            .header("Accept", "application/json");
        let mut response = request.call().ok()?;
        if response.status().as_u16() != 200 {
            return None;
        }
        let body = read(&mut response)?;
        match body.pointer("/attributes/current_state")?.as_str()? {
            "offline" => Some(false),
            "starting" | "running" | "stopping" => Some(true),
            _ => None,
        }
    }

    fn address(&self, what: &str) -> String {
        format!("{}/api/client/servers/{}/{what}", self.url, self.server)
    }

    fn authorization(&self) -> String {
        format!("Bearer {}", self.token.reveal())
    }

    fn unreachable(&self, error: ureq::Error) -> String {
        format!("{}: {}", self.url, http_client::words(error))
    }
}

/// Returns the fix for a status, or else the error of the panel.
fn refusal(status: u16, detail: &str) -> String {
    let words = match status {
        300..=399 => "it redirects; write the address that the browser shows",
        401 => "the key is wrong; make one under Account, API Credentials",
        403 => "the key may not do this; use a client API key of a user with power permissions",
        404 => "the key sees no such server; write the identifier from the address of its page",
        429 => "too many requests with this key; create a separate key",
        502 | 504 => "the node of the server does not respond",
        _ if detail.is_empty() => return format!("it responded {status}"),
        _ => return detail.to_owned(),
    };
    if detail.is_empty() {
        words.to_owned()
    } else {
        format!("{words} ({detail})")
    }
}

/// Returns the first error of a response.
fn detail(response: &mut Response<Body>) -> String {
    let body = read(response);
    let detail = body
        .as_ref()
        .and_then(|body| body.pointer("/errors/0/detail")?.as_str());
    let detail = printable(detail.unwrap_or_default());
    detail.trim().chars().take(MAX_QUOTED_CHARS).collect()
}

fn read(response: &mut Response<Body>) -> Option<serde_json::Value> {
    let body = response.body_mut().with_config().limit(MAX_RESPONSE_BYTES);
    serde_json::from_slice(&body.read_to_vec().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hailer_testkit::api::Panel;

    const LIMIT: Duration = Duration::from_secs(10);
    const KEY: &str = "ptlc_0123456789abcdef";

    fn server(panel: &Panel) -> PanelServer {
        PanelServer {
            url: panel.url().to_owned(),
            server: "1a7ce997".to_owned(),
            token: KEY.into(),
        }
    }

    #[test]
    fn a_server_starts_and_stops() {
        let panel = Panel::start("1a7ce997", KEY);
        let server = server(&panel);
        assert_eq!(server.is_running(LIMIT), Some(false));
        for _ in 0..2 {
            assert_eq!(server.change(Change::Start, LIMIT), Ok(()));
            assert_eq!(server.is_running(LIMIT), Some(true));
        }
        for _ in 0..2 {
            assert_eq!(server.change(Change::Stop, LIMIT), Ok(()));
            assert_eq!(server.is_running(LIMIT), Some(false));
        }
        let requests = panel.requests();
        let power: Vec<&str> = requests
            .iter()
            .filter(|request| request.method == "POST")
            .map(|request| &*request.body)
            .collect();
        let [start, stop] = [r#"{"signal":"start"}"#, r#"{"signal":"stop"}"#];
        assert_eq!(power, [start, start, stop, stop]);
        let first = &requests[1];
        assert_eq!(first.path, "/api/client/servers/1a7ce997/power");
        assert_eq!(
            first.header("authorization"),
            Some("Bearer ptlc_0123456789abcdef")
        );
        assert_eq!(first.header("accept"), Some("application/json"));
        assert_eq!(first.header("content-type"), Some("application/json"));
    }

    #[test]
    fn refusals_name_the_fix_and_no_key() {
        let panel = Panel::start("1a7ce997", KEY);
        let good = server(&panel);
        let wrong = [
            (
                PanelServer {
                    token: "ptla_wrong".into(),
                    ..good.clone()
                },
                "the key is wrong",
            ),
            (
                PanelServer {
                    server: "ffffffff".into(),
                    ..good.clone()
                },
                "the key sees no such server",
            ),
            (
                PanelServer {
                    url: "http://127.0.0.1:1".into(),
                    ..good.clone()
                },
                "http://127.0.0.1:1: ",
            ),
        ];
        for (server, expected) in wrong {
            let error = server.change(Change::Start, LIMIT).unwrap_err();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("ptl"), "{error}");
            assert_eq!(server.is_running(LIMIT), None);
        }
        for (status, expected) in [
            (301, "it redirects"),
            (403, "the key may not do this"),
            (409, "This server is currently suspended"),
            (429, "too many requests"),
            (500, "it responded 500"),
            (502, "the node of the server does not respond"),
        ] {
            panel.fail(status);
            let error = good.change(Change::Start, LIMIT).unwrap_err();
            assert!(error.contains(expected), "{status}: {error}");
        }
        panel.hang();
        let error = good
            .change(Change::Stop, Duration::from_millis(200))
            .unwrap_err();
        assert!(error.contains("takes too long"), "{error}");
    }
}
