//! What there is to ask, for programs: written by hand, and held against every answer by `tests.rs`.

use super::answer;
use axum::http::HeaderMap;
use axum::response::Response;

/// The document, OpenAPI 3.1.
pub(super) const DOCUMENT: &str = include_str!("openapi.json");
/// What a server answered: the one schema of the tool and of the API.
pub(super) const ANSWER: &str = include_str!("../../../../../schema/answer-v2.json");

/// `GET /openapi.json`
pub(super) async fn document(asked: HeaderMap) -> Response {
    answer::tagged(&asked, "application/json", "no-cache", DOCUMENT)
}

/// `GET /schema/answer-v2.json`
pub(super) async fn answer_schema(asked: HeaderMap) -> Response {
    answer::tagged(&asked, "application/schema+json", "no-cache", ANSWER)
}
