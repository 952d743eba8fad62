//! Test notifications: whether the configured receivers can be reached.

use crate::alert::CheckedConfig;
use futures_util::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

/// Sends test notifications.
pub trait TestAlert: Send + Sync + 'static {
    /// Returns the configured rules and receivers.
    fn config(&self) -> &CheckedConfig;

    /// Sends a test notification to one receiver by name, or to all. Returns the result in one
    /// sentence. The API waits at most 10 s for it.
    fn send(&self, to: Option<String>) -> BoxFuture<'_, Result<String, TestAlertError>>;
}

/// Why a test notification was not delivered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TestAlertError {
    /// There is no such receiver; the text lists the receivers.
    #[error("{0}")]
    Unknown(String),
    /// The receiver did not accept the message. The text has the reason.
    #[error("{0}")]
    Failed(String),
}

/// Sends test notifications from the configuration alone, so that any node can do it.
pub struct TestAlerts(Arc<CheckedConfig>);

impl fmt::Debug for TestAlerts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestAlerts").finish_non_exhaustive()
    }
}

impl TestAlerts {
    /// Creates a sender for the receivers of a configuration.
    pub fn new(config: Arc<CheckedConfig>) -> Self {
        Self(config)
    }
}

impl TestAlert for TestAlerts {
    fn config(&self) -> &CheckedConfig {
        &self.0
    }

    fn send(&self, to: Option<String>) -> BoxFuture<'_, Result<String, TestAlertError>> {
        Box::pin(send(self.0.clone(), to))
    }
}

async fn send(config: Arc<CheckedConfig>, to: Option<String>) -> Result<String, TestAlertError> {
    let all: Vec<String> = config
        .receivers()
        .map(|receiver| receiver.name.clone())
        .collect();
    let chosen = match to {
        Some(name) if all.contains(&name) => vec![name],
        Some(name) => {
            return Err(TestAlertError::Unknown(format!(
                "there is no receiver {name:?}; there is {}",
                all.join(", ")
            )));
        }
        None if all.is_empty() => {
            return Err(TestAlertError::Unknown(
                "the configuration has no [[receiver]]".into(),
            ));
        }
        None => all,
    };
    for name in &chosen {
        let config = config.clone();
        let receiver = name.clone();
        let sent = tokio::task::spawn_blocking(move || config.test(&receiver)).await;
        let sent = sent.unwrap_or_else(|_| Err("the test was interrupted; try again".into()));
        sent.map_err(|why| TestAlertError::Failed(format!("{name}: {why}")))?;
    }
    Ok(format!("sent to {}", chosen.join(", ")))
}
