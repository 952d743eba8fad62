//! Responses with an entity tag, so that clients do not download unchanged data again.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Returns `body` with an entity tag, or 304 if the client has it already. `kind`: type of the
/// content; `cache`: how long clients may keep it.
pub(super) fn tagged(
    headers: &HeaderMap,
    tag: &str,
    kind: &'static str,
    cache: &'static str,
    body: impl IntoResponse,
) -> Response {
    let mut response = if is_known(headers, tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = body.into_response();
        let kind = HeaderValue::from_static(kind);
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if let Ok(tag) = HeaderValue::from_str(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Whether the client sent this tag in `If-None-Match`. Weak comparison.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let tag = bare(tag);
    let lists = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok());
    lists
        .flat_map(|list| list.split(','))
        .any(|known| known.trim() == "*" || bare(known) == tag)
}
