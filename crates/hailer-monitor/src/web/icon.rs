//! Icons of servers, from the monitor's own origin. Their URLs contain a digest of the content.

use crate::icon::IconId;
use crate::web::tagged::tagged;
use crate::web::{App, page};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;

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
    let cache = "public, max-age=31536000, immutable";
    let mut answer = tagged(&headers, &tag, "image/png", cache, png);
    let policy = HeaderValue::from_static(POLICY);
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
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
