//! Totals of all servers.

use super::params::Params;
use super::{Api, Problem, answer};
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::response::Response;

/// `GET /api/v1/totals`
pub(super) async fn now(
    State(api): State<Api>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Params::read(&uri, &[], &[]).end()?;
    Ok(answer::json(&headers, &*api.live().totals()))
}
