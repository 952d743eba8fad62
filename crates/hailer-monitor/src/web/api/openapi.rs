//! OpenAPI document, written by hand; `tests.rs` checks every response against it.

use super::answer;
use axum::http::HeaderMap;
use axum::response::Response;

/// OpenAPI 3.1 document.
pub(super) const DOCUMENT: &str = include_str!("openapi.json");
/// JSON schema of an answer: a copy of `schema/answer-v2.json`, because the archive of a crate holds
/// only files of its folder.
pub(super) const ANSWER: &str = include_str!("answer-v2.json");

/// `GET /openapi.json`
pub(super) async fn document(headers: HeaderMap) -> Response {
    answer::tagged(&headers, "application/json", "no-cache", DOCUMENT)
}

/// `GET /schema/answer-v2.json`
pub(super) async fn answer_schema(headers: HeaderMap) -> Response {
    answer::tagged(&headers, "application/schema+json", "no-cache", ANSWER)
}
