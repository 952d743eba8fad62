//! Responses with an entity tag, so that clients do not download unchanged data again.

use crate::web::tagged::tagged as with_tag;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
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
    with_tag(headers, &tag, kind, cache, bytes)
}

/// Returns an image or a page for other sites, with fixed headers. Browsers show the image of an
/// error too, so that is always sent whole.
pub(super) fn for_sites(
    headers: &HeaderMap,
    kind: &'static str,
    cache: &'static str,
    text: String,
    status: StatusCode,
    fixed: &[(HeaderName, &'static str)],
) -> Response {
    let no_tags = HeaderMap::new();
    let is_found = status == StatusCode::OK;
    let mut response = tagged(if is_found { headers } else { &no_tags }, kind, cache, text);
    if !is_found {
        *response.status_mut() = status;
        response.headers_mut().remove(header::ETAG);
    }
    for (name, value) in fixed {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    }
    response
}
