//! What is handed out: with a tag, so that nobody loads twice what has not changed.

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hailer::proto::wire::hexadecimal;
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Always asked again, and then mostly 304.
const ASK_AGAIN: &str = "no-cache";

/// A value as JSON.
pub(super) fn json(asked: &HeaderMap, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(mut bytes) => {
            bytes.push(b'\n');
            tagged(asked, "application/json", ASK_AGAIN, bytes)
        }
        // Our own types: a key of a map that is no text, or an error that one of them made up.
        Err(error) => {
            super::Problem::unavailable(format!("this cannot be written as JSON: {error}"))
                .into_response()
        }
    }
}

/// Bytes of this kind, or 304 if the asker has them.
pub(super) fn tagged(
    asked: &HeaderMap,
    kind: &'static str,
    cache: &'static str,
    bytes: impl AsRef<[u8]> + IntoResponse,
) -> Response {
    // Weak: compressed or not, it says the same.
    let tag = format!(
        "W/\"{}\"",
        hexadecimal(&Sha256::digest(bytes.as_ref())[..12])
    );
    let mut response = match is_known(asked, &tag) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => {
            let mut response = bytes.into_response();
            response
                .headers_mut()
                .insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
            response
        }
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    if let Ok(tag) = HeaderValue::try_from(tag) {
        headers.insert(header::ETAG, tag);
    }
    response
}

/// Whether one of the tags that the asker has is this one, compared weakly.
fn is_known(asked: &HeaderMap, tag: &str) -> bool {
    let bare = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let tag = bare(tag);
    let lists = asked
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok());
    lists
        .flat_map(|list| list.split(','))
        .any(|known| known.trim() == "*" || bare(known) == tag)
}
