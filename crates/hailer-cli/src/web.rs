//! How this program asks web servers: lists of targets, and a monitor's pages.

use crate::exit::without_numbers;
use std::net::IpAddr;
use std::time::Duration;
use ureq::config::ConfigBuilder;
use ureq::http::Uri;
use ureq::typestate::AgentScope;

/// For requests to this address, each of which may take so long in all.
pub(crate) fn config(uri: &Uri, patience: Duration) -> ConfigBuilder<AgentScope> {
    // What is on this machine needs no proxy to be reached.
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(patience))
        .user_agent(concat!("hailer/", env!("CARGO_PKG_VERSION")));
    if is_here { config.proxy(None) } else { config }
}

/// Why there is no answer, in the words of the system.
pub(crate) fn words(error: ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) => without_numbers(&error.to_string()),
        other => other.to_string(),
    }
}
