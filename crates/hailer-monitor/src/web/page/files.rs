//! Static files, embedded in the program. Their URLs contain a digest of the content.

use crate::web::App;
use crate::web::tagged::tagged;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
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
    tagged(&headers, &tag, file.kind, keep, file.bytes)
}
