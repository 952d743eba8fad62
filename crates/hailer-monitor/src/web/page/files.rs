//! Static files, embedded in the program. Their URLs contain a digest of the content.

use crate::web::App;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hailer::proto::wire::hexadecimal;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// A static file.
struct File {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
    /// First half of the digest, in hexadecimal.
    digest: LazyLock<String>,
}

macro_rules! file {
    ($name:literal, $kind:literal) => {{
        const BYTES: &[u8] = include_bytes!(concat!("../static/", $name));
        File {
            name: $name,
            kind: $kind,
            bytes: BYTES,
            digest: LazyLock::new(|| hexadecimal(&Sha256::digest(BYTES)[..8])),
        }
    }};
}

static FILES: [File; 3] = [
    file!("style.css", "text/css; charset=utf-8"),
    file!("page.js", "text/javascript; charset=utf-8"),
    file!("icon.svg", "image/svg+xml"),
];

/// Returns the URL of a file. It changes with the content.
pub(crate) fn address(name: &str) -> String {
    match FILES.iter().find(|file| file.name == name) {
        Some(file) => format!("/static/{name}?v={}", *file.digest),
        None => format!("/static/{name}"),
    }
}

/// `/static/{name}`
pub(crate) async fn show(
    State(app): State<App>,
    Path(name): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let Some(file) = FILES.iter().find(|file| file.name == name) else {
        return super::error(
            &app,
            &headers,
            StatusCode::NOT_FOUND,
            "There is no file at this address.",
        );
    };
    let digest = &*file.digest;
    let tag = format!("\"{digest}\"");
    let is_named = query.is_some_and(|query| query.strip_prefix("v=") == Some(digest));
    let keep = if is_named {
        "public, max-age=31536000, immutable"
    } else {
        "public, no-cache"
    };
    let mut answer = if is_known(&headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, file.kind)], file.bytes).into_response()
    };
    answer
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static(keep));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        answer.headers_mut().insert(header::ETAG, tag);
    }
    answer
}

/// Whether the client has this tag. The prefix `W/` is ignored, since compression makes strong tags
/// weak.
pub(crate) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut tags = known.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}
