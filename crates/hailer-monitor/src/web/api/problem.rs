//! What went wrong, as RFC 9457 has it: a word for programs, a sentence for people, the fields at fault.

use crate::history::HistoryError;
use crate::server::FieldError;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::time::Duration;

/// What went wrong.
#[derive(Debug)]
pub(in crate::web) struct Problem {
    status: StatusCode,
    word: &'static str,
    title: &'static str,
    detail: String,
    errors: Vec<FieldError>,
    /// Seconds.
    retry_after: Option<u64>,
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "<[FieldError]>::is_empty")]
    errors: &'a [FieldError],
}

impl Problem {
    /// What became of it, as HTTP says it.
    pub(in crate::web) fn status(&self) -> StatusCode {
        self.status
    }

    /// A sentence for people.
    pub(in crate::web) fn detail(&self) -> &str {
        &self.detail
    }

    /// After so many seconds it may go better.
    pub(in crate::web) fn retry_after(&self) -> Option<u64> {
        self.retry_after
    }

    fn new(
        status: StatusCode,
        word: &'static str,
        title: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            status,
            word,
            title,
            detail: detail.into(),
            errors: Vec::new(),
            retry_after: None,
        }
    }

    /// Parameters or members that cannot be understood: 400 of an address, 422 of a body.
    pub(super) fn invalid(status: StatusCode, errors: Vec<FieldError>) -> Self {
        let detail = match &errors[..] {
            [one] => format!("{}: {}", one.field, one.message),
            all => format!("{} things are wrong; `errors` has them", all.len()),
        };
        Self {
            errors,
            ..Self::new(status, "invalid", "Not understood", detail)
        }
    }

    /// A body that is no JSON object.
    pub(super) fn body(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            "body",
            "The body cannot be read",
            detail,
        )
    }

    pub(super) fn too_large(limit: usize) -> Self {
        let detail = format!("a body has {limit} bytes at most");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            "The body is too large",
            detail,
        )
    }

    pub(super) fn media_type() -> Self {
        let detail = "send the body with Content-Type: application/json";
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "media-type",
            "The body is no JSON",
            detail,
        )
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    pub(super) fn no_server(name: &str) -> Self {
        // What was asked for may be anything, and long.
        let name: String = name.chars().take(64).collect();
        Self::not_found(format!("no server is called {name:?}"))
    }

    pub(super) fn method() -> Self {
        let detail = "this address has other methods; the header Allow names them";
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method",
            "Not this method",
            detail,
        )
    }

    /// The token is missing or wrong.
    pub(super) fn unauthorized(detail: &str) -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "token",
            "Only with the token",
            detail,
        )
    }

    pub(super) fn forbidden(word: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, word, "Not allowed", detail)
    }

    pub(super) fn conflict(word: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, word, "Not as things stand", detail)
    }

    pub(super) fn too_many(seconds: u64) -> Self {
        let detail = format!("too many requests from this address; come again in {seconds} s");
        let problem = Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "rate",
            "Too many requests",
            detail,
        );
        Self {
            retry_after: Some(seconds),
            ..problem
        }
    }

    /// Somebody behind us failed.
    pub(super) fn behind(detail: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_GATEWAY,
            "delivery",
            "It was not delivered",
            detail,
        )
    }

    /// A name that is none of ours.
    pub(in crate::web) fn misdirected(name: &str) -> Self {
        let name: String = name.chars().take(64).collect();
        let detail = format!(
            "this monitor is not known as {name:?}; if it should be: hosts = [{name:?}] in [monitor] of its plan"
        );
        Self::new(
            StatusCode::MISDIRECTED_REQUEST,
            "host",
            "Not this name",
            detail,
        )
    }

    /// It took too long.
    pub(in crate::web) fn slow(patience: Duration) -> Self {
        let detail = format!("there was no answer within {} s", patience.as_secs());
        let problem = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "slow",
            "Not in time",
            detail,
        );
        Self {
            retry_after: Some(5),
            ..problem
        }
    }

    /// The history cannot be read or written now.
    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        let problem = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "history",
            "Not now",
            detail,
        );
        Self {
            retry_after: Some(5),
            ..problem
        }
    }
}

impl From<HistoryError> for Problem {
    fn from(error: HistoryError) -> Self {
        Self::unavailable(error.to_string())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let Self {
            status,
            word,
            title,
            detail,
            errors,
            retry_after,
        } = self;
        let r#type = format!("urn:hailer:problem:{word}");
        let body = Body {
            r#type,
            title,
            status: status.as_u16(),
            detail: &detail,
            errors: &errors,
        };
        let mut json = serde_json::to_vec(&body).unwrap_or_default();
        json.push(b'\n');
        let mut response = (status, json).into_response();
        let headers = response.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/problem+json"),
        );
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"hailer\""),
            );
        }
        response
    }
}
