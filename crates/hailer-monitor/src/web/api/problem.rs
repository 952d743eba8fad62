//! Errors of the API, in the format of RFC 9457: a keyword for programs, a sentence for people, and the
//! invalid fields.

use crate::history::HistoryError;
use crate::server::FieldError;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::time::Duration;

/// An error response.
#[derive(Debug)]
pub(in crate::web) struct Problem {
    status: StatusCode,
    word: &'static str,
    title: &'static str,
    detail: String,
    errors: Vec<FieldError>,
    /// Delay before the next attempt, in seconds.
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
    /// HTTP status code.
    pub(in crate::web) fn status(&self) -> StatusCode {
        self.status
    }

    /// The error as a sentence without capital and period.
    pub(in crate::web) fn detail(&self) -> &str {
        &self.detail
    }

    /// The error in one line, with the names of the invalid parameters.
    pub(super) fn summary(&self) -> String {
        if self.errors.len() < 2 {
            return self.detail.clone();
        }
        let mut names: Vec<&str> = self.errors.iter().map(|error| &*error.field).collect();
        names.sort_unstable();
        names.dedup();
        format!("invalid parameters: {}", names.join(", "))
    }

    /// Delay before the next attempt, in seconds.
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

    /// Invalid parameters (400), or invalid members of a body (422).
    pub(super) fn invalid(status: StatusCode, errors: Vec<FieldError>) -> Self {
        let detail = match &errors[..] {
            [one] => format!("{}: {}", one.field, one.message),
            all => format!("{} fields are invalid; see `errors`", all.len()),
        };
        Self {
            errors,
            ..Self::new(status, "invalid", "Invalid request", detail)
        }
    }

    /// The body is not a JSON object.
    pub(super) fn body(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "body", "Invalid body", detail)
    }

    pub(super) fn too_large(limit: usize) -> Self {
        let detail = format!("a body must have at most {limit} bytes");
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too-large",
            "Body too large",
            detail,
        )
    }

    pub(super) fn media_type() -> Self {
        let detail = "send the body with Content-Type: application/json";
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "media-type",
            "Body is not JSON",
            detail,
        )
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", "Not found", detail)
    }

    pub(super) fn no_server(name: &str) -> Self {
        // Quote only the start of an untrusted name.
        let name: String = name.chars().take(64).collect();
        Self::not_found(format!("there is no server {name:?}"))
    }

    pub(super) fn method() -> Self {
        let detail = "this method is not supported here; see the header Allow";
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method",
            "Method not allowed",
            detail,
        )
    }

    /// The token is missing or wrong.
    pub(super) fn unauthorized(detail: &str) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "token", "Token required", detail)
    }

    pub(super) fn forbidden(word: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, word, "Forbidden", detail)
    }

    pub(super) fn conflict(word: &'static str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, word, "Conflict", detail)
    }

    pub(super) fn too_many(seconds: u64) -> Self {
        let detail = format!("too many requests from this address; retry in {seconds} s");
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

    /// A receiver did not accept a test alert.
    pub(super) fn not_delivered(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "delivery", "Not delivered", detail)
    }

    /// The request is for another host.
    pub(in crate::web) fn misdirected(name: &str) -> Self {
        let name: String = name.chars().take(64).collect();
        let detail = format!(
            "this monitor does not serve the host {name:?}; to allow it, add hosts = [{name:?}] to [monitor] in the configuration"
        );
        Self::new(
            StatusCode::MISDIRECTED_REQUEST,
            "host",
            "Unknown host",
            detail,
        )
    }

    /// There is more than one `Host` header.
    pub(in crate::web) fn several_hosts() -> Self {
        let detail = "a request must have only one Host header";
        Self::new(
            StatusCode::BAD_REQUEST,
            "host",
            "Invalid Host header",
            detail,
        )
    }

    /// The response took too long.
    pub(in crate::web) fn timed_out(timeout: Duration) -> Self {
        let detail = format!("no response within {} s", timeout.as_secs());
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "slow", "Timed out", detail);
        Self {
            retry_after: Some(5),
            ..problem
        }
    }

    /// The history cannot be read or written.
    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        let problem = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "history",
            "Unavailable",
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
