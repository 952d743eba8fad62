//! Who may write: whoever knows the token, and no page of another site in their browser.

use super::{Api, Problem};
use crate::web::guard;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::atomic::Ordering;
use subtle::ConstantTimeEq;

/// Shorter ones can be guessed.
const SHORTEST: usize = 16;
const LONGEST: usize = 256;

/// What opens the API for writing. Only its digest is kept.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl Token {
    /// A token of 16 to 256 visible ASCII characters; what is wrong with it otherwise.
    pub fn new(text: &str) -> Result<Self, String> {
        if !(SHORTEST..=LONGEST).contains(&text.len()) {
            return Err(format!(
                "a token has {SHORTEST} to {LONGEST} characters; `openssl rand -hex 32` makes a good one"
            ));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token has only visible ASCII characters; `openssl rand -hex 32` makes a good one".into());
        }
        Ok(Self(Sha256::digest(text).into()))
    }

    /// Compares digests, in constant time.
    fn is(&self, said: &[u8]) -> bool {
        let said: [u8; 32] = Sha256::digest(said).into();
        self.0.ct_eq(&said).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Somebody who may write. A handler that changes something asks for it first.
pub(super) struct Writer;

impl FromRequestParts<Api> for Writer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        api.authorize(&parts.headers, bearer(&parts.headers))
            .map(|()| Self)
    }
}

impl Api {
    /// Whether anybody may write.
    pub(in crate::web) fn has_token(&self) -> bool {
        self.settings().token.is_some()
    }

    /// Lets those write who know the token; `None`: they said none.
    pub(super) fn authorize(
        &self,
        headers: &HeaderMap,
        said: Option<&[u8]>,
    ) -> Result<(), Problem> {
        let settings = self.settings();
        if !is_ours(headers, &settings.hosts) {
            let hint = "a page of another site may not write";
            return Err(Problem::forbidden("origin", hint));
        }
        let Some(token) = &settings.token else {
            let hint = "this monitor has no token, so nobody may write; give it one: token-file = \"FILE\" in its plan";
            return Err(Problem::forbidden("no-token", hint));
        };
        let problem = match said {
            Some(said) if token.is(said) => return Ok(()),
            Some(_) => "this is not the token of this monitor",
            None => "say Authorization: Bearer TOKEN, with the token of this monitor",
        };
        self.0.refused.token.fetch_add(1, Ordering::Relaxed);
        Err(Problem::unauthorized(problem))
    }
}

/// What the asker presents; two headers are none.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let (value, None) = (all.next()?.as_bytes(), all.next()) else {
        return None;
    };
    let (scheme, token) = value.split_at_checked(7)?;
    scheme
        .eq_ignore_ascii_case(b"bearer ")
        .then(|| token.trim_ascii())
}

/// Whether this comes from no browser, or from one that shows a page of ours. Who may write has a header that no page of another
/// site can send unasked; this stands behind that. A name that is not `hosts` may be one that somebody pointed at us.
fn is_ours(headers: &HeaderMap, hosts: &[String]) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    if text("sec-fetch-site").is_some_and(|site| !["same-origin", "none"].contains(&site)) {
        return false;
    }
    let Some(origin) = text("origin") else {
        return true;
    };
    let Some((_, origin)) = origin.split_once("://") else {
        return false;
    };
    let Some(host) = text("host") else {
        return false;
    };
    if !origin.eq_ignore_ascii_case(host) {
        return false;
    }
    guard::is_ours(guard::without_port(host), hosts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    #[test]
    fn tokens_that_can_be_guessed_or_sent_by_no_client_are_none() {
        assert!(Token::new("too short").unwrap_err().contains("16"));
        assert!(Token::new(&"x".repeat(257)).is_err());
        assert!(Token::new("sixteen letters, a blank").is_err());
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is(b"0123456789abcdef") && !token.is(b"0123456789abcdeF") && !token.is(b""));
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn pages_of_others_do_not_write() {
        let hosts = ["watch.example.com".to_owned()];
        let is_ours = |headers: &[(&'static str, &str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
            is_ours(&headers.collect(), &hosts)
        };
        assert!(is_ours(&[("host", "anything.example.com")]), "no browser");
        assert!(is_ours(&[
            ("host", "127.0.0.1:8080"),
            ("origin", "http://127.0.0.1:8080")
        ]));
        assert!(is_ours(&[
            ("host", "[::1]:8080"),
            ("origin", "http://[::1]:8080"),
            ("sec-fetch-site", "same-origin")
        ]));
        assert!(is_ours(&[
            ("host", "watch.example.com"),
            ("origin", "https://Watch.Example.com")
        ]));
        assert!(!is_ours(&[
            ("host", "rebound.example.com"),
            ("origin", "http://rebound.example.com")
        ]));
        assert!(!is_ours(&[
            ("host", "127.0.0.1:8080"),
            ("origin", "https://evil.example.com")
        ]));
        assert!(!is_ours(&[("host", "127.0.0.1:8080"), ("origin", "null")]));
        assert!(!is_ours(&[
            ("host", "127.0.0.1:8080"),
            ("sec-fetch-site", "cross-site")
        ]));
    }
}
