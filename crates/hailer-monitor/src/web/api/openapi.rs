//! OpenAPI document, written by hand; `tests.rs` checks every response against it. The schema of an
//! answer is inserted into it, because many tools read no document but this one.

use super::answer;
use axum::http::HeaderMap;
use axum::response::Response;
use std::sync::LazyLock;

/// OpenAPI 3.1 document, complete.
pub(super) static DOCUMENT: LazyLock<String> = LazyLock::new(|| {
    // References and the id are relative to the document that a schema is in.
    let answer = ANSWER.replace("\"#/", "\"#/components/schemas/Answer/");
    let lines = answer.lines().filter(|line| {
        let key = line.trim_start();
        !key.starts_with("\"$schema\":") && !key.starts_with("\"$id\":")
    });
    let answer: Vec<&str> = lines.collect();
    include_str!("openapi.json").replace(EXTERNAL, &answer.join("\n"))
});
/// Place of the schema of an answer in the document.
const EXTERNAL: &str = r#"{"$ref": "schema/answer-v2.json"}"#;
/// JSON schema of an answer: a copy of `schema/answer-v2.json`, because the archive of a crate holds
/// only files of its folder.
pub(super) const ANSWER: &str = include_str!("answer-v2.json");

/// `GET /openapi.json`
pub(super) async fn document(headers: HeaderMap) -> Response {
    answer::tagged(&headers, "application/json", "no-cache", DOCUMENT.as_str())
}

/// `GET /schema/answer-v2.json`
pub(super) async fn answer_schema(headers: HeaderMap) -> Response {
    answer::tagged(&headers, "application/schema+json", "no-cache", ANSWER)
}
