//! Responses with an entity tag, so that clients do not download unchanged data again.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hailer::proto::wire::hexadecimal;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Clients must revalidate each time, which mostly yields 304.
const ASK_AGAIN: &str = "no-cache";

/// Returns a value as JSON.
pub(super) fn json(headers: &HeaderMap, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(mut bytes) => {
            bytes.push(b'\n');
            tagged(headers, "application/json", ASK_AGAIN, bytes)
        }
        // Cannot fail for our own types: keys are strings, and no serializer returns an error.
        Err(error) => {
            super::Problem::unavailable(format!("cannot serialize the response: {error}"))
                .into_response()
        }
    }
}

/// Returns `body`, or 304 if the client has it already.
pub(super) fn tagged(
    headers: &HeaderMap,
    kind: &'static str,
    cache: &'static str,
    bytes: impl AsRef<[u8]> + IntoResponse,
) -> Response {
    // Weak, since a compressed body has the same tag.
    let tag = format!(
        "W/\"{}\"",
        hexadecimal(&Sha256::digest(bytes.as_ref())[..12])
    );
    let mut response = if is_known(headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = bytes.into_response();
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        response
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if let Ok(tag) = HeaderValue::try_from(tag) {
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
