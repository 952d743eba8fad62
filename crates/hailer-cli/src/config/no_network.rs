//! Stands for `network.rs` in a build without the feature `redis`. The table `network` is an error,
//! so no value of these types exists.

#![allow(dead_code, clippy::needless_pass_by_value)]

use super::checker::Checker;
use crate::exit::without;
use hailer::Status;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;
use toml::Spanned;

/// A table `network`.
#[derive(Debug, Deserialize)]
pub(super) struct NetworkInput(IgnoredAny);

/// Reports the table `network` as an error.
pub(super) fn config(
    input: &Spanned<NetworkInput>,
    _: Option<&Status>,
    checker: &mut Checker<'_>,
) -> Option<NetworkConfig> {
    checker.wrong(
        &input.span(),
        format!("server.network: {}", without("redis")),
    )
}

#[derive(Clone, PartialEq)]
pub(crate) struct NetworkConfig {
    pub(crate) redis: Redis,
    pub(crate) prefix: String,
    pub(crate) network_id: String,
    pub(crate) server_id: String,
    pub(crate) host: Option<String>,
    pub(crate) port: u16,
    pub(crate) mode: Mode,
    never: Infallible,
}

#[derive(Clone, PartialEq)]
pub(crate) struct Redis(Infallible);

impl fmt::Display for Redis {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Aggregate,
}

#[derive(Default)]
pub(crate) struct Health {
    pub(crate) is_connected: bool,
    pub(crate) has_network: bool,
    pub(crate) age: Option<std::time::Duration>,
    pub(crate) errors: u64,
    pub(crate) last_error: Option<String>,
}

pub(crate) struct Network(Infallible);

impl Network {
    pub(crate) fn start(config: NetworkConfig) -> anyhow::Result<Self> {
        match config.never {}
    }

    pub(crate) fn start_after(config: NetworkConfig, _: Option<&Self>) -> anyhow::Result<Self> {
        match config.never {}
    }

    pub(crate) fn health(&self) -> Health {
        match self.0 {}
    }

    pub(crate) fn status(&self) -> Arc<Status> {
        match self.0 {}
    }

    pub(crate) fn updates(&self) -> watch::Receiver<Arc<Status>> {
        match self.0 {}
    }

    pub(crate) fn set_status(&self, _: &Status) -> usize {
        match self.0 {}
    }

    pub(crate) fn set_players(&self, _: &[hailer::proto::Player]) -> usize {
        match self.0 {}
    }

    pub(crate) async fn stop(self) {
        match self.0 {}
    }
}
