//! HTTP client configuration, for target lists and the API of a monitor.

use crate::exit::without_numbers;
use std::net::IpAddr;
use std::time::Duration;
use ureq::config::ConfigBuilder;
use ureq::http::Uri;
use ureq::typestate::AgentScope;

/// Returns the configuration for requests to this address. `patience` limits a whole request.
pub(crate) fn config(uri: &Uri, timeout: Duration) -> ConfigBuilder<AgentScope> {
    // Do not use a proxy for this machine.
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .user_agent(concat!("hailer/", env!("CARGO_PKG_VERSION")));
    if is_here { config.proxy(None) } else { config }
}

/// Describes a failed request, in the words of the operating system where possible.
pub(crate) fn words(error: ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => without_numbers(&error.to_string()),
        #[cfg(not(feature = "tls"))]
        ureq::Error::TlsRequired => crate::exit::without("tls"),
        other => other.to_string(),
    }
}
