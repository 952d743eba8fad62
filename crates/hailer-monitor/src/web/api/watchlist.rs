//! Operations of the API that change the monitor: the watchlist, and test alerts.

use super::auth::Writer;
use super::servers::object;
use super::{Api, Problem};
use crate::alert::CheckedConfig;
use crate::server::FieldError;
use crate::test_alert::{TestAlert, TestAlertError};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

/// `POST /api/v1/alerts/test`
pub(super) async fn test_alert(
    State(api): State<Api>,
    _: Writer,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, Problem> {
    let invalid = |errors| Problem::invalid(StatusCode::UNPROCESSABLE_ENTITY, errors);
    let mut to = None;
    for (key, value) in object(&headers, body)? {
        match (&*key, value) {
            ("to", Value::String(name)) => to = Some(name),
            ("to", Value::Null) => {}
            ("to", _) => {
                return Err(invalid(vec![FieldError::new(
                    "to",
                    "must be the name of a receiver or null",
                )]));
            }
            _ => {
                return Err(invalid(vec![FieldError::new(
                    &key,
                    "unknown member; expected to",
                )]));
            }
        }
    }
    let message = api.test_alert(to).await?;
    Ok(Json(json!({ "message": message })).into_response())
}

impl Api {
    /// Returns the configured rules and receivers.
    pub(in crate::web) fn alerts(&self) -> Option<&CheckedConfig> {
        self.0.parts.alerts.as_deref().map(TestAlert::config)
    }

    /// Sends a test alert if the token is right.
    pub(in crate::web) async fn try_alerts(
        &self,
        headers: &HeaderMap,
        token: &[u8],
        to: Option<String>,
    ) -> Result<String, Problem> {
        self.authorize(headers, Some(token))?;
        self.test_alert(to).await
    }

    async fn test_alert(&self, to: Option<String>) -> Result<String, Problem> {
        let Some(alerts) = &self.0.parts.alerts else {
            let hint = "no alerts are configured; add [[alert]] and [[receiver]] blocks to the configuration";
            return Err(Problem::conflict("no-alerts", hint));
        };
        alerts.send(to).await.map_err(|problem| match problem {
            TestAlertError::Unknown(message) => Problem::invalid(
                StatusCode::UNPROCESSABLE_ENTITY,
                vec![FieldError::new("to", message)],
            ),
            TestAlertError::Failed(message) => Problem::not_delivered(message),
        })
    }
}
