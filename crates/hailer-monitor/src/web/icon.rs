//! Icons of servers, from the monitor's own origin. Their URLs contain a digest of the content.

use crate::icon::IconId;
use crate::web::page::files::is_known;
use crate::web::{App, page};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Content security policy of an icon that is opened as a page.
const POLICY: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";

/// `/icon/{digest}.png`
pub(super) async fn show(
    State(app): State<App>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    let id: Option<IconId> = name
        .strip_suffix(".png")
        .and_then(|digest| digest.parse().ok());
    let icon = match id {
        Some(id) => read(&app, id).await,
        None => None,
    };
    let Some((id, png)) = id.zip(icon) else {
        let text = "There is no icon at this address.";
        return page::error(&app, &headers, StatusCode::NOT_FOUND, text);
    };
    let tag = format!("\"{id}\"");
    let mut answer = if is_known(&headers, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, "image/png")], png).into_response()
    };
    let headers = answer.headers_mut();
    let fixed = [
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    answer
}

/// Returns an icon from memory, or else from the history.
async fn read(app: &App, id: IconId) -> Option<Vec<u8>> {
    if let Some(icon) = app.live.icons().find(id) {
        return Some(icon.to_png());
    }
    let icon = app.history.icon(id).await.ok()??;
    let bytes = icon.to_png();
    // The history may have been changed by another program.
    (app.live.icons().insert(icon) == Some(id)).then_some(bytes)
}
