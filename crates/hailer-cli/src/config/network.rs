//! The table `network` of a server: its membership in a OneQuery network.

use super::checker::{Checker, RedisKeys};
use super::reader::{FromText, IntegerBetween, Parsed, Time};
use hailer::Status;
pub(crate) use hailer::respond::network::{Health, Mode, Network, NetworkConfig};
use serde::Deserialize;
use std::path::PathBuf;
use toml::Spanned;

/// A table `network`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct NetworkInput {
    url: Spanned<String>,
    server_id: Spanned<String>,
    network_id: Option<Spanned<String>>,
    prefix: Option<Spanned<String>>,
    host: Option<String>,
    port: Option<IntegerBetween<u16, 1, 65_535>>,
    mode: Option<Parsed<Mode>>,
    #[serde(default)]
    cluster: bool,
    heartbeat: Option<Spanned<Parsed<Time<1_000>>>>,
    refresh: Option<Spanned<Parsed<Time<1_000>>>>,
    user: Option<Spanned<String>>,
    password_file: Option<Spanned<PathBuf>>,
    ca_file: Option<Spanned<PathBuf>>,
    certificate_file: Option<Spanned<PathBuf>>,
    key_file: Option<Spanned<PathBuf>>,
}

impl FromText for Mode {
    type Value = Self;
    const EXPECTED: &'static str = "\"publish\", \"sync\" or \"aggregate\"";

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// Converts the table `network` of a server with this status, if the file has it.
pub(super) fn config(
    input: &Spanned<NetworkInput>,
    status: Option<&Status>,
    checker: &mut Checker<'_>,
) -> Option<NetworkConfig> {
    let span = input.span();
    let input = input.get_ref();
    let mut config = match NetworkConfig::new(input.url.get_ref()) {
        Ok(config) => config,
        Err(error) => return checker.wrong(&input.url.span(), format!("server.network.{error}")),
    };
    config.server_id.clone_from(input.server_id.get_ref());
    if let Some(id) = &input.network_id {
        config.network_id.clone_from(id.get_ref());
    }
    if let Some(prefix) = &input.prefix {
        config.prefix.clone_from(prefix.get_ref());
    }
    // 0 stands for the listener's port, which is not known yet.
    config.host.clone_from(&input.host);
    config.port = input.port.map_or(0, |port| port.0);
    config.mode = input.mode.as_ref().map_or(config.mode, |mode| mode.0);
    config.redis.is_cluster = input.cluster;
    let time = |time: &Option<Spanned<Parsed<Time<1_000>>>>| Some(time.as_ref()?.get_ref().0);
    config.heartbeat = time(&input.heartbeat).unwrap_or(config.heartbeat);
    config.refresh = time(&input.refresh).unwrap_or(config.refresh);
    let keys = RedisKeys {
        user: &input.user,
        password_file: &input.password_file,
        ca_file: &input.ca_file,
        certificate_file: &input.certificate_file,
        key_file: &input.key_file,
    };
    keys.apply("server.network", &mut config.redis, checker)?;
    if let Err(error) = config.check() {
        let place = match error.key {
            "server-id" => Some(input.server_id.span()),
            "network-id" => input.network_id.as_ref().map(Spanned::span),
            "prefix" => input.prefix.as_ref().map(Spanned::span),
            "heartbeat" => input.heartbeat.as_ref().map(Spanned::span),
            "refresh" => input.refresh.as_ref().map(Spanned::span),
            _ => None,
        };
        let span = place.unwrap_or(span);
        return checker.wrong(&span, format!("server.network.{error}"));
    }
    let players = status.map_or(&[][..], |status| &status.players.list);
    let without = players
        .iter()
        .filter(|player| player.uuid.is_none())
        .count();
    if without > 0 {
        let text = format!(
            "server.status.players: {without} without a uuid, which other servers of the network do not see; write {{ name = …, uuid = … }}"
        );
        checker.warn(&span, text);
    }
    Some(config)
}
