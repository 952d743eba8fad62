//! Authorization of write requests: the token, and protection against other web sites.

use super::{Api, Problem};
use crate::web::host::{is_own_host, without_port};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::atomic::Ordering;
use subtle::ConstantTimeEq;

/// Minimum length of a token, in characters: shorter ones can be guessed.
const MIN_TOKEN_CHARS: usize = 16;
const MAX_TOKEN_CHARS: usize = 256;

/// Token that allows writing. Only its SHA-256 digest is stored.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl Token {
    /// Creates a token from 16 to 256 visible ASCII characters.
    ///
    /// # Errors
    /// The text has another length or other characters. The error documents the fix.
    pub fn new(text: &str) -> Result<Self, String> {
        if !(MIN_TOKEN_CHARS..=MAX_TOKEN_CHARS).contains(&text.len()) {
            return Err(format!(
                "a token must have {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS} characters; create one with `openssl rand -hex 32`"
            ));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a token must consist of visible ASCII characters; create one with `openssl rand -hex 32`".into());
        }
        Ok(Self(Sha256::digest(text).into()))
    }

    /// Compares digests in constant time.
    fn is(&self, presented: &[u8]) -> bool {
        let digest: [u8; 32] = Sha256::digest(presented).into();
        self.0.ct_eq(&digest).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Proof of authorization. Handlers that change something take it as an argument.
pub(super) struct Writer;

impl FromRequestParts<Api> for Writer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        api.authorize(&parts.headers, bearer(&parts.headers))
            .map(|()| Self)
    }
}

impl Api {
    /// Whether a token is configured.
    pub(in crate::web) fn has_token(&self) -> bool {
        self.config().token.is_some()
    }

    /// Checks origin and token; `None`: the request has no token.
    pub(super) fn authorize(
        &self,
        headers: &HeaderMap,
        presented: Option<&[u8]>,
    ) -> Result<(), Problem> {
        let config = self.config();
        if !is_same_site(headers, &config.hosts) {
            let hint = "requests from pages of other sites may not change anything";
            return Err(Problem::forbidden("origin", hint));
        }
        let Some(token) = &config.token else {
            let hint = "this monitor has no token, so writing is disabled; add token-file = \"FILE\" to its configuration";
            return Err(Problem::forbidden("no-token", hint));
        };
        let problem = match presented {
            Some(presented) if token.is(presented) => return Ok(()),
            Some(_) => "wrong token",
            None => "token required; send the header Authorization: Bearer TOKEN",
        };
        self.0.rejected.token.fetch_add(1, Ordering::Relaxed);
        Err(Problem::unauthorized(problem))
    }
}

/// Returns the bearer token. Several `Authorization` headers count as none.
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

/// Whether the request comes from a page of this monitor, or from no browser. The token alone stops
/// other sites, since their pages cannot read it; this is a second line of defense. `hosts`
/// protects against DNS rebinding.
fn is_same_site(headers: &HeaderMap, hosts: &[String]) -> bool {
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
    is_own_host(without_port(host), hosts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    #[test]
    fn rejects_short_long_and_unprintable_tokens() {
        assert!(Token::new("too short").unwrap_err().contains("16"));
        assert!(Token::new(&"x".repeat(257)).is_err());
        assert!(Token::new("sixteen letters, a blank").is_err());
        let token = Token::new("0123456789abcdef").unwrap();
        assert!(token.is(b"0123456789abcdef") && !token.is(b"0123456789abcdeF") && !token.is(b""));
        assert_eq!(format!("{token:?}"), "Token");
    }

    #[test]
    fn rejects_requests_from_pages_of_other_sites() {
        let hosts = ["watch.example.com".to_owned()];
        let is_same_site = |headers: &[(&'static str, &str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
            is_same_site(&headers.collect(), &hosts)
        };
        assert!(
            is_same_site(&[("host", "anything.example.com")]),
            "no browser"
        );
        assert!(is_same_site(&[
            ("host", "127.0.0.1:8080"),
            ("origin", "http://127.0.0.1:8080")
        ]));
        assert!(is_same_site(&[
            ("host", "[::1]:8080"),
            ("origin", "http://[::1]:8080"),
            ("sec-fetch-site", "same-origin")
        ]));
        assert!(is_same_site(&[
            ("host", "watch.example.com"),
            ("origin", "https://Watch.Example.com")
        ]));
        assert!(!is_same_site(&[
            ("host", "rebound.example.com"),
            ("origin", "http://rebound.example.com")
        ]));
        assert!(!is_same_site(&[
            ("host", "127.0.0.1:8080"),
            ("origin", "https://evil.example.com")
        ]));
        assert!(!is_same_site(&[
            ("host", "127.0.0.1:8080"),
            ("origin", "null")
        ]));
        assert!(!is_same_site(&[
            ("host", "127.0.0.1:8080"),
            ("sec-fetch-site", "cross-site")
        ]));
    }
}
