//! Totals of all servers.

use super::params::NoParams;
use super::{Api, Problem, answer};
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;

/// `GET /api/v1/totals`
pub(super) async fn now(
    State(api): State<Api>,
    _: NoParams,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    Ok(answer::json(&headers, &*api.live().totals()))
}
